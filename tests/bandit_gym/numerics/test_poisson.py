import numpy as np
import pytest
from scipy import stats

from bandit_gym.numerics.poisson import poisson_quantile

UNIFORMS = np.concatenate([[1e-12, 1e-6], np.linspace(0.001, 0.999, 199), [1 - 1e-6, 1 - 1e-12]])


@pytest.mark.parametrize("mean", [0.0, 1e-8, 0.3, 5.0, 15.99, 16.0, 40.0, 1e3, 1e5])
def test_quantile_is_the_first_count_whose_distribution_exceeds_the_uniform(mean):
    counts = poisson_quantile(mean, UNIFORMS)
    law = stats.poisson(mean)
    is_low = UNIFORMS < 0.5
    here = np.where(is_low, law.cdf(counts) - UNIFORMS, 1 - UNIFORMS - law.sf(counts))
    before = np.where(is_low, law.cdf(counts - 1) - UNIFORMS, 1 - UNIFORMS - law.sf(counts - 1))
    assert (here > 0).all()
    assert (before[counts > 0] <= 0).all()


def test_small_and_large_means_are_taken_together():
    means, uniforms = np.array([[2.0], [200.0]]), np.array([0.1, 0.5, 0.9])
    expected = stats.poisson(means).ppf(uniforms)
    assert poisson_quantile(means, uniforms).tolist() == expected.tolist()
