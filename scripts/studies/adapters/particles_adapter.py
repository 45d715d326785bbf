"""particles: sequential Monte Carlo over the rewards (IBIS) of Bernoulli arms' means."""

import numpy as np
import particles
from particles import distributions, smc_samplers
from particles.resampling import multinomial_once
from protocol import serve

NUM_PARTICLES = 10_000


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
    means = distributions.StructDist({f"arm_{k}": arm for k in range(case.num_arms)})
    rows = np.stack([case.rewards, case.arms], axis=1).astype(int)
    model = smc_samplers.IBIS(Arms(rows, means), len_chain=10)
    sampler = particles.SMC(fk=model, N=NUM_PARTICLES)
    sampler.run()
    draws = np.stack([sampler.X.theta[f"arm_{k}"] for k in range(case.num_arms)])
    best_arms = draws.argmax(axis=0).ravel()
    return lambda: best_arms[multinomial_once(sampler.W)]


serve(learn)
