"""The log-likelihood of an arm's mean x, in two functions of it that tables can be made from.

In a natural exponential family the log-likelihood of n rewards of total s is linear in both,

    log L(x) = (w_00 n + w_01 s) f_1(x) + (w_10 n + w_11 s) f_2(x),

and what tells one family from another are f_1, f_2 and w:

| likelihood  | f_1   | f_2         | weight of f_1 | weight of f_2 |
|-------------|-------|-------------|---------------|---------------|
| Bernoulli   | log x | log(1 - x)  | s             | n - s         |
| exponential | log x | 1 / x       | -n            | -s            |
| Poisson     | log x | x           | s             | -n            |
| Gaussian    | x     |             |               |               |
| a user's    | theta | log L(1, 0) | s             | n             |

The Gaussian is -n (x - s / n)^2 / (2 std^2): its square is completed, for n x^2 - 2 s x would
cancel. Where the average s / n lies beyond all means, this is less what it is at the nearest, or
the square of the distance would swallow the differences between means. Of a user's likelihood theta
is what a unit of reward adds. Both of its features are kept as polynomials of degree 7 on steps of
the coordinate u so short that they are off by 1e-11 at most.

Letters: m points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from agents.numerics.families import BETA, GAMMA, INVERSE_GAMMA, NORMAL
from agents.numerics.vector_math import exp_all, log_all
from agents.posteriors.conjugate import TABLE_1, has_row
from agents.posteriors.quadrature import Coordinate
from bandit_gym.checks import message
from bandit_gym.likelihoods import Gaussian, Likelihood
from bandit_gym.numerics.compiled import inner
from bandit_gym.problem import BanditProblem

OWN = -1
"""Code of the likelihoods that have no row in Table 1."""

STEP, DEGREE = 0.25, 7
_IMPOSSIBLE = 1e290
_WEIGHTS = {
    BETA: ((0, 1), (1, -1)),
    INVERSE_GAMMA: ((-1, 0), (0, -1)),
    GAMMA: ((0, 1), (-1, 0)),
    NORMAL: ((0, 0), (0, 0)),
    OWN: ((0, 1), (1, 0)),
}


class Features(NamedTuple):
    """A likelihood, in the form that kernels read.

    Attributes:
        code: BETA, INVERSE_GAMMA, NORMAL or GAMMA by the law that is conjugate, or OWN.
        weights: (2, 2) of each feature, per pull and per unit of reward.
        precision: of a reward, if rewards are Gaussian.
        ends: (4,) lowest mean, highest mean, centre and scale of the coordinate u.
        start: u at which the polynomials begin.
        polynomials: (S, 2, DEGREE + 1) of both features in t, from 0 to 1 along a step, for OWN.
    """

    code: int
    weights: np.ndarray
    precision: float
    ends: np.ndarray
    start: float
    polynomials: np.ndarray


def make_features(problem: BanditProblem, coordinate: Coordinate) -> Features:
    """Describe the problem's likelihood over a coordinate."""
    likelihood = problem.likelihood
    code = TABLE_1[type(likelihood)].law.code if has_row(likelihood) else OWN
    precision = likelihood.std**-2.0 if isinstance(likelihood, Gaussian) else 0.0
    ends = np.array([coordinate.low, coordinate.high, coordinate.centre, coordinate.scale])
    polynomials = np.zeros((1, 2, DEGREE + 1))
    if code == OWN:
        polynomials = _fit_polynomials(likelihood, coordinate)
    weights = np.array(_WEIGHTS[code], dtype=np.float64)
    return Features(code, weights, precision, ends, float(coordinate.limits[0]), polynomials)


def features_at(problem: BanditProblem, coordinate: Coordinate, u: np.ndarray) -> np.ndarray:
    """Return (2, ...) both features at u of any shape; what `set_features` does, in NumPy."""
    means = coordinate.means(u)
    if not has_row(problem.likelihood):
        return own_features(problem.likelihood, coordinate, means)
    code = TABLE_1[type(problem.likelihood)].law.code
    with np.errstate(all="ignore"):
        if code == BETA:
            return np.log([means, (1 - coordinate.high) + coordinate.rests(u)])
        if code == NORMAL:
            return np.stack([means, means])
        return np.stack([np.log(means), 1 / means if code == INVERSE_GAMMA else means])


def own_features(likelihood: Likelihood, coordinate: Coordinate, means: np.ndarray) -> np.ndarray:
    """Return (2, ...) what a unit of reward and what a pull add to a likelihood of one's own.

    Any two rewards tell; those taken are far apart, and possible at a typical mean.
    """
    typical = coordinate.means(np.arange(-4.0, 5.0))[:, None]
    rewards = np.unique(likelihood.sample(typical, np.arange(0.01, 1.0, 0.01)))
    low, high = float(rewards[0]), float(rewards[-1])
    with np.errstate(all="ignore"):
        one = likelihood.log_likelihood(means, 1, low)
        other = likelihood.log_likelihood(means, 1, high)
        unit = (other - one) / (high - low)
        pull = one - low * unit
    is_nan = np.isnan(one) | np.isnan(other)
    if is_nan.any():
        mean = float(np.broadcast_to(means, is_nan.shape)[is_nan][0])
        condition = f"be a number or -inf at every mean, the mean {mean:g} among them"
        raise ValueError(message("likelihood.log_likelihood", condition, np.nan))
    is_lost = ~(np.isfinite(unit) & np.isfinite(pull))  # where both are -inf, nothing is possible
    return np.stack([np.where(is_lost, 0.0, unit), np.where(is_lost, -_IMPOSSIBLE, pull)])


def _fit_polynomials(likelihood: Likelihood, coordinate: Coordinate) -> np.ndarray:
    first, last = coordinate.limits
    nodes = (1 - np.cos(np.pi * np.arange(DEGREE + 1) / DEGREE)) / 2
    starts = np.arange(first, last, STEP)
    means = coordinate.means(np.minimum(starts[:, None] + STEP * nodes, last))
    values = own_features(likelihood, coordinate, means)
    is_lost = (values[1] == -_IMPOSSIBLE).any(axis=-1)  # steps that no polynomial could follow
    values[:, is_lost] = 0.0
    to_powers = np.linalg.inv(np.vander(nodes, increasing=True))
    polynomials = np.ascontiguousarray((values @ to_powers.T).transpose(1, 0, 2))
    polynomials[is_lost, 1, 0] = -_IMPOSSIBLE
    return polynomials


class Data(NamedTuple):
    """What an arm paid: its number of pulls, and the sum of the rewards."""

    pulls: float
    total: float


@inner
def set_means(ends: np.ndarray, u: np.ndarray, x: np.ndarray, spare: np.ndarray) -> None:
    """Set x (m,) to x(u), see `agents.posteriors.quadrature.Coordinate`."""
    low, high, centre, scale = ends[0], ends[1], ends[2], ends[3]
    if low == -np.inf and high == np.inf:
        for j in range(u.size):
            x[j] = centre + scale * np.sinh(u[j])
        return
    sign = 1.0 if high == np.inf else -1.0
    for j in range(u.size):
        x[j] = sign * u[j]
    exp_all(x, spare)
    for j in range(u.size):
        if high == np.inf:
            x[j] = low + scale * x[j]
        elif low == -np.inf:
            x[j] = high - scale * x[j]
        else:
            x[j] = low + (high - low) / (1.0 + x[j])


@inner
def set_logs(
    ends: np.ndarray, u: np.ndarray, log_x: np.ndarray, log_rest: np.ndarray, spare: np.ndarray
) -> None:
    """Set log_x (m,) to log x(u) and log_rest (m,) to log(1 - x(u)).

    Where means may be anything from 0 to 1, one logarithm gives both.
    """
    low, high = ends[0], ends[1]
    for j in range(u.size):
        log_x[j] = -u[j]
    exp_all(log_x, spare)
    if low == 0.0 and high == 1.0:
        for j in range(u.size):
            log_x[j] += 1.0
        log_all(log_x, spare)
        for j in range(u.size):
            log_x[j] = -log_x[j]
            log_rest[j] = log_x[j] - u[j]
        return
    for j in range(u.size):
        part = 1.0 / (1.0 + log_x[j])
        log_rest[j] = (1.0 - high) + (high - low) * (log_x[j] * part)
        log_x[j] = low + (high - low) * part
    log_all(log_x, spare)
    log_all(log_rest, spare)


@inner
def evaluate_polynomials(
    features: Features, u: np.ndarray, first: np.ndarray, second: np.ndarray
) -> None:
    """Set first (m,) and second (m,) to a user's features at u."""
    num_steps = features.polynomials.shape[0]
    for j in range(u.size):
        place = (u[j] - features.start) / STEP
        step = min(max(int(place), 0), num_steps - 1)
        t, c = place - step, features.polynomials[step]
        a, b = c[0, DEGREE], c[1, DEGREE]
        for power in range(DEGREE - 1, -1, -1):
            a, b = a * t + c[0, power], b * t + c[1, power]
        first[j], second[j] = a, b


@inner
def set_features(
    features: Features, u: np.ndarray, first: np.ndarray, second: np.ndarray, spare: np.ndarray
) -> None:
    """Set first (m,) and second (m,) to f_1 and f_2 at u; `spare` (m,) is overwritten."""
    if features.code == OWN:
        evaluate_polynomials(features, u, first, second)
    elif features.code == BETA:
        set_logs(features.ends, u, first, second, spare)
    elif features.code == NORMAL:
        set_means(features.ends, u, first, spare)
    else:
        set_means(features.ends, u, second, spare)
        for j in range(u.size):
            first[j] = second[j]
        log_all(first, spare)
        if features.code == INVERSE_GAMMA:
            for j in range(u.size):
                second[j] = 1.0 / second[j]


@inner
def add_multiple(factor: float, x: np.ndarray, out: np.ndarray) -> None:
    """Add factor * x (m,) to `out` (m,), and nothing if the factor is 0, whatever x."""
    if factor != 0.0:
        for j in range(x.size):
            out[j] += factor * x[j]


@inner
def add_log_likelihood(
    features: Features, data: Data, first: np.ndarray, second: np.ndarray, out: np.ndarray
) -> None:
    """Add the log-likelihood, up to a constant, to `out` (m,), given f_1 and f_2 (m,)."""
    if features.code == NORMAL:
        average, factor = data.total / data.pulls, -0.5 * data.pulls * features.precision
        nearest = min(max(average, features.ends[0]), features.ends[1])
        for j in range(first.size):
            out[j] += factor * (first[j] - nearest) * (first[j] + (nearest - 2.0 * average))
        return
    w = features.weights
    add_multiple(w[0, 0] * data.pulls + w[0, 1] * data.total, first, out)
    add_multiple(w[1, 0] * data.pulls + w[1, 1] * data.total, second, out)
