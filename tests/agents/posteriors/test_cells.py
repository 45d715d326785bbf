"""How many points tables have."""

import pytest

from agents import make_agent
from agents.posteriors.cells import make_cells
from agents.posteriors.tables import MIN_POINTS, count_points
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta, TruncatedNormal
from bandit_gym.priors.mixtures import spike_and_slab
from bandit_gym.problem import BanditProblem


def test_a_table_has_more_points_where_a_prior_has_narrow_cells():
    _, smooth = make_cells(BanditProblem(Bernoulli(), Beta(2.0, 3.0), 2))
    spiked = spike_and_slab(0.5, 1e-4, Beta(2.0, 3.0), 0.5)
    _, narrow = make_cells(BanditProblem(Bernoulli(), spiked, 2))
    assert count_points(smooth) == MIN_POINTS < count_points(narrow)


def test_lanes_whose_tables_would_not_fit_into_memory_are_refused():
    agent = make_agent("exact", BanditProblem(Bernoulli(), TruncatedNormal(0.4, 0.2), 2))
    agent.reset(2_000_000, seed=0)
    with pytest.raises(ValueError, match="num_envs times num_arms must be so few that tables of"):
        agent.act()
