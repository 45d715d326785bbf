import numpy as np
import pytest

from agents.posteriors.chains import GibbsTarget
from agents.posteriors.starts import FAR, bring_near, guess_means, keep_inside, make_target
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import TruncatedMultivariateNormal
from bandit_gym.problem import BanditProblem

CORRELATED = [[1.0, 0.8], [0.8, 1.0]]


def _dependent(likelihood, covariance, **box):
    prior = TruncatedMultivariateNormal(0.5, covariance, **box)
    return BanditProblem(likelihood, prior, len(covariance))


def test_chains_start_near_the_middle_of_the_posterior():
    problem = _dependent(Gaussian(), CORRELATED)
    counts, sums = np.array([[0, 10**6]]), np.array([[0.0, 4e5]])
    near = bring_near(problem, np.array([[0.9, 0.9]]), counts, sums)
    # the second arm's deviation is 1e-3, its middle where it paid up to a part in a million
    assert near[0, 1] == pytest.approx(0.4 + 1e-3 * FAR, abs=1e-5)
    np.testing.assert_allclose(bring_near(problem, near, counts, sums), near, rtol=1e-9)


def test_chains_start_inside_the_box_where_the_middle_is_outside():
    problem = _dependent(Gaussian(), CORRELATED)
    counts, sums = np.array([[0, 10**6]]), np.array([[0.0, 5e6]])
    near = bring_near(problem, np.array([[0.3, 0.3]]), counts, sums)
    assert ((near > 0) & (near < 1)).all() and near[0, 1] > 0.9


@pytest.mark.parametrize(("prior_mean", "end"), [(0.5 + 40, 1.0), (0.5 - 40, 0.0)])
def test_chains_beside_an_end_of_the_box_are_not_rounded_onto_it(prior_mean, end):
    """The middle is 40 deviations off, beyond the end that is the next number to where they are."""
    prior = TruncatedMultivariateNormal(prior_mean, np.eye(2).tolist(), low=0.0, high=1.0)
    beside = np.nextafter(np.full((1, 2), end), 0.5)
    nothing = np.zeros((1, 2))
    near = bring_near(BanditProblem(Gaussian(), prior, 2), beside, nothing, nothing)
    np.testing.assert_array_equal(near, beside)


def test_guesses_lie_strictly_inside_the_box_whatever_was_paid():
    problem = _dependent(Gaussian(), CORRELATED)
    guess, _ = guess_means(problem, np.array([[4, 4]]), np.array([[-8.0, 8.0]]))
    assert guess.tolist() == [[np.nextafter(0.0, 1.0), np.nextafter(1.0, 0.0)]]


def test_target_holds_what_the_kernels_read():
    problem = _dependent(Bernoulli(), CORRELATED)
    target = make_target(problem, np.array([[3, 0]]), np.array([[1.0, 0.0]]))
    assert isinstance(target, GibbsTarget)
    np.testing.assert_array_equal(target.coefficients[0, 0], [1.0, 2.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(target.precision, np.linalg.inv(CORRELATED))
    np.testing.assert_array_equal(target.box, [[0.0, 1.0], [0.0, 1.0]])
    assert (target.widths > 0).all()


def test_means_on_the_ends_of_the_box_are_moved_inside_and_others_stay():
    problem = _dependent(Gaussian(), CORRELATED)
    kept = keep_inside(problem, np.array([[0.0, 0.3], [1.0, 7.0]]))
    assert ((kept > 0) & (kept < 1)).all() and kept[0, 1] == 0.3
    np.testing.assert_allclose(kept, [[0.0, 0.3], [1.0, 1.0]], atol=1e-15)
