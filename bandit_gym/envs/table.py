"""Bandits whose visitors are the rows of a table; see `TableBanditEnv`.

Notation: N lanes, K arms, d features of an arm, T rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.random import Generator

from bandit_gym.checks import check_integer, message
from bandit_gym.checks.typing import FloatArray, IntArray
from bandit_gym.contexts.tables import VisitorTable, read_table
from bandit_gym.envs.bandit import LANE, BanditEnv, BanditVectorEnv
from bandit_gym.envs.contextual import FeatureLanes
from bandit_gym.likelihoods import Likelihood, make_likelihood
from bandit_gym.priors import UnknownPrior
from bandit_gym.problem import ContextualProblem

LikelihoodLike = Likelihood | Mapping[str, Any] | str


class TableLanes(FeatureLanes):
    """N lanes that each play the rows of a table in an order of their own."""

    def _prepare(self, rows: VisitorTable) -> Box:
        """Return the space of one lane's features."""
        num_lanes = len(self.streams.seeds)
        self._rows, self.num_rows = rows, len(rows.rewards)
        self._orders = np.zeros((num_lanes, self.num_rows), dtype=np.int64)
        self._num_shown = np.zeros(num_lanes, dtype=np.int64)
        return self._equip(rows.place(LANE).shape[-1], *rows.ends)

    def _start(self, lane: int, rng: Generator) -> None:
        self._orders[lane] = rng.permutation(self.num_rows)
        self._num_shown[lane] = 0

    def _draw(self, lanes: IntArray) -> FloatArray:
        """Show the next rows, whose rewards are the means; after the last, the last once more."""
        rows = self._orders[lanes, np.minimum(self._num_shown[lanes], self.num_rows - 1)]
        self._num_shown[lanes] += 1
        self.features[lanes] = self._rows.place(rows)
        return self._rows.rewards[rows]

    def _pay(self, means: FloatArray, uniforms: FloatArray) -> FloatArray:
        return means


class TableBanditEnv(TableLanes, BanditEnv):
    """A bandit whose visitors are the rows of a table, in random order.

    Description:
        A row has the visitor's features and the reward that each arm would pay. Every reset draws
        another order from the seed. There is no prior of the coefficients: build agents from a
        `ContextualProblem`, or with `prior=`, as `RacingThompson(env, prior=Normal(0, 1))`.

    Actions:
        Discrete(K): the arm to pull.

    Observation:
        Box(K, d): the features of each arm for the next row; after the last, those of the last.

    Reward:
        What the row says of the pulled arm.

    Info:
        `reset` gives `means`, the (K,) rewards of the first row, and `optimal_action`. `step` gives
        both as they were for this pull, and `regret`: the row's best reward less the one received.

    Episode end:
        Truncated after the last row, or after the `max_episode_steps` of `gym.make`.

    Arguments:
        features: (T, p) numbers of visitors, or (T, K, d) features of each arm; of a `table` the
            names of the visitors' columns, None for all but the rewards'.
        rewards: (T, K) rewards; of a `table` the names of K columns.
        table: a `pandas.DataFrame`, or the path of a .parquet or .csv file; None if features and
            rewards are arrays.
        contexts: how a visitor's numbers and an intercept become (K, d) features: "disjoint" or
            "hierarchical", see `bandit_gym.contexts`.
        likelihood: how rewards are distributed, for agents, "bernoulli", "gaussian", "poisson" or
            "exponential", a dict with options, or an object.
        render_mode: None, "ansi" (text) or "rgb_array" (picture); both show the row's rewards.
    """

    def __init__(
        self,
        features: Any = None,
        rewards: Any = None,
        *,
        table: Any = None,
        contexts: str = "disjoint",
        likelihood: LikelihoodLike = "bernoulli",
        render_mode: str | None = None,
    ) -> None:
        rows = read_table(features, rewards, table, contexts)
        super().__init__(_problem_of(rows, likelihood), render_mode=render_mode)
        self.observation_space = self._prepare(rows)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Pull one arm."""
        if self._num_shown[0] > self.num_rows:
            raise ResetNeeded("reset must be called after the last row before step.")
        seen, reward, is_terminated, _, info = super().step(action)
        return seen, reward, is_terminated, bool(self._num_shown[0] > self.num_rows), info


class TableBanditVectorEnv(TableLanes, BanditVectorEnv):
    """N lanes of one table, each in an order of its own; `TableBanditEnv` is the manual.

    Args:
        num_envs: N.
        features: see `TableBanditEnv`, as the next four.
        rewards: of each row and arm.
        table: where both are.
        contexts: how features arise.
        likelihood: of rewards.
        render_mode: None, "ansi" or "rgb_array".
        max_episode_steps: pulls after which an episode is truncated, if rows are not fewer.
        autoreset_mode: an `AutoresetMode` or its value, "NextStep", "SameStep" or "Disabled".
        disable_env_checker: without effect.
    """

    def __init__(
        self,
        num_envs: int,
        features: Any = None,
        rewards: Any = None,
        *,
        table: Any = None,
        contexts: str = "disjoint",
        likelihood: LikelihoodLike = "bernoulli",
        render_mode: str | None = None,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        disable_env_checker: bool | None = None,
    ) -> None:
        rows = read_table(features, rewards, table, contexts)
        limit = -1 if max_episode_steps is None else max_episode_steps
        limit = check_integer("max_episode_steps", limit, minimum=-1)
        super().__init__(
            num_envs,
            _problem_of(rows, likelihood),
            render_mode=render_mode,
            max_episode_steps=min(limit, len(rows.rewards)) if limit > 0 else len(rows.rewards),
            autoreset_mode=autoreset_mode,
        )
        self.single_observation_space = self._prepare(rows)
        self.observation_space = batch_space(self.single_observation_space, num_envs)


def _problem_of(rows: VisitorTable, likelihood: LikelihoodLike) -> ContextualProblem:
    """Return the problem of a table without its prior, or refuse impossible rewards."""
    kind = make_likelihood(likelihood)
    is_possible = kind.is_possible(rows.rewards)
    if not is_possible.all():
        condition = f"be {kind.reward_rule} under {kind.name} rewards"
        remedy = "name another likelihood, such as 'gaussian'"
        raise ValueError(message("rewards", condition, rows.rewards[~is_possible][0], remedy))
    _, num_arms, num_features = rows.place(LANE).shape
    return ContextualProblem(kind, UnknownPrior(), num_arms, num_features)


def make_table_env(**options: Any) -> TableBanditEnv | TableBanditVectorEnv:
    """Table bandit: visitors of a table in random order, each with the reward of every arm."""
    kinds: tuple[Any, Any] = TableBanditEnv, TableBanditVectorEnv
    return kinds["num_envs" in options](**options)  # type: ignore[no-any-return]


make_table_env.__signature__ = signature(TableBanditEnv)  # type: ignore[attr-defined]
