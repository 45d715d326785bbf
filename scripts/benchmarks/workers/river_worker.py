"""River: Thompson sampling for Bernoulli rewards, one decision and one update per step."""

from functools import partial

from one_lane import NUM_ARMS, NUM_STEPS, new_game
from protocol import serve
from river import bandit, proba


def start():
    """Make a learner."""
    policy = bandit.ThompsonSampling(reward_obj=proba.Beta(), seed=0)
    return partial(policy.pull, range(NUM_ARMS)), policy.update


serve(new_game(start), NUM_STEPS, "river", "numpy")
