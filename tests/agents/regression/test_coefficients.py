"""Posteriors of coefficients against quadrature in two dimensions, closed forms, and themselves."""

from itertools import product

import numpy as np
import pytest
import scipy
from families import DensityOnly
from learning import add_rows, learn
from surface import started

from agents.base.rows import Rows
from agents.oracle import action_probabilities
from agents.posteriors.factory import make_posterior
from agents.posteriors.weighted_draws import WeightedDraws
from agents.regression.likelihoods import TILE_ROWS, log_likelihood, make_link_code
from agents.regression.normal_fit import Data
from agents.regression.particles import ParticleCoefficients, sum_likelihoods
from agents.regression.posterior import CoefficientRace, LaplaceCoefficients
from bandit_gym.doubts import Doubt
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import Laplace, Mixture, MultivariateNormal, Normal, SharedMixture, StudentT
from bandit_gym.problem import ContextualProblem


class RingPrior:
    """A prior of a user's own, around the origin, of which only draws and a density are known."""

    def sample(self, rng, shape):
        angle, radius = rng.uniform(0, 2 * np.pi, shape[:-1]), rng.gamma(4.0, 0.3, shape[:-1])
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)

    def log_density(self, theta):
        radius = np.linalg.norm(theta, axis=-1)
        return 2 * np.log(radius + 1e-300) - radius / 0.3


LIKELIHOODS = [Bernoulli(), Gaussian(0.5), Poisson(), Exponential()]
PRIORS = [
    Normal([0.3, 0.0], [1.0, 0.5]),
    MultivariateNormal([0.5, 0.0], ((1.0, 0.5), (0.5, 2.0))),
    StudentT(3.0),
    Laplace(0.0, 0.7),
    Mixture([Normal(-1.0, 0.4), Normal(1.0, 0.4)], [0.4, 0.6]),
    SharedMixture([Normal([-1.0, 0.0], 0.5), Normal([1.0, 0.5], 0.5)], [0.4, 0.6]),
    RingPrior(),
    DensityOnly(SharedMixture([Normal(0.0, 0.1), Normal(1.0, 2.0)], [0.8, 0.2])),
]
KINDS = [CoefficientRace, LaplaceCoefficients]


def draw_rewards(rng, likelihood, eta):
    match likelihood:
        case Bernoulli():
            return (rng.random(eta.shape) < scipy.special.expit(eta)).astype(float)
        case Gaussian():
            return rng.normal(eta, likelihood.std)
        case Poisson():
            return rng.poisson(np.exp(eta)).astype(float)
    return rng.exponential(np.exp(eta))


def covariance_of(posterior):
    factor = posterior.fits.fit.factor[0]
    return factor @ factor.T


def make_data(likelihood, num_rewards, num_features=2, seed=1):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(num_rewards, num_features))
    features[num_rewards // 2 :] = features[: num_rewards - num_rewards // 2]  # equal rows
    theta = rng.normal(size=num_features) * 0.5
    return features, draw_rewards(rng, likelihood, features @ theta)


def tabulate(problem, features, rewards, num_points=451):
    """Return the points of a grid in the plane and the posterior's weights there."""
    x = np.linspace(-9, 9, num_points)
    points = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
    std = getattr(problem.likelihood, "std", 1.0)
    log_density = problem.prior.log_density(points)
    for row, reward in zip(features, rewards, strict=True):
        log_density = log_density + problem.link.log_likelihood(points @ row, 1, reward, std)
    weights = np.exp(log_density - log_density.max())
    return points, weights / weights.sum()


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: type(prior).__name__)
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda each: each.name)
def test_weighted_draws_have_the_moments_of_quadrature(likelihood, prior):
    problem = ContextualProblem(likelihood, prior, 3, 2)
    features, rewards = make_data(likelihood, 10)
    posterior = learn(CoefficientRace(problem), features, rewards, step=3)
    points, weights = tabulate(problem, features, rewards)
    mean = weights @ points
    draws = posterior.weighted_draws()
    size = draws.effective_sample_size()[0]
    std = np.sqrt(weights @ np.square(points - mean))
    fourth = np.sqrt(weights @ np.square(np.square(points - mean) - std**2))
    assert size > 500
    np.testing.assert_array_less(abs(draws.mean()[0] - mean), 4 * std / np.sqrt(size))
    np.testing.assert_array_less(abs(draws.std()[0] ** 2 - std**2), 4 * fourth / np.sqrt(size))


def name_case(value):
    return getattr(value, "__name__", type(value).__name__)


# Particles ask any prior for its density alone; those that follow the last move longest by far.
PLAYED = [*product([CoefficientRace, ParticleCoefficients], PRIORS)]
PLAYED[-1] = pytest.param(*PLAYED[-1], marks=pytest.mark.nightly)


@pytest.mark.parametrize(("kind", "prior"), PLAYED, ids=name_case)
def test_arms_are_played_as_often_as_they_are_best(kind, prior):
    likelihood = LIKELIHOODS[PRIORS.index(prior) % len(LIKELIHOODS)]
    problem = ContextualProblem(likelihood, prior, 4, 2)
    features, rewards = make_data(likelihood, 12)
    arms = np.random.default_rng(2).normal(size=(4, 2))
    num_lanes, num_plays = {CoefficientRace: (30, 100), ParticleCoefficients: (100, 30)}[kind]
    posterior = learn(kind(problem), features, rewards, num_lanes, step=3)
    belief = posterior.predict(np.tile(arms, (num_lanes, 1, 1)))
    rng = np.random.default_rng(3)
    played = np.concatenate([belief.draw_best(rng) for _ in range(num_plays)])
    best = action_probabilities(problem, (features, rewards), arms, tolerance=0.001)
    found = np.bincount(played, minlength=4) / played.size
    worth = {ParticleCoefficients: 100}.get(kind, np.inf)  # of a lane's 500, which it keeps
    error = np.sqrt(best * (1 - best) * (1 / played.size + 1 / (num_lanes * worth)))
    bias = 0.01 + 0.001  # of choosing among draws that are worth 12, and of the oracle
    np.testing.assert_array_less(abs(found - best), 4 * error + bias)


def test_weights_without_moments_or_nearly_without_noise_are_numbers():
    features, rewards = np.array([[0.35, 0.82], [0.5, -0.7]]), np.array([1.2, 0.4])
    for std, prior, size in ((1.0, StudentT(0.3, 0.0, 1.0), 1), (1e-6, Laplace(), 2)):
        posterior = CoefficientRace(ContextualProblem(Gaussian(std), prior, 3, 2))
        learn(posterior, features[:size] / std**0.6, rewards[:size] / std**0.6, 60, step=size)
        assert not np.isnan(posterior.weighted_draws().log_weights).any()


def test_one_row_under_components_of_different_widths_is_weighed_under_each():
    prior = Mixture([Normal(0.0, 0.05), Normal(0.0, 3.0)], [0.8, 0.2])
    problem = ContextualProblem(Bernoulli(), prior, 3, 2)
    arms = [[1.0, 9.0], [1.0, -9.0], [9.0, 0.0]]
    row, reward, num_lanes = np.array([[1.0, 50.0]]), np.ones(1), 100
    posterior, rng = CoefficientRace(problem), np.random.default_rng(3)
    learn(posterior, row, reward, num_lanes)
    shown = np.tile(arms, (num_lanes, 1, 1))
    played = np.ravel([posterior.draw_best_arms(rng, shown) for _ in range(40)])
    best = action_probabilities(problem, (row, reward), arms)
    error, bias = np.sqrt(best * (1 - best) / played.size), 0.01  # see above
    found = np.bincount(played, minlength=3) / played.size
    np.testing.assert_array_less(abs(found - best), 4 * error + bias)


def test_a_draw_is_worth_little_where_few_pilots_have_missed_a_component():
    """Of 40,000 draws it is worth .023; 256 pilots said .91."""
    prior = Mixture([Normal(0.0, 0.01), Normal(0.0, 5.0)], [0.9, 0.1])
    posterior = CoefficientRace(ContextualProblem(Poisson(), prior, 3, 1))
    features = np.array([-0.283, -0.124, 0.0, 0.778, 1.238, 1.528])[:, None]
    learn(posterior, features, np.array([1.0, 4.0, 2.0, 0.0, 0.0, 0.0]), step=6)
    assert posterior.fits.efficiencies < 0.1


def test_weights_left_out_where_draws_agree_would_change_no_arm():
    features, rewards = make_data(Bernoulli(), 60)
    is_own = np.arange(60)[:, None] % 2 == [0, 1]
    rng, num_lanes = np.random.default_rng(2), 300
    arms = rng.normal(size=(num_lanes, 4, 2))
    arms[:, 3] = np.nan  # not available
    arms[:30, 1] = arms[:30, 0]
    for rows in (features, features * is_own):  # one block, and two
        posterior = CoefficientRace(ContextualProblem(Bernoulli(), Normal(0.0, 1.0), 4, 2))
        learn(posterior, rows, rewards, num_lanes, step=60)
        expected = super(CoefficientRace, posterior).draw_best_arms(np.random.default_rng(4), arms)
        found = posterior.draw_best_arms(np.random.default_rng(4), arms)
        np.testing.assert_array_equal(found, expected)


def test_rows_that_move_the_fit_far_at_once_or_by_and_by_are_followed():
    rng = np.random.default_rng(0)  # counts that vary more than Poisson ones do
    features = np.column_stack([np.ones(40), rng.normal(size=(40, 2))])
    means = np.exp(features @ [3, 0.5, -0.3])
    rng.poisson(means * rng.gamma(0.5, 2, 40))
    rewards = rng.poisson(150 * means * rng.gamma(1, 1, 40)).astype(float)[:26]
    shifted = np.column_stack([np.ones(520), rng.uniform(-0.5, 0.5, 520)])
    later = np.repeat([1.0, 20.0], [400, 120])
    for x, y, std in ((features[:26], rewards, 10.0), (shifted, later, 1.0)):
        posterior = CoefficientRace(ContextualProblem(Poisson(), Normal(0.0, std), 4, x.shape[1]))
        learn(posterior, x, y)
        _, log_weights = posterior.fits.draw(rng, np.array([[4096]]))
        draws = WeightedDraws(np.zeros((1, 4096, 1)), log_weights[:, 0])
        assert draws.effective_sample_size() / 4096 > posterior.fits.efficiencies[0] / 2


def test_gaussian_rewards_under_a_normal_prior_are_fitted_exactly():
    problem = ContextualProblem(Gaussian(0.5), Normal(0.3, 2.0), 3, 4)
    features, rewards = make_data(problem.likelihood, 40, 4)
    precision = np.eye(4) / 4 + features.T @ features / 0.25
    mean = np.linalg.solve(precision, features.T @ rewards / 0.25 + 0.3 / 4)
    for kind in KINDS:
        posterior = learn(kind(problem), features, rewards)
        np.testing.assert_allclose(posterior.fits.fit.mean[0], mean, rtol=1e-9)
        covariance = covariance_of(posterior)
        np.testing.assert_allclose(covariance, np.linalg.inv(precision), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("std", [1.0, 10.0])
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda each: each.name)
def test_laplace_is_centred_where_the_density_is_flat(likelihood, std):
    problem = ContextualProblem(likelihood, Normal(0.0, std), 3, 4)
    features, rewards = make_data(likelihood, 40, 4)
    posterior = learn(LaplaceCoefficients(problem), features, rewards)
    fit, data = posterior.fits.fit, zip(features @ posterior.fits.fit.mean[0], rewards, strict=True)
    slope = [log_likelihood(posterior.fits.link, eta, 1.0, y)[1] for eta, y in data] @ features
    slope -= fit.mean[0] / std**2
    # One step of Newton's from a point within .1 standard deviations is within their square.
    assert np.sqrt(slope @ covariance_of(posterior) @ slope) < 2 * 0.1**2


def test_diagonal_laplace_draws_each_coefficient_given_all_others():
    problem = ContextualProblem(Gaussian(0.5), Normal(0.3, 2.0), 3, 4)
    features, rewards = make_data(problem.likelihood, 40, 4)
    features[:, 1] += features[:, 0]
    posterior = learn(LaplaceCoefficients(problem, covariance="diagonal"), features, rewards)
    draws = posterior.weighted_draws()
    precision = np.eye(4) / 4 + features.T @ features / 0.25
    std, size = np.diag(precision) ** -0.5, len(draws.means[0])
    error = posterior.fits.fit.mean[0] - draws.mean()[0]
    np.testing.assert_array_less(abs(error), 4 * std / np.sqrt(size))
    np.testing.assert_allclose(draws.std()[0], std, rtol=4 / np.sqrt(2 * size))
    together = np.corrcoef(draws.means[0].T)[np.triu_indices(4, 1)]
    np.testing.assert_array_less(abs(together), 4 / np.sqrt(size))


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda each: each.name)
def test_means_under_laplace_are_integrals_over_normal_predictors(likelihood):
    """Two lanes of unlike data, and two visitors of each; by adaptive quadrature of one arm."""
    problem = ContextualProblem(likelihood, Normal(0.0, 0.8), 3, 4)
    posterior = LaplaceCoefficients(problem)
    features, rewards = make_data(likelihood, 12, 4)
    rows = Rows(4)
    rows.start(2)
    for x, y in zip(features, rewards, strict=True):
        rows.add(np.array([0, 1]), np.stack([x, -x]), np.array([y, y]))
    posterior.start(np.random.default_rng(0), 2)
    posterior.update(np.random.default_rng(0), rows)
    visitors = np.random.default_rng(1).normal(size=(4, 3, 4))
    means, fit = posterior.predict(visitors).mean(), posterior.fits.fit
    for visitor, lane in enumerate([0, 1, 0, 1]):
        x = visitors[visitor, 1][fit.order]
        centre, std = x @ fit.mean[lane], np.linalg.norm(x @ fit.factor[lane])

        def weigh(z, centre=centre, std=std):
            return problem.link.mean(centre + std * z) * scipy.stats.norm.pdf(z)

        truth = scipy.integrate.quad(weigh, -12, 12, epsabs=1e-11, epsrel=1e-11)[0]
        np.testing.assert_allclose(means[visitor, 1], truth, rtol=1e-6)


@pytest.mark.parametrize("rewards", ["zeros", "separated"])
@pytest.mark.parametrize("kind", KINDS)
def test_separated_data_are_fitted(kind, rewards):
    problem = ContextualProblem(Bernoulli(), Normal(0.0, 10.0), 3, 5)
    features = np.random.default_rng(0).normal(size=(60, 5))
    posterior = learn(kind(problem), features, (features[:, 0] > 0) * float(rewards == "separated"))
    draws = posterior.predict(features[None, :3]).sample_many(np.random.default_rng(0), 100)
    assert np.isfinite(draws).all()


@pytest.mark.parametrize("likelihood", [Poisson(), Exponential()], ids=lambda each: each.name)
@pytest.mark.parametrize("prior", [Normal(0, 1), Laplace()], ids=["normal", "laplace"])
def test_rewards_that_the_prior_did_not_expect_are_fitted(likelihood, prior):
    posterior = CoefficientRace(ContextualProblem(likelihood, prior, 3, 1))
    learn(posterior, np.ones((40, 1)), np.full(40, 1000.0))
    theta = np.linspace(4.9, 8.9, 20_001)[:, None]  # around 6.9, of deviations .005 and .16
    target = posterior.problem.link.log_likelihood(theta[:, 0], 40, 40_000.0, 1.0)
    target = target + prior.log_density(theta)
    weights = np.exp(target - target.max())
    error = posterior.std()[0, 0] / np.sqrt(posterior.effective_sample_size()[0])
    expected = np.average(theta[:, 0], weights=weights)
    assert posterior.mean()[0, 0] == pytest.approx(expected, abs=4 * error)
    assert posterior.fits.efficiencies.min() > 0.5


def test_no_reward_where_a_vast_mean_was_expected_is_fitted():
    posterior = CoefficientRace(ContextualProblem(Poisson(), Normal(0.0, 10.0), 3, 1))
    learn(posterior, np.array([[16.0], [-16.0]]), np.zeros(2))  # after the first, exp(120)
    assert posterior.fits.efficiencies.min() > 0.5


def test_features_in_large_units_do_not_keep_laplace_from_the_mode():
    rng = np.random.default_rng(11)
    columns = np.ones(40), rng.normal(40, 12, 40), rng.normal(50_000, 20_000, 40)  # age, income
    features = np.stack(columns, axis=1)
    eta = features @ [-1.3, 0.02, 1e-5]
    for likelihood, score in (
        (Bernoulli(), lambda eta, y: y - scipy.special.expit(eta)),
        (Poisson(), lambda eta, y: y - np.exp(eta)),
        (Exponential(), lambda eta, y: y * np.exp(-eta) - 1),
    ):
        rewards = draw_rewards(rng, likelihood, eta)
        posterior = LaplaceCoefficients(ContextualProblem(likelihood, Normal(0, 1), 2, 3))
        learn(posterior, features, rewards)
        fit = posterior.fits.fit
        slope = score(features @ fit.mean[0], rewards) @ features - fit.mean[0]
        assert np.sqrt(slope @ covariance_of(posterior) @ slope) < 2 * 0.1**2, likelihood
        assert posterior.doubts() == [0], likelihood


def test_laplace_starts_anew_from_where_curvatures_overflow():
    """Two rewards of 0 lead far out, where the third has a likelihood of e^-1e304."""
    features, rewards = np.array([[5e4], [3e4], [4e4]]), np.array([0.0, 0.0, 1.0])
    posterior = LaplaceCoefficients(ContextualProblem(Exponential(), Normal(0, 1), 2, 1))
    learn(posterior, features, rewards)
    mean, std = posterior.fits.fit.mean[0], np.sqrt(covariance_of(posterior)[0, 0])
    slope = (rewards * np.exp(-features @ mean) - 1) @ features - mean
    assert abs(slope[0]) * std < 2 * 0.1**2 and posterior.doubts() == [0]
    posterior.fits.fit.mean[0] = np.nan
    assert posterior.doubts() == [Doubt.FEW_EFFECTIVE_SAMPLES]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("prior", "rtol"), [(Normal(0.5, 2.0), 1e-9), (StudentT(4.0), 1e-3)], ids=["normal", "t"]
)  # sites of a prior begin where its draws say, which differ, and are swept twice
def test_blocks_that_share_no_row_are_fitted_each_alone(kind, prior, rtol):
    values, rewards = make_data(Bernoulli(), 30, 3)
    arms = np.arange(30) % 2
    features = np.array([np.kron(own, x) for own, x in zip(np.eye(2)[arms], values, strict=True)])
    joint = kind(ContextualProblem(Bernoulli(), prior, 3, 6))
    learn(joint, features, rewards, step=30)
    assert joint.fits.labels.tolist() == [0, 0, 0, 3, 3, 3]
    for arm in range(2):
        alone = kind(ContextualProblem(Bernoulli(), prior, 3, 3))
        learn(alone, values[arms == arm], rewards[arms == arm], step=15)
        own = slice(3 * arm, 3 * arm + 3)
        mean, covariance = joint.fits.fit.mean[0, own], covariance_of(joint)[own, own]
        np.testing.assert_allclose(mean, alone.fits.fit.mean[0], rtol=rtol)
        np.testing.assert_allclose(covariance, covariance_of(alone), rtol=rtol)


def test_each_block_is_weighed_by_its_own_prior():
    posterior = CoefficientRace(ContextualProblem(Bernoulli(), StudentT(3.0), 2, 4))
    learn(posterior, np.eye(4), np.zeros(4), step=4)
    draws = np.random.default_rng(0).normal(size=(1, 4, 9))
    found = posterior.fits.log_prior(draws)
    np.testing.assert_allclose(np.diff(found - scipy.stats.t.logpdf(draws, 3)), 0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_without_features_says_nothing(kind):
    (features, rewards), fits = make_data(Bernoulli(), 6), []
    more = np.insert(features, 3, 0.0, axis=0), np.insert(rewards, 3, 1.0)
    for data in ((features, rewards), more):
        posterior = learn(kind(ContextualProblem(Bernoulli(), Normal(0, 1), 2, 2)), *data)
        fits.append(posterior.fits.fit)
    assert (fits[0].mean == fits[1].mean).all()
    assert (fits[0].factor == fits[1].factor).all()


def test_blocks_are_joined_by_a_row_or_by_the_prior():
    prior = MultivariateNormal(0.0, ((1.0, 0.0, 0.0), (0.0, 1.0, 0.5), (0.0, 0.5, 1.0)))
    problem = ContextualProblem(Bernoulli(), prior, 2, 3)
    apart, together = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 0.0]]), np.array([[1.0, 1.0, 0.0]])
    posterior, rewards = CoefficientRace(problem), np.array([1.0, 0.0, 1.0])
    learn(posterior, apart, rewards[:2])
    assert posterior.fits.labels.tolist() == [0, 1, 1]
    features = np.concatenate([apart, together])
    learn(posterior, features, rewards)
    assert posterior.fits.labels.tolist() == [0, 0, 0]
    at_once = learn(CoefficientRace(problem), features, rewards, step=3)
    # Swept differently often, fits to other such data differ by 1.3e-4; deviations are .8.
    np.testing.assert_allclose(posterior.fits.fit.mean, at_once.fits.fit.mean, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_lane_has_one_fit_alone_among_others_and_after_a_restart(kind):
    problem, rng = ContextualProblem(Poisson(), StudentT(3.0), 3, 2), np.random.default_rng(0)
    features, rewards = make_data(Poisson(), 20)
    alone, lanes = learn(kind(problem), features, rewards), kind(problem)
    rows = add_rows(lanes, features[::-1], rewards[::-1], num_lanes=3)
    mask = np.array([False, True, False])
    rows.restart(mask)
    lanes.restart(rng, mask)
    lanes.update(rng, rows)
    for x, reward in zip(features, rewards, strict=True):
        rows.add(np.array([1]), x[None], np.array([reward]))
        lanes.update(rng, rows)
    np.testing.assert_allclose(lanes.fits.fit.mean[1], alone.fits.fit.mean[0], rtol=1e-12)
    np.testing.assert_allclose(lanes.fits.efficiencies[1], alone.fits.efficiencies[0], rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_arms_whose_means_round_to_one_are_compared_by_their_predictors(kind):
    posterior = kind(ContextualProblem(Bernoulli(), Normal(100.0, 1.0), 2, 1))
    learn(posterior, np.zeros((0, 1)), np.zeros(0))
    belief = posterior.predict(np.array([[[1.0], [2.0]]]))
    assert (belief.sample(np.random.default_rng(1)) == 1).all()
    np.testing.assert_allclose(belief.best_arm_probabilities(), [[0, 1]], atol=1e-12)
    np.testing.assert_allclose(belief.best_arm_moments()[0], [[0, 1]], atol=1e-12)
    np.testing.assert_array_equal(belief.draw_best(np.random.default_rng(0)), [1])


def test_a_draw_that_is_worth_little_is_flagged():
    posterior = CoefficientRace(ContextualProblem(Bernoulli(), Normal(0.0, 30.0), 3, 20))
    learn(posterior, *make_data(Bernoulli(), 50, 20), step=50)
    assert posterior.fits.efficiencies[0, 0] < 0.1
    assert posterior.doubts()[0] == Doubt.FEW_EFFECTIVE_SAMPLES


def test_likelihoods_count_each_row_as_often_as_it_says():
    """A stage of SMC counts new rewards in part beside old ones; once they counted whole."""
    rng = np.random.default_rng(0)
    columns, theta = rng.standard_normal((1, 2, 4)), rng.standard_normal((1, 5, 2))
    counts, wins = np.array([[1.0, 0.25, 1.0, 0.0]]), np.array([[1.0, 0.25, 0.0, 0.0]])
    link = make_link_code(ContextualProblem(Bernoulli(), Normal(0.0, 1.0), 2, 2))
    found = sum_likelihoods(link, Data(columns, counts, wins), np.array([0]), theta)
    eta = theta @ columns
    direct = (wins[:, None] * eta - counts[:, None] * np.logaddexp(0.0, eta)).sum(axis=2)
    # Exponentials are right to 1e-11 (`exponentiate_row`): of 4 rows, in 2 sums.
    np.testing.assert_allclose(np.diff(found), np.diff(direct), rtol=0, atol=8e-11)


def test_particles_are_flagged_where_they_are_few_or_stay_where_they_were():
    cases = (3, {}, False), (3, {"move": "none"}, True), (20, {"num_particles": 40}, True)
    for num_features, options, is_flagged in cases:
        problem = ContextualProblem(Bernoulli(), Normal(0.0, 1.0), 3, num_features)
        posterior = ParticleCoefficients(problem, **options)
        learn(posterior, *make_data(Bernoulli(), 60, num_features))
        assert posterior.doubts() == [is_flagged * Doubt.PARTICLES_COLLAPSED], options
        moved = posterior.diagnostics()["acceptance"]
        assert moved == 1.0 if "move" in options else 0.1 < moved < 0.6  # best: .23 to .44


def test_a_mode_that_particles_have_lost_is_doubted_for_good():
    """Far from the 16 modes of a prior, a mode has all mass, which no particle is in at last."""
    rng = np.random.default_rng(34)
    features, rewards = rng.normal(size=(100, 4)), rng.normal(size=100)
    far_modes = Mixture([Normal(-3.0, 0.1), Normal(3.0, 0.1)], [0.5, 0.5])
    for prior, has_modes in ((far_modes, True), (StudentT(3.0), False)):
        posterior = ParticleCoefficients(ContextualProblem(Gaussian(), prior, 3, 4))
        learn(posterior, features, rewards, step=100)
        assert posterior.doubts() == [has_modes * Doubt.PARTICLES_COLLAPSED]
        if has_modes:
            means = np.array([*product([-3.0, 3.0], repeat=4)])
            covariance = np.linalg.inv(features.T @ features + 100 * np.eye(4))  # in each mode
            natural = features.T @ rewards + 100 * means
            log_masses = np.einsum("mi,ij,mj->m", natural, covariance, natural) / 2
            best = covariance @ natural[log_masses.argmax()]
            assert np.abs(posterior.mean()[0] - best).max() > 1.0


@pytest.mark.parametrize("counts", [1, 3])
@pytest.mark.parametrize("likelihood", [*LIKELIHOODS, Gaussian(1e-6)], ids=repr)
def test_weights_are_those_of_all_rows(likelihood, counts):
    problem = ContextualProblem(likelihood, Normal(0, 1), 3, 5)
    rng, num_rows = np.random.default_rng(0), TILE_ROWS + 7
    features = rng.normal(size=(num_rows, 5))
    rewards = draw_rewards(rng, likelihood, features @ np.full(5, 0.2))
    posterior = CoefficientRace(problem)
    data = np.repeat(features, counts, axis=0), np.repeat(rewards, counts)
    learn(posterior, *data, step=num_rows * counts)
    draws, fit = posterior.weighted_draws(), posterior.fits.fit
    eta, std = draws.means[0] @ features.T, getattr(likelihood, "std", 1.0)
    target = problem.link.log_likelihood(eta, counts, counts * rewards, std).sum(axis=1)
    target += problem.prior.log_density(draws.means[0])
    off = fit.root[0] @ (draws.means - fit.mean)[0].T
    target += (8 + 5) / 2 * np.log1p(np.square(off).sum(axis=0) / 8)
    np.testing.assert_allclose(np.diff(draws.log_weights[0] - target), 0, atol=1e-6)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda each: each.name)
def test_compiled_log_likelihoods_have_the_slopes_of_the_links(likelihood):
    problem = ContextualProblem(likelihood, Normal(0, 1), 3, 5)
    code, std = make_link_code(problem), getattr(likelihood, "std", 1.0)
    for eta in (-30.0, -1.0, 0.0, 2.0, 30.0):
        _, score, information = log_likelihood(code, eta, 3.0, 2.0)
        ends = eta + np.array([-1e-4, 1e-4])
        slope = np.diff(problem.link.log_likelihood(ends, 3, 2.0, std)) / 2e-4
        bend = np.diff([log_likelihood(code, end, 3.0, 2.0)[1] for end in ends]) / -2e-4
        assert [score, information] == pytest.approx([*slope, *bend], rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("arm", [0, 2])
def test_an_exponential_reward_of_zero_leaves_a_normal_posterior(arm):
    """Its log-likelihood is -eta: the coefficient is N(-std^2, std^2), and never the best."""
    problem = ContextualProblem(Exponential(), Normal(0.0, 100.0), 3, 3)
    agent = started("racing", problem)
    agent.observe(arm, 0.0, observation=np.eye(3))
    agent.act(np.eye(3))
    known = np.where(np.arange(3) == arm, 0.0, 0.5)
    np.testing.assert_allclose(agent.action_probabilities(np.eye(3)), known, atol=0.01)
    fit = agent._posterior.fits.fit
    np.testing.assert_allclose(fit.mean[0, fit.order == arm], -1e4, rtol=1e-9)
    assert not agent.diagnostics()["doubts"]


def test_exact_coefficients_are_drawn_for_each_lane():
    posterior = make_posterior(ContextualProblem(Gaussian(1.0), Normal(0.0, 1.0), 2, 2), "exact")
    agent = started("exact", posterior.problem, 2)
    for reward, known in ((3.0, 1.5), (6.0, 3.0)):
        agent.observe([0, 0], [-reward, reward], observation=np.tile(np.eye(2), (2, 1, 1)))
        posterior.update(agent.rng, agent.evidence)
        draws = posterior.sample_many(np.random.default_rng(0), 4000)
        assert draws.shape == (4000, 2, 2)
        known = [[-known, 0.0], [known, 0.0]]
        for mean in (draws.mean(axis=0), posterior.mean()):
            np.testing.assert_allclose(mean, known, atol=5 / 1000**0.5)  # of 1,000 draws or more
