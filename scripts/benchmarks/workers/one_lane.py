"""The Bernoulli game that every one-lane learner plays, whichever process it lives in."""

import random

NUM_ARMS = 10
NUM_STEPS = 1000


def new_game(start):
    """Return a function that plays one game of NUM_STEPS steps with a learner that knows nothing.

    Every game has the same table of rewards, 0 or 1; means are spread over 0.3 to 0.7.

    Args:
        start: makes a learner, and returns how it chooses an arm and how it learns a reward.
    """
    rng = random.Random(0)
    means = [0.3 + 0.4 * arm / (NUM_ARMS - 1) for arm in range(NUM_ARMS)]
    rewards = [[int(rng.random() < mean) for mean in means] for _ in range(NUM_STEPS)]

    def play():
        choose, learn = start()
        for row in rewards:
            arm = choose()
            learn(arm, row[arm])

    return play
