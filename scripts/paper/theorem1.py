"""Theorem 1: how often a race returns an arm that is worse than the best by more than sigma."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import joblib
import numpy as np
from pages.command import Task
from pages.page import Section, Verdict, markdown_table, with_ends
from scipy import special

from agents import RacingThompson
from agents.oracle import action_probabilities
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem
from bandit_gym.results.statistics import LEVEL
from paper.deciding import FAILS, HOLDS, UNDECIDED, VERDICTS, Measure

DELTA = 0.01
SCALES = ("supremum", "value", "weight")
SIGMAS = (0.01, 0.03, 0.1)
NUM_ARMS = 4
PROMISE = NUM_ARMS * DELTA
PROBLEM_SEED = 1
MAX_SAMPLES = 50_000


@dataclass(frozen=True)
class Case:
    """A random problem with data.

    Attributes:
        problem: Bernoulli arms with a Beta prior.
        counts: (K,) pulls.
        sums: (K,) successes.
    """

    problem: BanditProblem
    counts: np.ndarray
    sums: np.ndarray

    def log_mean_weight(self) -> float:
        """Return log E_q[w], w = prod x^(alpha-1) (1-x)^(beta-1), q the Beta(1, 1) posterior."""
        prior = self.problem.prior
        assert isinstance(prior, Beta)
        successes, failures = self.sums, self.counts - self.sums
        above = special.betaln(np.array(prior.alpha) + successes, np.array(prior.beta) + failures)
        return float(np.sum(above - special.betaln(1 + successes, 1 + failures)))


def reproduce(task: Task) -> Section:
    """Race on random problems, and compare each winner's expectation with the best."""
    cases = random_cases(task.sizes["problems"])
    level = LEVEL / (len(cases) * len(SCALES) * len(SIGMAS))
    rows, judged = [], {scale: Counter[str]() for scale in SCALES}
    for scale, sigma in product(SCALES, SIGMAS):
        outcomes = _race_all(task, cases, scale, sigma)
        found = [Measure(each[0], high=PROMISE, are_outcomes=True) for each in outcomes]
        verdicts = Counter(each.verdict(level) for each in found)
        judged[scale] += verdicts
        worst = max((each.interval(level) for each in found), key=lambda each: each.estimate)
        rows.append({
            "v scaled by": scale,
            "σ": f"{sigma}",
            **{f"problems: {verdict}": str(verdicts[verdict]) for verdict in VERDICTS},
            "largest error frequency of a problem": with_ends(worst),
            "races in which no arm can err": f"{outcomes[:, 1].mean():.0%}",
            "samples": f"{outcomes[:, 2].mean():.0f}",
        })  # fmt: skip
    return Section(
        title="Theorem 1: the promise of a race",
        text=f"{len(cases)} random Bernoulli problems with K = {NUM_ARMS}, Beta priors with "
        f"parameters uniform on (1, 10) and up to 30 pulls an arm; {task.sizes['races']} races "
        f"each, printed threshold, δ = {DELTA}, so that Kδ = {PROMISE:g}. An error is a winner "
        "with E[v] < max E[v] - σ, in units of v after scaling; expectations are exact. Where E[v] "
        "of all arms lies within σ, no winner is an error, whatever it is. Each problem is judged "
        "by itself, by Clopper and Pearson's interval; all of them together have a level of 5 %.",
        body=[markdown_table(rows)],
        verdicts=[
            _verdict(
                "with v scaled by its true supremum a race errs with probability at most Kδ",
                judged["supremum"],
            ),
            _verdict(
                "the same under the practical scales, which no theorem covers",
                judged["value"] + judged["weight"],
            ),
        ],
    )


def _verdict(claim: str, judged: Counter[str]) -> Verdict:
    """Judge a claim about every problem by how many of them it holds in."""
    is_settled = not judged[UNDECIDED]
    holds = "does not hold" if judged[FAILS] else HOLDS if is_settled else UNDECIDED
    counts = ", ".join(f"{verdict} in {judged[verdict]}" for verdict in VERDICTS)
    return Verdict(claim, holds, f"{counts} of {judged.total()} problems, at all σ")


def random_cases(num_cases: int) -> list[Case]:
    """Return random problems with data, the same ones each time."""
    rng = np.random.default_rng(PROBLEM_SEED)
    cases = []
    for _ in range(num_cases):
        alpha, beta = rng.uniform(1.0, 10.0, size=(2, NUM_ARMS)).tolist()
        problem = BanditProblem(Bernoulli(), Beta(alpha, beta), NUM_ARMS)
        counts = rng.integers(0, 31, size=NUM_ARMS)
        sums = rng.binomial(counts, problem.prior.sample(rng, (NUM_ARMS,))).astype(float)
        cases.append(Case(problem, counts, sums))
    return cases


def _race_all(task: Task, cases: list[Case], scaling: str, sigma: float) -> np.ndarray:
    """Return (P, 3, R): whether each race erred, whether none could, and its samples."""
    parallel = joblib.Parallel(n_jobs=task.workers.num_workers or -1)
    outcomes = parallel(
        joblib.delayed(_race)(case, scaling, sigma, task.sizes["races"], seed)
        for seed, case in enumerate(cases)
    )
    return np.array(outcomes)


def _race(case: Case, scaling: str, sigma: float, num_races: int, seed: int) -> np.ndarray:
    options = {"proposal": "reference", "threshold": "printed", "scale": scaling, "sigma": sigma}
    return race_for_errors(case, options, num_races, seed)


def race_for_errors(
    case: Case,
    options: Mapping[str, Any],
    num_races: int,
    seed: Any,
    make: type[RacingThompson] = RacingThompson,
) -> np.ndarray:
    """Race by the paper's stop, and compare each winner's expectation with the best.

    Args:
        case: a problem with data.
        options: `proposal`, `threshold`, `scale` and `sigma` of the race.
        num_races: R.
        seed: of the races.
        make: class of the agent that races.

    Returns:
        (3, R): whether each race erred, whether none could, and its samples.
    """
    limits = {"stopping": "paper", "delta": DELTA, "max_samples": MAX_SAMPLES}
    agent = make(case.problem, **options | limits)
    agent.reset(num_races, seed=seed)
    agent.warm_start(case.counts, case.sums)
    race = agent.race()
    truth = action_probabilities(case.problem, case.counts, case.sums, tolerance=1e-8)
    log_values = race.gumbels + np.log(truth)
    if options["proposal"] == "reference":  # the matched one is the posterior, whose weights are 1
        log_values += case.log_mean_weight()
    expectations = np.exp(log_values - race.log_scale[:, None])
    enough = expectations.max(axis=1) - options["sigma"]
    winners = expectations[np.arange(num_races), race.totals.argmax(axis=1)]
    is_vacuous = expectations.min(axis=1) >= enough
    return np.array([winners < enough, is_vacuous, race.num_samples], dtype=float)
