"""One block of replications: build the world and the agent, play, and write down the sums.

The result depends on (run, block) alone. The process, the machine's load, the number of threads and
the order of blocks do not change it. Of an episode, sums over all its steps so far are kept, at
some of its steps: memory is O(N S) for N lanes and S recorded steps, whatever the horizon T.
"""

from __future__ import annotations

import contextlib
import os
import platform
import traceback
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from time import perf_counter
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bandit_gym.checks import message
from bandit_gym.checks.files import RESULTS_VERSION
from bandit_gym.checks.typing import IntArray
from bandit_gym.experiments.blocks import (
    COLUMNS,
    DIAGNOSTICS,
    DOUBTED,
    DOUBTS,
    State,
    to_parquet,
)
from bandit_gym.experiments.catalogue import build, headline
from bandit_gym.experiments.experiment import Run
from bandit_gym.problem import find_misbelief, find_problem
from bandit_gym.rollout import Step, play

Sources = dict[str, dict[str, str]]
PACKAGES = ("bayesian-bandit-gym", "gymnasium", "numpy", "scipy", "numba", "pyarrow")

UNTIMED_STEPS = 30
"""The first steps of a block, half of them at most, do not count as the agent's own time: they may
load what is compiled."""


@dataclass(frozen=True)
class Outcome:
    """What became of one block.

    Attributes:
        run: the run it belongs to.
        block: its index.
        data: its results as the bytes of a Parquet file, None if it failed.
        facts: what may differ from time to time: `seconds` in all, `process`, `host`, and
            `agent_seconds` spent in `act` and `observe` for so many `decisions`, without those of
            the first steps.
        failure: one line and then the traceback, None if all went well.
    """

    run: Run
    block: int
    data: bytes | None
    facts: dict[str, Any]
    failure: str | None = None


def simulate_block(run: Run, block: int, sources: Sources | None = None) -> Outcome:
    """Simulate one block; an exception of the agent or the environment becomes a failure.

    Args:
        run: the run.
        block: index of the block.
        sources: what this process must find as `Run.sources`, None if it does not matter.
    """
    facts: dict[str, Any] = {"process": os.getpid(), "host": platform.node()}
    start = perf_counter()
    try:
        # Nested threads would fight for the cores, and may change the last bit of a product.
        with threadpool_limits(limits=1):
            data, measured = _simulate(run, block, sources)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit among them
        text = f"{headline(error)}\n\n{traceback.format_exc()}"
        return Outcome(run, block, None, facts, text)
    return Outcome(run, block, data, facts | measured | {"seconds": perf_counter() - start})


def _simulate(run: Run, block: int, sources: Sources | None) -> tuple[bytes, dict[str, Any]]:
    found = run.sources()
    if sources not in (None, found):
        raise RuntimeError(
            f"sources must be the same in all processes, got others in process {os.getpid()} "
            f"on {platform.node()}: {found!r}; leave them alone while a run is at work."
        )
    agent, env = build(run)
    origin = {
        "results_version": RESULTS_VERSION,
        "versions": versions(),
        "sources": found,
        "misbelief": find_misbelief(getattr(agent, "problem", None), find_problem(env)),
    }
    recorder, num_untimed = Recorder(run.steps), min(UNTIMED_STEPS, run.horizon // 2)
    seconds, num_decisions = 0.0, 0
    seeds, agent_seed = run.environment_seeds(block), run.agent_seed(block)
    episodes = play(
        agent, env, env_seed=seeds, agent_seed=agent_seed, propensities=run.propensities
    )
    for number, step in enumerate(islice(episodes, run.horizon)):
        recorder.add(step)
        if number >= num_untimed:
            seconds += step.agent_seconds
            num_decisions += int(np.count_nonzero(step.is_alive))
    env.close()
    data = to_parquet(run, block, recorder.finish(), origin)
    return data, {"agent_seconds": seconds, "decisions": num_decisions}


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


# -- What is kept of an episode -------------------------------------------------------------------

CHUNK = 32
_ADDED = {name: column.adds for name, column in COLUMNS.items() if column.adds}
_SHOWN = {name: column for name, column in COLUMNS.items() if column.shows}


class Recorder:
    """Adds up the steps of N lanes and keeps the sums at the recorded steps.

    Sums of a lane stay as they are once its episode has ended. A step is only put aside at first:
    adding up `CHUNK` of them in one go is some four times as fast.

    Args:
        steps: (S,) recorded steps, sorted.
    """

    def __init__(self, steps: IntArray) -> None:
        self._steps = steps.tolist()
        self._rows: dict[str, np.ndarray] = {}  # (N, S)
        self._state: State | None = None
        self._pending: list[Step] = []
        self._num_kept = 0

    def add(self, step: Step) -> None:
        """Take in one step of every lane."""
        self._pending.append(step)
        if len(self._pending) == CHUNK:
            self._add_up()

    def finish(self) -> dict[str, np.ndarray]:
        """Return name -> (N, S) value after each recorded step, as `COLUMNS` tells.

        Where all episodes ended before the horizon the last sums are repeated.
        """
        if self._pending:
            self._add_up()
        state = self._state
        if self._num_kept < len(self._steps) and state is not None:
            state.step = state.step._replace(is_alive=np.zeros_like(state.step.is_alive))
            self._put({name: values[None] for name, values in (state.sums | _show(state)).items()})
            for values in self._rows.values():
                values[:, self._num_kept + 1 :] = values[:, [self._num_kept]]
        return self._rows

    def _add_up(self) -> None:
        """Take the pending steps in."""
        steps, self._pending = self._pending, []
        self._state = state = self._state or State(steps[0])
        first = state.num_steps + 1
        end = bisect_right(self._steps, state.num_steps + len(steps))
        due = [step - first for step in self._steps[self._num_kept : end]]
        sums = _addends(steps)
        shown = [_show(state) for _ in state.take_in(steps, sums, due)]
        if due:
            self._put({name: values[: len(due)] for name, values in sums.items()})
            self._put({name: np.array([each[name] for each in shown]) for name in shown[0]})
            self._num_kept = end

    def _put(self, values: Mapping[str, np.ndarray]) -> None:
        """Keep (R, N) values of the next recorded steps."""
        for name, each in values.items():
            if name not in self._rows:
                self._rows[name] = np.zeros((each.shape[1], len(self._steps)), dtype=each.dtype)
            if each.any():  # most doubts never are
                self._rows[name][:, self._num_kept : self._num_kept + len(each)] = each.T


def _show(state: State) -> dict[str, np.ndarray]:
    """Return name -> (N,) values that follow from where the lanes stand, where they are known."""
    found = {
        name: column.shows(state)
        for name, column in _SHOWN.items()
        if column.shows and (state.knows_means or not column.needs_means)
    }
    return {name: values for name, values in found.items() if values is not None}


def _addends(steps: list[Step]) -> dict[str, np.ndarray]:
    """Return (C, N) values that C steps add, by name; nothing of what the environment hides."""
    addends = {name: _told(steps, name) for name in steps[0].diagnostics}
    if DOUBTS in addends:
        addends |= _count_doubts(steps, addends.pop(DOUBTS))
    for name, adds in _ADDED.items():
        values = [adds(step) for step in steps]
        if values[0] is not None:
            addends[name] = np.array(values, dtype=np.float64)
    return addends


def _told(steps: list[Step], name: Any) -> np.ndarray:
    """Return the (C, N) values of an agent's diagnostic; refuse what no column can hold."""
    if not isinstance(name, str) or (name in COLUMNS and name not in DIAGNOSTICS):
        condition = "have no names of recorded columns"
        raise ValueError(message("diagnostics()", condition, name, "choose another name"))
    shape = steps[0].is_alive.shape
    try:
        values = np.array([step.diagnostics[name] for step in steps])
    except (KeyError, ValueError):  # not in every step, or of several shapes
        values = np.array(None)
    if values.shape != (len(steps), *shape) or values.dtype.kind not in "biuf":
        condition = f"have real numbers of shape {shape} as its {name!r} at every step"
        raise ValueError(message("diagnostics()", condition, steps[0].diagnostics[name]))
    return values.astype(np.float64)


def _count_doubts(steps: list[Step], doubts: np.ndarray) -> dict[str, np.ndarray]:
    """Return whether each decision was flagged, and for each doubt whether that was a reason."""
    is_alive = np.array([step.is_alive for step in steps])
    numbers = np.where(is_alive, doubts, 0).astype(np.int64)
    masks = {"is_unreliable": -1} | {name: int(doubt) for name, doubt in DOUBTED.items()}
    if not numbers.any():  # as nearly always
        return {name: np.zeros(numbers.shape) for name in masks}
    return {name: (numbers & mask != 0).astype(np.float64) for name, mask in masks.items()}
