import numpy as np
import pytest

from agents.posteriors.choosing import exact_posterior
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian
from bandit_gym.priors import (
    Beta,
    InverseGamma,
    Normal,
    TruncatedMultivariateNormal,
    TruncatedNormal,
)
from bandit_gym.problem import BanditProblem

COUNTS, SUMS = (
    np.array([[8, 5, 3, 0], [400, 90, 3, 0]]),
    np.array([[4.0, 2, 2, 0], [240, 60, 1, 0]]),
)
PROBLEMS = {
    "Bernoulli, uniform": BanditProblem(Bernoulli(), Beta(1.0, 1.0), 4),
    "Bernoulli, cut normal": BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.2), 4),
    "exponential": BanditProblem(Exponential(), InverseGamma(6.0, 2.0), 4),
    "Gaussian": BanditProblem(Gaussian(), Normal([0.0, 1.0, 0.0, 0.5], 1.0), 4),
    "Gaussian, dependent": BanditProblem(
        Gaussian(), TruncatedMultivariateNormal(0.5, 0.2 * np.ones((4, 4)) + np.eye(4)), 4
    ),
}
NUM_DRAWS = 40_000


def followed(problem, counts, sums):
    method = "grid" if problem.offers("arm_log_density") else "gibbs"
    posterior, rng = exact_posterior(problem, method=method)[1], np.random.default_rng(0)
    posterior.restart(rng, np.ones(len(counts), dtype=bool))
    posterior.follow(rng, counts, sums)
    return posterior, rng


@pytest.mark.parametrize("name", [name for name in PROBLEMS if "dependent" not in name])
@pytest.mark.parametrize("lane", [0, 1])
def test_moments_are_those_of_draws(name, lane):
    counts, sums = COUNTS[[lane]], SUMS[[lane]]
    posterior, rng = followed(PROBLEMS[name], counts, sums)
    best, means = posterior.best_arm_moments()
    posterior.follow(rng, np.repeat(counts, NUM_DRAWS, axis=0), np.repeat(sums, NUM_DRAWS, axis=0))
    draws = posterior.sample(rng)
    winners = draws.argmax(axis=1)
    for arm in range(4):
        share = (winners == arm).mean()
        assert abs(best[0, arm] - share) <= 4 * np.sqrt(share / NUM_DRAWS) + 1e-3
        if share > 0.01:
            won = draws[winners == arm]
            error = won.std(axis=0) / np.sqrt(len(won))
            # 4 standard errors, and what tables may be wrong by
            assert (np.abs(means[0, arm] - won.mean(axis=0)) <= 4 * error + 2e-3).all()


def test_moments_of_arms_alike_are_alike():
    posterior, _ = followed(PROBLEMS["Bernoulli, uniform"], np.zeros((1, 4)), np.zeros((1, 4)))
    best, means = posterior.best_arm_moments()
    assert best == pytest.approx(np.full((1, 4), 0.25))
    # the best of four uniform numbers is 4 / 5 on average, the others half of that
    expected = np.where(np.eye(4, dtype=bool), 0.8, 0.4)
    assert np.abs(means[0] - expected).max() < 2e-3


def test_moments_of_a_dependent_posterior_are_averages_over_its_chain():
    posterior, _ = followed(PROBLEMS["Gaussian, dependent"], COUNTS, SUMS)
    best, means = posterior.best_arm_moments()
    # both are averages over the same sweeps, of which at least 50 are as good as independent: these
    # of what happened, the others of conditional laws, by total expectation
    error = np.sqrt(best * (1 - best) / 50)
    assert (np.abs(best - posterior.best_arm_probabilities()) <= 4 * error + 0.01).all()
    total = np.einsum("na,nai->ni", best, means)
    error = posterior.std() / np.sqrt(best.shape[0] * 50)
    assert (np.abs(total - posterior.mean()) <= 4 * error).all()


def test_a_posterior_that_cannot_tell_says_so():
    posterior = exact_posterior(PROBLEMS["Bernoulli, uniform"], method="conjugate")[1]
    with pytest.raises(NotImplementedError, match="must be asked of a grid or Gibbs posterior"):
        posterior.best_arm_moments()
