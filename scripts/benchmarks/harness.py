"""What an experiment costs beside its environment and its agent.

That is the loop, the sums of the recorder and the Parquet file of a block. The agent's time is what
the experiment itself measures; the environment's is that of as many steps of it alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from time import perf_counter

import numpy as np

from bandit_gym.experiments.catalogue import make_agent_and_environment
from bandit_gym.experiments.execution import simulate_block
from bandit_gym.experiments.experiment import Experiment, Run
from bandit_gym.rollout import play
from benchmarks.session import BLOCK_SIZE, HORIZON, Measurement, Session
from benchmarks.timing import Effort, ResultRow, summarise_turns

MAX_BLOCK_REPEATS = 3  # each takes seconds
MIN_STEPS = 200  # the file written at the end would have too large a share of fewer
TIMED_CASES = {
    "harness.racing": ("racing_paper", BLOCK_SIZE),
    "harness.exact.many": ("exact", 1000),
}
"""Key -> agent and lanes."""


def measurements(session: Session) -> Iterator[Measurement]:
    """Yield the measurements of the harness's share of whole blocks, by the wall clock."""
    for key, (agent, num_lanes) in TIMED_CASES.items():
        yield Measurement((key,), partial(_time_shares, session.effort, key, agent, num_lanes))


def _time_shares(effort: Effort, key: str, agent: str, num_lanes: int) -> list[ResultRow]:
    horizon = effort.length(HORIZON, minimum=MIN_STEPS)
    sizes = {"horizon": horizon, "block_size": effort.width(num_lanes)}
    run = Experiment(["BernoulliBandit-v0"], [agent], **sizes).runs[0]
    simulate_block(run, 0)  # compiles
    shares = [
        _time_share(run, block) for block in range(MAX_BLOCK_REPEATS if effort.is_full else 1)
    ]
    title = f"harness / whole {agent} run, {run.block_size} lanes x {run.horizon} steps"
    return [summarise_turns(key, title, shares, "x")]


def _time_share(run: Run, block: int) -> float:
    facts = simulate_block(run, block).facts
    num_untimed = run.horizon - facts["decisions"] // run.block_size
    beside = facts["agent_seconds"] + _other_seconds(run, block, num_untimed)
    return float(1 - beside / facts["seconds"])


def _other_seconds(run: Run, block: int, num_steps: int) -> float:
    """Time the agent in its first steps, which blocks leave out, and the environment alone."""
    agent, env = make_agent_and_environment(run)
    seeds, agent_seed = run.environment_seeds(block), run.agent_seed(block)
    steps = play(agent, env, env_seed=seeds, agent_seed=agent_seed)
    agent_seconds = sum(step.agent_seconds for step in islice(steps, num_steps))
    actions = np.arange(run.block_size) % env.single_action_space.n  # type: ignore[attr-defined]
    start = perf_counter()
    env.reset(seed=seeds)
    for _ in range(run.horizon):
        env.step(actions)
    return agent_seconds + perf_counter() - start
