"""What an experiment has shown so far: stored blocks in, tables of estimates out.

Bayesian pseudo-regret is the sum over steps of max(means) - means[action], averaged over instances
drawn from the prior (over the noise alone where the means are fixed). Realised regret has the
reward in place of the pulled arm's mean; its expectation is the same and its variance is larger.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from bandit_gym.experiments.catalogue import make_problem
from bandit_gym.experiments.experiment import Entry, Experiment, Run
from bandit_gym.experiments.recording import recorded_steps
from bandit_gym.experiments.storage import BlockState, Store
from bandit_gym.results import statistics
from bandit_gym.results.statistics import Interval
from bandit_gym.typing import FloatArray, IntArray

QUANTILES = {"5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95}


@dataclass(frozen=True)
class RunResults:
    """What is stored of one run, restricted to the replications that the experiment asks for.

    Attributes:
        run: the run.
        replications: (R,) indices of the stored replications, sorted.
        receipts: what is known of the blocks beside their results.
        failures: block -> traceback of the blocks that raised.
        paths: the stored blocks' files.
    """

    run: Run
    replications: IntArray
    receipts: tuple[dict[str, Any], ...]
    failures: dict[int, str]
    paths: tuple[Path, ...]

    @property
    def steps(self) -> IntArray:
        """(S,) recorded steps."""
        return recorded_steps(self.run.horizon, self.run.recording)

    @property
    def is_usable(self) -> bool:
        """Whether there is anything to report: some blocks, and none that failed."""
        return len(self.replications) > 0 and not self.failures

    def curves(self, column: str) -> FloatArray:
        """Return a column as (R, S), one row per replication; see `tables.DESCRIPTIONS`."""
        values = np.concatenate([self._read(path, column) for path in self.paths])
        return values[: len(self.replications)]

    def final(self, column: str) -> FloatArray:
        """Return the (R,) values of a column at the horizon."""
        return self.curves(column)[:, -1]

    def seconds_per_decision(self) -> float:
        """Return the agent's own time for one `act` and `observe` of one lane."""
        seconds = sum(receipt["agent_seconds"] for receipt in self.receipts)
        return float(seconds / sum(receipt["decisions"] for receipt in self.receipts))

    def _read(self, path: Path, column: str) -> FloatArray:
        values = pq.read_table(path, columns=[column])[column].to_numpy()
        return values.reshape(-1, len(self.steps))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Results:
    """What is stored of an experiment; blocks that are missing or damaged are left out.

    Attributes:
        experiment: what was asked for.
        version: of the engine that drew the numbers; see `files.RESULTS_VERSION`.
        runs: what there is of each of its runs, in its order.
    """

    experiment: Experiment
    version: int
    runs: tuple[RunResults, ...]

    @property
    def num_missing(self) -> int:
        """Blocks that are still to come."""
        return sum(self.experiment.num_blocks - len(found.paths) for found in self.runs)

    @property
    def failed(self) -> list[RunResults]:
        """Runs in which a block raised."""
        return [found for found in self.runs if found.failures]

    def usable(self, environment: Entry) -> list[RunResults]:
        """Return the runs in an environment that can be reported."""
        return [r for r in self.runs if r.run.environment == environment and r.is_usable]

    def reference(self, environment: Entry) -> RunResults | None:
        """Return the first agent's run in an environment; None if it cannot be reported."""
        first = self.experiment.agents[0]
        return next((r for r in self.usable(environment) if r.run.agent == first), None)

    def frames(self) -> Iterator[pd.DataFrame]:
        """Yield the tidy rows block by block, so that no more than one is in memory."""
        for found in self.runs:
            for path in found.paths:
                frame = pd.read_parquet(path)
                yield frame[frame["replication"] < self.experiment.replications]


def load_results(directory: str | Path) -> Results:
    """Read what a folder holds, also while an experiment is at work in it.

    Raises:
        FileNotFoundError: if there is no such folder.
        FileExistsError: if the folder holds no experiment.
        ValueError: if it was written in another format.
    """
    if not Path(directory).is_dir():
        raise FileNotFoundError(f"the folder must exist, got {str(directory)!r}.")
    store = Store(Path(directory))
    experiment = store.load_experiment()
    runs = tuple(_load_run(store, experiment, run) for run in experiment.runs)
    return Results(experiment, store.results_version, runs)


def paired_differences(
    found: RunResults, reference: RunResults, column: str
) -> tuple[IntArray, FloatArray]:
    """Subtract the reference run's curves, replication by replication.

    Both met the same means and the same reward noise, so most of the luck cancels.

    Returns:
        (R,) replications that both runs have, and (R, S) differences.
    """
    common, rows, reference_rows = np.intersect1d(
        found.replications, reference.replications, assume_unique=True, return_indices=True
    )
    return common, found.curves(column)[rows] - reference.curves(column)[reference_rows]


def summarise(results: Results) -> pd.DataFrame:
    """Tabulate the state at the horizon, one row per run that can be reported.

    Columns: `env`, `agent`, `replications`; `pseudo_regret`, `realised_regret`, `simple_regret`,
    `best_arm_found` and `samples_per_decision` as estimates of means, each followed by the ends
    `_low` and `_high` of its 95 % interval; quantiles of the pseudo-regret; `difference`, the mean
    pseudo-regret less that of the environment's first agent, paired by replication, with its
    interval and `p_holm`, corrected for the number of agents compared in the environment.

    The table depends on the results alone, to the last bit.
    """
    rows: list[dict[str, Any]] = []
    for environment in results.experiment.environments:
        runs = results.usable(environment)
        rows += _describe_all(runs, results.reference(environment))
    return pd.DataFrame(rows)


def regret_name(environment: Entry) -> str:
    """Say in words which regret a table or an axis shows."""
    return "pseudo-regret" if "means" in environment.options else "Bayesian pseudo-regret"


def lower_bound_slope(environment: Entry) -> float | None:
    """Return the Lai-Robbins constant C of a fixed instance; None where means are drawn afresh."""
    means = environment.options.get("means")
    if means is None:
        return None
    likelihood = make_problem(environment.target, environment.options).likelihood
    return statistics.lai_robbins_slope(likelihood, np.asarray(means))


def _describe_all(runs: list[RunResults], reference: RunResults | None) -> Iterator[dict[str, Any]]:
    differences = [_final_differences(found, reference) for found in runs]
    p_values = [statistics.paired_p_value(values) for values in differences]
    corrected = statistics.holm(p_values)
    for found, values, p_value in zip(runs, differences, corrected, strict=True):
        difference = _spread("difference", statistics.mean_interval(values))
        yield _describe(found) | difference | {"p_holm": p_value}


def _final_differences(found: RunResults, reference: RunResults | None) -> FloatArray:
    """Return the paired differences at the horizon, one NaN where there is nothing to compare."""
    if reference is None or found is reference:
        return np.array([np.nan])
    _, differences = paired_differences(found, reference, "pseudo_regret")
    return differences[:, -1] if len(differences) else np.array([np.nan])


def _describe(found: RunResults) -> dict[str, Any]:
    run = found.run
    regret = found.final("pseudo_regret")
    row: dict[str, Any] = {
        "env": run.environment.label,
        "agent": run.agent.label,
        "replications": len(regret),
    }
    for column in ("pseudo_regret", "realised_regret", "simple_regret"):
        row |= _spread(column, statistics.mean_interval(found.final(column)))
    row |= _spread("best_arm_found", statistics.proportion_interval(found.final("best_arm_found")))
    samples = found.final("num_samples") / run.horizon
    row |= _spread("samples_per_decision", statistics.mean_interval(samples))
    return row | {name: float(np.quantile(regret, q)) for name, q in QUANTILES.items()}


def _spread(name: str, interval: Interval) -> dict[str, float]:
    return {name: interval.estimate, f"{name}_low": interval.low, f"{name}_high": interval.high}


def aggregate(results: Results) -> pd.DataFrame:
    """Tabulate each agent over all environments: interquartile mean of scores and its interval.

    A score is a replication's final pseudo-regret divided by what uniform play loses on average in
    that environment: 0 is perfect, 1 no better than chance. Only replications and agents present in
    every environment count.
    """
    rows = []
    for agent, scores in normalised_scores(results).items():
        interval = statistics.bootstrap_interval(scores, statistics.interquartile_mean)
        rows.append({"agent": agent, "replications": len(scores), **_spread("score_iqm", interval)})
    return pd.DataFrame(rows)


def normalised_scores(results: Results) -> dict[str, FloatArray]:
    """Return for each agent label the (R, E) scores that `aggregate` describes."""
    scores = {}
    for agent in results.experiment.agents:
        runs = [found for found in results.runs if found.run.agent == agent]
        if all(found.is_usable for found in runs):
            common = reduce(np.intersect1d, [found.replications for found in runs])
            columns = [_score(found)[np.isin(found.replications, common)] for found in runs]
            scores[agent.label] = np.stack(columns, axis=1)
    return scores


def _score(found: RunResults) -> FloatArray:
    scores: FloatArray = found.final("pseudo_regret") / found.final("uniform_regret").mean()
    return scores


def _load_run(store: Store, experiment: Experiment, run: Run) -> RunResults:
    blocks = range(experiment.num_blocks)
    whole = [block for block in blocks if store.state(run, block) is BlockState.COMPLETE]
    replications = [r for block in whole for r in run.replications(block)]
    wanted = [r for r in replications if r < experiment.replications]
    return RunResults(
        run=run,
        replications=np.array(wanted, dtype=np.int64),
        paths=tuple(store.block_path(run, block) for block in whole),
        receipts=tuple(store.read_receipt(run, block) for block in whole),
        failures=store.read_failures(run),
    )
