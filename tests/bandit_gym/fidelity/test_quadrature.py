import numpy as np
import pytest
from scipy import stats

from bandit_gym.fidelity import quadrature
from bandit_gym.fidelity.quadrature import best_arm_law, shrinking_edges


def normals(means, stds):
    return lambda x: stats.norm.logpdf(x[:, None], means, stds)


def edges(means, stds):
    return shrinking_edges(np.column_stack([means, stds]), (-np.inf, np.inf))


def test_law_of_two_normal_arms_has_a_closed_form():
    means, stds = np.array([0.3, 0.0]), np.array([1.0, 0.01])
    _, law = best_arm_law(normals(means, stds), edges(means, stds))
    expected = stats.norm.cdf(0.3 / np.hypot(1.0, 0.01))
    np.testing.assert_allclose(law, [expected, 1 - expected], atol=1e-9)


def test_a_spike_of_a_milliardth_is_seen_where_it_is_told():
    means, stds = np.array([0.0, 1e-9]), np.array([1e-9, 1e-9])
    _, law = best_arm_law(normals(means, stds), edges(means, stds))
    np.testing.assert_allclose(law[1], stats.norm.cdf(0.5**0.5), atol=1e-9)


def test_a_hundred_arms_alike_are_best_equally_often():
    means, stds = np.zeros(100), np.ones(100)
    np.testing.assert_allclose(best_arm_law(normals(means, stds), edges(means, stds))[1], 0.01)


def test_integrals_of_densities_multiply():
    means, stds = np.array([0.0, 5.0, -3.0]), np.array([1.0, 0.1, 2.0])
    log_integrals, _ = best_arm_law(lambda x: normals(means, stds)(x) + 2.0, edges(means, stds))
    assert log_integrals == pytest.approx(6.0, abs=1e-8)


def test_panels_that_are_too_coarse_are_an_error_and_no_law(monkeypatch):
    monkeypatch.setattr(quadrature, "MOST_ROUNDS", 1)
    means, stds = np.array([0.0, 0.001]), np.array([0.001, 0.001])
    with pytest.raises(ValueError, match="edges must lead to all mass"):
        best_arm_law(normals(means, stds), np.array([-1.0, 1.0]))


def test_edges_shrink_towards_every_mark():
    found = shrinking_edges(np.array([[0.25, 1e-6], [0.75, 1e-3]]), (0.0, 1.0))
    assert found[0] == 0.0
    assert found[-1] == 1.0
    for centre, scale in ((0.25, 1e-6), (0.75, 1e-3)):
        assert np.abs(found - centre).min() == 0.0
        away = np.abs(found - centre)
        assert away[away > 0].min() <= scale
