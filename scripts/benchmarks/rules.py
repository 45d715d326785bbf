"""What a decision costs by each rule: `act` and `observe` of one lane, K = 10, N = 100.

Rewards are Bernoulli and the prior is uniform; every round starts from nothing, so that tables are
kept from the round that warms up.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from agents import make_agent
from benchmarks.games import conjugate_problem, play_from_start
from benchmarks.session import HORIZON, Measurement, Session
from benchmarks.timing import Contestant

NUM_RULE_LANES = 100
NUM_RULE_STEPS = 200

RULES: dict[str, tuple[str, dict[str, Any]]] = {
    "ucb-tuned": ("ucb_tuned", {}),
    "bayes-ucb": ("bayes_ucb", {}),
    "kl-ucb": ("kl_ucb", {}),
    "moss": ("moss", {"horizon": HORIZON}),
    "top-two": ("top_two", {}),
    "kg": ("knowledge_gradient", {"horizon": HORIZON}),
    "kg-star": ("knowledge_gradient", {"horizon": HORIZON, "variant": "kg*"}),
    "v-ids": ("information_directed", {}),
    "discounted-gittins": ("discounted_gittins", {"discount": 0.9}),
    "finite-horizon-gittins": ("finite_horizon_gittins", {"horizon": HORIZON}),
    "optimistic-gittins": ("optimistic_gittins", {}),
    "irs-fh": ("information_relaxation", {"horizon": HORIZON}),
}


def measurements(session: Session) -> Iterator[Measurement]:
    """Yield the measurements of a row for each rule."""
    num_steps = session.effort.length(NUM_RULE_STEPS, minimum=3)
    num_lanes = session.effort.width(NUM_RULE_LANES)
    for key, (name, options) in RULES.items():
        title = f"{key}, {num_lanes} lanes x {num_steps} steps"
        make = partial(_make_contestant, name, options, num_steps, num_lanes)
        yield session.time(f"rules.{key}", title, make)


def _make_contestant(
    name: str, options: dict[str, Any], num_steps: int, num_lanes: int
) -> Contestant:
    agent = make_agent(name, conjugate_problem(1.0), **options)
    return play_from_start({name: agent}, num_steps, num_lanes)[name]
