import hashlib
import json
import os
import sys

import pytest

from bandit_gym.experiments import claim
from bandit_gym.experiments.entries import Entry
from bandit_gym.experiments.experiment import FORMAT, Experiment
from bandit_gym.experiments.manifest import MANIFEST, read_manifest
from bandit_gym.experiments.storage import Store, _seal
from bandit_gym.files import LEFTOVER, RESULTS_VERSION, write_atomically

SIZES = {
    "agents": [],
    "replications": 1,
    "horizon": 1,
    "seed": 0,
    "recording": "log",
    "block_size": 1,
}
BROKEN = {"target": "agents:UCB1", "options": 5, "label": "broken"}


def make_experiment(**changes):
    settings = {"environments": ["BernoulliBandit-v0"], "agents": ["random", "ucb1"]}
    return Experiment(**{**settings, **changes})


def create(directory, experiment):
    with Store.claimed(directory, experiment) as (store, _):
        return store


@pytest.fixture
def store(tmp_path):
    return create(tmp_path / "out", make_experiment())


@pytest.fixture
def run():
    return make_experiment().runs[0]


def test_store_gives_back_a_block_as_it_was_written(store, run):
    store.write_block(run, 3, b"block three", {"seconds": 1.5})
    data, receipt = store.read_block(run, 3)
    assert data == b"block three"
    assert receipt["seconds"] == 1.5


def test_store_says_missing_when_there_is_nothing(store, run):
    with pytest.raises(FileNotFoundError):
        store.read_block(run, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names of files are texts")
def test_store_reads_what_it_wrote_in_a_folder_whose_name_is_no_text(tmp_path, run):
    store = create(tmp_path / os.fsdecode(b"out\xff"), make_experiment())
    store.write_block(run, 0, b"block", {})
    assert store.read_block(run, 0).data == b"block"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names of files are texts")
def test_files_of_others_are_no_blocks(store, run):
    store.write_block(run, 0, b"block", {})
    folder = store.block_path(run, 0).parent
    for name in (
        b"\xff",
        b"00001.\xff",
        "\u0663.parquet".encode(),
        b".DS_Store",
        b"00000.parquet~",
    ):
        (folder / os.fsdecode(name)).touch()
    assert store.blocks(run, 10) == [0, 1]
    assert store.read_block(run, 0).data == b"block"
    with pytest.raises(FileNotFoundError):
        store.read_block(run, 1)


@pytest.mark.parametrize("content", [b"", b"bloc", b"garbage", None], ids=str)
def test_store_says_damaged_when_a_block_is_torn_altered_or_gone(store, run, content):
    store.write_block(run, 0, b"block", {})
    store.block_path(run, 0).unlink()
    if content is not None:
        store.block_path(run, 0).write_bytes(content)
    with pytest.raises(ValueError, match="must (match its checksum|be there together)"):
        store.read_block(run, 0)


@pytest.mark.parametrize("suffix", ["blocks", "receipts"])
def test_store_says_damaged_when_a_file_is_another_blocks(store, run, suffix):
    store.write_block(run, 0, b"block zero", {})
    store.write_block(run, 1, b"block one", {})
    folder = store.directory / suffix / run.name
    first, second = sorted(folder.iterdir())
    first.write_bytes(second.read_bytes())
    with pytest.raises(ValueError, match=r"must (match its checksum|be the receipt of block 0)"):
        store.read_block(run, 0)
    assert store.read_block(run, 1).data == b"block one"


def test_store_says_damaged_when_both_files_are_those_of_another_run(store, run):
    other = make_experiment().runs[1]
    for number, each in enumerate((run, other)):
        store.write_block(each, 0, b"block of run %d" % number, {})
    for suffix in ("blocks", "receipts"):
        (target,) = (store.directory / suffix / run.name).iterdir()
        (source,) = (store.directory / suffix / other.name).iterdir()
        target.write_bytes(source.read_bytes())
    with pytest.raises(ValueError, match="must be the receipt of block 0"):
        store.read_block(run, 0)


def test_store_says_damaged_when_a_kill_came_before_the_receipt(store, run):
    store.write_block(run, 0, b"block", {})
    next((store.directory / "receipts" / run.name).iterdir()).unlink()
    with pytest.raises(ValueError, match="must be there together with its receipt"):
        store.read_block(run, 0)


def test_store_forgets_a_failure_when_the_block_comes_out_after_all(store, run):
    store.write_failure(run, 2, "RuntimeError: no")
    assert store.read_failures(run) == {2: "RuntimeError: no"}
    store.write_block(run, 2, b"block", {})
    assert store.read_failures(run) == {}


def test_store_remembers_the_experiment(store):
    assert read_manifest(store.directory).experiment == make_experiment()


def test_store_remembers_an_experiment_whose_agent_is_no_longer_there(tmp_path):
    lost = Entry("no_such_module:Agent", {"option": 1}, "lost")
    experiment = make_experiment(agents=[lost])
    assert create(tmp_path, experiment).manifest.experiment == experiment


@pytest.mark.parametrize(
    "extension",
    [
        {"replications": 200},
        {"agents": ["random", "ucb1", "greedy"]},
        {"environments": ["BernoulliBandit-v0", "PoissonBandit-v0"]},
    ],
    ids=["replications", "agents", "worlds"],
)
def test_folder_takes_an_experiment_that_contains_the_old_one(store, extension):
    create(store.directory, make_experiment(**extension))
    assert read_manifest(store.directory).experiment == make_experiment(**extension)


@pytest.mark.parametrize("change", [{"seed": 1}, {"horizon": 9}, {"agents": ["random"]}], ids=str)
def test_folder_refuses_another_experiment(store, change):
    with pytest.raises(FileExistsError, match="choose another folder"):
        create(store.directory, make_experiment(**change))
    assert read_manifest(store.directory).experiment == make_experiment()


def test_folder_that_holds_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("chapter one")
    with pytest.raises(FileExistsError, match="must hold an experiment or nothing"):
        create(tmp_path, make_experiment())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_folder_of_another_format_is_refused(store):
    manifest = store.directory / "experiment.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 0}))
    with pytest.raises(ValueError, match=f"must have format {FORMAT}, got 0"):
        read_manifest(store.directory)


@pytest.mark.parametrize("content", ['{"format": 2}', "null", "[]", "5", "[" * 100_000])
def test_folder_whose_manifest_is_none_is_refused(store, content):
    (store.directory / "experiment.json").write_text(content)
    with pytest.raises(ValueError, match="experiment.json must (describe|have format|be valid)"):
        read_manifest(store.directory)


def test_folder_with_a_torn_manifest_is_refused(store):
    (store.directory / "experiment.json").write_text("{")
    with pytest.raises(ValueError, match="experiment.json must be valid JSON"):
        read_manifest(store.directory)


def test_a_second_writer_is_refused_and_told_of_the_first(tmp_path):
    more = make_experiment(replications=200)
    with Store.claimed(tmp_path, make_experiment()) as (store, _):
        with pytest.raises(BlockingIOError, match="process .* is at work"):
            create(tmp_path, more)
        assert read_manifest(store.directory).experiment == make_experiment()
    create(tmp_path, more)
    assert read_manifest(store.directory).experiment == more


def test_a_folder_that_is_taken_while_waiting_for_its_lock_is_refused(tmp_path, monkeypatch):
    """Another process claims and leaves it after the first look, before the lock is ours."""
    lock, other = claim._lock, make_experiment(seed=1)

    def lock_late(file, directory):
        monkeypatch.setattr(claim, "_lock", lock)
        create(directory, other)
        lock(file, directory)

    monkeypatch.setattr(claim, "_lock", lock_late)
    with pytest.raises(FileExistsError, match="choose another folder"):
        create(tmp_path, make_experiment())
    assert read_manifest(tmp_path).experiment == other


def test_claiming_clears_the_temporary_files_of_killed_writers(store):
    leftover = store.directory / "blocks" / f".00000.parquet.abc{LEFTOVER}"
    write_atomically(leftover, b"half a block")
    mine = store.directory / "notes.tmp"
    mine.write_text("mine")
    create(store.directory, make_experiment())
    assert not leftover.exists()
    assert mine.read_text() == "mine"


def test_files_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    write_atomically(tmp_path / "file", b"")
    os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("kind", ["blocks", "receipts"])
def test_a_folder_where_a_file_should_be_is_damage_and_makes_way(store, run, kind):
    store.write_block(run, 0, b"block", {})
    (path,) = (store.directory / kind / run.name).iterdir()
    path.unlink()
    path.mkdir()
    (path / "notes").write_text("mine")
    with pytest.raises(ValueError, match="must be there together with its receipt"):
        store.read_block(run, 0)
    store.write_block(run, 0, b"block", {})
    assert store.read_block(run, 0).data == b"block"
    assert [p.read_text() for p in store.directory.rglob("notes")] == ["mine"]


def test_a_folder_where_a_failure_should_be_makes_way(store, run):
    store.write_failure(run, 0, "once")
    (path,) = (store.directory / "failures" / run.name).iterdir()
    path.unlink()
    path.mkdir()
    store.write_failure(run, 0, "again")
    assert store.read_failures(run) == {0: "again"}


def test_a_start_that_fails_leaves_no_folder(tmp_path):
    with pytest.raises(RuntimeError), Store.claimed(tmp_path / "a" / "b", make_experiment()):
        raise RuntimeError("the scheduler is not there")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["null", "5", "{}", '{"checksum": 1}', "[" * 100_000, "{"])
def test_store_says_damaged_when_a_receipt_is_no_receipt(store, run, content):
    store.write_block(run, 0, b"block", {})
    (path,) = (store.directory / "receipts" / run.name).iterdir()
    path.write_text(content)
    with pytest.raises(ValueError, match="must match its checksum"):
        store.read_block(run, 0)


def test_atomic_write_leaves_the_old_file_when_it_fails(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, b"new")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"file": b"old"}


def change_receipt(store, run, **changes):
    """Change the receipt of a block, and its checksum with it."""
    path = store.directory / "receipts" / run.name / "00000.json"
    receipt = json.loads(path.read_bytes()) | changes
    del receipt["checksum"]
    path.write_bytes(_seal(receipt))


def make_older(store, run):
    """Make the receipt of a block look as if an older engine had written it."""
    change_receipt(store, run, results_version=RESULTS_VERSION - 1)


@pytest.mark.parametrize("sources", ["mine.py", None, 5, {"agent": "mine.py"}])
def test_a_receipt_whose_sources_are_no_table_is_damaged(store, run, sources):
    store.write_block(run, 0, b"block", {})
    change_receipt(store, run, sources=sources)
    again = create(store.directory, make_experiment())  # not refused, as code that changed is
    with pytest.raises(ValueError, match="must be the receipt of block 0"):
        again.read_block(run, 0)


def test_store_refuses_to_add_to_results_of_another_version(store, run):
    store.write_block(run, 0, b"block", {})
    make_older(store, run)
    with pytest.raises(
        FileExistsError, match=f"of version {RESULTS_VERSION - 1}, and now of {RESULTS_VERSION}"
    ):
        create(store.directory, make_experiment())


def test_store_leaves_out_a_block_of_another_version_and_names_it(store, run):
    store.write_block(run, 0, b"block", {})
    make_older(store, run)
    with pytest.raises(ValueError, match="must be the receipt of block 0"):
        store.read_block(run, 0)
    assert store.blocks_of_other_origin() == [f"{run.name}/00000"]


@pytest.mark.parametrize("change", [(b"1.5", b"NaN"), (b"1.5", b"9.5"), (b"seconds", b"secs")])
def test_store_says_damaged_when_a_receipt_was_altered(store, run, change):
    store.write_block(run, 0, b"block", {"agent_seconds": 1.5})
    (path,) = (store.directory / "receipts" / run.name).iterdir()
    path.write_bytes(path.read_bytes().replace(*change))
    with pytest.raises(ValueError, match="must match its checksum"):
        store.read_block(run, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"results_version": "x"}, "results_version must be a non-negative integer, got 'x'"),
        ({"sources": 5}, "sources must be a table of tables, got 5."),
        ({"format": True}, "must have format \\d, got True"),
        ({"experiment": None}, "experiment must be a dict with the keys .* got None"),
        ({"experiment": SIZES | {"environments": []}}, "must have at least one entry"),
        ({"experiment": SIZES | {"environments": [5]}}, "environments must be a dict with the"),
        ({"experiment": SIZES | {"environments": 5}}, "environments must be a list, got 5"),
        (
            {"experiment": SIZES | {"environments": [BROKEN]}},
            "options must be a dict, got 5",
        ),
    ],
)
def test_manifest_that_describes_no_experiment_is_refused(store, change, message):
    path = store.directory / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_bytes()) | change))
    with pytest.raises(ValueError, match=message):
        read_manifest(store.directory)


def test_settings_and_receipts_are_written_for_people_to_read(store, run):
    store.write_block(run, 0, b"block", {"seconds": 1.5})
    (receipt,) = (store.directory / "receipts" / run.name).iterdir()
    for text in (receipt.read_text(), (store.directory / MANIFEST).read_text()):
        assert text.startswith('{\n  "format": ')
        assert text.endswith("\n}\n")


def test_blocks_are_numbered_by_five_digits(store, run):
    store.write_block(run, 42, b"block", {})
    store.write_failure(run, 43, "what went wrong")
    names = {path.name for path in store.directory.rglob("0*")}
    assert names == {"00042.parquet", "00042.json", "00043.txt"}
    assert store.read_failures(run) == {43: "what went wrong"}


def test_a_receipt_says_what_the_block_is_and_what_was_known(store, run):
    store.write_block(run, 2, b"block", {"seconds": 1.5})
    receipt = store.read_block(run, 2).receipt
    assert receipt["sha256"] == hashlib.sha256(b"block").hexdigest()
    assert (receipt["run"], receipt["block"], receipt["seconds"]) == (run.digest, 2, 1.5)
    assert receipt["results_version"] == RESULTS_VERSION


def test_a_block_that_is_stored_takes_its_failure_away(store, run):
    store.write_failure(run, 1, "what went wrong")
    store.write_failure(run, 2, "what else")
    store.write_block(run, 1, b"block", {})
    assert store.read_failures(run) == {2: "what else"}


def test_a_lock_that_is_a_link_is_refused_and_what_it_leads_to_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("chapter one")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".lock").symlink_to(tmp_path / "thesis.tex")
    with pytest.raises(FileExistsError, match="must hold a .lock that is a file, got a link"):
        create(tmp_path / "out", make_experiment())
    assert (tmp_path / "thesis.tex").read_text() == "chapter one"
    assert (tmp_path / "out" / ".lock").is_symlink()


def test_a_folder_that_is_a_link_is_followed(tmp_path):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "results").symlink_to(tmp_path / "scratch")
    create(tmp_path / "results" / "out", make_experiment())
    assert (tmp_path / "scratch" / "out" / MANIFEST).is_file()


def test_blocks_come_in_the_order_of_their_numbers(store, run):
    for block in (100, 3, 64, 7):
        store.write_block(run, block, b"data", {})
    assert store.blocks(run, 200) == [3, 7, 64, 100]
    assert store.blocks(run, 64) == [3, 7]
