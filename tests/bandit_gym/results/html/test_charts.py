import numpy as np
import pytest

from bandit_gym.results.html import charts
from bandit_gym.results.html.charts import make_charts, make_profile


@pytest.fixture
def made(results):
    """The charts of a world in which one agent loses 0.7 a step for 50 steps, the other nothing."""
    return list(make_charts(results, results.experiment.environments[0], 200))


def test_regret_curves_are_means_with_half_widths(made):
    worst, best, bound = made[0].lines
    assert worst.x == list(range(1, 51))
    assert worst.y == pytest.approx([0.7 * t for t in range(1, 51)])
    assert worst.half == pytest.approx([0.0] * 50, abs=1e-9)
    assert (best.agent, best.name, set(best.y)) == (1, "best", {0.0})
    assert bound.agent == -1 and bound.name.startswith("Lai-Robbins rate")


def test_differences_are_those_to_the_first_agent(made):
    (line,) = made[1].lines
    assert line.name == "best"
    assert line.y[-1] == pytest.approx(-35.0)


def test_pulls_are_told_by_rank(made):
    worst, best = ([lines[i].y[-1] for lines in made[2].choices.values()] for i in range(2))
    assert worst == [0, 0, 1, 0, 0]
    assert best == [1, 0, 0, 0, 0]


def test_agents_that_draw_and_flag_nothing_have_no_charts_of_it(made):
    assert [chart.title for chart in made][3:] == []


def test_profile_counts_replications_below_each_level(results):
    (chart,) = make_profile(results, 50)
    worst, best = chart.lines
    assert set(best.y) == {1.0}
    assert worst.y[0] == 0.0 and worst.y[-1] == 1.0


@pytest.mark.parametrize("count", [1, 2, 200, 201, 1000, 10**6])
@pytest.mark.parametrize("points", [25, 200])
def test_curves_are_thinned_to_their_first_and_last_points_and_some_between(count, points):
    kept = charts._thin(count, points)
    assert len(kept) <= points
    assert kept[0] == 0 and kept[-1] == count - 1
    assert (np.diff(kept) > 0).all()


def test_half_of_a_thinned_curve_is_even_and_half_in_the_logarithm_of_time():
    """Of 100 points of a million, 50 are some 20,408 apart, and 50 a factor of 1.326."""
    kept = charts._thin(10**6, 100)
    assert 85 < len(kept) <= 100  # the first few steps are rounded to the same
    assert np.diff(kept).max() == 20_409
    assert 20 < (kept < 20_000).sum() < 40
    assert (kept > 500_000).sum() >= 25


def test_what_is_not_finite_is_nothing():
    assert charts._round(np.array([1.234567, np.nan, np.inf])) == [1.2346, None, None]
