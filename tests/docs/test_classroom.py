"""The exercise of the page for classrooms: its check knows UCB from what is not UCB yet."""

import re

import numpy as np
from documents import blocks, run

import bandit_gym as bg

CELLS = blocks("docs/tutorials/in-the-classroom.md", r"\{code-cell\} ipython3")


def test_the_check_accepts_the_solution_and_says_what_is_wrong_with_everything_else():
    names = {"bg": bg, "np": np, "__name__": "classroom"}
    for cell in CELLS:
        if defined := re.search(r"^(class|def) .*?(?=^\w)", f"{cell}\nend", re.M | re.S):
            run(defined[0], names)
    assert names["check"](names["Solution"]) == "Yes, this is UCB."
    assert names["check"](names["MyUCB"]).startswith("Not yet: after 0 pulls act returns None")
    assert names["check"](names["Greedy"]).endswith("has a larger bound.")
