"""Experiments of a study, each simulated once, and what is read from their runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from bandit_gym.experiments.execution import run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.progress import progress_on_stderr
from bandit_gym.results.results import RunResults, line_up, load_results, paired_differences
from bandit_gym.results.statistics import Interval, mean_interval
from bandit_gym.typing import FloatArray, IntArray
from pages.command import Task

Runs = dict[str, RunResults]
Pair = tuple[RunResults, RunResults]


def simulate(
    task: Task, environments: Iterable[Any], agents: Iterable[Any], **sizes: int
) -> dict[str, Runs]:
    """Run an experiment, or what is missing of it; return its runs by environment and agent.

    Args:
        task: its replications and horizon count where `sizes` has none.
        environments: entries of an experiment.
        agents: entries of an experiment.
        sizes: keyword arguments of `Experiment`; blocks are no larger than there are replications.
    """
    sizes = {name: task.sizes[name] for name in ("replications", "horizon")} | sizes
    sizes["block_size"] = min(sizes["block_size"], sizes["replications"])
    experiment = Experiment(tuple(environments), tuple(agents), **sizes)
    with progress_on_stderr() as on_progress:
        return carry_out(task.folder, experiment, workers=task.workers, on_progress=on_progress)


def carry_out(folder: Path, experiment: Experiment, **options: Any) -> dict[str, Runs]:
    """Run an experiment, or what a study's folder lacks of it; return its runs likewise.

    Args:
        folder: of the study.
        experiment: what to run.
        options: of `run_experiment`; nobody looks for the least regret, which no study draws.
    """
    folder = folder / "data" / experiment.name
    run_experiment(experiment, folder, **options)
    results = load_results(folder, experiment)
    if results.failed:
        failed = results.failed[0]
        failure = next(iter(failed.failures.values()))
        raise RuntimeError(f"{failed.run.agent.label} failed in {folder}:\n{failure}")
    found: dict[str, Runs] = {}
    for each in results.runs:
        found.setdefault(each.run.environment.label, {})[each.run.agent.label] = each
    return found


def curves(column: str, *runs: RunResults) -> FloatArray:
    """Return (R, S) curves of one agent, averaged over its worlds in each replication.

    Worlds share the seeds of their replications, so that R of them are all the evidence there is,
    in however many worlds.
    """
    return line_up([(found.replications, found.curves(column)) for found in runs]).mean(axis=1)


def regrets(*runs: RunResults, step: int | None = None) -> FloatArray:
    """Return (R,) pseudo-regrets of one agent at a step or else at the horizon; see `curves`."""
    return curves("pseudo_regret", *runs)[:, column_of(runs[0].steps, step)]


def final_regret(*runs: RunResults) -> Interval:
    """Return the mean pseudo-regret at the horizon, over the runs' worlds, with its interval."""
    return mean_interval(regrets(*runs))


def differences(*pairs: Pair, step: int | None = None) -> FloatArray:
    """Return (R,) regrets less the reference's, paired, at a step or else at the horizon.

    Of several pairs, one a world, it is the average over worlds; see `curves`.
    """
    found = [paired_differences(*pair, "pseudo_regret") for pair in pairs]
    return line_up(found)[..., column_of(pairs[0][0].steps, step)].mean(axis=1)


def column_of(steps: IntArray, step: int | None) -> int:
    """Return where a step is among the recorded ones, or the first one after it; None is the last.

    Args:
        steps: (S,) recorded ones.
        step: wanted.
    """
    last = len(steps) - 1
    return last if step is None else min(int(np.searchsorted(steps, step)), last)


def difference(*pairs: Pair, confidence: float = 0.95, step: int | None = None) -> Interval:
    """Return the mean of `differences` with its interval."""
    return mean_interval(differences(*pairs, step=step), confidence=confidence)


def samples_per_decision(*runs: RunResults) -> float:
    """Return the average number of samples of a decision."""
    return float(np.mean([each.final("num_samples").mean() / each.run.horizon for each in runs]))


def sample_schedule(steps: IntArray, sums: FloatArray) -> list[int]:
    """Return how many samples a decision took on average at each step, for SMC to take as many.

    Args:
        steps: (S,) recorded ones.
        sums: (R, S) samples up to each.
    """
    lengths = np.diff(steps, prepend=0)
    rates = np.diff(sums.mean(axis=0), prepend=0.0) / lengths
    return [max(1, round(rate)) for rate in np.repeat(rates, lengths).tolist()]
