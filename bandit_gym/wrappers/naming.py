"""Wrappers as data: a list of dicts, the first of which goes around the environment itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from inspect import signature
from typing import Any

import gymnasium as gym

from bandit_gym.checks import check_choice, check_keys, message

NAMES = ("AvailableArms", "BatchedFeedback", "DelayedReward", "Drift")


def wrap(env: Any, wrappers: Any) -> Any:
    """Put wrappers around an environment, single or vector.

    Args:
        env: the environment.
        wrappers: dicts of a `name`, one of NAMES or `module:Class` of one's own, and of options.

    Raises:
        TypeError: if they are no such list, or an option is of the wrong kind.
        ValueError: if a name or an option is unknown, or a value out of range.
    """
    for settings, (make, options) in zip(wrappers, check_wrappers(wrappers), strict=True):
        env = make(env, **options)
        if not isinstance(env, gym.Env | gym.vector.VectorEnv):
            raise TypeError(message("wrapper", "name what makes an environment", settings["name"]))
    return env


def check_wrappers(wrappers: Any) -> list[tuple[Callable[..., Any], dict[str, Any]]]:
    """Return the class of each wrapper, and its options; errors are those of `wrap`."""
    if isinstance(wrappers, str | bytes | Mapping) or not isinstance(wrappers, Sequence):
        raise TypeError(message("wrappers", "be a list of dicts with the key 'name'", wrappers))
    return [_check(settings) for settings in wrappers]


def _check(settings: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    if not isinstance(settings, Mapping) or not isinstance(settings.get("name"), str):
        raise TypeError(message("wrapper", "be a dict with the key 'name'", settings))
    name, options = settings["name"], {k: v for k, v in settings.items() if k != "name"}
    make = _find(name)
    check_keys(f"options of {name}", options, optional=[*signature(make).parameters][1:])
    return make, options


def _find(name: str) -> Callable[..., Any]:
    module, colon, rest = name.partition(":")
    if not colon:
        found = getattr(import_module("bandit_gym.wrappers"), check_choice("wrapper", name, NAMES))
        return found  # type: ignore[no-any-return]
    try:
        found = getattr(import_module(module), rest)
        signature(found)  # of what cannot be called there is none
        return found  # type: ignore[no-any-return]
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(message("wrapper", "be an importable class", name, reason)) from error
