"""Normal approximations in place of older rows: near what decided before, or refused."""

import numpy as np
from refusals import check_refusals
from surface import started

import agents
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Laplace, Normal
from bandit_gym.problem import BanditProblem, ContextualProblem

PROBLEM = ContextualProblem(Bernoulli(), Normal(0.0, 1.0), 2, 6, layout="disjoint")
VISITORS = np.random.default_rng(1).standard_normal((100, 2))


def make_agent(num_rewards=400, problem=PROBLEM, **options):
    """Return an agent after rewards of arms that differ."""
    agent = started("thompson", problem, **{"posterior": "racing"} | options)
    rng = np.random.default_rng(2)
    visitors, arms = rng.standard_normal((num_rewards, 2)), rng.integers(2, size=num_rewards)
    rewards = (rng.random(num_rewards) < np.where(arms == 0, 0.6, 0.4)).astype(float)
    for visitor, arm, reward in zip(visitors, arms, rewards, strict=True):
        agent.observe(arm, reward, observation=visitor)
    return agent


def test_decisions_stay_near_and_nothing_else_is_lost(tmp_path):
    agent, twin = make_agent(), make_agent()
    twin.act(VISITORS[0])
    assert agent.compact(400, observation=VISITORS) == 0.0
    assert 0 < agent.compact(100, observation=VISITORS) <= 0.01
    assert agent.evidence.sizes.tolist() == [100]
    assert "after 100 pulls and a summary of more, from" in str(agent.posterior(VISITORS[0]))
    for step in range(40):
        for each in (agent, twin):
            each.observe(step % 2, 1.0, observation=VISITORS[step])
    found, expected = (each.action_probabilities(VISITORS) for each in (agent, twin))
    # Pools of 4,096 draws each, of which two are compared: within five standard errors.
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.01 + 5 * (0.5 / 4096) ** 0.5)
    agent.save(tmp_path / "agent")
    loaded = agents.load(tmp_path / "agent")
    assert loaded.decide(VISITORS).actions.tolist() == agent.decide(VISITORS).actions.tolist()
    mask = [True, True, False]
    wider = agent.with_arms(3).action_probabilities(VISITORS, available=mask)[:, :2]
    np.testing.assert_allclose(wider, found, rtol=0, atol=5 * (0.5 / 4096) ** 0.5)  # as above
    agent.reset(seed=1)
    fresh = make_agent(0)
    found, expected = (each.action_probabilities(VISITORS) for each in (agent, fresh))
    np.testing.assert_array_equal(found, expected)


def test_the_summary_is_the_normal_factor_of_the_rows_that_went():
    """Gaussian likelihoods are such factors, so that nothing changes but by rounding."""
    problem = ContextualProblem(Gaussian(0.5), Normal(0.2, 1.0), 2, 6, layout="disjoint")
    agent, twin = make_agent(problem=problem), make_agent(problem=problem)
    agent.compact(300, observation=VISITORS)
    agent.compact(1, observation=VISITORS)
    for each in (agent, twin):
        each.act(VISITORS[0])
    found, expected = (each._posterior.fits.fit for each in (agent, twin))
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-12)
    np.testing.assert_allclose(abs(found.factor), abs(expected.factor), atol=1e-12)


def test_compacting_is_refused_in_words_and_then_changes_nothing():
    vague = ContextualProblem(Bernoulli(), Normal(0.0, 9.0), 2, 6, layout="disjoint")
    agent, other = make_agent(9, vague), make_agent(9, vague)
    too_few = [(1, "max_rows must be enough", "got 1; its upper limit is")]
    check_refusals(lambda size: agent.compact(size, observation=VISITORS), too_few)
    assert agent.evidence.sizes.tolist() == [9]
    found, expected = agent.decide(VISITORS), other.decide(VISITORS)
    assert found.actions.tolist() == expected.actions.tolist()
    linear = ContextualProblem(Gaussian(), Normal(0.0, 1.0), 2, 6, layout="disjoint")
    tailed = ContextualProblem(Bernoulli(), Laplace(0.0, 1.0), 2, 6, layout="disjoint")
    plain = started("thompson", BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2))
    lanes = started("thompson", PROBLEM, 2, posterior="racing")
    counting = started("bayes_ucb", PROBLEM, posterior="racing")
    rows = [
        (counting, VISITORS, "asked of an agent whose rule does not count rewards, got 'BayesUCB'"),
        (make_agent(3, discount=0.9), VISITORS, "compact must be left out beside a discount or a"),
        (make_agent(3, window=5), VISITORS, "compact must be left out beside a discount or a"),
        (make_agent(3, linear, posterior="exact"), VISITORS, "got 'GaussianCoefficients'"),
        (make_agent(3, posterior="laplace"), VISITORS, "posterior must be a race of coefficients"),
        (make_agent(3, tailed), VISITORS, "posterior must be a race of coefficients with a normal"),
        (plain, VISITORS, "compact must be asked of a single run of a race with features, got"),
        (lanes, VISITORS, "compact must be asked of a single run of a race with features, got"),
        (make_agent(3), VISITORS[:99], "features of at least 100 visitors, got 99"),
    ]
    check_refusals(lambda agent, visitors: agent.compact(1, observation=visitors), rows)
