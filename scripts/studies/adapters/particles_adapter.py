"""particles: sequential Monte Carlo over the rewards (IBIS) of Bernoulli arms' means.

In the benchmark, weights of draws from a truncated normal prior: its class `Weights` adds
log-likelihoods, normalises and finds the effective sample size; its `multinomial_once` draws the
particle whose best arm is pulled.
"""

import numpy as np
import particles
from particles import distributions, smc_samplers
from particles.resampling import Weights, multinomial_once
from protocol import NUM_ARMS, new_game, serve

NUM_PARTICLES, NUM_GAME_PARTICLES = 10_000, 1000

means = distributions.TruncNormal(0.5, 0.1, 0.0, 1.0).rvs((NUM_ARMS, NUM_GAME_PARTICLES))
best_arms = means.argmax(axis=0)
log_likelihoods = np.log1p(-means), np.log(means)


class Arms(smc_samplers.StaticModel):
    """Bernoulli arms: `data` is a reward and its arm a row."""

    def logpyt(self, theta, t):
        """Return the log-likelihood of reward t."""
        reward, arm = self.data[t]
        mean = theta[f"arm_{arm}"]
        return np.log(mean if reward else 1.0 - mean)


def learn(case):
    """Add one reward after the other."""
    np.random.seed(case.seed)  # particles draws from NumPy's global generator
    prior = case.prior
    if prior["name"] == "beta":
        arm = distributions.Beta(prior["alpha"], prior["beta"])
    else:
        arm = distributions.TruncNormal(prior["mean"], prior["std"], prior["low"], prior["high"])
    prior_of_means = distributions.StructDist({f"arm_{k}": arm for k in range(case.num_arms)})
    rows = np.stack([case.rewards, case.arms], axis=1).astype(int)
    model = smc_samplers.IBIS(Arms(rows, prior_of_means), len_chain=10)
    sampler = particles.SMC(fk=model, N=NUM_PARTICLES)
    sampler.run()
    draws = np.stack([sampler.X.theta[f"arm_{k}"] for k in range(case.num_arms)])
    best = draws.argmax(axis=0).ravel()
    return lambda: best[multinomial_once(sampler.W)]


def start():
    """Make a learner of the benchmark's game; what particles make of a reward is known before."""
    weights = Weights(np.zeros(NUM_GAME_PARTICLES))

    def choose():
        return best_arms[multinomial_once(weights.W)]

    def learn(arm, reward):
        nonlocal weights
        weights = weights.add(log_likelihoods[reward][arm])

    return choose, learn


serve(learn, new_game(start))
