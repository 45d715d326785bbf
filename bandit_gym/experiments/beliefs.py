"""Agents that are told another prior than their world's: misspecification as an experiment.

An agent's option `prior` is what it is told, in place of the prior that means are drawn from. Two
kinds are the agent's own business: a word without a colon ("reference"), and the option of a class
of one's own that takes a `prior` itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

PRIOR = "prior"


def told_prior(options: Mapping[str, Any]) -> Any:
    """Return the prior that an agent's options tell it, as settings; None if it is its world's."""
    value = options.get(PRIOR)
    is_word = isinstance(value, str) and ":" not in value
    return None if is_word else value


def without_told(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the agent's own."""
    is_told = told_prior(options) is not None
    return {key: value for key, value in options.items() if not (is_told and key == PRIOR)}


def believe(problem: Any, prior: Any) -> Any:
    """Return the problem with another prior.

    Args:
        problem: the world's, a `BanditProblem`.
        prior: settings of the prior; see `bandit_gym.priors.make_prior`.
    """
    from bandit_gym.priors import make_prior  # brings SciPy, which settings do not need

    return replace(problem, prior=make_prior(prior))


def describe_belief(options: Mapping[str, Any]) -> str:
    """Return what a label says of the prior that an agent is told; nothing if it is its world's."""
    told = told_prior(options)
    if told is None:
        return ""
    from bandit_gym.priors import describe_prior

    return f", told {describe_prior(told)}"
