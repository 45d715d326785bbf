"""What chains tell by their conditional laws, on targets whose laws are known."""

import numpy as np
import pytest
from scipy import stats

from agents.posteriors.chains import GibbsTarget
from agents.posteriors.conditionals import _best_rivals, _grids, average_conditionals

MEAN, STD = np.array([0.4, 0.5, 0.7]), np.array([0.1, 0.2, 0.1])


def _independent(low=-10.0, high=10.0):
    """Return three arms without data, each with a normal law of its own."""
    return GibbsTarget(
        coefficients=np.zeros((1, 3, 5)),
        widths=2 * STD[None],
        mean=MEAN,
        precision=np.diag(STD**-2.0),
        box=np.tile([low, high], (3, 1)),
    )


def test_rivals_are_the_largest_of_the_others():
    assert _best_rivals(np.array([[0.1, 0.9, 0.4]])).tolist() == [[0.9, 0.4, 0.9]]
    assert _best_rivals(np.array([[0.9, 0.9, 0.4]])).tolist() == [[0.9, 0.9, 0.9]]


def test_grids_reach_six_deviations_beyond_all_means_but_stay_inside_the_box():
    means = np.array([[MEAN - 0.01], [MEAN + 0.02]])
    wide = _grids(means, _independent())
    assert wide[0, :, 0] == pytest.approx(MEAN - 0.01 - 6 * STD)
    assert wide[0, :, -1] == pytest.approx(MEAN + 0.02 + 6 * STD)
    assert wide.shape[-1] == 96  # 6 points a deviation at least, where 12 deviations are few
    cut = _grids(means, _independent(0.0, 0.8))
    assert (cut[0, :, 0] > 0.0).all() and cut[0, 1:, -1] == pytest.approx(0.8)
    assert (cut < 0.8).all()


def test_conditionals_of_independent_arms_are_their_own_laws(rng):
    means = rng.normal(MEAN, STD, size=(2000, 1, 3))
    answer = average_conditionals(_independent(), means)
    laws = stats.norm(MEAN[:, None], STD[:, None])
    np.testing.assert_allclose(answer.density[0], laws.pdf(answer.grid[0]), rtol=1e-3, atol=1e-6)
    draws = rng.normal(MEAN, STD, size=(10**6, 3)).argmax(axis=1)
    shares = np.bincount(draws, minlength=3) / 10**6
    # each of 2000 rivals gives a chance between 0 and 1, so errors are below 0.5 / sqrt(2000)
    assert answer.best[0] == pytest.approx(shares, abs=3 * 0.5 / np.sqrt(2000))
    assert answer.best.sum() == pytest.approx(1.0)
