"""Functions of `bandit_gym` itself: make environments, and compare agents.

Here you may pass classes and objects, such as a prior or a class of your notebook, where a file of
settings has names. An importable class becomes its name; `bandit_gym.experiments.entries`
handles the rest.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.wrappers import TimeLimit

from bandit_gym.checks import check_folder, check_integer
from bandit_gym.envs.contextual import find_env_classes
from bandit_gym.experiments.execution import progress_on_stderr, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.registration import MAX_EPISODE_STEPS

if TYPE_CHECKING:
    from bandit_gym.envs import BanditVectorEnv
    from bandit_gym.experiments.execution import Workers
    from bandit_gym.problem import BanditProblem
    from bandit_gym.results import Results


def make(env: str | BanditProblem, **options: Any) -> gym.Env[Any, Any]:
    """Make an environment: `gymnasium.make` for an id, and the same for any problem.

    Args:
        env: an id such as "BernoulliBandit-v0", or a `BanditProblem`.
        options: of the environment, and `max_episode_steps`, 1,000 unless given.
    """
    if isinstance(env, str):
        return gym.make(env, **options)  # type: ignore[return-value]
    steps = options.pop("max_episode_steps", MAX_EPISODE_STEPS)
    check_integer("max_episode_steps", steps, minimum=1)
    return TimeLimit(find_env_classes(env)[0](env, **options), steps)  # type: ignore[return-value]


def make_vec(env: str | BanditProblem, num_envs: int = 1, **options: Any) -> BanditVectorEnv:
    """Make N lanes of an environment, stepped as one batch; see `make`."""
    if isinstance(env, str):
        return gym.make_vec(env, num_envs=num_envs, **options)  # type: ignore[return-value]
    options = {"max_episode_steps": MAX_EPISODE_STEPS} | options
    return find_env_classes(env)[1](num_envs, env, **options)


def compare(
    agents: Mapping[str, Any] | Sequence[Any],
    *,
    env: str | BanditProblem | Mapping[str, Any] | Sequence[Any] = "BernoulliBandit-v0",
    replications: int = 100,
    horizon: int | Sequence[int] = 1000,
    seed: int = 0,
    recording: str = "log",
    block_size: int = 50,
    propensities: bool = False,
    out: str | Path | None = None,
    workers: Workers | None = None,
    progress: bool = True,
) -> Results:
    """Play agents against each other in the same environments, and return what came of it.

    An agent is a short name, a class or a function that takes the problem (you may define it in a
    notebook), a class for `bandit_gym.rollout.PlainAgents`, or a dict `{"agent": any of these,
    option: value, ...}`. An environment is an id, a `BanditProblem`, or a dict `{"env": either,
    option: value, ...}`. Options may be priors as objects. Equal settings give equal numbers,
    however many workers there are.

    Args:
        agents: label -> agent, or a list of them; paired differences are taken to the first.
        env: an environment, or a list of environments.
        replications: episodes of each agent in each environment.
        horizon: T, steps of each episode; of several, increasing, the last, and tables show the
            regret at each.
        out: folder to store the results in, and to go on with what is there; None keeps them in
            this process alone.
        seed: integer >= 0 from which every stream is derived.
        recording: which steps are stored, "log" or "every"; see `Experiment`.
        block_size: replications simulated together.
        propensities: whether to store the probability of each action, and every step.
        workers: what simulates; None takes every core of this machine.
        progress: whether to show a progress bar.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: if a name is unknown, or an agent cannot play in an environment.
    """
    experiment = Experiment.from_dict(
        {
            "environments": env if isinstance(env, list | tuple) else [env],
            "agents": agents,
            "replications": replications,
            "horizon": horizon,
            "seed": seed,
            "recording": recording,
            "block_size": block_size,
            "propensities": propensities,
        }
    )
    running: dict[str, Any] = {"workers": workers}
    with contextlib.ExitStack() as stack:
        if progress:
            running["on_progress"] = stack.enter_context(progress_on_stderr())
        if out is None:
            temporary = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
            out = stack.enter_context(temporary)
        return run_experiment(experiment, check_folder("out", out), **running)
