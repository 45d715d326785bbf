"""What an agent sees of a bandit: the actions and rewards of the episode so far, never the means.

==========  ======================  ===============================================================
mode        space                   entries
==========  ======================  ===============================================================
constant    Discrete(1)             0
counts      Box(0, 1, (2K + 1,))    pulls / horizon (K), scaled empirical means (K), time left (1)
history     Box(0, 1, (K + 2,))     last action one-hot (K), scaled last reward (1), time left (1)
==========  ======================  ===============================================================

What can be learned from each:

- constant: a policy is one fixed distribution over arms. Learning happens inside one instance, in a
  learner that keeps statistics of its own (every agent of `agents`) or trains on fixed `means`.
  Trained across instances, it cannot beat chance.
- counts: pulls and empirical means are sufficient for the posterior, unless deviations are
  unknown. So the best policy of all is a function of this observation, and a memoryless network can
  learn it.
- history: one step says next to nothing; a recurrent policy can add the steps up by itself, in the
  manner of RL^2, and must discover that it should.

Rewards and empirical means x are scaled to [0, 1] by the support of the mean: unchanged on [0, 1],
x / (1 + x) on [0, inf), 1 / (1 - x) on (-inf, 0], (1 + x / (1 + abs(x))) / 2 on the reals. The
last three report rewards of order one apart best. What a likelihood of your own pays beyond the
support is shown as its end. Where there is nothing to show yet (an arm never pulled, no reward) the
entry is 0.5. Time left falls from 1 to 0 over the horizon, and stays there. The horizon is the time
limit of `gymnasium.make` or `make_vec` unless another is given.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from numpy.typing import NDArray

from bandit_gym.checks import check_choice, check_integer, message
from bandit_gym.checks.typing import BoolArray, FloatArray, Info, IntArray

OBSERVATIONS = ("constant", "counts", "history")
NO_DATA_VALUE = 0.5


class PlayRecord:
    """The pulls and rewards of every lane's episode so far, and what an agent sees of them.

    Observations are made from this record, which never holds the means, so they cannot leak them.

    Args:
        num_envs: N.
        num_arms: K.
        observation: one of `OBSERVATIONS`.
        support: (low, high) of the likelihood's mean, which decides how rewards are scaled.
        horizon: pulls at which the time is up, at least 1; "constant" does not need it.

    Attributes:
        pulls: (N, K) pulls of each arm.
        reward_sums: (N, K) what they paid.
        lengths: (N,) pulls of all arms.
        regrets: (N,) what they lost to the arms that were best then.
        last_actions: (N,) arms pulled last, -1 before the first.
        last_rewards: (N,) what they paid.

    Raises:
        ValueError: if the observation is unknown, or shows a horizon that is None.
    """

    def __init__(
        self,
        num_envs: int,
        num_arms: int,
        observation: str = "constant",
        support: tuple[float, float] = (0.0, 1.0),
        horizon: int | None = None,
    ) -> None:
        check_choice("observation", observation, OBSERVATIONS)
        if horizon is not None:
            horizon = check_integer("horizon", horizon, minimum=1)
        elif observation != "constant":
            condition = f"be given where observation is {observation!r}"
            remedy = "it is the time limit, 1000 unless max_episode_steps is another"
            raise ValueError(message("horizon", condition, horizon, remedy))
        self.pulls = np.zeros((num_envs, num_arms), dtype=np.int64)
        self.reward_sums = np.zeros((num_envs, num_arms))
        self.lengths, self.regrets = np.zeros(num_envs, dtype=np.int64), np.zeros(num_envs)
        self.last_actions, self.last_rewards = np.full(num_envs, -1), np.zeros(num_envs)
        self._observation, self._support, self._horizon = observation, support, horizon or 1

    @property
    def space(self) -> Space[Any]:
        """The space of one lane's observation."""
        if self._observation == "constant":
            return Discrete(1)
        return Box(0.0, 1.0, self.observe()[0].shape, dtype=np.float32)

    @property
    def empirical_means(self) -> FloatArray:
        """(N, K) mean reward of every arm, 0 where it was never pulled."""
        return self.reward_sums / np.maximum(self.pulls, 1)

    def add(self, actions: IntArray, rewards: FloatArray, regrets: Any = 0.0) -> None:
        """Add one pull per lane: (N,) actions, (N,) rewards and (N,) regrets."""
        flat_indices = np.arange(0, self.pulls.size, self.pulls.shape[1]) + actions
        self.pulls.reshape(-1)[flat_indices] += 1  # flat: twice as fast as pairs
        self.reward_sums.reshape(-1)[flat_indices] += rewards
        self.lengths += 1
        self.regrets += regrets
        self.last_actions[:], self.last_rewards[:] = actions, rewards

    def clear(self, lanes: IntArray | BoolArray) -> None:
        """Start the listed or masked lanes afresh."""
        for values in (self.pulls, self.reward_sums, self.lengths, self.regrets):
            values[lanes] = 0
        self.last_actions[lanes] = -1

    def observe(self) -> NDArray[Any]:
        """Return what is seen: (N,) int64 zeros for "constant", else (N, size) float32."""
        if self._observation == "constant":
            return np.zeros(len(self.pulls), dtype=np.int64)
        per_pull = 1.0 / self._horizon
        time_left = np.maximum((self._horizon - self.lengths) * per_pull, 0.0)[:, None]
        if self._observation == "counts":
            plays: Any = np.minimum(self.pulls * per_pull, 1.0)
            rewards, has_data = self.empirical_means, self.pulls > 0
        else:
            plays = self.last_actions[:, None] == np.arange(self.pulls.shape[1])
            rewards, has_data = self.last_rewards[:, None], self.lengths[:, None] > 0
        scaled = np.where(has_data, scale_rewards(rewards, *self._support), NO_DATA_VALUE)
        return np.concatenate([plays, scaled, time_left], axis=1, dtype=np.float32)


def scale_rewards(rewards: FloatArray, low: float, high: float) -> FloatArray:
    """Map rewards increasingly into [0, 1], by the support of the mean; see the module."""
    rewards = np.clip(rewards, low, high)
    if np.isfinite([low, high]).all():
        return (rewards - low) * (1.0 / (high - low))
    if np.isfinite(low):
        return (rewards - low) / (1.0 + rewards - low)
    if np.isfinite(high):
        return 1.0 / (1.0 + high - rewards)
    return 0.5 * (1.0 + rewards / (1.0 + np.abs(rewards)))


def unbatch(observations: NDArray[Any]) -> list[Any]:
    """Turn a batch into the list of what each lane's single environment would return."""
    return observations.tolist() if observations.ndim == 1 else list(observations)


def of_lane(new_info: Mapping[str, np.ndarray]) -> Info:
    """Return what is reported of the only lane, as numbers and arrays of their own."""
    first = {name: values[0] for name, values in new_info.items()}
    return {name: v.copy() if isinstance(v, np.ndarray) else v.item() for name, v in first.items()}


def add_info(info: Info, mask: BoolArray, new_info: Mapping[str, np.ndarray]) -> Info:
    """Add (N, ...) values to `info` for the (N,) masked lanes, batched as `SyncVectorEnv` does.

    They are 0 where a lane has none, and there is no key where no lane has one.
    """
    if mask.any():
        for name, values in new_info.items():
            kept, has = values.copy(), mask.copy()
            kept[~mask] = info[name][~mask] if name in info else 0
            if name in info:
                has |= info[f"_{name}"]
            info |= {name: kept, f"_{name}": has}
    return info
