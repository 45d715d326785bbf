"""The one map between a support and the line, in NumPy and compiled."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents import make_agent
from agents.posteriors.cells import find_mean, find_position, make_cells
from agents.posteriors.tables import MIN_POINTS, count_points
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian
from bandit_gym.priors import Beta, InverseGamma, Normal, TruncatedNormal
from bandit_gym.priors.mixtures import spike_and_slab
from bandit_gym.problem import BanditProblem

PROBLEMS = {
    "unit interval": BanditProblem(Bernoulli(), Beta(2.0, 3.0), 2),
    "cut": BanditProblem(Gaussian(), TruncatedNormal(1.0, 0.5, -0.5, 4.0), 2),
    "half line": BanditProblem(Exponential(), InverseGamma(3.0, 2.0), 2),
    "line": BanditProblem(Gaussian(), Normal(3.0, 2.0), 2),
}


@pytest.mark.parametrize("name", PROBLEMS)
@given(place=st.floats(-9.0, 9.0))
def test_compiled_places_and_means_are_those_of_the_coordinate_and_undo_each_other(name, place):
    lines, cells = make_cells(PROBLEMS[name])
    (mean,) = lines.means(np.array([place]))
    assert find_mean(cells.ends, place) == pytest.approx(mean, rel=1e-12)
    assert find_position(cells.ends, mean) == pytest.approx(place, abs=1e-9)
    assert lines.positions(np.array([mean])) == pytest.approx(place, abs=1e-9)


def test_a_table_has_more_points_where_a_prior_has_narrow_cells():
    _, smooth = make_cells(PROBLEMS["unit interval"])
    spiked = spike_and_slab(0.5, 1e-4, Beta(2.0, 3.0), 0.5)
    _, narrow = make_cells(BanditProblem(Bernoulli(), spiked, 2))
    assert count_points(smooth) == MIN_POINTS < count_points(narrow)


def test_lanes_whose_tables_would_not_fit_into_memory_are_refused():
    agent = make_agent("exact", BanditProblem(Bernoulli(), TruncatedNormal(0.4, 0.2), 2))
    agent.reset(2_000_000, seed=0)
    with pytest.raises(ValueError, match="num_envs times num_arms must be so few that tables of"):
        agent.act()
