"""Trying a prior of a user's own, so that what is wrong with it is said before it is used.

Letters: K arms, n draws.
"""

import warnings
from typing import Any, ClassVar, Protocol

import numpy as np

from bandit_gym.checks import call, message
from bandit_gym.priors import consistency
from bandit_gym.priors.base import Prior, offers, stated_support, support_name
from bandit_gym.typing import BoolArray, FloatArray, RealArray

_NUM_TRIAL_DRAWS = 50
_BEYOND = np.array([1e-3, 0.1, 1.0])
"""How far beyond a stated end densities are asked for, in distances of a draw from an end."""


class MeanRule(Protocol):
    """What says which means there are; a likelihood does."""

    name: ClassVar[str]
    support: ClassVar[tuple[float, float]]

    def contains(self, means: RealArray) -> BoolArray:
        """Return which means are possible."""


def try_prior(prior: Prior, rule: MeanRule, num_arms: int) -> None:
    """Refuse a prior whose methods do on a few draws what they should not.

    Raises:
        ValueError: saying in one sentence what is wrong.

    Warns:
        UserWarning: if draws of `sample` do not have the law of `log_density`.
    """
    rng = np.random.default_rng(0)
    for shape in ((num_arms,), (_NUM_TRIAL_DRAWS, num_arms), (3, 2, num_arms)):
        means = call(f"prior.sample(rng, {shape})", shape, prior.sample, rng, shape)
        is_possible = rule.contains(means)
        if not is_possible.all():
            condition = f"draw means that {rule.name} rewards can have"
            raise ValueError(message("prior.sample", condition, means[~is_possible][0]))
        densities = _ask(prior, means)
        if (densities == -np.inf).all():
            condition = "be a number at the prior's own draws, and not -inf at all of them"
            raise ValueError(message("prior.log_density", condition, densities))
        _check_inside(prior, means)
        if offers(prior, "arm_log_density"):
            _check_arms(prior, means, densities)
    _check_outside(prior, rule, means[0, 0])
    _warn_of_disagreement(prior, rule, num_arms)


def _check_inside(prior: Prior, means: FloatArray) -> None:
    """Refuse a stated support without the prior's own draws: agents would never look there."""
    low, high = _stated_support(prior, means.shape[-1]).T
    is_outside = (means < low) | (means > high)
    if is_outside.any():
        place = tuple(np.argwhere(is_outside)[0])
        arm = int(place[-1])
        condition = f"contain the prior's own draws, [{low[arm]:g}, {high[arm]:g}] for arm {arm}"
        raise ValueError(message(f"prior.{support_name(prior)}", condition, float(means[place])))


def _check_outside(prior: Prior, rule: MeanRule, means: FloatArray) -> None:
    """Refuse a stated support beyond which there is density: some agents would look there.

    Args:
        prior: the one on trial.
        rule: beyond its means, no density is asked for.
        means: (K,) a draw of the prior; one arm at a time is moved out of its interval.
    """
    for arm, (low, high) in enumerate(_stated_support(prior, len(means))):
        ends = np.array([end for end in (low, high) if np.isfinite(end)])
        width = np.array([*np.abs(ends - means[arm]), 0.0]).max() or 1.0
        beyond = np.concatenate([low - _BEYOND * width, high + _BEYOND * width])
        beyond = beyond[np.isfinite(beyond) & rule.contains(beyond)]
        moved = np.tile(means, (len(beyond), 1))
        moved[:, arm] = beyond
        densities = _ask(prior, moved)
        is_wrong = densities != -np.inf
        if is_wrong.any():
            place = f"at mean {beyond[is_wrong][0]:.4g} of arm {arm}"
            condition = f"hold all means of finite log_density, which is not -inf {place}"
            raise ValueError(
                message(f"prior.{support_name(prior)}", condition, densities[is_wrong][0])
            )


def _stated_support(prior: Prior, num_arms: int) -> FloatArray:
    """Return the (K, 2) ends that the prior states, all means if it states none."""
    name, shape = support_name(prior), (num_arms, 2)
    if name is None:
        return np.tile([-np.inf, np.inf], (num_arms, 1))
    support = call(f"prior.{name}", shape, stated_support, prior, num_arms)
    if not (support[:, 0] < support[:, 1]).all():
        raise ValueError(message(f"prior.{name}", "be ends that rise", support.tolist()))
    return support


def _check_arms(prior: Any, means: FloatArray, densities: FloatArray) -> None:
    """Refuse densities of single arms that do not make up that of all arms, up to a constant."""
    name = f"prior.arm_log_density(means of shape {means.shape})"
    gaps = call(name, means.shape, prior.arm_log_density, means).sum(axis=-1) - densities
    gaps = gaps[np.isfinite(gaps)]
    size = max(1.0, float(np.abs(densities[np.isfinite(densities)]).max(initial=0.0)))
    if gaps.size and np.ptp(gaps) > 1e-6 * size:
        condition = "add up over the arms to log_density and a constant"
        raise ValueError(message("prior.arm_log_density", condition, gaps[:3]))


def _ask(prior: Prior, means: FloatArray) -> FloatArray:
    """Return the prior's log-densities of (..., K) means, none of them NaN or +inf."""
    name = f"prior.log_density(means of shape {means.shape})"
    densities = call(name, means.shape[:-1], prior.log_density, means)
    is_wrong = ~(densities < np.inf)
    if is_wrong.any():
        condition = f"be finite or -inf, also at means {means[is_wrong][0]}"
        raise ValueError(message("prior.log_density", condition, densities[is_wrong][0]))
    return densities


def _warn_of_disagreement(prior: Prior, rule: MeanRule, num_arms: int) -> None:
    """Warn if draws of a user's `sample` do not have the law of its `log_density`."""
    shape = (consistency.NUM_DRAWS, num_arms)
    rng = np.random.default_rng(0)
    pilot, draws = (np.asarray(prior.sample(rng, shape), dtype=np.float64) for _ in range(2))
    log_density = consistency.restrict(lambda means: _ask(prior, means), rule.contains)
    drift = consistency.find_drift(pilot, draws, log_density)
    if drift is not None:
        text = (
            "prior.sample and prior.log_density must describe the same law, got ones that do not: "
            f"over {shape[0]} draws the average {drift.name} is {drift.before:.4g}, and after "
            f"{consistency.NUM_STEPS} Metropolis steps that keep the law of log_density it is "
            f"{drift.after:.4g}, a change of {drift.num_errors:.1f} root sums of squares where "
            f"chance allows {drift.limit:.1f} (at level {consistency.LEVEL:g}); environments draw "
            "from sample, agents believe log_density, which need not be normalised but must "
            "integrate and be -inf outside the support."
        )
        warnings.warn(text, stacklevel=5)  # the caller of BanditProblem
