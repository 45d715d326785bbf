"""The edges of agents: how they are made, and what they are told."""

from __future__ import annotations

from functools import partial
from typing import Any

import agents
from agents.bayes_optimal import optimal_regret, optimal_value
from agents.oracle import action_probabilities, action_probabilities_with_error
from bandit_gym.envs import BanditEnv
from bandit_gym.rollout import rollout
from calls.edges import Edge
from calls.worlds import PROBLEM

OPTIONS = {
    "racing": {
        "proposal": "mapping",
        "stopping": "integer",
        "delta": "real",
        "effective_samples": "real",
        "sigma": "real",
        "threshold": "name",
        "scale": "name",
        "max_samples": "integer",
        "unpulled_arms": "name",
    },
    "racing_paper": {
        "delta": "real",
        "sigma": "real",
        "threshold": "name",
        "scale": "name",
        "max_samples": "integer",
        "unpulled_arms": "name",
    },
    "exact": {"prior": "name", "method": "name", "num_sweeps": "integer", "discount": "real"},
    "smc": {
        "num_particles": "integer",
        "resampling": "name",
        "ess_threshold": "real",
        "move": "name",
        "num_moves": "integer",
        "discount": "real",
    },
    "random": {},
    "greedy": {"estimate": "name", "discount": "real"},
    "epsilon_greedy": {"epsilon": "real", "estimate": "name", "discount": "real"},
    "ucb1": {"scale": "real", "discount": "real"},
    "kl_ucb": {"c": "real", "discount": "real"},
    "bayes_ucb": {"prior": "name", "discount": "real"},
    "ucb_tuned": {},
    "moss": {"horizon": "integer", "scale": "real"},
    "top_two": {"beta": "real", "max_draws": "integer", "discount": "real"},
    "knowledge_gradient": {"horizon": "integer", "variant": "name"},
    "information_directed": {"gain": "name"},
    "discounted_gittins": {"discount": "real"},
    "finite_horizon_gittins": {"horizon": "integer"},
    "optimistic_gittins": {"pace": "real"},
    "information_relaxation": {"penalty": "name", "horizon": "integer"},
    "sliding_window": {"window": "integer", "rule": "rule"},
    "optimal": {"horizon": "integer"},
}
CALLS = {
    "reset": {"num_envs": "integer", "seed": "seed"},
    "reset_lanes": {"mask": "mask"},
    "observe": {"action": "lanes", "reward": "lanes", "mask": "mask"},
    "warm_start": {"counts": "statistics", "sums": "statistics"},
}
GOOD = {
    "reset": {"num_envs": 2, "seed": 0},
    "reset_lanes": {"mask": [True, False]},
    "observe": {"action": [0, 1], "reward": [0, 1]},
    "warm_start": {"counts": [1, 1, 1], "sums": [0, 1, 0]},
}
RULE = {"rule": ("scale", "ucb1 options")}
SOLVED = {"problem": "object", "horizon": "integer"}
NEEDED = {"optimal": {"horizon": 5}}
"""Name -> options that have no default."""

ORACLE = {"problem": "object", "counts": "statistics", "sums": "statistics", "tolerance": "real"}


def edges() -> list[Edge]:
    add = partial(Edge, "agents")
    made = (
        add(f"agents.{name}", partial(_make, name), {"problem": "object", **options}, RULE)
        for name, options in OPTIONS.items()
    )
    told = (
        add(f"{name}.{method}", partial(_tell, name, method), types)
        for name in ("racing", "exact")
        for method, types in CALLS.items()
    )
    asked = (action_probabilities, action_probabilities_with_error)
    solved = (optimal_value, optimal_regret)
    return [
        *made,
        *told,
        *(add(f"oracle.{f.__name__}", partial(_ask, f), ORACLE) for f in asked),
        *(add(f.__name__, partial(_solve, f), SOLVED) for f in solved),
        add("make_agent", _make_agent, {"name": "name", "problem": "object"}),
        add(
            "rollout",
            _rollout,
            {"agent": "object", "env": "object", "seed": "integer", "horizon": "integer"},
        ),
    ]


def _make(name: str, **bad: Any) -> None:
    agent = agents.make_agent(name, **{"problem": PROBLEM, **NEEDED.get(name, {}), **bad})
    agent.reset(num_envs=2, seed=0)
    for _ in range(3):
        agent.act()
        agent.observe([0, 1], [1, 0])


def _make_agent(**bad: Any) -> None:
    agents.make_agent(**{"name": "random", "problem": PROBLEM, **bad})


def _tell(name: str, method: str, **bad: Any) -> None:
    agent = agents.make_agent(name, PROBLEM)
    agent.reset(num_envs=2, seed=0)
    getattr(agent, method)(**{**GOOD[method], **bad})
    if agent.num_lanes < 10**6:
        agent.act()


def _ask(function: Any, **bad: Any) -> None:
    function(**{"problem": PROBLEM, "counts": [1, 2, 3], "sums": [1, 1, 1], **bad})


def _solve(function: Any, **bad: Any) -> None:
    function(**{"problem": PROBLEM, "horizon": 5, **bad})


def _rollout(**bad: Any) -> None:
    good = {
        "agent": agents.UniformRandom(PROBLEM),
        "env": BanditEnv(PROBLEM),
        "seed": 0,
        "horizon": 5,
    }
    rollout(**{**good, **bad})
