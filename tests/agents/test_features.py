"""Agents whose arms have features: what they take, refuse and learn, and the closed form."""

import re
from functools import partial
from importlib import import_module
from itertools import product

import numpy as np
import pytest
from scipy import stats
from surface import assert_played, started

from agents import load
from bandit_gym.envs import BanditEnv, BanditVectorEnv
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import MultivariateNormal, Normal
from bandit_gym.problem import ContextualProblem

STD = 0.5
COVARIANCE = np.array([[1.0, 0.5, 0.0], [0.5, 2.0, 0.3], [0.0, 0.3, 1.0]])
PRIOR = MultivariateNormal([0.2, 0.0, 0.0], COVARIANCE.tolist())
LINEAR = ContextualProblem(Gaussian(STD), PRIOR, 4, 3)
LOGISTIC = ContextualProblem(Bernoulli(), Normal(0.0, 1.0), 4, 3)
X = np.random.default_rng(0).normal(size=(6, 4, 3))


exact = partial(started, "exact", LINEAR)


def joint(rows, rewards, features):
    """Return mean and covariance of (K, d) @ theta given rewards, by conditioning them jointly.

    It inverts the (t, t) covariance of rewards, and shares no formula with the agent.
    """
    prior, rows = np.array([0.2, 0, 0]), np.array(rows)
    gain = COVARIANCE @ rows.T
    gain = gain @ np.linalg.inv(rows @ gain + STD**2 * np.eye(len(rows)))
    mean = prior + gain @ (np.array(rewards) - rows @ prior)
    return features @ mean, features @ (COVARIANCE - gain @ rows @ COVARIANCE) @ features.T


def test_the_closed_form_is_that_of_jointly_normal_rewards(rng):
    agent, rows, rewards = exact(2), [[], []], [[], []]
    for step in range(30):
        shown = X[[step % 5, rng.integers(6)]]  # some come again, and are collapsed
        actions, paid = agent.act(shown), rng.normal(size=2)
        agent.observe(actions, paid)
        for lane in range(2):
            rows[lane].append(shown[lane, actions[lane]])
            rewards[lane].append(paid[lane])
    assert agent.evidence.sizes.max() < 30  # equal rows are one
    snapshot = agent.posterior(X[[1, 2]])
    pair = agent.posterior(X[[1, 2], :2])  # whose losses differ as their means do
    np.testing.assert_allclose(np.diff(pair.expected_loss()), -np.diff(pair.mean()))
    for lane, features in enumerate(X[[1, 2]]):
        mean, covariance = joint(rows[lane], rewards[lane], features)
        expected = stats.norm(mean, np.sqrt(np.diag(covariance)))
        np.testing.assert_allclose(snapshot.mean()[lane], expected.mean(), atol=1e-12)
        np.testing.assert_allclose(snapshot.std()[lane], expected.std(), atol=1e-12)
        np.testing.assert_allclose(snapshot.quantile(0.9)[lane], expected.ppf(0.9), atol=1e-12)
        np.testing.assert_allclose(snapshot.density([0.1])[0, lane], expected.pdf(0.1), atol=1e-12)
        mean, covariance = joint(rows[lane], rewards[lane], np.eye(3))
        np.testing.assert_allclose(snapshot.coefficients.mean()[lane], mean, atol=1e-12)
    with pytest.raises(TypeError, match="predictive must be asked of arms, got 'coefficients'"):
        snapshot.coefficients.predictive(3)


def test_two_arms_have_exact_probabilities_and_more_have_those_of_draws():
    agent, features = exact(), X[0]
    pair = started("exact", ContextualProblem(Gaussian(STD), PRIOR, 2, 3))
    assert pair.has_exact_probabilities and not agent.has_exact_probabilities
    agent.observe(1, 0.7, observation=features)
    for num_arms in (2, 4):
        mean, covariance = joint([features[1]], [0.7], features[:num_arms])
        draws = np.random.default_rng(1).multivariate_normal(mean, covariance, 200_000)
        expected = np.bincount(draws.argmax(axis=1), minlength=num_arms) / len(draws)
        found = agent.action_probabilities(features[:num_arms])
        size = min(np.ravel(agent.posterior(features[:num_arms]).effective_sample_size())[0], 2e5)
        np.testing.assert_array_less(abs(found - expected), 4 * np.sqrt(0.25 / size + 0.25 / 2e5))
        assert_played([agent.act(features[:num_arms]) for _ in range(2000)], expected)
        assert agent.has_exact_probabilities == (num_arms == 2)


def test_arms_with_coefficients_of_their_own_have_integrals_and_others_a_pool():
    """Losses are averages of 6,144 draws, within four standard errors of those of a million."""
    rng, ends = np.random.default_rng(0), ([0.5, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.5])
    agent = started("exact", ContextualProblem(Gaussian(1.0), Normal(0.0, 1.0), 3, 3))
    for row in np.tile(ends, (7, 1)):
        agent.observe(0, rng.normal(), observation=row)
    alone, together = agent.posterior(np.array(ends)), agent.posterior(X[0, :3])
    assert alone.best_arm_error() == 0 and np.isinf(alone.effective_sample_size())
    assert 0 < together.best_arm_error() < 0.02 and together.effective_sample_size() == 6144
    for snapshot in (alone, together):
        draws = snapshot.sample(10**6, seed=1)
        losses = draws.max(axis=1, keepdims=True) - draws
        error = losses.std(axis=0) * (1 / 6144 + 1e-6) ** 0.5
        assert (abs(snapshot.expected_loss() - losses.mean(axis=0)) < 4 * error).all()


@pytest.mark.parametrize(("floor", "known"), [(0.01, [0.98, 0.01, 0.01]), (0.2, [0.6, 0.2, 0.2])])
def test_arms_at_a_floor_have_no_error(floor, known):
    agent = started("exact", ContextualProblem(Gaussian(1.0), Normal(0.0, 1.0), 3, 2))
    agent.warm_start([300, 300], [300.0, -300.0], observation=np.eye(2))
    arms = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]])
    found, errors = agent.action_probabilities(arms, floor=floor, return_error=True)
    np.testing.assert_allclose(found, known, rtol=1e-12)
    assert (errors == 1e-6).all()


INTERRUPTED = {
    "exact": (LINEAR, "agents.base.rows.add_rows_to_roots", False),
    "racing": (LOGISTIC, "agents.regression.fits.update_sites", True),
}


@pytest.mark.parametrize("name", INTERRUPTED)
def test_an_interrupt_neither_loses_data_nor_counts_them_twice(name, monkeypatch):
    """It comes while a function is compiled, or when it returns, its work done."""
    (problem, target, is_done), agents = INTERRUPTED[name], []
    module, _, function = target.rpartition(".")
    whole = getattr(import_module(module), function)

    def stop(*arguments):
        if is_done:
            whole(*arguments)
        raise KeyboardInterrupt

    for is_stopped in (True, False):
        agent = started(name, problem)
        for row in X[:3].reshape(-1, 3):
            agent.observe(0, float(row[0] > 0), observation=row)
        if is_stopped:
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(target, stop)
                agent.act(X[3])
        agent.act(X[3])
        agents.append(agent.action_probabilities(X[4]))
    np.testing.assert_array_equal(*agents)


def test_draws_of_a_posterior_are_limited_by_arms_and_not_by_rows(monkeypatch):
    monkeypatch.setattr("agents.snapshots.snapshot.MAX_DRAWN_VALUES", 60)
    snapshot = exact().posterior(X[0, :3])
    assert snapshot.sample(20).shape == (20, 3)
    with pytest.raises(ValueError, match="size must be at most 20, got 21"):
        snapshot.sample(21)


def test_equal_features_are_a_tie_that_is_shared():
    agent = exact()
    assert agent.action_probabilities(X[0][[1, 1]]).tolist() == [0.5, 0.5]
    assert agent.action_probabilities(X[0][[1, 1]] * 0).tolist() == [0.5, 0.5]
    assert agent.action_probabilities(X[0][:1]).tolist() == [1.0]


def test_a_reward_is_for_the_features_of_the_last_act_in_any_of_five_ways():
    actions, rewards, masks = np.array([1, 3]), np.array([0.5, -1.0]), np.eye(2, dtype=bool)
    ways = [
        [(None, None)],
        [(mask, None) for mask in masks],
        [(None, X[:2])],
        [(None, X[[0, 1], actions])],
        [(mask, np.where(mask[:, None, None], X[:2], np.nan)) for mask in masks],
    ]
    found = []
    for calls in ways:
        agent = exact(2)
        agent.act(X[:2])
        for mask, observation in calls:
            agent.observe(actions, rewards, mask, observation=observation)
        found.append(agent.posterior(X[2:4]).mean())
    assert (np.array(found) == found[0]).all()


@pytest.mark.parametrize("ask", ["act", "decide"])
def test_a_reward_after_many_decisions_that_failed_needs_its_observation(ask, monkeypatch):
    agent = exact()
    method = {"act": "_choose_many", "decide": "_prepare_decision"}[ask]
    monkeypatch.setattr(agent, method, lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        getattr(agent, ask)(X[:3], size=3)
    with pytest.raises(TypeError, match="observation must be given"):
        agent.observe(1, 2.0)


def test_a_saved_agent_still_knows_which_features_wait_for_a_reward(tmp_path):
    agent = exact(2)
    agent.act(X[:2])
    agent.observe([1, 1], [1.0, 0.0], np.array([True, False]))
    agent.save(tmp_path / "agent")
    loaded = load(tmp_path / "agent")
    with pytest.raises(TypeError, match="observation must be given"):
        loaded.observe([1, 1], [1.0, 0.0])
    for each in (agent, loaded):
        each.observe([1, 1], [1.0, 0.0], np.array([False, True]))
    assert (loaded.posterior(X[:2]).mean() == agent.posterior(X[:2]).mean()).all()


def test_a_late_reward_leaves_the_features_of_the_last_act_for_their_own():
    late, prompt = exact(), exact()
    first = late.act(X[0])
    second = late.act(X[1])
    late.observe(first, 1.0, observation=X[0][first])
    late.observe(second, -1.0)
    for features, action, reward in [(X[0], first, 1.0), (X[1], second, -1.0)]:
        prompt.observe(action, reward, observation=features)
    found, expected = (agent.posterior(X[2]).mean() for agent in (late, prompt))
    np.testing.assert_allclose(found, expected, atol=1e-13)


def test_a_run_takes_any_number_of_arms_at_each_step():
    for name in ("exact", "random", "epsilon_greedy", "top_two", "bayes_ucb"):
        agent = started(name, LINEAR)
        for num_arms in (2, 9, 1, 4):
            features = np.random.default_rng(num_arms).normal(size=(num_arms, 3))
            assert agent.action_probabilities(features).shape == (num_arms,)
            action = agent.act(features)
            assert 0 <= action < num_arms
            agent.observe(action, 0.5)


NAN = np.where(np.eye(4, 3, dtype=bool), np.nan, X[0])
SHAPE = "be features of shape (K, 3)"
GIVEN, ROW = {"observation": X[0]}, {"observation": X[0, 0, :2]}
FINITE = "observation must have finite features, of at most 1e+100, got nan."
NEEDED = "observation must be given where"
ROWS, TOTALS = "be features of shape (4, K, 3), or (4, 3) of the arm pulled", [1.0, 0, 0, 0]
HELD, SIZES = "counts must have shape (4, 4), as the", "weight must have shape (1,), got"
WEIGHT = "weight must be a number above 0 and at most 2**53, got "
BAD_FEATURES = [
    ("act", (), {}, TypeError, f"observation must {SHAPE}, got None."),
    ("act", (X[0].T,), {}, ValueError, f"observation must {SHAPE}, got shape (3, 4)."),
    ("act", (X[0][:0],), {}, ValueError, f"observation must {SHAPE}, got shape (0, 3)."),
    ("act", (NAN,), {}, ValueError, FINITE),
    ("act", ("abc",), {}, TypeError, f"observation must {SHAPE}, got 'abc'."),
    ("action_probabilities", (), {}, TypeError, f"observation must {SHAPE}, got None."),
    ("posterior", (NAN,), {}, ValueError, FINITE),
    ("observe", (0, 0.5), {"observation": NAN}, ValueError, FINITE),
    ("observe", (0, 0.5), ROW, ValueError, f"{SHAPE}, or (3,) of the arm pulled, got shape (2,)."),
    ("observe", (0, 0.5), {}, TypeError, NEEDED),
    ("warm_start", ([1, 0, 0, 0], TOTALS), {}, TypeError, f"observation must {ROWS}, got None."),
    ("warm_start", ([1, 0, -2, 0], TOTALS), GIVEN, ValueError, "got -2.0 for row 2."),
    ("warm_start", ([0, 0, 0, 0], TOTALS), GIVEN, ValueError, "got 1.0 for row 0."),
    ("warm_start", ([[1, 1]], [[0.0, 1]]), GIVEN, ValueError, "got shape (4, 3)."),
    ("warm_start", (TOTALS, TOTALS), {"observation": X[:4]}, ValueError, HELD),
    ("act", (1e101 * X[0],), {}, ValueError, "must have finite features, of at most 1e+100, got"),
    ("observe", (0, 0.5), GIVEN | {"weight": 0.0}, ValueError, f"{WEIGHT}0.0."),
    ("observe", (0, 0.5), GIVEN | {"weight": np.nan}, ValueError, f"{WEIGHT}nan."),
    ("observe", (0, 0.5), GIVEN | {"weight": "2"}, TypeError, f"{WEIGHT}'2'."),
    ("observe", (0, 0.5), GIVEN | {"weight": [1.0, 2.0]}, ValueError, SIZES),
]


def test_lanes_have_features_each_and_bad_problems_are_refused():
    agent = exact(2)
    for wrong in (X[:3], X[0]):
        with pytest.raises(ValueError, match=re.escape("of shape (2, K, 3), got shape")):
            agent.act(wrong)
    for arguments, text in [
        ((Normal(0.0, 1.0), 1, 3), "num_arms must be an integer of at least 2, got 1"),
        ((Normal(0.0, 1.0), 4, 0), "num_features must be a positive integer, got 0"),
        ((PRIOR, 4, 2), "prior must have 2 values in its lists of parameters, as num_features"),
    ]:
        with pytest.raises(ValueError, match=text):
            ContextualProblem(Gaussian(STD), *arguments)


@pytest.mark.parametrize(("method", "arguments", "options", "error", "text"), BAD_FEATURES)
def test_bad_calls_are_refused_and_nothing_is_learned(method, arguments, options, error, text):
    agent, twin = exact(), exact()
    for each in (agent, twin):
        each.observe(each.act(X[0]), 0.5)
    with pytest.raises(error, match=re.escape(text)):
        getattr(agent, method)(*arguments, **options)
    assert agent.act(X[1]) == twin.act(X[1])
    assert agent.posterior(X[2]).mean().tolist() == twin.posterior(X[2]).mean().tolist()
    assert agent.rng.random() == twin.rng.random()


def test_a_lane_that_begins_again_has_no_features_for_a_reward():
    agent = exact(2)
    agent.act(X[:2])
    agent.reset_lanes(np.array([True, False]))
    agent.observe([0, 0], [1.0, 1.0], np.array([False, True]))
    with pytest.raises(TypeError, match="observation must be given"):
        agent.observe([0, 0], [1.0, 1.0], np.array([True, False]))
    assert agent.evidence.counts.sum(axis=1).tolist() == [0, 1]


def test_a_lane_that_begins_again_learns_as_a_fresh_one():
    agent, fresh = exact(2), exact(2)
    for row in X[:3, 0]:
        agent.observe([0, 0], [1.0, 2.0], observation=[row, row])
    agent.act(X[:2])  # from here on roots are kept
    agent.reset_lanes(np.array([True, False]))
    for each, row in product((agent, fresh), X[2:4, 0]):
        each.observe([0, 0], [-1.0, 2.0], observation=[row, row])
    found, expected = (each.posterior().coefficients.mean()[0] for each in (agent, fresh))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert agent.evidence.sizes.tolist() == [2, 4]


def assert_near(found, law):
    """Compare shares of 4,096 draws with those of as many: four errors of the difference."""
    assert (abs(found - law) <= 4 * np.sqrt(2 * law * (1 - law) / 4096)).all(), (found, law)


@pytest.mark.parametrize("name", ["racing", "laplace"])
def test_probabilities_after_a_reset_are_those_of_a_fresh_agent(name):
    """They were once those before it, if as many rewards of the same rows had been asked about."""
    agent, fresh = (started(name, LOGISTIC, 2) for _ in range(2))

    def observe(each, reward, mask=None):
        for _ in range(3):
            each.observe([0, 0], [reward, reward], mask, observation=X[:2])

    observe(fresh, 0.0)
    expected = fresh.action_probabilities(X[2:4])
    observe(agent, 1.0)
    before = agent.action_probabilities(X[2:4])
    agent.reset(2, seed=1)
    observe(agent, 0.0)
    np.testing.assert_array_equal(agent.action_probabilities(X[2:4]), expected)
    agent.reset_lanes(np.array([True, False]))
    observe(agent, 1.0, [True, False])
    found = agent.action_probabilities(X[2:4])
    assert_near(found, np.array([before[0], expected[1]]))  # the lanes' draws are not the same
    assert abs(before - expected).max() > 0.2


@pytest.mark.parametrize("likelihood", [Bernoulli(), Gaussian(STD)], ids=["bernoulli", "gaussian"])
def test_rows_of_next_to_nothing_say_nothing(likelihood):
    """Radial features far from their centres are such; probabilities were NaN from there on."""
    problem = ContextualProblem(likelihood, Normal(0.0, 1.0), 4, 3)
    agent, fresh = (started("racing", problem) for _ in range(2))
    agent.observe(0, 1.0, observation=np.array([1e-155, 0.0, 0.0]))
    found, expected = (each.action_probabilities(X[0]) for each in (agent, fresh))
    assert_near(found, expected)


@pytest.mark.parametrize("name", ["racing", "laplace", "smc"])
def test_draws_of_means_are_worth_as_many_as_those_of_the_coefficients(name):
    agent = started(name, LINEAR)
    agent.observe(0, 1.0, observation=X[0])
    snapshot = agent.posterior(X[0])
    size = snapshot.effective_sample_size()
    assert size == pytest.approx(snapshot.coefficients.effective_sample_size()) and size > 100
    # Each of 4 frequencies p in n draws errs by sqrt(2 p (1 - p) / (pi n)) on average.
    assert snapshot.best_arm_error() <= 4 * np.sqrt(0.5 / (np.pi * size))


@pytest.mark.parametrize("name", ["exact", "racing", "laplace", "smc"])
def test_a_posterior_without_features_knows_coefficients_alone(name):
    agent = started(name, LINEAR)
    agent.observe(0, 1.0, observation=X[0])
    snapshot = agent.posterior()
    assert snapshot.coefficients.mean().shape == snapshot.coefficients.std().shape == (3,)
    assert snapshot.coefficients.sample(5, seed=0).shape == (5, 3)
    mean, covariance = joint(X[0][:1], [1.0], np.eye(3))
    size = np.minimum(1000, snapshot.coefficients.effective_sample_size())  # of draws, or none
    std = np.sqrt(np.diag(covariance) / size)
    np.testing.assert_array_less(abs(snapshot.coefficients.mean() - mean), 4 * std)
    assert "3 coefficients after 1 pull" in repr(snapshot) == repr(snapshot.coefficients)
    assert "4 arms after 1 pull" in repr(agent.posterior(X[0]))
    with pytest.raises(TypeError, match="observation must be given to posterior"):
        snapshot.mean()


def test_lin_ucb_with_a_block_of_features_an_arm_is_algorithm_1_of_its_paper(rng):
    """Li et al. (2010): A_a = I + D' D and b_a = D' c of each arm's own visits."""
    num_arms, size, alpha = 4, 3, 0.7
    problem = ContextualProblem(Bernoulli(), Normal(0.0, 1.0), num_arms, num_arms * size)
    agent = started("lin_ucb", problem, alpha=alpha)
    a, b = np.tile(np.eye(size), (num_arms, 1, 1)), np.zeros((num_arms, size))
    for _ in range(50):
        x, reward = rng.normal(size=size), float(rng.random() < 0.4)
        inverse = np.linalg.inv(a)
        bounds = np.einsum("aij,aj->ai", inverse, b) @ x
        bounds += alpha * np.sqrt(np.einsum("i,aij,j->a", x, inverse, x))
        action = agent.act(np.kron(np.eye(num_arms), x))
        assert bounds[action] == pytest.approx(bounds.max(), rel=1e-12)
        agent.observe(action, reward)
        a[action] += np.outer(x, x)
        b[action] += reward * x
    loaded = started("lin_ucb", problem)
    loaded.evidence = agent.evidence.replace_rows(np.zeros(64, dtype=bool), np.zeros((64, 2)))
    loaded.decide(np.kron(np.eye(num_arms), x))
    assert loaded.evidence._roots is not None  # as `act` has it; else each copy makes them of all


def test_what_means_nothing_with_features_is_refused():
    agent = started("racing", LOGISTIC)
    for ask in (agent.race, lambda: agent.counts, lambda: agent.sums):
        with pytest.raises(TypeError, match="must be asked where arms have no features"):
            ask()
    for make in (BanditEnv, partial(BanditVectorEnv, 2)):
        with pytest.raises(ValueError, match="problem must have no features for Bandit"):
            make(LOGISTIC)
