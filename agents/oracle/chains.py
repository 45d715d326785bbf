"""Joint posteriors by their densities, and long Markov chains that draw from them.

Chains begin as draws of the prior. The likelihood's power is raised from 0 to 1; after each rise
the draws are resampled by what it changes, and moved. So they start where the posterior is, in
each of its modes as often as its mass asks for.

A move is elliptical slice sampling. It needs a density at any point, and a normal distribution
roughly like it: the one with the mean and covariance of the chains at hand. Were the posterior that
distribution, two moves would have next to nothing in common; where a box cuts it, some 4 moves are
worth an independent draw of 10 arms. Plain NumPy: all chains move at once.

Chains answer for a normal prior that is cut to a box. Where arms have features, importance sampling
starts from them, and they are the second method, which says which of its answers can be trusted.

Notation: K arms, d coefficients or means, n distinct rows, M points, R rays, L chains, B batches.

References:
    Del Moral, Doucet and Jasra (2006), "Sequential Monte Carlo samplers".
    Murray, Adams and MacKay (2010), "Elliptical slice sampling".
    Nishihara, Murray and Adams (2014), "Parallel MCMC with generalized elliptical slice sampling".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import scipy
from numpy.random import Generator

from agents.oracle.arms import Arms, Density, require_density
from agents.oracle.panels import ToleranceError
from bandit_gym.checks import message
from bandit_gym.checks.typing import FloatArray, IntArray
from bandit_gym.likelihoods import Gaussian
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import BanditProblem, ContextualProblem

NUM_CHAINS = 2048
"""Many times the coefficients of a problem: their covariance is that of as many draws."""

MOVES_PER_STAGE = 4
"""After each rise of the likelihood's power."""

MIN_POWER_STEP = 2.0**-60
"""Of a rise, where the likelihood rules out more than half the draws of the prior."""

NUM_BATCHES = 16
MAX_BATCH = 1 << 10

GROWTH_MARGIN, MAX_GROWTH = 1.2, 8.0
"""Of the length of a round, against what the error of the round before says is needed."""

MAX_VARIANCE_RATIO = 4.0
"""Of chain averages, against what their batches promise. Chains that agree are at 1 within 0.2: an
F statistic with 2,047 and 30,720 degrees of freedom. Batches promise too little where a chain
remembers longer than they last, and nearly nothing where it never leaves its mode."""

MAX_LOG_ROUNDING = 1e-2
"""Of a log-density; slices are looked for at some 1 below it."""

MIN_ANGLE = 1e-12
"""Of what is left of a turn, after which a chain stays where it is."""

MAX_PREDICTORS = 1 << 18
"""That are held at once: 2 MB, which stay in the cache."""


Compared = FloatArray | Callable[[FloatArray], FloatArray]
"""What arms are compared by, see `find_wins`."""


@dataclass(frozen=True, eq=False)
class PosteriorTarget:
    """The posterior of all coefficients, or of a block that is independent of the others.

    Without features the means of the arms are the coefficients, and row i is 1 for arm i alone.

    Attributes:
        problem: likelihood and prior.
        rows: (n, d) features of the rewards.
        counts: (n,) rewards of each row.
        sums: (n,) total rewards, in reward units.
        chosen: (b,) coefficients of the block, all others being 0; None stands for all.
        units: (b,) that coefficients are multiples of, or one for all.
    """

    problem: BanditProblem
    rows: FloatArray
    counts: FloatArray
    sums: FloatArray
    chosen: IntArray | None = None
    units: FloatArray | float = 1.0

    @property
    def _num_all(self) -> int:
        return getattr(self.problem, "num_features", self.problem.num_arms)

    def block(self, chosen: IntArray) -> PosteriorTarget:
        """Return the posterior of some coefficients, which must be independent of the others."""
        used = (self.rows[:, chosen] != 0).any(axis=1)
        rows = np.ascontiguousarray(self.rows[used][:, chosen])
        return PosteriorTarget(self.problem, rows, self.counts[used], self.sums[used], chosen)

    def in_units(self, units: FloatArray) -> PosteriorTarget:
        """Return the posterior of coefficients that are multiples of (b,) numbers."""
        return replace(self, rows=self.rows * units, units=self.units * units)

    def compress(self) -> PosteriorTarget:
        """Return the target with d rows or fewer where rewards are Gaussian, otherwise itself.

        By QR of [X y], the squares of y - X theta add up to those of d rows and a constant.
        """
        if not isinstance(self.problem.likelihood, Gaussian) or not len(self.rows):
            return self
        roots = np.sqrt(self.counts)
        scaled = np.column_stack([self.rows * roots[:, None], self.sums / roots])
        kept = scipy.linalg.qr(scaled, mode="r")[0][: self.rows.shape[1]]
        return replace(self, rows=kept[:, :-1], counts=np.ones(len(kept)), sums=kept[:, -1])

    def sample_prior(self, rng: Generator, size: int) -> FloatArray:
        """Return (size, d) draws of the prior."""
        draws = self.problem.prior.sample(rng, (size, self._num_all))
        return (draws if self.chosen is None else draws[:, self.chosen]) / self.units

    def log_prior(self, theta: FloatArray) -> FloatArray:
        """Return the (...) log-densities of (..., d) coefficients under the prior."""
        prior, theta = self.problem.prior, theta * self.units
        if self.chosen is None:
            return prior.log_density(theta)
        full = np.zeros((*theta.shape[:-1], self._num_all))
        full[..., self.chosen] = theta
        return np.asarray(prior.arm_log_density(full)[..., self.chosen].sum(axis=-1))  # type: ignore[attr-defined]

    def log_likelihood(self, predictors: FloatArray, theta: FloatArray) -> FloatArray:
        """Return the (...) log-likelihoods of (..., n) predictors, those of (..., d) theta."""
        likelihood, data = self.problem.likelihood, (self.counts, self.sums)
        if isinstance(self.problem, ContextualProblem):
            std = getattr(likelihood, "std", 1.0)
            return np.asarray(self.problem.link.log_likelihood(predictors, *data, std).sum(axis=-1))
        with np.errstate(all="ignore"):
            values = likelihood.log_likelihood(predictors, *data)
        require_density("the log-likelihood", values, predictors)
        return np.asarray(values.sum(axis=-1))

    def log_likelihoods(self, theta: FloatArray) -> FloatArray:
        """Return the (M,) log-likelihoods of (M, d) coefficients, a part of them at a time."""
        step = max(1, MAX_PREDICTORS // max(1, len(self.rows)))
        parts = np.split(theta, range(step, len(theta), step))
        return np.concatenate([self.log_likelihood(part @ self.rows.T, part) for part in parts])

    def log_density(self, theta: FloatArray, power: float = 1.0) -> FloatArray:
        """Return (M,) log-densities of (M, d) coefficients, the likelihood raised to a power."""
        return self.log_prior(theta) + power * self.log_likelihoods(theta)

    def log_density_on_rays(self, rays: FloatArray) -> Density:
        """Return the log of r^d f(r p), the density of log r along (R, d) rays p."""
        slopes = rays @ self.rows.T

        def density(log_radius: FloatArray) -> FloatArray:
            radius = np.exp(log_radius)
            theta = radius[..., None] * rays[:, None]
            predictors = radius[..., None] * slopes[:, None]
            parts = self.log_prior(theta) + self.log_likelihood(predictors, theta)
            return parts + rays.shape[1] * log_radius

        return density


def means_probabilities(
    problem: BanditProblem,
    tolerance: float,
    prices: Any,
    counts: FloatArray,
    sums: FloatArray,
) -> tuple[FloatArray, float]:
    """Return the (K,) probabilities that each arm is the best, and two standard errors.

    The generator is fixed, so that the result is a function of the problem and the data.

    Args:
        problem: its prior is a `TruncatedMultivariateNormal`.
        tolerance: largest error accepted.
        prices: see `agents.oracle.arms.Arms`.
        counts: (K,) pulls.
        sums: (K,) total rewards.

    Raises:
        ToleranceError: see `chain_probabilities`; or if the data are so many, or so far from the
            prior, that numbers lack digits.
    """
    arms = np.eye(problem.num_arms)
    target = PosteriorTarget(problem, arms, counts, sums)
    draws = target.sample_prior(make_generator("draws of the oracle"), NUM_CHAINS)
    values = target.log_likelihoods(draws)
    is_finite = np.isfinite(values)
    require_digits(values[is_finite] if is_finite.mean() >= 0.5 else values)
    compared = arms if prices is None else Arms(problem, prices).worth
    return chain_probabilities(target, compared, tolerance)


def require_digits(log_likelihoods: FloatArray) -> None:
    """Refuse data whose log-likelihoods are so large, or infinite, that differences are rounding.

    Raises:
        ToleranceError: of an unknown error.
    """
    rounding = float(np.spacing(np.abs(log_likelihoods).max(initial=0.0)))
    if not rounding <= MAX_LOG_ROUNDING:
        raise ToleranceError(
            "counts and sums must be such that log-likelihoods have digits left, got "
            f"{rounding:.2g} as their rounding; the data are too many, or too far from the prior.",
            np.inf,
        )


def chain_probabilities(
    target: PosteriorTarget, arms: Compared, tolerance: float
) -> tuple[FloatArray, float]:
    """Return the (K,) probabilities that each arm is the best, and two standard errors.

    Rounds grow longer until in one of them the chains agree with one another and the error is small
    enough; all before it are forgotten.

    Args:
        target: posterior of d coefficients, or of means.
        arms: see `find_wins`.
        tolerance: largest error accepted.

    Raises:
        ToleranceError: if chains of MAX_BATCH * NUM_BATCHES moves still disagree or are still too
            noisy.
    """
    rng = make_generator("chains of the oracle")
    theta, batch = temper_draws(rng, target), 1
    while True:
        chains = iterate_chains(rng, target.log_density, theta)
        wins = np.zeros((NUM_BATCHES, *find_wins(theta, arms).shape))
        for batch_wins in wins:
            for theta in islice(chains, batch):
                batch_wins += find_wins(theta, arms)
        error, ratio = monte_carlo_error(wins / batch)
        agrees = ratio <= MAX_VARIANCE_RATIO
        if agrees and error <= tolerance and batch > 1:
            return wins.mean(axis=(0, 1)) / batch, error
        if batch == MAX_BATCH:
            condition = f"be within reach of {NUM_CHAINS} chains of {MAX_BATCH * NUM_BATCHES} moves"
            reached = f"two standard errors are {error:.2g}, the chains' variance ratio {ratio:.2g}"
            raise ToleranceError(message("tolerance", condition, tolerance, reached), error)
        growth = GROWTH_MARGIN * (error / tolerance) ** 2 if agrees else 2.0
        batch = min(math.ceil(np.clip(growth, GROWTH_MARGIN, MAX_GROWTH) * batch), MAX_BATCH)


def find_wins(theta: FloatArray, arms: Compared) -> FloatArray:
    """Return (M, K) ones where an arm is the best under (M, d) coefficients; ties share them.

    Args:
        theta: the coefficients.
        arms: (K, d) features, whose predictors are compared, or a function of theta that returns
            (M, K) numbers to compare in their place.
    """
    compared = arms(theta) if callable(arms) else theta @ arms.T
    is_best = compared == compared.max(axis=1, keepdims=True)
    return np.asarray(is_best / is_best.sum(axis=1, keepdims=True))


def temper_draws(
    rng: Generator, target: PosteriorTarget, num_chains: int = NUM_CHAINS
) -> FloatArray:
    """Return (L, d) draws of the posterior, near enough to fit a proposal to, or to start chains.

    The power rises each time by as much as leaves the draws worth half their number.
    """
    theta, power = target.sample_prior(rng, num_chains), 0.0
    while power < 1.0:
        values, step = target.log_likelihoods(theta), 1.0 - power
        while step > MIN_POWER_STEP and _effective_size(step * values) < num_chains / 2:
            step /= 2
        power = min(power + step, 1.0)
        theta = theta[_resample_chains(rng, step * values)]
        density = partial(target.log_density, power=power)
        *_, theta = islice(iterate_chains(rng, density, theta), MOVES_PER_STAGE)
    return theta


def iterate_chains(rng: Generator, log_density: Density, theta: FloatArray) -> Iterator[FloatArray]:
    """Yield where (L, d) chains are after each move, for ever.

    The normal distribution with the mean and covariance that they have now is standard in
    coordinates z.
    """
    root, centre = np.sqrt(len(theta)), theta.mean(axis=0)
    left, sizes, axes = np.linalg.svd(theta - centre, full_matrices=False)
    z, steps = root * left, sizes[:, None] * axes / root

    def log_ratio(z: FloatArray) -> FloatArray:
        return log_density(centre + z @ steps) + np.square(z).sum(axis=1) / 2

    values = log_ratio(z)
    while True:
        z, values = move_chains(rng, log_ratio, z, values)
        yield centre + z @ steps


def move_chains(
    rng: Generator, log_ratio: Density, z: FloatArray, values: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the successors of (L, d) coordinates z, and their (L,) log-ratios.

    Chains follow the standard normal distribution times the ratio. Each turns along the ellipse
    through z and a draw of that distribution, by an angle drawn from all of it, then from what is
    left between the angles refused on either side of 0.
    """
    num_chains = len(z)
    other = rng.standard_normal(z.shape)
    levels = values - rng.standard_exponential(num_chains)
    high = 2 * np.pi * rng.random(num_chains)
    low, angles = high - 2 * np.pi, high.copy()
    moved, values, waiting = z.copy(), values.copy(), np.arange(num_chains)
    while waiting.size:
        angle = angles[waiting][:, None]
        tried = z[waiting] * np.cos(angle) + other[waiting] * np.sin(angle)
        tried_values = log_ratio(tried)
        is_taken = tried_values >= levels[waiting]
        taken = waiting[is_taken]
        moved[taken], values[taken] = tried[is_taken], tried_values[is_taken]
        # Where rounding refuses even z itself, it stays.
        waiting = waiting[~is_taken & (high[waiting] - low[waiting] > MIN_ANGLE)]
        refused = angles[waiting]
        low[waiting] = np.where(refused < 0, refused, low[waiting])
        high[waiting] = np.where(refused < 0, high[waiting], refused)
        angles[waiting] = rng.uniform(low[waiting], high[waiting])
    return moved, values


def monte_carlo_error(frequencies: FloatArray) -> tuple[float, float]:
    """Return two standard errors of the average, and how much more the chains differ than they may.

    Args:
        frequencies: (B, L, K) averages of consecutive batches of each of L chains.

    Returns:
        Twice the larger of the standard errors by batches and by chains, largest over arms; and
        the largest ratio of the variance of chain averages to what their batches promise.
    """
    num_batches, num_chains, _ = frequencies.shape
    promised = frequencies.var(axis=0, ddof=1).mean(axis=0) / num_batches
    seen = frequencies.mean(axis=0).var(axis=0, ddof=1)
    error = 2 * np.sqrt(np.maximum(promised, seen).max() / num_chains)
    ratios = np.divide(seen, promised, out=np.zeros_like(seen), where=promised > 0)
    ratios = np.where((promised == 0) & (seen > 0), np.inf, ratios)
    return float(error), float(ratios.max())


def _effective_size(log_weights: FloatArray) -> float:
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / (weights @ weights))


def _resample_chains(rng: Generator, log_weights: FloatArray) -> IntArray:
    """Return (L,) draws as often as their weights ask for, by places at even distances."""
    ends = np.cumsum(np.exp(log_weights - log_weights.max()))
    positions = (np.arange(len(ends)) + rng.random()) * ends[-1] / len(ends)
    return np.searchsorted(ends[:-1], positions)
