"""Agents put to histories: how often they choose each arm, against how often they should.

Letters: H steps at which a history is looked at, K arms.
"""

from __future__ import annotations

import copy
import time
import zlib
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.random import Generator, SeedSequence

from agents import Agent, SMCThompson, make_agent
from bandit_gym.envs.dynamics import pull
from bandit_gym.fidelity.distance import noise_floor, total_variation
from bandit_gym.problem import BanditProblem
from distances.histories import Histories, advance, is_dependent, play
from distances.resampling import resampling_law
from distances.settings import PROBLEMS, Setting

NUM_RUNS = 10
NUM_TIMED_STEPS = 2
FAR = 0.05
"""Excess beyond which an agent should have said that it is unsure."""

LONGEST_CHECKED = 100
"""Length up to which a race of fixed length is compared with its law in theory."""


class Plan(NamedTuple):
    """What to measure on each problem.

    Attributes:
        settings: agents.
        steps: increasing numbers of pulls at which to look.
        scale: share of the settings' decisions to make.
        seed: of histories and agents.
        tolerance: of the truth where it is found by Gibbs sampling.
    """

    settings: tuple[Setting, ...]
    steps: tuple[int, ...]
    scale: float
    seed: int
    tolerance: float


def measure_problem(name: str, plan: Plan) -> pd.DataFrame:
    """Return one row per setting and step on one problem."""
    problem = PROBLEMS[name]
    root = SeedSequence(plan.seed, spawn_key=(zlib.crc32(name.encode()),))
    history_seed, *seeds = root.spawn(1 + len(plan.settings))
    tolerance = min(0.05, plan.tolerance) if is_dependent(problem) else None
    histories = play(problem, plan.steps, history_seed, tolerance=tolerance)
    rows = []
    for setting, seed in zip(plan.settings, seeds, strict=True):
        rows += measure(problem, setting, histories, plan.scale, seed)
    return pd.DataFrame(rows).assign(problem=name, seed=plan.seed)


def count_arms(
    agent: Agent, histories: Histories, setting: Setting, num_decisions: int, seed: SeedSequence
) -> list[dict[str, Any]]:
    """Return, for each step, how often each arm was chosen and what a step of a run costs there.

    Where an agent refuses to decide (a race without any sample that the prior allows), the row has
    its words under "failure" instead.
    """
    lanes = min(setting.num_lanes, num_decisions)
    num_rounds = -(-num_decisions // lanes)
    # What a lane of particles drew once serves it for a whole run: it makes one decision.
    is_persistent = isinstance(agent, SMCThompson)
    num_batches, num_repeats = (num_rounds, 1) if is_persistent else (1, num_rounds)
    decisions: list[list[pd.DataFrame]] = [[] for _ in histories.steps]
    rows: list[dict[str, Any]] = [{} for _ in histories.steps]
    for batch in seed.spawn(num_batches):
        agent.reset(lanes, seed=batch)
        for h in advance(agent, histories):
            try:
                for _ in range(setting.num_warmups):
                    agent.act()  # may compile, learns how long races are, forgets where it began
                for _ in range(num_repeats):
                    decisions[h].append(pd.DataFrame({"arm": agent.act(), **agent.diagnostics()}))
                if not rows[h]:
                    rows[h]["microseconds"] = time_steps(agent)
            except ValueError as error:
                rows[h]["failure"] = str(error)
    return [
        {"failure": row["failure"]} if "failure" in row else row | _averages(pd.concat(made), agent)
        for row, made in zip(rows, decisions, strict=True)
    ]


def _averages(decisions: pd.DataFrame, agent: Agent) -> dict[str, Any]:
    wins = np.bincount(decisions.pop("arm"), minlength=agent.problem.num_arms)
    return {"wins": wins, "decisions": len(decisions), **decisions.mean()}


def time_steps(agent: Agent) -> float:
    """Return the processor microseconds of a decision and of learning from its reward, per lane.

    A copy of the agent makes the steps, of which the first may make tables and does not count.
    """
    agent, rng, problem = copy.deepcopy(agent), np.random.default_rng(0), agent.problem
    prior_mean = problem.prior.sample(rng, (1000, problem.num_arms)).mean(axis=0)
    means = (agent.sums + prior_mean) / (agent.counts + 1)
    start = 0.0
    for step in range(1 + NUM_TIMED_STEPS):
        if step == 1:
            start = time.process_time()
        actions = agent.act()
        agent.observe(actions, pull(problem.likelihood, means, actions, rng.random(len(means))))
    return 1e6 * (time.process_time() - start) / (NUM_TIMED_STEPS * len(means))


def add_single_run(
    rows: list[dict[str, Any]], agent: SMCThompson, histories: Histories, seed: SeedSequence
) -> None:
    """Add the distance of one run's law from the truth, averaged over runs; it has no noise."""
    agent.reset(NUM_RUNS, seed=seed)
    for h in advance(agent, histories):
        truth = histories.probabilities[h]
        distances = total_variation(agent.action_probabilities(), truth)
        rows[h]["single_run_excess"] = float(distances.mean())
        agent.act()
        floors = noise_floor(truth, int(agent.diagnostics()["num_samples"].mean()))
        add_flags(rows[h], distances, floors, agent.diagnostics()["is_unreliable"])


def add_flags(
    row: dict[str, Any], distances: np.ndarray, floors: tuple[float, float], flags: np.ndarray
) -> None:
    """Add how many of some laws are far from the truth, how many near, and their flags.

    Args:
        row: what is known of a step.
        distances: (D,) from the truth.
        floors: mean and 97.5 % quantile of such a distance for exact decisions.
        flags: (D,) share of the decisions by each law that were flagged.
    """
    is_near = distances <= floors[1]
    is_far = ~is_near & (distances > floors[0] + FAR)
    row |= {"far": int(is_far.sum()), "far_flagged": float(flags[is_far].sum())}
    row |= {"near": int(is_near.sum()), "near_flagged": float(flags[is_near].sum())}


def add_resampling(
    rows: list[dict[str, Any]],
    agent: Agent,
    histories: Histories,
    num_samples: int,
    rng: Generator,
) -> None:
    """Add the distance from the law that a race of fixed length has in theory.

    That law is itself an average, over as many sets of samples as there are decisions. It counts
    here as one draw per set, which it is better than: the noise is over- rather than understated.
    """
    for h, row in enumerate(rows):
        law = None
        if "wins" in row:
            statistics = (histories.counts[h], histories.sums[h])
            law = resampling_law(agent.problem, statistics, num_samples, row["decisions"], rng)
        if law is not None:
            distance = float(total_variation(row["wins"] / row["decisions"], law))
            row["resampling_tv"] = distance
            row["resampling_floor_high"] = noise_floor(law, max(1, row["decisions"] // 2))[1]


def measure(
    problem: BanditProblem, setting: Setting, histories: Histories, scale: float, seed: SeedSequence
) -> list[dict[str, Any]]:
    """Return one row per step for one agent on one problem; none if it cannot treat the problem."""
    try:
        agent = make_agent(setting.agent, problem, **setting.options)
    except ValueError:
        return []
    num_decisions = max(1, round(scale * setting.num_decisions))
    seeds = seed.spawn(3)
    rows = count_arms(agent, histories, setting, num_decisions, seeds[0])
    if isinstance(agent, SMCThompson):
        add_single_run(rows, agent, histories, seeds[1])
    length = setting.options.get("stopping")
    is_reference = setting.options.get("proposal") == "reference"
    if isinstance(length, int) and length <= LONGEST_CHECKED and is_reference:
        add_resampling(rows, agent, histories, length, np.random.default_rng(seeds[2]))
    for h, row in enumerate(rows):
        if "wins" in row:
            add_distance(row, histories.probabilities[h])
        told = {"step": histories.steps[h], "truth_error": histories.errors[h]}
        if_any = {"failure": None, "resampling_tv": np.nan, "resampling_floor_high": np.nan}
        rows[h] = {"setting": setting.label, "family": setting.family, **told, **if_any, **row}
    return rows


def add_distance(row: dict[str, Any], truth: np.ndarray) -> None:
    """Put the distance from the truth, and its noise floor, in the place of the arms' counts."""
    row["tv"] = float(total_variation(row.pop("wins") / row["decisions"], truth))
    row["floor"], row["floor_high"] = noise_floor(truth, row["decisions"])
    row["excess"] = row["tv"] - row["floor"]
    if "far" not in row and "is_unreliable" in row:
        floors = row["floor"], row["floor_high"]
        add_flags(row, np.array([row["tv"]]), floors, np.array([row["is_unreliable"]]))
