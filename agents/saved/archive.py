"""The file of a saved agent: a zip of `agent.json` and one `.npy` for each array.

    agent.json     format, class, options, problem, lanes, generator, and the state, in which
                   {"array": name} stands for an array
    arrays/0.npy   the first of them

Nothing in it is code, and nothing is compressed, so that no more is read than the file is long.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from bandit_gym.checks import message
from bandit_gym.files import from_json, replacing, to_json

FORMAT = 2
"""Of these files; another one is not read."""

CONTENT = "agent.json"
KEYS = {"format", "class", "options", "problem", "prior", "num_envs", "generator", "state"}
CONDITION = "lead to a whole file that Agent.save has written"

ARRAY = "array"
"""Key of what stands for an array, and of no other dict."""

KINDS = "biuf"
"""Of arrays: truth values and numbers."""


def write_archive(path: Path, content: dict[str, Any]) -> None:
    """Write a file, whole or not at all.

    Args:
        path: where it is to be.
        content: JSON-able but for arrays of numbers.

    Raises:
        TypeError: if there is anything else in it; names where.
    """
    arrays: list[np.ndarray] = []
    text = to_json({"format": FORMAT, **_put_aside(content, arrays, "")})
    opened = replacing(path, is_typed=True)
    with opened as file, ZipFile(file, "w", ZIP_STORED) as archive:
        archive.writestr(ZipInfo(CONTENT), text)
        for number, array in enumerate(arrays):
            archive.writestr(ZipInfo(f"arrays/{number}.npy"), _to_npy(array))


def read_archive(path: Path) -> dict[str, Any]:
    """Read what `write_archive` was given.

    Raises:
        OSError: if there is no such file, or none that can be read.
        ValueError: if it is another one, of another format, or damaged.
    """
    with _open(path) as file, telling(path), ZipFile(file) as archive:
        content = from_json(_read(archive, CONTENT).decode())
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            found = content.get("format") if isinstance(content, dict) else None
            raise ValueError(f"its format is {found!r} where {FORMAT} is read")
        if content.keys() != KEYS:
            raise ValueError(f"it must name {sorted(KEYS)}")
        content["state"] = _bring_back(archive, content["state"])
        return content


@contextmanager
def telling(path: Path) -> Iterator[None]:
    """Say of whatever is raised that the file is none of a saved agent, by a `ValueError`."""
    try:
        yield
    except Exception as error:  # zipfile alone raises ten kinds
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise ValueError(message("path", CONDITION, str(path), reason)) from error


def _open(path: Path) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise type(error)(message("path", CONDITION, str(path), error.strerror or "")) from error


def _put_aside(value: Any, arrays: list[np.ndarray], place: str) -> Any:
    """Return a value with its arrays replaced by what stands for them, and gather these."""
    if isinstance(value, np.ndarray) and value.dtype.kind in KINDS:
        arrays.append(value)
        return {ARRAY: len(arrays) - 1}
    is_plain = isinstance(value, dict) and all(isinstance(key, str) for key in value)
    if is_plain and value.keys() != {ARRAY}:
        return {key: _put_aside(item, arrays, f"{place}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [_put_aside(item, arrays, f"{place}[{i}]") for i, item in enumerate(value)]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    condition = "be made of numbers, strings, lists and arrays to be saved"
    raise TypeError(message(place.lstrip("."), condition, value))


def _bring_back(archive: ZipFile, value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {ARRAY}:
        return _from_npy(_read(archive, f"arrays/{int(value[ARRAY])}.npy"))
    if isinstance(value, dict):
        return {key: _bring_back(archive, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_bring_back(archive, item) for item in value]
    return value


def _read(archive: ZipFile, name: str) -> bytes:
    """Read a part, which is checked against its checksum."""
    if archive.getinfo(name).compress_type != ZIP_STORED:
        raise ValueError(f"{name} is compressed")
    return archive.read(name)


def _to_npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array, order="C"), (1, 0), allow_pickle=False)
    return file.getvalue()


def _from_npy(data: bytes) -> np.ndarray:
    """Read an array of numbers, as long as its header says."""
    file = io.BytesIO(data)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("an array is of another version")
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
    start = file.tell()
    if is_fortran or dtype.kind not in KINDS:
        raise ValueError(f"an array is of type {dtype}")
    if min(shape, default=0) < 0 or len(data) - start != math.prod(shape) * dtype.itemsize:
        raise ValueError("an array is of another size than it says")
    return np.frombuffer(data, dtype, offset=start).reshape(shape).copy()
