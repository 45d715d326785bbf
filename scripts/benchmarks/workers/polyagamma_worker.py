"""PG-TS of one sweep (Dumitrascu et al. 2018): a Polya-Gamma draw a row, then coefficients."""

import numpy as np
from polyagamma import random_polyagamma
from protocol import serve
from visitors import NUM_DECISIONS, Visitors

visitors, rng = Visitors(5), np.random.default_rng(1)
start = visitors.rows(1000)


def play():
    (rows, rewards), theta = start, np.zeros(5)
    for _ in range(NUM_DECISIONS):
        weights = random_polyagamma(1.0, rows @ theta, random_state=rng)
        covariance = np.linalg.inv(np.eye(5) + (rows.T * weights) @ rows)
        theta = rng.multivariate_normal(covariance @ (rows.T @ (rewards - 0.5)), covariance)
        features = visitors.features()[0]
        chosen = features[[(features @ theta).argmax()]]
        rows = np.vstack([rows, chosen])
        rewards = np.append(rewards, visitors.rewards(chosen))


serve(play, NUM_DECISIONS, "polyagamma", "numpy")
