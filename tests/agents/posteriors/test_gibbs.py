import numpy as np
import pytest
from numba import njit
from scipy import stats

from agents import ExactThompson
from agents.posteriors import chains, gibbs
from agents.posteriors.chains import Axes, GibbsTarget
from agents.posteriors.conjugate import likelihood_coefficients
from agents.posteriors.starts import make_target
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import TruncatedMultivariateNormal
from bandit_gym.problem import BanditProblem

LIKELIHOODS = [Bernoulli(), Exponential(), Gaussian(), Poisson()]
CORRELATED = [[1.0, 0.8], [0.8, 1.0]]


@njit(error_model="numpy")
def gibbs_sweep(rng, means, target, num_sweeps):
    for lane in range(len(means)):
        for _ in range(num_sweeps):
            chains.sweep_arms(rng, means[lane], target, lane)


def _dependent(likelihood, covariance, **box):
    prior = TruncatedMultivariateNormal(0.5, covariance, **box)
    return BanditProblem(likelihood, prior, len(covariance))


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda each: each.name)
def test_coefficients_give_the_log_likelihood_up_to_a_constant(likelihood):
    means = np.linspace(0.1, 0.9, 9)
    features = np.stack([np.log(means), np.log1p(-means), means, means**2, 1 / means])
    coefficients = likelihood_coefficients(likelihood, np.array([7]), np.array([3.0]))
    difference = (coefficients @ features)[0] - likelihood.log_likelihood(means, 7, 3.0)
    np.testing.assert_allclose(difference, difference[0], atol=1e-12)


def _beta_target(num_lanes, width):
    """Return the law Beta(3, 5) for each lane's only arm."""
    coefficients = np.tile([2.0, 4.0, 0.0, 0.0, 0.0], (num_lanes, 1, 1))
    nothing = np.zeros((1, 1))
    return GibbsTarget(
        coefficients, np.full((num_lanes, 1), width), nothing[0], nothing, np.array([[0.0, 1.0]])
    )


@pytest.mark.parametrize("width", [0.01, 0.3, 10.0])
def test_slice_draws_leave_the_density_invariant_for_any_width(width, rng):
    draws = rng.beta(3, 5, (10_000, 1))
    gibbs_sweep(rng, draws, _beta_target(10_000, width), 2)
    assert stats.kstest(draws[:, 0], stats.beta(3, 5).cdf).pvalue > 1e-3


def test_slice_draws_forget_where_they_started(rng):
    draws = np.full((10_000, 1), 0.999)
    gibbs_sweep(rng, draws, _beta_target(10_000, 0.3), 20)
    assert stats.kstest(draws[:, 0], stats.beta(3, 5).cdf).pvalue > 1e-3


def test_sweep_compiled_equals_uncompiled():
    problem = _dependent(Bernoulli(), CORRELATED)
    target = make_target(problem, np.array([[3, 0], [8, 9]]), np.array([[1.0, 0.0], [8.0, 0.0]]))
    compiled, plain = np.full((2, 2), 0.5), np.full((2, 2), 0.5)
    gibbs_sweep(np.random.default_rng(1), compiled, target, 50)
    gibbs_sweep.py_func(np.random.default_rng(1), plain, target, 50)
    np.testing.assert_allclose(compiled, plain, rtol=1e-9)


def test_sweep_leaves_a_truncated_normal_pair_invariant(rng):
    problem = _dependent(Bernoulli(), CORRELATED)
    num_lanes = 4000
    target = make_target(problem, *np.zeros((2, num_lanes, 2)))
    exact = problem.prior.sample(rng, (num_lanes, 2))
    means = exact.copy()
    gibbs_sweep(rng, means, target, 3)
    for swept, drawn in ((means[:, 0], exact[:, 0]), (means.sum(axis=1), exact.sum(axis=1))):
        assert stats.ks_2samp(swept, drawn).pvalue > 1e-3


def test_sweep_samples_the_normal_posterior_when_the_box_is_wide(rng):
    problem = _dependent(Gaussian(), CORRELATED, low=-50.0, high=50.0)
    counts, sums = np.array([3, 0]), np.array([6.0, 0.0])
    precision = np.linalg.inv(CORRELATED) + np.diag(counts)
    covariance = np.linalg.inv(precision)
    mean = covariance @ (np.linalg.inv(CORRELATED) @ [0.5, 0.5] + sums)
    num_lanes = 20_000
    target = make_target(problem, *(np.tile(each, (num_lanes, 1)) for each in (counts, sums)))
    means = rng.multivariate_normal(mean, covariance, num_lanes)
    gibbs_sweep(rng, means, target, 5)
    tolerance = 4 * np.sqrt(np.diag(covariance) / num_lanes)
    assert (np.abs(means.mean(axis=0) - mean) <= tolerance).all()
    variance = covariance[0, 0]
    product = np.prod(means - mean, axis=1)
    tolerance = 4 * product.std() / np.sqrt(num_lanes)
    assert abs(product.mean() - covariance[0, 1]) <= tolerance
    assert abs(means[:, 0].var() - variance) <= 4 * variance * np.sqrt(2 / num_lanes)


def _nearly_equal_arms(num_arms, gap):
    """Return the covariance of arms that share a level but for deviations of `gap`."""
    return (0.09 * np.ones((num_arms, num_arms)) + gap**2 * np.eye(num_arms)).tolist()


def _gaussian_truth(problem, counts, sums, rng):
    """Return frequencies of the best arm in exact draws: the posterior is again a cut normal."""
    precision = problem.prior.precision + np.diag(counts)
    covariance = np.linalg.inv(precision)
    mean = covariance @ (problem.prior.precision @ np.full(len(counts), 0.5) + sums)
    law = TruncatedMultivariateNormal(tuple(mean), ((covariance + covariance.T) / 2).tolist())
    return np.bincount(law.sample(rng, (NUM_LANES, len(counts))).argmax(axis=1)) / NUM_LANES


NUM_LANES = 4000
HISTORIES = {
    "an arm's data tell of all": ([10**4, 0, 0, 0], [0.6, 0.0, 0.0, 0.0]),
    "all arms far from the prior": ([10**3] * 4, [0.91, 0.92, 0.9, 0.905]),
    "few data": ([2, 1, 0, 3], [0.3, 0.9, 0.0, 0.5]),
}


@pytest.mark.parametrize("gap", [0.2, 3e-3, 1e-4])
@pytest.mark.parametrize("history", HISTORIES)
def test_first_act_after_a_warm_start_follows_exact_draws(history, gap, rng):
    counts, averages = (np.array(each) for each in HISTORIES[history])
    problem = _dependent(Gaussian(), _nearly_equal_arms(4, gap))
    truth = _gaussian_truth(problem, counts, counts * averages, rng)
    agent = ExactThompson(problem)
    agent.reset(NUM_LANES, seed=1)
    agent.warm_start(counts, counts * averages)
    frequencies = np.bincount(agent.act(), minlength=4) / NUM_LANES
    # Both are frequencies; the largest of four differs by four standard errors less than once in
    # 4,000 cases.
    tolerance = 4 * np.sqrt(2 * truth * (1 - truth) / NUM_LANES) + 1 / NUM_LANES
    assert (np.abs(frequencies - truth) <= tolerance).all()
    assert agent.diagnostics()["is_unreliable"].mean() < 0.02


def test_chain_that_crawls_is_flagged(monkeypatch):
    def arm_by_arm(precision, information):
        steps = np.eye(len(precision)) / np.sqrt(np.diag(precision) + information[:, None])
        pushes = steps @ precision
        return Axes(steps, pushes, np.einsum("lkj,lkj->lk", steps, pushes))

    monkeypatch.setattr(gibbs, "principal_axes", arm_by_arm)
    agent = ExactThompson(_dependent(Gaussian(), _nearly_equal_arms(4, 1e-3)))
    agent.reset(100, seed=1)
    agent.warm_start([5, 5, 5, 5], [2.0, 2.0, 2.0, 2.0])
    agent.act()
    # Of four columns that walk at random, as likely as not one is seen: two in three each.
    assert agent.diagnostics()["is_unreliable"].mean() > 0.5


def test_chain_starts_strictly_inside_a_box_that_draws_touch(rng, monkeypatch):
    def corners(prior, rng, shape):
        return np.where(rng.random(shape) < 0.5, 0.0, 1.0)

    posterior = gibbs.GibbsPosterior(_dependent(Gaussian(), CORRELATED))
    monkeypatch.setattr(TruncatedMultivariateNormal, "sample", corners)
    posterior.restart(rng, np.ones(100, dtype=bool))
    assert ((posterior._means > 0.0) & (posterior._means < 1.0)).all()


def test_moves_along_axes_stay_strictly_inside_the_box():
    problem, low = _dependent(Gaussian(), CORRELATED), 0.5
    high = low + 2 * np.spacing(low)  # one number is inside
    box = np.array([[low, high], [low, high]])
    target = make_target(problem, *np.zeros((2, 50, 2)))._replace(box=box)
    axes = chains.principal_axes(problem.prior.precision, np.zeros((50, 2)))
    means = np.full((50, 2), low + np.spacing(low))
    _move(np.random.default_rng(0), means, target, axes)
    assert ((means > low) & (means < high)).all()


@njit(error_model="numpy")
def _move(rng, means, target, axes):
    for lane in range(len(means)):
        chains.move_along_axes(rng, means[lane], target, axes, lane)


@pytest.mark.parametrize(("prior_mean", "is_seen"), [(10.0, True), (0.8, False)])
def test_a_chain_that_may_be_in_the_wrong_one_of_two_camps_says_so(prior_mean, is_seen):
    # rewards that average 0.5 and 0.7 beside a prior about 10 +- 0.5 leave mass near both
    covariance = (0.25 * np.ones((3, 3)) + 0.0225 * np.eye(3)).tolist()
    prior = TruncatedMultivariateNormal(prior_mean, covariance, 0.0, 30.0)
    agent = ExactThompson(BanditProblem(Exponential(), prior, 3))
    agent.reset(40, seed=0)
    agent.warm_start([36, 36, 18], [25.2, 18.0, 7.2])
    agent.act()
    seen = agent.diagnostics()["is_unreliable"]
    is_low = agent.up_to_date().sample(agent.rng).max(axis=1) < 5.0
    assert seen[is_low].all() == is_seen
    assert seen.mean() > 0.8 if is_seen else not seen.any()


def test_deviations_without_data_are_those_of_a_prior_of_independent_arms():
    prior = TruncatedMultivariateNormal(0.5, [[0.01, 0.0], [0.0, 0.04]], low=-9.0, high=9.0)
    posterior, rng = (
        gibbs.GibbsPosterior(BanditProblem(Gaussian(), prior, 2)),
        np.random.default_rng(0),
    )
    posterior.restart(rng, np.array([True]))
    posterior.follow(rng, np.zeros((1, 2), dtype=int), np.zeros((1, 2)))
    assert posterior.std()[0] == pytest.approx([0.1, 0.2], rel=1e-3)
