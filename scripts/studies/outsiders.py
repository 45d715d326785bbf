"""Approximate posteriors that are not this project's, and exact ones bent on purpose.

Each has the setting that its authors recommend. All but ensembles and rules are samplers
`(problem, counts, sums, rng, size) -> (size, K)`, given (K,) data or (size, K), a history for each
row. Means with two ends are given by their log-odds between them, means with one by their
logarithm, as probabilistic programs do (Carpenter et al. 2017, "Stan").

Notation: S points, K arms. Data are (K,), or (S, K) with a history for each point; points may have
further axes in front.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy import special, stats

from agents import ExactThompson
from agents.base import Agent
from agents.base.evidence import CountsAndSums
from agents.numerics.choices import draw_arms, random_argmax
from bandit_gym.problem import BanditProblem, ContextualProblem

SLOPE_STEP = 1e-4
"""Of numerical slopes, in units of the line."""

NUM_PRIOR_DRAWS = 1000

MAX_LOGIT = 36.0
"""Logarithm or log-odds beyond which a mean would be its end."""


@lru_cache
def prior_moments(problem: BanditProblem) -> tuple[np.ndarray, np.ndarray]:
    """Return the (K,) means and variances of a prior, of draws that are always the same."""
    shape = NUM_PRIOR_DRAWS, problem.num_arms
    draws = problem.prior.sample(np.random.default_rng(0), shape)
    return draws.mean(axis=0), draws.var(axis=0)


class Target:
    """A posterior as a function of numbers without ends.

    Args:
        problem: likelihood and prior.
        counts: (K,) or (S, K) pulls.
        sums: (K,) or (S, K) total rewards.
    """

    def __init__(self, problem: BanditProblem, counts: np.ndarray, sums: np.ndarray) -> None:
        self.problem, self.data = problem, (counts, sums)
        self.low, self.high = problem.arm_support().T
        has_low, has_high = np.isfinite(self.low), np.isfinite(self.high)
        self.has_both, self.has_one = has_low & has_high, has_low & ~has_high

    def means(self, line: np.ndarray) -> np.ndarray:
        """Return the (S, K) means that are given by (S, K) numbers."""
        bounded = np.clip(line, -MAX_LOGIT, MAX_LOGIT)
        with np.errstate(all="ignore"):
            between = self.low + (self.high - self.low) * special.expit(bounded)
            above = self.low + np.exp(bounded)
        return np.where(self.has_both, between, np.where(self.has_one, above, line))

    def start(self) -> np.ndarray:
        """Return numbers near the average rewards, or near the prior's middle, shaped as data."""
        counts, sums = self.data
        average = (sums + prior_moments(self.problem)[0]) / (counts + 1)
        with np.errstate(all="ignore"):
            share = np.clip((average - self.low) / (self.high - self.low), 0.01, 0.99)
            above = np.log(np.maximum(average - self.low, 1e-3))
        return np.where(self.has_both, special.logit(share), np.where(self.has_one, above, average))

    def slopes(self, line: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the (S, K) slopes and curvatures of the log-density along each arm's number."""
        below, here, above = self._parts(line, [-SLOPE_STEP, 0.0, SLOPE_STEP])
        return (above - below) / (2 * SLOPE_STEP), (above - 2 * here + below) / SLOPE_STEP**2

    def _parts(self, line: np.ndarray, shifts: list[float]) -> np.ndarray:
        """Return (shifts, S, K) log-densities with one arm's number shifted, up to what stays."""
        by = np.reshape(shifts, (-1, *[1] * line.ndim))
        own = self._own(line + by)
        if self.problem.offers("arm_log_density"):
            prior: Any = self.problem.prior
            return own + prior.arm_log_density(self.means(line + by))
        each = line[..., None, :] + by[..., None] * np.eye(line.shape[-1])
        return own + self.problem.prior.log_density(self.means(each))

    def _own(self, line: np.ndarray) -> np.ndarray:
        """Return the (S, K) log-likelihoods, and logarithms of what the line stretches."""
        stretch = special.log_expit(line) + special.log_expit(-line)
        value = self.problem.likelihood.log_likelihood(self.means(line), *self.data)
        return value + np.where(self.has_both, stretch, np.where(self.has_one, line, 0.0))


def find_mode(target: Target, *, num_steps: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of largest density and the curvatures there, below zero.

    Both are (S, K) as data are, S = 1 if these are (K,).

    Newton's method along each arm, no step longer than one, uphill where the density is not curved.
    """
    line = np.atleast_2d(target.start())
    for _ in range(num_steps):
        slope, curvature = target.slopes(line)
        step = np.clip(slope / np.maximum(np.abs(curvature), 1e-3), -1.0, 1.0)
        line = line + step
        if np.abs(step).max() < 1e-4:
            break
    return line, np.minimum(target.slopes(line)[1], -1e-3)


def laplace(
    problem: BanditProblem, counts: np.ndarray, sums: np.ndarray, rng: Generator, size: int
) -> np.ndarray:
    """The Laplace approximation: a normal distribution at the mode, with the curvature there.

    As recommended for Thompson sampling by Chapelle and Li (2011), "An Empirical Evaluation of
    Thompson Sampling", algorithm 3 (mode, and the diagonal of the curvature), and by Russo et al.
    (2018), "A Tutorial on Thompson Sampling", section 5.2.
    """
    target = Target(problem, counts, sums)
    mode, curvature = find_mode(target)
    noise = rng.standard_normal((size, problem.num_arms))
    return target.means(mode + noise / np.sqrt(-curvature))


STEP, NUM_STEPS = 0.1, 50
"""In units of the inverse curvature at the mode; 50 steps are 5 times of relaxation."""


def langevin(
    problem: BanditProblem, counts: np.ndarray, sums: np.ndarray, rng: Generator, size: int
) -> np.ndarray:
    """Unadjusted Langevin: gradient steps with noise from the mode, a chain for each draw.

    Mazumdar et al. (2020), "On Approximate Thompson Sampling with Langevin Algorithms", ask for a
    step that falls like one over the number of pulls, which is the scale of the inverse curvature,
    and for a number of steps that does not grow with the data. Here the step is a tenth of the
    inverse curvature at the mode, arm by arm, and chains begin there. Nothing is rejected, so that
    a bias of the order of the step stays.
    """
    target = Target(problem, counts, sums)
    mode, curvature = find_mode(target)
    step = STEP / -curvature
    line = np.broadcast_to(mode, (size, problem.num_arms))
    for _ in range(NUM_STEPS):
        slope = np.clip(np.nan_to_num(target.slopes(line)[0]), -1 / step, 1 / step)
        line = line + step * slope + np.sqrt(2 * step) * rng.standard_normal(line.shape)
    return target.means(line)


NUM_POINTS, NUM_ROUNDS = 30, 20


def mean_field(
    problem: BanditProblem, counts: np.ndarray, sums: np.ndarray, rng: Generator, size: int
) -> np.ndarray:
    """Mean-field variational inference: independent normal distributions.

    Kucukelbir et al. (2017), "Automatic Differentiation Variational Inference", with fixed draws in
    place of fresh ones, as Giordano, Ingram and Broderick (2024), "Black Box Variational Inference
    with a Deterministic Objective", who recommend some 30 of them. The bound's slopes are zero
    where each mean has average slope zero, and each variance is one over the average curvature:
    these two lines are repeated (Opper and Archambeau 2009, "The Variational Gaussian Approximation
    Revisited").
    """
    target = Target(problem, counts, sums)
    centre, curvature = find_mode(target)
    uniforms = stats.qmc.Sobol(centre.shape[1], seed=0).random_base2(5)[:NUM_POINTS]
    points = special.ndtri(np.vstack([uniforms, 1 - uniforms]).clip(1e-9, 1 - 1e-9))[:, None]
    for _ in range(NUM_ROUNDS):
        slopes, curvatures = target.slopes(centre + points / np.sqrt(-curvature))
        average = np.minimum(np.nan_to_num(curvatures).mean(axis=0), curvature / 10)
        curvature = (curvature + np.maximum(average, 10 * curvature)) / 2
        step = np.nan_to_num(slopes).mean(axis=0) / -curvature
        centre = centre + np.clip(step, -1.0, 1.0) / 2
    noise = rng.standard_normal((size, problem.num_arms))
    return target.means(centre + noise / np.sqrt(-curvature))


def moment_matched(
    problem: BanditProblem, counts: np.ndarray, sums: np.ndarray, rng: Generator, size: int
) -> np.ndarray:
    """A normal distribution with the moments of prior and data.

    As Gaussian Thompson sampling is mostly run (Agrawal and Goyal 2017, "Near-Optimal Regret Bounds
    for Thompson Sampling", algorithm 2, with the reward's own standard deviation in place of 1):
    the average reward of each arm with its standard error. Prior and data are matched by moments:
    the prior counts as (reward variance / prior variance) pulls that paid its mean. Draws beyond an
    end are moved to it.
    """
    mean, variance = prior_moments(problem)
    noise = problem.likelihood.reward_std(mean) ** 2
    precision = 1 / variance + counts / noise
    centre = (mean / variance + sums / noise) / precision
    draws = rng.normal(centre, precision**-0.5, (size, problem.num_arms))
    return np.clip(draws, *problem.arm_support().T)


NUM_MODELS = 30


class EnsembleSampling(Agent):
    """Ensemble sampling: models that each see the rewards with noise of their own; one is picked.

    Lu and Van Roy (2017), "Ensemble Sampling". Each model begins at a draw of the prior and is
    updated as if prior and rewards were normal, with their moments. Some tens of models are what
    they try and find to do; 30 is this study's choice. Models are kept for a run.
    """

    def __init__(self, problem: BanditProblem, *, num_models: int = NUM_MODELS) -> None:
        super().__init__(problem)
        self.num_models = num_models
        mean, variance = prior_moments(problem)
        self.noise = problem.likelihood.reward_std(mean) ** 2
        self.weight = self.noise / variance

    def _start(self) -> None:
        shape = (self.num_lanes, self.num_models, self.problem.num_arms)
        self.starts = self.problem.prior.sample(self.rng, shape)
        self.shifts = np.zeros(shape)

    def _learn(self, lanes: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> None:
        noise = self.rng.standard_normal((len(lanes), self.num_models))
        self.shifts[lanes, :, actions] += np.sqrt(self.noise[actions])[:, None] * noise

    def warm_start(self, counts: Any, sums: Any, **options: Any) -> None:
        """Add earlier data; the noise of so many rewards is drawn at once."""
        before = self.lane_counts.copy()
        super().warm_start(counts, sums, **options)
        spread = np.sqrt((self.lane_counts - before) * self.noise)[:, None]
        self.shifts += spread * self.rng.standard_normal(self.shifts.shape)

    def _choose(self) -> np.ndarray:
        chosen = self.rng.integers(self.num_models, size=self.num_lanes)
        lanes = np.arange(self.num_lanes)
        start, shift = self.starts[lanes, chosen], self.shifts[lanes, chosen]
        models = (self.weight * start + self.lane_sums + shift) / (self.weight + self.lane_counts)
        return random_argmax(self.rng, models)

    def _action_probabilities(self) -> np.ndarray:
        sums, counts = self.lane_sums[:, None], self.lane_counts[:, None]
        models = (self.weight * self.starts + sums + self.shifts) / (self.weight + counts)
        is_best = models == models.max(axis=-1, keepdims=True)
        return (is_best / is_best.sum(axis=-1, keepdims=True)).mean(axis=1)


class LogisticEnsemble(Agent):
    """Ensemble sampling where arms have features: the online double-or-nothing bootstrap.

    Eckles and Kaptein (2014), "Thompson Sampling with the Online Bootstrap". Each model begins at a
    draw of the prior (Osband and Van Roy 2015) and sees each reward twice or not at all. It moves
    to the mode of its normal approximation times the likelihood, whose curvature is added there.
    Rewards are 0 or 1, the link is logistic and the prior normal.

    Notation: N lanes, R of them that are paid, m models, d features.
    """

    takes_features = True

    def __init__(self, problem: ContextualProblem, *, num_models: int = NUM_MODELS) -> None:
        super().__init__(problem)
        self.num_models = num_models

    def _start(self) -> None:
        problem: Any = self.problem
        shape = self.num_lanes, self.num_models, problem.num_features
        self.models = problem.prior.sample(self.rng, shape)
        covariance = np.square(problem.prior.std) * np.eye(shape[-1])
        self.covariances = np.tile(covariance, (*shape[:2], 1, 1))

    def _learn(self, lanes: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> None:
        x = self.evidence.decision_features[lanes, actions]
        times = 2.0 * self.rng.integers(2, size=(len(lanes), self.num_models))
        direction = np.einsum("rmij,rj->rmi", self.covariances[lanes], x)
        variance = np.einsum("rmi,ri->rm", direction, x)
        start = np.einsum("rmi,ri->rm", self.models[lanes], x)
        residual = find_residuals(start, times * variance, rewards[:, None])
        slope = np.abs(residual) * (1 - np.abs(residual)) * times
        self.models[lanes] += (times * residual)[..., None] * direction
        shrinkage = (slope / (1 + slope * variance))[..., None, None]
        self.covariances[lanes] -= shrinkage * direction[..., None] * direction[..., None, :]

    def _choose(self) -> np.ndarray:
        lanes, chosen = self._lanes, self.rng.integers(self.num_models, size=self.num_lanes)
        values = np.einsum(
            "nkd,nd->nk", self.evidence.decision_features, self.models[lanes, chosen]
        )
        return random_argmax(self.rng, values)

    def _action_probabilities(self) -> np.ndarray:
        values = np.einsum("nkd,nmd->nmk", self.evidence.decision_features, self.models)
        return np.asarray((values == values.max(axis=-1, keepdims=True)).mean(axis=1))


def find_residuals(start: np.ndarray, step: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """Return y - s(h) where h = start + step (y - s(h)), s being the logistic function.

    The residual lies between y - 1 and y, and what is to be zero increases with it: bisection.

    Args:
        start: (R, m) predictors before.
        step: (R, m) that a residual of one moves them by, at least 0.
        rewards: (R, 1) 0 or 1.
    """
    low, high = rewards - 1 + 0 * start, rewards + 0 * start
    for _ in range(50):
        middle = (low + high) / 2
        is_above = middle > rewards - special.expit(start + step * middle)
        low, high = np.where(is_above, low, middle), np.where(is_above, middle, high)
    return np.asarray((low + high) / 2)


class KLMaillard(Agent):
    """KL-Maillard sampling: Qin, Jun and Zhang (2023), "Kullback-Leibler Maillard Sampling".

    P_a is proportional to exp(-n_a kl(m_a, max m)), m_a being the average of the n_a rewards of an
    arm. This is the likelihood of the largest average over that of the arm's own, by which rewards
    other than 0 and 1 are taken too: of Gaussian ones it is Maillard's own rule. Arms without a
    reward come first, and the prior is not asked.
    """

    def _choose(self) -> np.ndarray:
        return draw_arms(self.rng, self._action_probabilities())

    def _action_probabilities(self) -> np.ndarray:
        counts, sums = self.lane_counts, self.lane_sums
        averages, is_new = sums / np.maximum(counts, 1), counts == 0
        log_likelihood = partial(self.problem.likelihood.log_likelihood, counts=counts, sums=sums)
        with np.errstate(invalid="ignore"):  # of arms without a reward
            best = averages.max(axis=1, keepdims=True)
            shares = np.exp(log_likelihood(best) - log_likelihood(averages))
        chosen = np.where(is_new.any(axis=1, keepdims=True), is_new, shares)
        return np.asarray(chosen / chosen.sum(axis=1, keepdims=True))


UNIFORM_SHARE = 0.1
"""Share of pulls of an arm drawn evenly from all."""


class Outsider(Agent):
    """Thompson sampling from another project's approximation.

    Args:
        problem: likelihood and prior.
        sampler: name of one of the samplers above.
    """

    def __init__(self, problem: BanditProblem, *, sampler: str) -> None:
        super().__init__(problem)
        self.sampler = sampler

    def _choose(self) -> np.ndarray:
        draw, data = globals()[self.sampler], (self.lane_counts, self.lane_sums)
        means = draw(self.problem, *data, self.rng, self.num_lanes)
        return random_argmax(self.rng, means)


class Again(ExactThompson):
    """Exact Thompson sampling with a stream of its own: another run in the same environments.

    Args:
        problem: likelihood and prior.
        number: of the run.
    """

    def __init__(self, problem: BanditProblem, *, number: int) -> None:
        super().__init__(problem)
        self.number = number


class Tempered(ExactThompson):
    """Exact Thompson sampling of a posterior in which each reward counts as several, or as a part.

    As Chapelle and Li (2011), section 2.4, reshape the posterior: more than one makes it narrower
    and the favourite likelier, less than one wider.

    Args:
        problem: likelihood and prior.
        weight: how many rewards each counts as, > 0.
    """

    def __init__(self, problem: BanditProblem, *, weight: float) -> None:
        super().__init__(problem)
        self.weight = weight

    def belief(self, features: Any = None) -> Any:
        """Return what is known of the means if each reward has the weight."""
        totals = self.weight * self.lane_counts, self.weight * self.lane_sums
        evidence: Any = CountsAndSums.from_totals(*totals, is_cumulative=False)
        self._posterior.update(self.rng, evidence)
        self._found = None
        return self._posterior.predict()


class Wavering(ExactThompson):
    """Exact Thompson sampling, but one pull in ten is of any arm: it leans away from the best."""

    def _action_probabilities(self) -> np.ndarray:
        exact = super()._action_probabilities()
        return np.asarray((1 - UNIFORM_SHARE) * exact + UNIFORM_SHARE / self.problem.num_arms)

    def _choose(self) -> np.ndarray:
        other = self.rng.integers(self.problem.num_arms, size=self.num_lanes)
        return np.where(self.rng.random(self.num_lanes) < UNIFORM_SHARE, other, super()._choose())
