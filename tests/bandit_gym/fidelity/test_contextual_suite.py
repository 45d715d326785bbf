import numpy as np
import pytest
import scipy
from surface import SERIAL, cases_of

from agents.oracle import action_probabilities_with_error, importance
from bandit_gym.fidelity import run_suite
from bandit_gym.fidelity.suite import Recipe
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Normal
from bandit_gym.problem import ContextualProblem

SUITE = "contextual-v1"
MAX_ERRORS = {"polar": 1e-6, "blocks": 1e-4, "importance": 1e-4}


def test_answers_are_uncertain_and_their_errors_small():
    for case in cases_of(SUITE).values():
        num_arms, num_features = case.problem.num_arms, case.problem.num_features
        assert case.features.shape == (num_arms, num_features), case.name
        assert case.rows.shape == (case.counts.sum(), num_features), case.name
        assert case.probabilities.sum() == pytest.approx(1, abs=1e-9), case.name
        assert 0.2 <= case.probabilities.max() <= 0.9, case.name
        assert case.error <= MAX_ERRORS[case.method], case.name
        assert case.chains_distance <= 5e-3, case.name


def test_answers_of_gaussian_rewards_are_integrals_of_a_normal_distribution():
    """P(x_b . theta <= x_a . theta for all b), with theta normal in closed form."""
    names = ["disjoint, 5 arms of 20, 2,000 rows", "d = 5, 1,000 rows", "d = 20, 5,000 rows"]
    for case in (cases_of(SUITE)[f"Gaussian, {name}"] for name in names):
        prior, deviation = case.problem.prior, case.problem.likelihood.known_std
        unit = np.eye(case.problem.num_features)
        precision = unit / np.square(prior.std) + case.rows.T @ case.rows / deviation**2
        total = unit @ (prior.mean / np.square(prior.std) * np.ones(len(unit)))
        mean = np.linalg.solve(precision, total + case.rows.T @ case.rewards / deviation**2)
        found = []
        for arm, mine in enumerate(case.features):
            gaps = np.delete(case.features, arm, axis=0) - mine
            covariance = gaps @ np.linalg.solve(precision, gaps.T)
            below = scipy.stats.multivariate_normal(gaps @ mean, covariance, abseps=1e-6)
            found.append(below.cdf(np.zeros(len(gaps))))
        assert np.abs(found - case.probabilities).sum() / 2 <= case.error, case.name


def test_answers_are_found_again(monkeypatch):
    """Sampling runs with fewer draws; errors are two standard errors and are taken twice."""
    monkeypatch.setattr(importance, "BATCH_SIZE", 2048)
    for name, tolerance in [
        ("Bernoulli, d = 2, separated", 1e-6),
        ("Bernoulli, disjoint, 3 arms of 2, 60 rows", 6e-3),
        ("Exponential, d = 5, 100 rows", 6e-3),
    ]:
        case = cases_of(SUITE)[name]
        data = case.problem, (case.rows, case.rewards), case.features
        found, error = action_probabilities_with_error(*data, tolerance=tolerance)
        assert np.abs(found - case.probabilities).sum() / 2 <= 2 * (error + case.error), name


def test_arms_that_are_close_have_lost_their_true_differences():
    """All of them: where the data decide everything, all predictors are 0 in the end."""
    for design, num_features in [("shared", 3), ("disjoint", 12), ("hierarchical", 15)]:
        problem = ContextualProblem(Bernoulli(), Normal(0, 1), 4, num_features)
        recipe = Recipe(seed=3, num_rows=50, design=design, closeness=1.0)
        data = recipe.make_data(problem)
        apart = Recipe(seed=3, num_rows=50, design=design).make_data(problem)
        assert data["rewards"].tolist() == apart["rewards"].tolist(), design
        moved = apart["features"] - data["features"]
        directions = moved / np.linalg.norm(moved, axis=1, keepdims=True)
        assert np.abs((directions * data["features"]).sum(axis=1)).max() < 1e-12, design
        assert ((data["features"] != 0) == (apart["features"] != 0)).all(), design


def test_racing_is_right_where_the_laplace_approximation_is_wrong():
    agents, only = ["racing", "laplace", "ucb1"], "Bernoulli, d = 2, Laplace prior"
    settings = {"suite": SUITE, "only": only, "scale": 0.3, "workers": SERIAL}
    table = run_suite(agents, **settings).distances
    assert table["verdict"].tolist() == ["right", "WRONG", "refused"]
    assert table["decisions"].tolist()[:2] == [3000, 3000]
