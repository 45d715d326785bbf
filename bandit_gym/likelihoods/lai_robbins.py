"""The least regret in the long run, of any agent that learns, on one instance of a problem."""

import numpy as np

from bandit_gym.likelihoods.base import Likelihood
from bandit_gym.typing import FloatArray


def lai_robbins_slope(likelihood: Likelihood, means: FloatArray) -> float:
    """Return C: on the instance `means`, (K,), no consistent agent's regret stays below C log t.

    C = sum over worse arms i of (mu* - mu_i) / KL(mu_i, mu*). With n pulls whose rewards add up to
    n mu_i, the log-likelihood ratio of mu_i to mu* is n KL(mu_i, mu*) in an exponential family, so
    KL needs no formulas of its own.

    References:
        Lai and Robbins, "Asymptotically efficient adaptive allocation rules" (1985).
    """
    means = np.asarray(means, dtype=float)
    best = means.max()
    worse = means[means < best]
    ones = np.ones_like(worse)
    divergence = likelihood.log_likelihood(worse, ones, worse) - likelihood.log_likelihood(
        np.full_like(worse, best), ones, worse
    )
    return float(np.sum((best - worse) / divergence))
