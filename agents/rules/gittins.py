"""Gittins indices: the sure payment a pull at which one is indifferent to giving an arm up.

They are for rewards discounted for ever, for a finite horizon (exact near the end, else a diffusion
approximation), and for arms that are known after one pull.

Notation: K arms, N lanes, n pulls of an arm, s of them paid; T pulls in an episode, r of them left.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import special

from agents.base.threads import atomic
from agents.oracle.predictive import predictive_means
from agents.posteriors.agent import PosteriorAgent
from agents.posteriors.base import Belief
from agents.posteriors.conjugate import ConjugatePosterior
from agents.posteriors.factory import DEPENDENT_METHODS
from agents.rules.horizon import DEFAULT_HORIZON, HorizonRule, remaining_pulls
from bandit_gym.checks import check_integer, check_real, message
from bandit_gym.likelihoods import Bernoulli, is_binary
from bandit_gym.problem import BanditProblem

FIRST_TABLE_PULLS, MAX_TABLE_PULLS = 128, 2048
"""Pulls of an arm in the first table, and in the last: they double as an arm is pulled more."""
TRUNCATION_TOLERANCE = 1e-3
"""Discount of the first reward that the recursion for an index leaves out."""


class DiscountedGittins(PosteriorAgent):
    """Pull the arm of the largest Gittins index, which is best for rewards discounted for ever.

    The index of an arm is the sure payment at which one is indifferent to giving the arm up. A
    recursion over the arm's successes and failures computes it when it is first needed, to 2e-4 of
    a thousand pulls and to 5e-4 of more, for means from 0 to 1; the narrower the prior, the closer.
    Its table has an arm's first 128 pulls, then twice as many, and so on. With a discount of 0.99
    that takes some 0.5 s for a hundred pulls and 2 s for a thousand. Past 2,048 pulls of an arm its
    index is that of Brownian motion, mean + var / sqrt(-2 m (1 - m) log discount) with m the mean.

    Arguments:
        problem: Bernoulli rewards and arms independent a priori, as `ExactThompson` takes them.
        discount: worth of the next reward in units of the present one, in (0, 1), at most 0.995.

    References:
        Gittins (1979); Gittins, Glazebrook and Weber (2011), "Multi-armed bandit allocation
        indices", Chapter 8; Brezzi and Lai (2002) for many pulls.
    """

    uses_draws = False
    state_names = ("_num_pulls",)
    takes_available = True
    takes_weights = False

    def __init__(self, problem: BanditProblem, *, discount: float = 0.99) -> None:
        self.discount = check_real("discount", discount, above=0.0, maximum=0.995)
        super().__init__(problem)
        if not is_binary(problem.likelihood):
            condition = "be Bernoulli() for DiscountedGittins"
            raise ValueError(message("problem.likelihood", condition, problem.likelihood))
        if self._posterior.method in DEPENDENT_METHODS:
            condition = "have independent arms for DiscountedGittins"
            raise ValueError(message("problem.prior", condition, problem.prior))
        self._num_pulls = 0
        self._tables = np.zeros((1, 0))

    @atomic
    def indices(self) -> np.ndarray:
        """Return the (N, K) indices."""
        posterior = self.belief()
        max_pulls = min(int(self.lane_counts.max(initial=0)), MAX_TABLE_PULLS)
        if max_pulls >= self._num_pulls < MAX_TABLE_PULLS:
            size = max(FIRST_TABLE_PULLS, 2 ** math.ceil(math.log2(max_pulls + 1)))
            self._make_tables(min(size, MAX_TABLE_PULLS))
        n = np.minimum(self.lane_counts, MAX_TABLE_PULLS - 1)
        states = n * (n + 1) // 2 + np.minimum(self.lane_sums.astype(np.int64), n)
        arms = np.arange(self.problem.num_arms) % len(self._tables)  # one table if all are alike
        indices = self._tables[arms, states]
        is_beyond = self.lane_counts >= MAX_TABLE_PULLS
        if is_beyond.any():
            indices = np.where(is_beyond, self._diffusion_indices(posterior), indices)
        return indices

    _scores = indices

    def _start(self) -> None:
        super()._start()
        if self._num_pulls > FIRST_TABLE_PULLS:  # deeper tables than a new agent's
            self._num_pulls = 0

    def _resume(self) -> None:
        """Make the tables that a saved agent had, which are longer than new ones might be."""
        if check_integer("_num_pulls", self._num_pulls, minimum=0, maximum=2 * MAX_TABLE_PULLS):
            self._make_tables(self._num_pulls)

    def _diffusion_indices(self, posterior: Belief) -> np.ndarray:
        mean, variance = posterior.mean(), np.square(posterior.std())
        noise = np.maximum(mean * (1 - mean), np.finfo(float).tiny)
        return mean + variance / np.sqrt(-2 * noise * math.log(self.discount))

    def _make_tables(self, num_pulls: int) -> None:
        """Compute the indices of all states of fewer than `num_pulls` pulls, for each prior."""
        depth = num_pulls + math.ceil(math.log(TRUNCATION_TOLERANCE) / math.log(self.discount))
        means = predictive_means(self.problem, depth + 1)
        states = np.tri(depth + 1, dtype=bool)
        options = depth, self.discount, num_pulls
        tables = [compute_index_table(arm[states].tobytes(), *options) for arm in means]
        self._tables = np.stack(tables)
        self._num_pulls = num_pulls


@lru_cache(maxsize=4)
def compute_index_table(means: bytes, depth: int, discount: float, num_pulls: int) -> np.ndarray:
    """Return the indices of all states of fewer than `num_pulls` pulls, given all `means`.

    They are cached, as agents of one prior often follow each other.
    """
    from agents.numerics.kernels import find_indices

    table = np.empty(num_pulls * (num_pulls + 1) // 2)
    find_indices(np.frombuffer(means), depth, discount, np.empty(depth + 2), table)
    return table


FIRST_POWER = -7
BOUNDARY_HEIGHTS = np.array([
    0.056, 0.079, 0.112, 0.158, 0.224, 0.310, 0.427, 0.579, 0.765, 0.977, 1.213, 1.461, 1.712,
    1.966, 2.213, 2.453, 2.682, 2.903, 3.113, 3.315, 3.508, 3.693, 3.869, 4.037, 4.201, 4.361,
    4.514, 4.662,
])  # fmt: skip
"""h(r / n) at r / n = 2^-7, 2^-6, ..., 2^20: how many posterior deviations above the mean a sure
payment must be to end the pulls of an arm, if its posterior mean is a Brownian motion.

Computed backwards from r = 0 in steps of a thousandth of n, with V(y, n) = max(0, y dn / sqrt(n) +
E V(y', n + dn)), y the mean less the payment in posterior deviations, on 1,201 points from -7 to 7.
The bias of deciding in steps of deviation d is 0.583 d (Chernoff 1965). What is left of it is
extrapolated from a run with steps three times as long. Accurate to about 0.002."""
DISCRETENESS_CORRECTION = 0.583

MAX_EXACT_PULLS = 50
"""Pulls left up to which a recursion is used; its cost grows like their square."""


class FiniteHorizonGittins(HorizonRule, PosteriorAgent):
    r"""Pull the arm of the largest finite-horizon Gittins index, in the diffusion approximation.

    The index is the sure payment a pull at which one is indifferent to giving the arm up for all of
    the r pulls left. Exactly, it takes a recursion over the arm's states for every r. Here

    .. math::
        \text{index} = \text{mean} + Q(\Phi(h)) - Q(1/2), \quad
        h = h(r / n) - \frac{0.583}{\sqrt{n + 1}},

    with Q the posterior's quantiles, n the variance of a reward over that of the posterior, h(r /
    n) the boundary of Brownian motion, and the second term what waiting for the next whole pull
    takes from it. For normal posteriors this is mean + h std; quantiles keep other indices within
    the means' range. The last pull is greedy.

    Bernoulli arms with Beta priors have the recursion's own index with at most 50 pulls left. With
    more, and a uniform prior, the errors of the index less the mean are, in per cent, by pulls
    left:

    ============  ===========  =====  =====  =====
    share paid    after pulls    51    100    400
    ============  ===========  =====  =====  =====
    0.30                   40   -2.8   -2.1   -1.1
    0.30                  100   -3.3   -2.2   -1.3
    0.30                  500   -1.5   -1.1   -0.5
    0.50                   40   -1.5   -0.8    0.1
    0.50                  100   -2.6   -1.5   -0.5
    0.50                  500   -0.9   -0.5    0.0
    0.95                   40    9.0    6.4    3.4
    0.95                  100   10.5    7.8    4.9
    0.95                  500   13.7    9.2    5.0
    0.50                    0   17.0   15.2   10.5
    ============  ===========  =====  =====  =====

    Arguments:
        problem: likelihood and prior, one that `ExactThompson` takes.
        horizon: T, decisions in an episode; data from elsewhere are none.

    References:
        Bradt, Johnson and Karlin (1956); Kaufmann (2018), "On Bayesian index policies for
        sequential resource allocation" (FH-Gittins); Chernoff and Ray (1965) and Lattimore (2016),
        "Regret analysis of the finite-horizon Gittins index strategy for multi-armed bandits", for
        the diffusion.
    """

    uses_draws = False
    takes_available = True

    def __init__(self, problem: BanditProblem, *, horizon: int = DEFAULT_HORIZON) -> None:
        super().__init__(problem, horizon=horizon)
        if isinstance(problem.likelihood, Bernoulli) and not is_binary(problem.likelihood):
            condition = "have no graded rewards for FiniteHorizonGittins"
            raise ValueError(message("problem.likelihood", condition, problem.likelihood))

    @atomic
    def indices(self) -> np.ndarray:
        """Return the (N, K) indices; infinite where the mean is."""
        left = remaining_pulls(self)
        posterior = self.belief()
        mean = posterior.mean()
        with np.errstate(all="ignore"):
            effective_pulls = np.square(self.problem.likelihood.reward_std(mean) / posterior.std())
            height = interpolate_boundary(left / effective_pulls)
            height = height - DISCRETENESS_CORRECTION / np.sqrt(effective_pulls + 1)
            height = np.where((left > 1) & (height > 0), height, 0.0)
            bonus = posterior.quantile(special.ndtr(height)) - posterior.quantile(0.5)
        indices = np.where(np.isfinite(mean), mean + bonus, np.inf)
        is_beta = is_binary(self.problem.likelihood)
        if is_beta and isinstance(posterior, ConjugatePosterior):
            alpha, beta = posterior.parameters(self.lane_counts, self.lane_sums)
            is_exact = (left > 1) & (left <= MAX_EXACT_PULLS)
            for num_left in np.unique(left[is_exact]).astype(int).tolist():
                lanes = np.flatnonzero(left[:, 0] == num_left)
                indices[lanes] = exact_indices(alpha[lanes], beta[lanes], num_left)
        return indices

    _scores = indices


def exact_indices(alpha: np.ndarray, beta: np.ndarray, left: int) -> np.ndarray:
    """Return the indices of Bernoulli arms with r pulls left, by recursion over their states.

    Args:
        alpha: first parameters of the arms' Beta posteriors, of any shape.
        beta: second parameters.
        left: r >= 1.
    """
    from agents.numerics.kernels import find_finite_indices  # brings numba

    states, which = np.unique(np.stack([alpha.ravel(), beta.ravel()]), axis=1, return_inverse=True)
    indices = np.empty(states.shape[1])
    find_finite_indices(*np.ascontiguousarray(states), left, indices)
    return indices[which].reshape(alpha.shape)


def interpolate_boundary(ratios: np.ndarray) -> np.ndarray:
    """Return h(r / n), which for small ratios goes like their root."""
    powers = np.arange(FIRST_POWER, FIRST_POWER + len(BOUNDARY_HEIGHTS))
    heights = np.interp(np.log2(ratios), powers, BOUNDARY_HEIGHTS)
    is_below = ratios < 2.0**FIRST_POWER
    return np.where(is_below, heights * np.sqrt(ratios / 2.0**FIRST_POWER), heights)


MAX_INDEX_STEPS = 50
INDEX_TOLERANCE = 1e-9
"""Of an index, in deviations of the posterior."""


class OptimisticGittins(PosteriorAgent):
    """Pull the arm of the largest v with v = mean_i + gamma_t E(v - x_i)^+, x_i its unknown mean.

    This is what the Gittins index would be if the arm's mean became known after its next pull, and
    so an upper bound on it. It is K = 1 in the paper's notation, with the discount
    gamma_t = 1 - 1 / (pace + t + 1).

    Arguments:
        problem: likelihood and prior, one that `ExactThompson` takes, with independent arms;
            for dependent ones, each index is that of the arm's own posterior.
        pace: makes the first discount, 1 - 1 / (pace + 1); the paper's experiments have 100.

    References:
        Gutin and Farias (2016), "Optimistic Gittins indices", with one step of look-ahead.
    """

    uses_draws = False
    takes_available = True

    def __init__(self, problem: BanditProblem, *, pace: float = 100.0) -> None:
        self.pace = check_real("pace", pace, minimum=0.0)
        super().__init__(problem)

    @atomic
    def indices(self) -> np.ndarray:
        """Return the (N, K) indices; infinite where the mean is."""
        discount = 1 - 1 / (self.pace + self.lane_counts.sum(axis=1, keepdims=True) + 1)
        posterior = self.belief()
        mean = posterior.mean()
        # The gap v - mean - discount E(v - x)^+ is concave in v: Newton's steps rise to its root.
        limit = INDEX_TOLERANCE * np.where(np.isfinite(mean), posterior.std(), np.inf)
        v = mean.copy()
        for _ in range(MAX_INDEX_STEPS):
            below, moment = posterior.lower_partial_moment(v)
            with np.errstate(invalid="ignore"):
                step = (discount * moment + mean - v) / (1 - discount * below)
            v = np.where(np.isfinite(step), v + step, v)
            if not (np.abs(step) > limit).any():
                break
        return v

    _scores = indices
