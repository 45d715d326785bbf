"""Versions of this package and its results, and files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from bandit_gym.checks.arguments import check_choice, check_path, message

VERSION = "0.2.0"
RESULTS_VERSION = 17
"""Which numbers this engine draws, raised by hand whenever an agent or an environment draws others.

Neither names of runs nor random streams depend on it. `scripts/golden.py` says when it is due.
"""

LEFTOVER = ".bandit-gym.tmp"
"""How the names of files end that are being written; no other names end so."""


def to_json(content: Any) -> bytes:
    """Write what JSON can hold, for people to read as well."""
    return (json.dumps(content, indent=2) + "\n").encode()


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all, even when the power goes."""
    with replacing(path) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: Path, *, is_typed: bool = False) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` when all is written, and of nothing otherwise.

    A link is replaced, not followed: in a folder that somebody else has made it may lead anywhere.

    Args:
        path: where the file is to be.
        is_typed: whether the user has named this very path, so that a pipe or a device there, and
            one that a link leads to (as /dev/stdout does), is written to.
    """
    if is_typed and path.exists() and not path.is_file():
        with open(path, "wb") as file:
            yield file
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{LEFTOVER}")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno:  # a full disk, which names no file
            error.filename = str(path)
        raise


def remove_leftovers(folder: Path) -> None:
    """Remove what writers that were killed have left of `replacing` in a folder and below."""
    for path in folder.rglob(f".*{LEFTOVER}"):
        path.unlink(missing_ok=True)


def read_frame(name: str, source: Any) -> Any:
    """Return a data frame, or that of a CSV or Parquet file.

    Raises:
        TypeError: if it is neither a frame nor a path.
        ValueError: if there is no such file, its name ends otherwise, or it cannot be read.
    """
    import pandas as pd  # slow to start, and seldom needed

    if isinstance(source, pd.DataFrame):
        return source
    path, readers = check_path(name, source), {".csv": pd.read_csv, ".parquet": pd.read_parquet}
    read = readers[check_choice(f"the ending of {name}", path.suffix.lower(), readers)]
    if not path.is_file():
        raise ValueError(message(name, "be a file that exists", str(path)))
    try:
        return read(path)
    except (ValueError, OSError) as error:  # of pandas, pyarrow and their decoders
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(message(name, "be a file that can be read", str(path), reason)) from error
