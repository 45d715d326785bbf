"""The comparison script, on one small world."""

import csv
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")
import compare_sb3
import torch
from matplotlib.figure import Figure
from sb3_comparison import learning, training
from sb3_comparison.features import ScaledCounts
from sb3_comparison.labels import SPACING, End, label_ends
from sb3_comparison.learning_report import bounds
from sb3_comparison.settings import FROZEN, FULL, LEARNS, QUICK, World, worlds

from agents.optimum.expected_regret import expected_reward
from agents.sb3 import SB3Agent
from bandit_gym.experiments.execution import Workers

MODEL = training.Training(
    algorithm="PPO",
    policy="MlpPolicy",
    observation="counts",
    num_envs=4,
    num_steps=64,
    seed=0,
    options={"n_steps": 16, "batch_size": 32, "learning_rate": 1e-3},
    deterministic=True,
)
VARIANTS = {
    "one": replace(MODEL, is_scaled=True),
    "cut off": replace(MODEL, ends_at_horizon=False),
}
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
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "NUM_EPISODES", 100)
        curves = [learning.learn(label, one, range(2), folder) for label, one in VARIANTS.items()]
    compare_sb3.compare([WORLD], curves, folder, title="A title", workers=Workers("serial"))
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
    assert "| cut off | 2 | 64 |" in page
    for name in ("regret", "training"):
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_comparison_does_nothing_twice(folder, monkeypatch):
    def fail(*args):
        raise AssertionError("trained or played again")

    monkeypatch.setattr(training, "_train", fail)
    monkeypatch.setattr("bandit_gym.experiments.execution.simulate_block", fail)
    monkeypatch.setattr(learning, "make_model", fail)
    curves = [learning.learn(label, one, range(2), folder) for label, one in VARIANTS.items()]
    compare_sb3.compare([WORLD], curves, folder, title="A title", workers=Workers("serial"))


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


def test_training_is_compared_with_what_is_known_exactly():
    known = {label: round(value, 4) for label, value in bounds().items()}
    assert known == {"random play": 10.0, "exact Thompson": 12.5489, "best possible": 13.4658}


def test_return_of_a_policy_is_the_exact_one():
    world, model = learning.SHORT, training.make_model(learning.SHORT, MODEL)
    agent = SB3Agent(model)

    def rule(counts, sums):
        agent.reset(num_envs=len(counts), seed=0)
        means = np.where(counts > 0, sums / np.maximum(counts, 1), 0.5)
        left = 1 - counts.sum(axis=1, keepdims=True) / world.horizon
        shown = np.concatenate([counts / world.horizon, means, left], axis=1)
        law = agent.action_probabilities(shown.astype(np.float32)).astype(float)
        return law / law.sum(axis=1, keepdims=True)

    exact = expected_reward(learning.make_problem(), rule, world.horizon)
    # A regret is at most 20 ranges of three uniform means, whose squares are 0.3 on average.
    error = world.horizon * 0.3**0.5 / learning.NUM_EPISODES**0.5
    assert learning.mean_return(model) == pytest.approx(exact, abs=4 * error)


def test_scaled_counts_are_posterior_means_precisions_and_the_time_left():
    space = training.make_world(learning.SHORT, "counts", 1).single_observation_space
    counts = torch.tensor([[0.1, 0.4, 0.0, 0.5, 0.75, 0.5, 0.5]])  # 1 of 2, 6 of 8, none of none
    expected = [4 * 2 / 4 - 2, 4 * 7 / 10 - 2, 0, 2 / 3**0.5 - 1, 2 / 3 - 1, 1, 0]
    assert ScaledCounts(space, 20)(counts)[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_labels_at_the_ends_of_curves_keep_their_order_and_distance():
    axes = Figure().subplots()
    axes.set_ylim(0, 10)
    label_ends(axes, {"b": End(5.01, "k"), "a": End(5.0, "k"), "far": End(99, "k")})
    places = {text.get_text(): text.get_position()[1] for text in axes.texts}
    assert places == pytest.approx({"a": 0.5, "b": 0.5 + SPACING, "far": 1.0})
