"""The particle baseline: what a step costs against plain NumPy, and what a lane weighs."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np

from agents import SMCThompson
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import TruncatedNormal
from bandit_gym.problem import BanditProblem
from benchmarks.plain_numpy import ParticleThompson
from benchmarks.session import BLOCK_SIZE, Session
from benchmarks.timing import Ratio, Row, rounds_of, summarise

NUM_ARMS = 10
NUM_PARTICLES = 1000
NUM_STEPS = 50


def rows(session: Session) -> Iterator[Row]:
    """Measure episodes of 50 steps, the drawing of the particles included, and memory."""
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.1), NUM_ARMS)
    shape = session.effort.width(BLOCK_SIZE), session.effort.width(NUM_PARTICLES)
    yield from _steps(session, problem, *shape)
    yield _memory(problem, *shape)


def _steps(
    session: Session, problem: BanditProblem, num_lanes: int, num_particles: int
) -> list[Row]:
    uniforms = np.random.default_rng(0).random((NUM_STEPS, num_lanes))
    agent = SMCThompson(problem, num_particles=num_particles)
    rng = np.random.default_rng(0)

    def play_ours() -> float:
        agent.reset(num_lanes, seed=0)
        return _play(agent, uniforms)

    def play_plain() -> float:
        particles = problem.prior.sample(rng, (num_lanes, num_particles, NUM_ARMS))
        return _play(ParticleThompson(particles, seed=0), uniforms)

    title = f"SMC step, {num_lanes} lanes, {num_particles} particles: plain NumPy / ours"
    return session.measure(
        {"ours": rounds_of(play_ours), "plain NumPy": rounds_of(play_plain)},
        [Ratio("smc.step", title, "plain NumPy", "ours")],
        "decision",
    )


def _play(agent: SMCThompson | ParticleThompson, uniforms: np.ndarray) -> float:
    means = np.linspace(0.3, 0.7, NUM_ARMS)
    for row in uniforms:
        actions = agent.act()
        agent.observe(actions, (row < means[actions]).astype(float))
    return uniforms.size


def _memory(problem: BanditProblem, num_lanes: int, num_particles: int) -> Row:
    tracemalloc.start()
    agent = SMCThompson(problem, num_particles=num_particles)
    agent.reset(num_lanes, seed=0)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    title = f"SMC memory per lane, {num_particles} particles"
    note = f"the particles alone: {num_particles * NUM_ARMS * 8 / 1024:.3g} KiB"
    return summarise("smc.memory", title, [held / num_lanes / 1024], "KiB", note)
