"""The problem behind each registered id, and the two environments that are made of it.

A function here turns the arguments of `gymnasium.make` into a problem; for a built-in likelihood
it is made on request. `bandit_gym.registration` says what each id is; `BanditEnv` is the manual of
them all.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from inspect import Signature, signature
from typing import Any

import gymnasium as gym
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
from bandit_gym.likelihoods import LIKELIHOODS, Bernoulli, Likelihood, make_likelihood
from bandit_gym.priors import Normal, Prior, TruncatedMultivariateNormal, make_prior
from bandit_gym.problem import BanditProblem, ContextualProblem

PriorLike = Prior | Mapping[str, Any] | Sequence[Any] | str | None

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
            TypeError: if an option is unknown; names the nearest.
        """
        is_vector = _asks_for_lanes(self, options)
        shows_horizon = options.get("observation", "constant") != "constant"
        if shows_horizon and not is_vector and options.get("horizon") is None:
            options["horizon"] = _find_time_limit()
        problem = {key: options[key] for key in self._problem_parameters if key in options}
        others = {key: options[key] for key in options if key == "contexts" or key not in problem}
        return self.kinds[is_vector](problem=self.problem(**problem), **others)


def _asks_for_lanes(make: Callable[..., Any], options: Mapping[str, Any]) -> bool:
    """Say whether options ask for lanes; refuse those that what makes an environment lacks."""
    is_vector = "num_envs" in options
    known = [*signature(make).parameters, "max_episode_steps", *VECTOR_OPTIONS * is_vector]
    try:
        check_keys(f"options of the {make.__name__} bandit", options, optional=sorted(known))
    except ValueError as error:  # of settings; a call with an unknown argument is a TypeError
        raise TypeError(str(error)) from None
    return is_vector


def _find_time_limit() -> int | None:
    """Return the time limit that `gymnasium.make` is about to set; None if there is none.

    Gymnasium tells it to no environment, so it is read among the variables of that function.
    """
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not gym.make.__code__:
        frame = frame.f_back
    if frame is None:
        return None
    limit, spec = frame.f_locals["max_episode_steps"], frame.f_locals["env_spec"]
    limit = spec.max_episode_steps if limit is None else limit
    return limit if limit is not None and limit > 0 else None


@cache
def __getattr__(name: str) -> EnvironmentFactory:
    """Return the factory of a built-in likelihood by its name, such as `families.poisson`."""
    if name not in LIKELIHOODS:
        raise AttributeError(f"{__name__} has no {name!r}.")
    make_rewards = LIKELIHOODS[name]

    def problem(num_arms: int = 10, prior: PriorLike = None, **parameters: Any) -> BanditProblem:
        return _build(make_rewards(**parameters), num_arms, prior)

    others = signature(problem).parameters.values()
    own = signature(make_rewards).parameters.values()
    parameters = [*others][:2] + [each.replace(kind=each.KEYWORD_ONLY) for each in own]
    problem.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    problem.__name__, problem.__doc__ = name, f"{name.title()} bandit. {make_rewards.__doc__}"
    return EnvironmentFactory(problem)


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
    """Build a problem; without a prior it gets the likelihood's own."""
    if prior is None and likelihood.default_prior is None:
        raise ValueError(message("prior", f"be given for {likelihood.name} rewards", prior))
    chosen = make_prior(likelihood.default_prior if prior is None else prior)
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
