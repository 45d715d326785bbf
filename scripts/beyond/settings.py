"""What is measured beyond the paper, as data: worlds, agents and sizes."""

from __future__ import annotations

from paper.settings import REFERENCE_TS, TRUTH, truncated_normal_world

MATCHED = {
    "agent": "racing",
    "proposal": "matched",
    "stopping": "self-normalised",
    "label": "Racing, matched",
}
MOVING = {"agent": "smc", "resampling": "systematic", "move": "random-walk", "label": "SMC, moves"}
NEVER = {"agent": "smc", "label": "SMC, paper"}

FAITHFUL = (TRUTH, MATCHED, MOVING)
"""Agents that are meant to be Thompson sampling; the first is the truth."""

BASELINES = (REFERENCE_TS, NEVER)
"""The paper's; its own Racing is in `reproduce_paper.py`, too dear for as many replications."""

WORLDS = (
    truncated_normal_world("N(0.5, 0.1²) cut to [0, 1]", 0.5, 0.1),
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
