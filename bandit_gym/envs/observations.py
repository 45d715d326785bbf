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
- counts: pulls and empirical means are sufficient for the posterior of any likelihood, so the
  best policy of all is a function of this observation, and a memoryless network can learn it.
- history: one step says next to nothing; a recurrent policy can add the steps up by itself, in the
  manner of RL^2, and must discover that it should.

Rewards and empirical means x are scaled to [0, 1] by the support of the mean: unchanged on [0, 1],
x / (1 + x) on [0, inf), (1 + x / (1 + abs(x))) / 2 on the reals. The last two report rewards of
order one apart best. Where there is nothing to show yet (an arm never pulled, no reward) the entry
is 0.5. Time left falls from 1 to 0 over the horizon, and stays there. The horizon is the time limit
of `gymnasium.make` or `make_vec` unless another is given.
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
    They are kept and changed where something was played, as most of a long one never changes.

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
        self.last_actions = np.full(num_envs, -1, dtype=np.int64)
        self._observation, self._support, self._horizon = observation, support, horizon or 1
        blank = {
            "constant": [],
            "counts": [0.0] * num_arms + [NO_DATA_VALUE] * num_arms + [1.0],
            "history": [0.0] * num_arms + [NO_DATA_VALUE, 1.0],
        }
        self._blank = np.array(blank[observation], dtype=np.float32)
        self._shown = np.tile(self._blank, (num_envs, 1))

    @property
    def space(self) -> Space[Any]:
        """The space of one lane's observation."""
        if not len(self._blank):
            return Discrete(1)
        return Box(0.0, 1.0, self._blank.shape, dtype=np.float32)

    @property
    def empirical_means(self) -> FloatArray:
        """(N, K) mean reward of every arm, 0 where it was never pulled."""
        return self.reward_sums / np.maximum(self.pulls, 1)

    def add(self, actions: IntArray, rewards: FloatArray, regrets: Any = 0.0) -> None:
        """Add one pull per lane: (N,) actions, (N,) rewards and (N,) regrets."""
        num_lanes, num_arms = self.pulls.shape
        lanes, per_pull = np.arange(num_lanes), 1.0 / self._horizon
        flat_indices = lanes * num_arms + actions  # flat: twice as fast as pairs
        pulls, sums = self.pulls.reshape(-1), self.reward_sums.reshape(-1)
        self.lengths += 1
        self.regrets += regrets
        counts, totals = pulls[flat_indices] + 1, sums[flat_indices] + rewards
        pulls[flat_indices], sums[flat_indices] = counts, totals
        shown, starts = self._shown.reshape(-1), lanes * self._shown.shape[1]
        if self._observation == "counts":
            shown[starts + actions] = np.minimum(counts * per_pull, 1.0)
            shown[starts + num_arms + actions] = scale_rewards(totals / counts, *self._support)
        elif self._observation == "history":
            self._shown[:, :num_arms] = 0.0
            shown[starts + actions] = 1.0
            self._shown[:, num_arms] = scale_rewards(rewards, *self._support)
        if self._observation != "constant":
            time_left = (self._horizon - self.lengths) * per_pull
            self._shown[:, -1] = np.maximum(time_left, 0.0)
        self.last_actions[:] = actions

    def clear(self, lanes: IntArray | BoolArray) -> None:
        """Start the listed or masked lanes afresh."""
        for values in (self.pulls, self.reward_sums, self.lengths, self.regrets):
            values[lanes] = 0
        self.last_actions[lanes] = -1
        self._shown[lanes] = self._blank

    def observe(self) -> NDArray[Any]:
        """Return what is seen: (N,) int64 zeros for "constant", else (N, size) float32."""
        if not len(self._blank):
            return np.zeros(len(self._shown), dtype=np.int64)
        return self._shown.copy()


def scale_rewards(rewards: FloatArray, low: float, high: float) -> FloatArray:
    """Map rewards increasingly into [0, 1], by the support of the mean; see the module."""
    if np.isfinite(high):
        return (rewards - low) * (1.0 / (high - low))
    if np.isfinite(low):
        return (rewards - low) / (1.0 + rewards - low)
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
