import numpy as np
import pytest
from geometric import Geometric

from agents import RacingThompson
from agents.oracle import action_probabilities
from agents.racing.marginal import MarginalProposal
from agents.racing.matching import make_proposal
from bandit_gym.priors import Gamma, TruncatedNormal
from bandit_gym.problem import BanditProblem

COUNTS, SUMS = np.array([30, 3, 0, 12]), np.array([31.0, 2.0, 0.0, 9.0])
NUM_LANES, NUM_SAMPLES = 4000, 100


@pytest.mark.parametrize("factor", [1, 10_000])
@pytest.mark.parametrize("prior", [Gamma(2.0, 1.5), TruncatedNormal(1.0, 0.5, 0.0, 4.0)])
def test_likelihood_of_ones_own_races_with_grid_marginals(prior, factor):
    problem = BanditProblem(Geometric(), prior, 4)
    assert isinstance(make_proposal(problem, "matched"), MarginalProposal)
    agent = RacingThompson(problem, stopping=NUM_SAMPLES)
    agent.reset(NUM_LANES, seed=0)
    agent.warm_start(COUNTS * factor, SUMS * factor)
    shares = np.bincount(agent.act(), minlength=4) / NUM_LANES
    expected = action_probabilities(problem, COUNTS * factor, SUMS * factor)
    # tables are right to 1e-3, and so is the law of so many samples that weigh nearly the same
    error = 4 * np.sqrt(expected * (1 - expected) / NUM_LANES) + 1e-3
    assert (np.abs(shares - expected) <= error).all()


def test_proposals_of_table_1_are_refused_where_it_has_no_row():
    problem = BanditProblem(Geometric(), Gamma(2.0, 1.5), 2)
    for kind in ("reference", Gamma(1.0, 1.0)):
        with pytest.raises(ValueError, match="proposal must be 'matched' for geometric rewards"):
            make_proposal(problem, kind)
