"""Priors of arms that are independent, resolved once on a mesh that compiled code can read.

A user's density is a Python function, which is too slow to call in every step, and may have spikes
and jumps, which a posterior inherits. So before the first step, each arm's log-density is replaced
by cubic polynomials on the cells of a mesh. They follow it to 1e-4 of its value, and the cells are
about as long as one local standard deviation: steps of equal length, counted in cells, suit the
prior wherever they are. A jump is a cell of its own, some 1e-12 long.

Densities are those of the coordinate u of `agents.posteriors.quadrature`, in which all integrable
ones decay.

Letters: K arms, C cells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from agents.posteriors.features import features_at, make_features
from agents.posteriors.mesh_rows import (
    CUBIC,
    EDGE,
    FIRST,
    HEIGHT,
    JUMP,
    LOG_REACH,
    NUM_COLUMNS,
    SECOND,
    Mesh,
)
from agents.posteriors.quadrature import Coordinate, first_edges, log_prior, make_coordinate
from bandit_gym.problem import BanditProblem

NUM_DRAWS = 4096
NUM_DRAWS_SMOOTH = 64
"""Draws show where a prior has spikes, which one made of the five features has not."""
NUM_TWIN_DRAWS = 1024
MAX_CELLS = 4000

_TOLERANCE = 1e-4
_DEEP = 2 * LOG_REACH
_ABYSS = 1e7
_LARGEST_BEND = 0.25
_LARGEST_CHANGE = 3.0
_SHORTEST = 1e-12
_SLOWEST_DECAY = 1e-3
_POINTS = np.arange(7) / 6
_FIT = np.linalg.inv(np.vander(_POINTS[::2], increasing=True))
_POWERS = np.vander(_POINTS, 4, increasing=True)


@dataclass(frozen=True)
class Cells:
    """Cells of one arm, in increasing order.

    Attributes:
        left: (C,) left ends.
        right: (C,) right ends.
        values: (C, 7) log-densities at equal distances from end to end.
        noise: (C,) what rounding of the means may do to them.
        is_good: (C,) where a cubic fits them.
    """

    left: np.ndarray
    right: np.ndarray
    values: np.ndarray
    noise: np.ndarray
    is_good: np.ndarray

    def take(self, chosen: np.ndarray) -> Cells:
        """Return some of the cells."""
        return Cells(*(column[chosen] for column in vars(self).values()))

    def join(self, other: Cells) -> Cells:
        """Return these and other cells, in order."""
        columns = zip(vars(self).values(), vars(other).values(), strict=True)
        both = Cells(*(np.concatenate(pair) for pair in columns))
        return both.take(np.argsort(both.left, kind="stable"))


def make_mesh(problem: BanditProblem) -> Mesh:
    """Resolve the prior of every arm.

    Raises:
        ValueError: if the prior does not integrate, is NaN somewhere, or is too rough; names the
            arm.
    """
    support = problem.arm_support()
    num_draws = NUM_DRAWS_SMOOTH if problem.offers("natural_parameters") else NUM_DRAWS
    draws = problem.prior.sample(np.random.default_rng(0), (num_draws, problem.num_arms))
    coordinate = make_coordinate(support, draws)
    arms: list[Cells] = []
    twins = find_twins(problem, support, draws)
    for arm, twin in enumerate(twins):
        if twin < arm:
            arms.append(arms[twin])
            continue
        edges = first_edges(coordinate, np.concatenate([support[arm], draws[:, arm]]))
        edges = edges[np.append(True, np.diff(edges) > _shortest(edges[1:]))]
        cells = resolve_arm(ArmDensity(problem, coordinate, support, arm), edges)
        _require_decay(cells, arm, problem)
        arms.append(_trim(cells))
    return _pack(problem, coordinate, arms, twins)


def find_twins(problem: BanditProblem, support: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Return, for each of K arms, the first arm with the same density at draws of all arms.

    Args:
        problem: likelihood and prior.
        support: (K, 2) lowest and highest mean of each arm.
        draws: (M, K) from the prior, of which NUM_TWIN_DRAWS are looked at.
    """
    some = draws[:64].ravel()
    some = some[:: max(1, len(some) // NUM_TWIN_DRAWS)]
    values = log_prior(problem, support, np.repeat(some[:, None], problem.num_arms, axis=1))
    first: dict[bytes, int] = {}
    columns = np.concatenate([values, support.T]).T
    return np.array([first.setdefault(each.tobytes(), arm) for arm, each in enumerate(columns)])


@dataclass
class ArmDensity:
    """The log-density of one arm's u, and what was seen of it.

    Attributes:
        problem: likelihood and prior.
        coordinate: u.
        support: (K, 2) lowest and highest mean of each arm.
        arm: whose.
        top: the largest value seen so far.
    """

    problem: BanditProblem
    coordinate: Coordinate
    support: np.ndarray
    arm: int
    top: float = -np.inf

    def at(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-density at u of any shape, and the size of its rounding errors."""
        means = self.coordinate.means(u)
        everywhere = np.tile(means.reshape(-1, 1)[:1], (means.size, self.problem.num_arms))
        everywhere[:, self.arm] = means.ravel()  # the others stay, which slices are cheaper for
        values = log_prior(self.problem, self.support, everywhere)[:, self.arm].reshape(u.shape)
        log_slope = self.coordinate.log_slope(u)
        noise = 16 * np.finfo(float).eps * np.exp(np.log(np.abs(means) + 1e-300) - log_slope)
        return values + log_slope, noise

    def measure(self, left: np.ndarray, right: np.ndarray) -> Cells:
        """Return cells with their values, of which `top` becomes the largest."""
        values, noise = self.at(left[:, None] + (right - left)[:, None] * _POINTS)
        noise = noise.max(axis=1)
        self.top = max(self.top, values.max(initial=-np.inf))
        values = np.where(values < self.top - _ABYSS, -np.inf, values)
        with np.errstate(invalid="ignore"):
            misfit = np.abs(values[:, ::2] @ _FIT.T @ _POWERS.T - values)
            bend = np.abs(values[:, 0] - 2 * values[:, 3] + values[:, 6])
            change = values.max(axis=1) - values.min(axis=1)
            is_smooth = (bend <= _LARGEST_BEND) & (change <= _LARGEST_CHANGE)
            is_deep = values.max(axis=1) < self.top - _DEEP
            is_fitted = (misfit <= self.tolerance(values, noise)).all(axis=1)
        is_fitted &= np.isfinite(values).all(axis=1)
        is_good = _is_empty(values) | (is_fitted & (is_smooth | is_deep))
        return Cells(left, right, values, noise, is_good)

    def tolerance(self, values: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return the (C, 7) misfits that are allowed, larger where only absurd data would lead."""
        return _TOLERANCE * np.maximum(1.0, (self.top - values) / 10) ** 1.5 + noise[:, None]


def resolve_arm(density: ArmDensity, edges: np.ndarray) -> Cells:
    """Return cells that are good or jumps: halved until they are, then merged while they stay so.

    Merging takes away what the first edges and the search for jumps left in between.
    """
    cells = density.measure(edges[:-1], edges[1:])
    todo = cells.take(_can_be_halved(cells))
    cells = cells.take(~_can_be_halved(cells))
    while len(todo.left):
        if len(todo.left) + len(cells.left) > 20 * MAX_CELLS:
            raise ValueError(_roughness_message(density.arm))
        middle = (todo.left + todo.right) / 2
        left = np.concatenate([todo.left, middle])
        new = density.measure(left, np.concatenate([middle, todo.right]))
        cells, todo = cells.join(new.take(~_can_be_halved(new))), new.take(_can_be_halved(new))
    cells = _merge_all(density, cells)
    if len(cells.left) > MAX_CELLS:
        raise ValueError(_roughness_message(density.arm))
    return cells


def _merge_all(density: ArmDensity, cells: Cells) -> Cells:
    idle, offset = 0, 0
    while idle < 2:
        merged = _merge_pairs(density, cells, offset)
        idle = idle + 1 if len(merged.left) == len(cells.left) else 0
        cells, offset = merged, 1 - offset
    return cells


def _merge_pairs(density: ArmDensity, cells: Cells, offset: int) -> Cells:
    """Merge every other cell with the next one, where both are good and remain so."""
    first = np.arange(offset, len(cells.left) - 1, 2)
    first = first[cells.is_good[first] & cells.is_good[first + 1]]
    both = density.measure(cells.left[first], cells.right[first + 1])
    is_true = both.is_good & _agrees(density, both, cells.take(first))
    is_true &= _agrees(density, both, cells.take(first + 1))
    gone = np.concatenate([first[is_true], first[is_true] + 1])
    return cells.take(np.delete(np.arange(len(cells.left)), gone)).join(both.take(is_true))


def _agrees(density: ArmDensity, whole: Cells, part: Cells) -> np.ndarray:
    """Return where the cubic of a cell holds at the points of its part, which may be far denser."""
    u = part.left[:, None] + (part.right - part.left)[:, None] * _POINTS
    t = (u - whole.left[:, None]) / (whole.right - whole.left)[:, None]
    coefficients = _coefficients(whole)
    with np.errstate(invalid="ignore"):
        fitted = sum(coefficients[:, [power]] * t**power for power in range(4))
        is_close = np.abs(fitted - part.values) <= 2 * density.tolerance(part.values, part.noise)
    return (is_close | (_is_empty(part.values)[:, None] & (fitted == -np.inf))).all(axis=1)


def _trim(cells: Cells) -> Cells:
    """Leave out the empty cells at either end, and the jump beside them."""
    inside = np.flatnonzero(cells.is_good & ~_is_empty(cells.values))
    if len(inside) == 0:
        return cells
    return cells.take(np.arange(inside[0], inside[-1] + 1))


def _is_empty(values: np.ndarray) -> np.ndarray:
    return (values == -np.inf).all(axis=1)


def _shortest(u: np.ndarray) -> np.ndarray:
    return _SHORTEST * (1 + np.abs(u))


def _can_be_halved(cells: Cells) -> np.ndarray:
    return ~cells.is_good & (cells.right - cells.left > 2 * _shortest(cells.right))


def _coefficients(cells: Cells) -> np.ndarray:
    """Return (C, 4): cubics, or the values at the ends of jumps."""
    with np.errstate(invalid="ignore"):
        cubics = cells.values[:, ::2] @ _FIT.T
    cubics[_is_empty(cells.values)] = [-np.inf, 0.0, 0.0, 0.0]
    steps = np.zeros_like(cubics)
    steps[:, 0], steps[:, 1] = cells.values[:, 0], cells.values[:, -1]
    return np.where(cells.is_good[:, None], cubics, steps)


def _pack(
    problem: BanditProblem, coordinate: Coordinate, arms: list[Cells], twins: np.ndarray
) -> Mesh:
    sizes = np.array([len(cells.left) for cells in arms])
    rows = np.zeros((len(arms), sizes.max() + 1, NUM_COLUMNS))
    rows[..., EDGE], rows[..., HEIGHT] = coordinate.limits[1], -np.inf
    for row, arm, size in zip(rows, arms, sizes, strict=True):
        cells = replace(arm, values=arm.values - arm.values.max())
        row[:size, EDGE], row[size, EDGE] = cells.left, cells.right[-1]
        row[:size, HEIGHT] = cells.values[:, 0]
        row[1 : size + 1, HEIGHT] = np.maximum(row[1 : size + 1, HEIGHT], cells.values[:, -1])
        row[:size, JUMP], row[:size, CUBIC:] = ~cells.is_good, _coefficients(cells)
    rows[..., FIRST], rows[..., SECOND] = features_at(problem, coordinate, rows[..., EDGE])
    return Mesh(make_features(problem, coordinate), coordinate.limits, sizes, rows, twins)


def _require_decay(cells: Cells, arm: int, problem: BanditProblem) -> None:
    top = cells.values.max()
    ends = np.array([cells.values[0, 0], cells.values[-1, -1]])
    inner = np.array([cells.values[0, -1], cells.values[-1, 0]])
    lengths = (cells.right - cells.left)[[0, -1]]
    with np.errstate(invalid="ignore"):
        is_flat = (ends > top - LOG_REACH) & ~(inner - ends > _SLOWEST_DECAY * lengths)
    if top == -np.inf or is_flat.any():
        raise ValueError(
            f"problem.prior must be a density that integrates over its support, got "
            f"{problem.prior!r}, which does not decay for arm {arm}."
        )


def _roughness_message(arm: int) -> str:
    return (
        f"problem.prior must have a log-density of at most {MAX_CELLS} smooth pieces for "
        f"method='grid', got more for arm {arm}; use RacingThompson."
    )
