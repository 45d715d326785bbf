"""Regret over long runs: three ways to be Thompson sampling, and the paper's baselines."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from pages.command import Task
from pages.figures import draw_intervals, new_panels
from pages.page import Section, Verdict, graded, markdown_table, written
from pages.simulations import Runs, difference, differences, final_regret, simulate
from paper.settings import REFERENCE_TS, TRUTH, truncated_normal_world

from bandit_gym.results.statistics import holm, paired_p_value

MATCHED = {"agent": "racing", "label": "Racing, matched"}
MOVING = {"agent": "smc", "resampling": "systematic", "move": "random-walk", "label": "SMC, moves"}
NEVER = {"agent": "smc", "label": "SMC, paper"}

FAITHFUL = (MATCHED, MOVING)
"""Agents that are meant to be Thompson sampling."""

BASELINES = (REFERENCE_TS, NEVER)
"""The paper's; its own Racing is in `reproduce_paper.py`, too dear for as many replications."""

WORLDS = (
    truncated_normal_world("N(0.5, 0.1²) cut to [0, 1]", 0.5, 0.1),
    {"env": "DependentPriorBandit-v0", "arm_seed": 0, "label": "dependent, dimension 10"},
)

BLOCK_SIZE = 50
"""Lanes at a time; costs per decision are for as many."""

LEVEL = 0.05


def reproduce(task: Task) -> Section:
    """Run every agent in both worlds, each replication with the same means and noise for all."""
    rows = [row for world in WORLDS for row in _compare(str(world["label"]), _run(task, world))]
    found, replications = pd.DataFrame(rows), task.sizes["replications"]
    return Section(
        title="Regret: at the horizon, and what it costs",
        text=f"T = {task.sizes['horizon']:,}, {replications} replications with common random "
        "numbers. "
        "Differences are to exact Thompson sampling (grid or Gibbs), paired by replication; their "
        "intervals hold together for all agents of a world (Bonferroni), and p-values have Holm's "
        "correction. Microseconds are of an agent's `act` and `observe` per decision, "
        f"{min(BLOCK_SIZE, replications)} lanes at a time on one core of a busy machine.",
        pictures={"regret": _draw(found)},
        caption="Regret of each agent, with what a decision costs it beside its name. Bars are "
        "95 % intervals.",
        body=[markdown_table([_cells(row) for row in found.itertuples()])],
        verdicts=[_alike(found, str(agent["label"])) for agent in FAITHFUL]
        + [_behind(found, str(agent["label"])) for agent in BASELINES],
    )


def _run(task: Task, world: dict[str, object]) -> Runs:
    """Run each agent as an experiment of its own, so that one can be renewed without the others."""
    runs: Runs = {}
    for agent in (TRUTH, *FAITHFUL, *BASELINES):
        runs |= simulate(task, [world], [agent], block_size=BLOCK_SIZE)[str(world["label"])]
    return runs


def _compare(world: str, runs: Runs) -> list[dict[str, Any]]:
    """Return a row per agent; the first is the truth, and the level is shared among the others."""
    truth, *others = runs.values()
    p_values = holm([paired_p_value(differences((other, truth))) for other in others])
    confidence = 1 - LEVEL / len(others)
    return [
        {
            "world": world,
            "agent": label,
            "regret": final_regret(run),
            "change": difference((run, truth), confidence=confidence),
            "p_value": p_value,
            "cost": 1e6 * run.seconds_per_decision(),
        }
        for (label, run), p_value in zip(runs.items(), [1.0, *p_values], strict=True)
    ]


def _cells(row: Any) -> dict[str, str]:
    is_truth = row.agent == TRUTH["label"]
    return {
        "world": row.world,
        "agent": row.agent,
        "regret": written(row.regret),
        "less exact TS's": "" if is_truth else written(row.change),
        "p (Holm)": "" if is_truth else f"{row.p_value:.3f}",
        "µs per decision": f"{row.cost:.1f}",
    }


def _alike(found: pd.DataFrame, label: str) -> Verdict:
    """Say whether neither the test nor the interval tells an agent from the truth."""
    rows = found[found["agent"] == label]
    is_within = all(change.low <= 0 <= change.high for change in rows["change"])
    is_apart = (rows["p_value"] < LEVEL).any()
    return Verdict(
        f"{label}: regret statistically indistinguishable from exact Thompson sampling's",
        "does not hold" if is_apart else graded(is_within, otherwise="undecided"),
        _listed(found, label),
    )


def _behind(found: pd.DataFrame, label: str) -> Verdict:
    is_behind = (change.low > 0 for change in found.loc[found["agent"] == label, "change"])
    holds = graded(*is_behind, otherwise="undecided")
    return Verdict(f"{label}: behind exact Thompson sampling", holds, _listed(found, label))


def _listed(found: pd.DataFrame, label: str) -> str:
    rows, truths = (found[found["agent"] == name] for name in (label, TRUTH["label"]))
    return "; ".join(
        f"{row.world}: {written(row.change, 2)} where exact loses {truth.regret.estimate:.1f}"
        for row, truth in zip(rows.itertuples(), truths.itertuples(), strict=True)
    )


def _draw(found: pd.DataFrame) -> Figure:
    worlds = found.groupby("world", sort=False)
    figure, panels = new_panels(list(worlds.groups), 1)
    for axes, (_, rows) in zip(panels, worlds, strict=True):
        named = {f"{row.agent}, {row.cost:.0f} µs": row.regret for row in rows.itertuples()}
        draw_intervals(axes, named)
        axes.set(xlabel="regret at the horizon", xlim=(0, None))
    return figure
