"""The agents that claim the posterior, as they are put to the adversarial set."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NUM_PARTICLES = 1000


@dataclass(frozen=True)
class Setting:
    """An agent to judge.

    Attributes:
        label: in tables.
        agent: short name in the catalogue.
        options: keyword arguments of its class.
        num_decisions: to make in each case at scale 1.
        num_draws: of the posterior that a lane keeps for a run of its own, if it does: then each
            lane's law is judged, beside their average.
    """

    label: str
    agent: str
    options: Mapping[str, Any] = field(default_factory=dict)
    num_decisions: int = 10_000
    num_draws: int | None = None


_MOVED = {"resampling": "systematic", "move": "random-walk"}

SETTINGS = (
    Setting("exact", "exact"),
    Setting("racing, matched", "racing", num_decisions=4000),
    Setting("racing, paper", "racing_paper", num_decisions=2000),
    Setting("SMC, paper", "smc", {"num_particles": NUM_PARTICLES}, 200, NUM_PARTICLES),
    Setting("SMC, moved", "smc", {"num_particles": NUM_PARTICLES, **_MOVED}, 100, NUM_PARTICLES),
)
