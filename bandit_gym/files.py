"""Versions of this package and its results, and files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

VERSION = "0.2.0"
RESULTS_VERSION = 24
"""Which numbers this engine draws, raised by hand whenever an agent or an environment draws others.

Neither names of runs nor random streams depend on it. `scripts/golden.py` says when it is due.
"""

LEFTOVER = ".bandit-gym.tmp"
"""How the names of files end that are being written; no other names end so."""


def to_json(content: Any) -> bytes:
    """Write what JSON can hold, for people to read as well."""
    return (json.dumps(content, indent=2) + "\n").encode()


def has_text_keys(content: Any) -> bool:
    """Say whether JSON would give the dicts in it back as they are: it makes texts of all keys."""
    if isinstance(content, Mapping):
        return all(isinstance(key, str) and has_text_keys(content[key]) for key in content)
    return not isinstance(content, list | tuple) or all(map(has_text_keys, content))


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all, even when the power goes."""
    with replacing(path) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: Path, *, allows_devices: bool = False) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` when all is written, and of nothing otherwise.

    A link is replaced, not followed: in a folder that somebody else has made it may lead anywhere.

    Args:
        path: where the file is to be.
        allows_devices: whether a pipe or a device there, and one that a link leads to (as
            /dev/stdout does), is written to; for paths that the user has named.
    """
    stream = find_stream(path) if allows_devices else None
    if stream is not None or (allows_devices and path.exists() and not path.is_file()):
        with open(path if stream is None else os.dup(stream), "wb") as file:
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


def find_stream(path: Path) -> int | None:
    """Return this process's output, 1 or 2, to which a path leads as /dev/stdout does, or None.

    It may lead to a file, which is written to where output goes on: not replaced, nor cut.
    """
    for stream in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(path.stat(), os.fstat(stream)):
                return stream
    return None


def remove_leftovers(folder: Path) -> None:
    """Remove what writers that were killed have left of `replacing` in a folder and below."""
    for path in folder.rglob(f".*{LEFTOVER}"):
        path.unlink(missing_ok=True)
