"""Bernoulli rewards whose means depend on each other."""

import numpy as np

from bandit_gym.checks import MOST_DEPENDENT_ARMS, check_integer
from bandit_gym.envs.family import FamilyEnv, PriorLike, build_problem
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import TruncatedMultivariateNormal
from bandit_gym.problem import BanditProblem
from bandit_gym.typing import FloatArray

MOST_DIMENSIONS = 100_000
"""400 MB of unit vectors for as many arms as there may be."""


class DependentPriorBanditEnv(FamilyEnv):
    """Bernoulli bandit with dependent arms: what one arm pays says something about the others.

    Description:
        K arms pay with unknown probabilities, drawn together at each reset from a prior that the
        agent is told (`env.unwrapped.problem`): a normal distribution truncated to [0, 1]^K, with
        mean 0.5 and covariance u_i . u_j for random unit vectors u_i. Arms with similar vectors
        have similar means. There is no conjugate posterior: this is what Racing Thompson is for.

    Actions:
        Discrete(K): the arm to pull.

    Observation:
        Chosen by `observation`, bounded, and never a trace of the true means:

        - "constant": Discrete(1), always 0; the agent keeps its own statistics.
        - "counts": Box(0, 1, (2K + 1,)), pulls / horizon of each arm, empirical means, time left.
        - "history": Box(0, 1, (K + 2,)), last action one-hot, last reward, time left.

        `bandit_gym.envs.observations` says what can be learned from each.

    Reward:
        1 with the mean of the pulled arm as its probability, otherwise 0.

    Info:
        `reset` gives `means`, the (K,) true means, and `optimal_action`. `step` gives `regret`, the
        pseudo-regret of this pull: max(means) - means[action].

    Episode end:
        Truncated after 1,000 pulls, or the `max_episode_steps` of `gym.make`; never terminated.

    Arguments:
        num_arms: K, an integer of at least 2; 500 at most.
        prior: law of the means, as a dict like `{"name": "beta", "alpha": 5, "beta": 5}`
            or an object of `bandit_gym.priors`; None is the default above.
        means: list of K true means, the same in every episode, while `prior` goes on being what
            agents are told. None draws them from the prior at each reset.
        observation: "constant", "counts" or "history".
        horizon: pulls over which the time left that "counts" and "history" show falls to 0; they
            need it, since `gym.make` keeps `max_episode_steps` from the environment.
        render_mode: None, "ansi" (text), "rgb_array" (picture) or "human"; all show the true means.
        dimension: length of the unit vectors, at least K, or None for K; 100,000 at most. The
            longer they are, the less the arms depend on each other.
        arm_seed: seed of the unit vectors: the same seed is the same prior, in any episode.

    Version history:
        v0: first version.
    """

    @staticmethod
    def make_problem(
        num_arms: int = 10,
        prior: PriorLike = None,
        *,
        dimension: int | None = None,
        arm_seed: int = 0,
    ) -> BanditProblem:
        """Build Bernoulli rewards with correlated arms, as the manual describes.

        Raises:
            ValueError: if dimension is below K, or given together with a prior that makes it idle.
        """
        if dimension is not None and prior is not None:
            raise ValueError(
                f"dimension must be None where prior is given, got {dimension!r}; "
                "it shapes the default prior only."
            )
        if prior is None:
            covariance = unit_vector_covariance(num_arms, dimension, arm_seed)
            prior = TruncatedMultivariateNormal(0.5, covariance.tolist())
        return build_problem(Bernoulli(), num_arms, prior, default=prior)


def unit_vector_covariance(num_arms: int, dimension: int | None, arm_seed: int) -> FloatArray:
    """Compute the (K, K) matrix u_i . u_j of K random unit vectors.

    Args:
        num_arms: K.
        dimension: length of the vectors; K when None. Below K the matrix is singular.
        arm_seed: seed of the vectors.
    """
    num_arms = check_integer("num_arms", num_arms, minimum=2, maximum=MOST_DEPENDENT_ARMS)
    if dimension is None:
        dimension = num_arms
    dimension = check_integer("dimension", dimension, minimum=1, maximum=MOST_DIMENSIONS)
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


make_vec = DependentPriorBanditEnv.make_vec
