"""Populations of weighted particles: reweighting, tempering, resampling and moves.

New data reweight the particles. Very informative data are added in stages (tempering): their
likelihood is raised to powers that rise to one (Del Moral, Doucet and Jasra 2006). When the
effective sample size (ESS) falls, particles are *resampled*, and the copies *moved* by Metropolis
steps that leave the posterior invariant (Gilks and Berzuini 2001). A step is a random walk along
the population's principal axes, of all parameters at once, and steps go on until the copies are
forgotten: until neither a parameter nor the posterior density has a correlation above 1/2 with that
of the copies. Modes that steps do not join differ in their density.

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

MIN_STAGE_SHARE = 0.25
"""Fraction of P; new data that reduce the effective sample size below it need stages."""

MAX_STAGES = 300
"""Most powers of the likelihood by which new data are added."""

MAX_STAGE_LOG2 = 100
"""Base 2 logarithm of the most stages that the first one may foresee."""

NUM_STEPS, NUM_STEPS_PER_PARAMETER, MAX_CORRELATION = 20, 2, 0.5
"""Most Metropolis steps after a resampling are 20 + 2 D; the correlation with the copies that ends
them takes 7 steps to a normal posterior of D = 5, and 26 of D = 20."""

STEP_SCALE = 2.38
"""Times the covariance's factor over the root of D, the best random walk on a normal posterior."""

MAX_MOVED_VARIANCE = 3.0
"""Over P, the v above which moved populations have too few ancestors. If each resampling follows
an effective sample size of P / 2 and moves leave r = 1/2, then v = (v + 1 / P) / 4 + 3 / (4 P), so
that v = 1.3 / P; a stage to P / 4 adds 0.5 / P to it, and weights of P / 2 add 1 / P: 2.8 / P in
all. More is where moves do not forget."""

MIN_DRAWS_PER_PARAMETER = 4
"""Ancestors of a moved population for each parameter, below which its covariance says too little.
With P = 500, best-arm probabilities of 50 coefficients were off by 0.01 beyond the noise of as many
draws, those of 100 by 0.03 and those of 200 by 0.31."""

MAX_LOG_RATIO = float(np.log(10.0))
"""Logarithm by which a posterior density may exceed that of all particles, beyond chance."""

MAX_DISTANCE, MIN_LOG_RATIO = 3.0, -3.0
"""Standard deviations of a population beyond which no density should be e^-3 of its largest; a
normal posterior's is e^-4.5 there."""

MAX_MISSED_LOG_ODDS, NUM_IN_REFERENCE = 5.0, 16
"""Of one more draw of the prior against all particles; draws of which the reference is made. Rare
modes of all arms have larger log-odds, but so have some posteriors in the tail of a prior."""

MAX_KOLMOGOROV = 2.2
"""Root of v times it: distance from a distribution function that draws keep to, but for 1.2e-4."""

MIN_DEVIATION, MIN_EIGENVALUE, MAX_VALUE = 1e-300, 1e-9, 1e100


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
        reference: (R, D, 1) average of draws of the prior, at which log-likelihoods are compared.
        log_evidence: (R,) logarithm of the average likelihood of draws of the prior over that of
            the reference; since the last resampling, only the latter.
        log_scales: (R, D) logarithms of the deviations of draws of the prior.
        is_capped: (R,) whether moves ended early when too few ancestors were left, or data were
            added faster than particles could be moved. What was lost then may not come back.
    """

    state_names = (
        *("particles", "log_weights", "num_active"),
        *("num_ancestors", "acceptance", "is_capped", "log_evidence", "log_scales", "reference"),
    )

    def __init__(
        self,
        shape: tuple[int, int, int],
        max_variance: float,
        *,
        is_moved: bool,
        is_scheduled: bool = False,
    ) -> None:
        """Make room for (R, D, P) particles.

        Args:
            shape: R, D, P.
            max_variance: v above which populations that are not moved have too few ancestors.
            is_moved: whether particles are moved after a resampling.
            is_scheduled: whether not all particles may be active.
        """
        (num_rows, _, self._size), self._is_scheduled = shape, is_scheduled
        self._max_variance = MAX_MOVED_VARIANCE / self._size if is_moved else max_variance
        self._num_steps = (NUM_STEPS + NUM_STEPS_PER_PARAMETER * shape[1]) * is_moved
        self.particles = np.empty(shape)
        self.log_weights = np.zeros((num_rows, self._size))
        self.weights = np.ones((num_rows, self._size))
        self.max_log_weights, self.acceptance = np.zeros(num_rows), np.empty(num_rows)
        self.num_active = np.full(num_rows, self._size)
        self.num_ancestors, self.log_evidence = np.empty((2, num_rows))
        self.reference, self.log_scales = np.empty((*shape[:2], 1)), np.empty(shape[:2])
        self.is_capped = np.zeros(num_rows, dtype=bool)

    def restart(self, rows: np.ndarray, draws: np.ndarray, num_active: int) -> None:
        """Begin anew in some populations, with (R, D, P) draws of the prior."""
        self.particles[rows], self.num_active[rows] = draws, num_active
        self.num_ancestors[rows], self.is_capped[rows] = self._size, False
        self.acceptance[rows], self.log_evidence[rows] = np.nan, 0.0
        self.reference[rows] = draws[:, :, :NUM_IN_REFERENCE].mean(axis=2, keepdims=True)
        self.log_scales[rows] = np.log(np.maximum(draws.std(axis=2), MIN_DEVIATION))
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

    def misses_mode(self, target: Target, probes: np.ndarray, log_ratio: np.ndarray) -> np.ndarray:
        """Return (R,) whether the posterior is too dense at (R, D, M) probes for the particles.

        Of one parameter, the distribution function by sums over particles and probes is compared
        with that of the particles. Else, a log-concave density is at most e^D above a draw's on
        average (Fradelizi 1997): more than MAX_LOG_RATIO beyond that is of a mode that the
        particles miss, or few have found. So is a probe about as high as any particle but far from
        them: a normal log-density falls by r^2 / 2 at r standard deviations. And so may be one more
        draw of the prior, if it met the data best and outweighed all particles; a posterior that is
        narrower than the prior has lost as much evidence to that, as any draw near it would have.

        Args:
            target: the posterior of all data.
            probes: where its density is evaluated.
            log_ratio: (R,) log-likelihoods that the best parameters can be expected to give, over
                those of the reference; -inf if they are not known.
        """
        rows, (num_rows, num_params, _) = np.arange(len(probes)), probes.shape
        points = np.concatenate([self.particles, probes], axis=2)
        log_density = target.log_density(rows, points, np.ones(num_rows))
        draws = self.weighted_draws()
        if num_params == 1:
            weights = np.pad(draws.weights, ((0, 0), (0, probes.shape[2])))
            distance = measure_kolmogorov(points[:, 0], log_density, weights)
            return ~(distance <= MAX_KOLMOGOROV * np.sqrt(self.variance()))
        narrowing = self.log_scales - np.log(np.maximum(draws.std(), MIN_DEVIATION))
        log_total = self.max_log_weights + np.log(self.weights.sum(axis=1))
        with np.errstate(invalid="ignore"):  # NaN where the reference rules out the data
            log_odds = log_ratio - self.log_evidence - log_total
        log_odds -= np.maximum(narrowing, 0.0).sum(axis=1)
        highest = log_density[:, : self._size].max(axis=1)
        ratio = log_density[:, self._size :] - highest[:, None]
        centre, scale = draws.mean()[..., None], np.maximum(draws.std()[..., None], MIN_DEVIATION)
        off = (self.particles - centre) / scale * np.sqrt(draws.weights[:, None])
        away = (probes - centre) / scale
        covariance = off @ off.swapaxes(1, 2) + MIN_EIGENVALUE * np.eye(num_params)
        distance = (away * np.linalg.solve(covariance, away)).sum(axis=1)  # squared
        is_far = distance > MAX_DISTANCE**2 + num_params
        weighted = np.where(draws.weights > 0, draws.weights * log_density[:, : self._size], 0.0)
        rise = log_density.max(axis=1) - weighted.sum(axis=1)
        is_higher = np.isfinite(rise) & (rise > num_params + MAX_LOG_RATIO)
        is_missed = (is_far & (ratio > MIN_LOG_RATIO)).any(axis=1)
        return is_missed | is_higher | ~(log_odds <= MAX_MISSED_LOG_ODDS) | (highest == -np.inf)

    def reweight(self, rows: np.ndarray | slice, gain: np.ndarray) -> None:
        """Add (R, P) log-likelihoods; a particle that was or is ruled out has weight 0."""
        log_weights = self.log_weights[rows] + gain
        log_weights[np.isnan(log_weights)] = -np.inf
        self._set_log_weights(rows, log_weights)

    def add_to_first(self, gain: np.ndarray) -> None:
        """Reweight the only population by (1, P) log-likelihoods, in a third of the time."""
        self.log_weights += gain
        active = self._mask_inactive(slice(None), self.log_weights)
        self.weights, self.max_log_weights = scale_weights(active)

    def add_data(self, rng: Generator, rows: np.ndarray, target: Target) -> None:
        """Reweight by new data, and resample and move; in stages if too few would be effective."""
        power = np.zeros(len(rows))  # of the likelihood of the new data that is known
        for _ in range(MAX_STAGES):
            gain = target.log_likelihood_of_new(rows, self.particles[rows])
            gain *= (1 - power)[:, None]
            share = find_powers(self.log_weights[rows], gain, MIN_STAGE_SHARE * self._size)
            at_reference = target.log_likelihood_of_new(rows, self.reference[rows])[:, 0]
            self.log_evidence[rows] -= share * (1 - power) * at_reference
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
        weights, log_total = normalise_weights(self.log_weights[rows])
        self.log_evidence[rows] += log_total - np.log(self._size)
        chosen = systematic_resample(rng, weights)
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
        """Move particles until they have forgotten their copies; return (R,) correlations left.

        Proposals are normal with 2.38^2 / D of the population's covariance.
        """
        copies, correlation = self.particles[rows], np.ones(len(rows))
        particles, num_params = copies.copy(), copies.shape[1]
        steps = STEP_SCALE / np.sqrt(num_params) * find_axes(copies)
        if not self._num_steps:
            return correlation
        first = target.log_density(rows, copies, power)
        density = first.copy()
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
            correlation[left] = np.maximum(
                correlate(copies[left], particles[left]),
                correlate(first[left][:, None], density[left][:, None]),
            )
            left = left[correlation[left] > MAX_CORRELATION]
            if not left.size:
                break
        self.particles[rows], self.acceptance[rows] = particles, num_accepted / num_steps
        return correlation

    def _set_log_weights(self, rows: np.ndarray | slice, log_weights: np.ndarray) -> None:
        self.log_weights[rows] = log_weights
        active = self._mask_inactive(rows, log_weights)
        self.weights[rows], self.max_log_weights[rows] = scale_weights(active)

    def _mask_inactive(self, rows: np.ndarray | slice, log_weights: np.ndarray) -> np.ndarray:
        """Return (R, P) log-weights, -inf for particles that do not take part."""
        if not self._is_scheduled:
            return log_weights
        is_active = np.arange(self._size) < self.num_active[rows, None]
        return np.where(is_active, log_weights, -np.inf)

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
    first, second = np.clip([first, second], -MAX_VALUE, MAX_VALUE)  # densities may be infinite
    first, second = (x - x.mean(axis=2, keepdims=True) for x in (first, second))
    products = np.sqrt(np.vecdot(first, first) * np.vecdot(second, second))
    shared = np.vecdot(first, second) / np.maximum(products, MIN_DEVIATION)
    return np.where(products > 0, shared, 1.0).max(axis=1)


def measure_kolmogorov(
    points: np.ndarray, log_density: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return (R,) least distances of the distribution functions of a density and of weights.

    The mass between neighbours is at least their distance times the lower density, and at most that
    times the higher one, if the density is monotone there. This bounds the distribution function,
    and the largest difference from the bounds is returned.

    Args:
        points: (R, M) at which the density is known.
        log_density: (R, M), to a constant; points where it is infinite are left out.
        weights: (R, M) that sum to one.
    """
    order = np.argsort(points, axis=1, kind="stable")
    points, log_density, weights = (
        np.take_along_axis(values, order, axis=1) for values in (points, log_density, weights)
    )
    log_density = np.where(log_density < np.inf, log_density, -np.inf)
    first, second = log_density[:, :-1], log_density[:, 1:]
    with np.errstate(divide="ignore", invalid="ignore"):  # NaN where nothing is possible
        log_widths = np.log(np.diff(points, axis=1))
        log_most = log_widths + np.maximum(first, second)
        top = log_most.max(axis=1, keepdims=True)
        least = np.exp(log_widths + np.minimum(first, second) - top).cumsum(axis=1)
        most = np.exp(log_most - top).cumsum(axis=1)
    least_above, most_above = least[:, -1:] - least, most[:, -1:] - most
    low = least / np.maximum(least + most_above, MIN_DEVIATION)
    high = most / np.maximum(most + least_above, MIN_DEVIATION)
    below = weights.cumsum(axis=1)[:, 1:]  # with the particle at the end of each interval
    distance = np.maximum(low - below, below - weights[:, 1:] - high).max(axis=1)
    is_point = (points[:, 0] == points[:, -1]) & np.isfinite(log_density.max(axis=1))
    return np.where(is_point, 0.0, distance)
