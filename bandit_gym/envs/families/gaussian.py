"""Gaussian rewards."""

from bandit_gym.envs.family import FamilyEnv, PriorLike, build_problem
from bandit_gym.likelihoods import Gaussian
from bandit_gym.priors import Normal
from bandit_gym.problem import BanditProblem


class GaussianBanditEnv(FamilyEnv):
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

        Rewards and empirical means x are scaled to (1 + x / (1 + abs(x))) / 2, which tells those
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
        horizon: pulls over which the time left that "counts" and "history" show falls to 0; they
            need it, since `gym.make` keeps `max_episode_steps` from the environment.
        render_mode: None, "ansi" (text), "rgb_array" (picture) or "human"; all show the true means.
        std: standard deviation of a reward, > 0, known to the agent.

    Version history:
        v0: first version.
    """

    @staticmethod
    def make_problem(
        num_arms: int = 10, prior: PriorLike = None, *, std: float = 1.0
    ) -> BanditProblem:
        """Build Gaussian rewards of known `std`; the default prior is Normal(0, 1)."""
        return build_problem(Gaussian(std), num_arms, prior, default=Normal(0.0, 1.0))


make_vec = GaussianBanditEnv.make_vec
