"""The edges of wrappers, and of what late rewards and missing arms ask of agents."""

from __future__ import annotations

from functools import partial
from typing import Any

import agents
from bandit_gym import wrappers
from bandit_gym.envs import BanditEnv, BanditVectorEnv
from calls.edges import Edge
from calls.worlds import PROBLEM

WRAPPERS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "DelayedReward": ({"delay": 2}, {"delay": "delay"}),
    "BatchedFeedback": ({"size": 2}, {"size": "integer"}),
    "AvailableArms": ({}, {"leaving": "real", "returning": "real", "masks": "masks"}),
    "Drift": ({"std": 0.1}, {"std": "real"}),
    "Drift(period)": ({"period": 2}, {"period": "integer"}),
    "Drift(probability)": ({"probability": 0.5}, {"probability": "real"}),
}
"""Name -> a good call, and the types of its arguments."""

WORDS = {
    "masks": tuple(f"masks[{number}]" for number in range(2)),
    "delay": ("delay name", "low", "high", "mean", "maximum"),
    **dict.fromkeys(("std", "period", "probability"), ("std, period and probability",)),
}
LATE = {"regret": 0.0, "feedback_step": [0], "feedback_action": [1], "feedback_reward": [1.0]}
LISTED = {
    "wrappers": (
        *("wrapper", "options of Drift", "std, period and probability", "std", "delay", "masks"),
        "env",
    )
}


def edges() -> list[Edge]:
    add = partial(Edge, "wrappers")
    around = {"": BanditEnv, "vector.": BanditVectorEnv}
    return [
        *(
            add(f"{kind}{name}", partial(_wrap, name, kind), {"env": "object", **types}, WORDS)
            for kind in around
            for name, (_, types) in WRAPPERS.items()
        ),
        add("wrap", _wrap_all, {"wrappers": "wrappers", "env": "object"}, LISTED),
        add("check_wrappers", _check, {"wrappers": "wrappers"}, LISTED),
        add(
            "deliver",
            _deliver,
            {"info": "told", "num_taken": "integer"},
            {"info": (*LATE, "action", "reward"), "num_taken": ("feedback_step",)},
        ),
    ]


def _make(kind: str) -> Any:
    return BanditVectorEnv(2, PROBLEM) if kind else BanditEnv(PROBLEM)


def _wrap(name: str, kind: str, **bad: Any) -> None:
    good = WRAPPERS[name][0]
    _play(getattr(wrappers, name.partition("(")[0])(**{"env": _make(kind), **good, **bad}))


def _wrap_all(**bad: Any) -> None:
    _play(wrappers.wrap(**{"env": _make(""), "wrappers": [{"name": "Drift", "std": 0.1}], **bad}))


def _check(**bad: Any) -> None:
    for make, options in wrappers.check_wrappers(**bad):
        make(_make(""), **options)


def _play(env: Any) -> None:
    _, info = env.reset(seed=0)
    for _ in range(3):
        mask = info.get("action_mask")
        arm = 0 if mask is None else mask.argmax(axis=-1)
        _, _, _, _, info = env.step([arm] * 2 if mask is None and hasattr(env, "num_envs") else arm)


def _deliver(**bad: Any) -> None:
    agent = agents.UniformRandom(PROBLEM)
    agent.reset(seed=0)
    wrappers.deliver(agent, **{"info": LATE, "num_taken": 1, **bad})
