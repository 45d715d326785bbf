"""Priors of independent arms and likelihoods of a mean, as polynomials on cells of a line.

A posterior may be as wide as its support or a million times narrower. Its density may be unbounded
at an end (Beta(1/2, 1/2)) or have a heavy tail. So means x get a coordinate u on the whole line,
along which every integrable density decays at both ends.

A user's density is a Python function, too slow to call at each step. It may have spikes and jumps,
which a posterior inherits. So it is put on cells of u once. So are two functions of the mean that
make up the likelihood L of n rewards of total s: up to a constant,

    log L(x; n, s) = (s - n c) / d f_1(x) + n f_2(x),

where f_1 is what a further reward of d adds, and f_2 the log-likelihood of one reward of size c;
c and c + d are typical means. Both are small where rewards are what the prior expects, so that
nothing cancels.

Cells are halved until polynomials of degree 7 fit all three, also at draws of the prior, which show
its spikes. They are also halved until the prior bends by little more than 1, so that its values at
cells' ends show where its mass is. A jump is a cell too short to halve, with a straight line.

Notation: K arms, P kinds of arms, C cells, D draws, m points.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_expit

from bandit_gym.checks import message
from bandit_gym.checks.typing import FloatArray, IntArray
from bandit_gym.numerics.compiled import inner
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import MAX_MEAN, BanditProblem

NUM_CELL_DRAWS = 4096
NUM_COMPARED_DRAWS = 1024
MAX_CELLS = 4000
DEGREE = 7

MAX_LOG_DEPTH = 350.0
"""Depth below its top, beyond which a log-density is not resolved."""
MAX_LOG_LIKELIHOOD_DROP = 1e6
"""Where one reward of size c is e^-1e6 as likely, the likelihood is not resolved; nor is it in a
cell along which it falls by so much."""
EXCLUDED_LOG_DENSITY = -1e30
"""Log-density of what the prior excludes."""
MIN_CELL_LENGTH = 1e-8
"""A cell shorter than that is not halved: its means would have too few digits."""
MAX_SHORT_SHARE = 1e-3
"""Of the prior's draws, that may lie in such cells."""
EXCLUDED_LOG_LIKELIHOOD = -1e12
"""Log-likelihood, per reward, of what the likelihood excludes."""

_RELATIVE_ROUNDING = 16 * np.finfo(float).eps
_FIT_TOLERANCE = 1e-4
FEATURE_TOLERANCE = 1e-9  # of the range over a cell
_SAME_LOG_DENSITY = 1e-9
_ROUNDING = 1e-14
_MAX_BEND = 1.0
_SLOWEST_DECAY = 1e-3
_LOG_REACH = 21.0
_CELL_NODES = (1 - np.cos(np.pi * np.arange(2 * DEGREE + 1) / (2 * DEGREE))) / 2
_POWERS = np.vander(_CELL_NODES, DEGREE + 1, increasing=True)
_FIT_MATRIX = np.linalg.inv(_POWERS[::2])  # through every other node; those between are checks


class Coordinate(NamedTuple):
    """A smooth increasing map x(u) from the line onto an interval of means.

    It is logistic on a bounded interval, exponential above a lowest mean, else a hyperbolic sine.
    So powers of the distance to an end, and of x far out, become exponentials of u.

    Attributes:
        ends: (4,) left end of the interval, -inf allowed; right end, inf allowed; a typical mean;
            a typical distance from that, or from a lone lowest mean.
        limits: (2,) range of u in which x stays a few units in the last place away from its ends.
        typical: (2,) c and d, see the module.
    """

    ends: np.ndarray
    limits: np.ndarray
    typical: np.ndarray

    def means(self, u: FloatArray) -> FloatArray:
        """Return x(u), strictly inside the interval for u within `limits`."""
        with np.errstate(over="ignore"):  # at the limits of a wide interval
            return np.asarray(find_mean(self.ends, u))

    def sizes(self, means: FloatArray) -> FloatArray:
        """Return sizes by which means are rounded; formulas may have them less a finite low end."""
        low, high = self.ends[:2]
        return np.maximum(np.abs(means), means - low if np.isfinite(high - low) else 0.0)

    def log_slope(self, u: FloatArray) -> FloatArray:
        """Return log dx/du, which turns a density of x into one of u."""
        low, high, _, scale = self.ends
        if np.isfinite(high - low):
            return np.asarray(np.log(high - low) + log_expit(u) + log_expit(-u))
        if np.isfinite(low):
            return np.log(scale) + u
        return np.log(scale / 2) + np.logaddexp(u, -u)

    def positions(self, means: FloatArray) -> FloatArray:
        """Return u(x), clipped to `limits`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.clip(find_position(self.ends, means), *self.limits))


def make_coordinate(support: FloatArray, draws: FloatArray) -> Coordinate:
    """Return the coordinate that all arms share, so that the largest u is the largest mean.

    Args:
        support: (K, 2) interval of each arm's mean.
        draws: (S, K) from the prior, which show what is typical.
    """
    low, high, centre = support[:, 0].min(), support[:, 1].max(), np.median(draws)
    scale = max(np.median(np.abs(draws - (low if np.isfinite(low) else centre))), 1e-100)
    sizes = [low, max(-low, high)]  # near the high end, of what formulas may add to the low one
    margins = np.maximum(_RELATIVE_ROUNDING / 2 * np.abs(sizes), 1e-300)
    if np.isfinite(high - low):
        limits = np.log(margins / (high - low)) * np.array([1.0, -1.0])
    else:
        reach = np.log(MAX_MEAN / scale)
        limits = np.array([np.log(margins[0] / scale) if np.isfinite(low) else -reach, reach])
    coordinate = Coordinate(np.array([low, high, centre, scale]), limits, np.empty(2))
    first, second = coordinate.means(coordinate.positions(np.array(centre)) + np.array([0.0, 0.5]))
    return coordinate._replace(typical=np.array([first, second - first]))


@inner
def find_position(ends: np.ndarray, x: Any) -> Any:
    """Return u(x) of numbers or arrays, infinite at and beyond finite ends."""
    low, high, centre, scale = ends[0], ends[1], ends[2], ends[3]
    x = np.minimum(np.maximum(x, low), high)
    if low == -np.inf:
        return np.arcsinh((x - centre) / scale)
    return np.log((x - low) / (high - x if high < np.inf else scale))


@inner
def find_mean(ends: np.ndarray, u: Any) -> Any:
    """Return x(u) of numbers or arrays."""
    low, high, centre, scale = ends[0], ends[1], ends[2], ends[3]
    if low == -np.inf:
        return centre + scale * np.sinh(u)
    if high < np.inf:
        return low + (high - low) / (1.0 + np.exp(-u))
    return low + scale * np.exp(u)


class PriorCells(NamedTuple):
    """The priors of K arms and the likelihood, in the form that kernels read.

    Attributes:
        coordinate: u.
        kind_of_arm: (K,) which of P kinds each arm is; arms of one kind share a prior.
        sizes: (P,) number of cells.
        edges: (P, C + 1) ends of cells, padded by the last.
        polynomials: (P, C, 3, DEGREE + 1) of the prior's log-density of u less its top, of f_1 and
            of f_2, in t from 0 to 1 along a cell.
        is_unknown: (P, C) True where the prior was not resolved.
    """

    coordinate: Coordinate
    kind_of_arm: np.ndarray
    sizes: np.ndarray
    edges: np.ndarray
    polynomials: np.ndarray
    is_unknown: np.ndarray


def make_cells(problem: BanditProblem) -> PriorCells:
    """Return cells that resolve all arms' priors and the likelihood.

    Raises:
        ValueError: if a prior does not integrate, is NaN somewhere, or is too rough; names the arm.
    """
    support = problem.arm_support()
    rng = make_generator("draws of the prior to tabulate")
    draws = problem.prior.sample(rng, (NUM_CELL_DRAWS, problem.num_arms))
    coordinate = make_coordinate(support, draws)
    kind_of_arm = find_kinds(problem, support, draws)
    _, arms = np.unique(kind_of_arm, return_index=True)
    resolved = []
    for arm in arms:
        density = ArmDensity(problem, coordinate, support, int(arm))
        resolved.append(resolve_arm(density, draws[:, arm]))
        _require_decay(resolved[-1], density)
    sizes = np.array([len(kind.is_unknown) for kind in resolved])
    columns = []
    for column in zip(*resolved, strict=True):
        indices = np.arange(max(map(len, column)))  # the last of an arm's fills the rest
        padded = [values[np.minimum(indices, len(values) - 1)] for values in column]
        columns.append(np.stack(padded))
    return PriorCells(coordinate, kind_of_arm, sizes, *columns)


def find_kinds(problem: BanditProblem, support: FloatArray, draws: FloatArray) -> IntArray:
    """Return the (K,) kinds of arms, equal for those with the same density and support.

    Densities are known up to a constant, and compared to nine digits. Arms are sorted by theirs at
    some draws of all arms. As these may miss a spike, each arm is compared with the next one at
    many draws of both.

    Args:
        problem: likelihood and prior.
        support: (K, 2) lowest and highest mean of each arm.
        draws: (D, K) from the prior, of which NUM_COMPARED_DRAWS of each arm are used.
    """
    num_arms = problem.num_arms
    some = draws[: max(1, NUM_COMPARED_DRAWS // num_arms)].reshape(-1, 1)
    values = log_prior(problem, support, np.repeat(some, num_arms, axis=1))
    signatures = np.hstack([np.round(values - values.max(axis=0), 9).T, support])
    order = np.lexsort(signatures.T)
    is_new = (signatures[order[1:]] != signatures[order[:-1]]).any(axis=1)
    ranks = np.linspace(0, len(draws) - 1, NUM_COMPARED_DRAWS).astype(np.int64)  # also the ends
    draws = np.sort(draws, axis=0)[ranks]
    own = np.maximum(log_prior(problem, support, draws), EXCLUDED_LOG_DENSITY)
    for one, other in ((order[1:], order[:-1]), (order[:-1], order[1:])):
        others = draws.copy()
        others[:, one] = draws[:, other]
        values = np.maximum(log_prior(problem, support, others), EXCLUDED_LOG_DENSITY)
        is_new |= np.ptp(values[:, one] - own[:, other], axis=0) > _SAME_LOG_DENSITY
    kinds = np.zeros(num_arms, dtype=np.int64)
    kinds[order[1:]] = is_new.cumsum()
    return kinds


def log_prior(problem: BanditProblem, support: FloatArray, means: FloatArray) -> FloatArray:
    """Return the prior log-density of each arm at (m, K) means, -inf outside its support, (K, 2).

    Raises:
        ValueError: if it is no density.
    """
    prior: Any = problem.prior
    with np.errstate(all="ignore"):
        values = np.asarray(prior.arm_log_density(means), dtype=np.float64)
    values = np.where((means < support[:, 0]) | (means > support[:, 1]), -np.inf, values)
    _require_numbers("problem.prior.arm_log_density", values, means)
    return values


def _require_numbers(name: str, values: FloatArray, means: FloatArray) -> None:
    is_bad = np.isnan(values) | (values == np.inf)
    if is_bad.any():
        condition = f"be a number or -inf at every mean, {means[is_bad][0]:g} among them"
        raise ValueError(message(name, condition, float(values[is_bad][0])))


class ArmDensity(NamedTuple):
    """The three functions of one arm, along u.

    Attributes:
        problem: likelihood and prior.
        coordinate: u.
        support: (K, 2) lowest and highest mean of each arm.
        arm: its index.
    """

    problem: BanditProblem
    coordinate: Coordinate
    support: np.ndarray
    arm: int

    def evaluate(self, u: FloatArray) -> FloatArray:
        """Return the (3, ...) functions at u of any shape."""
        means = self.coordinate.means(u)
        of_arms = np.full((means.size, self.problem.num_arms), means.flat[0])
        of_arms[:, self.arm] = means.ravel()  # the others stay, which slices are cheaper for
        values = log_prior(self.problem, self.support, of_arms)[:, self.arm].reshape(u.shape)
        (low, step), weigh = self.coordinate.typical, self.problem.likelihood.log_likelihood
        with np.errstate(all="ignore"):
            one, other = weigh(means, 1, low), weigh(means, 1, low + step)
            second = one - weigh(low, 1, low)
            first = other - weigh(low, 1, low + step) - second
        _require_numbers("likelihood.log_likelihood", one + other, means)
        is_lost = ~np.isfinite(first) | (second < EXCLUDED_LOG_LIKELIHOOD)
        first = np.where(is_lost, 0.0, first)
        second = np.where(is_lost, EXCLUDED_LOG_LIKELIHOOD, second)
        return np.stack([values + self.coordinate.log_slope(u), first, second])

    def sizes(self) -> FloatArray:
        """Return the (3, 1, 1) sizes of the constants that the functions are made of."""
        (low, step), weigh = self.coordinate.typical, self.problem.likelihood.log_likelihood
        size = 1 + abs(weigh(low, 1, low)) + abs(weigh(low, 1, low + step))
        return np.array([1.0, size, size])[:, None, None]


class ArmCells(NamedTuple):
    """Cells of one arm, in increasing order; see `PriorCells`."""

    edges: np.ndarray
    polynomials: np.ndarray
    is_unknown: np.ndarray


class DrawnValues(NamedTuple):
    """What an arm's log-density is at D draws of its prior: spikes between a cell's nodes show.

    Attributes:
        u: (D,) the draws, in increasing order.
        log_density: (D,) there.
        rounding: (D,) by which the density may be off, where means have few digits.
    """

    u: np.ndarray
    log_density: np.ndarray
    rounding: np.ndarray

    def find_missed(
        self, left: FloatArray, right: FloatArray, polynomials: FloatArray, top: float
    ) -> np.ndarray:
        """Return (C,) True where a cell's polynomial is off at a draw in it.

        Args:
            left: (C,) left ends of cells, increasing.
            right: (C,) right ends.
            polynomials: (C, DEGREE + 1) of the prior.
            top: largest log-density of the prior.
        """
        cell = np.searchsorted(left, self.u, side="right") - 1
        is_inside = (cell >= 0) & (self.u <= right[cell])
        cell = cell[is_inside]
        u, wanted, rounding = (part[is_inside] for part in self)
        t = (u - left[cell]) / (right - left)[cell]
        with np.errstate(invalid="ignore"):  # where a part of the cell has no density
            fitted = (polynomials[cell] * t[:, None] ** np.arange(DEGREE + 1)).sum(axis=-1)
        is_off = ~(np.abs(fitted - wanted) <= 2 * _allowed_misfit(wanted, top) + rounding)
        is_off &= wanted > top - MAX_LOG_DEPTH
        return np.bincount(cell[is_off], minlength=len(left)) > 0


def draw_values(density: ArmDensity, draws: FloatArray) -> DrawnValues:
    """Return an arm's log-densities at (D,) draws of its prior."""
    coordinate = density.coordinate
    u = np.unique(coordinate.positions(draws))
    sizes = coordinate.sizes(coordinate.means(u))
    rounding = _RELATIVE_ROUNDING * sizes / np.exp(coordinate.log_slope(u))
    return DrawnValues(u, density.evaluate(u)[0], rounding)


def resolve_arm(density: ArmDensity, draws: FloatArray) -> ArmCells:
    """Return the cells of one arm, halved until nothing is left to resolve in them.

    That is where polynomials follow all three functions, or those of the prior alone if one reward
    of a typical size has no likelihood there; where the prior has no mass without data; and where a
    cell is too short to halve. Functions that are not followed get a straight line.

    Args:
        density: of the arm.
        draws: (D,) from its prior.

    Raises:
        ValueError: if there are more than MAX_CELLS, or many draws are in cells that are too short
            to be halved; names the arm.
    """
    sizes, drawn = density.sizes(), draw_values(density, draws)
    positions = np.sort(density.coordinate.positions(draws))
    edges, done = find_first_edges(density), list[list[np.ndarray]]()
    left, right, top = edges[:-1], edges[1:], drawn.log_density.max()
    while len(left):
        if len(left) + sum(len(cells[0]) for cells in done) > MAX_CELLS:
            raise ValueError(
                f"problem.prior must have a log-density of at most {MAX_CELLS} smooth pieces for "
                f"method='grid', got more for arm {density.arm}; use RacingThompson."
            )
        u = left[:, None] + (right - left)[:, None] * _CELL_NODES
        values = density.evaluate(u)
        highest, log_likelihood = values[0].max(axis=-1), values[2]
        top = max(top, highest.max())
        fits = _fit_polynomials(values, density.coordinate, u, sizes, top)
        polynomials, follows_prior, follows_all = fits
        is_missed = drawn.find_missed(left, right, polynomials[0], top)
        is_low = (highest < top - MAX_LOG_DEPTH) & ~is_missed
        is_empty = np.isneginf(highest) & ~is_missed
        is_unlikely = log_likelihood.max(axis=-1) < -MAX_LOG_LIKELIHOOD_DROP
        is_steep = np.ptp(log_likelihood, axis=-1) > MAX_LOG_LIKELIHOOD_DROP
        follows_prior &= ~is_low & ~is_missed
        follows_all &= follows_prior & ~is_unlikely & ~is_steep
        is_short = right - left <= MIN_CELL_LENGTH * (1 + np.abs(right))
        is_done = follows_all | (follows_prior & is_unlikely) | is_low | is_short
        before = np.searchsorted(positions, [left[is_short], right[is_short]])
        share = np.diff(before, axis=0).sum() / len(positions)
        if share > MAX_SHORT_SHARE:
            condition = f"have its mass on pieces longer than {MIN_CELL_LENGTH:g} for tables"
            found = f"{share:.2g} of the draws of arm {density.arm} on shorter ones"
            text = f"problem.prior must {condition}, got {found}; widen them, or use SMCThompson."
            raise ValueError(text)
        follows = np.stack([follows_prior, follows_all, follows_all])[..., None]
        kept = np.where(follows, polynomials, _straight_lines(values)).swapaxes(0, 1)
        columns = left, right, kept, is_empty, ~(follows_all | is_empty)
        done.append([column[is_done] for column in columns])
        ends = np.stack([left, (left + right) / 2, right], axis=1)[~is_done]
        left, right = ends[:, :-1].ravel(), ends[:, 1:].ravel()
    left, right, polynomials, is_empty, is_unknown = map(np.concatenate, zip(*done, strict=True))
    order = np.argsort(left, kind="stable")
    inside = np.flatnonzero(~is_empty[order])
    order = order[inside[0] : inside[-1] + 1] if len(inside) else order
    polynomials[:, 0, 0] = np.maximum(polynomials[:, 0, 0] - top, EXCLUDED_LOG_DENSITY)
    edges = np.append(left[order], right[order[-1]])
    return ArmCells(edges, polynomials[order], is_unknown[order])


def find_first_edges(density: ArmDensity) -> FloatArray:
    """Return increasing u: steps that double on either side of 0, and the ends of the support."""
    steps = np.concatenate([[0.0], 2.0 ** np.arange(-1, 10)])
    limits, support = density.coordinate.limits, density.support[density.arm]
    edges = np.concatenate([-steps, steps, limits, density.coordinate.positions(support)])
    return np.unique(np.clip(edges, *limits))


def _straight_lines(values: FloatArray) -> FloatArray:
    """Return (3, C, DEGREE + 1) straight lines through the first and the last of (3, C, m)."""
    start, stop = np.maximum(values[..., [0, -1]], EXCLUDED_LOG_DENSITY).transpose(2, 0, 1)
    straight = np.zeros((*start.shape, DEGREE + 1))
    straight[..., 0], straight[..., 1] = start, stop - start
    return straight


def _allowed_misfit(values: FloatArray, top: float) -> FloatArray:
    """Return the allowed misfits of a prior, larger where only absurd data would put mass."""
    return _FIT_TOLERANCE * np.maximum(1.0, (top - values) / 10) ** 1.5


def _fit_polynomials(
    values: FloatArray, coordinate: Coordinate, u: FloatArray, sizes: FloatArray, top: float
) -> tuple[FloatArray, np.ndarray, np.ndarray]:
    """Return (3, C, DEGREE + 1) polynomials, (C,) True where the first fits, and where all do.

    Args:
        values: (3, C, m) functions at the nodes of cells.
        coordinate: u.
        u: (C, m) there.
        sizes: of the functions' constants.
        top: largest log-density of the prior.
    """
    means = coordinate.means(u)
    with np.errstate(all="ignore"):
        start = values[..., :1]  # subtracted, so that constants are exact
        polynomials = (values - start)[..., ::2] @ _FIT_MATRIX.T
        # Many rewards would multiply the smallest jump from cell to cell.
        polynomials[..., 1] += values[..., -1] - start[..., 0] - polynomials.sum(axis=-1)
        misfit = np.abs(start + polynomials @ _POWERS.T - values)
        size, change = coordinate.sizes(means).max(axis=-1), np.ptp(values, axis=-1)
        loss = _RELATIVE_ROUNDING * size / np.ptp(means, axis=-1)  # of digits of x
        allowed = ((FEATURE_TOLERANCE + loss) * change)[..., None]
        parts = np.abs(values)
        parts[1] += parts[2]  # what f_1 is a difference of
        allowed = allowed + _ROUNDING * (sizes + parts)
        allowed[0] += _allowed_misfit(values[0], top)
        bend = np.abs(values[0, :, 0] - 2 * values[0, :, DEGREE] + values[0, :, -1])
        follows = (misfit <= allowed).all(axis=2) & (bend <= _MAX_BEND)
        polynomials[..., 0] += start[..., 0]
    return polynomials, follows[0], follows.all(axis=0)


def _require_decay(cells: ArmCells, density: ArmDensity) -> None:
    """Refuse a density that is as high at a limit of u as before it; elsewhere the support ends."""
    starts, stops = cells.polynomials[:, 0, 0], cells.polynomials[:, 0].sum(axis=-1)
    ends, inside = np.array([[starts[0], stops[-1]], [stops[0], starts[-1]]])
    lengths = np.diff(cells.edges)[[0, -1]]
    is_limit = cells.edges[[0, -1]] == density.coordinate.limits
    is_flat = is_limit & (ends > -_LOG_REACH) & ~(inside - ends > _SLOWEST_DECAY * lengths)
    if not starts.max() > EXCLUDED_LOG_DENSITY or is_flat.any():
        raise ValueError(
            f"problem.prior must be a density that integrates over its support, got "
            f"{density.problem.prior!r}, which does not decay for arm {density.arm}."
        )
