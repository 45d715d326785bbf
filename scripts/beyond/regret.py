"""Regret over long runs: three ways to be Thompson sampling, and the paper's baselines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from paper import common
from paper.common import Section, Verdict

from bandit_gym.experiments.execution import Workers
from bandit_gym.results.plots import styles
from bandit_gym.results.results import RunResults, paired_differences
from bandit_gym.results.statistics import Interval, holm, mean_interval, paired_p_value
from beyond.settings import BASELINES, BLOCK_SIZE, EXACT, FAITHFUL, WORLDS, Scale

LEVEL = 0.05
TRUTH = str(EXACT["label"])
Runs = dict[str, RunResults]


def reproduce(scale: Scale, folder: Path, workers: Workers) -> Section:
    """Run every agent in both worlds, each replication with the same means and noise for all."""
    found = {world["label"]: _run(world, folder, workers, scale) for world in WORLDS}
    replications = scale.size("regret", "replications")
    picture = common.save_png(_draw(found), folder, "regret")
    return Section(
        title="Regret at the horizon, and what it costs",
        choices=f"T = {scale.horizon('regret'):,}, {replications} replications with common random "
        "numbers. "
        "Differences are to exact Thompson sampling (grid or Gibbs), paired by replication; their "
        "intervals hold together for all agents of a world (Bonferroni), and p-values have Holm's "
        "correction. Microseconds are of an agent's `act` and `observe` per decision, "
        f"{min(BLOCK_SIZE, replications)} lanes at a time on one core of a busy machine.",
        body="\n\n".join([picture, _table(found)]),
        verdicts=_verdicts(found),
    )


def _run(world: dict[str, Any], folder: Path, workers: Workers, scale: Scale) -> Runs:
    """Run each agent as an experiment of its own, so that one can be renewed without the others."""
    runs, replications = {}, scale.size("regret", "replications")
    for agent in (*FAITHFUL, *BASELINES):
        (run,) = common.simulate(
            folder / "data", [world], [agent], workers, replications=replications,
            horizon=scale.horizon("regret"), block_size=min(BLOCK_SIZE, replications),
        )  # fmt: skip
        runs[str(agent["label"])] = run
    return runs


def _labels(agents: tuple[dict[str, Any], ...]) -> list[str]:
    return [str(agent["label"]) for agent in agents if agent is not EXACT]


def _difference(runs: Runs, label: str) -> Interval:
    """Return the paired difference to the truth, its level shared among the world's agents."""
    confidence = 1 - LEVEL / (len(runs) - 1)
    differences = paired_differences(runs[label], runs[TRUTH], "pseudo_regret")[1][:, -1]
    return mean_interval(differences, confidence=confidence)


def _p_values(runs: Runs) -> dict[str, float]:
    labels = [label for label in runs if label != TRUTH]
    values = [
        paired_p_value(paired_differences(runs[label], runs[TRUTH], "pseudo_regret")[1][:, -1])
        for label in labels
    ]
    return dict(zip(labels, holm(values).tolist(), strict=True))


def _table(found: dict[str, Runs]) -> str:
    header = ["world", "agent", "regret", "less exact TS's", "p (Holm)", "µs per decision"]
    rows = []
    for world, runs in found.items():
        p_values = _p_values(runs)
        for label, run in runs.items():
            is_truth = label == TRUTH
            rows.append([
                world,
                label,
                common.written(common.final_regret(run)),
                "" if is_truth else common.written(_difference(runs, label)),
                "" if is_truth else f"{p_values[label]:.3f}",
                f"{1e6 * run.seconds_per_decision():.1f}",
            ])  # fmt: skip
    return common.markdown_table(header, rows)


def _verdicts(found: dict[str, Runs]) -> tuple[Verdict, ...]:
    return tuple(_alike(found, label) for label in _labels(FAITHFUL)) + tuple(
        _behind(found, label) for label in _labels(BASELINES)
    )


def _alike(found: dict[str, Runs], label: str) -> Verdict:
    """Say whether neither the test nor the interval tells an agent from the truth."""
    is_apart = [_p_values(runs)[label] < LEVEL for runs in found.values()]
    intervals = [_difference(runs, label) for runs in found.values()]
    is_within = all(interval.low <= 0 <= interval.high for interval in intervals)
    return Verdict(
        f"{label}: regret statistically indistinguishable from exact Thompson sampling's",
        "does not hold" if any(is_apart) else "holds" if is_within else "undecided",
        _listed(found, label),
    )


def _behind(found: dict[str, Runs], label: str) -> Verdict:
    lows = [_difference(runs, label).low for runs in found.values()]
    num_behind = sum(low > 0 for low in lows)
    holds = "holds" if num_behind == len(lows) else "holds in part" if num_behind else "undecided"
    return Verdict(f"{label}: behind exact Thompson sampling", holds, _listed(found, label))


def _listed(found: dict[str, Runs], label: str) -> str:
    parts = []
    for world, runs in found.items():
        regret = common.final_regret(runs[TRUTH]).estimate
        difference = common.written(_difference(runs, label), 2)
        parts.append(f"{world}: {difference} where exact loses {regret:.1f}")
    return "; ".join(parts)


def _draw(found: dict[str, Runs]) -> Figure:
    figure, panels = common.new_panels(list(found), 2)
    for axes, runs in zip(panels, found.values(), strict=True):
        for (label, run), style in zip(runs.items(), styles(), strict=False):
            regret, cost = common.final_regret(run), 1e6 * run.seconds_per_decision()
            ends = [[regret.estimate - regret.low], [regret.high - regret.estimate]]
            axes.errorbar([cost], [regret.estimate], yerr=ends, fmt="o", color=style["color"],
                          label=label, capsize=3)  # fmt: skip
        axes.set(xscale="log", xlabel="microseconds per decision", xlim=(1, 1000), ylim=(0, None))
        axes.set_ylabel("regret at the horizon")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize="small")
    return figure
