"""The command `bandit-gym`: what each of its parts prints, whose code it runs, and how it ends."""

import io
import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import gymnasium
import pandas as pd
import pytest
from surface import SERIAL, files_of, run_and_watch

from agents import AGENTS, GROUPS
from bandit_gym import ENV_IDS, Workers, __version__, load_results, run_experiment
from bandit_gym.cli import main
from bandit_gym.experiments import Experiment, load_experiment
from bandit_gym.experiments.store import Store
from bandit_gym.likelihoods import LIKELIHOODS
from bandit_gym.priors import PRIORS
from bandit_gym.results import plots

pytestmark = pytest.mark.usefixtures("undrawn")
ENV = "BernoulliBandit-v0"
SAVE_FIGURES = plots.save_figures
ROOT = Path(__file__).parents[2]
SIZES = ["--replications", "4", "--horizon", "5", "--backend", "serial"]


def compare(out, *arguments):
    return main(["compare", *SIZES, "--out", str(out), *arguments])


# -- How they end -------------------------------------------------------------------------------


BAD_CALLS = [
    ("list agent", "the nearest known one is 'agents'"),
    ("compare --agents :delta=1", "agent must"),
    ("compare --env-options {num_arms:3}", "--env-options must be JSON"),
    ("compare --env-options [3]", "--env-options must be a dict, got [3]"),
    ('compare --env-options {"env":"Mine-v0"}', "--env-options must have no key 'env'"),
    ("compare --workers 0", "num_workers must be a positive integer, got 0"),
    ("compare --backend darsk", "the nearest known one is 'dask'"),
    ("compare --scheduler host:1", "scheduler must be None for the backend 'loky'"),
    ("compare --out thesis.tex/out", "thesis.tex"),
    ("compare --out .", "it has no experiment.json"),
    ("run nothing.toml", "nothing.toml"),
    ("run thesis.tex", "must lead to valid TOML"),
    ("resume nothing", "the folder must exist"),
    *((f"compare --agents exact:{x}", "option once") for x in ("window=9,window=8", "agent=x")),
    ('compare --agents exact:prior={"name":"beta","name":"normal"}', "'name' must stand once"),
    ("compare --out=", "out must be a path, as a string or a Path, got ''"),
    ("report empty", "must hold an experiment, got 'empty'"),
    ("fidelity --agents nobody", "agent must be"),
]


def test_a_bad_call_is_one_sentence_and_exits_2(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "thesis.tex").write_text("chapter one")
    (tmp_path / "empty").mkdir()
    for command, message in BAD_CALLS:
        assert main(command.split()) == 2, command
        told = capsys.readouterr()
        assert message in told.err and told.out == "", command
        assert told.err.startswith("bandit-gym: error: ") and told.err.count("\n") == 1
        assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "thesis.tex"], command


def test_a_module_that_fails_is_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for code in ("def (", "raise RuntimeError('no')", "import sys; sys.exit(7)"):
        (tmp_path / "cannot_be_imported.py").write_text(code)
        for command in ("compare", "fidelity"):
            assert main([command, "--agents", "exact", "cannot_be_imported:Agent"]) == 2, code
            error = capsys.readouterr().err
            assert "agent must be importable, got 'cannot_be_imported:Agent'" in error
            assert error.count("\n") == 1


def test_an_error_is_raised_when_its_traceback_is_asked_for():
    with pytest.raises(ValueError, match="horizon must be a positive integer"):
        main(["--traceback", "compare", "--horizon", "0"])


UNTAKEN = [
    (["compare", "--horizon=1.5"], "argument --horizon: invalid int value: '1.5'; see "),
    (["report", "out", "--format=gif"], "argument --format: invalid choice: 'gif' (choose from "),
    ([], "the following arguments are required: command;"),
]


def test_what_no_option_takes_is_one_sentence_and_a_command_is_needed(capsys):
    for arguments, text in UNTAKEN:
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
        told = capsys.readouterr()
        assert told.err.startswith(f"bandit-gym: error: {text}") and not told.out
        assert told.err.endswith(" --help.\n") and told.err.count("\n") == 1
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert (caught.value.code, capsys.readouterr().out) == (0, f"bandit-gym {__version__}\n")


def test_a_scheduler_that_does_not_answer_is_one_sentence(tmp_path, monkeypatch, capsys):
    pytest.importorskip("distributed")
    monkeypatch.setattr("bandit_gym.experiments.execution.SCHEDULER_TIMEOUT", 0.1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        own = ["--agents", "stub_agents:Constant"]  # which no process of ours does
        options = ["--backend", "dask", "--scheduler", address]
        assert main(["compare", *own, *options, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"scheduler must be reachable, got '{address}'" in error


# -- What they print ----------------------------------------------------------------------------


LISTED = {"environments": ENV_IDS, "agents": AGENTS, "priors": PRIORS, "likelihoods": LIKELIHOODS}


def test_list_has_each_name_with_its_summary_and_options(capsys):
    main(["list"])
    text = capsys.readouterr().out
    for kind, names in LISTED.items():
        main(["list", kind])
        part = capsys.readouterr().out
        heading, *parts = part.strip().split("\n\n")
        assert heading == kind.upper() and part.strip() in text
        listed = [each for each in parts if not each.startswith("-- ")]
        assert [each.partition(":")[0] for each in listed] == [*names]
        for each in listed:
            options = [line for line in each.splitlines() if line.startswith("    ")]
            summary = each.splitlines()[: -len(options)]
            assert summary[-1].endswith(".") and all(line[4] != " " for line in options)
            assert all(len(line) <= 100 for line in each.splitlines())
    assert "random:" in text and "    no options" in text
    assert all(f"-- {group} --" in text for group in GROUPS)


def test_compare_says_how_far_it_is_and_where_everything_is(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(plots, "save_figures", SAVE_FIGURES)
    assert compare(tmp_path, "--agents", "random", "--env-options", '{"num_arms": 3}') == 0
    told = capsys.readouterr()
    assert told.err == "1 blocks, 0 of them stored already, 1 to simulate\n"
    assert f"{ENV}(num_arms=3)" in told.out and "\x1b" not in told.out
    picture = tmp_path / "report" / "00-regret.png"
    assert f"Regret over time: {picture}" in told.out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"bandit-gym report {tmp_path}" in told.out
    assert compare(tmp_path, "--agents", "random", "--env-options", '{"num_arms": 3}') == 0
    assert capsys.readouterr().err == "1 blocks, 1 of them stored already, 0 to simulate\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_damage_and_failures_are_told_at_once_and_leave_other_agents(tmp_path, monkeypatch, capsys):
    options = ["--agents", "random", 'stub_agents:Raising:label="[/x]"', "--horizon", "60"]
    assert compare(tmp_path, *options) == 1
    told = capsys.readouterr()
    assert "Traceback" not in told.err
    assert "Left out: [/x]" in told.out and "\nrandom " in told.out
    block = next((tmp_path / "blocks").rglob("*.parquet"))
    start = "2 blocks, 0 of them stored already, 2 to simulate; damaged and computed again:"
    for stream in (io.StringIO, Terminal):
        block.write_bytes(b"")
        monkeypatch.setattr("sys.stderr", stream())
        assert compare(tmp_path, *options) == 1
        text = " ".join(sys.stderr.getvalue().split())  # a terminal may break the line
        assert f"{start} {block.parent.name}/00000" in text
        assert "[/x] failed in click rates, block 0: RuntimeError: I have had enough" in text
    assert main(["report", str(tmp_path)]) == 1


def test_run_fills_a_folder_named_by_content_and_no_trust_is_needed_to_go_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    experiments = [Experiment([ENV], ["random"], replications=4, horizon=5, seed=n) for n in (0, 1)]
    for experiment in (experiments[0], *experiments):
        (tmp_path / "experiment.json").write_text(json.dumps(experiment.to_dict()))
        assert main(["run", "experiment.json", "--backend", "serial"]) == 0
    paths = [tmp_path / "results" / f"experiment-{each.name}" for each in experiments]
    assert {*(tmp_path / "results").iterdir()} == {*paths}
    assert main(["resume", str(paths[0]), "--backend", "serial"]) == 0


def test_compare_stores_propensities_of_decisions_by_values_costs_and_told_priors(tmp_path, capsys):
    prior = {"name": "truncated_normal", "mean": 0.2, "std": 0.1}
    env = ["--env-options", json.dumps({"num_arms": 3, "prior": prior})]
    prices = ["--values", *"123", "--costs", *["-0.5"] * 3, "--floor", "0.05", "--optimal"]
    told = 'exact:discount=0.9,prior={"name":"beta","alpha":5,"beta":5}'
    agents = ["--agents", "exact", "racing", told]
    assert compare(tmp_path, *agents, *env, *prices, "--propensities") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "exact(discount=0.9), given beta(5, 5)" in printed
    assert "Rewards and means are those of values * reward - costs." in printed
    assert "unknown; it is for rewards without values and costs." in printed
    table = pd.read_parquet(tmp_path / "blocks")
    assert (table["propensity"] >= 0.05).all() and (table["propensity_is_exact"] == 1).all()


# -- In processes of their own ------------------------------------------------------------------


def in_python(code, folder):
    """Run code in a process of its own in a folder, and return how it ended."""
    arguments = [sys.executable, "-P", "-c", f"import sys; from bandit_gym.cli import main; {code}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.nightly
def test_a_command_loads_nothing_that_it_does_not_use(tmp_path):
    """Nor what those before it in the same process would have loaded."""
    heavy = ["matplotlib", "scipy.stats", "scipy.optimize", "torch", "joblib"]
    small = "compare --agents random ucb1 --replications 2 --horizon 5 --out out"
    reading = {"export out": ["numba", *heavy], "list": heavy}
    for commands in ({small: ["numba", "torch"]}, reading):
        told = "print(main(command.split()), {*unused} & {*sys.modules})"
        done = in_python(f"\nfor command, unused in {commands}.items(): {told}", tmp_path)
        assert done.stdout.splitlines().count("0 set()") == len(commands), done


def test_an_agent_of_a_finite_horizon_is_compiled_as_well(capsys):
    assert main(["compile", "--agents", "finite_horizon_gittins", "random"]) == 0
    assert "random in click rates: " in capsys.readouterr().out


@pytest.mark.nightly
def test_a_reader_that_leaves_ends_the_command_quietly():
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "bandit_gym", "list"]
    found = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (found.returncode, found.stderr) == (141, "")


# -- Whose code runs ----------------------------------------------------------------------------

MINE = """
from pathlib import Path
from agents import UniformRandom as Agent
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem
from bandit_gym.envs import BanditEnv, BanditVectorEnv
from gymnasium import register

ARM = 0  # the arm
PROBLEM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
Path(__file__).with_name("trace").write_text("imported")

class Mine(Agent):
    def _choose(self):
        import numpy as np
        return np.full(self.num_lanes, ARM)

register(
    "Mine-v0",
    entry_point=lambda **options: BanditEnv(PROBLEM, **options),
    vector_entry_point=lambda **options: BanditVectorEnv(problem=PROBLEM, **options),
    max_episode_steps=9,
)
"""
SETTINGS = {
    "environments": [{"env": "mine:Mine-v0", "means": [0.1, 0.5]}],
    "agents": ["random", "mine:Mine"],
    "replications": 2,
    "horizon": 9,
}


@pytest.fixture
def home(tmp_path):
    """A user's project, with a module, and a file of settings beside it."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "mine.py").write_text(MINE)
    (project / "study.json").write_text(json.dumps(SETTINGS))
    yield tmp_path
    unload_user_module()


def unload_user_module():
    """Forget the user's modules, as a new process begins."""
    for name in ("mine", "kit", "kit.tools", "kit.deep", "laws", "shifted"):
        sys.modules.pop(name, None)
    gymnasium.registry.pop("Mine-v0", None)


@pytest.fixture
def call(home, monkeypatch, capsys):
    """Run a command in a folder; return its exit code, errors, and what was imported.

    The last is what holds `mine.py`, as seen from the home.
    """

    def run(*arguments, cwd="project"):
        (home / cwd).mkdir(exist_ok=True)
        monkeypatch.chdir(home / cwd)
        unload_user_module()
        code = main([*map(str, arguments)])
        traces = list(home.rglob("trace"))
        for trace in traces:
            trace.unlink()
        return code, capsys.readouterr().err, {str(t.parent.relative_to(home)) for t in traces}

    return run


def test_run_finds_modules_beside_the_file_first(home, call):
    (home / "elsewhere").mkdir()
    (home / "elsewhere" / "mine.py").write_text(MINE)
    command = ["run", home / "project" / "study.json", "--backend", "serial"]
    assert call(*command, cwd="elsewhere")[::2] == (0, {"project"})


def test_compare_finds_modules_in_the_current_folder_only(call):
    arguments = ["compare", "--agents", "mine:Mine", *SIZES]
    assert call(*arguments)[::2] == (0, {"project"})
    code, error, imported = call(*arguments, cwd="elsewhere")
    assert (code, imported) == (2, set())
    assert "agent must be importable, got 'mine:Mine'" in error


@pytest.fixture
def out(home):
    """Results of the project, run in this process, which is faster."""
    command = ["run", str(home / "project" / "study.json"), "--backend", "serial"]
    assert main([*command, "--out", str(home / "out")]) == 0
    (home / "project" / "trace").unlink()
    return home / "out"


def test_resume_of_somebody_elses_folder_lists_its_code_and_needs_trust(home, out, call):
    out.rename(home / "sent")
    next((home / "sent" / "blocks").rglob("*.parquet")).unlink()
    resume = ["resume", home / "sent", "--backend", "serial"]
    code, error, imported = call(*resume)
    assert (code, imported) == (2, set())
    path = home / "project" / "mine.py"
    assert f"it names mine:Mine-v0 ({path}); mine:Mine ({path}); read it" in error
    assert "repeat with --trust" in error and error.count("\n") == 1
    assert call(*resume, "--trust")[::2] == (0, {"project"})


OWN = ["compare", "--env", "mine:Mine-v0", "--agents", "random", "mine:Mine", "--horizon", "9"]
OWN += ["--replications", "100"]  # two blocks an agent


@pytest.mark.parametrize(
    ("command", "cwd"),
    [(OWN, "project"), (["run", "../project/study.json"], "elsewhere")],
    ids=["module here", "module beside the file"],
)
def test_how_to_go_on_works_as_it_is_printed(home, call, monkeypatch, command, cwd):
    """Ctrl-C at the second block, in a folder with a space, where older code has been at work."""
    settings = SETTINGS | {"replications": 4, "block_size": 2}
    (home / "project" / "study.json").write_text(json.dumps(settings))
    command = [*command, "--out", home / "my results", "--backend", "serial"]
    assert call(*command, cwd=cwd)[0] == 0
    (home / "project" / "mine.py").write_text(MINE.replace("ARM = 0", "ARM = 1"))
    with monkeypatch.context() as patch:
        store, stored = Store.write, []

        def interrupt(*block):
            if stored:
                raise KeyboardInterrupt
            stored.append(store(*block))

        patch.setattr(Store, "write", interrupt)
        code, error, _ = call(*command, cwd=cwd)
    assert code == 130
    assert "stored already, 4 to simulate; 4 of other code are kept" in error
    line = error.splitlines()[-1].partition("To go on: ")[2]
    program, *printed = shlex.split(line)
    assert program == "bandit-gym"
    code, error, _ = call(*printed, cwd=cwd)
    assert (code, "4 blocks, 1 of them stored already" in error) == (0, True), error


def test_all_that_options_name_is_code_that_needs_trust(tmp_path, capsys):
    """Priors, likelihoods, wrappers and saved models, however deep; nothing is imported."""
    mixture = {"name": "mixture", "components": ["laws:Prior"], "weights": [1]}
    world = {"target": f"bandit_gym:{ENV}", "label": "world"}
    agent = {"target": "agents:ExactThompson", "options": {"prior": mixture}, "label": "exact"}
    model = {"target": "agents.sb3:saved_model", "options": {"path": "model.zip"}, "label": "model"}
    named = {"likelihood": "laws:Likelihood", "wrappers": [{"name": "laws:Wrapper"}]}
    run_experiment(Experiment([ENV], ["random"], replications=1, horizon=1), tmp_path)
    path = tmp_path / "experiment.json"
    content = json.loads(path.read_text())
    environments = [world | {"options": named}]
    content["experiment"] |= {"environments": environments, "agents": [agent, model]}
    path.write_text(json.dumps(content))
    assert main(["resume", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    for text in ("laws:Likelihood", "laws:Wrapper", "laws:Prior"):
        assert text in error
    assert "saved model model.zip" in error and error.count("\n") == 1


@pytest.mark.nightly
def test_reading_imports_nothing_from_the_current_folder(home, out):
    """The folder of results names `mine` too, and nothing of that name is imported."""
    for name in ("agents", "numpy", "mine"):
        (home / "project" / name).mkdir()
        (home / "project" / name / "__init__.py").write_text(MINE)
    done = in_python("sys.exit(main(['list']) or main(['export', '../out']))", home / "project")
    assert (done.returncode, done.stderr, list(home.rglob("trace"))) == (0, "", [])


def test_other_agents_that_python_finds_first_are_named_and_not_run(tmp_path, monkeypatch, capsys):
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "__init__.py").write_text("raise SystemError('this is run')")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["list", "agents"]) == 2
    assert f"got '{tmp_path}/agents/__init__.py'" in capsys.readouterr().err


@pytest.mark.nightly
def test_workers_start_without_the_current_folder(home):
    """`python -m joblib...` would take the random.py that lies there."""
    (home / "project" / "random.py").write_text("raise SystemError('this is run')")
    own = ["compare", "--agents", "random", "mine:Mine", "--replications", "2", "--horizon", "9"]
    done = in_python(f"sys.exit(main({[*own, '--workers', '1']}))", home / "project")
    assert (done.returncode, "this is run" in done.stderr) == (0, False), done.stderr


# -- Code that has changed ----------------------------------------------------------------------


@pytest.fixture
def project(home, monkeypatch):
    """The folder of the project, from which Python imports, and its experiment."""
    folder = home / "project"
    (folder / "study.json").write_text(json.dumps(SETTINGS | {"replications": 4, "block_size": 2}))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # whose age is told in whole seconds
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # in workers
    return folder


def actions_of_mine(project):
    frame = load_results(project / "out").frame()
    return frame[frame["agent"] == "Mine"]["action"]


OWN_FILES = {
    "kit/__init__.py": "",
    "kit/deep.py": "SHIFT = 0\n",
    "kit/tools.py": "from .deep import SHIFT\n",
    "laws.py": "from bandit_gym.priors import Beta\nPRIOR = Beta(1.0, 1.0)\n",
    "model.json": "0",
    "shifted.py": """
from kit.tools import SHIFT
from stub_agents import Constant

class Shifted(Constant):
    def act(self, observation=None):
        return super().act(observation) + SHIFT
""",
}


@pytest.mark.parametrize(
    ("name", "old", "new", "again"),
    [
        ("kit/deep.py", "0", "1", ["Shifted"] * 2),
        ("model.json", "0", "1", ["moody"] * 2),
        ("laws.py", "(1.0", "(9.0", ["random", "Shifted", "moody"]),
    ],
)
def test_only_what_depends_on_a_changed_file_is_drawn_again(project, name, old, new, again):
    """One agent imports a package, one names a file, and one world names a prior.

    What was drawn before stays, and counts again when the file is as it was.
    """
    (project / "kit").mkdir()
    for file, text in OWN_FILES.items():
        (project / file).write_text(text)
    worlds = [ENV, {"env": ENV, "prior": "laws:PRIOR", "label": "own"}]
    moody = {"agent": "stub_agents:Moody", "folder": str(project / "model.json"), "label": "moody"}
    sizes = {"replications": 2, "horizon": 5}
    experiment = Experiment(worlds, ["random", "shifted:Shifted", moody], **sizes)
    run_experiment(experiment, project / "out", workers=SERIAL)
    assert run_and_watch(experiment, project / "out").done == []
    before, text = files_of(project / "out"), (project / name).read_text()
    (project / name).write_text(text.replace(old, new))
    unload_user_module()
    watched = run_and_watch(experiment, project / "out")
    assert [agent for agent, _ in watched.done] == again
    fresh = run_experiment(experiment, project / "fresh", workers=SERIAL)
    assert files_of(project / "out") == before | files_of(project / "fresh")
    found = load_results(project / "out")
    assert found.num_kept == len(again) and found.frame().equals(fresh.frame())
    (project / name).write_text(text)
    unload_user_module()
    assert run_and_watch(experiment, project / "out").done == []


def test_what_code_of_today_does_not_draw_is_in_no_table(project):
    """Of two agents in one module, edited since, one raises now, or the run stops before it."""
    both = MINE + "\nclass Other(Mine):\n    pass\n"
    raises = "\n    def _choose(self):\n        raise ValueError('boom')\n"
    (project / "mine.py").write_text(both)
    experiment = Experiment([ENV], ["mine:Mine", "mine:Other"], replications=2, horizon=5)
    run_experiment(experiment, project / "out", workers=SERIAL)
    (project / "mine.py").write_text(both.replace("\n    pass", raises))
    unload_user_module()

    def stop(progress):
        if progress.num_done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, project / "out", workers=SERIAL, on_progress=stop)
    found = load_results(project / "out")
    assert (found.num_missing, found.num_kept, set(found.frame()["agent"])) == (1, 2, {"Mine"})
    found = run_experiment(experiment, project / "out", workers=SERIAL)
    assert [run.run.agent.label for run in found.failed] == ["Other"]
    assert set(found.frame()["agent"]) == {"Mine"}
    (project / "mine.py").write_text(both)
    unload_user_module()
    assert not run_experiment(experiment, project / "out", workers=SERIAL).failed


@pytest.mark.parametrize(
    "workers",
    [SERIAL, pytest.param(Workers("loky", 1), marks=pytest.mark.nightly)],
    ids=lambda w: w.backend,
)
def test_a_module_edited_since_its_import_is_refused_until_python_starts_again(project, workers):
    """Neither is the old one run and told as the new one, nor is the new one imported."""
    experiment = load_experiment(project / "study.json")
    run_and_watch(experiment, project / "out", workers)
    loaded = sys.modules["mine"]
    (project / "mine.py").write_text(MINE.replace("ARM = 0", "ARM = 1"))
    for call in (run_experiment, lambda *_, **__: load_experiment(project / "study.json")):
        with pytest.raises(ValueError, match="mine must be as .* imported it, .*; restart Python"):
            call(experiment, project / "out", workers=workers)
    out = ["--out", str(project / "out"), "--backend", "serial"]
    assert main(["run", str(project / "study.json"), *out]) == 2
    assert sys.modules["mine"] is loaded and set(actions_of_mine(project)) == {0}
    unload_user_module()
    run_and_watch(experiment, project / "out", workers)
    assert set(actions_of_mine(project)) == {1}


def test_a_column_that_is_asked_for_is_in_the_printed_table(tmp_path, capsys):
    """An agent that plays arm 1 once more after arm 0 has changed it last in step 2."""
    out = str(tmp_path / "out")
    agent = "stub_agents:Scripted:arms=[0, 1, 1, 1]"
    sizes = ["--agents", agent, "--replications", "10", "--horizon", "4", "--backend", "serial"]
    assert main(["compare", *sizes, "--out", out]) == 0
    assert "last switch" not in capsys.readouterr().out
    commands = (["compare", *sizes, "--out", out], ["resume", out, "--trust"], ["report", out])
    for command in commands:
        assert main([*command, "--columns", "last_switch"]) == 0
        lines = capsys.readouterr().out.splitlines()
        (at,) = (k for k, line in enumerate(lines) if "last switch" in line)
        assert " 2.0 ± 0.0" in lines[at + 1]
    assert main(["report", out, "--columns", "last_swich"]) == 2
    assert "columns must be one of" in capsys.readouterr().err
    new = tmp_path / "new"  # nothing is simulated before
    assert main(["compare", *sizes, "--out", str(new), "--columns", "last_swich"]) == 2
    assert not new.exists()


def test_the_least_regret_is_told_where_it_is_asked_for(tmp_path, capsys):
    """0.9021 of two uniform arms and 20 pulls: section 6.9 of the design, another recursion."""
    small = ["compare", "--agents", "random", "--replications", "2", "--horizon", "20"]
    options = ["--env-options", '{"num_arms": 2}', "--out", str(tmp_path / "out")]
    assert main([*small, *options]) == 0
    assert "Least" not in capsys.readouterr().out
    assert main([*small, *options, "--optimal"]) == 0
    told = capsys.readouterr().out.splitlines()[-1]
    assert told == "Least possible regret in BernoulliBandit-v0(num_arms=2): 0.90"


# -- Elsewhere and in part -------------------------------------------------------------------------


ELSEWHERE = """
import os, signal, sys
sys.modules["resource"] = sys.modules["fcntl"] = None
for module, names in ((os, ("sched_getaffinity", "fork")), (signal, ("SIGKILL", "SIGHUP"))):
    for name in names:
        delattr(module, name)
from bandit_gym.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.nightly
def test_a_comparison_needs_nothing_that_only_linux_has(tmp_path):
    command = ["compare", *SIZES, "--agents", "racing", "exact", "--out", "out"]
    arguments = [sys.executable, "-c", ELSEWHERE, *command]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "less racing's" in done.stdout
