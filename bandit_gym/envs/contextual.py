"""Bandits whose arms have features, single and natively vectorised.

Features are drawn (`ContextualBanditEnv`) or those of a table's rows (`TableBanditEnv`).

Notation: N lanes, M selected lanes, K arms, d features of an arm, T rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box
from numpy.random import Generator
from numpy.typing import NDArray

from bandit_gym.checks import check_all, check_object
from bandit_gym.checks.typing import FloatArray, Info, IntArray, RewardsAndInfo
from bandit_gym.contexts import MAX_FEATURE, VisitorTable, make_contexts
from bandit_gym.envs.bandit import (
    LANE,
    BanditEnv,
    BanditLanes,
    BanditVectorEnv,
    check_size,
    draw_means,
)
from bandit_gym.likelihoods import Likelihood, make_likelihood
from bandit_gym.numerics.streams import FEATURES, MEANS
from bandit_gym.priors import UnknownPrior
from bandit_gym.priors.independent import get_stated_support
from bandit_gym.problem import BanditProblem, ContextualProblem

LikelihoodLike = Likelihood | Mapping[str, Any] | str


class FeatureLanes(BanditLanes):
    """N lanes whose arms have other features, and so other means, at each step.

    A mixin before `BanditEnv` or `BanditVectorEnv`; a subclass says how an episode starts, and
    which features and means come next.
    """

    features: FloatArray
    has_features: ClassVar[bool] = True
    reset_options: ClassVar[tuple[str, ...]] = ()

    def _show_features(self, num_features: int, low: Any, high: Any) -> None:
        """Make room for features of each arm, which lie between the ends, and observe them."""
        shape, num_lanes = (self.problem.num_arms, num_features), len(self.streams.seeds)
        self.features = np.zeros((num_lanes, *shape))
        self._played_means = self.means
        self._rngs: list[Generator] = [None] * num_lanes  # type: ignore[list-item]  # before a reset
        self._set_observation_space(Box(low, high, shape, dtype=np.float64))

    @property
    def played_means(self) -> FloatArray:
        """(N, K) true means that the last pulls were played on; a copy."""
        return self._played_means.copy()

    @abstractmethod
    def _start(self, lane: int, rng: Generator) -> None:
        """Begin the episode that the lane is in."""

    @abstractmethod
    def _draw(self, lanes: IntArray) -> FloatArray:
        """Put the features of the (M,) lanes' next decisions in place; return (M, K) means."""

    def _draw_means(self, lanes: IntArray, instance: FloatArray | None) -> FloatArray:
        """Begin the episodes of the (M,) lanes, and show their first features."""
        firsts = self.streams.generators(MEANS, lanes)
        rngs = self.streams.generators(FEATURES, lanes)
        for lane, first, rng in zip(lanes.tolist(), firsts, rngs, strict=True):
            self._rngs[lane] = rng
            self._start(lane, first)
        return self._draw(lanes)

    def _pull_arms(self, actions: IntArray, uniforms: FloatArray) -> RewardsAndInfo:
        """Play on the features that are shown, and show the next ones."""
        rewards, reported = super()._pull_arms(actions, uniforms)
        self._played_means = self.means
        reported |= {"means": self.played_means, "optimal_action": self._means.argmax(axis=-1)}
        self.set_means(self._draw(np.arange(len(rewards))))
        return rewards, reported

    def _observe(self) -> NDArray[Any]:
        return self.features.copy()


class DrawnLanes(FeatureLanes):
    """N lanes of a `ContextualProblem`, with features that are drawn."""

    problem: ContextualProblem

    def __init__(self, *args: Any, contexts: Any = "normal", **options: Any) -> None:
        super().__init__(*args, **options)
        remedy = "as ContextualProblem(Bernoulli(), Normal(0, 1), num_arms=10, num_features=5)"
        check_object("problem", self.problem, ContextualProblem, remedy)
        num_arms, num_features = self.problem.num_arms, self.problem.num_features
        link = self.problem.link.name
        self._draw_features = make_contexts(contexts, num_arms, num_features, link)
        self._is_fixed = contexts == "fixed"
        self._theta = np.zeros((len(self.streams.seeds), num_features))
        self._show_features(num_features, -MAX_FEATURE, MAX_FEATURE)

    @property
    def parameters(self) -> FloatArray:
        """(N, d) coefficients; a copy."""
        return self._theta.copy()

    def set_parameters(self, parameters: FloatArray) -> None:
        """Change the (N, d) coefficients, and so the means of the features that are shown."""
        means = self.problem.means(parameters, self.features)
        check_size("means of features", means)
        self._theta = parameters.copy()
        self.set_means(means)

    def parameter_support(self) -> FloatArray:
        """Return the (d, 2) lowest and highest value of each coefficient."""
        return get_stated_support(self.problem.prior, self.problem.num_features)

    def _start(self, lane: int, rng: Generator) -> None:
        prior: Any = self.problem.prior
        num_features = self.problem.num_features
        if self.stds is None:
            self._theta[lane] = draw_means(prior, rng, num_features)
        else:
            drawn = prior.sample_with_stds(rng, (num_features,), is_shared=True)
            self._theta[lane], self.stds[lane] = drawn
        if self._is_fixed:
            shape = self.features.shape[1:]
            [self.features[lane]] = self._draw_features([self._rngs[lane]], *shape)

    def _draw(self, lanes: IntArray) -> FloatArray:
        if lanes.size and not self._is_fixed:
            rngs = [self._rngs[lane] for lane in lanes.tolist()]
            self.features[lanes] = self._draw_features(rngs, *self.features.shape[1:])
        means = self.problem.means(self._theta[lanes], self.features[lanes])
        check_size("means of features", means)
        return means


class ContextualBanditEnv(DrawnLanes, BanditEnv):
    """A bandit whose arms have features: the mean of arm a is g^-1(x_a . theta).

    Description:
        The coefficients theta are drawn from the problem's prior at each reset, and stay. Features
        come anew at each step. See `bandit_gym.likelihoods.Link` for g.

    Actions:
        Discrete(K): the arm to pull.

    Observation:
        Box(K, d): the features of each arm for the next pull.

    Reward:
        Of the problem's likelihood, with the mean of the pulled arm.

    Info:
        `reset` gives `means`, the (K,) true means of the first pull, and `optimal_action`. `step`
        gives both as they were for this pull, and `regret`: max(means) - means[action].

    Episode end:
        As of `BanditEnv`.

    Arguments:
        problem: likelihood, prior of the coefficients, K and d. The id takes `num_arms`,
            `num_features`, `likelihood` and `prior` in its place.
        contexts: how features arise. "normal": of each arm by itself; "fixed": the same, but drawn
            once an episode; "disjoint" and "hierarchical": of one visitor with an intercept, in
            blocks of `num_features` coefficients, see `bandit_gym.contexts`; or `module:name` of a
            function from a generator, K and d to (K, d) numbers. Of the first four, x_a . theta has
            the deviation 2 under coefficients of unit variance, and .5 under a log link.
        render_mode: None, "ansi" (text) or "rgb_array" (picture); both show the true means.
    """

    def __init__(
        self,
        problem: ContextualProblem,
        *,
        contexts: Any = "normal",
        render_mode: str | None = None,
    ) -> None:
        super().__init__(problem, contexts=contexts, render_mode=render_mode)


class ContextualBanditVectorEnv(DrawnLanes, BanditVectorEnv):
    """N lanes of one problem with features; `ContextualBanditEnv` is the manual.

    Args:
        num_envs: N.
        problem: the same in all lanes.
        contexts: how features arise.
        **options: `render_mode`, `max_episode_steps` and `autoreset_mode` of `BanditVectorEnv`.
    """


class TableLanes(FeatureLanes):
    """N lanes that each play the rows of a table in an order of their own."""

    def __init__(
        self, *args: Any, rows: VisitorTable, likelihood: LikelihoodLike, **options: Any
    ) -> None:
        kind = make_likelihood(likelihood)
        condition = f"be {kind.reward_rule} under {kind.name} rewards"
        remedy = "name another likelihood, such as 'gaussian'"
        check_all("rewards", kind.is_possible(rows.rewards), condition, rows.rewards, remedy)
        check_size("rewards", rows.rewards)
        _, num_arms, num_features = rows.place(LANE).shape
        problem = ContextualProblem(kind, UnknownPrior(), num_arms, num_features)
        super().__init__(*args, **options | {"problem": problem})
        num_lanes = len(self.streams.seeds)
        self._rows, self.num_rows = rows, len(rows.rewards)
        self._orders = np.zeros((num_lanes, self.num_rows), dtype=np.int64)
        self._num_shown = np.zeros(num_lanes, dtype=np.int64)
        self._show_features(num_features, *rows.ends)

    def _start(self, lane: int, rng: Generator) -> None:
        self._orders[lane] = rng.permutation(self.num_rows)
        self._num_shown[lane] = 0

    def _draw(self, lanes: IntArray) -> FloatArray:
        """Show the next rows, whose rewards are the means; after the last, the last once more."""
        rows = self._orders[lanes, np.minimum(self._num_shown[lanes], self.num_rows - 1)]
        self._num_shown[lanes] += 1
        self.features[lanes] = self._rows.place(rows)
        return self._rows.rewards[rows]

    def _pay(self, means: FloatArray, uniforms: FloatArray, *_: FloatArray) -> FloatArray:
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
        rows = VisitorTable(features, rewards, table, contexts)
        super().__init__(rows=rows, likelihood=likelihood, render_mode=render_mode)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
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
        **options: `render_mode` and `autoreset_mode` of `BanditVectorEnv`, and `max_episode_steps`,
            after which an episode is truncated, if rows are not fewer.
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
        **options: Any,
    ) -> None:
        rows = VisitorTable(features, rewards, table, contexts)
        super().__init__(num_envs, rows=rows, likelihood=likelihood, **options)
        self.max_episode_steps = min(self.max_episode_steps or self.num_rows, self.num_rows)


def find_env_classes(problem: BanditProblem) -> tuple[type[BanditEnv], type[BanditVectorEnv]]:
    """Return the environments of a problem, single and natively vectorised."""
    if isinstance(problem, ContextualProblem):
        return ContextualBanditEnv, ContextualBanditVectorEnv
    return BanditEnv, BanditVectorEnv
