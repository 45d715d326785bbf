"""The particle baseline: what a step costs beside plain NumPy and a library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import numpy as np

from agents import SMCThompson
from bandit_gym.priors import Prior
from bandit_gym.problem import BanditProblem
from benchmarks.games import play_from_start, truncated_problem
from benchmarks.session import BLOCK_SIZE, Contestants, Measurement, Session
from benchmarks.timing import make_contestant
from benchmarks.workers.one_lane import NUM_STEPS as GAME_STEPS
from benchmarks.workers.one_lane import new_game

NUM_PARTICLES = 1000
NUM_STEPS = 50


class FixedDraws:
    """A prior that hands out the same draws again, so that steps are all that is compared.

    Arguments:
        prior: what they are drawn from.
    """

    def __init__(self, prior: Prior) -> None:
        self.log_density = prior.log_density
        self._draw = cache(lambda shape: prior.sample(np.random.default_rng(0), shape))

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Return means of the given shape, as few as they take to copy."""
        draws: np.ndarray = self._draw(shape).copy()
        return draws


def measurements(session: Session) -> Iterator[Measurement]:
    """Yield the measurements of the library `particles` in one lane, and of ours."""
    problem = truncated_problem()
    drawn = replace(problem, prior=FixedDraws(problem.prior))
    num_lanes = session.effort.width(BLOCK_SIZE)

    def contestants() -> Contestants:
        one, many = (SMCThompson.paper(drawn, num_particles=NUM_PARTICLES) for _ in range(2))

        def start() -> tuple[Callable, Callable]:
            one.reset(seed=0)
            return one.act, one.observe

        return {
            "ours, one lane": make_contestant(new_game(start), GAME_STEPS),
            **play_from_start({f"ours, {num_lanes} lanes": many}, NUM_STEPS, num_lanes),
            "plain NumPy": make_contestant(new_game(lambda: _make_plain_numpy(drawn)), GAME_STEPS),
            "particles": session.peers.contestant("particles"),
        }

    ratios = {
        "smc.one.particles": ("particles", "ours, one lane"),
        "smc.one.numpy": ("ours, one lane", "plain NumPy"),
        "smc.many.particles": ("particles", f"ours, {num_lanes} lanes"),
    }
    yield session.match(f"SMC, {NUM_PARTICLES} particles: ", ratios, "decision", contestants)


def _make_plain_numpy(problem: BanditProblem) -> tuple[Callable, Callable]:
    """Return how ten lines of NumPy choose and learn in one lane, of no use in another."""
    rng = np.random.default_rng(0)
    means = problem.prior.sample(rng, (NUM_PARTICLES, problem.num_arms))
    best_arms, log_weights = means.argmax(axis=1), np.zeros(NUM_PARTICLES)
    log_likelihoods = np.log1p(-means.T), np.log(means.T)

    def choose() -> int:
        below = np.exp(log_weights - log_weights.max()).cumsum()
        return int(best_arms[below.searchsorted(rng.random() * below[-1], side="right")])

    def learn(arm: int, reward: int) -> None:
        np.add(log_weights, log_likelihoods[reward][arm], out=log_weights)

    return choose, learn
