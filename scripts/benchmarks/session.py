"""What the families of rows share: the effort, the peers, and small helpers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from agents import ExactThompson
from bandit_gym.problem import BanditProblem
from benchmarks.peers import Peers
from benchmarks.timing import Contestant, Effort, Match, Ratio, Row, measure

HORIZON = 1000
BLOCK_SIZE = 50
"""Lanes that an experiment simulates together, unless told otherwise."""


@dataclass(frozen=True)
class Session:
    """How much effort to make, and whom to compare with."""

    effort: Effort
    peers: Peers

    def measure(
        self, contestants: Mapping[str, Contestant | str], ratios: list[Ratio], work: str
    ) -> list[Row]:
        """Let contestants take turns; see `timing.Match`."""
        return measure(Match(contestants, tuple(ratios), work), self.effort)


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
