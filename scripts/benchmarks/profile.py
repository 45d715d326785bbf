"""What the time of a Racing experiment goes to, as a table of functions.

Compiled kernels appear under their own names, time of the compiled functions they call included.
For a prior that the kernels know, that is one loop which does everything; so the same races are
profiled with that prior hidden behind a user's `log_density`, where drawing, weighing and racing
are separate calls.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Callable
from pathlib import Path

import gymnasium as gym

from agents import RacingThompson
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import TruncatedNormal
from bandit_gym.problem import BanditProblem
from bandit_gym.rollout import rollout
from bandit_gym.experiments.simulation import simulate_block
from benchmarks.racing import UserPrior
from benchmarks.session import BLOCK_SIZE, HORIZON

NUM_FUNCTIONS = 14
PROJECT = Path(__file__).parents[2]
PRIOR = TruncatedNormal(0.5, 0.1)

Entry = tuple[str, int, float, float]  # name, calls, own seconds, seconds with callees


def profile_racing(num_lanes: int = BLOCK_SIZE, horizon: int = HORIZON) -> str:
    """Profile one block of replications, built-in prior first, then a user's."""
    size = f"{num_lanes} x {horizon}"
    parts = {
        f"block of an experiment, {size}": lambda: _play_block(num_lanes, horizon),
        f"rollout with a user's log_density, {size}": lambda: _play_user(num_lanes, horizon),
    }
    return "\n\n".join(_profile(name, play) for name, play in parts.items())


def _play_block(num_lanes: int, horizon: int) -> None:
    environment = {"env": "BernoulliBandit-v0", "prior": PRIOR.to_dict()}
    experiment = Experiment((environment,), ("racing",), horizon=horizon, block_size=num_lanes)  # type: ignore[arg-type]
    outcome = simulate_block(experiment.runs[0], 0)
    assert outcome.failure is None, outcome.failure


def _play_user(num_lanes: int, horizon: int) -> None:
    agent = RacingThompson(BanditProblem(Bernoulli(), UserPrior(PRIOR), 10))
    env = gym.make_vec("bandit_gym:BernoulliBandit-v0", num_envs=num_lanes, prior=PRIOR.to_dict())
    rollout(agent, env, seed=0, horizon=horizon)


def _profile(name: str, play: Callable[[], None]) -> str:
    play()  # compiles
    profiler = cProfile.Profile(time.process_time)
    profiler.runcall(play)
    entries = _entries(profiler)
    total = sum(own for _, _, own, _ in entries)
    heading = f"{name}: {total:.2f} s of processor time\n"
    return heading + _format(entries[:NUM_FUNCTIONS], total)


def _entries(profiler: cProfile.Profile) -> list[Entry]:
    statistics = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    entries = [
        (_name(*where), calls, own, cumulative)
        for where, (_, calls, own, cumulative, _) in statistics.items()
    ]
    return sorted(entries, key=lambda entry: entry[2], reverse=True)


def _name(file: str, line: int, function: str) -> str:
    """Name a function by its module, and what is not Python's by itself."""
    path = Path(file)
    if not path.is_file():
        return function.strip("<>").removeprefix("built-in method ")
    if path.is_relative_to(PROJECT) and "site-packages" not in path.parts:
        return f"{path.relative_to(PROJECT)}: {function}"
    return f"{path.parent.name}/{path.name}: {function}"


def _format(entries: list[Entry], total: float) -> str:
    lines = [f"{'own':>6} {'with callees':>13} {'calls':>8}  function"]
    for name, calls, own, cumulative in entries:
        lines.append(f"{own / total:6.1%} {cumulative / total:13.1%} {calls:8d}  {name}")
    return "\n".join(lines)
