"""Checks of a prior of a user's own: a few whenever a problem is made, all of them on request.

Notation: K arms, n draws, F functions.
"""

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from bandit_gym.checks import call_method, check_all, check_integer, message
from bandit_gym.checks.typing import BoolArray, FloatArray
from bandit_gym.priors.base import Prior, offers
from bandit_gym.priors.independent import get_stated_support

NUM_CHECK_DRAWS, NUM_METROPOLIS_STEPS = 1000, 20
FALSE_ALARM_LEVEL = 1e-6
"""Probability that methods which agree are said to disagree."""

MAX_WIDTHS, HEAVY_WIDTHS = 1000.0, 20.0
"""Draws beyond so many widths of the middle half count as at that distance. A deviation beyond so
many widths is of heavy tails, and says nothing of the size of a step."""

MIN_STEP_SCALE, MAX_STEP_SCALE = 0.1, 3.0
"""Steps of the random walk in standard deviations, drawn evenly on the log scale."""

LogDensityFunction = Callable[[FloatArray], FloatArray]


def check_prior(prior: Prior, likelihood: Any = None, num_arms: int | None = None) -> None:
    """Try a prior of your own, and raise at the first fault that is found.

    A problem checks shapes, NaN and supports when it is made. This function also asks whether
    `sample` draws from the distribution that `log_density` describes, which need not be normalised,
    but must integrate and be -inf outside the support.

    Args:
        prior: anything with `sample` and `log_density`.
        likelihood: of the rewards, which says what means are possible. None: all finite ones.
        num_arms: K. None: the prior's own `num_arms`, or 3 where it has none.

    Raises:
        TypeError: if the prior lacks a method.
        ValueError: saying in one sentence what is wrong.
    """
    if not offers(prior, "log_density"):
        raise TypeError(message("prior", "have the methods sample and log_density", prior))
    known = getattr(prior, "num_arms", None) if num_arms is None else num_arms
    num_tried = check_integer("num_arms", 3 if known is None else known, minimum=1)
    check_draws(prior, likelihood, num_tried)
    _check_agreement(prior, likelihood, num_tried)


def check_draws(prior: Prior, likelihood: Any, num_arms: int) -> None:
    """Refuse a prior that returns wrong shapes, NaN, or means outside of its support.

    Without a likelihood, None, all finite means are possible.

    Raises:
        ValueError: saying in one sentence what is wrong.
    """
    rng = np.random.default_rng(0)
    name = "prior.support"
    support = call_method(name, (num_arms, 2), get_stated_support, prior, num_arms)
    low, high = support.T
    if not (low < high).all():
        raise ValueError(message(name, "be ends that rise", support.tolist()))
    for shape in ((num_arms,), (50, num_arms), (3, 2, num_arms)):
        twin = copy.deepcopy(rng)
        means = call_method(f"prior.sample(rng, {shape})", shape, prior.sample, rng, shape)
        again: Any = prior.sample(twin, shape)
        if not (isinstance(again, np.ndarray) and np.array_equal(means, again, equal_nan=True)):
            condition = "return an array that is drawn from its generator alone"
            raise ValueError(message("prior.sample", condition, again))
        condition = f"draw means that {getattr(likelihood, 'name', 'finite')} rewards can have"
        check_all("prior.sample", _is_possible(likelihood, means), condition, means)
        densities = _compute_log_densities(prior, means)
        if (densities == -np.inf).all():
            condition = "be a number at the prior's own draws, and not -inf at all of them"
            raise ValueError(message("prior.log_density", condition, densities))
        if offers(prior, "arm_log_density"):
            _check_arms(prior, means, densities)
        for index in np.argwhere((means < low) | (means > high))[:1]:
            ends = f"[{low[index[-1]]:g}, {high[index[-1]]:g}] for arm {index[-1]}"
            condition = f"contain the prior's own draws, {ends}"
            raise ValueError(message(name, condition, means[tuple(index)]))


def _is_possible(likelihood: Any, means: FloatArray) -> BoolArray:
    return np.isfinite(means) if likelihood is None else likelihood.contains(means)


def _compute_log_densities(prior: Prior, means: FloatArray) -> FloatArray:
    """Return the prior's log-densities of (..., K) means, none of them NaN or +inf."""
    name = f"prior.log_density(means of shape {means.shape})"
    densities = call_method(name, means.shape[:-1], prior.log_density, means)
    is_wrong = ~(densities < np.inf)
    if is_wrong.any():
        condition = f"be finite or -inf, also at means {means[is_wrong][0]}"
        raise ValueError(message("prior.log_density", condition, densities[is_wrong][0]))
    return densities


def _check_arms(prior: Any, means: FloatArray, densities: FloatArray) -> None:
    """Refuse densities of single arms that do not make up that of all arms, up to a constant."""
    name = f"prior.arm_log_density(means of shape {means.shape})"
    totals = call_method(name, means.shape, prior.arm_log_density, means).sum(axis=-1)
    totals, densities = np.atleast_1d(totals, densities)
    is_finite = np.isfinite(densities)
    gaps = totals[is_finite] - densities[is_finite]
    size = max(1.0, float(np.abs(densities[is_finite]).max(initial=0.0)))
    if gaps.size and not (np.isfinite(gaps).all() and np.ptp(gaps) <= 1e-6 * size):
        condition = "add up over the arms to log_density and a constant"
        raise ValueError(message("prior.arm_log_density", condition, gaps[:3]))


def _check_agreement(prior: Prior, likelihood: Any, num_arms: int) -> None:
    """Refuse a prior whose `sample` does not draw from the distribution of its `log_density`."""

    def log_density(means: FloatArray) -> FloatArray:
        is_possible = _is_possible(likelihood, means).all(axis=1)
        values = np.full(len(means), -np.inf)
        if is_possible.any():
            values[is_possible] = _compute_log_densities(prior, means[is_possible])
        return values

    rng = np.random.default_rng(0)
    shape = NUM_CHECK_DRAWS, num_arms
    pilot, draws = (np.asarray(prior.sample(rng, shape), dtype=np.float64) for _ in range(2))
    drift = find_drift(pilot, draws, log_density)
    if drift is not None:
        methods = "prior.sample and prior.log_density"
        raise ValueError(f"{methods} must describe the same distribution, got {drift}.")


def find_drift(pilot: FloatArray, draws: FloatArray, log_density: LogDensityFunction) -> str | None:
    """Say in words how draws drift under a density; None if by no more than chance allows.

    If X has the density, so has the end X' of a Metropolis chain that starts at X and keeps that
    density. The chain is reversible: (X, X') and (X', X) have the same distribution, and f(X') -
    f(X) is symmetric about 0 for every f. The sum of n symmetric differences D is beyond z sqrt(sum
    D^2) with probability at most 2 exp(-z^2 / 2), for any tails (Hoeffding 1963). So neither
    normalisation, dimension nor a good proposal matters.

    Args:
        pilot: (n, K) draws that set the size of the steps, from centre and width where tails are
            heavy.
        draws: (n, K) other draws, from which the chains start.
        log_density: of (n, K) means, -inf outside the support.
    """
    rng = np.random.default_rng(1)
    centre = np.median(pilot, axis=0)
    width = 1.4826 * np.median(np.abs(pilot - centre), axis=0)  # of normal draws their deviation
    farthest = np.where(width > 0, MAX_WIDTHS * width, np.inf)
    bounded = np.clip(pilot, centre - farthest, centre + farthest)
    spread = bounded.std(axis=0)
    spread = np.where(spread > 0, spread, 0.1 * np.maximum(np.abs(centre), 1.0))
    precision = np.linalg.pinv(np.atleast_2d(np.cov(bounded, rowvar=False)), hermitian=True)
    if (is_heavy := (width > 0) & (spread > HEAVY_WIDTHS * width)).any():  # half of the chains
        is_short = np.random.default_rng(2).random((len(draws), 1)) < 0.5
        spread = np.where(is_heavy & is_short, width, spread)

    def summarise(means: FloatArray, log_densities: FloatArray) -> FloatArray:
        """Return the (n, F) numbers whose averages may drift."""
        differences = means - centre
        near = np.clip(differences, -farthest, farthest)
        distances = np.einsum("ni,ij,nj->n", near, precision, near)
        clipped = np.clip(log_densities, -1e6, 1e6)
        return np.column_stack([means, np.abs(differences), distances, clipped])

    moved = start = draws, log_density(draws)
    for _ in range(NUM_METROPOLIS_STEPS):
        moved = _metropolis_step(rng, *moved, spread, log_density)
    before, after = summarise(*start), summarise(*moved)
    change = after - before
    size = np.sqrt(np.square(change).sum(axis=0))
    scores = np.abs(np.divide(change.sum(axis=0), size, out=np.zeros_like(size), where=size > 0))
    worst = int(scores.argmax())
    limit = math.sqrt(2 * math.log(2 * len(scores) / FALSE_ALARM_LEVEL))
    if scores[worst] <= limit:
        return None
    arms = range(draws.shape[1])
    names = [f"mean of arm {arm}" for arm in arms]
    names += [f"distance of arm {arm} from its median" for arm in arms]
    names += ["squared distance of all arms from their medians, in covariances", "log-density"]
    return (
        f"an average {names[worst]} of {before[:, worst].mean():.4g} over {len(draws)} draws and "
        f"{after[:, worst].mean():.4g} after {NUM_METROPOLIS_STEPS} Metropolis steps under "
        f"log_density, {scores[worst]:.1f} root sums of squares apart, chance allows {limit:.1f}"
    )


def _metropolis_step(
    rng: Generator,
    means: FloatArray,
    current: FloatArray,
    spread: FloatArray,
    log_density: LogDensityFunction,
) -> tuple[FloatArray, FloatArray]:
    """Do one Metropolis step of each chain, in one arm or, as often, in all of them."""
    num_draws, num_arms = means.shape
    log_sizes = rng.uniform(math.log(MIN_STEP_SCALE), math.log(MAX_STEP_SCALE), (num_draws, 1))
    is_alone = rng.random((num_draws, 1)) < 0.5
    is_chosen = np.arange(num_arms) == rng.integers(num_arms, size=(num_draws, 1))
    share = np.where(is_alone, is_chosen, 1 / math.sqrt(num_arms))
    proposed = means + np.exp(log_sizes) * share * spread * rng.standard_normal(means.shape)
    density = log_density(proposed)
    with np.errstate(invalid="ignore"):  # from outside the support to outside the support
        is_accepted = density - current > -rng.standard_exponential(num_draws)
    means = np.where(is_accepted[:, None], proposed, means)
    return means, np.where(is_accepted, density, current)
