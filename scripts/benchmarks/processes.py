"""Running Python processes from beginning to end: how long they take and how much memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter


@dataclass(frozen=True)
class Finished:
    """What a process took.

    Attributes:
        seconds: wall-clock time, start of the interpreter included.
        processor_seconds: time that it and its children kept a core busy.
        peak_mib: largest resident memory of it or of one of its children, in MiB.
    """

    seconds: float
    processor_seconds: float
    peak_mib: float

    def time(self, clock: str) -> float:
        """Return what a clock of `timing.CLOCKS` says."""
        return self.processor_seconds if clock == "processor" else self.seconds


def run_process(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Finished:
    """Run this interpreter with the arguments.

    Raises:
        RuntimeError: if it fails; carries what it said.
    """
    start = perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments],
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{arguments!r} failed:\n{said}")
    return Finished(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
