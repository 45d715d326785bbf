"""Populations of particles: what they can represent, by their genealogy, and how they are moved.

An effective sample size counts copies as if they were draws, and sees nothing of the places where
no particle is. Three more things are kept in mind here:

- *families*, all that descend from one draw of the prior. Particles that have moved far enough to
  forget their ancestor are as good as independent, others are not; how alike the members of a
  family are says which (Chan and Lai 2013; Lee and Whiteley 2018);
- the *evidence*, the average likelihood of draws of the prior. Where one more draw, had it met the
  data best, would outweigh all others, the prior may have a part that was missed;
- whether the data were added faster than the particles could follow.

Moves are Metropolis steps that leave a posterior as it is.

Notation: K arms, R populations of P particles, each of the means of D arms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from bandit_gym.problem import BanditProblem

MIN_EFFECTIVE_ANCESTORS = 10
"""Families, or particles' worth of weight, below which all estimates of worth are void."""

MAX_EXCESS_VARIATION = 0.04
"""Expected total variation of best-arm probabilities, beyond that of as many independent draws."""

MAX_MISSED_LOG_ODDS = -2.3
"""Log-odds of one more draw that meets the data best against all particles that there are."""

MAX_MISSED_LOG_ODDS_RESAMPLED = 5.0
"""The same for populations that were renewed, whose evidence and narrowing are estimates.

Where renewal was not called for, the draws of the prior are all still there, and so is the bound.
"""

PROPOSAL_SCALE = 2.4
"""Standard deviations of a random-walk proposal in those of the population (Gelman et al. 1996)."""

LABEL_EDGES = np.linspace(-1.5, 1.5, 7)
"""Between labels of one arm's means, in standard deviations from their average."""


class Genealogy:
    """The past of populations that began as draws of the prior.

    Attributes:
        is_capped: (R,) whether data were added faster than the particles could follow.
        acceptance: (R,) share of the proposals of the last sweep that were accepted; 1 before it.
    """

    state_names = (
        *("is_capped", "acceptance", "_families", "_log_scales"),
        *("_worth", "_num_families", "_log_evidence", "_log_narrowing"),
    )

    def __init__(self, shape: tuple[int, ...]) -> None:
        """Make room for particles of the shape (R, P, D)."""
        self.is_capped, self.acceptance = np.zeros(shape[0], dtype=bool), np.ones(shape[0])
        self._num_particles = shape[1]
        self._families = np.empty(shape[:2], dtype=np.int32)
        self._log_scales = np.empty((shape[0], shape[2]))
        self._worth, self._num_families = np.empty((2, shape[0]))
        self._log_evidence, self._log_narrowing = np.empty((2, shape[0]))

    def restart(self, which: np.ndarray, particles: np.ndarray) -> None:
        """Begin anew in some populations, with (R, P, D) draws of the prior."""
        self.is_capped[which], self.acceptance[which] = False, 1.0
        self._worth[which] = self._num_families[which] = self._num_particles
        self._log_evidence[which] = self._log_narrowing[which] = 0.0
        self._families[which] = np.arange(self._num_particles)
        self._log_scales[which] = _log_scales(particles)

    def resample(
        self, which: np.ndarray, chosen: np.ndarray, log_total: np.ndarray, particles: np.ndarray
    ) -> None:
        """Update what is kept in mind after a renewal.

        Args:
            which: of the populations.
            chosen: (R, P) which particles went on.
            log_total: (R,) of the weights before, summed up.
            particles: (R, P, D) where the copies have moved to.
        """
        ancestors = np.take_along_axis(self._families[which], chosen, axis=1)
        self._families[which] = ancestors
        worth = count_effective_draws(ancestors, label_particles(particles))
        self._worth[which], self._num_families[which] = worth
        self._log_evidence[which] += log_total - np.log(self._num_particles)
        narrowing = self._log_scales[which] - _log_scales(particles)
        self._log_narrowing[which] = np.maximum(narrowing, 0.0).sum(axis=1)

    def update_worth(self, which: np.ndarray, sizes: np.ndarray, correlation: np.ndarray) -> None:
        """Update the worth after a renewal without families, by how far particles have moved.

        Of the variance of before, moved particles keep the square of their correlation with the
        copies that they had been. The rest is that of independent draws.

        Args:
            which: (R,) of the populations.
            sizes: (R,) effective sample sizes before.
            correlation: (R,) of moved particles with the copies that they had been.
        """
        before = 1 / self._worth[which] + 1 / sizes - 1 / self._num_particles
        kept = np.square(correlation)
        self._worth[which] = 1 / (kept * before + (1 - kept) / self._num_particles)

    def is_worth_less(self, num_draws: float) -> np.ndarray:
        """Return (R,) whether particles were worth fewer independent draws after their moves."""
        return self._worth < num_draws

    def has_few_effective(
        self, sizes: np.ndarray, num_particles: np.ndarray, num_arms: int
    ) -> np.ndarray:
        """Return (R,) whether a population is worth too few draws.

        Best-arm probabilities are then much farther off than those of independent draws. A share p
        found with variance v p (1 - p) is off by sqrt(2 v p (1 - p) / pi) on average; over K equal
        arms, the worst case, that adds up to sqrt(2 v (K - 1) / pi), and half of it is the total
        variation.

        Args:
            sizes: (R,) effective sample sizes.
            num_particles: (R,) that take part.
            num_arms: K.
        """
        excess = np.sqrt(self.estimate_variance(sizes)) - np.sqrt(1 / num_particles)
        has_excess = excess * np.sqrt((num_arms - 1) / (2 * np.pi)) > MAX_EXCESS_VARIATION
        return (np.minimum(self._num_families, sizes) < MIN_EFFECTIVE_ANCESTORS) | has_excess

    def estimate_variance(self, sizes: np.ndarray) -> np.ndarray:
        """Return (R,) v, so that a share p of (R,) effective samples has variance v p (1 - p)."""
        return 1 / self._worth + 1 / sizes - 1 / self._num_particles

    def may_miss_mass(self, log_total: np.ndarray, max_log_likelihood: np.ndarray) -> np.ndarray:
        """Return (R,) whether a single draw of the prior could outweigh a population.

        A distribution that data have narrowed has lost evidence to that, as any draw near it would
        have.

        Args:
            log_total: (R,) of the present weights, summed up.
            max_log_likelihood: (R,) log-likelihood that the best means can be expected to give.
        """
        is_renewed = self._num_families < self._num_particles
        max_log_odds = np.where(is_renewed, MAX_MISSED_LOG_ODDS_RESAMPLED, MAX_MISSED_LOG_ODDS)
        with np.errstate(invalid="ignore"):  # NaN where all is ruled out, which is a surprise
            log_odds = max_log_likelihood - self._log_evidence - log_total - self._log_narrowing
        return ~(log_odds <= max_log_odds)


def count_effective_draws(
    ancestors: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return (R,) how many independent draws labels are worth, and the (R,) number of families.

    The worth is the variance of a label over the variance of its estimated share, to which a family
    adds the square of its excess of that label. Families count by size, as weights do in an
    effective sample size.

    Args:
        ancestors: (R, P) which draw of the prior, below P, equally weighted particles descend from.
        labels: (R, P) from 0.
    """
    num_populations, num_particles = ancestors.shape
    num_labels = int(labels.max()) + 1
    flat = (np.arange(num_populations)[:, None] * num_particles + ancestors) * num_labels + labels
    counts = np.bincount(flat.ravel(), minlength=num_populations * num_particles * num_labels)
    shares = counts.reshape(num_populations, num_particles, num_labels) / num_particles
    sizes, probabilities = shares.sum(axis=2), shares.sum(axis=1)
    variance = np.square(shares - sizes[..., None] * probabilities[:, None]).sum(axis=(1, 2))
    spread = (probabilities * (1 - probabilities)).sum(axis=1)
    # Never above P: of a single label, or of families that balance by chance, nothing is learned.
    effective_draws = spread / np.maximum(variance, np.maximum(spread, 1e-300) / num_particles)
    effective_draws[spread < 0.5 / num_particles] = num_particles
    return effective_draws, 1 / np.square(sizes).sum(axis=1)


def label_particles(particles: np.ndarray) -> np.ndarray:
    """Return (R, P) which arm is best in (R, P, D) particles; of one arm, how far from average."""
    if particles.shape[2] > 1:
        return particles.argmax(axis=2)
    means = particles[..., 0]
    off = means - means.mean(axis=1, keepdims=True)
    scale = means.std(axis=1, keepdims=True)
    return np.searchsorted(LABEL_EDGES, off / np.where(scale > 0, scale, 1.0))


def _log_scales(particles: np.ndarray) -> np.ndarray:
    """Return the (..., D) log standard deviations of (..., P, D) particles."""
    return np.log(np.maximum(particles.std(axis=-2), 1e-300))


class PopulationData(NamedTuple):
    """What R populations know; of new data that are added by stages, a share.

    Attributes:
        arms: (R, D) the arms whose means their particles are.
        counts: (R, D) pulls of these.
        sums: (R, D) their total rewards.
    """

    arms: np.ndarray
    counts: np.ndarray
    sums: np.ndarray


def move_particles(
    rng: Generator,
    problem: BanditProblem,
    particles: np.ndarray,
    data: PopulationData,
    directions: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Take a Metropolis step of (R, P, D) particles along each of D `step_directions`.

    Returns:
        (R, P, D) particles, and the (R,) shares of the proposals that were accepted.
    """
    possible, num_accepted = particles[:, :1], np.zeros(len(particles))
    current = _log_posterior(problem, particles, data, possible)
    for d in range(particles.shape[2]):
        sizes = PROPOSAL_SCALE * rng.standard_normal(particles.shape[:2])
        proposed = particles + sizes[..., None] * directions[:, d, None]
        log_density = _log_posterior(problem, proposed, data, possible)
        log_uniform = -rng.standard_exponential(particles.shape[:2])
        is_accepted = log_density - current > log_uniform
        particles = np.where(is_accepted[..., None], proposed, particles)
        current = np.where(is_accepted, log_density, current)
        num_accepted += np.count_nonzero(is_accepted, axis=1)
    return particles, num_accepted / (particles.shape[1] * particles.shape[2])


def step_directions(particles: np.ndarray, *, uses_principal_axes: bool) -> np.ndarray:
    """Return (R, D, D) D steps of one standard deviation for each of (R, P, D) populations.

    Along the principal axes, or along each coordinate the deviation given all others.
    """
    centred = particles - particles.mean(axis=1, keepdims=True)
    covariance = centred.transpose(0, 2, 1) @ centred / particles.shape[1]
    variances, axes = np.linalg.eigh(covariance)
    if uses_principal_axes:
        return axes.transpose(0, 2, 1) * np.sqrt(np.maximum(variances, 0.0))[:, :, None]
    floor = np.maximum(1e-12 * variances[:, -1:], 1e-300)
    precisions = np.square(axes) @ (1 / np.maximum(variances, floor))[:, :, None]
    return np.eye(particles.shape[2]) / np.sqrt(precisions)


def _log_posterior(
    problem: BanditProblem, particles: np.ndarray, data: PopulationData, possible: np.ndarray
) -> np.ndarray:
    """Return (R, P) log posterior densities given the data, up to a constant.

    Args:
        problem: likelihood and prior.
        particles: (R, P, D) means.
        data: what they are weighed by.
        possible: (R, 1, D) means at which a user's density may be asked, in place of others.
    """
    low, high = problem.arm_support().T
    arms = data.arms[:, None]
    is_inside = (particles >= low[arms]) & (particles <= high[arms])
    is_possible = np.all(is_inside & problem.likelihood.contains(particles), axis=2)
    inside = np.where(is_possible[..., None], particles, possible)
    log_density = _log_prior(problem, inside, data.arms)
    known = data.counts[:, None], data.sums[:, None]
    log_likelihood = problem.likelihood.log_likelihood(inside, *known).sum(axis=2)
    return np.where(is_possible, log_density + log_likelihood, -np.inf)


def _log_prior(problem: BanditProblem, particles: np.ndarray, arms: np.ndarray) -> np.ndarray:
    """Return (R, P) log prior densities of (R, P, D) means of (R, D) arms, one of them or all."""
    prior: Any = problem.prior
    if arms.shape[1] == problem.num_arms:
        return prior.log_density(particles)
    arm = arms[:, 0]
    order = np.argsort(arm, kind="stable")
    occurrence = np.empty_like(arm)  # how often a row's arm has come before
    occurrence[order] = np.arange(len(arm)) - np.searchsorted(arm, arm, sorter=order)[order]
    shape = occurrence.max() + 1, particles.shape[1], problem.num_arms
    packed = np.broadcast_to(particles[: shape[0]], shape).copy()
    packed[occurrence, :, arm] = particles[..., 0]
    return prior.arm_log_density(packed)[occurrence, :, arm]
