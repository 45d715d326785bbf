"""Running Python processes from beginning to end: how long they take and how much memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

LAUNCHER = Path(__file__).parent / "workers" / "launcher.py"


Finished = Mapping[str, float]
"""What a process took: seconds by each of `workers.protocol.CLOCKS`, start of the interpreter and
children included, and `peak_mib`, the largest resident memory of it or of one of its children."""


def run_process(*arguments: str, **environment: str) -> Finished:
    """Run this interpreter with the arguments, and with these variables set.

    On Linux the peak memory of a process begins with that of the process which starts it. So a
    small one does (`workers/launcher.py`), not this one, which has measured much before.

    Raises:
        RuntimeError: if it fails; carries what it said.
    """
    done = subprocess.run(
        [sys.executable, "-I", str(LAUNCHER), sys.executable, *arguments],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    exit_code, said, finished = json.loads(done.stdout)
    if exit_code:
        raise RuntimeError(f"{arguments!r} failed:\n{said}")
    return finished
