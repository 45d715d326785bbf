"""The environment ids; `bandit_gym.envs.BanditEnv` is the manual of them all.

**BernoulliBandit-v0**: A pull pays 1 with probability equal to its arm's mean, otherwise 0. The
default prior is Beta(1, 1), uniform on [0, 1]. With `graded=True` rewards are fractions of success,
drawn from a Beta distribution with that mean and the given `concentration` (None: 10).

**ContextualBandit-v0**: What an arm pays depends on its features, `num_features` numbers that are
shown before each pull; `bandit_gym.envs.ContextualBanditEnv` is the manual. `likelihood` is one of
`bandit_gym.likelihoods.LINKS`, and `prior` that of the coefficients, Normal(0, 1) by default.
`contexts` says how features arise: "normal", "fixed", "disjoint", "hierarchical", or a function
`module:name` from a generator, `num_arms` and `num_features` to an array of so many rows and
columns, without memory.

**CustomBandit-v0**: Rewards of any `likelihood`: a name of `bandit_gym.likelihoods.LIKELIHOODS`
such as "poisson", a dict like {"name": "gaussian", "std": 0.5}, `module:Class` for your own
subclass of `bandit_gym.likelihoods.Likelihood`, or an object of such a class. The default prior is
the likelihood's `default_prior`; your own may have one too, or needs a prior.

**DependentPriorBandit-v0**: Bernoulli rewards whose means are drawn together, so that what one arm
pays says something about the others: a normal distribution truncated to [0, 1]^K, with mean 0.5 and
covariance u_i . u_j for random unit vectors u_i. No conjugate posterior exists: `ExactThompson`
runs a Markov chain, `RacingThompson` draws afresh each time. K is 500 at most. `dimension`, the
length of the vectors, is at least K (None: K); the longer they are, the less the arms depend on
each other. `arm_seed` seeds the vectors: the same seed is the same prior in any episode.

**ExponentialBandit-v0**: Rewards are positive and skewed, like waiting times; an arm's standard
deviation equals its mean. The default prior is inverse gamma with shape 3 and scale 2, which has
mean 1 and variance 1 and is conjugate.

**GaussianBandit-v0**: Rewards are normal with the mean of the arm and standard deviation `std` (1
by default), which the agent is given. The default prior is Normal(0, 1), which is conjugate.

**PoissonBandit-v0**: Rewards are Poisson counts: 0, 1, 2, ... The default prior is gamma with shape
2 and rate 1, which has mean 2 and variance 2 and is conjugate.

**TableBandit-v0**: The rows of a table of yours in random order, each with a visitor's features and
the reward of every arm; `bandit_gym.envs.TableBanditEnv` is the manual. It ends after the last row,
and knows no prior, so that agents must be given one.
"""

from gymnasium.envs.registration import register

MAX_EPISODE_STEPS = 1000


def _register(env_id: str, family: str, limit: int | None = MAX_EPISODE_STEPS) -> str:
    # Gymnasium resolves strings when it first makes an environment, so that this imports none.
    entry_point = f"bandit_gym.envs.families:{family}"
    register(env_id, entry_point, max_episode_steps=limit, vector_entry_point=entry_point)
    return env_id


ENV_IDS = (
    _register("BernoulliBandit-v0", "bernoulli"),
    _register("ContextualBandit-v0", "contextual"),
    _register("CustomBandit-v0", "custom"),
    _register("DependentPriorBandit-v0", "dependent_prior"),
    _register("ExponentialBandit-v0", "exponential"),
    _register("GaussianBandit-v0", "gaussian"),
    _register("PoissonBandit-v0", "poisson"),
    _register("TableBandit-v0", "table", None),
)

FEATURE_ENV_IDS = "ContextualBandit-v0", "TableBandit-v0"
"""The ids of environments that show features of the arms, and so no counts or histories."""
