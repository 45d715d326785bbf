"""Intervals from logs of policies that learned, whose rows depend on those before them.

Notation: K arms, t rows; d is a policy, or the difference of two, by arms.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy

from bandit_gym.checks import shorten_repr
from bandit_gym.checks.typing import BoolArray, FloatArray
from bandit_gym.logs import Log
from bandit_gym.results.statistics import Interval

MIN_PULLS = 10
"""Of each arm of a policy. A stricter rule, or one about rewards, would keep lucky logs."""

TAIL = 0.025
"""Chance that the mean is beyond one limit."""

MAX_WEIGHT = 1e100
"""Larger ones are cut, which lowers lower limits, so that squares do not overflow."""


def estimate_by_arms(
    difference: FloatArray, log: Log, bounds: tuple[float, float] | None
) -> Interval:
    """Estimate sum_a d_a mu_a from a log with probabilities, for d the same in its (t, K) rows.

    With limits l_a and u_a of the arms' means the lower one is value - sqrt(sum_a x_a^2), with
    x_a = d_a (mu_a - l_a), or d_a (u_a - mu_a) where d_a < 0; the upper one is its mirror image.

    References:
        Zou and Donner, "Construction of confidence limits about effect measures" (2008).
    """
    shares = difference[0]
    arms = np.flatnonzero(shares)
    few = tuple(log.arms[arm] for arm in arms if log.counts[arm] < MIN_PULLS)
    _warn_of_limits(few, bounds is not None)
    if few and bounds is not None:
        return estimate_by_betting(difference, log, bounds)
    low, high = bounds or (log.rewards.min(), log.rewards.max())
    scale = high - low or 1.0
    rewards = (log.rewards - low) / scale
    chances = np.asarray(log.probabilities).T
    estimates = [
        estimate_arm(chances[arm], log.actions == arm, rewards, bounds is not None) for arm in arms
    ]
    means, *limits = np.reshape(estimates, (-1, 3)).T
    gaps = abs(np.array(limits) - means)  # to the lower limit, and to the upper one
    below, above = shares[arms] * np.where(shares[arms] > 0, gaps, gaps[::-1])
    ends = shares[arms] @ means + np.array([0.0, -np.linalg.norm(below), np.linalg.norm(above)])
    if few or low == high:
        ends[1:] = np.nan
    return Interval(*(low * shares.sum() + scale * ends).tolist())


def estimate_arm(
    chances: FloatArray, is_pulled: BoolArray, rewards: FloatArray, is_bounded: bool = True
) -> Interval:
    """Estimate an arm's mean reward from rows whose chances e depend on earlier rows.

    With m the mean of the arm's earlier rewards, and of one more that is the mean of all earlier
    ones, g = m + 1{pulled} (r - m) / e has the arm's mean given the past, and about the variance
    s^2 / e. Weights h = sqrt(e) make the terms' variances equal, without which the mean of
    g is not normal: it is q = sum h g / sum h. Limits are the farther ones of Student's, with
    sqrt(sum h^2 (g - q)^2) / sum h and n - 1 degrees of freedom for n = (sum u)^2 / sum u^2,
    u = 1{pulled} / sqrt(e), and of Wilson's for (sum h)^2 / t rows, which hold for few rewards.

    Args:
        chances: (t,) probabilities of the arm, 0 where it was not there.
        is_pulled: (t,).
        rewards: (t,) in [0, 1], of all arms.
        is_bounded: False if rewards outside of [0, 1] are possible. Then Wald's limits, for the
            variance of the arm's rewards and (sum h)^2 / t rows, stand for Wilson's.

    References:
        Hadad, Hirshberg, Zhan, Wager and Athey, "Confidence intervals for policy evaluation in
        adaptive experiments" (2021). Wilson, "Probable inference" (1927).
    """
    positive, is_there = np.maximum(chances, 1e-30), chances > 0
    paid = np.where(is_pulled, rewards, 0.0)
    num_earlier, num_pulls = np.arange(len(rewards)), is_pulled.cumsum()
    pooled = (rewards.cumsum() - rewards) / np.maximum(num_earlier, 1)
    means = (paid.cumsum() - paid + pooled) / (num_pulls - is_pulled + 1)
    scores = means + is_pulled * (rewards - means) / positive  # g
    h, u = np.sqrt(positive) * is_there, is_pulled / np.sqrt(positive)
    if not is_there.any():
        return Interval(np.nan, np.nan, np.nan)
    q = float(h @ scores / h.sum())
    num_worth = u.sum() ** 2 / max(u @ u, 1e-300)
    z = scipy.special.stdtrit(max(num_worth - 1, 1), 1 - TAIL)
    half = z * np.sqrt(h**2 @ (scores - q) ** 2) / h.sum()
    size = h.sum() ** 2 / is_there.sum()  # h g has a reward's variance in each row
    if not is_bounded:
        squares = is_pulled @ (rewards - paid.sum() / max(num_pulls[-1], 1)) ** 2
        variance = (squares + 2 * rewards.var()) / (num_pulls[-1] + 2)  # two more rows, of any arm
        half = max(half, z * np.sqrt(variance / size))
        return Interval(q, q - half, q + half)
    p, c = np.clip(q, 0, 1), z**2 / size
    centre, spread = (p + c / 2) / (1 + c), np.sqrt(c * p * (1 - p) + c**2 / 4) / (1 + c)
    low = max(min(q - half, centre - spread), min(q, 0.0))
    high = min(max(q + half, centre + spread), max(q, 1.0))
    return Interval(q, low, high)


def estimate_by_betting(difference: FloatArray, log: Log, bounds: tuple[float, float]) -> Interval:
    """Estimate the mean of `sum_a d_a r_a` over rows, for (t, K) d.

    With rewards scaled to [0, 1], and `r' = r`, or `1 - r` where `d_a < 0`, that mean is the one of
    `y = abs(d_a) / p * r' - sum_i max(-d_i, 0)` given the past, whatever the propensities p depend
    on. The upper limit is the lower one of -d, with its sign changed.
    """
    low, high = bounds
    rewards, rows = (log.rewards - low) / (high - low), np.arange(len(log))
    ends = []
    for signed in (difference, -difference):
        own, debts = signed[rows, log.actions], np.maximum(-signed, 0.0).sum(axis=1)
        with np.errstate(over="ignore"):
            weights = np.minimum(abs(own) / np.asarray(log.propensities), MAX_WEIGHT)
        values = weights * np.where(own < 0, 1 - rewards, rewards) - debts
        ends.append(bet_on_mean(values, float(debts.max())))
    (mean, least), (opposite, greatest) = ends
    value, upper, lower = (mean - opposite) / 2, -greatest, least
    if lower > upper:
        text = "log has propensities that cannot be those of its actions: 95 % limits cross."
        warnings.warn(text, stacklevel=3)
        lower = upper = np.nan
    else:
        value = np.clip(value, lower, upper)
    scaled = (high - low) * np.array([value, lower, upper])
    return Interval(*(low * difference[0].sum() + scaled).tolist())


def bet_on_mean(values: FloatArray, debt: float) -> tuple[float, float]:
    """Return an estimate and the lower limit of the mean v of (t,) values given those before.

    Bets on a mean above v turn a capital of 1 into prod(1 + b_t (y_t - v)), which has a mean of
    at most 1 if they are wrong. So v is refused where it exceeds 1 / .025: the chance of a
    mistake is .025 (Ville). Bets b_t = sqrt(2 log(1 / .025) / T) / s_t, with the standard deviation
    s_t of earlier values, are about the best ones, and at most .75 / (1 + debt), as no capital may
    be negative. The estimate is the mean with weights b_t, never below the limit.

    Args:
        values: (t,) of at least -debt, with a mean of at most 1.
        debt: at least 0.

    References:
        Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (2024).
        Waudby-Smith, Wu, Ramdas, Karampatziakis and Mineiro, "Anytime-valid off-policy inference
        for contextual bandits" (2022).
    """
    earlier, counts = np.append(0.0, values[:-1]), np.arange(1, len(values) + 1)
    means = (earlier.cumsum() + 0.5) / counts
    variances = ((earlier**2).cumsum() + 1.0) / counts - means**2
    wealth = -np.log(TAIL)
    bets = np.minimum(np.sqrt(2 * wealth / len(values) / variances), 0.75 / (1 + debt))
    low, high = -debt, 1.0
    for _ in range(40):  # the capital falls in v
        middle = (low + high) / 2
        is_refused = np.log1p(bets * (values - middle)).sum() > wealth
        low, high = (middle, high) if is_refused else (low, middle)
    return float(bets @ values / bets.sum()), low


def _warn_of_limits(few: tuple[Any, ...], has_range: bool) -> None:
    """Warn the user where limits are wider, missing or less sure."""
    text = ""
    if few:
        text = f"arms {shorten_repr(few)} of the policy have fewer than {MIN_PULLS} rows: "
        wider = "limits are those of 'betting', which are wider."
        text += wider if has_range else "there are no limits without reward_range=(low, high)."
    elif not has_range:
        text = "limits without a range are short; give reward_range=(low, high) if it is known."
    if text:
        warnings.warn(text, stacklevel=4)
