"""What weights say of draws, where no law of an agent would show a mistake."""

from itertools import product

import numpy as np
import pytest

from agents.posteriors.weighted_draws import (
    WeightedDraws,
    draw_particle,
    draw_particles,
    normalise_weights,
)


@pytest.mark.parametrize("num_rows", [1, 3])
@pytest.mark.parametrize("size", [1, 5, 32, 100])
def test_places_are_picked_as_often_as_they_weigh(num_rows, size, rng):
    """To four standard errors of 4,000 picks; a weight of 0 is never picked."""
    weights = rng.exponential(size=(num_rows, size)) ** 4 * 1e3
    weights[:, 1::3] = 0.0
    picks = np.array([draw_particles(rng, weights) for _ in range(4000)])
    shares = (picks[..., None] == np.arange(size)).mean(axis=0)
    expected = weights / weights.sum(axis=1, keepdims=True)
    allowed = 4 * np.sqrt(expected * (1 - expected) / len(picks)) + 3 / len(picks) * (expected > 0)
    assert (abs(shares - expected) <= allowed + 1e-12).all()


@pytest.mark.parametrize("size", [1, 5, 32, 100])
def test_a_row_alone_is_picked_from_as_a_row_of_many(size):
    one, many = np.random.default_rng(3), np.random.default_rng(3)
    for _ in range(200):
        weights = one.exponential(size=size) ** 4
        (expected,) = draw_particles(many, many.exponential(size=(1, size)) ** 4)
        assert draw_particle(one, weights) == expected


def test_weights_that_are_all_nothing_are_equal_and_others_unmoved():
    weights, totals = normalise_weights(np.array([[-np.inf, -np.inf], [-1e6, -1e6 + np.log(3)]]))
    np.testing.assert_allclose(weights, [[0.5, 0.5], [0.25, 0.75]])
    np.testing.assert_allclose(totals, [-np.inf, -1e6 + np.log(4)])


def test_draws_that_follow_each_other_are_worth_less_and_the_error_says_so():
    """By hand: weights 2 : 1 : 1 are worth 8 / 3 draws, at an efficiency of 1 / 3 a third of it."""
    means, logs = np.zeros((2, 3, 2)), np.log([[2.0, 1.0, 1.0], [2.0, 1.0, 1.0]])
    means[:, 0, 1] = 1.0
    draws = WeightedDraws(means, logs, np.array([1.0, 1 / 3]))
    np.testing.assert_allclose(draws.effective_sample_size(), [8 / 3, 8 / 9])
    assert (np.diff(draws.best_arm_error()) > 0).all()


def test_arms_that_tie_share_the_draws_and_the_means_given_that_they_are_best():
    """All combinations of two means of three arms: by symmetry each is best in a third."""
    means = np.array([*product([0.2, 0.8], repeat=3)])[None]
    draws = WeightedDraws(means, np.zeros(means.shape[:2]))
    best, given = draws.best_arm_moments()
    np.testing.assert_allclose(best, draws.best_arm_probabilities())
    np.testing.assert_allclose(best, 1 / 3)
    for arm in range(3):
        np.testing.assert_allclose(given[0, arm], np.roll(given[0, 0], arm))
