"""Whether the machine was busy with other things, which makes every other row worthless.

A loop that needs one core and nothing else takes as long by the wall clock as by the processor's,
unless somebody else is given that core meanwhile. One loop for each core runs, as rows of two
threads and of two workers need them all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.session import Measurement, Session
from benchmarks.thresholds import CONTROL_KEY
from benchmarks.timing import ResultRow, summarise_turns

LOOP_SCRIPT = """
import sys
from time import perf_counter, process_time
start, busy = perf_counter(), process_time()
while perf_counter() < start + float(sys.argv[1]):
    pass
print((perf_counter() - start) / (process_time() - busy))
"""


def measurements(session: Session) -> Iterator[Measurement]:
    """Yield the measurements of the one row, which is taken before all others."""
    yield Measurement((CONTROL_KEY,), lambda: [_measure_load(session)])


def _measure_load(session: Session) -> ResultRow:
    cores = len(os.sched_getaffinity(0))
    turns = [_measure_waits(cores, session.effort.seconds) for _ in range(session.effort.repeats)]
    title = f"load: wall clock / processor time of {cores} loops at once"
    return summarise_turns(CONTROL_KEY, title, turns, "x")


def _measure_waits(cores: int, seconds: float) -> float:
    """Return the most that a loop had to wait, as a ratio of the time that it had to take."""
    command = [sys.executable, "-I", "-c", LOOP_SCRIPT, str(seconds)]
    loops = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(cores)]
    return max(float(loop.communicate()[0]) for loop in loops)
