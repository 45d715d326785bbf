"""The probability that each of K independent arms of Table 1 is the best, by one march.

With f_i the density of arm i's mean and F_i its distribution function,

    P(arm i is best) = integral of f_i(u) prod_{j != i} F_j(u) du.

All arms share a line u on which densities are smooth and log-concave: the logit of a Beta mean, the
logarithm of a gamma one, and a normal one as it is. A log-density is linear in two features of u,
so that a node costs an arm two multiplications and an exponential. The march goes down from the
highest upper end in panels of Gauss-Legendre nodes, until it is certain that some arm is above.
What lies to the right of a node is integrated by the same nodes, and F_i is 1 less that; so no
special function is called, and normalising constants are those of Stirling's series.

Notation: K arms, N lanes, Q nodes of a panel.

References:
    Jeunen (2025), "Exact propensities", RecSys, enumerates the same integral for Beta posteriors
    with integer parameters.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from agents.numerics.distributions import BETA, GAMMA, INVERSE_GAMMA, NORMAL, MeanDistributions
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
MAX_PLACE = 1e6
"""Deviations from 0 up to which normal densities keep their digits: at 1e9, arms were 3e-7 off."""

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
NUM_NODES = 8
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(NUM_NODES)
POWERS = np.arange(1, NUM_NODES + 1)
_TO_COEFFICIENTS = np.linalg.inv(np.vander(NODES, NUM_NODES, increasing=True))
TO_RIGHT = ((1 - NODES[:, None] ** POWERS) / POWERS) @ _TO_COEFFICIENTS
TO_RIGHT = np.ascontiguousarray(TO_RIGHT.T)  # (Q, Q): column k integrates from node k to 1


@inner
def find_mode_and_curvature(family: int, first: float, second: float) -> tuple[float, float]:
    """Return the mode of the log-density on the family's line, and its curvature there.

    The line is the logit of a Beta mean, the logarithm of a gamma one, and a normal one as it is;
    there all four are log-concave.
    """
    if family == BETA:
        return math.log(first / second), first * second / (first + second)
    if family == GAMMA:
        return math.log(first / second), first
    if family == INVERSE_GAMMA:
        return math.log(second / first), first
    return first / second, second


@inner
def centred_log_density(family: int, first: float, second: float, off: float) -> float:
    """Return the log-density on the family's line, `off` from its mode, less that at the mode."""
    if family == BETA:  # of log x - log(1 - x), by the smaller parameter, so that none is lost
        total, smaller, away = first + second, first, off
        if second < first:
            smaller, away = second, -off
        if away > 600.0:  # where e^off has no number
            return -(total - smaller) * away - total * math.log(smaller / total)
        return smaller * away - total * math.log1p((smaller / total) * math.expm1(away))
    if family == GAMMA:
        return -first * (math.expm1(off) - off)
    if family == INVERSE_GAMMA:
        return -first * (math.expm1(-off) + off)
    return -0.5 * second * off * off


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
        if available[i]:
            a, b = march.first[i], march.second[i]
            mode, bend = find_mode_and_curvature(family, a, b)
            march.modes[i], march.peaks[i] = mode, log_peak(family, a, b)
            march.ends[i] = end = find_upper_end(family, a, b, mode, bend)
            rate = square_rate(a, b, feature_slopes(family, end))
            march.first_lefts[i] = end - 0.5 * step / math.sqrt(rate)
            march.tails[i], march.values[i] = 0.0, np.nan
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
    for k in range(NUM_NODES):  # of what arms share
        march.before[0, k], march.before[1, k] = feature_gains(family, centre, half * NODES[k])
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
        for m in range(NUM_NODES):
            mass += NODE_WEIGHTS[m] * density[m]
        for k in range(product.size):
            to_right = 0.0
            for m in range(NUM_NODES):
                to_right += TO_RIGHT[m, k] * density[m]
            below[k] = max(1.0 - march.tails[arm] - half * to_right, 0.0)
            march.before[j, k] = product[k]
            product[k] *= below[k]
        march.tails[arm] += half * mass
        chance *= max(1.0 - march.tails[arm], 0.0)
    for k in range(NUM_NODES):
        product[k] = half * NODE_WEIGHTS[k]
    for j in range(num_active - 1, -1, -1):
        part = 0.0
        for k in range(NUM_NODES):
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
    return total


@kernel
def fill_best_arms(
    distributions: MeanDistributions, available: np.ndarray, out: np.ndarray
) -> None:
    """Set (N, K) probabilities, by shorter panels where they do not sum to 1; NaN if none do.

    Args:
        distributions: (N, K) of the means.
        available: (N, K) arms that may be best, the others get 0; (1, K) for all lanes.
        out: is set.
    """
    family, (num_lanes, num_arms) = distributions.family, out.shape
    active, product = np.empty(num_arms, np.int64), np.empty(NUM_NODES)
    lines = np.empty((6, num_arms))
    at_nodes = np.empty((3, max(num_arms, 2), NUM_NODES))
    for n in range(num_lanes):
        march = March(
            *(distributions.first[n], distributions.second[n]),
            *(lines[0], lines[1], lines[2], lines[3], lines[4], lines[5], active),
            *(at_nodes[0], at_nodes[1], at_nodes[2], product),
        )
        mask, step, total = available[min(n, len(available) - 1)], STEP, np.nan
        while not abs(total - 1.0) < MAX_MISSING and not step < MIN_STEP:
            total = march_down(family, march, mask, step, out[n])
            step *= 0.5
        if not abs(total - 1.0) < MAX_MISSING:
            for i in range(num_arms):
                out[n, i] = np.nan


def conjugate_best_arms(
    distributions: MeanDistributions, available: np.ndarray | None = None
) -> np.ndarray:
    """Return the (N, K) probabilities that arms are best, to 1e-7; NaN of a lane that misses that.

    Args:
        distributions: (N, K) of the means.
        available: (N, K) arms that may be best; None for all.
    """
    family, first, second = distributions
    if available is None:
        available = np.ones((1, first.shape[1]), dtype=np.bool_)
    probabilities = np.empty(first.shape)
    if family == NORMAL and (np.abs(first) / np.sqrt(second)).max() > MAX_PLACE:
        modes = first / second
        largest = np.where(available, modes, -np.inf).max(axis=1, keepdims=True)
        first = (modes - largest) * second
        distributions = MeanDistributions(family, first, second)
    # A mask of its own: for one of another layout, or read-only, another kernel would be compiled.
    fill_best_arms(distributions, np.array(available, order="C"), probabilities)
    return probabilities
