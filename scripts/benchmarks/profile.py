"""What the time of a Racing experiment goes to, as a table of functions.

Compiled kernels appear under their own names, time of the compiled functions they call included.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from pathlib import Path

from agents import RacingThompson
from bandit_gym.experiment import Experiment
from bandit_gym.simulation import simulate_block

NUM_FUNCTIONS = 16
PROJECT = Path(__file__).parents[2]

Entry = tuple[str, int, float, float]  # name, calls, own seconds, seconds with callees


def profile_racing(horizon: int = 1000) -> str:
    """Profile one block of 50 replications and return the functions that took longest."""
    experiment = Experiment(("BernoulliBandit-v0",), ("racing",), horizon=horizon)
    (run,) = experiment.runs
    simulate_block(run, 0)  # compiles
    profiler = cProfile.Profile(time.process_time)
    outcome = profiler.runcall(simulate_block, run, 0)
    assert outcome.failure is None, outcome.failure
    entries = _entries(profiler)
    total = sum(own for _, _, own, _ in entries)
    name = RacingThompson.__name__
    heading = f"{name}, {run.block_size} x {horizon}: {total:.2f} s of processor time\n"
    return heading + _format(entries[:NUM_FUNCTIONS], total)


def _entries(profiler: cProfile.Profile) -> list[Entry]:
    statistics = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    entries = [
        (_name(*where), calls, own, cumulative)
        for where, (_, calls, own, cumulative, _) in statistics.items()
    ]
    return sorted(entries, key=lambda entry: entry[2], reverse=True)


def _name(file: str, line: int, function: str) -> str:
    """Name a function by its module, and what is not Python's by itself."""
    path = Path(file)
    if not path.is_file():
        return function.strip("<>").removeprefix("built-in method ")
    if path.is_relative_to(PROJECT) and "site-packages" not in path.parts:
        return f"{path.relative_to(PROJECT)}: {function}"
    return f"{path.parent.name}/{path.name}: {function}"


def _format(entries: list[Entry], total: float) -> str:
    lines = [f"{'own':>6} {'with callees':>13} {'calls':>8}  function"]
    for name, calls, own, cumulative in entries:
        lines.append(f"{own / total:6.1%} {cumulative / total:13.1%} {calls:8d}  {name}")
    return "\n".join(lines)
