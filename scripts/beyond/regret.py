"""Regret over long runs: three ways to be Thompson sampling, and the paper's baselines."""

from __future__ import annotations

from matplotlib.figure import Figure
from pages.command import Task
from pages.figures import add_legend, new_panels
from pages.page import Section, Verdict, graded, markdown_table, written
from pages.simulations import Runs, difference, differences, final_regret, simulate

from bandit_gym.results.plots import COLOURS
from bandit_gym.results.statistics import Interval, holm, paired_p_value
from beyond.settings import BASELINES, BLOCK_SIZE, FAITHFUL, WORLDS

LEVEL = 0.05
TRUTH, *SIMILAR = (str(agent["label"]) for agent in FAITHFUL)


def reproduce(task: Task) -> Section:
    """Run every agent in both worlds, each replication with the same means and noise for all."""
    found = {str(world["label"]): _run(task, world) for world in WORLDS}
    replications = task.sizes["replications"]
    return Section(
        title="Regret: at the horizon, and what it costs",
        text=f"T = {task.sizes['horizon']:,}, {replications} replications with common random "
        "numbers. "
        "Differences are to exact Thompson sampling (grid or Gibbs), paired by replication; their "
        "intervals hold together for all agents of a world (Bonferroni), and p-values have Holm's "
        "correction. Microseconds are of an agent's `act` and `observe` per decision, "
        f"{min(BLOCK_SIZE, replications)} lanes at a time on one core of a busy machine.",
        pictures={"regret": _draw(found)},
        body=[markdown_table([row for world, runs in found.items() for row in _rows(world, runs)])],
        verdicts=[_alike(found, label) for label in SIMILAR]
        + [_behind(found, str(agent["label"])) for agent in BASELINES],
    )


def _run(task: Task, world: dict[str, object]) -> Runs:
    """Run each agent as an experiment of its own, so that one can be renewed without the others."""
    runs: Runs = {}
    for agent in (*FAITHFUL, *BASELINES):
        runs |= simulate(task, [world], [agent], block_size=BLOCK_SIZE)[str(world["label"])]
    return runs


def _difference(runs: Runs, label: str) -> Interval:
    """Return the paired difference to the truth, its level shared among the world's agents."""
    return difference((runs[label], runs[TRUTH]), confidence=1 - LEVEL / (len(runs) - 1))


def _p_values(runs: Runs) -> dict[str, float]:
    others = [label for label in runs if label != TRUTH]
    values = [paired_p_value(differences(runs[label], runs[TRUTH])) for label in others]
    return dict(zip(others, holm(values).tolist(), strict=True))


def _rows(world: str, runs: Runs) -> list[dict[str, str]]:
    p_values = _p_values(runs)
    return [
        {
            "world": world,
            "agent": label,
            "regret": written(final_regret(run)),
            "less exact TS's": "" if label == TRUTH else written(_difference(runs, label)),
            "p (Holm)": "" if label == TRUTH else f"{p_values[label]:.3f}",
            "µs per decision": f"{1e6 * run.seconds_per_decision():.1f}",
        }
        for label, run in runs.items()
    ]


def _alike(found: dict[str, Runs], label: str) -> Verdict:
    """Say whether neither the test nor the interval tells an agent from the truth."""
    is_apart = any(_p_values(runs)[label] < LEVEL for runs in found.values())
    intervals = [_difference(runs, label) for runs in found.values()]
    is_within = all(interval.low <= 0 <= interval.high for interval in intervals)
    return Verdict(
        f"{label}: regret statistically indistinguishable from exact Thompson sampling's",
        "does not hold" if is_apart else graded(is_within, otherwise="undecided"),
        _listed(found, label),
    )


def _behind(found: dict[str, Runs], label: str) -> Verdict:
    is_behind = (_difference(runs, label).low > 0 for runs in found.values())
    holds = graded(*is_behind, otherwise="undecided")
    return Verdict(f"{label}: behind exact Thompson sampling", holds, _listed(found, label))


def _listed(found: dict[str, Runs], label: str) -> str:
    parts = []
    for world, runs in found.items():
        regret = final_regret(runs[TRUTH]).estimate
        change = written(_difference(runs, label), 2)
        parts.append(f"{world}: {change} where exact loses {regret:.1f}")
    return "; ".join(parts)


def _draw(found: dict[str, Runs]) -> Figure:
    figure, panels = new_panels(list(found), 2)
    for axes, runs in zip(panels, found.values(), strict=True):
        for (label, run), colour in zip(runs.items(), COLOURS, strict=False):
            regret, cost = final_regret(run), 1e6 * run.seconds_per_decision()
            ends = [[regret.estimate - regret.low], [regret.high - regret.estimate]]
            axes.errorbar([cost], [regret.estimate], ends, fmt="o", color=colour, label=label,
                          capsize=3)  # fmt: skip
        axes.set(xscale="log", xlabel="microseconds per decision", xlim=(1, 1000), ylim=(0, None))
        axes.set_ylabel("regret at the horizon")
    add_legend(figure, 3)
    return figure
