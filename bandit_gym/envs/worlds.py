"""The five built-in problems, built from the keyword arguments of their environments.

Single and vector environments share these functions, so that an id means one problem in both.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bandit_gym.checks import check_integer, check_parameter
from bandit_gym.dynamics import draw_means
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Likelihood, Poisson
from bandit_gym.priors import (
    Beta,
    Gamma,
    InverseGamma,
    Normal,
    Prior,
    TruncatedMultivariateNormal,
    prior_from_dict,
)
from bandit_gym.problem import BanditProblem
from bandit_gym.typing import FloatArray

PriorLike = Prior | Mapping[str, Any] | None


def bernoulli_problem(num_arms: int = 10, prior: PriorLike = None) -> BanditProblem:
    """Build Bernoulli rewards with a Beta(1, 1) prior, uniform on [0, 1], unless told otherwise."""
    return _problem(Bernoulli(), num_arms, Beta(1.0, 1.0) if prior is None else prior)


def exponential_problem(num_arms: int = 10, prior: PriorLike = None) -> BanditProblem:
    """Build exponential rewards with an inverse gamma prior of mean 1 and variance 1."""
    return _problem(Exponential(), num_arms, InverseGamma(3.0, 2.0) if prior is None else prior)


def gaussian_problem(
    num_arms: int = 10, prior: PriorLike = None, *, std: float = 1.0
) -> BanditProblem:
    """Build Gaussian rewards of known standard deviation with a Normal(0, 1) prior."""
    return _problem(Gaussian(std), num_arms, Normal(0.0, 1.0) if prior is None else prior)


def poisson_problem(num_arms: int = 10, prior: PriorLike = None) -> BanditProblem:
    """Build Poisson rewards with a gamma prior of mean 2 and variance 2."""
    return _problem(Poisson(), num_arms, Gamma(2.0, 1.0) if prior is None else prior)


def dependent_problem(
    num_arms: int = 10,
    prior: PriorLike = None,
    *,
    dimension: int | None = None,
    arm_seed: int = 0,
) -> BanditProblem:
    """Build Bernoulli rewards with correlated arms: a truncated multivariate normal on [0, 1]^K.

    Its mean is 0.5 and its covariance u_i . u_j, for random unit vectors u_i: the arms are similar
    where their vectors are.

    Args:
        num_arms: K.
        prior: replaces the prior described above.
        dimension: length of the unit vectors; K when None. Below K the covariance is singular and
            the prior has no density.
        arm_seed: seed of the unit vectors; the same seed means the same covariance.

    Raises:
        ValueError: if dimension is below K, or given together with a prior that makes it idle.
    """
    if prior is None:
        covariance = unit_vector_covariance(num_arms, dimension, arm_seed)
        prior = TruncatedMultivariateNormal(0.5, covariance.tolist())
    elif dimension is not None:
        raise ValueError(
            f"dimension must be None where prior is given, got {dimension!r}; "
            "it shapes the default prior only."
        )
    return _problem(Bernoulli(), num_arms, prior)


def unit_vector_covariance(num_arms: int, dimension: int | None, arm_seed: int) -> FloatArray:
    """Compute the (K, K) matrix u_i . u_j of K random unit vectors."""
    num_arms = check_integer("num_arms", num_arms, minimum=2)
    dimension = num_arms if dimension is None else check_integer("dimension", dimension, minimum=1)
    if dimension < num_arms:
        raise ValueError(
            f"dimension must be at least num_arms={num_arms}, got {dimension!r}; below it the "
            "covariance of the arms is singular and the prior has no density."
        )
    rng = np.random.default_rng(check_integer("arm_seed", arm_seed, minimum=0))
    vectors = rng.standard_normal((num_arms, dimension))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    covariance: FloatArray = vectors @ vectors.T
    np.fill_diagonal(covariance, 1.0)
    return covariance


def check_means(means: Sequence[float] | None, problem: BanditProblem) -> FloatArray | None:
    """Return the means of a fixed instance as a (K,) array, or None."""
    if means is None:
        return None
    checked = check_parameter("means", means)
    if isinstance(checked, float):
        raise TypeError(f"means must be a list of one number per arm, got {means!r}.")
    values = np.array(checked)
    if len(values) != problem.num_arms:
        raise ValueError(
            f"means must have num_arms={problem.num_arms} entries, got {len(values)}; "
            f"pass num_arms={len(values)} too."
        )
    if not problem.likelihood.contains(values).all():
        low, high = problem.likelihood.support
        raise ValueError(
            f"means must be possible for {problem.likelihood.name} rewards, "
            f"from {low:g} to {high:g}, got {means!r}."
        )
    return values


def draw_instances(
    problem: BanditProblem,
    fixed_means: FloatArray | None,
    rngs: Sequence[np.random.Generator],
) -> FloatArray:
    """Return the (N, K) means of N new episodes, each drawn with its own generator.

    A prior whose draws cost more one by one may offer `sample_each(rngs)`, equal to the last bit.
    """
    if fixed_means is not None:
        return np.tile(fixed_means, (len(rngs), 1))
    prior: Any = problem.prior
    if problem.offers("sample_each"):
        return np.array(prior.sample_each(rngs), dtype=np.float64)
    return np.stack([draw_means(problem.prior, rng, problem.num_arms) for rng in rngs])


def _problem(
    likelihood: Likelihood, num_arms: int, prior: Prior | Mapping[str, Any]
) -> BanditProblem:
    if isinstance(prior, Mapping):
        prior = prior_from_dict(prior)
    return BanditProblem(likelihood, prior, num_arms)
