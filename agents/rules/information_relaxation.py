"""Information relaxation sampling: play as if a sampled future were known, at a price for knowing.

Letters: K arms, N lanes, H pulls left, s of them of one arm.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from agents.numerics.choices import among, random_argmax
from agents.posteriors.base import PosteriorAgent
from agents.posteriors.choosing import exact_posterior
from agents.rules.horizon import DEFAULT_HORIZON, check_horizon, remaining_pulls
from agents.rules.relaxed import Future, first_of_best_sequence, most_pulled, relaxed_index
from bandit_gym.checks import check_choice, message
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.problem import BanditProblem

SOLVERS: dict[str, Callable[[np.random.Generator, Future, np.ndarray | None], np.ndarray]] = {
    "v_zero": most_pulled,
    "v_emax": first_of_best_sequence,
    "index": relaxed_index,
}
PENALTIES = ("fh", *SOLVERS)
NUM_ACTS = 1000
MOST_STATES = 50_000_000
"""Of the inner problem of "v_emax", vectors of pulls: 16 bytes each."""


class InformationRelaxation(PosteriorAgent):
    """Sample means and all future rewards, and pull what is best if they are known, at a price.

    The price is what knowing them is worth under a guess of the value of the game. The better the
    guess, the closer to optimal, and the dearer: Thompson sampling has no guess at all.

    Penalties:
        fh: IRS.FH. After H - 1 more pulls an arm's posterior mean would be known; the arm for which
            it is largest. Some 3 microseconds a decision at K = 10.
        v_zero: IRS.V-ZERO. Each pull pays the posterior mean at that time; the arm that is pulled
            most in the best sequence, found in K H^2 / 2 steps: some 7 ms at K = 10, H = 1000.
        v_emax: IRS.V-EMAX, for two and three arms. Each pull also costs what it raises the expected
            maximum of the means by, for all pulls to come; the first arm of the best sequence, over
            the H^K / K! vectors of pulls: some 30 ms at K = 2, H = 100, a second at K = 3.
        index: IRS.INDEX. The same game of one arm against a sure payment; the arm for which the
            payment that makes it not worth starting is largest: 60 ms at K = 10, H = 1000.

    Arguments:
        problem: Bernoulli or Gaussian rewards and arms independent a priori, as `ExactThompson`
            takes them.
        penalty: "fh", "v_zero", "v_emax" or "index".
        horizon: T, the pulls in an episode.

    References:
        Min, Maglaras and Moallemi (2019), "Thompson sampling with information relaxation
        penalties", whose names these are.
    """

    has_exact_law = False

    def __init__(
        self, problem: BanditProblem, *, penalty: str = "fh", horizon: int = DEFAULT_HORIZON
    ) -> None:
        self.penalty = check_choice("penalty", penalty, PENALTIES)
        self.horizon = check_horizon(horizon)
        method, inner = exact_posterior(problem)
        _check_problem(problem, method)
        if penalty == "v_emax":
            _check_states(problem.num_arms, self.horizon)
        super().__init__(problem, inner)
        self._future = exact_posterior(problem)[1]

    def _choose(self) -> np.ndarray:
        left = remaining_pulls(self, self.horizon)[:, 0]
        means = self.up_to_date().sample(self.rng)
        if self.penalty == "fh":
            return self._choose_by_final_means(means, left)
        actions = np.empty(self.num_lanes, dtype=np.int64)
        for num_pulls in np.unique(left):
            lanes = np.flatnonzero(left == num_pulls)
            future = self._sample_future(lanes, means[lanes], int(num_pulls))
            available = None if self._available is None else self._available[lanes]
            if num_pulls == 1:
                scores = future.means[:, 0]
                scores = scores if available is None else among(scores, available)
                actions[lanes] = random_argmax(self.rng, scores)
            else:
                actions[lanes] = SOLVERS[self.penalty](self.rng, future, available)
        return actions

    def _law(self) -> np.ndarray:
        """Return frequencies of `NUM_ACTS` acts: the law has no closed form."""
        acts = np.array([self._choose() for _ in range(NUM_ACTS)])
        return (acts[..., None] == np.arange(self.problem.num_arms)).mean(axis=0)

    def _choose_by_final_means(self, means: np.ndarray, left: np.ndarray) -> np.ndarray:
        """Return the (N,) arms of the largest posterior mean after H - 1 more pulls of each."""
        more = np.repeat(left[:, None] - 1, self.problem.num_arms, axis=1)
        likelihood = self.problem.likelihood
        if isinstance(likelihood, Gaussian):
            totals = self.rng.normal(more * means, likelihood.std * np.sqrt(more))
        else:
            totals = self.rng.binomial(more, np.clip(means, 0.0, 1.0)).astype(np.float64)
        self._future.follow(self.rng, self.lane_counts + more, self.lane_sums + totals)
        return random_argmax(self.rng, self._among(self._future.mean()))

    def _sample_future(self, lanes: np.ndarray, means: np.ndarray, num_pulls: int) -> Future:
        """Return a future of H pulls of every arm, given the (n, K) means of some lanes."""
        num_arms = self.problem.num_arms
        uniforms = self.rng.random((len(lanes), num_pulls - 1, num_arms))
        rewards = self.problem.likelihood.sample(means[:, None], uniforms)
        sums = np.zeros((len(lanes), num_pulls, num_arms))
        np.cumsum(rewards, axis=1, out=sums[:, 1:])
        counts = self.lane_counts[lanes][:, None] + np.arange(num_pulls)[:, None]
        sums += self.lane_sums[lanes][:, None]
        shape = (-1, num_arms)
        self._future.follow(self.rng, counts.reshape(shape), sums.reshape(shape))
        return Future(self._future, self._future.mean().reshape(sums.shape))


def _check_problem(problem: BanditProblem, method: str) -> None:
    if not isinstance(problem.likelihood, Bernoulli | Gaussian):
        condition = "be Bernoulli or Gaussian for InformationRelaxation"
        raise ValueError(message("problem.likelihood", condition, problem.likelihood))
    if method == "gibbs":
        condition = "have independent arms for InformationRelaxation"
        raise ValueError(message("problem.prior", condition, problem.prior))


def _check_states(num_arms: int, horizon: int) -> None:
    if num_arms > 3:
        condition = "be 2 or 3 for penalty='v_emax'"
        remedy = "'index' takes any number"
        raise ValueError(message("problem.num_arms", condition, num_arms, remedy))
    longest = int(MOST_STATES ** (1 / num_arms)) - 1
    if horizon > longest:
        condition = f"be at most {longest} for penalty='v_emax' and {num_arms} arms"
        raise ValueError(message("horizon", condition, horizon))
