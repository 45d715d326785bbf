"""BanditProblem: all that a Bayesian agent is told about the world it acts in."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandit_gym.checks import call, check_has_method, check_integer, check_keys, message
from bandit_gym.likelihoods import LIKELIHOODS, Likelihood, likelihood_from_dict
from bandit_gym.likelihoods.trial import try_likelihood
from bandit_gym.priors import BuiltInPrior, Prior, consistency, prior_from_dict
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
            none, or methods of a likelihood or prior of one's own return what they should not.

    Warns:
        UserWarning: if draws of a user's `sample` do not have the law of its `log_density`; see
            `bandit_gym.priors.consistency`.
    """

    likelihood: Likelihood
    prior: Prior
    num_arms: int

    def __post_init__(self) -> None:
        if not isinstance(self.likelihood, Likelihood):
            condition = "be a likelihood such as Bernoulli()"
            remedy = "one of your own is a subclass of bandit_gym.likelihoods.Likelihood"
            raise TypeError(message("likelihood", condition, self.likelihood, remedy))
        if not isinstance(self.prior, Prior) or isinstance(self.prior, type):
            condition = "be a prior such as Beta(1, 1), or have the methods sample and log_density"
            raise TypeError(message("prior", condition, self.prior))
        object.__setattr__(self, "num_arms", check_integer("num_arms", self.num_arms, minimum=2))
        if type(self.likelihood) not in LIKELIHOODS.values():
            try_likelihood(self.likelihood)
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
    for shape in ((num_arms,), (_NUM_TRIAL_DRAWS, num_arms), (3, 2, num_arms)):
        means = call(f"prior.sample(rng, {shape})", shape, prior.sample, rng, shape)
        is_possible = likelihood.contains(means)
        if not is_possible.all():
            condition = f"draw means that {likelihood.name} rewards can have"
            raise ValueError(message("prior.sample", condition, means[~is_possible][0]))
        densities = _ask(prior, means)
        if (densities == -np.inf).all():
            condition = "be a number at the prior's own draws, and not -inf at all of them"
            raise ValueError(message("prior.log_density", condition, densities))
        _check_support(prior, means)
        if hasattr(prior, "arm_log_density"):
            _check_arms(prior, means, densities)
    _warn_of_disagreement(prior, likelihood, num_arms)


def _check_support(prior: Any, means: FloatArray) -> None:
    """Refuse a stated support without the prior's own draws: agents would never look there."""
    num_arms = means.shape[-1]
    name = "arm_support" if hasattr(prior, "arm_support") else "support"
    bounds = prior.arm_support(num_arms) if name == "arm_support" else getattr(prior, name, None)
    if bounds is None:
        return
    low, high = np.broadcast_to(np.asarray(bounds, dtype=np.float64), (num_arms, 2)).T
    is_outside = (means < low) | (means > high)
    if is_outside.any():
        place = tuple(np.argwhere(is_outside)[0])
        arm = int(place[-1])
        condition = f"contain the prior's own draws, [{low[arm]:g}, {high[arm]:g}] for arm {arm}"
        raise ValueError(message(f"prior.{name}", condition, float(means[place])))


def _check_arms(prior: Any, means: FloatArray, densities: FloatArray) -> None:
    """Refuse densities of single arms that do not make up that of all arms, up to a constant."""
    name = f"prior.arm_log_density(means of shape {means.shape})"
    gaps = call(name, means.shape, prior.arm_log_density, means).sum(axis=-1) - densities
    gaps = gaps[np.isfinite(gaps)]
    size = max(1.0, float(np.abs(densities[np.isfinite(densities)]).max(initial=0.0)))
    if gaps.size and np.ptp(gaps) > 1e-6 * size:
        condition = "add up over the arms to log_density and a constant"
        raise ValueError(message("prior.arm_log_density", condition, gaps[:3]))


def _ask(prior: Prior, means: FloatArray) -> FloatArray:
    """Return the prior's log-densities of (..., K) means, none of them NaN or +inf."""
    name = f"prior.log_density(means of shape {means.shape})"
    densities = call(name, means.shape[:-1], prior.log_density, means)
    is_wrong = ~(densities < np.inf)
    if is_wrong.any():
        condition = f"be finite or -inf, also at means {means[is_wrong][0]}"
        raise ValueError(message("prior.log_density", condition, densities[is_wrong][0]))
    return densities


def _warn_of_disagreement(prior: Prior, likelihood: Likelihood, num_arms: int) -> None:
    """Warn if draws of a user's `sample` do not have the law of its `log_density`."""
    shape = (consistency.NUM_DRAWS, num_arms)
    rng = np.random.default_rng(0)
    pilot, draws = (np.asarray(prior.sample(rng, shape), dtype=np.float64) for _ in range(2))
    log_density = consistency.restrict(lambda means: _ask(prior, means), likelihood.contains)
    drift = consistency.find_drift(pilot, draws, log_density)
    if drift is not None:
        text = (
            "prior.sample and prior.log_density must describe the same law, got ones that do not: "
            f"over {shape[0]} draws the average {drift.name} is {drift.before:.4g}, and after "
            f"{consistency.NUM_STEPS} Metropolis steps that keep the law of log_density it is "
            f"{drift.after:.4g}, a change of {drift.num_errors:.1f} root sums of squares where "
            f"chance allows {drift.limit:.1f} (at level {consistency.LEVEL:g}); environments draw "
            "from sample, agents believe log_density, which need not be normalised but must "
            "integrate and be -inf outside the support."
        )
        warnings.warn(text, stacklevel=5)  # the caller of BanditProblem
