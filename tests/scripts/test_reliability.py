"""The table of faults at a small fraction of its size."""

import dataclasses
import signal
import sys

import numpy as np
import pytest
import reliability
from faults import processes
from faults.trial import make_trial

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def path(monkeypatch):
    """Forget afterwards where the agents of experiments are."""
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture
def trial(tmp_path):
    return make_trial(tmp_path / "trial", replications=16)


def test_a_page_has_a_row_for_each_fault_and_says_what_became_of_it(tmp_path):
    rows = tmp_path / "rows"
    asked = ["--repeats", "4", "--only", "receipt: ", "--out", str(tmp_path), "--rows", str(rows)]
    assert reliability.main(asked) == 0
    page = (tmp_path / "reliability-in-part.md").read_text(encoding="utf-8")
    assert len(list(rows.iterdir())) == 4
    assert "| receipt: a byte changed | 4 | same bytes (4) |" in page
    assert "**holds** | 16 disturbances of 4 kinds |" in page


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
def test_a_run_that_is_asked_to_stop_takes_its_workers_with_it(trial, tmp_path):
    out = tmp_path / "out"
    said = processes.stop(signal.SIGTERM, trial, out, RNG)
    assert said == "exit code 143; no worker outlived it"
    assert trial.judge(out) == "same bytes"


def test_other_numbers_are_called_wrong(trial):
    path, *others = trial.truth
    altered = {path: b"other", **{other: trial.truth[other] for other in others}}
    found = dataclasses.replace(trial, truth=altered).judge(trial.folder)
    assert found == "WRONG: other numbers are believed"


def test_what_is_damaged_is_no_longer_what_it_was(trial, tmp_path):
    for number, damage in enumerate(reliability.damages.FAULTS.values()):
        if "failures" not in damage.pattern:
            out = tmp_path / str(number)
            damage(trial, out, RNG)
            before = {p.relative_to(trial.folder): p for p in trial.folder.rglob("*.*")}
            same = [p for p in before if (out / p).is_file() and is_same(before[p], out / p)]
            assert len(same) == len(before) - 1


def is_same(one, other):
    return one.read_bytes() == other.read_bytes()
