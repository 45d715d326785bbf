"""The environment ids; the functions of `bandit_gym.envs.families` say what each one is."""

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
