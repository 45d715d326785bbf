"""Experiments written as TOML, which `bandit-gym run` reads again."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(settings: Mapping[str, Any]) -> str:
    """Write what `Experiment.to_dict` returns.

    TOML has no word for nothing: an option that is None is left out, and a comment says so.
    """
    lists = {name: value for name, value in settings.items() if name in ("environments", "agents")}
    lines = list(_write_keys({k: v for k, v in settings.items() if k not in lists}))
    for name, entries in lists.items():
        for entry in entries:
            lines += ["", f"[[{name}]]", *_write_keys(entry)]
    return "\n".join(lines) + "\n"


def _write_keys(settings: Mapping[str, Any]) -> Iterator[str]:
    for name, value in settings.items():
        if value is None:
            yield f"# {_write_key(name)} is None, which TOML cannot say"
        else:
            yield f"{_write_key(name)} = {_write(value)}"


def _write(value: Any) -> str:
    if isinstance(value, str):  # of control characters TOML wants one more escaped than JSON
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        inner = (f"{_write_key(k)} = {_write(v)}" for k, v in value.items() if v is not None)
        return f"{{{', '.join(inner)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_write, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value)


def _write_key(name: str) -> str:
    return name if BARE.fullmatch(name) else _write(name)
