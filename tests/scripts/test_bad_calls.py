"""The table of bad calls, in small: how they are judged, and some of them made."""

import bad_calls
import lost_workers
import pytest
from calls import outcome
from calls.edges import Call, Edge
from calls.judge import CLEAR, DEPTHS, HANG, UNCLEAR, judge
from calls.outcome import Outcome, all_calls, make
from calls.values import VALUES

from bandit_gym.checks import check_integer, message

QUICK = ("environments", "problems and priors")


def raised(call):
    with pytest.raises(Exception) as caught:  # noqa: PT011  # whatever is raised is judged
        call()
    return caught.value


def call_of(argument, value):
    return Call(Edge("some", "f", lambda **_: None, {argument: "integer"}), argument, value)


def test_every_type_has_twenty_bad_values():
    assert {len(values) for values in VALUES.values()} == {20}


def test_there_are_enough_calls_of_every_class():
    groups = [call.edge.group for call in all_calls()]
    assert len(groups) >= 1200
    assert min(map(groups.count, set(groups))) >= 100


def test_a_check_that_names_argument_rule_and_value_is_clear():
    error = raised(lambda: check_integer("size", -3, minimum=1))
    assert judge(call_of("size", -3), error) == (CLEAR, "")


@pytest.mark.parametrize(
    ("argument", "value", "reason"), [("width", -3, "argument"), ("size", -4, "value")]
)
def test_another_argument_or_value_is_not_clear(argument, value, reason):
    error = raised(lambda: check_integer("size", -3, minimum=1))
    assert judge(call_of(argument, value), error) == (UNCLEAR, reason)


def test_what_others_raise_comes_from_the_depths_whatever_it_says():
    def quote():
        raise ValueError(message("size", "be large", 3))

    assert judge(call_of("size", 3), raised(quote))[0] == DEPTHS


def test_what_our_code_runs_into_comes_from_the_depths():
    error = raised(lambda: check_integer("size", 3, minimum="x"))
    assert judge(call_of("size", 3), error)[0] == DEPTHS


def test_one_call_from_the_depths_fails_the_table():
    number = next(n for n, call in enumerate(all_calls()) if call.edge.group == "agents")
    good = [Outcome(number, CLEAR)] * 99
    assert bad_calls.is_enough(good)
    assert not any(bad_calls.is_enough([*good, Outcome(number, bad)]) for bad in (DEPTHS, HANG))
    assert bad_calls.is_enough([*good, Outcome(number, UNCLEAR)])
    assert not bad_calls.is_enough([*good, *[Outcome(number, UNCLEAR)] * 3])


def test_sixty_calls_drawn_at_random_are_clear_or_accepted(tmp_path):
    calls = all_calls()
    quick = [n for n in bad_calls.draw(0.05, seed=1) if calls[n].edge.group in QUICK][:60]
    ends = [make(calls[number], number, tmp_path) for number in quick]
    assert len(ends) == 60
    assert {end.verdict for end in ends} <= {CLEAR, "accepted"}


@pytest.mark.parametrize("work", [lost_workers.sleep, lost_workers.die])
def test_a_call_that_does_not_come_back_hangs_and_the_next_one_is_made(work, monkeypatch):
    monkeypatch.setattr(outcome, "_work", work)
    monkeypatch.setattr(outcome, "START", 0.2)
    assert [found[:2] for found in outcome.make_all([3, 5])] == [(3, HANG), (5, HANG)]
