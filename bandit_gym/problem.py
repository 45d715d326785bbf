"""BanditProblem: all that a Bayesian agent is told about the world it acts in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandit_gym.checks import check_has_method, check_integer, check_keys, message
from bandit_gym.likelihoods import Likelihood, likelihood_from_dict
from bandit_gym.priors import BuiltInPrior, Prior, prior_from_dict
from bandit_gym.typing import FloatArray

_NUM_TRIAL_DRAWS = 50
_NATURAL_PRIORS = {"bernoulli": "beta", "exponential": "inverse_gamma", "poisson": "gamma"}


@dataclass(frozen=True)
class BanditProblem:
    """The law of rewards given the means, the law of the means, and the number of arms.

    Args:
        likelihood: law of a reward given its arm's mean.
        prior: law of the (K,) means; a built-in one or anything with `sample` and `log_density`.
        num_arms: K, at least 2.

    Raises:
        TypeError: if an argument is of the wrong kind, or the prior lacks a method.
        ValueError: if the prior is for another number of arms, puts means where the likelihood has
            none, or its methods return what they should not.
    """

    likelihood: Likelihood
    prior: Prior
    num_arms: int

    def __post_init__(self) -> None:
        if not isinstance(self.likelihood, Likelihood) or isinstance(self.likelihood, type):
            condition = "be a likelihood such as Bernoulli()"
            raise TypeError(message("likelihood", condition, self.likelihood))
        if not isinstance(self.prior, Prior) or isinstance(self.prior, type):
            condition = "be a prior such as Beta(1, 1), or have the methods sample and log_density"
            raise TypeError(message("prior", condition, self.prior))
        object.__setattr__(self, "num_arms", check_integer("num_arms", self.num_arms, minimum=2))
        if isinstance(self.prior, BuiltInPrior):
            _check_built_in(self.prior, self.likelihood, self.num_arms)
        else:
            _check_by_trial(self.prior, self.likelihood, self.num_arms)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-able dict from which `problem_from_dict` makes an equal problem.

        Raises:
            TypeError: if the prior is the user's own and has no `to_dict`.
        """
        prior: Any = self.prior
        check_has_method("prior", prior, "to_dict")
        return {
            "likelihood": self.likelihood.to_dict(),
            "prior": prior.to_dict(),
            "num_arms": self.num_arms,
        }


def problem_from_dict(settings: Mapping[str, Any]) -> BanditProblem:
    """Make the problem that `BanditProblem.to_dict` described."""
    check_keys("problem", settings, required=["likelihood", "prior", "num_arms"])
    likelihood = likelihood_from_dict(settings["likelihood"])
    return BanditProblem(likelihood, prior_from_dict(settings["prior"]), settings["num_arms"])


def _check_built_in(prior: BuiltInPrior, likelihood: Likelihood, num_arms: int) -> None:
    """Refuse parameters for another number of arms, or a support that leaves the likelihood's."""
    if prior.num_arms not in (None, num_arms):
        condition = f"have {num_arms} values in its per-arm parameters, one per arm"
        raise ValueError(message("prior", condition, prior.num_arms))
    (low, high), (lowest, highest) = prior.support, likelihood.support
    if low < lowest or high > highest:
        natural = _NATURAL_PRIORS.get(likelihood.name)
        remedy = "use " + (f"{natural!r}, or " if natural else "")
        remedy += "'truncated_normal' with low and high in that interval"
        interval = f"[{lowest:g}, {highest:g}]"
        condition = f"lie in {interval}, where the means of {likelihood.name} rewards are"
        raise ValueError(message("prior", condition, prior, remedy))


def _check_by_trial(prior: Prior, likelihood: Likelihood, num_arms: int) -> None:
    """Refuse a user's prior whose methods do on a few draws what they should not."""
    rng = np.random.default_rng(0)
    for shape in ((num_arms,), (_NUM_TRIAL_DRAWS, num_arms)):
        means = _call(f"sample(rng, {shape})", shape, prior.sample, rng, shape)
        is_possible = likelihood.contains(means)
        if not is_possible.all():
            condition = f"draw means that {likelihood.name} rewards can have"
            raise ValueError(message("prior.sample", condition, means[~is_possible][0]))
        call = f"log_density(means of shape {shape})"
        densities = _call(call, shape[:-1], prior.log_density, means)
        if np.isnan(densities).any() or (densities == -np.inf).all():
            condition = "be a number at the prior's own draws, and not -inf at all of them"
            raise ValueError(message("prior.log_density", condition, densities))


def _call(
    call: str, shape: tuple[int, ...], method: Callable[..., Any], *arguments: Any
) -> FloatArray:
    """Return what the user's method returns, an array of the given shape."""
    condition = f"prior.{call} must return numbers of shape {shape}"
    try:
        values = np.asarray(method(*arguments), dtype=np.float64)
    except Exception as error:
        raise ValueError(f"{condition}, got {error!r}.") from error
    if values.shape != shape:
        raise ValueError(f"{condition}, got shape {values.shape}.")
    return values
