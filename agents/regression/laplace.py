"""The Laplace approximation: a normal distribution at the mode, with the curvature there.

The site of a row is the second-order expansion of its log-likelihood l at a point p near the mode.
With eta = x . p it is (Rasmussen and Williams 2006, section 3.4)

    tau = -l''(eta),    nu = l'(eta) + tau eta.

The mean of prior times sites is where one step of Newton's leads from p. The point is moved when
the mean is too far from it.
"""

from __future__ import annotations

import math

import numpy as np

from agents.numerics.roots import solve_root
from agents.regression.likelihoods import LinkCode, log_likelihood
from agents.regression.normal_fit import dot, find_decrement, log_prior_and_sites, rebuild_root
from bandit_gym.numerics.compiled import inner

MAX_NEWTON_STEPS = 50

MAX_DECREMENT, MIN_DECREMENT = 0.1, 1e-5
"""How far the mean may be from the point of expansion, in standard deviations, before the point is
moved, and how near it then is."""

MIN_STEP_SHARE = 1e-12
"""Of a step of Newton's: with features in large units, curvatures far from the mode say little."""


@inner
def expand_block(
    link: LinkCode,
    columns: np.ndarray,
    rows: np.ndarray,
    data: tuple[np.ndarray, np.ndarray, np.ndarray],
    sites: np.ndarray,
    priors: tuple[np.ndarray, np.ndarray],
    point: np.ndarray,
) -> float:
    """Expand all likelihoods of a block at its point; return the log-density there."""
    (features, counts, sums), x = data, np.empty(point.size)
    total = log_prior_and_sites(priors[0], priors[1], columns, point, x)
    for row in rows:
        for a in range(x.size):
            x[a] = features[columns[a], row]
        eta, n, s = dot(x, point), float(counts[row]), sums[row]
        value, score, tau = log_likelihood(link, eta, n, s)
        total += value
        sites[row, 0], sites[row, 1] = tau, score + tau * eta
    return total


@inner
def find_mode(
    link: LinkCode,
    columns: np.ndarray,
    rows: np.ndarray,
    data: tuple[np.ndarray, np.ndarray, np.ndarray],
    sites: np.ndarray,
    priors: tuple[np.ndarray, np.ndarray],
    roots: tuple[np.ndarray, np.ndarray, np.ndarray],
    mean: np.ndarray,
    point: np.ndarray,
) -> None:
    """Move the point of a block to the mode by Newton's steps, halved while they lead down.

    It stays where the mean is near. Curvatures beyond rounding, as of features in large units, are
    left for a new start from 0.

    Args:
        link: of the likelihood.
        columns: (size,) coefficients.
        rows: of the block.
        data: features, counts and sums of the lane.
        sites: (n, 2), are changed.
        priors: (d, d + 1) rows of the prior, and (d, 2) sites.
        roots: root, shift and errors of the block, are changed.
        mean: (size,) is changed.
        point: (size,) is changed.
    """
    root, shift, errors = roots
    if find_decrement(root, mean, point) <= MAX_DECREMENT:
        return
    start, step = np.empty(point.size), np.empty(point.size)
    value = expand_block(link, columns, rows, data, sites, priors, point)
    for _ in range(MAX_NEWTON_STEPS):
        rebuild_root(columns, rows, data[0], sites, priors[0], priors[1], root, shift, errors)
        solve_root(root, shift, mean)
        decrement = find_decrement(root, mean, point)
        if decrement < MIN_DECREMENT:
            return
        is_lost = math.isnan(decrement)
        value = -np.inf if is_lost else value
        for a in range(point.size):
            start[a] = 0.0 if is_lost else point[a]
            step[a] = 0.0 if is_lost else mean[a] - point[a]
        trial, share = np.nan, 1.0
        while not trial >= value and share > MIN_STEP_SHARE:  # NaN leads down, too
            for a in range(point.size):
                point[a] = start[a] + share * step[a]
            trial = expand_block(link, columns, rows, data, sites, priors, point)
            share *= 0.5
        value = trial
