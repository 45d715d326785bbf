"""What stands for objects in settings, here and in other processes."""

import pickle
import subprocess
import sys

import pytest
from documents import run

from bandit_gym.experiments.catalogue import (
    display_name,
    is_packed,
    pack_object,
    pickles_of,
    unpack_object,
    unpack_options,
)
from bandit_gym.experiments.experiment import Entry

UNKNOWN = "<own>:Lost.0123456789abcdef"


@pytest.fixture
def own():
    names = {"__name__": "__notebook__"}
    run("class Own:\n    def __init__(self, x):\n        self.x = x\n", names)
    return names["Own"]


def test_name_stands_for_the_object(own):
    value = own(3)
    name = pack_object(value)
    assert is_packed(name) and display_name(name) == "Own" and unpack_object(name) is value
    options = {"prior": {"name": name}, "list": [1, {"name": "beta"}]}
    assert unpack_options(options) == options | {"prior": value}
    assert list(pickles_of(options)) == [name]


@pytest.mark.parametrize("text", ["exact", "mine:Own", "<own>:Own", 3, None, UNKNOWN + "0"])
def test_other_values_stand_for_themselves(text):
    assert not is_packed(text) and pickles_of([text]) == {}


def test_object_of_another_session_is_told_of():
    with pytest.raises(ValueError, match="Lost must be importable .* name it 'module:Lost'"):
        unpack_object(UNKNOWN)


def test_entry_takes_its_objects_along(own):
    entry = Entry(pack_object(own), {"prior": {"name": pack_object(own(3))}}, "mine")
    assert pickle.loads(pickle.dumps(entry)) == entry
    code = "import pickle, sys\nfrom bandit_gym.experiments import catalogue\n"
    code += "entry = pickle.load(sys.stdin.buffer)\n"
    code += "options = catalogue.unpack_options(entry.options)\n"
    code += "print(catalogue.unpack_object(entry.target)(options['prior'].x).x)"
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(entry), check=True,
                          capture_output=True)  # fmt: skip
    assert done.stdout == b"3\n"


def test_entry_of_another_session_is_still_read():
    entry = Entry(UNKNOWN, {}, "mine")
    assert (entry.name, entry.sources()) == ("Lost", {})
    assert pickle.loads(pickle.dumps(entry)) == entry
