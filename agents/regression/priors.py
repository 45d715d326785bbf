"""Priors of coefficients as fits see them: normal, or mixtures of normal distributions.

A normal prior is taken as it is. Student's t, Laplace's distribution and mixtures are mixtures of
normal distributions, of each coefficient or (`SharedMixture`) of all at once; where there are
infinitely many components, those at some quantiles of their variances stand for all. Any other
prior is stood in for by the normal distribution with the moments of its draws. Weights have the
prior's own density in any case.

Each coefficient of a mixture has a *site*, a normal factor of the coefficient alone that is matched
as those of rows are, to the moments of the mixture beside everything else.

Notation: N lanes, L of them that are due, d features, B blocks, C components, m draws.

References:
    Andrews and Mallows (1974), "Scale mixtures of normal distributions".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaincinv

from agents.posteriors.weighted_draws import normalise_weights
from agents.regression.draws import MIN_CAVITY
from agents.regression.gaussian import normal_moments
from agents.regression.sites import Components, Fit
from bandit_gym.numerics.streams import make_generator
from bandit_gym.priors import Laplace, Mixture, MultivariateNormal, Normal, SharedMixture, StudentT
from bandit_gym.problem import ContextualProblem

NUM_STAND_IN_DRAWS = 4096
"""Of the prior, for its moments."""

EDGES = np.concatenate([np.arange(16) / 16, 1 - 4.0 ** -np.arange(2, 8) / 4, [1.0]])
"""Shares of a distribution of variances at which components begin and end; fine in the tail."""

MIN_SITE = 0.01
"""Least precision of a site, beside that before data: a cavity between two modes would have
it negative."""


class PriorFit:
    """What fits know of a prior.

    Arguments:
        problem: whose prior it is.

    Attributes:
        normal: (d, d + 1) precision matrix, and that times the mean, of a normal prior or of one
            that stands in; 0 where coefficients have sites.
        components: of a mixture; None of a normal prior, or of one that is stood in for.
        first_sites: (d, 2) tau and nu of sites before data; 0 where there are none.
    """

    def __init__(self, problem: ContextualProblem) -> None:
        prior: Any = problem.prior
        self.problem, size = problem, problem.num_features
        self.is_normal = isinstance(prior, Normal | MultivariateNormal)
        parts = [] if self.is_normal else stack_components(prior, size)
        self.components: Components | None = None
        self.first_sites, self.normal = np.zeros((size, 2)), np.zeros((size, size + 1))
        if parts:
            weights, means, precisions = np.ascontiguousarray(np.transpose(parts, (1, 2, 0)))
            scales, is_shared = 0.5 * np.log(precisions), isinstance(prior, SharedMixture)
            options = weights, np.log(weights), means, precisions, scales, is_shared
            self.components = Components(*options)
        if parts and not is_shared:
            tau = np.exp(2 * (weights * scales).sum(axis=1))
            self.first_sites[:] = np.stack([tau, tau * (weights * means).sum(axis=1)], axis=1)
        else:
            mean, covariance = find_normal(problem)
            matrix = np.linalg.inv(covariance)
            self.normal[:] = np.column_stack([matrix, matrix @ mean])

    def match_sites(self, fit: Fit, is_due: np.ndarray) -> None:
        """Renew the sites of the coefficients in (N, B) due blocks of a mixture."""
        if self.components is None or self.components.is_shared:
            return
        lanes = np.flatnonzero(is_due.any(axis=1))
        position = np.argsort(fit.order)  # of each coefficient
        is_own = np.repeat(is_due[lanes], np.diff(fit.starts), axis=1)[:, position, None]
        variance = np.diagonal(fit.covariance, axis1=1, axis2=2)[lanes][:, position]
        tau, nu = np.moveaxis(fit.prior_sites[lanes], 2, 0)
        cavity = np.maximum(1 / variance - tau, MIN_CAVITY / variance)
        centre = (fit.mean[lanes][:, position] / variance - nu) / cavity
        means, precisions = self.components.means, self.components.precisions
        both = cavity[..., None] + precisions
        mean = (cavity * centre)[..., None] / both + precisions * means / both
        joint = 1 / (1 / cavity[..., None] + 1 / precisions)
        log_choices = 0.5 * np.log(joint) - 0.5 * joint * np.square(centre[..., None] - means)
        choices = normalise_weights(self.components.log_weights + log_choices)[0]
        average = (choices * mean).sum(axis=2)
        variance = (choices * (1 / both + np.square(mean - average[..., None]))).sum(axis=2)
        tau = np.maximum(1 / variance - cavity, MIN_SITE * self.first_sites[:, 0])
        sites = np.stack([tau, average * (tau + cavity) - centre * cavity], axis=2)
        fit.prior_sites[lanes] = np.where(is_own, sites, fit.prior_sites[lanes])

    def log_densities(self, draws: np.ndarray, fit: Fit) -> np.ndarray:
        """Return the (N, B, m) log-densities of (N, d, m) draws, to a constant, by block."""
        prior: Any = self.problem.prior
        theta = draws.swapaxes(1, 2)
        if len(fit.starts) == 2:
            return np.asarray(prior.log_density(theta))[:, None]
        each = prior.arm_log_density(theta)[..., fit.order]
        return np.add.reduceat(each, fit.starts[:-1], axis=2).swapaxes(1, 2)


def stack_components(prior: Any, size: int) -> list[np.ndarray]:
    """Return (3, d) arrays of weights, means and precisions, one a component; [] if not known."""
    if isinstance(prior, Mixture | SharedMixture):
        parts = [stack_components(each, size) for each in prior.components]
        if not all(parts) or (isinstance(prior, SharedMixture) and max(map(len, parts)) > 1):
            return []
        pairs = zip(parts, prior.weights, strict=True)
        return [np.stack([share * part[0], *part[1:]]) for each, share in pairs for part in each]
    if not isinstance(prior, Normal | StudentT | Laplace):
        return []
    if isinstance(prior, Normal):
        shares, variances = np.ones(1), np.square(np.broadcast_to(prior.std, (1, size)))
    else:
        shares, middles = np.diff(EDGES), (EDGES[1:, None] + EDGES[:-1, None]) / 2
        variances = -2 * np.log1p(-middles) * np.ones(size)
        if isinstance(prior, StudentT):
            half = np.asarray(prior.df) / 2
            variances = half / gammaincinv(half, 1 - middles) * np.ones(size)
        variances = variances * np.square(prior.scale)
    mean = np.broadcast_to(prior.mean, size)
    return [
        np.stack([np.full(size, share), mean, 1 / variance])
        for share, variance in zip(shares, variances, strict=True)
    ]


def find_normal(problem: ContextualProblem) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and covariance of a normal prior, or of another's draws."""
    prior: Any = problem.prior
    size = problem.num_features
    if isinstance(prior, Normal | MultivariateNormal):
        return normal_moments(problem)
    draws = prior.sample(make_generator("prior sample"), (NUM_STAND_IN_DRAWS, size))
    covariance = np.atleast_2d(np.cov(draws, rowvar=False))
    if problem.offers("arm_log_density"):
        covariance = np.diag(np.diag(covariance))
    return draws.mean(axis=0), covariance
