"""The law of the next action of a trained policy. Letters: K arms, N lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

Memory = tuple[np.ndarray, ...]


def policy_law(
    policy: Any,
    batch: np.ndarray,
    memory: Memory | None,
    is_start: np.ndarray,
    masks: dict[str, Any] | None = None,
) -> np.ndarray:
    """Return the (N, K) probabilities from which a policy draws, as its own `predict` does.

    Args:
        policy: of SB3, with an actor that has a distribution.
        batch: (N, ...) observations.
        memory: of a recurrent policy; None at its start.
        is_start: (N,) True where an episode starts.
        masks: what the policy is told beside, of the arms that can be pulled.
    """
    policy.set_training_mode(False)
    observation, _ = policy.obs_to_tensor(batch)
    with torch.no_grad():
        if not hasattr(policy, "lstm_actor"):
            law = policy.get_distribution(observation, **(masks or {}))
        else:
            empty = np.zeros(policy.lstm_hidden_state_shape).repeat(len(batch), axis=1)
            states, starts = (
                tuple(torch.tensor(part, dtype=torch.float32) for part in memory or (empty, empty)),
                torch.tensor(is_start, dtype=torch.float32),
            )
            law, _ = policy.get_distribution(observation, states, starts)
        probabilities = law.distribution.probs.numpy().astype(np.float64)
    return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))
