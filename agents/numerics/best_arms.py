"""How likely each of K independent conjugate laws of means is the largest; compiled.

    P_i = int p_i(u) prod_{j != i} F_j(u) du

along a coordinate u of the mean in which all four laws are log-concave: the logit for Beta laws,
the logarithm for gamma and inverse gamma ones. All arms of a lane share panels of `NUM_NODES`
Gauss-Legendre nodes, from the highest place that any arm may be at down to where one arm is surely
above, each as long as the narrowest density there is smooth. F_j is one minus the integral from
above, by the antiderivative of the polynomial through the nodes. Of an arm, only an exponential a
node is needed; features of the place are shared.

Letters: K arms, N lanes.
"""

from __future__ import annotations

import math

import numpy as np

from agents.numerics.families import BETA, GAMMA, NORMAL
from agents.numerics.kernels import MeanLaws
from agents.numerics.vector_math import exp_all
from bandit_gym.numerics.compiled import inner, kernel

NUM_NODES = 8
LENGTH, LONGEST = 2.2, 2.2
"""Of a panel: in deviations of the narrowest density there, and at most in the logarithm or
logit of a mean, along which densities of whatever width are as smooth as an exponential."""

DEPTH, MOST_DEPTH = 17.0, 26.0
"""How far below its top a log-density is of no account: e^-17 is 4e-8, and 5.8 deviations."""

MOST_TRIALS = 200
"""Of a place, before it is given up."""

LEAST = 1e-9
"""Probability that the best mean is even lower, with which a lane is done."""

SHORTEST = 1e-14
"""Part of a place that a step from it must be to lead anywhere."""

LOWEST = -200.0
"""A log-density as good as none, whose exponential keeps clear of numbers that processors are slow
with."""

CENTRE, FIRST, SECOND, LOG_SCALE, LOW, HIGH, RATE, STEP, ABOVE = range(9)
"""Columns of an arm: mode, both parameters, log of its density's constant, places between which its
mass is, factor of its bend, length of a panel at the high one, and mass above the panel at hand."""


def _panel() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return nodes and weights in (0, 1), and what turns densities into integrals from above."""
    legendre = np.polynomial.legendre
    nodes, weights = legendre.leggauss(NUM_NODES)
    to_coefficients = np.linalg.inv(legendre.legvander(nodes, NUM_NODES - 1))
    integrals = legendre.legint(np.eye(NUM_NODES), lbnd=1, axis=0)
    above = -legendre.legvander(nodes, NUM_NODES) @ integrals @ to_coefficients
    return (nodes + 1) / 2, weights / 2, np.ascontiguousarray(above.T / 2)


_NODES, _WEIGHTS, _ABOVE = _panel()


@inner
def depth_at(family: int, arm: np.ndarray, u: float) -> float:
    """Return how far the log-density of u is below its top."""
    off, first, second = u - arm[CENTRE], arm[FIRST], arm[SECOND]
    if family == NORMAL:
        return float(0.5 * second * off * off)
    if family == BETA:  # a log x + b log(1 - x), by what x / (1 - x) has been multiplied by
        total, slope = first + second, (second if off > 0.0 else first)
        rest = (slope / total) * math.expm1(-abs(off))
        return float(slope * abs(off) + total * math.log1p(rest))
    if family != GAMMA:
        off = -off
    return float(first * (math.expm1(off) - off))


@inner
def bend_at(family: int, u: float) -> float:
    """Return minus the second derivative of log-densities of u, but for the arm's own factor."""
    if family == NORMAL:
        return 1.0
    if family == BETA:
        x = 1.0 / (1.0 + math.exp(-abs(u)))
        return x * (1.0 - x)
    return math.exp(u if family == GAMMA else -u)


@inner
def find_end(family: int, arm: np.ndarray, sign: float) -> float:
    """Return a place, above the mode or (sign -1) below, beyond which the density has no mass."""
    reach = sign * math.sqrt(2.0 * DEPTH / (arm[RATE] * bend_at(family, arm[CENTRE])))
    for _ in range(MOST_TRIALS):
        depth = depth_at(family, arm, arm[CENTRE] + reach)
        if DEPTH <= depth <= MOST_DEPTH:
            break
        reach *= 1.3 if depth < DEPTH else 0.85
    return float(arm[CENTRE] + reach)


@inner
def longest_panel(family: int, rate: float, u: float) -> float:
    """Return how long a panel may be for a density with this factor of its bend at u."""
    length = LENGTH / math.sqrt(rate * bend_at(family, u))
    return length if family == NORMAL else min(length, LONGEST)


@inner
def describe_arm(family: int, first: float, second: float, origin: float, arm: np.ndarray) -> None:
    """Fill the columns of one arm; `origin` is subtracted from the place of normal laws."""
    arm[FIRST], arm[SECOND], arm[ABOVE], arm[RATE] = first, second, 0.0, second
    if family == NORMAL:
        arm[CENTRE] = first / second - origin
        arm[LOG_SCALE] = 0.5 * math.log(second / (2.0 * math.pi))
    elif family == BETA:
        arm[CENTRE], arm[RATE] = math.log(first / second), first + second
        arm[LOG_SCALE] = math.lgamma(first + second) - math.lgamma(first) - math.lgamma(second)
    else:
        arm[CENTRE] = math.log(first / second if family == GAMMA else second / first)
        arm[LOG_SCALE] = first * math.log(second) - math.lgamma(first)
    arm[LOW], arm[HIGH] = find_end(family, arm, -1.0), find_end(family, arm, 1.0)
    arm[STEP] = longest_panel(family, arm[RATE], arm[HIGH])


@inner
def length_of_panel(family: int, arms: np.ndarray, u: float) -> float:
    """Return how long the panel below u may be, for all arms to be smooth on it."""
    rate = 0.0
    for i in range(len(arms)):
        if arms[i, HIGH] >= u:
            rate = max(rate, arms[i, RATE])
    length = longest_panel(family, rate, u)
    for i in range(len(arms)):
        if u - length < arms[i, HIGH] < u:
            length = min(length, max(u - arms[i, HIGH], arms[i, STEP]))
    for i in range(len(arms)):
        if u - length < arms[i, HIGH] < u:
            rate = max(rate, arms[i, RATE])
    return min(length, longest_panel(family, rate, u - length))


@inner
def set_densities(family: int, arm: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
    """Set `out` (NUM_NODES,) to the log-density of u at places (3, NUM_NODES): u, and features."""
    if family == NORMAL:
        for q in range(NUM_NODES):
            off = places[0, q] - arm[CENTRE]
            out[q] = max(LOWEST, arm[LOG_SCALE] - 0.5 * arm[SECOND] * off * off)
        return
    for q in range(NUM_NODES):
        x, y = places[1, q], places[2, q]
        out[q] = max(LOWEST, arm[LOG_SCALE] + arm[FIRST] * x + arm[SECOND] * y)


@inner
def set_places(family: int, u: float, length: float, places: np.ndarray) -> None:
    """Set the nodes of the panel that ends at u, and what log-densities are linear in there."""
    for q in range(NUM_NODES):
        place = u - length * (1.0 - _NODES[q])
        places[0, q] = place
        if family == BETA:
            rest = math.log1p(math.exp(-abs(place)))
            places[1, q] = min(place, 0.0) - rest
            places[2, q] = -max(place, 0.0) - rest
        elif family != NORMAL:
            places[1, q] = place if family == GAMMA else -place
            places[2, q] = -math.exp(places[1, q])


@inner
def add_panel(
    arms: np.ndarray, length: float, density: np.ndarray, below: np.ndarray, out: np.ndarray
) -> float:
    """Add to `out` (K,) what a panel adds to each integral, given (K, NUM_NODES) densities.

    `below` (K + 1, NUM_NODES) is overwritten.

    Returns:
        the probability that all means are below the panel.
    """
    num_arms, rest = len(arms), 1.0
    product = below[num_arms]
    for q in range(NUM_NODES):
        product[q] = 1.0
    for i in range(num_arms):
        p, share, above = density[i], below[i], arms[i, ABOVE]
        for q in range(NUM_NODES):
            share[q] = 1.0 - above
        for r in range(NUM_NODES):
            mass = length * p[r]
            above += _WEIGHTS[r] * mass
            for q in range(NUM_NODES):
                share[q] -= _ABOVE[r, q] * mass
        for q in range(NUM_NODES):
            p[q] *= product[q]
            product[q] *= max(share[q], 0.0)
        arms[i, ABOVE] = above
        rest *= max(1.0 - above, 0.0)
    for q in range(NUM_NODES):
        product[q] = length * _WEIGHTS[q]
    for i in range(num_arms - 1, -1, -1):
        p, share, total = density[i], below[i], 0.0
        for q in range(NUM_NODES):
            total += p[q] * product[q]
            product[q] *= max(share[q], 0.0)
        out[i] += total
    return rest


@kernel
def compare_laws(laws: MeanLaws, out: np.ndarray) -> float:
    """Set `out` (N, K) to the probabilities that each arm's mean is the largest.

    Args:
        laws: (N, K) of them, proper.
        out: receives the probabilities; each row sums to one.

    Returns:
        what a row missed of one, at most, before it was made to sum to that.
    """
    num_lanes, num_arms = out.shape
    arms, places = np.empty((num_arms, 9)), np.empty((3, NUM_NODES))
    density, below = np.empty((num_arms, NUM_NODES)), np.empty((num_arms + 1, NUM_NODES))
    flat, spare = density.reshape(density.size), np.empty(density.size)
    family, largest_miss = laws.family, 0.0
    for lane in range(num_lanes):
        origin = (laws.first[lane] / laws.second[lane]).max() if family == NORMAL else 0.0
        low, u, rest = -np.inf, -np.inf, 1.0
        for i in range(num_arms):
            describe_arm(family, laws.first[lane, i], laws.second[lane, i], origin, arms[i])
            low, u = max(low, arms[i, LOW]), max(u, arms[i, HIGH])
            out[lane, i] = 0.0
        while u > low and rest > LEAST:
            length = length_of_panel(family, arms, u)
            set_places(family, u, length, places)
            for i in range(num_arms):
                set_densities(family, arms[i], places, density[i])
            exp_all(flat, spare)
            rest = add_panel(arms, length, density, below, out[lane])
            u -= max(length, SHORTEST * abs(u))
        total = out[lane].sum()
        miss = abs(total - 1.0)
        largest_miss = max(largest_miss, miss if miss >= 0.0 else np.inf)  # where it is NaN
        for i in range(num_arms):
            out[lane, i] /= total
    return largest_miss
