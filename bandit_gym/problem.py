"""BanditProblem: all that a Bayesian agent knows of the environment it acts in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandit_gym.checks import check_integer, check_keys, check_object, message
from bandit_gym.checks.typing import FloatArray
from bandit_gym.likelihoods import LIKELIHOODS, Likelihood, likelihood_from_dict
from bandit_gym.likelihoods.checker import check_values
from bandit_gym.priors import BuiltInPrior, Prior, prior_from_dict
from bandit_gym.priors.base import get_stated_support, offers
from bandit_gym.priors.checker import check_draws


@dataclass(frozen=True)
class BanditProblem:
    """A bandit: the likelihood of rewards, the prior of the means, the number of arms.

    Args:
        likelihood: distribution of a reward given its arm's mean.
        prior: distribution of the (K,) means; a built-in one or anything with `sample` and
            `log_density`.
        num_arms: K, at least 2.

    Raises:
        TypeError: if an argument is of the wrong kind, or the prior lacks a method.
        ValueError: if the prior is for another number of arms, puts means where the likelihood has
            none, or methods of a user's likelihood or prior return wrong shapes or NaN.
            `check_prior` and `check_likelihood` look closer.
    """

    likelihood: Likelihood
    prior: Prior
    num_arms: int

    def __post_init__(self) -> None:
        if type(self.likelihood) not in LIKELIHOODS.values():
            check_values(self.likelihood)
        if not self.offers("log_density"):
            condition = "be a prior such as Beta(1, 1), or have the methods sample and log_density"
            raise TypeError(message("prior", condition, self.prior))
        num_arms = check_integer("num_arms", self.num_arms, minimum=2)
        object.__setattr__(self, "num_arms", num_arms)
        prior_arms = getattr(self.prior, "num_arms", None)
        if isinstance(prior_arms, int) and prior_arms != num_arms:
            condition = f"have {num_arms} values in its per-arm parameters, one per arm"
            raise ValueError(message("prior", condition, prior_arms))
        if isinstance(self.prior, BuiltInPrior):
            _check_built_in(self.prior, self.likelihood)
        else:
            rule = self.likelihood.name, self.likelihood.contains
            check_draws(self.prior, rule, self.num_arms)

    def offers(self, capability: str) -> bool:
        """Say whether the prior has a capability, one of `bandit_gym.priors.CAPABILITIES`."""
        return offers(self.prior, capability)

    def arm_support(self) -> FloatArray:
        """Return the (K, 2) lowest and highest mean of each arm that prior and likelihood allow."""
        low, high = self.likelihood.support
        support = get_stated_support(self.prior, self.num_arms)
        if support is None:
            return np.tile([float(low), float(high)], (self.num_arms, 1))
        return np.clip(support, low, high)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-able dict from which `problem_from_dict` makes an equal problem.

        Raises:
            TypeError: if the prior is the user's own and has no `to_dict`.
        """
        if not hasattr(self.prior, "to_dict"):
            raise TypeError(message("prior", "have a method 'to_dict'", self.prior))
        return {
            "likelihood": self.likelihood.to_dict(),
            "prior": self.prior.to_dict(),
            "num_arms": self.num_arms,
        }


def check_problem(problem: Any) -> BanditProblem:
    """Return the problem, or refuse what is none.

    Raises:
        TypeError: if it is no `BanditProblem`.
    """
    return check_object("problem", problem, BanditProblem)


def problem_from_dict(settings: Mapping[str, Any]) -> BanditProblem:
    """Make the problem that `BanditProblem.to_dict` described."""
    check_keys("problem", settings, required=["likelihood", "prior", "num_arms"])
    likelihood = likelihood_from_dict(settings["likelihood"])
    return BanditProblem(likelihood, prior_from_dict(settings["prior"]), settings["num_arms"])


def _check_built_in(prior: BuiltInPrior, likelihood: Likelihood) -> None:
    """Refuse a support that leaves the likelihood's."""
    (low, high), (lowest, highest) = prior.support, likelihood.support
    if low < lowest or high > highest:
        conjugate = likelihood.conjugate_prior
        remedy = "use " + (f"{conjugate!r}, or " if conjugate else "")
        remedy += "'truncated_normal' with low and high in that interval"
        interval = f"[{lowest:g}, {highest:g}]"
        condition = f"lie in {interval}, where the means of {likelihood.name} rewards are"
        raise ValueError(message("prior", condition, prior, remedy))
