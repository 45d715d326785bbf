"""Rules that look ahead: knowledge gradient, information-directed sampling, information relaxation.

KG asks what one more pull teaches; KG* plans as many as is worth most. Information-directed
sampling takes low regret per unit of information about the best arm. Information relaxation plays
as if a sampled future were known, at a price for knowing.

Notation: K arms, N lanes, T pulls in an episode, t of them done, H = T - t left, s of them of one
arm, m pulls of lookahead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from scipy import special

from agents.base.conjugacy import require_proper_prior
from agents.base.evidence import CountsAndSums
from agents.numerics.choices import draw_arms, random_argmax
from agents.numerics.distributions import BETA_DISTRIBUTION
from agents.posteriors.agent import PosteriorAgent
from agents.posteriors.factory import DEPENDENT_METHODS, exact_posterior, find_methods
from agents.rules.horizon import DEFAULT_HORIZON, HorizonRule, remaining_pulls
from bandit_gym.checks import check_choice, message
from bandit_gym.likelihoods import Gaussian, is_binary
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import BanditProblem, check_problem

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

    uses_draws = False
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
        _require_bernoulli_or_gaussian(type(self), problem)

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

    The best distribution has at most two arms. Where independent arms have tables
    (`agents.posteriors.grid`), p and M are integrals over these, and with a mixture of such priors
    their means over its components. Other posteriors average over their draws.

    Arguments:
        problem: likelihood and prior.
        gain: "variance", for any rewards, or "information", for Bernoulli rewards.
        posterior: see `Thompson`.

    References:
        Russo and Van Roy (2018), "Learning to optimize via information-directed sampling": IDS,
        that two arms are enough, and variance-based IDS.
    """

    uses_draws = False
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

    uses_draws = False
    has_exact_probabilities = False

    def __init__(
        self, problem: BanditProblem, *, penalty: str = "fh", horizon: int = DEFAULT_HORIZON
    ) -> None:
        self.penalty = check_choice("penalty", penalty, PENALTIES)
        super().__init__(problem, horizon=horizon)
        _require_bernoulli_or_gaussian(type(self), problem)
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

    def _find_errors(self, size: int | None, probabilities: np.ndarray, floor: float) -> np.ndarray:
        variance = probabilities * (1 - probabilities) + 1 / NUM_SIMULATED_ACTS
        return np.asarray(np.sqrt(variance / NUM_SIMULATED_ACTS))

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


def _require_bernoulli_or_gaussian(kind: type[HorizonRule], problem: BanditProblem) -> None:
    """Refuse other rewards, of which a rule cannot tell what they would teach."""
    if not (is_binary(problem.likelihood) or isinstance(problem.likelihood, Gaussian)):
        condition = f"be Bernoulli or Gaussian for {kind.__name__}"
        raise ValueError(message("problem.likelihood", condition, problem.likelihood))
