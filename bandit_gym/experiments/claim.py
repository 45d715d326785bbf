"""One process at a time may write into a folder; a second is refused by a lock.

The lock dies with its holder, so that none is left by a kill.
"""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bandit_gym.checks import make_folder
from bandit_gym.experiments.manifest import MANIFEST

LOCK = ".lock"


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Make a folder and keep other processes from writing there.

    If it held no experiment and nothing comes of it, nothing is left of it.

    Args:
        directory: the folder.

    Raises:
        BlockingIOError: if another process is at work in it.
        FileExistsError: if the lock is a link.
    """
    if (directory / LOCK).is_symlink():  # to where whoever made the folder chose
        raise FileExistsError(
            f"the folder must hold a {LOCK} that is a file, got a link in {str(directory)!r}; "
            "remove it."
        )
    folders = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    make_folder("directory", directory)
    is_new = False
    try:
        with open(directory / LOCK, "a+", encoding="utf-8", opener=_open_unlinked) as file:
            _lock(file, directory)
            is_new = not (directory / MANIFEST).exists()  # now that nobody else can change it
            yield
    except BlockingIOError:  # somebody else is at work in it
        raise
    except BaseException:
        if is_new and not any((directory / kind).exists() for kind in ("blocks", "failures")):
            for name in (MANIFEST, LOCK):
                (directory / name).unlink(missing_ok=True)
            for folder in folders:
                with contextlib.suppress(OSError):  # somebody put something there meanwhile
                    folder.rmdir()
        raise


def _open_unlinked(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _lock(file: Any, directory: Path) -> None:
    try:
        import fcntl
    except ImportError:  # no such locks on Windows, where two writers only do the work twice
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        raise BlockingIOError(
            f"the folder must not be in use, got {str(directory)!r} where {file.read().strip()} "
            "is at work; wait for it, or look on with `bandit-gym report`."
        ) from error
    file.truncate(0)
    file.write(f"process {os.getpid()} on {platform.node()}")
    file.flush()
