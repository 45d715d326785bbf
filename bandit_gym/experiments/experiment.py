"""Experiments as data: which agents, in which environments, how often, how long, from which seed.

An `Experiment` is a table of runs, one per environment and agent. A `Run` is named by its content,
so that equal runs share a name and a changed one never meets the files of another. Replications are
simulated in blocks of fixed size, and a block's seeds depend on (run, block) alone; therefore
neither the number of replications nor who simulates a block can change its result.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from numpy.random import SeedSequence

from bandit_gym.checks import check_choice, check_integer, check_keys
from bandit_gym.experiments.catalogue import (
    ENTRY_KEYS,
    resolve_agent,
    resolve_environment,
    short_name,
)

FORMAT = 1
"""Version of the names and files written here; another version is never read as this one."""

RECORDINGS = ("log", "every")
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

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def digest(self) -> str:
        """Content hash, as hexadecimal digits."""
        return _digest(asdict(self))


@dataclass(frozen=True)
class Run:
    """One agent in one environment: the unit that is simulated block by block and stored.

    Attributes are those of `Experiment`; the number of replications is not among them, so that
    adding some keeps the old ones.
    """

    environment: Entry
    agent: Entry
    horizon: int
    seed: int
    recording: str
    block_size: int

    @property
    def name(self) -> str:
        """Readable labels and the content hash, fit for a file name."""
        labels = [_slug(entry.label) for entry in (self.environment, self.agent)]
        return "--".join([*labels, self.digest[:12]])

    @property
    def digest(self) -> str:
        """Content hash, as hexadecimal digits."""
        return _digest({"format": FORMAT, **asdict(self)})

    def replications(self, block: int) -> range:
        """Say which replications a block holds; always `block_size` of them."""
        return range(block * self.block_size, (block + 1) * self.block_size)

    def environment_seeds(self, block: int) -> list[int]:
        """Return one 63-bit seed per lane, which depends on (seed, replication) and on no agent."""
        return [
            int(SeedSequence(self.seed, spawn_key=(0, r)).generate_state(1, "uint64")[0]) >> 1
            for r in self.replications(block)
        ]

    def agent_seed(self, block: int) -> SeedSequence:
        """Return the agent's own stream, which no other agent, block or environment shares."""
        return SeedSequence(self.seed, spawn_key=(1, block, int(self.agent.digest[:16], 16)))


@dataclass(frozen=True)
class Experiment:
    """A comparison of agents in environments, as data.

    Every entry of `environments` is an id or a dict `{"env": id, option: value, ...}`, every entry
    of `agents` a name or a dict `{"agent": name, option: value, ...}`; a name is one that
    `bandit-gym list` shows, or `module:Class`. Beside its options an entry may have a `label` and a
    `grid`: a dict of lists, which stands for one entry per element of their product, the last key
    varying fastest.

    Attributes:
        environments: the worlds.
        agents: the learners; paired differences are taken to the first.
        replications: episodes of each agent in each environment.
        horizon: T, steps of each episode.
        seed: integer >= 0 from which every stream is derived.
        recording: which steps are stored, "log" (at most 200, evenly spaced in log t) or "every".
        block_size: replications simulated together, N lanes in lockstep.
    """

    environments: tuple[Entry, ...]
    agents: tuple[Entry, ...]
    replications: int = 100
    horizon: int = 1000
    seed: int = 0
    recording: str = "log"
    block_size: int = 50

    def __post_init__(self) -> None:
        environments = _read_entries("environments", "env", self.environments)
        agents = _read_entries("agents", "agent", self.agents)
        object.__setattr__(self, "environments", environments)
        object.__setattr__(self, "agents", agents)
        for name, minimum in _INTEGERS.items():
            check_integer(name, getattr(self, name), minimum=minimum)
        check_choice("recording", self.recording, RECORDINGS)

    @property
    def num_blocks(self) -> int:
        """Blocks that hold the replications; of the last one, only the first may be needed."""
        return math.ceil(self.replications / self.block_size)

    @property
    def runs(self) -> tuple[Run, ...]:
        """Every agent in every environment, environments outermost."""
        return tuple(
            Run(env, agent, self.horizon, self.seed, self.recording, self.block_size)
            for env, agent in itertools.product(self.environments, self.agents)
        )

    @property
    def name(self) -> str:
        """Content hash of everything but the number of replications, 12 hexadecimal digits."""
        return _digest([run.digest for run in self.runs])[:12]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able dict from which `from_dict` makes an equal experiment."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        plain["environments"] = [_write_entry("env", entry) for entry in self.environments]
        plain["agents"] = [_write_entry("agent", entry) for entry in self.agents]
        return plain

    @classmethod
    def from_dict(cls, settings: Settings) -> Experiment:
        """Make an experiment from a dict, naming unknown and missing keys."""
        required = ("environments", "agents")
        optional = [field.name for field in fields(cls) if field.name not in required]
        check_keys("experiment", settings, required=required, optional=optional)
        return cls(**settings)


_INTEGERS = {"replications": 1, "horizon": 1, "seed": 0, "block_size": 1}


def load_experiment(path: str | Path) -> Experiment:
    """Read an experiment from a TOML file, or from JSON if the name ends so."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        settings = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise ValueError(f"{path} must be valid {kind}, got an error: {error}.") from error
    return Experiment.from_dict(settings)


def _read_entries(field: str, kind: str, entries: Any) -> tuple[Entry, ...]:
    if isinstance(entries, str | Mapping) or not isinstance(entries, Sequence):
        raise TypeError(f"{field} must be a list of names or dicts, got {entries!r}.")
    if not entries:
        raise ValueError(f"{field} must have at least one entry, got none.")
    found = tuple(entry for item in entries for entry in _expand(kind, item))
    labels = [entry.label for entry in found]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(
                f"{field} must have different labels, got {label!r} more than once; "
                "remove one or give it a label."
            )
    return found


def _expand(kind: str, item: Any) -> Iterator[Entry]:
    """Yield one entry for each point of the item's grid; one in all if it has none."""
    if isinstance(item, Entry):
        yield item
        return
    settings: Any = {kind: item} if isinstance(item, str) else item
    if not isinstance(settings, Mapping) or not isinstance(settings.get(kind), str):
        raise TypeError(f"{kind} must be a name or a dict with the key {kind!r}, got {item!r}.")
    options = {k: v for k, v in settings.items() if k not in (kind, *ENTRY_KEYS)}
    grid = settings.get("grid", {})
    _check_grid(kind, grid)
    for values in itertools.product(*grid.values()):
        point = dict(zip(grid, values, strict=True))
        yield _make_entry(kind, settings[kind], options | point, _label(settings, point))


def _check_grid(kind: str, grid: Any) -> None:
    is_table = isinstance(grid, Mapping) and all(isinstance(v, list) and v for v in grid.values())
    if not is_table:
        raise TypeError(f"grid of {kind} must be a table of non-empty lists, got {grid!r}.")


def _label(settings: Settings, point: Settings) -> str | None:
    label = settings.get("label")
    return None if label is None else f"{label}{_written(point)}"


def _make_entry(kind: str, name: str, options: dict[str, Any], label: str | None) -> Entry:
    resolve = resolve_environment if kind == "env" else resolve_agent
    target = resolve(name, options)
    options = _jsonable(kind, options)
    return Entry(target, options, label or short_name(target) + _written(options))


def _write_entry(kind: str, entry: Entry) -> dict[str, Any]:
    return {kind: entry.target, "label": entry.label, **entry.options}


def _written(options: Settings) -> str:
    if not options:
        return ""
    pairs = (f"{key}={_written_value(value)}" for key, value in options.items())
    return f"({','.join(pairs)})"


def _written_value(value: Any) -> str:
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):  # a prior
        return f"{value['name']}{_written({k: v for k, v in value.items() if k != 'name'})}"
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _jsonable(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    try:
        return json.loads(json.dumps(options, allow_nan=False))  # type: ignore[no-any-return]
    except (TypeError, ValueError) as error:
        raise TypeError(f"{kind} options must be JSON-able, got {options!r}.") from error


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _slug(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", label).strip("-")[:48]
