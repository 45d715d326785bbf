"""Table 1 against quadrature, and Theorem 1 in random problems.

Notation: R races, K arms.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from scipy import integrate, special

from agents.base.evidence import CountsAndSums
from agents.oracle import action_probabilities
from agents.posteriors.conjugate import reference_posterior
from bandit_gym.experiments.entries import read_entries
from bandit_gym.fidelity.trial import make_suite_agent
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Likelihood, Poisson
from bandit_gym.priors import Beta, Gamma, InverseGamma, Normal, Prior
from bandit_gym.problem import BanditProblem
from scripts.studies.claims import ClaimMeasure
from scripts.studies.variants import VariantTask

# -- Table 1 ------------------------------------------------------------------------------------

TABLE_1_ROWS: tuple[tuple[Likelihood, Prior, str], ...] = (
    (Bernoulli(), Beta(1.0, 1.0), "Beta(1+s, 1+n-s)"),
    (Exponential(), InverseGamma(1.0, 1.0), "λ ~ Γ(1+n, 1+s), so μ ~ InverseGamma(1+n, 1+s)"),
    (Gaussian(), Normal(0.0, 1.0), "Normal(s/n, 1/n)"),
    (Poisson(), Gamma(1.0, 1.0), "Γ(1/2+s, n)"),
)
"""Rewards, a prior that makes their problem proper, and the posterior as the paper has it."""

NUM_REWARDS = 12
PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.95)


def compare_table_1() -> list[dict[str, Any]]:
    return [
        {
            "rewards": row[0].name,
            "posterior": row[2],
            "error": quantile_error(*row[:2]),
            "from Jeffreys": distance_from_jeffreys(row[0]),
        }
        for row in TABLE_1_ROWS
    ]


def quantile_error(likelihood: Likelihood, prior: Prior) -> float:
    """Return the largest |F(q_p) - p| of a row, F by quadrature of prior times likelihood."""
    posterior = reference_posterior(BanditProblem(likelihood, prior, 2))
    uniforms = (np.arange(NUM_REWARDS) + 0.5) / NUM_REWARDS
    total = likelihood.sample(np.full(NUM_REWARDS, 0.4), uniforms).sum()
    counts, sums = np.full((1, 2), NUM_REWARDS), np.full((1, 2), total)
    posterior.update(np.random.default_rng(0), CountsAndSums.from_totals(counts, sums))
    quantiles = [float(posterior.quantile(p)[0, 0]) for p in PROBABILITIES]

    def log_density(x: float) -> float:
        value = likelihood.log_likelihood(x, NUM_REWARDS, total)
        return float(value + log_reference(likelihood, np.float64(x)))

    top = log_density(quantiles[2])
    low, high = likelihood.support
    edges = [low, *quantiles, high]
    parts = [
        integrate.quad(lambda x: np.exp(log_density(x) - top), a, b, epsabs=0, epsrel=1e-10)[0]
        for a, b in zip(edges, edges[1:], strict=False)
    ]
    return float(np.abs(np.cumsum(parts)[:-1] / np.sum(parts) - PROBABILITIES).max())


def distance_from_jeffreys(likelihood: Likelihood) -> float:
    """Return how much the log-ratio of a row's prior and Jeffreys' varies over means in 0.1 to 0.9.

    The Fisher information of a mean is one over the variance of a reward, in all four families.
    """
    means = np.linspace(0.1, 0.9, 81)
    log_jeffreys = -np.log(likelihood.reward_std(means) * np.ones_like(means))
    return float(np.ptp(log_reference(likelihood, means) - log_jeffreys))


def log_reference(likelihood: Likelihood, means: Any) -> Any:
    """Return the log-density of Table 1's reference prior over each mean, up to a constant."""
    if isinstance(likelihood, Exponential):
        return -1 / means - 2 * np.log(means)  # of the mean; the table has its reciprocal
    if isinstance(likelihood, Bernoulli | Gaussian):
        return np.zeros_like(means)
    return -0.5 * np.log(means)


# -- Theorem 1 ----------------------------------------------------------------------------------

DELTA, SIGMA, NUM_ARMS = 0.01, 0.1, 4
MAX_ERROR_PROBABILITY = NUM_ARMS * DELTA
MAX_SAMPLES = 50_000


RandomCase = tuple[BanditProblem, np.ndarray, np.ndarray]
"""A random problem, Bernoulli arms with a Beta prior, and (K,) counts and sums."""


def random_case(number: int) -> RandomCase:
    """Return one of the random problems with data, always the same."""
    rng = np.random.default_rng([1, number])
    alpha, beta = rng.uniform(1.0, 10.0, size=(2, NUM_ARMS)).tolist()
    problem = BanditProblem(Bernoulli(), Beta(alpha, beta), NUM_ARMS)
    counts = rng.integers(0, 31, size=NUM_ARMS)
    sums = rng.binomial(counts, problem.prior.sample(rng, (NUM_ARMS,))).astype(float)
    return problem, counts, sums


def log_mean_weight(prior: Any, counts: np.ndarray, sums: np.ndarray) -> float:
    """Return log E_q[w], w = prod x^(alpha-1) (1-x)^(beta-1), q the Beta(1, 1) posterior."""
    failures = counts - sums
    above = special.betaln(np.array(prior.alpha) + sums, np.array(prior.beta) + failures)
    return float(np.sum(above - special.betaln(1 + sums, 1 + failures)))


def judge_theorem_1(own: VariantTask) -> dict[str, Any]:
    """Judge the promise in each of some random problems, by itself."""

    @cache
    def run_races(number: int, count: int) -> np.ndarray:
        """Return what the races of a look add to those of the looks before."""
        before = own.size("races", own.looks[count - 1]) if count else 0
        num_races = own.size("races", own.looks[count]) - before
        seed = SeedSequence(own.settings["seed"], spawn_key=(count,))
        return race(random_case(number), own, num_races, seed)

    def measure(look: float, number: int) -> ClaimMeasure:
        counts = range(own.looks.index(look) + 1)
        outcomes = np.concatenate([run_races(number, count)[0] for count in counts])
        return ClaimMeasure(outcomes, high=MAX_ERROR_PROBABILITY, are_outcomes=True)

    numbers = range(own.task.size("problems"))
    cells = {f"problem {n + 1}": own.decide(partial(measure, number=n)) for n in numbers}
    samples = [float(run_races(number, 0)[1].mean()) for number in numbers]
    return {"claims": cells, "samples": float(np.mean(samples))}


def race(case: RandomCase, own: VariantTask, num_races: int, seed: SeedSequence) -> np.ndarray:
    """Race by the paper's stop, and compare each winner's expectation with the best.

    Returns:
        (2, R): whether each race returned an arm with E[v] < max E[v] - sigma, in units of v after
        scaling, and its samples.
    """
    options = own.make_entry(DELTA, SIGMA) | {"max_samples": MAX_SAMPLES}
    (entry,) = read_entries("agents", "agent", [options])
    problem, counts, sums = case
    agent = make_suite_agent(entry, problem, horizon=1)
    agent.reset(num_races, seed=seed)
    agent.warm_start(counts, sums)
    found = agent.race()
    truth = action_probabilities(problem, counts, sums, tolerance=1e-8)
    log_values = found.gumbels + np.log(truth)
    if "proposal" not in options:  # a matched one is the posterior, whose weights are 1
        log_values += log_mean_weight(problem.prior, counts, sums)
    expectations = np.exp(log_values - found.log_scale[:, None])
    winners = expectations[np.arange(num_races), found.pick_arms()]
    return np.array([winners < expectations.max(axis=1) - SIGMA, found.num_samples], dtype=float)
