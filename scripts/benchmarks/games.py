"""Problems and games to measure agents by: from the start, or to a moment of an episode."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from agents import ExactThompson
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta, TruncatedNormal
from bandit_gym.problem import BanditProblem
from benchmarks.session import HORIZON
from benchmarks.timing import Contestant, make_contestant
from benchmarks.workers.one_lane import NUM_ARMS

UNIFORM_PRIOR = TruncatedNormal(0.5, 0.1)


def conjugate_problem(shape: float) -> BanditProblem:
    """Return Bernoulli rewards under the prior Beta(shape, shape)."""
    return BanditProblem(Bernoulli(), Beta(shape, shape), NUM_ARMS)


def truncated_problem() -> BanditProblem:
    """Return Bernoulli rewards under UNIFORM_PRIOR, which is not conjugate to them."""
    return BanditProblem(Bernoulli(), UNIFORM_PRIOR, NUM_ARMS)


def play_from_start(
    agents: Mapping[str, Any], num_steps: int, num_lanes: int
) -> dict[str, Contestant]:
    """Make contestants that play Bernoulli arms, with means from 0.3 to 0.7, in every round."""
    means = np.linspace(0.3, 0.7, NUM_ARMS)
    uniforms = np.random.default_rng(0).random((num_steps, num_lanes))

    def play(agent: Any) -> None:
        agent.reset(num_lanes, seed=0)
        for row in uniforms:
            actions = agent.act()
            agent.observe(actions, (row < means[actions]).astype(float))

    return {
        name: make_contestant(partial(play, agent), uniforms.size) for name, agent in agents.items()
    }


def play_histories(problem: BanditProblem, num_lanes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (N, K) pulls and total rewards at N moments of Thompson sampling, one per lane.

    What a decision costs depends on what is known. So the lanes are stopped at moments that are
    spread evenly over an episode of HORIZON steps, and together stand for all of it.
    """
    rng = np.random.default_rng(0)
    means = problem.prior.sample(rng, (num_lanes, problem.num_arms))
    lanes = np.arange(num_lanes)
    ends = HORIZON * (lanes + 1) // num_lanes
    agent = ExactThompson(problem, prior="reference")
    agent.reset(num_lanes, seed=0)
    for step in range(HORIZON):
        actions = agent.act()
        rewards = problem.likelihood.sample(means[lanes, actions], rng.random(num_lanes))
        agent.observe(actions, rewards, mask=step < ends)
    return agent.counts, agent.sums
