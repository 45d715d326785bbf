import numpy as np
import pytest
from scipy import special
from surface import assert_played, started

from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal, TruncatedNormal
from bandit_gym.problem import BanditProblem, ContextualProblem
from scripts.studies import outsiders

SAMPLERS = (outsiders.laplace, outsiders.langevin, outsiders.mean_field, outsiders.moment_matched)
COUNTS, SUMS = np.array([9, 0, 3]), np.array([9.0, 0.0, -3.0])
POSTERIOR_MEAN, POSTERIOR_VAR = SUMS / (1 + COUNTS), 1 / (1.0 + COUNTS)
BY_HAND = BanditProblem(Gaussian(1.0), Normal(0.0, 1.0), 3)
SIZE = 4000


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: sampler.__name__)
def test_samplers_have_the_moments_of_a_normal_posterior(sampler):
    means = sampler(BY_HAND, COUNTS, SUMS, np.random.default_rng(0), SIZE)
    assert means.shape == (SIZE, 3)
    # beside noise: Langevin's step of 0.1 makes variances 1 / (1 - 0.05) too large, and the
    # moments of the prior, which weigh as one pull, are those of 1,000 draws
    noise = 4 * (np.sqrt(POSTERIOR_VAR / SIZE) + POSTERIOR_VAR / 1000**0.5)
    assert (np.abs(means.mean(axis=0) - POSTERIOR_MEAN) < noise).all()
    ratio = means.var(axis=0) / POSTERIOR_VAR
    bias = 0.06 if sampler is outsiders.langevin else 0.0
    noise = 4 * ((2 / SIZE) ** 0.5 + POSTERIOR_VAR * (2 / 1000) ** 0.5)
    assert (np.abs(ratio - 1) < bias + noise).all()


def test_samplers_stay_in_the_support():
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.9, 0.2, 0.5, 1.0), 3)
    for sampler in SAMPLERS:
        means = sampler(problem, COUNTS, np.array([9.0, 0.0, 0.0]), np.random.default_rng(0), 100)
        assert ((means >= 0.5) & (means <= 1.0)).all(), sampler


def test_ensemble_keeps_its_models_and_has_the_moments_of_the_posterior():
    agent = started(outsiders.EnsembleSampling, BY_HAND, 1, COUNTS, SUMS, num_models=SIZE)
    totals = agent.weight * agent.starts + agent.sums + agent.shifts
    models = totals / (agent.weight + agent.counts)
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


def test_wavering_agent_draws_from_the_distribution_that_it_reports():
    problem = BanditProblem(Bernoulli(), Beta(5.0, 5.0), 3)
    data = [9, 0, 3], [6.0, 0.0, 1.0]
    exact, agent = (started(kind, problem, SIZE, *data) for kind in ("exact", outsiders.Wavering))
    probabilities, own = (each.action_probabilities()[0] for each in (exact, agent))
    np.testing.assert_allclose(own, 0.9 * probabilities + 0.1 / 3)
    assert_played(agent.act(), own)


def test_tempered_agent_is_exact_for_data_that_it_counts_by_their_weight():
    problem = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.2), 3)
    exact = started("exact", problem, 1, [18, 0, 6], [12.0, 0.0, 2.0])
    agent = started(outsiders.Tempered, problem, 1, [9, 0, 3], [6.0, 0.0, 1.0], weight=2.0)
    np.testing.assert_allclose(agent.action_probabilities(), exact.action_probabilities())


FEATURES = ContextualProblem(Bernoulli(), Normal(0.0, 2.0), 2, 2)


def play_maillard(likelihood, counts, sums):
    problem = BanditProblem(likelihood, Normal(0.5, 1.0), 3)
    return started(outsiders.KLMaillard, problem, 1, np.array(counts), np.array(sums))


def test_kl_maillard_weighs_arms_by_their_divergence_from_the_largest_average():
    told = play_maillard(Gaussian(2.0), [4, 9, 1], [4.0, 0.0, 2.0]).action_probabilities()[0]
    weights = np.exp(-np.array([4 * 1.0**2, 9 * 2.0**2, 0.0]) / (2 * 2.0**2))
    np.testing.assert_allclose(told, weights / weights.sum())
    counts, averages = np.array([4, 10, 5]), np.array([0.5, 0.2, 0.6])
    divergence = special.rel_entr(averages, 0.6) + special.rel_entr(1 - averages, 0.4)
    weights = np.exp(-counts * divergence)
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)
    agent = started(outsiders.KLMaillard, problem, SIZE, counts, counts * averages)
    np.testing.assert_allclose(agent.action_probabilities()[0], weights / weights.sum())
    assert_played(agent.act(), weights / weights.sum())


def test_kl_maillard_begins_with_arms_that_have_no_reward():
    told = play_maillard(Gaussian(1.0), [4, 0, 0], [40.0, 0.0, 0.0]).action_probabilities()
    np.testing.assert_array_equal(told, [[0.0, 0.5, 0.5]])


def test_residual_is_the_one_at_the_predictor_that_it_leads_to():
    start, step, rewards = np.array([[-40.0, 0.3]]), np.array([[36.0, 0.0]]), np.array([[1.0]])
    residual = outsiders.find_residuals(start, step, rewards)
    np.testing.assert_allclose(residual, 1 - special.expit(start + step * residual), atol=1e-12)


def test_ensemble_on_features_moves_to_the_mode_of_its_prior_times_a_reward():
    agent = started(outsiders.LogisticEnsemble, FEATURES, 1)
    x, before = np.array([1.5, -1.0]), agent.models.copy()
    agent.act(np.array([[x, x]]))
    agent.observe(np.array([0]), np.array([1.0]))
    moved = agent.models - before
    slopes = (1 - special.expit(agent.models @ x))[..., None] * x
    seen = np.abs(moved).sum(axis=-1) > 0  # twice, or not at all
    np.testing.assert_allclose(moved[seen], 4.0 * 2 * slopes[seen], rtol=1e-9)
    assert 0 < seen.sum() < seen.size
    curvature = 2 * special.expit(agent.models @ x) * special.expit(-agent.models @ x)
    precisions = np.eye(2) / 4 + curvature[..., None, None] * np.outer(x, x)
    np.testing.assert_allclose(np.linalg.inv(agent.covariances)[seen], precisions[seen])


def test_ensembles_tell_the_distribution_by_which_a_run_decides():
    plain = outsiders.EnsembleSampling, BY_HAND, None, COUNTS, SUMS
    shown = outsiders.LogisticEnsemble, FEATURES, np.array([[[1.0, 0.5], [-0.5, 1.0]]])
    for kind, problem, seen, *data in (plain, shown):
        agent = started(kind, problem, 1, *data, num_models=5)
        told = agent.action_probabilities(seen)[0]
        np.testing.assert_allclose(told * 5, np.round(told * 5))
        assert_played([agent.act(seen)[0] for _ in range(500)], told)
