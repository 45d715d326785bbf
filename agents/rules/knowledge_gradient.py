"""The knowledge gradient, online: KG, and KG*, which plans as many pulls ahead as is worth most.

Notation: K arms, N lanes, T pulls in an episode, t of them done, m pulls of lookahead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from agents.numerics.distributions import BETA_DISTRIBUTION
from agents.posteriors.agent import PosteriorAgent
from agents.rules.horizon import DEFAULT_HORIZON, HorizonRule, remaining_pulls
from bandit_gym.checks import check_choice, message
from bandit_gym.likelihoods import Gaussian, is_binary
from bandit_gym.problem import BanditProblem

VARIANTS = ("kg", "kg*")
MAX_BETA_SIZE = 1e7
"""Size of a Beta distribution, beyond which its function loses digits."""
_MIN_DEVIATION = 1e-300
LOOKAHEAD_PULLS = np.unique(np.round(2 ** np.arange(0.0, 62.5, 0.5)).astype(np.int64))
"""Powers of the root of two, rounded: 1, 2, 3, 4, 6, 8, 11, ... to the longest horizon."""
MAX_DEVIATIONS = 40.0
"""Deviations at which the normal distribution has no mass that a float could hold."""


class KnowledgeGradient(HorizonRule, PosteriorAgent):
    r"""Pull the arm with the largest mean_i + (T - t - 1) v_i, what it pays and what it teaches.

    With c_i the best of the other arms' means and M_i(m) the posterior mean after m more pulls,

    .. math:: v_i(m) = \mathbb{E} \max(M_i(m), c_i) - \max(\text{mean}_i, c_i).

    KG takes v_i = v_i(1). One reward may change no decision where several would, and then
    v_i(1) = 0: with Bernoulli arms KG ends up greedy too soon. KG* takes v_i = max_m v_i(m) / m,
    over m = 1, 2, 3, 4, 6, 8, 11, ..., T - t - 1, the powers of the root of two.

    The distribution of M_i(m) is that of a Beta or normal posterior with the current mean and
    deviation: exact for conjugate priors, matched moments for others. A pull is taken to teach of
    its own arm alone, even if the prior is dependent. Infinite means come first.

    Arguments:
        problem: Bernoulli or Gaussian rewards.
        horizon: T, decisions in an episode; data from elsewhere are none.
        variant: "kg" or "kg*".
        posterior: see `Thompson`.

    References:
        Ryzhov, Powell and Frazier (2012), "The knowledge gradient algorithm for a general class of
        online learning problems"; Frazier and Powell (2010), "Paradoxes in learning and the
        marginal value of information", for the maximum over m, KG(*) there.
    """

    takes_available = True

    def __init__(
        self,
        problem: BanditProblem,
        *,
        horizon: int = DEFAULT_HORIZON,
        variant: str = "kg",
        posterior: Any = "exact",
    ) -> None:
        self.variant = check_choice("variant", variant, VARIANTS)
        super().__init__(problem, horizon=horizon, posterior=posterior)
        if not (is_binary(problem.likelihood) or isinstance(problem.likelihood, Gaussian)):
            condition = "be Bernoulli or Gaussian for KnowledgeGradient"
            raise ValueError(message("problem.likelihood", condition, problem.likelihood))

    def _scores(self) -> np.ndarray:
        left = remaining_pulls(self) - 1
        posterior = self.belief()
        mean = levels = posterior.mean()
        if self._available:  # the others count as the worst of these
            (available,) = self._available
            worst = np.where(available, mean, np.inf).min(axis=1, keepdims=True)
            levels = np.where(available, mean, worst)
        max_pulls = left[:, 0] if self.variant == "kg*" else np.minimum(left[:, 0], 1)
        with np.errstate(invalid="ignore"):
            gains = self._gains(mean, posterior.std(), find_best_others(levels), max_pulls)
        scores = mean + left * np.where(np.isfinite(gains), gains, 0.0)
        return np.where(np.isfinite(mean), scores, np.inf)

    def _gains(
        self, mean: np.ndarray, std: np.ndarray, levels: np.ndarray, max_pulls: np.ndarray
    ) -> np.ndarray:
        """Return the (N, K) largest v_i(m) / m over m up to (N,) `max_pulls`; 0 where that is 0."""
        lookaheads = list_lookaheads(max_pulls)
        if isinstance(self.problem.likelihood, Gaussian):
            known = self.problem.likelihood.known_std
            return find_normal_gains(mean, std, levels, lookaheads, known)
        from agents.numerics.kernels import find_best_gains

        gains = np.empty_like(mean)
        with np.errstate(divide="ignore"):
            first, second = BETA_DISTRIBUTION.match_moments(mean, std**2)
            scale = np.minimum(1.0, MAX_BETA_SIZE / (first + second))
        find_best_gains(first * scale, second * scale, levels, lookaheads, gains)
        return gains


def find_best_others(values: np.ndarray) -> np.ndarray:
    """Return (N, K) the largest of each lane's other values."""
    second, first = np.partition(values, -2, axis=1)[:, -2:].T
    is_first = values == first[:, None]
    return np.where(is_first, second[:, None], first[:, None])


def list_lookaheads(max_pulls: np.ndarray) -> np.ndarray:
    """Return (M, N) pulls m of lookahead: LOOKAHEAD_PULLS below (N,) `max_pulls`, and then these.

    Lanes with fewer than others repeat their last.
    """
    last = LOOKAHEAD_PULLS.searchsorted(max_pulls.max())
    return np.minimum(LOOKAHEAD_PULLS[: last + 1, None], max_pulls)


def find_normal_gains(
    mean: np.ndarray, std: np.ndarray, levels: np.ndarray, lookaheads: np.ndarray, noise: float
) -> np.ndarray:
    """Return the (N, K) largest gain per pull of arms with normal rewards.

    M(m) is normal with deviation std sqrt(m / (m + noise^2 / std^2)), and with z = |mean - level|
    in units of it, v(m) = deviation (phi(z) - z Phi(-z)), in Ryzhov et al. (2012) for m = 1.

    Args:
        mean: (N, K) posterior means.
        std: (N, K) posterior deviations.
        levels: (N, K) the best of the other arms.
        lookaheads: (M, N) the m to try, 0 for no gain.
        noise: deviation of a reward.
    """
    m = lookaheads[..., None]
    deviations = std * np.sqrt(m) * (std / np.hypot(np.sqrt(m) * std, noise))
    gaps = np.minimum(np.abs(mean - levels), MAX_DEVIATIONS * deviations)
    z = gaps / np.maximum(deviations, _MIN_DEVIATION)
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    gains = deviations * (density - z * special.ndtr(-z)) / np.maximum(m, 1)
    return gains.max(axis=0)
