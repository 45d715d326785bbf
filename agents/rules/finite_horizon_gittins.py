"""The Gittins index of a finite horizon: exact near the end, else a diffusion approximation.

Letters: K arms, N lanes, T pulls in an episode, r of them left, n pulls that a posterior is worth.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from agents.posteriors.base import PosteriorAgent
from agents.posteriors.choosing import exact_posterior
from agents.posteriors.conjugate import ConjugatePosterior
from agents.rules.horizon import DEFAULT_HORIZON, check_horizon, remaining_pulls
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.problem import BanditProblem

FIRST_POWER = -7
BOUNDARY = np.array([
    0.056, 0.079, 0.112, 0.158, 0.224, 0.310, 0.427, 0.579, 0.765, 0.977, 1.213, 1.461, 1.712,
    1.966, 2.213, 2.453, 2.682, 2.903, 3.113, 3.315, 3.508, 3.693, 3.869, 4.037, 4.201, 4.361,
    4.514, 4.662,
])  # fmt: skip
"""h(r / n) at r / n = 2^-7, 2^-6, ..., 2^20: how many posterior deviations above the mean a sure
payment must be to end the pulls of an arm, if its posterior mean is a Brownian motion.

Computed backwards from r = 0 in steps of a thousandth of n, with V(y, n) = max(0, y dn / sqrt(n) +
E V(y', n + dn)), y the mean less the payment in posterior deviations, on 1,201 points from -7 to 7;
the bias of deciding in steps of deviation d is 0.583 d (Chernoff 1965), and what is left
of it extrapolated from a run with steps three times as long. To about 0.002."""
DISCRETE = 0.583

MOST_EXACT = 50
"""Pulls left up to which a recursion, whose cost grows like their square, is cheap enough."""


class FiniteHorizonGittins(PosteriorAgent):
    r"""Pull the arm of the largest finite-horizon Gittins index, in the diffusion approximation.

    The index is the sure payment a pull for which one would as gladly give the arm up for all of
    the r pulls left. Exactly, it is a recursion over the arm's states for every r. Here

    .. math::
        \text{index} = \text{mean} + Q(\Phi(h)) - Q(1/2), \quad
        h = h(r / n) - \frac{0.583}{\sqrt{n + 1}},

    with Q the posterior's quantiles, n the variance of a reward over that of the posterior, h(r /
    n) the boundary of Brownian motion, and the second term what waiting for the next whole pull
    takes from it. For normal posteriors this is mean + h std; quantiles keep other indices within
    the means' range. The last pull is greedy.

    Bernoulli arms with Beta priors have the recursion's own index with at most 50 pulls left. With
    more, the index less the mean is off by so much, in per cent, with a uniform prior and so many
    pulls left:

    ============  ===========  =====  =====  =====
    share paid    after pulls    51    100    400
    ============  ===========  =====  =====  =====
    0.30                   40   -2.8   -2.1   -1.1
    0.30                  100   -3.3   -2.2   -1.3
    0.30                  500   -1.5   -1.1   -0.5
    0.50                   40   -1.5   -0.8    0.1
    0.50                  100   -2.6   -1.5   -0.5
    0.50                  500   -0.9   -0.5    0.0
    0.95                   40    9.0    6.4    3.4
    0.95                  100   10.5    7.8    4.9
    0.95                  500   13.7    9.2    5.0
    0.50                    0   17.0   15.2   10.5
    ============  ===========  =====  =====  =====

    Arguments:
        problem: likelihood and prior, one that `ExactThompson` takes.
        horizon: T, the pulls in an episode.

    References:
        Bradt, Johnson and Karlin (1956); Kaufmann (2018), "On Bayesian index policies for
        sequential resource allocation" (FH-Gittins); Chernoff and Ray (1965) and Lattimore (2016),
        "Regret analysis of the finite-horizon Gittins index strategy for multi-armed bandits", for
        the diffusion.
    """

    def __init__(self, problem: BanditProblem, *, horizon: int = DEFAULT_HORIZON) -> None:
        self.horizon = check_horizon(horizon)
        super().__init__(problem, exact_posterior(problem)[1])

    def indices(self) -> np.ndarray:
        """Return the (N, K) indices; infinite where the mean is."""
        left = remaining_pulls(self, self.horizon)
        posterior = self.up_to_date()
        mean = posterior.mean()
        with np.errstate(all="ignore"):
            worth = np.square(self.problem.likelihood.reward_std(mean) / posterior.std())
            height = boundary(left / worth) - DISCRETE / np.sqrt(worth + 1)
        height = np.where((left > 1) & (height > 0), height, 0.0)
        bonus = posterior.quantile(special.ndtr(height)) - posterior.quantile(0.5)
        indices = np.where(np.isfinite(mean), mean + bonus, np.inf)
        is_beta = isinstance(self.problem.likelihood, Bernoulli)
        if is_beta and isinstance(posterior, ConjugatePosterior):
            alpha, beta = posterior.parameters(self.lane_counts, self.lane_sums)
            for few in np.unique(left[(left > 1) & (left <= MOST_EXACT)]).astype(int).tolist():
                lanes = np.flatnonzero(left[:, 0] == few)
                indices[lanes] = exact_indices(alpha[lanes], beta[lanes], few)
        return indices

    def _scores(self) -> np.ndarray:
        return self.indices()


def exact_indices(alpha: np.ndarray, beta: np.ndarray, left: int) -> np.ndarray:
    """Return the indices of Bernoulli arms with r pulls left, by recursion over their states.

    Args:
        alpha: first parameters of the arms' Beta posteriors, of any shape.
        beta: second parameters.
        left: r >= 1.
    """
    from agents.numerics.lookahead import find_finite_indices  # brings numba

    states, which = np.unique(np.stack([alpha.ravel(), beta.ravel()]), axis=1, return_inverse=True)
    found = np.empty(states.shape[1])
    find_finite_indices(states[0], states[1], left, found)
    return found[which].reshape(alpha.shape)


def boundary(ratios: np.ndarray) -> np.ndarray:
    """Return h(r / n); it goes like the root of small ratios."""
    powers = np.arange(FIRST_POWER, FIRST_POWER + len(BOUNDARY))
    found = np.interp(np.log2(ratios), powers, BOUNDARY)
    return np.where(ratios < 2.0**FIRST_POWER, found * np.sqrt(ratios / 2.0**FIRST_POWER), found)
