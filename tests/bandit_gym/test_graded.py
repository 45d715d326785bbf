"""Graded rewards: fractions of success that count by the likelihood of rewards of 0 or 1."""

import pickle

import numpy as np
import pytest
from refusals import check_refusals
from scipy import special, stats
from surface import make_env, started

import bandit_gym as bg
from agents import make_agent
from bandit_gym.likelihoods import Bernoulli, likelihood_from_dict
from bandit_gym.priors import Beta, Normal, TruncatedNormal

GRADED = Bernoulli(graded=True, concentration=4)
PROBLEM = bg.BanditProblem(GRADED, Beta(2.0, 3.0), 3)
COUNTS, SUMS = np.array([3, 2, 4]), np.array([1.25, 0.5, 2.125])
PLANNERS = {
    "discounted_gittins": {},
    "finite_horizon_gittins": {"horizon": 5},
    "information_directed": {"gain": "information"},
    "information_relaxation": {"horizon": 5},
    "knowledge_gradient": {"horizon": 5},
    "optimal": {"horizon": 5},
    "ucb_tuned": {},
}


def test_settings_are_those_of_plain_rewards_unless_graded():
    assert repr(Bernoulli()) == "Bernoulli()"
    assert Bernoulli().to_dict() == {"name": "bernoulli"}
    assert repr(GRADED) == "Bernoulli(graded=True, concentration=4.0)"
    assert GRADED != Bernoulli(graded=True) != Bernoulli()
    for likelihood in (Bernoulli(), GRADED):
        assert likelihood_from_dict(likelihood.to_dict()) == likelihood
        assert pickle.loads(pickle.dumps(likelihood)) == likelihood
        assert hash(pickle.loads(pickle.dumps(likelihood))) == hash(likelihood)


@pytest.mark.parametrize("mean", [1e-6, 0.03, 0.5, 0.97])
def test_rewards_are_beta_quantiles(mean):
    ends = [0.0, *(1 - 2.0 ** -np.arange(9, 30)), 1 - 2.0**-53]
    uniforms = np.sort(np.append(np.random.default_rng(3).random(500), ends))
    rewards = GRADED.sample(mean, uniforms)
    assert (np.diff(rewards) >= 0).all()
    law = stats.beta(4 * mean, 4 * (1 - mean))
    is_inside = (rewards > 1e-300) & (rewards < 0.99)  # nearer to 1 floats are too far apart
    np.testing.assert_allclose(law.cdf(rewards[is_inside]), uniforms[is_inside], rtol=1e-9)
    assert law.var() == pytest.approx(GRADED.reward_std(mean) ** 2 / (4 + 1))


def test_rewards_rise_with_the_mean_up_to_its_ends():
    means = np.array([0.0, 1e-300, 1e-12, *np.linspace(0.001, 0.999, 400), 1 - 1e-12, 1.0])
    rewards = GRADED.sample(means, np.linspace(0, 1 - 2.0**-53, 200)[:, None])
    assert (np.diff(rewards, axis=1) >= -1e-12).all()
    assert (rewards[:, 0] == 0).all() and (rewards[:, -1] == 1).all()
    assert GRADED.is_possible(rewards).all()


def test_the_quasi_posterior_counts_fractions_of_success():
    agent = started("exact", PROBLEM)
    for reward in (0.25, 0.5, 0.5):
        agent.observe(0, reward)
    law = stats.beta(2 + 1.25, 3 + 3 - 1.25)
    posterior = agent.posterior()
    assert posterior.mean()[0] == pytest.approx(law.mean(), rel=1e-12)
    assert posterior.std()[0] == pytest.approx(law.std(), rel=1e-12)
    assert agent.sums[0] == 1.25


@pytest.mark.parametrize("prior", [Beta(2.0, 3.0), TruncatedNormal(0.4, 0.3)])
@pytest.mark.parametrize(("name", "num_lanes"), [("racing", 4000), ("smc", 1000)])
def test_samplers_have_the_probabilities_of_the_quasi_posterior(name, num_lanes, prior):
    problem = bg.BanditProblem(GRADED, prior, 3)
    exact = bg.action_probabilities(problem, COUNTS, SUMS)
    agent = started(name, problem, num_lanes, COUNTS, SUMS)
    found = np.bincount(agent.act(), minlength=3) / num_lanes
    # five standard deviations of a frequency, and 0.01 for what 1,000 particles miss
    assert (np.abs(found - exact) < 5 * np.sqrt(exact * (1 - exact) / num_lanes) + 0.01).all()


def test_particles_weigh_single_fractions_as_the_likelihood_does():
    agent = started("smc", PROBLEM, resampling="never", num_particles=200_000)
    agent.observe(0, 0.25)
    law = stats.beta(2.25, 3.75)
    tolerance = 5 * law.std() / 100_000**0.5  # five standard errors, if half the particles count
    assert agent.posterior().mean()[0] == pytest.approx(law.mean(), abs=tolerance)


def test_features_take_fractions():
    """The mode is where the slope of the log-density, .75 - g(theta) - theta, is 0."""
    agent = started("laplace", bg.ContextualProblem(GRADED, Normal(0.0, 1.0), 2, 2))
    agent.observe(agent.act(np.eye(2)), 0.75)
    agent.act(np.eye(2))
    theta = agent._posterior.fits.fit.mean[0].max()
    assert theta == pytest.approx(0.75 - special.expit(theta), abs=1e-6)


@pytest.mark.parametrize("num_envs", [None, 2])
def test_environments_pay_fractions_of_the_mean(num_envs):
    settings = {"num_arms": 2, "means": [0.3, 0.6], "graded": True, "concentration": 4}
    env = make_env("BernoulliBandit-v0", num_envs, **settings)
    env.reset(seed=5)
    actions = np.ones(num_envs or (), dtype=int)
    rewards = np.concatenate([np.ravel(env.step(actions)[1]) for _ in range(500)])
    assert ((rewards > 0) & (rewards < 1)).all()
    assert abs(rewards.mean() - 0.6) < 5 * np.sqrt(0.24 / 5 / len(rewards))
    assert env.unwrapped.problem.likelihood == GRADED


def test_compare_plays_a_problem_with_graded_rewards():
    results = bg.compare(["exact"], env=PROBLEM, replications=2, horizon=5, seed=6)
    (env,) = results.experiment.environments
    assert env.options["graded"] is True and env.options["concentration"] == 4
    assert not results.failed and (results.frame()["reward"] % 1 > 0).any()


def test_what_plans_on_rewards_of_0_or_1_and_fitted_priors_refuse():
    plain = bg.BanditProblem(Bernoulli(), Beta(2.0, 3.0), 3)
    for name, options in PLANNERS.items():
        make_agent(name, plain, **options)
    parts = ValueError, "problem.likelihood must ", "Bernoulli(graded=True"
    planners = [(name, options, *parts) for name, options in PLANNERS.items()]
    check_refusals(lambda name, options: make_agent(name, PROBLEM, **options), planners)
    check_refusals(lambda horizon: bg.optimal_regret(PROBLEM, horizon), [(5, *parts)])
    fitted = COUNTS, SUMS, ValueError, "likelihood must have rewards of 0 or 1"
    check_refusals(lambda counts, sums: bg.fit_prior(GRADED, counts, sums), [fitted])
