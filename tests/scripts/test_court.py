"""Samplers of the court, their densities by hand, and what is made of distances and logs."""

import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special, stats

import bandit_gym as bg
from agents.base.rows import Rows
from agents.regression.posterior import CoefficientRace
from agents.rules.thompson import Thompson
from bandit_gym.fidelity import run_suite
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import Normal, StudentT
from bandit_gym.problem import ContextualProblem
from bandit_gym.rollout import rollout
from scripts.studies import court, court_page
from scripts.studies.samplers import (
    Bootstrap,
    CoefficientSampler,
    FeelGood,
    Hamiltonian,
    LinearThompson,
    Maillard,
    PolyaGamma,
    StochasticLangevin,
    Variational,
)

CLICKS = ContextualProblem(Bernoulli(), Normal([0.5, -0.5], 1.5), num_arms=3, num_features=2)
LIKELIHOODS = Bernoulli(), Gaussian(0.7), Poisson(), Exponential()
SIZE = 4000


def make_rows(problem, num_rows=25):
    """Rows of one lane, with rewards that the likelihood allows."""
    rng, rows = np.random.default_rng(0), Rows(problem.num_features)
    rows.start(1)
    for x in rng.standard_normal((num_rows, problem.num_features)):
        mean = problem.link.mean(0.3 * x.sum())
        rows.add(np.array([0]), x[None], problem.likelihood.sample(np.array([mean]), rng.random(1)))
    rows.set_decision(rng.standard_normal((1, problem.num_arms, problem.num_features)))
    return rows


def fit(sampler, rows):
    """Bring a sampler to rows, and return it."""
    sampler.start(np.random.default_rng(0), 1)
    sampler.update(np.random.default_rng(0), rows)
    return sampler


def find_moments(sampler, rows=None):
    rows = make_rows(CLICKS) if rows is None else rows
    draws = fit(sampler, rows).sample_many(np.random.default_rng(1), SIZE)[:, 0]
    return draws.mean(axis=0), np.cov(draws.T)


EXACT = {
    "Metropolis": lambda: Hamiltonian(CLICKS, step=0.9),
    "preconditioned": lambda: Hamiltonian(CLICKS, step=0.9, is_preconditioned=True),
    "several leaps": lambda: Hamiltonian(CLICKS, step=0.3, num_leaps=10, num_moves=5),
    "Gibbs": lambda: PolyaGamma(CLICKS, num_sweeps=10),
}


def sum_gammas(counts, predictors, random_state):
    """Polya-Gamma variables as Polson, Scott and Windle (2013), equation 2, define them.

    Of the infinite sum 30 terms are drawn, and the rest is its mean.
    """
    shape = np.broadcast_shapes(counts.shape, predictors.shape)
    drawn, squares = np.zeros(shape), np.square(predictors / (2 * np.pi))
    rest = counts * np.tanh(predictors / 2) / (2 * predictors)
    for k in range(30):
        rates = 2 * np.pi**2 * ((k + 0.5) ** 2 + squares)
        drawn += random_state.standard_gamma(np.broadcast_to(counts, shape)) / rates
        rest = rest - counts / rates
    return drawn + rest


@pytest.mark.parametrize("make", EXACT.values(), ids=EXACT)
def test_chains_that_are_exact_in_the_limit_have_the_moments_of_the_race(make, monkeypatch):
    package = SimpleNamespace(random_polyagamma=sum_gammas)  # the project does without it
    monkeypatch.setitem(sys.modules, "polyagamma", package)
    truth, own = find_moments(CoefficientRace(CLICKS)), find_moments(make())
    deviations = np.sqrt(np.diag(truth[1]))
    np.testing.assert_array_less(np.abs(own[0] - truth[0]) / deviations, 5 * np.sqrt(2 / SIZE))
    np.testing.assert_allclose(np.sqrt(np.diag(own[1])) / deviations, 1, atol=5 / np.sqrt(SIZE))


def test_unadjusted_chain_is_too_wide_by_what_its_step_says():
    # u <- (1 - e^2 / 2) u + e p has the variance 1 / (1 - e^2 / 4)
    problem, step = ContextualProblem(Gaussian(1.0), Normal(0.0, 1.0), 3, 2), 1.2
    rows = make_rows(problem)
    options = {"is_adjusted": False, "is_preconditioned": True}
    wide, plain = Hamiltonian(problem, step=step, **options), CoefficientRace(problem)
    ratios = np.diag(find_moments(wide, rows)[1]) / np.diag(find_moments(plain, rows)[1])
    np.testing.assert_allclose(ratios, 1 / (1 - step**2 / 4), rtol=5 * np.sqrt(4 / SIZE))


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda each: each.name)
@pytest.mark.parametrize("prior", [Normal(0.3, 0.8), StudentT(3.0, 0.2, 0.9)], ids=["normal", "t"])
def test_slopes_are_those_of_the_density(likelihood, prior):
    problem = ContextualProblem(likelihood, prior, num_arms=3, num_features=2)
    check_slopes(fit(Hamiltonian(problem, step=0.5), make_rows(problem)))


def test_slopes_of_feel_good_sampling_are_those_of_its_density():
    sampler = FeelGood(CLICKS, weight=2.0, step=0.5)
    for number in (1, 2, 3):
        rows = make_rows(CLICKS, number)
        if number == 1:
            fit(sampler, rows)
        sampler.update(np.random.default_rng(0), rows)
    assert sampler.shown.shape == (1, 2, 3, 2)  # the decisions that have had a reward
    theta = np.array([[[0.4, -0.3]]])
    best = 1 / (1 + np.exp(-(sampler.shown[0] @ theta[0, 0]).max(axis=1)))
    np.testing.assert_allclose(sampler.tilts(theta)[0], 2.0 * best.sum())
    check_slopes(sampler)


def check_slopes(sampler, step=1e-5):
    theta, unit = np.array([[[0.4, -0.3]]]), np.eye(2)
    for j in range(2):
        above, below = (sampler.log_density(theta + h * unit[j]) for h in (step, -step))
        slope = (above - below)[0, 0] / (2 * step)
        assert sampler.slopes(theta)[0, 0, j] == pytest.approx(slope, rel=1e-4, abs=1e-4)


def test_variational_bound_is_at_its_fixed_point():
    rows = make_rows(CLICKS)
    sampler = fit(Variational(CLICKS, num_rounds=200), rows)
    x, covariance = sampler.x[0].T, np.linalg.inv(sampler.precisions[0, 0])
    mean = sampler.centre[0, 0]
    xi = np.sqrt(np.einsum("ni,ij,nj->n", x, covariance + np.outer(mean, mean), x))
    precision = np.eye(2) / 1.5**2 + (x.T * np.tanh(xi / 2) / (2 * xi)) @ x
    np.testing.assert_allclose(sampler.precisions[0, 0], precision, rtol=1e-6)
    total = np.array([0.5, -0.5]) / 1.5**2 + x.T @ (rows.sums[0, :25] - 0.5)
    np.testing.assert_allclose(precision @ mean, total, rtol=1e-6)


def test_bootstrap_draws_are_modes_under_random_weights():
    """Without data they are draws of the prior."""
    rows, rng = make_rows(CLICKS), np.random.default_rng(1)
    theta = fit(Bootstrap(CLICKS, num_rounds=300), rows).draw(np.random.default_rng(1), 50)[0]
    x, sums = rows.features[0, :25], rows.sums[0, :25]
    paid, unpaid = (rng.standard_gamma(each, (1, 50, 25))[0] for each in (sums, 1 - sums))
    centre = CLICKS.prior.sample(rng, (1, 50, 2))[0]
    slopes = (paid - (paid + unpaid) * special.expit(theta @ x.T)) @ x
    np.testing.assert_allclose(slopes, (theta - centre) / 1.5**2, atol=1e-6)
    sampler = fit(Bootstrap(CLICKS), make_rows(CLICKS, 0))
    draws = sampler.sample_many(np.random.default_rng(1), SIZE)[:, 0]
    np.testing.assert_allclose(draws.mean(axis=0), [0.5, -0.5], atol=5 * 1.5 / np.sqrt(SIZE))
    np.testing.assert_allclose(draws.std(axis=0), 1.5, rtol=5 / np.sqrt(2 * SIZE))


def test_linear_sampling_is_ridge_regression_with_a_width():
    rows = make_rows(CLICKS)
    x, y = rows.features[0, :25], rows.sums[0, :25]
    precision = np.eye(2) + x.T @ x
    for is_inflated in (False, True):
        width = 0.5 * (np.sqrt(18 * np.log(26 / 0.05)) if is_inflated else 1.0)
        mean, covariance = find_moments(LinearThompson(CLICKS, is_inflated=is_inflated), rows)
        expected = width**2 * np.linalg.inv(precision)
        tolerance = 5 * np.sqrt(2 / SIZE) * expected.max()
        np.testing.assert_allclose(covariance, expected, atol=tolerance)
        error = np.abs(mean - np.linalg.solve(precision, x.T @ y))
        assert (error < 5 * np.sqrt(np.diag(expected) / SIZE)).all()


def test_stochastic_langevin_is_langevin_where_its_batches_are_large():
    """100 rows of 25 add h n^2 / (8 b) / curvature, a hundredth, to variances."""
    whole = Hamiltonian(CLICKS, step=np.sqrt(0.1), is_adjusted=False)
    parts = StochasticLangevin(CLICKS, step=0.05, batch=100)
    rows = make_rows(CLICKS)
    (one, width), (other, spread) = find_moments(whole, rows), find_moments(parts, rows)
    assert (np.abs(one - other) < 5 * np.sqrt(2 * np.diag(spread) / SIZE)).all()
    np.testing.assert_allclose(np.diag(spread) / np.diag(width), 1, atol=5 * np.sqrt(4 / SIZE))


def test_maillard_weighs_arms_by_their_gaps():
    agent = Maillard(CLICKS)
    agent.reset(1, seed=0)
    features = np.array([[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]])
    # without data: means 0.5, -0.5, 0.5; the difference has the variance 2 * 1.5^2
    weight = np.exp(-1 / (2 * 2 * 1.5**2))
    expected = np.array([1.0, weight, 1.0]) / (2 + weight)
    np.testing.assert_allclose(agent.action_probabilities(features)[0], expected)


def test_what_a_sampler_is_not_for_is_refused():
    problem = ContextualProblem(Gaussian(1.0), Normal(0.0, 1.0), 3, 2)
    for kind in (Variational, Bootstrap, LinearThompson, StochasticLangevin):
        with pytest.raises(ValueError, match=f"Bernoulli rewards .* for {kind.__name__}"):
            kind(problem)


class Broken(CoefficientSampler):
    """Returns what it should not."""

    def __init__(self, problem, *, returned):
        super().__init__(problem)
        self.returned = np.asarray(returned)

    def draw(self, rng, size):
        return self.returned


@pytest.mark.parametrize("returned", [[[[np.nan, 1.0]]], [[[1.0]]]], ids=["NaN", "too few"])
def test_a_broken_sampler_is_refused_by_name(returned):
    agent = Thompson(CLICKS, posterior=Broken(CLICKS, returned=returned))
    agent.reset(1, seed=0)
    with pytest.raises(ValueError, match="Broken"):
        agent.act(np.ones((1, 3, 2)))


class Careless(CoefficientSampler):
    """Draws by the generator of the whole process."""

    def draw(self, rng, size):
        return np.random.standard_normal((len(self.x), size, 2))  # noqa: NPY002


def test_a_sampler_that_draws_by_the_shared_generator_is_refused_by_name():
    env = bg.make("ContextualBandit-v0", num_arms=3, num_features=2)
    problem = env.unwrapped.problem
    refusal = "must draw by the rng or seed that it is given, .* got .*Careless"
    with pytest.raises(ValueError, match=refusal):
        rollout(Thompson(problem, posterior=Careless(problem)), env, seed=0)
    options = {"suite": "contextual-v1", "only": "Bernoulli, d = 2, 10 rows"}
    found = run_suite({"mine": Careless}, **options, scale=0.1, workers=bg.Workers("serial"))
    assert re.search(refusal, found.failures[0])


def test_a_posterior_is_put_to_the_suite_by_its_name():
    named = {"linear": {"agent": "scripts.studies.samplers:LinearThompson", "is_inflated": True}}
    options = {"suite": "contextual-v1", "only": "Bernoulli, d = 2, 10 rows"}
    found = run_suite(named, **options, scale=0.1, workers=bg.Workers("serial")).distances
    assert found["status"].tolist() == ["measured"]
    assert found["excess"].min() > 0.1


# -- Measures --------------------------------------------------------------------------------------


def test_shares_are_weights_of_the_draws_under_which_an_arm_is_best():
    draws = np.array([[[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]]])
    features = np.array([[[[1.0, 0.0], [0.0, 1.0]], [[-1.0, -1.0], [0.0, 0.0]]]])
    np.testing.assert_allclose(court.share_draws(draws, features)[0], [[1 / 3, 2 / 3], [0, 1]])
    weighted = court.share_draws(draws, features, np.array([[0.5, 0.25, 0.25]]))
    np.testing.assert_allclose(weighted[0], [[0.5, 0.5], [0, 1]])


class Task:
    """A study's task, as far as the judge of logs asks it."""

    settings = {"floor": 0.01}

    def size(self, name):
        return {"logs": 400}[name]


def test_own_propensities_have_no_bias_and_others_the_one_by_hand():
    own, few = np.array([[[0.7, 0.3]] * 500]), np.array([[[0.5, 0.5]] * 500])
    means = np.array([[[0.6, 0.2]] * 500])
    policies = {"own": own, "few": few, "exact": own}
    found = court._judge_log(Task(), policies, means, np.zeros_like(means))
    # the uniform policy has 0.4; scores have (0.7 * 0.6 + 0.3 * 0.2) / (2 * 0.5) = 0.48
    assert found["bias"]["own"] == pytest.approx(0, abs=1e-12)
    assert found["bias"]["few"] == pytest.approx(0.2)
    assert found["covered"]["own"] == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / 400))
    assert found["covered"]["few"] < 0.2
    # right guesses leave nothing to the propensities; guesses of 0.1 and 0.6 leave (0.7 * 0.5 -
    # 0.3 * 0.4) / (2 * 0.5) = 0.23, beside 0.35
    right, wrong = means, np.array([[[0.1, 0.6]] * 500])
    assert court._judge_log(Task(), policies, means, right)["bias"]["few"] == pytest.approx(0)
    bias = court._judge_log(Task(), policies, means, wrong)["bias"]
    assert bias["few"] == pytest.approx((0.35 + 0.23 - 0.4) / 0.4)
    assert bias["own"] == pytest.approx(0, abs=1e-12)


def test_ranks_are_spearmans_with_small_distances_as_ties():
    distances = {"racing": 0.001, "a": 0.009, "b": 0.1, "c": 0.3}
    regrets = {"racing": 1.0, "a": 2.0, "b": 3.0, "c": 4.0}
    rng = np.random.default_rng(0)
    run = {
        f"here: {label}": {"distances": [distances[label]], "regret": regret + rng.random(20) / 9}
        for label, regret in regrets.items()
    }
    settings = {"tie": 0.01, "resamples": 50, "families": {label: [label] for label in regrets}}
    found = {"settings": settings, "numbers": run}
    estimate, low, high = court_page.correlate_ranks(found, "here", "distances", 0)
    expected = stats.spearmanr([0, 0, 0.1, 0.3], [1, 2, 3, 4]).statistic
    assert estimate == pytest.approx(expected)
    assert low <= estimate <= high


def test_regret_lost_is_a_ratio_of_two_estimates():
    """Twice racing's regret in each instance is known to be 100 % more, whatever they vary by."""
    rng = np.random.default_rng(0)
    racing, other = rng.exponential(size=(2, 400))
    regrets = {"racing": racing, "twice": 2 * racing, "other": other}
    found = {"numbers": {f"here: {label}": {"regret": each} for label, each in regrets.items()}}
    np.testing.assert_allclose(court_page.find_lost(found, "here", "twice"), 1.0)
    lost = court_page.find_lost(found, "here", "other")
    assert lost.mean() == pytest.approx(other.mean() / racing.mean() - 1)
    drawn = rng.integers(400, size=(4000, 400))
    spread = (other[drawn].mean(axis=1) / racing[drawn].mean(axis=1)).std()
    # Of the bootstrap's deviation, four errors of 1 / sqrt(2 * 4,000), and 2 % of curvature.
    assert lost.std() / 400**0.5 == pytest.approx(spread, rel=4 / 8000**0.5 + 0.02)


def test_a_distance_from_an_aim_that_is_not_known_is_left_blank():
    run = {"distances": [0.01, 0.2], "own": [-0.001, None]}
    settings = {"steps": [10, 100], "environments": ["here"]}
    (cells,) = court_page._aim_cells({"settings": settings, "numbers": {"here: b = 1": run}})
    assert (cells["at 10"], cells["at 100"]) == ("0.010, -0.001", "0.200, –")
