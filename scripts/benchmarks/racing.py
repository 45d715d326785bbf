"""Racing Thompson, as in the paper: what a decision costs, per sample that its race needed.

Contestants decide on the same histories, which are spread over an episode of Thompson sampling in
K = 10 arms, with delta = sigma = 0.1. Races are of random length, and of the same distribution for
all; so costs are divided by samples used, which leaves samples drawn in vain, and all else that a
decision takes, in them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from agents import ExactThompson, RacingThompson
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Likelihood, Poisson
from bandit_gym.priors import TruncatedNormal
from bandit_gym.problem import BanditProblem
from benchmarks.games import (
    NUM_ARMS,
    UNIFORM_PRIOR,
    play_from_start,
    play_histories,
    truncated_problem,
)
from benchmarks.plain_numpy import reference_sampler
from benchmarks.session import BLOCK_SIZE, Contestants, Measurement, Session
from benchmarks.timing import Contestant, make_contestant

DELTA, SIGMA = 0.1, 0.1
WORK_UNIT = "sample"
NUM_MATCHED_STEPS = 200

RACED_PRIORS: dict[Likelihood, TruncatedNormal] = {
    Bernoulli(): UNIFORM_PRIOR,
    Exponential(): TruncatedNormal(1.0, 0.2, low=0.1, high=3.0),
    Gaussian(): TruncatedNormal(0.0, 1.0, low=-2.0, high=2.0),
    Poisson(): TruncatedNormal(2.0, 0.5, low=0.0, high=5.0),
}
"""A prior for each likelihood that is not conjugate to it."""


def measurements(session: Session) -> Iterator[Measurement]:
    """Yield the measurements of every likelihood, and of matched races."""
    for likelihood, prior in RACED_PRIORS.items():
        problem = BanditProblem(likelihood, prior, NUM_ARMS)
        yield _time_against_numpy(session, problem)
    yield _time_matched_races(session)


def _time_against_numpy(session: Session, problem: BanditProblem) -> Measurement:
    label = problem.likelihood.name
    num_lanes = session.effort.width(BLOCK_SIZE)

    def contestants() -> Contestants:
        counts, sums = play_histories(problem, num_lanes)
        ours, num_samples = _make_race_contestant(problem, counts, sums)
        return {
            "ours": ours,
            "bulk draws": _make_bulk_draws(problem.likelihood, counts, sums, num_samples),
        }

    ratios = {f"racing.{label}.bulk": ("ours", "bulk draws")}
    return session.match(f"Racing, {label}, {num_lanes} lanes: ", ratios, WORK_UNIT, contestants)


def _time_matched_races(session: Session) -> Measurement:
    """Announce races between draws of the posterior itself, against such draws alone."""
    num_lanes = session.effort.width(BLOCK_SIZE)
    num_steps = session.effort.length(NUM_MATCHED_STEPS, minimum=3)

    def contestants() -> Contestants:
        problem = truncated_problem()
        racing = RacingThompson(problem)
        agents = {"matched": racing, "exact": ExactThompson(problem)}
        return play_from_start(agents, num_steps, num_lanes)

    title = f"Racing, {num_lanes} lanes x {num_steps} steps: "
    return session.match(title, {"racing.matched": ("matched", "exact")}, "decision", contestants)


def _make_race_contestant(
    problem: BanditProblem, counts: np.ndarray, sums: np.ndarray
) -> tuple[Contestant, np.ndarray]:
    """Return the contestant, and the (N,) lengths of its first races."""
    agent = RacingThompson.paper(problem, delta=DELTA, sigma=SIGMA)
    agent.reset(len(counts), seed=0)
    agent.warm_start(counts, sums)

    def decide() -> float:
        agent.act()
        return float(agent.diagnostics()["num_samples"].sum())

    decide()
    return make_contestant(decide), agent.diagnostics()["num_samples"]


def _make_bulk_draws(
    likelihood: Likelihood, counts: np.ndarray, sums: np.ndarray, num_samples: np.ndarray
) -> Contestant:
    """Draw as many samples of K variates as the races did, in one call, and do nothing else."""
    counts, sums = (np.repeat(array, num_samples, axis=0) for array in (counts, sums))
    sampler = reference_sampler(likelihood.name, np.random.default_rng(0), counts, sums)
    return make_contestant(sampler, len(counts))
