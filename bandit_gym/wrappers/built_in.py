"""The wrappers: what they do to lanes, the functions that users call, and wrappers as data.

Rewards arrive later than the pulls that earned them (`DelayedReward`, `BatchedFeedback`) or become
0 or 1 (`BinaryReward`), means or coefficients move while the episode goes on (`Drift`), or the time
limit is the end (`EndsAtHorizon`). All that is drawn comes from the lanes' own addressed streams,
at the lane's step, so that a lane is the same alone and among others.

Notation: N lanes, M of them, K arms, R places for rewards on their way, W of which may arrive in
one step.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np

from bandit_gym.checks import (
    check_choice,
    check_integer,
    check_keys,
    check_mask,
    check_real,
    load_named,
    make_named,
    message,
    split_name,
)
from bandit_gym.checks.typing import BoolArray, FloatArray, IntArray, RewardsAndInfo
from bandit_gym.envs.bandit import BanditLanes, draw_means
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.numerics.streams import BINARY, DELAYS, MOVES, SWITCHES
from bandit_gym.numerics.variates import standard_normal
from bandit_gym.priors import UnknownPrior
from bandit_gym.wrappers.base import Effect, put_around

# -- Late rewards ----------------------------------------------------------------------------------

MAX_DELAY = 10**6
"""Steps that a reward may take."""

NO_ARRIVAL = np.iinfo(np.int64).max

FEEDBACK = "feedback_step", "feedback_action", "feedback_reward"
"""What a step reports of the rewards that arrive in it."""

FEEDBACK_FEATURES = "feedback_features"
"""The same of the features of their arms, where arms have any."""


def _check_delays(low: int, high: int) -> tuple[int, int]:
    """Return the shortest and the longest of delays that are all alike in number."""
    low = check_integer("low", low, minimum=0)
    return low, check_integer("high", high, minimum=low, maximum=MAX_DELAY)


class FeedbackBuffer(Effect):
    """Keeps the rewards of N lanes until they are due.

    Arguments:
        env: the environment.
        num_slots: R, more than the steps that a reward takes at most.
        width: W.
    """

    kind = "delays"

    def __init__(self, env: BanditLanes, num_slots: int, width: int) -> None:
        super().__init__(env)
        shape = self.num_lanes, num_slots
        self._width = width
        self._due, self._pulled = np.full(shape, -1), np.zeros(shape, dtype=np.int64)
        self._actions, self._rewards = np.zeros(shape, dtype=np.int64), np.zeros(shape)
        kept: tuple[np.ndarray, ...] = self._pulled, self._actions, self._rewards
        self._reported = dict(zip(FEEDBACK, zip(kept, (-1, -1, 0), strict=True), strict=True))
        if env.features is not None:
            self._features = np.zeros((*shape, env.features.shape[-1]))
            self._reported[FEEDBACK_FEATURES] = self._features, 0

    @abstractmethod
    def find_arrivals(self, lanes: IntArray) -> IntArray:
        """Return the (M,) steps in which the rewards of the next step of the lanes arrive."""

    def restart(self, lanes: IntArray) -> None:
        """Lose what is on its way."""
        super().restart(lanes)
        self._due[lanes] = -1

    def before_step(self, lanes: IntArray, actions: IntArray) -> None:
        """Draw when the rewards of this step will arrive, and keep the arms and their features."""
        now = self.steps[lanes]
        slots = lanes, now % self._due.shape[1]
        self._due[slots], self._pulled[slots] = self.find_arrivals(lanes), now
        self._actions[slots] = actions[lanes]
        if self.env.features is not None:
            self._features[slots] = self.env.features[lanes, actions[lanes]]

    def after_step(self, lanes: IntArray, actions: IntArray, rewards: FloatArray) -> RewardsAndInfo:
        """Send the rewards of this step on their way, and hand out those that are due."""
        self._rewards[lanes, self.steps[lanes] % self._due.shape[1]] = rewards[lanes]
        is_due = self._due == self.steps[:, None]
        order = np.argsort(np.where(is_due, self._pulled, NO_ARRIVAL), axis=1, kind="stable")
        chosen = np.arange(self.num_lanes)[:, None], order[:, : self._width]
        is_blank = ~is_due[chosen]
        infos = {"pull_reward": np.array(rewards, dtype=np.float64)}
        for name, (values, blank) in self._reported.items():
            infos[name] = values[chosen]
            infos[name][is_blank] = blank
        delivered = np.array(rewards, dtype=np.float64)
        delivered[lanes] = infos["feedback_reward"][lanes].sum(axis=1)
        super().after_step(lanes, actions, rewards)
        return delivered, infos


class Delay(FeedbackBuffer):
    """Each reward takes a number of steps, fixed or random."""

    def __init__(self, env: BanditLanes, delay: int | Mapping[str, Any]) -> None:
        if isinstance(delay, Mapping):
            self._ends = make_named("delay", delay, {"uniform": _check_delays})
        else:
            steps = check_integer("delay", delay, minimum=0, maximum=MAX_DELAY)
            self._ends = steps, steps
        low, high = self._ends
        super().__init__(env, high + 1, high - low + 1)

    def find_arrivals(self, lanes: IntArray) -> IntArray:
        """Return the steps of arrival; the delay of step t is made of number t of its stream."""
        (low, high), now = self._ends, self.steps[lanes]
        if low == high:
            return now + low
        uniforms = self.env.streams.uniforms(DELAYS, lanes, now, 1)[0]
        return now + np.minimum(low + (uniforms * (high - low + 1)).astype(np.int64), high)


class Batches(FeedbackBuffer):
    """The rewards of B steps arrive together at the last of them."""

    def __init__(self, env: BanditLanes, size: int) -> None:
        self._size = check_integer("size", size, minimum=1, maximum=MAX_DELAY)
        super().__init__(env, size, size)

    def find_arrivals(self, lanes: IntArray) -> IntArray:
        """Return the last steps of the batches that the lanes are in."""
        return (self.steps[lanes] // self._size + 1) * self._size - 1


def deliver(agent: Any, info: Mapping[str, Any], *, mask: Any = None) -> None:
    """Let an agent observe the rewards that have arrived, for the actions they belong to.

    `bandit_gym.wrappers.DelayedReward` says what `info` holds.

    Args:
        agent: the learner.
        info: what a step of an environment of delayed rewards reported.
        mask: (N,) bool, the lanes in which to observe; None means all.

    Raises:
        ValueError: if `info` reports no late rewards; the agent is then unchanged.
    """
    last = info.get("final_info", {})  # of lanes that an autoreset began anew in the same step
    if "regret" not in info and "feedback_step" not in info and not last:  # all lanes were reset
        if num_envs := getattr(agent, "num_envs", None):  # which counts its acts: one was ignored
            none = np.zeros(num_envs, dtype=bool)
            agent.observe(none.astype(np.int64), none.astype(np.float64), mask=none)
        return
    if not {*FEEDBACK} <= {*info, *last}:
        condition = f"report {' and '.join(FEEDBACK)}, as environments of late rewards do"
        raise ValueError(message("info", condition, sorted(info)))
    for part in (info, last):
        if "feedback_step" in part:
            _deliver_part(agent, part, mask)


def _deliver_part(agent: Any, info: Mapping[str, Any], mask: Any) -> None:
    """Let an agent observe what one part of a step's info reports."""
    steps, actions, rewards = (np.atleast_2d(info[name]) for name in FEEDBACK)
    has_arrived = np.ones(steps.shape, dtype=bool)
    for name, lanes in (("_feedback_step", info.get("_feedback_step")), ("mask", mask)):
        if lanes is not None:
            has_arrived &= check_mask(name, lanes, len(steps))[:, None]
    has_reset = not has_arrived.all()
    has_arrived &= steps >= 0
    features = info.get(FEEDBACK_FEATURES)
    places = zip(has_arrived.T, actions.T, rewards.T, strict=True)
    for place, (arrived, arms, paid) in enumerate(places):
        is_heard = place == 0 and getattr(agent, "observes_every_step", False)
        infos = {} if features is None else {"observation": features[..., place, :]}
        if np.ndim(info["feedback_step"]) == 1:  # a single run
            if arrived[0] or is_heard:
                infos |= {} if arrived[0] else {"mask": arrived}
                agent.observe(int(arms[0]), float(paid[0]), **infos)
        elif arrived.any() or has_reset or is_heard:
            agent.observe(arms, paid, mask=arrived, **infos)


# -- Rewards of 0 and 1, and ends ------------------------------------------------------------------


class BinaryDraws(Effect):
    """A reward becomes 1 with a probability that is the reward, otherwise 0."""

    kind = "rewards"

    def __init__(self, env: BanditLanes) -> None:
        super().__init__(env)
        low, high = env.problem.likelihood.support  # of means, and so the least and largest reward
        if not 0.0 <= low <= high <= 1.0:
            raise ValueError(message("env", "have rewards in [0, 1]", env.problem.likelihood))
        self.problem = replace(env.problem, likelihood=Bernoulli())

    def before_step(self, lanes: IntArray, actions: IntArray) -> None:
        """Draw number t of the stream for step t, after which an autoreset may begin another."""
        self._uniforms = self.env.streams.uniforms(BINARY, lanes, self.steps[lanes], 1)[0]

    def after_step(self, lanes: IntArray, actions: IntArray, rewards: FloatArray) -> RewardsAndInfo:
        """Make the rewards of the step 0 or 1."""
        binary, paid = np.array(rewards, dtype=np.float64), rewards[lanes]
        if not ((paid >= 0.0) & (paid <= 1.0)).all():
            raise ValueError(message("rewards", "be in [0, 1] to become 0 or 1", paid.tolist()))
        binary[lanes] = Bernoulli().sample(paid, self._uniforms)
        return super().after_step(lanes, actions, binary)


class Termination(Effect):
    """The time limit terminates episodes."""

    kind = "ends"

    def change_ends(self, terminated: Any, truncated: Any) -> tuple[Any, Any]:
        """Call every end a termination."""
        return terminated | truncated, truncated & False


# -- Moving means ----------------------------------------------------------------------------------


class NonStationary(Effect):
    """Means, or with features the coefficients, move before each pull but the first."""

    kind = "means"

    def __init__(
        self,
        env: BanditLanes,
        std: float | None,
        period: int | None,
        probability: float | None,
    ) -> None:
        super().__init__(env)
        if env.has_features and isinstance(env.problem.prior, UnknownPrior):
            raise ValueError(message("env", "have means or coefficients that can move", env))
        given = std, period, probability
        if sum(value is None for value in given) != 2:  # an array equals nothing at once
            names = "std, period and probability"
            raise ValueError(message(names, "be a number and None twice", given))
        self._std = None if std is None else check_real("std", std, above=0.0)
        self._period = None if period is None else check_integer("period", period, minimum=1)
        self._probability = probability
        if probability is not None:
            self._probability = check_real("probability", probability, above=0.0, maximum=1.0)
        self._low, self._high = env.parameter_support().T
        self._num_parameters = len(self._low)
        self._shown = np.zeros((self.num_lanes, self.num_arms))
        self._rngs: dict[int, np.random.Generator] = {}
        self.restart(np.arange(self.num_lanes))  # of an environment that has begun

    def restart(self, lanes: IntArray) -> None:
        """Begin at the means that the episode begins with."""
        super().restart(lanes)
        fresh = self.env.streams.generators(SWITCHES, lanes)
        self._rngs |= dict(zip(lanes.tolist(), fresh, strict=True))

    def before_step(self, lanes: IntArray, actions: IntArray) -> None:
        """Move what means follow from in the lanes that have played before."""
        movers = lanes[self.steps[lanes] > 0]
        values = self.env.parameters
        if self._std is not None:
            values[movers] = self._add_random_step(values[movers], movers)
        else:
            for lane in movers[self._is_switching(movers)].tolist():
                self._draw_parameters(lane, values[lane])
        if len(movers):
            self.env.set_parameters(values)
        self._shown = self.env.means

    def after_step(self, lanes: IntArray, actions: IntArray, rewards: FloatArray) -> RewardsAndInfo:
        """Report the means that were played on."""
        return super().after_step(lanes, actions, rewards)[0], {"means": self._shown}

    def _draw_parameters(self, lane: int, values: FloatArray) -> None:
        """Set a lane's (P,) values, and its deviations of rewards, to draws from the prior."""
        rng, stds = self._rngs[lane], self.env.stds
        prior: Any = self.env.problem.prior
        if stds is None:
            values[:] = draw_means(prior, rng, values.size)
        else:
            is_shared = self.env.has_features
            values[:], stds[lane] = prior.sample_with_stds(rng, values.shape, is_shared=is_shared)

    def _add_random_step(self, values: FloatArray, lanes: IntArray) -> FloatArray:
        """Return (M, P) values after a step, turned back at the ends of what the prior allows."""
        first = (self.steps[lanes] - 1) * self._num_parameters
        uniforms = self.env.streams.uniforms(MOVES, lanes, first, self._num_parameters).T
        steps: Any = standard_normal(uniforms)
        return reflect_at_ends(values + self._std * steps, self._low, self._high)

    def _is_switching(self, lanes: IntArray) -> BoolArray:
        now = self.steps[lanes]
        if self._period is not None:
            return now % self._period == 0  # type: ignore[no-any-return]
        return self.env.streams.uniforms(MOVES, lanes, now, 1)[0] < self._probability


def reflect_at_ends(x: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return (M, K) numbers turned back at the (K,) ends, as often as it takes, into [low, high].

    Ends may be infinite.
    """
    with np.errstate(invalid="ignore"):  # of what is not chosen
        above = np.where(np.isfinite(low), low + np.abs(x - low), x)
        below = np.where(np.isfinite(high), high - np.abs(high - x), x)
        width = high - low
        folded = low + (width - np.abs(width - np.mod(x - low, 2 * width)))
    reflected = np.where(np.isfinite(low), above, below)
    return np.where(np.isfinite(width), np.clip(folded, low, high), reflected)


# -- What users call -------------------------------------------------------------------------------


def BatchedFeedback(env: Any, size: int = 10) -> Any:
    """The rewards of B steps arrive together, in the last of them.

    Info, and what an agent does with it: see `DelayedReward`, with W = B.

    Args:
        env: an environment of bandit_gym's with observation="constant", for others show rewards.
        size: B, steps to a batch.
    """
    return put_around(env, "BatchedFeedback", Batches, size=size)


def BinaryReward(env: Any) -> Any:
    """A reward r in [0, 1] becomes 1 with probability r, otherwise 0, so that Beta priors apply.

    The means, and so `regret`, stay as they are. Agents that are built from this environment are
    given its prior with the Bernoulli likelihood; `env.unwrapped.problem` is that of the rewards as
    they were. Put `DelayedReward` or `BatchedFeedback` around it, not inside.

    Args:
        env: an environment of bandit_gym's with a likelihood of rewards in [0, 1] and
            observation="constant", for others show the rewards as they were.

    References:
        Agrawal and Goyal (2012), algorithm 2.
    """
    return put_around(env, "BinaryReward", BinaryDraws)


def DelayedReward(env: Any, delay: int | Mapping[str, Any] = 10) -> Any:
    """Rewards arrive some steps after the pulls that earned them.

    Info: `feedback_step`, `feedback_action` and `feedback_reward`, (W,) each: the step of the
    episode (0 is the first) that a reward belongs to, the arm pulled then, and the reward; -1, -1
    and 0 where fewer than W rewards arrive. W is the number of different delays that a reward may
    have. `pull_reward` is what this pull has earned, whenever it arrives: the truth, as `regret`
    is. Where arms have features, `feedback_features`, (W, d), are those of the pulled arms, and 0
    where no reward arrives. The reward of a step is the sum of what arrives;
    `bandit_gym.wrappers.deliver` lets an agent observe it. What is still on its way when an episode
    ends is lost.

    Args:
        env: an environment of bandit_gym's with observation="constant", for others show rewards.
        delay: steps that each reward takes, 0 for none; or the distribution of a random number of
            them, {"name": "uniform", "low": 0, "high": 20}.
    """
    return put_around(env, "DelayedReward", Delay, delay=delay)


def Drift(
    env: Any, std: float | None = None, period: int | None = None, probability: float | None = None
) -> Any:
    """The means of the arms, or with features the coefficients, move while an episode goes on.

    They begin as the environment has drawn them, and move before each pull but the first. Info:
    `regret` compares with the arm that is best now; `means`, (K,), those that were played on.

    Args:
        env: an environment of bandit_gym's that draws means or coefficients, and no table.
        std: deviation of a random walk's step, > 0, in reward units, or those of coefficients;
            where the prior has an end the walk turns back.
        period: steps after which all of them are drawn anew from the prior, over and over.
        probability: in (0, 1], of drawing all of them anew before a pull. One of the three.
    """
    return put_around(env, "Drift", NonStationary, std=std, period=period, probability=probability)


def EndsAtHorizon(env: Any) -> Any:
    """The time limit is the end: an episode is terminated after its last pull, not truncated.

    That is true where only the T pulls count. Learners such as PPO or DQN then add no estimate of
    later rewards to the last one.

    Args:
        env: an environment of bandit_gym's with a time limit.
    """
    return put_around(env, "EndsAtHorizon", Termination)


WRAPPERS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (BatchedFeedback, BinaryReward, DelayedReward, Drift, EndsAtHorizon)
}


def wrap(env: Any, wrappers: Any) -> Any:
    """Put wrappers around an environment, single or vector.

    Args:
        env: the environment.
        wrappers: dicts of a `name`, one of `WRAPPERS` or `module:Class`, and of options.

    Raises:
        TypeError: if they are no such list, or an option is of the wrong kind.
        ValueError: if a name or an option is unknown, or a value out of range.
    """
    for make, options in check_wrappers(wrappers):
        env = make(env, **options)
    return env


def check_wrappers(wrappers: Any) -> list[tuple[Callable[..., Any], dict[str, Any]]]:
    """Return the class of each wrapper, and its options; errors are those of `wrap`."""
    if isinstance(wrappers, str | bytes | Mapping) or not isinstance(wrappers, Sequence):
        raise TypeError(message("wrappers", "be a list of dicts with the key 'name'", wrappers))
    makers = []
    for settings in wrappers:
        name, options = split_name("wrapper", settings)
        if isinstance(name, str) and ":" in name:
            make = load_named("wrapper", name)
        else:
            make = WRAPPERS[check_choice("wrapper", name, WRAPPERS)]
        check_keys(f"options of {name}", options, optional=[*signature(make).parameters][1:])
        makers.append((make, options))
    return makers
