"""The agents people expect to see beside Thompson sampling.

All break ties uniformly at random and, where an index needs data, pull every arm once first.
Letters: K arms, N lanes, t pulls so far in a lane, n_i of them on arm i.
"""

from __future__ import annotations

import numpy as np

from agents.base import Agent, random_argmax
from agents.posteriors import conjugate_posterior, reference_posterior
from bandit_gym.checks import check_real
from bandit_gym.likelihoods import Likelihood
from bandit_gym.problem import BanditProblem


class UniformRandom(Agent):
    """Pull an arm uniformly at random, whatever happened."""

    def _choose(self) -> np.ndarray:
        return self.rng.integers(self.problem.num_arms, size=self.num_lanes)


class Greedy(Agent):
    """Pull the arm with the highest average reward so far."""

    def _choose(self) -> np.ndarray:
        return random_argmax(self.rng, _empirical_means(self))


class EpsilonGreedy(Agent):
    """Pull a uniformly random arm with probability epsilon, otherwise be greedy.

    Arguments:
        problem: likelihood and prior.
        epsilon: share of random pulls, in [0, 1].
    """

    def __init__(self, problem: BanditProblem, *, epsilon: float = 0.1) -> None:
        super().__init__(problem)
        self.epsilon = check_real("epsilon", epsilon, minimum=0.0, maximum=1.0)

    def _choose(self) -> np.ndarray:
        greedy = random_argmax(self.rng, _empirical_means(self))
        random = self.rng.integers(self.problem.num_arms, size=self.num_lanes)
        return np.where(self.rng.random(self.num_lanes) < self.epsilon, random, greedy)


class UCB1(Agent):
    """Pull the arm with the largest mean_i + scale sqrt(2 log t / n_i).

    Arguments:
        problem: likelihood and prior.
        scale: width of the rewards' range, > 0. The bound is proved for rewards within an interval
            of that length; unbounded rewards have none, and `scale` is a tuning parameter there.

    References:
        Auer, Cesa-Bianchi and Fischer (2002), Figure 1.
    """

    def __init__(self, problem: BanditProblem, *, scale: float = 1.0) -> None:
        super().__init__(problem)
        self.scale = check_real("scale", scale, above=0.0)

    def _choose(self) -> np.ndarray:
        log_t = np.log(np.maximum(self.counts.sum(axis=1, keepdims=True), 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            bonus = self.scale * np.sqrt(2 * log_t / self.counts)
        indices = np.where(self.counts > 0, _empirical_means(self) + bonus, np.inf)
        return random_argmax(self.rng, indices)


class KLUCB(Agent):
    """Pull the arm with the largest mean q such that n_i kl(mean_i, q) <= log t + c log log t.

    kl is the Kullback-Leibler divergence between reward laws with these means, so that the bound
    fits each likelihood; for Bernoulli arms it is asymptotically optimal.

    Arguments:
        problem: likelihood and prior.
        c: weight of the log log t term, >= 0; 3 in the theorem, 0 in practice.

    References:
        Garivier and Cappe (2011), Algorithm 1; Cappe et al. (2013) for exponential families.
    """

    def __init__(self, problem: BanditProblem, *, c: float = 0.0) -> None:
        super().__init__(problem)
        self.c = check_real("c", c, minimum=0.0)

    def _choose(self) -> np.ndarray:
        log_t = np.log(np.maximum(self.counts.sum(axis=1, keepdims=True), 1))
        level = log_t + self.c * np.log(np.maximum(log_t, 1.0))
        bounds = _upper_means(self.problem.likelihood, self.counts, self.sums, level)
        return random_argmax(self.rng, np.where(self.counts > 0, bounds, np.inf))


class BayesUCB(Agent):
    """Pull the arm whose posterior mean has the largest quantile 1 - 1 / (t + 1).

    The posterior is the exact one where the problem's prior is conjugate, and Table 1's reference
    posterior where it is not.

    References:
        Kaufmann, Cappe and Garivier (2012), Algorithm 1 with c = 0.
    """

    def __init__(self, problem: BanditProblem) -> None:
        super().__init__(problem)
        self._posterior = conjugate_posterior(problem) or reference_posterior(problem)

    def _choose(self) -> np.ndarray:
        level = 1 - 1 / (self.counts.sum(axis=1, keepdims=True) + 1.0)
        is_missing = (self.counts == 0) & ~self._posterior.is_proper()
        counts = np.where(is_missing, 1, self.counts)
        quantiles = self._posterior.quantile(counts, self.sums, level)
        return random_argmax(self.rng, np.where(is_missing, np.inf, quantiles))


def _empirical_means(agent: Agent) -> np.ndarray:
    """Return (N, K) average rewards, infinite for an arm never pulled."""
    means = agent.sums / np.maximum(agent.counts, 1)
    return np.where(agent.counts > 0, means, np.inf)


def _upper_means(
    likelihood: Likelihood, counts: np.ndarray, sums: np.ndarray, level: np.ndarray
) -> np.ndarray:
    """Return (N, K) the largest q with n kl(s / n, q) <= level, by bisection to double precision.

    In an exponential family n kl(s / n, q) is the log-likelihood ratio of s / n to q, so the
    likelihood's own formula serves. Arms without data get their lowest mean.
    """
    counts = np.maximum(counts, 1)
    low = np.where(sums == 0, 1e-300, sums / counts)  # a mean of 0 has no exponential density
    best = likelihood.log_likelihood(low, counts, sums)
    step = likelihood.reward_std(low) + 1.0
    high = low + step
    while (is_short := best - likelihood.log_likelihood(high, counts, sums) < level).any():
        step *= 2
        high = np.where(is_short, low + step, high)
    for _ in range(60):
        middle = (low + high) / 2
        is_inside = best - likelihood.log_likelihood(middle, counts, sums) <= level
        low, high = np.where(is_inside, middle, low), np.where(is_inside, high, middle)
    return low
