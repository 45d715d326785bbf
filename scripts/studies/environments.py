"""Other people's libraries, each in a virtual environment of its own, as their pins clash.

`adapters/NAME.txt` has a library's pins, and `adapters/NAME_adapter.py` runs in its environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ADAPTERS, ENVIRONMENTS = Path(__file__).parent / "adapters", Path("build/libraries")
PIP_OPTIONS = "--no-deps", "--ignore-requires-python"  # all is pinned, and obp is from before 3.11
THREADS = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}


def install_library(library: str) -> Path:
    """Make a library's virtual environment unless it is there; return its interpreter.

    Raises:
        RuntimeError: if pip fails; carries its last line.
    """
    home = ENVIRONMENTS / library
    python, record, pins = home / "bin" / "python", home / "installed.txt", read_pins(library)
    if record.exists() and record.read_text(encoding="utf-8") == pins:
        return python
    print(f"installing {library} into {home} ...", file=sys.stderr)
    venv.create(home, clear=True, with_pip=True)
    command = [str(python), "-m", "pip", "install", "--quiet", *PIP_OPTIONS, *pins.split()]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"pip failed: {done.stderr.strip().rpartition(chr(10))[2]}")
    record.write_text(pins, encoding="utf-8")
    return python


def read_pins(library: str) -> str:
    """Return what pip installs for a library, one a line."""
    return (ADAPTERS / f"{library}.txt").read_text(encoding="utf-8")


def ask_adapter(
    python: Path, library: str, asked: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return an adapter's answer to each question; one it died of, or after that, is an error."""
    command = [str(python), str(ADAPTERS / f"{library}_adapter.py")]
    text = "\n".join(map(json.dumps, asked))
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, env=os.environ | THREADS
    )
    lines = [line.split(" ", 1)[1] for line in done.stdout.splitlines() if line[:7] == "answer "]
    last = (done.stderr.strip() or "it ended without a word").rpartition("\n")[2]
    return [*map(json.loads, lines), *[{"error": last}] * (len(asked) - len(lines))]
