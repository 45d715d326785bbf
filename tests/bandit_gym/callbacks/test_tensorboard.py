"""What TensorBoard reads of an experiment."""

import subprocess
import sys

import pytest

from bandit_gym.callbacks import TensorBoard, WeightsAndBiases
from bandit_gym.callbacks.tensorboard import LONGEST_NAME, folder_names
from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.results import load_results

SERIAL = Workers("serial")
HOSTILE = "a/b <script> $x$ [/red] مرحبا"
EXPERIMENT = Experiment(
    [{"env": "BernoulliBandit-v0", "label": HOSTILE}],
    ["random", {"agent": "ucb1", "label": HOSTILE}],
    replications=12,
    horizon=15,
    block_size=6,
)


def read(folder):
    """Return tag -> {step: value} as TensorBoard's own reader finds them."""
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = reading.EventAccumulator(str(folder))
    found.Reload()
    tags = found.Tags()["scalars"]
    return {tag: {each.step: each.value for each in found.Scalars(tag)} for tag in tags}


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    pytest.importorskip("tensorboard")
    folder = tmp_path_factory.mktemp("logs")
    run_experiment(
        EXPERIMENT, folder / "results", workers=SERIAL, callbacks=[TensorBoard(folder / "logs")]
    )
    return folder / "logs", load_results(folder / "results")


def test_agents_are_runs_and_worlds_are_groups_whatever_they_are_called(logs):
    folder, _ = logs
    names = sorted(path.name for path in (folder / "1").iterdir())
    assert names == sorted(["random", "a_b _script_ _x_ __red_ مرحبا"])
    for name in names:
        groups = {tag.rpartition("/")[0] for tag in read(folder / "1" / name)}
        assert groups == {HOSTILE, f"{HOSTILE} so far"}


def test_tensorboard_reads_the_curves_that_the_results_have(logs):
    folder, results = logs
    found = read(folder / "1" / "random")
    curve = results.runs[0].curves("pseudo_regret").mean(axis=0)
    assert found[f"{HOSTILE}/pseudo-regret"] == pytest.approx(dict(enumerate(curve, start=1)))
    assert list(found[f"{HOSTILE} so far/pseudo-regret"]) == [6, 12]
    assert {f"{HOSTILE}/pseudo-regret, low", f"{HOSTILE}/pseudo-regret, high"} <= found.keys()


def test_the_next_experiment_gets_the_next_number(tmp_path):
    pytest.importorskip("tensorboard")
    log = TensorBoard(tmp_path / "logs")
    for _ in range(2):
        run_experiment(EXPERIMENT, tmp_path / "results", workers=SERIAL, callbacks=[log])
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["1", "2"]
    curves = [read(tmp_path / "logs" / number / "random") for number in ("1", "2")]
    assert curves[0][f"{HOSTILE}/pseudo-regret"] == curves[1][f"{HOSTILE}/pseudo-regret"]


def test_folders_of_labels_differ_and_fit_every_file_system():
    labels = ["A", "a", "..", "", "é" * 200, "é" * 199 + "x", "CON/..", "a-1"]
    names = folder_names(labels)
    assert len({name.casefold() for name in names}) == len(labels)
    assert all(0 < len(name.encode()) <= LONGEST_NAME + 5 for name in names)
    assert not any(name.startswith(".") or "/" in name for name in names)


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
