"""What holds for whoever simulates the blocks, and whatever stops them."""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from surface import SERIAL, failures_of, files_of, rewrite_block, run_and_watch, timings_of

from bandit_gym import load_results, run_experiment
from bandit_gym.cli import main
from bandit_gym.experiments import Experiment, Workers, execution
from bandit_gym.experiments.blocks import record_block
from bandit_gym.files import RESULTS_VERSION

pytestmark = pytest.mark.usefixtures("undrawn")
BACKENDS = {"loky": "joblib", "dask": "distributed"}
"""What works in other processes, and the package that it needs."""

SUPPORT = Path(__file__).parents[1] / "support"
OWN = {"agent": "stub_agents:Telling", "tells": {"mood": -1.5}, "label": "own"}
"""Code of one's own, which is never taken for too little work to start a worker."""


def make_experiment(*agents, **changes):
    settings = {"replications": 12, "horizon": 60, "block_size": 4}
    environments = ["BernoulliBandit-v0"]
    return Experiment(environments, agents or ("random", "exact", OWN), **(settings | changes))


def by_night(*values):
    """Return a case of a test that only the nightly run has."""
    return pytest.param(*values, marks=(pytest.mark.slow, pytest.mark.nightly))


@pytest.fixture
def backend(request):
    """A back end, where it is installed."""
    pytest.importorskip(BACKENDS.get(request.param, "bandit_gym"))
    return request.param


every_backend = pytest.mark.parametrize("backend", ["loky", by_night("dask")], indirect=True)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The folder that this process makes."""
    folder = tmp_path_factory.mktemp("serial")
    run_experiment(make_experiment(), folder, workers=SERIAL)
    return folder


@pytest.fixture(scope="module")
def serial(stored):
    """The blocks that this process stores."""
    return files_of(stored)


@pytest.fixture
def copy(stored, tmp_path):
    """A copy of that folder, for tests that change it."""
    return shutil.copytree(stored, tmp_path / "copy")


# -- The same bytes -----------------------------------------------------------------------------


def test_every_back_end_is_tested():
    assert {*BACKENDS} == {*execution.BACKENDS}


@every_backend
def test_other_processes_share_the_work_and_store_the_same_bytes(tmp_path, serial, backend):
    """Whatever their number, and also of an agent that cannot be pickled."""
    tired = {"agent": "stub_agents:Tired", "seconds": 0.005}
    experiment = make_experiment("random", "exact", OWN, "stub_agents:Unpicklable", tired)
    run_experiment(experiment, tmp_path, workers=Workers(backend, 2))
    assert files_of(tmp_path).items() >= serial.items()
    assert failures_of(load_results(tmp_path)) == {}
    processes = {timing["process"] for timing in timings_of(tmp_path)}
    assert len(processes) == 2 and os.getpid() not in processes


@pytest.mark.slow
@pytest.mark.nightly
def test_a_cluster_that_runs_already_stores_the_same_bytes(tmp_path, serial):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster:
        workers = Workers("dask", scheduler=cluster.scheduler_address)
        run_experiment(make_experiment(), tmp_path, workers=workers)
    assert files_of(tmp_path) == serial
    assert os.getpid() not in {timing["process"] for timing in timings_of(tmp_path)}


def test_little_work_of_ours_starts_no_worker(tmp_path, monkeypatch):
    started = []

    @contextlib.contextmanager
    def start(workers):
        started.append(workers)
        with ThreadPoolExecutor(1) as pool:
            yield pool, 1

    monkeypatch.setitem(execution.BACKENDS, "loky", start)
    for horizon, expected in ((60, []), (1000, [Workers("loky", 1)])):
        experiment, folder = make_experiment("random", horizon=horizon), tmp_path / f"{horizon}"
        run_experiment(experiment, folder, workers=Workers("loky", 1))
        assert started == expected and len(files_of(folder)) == 3


@every_backend
def test_calls_may_hold_arrays(backend):
    calls = [(np.full(3, number),) for number in range(6)]
    finished = execution.make_calls(Workers(backend, 1), np.sum, calls)
    assert sorted(int(result) for _, result in finished) == [3 * number for number in range(6)]


# -- What is there already ----------------------------------------------------------------------


def test_running_again_simulates_nothing_and_more_replications_only_the_new(tmp_path, serial):
    fewer = make_experiment(replications=7)  # of the second block only the first three
    run_experiment(fewer, tmp_path, workers=SERIAL)
    assert run_and_watch(fewer, tmp_path) == (6, [], ())
    before = files_of(tmp_path)
    labels = ("random", "exact", "own")
    assert run_and_watch(make_experiment(), tmp_path) == (6, [(name, 2) for name in labels], ())
    assert before.items() <= files_of(tmp_path).items()
    assert files_of(tmp_path) == serial


def test_fewer_replications_change_nothing_and_are_the_first_ones(copy):
    before = {path: path.read_bytes() for path in copy.rglob("*.*") if path.is_file()}
    fewer = make_experiment(replications=7)
    run_experiment(fewer, copy, workers=SERIAL)
    assert {path: path.read_bytes() for path in before} == before
    whole, part = load_results(copy).frame(), load_results(copy, fewer).frame()
    assert part.equals(whole[whole["replication"] < 7].reset_index(drop=True))


def test_a_folder_takes_an_experiment_that_contains_its_own_and_refuses_another(tmp_path):
    small = make_experiment("random")
    run_experiment(small, tmp_path, workers=SERIAL)
    others = ({"seed": 1}, {"horizon": 9}, {"agents": make_experiment("ucb1").agents})
    for changes in others:
        with pytest.raises(FileExistsError, match="choose another folder"):
            run_experiment(replace(small, **changes), tmp_path, workers=SERIAL)
        assert load_results(tmp_path).experiment == small, changes
    environments = ["BernoulliBandit-v0", "PoissonBandit-v0"]
    larger = replace(make_experiment("random", "ucb1"), environments=environments)
    watched = run_and_watch(larger, tmp_path)
    assert (watched.stored, len(watched.done)) == (3, 9)
    assert load_results(tmp_path).experiment == larger


def test_a_second_run_in_the_folder_is_refused_and_the_first_unharmed(tmp_path, serial):
    refusals = []

    def try_as_well(progress):
        if progress.num_done == 1:
            with pytest.raises(BlockingIOError, match="is at work") as caught:
                run_experiment(make_experiment(), tmp_path, workers=SERIAL)
            refusals.append(caught.value)

    run_experiment(make_experiment(), tmp_path, workers=SERIAL, on_progress=try_as_well)
    assert len(refusals) == 1
    assert files_of(tmp_path) == serial


def test_stored_files_follow_the_umask_and_a_link_into_a_folder_that_is_not_utf_8(tmp_path):
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    (tmp_path / "scratch").mkdir()
    (tmp_path / "results").symlink_to(tmp_path / "scratch")
    before = os.umask(0o027)
    try:
        run_experiment(make_experiment("random"), tmp_path / "results" / name, workers=SERIAL)
    finally:
        os.umask(before)
    paths = [path for path in (tmp_path / "scratch" / name).rglob("*.*") if path.is_file()]
    assert len(paths) == 3 + 1 + 1 + 1  # with the lock
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o640}


def test_a_file_of_timings_that_is_a_link_is_replaced_and_not_followed(tmp_path):
    """A folder may come from anybody, and the link lead anywhere."""
    fewer, elsewhere = make_experiment("random", replications=4), tmp_path / "elsewhere"
    run_experiment(fewer, tmp_path / "out", workers=SERIAL)
    (timings,) = (tmp_path / "out" / "timings").iterdir()
    elsewhere.write_text("mine")
    timings.unlink()
    timings.symlink_to(elsewhere)
    run_experiment(make_experiment("random"), tmp_path / "out", workers=SERIAL)
    assert elsewhere.read_text() == "mine" and not timings.is_symlink()
    assert [timing["block"] for timing in timings_of(tmp_path / "out")] == [1, 2]


# -- Order and progress -------------------------------------------------------------------------


def test_the_first_block_of_very_many_starts_at_once(tmp_path):
    replications = 2**62

    def stop(progress):
        if progress.num_done:
            raise KeyboardInterrupt

    experiment = make_experiment(replications=replications)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, tmp_path, workers=SERIAL, on_progress=stop)
    assert len(files_of(tmp_path)) == 1
    blocks = 3 * replications // 4
    assert f"{blocks - 1} of {blocks} blocks are missing" in str(load_results(tmp_path))


def test_a_worker_with_other_sources_refuses_the_block():
    (run,) = make_experiment("random").runs
    outcome = execution.simulate_block(run, 0, {"environment": {}, "agent": {"mine.py": "0"}})
    assert outcome.data is None and "sources must be the same in all" in outcome.failure


def test_an_exception_of_on_progress_ends_the_run_and_what_is_stored_stays(tmp_path, serial):
    def fail(progress):
        if progress.num_done:
            raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        run_experiment(make_experiment(), tmp_path, workers=SERIAL, on_progress=fail)
    assert len(files_of(tmp_path)) == 1 and files_of(tmp_path).items() <= serial.items()


# -- Agents that fail ---------------------------------------------------------------------------


def check_others_unharmed(folder, serial, starts):
    """Some agents failed in their block, and `random`, `exact` and `own` did not.

    Args:
        folder: of results.
        serial: blocks that the others would have stored alone.
        starts: label of each agent that failed -> how what it raised begins.
    """
    results = load_results(folder)
    failures = failures_of(results)
    first = {name: data for name, data in serial.items() if "00000" in name}
    assert files_of(folder).items() >= first.items()
    assert failures.keys() == starts.keys()
    for label, start in starts.items():
        assert list(failures[label]) == [0] and failures[label][0].startswith(start)
        left_out = f"Left out: {label} in BernoulliBandit-v0, which failed in 1 of 1 blocks"
        assert left_out in str(results)
    unharmed = [label for label in results.table()["agent"] if label not in starts]
    assert unharmed == ["random", "exact", "own"]
    assert results.num_missing == len(starts)
    return failures


@every_backend
def test_an_agent_that_dies_costs_its_own_blocks_only(tmp_path, serial, backend, monkeypatch):
    """At most one other block is under way with it, and the others are simulated as well."""
    monkeypatch.setattr(execution, "EXTRA_CALLS", 1)
    agents = ("stub_agents:Deadly", "random", "exact", OWN)
    run_experiment(make_experiment(*agents, replications=4), tmp_path, workers=Workers(backend, 1))
    check_others_unharmed(tmp_path, serial, {"Deadly": "WorkerDied: "})


def test_whatever_an_agent_raises_costs_its_own_blocks_only(tmp_path, serial):
    starts = {
        "exit": "SystemExit: 0",
        "unencodable": "ValueError: \\udc80",
        "group": "ExceptionGroup: many",
        "markup": "ValueError: [/x]",
        "late": "ValueError: \\x1b[31mred",
    }
    strange = [{"agent": "stub_agents:Strange", "kind": kind, "label": kind} for kind in starts]
    agents = ("random", *strange, "exact", OWN)
    run_experiment(make_experiment(*agents, replications=4), tmp_path, workers=SERIAL)
    for texts in check_others_unharmed(tmp_path, serial, starts).values():
        headline, blank, trace = texts[0].split("\n", 2)
        assert headline.isprintable() and blank == ""
        assert "Traceback (most recent call last)" in trace and "in act" in trace


def test_a_failure_is_forgotten_once_the_block_is_stored(tmp_path):
    (tmp_path / "hold").touch()
    moody = {"agent": "stub_agents:Moody", "folder": str(tmp_path)}
    run_experiment(make_experiment(moody), tmp_path / "out", workers=SERIAL)
    assert len(failures_of(load_results(tmp_path / "out"))["Moody(folder=" + f"{tmp_path})"]) == 3
    (tmp_path / "hold").unlink()
    assert len(run_and_watch(make_experiment(moody), tmp_path / "out").done) == 3
    assert failures_of(load_results(tmp_path / "out")) == {}


def test_an_agent_that_cannot_be_built_or_hold_a_block_is_refused_before_anything_runs(tmp_path):
    for agent, message in (
        ("stub_agents:Unbuilt", "agent Unbuilt must be able to play .* got RuntimeError: no"),
        ({"agent": "smc", "num_particles": 10**7}, "ValueError: block_size must be at most 5,"),
    ):
        with pytest.raises(ValueError, match=message):
            run_experiment(make_experiment("random", agent, block_size=50), tmp_path / "out")
        assert not (tmp_path / "out").exists()


# -- Files that are damaged ---------------------------------------------------------------------


def flip_bit(path, other):
    """One that checksums alone notice: without them the file is read, and says something else."""
    data, whole = bytearray(path.read_bytes()), pq.read_table(path).to_pandas()
    for place in range(len(data)):
        data[place] ^= 1
        with contextlib.suppress(OSError, pa.ArrowException):
            if not pq.read_table(pa.BufferReader(data)).to_pandas().equals(whole):
                break
        data[place] ^= 1
    assert data != path.read_bytes()
    path.write_bytes(data)


def delete_key(path, other):
    table = pq.read_table(path)
    content = json.loads(table.schema.metadata[b"bandit_gym"])
    del content["sources"]
    pq.write_table(table.replace_schema_metadata({"bandit_gym": json.dumps(content)}), path)


def flip_bit_of_a_name(path, other):
    """No checksum notices: the column was blank."""
    data = bytearray(path.read_bytes())
    data[data.index(b"\x18\x11cumulative_regret") + 2] ^= 1  # 17 letters, in the footer
    path.write_bytes(data)


DAMAGES = (
    lambda path, other: path.write_bytes(other.read_bytes()),
    lambda path, other: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    lambda path, other: path.write_bytes(b""),
    lambda path, other: pq.write_table(pq.read_table(path).replace_schema_metadata({}), path),
    flip_bit,
    flip_bit_of_a_name,
    delete_key,
)
"""What befalls the first files; the first is swapped with the second, while that is whole."""


def test_damaged_and_missing_blocks_are_told_left_out_and_computed_again(copy, serial):
    whole = load_results(copy).frame()
    paths = sorted((copy / "blocks").rglob("0*.*"))[: len(DAMAGES)]
    for damage, path in zip(DAMAGES, paths, strict=True):
        damage(path, paths[1])
    left, told = load_results(copy).frame(), str(load_results(copy))
    assert len(left) == len(whole) - 7 * 4 * 60
    assert "Not complete: 7 of 9 blocks are missing." in told
    watched = run_and_watch(make_experiment(), copy)
    assert (watched.stored, len(watched.done)) == (2, 7)
    assert sorted(watched.damaged) == [f"{path.parent.name}/{path.stem}" for path in paths]
    example = f"for example {watched.damaged[0]}; to resume the experiment computes them"
    assert f"Not whole: 7 blocks, {example}" in told
    assert files_of(copy) == serial
    assert load_results(copy).frame().equals(whole)
    paths[1].unlink()  # what is missing is not called damaged
    assert "Not whole" not in str(load_results(copy))
    watched = run_and_watch(make_experiment(), copy)
    assert (watched.stored, len(watched.done), watched.damaged) == (8, 1, ())
    assert files_of(copy) == serial


def test_a_file_of_timings_that_tells_nothing_leaves_the_times_blank(copy):
    before = load_results(copy).table().drop(columns="microseconds_per_decision")
    for line in ("", "null", "{", '{"block": 0}', '{"block": 0, "decisions": "x"}'):
        for path in (copy / "timings").iterdir():
            path.write_text(line)
        found = load_results(copy).table()
        assert found["microseconds_per_decision"].isna().all(), line
        assert found.drop(columns="microseconds_per_decision").equals(before), line
        assert run_and_watch(make_experiment(), copy).done == [], line


def test_what_killed_writers_left_is_cleared_and_what_others_put_there_is_kept(copy):
    folder = sorted((copy / "blocks").iterdir())[0]
    leftover = folder / ".00000.parquet.abc.bandit-gym.tmp"
    others = [folder / name for name in (".DS_Store", "00000.parquet~", "\u0663.parquet")]
    for path in (leftover, *others):
        path.write_text("half a block")
    assert run_and_watch(make_experiment(), copy) == (9, [], ())
    assert not leftover.exists() and all(path.exists() for path in others)


ENTRY = {"target": "agents:UCB1", "options": {}, "label": "mine"}
SETTINGS = make_experiment().to_dict() | {"agents": [ENTRY]}
BROKEN = [[], 5, [5], [ENTRY | {"options": 5}], [ENTRY | {"target": 5}]]


DAMAGED = [
    *("", "null", "[]", {"format": 0}, {"experiment": None}),
    *({"codes": codes} for codes in (None, {"run": "../x"}, {"run": 5})),
    *({"experiment": SETTINGS | {"environments": each}} for each in BROKEN),
]


def test_a_folder_of_a_run_that_was_killed_as_it_began_is_free(tmp_path):
    (tmp_path / ".experiment.json.0123abcd.bandit-gym.tmp").touch()
    run_experiment(make_experiment("random"), tmp_path, workers=SERIAL)
    assert not [*tmp_path.glob(".experiment*")]


def test_threads_of_one_process_simulate_one_block_after_the_other(monkeypatch):
    """BLAS has one thread in each, which the first to end would give back for the other."""
    (run,), inside = make_experiment("random").runs, []

    def watch(*arguments):
        inside.append(1)
        time.sleep(0.05)
        assert inside.pop() and not inside
        return record_block(*arguments)

    monkeypatch.setattr(execution, "record_block", watch)
    with ThreadPoolExecutor(2) as pool:
        outcomes = [*pool.map(execution.simulate_block, [run] * 3, range(3))]
    assert [outcome.failure for outcome in outcomes] == [None] * 3


def test_a_damaged_manifest_is_named_in_one_sentence(tmp_path, capsys):
    experiment = make_experiment("random", replications=4, horizon=3)
    run_experiment(experiment, tmp_path, workers=SERIAL)
    path = tmp_path / "experiment.json"
    whole = json.loads(path.read_bytes())
    words = r"experiment\.json must describe an experiment in format"
    for damage in DAMAGED:
        path.write_text(damage if isinstance(damage, str) else json.dumps(whole | damage))
        with pytest.raises(ValueError, match=words):
            load_results(tmp_path)
        with pytest.raises(ValueError, match=words):
            run_experiment(experiment, tmp_path, workers=SERIAL)
        assert main(["report", str(tmp_path)]) == main(["resume", str(tmp_path)]) == 2, damage
        first, second = capsys.readouterr().err.splitlines()
        assert first == second and "experiment.json must" in first


def test_blocks_of_another_results_version_are_kept_and_count_with_it(copy, monkeypatch, serial):
    experiment, told = make_experiment(), []
    monkeypatch.setattr(execution, "RESULTS_VERSION", RESULTS_VERSION - 1)
    older = run_experiment(experiment, copy, workers=SERIAL, on_progress=told.append)
    assert (told[0].num_blocks, told[0].num_stored, told[0].num_kept) == (9, 0, 9)
    assert str(older).startswith(f"These are results of version {RESULTS_VERSION - 1};")
    assert "Not in these tables: 9 blocks that other code has drawn." in str(older)
    assert files_of(copy).items() > serial.items() and len(files_of(copy)) == 18
    monkeypatch.undo()
    told.clear()
    run_experiment(experiment, copy, workers=SERIAL, on_progress=told.append)
    assert [(each.num_stored, each.num_kept) for each in told] == [(9, 9)]
    assert load_results(copy).version == RESULTS_VERSION


@pytest.fixture
def old_folder(copy):
    """The folder as versions before 0.3 wrote it, in format 5."""
    for kind, suffix in {"blocks": "", "timings": ".jsonl"}.items():
        for path in sorted((copy / kind).iterdir()):
            path.rename(path.with_name(path.name.rpartition("-")[0] + suffix))
    manifest = copy / "experiment.json"
    content = json.loads(manifest.read_bytes())
    del content["codes"]
    manifest.write_text(json.dumps(content | {"format": 5}))
    return copy


def test_a_folder_of_format_5_is_read_and_not_written_to(old_folder, stored, tmp_path, capsys):
    old, new = load_results(old_folder), load_results(stored)
    assert old.frame().equals(new.frame()) and old.table().equals(new.table())
    assert (old.num_kept, old.damaged) == (0, ())
    assert main(["report", str(old_folder), "--out", str(tmp_path / "report")]) == 0
    assert main(["export", str(old_folder), "--csv", str(tmp_path / "rows.csv")]) == 0
    before = {path: path.read_bytes() for path in old_folder.rglob("*.*") if path.is_file()}
    capsys.readouterr()
    assert main(["resume", str(old_folder), "--trust"]) == 2
    told = capsys.readouterr().err
    assert "must be of format 6 to be written to" in told and told.count("\n") == 1
    assert {path: path.read_bytes() for path in before} == before
    old.save(tmp_path / "saved")
    assert run_and_watch(make_experiment(), tmp_path / "saved") == (9, [], ())
    rewrite_block(next(old_folder.rglob("00001.parquet")), {"results_version": 1})
    with pytest.raises(ValueError, match="must hold blocks of one code, got two of the engine"):
        load_results(old_folder)


# -- Runs that are stopped ----------------------------------------------------------------------


def heed_signals():
    """Ignore no signal, as what is started in the background or by nohup does."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def start(folder, backend):
    """Start a run whose second agent stays at work for a minute; return it once it is there."""
    (folder / "hold").touch()
    held = {"agent": "stub_agents:Held", "folder": str(folder), "label": "held"}
    experiment = make_experiment("random", held)
    (folder / "settings.json").write_text(json.dumps(experiment.to_dict()))
    number = 2 if backend == "loky" else 1  # of several all end
    command = ["run", folder / "settings.json", "--backend", backend, "--workers", number]
    process = subprocess.Popen(
        [sys.executable, "-m", "bandit_gym", *map(str, command), "--out", str(folder / "out")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(SUPPORT), *sys.path])},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed_signals,
    )
    while not (list(folder.glob("at-work-*")) and files_of(folder / "out")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    return process, experiment


def processes_of(session):
    """Return the processes of a session that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, of_session, *_ = path.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if int(of_session) == session and state != "Z":
            found.append(int(path.parent.name))
    return found


CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}
STOPS = [
    ("serial", signal.SIGTERM),
    by_night("loky", signal.SIGINT),
    ("loky", signal.SIGKILL),
    by_night("dask", signal.SIGTERM),
    by_night("dask", signal.SIGKILL),
]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of a parent's death")
@pytest.mark.parametrize(("backend", "number"), STOPS, indirect=["backend"])
def test_a_stopped_run_leaves_no_process_and_resumes(tmp_path, capsys, backend, number):
    process, experiment = start(tmp_path, backend)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does: to the workers as well
    else:
        process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == CODES[number]
    if number != signal.SIGKILL:
        assert f"To go on: bandit-gym run {tmp_path / 'settings.json'} --backend" in told
        assert backend == "dask" or "Traceback" not in told  # Dask may tell of its own
    end = time.monotonic() + 30  # a worker that hears nothing would go on for 60 s
    while processes_of(process.pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert processes_of(process.pid) == []

    kept = files_of(tmp_path / "out")
    assert kept
    (tmp_path / "hold").unlink()
    assert main(["resume", str(tmp_path / "out"), "--trust", "--backend", "serial"]) == 0
    assert f"6 blocks, {len(kept)} of them stored already" in capsys.readouterr().err
    assert kept.items() <= files_of(tmp_path / "out").items()
    run_experiment(experiment, tmp_path / "undisturbed", workers=SERIAL)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "undisturbed")


def test_a_full_disk_leaves_a_folder_to_go_on_with(tmp_path, capsys, monkeypatch, serial):
    sync, calls = os.fsync, []

    def fill_up(handle):
        calls.append(handle)
        if len(calls) > 4:
            raise OSError(28, "No space left on device")
        sync(handle)

    (tmp_path / "settings.json").write_text(json.dumps(make_experiment().to_dict()))
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fill_up)
        command = ["run", str(tmp_path / "settings.json"), "--backend", "serial"]
        assert main([*command, "--out", str(out)]) == 1
    told = capsys.readouterr().err
    assert "No space left on device" in told
    assert f"To go on: bandit-gym {shlex.join(command)}" in told
    assert main(["resume", str(out), "--trust", "--backend", "serial"]) == 0
    assert files_of(out) == serial
