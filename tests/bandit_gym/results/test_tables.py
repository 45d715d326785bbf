import dataclasses
import math
from types import SimpleNamespace

import pytest

from bandit_gym.results import tables
from bandit_gym.results.tables import timing


def test_report_says_that_no_decision_was_flagged():
    rows = [{"agent": "exact", "flagged": 0.0}, {"agent": "random", "flagged": math.nan}]
    assert list(tables._flag_notes(rows)) == ["No decision was flagged as unreliable."]
    assert list(tables._flag_notes(rows[1:])) == []


def test_timing_divides_the_agents_seconds_by_its_decisions(results):
    """A second for 1000 decisions and one for 3000: 500 microseconds for each."""
    first = results.runs[0]
    receipts = [{"agent_seconds": 1.0, "decisions": count} for count in (1000, 3000)]
    blocks = tuple(
        dataclasses.replace(block, receipt=receipt)
        for block, receipt in zip(first.blocks, receipts, strict=True)
    )
    runs = (dataclasses.replace(first, blocks=blocks), *results.runs[1:])
    row = timing(dataclasses.replace(results, runs=runs))[0]
    assert row["microseconds_per_decision"] == pytest.approx(500.0)


def test_time_of_a_decision_is_told_in_microseconds():
    run = SimpleNamespace(environment=SimpleNamespace(label="e"), agent=SimpleNamespace(label="a"))
    found = SimpleNamespace(run=run, is_usable=True, seconds_per_decision=lambda: 0.002)
    unusable = SimpleNamespace(run=run, is_usable=False)
    (row,) = timing(SimpleNamespace(runs=[found, unusable]))
    microseconds = pytest.approx(2000.0, rel=1e-12)
    assert row == {"env": "e", "agent": "a", "microseconds_per_decision": microseconds}
