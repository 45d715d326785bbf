"""What everything that stores or reads results agrees on: the results version, and whole files."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

RESULTS_VERSION = 2
"""Which numbers this engine draws, raised by hand whenever an agent or a world draws others.

Neither names of runs nor random streams depend on it. `scripts/golden.py` tells when it is due.
"""


def to_json(content: Any) -> bytes:
    """Write what JSON can hold, for people to read as well."""
    return (json.dumps(content, indent=2) + "\n").encode()


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all, even when the power goes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
