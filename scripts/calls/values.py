"""Twenty fixed bad values of each type of argument.

Some are good for some arguments (0 as a seed, None where that is the default); such a call is
accepted, and listed to be read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

NAN, INF, HUGE = float("nan"), float("inf"), 10**400
RAGGED: Any = [[1], [1, 2]]


class Thing:
    """An object of nobody's class."""

    def __repr__(self) -> str:
        return "<Thing>"


def no_argument() -> None:
    """Take too few arguments for what is told something."""


def two_arguments(first: Any, second: Any) -> None:
    """Take too many."""


def _late(steps: Any, actions: Any = (0,), rewards: Any = (1.0,)) -> dict[str, Any]:
    """Return what is told of late rewards."""
    told = {"feedback_step": steps, "feedback_action": actions, "feedback_reward": rewards}
    return {"regret": 0.0, **told}


def _log(**bad: Any) -> dict[str, Any]:
    """Return a log of one row with something wrong in it."""
    return {"action": [0], "reward": [1.0], "lane": [0], **bad}


THING = Thing()

# fmt: off
VALUES: dict[str, tuple[Any, ...]] = {
    "integer": (
        None, THING, "3", b"3", 2.5, NAN, INF, -INF, 1j, [3], {}, {"n": 3}, np.array([1, 2]),
        True, -1, 0, -HUGE, HUGE, 10**18, 2**63,
    ),
    "real": (
        None, THING, "0.5", b"", NAN, INF, -INF, 1j, [0.1], [[0.1]], {}, True, -1.0, 0.0, 1e308,
        -1e308, HUGE, -HUGE, np.array([0.1, 0.2]), np.array("x"),
    ),
    "name": (
        None, THING, "", " ", "x", "X" * 1000, "\n", "\ud800", b"x", 0, 1.5, NAN, True, [], ["x"],
        {}, ("a", "b"), int, len, "a:b",
    ),
    "flag": (
        None, THING, "", "yes", "False", 0, 1, -1, 0.5, NAN, 1j, [], [True], {}, (), b"", int,
        len, np.array([True, False]), HUGE,
    ),
    "parameter": (  # one number, or one per arm
        None, THING, "x", NAN, INF, -INF, 1j, HUGE, [], [0.5], [0.1] * 7,
        [[0.1, 0.2], [0.3, 0.4]], [NAN, 1, 1], ["a", 1, 1], [None, 1, 1], RAGGED, {}, True,
        {1, 2}, np.array([]),
    ),
    "lanes": (  # actions or rewards
        None, THING, "x", 1.5, NAN, INF, -1, HUGE, [], [0], [0] * 7, [[0, 1], [1, 0]], [NAN, 0],
        ["a", "b"], [None, 0], RAGGED, {}, True, 1j, 10**18,
    ),
    "mask": (
        None, THING, "x", 1, 0.5, [], [True], [True] * 7, [[True, False]], [1, 0], [0.5, 1],
        ["a", "b"], [None, True], NAN, {}, {True}, 1j, -1, b"", RAGGED,
    ),
    "statistics": (  # counts or sums
        None, THING, "x", NAN, INF, -1, 2.5, 1j, HUGE, [], [1], [1] * 7, RAGGED, [NAN, 1, 1],
        [-1, 1, 1], ["a", 1, 1], [None, 1, 1], {}, True, [2**63, 1, 1],
    ),
    "object": (
        None, THING, "x", "", 0, 1.5, NAN, True, [], {}, (), {1}, b"x", len, int, dict,
        ValueError("x"), np.zeros(3), 1j, HUGE,
    ),
    "function": (
        None, THING, "x", "", 0, 1.5, NAN, True, [], {}, (), {1}, b"x", no_argument,
        two_arguments, ValueError("x"), np.zeros(3), 1j, HUGE, two_arguments,
    ),
    "mapping": (
        None, THING, "x", 5, 1.5, True, [], [("a", 1)], (), {"x": 1}, {1: 2}, {"": 1},
        {"name": 1}, {"name": "x"}, {"name": None}, {None: None}, {1}, b"",
        {"name": {"name": "x"}}, NAN,
    ),
    "seed": (
        None, THING, "0", b"0", -1, 1.5, NAN, INF, True, 1j, [], [0], [1, 2, 3, 4], {}, -HUGE,
        HUGE, [None, -1], ["a", "b"], np.array(3.5), (0, 1.5),
    ),
    "path": (  # `outcome.make` furnishes them; "stored" holds results
        None, THING, 5, 1.5, True, [], {}, b"x", "", "text.py/x",
        "missing", "missing/deeper", "x" * 5000,
        "a\0b", "\ud800", "device", "text.py", "bytes.json", "foreign", "dangling",
    ),
    "entries": (  # {kind} is "env" or "agent", {good} a name
        None, THING, 5, "{good}", {}, [], [None], [5], [[]], [""], ["x"], ["a:b"], [{}],
        [{"{kind}": 5}], [{"{kind}": "{good}", "x": 1}], [{"{kind}": "{good}", "label": "a\nb"}],
        [{"{kind}": "{good}", "grid": {"x": 1}}], ["{good}", "{good}"], ["./x:Y"],
        ["builtins:print"],
    ),
    "rule": (
        None, THING, 5, "", "x", "exact ", "racing", b"x", NAN, True, [], {}, {"name": 5},
        {"name": "x"}, {"name": "optimal"}, {"name": "ucb1", "x": 1}, {"name": "ucb1", "scale": -1},
        {"name": "sliding_window"}, {"rule": "ucb1"}, {"name": None},
    ),
    "delay": (
        None, THING, "3", NAN, 2.5, -1, HUGE, 10**7, True, [], {}, {"name": "x"}, 1j, {"low": 1},
        {"name": "uniform"}, {"name": "uniform", "low": 2, "high": 1},
        {"name": "uniform", "low": -1, "high": 1}, {"name": "uniform", "low": 0, "high": 1, "x": 2},
        {"name": "geometric", "mean": NAN, "maximum": 5},
        {"name": "geometric", "mean": 1, "maximum": 10**9},
    ),
    "masks": (  # of three arms
        None, THING, 5, "x", True, NAN, b"x", {}, {"a": 1}, [], [[]], [[True]], [[True] * 7],
        [[False] * 3], [[1, 0, 2]], [["a", "b", "c"]], [None], [[None, True, True]], RAGGED,
        [[True] * 3, [0.5, 1, 1]],
    ),
    "availability": (  # of three arms in two lanes
        THING, "x", 1, NAN, True, [], {}, [True] * 3, [[True] * 3], [[True] * 3] * 3,
        [[True] * 2] * 2, [[False] * 3] * 2, [[True] * 3, [False] * 3], [[1, 0, 2]] * 2,
        [["a", "b", "c"]] * 2, [[None, True, True]] * 2, [[0.5, 1, 1]] * 2, RAGGED, 1j, HUGE,
    ),
    "wrappers": (
        None, THING, 5, "Drift", {}, [None], [5], [[]], [{}], [{"name": 5}], [{"name": ""}],
        [{"name": "x"}], [{"name": "a:b"}], [{"name": "builtins:print"}],
        [{"name": "Drift", "x": 1}], [{"name": "Drift"}], [{"name": "Drift", "std": NAN}],
        [{"name": "DelayedReward", "delay": -1}], [{"name": "AvailableArms", "masks": []}],
        [{"name": "BatchedFeedback"}, {"name": "BatchedFeedback"}],
    ),
    "told": (  # what a step of a single environment tells of late rewards
        None, THING, 5, "x", [], True, {1}, b"x", {"regret": 0}, {"feedback_step": [0]},
        _late(5), _late(-3), _late([3]), _late([-2]), _late([NAN]), _late(["a"]), _late([0], [9]),
        _late([0], [0], [0.5]), _late([0], [0], [NAN]), _late([0, 0], [0], [1.0]),
    ),
    "frame": (  # of three arms and two lanes
        None, THING, 5, "x", [], {}, [[0, 1]], {"action": [0]}, {"action": [0], "reward": [1]},
        _log(action=[0, 1]), _log(action=[0.5]), _log(action=[9]), _log(action=["a"]),
        _log(action=[[0]]), _log(action=None), _log(reward=[NAN]), _log(reward=[0.5]),
        _log(reward=["x"]), _log(lane=[7]), _log(lane=[-1]),
    ),
    "agent objects": (
        None, THING, 5, "x", b"x", {}, [], [None], [5], [[]], {"a": None}, {"a": 5},
        {1: "random"}, {"": "random"}, {"a\nb": "random"}, {"a": {}}, {"a": {"agent": 5}},
        {"a": {"agent": "random", "x": 1}}, ["random", "random"], {"a": two_arguments},
    ),
    "env object": (
        None, THING, 5, "", "x", "BernoulliBandit-v9", "CartPole-v1", [], [None], {}, {"env": 5},
        {"env": "BernoulliBandit-v0", "x": 1}, {"env": None}, True, 1.5, int, len, b"x",
        ["BernoulliBandit-v0"] * 2, {"env": "BernoulliBandit-v0", "label": "a\nb"},
    ),
    "int text": (
        "", " ", "x", "1.5", "-1", "0", "1e3", "nan", "inf", "1" * 5000, "1e18", "0x10",
        "1_000", "½", "1,000", "None", "True", "[1]", "\n", "a\0b",
    ),
    "number text": (
        "", " ", "x", "-1", "nan", "inf", "-inf", "1e400", "1,5", "½", "1_0", "None", "True",
        "[1]", "0x1", "\n", "a\0b", "1e", "--", "9" * 5000,
    ),
    "agent text": (
        "", " ", ":", "x", "./x:Y", ".x:Y", "a:b", "agents:AGENTS", "builtins:print",
        "collections:OrderedDict", "random:x=1", "random:agent=ucb1",
        "racing:delta=0.1,delta=0.2", "racing:delta=x", "racing:delta=[", "racing:label=\n",
        "racing:" + "[" * 9999, "ucb1:scale", "ucb1:scale=" + "9" * 400, "smc:num_particles=1e30",
    ),
    "env text": (
        "", " ", "x", ":", "a:b", "BernoulliBandit", "BernoulliBandit-v9", "bernoullibandit-v0",
        "CartPole-v1", "./x:Y-v0", "os:x-v0", "a b", "\n", "$x", "-v0", "x" * 1000, "bandit_gym:",
        "bandit_gym:x-v0", "bandit_gym:CartPole-v1", "BernoulliBandit-v0:x=1",
    ),
    "json text": (
        "", " ", "{", "5", "[]", "null", "x", '"x"', "NaN", '{"x": 1}', '{"num_arms": 1}',
        '{"num_arms": NaN}', '{"num_arms": "x"}', '{"env": "x"}', '{"label": "\\n"}',
        '{"num_arms": 2, "num_arms": 3}', '{"prior": 5}', '{"prior": {"name": "x"}}',
        '{"means": [1]}', "[" * 99999,
    ),
    "path text": (
        "", " ", "bytes.json/x", ".", "..",
        "device", "/dev/null/x", "/proc/x", "x" * 5000, "x" * 300,
        "text.py", "text.py/x", "bytes.json", "foreign", "dangling", "missing", "missing/x",
        "empty.toml", "torn.json", "a\nb",
    ),
    "name text": (
        "", " ", "x", "Loky", "serial ", "1", "-1", "None", "\n", "\t", "$", "ray,dask",
        "x" * 1000, "é", "[]", "{}", "loky;", "'serial'", "0", "nan",
    ),
    "address text": (
        "", " ", "x", ":", "1", "localhost", "localhost:", ":1", "localhost:x", "localhost:99999",
        "tcp://", "tcp://localhost", "tcp://localhost:x", "tcp://:1", "x://localhost:1", "\n",
        "127.0.0.1:1", "tcp://127.0.0.1:1", "[::1", "a b:1",
    ),
}
# fmt: on
