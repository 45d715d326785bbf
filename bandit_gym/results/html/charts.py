"""What the charts of a report hold: means and half widths of intervals, thinned for a screen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bandit_gym.experiments.entries import Entry
from bandit_gym.results.bounds import find_bounds
from bandit_gym.results.curves import RANK_NAMES, rank_shares, rates
from bandit_gym.results.results import Results, RunResults, paired_differences
from bandit_gym.results.statistics import MIN_REPLICATIONS, half_widths, performance_profile
from bandit_gym.results.summary import normalised_scores, regret_name
from bandit_gym.typing import FloatArray, IntArray

MOST_POINTS = 200
"""Of a curve: more are not told apart on a screen."""

DIGITS = 5


class Line(NamedTuple):
    """A curve of a chart.

    Attributes:
        agent: its index in the experiment; -1 for what no agent does.
        name: what legends call it.
        x: (S,) steps or levels.
        y: (S,) values.
        half: (S,) half widths of their 95 % intervals; empty where there are none.
    """

    agent: int
    name: str
    x: list[float]
    y: list[float | None]
    half: list[float | None]


class Chart(NamedTuple):
    """A chart, before it is drawn.

    Attributes:
        title: one line.
        x_title: what the horizontal axis shows.
        y_title: what the vertical axis shows.
        log: letters of the axes that are logarithmic at first, of "xy".
        may_log: letters of the axes that a reader may switch.
        choices: name -> lines; where there are several, a reader chooses.
    """

    title: str
    x_title: str
    y_title: str
    log: str
    may_log: str
    choices: dict[str, list[Line]]

    @property
    def lines(self) -> list[Line]:
        """Those of the first choice."""
        return next(iter(self.choices.values()))


def make_charts(results: Results, environment: Entry, points: int) -> Iterator[Chart]:
    """Yield the charts of an environment with results, their curves of at most so many points."""
    runs = results.usable(environment)
    agents = list(results.experiment.agents)
    numbered = [(agents.index(found.run.agent), found) for found in runs]
    yield _chart_regret(numbered, points)
    reference = results.reference(environment)
    if reference is not None and len(runs) > 1:
        yield _chart_differences(numbered, reference, points)
    yield _chart_arms(numbered)
    yield from _chart_rates(numbered, "num_samples", "Samples per decision", "samples", points)
    title = "Decisions flagged as unreliable"
    yield from _chart_rates(numbered, "is_unreliable", title, "share of decisions", points)


def make_profile(results: Results, points: int) -> Iterator[Chart]:
    """Yield the performance profile over all environments, where there are several."""
    scores = normalised_scores(results) if len(results.experiment.environments) > 1 else {}
    if not scores:
        return
    labels = [agent.label for agent in results.experiment.agents]
    highest = max(float(np.quantile(values, 0.99)) for values in scores.values())
    levels = np.linspace(0, highest, points)
    lines = [
        _line(labels.index(label), label, levels, performance_profile(values, levels))
        for label, values in scores.items()
    ]
    yield Chart(
        "Performance profiles over all worlds",
        "pseudo-regret, as a share of what uniform play loses",
        "share of replications below",
        "",
        "",
        {"": lines},
    )


Numbered = Sequence[tuple[int, RunResults]]


def _chart_regret(numbered: Numbered, points: int) -> Chart:
    found = numbered[0][1]
    lines = [_mean_line(n, run, "cumulative_regret", points) for n, run in numbered]
    for label, steps, values in find_bounds(found):
        kept = _thin(len(steps), points)
        lines.append(_line(-1, label, steps[kept], values[kept]))
    name = regret_name(found.run.environment)
    return Chart(f"{name.capitalize()} over time", "step", name, "", "xy", {"": lines})


def _chart_differences(numbered: Numbered, reference: RunResults, points: int) -> Chart:
    lines = []
    for number, found in numbered:
        _, differences = paired_differences(found, reference, "cumulative_regret")
        if found is not reference and len(differences):
            lines.append(_band(number, found, found.steps, differences, points))
    name = f"regret less that of {reference.run.agent.label}"
    return Chart("Paired differences over time", "step", name, "", "x", {"": lines})


def _chart_arms(numbered: Numbered) -> Chart:
    shares = [(number, found, *rank_shares(found)) for number, found in numbered]
    choices = {
        f"{name} arm" if rank < len(RANK_NAMES) - 1 else "all other arms": [
            _line(number, found.run.agent.label, steps, table[rank])
            for number, found, steps, table in shares
        ]
        for rank, name in enumerate(RANK_NAMES)
    }
    return Chart("Arms pulled over time", "step", "share of pulls", "x", "x", choices)


def _chart_rates(
    numbered: Numbered, column: str, title: str, y_title: str, points: int
) -> Iterator[Chart]:
    """Yield a chart of means per step of what is stored as sums; nothing if all of it is 0."""
    lines = []
    for number, found in numbered:
        sums = found.curves(column)
        if np.nansum(sums[:, -1]) > 0 and not np.isnan(sums).any():
            kept = _thin(len(found.steps), points)
            steps = found.steps[kept]
            lines.append(_band(number, found, steps, rates(steps, sums[:, kept]), points))
    if lines:
        log = "xy" if column == "num_samples" else "x"
        yield Chart(title, "step", y_title, log, "xy", {"": lines})


def _mean_line(number: int, found: RunResults, column: str, points: int) -> Line:
    return _band(number, found, found.steps, found.curves(column), points)


def _band(number: int, found: RunResults, steps: IntArray, curves: FloatArray, points: int) -> Line:
    """Average (R, S) curves; below 10 of them without intervals."""
    kept = _thin(len(steps), points)
    half = half_widths(curves[:, kept]) if len(curves) >= MIN_REPLICATIONS else None
    mean = curves[:, kept].mean(axis=0)
    return _line(number, found.run.agent.label, steps[kept], mean, half)


def _line(
    number: int, name: str, x: np.ndarray, y: FloatArray, half: FloatArray | None = None
) -> Line:
    return Line(number, name, x.tolist(), _round(y), [] if half is None else _round(half))


def _thin(count: int, points: int) -> IntArray:
    """Return at most so many indices, the last among them: half of them evenly, half in log t."""
    if count <= points:
        return np.arange(count)
    even = np.linspace(0, count - 1, points // 2)
    spaced = np.geomspace(1, count, points - points // 2) - 1
    return np.unique(np.rint(np.concatenate([even, spaced])).astype(np.int64))


def _round(values: FloatArray) -> list[float | None]:
    """Round to what a screen tells apart; what is not finite is nothing, as JSON has it."""
    return [float(f"{v:.{DIGITS}g}") if math.isfinite(v) else None for v in values.tolist()]
