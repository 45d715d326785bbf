import numpy as np
import pytest

from agents import InformationDirected
from agents.rules.information_directed import best_laws
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal, TruncatedMultivariateNormal
from bandit_gym.problem import BanditProblem


def ratio(law, gaps, gains):
    return (law @ gaps) ** 2 / (law @ gains)


def test_pair_has_the_least_ratio_of_all_laws(rng):
    gaps, gains = rng.random((200, 5)), rng.random((200, 5))
    found = best_laws(gaps, gains)
    laws = rng.dirichlet(np.full(5, 0.3), size=2000)
    for lane in range(200):
        others = (laws @ gaps[lane]) ** 2 / (laws @ gains[lane])
        assert ratio(found[lane], gaps[lane], gains[lane]) <= others.min() * (1 + 1e-12)


def test_pair_of_two_arms_is_mixed_where_neither_is_best_alone():
    part = best_laws(np.array([[0.1, 0.4]]), np.array([[0.001, 0.5]]))[0, 0]
    # by hand: gap_1 / (gap_0 - gap_1) - 2 gain_1 / (gain_0 - gain_1) = -4 / 3 + 1000 / 499
    assert part == pytest.approx(1000 / 499 - 4 / 3)


def test_arm_without_regret_is_pulled_though_it_tells_nothing():
    assert best_laws(np.array([[0.0, 0.3]]), np.zeros((1, 2))).tolist() == [[1.0, 0.0]]


def test_equal_arms_have_equal_shares():
    assert best_laws(np.full((1, 4), 0.2), np.full((1, 4), 0.1)).tolist() == [[0.25] * 4]


@pytest.mark.parametrize("seed", range(5))
def test_last_digits_decide_nothing(seed):
    # two pairs of equal arms, as two processors may round them; equal in one of two, and in both
    gaps, gains = np.array([[0.2, 0.2, 0.5, 0.5]]), np.array([[0.1, 0.1, 0.4, 0.4]])
    last = 1 + 1e-15 * np.random.default_rng(seed).normal(size=(3, 1, 4))
    for own in (gaps, gains), (np.full((1, 4), 0.2), gains), (gaps, np.full((1, 4), 0.1)):
        found = best_laws(own[0] * last[0], own[1] * last[1])
        np.testing.assert_allclose(found, best_laws(*own), rtol=0, atol=1e-9)
    assert best_laws(0.2 * last[2], 0.1 * last[1])[0] == pytest.approx(0.25)


def test_least_regret_decides_where_nothing_is_told():
    assert best_laws(np.array([[1e-9, 0.3]]), np.zeros((1, 2))).tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize("gain", ["variance", "information"])
def test_gains_of_two_uniform_arms_are_those_of_a_hand(gain):
    # The better of two is 2 / 3 on average, the other 1 / 3, and each is better half the time.
    agent = InformationDirected(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2), gain=gain)
    agent.reset(1, seed=0)
    gains = agent._gains(*agent.up_to_date().best_arm_moments())
    told = (2 * np.log(4 / 3) + np.log(2 / 3)) / 3
    expected = {"variance": 1 / 36, "information": told}[gain]
    assert gains == pytest.approx(np.full((1, 2), expected), rel=0.01)


def test_variance_is_at_most_half_the_information():
    """Pinsker's inequality for rewards in [0, 1], on which V-IDS rests."""
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 4)
    counts = np.random.default_rng(0).integers(0, 20, (50, 4))
    sums = np.random.default_rng(1).binomial(counts, 0.6)
    gains = {}
    for gain in ("variance", "information"):
        agent = InformationDirected(problem, gain=gain)
        agent.reset(50, seed=0)
        agent.warm_start(counts, sums)
        gains[gain] = agent._gains(*agent.up_to_date().best_arm_moments())
    assert (gains["variance"] <= gains["information"] / 2 + 1e-12).all()


def test_dependent_prior_is_served():
    prior = TruncatedMultivariateNormal(0.5, [[1.0, 0.9], [0.9, 1.0]])
    agent = InformationDirected(BanditProblem(Gaussian(), prior, 2))
    agent.reset(4, seed=0)
    agent.warm_start([0, 40], [0.0, 4.0])
    assert agent.act().shape == (4,)


def test_information_is_of_bernoulli_rewards_alone():
    with pytest.raises(ValueError, match="Bernoulli.* for gain='information'.*gain='variance'"):
        InformationDirected(BanditProblem(Gaussian(), Normal(0.0, 1.0), 2), gain="information")
