"""Information-directed sampling: low regret per unit of information about the best arm.

Notation: K arms, N lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from agents.numerics.choices import draw_arms
from agents.posteriors.agent import PosteriorAgent
from agents.posteriors.factory import find_methods
from bandit_gym.checks import check_choice, message
from bandit_gym.likelihoods import is_binary
from bandit_gym.problem import BanditProblem, check_problem

GAIN_KINDS = ("variance", "information")
_MIN_GAIN = 1e-300
NEGLIGIBLE_GAIN = 1e-30
"""In units of the largest gap's square; where all gain less, the least regret decides."""
_RATIO_TOLERANCE = 1e-9
"""Relative difference of ratios that counts as none, so that rounding favours no arm."""


class InformationDirected(PosteriorAgent):
    r"""Pull from the probabilities q that minimise (sum_i q_i gap_i)^2 / sum_i q_i gain_i.

    With p_a the probability that arm a is best and M_ai the mean of arm i that is expected if it
    is,

    .. math:: \text{gap}_i = \sum_a p_a (M_{aa} - M_{ai})

    is the regret that is expected of a pull. The gain is

    .. math::
        \text{gain}_i = \sum_a p_a (M_{ai} - \text{mean}_i)^2
        \quad \text{or} \quad \sum_a p_a \, \text{KL}(M_{ai} \,|\, \text{mean}_i),

    the first for "variance" (V-IDS), the second for "information" (IDS). With Bernoulli rewards the
    second is the mutual information of the reward and the best arm, in nats.

    The best distribution has at most two arms. With independent arms, p and M are integrals over
    tables of the posteriors (`agents.posteriors.grid`), and with a mixture of such priors their
    means over its components. Other posteriors average over their draws.

    Arguments:
        problem: likelihood and prior.
        gain: "variance", for any rewards, or "information", for Bernoulli rewards.
        posterior: see `Thompson`.

    References:
        Russo and Van Roy (2018), "Learning to optimize via information-directed sampling": IDS,
        that two arms are enough, and variance-based IDS.
    """

    takes_features = True
    takes_available = True
    takes_squares = True

    def __init__(
        self, problem: BanditProblem, *, gain: str = "variance", posterior: Any = "exact"
    ) -> None:
        check_problem(problem)
        self.gain = check_choice("gain", gain, GAIN_KINDS)
        if gain == "information" and not is_binary(problem.likelihood):
            condition = "be Bernoulli() for gain='information'"
            remedy = "gain='variance' takes any rewards"
            raise ValueError(message("problem.likelihood", condition, problem.likelihood, remedy))
        if posterior == "exact" and "grid" in find_methods(problem):
            posterior = {"name": "exact", "method": "grid"}
        super().__init__(problem, posterior=posterior)

    def _choose(self) -> np.ndarray:
        return draw_arms(self.rng, self._action_probabilities())

    def _action_probabilities(self) -> np.ndarray:
        best, means = self.belief().best_arm_moments(*self._available)  # (N, K) p, (N, K, K) M
        best_means = np.diagonal(means, axis1=1, axis2=2)[..., None]
        gaps = np.einsum("na,nai->ni", best, np.maximum(best_means - means, 0.0))
        return minimise_information_ratio(gaps, self._gains(best, means), *self._available)

    def _gains(self, best: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return the (N, K) expected information of a pull, given (N, K) p and (N, K, K) M."""
        average = np.einsum("na,nai->ni", best, means)[:, None]  # the mean, by the same quadrature
        if self.gain == "variance":
            return np.einsum("na,nai->ni", best, np.square(means - average))
        divergence = special.rel_entr(means, average) + special.rel_entr(1 - means, 1 - average)
        return np.einsum("na,nai->ni", best, np.maximum(divergence, 0.0))


def minimise_information_ratio(
    gaps: np.ndarray, gains: np.ndarray, available: np.ndarray | None = None
) -> np.ndarray:
    """Return the (N, K) probabilities that minimise the ratio, averaged over ties.

    For arms i and j the ratio is convex in the share of i. It is least where its derivative
    vanishes, at gap_j / (gap_i - gap_j) - 2 gain_j / (gain_i - gain_j), or at an end, which is an
    arm alone. If the two gaps or the two gains are equal, it is at an end. Each arm and each pair
    counts once. Differences within rounding count as equal, so that results do not depend on the
    processor.

    Args:
        gaps: (N, K) expected regrets, at least 0.
        gains: (N, K) expected information of a pull, at least 0.
        available: (N, K) arms that may have a share; None for all.
    """
    if available is not None:
        gaps = np.where(available, gaps, 0.0)
    gap_i, gap_j, gain_i, gain_j = gaps[..., None], gaps[:, None], gains[..., None], gains[:, None]
    with np.errstate(all="ignore"):
        root = gap_j / (gap_i - gap_j) - 2 * gain_j / (gain_i - gain_j)
    is_end = np.isclose(gap_i, gap_j, _RATIO_TOLERANCE, 0)
    is_end |= np.isclose(gain_i, gain_j, _RATIO_TOLERANCE, 0)
    is_pair = np.triu(~is_end & (root > _RATIO_TOLERANCE) & (root < 1 - _RATIO_TOLERANCE), 1)
    shares = np.where(is_pair, root, 1.0)  # (N, K, K), of arm i; on the diagonal it is alone
    regret = shares * gap_i + (1 - shares) * gap_j
    gain = shares * gain_i + (1 - shares) * gain_j
    min_gain = NEGLIGIBLE_GAIN * np.square(gaps.max(axis=1)) + _MIN_GAIN
    ratios = regret**2 / np.maximum(gain, min_gain[:, None, None])
    ratios = np.where(is_pair | np.eye(gaps.shape[1], dtype=bool), ratios, np.inf)
    if available is not None:
        ratios = np.where(available[..., None] & available[:, None], ratios, np.inf)
    is_best = ratios <= ratios.min(axis=(1, 2), keepdims=True) * (1 + _RATIO_TOLERANCE)
    totals = (is_best * shares).sum(axis=2) + (is_best * (1 - shares)).sum(axis=1)
    return totals / is_best.sum(axis=(1, 2))[:, None]
