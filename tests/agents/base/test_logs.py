"""Logged data in one call: what one row at a time would have taught."""

import pickle

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from families import ALL_AGENTS, CONJUGATE_PROBLEMS
from gymnasium.error import InvalidAction, ResetNeeded
from last_paid import LastPaid

from agents import ExactThompson, make_agent
from agents.base.logs import rounds, spread
from bandit_gym.checks import Log

PROBLEM = CONJUGATE_PROBLEMS[0]
ACTIONS, REWARDS, LANES = [0, 3, 3, 1, 0], [1.0, 0.0, 1.0, 0.0, 1.0], [1, 0, 1, 1, 1]
LOG = {"lane": LANES, "action": ACTIONS, "reward": REWARDS}
TABLES = {"dict": dict, "pandas": pd.DataFrame, "polars": polars.DataFrame, "pyarrow": pa.table}


def started(agent, num_envs=2):
    agent.reset(num_envs, seed=0)
    return agent


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_log_is_added_to_what_is_known(table):
    agent = started(ExactThompson(PROBLEM))
    agent.observe([2, 2], [1.0, 1.0])
    agent.observe_log(table(LOG))
    assert agent.counts.tolist() == [[0, 0, 1, 1], [2, 1, 1, 1]]
    assert agent.sums.tolist() == [[0, 0, 1, 0], [2, 0, 1, 1]]


@pytest.mark.parametrize("name", ALL_AGENTS)
def test_agent_acts_after_a_log_as_after_its_rows(name):
    one_call, one_by_one = (started(make_agent(name, PROBLEM), None) for _ in range(2))
    one_call.observe_log({"action": ACTIONS, "reward": REWARDS})
    for action, reward in zip(ACTIONS, REWARDS, strict=True):
        one_by_one.observe(action, reward)
    assert [one_call.act() for _ in range(5)] == [one_by_one.act() for _ in range(5)]


@pytest.mark.parametrize(
    "options", [("exact", {"discount": 0.5}), ("sliding_window", {"window": 2})]
)
def test_agent_that_forgets_is_told_row_by_row(options):
    name, hyperparameters = options
    agent, twin = (started(make_agent(name, PROBLEM, **hyperparameters), None) for _ in range(2))
    agent.observe_log({"action": ACTIONS, "reward": REWARDS})
    for action, reward in zip(ACTIONS, REWARDS, strict=True):
        twin.observe(action, reward)
    assert (agent.counts == twin.counts).all() and (agent.sums == twin.sums).all()
    assert agent.counts.sum() < len(ACTIONS)


@pytest.mark.parametrize("num_envs", [None, 2])
def test_class_that_learns_row_by_row_is_told_row_by_row(num_envs):
    agent = started(LastPaid(PROBLEM), num_envs)
    agent.observe_log(LOG if num_envs else {"action": [0, 3, 1], "reward": [1.0, 1.0, 0.0]})
    assert agent.paid.tolist() == ([0, 0] if num_envs else [3])
    assert agent.history == ([2, 1, 1, 1] if num_envs else [1, 1, 1])
    assert agent.counts.sum() == (5 if num_envs else 3)


def test_sums_are_those_of_one_row_after_the_other():
    rng = np.random.default_rng(0)
    agent, twin = (started(ExactThompson(CONJUGATE_PROBLEMS[2]), None) for _ in range(2))
    log = {"action": rng.integers(4, size=300), "reward": rng.normal(size=300)}
    agent.observe_log(log)
    for action, reward in zip(*log.values(), strict=True):
        twin.observe(action, reward)
    assert (agent.sums == twin.sums).all()


def test_empty_log_changes_nothing():
    for agent in (ExactThompson(PROBLEM), LastPaid(PROBLEM)):
        started(agent).observe_log({"action": [], "reward": [], "lane": []})
        assert not agent.counts.any()


def test_rounds_keep_the_order_within_a_lane():
    log = Log(*(np.array(LOG[name]) for name in ("lane", "action", "reward")))
    found = [(part.lanes.tolist(), part.actions.tolist()) for part in rounds(log)]
    assert found == [([1, 0], [0, 3]), ([1], [3]), ([1], [1]), ([1], [0])]
    actions, rewards, mask = spread(next(rounds(log)), 3)
    assert (actions.tolist(), mask.tolist()) == ([3, 0, 0], [True, True, False])
    assert rewards.tolist() == [0.0, 1.0, 0.0]


BAD = [
    ({"action": [0]}, ValueError, "log must have the columns action, reward, lane, got"),
    (
        LOG | {"action": [0, 4, 0, 1, 1]},
        InvalidAction,
        "'action' must be .* 0 to 3, got 4 in row 1",
    ),
    (LOG | {"action": [0, 1, -1, 9, 1]}, InvalidAction, "got -1 in row 2"),
    (LOG | {"action": [0, 1, np.nan, 9, 1]}, InvalidAction, "got nan in row 2"),
    (LOG | {"action": [0, 1, 0.5, 9, 1]}, InvalidAction, "got 0.5 in row 2"),
    (LOG | {"action": [0, 1, None, 9, 1]}, InvalidAction, "numbers, got None in row 2"),
    (LOG | {"action": ["a"] * 5}, InvalidAction, "numbers, got 'a' in row 0"),
    (LOG | {"action": [0, 1]}, ValueError, "as many rows as the column 'reward', 5, got 2"),
    (LOG | {"action": [[0, 1]] * 5}, InvalidAction, "have one axis"),
    (LOG | {"reward": [1, 0, 1, 0.5, 1]}, ValueError, "'reward' must be 0 or 1 .*0.5 in row 3"),
    (LOG | {"reward": [1, np.nan, 1, 0, 1]}, ValueError, "got nan in row 1"),
    (LOG | {"reward": [1, pd.NA, 1, 0, 1]}, TypeError, "numbers, got <NA> in row 1"),
    (LOG | {"lane": [0, 0, 0, 2, 1]}, ValueError, "'lane' must be .* 0 to 1, got 2 in row 3"),
    (LOG | {"lane": [0]}, ValueError, "as many rows"),
    ([1, 2], TypeError, "log must be a data frame"),
    ("actions.csv", TypeError, "log must be a data frame"),
]


@pytest.mark.parametrize(("frame", "error", "text"), BAD)
def test_bad_log_is_one_sentence_and_changes_nothing(frame, error, text):
    agent = started(ExactThompson(PROBLEM))
    before = pickle.dumps(agent)
    with pytest.raises(error, match=text) as raised:
        agent.observe_log(frame)
    assert str(raised.value).endswith(".") and pickle.dumps(agent) == before


def test_log_needs_lanes():
    with pytest.raises(ResetNeeded):
        ExactThompson(PROBLEM).observe_log(LOG)
