"""Checks of a likelihood of a user's own: a few whenever a problem is made, all on request.

Notation: M means on trial, S statistics, U uniforms.
"""

from math import inf, nan
from typing import Any

import numpy as np

from bandit_gym.checks import call_method, check_all, check_object, message
from bandit_gym.checks.typing import BoolArray, FloatArray
from bandit_gym.likelihoods.built_in import LIKELIHOODS, Likelihood

_ROUNDING_TOLERANCE = 1e-9
"""Of rounding, relative to the largest number of a comparison."""

_MEAN_OFFSETS = np.array([0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 10.0, 100.0])
_TAIL_PROBABILITIES = 2.0 ** -np.arange(2, 54)
_UNIFORMS = np.sort(
    [0.0, *_TAIL_PROBABILITIES, *np.linspace(0.02, 0.98, 49), *(1 - _TAIL_PROBABILITIES)]
)
_EVEN_UNIFORMS = (np.arange(500) + 0.5) / 500
_MAX_AVERAGE_ERROR = 0.05
"""Of an average over so many quantiles, in their deviations: 0.0007 for an exponential's tail."""

_MANY_UNIFORMS = (np.arange(20_000) + 0.5) / 20_000
_MAX_RATIO_ERROR = 0.03
"""Of an average likelihood ratio over so many quantiles, which miss what is beyond the last: 0.005
of an exponential's, and less of the other built-in likelihoods'."""
_MIN_STD_RATIO = 0.8  # of a stated deviation to that of so many rewards, which lack the rarest
_FOUR_COLUMNS = np.searchsorted(_UNIFORMS, [0.1, 0.4, 0.6, 0.9])  # rewards that make up statistics


def check_likelihood(likelihood: Likelihood) -> None:
    """Try a likelihood of your own, and raise at the first fault that is found.

    A problem checks shapes, NaN and the support when it is made. This function also asks whether
    rewards average the mean and rise with the uniform, and whether `log_likelihood` adds up over
    rewards, is largest at their average, is -inf outside the support, and describes the rewards
    that `sample` draws.

    Raises:
        TypeError: if it is no likelihood.
        ValueError: saying in one sentence what is wrong.
    """
    means, rewards = check_values(likelihood)
    with np.errstate(all="ignore"):
        is_falling = np.diff(rewards, axis=1) < -_ROUNDING_TOLERANCE * np.abs(rewards[:, 1:])
        _refuse("sample", "not fall as the uniform rises", rewards[:, 1:], is_falling)
        _check_outside(likelihood)
        _check_linear(likelihood, means, rewards[:, _FOUR_COLUMNS])
        _check_maximum(likelihood, means)
        _check_average(likelihood, means)
        check_ratios(likelihood, means)


def check_values(likelihood: Any) -> tuple[FloatArray, FloatArray]:
    """Refuse a likelihood that returns wrong shapes, NaN, or rewards that it says cannot be.

    Returns:
        (M,) possible means and (M, U) rewards under them.

    Raises:
        TypeError: if it is no likelihood.
        ValueError: saying in one sentence what is wrong.
    """
    remedy = "one of your own is a subclass of bandit_gym.likelihoods.Likelihood"
    check_object("likelihood", likelihood, Likelihood, remedy)  # type: ignore[type-abstract]
    name = getattr(likelihood, "name", None)
    if not isinstance(name, str):
        raise TypeError(message("likelihood.name", "be a string", name))
    if LIKELIHOODS.get(name, type(likelihood)) is not type(likelihood):
        raise ValueError(message("likelihood.name", "be none of a built-in likelihood", name))
    with np.errstate(all="ignore"):
        means = _choose_means(likelihood)
        rewards = _call(likelihood, "sample", means[:, None], _UNIFORMS)
        is_possible = _call(likelihood, "is_possible", rewards).astype(bool)
        _refuse("sample", "draw rewards that is_possible accepts", rewards, ~is_possible)
        _log_likelihoods(likelihood, means, 1, rewards[len(means) // 2, _FOUR_COLUMNS, None])
    return means, rewards


def _choose_means(likelihood: Likelihood) -> FloatArray:
    """Return (M,) possible means over all of the support, an end among them if it is possible."""
    support: Any = getattr(likelihood, "support", None)
    if np.shape(support) != (2,) or not support[0] < support[1]:
        raise ValueError(message("likelihood.support", "be a pair of numbers that rise", support))
    low, high = support
    end = next((end for end in support if np.isfinite(end)), 0.0)
    means = end + np.sort([*-_MEAN_OFFSETS[1:], *_MEAN_OFFSETS])
    if np.isfinite(support).all():
        means = np.linspace(low, high, 9)
    means = means[(means >= low) & (means <= high)]
    means = means[_call(likelihood, "contains", means).astype(bool)]
    if len(means) < 3:
        condition = f"be True for means between {low:g} and {high:g}"
        raise ValueError(message("likelihood.contains", condition, means.tolist()))
    return means


def _check_average(likelihood: Likelihood, means: FloatArray) -> None:
    """Refuse rewards whose average over all uniforms is not the mean, inside the support."""
    low, high = likelihood.support
    means = means[(means > low) & (means < high)]
    rewards = _call(likelihood, "sample", means[:, None], _EVEN_UNIFORMS)
    average, spread = rewards.mean(axis=1), rewards.std(axis=1)
    allowed = _MAX_AVERAGE_ERROR * spread + _ROUNDING_TOLERANCE * np.abs(means)
    is_wrong = np.abs(average - means) > allowed
    mean = means[is_wrong][0] if is_wrong.any() else nan
    _refuse("sample", f"draw rewards that average the mean, {mean:g}", average, is_wrong)


def check_ratios(likelihood: Likelihood, means: FloatArray) -> None:
    """Refuse a density of other rewards than `sample` draws.

    Let p be the density of rewards under a mean m, and q that under another one. Rewards of m have
    E[q / p] = 1, whatever the distribution. The other mean is a standard deviation of a reward away
    from m, towards the farther end of the support: near an end, q / p may be too uneven to average.

    Args:
        likelihood: the one on trial.
        means: (M,), of which those at an end of the support, whose rewards are certain, are left
            out.
    """
    stds = _call(likelihood, "reward_std", means)
    drawn = _call(likelihood, "sample", means[:, None], _MANY_UNIFORMS).std(axis=1)
    is_small = ~(stds >= _MIN_STD_RATIO * drawn)
    below, above = means - likelihood.support[0], likelihood.support[1] - means
    others = np.concatenate([(means + stds)[above >= below], (means - stds)[below >= above]])
    means = np.concatenate([means[above >= below], means[below >= above]])
    is_tried = (others != means) & _call(likelihood, "contains", others).astype(bool)
    for mean, other in zip(means[is_tried], others[is_tried], strict=True):
        rewards = _call(likelihood, "sample", mean, _MANY_UNIFORMS)
        logs = [_call(likelihood, "log_likelihood", m, 1.0, rewards) for m in (other, mean)]
        ratio = np.exp(logs[0] - logs[1]).mean(keepdims=True)
        condition = (
            f"describe the rewards that sample draws at the mean {mean:g}: there the likelihood of "
            f"the mean {other:g} divided by that of {mean:g} must average 1"
        )
        _refuse("log_likelihood", condition, ratio, ~(np.abs(ratio - 1) <= _MAX_RATIO_ERROR))
    condition = "be the standard deviation of the rewards that sample draws"
    _refuse("reward_std", condition, stds, is_small)


def _check_outside(likelihood: Likelihood) -> None:
    """Refuse a likelihood that takes NaN, infinity or means beyond the support for possible."""
    not_finite = np.array([nan, inf, -inf])
    accepted = _call(likelihood, "is_possible", not_finite).astype(bool)
    _refuse("is_possible", "be False for NaN and infinity", not_finite, accepted)
    low, high = likelihood.support
    outside = np.array([low - 1, high + 1, *not_finite])
    values = _call(likelihood, "log_likelihood", outside, 1.0, np.clip(0.5, low, high))
    _refuse("log_likelihood", "be -inf at means outside the support", values, values != -inf)


def _check_linear(likelihood: Likelihood, means: FloatArray, rewards: FloatArray) -> None:
    """Refuse a log-likelihood that is no number, or does not add up over rewards.

    Args:
        likelihood: the one on trial.
        means: (M,).
        rewards: (M, 4), four drawn at each mean.
    """
    first, rest = rewards[:, :1], rewards[:, 1:].sum(axis=1, keepdims=True)
    one, three, four = (
        _log_likelihoods(likelihood, means, count, total)
        for count, total in ((1, first), (3, rest), (4, first + rest))
    )
    gaps = four - one - three
    gaps -= gaps[:, [len(means) // 2]]  # terms without the mean need not add up
    sizes = 1 + np.abs([one, three, four]).max(axis=0, where=np.isfinite(gaps), initial=0.0)
    is_wrong = np.isfinite(gaps) & (np.abs(gaps) > _ROUNDING_TOLERANCE * sizes.max())
    condition = "be linear in counts and sums, up to a term without the mean"
    _refuse("log_likelihood", condition, gaps, is_wrong)


def _check_maximum(likelihood: Likelihood, means: FloatArray) -> None:
    """Refuse a likelihood of rewards that is larger elsewhere than at their average."""
    values = _log_likelihoods(likelihood, means, 1, means[:, None])
    at_average = np.diag(values)[:, None]
    is_wrong = values > at_average + _ROUNDING_TOLERANCE * (1 + np.abs(at_average))
    condition = "be largest where the mean is the rewards' average"
    _refuse("log_likelihood", condition, np.broadcast_to(means, values.shape), is_wrong)


def _log_likelihoods(
    likelihood: Likelihood, means: FloatArray, count: int, sums: FloatArray
) -> FloatArray:
    """Return (S, M) log-likelihoods of (S, 1) sums of `count` rewards, none of them NaN or inf."""
    values = _call(likelihood, "log_likelihood", means, np.full_like(sums, count), sums)
    _refuse("log_likelihood", "be finite or -inf at possible means", values, ~(values < inf))
    return values


def _call(likelihood: Likelihood, method: str, *arguments: FloatArray | float) -> FloatArray:
    """Return what the method returns, in the shape to which its arguments broadcast."""
    shapes = [np.shape(argument) for argument in arguments]
    name = f"likelihood.{method}(arguments of shapes {', '.join(map(str, shapes))})"
    return call_method(name, np.broadcast_shapes(*shapes), getattr(likelihood, method), *arguments)


def _refuse(method: str, condition: str, values: FloatArray, is_wrong: BoolArray) -> None:
    check_all(f"likelihood.{method}", ~is_wrong, condition, values)
