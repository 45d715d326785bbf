"""Counts as a network learns from them fastest: what follows from them, spread over [-1, 1]."""

from __future__ import annotations

import torch
from gymnasium.spaces import Space
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor


class ScaledCounts(BaseFeaturesExtractor):
    """Turn counts into posterior means under a uniform prior, their precision, and the time left.

    The first few pulls matter most, and among counts over the horizon they are next to nothing.

    Args:
        space: of the observation mode `counts`, (2 K + 1,).
        horizon: T, by which the pulls in it were divided.
    """

    def __init__(self, space: Space, horizon: int) -> None:
        super().__init__(space, space.shape[0])
        self.num_arms = space.shape[0] // 2
        self.horizon = horizon

    def forward(self, counts: torch.Tensor) -> torch.Tensor:
        """Return (B, 2 K + 1) features of (B, 2 K + 1) observations."""
        pulls, averages, left = counts.split([self.num_arms, self.num_arms, 1], dim=1)
        pulls = pulls * self.horizon
        means = (pulls * averages + 1) / (pulls + 2)
        return torch.cat([4 * means - 2, 2 / (pulls + 1).sqrt() - 1, 2 * left - 1], dim=1)
