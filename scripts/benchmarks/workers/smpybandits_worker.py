"""SMPyBandits: Thompson sampling for Bernoulli rewards, one decision and one update per step."""

from one_lane import NUM_ARMS, NUM_STEPS, new_game
from protocol import serve
from SMPyBandits.Policies import Thompson

policy = Thompson(NUM_ARMS)


def start():
    """Make the learner forget everything."""
    policy.startGame()
    return policy.choice, policy.getReward


serve(new_game(start), NUM_STEPS, "SMPyBandits", "numpy", "scipy")
