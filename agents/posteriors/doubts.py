"""How much doubt the data leave that an arm is the best, told without drawing from the posterior.

Of arms a and b let D be twice the logarithm by which their likelihood falls where both must have
the same mean. If a's average is the higher, the probability that b is better is to first order
Phi(-sqrt D) (Wilks 1938), and the sum of these over b bounds the probability that a is not the
best. The prior takes part as data of its own: as many rewards of its mean as would leave an arm as
uncertain as it does, or two arms' difference, if that is the more certain.

It is of use where particles have collapsed: certain of an arm for no good reason, they may yet have
found the right one.

Letters: K arms, N lanes.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from bandit_gym.problem import BanditProblem

NUM_DRAWS = 4000
"""Of the prior, for its moments."""

FARTHEST, RAREST = 3.0, 0.003
"""Standard deviations of an average from the prior's mean, and share of the prior beyond it.

Where both are passed, the data may lie in a part of the prior of which its moments tell nothing.
"""

LARGEST_LOG = 1e13
"""Log-likelihoods beyond it, either way, are rounded by more than a thousandth."""


class Doubts:
    """Bounds of the probability that an arm is not the best.

    Arguments:
        problem: likelihood and prior, whose moments are those of draws with a generator of its own.
    """

    def __init__(self, problem: BanditProblem) -> None:
        self._likelihood = problem.likelihood
        self._low, self._high = problem.arm_support().T
        draws = problem.prior.sample(np.random.default_rng(0), (NUM_DRAWS, problem.num_arms))
        self._means = draws.mean(axis=0)
        self._ends = np.quantile(draws, (RAREST, 1 - RAREST), axis=0)
        with np.errstate(all="ignore"):  # of laws without variance; then all is in doubt
            covariance = np.cov(draws, rowvar=False)
            variances = np.diag(covariance)
            differences = variances[:, None] + variances - 2 * covariance
            most_certain = np.maximum(1 / variances[:, None], 2 / differences)
            self._reward_variances = np.square(self._likelihood.reward_std(self._means))
            # of an arm beside another
            self._num_rewards = self._reward_variances[:, None] * most_certain
        self._variances = variances

    def bound(self, arms: np.ndarray, counts: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Return (N,) bounds, from 0 up, of the probability that the given arms are not the best.

        Args:
            arms: (N,) one in each lane.
            counts: (N, K) pulls.
            sums: (N, K) total rewards.
        """
        one = arms[:, None]
        mine, theirs = self._num_rewards[arms], self._num_rewards[:, arms].T
        with np.errstate(all="ignore"):
            fall = self._fall(
                np.take_along_axis(counts, one, axis=1) + mine,
                np.take_along_axis(sums, one, axis=1) + mine * self._means[one],
                counts + theirs,
                sums + theirs * self._means,
                one,
            )
        doubts = ndtr(-np.sqrt(fall))
        np.put_along_axis(doubts, one, 0.0, axis=1)
        return np.where(self._is_expected(counts, sums), doubts.sum(axis=1), 1.0)

    def _is_expected(self, counts: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Return (N,) whether every arm's average is what the prior leads to."""
        with np.errstate(all="ignore"):
            averages = sums / counts
            variances = self._variances + self._reward_variances / counts
            is_near = np.square(averages - self._means) <= FARTHEST**2 * variances
        is_near |= (averages >= self._ends[0]) & (averages <= self._ends[1])
        return np.all(is_near | (counts == 0), axis=1)

    def _fall(
        self, n: np.ndarray, s: np.ndarray, m: np.ndarray, r: np.ndarray, one: np.ndarray
    ) -> np.ndarray:
        """Return (N, K) D for n rewards of one arm, s in sum, and m of each, r in sum.

        It is 0 where the one arm has not the higher average, and where numbers are too coarse.
        """
        own = np.clip(s / n, self._low[one], self._high[one])
        others = np.clip(r / m, self._low, self._high)
        low, high = np.maximum(self._low[one], self._low), np.minimum(self._high[one], self._high)
        common = np.clip((s + r) / (n + m), low, high)
        weigh = self._likelihood.log_likelihood
        apart = weigh(own, n, s) + weigh(others, m, r)
        joint = weigh(common, n, s) + weigh(common, m, r)
        is_told = (own > others) & (np.abs(apart) < LARGEST_LOG) & ~np.isnan(joint)
        return np.where(is_told, np.maximum(2 * (apart - joint), 0.0), 0.0)
