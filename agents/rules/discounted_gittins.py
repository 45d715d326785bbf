"""The Gittins index of discounted rewards, for Bernoulli arms.

Letters: K arms, N lanes, n pulls of an arm, s of them paid.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from agents.posteriors.base import Posterior, PosteriorAgent
from agents.posteriors.choosing import exact_posterior
from bandit_gym.checks import check_integer, check_real, message
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.problem import BanditProblem, check_problem

FIRST_PULLS, MOST_PULLS = 128, 2048
"""Pulls of an arm that a table is made for: doubled as an arm is pulled more, up to the latter."""
TOLERANCE = 1e-3
"""Share of the deviation of a posterior of so many pulls that is lost by looking no further."""
NUM_TELLING = 20
"""Pulls of an arm after which equal means, whatever was paid, are of equal priors."""


class DiscountedGittins(PosteriorAgent):
    """Pull the arm of the largest Gittins index, which is best for rewards discounted for ever.

    The index of an arm is the sure payment for which one would as gladly give the arm up. It is
    computed by recursion over the arm's successes and failures, to 1e-4, when it is first needed: a
    table for an arm's first 128 pulls, then twice as many, and so on. With a discount of 0.99 they
    take some 0.5 s for a hundred pulls and 2 s for a thousand. Past 2,048 pulls of an arm its index
    is that of Brownian motion, mean + var / sqrt(-2 m (1 - m) log discount) with m the mean.

    Arguments:
        problem: Bernoulli rewards and arms independent a priori, as `ExactThompson` takes them.
        discount: worth of the next reward in units of the present one, in (0, 1), at most 0.995.

    References:
        Gittins (1979); Gittins, Glazebrook and Weber (2011), "Multi-armed bandit allocation
        indices", Chapter 8; Brezzi and Lai (2002) for many pulls.
    """

    state_names = ("_num_pulls",)

    def __init__(self, problem: BanditProblem, *, discount: float = 0.99) -> None:
        self.discount = check_real("discount", discount, above=0.0, maximum=0.995)
        check_problem(problem)
        if not isinstance(problem.likelihood, Bernoulli):
            condition = "be Bernoulli() for DiscountedGittins"
            raise ValueError(message("problem.likelihood", condition, problem.likelihood))
        method, inner = exact_posterior(problem)
        if method == "gibbs":
            condition = "have independent arms for DiscountedGittins"
            raise ValueError(message("problem.prior", condition, problem.prior))
        super().__init__(problem, inner)
        self._num_pulls = 0
        self._groups = np.zeros(problem.num_arms, dtype=np.int64)
        self._tables = np.zeros((1, 0))

    def indices(self) -> np.ndarray:
        """Return the (N, K) indices."""
        posterior = self.up_to_date()
        most = min(int(self.lane_counts.max(initial=0)), MOST_PULLS)
        if most >= self._num_pulls:
            self._make_tables(max(FIRST_PULLS, 2 ** math.ceil(math.log2(most + 1))))
            self.up_to_date()  # the posterior was led through all states
        n = np.minimum(self.lane_counts, MOST_PULLS - 1)
        places = n * (n + 1) // 2 + np.minimum(self.lane_sums.astype(np.int64), n)
        found = self._tables[self._groups, places]
        is_beyond = self.lane_counts >= MOST_PULLS
        return np.where(is_beyond, self._late(posterior), found) if is_beyond.any() else found

    def _resume(self) -> None:
        """Make the tables that a saved agent had, which are longer than new ones might be."""
        if check_integer("_num_pulls", self._num_pulls, minimum=0, maximum=2 * MOST_PULLS):
            self._make_tables(self._num_pulls)

    def _scores(self) -> np.ndarray:
        return self.indices()

    def _late(self, posterior: Posterior) -> np.ndarray:
        mean, variance = posterior.mean(), np.square(posterior.std())
        noise = np.maximum(mean * (1 - mean), np.finfo(float).tiny)
        return mean + variance / np.sqrt(-2 * noise * math.log(self.discount))

    def _make_tables(self, num_pulls: int) -> None:
        """Compute the indices of all states of fewer than `num_pulls` pulls, for each prior."""
        depth = num_pulls + math.ceil(math.log(TOLERANCE) / math.log(self.discount))
        self._groups, means = predictive_means(self.inner, self.problem.num_arms, depth)
        self._tables = np.stack(
            [find_table(group.tobytes(), depth, self.discount, num_pulls) for group in means]
        )
        self._num_pulls = num_pulls


@lru_cache(maxsize=4)
def find_table(means: bytes, depth: int, discount: float, num_pulls: int) -> np.ndarray:
    """Return the indices of all states of fewer than `num_pulls` pulls, given those of `means`.

    Remembered, for agents of one prior often follow each other.
    """
    from agents.numerics.lookahead import find_indices

    table = np.empty(num_pulls * (num_pulls + 1) // 2)
    find_indices(np.frombuffer(means), depth, discount, np.empty(depth + 2), table)
    return table


def predictive_means(
    posterior: Posterior, num_arms: int, depth: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return which arms have the same prior, and the posterior means of each group.

    Args:
        posterior: of Bernoulli arms that are independent; it is left with data of no lane.
        num_arms: K.
        depth: D, pulls up to which.

    Returns:
        (K,) group of each arm, and (G, (D + 1) (D + 2) / 2) means after s successes in n pulls, at
        n (n + 1) / 2 + s.
    """
    rng = np.random.default_rng(0)  # not drawn from: such posteriors are functions of their data

    def level(n: int) -> np.ndarray:
        sums = np.repeat(np.arange(n + 1.0)[:, None], num_arms, axis=1)
        posterior.follow(rng, np.full(sums.shape, n), sums)
        return posterior.mean()

    early = np.concatenate([level(n) for n in range(NUM_TELLING)])
    _, first, groups = np.unique(early, axis=1, return_index=True, return_inverse=True)
    means = np.concatenate([level(n)[:, first] for n in range(depth + 1)])
    return groups.ravel(), np.ascontiguousarray(means.T)
