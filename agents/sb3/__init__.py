"""Stable-Baselines3, both ways: its models as agents, our agents as its policies.

- `SB3Agent`: a trained model, frozen, as an `act`/`observe` agent (`saved_model` for experiments).
- `as_policy`: an agent behind SB3's `predict`, for `evaluate_policy`.
- `GymnasiumVecEnv`: a Gymnasium vector environment as an SB3 `VecEnv`, for fast training.

Needs the extra: pip install ".[sb3]".
"""

try:
    import stable_baselines3  # noqa: F401  # only to know that it is there
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("stable_baselines3", "torch"):
        raise
    raise ImportError('agents.sb3 needs Stable-Baselines3: pip install ".[sb3]".') from None

from agents.sb3.adapters import AgentPolicy, GymnasiumVecEnv, as_policy
from agents.sb3.trained import SB3Agent, saved_model

__all__ = ["AgentPolicy", "GymnasiumVecEnv", "SB3Agent", "as_policy", "saved_model"]
