import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from bandit_gym.cli import main
from bandit_gym.experiments import Experiment, load_experiment, run_experiment
from bandit_gym.experiments.manifest import read_manifest
from bandit_gym.experiments.recording import Recorder
from bandit_gym.experiments.simulation import simulate_block
from bandit_gym.results import load_results
from bandit_gym.rollout import Step

MEANS = np.array([[0.2, 0.6], [0.5, 0.1]])  # two lanes, two arms


def make_step(actions, rewards, is_alive=(True, True)):
    actions = np.array(actions)
    regrets = MEANS.max(axis=1) - MEANS[[0, 1], actions]
    diagnostics = {"num_samples": np.array([1, 2])}
    return Step(actions, np.array(rewards), regrets, diagnostics, np.array(is_alive), MEANS)


def record(steps, num_steps):
    recorder = Recorder(np.arange(1, num_steps + 1), num_lanes=2)
    for step in steps:
        recorder.add(step)
    return recorder.finish()


THREE_STEPS = [
    make_step([0, 0], [1.0, 0.0]),
    make_step([0, 1], [0.0, 1.0]),
    make_step([1, 1], [1.0, 1.0]),
]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("action", [[0, 0, 1], [0, 1, 1]]),
        ("action_rank", [[1, 1, 0], [0, 1, 1]]),
        ("reward", [[1, 1, 2], [0, 1, 2]]),
        ("pseudo_regret", [[0.4, 0.8, 0.8], [0.0, 0.4, 0.8]]),
        ("realised_regret", [[-0.4, 0.2, -0.2], [0.5, 0.0, -0.5]]),
        ("uniform_regret", [[0.2, 0.4, 0.6], [0.2, 0.4, 0.6]]),
        ("optimal_pulls", [[0, 0, 1], [1, 1, 1]]),
        ("simple_regret", [[0.4, 0.4, 0.4], [0.0, 0.2, 0.4]]),
        ("best_arm_found", [[0, 0, 0], [1, 0.5, 0]]),
        ("num_samples", [[1, 2, 3], [2, 4, 6]]),
    ],
)
def test_recorder_adds_up_by_hand(column, expected):
    assert record(THREE_STEPS, 3)[column] == pytest.approx(np.array(expected))


def test_recorder_leaves_a_lane_as_it_was_when_its_episode_has_ended():
    steps = [make_step([0, 0], [1.0, 0.0]), make_step([0, 1], [9.0, 1.0], is_alive=(False, True))]
    columns = record(steps, 2)
    assert columns["reward"].tolist() == [[1.0, 1.0], [0.0, 1.0]]
    assert columns["pseudo_regret"][0].tolist() == pytest.approx([0.4, 0.4])
    assert columns["action"].tolist() == [[0, -1], [0, 1]]
    assert columns["realised_regret"][0].tolist() == pytest.approx([-0.4, -0.4])


def test_recorder_repeats_the_last_sums_when_all_episodes_end_early():
    columns = record(THREE_STEPS[:1], 3)
    assert columns["reward"].tolist() == [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    assert columns["action"].tolist() == [[0, -1, -1], [0, -1, -1]]


def test_recorder_repeats_the_last_sums_when_episodes_end_between_recorded_steps():
    recorder = Recorder(np.array([1, 3, 9]), num_lanes=2)
    for step in (THREE_STEPS[0], THREE_STEPS[2]):
        recorder.add(step)
    columns = recorder.finish()
    assert columns["reward"].tolist() == [[1.0, 2.0, 2.0], [0.0, 1.0, 1.0]]
    assert columns["action"].tolist() == [[0, -1, -1], [0, -1, -1]]
    assert columns["simple_regret"][0].tolist() == pytest.approx([0.4, 0.2, 0.2])


def test_recorder_adds_up_many_steps_between_recorded_ones():
    recorder = Recorder(np.array([1, 100]), num_lanes=2)
    for number in range(100):
        is_alive = (True, number < 70)
        recorder.add(make_step([number % 2, 1], [1.0, 1.0 if is_alive[1] else np.nan], is_alive))
    assert recorder.num_decisions == 170
    columns = recorder.finish()
    assert columns["reward"].tolist() == [[1.0, 100.0], [1.0, 70.0]]
    assert columns["pseudo_regret"] == pytest.approx(np.array([[0.4, 20.0], [0.4, 28.0]]))
    assert columns["simple_regret"][:, 1] == pytest.approx([0.2, 0.4])


def test_recorder_counts_decisions_that_are_not_recorded_yet():
    recorder = Recorder(np.array([9]), num_lanes=2)
    for step in THREE_STEPS:
        recorder.add(step)
    assert recorder.num_decisions == 6


def test_recorder_keeps_nothing_between_the_recorded_steps():
    recorder = Recorder(np.array([1, 3]), num_lanes=2)
    for step in THREE_STEPS:
        recorder.add(step)
    assert recorder.finish()["reward"].tolist() == [[1.0, 2.0], [0.0, 2.0]]


def test_recorder_leaves_out_regret_when_the_environment_tells_none():
    step = THREE_STEPS[0]._replace(pseudo_regrets=None, means=None)
    assert record([step], 1).keys() == {"reward", "num_samples", "action"}


@pytest.mark.parametrize("name", ["reward", "step", "replication", "agent", "diagnostics", 5])
def test_recorder_refuses_a_diagnostic_with_the_name_of_a_recorded_column(name):
    step = THREE_STEPS[0]._replace(diagnostics={name: np.zeros(2)})
    with pytest.raises(ValueError, match=f"no names of recorded columns, got {name!r}"):
        record([step], 1)


@pytest.mark.parametrize("value", [-1.0, np.inf, -np.inf])
def test_recorder_refuses_in_declared_diagnostics_what_is_negative_or_infinite(value):
    step = THREE_STEPS[0]._replace(diagnostics={"num_samples": np.array([1.0, value])})
    with pytest.raises(ValueError, match="at least 0 as its 'num_samples', got"):
        record([step], 1)


def test_recorder_takes_any_real_number_in_an_agents_own_diagnostic():
    step = THREE_STEPS[0]._replace(diagnostics={"mood": np.array([-1.5, -np.inf])})
    assert record([step], 1)["mood"].tolist() == [[-1.5], [-np.inf]]


@pytest.mark.parametrize("value", [3.0, np.zeros(3), np.array(["a", "b"]), [None, 1]], ids=str)
def test_recorder_refuses_a_diagnostic_that_is_not_a_real_number_for_each_lane(value):
    step = THREE_STEPS[0]._replace(diagnostics={"mood": value})
    with pytest.raises(ValueError, match=r"real numbers of shape \(2,\) as its 'mood'"):
        record([step], 1)


def test_recorder_refuses_a_diagnostic_that_some_steps_lack():
    first = THREE_STEPS[0]._replace(diagnostics={"mood": np.zeros(2)})
    recorder = Recorder(np.array([2]), num_lanes=2)
    recorder.add(first)
    with pytest.raises(ValueError, match="as its 'mood' at every step"):
        recorder.add(first._replace(diagnostics={}))


SETTINGS = {
    "environments": [{"env": "BernoulliBandit-v0", "num_arms": 3}],
    "agents": ["exact"],
    "replications": 200,
    "horizon": 30,
    "block_size": 200,
}


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """Return the rows of a Thompson run whose propensities were stored."""
    folder = tmp_path_factory.mktemp("logged")
    run_experiment(Experiment.from_dict(SETTINGS | {"propensities": True}), folder)
    frame = load_results(folder).frame()
    rewards = frame.groupby("replication").reward.diff().fillna(frame.reward)
    return frame.assign(paid=rewards)


def test_every_step_has_the_probability_of_its_action(logged):
    assert len(logged) == 200 * 30
    assert logged.propensity.between(0, 1, inclusive="right").all()
    assert (logged.propensity_is_exact == 1).all()
    assert np.allclose(logged.propensity[logged.step == 1], 1 / 3, atol=1e-6)


def test_inverse_propensity_weighting_recovers_the_value_of_another_policy(logged):
    """The other policy plays arm 0 always; under the uniform prior that pays 1 / 2 on average."""
    weights = (logged.action == 0) / logged.propensity
    values = (weights * logged.paid).groupby(logged.replication).mean()
    error = values.std() / np.sqrt(len(values))
    assert abs(values.mean() - 0.5) < 4 * error
    assert logged.paid.mean() - 0.5 > 4 * logged.paid.std() / np.sqrt(len(logged))


def test_recording_propensities_changes_no_other_number(tmp_path):
    frames = []
    for flag in (False, True):
        settings = SETTINGS | {"agents": ["smc"], "replications": 20, "block_size": 20}
        run_experiment(
            Experiment.from_dict(settings | {"propensities": flag}), tmp_path / str(flag)
        )
        frames.append(load_results(tmp_path / str(flag)).frame())
    plain, with_them = frames
    assert set(with_them) - set(plain) == {"propensity", "propensity_is_exact"}
    without = with_them[plain.columns].drop(columns="experiment")
    assert without.equals(plain.drop(columns="experiment"))


def test_every_step_has_its_propensity_however_many_there_are():
    settings = SETTINGS | {"horizon": 1000, "propensities": True}
    assert len(Experiment.from_dict(settings).runs[0].steps) == 1000


def test_name_of_a_run_without_propensities_is_what_it_was():
    plain, with_them = (
        Experiment.from_dict(SETTINGS | {"propensities": flag}).runs[0] for flag in (False, True)
    )
    assert plain.digest == Experiment.from_dict(SETTINGS).runs[0].digest != with_them.digest


def test_approximate_laws_are_stored_as_such(tmp_path):
    command = ["compare", "--agents", "racing", "--replications", "4", "--horizon", "10"]
    assert main([*command, "--propensities", "--backend", "serial", "--out", str(tmp_path)]) == 0
    table = pq.read_table(tmp_path / "blocks").to_pandas()
    assert (table.propensity_is_exact == 0).all() and (table.propensity > 0).all()


def test_file_of_settings_asks_for_propensities(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(SETTINGS | {"propensities": True}))
    assert load_experiment(path).propensities


def test_propensities_that_are_no_truth_value_are_refused():
    with pytest.raises(TypeError, match="propensities must be True or False, got 1"):
        Experiment.from_dict(SETTINGS | {"propensities": 1})


def test_agent_that_cannot_tell_propensities_is_refused_by_name():
    agents = [{"agent": "stub_agents:Constant"}]
    run = Experiment.from_dict(SETTINGS | {"agents": agents, "propensities": True}).runs[0]
    failure = simulate_block(run, 0).failure
    assert "agent must have the method action_probabilities where propensities" in failure


def test_manifest_from_before_propensities_is_read(tmp_path):
    run_experiment(Experiment.from_dict(SETTINGS | {"replications": 1, "block_size": 1}), tmp_path)
    path = tmp_path / "experiment.json"
    content = json.loads(path.read_text())
    del content["experiment"]["propensities"]
    path.write_text(json.dumps(content))
    assert not read_manifest(tmp_path).experiment.propensities
