"""What Weights & Biases is given, offline, by the real package where it is installed."""

import types

import pytest

from bandit_gym.callbacks import WeightsAndBiases
from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.results import load_results

SERIAL = Workers("serial")
EXPERIMENT = Experiment(
    ["BernoulliBandit-v0"], ["random", "ucb1"], replications=12, horizon=15, block_size=6
)


class Log:
    """Stands for a run of wandb's, and keeps what it is given."""

    def __init__(self, **settings):
        self.settings, self.rows, self.axes, self.finished = settings, [], {}, 0

    def define_metric(self, name, step_metric):
        self.axes[name] = step_metric

    def log(self, row):
        self.rows.append(row)

    def finish(self):
        self.finished += 1


@pytest.fixture
def logs(monkeypatch):
    made = []
    init = lambda **settings: made.append(Log(**settings)) or made[-1]  # noqa: E731
    monkeypatch.setitem(__import__("sys").modules, "wandb", types.SimpleNamespace(init=init))
    return made


def test_run_is_offline_and_told_the_experiment_unless_asked_otherwise(tmp_path, logs):
    callbacks = [WeightsAndBiases(), WeightsAndBiases("mine", mode="online", group="g")]
    run_experiment(EXPERIMENT, tmp_path, workers=SERIAL, callbacks=callbacks)
    first, second = (log.settings for log in logs)
    assert (first["project"], first["mode"]) == ("bandit-gym", "offline")
    assert Experiment.from_dict(first["config"]) == EXPERIMENT
    assert (second["project"], second["mode"], second["group"]) == ("mine", "online", "g")
    assert [log.finished for log in logs] == [1, 1]


def test_rows_have_the_curves_of_the_results_on_axes_of_their_own(tmp_path, logs):
    run_experiment(EXPERIMENT, tmp_path, workers=SERIAL, callbacks=[WeightsAndBiases()])
    (log,) = logs
    assert log.axes == {"curves/*": "step", "so far/*": "replications"}
    key = "curves/BernoulliBandit-v0/ucb1/pseudo-regret"
    curve = load_results(tmp_path).runs[1].curves("pseudo_regret").mean(axis=0)
    assert {row["step"]: row[key] for row in log.rows if key in row} == pytest.approx(
        dict(enumerate(curve, start=1))
    )
    key = "so far/BernoulliBandit-v0/ucb1/pseudo-regret"
    assert [row["replications"] for row in log.rows if key in row] == [6, 12]


def test_service_that_is_away_costs_the_log_alone(tmp_path, logs, monkeypatch):
    log = WeightsAndBiases()

    def fail(**settings):
        raise ConnectionError("nobody answers")

    monkeypatch.setattr(log, "_init", fail)
    with pytest.warns(RuntimeWarning, match="WeightsAndBiases raised ConnectionError: nobody"):
        run_experiment(EXPERIMENT, tmp_path, workers=SERIAL, callbacks=[log])
    assert load_results(tmp_path).num_missing == 0


def test_real_package_writes_a_run_offline(tmp_path):
    pytest.importorskip("wandb")
    log = WeightsAndBiases(dir=str(tmp_path))
    run_experiment(EXPERIMENT, tmp_path / "results", workers=SERIAL, callbacks=[log])
    assert len(list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))) == 1
