"""Proposals that resemble a problem's own prior: the candidates, tried and ranked.

Notation: K arms, M draws from the prior.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from agents.base.conjugacy import is_compiled, is_conjugate
from agents.posteriors.conjugate import conjugate_posterior, matched_posterior, reference_posterior
from agents.racing.normal import NormalProposal
from agents.racing.proposals import (
    ConjugateProposal,
    MixtureProposal,
    Proposal,
    TableProposal,
    draw_weighted,
)
from bandit_gym.checks import check_choice, message
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import BanditProblem

NUM_FIT_DRAWS, NUM_TRIAL_SAMPLES = 10_000, 1000
NUM_FIT_MEANS = 1_000_000
"""Means, of all arms together, from which on a fit has fewer than NUM_FIT_DRAWS draws of the prior;
but never fewer than a trial has samples."""

TARGET_EFFICIENCY, MIN_RIVAL_EFFICIENCY = 0.5, 0.1
"""Efficiencies without data: from the first on a table will do, even if a normal
distribution is better; below the second a proposal cannot check another."""


def make_proposals(problem: BanditProblem, kind: str) -> list[Proposal]:
    """Return the proposal that an argument of `RacingThompson` names, and others after it.

    Args:
        problem: likelihood and prior.
        kind: "reference" (Table 1) or "matched" (see `match_proposals`).

    Raises:
        ValueError: if the name is unknown, or nothing of that kind fits the problem.
    """
    if check_choice("proposal", kind, ("reference", "matched")) == "matched":
        return match_proposals(problem)
    if not is_compiled(problem.likelihood):
        name = problem.likelihood.name
        condition = f"be 'matched' for {name} rewards, which have no row in Table 1"
        raise ValueError(message("proposal", condition, kind))
    proposals = [reference_proposal(problem)]
    with suppress(ValueError):  # if nothing resembles the prior
        others = match_proposals(problem)
        proposals += [other for other in others if not isinstance(other, ConjugateProposal)]
    return proposals


def reference_proposal(problem: BanditProblem) -> Proposal:
    """Return the paper's proposal, the posterior of Table 1."""
    posterior = reference_posterior(problem)
    is_proper = bool(posterior.is_proper.all())
    fallback = posterior if is_proper else matched_posterior(problem)
    return ConjugateProposal(problem, posterior, fallback)


def match_proposals(problem: BanditProblem) -> list[Proposal]:
    """Return the proposals that resemble the problem's own prior, the one to race with first.

    For a conjugate prior that is its posterior; for a mixture that gives its components, the
    posterior itself; for a prior of independent arms, a `TableProposal`. Else it is a
    `TableProposal` or a `NormalProposal`, by their efficiencies without data; TARGET_EFFICIENCY is
    enough for a table. The other one follows if its efficiency is at least MIN_RIVAL_EFFICIENCY,
    and then Table 1, which follows the data most. Likelihoods without a row in Table 1 have tables
    alone. Candidates are tried with generators of their own: the choice is a function of the
    problem.

    Raises:
        ValueError: if no candidate can stand in for the prior.
    """
    is_named = is_compiled(problem.likelihood)
    if is_named and is_conjugate(problem.likelihood, problem.prior):
        posterior = conjugate_posterior(problem)
        return [ConjugateProposal(problem, posterior, posterior)]
    if problem.offers("shared_components"):
        with suppress(ValueError):  # if a component is too rough for a table
            return [MixtureProposal(problem)]
    num_draws = min(NUM_FIT_DRAWS, max(NUM_TRIAL_SAMPLES, NUM_FIT_MEANS // problem.num_arms))
    rng = make_generator("draws of the prior to match")
    draws = problem.prior.sample(rng, (num_draws, problem.num_arms))
    kinds: list[Callable[..., Proposal]] = [TableProposal]
    if is_named and not problem.offers("arm_log_density"):
        kinds.append(NormalProposal)
    ranked: list[tuple[float, Proposal]] = []
    for kind in kinds:
        with suppress(ValueError):  # this prior is not of the kind that it can stand in for
            proposal = kind(problem, draws)
            efficiency = estimate_efficiency(proposal)
            ranked.append((min(efficiency, TARGET_EFFICIENCY), proposal))
    ranked.sort(key=lambda pair: -pair[0])  # stable
    chosen = [proposal for efficiency, proposal in ranked[:1] if efficiency > 0]
    if not chosen:
        raise ValueError(
            "problem.prior must have a density where tables or normal distributions can stand in "
            f"for it, for proposal='matched' and {problem.likelihood.name} rewards, got "
            f"{problem.prior!r}; use SMCThompson."
        )
    rivals = [rival for efficiency, rival in ranked[1:] if efficiency >= MIN_RIVAL_EFFICIENCY]
    if is_named and not (chosen[0].posterior or problem.offers("normal_box")):
        rivals.append(reference_proposal(problem))
    return chosen + rivals


def estimate_efficiency(proposal: Proposal) -> float:
    """Return a proposal's efficiency without data; 0 if no weight is positive."""
    rng, shape = make_generator("trial of a proposal"), (1, proposal.problem.num_arms)
    proposal.update(rng, np.zeros(shape, dtype=np.int64), np.zeros(shape))
    lane = np.arange(1)
    draws = draw_weighted(rng, proposal, lane, NUM_TRIAL_SAMPLES)
    return float(draws.effective_sample_size()[0] / NUM_TRIAL_SAMPLES)
