"""What is measured beyond the paper, as data: worlds, agents and sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MATCHED = {
    "agent": "racing",
    "proposal": "matched",
    "stopping": "self-normalised",
    "label": "Racing, matched",
}
EXACT = {"agent": "exact", "label": "exact Thompson"}
MOVING = {"agent": "smc", "resampling": "systematic", "move": "random-walk", "label": "SMC, moves"}
REFERENCE = {"agent": "exact", "prior": "reference", "label": "Thompson, Beta(1,1)"}
NEVER = {"agent": "smc", "label": "SMC, paper"}

FAITHFUL = (EXACT, MATCHED, MOVING)
"""Agents that are meant to be Thompson sampling; the first is the truth."""

BASELINES = (REFERENCE, NEVER)
"""The paper's; its own Racing is in `reproduce_paper.py`, too dear for as many replications."""

WORLDS = (
    {
        "env": "BernoulliBandit-v0",
        "prior": {"name": "truncated_normal", "mean": 0.5, "std": 0.1},
        "label": "N(0.5, 0.1²) cut to [0, 1]",
    },
    {"env": "DependentPriorBandit-v0", "arm_seed": 0, "label": "dependent, dimension 10"},
)

BLOCK_SIZE = 50
"""Lanes at a time; costs per decision are for as many."""

FULL = {
    "guarantee": {"races": 4000, "problems": 40, "races_per_problem": 500},
    "thrift": {"decisions": 1000, "horizon": 3000},
    "particles": {"runs": 10, "horizon": 10_000},
    "regret": {"replications": 400, "horizon": 10_000},
}
"""Sizes at scale 1."""


@dataclass(frozen=True)
class Scale:
    """How much of the full measurement to do.

    Attributes:
        factor: 1.0 is all of it.
    """

    factor: float

    def size(self, part: str, name: str) -> int:
        """Return a number of races, runs, decisions or replications, at least four."""
        return max(4, round(FULL[part][name] * self.factor))

    def horizon(self, part: str) -> int:
        """Return the number of steps: all from a tenth of the full scale on, fewer below."""
        full = FULL[part]["horizon"]
        return max(30, min(full, round(10 * self.factor * full)))


def agent_options(agent: dict[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of an agent's class."""
    return {key: value for key, value in agent.items() if key not in ("agent", "label")}
