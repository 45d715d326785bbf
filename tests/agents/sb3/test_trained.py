"""Frozen SB3 models as agents."""

import base64
import json
import pickle
import zipfile
from importlib import import_module
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import InvalidAction, ResetNeeded
from refusals import check_refusals
from sb3_models import ALGORITHMS, NUM_ARMS, global_random_state, make_vec, train

from bandit_gym import run_experiment
from bandit_gym.experiments.execution import Workers
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.wrappers import deliver

pytestmark = pytest.mark.nightly
every_algorithm = pytest.mark.parametrize("name", ALGORITHMS)


@pytest.fixture(scope="module")
def models():
    shown = dict.fromkeys(ALGORITHMS, "counts") | {"RecurrentPPO": "history"}
    return {name: train(name, observation=shown[name]) for name in ALGORITHMS}


def observations(model, num_steps, num_lanes=2):
    rng = np.random.default_rng(5)
    shape = (num_steps, num_lanes, *model.observation_space.shape)
    return rng.random(shape, dtype=np.float32)


def actions_of(agent, stream):
    """Let the agent answer a stream of observations."""
    played = []
    for observation in stream:
        played.append(agent.act(observation))
        agent.observe(played[-1], np.zeros(len(observation)))
    return np.array(played)


@every_algorithm
def test_sb3_agent_plays_what_the_model_predicts(sb3, models, name):
    model = models[name]
    stream = observations(model, 6)
    agent = sb3.SB3Agent(model, deterministic=True)
    agent.reset(num_envs=2, seed=0)
    expected, state, starts = [], None, np.ones(2, dtype=bool)
    for observation in stream:
        action, state = model.predict(observation, state, starts, deterministic=True)
        starts = np.zeros(2, dtype=bool)
        expected.append(action)
    np.testing.assert_array_equal(actions_of(agent, stream), expected)


@every_algorithm
def test_sb3_agent_goes_on_when_pickled_and_plays_the_same_from_a_file(sb3, models, name, tmp_path):
    models[name].save(tmp_path / "model")
    stream = observations(models[name], 20)
    agents = sb3.SB3Agent(models[name]), sb3.SB3Agent.load(tmp_path / "model")
    for agent in agents:
        agent.reset(num_envs=2, seed=3)
    np.testing.assert_array_equal(*(actions_of(agent, stream[:5]) for agent in agents))
    copies = *agents, pickle.loads(pickle.dumps(agents[0]))
    expected, *found = (actions_of(agent, stream[5:]) for agent in copies)
    assert all((actions == expected).all() for actions in found)


@every_algorithm
def test_sb3_agent_depends_on_its_seed_alone(sb3, models, name):
    agent = sb3.SB3Agent(models[name])
    agent.exploration_rate = 0.5 if name == "DQN" else 0.0
    stream = observations(models[name], 20)
    agent.reset(num_envs=2, seed=3)
    first = actions_of(agent, stream)
    import_module("torch").manual_seed(77)
    agent.reset(num_envs=2, seed=3)
    np.testing.assert_array_equal(first, actions_of(agent, stream))
    agent.reset(num_envs=2, seed=4)
    assert (first != actions_of(agent, stream)).any()


@pytest.fixture
def recurrent(sb3, models):
    """An agent with a memory, which has seen nothing, and eight observations."""
    agent = sb3.SB3Agent(models["RecurrentPPO"], deterministic=True)
    agent.reset(num_envs=2, seed=0)
    return agent, observations(models["RecurrentPPO"], 8)


def test_sb3_agent_act_changes_nothing_when_it_is_recurrent(recurrent):
    agent, stream = recurrent
    actions_of(agent, stream)
    memory = agent._memory
    agent.reset(num_envs=2, seed=0)
    for observation in stream:
        agent.act(observation[::-1])
        agent.act(observation)
        agent.observe(np.zeros(2, int), np.zeros(2))
    np.testing.assert_array_equal(agent._memory, memory)


def test_sb3_agent_forgets_the_lanes_that_are_reset_only(recurrent):
    agent, stream = recurrent
    actions_of(agent, stream[:5])
    agent.reset_lanes(np.array([True, False]))
    actions_of(agent, stream[5:])
    memory = agent._memory[0]
    agent.reset(num_envs=2, seed=0)
    actions_of(agent, stream[5:])
    assert np.allclose(memory[:, 0], agent._memory[0][:, 0], atol=1e-6)
    assert not np.allclose(memory[:, 1], agent._memory[0][:, 1], atol=1e-6)


def test_sb3_agent_forgets_what_an_act_before_the_reset_would_have_left(recurrent):
    agent, stream = recurrent
    actions_of(agent, stream[:5])
    agent.act(stream[5])
    agent.reset_lanes(np.array([True, False]))
    agent.observe(np.zeros(2, int), np.zeros(2))
    assert not agent._memory[0][:, 0].any() and agent._memory[0][:, 1].any()


def test_sb3_agent_keeps_the_memory_of_masked_lanes(recurrent):
    agent, stream = recurrent
    actions_of(agent, stream[:1])
    before = agent._memory[0].copy()
    agent.act(stream[1])
    agent.observe(np.array([0, -5]), np.array([0.0, np.nan]), mask=np.array([True, False]))
    np.testing.assert_array_equal(agent._memory[0][:, 1], before[:, 1])
    assert (agent._memory[0][:, 0] != before[:, 0]).any()


@pytest.mark.parametrize("num_envs", [None, 2])
def test_sb3_agent_remembers_steps_in_which_no_reward_arrives(recurrent, num_envs):
    (agent, stream), memories = recurrent, []
    for is_late in (False, True):
        agent.reset(num_envs, seed=0)
        for observation in stream if num_envs else stream[:, 0]:
            action = agent.act(observation)
            blank = np.full((num_envs or 1, 1), -1)[slice(None) if num_envs else 0]
            late = {"feedback_step": blank, "feedback_action": blank, "feedback_reward": blank + 1}
            if is_late:
                deliver(agent, late)
            else:
                agent.observe(action, action * 0.0)
        memories.append(agent._memory)
    np.testing.assert_array_equal(*memories)


@pytest.mark.parametrize("is_deterministic", [False, True])
@every_algorithm
def test_trained_models_act_as_often_as_their_law_says(sb3, name, is_deterministic):
    num_lanes = 300
    agent = sb3.SB3Agent(train(name), deterministic=is_deterministic)
    agent.exploration_rate *= 6.0  # of DQN, so that it shows
    env = make_vec(num_envs=num_lanes)
    observation, _ = env.reset(seed=0)
    agent.reset(num_lanes, seed=1)
    agent.observe(agent.act(observation), np.zeros(num_lanes))  # a recurrent one remembers
    before = agent._rng.bit_generator.state, global_random_state()
    law = agent.action_probabilities(observation)
    assert (agent._rng.bit_generator.state, global_random_state()) == before
    np.testing.assert_allclose(law.sum(axis=1), 1.0, atol=1e-12)
    if name == "DQN" and not is_deterministic:  # .3 of its actions are uniform
        np.testing.assert_allclose(law.max(axis=1), 1 - 0.3 * (1 - 1 / NUM_ARMS))
    played = np.eye(NUM_ARMS)[agent.act(observation)]
    assert global_random_state() == before[1]
    error = 4 * np.sqrt((law * (1 - law)).sum(axis=0)) + 1e-5 * num_lanes  # of single precision
    assert (abs((played - law).sum(axis=0)) <= error).all()
    actions, propensities, probabilities = agent.decide(observation, floor=0.05)
    assert (propensities == probabilities[np.arange(num_lanes), actions]).all()
    assert probabilities.min() >= 0.05 and np.allclose(probabilities.sum(axis=1), 1.0)


def test_check_spaces_names_the_space_that_does_not_fit(sb3, models):
    agent = sb3.SB3Agent(models["PPO"])
    fitting = make_vec(observation="counts")
    agent.check_spaces(fitting)
    agent.check_spaces(sb3.GymnasiumVecEnv(fitting))
    env = gym.make("bandit_gym:BernoulliBandit-v0", num_arms=5)
    env.observation_space = models["PPO"].observation_space
    with pytest.raises(ValueError, match=r"env must have the action space .* got Discrete\(5\)"):
        agent.check_spaces(env)


SHAPED = "observation must be (2, 7) finite numbers"
UNMASKED = "available must be left out for SB3Agent, which"
BAD_CALLS = [
    *(
        ("act", (np.full((2, 7), number),), {}, ValueError, SHAPED)
        for number in (np.nan, np.inf, -0.1, 1.1)
    ),
    *(("act", (x,), {}, ValueError, SHAPED) for x in (None, 0, np.zeros((2, 5)), np.zeros((3, 7)))),
    *(
        (method, (np.zeros((2, 7)),), {"available": [True] * NUM_ARMS}, TypeError, UNMASKED)
        for method in ("act", "action_probabilities", "decide")
    ),
    ("observe", (np.array([0, NUM_ARMS]), np.zeros(2)), {}, InvalidAction, "from 0 to 2, got 3"),
    ("load", ("",), {}, ValueError, "path must be a path, as a string or a Path, got ''"),
    ("load", ("no/model",), {}, FileNotFoundError, "path must lead to a file "),
]


def test_sb3_agent_refuses_bad_calls_in_a_sentence(sb3, models):
    agent = sb3.SB3Agent(models["PPO"])
    with pytest.raises(ResetNeeded, match=r"call SB3Agent.reset\(\)"):
        agent.act(np.zeros((2, 7)))
    agent.reset(num_envs=2, seed=0)
    check_refusals(lambda method, given, more: getattr(agent, method)(*given, **more), BAD_CALLS)


def test_sb3_agent_refuses_what_is_no_model_that_it_can_be(sb3, models):
    ppo = import_module("stable_baselines3").PPO
    rows = [
        ("model.zip", {}, "model must be a Stable-Baselines3 model, got 'model.zip'"),
        (models["PPO"], {"deterministic": "no"}, "deterministic must be a bool, got 'no'"),
        (ppo("MlpPolicy", "Pendulum-v1", device="cpu"), {}, "space must be a Discrete, got Box"),
    ]
    check_refusals(lambda model, options: sb3.SB3Agent(model, **options), rows)


def test_a_file_that_is_no_model_or_of_other_arms_is_refused(sb3, models, tmp_path):
    path, other = tmp_path / "model.zip", tmp_path / "other.zip"
    models["PPO"].save(path)
    with pytest.raises(ValueError, match="path must lead to a model whose action space has 5 arms"):
        sb3.saved_model(make_vec(num_arms=5).problem, path=path)
    with zipfile.ZipFile(other, "w") as file:
        file.writestr("notes.txt", "hello")
    for content in (b"hello", b"", other.read_bytes(), path.read_bytes()[:3000]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"path must lead to a file that `save` of a Stable"):
            sb3.SB3Agent.load(path)


class Planted:
    """What makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def plant(model, path, settings, *, without=()):
    """Save a model with a `Planted` in place of some of its settings, and leave members out."""
    model.save(path)
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist() if name not in without}
    data = json.loads(members["data"])
    for name in settings:
        pickled = base64.b64encode(pickle.dumps(Planted(path.with_suffix(".ran")))).decode()
        data[name] = {**(data[name] or {}), ":serialized:": pickled}
    members["data"] = json.dumps(data)
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)


def test_saved_model_unpickles_what_makes_the_policy(sb3, models, tmp_path):
    plant(models["PPO"], tmp_path / "model.zip", ["policy_class"])
    with pytest.raises(ValueError, match="path must lead to a file"):
        sb3.saved_model(make_vec().problem, path=tmp_path / "model.zip")
    assert (tmp_path / "model.ran").exists()


def test_saved_model_unpickles_nothing_without_weights_or_that_is_not_needed(sb3, models, tmp_path):
    path = tmp_path / "model.zip"
    plant(models["PPO"], path, ["policy_class"], without=["policy.pth"])
    with pytest.raises(ValueError, match=r"no item named .policy\.pth"):
        sb3.saved_model(make_vec().problem, path=path)
    plant(models["PPO"], path, ["lr_schedule", "clip_range", "action_noise"])
    sb3.saved_model(make_vec().problem, path=path)
    assert not (tmp_path / "model.ran").exists()


def test_saved_model_runs_in_experiments_and_is_refused_one_of_other_observations(models, tmp_path):
    models["PPO"].save(tmp_path / "model")
    world = {"env": "BernoulliBandit-v0", "num_arms": NUM_ARMS}
    agents = ["random", {"agent": "agents.sb3:saved_model", "path": str(tmp_path / "model")}]
    sizes = {"replications": 4, "horizon": 5, "block_size": 2}
    out, workers = tmp_path / "results", Workers("serial")
    with pytest.raises(ValueError, match="env must have the observation space that the model was"):
        run_experiment(Experiment([world], agents, **sizes), out, workers=workers)
    assert not out.exists()
    counting = Experiment([world | {"observation": "counts"}], agents, **sizes)
    results = run_experiment(counting, out, workers=workers)
    assert not results.failed and not results.num_missing
