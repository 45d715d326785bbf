import numpy as np
import pytest
from families import Flat, OnlyArmDensities
from scipy import special, stats

from agents.oracle import action_probabilities, action_probabilities_with_error, panels
from agents.oracle.panels import ToleranceError
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import Beta, Gamma, InverseGamma, Normal, TruncatedNormal
from bandit_gym.priors.mixtures import Mixture, spike_and_slab
from bandit_gym.problem import BanditProblem

UNIFORM = Beta(1.0, 1.0)
UNIFORM_ARMS = BanditProblem(Bernoulli(), UNIFORM, 2)
NUM_DRAWS = 200_000

HISTORIES = {
    "bernoulli": (Bernoulli(), TruncatedNormal(0.5, 0.1), [0, 3, 40, 300], [0, 2, 19, 171]),
    "exponential": (Exponential(), InverseGamma(3.0, 2.0), [0, 3, 40, 300], [0, 2.5, 51.0, 310.0]),
    "gaussian": (Gaussian(2.0), Normal(0.0, 1.0), [0, 3, 40, 300], [0, -2.0, 31.5, 80.0]),
    "poisson": (Poisson(), Gamma(2.0, 2.0), [0, 3, 40, 300], [0, 2, 50, 311]),
}


class Spikes(OnlyArmDensities):
    """Half the mass within 1e-6 of 0.3, half within 1e-6 of 0.6."""

    def __init__(self):
        super().__init__(None, (0.0, 1.0))

    def sample(self, rng, shape):
        return np.where(rng.random(shape) < 0.5, 0.3, 0.6) + 1e-6 * rng.normal(size=shape)

    def arm_log_density(self, means):
        logs = [stats.norm.logpdf(means, centre, 1e-6) for centre in (0.3, 0.6)]
        return np.logaddexp(*logs)


def _problem(likelihood, prior, num_arms=2):
    return BanditProblem(likelihood, prior, num_arms)


def _history(name):
    likelihood, prior, counts, sums = HISTORIES[name]
    return _problem(likelihood, prior, 4), np.array(counts), np.array(sums, dtype=float)


def _assert_first(problem, counts, sums, expected, atol=1e-6):
    """Compare the chance that the first of two arms is the better one."""
    found = action_probabilities(problem, counts, sums)
    np.testing.assert_allclose(found, [expected, 1 - expected], atol=atol)


def _beta_exceeds(a, b, c, d):
    """Return P(Beta(a, b) > Beta(c, d)) for an integer a, by the sum over i = 0 ... a - 1."""
    i = np.arange(a)
    logs = special.betaln(c + i, b + d) - np.log(b + i) - special.betaln(1 + i, b)
    return np.exp(logs - special.betaln(c, d)).sum()


@pytest.mark.parametrize("counts", [(0, 0), (1, 4), (7, 1000), (10, 10**6), (10**6, 10**6)])
def test_probabilities_match_the_normal_difference_of_two_gaussian_arms(counts):
    counts, std = np.array(counts), 2.0
    sums = counts * np.array([0.3, 0.2995])
    precision = 1 + counts / std**2
    mean = sums / std**2 / precision
    expected = stats.norm.cdf((mean[0] - mean[1]) / np.sqrt((1 / precision).sum()))
    _assert_first(_problem(Gaussian(std), Normal(0.0, 1.0)), counts, sums, expected)


@pytest.mark.parametrize(
    ("counts", "sums"),
    [
        ((0, 0), (0, 0)),
        ((3, 5), (2, 1)),
        ((40, 300), (20, 130)),
        ((10**6, 20), (400_000, 9)),
        ((10**6, 10**6), (200_000, 200_300)),
        ((10**6, 0), (10**6, 0)),
    ],
)
def test_probabilities_match_the_finite_sum_of_two_beta_arms(counts, sums):
    (a, c), (b, d) = np.array(sums) + 1, np.subtract(counts, sums) + 1
    # The sum adds up to a million terms whose logarithms are rounded at about 1e-9.
    _assert_first(UNIFORM_ARMS, counts, sums, _beta_exceeds(a, b, c, d))


@pytest.mark.parametrize("counts", [(0, 0), (2, 9), (1000, 3), (10**6, 10**6)])
def test_probabilities_match_the_beta_law_of_two_exponential_arms(counts):
    shape, scale = 2.0 + np.array(counts), 3.0 + np.array(counts) * [1.0, 1.0005]
    # The arm with the smaller rate is better, and rates are Gamma(shape, scale).
    expected = special.betainc(*shape, scale[0] / scale.sum())
    _assert_first(_problem(Exponential(), InverseGamma(2.0, 3.0)), counts, scale - 3.0, expected)


@pytest.mark.parametrize("counts", [(0, 0), (2, 9), (1000, 3), (10**6, 10**6)])
def test_probabilities_match_the_beta_law_of_two_poisson_arms(counts):
    sums = np.floor(np.array(counts) * [1.0, 1.0005])
    shape, rate = 0.5 + sums, 2.0 + np.array(counts)
    expected = special.betainc(*shape[::-1], rate[1] / rate.sum())
    _assert_first(_problem(Poisson(), Gamma(0.5, 2.0)), counts, sums, expected)


def test_probabilities_are_certain_when_supports_are_apart():
    prior = TruncatedNormal(0.5, 1.0, low=(0.0, 0.6), high=(0.4, 1.0))
    _assert_first(_problem(Bernoulli(), prior), [0, 3], [0, 0], 0.0)


def test_probabilities_match_weighted_draws_when_the_prior_is_not_conjugate(rng):
    problem, counts, sums = _history("bernoulli")
    means = rng.beta(1 + sums, 1 + counts - sums, (NUM_DRAWS, 4))
    weights = np.exp(problem.prior.log_density(means))
    is_best = means.argmax(axis=1)[:, None] == np.arange(4)
    frequencies = weights @ is_best / weights.sum()
    probabilities = action_probabilities(problem, counts, sums)
    residuals = weights[:, None] * (is_best - probabilities) / weights.mean()
    tolerance = 4 * residuals.std(axis=0) / np.sqrt(NUM_DRAWS)
    assert (np.abs(frequencies - probabilities) <= tolerance).all()


@pytest.mark.parametrize("name", HISTORIES)
def test_error_covers_the_distance_to_a_much_finer_answer(name):
    problem, counts, sums = _history(name)
    rough, error = action_probabilities_with_error(problem, counts, sums, tolerance=1e-3)
    fine = action_probabilities(problem, counts, sums, tolerance=1e-11)
    assert np.abs(rough - fine).max() <= error + 1e-11


def test_probabilities_find_the_narrow_bulks_of_a_user_prior():
    counts, sums = [5, 0], [4, 0]
    likelihoods = np.array([0.3**4 * 0.7, 0.6**4 * 0.4])
    low, high = likelihoods / likelihoods.sum()
    expected = 0.5 * high + 0.25 * (low + high)  # the other arm is low, or the spikes are the same
    # Within a spike the likelihood is flat to (4 / 0.3) * 1e-6 per standard deviation.
    problem, flat = _problem(Bernoulli(), Spikes()), 4 / 0.3 * 1e-6
    _assert_first(problem, counts, sums, expected, atol=4 * flat)


def test_two_cauchy_arms_have_the_law_of_their_difference_which_is_cauchy():
    prior = OnlyArmDensities(stats.cauchy(loc=[3.0, 0.0], scale=[2.0, 1.0]), (-np.inf, np.inf))
    expected = stats.cauchy.sf(0, loc=3.0, scale=3.0)
    _assert_first(_problem(Gaussian(), prior), [0, 0], [0, 0], expected)


def test_probabilities_take_an_improper_prior_when_every_arm_has_data():
    expected = stats.norm.cdf(0.5 / np.sqrt(0.5))
    _assert_first(_problem(Gaussian(), Flat()), [4, 4], [2.0, 0.0], expected)


CUT = TruncatedNormal(0.0, 1.0, low=-1.0, high=1.0)
OUT_OF_REACH = [
    (_problem(Gaussian(), Flat()), [4, 0], [2.0, 0.0], 1e-6, "error is inf.*do not integrate"),
    (UNIFORM_ARMS, [10**15] * 2, [5 * 10**14, 5 * 10**14 + 10**7], 1e-9, "too narrow"),
    (_problem(Gaussian(), CUT), [5, 5], [5e13, 1e14], 1e-6, "within reach"),
]


@pytest.mark.parametrize(("problem", "counts", "sums", "tolerance", "text"), OUT_OF_REACH)
def test_a_tolerance_out_of_reach_tells_the_achieved_error(problem, counts, sums, tolerance, text):
    with pytest.raises(ToleranceError, match=text) as caught:
        action_probabilities(problem, counts, sums, tolerance=tolerance)
    assert caught.value.error > tolerance


@pytest.mark.parametrize(
    ("counts", "sums", "expected"),
    [([0, 2], [0, 1], 0.5), ([0, 1], [0, 1], 0.2500787562007926), ([0, 0], [0, 0], 0.5)],
)
def test_bathtubs_are_followed_beyond_the_last_digit_of_a_mean(counts, sums, expected):
    # By symmetry, and by mpmath's integral of the incomplete Beta function with 30 digits. Of
    # Beta(0.01, 0.01) a third lies nearer to 1 than numbers do.
    problem = _problem(Bernoulli(), Beta(0.01, 0.01))
    probabilities, error = action_probabilities_with_error(problem, counts, sums)
    assert abs(probabilities[0] - expected) <= error <= 1e-6


def _mixture_exceeds(laws, weights, counts, sums):
    """Return P(arm 0 > arm 1) when each law times the likelihood is a normal law again.

    Args:
        laws: of the means, (mean, std) each.
        weights: of the laws.
        counts: pulls of the two arms, with rewards of standard deviation 1.
        sums: their total rewards.
    """
    arms = []
    for n, s in zip(counts, sums, strict=True):
        m, d = np.transpose(laws)
        precision = 1 / d**2 + n
        evidence = stats.norm.logpdf(s / n, m, np.sqrt(d**2 + 1 / n)) + np.log(weights)
        shares = np.exp(evidence - evidence.max())
        arms.append((shares / shares.sum(), (m / d**2 + s) / precision, 1 / precision))
    (p, a, v), (q, b, w) = arms
    z = (a[:, None] - b) / np.sqrt(v[:, None] + w)
    return p @ stats.norm.cdf(z) @ q


@pytest.mark.parametrize("width", [1e-4, 1e-7])
@pytest.mark.parametrize("count", [10, 10**4, 10**8])
def test_spikes_beside_flat_laws_are_found_some_standard_errors_from_the_data(width, count):
    laws, weights = [(0.3, width), (0.0, 1.0)], [0.5, 0.5]
    prior = Mixture([Normal(*law) for law in laws], weights)
    for num_errors in (2, 4, 10):
        counts = [count, 40]
        sums = [0.3 * count + num_errors * np.sqrt(count), 13.0]
        expected = _mixture_exceeds(laws, weights, counts, sums)
        _assert_first(_problem(Gaussian(), prior), counts, sums, expected)


def test_rare_law_of_a_mixture_is_found_where_no_draw_of_the_prior_shows_it():
    laws, weights = [(0.0, 0.1), (5.0, 1e-6)], [1 - 1e-9, 1e-9]
    prior = Mixture([Normal(*law) for law in laws], weights)
    counts, sums = [3, 20], [15.0, 97.0]
    expected = _mixture_exceeds(laws, weights, counts, sums)
    _assert_first(_problem(Gaussian(), prior), counts, sums, expected)


@pytest.mark.parametrize(
    ("prior", "num_arms"), [(Beta(2.0, 2.0), 100), (spike_and_slab(0.5, 1e-3, Beta(1, 1), 0.5), 8)]
)
def test_equal_arms_among_many_are_equally_likely(prior, num_arms):
    half = num_arms // 2
    counts, sums = np.repeat([40, 0], half), np.repeat([20, 0], half)
    probabilities = action_probabilities(_problem(Bernoulli(), prior, num_arms), counts, sums)
    for group in (probabilities[:half], probabilities[half:]):
        np.testing.assert_allclose(group, group[0], rtol=1e-12)


def test_error_counts_what_the_sum_of_the_probabilities_misses(monkeypatch):
    def nine_tenths(panels):
        return np.array([0.6, 0.3])

    monkeypatch.setattr(panels, "best_arm_probabilities", nine_tenths)
    with pytest.raises(ToleranceError) as caught:
        action_probabilities(UNIFORM_ARMS, [1, 1], [1, 0])
    assert caught.value.error == pytest.approx(0.1, abs=1e-6)


def test_impossible_statistics_raise_and_name_the_arm():
    for likelihood, prior, counts, sums in [
        (Bernoulli(), UNIFORM, [4, 4], [1, 5]),
        (Bernoulli(), UNIFORM, [4, 1.5], [1, 0]),
        (Exponential(), InverseGamma(2.0, 2.0), [4, 0], [1.0, 1.0]),
        (Gaussian(), Normal(0.0, 1.0), [4, 2], [1.0, np.inf]),
        (Poisson(), Gamma(2.0, 2.0), [4, 2], [1, 0.5]),
    ]:
        with pytest.raises(ValueError, match="arm 1"):
            action_probabilities(_problem(likelihood, prior), counts, sums)


def test_statistics_of_another_number_of_arms_raise():
    with pytest.raises(ValueError, match=r"counts must be numbers of shape \(..., 2\), got"):
        action_probabilities(UNIFORM_ARMS, [0, 0, 0], [0, 0, 0])


def test_tolerance_raises_when_it_is_no_error():
    for tolerance in (0.0, -1e-3, 1.0, np.nan):
        with pytest.raises(ValueError, match="tolerance must be"):
            action_probabilities(UNIFORM_ARMS, [0, 0], [0, 0], tolerance=tolerance)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_density_that_is_no_number_raises_and_names_the_arm(value):
    class Broken(OnlyArmDensities):
        def log_density(self, means):
            return np.zeros(means.shape[:-1])

        def arm_log_density(self, means):
            is_broken = (np.arange(means.shape[-1]) == 1) & (means > 0.999)
            return np.where(is_broken, value, 0.0)

    problem = _problem(Bernoulli(), Broken(stats.uniform(), (0.0, 1.0)))
    message = f"arm_log_density must be a number or -inf, got {value} for arm 1 at the mean"
    with pytest.raises(ValueError, match=message):
        action_probabilities(problem, [0, 0], [0, 0])
