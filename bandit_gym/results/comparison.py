"""Two folders of results compared, pairwise where both played the same: for tests of own agents."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bandit_gym.results import statistics
from bandit_gym.results.report import write_text
from bandit_gym.results.statistics import LEVEL, MIN_REPLICATIONS
from bandit_gym.results.stored import RunResults
from bandit_gym.results.tables import (
    NOTHING,
    Cells,
    Table,
    fill,
    interval_notes,
    write_estimate,
    write_p_value,
)

if TYPE_CHECKING:
    from bandit_gym.results.results import Results

SAME, UNTESTED, UNDECIDED = "same", "untested", "undecided"


@dataclass(frozen=True)
class Comparison:
    """What two folders of results say about each other.

    Attributes:
        rows: a row for each pair of runs: `env`, `agent`, common `replications`, the mean
            pseudo-regrets `first` and `second`, their paired `difference`, second less first, with
            its 95 % interval, `p_holm`, corrected for all pairs, and the `verdict` on the second:
            "better", "worse" or "undecided"; "same" where nothing at all differs, and "untested"
            below 10 common replications.
        unmatched: sentences, one for each run that has no partner, and why.
        lost: how many runs the first folder can report and the second has no partner for.
    """

    rows: pd.DataFrame
    unmatched: tuple[str, ...]
    lost: int

    @property
    def is_different(self) -> bool:
        """Whether a difference is beyond chance, or a run of the first folder has gone."""
        return self.lost > 0 or bool(self.rows["verdict"].isin(["better", "worse"]).any())

    @property
    def is_tested(self) -> bool:
        """Whether every pair has enough replications for a verdict."""
        return not self.rows["verdict"].eq(UNTESTED).any()


def compare(first: Results, second: Results) -> Comparison:
    """Compare two folders' regrets at the horizon, run by run.

    Runs are partners if their agents have the same label and their worlds the same settings, seed
    and horizon, drawn by the same version and sources: then a replication is the same instance with
    the same noise in both, and the difference is taken replication by replication. Agents may have
    other options or other code: that is what is compared.

    Raises:
        ValueError: if no run has a partner.
    """
    partners = {_label(found): found for found in second.runs}
    rows, unmatched, lost = [], [], 0
    for found in (each for each in first.runs if each.is_usable):
        other = partners.pop(_label(found), None)
        reason = _find_obstacle(first, found, second, other)
        if reason or other is None:
            unmatched.append(f"{_name(found)}: {reason}.")
            lost += 1
        else:
            rows.append(_compare_runs(found, other))
    known = {_label(found) for found in first.runs if found.is_usable}
    unmatched += [f"{_name(f)}: only in the second." for f in second.runs if _label(f) not in known]
    if not rows:
        reason = (*unmatched, "there are no results.")[0]
        condition = "have a run in common, with the same world, seed and horizon"
        raise ValueError(f"the two folders must {condition}; {reason}")
    table = pd.DataFrame(rows)
    table["p_holm"] = statistics.holm(table.pop("p_value"))
    table["verdict"] = [_judge(row) for row in table.itertuples()]
    return Comparison(table, tuple(unmatched), lost)


def describe_comparison(comparison: Comparison) -> str:
    """Write a table of each world, whose agents are compared, then what could not be paired."""
    parts = [write_text(table) for table in _make_tables(comparison)]
    unmatched = [f"Not compared: {sentence}" for sentence in comparison.unmatched]
    count = comparison.rows["p_holm"].notna().sum()
    verdicts = (
        f"Verdicts on the second: p < {LEVEL} after Holm's correction for {count} comparisons; "
        f"{SAME}: no replication differs; {UNTESTED}: below {MIN_REPLICATIONS} replications."
    )
    return "\n\n".join([*parts, "\n".join([verdicts, *unmatched])])


def _make_tables(comparison: Comparison) -> Iterator[Table]:
    cells: Cells = {
        "agent": lambda row: row["agent"],
        "first": lambda row: f"{row['first']:.1f}",
        "second": lambda row: f"{row['second']:.1f}",
        "second less first, paired": lambda row: write_estimate(row, "difference"),
        "p (Holm)": lambda row: write_p_value(row["p_holm"]),
        "verdict": lambda row: row["verdict"] or NOTHING,
    }
    for world, own in comparison.rows.groupby("env", sort=False):
        rows = own.to_dict("records")
        title = (
            f"{world}: pseudo-regret of up to {own['replications'].max()} common replications. "
            "Means ± 95 % intervals."
        )
        yield fill(title, rows, cells, interval_notes(rows, ["difference"]))


def _label(found: RunResults) -> tuple[str, str]:
    return found.run.environment.digest, found.run.agent.label


def _name(found: RunResults) -> str:
    return f"{found.run.agent.label} in {found.run.environment.label}"


def _find_obstacle(
    first: Results, found: RunResults, second: Results, other: RunResults | None
) -> str:
    """Say why a run cannot be paired with the other folder's; "" if it can."""
    if other is None:
        return "only in the first"
    if not other.is_usable:
        return "failed in the second" if other.failures else "nothing stored in the second"
    for name in ("seed", "horizon"):
        values = getattr(found.run, name), getattr(other.run, name)
        if values[0] != values[1]:
            return f"{name} {values[0]} in the first, {values[1]} in the second"
    if first.version != second.version:
        return f"results version {first.version} in the first, {second.version} in the second"
    if _world_sources(found) != _world_sources(other):
        return "the world's code differs"
    if not np.intersect1d(found.replications, other.replications).size:
        return "no replication in common"
    return ""


def _world_sources(found: RunResults) -> Any:
    return found.blocks[0].receipt.get("sources", {}).get("environment")


def _compare_runs(first: RunResults, second: RunResults) -> dict[str, Any]:
    common, rows, other_rows = np.intersect1d(
        first.replications, second.replications, return_indices=True
    )
    regrets = first.final("cumulative_regret")[rows], second.final("cumulative_regret")[other_rows]
    differences = regrets[1] - regrets[0]
    interval = statistics.mean_interval(differences)
    return {
        "env": first.run.environment.label,
        "agent": first.run.agent.label,
        "replications": len(common),
        "first": float(regrets[0].mean()),
        "second": float(regrets[1].mean()),
        **dict(zip(("difference", "difference_low", "difference_high"), interval, strict=True)),
        "difference_is_doubtful": statistics.is_coverage_doubtful(differences),
        "is_same": not differences.any(),
        "p_value": statistics.paired_p_value(differences),
    }


def _judge(row: Any) -> str:
    if row.is_same:
        return SAME
    if math.isnan(row.p_holm):
        return UNTESTED
    if row.p_holm >= LEVEL:
        return UNDECIDED
    return "better" if row.difference < 0 else "worse"
