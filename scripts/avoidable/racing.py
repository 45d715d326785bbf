"""How much of Racing's advantage over exact Thompson sampling is regret that was avoidable anyway.

Letters: K arms, N replications, S states, T horizon.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from pages.page import Section, markdown_table, written
from scipy.optimize import minimize_scalar

from agents import ExactThompson, RacingThompson
from agents.base import Agent
from agents.bayes_optimal import expected_regret, optimal_bracket, optimal_regret
from agents.optimum.thompson_law import ThompsonLaw
from avoidable.exact import PRIORS, problem
from bandit_gym.envs import BanditVectorEnv
from bandit_gym.problem import BanditProblem
from bandit_gym.results.statistics import mean_interval
from bandit_gym.rollout import rollout
from bandit_gym.typing import FloatArray

SEED = 0
NUM_ARMS = 10
POWERS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
STATES_AT_ONCE = 20
"""Whose races are run together."""

PAPER = {"proposal": "reference", "stopping": "paper", "delta": 0.1, "sigma": 0.1}
"""Racing's setting in the table of README."""


class Sharpened(ExactThompson):
    """Thompson sampling with its probabilities raised to a power, and normalised.

    Arguments:
        problem: likelihood and prior.
        power: 1 is Thompson sampling itself; more explores less.
    """

    def __init__(self, problem: BanditProblem, *, power: float) -> None:
        super().__init__(problem)
        self.power = power

    def _law(self) -> np.ndarray:
        raised = super()._law() ** self.power
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))

    def _choose(self) -> np.ndarray:
        below = self._law().cumsum(axis=1)
        return np.asarray((below < self.rng.random((self.num_lanes, 1))).sum(axis=1)).clip(
            max=self.problem.num_arms - 1
        )


class Row(NamedTuple):
    """Regrets in a world: (N,) each of the same replications, and what they are compared with.

    Attributes:
        world: its name.
        thompson: of exact Thompson sampling.
        racing: of Racing.
        sharpened: of Thompson sampling with its law raised to `power`.
        power: that fits Racing's law.
        least: bounds of the least possible.
    """

    world: str
    thompson: FloatArray
    racing: FloatArray
    sharpened: FloatArray
    power: float
    least: tuple[float, float]


TEXT = """Uniform arms, as in README's table, in whose setting Racing has the paper's proposal \
and stop. All three play the same worlds, {replications:,} of ten arms and {players:,} of two; ± \
is half a 95 % interval, of differences a paired one. The least regret of ten arms is known \
between two bounds (95 % confidence). *Power*: in {histories} states that Thompson sampling came \
by, {races} races each were run; the power is the likeliest one to which Thompson sampling's \
probabilities would have to be raised for that. *Sharpened* plays Thompson sampling's law raised \
to it."""

SHARPER = """Whoever follows Thompson sampling's law with less doubt gains here, in so few pulls. \
Two arms, T = {two}, by recursion:"""


def explain(sizes: Mapping[str, int]) -> Section:
    """Compare Racing's gain with what was avoidable, and with that of a sharper law."""
    small, large = (problem(PRIORS["uniform"], num_arms) for num_arms in (2, NUM_ARMS))
    least = optimal_regret(small, sizes["two"])
    found = optimal_bracket(large, sizes["horizon"], num_samples=sizes["samples"])
    bounds = found.best - found.upper, found.best - found.lower
    rows = [
        _play(small, sizes["two"], sizes["players"], (least, least), sizes),
        _play(large, sizes["horizon"], sizes["replications"], bounds, sizes),
    ]
    body = [
        markdown_table([_cells(row) for row in rows]),
        " ".join(_explained(row) for row in rows),
        SHARPER.format(**sizes),
        markdown_table([_by_power(small, sizes["two"], least)]),
    ]
    return Section("Racing's advantage over exact Thompson sampling", TEXT.format(**sizes), body)


def _play(
    world: BanditProblem,
    horizon: int,
    num_lanes: int,
    least: tuple[float, float],
    sizes: Mapping[str, int],
) -> Row:
    """Play Thompson sampling, Racing, and the sharpened law in the same worlds."""
    power = find_power(world, horizon, sizes["histories"], sizes["races"])
    agents = ExactThompson(world), RacingThompson(world, **PAPER), Sharpened(world, power=power)
    regrets = [_regrets(agent, horizon, num_lanes) for agent in agents]
    return Row(f"{world.num_arms} arms, T = {horizon:,}", *regrets, power, least)


def _regrets(agent: Agent, horizon: int, num_lanes: int) -> FloatArray:
    env = BanditVectorEnv(num_lanes, agent.problem)
    return rollout(agent, env, seed=SEED, horizon=horizon).pseudo_regret.sum(axis=1)


def _cells(row: Row) -> dict[str, str]:
    """Write a row; of a bracket, what follows from either end."""
    gain, played = row.thompson - row.racing, float(row.thompson.mean())
    avoidable = [played - least for least in row.least]
    return {
        "world": row.world,
        "least": _range(row.least, "{:.2f}"),
        "Thompson": _mean(row.thompson),
        "times optimal": _range([played / least for least in row.least[::-1]], "{:.2f}"),
        "Racing": _mean(row.racing),
        "Racing's gain": _mean(gain),
        "of the avoidable": _range([float(gain.mean()) / each for each in avoidable], "{:.0%}"),
        "power": f"{row.power:.2f}",
        "sharpened": _mean(row.sharpened),
        "sharpened's gain": _mean(row.thompson - row.sharpened),
    }


def _explained(row: Row) -> str:
    """Say how much of Racing's gain a sharper law has too."""
    share = (row.thompson - row.sharpened).mean() / (row.thompson - row.racing).mean()
    return f"{row.world}: sharpening alone gains {share:.1f} times what Racing does."


def _mean(values: FloatArray) -> str:
    return written(mean_interval(values), 2)


def _range(ends: tuple[float, float] | list[float], form: str) -> str:
    return " to ".join(dict.fromkeys(form.format(end) for end in ends))


def _by_power(world: BanditProblem, horizon: int, least: float) -> dict[str, str]:
    """Return a row of times optimal by powers, exactly."""
    cells, law = {"power": "times optimal"}, ThompsonLaw(world, horizon)
    for power in POWERS:
        rule = partial(_sharpened_law, law, power)
        cells[f"{power:g}"] = f"{expected_regret(world, rule, horizon)[-1] / least:.2f}"
    return cells


def _sharpened_law(
    law: ThompsonLaw, power: float, counts: np.ndarray, sums: np.ndarray
) -> FloatArray:
    """Return (S, K) probabilities in all states of a block of common counts, in their order."""
    raised = law(tuple(counts[0])).reshape(counts.shape[1], -1).T ** power
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def find_power(world: BanditProblem, horizon: int, num_states: int, num_races: int) -> float:
    """Return the likeliest power of Thompson sampling's law that races draw from."""
    agent = _come_by_states(world, horizon, num_states)
    logs = np.log(np.maximum(agent.action_probabilities(), 1e-300))
    shares = race_shares(world, agent.counts, agent.sums, num_races)

    def loss(power: float) -> float:
        totals = np.logaddexp.reduce(power * logs, axis=1, keepdims=True)
        return -float((shares * (power * logs - totals)).sum())

    return float(minimize_scalar(loss, bounds=(0.2, 20.0), method="bounded").x)


def _come_by_states(world: BanditProblem, horizon: int, num_states: int) -> ExactThompson:
    """Return Thompson sampling after a number of pulls of its own that differs between lanes."""
    agent, rng = ExactThompson(world), np.random.default_rng(SEED)
    agent.reset(num_states, seed=SEED)
    means = world.prior.sample(rng, (num_states, world.num_arms))
    ends = rng.integers(1, horizon, num_states)
    for t in range(int(ends.max())):
        actions = agent.act()
        pays = rng.random(num_states) < means[np.arange(num_states), actions]
        agent.observe(actions, pays.astype(np.float64), mask=t < ends)
    return agent


def race_shares(
    world: BanditProblem, counts: np.ndarray, sums: np.ndarray, num_races: int
) -> FloatArray:
    """Return the (S, K) frequencies with which races choose each arm in (S, K) states."""
    agent, found = RacingThompson(world, **PAPER), np.zeros(counts.shape)
    for begin in range(0, len(counts), STATES_AT_ONCE):
        part = slice(begin, begin + STATES_AT_ONCE)
        lanes = np.repeat(np.arange(len(counts))[part], num_races)
        agent.reset(len(lanes), seed=SEED)
        agent.warm_start(counts[lanes], sums[lanes])
        np.add.at(found, (lanes, agent.act()), 1 / num_races)
    return found
