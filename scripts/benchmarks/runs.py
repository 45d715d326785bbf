"""What runs cost: a busy machine, environments, and the harness."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import islice
from time import perf_counter

import gymnasium as gym
import numpy as np
from gymnasium.vector import SyncVectorEnv

from bandit_gym.experiments.execution import simulate_block
from bandit_gym.experiments.experiment import Experiment, Run, make_agent_and_environment
from bandit_gym.numerics.streams import WORTH_COMPILING
from bandit_gym.rollout import play_steps
from benchmarks import timing
from benchmarks.thresholds import CONTROL_KEY
from benchmarks.timing import BLOCK_SIZE, HORIZON, Effort

LOOP_SCRIPT = """
import sys
from time import perf_counter, process_time
start, busy = perf_counter(), process_time()
while perf_counter() < start + float(sys.argv[1]):
    pass
print((perf_counter() - start) / (process_time() - busy))
"""

COLD_SCRIPT = """
import sys
import bandit_gym as bg
from agents import RacingThompson

prior = {"name": "truncated_normal", "mean": 0.5, "std": 0.1}
if sys.argv[1] == "means":
    env, horizon = bg.make("BernoulliBandit-v0", num_arms=10, prior=prior), 1000
else:
    env, horizon = bg.make("ContextualBandit-v0", num_arms=10, num_features=5), 200
observation, info = env.reset(seed=0)
agent = RacingThompson(env)
agent.reset(seed=0)
for _ in range(horizon):
    action = agent.act(observation)
    observation, reward, _, _, info = env.step(action)
    agent.observe(action, reward)
if sys.argv[1] == "features":
    agent.action_probabilities(observation)
"""
"""README's two examples."""

ENV_ID = "bandit_gym:BernoulliBandit-v0"
HARNESS_KEY, HARNESS_AGENT = "harness.racing", "racing_paper"


def measurements(effort: Effort) -> Iterator[timing.Measurement]:
    """Yield the measurements of all rows about runs; whether the machine is busy comes first."""
    yield timing.Measurement((CONTROL_KEY,), _measure_load)
    yield from _measure_steps(effort)
    yield timing.Measurement((HARNESS_KEY,), _measure_share)
    if effort.name == "full":  # as it compiles for half a minute
        yield timing.Measurement(("cold.means", "cold.features"), _measure_cold_start)


def _measure_load(effort: Effort) -> Iterator[timing.ResultRow]:
    """Compare the time of a loop that needs one core by the wall clock with the processor's.

    They are the same unless somebody else is given that core meanwhile. One loop for each core
    runs, as rows of two workers need them all.
    """
    command = [sys.executable, "-I", "-c", LOOP_SCRIPT, str(effort.seconds)]
    cores, turns = len(os.sched_getaffinity(0)), []
    for _ in range(effort.repeats):
        loops = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(cores)]
        turns.append(max(float(loop.communicate()[0]) for loop in loops))
    title = f"load: wall clock / processor time of {cores} loops at once"
    yield timing.summarise_turns(CONTROL_KEY, title, turns)


def _measure_cold_start(effort: Effort) -> Iterator[timing.ResultRow]:
    """Yield the processor time of README's two examples where nothing has been compiled yet."""
    for name in ("means", "features"):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | {"NUMBA_CACHE_DIR": folder}
            subprocess.run([sys.executable, "-c", COLD_SCRIPT, name], env=environment, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        title = f"README's example with {name}, nothing compiled yet: processor time"
        yield timing.ResultRow(f"cold.{name}", title, seconds, unit="s", turns=(seconds,))


# -- Environments ----------------------------------------------------------------------------------


def _measure_steps(effort: Effort) -> Iterator[timing.Measurement]:
    """Yield the native environment against `SyncVectorEnv` and gymnax.

    A native round is a whole episode of 1,000 steps, the drawing of new means included, as gymnax's
    is. `SyncVectorEnv` is timed between resets, for an episode of it takes too long: that is in its
    favour.
    """
    num_lanes = effort.width(2000)
    yield timing.match(
        f"bernoulli step, {num_lanes} lanes: ",
        {"environment.bernoulli.many.sync": ("SyncVectorEnv", "native")},
        lambda: {"native": _play_native(num_lanes), "SyncVectorEnv": _step_sync(num_lanes)},
        "step of a lane",
    )
    yield timing.match(
        f"bernoulli step, {num_lanes} lanes, 2 arms, episodes of {HORIZON}: ",
        {f"environment.bernoulli.gymnax.t{HORIZON}": ("gymnax", "native")},
        lambda: {
            "native": _play_native(num_lanes, num_arms=2),
            "gymnax": timing.make_peer(effort, "gymnax", 2000 * HORIZON),
        },
        "step of a lane",
    )


def _play_native(num_lanes: int, num_arms: int = 10) -> timing.Contestant:
    env = gym.make_vec(ENV_ID, num_lanes, num_arms=num_arms, max_episode_steps=HORIZON)
    env.reset(seed=0)
    for _ in range(0, WORTH_COMPILING, num_lanes):
        env.reset()  # until its numbers come from the compiled loop
    actions = np.random.default_rng(0).integers(num_arms, size=(HORIZON, num_lanes))

    def play_episode() -> None:
        env.reset()
        for row in actions:
            env.step(row)

    return timing.make_contestant(play_episode, actions.size)


def _step_sync(num_lanes: int) -> timing.Contestant:
    env = SyncVectorEnv([partial(gym.make, ENV_ID, disable_env_checker=True)] * num_lanes)
    env.reset(seed=0)
    return timing.make_contestant(partial(env.step, np.zeros(num_lanes, dtype=np.int64)), num_lanes)


# -- The harness -----------------------------------------------------------------------------------


def _measure_share(effort: Effort) -> Iterator[timing.ResultRow]:
    """Return the share of a whole run that is neither its environment's nor its agent's.

    That is the loop, the sums of the recorder and the Parquet file of a block, whose share would be
    too large in fewer than 200 steps. The agent's time is what the experiment itself measures; the
    environment's is that of as many steps of it alone.
    """
    horizon, block_size = effort.length(HORIZON, minimum=200), effort.width(BLOCK_SIZE)
    sizes = {"horizon": horizon, "block_size": block_size}
    experiment = Experiment(["BernoulliBandit-v0"], [HARNESS_AGENT], **sizes)
    run = experiment.runs[0]
    simulate_block(run, 0)  # compiles
    shares = [_find_share(run, block) for block in range(3 if effort.length_scale == 1.0 else 1)]
    title = f"harness / whole {HARNESS_AGENT} run, {run.block_size} lanes x {run.horizon} steps"
    yield timing.summarise_turns(HARNESS_KEY, title, shares)


def _find_share(run: Run, block: int) -> float:
    """Time a block, then the agent in its first steps, which blocks leave out, and the steps."""
    facts = simulate_block(run, block).facts
    num_untimed = run.horizon - facts["decisions"] // run.block_size
    agent, env = make_agent_and_environment(run)
    seeds, agent_seed = run.environment_seeds(block), run.agent_seed(block)
    steps = play_steps(agent, env, env_seed=seeds, agent_seed=agent_seed)
    beside = facts["agent_seconds"] + sum(step.agent_seconds for step in islice(steps, num_untimed))
    actions = np.arange(run.block_size) % env.single_action_space.n  # type: ignore[attr-defined]
    start = perf_counter()
    env.reset(seed=seeds)
    for _ in range(run.horizon):
        env.step(actions)
    return float(1 - (beside + perf_counter() - start) / facts["seconds"])
