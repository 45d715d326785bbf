"""The paper's proposal: a conjugate posterior of the arm means, independent across arms.

A draw mu from it has weight w(mu) = pi(mu) / prod_j q_0(mu_j), where q_0 is the conjugate prior
behind the proposal: the likelihood of the data is in both posteriors and cancels.

Letters: K arms, N lanes, R races (rows), m samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agents.posteriors.conjugate import ConjugatePosterior
from agents.racing.proposal import Proposal, prior_log_density
from bandit_gym.problem import BanditProblem

if TYPE_CHECKING:
    from agents.numerics.draw_tables import Tables


class ConjugateProposal(Proposal):
    """Draws arm means from a conjugate posterior, independently.

    Arguments:
        problem: likelihood and prior to weigh for.
        posterior: the conjugate posterior to draw from.
        stand_in: replaces `posterior` for an arm without data whose conjugate prior is improper.

    Attributes:
        is_natural: whether the kernels can weigh the draws themselves, log-weights being linear in
            the features of `agents.posteriors.conjugate`.
    """

    has_tables, draw_cost = True, 1.0

    def __init__(
        self, problem: BanditProblem, posterior: ConjugatePosterior, stand_in: ConjugatePosterior
    ) -> None:
        self.problem = problem
        self.posterior = posterior
        self.stand_in = stand_in
        self.is_natural = hasattr(problem.prior, "natural_parameters")
        num_arms = problem.num_arms
        self.coefficients = -np.stack([q.natural_parameters() for q in (posterior, stand_in)])
        self.support = np.tile([-np.inf, np.inf], (num_arms, 1))
        if self.is_natural:
            self.coefficients += problem.prior.natural_parameters(num_arms)  # type: ignore[attr-defined]
            self.support = problem.prior.arm_support(num_arms)  # type: ignore[attr-defined]

    def is_missing(self, counts: np.ndarray) -> np.ndarray:
        """Return (N, K) True where an arm has no posterior of its own and the stand-in serves."""
        return (counts == 0) & ~self.posterior.is_proper()

    def parameters(
        self, counts: np.ndarray, sums: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (N, K) first and second parameters and, int8, which set of coefficients is theirs.

        Args:
            counts: (N, K) pulls of each arm.
            sums: (N, K) total reward of each arm.
        """
        is_missing = self.is_missing(counts)
        first, second = self.posterior.parameters(counts, sums)
        if is_missing.any():
            own, other = (first, second), self.stand_in.parameters(counts, sums)
            first, second = (np.where(is_missing, b, a) for a, b in zip(own, other, strict=True))
        return first, second, is_missing.view(np.int8)

    def draw_rows(
        self,
        rng: np.random.Generator,
        rows: np.ndarray,
        parameters: tuple[np.ndarray, np.ndarray, np.ndarray],
        tables: Tables,
        num_samples: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw m vectors of means for each race; see `Proposal.draw_rows`."""
        from agents.numerics.kernels import add_log_densities, draw_chunk

        first, second, sets = parameters
        means = np.empty((len(rows), first.shape[1], num_samples))
        winners = np.empty((len(rows), num_samples), dtype=np.int64)
        draw_chunk(rng, self.posterior.family, first, second, rows, tables, means, winners)
        log_weights = np.zeros(winners.shape)
        if not self.is_natural:
            log_weights += prior_log_density(self.problem, means)
        add_log_densities(means, self.coefficients, sets, rows, self.support, log_weights)
        return log_weights, winners

    def log_supremum(self) -> float:
        """Return log sup w(mu); see `Proposal.log_supremum`."""
        if not self.is_natural:
            return super().log_supremum()
        low, high = self.problem.likelihood.support
        support = np.clip(self.support, low, high)
        return sum(
            _log_supremum_of_arm(c, *bounds)
            for c, bounds in zip(self.coefficients[0], support, strict=True)
        )


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
