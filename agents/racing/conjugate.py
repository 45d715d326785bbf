"""The paper's proposal: a conjugate posterior of the arm means, independent across arms.

A draw mu from it has weight w(mu) = pi(mu) / prod_j q_0(mu_j), where q_0 is the conjugate prior
behind the proposal: the likelihood of the data is in both posteriors and cancels.

Letters: K arms, N lanes, R of them drawn for, m samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from agents.numerics.draw_tables import NO_TABLES, DrawTables, make_draw_tables
from agents.numerics.families import BETA
from agents.numerics.kernels import Draws, MeanLaws, draw_chunk, make_draws
from agents.posteriors.conjugate import ConjugatePosterior
from agents.racing.proposal import Proposal, prior_log_density
from agents.racing.weighing import LogWeight, WeighedLaws, add_log_weights
from bandit_gym.problem import BanditProblem

MIN_TABLE_DRAWS = 150.0
"""Draws that repay the making of a table; a step makes one in each lane, the pulled arm's."""

MAX_TABLES = 1 << 15
"""Tables kept at most, which fill 90 MB; with more lanes and arms than that, draws go without."""


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
        prior: Any = problem.prior
        self.is_natural = problem.offers("natural_parameters")
        self._coefficients = -np.stack([q.natural_parameters() for q in (posterior, stand_in)])
        self._support = np.tile([-np.inf, np.inf], (problem.num_arms, 1))
        if self.is_natural:
            self._coefficients += prior.natural_parameters(problem.num_arms)
            self._support = problem.arm_support()
        is_inside = (self._support.T == np.array(problem.likelihood.support)[:, None]).all()
        self.has_equal_weights = self.is_natural and is_inside and not self._coefficients.any()
        self._is_improper = ~posterior.is_proper()
        self._tables = NO_TABLES

    def __getstate__(self) -> dict[str, Any]:
        """Leave the tables out of copies and pickles: they follow from the statistics."""
        return self.__dict__ | {"_tables": NO_TABLES}

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
        self._laws = MeanLaws(self.posterior.family, first, second)
        self._log_weight = LogWeight(self._coefficients, is_missing.view(np.int8), self._support)

    def draw(self, rng: Generator, lanes: np.ndarray, num_samples: int) -> Draws:
        """Draw m weighted vectors of means for each lane; see `Proposal.draw`."""
        draws = make_draws(len(lanes), self.problem.num_arms, num_samples)
        draw_chunk(rng, self._laws, self._worthwhile_tables(), lanes, draws)
        draws.log_weights[:] = self.weigh(lanes, draws.means)
        return draws

    def weigh(self, lanes: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return the (R, m) log-weights of (R, K, m) means; see `Proposal.weigh`."""
        if self.is_natural:
            log_weights = np.zeros((means.shape[0], means.shape[2]))
        else:
            log_weights = prior_log_density(self.problem, means)
        add_log_weights(self._log_weight, lanes, means, log_weights)
        return log_weights

    def weighed_laws(self) -> WeighedLaws | None:
        """Return laws and weights for compiled loops; None where only the prior can weigh."""
        if not self.is_natural:
            return None
        return WeighedLaws(self._laws, self._worthwhile_tables(), self._log_weight)

    def is_unreliable(self) -> np.ndarray:
        """Return (N,) False: the parameters are all there is to know."""
        return np.zeros(len(self.counts), dtype=bool)

    def log_supremum(self) -> float:
        """Return log sup w(mu); see `Proposal.log_supremum`."""
        if not self.is_natural:
            return super().log_supremum()
        arms = zip(self._coefficients[0], self._support, strict=True)
        return sum(_log_supremum_of_arm(coefficients, *ends) for coefficients, ends in arms)

    def _worthwhile_tables(self) -> DrawTables:
        """Return the tables of all lanes and arms, or none where they would not pay.

        The choice is a function of the state that is pickled; the tables themselves are not, for
        their content follows from the statistics.
        """
        num_draws = self.expected_samples * self.problem.num_arms
        is_dear = num_draws < MIN_TABLE_DRAWS or self.counts.size > MAX_TABLES
        if is_dear or self.posterior.family != BETA:
            return NO_TABLES
        if len(self._tables.keys) != self.counts.size:
            self._tables = make_draw_tables(self.counts.size)
        return self._tables


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
