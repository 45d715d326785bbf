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
        "a\0b", "\ud800", "/dev/null", "text.py", "bytes.json", "foreign", "dangling",
    ),
    "entries": (  # {kind} is "env" or "agent", {good} a name
        None, THING, 5, "{good}", {}, [], [None], [5], [[]], [""], ["x"], ["a:b"], [{}],
        [{"{kind}": 5}], [{"{kind}": "{good}", "x": 1}], [{"{kind}": "{good}", "label": "a\nb"}],
        [{"{kind}": "{good}", "grid": {"x": 1}}], ["{good}", "{good}"], ["./x:Y"],
        ["builtins:print"],
    ),
    "int text": (
        "", " ", "x", "1.5", "-1", "0", "1e3", "nan", "inf", "1" * 5000, "1e18", "0x10",
        "1_000", "½", "1,000", "None", "True", "[1]", "\n", "a\0b",
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
        "/dev/null", "/dev/null/x", "/proc/x", "x" * 5000, "x" * 300,
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
