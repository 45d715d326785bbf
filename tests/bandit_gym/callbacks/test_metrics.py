"""What loggers are told is what the results say."""

import numpy as np
import pytest

from bandit_gym.callbacks import MetricsCallback
from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.results import load_results, summarise

SERIAL = Workers("serial")


class Listed(MetricsCallback):
    """Keeps what is written in lists."""

    def __init__(self):
        self.so_far, self.curves, self.closed = [], {}, 0

    def write_so_far(self, run, replications, values):
        self.so_far.append((run.agent.label, replications, values))

    def write_curves(self, run, curves):
        self.curves[run.agent.label] = curves

    def close(self):
        self.closed += 1


def make_experiment(agents=("random", "smc"), replications=25):
    return Experiment(
        ["BernoulliBandit-v0"], list(agents), replications=replications, horizon=30, block_size=10
    )


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    directory, log = tmp_path_factory.mktemp("logged"), Listed()
    run_experiment(make_experiment(), directory, workers=SERIAL, callbacks=[log])
    return log, load_results(directory)


def test_curves_end_where_the_table_of_results_does(logged):
    log, results = logged
    for row in summarise(results).itertuples():
        assert log.curves[row.agent][30]["pseudo-regret"] == pytest.approx(row.pseudo_regret)
    last = log.curves["smc"][30]
    assert last["flagged share"] == pytest.approx(row.flagged)
    assert last["samples per decision"] == pytest.approx(row.samples_per_decision)
    assert row.agent == "smc" and row.flagged > 0


def test_curves_are_means_after_every_recorded_step_with_students_interval(logged):
    log, results = logged
    (found, _) = results.runs
    curves = found.curves("pseudo_regret")
    assert list(log.curves["random"]) == found.steps.tolist()
    for step, mean, error in zip(
        found.steps, curves.mean(axis=0), curves.std(axis=0, ddof=1) / 5, strict=True
    ):
        row = log.curves["random"][step]
        assert row["pseudo-regret"] == pytest.approx(mean)
        half = 2.0639 * error  # Student's 97.5 % quantile of 24 degrees of freedom
        assert row["pseudo-regret, low"] == pytest.approx(mean - half, rel=1e-4)
        assert row["pseudo-regret, high"] == pytest.approx(mean + half, rel=1e-4)


def test_what_is_not_known_is_left_out(logged):
    log, _ = logged
    assert "samples per decision" not in log.curves["random"][30]
    assert all(np.isfinite(list(values.values())).all() for _, _, values in log.so_far)


def test_means_so_far_are_over_the_replications_that_are_wanted(logged):
    log, _ = logged
    assert [count for agent, count, _ in log.so_far if agent == "smc"] == [10, 20, 25]
    final = log.curves["smc"][30]
    assert log.so_far[-1][2] == pytest.approx({name: final[name] for name in log.so_far[-1][2]})


def test_log_of_a_run_that_goes_on_begins_with_what_is_stored(tmp_path):
    run_experiment(make_experiment(replications=20), tmp_path, workers=SERIAL)
    log = Listed()
    run_experiment(make_experiment(replications=40), tmp_path, workers=SERIAL, callbacks=[log])
    assert [count for agent, count, _ in log.so_far if agent == "smc"] == [30, 40]
    whole = log.curves["smc"][30]["pseudo-regret"]
    assert log.so_far[-1][2]["pseudo-regret"] == pytest.approx(whole)
    assert log.closed == 1


def test_below_ten_replications_there_are_no_intervals(tmp_path):
    log = Listed()
    run_experiment(make_experiment(replications=9), tmp_path, workers=SERIAL, callbacks=[log])
    assert list(log.curves["smc"][30]) == ["pseudo-regret", "samples per decision", "flagged share"]


def test_runs_that_failed_have_no_curves(tmp_path):
    agents = ["random", "stub_agents:Raising"]
    experiment = Experiment(
        ["BernoulliBandit-v0"], agents, replications=10, horizon=60, block_size=10
    )
    log = Listed()
    run_experiment(experiment, tmp_path, workers=SERIAL, callbacks=[log])
    assert list(log.curves) == ["random"]
    assert [agent for agent, _, _ in log.so_far] == ["random"]
    assert log.closed == 1
