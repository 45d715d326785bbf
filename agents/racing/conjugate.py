"""The paper's proposal: a conjugate posterior of the arm means, independent across arms.

A draw mu from it has weight w(mu) = pi(mu) / prod_j q_0(mu_j), where q_0 is the conjugate prior
behind the proposal: the likelihood of the data is in both posteriors and cancels.

Letters: K arms, N lanes, R of them drawn for, m samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from agents.numerics.kernels import Draws, draw_chunk, make_draws
from agents.numerics.laws import MeanLaws
from agents.posteriors.conjugate import (
    ConjugatePosterior,
    code_of,
    conjugate_posterior,
    is_conjugate,
)
from agents.racing.proposal import Proposal, prior_log_density
from agents.racing.weighing import LogWeight, WeighedLaws, add_log_weights
from bandit_gym.problem import BanditProblem


class ConjugateProposal(Proposal):
    """Draws arm means from a conjugate posterior, independently.

    Arguments:
        problem: likelihood and prior to weigh for.
        posterior: the conjugate posterior to draw from.
        stand_in: replaces `posterior` for an arm without data whose conjugate prior is improper.

    Attributes:
        is_natural: whether log-weights are linear in the features of `agents.racing.weighing`, so
            that the prior's log-density need not be called.
    """

    draw_cost = 1.0

    def __init__(
        self, problem: BanditProblem, posterior: ConjugatePosterior, stand_in: ConjugatePosterior
    ) -> None:
        super().__init__(problem)
        self.posterior, self.stand_in = posterior, stand_in
        self._support = np.tile([-np.inf, np.inf], (problem.num_arms, 1))
        self._is_compiled = posterior.law.code is not None
        self.is_natural = self._is_compiled and problem.offers("natural_parameters")
        if self._is_compiled:
            both = [q.natural_parameters() for q in (posterior, stand_in)]
            self._coefficients = -np.stack(both)
        if self.is_natural:
            prior: Any = problem.prior
            self._coefficients += prior.natural_parameters(problem.num_arms)
            self._support = problem.arm_support()
            is_inside = (self._support.T == np.array(problem.likelihood.support)[:, None]).all()
            self.has_equal_weights = bool(is_inside and not self._coefficients.any())
        elif is_conjugate(problem.likelihood, problem.prior):
            own = conjugate_posterior(problem).prior
            self.has_equal_weights = np.array_equal(own, posterior.prior)
        self._is_improper = ~posterior.is_proper()

    def is_missing(self, counts: np.ndarray) -> np.ndarray:
        """Return (N, K) True where an arm has no posterior of its own and the stand-in serves."""
        return (counts == 0) & self._is_improper

    def follow(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Bring every lane to its data; see `Posterior.follow`."""
        self.counts, self.sums = counts, sums
        is_missing = self.is_missing(counts)
        first, second = self.posterior.parameters(counts, sums)
        if is_missing.any():
            own, other = (first, second), self.stand_in.parameters(counts, sums)
            first, second = (np.where(is_missing, b, a) for a, b in zip(own, other, strict=True))
        self._parameters = first, second
        if self._is_compiled:
            sets = is_missing.view(np.int8)
            self._laws = MeanLaws(code_of(self.problem.likelihood), first, second)
            self._log_weight = LogWeight(self._coefficients, sets, self._support)

    def draw(self, rng: Generator, lanes: np.ndarray, num_samples: int) -> Draws:
        """Draw m weighted vectors of means for each lane; see `Proposal.draw`."""
        draws = make_draws(len(lanes), self.problem.num_arms, num_samples)
        if self._is_compiled:
            draw_chunk(rng, self._laws, lanes, draws)
        else:
            first, second = (column[lanes][..., None] for column in self._parameters)
            draws.means[:] = self.posterior.law.draw(rng, first, second, draws.means.shape)
            draws.winners[:] = draws.means.argmax(axis=1)
        draws.log_weights[:] = self.weigh(lanes, draws.means)
        return draws

    def weigh(self, lanes: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return the (R, m) log-weights of (R, K, m) means; see `Proposal.weigh`."""
        log_weights = np.zeros((means.shape[0], means.shape[2]))
        if not self.is_natural and not self.has_equal_weights:
            log_weights += prior_log_density(self.problem, means)
        if self._is_compiled:
            add_log_weights(self._log_weight, lanes, means, log_weights)
        elif not self.has_equal_weights:
            first, second = self.posterior.prior.T[..., None]
            log_weights -= self.posterior.law.log_density(first, second, means).sum(axis=1)
        return log_weights

    def weighed_laws(self) -> WeighedLaws | None:
        """Return laws and weights for compiled loops; None where only the prior can weigh."""
        if not self.is_natural:
            return None
        return WeighedLaws(self._laws, self._log_weight)

    def is_unreliable(self) -> np.ndarray:
        """Return (N,) False: the parameters are all there is to know."""
        return np.zeros(len(self.counts), dtype=bool)

    def log_supremum(self) -> float:
        """Return log sup w(mu); see `Proposal.log_supremum`."""
        if not self.is_natural:
            return super().log_supremum()
        arms = zip(self._coefficients[0], self._support, strict=True)
        return sum(_log_supremum_of_arm(coefficients, *ends) for coefficients, ends in arms)


def _log_supremum_of_arm(coefficients: np.ndarray, low: float, high: float) -> float:
    """Maximise c_0 log x + c_1 log(1 - x) + c_2 x + c_3 x^2 + c_4 / x over (low, high).

    The stationary points are roots of a polynomial: the derivative times x^2 (1 - x).
    """
    c0, c1, c2, c3, c4 = coefficients
    x, one_minus_x = np.polynomial.Polynomial([0, 1]), np.polynomial.Polynomial([1, -1])
    slope = (c0 * x + c2 * x**2 + 2 * c3 * x**3 - c4) * one_minus_x - c1 * x**2
    roots = slope.trim().roots() if any(coefficients) else np.array([])
    stationary = roots.real[(abs(roots.imag) < 1e-9) & (roots.real > low) & (roots.real < high)]
    width = min(high - low, 1e9)
    near = 1e-12 * width
    edges = [max(low, -1e9) + near, min(high, 1e9) - near]
    points = np.array([*stationary, *edges])
    with np.errstate(divide="ignore"):  # of features whose coefficient is 0
        features = [np.log(abs(points)), np.log(abs(1 - points)), points, points**2, 1 / points]
    values = sum(c * f for c, f in zip(coefficients, features, strict=True) if c)
    values = np.broadcast_to(values, points.shape)
    best = int(np.argmax(values))
    if best >= len(stationary) and values[best] > max([*values[: len(stationary)], 0.0]) + 20:
        raise ValueError(
            "scale must be 'value' or 'weight' where the weight pi / q_0 is unbounded, "
            "got 'supremum'."
        )
    return float(values[best])
