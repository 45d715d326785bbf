"""Which proposal resembles a problem's own prior: the candidates, tried and judged.

Among them is the prior taken apart. A joint density is a product over arms exactly if all mixed
differences of its logarithm vanish,

    l(a) + l(b) - l(a', b) - l(b', a) = 0,

where two vectors of means exchange the means of any set of arms. It is then the product of its
slices through one point, along each arm in turn.

Letters: K arms, M draws from the prior.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from agents.base.table_1 import is_compiled, is_conjugate
from agents.posteriors.conjugate import (
    conjugate_posterior,
    matched_posterior,
    reference_posterior,
)
from agents.posteriors.weighted_draws import normalise
from agents.racing.normal import NormalProposal
from agents.racing.proposals import ConjugateProposal, MixtureProposal, Proposal, TableProposal
from agents.racing.weighing import weigh
from bandit_gym.checks import check_choice, message
from bandit_gym.likelihoods import Likelihood
from bandit_gym.priors import Prior
from bandit_gym.problem import BanditProblem

NUM_FIT_DRAWS, NUM_TRIAL_SAMPLES = 10_000, 1000
NUM_FIT_MEANS = 1_000_000
"""Means drawn for a fit at most, if there are many arms."""
ENOUGH_MARGINAL = 0.5
"""Effective samples per sample, without data, with which a proposal will do."""

ROUNDING = 1e-10
"""Of a difference that vanishes, in sizes of the logarithms that it is made of."""


def make_proposal(problem: BanditProblem, kind: str) -> Proposal:
    """Return the proposal that an argument of `RacingThompson` names.

    Args:
        problem: likelihood and prior.
        kind: "reference" (Table 1) or "matched" (see `match_proposal`).

    Raises:
        ValueError: if the name is unknown, or nothing of that kind fits the problem.
    """
    if check_choice("proposal", kind, ("reference", "matched")) == "matched":
        return match_proposal(problem)
    if not is_compiled(problem.likelihood):
        name = problem.likelihood.name
        condition = f"be 'matched' for {name} rewards, which have no row in Table 1"
        raise ValueError(message("proposal", condition, kind))
    posterior = reference_posterior(problem)
    is_proper = bool(posterior.is_proper().all())
    return ConjugateProposal(
        problem, posterior, posterior if is_proper else matched_posterior(problem)
    )


def match_proposal(problem: BanditProblem) -> Proposal:
    """Return a proposal that resembles the problem's own prior.

    That is the conjugate posterior of a conjugate prior, and the posterior itself of a mixture that
    says its components; where arms are independent, whether the
    prior says so or not, a `TableProposal`; else this, if its draws without data are worth enough,
    or a `NormalProposal`, if its draws are worth more. For likelihoods that have no row in Table 1
    only the first will do. Candidates are judged with a fixed generator: the choice is a function
    of the problem.

    Raises:
        ValueError: if no candidate can stand in for the prior.
    """
    is_named = is_compiled(problem.likelihood)
    if is_named and is_conjugate(problem.likelihood, problem.prior):
        posterior = conjugate_posterior(problem)
        return ConjugateProposal(problem, posterior, posterior)
    if problem.offers("shared_components"):
        with suppress(ValueError):  # of a component that is too rough for a table
            return MixtureProposal(problem)
    best, largest = None, 0.0
    num_draws = min(NUM_FIT_DRAWS, max(NUM_TRIAL_SAMPLES, NUM_FIT_MEANS // problem.num_arms))
    draws = problem.prior.sample(np.random.default_rng(0), (num_draws, problem.num_arms))
    apart = problem if problem.offers("arm_log_density") else take_apart(problem, draws)
    kinds: list[tuple[Callable[..., Proposal], BanditProblem]] = [(TableProposal, apart)]
    if is_named:
        kinds.append((NormalProposal, problem))
    for kind, world in kinds:
        try:
            proposal = kind(world, draws)
            share = effective_share(proposal)
        except ValueError:  # this prior is not of the kind that it can stand in for
            continue
        if share > largest:
            best, largest = proposal, share
        if largest >= ENOUGH_MARGINAL:
            break
    if best is None:
        raise ValueError(
            "problem.prior must have a density where tables or normal laws can stand in for it, "
            f"for proposal='matched' and {problem.likelihood.name} rewards, got "
            f"{problem.prior!r}; use SMCThompson."
        )
    return best


def find_matched(problem: BanditProblem) -> Proposal | None:
    """Return the proposal that `match_proposal` does, or None if there is none."""
    try:
        return match_proposal(problem)
    except ValueError:
        return None


def effective_share(proposal: Proposal) -> float:
    """Return effective samples per sample, without data; 0 if no weight is positive."""
    rng, shape = np.random.default_rng(0), (1, proposal.problem.num_arms)
    proposal.follow(rng, np.zeros(shape, dtype=np.int64), np.zeros(shape))
    lane = np.arange(1)
    draws = proposal.draw(rng, lane, NUM_TRIAL_SAMPLES)
    weights, log_total = normalise(weigh(proposal, lane, draws.means, draws.log_densities))
    is_void = log_total[0] == -np.inf
    return 0.0 if is_void else float(1 / np.square(weights).sum() / NUM_TRIAL_SAMPLES)


@dataclass(frozen=True, eq=False)
class SlicedPrior:
    """A prior that is the product of its slices, and says what they are.

    Args:
        prior: to take apart.
        point: (K,) means that the slices pass through, where the density is positive.
        ends: (K, 2) lowest and highest mean of each arm.
        draws: (M, K) from the prior.
    """

    prior: Prior
    point: np.ndarray
    ends: np.ndarray
    draws: np.ndarray

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Draw means of the given shape."""
        return self.prior.sample(rng, shape)

    def log_density(self, means: np.ndarray) -> np.ndarray:
        """Return the (...) log-density of (..., K) means."""
        return self.prior.log_density(means)

    def arm_support(self, num_arms: int) -> np.ndarray:
        """Return the (K, 2) lowest and highest mean of each arm."""
        return self.ends

    def arm_log_density(self, means: np.ndarray) -> np.ndarray:
        """Return the (..., K) log-densities of each arm, up to constants."""
        rows = means.reshape(-1, len(self.point))
        columns = [self._slice(arm, x) for arm, x in enumerate(rows.T)]
        return np.column_stack(columns).reshape(means.shape)

    def is_apart(
        self, own: np.ndarray, counts: np.ndarray, sums: np.ndarray, likelihood: Likelihood
    ) -> np.ndarray:
        """Return (R,) True where the prior is the product of its slices near the data.

        Args:
            own: (R, m, K) draws from the posterior that the slices make. Beside them means are
                tried that the data alone would have: near the average of one pull more.
            counts: (R, 1, K) pulls.
            sums: (R, 1, K) total rewards.
            likelihood: of the rewards.
        """
        rng = np.random.default_rng(0)
        average = (sums + self.draws.mean(axis=0)) / (counts + 1)
        error = likelihood.reward_std(average) / np.sqrt(counts + 1)
        led = average + error * rng.standard_normal(own.shape)
        led = np.where((led > self.ends[:, 0]) & (led < self.ends[:, 1]), led, average)
        means = np.concatenate([own, led, np.where(rng.random(own.shape) < 0.5, led, own)], axis=1)
        rows = means.reshape(-1, own.shape[2])
        found = exchange(self.prior, rows, np.broadcast_to(self.point, rows.shape))
        return np.asarray(found.reshape(means.shape[:2]).all(axis=1))

    def _slice(self, arm: int, x: np.ndarray) -> np.ndarray:
        """Return the log-density of one arm at (M,) means; once, where they are all the same."""
        is_constant = len(x) > 0 and (x == x[0]).all()
        means = np.tile(self.point, (1 if is_constant else len(x), 1))
        means[:, arm] = x[: len(means)]
        return np.broadcast_to(self.prior.log_density(means), x.shape)


def take_apart(problem: BanditProblem, draws: np.ndarray) -> BanditProblem:
    """Return the problem with its prior as the product of its slices, or as it is if it is none.

    Args:
        problem: likelihood and prior.
        draws: (M, K) from the prior, of which pairs exchange the means of random sets of arms.
    """
    half = len(draws) // 2
    first, second = draws[:half], draws[half : 2 * half]
    if not exchange(problem.prior, first, second).all():
        return problem
    point = first[np.argmax(problem.prior.log_density(first))]
    return replace(problem, prior=SlicedPrior(problem.prior, point, problem.arm_support(), draws))


def exchange(prior: Prior, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return (M,) True where two of (M, K) means have no mixed difference, to rounding.

    Each pair exchanges a random set of arms. What the prior excludes must stay excluded.
    """
    is_moved = np.random.default_rng(0).random(first.shape) < 0.5
    swapped = np.where(is_moved, second, first), np.where(is_moved, first, second)
    with np.errstate(invalid="ignore"):
        terms = np.array([prior.log_density(means) for means in (first, second, *swapped)])
        differences = abs(terms[0] + terms[1] - terms[2] - terms[3])
    sizes = 1 + abs(terms).sum(axis=0)
    is_impossible = np.isneginf(terms[:2]).any(axis=0) & np.isneginf(terms[2:]).any(axis=0)
    return np.asarray((np.isfinite(sizes) & (differences <= ROUNDING * sizes)) | is_impossible)
