"""Virtual environments of other people's libraries, whose pins clash."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path


def install_environment(home: Path, requirements: str, options: Sequence[str] = ()) -> Path:
    """Make a virtual environment unless it is there; return its interpreter.

    Args:
        home: its folder.
        requirements: for pip, one a line.
        options: of `pip install`.

    Raises:
        RuntimeError: if pip fails; carries its last line.
    """
    python, record = home / "bin" / "python", home / "installed.txt"
    if record.exists() and record.read_text(encoding="utf-8") == requirements:
        return python
    print(f"installing {home.name} into {home} ...", file=sys.stderr)
    venv.create(home, clear=True, with_pip=True)
    command = [str(python), "-m", "pip", "install", "--quiet", *options, *requirements.split()]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"pip failed: {done.stderr.strip().rpartition(chr(10))[2]}")
    record.write_text(requirements, encoding="utf-8")
    return python
