from functools import cache

import numpy as np
import pytest
from numba import njit
from scipy import stats

from agents.numerics import draw_tables as module
from agents.numerics.draw_tables import make_draw_tables

keep_draw_table, draw_from_table = njit(module.keep_draw_table), njit(module.draw_from_table)

BETAS = [
    (1, 1), (1, 1 + 1e-9), (1.001, 1), (1.5, 1.2), (3, 4), (1, 30), (30, 1), (300, 700),
    (1e6, 3), (1, 1e6), (1e5, 1e5),
]  # fmt: skip
DENSITIES = [((a - 1, b - 1), stats.beta(a, b)) for a, b in BETAS]
NAMES = [f"beta{pair}" for pair in BETAS]

every_density = pytest.mark.parametrize(("coefficients", "law"), DENSITIES, ids=NAMES)


def draw(
    coefficients, num_draws, seed, keep_draw_table=keep_draw_table, draw_from_table=draw_from_table
):
    tables = make_draw_tables(1)
    assert keep_draw_table(tables, 0, *map(float, coefficients))
    out, places = np.empty(num_draws), np.empty(num_draws)
    pending = np.empty(num_draws, dtype=np.int64)
    rng = np.random.default_rng(seed)
    _, numbers, cells, offsets = (field[0] for field in tables)
    draw_from_table(rng, numbers, cells, offsets, out, places, pending)
    return out


@cache
def million(coefficients):
    return draw(coefficients, 1_000_000, seed=1)


@every_density
def test_table_draws_follow_their_law(coefficients, law):
    assert stats.kstest(million(coefficients)[:200_000], law.cdf).pvalue > 1e-4


@every_density
def test_table_draws_have_the_moments_of_their_law(coefficients, law):
    draws = million(coefficients)
    mean, variance, kurtosis = law.stats("mvk")
    root = np.sqrt(len(draws))
    assert draws.mean() == pytest.approx(mean, abs=4 * np.sqrt(variance) / root)
    assert draws.var() == pytest.approx(variance, abs=4 * variance * np.sqrt(kurtosis + 2) / root)


@every_density
@pytest.mark.parametrize("probability", [1e-2, 1e-3, 1e-4])
def test_table_draws_reach_as_far_out_as_their_law(coefficients, law, probability):
    draws = million(coefficients)
    tolerance = 4 * np.sqrt(probability / len(draws))
    assert np.mean(draws < law.ppf(probability)) == pytest.approx(probability, abs=tolerance)
    assert np.mean(draws > law.isf(probability)) == pytest.approx(probability, abs=tolerance)


@every_density
def test_tail_beyond_the_body_has_the_shape_of_the_law(coefficients, law):
    # The body ends at a density of e^-5.5 of the top or more, so this is all from the tails.
    draws = million(coefficients)
    start = law.isf(2e-4)
    beyond = draws[draws > start]
    conditional = 1 - law.sf(beyond) / law.sf(start)
    assert stats.kstest(conditional, "uniform").pvalue > 1e-4


def test_table_draws_stay_inside_the_support():
    assert 0 < million((0.0, 29.0)).min() and million((29.0, 0.0)).max() < 1


def test_table_draws_come_as_near_to_one_as_numbers_do():
    # The distance of Beta(c + 1, 1) to 1 has a mean and a deviation of 1 / c, here 4.5 eps.
    c, num_draws = 1e15, 10_000
    distance = np.mean(1 - draw((c, 0.0), num_draws, seed=1))
    assert abs(distance - 1 / c) <= np.finfo(float).eps + 5 / c / np.sqrt(num_draws)


@every_density
def test_table_is_the_same_when_built_over_another(coefficients, law):
    del law
    fresh, used = make_draw_tables(1), make_draw_tables(1)
    keep_draw_table(used, 0, 2.0, 3.0)
    for tables in (fresh, used):
        assert keep_draw_table(tables, 0, *map(float, coefficients))
    for one, other in zip(fresh, used, strict=True):
        np.testing.assert_array_equal(one, other)


def test_table_is_kept_while_the_density_stays():
    tables = make_draw_tables(3)
    keep_draw_table(tables, 1, 2.0, 3.0)
    tables.cells[1] = 77
    keep_draw_table(tables, 1, 2.0, 3.0)
    assert (tables.cells[1] == 77).all()


@pytest.mark.parametrize("coefficients", [(-0.5, 1.0), (1.0, -0.5)])
def test_density_that_is_not_log_concave_gets_no_table(coefficients):
    assert not keep_draw_table(make_draw_tables(1), 0, *coefficients)


@pytest.mark.parametrize("coefficients", [(2.0, 3.0), (0.0, 29.0)])
def test_table_draws_are_the_same_uncompiled(coefficients):
    again = draw(coefficients, 3000, 4, module.keep_draw_table, module.draw_from_table)
    np.testing.assert_array_equal(again, draw(coefficients, 3000, 4))


def test_table_draws_do_not_depend_on_their_neighbours():
    # Those that need several attempts stay in their place: the order must tell nothing.
    draws = np.stack([draw((2.0, 3.0), 100, seed=seed) for seed in range(2000)])
    first, last = draws[:, :20].ravel(), draws[:, -20:].ravel()
    assert stats.ks_2samp(first, last).pvalue > 1e-3
