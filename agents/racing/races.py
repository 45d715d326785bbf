"""Races: draw from a proposal, weigh, and pick the arm that the weights favour.

A proposal is a posterior q that is easy to sample; it also evaluates its density. A weight is prior
+ likelihood - q on the log scale. Weights are exact for any q, and a q near the true posterior
needs fewer samples.

A race of fixed length draws its samples, adds up the weights of those in which each arm is best,
and picks an arm in proportion, by Gumbel's trick. Those of the paper may end earlier, see
`agents.racing.stopping`. What they draw from is in `agents.racing.proposals`.

Notation: K arms, N lanes (one race each), R of these lanes in a call, m samples.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.random import Generator

from agents.base.evidence import CountsAndSums
from agents.numerics.choices import hide_arms, random_argmax
from agents.posteriors.base import Posterior
from agents.posteriors.weighted_draws import WeightedDraws
from bandit_gym.numerics.compiled import inner, kernel
from bandit_gym.problem import BanditProblem

MEANS_PER_TILE = 1 << 16
"""Arm means drawn at a time: 512 KiB, which a core's own cache holds until they are weighed."""

MIN_POSITIVE, LOG_ZERO = 5e-324, -1e300
"""Smallest positive float, a divisor in place of 0; and a finite stand-in for log 0."""

SUFFICIENT_STATISTICS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    np.log,
    lambda x: np.log1p(-x),
    lambda x: x,
    np.square,
    np.reciprocal,
)
"""Sufficient statistics of the families: a log-density is natural parameters times these."""


class Draws(NamedTuple):
    """Draws of the means from q, for R lanes.

    Attributes:
        means: (R, K, m) means of the arms.
        winners: (R, m) arm with the largest mean, ties broken at random.
        log_densities: (R, m) `Proposal.log_density` of the draws; None if not computed.
    """

    means: np.ndarray
    winners: np.ndarray
    log_densities: np.ndarray | None = None


class Proposal(ABC):
    """A distribution q of the means in each lane, updated with the data.

    Arguments:
        problem: the likelihood, and the prior that q should approximate.

    Attributes:
        counts: (N, K) pulls in the data of the last update.
        sums: (N, K) total rewards in the data of the last update.
        posterior: the exact posterior, if q equals it; all weights are then equal. Else None.
        sampler: the posterior that draws are of, where that is an object of its own.
        has_likelihood: whether the likelihood of the data is a factor of q.
        natural_parameters: (1, K, 5) of the problem's prior, and (K, 1) ends of its support; None
            if the prior has no `natural_parameters`. Weights from them take a third of the
            time. The ends are omitted if they equal the likelihood's, as draws are always inside.
        reference_means: (K, 1) means that natural parameters take others relative to; None for 0.
    """

    posterior: Posterior | None = None
    sampler: Posterior | None = None
    has_likelihood = True
    reference_means: np.ndarray | None = None

    def __init__(self, problem: BanditProblem) -> None:
        self.problem = problem
        self.counts, self.sums = np.empty((2, 0, problem.num_arms))
        self.natural_parameters: tuple[np.ndarray, ...] | None = None
        if problem.offers("natural_parameters"):
            prior: Any = problem.prior
            ends = problem.arm_support()
            is_cut = (ends != problem.likelihood.support).any()
            parameters = np.array(prior.natural_parameters(problem.num_arms))[None]
            self.natural_parameters = (parameters, *(ends.T[..., None] if is_cut else ()))

    def update(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Condition every lane on its data; see `Posterior.update`."""
        self.counts, self.sums = counts, sums
        if self.sampler is not None:
            self.sampler.update(rng, CountsAndSums.from_totals(counts, sums))

    @abstractmethod
    def draw(self, rng: Generator, lanes: np.ndarray, num_samples: int) -> Draws:
        """Return m vectors of means for each of the given (R,) lanes."""

    def log_density(self, lanes: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return (R, m) log q of (R, K, m) means, up to a constant in each lane.

        If `has_likelihood`, the likelihood of the data is omitted, as it cancels from the weights.
        Of the posterior itself, that is the prior's.
        """
        return prior_log_density(self.problem, means)

    def is_missing(self, counts: np.ndarray) -> np.ndarray:
        """Return (N, K) True where an arm has no proper posterior, given its pulls."""
        return np.zeros(counts.shape, dtype=bool)

    def is_unreliable(self) -> np.ndarray:
        """Return (N,) True where draws may not follow q, as tables cannot represent it, or ()."""
        return np.asarray(self.sampler is not None and self.sampler.is_unreliable())

    def centre(self, means: np.ndarray) -> np.ndarray:
        """Return (..., K, m) means relative to the reference means."""
        return means if self.reference_means is None else means - self.reference_means

    def fork(self) -> Self:
        """Return a copy that can be updated with other data; both share the problem."""
        return copy.deepcopy(self, {id(self.problem): self.problem})


def add_statistics(coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return (R, m) sums over arms of c . (log x, log(1 - x), x, x^2, 1/x) at (R, K, m) x."""
    total = np.zeros((x.shape[0], x.shape[2]))
    with np.errstate(divide="ignore", invalid="ignore"):  # outside a prior's support
        for k, statistic in enumerate(SUFFICIENT_STATISTICS):
            c = coefficients[..., k]
            if c.any():
                total += np.matmul(c[:, None], statistic(x))[:, 0]
    return total


def find_log_weights(
    proposal: Proposal,
    lanes: np.ndarray,
    means: np.ndarray,
    log_densities: np.ndarray | None = None,
) -> np.ndarray:
    """Return the (R, m) log-weights of means: log prior + log likelihood - log q, to a constant.

    Args:
        proposal: q, which may leave the likelihood out.
        lanes: (R,) the lanes that the means are for.
        means: (R, K, m), drawn from any distribution.
        log_densities: (R, m) log q of them, if it is known.

    Raises:
        ValueError: if the prior's log-density is NaN or +inf, or has the wrong shape.
    """
    if proposal.posterior is not None:
        return np.zeros((means.shape[0], means.shape[2]))
    if proposal.natural_parameters is None:
        log_prior = log_weights = prior_log_density(proposal.problem, means)
    else:
        coefficients, *ends = proposal.natural_parameters
        log_prior = log_weights = add_statistics(coefficients, proposal.centre(means))
        if ends:
            is_outside = ((means < ends[0]) | (means > ends[1])).any(axis=1)
            log_prior = log_weights = np.where(is_outside, -np.inf, log_prior)
    if not proposal.has_likelihood:
        data = proposal.counts[lanes][..., None], proposal.sums[lanes][..., None]
        log_likelihood = proposal.problem.likelihood.log_likelihood(means, *data)
        log_weights = log_weights + log_likelihood.sum(axis=1)
    if log_densities is None:
        log_densities = proposal.log_density(lanes, means)
    with np.errstate(invalid="ignore"):
        return np.where(log_prior == -np.inf, -np.inf, log_weights - log_densities)


def draw_weighted(
    rng: Generator, proposal: Proposal, lanes: np.ndarray, num_samples: int
) -> WeightedDraws:
    """Return m weighted draws of the proposal for each of (R,) lanes."""
    draws = proposal.draw(rng, lanes, num_samples)
    log_weights = find_log_weights(proposal, lanes, draws.means, draws.log_densities)
    return WeightedDraws(draws.means.swapaxes(1, 2), log_weights)


def prior_log_density(problem: BanditProblem, means: np.ndarray) -> np.ndarray:
    """Return the prior's (R, m) log-density of (R, K, m) means; arms go last, as it expects.

    Raises:
        ValueError: if it is NaN or +inf.
    """
    wanted = means.shape[0], means.shape[2]  # densities of SciPy drop dimensions of length 1
    log_density = np.reshape(problem.prior.log_density(means.swapaxes(1, 2)), wanted)
    if not (log_density < np.inf).all():
        raise ValueError("prior.log_density must be finite or -inf, got NaN or +inf.")
    return log_density


def make_weight_error(proposal: Proposal, lane: int, where: str, remedy: str = "") -> ValueError:
    """Return the error that no draw for a lane has weight, given its data."""
    counts, sums = proposal.counts[lane].tolist(), proposal.sums[lane].tolist()
    where += f" in lane {lane}" if len(proposal.counts) > 1 else ""
    return ValueError(
        f"prior.log_density must be above -inf at some draw from the proposal, got -inf at all "
        f"{where}, whose counts {counts} and sums {sums} are hardly possible under the "
        f"prior{remedy}."
    )


def split_lanes(lanes: np.ndarray, means_per_lane: int) -> list[np.ndarray]:
    """Split (R,) lanes into parts of about MEANS_PER_TILE means."""
    step = max(1, MEANS_PER_TILE // means_per_lane)
    return [lanes[start : start + step] for start in range(0, len(lanes), step)]


class Races(NamedTuple):
    """State of N races, as compiled kernels read it; samples change its arrays in place.

    Attributes:
        lengths: (N,) number of samples at which each race ends. If all their weights are zero, it
            becomes the maximum allowed; where line 12 ends a race, it becomes `num_samples`.
        max_samples: the maximum allowed.
        gumbels: (N, K) Gumbel variables eps_i.
        totals: (N, K) sums of the weights w of samples in which each arm is best, divided by
            e^{log_scale}.
        log_scale: (N,) logarithm of that divisor.
        weight_sums: (N, 2) sums of w and of w^2, divided by e^{log_scale} and by its square.
        num_samples: (N,) samples drawn.
    """

    lengths: np.ndarray
    max_samples: int
    gumbels: np.ndarray
    totals: np.ndarray
    log_scale: np.ndarray
    weight_sums: np.ndarray
    num_samples: np.ndarray

    @classmethod
    def start(cls, lengths: np.ndarray, max_samples: int, gumbels: np.ndarray) -> Races:
        """Return races without samples (line 6) that end after (N,) lengths."""
        num_lanes = len(lengths)
        return cls(
            lengths=lengths.copy(),
            max_samples=max_samples,
            gumbels=gumbels,
            totals=np.zeros(gumbels.shape),
            log_scale=np.full(num_lanes, -np.inf),
            weight_sums=np.zeros((num_lanes, 2)),
            num_samples=np.zeros(num_lanes, dtype=np.int64),
        )

    def run(
        self,
        rng: Generator,
        proposal: Proposal,
        lanes: np.ndarray,
        available: np.ndarray | None = None,
        line_12: Any = None,
    ) -> None:
        """Run the races of the given (R,) lanes to their end (lines 7 to 15).

        Races run in rounds, so that each call of a user's log-density gets many samples. The
        longest race of a round is short of at most twice as many as its shortest, and all get
        equally many. If all weights are zero so far, one lane goes alone: the prior may rule out
        whatever is drawn.

        Args:
            rng: source of randomness.
            proposal: distribution of the samples.
            lanes: (R,) lanes of the races to run.
            available: (N, K) arms that may win; None for all.
            line_12: `StoppingThresholds`, by which races may end before their lengths; or None.

        Raises:
            ValueError: if a race ended at its last sample with every weight zero.
        """
        num_arms = self.gumbels.shape[1]
        while lanes.size:
            left = self.lengths - self.num_samples
            lanes = lanes[left[lanes].argsort(kind="stable")]
            count = int(np.searchsorted(left[lanes], 2 * left[lanes[0]], side="right"))
            if self.num_samples[lanes[0]] > 0 and not self.weight_sums[lanes, 0].any():
                count = 1
            lanes, others = lanes[:count], lanes[count:]
            size = max(1, MEANS_PER_TILE // num_arms)
            if line_12 is not None:
                size = line_12.choose_size(self.num_samples[lanes], num_arms)
            for tile in split_lanes(lanes, min(size, left[lanes[-1]]) * num_arms):
                longest = left[tile].max()
                draws = proposal.draw(rng, tile, longest if longest < 2 * size else size)
                log_weights = find_log_weights(proposal, tile, draws.means, draws.log_densities)
                winners = draws.winners
                if available is not None:
                    means = hide_arms(draws.means.swapaxes(1, 2), available[tile][:, None])
                    winners = random_argmax(rng, means.reshape(-1, num_arms)).reshape(winners.shape)
                if line_12 is None:
                    add_samples(self, tile, log_weights, winners)
                else:
                    line_12.race(self, tile, log_weights, winners)
            is_over = self.num_samples[lanes] == self.lengths[lanes]
            has_none = is_over & (self.weight_sums[lanes, 0] == 0.0)
            if has_none.any():
                where = f"{self.max_samples} samples of the race"
                remedy = "; use proposal='matched' if it is another, ExactThompson or SMCThompson"
                raise make_weight_error(proposal, int(lanes[has_none.argmax()]), where, remedy)
            lanes = np.concatenate([lanes[~is_over], others])

    def pick_arms(self) -> np.ndarray:
        """Return (N,) arms, the best by totals: argmax_i (eps_i + log total_i), line 16."""
        with np.errstate(divide="ignore"):
            return np.argmax(self.gumbels + np.log(self.totals), axis=1)

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) (sum w)^2 / sum w^2, between 1 and the number of samples; 0 before any."""
        total, squares = self.weight_sums.T
        return total**2 / np.maximum(squares, MIN_POSITIVE)

    def log_sums_of_others(self) -> np.ndarray:
        """Return (N,) logs of the expected weight sum without one sample; `LOG_ZERO` if none."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.weight_sums[:, 0]) + np.log1p(-1.0 / np.maximum(self.num_samples, 1))
        return np.maximum(logs + self.log_scale, LOG_ZERO)


@kernel
def add_samples(
    races: Races, lanes: np.ndarray, log_weights: np.ndarray, winners: np.ndarray
) -> None:
    """Add samples to the races of (R,) lanes, to each until it has its length.

    Args:
        races: N races; updated in place.
        lanes: (R,) lanes of the races that get samples.
        log_weights: (R, m) log-weights of the samples.
        winners: (R, m) best arms of the samples.
    """
    for r in range(lanes.size):
        n = lanes[r]  # views of its rows are taken once, for each costs as much as a sample
        totals, sums, scale = races.totals[n], races.weight_sums[n], races.log_scale[n]
        d, length = races.num_samples[n], races.lengths[n]
        for j in range(log_weights.shape[1]):
            if d == length:
                break
            log_weight = log_weights[r, j]
            scale = add_sample(totals, sums, scale, winners[r, j], log_weight, log_weight)
            d += 1
            if d == length and sums[0] == 0.0:
                length = races.max_samples
        races.num_samples[n], races.lengths[n], races.log_scale[n] = d, length, scale


@inner
def add_sample(
    totals: np.ndarray, sums: np.ndarray, scale: float, i: int, log_weight: float, log_size: float
) -> float:
    """Add a weight to the total of arm i and to the (2,) sums; return the log of their divisor.

    That grows with the largest size so far, which is the weight's, or that of the paper's f_i.
    """
    if log_weight == -np.inf:
        return scale
    if log_size > scale:
        shrink = math.exp(scale - log_size)
        scale = log_size
        for k in range(totals.size):
            totals[k] *= shrink
        sums[0] *= shrink
        sums[1] *= shrink * shrink
    weight = math.exp(log_weight - scale)
    totals[i] += weight
    sums[0] += weight
    sums[1] += weight * weight
    return scale
