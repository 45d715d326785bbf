"""particles: weights of draws from a truncated normal prior, one decision and one update per step.

Its class `Weights` adds log-likelihoods, normalises and finds the effective sample size; its
`multinomial_once` draws the particle whose best arm is pulled.
"""

import numpy as np
from particles.distributions import TruncNormal
from particles.resampling import Weights, multinomial_once
from protocol import NUM_ARMS, new_game, serve

NUM_GAME_PARTICLES = 1000

means = TruncNormal(0.5, 0.1, 0.0, 1.0).rvs((NUM_ARMS, NUM_GAME_PARTICLES))
best_arms = means.argmax(axis=0)
log_likelihoods = np.log1p(-means), np.log(means)


def start():
    """Make a learner of the benchmark's game; what particles make of a reward is known before."""
    weights = Weights(np.zeros(NUM_GAME_PARTICLES))

    def choose():
        return best_arms[multinomial_once(weights.W)]

    def learn(arm, reward):
        nonlocal weights
        weights = weights.add(log_likelihoods[reward][arm])

    return choose, learn


serve(None, new_game(start))
