"""The law of a trained policy, and of one that trains while it plays, is that of their actions."""

import numpy as np
import pytest
from sb3_models import ALGORITHMS, NUM_ARMS, global_random_state, make_vec, train

from agents.sb3 import OnlineSB3, SB3Agent

NUM_LANES = 300


@pytest.mark.parametrize("is_deterministic", [False, True])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_trained_models_act_as_often_as_their_law_says(name, is_deterministic):
    agent = SB3Agent(train(name), deterministic=is_deterministic)
    agent.exploration_rate *= 6.0  # of DQN, so that it shows
    env = make_vec(num_envs=NUM_LANES)
    observation, _ = env.reset(seed=0)
    agent.reset(NUM_LANES, seed=1)
    agent.observe(agent.act(observation), np.zeros(NUM_LANES))  # a recurrent one remembers
    before = agent._rng.bit_generator.state, global_random_state()
    law = agent.action_probabilities(observation)
    assert (agent._rng.bit_generator.state, global_random_state()) == before
    np.testing.assert_allclose(law.sum(axis=1), 1.0, atol=1e-12)
    played = np.eye(NUM_ARMS)[agent.act(observation)]
    error = 4 * np.sqrt((law * (1 - law)).sum(axis=0)) + 1e-5 * NUM_LANES  # of single precision
    assert (abs((played - law).sum(axis=0)) <= error).all()


def test_trained_models_have_no_posterior_to_show():
    with pytest.raises(TypeError, match="posterior must be asked of an agent with a prior, got"):
        SB3Agent(train("A2C")).posterior()


def test_learner_acts_as_often_as_its_law_says():
    problem = make_vec().unwrapped.problem
    agent = OnlineSB3(problem, n_steps=1, learning_rate=0.5)
    agent.reset(4, seed=0)
    for _ in range(5):
        agent.observe(agent.act(), np.ones(4))
    law = agent.action_probabilities()
    assert (law.max(axis=1) > 0.5).any()  # it has learned
    shares = np.mean([np.eye(NUM_ARMS)[agent.act()] for _ in range(500)], axis=0)
    assert (abs(shares - law) <= 4 * np.sqrt(law * (1 - law) / 500) + 1e-6).all()
