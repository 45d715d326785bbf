"""One block of replications: build the world and the agent, play, and write down the sums.

What comes out depends on (run, block) alone: not on the process, the machine's load, the number of
threads or the order in which blocks are done.
"""

from __future__ import annotations

import contextlib
import os
import platform
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from itertools import islice
from time import perf_counter
from typing import Any, NamedTuple

import gymnasium as gym
from threadpoolctl import ThreadpoolController

from bandit_gym.checks import check_fit, find_misbelief, message
from bandit_gym.checks.files import RESULTS_VERSION
from bandit_gym.experiments.blocks import to_parquet
from bandit_gym.experiments.catalogue import (
    PRIOR,
    believe,
    load,
    load_agent,
    takes_prior,
    without_told,
)
from bandit_gym.experiments.experiment import Experiment, Run
from bandit_gym.experiments.packed import is_packed, unpack, unpack_options
from bandit_gym.experiments.recording import Recorder
from bandit_gym.rollout import BanditAgent, Step, play
from bandit_gym.wrappers import wrap

Sources = dict[str, dict[str, str]]
PACKAGES = ("bayesian-bandit-gym", "gymnasium", "numpy", "scipy", "numba", "pyarrow")
WARM_UP_STEPS = 30


@dataclass(frozen=True)
class Outcome:
    """What became of one block.

    Attributes:
        run: the run it belongs to.
        block: its index.
        data: its results as the bytes of a Parquet file, None if it failed.
        facts: what may differ from time to time: `agent_seconds` spent in `act` and `observe`,
            `seconds` in all, `decisions` taken, `process`, `host`, `versions` of packages and the
            `results_version` of the engine; and `misbelief`, for the report.
        failure: one line and then the traceback, None if all went well.
    """

    run: Run
    block: int
    data: bytes | None
    facts: dict[str, Any]
    failure: str | None = None


def simulate_block(run: Run, block: int, sources: Sources | None = None) -> Outcome:
    """Simulate one block; an exception of the agent or the environment becomes a failure.

    Args:
        run: the run.
        block: index of the block.
        sources: what this process must find as `Run.sources`, None if it does not matter.
    """
    facts: dict[str, Any] = {
        "process": os.getpid(),
        "host": platform.node(),
        "versions": versions(),
        "results_version": RESULTS_VERSION,
    }
    start = perf_counter()
    try:
        prepared = _prepare(run, sources)
        with prepared.threads.limit(limits=1):
            data, measured = _simulate(run, block)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit among them
        text = f"{headline(error)}\n\n{traceback.format_exc()}"
        return Outcome(run, block, None, facts, text)
    measured |= {"misbelief": prepared.misbelief, "seconds": perf_counter() - start}
    return Outcome(run, block, data, facts | measured)


def build(run: Run) -> tuple[BanditAgent, gym.vector.VectorEnv]:
    """Make the agent and the native vector environment of a run.

    An agent whose constructor takes a `horizon` is told that of the run, if its entry tells none.

    Raises:
        ValueError: if the environment is no Bayesian bandit, an option has a wrong value, or the
            agent cannot tell the propensities that are asked for.
    """
    env = make_world(run)
    problem = _problem(env)
    if problem is None:
        target = run.environment.target
        raise ValueError(f"env must have a `problem` to tell agents of, got {target!r}.")
    agent = _make_agent(run, problem)
    if run.propensities and not hasattr(agent, "action_probabilities"):
        condition = "have the method action_probabilities where propensities are recorded"
        raise ValueError(message("agent", condition, run.agent.target))
    return agent, env


def least_regrets(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """Yield each environment's label, and its least possible regret or why there is none."""
    for run in {run.environment: run for run in experiment.runs}.values():
        env = make_world(run)
        try:
            if env is not env.unwrapped or not getattr(env, "draws_means", False):
                raise ValueError("it is for worlds that draw their means from a prior, unwrapped.")
            optimal_regret = load("agents.bayes_optimal:optimal_regret")
            yield run.environment.label, f"{optimal_regret(_problem(env), run.horizon):.2f}"
        except (TypeError, ValueError) as error:
            yield run.environment.label, f"unknown; {error}"


def make_world(run: Run) -> gym.vector.VectorEnv:
    """Make the native vector environment of a run, in its wrappers."""
    entry = run.environment
    settings = unpack_options(entry.options)
    options = {name: value for name, value in settings.items() if name != "wrappers"}
    env = _make_lanes(entry.target, run.block_size, max_episode_steps=run.horizon, **options)
    return wrap(env, settings.get("wrappers", []))


def _make_lanes(target: str, num_envs: int, **options: Any) -> gym.vector.VectorEnv:
    if not is_packed(target):
        return gym.make_vec(target, num_envs=num_envs, **options)
    from bandit_gym.envs import BanditVectorEnv

    return BanditVectorEnv(num_envs, unpack(target), **options)


def _make_agent(run: Run, problem: Any) -> BanditAgent:
    """Make an agent that is told the problem, or another prior, and the horizon if it asks."""
    entry = run.agent
    make, options = load_agent(entry.target), unpack_options(entry.options)
    if entry.told is not None and not takes_prior(entry.target):
        problem, options = believe(problem, options[PRIOR]), without_told(options)
    if "horizon" in signature(make).parameters:
        options = {"horizon": run.horizon} | options
    return make(problem, **options)


def _problem(env: gym.vector.VectorEnv) -> Any:
    first = getattr(env.unwrapped, "envs", (env,))[0]  # of environments one by one
    return getattr(first.unwrapped, "problem", None)


def try_run(run: Run) -> str:
    """Say why agent and environment cannot be built or do not fit each other; "" if they do."""
    try:
        agent, env = build(run)
        check_fit(agent, env, warns=run.agent.told is None)
        _check_size(agent, run)
        env.close()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit among them
        return headline(error)
    return ""


def _check_size(agent: BanditAgent, run: Run) -> None:
    """Refuse a block of more lanes than the agent says that it can hold, if it says anything."""
    most = getattr(agent, "most_lanes", run.block_size)
    if run.block_size > most:
        condition = f"be at most {most}, for all that this agent keeps of each lane"
        raise ValueError(message("block_size", condition, run.block_size))


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _simulate(run: Run, block: int) -> tuple[bytes, dict[str, Any]]:
    agent, env = build(run)
    recorder = Recorder(run.steps)
    seconds = 0.0
    for step in islice(_episodes(run, block, agent, env), run.horizon):
        recorder.add(step)
        seconds += step.agent_seconds
    env.close()
    data = to_parquet(run, block, recorder.finish())
    return data, {
        "agent_seconds": seconds,
        "decisions": recorder.num_decisions,
    }


def _episodes(
    run: Run, block: int, agent: BanditAgent, env: gym.vector.VectorEnv
) -> Iterator[Step]:
    seeds, agent_seed = run.environment_seeds(block), run.agent_seed(block)
    return play(agent, env, env_seed=seeds, agent_seed=agent_seed, propensities=run.propensities)


class Prepared(NamedTuple):
    """What is found out once per run and process.

    Attributes:
        sources: what the run was prepared with.
        threads: limits the threads of all libraries; nested ones would fight for the cores, and
            their number may change the last bit of a matrix product.
        misbelief: where the agent's problem differs from its world's, in words.
    """

    sources: Sources | None
    threads: ThreadpoolController
    misbelief: str | None


_prepared: dict[Run, Prepared] = {}


def _prepare(run: Run, sources: Sources | None) -> Prepared:
    """Get ready, once per run and process."""
    if run not in _prepared or _prepared[run].sources != sources:
        if sources not in (None, run.sources()):
            raise RuntimeError(
                f"sources must be the same in all processes, got others in process {os.getpid()} "
                f"on {platform.node()}: {run.sources()!r}; leave them alone while a run is at work."
            )
        misbelief = _warm_up(run)
        _prepared[run] = Prepared(sources, ThreadpoolController(), misbelief)
    return _prepared[run]


def _warm_up(run: Run) -> str | None:
    """Play some steps for nothing, so that no compilation is taken for the agent's own time.

    Returns:
        Where the agent's problem differs from its world's, in words; None if it does not.
    """
    agent, env = build(run)
    for _ in islice(_episodes(run, 0, agent, env), min(WARM_UP_STEPS, run.horizon)):
        pass
    env.close()
    return find_misbelief(getattr(agent, "problem", None), _problem(env))


def headline(error: BaseException) -> str:
    """Say in one line, fit for a terminal, what was raised."""
    line = f"{type(error).__name__}: {str(error).strip()}".partition("\n")[0]
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
