"""The registered environments: one class per problem, each with its manual."""

from collections.abc import Sequence

from bandit_gym.envs import worlds
from bandit_gym.envs.bandit import BanditEnv
from bandit_gym.envs.worlds import PriorLike


class BernoulliBanditEnv(BanditEnv):
    """Bernoulli bandit: every pull pays 0 or 1.

    Description:
        K arms pay with unknown probabilities, drawn at each reset from a prior that the agent is
        told (`env.unwrapped.problem`): Beta(1, 1) by default, uniform on [0, 1]. The aim is to lose
        little to the best arm while finding out which one that is.

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
        num_arms: K, an integer of at least 2.
        prior: law of the means, as a dict like `{"name": "beta", "alpha": 5, "beta": 5}`
            or an object of `bandit_gym.priors`; None is the default above.
        means: list of K true means, the same in every episode, while `prior` goes on being what
            agents are told. None draws them from the prior at each reset.
        observation: "constant", "counts" or "history".
        render_mode: None, "ansi" (text table) or "rgb_array" (picture); both show the true means.

    Version history:
        v0: first version.
    """

    def __init__(
        self,
        num_arms: int = 10,
        prior: PriorLike = None,
        *,
        means: Sequence[float] | None = None,
        observation: str = "constant",
        render_mode: str | None = None,
    ) -> None:
        problem = worlds.bernoulli_problem(num_arms, prior)
        super().__init__(problem, means=means, observation=observation, render_mode=render_mode)


class ExponentialBanditEnv(BanditEnv):
    """Exponential bandit: rewards are positive and skewed, like waiting times or sums of money.

    Description:
        K arms pay exponential rewards with unknown means, drawn at each reset from a prior that the
        agent is told (`env.unwrapped.problem`): by default inverse gamma with shape 3 and scale 2,
        which has mean 1 and variance 1 and is conjugate.

    Actions:
        Discrete(K): the arm to pull.

    Observation:
        Chosen by `observation`, bounded, and never a trace of the true means:

        - "constant": Discrete(1), always 0; the agent keeps its own statistics.
        - "counts": Box(0, 1, (2K + 1,)), pulls / horizon of each arm, scaled means, time left.
        - "history": Box(0, 1, (K + 2,)), last action one-hot, scaled reward, time left.

        Rewards and empirical means x are scaled to x / (1 + x), which tells those
        of order one apart best.
        `bandit_gym.envs.observations` says what can be learned from each.

    Reward:
        Exponential with the mean of the pulled arm, which is its standard deviation too.

    Info:
        `reset` gives `means`, the (K,) true means, and `optimal_action`. `step` gives `regret`, the
        pseudo-regret of this pull: max(means) - means[action].

    Episode end:
        Truncated after 1,000 pulls, or the `max_episode_steps` of `gym.make`; never terminated.

    Arguments:
        num_arms: K, an integer of at least 2.
        prior: law of the means, as a dict like `{"name": "inverse_gamma", "shape": 3, "scale": 2}`
            or an object of `bandit_gym.priors`; None is the default above.
        means: list of K true means, the same in every episode, while `prior` goes on being what
            agents are told. None draws them from the prior at each reset.
        observation: "constant", "counts" or "history".
        render_mode: None, "ansi" (text table) or "rgb_array" (picture); both show the true means.

    Version history:
        v0: first version.
    """

    def __init__(
        self,
        num_arms: int = 10,
        prior: PriorLike = None,
        *,
        means: Sequence[float] | None = None,
        observation: str = "constant",
        render_mode: str | None = None,
    ) -> None:
        problem = worlds.exponential_problem(num_arms, prior)
        super().__init__(problem, means=means, observation=observation, render_mode=render_mode)


class GaussianBanditEnv(BanditEnv):
    """Gaussian bandit: normal rewards with a known standard deviation.

    Description:
        K arms pay normal rewards with unknown means, drawn at each reset from a prior that the
        agent is told (`env.unwrapped.problem`): Normal(0, 1) by default.

    Actions:
        Discrete(K): the arm to pull.

    Observation:
        Chosen by `observation`, bounded, and never a trace of the true means:

        - "constant": Discrete(1), always 0; the agent keeps its own statistics.
        - "counts": Box(0, 1, (2K + 1,)), pulls / horizon of each arm, scaled means, time left.
        - "history": Box(0, 1, (K + 2,)), last action one-hot, scaled reward, time left.

        Rewards and empirical means x are scaled to (1 + x / (1 + |x|)) / 2, which tells those
        of order one apart best.
        `bandit_gym.envs.observations` says what can be learned from each.

    Reward:
        Normal with the mean of the pulled arm and the standard deviation `std`.

    Info:
        `reset` gives `means`, the (K,) true means, and `optimal_action`. `step` gives `regret`, the
        pseudo-regret of this pull: max(means) - means[action].

    Episode end:
        Truncated after 1,000 pulls, or the `max_episode_steps` of `gym.make`; never terminated.

    Arguments:
        num_arms: K, an integer of at least 2.
        prior: law of the means, as a dict like `{"name": "normal", "mean": 0, "std": 1}`
            or an object of `bandit_gym.priors`; None is the default above.
        means: list of K true means, the same in every episode, while `prior` goes on being what
            agents are told. None draws them from the prior at each reset.
        observation: "constant", "counts" or "history".
        render_mode: None, "ansi" (text table) or "rgb_array" (picture); both show the true means.
        std: standard deviation of a reward, > 0, known to the agent.

    Version history:
        v0: first version.
    """

    def __init__(
        self,
        num_arms: int = 10,
        prior: PriorLike = None,
        *,
        means: Sequence[float] | None = None,
        observation: str = "constant",
        render_mode: str | None = None,
        std: float = 1.0,
    ) -> None:
        problem = worlds.gaussian_problem(num_arms, prior, std=std)
        super().__init__(problem, means=means, observation=observation, render_mode=render_mode)


class PoissonBanditEnv(BanditEnv):
    """Poisson bandit: rewards are counts.

    Description:
        K arms pay Poisson counts with unknown means, drawn at each reset from a prior that the
        agent is told (`env.unwrapped.problem`): by default gamma with shape 2 and rate 1, which has
        mean 2 and variance 2 and is conjugate.

    Actions:
        Discrete(K): the arm to pull.

    Observation:
        Chosen by `observation`, bounded, and never a trace of the true means:

        - "constant": Discrete(1), always 0; the agent keeps its own statistics.
        - "counts": Box(0, 1, (2K + 1,)), pulls / horizon of each arm, scaled means, time left.
        - "history": Box(0, 1, (K + 2,)), last action one-hot, scaled reward, time left.

        Rewards and empirical means x are scaled to x / (1 + x), which tells those
        of order one apart best.
        `bandit_gym.envs.observations` says what can be learned from each.

    Reward:
        Poisson with the mean of the pulled arm: 0, 1, 2, ...

    Info:
        `reset` gives `means`, the (K,) true means, and `optimal_action`. `step` gives `regret`, the
        pseudo-regret of this pull: max(means) - means[action].

    Episode end:
        Truncated after 1,000 pulls, or the `max_episode_steps` of `gym.make`; never terminated.

    Arguments:
        num_arms: K, an integer of at least 2.
        prior: law of the means, as a dict like `{"name": "gamma", "shape": 2, "rate": 1}`
            or an object of `bandit_gym.priors`; None is the default above.
        means: list of K true means, the same in every episode, while `prior` goes on being what
            agents are told. None draws them from the prior at each reset.
        observation: "constant", "counts" or "history".
        render_mode: None, "ansi" (text table) or "rgb_array" (picture); both show the true means.

    Version history:
        v0: first version.
    """

    def __init__(
        self,
        num_arms: int = 10,
        prior: PriorLike = None,
        *,
        means: Sequence[float] | None = None,
        observation: str = "constant",
        render_mode: str | None = None,
    ) -> None:
        problem = worlds.poisson_problem(num_arms, prior)
        super().__init__(problem, means=means, observation=observation, render_mode=render_mode)


class DependentPriorBanditEnv(BanditEnv):
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
        num_arms: K, an integer of at least 2.
        prior: law of the means, as a dict like `{"name": "beta", "alpha": 5, "beta": 5}`
            or an object of `bandit_gym.priors`; None is the default above.
        means: list of K true means, the same in every episode, while `prior` goes on being what
            agents are told. None draws them from the prior at each reset.
        observation: "constant", "counts" or "history".
        render_mode: None, "ansi" (text table) or "rgb_array" (picture); both show the true means.
        dimension: length of the unit vectors, at least K, or None for K. The longer they are, the
            less the arms depend on each other.
        arm_seed: seed of the unit vectors: the same seed is the same prior, in any episode.

    Version history:
        v0: first version.
    """

    def __init__(
        self,
        num_arms: int = 10,
        prior: PriorLike = None,
        *,
        means: Sequence[float] | None = None,
        observation: str = "constant",
        render_mode: str | None = None,
        dimension: int | None = None,
        arm_seed: int = 0,
    ) -> None:
        problem = worlds.dependent_problem(num_arms, prior, dimension=dimension, arm_seed=arm_seed)
        super().__init__(problem, means=means, observation=observation, render_mode=render_mode)
