"""The registered vector environments: one small class per problem."""

from typing import Any

from bandit_gym.envs import worlds
from bandit_gym.envs.vector import BanditVectorEnv
from bandit_gym.envs.worlds import PriorLike


class BernoulliBanditVectorEnv(BanditVectorEnv):
    """N lanes of `BernoulliBanditEnv`, which is the manual."""

    def __init__(
        self, num_envs: int = 1, *, num_arms: int = 10, prior: PriorLike = None, **options: Any
    ) -> None:
        super().__init__(num_envs, worlds.bernoulli_problem(num_arms, prior), **options)


class ExponentialBanditVectorEnv(BanditVectorEnv):
    """N lanes of `ExponentialBanditEnv`, which is the manual."""

    def __init__(
        self, num_envs: int = 1, *, num_arms: int = 10, prior: PriorLike = None, **options: Any
    ) -> None:
        super().__init__(num_envs, worlds.exponential_problem(num_arms, prior), **options)


class GaussianBanditVectorEnv(BanditVectorEnv):
    """N lanes of `GaussianBanditEnv`, which is the manual."""

    def __init__(
        self,
        num_envs: int = 1,
        *,
        num_arms: int = 10,
        prior: PriorLike = None,
        std: float = 1.0,
        **options: Any,
    ) -> None:
        problem = worlds.gaussian_problem(num_arms, prior, std=std)
        super().__init__(num_envs, problem, **options)


class PoissonBanditVectorEnv(BanditVectorEnv):
    """N lanes of `PoissonBanditEnv`, which is the manual."""

    def __init__(
        self, num_envs: int = 1, *, num_arms: int = 10, prior: PriorLike = None, **options: Any
    ) -> None:
        super().__init__(num_envs, worlds.poisson_problem(num_arms, prior), **options)


class DependentPriorBanditVectorEnv(BanditVectorEnv):
    """N lanes of `DependentPriorBanditEnv`, which is the manual."""

    def __init__(
        self,
        num_envs: int = 1,
        *,
        num_arms: int = 10,
        prior: PriorLike = None,
        dimension: int | None = None,
        arm_seed: int = 0,
        **options: Any,
    ) -> None:
        problem = worlds.dependent_problem(num_arms, prior, dimension=dimension, arm_seed=arm_seed)
        super().__init__(num_envs, problem, **options)
