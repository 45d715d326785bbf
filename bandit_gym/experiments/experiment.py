"""Experiments as data: which agents, in which environments, how often, how long, from which seed.

An `Experiment` is a table of runs, one per environment and agent. A `Run` is named by its settings,
so that equal runs share a name and a changed one never meets the files of another. Replications are
simulated in blocks of fixed size, and a block's seeds depend on (run, block) alone; therefore
neither the number of replications nor who simulates a block can change its result.
"""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
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
from bandit_gym.experiments.entries import Entry, content_digest, read_entries, write_entry

FORMAT = 3
"""Version of the names and files written here; another version is never read as this one."""

RECORDINGS = ("log", "every")
NUM_LOG_STEPS = 200
MOST_ROWS = 2 * 10**7
"""Of a block, one a replication and recorded step: some 3 GB while it is simulated."""


@dataclass(frozen=True)
class Run:
    """One agent in one environment: the unit that is simulated block by block and stored.

    It has `Experiment`'s settings, except the number of replications. So raising that number keeps
    the stored blocks.
    """

    environment: Entry
    agent: Entry
    horizon: int
    seed: int
    recording: str
    block_size: int
    propensities: bool = False

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def name(self) -> str:
        """Readable settings and their hash, fit for a file name; labels do not enter."""
        names = [_slug(entry.name) for entry in (self.environment, self.agent)]
        return "--".join([*names, self.digest[:12]])

    @cached_property
    def digest(self) -> str:
        """Content hash of the settings, as hexadecimal digits."""
        entries = {"environment": self.environment.settings, "agent": self.agent.settings}
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        if not self.propensities:  # so that runs without keep their names
            del plain["propensities"]
        return content_digest({"format": FORMAT, **plain, **entries})

    @cached_property
    def steps(self) -> IntArray:
        """(S,) recorded steps, sorted."""
        recording = "every" if self.propensities else self.recording
        return recorded_steps(self.horizon, recording)

    def sources(self) -> dict[str, dict[str, str]]:
        """Return what the results depend on beside the settings: part -> file -> digest."""
        return {"environment": self.environment.sources(), "agent": self.agent.sources()}

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
        environments: the worlds.
        agents: the learners; paired differences are taken to the first.
        replications: episodes of each agent in each environment.
        horizon: T, steps of each episode.
        seed: integer >= 0 from which every stream is derived.
        recording: which steps are stored, "log" (at most 200, evenly spaced in log t) or "every".
        block_size: replications simulated together, N lanes in lockstep.
        propensities: whether to store the probability of each action, and every step.
    """

    environments: tuple[Entry, ...]
    agents: tuple[Entry, ...]
    replications: int = 100
    horizon: int = 1000
    seed: int = 0
    recording: str = "log"
    block_size: int = 50
    propensities: bool = False

    def __post_init__(self) -> None:
        environments = read_entries("environments", "env", self.environments)
        agents = read_entries("agents", "agent", self.agents)
        object.__setattr__(self, "environments", environments)
        object.__setattr__(self, "agents", agents)
        for name, minimum in LEAST.items():
            number = check_integer(name, getattr(self, name), minimum=minimum)
            object.__setattr__(self, name, number)
        check_choice("recording", self.recording, RECORDINGS)
        check_object("propensities", self.propensities, bool)
        _check_rows(self.block_size, self.horizon, "every" if self.propensities else self.recording)

    @property
    def num_blocks(self) -> int:
        """Blocks that hold the replications; of the last one, only the first may be needed."""
        return -(-self.replications // self.block_size)

    @property
    def runs(self) -> tuple[Run, ...]:
        """Every agent in every environment, environments outermost."""
        settings = (self.horizon, self.seed, self.recording, self.block_size, self.propensities)
        return tuple(
            Run(env, agent, *settings)
            for env, agent in itertools.product(self.environments, self.agents)
        )

    @property
    def name(self) -> str:
        """Content hash of everything but the number of replications, 12 hexadecimal digits."""
        return content_digest([run.digest for run in self.runs])[:12]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able dict from which `from_dict` makes an equal experiment."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        plain["environments"] = [write_entry("env", entry) for entry in self.environments]
        plain["agents"] = [write_entry("agent", entry) for entry in self.agents]
        return plain

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Experiment:
        """Make an experiment from a dict, naming unknown and missing keys."""
        required = ("environments", "agents")
        optional = [field.name for field in fields(cls) if field.name not in required]
        check_keys("experiment", settings, required=required, optional=optional)
        return cls(**settings)


LEAST = {"replications": 1, "horizon": 1, "seed": 0, "block_size": 1}


def _check_rows(block_size: int, horizon: int, recording: str) -> None:
    """Refuse blocks that no memory can hold, before there is a folder for them."""
    num_steps = horizon if recording == "every" else min(horizon, NUM_LOG_STEPS)
    if block_size * num_steps > MOST_ROWS:
        condition = f"be such that block_size times recorded steps is at most {MOST_ROWS}"
        settings = {"block_size": block_size, "horizon": horizon, "recording": recording}
        raise ValueError(message("block_size, horizon and recording", condition, settings))


def load_experiment(path: str | Path) -> Experiment:
    """Read an experiment from a TOML file, or from JSON if the name ends so.

    Raises:
        OSError: if there is no such file, or none that can be read.
        ValueError: if it holds something else.
    """
    path = check_path("path", path)
    try:
        text = path.read_bytes().decode()
        settings = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        condition = "lead to a file that can be read"
        raise type(error)(message("path", condition, str(path), error.strerror or "")) from error
    except ValueError as error:
        language = "JSON" if path.suffix == ".json" else "TOML"
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(message("path", f"lead to valid {language}", str(path), reason)) from error
    try:
        return Experiment.from_dict(settings)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{str(error).rstrip('.')}; so it stands in {str(path)!r}.") from error


def recorded_steps(horizon: int, recording: str) -> IntArray:
    """Return the sorted steps t in 1 .. T at which sums are kept; T is always one of them.

    Args:
        horizon: T.
        recording: "every", or "log" for at most `NUM_LOG_STEPS` of them, evenly spaced in log t.
    """
    if recording == "every" or horizon <= NUM_LOG_STEPS:
        return np.arange(1, horizon + 1)
    spaced = np.geomspace(1, horizon, NUM_LOG_STEPS)
    return np.unique(np.rint(spaced).astype(np.int64))


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-")[:48]
