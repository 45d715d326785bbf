"""What Weights & Biases is given."""

import sys
from types import SimpleNamespace

import pytest
from surface import REGRET_CHART, curves_of, run_and_load

from bandit_gym.callbacks import WeightsAndBiases
from bandit_gym.experiments import Experiment, Workers

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


def test_runs_are_offline_unless_asked_otherwise_and_have_the_curves_of_the_results(
    tmp_path, monkeypatch
):
    logs = []

    def init(**settings):
        logs.append(Log(**settings))
        return logs[-1]

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    callbacks = [WeightsAndBiases(), WeightsAndBiases("mine", mode="online", group="g")]
    serial = Workers("serial")
    results = run_and_load(EXPERIMENT, tmp_path, workers=serial, callbacks=callbacks)
    first, second = (log.settings for log in logs)
    assert (first["project"], first["mode"]) == ("bandit-gym", "offline")
    assert Experiment.from_dict(first["config"]) == EXPERIMENT
    assert (second["project"], second["mode"], second["group"]) == ("mine", "online", "g")
    assert [log.finished for log in logs] == [1, 1]
    assert logs[0].axes == {"curves/*": "step", "so far/*": "replications"}
    key = f"curves/BernoulliBandit-v0/ucb1/{REGRET_CHART}"
    curve = dict(enumerate(curves_of(results, "ucb1").mean(axis=0), start=1))
    found = {row["step"]: row[key] for row in logs[0].rows if key in row}
    assert found == pytest.approx(curve)
    key = f"so far/BernoulliBandit-v0/ucb1/{REGRET_CHART}"
    assert [row["replications"] for row in logs[0].rows if key in row] == [6, 12]
