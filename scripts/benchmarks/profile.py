"""What the time of an experiment with Racing, as in the paper, goes to, as a table of functions.

Compiled kernels appear under their own names, time of the compiled functions they call included.
For a prior that the kernels know, that is one loop which does everything; so the same races are
profiled with that prior hidden behind a user's `log_density`, where drawing, weighing and racing
are separate calls.
"""

from __future__ import annotations

import cProfile
import io
import pstats
import time
from collections.abc import Callable
from functools import partial

import gymnasium as gym

from agents import RacingThompson
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.simulation import simulate_block
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.problem import BanditProblem
from bandit_gym.rollout import rollout
from benchmarks.games import NUM_ARMS, PRIOR
from benchmarks.racing import UserPrior
from benchmarks.session import BLOCK_SIZE, HORIZON

NUM_FUNCTIONS = 14


def profile_racing(num_lanes: int = BLOCK_SIZE, horizon: int = HORIZON) -> str:
    """Profile one block of replications, built-in prior first, then a user's."""
    parts = {
        "block of an experiment": _play_block,
        "rollout with a user's log_density": _play_user,
    }
    return "\n\n".join(
        _profile(f"{name}, {num_lanes} x {horizon}", partial(play, num_lanes, horizon))
        for name, play in parts.items()
    )


def _play_block(num_lanes: int, horizon: int) -> None:
    environment = {"env": "BernoulliBandit-v0", "prior": PRIOR.to_dict()}
    experiment = Experiment(
        (environment,), ("racing_paper",), horizon=horizon, block_size=num_lanes
    )  # type: ignore[arg-type]
    outcome = simulate_block(experiment.runs[0], 0)
    assert outcome.failure is None, outcome.failure


def _play_user(num_lanes: int, horizon: int) -> None:
    agent = RacingThompson.paper(BanditProblem(Bernoulli(), UserPrior(PRIOR), NUM_ARMS))
    env = gym.make_vec("bandit_gym:BernoulliBandit-v0", num_envs=num_lanes, prior=PRIOR.to_dict())
    rollout(agent, env, seed=0, horizon=horizon)


def _profile(name: str, play: Callable[[], None]) -> str:
    play()  # compiles
    profiler = cProfile.Profile(time.process_time)
    profiler.runcall(play)
    printed = io.StringIO()
    statistics = pstats.Stats(profiler, stream=printed).strip_dirs()
    statistics.sort_stats("tottime").print_stats(NUM_FUNCTIONS)
    return f"{name}: {printed.getvalue().strip()}"
