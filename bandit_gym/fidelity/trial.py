"""An agent or sampler in one case of a suite: its distance from the truth, and what it costs.

Letters: K arms, R replications.
"""

from __future__ import annotations

import zlib
from itertools import islice
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from numpy.random import SeedSequence

from bandit_gym.checks import message
from bandit_gym.envs import BanditVectorEnv
from bandit_gym.experiments.entries import Entry
from bandit_gym.experiments.simulation import headline
from bandit_gym.fidelity.candidates import (
    LONGEST_REPLAY,
    Sampler,
    best_arms,
    can_be_told,
    draw_means,
    find_sampler,
    make_agent,
    tell_history,
)
from bandit_gym.fidelity.distance import measure_excess
from bandit_gym.fidelity.judge import MOST_MEANS, batches
from bandit_gym.fidelity.suite import SuiteCase
from bandit_gym.rollout import AGENT_STREAM, play
from bandit_gym.typing import BoolArray, FloatArray

MEASURED, NOT_APPLICABLE, FAILED = "measured", "not applicable", "failed"
MOST_ROWS, NUM_TIMED = 1000, 10
"""Draws of a sampler in a call, and calls of a single draw of which the median is timed."""


class Decisions(NamedTuple):
    """What decisions with the same data came to.

    Attributes:
        counts: (K,) of each arm.
        flagged: share that the agent calls unreliable.
        num_samples: it took for one, on average; NaN where it does not say.
        microseconds: of processor time a decision took; one of many lanes, or a sampler's draw.
    """

    counts: FloatArray
    flagged: float
    num_samples: float
    microseconds: float


class Game(NamedTuple):
    """Whole runs of an agent in a suite's problem.

    Attributes:
        agent: label.
        world: of the suite.
        regrets: (R,) pseudo-regrets of a run, per 1,000 steps; empty if it failed.
        words: of what failed.
    """

    agent: str
    world: str
    regrets: FloatArray
    words: str = ""


def measure_distance(
    entry: Entry, case: SuiteCase, num_decisions: int, seed: int
) -> dict[str, Any]:
    """Return a row of the table of distances; whatever an agent raises is told there."""
    row = {"agent": entry.label, "case": case.name, "kind": case.kind, "arms": len(case.law)}
    row["pulls"] = int(case.counts.sum())
    seeds = SeedSequence(seed, spawn_key=(zlib.crc32(f"{entry.label}/{case.name}".encode()),))
    try:
        made = decide(entry, case, num_decisions, seeds)
    except (Exception, SystemExit) as error:
        return row | {"status": FAILED, "words": headline(error)}
    if made is None:
        words = f"it has no warm_start, and {row['pulls']:,} pulls are over {LONGEST_REPLAY:,}"
        return row | {"status": NOT_APPLICABLE, "words": words}
    total = int(made.counts.sum())
    found = measure_excess(made.counts / total, case.law, total)._asdict()
    told = {name: value for name, value in made._asdict().items() if name != "counts"}
    return row | {"status": MEASURED, "words": "", "decisions": total} | found | told


def decide(
    entry: Entry, case: SuiteCase, num_decisions: int, seed: SeedSequence
) -> Decisions | None:
    """Decide many times, each time with the case's data; None if an agent cannot be told them."""
    sampler = find_sampler(entry)
    if sampler is not None:
        return _decide_by_sampler(sampler, case, num_decisions, seed)
    agent = make_agent(entry, case.problem, num_decisions, case.name)
    return _decide_by_agent(agent, case, num_decisions, seed)


def _decide_by_sampler(
    sampler: Sampler, case: SuiteCase, num_decisions: int, seed: SeedSequence
) -> Decisions:
    rng, data = np.random.default_rng(seed), (case.counts, case.sums)
    counts = np.zeros(len(case.law))
    for start in range(0, num_decisions, MOST_ROWS):
        size = min(MOST_ROWS, num_decisions - start)
        means = draw_means(sampler, case.problem, data, rng, size, case.name)
        counts += np.bincount(best_arms(means, rng), minlength=len(counts))
    times = []
    for _ in range(NUM_TIMED):
        begin = process_time()
        draw_means(sampler, case.problem, data, rng, 1, case.name)
        times.append(process_time() - begin)
    return Decisions(counts, 0.0, np.nan, 1e6 * float(np.median(times)))


def _decide_by_agent(
    agent: Any, case: SuiteCase, num_decisions: int, seed: SeedSequence
) -> Decisions | None:
    """Decide once in each of many fresh lanes; in fewer where that takes too many samples."""
    if not can_be_told(agent, case.counts):
        return None
    num_arms, seconds = len(case.law), 0.0
    samples: list[FloatArray] = []
    flags: list[BoolArray] = []
    counts, size = np.zeros(num_arms), 0
    for size, lane_seed in batches(num_decisions, num_arms, seed):
        if sum(map(np.sum, samples)) * num_arms > MOST_MEANS:
            break
        agent.reset(num_envs=size, seed=lane_seed)
        tell_history(agent, case.problem.likelihood, case.counts, case.sums, size)
        begin = process_time()
        arms = check_arms(agent.act(), size, num_arms, case.name)
        seconds = process_time() - begin
        is_unreliable, num_samples = check_diagnostics(agent, size, case.name)
        flags.append(is_unreliable)
        samples.append(num_samples)
        counts += np.bincount(arms, minlength=num_arms)
    flagged = float(np.concatenate(flags).mean())
    return Decisions(
        counts, flagged, float(np.concatenate(samples).mean()), 1e6 * seconds / len(flags[-1])
    )


def check_arms(arms: Any, num_lanes: int, num_arms: int, where: str) -> Any:
    """Return (N,) arms; refuse what are none, naming the problem."""
    found = np.asarray(arms)
    is_right = found.shape == (num_lanes,) and found.dtype.kind in "iu"
    if not is_right or (found < 0).any() or (found >= num_arms).any():
        name, condition = f"what act returns in {where!r}", f"be {num_lanes} arms below {num_arms}"
        raise ValueError(f"{name} must {condition}, got {arms!r}.")
    return found


def check_diagnostics(agent: Any, num_lanes: int, where: str) -> tuple[BoolArray, FloatArray]:
    """Return (N,) flags and samples of the last decision, False and NaN where none are told."""
    told = agent.diagnostics() if hasattr(agent, "diagnostics") else {}
    flags = np.asarray(told.get("is_unreliable", False))
    samples = np.asarray(told.get("num_samples", np.nan))
    for key, values, condition, is_right in (
        ("is_unreliable", flags, "True or False", flags.dtype == bool),
        ("num_samples", samples, "numbers of at least 0", not (samples < 0).any()),
    ):
        if values.shape not in ((), (num_lanes,)) or not is_right:
            name = f"diagnostics()[{key!r}] in {where!r}"
            raise ValueError(message(name, f"be {condition} for {num_lanes} lanes", told[key]))
    return np.broadcast_to(flags, num_lanes), np.broadcast_to(samples, num_lanes)


def play_game(entry: Entry, case: SuiteCase, sizes: tuple[int, int], seed: int) -> Game:
    """Play whole runs; worlds and noise are the same for all agents, their own streams are not.

    Args:
        entry: the agent.
        case: whose problem is played.
        sizes: replications and horizon.
        seed: of the worlds, and with the agent's label of the agent.
    """
    replications, horizon = sizes
    key = (AGENT_STREAM, zlib.crc32(f"{entry.label}/{case.world}".encode()))
    try:
        agent = make_agent(entry, case.problem, horizon, case.world)
        env = BanditVectorEnv(replications, case.problem, max_episode_steps=horizon)
        seeds = SeedSequence(seed, spawn_key=key)
        steps = islice(play(agent, env, env_seed=seed, agent_seed=seeds), horizon)
        regrets = np.array([step.pseudo_regrets for step in steps], dtype=np.float64).sum(axis=0)
    except (Exception, SystemExit) as error:
        return Game(entry.label, case.world, np.empty(0), headline(error))
    return Game(entry.label, case.world, regrets * 1000 / horizon)
