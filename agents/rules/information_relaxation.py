"""Information relaxation sampling: play as if a sampled future were known, at a price for knowing.

Notation: K arms, N lanes, H pulls left, s of them of one arm.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from agents.base.conjugacy import require_proper_prior
from agents.base.evidence import CountsAndSums
from agents.numerics.choices import random_argmax
from agents.posteriors.agent import PosteriorAgent
from agents.posteriors.factory import DEPENDENT_METHODS, exact_posterior
from agents.rules.horizon import DEFAULT_HORIZON, HorizonRule, remaining_pulls
from bandit_gym.checks import check_choice, message
from bandit_gym.likelihoods import Gaussian, is_binary
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import BanditProblem

PENALTIES = "fh", "v_zero"
NUM_SIMULATED_ACTS = 1000


class InformationRelaxation(HorizonRule, PosteriorAgent):
    """Sample means and all future rewards, and pull what is best if they are known, at a price.

    The price is what knowing them is worth under a guess of the value of the game. The better the
    guess, the closer to optimal, and the more expensive: Thompson sampling has no guess at all.

    Penalties:
        fh: IRS.FH. After H - 1 more pulls an arm's posterior mean would be known; the arm for which
            it is largest. Some 3 microseconds a decision at K = 10.
        v_zero: IRS.V-ZERO. Each pull pays the posterior mean at that time; the arm that is pulled
            most in the best sequence, found in K H^2 / 2 steps: some 7 ms at K = 10, H = 1000.

    Arguments:
        problem: Bernoulli or Gaussian rewards and arms independent a priori, as `ExactThompson`
            takes them.
        penalty: "fh" or "v_zero".
        horizon: T, decisions in an episode; data from elsewhere are none.

    References:
        Min, Maglaras and Moallemi (2019), "Thompson sampling with information relaxation
        penalties", whose names these are.
    """

    has_exact_probabilities = False

    def __init__(
        self, problem: BanditProblem, *, penalty: str = "fh", horizon: int = DEFAULT_HORIZON
    ) -> None:
        self.penalty = check_choice("penalty", penalty, PENALTIES)
        super().__init__(problem, horizon=horizon)
        if not (is_binary(problem.likelihood) or isinstance(problem.likelihood, Gaussian)):
            condition = "be Bernoulli or Gaussian for InformationRelaxation"
            raise ValueError(message("problem.likelihood", condition, problem.likelihood))
        if self._posterior.method in DEPENDENT_METHODS:
            condition = "have independent arms for InformationRelaxation"
            raise ValueError(message("problem.prior", condition, problem.prior))
        require_proper_prior(problem.prior)
        self._future_posterior = exact_posterior(problem)

    def _choose(self) -> np.ndarray:
        left = remaining_pulls(self)[:, 0]
        means = self.belief().sample(self.rng)
        if self.penalty == "fh":
            return self._choose_by_final_means(means, left)
        actions = np.empty(self.num_lanes, dtype=np.int64)
        for num_pulls in np.unique(left):
            lanes = np.flatnonzero(left == num_pulls)
            future = self._sample_future(lanes, means[lanes], int(num_pulls))
            actions[lanes] = choose_by_v_zero(self.rng, future)
        return actions

    def _action_probabilities(self) -> np.ndarray:
        """Return frequencies of `NUM_SIMULATED_ACTS` acts: the distribution has no closed form."""
        self._rng = make_generator("frequencies of acts")  # what the next act draws is not known
        acts = np.array([self._choose() for _ in range(NUM_SIMULATED_ACTS)])
        return (acts[..., None] == np.arange(self.problem.num_arms)).mean(axis=0)

    def _choose_by_final_means(self, means: np.ndarray, left: np.ndarray) -> np.ndarray:
        """Return the (N,) arms of the largest posterior mean after H - 1 more pulls of each."""
        more_pulls = np.repeat(left[:, None] - 1, self.problem.num_arms, axis=1)
        likelihood = self.problem.likelihood
        if isinstance(likelihood, Gaussian):
            totals = self.rng.normal(more_pulls * means, likelihood.std * np.sqrt(more_pulls))
        else:
            totals = self.rng.binomial(more_pulls, np.clip(means, 0.0, 1.0)).astype(np.float64)
        counts, sums = self.lane_counts + more_pulls, self.lane_sums + totals
        self._future_posterior.update(self.rng, CountsAndSums.from_totals(counts, sums))
        return random_argmax(self.rng, self._future_posterior.mean())

    def _sample_future(self, lanes: np.ndarray, means: np.ndarray, num_pulls: int) -> np.ndarray:
        """Return (n, H, K) posterior means after 0, ..., H - 1 pulls, given (n, K) means."""
        num_arms = self.problem.num_arms
        uniforms = self.rng.random((len(lanes), num_pulls - 1, num_arms))
        rewards = self.problem.likelihood.sample(means[:, None], uniforms)
        sums = np.zeros((len(lanes), num_pulls, num_arms))
        np.cumsum(rewards, axis=1, out=sums[:, 1:])
        counts = self.lane_counts[lanes][:, None] + np.arange(num_pulls)[:, None]
        sums += self.lane_sums[lanes][:, None]
        shape = (-1, num_arms)
        evidence = CountsAndSums.from_totals(counts.reshape(shape), sums.reshape(shape))
        self._future_posterior.update(self.rng, evidence)
        return self._future_posterior.mean().reshape(sums.shape)


def choose_by_v_zero(rng: Generator, means: np.ndarray) -> np.ndarray:
    """Return the (N,) arms pulled most if each pull pays the posterior mean: IRS.V-ZERO.

    The order of pulls does not matter then, so that they are shared out:
    max over n_1 + ... + n_K = H of sum_a sum_{s < n_a} mean_a(s).

    Args:
        rng: breaks ties.
        means: (N, H, K) posterior means after 0, ..., H - 1 pulls of each arm.
    """
    from agents.numerics.kernels import split_pulls

    num_lanes, num_pulls, num_arms = means.shape
    order = rng.permuted(np.tile(np.arange(num_arms), (num_lanes, 1)), axis=1)
    means = np.take_along_axis(means, order[:, None], axis=2)  # of equal shares the first is found
    gains = np.zeros((num_lanes, num_arms, num_pulls + 1))
    np.cumsum(means.transpose(0, 2, 1), axis=2, out=gains[..., 1:])
    pulls = np.array([split_pulls(lane)[1] for lane in gains])
    return order[np.arange(num_lanes), random_argmax(rng, pulls)]
