"""What an object remembers beside what it is built from, as arrays and plain values, and back.

Classes name it in `state_names`; what their ancestors name is remembered too. All else follows from
the arguments of the object and from this, and is made anew.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

OURS = ("agents", "bandit_gym")


def is_ours(kind: type) -> bool:
    """Say whether a class comes with this project."""
    return kind.__module__.partition(".")[0] in OURS


def named_state(holder: Any) -> Iterator[tuple[str, bool]]:
    """Yield what an object remembers, ancestors first, and whether a class of ours says so."""
    for kind in reversed(type(holder).__mro__):
        for name in vars(kind).get("state_names", ()):
            yield name, is_ours(kind)


def get_state(holder: Any) -> Any:
    """Return copies of what an object remembers, by name; other values as they are."""
    if isinstance(holder, np.ndarray):
        return holder.copy()
    if parts := _parts(holder):
        return {name: get_state(value) for name, value in parts.items()}
    if hasattr(holder, "state_names"):
        return {name: get_state(getattr(holder, name)) for name, _ in named_state(holder)}
    return holder.item() if isinstance(holder, np.generic) else copy.deepcopy(holder)


def set_state(holder: Any, state: Any) -> None:
    """Let an object that has just been started remember what `get_state` returned.

    What classes of ours name keeps its type, and arrays their shape and dtype: compiled loops
    trust them. What follows from it is made by the method `_resume`, where there is one.

    Raises:
        TypeError: if a value is of another kind.
        ValueError: if an array has another shape, or names are missing or too many.
    """
    names = dict(named_state(holder))
    if not isinstance(state, dict) or state.keys() != names.keys():
        raise ValueError(f"the state of {type(holder).__name__} must name {[*names]}")
    for name in state:
        present, is_strict = getattr(holder, name, None), names[name]
        setattr(holder, name, _renewed(name, present, state[name], is_strict=is_strict))
    if hasattr(holder, "_resume"):
        holder._resume()


def _renewed(name: str, present: Any, value: Any, *, is_strict: bool) -> Any:
    """Return the value that takes the place of the present one, of the same kind where strict."""
    if parts := _parts(present):
        if not isinstance(value, dict) or value.keys() != parts.keys():
            raise ValueError(f"{name} must have the parts {[*parts]}")
        renewed = {
            part: _renewed(part, parts[part], value[part], is_strict=is_strict) for part in parts
        }
        return type(present)(**renewed)
    if hasattr(present, "state_names"):
        set_state(present, value)
        return present
    if is_strict:
        _check_kind(name, present, value)
    return value


def _parts(value: Any) -> dict[str, Any]:
    """Return the fields of a named tuple; of anything else, none."""
    return value._asdict() if isinstance(value, tuple) and hasattr(value, "_asdict") else {}


def _check_kind(name: str, present: Any, value: Any) -> None:
    if _kind(value) is not _kind(present):
        raise TypeError(f"{name} must be a {type(present).__name__}, got a {type(value).__name__}")
    if isinstance(present, np.ndarray) and (present.shape, present.dtype) != (
        value.shape,
        value.dtype,
    ):
        wanted = f"{present.dtype} of shape {present.shape}"
        raise ValueError(f"{name} must be {wanted}, got {value.dtype} of shape {value.shape}")


def _kind(value: Any) -> type:
    """Return the type of a value; numbers have one, since files do not tell 1 from 1.0."""
    return float if type(value) is int or isinstance(value, np.number) else type(value)
