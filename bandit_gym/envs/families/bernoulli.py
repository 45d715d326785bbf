"""Bernoulli rewards."""

from bandit_gym.envs.family import FamilyEnv, PriorLike, build_problem
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem


class BernoulliBanditEnv(FamilyEnv):
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
        horizon: pulls over which the time left that "counts" and "history" show falls to 0; they
            need it, since `gym.make` keeps `max_episode_steps` from the environment.
        render_mode: None, "ansi" (text), "rgb_array" (picture) or "human"; all show the true means.

    Version history:
        v0: first version.
    """

    @staticmethod
    def make_problem(num_arms: int = 10, prior: PriorLike = None) -> BanditProblem:
        """Build Bernoulli rewards; the default prior is Beta(1, 1), uniform on [0, 1]."""
        return build_problem(Bernoulli(), num_arms, prior, default=Beta(1.0, 1.0))


make_vec = BernoulliBanditEnv.make_vec
