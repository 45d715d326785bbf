"""MABWiser: Thompson sampling for Bernoulli rewards, one decision and one update per step."""

from mabwiser.mab import MAB, LearningPolicy
from one_lane import NUM_ARMS, NUM_STEPS, new_game
from protocol import serve


def start():
    """Make a learner."""
    bandit = MAB(list(range(NUM_ARMS)), LearningPolicy.ThompsonSampling(), seed=0)
    bandit.fit([0], [0])  # it does not predict before it has been fitted
    return bandit.predict, lambda arm, reward: bandit.partial_fit([arm], [reward])


serve(new_game(start), NUM_STEPS, "mabwiser", "numpy")
