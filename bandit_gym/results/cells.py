"""How numbers, their intervals and what is missing of them are written in the cells of tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bandit_gym.results.statistics import FEW_REPLICATIONS, MIN_REPLICATIONS

NOTHING = "-"
DOUBTFUL = "*"
Row = Mapping[Any, Any]
Cells = dict[str, Callable[[Row], str]]  # title -> what a row has below it


def write_estimate(row: Row, name: str, digits: int = 1) -> str:
    """Write "mean ± half width", or the two ends where the interval is lopsided."""
    mean, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
    if math.isnan(mean):
        return NOTHING
    if is_missing(row, name):
        return f"{mean:.{digits}f} ± {NOTHING}"
    mark = DOUBTFUL if _is_marked(row, name) else ""
    if abs((high - mean) - (mean - low)) < 0.5 * 10**-digits:
        return f"{mean:.{digits}f} ± {high - mean:.{digits}f}{mark}"
    return f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]{mark}"


def write_share(share: float) -> str:
    """Write a share in per cent; one that is not zero never as zero."""
    return "under 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def write_number(value: float, form: str) -> str:
    """Write a number in a form of `str.format`, or that there is none."""
    return NOTHING if math.isnan(value) else form.format(value)


def write_quantile(name: str, row: Row) -> str:
    """Write a quantile of the pseudo-regret."""
    return f"{row[name]:.1f}"


def write_p_value(value: float) -> str:
    """Write a p-value to three digits."""
    return "<0.001" if value < 0.001 else write_number(value, "{:.3f}")


def interval_notes(rows: Sequence[Row], names: Sequence[str]) -> Iterator[str]:
    """Say where intervals are missing, and which of those named may be too short."""
    if any(is_missing(row, name) for row in rows for name in names):
        yield f"{NOTHING} for an interval or a p-value: none below {MIN_REPLICATIONS} replications."
    if any(_is_marked(row, name) for row in rows for name in names):
        yield (
            f"{DOUBTFUL} A long tail and fewer than {FEW_REPLICATIONS} replications: the interval "
            "may be too short."
        )


def is_missing(row: Row, name: str) -> bool:
    """Say whether there is an estimate without an interval."""
    return math.isnan(row[f"{name}_low"]) and not math.isnan(row[name])


def _is_marked(row: Row, name: str) -> bool:
    return bool(row.get(f"{name}_is_doubtful")) and not is_missing(row, name)
