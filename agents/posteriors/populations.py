"""Populations of weighted particles: reweighting, tempering, resampling and moves.

New data reweight the particles. Very informative data are added in stages (tempering): their
likelihood is raised to powers that rise to one (Del Moral, Doucet and Jasra 2006). When the
effective sample size (ESS) falls, particles are *resampled*, and the copies *moved* by Metropolis
steps that leave the posterior invariant (Gilks and Berzuini 2001). A step is a random walk along
the population's principal axes, of all parameters at once, and steps go on until the copies are
forgotten: until no parameter has a correlation above 1/2 with what it was copied from.

What P particles are worth is the number of their *ancestors*, of the independent draws that err as
much. A frequency p among them has variance v p (1 - p). Draws of the prior have v = 1 / P, and
weights and copies add to it (Chan and Lai 2013, Lee and Whiteley 2018):

    after weights:  v' = v + 1 / ESS - 1 / P
    after moves:    v'' = r^2 v' + (1 - r^2) / P

with r the correlation that the moves have left: what is remembered of an error is r times it.

Notation: R populations (rows), each of P particles of D parameters.

References:
    Chopin (2002); Gelman, Roberts and Gilks (1996).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.random import Generator

from agents.posteriors.weighted_draws import (
    WeightedDraws,
    normalise_weights,
    scale_weights,
    systematic_resample,
)

MIN_EFFECTIVE_SHARE = 0.5
"""Fraction of P; a population is resampled if its effective sample size falls below it."""

MIN_STAGE_SHARE = 0.1
"""Fraction of P; new data that reduce the effective sample size below it need stages."""

MAX_STAGES = 300
"""Most powers of the likelihood by which new data are added."""

MAX_STAGE_LOG2 = 100
"""Base 2 logarithm of the most stages that the first one may foresee."""

MAX_STEPS, MAX_CORRELATION = 100, 0.5
"""Most Metropolis steps after a resampling, and the correlation with the copies that ends them."""

STEP_SCALE = 2.38
"""Times the covariance's factor over the root of D, the best random walk on a normal posterior."""

MIN_DRAWS_PER_PARAMETER = 4
"""Ancestors of a moved population for each parameter, below which its covariance says too little.
With P = 500, best-arm probabilities of 50 coefficients were off by 0.01 beyond the noise of as many
draws, those of 100 by 0.03 and those of 200 by 0.31."""

MIN_DEVIATION = 1e-300


class Target(Protocol):
    """The posterior of populations, with new data of which a power may be known."""

    def log_likelihood_of_new(self, rows: np.ndarray, particles: np.ndarray) -> np.ndarray:
        """Return (R, P) log-likelihoods of the new data at (R, D, P) particles."""

    def log_density(self, rows: np.ndarray, particles: np.ndarray, power: np.ndarray) -> np.ndarray:
        """Return (R, P) log posterior densities, to a constant, with (R,) powers of what is new."""


class Populations:
    """R populations of weighted particles, and what they are worth.

    Attributes:
        particles: (R, D, P).
        log_weights: (R, P), to a constant; only those of active particles count.
        weights: (R, P) over their maximum; 0 for particles that are not active.
        max_log_weights: (R,) log-weights of that maximum.
        num_active: (R,) particles that take part, the first ones of each population.
        num_ancestors: (R,) independent draws that particles of equal weight would be worth.
        acceptance: (R,) accepted proposals per proposal at the last moves; NaN before any.
        is_capped: (R,) whether moves ended early when too few ancestors were left, or data were
            added faster than particles could be moved. What was lost then may not come back.
    """

    state_names = (
        *("particles", "log_weights", "num_active"),
        *("num_ancestors", "acceptance", "is_capped"),
    )

    def __init__(self, shape: tuple[int, int, int], max_variance: float, *, is_moved: bool) -> None:
        """Make room for (R, D, P) particles.

        Args:
            shape: R, D, P.
            max_variance: v above which populations have too few ancestors.
            is_moved: whether particles are moved after a resampling.
        """
        num_rows, _, self._size = shape
        self._max_variance, self._num_steps = max_variance, MAX_STEPS * is_moved
        self.particles = np.empty(shape)
        self.log_weights = np.zeros((num_rows, self._size))
        self.weights = np.ones((num_rows, self._size))
        self.max_log_weights, self.acceptance = np.zeros(num_rows), np.empty(num_rows)
        self.num_active = np.full(num_rows, self._size)
        self.num_ancestors, self.is_capped = np.empty(num_rows), np.zeros(num_rows, dtype=bool)

    def restart(self, rows: np.ndarray, draws: np.ndarray, num_active: int) -> None:
        """Begin anew in some populations, with (R, D, P) draws of the prior."""
        self.particles[rows], self.num_active[rows] = draws, num_active
        self.num_ancestors[rows], self.is_capped[rows] = self._size, False
        self.acceptance[rows] = np.nan
        self._set_log_weights(rows, np.zeros((len(rows), self._size)))

    def weighted_draws(self) -> WeightedDraws:
        """Return them as weighted draws with R lanes of D parameters."""
        log_weights = self._mask_inactive(slice(None), self.log_weights)
        return WeightedDraws(self.particles.swapaxes(1, 2), log_weights)

    def effective_sizes(self, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return (R,) effective sample sizes."""
        weights = self.weights[rows]
        return weights.sum(axis=1) ** 2 / np.vecdot(weights, weights)

    def variance(self, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return (R,) v, so that a frequency p among the weighted particles has v p (1 - p)."""
        return 1 / self.num_ancestors[rows] + 1 / self.effective_sizes(rows) - 1 / self._size

    def are_few(self) -> np.ndarray:
        """Return (R,) whether particles are worth too few draws, or may have been before."""
        excess = self._max_variance - 1 / self._size + 1 / self.num_active
        return self.is_capped | (self.variance() > excess)

    def reweight(self, rows: np.ndarray | slice, gain: np.ndarray) -> None:
        """Add (R, P) log-likelihoods; a particle that was or is ruled out has weight 0."""
        log_weights = self.log_weights[rows] + gain
        log_weights[np.isnan(log_weights)] = -np.inf
        self._set_log_weights(rows, log_weights)

    def add_data(self, rng: Generator, rows: np.ndarray, target: Target) -> None:
        """Reweight by new data, and resample and move; in stages if too few would be effective."""
        power = np.zeros(len(rows))  # of the likelihood of the new data that is known
        for _ in range(MAX_STAGES):
            gain = target.log_likelihood_of_new(rows, self.particles[rows])
            gain *= (1 - power)[:, None]
            share = find_powers(self.log_weights[rows], gain, MIN_STAGE_SHARE * self._size)
            self.reweight(rows, share[:, None] * gain)
            power += share * (1 - power)
            is_low = self.effective_sizes(rows) < MIN_EFFECTIVE_SHARE * self._size
            if is_low.any():
                self._renew(rng, rows[is_low], target, power[is_low])
            rows, power = rows[share < 1], power[share < 1]
            if not rows.size:
                return
        self.is_capped[rows] = True

    def _renew(self, rng: Generator, rows: np.ndarray, target: Target, power: np.ndarray) -> None:
        """Resample and move populations that know (R,) powers of the new likelihood."""
        variance = self.variance(rows)
        chosen = systematic_resample(rng, normalise_weights(self.log_weights[rows])[0])
        self.particles[rows] = np.take_along_axis(self.particles[rows], chosen[:, None], axis=2)
        self._set_log_weights(rows, np.zeros(chosen.shape))
        correlation = np.square(self._move(rng, rows, target, power))
        variance = correlation * variance + (1 - correlation) / self._size
        self.num_ancestors[rows] = 1 / variance
        is_few = variance * MIN_DRAWS_PER_PARAMETER * self.particles.shape[1] > 1
        is_stuck = correlation > MAX_CORRELATION**2
        self.is_capped[rows] |= is_few | (is_stuck & (variance > self._max_variance))

    def _move(
        self, rng: Generator, rows: np.ndarray, target: Target, power: np.ndarray
    ) -> np.ndarray:
        """Move particles until copies are forgotten; return the (R,) correlations that are left.

        Proposals are normal with 2.38^2 / D of the population's covariance.
        """
        copies, correlation = self.particles[rows], np.ones(len(rows))
        particles, num_params = copies.copy(), copies.shape[1]
        steps = STEP_SCALE / np.sqrt(num_params) * find_axes(copies)
        density = target.log_density(rows, copies, power) if self._num_steps else correlation
        num_accepted, num_steps = np.zeros((2, len(rows)))
        left = np.arange(len(rows))
        for _ in range(self._num_steps):
            old = particles[left]
            proposed = old + steps[left] @ rng.standard_normal(old.shape)
            log_density = target.log_density(rows[left], proposed, power[left])
            log_uniform = -rng.standard_exponential(log_density.shape)
            is_accepted = log_density - density[left] > log_uniform
            particles[left] = np.where(is_accepted[:, None], proposed, old)
            density[left] = np.where(is_accepted, log_density, density[left])
            num_accepted[left] += is_accepted.mean(axis=1)
            num_steps[left] += 1
            correlation[left] = correlate(copies[left], particles[left])
            left = left[correlation[left] > MAX_CORRELATION]
            if not left.size:
                break
        if self._num_steps:
            self.particles[rows], self.acceptance[rows] = particles, num_accepted / num_steps
        return correlation

    def _set_log_weights(self, rows: np.ndarray | slice, log_weights: np.ndarray) -> None:
        self.log_weights[rows] = log_weights
        active = self._mask_inactive(rows, log_weights)
        self.weights[rows], self.max_log_weights[rows] = scale_weights(active)

    def _mask_inactive(self, rows: np.ndarray | slice, log_weights: np.ndarray) -> np.ndarray:
        """Return (R, P) log-weights, -inf for particles that do not take part."""
        num_active = self.num_active[rows]
        if num_active.min(initial=self._size) == self._size:
            return log_weights
        return np.where(np.arange(self._size) < num_active[:, None], log_weights, -np.inf)

    def _resume(self) -> None:
        """Compute what follows from the log-weights."""
        self._set_log_weights(slice(None), self.log_weights)


def find_powers(log_weights: np.ndarray, gain: np.ndarray, min_size: float) -> np.ndarray:
    """Return (R,) powers up to 1 of new likelihoods, the largest that keep enough effective draws.

    Args:
        log_weights: (R, P) before.
        gain: (R, P) log-likelihoods of all new data.
        min_size: effective sample size to keep.
    """
    low, high = np.full(len(gain), -float(MAX_STAGE_LOG2)), np.zeros(len(gain))  # base 2
    power = high
    for _ in range(20):
        weights, _ = normalise_weights(log_weights + np.exp2(power)[:, None] * gain)
        is_enough = np.vecdot(weights, weights) * min_size <= 1
        low, high = np.where(is_enough, power, low), np.where(is_enough, high, power)
        if np.all(low == 0.0):
            break
        power = np.where(low == 0.0, 0.0, (low + high) / 2)
    return np.exp2(low)


def find_axes(particles: np.ndarray) -> np.ndarray:
    """Return the (R, D, D) principal axes of (R, D, P) particles, in standard deviations.

    They are those of the particles in units of each parameter's deviation, so that parameters of
    very different scales lose no digits.
    """
    scale = np.maximum(particles.std(axis=2, keepdims=True), MIN_DEVIATION)
    off = (particles - particles.mean(axis=2, keepdims=True)) / scale
    variances, axes = np.linalg.eigh(off @ off.swapaxes(1, 2) / particles.shape[2])
    return scale * axes * np.sqrt(np.maximum(variances, 0.0))[:, None]


def correlate(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return (R,) largest correlations of a parameter in two (R, D, P) populations.

    It is 1 where a parameter does not vary.
    """
    first, second = (each - each.mean(axis=2, keepdims=True) for each in (first, second))
    products = np.sqrt(np.vecdot(first, first) * np.vecdot(second, second))
    shared = np.vecdot(first, second) / np.maximum(products, MIN_DEVIATION)
    return np.where(products > 0, shared, 1.0).max(axis=1)
