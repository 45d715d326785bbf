"""What loggers are told is what the results say, as TensorBoard's own reader finds it."""

import subprocess
import sys

import numpy as np
import pytest
from surface import REGRET_CHART, curves_of, run_and_load, summary_of

from bandit_gym.callbacks import TensorBoard, WeightsAndBiases
from bandit_gym.experiments import Experiment, Workers

SERIAL = Workers("serial")
HOSTILE = "a/b <script> $x$ [/red] مرحبا"
WORLD = {"env": "BernoulliBandit-v0", "label": HOSTILE}
AGENTS = ["random", "smc", {"agent": "ucb1", "label": HOSTILE}]


def experiment_of(replications, agents=AGENTS, horizon=30):
    return Experiment([WORLD], agents, replications=replications, horizon=horizon, block_size=10)


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
    told = {"workers": SERIAL, "callbacks": [TensorBoard(folder / "logs")]}
    results = run_and_load(experiment, folder / "results", **told)
    newest = max((folder / "logs").iterdir(), key=lambda path: int(path.name))
    return {path.name: read(path) for path in newest.iterdir()}, results


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    return log(experiment_of(25), tmp_path_factory.mktemp("logged"))


def test_agents_are_runs_and_worlds_are_groups_whatever_they_are_called(logged):
    found, _ = logged
    assert sorted(found) == sorted(["random", "smc", "a_b _script_ _x_ __red_ مرحبا"])
    for tags in found.values():
        groups = {tag.rpartition("/")[0] for tag in tags}
        assert groups == {HOSTILE, f"{HOSTILE} so far"}


def test_curves_are_means_after_every_step_with_students_interval(logged):
    found, results = logged
    curves = curves_of(results, "random")
    mean, error = curves.mean(axis=0), curves.std(axis=0, ddof=1) / 5
    half = 2.0639 * error  # Student's 97.5 % quantile of 24 degrees of freedom
    for name, expected in (("", mean), (", low", mean - half), (", high", mean + half)):
        curve = found["random"][f"{HOSTILE}/{REGRET_CHART}{name}"]
        assert curve == pytest.approx(dict(enumerate(expected, start=1)), rel=1e-4)


def test_curves_end_where_the_table_of_results_does_and_leave_out_what_is_not_known(logged):
    found, results = logged
    row = summary_of(results, "smc")
    assert row.flagged > 0
    for name, expected in (
        (REGRET_CHART, row.pseudo_regret),
        ("flagged share", row.flagged),
        ("samples per decision", row.samples_per_decision),
    ):
        assert found["smc"][f"{HOSTILE}/{name}"][30] == pytest.approx(expected)
    assert f"{HOSTILE}/samples per decision" not in found["random"]
    values = [list(curve.values()) for tags in found.values() for curve in tags.values()]
    assert all(np.isfinite(curve).all() for curve in values)


def test_means_so_far_are_over_the_replications_that_are_wanted(logged):
    so_far = logged[0]["smc"][f"{HOSTILE} so far/{REGRET_CHART}"]
    assert list(so_far) == [10, 20, 25]
    assert so_far[25] == pytest.approx(logged[0]["smc"][f"{HOSTILE}/{REGRET_CHART}"][30])


def test_a_run_that_goes_on_gets_the_next_number_and_begins_with_what_is_stored(tmp_path):
    log(experiment_of(20), tmp_path)
    found, results = log(experiment_of(40), tmp_path)
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["1", "2"]
    assert list(found["random"][f"{HOSTILE} so far/{REGRET_CHART}"]) == [30, 40]
    whole = found["random"][f"{HOSTILE}/{REGRET_CHART}"][30]
    assert whole == pytest.approx(curves_of(results, "random").mean(axis=0)[-1])


def test_below_ten_replications_there_are_no_intervals_and_of_a_failed_run_no_curves(tmp_path):
    agents = ["random", "stub_agents:Raising"]
    found, _ = log(experiment_of(9, agents, horizon=60), tmp_path)
    assert f"{HOSTILE}/{REGRET_CHART}" in found["random"]
    assert not any(tag.endswith((", low", ", high")) for tag in found["random"])
    assert [name for name, tags in found.items() if tags] == ["random"]


def test_folders_of_labels_differ_and_fit_every_file_system(tmp_path):
    labels = ["A", "a", "..", "é" * 200, "é" * 199 + "x", "CON/..", "a-1"]
    agents = [
        {"agent": "stub_agents:Constant", "arm": arm, "label": label}
        for arm, label in enumerate(labels)
    ]
    found, _ = log(experiment_of(2, agents, horizon=2), tmp_path)
    assert len({name.casefold() for name in found}) == len(labels)
    assert all(0 < len(name.encode()) <= 255 for name in found)
    assert not any(name.startswith(".") for name in found)


def test_folder_that_cannot_be_is_refused_at_once(tmp_path):
    pytest.importorskip("tensorboard")
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match="directory must be a folder"):
        TensorBoard(tmp_path / "file")


@pytest.mark.parametrize(
    ("make", "package", "remedy"),
    [
        (lambda: TensorBoard("logs"), "tensorboard", '"bayesian-bandit-gym[tensorboard]"'),
        (lambda: WeightsAndBiases(), "wandb", "wandb"),
    ],
    ids=["tensorboard", "wandb"],
)
def test_missing_package_is_named_with_what_installs_it(monkeypatch, make, package, remedy):
    for name in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError) as raised:
        make()
    assert str(raised.value).endswith(f"needs its package: pip install {remedy}.")


def test_packages_of_loggers_are_imported_by_use_alone():
    script = """
import sys
from bandit_gym.callbacks import MetricsCallback, TensorBoard, WeightsAndBiases
print([name for name in ("tensorboard", "wandb", "torch", "tensorflow") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
