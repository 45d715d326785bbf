"""Poisson rewards."""

from bandit_gym.envs.family import FamilyEnv, PriorLike, build_problem
from bandit_gym.likelihoods import Poisson
from bandit_gym.priors import Gamma
from bandit_gym.problem import BanditProblem


class PoissonBanditEnv(FamilyEnv):
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
        horizon: pulls over which the time left that "counts" and "history" show falls to 0; they
            need it, since `gym.make` keeps `max_episode_steps` from the environment.
        render_mode: None, "ansi" (text), "rgb_array" (picture) or "human"; all show the true means.

    Version history:
        v0: first version.
    """

    @staticmethod
    def make_problem(num_arms: int = 10, prior: PriorLike = None) -> BanditProblem:
        """Build Poisson rewards; the default prior has mean 2 and variance 2."""
        return build_problem(Poisson(), num_arms, prior, default=Gamma(2.0, 1.0))


make_vec = PoissonBanditEnv.make_vec
