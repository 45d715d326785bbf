"""What stands for an object in settings: a known name with arguments, or `module:name`: code."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import Parameter, signature
from operator import attrgetter
from typing import Any, TypeVar

from bandit_gym.checks.arguments import check_choice, check_keys
from bandit_gym.checks.messages import message

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
        parameters = [*signature(make).parameters.values()]
    except ValueError:  # compiled, which tells no arguments
        return
    open_ended = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    named = [each for each in parameters if each.kind not in open_ended]
    required = [each.name for each in named if each.default is each.empty]
    optional = [each.name for each in named if each.default is not each.empty]
    if any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
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
