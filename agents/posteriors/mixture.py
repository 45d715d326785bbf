"""The posterior of a prior under which all arms follow the same one of several priors.

Given the component c the arms are independent, and their posterior is exact: conjugate if all
components are, else a table for each. A component is as likely as its weight times its evidence,
the probability that it gives to the data,

    P(c | data)  is proportional to  weight_c  prod_k Z_c(n_k, s_k),

so draws are those of a component that is drawn first, and all else is a mean over components.

The evidence of conjugate components is in closed form. That of tables is prior times likelihood
over posterior, which is the same at any mean x (Bayes' rule; Chib 1995), here where the table is
high. No evidence needs more than a constant that all components share.

Notation: C components, K arms, N lanes, R draws, M pairs of a lane and an arm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import ndtri

from agents.base.conjugacy import is_compiled, is_conjugate
from agents.base.evidence import CountsAndSums
from agents.numerics.choices import draw_arms, random_argmax
from agents.numerics.distributions import MeanDistributions
from agents.numerics.kernels import draw_chunk
from agents.numerics.march import conjugate_best_arms
from agents.posteriors.base import ExactPosterior
from agents.posteriors.conjugate import ConjugatePosterior, conjugate_posterior
from agents.posteriors.grid import GridPosterior, table_best_arms
from agents.posteriors.tables import DENSITY, POSITION
from agents.posteriors.weighted_draws import WeightedDraws, normalise_weights
from bandit_gym.doubts import Doubt
from bandit_gym.problem import BanditProblem

NEGLIGIBLE_WEIGHT = 1e-9
"""Weight of a component up to which its best arms are left out."""
MIN_DOUBTED_WEIGHT = 1e-6
"""Weight of a component from which on its doubts count."""
LEVEL_TOLERANCE = 1e-12
"""Of the level of a quantile, in normal deviations."""
MAX_NORMAL_SCORE = 37.0
"""Normal deviations of levels that are 0 or 1 to rounding."""
_MIN_DIVISOR, _MAX_QUANTILE = 1e-300, 1e100


class MixturePosterior(ExactPosterior):
    """Posteriors of arms that all follow the same one of several priors, exactly.

    Arguments:
        problem: a likelihood and a prior with `shared_components`.
        by_tables: whether tables are taken for conjugate components too.

    Attributes:
        parts: the posteriors of the components: a single one with (N, C, K) parameters if they are
            conjugate, else one of K arms for each component.
        weights: (N, C) probabilities of the components.

    Raises:
        ValueError: if a component does not integrate, or is too rough for a table.
    """

    source = "the posteriors of the mixture's components"
    method = "mixture"

    def __init__(self, problem: BanditProblem, *, by_tables: bool = False) -> None:
        self.problem, prior = problem, problem.prior
        components, weights = prior.shared_components()  # type: ignore[attr-defined]
        self.shape = len(components), problem.num_arms
        self._log_weights, self._constants = np.log(weights), np.zeros(self.shape)
        self._is_conjugate = is_compiled(problem.likelihood) and not by_tables
        self._is_conjugate &= all(is_conjugate(problem.likelihood, prior) for prior in components)
        given = [replace(problem, prior=component) for component in components]
        self.parts: list[Any]
        if self._is_conjugate:
            priors = np.stack([conjugate_posterior(problem).prior for problem in given])
            self.parts = [ConjugatePosterior(problem.likelihood, priors)]
        else:
            self.parts = [GridPosterior(problem) for problem in given]
            self.max_lanes = min(part.max_lanes for part in self.parts)
            self.counts = self.sums = np.zeros((1, problem.num_arms))
            for part in self.parts:
                part.build_tables(self.counts, self.sums)
            arms = np.arange(problem.num_arms)
            self._constants = self._find_log_evidence(np.zeros_like(arms), arms).T
        self._known = np.full((2, 0, problem.num_arms), np.nan)

    def update(self, rng: Generator, evidence: CountsAndSums) -> None:
        """Weigh the components by what they say of the data; only what has changed is found anew.

        Raises:
            ValueError: if data have probability 0 under the prior; names the lane.
        """
        counts, sums = self.counts, self.sums = evidence.counts, evidence.sums
        for part in self.parts:
            if self._is_conjugate:
                part.update(rng, CountsAndSums.from_totals(counts[:, None], sums[:, None]))
            else:
                part.build_tables(counts, sums)
        if self._known[0].shape != counts.shape:
            self._known = np.full((2, *counts.shape), np.nan)
            self._log_evidence = np.empty((len(counts), *self.shape))
        lanes, arms = np.nonzero((counts != self._known[0]) | (sums != self._known[1]))
        if lanes.size:
            self._log_evidence[lanes, :, arms] = self._find_log_evidence(lanes, arms)
            self._known[:, lanes, arms] = counts[lanes, arms], sums[lanes, arms]
        self.weights, log_total = normalise_weights(
            self._log_weights + self._log_evidence.sum(axis=2)
        )
        self._require_possible(log_total == -np.inf, evidence)

    def _find_log_evidence(self, lanes: np.ndarray, arms: np.ndarray) -> np.ndarray:
        """Return the (M, C) log-probabilities of the data of an arm in a lane."""
        data = self.counts[lanes, arms], self.sums[lanes, arms]
        if self._is_conjugate:
            (part,) = self.parts
            prior = np.moveaxis(part.prior[:, arms], -1, 0)
            gained = [row @ np.array(data) for row in part.update_matrix]
            return np.asarray(part.distribution.evidence_formula(*prior, *gained).T)
        log_evidence = np.empty((len(lanes), self.shape[0]))
        for c, part in enumerate(self.parts):
            # Points between even ones are on no end of a cell, where the density may jump.
            odd = 2 * part.tables.points[lanes, arms, 1::2, DENSITY].argmax(axis=1) + 1
            high = part.tables.points[lanes, arms, odd]
            u, x = high[:, POSITION], part.coordinate.means(high[:, POSITION])
            means = np.repeat(x[:, None], self.shape[1], axis=1)
            with np.errstate(all="ignore"):  # beyond other arms' support
                prior = part.problem.prior.arm_log_density(means)[np.arange(len(arms)), arms]
            value = prior + self.problem.likelihood.log_likelihood(x, *data)
            density = np.maximum(high[:, DENSITY], _MIN_DIVISOR)
            value += part.coordinate.log_slope(u) - np.log(density)
            is_impossible = np.isnan(part.tables.errors[lanes, arms])
            log_evidence[:, c] = np.where(is_impossible, -np.inf, value)
        return log_evidence - self._constants[:, arms].T

    def _take_distributions(self, lanes: np.ndarray, components: np.ndarray) -> MeanDistributions:
        """Return the (R, K) distributions of lanes given (R,) components that are conjugate."""
        (part,), given = self.parts, (lanes, components)
        first, second = part.parameters(part.evidence.counts, part.evidence.sums)  # (N, C, K)
        return MeanDistributions(part.distribution.code, first[given], second[given])

    def draw(self, rng: Generator, lanes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (R, K) draws for (R,) lanes, each of a component of its own, and their best arms.

        Args:
            rng: source of randomness.
            lanes: (R,) for each draw.
        """
        num_draws, num_arms = len(lanes), self.shape[1]
        chosen = draw_arms(rng, self.weights[lanes])
        means, best = np.empty((num_draws, num_arms, 1)), np.empty((num_draws, 1), dtype=np.int64)
        if self._is_conjugate:
            distributions = self._take_distributions(lanes, chosen)
            draw_chunk(rng, distributions, np.arange(num_draws), means, best)
            return means[..., 0], best[:, 0]
        for c in np.unique(chosen):
            draws, part = np.flatnonzero(chosen == c), self.parts[c]
            positions = part.positions(rng.random((len(draws), num_arms, 1)), lanes[draws])
            means[draws] = part.coordinate.means(positions)
            best[draws] = random_argmax(rng, positions[..., 0])[:, None]
        return means[..., 0], best[:, 0]

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw."""
        return self.draw(rng, np.arange(len(self.counts)))[0]

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws."""
        lanes = np.tile(np.arange(len(self.counts)), size)
        return self.draw(rng, lanes)[0].reshape(size, *self.counts.shape)

    def draw_best(self, rng: Generator, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N,) best arms of one draw."""
        if available is not None:
            return super().draw_best(rng, available)
        return self.draw(rng, np.arange(len(self.counts)))[1]

    def mean(self) -> np.ndarray:
        """Return the (N, K) expectations."""
        return self._mix(self._collect(lambda part: part.mean()))

    def std(self) -> np.ndarray:
        """Return the (N, K) standard deviations."""
        means, deviations = self._collect(lambda part: (part.mean(), part.std()))
        mean = self._mix(means)
        with np.errstate(invalid="ignore"):
            off = means - mean[:, None]
        return np.where(np.isfinite(mean), np.sqrt(self._mix(deviations**2 + off**2)), np.inf)

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) quantiles, which lie between those of the components."""
        from scipy.optimize.elementwise import find_root  # takes 0.4 s to import

        levels = np.broadcast_to(p, self.counts.shape)
        ends = self._collect(lambda part, p: part.quantile(p), levels)
        ends = np.clip(ends, -_MAX_QUANTILE, _MAX_QUANTILE)  # between infinite ones is no middle
        has_weight = (self.weights > 0)[..., None]
        low = np.where(has_weight, ends, np.inf).min(axis=1)
        high = np.where(has_weight, ends, -np.inf).max(axis=1)
        goal = np.clip(ndtri(levels), -MAX_NORMAL_SCORE, MAX_NORMAL_SCORE)

        def residual(x: np.ndarray, index: np.ndarray) -> np.ndarray:
            """Return how far levels are from their goals, in scores: nearly straight in x."""
            places = low.copy()
            places.flat[index] = x
            score = ndtri(self.lower_partial_moment(places)[0])
            off = np.clip(score, -MAX_NORMAL_SCORE, MAX_NORMAL_SCORE) - goal
            return np.asarray(off.flat[index])

        index, tolerances = np.arange(low.size).reshape(low.shape), {"fatol": LEVEL_TOLERANCE}
        roots = find_root(residual, (low, high), args=(index,), tolerances=tolerances)
        end = np.where(residual(low, index) > 0, low, high)  # by rounding, no root lies between
        return np.where(roots.success, roots.x, end)

    def density(self, x: np.ndarray) -> np.ndarray:
        """Return the (m, N, K) densities at (m,) places."""
        return self._mix(self._collect(lambda part, places: part.density(places), x))

    def lower_partial_moment(self, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the (N, K) probabilities and partial moments."""
        pair = self._collect(lambda part, most: part.lower_partial_moment(most), level)
        below, moment = self._mix(pair)
        return below, moment

    def best_arm_probabilities(self, available: np.ndarray | None = None) -> np.ndarray:
        """Return the (N, K) probabilities, the weighted sums of those given a component."""
        lanes, components = np.nonzero(self.weights > NEGLIGIBLE_WEIGHT)
        given = np.empty((*self.weights.shape, self.counts.shape[1]))
        mask = np.ones(self.counts.shape, dtype=bool) if available is None else available
        if self._is_conjugate:
            distributions = self._take_distributions(lanes, components)
            given[lanes, components] = conjugate_best_arms(distributions, mask[lanes])
        else:
            for c in np.unique(components):
                some = lanes[components == c]
                given[some, c] = table_best_arms(self.parts[c].tables.points[some], mask[some])[0]
        weights = np.where(self.weights > NEGLIGIBLE_WEIGHT, self.weights, 0.0)
        best = np.einsum("nc,nck->nk", weights, np.where(weights[..., None] > 0, given, 0.0))
        best /= weights.sum(axis=1, keepdims=True)
        return self._answer_missed(best, WeightedDraws.best_arm_probabilities, available)

    def best_arm_moments(
        self, available: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K) probabilities and (N, K, K) conditional means, from tables alone."""
        if self._is_conjugate:
            return super().best_arm_moments(available)
        pairs = [part.best_arm_moments(available) for part in self.parts]
        best, means = (np.stack(answers, axis=1) for answers in zip(*pairs, strict=True))
        best *= self.weights[..., None]
        total = best.sum(axis=1)
        expected = np.einsum("nca,ncai->nai", best, means)
        expected /= np.maximum(total, _MIN_DIVISOR)[..., None]
        return total, np.where(total[..., None] > 0, expected, self.mean()[:, None])

    def expected_loss(self) -> np.ndarray:
        """Return the (N, K) expected regrets of stopping with each arm, which are linear."""
        return self._mix(self._collect(lambda part: part.expected_loss()))

    def doubts(self) -> np.ndarray:
        """Return (N,) those of the components that have weight, and where draws had to answer."""
        is_unreliable = np.stack([part.is_unreliable() for part in self.parts], axis=1)
        is_doubted = (is_unreliable & (self.weights > MIN_DOUBTED_WEIGHT)).any(axis=1)
        return np.bitwise_or(np.where(is_doubted, Doubt.BEYOND_TABLE, 0), self._shortages)

    def _collect(self, question: Callable[..., Any], *options: np.ndarray) -> np.ndarray:
        """Return (..., N, C, K) answers of all components, given options of (N, K) or (m,)."""
        if self._is_conjugate:
            (part,) = self.parts
            return np.asarray(question(part, *(option[:, None] for option in options)))
        return np.stack([question(part, *options) for part in self.parts], axis=-2)

    def _mix(self, values: np.ndarray) -> np.ndarray:
        """Return the (..., N, K) means of (..., N, C, K) values over the components."""
        weights = self.weights[..., None]
        with np.errstate(invalid="ignore"):  # infinite, and of no weight
            return np.asarray(np.where(weights > 0, weights * values, 0.0).sum(axis=-2))
