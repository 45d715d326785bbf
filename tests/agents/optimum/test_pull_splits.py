from itertools import product

import numpy as np
import pytest

from agents.optimum.pull_splits import split_pulls, worths


@pytest.mark.parametrize("num_arms", [2, 3, 4])
def test_best_split_is_the_best_of_all(num_arms):
    found = np.random.default_rng(num_arms).normal(size=(num_arms, 8)).cumsum(axis=1)
    value, split = split_pulls(found)
    splits = [each for each in product(range(8), repeat=num_arms) if sum(each) == 7]
    values = [found[range(num_arms), each].sum() for each in splits]
    assert value == pytest.approx(max(values), rel=1e-14)
    assert tuple(split) == splits[int(np.argmax(values))]


def test_a_pull_is_worth_its_mean_less_what_its_reward_is_charged():
    means = np.arange(9.0).reshape(1, 3, 3) / 10
    gains = np.array([[[2.0, 0, 0], [0, 5.0, 0], [0, 0, 0]]])
    found = worths(np.array([[0, 1, 1], [0, 0, 0]]), means, gains)
    # Arm 0 pays, then fails; arm 1 fails, at states in which the second pull is charged nothing.
    first, second = 0.0 - 2.0 * (1 - 0.0), 0.4 - 5.0 * (0 - 0.4)
    assert found[0].tolist() == pytest.approx([0.0, first, first + second, first + second + 0.7])
    assert found[1].tolist() == pytest.approx([0.0, 0.0, 0.3, 0.9])
