"""The physics, by hand."""

import numpy as np
import pytest

from bandit_gym.envs.dynamics import (
    draw_means,
    optimal_actions,
    pull,
    shortfalls,
    take_arms,
)
from bandit_gym.likelihoods import Bernoulli, Gaussian, Likelihood
from bandit_gym.priors import Beta

MEANS = np.array([[0.1, 0.7, 0.4], [0.9, 0.2, 0.9]])


def test_take_arms_picks_one_entry_per_lane() -> None:
    assert take_arms(MEANS, np.array([2, 0])).tolist() == [0.4, 0.9]


def test_pull_pays_the_arm_that_was_pulled() -> None:
    means = np.array([[0.0, 1.0], [0.0, 1.0]])
    rewards = pull(Bernoulli(), means, np.array([1, 0]), np.array([0.5, 0.5]))
    assert rewards.tolist() == [1.0, 0.0]


def test_pull_gives_every_arm_the_same_noise() -> None:
    uniforms = np.full(2, 0.8)
    rewards = pull(Gaussian(std=2.0), MEANS[[0, 0]], np.array([0, 1]), uniforms)
    assert rewards[1] - rewards[0] == pytest.approx(0.7 - 0.1)


def test_shortfalls_are_the_gaps_to_the_best_mean() -> None:
    expected = [[0.6, 0.0, 0.3], [0.0, 0.7, 0.0]]
    np.testing.assert_allclose(shortfalls(MEANS), expected, rtol=1e-15)


def test_shortfalls_are_exactly_zero_on_a_best_arm() -> None:
    assert take_arms(shortfalls(MEANS), np.array([1, 2])).tolist() == [0.0, 0.0]


def test_optimal_actions_take_the_first_of_several() -> None:
    assert optimal_actions(MEANS).tolist() == [1, 0]


def test_draw_means_gives_one_float_per_arm(rng: np.random.Generator) -> None:
    means = draw_means(Beta(1.0, 1.0), rng, 4)
    assert means.shape == (4,) and means.dtype == np.float64


def test_draw_means_copies_what_a_prior_returns(rng: np.random.Generator) -> None:
    table = np.array([0.2, 0.3])

    class Careless:
        def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
            return table

        def log_density(self, means: np.ndarray) -> np.ndarray:
            return np.zeros(means.shape[:-1])

    draw_means(Careless(), rng, 2)[0] = 9.0
    assert table[0] == 0.2


@pytest.mark.parametrize("likelihood", [Bernoulli(), Gaussian()])
def test_pull_of_one_lane_equals_its_row_of_a_batch(
    likelihood: Likelihood, rng: np.random.Generator
) -> None:
    means, uniforms = rng.random((50, 3)), rng.random(50)
    actions = rng.integers(3, size=50)
    together = pull(likelihood, means, actions, uniforms)
    alone = [
        pull(likelihood, means[i : i + 1], actions[i : i + 1], uniforms[i : i + 1])[0]
        for i in range(50)
    ]
    assert together.tolist() == alone
