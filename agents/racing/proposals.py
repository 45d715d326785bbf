"""Proposal distributions of a race, posteriors q that are easy to sample, and their weights.

A proposal samples q and evaluates its density. A weight is prior + likelihood - q on the log scale.
Weights are exact for any q, and a q near the true posterior needs fewer samples.

Notation: K arms, N lanes, R of these lanes in a call, m samples.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.random import Generator

from agents.base.conjugacy import is_conjugate
from agents.base.evidence import CountsAndSums
from agents.numerics.distributions import NORMAL_DISTRIBUTION, MeanDistributions
from agents.numerics.kernels import draw_chunk
from agents.posteriors.base import Posterior
from agents.posteriors.conjugate import ConjugatePosterior, conjugate_posterior
from agents.posteriors.grid import GridPosterior
from agents.posteriors.mixture import MixturePosterior
from agents.posteriors.weighted_draws import WeightedDraws
from bandit_gym.priors import Prior, TruncatedNormal
from bandit_gym.problem import BanditProblem

MAX_SUPPORT_DEVIATIONS = 1000.0
"""Standard deviations from the mean at which an approximating prior cuts an unbounded support."""

MEANS_PER_TILE = 1 << 16
"""Arm means drawn at a time: 512 KiB, which a core's own cache holds until they are weighed."""

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


class ConjugateProposal(Proposal):
    """The paper's proposal: a conjugate posterior, in which arms are independent.

    Arguments:
        problem: the likelihood, and the prior of the true posterior.
        distribution: the conjugate posterior to draw from.
        fallback: replaces `distribution` for an arm without data whose conjugate prior is improper.

    Attributes:
        coefficients: (K, 5) natural parameters of both these priors.
    """

    def __init__(
        self, problem: BanditProblem, distribution: ConjugatePosterior, fallback: ConjugatePosterior
    ) -> None:
        super().__init__(problem)
        self.distribution, self.fallback = distribution, fallback
        self._family: Any = distribution.distribution.code
        if is_conjugate(problem.likelihood, problem.prior):
            posterior = conjugate_posterior(problem)
            is_exact = np.array_equal(posterior.prior, distribution.prior)
            self.posterior = posterior if is_exact else None
        self.coefficients = [q.natural_parameters() for q in (distribution, fallback)]
        if self.posterior is None and distribution.distribution is NORMAL_DISTRIBUTION:
            first, second = fallback.prior.T
            self._set_reference_means(first / second)

    def _set_reference_means(self, reference_means: np.ndarray) -> None:
        """Take means relative to (K,) others: squares of large means would cancel.

        With x = r + y, a x + b x^2 is (a + 2 b r) y + b y^2 and a constant.
        """
        log_densities = [*self.coefficients, *(self.natural_parameters or ())[:1]]
        if not any(terms[..., [0, 1, 4]].any() for terms in log_densities):  # logarithms and 1 / x
            self.reference_means = reference_means[:, None]
            for terms in log_densities:
                terms[..., 2] += 2 * reference_means * terms[..., 3]

    def is_missing(self, counts: np.ndarray) -> np.ndarray:
        """Return (N, K) True where an arm has no proper posterior, so that `fallback` is used."""
        return (counts == 0) & ~self.distribution.is_proper

    def update(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Compute the parameters of every arm's posterior; see `Posterior.update`."""
        super().update(rng, counts, sums)
        self._missing = self.is_missing(counts)
        proper, fallback = (q.parameters(counts, sums) for q in (self.distribution, self.fallback))
        pairs = zip(proper, fallback, strict=True)
        self._parameters = [np.where(self._missing, b, a) for a, b in pairs]

    def draw(self, rng: Generator, lanes: np.ndarray, num_samples: int) -> Draws:
        """Return m vectors of means for each lane; see `Proposal.draw`."""
        first, second = self._parameters
        means = np.empty((len(lanes), self.problem.num_arms, num_samples))
        winners = np.empty((len(lanes), num_samples), dtype=np.int64)
        draw_chunk(rng, MeanDistributions(self._family, first, second), lanes, means, winners)
        return Draws(means, winners)

    def log_density(self, lanes: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return (R, m) log-densities of the conjugate prior, without the likelihood."""
        (proper, fallback), missing = self.coefficients, self._missing[lanes]
        coefficients = np.where(missing[..., None], fallback, proper)
        return add_statistics(coefficients, self.centre(means))


def add_statistics(coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return (R, m) sums over arms of c . (log x, log(1 - x), x, x^2, 1/x) at (R, K, m) x."""
    total = np.zeros((x.shape[0], x.shape[2]))
    with np.errstate(divide="ignore", invalid="ignore"):  # outside a prior's support
        for k, statistic in enumerate(SUFFICIENT_STATISTICS):
            c = coefficients[..., k]
            if c.any():
                total += np.matmul(c[:, None], statistic(x))[:, 0]
    return total


class TableProposal(Proposal):
    """Product of the arms' tabulated posteriors, as if arms were independent.

    Arguments:
        problem: the likelihood, and the prior of the true posterior. If its arms are independent,
            the tables use its own marginals. Otherwise they use normal distributions truncated to
            the support, with the mean and variance of `draws`.
        draws: (M, K) draws from the prior.

    Raises:
        ValueError: if the marginals cannot be integrated, or are too rough for tables.
    """

    sampler: GridPosterior

    def __init__(self, problem: BanditProblem, draws: np.ndarray) -> None:
        super().__init__(problem)
        self.marginals: Any = fit_marginals(problem, draws)
        self.sampler = GridPosterior(replace(problem, prior=self.marginals))
        if self.marginals is problem.prior:
            self.posterior = self.sampler

    def draw(self, rng: Generator, lanes: np.ndarray, num_samples: int) -> Draws:
        """Return m vectors of means for each lane; see `Proposal.draw`."""
        shape = len(lanes), self.problem.num_arms, num_samples
        positions = self.sampler.positions(rng.random(shape), lanes)
        return Draws(self.sampler.coordinate.means(positions), positions.argmax(axis=1))

    def log_density(self, lanes: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return (R, m) log-densities of the marginal priors, without the likelihood."""
        with np.errstate(invalid="ignore"):  # one arm has density 0, another infinity
            return np.asarray(self.marginals.arm_log_density(means.swapaxes(1, 2)).sum(axis=-1))


class MixtureProposal(Proposal):
    """The exact posterior, for a prior that is a mixture with `shared_components`."""

    posterior: MixturePosterior

    def __init__(self, problem: BanditProblem) -> None:
        super().__init__(problem)
        self.sampler = self.posterior = MixturePosterior(problem)

    def draw(self, rng: Generator, lanes: np.ndarray, num_samples: int) -> Draws:
        """Return m vectors of means for each lane; see `Proposal.draw`."""
        means, winners = self.posterior.draw(rng, np.repeat(lanes, num_samples))
        means = means.reshape(len(lanes), num_samples, -1).swapaxes(1, 2)
        return Draws(np.ascontiguousarray(means), winners.reshape(len(lanes), num_samples))


def fit_marginals(problem: BanditProblem, draws: np.ndarray) -> Prior:
    """Return a prior with independent arms that approximates the marginals of the problem's.

    Args:
        problem: likelihood and prior.
        draws: (M, K) draws from the prior.
    """
    if problem.offers("arm_log_density"):
        return problem.prior
    mean, std = draws.mean(axis=0), draws.std(axis=0)
    (low, high), reach = problem.arm_support().T, MAX_SUPPORT_DEVIATIONS * std
    low, high = np.maximum(low, mean - reach), np.minimum(high, mean + reach)
    return TruncatedNormal(*(column.tolist() for column in (mean, std, low, high)))


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
