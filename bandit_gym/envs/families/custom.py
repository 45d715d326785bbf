"""Rewards of any likelihood, given by name."""

from collections.abc import Mapping
from typing import Any

from bandit_gym.checks import message
from bandit_gym.envs.family import FamilyEnv, PriorLike, build_problem
from bandit_gym.likelihoods import Likelihood, make_likelihood
from bandit_gym.priors import Beta, Gamma, InverseGamma, Normal, Prior
from bandit_gym.problem import BanditProblem

DEFAULTS: dict[str, Prior] = {
    "bernoulli": Beta(1.0, 1.0),
    "exponential": InverseGamma(3.0, 2.0),
    "gaussian": Normal(0.0, 1.0),
    "poisson": Gamma(2.0, 1.0),
}
"""Likelihood -> prior of the environment that is named after it."""


class CustomBanditEnv(FamilyEnv):
    """Custom bandit: rewards of the likelihood that is named, also of one's own.

    Description:
        K arms pay rewards of `likelihood` with unknown means, drawn at each reset from a prior that
        the agent is told (`env.unwrapped.problem`): by default that of the environment named after
        the likelihood. A likelihood of one's own needs a prior.

    Actions:
        Discrete(K): the arm to pull.

    Observation:
        Chosen by `observation`, bounded, and never a trace of the true means:

        - "constant": Discrete(1), always 0; the agent keeps its own statistics.
        - "counts": Box(0, 1, (2K + 1,)), pulls / horizon of each arm, empirical means, time left.
        - "history": Box(0, 1, (K + 2,)), last action one-hot, last reward, time left.

        Where rewards may leave [0, 1] they and the means are scaled, as in `GaussianBandit-v0`.
        `bandit_gym.envs.observations` says what can be learned from each.

    Reward:
        Of the likelihood, with the mean of the pulled arm.

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
        likelihood: "bernoulli", "exponential", "gaussian" or "poisson", or a dict like
            `{"name": "gaussian", "std": 0.5}`; `module:Class` names one's own, a subclass of
            `bandit_gym.likelihoods.Likelihood`. An object of such a class is accepted too.

    Version history:
        v0: first version.
    """

    @staticmethod
    def make_problem(
        num_arms: int = 10,
        prior: PriorLike = None,
        *,
        likelihood: Likelihood | Mapping[str, Any] | str = "bernoulli",
    ) -> BanditProblem:
        """Build rewards of the likelihood; its default prior is the named environment's.

        Raises:
            ValueError: if the likelihood is one's own and there is no prior.
        """
        made = make_likelihood(likelihood)
        default = DEFAULTS.get(made.name)
        if prior is None and default is None:
            raise ValueError(message("prior", f"be given for {made.name} rewards", prior))
        return build_problem(made, num_arms, prior, default=default or {})


make_vec = CustomBanditEnv.make_vec
