"""Log-weights that are linear in five features of each mean."""

import numpy as np
import pytest

from agents.racing.weighing import LogWeight, add_log_weights


def log_weights(means, coefficients, support=(-np.inf, np.inf)):
    out = np.zeros((len(means), means.shape[2]))
    num_arms, lanes = means.shape[1], np.arange(len(means))
    table = np.broadcast_to(np.asarray(coefficients, float), (1, num_arms, 5)).copy()
    limits = np.tile(np.asarray(support, float), (num_arms, 1))
    sets = np.zeros(means.shape[:2], dtype=np.int8)
    add_log_weights(LogWeight(table, sets, limits), lanes, means, out)
    return out


COEFFICIENTS = [
    (4, 4, 0, 0, 0), (2, -0.5, 0, 0, 0), (0, 0, 3, -7, 0), (-3, 0, 0, 0, -2), (1, 2, 3, 4, 5),
    np.random.default_rng(0).normal(size=(12, 5)),
    np.repeat(np.random.default_rng(1).normal(size=(4, 5)), 3, axis=0),
]  # fmt: skip


@pytest.mark.parametrize("coefficients", COEFFICIENTS)
def test_log_weights_are_sums_over_arms(coefficients, rng):
    x = rng.uniform(size=(3, 12, 50))
    features = np.stack([np.log(x), np.log1p(-x), x, x**2, 1 / x], axis=-1)
    per_arm = np.broadcast_to(np.asarray(coefficients, float), (12, 5))[:, None]
    expected = (features * per_arm).sum(axis=(-1, 1))
    np.testing.assert_allclose(log_weights(x, coefficients), expected, rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("magnitude", [1e-300, 1e-30, 1e30, 1e280])
def test_log_weights_stay_finite_when_products_of_arms_would_not(magnitude, rng):
    x = magnitude * rng.uniform(0.5, 1.0, size=(2, 40, 9))
    expected = 1.5 * np.log(x).sum(axis=1)
    np.testing.assert_allclose(log_weights(x, (1.5, 0, 0, 0, 0)), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("support", "expected"),
    [
        ((0.2, 0.5), [-np.inf, 0.7, -np.inf]),
        ((0.2, np.inf), [-np.inf, 0.7, 1.3]),
        ((-np.inf, 0.5), [0.5, 0.7, -np.inf]),
    ],
)
def test_log_weights_are_minus_infinity_outside_the_support(support, expected):
    x = np.array([[[0.1, 0.3, 0.9], [0.4, 0.4, 0.4]]])
    np.testing.assert_allclose(log_weights(x, (0, 0, 1, 0, 0), support), [expected])
