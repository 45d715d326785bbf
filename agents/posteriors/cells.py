"""Priors of independent arms, and what rewards say of a mean, as polynomials on cells.

A user's density is a Python function, too slow to call at each step, and may have spikes and jumps,
which a posterior inherits. So it is put on cells of the coordinate u once, and so are two functions
of the mean x that the likelihood L of n rewards of total s consists of: up to a constant,

    log L(x; n, s) = (s - n c) f_1(x) + n f_2(x),

f_1 is what a unit of reward adds, f_2 the log-likelihood of one reward of size c, a typical mean.
Both are small where rewards are what the prior expects, so that nothing cancels.

Cells are halved until polynomials of degree 7 follow all three, also at draws of the prior, which
show where it has spikes, and until the prior bends by little more than 1, so that its values at the
ends of cells show where its mass is. A jump is a cell of its own, some 1e-12 long, and straight.

Letters: K arms, P kinds of arms, C cells, D draws, m places.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from agents.posteriors.coordinate import Coordinate
from bandit_gym.checks import message
from bandit_gym.problem import BanditProblem
from bandit_gym.typing import FloatArray

NUM_DRAWS = 4096
NUM_TWIN_DRAWS = 1024
MOST_CELLS = 4000
DEGREE = 7

DEEPEST = 350.0
"""Further below its top a log-density is not resolved."""
FARTHEST = 1e6
"""Where one reward of size c is e^-1e6 as likely, the likelihood is not resolved."""
NOTHING = -1e30
"""Log-density of what the prior excludes."""
NARROWEST = 1e-8
"""A cell shorter than that is not relied on: means there have few digits left to tell them by."""
IMPOSSIBLE = -1e12
"""Log-likelihood, per reward, of what the likelihood excludes."""

_TOLERANCE = 1e-4
_FEATURE_TOLERANCE = 1e-9  # of the range over a cell
_ROUNDING = 1e-14
_LARGEST_BEND = 1.0
_SHORTEST = 1e-12
_SLOWEST_DECAY = 1e-3
_LOG_REACH = 21.0
_NODES = (1 - np.cos(np.pi * np.arange(DEGREE + 1) / DEGREE)) / 2
_CHECKS = (_NODES[1:] + _NODES[:-1]) / 2
_FIT = np.linalg.inv(np.vander(_NODES, increasing=True))
_AT_CHECKS = np.vander(_CHECKS, DEGREE + 1, increasing=True) @ _FIT
_MIDDLE = DEGREE // 2


class Cells(NamedTuple):
    """The priors of K arms and the likelihood, in the form that kernels read.

    Attributes:
        ends: (4,) of the coordinate.
        limits: (2,) of the coordinate.
        typical: c.
        kind_of_arm: (K,) which of P kinds an arm is of; arms of one kind have one prior.
        sizes: (P,) number of cells.
        edges: (P, C + 1) ends of cells, padded by the last.
        polynomials: (P, C, 3, DEGREE + 1) of the prior's log-density of u less its top, of f_1 and
            of f_2, in t from 0 to 1 along a cell.
        is_jump: (P, C) True for jumps.
        is_unknown: (P, C) True where the prior was not resolved.
    """

    ends: np.ndarray
    limits: np.ndarray
    typical: float
    kind_of_arm: np.ndarray
    sizes: np.ndarray
    edges: np.ndarray
    polynomials: np.ndarray
    is_jump: np.ndarray
    is_unknown: np.ndarray


def make_cells(problem: BanditProblem) -> tuple[Coordinate, Cells]:
    """Resolve the priors of all arms, and the likelihood.

    Raises:
        ValueError: if a prior does not integrate, is NaN somewhere, or is too rough; names the arm.
    """
    support = problem.arm_support()
    draws = problem.prior.sample(np.random.default_rng(0), (NUM_DRAWS, problem.num_arms))
    coordinate = Coordinate.of_draws(support, draws)
    twins = find_twins(problem, support, draws)
    found = []
    for arm in np.unique(twins):
        density = ArmDensity(problem, coordinate, support, int(arm))
        found.append(resolve_arm(density, draws[:, arm]))
        _require_decay(found[-1], density)
    sizes = np.array([len(arm.is_unknown) for arm in found])
    shape = (len(found), sizes.max())
    edges, polynomials = np.empty((shape[0], shape[1] + 1)), np.zeros((*shape, 3, DEGREE + 1))
    is_jump, is_unknown = np.zeros((2, *shape), dtype=bool)
    for kind, (arm, size) in enumerate(zip(found, sizes, strict=True)):
        edges[kind], edges[kind, : size + 1] = arm.edges[-1], arm.edges
        polynomials[kind, :size] = arm.polynomials
        is_jump[kind, :size], is_unknown[kind, :size] = arm.is_jump, arm.is_unknown
    kind_of_arm = np.unique(twins, return_inverse=True)[1]
    cells = Cells(
        coordinate.ends,
        coordinate.limits,
        _typical_means(coordinate)[0],
        kind_of_arm,
        sizes,
        edges,
        polynomials,
        is_jump,
        is_unknown,
    )
    return coordinate, cells


def find_twins(problem: BanditProblem, support: FloatArray, draws: FloatArray) -> np.ndarray:
    """Return, for each of K arms, the first arm with the same density at draws of all arms.

    Densities are known up to a constant, and compared to nine digits.

    Args:
        problem: likelihood and prior.
        support: (K, 2) lowest and highest mean of each arm.
        draws: (D, K) from the prior, of which NUM_TWIN_DRAWS are looked at.
    """
    some = draws[:64].ravel()
    some = some[:: max(1, len(some) // NUM_TWIN_DRAWS)]
    values = log_prior(problem, support, np.repeat(some[:, None], problem.num_arms, axis=1))
    first: dict[bytes, int] = {}
    values = np.round(values - values.max(axis=0), 9) + 0.0
    columns = np.concatenate([values, support.T]).T
    return np.array([first.setdefault(each.tobytes(), arm) for arm, each in enumerate(columns)])


def log_prior(problem: BanditProblem, support: FloatArray, means: FloatArray) -> FloatArray:
    """Return the prior log-density of each arm at (m, K) means, -inf outside its support, (K, 2).

    Raises:
        ValueError: if it is no density; names the arm.
    """
    prior: Any = problem.prior
    with np.errstate(all="ignore"):
        values = np.asarray(prior.arm_log_density(means), dtype=np.float64)
    values = np.where((means < support[:, 0]) | (means > support[:, 1]), -np.inf, values)
    is_bad = np.isnan(values) | (values == np.inf)
    if is_bad.any():
        row, arm = np.argwhere(is_bad)[0]
        raise ValueError(
            f"problem.prior.arm_log_density must be a number or -inf, got {values[row, arm]} for "
            f"arm {arm} at the mean {means[row, arm]}."
        )
    return values


class ArmDensity(NamedTuple):
    """The three functions of one arm, along u.

    Attributes:
        problem: likelihood and prior.
        coordinate: u.
        support: (K, 2) lowest and highest mean of each arm.
        arm: whose.
    """

    problem: BanditProblem
    coordinate: Coordinate
    support: np.ndarray
    arm: int

    def at(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the (3, ...) functions at u of any shape; sizes of rounding errors, and means.

        The first error is that of u, the next two are those of the features.
        """
        means = self.coordinate.means(u)
        rows = np.tile(means.reshape(-1, 1)[:1], (means.size, self.problem.num_arms))
        rows[:, self.arm] = means.ravel()  # the others stay, which slices are cheaper for
        values = log_prior(self.problem, self.support, rows)[:, self.arm].reshape(u.shape)
        log_slope = self.coordinate.log_slope(u)
        noise = 16 * np.finfo(float).eps * np.exp(np.log(np.abs(means) + 1e-300) - log_slope)
        first, second, sizes = self._features(means)
        functions = np.stack([values + log_slope, first, second])
        return functions, np.stack([noise, *sizes, means])

    def _features(self, means: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return f_1, f_2 and the size of what they are made of."""
        low, high = _typical_means(self.coordinate)
        weigh = self.problem.likelihood.log_likelihood
        with np.errstate(all="ignore"):
            one, other = weigh(means, 1, low), weigh(means, 1, high)
            at_low, at_high = weigh(low, 1, low), weigh(low, 1, high)
            first = ((other - at_high) - (one - at_low)) / (high - low)
            second = one - at_low
        is_nan = np.isnan(one) | np.isnan(other)
        if is_nan.any():
            condition = (
                f"be a number or -inf at every mean, the mean {means[is_nan][0]:g} among them"
            )
            raise ValueError(message("likelihood.log_likelihood", condition, np.nan))
        is_lost = ~(np.isfinite(first) & np.isfinite(second)) | (second < IMPOSSIBLE)
        first, second = np.where(is_lost, 0.0, first), np.where(is_lost, IMPOSSIBLE, second)
        sizes = 1 + abs(at_low) + abs(at_high) + np.abs(second)
        rounding = np.stack([sizes / (high - low) + np.abs(first), sizes])
        return first, second, _ROUNDING * rounding


def _typical_means(coordinate: Coordinate) -> tuple[float, float]:
    """Return c, and another mean that is as typical."""
    places = coordinate.positions(np.array([coordinate.centre])) + np.array([0.0, 0.5])
    low, high = coordinate.means(places)
    return float(low), float(high)


class ArmCells(NamedTuple):
    """Cells of one arm, in increasing order; see `Cells`."""

    edges: np.ndarray
    polynomials: np.ndarray
    is_jump: np.ndarray
    is_unknown: np.ndarray


def resolve_arm(density: ArmDensity, draws: FloatArray) -> ArmCells:
    """Return the cells of one arm: halved until each is smooth, empty, unknown or a jump.

    Args:
        density: of the arm.
        draws: (D,) from its prior.
    """
    coordinate, support = density.coordinate, density.support[density.arm]
    places = np.unique(coordinate.positions(draws))
    at_places = density.at(places)[0][0]
    top = at_places.max()
    steps = np.concatenate([[0.0], 2.0 ** np.arange(-1, 10)])
    grid = np.concatenate([-steps, steps, coordinate.limits, coordinate.positions(support)])
    edges = np.unique(np.clip(grid, *coordinate.limits))
    edges = edges[np.append(True, np.diff(edges) > _shortest(edges[1:]))]
    left, right = edges[:-1], edges[1:]
    done: list[tuple[np.ndarray, ...]] = []
    num_done = 0
    while len(left):
        if num_done + len(left) > MOST_CELLS:
            raise ValueError(_roughness_message(density.arm))
        length = right - left
        values, noise = density.at(left[:, None] + length[:, None] * _NODES)
        checks, noise_there = density.at(left[:, None] + length[:, None] * _CHECKS)
        top = max(top, values[0].max(), checks[0].max())
        rounding = np.concatenate([noise, noise_there], axis=-1)
        found = _judge(values, checks, rounding, top)
        is_good, is_empty, is_unknown, polynomials = found
        inside = np.searchsorted(left, places, side="right") - 1
        inside = np.where((inside >= 0) & (places <= right[inside]), inside, len(left))
        t = (places - left[inside % len(left)]) / length[inside % len(left)]
        fitted = (polynomials[0][inside % len(left)] * t[:, None] ** np.arange(DEGREE + 1)).sum(-1)
        limit = 2 * (_tolerance(at_places, top) + np.append(noise[0].max(-1), 0.0)[inside])
        is_missed = (at_places > top - DEEPEST) & ~(np.abs(fitted - at_places) <= limit)
        missed = np.bincount(inside[is_missed], minlength=len(left) + 1)[: len(left)] > 0
        is_good &= ~missed
        is_flat = (is_empty | is_unknown) & ~missed & ~is_good
        is_jump = ~is_good & ~is_flat & (length <= 2 * _shortest(right))
        is_done = is_good | is_flat | is_jump
        ends = values[:, :, [0, -1]]
        ends[0] = np.maximum(ends[0], NOTHING)
        straight = np.zeros_like(polynomials)
        straight[..., 0], straight[..., 1] = ends[..., 0], ends[..., 1] - ends[..., 0]
        straight[0, is_empty, 0], straight[0, is_empty, 1] = NOTHING, 0.0
        kept = np.where(is_good[:, None], polynomials, straight)
        is_known = (is_good & (length > NARROWEST)) | (is_flat & is_empty)
        kept = np.moveaxis(kept, 0, 1)
        columns = left, right, kept, is_empty & is_flat, is_jump, ~(is_known | is_jump)
        done.append(tuple(column[is_done] for column in columns))
        num_done += int(is_done.sum())
        middle = (left + right)[~is_done] / 2
        left, right = (
            np.stack(pair, axis=1).ravel()
            for pair in ((left[~is_done], middle), (middle, right[~is_done]))
        )
    left, right, polynomials, is_empty, is_jump, is_unknown = (
        np.concatenate(column) for column in zip(*done, strict=True)
    )
    order = np.argsort(left, kind="stable")
    inside = np.flatnonzero(~(is_empty | is_jump)[order])
    order = order[inside[0] : inside[-1] + 1] if len(inside) else order
    polynomials[:, 0, 0] = np.maximum(polynomials[:, 0, 0] - top, NOTHING)
    edges = np.append(left[order], right[order[-1]])
    return ArmCells(edges, polynomials[order], is_jump[order], is_unknown[order])


def _tolerance(values: FloatArray, top: float) -> FloatArray:
    """Return the misfits of a prior that are allowed, larger where only absurd data would lead."""
    return _TOLERANCE * np.maximum(1.0, (top - values) / 10) ** 1.5


def _judge(
    values: FloatArray, checks: FloatArray, rounding: FloatArray, top: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, FloatArray]:
    """Return where (3, C, ...) functions are followed, where the prior is nothing, where not known.

    And the (3, C, DEGREE + 1) polynomials that follow them.
    """
    with np.errstate(all="ignore"):
        start = values[..., :1]  # from which the rest is told, so that constants are
        misfit = np.abs(start + (values - start) @ _AT_CHECKS.T - checks)
        change = np.ptp(values, axis=-1)
        largest, means = rounding.max(axis=-1)[:3], rounding[3]
        loss = 16 * np.finfo(float).eps * np.abs(means).max(axis=-1) / np.ptp(means, axis=-1)
        allowed = (_FEATURE_TOLERANCE + loss) * change + largest
        allowed = np.broadcast_to(allowed[..., None], checks.shape).copy()
        allowed[0] = largest[0][:, None] + _tolerance(checks[0], top)
        is_fitted = (misfit <= allowed).all(axis=(0, 2))
        bend = np.abs(values[0, :, 0] - 2 * checks[0, :, _MIDDLE] + values[0, :, -1])
        polynomials = (values - start) @ _FIT.T
        polynomials[..., 0] += start[..., 0]
    both = np.concatenate([values, checks], axis=-1)
    highest = both[0].max(axis=-1)
    is_empty = np.isneginf(highest)
    is_unknown = (highest < top - DEEPEST) | (both[2].max(axis=-1) < -FARTHEST)
    is_good = is_fitted & (bend <= _LARGEST_BEND) & ~is_unknown & np.isfinite(both).all(axis=(0, 2))
    return is_good, is_empty, is_unknown, polynomials


def _shortest(u: FloatArray) -> FloatArray:
    return _SHORTEST * (1 + np.abs(u))


def _require_decay(cells: ArmCells, density: ArmDensity) -> None:
    """Refuse a density that is as high at a limit of u as before it; elsewhere the support ends."""
    starts, stops = cells.polynomials[:, 0, 0], cells.polynomials[:, 0].sum(axis=-1)
    ends, inside = np.array([[starts[0], stops[-1]], [stops[0], starts[-1]]])
    lengths = np.diff(cells.edges)[[0, -1]]
    is_limit = cells.edges[[0, -1]] == density.coordinate.limits
    is_flat = is_limit & (ends > -_LOG_REACH) & ~(inside - ends > _SLOWEST_DECAY * lengths)
    if not starts.max() > NOTHING or is_flat.any():
        raise ValueError(
            f"problem.prior must be a density that integrates over its support, got "
            f"{density.problem.prior!r}, which does not decay for arm {density.arm}."
        )


def _roughness_message(arm: int) -> str:
    return (
        f"problem.prior must have a log-density of at most {MOST_CELLS} smooth pieces for "
        f"method='grid', got more for arm {arm}; use RacingThompson."
    )
