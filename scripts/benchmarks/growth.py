"""How costs grow: with time (not at all), with arms (linearly), with lanes (less than linearly).

Agents are brought to step t by `warm_start`, arms pulled evenly, and then play 5 steps on from
there. The length of a race depends on the data, and so on t: Racing takes part as it is, and with
races of a fixed length, which shows what the machinery costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from agents import ExactThompson, RacingThompson, SMCThompson
from agents.base import Agent
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta, TruncatedNormal
from bandit_gym.problem import BanditProblem
from benchmarks.processes import run_process
from benchmarks.session import BLOCK_SIZE, Session
from benchmarks.timing import Contestant, Ratio, Row, rounds_of, summarise

NUM_PLAYED = 5
FIXED_RACE = 64
NUM_ARM_LANES = 10
ARMS = (2, 10, 100, 1000, 10_000)
LANES = (1, 10, 100, 1000, 10_000)
STEPS = (100, 1000, 10_000, 100_000, 1_000_000)

MakeAgent = Callable[[int], Agent]

EXPERIMENT = """
import sys, tempfile
from bandit_gym.experiments.execution import run_experiment
from bandit_gym.experiments.experiment import Experiment
experiment = Experiment(
    environments=("BernoulliBandit-v0",), agents=("exact",), replications=1, block_size=1,
    horizon=int(sys.argv[1]), recording="log",
)
with tempfile.TemporaryDirectory() as folder:
    run_experiment(experiment, folder)
"""


def _exact(num_arms: int) -> Agent:
    return ExactThompson(BanditProblem(Bernoulli(), Beta(5.0, 5.0), num_arms))


def _racing(num_arms: int) -> Agent:
    return RacingThompson(BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.1), num_arms))


def _fixed_racing(num_arms: int) -> Agent:
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.1), num_arms)
    return RacingThompson(problem, stopping=FIXED_RACE)


def _smc(num_arms: int) -> Agent:
    return SMCThompson(BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.1), num_arms))


def rows(session: Session) -> Iterator[Row]:
    """Measure growth with steps, arms and lanes, then memory."""
    every = {"exact": _exact, "racing": _racing, "racing-fixed": _fixed_racing, "smc": _smc}
    for name, make in every.items():
        yield from _along_steps(session, name, make)
    for name, make in (("exact", _exact), ("racing-fixed", _fixed_racing)):
        yield from _along_arms(session, name, make)
        yield from _along_lanes(session, name, make)
    yield from _memory(session)


def _along_steps(session: Session, name: str, make: MakeAgent) -> list[Row]:
    num_lanes = session.effort.width(BLOCK_SIZE)
    contestants = {f"t={t:g}": _play_on(make(10), num_lanes, t) for t in STEPS}
    title = f"{name}, {num_lanes} lanes: decision at t"
    return session.measure(contestants, _to_baseline("steps", name, title, STEPS, "t", 0), WORK)


def _along_arms(session: Session, name: str, make: MakeAgent) -> list[Row]:
    sizes = _sizes(session, ARMS)
    num_lanes = session.effort.width(NUM_ARM_LANES)
    contestants = {
        f"K={k:g}": _play_on(make(k), num_lanes, 10 * k, work_per_decision=k) for k in sizes
    }
    title = f"{name}, {num_lanes} lanes: decision per arm at K"
    ratios = _to_baseline("arms", name, title, sizes, "K", 2)
    return session.measure(contestants, ratios, "decision and arm")


def _along_lanes(session: Session, name: str, make: MakeAgent) -> list[Row]:
    sizes = _sizes(session, LANES)
    contestants = {f"N={n:g}": _play_on(make(10), n, 1000) for n in sizes}
    title = f"{name}: decision per lane at N"
    return session.measure(contestants, _to_baseline("lanes", name, title, sizes, "N", 2), WORK)


WORK = "decision"


def _sizes(session: Session, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Leave out the largest sizes where little effort is asked for."""
    return sizes if session.effort.is_full else sizes[:-1]


def _to_baseline(
    kind: str, name: str, title: str, sizes: tuple[int, ...], letter: str, baseline: int
) -> list[Ratio]:
    """Compare every size with one of them; the last one's key bears no size, for the bars."""
    under = f"{letter}={sizes[baseline]:g}"
    ratios = []
    for size in sizes[:baseline] + sizes[baseline + 1 :]:
        over = f"{letter}={size:g}"
        suffix = "" if size == sizes[-1] else f".{size:g}"
        full_title = f"{title} = {size:g} / {letter} = {sizes[baseline]:g}"
        ratios.append(Ratio(f"growth.{kind}.{name}{suffix}", full_title, over, under))
    return ratios


def _play_on(agent: Agent, num_lanes: int, t: int, work_per_decision: int = 1) -> Contestant:
    num_arms = agent.problem.num_arms
    means = np.linspace(0.35, 0.65, num_arms)
    counts = np.full(num_arms, t // num_arms)
    sums = np.rint(counts * means)
    rewards = (np.random.default_rng(0).random((NUM_PLAYED, num_lanes)) < 0.5).astype(float)

    def play() -> float:
        agent.reset(num_lanes, seed=0)
        agent.warm_start(counts, sums)
        for row in rewards:
            agent.observe(agent.act(), row)
        return rewards.size * work_per_decision

    return rounds_of(play)


def _memory(session: Session) -> Iterator[Row]:
    """Compare the peak memory of a long experiment with that of a short one."""
    long, short = session.effort.length(1_000_000, minimum=2000), 1000
    peaks = {horizon: run_process(["-c", EXPERIMENT, str(horizon)]) for horizon in (short, long)}
    title = f"peak memory, T = {long:g}, log-spaced recording"
    yield summarise("growth.memory", title, [peaks[long].peak_mib], "MiB")
    ratio = peaks[long].peak_mib / peaks[short].peak_mib
    title = f"peak memory: T = {long:g} / T = {short:g}"
    note = f"in {peaks[long].seconds:.3g} s and {peaks[short].seconds:.3g} s"
    yield summarise("growth.memory.ratio", title, [ratio], "x", note)
