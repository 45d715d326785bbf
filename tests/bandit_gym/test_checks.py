"""Argument checks: what passes comes back in one form, what does not is named."""

import re
from typing import Any

import numpy as np
import pytest
from gymnasium.error import InvalidAction

from bandit_gym import checks
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson


def _refused(error: type[Exception], text: str) -> Any:
    return pytest.raises(error, match=re.escape(text))


@pytest.mark.parametrize("value", [3, np.int32(3), np.uint8(3)])
def test_integer_comes_back_as_int(value):
    assert type(checks.check_integer("horizon", value, minimum=1)) is int


@pytest.mark.parametrize("value", [True, np.True_, 3.0, "3", None, np.array([3])])
def test_integer_refuses_other_kinds(value):
    with _refused(TypeError, "horizon must be a positive integer, got"):
        checks.check_integer("horizon", value, minimum=1)


@pytest.mark.parametrize(
    ("minimum", "rule"),
    [(0, "a non-negative integer"), (1, "a positive integer"), (2, "an integer of at least 2")],
)
def test_integer_refuses_values_below_the_minimum(minimum, rule):
    with _refused(ValueError, f"size must be {rule}, got {minimum - 1}."):
        checks.check_integer("size", minimum - 1, minimum=minimum)


@pytest.mark.parametrize("value", [0.5, 1, np.float32(0.5), np.int64(1)])
def test_real_comes_back_as_float(value):
    assert type(checks.check_real("sigma", value, above=0)) is float


@pytest.mark.parametrize("value", [True, "0.5", None, [0.5], 1j])
def test_real_refuses_other_kinds(value):
    with _refused(TypeError, "sigma must be a finite number above 0, got"):
        checks.check_real("sigma", value, above=0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_real_refuses_what_is_not_finite_without_bounds(value):
    with _refused(ValueError, f"sigma must be a finite number, got {value}."):
        checks.check_real("sigma", value)


def test_real_refuses_an_integer_of_hundreds_of_digits():
    with _refused(ValueError, "sigma must be a finite number, got 1000"):
        checks.check_real("sigma", 10**400)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_real_refuses_the_ends_of_an_open_interval(value):
    with _refused(ValueError, f"delta must be a finite number above 0 and below 1, got {value}."):
        checks.check_real("delta", value, above=0, below=1)


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_real_refuses_what_is_outside_an_open_interval(value):
    with _refused(ValueError, f"delta must be a finite number above 0 and below 1, got {value}."):
        checks.check_real("delta", value, above=0, below=1)


def test_real_accepts_the_ends_of_a_closed_interval():
    ends = [checks.check_real("share", end, minimum=0, maximum=1) for end in (0, 1)]
    assert ends == [0.0, 1.0]


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_real_refuses_what_is_outside_a_closed_interval(value):
    with _refused(
        ValueError, f"share must be a finite number at least 0 and at most 1, got {value}"
    ):
        checks.check_real("share", value, minimum=0, maximum=1)


def test_choice_names_the_nearest_one():
    message = "observation must be one of 'constant', 'counts', got 'count'; "
    with _refused(ValueError, message + "the nearest known one is 'counts'."):
        checks.check_choice("observation", "count", ("constant", "counts"))


def test_choice_names_no_nearest_one_when_none_is_near():
    with _refused(ValueError, "mode must be one of 'constant', 'counts', got 'xyz'."):
        checks.check_choice("mode", "xyz", ("constant", "counts"))


def test_choice_refuses_other_kinds():
    with _refused(TypeError, "mode must be one of 'constant', got 3."):
        checks.check_choice("mode", 3, ("constant",))


def test_keys_names_the_nearest_known_one():
    message = (
        "prior must have no keys but 'mean', 'std', got 'sdt'; the nearest known one is 'std'."
    )
    with _refused(ValueError, message):
        checks.check_keys("prior", {"mean": 0, "sdt": 1}, required=["mean"], optional=["std"])


def test_keys_names_the_missing_one():
    with _refused(ValueError, "prior must have the key 'std', got {'mean': 0}."):
        checks.check_keys("prior", {"mean": 0}, required=["mean", "std"])


def test_keys_accepts_without_the_optional_ones():
    checks.check_keys("prior", {"mean": 0}, required=["mean"], optional=["std"])


def test_keys_refuses_what_is_no_dict():
    with _refused(TypeError, "prior must be a dict with the keys 'mean', got [1]."):
        checks.check_keys("prior", [1], required=["mean"])


@pytest.mark.parametrize(
    ("value", "expected"),
    [(2, 2.0), (np.float32(0.5), 0.5), (np.array(3), 3.0), ([1, 2], (1.0, 2.0))],
)
def test_parameter_comes_back_as_floats(value, expected):
    found = checks.check_parameter("alpha", value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize("value", ["1", None, True, [[1.0]], [[1.0], [1.0, 2.0]], {"a": 1}, {1.0}])
def test_parameter_refuses_other_kinds(value):
    with _refused(TypeError, "alpha must be a number or a list of one number per arm, finite, got"):
        checks.check_parameter("alpha", value)


@pytest.mark.parametrize("value", [np.nan, [1.0, np.inf], []])
def test_parameter_refuses_what_is_not_finite_or_empty(value):
    with _refused(ValueError, f"alpha must be finite, got {value}."):
        checks.check_parameter("alpha", value)


@pytest.mark.parametrize("value", [0, -1.0, [1.0, 0.0]])
def test_parameter_refuses_what_is_not_positive(value):
    with _refused(ValueError, f"alpha must be finite and above 0, got {value}."):
        checks.check_parameter("alpha", value, positive=True)


def test_covariance_comes_back_symmetric():
    rounded = [[1.0, 0.3], [np.nextafter(0.3, 1), 1.0]]
    (_, upper), (lower, _) = checks.check_covariance("covariance", rounded)
    assert upper == lower


def test_covariance_is_positive_definite_from_a_ratio_of_eigenvalues_of_1e_12_on():
    """Two arms of correlation rho have the eigenvalues 1 - rho and 1 + rho."""
    near, nearer = (np.array([[1.0, 1.0 - gap], [1.0 - gap, 1.0]]) for gap in (3e-12, 1e-12))
    checks.check_covariance("covariance", near)
    with _refused(ValueError, "covariance must be positive definite"):
        checks.check_covariance("covariance", nearer)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_covariance_is_judged_free_of_units(scale):
    units = np.array([scale, 1.0])
    checks.check_covariance("covariance", np.outer(units, units) * [[1.0, 0.9], [0.9, 1.0]])


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (1.0, TypeError, "be a square matrix of numbers, got 1.0."),
        ([[1.0, 0.0]], TypeError, "be a square matrix of numbers, got [[1.0, 0.0]]."),
        ([[1.0], [0.0, 1.0]], TypeError, "be a square matrix of numbers, got [[1.0], [0.0, 1.0]]."),
        ([[np.nan]], ValueError, "be finite, with a diagonal above 0, got [[nan]]."),
        ([[0.0]], ValueError, "be finite, with a diagonal above 0, got [[0.0]]."),
        ([[1.0, 0.5], [0.4, 1.0]], ValueError, "be symmetric, got [[1.0, 0.5], [0.4, 1.0]]."),
        (np.ones((2, 2)), ValueError, "be positive definite, got eigenvalues of its correlations"),
        ([[1.0, 2.0], [2.0, 1.0]], ValueError, "be positive definite, got eigenvalues"),
    ],
)
def test_covariance_names_what_is_wrong(value, error, text):
    with _refused(error, f"covariance must {text}"):
        checks.check_covariance("covariance", value)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.uint64])
def test_actions_come_back_as_int64_lanes(dtype):
    actions = checks.check_actions(np.array([0, 4], dtype), 5, 2)
    assert actions.dtype == np.int64
    assert actions.tolist() == [0, 4]


@pytest.mark.parametrize("action", [3, np.int64(3), np.array(3)])
def test_action_of_a_single_run_comes_back_as_one_lane(action):
    assert checks.check_actions(action, 5, None).tolist() == [3]


def test_actions_are_copied():
    actions = np.array([0, 1])
    assert not np.shares_memory(checks.check_actions(actions, 5, 2), actions)


@pytest.mark.parametrize("action", [-1, 5, 2**40])
def test_action_out_of_range_is_refused(action):
    with _refused(InvalidAction, f"action must be an integer from 0 to 4, got {action}."):
        checks.check_actions(action, 5, None)


def test_actions_out_of_range_name_the_lane():
    with _refused(InvalidAction, "actions must be integers from 0 to 4, got -2 in lane 1."):
        checks.check_actions(np.array([0, -2, 7]), 5, 3)


def test_actions_beyond_int64_are_refused():
    with _refused(InvalidAction, "actions must be integers from 0 to 4, got"):
        checks.check_actions(np.array([2**64 - 1], np.uint64), 5, 1)


@pytest.mark.parametrize("action", [1.0, True, "1", None, np.array(1.0), [[1], [1, 2]]])
def test_action_of_another_kind_is_refused(action):
    with _refused(InvalidAction, "action must be an integer from 0 to 4, got"):
        checks.check_actions(action, 5, None)


def test_action_with_an_axis_is_refused_for_a_single_run():
    with _refused(InvalidAction, "action must have no axes (one run), got [1]."):
        checks.check_actions([1], 5, None)


@pytest.mark.parametrize("actions", [1, [1], [1, 1, 1], [[1, 1]]])
def test_actions_of_another_shape_are_refused(actions):
    with _refused(InvalidAction, "actions must have shape (2,), one per lane, got"):
        checks.check_actions(actions, 5, 2)


def test_actions_outside_the_mask_are_not_read():
    mask = np.array([True, False])
    assert checks.check_actions(np.array([4, -9]), 5, 2, mask=mask).tolist() == [4, 0]


@pytest.mark.parametrize("reward", [1, 1.0, np.float32(1), np.array(1), True])
def test_reward_of_a_single_run_comes_back_as_one_lane(reward):
    rewards = checks.check_rewards(reward, Bernoulli(), None)
    assert rewards.dtype == np.float64
    assert rewards.tolist() == [1.0]


@pytest.mark.parametrize(
    ("likelihood", "reward", "rule"),
    [
        (Bernoulli(), 0.5, "0 or 1 under bernoulli"),
        (Bernoulli(), np.nan, "0 or 1 under bernoulli"),
        (Exponential(), -0.1, "a finite number of at least 0 under exponential"),
        (Exponential(), np.inf, "a finite number of at least 0 under exponential"),
        (Gaussian(), np.nan, "a finite number under gaussian"),
        (Gaussian(), -np.inf, "a finite number under gaussian"),
        (Poisson(), -1.0, "an integer of at least 0 under poisson"),
        (Poisson(), 0.5, "an integer of at least 0 under poisson"),
        (Poisson(), np.inf, "an integer of at least 0 under poisson"),
    ],
)
def test_impossible_reward_is_refused(likelihood, reward, rule):
    with _refused(ValueError, f"reward must be {rule} rewards, got {reward}."):
        checks.check_rewards(reward, likelihood, None)


def test_impossible_rewards_name_the_lane():
    with _refused(ValueError, "rewards must be 0 or 1 under bernoulli rewards, got 0.5 in lane 1."):
        checks.check_rewards([0, 0.5], Bernoulli(), 2)


@pytest.mark.parametrize("reward", ["1", None, 1j])
def test_reward_of_another_kind_is_refused(reward):
    with _refused(TypeError, "reward must be 0 or 1 under bernoulli rewards, got"):
        checks.check_rewards(reward, Bernoulli(), None)


def test_rewards_of_another_shape_are_refused():
    with _refused(ValueError, "rewards must have shape (2,), one per lane, got [1.0]."):
        checks.check_rewards([1.0], Bernoulli(), 2)


@pytest.mark.parametrize("unread", [np.nan, np.inf, -1.0])
def test_rewards_outside_the_mask_are_not_read(unread):
    mask = np.array([True, False])
    assert checks.check_rewards([2.0, unread], Exponential(), 2, mask).tolist() == [2.0, 0.0]


def test_mask_comes_back_as_booleans():
    assert checks.check_mask("mask", [True, False], 2).tolist() == [True, False]


@pytest.mark.parametrize("mask", [[1, 0], np.array([1.0, 0.0]), [[True], [True, False]], None])
def test_mask_refuses_other_kinds(mask):
    with _refused(TypeError, "mask must be an array of booleans, got"):
        checks.check_mask("mask", mask, 2)


def test_mask_refuses_other_shapes():
    with _refused(ValueError, "mask must have shape (2,), one per lane, got [True]."):
        checks.check_mask("mask", [True], 2)


def test_statistics_come_back_broadcast_and_writable():
    counts, sums = checks.check_statistics([3, 0], [2.0, 0.0], Bernoulli(), (2, 2))
    counts[0], sums[0] = 9, 9.0
    assert counts.tolist() == [[9, 9], [3, 0]]
    assert sums.tolist() == [[9.0, 9.0], [2.0, 0.0]]


@pytest.mark.parametrize(
    ("likelihood", "counts", "sums"),
    [
        (Bernoulli(), 2, 3.0),
        (Bernoulli(), 2, 0.5),
        (Bernoulli(), 2, -1.0),
        (Exponential(), 0, 1.0),
        (Exponential(), 2, -1.0),
        (Exponential(), 2, np.inf),
        (Gaussian(), 0, 1.0),
        (Gaussian(), 2, np.nan),
        (Poisson(), 0, 1.0),
        (Poisson(), 2, 0.5),
        (Poisson(), 2, -1.0),
    ],
)
def test_impossible_sums_name_the_arm(likelihood, counts, sums):
    text = f"be possible totals of so many {likelihood.name} rewards, got {sums} for arm 1."
    with _refused(ValueError, f"sums must {text}"):
        checks.check_statistics([0, counts], [0.0, sums], likelihood, (2,))


@pytest.mark.parametrize("count", [-1, 0.5, np.nan, np.inf])
def test_impossible_counts_name_the_arm_and_the_lane(count):
    text = f"counts must be whole numbers of at least 0, got {float(count)} for arm 0 of lane 1."
    with _refused(ValueError, text):
        checks.check_statistics([[0, 0], [count, 0]], 0.0, Gaussian(), (2, 2))


def test_statistics_of_another_shape_are_refused():
    with _refused(ValueError, "counts must broadcast to shape (2,), got (3,)."):
        checks.check_statistics([1, 1, 1], 0.0, Gaussian(), (2,))


def test_statistics_of_another_kind_are_refused():
    with _refused(TypeError, "sums must be an array of numbers, got 'x'."):
        checks.check_statistics(1, "x", Gaussian(), (2,))


def test_message_cuts_long_values():
    assert len(checks.message("rewards", "be finite", list(range(1000)))) < 150
