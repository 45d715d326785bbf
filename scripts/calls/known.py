"""The edges of what agents know: logs, arms that are not there, snapshots, and files."""

from __future__ import annotations

from functools import partial
from typing import Any

import agents
from calls.edges import Edge
from calls.worlds import PROBLEM

SAVED = "agent.zip"
SNAPSHOT: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "quantile": ({}, {"p": "parameter"}),
    "interval": ({}, {"confidence": "real"}),
    "density": ({}, {"x": "parameter"}),
    "sample": ({"size": 2}, {"size": "integer", "seed": "integer"}),
    "predictive": ({"size": 2}, {"size": "integer", "seed": "integer"}),
    "plot": ({}, {"ax": "object", "lane": "integer"}),
}
"""Method of a snapshot -> a good call, and the types of its arguments."""

LIKE_A_SET = {"available": "availability"}


def edges() -> list[Edge]:
    add = partial(Edge, "agents' knowledge")
    both = ("exact", "racing", "smc")
    return [
        *(
            add(f"{name}.{method}", partial(_ask, name, method), LIKE_A_SET)
            for name in both
            for method in ("act", "action_probabilities")
        ),
        *(
            add(f"{name}.observe_log", partial(_tell, name), {"frame": "frame"}, LOG_WORDS)
            for name in ("exact", "smc")
        ),
        *(
            add(f"posterior().{method}", partial(_look, method), types)
            for method, (_, types) in SNAPSHOT.items()
        ),
        add("save", lambda path: _agent("smc").save(path), {"path": "path"}),
        add(
            "load",
            _load,
            {"path": "path", "problem": "object", "agent_class": "object"},
        ),
    ]


LOG_WORDS = {"frame": ("log", *(f"log column {name!r}" for name in ("action", "reward", "lane")))}


def _agent(name: str) -> Any:
    agent = agents.make_agent(name, PROBLEM)
    agent.reset(num_envs=2, seed=0)
    agent.warm_start([1, 2, 3], [1, 1, 1])
    return agent


def save_agent(path: Any) -> None:
    """Write an agent into the file that bad calls of `load` may name."""
    _agent("exact").save(path)


def _ask(name: str, method: str, **bad: Any) -> None:
    getattr(_agent(name), method)(**bad)


def _tell(name: str, frame: Any) -> None:
    agent = _agent(name)
    agent.observe_log(frame)
    agent.act()


def _look(method: str, **bad: Any) -> None:
    getattr(_agent("exact").posterior(), method)(**{**SNAPSHOT[method][0], **bad})


def _load(**bad: Any) -> None:
    agents.load(**{"path": SAVED, **bad}).act()
