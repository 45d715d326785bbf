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

from agents.regression.likelihoods import LinkCode, log_likelihood
from agents.regression.normal_fit import (
    Data,
    Fit,
    dot,
    find_decrement,
    find_rows,
    log_prior_and_sites,
    read_features,
    rebuild_block,
)
from bandit_gym.numerics.compiled import inner

MAX_NEWTON_STEPS = 50

MAX_DECREMENT, MIN_DECREMENT = 0.1, 1e-5
"""How far the mean may be from the point of expansion, in standard deviations, before the point is
moved, and how near it then is."""

MIN_STEP_SHARE = 1e-12
"""Of a step of Newton's: with features in large units, curvatures far from the mode say little."""


@inner
def expand_block(link: LinkCode, data: Data, fit: Fit, lane: int, block: int) -> float:
    """Expand all likelihoods of a block at its point; return the log-density there."""
    part = slice(fit.starts[block], fit.starts[block + 1])
    point, x = fit.point[lane, part], np.empty(part.stop - part.start)
    total = log_prior_and_sites(fit, lane, fit.order[part], point)
    for row in find_rows(fit, lane, block):
        read_features(data, lane, row, fit.order[part], x)
        eta, n, s = dot(x, point), float(data.counts[lane, row]), data.sums[lane, row]
        value, score, tau = log_likelihood(link, eta, n, s)
        total += value
        fit.sites[lane, row, 0], fit.sites[lane, row, 1] = tau, score + tau * eta
    return total


@inner
def find_mode(link: LinkCode, data: Data, fit: Fit, lane: int, block: int) -> None:
    """Move the point of a block to the mode by Newton's steps, halved while they lead down.

    Curvatures beyond rounding, as of features in large units, are left for a new start from 0.
    """
    part = slice(fit.starts[block], fit.starts[block + 1])
    point, value = fit.point[lane, part], expand_block(link, data, fit, lane, block)
    for _ in range(MAX_NEWTON_STEPS):
        rebuild_block(data, fit, lane, block)
        decrement = find_decrement(fit, lane, block)
        if decrement < MIN_DECREMENT:
            return
        start, step, share = point.copy(), fit.mean[lane, part] - point, 1.0
        if math.isnan(decrement):
            start, step, value = np.zeros(point.size), np.zeros(point.size), -np.inf
        trial = np.nan
        while not trial >= value and share > MIN_STEP_SHARE:  # NaN leads down, too
            point[:] = start + share * step
            trial, share = expand_block(link, data, fit, lane, block), 0.5 * share
        value = trial
