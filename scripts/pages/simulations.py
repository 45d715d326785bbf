"""Experiments of a study, each simulated once, and what is read from their runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from bandit_gym.experiments.execution import run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.progress import progress_on_stderr
from bandit_gym.results.results import RunResults, load_results, paired_differences
from bandit_gym.results.statistics import Interval, mean_interval
from bandit_gym.typing import FloatArray
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
    folder = task.folder / "data" / experiment.name
    with progress_on_stderr() as on_progress:
        run_experiment(experiment, folder, workers=task.workers, on_progress=on_progress)
    results = load_results(folder, experiment)
    if results.failed:
        failed = results.failed[0]
        failure = next(iter(failed.failures.values()))
        raise RuntimeError(f"{failed.run.agent.label} failed in {folder}:\n{failure}")
    found: dict[str, Runs] = {}
    for each in results.runs:
        found.setdefault(each.run.environment.label, {})[each.run.agent.label] = each
    return found


def final_regret(*runs: RunResults) -> Interval:
    """Return the mean pseudo-regret at the horizon with its 95 % interval."""
    return mean_interval(np.concatenate([found.final("pseudo_regret") for found in runs]))


def differences(found: RunResults, reference: RunResults, step: int | None = None) -> FloatArray:
    """Return (R,) regrets less the reference's, paired, at a step or else at the horizon."""
    column = -1 if step is None else min(np.searchsorted(found.steps, step), len(found.steps) - 1)
    return paired_differences(found, reference, "pseudo_regret")[1][:, column]


def difference(*pairs: Pair, confidence: float = 0.95, step: int | None = None) -> Interval:
    """Return the mean difference of regrets, over the replications of all pairs of runs."""
    values = np.concatenate([differences(*pair, step) for pair in pairs])
    return mean_interval(values, confidence=confidence)


def samples_per_decision(*runs: RunResults) -> float:
    """Return the average number of samples of a decision."""
    return float(np.mean([each.final("num_samples").mean() / each.run.horizon for each in runs]))
