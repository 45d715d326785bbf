"""The benchmark's own logic, and that every family of rows runs; nothing here is timed."""

import json
import math
import sys
from pathlib import Path

import benchmark
import pytest
from benchmarks.report import PEER_NAMES, write_markdown
from benchmarks.thresholds import TARGETS, at_least, at_most, judge_row
from benchmarks.timing import Effort, Measurement, ResultRow, make_peer, match
from scripts_run import TINY, run_benchmark

from scripts.studies import environments

NEEDS_PEERS = {"environment.bernoulli.gymnax.t1000", "smc.one.particles"}
NEEDS_PEERS |= {"exact.one.mabwiser", "exact.one.river"}


ADAPTERS = environments.ADAPTERS
MEASURED = "control environment exact racing smc propensities features"


def run_families(folder: Path, *families: str) -> dict:
    """Run the script with the least effort and return what it has found."""
    path = folder / "found.json"
    assert run_benchmark(["--json", str(path), "--only", *families]) == 0
    return json.loads(path.read_text())


def make_row(key: str, value: float | None, *interval: float, note: str = "") -> ResultRow:
    return ResultRow(key, f"title of {key}", value, *interval, note=note)


def costing(*costs: float):
    """Make a contestant whose unit of work costs so much in its successive calls."""
    remaining = iter(costs)
    return lambda num_rounds, clock: (next(remaining) * num_rounds, float(num_rounds))


@pytest.mark.nightly
def test_values_are_positive_keys_unique_bars_and_machine_told_and_peers_absent(tmp_path):
    found = run_families(tmp_path, *MEASURED.split())
    values = [row["value"] for row in found["rows"] if row["key"] not in NEEDS_PEERS]
    assert all(math.isfinite(value) and value > 0 for value in values)
    assert len({row["key"] for row in found["rows"]}) == len(found["rows"])
    assert found["machine"]["cores"] >= 1 and found["effort"]["name"] == "tiny"
    assert {"python", "numpy", "numba", "gymnasium"} <= found["versions"].keys()
    barred = {key for key in TARGETS if key.partition(".")[0] in MEASURED.split()}
    assert barred <= {row["key"] for row in found["rows"]}
    absent = {row["key"]: row["note"] for row in found["rows"] if row["value"] is None}
    assert absent.keys() == NEEDS_PEERS
    assert all("--with-peers" in note for note in absent.values())


def test_harness_has_its_thresholds_and_takes_a_share(tmp_path):
    rows = run_families(tmp_path, "harness")["rows"]
    values = {row["key"]: row["value"] for row in rows}
    assert {key for key in TARGETS if key.startswith("harness.")} <= values.keys()
    assert all(value < 1 for value in values.values())


def test_match_takes_the_median_of_ratios_within_turns():
    # The first two calls of each contestant warm it up. Ratios in turns: 8/2, 9/3, 10/1.
    contestants = {"ours": costing(9, 9, 2, 3, 1), "theirs": costing(9, 9, 8, 9, 10)}
    measurement = match("title: ", {"key": ("theirs", "ours")}, lambda: contestants, "step")
    (row,) = measurement.take(Effort("test", seconds=0.0, repeats=3))
    assert (row.key, row.title, row.work) == ("key", "title: theirs / ours", "step")
    assert row.turns == (4.0, 3.0, 10.0)
    assert row.value == 4.0
    assert row.costs == {"theirs": 9.0, "ours": 2.0}


def keys_chosen(*names: str) -> set[str]:
    chosen = benchmark.choose_measurements(names, TINY)
    return {key for measurement in chosen for key in measurement.keys}


def test_only_takes_a_key_or_its_first_words_and_no_half_of_one(capsys):
    assert keys_chosen("exact.many.numpy") == {"exact.many.numpy"}
    assert keys_chosen("exact.many") == {"exact.many.numpy", "exact.many.grid"}
    with pytest.raises(SystemExit, match="2"):
        benchmark.main(["--only", "exact.man"], TINY)
    told = "the key of a row or its first words, got 'exact.man'; keys: control.load, "
    assert told in capsys.readouterr().err


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


def test_check_exits_with_one_only_when_a_bar_is_surely_missed(monkeypatch, capsys):
    rows = []
    monkeypatch.setattr(benchmark, "_measure_chosen", lambda *_: rows)
    for *measured, state, code in [
        (1.9, "met", 0),
        (2.0, 1.6, 2.2, "noisy", 0),
        (1.2, 0.9, 1.6, "MISSED", 1),
        (None, "absent", 0),
    ]:
        rows[:] = [make_row("exact.many.numpy", *measured)]
        assert benchmark.main(["--check"], TINY) == code, state
        printed = capsys.readouterr()
        assert printed.err == ("" if state == "met" else f"{state}: exact.many.numpy\n")
        assert state in printed.out


def test_check_fails_and_keeps_the_rows_when_a_process_fails(monkeypatch, capsys):
    def rows(effort):
        yield make_row("exact.many.numpy", 400.0)
        raise RuntimeError("out of memory")

    told = [
        Measurement(("exact.many.numpy", "exact.many.grid"), rows),
        Measurement(("exact.single",), lambda effort: [make_row("exact.single", 2.0)]),
    ]
    monkeypatch.setattr("benchmarks.decisions.measurements", lambda effort: told)
    assert benchmark.main(["--check", "--only", "exact"], TINY) == 1
    printed = capsys.readouterr()
    assert "title of exact.many.numpy" in printed.out
    assert "title of exact.single" in printed.out
    assert "out of memory" in printed.err


@pytest.fixture
def peer(monkeypatch, tmp_path):
    """Write a library's adapter, which runs in this interpreter."""
    monkeypatch.setattr("benchmarks.timing.install_library", lambda _: Path(sys.executable))

    def write(body):
        path = f"import sys\nsys.path.insert(0, {str(ADAPTERS)!r})\n"
        (tmp_path / "river_adapter.py").write_text(f"{path}from protocol import serve\n{body}\n")
        monkeypatch.setattr(environments, "ADAPTERS", tmp_path)
        return make_peer(Effort("test", 0.0, 1, has_peers=True), "river", 7.0)

    return write


@pytest.mark.nightly
def test_peer_does_the_rounds_it_is_told_once_it_is_warm_and_says_its_last_words_if_it_fails(peer):
    play = peer("print('noise'); rounds = []; serve(None, lambda: rounds.append(1 / len(rounds)))")
    with pytest.raises(RuntimeError, match="river: ZeroDivisionError"):
        play(3, "processor")
    with pytest.raises(RuntimeError, match="ImportError: no such thing"):
        peer("raise ImportError('no such thing')")(1, "wall")
    seconds, work = peer("serve(None, lambda: None)")(3, "processor")
    assert work == 21 and seconds >= 0


def test_peer_is_told_with_its_version_and_absent_with_its_reason_if_not_installed(monkeypatch):
    def fail(_):
        raise RuntimeError("pip failed: no such version")

    monkeypatch.setattr("benchmarks.timing.install_library", fail)
    effort = Effort("test", 0.0, 1, has_peers=True)
    assert make_peer(effort, "river", 1.0) == "pip failed: no such version"
    assert {*PEER_NAMES} <= benchmark.document([], effort)["versions"].keys()


def test_markdown_replaces_what_is_between_the_markers(tmp_path):
    path, found = tmp_path / "performance.md", benchmark.document([], Effort("test", 0.0, 1))
    path.write_text("before\n<!-- study: rows -->\nold\n<!-- study: end -->\nafter\n")
    for _ in range(2):
        write_markdown(found, [make_row("exact.many.numpy", 1.9)], path)
    noisy = make_row("exact.many.grid", 9.2, 8.9, 9.5)
    write_markdown(found, [make_row("exact.many.numpy", 1.9), noisy], path)
    text = path.read_text()
    assert "| 9.2 x | 8.9 to 9.5 | <= 9 | <= 6 | noisy |" in text
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert text.count("| title of exact.many.numpy | 1.9 x |  | >= 1.7 | >= 2.3 | met |  |") == 1
