"""The entries of an experiment, environments and agents: from names, dicts and grids to settings.

An entry holds all settings of its environment or agent. Its name and its digest come from these
alone. Its label is what people call it, and changes no folder and no number. A session may give
code and objects in place of names.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bandit_gym.checks import message
from bandit_gym.experiments.catalogue import (
    ENTRY_KEYS,
    agent_names,
    describe_belief,
    resolve_agent,
    resolve_environment,
    short_name,
    told_prior,
    without_told,
)
from bandit_gym.experiments.packed import (
    importable_name,
    pack,
    pickles_of,
    shown,
    sources_of,
    take_in,
)
from bandit_gym.experiments.provenance import find_sources
from bandit_gym.likelihoods import LIKELIHOODS
from bandit_gym.priors import prior_from_dict
from bandit_gym.problem import BanditProblem
from bandit_gym.registration import ENV_IDS

LONGEST_LABEL = 200

EXPECTED = {
    "environments": "be a list",
    "agents": "be a list, or a dict of labels and agents",
    "env": "be an id, a BanditProblem, or a dict with one of these as 'env'",
    "agent": "be a name, a class, a function, or a dict with one of these as 'agent'",
}
"""The conditions on lists of entries and on single entries, for messages."""

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Entry:
    """One environment or one agent of an experiment.

    Attributes:
        target: `module:Id-v0` of an environment, `module:Class` of an agent.
        options: keyword arguments, JSON-able.
        label: what tables and plots call it.
    """

    target: str
    options: dict[str, Any]
    label: str

    def __post_init__(self) -> None:
        for name, kind in (("target", str), ("options", dict), ("label", str)):
            if not isinstance(getattr(self, name), kind):
                raise TypeError(message(name, f"be a {kind.__name__}", getattr(self, name)))
        if not 0 < len(self.label) <= LONGEST_LABEL or not self.label.isprintable():
            condition = f"have 1 to {LONGEST_LABEL} characters that can be printed"
            raise ValueError(message("label", condition, self.label))
        if not self.target or not self.target.isprintable():
            raise ValueError(message("target", "read module:name", self.target))
        if not all(isinstance(name, str) for name in self.options):
            raise TypeError(message("options", "have names as their keys", self.options))

    def __hash__(self) -> int:
        return hash(self.digest)

    def __getstate__(self) -> dict[str, Any]:
        """Take along what has no importable name."""
        return self.__dict__ | {"pickles": pickles_of([self.target, self.options])}

    def __setstate__(self, state: dict[str, Any]) -> None:
        take_in(state.pop("pickles"))
        self.__dict__.update(state)

    @cached_property
    def digest(self) -> str:
        """Content hash of what it is built from, as hexadecimal digits."""
        return content_digest(self.settings)

    @property
    def settings(self) -> dict[str, Any]:
        """What it is built from."""
        return {"target": self.target, "options": self.options}

    def sources(self) -> dict[str, str]:
        """Return what its results depend on beside its settings: file -> digest."""
        return find_sources(self.target, self.options) | sources_of([self.target, self.options])

    @cached_property
    def told(self) -> Any:
        """Settings of the prior that an agent is told in place of its world's; None if none."""
        return told_prior(self.options)

    @cached_property
    def name(self) -> str:
        """What its settings read as, `racing(delta=0.1)`: the label of what is given none."""
        return _name(self.target, self.options)


def read_entries(field: str, kind: str, entries: Any) -> tuple[Entry, ...]:
    """Read a list of environments or agents, or a dict of labels and agents.

    Args:
        field: what the list is called.
        kind: "env" or "agent", the key that holds the name in an entry that is a dict.
        entries: names, code, problems, dicts with any of these, or `Entry`.

    Raises:
        TypeError: if an entry is anything else, or cannot be sent to workers.
    """
    if isinstance(entries, Mapping) and kind == "agent":
        entries = [_plain_settings(kind, each) | {"label": k} for k, each in entries.items()]
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        raise TypeError(message(field, EXPECTED[field], entries))
    if not entries:
        raise ValueError(message(field, "have at least one entry", entries))
    found = tuple(entry for item in entries for entry in _expand(kind, item))
    _check_different(field, found)
    return found


def _check_different(field: str, entries: Sequence[Entry]) -> None:
    """Refuse a label that is there twice, and settings under two labels."""
    found: set[str] = set()
    labels: dict[str, str] = {}  # settings -> label
    for entry in entries:
        if entry.label in found:
            raise ValueError(
                f"{field} must have different labels, got {entry.label!r} more than once; "
                "remove one or give it a label."
            )
        if entry.digest in labels:
            raise ValueError(
                f"{field} must have different settings, got the same ones as "
                f"{labels[entry.digest]!r} and as {entry.label!r}; remove one."
            )
        labels[entry.digest] = entry.label
        found.add(entry.label)


def _expand(kind: str, item: Any) -> Iterator[Entry]:
    """Yield one entry for each point of the item's grid; one in all if it has none."""
    if isinstance(item, Entry):
        yield item
        return
    settings = _plain_settings(kind, item)
    options = {k: v for k, v in settings.items() if k not in (kind, *ENTRY_KEYS)}
    grid = settings.get("grid", {})
    _check_grid(kind, grid)
    for values in itertools.product(*grid.values()):
        point = dict(zip(grid, values, strict=True))
        yield _make_entry(kind, settings[kind], options | point, _label(settings, point))


def _check_grid(kind: str, grid: Any) -> None:
    """Refuse what is no grid."""
    is_table = isinstance(grid, Mapping) and all(isinstance(v, list) and v for v in grid.values())
    if not is_table:
        raise TypeError(f"grid of {kind} must be a table of non-empty lists, got {grid!r}.")


def _label(settings: Settings, point: Settings) -> str | None:
    label = settings.get("label")
    return f"{label}{_written(point)}" if label and point else label


def _make_entry(kind: str, name: str, options: dict[str, Any], label: str | None) -> Entry:
    resolve = resolve_environment if kind == "env" else resolve_agent
    target = resolve(name, options)
    options = _jsonable(kind, options)
    if label is None:
        label = _name(target, options) if kind == "env" else _belief(target, options)
    return Entry(target, options, label)


def _belief(target: str, options: Settings) -> str:
    """Return an agent's label: its settings as a call, and the prior it is told, if another."""
    own = _written(without_told(options))
    return _cut(f"{short_name(target)}{own}{describe_belief(options)}")


def write_entry(kind: str, entry: Entry) -> dict[str, Any]:
    """Return a dict from which `read_entries` makes an equal entry."""
    return {kind: entry.target, "label": entry.label, **entry.options}


def _name(target: str, options: Settings) -> str:
    """Write settings as a call, fit for a label; the end of a very long one is left out."""
    return _cut(short_name(target) + _written(options))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 3]}..."


def _written(options: Settings) -> str:
    if not options:
        return ""
    pairs = (f"{key}={_written_value(value)}" for key, value in options.items())
    return f"({','.join(pairs)})"


def _written_value(value: Any) -> str:
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):  # a prior
        return f"{shown(value['name'])}{_written({k: v for k, v in value.items() if k != 'name'})}"
    is_word = isinstance(value, str) and value.isprintable()
    return value if is_word else json.dumps(value, separators=(",", ":"))


def _jsonable(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    try:
        return json.loads(json.dumps(options, allow_nan=False))  # type: ignore[no-any-return]
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(message(f"{kind} options", "be JSON-able", options)) from error


def content_digest(content: Any) -> str:
    """Return the content hash of what JSON can hold, as hexadecimal digits."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain_settings(kind: str, item: Any) -> dict[str, Any]:
    """Return an entry as a dict of plain settings, in which names stand for code and objects."""
    settings = dict(item) if isinstance(item, Mapping) else {kind: item}
    given = settings.pop(kind, None)
    if isinstance(given, str):
        named = {kind: given}
    elif kind == "env" and isinstance(given, BanditProblem):
        named = _name_problem(given)
    elif kind == "agent" and callable(given):
        named = {kind: _name_code(given)}
    else:
        raise TypeError(message(kind, EXPECTED[kind], item))
    return _plain(named | settings)  # type: ignore[no-any-return]


def _name_code(code: Any) -> str:
    """Return a target of a class or a function, by which any process finds it."""
    ours = f"agents:{getattr(code, '__name__', '')}"
    module = str(getattr(code, "__module__", ""))
    if module.partition(".")[0] == "agents" and ours in agent_names().values():
        return ours  # as its short name has it, so that it draws the same numbers
    return importable_name(code) or pack(code)


def _name_problem(problem: BanditProblem) -> dict[str, Any]:
    """Return settings of a problem: an id and options, or a packed name."""
    likelihood = problem.likelihood
    env_id = f"{type(likelihood).__name__}Bandit-v0"
    if type(likelihood) in LIKELIHOODS.values() and env_id in ENV_IDS:
        options = {"num_arms": problem.num_arms, "prior": problem.prior}
        return {"env": env_id} | options | vars(likelihood)
    return {"env": pack(problem)}


def _plain(value: Any) -> Any:
    """Return options in which objects are the dicts that describe them, or stand for them."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, str | bool | int | float | None):
        return value
    return _described(value) or {"name": pack(value)}


def _described(value: Any) -> dict[str, Any] | None:
    """Return the dict of a prior that has a name; None of anything else."""
    try:
        settings: dict[str, Any] = value.to_dict()
        return settings if prior_from_dict(settings) == value else None
    except (AttributeError, TypeError, ValueError):
        return None
