from typing import NamedTuple

import numpy as np

from agents.saved.state import get_state, set_state


class Pair(NamedTuple):
    table: np.ndarray
    size: int


class Holder:
    state_names = ("named", "plain")

    def __init__(self, named, plain):
        self.named, self.plain = named, plain


def test_named_tuples_are_remembered_by_their_names_and_other_tuples_as_they_are():
    state = get_state(Holder(Pair(np.arange(3), 7), (1, 2)))
    assert state["named"]["table"].tolist() == [0, 1, 2] and state["named"]["size"] == 7
    assert state["plain"] == (1, 2)
    fresh = Holder(Pair(np.zeros(3, dtype=int), 0), ())
    set_state(fresh, state)
    assert type(fresh.named) is Pair and fresh.named.table.tolist() == [0, 1, 2]
    assert (fresh.named.size, fresh.plain) == (7, (1, 2))
