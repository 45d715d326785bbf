import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from bandit_gym import ENV_IDS, Workers, __version__, load_experiment, run_experiment
from bandit_gym.cli import main
from bandit_gym.experiments.catalogue import agent_names

ENV = "BernoulliBandit-v0"
TESTS = Path(__file__).parents[1] / "support"


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    """Leave the drawing to the tests of reports and plots: it would take most of the time here."""
    monkeypatch.setattr(
        "bandit_gym.results.report.draw_regret", lambda results, folder: [folder / "a.png"]
    )
    monkeypatch.setattr("bandit_gym.results.report.write_report", lambda results, folder: None)


def compare(out, *arguments):
    defaults = ["--replications", "6", "--horizon", "60", "--backend", "serial", "--out", str(out)]
    return main(["compare", *defaults, *arguments])


def write_file(folder, **settings):
    path = folder / "experiment.json"
    defaults = {"environments": [ENV], "agents": ["random"], "replications": 6, "horizon": 60}
    path.write_text(json.dumps({**defaults, **settings}))
    return path


def test_list_shows_every_environment_and_agent_with_its_options(capsys):
    assert main(["list"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in (*ENV_IDS, *agent_names()))
    assert "num_arms=10" in text
    assert "delta=0.1" in text


HEAVY = "numba scipy.special scipy.stats scipy.optimize matplotlib.pyplot rich torch".split()
DRAWING = ["matplotlib", "pandas"]


@pytest.mark.parametrize(
    ("command", "heavy"),
    [
        ("list", ["scipy.stats", "scipy.optimize", "pyarrow", "joblib", "rich", "torch", *DRAWING]),
        ("compare --agents random --replications 2 --horizon 5 --out new", HEAVY),
        ("export out", [*HEAVY, "joblib", "matplotlib"]),
    ],
)
def test_a_command_loads_nothing_that_it_does_not_use(few_blocks, command, heavy):
    code = "import sys; from bandit_gym.cli import main; code = main(sys.argv[1:])\n"
    code += f"print(code, [name for name in {heavy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code, *command.split()],
        cwd=few_blocks,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr


@pytest.fixture(scope="module")
def few_blocks(tmp_path_factory):
    """A folder whose `out` holds a trivial comparison."""
    folder = tmp_path_factory.mktemp("few")
    file = write_file(folder, replications=2, horizon=5)
    run_experiment(load_experiment(file), folder / "out", workers=Workers("serial"))
    return folder


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert (caught.value.code, capsys.readouterr().out) == (0, f"bandit-gym {__version__}\n")


def test_compare_prints_a_table_and_says_where_the_picture_is(tmp_path, capsys):
    assert compare(tmp_path, "--agents", "random", "ucb1:scale=0.5") == 0
    text = capsys.readouterr().out
    assert "Bayesian pseudo-regret" in text
    assert "less random's, paired" in text
    assert "ucb1(scale=0.5)" in text
    assert f"Regret over time: {tmp_path / 'report' / 'a.png'}" in text


def test_compare_takes_environment_options_as_json(tmp_path, capsys):
    assert compare(tmp_path, "--agents", "random", "--env-options", '{"num_arms": 3}') == 0
    assert f"{ENV}(num_arms=3)" in capsys.readouterr().out


def test_compare_again_goes_on_where_it_stopped(tmp_path, capsys):
    compare(tmp_path, "--agents", "random")
    compare(tmp_path, "--agents", "random")
    assert "1 blocks, 1 of them stored already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env", "BernouliBandit-v0"], "the nearest known one is 'BernoulliBandit-v0'"),
        (["--agents", "racin"], "the nearest known one is 'racing'"),
        (["--agents", "racing:detla=0.1"], "the nearest known one is 'delta'"),
        (["--agents", "racing:delta=2"], "delta must be a finite number above 0 and below 1"),
        (["--env-options", "{num_arms: 3}"], "--env-options must be JSON"),
        (["--env-options", "[3]"], '--env-options must be like {"num_arms": 5}'),
        (["--env-options", '{"num_arm": 3}'], "the nearest known one is 'num_arms'"),
        (["--env-options", '{"num_arms": 1}'], "num_arms must be"),
        (["--env-options", '{"env": "PoissonBandit-v0"}'], "must not have the key 'env'"),
        (["--env-options", '{"means": 1, "means": 2}'], "each key once, got 'means' twice"),
        (["--agents", "random:agent=ucb1"], "must not have the key 'agent'"),
        (["--agents", "racing:delta=0.1,delta=0.2"], "each key once, got 'delta' twice"),
        (["--agents", 'exact:prior={"name":"a","name":"b"}'], "each key once, got 'name' twice"),
        (["--agents", "exact:prior=" + "[" * 100_000], "nested less deeply"),
        (["--env-options", '{"means": ' + "[" * 100_000], "nested less deeply"),
        (["--horizon", "0"], "horizon must be a positive integer, got 0"),
        (["--replications", "0"], "replications must be a positive integer, got 0"),
        (["--seed", "-1"], "seed must be a non-negative integer, got -1"),
        (["--workers", "0"], "num_workers must be a positive integer, got 0"),
        (["--backend", "darsk"], "the nearest known one is 'dask'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path, capsys, arguments, message):
    assert compare(tmp_path / "out", *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_error_is_raised_when_its_traceback_is_asked_for():
    with pytest.raises(ValueError, match="horizon must be a positive integer"):
        main(["--traceback", "compare", "--horizon", "0"])


def test_a_folder_that_holds_something_else_is_refused(tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("chapter one")
    assert compare(tmp_path, "--agents", "random") == 2
    assert "choose another one" in capsys.readouterr().err


def test_a_folder_below_a_file_is_one_sentence_and_exit_code_2(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert compare(tmp_path / "file" / "out", "--agents", "random") == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_full_disk_leaves_a_resumable_folder_and_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    sync, calls = os.fsync, []

    def fill_up(handle):
        calls.append(handle)
        if len(calls) > 4:
            raise OSError(28, "No space left on device")
        sync(handle)

    file = write_file(tmp_path, block_size=2)
    monkeypatch.setattr("os.fsync", fill_up)
    assert main(["run", str(file), "--backend", "serial", "--out", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert "No space left on device" in error
    assert f"bandit-gym resume {tmp_path / 'out'}" in error
    monkeypatch.setattr("os.fsync", sync)
    assert main(["resume", str(tmp_path / "out"), "--backend", "serial"]) == 0


def test_an_agent_that_fails_makes_the_exit_code_1_and_leaves_the_others(tmp_path, capsys):
    assert compare(tmp_path, "--agents", "random", "stub_agents:Raising") == 1
    captured = capsys.readouterr()
    assert "Raising failed in BernoulliBandit-v0, block 0: RuntimeError" in captured.err
    assert "Left out: Raising" in captured.out
    assert "\nrandom " in captured.out


def test_run_puts_the_results_into_a_folder_named_by_content(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write_file(tmp_path)
    assert main(["run", str(file), "--backend", "serial"]) == 0
    write_file(tmp_path, seed=1)
    assert main(["run", str(file), "--backend", "serial"]) == 0
    assert len(list((tmp_path / "results").glob("experiment-*"))) == 2


def test_run_names_the_nearest_key_of_a_misspelt_file(tmp_path, capsys):
    assert main(["run", str(write_file(tmp_path, horizn=3))]) == 2
    assert "the nearest known one is 'horizon'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nothing.toml", "folder", "image.toml"])
def test_run_of_no_readable_file_is_an_error_that_names_it(tmp_path, capsys, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "image.toml").write_bytes(b"\xff\xd8")
    assert main(["run", str(tmp_path / name)]) == 2
    assert name in capsys.readouterr().err


def test_run_names_the_nearest_key_of_a_misspelt_entry(tmp_path, capsys):
    agents = [{"agent": "racing", "gird": {"delta": [0.1, 0.2]}}]
    assert main(["run", str(write_file(tmp_path, agents=agents))]) == 2
    assert "the nearest known one is 'grid'" in capsys.readouterr().err


def test_report_works_on_an_unfinished_folder(tmp_path, capsys):
    compare(tmp_path, "--agents", "random", "ucb1")
    next((tmp_path / "blocks").rglob("*.parquet")).unlink()
    assert main(["report", str(tmp_path)]) == 0
    assert "Not complete: 1 of 2 blocks are missing." in capsys.readouterr().out


def test_export_writes_every_row_as_csv(tmp_path):
    compare(tmp_path, "--agents", "random", "ucb1")
    assert main(["export", str(tmp_path), "--csv"]) == 0
    table = pd.read_csv(tmp_path / "results.csv")
    assert len(table) == 2 * 6 * 60
    assert set(table["agent"]) == {"random", "ucb1"}


def test_export_puts_each_agents_diagnostics_under_their_own_header(tmp_path):
    agents = [
        {"agent": "stub_agents:Telling", "tells": {"mood": -1.0}, "label": "A"},
        {"agent": "stub_agents:Telling", "tells": {"age": 3.0}, "label": "B"},
        "random",
    ]
    out = str(tmp_path / "out")
    main(["run", str(write_file(tmp_path, agents=agents)), "--backend", "serial", "--out", out])
    assert main(["export", out, "--csv"]) == 0
    table = pd.read_csv(tmp_path / "out" / "results.csv").query("step == 60").set_index("agent")
    assert table.loc["A", "mood"].eq(-60).all()
    assert table.loc["B", "age"].eq(180).all()
    assert table[["mood", "age"]].isna().to_numpy().sum() == 6 + 6 + 12


def test_output_is_plain_when_not_in_a_terminal(tmp_path):
    command = [sys.executable, "-m", "bandit_gym", "compare", "--agents", "random"]
    options = ["--replications", "2", "--horizon", "5", "--backend", "serial", "--out", tmp_path]
    done = subprocess.run([*command, *map(str, options)], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == "1 blocks, 0 of them stored already\n"
    assert "\x1b" not in done.stdout


def test_a_worker_that_dies_makes_the_exit_code_1_and_leaves_the_others(tmp_path, capsys):
    arguments = ["--agents", "random", "stub_agents:Deadly", "--backend", "loky", "--workers", "2"]
    assert compare(tmp_path, *arguments) == 1
    captured = capsys.readouterr()
    assert "Deadly failed in BernoulliBandit-v0, block 0: WorkerDied" in captured.err
    assert "\nrandom " in captured.out


def test_export_leaves_an_existing_file_as_it_is_when_the_disk_is_full(tmp_path, monkeypatch):
    compare(tmp_path, "--agents", "random")
    (tmp_path / "results.csv").write_text("mine")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    assert main(["export", str(tmp_path), "--csv"]) == 1
    assert (tmp_path / "results.csv").read_text() == "mine"
    assert not list(tmp_path.glob(".*.tmp"))


def test_export_replaces_a_link_in_the_folder_and_writes_through_one_that_is_typed(tmp_path):
    compare(tmp_path, "--agents", "random")
    (tmp_path / "results.csv").symlink_to("/dev/null")
    (tmp_path / "typed.csv").symlink_to("/dev/null")
    assert main(["export", str(tmp_path)]) == 0
    assert main(["export", str(tmp_path), "--csv", str(tmp_path / "typed.csv")]) == 0
    assert not (tmp_path / "results.csv").is_symlink()
    assert (tmp_path / "typed.csv").is_symlink()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["serial", "loky"])
def test_ctrl_c_leaves_a_resumable_folder_and_says_how_to_go_on(tmp_path, backend):
    out = tmp_path / "out"
    file = write_file(tmp_path, agents=["stub_agents:Tired"], replications=100, block_size=2)
    command = [sys.executable, "-m", "bandit_gym", "run", str(file), "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    process = subprocess.Popen(
        [*command, "--backend", backend, "--workers", "2"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # a gate started in the background ignores SIGINT, and so would all its descendants
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not list(out.rglob("receipts/*/*.json")):
        time.sleep(0.05)
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers as well
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"To go on: bandit-gym resume {out}" in error
    assert "Traceback" not in error


def test_fidelity_keeps_what_others_found_and_exits_1(tmp_path, monkeypatch, capsys):
    (tmp_path / "narrow_sampler.py").write_text(
        "def draw(problem, counts, sums, rng, size):\n    return rng.random((size, 2))\n"
    )
    monkeypatch.chdir(tmp_path)
    arguments = ["--agents", "exact", "narrow_sampler:draw", "--only", "Beta(5, 5), 100 pulls"]
    assert main(["fidelity", *arguments, "--workers", "1", "--out", "new"]) == 1
    printed = capsys.readouterr()
    assert "1 of 1" in printed.out and "0 of 1" in printed.out
    assert "'Bernoulli, Beta(5, 5), 100 pulls' must have shape (1000, 10)" in printed.err
    table = pd.read_parquet(tmp_path / "new" / "distances.parquet")
    assert table["status"].tolist() == ["measured", "failed"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--scale", "0"],
        ["--suite", "v9"],
        ["--only", "x?"],
        ["--agents", "nobody"],
        ["--seed", "a"],
    ],
)
def test_fidelity_refuses_bad_input_in_one_line(arguments, capsys, tmp_path):
    assert main(["fidelity", *arguments, "--out", str(tmp_path / "new")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("bandit-gym: error: ") and error.count("\n") == 1
    assert not (tmp_path / "new").exists()
