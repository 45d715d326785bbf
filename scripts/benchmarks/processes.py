"""Running Python processes from beginning to end: how long they take and how much memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LAUNCHER = Path(__file__).parent / "workers" / "launcher.py"


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
        """Return what a clock of `workers.protocol.CLOCKS` says."""
        return self.processor_seconds if clock == "processor" else self.seconds


def run_process(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Finished:
    """Run this interpreter with the arguments.

    On Linux the peak memory of a process begins with that of the process which starts it. So a
    small one does (`workers/launcher.py`), not this one, which has measured much before.

    Raises:
        RuntimeError: if it fails; carries what it said.
    """
    done = subprocess.run(
        [sys.executable, "-I", str(LAUNCHER), sys.executable, *arguments],
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    exit_code, said, *measured = json.loads(done.stdout)
    if exit_code:
        raise RuntimeError(f"{arguments!r} failed:\n{said}")
    return Finished(*measured)
