"""The environment ids, as strings that Gymnasium resolves when an environment is first made.

They are read off the names of files, so that a file in `envs/families` is all that a new one takes,
and that importing the package imports none of them.
"""

from pathlib import Path

from gymnasium.envs.registration import register, registry

_FOLDER = Path(__file__).parent / "envs" / "families"
_MODULES = sorted(path.stem for path in _FOLDER.glob("[!_]*.py"))
_NAMES = {f"{module.title().replace('_', '')}Bandit": module for module in _MODULES}

ENV_IDS = tuple(f"{name}-v0" for name in _NAMES)
MAX_EPISODE_STEPS = 1000


def register_envs() -> None:
    """Register every id of `ENV_IDS` that Gymnasium does not know yet; safe to call twice."""
    for name, module in _NAMES.items():
        if f"{name}-v0" not in registry:
            register(
                id=f"{name}-v0",
                entry_point=f"bandit_gym.envs.families.{module}:{name}Env",
                vector_entry_point=f"bandit_gym.envs.families.{module}:make_vec",
                max_episode_steps=MAX_EPISODE_STEPS,
            )
