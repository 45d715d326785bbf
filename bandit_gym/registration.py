"""The environment ids, each with what it is; `bandit_gym.envs.BanditEnv` is the manual of them all.

Entry points are strings that Gymnasium resolves when an environment is first made, so that
registering imports none of them.
"""

from gymnasium.envs.registration import register

MAX_EPISODE_STEPS = 1000
PARAGRAPHS: dict[str, str] = {}
"""Id -> what it is."""


def _register(env_id: str, family: str, paragraph: str) -> None:
    PARAGRAPHS[env_id] = paragraph
    register(
        id=env_id,
        entry_point=f"bandit_gym.envs.families:{family}",
        vector_entry_point=f"bandit_gym.envs.families:{family}_vec",
        max_episode_steps=MAX_EPISODE_STEPS,
    )


_register(
    "BernoulliBandit-v0",
    "bernoulli",
    """Every pull pays 1 with the mean of its arm as the probability, otherwise 0. The default prior
    is Beta(1, 1), uniform on [0, 1].""",
)
_register(
    "CustomBandit-v0",
    "custom",
    """Rewards of any `likelihood`: "bernoulli", "exponential", "gaussian" or "poisson", a dict like
    {"name": "gaussian", "std": 0.5}, `module:Class` for a subclass of one's own of
    `bandit_gym.likelihoods.Likelihood`, or an object of such a class. The default prior is that of
    the environment named after the likelihood; a likelihood of one's own needs a prior.""",
)
_register(
    "DependentPriorBandit-v0",
    "dependent_prior",
    """Bernoulli rewards whose means are drawn together, so that what one arm pays says something
    about the others: a normal distribution truncated to [0, 1]^K, with mean 0.5 and covariance
    u_i . u_j for random unit vectors u_i. There is no conjugate posterior: this is what Racing
    Thompson is for. K is 500 at most. `dimension`, the length of the vectors, is at least K (None:
    K) and at most 100,000; the longer they are, the less the arms depend on each other. `arm_seed`
    seeds the vectors: the same seed is the same prior in any episode.""",
)
_register(
    "ExponentialBandit-v0",
    "exponential",
    """Rewards are positive and skewed, like waiting times or sums of money; their standard
    deviation is the mean of the arm. The default prior is inverse gamma with shape 3 and scale 2,
    which has mean 1 and variance 1 and is conjugate.""",
)
_register(
    "GaussianBandit-v0",
    "gaussian",
    """Rewards are normal with the mean of the arm and standard deviation `std` (1 by default),
    which the agent is told. The default prior is Normal(0, 1), which is conjugate.""",
)
_register(
    "PoissonBandit-v0",
    "poisson",
    """Rewards are Poisson counts: 0, 1, 2, ... The default prior is gamma with shape 2 and rate 1,
    which has mean 2 and variance 2 and is conjugate.""",
)

ENV_IDS = tuple(PARAGRAPHS)
