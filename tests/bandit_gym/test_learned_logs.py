"""Intervals from logs of policies that learned."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy
from refusals import check_refusals

from bandit_gym.learned_logs import bet_on_mean, estimate_arm
from bandit_gym.logs import Log
from bandit_gym.off_policy import evaluate

MEANS = np.array([0.5, 0.4, 0.2])


def make_logs(num_logs=1, num_rows=400, floor=0.05):
    """Return logs of a policy that plays the arm with the best mean so far more and more."""
    rng, lanes = np.random.default_rng(0), np.arange(num_logs)
    wins, pulls, rows = np.ones((num_logs, 3)), np.full((num_logs, 3), 2.0), []
    for row in range(num_rows):
        odds = np.exp(8 * min(row / 50, 4) * wins / pulls)
        shares = floor + (1 - 3 * floor) * odds / odds.sum(axis=1, keepdims=True)
        arms = (shares.cumsum(axis=1)[:, :2] < rng.random((num_logs, 1))).sum(axis=1)
        rewards = (rng.random(num_logs) < MEANS[arms]).astype(float)
        wins[lanes, arms] += rewards
        pulls[lanes, arms] += 1
        rows.append((arms, rewards, shares))
    columns = (np.stack(each, axis=1) for each in zip(*rows, strict=True))
    logs = zip(*columns, strict=True)
    return [Log(*each[:2], ("a", "b", "c"), probabilities=each[2]) for each in logs]


def test_limits_that_cross_are_none_and_the_log_is_doubted():
    rng = np.random.default_rng(7)
    actions, rewards = rng.integers(0, 2, 500), rng.integers(0, 2, 500).astype(float)
    log = Log(actions, rewards, ("a", "b"), propensities=np.full(500, 0.2))  # they are 0.5
    with pytest.warns(UserWarning, match="propensities that cannot be those of its actions"):
        found = evaluate([0.5, 0.5], log, "betting", logger="learned")
    assert np.isnan([found.low, found.high]).all()


def test_an_arms_estimate_is_the_weighted_mean_of_its_scores():
    log = make_logs(num_rows=60)[0]
    chances, pulled = log.probabilities[:, 1], log.actions == 1
    top, bottom, squares, seen = 0.0, 0.0, [], []
    for row, (e, hit, reward) in enumerate(zip(chances, pulled, log.rewards, strict=True)):
        pooled = np.mean(log.rewards[:row]) if row else 0.0
        mean = np.mean([*seen, pooled])
        score = mean + (reward - mean) / e if hit else mean
        top, bottom = top + np.sqrt(e) * score, bottom + np.sqrt(e)
        squares.append((np.sqrt(e), score))
        seen += [reward] if hit else []
    q = top / bottom
    found = estimate_arm(chances, pulled, log.rewards, is_bounded=False)
    assert found.estimate == pytest.approx(q)
    error = np.sqrt(sum(h**2 * (g - q) ** 2 for h, g in squares)) / bottom
    own = 1 / np.sqrt(chances[pulled])
    size = own.sum() ** 2 / (own**2).sum()
    variance = (np.var(seen) * len(seen) + 2 * np.var(log.rewards)) / (len(seen) + 2)
    error = max(error, np.sqrt(variance * 60) / bottom)
    assert found.high - q == pytest.approx(scipy.stats.t.ppf(0.975, size - 1) * error)
    bounded = estimate_arm(chances, pulled, log.rewards)
    assert bounded.low <= q <= bounded.high


def test_equal_probabilities_of_two_arms_that_never_pay_give_wilsons_upper_limit():
    """With m = 0 all scores are 0; Wilson's upper limit at 0 of n is z^2 / (n + z^2)."""
    found = estimate_arm(np.full(200, 0.5), np.arange(200) % 2 == 0, np.zeros(200))
    z = scipy.stats.t.ppf(0.975, 99)
    assert found.estimate == 0 and found.low == 0
    assert found.high == pytest.approx(z**2 / (100 + z**2))


def test_rows_without_an_arm_change_nothing_of_it():
    log = make_logs()[0]
    pulled = log.actions == 0
    usual = estimate_arm(log.probabilities[:, 0], pulled, log.rewards)
    more = [np.append(each, [0.0] * 50) for each in (log.probabilities[:, 0], pulled, log.rewards)]
    np.testing.assert_allclose(estimate_arm(more[0], more[1] > 0, more[2]), usual)


@pytest.mark.parametrize("estimator", ["adaptive", "betting"])
def test_intervals_of_policies_and_differences_cover_what_they_say(estimator):
    """At least .92 of the answered ones (docs/posterior.md), to four deviations of 200 logs."""
    least = 0.92 - 4 * np.sqrt(0.92 * 0.08 / 200)
    policies = [([0, 1, 0], None), ([1 / 3, 1 / 3, 1 / 3], None), ([0, 0.5, 0.5], [1, 0, 0])]
    covered, logs = [], make_logs(200)
    for policy, baseline in policies:
        truth = (policy if baseline is None else np.subtract(policy, baseline)) @ MEANS
        found = [evaluate(policy, log, estimator, baseline=baseline) for log in logs]
        covered.append(np.mean([each.low <= truth <= each.high for each in found]))
    assert min(covered) > least, covered


def test_bets_refuse_means_whose_capital_is_above_40():
    values = np.random.default_rng(0).random(300) - 0.2
    value, low = bet_on_mean(values, 0.2)
    deviations = [np.sqrt(1 - 0.25)]  # of one value, .5, and a spread
    for count in range(1, 300):
        seen = values[:count]
        mean = (seen.sum() + 0.5) / (count + 1)
        deviations.append(np.sqrt(((seen**2).sum() + 1) / (count + 1) - mean**2))
    bets = np.minimum(np.sqrt(2 * np.log(40) / 300) / deviations, 0.75 / 1.2)
    assert np.prod(1 + bets * (values - low)) == pytest.approx(40, rel=1e-6)
    assert value == pytest.approx(bets @ values / bets.sum()) and -0.2 < low < value
    assert bet_on_mean(np.zeros(20), 0.0)[1] == 0  # nothing is refused


def test_a_range_of_rewards_scales_values_and_limits():
    log = make_logs()[0]
    scaled = replace(log, rewards=3 * log.rewards - 1)
    for estimator, baseline in [("adaptive", None), ("betting", None), ("adaptive", [0, 1, 0])]:
        options = {"estimator": estimator, "baseline": baseline}
        usual = evaluate([1, 0, 0], log, **options)
        found = evaluate([1, 0, 0], scaled, reward_range=(-1, 2), **options)
        shift = -1 if baseline is None else 0
        for name in ("value", "low", "high"):
            assert getattr(found, name) == pytest.approx(3 * getattr(usual, name) + shift)


def test_the_default_is_honest_where_the_log_lets_it():
    log = make_logs()[0]
    assert evaluate([0.5, 0.5, 0], log) == evaluate([0.5, 0.5, 0], log, "adaptive")
    shown = replace(log, features=np.zeros((400, 1)), probabilities=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = evaluate([0.5, 0.5, 0], shown, logger="learned")
    assert found == evaluate([0.5, 0.5, 0], shown, "betting")
    usual = evaluate([0.5, 0.5, 0], shown, logger="frozen")
    assert usual == evaluate([0.5, 0.5, 0], log, "snips", logger="frozen")


def test_few_pulls_of_an_arm_have_limits_of_bets_if_rewards_have_a_range():
    rng = np.random.default_rng(0)
    actions = np.repeat([0, 1, 2], [180, 11, 9])
    rewards = (rng.random(200) < MEANS[actions]).astype(float)
    log = Log(actions, rewards, ("a", "b", "c"), probabilities=np.tile([0.9, 0.06, 0.04], (200, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate([0.5, 0.5, 0], log)
    with pytest.warns(UserWarning, match=r"arms \('c',\) of the policy have fewer than 10 rows"):
        assert evaluate([0, 0, 1], log) == evaluate([0, 0, 1], log, "betting")
    sales = replace(log, rewards=10 * rewards)
    with pytest.warns(UserWarning, match=r"no limits without reward_range=\(low, high\)"):
        assert np.isnan(evaluate([0, 0, 1], sales).low)
    with pytest.warns(UserWarning, match="limits without a range are short"):
        assert evaluate([1, 0, 0], sales).low < 5 < evaluate([1, 0, 0], sales).high
    with pytest.warns(UserWarning, match="limits without a range are short"):
        assert np.isnan(evaluate([1, 0, 0], replace(log, rewards=np.ones(200))).low)


def test_a_propensity_next_to_nothing_gives_limits_and_no_overflow():
    log = Log([0, 1] * 50, [1.0, 0.0] * 50, (0, 1), [0.5, 0.5] * 49 + [5e-324, 0.5])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = evaluate([1, 0], log, "betting")
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_what_an_estimator_lacks_is_refused():
    log = make_logs(num_rows=100)[0]
    rows = np.tile([1.0, 0.0, 0.0], (100, 1))
    rows[0] = [0.0, 1.0, 0.0]
    shown = replace(log, features=np.zeros((100, 1)))
    sales = replace(log, rewards=2 * log.rewards)
    first, ips = rows[1], {"estimator": "ips", "baseline": rows[0]}
    refused = [
        (replace(log, probabilities=None), first, {}, "where log has no probabilities"),
        (shown, first, {}, "where log has features; leave them out if"),
        (log, rows, {}, "where the policy is not the same in all rows"),
        (log, first, {"clip": 3.0}, "clip must be None for 'adaptive', got 3.0"),
        (sales, first, {"estimator": "betting"}, "reward_range must be (low, high) for 'bett"),
        (log, first, {"reward_range": (1, 0)}, "reward_range must be (low, high), low < high"),
        (sales, first, {"reward_range": (0, 1)}, "must be in reward_range, 0 to 1, got 2.0"),
        (log, first, ips, "baseline must be None for 'ips'"),
        (log, first, {"baseline": [1, 1, 0]}, "baseline must"),
    ]
    adaptive = {"estimator": "adaptive"}
    check_refusals(lambda of, policy, given: evaluate(policy, of, **adaptive | given), refused)
