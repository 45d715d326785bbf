"""What stands for objects in settings, here and in other processes."""

import pickle

from documents import run

from bandit_gym.experiments.catalogue import Entry
from bandit_gym.experiments.provenance import (
    display_name,
    find_sources,
    is_packed,
    pack_object,
    pickles_of,
    unpack_object,
    unpack_options,
)

UNKNOWN = "<own>:Lost.0123456789abcdef"


def test_name_stands_for_the_object():
    names = {"__name__": "__notebook__"}
    run("class Own:\n    def __init__(self, x):\n        self.x = x\n", names)
    value = names["Own"](3)
    name = pack_object(value)
    assert is_packed(name) and display_name(name) == "Own" and unpack_object(name) is value
    options = {"prior": {"name": name}, "list": [1, {"name": "beta"}]}
    assert unpack_options(options) == options | {"prior": value}
    assert list(pickles_of(options)) == [name]


def test_other_values_stand_for_themselves():
    values = ["exact", "mine:Own", "<own>:Own", 3, None, UNKNOWN + "0"]
    assert [each for each in values if is_packed(each)] == [] and pickles_of(values) == {}


def test_entry_of_another_session_is_still_read():
    entry = Entry(UNKNOWN, {}, "mine")
    assert (entry.name, find_sources(entry.target, entry.options)) == ("Lost", {})
    assert pickle.loads(pickle.dumps(entry)) == entry
