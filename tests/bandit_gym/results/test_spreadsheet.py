"""Labels are shown as they were written, whatever others would make of them."""

import csv
import io

import numpy as np
import pytest

from bandit_gym.experiments import Experiment, Workers, run_experiment
from bandit_gym.results import load_results, to_csv
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


def test_no_label_is_a_formula_in_a_spreadsheet(results):
    rows = list(csv.DictReader(io.StringIO(to_csv(summarise(results)).decode())))
    quoted = {"=1+1": "'=1+1", "@a $5 and $6": "'@a $5 and $6", "-1": "'-1"}
    assert [row["agent"] for row in rows] == [quoted.get(label, label) for label in LABELS]
    assert all(float(row["cumulative_regret"]) >= 0 for row in rows)


def test_no_column_is_a_formula_in_a_spreadsheet(results):
    table = next(results.frames()).assign(**{"=cmd": 1.0})
    header = to_csv(table).decode().partition("\n")[0]
    assert header.endswith(",'=cmd")


def test_curves_have_the_means_of_the_rows_and_no_interval_of_two_replications(results):
    curves = results.curves("cumulative_regret")
    assert list(curves) == ["environment", "agent", "step", "mean", "low", "high"]
    expected = results.frame().groupby(["agent", "step"], observed=True)["cumulative_regret"].mean()
    found = curves.set_index(["agent", "step"])["mean"]
    assert len(found) == len(expected)
    np.testing.assert_allclose(found[expected.index], expected, rtol=1e-12)
    assert curves["low"].isna().all()
