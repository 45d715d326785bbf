import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from stub_agents import Constant

from bandit_gym.experiments import simulation
from bandit_gym.experiments.experiment import Experiment, recorded_steps
from bandit_gym.experiments.recording import CHUNK, Recorder
from bandit_gym.rollout import Step

FACTS = {
    "process",
    "host",
    "versions",
    "results_version",
    "agent_seconds",
    "decisions",
    "lai_robbins_slope",
    "misbelief",
    "seconds",
}


def make_run(agent="random", horizon=7, **options):
    experiment = Experiment(
        environments=[{"env": "BernoulliBandit-v0", "num_arms": 3, **options}],
        agents=[agent],
        horizon=horizon,
        block_size=4,
    )
    return experiment.runs[0]


def test_a_block_tells_how_it_came_about():
    outcome = simulation.simulate_block(make_run(), 2)
    assert (outcome.block, outcome.failure, set(outcome.facts)) == (2, None, FACTS)
    assert outcome.facts["decisions"] == 4 * 7
    assert 0 < outcome.facts["agent_seconds"] < outcome.facts["seconds"]
    assert {"python", "numpy", "gymnasium"} <= set(outcome.facts["versions"])


def test_a_worker_loads_nothing_that_tables_and_figures_need():
    code = "import sys; from bandit_gym import Experiment\n"
    code += "from bandit_gym.experiments.simulation import simulate_block\n"
    code += "(run,) = Experiment(['BernoulliBandit-v0'], ['random'], horizon=3).runs\n"
    code += (
        "print(simulate_block(run, 0).failure, {'pandas', 'matplotlib', 'scipy.stats', 'joblib'}"
    )
    code += " & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "None set()", done.stderr


def test_a_failure_begins_with_one_line_of_what_went_wrong():
    outcome = simulation.simulate_block(make_run("stub_agents:Raising", horizon=60), 0)
    headline, blank, trace, *_ = outcome.failure.splitlines()
    assert (headline, blank) == ("RuntimeError: I have had enough", "")
    assert trace.startswith("Traceback")
    assert outcome.data is None
    assert "seconds" not in outcome.facts


def test_blocks_differ_and_each_is_the_same_again():
    run = make_run()
    blocks = [simulation.simulate_block(run, block).data for block in (0, 1, 0)]
    assert blocks[0] == blocks[2] != blocks[1]


@pytest.mark.parametrize(("horizon", "played"), [(7, 7), (100, 30)])
def test_at_most_thirty_steps_are_played_to_warm_up(horizon, played, monkeypatch):
    counts = []

    class Counting(Constant):
        def act(self, observation=None):
            counts.append(1)
            return super().act(observation)

    name = f"Counting{horizon}"  # found classes are remembered
    monkeypatch.setattr(f"stub_agents.{name}", Counting, raising=False)
    run = make_run(f"stub_agents:{name}", horizon)
    simulation.simulate_block(run, 0)
    assert len(counts) == played + horizon
    simulation.simulate_block(run, 1)
    assert len(counts) == played + 2 * horizon  # the second block is warm


def test_log_steps_are_as_evenly_spaced_as_whole_numbers_are():
    """From where two of the 200 differ by more than one, each is the geometric one, rounded."""
    steps = recorded_steps(10_000, "log")
    spaced = np.exp(np.linspace(0, np.log(10_000), 200))
    assert set(steps) == set(np.rint(spaced).astype(int))


def test_log_steps_leave_none_out_up_to_two_hundred():
    assert recorded_steps(200, "log").tolist() == list(range(1, 201))
    assert len(recorded_steps(201, "log")) < 200


def test_sums_are_the_same_however_many_steps_are_put_aside(monkeypatch):
    rng = np.random.default_rng(0)
    alive = np.arange(3 * CHUNK)[:, None] < [3 * CHUNK, CHUNK + 5]
    rewards = rng.integers(9, size=(3 * CHUNK, 2)).astype(float)
    recorder = Recorder(np.array([1, CHUNK, CHUNK + 1, 3 * CHUNK]), num_lanes=2)
    counts = []
    for is_alive, reward in zip(alive, rewards, strict=True):
        recorder.add(Step(np.array([0, 1]), reward, None, {}, is_alive, None))
        counts.append(recorder.num_decisions)
    expected = np.cumsum(np.where(alive, rewards, 0), axis=0)[[0, CHUNK - 1, CHUNK, -1]].T
    assert recorder.finish()["reward"].tolist() == expected.tolist()
    assert counts == np.cumsum(alive.sum(axis=1)).tolist()


LATE = [
    {"name": "Drift", "probability": 0.2},
    {"name": "AvailableArms", "leaving": 0.3},
    {"name": "DelayedReward", "delay": {"name": "uniform", "low": 0, "high": 3}},
]


def test_blocks_under_wrappers_are_the_same_again():
    run = make_run({"agent": "exact", "discount": 0.9}, wrappers=LATE)
    blocks = [simulation.simulate_block(run, block) for block in (0, 1, 0)]
    assert blocks[0].failure is None and blocks[0].data == blocks[2].data != blocks[1].data
    assert run.digest != make_run({"agent": "exact", "discount": 0.9}).digest


def test_where_means_move_nothing_is_said_that_needs_those_of_an_episode():
    agent, env = simulation.build(run := make_run("exact", wrappers=LATE))
    recorder = Recorder(run.steps, run.block_size)
    for step in simulation._episodes(run, 0, agent, env):
        recorder.add(step)
    found = recorder.finish()
    assert "realised_regret" not in found and (found["pseudo_regret"] >= 0).all()


def test_bad_wrappers_are_told_before_anything_is_run():
    run = make_run("exact", wrappers=[{"name": "Drift"}])
    assert simulation.try_run(run).startswith("ValueError: std, period and probability must be a")
    with pytest.raises(ValueError, match="nearest known one is 'Drift'"):
        make_run("exact", wrappers=[{"name": "Drif"}])


def test_propensities_are_those_among_the_arms_that_were_there():
    """Uniform play has 1 / (number of these) for each; with 3 arms that is 1, 1 / 2 or 1 / 3."""
    run = make_run("random", wrappers=[LATE[1]])
    run = dataclasses.replace(run, propensities=True)
    agent, env = simulation.build(run)
    told = np.array([step.propensities for step in simulation._episodes(run, 0, agent, env)])
    assert {*np.round(told.ravel(), 6)} <= {1.0, 0.5, 0.333333} and (told > 0.4).any()


@pytest.mark.parametrize(
    ("options", "expected"), [({}, 7), ({"horizon": 9}, 9)], ids=["told by the run", "by its entry"]
)
@pytest.mark.parametrize("name", ["optimal", "finite_horizon_gittins", "moss"])
def test_agent_that_takes_a_horizon_is_told_that_of_the_run(
    name, options, expected, tmp_path, monkeypatch
):
    monkeypatch.setenv("BANDIT_GYM_CACHE", str(tmp_path))
    world = {"env": "BernoulliBandit-v0", "num_arms": 2}
    (run,) = Experiment([world], [{"agent": name, **options}], replications=1, horizon=7).runs
    assert simulation.build(run)[0].horizon == expected


def test_an_agent_that_cannot_hold_a_block_is_refused_before_it_plays():
    assert simulation.try_run(make_run({"agent": "smc", "num_particles": 10**6})) == ""
    told = simulation.try_run(make_run({"agent": "smc", "num_particles": [1, 10**7, 10**7]}))
    assert told == ""  # 3 arms and 4 lanes
    (run,) = Experiment(["BernoulliBandit-v0"], [{"agent": "smc", "num_particles": 10**7}]).runs
    told = simulation.try_run(run)
    assert told.startswith("ValueError: block_size must be at most 5, for all that")
