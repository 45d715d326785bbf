"""TensorBoard is told what the results say, as its own reader finds it."""

import sys

import numpy as np
import pytest
from surface import CUMULATIVE_REGRET, SERIAL, curves_of

from bandit_gym.callbacks import TensorBoard
from bandit_gym.experiments import Experiment, run_experiment

HOSTILE = "a/b <script> $x$ [/red] مرحبا"
ENVIRONMENT = {"env": "BernoulliBandit-v0", "label": HOSTILE}
AGENTS = ["random", {"agent": "smc_paper", "label": "smc"}, {"agent": "ucb1", "label": HOSTILE}]
HORIZON = 30


def experiment_of(replications, agents=AGENTS):
    sizes = {"replications": replications, "horizon": HORIZON, "block_size": 10}
    return Experiment([ENVIRONMENT], agents, **sizes)


def read(folder):
    """Return tag -> {step: value} as TensorBoard's own reader finds them."""
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = reading.EventAccumulator(str(folder))
    found.Reload()
    tags = found.Tags()["scalars"]
    return {tag: {each.step: each.value for each in found.Scalars(tag)} for tag in tags}


def log(experiment, folder):
    """Run an experiment; return name of an agent's folder -> tags, and the results."""
    pytest.importorskip("tensorboard")
    settings = {"workers": SERIAL, "callbacks": [TensorBoard(folder / "logs")]}
    results = run_experiment(experiment, folder / "results", **settings)
    newest = max((folder / "logs").iterdir(), key=lambda path: int(path.name))
    return {path.name: read(path) for path in newest.iterdir()}, results


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    return log(experiment_of(25), tmp_path_factory.mktemp("logged"))


def test_agents_are_runs_and_environments_are_groups_whatever_they_are_called(logged):
    found, _ = logged
    assert sorted(found) == ["0 random", "1 smc", "2 a_b _script_ _x_ __red_ مرحبا"]
    for tags in found.values():
        assert {tag.rpartition("/")[0] for tag in tags} == {HOSTILE, f"{HOSTILE} by block"}


def test_curves_are_means_after_every_step_and_by_block_over_the_replications_wanted(logged):
    found, results = logged
    expected = curves_of(results, "random").mean(axis=0)
    curve = found["0 random"][f"{HOSTILE}/{CUMULATIVE_REGRET}"]
    assert curve == pytest.approx(dict(enumerate(expected, start=1)), rel=1e-6)
    by_block = found["1 smc"][f"{HOSTILE} by block/{CUMULATIVE_REGRET}"]
    assert list(by_block) == [10, 20, 25]
    assert by_block[25] == pytest.approx(curves_of(results, "smc")[20:, -1].mean())


def test_curves_end_where_the_table_of_results_does_and_leave_out_what_is_not_known(logged):
    found, results = logged
    row = results.table().set_index("agent").loc["smc"]
    assert row.flagged > 0
    for name, expected in (
        (CUMULATIVE_REGRET, row.cumulative_regret),
        ("is_unreliable", row.flagged * HORIZON),
        ("num_samples", row.samples_per_decision * HORIZON),
    ):
        assert found["1 smc"][f"{HOSTILE}/{name}"][HORIZON] == pytest.approx(expected)
    assert f"{HOSTILE}/num_samples" not in found["0 random"]
    values = [list(curve.values()) for tags in found.values() for curve in tags.values()]
    assert all(np.isfinite(curve).all() for curve in values)


def test_a_run_that_goes_on_gets_the_next_number_and_curves_of_all_that_is_stored(tmp_path):
    log(experiment_of(20), tmp_path)
    found, results = log(experiment_of(40), tmp_path)
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["1", "2"]
    assert list(found["0 random"][f"{HOSTILE} by block/{CUMULATIVE_REGRET}"]) == [30, 40]
    whole = found["0 random"][f"{HOSTILE}/{CUMULATIVE_REGRET}"][HORIZON]
    assert whole == pytest.approx(curves_of(results, "random").mean(axis=0)[-1])


def test_a_failed_run_has_no_curves(tmp_path):
    agents = ["random", {"agent": "stub_agents:Raising", "at": 2}]
    found, _ = log(experiment_of(9, agents), tmp_path)
    assert [name for name, tags in found.items() if tags] == ["0 random"]


def test_a_file_is_refused_at_once(tmp_path):
    pytest.importorskip("tensorboard")
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match="directory must be a folder"):
        TensorBoard(tmp_path / "file")


def test_a_missing_package_is_named_with_what_installs_it(monkeypatch):
    names = [name for name in sys.modules if name.startswith("tensorboard.")]
    for name in ["tensorboard", *names]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError) as raised:
        TensorBoard("logs")
    expected = 'TensorBoard needs its package: pip install ".[tensorboard]".'
    assert str(raised.value) == expected
