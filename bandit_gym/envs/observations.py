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
- counts: pulls and empirical means are sufficient for the posterior of all four likelihoods, so the
  best policy of all is a function of this observation, and a memoryless network can learn it.
- history: one step says next to nothing; a recurrent policy can add the steps up by itself, in the
  manner of RL^2, and must discover that it should.

Rewards and empirical means x are scaled to [0, 1] by the support of the mean: unchanged on [0, 1],
x / (1 + x) on [0, inf), (1 + x / (1 + |x|)) / 2 on the reals. The last two tell rewards of order
one apart best. Where there is nothing to show yet (an arm never pulled, no reward) the entry is
0.5. Time left falls from 1 to 0 over the horizon, and stays there. The horizon is told: Gymnasium
keeps a single environment's time limit from it, so that it is an argument; a vector environment has
a time limit of its own, which is its horizon unless another is told.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from numpy.typing import NDArray

from bandit_gym.checks import check_choice, check_integer, message
from bandit_gym.problem import BanditProblem
from bandit_gym.typing import BoolArray, FloatArray, IntArray

OBSERVATIONS = ("constant", "counts", "history")
NOTHING_YET = 0.5


class PlayRecord:
    """The pulls and rewards of every lane's episode so far.

    Observations are made from this record, which never holds the means, so they cannot leak them.
    """

    def __init__(self, num_envs: int, num_arms: int) -> None:
        self.pulls = np.zeros((num_envs, num_arms), dtype=np.int64)
        self.reward_sums = np.zeros((num_envs, num_arms))
        self.last_actions = np.full(num_envs, -1, dtype=np.int64)
        self.last_rewards = np.zeros(num_envs)

    def add(self, actions: IntArray, rewards: FloatArray) -> None:
        """Add one pull per lane: (N,) actions and (N,) rewards."""
        pulled = np.arange(0, self.pulls.size, self.pulls.shape[1]) + actions
        self.pulls.reshape(-1)[pulled] += 1
        self.reward_sums.reshape(-1)[pulled] += rewards
        self.last_actions = actions.copy()
        self.last_rewards = rewards.copy()

    def forget(self, lanes: BoolArray) -> None:
        """Start the lanes of the (N,) mask afresh."""
        self.pulls[lanes] = 0
        self.reward_sums[lanes] = 0.0
        self.last_actions[lanes] = -1
        self.last_rewards[lanes] = 0.0

    @property
    def empirical_means(self) -> FloatArray:
        """(N, K) mean reward of every arm, 0 where it was never pulled."""
        return self.reward_sums / np.maximum(self.pulls, 1)


@dataclass(frozen=True)
class Observer:
    """Encodes records of one problem as observations.

    Args:
        mode: one of `OBSERVATIONS`.
        support: (low, high) of the likelihood's mean, which decides how rewards are scaled.
        num_arms: K.
        horizon: pulls at which the time is up, at least 1; the constant mode does not look at it.
    """

    mode: str
    support: tuple[float, float]
    num_arms: int
    horizon: int

    @property
    def space(self) -> Space[Any]:
        """The space of one lane's observation."""
        if self.mode == "constant":
            return Discrete(1)
        size = 2 * self.num_arms + 1 if self.mode == "counts" else self.num_arms + 2
        return Box(0.0, 1.0, (size,), dtype=np.float32)

    def encode(self, record: PlayRecord) -> NDArray[Any]:
        """Encode each lane's record as a fresh batch of observations.

        Args:
            record: what was played in N lanes; the constant mode looks at nothing but N.

        Returns:
            (N,) int64 zeros in the constant mode, else (N, size) float32 in [0, 1].
        """
        if self.mode == "constant":
            return np.zeros(len(record.pulls), dtype=np.int64)
        parts = self._counts(record) if self.mode == "counts" else self._history(record)
        time_left = np.maximum(1.0 - record.pulls.sum(axis=1) / self.horizon, 0.0)
        return np.column_stack((*parts, time_left)).astype(np.float32)

    def split(self, observations: NDArray[Any]) -> list[Any]:
        """Turn a batch into the list of what each lane's single environment would return."""
        return observations.tolist() if self.mode == "constant" else list(observations)

    def _counts(self, record: PlayRecord) -> tuple[FloatArray, ...]:
        scaled = scale_rewards(record.empirical_means, self.support)
        return (
            np.minimum(record.pulls / self.horizon, 1.0),
            np.where(record.pulls > 0, scaled, NOTHING_YET),
        )

    def _history(self, record: PlayRecord) -> tuple[FloatArray, ...]:
        scaled = scale_rewards(record.last_rewards, self.support)
        one_hot = record.last_actions[:, None] == np.arange(self.num_arms)
        return one_hot.astype(np.float64), np.where(record.last_actions >= 0, scaled, NOTHING_YET)


def make_observer(observation: str, problem: BanditProblem, horizon: int | None) -> Observer:
    """Build the observer of a problem; `observation` and `horizon` are checked here.

    Raises:
        ValueError: if the observation is unknown, or shows a horizon that is None.
    """
    mode = check_choice("observation", observation, OBSERVATIONS)
    if horizon is not None:
        horizon = check_integer("horizon", horizon, minimum=1, maximum=2**62)
    elif mode != "constant":
        condition = f"be given where observation is {mode!r}"
        remedy = "it is the time limit, 1000 unless max_episode_steps is another"
        raise ValueError(message("horizon", condition, horizon, remedy))
    return Observer(mode, problem.likelihood.support, problem.num_arms, horizon or 1)


def scale_rewards(rewards: FloatArray, support: tuple[float, float]) -> FloatArray:
    """Map rewards (any shape) increasingly into [0, 1]; the module docstring gives the maps."""
    low, high = support
    if np.isfinite(low) and np.isfinite(high):
        return (rewards - low) / (high - low)
    if np.isfinite(low):
        return (rewards - low) / (1.0 + rewards - low)
    return 0.5 * (1.0 + rewards / (1.0 + np.abs(rewards)))
