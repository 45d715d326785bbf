"""The edges of `import bandit_gym as bg`, of tables and pictures, and of the open benchmark."""

from __future__ import annotations

from functools import partial
from typing import Any

import bandit_gym as bg
from bandit_gym import fidelity, results
from calls.edges import Edge
from calls.harness import ENTRY_WORDS, SERIAL, STORED
from calls.worlds import PROBLEM

COMPARE = {
    "agents": "agent objects",
    "env": "env object",
    "replications": "integer",
    "horizon": "integer",
    "out": "path",
    "seed": "integer",
    "recording": "name",
    "block_size": "integer",
    "propensities": "flag",
    "workers": "object",
    "changed": "name",
    "progress": "flag",
}
SUITE = {
    "agents": "agent objects",
    "suite": "name",
    "only": "name",
    "scale": "real",
    "seed": "integer",
    "workers": "object",
    "on_progress": "function",
}
QUICK = {"only": "Beta(1, 1), 20 pulls", "scale": 0.001, "workers": SERIAL}
WORDS = ENTRY_WORDS | {
    "env": (*ENTRY_WORDS["environments"], "environments"),
    "out": ("folder",),
}
MOST_STEPS, LARGEST = 10**6, 2**62
"""Replications or steps that are waited for, and that can be asked for."""

SUITE_WORDS = ENTRY_WORDS | {"workers": ("num_workers",)}


def edges() -> list[Edge]:
    add = partial(Edge, "sessions")
    lanes = {"num_envs": "integer", "max_episode_steps": "integer"}
    return [
        add("bg.make", _make, {"env": "object", "max_episode_steps": "integer"}),
        add("bg.make_vec", _make_vec, {"env": "object", **lanes}),
        add("bg.compare", _compare, COMPARE, WORDS),
        add("Results.plot", lambda **bad: _stored().plot(**bad), {"env": "name", "kind": "name"}),
        add("results.compare", _compare_results, {"first": "object", "second": "object"}),
        add("load_suite", lambda name: fidelity.load_suite(name), {"name": "name"}, SUITE_NAME),
        add("run_suite", _run_suite, SUITE, SUITE_WORDS),
        add("FidelityResults.write", _write_found, {"folder": "path"}, {"folder": ("out",)}),
    ]


SUITE_NAME = {"name": ("suite",)}


def _make(**bad: Any) -> None:
    env = bg.make(**{"env": PROBLEM, **bad})
    env.reset(seed=0)
    env.step(0)


def _make_vec(**bad: Any) -> None:
    env = bg.make_vec(**{"env": PROBLEM, "num_envs": 2, **bad})
    env.reset(seed=0)


def _compare(**bad: Any) -> None:
    good = {"agents": {"a": "random"}, "replications": 2, "horizon": 3, "workers": SERIAL}
    value = bad.get("replications", bad.get("horizon"))
    if not (type(value) is int and MOST_STEPS < value < LARGEST):
        str(bg.compare(**{**good, "progress": False, **bad}).table())


def _stored() -> results.Results:
    return results.load_results(STORED)


def _compare_results(**bad: Any) -> None:
    found = results.compare(**{"first": _stored(), "second": _stored(), **bad})
    results.describe_comparison(found)


def _run_suite(**bad: Any) -> None:
    found = fidelity.run_suite(**{"agents": ["random"], **QUICK, **bad})
    fidelity.describe_leaderboard(found.leaderboard())


def _write_found(folder: Any) -> None:
    fidelity.run_suite(["random"], **QUICK).write(folder)
