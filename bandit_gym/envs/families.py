"""What each registered id makes: one environment, or N lanes of it where `num_envs` is given.

`bandit_gym.registration` says what each id is, and `BanditEnv` is the manual of them all: its
options, such as `observation`, are options of every id here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

import gymnasium as gym
import numpy as np

from bandit_gym.checks import (
    MAX_DEPENDENT_ARMS,
    check_integer,
    message,
    quote_words,
    suggest_nearest,
)
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
from bandit_gym.likelihoods import make_likelihood
from bandit_gym.priors import Normal, Prior, TruncatedMultivariateNormal, make_prior
from bandit_gym.problem import BanditProblem, ContextualProblem

AnyBandit = BanditEnv | BanditVectorEnv
PriorLike = Prior | Mapping[str, Any] | Sequence[Any] | str | None

VECTOR_OPTIONS = "num_envs", "max_episode_steps", "autoreset_mode"


def bernoulli(
    num_arms: int = 10,
    prior: PriorLike = None,
    *,
    graded: bool = False,
    concentration: float | None = None,
    **options: Any,
) -> AnyBandit:
    """Bernoulli bandit. A pull pays 1 with probability equal to its arm's mean, otherwise 0."""
    likelihood = {"name": "bernoulli", "graded": graded, "concentration": concentration}
    return _make(bernoulli, options, problem=_build(likelihood, num_arms, prior))


def exponential(num_arms: int = 10, prior: PriorLike = None, **options: Any) -> AnyBandit:
    """Exponential bandit. Rewards are positive and skewed, like waiting times."""
    return _make(exponential, options, problem=_build("exponential", num_arms, prior))


def gaussian(
    num_arms: int = 10, prior: PriorLike = None, *, std: float = 1.0, **options: Any
) -> AnyBandit:
    """Gaussian bandit. Rewards are normal, with a standard deviation that the agent is given."""
    likelihood = {"name": "gaussian", "std": std}
    return _make(gaussian, options, problem=_build(likelihood, num_arms, prior))


def poisson(num_arms: int = 10, prior: PriorLike = None, **options: Any) -> AnyBandit:
    """Poisson bandit. Rewards are counts: 0, 1, 2, ..."""
    return _make(poisson, options, problem=_build("poisson", num_arms, prior))


def custom(
    num_arms: int = 10,
    prior: PriorLike = None,
    *,
    likelihood: LikelihoodLike = "bernoulli",
    **options: Any,
) -> AnyBandit:
    """Custom bandit: rewards of the likelihood that is named, also a user's."""
    return _make(custom, options, problem=_build(likelihood, num_arms, prior))


def dependent_prior(
    num_arms: int = 10,
    prior: PriorLike = None,
    *,
    dimension: int | None = None,
    arm_seed: int = 0,
    **options: Any,
) -> AnyBandit:
    """Bernoulli bandit with dependent arms: what one arm pays says something about the others."""
    if dimension is not None and prior is not None:
        remedy = "it shapes the default prior only"
        raise ValueError(message("dimension", "be None where prior is given", dimension, remedy))
    if prior is None:
        covariance = unit_vector_covariance(num_arms, dimension, arm_seed)
        prior = TruncatedMultivariateNormal(0.5, covariance.tolist())
    return _make(dependent_prior, options, problem=_build("bernoulli", num_arms, prior))


def contextual(
    num_arms: int = 10,
    num_features: int = 5,
    prior: PriorLike = None,
    *,
    likelihood: LikelihoodLike = "bernoulli",
    contexts: Any = "normal",
    **options: Any,
) -> AnyBandit:
    """Contextual bandit: what an arm pays depends on its features, which change at each step."""
    num_coefficients = count_coefficients(contexts, num_arms, num_features)
    chosen = Normal(0.0, 1.0) if prior is None else make_prior(prior)
    problem = ContextualProblem(make_likelihood(likelihood), chosen, num_arms, num_coefficients)
    return _make(contextual, options, problem=problem, contexts=contexts)


def table(features: Any = None, rewards: Any = None, **options: Any) -> AnyBandit:
    """Table bandit: visitors of a table in random order, each with the reward of every arm."""
    return _make(table, options, features=features, rewards=rewards)


PLAIN_CLASSES = BanditEnv, BanditVectorEnv
ENVIRONMENTS: dict[Callable[..., AnyBandit], tuple[Callable[..., BanditEnv], Any]] = {
    bernoulli: PLAIN_CLASSES,
    contextual: (ContextualBanditEnv, ContextualBanditVectorEnv),
    custom: PLAIN_CLASSES,
    dependent_prior: PLAIN_CLASSES,
    exponential: PLAIN_CLASSES,
    gaussian: PLAIN_CLASSES,
    poisson: PLAIN_CLASSES,
    table: (TableBanditEnv, TableBanditVectorEnv),
}
"""What an id makes -> the classes of its environments, single and natively vectorised."""

for _make_bandit in ENVIRONMENTS:  # in which `gymnasium.make` looks for render modes
    _make_bandit.metadata = METADATA  # type: ignore[attr-defined]


def list_options(make: Callable[..., AnyBandit]) -> dict[str, Parameter]:
    """Return the options of what an id makes: its own, and those of its environment's class."""
    own, shared = signature(make).parameters, signature(ENVIRONMENTS[make][0]).parameters
    known = {**own, **{name: each for name, each in shared.items() if name not in own}}
    return {name: each for name, each in known.items() if name not in ("options", "problem")}


def _make(make: Any, options: dict[str, Any], **given: Any) -> AnyBandit:
    """Make an environment, or lanes of it.

    Args:
        make: what the id makes.
        options: what is not among its own parameters.
        **given: arguments that its own parameters are turned into.

    Raises:
        TypeError: if an option is unknown; names the nearest.
    """
    is_vector = "num_envs" in options
    known = sorted({*list_options(make), *VECTOR_OPTIONS * is_vector})
    for name in options:
        if name not in known:
            remedy = suggest_nearest(name, known) or f"known are {quote_words(known)}"
            text = f"{make.__name__}() got an unexpected keyword argument {name!r}; {remedy}."
            raise TypeError(text)  # in Python's words, in which TorchRL looks for its own
    shows_horizon = options.get("observation", "constant") != "constant"
    if shows_horizon and not is_vector and options.get("horizon") is None:
        options["horizon"] = _find_time_limit()
    return ENVIRONMENTS[make][is_vector](**given, **options)  # type: ignore[no-any-return]


def _find_time_limit() -> int | None:
    """Return the time limit that `gymnasium.make` is about to set; None if there is none.

    Gymnasium passes it to no environment, so it is read among the variables of that function.
    """
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not gym.make.__code__:
        frame = frame.f_back
    if frame is None:
        return None
    limit, spec = frame.f_locals["max_episode_steps"], frame.f_locals["env_spec"]
    limit = spec.max_episode_steps if limit is None else limit
    return limit if limit is not None and limit > 0 else None


def _build(likelihood: LikelihoodLike, num_arms: int, prior: PriorLike) -> BanditProblem:
    """Build a problem; without a prior it gets the likelihood's own."""
    rewards = make_likelihood(likelihood)
    prior = rewards.default_prior if prior is None else prior
    if prior is None:
        raise ValueError(message("prior", f"be given for {rewards.name} rewards", prior))
    return BanditProblem(rewards, make_prior(prior), num_arms)


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
