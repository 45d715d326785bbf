"""Functions of `bandit_gym` itself: make environments, and compare agents.

Here you may pass classes and objects, such as a prior or a class of your notebook, where a file of
settings has names. An importable class becomes its name; `bandit_gym.experiments.entries`
handles the rest.
"""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.wrappers import TimeLimit

from bandit_gym.checks import check_folder, check_integer
from bandit_gym.envs.contextual import find_env_classes
from bandit_gym.experiments.execution import (
    Progress,
    Workers,
    progress_on_stderr,
    simulate_experiment,
)
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.registration import MAX_EPISODE_STEPS

if TYPE_CHECKING:
    from bandit_gym.envs import BanditVectorEnv
    from bandit_gym.problem import BanditProblem
    from bandit_gym.results import Results


def make(env: str | BanditProblem, **options: Any) -> gym.Env[Any, Any]:
    """Make an environment: `gymnasium.make` for an id, and the same for any problem.

    Args:
        env: an id such as "BernoulliBandit-v0", or a `BanditProblem`.
        options: of the environment, and `max_episode_steps`, 1,000 unless given; a table has none.
    """
    if isinstance(env, str):
        return gym.make(env, **options)  # type: ignore[return-value]
    steps = options.pop("max_episode_steps", MAX_EPISODE_STEPS)
    steps = check_integer("max_episode_steps", steps, minimum=1)
    if options.get("observation", "constant") != "constant":
        options = {"horizon": steps} | options
    return TimeLimit(find_env_classes(env)[0](env, **options), steps)  # type: ignore[return-value]


def make_vec(env: str | BanditProblem, num_envs: int = 1, **options: Any) -> BanditVectorEnv:
    """Make N lanes of an environment, stepped as one batch; see `make`.

    `vector_kwargs` of Gymnasium's `make_vec`, such as an `autoreset_mode`, are options here.
    """
    if "vectorization_mode" not in options:
        options |= options.pop("vector_kwargs", None) or {}
    if isinstance(env, str):
        return gym.make_vec(env, num_envs=num_envs, **options)  # type: ignore[return-value]
    options = {"max_episode_steps": MAX_EPISODE_STEPS} | options
    return find_env_classes(env)[1](num_envs, env, **options)


def run_experiment(
    experiment: Experiment,
    directory: str | Path,
    *,
    workers: Workers | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Results:
    """Return the results of an experiment, after simulating and storing its missing blocks.

    If an agent or environment raises, only its own blocks fail. Their tracebacks are stored, and
    `Results.failed` lists the run. A crashed worker counts as a failure too; with "serial" a crash
    ends this process. The next call simulates missing, damaged and failed blocks.

    Blocks of other code (your modules, a file that an option names, or the results version changed)
    are kept beside, and count again when the code comes back.

    Args:
        experiment: what to simulate.
        directory: folder for this experiment; see `store`.
        workers: the back end; None uses every core of this machine.
        on_progress: called in this process, at the start and after each block was stored; an
            exception that it raises stops the experiment.

    Raises:
        ValueError: if an environment or agent cannot be built; nothing is simulated then.
        FileExistsError: if the folder holds another experiment, or is of an older format.
        BlockingIOError: if another process writes to the folder.
        ConnectionError: if the scheduler does not answer.
    """
    from bandit_gym.results.results import read_results  # brings pandas, which `make` does without

    store = simulate_experiment(experiment, directory, workers=workers, on_progress=on_progress)
    return read_results(store, experiment)


def compare(
    agents: Mapping[str, Any] | Sequence[Any],
    *,
    env: str | BanditProblem | Mapping[str, Any] | Sequence[Any] = "BernoulliBandit-v0",
    replications: int = 100,
    horizon: int | Sequence[int] = 1000,
    seed: int = 0,
    recording: str = "log",
    block_size: int = 50,
    propensities: bool | str = False,
    values: Any = None,
    costs: Any = None,
    floor: float = 0.0,
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
        propensities: whether to store the probability of each action, and every step; "decide"
            plays `agent.decide`, see `Experiment`.
        values: (K,) above 0: what a reward of 1 is worth, by arm; None is 1. With values or costs,
            rewards and regret are those of values * reward - costs.
        costs: (K,): what a pull costs; None is 0.
        floor: least probability of an arm, as for the `act` of an agent.
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
            "values": values,
            "costs": costs,
            "floor": floor,
        }
    )
    with contextlib.ExitStack() as stack:
        on_progress = stack.enter_context(progress_on_stderr()) if progress else None
        if out is None:
            temporary = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
            out = stack.enter_context(temporary)
        folder = check_folder("out", out)
        results = run_experiment(experiment, folder, workers=workers, on_progress=on_progress)
    for run in results.failed:
        where = f"agent {run.run.agent.label} failed in {run.run.environment.label}"
        warnings.warn(f"{where}: {run.failure}", stacklevel=2)
    return results
