from itertools import chain, repeat

import numpy as np
import pytest
from numba import njit
from scipy import stats

from agents.numerics import variates as module

draw_gammas = njit(module.draw_gammas)
NUM = 400_000
SHAPES = [0.01, 0.3, 0.99, 1.0, 1.2, 2.0, 5.0, 50.0, 1e4, 1e8]


def gammas(shape, num=NUM, seed=2, draw_gammas=draw_gammas):
    out, shapes = np.empty(num), np.broadcast_to(np.asarray(shape, dtype=float), num).copy()
    draw_gammas(np.random.default_rng(seed), shapes, out)
    return out


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


@pytest.mark.parametrize("shape", [0.7, 3])
def test_gammas_are_the_same_uncompiled(shape):
    again = gammas(shape, 2001, draw_gammas=module.draw_gammas)
    np.testing.assert_array_equal(again, gammas(shape, 2001))


class Told:
    """Gives u and x, and from then on numbers whose draw, d itself, is certain to be kept."""

    def __init__(self, u, x):
        uniforms, normals = chain([u], repeat(0.5)), chain([x], repeat(0.0))
        self.random, self.standard_normal = uniforms.__next__, normals.__next__


@pytest.mark.parametrize("x", [-2.0, -1.0, 1.0, 2.0])
@pytest.mark.parametrize("shape", [1.0, 5.0, 100.0])
def test_gamma_draw_is_kept_exactly_where_the_rejection_would_keep_it(shape, x):
    # With v = (1 + y)^3 that is where u < exp(x^2 / 2 + d (1 - v + log v)).
    d = shape - 1 / 3
    v = (1 + x / np.sqrt(9 * d)) ** 3
    chance = np.exp(x**2 / 2 + d * (1 - v + np.log(v)))
    out = np.empty(1)
    for u, kept in ((chance - 1e-9, d * v), (chance + 1e-9, d)):
        module.draw_gammas(Told(u, x), np.array([shape]), out)
        assert out[0] == pytest.approx(kept, rel=1e-12)


def test_gamma_draws_that_share_a_uniform_number_are_independent():
    # A draw that fails ends the life of the number that judged those before it.
    levels = stats.gamma(1.2).cdf(gammas(1.2))
    for lag in (1, 2, 3):
        correlation = np.corrcoef(abs(levels[lag:] - 0.5), abs(levels[:-lag] - 0.5))[0, 1]
        assert abs(correlation) < 4 / np.sqrt(NUM)
