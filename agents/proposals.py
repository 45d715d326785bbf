"""What a race draws its samples from, and the weights that make up for the difference.

The paper's proposal q is a conjugate posterior of the arm means, independent across arms. A draw mu
from it has weight w(mu) = pi(mu) / prod_j q_0(mu_j), where q_0 is the conjugate prior behind q: the
likelihood of the data is in both posteriors and cancels. Weights are exact for whatever q_0 is;
how close q comes to the true posterior decides how many draws are needed, never what they mean.
`agents.marginal_proposal` has one for arms whose marginal laws are not conjugate,
`agents.normal_proposal` one for arms that depend on each other.

Letters: K arms, N lanes, R races (rows), m samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from agents.posteriors import (
    ConjugatePosterior,
    conjugate_family,
    matched_posterior,
    reference_posterior,
)
from bandit_gym.checks import check_choice
from bandit_gym.priors import Prior, prior_from_dict
from bandit_gym.problem import BanditProblem

if TYPE_CHECKING:
    from agents.tables import Tables


NUM_FIT_DRAWS, NUM_TRIAL_SAMPLES = 10_000, 1000
NUM_FIT_MEANS = 1_000_000
"""Means drawn for a fit at most, if there are many arms."""
ENOUGH_CONJUGATE, ENOUGH_MARGINAL = 0.9, 0.5
"""Effective samples per sample, without data, with which a proposal will do. Conjugate draws cost
least, but where they are worth less than this, their weights may be so uneven that the largest have
not been seen."""


class Proposal:
    """A way to draw arm means, and to weigh the draws for the problem's own prior.

    Attributes:
        problem: likelihood and prior to weigh for.
        has_tables: whether `agents.tables` can serve the draws.
        draw_cost: of one mean, in those of a mean drawn from a table.
    """

    problem: BanditProblem
    has_tables: ClassVar[bool]
    draw_cost: ClassVar[float]

    def is_missing(self, counts: np.ndarray) -> np.ndarray:
        """Return (N, K) True where an arm has no posterior of its own, given its pulls."""
        return np.zeros(counts.shape, dtype=bool)

    def parameters(self, counts: np.ndarray, sums: np.ndarray) -> Any:
        """Return what `draw_rows` needs to know of all N lanes, given (N, K) statistics."""
        raise NotImplementedError

    def draw_rows(
        self,
        rng: np.random.Generator,
        rows: np.ndarray,
        parameters: Any,
        tables: Tables,
        num_samples: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw m vectors of means for each race.

        Args:
            rng: source of randomness.
            rows: (R,) each race's lane, of N.
            parameters: of all N lanes, see `parameters`.
            tables: of all N lanes and K arms, remade as needed, or none to draw without.
            num_samples: m.

        Returns:
            (R, m) log w of each draw, up to a constant, and (R, m) int64 best arm of each draw.

        Raises:
            ValueError: if the prior's log-density is NaN or +inf, or has the wrong shape.
        """
        raise NotImplementedError

    def draw(
        self, rng: np.random.Generator, counts: np.ndarray, sums: np.ndarray, num_samples: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw m vectors of means for each of R races, given (R, K) statistics, without tables.

        Returns:
            As `draw_rows`.
        """
        from agents.tables import NO_TABLES

        rows = np.arange(len(counts))
        return self.draw_rows(rng, rows, self.parameters(counts, sums), NO_TABLES, num_samples)

    def log_supremum(self) -> float:
        """Return log sup w(mu) over all means, up to the constant that `draw` leaves out.

        Raises:
            ValueError: if it is unknown or infinite.
        """
        raise ValueError(
            "scale must be 'value' or 'weight' unless the prior offers natural_parameters, got "
            f"'supremum' for {self.problem.prior!r}."
        )


class ConjugateProposal(Proposal):
    """Draws arm means from a conjugate posterior, independently.

    Arguments:
        problem: likelihood and prior to weigh for.
        posterior: the conjugate posterior to draw from.
        stand_in: replaces `posterior` for an arm without data whose conjugate prior is improper.

    Attributes:
        is_natural: whether the kernels can weigh the draws themselves, log-weights being linear in
            the features of `agents.posteriors`.
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
        from agents.kernels import add_log_densities, draw_chunk

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


def make_proposal(problem: BanditProblem, kind: str | Prior | Mapping[str, Any]) -> Proposal:
    """Return the proposal that an argument of `RacingThompson` names.

    Args:
        problem: likelihood and prior.
        kind: "reference" (Table 1), "matched" (see `match_proposal`), or a prior, conjugate to the
            likelihood, as an object or a dict.

    Raises:
        ValueError: if the name is unknown or the prior is not conjugate.
    """
    if isinstance(kind, str):
        if check_choice("proposal", kind, ("reference", "matched")) == "matched":
            return match_proposal(problem)
        posterior = reference_posterior(problem)
    else:
        prior = prior_from_dict(kind) if isinstance(kind, Mapping) else kind
        family = conjugate_family(problem.likelihood)
        if not isinstance(prior, family):
            raise ValueError(
                f"proposal must be a {family.__name__} prior, which is conjugate to "
                f"{problem.likelihood.name} rewards, got {prior!r}."
            )
        posterior = matched_posterior(replace(problem, prior=prior))
    is_proper = bool(posterior.is_proper().all())
    stand_in = posterior if is_proper else matched_posterior(problem)
    return ConjugateProposal(problem, posterior, stand_in)


def match_proposal(problem: BanditProblem) -> Proposal:
    """Return a proposal that resembles the problem's own prior.

    That is the conjugate prior with the same moments, arm by arm, or a `MarginalProposal`, if its
    draws without data are worth enough, or else the best of these and a `NormalProposal`. They are
    judged with a fixed generator: the choice is a function of the problem.
    """
    from agents.marginal_proposal import MarginalProposal
    from agents.normal_proposal import NormalProposal

    posterior = matched_posterior(problem)
    best: Proposal = ConjugateProposal(problem, posterior, posterior)
    largest = effective_share(best)
    if largest >= ENOUGH_CONJUGATE:
        return best
    num_draws = min(NUM_FIT_DRAWS, max(NUM_TRIAL_SAMPLES, NUM_FIT_MEANS // problem.num_arms))
    draws = problem.prior.sample(np.random.default_rng(0), (num_draws, problem.num_arms))
    for kind in (MarginalProposal, NormalProposal):
        try:
            proposal = kind(problem, draws)
            share = effective_share(proposal)
        except ValueError:  # this prior is not of the kind that it can stand in for
            continue
        if share > largest:
            best, largest = proposal, share
        if largest >= ENOUGH_MARGINAL:
            break
    return best


def effective_share(proposal: Proposal) -> float:
    """Return effective samples per sample, without data; 0 if no weight is positive."""
    empty = np.zeros((1, proposal.problem.num_arms), dtype=np.int64)
    draw = proposal.draw(np.random.default_rng(0), empty, empty.astype(float), NUM_TRIAL_SAMPLES)
    log_weights = draw[0]
    if log_weights.max() == -np.inf:
        return 0.0
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / np.square(weights).sum() / weights.size)


def prior_log_density(problem: BanditProblem, means: np.ndarray) -> np.ndarray:
    """Return the prior's (R, m) log-density of (R, K, m) means; arms go last, as it expects.

    Raises:
        ValueError: if it has another shape, or is NaN or +inf.
    """
    log_density = np.asarray(problem.prior.log_density(means.transpose(0, 2, 1)))
    wanted = (means.shape[0], means.shape[2])
    if log_density.shape == tuple(size for size in wanted if size > 1):
        log_density = log_density.reshape(wanted)  # densities of SciPy drop dimensions of length 1
    if log_density.shape != wanted:
        raise ValueError(
            f"prior.log_density must map means (..., K) to (...): shape {wanted} for means of "
            f"shape {(*wanted, means.shape[1])}, got {log_density.shape}."
        )
    if not (log_density < np.inf).all():
        raise ValueError("prior.log_density must be finite or -inf, got NaN or +inf.")
    return log_density


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
