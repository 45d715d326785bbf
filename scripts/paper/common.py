"""What the tables and figures share: sections of the report, simulation, Markdown, panels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.results.plots import DPI, draw_band, styles
from bandit_gym.experiments.progress import progress_on_stderr
from bandit_gym.results.results import RunResults, load_results, paired_differences
from bandit_gym.results.statistics import Interval, mean_interval


@dataclass(frozen=True)
class Verdict:
    """What became of one sentence of the paper.

    Attributes:
        claim: the sentence, in short.
        holds: "holds", "holds in part", "does not hold", or "undecided" at this scale.
        evidence: the figures.
    """

    claim: str
    holds: str
    evidence: str


@dataclass(frozen=True)
class Section:
    """One table or figure of the report.

    Attributes:
        title: heading.
        choices: what the paper leaves open and what was chosen.
        body: Markdown.
        verdicts: on the paper's sentences about it.
    """

    title: str
    choices: str
    body: str
    verdicts: tuple[Verdict, ...] = ()


def simulate(
    folder: Path, environments: Iterable[Any], agents: Iterable[Any], workers: Workers, **sizes: int
) -> list[RunResults]:
    """Run an experiment, or what is missing of it, and return its runs, environments outermost."""
    experiment = Experiment(tuple(environments), tuple(agents), **sizes)
    with progress_on_stderr() as on_progress:
        store = run_experiment(
            experiment, folder / experiment.name, workers=workers, on_progress=on_progress
        )
    results = load_results(store.directory)
    if results.failed:
        failures = next(iter(results.failed[0].failures.values()))
        raise RuntimeError(f"a run of {folder.name} failed:\n{failures}")
    return list(results.runs)


def by_agent(runs: Iterable[RunResults], environment: str) -> dict[str, RunResults]:
    """Return the runs in one environment by their agents' labels."""
    return {
        found.run.agent.label: found for found in runs if found.run.environment.label == environment
    }


def final_regret(found: RunResults) -> Interval:
    """Return the mean Bayesian pseudo-regret at the horizon with its 95 % interval."""
    return mean_interval(found.final("pseudo_regret"))


def samples_per_decision(found: RunResults) -> float:
    """Return the average number of samples of a decision."""
    return float(found.final("num_samples").mean() / found.run.horizon)


def difference(found: RunResults, reference: RunResults) -> Interval:
    """Return the final regret less the reference's, paired by replication."""
    return mean_interval(paired_differences(found, reference, "pseudo_regret")[1][:, -1])


def stratified_difference(
    pairs: Sequence[tuple[RunResults, RunResults]],
) -> Interval:
    """Return the paired difference of final regret over all environments' replications."""
    values = [paired_differences(a, b, "pseudo_regret")[1][:, -1] for a, b in pairs]
    return mean_interval(np.concatenate(values))


def sample_schedule(found: RunResults) -> list[int]:
    """Return how many samples a decision took on average at each step, for SMC to take as many."""
    sums = found.curves("num_samples").mean(axis=0)
    rates = np.diff(sums, prepend=0.0) / np.diff(found.steps, prepend=0)
    each_step = np.repeat(rates, np.diff(found.steps, prepend=0))
    return [max(1, round(rate)) for rate in each_step.tolist()]


def written(interval: Interval, digits: int = 1) -> str:
    """Write an interval as estimate ± half width, or with both ends where it is lopsided."""
    up, down = interval.high - interval.estimate, interval.estimate - interval.low
    if max(up, down) > 1.2 * min(up, down):
        ends = f"[{interval.low:.{digits}f}, {interval.high:.{digits}f}]"
        return f"{interval.estimate:.{digits}f} {ends}"
    return f"{interval.estimate:.{digits}f} ± {(up + down) / 2:.{digits}f}"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def new_panels(titles: Sequence[str], num_columns: int = 3) -> tuple[Figure, list[Axes]]:
    """Return a figure with one panel per title."""
    num_columns = 2 if len(titles) == 4 else min(num_columns, len(titles))
    num_rows = -(-len(titles) // num_columns)
    figure = Figure(figsize=(3.6 * num_columns, 2.9 * num_rows + 0.5), layout="constrained")
    panels = figure.subplots(num_rows, num_columns, squeeze=False).ravel()
    for axes, title in zip(panels, titles, strict=False):
        axes.set_title(title, fontsize="medium")
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(titles) :]:
        axes.remove()
    return figure, list(panels[: len(titles)])


def draw_curves(axes: Axes, runs: Iterable[RunResults], column: str = "pseudo_regret") -> None:
    """Draw means over replications with 95 % bands."""
    for found, style in zip(runs, styles(), strict=False):
        draw_band(axes, found.steps, found.curves(column), found.run.agent.label, style)
    axes.set_ylim(bottom=0)


def save_png(figure: Figure, folder: Path, name: str) -> str:
    """Write a figure and return the Markdown that shows it."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.png", dpi=DPI)
    return f"![{name}]({name}.png)"


def geometric_error(ours: NDArray[np.float64], paper: NDArray[np.float64]) -> float:
    """Return the typical factor between two arrays of positive numbers: 1 is equality."""
    return float(np.exp(np.sqrt(np.mean(np.square(np.log(ours / paper))))))
