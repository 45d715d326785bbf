import numpy as np
import pytest

from bandit_gym.experiments.recording import Recorder
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
