"""The posterior of a normal prior cut to a box, by Markov chains: slice sampling along lines.

Every arm's likelihood has a density in the five features of `agents.numerics.distributions`,

    log p(x) = c_0 log x + c_1 log(1 - x) + c_2 x + c_3 x^2 + c_4 / x + constant,

and with the normal prior it gives the posterior on any line through the box. Slice sampling draws
from that. It needs neither tables nor tuning, and leaves the posterior invariant exactly. A sweep
moves the means along the principal axes of a normal distribution with the precision of prior and
data, and then arm by arm. Where the posterior is such a distribution, moves along axes are nearly
independent draws, however singular the prior's covariance; moves by arm alone would crawl. Where
the box cuts it, axes and arms help each other.

Notation: K arms, N lanes, L of them (chains are independent), D = 2 K directions.

References:
    Neal (2003), "Slice sampling", Section 4.
    von Neumann (1941), "Distribution of the ratio of the mean square successive difference to the
    variance".
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from agents.base.conjugacy import likelihood_coefficients, require_proper_prior
from agents.base.evidence import CountsAndSums
from agents.posteriors.base import Posterior
from agents.posteriors.weighted_draws import (
    MAX_BEST_ARM_ERROR,
    TARGET_BEST_ARM_ERROR,
    WeightedDraws,
    best_arm_error,
)
from bandit_gym.checks.doubts import Doubt
from bandit_gym.checks.typing import FloatArray
from bandit_gym.likelihoods import Exponential, Gaussian
from bandit_gym.numerics.compiled import inner, kernel
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import BanditProblem

SLICE_WIDTH = 3.5
"""First guess of a slice, in lengths of its direction."""

MIN_NEW_PULLS = 8
"""A chain is warmed up again after this many pulls more than twice those of its last warm-up."""

NUM_WARMUP_SWEEPS, MAX_SWEEP_AUTOCORRELATION = 32, 0.85
"""Sweeps of a warm-up, and their largest autocorrelation along any axis. Over 32 sweeps, two thirds
of very slow chains show more; of chains with 0.3, none in 300 axes does."""

SWEEPS_PER_UPDATE = 4
"""Of a chain, each time that it is renewed."""

NUM_BURN_IN_SWEEPS, NUM_ANSWER_SWEEPS, MAX_ANSWER_SWEEPS = 8, 400, 6400
"""Sweeps of a copy of the chain: burn-in, for answers, and most for best-arm probabilities."""

SWEEP_GROWTH = 4
"""Factor of the number of sweeps where those so far are too few."""

BIMODAL_DEVIATIONS, BIMODAL_LOG_GAIN = 5.0, 8.0
"""There may be two modes beyond both: prior deviations by which an arm pays less than its mean, and
log-likelihood that its average reward gains on that mean."""

MAX_AUTOCORRELATION = 0.99
"""Largest autocorrelation that is estimated."""

BOX_MARGIN = 0.1
"""How far inside the box the prior's mean is taken to be, where it counts as one reward of an arm:
in prior standard deviations or, if that is less, in widths of the box. At the edge of the box
rewards may have no variance."""

MAX_START_DEVIATIONS = 10.0
"""Standard deviations of the posterior from its middle beyond which no chain starts, if the box
allows."""


class GibbsTarget(NamedTuple):
    """The posterior of L lanes, in the form the kernels read.

    Attributes:
        coefficients: (L, K, 5) of the likelihood, in the features log x, log(1 - x), x, x^2, 1/x.
        mean: (K,) of the prior before truncation.
        box: (K, 2) lowest and highest means.
        directions: (2, L, D, K) along which means are moved, about one standard deviation of the
            posterior long: K principal axes, then K arms; and the prior's precision times each.
    """

    coefficients: FloatArray
    mean: FloatArray
    box: FloatArray
    directions: FloatArray


@inner
def log_density(c: FloatArray, x: float) -> float:
    """Return c . (log x, log(1 - x), x, x^2, 1/x), without the terms whose coefficient is 0."""
    value: float = (c[2] + c[3] * x) * x
    if c[0] != 0.0:
        value += c[0] * math.log(x)
    if c[1] != 0.0:
        value += c[1] * math.log1p(-x)
    if c[4] != 0.0:
        value += c[4] / x
    return value


@inner
def find_line_ends(means: np.ndarray, axis: np.ndarray, box: np.ndarray) -> tuple[float, float]:
    """Return the smallest and largest t for which means + t * axis are in the box."""
    low, high = -np.inf, np.inf
    for j in range(means.size):
        if axis[j] != 0.0:
            first = (box[j, 0] - means[j]) / axis[j]
            second = (box[j, 1] - means[j]) / axis[j]
            low, high = max(low, min(first, second)), min(high, max(first, second))
    return low, high


class MeansLine(NamedTuple):
    """One lane's means, and the direction they are moved in.

    Attributes:
        means: (K,).
        axis: (K,).
        coefficients: (K, 5) of the likelihood.
        slope: slope, in t, of the prior's -log density at t = 0.
        curvature: its second derivative.
    """

    means: np.ndarray
    axis: np.ndarray
    coefficients: np.ndarray
    slope: float
    curvature: float


@inner
def line_log_density(t: float, line: MeansLine) -> float:
    """Return the posterior log-density of t, up to a constant; -inf outside the support."""
    value = -(line.slope + 0.5 * line.curvature * t) * t
    for j in range(line.means.size):
        if line.axis[j] != 0.0:
            value += log_density(line.coefficients[j], line.means[j] + t * line.axis[j])
    return value if value == value else -np.inf


@inner
def draw_on_line(rng: Generator, line: MeansLine, low: float, high: float) -> float:
    """Return the successor of t = 0 under slice sampling of the posterior on the line.

    The slice is bracketed by stepping out from a randomly placed interval, then shrunk.
    """
    level = line_log_density(0.0, line) - rng.standard_exponential()
    left = -SLICE_WIDTH * rng.random()
    right = left + SLICE_WIDTH
    while left > low and line_log_density(left, line) > level:
        left -= SLICE_WIDTH
    while right < high and line_log_density(right, line) > level:
        right += SLICE_WIDTH
    left, right = max(left, low), min(right, high)
    while True:
        t = left + (right - left) * rng.random()
        if line_log_density(t, line) >= level or right - left < 1e-14:
            return t
        if t < 0.0:
            left = t
        else:
            right = t


@inner
def sweep_chain(rng: Generator, means: np.ndarray, target: GibbsTarget, lane: int) -> None:
    """Move one lane's (K,) means, strictly inside the box, along each of its directions once."""
    coefficients = target.coefficients[lane]
    for k in range(target.directions.shape[2]):
        axis, push = target.directions[0, lane, k], target.directions[1, lane, k]
        slope, curvature = 0.0, 0.0
        for j in range(means.size):
            slope += push[j] * (means[j] - target.mean[j])
            curvature += push[j] * axis[j]
        low, high = find_line_ends(means, axis, target.box)
        t = draw_on_line(rng, MeansLine(means, axis, coefficients, slope, curvature), low, high)
        for j in range(means.size):
            moved = means[j] + t * axis[j]
            if target.box[j, 0] < moved < target.box[j, 1]:
                means[j] = moved


@kernel
def renew_chains(
    rng: Generator, means: np.ndarray, target: GibbsTarget, num_sweeps: int
) -> np.ndarray:
    """Renew (L, K) means, strictly inside the box; return the (L, S, K) after each of S sweeps."""
    num_lanes, num_arms = means.shape
    path = np.empty((num_lanes, num_sweeps, num_arms))
    for lane in range(num_lanes):
        for s in range(num_sweeps):
            sweep_chain(rng, means[lane], target, lane)
            path[lane, s] = means[lane]
    return path


class GibbsPosterior(Posterior):
    """One Markov chain per lane, which is where the last sweep left it.

    A chain is renewed when it gets new data, or is sampled again, under the data at that time.
    Draws of one lane are therefore correlated in time.

    When a lane's data have doubled, its axes are found anew. If the posterior has moved far, its
    chain is moved towards it. Then `NUM_WARMUP_SWEEPS` more sweeps let the chain forget the old
    data. Their autocorrelation is measured, and a lane where it is high is unreliable.

    A chain finds all of a posterior with one mode. Bernoulli, Gaussian and Poisson likelihoods are
    log-concave in the mean, and so is their product with a cut normal distribution. The
    exponential's is not: where an arm pays so much less than the prior says that there may be two
    modes, a lane is unreliable.

    All answers but draws are from `NUM_ANSWER_SWEEPS` sweeps of a copy of the chain, with a
    generator of its own. That takes some 5 ms a lane of ten arms; means are off by 5 per cent of a
    deviation, quantiles at 0.99 by 15. Best-arm probabilities are from up to `MAX_ANSWER_SWEEPS`,
    until their error is `TARGET_BEST_ARM_ERROR`.

    Arguments:
        problem: a built-in likelihood and a `TruncatedMultivariateNormal` prior.
    """

    method = "gibbs"
    source = f"{NUM_ANSWER_SWEEPS} sweeps of a Markov chain"
    state_names = ("_means", "counts", "sums", "_settled", "_slowness", "_directions", "_is_fresh")
    min_file_format = 6

    def __init__(self, problem: BanditProblem) -> None:
        require_proper_prior(problem.prior)
        self.problem = problem

    def start(self, rng: Generator, num_lanes: int) -> None:
        """Start a chain in each of `num_lanes` lanes."""
        num_arms = self.problem.num_arms
        self._means, self.counts, self.sums = np.zeros((3, num_lanes, num_arms))
        self._settled, self._slowness = np.zeros((2, num_lanes))
        self._directions = np.zeros((2, num_lanes, 2 * num_arms, num_arms))
        super().start(rng, num_lanes)

    def restart(self, rng: Generator, mask: np.ndarray) -> None:
        """Start the masked lanes' chains from draws of the prior, strictly inside its box."""
        shape = (int(mask.sum()), self.problem.num_arms)
        draws = self.problem.prior.sample(rng, shape)
        self._means[mask] = keep_inside(self.problem, draws)
        self.counts[mask] = self.sums[mask] = 0.0
        self._settled[mask], self._slowness[mask] = -np.inf, 0.0
        self._update_directions(np.flatnonzero(mask))
        self._is_fresh = False
        self._clear_answers()

    def _clear_answers(self) -> None:
        self._answers = None
        self._best: tuple[np.ndarray, np.ndarray] | None = None
        self._shortages = 0

    def update(self, rng: Generator, evidence: CountsAndSums) -> None:
        """Renew all chains if there are new data."""
        counts, sums = evidence.counts, evidence.sums
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

    def best_arm_probabilities(self, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N, K) probabilities that each arm has the largest mean."""
        return self._estimate_best_arms(available)[0].copy()

    def best_arm_error(self) -> np.ndarray:
        """Return (N,) errors of these probabilities; see `Belief.best_arm_error`."""
        return self._estimate_best_arms()[1].copy()

    def _estimate_best_arms(
        self, available: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K) probabilities, and (N,) errors; lanes get more sweeps one by one."""
        if self._best is not None and available is None:
            self._note_shortage(self._best[1] > MAX_BEST_ARM_ERROR)
            return self._best

        def estimate(draws: WeightedDraws, lanes: Any) -> tuple[np.ndarray, np.ndarray]:
            found = draws.best_arm_probabilities(None if available is None else available[lanes])
            return found, best_arm_error(found, draws.effective_sample_size())

        size, rng = NUM_ANSWER_SWEEPS, np.random.default_rng(1)
        found, error = estimate(self._draws(), slice(None))
        while size < MAX_ANSWER_SWEEPS and (error > TARGET_BEST_ARM_ERROR).any():
            size *= SWEEP_GROWTH
            for lane in np.flatnonzero(error > TARGET_BEST_ARM_ERROR)[:, None]:
                found[lane], error[lane] = estimate(self._run_copies(rng, lane, size), lane)
        self._note_shortage(error > MAX_BEST_ARM_ERROR)
        if available is None:
            self._best = found, error
        return found, error

    def doubts(self) -> np.ndarray:
        """Return (N,) CHAINS_APART where the last warm-up was slow, or there may be two modes."""
        is_doubted = (self._slowness > MAX_SWEEP_AUTOCORRELATION) | self._may_be_bimodal()
        return np.where(is_doubted, Doubt.CHAINS_APART, 0) | self._shortages

    def _may_be_bimodal(self) -> np.ndarray:
        prior: Any = self.problem.prior
        likelihood = self.problem.likelihood
        if not isinstance(likelihood, Exponential):
            return np.zeros(len(self.counts), dtype=bool)
        paid = np.maximum(self.sums / np.maximum(self.counts, 1), np.finfo(float).tiny)
        is_below_prior = prior.mean - paid > BIMODAL_DEVIATIONS * np.sqrt(np.diag(prior.covariance))
        usual = np.broadcast_to(np.maximum(prior.mean, paid), paid.shape)
        data = self.counts, self.sums
        gain = likelihood.log_likelihood(paid, *data) - likelihood.log_likelihood(usual, *data)
        return np.asarray((is_below_prior & (gain > BIMODAL_LOG_GAIN)).any(axis=1))

    def _renew(self, rng: Generator) -> None:
        totals = self.counts.sum(axis=1)
        has_doubled = totals > 2 * self._settled + MIN_NEW_PULLS
        if has_doubled.any():
            self._warm_up(rng, np.flatnonzero(has_doubled))
            self._settled[has_doubled] = totals[has_doubled]
        self._run_chains(rng, slice(None), self._means, SWEEPS_PER_UPDATE)
        self._is_fresh = True
        self._clear_answers()

    def _warm_up(self, rng: Generator, lanes: np.ndarray) -> None:
        """Find the axes of some lanes' posteriors anew, and let their chains forget the old."""
        self._update_directions(lanes)
        data = self.counts[lanes], self.sums[lanes]
        if data[0].any():  # draws of the prior have nothing to forget
            means = move_towards_mode(self.problem, self._means[lanes], *data)
            path = self._run_chains(rng, lanes, means, NUM_WARMUP_SWEEPS)
            self._means[lanes] = means
            self._slowness[lanes] = self._autocorrelation(lanes, path)

    def _update_directions(self, lanes: np.ndarray) -> None:
        """Find the directions of (L,) lanes' posteriors, and keep them; see `GibbsTarget`."""
        prior: Any = self.problem.prior
        precision, unit = prior.precision, np.eye(self.problem.num_arms)
        information = guess_means(self.problem, self.counts[lanes], self.sums[lanes])[1]
        values, vectors = np.linalg.eigh(precision + information[..., None] * unit)
        axes = (vectors / np.sqrt(values)[:, None, :]).transpose(0, 2, 1)
        arms = unit / np.sqrt(information + np.diag(precision))[..., None]
        steps = np.concatenate([axes, arms], axis=1)
        self._directions[:, lanes] = steps, steps @ precision

    def weighted_draws(self) -> WeightedDraws:
        """Return the means after each of many sweeps of a copy of the chains."""
        rng, lanes = make_generator("sweeps for answers"), np.arange(len(self.counts))
        return self._run_copies(rng, lanes, NUM_ANSWER_SWEEPS)

    def _run_copies(self, rng: Generator, lanes: np.ndarray, size: int) -> WeightedDraws:
        """Return the (L, S, K) means after each of many sweeps of copies of some lanes' chains."""
        path = self._run_chains(rng, lanes, self._means[lanes], NUM_BURN_IN_SWEEPS + size)
        path = path[:, NUM_BURN_IN_SWEEPS:]
        correlation = np.clip(self._autocorrelation(lanes, path), 0.0, MAX_AUTOCORRELATION)
        return WeightedDraws(path, np.zeros(path.shape[:2]), correlation)

    def _run_chains(
        self, rng: Generator, lanes: np.ndarray | slice, means: np.ndarray, num_sweeps: int
    ) -> np.ndarray:
        """Renew some lanes' (L, K) means; return the (L, S, K) after each of S sweeps.

        Gaussian rewards and means are taken relative to the prior's mean: squares of large ones
        would cancel.
        """
        prior: Any = self.problem.prior
        likelihood, counts, sums = self.problem.likelihood, self.counts[lanes], self.sums[lanes]
        mean = np.broadcast_to(np.asarray(prior.mean, dtype=np.float64), counts.shape[1:])
        origin = mean * isinstance(likelihood, Gaussian)
        target = GibbsTarget(
            coefficients=likelihood_coefficients(likelihood, counts, sums - counts * origin),
            mean=mean - origin,
            box=prior.arm_support(len(mean)) - origin[:, None],
            directions=np.ascontiguousarray(self._directions[:, lanes]),
        )
        means -= origin
        path = np.asarray(renew_chains(rng, means, target, num_sweeps))
        means += origin
        path += origin
        return path

    def _autocorrelation(self, lanes: np.ndarray, path: np.ndarray) -> np.ndarray:
        """Return (L,) lag-one autocorrelations of (L, S, K) paths, largest over all axes.

        Along an axis it is 1 less half the sum of squared steps over that of squared distances from
        the mean (von Neumann 1941).
        """
        path = path @ self._directions[0, lanes, : path.shape[2]].swapaxes(1, 2)
        squares = path.var(axis=1) * path.shape[1]
        steps = np.square(np.diff(path, axis=1)).sum(axis=1)
        moves = np.divide(0.5 * steps, squares, out=np.zeros_like(squares), where=squares > 0)
        return np.asarray(1 - moves.min(axis=1))


def guess_means(
    problem: BanditProblem, counts: FloatArray, sums: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return (L, K) means strictly inside the box, near what each arm paid, and their precisions.

    The prior's mean counts as one reward, and the precisions are those of the data alone.
    """
    prior: Any = problem.prior
    low, high = prior.arm_support(problem.num_arms).T
    margin = BOX_MARGIN * np.minimum(np.sqrt(np.diag(prior.covariance)), high - low)
    guess = (sums + np.clip(prior.mean, low + margin, high - margin)) / (counts + 1)
    guess = keep_inside(problem, guess)
    return guess, counts / problem.likelihood.reward_std(guess) ** 2


def move_towards_mode(
    problem: BanditProblem, means: FloatArray, counts: FloatArray, sums: FloatArray
) -> FloatArray:
    """Return (L, K) means, to start chains from, moved towards the posterior's middle if far off.

    Slices are bracketed in steps as short as the posterior is narrow. From a draw of the prior that
    may take for ever. A straight line keeps to the box, and to what a nearly singular prior
    demands. The middle is the mean of a normal distribution: of the prior without its box, times
    the data's likelihood as a normal one at the guess of `guess_means`.
    """
    prior: Any = problem.prior
    guess, information = guess_means(problem, counts, sums)
    precision = prior.precision + information[..., None] * np.eye(means.shape[1])
    slope = prior.precision @ np.broadcast_to(prior.mean, means.shape[1:]) + information * guess
    off = np.linalg.solve(precision, slope[..., None])[..., 0] - means
    distance = np.sqrt(np.einsum("lj,ljk,lk->l", off, precision, off))
    step = (1 - MAX_START_DEVIATIONS / np.maximum(distance, MAX_START_DEVIATIONS))[:, None] * off
    low, high = problem.arm_support().T
    slack = np.where(step > 0, high - means, means - low)
    with np.errstate(over="ignore"):  # where there is no step, and the box is wide
        limit = (slack / np.maximum(np.abs(step), 1e-300)).min(axis=1, keepdims=True)
    share = np.where(limit > 1.0, 1.0, 0.99 * limit)  # all of the way, unless that leads out
    return keep_inside(problem, means + share * step)


def keep_inside(problem: BanditProblem, means: FloatArray) -> FloatArray:
    """Return (L, K) means with those outside the box, or on its ends, moved just inside."""
    low, high = problem.arm_support().T
    return np.clip(means, np.nextafter(low, high), np.nextafter(high, low))
