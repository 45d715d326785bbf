"""Conjugate posteriors of the arm means, batched; `agents.base.conjugacy` has the distributions.

Notation: K arms, N lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.random import Generator
from scipy import special

from agents.base.conjugacy import find_row, find_update_matrix, is_conjugate, reference_prior
from agents.base.evidence import CountsAndSums
from agents.numerics.choices import random_argmax
from agents.numerics.distributions import NORMAL_DISTRIBUTION, Distribution, MeanDistributions
from agents.posteriors.base import ExactPosterior, favour_missing_arms
from agents.posteriors.weighted_draws import WeightedDraws
from bandit_gym.likelihoods import Likelihood
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import BanditProblem

NUM_BUFFERED_DRAWS = 32
"""Decisions that draws are made for; a reward costs half as many draws on average."""

MAX_BUFFERED_ARMS = 64
"""Arms up to which draws ahead, which cost a call per arm now and then, beat a kernel."""


NUM_MOMENT_DRAWS = 10_000
"""Of a prior, for the conjugate one with the same moments."""

NUM_LOSS_LEVELS = 49, 97, 193, 385, 769, 1537
"""Quantiles of each arm between which expected losses are integrated, until two answers agree."""

MAX_LOSS_CHANGE = 1e-9
"""Of the largest loss, that agreeing answers may differ by."""


class ConjugatePosterior(ExactPosterior):
    """Posteriors of K arm means under a conjugate prior, one row of Table 1.

    Attributes:
        likelihood: of the rewards, given the mean.
        prior: (K, 2) parameters of the conjugate prior, in the letters of Table 1.
        update_matrix: (2, 2) what a pull and a unit of reward add to the two parameters.
    """

    method = "conjugate"
    source = "the conjugate posterior"
    state_names = ("buffer",)
    has_exact_priced_probabilities = True

    def __init__(self, likelihood: Likelihood, prior: np.ndarray) -> None:
        self.likelihood = likelihood
        self.prior = prior
        self.update_matrix = find_update_matrix(likelihood)
        self.evidence = CountsAndSums(len(prior))
        self.counts = self.evidence.counts
        self.buffer: DrawBuffer | None = None

    @property
    def keeps_state(self) -> bool:  # type: ignore[override]  # of draws made ahead
        """Whether draws are made ahead."""
        return self.buffer is not None

    @cached_property
    def distribution(self) -> Distribution:
        """Of a mean."""
        return find_row(self.likelihood).distribution  # type: ignore[no-any-return]

    def __getstate__(self) -> dict[str, Any]:
        """Let copies and pickles find the distribution again: a user's may be no data."""
        return {name: value for name, value in vars(self).items() if name != "distribution"}

    @cached_property
    def is_proper(self) -> np.ndarray:
        """(K,) True where the prior itself, without data, is a distribution."""
        first, second = self.prior[..., 0], self.prior[..., 1]
        if self.distribution.code is None:  # parameters of any sign; SciPy knows which it may have
            with np.errstate(all="ignore"):
                return ~np.isnan(self.distribution.quantile(first, second, 0.5))
        return (second > 0) & ((first > 0) | (self.distribution is NORMAL_DISTRIBUTION))

    @cached_property
    def has_proper_prior(self) -> bool:
        """Whether all arms have a posterior, with data or without."""
        return bool(self.is_proper.all())

    def parameters(self, counts: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the two (..., K) posterior parameters, given (..., K) statistics.

        Returns:
            (alpha, beta), (shape, scale), (h, tau) or (shape, rate), as the table says.
        """
        (a, b), (c, d) = self.update_matrix.tolist()
        first = self.prior[..., 0] + (a * counts + b * sums)
        return first, self.prior[..., 1] + (c * counts + d * sums)

    def restart(self, rng: Generator, mask: np.ndarray) -> None:
        """Throw away draws made ahead; otherwise the statistics are all there is."""
        is_small = len(mask) == 1 and len(self.prior) <= MAX_BUFFERED_ARMS
        self.buffer = DrawBuffer(self) if is_small else None

    def fork_for_decision(self, evidence: Any, keeps_draws: bool = False) -> Self:
        """Return one without draws made ahead; see `Posterior.fork_for_decision`."""
        twin = type(self).__new__(type(self))
        vars(twin).update(vars(self), buffer=None, has_proper_prior=self.has_proper_prior)
        return twin

    def update(self, rng: Generator, evidence: CountsAndSums) -> None:
        """Take note of the statistics."""
        self.evidence, self.counts = evidence, evidence.counts

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw, by NumPy."""
        return np.asarray(self.sample_many(rng, 1)[0])

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws, by NumPy."""
        first, second, is_missing = self._current_parameters()
        draws = self.distribution.draw(rng, first, second, (size, *first.shape))
        return np.where(is_missing, np.inf, draws)

    def draw_best(self, rng: Generator, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N,) best arms; those without data come first where the prior is improper.

        A lane alone, with few arms, has its draws made ahead, which is three times as fast as
        calling a kernel for each decision. Several lanes share that call.
        """
        if available is not None:
            return super().draw_best(rng, available)
        counts, sums = self.evidence.counts, self.evidence.sums
        if self.buffer is not None and self.evidence.is_cumulative:
            return self.buffer.draw_best(rng, counts, sums)
        if self.distribution.code is None:
            return super().draw_best(rng)
        from agents.numerics.kernels import ConjugatePrior, draw_best_arms

        actions = np.empty(len(counts), dtype=np.int64)
        prior = ConjugatePrior(self.distribution.code, self.prior, self.update_matrix)
        draw_best_arms(rng, prior, counts, sums, actions)
        return actions

    def mean(self) -> np.ndarray:
        """Return the (N, K) expectations."""
        return self._evaluate(self.distribution.mean)

    def std(self) -> np.ndarray:
        """Return the (N, K) standard deviations."""
        return self._evaluate(self.distribution.std)

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) quantiles."""
        return self._evaluate(self.distribution.quantile, p)

    def density(self, x: np.ndarray) -> np.ndarray:
        """Return the (M, N, K) densities at (M,) places; 0 where there is no proper posterior."""
        first, second, is_missing = self._current_parameters()
        densities = np.exp(self.distribution.log_density(first, second, x[:, None, None]))
        return np.where(is_missing, 0.0, densities)

    def lower_partial_moment(self, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the (N, K) probabilities and partial moments; 0 without a posterior."""
        first, second, is_missing = self._current_parameters()
        below, total = self.distribution.partial_moment(first, second, level)
        return np.where(is_missing, 0.0, below), np.where(is_missing, 0.0, level * below - total)

    def expected_loss(self) -> np.ndarray:
        """Return (N, K) integrals of F_a(x) - prod_i F_i(x); NaN where an arm has no posterior.

        They are taken between ever more quantiles of all arms, until two answers agree.
        """
        first, second, is_missing = self._current_parameters()
        shape, last = first.shape, np.array(np.nan)
        first, second = (each.reshape(-1, shape[-1]) for each in (first, second))
        for num_levels in NUM_LOSS_LEVELS:
            with np.errstate(all="ignore"):  # quantiles and losses may be infinite
                losses = self._integrate_losses(first, second, num_levels)
                scale = np.where(losses < np.inf, losses, 0.0).max(axis=-1, keepdims=True)
                agrees = (losses == last) | (abs(losses - last) <= MAX_LOSS_CHANGE * scale)
            if agrees.all():
                break
            last = losses
        return np.where(is_missing.any(axis=-1, keepdims=True), np.nan, losses.reshape(shape))

    def _integrate_losses(
        self, first: np.ndarray, second: np.ndarray, num_levels: int
    ) -> np.ndarray:
        """Return (N, K) integrals by Gauss-Legendre nodes between so many quantiles of each arm.

        Against an arm without expectation all others lose infinitely much, and its own loss ends
        where theirs do.
        """
        num_arms, mean = first.shape[-1], self.distribution.mean(first, second)
        levels = special.expit(np.linspace(-28, 28, num_levels))[:, None, None]
        ends = self.distribution.quantile(first, second, levels)  # (B, N, K)
        top = np.where(mean < np.inf, ends[-1], -np.inf).max(axis=-1)
        ends = np.minimum(ends, np.where(top > -np.inf, top, 0.0)[:, None])
        ends = np.sort(ends.transpose(1, 0, 2).reshape(len(first), -1), axis=1)
        nodes, weights = special.roots_legendre(4)
        half, middle = np.diff(ends) / 2, (ends[:, 1:] + ends[:, :-1]) / 2
        x = (middle[..., None] + half[..., None] * nodes).reshape(len(first), -1).T  # (M, N)
        below = self.distribution.cdf(first, second, x[..., None])  # (M, N, K)
        sizes = (half[..., None] * weights).reshape(len(first), -1).T[..., None]
        losses = ((below - below.prod(axis=-1, keepdims=True)) * sizes).sum(axis=0)
        # Beyond the last quantile others lose E(x_i - end)^+, which may be infinite.
        below, moment = self.distribution.partial_moment(first, second, ends[:, -1:])
        tails = np.where(mean < np.inf, mean - moment - ends[:, -1:] * (1 - below), np.inf)
        losses += np.where(np.eye(num_arms, dtype=bool), 0.0, tails[:, None]).sum(axis=-1)
        # Below the first one an arm loses E(end - x_a)^+, as the product is next to nothing.
        below, moment = self.distribution.partial_moment(first, second, ends[:, :1])
        losses += np.where(mean < np.inf, ends[:, :1] * below - moment, 0.0)
        return np.asarray(losses)

    def best_arm_probabilities(self, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N, K) probabilities, to 1e-7; arms without a posterior share them.

        Where integrals miss that, they are those of draws, which is doubted.
        """
        from agents.numerics import best_arm, march

        first, second, is_missing = self._current_parameters()
        if (code := self.distribution.code) is None:
            probabilities = best_arm.integrate_best_arms(self._find_arms(), available)
        else:
            distributions = MeanDistributions(code, first, second)
            probabilities = march.conjugate_best_arms(distributions, available)
        if not self.has_proper_prior:
            probabilities = favour_missing_arms(is_missing, probabilities, available)
        return self._answer_missed(probabilities, WeightedDraws.best_arm_probabilities, available)

    def priced_probabilities(
        self, values: np.ndarray, costs: np.ndarray, top: int, available: np.ndarray | None
    ) -> np.ndarray | None:
        """Return the (N, top, K) probabilities, to 1e-6; NaN of a lane without a density.

        None where more than the first place is asked for, and an available arm has no posterior.
        """
        from agents.numerics import best_arm

        is_missing = self._find_missing(available)
        if top > 1 and is_missing.any():
            return None
        arms = best_arm.price_arms(self._find_arms(), values, costs, self.counts.shape)
        found = best_arm.integrate_positions(arms, top, available)
        return found if top > 1 else favour_missing_arms(is_missing, found[:, 0])[:, None]

    def position_probabilities(self, top: int, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N, top, K) probabilities, to 1e-6; of draws where an arm has no posterior."""
        from agents.numerics import best_arm

        found = best_arm.integrate_positions(self._find_arms(), top, available)
        lanes = self._find_missing(available).any(axis=1)
        if lanes.any():
            found[lanes] = super().position_probabilities(top, available)[lanes]
        return self._answer_missed(found, WeightedDraws.position_probabilities, top, available)

    def _find_missing(self, available: np.ndarray | None) -> np.ndarray:
        """Return (N, K) available arms that have no posterior."""
        is_missing: np.ndarray = self._current_parameters()[2]
        return is_missing if available is None else is_missing & available

    def _find_arms(self) -> Any:
        """Return the distributions of the means as functions, see `best_arm.Arms`."""
        from agents.numerics import best_arm

        row, (first, second, _) = self.distribution, self._current_parameters()
        density = partial(row.log_density, first, second)
        cdf, quantile = partial(row.cdf, first, second), partial(row.quantile, first, second)
        return best_arm.Arms(lambda x: np.exp(density(x)), cdf, quantile)

    def _evaluate(self, formula: Callable[..., np.ndarray], *options: Any) -> np.ndarray:
        """Return the (N, K) results of a formula, infinite without a posterior."""
        first, second, is_missing = self._current_parameters()
        return np.where(is_missing, np.inf, formula(first, second, *options))

    def _current_parameters(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (N, K) parameters, harmless where there is no posterior, and where that is."""
        counts, sums = self.evidence.counts, self.evidence.sums
        first, second = self.parameters(counts, sums)
        if self.has_proper_prior:
            return first, second, np.zeros(first.shape, dtype=bool)
        is_missing = (counts == 0) & ~self.is_proper
        return np.where(is_missing, 1.0, first), np.where(is_missing, 1.0, second), is_missing


class DrawBuffer:
    """Draws from a row of Table 1 for one lane, where a call costs more than what it computes.

    Between two decisions the posterior of one arm changes, the one that was pulled. A draw of any
    other arm may as well have been made earlier: until it is used, it is independent of all
    that has happened. So each arm keeps a row of draws for the decisions to come, and a new reward
    makes one row worthless. One call for many draws of one arm is several times as fast as one for
    a draw of each.

    Arguments:
        posterior: whose prior and likelihood they are.
    """

    state_names = ("_draws", "_num_used", "_pulls")

    def __init__(self, posterior: ConjugatePosterior) -> None:
        self.posterior = posterior
        self.prior: list[list[float]] = posterior.prior.tolist()
        self.update_matrix: list[list[float]] = posterior.update_matrix.tolist()
        self.is_proper: list[bool] = posterior.is_proper.tolist()
        self._draws: list[list[float]] = [[]] * len(self.prior)
        self._num_used, self._pulls = NUM_BUFFERED_DRAWS, [-1]

    def draw_best(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Return the (1,) arm that is best in the next draw, given (1, K) statistics.

        Lists of Python serve one number at a time, where arrays would take twice as long.
        """
        if self._num_used == NUM_BUFFERED_DRAWS:
            self._num_used, self._pulls = 0, [-1] * len(self.prior)
        pulls: list[int] = counts[0].tolist()
        if pulls != self._pulls:
            for arm, new in enumerate(pulls):
                if new != self._pulls[arm]:
                    self._draws[arm] = self._draw(rng, arm, new, sums.item(0, arm))
            self._pulls = pulls
        offset = self._num_used - NUM_BUFFERED_DRAWS  # from the end, where rows of all lengths meet
        means = [draws[offset] for draws in self._draws]
        self._num_used += 1
        best = max(means)
        if means.count(best) > 1:
            return random_argmax(rng, np.array([means]))
        return np.array([means.index(best)])

    def _draw(self, rng: Generator, arm: int, pulls: int, total: float) -> list[float]:
        """Return draws for the decisions left; infinity where there is no posterior."""
        (a, b), (c, d) = self.update_matrix
        first = self.prior[arm][0] + a * pulls + b * total
        second = self.prior[arm][1] + c * pulls + d * total
        if pulls == 0 and not self.is_proper[arm]:
            return [math.inf] * NUM_BUFFERED_DRAWS
        num_draws = NUM_BUFFERED_DRAWS - self._num_used
        draws = self.posterior.distribution.draw(rng, first, second, num_draws)
        return draws.tolist()  # type: ignore[no-any-return]


def reference_posterior(problem: BanditProblem) -> ConjugatePosterior:
    """Return the posterior under Table 1's reference prior for the problem's likelihood."""
    return conjugate_posterior(replace(problem, prior=reference_prior(problem.likelihood)))


def conjugate_posterior(problem: BanditProblem) -> ConjugatePosterior:
    """Return the posterior under the problem's own prior, which is conjugate."""
    pair = find_row(problem.likelihood).parameters(problem.prior)
    columns = [np.broadcast_to(np.asarray(p, dtype=float), problem.num_arms) for p in pair]
    posterior = ConjugatePosterior(problem.likelihood, np.stack(columns, axis=1))
    posterior.problem = problem
    return posterior


def matched_posterior(problem: BanditProblem) -> ConjugatePosterior:
    """Return the posterior under the conjugate prior with the moments of the problem's prior.

    Each arm's mean and variance are those of draws from the prior (with a fixed generator of its
    own, so that the result is a function of the problem). A proposal built on the fit needs no
    accuracy from it: importance weights make up for the difference.
    """
    if is_conjugate(problem.likelihood, problem.prior):
        return conjugate_posterior(problem)
    rng = make_generator("moments of the prior")
    draws = problem.prior.sample(rng, (NUM_MOMENT_DRAWS, problem.num_arms))
    mean, variance = draws.mean(axis=0), np.maximum(draws.var(axis=0), 1e-300)
    fitted = find_row(problem.likelihood).distribution.match_moments(mean, variance)
    return ConjugatePosterior(problem.likelihood, np.stack(fitted, axis=1))
