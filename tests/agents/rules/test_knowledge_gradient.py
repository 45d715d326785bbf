import numpy as np
import pytest
from scipy import integrate, stats

from agents import KnowledgeGradient
from agents.numerics.kernels import find_best_gains
from agents.rules.lookahead import find_normal_gains, list_lookaheads
from bandit_gym.likelihoods import Poisson
from bandit_gym.priors import Gamma
from bandit_gym.problem import BanditProblem


def test_other_rewards_are_refused():
    with pytest.raises(ValueError, match="must be Bernoulli or Gaussian for KnowledgeGradient"):
        KnowledgeGradient(BanditProblem(Poisson(), Gamma(2.0, 2.0), 2))


BY_HAND = {
    100: [1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 100],
    20: [1, 2, 3, 4, 6, 8, 11, 16, 20],
    8: [1, 2, 3, 4, 6, 8],
    5: [1, 2, 3, 4, 5],
    1: [1],
    0: [0],
}


def test_pulls_ahead_are_rounded_powers_of_the_root_of_two_up_to_those_that_are_left():
    columns = list_lookaheads(np.array([*BY_HAND])).T.tolist()
    assert [sorted({*column}) for column in columns] == [*BY_HAND.values()]
    assert list_lookaheads(np.array([2**62]))[-1].tolist() == [2**62]


LEVELS = np.linspace(0.3, 0.9, 7)[None]


def test_beta_and_normal_posteriors_are_looked_at_after_the_same_pulls():
    """The largest of E max(M(m), level) - max(E M, level), over m, by sums and by quadrature."""
    a, b, mean, std, noise = 2.0, 3.0, 0.4, 0.1, 0.7
    beta, normal = np.zeros((2, 20, LEVELS.size))
    for m in BY_HAND[20]:
        s = np.arange(m + 1)
        after = np.maximum((a + s[:, None]) / (a + b + m), LEVELS)
        beta[m - 1] = stats.betabinom.pmf(s, m, a, b) @ after - np.maximum(mean, LEVELS)
        law = stats.norm(mean, std * np.sqrt(m / (m + noise**2 / std**2)))
        for i, level in enumerate(LEVELS[0]):
            upper, _ = integrate.quad(lambda x, c=level, law=law: (x - c) * law.pdf(x), level, 2)
            normal[m - 1, i] = level + upper - max(mean, level)
    found, left = np.empty(LEVELS.shape), list_lookaheads(np.array([20]))
    pulls = np.arange(1, 21)[:, None]
    find_best_gains(np.full(LEVELS.shape, a), np.full(LEVELS.shape, b), LEVELS, left, found)
    np.testing.assert_allclose(found[0], (beta / pulls).max(axis=0), rtol=1e-9, atol=1e-15)
    found = find_normal_gains(np.full((1, 7), mean), np.full((1, 7), std), LEVELS, left, noise)
    np.testing.assert_allclose(found[0], (normal / pulls).max(axis=0), rtol=1e-6, atol=1e-12)


def test_gains_of_what_is_known_or_told_no_more_are_nothing():
    mean, std = np.array([[0.5, 0.5, 1e9]]), np.array([[0.0, 1e-200, 1.0]])
    levels = np.zeros((1, 3))
    for left in (0, 9):
        found = find_normal_gains(mean, std, levels, list_lookaheads(np.array([left])), 1.0)
        assert found.tolist() == [[0.0, 0.0, 0.0]]
