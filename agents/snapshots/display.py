"""A posterior in pictures and tables: a figure and a small table."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from bandit_gym.checks import check_object
from bandit_gym.checks.doubts import Doubt
from bandit_gym.checks.styles import COLOURS, line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

MAX_CURVES = 10
"""Arms beyond which densities would hide each other."""

NUM_POINTS = 400
HEIGHT_PER_ARM, MAX_HEIGHT = 0.2, 40.0
"""Inches of a separate figure."""

DENSITY_LEVELS = (0.002, 0.998)
"""Levels between which densities are drawn, and half as far beyond them as means are possible."""

MAX_TABLE_ROWS = 20
"""Of more arms, those most likely to be the best are shown."""


def draw_posterior(snapshot: Any, ax: Axes | None, lane: int) -> Axes:
    """Draw one lane's arms and return the axes.

    Args:
        snapshot: the posterior.
        ax: where; None makes a figure.
        lane: which lane.
    """
    num_arms = snapshot.num_arms
    from matplotlib.axes import Axes

    if ax is not None:
        check_object("ax", ax, Axes, "leave it out for a figure of its own")
    else:
        from matplotlib import pyplot

        height = min(max(4.8, HEIGHT_PER_ARM * num_arms), MAX_HEIGHT)
        ax = pyplot.subplots(figsize=(6.4, height), layout="constrained")[1]
    ends = snapshot.quantile(DENSITY_LEVELS).reshape(2, -1, num_arms)[:, lane]
    curves = _find_densities(snapshot, ends, lane) if num_arms <= MAX_CURVES else None
    if curves is None:
        _draw_intervals(snapshot, ax, lane)
    else:
        x, densities = curves
        for arm in range(num_arms):
            label = f"{snapshot.noun} {arm}"
            if snapshot.has_pulls:
                label += f", {snapshot.counts[lane, arm]} pulls"
            ax.plot(x, densities[:, arm], label=label, **line_style(arm).line)
        ax.set(xlim=(x[0], x[-1]), ylim=(0, None), ylabel="posterior density")
        ax.legend()
    ax.set_xlabel("mean reward" if snapshot.noun == "arm" else snapshot.noun)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _find_densities(
    snapshot: Any, ends: np.ndarray, lane: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return (M,) means and the (M, K) densities there; None where there are only draws."""
    if not np.isfinite(ends).all():
        return None
    (low, high), support = (ends[0].min(), ends[1].max()), snapshot.problem.likelihood.support
    margin = (high - low) / 2
    x = np.linspace(max(low - margin, support[0]), min(high + margin, support[1]), NUM_POINTS)
    try:
        found = snapshot.density(x)
    except TypeError:
        return None
    return x, found.reshape(NUM_POINTS, -1, ends.shape[1])[:, lane]


def _draw_intervals(snapshot: Any, ax: Axes, lane: int) -> None:
    num_arms = snapshot.num_arms
    low, high = snapshot.interval(0.95).reshape(2, -1, num_arms)[:, lane]
    mean = snapshot.mean().reshape(-1, num_arms)[lane]
    order, positions = np.argsort(mean, kind="stable"), np.arange(num_arms)
    ax.hlines(positions, low[order], high[order], color=COLOURS[0])
    ax.plot(mean[order], positions, "o", color=COLOURS[0])
    ax.set_yticks(positions, [f"{snapshot.noun} {arm}" for arm in order.tolist()])
    ax.set_title("posterior means and 95 % intervals")


def make_title(snapshot: Any) -> str:
    """Return the title: how many arms and pulls, and the source of the answers."""
    num_lanes, num_arms = len(snapshot.counts), snapshot.num_arms
    lanes = "" if snapshot.num_envs is None else f", lane 0 of {num_lanes}"
    pulls = int(snapshot.counts[0].sum())
    after = f"{pulls} pull" if pulls == 1 else f"{pulls} pulls"
    size, accuracy = np.ravel(snapshot.effective_sample_size())[0], ""
    if np.isfinite(size) and snapshot.noun == "arm":
        accuracy = (
            f", worth {size:,.0f}: P(best) within {np.ravel(snapshot.best_arm_error())[0]:.2g}"
        )
    words = Doubt(np.ravel(snapshot.doubts)[0]).words
    accuracy += f"; doubted: {words}" if words else ""
    what = f"{num_arms} {snapshot.noun}s after {after}{lanes}"
    return f"Posterior of {what}, from {snapshot.source}{accuracy}"


def as_frame(snapshot: Any) -> DataFrame:
    """Return the first lane's arms, each as the words of a row."""
    from pandas import DataFrame

    num_arms = snapshot.num_arms
    low, high = snapshot.interval(0.95).reshape(2, -1, num_arms)[:, 0]
    mean, best = (
        found.reshape(-1, num_arms)[0]
        for found in (snapshot.mean(), snapshot.best_arm_probabilities())
    )
    pulls = [f"{pulls:.4g}" if pulls % 1 else str(int(pulls)) for pulls in snapshot.counts[0]]
    columns = {
        snapshot.noun: range(num_arms),
        **({"pulls": pulls} if snapshot.has_pulls else {}),
        "mean": [f"{value:.4g}" for value in mean],
        "95 %": [f"[{ends[0]:.4g}, {ends[1]:.4g}]" for ends in zip(low, high, strict=True)],
        "P(best)": [f"{value:.3f}" for value in best],
    }
    if snapshot.noun != "arm":
        return DataFrame(columns).drop(columns="P(best)").iloc[:MAX_TABLE_ROWS]
    return DataFrame(columns).iloc[np.sort(np.argsort(-best, kind="stable")[:MAX_TABLE_ROWS])]


def as_text(snapshot: Any) -> str:
    """Return the table in columns."""
    table = as_frame(snapshot).to_string(index=False)  # before the title, which shows its doubts
    return "\n".join([make_title(snapshot), table, *_list_omitted(snapshot)])


def as_html(snapshot: Any) -> str:
    """Return the table for notebooks."""
    table = as_frame(snapshot).to_html(index=False, border=0)
    lines = [make_title(snapshot), *_list_omitted(snapshot)]
    return "".join(f"<p>{escape(line)}</p>" for line in lines) + table


def _list_omitted(snapshot: Any) -> list[str]:
    """Say how many arms are left out."""
    left = snapshot.num_arms - MAX_TABLE_ROWS
    which = " less likely to be the best" if snapshot.noun == "arm" else ""
    return [f"and {left} {snapshot.noun}s{which}"] if left > 0 else []
