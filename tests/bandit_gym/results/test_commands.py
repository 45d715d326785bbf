import pytest
from fixed_instance import BEST, FIXED, WORST

from bandit_gym.cli import main
from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of 12 replications: `worst` loses 7, `best` nothing, and of 3, `few`."""
    folder = tmp_path_factory.mktemp("folders")
    agents = {name: {**agent, "label": "mine"} for name, agent in (("best", BEST),)}
    agents["worst"] = agents["few"] = {"agent": WORST, "label": "mine"}
    for name, agent in agents.items():
        experiment = Experiment(
            [FIXED], [agent], replications=3 if name == "few" else 12, horizon=10
        )
        run_experiment(experiment, folder / name, workers=Workers("serial"))
    return folder


@pytest.mark.parametrize(
    ("first", "second", "options", "code"),
    [
        ("worst", "best", [], 0),
        ("worst", "best", ["--fail-on-difference"], 1),
        ("best", "best", ["--fail-on-difference"], 0),
        ("few", "few", ["--fail-on-difference"], 0),  # not one replication differs
        ("few", "best", ["--fail-on-difference"], 2),  # too few to tell
        ("best", "nothing", [], 2),
    ],
)
def test_diff_tells_differences_by_its_exit_code_if_asked(folders, first, second, options, code):
    assert main(["diff", str(folders / first), str(folders / second), *options]) == code


def test_diff_prints_a_table_with_an_interval(folders, capsys):
    main(["diff", str(folders / "worst"), str(folders / "best")])
    (line,) = (each for each in capsys.readouterr().out.splitlines() if each.startswith("mine"))
    assert line.split() == "mine 7.0 0.0 -7.0 ± 0.0 <0.001 better".split()


def test_report_writes_what_is_asked_for(folders, tmp_path):
    options = ["--format", "pdf", "--style", "paper", "--latex"]
    assert main(["report", str(folders / "best"), "--out", str(tmp_path / "new"), *options]) == 0
    names = {path.name for path in (tmp_path / "new").iterdir()}
    assert {"tables.tex", "summary.csv", "00-regret.pdf"} <= names
    assert not any(name.endswith((".png", ".svg")) for name in names)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--format=gif", "format must be one of 'png', 'svg', 'pdf', got 'gif'"),
        ("--style=", "style must be one of 'screen', 'paper', got ''"),
    ],
)
def test_report_refuses_looks_that_it_does_not_know(folders, tmp_path, capsys, option, text):
    assert main(["report", str(folders / "best"), "--out", str(tmp_path / "new"), option]) == 2
    told = capsys.readouterr()
    assert text in told.err and not told.out and not (tmp_path / "new").exists()


def test_html_report_is_one_file(folders, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("bandit_gym.results.html.page._library", lambda: "")
    out = str(tmp_path / "new")
    assert main(["report", str(folders / "best"), "--html", "--out", out]) == 0
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["report.html"]
    assert "report.html" in capsys.readouterr().out


def test_html_report_stands_alone(folders, capsys):
    assert main(["report", str(folders / "best"), "--html", "--latex"]) == 2
    assert "--html must stand without --format, --style and --latex" in capsys.readouterr().err


def test_report_of_an_empty_and_of_a_foreign_folder_says_so(tmp_path, capsys):
    assert main(["report", str(tmp_path), "--html"]) == 2
    assert "the folder must hold an experiment, got" in capsys.readouterr().err
    for name in ("mine.txt", "a", "b"):
        (tmp_path / name).touch()
    assert main(["report", str(tmp_path), "--html"]) == 2
    text = (
        "the folder must hold an experiment or nothing, got '{}', with 'a', 'b', 'mine.txt' in it;"
    )
    assert text.format(tmp_path) in capsys.readouterr().err
    (tmp_path / "c").touch()
    assert main(["report", str(tmp_path)]) == 2
    assert "with 'a', 'b', 'c', ... in it;" in capsys.readouterr().err
    assert len(list(tmp_path.iterdir())) == 4
