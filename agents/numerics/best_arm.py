"""The probability that each of K independent arms is the best, computed and not drawn.

With f_i the density of arm i's mean and F_i its distribution function,

    P(arm i is best) = integral of f_i(u) prod_{j != i} F_j(u) du.

For the distributions of Table 1 one march does it. All arms share a line u on which densities are
smooth and log-concave (`agents.numerics.families`), and a log-density is linear in two features of
u: a node costs an arm two multiplications and an exponential. The march goes down from the highest
upper end in panels of Gauss-Legendre nodes, until it is certain that some arm is above. What lies
to the right of a node is integrated by the same nodes, and F_i is 1 less that; so no special
function is called, and normalising constants are those of Stirling's series.

Other densities are integrated between the quantiles of all arms, where they bend.

Notation: K arms, N lanes, Q nodes of a panel, M nodes in all.

References:
    Jeunen (2025), "Exact propensities", RecSys, enumerates the same integral for Beta posteriors
    with integer parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

from agents.numerics.choices import raise_to_floor
from agents.numerics.distributions import (
    BETA,
    BETA_DISTRIBUTION,
    GAMMA,
    GAMMA_DISTRIBUTION,
    INVERSE_GAMMA,
    INVERSE_GAMMA_DISTRIBUTION,
    NORMAL,
    NORMAL_DISTRIBUTION,
    MeanDistributions,
)
from agents.numerics.families import centred_log_density, find_mode_and_curvature
from bandit_gym.checks import check_available, check_choice, check_numbers, message
from bandit_gym.checks.typing import FloatArray
from bandit_gym.numerics.compiled import inner, kernel

LOG_REACH = 20.0
"""Densities below e^-20 of their top are left out: a mass of 1e-10."""
MAX_REST = 1e-9
"""The march ends where the chance that all arms are below is less."""
STEP, SLOPE_WEIGHT = 1.5, 0.2
"""Length of a panel, over the length in which the log-density of some arm bends; and how much of
its slope counts as bend."""
MAX_MISSING, MIN_STEP = 3e-7, STEP / 16
"""Sums of probabilities further from 1 have their lane done again, in panels of half the length."""

MAX_LENGTH = 1.5
"""Length in which arms are taken to bend that bend less: their features have poles at distance pi
from the line, and where a slow tail ends in a steep fall the bend at neither of two points shows
it. With 4.9 at u = 16, Beta(8e6, 1/2) beside Beta(27.5, 1/2) was 3e-7 off."""
FAR = 60.0
"""Where no density bends any more that falls off at e^-u, as those of parameters up to 1e25; from
here on panels grow, as those of Beta(1e-9, 1e-9) reach as far as 2e10."""
MIN_PANEL, MIN_CARRIED = 1e-10, -1e4
"""Least length of a panel; and log-density from which it is not carried on, for it lost digits."""

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_NUM_NODES = 8
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(_NUM_NODES)
_POWERS = np.arange(1, _NUM_NODES + 1)
_TO_RIGHT = np.ascontiguousarray(  # (Q, Q): column k integrates from node k to 1
    (
        ((1 - _NODES[:, None] ** _POWERS) / _POWERS)
        @ np.linalg.inv(np.vander(_NODES, _NUM_NODES, increasing=True))
    ).T
)


@inner
def stirling_remainder(x: float) -> float:
    """Return log Gamma(x) less (x - 1/2) log x - x + log(2 pi) / 2, without cancellation."""
    if x < 10.0:
        return math.lgamma(x) - (x - 0.5) * math.log(x) + x - _HALF_LOG_2PI
    y = 1.0 / (x * x)
    return (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y / 1680))) / x


@inner
def log_peak(family: int, first: float, second: float) -> float:
    """Return the log of the density of u at its mode."""
    if family == NORMAL:
        return 0.5 * math.log(second) - _HALF_LOG_2PI
    if family == BETA:
        total = first + second
        rest = stirling_remainder(total) - stirling_remainder(first) - stirling_remainder(second)
        return 0.5 * math.log(first / total * second) - _HALF_LOG_2PI + rest
    return 0.5 * math.log(first) - _HALF_LOG_2PI - stirling_remainder(first)


@inner
def feature_slopes(family: int, u: float) -> tuple[float, float, float, float]:
    """Return the first derivatives of the two features at u, and minus the second ones.

    The log-density is first * feature 1 + second * feature 2, up to a constant.
    """
    if family == BETA:  # log x and log(1 - x), for u the logit of x
        e = math.exp(-abs(u))
        low = e / (1 + e)
        x = 1 - low if u > 0 else low
        return (low if u > 0 else 1 - low), -x, low * (1 - low), low * (1 - low)
    if family == NORMAL:  # u and -u^2 / 2
        return 1.0, -u, 0.0, 1.0
    if family == GAMMA:  # log x and -x, for u = log x
        e = math.exp(min(u, 600.0))
        return 1.0, -e, 0.0, e
    e = math.exp(min(-u, 600.0))  # -log x and -1 / x
    return -1.0, e, 0.0, e


@inner
def feature_gains(family: int, u: float, step: float) -> tuple[float, float]:
    """Return what the two features gain from u to u + step."""
    if family == BETA:  # by the smaller of x and 1 - x, whose logarithm gains most
        lost = softplus_gain(-u, -step) if u > 0.0 else softplus_gain(u, step)
        return (-lost, -lost - step) if u > 0.0 else (step - lost, -lost)
    if family == NORMAL:
        return step, -step * (u + 0.5 * step)
    if family == GAMMA:
        return step, -exponential_gain(u, step)
    return -step, -exponential_gain(-u, -step)


@inner
def softplus_gain(u: float, step: float) -> float:
    """Return log(1 + e^(u + step)) - log(1 + e^u)."""
    if abs(step) < 7.0:
        return math.log1p(math.expm1(step) / (1 + math.exp(min(-u, 600.0))))
    stop = u + step
    gain = max(stop, 0.0) - max(u, 0.0)
    return gain + math.log1p(math.exp(-abs(stop))) - math.log1p(math.exp(-abs(u)))


@inner
def exponential_gain(u: float, step: float) -> float:
    """Return e^(u + step) - e^u."""
    if abs(step) < 7.0:
        return math.exp(min(u, 600.0)) * math.expm1(step)
    return math.exp(min(u + step, 600.0)) - math.exp(min(u, 600.0))


@inner
def square_rate(first: float, second: float, slopes: tuple[float, float, float, float]) -> float:
    """Return the inverse square of a length in which a log-density bends."""
    bend = first * slopes[2] + second * slopes[3]
    slope = (first * slopes[0] + second * slopes[1]) * SLOPE_WEIGHT
    return bend + slope * slope


@inner
def find_upper_end(family: int, first: float, second: float, mode: float, bend: float) -> float:
    """Return a u above which a density is less than e^-LOG_REACH of its top; by Newton's steps."""
    off = math.sqrt(2 * LOG_REACH / bend)
    if family in (BETA, GAMMA):
        off = min(off, math.log1p(LOG_REACH / first + off))
    for _ in range(50):
        slopes = feature_slopes(family, mode + off)
        gain = first * slopes[0] + second * slopes[1]
        step = (centred_log_density(family, first, second, off) + LOG_REACH) / gain
        off -= step
        if abs(step) < 0.06 * off:
            break
    return mode + off


@inner
def find_lower_end(family: int, first: float, second: float, mode: float, bend: float) -> float:
    """Return a u below which a density is less than e^-LOG_REACH of its top: the mirror's end."""
    if family == BETA:
        return -find_upper_end(BETA, second, first, -mode, bend)
    if family == NORMAL:
        return 2 * mode - find_upper_end(NORMAL, first, second, mode, bend)
    mirror = INVERSE_GAMMA if family == GAMMA else GAMMA
    return -find_upper_end(mirror, first, second, -mode, bend)


class March(NamedTuple):
    """One lane's arms on the way down; arrays that all lanes use one after the other.

    Attributes:
        first: (K,) first parameters.
        second: (K,) second ones.
        modes: (K,) u of the highest density.
        peaks: (K,) log-densities there.
        ends: (K,) u above which there is nothing; -inf of arms that cannot be best.
        first_lefts: (K,) u to which a panel may reach in which an arm begins; -inf likewise.
        tails: (K,) masses of what was passed.
        values: (K,) log-densities at the centre of the last panel; NaN before the first.
        active: (K,) the arms that have a density in a panel.
        densities: (K, Q) at its nodes, in the order of `active`, as the next two.
        below: (K, Q) their distribution functions.
        before: (K, Q) products of those of the active arms before.
        product: (Q,) of those so far.
    """

    first: np.ndarray
    second: np.ndarray
    modes: np.ndarray
    peaks: np.ndarray
    ends: np.ndarray
    first_lefts: np.ndarray
    tails: np.ndarray
    values: np.ndarray
    active: np.ndarray
    densities: np.ndarray
    below: np.ndarray
    before: np.ndarray
    product: np.ndarray


@inner
def start_march(
    family: int, march: March, available: np.ndarray, step: float
) -> tuple[float, float]:
    """Set where arms begin, and return the highest upper end, and a u where all is above.

    An arm has half of its first panel in the one that it begins in.
    """
    top = bottom = -np.inf
    for i in range(available.size):
        march.ends[i] = march.first_lefts[i] = -np.inf
        march.tails[i] = 0.0
        if available[i]:
            a, b = march.first[i], march.second[i]
            mode, bend = find_mode_and_curvature(family, a, b)
            march.modes[i], march.peaks[i] = mode, log_peak(family, a, b)
            march.ends[i] = end = find_upper_end(family, a, b, mode, bend)
            rate = square_rate(a, b, feature_slopes(family, end))
            march.first_lefts[i] = end - 0.5 * step / math.sqrt(rate)
            march.values[i] = np.nan
            top = max(top, end)
            bottom = max(bottom, find_lower_end(family, a, b, mode, bend))
    return top, bottom


@inner
def find_panel(family: int, march: March, u: float, bottom: float, step: float) -> float:
    """Return the left end of the panel whose right end is u.

    It is as long as the arm that bends most allows, by the bend at u, then by that half way down.
    """
    left, at = bottom, u
    for _ in range(2):
        rate, slopes = 0.0, feature_slopes(family, at)
        if family != NORMAL:
            rate = 1 / max(MAX_LENGTH, 0.5 * (abs(at) - FAR)) ** 2
        left = bottom
        for i in range(march.ends.size):
            if march.ends[i] >= u:
                rate = max(rate, square_rate(march.first[i], march.second[i], slopes))
            else:
                left = max(left, march.first_lefts[i])
        left = max(left, u - step / math.sqrt(rate))
        at = 0.5 * (u + left)
    return min(left, u - MIN_PANEL * (1 + abs(u)))


@inner
def exponentiate(values: np.ndarray) -> None:
    """Set each of (m,) values x to e^x = (e^(x / 1024))^1024, to 1e-12 for x from -50 to 50.

    Processors do several of these steps at once, and take a quarter of the time of `math.exp`.
    """
    for j in range(values.size):
        x = min(max(values[j], -600.0), 600.0) / 1024
        power = 1 / 24 + x * (1 / 120 + x * (1 / 720 + x * (1 / 5040)))
        power = 1 + x * (1 + x * (1 / 2 + x * (1 / 6 + x * power)))
        for _ in range(10):
            power *= power
        values[j] = power


@inner
def fill_densities(family: int, march: March, left: float, u: float, middle: float) -> int:
    """Set the densities at the nodes of a panel from left to u, and return how many arms have any.

    `middle` is the centre of the panel before, from which log-densities are carried on.
    """
    half, centre, num_active = 0.5 * (u - left), 0.5 * (u + left), 0
    for k in range(_NUM_NODES):  # of what arms share
        march.before[0, k], march.before[1, k] = feature_gains(family, centre, half * _NODES[k])
    moved = feature_gains(family, middle, centre - middle)
    for i in range(march.ends.size):
        if march.ends[i] <= left:
            continue
        a, b = march.first[i], march.second[i]
        if march.values[i] > MIN_CARRIED:
            march.values[i] += a * moved[0] + b * moved[1]
        else:
            off = centred_log_density(family, a, b, centre - march.modes[i])
            march.values[i] = march.peaks[i] + off
        for k in range(march.product.size):
            gain = a * march.before[0, k] + b * march.before[1, k]
            march.densities[num_active, k] = march.values[i] + gain
        march.active[num_active] = i
        num_active += 1
    exponentiate(march.densities[:num_active].reshape(-1))
    return num_active


@inner
def add_panel(march: March, num_active: int, half: float, out: np.ndarray) -> float:
    """Add a panel's part to (K,) probabilities, and return the chance that all arms are below.

    Products of the others' distribution functions run from both sides.
    """
    product, chance = march.product, 1.0
    product[:] = 1.0
    for j in range(num_active):
        density, below, mass, arm = march.densities[j], march.below[j], 0.0, march.active[j]
        for m in range(_NUM_NODES):
            mass += _WEIGHTS[m] * density[m]
        for k in range(product.size):
            to_right = 0.0
            for m in range(_NUM_NODES):
                to_right += _TO_RIGHT[m, k] * density[m]
            below[k] = max(1.0 - march.tails[arm] - half * to_right, 0.0)
            march.before[j, k] = product[k]
            product[k] *= below[k]
        march.tails[arm] += half * mass
        chance *= max(1.0 - march.tails[arm], 0.0)
    for k in range(_NUM_NODES):
        product[k] = half * _WEIGHTS[k]
    for j in range(num_active - 1, -1, -1):
        part = 0.0
        for k in range(_NUM_NODES):
            part += product[k] * march.before[j, k] * march.densities[j, k]
            product[k] *= march.below[j, k]
        out[march.active[j]] += part
    return chance


@inner
def march_down(
    family: int, march: March, available: np.ndarray, step: float, out: np.ndarray
) -> float:
    """Set a lane's (K,) probabilities, and return what they summed to before that was made 1."""
    for i in range(out.size):
        out[i] = 0.0
    u, bottom = start_march(family, march, available, step)
    middle, chance, total = u, 1.0, 0.0
    while u > bottom and chance > MAX_REST:
        left = find_panel(family, march, u, bottom, step)
        num_active = fill_densities(family, march, left, u, middle)
        chance = add_panel(march, num_active, 0.5 * (u - left), out)
        u, middle = left, 0.5 * (u + left)
    for i in range(out.size):
        total += out[i]
    for i in range(out.size):
        out[i] /= total
        if march.tails[i] > 1.0 + MAX_MISSING:  # which the sum would not show
            return march.tails[i]
    return total


@kernel
def fill_best_arms(
    distributions: MeanDistributions, available: np.ndarray, step: float, out: np.ndarray
) -> None:
    """Set (N, K) probabilities, by shorter panels where they do not sum to 1; NaN if none do.

    Args:
        distributions: (N, K) of the means.
        available: (N, K) arms that may be best, the others get 0; (1, K) for all lanes.
        step: of panels, see `STEP`.
        out: is set.
    """
    family, (num_lanes, num_arms) = distributions.family, out.shape
    active, product = np.empty(num_arms, np.int64), np.empty(_NUM_NODES)
    lines = np.empty((6, num_arms))
    at_nodes = np.empty((3, max(num_arms, 2), _NUM_NODES))
    for n in range(num_lanes):
        march = March(
            *(distributions.first[n], distributions.second[n]),
            *(lines[0], lines[1], lines[2], lines[3], lines[4], lines[5], active),
            *(at_nodes[0], at_nodes[1], at_nodes[2], product),
        )
        mask, length, total = available[min(n, len(available) - 1)], step, np.nan
        while not abs(total - 1.0) < MAX_MISSING and not length < MIN_STEP:
            total = march_down(family, march, mask, length, out[n])
            length *= 0.5
        if not abs(total - 1.0) < MAX_MISSING:
            for i in range(num_arms):
                out[n, i] = np.nan


def conjugate_best_arms(
    distributions: MeanDistributions, available: np.ndarray | None = None, step: float = STEP
) -> np.ndarray:
    """Return the (N, K) probabilities that arms are best, to 1e-7; NaN of a lane that misses that.

    Args:
        distributions: (N, K) of the means.
        available: (N, K) arms that may be best; None for all.
        step: of panels; shorter ones are tried where sums are not 1.
    """
    shape = distributions.first.shape
    mask, probabilities = available, np.empty(shape)
    if mask is None:
        mask = np.ones((1, shape[1]), dtype=np.bool_)
    fill_best_arms(distributions, mask, step, probabilities)
    return probabilities


# -- Any densities ------------------------------------------------------------------------------

NUM_LEVELS = (13, 25, 49, 97, 193)
"""Quantiles of each arm between which integrals are taken: more until two answers agree."""

MAX_ERROR, MAX_NAMED_ERROR = 1e-6, 1e-7
"""Differences between two answers, the finer of which is better by far; the second with names."""

FAMILIES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "beta": (BETA_DISTRIBUTION, ("alpha", "beta")),
    "gamma": (GAMMA_DISTRIBUTION, ("shape", "rate")),
    "inverse_gamma": (INVERSE_GAMMA_DISTRIBUTION, ("shape", "scale")),
    "normal": (NORMAL_DISTRIBUTION, ("mean", "std")),
    "student_t": (None, ("df", "location", "scale")),
}
"""Distributions that have names, and their parameters; None is not conjugate to rewards."""


class Arms(NamedTuple):
    """Distributions of K arms in N lanes, each a function of places (M, N, K).

    Attributes:
        density: at places.
        cdf: at places; None to integrate the density, where that takes less time.
        quantile: at levels (M, 1, 1).
        max_error: that two answers may differ by.
    """

    density: Callable[[FloatArray], FloatArray]
    cdf: Callable[[FloatArray], FloatArray] | None
    quantile: Callable[[FloatArray], FloatArray]
    max_error: float = MAX_ERROR


def integrate_best_arms(arms: Arms, available: np.ndarray | None = None) -> np.ndarray:
    """Return the (N, K) probabilities that arms are best; see `integrate_positions`."""
    return integrate_positions(arms, 1, available)[:, 0]


def integrate_positions(arms: Arms, top: int, available: np.ndarray | None = None) -> np.ndarray:
    """Return the (N, top, K) probabilities of each place, the largest first, of any densities.

    Arm i has place j where j - 1 others are above it. How many are is a sum of independent events,
    and its probabilities at u are the coefficients of the product of all F_k(u) + (1 - F_k(u)) z.

    Args:
        arms: their distributions.
        top: how many places.
        available: (N, K) arms that have one; None for all.

    Raises:
        ValueError: if their `max_error` is not reached.
    """
    last: Any = np.inf
    for num_levels in NUM_LEVELS:
        levels = special.expit(np.linspace(-32, 32, num_levels))[:, None, None]
        ends = np.asarray(arms.quantile(levels)).transpose(1, 0, 2)  # (N, M, K)
        if np.isnan(ends).any():
            raise ValueError(message("distributions", "have parameters in range", "NaN quantiles"))
        ends = np.sort(ends.reshape(len(ends), -1), axis=1)
        probabilities = _integrate_panels(arms, ends, top, available)
        change, rest = probabilities - last, probabilities.sum(axis=2) - 1
        error = max(np.abs(change).max(), np.abs(rest).max())
        if error <= arms.max_error:
            return probabilities / probabilities.sum(axis=2, keepdims=True)
        last = probabilities
    condition = f"have densities whose integrals are found to {arms.max_error:g}"
    raise ValueError(message("distributions", condition, f"{error:.1g}"))


def _integrate_panels(
    arms: Arms, ends: FloatArray, top: int, available: np.ndarray | None
) -> FloatArray:
    """Return (N, top, K) integrals between (N, M) ends, in order."""
    half, middle = np.diff(ends) / 2, (ends[:, 1:] + ends[:, :-1]) / 2
    x = (middle[..., None] + half[..., None] * _NODES).reshape(len(ends), -1).T[..., None]
    sizes = (half[..., None] * _WEIGHTS).reshape(len(ends), -1).T[..., None]
    with np.errstate(all="ignore"):
        density = np.asarray(arms.density(x))
        density = np.where(np.isfinite(density), density, 0.0)  # an end of the support, by rounding
        below = _integrate_up(density, half) if arms.cdf is None else arms.cdf(x)
    if available is not None:
        density, below = np.where(available, density, 0.0), np.where(available, below, 1.0)
    before = _multiply_factors(below, top)
    after = _multiply_factors(below[..., ::-1], top)[..., ::-1]
    found = np.empty((len(ends), top, below.shape[2]))
    for j in range(top):
        others = sum(before[k] * after[j - k] for k in range(j + 1))
        found[:, j] = (density * others * sizes).sum(axis=0)
    return found


def _multiply_factors(below: FloatArray, top: int) -> FloatArray:
    """Return the (top, M, N, K) chances that so many of the arms before one are above a place."""
    chances = np.zeros((top, *below.shape))
    chances[0, ..., 0] = 1.0
    for i in range(below.shape[-1] - 1):
        f = below[..., i]
        chances[..., i + 1] = f * chances[..., i]
        chances[1:, ..., i + 1] += (1 - f) * chances[:-1, ..., i]
    return chances


def _integrate_up(density: FloatArray, half: FloatArray) -> FloatArray:
    """Return (M, N, K) integrals up to the nodes of panels with (N, P) half lengths."""
    panels = (
        density.reshape(half.shape[1], _NUM_NODES, *density.shape[1:]) * half.T[:, None, :, None]
    )
    masses = np.tensordot(_WEIGHTS, panels, (0, 1))  # (P, N, K)
    to_right = np.tensordot(_TO_RIGHT, panels, (0, 1)).swapaxes(0, 1)  # (P, Q, N, K)
    above = np.flip(np.cumsum(np.flip(masses, axis=0), axis=0), axis=0) - masses
    return np.clip(1.0 - above[:, None] - to_right, 0.0, 1.0).reshape(density.shape)


def best_arm_probabilities(
    distributions: Any,
    *,
    values: Any = None,
    costs: Any = None,
    available: Any = None,
    floor: float = 0.0,
) -> np.ndarray:
    """Return the probability that each arm has the largest value * mean - cost.

    It is the propensity with which Thompson sampling plays an arm, if the distributions are its
    posterior. A service that keeps alphas and betas needs nothing else of this package:

        best_arm_probabilities(("beta", [31, 45], [970, 1156]))

    Args:
        distributions: of the K arms' means, independent. A name and arrays of parameters, (K,)
            or (N, K): ("beta", alpha, beta), ("gamma", shape, rate), ("inverse_gamma", shape,
            scale), ("normal", mean, std) or ("student_t", df, location, scale). Or a continuous
            distribution of `scipy.stats`, frozen with such arrays, or a list of K frozen ones, of
            any families.
        values: (K,) or (N, K) above 0; None is 1.
        costs: (K,) or (N, K); None is 0.
        available: (K,) or (N, K) bool, the arms that can be played; None is all.
        floor: least probability of an available arm: max(s p, floor), with the one s for which they
            sum to 1.

    Returns:
        (K,) or (N, K) probabilities: to 1e-7 for names without values and costs, else to 1e-6.

    Raises:
        TypeError: if a distribution has no density.
        ValueError: if a parameter, a value or a cost is out of range, a floor is above 1 by the
            number of available arms, or 1e-6 is not reached.
    """
    shape, arms, conjugate = _read_arms(distributions)
    value = 1.0 if values is None else check_numbers("values", values)
    cost = 0.0 if costs is None else check_numbers("costs", costs)
    if not (np.all(np.greater(value, 0)) and np.all(np.isfinite(value))):
        raise ValueError(message("values", "be above 0 and finite", values))
    if not np.all(np.isfinite(cost)):
        raise ValueError(message("costs", "be finite", costs))
    try:
        shape = np.broadcast_shapes(shape, np.shape(value), np.shape(cost))
    except ValueError:
        condition = f"have shapes that go with {shape}, that of the distributions"
        raise ValueError(
            message("values and costs", condition, (np.shape(value), np.shape(cost)))
        ) from None
    if len(shape) not in (1, 2):
        raise ValueError(message("distributions", "be of (K,) or (N, K) arms", shape))
    lanes, num_envs = (1, *shape)[-2:], shape[0] if len(shape) == 2 else None
    mask = None if available is None else check_available(available, shape[-1], num_envs)
    if conjugate is not None and values is None and costs is None:
        probabilities = conjugate_best_arms(conjugate, mask)
        if np.isnan(probabilities).any():
            probabilities = integrate_best_arms(arms, mask)
    else:
        probabilities = integrate_best_arms(price_arms(arms, value, cost, lanes), mask)
    probabilities = raise_to_floor(probabilities, floor, mask)
    return probabilities if num_envs else probabilities[0]


def _read_arms(distributions: Any) -> tuple[tuple[int, ...], Arms, MeanDistributions | None]:
    """Return the shape of arms, their functions, and what the march takes if it can."""
    is_several = isinstance(distributions, Sequence) and len(distributions) > 0
    if is_several and isinstance(distributions[0], str):
        distribution, first, second, *others = _read_named(*distributions)
        if distribution is None:
            one = stats.t(first, second, *others)
            return first.shape, Arms(one.pdf, one.cdf, one.ppf, MAX_NAMED_ERROR), None
        parameters = np.atleast_2d(first), np.atleast_2d(second)
        arms = Arms(
            lambda x: np.exp(distribution.log_density(first, second, x)),
            lambda x: distribution.cdf(first, second, x),
            lambda p: distribution.quantile(first, second, p),
        )
        return first.shape, arms, MeanDistributions(distribution.code, *parameters)
    distributions = [*distributions] if is_several else [distributions]
    for one in distributions:
        if not all(hasattr(one, name) for name in ("pdf", "cdf", "ppf")):
            condition = "be a name with parameters, or continuous distributions of scipy.stats"
            raise TypeError(message("distributions", condition, one))
    shapes = [np.shape(one.ppf(0.5)) for one in distributions]
    if not is_several:
        (one,) = distributions
        return shapes[0], Arms(one.pdf, one.cdf, one.ppf), None
    if any(shapes):
        raise ValueError(message("distributions", "be single ones, in a list", shapes))

    def apply(name: str, x: FloatArray) -> FloatArray:
        """Return each arm's function in its own place of the last axis."""
        x = np.broadcast_to(x, (*x.shape[:-1], len(distributions)))
        values = [getattr(one, name)(x[..., i]) for i, one in enumerate(distributions)]
        return np.stack(values, axis=-1)

    arms = Arms(partial(apply, "pdf"), partial(apply, "cdf"), partial(apply, "ppf"))
    return (len(distributions),), arms, None


def _read_named(name: str, *parameters: Any) -> tuple[Any, ...]:
    """Return a named distribution and its parameters, as the house has them."""
    check_choice("distributions", name, [*FAMILIES])
    distribution, names = FAMILIES[name]
    if len(parameters) != len(names):
        condition = f"be ({name!r}, {', '.join(names)})"
        raise ValueError(message("distributions", condition, (name, *parameters)))
    checked = [*map(check_numbers, names, parameters)]
    for label, given in zip(names, checked, strict=True):
        is_place = label in ("mean", "location")
        if not (np.isfinite(given) & ((given > 0) | is_place)).all():
            rule = "finite" if is_place else "above 0 and finite"
            raise ValueError(message(label, f"be {rule}", given))
    try:
        arrays = [np.array(each) for each in np.broadcast_arrays(*checked)]
    except ValueError:
        condition = f"have {', '.join(names[:-1])} and {names[-1]} of shapes that go together"
        shapes = tuple(map(np.shape, checked))
        raise ValueError(message("distributions", condition, shapes)) from None
    if arrays[0].ndim not in (1, 2):
        raise ValueError(message("distributions", "be of (K,) or (N, K) arms", arrays[0].shape))
    if name == "normal":  # the precision times the mean, and the precision
        mean, std = arrays
        arrays = [mean / std**2, 1 / std**2]
    return distribution, *arrays


def price_arms(arms: Arms, value: Any, cost: Any, shape: tuple[int, ...]) -> Arms:
    """Return the distributions of value * mean - cost, for (N, K) arms."""

    def means(y: FloatArray) -> FloatArray:
        return np.broadcast_to((y + cost) / value, (len(y), *shape))

    return Arms(
        lambda y: arms.density(means(y)) / value,
        lambda y: arms.cdf(means(y)),  # type: ignore[misc]  # no arms lack it here
        lambda p: np.broadcast_to(value * arms.quantile(p) - cost, (len(p), *shape)),
    )
