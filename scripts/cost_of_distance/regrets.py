"""What each agent loses beside exact Thompson sampling, in the same worlds with the same noise.

Letters: R replications.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from pages.command import Task
from pages.simulations import curves, simulate

from bandit_gym.experiments.entries import describe_environments
from bandit_gym.problem import BanditProblem
from bandit_gym.results.results import RunResults
from bandit_gym.results.statistics import mean_interval
from cost_of_distance.settings import (
    ALL,
    CONTENDERS,
    KINDS,
    LEVEL,
    MARGIN,
    NUM_REFERENCES,
    PARTS,
    Contender,
)

BLOCK_SIZE = 100
NUM_INTERVALS = len(CONTENDERS) * len([*KINDS, ALL]) * len(PARTS)
COSTS, GAINS, SAME, OPEN = "costs", "gains", "no difference", "undecided"


def play(
    task: Task, name: str, problem: BanditProblem, chosen: Sequence[Contender]
) -> pd.DataFrame:
    """Return a row per agent and horizon of one world.

    `lost` are (R,) shares of the `exact` agent's regret, a replication each; where an agent has
    raised, there are none, and `failure` says what.
    """
    horizons = horizons_of(task)
    (world,) = describe_environments(problem)
    world["label"] = name
    references = [_run(task, world, _reference(number), 1.0) for number in range(NUM_REFERENCES)]
    exact = np.mean([_at(horizons, run) for run in references], axis=0)
    rows = []
    for contender in chosen:
        try:
            run = _run(task, world, contender, contender.share)
        except RuntimeError as error:
            failure = {"agent": contender.label, "failure": _headline(error)}
            rows += [failure | {"horizon": t} for t in horizons]
            continue
        own = _at(horizons, run)
        for t, values, others in zip(horizons, own.T, exact.T, strict=True):
            lost = (values - others[: len(values)]) / others.mean()
            told = {"agent": contender.label, "horizon": t, "failure": ""}
            rows.append(told | {"exact": others.mean(), "lost": lost})
    return pd.DataFrame(rows)


def pool(found: pd.DataFrame) -> pd.DataFrame:
    """Return a row per kind of prior, `kind`, and of all kinds together, agent and horizon.

    `share` is the part of the exact agent's regret that is lost, with `low` and `high`, and `words`
    say what it comes to. Worlds share the seeds of their replications: shares are averaged over
    worlds in each replication, which is the unit of evidence. Intervals hold together for all
    kinds, agents and horizons (Bonferroni).

    Args:
        found: rows of several worlds, in which no agent has failed.
    """
    rows, each_and_all = [], pd.concat([found, found.assign(kind=ALL)])
    for key, worlds in each_and_all.groupby(["kind", "agent", "horizon"], sort=False):
        shares = np.mean(worlds["lost"].tolist(), axis=0)
        share, low, high = mean_interval(shares, confidence=1 - LEVEL / NUM_INTERVALS)
        rows.append(
            dict(zip(("kind", "agent", "horizon"), key, strict=True))
            | worlds[["tv", "bold", "lean"]].mean().to_dict()
            | {"worlds": len(worlds), "replications": len(shares)}
            | {"share": share, "low": low, "high": high, "words": judge(low, high, MARGIN)}
        )
    return pd.DataFrame(rows)


def horizons_of(task: Task) -> list[int]:
    """Return the numbers of steps after which regret is looked at."""
    return [max(1, round(part * task.sizes["horizon"])) for part in PARTS]


def _headline(error: RuntimeError) -> str:
    """Return what was raised in a run, without where: the second line of what the harness says."""
    lines = str(error).splitlines()
    return lines[min(1, len(lines) - 1)]


def _reference(number: int) -> Contender:
    entry = {"agent": "cost_of_distance.agents:Again", "number": number}
    return Contender(f"exact, run {number}", entry)


def _run(task: Task, world: dict[str, object], contender: Contender, share: float) -> RunResults:
    replications = max(10, round(share * task.sizes["replications"]))
    found = simulate(
        task, [world], [contender.entry | {"label": contender.label}], block_size=BLOCK_SIZE,
        replications=replications,
    )  # fmt: skip
    return found[str(world["label"])][contender.label]


def _at(horizons: Sequence[int], run: RunResults) -> np.ndarray:
    """Return the (R, 3) regrets at the horizons, on a line from one recorded step to the next."""
    found = curves("pseudo_regret", run)
    return np.array([[np.interp(t, run.steps, curve) for t in horizons] for curve in found])


def judge(low: float, high: float, margin: float) -> str:
    """Say what an interval of the regret lost comes to."""
    if low > 0 or high < 0:
        is_small = max(abs(low), abs(high)) <= margin
        return SAME if is_small else COSTS if low > 0 else GAINS
    return SAME if max(abs(low), abs(high)) <= margin else OPEN
