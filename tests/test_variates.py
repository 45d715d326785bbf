import numpy as np
import pytest
from numba import njit
from scipy import stats

from agents.numerics import variates as module
from agents.numerics.variates import TAIL

draw_normals, draw_gammas = njit(module.draw_normals), njit(module.draw_gammas)
NUM = 400_000
SHAPES = [0.01, 0.3, 0.99, 1.0, 1.2, 2.0, 5.0, 50.0, 1e4, 1e8]


def normals(num=NUM, seed=1, draw_normals=draw_normals):
    out, spare, pending = np.empty(num), np.empty(num), np.empty(num, dtype=np.int64)
    draw_normals(np.random.default_rng(seed), out, spare, pending)
    return out


def gammas(shape, num=NUM, seed=2, draw_gammas=draw_gammas):
    out, spare, pending = np.empty(num), np.empty((3, num)), np.empty(num, dtype=np.int64)
    shapes = np.broadcast_to(np.asarray(shape, dtype=float), num).copy()
    draw_gammas(np.random.default_rng(seed), shapes, out, spare, pending)
    return out


def test_normal_draws_follow_their_law():
    draws = normals()
    assert stats.kstest(draws, "norm").pvalue > 1e-4
    assert draws.var() == pytest.approx(1.0, abs=4 * np.sqrt(2 / NUM))


def test_normal_tail_is_that_of_the_law():
    draws = abs(normals(4_000_000))
    share = 2 * stats.norm.sf(TAIL)
    beyond = draws[draws > TAIL]
    assert len(beyond) == pytest.approx(4e6 * share, abs=4 * np.sqrt(4e6 * share))
    assert stats.kstest(stats.norm.sf(beyond) / stats.norm.sf(TAIL), "uniform").pvalue > 1e-4


@pytest.mark.parametrize("shape", SHAPES)
def test_gamma_draws_follow_their_law(shape):
    draws = gammas(shape)
    assert stats.kstest(draws, stats.gamma(shape).cdf).pvalue > 1e-4
    assert draws.mean() == pytest.approx(shape, abs=4 * np.sqrt(shape / NUM))


def test_gamma_draws_each_follow_their_own_shape():
    shapes = np.tile([0.5, 1.0, 7.0, 300.0], NUM // 4)
    levels = stats.gamma(shapes).cdf(gammas(shapes))
    for k in range(4):
        assert stats.kstest(levels[k::4], "uniform").pvalue > 1e-4


def test_normals_are_the_same_uncompiled():
    np.testing.assert_array_equal(normals(2001, draw_normals=module.draw_normals), normals(2001))


@pytest.mark.parametrize("shape", [0.7, 3])
def test_gammas_are_the_same_uncompiled(shape):
    again = gammas(shape, 2001, draw_gammas=module.draw_gammas)
    np.testing.assert_array_equal(again, gammas(shape, 2001))
