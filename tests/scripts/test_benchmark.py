"""The benchmark's own logic, and that every family of rows runs; nothing here is timed."""

import json
import math
import sys
from pathlib import Path

import benchmark
import numpy as np
import pytest
from benchmarks.peers import WORKERS, Peers, Worker
from benchmarks.processes import run_process
from benchmarks.report import MARKER, format_seconds, format_value, write_markdown
from benchmarks.session import Measurement, Session
from benchmarks.thresholds import TARGETS, at_least, at_most, judge_row, list_by_verdict
from benchmarks.timing import Effort, ResultRow, make_contestant, time_contestants
from scripts_run import TINY, run_benchmark, run_study

NEEDS_PEERS = {
    "environment.bernoulli.gymnax.t1000",
    "exact.one.mabwiser",
    "exact.one.river",
    "smc.many.particles",
    "smc.one.particles",
}


MEASURED_APART = "environment", "control exact racing smc rules"
"""Families; the page about performance asks for the first of them as well."""


def run_families(folder: Path, *families: str) -> dict:
    """Run the script with the least effort and return its JSON document."""
    path = folder / "found.json"
    assert run_benchmark(["--json", str(path), "--only", *families]) == 0
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def found(shared):
    """The rows of most families, measured once for all processes of this test run."""
    command = "python scripts/benchmark.py --quick --clock processor --only {} --json found.json"
    folders = [run_study(command.format(each), shared).folder for each in MEASURED_APART]
    documents = [json.loads((folder / "found.json").read_text()) for folder in folders]
    return documents[0] | {"rows": [row for each in documents for row in each["rows"]]}


def make_row(key: str, value: float | None, *interval: float, note: str = "") -> ResultRow:
    return ResultRow(key, f"title of {key}", value, *interval, note=note)


def costing(*costs: float):
    """Make a contestant whose unit of work costs so much in its successive calls."""
    remaining = iter(costs)
    return lambda num_rounds, clock: (next(remaining) * num_rounds, float(num_rounds))


def test_values_are_positive_and_finite_keys_unique_and_the_machine_told(found):
    values = [row["value"] for row in found["rows"] if row["key"] not in NEEDS_PEERS]
    assert all(math.isfinite(value) and value > 0 for value in values)
    assert len({row["key"] for row in found["rows"]}) == len(found["rows"])
    assert found["machine"]["cores"] >= 1 and found["effort"]["name"] == "tiny"
    assert {"python", "numpy", "numba", "gymnasium"} <= found["versions"].keys()


def test_rows_that_need_peers_are_absent_when_peers_are_not_asked_for(found):
    absent = {row["key"]: row["note"] for row in found["rows"] if row["value"] is None}
    assert absent.keys() == NEEDS_PEERS
    assert all("--with-peers" in note for note in absent.values())


def test_every_bar_has_its_row(found):
    families = ("control.", "environment.", "exact.", "racing.", "smc.", "rules.")
    assert {key for key in TARGETS if key.startswith(families)} <= {
        row["key"] for row in found["rows"]
    }


@pytest.mark.slow
def test_growth_has_all_its_thresholds_and_so_has_end_to_end(tmp_path, monkeypatch):
    """A row of each kind is measured here, by one process of each kind; all would take a minute."""
    taken = {}

    def once(*told, **environment):
        return taken.get(told[:2]) or taken.setdefault(told[:2], run_process(*told, **environment))

    monkeypatch.setattr("benchmarks.growth.run_process", once)
    monkeypatch.setattr("benchmarks.end_to_end.run_process", once)
    cheap = "growth.steps.exact", "end-to-end.import", "end-to-end.trivial"
    values = {row["key"]: row["value"] for row in run_families(tmp_path, *cheap)["rows"]}
    for family in ("growth", "end-to-end"):
        assert {key for key in TARGETS if key.startswith(f"{family}.")} <= keys_chosen(family)
    assert all(math.isfinite(value) and value > 0 for value in values.values())


def test_harness_has_its_thresholds_and_takes_a_share(tmp_path):
    values = {row["key"]: row["value"] for row in run_families(tmp_path, "harness")["rows"]}
    assert {key for key in TARGETS if key.startswith("harness.")} <= values.keys()
    assert all(value < 1 for value in values.values())


def play_match(contestants: dict, sides: tuple[str, str], repeats: int) -> ResultRow:
    session = Session(Effort("test", seconds=0.0, repeats=repeats), Peers(is_wanted=False))
    (row,) = session.match("title: ", {"key": sides}, "step", lambda: contestants).take()
    return row


def test_match_takes_the_median_of_ratios_within_turns():
    # The first two calls of each contestant warm it up. Ratios in turns: 8/2, 9/3, 10/1.
    contestants = {"ours": costing(9, 9, 2, 3, 1), "theirs": costing(9, 9, 8, 9, 10)}
    row = play_match(contestants, ("theirs", "ours"), repeats=3)
    assert (row.key, row.title, row.work) == ("key", "title: theirs / ours", "step")
    assert row.turns == (4.0, 3.0, 10.0)
    assert row.value == 4.0
    assert row.costs == {"theirs": 9.0, "ours": 2.0}


def test_measure_alternates_the_contestants():
    order = []

    def contestant(name):
        def play(num_rounds, clock):
            order.append(name)
            return 1.0, 1.0

        return play

    time_contestants(
        {name: contestant(name) for name in "ab"}, Effort("test", seconds=0.0, repeats=3)
    )
    assert order[4:] == ["a", "b", "b", "a", "a", "b"]


def test_match_reports_an_absent_contestant_with_its_reason():
    contestants = {"ours": costing(1, 1, 1), "peer": "pip failed"}
    row = play_match(contestants, ("peer", "ours"), repeats=1)
    assert row.value is None
    assert row.note == "peer is absent: pip failed"


def test_measure_enlarges_rounds_until_a_timing_is_long_enough():
    asked = []

    def play(num_rounds, clock):
        asked.append(num_rounds)
        return num_rounds * 0.01, num_rounds

    time_contestants({"ours": play}, Effort("test", seconds=0.5, repeats=1))
    assert 0.5 <= asked[-1] * 0.01 <= 2.0


def test_rounds_are_counted_in_the_units_told_or_returned():
    for work in (None, 7.0):
        seconds, done = make_contestant(lambda: 7.0, work)(3, "processor")
        assert done == 21 and seconds >= 0


TELLING = Session(benchmark.QUICK, Peers(is_wanted=False))


def keys_chosen(*names: str) -> set[str]:
    return {
        key
        for measurement in benchmark.choose_measurements(names, TELLING)
        for key in measurement.keys
    }


def test_every_row_can_be_asked_for_by_its_key():
    for measurement in benchmark.choose_measurements(list(benchmark.FAMILIES), TELLING):
        for key in measurement.keys:
            chosen = benchmark.choose_measurements([key], TELLING)
            assert chosen[0].keys == measurement.keys
            assert all(
                any(f"{other}.".startswith(f"{key}.") for other in one.keys) for one in chosen
            )


def test_only_takes_a_key_or_its_first_words_and_no_half_of_one():
    assert keys_chosen("exact.many.numpy") == {"exact.many.numpy"}
    assert keys_chosen("exact.many") == {"exact.many.numpy", "exact.many.grid"}
    with pytest.raises(ValueError, match="got 'exact.man'; keys: exact.many.numpy, "):
        keys_chosen("exact.man")


def test_only_refuses_what_names_no_row(capsys):
    with pytest.raises(SystemExit, match="2"):
        benchmark.main(["--only", "envs"], TINY)
    assert "or the key of a row, got 'envs'; keys: " in capsys.readouterr().err


def test_one_row_is_measured_alone(monkeypatch, tmp_path):
    def fail(*_):
        raise AssertionError("made for a row that nobody asked for")

    monkeypatch.setattr("benchmarks.exact._ours_single", fail)
    monkeypatch.setattr("benchmarks.games.play_histories", fail)
    (row,) = run_families(tmp_path, "exact.many.numpy")["rows"]
    assert row["key"] == "exact.many.numpy" and row["value"] > 0


def test_verdict_compares_the_value_or_the_interval_with_the_bar():
    for bar, value, expected in [
        (at_least(2, 4), 1.9, "MISSED"),
        (at_least(2, 4), 2.0, "met"),
        (at_least(2, 4), 4.0, "aim"),
        (at_most(20, 8), 21.0, "MISSED"),
        (at_most(20, 8), 20.0, "met"),
        (at_most(1.1), None, "absent"),
    ]:
        assert judge_row(make_row("a", value), {"a": bar}) == expected
    for bar, interval, expected in [
        (at_least(2, 4), (1.8, 1.99), "MISSED"),  # wholly beyond the bar
        (at_least(2, 4), (1.8, 2.0), "noisy"),  # reaches it from beyond
        (at_least(2, 4), (1.9, 8.0), "noisy"),  # whatever its median
        (at_least(2, 4), (2.0, 2.2), "met"),
        (at_least(2, 4), (3.8, 4.4), "aim"),
        (at_most(1.1), (1.11, 1.3), "MISSED"),
        (at_most(1.1), (1.0, 1.1), "aim"),
        (at_most(10, 3), (2.5, 9.7), "met"),
    ]:
        assert judge_row(make_row("a", sum(interval) / 2, *interval), {"a": bar}) == expected


def test_list_by_verdict_names_the_rows_and_their_thresholds():
    thresholds = {
        "slow": at_least(30),
        "dear": at_most(0.5),
        "good": at_least(1),
        "gone": at_least(2),
    }
    rows = [make_row("slow", 12.5), make_row("dear", 0.7, 0.61, 0.8), make_row("good", 3.0)]
    rows += [make_row("gone", None, note="absent"), make_row("free", 9.0)]
    assert list_by_verdict(rows, "MISSED", thresholds) == [
        "slow: 12.5 x, must be at least 30",
        "dear: 0.7 x [0.61, 0.8], must be at most 0.5",
    ]
    missing = ["gone: absent", "other: not run"]
    assert list_by_verdict(rows, "absent", thresholds | {"other": at_most(1)}) == missing
    coin = make_row("good", 1.1, 0.9, 1.2)
    assert list_by_verdict([*rows, coin], "noisy", thresholds) == [
        "good: 1.1 x [0.9, 1.2], must be at least 1"
    ]


@pytest.mark.parametrize(
    ("measured", "state", "code"),
    [((1.9,), "met", 0), ((2.0, 1.6, 2.2), "noisy", 0), ((1.2, 0.9, 1.6), "MISSED", 1)],
)
def test_check_exits_with_one_only_when_a_bar_is_surely_missed(
    monkeypatch, capsys, measured, state, code
):
    rows = [make_row("exact.many.numpy", *measured)]
    monkeypatch.setattr(benchmark, "_measure_chosen", lambda chosen: rows)
    assert benchmark.main(["--check"], TINY) == code
    printed = capsys.readouterr()
    assert (f"{state}: exact.many.numpy: " in printed.err) == (state != "met")
    assert (state in printed.out) and (state == "MISSED") == ("MISSED" in printed.err)


def test_check_fails_and_keeps_the_rows_when_a_process_fails(monkeypatch, capsys):
    def rows():
        yield make_row("exact.many.numpy", 400.0)
        raise RuntimeError("out of memory")

    told = [
        Measurement(("exact.many.numpy", "exact.many.grid"), rows),
        Measurement(("exact.single",), lambda: [make_row("exact.single", 2.0)]),
    ]
    monkeypatch.setattr("benchmarks.exact.measurements", lambda session: told)
    assert benchmark.main(["--check", "--only", "exact"], TINY) == 1
    printed = capsys.readouterr()
    assert "title of exact.many.numpy" in printed.out
    assert "title of exact.single" in printed.out
    assert "out of memory" in printed.err


def test_peak_memory_is_the_processes_own():
    held = np.ones(30_000_000)  # 229 MiB, which a process that we started would begin with
    assert held.sum() == held.size
    assert run_process("-c", "pass")["peak_mib"] < 100
    assert run_process("-c", "x = bytearray(2**27); x[::4096] = x[::4096]")["peak_mib"] > 128


def test_process_hears_its_environment_and_takes_time():
    code = "import os, time; assert os.environ['GREETING'] == 'hello'; time.sleep(0.5)"
    finished = run_process("-c", code, GREETING="hello")
    assert finished["wall"] >= 0.5 > finished["processor"] > 0


def write_worker(folder: Path, body: str) -> Path:
    path = folder / "worker.py"
    path.write_text(f"import sys\nsys.path.insert(0, {str(WORKERS)!r})\n{body}\n")
    return path


def test_worker_does_the_rounds_it_is_told(tmp_path):
    body = "print('noise'); from protocol import serve; serve(lambda: 7, None, 'numpy')"
    with Worker(Path(sys.executable), write_worker(tmp_path, body)) as worker:
        seconds, work = worker(3, "processor")
    assert work == 21
    assert seconds >= 0
    assert worker.versions.keys() == {"python", "numpy"}


def test_worker_that_fails_says_its_last_words(tmp_path):
    body = "print('noise'); raise ImportError('no such thing')"
    with pytest.raises(RuntimeError, match="ImportError: no such thing"):
        Worker(Path(sys.executable), write_worker(tmp_path, body))


def test_peers_are_started_once_and_stopped_at_the_end(monkeypatch, tmp_path):
    write_worker(tmp_path, "from protocol import serve; serve(lambda: None, 2, 'numpy')").rename(
        tmp_path / "river_worker.py"
    )
    monkeypatch.setattr("benchmarks.peers.WORKERS", tmp_path)
    monkeypatch.setattr("benchmarks.peers.install_environment", lambda *_: Path(sys.executable))
    with Peers(is_wanted=True) as peers:
        river = peers.contestant("river")
        assert peers.contestant("river") is river
        assert river(3, "wall")[1] == 6
        assert "can't open file" in peers.contestant("gymnax")
        assert peers.versions()["gymnax"] == {"absent": peers.contestant("gymnax")}
    with pytest.raises(ValueError, match="closed file"):
        river(1, "wall")


def test_numbers_are_written_with_three_digits():
    found = format_value(None, "x"), format_value(1234.5, "x"), format_value(0.2917, "x")
    assert found == ("absent", "1,234 x", "0.292 x")
    assert (format_seconds(0.01534), format_seconds(3e-8)) == ("15.3 ms", "30 ns")


def test_markdown_replaces_what_is_between_the_markers(found, tmp_path):
    path = tmp_path / "performance.md"
    path.write_text(f"before\n{MARKER}\nold\n{MARKER}\nafter\n")
    for _ in range(2):
        write_markdown(found, [make_row("exact.many.numpy", 1.9)], path)
    noisy = make_row("growth.steps.smc", 1.14, 0.944, 1.31)
    write_markdown(found, [make_row("exact.many.numpy", 1.9), noisy], path)
    text = path.read_text()
    assert "| 1.14 x | 0.944 to 1.31 | <= 1.1 |  | noisy |" in text
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert text.count("| title of exact.many.numpy | 1.9 x |  | >= 1.7 | >= 2.3 | met |  |") == 1


def test_markdown_refuses_a_document_without_markers(found, tmp_path):
    path = tmp_path / "performance.md"
    path.write_text("no place for it\n")
    with pytest.raises(ValueError, match="twice, got 0"):
        write_markdown(found, [], path)
