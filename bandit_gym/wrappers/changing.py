"""Means that move while the episode goes on.

Letters: N lanes, M of them, K arms.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from bandit_gym.checks import check_integer, check_real, message
from bandit_gym.checks.typing import BoolArray, FloatArray, IntArray
from bandit_gym.envs.bandit import World
from bandit_gym.envs.dynamics import draw_means
from bandit_gym.numerics.streams import MOVES, SWITCHES
from bandit_gym.wrappers.effects import Effect, Told

WAYS = "std, period and probability"


class Moving(Effect):
    """Means move before each pull but the first; see `Drift`."""

    kind = "means"

    def __init__(
        self,
        world: World,
        std: float | None,
        period: int | None,
        probability: float | None,
    ) -> None:
        super().__init__(world)
        given = std, period, probability
        if sum(value is None for value in given) != 2:  # an array equals nothing at once
            raise ValueError(message(WAYS, "be a number and None twice", given))
        self._std = self._period = self._probability = None
        if std is not None:
            self._std = check_real("std", std, above=0.0)
        if period is not None:
            self._period = check_integer("period", period, minimum=1)
        if probability is not None:
            self._probability = check_real("probability", probability, above=0.0, maximum=1.0)
        self._low, self._high = world.problem.arm_support().T
        self._shown = np.zeros((self.num_lanes, self.num_arms))
        self._rngs: dict[int, np.random.Generator] = {}

    def restart(self, lanes: IntArray) -> Told:
        """Begin at the means that the episode begins with."""
        if self._std is None:
            fresh = self.world.streams.generators(SWITCHES, lanes)
            self._rngs |= dict(zip(lanes.tolist(), fresh, strict=True))
        return super().restart(lanes)

    def begin(self, lanes: IntArray, actions: IntArray) -> None:
        """Move the means of the lanes that have played before."""
        movers = lanes[self.steps[lanes] > 0]
        means = self.world.means
        if self._std is not None:
            means[movers] = self._walk(means[movers], movers)
        else:
            for lane in movers[self._is_switching(movers)].tolist():
                means[lane] = draw_means(self.world.problem.prior, self._rngs[lane], self.num_arms)
        if len(movers):
            self.world.change(means)
        self._shown = means

    def follow(
        self, lanes: IntArray, actions: IntArray, rewards: FloatArray
    ) -> tuple[FloatArray, Told]:
        """Tell the means that were played on."""
        return super().follow(lanes, actions, rewards)[0], {"means": self._shown}

    def _walk(self, means: FloatArray, lanes: IntArray) -> FloatArray:
        """Return (M, K) means after a step, turned back at the ends of what the prior allows."""
        first = (self.steps[lanes] - 1) * self.num_arms
        uniforms = self.world.streams.uniforms(MOVES, lanes, first, self.num_arms).T
        steps = special.ndtri(np.maximum(uniforms, np.finfo(float).tiny))
        return reflect(means + self._std * steps, self._low, self._high)

    def _is_switching(self, lanes: IntArray) -> BoolArray:
        now = self.steps[lanes]
        if self._period is not None:
            return now % self._period == 0  # type: ignore[no-any-return]
        return self.world.streams.uniforms(MOVES, lanes, now, 1)[0] < self._probability


def reflect(x: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return (M, K) numbers turned back at the (K,) ends, as often as it takes, into [low, high].

    Ends may be infinite.
    """
    with np.errstate(invalid="ignore"):  # of what is not chosen
        above = np.where(np.isfinite(low), low + np.abs(x - low), x)
        below = np.where(np.isfinite(high), high - np.abs(high - x), x)
        width = high - low
        folded = low + (width - np.abs(width - np.mod(x - low, 2 * width)))
    found = np.where(np.isfinite(low), above, below)
    return np.where(np.isfinite(width), np.clip(folded, low, high), found)
