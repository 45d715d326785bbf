"""How costs grow with time: not at all.

Agents are brought to step t by `warm_start`, arms pulled evenly, and then play 5 steps on from
there. The length of a race, by the paper's stop, depends on the data, and so on t.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from agents import ExactThompson, RacingThompson, SMCThompson
from agents.base import Agent
from benchmarks.games import conjugate_problem, truncated_problem
from benchmarks.processes import run_process
from benchmarks.session import BLOCK_SIZE, Measurement, Session
from benchmarks.timing import Contestant, ResultRow, make_contestant, summarise_turns

BASELINE_STEP = 100
NUM_PLAYED = 5

GROWTH_AGENTS: dict[str, Callable[[], Agent]] = {
    "exact": lambda: ExactThompson(conjugate_problem(5.0)),
    "racing": lambda: RacingThompson.paper(truncated_problem()),
    "smc": lambda: SMCThompson.paper(truncated_problem()),
}

EXPERIMENT_SCRIPT = """
import sys, tempfile
from bandit_gym.experiments import Experiment, run_experiment
experiment = Experiment(
    environments=("BernoulliBandit-v0",), agents=("exact",), recording="log", block_size=10,
    horizon=int(sys.argv[1]), replications=int(sys.argv[2]),
)
with tempfile.TemporaryDirectory() as folder:
    run_experiment(experiment, folder)
"""


STEPS = (100, 1000, 10_000, 100_000, 1_000_000)
"""From BASELINE to the largest."""


def measurements(session: Session) -> Iterator[Measurement]:
    """Yield the measurements of growth with steps, then of memory."""
    for name in GROWTH_AGENTS:
        yield _measure_growth(session, name)
    names = "growth.memory.ratio", "growth.memory.replications"
    yield Measurement(names, lambda: _measure_memory(session))


def _measure_growth(session: Session, name: str) -> Measurement:
    """Compare every step with the baseline; the last one's key bears no size, for the bars."""
    num_lanes = session.effort.width(BLOCK_SIZE)
    labels = {t: f"t={t:g}" for t in STEPS}
    key = f"growth.steps.{name}"
    ratios = {
        key + ("" if t == STEPS[-1] else f".{t:g}"): (labels[t], labels[BASELINE_STEP])
        for t in STEPS[1:]
    }
    title = f"{name}, {num_lanes} lanes: decision at "
    return session.match(
        title,
        ratios,
        "decision",
        lambda: {
            labels[t]: _make_late_contestant(GROWTH_AGENTS[name](), num_lanes, t) for t in STEPS
        },
    )


def _make_late_contestant(agent: Agent, num_lanes: int, t: int) -> Contestant:
    """Make a contestant of NUM_PLAYED decisions at t."""
    num_arms = agent.problem.num_arms
    counts = np.full(num_arms, t // num_arms)
    sums = np.rint(counts * np.linspace(0.35, 0.65, num_arms))
    rewards = (np.random.default_rng(0).random((NUM_PLAYED, num_lanes)) < 0.5).astype(float)

    def play() -> None:
        agent.reset(num_lanes, seed=0)
        agent.warm_start(counts, sums)
        for row in rewards:
            agent.observe(agent.act(), row)

    return make_contestant(play, rewards.size)


def _measure_memory(session: Session) -> Iterator[ResultRow]:
    """Compare the peak memory of long and of large experiments with that of small ones."""
    long, short = session.effort.length(1_000_000, minimum=2000), 1000
    many, few = session.effort.length(5_000, minimum=20), 10
    sizes = {"short": (short, 1), "long": (long, 1), "few": (100, few), "many": (100, many)}
    runs = {
        name: run_process("-c", EXPERIMENT_SCRIPT, str(horizon), str(replications))
        for name, (horizon, replications) in sizes.items()
    }
    pairs = {
        "ratio": ("long", "short", f"T = {long:g} / T = {short:g}"),
        "replications": ("many", "few", f"{many} replications / {few}"),
    }
    for key, (large, small, sides) in pairs.items():
        ratio = runs[large]["peak_mib"] / runs[small]["peak_mib"]
        note = f"in {runs[large]['wall']:.3g} s and {runs[small]['wall']:.3g} s"
        yield summarise_turns(f"growth.memory.{key}", f"peak memory: {sides}", [ratio], "x", note)
