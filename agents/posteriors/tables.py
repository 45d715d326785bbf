"""Tables: an arm's distribution on points of the coordinate u, made in two passes; compiled.

A table holds the distribution function and the density of one arm's u at M + 1 points. First the
log-density is evaluated at the ends of the prior's cells and around the likelihood's own mean. That
shows where the mass is. Then every other point is placed so that errors between points are nearly
equal, see `set_point_shares`. The points between these are midway, for Simpson's rule. How much
densities bend between points bounds the table's error. Where that is above MAX_TABLE_ERROR, both
evaluations are merged and the points are placed again, up to five times; the best table is kept.

A table is unreliable where that error stays above MAX_RELIABLE_ERROR. It is also unreliable where
mass lies in cells in which the prior was not resolved, or beyond the ends of the coordinate, where
means have no more digits.

A draw inverts the distribution function, by a uniform number, a guide to the interval and a
quadratic equation. As the coordinate is common to all arms, the best arm is the one of largest u.

A table depends on the arm's prior and statistics alone. When those change, one per lane and step,
it is made anew, or copied from one of equal statistics. With rewards that are whole numbers, a few
thousand tables serve thousands of lanes.

Notation: K arms, N lanes, M + 1 points.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from agents.posteriors.cells import (
    DEGREE,
    EXCLUDED_LOG_LIKELIHOOD,
    FEATURE_TOLERANCE,
    PriorCells,
    find_position,
)
from bandit_gym.numerics.compiled import inner, kernel

MASS, POSITION, DENSITY = range(3)
"""Columns of each point: distribution function, u and density of u."""

MIN_POINTS, MAX_POINTS = 64, 2048
MAX_NARROW_LENGTH, POINTS_PER_NARROW_CELL = 0.25, 3
LOG_REACH = 21.0
"""Densities below e^-21 of the top are left out: a mass of about 1e-9."""
MAX_TABLE_ERROR, MAX_RELIABLE_ERROR = 1e-3, 1e-2
"""Errors of a distribution function, above which there is another pass, or a flag."""
MAX_LIMIT_DENSITY = 3e-4
"""Density of u at its limits; where it is higher, more than MAX_TABLE_ERROR may lie beyond."""
MAX_PASSES = 5
DIFFERENCE_STEP = 0.01
"""In which second differences of the likelihood are taken."""
MAX_RECENT_TABLES = 8192
"""Statistics, of which one table each is kept to copy from: 14 MB at 64 points."""

_ON_ONE_SIDE = [0.7, 1.4, 2.1, 2.8, 3.5, 4.3, 5.2, 6.5, 8.0, 10.0, 13.0, 17.0, 22.0, 28.0]
LIKELIHOOD_DEVIATIONS = np.sort([0.0, *_ON_ONE_SIDE, *np.negative(_ON_ONE_SIDE)])
"""Deviations from the likelihood's own mean, at which the posterior is evaluated."""


class Tables(NamedTuple):
    """Arrays of tables: of N lanes, (N, K), or of R recent data in any lane, (R,).

    Attributes:
        keys: (..., 3) kind of arm and statistics that each was built for, NaN at first.
        points: (..., M + 1, 3) distribution function, u and density of u at each point.
        guides: (..., M) the last point with a distribution function of at most j / M.
        errors: (...) of the distribution functions, at most; inf if not known, NaN where the data
            are impossible and the table is that without data.
    """

    keys: np.ndarray
    points: np.ndarray
    guides: np.ndarray
    errors: np.ndarray


class Evaluations(NamedTuple):
    """Evaluations of the log-density, in order of u, with space for more.

    Attributes:
        u: (L,) where.
        value: (L,) log-densities.
        point_share: (L,) share of a table's points that should lie up to each.
        root_bend: (L,) integrals of |f''|^(1/3) from each to the next, for the density f of the
            last pass; 0 before.
    """

    u: np.ndarray
    value: np.ndarray
    point_share: np.ndarray
    root_bend: np.ndarray


def make_empty_tables(cells: PriorCells, *shape: int) -> Tables:
    """Return tables, none of them built, with enough points for the priors."""
    keys, num_points = np.full((*shape, 3), np.nan), count_points(cells)
    guides = np.zeros((*shape, num_points), dtype=np.uint16)
    return Tables(keys, np.zeros((*shape, num_points + 1, 3)), guides, np.zeros(shape))


def count_points(cells: PriorCells) -> int:
    """Return M, larger for narrow cells; the largest over arms."""
    prior = cells.polynomials[:, :, 0]
    has_mass = np.maximum(prior[..., 0], prior.sum(axis=-1)) > -LOG_REACH
    lengths = np.where(has_mass, np.diff(cells.edges), 1.0)
    is_narrow = (lengths > 0) & (lengths < MAX_NARROW_LENGTH)  # the padding has no length
    wanted = MIN_POINTS + POINTS_PER_NARROW_CELL * is_narrow.sum(axis=1).max()
    return int(min(4 * np.ceil(wanted / 4), MAX_POINTS))


@inner
def evaluate_first(
    cells: PriorCells, kind: int, data: tuple[float, float], evaluations: Evaluations
) -> int:
    """Evaluate at cells' edges and around the likelihood's own mean; return the count."""
    (pulls, total), edges, num = data, cells.edges[kind], cells.sizes[kind] + 1
    factors, num_deviations = find_factors(cells, data), 0
    u, value = np.empty(LIKELIHOOD_DEVIATIONS.size), np.empty(LIKELIHOOD_DEVIATIONS.size)
    centre, width = edges[0], 0.0
    if pulls > 0.0:
        centre = find_position(cells.coordinate.ends, total / pulls)
    if edges[0] + DIFFERENCE_STEP < centre < edges[num - 1] - DIFFERENCE_STEP:
        for j in range(3):
            u[j] = centre + (j - 1) * DIFFERENCE_STEP
        evaluate_log_density(cells, kind, (0.0, factors[1], factors[2]), u[:3], value)
        bend = 2.0 * value[1] - value[0] - value[2]
        width = DIFFERENCE_STEP / math.sqrt(bend) if bend > 0.0 else 0.0
    for j in range(LIKELIHOOD_DEVIATIONS.size):
        u[num_deviations] = centre + width * LIKELIHOOD_DEVIATIONS[j]
        num_deviations += width > 0.0 and edges[0] < u[num_deviations] < edges[num - 1]
    for edge in range(num):
        evaluations.u[edge] = edges[edge]
    num = merge_evaluations(evaluations, num, u[:num_deviations], value)
    evaluate_log_density(cells, kind, factors, evaluations.u[:num], evaluations.value)
    return num


@inner
def find_factors(cells: PriorCells, data: tuple[float, float]) -> tuple[float, float, float]:
    """Return what the prior, f_1 and f_2 are multiplied by in the log-density, see `cells`."""
    typical = cells.coordinate.typical
    return 1.0, (data[1] - data[0] * typical[0]) / typical[1], data[0]


@inner
def merge_evaluations(evaluations: Evaluations, num: int, u: np.ndarray, value: np.ndarray) -> int:
    """Add evaluations at u (m,), in order, to others; return how many there are."""
    k, j = num - 1, u.size - 1
    for index in range(num + u.size - 1, -1, -1):
        if j < 0 or (k >= 0 and evaluations.u[k] > u[j]):
            evaluations.u[index], evaluations.value[index] = evaluations.u[k], evaluations.value[k]
            k -= 1
        else:
            evaluations.u[index], evaluations.value[index] = u[j], value[j]
            j -= 1
    return num + u.size


@inner
def find_mass_range(value: np.ndarray, num: int) -> tuple[int, int, float]:
    """Return the first and last of `num` log-densities between which mass counts, and the top."""
    first, last, top = 0, num - 1, -np.inf
    for k in range(num):
        top = max(top, value[k])
    while first < last - 1 and not max(value[first], value[first + 1]) > top - LOG_REACH:
        first += 1
    while last > first + 1 and not max(value[last], value[last - 1]) > top - LOG_REACH:
        last -= 1
    return first, last, top


@inner
def set_point_shares(evaluations: Evaluations, num: int) -> tuple[int, int]:
    """Set what share of the points should lie up to each u; return the range of the mass.

    The error of a quadrature rule on a step h is in proportion to h^(k+1) |f^(k)|. All steps have
    the same one where points have a density in proportion to |f^(k)|^(1/(k+1)) (de Boor 2001,
    chapter XII). Before the first pass f is known roughly. In an exponential tail with a mass F
    beyond u, all f^(k) are in proportion to F, and so is |f^(k)|^(1/(k+1)) to F^(1/(k+1)), and its
    integral. So the share up to u is, with F up to u and for k = 3, next to Simpson's 4,

        F^(1/4) / (F^(1/4) + (1 - F)^(1/4)).

    A part of the points goes in equal numbers to the intervals between evaluations where f is
    high, so that no narrow mode is missed. After a pass, most points follow |f''|^(1/3), of k = 2.

    References:
        de Boor (2001), "A Practical Guide to Splines", revised edition.
    """
    u, value, point_share = evaluations.u, evaluations.value, evaluations.point_share
    first, last, top = find_mass_range(value, num)
    num_high, rank, total_bend, bend = 0.0, 0.0, 0.0, 0.0
    below, left = np.zeros(num), math.exp(value[first] - top)  # masses up to each u
    for k in range(first, last):  # log f is straight in between
        right, rise = math.exp(value[k + 1] - top), value[k + 1] - value[k]
        mean = (right - left) / rise if abs(rise) > 0.01 else 0.5 * (right + left)
        below[k + 1], left = below[k] + mean * (u[k + 1] - u[k]), right
        num_high += max(value[k], value[k + 1]) > top - 0.5 * LOG_REACH
        total_bend += evaluations.root_bend[k]
    point_share[first] = 0.0
    for k in range(first + 1, last + 1):
        part = below[k] / below[last]
        low, high = math.sqrt(math.sqrt(part)), math.sqrt(math.sqrt(max(1.0 - part, 0.0)))
        rank += max(value[k - 1], value[k]) > top - 0.5 * LOG_REACH
        point_share[k] = 0.8 * low / (low + high) + 0.2 * rank / num_high
        if total_bend > 0.0:
            bend += evaluations.root_bend[k - 1]
            point_share[k] = 0.3 * point_share[k] + 0.7 * bend / total_bend
    return first, last


@inner
def distribute_points(evaluations: Evaluations, first: int, last: int, u: np.ndarray) -> None:
    """Set u (M + 1,): even points at equal shares, others midway."""
    num, k = u.size - 1, first
    u[0], u[num] = evaluations.u[first], evaluations.u[last]
    for even in range(2, num, 2):
        goal = even / num
        while k < last - 1 and evaluations.point_share[k + 1] < goal:
            k += 1
        step = max(evaluations.point_share[k + 1] - evaluations.point_share[k], 1e-300)
        part = min((goal - evaluations.point_share[k]) / step, 1.0)
        u[even] = evaluations.u[k] + part * (evaluations.u[k + 1] - evaluations.u[k])
    for odd in range(1, num, 2):
        u[odd] = 0.5 * (u[odd - 1] + u[odd + 1])


@inner
def evaluate_log_density(
    cells: PriorCells,
    kind: int,
    factors: tuple[float, float, float],
    u: np.ndarray,
    value: np.ndarray,
) -> float:
    """Set the log-densities at u (m,), in order; return the largest."""
    edges, last, top, j, cell = cells.edges[kind], cells.sizes[kind] - 1, -np.inf, 0, 0
    prior, first, second = factors
    while j < u.size:
        while cell < last and edges[cell + 1] <= u[j]:
            cell += 1
        left, per_length = edges[cell], 1.0 / (edges[cell + 1] - edges[cell])
        c = cells.polynomials[kind, cell]
        while j < u.size and (cell == last or not u[j] >= edges[cell + 1]):  # u may be NaN
            t, total = (u[j] - left) * per_length, 0.0
            for k in range(DEGREE, -1, -1):
                total = total * t + prior * c[0, k] + first * c[1, k] + second * c[2, k]
            value[j], top, j = total, max(top, total), j + 1
    return top


@inner
def accumulate_masses(u: np.ndarray, value: np.ndarray, top: float, points: np.ndarray) -> float:
    """Write the points of a table, with masses from the left; return a bound on their error.

    The mass of a pair of intervals is Simpson's, and is shared between them as by the trapezoidal
    rule, so that no share is negative however steep the density.
    """
    mass, error, max_bend = 0.0, 0.0, 0.0
    points[0, MASS], points[0, POSITION] = 0.0, u[0]
    points[0, DENSITY] = math.exp(value[0] - top)
    for k in range(1, u.size, 2):
        points[k, POSITION], points[k + 1, POSITION] = u[k], u[k + 1]
        left, middle, right = points[k - 1, DENSITY], math.exp(value[k] - top), 0.0
        right = math.exp(value[k + 1] - top)
        points[k, DENSITY], points[k + 1, DENSITY] = middle, right
        step, whole = (u[k] - u[k - 1]) / 3.0, left + 2.0 * middle + right
        bend = abs(left - 2.0 * middle + right)
        pair = step * (left + 4.0 * middle + right)
        if whole > 0.0:
            part = bend / whole
            error += 3.0 * step * bend * min(2.0, part * (0.15 + 5.0 * part))
            max_bend = max(max_bend, 3.0 * step * bend)
            points[k, MASS] = mass + pair * (left + middle) / whole
        else:
            points[k, MASS] = mass
        mass += pair
        points[k + 1, MASS] = mass
    scale = 1.0 / mass
    for k in range(u.size):
        points[k, MASS] *= scale
        points[k, DENSITY] *= scale
    points[u.size - 1, MASS] = 1.0
    return (error + 0.0125 * max_bend) * scale


@inner
def add_points(
    evaluations: Evaluations, num: int, u: np.ndarray, value: np.ndarray, points: np.ndarray
) -> int:
    """Add a table's points and bends to the evaluations; return how many there are.

    Of a pair of intervals of length h together, the second difference is f'' h^2 / 4. So the cube
    root of its h-fold is in proportion to the integral of |f''|^(1/3).
    """
    num, j = merge_evaluations(evaluations, num, u, value), 0
    for index in range(num - 1):
        while j + 2 < u.size - 1 and u[j + 2] <= evaluations.u[index]:
            j += 2
        length, step = u[j + 2] - u[j], evaluations.u[index + 1] - evaluations.u[index]
        bend = abs(points[j, DENSITY] - 2.0 * points[j + 1, DENSITY] + points[j + 2, DENSITY])
        is_inside = 0.0 < step <= length
        root_bend = (length * bend) ** (1.0 / 3.0) * step / length if is_inside else 0.0
        evaluations.root_bend[index] = root_bend
    return num


@inner
def build_table(
    cells: PriorCells, kind: int, data: tuple[float, float], points: np.ndarray
) -> float:
    """Fill the (M + 1, 3) points of one posterior's table.

    Returns:
        a bound on the error of its distribution function, inf if it is not known; NaN if the
        posterior is 0 everywhere.
    """
    size = cells.edges.shape[1] + LIKELIHOOD_DEVIATIONS.size + MAX_PASSES * len(points)
    evaluations = Evaluations(np.empty(size), np.empty(size), np.empty(size), np.zeros(size))
    u, value, factors = np.empty(len(points)), np.empty(len(points)), find_factors(cells, data)
    num, error = evaluate_first(cells, kind, data, evaluations), np.inf
    lowest = 0.5 * EXCLUDED_LOG_LIKELIHOOD * (1.0 + data[0])
    least, best = np.inf, np.empty_like(points)
    for attempt in range(MAX_PASSES):
        first, last = set_point_shares(evaluations, num)
        distribute_points(evaluations, first, last, u)
        top = evaluate_log_density(cells, kind, factors, u, value)
        if not lowest < top < np.inf:
            return np.nan
        error = accumulate_masses(u, value, top, points)
        if error < MAX_TABLE_ERROR or attempt == MAX_PASSES - 1:
            break
        if error < least:
            least = error
            copy_points(points, best)
        num = add_points(evaluations, num, u, value, points)
    if error > least:
        error = least
        copy_points(best, points)
    if find_lost_mass(cells, kind, points) > MAX_TABLE_ERROR:
        return np.inf
    if data[0] * FEATURE_TOLERANCE > 0.1 * MAX_TABLE_ERROR:
        error += find_fit_error(cells, kind, factors, points)
    return error


@inner
def copy_points(source: np.ndarray, target: np.ndarray) -> None:
    """Copy a table's points."""
    for k in range(len(source)):  # slices would take seconds to compile
        for column in range(3):
            target[k, column] = source[k, column]


@inner
def find_fit_error(
    cells: PriorCells, kind: int, factors: tuple[float, float, float], points: np.ndarray
) -> float:
    """Return what fits of f_1 and f_2 leave, to 1e-9 of their ranges over a cell, times factors.

    It matters where pulls are many: of 1e8 whose rewards are rare, .04 of a distribution function,
    a quarter of what is returned. Where all mass is in a small part of a cell, fits are off by
    nearly the same everywhere, which changes nothing.
    """
    edges, error, cell = cells.edges[kind], 0.0, 0
    length = points[len(points) - 1, POSITION] - points[0, POSITION]
    for k in range(1, len(points)):
        middle = 0.5 * (points[k - 1, POSITION] + points[k, POSITION])
        while cell < cells.sizes[kind] - 1 and edges[cell + 1] <= middle:
            cell += 1
        scale, c = 0.0, cells.polynomials[kind, cell]
        for power in range(1, DEGREE + 1):
            scale += abs(factors[1] * c[1, power]) + abs(factors[2] * c[2, power])
        part = min(1.0, 4.0 * length / (edges[cell + 1] - edges[cell]))
        error += part * scale * (points[k, MASS] - points[k - 1, MASS])
    return 0.1 * error * FEATURE_TOLERANCE


@inner
def find_lost_mass(cells: PriorCells, kind: int, points: np.ndarray) -> float:
    """Return the mass in cells where the prior was not resolved, to whole steps of the table.

    It is 1 if there is mass at the limits of u, beyond which means have no more digits.
    """
    edges, last, mass, cell = cells.edges[kind], len(points) - 1, 0.0, 0
    for k in range(1, len(points)):
        middle = 0.5 * (points[k - 1, POSITION] + points[k, POSITION])
        while cell < cells.sizes[kind] - 1 and edges[cell + 1] <= middle:
            cell += 1
        if cells.is_unknown[kind, cell]:
            mass += points[k, MASS] - points[k - 1, MASS]
    limits = cells.coordinate.limits
    is_left = points[0, POSITION] <= limits[0] and points[0, DENSITY] > MAX_LIMIT_DENSITY
    is_right = points[last, POSITION] >= limits[1]
    is_right &= points[last, DENSITY] > MAX_LIMIT_DENSITY
    return 1.0 if is_left or is_right else mass


@inner
def fill_guide(points: np.ndarray, guide: np.ndarray) -> None:
    """Set the first interval to try for each level j / M."""
    num, k = len(guide), 0
    for j in range(num):
        while points[k + 1, MASS] * num <= j:
            k += 1
        guide[j] = k


@inner
def invert_table(points: np.ndarray, guide: np.ndarray, level: float) -> float:
    """Return u at which the distribution function is `level`: of a uniform level, a draw."""
    k = int(guide[int(level * len(guide))])
    while points[k + 1, MASS] <= level:
        k += 1
    part = (level - points[k, MASS]) / (points[k + 1, MASS] - points[k, MASS])
    left, right = points[k, DENSITY], points[k + 1, DENSITY]
    root = math.sqrt(left * left + part * (right * right - left * left))
    fraction = part * (left + right) / (left + root)
    return float(points[k, POSITION] + fraction * (points[k + 1, POSITION] - points[k, POSITION]))


@inner
def matches_key(key: np.ndarray, kind: int, pulls: float, total: float) -> bool:
    """Say whether a table of this (3,) key is that of an arm's statistics."""
    return key[0] == kind and key[1] == pulls and key[2] == total


@inner
def set_key(key: np.ndarray, kind: int, pulls: float, total: float) -> None:
    """Set a (3,) key to that of an arm's statistics."""
    key[0], key[1], key[2] = kind, pulls, total


@kernel
def update_tables(
    cells: PriorCells, tables: Tables, recent: Tables, counts: np.ndarray, sums: np.ndarray
) -> None:
    """Build or copy the tables whose (N, K) statistics have changed."""
    for lane in range(counts.shape[0]):
        for arm in range(counts.shape[1]):
            kind, pulls, total = cells.kind_of_arm[arm], float(counts[lane, arm]), sums[lane, arm]
            if matches_key(tables.keys[lane, arm], kind, pulls, total):
                continue
            # Few neighbouring whole numbers share one.
            fraction = (pulls / 512.0 + total * 37.0 / 16384.0 + 0.45 * kind) % 1.0
            i = min(int(fraction * len(recent.keys)), len(recent.keys) - 1)
            if not matches_key(recent.keys[i], kind, pulls, total):
                points, key = recent.points[i], recent.keys[i]
                set_key(key, kind, pulls, total)
                error = build_table(cells, kind, (pulls, total), points)
                if np.isnan(error):
                    build_table(cells, kind, (0.0, 0.0), points)
                recent.errors[i] = error
                fill_guide(points, recent.guides[i])
            copy_points(recent.points[i], tables.points[lane, arm])
            for k in range(tables.guides.shape[2]):
                tables.guides[lane, arm, k] = recent.guides[i, k]
            tables.errors[lane, arm] = recent.errors[i]
            set_key(tables.keys[lane, arm], kind, pulls, total)


@kernel
def invert_tables(tables: Tables, lanes: np.ndarray, levels: np.ndarray) -> None:
    """Turn levels (R, K, m) of R lanes into u at which the distribution functions are those."""
    for r in range(lanes.size):
        for arm in range(levels.shape[1]):
            points, guide = tables.points[lanes[r], arm], tables.guides[lanes[r], arm]
            for j in range(levels.shape[2]):
                levels[r, arm, j] = invert_table(points, guide, levels[r, arm, j])
