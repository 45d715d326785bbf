"""Checks of what settings hold: names that stand for objects, parameters of laws, and paths."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bandit_gym.checks.arguments import as_numbers, check_choice, check_keys, message
from bandit_gym.checks.typing import Parameter

_T = TypeVar("_T")

NAMED = re.compile(r"([^\W\d][\w.]*):[^\W\d][\w.-]*")
"""`module:Class`, `module:Class.method`, `module:Id-v0`: all that settings may import."""


def make_named(kind: str, settings: Any, makers: Mapping[str, Callable[..., _T]]) -> _T:
    """Make the object that a dict such as `{"name": "gaussian", "std": 1.0}` describes.

    Args:
        kind: what it is in messages, e.g. "likelihood".
        settings: the name, and the arguments of what has it.
        makers: name -> class or function.

    Raises:
        TypeError: if a value is of the wrong kind.
        ValueError: if the name or a key is unknown, a key is missing, or a value is out of range.
    """
    name, options = split_name(kind, settings)
    make = makers[check_choice(f"{kind} name", name, makers)]
    check_arguments(kind, make, settings)
    return make(**options)


def split_name(kind: str, settings: Any) -> tuple[Any, dict[str, Any]]:
    """Return the name in a dict, and the rest of it.

    Raises:
        TypeError: if it is no dict.
        ValueError: if it has no name.
    """
    if not isinstance(settings, Mapping) or "name" not in settings:
        error = ValueError if isinstance(settings, Mapping) else TypeError
        raise error(message(kind, "be a dict with the key 'name'", settings))
    return settings["name"], {key: value for key, value in settings.items() if key != "name"}


def check_arguments(kind: str, make: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    """Refuse a dict of a name and arguments that what has the name does not take."""
    try:
        parameters = [*inspect.signature(make).parameters.values()]
    except ValueError:  # compiled, which tells no arguments
        return
    open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = [each for each in parameters if each.kind not in open_ended]
    required = [each.name for each in named if each.default is each.empty]
    optional = [each.name for each in named if each.default is not each.empty]
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
        optional += settings
    check_keys(kind, settings, required=["name", *required], optional=optional)


def load_named(kind: str, target: str) -> Any:
    """Import `module:name`, in which the name may have dots, and return what it is.

    Raises:
        ValueError: if it reads otherwise, or there is no such module or name.
    """
    if not NAMED.fullmatch(target):
        raise ValueError(message(kind, "read module:name", target))
    module, _, name = target.partition(":")
    try:
        return attrgetter(name)(import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(message(kind, "be importable", target, reason)) from error


MOST_DEPENDENT_ARMS = 500
"""How to draw under a covariance is found in 7 s there, and in time that grows like K^3."""

_LARGEST_ASYMMETRY = 1e-10
_SMALLEST_EIGENVALUE = 1e-12


def check_parameter(name: str, value: Any, *, positive: bool = False) -> Parameter:
    """Return a finite parameter as a float, or as a tuple of floats when there is one per arm."""
    rule = "finite and above 0" if positive else "finite"
    numbers = as_numbers(value)
    if numbers is None or numbers.ndim > 1:
        condition = f"be a number or a list of one number per arm, {rule}"
        raise TypeError(message(name, condition, value))
    is_valid = np.isfinite(numbers).all() and (not positive or (numbers > 0).all())
    if not (numbers.size and is_valid):
        raise ValueError(message(name, f"be {rule}", value))
    return float(numbers) if numbers.ndim == 0 else tuple(numbers.tolist())


def check_same_length(**parameters: Any) -> None:
    """Refuse parameters that are given per arm for different numbers of arms."""
    lengths = {key: len(value) for key, value in parameters.items() if isinstance(value, tuple)}
    for first, num_arms in lengths.items():
        for key, length in lengths.items():
            if length != num_arms:
                condition = f"have as many values as {first} ({num_arms})"
                raise ValueError(message(key, condition, length))


def check_covariance(name: str, value: Any) -> tuple[tuple[float, ...], ...]:
    """Return a covariance as rows of floats: symmetric and positive definite beyond rounding."""
    matrix = as_numbers(value)
    if matrix is None or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise TypeError(message(name, "be a square matrix of numbers", value))
    if len(matrix) > MOST_DEPENDENT_ARMS:
        raise ValueError(message(name, f"have at most {MOST_DEPENDENT_ARMS} rows", len(matrix)))
    variances = np.diag(matrix)
    if not (np.isfinite(matrix).all() and matrix.size and (variances > 0).all()):
        raise ValueError(message(name, "be finite, with a diagonal above 0", value))
    correlations = matrix / np.sqrt(variances) / np.sqrt(variances)[:, None]
    if not np.allclose(correlations, correlations.T, rtol=0.0, atol=_LARGEST_ASYMMETRY):
        raise ValueError(message(name, "be symmetric", value))
    eigenvalues = np.linalg.eigvalsh(correlations)
    if not eigenvalues[0] > _SMALLEST_EIGENVALUE * eigenvalues[-1]:
        raise ValueError(
            f"{name} must be positive definite, got eigenvalues of its correlations from "
            f"{eigenvalues[0]:.2g} to {eigenvalues[-1]:.2g}; no arm may be a combination of others."
        )
    return tuple(tuple(row) for row in (0.5 * (matrix + matrix.T)).tolist())


def check_path(name: str, value: Any) -> Path:
    """Return what names a file or a folder as a path; whether it is there does not matter."""
    if not isinstance(value, str | Path) or value == "":
        error = ValueError if value == "" else TypeError
        raise error(message(name, "be a path, as a string or a Path", value))
    return Path(value)


def check_folder(name: str, value: Any) -> Path:
    """Return the path of a folder, or of one that can still be made.

    Raises:
        FileExistsError: if something else stands there.
    """
    path = check_path(name, value)
    if path.exists() and not path.is_dir():
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
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
