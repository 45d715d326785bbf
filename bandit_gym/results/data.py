"""What is stored of an experiment: its rows as one data frame, and the numbers made of them.

Notation: R replications, S recorded steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bandit_gym.checks import check_choice, check_folder
from bandit_gym.checks.typing import FloatArray, IntArray
from bandit_gym.experiments.blocks import (
    COLUMNS,
    DOUBT_COLUMNS,
    OWN_DIAGNOSTICS,
    Outcome,
    columns_of,
)
from bandit_gym.experiments.entries import Entry
from bandit_gym.experiments.experiment import Experiment, Run
from bandit_gym.experiments.store import Block, Store
from bandit_gym.results.statistics import (
    SIGNIFICANCE_LEVEL,
    Interval,
    bootstrap_interval,
    correct_by_holm,
    estimate_column,
    interquartile_mean,
    is_coverage_doubtful,
    mean_interval,
    paired_p_value,
)

CURVES = "env", "agent", "step", "mean", "low", "high"
"""The columns of `StoredResults.curves`."""

RANKING = "env", "agent", "regret", "low", "high", "verdict"
"""The columns of `StoredResults.ranking`."""

QUANTILES = {"5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95}

IS_SHARED = int(pd.__version__.partition(".")[0]) < 3
"""Whether a shallow copy of a frame is changed with it: from pandas 3 on, what is written to is."""


@dataclass(frozen=True)
class RunResults:
    """What is stored of one run, restricted to the replications that the experiment asks for.

    Attributes:
        run: the run.
        rows: those of the results that are its own, R S of them.
        blocks: the stored blocks that are whole, in their order.
        failures: block -> traceback of the blocks that raised.
        timings: block -> the `agent_seconds` that its `decisions` took, where that is known.
    """

    run: Run
    rows: pd.DataFrame
    blocks: tuple[Block, ...]
    failures: dict[int, str]
    timings: dict[int, dict[str, Any]]

    @property
    def replications(self) -> IntArray:
        """(R,) indices of the stored replications, sorted."""
        return np.asarray(self._read("replication")[:, 0])

    @cached_property
    def steps(self) -> IntArray:
        """(S,) recorded steps, up to the end of the longest episode, such as a table's last row."""
        lengths = self._read("decisions")[:, -1]
        longest = int(np.nan_to_num(lengths, nan=self.run.horizon).max(initial=1))
        return np.unique(np.minimum(self.run.steps, longest))

    @property
    def is_usable(self) -> bool:
        """Whether there is anything to report: some blocks, and no failed ones."""
        return bool(self.blocks) and not self.failures

    @property
    def failure(self) -> str:
        """The first line of what the first failed block raised; nothing where none did."""
        return next(iter(self.failures.values()), "").partition("\n")[0]

    def curves(self, column: str) -> FloatArray:
        """Return a column as (R, S), one row per replication; see `blocks.COLUMNS`.

        Raises:
            ValueError: if no agent declared or reported it, or it holds no numbers.
        """
        known = [name for name in self.rows if pd.api.types.is_numeric_dtype(self.rows[name])]
        return self._read(check_choice("column", column, known))[:, : len(self.steps)]

    def final(self, column: str) -> FloatArray:
        """Return the (R,) values of a column at the horizon."""
        return self.curves(column)[:, -1]

    def seconds_per_decision(self) -> float:
        """Return the agent's own time for one `act` and `observe` of one lane; NaN if unknown."""
        seconds = sum(facts["agent_seconds"] for facts in self.timings.values())
        decisions = sum(facts["decisions"] for facts in self.timings.values())
        return float(seconds / decisions) if decisions else float("nan")

    def _read(self, column: str) -> np.ndarray:
        return self.rows[column].to_numpy().reshape(-1, len(self.run.steps))


@dataclass(frozen=True, repr=False, eq=False)
class StoredResults:
    """What is stored of an experiment; blocks that are missing or damaged are left out.

    Attributes:
        experiment: what was asked for.
        version: of the engine that drew the numbers; see `files.RESULTS_VERSION`.
        rows: one per environment, agent, replication and recorded step, those of a run together.
        runs: what there is of each of its runs, in its order.
        damaged: names of the blocks that are torn, altered, or just being written.
        num_kept: blocks of other code that are in the folder too, and do not count.
    """

    experiment: Experiment
    version: int
    rows: pd.DataFrame
    runs: tuple[RunResults, ...]
    damaged: tuple[str, ...] = ()
    num_kept: int = 0

    @property
    def num_missing(self) -> int:
        """Blocks that are still to come."""
        return sum(self.experiment.num_blocks - len(run.blocks) for run in self.runs)

    @property
    def failed(self) -> list[RunResults]:
        """Runs in which a block raised."""
        return [run for run in self.runs if run.failures]

    def usable(self, environment: Entry) -> list[RunResults]:
        """Return the runs in an environment that can be reported."""
        return [r for r in self.runs if r.run.environment == environment and r.is_usable]

    def reference(self, environment: Entry) -> RunResults | None:
        """Return the first agent's run in an environment; None if it cannot be reported."""
        first = self.experiment.agents[0]
        return next((r for r in self.usable(environment) if r.run.agent == first), None)

    def frame(self) -> pd.DataFrame:
        """Return all tidy rows; where an agent does not report another one's diagnostic, NaN."""
        return self.rows.copy(deep=IS_SHARED)

    def table(self) -> pd.DataFrame:
        """Return the state at the horizon, one row per run; see `summarise` for the columns."""
        return pd.DataFrame(self.estimates)

    @cached_property
    def estimates(self) -> list[dict[Any, Any]]:
        """The rows of `table`, computed once: to resample takes most of a report's time."""
        return summarise(self).to_dict("records")

    def ranking(self) -> pd.DataFrame:
        """Return who has the least regret, best first in each environment.

        Returns:
            A row per run: env, agent, regret at the horizon, low and high (the ends of its 95 %
            interval), and the verdict on the difference from the first agent.
        """
        table = self.table()
        table["place"] = table["env"].map({name: n for n, name in enumerate(table["env"].unique())})
        table = table.sort_values(["place", "cumulative_regret"], kind="stable", ignore_index=True)
        names = {"cumulative_regret": "regret"}
        names |= {f"cumulative_regret_{end}": end for end in ("low", "high")}
        return table.rename(columns=names)[[*RANKING]]

    def curves(self, column: str = "cumulative_regret") -> pd.DataFrame:
        """Return the mean of a column after each recorded step, with its 95 % interval.

        Returns:
            A row per environment, agent and step: env, agent, step, mean, low, high. Below
            10 replications the ends of the interval are NaN.
        """
        tables = [pd.DataFrame(columns=[*CURVES])] * (not any(run.is_usable for run in self.runs))
        for run in (run for run in self.runs if run.is_usable):
            labels = run.run.environment.label, run.run.agent.label
            values = *labels, run.steps, *estimate_column(column, run.curves(column))
            tables.append(pd.DataFrame(dict(zip(CURVES, values, strict=True))))
        return pd.concat(tables, ignore_index=True)

    def save(self, directory: str | Path) -> None:
        """Store all blocks in a folder, from which `load_results` reads them again.

        Args:
            directory: a new or empty folder, or one of the same experiment.

        Raises:
            FileExistsError: if the folder holds something else.
        """
        codes = {each.run.name: each.blocks[0].code for each in self.runs if each.blocks}
        store = Store(check_folder("directory", directory), codes)
        with store.locked(self.experiment):
            for each in self.runs:
                for block in each.blocks:
                    number = block.replications.start // each.run.block_size
                    facts = each.timings.get(number, {})
                    store.write(Outcome(each.run, number, block.data.to_pybytes(), facts))
                for number, text in each.failures.items():
                    store.write(Outcome(each.run, number, None, {}, text))


def read_rows(blocks: Sequence[Block]) -> pd.DataFrame:
    """Return the rows of all blocks, in their order, in columns that are filled block by block.

    So there is never more in memory than the frame, one block, and the bytes of the files.
    """
    lengths = [len(block.replications) * len(block.run.steps) for block in blocks]
    stored = [{*block.names, *block.own} for block in blocks]
    every = set[str]().union(*stored)
    names = [name for name in columns_of(every) if name != OWN_DIAGNOSTICS]
    names += sorted(every.difference(COLUMNS))
    keys = {
        "experiment": [block.run.digest for block in blocks],
        "env": [block.run.environment.label for block in blocks],
        "agent": [block.run.agent.label for block in blocks],
    }
    columns: dict[str, Any] = {}
    for name in names:
        if name in keys:
            codes, labels = pd.factorize(np.array(keys[name], dtype=object))
            columns[name] = pd.Categorical.from_codes(np.repeat(codes, lengths), labels)
        else:  # int only where all blocks have it
            is_int = (
                name in COLUMNS and COLUMNS[name].type is int and all(name in s for s in stored)
            )
            columns[name] = np.full(sum(lengths), np.int64(-1) if is_int else np.nan)
    start = 0
    for block, length in zip(blocks, lengths, strict=True):
        for name, values in block.columns().items():
            columns[name][start : start + length] = values
        start += length
    return pd.DataFrame(columns, copy=False)


# -- Tables of estimates ---------------------------------------------------------------------------


def summarise(results: StoredResults) -> pd.DataFrame:
    """Tabulate the state at the horizon, one row per run with blocks or failures.

    Columns: `env`, `agent`, `replications`; the columns with a title in `COLUMNS` as estimates of
    means, each followed by the ends `_low` and `_high` of its 95 % interval, NaN below 10
    replications, and but for shares by `_is_doubtful`: whether a heavy tail may make it too short;
    `cumulative_regret_100` and alike, the regret at earlier horizons, estimated in the same way;
    `flagged`, the share of decisions whose agent called its posterior unreliable, and `doubts_...`,
    where it reports them, those of each `Doubt`; quantiles of the pseudo-regret; `difference`, the
    mean pseudo-regret less that of the environment's first agent, paired by replication, with its
    interval, its `p_holm`, corrected for all comparisons of the table, and what follows from that:
    the `verdict` "better", "worse" or "undecided"; `failed`, the first line of the error of an
    agent that failed, whose other columns are blank.

    The table depends on the results alone, to the last bit, but for `microseconds_per_decision`.
    """
    rows: list[dict[str, Any]] = []
    for run in results.runs:
        labels = {"env": run.run.environment.label, "agent": run.run.agent.label}
        if run.failures:
            rows.append({**labels, "replications": 0, "failed": run.failure})
        elif run.blocks:
            reference = results.reference(run.run.environment)
            rows.append({**labels, **_summarise_run(run, reference), "failed": ""})
    table = pd.DataFrame(rows, columns=None if any(r.is_usable for r in results.runs) else BLANK)
    for name in [name for name in table if name.endswith("_is_doubtful")]:
        table[name] = table[name].eq(True)
    difference, p_values = table["difference"], correct_by_holm(table.pop("p_value"))
    is_decided = p_values < SIGNIFICANCE_LEVEL
    verdicts = pd.Series("undecided", index=table.index, dtype=object)
    verdicts[is_decided & (difference < 0)] = "better"
    verdicts[is_decided & (difference > 0)] = "worse"
    verdicts[difference.isna()] = ""
    failed = table.pop("failed")
    return table.assign(p_holm=p_values, verdict=verdicts, failed=failed)


BLANK = [
    *("env", "agent", "replications"),
    *(
        f"{name}{end}"
        for name in ("cumulative_regret", "difference")
        for end in ("", "_low", "_high")
    ),
    *("p_value", "failed"),
]
"""The columns of the table where there is nothing to estimate."""


def describe_regret(environment: Entry) -> tuple[str, str, str]:
    """Return in words which regret a table shows, what it sums, and over what it is averaged."""
    title, definition = COLUMNS["cumulative_regret"].title, "best mean - pulled mean"
    if environment.target == "bandit_gym:TableBandit-v0":  # without means
        name = "regret to the best reward of each row"
        return name, "best reward - reward received", "orders of the rows"
    if environment.options.get("means") is not None:
        return title, definition, "the noise"
    return f"Bayesian {title}", definition, "instances drawn from the prior"


def paired_differences(
    own: RunResults, reference: RunResults, column: str
) -> tuple[IntArray, FloatArray]:
    """Subtract the reference run's curves, replication by replication.

    Both met the same means and the same reward noise, so most of the luck cancels.

    Returns:
        (R,) replications that both runs have, and (R, S) differences, S of the longer run.
    """
    common, rows, reference_rows = np.intersect1d(
        own.replications, reference.replications, assume_unique=True, return_indices=True
    )
    pair = own.curves(column)[rows], reference.curves(column)[reference_rows]
    every = np.arange(max(values.shape[1] for values in pair))
    mine, others = (values[:, np.minimum(every, values.shape[1] - 1)] for values in pair)
    return common, mine - others  # sums stay, where all episodes of one ended sooner


def _summarise_run(run: RunResults, reference: RunResults | None) -> dict[str, Any]:
    regret, differences = run.final("cumulative_regret"), _final_differences(run, reference)
    doubts = {name: _share_of_decisions(run, name) for name in DOUBT_COLUMNS}
    return {
        "replications": len(regret),
        **_estimates(run),
        "flagged": _share_of_decisions(run, "is_unreliable"),
        **{name: share for name, share in doubts.items() if not math.isnan(share)},
        **{name: float(np.quantile(regret, q)) for name, q in QUANTILES.items()},
        **_mean_columns("difference", differences),
        "p_value": paired_p_value(differences),
    }


def _share_of_decisions(run: RunResults, name: str) -> float:
    return float(run.final(name).mean() / _decisions(run).mean())


def _decisions(run: RunResults) -> FloatArray:
    """Return the (R,) steps played, the horizon where a block does not say."""
    return np.asarray(np.nan_to_num(run.final("decisions"), nan=run.run.horizon))


def _estimates(run: RunResults) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name in (name for name, column in COLUMNS.items() if column.title):
        values = run.final(name)
        row |= _interval_columns(name, estimate_column(name, values))
        if COLUMNS[name].unit != "share":
            row[f"{name}_is_doubtful"] = is_coverage_doubtful(values)
    for step in (step for step in run.run.earlier_horizons if step < run.steps[-1]):
        regret = run.curves("cumulative_regret")[:, np.searchsorted(run.steps[:-1], step)]
        row |= _mean_columns(f"cumulative_regret_{step}", regret)
    samples = _mean_columns("samples_per_decision", run.final("num_samples") / _decisions(run))
    return row | samples | {"microseconds_per_decision": 1e6 * run.seconds_per_decision()}


def _final_differences(run: RunResults, reference: RunResults | None) -> FloatArray:
    """Return the paired differences at the horizon, one NaN where there is nothing to compare."""
    if reference is None or run is reference:
        return np.array([np.nan])
    _, differences = paired_differences(run, reference, "cumulative_regret")
    return differences[:, -1] if len(differences) else np.array([np.nan])


def _mean_columns(name: str, values: FloatArray) -> dict[str, Any]:
    is_doubtful = is_coverage_doubtful(values)
    return _interval_columns(name, mean_interval(values)) | {f"{name}_is_doubtful": is_doubtful}


def _interval_columns(name: str, interval: Interval) -> dict[str, Any]:
    return dict(zip((name, f"{name}_low", f"{name}_high"), interval, strict=True))


def aggregate(results: StoredResults) -> pd.DataFrame:
    """Tabulate each agent over all environments: mean scores, and their interquartile means.

    A score is a replication's final pseudo-regret divided by what uniform play loses on average in
    that environment: 0 is perfect, 1 no better than chance. It leaves out environments where that
    is 0, as all arms are equal, or unknown, as means move or are not reported; `environments` is
    how many are left, and with none the scores are NaN. Only replications and agents present in
    every environment count. A replication has the same seed in all environments, so it is one
    value, and intervals resample replications whole, with what uniform play loses in them; below 10
    of them there are none.
    """
    rows = []
    left_out = list_unscored(results)
    for agent in results.experiment.agents:
        runs = [run for run in results.runs if run.run.agent == agent]
        common = reduce(np.intersect1d, [run.replications for run in runs])
        is_everywhere = len(runs) == len(results.experiment.environments)
        if is_everywhere and all(run.is_usable for run in runs) and len(common):
            scored = [run for run in runs if run.run.environment not in left_out]
            pairs = [
                [run.final(name)[np.isin(run.replications, common)] for run in scored]
                or [np.full(len(common), np.nan)]
                for name in ("cumulative_regret", "uniform_regret")
            ]
            table = np.stack([*pairs[0], *pairs[1]], axis=1)
            interval = bootstrap_interval(table, lambda rows: interquartile_mean(_scores(rows)))
            row = {"agent": agent.label, "environments": len(scored), "replications": len(table)}
            row |= {"score_mean": _scores(table).mean()} | _interval_columns("score_iqm", interval)
            rows.append(row)
    return pd.DataFrame(rows)


def list_unscored(results: StoredResults) -> list[Entry]:
    """Return the environments where uniform play loses nothing, or it is not known how much."""
    return [
        environment
        for environment in results.experiment.environments
        if not all(run.final("uniform_regret").mean() > 0 for run in results.usable(environment))
    ]


def _scores(table: FloatArray) -> FloatArray:
    """Return (..., R, E) regrets over the mean of what uniform play loses, beside which they are.

    Args:
        table: (..., R, 2 E) regrets of the agent, and then of uniform play.
    """
    regrets, uniform = np.split(table, 2, axis=-1)
    return np.asarray(regrets / uniform.mean(axis=-2, keepdims=True))
