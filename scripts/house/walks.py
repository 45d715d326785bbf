"""The files that a call passes, recorded while it runs.

What counts is every Python function of the project that is called, and every kernel that Python
calls: numba reports those to a profiler too. What a kernel calls is compiled into it.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.random import Generator

import agents
from bandit_gym.experiments.execution import Progress, Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta, Prior, TruncatedMultivariateNormal, TruncatedNormal
from bandit_gym.problem import BanditProblem
from house.imports import PACKAGES

HOME = Path(agents.__file__).parents[1]
"""Where the packages are imported from: this repository, or where they were installed."""

NUM_ARMS, NUM_LANES = 4, 50
WARM_UP_STEPS = 12
STOPS = ("agents/", "bandit_gym/envs/")
"""What a block of an experiment passes as one stop each: how they go on inside is another walk."""


class OwnPrior:
    """A prior as users write them: two methods."""

    def sample(self, rng: Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Draw means of the given shape."""
        return rng.beta(2.0, 2.0, shape)

    def log_density(self, means: np.ndarray) -> np.ndarray:
        """Return the (...) log-densities of (..., K) means."""
        return np.log(means * (1.0 - means)).sum(axis=-1)


TWO_BLOCKS = Experiment(
    ({"env": "BernoulliBandit-v0", "num_arms": NUM_ARMS},),
    ("exact",),
    replications=20,
    block_size=10,
    horizon=5,
)
DECISIONS: dict[str, tuple[str, dict[str, Any], Prior]] = {
    "ExactThompson, conjugate prior": ("exact", {}, Beta(2.0, 1.0)),
    "ExactThompson, independent prior": ("exact", {}, TruncatedNormal(0.5, 0.1)),
    "ExactThompson, correlated prior": (
        "exact",
        {},
        TruncatedMultivariateNormal(0.5, (0.8 * np.ones((4, 4)) + 0.2 * np.eye(4)).tolist()),
    ),
    "RacingThompson, conjugate prior": ("racing", {}, Beta(2.0, 1.0)),
    "RacingThompson, independent prior": ("racing", {}, TruncatedNormal(0.5, 0.1)),
    "RacingThompson.paper, built-in prior": ("racing_paper", {}, TruncatedNormal(0.5, 0.1)),
    "RacingThompson, prior of one's own": ("racing", {}, OwnPrior()),
}
"""Agent, options and prior of the decisions whose walks are on the page."""


def decision(name: str) -> list[str]:
    """Return the files that one `act` of an entry of DECISIONS passes, in the order of entry."""
    agent_name, options, prior = DECISIONS[name]
    agent = agents.make_agent(agent_name, BanditProblem(Bernoulli(), prior, NUM_ARMS), **options)
    agent.reset(NUM_LANES, seed=0)
    for _ in range(WARM_UP_STEPS):
        actions = agent.act()
        agent.observe(actions, np.zeros(NUM_LANES))
    with _recorded() as files:
        agent.act()
    return list(dict.fromkeys(files))


def block() -> list[str]:
    """Return the files and STOPS that one block passes, from the task to the stored file.

    Two blocks are run, and the second is taken: the first of a process compiles and warms up.
    """
    marks: list[int] = []
    with tempfile.TemporaryDirectory() as folder, _recorded(STOPS) as files:

        def mark(progress: Progress) -> None:
            marks.append(len(files))

        run_experiment(TWO_BLOCKS, folder, workers=Workers("serial"), on_progress=mark)
    return list(dict.fromkeys(files[marks[1] : marks[2]]))


@contextmanager
def _recorded(stops: tuple[str, ...] = ()) -> Iterator[list[str]]:
    """Yield a list to which every call of a function of the project adds its file.

    Args:
        stops: folders that are one stop each: calls from there are not noted apart.
    """
    files: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (file := _file_of(frame.f_code.co_filename)):
            files.append(_stop_around(frame, stops) or file)

    previous = sys.getprofile()
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(previous)


@cache
def _file_of(filename: str) -> str:
    """Return a file's path from HOME, or nothing if it is not one of the packages'."""
    path = Path(filename)
    inside = path.relative_to(HOME).as_posix() if path.is_relative_to(HOME) else ""
    return inside if inside.partition("/")[0] in PACKAGES else ""


def _stop_around(frame: FrameType | None, stops: tuple[str, ...]) -> str:
    """Return the stop that a call is part of, or nothing."""
    while stops and frame is not None:
        file = _file_of(frame.f_code.co_filename)
        for stop in stops:
            if file.startswith(stop):
                return stop
        frame = frame.f_back
    return ""
