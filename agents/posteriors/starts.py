"""Where chains start, and what they are to draw from.

Letters: K arms, L lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.posteriors.chains import GibbsTarget
from agents.posteriors.conjugate import likelihood_coefficients
from bandit_gym.problem import BanditProblem
from bandit_gym.typing import FloatArray

MARGIN = 0.1
"""How far inside a box the guess at an arm's mean is kept, in prior standard deviations or, if that
is less, widths of the box: at its edge rewards may have no variance, and a slice no width."""

FAR = 10.0
"""Standard deviations of the posterior from its middle beyond which no chain starts, if the box
allows."""


def make_target(problem: BanditProblem, counts: FloatArray, sums: FloatArray) -> GibbsTarget:
    """Return the posterior of L lanes, given their (L, K) statistics."""
    prior: Any = problem.prior
    mean = np.broadcast_to(np.asarray(prior.mean, dtype=np.float64), problem.num_arms).copy()
    precision = np.ascontiguousarray(prior.precision)
    box = np.ascontiguousarray(prior.arm_support(problem.num_arms))
    _, information = guess_means(problem, counts, sums)
    widths = 2 / np.sqrt(information + np.diag(precision))
    coefficients = likelihood_coefficients(problem.likelihood, counts, sums)
    return GibbsTarget(coefficients, widths, mean, precision, box)


def guess_means(
    problem: BanditProblem, counts: FloatArray, sums: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return (L, K) means strictly inside the box, near what each arm paid, and their precisions.

    The prior's mean counts as one reward, and the precisions are those of the data alone.
    """
    prior: Any = problem.prior
    low, high = prior.arm_support(problem.num_arms).T
    margin = MARGIN * np.minimum(np.sqrt(np.diag(prior.covariance)), high - low)
    guess = (sums + np.clip(prior.mean, low + margin, high - margin)) / (counts + 1)
    guess = keep_inside(problem, guess)
    return guess, counts / problem.likelihood.reward_std(guess) ** 2


def bring_near(
    problem: BanditProblem,
    means: FloatArray,
    counts: FloatArray,
    sums: FloatArray,
    *,
    farthest: float = FAR,
) -> FloatArray:
    """Return (L, K) means, to start chains from, moved towards the posterior's middle if far off.

    Slices are looked for in steps as short as the posterior is narrow, and from where a draw of the
    prior lies that may take for ever. On a straight line both the box and what a nearly singular
    prior demands are kept. The middle is that of the normal law with the data's precision.
    """
    prior: Any = problem.prior
    guess, information = guess_means(problem, counts, sums)
    precision = prior.precision + information[..., None] * np.eye(means.shape[1])
    pull = prior.precision @ np.broadcast_to(prior.mean, means.shape[1:]) + information * guess
    off = np.linalg.solve(precision, pull[..., None])[..., 0] - means
    distance = np.sqrt(np.einsum("lj,ljk,lk->l", off, precision, off))
    step = np.maximum(0.0, 1 - farthest / np.maximum(distance, farthest))[:, None] * off
    low, high = problem.arm_support().T
    with np.errstate(all="ignore"):
        room = np.where(step > 0, high - means, low - means) / step
    limit = np.where(step != 0, room, np.inf).min(axis=1, keepdims=True)
    share = np.where(limit > 1.0, 1.0, 0.99 * limit)  # all of the way, unless that leads out
    return keep_inside(problem, means + share * step)


def keep_inside(problem: BanditProblem, means: FloatArray) -> FloatArray:
    """Return (L, K) means with those outside the box, or on its ends, moved just inside."""
    low, high = problem.arm_support().T
    return np.clip(means, np.nextafter(low, high), np.nextafter(high, low))
