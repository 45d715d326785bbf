"""MABWiser: LinTS, a linear regression for each arm, a decision and an update of one row."""

import copy

import numpy as np
from mabwiser.mab import MAB, LearningPolicy
from protocol import serve
from visitors import NUM_ARMS, NUM_DECISIONS, Visitors

visitors = Visitors(5, is_disjoint=True)
rows, rewards = visitors.rows(1000)
arms = np.arange(1000) % NUM_ARMS
bandit = MAB([*range(NUM_ARMS)], LearningPolicy.LinTS(), seed=0)
bandit.fit(arms, rewards, rows.reshape(1000, NUM_ARMS, -1)[np.arange(1000), arms])


def play():
    player = copy.deepcopy(bandit)
    for _ in range(NUM_DECISIONS):
        features = visitors.features()[0]
        visitor = features[:1, : visitors.num_features]
        arm = player.predict(visitor)
        player.partial_fit([arm], visitors.rewards(features[[arm]]), visitor)


serve(play, NUM_DECISIONS, "mabwiser", "numpy")
