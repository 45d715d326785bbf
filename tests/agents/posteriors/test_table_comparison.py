import numpy as np
import pytest

from agents.posteriors.grid import GridPosterior
from agents.posteriors.table_comparison import compare_tables
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import TruncatedNormal
from bandit_gym.problem import BanditProblem


@pytest.mark.parametrize("num_arms", [2, 10])
def test_probabilities_of_tables_are_those_of_their_own_laws(num_arms):
    rng = np.random.default_rng(num_arms)
    posterior = GridPosterior(BanditProblem(Bernoulli(), TruncatedNormal(0.4, 0.2), num_arms))
    counts = rng.integers(0, 50, (1, num_arms))
    posterior.follow(rng, counts, rng.binomial(counts, 0.4).astype(float))
    # P(i is best) is the expectation, over levels p, of what the others have below its quantile;
    # the midpoint rule over 20,000 levels is off by far less than 1e-6
    levels = (np.arange(20_000) + 0.5) / 20_000
    quantiles = np.array([posterior.quantile(p)[0] for p in levels])
    expected = np.ones(num_arms)
    for arm in range(num_arms):
        below = [
            np.interp(quantiles[:, arm], quantiles[:, other], levels, 0.0, 1.0)
            for other in range(num_arms)
            if other != arm
        ]
        expected[arm] = np.prod(below, axis=0).mean()
    np.testing.assert_allclose(posterior.best_arm_probabilities()[0], expected, atol=1e-6)


def test_tables_without_a_number_are_reported():
    points = np.full((1, 2, 4, 3), np.nan)
    assert compare_tables(points, np.empty((1, 2))) == np.inf
