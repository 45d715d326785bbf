"""What agents make of priors of the kind users write."""

import numpy as np
import pytest

from agents import make_agent
from agents.oracle import action_probabilities
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import (
    Beta,
    HierarchicalBeta,
    LogitNormal,
    Mixture,
    PerArm,
    TruncatedNormal,
    spike_and_slab,
)
from bandit_gym.problem import BanditProblem

INDEPENDENT = {
    "mixture": Mixture([Beta(2.0, 8.0), Beta(8.0, 2.0)], [4.0, 1.0]),
    "spike and slab": spike_and_slab(0.3, 0.02, Beta(1.0, 1.0), 0.8),
    "logit-normal": LogitNormal(-0.5, 0.8),
    "per arm": PerArm([Beta(2, 5), TruncatedNormal(0.5, 0.1), LogitNormal(0, 1), Beta(1, 1)]),
}
COUNTS, SUMS = np.array([8, 5, 3, 0]), np.array([4.0, 2.0, 2.0, 0.0])


def told(name, prior, num_envs, **options):
    agent = make_agent(name, BanditProblem(Bernoulli(), prior, 4), **options)
    agent.reset(num_envs, seed=0)
    agent.warm_start(COUNTS, SUMS)
    return agent


@pytest.mark.parametrize("proposal", ["reference", "matched"])
@pytest.mark.parametrize("prior", INDEPENDENT.values(), ids=INDEPENDENT)
def test_racing_and_exact_thompson_follow_the_oracle(prior, proposal):
    """A race of m samples is off by about 1 / (effective sample size)."""
    expected = action_probabilities(BanditProblem(Bernoulli(), prior, 4), COUNTS, SUMS)
    racing = told("racing", prior, 1500, proposal=proposal, stopping=300)
    found = np.bincount(racing.act(), minlength=4) / 1500
    size = racing.diagnostics()["effective_sample_size"].mean()
    tolerance = 4 * np.sqrt(expected * (1 - expected) / 1500) + 1 / size
    assert (np.abs(found - expected) <= tolerance).all()
    law = told("exact", prior, None).action_probabilities()
    np.testing.assert_allclose(law, expected, atol=1e-3)


def test_racing_and_smc_agree_under_a_hierarchical_prior():
    prior = HierarchicalBeta([2.0, 10.0, 18.0], [18.0, 10.0, 2.0])
    racing = told("racing", prior, 3000, proposal="reference", stopping=500)
    raced = np.bincount(racing.act(), minlength=4) / 3000
    smc = told("smc", prior, 60, num_particles=1000)
    actions = np.stack([smc.act() for _ in range(10)], axis=1)
    shares = (actions[:, :, None] == np.arange(4)).mean(axis=1)
    spread = np.sqrt(raced * (1 - raced) / 3000 + shares.var(axis=0) / 60)
    bias = 1 / racing.diagnostics()["effective_sample_size"].mean() + 1 / 1000
    assert (np.abs(raced - shares.mean(axis=0)) <= 4 * spread + bias).all()
