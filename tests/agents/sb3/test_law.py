"""The law of a trained policy is that of its actions."""

import numpy as np
import pytest
from sb3_models import ALGORITHMS, NUM_ARMS, global_random_state, make_vec, train

from agents.sb3 import SB3Agent

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
