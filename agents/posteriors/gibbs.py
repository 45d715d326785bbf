"""The posterior of a normal prior cut to a box, held by Markov chains, one a lane.

Letters: K arms, N lanes, L chains, S sweeps, G points of a grid.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from agents.numerics.choices import among
from agents.posteriors.base import Posterior
from agents.posteriors.chains import (
    Axes,
    GibbsTarget,
    principal_axes,
    renew_chains,
    settle_chains,
)
from agents.posteriors.conditionals import Answer, average_conditionals
from agents.posteriors.conjugate import likelihood_coefficients
from agents.posteriors.starts import bring_near, guess_means, keep_inside, make_target
from bandit_gym.doubts import Doubt
from bandit_gym.problem import BanditProblem

FEW_PULLS = 8
"""More pulls than twice those at which a chain was last settled, and it is settled again."""

NUM_SETTLING, SLOWEST = 32, 0.85
"""Sweeps that settle a chain, and the largest autocorrelation of a sweep's along any axis. Of 32
places of a chain that needs ever so many sweeps, two thirds show more; of one with 0.3, none in 300
axes does."""

NUM_BURNS, NUM_SUMMARY_SWEEPS = 8, 128
"""Sweeps of a copy of the chain that answers are averages over, and those before them."""

FARTHEST, APART = 1000.0, 5.0
"""Standard deviations from the posterior's middle within which chains from the prior's mean start,
and those of their places between the averages of two chains that share no camp."""


class GibbsPosterior(Posterior):
    """One Markov chain per lane, which is where the last sweep left it.

    A chain is renewed under the data at that time once it follows new ones, or is sampled again.
    Draws of one lane are therefore correlated in time.

    When a lane's data have doubled, its axes are found anew and `NUM_SETTLING` more sweeps let its
    chain forget the old data; before that it is brought near the posterior, should that have moved
    far. How slowly those sweeps moved is measured, and a lane where they crawled is unreliable.

    A chain finds all of a posterior with one camp. Bernoulli, Gaussian and Poisson likelihoods are
    log-concave in the mean, and so is their product with a cut normal law. The exponential's is
    not, beyond twice the average reward: beside a prior many of its deviations higher there may be
    two camps. So where the prior's mean lies there, a second chain sets out from it, and a lane
    whose chains end up apart is unreliable.

    What is asked beside draws is answered from `NUM_SUMMARY_SWEEPS` sweeps of a copy of the chain,
    with a generator of its own: means, deviations, quantiles and best arms from the conditional
    laws of each arm given the others, averaged over the sweeps. That takes some 5 ms a lane of ten
    arms, more where arms all but fix each other, with a Monte Carlo error of a few per cent of a
    deviation.

    Arguments:
        problem: a built-in likelihood and a `TruncatedMultivariateNormal` prior.
        num_sweeps: of a chain, each time that it is renewed.
    """

    source = f"{NUM_SUMMARY_SWEEPS} sweeps of a Markov chain"
    keeps_state = True
    state_names = ("_means", "counts", "sums", "_settled", "_slowness", "_axes", "_is_fresh")

    def __init__(self, problem: BanditProblem, num_sweeps: int = 4) -> None:
        self.problem = problem
        self.num_sweeps = num_sweeps
        self._make_room(0)
        self._is_fresh = False
        self._answer: Answer | None = None

    def restart(self, rng: Generator, mask: np.ndarray) -> None:
        """Start the masked lanes' chains from draws of the prior, strictly inside its box."""
        shape = (int(mask.sum()), self.problem.num_arms)
        draws = self.problem.prior.sample(rng, shape)
        if len(self._means) != len(mask):
            self._make_room(len(mask))
        self._means[mask] = keep_inside(self.problem, draws)
        self.counts[mask] = self.sums[mask] = 0.0
        self._settled[mask], self._slowness[mask] = -np.inf, 0.0
        self._turn(np.flatnonzero(mask))
        self._is_fresh, self._answer = False, None

    def _make_room(self, num_lanes: int) -> None:
        num_arms = self.problem.num_arms
        self._means, self.counts, self.sums = np.zeros((3, num_lanes, num_arms))
        self._settled, self._slowness = np.zeros((2, num_lanes))
        steps, pushes = np.zeros((2, num_lanes, num_arms, num_arms))
        self._axes = Axes(steps, pushes, np.zeros((num_lanes, num_arms)))

    def follow(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Renew all chains if there are new data."""
        if np.array_equal(counts, self.counts) and np.array_equal(sums, self.sums):
            return
        self.counts, self.sums = counts.astype(np.float64), sums.copy()
        self._renew(rng)

    def sample(self, rng: Generator) -> np.ndarray:
        """Return the (N, K) state of the chains, renewed unless they have not been sampled yet."""
        if not self._is_fresh:
            self._renew(rng)
        self._is_fresh = False
        return self._means.copy()

    def mean(self) -> np.ndarray:
        """Return the (N, K) expectations."""
        grid, density, _ = self._marginals()
        return np.trapezoid(density * grid, grid, axis=-1)

    def std(self) -> np.ndarray:
        """Return the (N, K) standard deviations."""
        grid, density, _ = self._marginals()
        off = grid - np.trapezoid(density * grid, grid, axis=-1)[..., None]
        return np.sqrt(np.trapezoid(density * off**2, grid, axis=-1))

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) quantiles."""
        grid, density, _ = self._marginals()
        steps = np.diff(grid, axis=-1) * (density[..., 1:] + density[..., :-1]) / 2
        mass = np.concatenate([np.zeros_like(steps[..., :1]), steps.cumsum(axis=-1)], axis=-1)
        levels = np.broadcast_to(p, mass.shape[:2]) * mass[..., -1]
        found = np.empty(mass.shape[:2])
        for place in np.ndindex(found.shape):
            found[place] = np.interp(levels[place], mass[place], grid[place])
        return found

    def density(self, x: np.ndarray) -> np.ndarray:
        """Return the (M, N, K) densities at (M,) places."""
        grid, density, _ = self._marginals()
        found = np.empty((*grid.shape[:2], len(x)))
        for place in np.ndindex(grid.shape[:2]):
            found[place] = np.interp(x, grid[place], density[place], 0.0, 0.0)
        return np.moveaxis(found, -1, 0)

    def best_arm_probabilities(self) -> np.ndarray:
        """Return the (N, K) probabilities that an arm's conditional law beats the others' means.

        Averages of these over the sweeps are less noisy than frequencies, and seldom 0.
        """
        return self._marginals()[2]

    def best_among(self, available: np.ndarray | None) -> np.ndarray:
        """Return the (N, K) probabilities of being the best among the (N, K) available arms."""
        if available is None:
            return self.best_arm_probabilities()
        return average_conditionals(*self._sweep(), available).best

    def best_arm_moments(
        self, available: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K) frequencies and (N, K, K) averages over the sweeps in which an arm won."""
        means = self._sweep()[1]
        rivals = means if available is None else among(means, available)
        has_won = rivals.argmax(axis=-1)[..., None] == np.arange(self.problem.num_arms)
        found = has_won.mean(axis=0)
        totals = np.einsum("sna,sni->nai", has_won, means) / len(means)
        with np.errstate(invalid="ignore"):
            averages = totals / found[..., None]
        return found, np.where(found[..., None] > 0, averages, means.mean(axis=0)[:, None])

    def shortfall(self, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K) probabilities and expected shortfalls of the marginal laws."""
        grid, density, _ = self._marginals()
        off = np.maximum(np.asarray(level)[..., None] - grid, 0.0)
        below = np.trapezoid(np.where(off > 0, density, 0.0), grid, axis=-1)
        return below, np.trapezoid(density * off, grid, axis=-1)

    def doubts(self) -> np.ndarray:
        """Return (N,) CHAINS_APART where the chain moved slowly when its data had last doubled."""
        return np.where(self._slowness > SLOWEST, Doubt.CHAINS_APART, 0)

    def _renew(self, rng: Generator) -> None:
        totals = self.counts.sum(axis=1)
        has_outgrown = totals > 2 * self._settled + FEW_PULLS
        if has_outgrown.any():
            self._settle(rng, np.flatnonzero(has_outgrown))
            self._settled[has_outgrown] = totals[has_outgrown]
        target = make_target(self.problem, self.counts, self.sums)
        renew_chains(rng, self._means, target, self._axes, self.num_sweeps)
        self._is_fresh, self._answer = True, None

    def _settle(self, rng: Generator, lanes: np.ndarray) -> None:
        """Find the axes of some lanes' posteriors anew, and let their chains forget the old."""
        axes, data = self._turn(lanes), (self.counts[lanes], self.sums[lanes])
        if data[0].any():  # draws of the prior have nothing to forget
            means = bring_near(self.problem, self._means[lanes], *data)
            target = make_target(self.problem, *data)
            slowness, places = settle_chains(rng, means, target, axes, NUM_SETTLING)
            self._means[lanes] = means
            is_apart = self._has_second_camp(rng, lanes, axes, places)
            self._slowness[lanes] = np.where(is_apart, 1.0, slowness)

    def _has_second_camp(
        self, rng: Generator, lanes: np.ndarray, axes: Axes, places: np.ndarray
    ) -> np.ndarray:
        """Return (L,) True where chains from the prior's mean stay away from the given places."""
        prior: Any = self.problem.prior
        data = self.counts[lanes], self.sums[lanes]
        coefficients = likelihood_coefficients(self.problem.likelihood, *data)
        is_asked = (coefficients[..., 4] != 0.0) & (prior.mean * data[0] > 2 * data[1])
        asked, found = np.flatnonzero(is_asked.any(axis=1)), np.zeros(len(lanes), dtype=bool)
        if asked.size:
            data, axes = (data[0][asked], data[1][asked]), Axes(*(part[asked] for part in axes))
            means = keep_inside(self.problem, np.zeros(data[0].shape) + prior.mean)
            means = bring_near(self.problem, means, *data, farthest=FARTHEST)
            target = make_target(self.problem, *data)
            others = settle_chains(rng, means, target, axes, NUM_SETTLING)[1]
            gaps, spreads = places[asked, 0] - others[:, 0], places[asked, 1] + others[:, 1]
            found[asked] = (gaps**2 > APART**2 * spreads / 2).any(axis=1)
        return found

    def _turn(self, lanes: np.ndarray) -> Axes:
        """Find the axes of some lanes' posteriors, and keep them."""
        prior: Any = self.problem.prior
        information = guess_means(self.problem, self.counts[lanes], self.sums[lanes])[1]
        axes = principal_axes(prior.precision, information)
        for kept, new in zip(self._axes, axes, strict=True):
            kept[lanes] = new
        return axes

    def _sweep(self) -> tuple[GibbsTarget, np.ndarray]:
        """Return the target, and (S, N, K) means after sweeps of a copy of the chains."""
        rng, means = np.random.default_rng(0), self._means.copy()
        target = make_target(self.problem, self.counts, self.sums)
        renew_chains(rng, means, target, self._axes, NUM_BURNS)
        found = np.empty((NUM_SUMMARY_SWEEPS, *means.shape))
        for sweep in found:
            renew_chains(rng, means, target, self._axes, 1)
            sweep[:] = means
        return target, found

    def _marginals(self) -> Answer:
        """Return what averages of conditional laws tell."""
        if self._answer is None:
            self._answer = average_conditionals(*self._sweep())
        return self._answer
