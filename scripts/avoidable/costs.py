"""Who comes closest to the best possible, at what cost per decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from pages.page import Section, markdown_table

from agents import make_agent
from agents.base import Agent
from agents.bayes_optimal import expected_regret, optimal_regret
from agents.optimum.brackets import played_regrets
from avoidable.exact import PRIORS, problem
from bandit_gym.results.styles import COLOURS

NUM_ARMS = 2
NUM_LANES = 100


class Mark(NamedTuple):
    """A rule: what it is called, its agent, and whether it is in the picture."""

    label: str
    name: str
    options: Mapping[str, Any] = {}
    is_drawn: bool = True


MARKS = (
    Mark("Bayes-optimal", "optimal"),
    Mark("finite-horizon Gittins", "finite_horizon_gittins"),
    Mark("V-IDS", "information_directed"),
    Mark("KG*", "knowledge_gradient", {"variant": "kg*"}),
    Mark("Bayes-UCB", "bayes_ucb"),
    Mark("UCB-Tuned", "ucb_tuned"),
    Mark("Thompson", "exact"),
    Mark("optimistic Gittins", "optimistic_gittins", is_drawn=False),
    Mark("KG", "knowledge_gradient", is_drawn=False),
    Mark("KL-UCB", "kl_ucb", is_drawn=False),
    Mark("MOSS", "moss", is_drawn=False),
    Mark("top-two", "top_two", is_drawn=False),
    Mark("UCB1", "ucb1", is_drawn=False),
    Mark("greedy", "greedy", is_drawn=False),
)
NEEDS_HORIZON = ("optimal", "finite_horizon_gittins", "knowledge_gradient", "moss")

TEXT = """Two uniform arms, T = {horizon}. Regret is exact: every agent was asked for the law of \
its next pull in each state of the table, and the recursion did the rest. Microseconds are of one \
`act` and `observe` of a lane out of {lanes}: processor time, the least of {rounds} games in turn. \
The machine had other work, so that their ratios mean more than they do. The Bayes-optimal agent \
looks up what the recursion, whose cost is not in them, has found; top-two sampling is for finding \
the best arm, whatever the regret."""


def place(sizes: Mapping[str, int]) -> Section:
    """Draw and tabulate rules by regret over the least, and cost."""
    horizon, world = sizes["costly"], problem(PRIORS["uniform"], NUM_ARMS)
    least = optimal_regret(world, horizon)
    agents = {
        mark.label: make_agent(mark.name, world, **mark.options, **_told(mark, horizon))
        for mark in MARKS
    }
    costs = _costs(agents, horizon, sizes["rounds"])
    ratios = {
        label: expected_regret(world, as_rule(agent), horizon)[-1] / least
        for label, agent in agents.items()
    }
    rows = [
        {"rule": label, "times optimal": f"{ratio:.3f}", "µs": f"{costs[label]:.2f}"}
        for label, ratio in sorted(ratios.items(), key=lambda item: item[1])
    ]
    text = TEXT.format(horizon=horizon, lanes=NUM_LANES, rounds=sizes["rounds"])
    return Section(
        "Who comes closest, at what cost", text, [markdown_table(rows)],
        {"optimal": _draw(ratios, costs)},
    )  # fmt: skip


def _told(mark: Mark, horizon: int) -> dict[str, int]:
    return {"horizon": horizon} if mark.name in NEEDS_HORIZON else {}


def as_rule(agent: Agent) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return what an agent does in (S, K) states, as `expected_regret` asks for it."""

    def rule(counts: np.ndarray, sums: np.ndarray) -> np.ndarray:
        agent.reset(len(counts), seed=0)
        agent.warm_start(counts, sums)
        return np.asarray(agent.action_probabilities())

    return rule


def _costs(agents: Mapping[str, Agent], horizon: int, num_rounds: int) -> dict[str, float]:
    """Return microseconds a decision; rounds go over all agents, so that all meet the same load."""
    seconds: dict[str, list[float]] = {label: [] for label in agents}
    for _ in range(1 + num_rounds):
        for label, agent in agents.items():
            begin = process_time()
            played_regrets(agent, horizon, NUM_LANES, seed=0)
            seconds[label].append(process_time() - begin)
    decisions = NUM_LANES * horizon
    return {label: 1e6 * min(taken[1:]) / decisions for label, taken in seconds.items()}


def _draw(ratios: Mapping[str, float], costs: Mapping[str, float]) -> Figure:
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    for label in (mark.label for mark in MARKS if mark.is_drawn):
        place = costs[label], ratios[label]
        axes.plot(*place, "o", color=COLOURS[0], markersize=7)
        axes.annotate(label, place, xytext=(7, 4), textcoords="offset points", fontsize="small")
    axes.axhline(1.0, color="0.7", linewidth=1, zorder=0)
    axes.set(xscale="log", xlabel="microseconds per decision", ylabel="regret, times the least")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.margins(x=0.25, y=0.1)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
