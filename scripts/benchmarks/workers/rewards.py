"""The Bernoulli bandit that every one-lane learner meets, whichever process it lives in."""

import random

NUM_ARMS = 10
NUM_STEPS = 1000


def reward_table(seed: int = 0) -> list[list[int]]:
    """Return NUM_STEPS lists of NUM_ARMS rewards, 0 or 1; means are spread over 0.3 to 0.7."""
    rng = random.Random(seed)
    means = [0.3 + 0.4 * arm / (NUM_ARMS - 1) for arm in range(NUM_ARMS)]
    return [[int(rng.random() < mean) for mean in means] for _ in range(NUM_STEPS)]
