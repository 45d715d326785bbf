"""The problem behind each registered id, and the two environments that are made of it.

A function here turns the arguments of `gymnasium.make` into a problem. `bandit_gym.registration`
says what each id is; `BanditEnv` is the manual of them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Signature, signature
from typing import Any

import numpy as np

from bandit_gym.checks import MAX_DEPENDENT_ARMS, check_integer, check_keys, message
from bandit_gym.checks.typing import FloatArray
from bandit_gym.contexts import count_coefficients
from bandit_gym.envs.bandit import METADATA, BanditEnv, BanditVectorEnv
from bandit_gym.envs.contextual import (
    ContextualBanditEnv,
    ContextualBanditVectorEnv,
    LikelihoodLike,
    TableBanditEnv,
    TableBanditVectorEnv,
)
from bandit_gym.likelihoods import (
    Bernoulli,
    Exponential,
    Gaussian,
    Likelihood,
    Poisson,
    make_likelihood,
)
from bandit_gym.priors import (
    Beta,
    Gamma,
    InverseGamma,
    Normal,
    Prior,
    TruncatedMultivariateNormal,
    make_prior,
)
from bandit_gym.problem import BanditProblem, ContextualProblem

PriorLike = Prior | Mapping[str, Any] | Sequence[Any] | str | None

DEFAULT_PRIORS: dict[str, Prior] = {
    "bernoulli": Beta(1.0, 1.0),
    "exponential": InverseGamma(3.0, 2.0),
    "gaussian": Normal(0.0, 1.0),
    "poisson": Gamma(2.0, 1.0),
}


VECTOR_OPTIONS = "num_envs", "autoreset_mode"


class EnvironmentFactory:
    """What an id makes: one environment, or N lanes of it where `num_envs` is given.

    Its signature lists the arguments of the problem and of `BanditEnv` one by one.

    Attributes:
        problem: function from the arguments of its own to the problem.
        kinds: the environment, single and natively vectorised.
    """

    metadata = METADATA

    def __init__(
        self,
        problem: Callable[..., BanditProblem],
        kinds: tuple[type[BanditEnv], type[BanditVectorEnv]] = (BanditEnv, BanditVectorEnv),
    ) -> None:
        self.problem, self.kinds = problem, kinds
        self.__doc__, self.__name__ = problem.__doc__, problem.__name__
        self._problem_parameters = dict(signature(problem).parameters)
        common = dict(signature(kinds[0]).parameters)
        del common["problem"]
        parameters = (common | self._problem_parameters).values()
        self.__signature__ = Signature(sorted(parameters, key=lambda each: each.kind))

    def __call__(self, **options: Any) -> BanditEnv | BanditVectorEnv:
        """Make the environment of the problem that some of the options describe.

        Raises:
            ValueError: if an option is unknown; names the nearest.
        """
        is_vector = _asks_for_lanes(self, options)
        problem = {key: options[key] for key in self._problem_parameters if key in options}
        others = {key: options[key] for key in options if key == "contexts" or key not in problem}
        return self.kinds[is_vector](problem=self.problem(**problem), **others)


def _asks_for_lanes(make: Callable[..., Any], options: Mapping[str, Any]) -> bool:
    """Say whether options ask for lanes; refuse those that what makes an environment lacks."""
    is_vector = "num_envs" in options
    known = [*signature(make).parameters, "max_episode_steps", *VECTOR_OPTIONS * is_vector]
    check_keys(f"options of the {make.__name__} bandit", options, optional=sorted(known))
    return is_vector


@EnvironmentFactory
def bernoulli(num_arms: int = 10, prior: PriorLike = None) -> BanditProblem:
    """Bernoulli bandit: every pull pays 0 or 1."""
    return _build(Bernoulli(), num_arms, prior)


@EnvironmentFactory
def exponential(num_arms: int = 10, prior: PriorLike = None) -> BanditProblem:
    """Exponential bandit: rewards are positive and skewed, like waiting times."""
    return _build(Exponential(), num_arms, prior)


@EnvironmentFactory
def gaussian(num_arms: int = 10, prior: PriorLike = None, *, std: float = 1.0) -> BanditProblem:
    """Gaussian bandit: rewards are the mean plus normal noise of known size."""
    return _build(Gaussian(std), num_arms, prior)


@EnvironmentFactory
def poisson(num_arms: int = 10, prior: PriorLike = None) -> BanditProblem:
    """Poisson bandit: rewards are counts."""
    return _build(Poisson(), num_arms, prior)


@EnvironmentFactory
def dependent_prior(
    num_arms: int = 10, prior: PriorLike = None, *, dimension: int | None = None, arm_seed: int = 0
) -> BanditProblem:
    """Bernoulli bandit with dependent arms: what one arm pays says something about the others."""
    if dimension is not None and prior is not None:
        remedy = "it shapes the default prior only"
        raise ValueError(message("dimension", "be None where prior is given", dimension, remedy))
    if prior is None:
        covariance = unit_vector_covariance(num_arms, dimension, arm_seed)
        prior = TruncatedMultivariateNormal(0.5, covariance.tolist())
    return _build(Bernoulli(), num_arms, prior)


@EnvironmentFactory
def custom(
    num_arms: int = 10, prior: PriorLike = None, *, likelihood: LikelihoodLike = "bernoulli"
) -> BanditProblem:
    """Custom bandit: rewards of the likelihood that is named, also a user's."""
    return _build(make_likelihood(likelihood), num_arms, prior)


@partial(EnvironmentFactory, kinds=(ContextualBanditEnv, ContextualBanditVectorEnv))
def contextual(
    num_arms: int = 10,
    num_features: int = 5,
    prior: PriorLike = None,
    *,
    likelihood: LikelihoodLike = "bernoulli",
    contexts: Any = "normal",
) -> ContextualProblem:
    """Contextual bandit: what an arm pays depends on its features, which change at each step."""
    num_coefficients = count_coefficients(contexts, num_arms, num_features)
    chosen = Normal(0.0, 1.0) if prior is None else make_prior(prior)
    return ContextualProblem(make_likelihood(likelihood), chosen, num_arms, num_coefficients)


def table(**options: Any) -> BanditEnv | BanditVectorEnv:
    """Table bandit: visitors of a table in random order, each with the reward of every arm."""
    kinds: tuple[Any, Any] = TableBanditEnv, TableBanditVectorEnv
    return kinds[_asks_for_lanes(table, options)](**options)  # type: ignore[no-any-return]


table.__signature__ = signature(TableBanditEnv)  # type: ignore[attr-defined]


def _build(likelihood: Likelihood, num_arms: int, prior: PriorLike) -> BanditProblem:
    """Build a problem; without a prior it gets that of the environment named as the likelihood."""
    if prior is None and likelihood.name not in DEFAULT_PRIORS:
        raise ValueError(message("prior", f"be given for {likelihood.name} rewards", prior))
    chosen = DEFAULT_PRIORS[likelihood.name] if prior is None else make_prior(prior)
    return BanditProblem(likelihood, chosen, num_arms)


def unit_vector_covariance(num_arms: int, dimension: int | None, arm_seed: int) -> FloatArray:
    """Compute the (K, K) matrix u_i . u_j of K random unit vectors.

    Args:
        num_arms: K.
        dimension: length of the vectors; K when None. Below K the matrix is singular.
        arm_seed: seed of the vectors.

    Raises:
        ValueError: if dimension is below K, where the prior would have no density.
    """
    num_arms = check_integer("num_arms", num_arms, minimum=2, maximum=MAX_DEPENDENT_ARMS)
    size = num_arms if dimension is None else dimension
    size = check_integer("dimension", size, minimum=num_arms)
    rng = np.random.default_rng(check_integer("arm_seed", arm_seed, minimum=0))
    vectors = rng.standard_normal((num_arms, size))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    covariance: FloatArray = vectors @ vectors.T
    np.fill_diagonal(covariance, 1.0)
    return covariance
