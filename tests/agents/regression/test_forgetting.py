"""Forgetting with features: weights of earlier rewards, under the prior that stays."""

import numpy as np
import pytest
from exact_values import exact_moments
from surface import started

import agents
from bandit_gym.likelihoods import Bernoulli, Gaussian, make_likelihood
from bandit_gym.priors import Normal
from bandit_gym.problem import ContextualProblem

PRIOR_STD, STD, NUM_REWARDS = 1.5, 0.7, 60
WEIGHTS = np.tile([1.0, 0.3, 2.0, 1.7], 15)


def make_data():
    """Return features of rewards, of which each fifth repeats the first, and noise."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((NUM_REWARDS, 2))
    features[::5] = features[0]
    return features, rng.standard_normal(NUM_REWARDS)


def find_weights(options):
    """Return the weight of each reward after the last."""
    age = np.arange(NUM_REWARDS)[::-1]
    if "window" in options:
        return (age < options["window"]).astype(float)
    return np.asarray(options.get("discount", 1.0) ** age)


def problem_for(name, num_arms=3):
    """Return a problem with Gaussian rewards for `exact`, and with rewards of 0 or 1 for others."""
    likelihood = Gaussian(STD) if name == "exact" else Bernoulli()
    return ContextualProblem(likelihood, Normal(0.0, PRIOR_STD), num_arms, 2)


def learn(agent, features, rewards, weights=None):
    """Let an agent observe, and ask it now and then, as what it keeps depends on that."""
    for i, (row, reward) in enumerate(zip(features, rewards, strict=True)):
        weight = None if weights is None else weights[i]
        agent.observe(0, reward, observation=row, weight=weight)
        if i % 7 == 0:
            agent.act(np.eye(2))


@pytest.mark.parametrize("options", [{}, {"discount": 0.5}, {"discount": 0.9}, {"window": 13}])
def test_gaussian_rewards_follow_the_weighted_formula(options):
    features, rewards = make_data()
    problem = ContextualProblem(Gaussian(STD), Normal(0.3, PRIOR_STD), 2, 2)
    agent = started("thompson", problem, **options)
    learn(agent, features, rewards, WEIGHTS)
    belief, weights = agent.posterior(np.eye(2)), find_weights(options) * WEIGHTS / STD**2
    mean, std = exact_moments(features, rewards, weights, (0.3, PRIOR_STD), np.eye(2))
    np.testing.assert_allclose(np.ravel(belief.mean()), mean, rtol=1e-12)
    np.testing.assert_allclose(np.ravel(belief.std()), std, rtol=1e-12)


RACES = [
    ("bernoulli", {}),
    *(("bernoulli", {"discount": discount}) for discount in (0.5, 0.99)),
    ("bernoulli", {"window": 5}),
    ("poisson", {"discount": 0.9}),
    ("poisson", {"window": 13}),
    ("exponential", {"discount": 0.8}),
    ("exponential", {"window": 25}),
]


LOG_LIKELIHOODS = {
    "bernoulli": lambda eta, reward: reward * eta - np.logaddexp(0.0, eta),
    "poisson": lambda eta, reward: reward * eta - np.exp(eta),
    "exponential": lambda eta, reward: -eta - reward * np.exp(-eta),
}


@pytest.mark.parametrize(("name", "options"), RACES)
def test_race_follows_the_weighted_likelihood(name, options):
    features, noise = make_data()
    likelihood = make_likelihood(name)
    rewards = likelihood.sample(np.exp(noise) / (1 + np.exp(noise)), np.linspace(0.01, 0.99, 60))
    problem = ContextualProblem(likelihood, Normal(0.0, PRIOR_STD), 3, 2)
    num_lanes, num_decisions = 20, 300  # lanes that know the same, so that few will do
    agent = started("racing", problem, num_lanes, **options)
    arms = np.array([[1.0, 0.0], [0.0, 1.0], [-0.5, -0.5]])
    shown, first = np.tile(arms, (num_lanes, 1, 1)), np.zeros(num_lanes, dtype=np.int64)
    for i, (row, reward) in enumerate(zip(features, rewards, strict=True)):
        observation = np.tile(row, (num_lanes, 1))
        weight = None if name == "poisson" else WEIGHTS[i]
        agent.observe(first, np.full(num_lanes, reward), observation=observation, weight=weight)
        if i % 20 == 0:
            agent.act(shown)
    played = np.ravel([agent.act(shown) for _ in range(num_decisions)])
    axis = np.linspace(-9.0, 9.0, 301)
    theta = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    log_density = -0.5 * np.square(theta / PRIOR_STD).sum(axis=-1)
    weights = find_weights(options) * (1.0 if name == "poisson" else WEIGHTS)
    for row, reward, weight in zip(features, rewards, weights, strict=True):
        log_density += weight * LOG_LIKELIHOODS[name](theta @ row, reward)
    density, values = np.exp(log_density - log_density.max()), theta @ arms.T
    is_best = values == values.max(axis=-1, keepdims=True)  # at ties on the axes' grid, shared
    is_best = is_best / is_best.sum(axis=-1, keepdims=True)
    truth = (density[..., None] * is_best).sum(axis=(0, 1)) / density.sum()
    assert truth.max() < 0.99  # else anything would do
    found = np.bincount(played, minlength=3) / played.size
    # The race may be off by 0.006; four standard errors of each frequency beside it.
    error = 0.5 * np.sqrt(truth * (1 - truth) / played.size).sum()
    assert 0.5 * abs(found - truth).sum() < 0.006 + 4 * error


@pytest.mark.parametrize("discount", [0.9, 0.99])
def test_draws_of_a_discounted_race_are_worth_what_those_of_any_are(discount):
    """With likelihoods of weight 1 in place of their own a draw was worth 0.001 of one."""
    rng = np.random.default_rng(0)
    problem = ContextualProblem(Bernoulli(), Normal(0.0, 1.0), 2, 2)
    agent, twin = (started("racing", problem, discount=discount) for _ in range(2))
    for i, row in enumerate(rng.standard_normal((300, 2))):
        agent.observe(0, float(rng.random() < 0.5), observation=row)
        if i > 290:  # scaled sites, and those of one fit from the prior
            agent.act(np.eye(2))
    assert agent._posterior.fits.efficiencies.min() > 0.75 and not agent.diagnostics()["doubts"]
    twin.evidence = agent.evidence
    twin.act(np.eye(2))
    fit, anew = agent._posterior.fits.fit, twin._posterior.fits.fit
    deviation = np.sqrt(np.square(fit.factor[0]).sum(axis=1)).min()
    # One sweep moves what is converged by a hundredth of a deviation at most.
    np.testing.assert_allclose(fit.mean, anew.mean, rtol=0, atol=0.01 * deviation)
    np.testing.assert_allclose(fit.factor, anew.factor, rtol=0, atol=0.01 * deviation)


def test_a_question_moves_no_fits_where_a_discounted_count_is_the_same_again():
    """Halved and with another reward, a count of 2 is 2."""
    agent, x = started("racing", problem_for("racing", 2), discount=0.5), np.eye(2)
    for _ in range(80):
        agent.observe(0, 1.0, observation=x[0])
        agent.act(x)
    before = agent._posterior.fits.fit.sites.copy()
    for _ in range(2):
        agent.observe(0, 0.0, observation=x[0])
    agent.action_probabilities(x)
    np.testing.assert_array_equal(agent._posterior.fits.fit.sites, before)


@pytest.mark.parametrize("likelihood", [Bernoulli(), Gaussian(1.0)])
def test_a_row_that_comes_back_after_its_count_has_underflowed_counts_once(likelihood):
    """Half of it is left 1,075 times; such a row was taken in twice, in the end beyond memory."""
    problem, arms = (
        ContextualProblem(likelihood, Normal(0.0, 1.0), 2, 2),
        np.tile(np.eye(2), (2, 1, 1)),
    )
    agent, twin = (started("racing", problem, 2, discount=0.5) for _ in range(2))
    first, second, paid = np.zeros(2, dtype=int), np.ones(2, dtype=int), np.ones(2)
    for _ in range(4):
        agent.observe(first, paid, observation=arms)
        agent.act(arms)
        for _ in range(1100):
            agent.observe(second, paid, observation=arms)
        agent.act(arms)
    agent.observe(first, paid, observation=arms)
    twin.evidence = agent.evidence
    found, anew = (each.action_probabilities(arms) for each in (agent, twin))
    np.testing.assert_allclose(found, anew, rtol=0, atol=0.01)  # of pools of 6,144 draws


def test_a_forgotten_row_has_no_count_and_fits_follow():
    """By a discount of .7 it stuck at the least number."""
    problem, arms = ContextualProblem(Bernoulli(), Normal(0.0, 1.0), 2, 2), np.eye(2)
    agent = started("racing", problem, discount=0.7)
    agent.observe(0, 1.0, observation=arms)
    for step in range(2200):
        if step % 1000 == 0:
            agent.act(arms)
        agent.observe(1, 1.0, observation=arms)
    agent.act(arms)
    assert agent.evidence.counts[0, 0] == agent.evidence.sums[0, 0] == 0
    assert agent._posterior.fits.has_seen(agent.evidence)


@pytest.mark.parametrize("options", [{"discount": 0.9}, {"window": 13}])
@pytest.mark.parametrize("name", ["exact", "racing", "laplace"])
def test_pools_follow_rewards_also_where_weights_sum_to_the_same(name, options, tmp_path):
    """The weights of a full window always do; a pool once stayed what it was before."""
    agent = started(name, problem_for(name), **options)
    features, noise = make_data()
    learn(agent, features, (noise > 0).astype(float))
    arms = np.array([[1.0, 0.5], [-1.0, 0.2], [0.3, -1.0]])
    agent.decide(arms)
    agent.action_probabilities(arms)
    for _ in range(15):
        agent.observe(0, 1.0, observation=arms[0])
    found, decided = agent.action_probabilities(arms), agent.decide(arms).probabilities
    agent.save(tmp_path / "agent")  # without pools
    anew = agents.load(tmp_path / "agent").action_probabilities(arms)
    np.testing.assert_array_equal(found, anew)
    # Another pool of 4,096 draws: within five standard errors of as many independent ones.
    np.testing.assert_allclose(decided, found, rtol=0, atol=5 * (0.25 / 4096) ** 0.5)


@pytest.mark.parametrize("options", [{"discount": 0.9}, {"window": 13}])
@pytest.mark.parametrize("name", ["exact", "racing"])
def test_a_saved_agent_goes_on_forgetting(name, options, tmp_path):
    """A window's rewards leave it with the weights that they came with: one of row 0 does here."""
    agent = started(name, problem_for(name), **options)
    features, noise = make_data()
    learn(agent, features, (noise > 0).astype(float), WEIGHTS)
    agent.save(tmp_path / "agent")
    arms, twin = np.array([[1.0, 0.5], [-1.0, 0.2], [0.3, -1.0]]), agents.load(tmp_path / "agent")
    for row, weight in zip(features[:7], WEIGHTS, strict=False):
        for each in (agent, twin):
            each.observe(0, 1.0, observation=row, weight=weight)
        assert agent.act(arms) == twin.act(arms)
    np.testing.assert_array_equal(agent.action_probabilities(arms), twin.action_probabilities(arms))


@pytest.mark.parametrize("options", [{}, {"window": 13}])
@pytest.mark.parametrize("name", ["exact", "racing"])
def test_totals_of_rows_are_as_many_rewards(name, options):
    """Totals do not leave a window, as they have no order; this one is full twice."""
    features, noise = make_data()
    rewards, contexts = (noise > 0).astype(float), np.array([[1.0, 0.5], [-1.0, 0.2]])
    problem, window = problem_for(name, 2), options.get("window", 0)
    told, repeated = started(name, problem, **options), started(name, problem)
    told.warm_start([2, 0, 3], [1.0, 0.0, 2.0], observation=features[:3])
    told.warm_start([[0, 1], [1, 2]], [[0.0, 0.0], [1.0, 1.0]], observation=[contexts, contexts])
    for row, reward in zip(features[: 2 * window], rewards, strict=False):
        told.observe(0, reward, observation=row)
    rows = [*features[[0, 0, 2, 2, 2]], *contexts[[1, 0, 1, 1]], *features[window : 2 * window]]
    paid = [1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, *rewards[window : 2 * window]]
    learn(repeated, np.array(rows), np.array(paid))
    found, expected = (each.posterior(contexts) for each in (told, repeated))
    allowed = 1e-12
    if name == "racing":  # which answers by draws: four errors of the difference
        allowed = 4 * expected.std() * np.sqrt(2 / expected.effective_sample_size())
    assert (abs(found.mean() - expected.mean()) <= allowed).all()


@pytest.mark.parametrize("options", [{"discount": 0.5}, {"window": 13}])
def test_old_rows_go(options):
    features = np.random.default_rng(3).standard_normal((2_000, 2))
    problem = ContextualProblem(Gaussian(STD), Normal(0.3, PRIOR_STD), 2, 2)
    agent = started("lin_ucb", problem, **options)
    for row in features:
        agent.observe(0, 1.0, observation=row)
    # Of 17 rows of halved weights, or of 13 in a window, room for 32 is enough.
    assert agent.evidence.counts.shape[1] <= 32
    weight = 1 / (1 - options["discount"]) if "discount" in options else options["window"]
    np.testing.assert_allclose(agent.evidence.counts.sum(), weight, rtol=1e-4)
