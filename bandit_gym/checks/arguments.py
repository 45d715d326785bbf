"""The one form of an error message, and checks of single arguments and of settings.

Arguments are numbers, arrays and objects; settings are names that stand for objects, parameters of
distributions, and paths.
"""

import copy
import inspect
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from decimal import Decimal
from difflib import get_close_matches
from importlib import import_module
from math import inf
from numbers import Integral, Real
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bandit_gym.checks.typing import FloatArray, Parameter

_MAX_REPR_LENGTH = 100
PROJECT_PACKAGES = "agents", "bandit_gym"


def message(name: str, condition: str, value: Any, remedy: str = "", place: str = "") -> str:
    """Return the whole message; where the value stands and a remedy follow it, if there are any."""
    return f"{name} must {condition}, got {shorten_repr(value)}{place}{remedy and '; '}{remedy}."


def shorten_repr(value: Any) -> str:
    """Return the value's repr on one line, cut when long, NumPy scalars as plain numbers."""
    plain = value.item() if isinstance(value, np.generic) else value
    text = " ".join(repr(plain).split())
    return text if len(text) <= _MAX_REPR_LENGTH else f"{text[:_MAX_REPR_LENGTH]}..."


def quote_words(words: Iterable[str]) -> str:
    """Return the words in quotes, between commas."""
    return ", ".join(repr(word) for word in words)


def suggest_nearest(word: str, known: Collection[str]) -> str:
    """Return the remedy that names the known word closest to `word`; empty if none is close."""
    longer = sorted((each for each in known if each and word.startswith(each)), key=len)
    matches = longer[-1:] or get_close_matches(word, known, n=1)
    return f"the nearest known one is {matches[0]!r}" if matches else ""


def as_array(value: Any) -> np.ndarray[Any, Any] | None:
    """Return the value as an array; None if it is a list of lists of different lengths.

    Or if an entry is masked, which says nothing. A sparse array of SciPy, as encoders of
    scikit-learn return, is filled with its zeros.
    """
    try:
        if hasattr(value, "toarray"):
            return np.asarray(value.toarray())
        return None if np.ma.is_masked(value) else np.asarray(value)
    except ValueError:  # rows of different lengths
        return None


def as_numbers(value: Any, kinds: str = "iuf") -> FloatArray | None:
    """Return the value as a float array of its own; None if it is not made of real numbers.

    Where booleans are taken, decimals are too, and the mixed columns of tables.
    """
    values = as_array(value)
    if values is None:
        return None
    if values.dtype.kind == "O" and "b" in kinds:
        is_number = (isinstance(each, Real | Decimal | np.bool_) for each in values.flat)
        return values.astype(np.float64) if all(is_number) else None
    return values.astype(np.float64) if values.dtype.kind in kinds else None


def check_numbers(name: str, value: Any, kinds: str = "iuf") -> FloatArray:
    """Return real numbers, alone or in an array of any shape; infinite ones are numbers."""
    values = as_numbers(value, kinds)
    if values is None:
        raise TypeError(message(name, "be numbers, alone or in an array", value))
    if np.isnan(values).any():
        raise ValueError(message(name, "have no NaN", value))
    return values


def check_all(
    name: str, is_right: Any, condition: str, values: Any, remedy: str = "", rows: Any = None
) -> None:
    """Refuse an array of which some entries are wrong, with the first of them, and its row.

    Args:
        name: of the array.
        is_right: which entries are.
        condition: that they keep.
        values: the array.
        remedy: a way out.
        rows: number of each entry's row in a table that a user has; None if there is none.
    """
    if not is_right.all():
        place = "" if rows is None else f" in row {rows[int(np.argmin(is_right))]}"
        raise ValueError(message(name, condition, values[~is_right][0], remedy, place))


_T = TypeVar("_T")


def check_integer(name: str, value: Any, *, minimum: int, maximum: int | None = None) -> int:
    """Return `value` as an int within the bounds; a bool or a float is not an integer."""
    words = {0: "be a non-negative integer", 1: "be a positive integer"}
    condition = words.get(minimum, f"be an integer of at least {minimum}")
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(message(name, condition, value))
    number = int(value)
    if number < minimum:
        raise ValueError(message(name, condition, value))
    if maximum is not None and number > maximum:
        raise ValueError(message(name, f"be at most {maximum}", value))
    return number


def check_real(
    name: str,
    value: Any,
    *,
    above: float = -inf,
    below: float = inf,
    minimum: float = -inf,
    maximum: float = inf,
) -> float:
    """Return `value` as a finite float within the bounds; `above` and `below` are open."""
    bounds = {"above": above, "at least": minimum, "below": below, "at most": maximum}
    rules = [f" {words} {bound:g}" for words, bound in bounds.items() if np.isfinite(bound)]
    condition = "be a finite number" + " and".join(rules)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(message(name, condition, value))
    number = float(value)
    if not (above < number < below and minimum <= number <= maximum and np.isfinite(number)):
        raise ValueError(message(name, condition, value))
    return number


def check_seed(name: str, value: Any, *, num_lanes: int = 1) -> int | None:
    """Return a seed of at least 0, or None; with N lanes, that of the last has 64 bits too."""
    if value is None:
        return None
    return check_integer(name, value, minimum=0, maximum=2**64 - num_lanes)


def check_options(options: Any, known: Collection[str]) -> Mapping[str, Any]:
    """Return the options of a reset; unknown ones, which a wrapper may know, are warned of."""
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise TypeError(message("options", "be a dict or None", options))
    for key in options:
        if key not in known:
            condition = f"have no keys but {quote_words(known)} to have an effect"
            condition = condition if known else "have no keys, which have no effect here"
            warnings.warn(message("options", condition, key), stacklevel=3)  # the caller of reset
    return options


def check_choice(name: str, value: Any, choices: Collection[str]) -> str:
    """Return `value` if it is one of `choices`; otherwise the error names the nearest one."""
    condition = f"be one of {quote_words(choices)}"
    if not isinstance(value, str):
        raise TypeError(message(name, condition, value))
    if value not in choices:
        raise ValueError(message(name, condition, value, suggest_nearest(value, choices)))
    return value


def check_keys(
    name: str, mapping: Any, *, required: Collection[str] = (), optional: Collection[str] = ()
) -> None:
    """Refuse a mapping that lacks a required key or has an unknown one."""
    known = (*required, *optional)
    if not isinstance(mapping, Mapping):
        raise TypeError(message(name, f"be a dict with the keys {quote_words(known)}", mapping))
    for key in mapping:
        if key not in known:
            condition = f"have no keys but {quote_words(known)}" if known else "have no keys"
            raise ValueError(message(name, condition, key, suggest_nearest(str(key), known)))
    for key in required:
        if key not in mapping:
            raise ValueError(message(name, f"have the key {key!r}", dict(mapping)))


def check_object(name: str, value: Any, kind: type[_T], remedy: str = "") -> _T:
    """Return `value` if it is an object of that class."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise TypeError(message(name, f"be {article} {kind.__name__}", value, remedy))
    return value


def check_callback(name: str, value: Any) -> None:
    """Refuse what cannot be called."""
    if not callable(value):
        raise TypeError(message(name, "be a function", value))


def check_returned(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return the numbers that a user's method returned, or refuse what has another shape."""
    values = as_array(value)
    if values is None or values.dtype.kind not in "biuf":
        text = shorten_repr(value)
    elif values.shape == shape:
        return values
    else:
        text = f"shape {values.shape}"
    raise ValueError(f"{name} must return numbers of shape {shape}, got {text}.")


def call_method(
    name: str, shape: tuple[int, ...], method: Callable[..., Any], *args: Any
) -> FloatArray:
    """Return what the method returns, as an array of the given shape.

    Args:
        name: the call as messages show it, e.g. "prior.sample(rng, (3,))".
        shape: of the numbers to be returned.
        method: a user's own.
        *args: its arguments.

    Raises:
        ValueError: if it returns something else, raises, or changes an array that it is given; or
            if it makes a list of arrays.
    """
    arrays = [each for each in args if isinstance(each, np.ndarray)]
    before = copy.deepcopy(arrays)
    try:
        values = method(*args)
    except Exception as error:
        condition = f"return numbers of shape {shape} and not raise"
        raise ValueError(f"{name} must {condition}, got {error!r}.") from error
    for old, new in zip(before, arrays, strict=True):
        if not np.array_equal(old, new, equal_nan=True):
            raise ValueError(message(name, "leave the arrays that it is given as they are", new))
    if arrays and isinstance(values, list | tuple):
        raise ValueError(message(name, "return an array", values))
    return check_returned(name, values, shape).astype(np.float64)


# -- Settings --------------------------------------------------------------------------------------

NAME_PATTERN = re.compile(r"([^\W\d][\w.]*):[^\W\d][\w.-]*")
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
    parameters = [*inspect.signature(make).parameters.values()]
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
    if not NAME_PATTERN.fullmatch(target):
        raise ValueError(message(kind, "read module:name", target))
    module, _, name = target.partition(":")
    try:
        return attrgetter(name)(import_module(module))
    except (Exception, SystemExit) as error:  # all that a module does when it is imported
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(message(kind, "be importable", target, reason)) from error


def import_extra(module: str, what: str, extra: str) -> Any:
    """Import a module that comes with an extra of this package.

    Args:
        module: its name.
        what: who needs it, in words.
        extra: name of the extra.

    Raises:
        ModuleNotFoundError: if it is not installed; says how to.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        text = f'{what} needs its package: pip install ".[{extra}]".'
        raise ModuleNotFoundError(text) from error


MAX_DEPENDENT_ARMS = 500
"""How to draw under a covariance is found in 7 s there, and in time that grows like K^3."""

_MAX_ASYMMETRY = 1e-10
_MIN_RELATIVE_EIGENVALUE = 1e-12


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
    for key, length in lengths.items():
        first, num_arms = next(iter(lengths.items()))
        if length != num_arms:
            raise ValueError(message(key, f"have as many values as {first} ({num_arms})", length))


def check_covariance(name: str, value: Any) -> tuple[tuple[float, ...], ...]:
    """Return a covariance as rows of floats: symmetric and positive definite beyond rounding."""
    matrix = as_numbers(value)
    if matrix is None or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise TypeError(message(name, "be a square matrix of numbers", value))
    if len(matrix) > MAX_DEPENDENT_ARMS:
        raise ValueError(message(name, f"have at most {MAX_DEPENDENT_ARMS} rows", len(matrix)))
    variances = np.diag(matrix)
    if not (np.isfinite(matrix).all() and matrix.size and (variances > 0).all()):
        raise ValueError(message(name, "be finite, with a diagonal above 0", value))
    correlations = matrix / np.sqrt(variances) / np.sqrt(variances)[:, None]
    if not np.allclose(correlations, correlations.T, rtol=0.0, atol=_MAX_ASYMMETRY):
        raise ValueError(message(name, "be symmetric", value))
    eigenvalues = np.linalg.eigvalsh(correlations)
    if not eigenvalues[0] > _MIN_RELATIVE_EIGENVALUE * eigenvalues[-1]:
        remedy = "no arm may be a combination of others"
        raise ValueError(message(name, "be positive definite", value, remedy))
    return tuple(tuple(row) for row in (0.5 * (matrix + matrix.T)).tolist())


def check_path(name: str, value: Any) -> Path:
    """Return what names a file or a folder as a path; whether it is there does not matter."""
    if not isinstance(value, str | Path) or value == "":
        error = ValueError if isinstance(value, str) else TypeError
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


def is_project_class(kind: type) -> bool:
    """Say whether a class comes with this project."""
    return kind.__module__.partition(".")[0] in PROJECT_PACKAGES
