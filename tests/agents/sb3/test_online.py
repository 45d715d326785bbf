"""SB3 learners that train inside the instance."""

import pickle

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")
import torch
from sb3_models import global_random_state, make_vec
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import BaseCallback

from agents import ExactThompson
from agents.sb3 import OnlineSB3
from bandit_gym.envs.families import bernoulli
from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.rollout import rollout

MEANS = [0.1, 0.5, 0.9]
PROBLEM = make_vec().problem


class Diary(BaseCallback):
    """Writes down what `learn` does."""

    def __init__(self):
        super().__init__()
        self.steps = []

    def _on_step(self):
        self.steps.append((int(self.locals["actions"][0]), float(self.locals["rewards"][0])))
        return True


def play(agent, num_steps, *, num_lanes=2, seed=0):
    """Let the agent play a fixed world and return its (T, N) actions."""
    rng = np.random.default_rng(seed)
    history = []
    for _ in range(num_steps):
        actions = agent.act()
        agent.observe(actions, (rng.random(num_lanes) < np.take(MEANS, actions)).astype(float))
        history.append(actions)
    return np.array(history)


@pytest.mark.parametrize("gamma", [0.0, 0.9])
def test_online_a2c_ends_where_sb3s_learn_ends_on_the_same_steps(gamma):
    options = {"gamma": gamma, "learning_rate": 0.01, "policy_kwargs": {"net_arch": [4]}}
    model = A2C("MlpPolicy", bernoulli(3, means=MEANS), seed=3, device="cpu", **options)
    agent = OnlineSB3(PROBLEM, **options)
    agent.reset(seed=0)
    agent.models[0].policy.load_state_dict(model.policy.state_dict())
    agent._look(0)
    diary = Diary()
    model.learn(50, callback=diary)
    for action, reward in diary.steps:
        agent.observe(action, reward)
    expected, found = model.policy.state_dict(), agent.models[0].policy.state_dict()
    for name in expected:
        # Only the order in which float32 numbers are summed differs.
        torch.testing.assert_close(found[name], expected[name], rtol=1e-3, atol=1e-5)


def test_online_a2c_draws_arms_with_its_networks_probabilities():
    num_lanes = 5000
    agent = OnlineSB3(PROBLEM)
    agent.reset(num_envs=1, seed=0)
    agent._log_probabilities[:] = np.log([0.6, 0.3, 0.1])
    counts = np.bincount([agent.act()[0] for _ in range(num_lanes)], minlength=3)
    for count, p in zip(counts, [0.6, 0.3, 0.1], strict=True):
        assert abs(count - num_lanes * p) < 4 * np.sqrt(num_lanes * p * (1 - p))


def test_online_a2c_lies_between_random_and_exact_thompson_sampling():
    """The smaller gap is about a standard deviation, which is 4 errors in 16 lanes."""
    env = make_vec(num_envs=32, means=MEANS, max_episode_steps=300)
    online = rollout(OnlineSB3(PROBLEM, learning_rate=0.02), env, seed=1).regret.sum(axis=1)
    exact = rollout(ExactThompson(PROBLEM), env, seed=1).regret.sum(axis=1)
    random_regret = 300 * (0.9 - np.mean(MEANS))
    for gap in (random_regret - online, online - exact):
        assert gap.mean() > 4 * gap.std() / np.sqrt(len(gap))


def test_online_sb3_starts_untrained_in_lanes_that_are_reset():
    agent = OnlineSB3(PROBLEM, learning_rate=0.1)
    agent.reset(num_envs=2, seed=0)
    play(agent, 50)
    trained = agent._log_probabilities.copy()
    agent.reset_lanes(np.array([True, False]))
    assert abs(trained[0] - np.log(1 / 3)).max() > 0.5
    np.testing.assert_allclose(agent._log_probabilities[0], np.log(1 / 3), atol=0.05)
    np.testing.assert_array_equal(agent._log_probabilities[1], trained[1])


def test_online_sb3_leaves_masked_lanes_alone():
    agent = OnlineSB3(PROBLEM, n_steps=1)
    agent.reset(num_envs=2, seed=0)
    before = agent._log_probabilities.copy()
    agent.observe(np.array([0, 0]), np.array([0.0, np.nan]), mask=np.array([True, False]))
    assert (agent._log_probabilities[0] != before[0]).any()
    np.testing.assert_array_equal(agent._log_probabilities[1], before[1])


@pytest.mark.parametrize("algorithm", ["A2C", "PPO"])
def test_online_sb3_depends_on_its_seed_alone(algorithm):
    options = {"batch_size": 4} if algorithm == "PPO" else {}
    agent = OnlineSB3(PROBLEM, algorithm=algorithm, n_steps=8, learning_rate=0.02, **options)
    agent.reset(num_envs=2, seed=3)
    first = play(agent, 40)
    torch.manual_seed(5)
    agent.reset(num_envs=2, seed=3)
    np.testing.assert_array_equal(play(agent, 40), first)
    agent.reset(num_envs=2, seed=4)
    assert (play(agent, 40) != first).any()


def test_online_sb3_leaves_global_random_state_alone():
    before = global_random_state()
    agent = OnlineSB3(PROBLEM)
    agent.reset(num_envs=2, seed=0)
    play(agent, 12)
    assert global_random_state() == before


def test_online_sb3_continues_bit_for_bit_when_pickled():
    agent = OnlineSB3(PROBLEM, learning_rate=0.02)
    agent.reset(num_envs=2, seed=3)
    play(agent, 23)
    copy = pickle.loads(pickle.dumps(agent))
    np.testing.assert_array_equal(play(agent, 40), play(copy, 40))


def test_online_sb3_leaves_the_callers_options_as_they_were():
    options = {"net_arch": [4]}
    agent = OnlineSB3(PROBLEM, policy_kwargs=options)
    agent.reset(seed=0)
    assert options == {"net_arch": [4]}  # A2C itself writes its optimiser into them


def test_online_sb3_refuses_an_unknown_hyperparameter():
    with pytest.raises(ValueError, match="A2C options must have .*'learning_rate'"):
        OnlineSB3(PROBLEM, learning_rat=0.1)


def test_online_sb3_refuses_an_algorithm_that_is_not_on_policy():
    with pytest.raises(ValueError, match="algorithm must be one of"):
        OnlineSB3(PROBLEM, algorithm="DQN")


def test_online_sb3_refuses_sufficient_statistics():
    agent = OnlineSB3(PROBLEM)
    agent.reset(seed=0)
    with pytest.raises(TypeError, match="replay them with observe"):
        agent.warm_start([1, 0, 0], [1.0, 0.0, 0.0])


def test_online_sb3_runs_in_an_experiment(tmp_path):
    experiment = Experiment(
        environments=({"env": "BernoulliBandit-v0", "num_arms": 3, "means": MEANS},),
        agents=({"agent": "agents.sb3:OnlineSB3", "learning_rate": 0.02},),
        replications=2,
        horizon=10,
        block_size=2,
    )
    store = run_experiment(experiment, tmp_path, workers=Workers("serial"))
    assert not store.read_failures(experiment.runs[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"learning_rate": float("inf")},
            "learning_rate must be .* above 0 and at most 1e.06, got inf",
        ),
        (
            {"gamma": float("nan")},
            "gamma must be a finite number at least 0 and at most 1, got nan",
        ),
        ({"gamma": 5.0}, "gamma must be a finite number at least 0 and at most 1, got 5.0"),
        ({"n_steps": 0}, "n_steps must be a positive integer, got 0"),
        ({"algorithm": "PPO", "clip_range": -1.0}, "clip_range must be a finite number above 0"),
        ({"algorithm": "PPO", "n_epochs": 0}, "n_epochs must be a positive integer, got 0"),
        ({"policy_kwargs": 5}, "A2C options must be such that SB3 can make a model of them, got"),
        ({"device": "cpu"}, "A2C options must have no keys but"),
    ],
)
def test_options_that_would_train_to_nan_or_not_at_all_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        OnlineSB3(PROBLEM, **options)


def test_online_learner_draws_among_the_arms_that_are_there():
    agent = OnlineSB3(PROBLEM, algorithm="A2C")
    agent.reset(3, seed=0)
    available = np.eye(3, PROBLEM.num_arms, dtype=bool)
    available[0] = True
    law = agent.action_probabilities(available=available)
    assert (law[1:] == available[1:]).all()
    actions = agent.act(available=available)
    assert actions[1:].tolist() == [1, 2]
    agent.observe(actions, [1.0, 0.0, 1.0])
