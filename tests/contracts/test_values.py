"""Decisions by values * means - costs, and the order of one draw, of all agents that take them."""

import re

import numpy as np
import pytest
from families import make_problems
from refusals import check_refusals
from surface import assert_played, started

from agents import ExactThompson
from agents.oracle import action_probabilities
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta, Normal
from bandit_gym.problem import BanditProblem, ContextualProblem

VALUES, COSTS = [1.0, 2.0, 3.0], [0.0, 0.2, 0.6]
PRICES = {"values": VALUES, "costs": COSTS}
MASK = [True, False, True]
PROBLEMS = make_problems(num_arms=3, num_features=2)
CASES = [
    *((name, kind) for name in ("exact", "racing") for kind in ("conjugate", "normal", "grid")),
    *(("exact", kind) for kind in ("mixture", "linear")),
    *((name, "logistic") for name in ("racing", "laplace", "smc", "greedy")),
    *((name, "conjugate") for name in ("smc", "top_two", "bayes_ucb", "epsilon_greedy")),
]
in_each_case = pytest.mark.parametrize(("name", "kind"), CASES)
NUM_LANES = 1000
WORTH = 250
"""Draws that 500 particles are worth at least: with fewer than half they are resampled."""


def taught(name, kind, num_envs):
    """Return an agent that has seen one reward of each arm, equal in all lanes."""
    agent, features = started(name, PROBLEMS[kind], num_envs), None
    if kind in ("linear", "logistic"):
        features = np.array([[1.0, 0.0], [0.5, 1.0], [-0.5, 1.0]])
        features = features if num_envs is None else np.tile(features, (num_envs, 1, 1))
    for arm, reward in ((0, 1.0), (1, 0.0), (2, 1.0)):
        size = 1 if num_envs is None else np.ones(num_envs, dtype=np.int64)
        agent.observe(arm * size, reward * size, **given(features))
    return agent, features


def given(features):
    """Return what `observe` takes of features, nothing where there are none."""
    return {} if features is None else {"observation": features}


def assert_frequent(shares, probabilities, errors):
    """Four deviations of frequencies in NUM_LANES decisions, and of what is known of the law."""
    bound = 4 * np.sqrt(probabilities * (1 - probabilities) / NUM_LANES + errors**2) + 1e-9
    assert (abs(shares - probabilities) <= bound).all(), (shares, probabilities)


@in_each_case
def test_arms_are_played_as_often_as_values_and_costs_say(name, kind):
    available = MASK if CASES.index((name, kind)) % 2 else None
    alone, features = taught(name, kind, None)
    lanes, many = taught(name, kind, NUM_LANES)
    asked = PRICES | {"available": available}
    law, errors = alone.action_probabilities(features, **asked, return_error=True)
    if name == "smc":  # each lane has particles of its own
        errors = np.sqrt(law * (1 - law) / WORTH)
    actions = lanes.act(many, **asked)
    assert_frequent(np.bincount(actions, minlength=3) / NUM_LANES, law, errors)
    assert available is None or not law[1]
    decided = alone.decide(features, **asked, floor=0.1)
    assert decided.propensities == decided.probabilities[decided.actions] >= 0.1 - 1e-12
    possible = (0, 1, 2) if available is None else (0, 2)
    assert alone.act(features, **asked, floor=1 / 3) in possible


def test_integer_betas_have_the_law_of_draws():
    """Four deviations of a million draws."""
    agent, _ = taught("exact", "conjugate", None)
    draws = np.random.default_rng(0).beta([3, 2, 3], [3, 4, 3], size=(10**6, 3))
    worth = draws * VALUES - COSTS
    law = agent.action_probabilities(**PRICES)
    assert_played(worth.argmax(axis=1), law)
    order = np.argsort(-worth, axis=1)
    places = agent.action_probabilities(**PRICES, top=3)
    for place, row in enumerate(places):
        assert_played(order[:, place], row)
    np.testing.assert_allclose(places.sum(axis=0), 1.0, atol=1e-5)


WITH_PLACES = [
    (name, kind, prices)
    for name, kind in CASES
    for prices in (PRICES, {})
    if name in ("exact", "racing", "laplace", "smc")
]
WITH_PLACES.append(("racing", "chains", PRICES))


@pytest.mark.parametrize(("name", "kind", "prices"), WITH_PLACES)
def test_arms_have_places_as_often_as_their_probabilities_say(name, kind, prices):
    lanes, many = taught(name, kind, NUM_LANES)
    alone, features = taught(name, kind, None)
    order = lanes.act(many, **prices, top=2)
    assert order.shape == (NUM_LANES, 2) and (order[:, 0] != order[:, 1]).all()
    places = alone.action_probabilities(features, **prices, top=2)
    assert places.shape == (2, 3)
    worth = WORTH if name == "smc" else 500  # laws of 1,000 draws are off by as much again
    for place, law in enumerate(places):
        shares = np.bincount(order[:, place], minlength=3) / NUM_LANES
        assert_frequent(shares, law, np.sqrt(law * (1 - law) / worth))
    assert 1 not in alone.act(features, top=2, available=MASK)
    masked = alone.action_probabilities(features, **prices, top=2, available=MASK)
    np.testing.assert_allclose(masked.sum(axis=0), MASK, atol=1e-5)


@pytest.mark.parametrize("name", ["exact", "racing", "laplace", "smc"])
def test_arms_of_equal_features_share_their_places(name):
    """The first of two once had all of their probability, and the other 0, which `act` plays."""
    problem = PROBLEMS["linear" if name == "exact" else "logistic"]
    agent, features = started(name, problem, None), np.array([[1.0, 0], [1, 0], [0, 1], [0, 1]])
    agent.observe(0, 1.0, observation=features[:3])
    law = agent.action_probabilities(features)
    places = agent.action_probabilities(features, top=4)
    np.testing.assert_array_equal(places[:, [0, 2]], places[:, [1, 3]])
    np.testing.assert_allclose(places.sum(axis=0), 1.0)
    # Shares of 1,000 draws beside those of a pool; 250 at least are independent.
    assert (abs(places[0] - law) <= 4 * np.sqrt(law * (1 - law) / 250)).all()


@pytest.mark.parametrize("kind", ["conjugate", "normal", "grid", "logistic"])
def test_the_oracle_has_the_same_probabilities(kind):
    """Within 1e-5 where both integrate, else 4 deviations of their draws."""
    agent, features = taught("racing", kind, None)
    if features is None:
        data = agent.counts, agent.sums
    else:
        data = (features, np.array([1.0, 0.0, 1.0])), features
    law, errors = agent.action_probabilities(features, **PRICES, return_error=True)
    error = 1e-5 if kind in ("conjugate", "normal") else 4 * errors.max() + 2e-3
    assert abs(action_probabilities(PROBLEMS[kind], *data, **PRICES) - law).max() <= error


def test_many_visitors_have_values_of_their_own():
    agent, features = taught("racing", "logistic", None)
    both, costs = np.stack([features, features]), np.array([COSTS, [0.0, 5.0, 5.0]])
    law = agent.action_probabilities(both, values=VALUES, costs=costs)
    np.testing.assert_allclose(law[0], agent.action_probabilities(features, **PRICES))
    assert law[1].tolist() == [1.0, 0.0, 0.0]
    assert agent.act(both, values=VALUES, costs=costs, size=2)[1] == 0
    assert agent.decide(both, values=VALUES, costs=costs).actions[1] == 0


def test_orders_of_arms_whose_means_are_equal_by_rounding_are_those_of_their_predictors():
    problem = ContextualProblem(Bernoulli(), Normal(0.0, 1.0), 2, 1)
    agent = started("racing", problem, NUM_LANES)
    actions = agent.act(np.tile([[40.0], [80.0]], (NUM_LANES, 1, 1)), top=1)[:, 0]
    assert_frequent(np.bincount(actions) / NUM_LANES, np.full(2, 0.5), 0.0)


def test_priced_normal_means_are_compared_in_pools_whoever_visits_beside():
    """They were shares of 1,000 draws, others in each batch, whose errors were said to be 1e-6."""
    agent, features = taught("exact", "linear", None)
    law, errors = agent.action_probabilities(features, **PRICES, return_error=True)
    both = agent.action_probabilities(np.stack([-features, features]), **PRICES)
    np.testing.assert_array_equal(both[1], law)
    worth = np.multiply(VALUES, agent.posterior(features).sample(100_000, seed=1)) - COSTS
    shares = np.bincount(worth.argmax(axis=1), minlength=3) / 100_000
    assert (abs(shares - law) <= 4 * np.hypot(errors, (law / 100_000) ** 0.5)).all()
    assert errors.max() < 0.005


@pytest.mark.parametrize(("name", "kind"), [("exact", "grid"), ("exact", "conjugate")])
def test_prices_of_one_decision_leave_how_the_next_ones_are_drawn(name, kind):
    decided = []
    for is_priced in (False, True):
        agent = started(name, PROBLEMS[kind], None)
        if is_priced:
            agent.act(costs=COSTS)
        assert agent.has_exact_probabilities is not (is_priced and kind == "grid")
        agent.reset(seed=0)
        assert agent.has_exact_probabilities
        decided.append(agent.act(size=60).tolist())
    assert decided[0] == decided[1]


@pytest.mark.parametrize("asked", [{"values": [1.0, 1.0, 1.0]}, {"top": 2}])
def test_draws_answer_for_lanes_whose_densities_are_too_steep_to_integrate(asked):
    """These once refused all lanes."""
    agent = ExactThompson(BanditProblem(Bernoulli(), Beta(0.1, 3.0), num_arms=3))
    agent.reset(2, seed=0)
    agent.warm_start([[30, 30, 30], [5, 3, 0]], [[2, 3, 4], [0, 0, 0]])
    plain = agent.action_probabilities()
    if "top" in asked:
        law = agent.action_probabilities(**asked)[:, 0]
    else:
        with pytest.warns(RuntimeWarning, match="doubted .few effective samples"):
            law, errors = agent.action_probabilities(**asked, return_error=True)
        assert errors[0].max() == 1e-6 and errors[1].min() > 0.01
    np.testing.assert_allclose(law[0], plain[0], atol=1e-6)
    assert (abs(law[1] - plain[1]) <= 4 * (0.25 / 1000) ** 0.5).all()


REFUSALS = [
    ("act", {"values": [1.0, 0.0, 2.0]}, "values must be finite and above 0, got", "0.0"),
    ("act", {"costs": [np.nan, 0.0, 0.0]}, "costs must have no NaN, got"),
    ("decide", {"costs": [0.0, 1.0]}, "costs must have shape (3,)", "got (2,)"),
    ("act", {"top": 3, "available": MASK}, "top must be", "at most 2, got 3"),
    ("act", {"top": 2, "floor": 0.1}, "top must be alone: without a size, a floor or errors, got"),
    ("act", {"floor": None}, TypeError, "floor must be a finite number", "got None"),
    ("action_probabilities", {"floor": 0.4}, "floor must be", "at most 0.333333, got 0.4"),
]


@pytest.mark.parametrize("kind", ["conjugate", "linear"])
def test_what_no_decision_takes_is_refused_in_a_sentence_and_changes_nothing(kind):
    agent, features = taught("exact", kind, None)
    arm, before = agent.act(features), agent.rng.bit_generator.state
    shown = {} if features is None else {"observation": 50 * features}
    check_refusals(lambda method, given: getattr(agent, method)(**given, **shown), REFUSALS)
    assert agent.rng.bit_generator.state == before
    if features is not None:
        agent.observe(arm, 1.0)  # of the features that it was chosen for
        assert abs(agent.evidence.features).max() == 1.0
        check_refusals(lambda method, given: getattr(agent, method)(**given, **shown), REFUSALS)
        with pytest.raises(TypeError, match="observation must be given"):
            agent.observe(arm, 1.0)


def test_rules_that_ask_more_than_the_belief_refuse_values_and_places():
    for name in ("ucb1", "racing_paper", "information_directed"):
        agent = started(name, PROBLEMS["conjugate"], None)
        text = f"values and costs must be left out for {type(agent).__name__}, whose rule takes"
        with pytest.raises(TypeError, match=re.escape(text)):
            agent.act(values=VALUES)
    with pytest.raises(TypeError, match="top must be left out for UCB1, which has no order"):
        started("ucb1", PROBLEMS["conjugate"], None).act(top=2)


def test_rewards_of_the_arms_of_one_draw_are_observed_each():
    agent, features = taught("racing", "logistic", None)
    for arm in agent.act(features, top=2):
        agent.observe(arm, 1.0, observation=features)
    assert agent.lane_counts.sum() == 5
