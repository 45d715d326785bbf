"""What stands for objects in settings, here and in other processes."""

import pickle

from bandit_gym.experiments.entries import Entry, is_stand_in
from bandit_gym.experiments.provenance import find_sources

UNKNOWN = "<own>:Lost.0123456789abcdef"


def test_other_values_stand_for_themselves():
    values = ["exact", "mine:Own", "<own>:Own", 3, None, UNKNOWN + "0"]
    assert [each for each in values if is_stand_in(each)] == []
    assert Entry("exact", {"values": values}, "exact").pickles == {}


def test_entry_of_another_session_is_still_read():
    entry = Entry(UNKNOWN, {}, "mine")
    assert (entry.name, find_sources(entry.target, entry.options, entry.pickles)) == ("Lost", {})
    assert pickle.loads(pickle.dumps(entry)) == entry
