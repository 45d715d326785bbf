"""Which proposal resembles a problem's own prior: the candidates, tried and judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from agents.posteriors.choosing import require_row
from agents.posteriors.conjugate import (
    find_row,
    is_compiled,
    is_conjugate,
    matched_posterior,
    reference_posterior,
)
from agents.racing.bank import Bank
from agents.racing.conjugate import ConjugateProposal
from agents.racing.marginal import MarginalProposal
from agents.racing.normal import NormalProposal
from agents.racing.proposal import Proposal
from agents.racing.slices import take_apart
from bandit_gym.checks import check_choice
from bandit_gym.priors import Prior, prior_from_dict
from bandit_gym.problem import BanditProblem

NUM_FIT_DRAWS, NUM_TRIAL_SAMPLES = 10_000, 1000
NUM_FIT_MEANS = 1_000_000
"""Means drawn for a fit at most, if there are many arms."""
ENOUGH_MARGINAL = 0.5
"""Effective samples per sample, without data, with which a proposal will do."""


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
        require_row(problem.likelihood, "proposal must be 'matched'", "'reference'")
        posterior = reference_posterior(problem)
    else:
        prior = prior_from_dict(kind, kind="proposal") if isinstance(kind, Mapping) else kind
        require_row(problem.likelihood, "proposal must be 'matched'", repr(prior))
        if not is_conjugate(problem.likelihood, prior):
            name = find_row(problem.likelihood).prior.__name__
            raise ValueError(
                f"proposal must be a {name} prior, which is conjugate to "
                f"{problem.likelihood.name} rewards, got {prior!r}."
            )
        posterior = matched_posterior(replace(problem, prior=prior))
    is_proper = bool(posterior.is_proper().all())
    stand_in = posterior if is_proper else matched_posterior(problem)
    return ConjugateProposal(problem, posterior, stand_in)


def match_proposal(problem: BanditProblem) -> Proposal:
    """Return a proposal that resembles the problem's own prior.

    That is the conjugate posterior of a conjugate prior; where arms are independent, whether the
    prior says so or not, a `MarginalProposal`; else this, if its draws without data are worth
    enough, or the best of it, a `NormalProposal` and the conjugate prior with the same moments, arm
    by arm. For likelihoods that have no row in Table 1 only the second will do. Candidates are
    judged with a fixed generator: the choice is a function of the problem.

    Raises:
        ValueError: if no candidate can stand in for the prior.
    """
    if is_conjugate(problem.likelihood, problem.prior):
        return _match_conjugate(problem)
    best, largest = None, 0.0
    for candidate in _candidates(problem):
        try:
            proposal = candidate()
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


def _candidates(problem: BanditProblem) -> list[Callable[[], Proposal]]:
    num_draws = min(NUM_FIT_DRAWS, max(NUM_TRIAL_SAMPLES, NUM_FIT_MEANS // problem.num_arms))
    draws = problem.prior.sample(np.random.default_rng(0), (num_draws, problem.num_arms))
    apart = problem if problem.offers("arm_log_density") else take_apart(problem, draws)
    marginal = partial(MarginalProposal, apart, draws)
    if not is_compiled(problem.likelihood):
        return [marginal]
    return [marginal, partial(NormalProposal, problem, draws), partial(_match_conjugate, problem)]


def _match_conjugate(problem: BanditProblem) -> Proposal:
    posterior = matched_posterior(problem)
    return ConjugateProposal(problem, posterior, posterior)


def find_witness(proposal: Proposal) -> Proposal | Bank | None:
    """Return whose draws can tell where the posterior lies, or None if the proposal's own can.

    Args:
        proposal: that is to be vetted.
    """
    problem = proposal.problem
    if proposal.has_equal_weights or isinstance(proposal, NormalProposal) and proposal.is_exact:
        return None
    try:
        matched = match_proposal(problem)
    except ValueError:
        return Bank(problem)
    is_known = matched.has_equal_weights or problem.offers("normal_box")
    if not is_known:
        return Bank(problem)
    return (
        None if isinstance(proposal, type(matched)) and not matched.has_equal_weights else matched
    )


def effective_share(proposal: Proposal) -> float:
    """Return effective samples per sample, without data; 0 if no weight is positive."""
    rng, shape = np.random.default_rng(0), (1, proposal.problem.num_arms)
    proposal.follow(rng, np.zeros(shape, dtype=np.int64), np.zeros(shape))
    means = proposal.draw(rng, np.arange(1), NUM_TRIAL_SAMPLES).means
    log_weights = proposal.weigh(np.arange(1), means)
    if log_weights.max() == -np.inf:
        return 0.0
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / np.square(weights).sum() / weights.size)
