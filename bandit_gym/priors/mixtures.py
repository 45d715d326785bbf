"""Priors people have beside the standard families: mixtures, spikes, logit-normals, shared levels.

They are written as a user would write one: `sample` and `log_density`, nothing else is needed.
Where the arms are independent they also offer `arm_log_density`, for agents that treat such priors
exactly.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import ArrayLike

from bandit_gym.checks import check_parameter, check_real, check_same_length, message
from bandit_gym.checks.typing import FloatArray, Parameter
from bandit_gym.numerics.variates import MIN_FLOAT
from bandit_gym.priors.dependent import MultivariateNormal
from bandit_gym.priors.independent import (
    Beta,
    IndependentPrior,
    Normal,
    TruncatedNormal,
    get_stated_support,
    has_own,
)


@dataclass(frozen=True)
class _FiniteMixture:
    """Several distributions and their probabilities.

    Args:
        components: the distributions, independent across arms.
        weights: their probabilities; they are divided by their sum.
    """

    components: Sequence[IndependentPrior]
    weights: Sequence[float]

    name: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "components", check_components("components", self.components))
        weights = check_parameter("weights", self.weights, positive=True)
        if not isinstance(weights, tuple) or len(weights) != len(self.components):
            condition = f"have one entry per component, {len(self.components)}"
            raise ValueError(message("weights", condition, self.weights))
        object.__setattr__(self, "weights", _normalise_weights(weights))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-able dict from which `prior_from_dict` makes an equal prior."""
        components = [component.to_dict() for component in self.components]
        return {"name": self.name, "components": components, "weights": [*self.weights]}

    @property
    def support(self) -> tuple[float, float]:
        """Lowest and highest mean over all components."""
        ends = np.vstack(
            [
                get_stated_support(component, getattr(component, "num_arms", None) or 1)
                for component in self.components
            ]
        )
        return float(ends[:, 0].min()), float(ends[:, 1].max())

    def arm_support(self, num_arms: int) -> FloatArray:
        """Return the (K, 2) lowest and highest mean of each arm over all components."""
        ends = np.stack([get_stated_support(each, num_arms) for each in self.components])
        return np.stack([ends[..., 0].min(axis=0), ends[..., 1].max(axis=0)], axis=1)

    def _draw(self, rng: Generator, shape: tuple[int, ...], chosen: Any) -> FloatArray:
        """Draw means of the given shape, each of the component that was chosen for it."""
        draws = np.stack([component.sample(rng, shape) for component in self.components])
        return np.take_along_axis(draws, chosen[None], axis=0)[0]


class Mixture(_FiniteMixture):
    """Each arm's mean comes from one of several distributions, chosen for each arm on its own.

    Args:
        components: the distributions, independent across arms.
        weights: their probabilities; they are divided by their sum.
    """

    name: ClassVar[str] = "mixture"

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape."""
        return self._draw(rng, shape, rng.choice(len(self.weights), size=shape, p=self.weights))

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return the (..., K) log-densities of each arm."""
        terms = [component.arm_log_density(means) for component in self.components]
        return _log_mean(np.stack(terms), self.weights)

    def log_density(self, means: FloatArray) -> FloatArray:
        """Return the (...) log-density of (..., K) means."""
        return np.asarray(self.arm_log_density(means).sum(axis=-1))


class SharedMixture(_FiniteMixture):
    """All means come from one of several distributions: arms are dependent.

    Args:
        components: the distributions, each independent across arms.
        weights: their probabilities; they are divided by their sum.
    """

    name: ClassVar[str] = "camps"

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape, one distribution for all arms of a draw."""
        chosen = rng.choice(len(self.weights), size=(*shape[:-1], 1), p=self.weights)
        return self._draw(rng, shape, chosen)

    def shared_components(self) -> tuple[Sequence[IndependentPrior], Sequence[float]]:
        """Return the distributions, of which one is that of all arms, and their probabilities."""
        return self.components, self.weights

    def log_density(self, means: FloatArray) -> FloatArray:
        """Return the (...) log-density of (..., K) means."""
        terms = [component.log_density(means) for component in self.components]
        return _log_mean(np.stack(terms), self.weights)


def spike_and_slab(spike: float, width: float, slab: IndependentPrior, share: float) -> Mixture:
    """A mixture: with probability `share` an arm's mean lies near `spike`, else it is the slab's.

    Args:
        spike: the common mean, in [0, 1].
        width: standard deviation of the spike, > 0, because a point mass has no density.
        slab: distribution of the other arms.
        share: probability of the spike, in (0, 1).
    """
    spike = check_real("spike", spike, minimum=0.0, maximum=1.0)
    width = check_real("width", width, above=0.0)
    share = check_real("share", share, above=0.0, below=1.0)
    return Mixture((TruncatedNormal(spike, width), slab), (share, 1 - share))


@dataclass(frozen=True)
class LogitNormal(IndependentPrior):
    """The log-odds log(x / (1 - x)) of each mean are normal.

    Args:
        mean: of the log-odds.
        std: of the log-odds, > 0.
    """

    mean: Parameter
    std: Parameter

    name: ClassVar[str] = "logit_normal"
    ends: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape, strictly between 0 and 1."""
        draws = scipy.special.expit(rng.normal(self.mean, self.std, shape))
        return np.clip(draws, MIN_FLOAT, 1 - 2.0**-53)

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return the (..., K) log-densities: normal in the log-odds, times their derivative."""
        x = np.asarray(means, dtype=np.float64)
        with np.errstate(all="ignore"):  # outside the support
            value = Normal(self.mean, self.std).arm_log_density(scipy.special.logit(x))
            value = value - np.log(x) - np.log1p(-x)
        return np.where((x > 0) & (x < 1), value, -np.inf)


class HierarchicalBeta(SharedMixture):
    """All means come from one of several Beta distributions: arms are dependent.

    Args:
        alphas: first parameters of the distributions, > 0.
        betas: second parameters, > 0.
        weights: probabilities of the distributions; they are divided by their sum. None: equal
            weights.
    """

    name: ClassVar[str] = "hierarchical_beta"

    def __init__(
        self,
        alphas: Sequence[float],
        betas: Sequence[float],
        weights: Sequence[float] | None = None,
    ) -> None:
        parameters: Any = {"alphas": alphas, "betas": betas}
        for key, value in parameters.items():
            parameters[key] = check_parameter(key, _as_list(key, value), positive=True)
        check_same_length(**parameters)
        components = [Beta(alpha, beta) for alpha, beta in zip(*parameters.values(), strict=True)]
        super().__init__(components, [1.0] * len(components) if weights is None else weights)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-able dict from which `prior_from_dict` makes an equal prior."""
        weights = [*self.weights]
        return {"name": self.name, "alphas": self.alphas, "betas": self.betas, "weights": weights}

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape, one distribution for all arms of a draw."""
        component = rng.choice(len(self.weights), size=(*shape[:-1], 1), p=self.weights)
        alphas, betas = np.array(self.alphas), np.array(self.betas)
        draws = rng.beta(alphas[component], betas[component], shape)
        return np.clip(draws, MIN_FLOAT, 1 - 2.0**-53)

    @property
    def alphas(self) -> list[Any]:
        """First parameters of the distributions."""
        return [component.alpha for component in self.components]  # type: ignore[attr-defined]

    @property
    def betas(self) -> list[Any]:
        """Second parameters of the distributions."""
        return [component.beta for component in self.components]  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"HierarchicalBeta({self.alphas}, {self.betas}, {[*self.weights]})"


def check_components(name: str, components: Any) -> tuple[IndependentPrior, ...]:
    """Return the distributions as a tuple; refuse one that is not independent across arms."""
    for component in _as_list(name, components):
        if not callable(getattr(component, "arm_log_density", None)):
            condition = "be a list of distributions that are independent across arms"
            raise TypeError(message(name, condition, component))
        if not has_own(component, "arm_log_density"):
            condition = "have an arm_log_density of their own beside sample or log_density"
            raise TypeError(message(name, condition, component))
    return tuple(components)


def _normalise_weights(weights: Sequence[float]) -> tuple[float, ...]:
    """Divide by the sum, unless it is 1 already up to rounding."""
    total = math.fsum(weights)
    if abs(total - 1.0) <= len(weights) * 2.0**-50:
        return tuple(weights)
    return tuple(weight / total for weight in weights)


def _as_list(name: str, value: Any) -> Sequence[Any]:
    value = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(value, Sequence) or isinstance(value, str) or not len(value):
        raise TypeError(message(name, "be a list with at least one entry", value))
    return value


def _log_mean(log_values: FloatArray, weights: ArrayLike) -> FloatArray:
    """Return the log of the weighted mean over the first axis."""
    shape = (-1, *(1,) * (log_values.ndim - 1))
    return np.asarray(scipy.special.logsumexp(log_values, b=np.reshape(weights, shape), axis=0))


@dataclass(frozen=True)
class PerArm(IndependentPrior):
    """Independent arms, each with a distribution of its own.

    Args:
        arms: K distributions, each for a single arm.
    """

    arms: Sequence[IndependentPrior]

    name: ClassVar[str] = "per_arm"

    def __post_init__(self) -> None:
        object.__setattr__(self, "arms", check_components("arms", self.arms))
        for component in self.arms:
            if getattr(component, "num_arms", None) not in (None, 1):
                condition = "be distributions of a single arm, with one number for each parameter"
                raise ValueError(message("arms", condition, component))

    def arm_support(self, num_arms: int) -> FloatArray:
        """Return the (K, 2) lowest and highest mean of each arm."""
        self._check_number(num_arms)
        return np.concatenate([get_stated_support(component, 1) for component in self.arms])

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw means of the given shape, whose last axis is the K arms."""
        self._check_number(shape[-1])
        draws = [component.sample(rng, (*shape[:-1], 1)) for component in self.arms]
        return np.concatenate(draws, axis=-1)

    def arm_log_density(self, means: FloatArray) -> FloatArray:
        """Return the (..., K) log-densities of each arm."""
        x = np.asarray(means, dtype=np.float64)
        self._check_number(x.shape[-1])
        columns = np.split(x, len(self.arms), axis=-1)
        parts = [
            own.arm_log_density(column) for own, column in zip(self.arms, columns, strict=True)
        ]
        return np.concatenate(parts, axis=-1)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-able dict from which `prior_from_dict` makes an equal prior."""
        return {"name": self.name, "arms": [component.to_dict() for component in self.arms]}

    def _check_number(self, num_arms: int) -> None:
        if num_arms != len(self.arms):
            raise ValueError(message("arms", f"be one for each of {num_arms} arms", len(self.arms)))


def join_priors(present: tuple[Any, int], new: Any, size: int, size_of_arm: int = 1) -> Any:
    """Return the prior of means, or coefficients, of which the first have one, the others another.

    Args:
        present: the prior of the first, and their number.
        new: of the others, or of each arm's, and of the same family; where those that are there
            depend on each other by a `MultivariateNormal`, one of all together.
        size: how many there are all together.
        size_of_arm: how many of them each arm has.

    Raises:
        ValueError: if priors are of other families, or for another number, or one of all together
            has another distribution of the first.
    """
    prior, num_present = present
    sizes = num_present, size - num_present
    if isinstance(prior, PerArm) and isinstance(new, IndependentPrior) and new.num_arms is None:
        return PerArm([*prior.arms, *[new] * sizes[1]])
    if isinstance(prior, MultivariateNormal):
        is_joint = isinstance(new, MultivariateNormal) and len(new.covariance) == size
        if not (is_joint and new.begins_with(prior)):
            condition = f"be a MultivariateNormal of all {size} coefficients, the first as now"
            raise ValueError(message("prior", condition, new))
        return new
    is_alike = isinstance(new, IndependentPrior) and type(new) is type(prior)
    if not (is_alike and new.num_arms in (None, sizes[1], size_of_arm)):
        others = "" if size_of_arm == 1 else f" coefficients or {size_of_arm} of each"
        condition = f"be for the new arms, {sizes[1]}{others}, and of the same family as {prior!r}"
        remedy = "else build an agent with the prior of all arms, and give it the data again"
        raise ValueError(message("prior", condition, new, remedy))
    parameters = {}
    for parameter in fields(new):
        values = getattr(prior, parameter.name), getattr(new, parameter.name)
        if np.ndim(values[0]) == 0 and values[0] == values[1]:
            parameters[parameter.name] = values[0]
        else:
            parameters[parameter.name] = np.concatenate([*map(np.resize, values, sizes)]).tolist()
    return type(prior)(**parameters)
