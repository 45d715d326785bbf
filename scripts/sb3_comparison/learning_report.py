"""The section on training: one picture and one table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
from pages.page import Section, markdown_table

from agents.bayes_optimal import optimal_value
from agents.optimum.expected_regret import expected_reward
from bandit_gym.results.styles import COLOURS
from sb3_comparison.labels import End, label_ends
from sb3_comparison.learning import NUM_EPISODES, SHORT, Curve, make_problem

GREY = "0.4"
TEXT = f"""\
{SHORT.title}, {SHORT.horizon} pulls. Lines are means over trainings, bands run from the
worst to the best of them. At each checkpoint a policy played the same {NUM_EPISODES:,} episodes,
with a standard error of about 0.02; the horizontal lines are exact.
"""


def tell_learning(curves: Sequence[Curve]) -> Section:
    """Return the section."""
    rows = [_cells(curve) for curve in curves]
    figure = draw_learning(curves)
    return Section("How much training", TEXT, [markdown_table(rows)], {"training": figure})


@cache
def bounds() -> dict[str, float]:
    """Return what random play, Thompson sampling and the best possible policy return, exactly."""
    problem = make_problem()
    return {
        "random play": expected_reward(problem, "random", SHORT.horizon),
        "exact Thompson": expected_reward(problem, "thompson", SHORT.horizon),
        "best possible": optimal_value(problem, SHORT.horizon),
    }


def draw_learning(curves: Sequence[Curve]) -> Figure:
    """Draw the mean return of each variant against the pulls that it was trained on."""
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    axes = figure.subplots()
    ends = {}
    for label, value in bounds().items():
        axes.axhline(value, color=GREY, linewidth=1, linestyle="--")
        ends[f"{label}, {value:.1f}"] = End(value, GREY)
    for curve, colour in zip(curves, COLOURS, strict=False):
        _draw_curve(axes, curve, colour)
        ends[curve.label] = End(float(curve.returns[-1].mean()), colour)
    axes.set_xscale("log")
    axes.margins(x=0)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set(ylabel=f"mean return of {SHORT.horizon} pulls", ylim=(9.4, 13.8))
    axes.set_xlabel("pulls trained on")
    axes.spines[["top", "right"]].set_visible(False)
    label_ends(axes, ends)
    return figure


def _draw_curve(axes: Axes, curve: Curve, colour: str) -> None:
    axes.plot(curve.pulls, curve.returns.mean(axis=1), color=colour)
    ends = curve.returns.min(axis=1), curve.returns.max(axis=1)
    axes.fill_between(curve.pulls, *ends, color=colour, alpha=0.2, linewidth=0)


def _cells(curve: Curve) -> dict[str, str]:
    known = bounds()
    last = curve.returns[-1]
    share = (last.mean() - known["random play"]) / (known["best possible"] - known["random play"])
    return {
        "variant": curve.label,
        "trainings": str(len(last)),
        "pulls": f"{curve.pulls[-1]:,}",
        "return: mean, worst, best": f"{last.mean():.2f}, {last.min():.2f}, {last.max():.2f}",
        "of what is possible beyond chance": f"{share:.0%}",
        "CPU time each": f"{curve.cpu_seconds.mean():.0f} s",
    }
