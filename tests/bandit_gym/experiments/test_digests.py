"""Digests follow what code does: another digest wherever something is another, and only there."""

import functools
import threading

import numpy as np
import pytest
from documents import run

from bandit_gym.experiments.digests import digest_of, importable_name
from bandit_gym.priors import Beta

CODE = """
import functools
import numpy as np
SIZE = 3
def inner(x):
    return x + SIZE
def outer(step=1):
    def grow(x):
        return inner(x) * step
    return grow
class Base:
    limit = 5
    @staticmethod
    def rule(x):
        return inner(x)
class Agent(Base):
    def __init__(self, arm=0):
        self.arm = arm
    @property
    def double(self):
        return 2 * self.arm
    @functools.cached_property
    def table(self):
        return np.arange(self.arm)
value = Agent(4)
"""


def digest(code, name, module="__notebook__"):
    names = {"__name__": module}
    run(code, names)
    return digest_of(names[name])


@pytest.mark.parametrize("name", ["Agent", "value", "outer", "inner"])
def test_code_that_is_run_again_keeps_its_digest(name):
    assert digest(CODE, name) == digest("\n\n" + CODE, name)
    assert digest(CODE, name) == digest(CODE, name, "builtins") == digest(CODE, name, "another")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SIZE = 3", "SIZE = 4"),
        ("x + SIZE", "x - SIZE"),
        ("limit = 5", "limit = 6"),
        ("2 * self", "3 * self"),
        ("np.arange(self", "np.ones(self"),
        ("arm=0", "arm=1"),
        ("class Agent(Base)", "class Agent(Base, list)"),
    ],
)
def test_any_change_of_what_a_class_uses_changes_its_digest(old, new):
    assert old in CODE
    assert digest(CODE, "Agent") != digest(CODE.replace(old, new), "Agent")


def test_attributes_of_an_object_count():
    assert digest(CODE, "value") != digest(CODE.replace("Agent(4)", "Agent(5)"), "value")
    assert digest_of(Beta(1.0, 2.0)) == digest_of(Beta(1.0, 2.0)) != digest_of(Beta(1.0, 3.0))
    assert digest_of([np.arange(3)]) == digest_of([np.arange(3)]) != digest_of([np.arange(4)])


def test_what_a_function_encloses_counts():
    codes = (f"{CODE}\nfound = outer({step})" for step in (1, 2, 2))
    one, two, again = (digest(code, "found") for code in codes)
    assert one != two == again


def test_unused_names_do_not_count():
    assert digest(CODE, "inner") == digest(CODE.replace("limit = 5", "limit = 6"), "inner")


def test_objects_that_nobody_can_hash_are_told_by_their_kind():
    assert digest_of(threading.Lock()) == digest_of(threading.Lock())


def test_importable_is_what_another_process_finds():
    names = {"__name__": "__notebook__"}
    run(CODE, names)
    assert importable_name(Beta) == "bandit_gym.priors.independent:Beta"
    assert importable_name(names["Agent"]) is None and importable_name(Beta(1, 1)) is None
    assert importable_name(functools.partial(Beta, 1)) is None
    assert importable_name(Beta.to_dict) is None
    assert importable_name(dict) == "builtins:dict"
