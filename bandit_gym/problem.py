"""BanditProblem and ContextualProblem: all that a Bayesian agent knows of its environment."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from bandit_gym.checks import (
    as_array,
    as_numbers,
    check_choice,
    check_integer,
    check_keys,
    check_object,
    is_project_class,
    message,
)
from bandit_gym.checks.typing import FloatArray, IntArray
from bandit_gym.contexts import BLOCKS, add_intercept, count_coefficients, count_numbers, lay_out
from bandit_gym.likelihoods import LIKELIHOODS, LINKS, Likelihood, Link, likelihood_from_dict
from bandit_gym.likelihoods.checker import check_values
from bandit_gym.priors import (
    NormalInverseGamma,
    Prior,
    UnknownPrior,
    make_prior,
    prior_from_dict,
)
from bandit_gym.priors.base import BUILT_IN, is_built_in, offers
from bandit_gym.priors.checker import check_draws
from bandit_gym.priors.independent import get_stated_support, keeps_draws
from bandit_gym.priors.mixtures import join_priors

MAX_MEAN = 1e150
"""Of an arm; the squares of larger rewards overflow."""


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
        self._check_prior("num_arms", minimum=2)
        if is_built_in(self.prior):
            _check_built_in(self.prior, self.likelihood, self.num_arms)
        if not (isinstance(self.prior, BUILT_IN) and is_project_class(type(self.prior))):
            check_draws(self.prior, self.likelihood, self.num_arms)

    def _check_prior(self, name: str, *, minimum: int) -> None:
        """Refuse what is no prior, or one of another size than the attribute of that name."""
        if not self.offers("log_density"):
            condition = "be a prior such as Normal(0, 1), or have methods sample and log_density"
            raise TypeError(message("prior", condition, self.prior))
        size = check_integer(name, getattr(self, name), minimum=minimum)
        object.__setattr__(self, name, size)
        prior_size = getattr(self.prior, "num_arms", None)
        if isinstance(prior_size, int) and prior_size != size:
            condition = f"have {size} values in its lists of parameters, as {name} says"
            raise ValueError(message("prior", condition, prior_size))
        if isinstance(self.prior, UnknownPrior):
            return
        is_joint = isinstance(self.prior, NormalInverseGamma) and keeps_draws(self.prior)
        if self.likelihood.needs_squares and not is_joint:
            condition = "be a NormalInverseGamma where the std of rewards is None"
            raise ValueError(message("prior", condition, self.prior))
        if is_joint and not self.likelihood.needs_squares:
            condition = "be Gaussian(std=None) under a NormalInverseGamma prior"
            raise ValueError(message("likelihood", condition, self.likelihood))

    def offers(self, capability: str) -> bool:
        """Say whether the prior has a capability, one of `bandit_gym.priors.CAPABILITIES`."""
        return offers(self.prior, capability)

    def arm_support(self) -> FloatArray:
        """Return the (K, 2) lowest and highest mean of each arm that prior and likelihood allow."""
        return np.clip(get_stated_support(self.prior, self.num_arms), *self.likelihood.support)

    def with_arms(self, num_arms: Any, prior: Any = None) -> Self:
        """Return the problem with more arms, the new ones last.

        Args:
            num_arms: K, at least as many as now.
            prior: of the new arms, an object or a dict; None for the present one.

        Raises:
            ValueError: if there are fewer arms, or the priors do not go together.
        """
        num_arms = check_integer("num_arms", num_arms, minimum=self.num_arms)
        joint = _extend_prior((self.prior, self.num_arms), prior, num_arms)
        return replace(self, num_arms=num_arms, prior=joint)

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


@dataclass(frozen=True, repr=False)
class ContextualProblem(BanditProblem):
    """A bandit with features: the mean of arm a is g^-1(x_a . theta), see `likelihoods.Link`.

    Args:
        likelihood: a distribution of a reward that has a link g, one of `likelihoods.LINKS`.
        prior: distribution of the (d,) coefficients theta; any with `sample` and `log_density`
            whose last axis are the coefficients, such as `Normal(0, 1)`.
        num_arms: K, at least 2.
        num_features: d, at least 1.
        layout: "disjoint" or "hierarchical", see `bandit_gym.contexts`, where the coefficients lie
            in blocks of p, the first of each that of an intercept. Agents then take a visitor's
            p - 1 numbers wherever they take features, and more arms bring more blocks. None if
            features are given for each arm.

    Raises:
        TypeError: if an argument is of the wrong kind, or the prior lacks a method.
        ValueError: if the prior is for another number of coefficients, or the layout is unknown or
            has another number of blocks.
    """

    num_features: int
    layout: str | None = None

    def __post_init__(self) -> None:
        if type(self.likelihood) not in LINKS:
            condition = "be Bernoulli, Gaussian, Poisson or Exponential where arms have features"
            raise TypeError(message("likelihood", condition, self.likelihood))
        object.__setattr__(self, "num_arms", check_integer("num_arms", self.num_arms, minimum=2))
        self._check_prior("num_features", minimum=1)
        prior: Any = self.prior
        is_joint = isinstance(prior, NormalInverseGamma)
        if is_joint and (np.ndim(prior.shape) or np.ndim(prior.scale)):
            condition = "have one shape and one scale where coefficients share a deviation"
            raise ValueError(message("prior", condition, prior))
        if not isinstance(prior, UnknownPrior):
            check_draws(prior, None, self.num_features)
        if self.layout is not None:
            check_choice("layout", self.layout, BLOCKS)
            count_numbers(self.layout, self.num_arms, self.num_features)

    def __repr__(self) -> str:
        """Leave out a layout where there is none."""
        names = ["likelihood", "prior", "num_arms", "num_features"]
        names += [] if self.layout is None else ["layout"]
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in names)})"

    @property
    def link(self) -> Link:
        """How means follow from linear predictors."""
        return LINKS[type(self.likelihood)]

    def means(self, theta: FloatArray, features: FloatArray) -> FloatArray:
        """Return the (..., K) means of arms with (..., K, d) features, given (..., d) theta."""
        return self.link.mean(self.predictors(theta, features))

    def predictors(self, theta: FloatArray, features: FloatArray) -> FloatArray:
        """Return the (..., K) linear predictors of these means."""
        return np.asarray(np.einsum("...kd,...d->...k", features, theta))

    def count_visitors(self, observation: Any) -> int | None:
        """Return n of (n, K, d) features, or of (n, p) numbers under a layout; else None."""
        shown: Any = as_array(observation)
        has_numbers = self.layout is not None and np.ndim(shown) == 2
        if np.ndim(shown) == 3 or (has_numbers and shown.shape[1] != self.num_features):
            return len(shown) or None
        return None

    def place(
        self, observation: Any, num_visitors: int | None, arms: IntArray | None = None
    ) -> Any:
        """Return visitors' numbers as features in the blocks of the layout, all else as it is.

        Args:
            observation: (N, p - 1) numbers, or features with d on their last axis.
            num_visitors: N, or None for one visitor, without the axis.
            arms: (N,) of which features are wanted, where there is a layout; None for all.

        Returns:
            (N, K, d) features, or (N, d) of the given arms; NaN stays.

        Raises:
            TypeError: if there is a layout, and they are no numbers, or None.
            ValueError: if numbers under a layout have another shape.
        """
        values = None if self.layout is None else as_numbers(observation, "biuf")
        is_placed = values is not None and values.shape[-1:] == (self.num_features,)
        if self.layout is None or is_placed:
            return observation
        size = count_numbers(self.layout, self.num_arms, self.num_features) - 1
        shape = (size,) if num_visitors is None else (num_visitors, size)
        condition = f"be visitors' numbers of shape {shape}, or {self.num_features} of each arm"
        if values is None:
            raise TypeError(message("observation", condition, observation))
        if values.shape != shape:
            raise ValueError(f"observation must {condition}, got shape {values.shape}.")
        return lay_out(self.layout, add_intercept(values), self.num_arms, arms)

    def with_arms(self, num_arms: Any, prior: Any = None) -> Self:
        """Return the problem with more arms, and with a layout with their blocks of coefficients.

        Args:
            num_arms: K, at least as many as now.
            prior: of the new blocks, or of each, an object or a dict; where the present prior is a
                `MultivariateNormal`, that of all coefficients, which the first keep. None for the
                present one, and without a layout, where arms share the coefficients.

        Raises:
            ValueError: if there are fewer arms, or the priors do not go together.
        """
        num_arms = check_integer("num_arms", num_arms, minimum=self.num_arms)
        if self.layout is None:
            if prior is not None:
                condition = "be left out where arms have features, whose coefficients have it"
                raise ValueError(message("prior", condition, prior))
            return replace(self, num_arms=num_arms)
        size = count_numbers(self.layout, self.num_arms, self.num_features)
        num_features = count_coefficients(self.layout, num_arms, size)
        joint = _extend_prior((self.prior, self.num_features), prior, num_features, size)
        return replace(self, num_arms=num_arms, num_features=num_features, prior=joint)

    def arm_support(self) -> FloatArray:
        """Return the (K, 2) lowest and highest mean that the likelihood allows."""
        return np.tile(np.asarray(self.likelihood.support), (self.num_arms, 1))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-able dict from which `problem_from_dict` makes an equal problem."""
        layout = {} if self.layout is None else {"layout": self.layout}
        return super().to_dict() | {"num_features": self.num_features} | layout


def check_problem(problem: Any) -> BanditProblem:
    """Return the problem, or refuse what is none.

    Raises:
        TypeError: if it is no `BanditProblem`.
    """
    return check_object("problem", problem, BanditProblem)


def problem_from_dict(settings: Mapping[str, Any]) -> BanditProblem:
    """Make the problem that `BanditProblem.to_dict` described."""
    required = ["likelihood", "prior", "num_arms"]
    check_keys("problem", settings, required=required, optional=["num_features", "layout"])
    parts = {
        "likelihood": likelihood_from_dict(settings["likelihood"]),
        "prior": prior_from_dict(settings["prior"]),
    }
    make = ContextualProblem if "num_features" in settings else BanditProblem
    return make(**{**settings, **parts})


def _extend_prior(present: tuple[Any, int], new: Any, size: int, size_of_arm: int = 1) -> Any:
    """Return the prior of so many means or coefficients, see `join_priors`; None is more of it."""
    prior, num_present = present
    if new is not None:
        return join_priors(present, make_prior(new), size, size_of_arm)
    if size > num_present and isinstance(getattr(prior, "num_arms", None), int):
        raise ValueError(message("prior", f"be given for the new arms beside {prior!r}", new))
    return prior


def _check_built_in(prior: Any, likelihood: Likelihood, num_arms: int) -> None:
    """Refuse a support that leaves the likelihood's."""
    ends, (lowest, highest) = get_stated_support(prior, num_arms), likelihood.support
    if ends.min() < lowest or ends.max() > highest:
        interval = f"[{lowest:g}, {highest:g}]"
        condition = f"lie in {interval}, where the means of {likelihood.name} rewards are"
        remedy = "use another, such as 'truncated_normal' with low and high in that interval"
        raise ValueError(message("prior", condition, prior, remedy))
