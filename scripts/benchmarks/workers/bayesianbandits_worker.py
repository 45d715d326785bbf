"""bayesianbandits: Thompson sampling of Bernoulli arms, one decision and one update per step."""

import numpy as np
from bayesianbandits import Agent, Arm, DirichletClassifier, ThompsonSampling
from one_lane import NUM_ARMS, NUM_STEPS, new_game
from protocol import serve


def chance_of_one(samples):
    """Return the share of class 1, which is what an arm is worth."""
    return samples[..., 1]


def start():
    """Make a learner."""
    arms = [
        Arm(arm, reward_function=chance_of_one, learner=DirichletClassifier({0: 1.0, 1: 1.0}))
        for arm in range(NUM_ARMS)
    ]
    agent = Agent(arms, ThompsonSampling(), random_seed=0)

    def learn(arm, reward):
        """Tell the arm that was pulled last, as its manual does."""
        agent.update(np.array([reward]))

    return lambda: agent.pull()[0], learn


serve(new_game(start), NUM_STEPS, "bayesianbandits", "numpy", "scipy")
