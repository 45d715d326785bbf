"""The environment ids, as strings that Gymnasium resolves when an environment is first made."""

from gymnasium.envs.registration import register, registry

_NAMES = (
    "BernoulliBandit",
    "ExponentialBandit",
    "GaussianBandit",
    "PoissonBandit",
    "DependentPriorBandit",
)

ENV_IDS = tuple(f"{name}-v0" for name in _NAMES)
MAX_EPISODE_STEPS = 1000


def register_envs() -> None:
    """Register every id of `ENV_IDS` that Gymnasium does not know yet; safe to call twice."""
    for name, env_id in zip(_NAMES, ENV_IDS, strict=True):
        if env_id not in registry:
            register(
                id=env_id,
                entry_point=f"bandit_gym.envs.families:{name}Env",
                vector_entry_point=f"bandit_gym.envs.vector_families:{name}VectorEnv",
                max_episode_steps=MAX_EPISODE_STEPS,
            )
