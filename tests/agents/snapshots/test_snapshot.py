"""What every snapshot keeps, kind by kind of posterior."""

import pickle

import numpy as np
import pytest

from agents import ExactThompson, Greedy, RacingThompson, SMCThompson, make_agent
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal, TruncatedMultivariateNormal, TruncatedNormal
from bandit_gym.problem import BanditProblem

CONJUGATE = BanditProblem(Bernoulli(), Beta(2.0, 3.0), 3)
GRID = BanditProblem(Bernoulli(), TruncatedNormal(0.4, 0.2), 3)
CHAINS = BanditProblem(Bernoulli(), TruncatedMultivariateNormal(0.5, 0.05 * np.eye(3) + 0.02), 3)
KINDS = {
    "the conjugate posterior": (ExactThompson, CONJUGATE, {}),
    "tables": (ExactThompson, GRID, {}),
    "400 sweeps of a Markov chain": (ExactThompson, CHAINS, {}),
    "weighted particles": (SMCThompson, GRID, {"num_particles": 300}),
    "weighted draws": (RacingThompson, CHAINS, {"proposal": "matched"}),
}


def play(agent, num_steps=15):
    """Let an agent learn from rewards that are the same whatever it does."""
    rng, shape = np.random.default_rng(5), () if agent.num_envs is None else agent.num_envs
    for _ in range(num_steps):
        agent.observe(agent.act(), rng.integers(2, size=shape).astype(float))


def make(source, num_envs=None):
    kind, problem, options = KINDS[source]
    agent = kind(problem, **options)
    agent.reset(num_envs, seed=1)
    play(agent)
    return agent


def ask(snapshot):
    """Return answers to all questions that every kind has answers to."""
    return [
        snapshot.mean(),
        snapshot.std(),
        snapshot.quantile([0.1, 0.5]),
        snapshot.interval(0.9),
        snapshot.best_arm_probabilities(),
        snapshot.sample(4, seed=2),
        snapshot.predictive(4, seed=2),
    ]


every_kind = pytest.mark.parametrize("source", KINDS)


@every_kind
def test_snapshot_does_not_change_with_what_is_observed_later(source):
    agent = make(source, 2)
    asked, unasked = agent.posterior(), agent.posterior()
    before = ask(asked)
    play(agent)
    agent.reset(2, seed=3)
    for snapshot in (asked, unasked, pickle.loads(pickle.dumps(unasked))):
        for one, other in zip(before, ask(snapshot), strict=True):
            np.testing.assert_array_equal(one, other)


@every_kind
def test_answers_have_the_shape_of_lanes_and_arms(source):
    for num_envs, shape in [(None, (3,)), (1, (1, 3)), (2, (2, 3))]:
        snapshot = make(source, num_envs).posterior()
        expected = [shape, shape, (2, *shape), (2, *shape), shape, (4, *shape), (4, *shape)]
        assert [answer.shape for answer in ask(snapshot)] == expected
        assert snapshot.source == source


def test_racing_shows_the_posterior_that_it_approximates():
    racing, exact = RacingThompson(GRID), ExactThompson(GRID)
    found = []
    for agent in (racing, exact):
        agent.reset(seed=0)
        agent.warm_start([5, 0, 40], [1.0, 0.0, 30.0])
        found.append(ask(agent.posterior()))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("problem", [CONJUGATE, CHAINS], ids=["law", "chain"])
def test_greedy_shows_the_posterior_that_it_plays_by(problem):
    agent = Greedy(problem, estimate="posterior")
    agent.reset(seed=0)
    snapshot = agent.posterior()
    agent.observe(0, 1.0)
    assert agent.posterior().mean()[0] > snapshot.mean()[0]


@pytest.mark.parametrize("name", ["random", "ucb1", "kl_ucb", "ucb_tuned", "moss"])
def test_agents_without_a_prior_refuse_in_one_sentence(name):
    agent = make_agent(name, CONJUGATE)
    agent.reset(seed=0)
    with pytest.raises(TypeError, match=r"posterior must be asked of an agent with a prior, got"):
        agent.posterior()


def test_rewards_of_an_arm_without_a_proper_posterior_are_refused():
    agent = ExactThompson(BanditProblem(Gaussian(), Normal(0.0, 1.0), 2), prior="reference")
    agent.reset(seed=0)
    agent.observe(0, 1.0)
    with pytest.raises(ValueError, match="predictive must have proper posteriors, got none of arm"):
        agent.posterior().predictive(3, seed=0)
    assert agent.posterior().mean().tolist() == [1.0, np.inf]


def test_what_cannot_be_asked_is_one_sentence():
    posterior = make("tables").posterior()
    for method, argument, text in [
        ("quantile", "x", "p must be numbers, alone or in an array, got 'x'"),
        ("quantile", [[0.1], [0.2, 0.3]], "p must be numbers"),
        ("quantile", [0.5, np.nan], "p must have no NaN"),
        ("quantile", 1.0, "p must be above 0 and below 1, got 1.0"),
        ("interval", 0.0, "confidence must be a finite number above 0"),
        ("sample", 0, "size must be a positive integer, got 0"),
        ("density", None, "x must be numbers, alone or in an array, got None"),
        ("density", 10**400, "x must be numbers"),
        ("sample", 10**18, "size must be at most 333333333, got 1000000000000000000"),
        ("plot", 5, "ax must be an Axes, got 5"),
    ]:
        with pytest.raises((TypeError, ValueError), match=text):
            getattr(posterior, method)(argument)


@every_kind
def test_expected_loss_is_what_stopping_with_an_arm_loses_on_average(source):
    snapshot = make(source, 2).posterior()
    draws = snapshot.sample(40_000, seed=3)  # (M, N, K)
    losses = draws.max(axis=-1, keepdims=True) - draws
    # Answers of formulas are exact, others rest on 250 independent draws at least.
    num_draws = 40_000 if source in ("the conjugate posterior", "tables") else 250
    tolerance = 4 * losses.std(axis=0) / np.sqrt(num_draws)
    assert (np.abs(snapshot.expected_loss() - losses.mean(axis=0)) <= tolerance).all()
