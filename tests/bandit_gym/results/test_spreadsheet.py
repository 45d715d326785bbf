"""Labels are shown as they were written, whatever others would make of them."""

import csv
import io
import warnings

import pytest

from bandit_gym.experiments import Experiment, Workers, run_experiment
from bandit_gym.results import describe, load_results, plots, to_csv
from bandit_gym.results.summary import summarise

LABELS = ["$x_{$", "_hidden", "=1+1", "[/red]<b>", "@a $5 and $6", "-1"]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    agents = [
        {"agent": "ucb1", "scale": float(n), "label": label} for n, label in enumerate(LABELS, 1)
    ]
    experiment = Experiment(
        environments=[{"env": "BernoulliBandit-v0", "label": "_$\\alpha$ <world>"}],
        agents=agents,
        replications=2,
        horizon=3,
        block_size=2,
    )
    folder = tmp_path_factory.mktemp("labels")
    run_experiment(experiment, folder, workers=Workers("serial"))
    return load_results(folder)


def drawn(text):
    """Return what matplotlib draws of a text that it takes for no formula."""
    assert text._preprocess_math(text.get_text())[1] is False
    return text._preprocess_math(text.get_text())[0]


@pytest.mark.parametrize("name", ["regret", "differences", "final-regret", "arm-choice"])
def test_every_picture_shows_every_label_as_it_is(results, name):
    runs = results.usable(results.experiment.environments[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = plots.FIGURES[name](runs)
    texts = figure.legends[0].get_texts()
    if name == "arm-choice":
        texts = [axes.title for axes in figure.axes] + [axes._left_title for axes in figure.axes]
    shown = {drawn(text).removesuffix(" (reference)") for text in texts}
    assert shown >= set(LABELS)
    assert drawn(figure._suptitle) == "_$\\alpha$ <world>"


def test_a_table_in_a_terminal_shows_every_label_as_it_is(results):
    assert all(f"\n{label} " in describe(results) for label in LABELS)


def test_no_label_is_a_formula_in_a_spreadsheet(results):
    rows = list(csv.DictReader(io.StringIO(to_csv(summarise(results)).decode())))
    quoted = {"=1+1": "'=1+1", "@a $5 and $6": "'@a $5 and $6", "-1": "'-1"}
    assert [row["agent"] for row in rows] == [quoted.get(label, label) for label in LABELS]
    assert all(float(row["pseudo_regret"]) >= 0 for row in rows)


def test_no_column_is_a_formula_in_a_spreadsheet(results):
    table = next(results.frames()).assign(**{"=cmd": 1.0})
    header = to_csv(table).decode().partition("\n")[0]
    assert header.endswith(",'=cmd")
