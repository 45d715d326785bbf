"""Data sets for in-context learners: episodes, and what exact rules would have done at each pull.

Notation: E episodes, T pulls in each, K arms, N lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import SeedSequence

from bandit_gym.checks import (
    check_callback,
    check_choice,
    check_file,
    check_fit,
    check_integer,
    find_problem,
    message,
)
from bandit_gym.checks.typing import BoolArray, FloatArray, IntArray
from bandit_gym.experiments.entries import agent_names, load_agent
from bandit_gym.files import replacing
from bandit_gym.problem import BanditProblem
from bandit_gym.rollout import (
    AGENT_STREAM,
    BanditAgent,
    Environment,
    find_num_steps,
    make_rollout_agent,
    play_steps,
)
from bandit_gym.wrappers.base import list_effects

MEANS_CONDITION = "pay each pull at once, and report means that do not move"


@dataclass(frozen=True)
class InContextDataset:
    """Episodes with labels; those of a pull are given the actions and rewards before it.

    Attributes:
        actions: (E, T) arms pulled.
        rewards: (E, T) what they paid.
        means: (E, K) true means.
        optimal_actions: (E,) arm of the largest mean, the first of several.
        thompson_probabilities: (E, T, K) that exact Thompson sampling plays each arm.
        bayes_optimal_actions: (E, T, K) True for each arm that is as good as any for the pulls that
            are left; None where `agents.bayes_optimal` does not reach.
    """

    actions: IntArray
    rewards: FloatArray
    means: FloatArray
    optimal_actions: IntArray
    thompson_probabilities: FloatArray
    bayes_optimal_actions: BoolArray | None

    def save(self, path: str | Path) -> None:
        """Write the arrays to an `.npz` file, or to a `.parquet` file of a row per pull.

        Rows have `episode`, `step` and the names above; what has an entry per arm is a list. What
        is None is left out.
        """
        file_path = check_file("path", path)
        if file_path.suffix not in (".npz", ".parquet"):
            raise ValueError(message("path", "end in .npz or .parquet", str(path)))
        arrays = {name: array for name, array in asdict(self).items() if array is not None}
        with replacing(file_path, allows_devices=True) as file:
            if file_path.suffix == ".npz":
                np.savez_compressed(file, **arrays)
                return
            episodes, steps = (each.ravel() for each in np.indices(self.actions.shape))
            columns: dict[str, Any] = {"episode": episodes, "step": steps}
            for name, array in arrays.items():
                is_of_episode = name in ("means", "optimal_actions")
                columns[name] = list(array[episodes] if is_of_episode else array[episodes, steps])
            pd.DataFrame(columns).to_parquet(file)


def in_context_dataset(
    env: Environment,
    policy: str | Callable[..., BanditAgent],
    num_episodes: int,
    *,
    seed: int,
    horizon: int | None = None,
) -> InContextDataset:
    """Play episodes of a policy, and label each pull with what exact rules would have done.

    The labels are those of agents that are given the environment's own prior and all rewards before
    the pull. A vector environment plays its lanes at once, which is far faster.

    Args:
        env: an environment of this package, single or vector; no wrapper may delay its rewards or
            move its means.
        policy: what pulls: an agent's short name, a function or class that makes an agent of the
            problem, or "uniform". What takes a `horizon` is given T.
        num_episodes: E.
        seed: of the environment's episodes and the policy.
        horizon: T; None plays to the environment's own time limit.

    Raises:
        TypeError: if an argument is of the wrong kind, or exact Thompson probabilities are not to
            be had for the prior.
        ValueError: if a value is out of range, or the environment another one.
    """
    problem = find_problem(env)
    if not isinstance(problem, BanditProblem):
        raise TypeError(message("env", "be an environment with a BanditProblem", env))
    if problem.likelihood.needs_squares:
        condition = "have rewards of a known std, as counts and sums are all that labels go by"
        raise ValueError(message("env", condition, problem.likelihood))
    if {effect.kind for effect in list_effects(env)} & {"delays", "means"}:
        raise ValueError(message("env", MEANS_CONDITION, env))
    num_steps = find_num_steps(env, horizon)
    num_episodes = check_integer("num_episodes", num_episodes, minimum=1)
    seed = check_integer("seed", seed, minimum=0)
    agent = _make_policy(policy, problem, num_steps)
    check_fit(agent, env)
    blocks = list(_play_blocks(agent, env, seed, num_episodes, num_steps))
    columns = (np.concatenate(parts)[:num_episodes] for parts in zip(*blocks, strict=True))
    actions, rewards, means = columns
    if not np.all(problem.likelihood.is_possible(rewards)):
        condition = f"pay {problem.likelihood.name} rewards, as its problem says"
        raise ValueError(message("env", condition, env))
    counts, sums = _sum_before_pulls(actions, rewards, problem.num_arms)
    regret = import_module("agents.bayes_optimal.regret")
    policies = import_module("agents.bayes_optimal.policy")
    probabilities = regret.thompson_probabilities(problem, counts, sums)
    best = policies.optimal_actions(problem, counts, sums, num_steps)
    shape = (*actions.shape, problem.num_arms)
    return InContextDataset(
        actions=actions,
        rewards=rewards,
        means=means,
        optimal_actions=means.argmax(axis=1),
        thompson_probabilities=probabilities.reshape(shape),
        bayes_optimal_actions=None if best is None else best.reshape(shape),
    )


def _make_policy(
    policy: str | Callable[..., BanditAgent], problem: BanditProblem, horizon: int
) -> BanditAgent:
    make: Any = policy
    if isinstance(policy, str):
        targets = {"uniform": agent_names()["random"], **agent_names()}
        make = load_agent(targets[check_choice("policy", policy, targets)])
    check_callback("policy", make)
    return make_rollout_agent(make, problem, horizon)


def _play_blocks(
    agent: BanditAgent, env: Environment, seed: int, num_episodes: int, num_steps: int
) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
    """Yield (N, T) actions and rewards and (N, K) means, until there are E episodes."""
    num_lanes = getattr(env, "num_envs", 1)
    streams = SeedSequence(seed).spawn(-(-num_episodes // num_lanes))
    for block, stream in enumerate(streams):
        seeds = stream.generate_state(num_lanes, np.uint64).tolist()
        agent_seed = SeedSequence(seed, spawn_key=(AGENT_STREAM, block))
        env_seed = seeds if hasattr(env, "num_envs") else seeds[0]
        steps = list(
            islice(play_steps(agent, env, env_seed=env_seed, agent_seed=agent_seed), num_steps)
        )
        if len(steps) < num_steps or not steps[-1].is_alive.all():
            condition = "be at most the time limit of the environment's episodes"
            raise ValueError(message("horizon", condition, num_steps))
        if steps[0].means is None:
            raise ValueError(message("env", MEANS_CONDITION, env))
        actions = np.stack([step.actions for step in steps], axis=1)
        yield actions, np.stack([step.rewards for step in steps], axis=1), steps[0].means


def _sum_before_pulls(
    actions: IntArray, rewards: FloatArray, num_arms: int
) -> tuple[IntArray, FloatArray]:
    """Return (E T, K) pulls and total rewards of each arm before each pull."""
    is_pulled = (actions[:, :, None] == np.arange(num_arms))[:, :-1]
    counts, sums = np.zeros((2, *actions.shape, num_arms))
    counts[:, 1:] = is_pulled.cumsum(axis=1)
    sums[:, 1:] = (is_pulled * rewards[:, :-1, None]).cumsum(axis=1)
    return counts.reshape(-1, num_arms).astype(np.int64), sums.reshape(-1, num_arms)
