import io
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from bandit_gym.experiments import progress
from bandit_gym.experiments.execution import Progress, Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.simulation import Outcome

(RUN,) = Experiment(environments=["BernoulliBandit-v0"], agents=["random"]).runs
DONE = Outcome(RUN, 3, b"", {"decisions": 500})
FAILED = Outcome(RUN, 3, None, {}, "ValueError: no\n\nTraceback ...")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(params=[io.StringIO, Terminal], ids=["file", "terminal"])
def written(request, monkeypatch):
    """Report a start, a block that is done and one that failed; what is then written."""
    stream = request.param()
    monkeypatch.setattr("sys.stderr", stream)
    with progress.progress_on_stderr() as report:
        for num_done, outcome in enumerate((None, DONE, FAILED)):
            report(Progress(9, 4, num_done, ("a-run/00002",), outcome))
    return stream.getvalue()


def test_a_run_opens_with_what_there_is_to_do(written):
    text = " ".join(written.split())  # a terminal may break the line
    assert "9 blocks, 4 of them stored already; damaged and computed again: a-run/00002" in text


def test_a_run_tells_which_block_failed_and_why(written):
    text = " ".join(written.split())
    assert text.count("random failed in BernoulliBandit-v0, block 3: ValueError: no") == 1
    assert "Traceback" not in text


def test_a_run_without_damage_says_nothing_of_it(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with progress.progress_on_stderr() as report:
        report(Progress(2, 0, 0, (), None))
        report(Progress(2, 0, 1, (), DONE))
    assert stream.getvalue() == "2 blocks, 0 of them stored already\n"


def test_a_bar_counts_blocks_and_decisions_per_second(monkeypatch):
    """1,500 decisions in two seconds."""
    updates, bars = [], []

    class Bar:
        def __init__(self, *columns, **options):
            self.tasks = [SimpleNamespace(elapsed=2.0)]
            bars.append(self)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def add_task(self, description, total, rate):
            return 0

        def update(self, task, **changes):
            updates.append(changes)

    monkeypatch.setattr("rich.progress.Progress", Bar)
    monkeypatch.setattr("sys.stderr", Terminal())
    with progress.progress_on_stderr() as report:
        report(Progress(9, 4, 0, (), None))
        report(Progress(9, 4, 1, (), DONE))
        report(Progress(9, 4, 2, (), Outcome(RUN, 4, b"", {"decisions": 1000})))
    assert [u["completed"] for u in updates if "completed" in u] == [4, 5, 6]
    assert {u["total"] for u in updates if "total" in u} == {9}
    assert [u["rate"] for u in updates if "rate" in u] == ["250 decisions/s", "750 decisions/s"]
    assert updates[-1]["description"] == "BernoulliBandit-v0: random"


def test_the_bar_shows_brackets_in_labels_and_messages_as_they_are(capsys):
    (run,) = Experiment(
        environments=["BernoulliBandit-v0"], agents=[{"agent": "random", "label": "[/x]"}]
    ).runs
    failed = Outcome(run, 0, None, {}, "ValueError: [/y] [bold]")
    with progress._live_bar() as show:
        show(Progress(1, 0, 0, (), None, "1 of 1 agents changed since: [z].py"))
        show(Progress(1, 0, 1, (), failed))
    error = capsys.readouterr().err
    assert "changed since: [z].py" in error
    assert "[/x] failed in BernoulliBandit-v0, block 0: ValueError: [/y] [bold]" in error


def test_every_report_tells_how_many_blocks_were_stored_before(tmp_path):
    def watch(replications):
        told = []
        experiment = Experiment(
            environments=["BernoulliBandit-v0"],
            agents=["random"],
            replications=replications,
            horizon=5,
            block_size=2,
        )
        run_experiment(experiment, tmp_path, workers=Workers("serial"), on_progress=told.append)
        return [(each.num_stored, each.num_done) for each in told]

    assert watch(4) == [(0, 0), (0, 1), (0, 2)]
    assert watch(8) == [(2, 0), (2, 1), (2, 2)]


@pytest.mark.parametrize(
    ("is_jupyter", "has_widgets", "is_live"),
    [(True, True, True), (True, False, False), (False, True, False)],
)
def test_bar_moves_in_notebooks_that_can_show_it(monkeypatch, is_jupyter, has_widgets, is_live):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace())
    monkeypatch.setattr("rich.console._is_jupyter", lambda: is_jupyter)
    monkeypatch.setattr(progress, "find_spec", lambda name: has_widgets or None)
    bars = []
    monkeypatch.setattr(progress, "_live_bar", lambda: nullcontext(bars.append))
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with progress.progress_on_stderr() as report:
        report(Progress(2, 0, 0, (), None))
    assert len(bars) == is_live
