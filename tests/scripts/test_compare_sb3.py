"""The comparison script, on one small world."""

import csv
from dataclasses import replace

import pytest

pytest.importorskip("stable_baselines3")
import compare_sb3
from sb3_comparison import training
from sb3_comparison.settings import FROZEN, FULL, LEARNS, QUICK, World, worlds

from bandit_gym.experiments.execution import Workers

MODEL = training.Training(
    algorithm="PPO",
    policy="MlpPolicy",
    observation="counts",
    num_envs=4,
    num_steps=64,
    seed=0,
    options={"n_steps": 16, "batch_size": 32},
    deterministic=True,
)
WORLD = World(
    title="A small world",
    env="BernoulliBandit-v0",
    env_options={"num_arms": 3},
    horizon=10,
    replications=12,
    block_size=6,
    trainings=(MODEL,),
    learners=({"agent": "exact", "label": "exact TS"}, {"agent": "random", "label": "random"}),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    compare_sb3.compare([WORLD], folder, title="A title", workers=Workers("serial"))
    return folder


def rows(folder):
    with open(folder / "table.csv", newline="", encoding="utf-8") as file:
        return {row["agent"]: row for row in csv.DictReader(file)}


def test_comparison_says_of_every_agent_which_kind_it_is(folder):
    kinds = {label: row["kind"] for label, row in rows(folder).items()}
    assert kinds == {
        "exact TS": LEARNS,
        "random": "does not learn",
        "PPO on counts": FROZEN,
    }


def test_comparison_plays_the_same_instances_in_every_observation_mode(folder):
    from bandit_gym.results.results import load_results

    results = [load_results(path) for path in (folder / "data").iterdir()]
    uniform = [run.final("uniform_regret").tolist() for r in results for run in r.runs]
    assert len(uniform) == 3
    assert all(values == uniform[0] for values in uniform)


def test_comparison_pairs_differences_with_the_first_learner(folder):
    table = rows(folder)
    for row in table.values():
        difference = float(row["regret"]) - float(table["exact TS"]["regret"])
        assert float(row["difference"]) == pytest.approx(difference, abs=1e-9)


def test_comparison_writes_a_page_and_a_picture(folder):
    page = (folder / "report.md").read_text(encoding="utf-8")
    assert page.startswith("# A title\n")
    assert f"| PPO on counts | {FROZEN} |" in page
    assert (folder / "regret.png").read_bytes().startswith(b"\x89PNG")


def test_comparison_does_nothing_twice(folder, monkeypatch):
    def fail(*args):
        raise AssertionError("trained or played again")

    monkeypatch.setattr(training, "_train", fail)
    monkeypatch.setattr("bandit_gym.experiments.execution.simulate_block", fail)
    compare_sb3.compare([WORLD], folder, title="A title", workers=Workers("serial"))


def test_training_is_done_again_when_its_record_is_missing(tmp_path):
    first = training.train_once(WORLD, MODEL, tmp_path)
    record = first.path.with_suffix(".json")
    record.unlink()
    training.train_once(WORLD, MODEL, tmp_path)
    assert record.exists()


def test_training_is_named_by_what_shapes_the_weights():
    name = training.digest(WORLD, MODEL)
    assert training.digest(replace(WORLD, title="a"), replace(MODEL, deterministic=False)) == name
    assert training.digest(WORLD, replace(MODEL, seed=1)) != name
    assert training.digest(WORLD, replace(MODEL, options={"n_steps": 8})) != name
    assert training.digest(replace(WORLD, horizon=9), MODEL) != name


@pytest.mark.parametrize("size", [QUICK, FULL])
def test_every_model_of_the_settings_can_be_built(size):
    trainings = [(world, one) for world in worlds(size, seed=0) for one in world.trainings]
    assert len({training.digest(*each) for each in trainings}) == 6
    for world, one in trainings:
        model = training.make_model(world, one)
        assert model.n_envs == one.num_envs
