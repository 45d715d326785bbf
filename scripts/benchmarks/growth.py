"""How costs grow: with time (not at all), with arms (linearly), with lanes (less than linearly).

Agents are brought to step t by `warm_start`, arms pulled evenly, and then play 5 steps on from
there. The length of a race depends on the data, and so on t: Racing takes part as it is, and with
races of a fixed length, which shows what the machinery costs; both with the paper's proposal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from agents import ExactThompson, RacingThompson, SMCThompson
from agents.base import Agent
from benchmarks.games import conjugate_problem, truncated_problem
from benchmarks.processes import run_process
from benchmarks.session import BLOCK_SIZE, Measurement, Session
from benchmarks.timing import Contestant, Row, rounds_of, summarise

BASELINE = 100
NUM_PLAYED = 5
NUM_ARM_LANES = 10
FIXED_RACE = 64

AGENTS: dict[str, Callable[[int], Agent]] = {
    "exact": lambda k: ExactThompson(conjugate_problem(5.0, k)),
    "racing": lambda k: RacingThompson.paper(truncated_problem(k)),
    "racing-fixed": lambda k: RacingThompson(
        truncated_problem(k), proposal="reference", stopping=FIXED_RACE
    ),
    "smc": lambda k: SMCThompson.paper(truncated_problem(k)),
}
"""How to make each agent for K arms."""

EXPERIMENT = """
import sys, tempfile
from bandit_gym.experiments import Experiment, run_experiment
experiment = Experiment(
    environments=("BernoulliBandit-v0",), agents=("exact",), recording="log", block_size=10,
    horizon=int(sys.argv[1]), replications=int(sys.argv[2]),
)
with tempfile.TemporaryDirectory() as folder:
    run_experiment(experiment, folder)
"""


class Axis(NamedTuple):
    """What grows.

    Attributes:
        name: in the keys.
        letter: in the titles.
        work: what a unit of work is.
        sizes: from the smallest to the largest, BASELINE among them.
    """

    name: str
    letter: str
    work: str
    sizes: tuple[int, ...]


STEPS = Axis("steps", "t", "decision", (100, 1000, 10_000, 100_000, 1_000_000))
ARMS = Axis("arms", "K", "decision and arm", (2, 10, 100, 1000, 10_000))
LANES = Axis("lanes", "N", "decision", (1, 10, 100, 1000, 10_000, 100_000))


def measurements(session: Session) -> Iterator[Measurement]:
    """Tell of growth with steps, arms and lanes, then of memory."""
    for name in AGENTS:
        yield _along_steps(session, name)
    for name in ("exact", "racing-fixed"):
        yield _along_arms(session, name)
        yield _along_lanes(session, name)
    names = "growth.memory.ratio", "growth.memory.replications"
    yield Measurement(names, lambda: _memory(session))


def _along_steps(session: Session, name: str) -> Measurement:
    num_lanes = session.effort.width(BLOCK_SIZE)
    title = f"{name}, {num_lanes} lanes: decision at "
    return _along(session, STEPS, name, title, lambda t: _play_on(AGENTS[name](10), num_lanes, t))


def _along_arms(session: Session, name: str) -> Measurement:
    num_lanes = session.effort.width(NUM_ARM_LANES)
    title = f"{name}, {num_lanes} lanes: decision per arm at "
    return _along(
        session, ARMS, name, title, lambda k: _play_on(AGENTS[name](k), num_lanes, 10 * k, work=k)
    )


def _along_lanes(session: Session, name: str) -> Measurement:
    title = f"{name}: decision per lane at "
    return _along(session, LANES, name, title, lambda n: _play_on(AGENTS[name](10), n, 1000))


def _along(
    session: Session, axis: Axis, name: str, title: str, play: Callable[[int], Contestant]
) -> Measurement:
    """Compare every size with the baseline; the last one's key bears no size, for the bars."""
    sizes = axis.sizes if session.effort.is_full or axis is STEPS else axis.sizes[:-1]
    labels = {size: f"{axis.letter}={size:g}" for size in sizes}
    key = f"growth.{axis.name}.{name}"
    ratios = {
        key + ("" if size == sizes[-1] else f".{size:g}"): (labels[size], labels[BASELINE])
        for size in sizes
        if size != BASELINE
    }
    return session.match(
        title, ratios, axis.work, lambda: {labels[size]: play(size) for size in sizes}
    )


def _play_on(agent: Agent, num_lanes: int, t: int, work: int = 1) -> Contestant:
    """Make a contestant of NUM_PLAYED decisions at t, each of so many units of work."""
    num_arms = agent.problem.num_arms
    counts = np.full(num_arms, t // num_arms)
    sums = np.rint(counts * np.linspace(0.35, 0.65, num_arms))
    rewards = (np.random.default_rng(0).random((NUM_PLAYED, num_lanes)) < 0.5).astype(float)

    def play() -> None:
        agent.reset(num_lanes, seed=0)
        agent.warm_start(counts, sums)
        for row in rewards:
            agent.observe(agent.act(), row)

    return rounds_of(play, rewards.size * work)


def _memory(session: Session) -> Iterator[Row]:
    """Compare the peak memory of long and of large experiments with that of small ones."""
    long, short = session.effort.length(1_000_000, minimum=2000), 1000
    many, few = session.effort.length(5_000, minimum=20), 10
    sizes = {"short": (short, 1), "long": (long, 1), "few": (100, few), "many": (100, many)}
    runs = {
        name: run_process("-c", EXPERIMENT, str(horizon), str(replications))
        for name, (horizon, replications) in sizes.items()
    }
    pairs = {
        "ratio": ("long", "short", f"T = {long:g} / T = {short:g}"),
        "replications": ("many", "few", f"{many} replications / {few}"),
    }
    for key, (large, small, sides) in pairs.items():
        ratio = runs[large]["peak_mib"] / runs[small]["peak_mib"]
        note = f"in {runs[large]['wall']:.3g} s and {runs[small]['wall']:.3g} s"
        yield summarise(f"growth.memory.{key}", f"peak memory: {sides}", [ratio], "x", note)
