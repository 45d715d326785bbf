"""Experiments as data: which agents, in which environments, how often, how long, from which seed.

An `Experiment` is a table of runs, one per environment and agent. An `Entry` holds all settings of
its environment or agent; its label is what people call it, and changes no folder and no number. A
`Run` is named by its settings, so that equal runs share a name and a changed one never meets the
files of another. Replications are simulated in blocks of fixed size, and a block's seeds depend on
(run, block) alone; therefore neither the number of replications nor who simulates a block can
change its result. A session may give code and objects in place of names.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from bandit_gym.checks import (
    check_choice,
    check_integer,
    check_keys,
    check_object,
    check_path,
    message,
)
from bandit_gym.checks.typing import IntArray
from bandit_gym.experiments.catalogue import (
    ENTRY_KEYS,
    display_name,
    load_pickles,
    name_of,
    pack_object,
    pickles_of,
    resolve_agent,
    resolve_environment,
    short_name,
    sources_of,
    split_prior,
)
from bandit_gym.likelihoods import LIKELIHOODS
from bandit_gym.priors import describe_prior, prior_from_dict
from bandit_gym.problem import BanditProblem
from bandit_gym.registration import ENV_IDS

MAX_LABEL_LENGTH = 200

FORMS = {"env": "an id, a BanditProblem", "agent": "a name, a class, a function"}
"""What single entries may be, for messages."""

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
    options: dict[str, Any] = field(hash=False)
    label: str

    def __post_init__(self) -> None:
        check_object("label", self.label, str)
        if not 0 < len(self.label) <= MAX_LABEL_LENGTH or not self.label.isprintable():
            condition = f"have 1 to {MAX_LABEL_LENGTH} characters that can be printed"
            raise ValueError(message("label", condition, self.label))

    def __getstate__(self) -> dict[str, Any]:
        """Take along what has no importable name."""
        return self.__dict__ | {"pickles": pickles_of(self.settings)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        load_pickles(state.pop("pickles"))
        self.__dict__.update(state)

    @cached_property
    def digest(self) -> str:
        """Content hash of what it is built from, as hexadecimal digits."""
        return content_digest(self.settings)

    @property
    def settings(self) -> dict[str, Any]:
        """What it is built from."""
        return {"target": self.target, "options": self.options}

    @cached_property
    def name(self) -> str:
        """What its settings read as, `racing(stopping=20)`, in whichever order they were given."""
        options = json.loads(json.dumps(self.options, sort_keys=True))
        return _cut_label(short_name(self.target) + _write_options(options))


def read_entries(name: str, kind: str, entries: Any) -> tuple[Entry, ...]:
    """Read a list of environments or agents, or a dict of labels and agents.

    Args:
        name: what the list is called.
        kind: "env" or "agent", the key that holds the name in an entry that is a dict.
        entries: names, code, problems, dicts with any of these, or `Entry`.

    Raises:
        TypeError: if an entry is anything else, or cannot be sent to workers.
    """
    if isinstance(entries, Mapping) and kind == "agent":
        entries = [_plain_settings(kind, each) | {"label": k} for k, each in entries.items()]
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        raise TypeError(message(name, "be a list, or for agents a dict of labels", entries))
    if not entries:
        raise ValueError(message(name, "have at least one entry", entries))
    found = tuple(entry for item in entries for entry in _expand_grid(kind, item))
    for first, second in itertools.combinations(found, 2):
        if first.label == second.label or first.digest == second.digest:
            condition, labels = "have different labels and settings", [first.label, second.label]
            raise ValueError(message(name, condition, labels, "remove one, or change it"))
    return found


def _expand_grid(kind: str, item: Any) -> Iterator[Entry]:
    """Yield one entry for each point of the item's grid; one in all if it has none."""
    if isinstance(item, Entry):
        yield item
        return
    settings = _plain_settings(kind, item)
    options = {k: v for k, v in settings.items() if k not in (kind, *ENTRY_KEYS)}
    grid, label = settings.get("grid", {}), settings.get("label")
    if not (isinstance(grid, Mapping) and all(isinstance(v, list) and v for v in grid.values())):
        raise TypeError(f"grid of {kind} must be a table of non-empty lists, got {grid!r}.")
    for values in itertools.product(*grid.values()):
        point = dict(zip(grid, values, strict=True))
        own = f"{label}{_write_options(point)}" if label and point else label
        yield _make_entry(kind, settings[kind], options | point, own)


def _make_entry(kind: str, name: str, options: dict[str, Any], label: str | None) -> Entry:
    target = (resolve_environment if kind == "env" else resolve_agent)(name, options)
    if label is None:
        prior, own = split_prior(options) if kind == "agent" else (None, options)
        belief = "" if prior is None else f", given {describe_prior(prior)}"
        label = _cut_label(f"{short_name(target)}{_write_options(own)}{belief}")
    return Entry(target, options, label)


def _cut_label(text: str) -> str:
    return text if len(text) <= MAX_LABEL_LENGTH else f"{text[: MAX_LABEL_LENGTH - 3]}..."


def _write_options(options: Settings) -> str:
    if not options:
        return ""
    pairs = (f"{key}={_write_value(value)}" for key, value in options.items())
    return f"({','.join(pairs)})"


def _write_value(value: Any) -> str:
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):  # a prior
        options = {key: option for key, option in value.items() if key != "name"}
        return f"{display_name(value['name'])}{_write_options(options)}"
    is_word = isinstance(value, str) and value.isprintable()
    return value if is_word else json.dumps(value, separators=(",", ":"))


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
        named = {kind: name_of(given)}
    else:
        condition = f"be {FORMS[kind]}, or a dict with one of these as {kind!r}"
        raise TypeError(message(kind, condition, item))
    try:
        text = json.dumps(named | settings, default=_describe_object, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise TypeError(message(f"{kind} options", "be JSON-able", settings)) from error
    return dict(json.loads(text))


def _name_problem(problem: BanditProblem) -> dict[str, Any]:
    """Return settings of a problem: an id and options, or a packed name."""
    likelihood = problem.likelihood
    env_id = f"{type(likelihood).__name__}Bandit-v0"
    is_plain = type(problem) is BanditProblem and type(likelihood) in LIKELIHOODS.values()
    if is_plain and env_id in ENV_IDS:
        options = {"num_arms": problem.num_arms, "prior": problem.prior}
        return {"env": env_id} | options | vars(likelihood)
    return {"env": pack_object(problem)}


def _describe_object(value: Any) -> Any:
    """Return what JSON can hold of an object: numbers, a prior's settings, or a packed name."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)  # which sources are looked for among
    with suppress(AttributeError, TypeError, ValueError):
        settings = value.to_dict()
        if prior_from_dict(settings) == value:
            return settings
    return {"name": pack_object(value)}


NAMING_VERSION = 3
"""Which settings enter the name of a run, and how."""

RECORDINGS = ("log", "every")
NUM_LOG_STEPS = 200
MAX_ROWS_PER_BLOCK = 2 * 10**7
"""Of a block, one a replication and recorded step: some 3 GB while it is simulated."""


@dataclass(frozen=True)
class Run:
    """One agent in one environment: the unit that is simulated block by block and stored.

    It has `Experiment`'s settings, except the number of replications. So raising that number keeps
    the stored blocks. Of several horizons, `horizon` is the last.
    """

    environment: Entry
    agent: Entry
    horizon: int
    seed: int
    recording: str
    block_size: int
    propensities: bool = False
    earlier_horizons: tuple[int, ...] = ()

    @cached_property
    def name(self) -> str:
        """Readable settings and their hash, fit for a file name; labels do not enter."""
        names = (self.environment.name, self.agent.name)
        plain = [re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-")[:48] for name in names]
        return "--".join([*plain, self.digest[:12]])

    @cached_property
    def digest(self) -> str:
        """Content hash of the settings, as hexadecimal digits."""
        return content_digest({"format": NAMING_VERSION, **self.settings})

    @property
    def settings(self) -> dict[str, Any]:
        """What names it, as JSON can hold it."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in ("propensities", "earlier_horizons"):
            if not plain[name]:  # so that runs without keep their names
                del plain[name]
        return plain | {"environment": self.environment.settings, "agent": self.agent.settings}

    @cached_property
    def steps(self) -> IntArray:
        """(S,) recorded steps, sorted; the horizon and the earlier ones are always among them."""
        recording = "every" if self.propensities else self.recording
        if recording == "every" or self.horizon <= NUM_LOG_STEPS:
            return np.arange(1, self.horizon + 1)
        spaced = np.geomspace(1, self.horizon, NUM_LOG_STEPS)
        return np.union1d(np.rint(spaced), self.earlier_horizons).astype(np.int64)

    def sources(self) -> dict[str, dict[str, str]]:
        """Return what the results depend on beside the settings: part -> file -> digest."""
        return {"environment": sources_of(self.environment), "agent": sources_of(self.agent)}

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
        keys = (int(entry.digest[:16], 16) for entry in (self.environment, self.agent))
        return SeedSequence(self.seed, spawn_key=(1, block, *keys))


@dataclass(frozen=True)
class Experiment:
    """A comparison of agents in environments, as data.

    Every entry of `environments` is an id, a `BanditProblem` or a dict `{"env": either, option:
    value, ...}`, every entry of `agents` a name, a class, a function or a dict `{"agent": any of
    these, option: value, ...}`; a name is one that `bandit-gym list` shows, or `module:Class`. An
    environment may have `wrappers`, a list of dicts
    `{"name": "DelayedReward", option: value, ...}`; see `bandit_gym.wrappers`. Beside its options
    an entry may have a `label` and a `grid`: a dict of lists, which stands for one entry per
    element of their product, the last key varying fastest.

    Attributes:
        environments: the environments.
        agents: the learners; paired differences are taken to the first.
        replications: episodes of each agent in each environment.
        horizon: T, steps of each episode; of several, increasing, the last, and tables show the
            regret at each.
        seed: integer >= 0 from which every stream is derived.
        recording: which steps are stored, "log" (at most 200, evenly spaced in log t) or "every".
        block_size: replications simulated together, N lanes in lockstep.
        propensities: whether to store the probability of each action, and every step.
    """

    environments: tuple[Entry, ...]
    agents: tuple[Entry, ...]
    replications: int = 100
    horizon: int | tuple[int, ...] = 1000
    seed: int = 0
    recording: str = "log"
    block_size: int = 50
    propensities: bool = False

    def __post_init__(self) -> None:
        environments = read_entries("environments", "env", self.environments)
        agents = read_entries("agents", "agent", self.agents)
        object.__setattr__(self, "environments", environments)
        object.__setattr__(self, "agents", agents)
        for name, minimum in MINIMA.items():
            number = check_integer(name, getattr(self, name), minimum=minimum)
            object.__setattr__(self, name, number)
        *earlier, last = _check_horizons(self.horizon)
        object.__setattr__(self, "horizon", (*earlier, last) if earlier else last)
        check_choice("recording", self.recording, RECORDINGS)
        check_object("propensities", self.propensities, bool)
        _check_rows(self.block_size, last, "every" if self.propensities else self.recording)

    @property
    def horizons(self) -> tuple[int, ...]:
        """The steps at which tables show the regret; the last is the end of each episode."""
        return self.horizon if isinstance(self.horizon, tuple) else (self.horizon,)

    @property
    def num_blocks(self) -> int:
        """Blocks that hold the replications; of the last one, only the first may be needed."""
        return -(-self.replications // self.block_size)

    @property
    def runs(self) -> tuple[Run, ...]:
        """Every agent in every environment, environments outermost."""
        *earlier, last = self.horizons
        settings = (self.seed, self.recording, self.block_size, self.propensities, tuple(earlier))
        return tuple(
            Run(env, agent, last, *settings)
            for env, agent in itertools.product(self.environments, self.agents)
        )

    @property
    def name(self) -> str:
        """Content hash of everything but the number of replications, 12 hexadecimal digits."""
        return content_digest([run.digest for run in self.runs])[:12]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able dict from which `from_dict` makes an equal experiment."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, kind in (("environments", "env"), ("agents", "agent")):
            entries = getattr(self, name)
            plain[name] = [{kind: e.target, "label": e.label, **e.options} for e in entries]
        return plain

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Experiment:
        """Make an experiment from a dict, naming unknown and missing keys."""
        required = ("environments", "agents")
        optional = [each.name for each in fields(cls) if each.name not in required]
        check_keys("experiment", settings, required=required, optional=optional)
        return cls(**settings)


MINIMA = {"replications": 1, "seed": 0, "block_size": 1}


def _check_horizons(value: Any) -> list[int]:
    """Return the horizons of an experiment, from one or a list of them."""
    given = value if isinstance(value, list | tuple) and value else [value]
    horizons = [check_integer("horizon", each, minimum=1) for each in given]
    if any(later <= earlier for earlier, later in itertools.pairwise(horizons)):
        raise ValueError(message("horizon", "be in increasing order, each once", value))
    return horizons


def _check_rows(block_size: int, horizon: int, recording: str) -> None:
    """Refuse blocks that no memory can hold, before there is a folder for them."""
    num_steps = horizon if recording == "every" else min(horizon, NUM_LOG_STEPS)
    if block_size * num_steps > MAX_ROWS_PER_BLOCK:
        condition = f"be such that block_size times recorded steps is at most {MAX_ROWS_PER_BLOCK}"
        settings = {"block_size": block_size, "horizon": horizon, "recording": recording}
        raise ValueError(message("block_size, horizon and recording", condition, settings))


def load_experiment(path: str | Path) -> Experiment:
    """Read an experiment from a TOML file, or from JSON if the name ends so.

    Raises:
        OSError: if there is no such file, or it cannot be read.
        ValueError: if it holds something else.
    """
    path = check_path("path", path)
    try:
        text = path.read_bytes().decode()
        settings = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        condition, reason = "lead to valid TOML or JSON", " ".join(str(error).split()).rstrip(".")
        raise ValueError(message("path", condition, str(path), reason)) from error
    return Experiment.from_dict(settings)
