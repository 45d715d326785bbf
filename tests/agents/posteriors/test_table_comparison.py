import numpy as np
import pytest
from scipy.integrate import cumulative_trapezoid

from agents.posteriors.grid import GridPosterior, density_of_table
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
    # by trapezoids of 1e-4, of densities that bend by less than 10 in a unit: below 1e-7 each
    u = np.arange(-8.0, 8.0, 1e-4)
    density = np.array([density_of_table(table, u) for table in posterior.tables.points[0]])
    below = cumulative_trapezoid(density, u, axis=1, initial=0.0)
    others = [np.delete(below, arm, axis=0).prod(axis=0) for arm in range(num_arms)]
    expected = np.trapezoid(density * others, u, axis=1)
    np.testing.assert_allclose(posterior.best_arm_probabilities()[0], expected, atol=1e-6)


def test_tables_without_a_number_are_reported():
    points = np.full((1, 2, 4, 3), np.nan)
    points[..., 1] = np.arange(4.0)
    assert compare_tables(points, np.empty((1, 2))) == np.inf
