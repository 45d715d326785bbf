"""What an experiment costs beside its environment and its agent.

That is the loop, the sums of the recorder and the Parquet file of a block. The agent's time is what
the experiment itself measures; the environment's is that of as many steps of it alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import numpy as np

from bandit_gym.experiments.experiment import Experiment, Run
from bandit_gym.experiments.simulation import build, simulate_block
from benchmarks.session import BLOCK_SIZE, HORIZON, Session
from benchmarks.timing import Row, summarise

MANY = 1000
MAX_REPEATS = 3  # each takes seconds
FEWEST_STEPS = 200  # the file written at the end would have too large a share of fewer
CASES = (("racing", BLOCK_SIZE), ("exact", BLOCK_SIZE), ("exact", MANY))


def rows(session: Session) -> Iterator[Row]:
    """Measure the harness's share of whole blocks, by the wall clock."""
    for agent, num_lanes in CASES:
        run = Experiment(
            environments=("BernoulliBandit-v0",),
            agents=(agent,),
            horizon=session.effort.length(HORIZON, minimum=FEWEST_STEPS),
            block_size=session.effort.width(num_lanes),
        ).runs[0]
        simulate_block(run, 0)  # compiles
        num_repeats = MAX_REPEATS if session.effort.is_full else 1
        shares = [_share(run, block) for block in range(num_repeats)]
        suffix = ".many" if num_lanes == MANY else ""
        title = f"harness / whole {agent} run, {run.block_size} lanes x {run.horizon} steps"
        yield summarise(f"harness.{agent}{suffix}", title, shares, "x")


def _share(run: Run, block: int) -> float:
    facts = simulate_block(run, block).facts
    return float(1 - (facts["agent_seconds"] + _env_seconds(run, block)) / facts["seconds"])


def _env_seconds(run: Run, block: int) -> float:
    """Time an episode of the environment alone, with the arms taken in turn."""
    _, env = build(run)
    actions = np.arange(run.block_size) % env.single_action_space.n  # type: ignore[attr-defined]
    start = perf_counter()
    env.reset(seed=run.environment_seeds(block))
    for _ in range(run.horizon):
        env.step(actions)
    seconds = perf_counter() - start
    env.close()
    return seconds
