"""An agent or sampler in one case of a suite: its distance from the truth, a verdict, and its cost.

A *sampler* is a function `(problem, counts, sums, rng, size)` that returns (size, K) means, drawn
independently from what it takes the posterior to be, with `rng` as the only source of randomness.
Data are (K,) counts and sums.

An agent decides once in each of many fresh lanes that know the case's data. The *excess* of its
decisions is the total variation distance between the frequencies of their arms and the truth, less
what as many exact decisions would show on average. The verdict is

- **right** if the excess is at most 0.02, or no more than chance gives an exact agent in all but
  one of a thousand cases;
- **flagged** if it is larger, but the agent says so: `is_unreliable` holds for nine in ten
  decisions at least, or the other decisions by themselves are right;
- **refused** if the agent declines in one sentence that names another one, which can decide;
- **WRONG** otherwise, also where anything else is raised.

An agent that learns from single rewards and takes no totals (`can_warm_start` is False) observes
the rewards that made up those of a Bernoulli case, in an order that a fixed seed draws. Other
cases with data are left out, as totals do not say what the rewards were.

An agent that keeps draws of the posterior for a whole run says how many, as `num_particles`. There
the average over lanes hides a collapse. So the distance of each lane's own probabilities, averaged
over lanes, must be right too, with the noise of as many exact draws.

Notation: D decisions, K arms, N lanes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator, SeedSequence

from bandit_gym.checks import (
    as_numbers,
    check_actions,
    check_all,
    check_integer,
    check_numbers,
    check_probabilities,
    message,
)
from bandit_gym.checks.typing import BoolArray, FloatArray, IntArray
from bandit_gym.experiments.entries import (
    Entry,
    agent_names,
    is_sampler,
    load_agent,
    make_entry_agent,
    summarise_error,
)
from bandit_gym.fidelity.distance import measure_excess, noise_floor, total_variation
from bandit_gym.fidelity.suite import Case, ContextualCase
from bandit_gym.likelihoods import is_binary
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import BanditProblem, ContextualProblem
from bandit_gym.rollout import watch_generators

Sampler = Callable[[BanditProblem, IntArray, FloatArray, Generator, int], FloatArray]

MEASURED, FAILED, LEFT_OUT = "measured", "failed", "left out"
RIGHT, FLAGGED, REFUSED, WRONG = "right", "flagged", "refused", "WRONG"
MAX_EXCESS, FLAGGED_SHARE, CHANCE_LEVEL = 0.02, 0.9, 0.999
"""Of what is right; of decisions, where all count as flagged; and of what chance may give."""

NUM_FIRST_LANES, MAX_LANE_ARMS = 10, 10_000
"""Decisions made first; lanes times arms at a time, thereafter."""

NUM_LANES_ON_ROWS, NUM_LANES_THAT_KEEP = 4, 25
"""Lanes that learn from all rows of a case with features, each for a part of the decisions; and
where each lane errs by the draws that it keeps."""

MAX_SINGLE_REWARDS, MAX_LANE_REWARDS = 1_000_000, 1_000_000
"""Of a case that is played reward by reward, and in all lanes together; there are 10 at least."""

MAX_DRAWN_MEANS = 30_000_000
"""Samples times arms after which no more lanes are asked: races without end get few decisions."""


class Decisions(NamedTuple):
    """What decisions with the same data came to.

    Attributes:
        arms: (D,) that were chosen.
        is_flagged: (D,) whether the agent calls them unreliable.
        doubts: (D,) why, as a `Doubt`; 0 where it does not say.
        num_samples: (D,) it took; NaN where it does not say.
        lane_distances: (D,) distance of each lane's own probabilities from the truth; NaN if it
            keeps no draws.
        microseconds: of processor time a decision took; one of many lanes, or a sampler's draw.
        num_kept: draws of the posterior that a lane keeps for a whole run; 0 if none.
    """

    arms: IntArray
    is_flagged: BoolArray
    doubts: IntArray
    num_samples: FloatArray
    lane_distances: FloatArray
    microseconds: float
    num_kept: int


def describe_trial(
    entry: Entry, case: Case, status: str, verdict: str, words: str = ""
) -> dict[str, Any]:
    """Return a row of the table of distances without any: of an agent that failed, all of it."""
    sizes = {"arms": len(case.probabilities), "pulls": int(case.counts.sum())}
    outcome = {"status": status, "verdict": verdict, "words": words}
    return {"agent": entry.label, "case": case.name, "kind": case.kind} | sizes | outcome


def measure_distance(entry: Entry, case: Case, num_decisions: int, seed: int) -> dict[str, Any]:
    """Return a row of the table of distances; any error of an agent is reported there."""
    seeds = SeedSequence(seed, spawn_key=(zlib.crc32(f"{entry.label}/{case.name}".encode()),))
    try:
        agent = make_suite_agent(entry, case.problem, num_decisions)
        if not can_learn(agent, case):
            return describe_trial(entry, case, LEFT_OUT, LEFT_OUT)
        with watch_generators(entry.target):
            made = decide_in_lanes(agent, case, num_decisions, seeds)
    except (Exception, SystemExit) as error:
        outcome = (REFUSED, REFUSED) if is_refusal(error, entry) else (FAILED, WRONG)
        return describe_trial(entry, case, *outcome, summarise_error(error))
    probabilities, run_excess = case.probabilities, np.nan
    if made.num_kept:
        run_excess = (
            float(made.lane_distances.mean()) - noise_floor(probabilities, made.num_kept)[0]
        )
    excess = measure_excess(shares_of(made.arms, probabilities), probabilities, len(made.arms))
    row = describe_trial(entry, case, MEASURED, judge_decisions(made, probabilities))
    reported = {
        "decisions": len(made.arms),
        "run_excess": run_excess,
        "flagged": float(made.is_flagged.mean()),
        "doubts": int(np.bitwise_or.reduce(made.doubts)),
        "num_samples": float(made.num_samples.mean()),
        "microseconds": made.microseconds,
    }
    return row | excess._asdict() | reported


def shares_of(arms: IntArray, probabilities: FloatArray) -> FloatArray:
    """Return the (K,) frequencies of arms."""
    return np.asarray(np.bincount(arms, minlength=len(probabilities)) / len(arms))


def judge_decisions(made: Decisions, probabilities: FloatArray) -> str:
    """Return the verdict on decisions whose arms should have the (K,) probabilities."""
    if _are_exact(made, probabilities, slice(None)):
        return RIGHT
    if made.is_flagged.mean() >= FLAGGED_SHARE or _are_exact(made, probabilities, ~made.is_flagged):
        return FLAGGED
    return WRONG


def _are_exact(made: Decisions, probabilities: FloatArray, chosen: Any) -> bool:
    arms = made.arms[chosen]
    distance = float(total_variation(shares_of(arms, probabilities), probabilities))
    return _is_within_noise(distance, probabilities, len(arms)) and (
        not made.num_kept
        or _is_within_noise(float(made.lane_distances[chosen].mean()), probabilities, made.num_kept)
    )


def _is_within_noise(distance: float, probabilities: FloatArray, num_draws: int) -> bool:
    floor, high = noise_floor(probabilities, num_draws, level=CHANCE_LEVEL)
    return distance <= max(floor + MAX_EXCESS, high)


def is_refusal(error: BaseException, entry: Entry) -> bool:
    """Say whether an error is one sentence that names another agent, which can."""
    if not isinstance(error, ValueError):
        return False
    text, own_name = str(error), entry.target.rpartition(":")[2]
    others = {target.rpartition(":")[2] for target in agent_names().values()} - {own_name}
    return "\n" not in text and text.endswith(".") and any(name in text for name in others)


def can_learn(agent: Any, case: Case) -> bool:
    """Say whether an agent can be given the data of a case."""
    if isinstance(case, ContextualCase) or takes_totals(agent) or not case.counts.any():
        return True
    return is_binary(case.problem.likelihood) and (case.counts.sum() <= MAX_SINGLE_REWARDS)


def takes_totals(agent: Any) -> bool:
    """Say whether an agent learns from counts and sums, and needs no single rewards."""
    return bool(getattr(agent, "can_warm_start", True))


def decide_in_lanes(agent: Any, case: Case, num_decisions: int, seed: SeedSequence) -> Decisions:
    """Decide once in each of many fresh lanes; in fewer where that takes too many samples."""
    if isinstance(case, ContextualCase):
        return _decide_on_features(agent, case, num_decisions, seed)
    if not takes_totals(agent):
        return _decide_after_rewards(agent, case, num_decisions, seed)
    num_arms, num_samples, microseconds = len(case.probabilities), 0.0, 0.0
    num_kept = count_kept(agent)
    parts: list[tuple[Any, ...]] = []
    for size, lane_seed in batches(num_decisions, num_arms, seed):
        if num_samples * num_arms > MAX_DRAWN_MEANS:
            break
        agent.reset(num_envs=size, seed=lane_seed)
        agent.warm_start(case.counts, case.sums)
        start_time = process_time()
        arms = check_actions(agent.act(), num_arms, size)
        microseconds = 1e6 * (process_time() - start_time) / size
        reported = read_diagnostics(agent, size)
        parts.append((arms, *reported, measure_lanes(agent, case, size)))
        num_samples += float(reported[-1].sum())
    columns = map(np.concatenate, zip(*parts, strict=True))
    return Decisions._make([*columns, microseconds, num_kept])


def _decide_on_features(
    agent: Any, case: ContextualCase, num_decisions: int, seed: SeedSequence
) -> Decisions:
    """Learn from all rows in a few lanes, then decide in them over and over."""
    num_lanes = NUM_LANES_THAT_KEEP if count_kept(agent) else NUM_LANES_ON_ROWS
    lanes = np.zeros(num_lanes, dtype=np.int64)
    agent.reset(num_envs=num_lanes, seed=seed)
    for row, reward in zip(case.rows, case.rewards, strict=True):
        agent.observe(lanes, lanes + reward, observation=np.tile(row, (num_lanes, 1)))
    features = np.tile(case.features, (num_lanes, 1, 1))
    return _decide_repeatedly(agent, case, num_decisions, num_lanes, features)


def _decide_after_rewards(
    agent: Any, case: Case, num_decisions: int, seed: SeedSequence
) -> Decisions:
    """Learn a Bernoulli case reward by reward, in fewer lanes the more there are, then decide."""
    arms, rewards = list_rewards(case)
    max_lanes = max(NUM_FIRST_LANES, MAX_LANE_REWARDS // max(1, len(arms)))
    num_lanes = min(num_decisions, max_lanes, MAX_LANE_ARMS // len(case.probabilities))
    agent.reset(num_envs=num_lanes, seed=seed)
    lanes = np.zeros(num_lanes, dtype=np.int64)
    for arm, reward in zip(arms, rewards, strict=True):
        agent.observe(lanes + arm, lanes + reward)
    return _decide_repeatedly(agent, case, num_decisions, num_lanes)


def list_rewards(case: Case) -> tuple[IntArray, FloatArray]:
    """Return the (t,) arms and (t,) rewards of a Bernoulli case, in an order drawn for its name."""
    counts, sums = case.counts, case.sums.astype(np.int64)
    sizes = np.stack([sums, counts - sums], axis=1).ravel()  # of each arm, ones and then zeros
    order = make_generator(case.name).permutation(np.repeat(np.arange(len(sizes)), sizes))
    return order // 2, 1.0 - order % 2


def _decide_repeatedly(
    agent: Any, case: Case, num_decisions: int, num_lanes: int, *features: FloatArray
) -> Decisions:
    """Decide over and over in lanes that have learnt the case."""
    agent.act(*features)  # which compiles, and fits the posterior
    num_arms, num_kept = len(case.probabilities), count_kept(agent)
    lane_distances = measure_lanes(agent, case, num_lanes, *features)
    parts, start_time = [], process_time()
    for _ in range(-(-num_decisions // num_lanes)):
        arms = check_actions(agent.act(*features), num_arms, num_lanes)
        parts.append((arms, *read_diagnostics(agent, num_lanes), lane_distances))
    microseconds = 1e6 * (process_time() - start_time) / (len(parts) * num_lanes)
    columns = map(np.concatenate, zip(*parts, strict=True))
    return Decisions._make([*columns, microseconds, num_kept])


def count_kept(agent: Any) -> int:
    """Return how many draws of the posterior a lane keeps for a whole run; 0 if none."""
    if not hasattr(agent, "action_probabilities"):
        return 0
    num_kept = int(np.max(getattr(agent, "num_particles", 0)))
    return check_integer(f"{type(agent).__name__}.num_particles", num_kept, minimum=0)


def measure_lanes(agent: Any, case: Case, num_lanes: int, *features: FloatArray) -> FloatArray:
    """Return the (N,) distances of lanes' own probabilities; NaN of agents that keep no draws."""
    if not count_kept(agent):
        return np.full(num_lanes, np.nan)
    name = f"{type(agent).__name__}.action_probabilities"
    shape = num_lanes, len(case.probabilities)
    found = check_probabilities(name, agent.action_probabilities(*features), shape)
    return np.asarray(total_variation(found, case.probabilities))


def batches(
    num_decisions: int, num_arms: int, seed: SeedSequence
) -> Iterator[tuple[int, SeedSequence]]:
    """Yield numbers of lanes, a few at first, that add up to the decisions, and their seeds."""
    size = NUM_FIRST_LANES
    while num_decisions > 0:
        size = min(size, num_decisions)
        yield size, seed.spawn(1)[0]
        num_decisions, size = num_decisions - size, min(10 * size, MAX_LANE_ARMS // num_arms)


def read_diagnostics(agent: Any, num_lanes: int) -> tuple[BoolArray, IntArray, FloatArray]:
    """Return (N,) flags, doubts and samples of the last decision; False, 0, NaN if none.

    Raises:
        TypeError: if flags or doubts are no numbers.
        ValueError: if they are NaN.
    """
    reported = agent.diagnostics() if hasattr(agent, "diagnostics") else {}
    name = f"{type(agent).__name__}.diagnostics"
    doubts = check_numbers(f"{name}()['doubts']", reported.get("doubts", 0)).astype(np.int64)
    given = reported.get("is_unreliable", doubts)
    flags = check_numbers(f"{name}()['is_unreliable']", given, "biuf") != 0
    samples = np.broadcast_to(reported.get("num_samples", np.nan), num_lanes)
    return np.broadcast_to(flags, num_lanes), np.broadcast_to(doubts, num_lanes), samples


def make_suite_agent(entry: Entry, problem: BanditProblem, horizon: int) -> Any:
    """Make an agent, of a sampler or a posterior if that is what the entry names.

    Args:
        entry: the agent.
        problem: what it is given.
        horizon: pulls of the run, given to agents that ask.
    """
    code: Any = load_agent(entry.target, entry.pickles)
    if is_sampler(code):
        if isinstance(problem, ContextualProblem):
            condition = "be agents or posteriors where arms have features"
            remedy = "a sampler takes counts and sums of arms"
            raise TypeError(message("agents", condition, entry.label, remedy))
        return SamplerAgent(problem, partial(code, **entry.arguments))
    if hasattr(code, "sample") and not hasattr(code, "act"):
        thompson: Any = load_agent(agent_names()["thompson"])
        return thompson(problem, posterior=code(problem, **entry.arguments))
    return make_entry_agent(entry, problem, [horizon])


class SamplerAgent:
    """Thompson sampling from a sampler, in lanes that know the same: the best arm of one draw each.

    Args:
        problem: likelihood, prior and number of arms.
        sampler: of its posterior.
    """

    def __init__(self, problem: BanditProblem, sampler: Sampler) -> None:
        self.problem, self.sampler = problem, sampler

    def reset(self, num_envs: int, seed: SeedSequence) -> None:
        """Prepare for N lanes."""
        self.num_lanes, self.rng = num_envs, np.random.default_rng(seed)

    def warm_start(self, counts: IntArray, sums: FloatArray) -> None:
        """Let every lane know (K,) data."""
        self.data = counts, sums

    def act(self) -> IntArray:
        """Return the (N,) best arms of a sampler's means, ties broken at random.

        Raises:
            ValueError: if they have another shape, are no finite numbers or lie outside the
                support.
        """
        data = self.data[0].copy(), self.data[1].copy()
        returned = self.sampler(self.problem, *data, self.rng, self.num_lanes)
        name, shape = "what the sampler returns", (self.num_lanes, self.problem.num_arms)
        means = as_numbers(returned)
        if means is None or means.shape != shape or not np.isfinite(means).all():
            raise ValueError(message(name, f"be finite numbers of shape {shape}", returned))
        low, high = self.problem.arm_support().T
        is_inside = (low <= means) & (means <= high)
        check_all(name, is_inside, "lie in the support of the prior", means)
        is_best = means == means.max(axis=1, keepdims=True)
        return np.asarray((is_best * (1 + self.rng.random(means.shape))).argmax(axis=1))
