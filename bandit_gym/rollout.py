"""The loop: act, step, observe. It knows neither the environment nor the agent.

Notation: N lanes (replications run in lockstep; 1 for a single `Env`), K arms, T steps, t a step.
"""

from __future__ import annotations

import contextlib
import inspect
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import islice
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.random import SeedSequence

from bandit_gym.checks import (
    check_act_options,
    check_actions,
    check_fit,
    check_integer,
    check_object,
    find_problem,
    message,
    quote_words,
)
from bandit_gym.checks.typing import BoolArray, FloatArray, IntArray
from bandit_gym.problem import BanditProblem
from bandit_gym.wrappers import deliver

AGENT_STREAM = int.from_bytes(b"agnt", "big")
"""Spawn key of the agent's stream: with it no agent shares a stream with an environment's seed."""

DECIDE = "decide"
"""The value of `propensities` with which an agent plays by the probabilities that it returns."""

FEATURE_NAMES = "observation", "features", "context", "x"
"""Of parameters by which a plain agent takes the features of arms."""

Environment = gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]


class BanditAgent(Protocol):
    """What the loop asks of an agent; `agents.base.Agent` is the reference for the contract.

    It may also have `diagnostics()`, which says how the last `act` went: a new dict from names to
    (N,) arrays, or to numbers for a single run.
    """

    def reset(self, num_envs: int | None = None, seed: Any = None) -> None:
        """Forget everything and prepare for `num_envs` lanes, or for a single run."""

    def act(self, observation: Any = None) -> Any:
        """Choose an action, (N,) of them for N lanes."""

    def observe(self, action: Any, reward: Any, mask: Any = None) -> None:
        """Learn from what the actions paid, in the lanes where `mask` is True (None: in all).

        Where arms have features, those are what the last `act` saw; late rewards come with
        `observation=`, the (N, d) features of the arms that earned them, (d,) for a single run.
        """


class PlainAgents:
    """N agents that know nothing of lanes, one in each.

    Their class has `act()`, which returns an arm, and `observe(arm, reward)`. It has no `reset`:
    each episode gets a new agent. The constructor is given those of its arguments that have these
    names: `num_arms`, `problem`, and for random numbers `rng`, a `numpy.random.Generator`, or
    `seed`, an integer. No two lanes are given the same random numbers.

    Where arms have features, `act` is given the (K, d) observation if it has a parameter without a
    default or one of the names in `FEATURE_NAMES`, and `observe`, after its first two parameters,
    by one of these names. Of a late reward, rows of other arms are NaN.

    Args:
        agent_class: the class of the agents.
        problem: what `problem` and `num_arms` are taken from.
        **options: other arguments of the constructor.

    Raises:
        TypeError: if the class lacks one of the methods, or its constructor an argument.
        gymnasium.error.InvalidAction: if its first action is no arm.
        ValueError: if it draws from the generator of a whole process, as `numpy.random.rand` does:
            its results would differ from run to run; `play_steps` watches later steps.
    """

    def __init__(self, agent_class: Callable[..., Any], problem: Any, **options: Any) -> None:
        if not all(callable(getattr(agent_class, name, None)) for name in ("act", "observe")):
            raise TypeError(message("agent", "have the methods act and observe", agent_class))
        self._class, self._problem, self._options = agent_class, problem, options
        self._has_features = hasattr(problem, "num_features")
        shape = problem.num_arms, getattr(problem, "num_features", 0)
        with watch_generators(agent_class):  # one is tried before anything runs
            self.reset(seed=0)
            trial = self.act(np.random.default_rng(0).normal(size=shape))
            check_actions(trial, problem.num_arms, None)

    def __repr__(self) -> str:
        return f"PlainAgents({self._class!r})"

    def reset(self, num_envs: int | None = None, seed: Any = None) -> None:
        """Construct an agent for each lane, with a stream of its own."""
        self._num_envs = num_envs
        sequence = seed if isinstance(seed, SeedSequence) else SeedSequence(seed)
        self._agents = [self._construct(stream) for stream in sequence.spawn(num_envs or 1)]
        names = _find_feature_parameters(self._agents[0]) if self._has_features else (None, None)
        self._act_parameter, self._observe_parameter = names

    def _construct(self, stream: SeedSequence) -> Any:
        known = {"num_arms": self._problem.num_arms, "problem": self._problem}
        known |= {"rng": np.random.default_rng(stream), "seed": int(stream.generate_state(1)[0])}
        signature = inspect.signature(self._class)
        named = {name: known[name] for name in known.keys() & signature.parameters.keys()}
        try:
            signature.bind(**named | self._options)
        except TypeError as error:
            condition = f"need no arguments but its options and {quote_words(known)}"
            raise TypeError(message("agent", condition, self._class, str(error))) from error
        return self._class(**named | self._options)

    def act(self, observation: Any = None) -> Any:
        """Return an arm, (N,) of them for N lanes."""
        if self._has_features:
            shape = np.shape(observation)[-2:]
            self._features = np.reshape(observation, (len(self._agents), *shape))
        actions = [
            agent.act(**self._name_features(self._act_parameter, lane))
            for lane, agent in enumerate(self._agents)
        ]
        return actions[0] if self._num_envs is None else np.array(actions)

    def observe(self, action: Any, reward: Any, mask: Any = None, observation: Any = None) -> None:
        """Give each lane's agent its arm and reward, where `mask` is True."""
        actions, rewards = np.atleast_1d(action), np.atleast_1d(reward)
        if observation is not None:  # (N, d) features of the arms that have earned late rewards
            self._features = np.full_like(self._features, np.nan)
            self._features[np.arange(len(actions)), actions] = observation
        for lane in range(len(actions)) if mask is None else np.flatnonzero(mask):
            shown = self._name_features(self._observe_parameter, lane)
            self._agents[lane].observe(int(actions[lane]), float(rewards[lane]), **shown)

    def _name_features(self, parameter: str | None, lane: Any) -> dict[str, FloatArray]:
        return {} if parameter is None else {parameter: self._features[lane]}


def _find_feature_parameters(agent: Any) -> tuple[str | None, str | None]:
    """Return the names by which the `act` and the `observe` of an agent take features."""
    named = inspect.signature(agent.act).parameters.values()
    open_ended = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    required = [each.name for each in named if each.default is each.empty]
    names = [each.name for each in named if each.kind not in open_ended]
    of_act = next((name for name in (*FEATURE_NAMES, *required) if name in names), None)
    others = [*inspect.signature(agent.observe).parameters][2:]
    of_observe = next((name for name in (*FEATURE_NAMES, of_act) if name in others), None)
    return of_act, of_observe


@contextlib.contextmanager
def watch_generators(agent: Any) -> Iterator[None]:
    """Refuse an agent that draws from the generators of the whole process; costs 50 acts or so."""
    before = _read_shared_generators()
    yield
    if _read_shared_generators() != before:
        condition = "draw by the rng or seed that it is given, not from random or numpy.random"
        raise ValueError(message("agent", condition, agent))


def _read_shared_generators() -> tuple[Any, str]:
    # Threads of Dask's workers draw from `random`, at any time.
    shared = None if "distributed" in sys.modules else random.getstate()
    return shared, str(np.random.get_state())  # noqa: NPY002


def make_rollout_agent(
    make: Callable[..., Any], problem: Any, horizon: int, options: Mapping[str, Any] | None = None
) -> BanditAgent:
    """Make an agent that is given the problem, or `PlainAgents` of a class without `reset`.

    What takes a `horizon` is given it, unless the options have another one.
    """
    timing = {"horizon": horizon} if "horizon" in inspect.signature(make).parameters else {}
    given = {**timing, **(options or {})}
    is_plain = inspect.isclass(make) and not hasattr(make, "reset")
    return PlainAgents(make, problem, **given) if is_plain else make(problem, **given)


class Step(NamedTuple):
    """What happened in one step. Where `is_alive` is False the lane's entries are padding.

    With values or costs, rewards, means and regrets are those of values * reward - costs.
    """

    actions: IntArray  # (N,)
    rewards: FloatArray  # (N,) of these actions, whenever they arrive
    regrets: FloatArray | None  # (N,), None where the environment reports none
    diagnostics: dict[str, Any]  # name -> (N,)
    is_alive: BoolArray  # (N,), False once the lane's episode has ended
    means: FloatArray | None  # (N, K) true means of the episode, None where not reported or moving
    agent_seconds: float = 0.0  # spent in `act` and `observe`
    propensities: FloatArray | None = None  # (N,) of the actions, None where not asked for
    has_exact_probabilities: bool | None = None  # whether they are the agent's exact probabilities
    observation: Any = None  # what the agent saw when it acted


@dataclass(frozen=True)
class Rollout:
    """One episode per lane. Past a lane's length actions are -1 and everything else is 0.

    With values or costs, rewards and regret are those of values * reward - costs.

    Attributes:
        actions: (N, T) actions played.
        rewards: (N, T) rewards that the actions earned, even if they arrive later.
        regret: (N, T) pseudo-regret of each pull, max(means) - means[action]; None when the
            environment does not report it.
        diagnostics: what the agent said of each decision, (N, T) each.
        lengths: (N,) number of steps of each lane's episode.
    """

    actions: IntArray
    rewards: FloatArray
    regret: FloatArray | None
    diagnostics: dict[str, np.ndarray]
    lengths: IntArray


def rollout(
    agent: BanditAgent | type,
    env: Environment,
    *,
    seed: int,
    horizon: int | None = None,
    values: Any = None,
    costs: Any = None,
    floor: float = 0.0,
) -> Rollout:
    """Play one episode per lane and keep every step of it.

    The environment draws what it would draw after `env.reset(seed=seed)` in your own loop. The
    agent gets a stream of its own, made from the same seed. It does not see lanes whose episode has
    ended, so no automatic reset feeds it a step that was not played.

    By Gymnasium's rule lane i has the seed `seed` + i. So lane i of seed s is lane i - 1 of seed
    s + 1, and ten seeds in a row of 100 lanes are 109 instances, not 1,000: step by `num_envs`.

    Args:
        agent: anything with the methods of `BanditAgent`, or a class of agents: one that takes the
            problem, or one for `PlainAgents`.
        env: an `Env` or a `VectorEnv` with `Discrete` actions.
        seed: integer >= 0 of the whole episode.
        horizon: number of steps T, at most; None plays to the environment's own time limit, or to
            the last row of a table.
        values: (K,) or (N, K) above 0: what a reward of 1 is worth, by arm; None is 1.
        costs: (K,) or (N, K): what a pull costs; None is 0.
        floor: least probability of an arm, as for the `act` of an agent.

    Returns:
        The episodes, N = 1 for a single `Env`.

    Raises:
        TypeError: if the actions are not discrete, seed or horizon not an integer, or the agent
            takes no values, costs or floor, and there are some.
        ValueError: if the horizon is missing, not positive, or beyond the environment's limit, the
            agent was made for another number of arms or other observations, or a value, a cost or
            the floor is out of range.
    """
    if isinstance(agent, type):
        problem = check_object("env.problem", find_problem(env), BanditProblem)
        agent = make_rollout_agent(agent, problem, find_num_steps(env, horizon))
    check_fit(agent, env)
    seed = check_integer("seed", seed, minimum=0)
    num_steps = find_num_steps(env, horizon)
    agent_seed = SeedSequence(seed, spawn_key=(AGENT_STREAM,))
    num_arms = int(getattr(env, "single_action_space", env.action_space).n)  # type: ignore[union-attr]
    options = check_act_options(agent, num_arms, _count_lanes(env), values, costs, floor)
    steps = play_steps(agent, env, env_seed=seed, agent_seed=agent_seed, act_options=options)
    return _stack_steps(list(islice(steps, num_steps)))


def play_steps(
    agent: BanditAgent,
    env: Environment,
    *,
    env_seed: int | Sequence[int],
    agent_seed: SeedSequence,
    propensities: bool | str = False,
    act_options: Mapping[str, Any] | None = None,
) -> Iterator[Step]:
    """Yield the steps of one episode per lane until all have ended: the loop of everything here.

    Args:
        agent: the learner.
        env: the environment.
        env_seed: what `env.reset` is given; one seed per lane is possible.
        agent_seed: what `agent.reset` is given.
        propensities: whether to ask the agent, before it acts, for the probabilities of its action;
            "decide" plays `decide` in place of `act`, which draws from those that it returns; with
            a floor, with which `act` plays it too, True is the same.
        act_options: what these are given beside the observation, see `check_act_options`.

    Raises:
        TypeError: if the environment's infos are no dicts, as under Gymnasium's `DictInfoToList`.
        ValueError: if the agent draws from the generator of the whole process, and its `reset` does
            not seed that. Steps are watched ever more seldom.
    """
    options = act_options or {}
    has_prices = not options.keys().isdisjoint(("values", "costs"))
    if propensities and "floor" in options:
        propensities = DECIDE
    get_diagnostics: Callable[[], dict[str, Any]] = getattr(agent, "diagnostics", dict)
    num_envs = _count_lanes(env)
    observation, info = env.reset(seed=env_seed)  # type: ignore[arg-type]
    if not isinstance(info, dict):
        raise TypeError(message("env", "give infos that are dicts", env))
    watched = _reset(agent, num_envs, agent_seed)
    means = np.atleast_2d(info["means"]) if "means" in info else None
    is_alive = np.ones(num_envs or 1, dtype=bool)
    lanes = np.arange(len(is_alive))
    if has_prices:  # (N, K) each
        given = options.get("values", 1.0), options.get("costs", 0.0), is_alive[:, None]
        values, costs, _ = np.broadcast_arrays(*given)
        means = None if means is None else values * means - costs
    num_taken, is_moving = 0, False
    while np.count_nonzero(is_alive):  # a quarter of the time of any() and all()
        num_taken += 1
        is_watched = num_taken.bit_count() == 1 and watched is not None
        watch = partial(watch_generators, watched) if is_watched else contextlib.nullcontext
        seen = observation
        action, known, seconds = _decide(agent, seen, options, propensities, watch)
        observation, reward, terminated, truncated, info = env.step(action)
        with watch():
            paid = perf_counter()
            _observe_rewards(agent, action, reward, info, is_alive)
            seconds += perf_counter() - paid
        if num_taken == 1 and "means" in _list_infos(info)[-1]:
            is_moving = True
        actions = np.array(action, dtype=np.int64, ndmin=1)
        earned = _read_info("pull_reward", info, is_alive.shape)  # whenever it arrives
        rewards = np.array(reward, dtype=np.float64, ndmin=1) if earned is None else earned
        regrets = _read_info("regret", info, is_alive.shape)
        if has_prices:
            rewards = values[lanes, actions] * rewards - costs[lanes, actions]
            now = values * _read_info("means", info, values.shape) - costs if is_moving else means
            regrets = None if now is None else now.max(axis=1) - now[lanes, actions]
        yield Step(
            actions=actions,
            rewards=rewards,
            regrets=regrets,
            # Copies, as an agent may report an array that it keeps.
            diagnostics={name: np.array(x, ndmin=1) for name, x in get_diagnostics().items()},
            is_alive=is_alive,
            means=None if is_moving else means,
            agent_seconds=seconds,
            propensities=known if known is None or known.ndim == 1 else known[lanes, actions],
            has_exact_probabilities=_are_exact(agent, propensities),
            observation=seen,
        )
        has_ended = np.logical_or(terminated, truncated)
        if np.count_nonzero(has_ended):
            is_alive = is_alive & ~has_ended
            # A vector environment that resets no lane by itself must not step one that has ended.
            if is_alive.any() and env.metadata.get("autoreset_mode") is AutoresetMode.DISABLED:
                observation, _ = env.reset(options={"reset_mask": has_ended})


def _decide(
    agent: Any, seen: Any, options: Mapping[str, Any], propensities: bool | str, watch: Any
) -> tuple[Any, FloatArray | None, float]:
    """Let an agent act, or decide.

    Returns:
        The action; the (N, K) probabilities before it, or the (N,) propensities with which it was
        decided, where they are asked for; and the seconds that it took, without those of the first.
    """
    known = None
    if propensities is True:
        with watch(), warnings.catch_warnings():  # that they are not exact is recorded beside
            warnings.filterwarnings("ignore", message=r"\w+\.action_probabilities rests on")
            known = np.atleast_2d(agent.action_probabilities(seen, **options))
    with watch():
        start = perf_counter()
        if propensities == DECIDE:
            action, played, _ = agent.decide(seen, **options)
            known = np.atleast_1d(played)
        else:
            action = agent.act(seen, **options)
        return action, known, perf_counter() - start


def _are_exact(agent: Any, propensities: bool | str) -> bool | None:
    """Say whether propensities are those of the actions; None where there are none."""
    if not propensities:
        return None
    return bool(propensities == DECIDE or getattr(agent, "has_exact_probabilities", False))


def _reset(agent: BanditAgent, num_envs: int | None, seed: SeedSequence) -> Any:
    """Reset an agent; return what of it is to be watched: it, its posterior, or None.

    Draws need no watching of what is ours, or seeds the generators of the whole process, from any
    state.
    """
    again, before = deepcopy(seed), _read_shared_generators()
    agent.reset(num_envs=num_envs, seed=seed)
    parts = agent, getattr(agent, "_posterior", agent)  # a stranger's posterior under our rule
    others = [part for part in parts if not type(part).__module__.startswith("agents.")]
    if not others:
        return None
    if _read_shared_generators() == before:
        return others[0]
    with watch_generators(others[0]):
        agent.reset(num_envs=num_envs, seed=again)
    return None


def _count_lanes(env: Environment) -> int | None:
    """Return N, or None for a single environment."""
    return env.num_envs if isinstance(env, gym.vector.VectorEnv) else None


def find_num_steps(env: Environment, horizon: int | None) -> int:
    """Return the steps to play: the horizon, or the environment's time limit where it is None.

    Without either, a table is played to its last row. A native vector environment knows its own
    limit; the spec of any has the default of the id.
    """
    spec: Any = env.spec  # of `gym.make_vec`, which has the limit among the options
    limit = spec and (spec.kwargs.get("max_episode_steps") or spec.max_episode_steps)
    limit = getattr(env.unwrapped, "max_episode_steps", limit)
    if isinstance(env, gym.Wrapper) and env.has_wrapper_attr("_max_episode_steps"):
        limit = env.get_wrapper_attr("_max_episode_steps")  # of a `TimeLimit`, also without a spec
    limit = limit or 0  # None and -1 mean no limit
    if horizon is None:
        limit = limit if limit > 0 else getattr(env.unwrapped, "num_rows", 0)
        if limit < 1:
            condition = "be given for an environment without max_episode_steps"
            raise ValueError(message("horizon", condition, horizon))
        return int(limit)
    horizon = check_integer("horizon", horizon, minimum=1)
    if 0 < limit < horizon:
        condition = f"be at most the environment's max_episode_steps={limit}"
        raise ValueError(message("horizon", condition, horizon))
    return horizon


def _list_infos(info: dict[str, Any]) -> list[dict[str, Any]]:
    """Return where a step reports something; same-step autoreset hides the last of a lane."""
    return [info, info["final_info"]] if "final_info" in info else [info]


def _observe_rewards(
    agent: BanditAgent, action: Any, reward: Any, info: dict[str, Any], is_alive: BoolArray
) -> None:
    """Let the agent observe what its action paid in lanes still alive, or what arrives instead."""
    if any("feedback_step" in part for part in _list_infos(info)):
        deliver(agent, info, mask=is_alive)  # the step's own reward may be on its way
    elif np.count_nonzero(is_alive) == is_alive.size:
        agent.observe(action, reward)
    else:
        agent.observe(action, reward, mask=is_alive)


def _read_info(name: str, info: dict[str, Any], shape: tuple[int, ...]) -> FloatArray | None:
    """Collect (N,) or (N, K) values that a step reports, as pseudo-regrets; None if it does not."""
    sources = [part for part in _list_infos(info) if name in part]
    if not sources:
        return None
    values = np.full(shape, np.nan)
    for part in sources:
        is_reported = part.get(f"_{name}", True)
        if len(shape) > 1:
            is_reported = np.reshape(is_reported, (-1, 1))
        np.copyto(values, part[name], where=is_reported)
    return values


def _stack_steps(steps: Sequence[Step]) -> Rollout:
    is_alive = np.stack([step.is_alive for step in steps], axis=1)

    def column(values: Sequence[Any], blank: float = 0) -> np.ndarray:
        return np.where(is_alive, np.stack([np.atleast_1d(v) for v in values], axis=1), blank)

    regrets = [step.regrets for step in steps]
    return Rollout(
        actions=column([step.actions for step in steps], blank=-1),
        rewards=column([step.rewards for step in steps]),
        regret=None if any(r is None for r in regrets) else column(regrets),
        diagnostics={
            name: column([step.diagnostics[name] for step in steps])
            for name in steps[0].diagnostics
        },
        lengths=is_alive.sum(axis=1),
    )
