import numpy as np
import pytest

from agents import ExactThompson
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal, TruncatedNormal
from bandit_gym.problem import BanditProblem
from scripts.studies.outsiders import (
    Agreeing,
    EnsembleSampling,
    Wavering,
    langevin,
    laplace,
    mean_field,
    moment_matched,
)

SAMPLERS = (laplace, langevin, mean_field, moment_matched)
COUNTS, SUMS = np.array([9, 0, 3]), np.array([9.0, 0.0, -3.0])
POSTERIOR_MEAN, POSTERIOR_VAR = SUMS / (1 + COUNTS), 1 / (1.0 + COUNTS)
BY_HAND = BanditProblem(Gaussian(1.0), Normal(0.0, 1.0), 3)
SIZE = 4000


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: sampler.__name__)
def test_samplers_have_the_moments_of_a_normal_posterior(sampler):
    means = sampler(BY_HAND, COUNTS, SUMS, np.random.default_rng(0), SIZE)
    assert means.shape == (SIZE, 3)
    # beside noise: Langevin's step of 0.1 makes variances 1 / (1 - 0.05) too large, and the
    # moments of the prior are those of 1,000 draws
    noise = 4 * np.sqrt(POSTERIOR_VAR) * (SIZE**-0.5 + 1000**-0.5)
    assert (np.abs(means.mean(axis=0) - POSTERIOR_MEAN) < noise).all()
    ratio = means.var(axis=0) / POSTERIOR_VAR
    assert (np.abs(ratio - 1) < 0.06 + 4 * (2 / SIZE) ** 0.5 + 4 * (2 / 1000) ** 0.5).all()


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: sampler.__name__)
def test_samplers_stay_in_the_support(sampler):
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.9, 0.2, 0.5, 1.0), 3)
    means = sampler(problem, COUNTS, np.array([9.0, 0.0, 0.0]), np.random.default_rng(0), 100)
    assert ((means >= 0.5) & (means <= 1.0)).all()


def test_ensemble_keeps_its_models_and_has_the_moments_of_the_posterior():
    agent = EnsembleSampling(BY_HAND, num_models=SIZE)
    agent.reset(1, seed=0)
    agent.warm_start(COUNTS, SUMS)
    models = (agent.weight * agent.starts + agent.sums + agent.shifts) / (
        agent.weight + agent.counts
    )
    noise = 4 * np.sqrt(POSTERIOR_VAR) * (SIZE**-0.5 + 1000**-0.5)
    assert (np.abs(models[0].mean(axis=0) - POSTERIOR_MEAN) < noise).all()
    before = agent.starts.copy()
    agent.observe(np.array([1]), np.array([0.5]))
    np.testing.assert_array_equal(before, agent.starts)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: sampler.__name__)
def test_samplers_treat_many_histories_in_a_call_as_each_alone(sampler):
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.2), 2)
    counts = np.array([[0, 9], [20, 4]])
    sums = np.array([[0.0, 8.0], [3.0, 2.0]])
    rows = np.repeat([0, 1], SIZE // 8)
    together = sampler(problem, counts[rows], sums[rows], np.random.default_rng(0), len(rows))
    for row in (0, 1):
        alone = sampler(problem, counts[row], sums[row], np.random.default_rng(1), SIZE // 8)
        of_row = together[rows == row]
        noise = 4 * np.sqrt(2 * alone.var(axis=0) / (SIZE // 8))
        assert (np.abs(of_row.mean(axis=0) - alone.mean(axis=0)) < noise).all()


def test_ensemble_tells_the_law_by_which_a_run_decides():
    agent = EnsembleSampling(BY_HAND, num_models=5)
    agent.reset(1, seed=0)
    agent.warm_start(COUNTS, SUMS)
    probabilities = agent.action_probabilities()[0]
    np.testing.assert_allclose(probabilities * 5, np.round(probabilities * 5))
    shares = np.bincount([agent.act()[0] for _ in range(500)], minlength=3) / 500
    assert (
        np.abs(shares - probabilities) <= 4 * np.sqrt(probabilities * (1 - probabilities) / 500)
    ).all()


@pytest.mark.parametrize("kind", [Agreeing, Wavering])
def test_bent_agents_draw_from_the_law_that_they_tell(kind):
    problem = BanditProblem(Bernoulli(), Beta(5.0, 5.0), 3)
    exact, agent = ExactThompson(problem), kind(problem)
    for each in (exact, agent):
        each.reset(SIZE, seed=0)
        each.warm_start([9, 0, 3], [6.0, 0.0, 1.0])
    probabilities, own = (each.action_probabilities()[0] for each in (exact, agent))
    bent = (
        probabilities**2 / (probabilities**2).sum()
        if kind is Agreeing
        else 0.9 * probabilities + 0.1 / 3
    )
    np.testing.assert_allclose(own, bent)
    shares = np.bincount(agent.act(), minlength=3) / SIZE
    assert (np.abs(shares - own) < 4 * np.sqrt(own * (1 - own) / SIZE)).all()
