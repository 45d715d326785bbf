"""Values of Bernoulli arms in fractions, and linear regression in a hundred digits."""

from fractions import Fraction
from functools import cache

import mpmath
import numpy as np


def exact_moments(rows, rewards, weights, prior, arms):
    """Return the means and deviations of arms (K, d) that the rewards of rows leave.

    Args:
        rows: (t, d) features.
        rewards: (t,) of the rows.
        weights: (t,) of the rows, over the variance of a reward.
        prior: mean and deviation of each coefficient.
        arms: (K, d) features.
    """
    with mpmath.workdps(100):
        tables = rows, rewards, np.diag(weights), arms
        x, r, w, y = (mpmath.matrix(each.tolist()) for each in tables)
        mean, precision = mpmath.mpf(prior[0]), mpmath.mpf(prior[1]) ** -2
        right = x.T * w * r + mean * precision * mpmath.ones(x.cols, 1)
        covariance = mpmath.inverse(x.T * w * x + precision * mpmath.eye(x.cols))
        variances = y * covariance * y.T
        stds = [float(mpmath.sqrt(variances[i, i])) for i in range(len(arms))]
        return np.array([*map(float, y * covariance * right)]), np.array(stds)


def exact_worths(arms, horizon):
    """The function from a state to what each arm's pull is worth there, in exact arithmetic.

    Args:
        arms: of each arm, (weight, alpha, beta) of the Beta laws that its prior is a mixture of.
        horizon: T.
    """

    @cache
    def mean(law, n, s):
        """Return the chance of a success after s of n, by the chances of n + 1 pulls and of n."""

        def chance(n, s):
            found = Fraction(0)
            for weight, a, b in law:
                value = Fraction(weight)
                for k in range(n):
                    value *= Fraction(a + k if k < s else b + k - s, a + b + k)
                found += value
            return found

        return chance(n + 1, s + 1) / chance(n, s)

    @cache
    def worths(state):
        if sum(n for n, _ in state) == horizon:
            return (Fraction(0),)
        found = []
        for arm, ((n, s), law) in enumerate(zip(state, arms, strict=True)):
            p = mean(law, n, s)
            paid, failed = (
                max(worths((*state[:arm], (n + 1, s + reward), *state[arm + 1 :])))
                for reward in (1, 0)
            )
            found.append(p * (1 + paid) + (1 - p) * failed)
        return tuple(found)

    return worths


def plain(*priors):
    """Return arms with one Beta law each."""
    return tuple(((1, a, b),) for a, b in priors)
