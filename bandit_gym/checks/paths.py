"""Checks of paths to files and folders."""

import os
from pathlib import Path
from typing import Any

from bandit_gym.checks.messages import message


def check_path(name: str, value: Any) -> Path:
    """Return what names a file or a folder as a path; whether it is there does not matter."""
    condition = "be a path that a file system can hold, as a string or a Path"
    if not isinstance(value, str | Path):
        raise TypeError(message(name, condition, value))
    try:
        is_good = value != "" and b"\0" not in os.fsencode(value)
        Path(value).is_symlink()
    except (OSError, ValueError):  # too long, or half of a character
        is_good = False
    if not is_good:
        raise ValueError(message(name, condition, value))
    return Path(value)


def check_folder(name: str, value: Any) -> Path:
    """Return the path of a folder, or of one that can still be made.

    Raises:
        FileExistsError: if something else stands there, or on the way there.
    """
    path = check_path(name, value)
    for place in (path, *path.parents):
        if place.is_symlink() and not place.exists():
            raise FileExistsError(message(name, "be no link that leads nowhere", str(value)))
        if place.exists() and not place.is_dir():
            raise FileExistsError(message(name, "be a folder", str(value)))
    return path


def check_file(name: str, value: Any) -> Path:
    """Return the path of a file that can be written, whose folder is made unless it is there.

    Raises:
        OSError: if it is a folder, or its own cannot be made.
    """
    path = check_path(name, value)
    if path.is_dir():
        raise IsADirectoryError(message(name, "be a file, and no folder", str(value)))
    make_folder(name, check_folder(name, path.parent))
    return path


def make_folder(name: str, path: Path) -> None:
    """Make a folder, unless it is there.

    Raises:
        OSError: if it cannot be made; says which folder, and why.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        condition = "be a folder that can be made"
        raise type(error)(message(name, condition, str(path), error.strerror or "")) from error
