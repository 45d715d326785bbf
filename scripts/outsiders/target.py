"""The log-posterior of a problem on the whole line, with its slope and curvature, arm by arm.

Means with two ends are told by their log-odds between them, means with one by their logarithm, as
probabilistic programs do (Carpenter et al. 2017, "Stan"). Slopes are numerical.

Letters: S points, K arms. Data are (K,), or (S, K) with a history for each point; points may have
further axes in front.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import special

from bandit_gym.problem import BanditProblem

STEP = 1e-4
"""Of numerical slopes, in units of the line."""

NUM_PRIOR_DRAWS = 1000

FARTHEST = 36.0
"""Logarithm or log-odds beyond which a mean would be its end."""


@lru_cache
def prior_moments(problem: BanditProblem) -> tuple[np.ndarray, np.ndarray]:
    """Return the (K,) means and variances of a prior, of draws that are always the same."""
    shape = NUM_PRIOR_DRAWS, problem.num_arms
    draws = problem.prior.sample(np.random.default_rng(0), shape)
    return draws.mean(axis=0), draws.var(axis=0)


class Target:
    """A posterior as a function of numbers without ends.

    Args:
        problem: likelihood and prior.
        counts: (K,) or (S, K) pulls.
        sums: (K,) or (S, K) total rewards.
    """

    def __init__(self, problem: BanditProblem, counts: np.ndarray, sums: np.ndarray) -> None:
        self.problem, self.data = problem, (counts, sums)
        self.low, self.high = problem.arm_support().T
        has_low, has_high = np.isfinite(self.low), np.isfinite(self.high)
        self.has_both, self.has_one = has_low & has_high, has_low & ~has_high

    def means(self, line: np.ndarray) -> np.ndarray:
        """Return the (S, K) means that are told by (S, K) numbers."""
        bounded = np.clip(line, -FARTHEST, FARTHEST)
        with np.errstate(all="ignore"):
            between = self.low + (self.high - self.low) * special.expit(bounded)
            above = self.low + np.exp(bounded)
        return np.where(self.has_both, between, np.where(self.has_one, above, line))

    def start(self) -> np.ndarray:
        """Return numbers near the average rewards, or near the prior's middle, shaped as data."""
        counts, sums = self.data
        average = (sums + prior_moments(self.problem)[0]) / (counts + 1)
        with np.errstate(all="ignore"):
            share = np.clip((average - self.low) / (self.high - self.low), 0.01, 0.99)
            above = np.log(np.maximum(average - self.low, 1e-3))
        return np.where(self.has_both, special.logit(share), np.where(self.has_one, above, average))

    def slopes(self, line: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the (S, K) slopes and curvatures of the log-density along each arm's number."""
        below, here, above = self._parts(line, [-STEP, 0.0, STEP])
        return (above - below) / (2 * STEP), (above - 2 * here + below) / STEP**2

    def slope(self, line: np.ndarray) -> np.ndarray:
        """Return the (S, K) slopes alone."""
        below, above = self._parts(line, [-STEP, STEP])
        return (above - below) / (2 * STEP)

    def log_density(self, line: np.ndarray) -> np.ndarray:
        """Return the (S,) log-densities, up to a constant."""
        return self._own(line).sum(axis=-1) + self.problem.prior.log_density(self.means(line))

    def _parts(self, line: np.ndarray, shifts: list[float]) -> np.ndarray:
        """Return (shifts, S, K) log-densities with one arm's number shifted, up to what stays."""
        by = np.reshape(shifts, (-1, *[1] * line.ndim))
        own = self._own(line + by)
        if self.problem.offers("arm_log_density"):
            return own + self.problem.prior.arm_log_density(self.means(line + by))
        each = line[..., None, :] + by[..., None] * np.eye(line.shape[-1])
        return own + self.problem.prior.log_density(self.means(each))

    def _own(self, line: np.ndarray) -> np.ndarray:
        """Return the (S, K) log-likelihoods, and logarithms of what the line stretches."""
        stretch = special.log_expit(line) + special.log_expit(-line)
        value = self.problem.likelihood.log_likelihood(self.means(line), *self.data)
        return value + np.where(self.has_both, stretch, np.where(self.has_one, line, 0.0))


def find_mode(target: Target, *, num_steps: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of largest density and the curvatures there, below zero.

    Both are (S, K) as data are, S = 1 if these are (K,).

    Newton's method along each arm, no step longer than one, uphill where the density is not curved.
    """
    line = np.atleast_2d(target.start())
    for _ in range(num_steps):
        slope, curvature = target.slopes(line)
        step = np.clip(slope / np.maximum(np.abs(curvature), 1e-3), -1.0, 1.0)
        line = line + step
        if np.abs(step).max() < 1e-4:
            break
    return line, np.minimum(target.slopes(line)[1], -1e-3)
