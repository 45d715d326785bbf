"""Values of policies from logs."""

import numpy as np
import pytest

from bandit_gym.logs import Log
from bandit_gym.off_policy import ESTIMATORS, evaluate

MEANS, LOGGING, TARGET = (
    np.array([0.1, 0.3, 0.5]),
    np.array([0.2, 0.5, 0.3]),
    np.array([0, 0.2, 0.8]),
)


def make_log(num_rows=4000):
    rng = np.random.default_rng(0)
    actions = rng.choice(3, num_rows, p=LOGGING)
    rewards = (rng.random(num_rows) < MEANS[actions]).astype(float)
    return Log(actions, rewards, (0, 1, 2), LOGGING[actions])


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_value_of_another_policy_is_found(estimator):
    found = evaluate(TARGET, make_log(), estimator)
    # The variance of w r is at most E[w^2 r] = sum of target^2 / logging * means.
    tolerance = 4 * (TARGET**2 / LOGGING @ MEANS / 4000) ** 0.5
    assert abs(found.value - TARGET @ MEANS) < tolerance
    assert found.low < found.value < found.high


def test_without_propensities_it_is_refused():
    log = Log(np.array([0, 1]), np.array([0.0, 1.0]), (0, 1))
    with pytest.raises(ValueError, match="fit_propensities"):
        evaluate([0.5, 0.5], log)
