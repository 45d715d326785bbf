"""Upper confidence bounds: UCB1, UCB-Tuned, MOSS, KL-UCB, LinUCB and Bayes-UCB.

Notation: K arms, N lanes, d features, T pulls in an episode, t so far in a lane, n_i of them on arm
i.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.base import Agent
from agents.base.conjugacy import find_row, is_compiled
from agents.posteriors.agent import PosteriorAgent
from agents.rules.greedy import empirical_means, positive_counts
from agents.rules.horizon import DEFAULT_HORIZON, HorizonRule, remaining_pulls
from agents.rules.thompson import require_features
from bandit_gym.checks import check_real, message
from bandit_gym.likelihoods import Gaussian, Likelihood, is_binary
from bandit_gym.priors import Normal
from bandit_gym.problem import MAX_MEAN, BanditProblem, ContextualProblem


class UCB1(Agent):
    """Pull the arm with the largest mean_i + scale sqrt(2 log t / n_i).

    Arguments:
        problem: likelihood and prior.
        scale: width of the rewards' range, > 0. The bound is proved for rewards within an interval
            of that length; unbounded rewards have none, and `scale` is a tuning parameter there.
        discount: in (0, 1], by which each reward multiplies the earlier counts and sums, so that t
            and n_i are what is left of them: D-UCB.
        window: w >= 1, to keep the last w rewards of a lane alone: SW-UCB. None keeps all.

    References:
        Auer, Cesa-Bianchi and Fischer (2002), Figure 1; Garivier and Moulines (2011), "On
        upper-confidence bound policies for switching bandit problems", D-UCB and SW-UCB, whose
        constant in place of 2 is 4 xi.
    """

    takes_available = True

    def __init__(
        self,
        problem: BanditProblem,
        *,
        scale: float = 1.0,
        discount: float = 1.0,
        window: int | None = None,
    ) -> None:
        super().__init__(problem, discount=discount, window=window)
        self.scale = check_real("scale", scale, above=0.0)

    def _scores(self) -> np.ndarray:
        log_t = np.log(np.maximum(self.lane_counts.sum(axis=1, keepdims=True), 1))
        bonus = self.scale * np.sqrt(2 * log_t / positive_counts(self))
        return empirical_means(self) + bonus


class UCBTuned(Agent):
    """Pull the arm with the largest mean_i + sqrt(log t / n_i min(1/4, V_i)).

    V_i is the variance of the arm's rewards so far plus sqrt(2 log t / n_i), and 1/4 the largest
    variance that rewards in [0, 1] can have. Squares of 0 and 1 are what they are squares of, so
    that counts and sums determine the variance; other rewards would need one more sum, and are
    refused.

    Arguments:
        problem: Bernoulli rewards; the prior is not asked.

    References:
        Auer, Cesa-Bianchi and Fischer (2002), Section 4.
    """

    takes_available = True

    def __init__(self, problem: BanditProblem) -> None:
        super().__init__(problem)
        if not is_binary(problem.likelihood):
            condition = "be Bernoulli() for UCBTuned, whose variances are those of 0 and 1"
            raise ValueError(message("problem.likelihood", condition, problem.likelihood))

    def _scores(self) -> np.ndarray:
        pulls = positive_counts(self)
        averages = self.lane_sums / pulls
        log_t = np.log(np.maximum(self.lane_counts.sum(axis=1, keepdims=True), 1))
        variances = averages * (1 - averages) + np.sqrt(2 * log_t / pulls)  # V_j(s) in the paper
        bonus = np.sqrt(log_t / pulls * np.minimum(0.25, variances))
        return empirical_means(self) + bonus


class MOSS(HorizonRule):
    """Pull the arm with the largest mean_i + scale sqrt(max(log(T / (K n_i)), 0) / n_i).

    Arguments:
        problem: likelihood and prior, of which only the number of arms is asked.
        horizon: T, decisions in an episode; data from elsewhere are none.
        scale: width of the rewards' range, > 0. The bound is proved for rewards within an interval
            of that length; unbounded rewards have none, and `scale` is a tuning parameter there.

    References:
        Audibert and Bubeck (2009), "Minimax policies for adversarial and stochastic bandits".
    """

    takes_available = True

    def __init__(
        self, problem: BanditProblem, *, horizon: int = DEFAULT_HORIZON, scale: float = 1.0
    ) -> None:
        super().__init__(problem, horizon=horizon)
        self.scale = check_real("scale", scale, above=0.0)

    def _scores(self) -> np.ndarray:
        remaining_pulls(self)  # refuses to play on after the horizon
        pulls = positive_counts(self)
        num_arms: Any = self.problem.num_arms
        if self._available:
            num_arms = self._available[0].sum(axis=1, keepdims=True)
        excess = np.log(np.maximum(self.horizon / (num_arms * pulls), 1.0))
        return empirical_means(self) + self.scale * np.sqrt(excess / pulls)


class KLUCB(Agent):
    """Pull the arm with the largest mean q such that n_i kl(mean_i, q) <= log t + c log log t.

    kl is the Kullback-Leibler divergence between reward distributions with these means, so that the
    bound fits each likelihood; for Bernoulli arms it is asymptotically optimal.

    Arguments:
        problem: likelihood and prior.
        c: weight of the log log t term, >= 0; 3 in the theorem, 0 in practice.
        discount: see `UCB1`.
        window: see `UCB1`.

    References:
        Garivier and Cappe (2011), Algorithm 1; Cappe et al. (2013) for exponential families.
    """

    takes_available = True

    def __init__(
        self,
        problem: BanditProblem,
        *,
        c: float = 0.0,
        discount: float = 1.0,
        window: int | None = None,
    ) -> None:
        super().__init__(problem, discount=discount, window=window)
        self.c = check_real("c", c, minimum=0.0)

    def _scores(self) -> np.ndarray:
        log_t = np.log(np.maximum(self.lane_counts.sum(axis=1, keepdims=True), 1))
        level = log_t + self.c * np.log(np.maximum(log_t, 1.0))
        bounds = _upper_means(self.problem.likelihood, positive_counts(self), self.lane_sums, level)
        return np.where(self.lane_counts > 0, bounds, np.inf)


class LinUCB(Agent):
    """Pull the arm with the largest x . theta + alpha sqrt(x' A^-1 x), a bound on a linear mean.

    A = ridge I + sum_i x_i x_i' and theta = A^-1 sum_i y_i x_i are those of a ridge regression of
    rewards on features, under any likelihood; the prior is not asked. Where each arm has a block of
    features of its own, so it has a regression of its own: Algorithm 1 of the paper.

    Arguments:
        problem: likelihood, prior and the number of features.
        alpha: width of the bounds, in standard errors of rewards of deviation 1, at least 0.
        ridge: weight of the penalty on squared coefficients, > 0; 1 in the paper.
        discount: see `Agent`.
        window: see `Agent`.

    References:
        Li, Chu, Langford and Schapire (2010), "A contextual-bandit approach to personalized news
        article recommendation".
    """

    takes_features = True
    takes_available = True

    def __init__(
        self,
        problem: ContextualProblem,
        *,
        alpha: float = 1.0,
        ridge: float = 1.0,
        discount: float = 1.0,
        window: int | None = None,
    ) -> None:
        require_features(type(self), problem)
        from agents.regression.gaussian import GaussianCoefficients  # slow to import

        super().__init__(problem, discount=discount, window=window)
        self.alpha = check_real("alpha", alpha, minimum=0.0)
        prior = Normal(0.0, check_real("ridge", ridge, above=0.0) ** -0.5)
        sizes = problem.num_arms, problem.num_features
        self._regression = GaussianCoefficients(ContextualProblem(Gaussian(1.0), prior, *sizes))

    def _prepare_decision(self, size: int | None) -> None:
        self.evidence.roots()  # which are kept from now on, and not made by each copy

    def _scores(self) -> np.ndarray:
        self._regression.update(self.rng, self.evidence)
        belief = self._regression.predict(self.evidence.decision_features)
        return belief.mean() + self.alpha * belief.std()


MAX_LEVEL = 1 - 2.0**-53
"""The largest number below 1, whose quantiles still tell arms apart."""


class BayesUCB(PosteriorAgent):
    """Pull the arm whose posterior mean has the largest quantile 1 - 1 / (t + 1).

    An arm without a proper posterior comes before all others.

    Arguments:
        problem: likelihood and prior.
        posterior: see `Thompson`.
        discount: in (0, 1], see `Thompson`. t is then what is left of it.
        window: w >= 1, likewise.

    References:
        Kaufmann, Cappe and Garivier (2012), Algorithm 1 with c = 0.
    """

    uses_draws = False
    takes_features = True
    takes_available = True
    takes_values = True
    takes_squares = True

    def compact(self, max_rows: int, *, observation: Any) -> float:
        """Refuse, as t would lose what is left out: see `PosteriorAgent.compact`."""
        condition = "be asked of an agent whose rule does not count rewards"
        raise ValueError(message("compact", condition, type(self).__name__))

    def _scores(self) -> np.ndarray:
        level = 1 - 1 / (self.lane_counts.sum(axis=1, keepdims=True) + 1.0)
        level = np.minimum(level, MAX_LEVEL)
        is_first = level == 0
        scores = self.belief().quantile(np.where(is_first, 0.5, level))
        if not is_first.any():
            return scores
        least: Any = self.problem.likelihood.support[0]  # means, which are the quantiles of level 0
        if not self._has_features:
            least = self.problem.arm_support()[:, 0]
        values, costs = self._prices or (1.0, 0.0)
        return np.where(is_first & (scores < np.inf), values * least - costs, scores)


def _upper_means(
    likelihood: Likelihood, counts: np.ndarray, sums: np.ndarray, level: np.ndarray
) -> np.ndarray:
    """Return (N, K) the largest q with n kl(s / n, q) <= level, to double precision.

    Arms without data get their lowest mean; infinity where kl stays below the level.
    """
    low = np.where(sums == 0, 1e-300, sums / counts)  # a mean of 0 has no exponential density
    if isinstance(likelihood, Gaussian):
        return low + likelihood.std * np.sqrt(2 * level / counts)
    if not is_compiled(likelihood):
        return _bisect_upper_means(likelihood, low, (counts, sums), level)
    from agents.numerics.kernels import find_upper_means

    bounds = np.empty(low.shape)
    find_upper_means(find_row(likelihood).distribution.code, low, level / counts, bounds)
    return bounds


def _bisect_upper_means(
    likelihood: Likelihood, low: np.ndarray, data: tuple[np.ndarray, np.ndarray], level: np.ndarray
) -> np.ndarray:
    """Return what `_upper_means` does, from (N, K) averages and data, by bisection.

    In an exponential family n kl(s / n, q) is the log-likelihood ratio of s / n to q, so the
    likelihood's own formula serves.
    """
    counts, sums = data
    best = likelihood.log_likelihood(low, counts, sums)
    std = likelihood.reward_std(low)
    step = np.where(np.isfinite(std), std, 0.0) + 1.0
    high = low + step

    def is_inside(means: np.ndarray) -> np.ndarray:
        return best - likelihood.log_likelihood(means, counts, sums) <= level

    while (is_short := is_inside(high) & (high < MAX_MEAN)).any():
        step *= 2
        high = np.where(is_short, low + step, high)
    is_unbounded = high >= MAX_MEAN  # there is no mean so large that the data speak against it
    for _ in range(60):
        middle = (low + high) / 2
        is_low = is_inside(middle)
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    return np.where(is_unbounded, np.inf, low)
