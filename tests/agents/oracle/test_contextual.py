import numpy as np
import pytest
from refusals import check_refusals
from scipy.special import expit
from scipy.stats import norm

from agents.oracle import action_probabilities, action_probabilities_with_error, importance
from agents.oracle.chains import NUM_CHAINS, PosteriorTarget, find_wins, temper_draws
from agents.oracle.contextual import find_blocks, polar_probabilities
from agents.oracle.importance import combine_arms, one_posterior
from agents.oracle.panels import ToleranceError
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.numerics.streams import make_generator
from bandit_gym.priors import Laplace, Mixture, MultivariateNormal, Normal, StudentT
from bandit_gym.problem import ContextualProblem

NOTHING = np.zeros((0, 2)), np.zeros(0)
THREE = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(importance, "BATCH_SIZE", 2048)


def _posterior(num_features, num_arms=2, num_rows=12, std=1.5, unit=1.0):
    """Return a problem with Gaussian rewards, data, features, and the posterior's two moments.

    The last feature is that many times as large as the others.
    """
    rng = make_generator(f"Gaussian rewards, d = {num_features}")
    problem = ContextualProblem(Gaussian(std), Normal(0.3, 0.8), num_arms, num_features)
    rows, features = rng.normal(size=(num_rows, num_features)), rng.normal(size=(2, num_features))
    rewards = rows.sum(axis=1) + std * rng.normal(size=num_rows)
    rows[:, -1] *= unit
    features[:, -1] *= unit
    covariance = np.linalg.inv(np.eye(num_features) / 0.8**2 + rows.T @ rows / std**2)
    mean = covariance @ (rows.T @ rewards / std**2 + 0.3 / 0.8**2)
    return problem, (rows, rewards), features, mean, covariance


def _chance_of_first(features, mean, covariance):
    gap = features[0] - features[1]
    return norm.cdf(gap @ mean / np.sqrt(gap @ covariance @ gap))


@pytest.mark.parametrize(("num_features", "unit"), [(1, 1.0), (2, 1.0), (3, 1.0), (2, 5e4)])
def test_polar_coordinates_match_normal_posteriors(num_features, unit):
    problem, evidence, features, mean, covariance = _posterior(num_features, unit=unit)
    found, error = action_probabilities_with_error(problem, evidence, features)
    assert found[0] == pytest.approx(_chance_of_first(features, mean, covariance), abs=1e-6)
    assert error < 1e-6


def test_polar_coordinates_match_a_posterior_that_is_narrow_and_far_from_the_origin():
    problem = ContextualProblem(Gaussian(1e-3), Normal(0, 10), 2, 2)
    rows, features = np.eye(2), np.array([[1.0, 0.0], [0.0, 1.0]])
    found = action_probabilities(problem, (rows, [5.0, 5.0005]), features)
    assert found[0] == pytest.approx(norm.cdf(-0.0005 / 2**0.5 / 1e-3), abs=1e-5)


def test_a_probability_is_no_more_than_one():
    """NumPy's `multinomial` refuses 1 + 9e-16, which a sum over cones may come to."""
    problem = ContextualProblem(Gaussian(0.1), Normal(0, 10), 3, 2)
    features = np.random.default_rng(3).normal(size=(3, 2))
    found = action_probabilities(problem, (np.eye(2), [5.1, 1.0]), features)
    assert found.max() == 1.0
    assert np.random.default_rng(0).multinomial(9, found).tolist() == [9, 0, 0]


def test_sampling_matches_a_normal_posterior():
    problem, evidence, features, mean, covariance = _posterior(6)
    found, error = action_probabilities_with_error(problem, evidence, features, tolerance=4e-3)
    assert found[0] == pytest.approx(_chance_of_first(features, mean, covariance), abs=2 * error)


def test_chains_end_as_draws_of_a_normal_posterior():
    problem, (rows, rewards), _, mean, covariance = _posterior(5)
    target = PosteriorTarget(problem, rows, np.ones(12), rewards)
    draws = temper_draws(make_generator("chains"), target)
    tolerance = 5 * np.sqrt(np.diag(covariance) / NUM_CHAINS)
    assert (np.abs(draws.mean(axis=0) - mean) < tolerance).all()
    error = np.sqrt(2 * np.square(covariance).sum() / NUM_CHAINS)  # of a trace, of normal draws
    assert np.trace(np.cov(draws.T)) == pytest.approx(np.trace(covariance), abs=4 * error)


def test_a_sector_has_its_angles_share_of_a_round_prior():
    angles = np.array([0.1, 0.4, 1.9, 3.0, 4.5])
    features = np.column_stack([np.cos(angles), np.sin(angles)])
    problem = ContextualProblem(Bernoulli(), Normal(0, 3), 5, 2)
    gaps = np.diff(np.append(angles, angles[0] + 2 * np.pi)) / (2 * np.pi)
    assert action_probabilities(problem, NOTHING, features) == pytest.approx(
        (gaps + np.roll(gaps, 1)) / 2, abs=1e-6
    )


def test_planes_of_kinks_are_ends():
    """P(theta_1 > max(theta_2, 0)) = (1 + b / (a + b)) / 4 with rates a and b."""
    problem = ContextualProblem(Poisson(), Laplace(0.0, [1.0, 0.5]), 3, 2)
    found, error = action_probabilities_with_error(problem, NOTHING, THREE)
    assert found == pytest.approx([(1 + 2 / 3) / 4, (1 + 1 / 3) / 4, 1 / 4], abs=1e-6)
    assert error < 1e-4


@pytest.mark.parametrize(
    ("likelihood", "prior"),
    [
        (Bernoulli(), StudentT(3.0)),
        (Poisson(), Laplace()),
        (Exponential(), MultivariateNormal(0.0, ((1.0, 0.7), (0.7, 1.0)))),
    ],
    ids=lambda each: each.name,
)
def test_quadrature_and_sampling_agree(likelihood, prior):
    rng = make_generator("rows")
    problem = ContextualProblem(likelihood, prior, 3, 2)
    rows, features = rng.normal(size=(15, 2)), rng.normal(size=(3, 2))
    target = PosteriorTarget(problem, rows, np.ones(15), rng.random(15).round())
    (exact, error), (found, noise) = (
        polar_probabilities(target, features),
        one_posterior(target, features, 5e-3),
    )
    assert np.abs(found - exact).sum() / 2 < error + 2 * noise


def test_arms_of_their_own_are_treated_one_by_one():
    rng = make_generator("blocks")
    visitor = rng.normal(size=3)
    features = np.kron(np.eye(2), visitor)
    problem = ContextualProblem(Bernoulli(), Normal(0, 1), 2, 6)
    rows = np.kron(np.eye(2), rng.normal(size=(10, 3)))
    rewards = (rng.random(20) < expit(rows.sum(axis=1))).astype(float)
    target = PosteriorTarget(problem, rows, np.ones(20), rewards)
    assert [block.tolist() for block in find_blocks(target, features)] == [[0, 1, 2], [3, 4, 5]]
    data = problem, (rows, rewards), features
    found, error = action_probabilities_with_error(*data, tolerance=4e-3)
    joint, noise = one_posterior(target, features, 4e-3)
    assert np.abs(found - joint).max() < 2 * (error + noise)
    together = MultivariateNormal(0.0, tuple(map(tuple, np.eye(6) + 0.1)))
    problem = ContextualProblem(Bernoulli(), together, 2, 6)
    assert not find_blocks(PosteriorTarget(problem, rows, np.ones(20), rewards), features)


def test_independent_arms_are_combined_by_their_weights():
    predictors = [np.array([0.0, 2.0]), np.array([1.0, 3.0])]
    found = combine_arms(predictors, [np.array([0.25, 0.75]), np.array([0.5, 0.5])])
    assert found == pytest.approx([0.75 * 0.5, 0.5 + 0.5 * 0.25])


def test_equal_features_share():
    problem = ContextualProblem(Bernoulli(), Normal(0, 1), 3, 2)
    found = action_probabilities(problem, NOTHING, [[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    assert found == pytest.approx([0.25, 0.5, 0.25], abs=1e-6)
    prices = {"values": [1.0, 2.0, 1.0], "tolerance": 0.02}
    found = action_probabilities(problem, NOTHING, [[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]], **prices)
    assert found[0] == found[2]


def test_bad_input_is_refused():
    problem = ContextualProblem(Bernoulli(), Normal(0, 1), 3, 2)
    rows = [
        (([[1.0]], [1.0]), THREE, "evidence must be"),
        ((NOTHING[0], NOTHING[1][:, None]), THREE, "evidence must be"),
        (([[1.0, 2.0]], [0.5]), THREE, "evidence must have rewards"),
        (NOTHING, [[1.0], [2.0]], "features must have"),
        (NOTHING, [[np.nan, 1.0], [2.0, 0.0]], "features must have no NaN"),
    ]
    check_refusals(lambda data, features: action_probabilities(problem, data, features), rows)


def test_a_tolerance_out_of_reach_is_an_error():
    problem = ContextualProblem(Bernoulli(), Laplace(), 3, 2)
    with pytest.raises(ToleranceError, match="within reach"):
        action_probabilities(problem, NOTHING, THREE, tolerance=1e-16)
    peaks = Mixture([Normal(1.0, 0.05), Normal(3.0, 0.05), Normal(-3.0, 0.05)], [5, 3, 2])
    with pytest.raises(ToleranceError, match="within reach"):  # two on a ray
        evidence = np.zeros((0, 1)), []
        action_probabilities(ContextualProblem(Gaussian(), peaks, 2, 1), evidence, [[1.0], [-1.0]])


def test_batches_end_where_the_tolerance_is_met_or_out_of_reach():
    """Two deviations of .01 add up to 2 * .01 / sqrt(n), known to 1 / sqrt(2 n) of itself."""
    rng = np.random.default_rng(0)

    def count_batches(tolerance):
        noise = []

        def estimate():
            noise.append(rng.normal(0.0, 0.01))
            return np.array([0.5 + noise[-1], 0.5 - noise[-1]])

        probabilities, error = importance.average_batches(estimate, tolerance)
        assert abs(probabilities[0] - 0.5) < 2 * error and probabilities.sum() == pytest.approx(1)
        return len(noise), error

    least = 0.02 / importance.MAX_BATCHES**0.5
    number, error = count_batches(1e-3)
    assert error <= 1e-3 and abs(number - 400) < 5 * 400 * 2 / (2 * 400) ** 0.5
    number, error = count_batches(least / 4)
    assert number == importance.MIN_BATCHES and error > least
    number, error = count_batches(least / 1.3)  # it is known to less than 0.3 after 50
    assert importance.MIN_BATCHES < number < 500 and error > least


def test_draws_without_weights_take_noise_away(monkeypatch):
    """To 0.6 of it, a ratio known to 13 %: deviations of 64 batches are to 1 / sqrt(2 * 63)."""
    problem, (rows, rewards), features, *_ = _posterior(12)
    target = PosteriorTarget(problem, rows, np.ones(len(rows)), rewards)

    def repeat(estimate, tolerance):
        return np.array([estimate()[0] for _ in range(64)]), 0.0

    monkeypatch.setattr(importance, "average_batches", repeat)
    found, _ = one_posterior(target, features, 1e-3)
    rng = make_generator("batches by weights alone")
    mixture = importance.TMixture(temper_draws(rng, target))
    batches = [importance._draw(rng, target, mixture) for _ in range(64)]
    plain = [(weights @ find_wins(theta, features))[0] for theta, weights, _ in batches]
    assert found.std() < 0.8 * np.std(plain)
