"""Measures whether logs of `decide` say without bias what other policies would have earned.

    python scripts/inverse_propensities.py                       docs/posterior.md's table
    python scripts/inverse_propensities.py --agents 4 --logs 5   smaller

Each agent learns a problem of its own by Thompson sampling, with features, and is then frozen. Each
of its logs has new visitors, and evaluates "always arm k" of each arm.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from scipy.special import expit

from agents import RacingThompson
from bandit_gym import off_policy
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.logs import read_log
from bandit_gym.priors import Normal
from bandit_gym.problem import ContextualProblem

NUM_ARMS, NUM_LEARNED, NUM_ROWS = 3, 300, 5000
"""Arms, rows that are learned, and rows of a log."""

NAMES = ["age", "spend"]
"""Numbers of a visitor, standard normal."""

FLOORS = 0.0, 0.01
ESTIMATORS = "ips", "betting"
PLAYED = "most", "second", "least"
"""Names of the arms, by how often the frozen policy plays them."""

MAX_STANDARD_ERRORS, MIN_COVERAGE = 3.0, 0.92
"""What the bias of "ips" and its intervals must keep to where there is a floor."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a floor does not keep to the limits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--agents", type=int, default=20, help="problems, and agents that learn")
    parser.add_argument("--logs", type=int, default=20, help="of each agent and floor")
    options = parser.parse_args(arguments)
    rows = [
        row
        for seed in range(options.agents)
        for row in measure_agent(np.random.default_rng(seed), options.logs)
    ]
    table = summarise(pd.DataFrame(rows))
    print(table.to_string(index=False))
    floored = table[table.floor > 0]
    is_good = floored.bias.abs() < MAX_STANDARD_ERRORS * floored.error
    return int(not (is_good & (floored.ips >= MIN_COVERAGE)).all())


def measure_agent(rng: np.random.Generator, num_logs: int) -> Iterator[dict[str, object]]:
    """Yield a row for each log and arm of one frozen agent."""
    coefficients = rng.normal(size=(NUM_ARMS, 1 + len(NAMES)))
    agent, learned_from = learn(coefficients, rng)
    order = np.argsort(-agent.action_probabilities(learned_from).mean(axis=0))
    values = find_values(coefficients)
    for floor in FLOORS:
        for _ in range(num_logs):
            numbers = rng.normal(size=(NUM_ROWS, len(NAMES)))
            decision = agent.decide(numbers, floor=floor)
            rewards = draw_rewards(coefficients, numbers, decision.actions, rng)
            table = pd.DataFrame(numbers, columns=NAMES).assign(
                arm=decision.actions, reward=rewards, propensity=decision.propensities
            )
            names = {name: name for name in ("arm", "reward", "propensity")}
            log = read_log(table, **names, features=NAMES, arms=range(NUM_ARMS))
            for name, arm in zip(PLAYED, order, strict=True):
                weights = (log.actions == arm) / log.propensities
                held = {
                    estimator: does_hold(arm, log, estimator, values[arm])
                    for estimator in ESTIMATORS
                }
                yield {
                    "floor": floor,
                    "arm": name,
                    "played": (log.actions == arm).mean(),
                    "least": decision.propensities.min(),
                    "weight": weights.mean(),
                    "bias": (weights * log.rewards).mean() - values[arm],
                    **held,
                }


def learn(coefficients: np.ndarray, rng: np.random.Generator) -> tuple[RacingThompson, np.ndarray]:
    """Return an agent after NUM_LEARNED decisions of its own, and the visitors of these."""
    size = coefficients.size
    problem = ContextualProblem(Bernoulli(), Normal(0.0, 1.0), NUM_ARMS, size, layout="disjoint")
    agent = RacingThompson(problem)
    agent.reset(seed=int(rng.integers(2**31)))
    numbers = rng.normal(size=(NUM_LEARNED, len(NAMES)))
    for visitor in numbers:
        action = np.array([agent.act(visitor)])
        reward = draw_rewards(coefficients, visitor[None], action, rng)
        agent.observe(int(action[0]), float(reward[0]), observation=visitor)
    return agent, numbers


def draw_rewards(
    coefficients: np.ndarray, numbers: np.ndarray, actions: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return a reward of each visitor, for (n, p) numbers and (n,) actions."""
    played = coefficients[actions]
    chances = expit(played[:, 0] + (played[:, 1:] * numbers).sum(axis=1))
    return (rng.random(len(chances)) < chances).astype(float)


def find_values(coefficients: np.ndarray) -> np.ndarray:
    """Return each arm's mean reward: logits of visitors are normal, so by Gauss and Hermite."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    spread = np.linalg.norm(coefficients[:, 1:], axis=1)
    chances = expit(coefficients[:, :1] + spread[:, None] * nodes)
    return np.asarray(chances @ weights / weights.sum())


def does_hold(arm: int, log: object, estimator: str, value: float) -> float:
    """Return whether the interval of "always this arm" has its value; NaN without interval."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        policy = np.eye(NUM_ARMS)[arm]
        try:
            answer = off_policy.evaluate(policy, log, estimator, logger="frozen")
        except ValueError:  # the log lacks the arm
            return np.nan
    return np.nan if np.isnan(answer.low) else float(answer.low <= value <= answer.high)


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a line of each floor and arm: means over logs, coverage where there is an interval."""
    groups = rows.groupby(["floor", "arm"], sort=False)
    table = groups[["played", "weight", "bias"]].mean()
    table.insert(1, "least p", groups.least.min())
    table["error"] = groups.bias.sem()
    table["answered"] = groups.ips.count() / groups.size()
    return table.join(groups[[*ESTIMATORS]].mean()).reset_index()


if __name__ == "__main__":
    raise SystemExit(main())
