import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bandit_gym.experiments import execution
from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.simulation import simulate_block
from bandit_gym.results import describe, load_results, summarise

SERIAL = Workers("serial")
TESTS = Path(__file__).parents[2] / "support"


def make_experiment(**changes):
    settings = {
        "environments": ["BernoulliBandit-v0"],
        "agents": ["random", "ucb1"],
        "replications": 12,
        "horizon": 60,
        "block_size": 4,
    }
    return Experiment(**{**settings, **changes})


@pytest.fixture(autouse=True)
def nothing_is_little(request, monkeypatch):
    """Let workers do what would be done here for being little, but where that is the subject."""
    if "little" not in request.node.name:
        monkeypatch.setattr(execution, "FEW_DECISIONS", -1)


def block_files(directory):
    folder = Path(directory) / "blocks"
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.parquet")}


def run_and_watch(experiment, directory, **options):
    """Run, and return the last progress and the blocks that were simulated."""
    seen = []
    run_experiment(experiment, directory, on_progress=seen.append, **options)
    return seen[-1], [p.outcome for p in seen if p.outcome is not None]


@pytest.fixture(scope="module")
def serial_files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("serial")
    run_experiment(make_experiment(), directory, workers=SERIAL)
    return block_files(directory)


@pytest.mark.parametrize("num_workers", [1, 2, 4])
def test_results_are_the_same_bytes_for_any_number_of_processes(
    tmp_path, serial_files, num_workers
):
    run_experiment(make_experiment(), tmp_path, workers=Workers("loky", num_workers))
    assert block_files(tmp_path) == serial_files


@pytest.mark.parametrize(
    ("changes", "is_here"),
    [
        ({}, True),
        ({"horizon": 300}, False),
        ({"agents": ["random", "stub_agents:Constant"]}, False),
    ],
    ids=["little", "more", "own code"],
)
def test_a_little_of_ours_is_done_without_workers(tmp_path, changes, is_here):
    _, outcomes = run_and_watch(make_experiment(**changes), tmp_path, workers=Workers("loky", 2))
    assert ({o.facts["process"] for o in outcomes} == {os.getpid()}) is is_here


def test_loky_spreads_the_work_over_processes(tmp_path):
    experiment = make_experiment(agents=["stub_agents:Tired"], horizon=20)
    _, outcomes = run_and_watch(experiment, tmp_path, workers=Workers("loky", 2))
    processes = {outcome.facts["process"] for outcome in outcomes}
    assert len(processes) == 2
    assert os.getpid() not in processes


@pytest.mark.slow
def test_dask_gives_the_same_bytes_in_two_processes_of_a_real_cluster(tmp_path, serial_files):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        workers = Workers("dask", scheduler=cluster.scheduler_address)
        _, outcomes = run_and_watch(make_experiment(), tmp_path, workers=workers)
    processes = {outcome.facts["process"] for outcome in outcomes}
    assert block_files(tmp_path) == serial_files
    assert len(processes) == 2
    assert os.getpid() not in processes


@pytest.mark.slow
def test_ray_gives_the_same_bytes_in_other_processes(tmp_path, serial_files):
    pytest.importorskip("ray")
    _, outcomes = run_and_watch(make_experiment(), tmp_path, workers=Workers("ray", 2))
    processes = {outcome.facts["process"] for outcome in outcomes}
    assert block_files(tmp_path) == serial_files
    assert os.getpid() not in processes


def test_running_again_simulates_nothing(tmp_path):
    run_experiment(make_experiment(), tmp_path, workers=SERIAL)
    progress, outcomes = run_and_watch(make_experiment(), tmp_path, workers=SERIAL)
    assert (progress.num_stored, outcomes) == (6, [])


def test_more_replications_keep_the_old_ones_and_simulate_only_the_new(tmp_path):
    few, many = make_experiment(replications=10), make_experiment(replications=20)
    run_experiment(few, tmp_path, workers=SERIAL)
    before, table = block_files(tmp_path), final_regrets(tmp_path)
    _, outcomes = run_and_watch(many, tmp_path, workers=SERIAL)
    assert {outcome.block for outcome in outcomes} == {3, 4}
    assert before.items() <= block_files(tmp_path).items()
    assert (final_regrets(tmp_path)[:10] == table).all()


def test_first_blocks_of_all_runs_come_first(tmp_path):
    experiment = make_experiment()
    _, outcomes = run_and_watch(experiment, tmp_path, workers=SERIAL)
    found = [(outcome.block, outcome.run) for outcome in outcomes]
    assert found == [(block, run) for block in range(3) for run in experiment.runs]


def test_progress_counts_the_blocks_that_are_stored_and_those_done_since(tmp_path):
    run_experiment(make_experiment(replications=4), tmp_path, workers=SERIAL)
    seen = []
    run_experiment(make_experiment(), tmp_path, workers=SERIAL, on_progress=seen.append)
    assert [(p.num_blocks, p.num_stored, p.num_done) for p in seen] == [
        (6, 2, done) for done in range(5)
    ]


def final_regrets(directory):
    return load_results(directory).runs[0].final("pseudo_regret")


@pytest.mark.parametrize("damage", ["truncate", "empty", "garbage", "swap"])
def test_only_a_damaged_block_is_simulated_again(tmp_path, serial_files, damage):
    run_experiment(make_experiment(), tmp_path, workers=SERIAL)
    victim, donor = sorted((tmp_path / "blocks").rglob("*.parquet"))[1:3]
    whole = victim.read_bytes()
    contents = {
        "truncate": whole[: len(whole) // 2],
        "empty": b"",
        "garbage": b"x" * len(whole),
        "swap": donor.read_bytes(),
    }
    victim.write_bytes(contents[damage])
    progress, outcomes = run_and_watch(make_experiment(), tmp_path, workers=SERIAL)
    assert progress.damaged == (f"{victim.parent.name}/{victim.stem}",)
    assert len(outcomes) == 1
    assert block_files(tmp_path) == serial_files


def test_an_agent_that_raises_spoils_only_its_own_results(tmp_path, serial_files):
    experiment = make_experiment(agents=["random", "stub_agents:Raising", "ucb1"])
    run_experiment(experiment, tmp_path, workers=SERIAL)
    random, raising, ucb1 = load_results(tmp_path).runs
    assert block_files(tmp_path) == serial_files
    assert len(raising.failures) == 3
    assert raising.failures[0].startswith("RuntimeError: I have had enough\n")
    assert "in act" in raising.failures[0]
    assert not random.failures
    assert not ucb1.failures


def test_a_block_that_failed_is_tried_again(tmp_path):
    experiment = make_experiment(agents=["stub_agents:Raising"])
    run_experiment(experiment, tmp_path, workers=SERIAL)
    _, outcomes = run_and_watch(experiment, tmp_path, workers=SERIAL)
    assert len(outcomes) == 3


def test_an_agent_that_cannot_be_pickled_works_in_other_processes(tmp_path):
    experiment = make_experiment(agents=["stub_agents:Unpicklable"])
    _, outcomes = run_and_watch(experiment, tmp_path, workers=Workers("loky", 2))
    assert [outcome.failure for outcome in outcomes] == [None] * 3


def test_an_agent_that_cannot_be_built_is_refused_before_anything_runs(tmp_path):
    experiment = make_experiment(agents=["random", {"agent": "racing", "delta": 2.0}])
    message = r"agent racing\(delta=2.0\) must be able to play BernoulliBandit-v0, got ValueError"
    with pytest.raises(ValueError, match=message):
        run_experiment(experiment, tmp_path / "out", workers=SERIAL)
    assert not (tmp_path / "out").exists()


def test_an_environment_that_is_no_bayesian_bandit_is_refused(tmp_path):
    experiment = make_experiment(environments=["CartPole-v1"])
    with pytest.raises(ValueError, match="env must have a `problem`"):
        run_experiment(experiment, tmp_path / "out", workers=SERIAL)


def test_a_second_process_is_refused_and_the_first_one_unharmed(tmp_path):
    experiment = make_experiment(agents=["stub_agents:Tired"], horizon=20)
    complaints = []

    def try_as_well(progress):
        if progress.num_done == 1:
            with pytest.raises(BlockingIOError, match="is at work") as caught:
                run_experiment(experiment, tmp_path, workers=SERIAL)
            complaints.append(str(caught.value))

    run_experiment(experiment, tmp_path, workers=SERIAL, on_progress=try_as_well)
    assert len(complaints) == 1
    assert load_results(tmp_path).num_missing == 0


@pytest.mark.slow
def test_an_agent_that_kills_its_process_spoils_only_its_own_results(tmp_path, serial_files):
    experiment = make_experiment(agents=["random", "stub_agents:Deadly", "ucb1"])
    run_experiment(experiment, tmp_path, workers=Workers("loky", 2))
    random, deadly, ucb1 = load_results(tmp_path).runs
    assert block_files(tmp_path) == serial_files
    assert len(deadly.failures) == 3
    assert all(text.startswith("WorkerDied: ") for text in deadly.failures.values())
    assert not random.failures
    assert not ucb1.failures


@pytest.mark.slow
def test_one_loky_worker_is_another_process(tmp_path):
    experiment = make_experiment(agents=["stub_agents:Deadly"])
    _, outcomes = run_and_watch(experiment, tmp_path, workers=Workers("loky", 1))
    assert [outcome.failure is None for outcome in outcomes] == [False] * 3


def test_a_block_that_failed_is_tried_last(tmp_path):
    few = make_experiment(agents=["stub_agents:Raising", "random"], replications=4)
    run_experiment(few, tmp_path, workers=SERIAL)
    more = make_experiment(agents=["stub_agents:Raising", "random"])
    _, outcomes = run_and_watch(more, tmp_path, workers=SERIAL)
    assert outcomes[-1].block == 0
    assert len(outcomes) == 5


def test_blocks_that_failed_are_tried_again_first_blocks_first(tmp_path):
    agents = ["stub_agents:Raising", {"agent": "stub_agents:Raising", "at": 2}]
    experiment = make_experiment(agents=agents)
    run_experiment(experiment, tmp_path, workers=SERIAL)
    _, outcomes = run_and_watch(experiment, tmp_path, workers=SERIAL)
    assert [outcome.block for outcome in outcomes] == [0, 0, 1, 1, 2, 2]


def test_blocks_that_failed_and_are_no_longer_asked_for_are_left_alone(tmp_path):
    agents = ["stub_agents:Raising"]
    run_experiment(make_experiment(agents=agents), tmp_path, workers=SERIAL)
    fewer = make_experiment(agents=agents, replications=8)
    _, outcomes = run_and_watch(fewer, tmp_path, workers=SERIAL)
    assert [outcome.block for outcome in outcomes] == [0, 1]


def test_a_constructor_that_kills_its_process_is_refused_before_anything_runs(tmp_path):
    experiment = make_experiment(agents=["random", "stub_agents:Stillborn"])
    with pytest.raises(ValueError, match="agent Stillborn must be able to play .*WorkerDied"):
        run_experiment(experiment, tmp_path / "out", workers=Workers("loky", 2))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_dask_outlives_an_agent_that_kills_its_process(tmp_path, serial_files):
    pytest.importorskip("distributed")
    experiment = make_experiment(agents=["random", "stub_agents:Deadly", "ucb1"])
    run_experiment(experiment, tmp_path, workers=Workers("dask", 2))
    assert block_files(tmp_path) == serial_files
    assert len(load_results(tmp_path).runs[1].failures) == 3


@pytest.mark.parametrize("kind", ["exit", "unencodable", "untold", "group", "markup", "late"])
def test_whatever_an_agent_raises_is_a_failure_of_its_own(tmp_path, serial_files, kind):
    strange = {"agent": "stub_agents:Strange", "kind": kind}
    run_experiment(make_experiment(agents=["random", strange, "ucb1"]), tmp_path, workers=SERIAL)
    results = load_results(tmp_path)
    assert block_files(tmp_path) == serial_files
    assert len(results.runs[1].failures) == 3
    assert "Left out: Strange" in describe(results)
    assert all(letter.isprintable() for letter in results.runs[1].failures[0].partition("\n")[0])


def test_a_complete_block_outranks_a_failure(tmp_path, serial_files):
    run_experiment(make_experiment(), tmp_path, workers=SERIAL)
    run = make_experiment().runs[0]
    for name in ("00000.txt", "00077.txt", "notes.txt"):
        path = tmp_path / "failures" / run.name / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("RuntimeError: long mended")
    assert load_results(tmp_path).failed == []


def test_a_block_forged_together_with_its_receipt_is_computed_again(tmp_path, serial_files):
    store = run_experiment(make_experiment(), tmp_path, workers=SERIAL)
    run = make_experiment().runs[0]
    store.write_block(run, 1, b"no Parquet at all", {})
    assert load_results(tmp_path).num_missing == 1
    progress, _ = run_and_watch(make_experiment(), tmp_path, workers=SERIAL)
    assert progress.damaged == (f"{run.name}/00001",)
    assert block_files(tmp_path) == serial_files


@pytest.mark.parametrize("replications", [10**15, 2**62])
def test_the_first_block_of_very_many_starts_at_once(tmp_path, replications):
    class Enough(Exception):
        pass

    def stop(progress):
        if progress.num_done:
            raise Enough

    experiment = make_experiment(replications=replications)
    with pytest.raises(Enough):
        run_experiment(experiment, tmp_path, workers=SERIAL, on_progress=stop)
    results = load_results(tmp_path)
    assert len(results.runs[0].blocks) == 1
    assert results.num_missing == 2 * experiment.num_blocks - 1


VICTIM = """
import sys
sys.path.insert(0, {tests!r})
from bandit_gym.experiments import execution
from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import load_experiment
run_experiment(load_experiment({file!r}), {out!r}, workers=Workers({backend!r}, 2))
"""


def kill_at_random(script, out, rng):
    """Start the script, kill it soon after it has stored a block more, and return its exit code."""
    before = len(block_files(out))
    process = subprocess.Popen([sys.executable, "-c", script])
    while process.poll() is None and len(block_files(out)) <= before:
        time.sleep(0.01)
    time.sleep(rng.uniform(0.0, 0.1))
    process.send_signal(signal.SIGKILL)
    return process.wait()


@pytest.mark.slow
def test_kills_and_resumes_change_nothing(tmp_path, monkeypatch):
    tired = {"agent": "stub_agents:Tired", "seconds": 0.001}
    experiment = make_experiment(agents=["random", tired], replications=240)
    file = tmp_path / "experiment.json"
    file.write_text(json.dumps(experiment.to_dict()))
    places = {"tests": str(TESTS), "file": str(file), "out": str(tmp_path / "killed")}
    scripts = [VICTIM.format(backend=backend, **places) for backend in ["serial"] * 3 + ["loky"]]
    rng = np.random.default_rng(0)
    codes = [kill_at_random(scripts[k % 4], tmp_path / "killed", rng) for k in range(4)]
    assert codes == [-signal.SIGKILL] * 4
    monkeypatch.setattr("stub_agents.time.sleep", lambda _: None)  # nobody is waiting any more
    run_experiment(experiment, tmp_path / "killed", workers=SERIAL)
    run_experiment(experiment, tmp_path / "undisturbed", workers=SERIAL)
    assert block_files(tmp_path / "killed") == block_files(tmp_path / "undisturbed")
    tables = [summarise(load_results(tmp_path / name)) for name in ("killed", "undisturbed")]
    pd.testing.assert_frame_equal(*tables, check_exact=True)


def test_blocks_are_stored_as_they_come_those_of_all_runs_first(tmp_path):
    """Two runs of three blocks each, in this process."""
    seen = []

    def look(progress):
        files = sorted(path.stem for path in block_files(tmp_path))
        seen.append((progress.num_done, progress.num_blocks, files))

    run_experiment(make_experiment(), tmp_path, workers=SERIAL, on_progress=look)
    names = ["00000", "00000", "00001", "00001", "00002", "00002"]
    assert seen == [(done, 6, names[:done]) for done in range(7)]


def test_a_block_that_is_missing_is_not_called_damaged(tmp_path):
    store = run_experiment(make_experiment(), tmp_path, workers=SERIAL)
    run = make_experiment().runs[0]
    store.block_path(run, 1).unlink()
    (tmp_path / "receipts" / run.name / "00001.json").unlink()
    progress, outcomes = run_and_watch(make_experiment(), tmp_path, workers=SERIAL)
    assert (progress.damaged, progress.num_stored, progress.num_done) == ((), 5, 1)
    assert [(outcome.run, outcome.block) for outcome in outcomes] == [(run, 1)]


def test_rays_blocks_are_asked_for_in_rounds_of_four_a_worker(tmp_path, monkeypatch):
    """Joblib gives Ray's results all at once; a stand-in plays them here."""
    rounds = []

    class Parallel:
        def __init__(self, n_jobs):
            assert n_jobs == 1

        def __call__(self, calls):
            calls = list(calls)
            rounds.append(len(calls))
            return [function(*arguments) for function, arguments, _ in calls]

    monkeypatch.setattr("bandit_gym.experiments.crew.connect", lambda workers, stack: 1)
    monkeypatch.setattr("joblib.Parallel", Parallel)
    run_experiment(make_experiment(), tmp_path, workers=Workers("ray"))
    assert rounds == [4, 2]
    assert load_results(tmp_path).num_missing == 0


def test_this_process_stores_a_block_before_it_simulates_the_next(tmp_path, monkeypatch):
    calls, seen = [], []

    def simulate(run, block, *rest):
        calls.append(block)
        return simulate_block(run, block)

    monkeypatch.setattr("bandit_gym.experiments.execution.simulate_block", simulate)
    run_experiment(
        make_experiment(),
        tmp_path,
        workers=SERIAL,
        on_progress=lambda progress: seen.append((progress.num_done, len(calls))),
    )
    assert seen == [(done, done) for done in range(7)]
