"""Where the recursion ends: the optimal value between a relaxation's and a policy's.

Of ten uniform arms and 1,000 pulls, optimal regret lies between 8.6 and 16.3 with 95 % confidence:
5,000 samples, 31 seconds of one core. That is 27 % of Thompson sampling's regret, 28.0; v_zero and
Bayes-UCB leave 71 %.

Letters: K arms, N lanes, T horizon.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.random import default_rng

from agents.base import Agent
from agents.optimum.horizon_ucb import HorizonBayesUCB
from agents.optimum.predictive import check_solvable, expected_best_mean
from agents.optimum.relaxations import RELAXATIONS, draw_scenario
from bandit_gym.checks import check_choice, check_integer, check_real, message
from bandit_gym.problem import BanditProblem
from bandit_gym.typing import FloatArray

MOST_EMAX_STATES = 40_000
"""T ** K, the numbers of pulls of each arm that v_emax looks at in a scenario."""

NUM_PILOTS = 100
"""Scenarios that say how what is earned depends on the best mean."""


@dataclass(frozen=True)
class Bracket:
    """The Bayes-optimal value of T pulls, from below and above.

    Attributes:
        lower: bound on the value that holds with the confidence asked for.
        upper: likewise from above.
        best: T E max_i mu_i, so that optimal regret lies in [best - upper, best - lower].
        rule: the agent whose value `lower` bounds.
        penalty: the relaxation that `upper` comes from.
        regret: mean regret of the rule, and its standard error.
        relaxed_regret: what the relaxation loses on average, and its standard error.
    """

    lower: float
    upper: float
    best: float
    rule: str
    penalty: str
    regret: tuple[float, float]
    relaxed_regret: tuple[float, float]


def optimal_bracket(
    problem: BanditProblem,
    horizon: int,
    *,
    penalty: str = "v_levels",
    agent: Agent | None = None,
    num_samples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Bracket:
    """Return bounds on the Bayes-optimal value: of an information relaxation, and of a policy.

    Both are averages over simulated futures, compared with T E max_i mu_i, which is known.

    Args:
        problem: Bernoulli rewards, arms independent a priori: a prior with `arm_log_density`.
        horizon: T >= 1.
        penalty: a name of `agents.optimum.relaxations`: "ts", "fh", "v_zero", "v_emax" (K = 2 or 3
            and few pulls) or "v_levels".
        agent: whose value is the lower bound; `HorizonBayesUCB` if None.
        num_samples: scenarios of the relaxation, and episodes of the agent.
        confidence: of both bounds together, by the normal approximation.
        seed: of all randomness.

    Raises:
        TypeError: if an argument is of the wrong kind.
        ValueError: if the problem is another one, or the penalty unknown or out of reach.
    """
    check_solvable(problem, horizon)
    check_integer("num_samples", num_samples, minimum=2)
    check_integer("seed", seed, minimum=0)
    check_real("confidence", confidence, above=0.0, below=1.0)
    _check_penalty(penalty, problem, horizon)
    agent = HorizonBayesUCB(problem, horizon=horizon) if agent is None else agent
    if agent.problem != problem:
        raise ValueError(message("agent", f"be one for {problem}", agent.problem))
    best = horizon * expected_best_mean(problem)
    relaxed = _mean_and_error(relaxed_regrets(problem, horizon, penalty, num_samples, seed))
    played = _mean_and_error(played_regrets(agent, horizon, num_samples, seed))
    errors = NormalDist().inv_cdf((1 + confidence) / 2)  # each bound fails half as often as both
    upper = min(best - relaxed[0] + errors * relaxed[1], best)
    lower = best - played[0] - errors * played[1]
    return Bracket(lower, upper, best, type(agent).__name__, penalty, played, relaxed)


def relaxed_regrets(
    problem: BanditProblem, horizon: int, penalty: str, num_samples: int, seed: int
) -> FloatArray:
    """Return (S,) independent unbiased estimates of T E max_i mu_i less what the relaxation earns.

    Scenarios of good arms are rich ones. What is earned there is compared with T max_i mu_i, whose
    expectation is known, as far as scenarios of their own say that the two go together.
    """
    rng = default_rng([seed, 0])
    relax = RELAXATIONS[penalty](problem, horizon, rng)

    def draw(number: int) -> FloatArray:
        scenarios = (draw_scenario(problem, horizon, rng) for _ in range(number))
        return np.array([(horizon * each.means.max(), relax(each)) for each in scenarios]).T

    covariance = np.cov(draw(NUM_PILOTS))
    slope = covariance[0, 1] / covariance[0, 0]
    most, earned = draw(num_samples)
    best = horizon * expected_best_mean(problem)
    return np.asarray(best - earned + slope * (most - best))


def played_regrets(agent: Agent, horizon: int, num_lanes: int, seed: int) -> FloatArray:
    """Return (N,) pseudo-regrets of an agent's episodes under its problem's prior."""
    rng, problem = default_rng([seed, 1]), agent.problem
    means = problem.prior.sample(rng, (num_lanes, problem.num_arms))
    agent.reset(num_lanes, seed=seed)
    earned = np.zeros(num_lanes)
    for _ in range(horizon):
        actions = agent.act()
        chosen = means[np.arange(num_lanes), actions]
        earned += chosen
        agent.observe(actions, (rng.random(num_lanes) < chosen).astype(np.float64))
    return np.asarray(horizon * means.max(axis=1) - earned)


def _mean_and_error(values: FloatArray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def _check_penalty(penalty: str, problem: BanditProblem, horizon: int) -> None:
    check_choice("penalty", penalty, RELAXATIONS)
    if penalty == "v_emax":
        if problem.num_arms > 3:
            raise ValueError(message("penalty", "not be v_emax with more than 3 arms", penalty))
        if horizon**problem.num_arms > MOST_EMAX_STATES:
            condition = f"have T ** K of at most {MOST_EMAX_STATES} for v_emax"
            raise ValueError(message("horizon", condition, horizon))
