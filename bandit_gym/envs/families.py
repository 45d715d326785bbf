"""What each registered id makes: one environment, or N lanes of it where `num_envs` is given.

`BanditEnv` is the manual of them all: its options, such as `observation`, are options of every id
here.
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
    """Bernoulli bandit. A pull pays 1 with probability equal to its arm's mean, otherwise 0.

    Arguments:
        num_arms: K >= 2.
        prior: of the means; None is Beta(1, 1), uniform on [0, 1].
        graded: whether rewards are fractions of success, drawn from a Beta distribution with the
            arm's mean, in place of 0 and 1.
        concentration: of that distribution, alpha + beta; None is 10.
        **options: those of `bandit_gym.envs.BanditEnv`.
    """
    likelihood = {"name": "bernoulli", "graded": graded, "concentration": concentration}
    return _make(bernoulli, options, problem=_build(likelihood, num_arms, prior))


def exponential(num_arms: int = 10, prior: PriorLike = None, **options: Any) -> AnyBandit:
    """Exponential bandit. Rewards are positive and skewed, like waiting times.

    An arm's standard deviation equals its mean.

    Arguments:
        num_arms: K >= 2.
        prior: of the means; None is inverse gamma with shape 3 and scale 2, which has mean 1 and
            variance 1 and is conjugate.
        **options: those of `bandit_gym.envs.BanditEnv`.
    """
    return _make(exponential, options, problem=_build("exponential", num_arms, prior))


def gaussian(
    num_arms: int = 10, prior: PriorLike = None, *, std: float | None = 1.0, **options: Any
) -> AnyBandit:
    """Gaussian bandit. Rewards are normal, with a known standard deviation or without.

    Arguments:
        num_arms: K >= 2.
        prior: of the means; None is Normal(0, 1), which is conjugate. Without a known standard
            deviation also of these, see `NormalInverseGamma`; None is one of mean 0, precision 1,
            shape 3 and scale 2: means have variance 1, and that of rewards is 1 on average.
        std: the standard deviation of every arm's rewards, > 0; or None: each reset draws that of
            each arm too, and reports it as `stds`, which agents are not given.
        **options: those of `bandit_gym.envs.BanditEnv`.
    """
    likelihood = {"name": "gaussian", "std": std}
    return _make(gaussian, options, problem=_build(likelihood, num_arms, prior))


def poisson(num_arms: int = 10, prior: PriorLike = None, **options: Any) -> AnyBandit:
    """Poisson bandit. Rewards are counts: 0, 1, 2, ...

    Arguments:
        num_arms: K >= 2.
        prior: of the means; None is gamma with shape 2 and rate 1, which has mean 2 and variance 2
            and is conjugate.
        **options: those of `bandit_gym.envs.BanditEnv`.
    """
    return _make(poisson, options, problem=_build("poisson", num_arms, prior))


def custom(
    num_arms: int = 10,
    prior: PriorLike = None,
    *,
    likelihood: LikelihoodLike = "bernoulli",
    **options: Any,
) -> AnyBandit:
    """Custom bandit: rewards of the likelihood that is named, also a user's.

    Arguments:
        num_arms: K >= 2.
        prior: of the means; None is the likelihood's `default_prior`. Your own likelihood may have
            one too, or needs a prior.
        likelihood: a name of `bandit_gym.likelihoods.LIKELIHOODS` such as "poisson", a dict like
            {"name": "gaussian", "std": 0.5}, `module:Class` for your own subclass of
            `bandit_gym.likelihoods.Likelihood`, or an object of such a class.
        **options: those of `bandit_gym.envs.BanditEnv`.
    """
    return _make(custom, options, problem=_build(likelihood, num_arms, prior))


def dependent_prior(
    num_arms: int = 10,
    prior: PriorLike = None,
    *,
    dimension: int | None = None,
    arm_seed: int = 0,
    **options: Any,
) -> AnyBandit:
    """Bernoulli bandit with dependent arms: what one arm pays says something about the others.

    Means are drawn together from a normal distribution truncated to [0, 1]^K, with mean 0.5 and
    covariance u_i . u_j for random unit vectors u_i. No conjugate posterior exists: `ExactThompson`
    runs a Markov chain, `RacingThompson` draws afresh each time.

    Arguments:
        num_arms: K from 2 to 500.
        prior: of the means, in place of this one.
        dimension: length of the vectors, >= K; None is K. The longer they are, the less the arms
            depend on each other.
        arm_seed: seed of the vectors: the same seed is the same prior in any episode.
        **options: those of `bandit_gym.envs.BanditEnv`.
    """
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
    """Contextual bandit: what an arm pays depends on its features, which change at each step.

    Arguments:
        num_arms: K >= 2.
        num_features: d; with blocks, of one visitor.
        prior: of the coefficients; None is Normal(0, 1).
        likelihood: a name of `bandit_gym.likelihoods.LINKS`, a dict with options, or an object.
        contexts: "normal", "fixed", "disjoint" or "hierarchical", or `module:name` of a function
            from a generator, `num_arms` and `num_features` to an array of so many rows and
            columns, without memory.
        **options: those of `bandit_gym.envs.ContextualBanditEnv`, where they are explained.
    """
    num_coefficients = count_coefficients(contexts, num_arms, num_features)
    chosen = Normal(0.0, 1.0) if prior is None else make_prior(prior)
    problem = ContextualProblem(make_likelihood(likelihood), chosen, num_arms, num_coefficients)
    return _make(contextual, options, problem=problem, contexts=contexts)


def table(features: Any = None, rewards: Any = None, **options: Any) -> AnyBandit:
    """Table bandit: visitors of a table in random order, each with the reward of every arm.

    It ends after the last row, and knows no prior, so that agents must be given one.

    Arguments:
        features: of the visitors; see `bandit_gym.envs.TableBanditEnv`.
        rewards: of every arm; likewise.
        **options: those of `bandit_gym.envs.TableBanditEnv`.
    """
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
