import hashlib
import json

import pytest

from bandit_gym.experiments import storage
from bandit_gym.experiments.entries import Entry
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.storage import MANIFEST, Store
from bandit_gym.files import RESULTS_VERSION, write_atomically


def make_experiment(**changes):
    settings = {"environments": ["BernoulliBandit-v0"], "agents": ["random", "ucb1"]}
    return Experiment(**{**settings, **changes})


def create(directory, experiment):
    with Store.claimed(directory, experiment) as store:
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
    assert store.load_experiment() == make_experiment()


def test_store_remembers_an_experiment_whose_agent_is_no_longer_there(tmp_path):
    lost = Entry("no_such_module:Agent", {"option": 1}, "lost")
    experiment = make_experiment(agents=[lost])
    assert create(tmp_path, experiment).load_experiment() == experiment


@pytest.mark.parametrize(
    "extension",
    [{"replications": 200}, {"agents": ["random", "ucb1", "greedy"]}],
    ids=["replications", "agents"],
)
def test_folder_takes_an_experiment_that_contains_the_old_one(store, extension):
    create(store.directory, make_experiment(**extension))
    assert store.load_experiment() == make_experiment(**extension)


@pytest.mark.parametrize("change", [{"seed": 1}, {"horizon": 9}, {"agents": ["random"]}], ids=str)
def test_folder_refuses_another_experiment(store, change):
    with pytest.raises(FileExistsError, match="choose another folder"):
        create(store.directory, make_experiment(**change))
    assert store.load_experiment() == make_experiment()


def test_folder_that_holds_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("chapter one")
    with pytest.raises(FileExistsError, match="must hold an experiment or nothing"):
        create(tmp_path, make_experiment())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_folder_of_another_format_is_refused(store):
    manifest = store.directory / "experiment.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 0}))
    with pytest.raises(ValueError, match="must have format 1, got 0"):
        store.load_experiment()


def test_folder_with_a_torn_manifest_is_refused(store):
    (store.directory / "experiment.json").write_text("{")
    with pytest.raises(ValueError, match="experiment.json must be valid JSON"):
        store.load_experiment()


def test_a_second_writer_is_refused_and_told_of_the_first(tmp_path):
    more = make_experiment(replications=200)
    with Store.claimed(tmp_path, make_experiment()) as store:
        with pytest.raises(BlockingIOError, match="process .* is at work"):
            create(tmp_path, more)
        assert store.load_experiment() == make_experiment()
    create(tmp_path, more)
    assert store.load_experiment() == more


def test_a_folder_that_is_taken_while_waiting_for_its_lock_is_refused(tmp_path, monkeypatch):
    """Another process claims and leaves it after the first look, before the lock is ours."""
    lock, other = storage._lock, make_experiment(seed=1)

    def lock_late(file, directory):
        monkeypatch.setattr(storage, "_lock", lock)
        create(directory, other)
        lock(file, directory)

    monkeypatch.setattr(storage, "_lock", lock_late)
    with pytest.raises(FileExistsError, match="choose another folder"):
        create(tmp_path, make_experiment())
    assert Store(tmp_path).load_experiment() == other


def test_claiming_clears_the_temporary_files_of_killed_writers(store):
    leftover = store.directory / "blocks" / ".00000.parquet.abc.tmp"
    write_atomically(leftover, b"half a block")
    create(store.directory, make_experiment())
    assert not leftover.exists()


def test_atomic_write_leaves_the_old_file_when_it_fails(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, b"new")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"file": b"old"}


def make_older(path):
    """Make a manifest or a receipt look as if an older engine had written it."""
    content = json.loads(path.read_bytes())
    path.write_text(json.dumps(content | {"results_version": RESULTS_VERSION - 1}))


def test_store_refuses_to_add_to_results_of_another_version(store):
    make_older(store.directory / MANIFEST)
    with pytest.raises(FileExistsError, match=f"must hold results of version {RESULTS_VERSION}"):
        create(store.directory, make_experiment())


def test_store_does_not_mix_in_a_block_of_another_version(store, run):
    store.write_block(run, 0, b"block", {})
    make_older(store.directory / "receipts" / run.name / "00000.json")
    with pytest.raises(ValueError, match="must be the receipt of block 0"):
        store.read_block(run, 0)


def test_store_names_a_block_of_another_version_and_refuses_to_go_on(store, run):
    store.write_block(run, 0, b"block", {})
    make_older(store.directory / "receipts" / run.name / "00000.json")
    assert store.blocks_of_other_versions() == [f"{run.name}/00000"]
    with pytest.raises(FileExistsError, match="version \\d+ alone, got 1 blocks of another one"):
        create(store.directory, make_experiment())


def test_store_refuses_a_version_that_is_no_number(store):
    content = json.loads((store.directory / MANIFEST).read_bytes()) | {"results_version": "x"}
    (store.directory / MANIFEST).write_text(json.dumps(content))
    with pytest.raises(
        ValueError, match="must have a whole number as its results_version, got 'x'"
    ):
        Store(store.directory).results_version  # noqa: B018


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
