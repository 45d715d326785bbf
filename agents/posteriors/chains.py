"""The posterior of a normal prior cut to a box, by elliptical slice sampling.

A move from x draws y from a distribution q near the posterior p, the *base*, and turns along the
ellipse through both and its centre c,

    x(t) = c + (x - c) cos t + (y - c) sin t,

until log (p/q)(x(t)) exceeds log (p/q)(x) - e, with e exponential. Each failure shrinks the bracket
of t around 0. That leaves p invariant, and needs no tuning.

The base is Student's distribution, whose tails are heavier than the posterior's: else a chain that
is far out stays there. It is a mixture of normal distributions; a move first draws which one, given
x. Its centre and axes are those of a normal distribution: the prior without its box, times a normal
density in place of each arm's likelihood, times one in place of its box. So with z the coordinates
of x along the axes, log p is log r(x) - z'z / 2, with r the likelihood and the box over the normal
densities that stand in for them.

Every arm's likelihood has a density in the five features of `agents.numerics.distributions`,

    log p(x) = c_0 log x + c_1 log(1 - x) + c_2 x + c_3 x^2 + c_4 / x + constant.

Notation: K arms, N lanes, L of them, C copies of a lane's chain, S draws of each, R chains.

References:
    Murray, Adams and MacKay (2010), "Elliptical slice sampling".
    Nishihara, Murray and Adams (2014), "Parallel MCMC with generalized elliptical slice sampling".
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
from agents.numerics.kernels import copy_array, fill_array
from agents.posteriors.base import Posterior
from agents.posteriors.weighted_draws import WeightedDraws
from bandit_gym.checks.typing import FloatArray
from bandit_gym.doubts import Doubt
from bandit_gym.likelihoods import Exponential, Gaussian
from bandit_gym.numerics.compiled import inner, kernel
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import BanditProblem

DEGREES_OF_FREEDOM = 5.0
"""Of the base."""

NUM_PRIOR_PULLS, BOX_MARGIN = 2.0, 1e-3
"""Pulls that the prior's mean counts as in an arm's average, and how far inside the box that is
kept, in widths of the box up to 1: near the ends of the support rewards hardly vary."""

MOVES_PER_DRAW, DRAWS_PER_BURN_IN = 32, 8
"""Moves from one draw to the next, and draws left out before a check, as the chain may have started
far off; copies, which start from a draw, leave out a quarter of that."""

MIN_NEW_PULLS, DRAWS_PER_CHECK, MAX_AUTOCORRELATION = 8, 32, 0.85
"""A chain is checked after this many pulls more than twice those of its last check: by so many
draws, and their largest autocorrelation along any axis. Of very slow chains two thirds show
more."""

NUM_COPIES, DRAWS_PER_COPY = 64, 128
MIN_ANSWER_DRAWS = 2500.0
"""Independent draws whose averages err by a fiftieth of a standard deviation."""

MOVES_PER_ANSWER_DRAW = 2, 2, 4, 8, 16, 32
"""Of copies, in each round: as many as all before, until draws are worth MIN_ANSWER_DRAWS."""

BIMODAL_DEVIATIONS, BIMODAL_LOG_GAIN = 5.0, 8.0
"""There may be two modes beyond both: prior deviations by which an arm pays less than its mean, and
log-likelihood that its average reward gains on that mean."""

MIN_BRACKET, LOG_LEAST = 1e-12, -1e300
"""Radians at which a move stays where it is, and the least log-density that it may have to
exceed."""


class ChainTarget(NamedTuple):
    """The posterior of L lanes and its base, in the form the kernel reads.

    Attributes:
        box: (K, 2) lowest and highest means.
        centre: (L, K) of the base.
        axes: (L, K, K) rows, the principal axes of its normal distribution, each one standard
            deviation long.
        coefficients: (L, K, 5) of the likelihood, in the features log x, log(1 - x), x, x^2, 1/x.
        averages: (L, K) means of the normal densities that r is divided by.
        precisions: (L, K) of these.
    """

    box: FloatArray
    centre: FloatArray
    axes: FloatArray
    coefficients: FloatArray
    averages: FloatArray
    precisions: FloatArray


class ChainPosterior(Posterior):
    """One Markov chain per lane, which is where the last move left it.

    Each draw is MOVES_PER_DRAW moves on, under the data at that time, so draws of one lane are
    correlated in time. Whenever a lane's data have doubled, more moves let its chain forget the
    old ones. A lane whose draws are strongly correlated then is unreliable.

    A chain finds all of a posterior with one mode. Bernoulli, Gaussian and Poisson likelihoods are
    log-concave in the mean, and so is their product with a cut normal distribution. The
    exponential's is not: where an arm pays so much less than the prior says that there may be two
    modes, a lane is unreliable.

    All answers but draws are from copies of the chain, with a generator of their own, until they
    are worth MIN_ANSWER_DRAWS independent draws; a lane where they never are is unreliable. That
    takes 20 to 150 ms a lane of ten arms.

    Arguments:
        problem: a built-in likelihood and a `TruncatedMultivariateNormal` prior.
    """

    method = "gibbs"
    source = f"{NUM_COPIES * DRAWS_PER_COPY:,} draws of Markov chains"
    state_names = ("_means", "counts", "sums", "_checked_pulls", "_autocorrelation")
    min_file_format = 6

    def __init__(self, problem: BanditProblem) -> None:
        require_proper_prior(problem.prior)
        self.problem = problem

    def start(self, rng: Generator, num_lanes: int) -> None:
        """Start a chain in each of `num_lanes` lanes."""
        self._means, self.counts, self.sums = np.zeros((3, num_lanes, self.problem.num_arms))
        self._checked_pulls, self._autocorrelation = np.zeros((2, num_lanes))
        super().start(rng, num_lanes)

    def restart(self, rng: Generator, mask: np.ndarray) -> None:
        """Start the masked lanes' chains from draws of the prior, strictly inside its box."""
        draws = self.problem.prior.sample(rng, (int(mask.sum()), self.problem.num_arms))
        low, high = self.problem.arm_support().T
        self._means[mask] = np.clip(draws, np.nextafter(low, high), np.nextafter(high, low))
        self.counts[mask] = self.sums[mask] = 0.0
        self._checked_pulls[mask] = self._autocorrelation[mask] = 0.0
        self._answers, self._shortages = None, 0

    def update(self, rng: Generator, evidence: CountsAndSums) -> None:
        """Take note of new data; where they have doubled, check the chain."""
        counts, sums = evidence.counts, evidence.sums
        if np.array_equal(counts, self.counts) and np.array_equal(sums, self.sums):
            return
        self.counts, self.sums = counts.astype(np.float64), sums.copy()
        self._answers, self._shortages = None, 0
        pulls = self.counts.sum(axis=1)
        lanes = np.flatnonzero(pulls > 2 * self._checked_pulls + MIN_NEW_PULLS)
        if lanes.size:
            target, means = self._find_target(lanes), self._means[lanes]
            try:
                move_chains(rng, means, target, DRAWS_PER_BURN_IN, MOVES_PER_DRAW)
                path = move_chains(rng, means, target, DRAWS_PER_CHECK, MOVES_PER_DRAW)
            except BaseException:
                self.counts = np.full_like(self.counts, np.nan)  # so that the next one checks
                raise
            self._means[lanes], self._checked_pulls[lanes] = means, pulls[lanes]
            self._autocorrelation[lanes] = estimate_autocorrelation(path @ invert_axes(target.axes))

    def sample(self, rng: Generator) -> np.ndarray:
        """Return the (N, K) state of the chains, moved on."""
        target = self._find_target(np.arange(len(self._means)))
        move_chains(rng, self._means, target, 1, MOVES_PER_DRAW)
        return self._means.copy()

    def weighted_draws(self) -> WeightedDraws:
        """Return draws of copies of each lane's chain, so many moves apart as makes them enough."""
        num_lanes, num_arms = self._means.shape
        rng, lanes = make_generator("moves for answers"), np.arange(num_lanes)
        means = np.repeat(self._means, NUM_COPIES, axis=0).reshape(num_lanes, NUM_COPIES, num_arms)
        draws = np.empty((num_lanes, NUM_COPIES, DRAWS_PER_COPY, num_arms))
        sizes = np.zeros(num_lanes)
        for number, num_moves in enumerate(MOVES_PER_ANSWER_DRAW):
            target, copies = self._find_target(lanes), means[lanes].reshape(-1, num_arms)
            if number == 0:
                move_chains(rng, copies, target, DRAWS_PER_BURN_IN // 4, MOVES_PER_DRAW)
            path = move_chains(rng, copies, target, DRAWS_PER_COPY, num_moves)
            path = path.reshape(len(lanes), *draws.shape[1:])
            if number > 0:  # half of the draws before, so that all are equally far apart
                path = np.concatenate([draws[lanes], path], axis=2)[:, :, 1::2]
            draws[lanes], means[lanes] = path, copies.reshape(means[lanes].shape)
            along_axes = path @ invert_axes(target.axes)[:, None]
            sizes[lanes] = np.minimum(count_independent(path), count_independent(along_axes))
            lanes = lanes[sizes[lanes] < MIN_ANSWER_DRAWS]
            if not lanes.size:
                break
        self._note_shortage(sizes < MIN_ANSWER_DRAWS)
        flat = draws.reshape(num_lanes, -1, num_arms)
        return WeightedDraws(flat, np.zeros(flat.shape[:2]), sizes / flat.shape[1])

    def doubts(self) -> np.ndarray:
        """Return (N,) CHAINS_APART where the last check was slow, or there may be two modes."""
        is_doubted = (self._autocorrelation > MAX_AUTOCORRELATION) | self._may_be_bimodal()
        return np.where(is_doubted, Doubt.CHAINS_APART, 0) | self._shortages

    def _may_be_bimodal(self) -> np.ndarray:
        prior: Any = self.problem.prior
        likelihood, data = self.problem.likelihood, (self.counts, self.sums)
        if not isinstance(likelihood, Exponential):
            return np.zeros(len(self.counts), dtype=bool)
        averages = np.maximum(
            self.sums / np.where(self.counts > 0, self.counts, 1), np.finfo(float).tiny
        )
        deviations = (prior.mean - averages) / np.sqrt(np.diag(prior.covariance))
        usual = np.broadcast_to(np.maximum(prior.mean, averages), averages.shape)
        gain = likelihood.log_likelihood(averages, *data) - likelihood.log_likelihood(usual, *data)
        may_be = (deviations > BIMODAL_DEVIATIONS) & (gain > BIMODAL_LOG_GAIN)
        return np.asarray(may_be.any(axis=1))

    def _find_target(self, lanes: np.ndarray) -> ChainTarget:
        """Return the posterior of (L,) lanes and its base.

        A normal density in place of a likelihood has the arm's average as its mean and the data's
        information there as its precision; for Gaussian rewards it is the likelihood itself. That
        in place of a box has the moments of a uniform distribution.
        """
        prior: Any = self.problem.prior
        likelihood, box = self.problem.likelihood, self.problem.arm_support()
        counts, sums, (low, high) = self.counts[lanes], self.sums[lanes], box.T
        mean, width = np.broadcast_to(prior.mean, low.shape), high - low
        middle = np.where(np.isfinite(width), (low + high) / 2, mean)
        box_precisions = np.broadcast_to(12 / np.square(width), counts.shape)
        if is_normal := isinstance(likelihood, Gaussian):
            averages = np.where(counts > 0, sums / np.where(counts > 0, counts, 1), mean)
        else:
            margin = BOX_MARGIN * np.minimum(width, 1.0)
            averages = (NUM_PRIOR_PULLS * mean + sums) / (NUM_PRIOR_PULLS + counts)
            averages = np.clip(averages, low + margin, high - margin)
        information = counts / likelihood.reward_std(averages) ** 2
        precisions = information + box_precisions
        push = information * (averages - mean) + box_precisions * (middle - mean)
        values, vectors = np.linalg.eigh(prior.precision + precisions[..., None] * np.eye(len(low)))
        axes = np.ascontiguousarray((vectors / np.sqrt(values)[:, None]).swapaxes(1, 2))
        centre = mean + ((axes @ push[..., None]).swapaxes(1, 2) @ axes)[:, 0]
        if is_normal:  # what is left of the posterior is the box
            # Arrays of their own: for read-only ones other kernels would be compiled.
            none, whole = np.zeros((*counts.shape, 5)), np.zeros(counts.shape)
            return ChainTarget(box, centre, axes, none, whole + middle, whole + box_precisions)
        coefficients = likelihood_coefficients(likelihood, counts, sums)
        averages = mean + push / np.maximum(precisions, np.finfo(float).tiny)
        return ChainTarget(box, centre, axes, coefficients, averages, precisions)


@inner
def log_ratio(x: np.ndarray, target: ChainTarget, lane: int) -> float:
    """Return log r of (K,) means; -inf outside the box."""
    value = 0.0
    for k in range(x.size):
        if not target.box[k, 0] < x[k] < target.box[k, 1]:
            return -np.inf
        c, off = target.coefficients[lane, k], x[k] - target.averages[lane, k]
        value += (c[2] + c[3] * x[k]) * x[k] + 0.5 * target.precisions[lane, k] * off * off
        if c[0] != 0.0:
            value += c[0] * math.log(x[k])
        if c[1] != 0.0:
            value += c[1] * math.log1p(-x[k])
        if c[4] != 0.0:
            value += c[4] / x[k]
    return value


@inner
def log_correction(square: float, num_arms: int) -> float:
    """Return -z'z / 2 less the log-density of Student's distribution, for a z'z."""
    tail = math.log1p(square / DEGREES_OF_FREEDOM)
    return 0.5 * (DEGREES_OF_FREEDOM + num_arms) * tail - 0.5 * square


@inner
def find_coordinates(x: np.ndarray, centre: np.ndarray, axes: np.ndarray, z: np.ndarray) -> float:
    """Set z to the (K,) coordinates of x along the axes, and return z'z."""
    square = 0.0
    for i in range(x.size):
        z[i], length = 0.0, 0.0
        for k in range(x.size):
            z[i] += axes[i, k] * (x[k] - centre[k])
            length += axes[i, k] * axes[i, k]
        z[i] /= length
        square += z[i] * z[i]
    return square


@kernel
def move_chains(
    rng: Generator, means: np.ndarray, target: ChainTarget, num_draws: int, num_moves: int
) -> np.ndarray:
    """Move R chains, and return (R, S, K) means, one vector after each `num_moves` moves.

    Args:
        rng: source of randomness.
        means: (R, K) strictly inside the box, C for each lane one after the other; moved in place.
        target: of R / C lanes.
        num_draws: S.
        num_moves: from one draw to the next.
    """
    num_chains, num_arms = means.shape
    path = np.empty((num_chains, num_draws, num_arms))
    z, z_y = np.empty(num_arms), np.empty(num_arms)
    y, tried = np.empty(num_arms), np.empty(num_arms)  # y relative to the centre, as x below
    for r in range(num_chains):
        lane = r // (num_chains // len(target.centre))
        centre, axes, x = target.centre[lane], target.axes[lane], means[r]
        square = find_coordinates(x, centre, axes, z)
        log_density = log_ratio(x, target, lane) + log_correction(square, num_arms)
        for move in range(num_draws * num_moves):
            chi_square = 2.0 * rng.standard_gamma(0.5 * (DEGREES_OF_FREEDOM + num_arms))
            scale = math.sqrt((DEGREES_OF_FREEDOM + square) / chi_square)
            cross, square_y = 0.0, 0.0
            fill_array(y, 0.0)
            for i in range(num_arms):
                z_y[i] = scale * rng.standard_normal()
                cross += z[i] * z_y[i]
                square_y += z_y[i] * z_y[i]
                for k in range(num_arms):
                    y[k] += z_y[i] * axes[i, k]
            level = max(log_density - rng.standard_exponential(), LOG_LEAST)
            angle = last = 2 * np.pi * rng.random()
            first = last - 2 * np.pi
            while last - first > MIN_BRACKET:
                cos, sin = math.cos(angle), math.sin(angle)
                for k in range(num_arms):
                    tried[k] = centre[k] + (x[k] - centre[k]) * cos + y[k] * sin
                turned = square * cos * cos + 2 * cross * cos * sin + square_y * sin * sin
                log_tried = log_ratio(tried, target, lane) + log_correction(turned, num_arms)
                if log_tried >= level:
                    copy_array(tried, x)
                    log_density, square = log_tried, turned
                    for i in range(num_arms):
                        z[i] = cos * z[i] + sin * z_y[i]
                    break
                first, last = (first, angle) if angle > 0.0 else (angle, last)
                angle = first + (last - first) * rng.random()
            copy_array(x, path[r, move // num_moves])
    return path


def invert_axes(axes: np.ndarray) -> np.ndarray:
    """Return (L, K, K) matrices by which means become coordinates along the axes."""
    return (axes / np.square(axes).sum(axis=2, keepdims=True)).swapaxes(1, 2)


def estimate_autocorrelation(path: np.ndarray) -> np.ndarray:
    """Return (L,) lag-one autocorrelations of (L, S, K) paths, the largest of any coordinate.

    It is 1 less half the sum of squared steps over that of squared distances from the mean.
    """
    squares = path.var(axis=1) * path.shape[1]
    steps = np.square(np.diff(path, axis=1)).sum(axis=1)
    moves = np.divide(0.5 * steps, squares, out=np.ones_like(squares), where=squares > 0)
    return np.asarray(1 - moves.min(axis=1))


def count_independent(path: np.ndarray) -> np.ndarray:
    """Return (L,) numbers of independent draws whose mean errs as much as that of (L, C, S, K).

    The C copies are independent, so the variance of their means is C times that of the mean of all.
    """
    num_copies, num_draws = path.shape[1:3]
    variance = path.var(axis=(1, 2))
    error = path.mean(axis=2).var(axis=1, ddof=1) / num_copies
    least = variance / (num_copies * num_draws)
    return np.asarray((variance / np.maximum(np.maximum(error, least), 1e-300)).min(axis=1))
