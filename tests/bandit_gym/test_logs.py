"""A log is read with its labels and order, refused by name, and learned row by row."""

import numpy as np
import pandas as pd
import pytest
from refusals import check_refusals
from surface import started

from bandit_gym import BanditProblem
from bandit_gym.contexts import disjoint
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.logs import Log, fit_propensities, read_log
from bandit_gym.priors import Beta, Normal
from bandit_gym.problem import ContextualProblem

TABLE = pd.DataFrame({"ad": ["b", "a", "b", "b"], "click": [1, 0, 0, 1], "p": [0.5, 0.5, 0.5, 1]})
PROBLEM = BanditProblem(Bernoulli(), Beta(1, 1), 2)


def test_labels_are_mapped_and_order_is_kept(tmp_path):
    TABLE.to_csv(tmp_path / "log.csv", index=False)
    log = read_log(tmp_path / "log.csv", arm="ad", reward="click", arms=["c", "b", "a"])
    assert log.actions.tolist() == [1, 2, 1, 1] and log.counts.tolist() == [0, 3, 1]
    assert log.sums.tolist() == [0, 2, 0]
    unnamed = TABLE.set_axis(range(3), axis=1)
    assert read_log(unnamed, arm="0", reward="1").counts.tolist() == [1, 3]


def test_numbers_of_any_width_are_labels():
    for kind in (np.float16, np.float32, np.int8):
        ads = np.array([3, 2, 3, 3], dtype=kind)
        assert read_log(TABLE.assign(ad=ads), arm="ad", reward="click").arms == (2, 3)


def test_rows_without_a_reward_are_counted_aloud():
    table = TABLE.assign(click=[1, None, 0, 1], ad=["b", "a", "a", "b"])
    with pytest.warns(UserWarning, match="1 of 4 rows"):
        log = read_log(table, arm="ad", reward="click")
    assert len(log) == 3 and log.num_dropped == 1


def test_what_is_wrong_is_named():
    table = TABLE.assign(wrong=[0.0, 0.5, 0.5, 0.5], day=pd.Timestamp("2026-01-01"), both=1j)
    table.insert(0, "month", pd.Period("2026-01", "M"))
    twice, both = pd.concat([TABLE, table], axis=1), "column 'both' must have finite numbers only"
    rows = [
        (table, {"arms": ["a", "c"]}, "got 'b'"),
        (table, {"propensity": "wrong"}, "in (0, 1], got 0.0"),
        (table, {"features": pd.Index(["click", "colour"])}, "'both', got 'colour'"),
        (table, {"features": ["month"]}, "'month' must have finite numbers only, got Period"),
        (table, {"features": ["day"]}, "'day' must have finite numbers only, got", "2026"),
        (table, {"features": ["both"]}, both, "got 1j"),
        (twice, {}, "one of 'month', 'wrong', 'day', 'both', got 'ad'"),
        (table, {"arms": {"a", "b"}}, TypeError, "arms must be in an order, as a list is, got"),
        (table, {"probabilities": ["ad"]}, TypeError, "be a dict, the column of each arm's label"),
        (table.assign(ad=[2, "1", 1, 2]), {}, "no number beside its own text, got '1' in row 3;"),
        (table.assign(ad=[["a"]] * 4), {}, "column 'ad' must be labels, not lists, got ['a']"),
    ]
    check_refusals(lambda table, given: read_log(table, arm="ad", reward="click", **given), rows)
    columns = [
        ("actions", [-1, 0], "log.actions must be integers from 0 to 1, got -1"),
        ("actions", 0, TypeError, "log.actions must be integers, got"),
        ("actions", ["b", "a"], TypeError, "log.actions must be integers, got", "'b'"),
        ("rewards", [[0.0], [1.0]], "log.rewards must have shape (t,), t = 2", "got (2, 1)"),
        ("features", [[0.0], [np.inf]], "log.features must be finite numbers, got inf"),
        ("features", [[0.0]], "log.features must have shape (t, d), t = 2", "got (1, 1)"),
        ("propensities", [0.5, 50.0], "log.propensities must be in (0, 1], got 50"),
    ]
    given = {"actions": [0, 1], "rewards": [0, 1], "arms": ("a", "b")}
    check_refusals(lambda name, column: Log(**given | {name: np.array(column)}), columns)


def test_probabilities_of_all_arms_are_read_by_label_and_normalised():
    columns = {"pa": [0.5, 0.49995, None, 0.2], "pb": [0.5, 0.5, 1, 0.8]}
    table = TABLE.assign(**columns)
    log = read_log(table, arm="ad", reward="click", probabilities={"b": "pb", "a": "pa"})
    assert log.arms == ("b", "a")
    expected = [[0.5, 0.5], [0.5 / 0.99995, 0.49995 / 0.99995], [1, 0], [0.8, 0.2]]
    np.testing.assert_allclose(log.probabilities, expected)
    np.testing.assert_allclose(log.propensities, [0.5, 0.49995 / 0.99995, 1, 0.8])
    assert fit_propensities(log).probabilities is None
    names = {"a": "pa", "b": "pb"}
    rows = [
        ({"pb": [0.5, 0.6, 1, 0.8]}, {}, "probabilities must sum to 1, got 1.09995 in row 3"),
        ({"pa": [0.5, 0.5, 1, 0.2], "pb": [0.5, 0.5, None, 0.8]}, {}, "chosen, got 0.0 in row 4"),
        ({"pa": [1.5, 0.5, 0, 0.2], "pb": [-0.5, 0.5, 1, 0.8]}, {}, "0, got -0.5 in row 2"),
        ({"pb": ["x", 0.5, 1, 0.8]}, {}, "column 'pb' must have finite numbers only, got 'x'"),
        ({}, {"arms": ["a", "b", "c"]}, "a column for each of the arms, ('a', 'b', 'c')"),
        ({}, {"probabilities": {"a": "pa", "b": "pc"}}, "'pb', got 'pc'; the nearest"),
        ({}, {"propensity": "ad"}, "propensity must be None where", "are given, got 'ad'"),
    ]

    def read(change, options):
        options = {"probabilities": names} | options
        return read_log(table.assign(**change), arm="ad", reward="click", **options)

    check_refusals(read, rows)
    rows = [
        (None, [[0.5, 0.25, 0.25]], "shape (t, K), K = 2 arms, got (1, 3)"),
        ([0.3], [[0.5, 0.5]], "be the actions' own log.probabilities, got 0.3 in row 0"),
    ]
    check_refusals(lambda own, all: Log([0], [1.0], ("a", "b"), own, probabilities=all), rows)


def test_fitted_propensities_are_shares_of_a_group():
    log = read_log(TABLE, arm="ad", reward="click")
    assert fit_propensities(log).propensities.tolist() == [0.75, 0.25, 0.75, 0.75]
    for by in ([1, 1, "1", "1"], ["x", "x", None, None], [np.nan, np.nan, 1, 1]):
        assert fit_propensities(log, by=by).propensities.tolist() == [0.5, 0.5, 1, 1], by


@pytest.mark.parametrize("num_envs", [None, 2])
def test_observing_a_log_is_observing_its_rows(num_envs):
    log, shape = read_log(TABLE, arm="ad", reward="click"), num_envs or ()
    for options in ({}, {"discount": 0.5}, {"window": 2}):
        first, second = (started("exact", PROBLEM, num_envs, **options) for _ in range(2))
        first.observe_log(log)
        for action, reward in zip(log.actions, log.rewards, strict=True):
            second.observe(np.full(shape, action), np.full(shape, reward))
        np.testing.assert_array_equal(first.counts, second.counts, str(options))
        np.testing.assert_array_equal(first.sums, second.sums, str(options))


@pytest.mark.parametrize("num_envs", [None, 2])
def test_observing_a_log_with_features_is_observing_its_rows(num_envs):
    table = TABLE.assign(age=[0.3, -1.0, 0.5, 2.0])
    log = read_log(table, arm="ad", reward="click", features=["age"])
    problem = ContextualProblem(Bernoulli(), Normal(0.0, 1.0), num_arms=2, num_features=4)
    features = disjoint(log.features, num_arms=2)
    pulled = features[np.arange(4), log.actions]
    first, second, third = (started("racing", problem, num_envs) for _ in range(3))
    with pytest.raises(TypeError, match=r"observation must be features of shape \(4, K, 4\), or"):
        first.observe_log(log)
    with pytest.raises(ValueError, match="observation must have the log's 2 arms, got 1"):
        first.observe_log(log, observation=features[:, :1])
    first.observe_log(log, observation=features)
    second.observe_log(log, observation=pulled)
    lanes = () if num_envs is None else (num_envs,)
    for row, action, reward in zip(pulled, log.actions, log.rewards, strict=True):
        observation = np.broadcast_to(row, (*lanes, 4))
        third.observe(np.full(lanes, action), np.full(lanes, reward), observation=observation)
    visitor = np.broadcast_to(features[0], (*lanes, 2, 4))
    expected = third.action_probabilities(visitor)
    for agent in (first, second):
        np.testing.assert_array_equal(agent.action_probabilities(visitor), expected)


def test_a_log_that_does_not_fit_changes_nothing():
    agent = started("exact", PROBLEM)
    with pytest.raises(ValueError, match="log must have 2 arms, got 3"):
        agent.observe_log(read_log(TABLE, arm="ad", reward="click", arms="abc"))
    with pytest.raises(ValueError, match="must be 0 or 1"):
        agent.observe_log(read_log(TABLE.assign(click=[1, 0, 0, 2]), arm="ad", reward="click"))
    assert agent.counts.sum() == 0
