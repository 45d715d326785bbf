"""A posterior as a small table: arm, pulls, mean, 95 % interval, probability to be the best."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

MOST_ROWS = 20
"""Of more arms, those most likely to be the best are shown."""

HEADINGS = ("arm", "pulls", "mean", "95 %", "P(best)")


def title(snapshot: Any) -> str:
    """Return how many arms there are, after how many pulls, and what is told of them from what."""
    num_lanes, num_arms = snapshot.counts.shape
    lanes = "" if snapshot.num_envs is None else f", lane 0 of {num_lanes}"
    pulls = int(snapshot.counts[0].sum())
    after = f"{pulls} pull" if pulls == 1 else f"{pulls} pulls"
    return f"Posterior of {num_arms} arms after {after}{lanes}, from {snapshot.source}"


def rows(snapshot: Any) -> list[tuple[str, ...]]:
    """Return the first lane's arms, each as the words of a row."""
    num_arms = snapshot.counts.shape[1]
    low, high = snapshot.interval(0.95).reshape(2, -1, num_arms)[:, 0]
    mean, best = (
        found.reshape(-1, num_arms)[0]
        for found in (snapshot.mean(), snapshot.best_arm_probabilities())
    )
    shown = np.sort(np.argsort(-best, kind="stable")[:MOST_ROWS])
    return [
        (
            str(arm),
            f"{pulls:.4g}" if (pulls := snapshot.counts[0, arm]) % 1 else str(int(pulls)),
            f"{mean[arm]:.4g}",
            f"[{low[arm]:.4g}, {high[arm]:.4g}]",
            f"{best[arm]:.3f}",
        )
        for arm in shown.tolist()
    ]


def as_text(snapshot: Any) -> str:
    """Return the table in columns."""
    lines = [HEADINGS, *rows(snapshot)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    ]
    return "\n".join([title(snapshot), *table, *_rest(snapshot)])


def as_html(snapshot: Any) -> str:
    """Return the table for notebooks."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in HEADINGS)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows(snapshot)
    )
    rest = "".join(f"<p>{escape(line)}</p>" for line in _rest(snapshot))
    caption = f"<caption>{escape(title(snapshot))}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _rest(snapshot: Any) -> list[str]:
    """Say how many arms are left out."""
    left = snapshot.counts.shape[1] - MOST_ROWS
    return [f"and {left} arms less likely to be the best"] if left > 0 else []
