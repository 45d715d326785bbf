import numpy as np
import pytest
from numba import njit
from scipy import stats

from agents.numerics import kernels
from agents.numerics.draw_tables import NO_TABLES, make_draw_tables
from agents.numerics.families import BETA, GAMMA, INVERSE_GAMMA, NORMAL
from agents.numerics.kernels import ConjugatePrior, MeanLaws, make_draws
from agents.posteriors.conjugate import reference_posterior
from bandit_gym.likelihoods import Gaussian
from bandit_gym.priors import Normal
from bandit_gym.problem import BanditProblem

compare_means = njit(kernels.compare_means)
NUM = 100_000
CASES = [
    (BETA, (1, 1)), (BETA, (1, 30)), (BETA, (3, 4)), (BETA, (0.3, 0.4)), (BETA, (0.5, 20)),
    (BETA, (1e6, 3)), (BETA, (1e5, 1e5)),
    (GAMMA, (0.5, 2.0)), (GAMMA, (1.0, 0.1)), (GAMMA, (1e4, 30.0)),
    (INVERSE_GAMMA, (1.0, 1.0)), (INVERSE_GAMMA, (40.0, 9.0)), (NORMAL, (-3.0, 0.5)),
]  # fmt: skip
LAWS = {
    BETA: lambda a, b: stats.beta(a, b),
    GAMMA: lambda shape, rate: stats.gamma(shape, scale=1 / rate),
    INVERSE_GAMMA: lambda shape, scale: stats.invgamma(shape, scale=scale),
    NORMAL: lambda h, tau: stats.norm(h / tau, tau**-0.5),
}
every_case = pytest.mark.parametrize(("family", "pair"), CASES)
with_and_without = pytest.mark.parametrize("num_tables", [0, 6], ids=["without", "tables"])


def draw(family, first, second, num_samples, num_tables, seed=1, draw_chunk=kernels.draw_chunk):
    first, second = np.atleast_2d(first).astype(float), np.atleast_2d(second).astype(float)
    laws, draws = MeanLaws(family, first, second), make_draws(*first.shape, num_samples)
    rng, tables = np.random.default_rng(seed), make_draw_tables(num_tables)
    draw_chunk(rng, laws, tables, np.arange(len(first)), draws)
    return draws


@every_case
@with_and_without
def test_chunk_draws_follow_the_posterior(family, pair, num_tables):
    means = draw(family, *pair, NUM, num_tables).means[0, 0]
    assert stats.kstest(means, LAWS[family](*pair).cdf).pvalue > 1e-4


@pytest.mark.parametrize("pair", [(0.02, 0.02), (1e-4, 1e-4), (1, 0.01)])
def test_beta_draws_stay_inside_the_unit_interval_when_parameters_are_tiny(pair):
    means = draw(BETA, *pair, NUM, 0).means
    assert means.min() > 0 and means.max() < 1
    mean = pair[0] / sum(pair)
    assert means.mean() == pytest.approx(mean, abs=4 * np.sqrt(mean * (1 - mean) / NUM))


@with_and_without
def test_winner_is_the_arm_with_the_largest_mean(num_tables):
    drawn = draw(BETA, [[1, 2, 3], [9, 1, 5]], [[4, 3, 2], [9, 1, 5]], 500, num_tables)
    np.testing.assert_array_equal(drawn.winners, drawn.means.argmax(axis=1))


def test_compare_breaks_ties_uniformly(rng):
    means = np.full((4, NUM), 0.3)
    means[1] = 0.1
    best, winners = np.full(NUM, -np.inf), np.empty(NUM, dtype=np.int64)
    for arm in range(4):
        compare_means(rng, means, arm, best, winners)
    shares = np.bincount(winners, minlength=4) / NUM
    assert shares == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3], abs=4 * np.sqrt(2 / 9 / NUM))


def best_shares(family, first, second, draw_best_arms=kernels.draw_best_arms, num=NUM):
    """Return how often each arm is the best without data, given its prior's parameters."""
    prior = ConjugatePrior(family, np.stack([first, second], axis=1).astype(float), np.eye(2))
    shape = (num, len(first))
    actions = np.empty(num, dtype=np.int64)
    rng = np.random.default_rng(3)
    draw_best_arms(rng, prior, np.zeros(shape, dtype=np.int64), np.zeros(shape), actions)
    return np.bincount(actions, minlength=len(first)) / num


def test_draw_best_arms_has_the_probability_of_a_beta_exceeding_another():
    # P(X > Y) for X ~ Beta(2, 1), Y ~ Beta(1, 1) is E[X] = 2 / 3.
    shares = best_shares(BETA, [2, 1], [1, 1])
    assert shares[0] == pytest.approx(2 / 3, abs=4 * np.sqrt(2 / 9 / NUM))


def test_draw_best_arms_prefers_missing_arms_evenly():
    shares = best_shares(NORMAL, [50.0, 0, 0], [1.0, 0, 0])
    assert shares == pytest.approx([0, 0.5, 0.5], abs=4 * np.sqrt(0.25 / NUM))


@pytest.mark.parametrize("family", [BETA, GAMMA, INVERSE_GAMMA, NORMAL])
def test_draw_best_arms_is_the_same_uncompiled(family):
    pair = [2.5, 0.5, 3.0], [3.0, 0.5, 3.0]
    again = best_shares(family, *pair, draw_best_arms=kernels.draw_best_arms.py_func, num=1001)
    np.testing.assert_array_equal(again, best_shares(family, *pair, num=1001))


def test_draw_best_arms_adds_the_data_to_the_prior(rng):
    posterior = reference_posterior(BanditProblem(Gaussian(0.5), Normal(0.0, 1.0), 2))
    counts, sums = np.array([[100_000, 100_000]]), np.array([[40_000.0, 45_000.0]])
    actions = np.empty(1, dtype=np.int64)
    prior = ConjugatePrior(posterior.family, posterior.prior, posterior.weights)
    kernels.draw_best_arms(rng, prior, counts, sums, actions)
    assert actions == [1]  # the averages are 0.4 and 0.45, 0.0016 standard deviation each


@pytest.mark.parametrize("family", [BETA, GAMMA, INVERSE_GAMMA, NORMAL])
@pytest.mark.parametrize("num_tables", [0, 8], ids=["without", "tables"])
def test_chunks_are_the_same_uncompiled(family, num_tables):
    first, second = [[1.0, 2.5, 0.5, 30.0]] * 2, [[1.0, 3.0, 2.0, 40.0]] * 2
    compiled = draw(family, first, second, 300, num_tables)
    uncompiled = kernels.draw_chunk.py_func  # as are, seen from Python, all that it calls
    again = draw(family, first, second, 300, num_tables, draw_chunk=uncompiled)
    np.testing.assert_array_equal(again.means, compiled.means)
    np.testing.assert_array_equal(again.winners, compiled.winners)


def test_chunk_does_not_depend_on_whether_tables_were_kept():
    laws = MeanLaws(BETA, np.array([[2.0, 3.0]]), np.array([[5.0, 1.0]]))
    results = []
    kept = make_draw_tables(2)
    for room in (kept, kept, make_draw_tables(2)):
        draws = make_draws(1, 2, 400)
        kernels.draw_chunk(np.random.default_rng(7), laws, room, np.zeros(1, np.int64), draws)
        results.append(draws.means)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_no_tables_are_left_as_they_are():
    draw(BETA, [2.0], [3.0], 10, 0)
    assert len(NO_TABLES.keys) == 0
