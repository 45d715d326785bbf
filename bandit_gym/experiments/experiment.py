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

import gymnasium as gym
import numpy as np
from numpy.random import SeedSequence

from bandit_gym.checks import (
    NAME_PATTERN,
    as_array,
    check_act_options,
    check_choice,
    check_fit,
    check_integer,
    check_keys,
    check_path,
    check_per_arm,
    check_real,
    find_problem,
    message,
)
from bandit_gym.checks.typing import IntArray
from bandit_gym.experiments.entries import (
    PRIOR_OPTION,
    Entry,
    agent_names,
    content_digest,
    make_entry_agent,
    make_environment,
    read_entries,
    summarise_error,
)
from bandit_gym.experiments.provenance import find_module, find_sources, find_texts
from bandit_gym.registration import ENV_IDS
from bandit_gym.rollout import DECIDE, BanditAgent

NAMING_VERSION = 3
"""Which settings enter the name of a run, and how."""

RECORDINGS = ("log", "every")
ACT_OPTIONS = ("values", "costs", "floor")
NUM_LOG_STEPS = 200
SB3_LOADER = "agents.sb3:saved_model"
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
    propensities: bool | str = False
    earlier_horizons: tuple[int, ...] = ()
    values: tuple[float, ...] | None = None
    costs: tuple[float, ...] | None = None
    floor: float = 0.0

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
        for name in ("propensities", "earlier_horizons", *ACT_OPTIONS):
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

    @property
    def act_options(self) -> dict[str, Any]:
        """What `act` is given beside the observation."""
        given = {name: getattr(self, name) for name in ACT_OPTIONS}
        return {name: value for name, value in given.items() if value}

    def sources(self) -> dict[str, dict[str, str]]:
        """Return what the results depend on beside the settings: part -> file -> digest."""
        parts = {"environment": self.environment, "agent": self.agent}
        return {
            name: find_sources(part.target, part.options, part.pickles)
            for name, part in parts.items()
        }

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
        propensities: whether to store the probability of each action, and every step; "decide"
            plays `agent.decide`, whose actions have exactly these probabilities, in place of `act`.
        values: (K,) above 0: what a reward of 1 is worth, by arm; None is 1. With values or costs,
            rewards and regret are those of values * reward - costs, in all tables and figures.
        costs: (K,): what a pull costs; None is 0.
        floor: least probability of an arm, as for the `act` of an agent.
    """

    environments: tuple[Entry, ...]
    agents: tuple[Entry, ...]
    replications: int = 100
    horizon: int | tuple[int, ...] = 1000
    seed: int = 0
    recording: str = "log"
    block_size: int = 50
    propensities: bool | str = False
    values: tuple[float, ...] | None = None
    costs: tuple[float, ...] | None = None
    floor: float = 0.0

    def __post_init__(self) -> None:
        environments = read_entries("environments", "env", self.environments)
        agents = read_entries("agents", "agent", self.agents)
        object.__setattr__(self, "environments", environments)
        object.__setattr__(self, "agents", agents)
        for name, minimum in {"replications": 1, "seed": 0, "block_size": 1}.items():
            number = check_integer(name, getattr(self, name), minimum=minimum)
            object.__setattr__(self, name, number)
        *earlier, last = _check_horizons(self.horizon)
        object.__setattr__(self, "horizon", (*earlier, last) if earlier else last)
        check_choice("recording", self.recording, RECORDINGS)
        if not isinstance(self.propensities, bool) and self.propensities != DECIDE:
            condition = f"be True, False or {DECIDE!r}"
            raise TypeError(message("propensities", condition, self.propensities))
        for name in ("values", "costs"):
            if (given := getattr(self, name)) is not None:
                shape = getattr(as_array(given), "shape", ())
                if len(shape) != 1:
                    raise ValueError(message(name, "be a list of one number for each arm", given))
                [numbers] = check_per_arm(name, given, (1, *shape), is_positive=name == "values")
                object.__setattr__(self, name, tuple(numbers.tolist()))
        floor = check_real("floor", self.floor, minimum=0.0, maximum=1.0)
        object.__setattr__(self, "floor", floor)
        _check_rows(self.block_size, last, "every" if self.propensities else self.recording)

    @property
    def horizons(self) -> tuple[int, ...]:
        """The steps at which tables show the regret; the last is the end of each episode."""
        return self.horizon if isinstance(self.horizon, tuple) else (self.horizon,)

    @property
    def num_blocks(self) -> int:
        """Blocks that hold the replications; of the last one, only the first may be needed."""
        return -(-self.replications // self.block_size)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """Every agent in every environment, environments outermost."""
        *earlier, last = self.horizons
        settings = (self.seed, self.recording, self.block_size, self.propensities, tuple(earlier))
        settings += tuple(getattr(self, name) for name in ACT_OPTIONS)
        return tuple(
            Run(env, agent, last, *settings)
            for env, agent in itertools.product(self.environments, self.agents)
        )

    @property
    def name(self) -> str:
        """Content hash of everything but the number of replications, 12 hexadecimal digits."""
        return content_digest([run.digest for run in self.runs])[:12]

    @property
    def foreign_code(self) -> list[str]:
        """What it runs that does not come with this project; nothing is imported.

        That is an agent or an environment, all that options name as `module:name`, and a saved
        model, which is unpickled. Who types a name, or a file of names, agrees to run it. Who
        resumes a folder types neither, and the folder may come from anybody.
        """
        known = {f"bandit_gym:{env_id}" for env_id in ENV_IDS} | {*agent_names().values()}
        named = []
        for entry in (*self.environments, *self.agents):
            names = [text for text in find_texts(entry.options) if NAME_PATTERN.fullmatch(text)]
            for name in names if entry.target in known else [entry.target, *names]:
                named.append(f"{name} ({find_module(name.rpartition(':')[0])})")
            if entry.target == SB3_LOADER:
                named.append(f"saved model {entry.options.get('path')}")
        return list(dict.fromkeys(named))

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


def _check_horizons(value: Any) -> list[int]:
    """Return the horizons of an experiment, from one or a list of them."""
    is_several = isinstance(value, list | tuple | range | np.ndarray) and np.size(value) > 0
    given = [*value] if is_several and np.ndim(value) else [value]
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
        text = path.read_bytes().decode("utf-8-sig")
        settings = read_json(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except ValueError as error:
        condition, reason = "lead to valid TOML or JSON", " ".join(str(error).split()).rstrip(".")
        raise ValueError(message("path", condition, str(path), reason)) from error
    return Experiment.from_dict(settings)


def read_json(text: str) -> Any:
    """Read settings in JSON; a key that an object has twice is refused, as in TOML."""
    return json.loads(text, object_pairs_hook=_make_settings)


def _make_settings(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} must stand once in an object")
    return dict(pairs)


# -- The agent and the environment of a run -------------------------------------------------------


def make_agent_and_environment(
    run: Run, *, warns: bool = True
) -> tuple[BanditAgent, gym.vector.VectorEnv]:
    """Make the agent and the native vector environment of a run.

    An agent whose constructor takes a `horizon` is given that of the run, if its entry has none.

    Args:
        run: the run.
        warns: whether to warn of an agent that is misspecified without having been asked to be.

    Raises:
        ValueError: if one cannot be made, or they do not fit each other or a block; names both.
    """
    try:
        try:
            env = make_environment(run.environment, run.block_size, run.horizon)
        except gym.error.NameNotFound as error:  # where settings were read it was there
            condition = "be registered by a module that each process imports, as 'my_module:Id-v0'"
            raise ValueError(message("env", condition, run.environment.target)) from error
        problem = find_problem(env)
        if problem is None:
            target = run.environment.target
            raise ValueError(f"env must have a `problem` for agents, got {target!r}.")
        agent = make_entry_agent(run.agent, problem, [*run.earlier_horizons, run.horizon])
        is_decided = run.propensities == DECIDE or run.floor > 0
        asked = DECIDE if is_decided else "action_probabilities"
        if run.propensities and not hasattr(agent, asked):
            condition = f"have the method {asked} where propensities are recorded"
            raise ValueError(message("agent", condition, run.agent.target))
        check_fit(agent, env, warns=warns and PRIOR_OPTION not in run.agent.options)
        check_act_options(agent, problem.num_arms, None, **run.act_options)
        max_lanes = getattr(agent, "max_lanes", run.block_size)
        if run.block_size > max_lanes:
            condition = f"be at most {max_lanes}, for all that this agent keeps of each lane"
            raise ValueError(message("block_size", condition, run.block_size))
    except (Exception, SystemExit) as error:
        who = f"agent {run.agent.label} must be able to play {run.environment.label}"
        raise ValueError(f"{who}, got {summarise_error(error)}") from error
    return agent, env
