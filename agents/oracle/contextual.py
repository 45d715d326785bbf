r"""Probability that each arm is the best where arms have features, to judge samplers by.

Arm a is the best where x_a . theta is the largest. These regions are cones with their tip at the
origin. So polar coordinates have exact ends in up to three dimensions: a region is cut into cones
over simplices with corners V, and

.. math:: P_a \propto \sum_V |\det V|
    \int_\Delta d\lambda \int_0^\infty r^{d-1} f(r V \lambda) \, dr

with f the posterior density. The first cuts are along the planes where a coefficient is 0, as a
prior's density may have a kink there. Beyond three dimensions see `agents.oracle.importance`.

It shares only a prior's density and draws and a link's log-likelihood with the agents.

Notation: K arms, d features, t rewards, S simplices, R rays, M points.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.random import Generator
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from agents.oracle.arms import Density
from agents.oracle.chains import PosteriorTarget, chain_probabilities, temper_draws
from agents.oracle.importance import independent_arms, one_posterior
from agents.oracle.panels import require_tolerance
from bandit_gym.checks import check_numbers, message
from bandit_gym.checks.typing import BoolArray, FloatArray, IntArray
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import ContextualProblem

MAX_POLAR = 3
"""Features up to which polar coordinates are used."""

POLAR_TOLERANCE, SAMPLING_TOLERANCE = 1e-4, 1e-3
"""Total variation errors that are accepted by default."""

SIMPLEX_TOLERANCE = {1: 0.0, 2: 1e-9, 3: 1e-7}
"""By d: a simplex is done if halving changes its share of all mass by less."""

NUM_DIRECTIONS = 256
"""Draws of the posterior that show where its mass lies."""

MAX_HALVINGS = {1: 0, 2: 60, 3: 90}
"""Of a simplex, by d. One of a single corner is a half line and has nothing to halve."""

NUM_ANGLES, NUM_RADII, NUM_FINER = 7, 12, 4
"""Gauss-Legendre nodes per axis of a simplex and panel of a ray; how many more for the error."""

DEPTH = 30.0
"""Log-depth below its largest value on a ray, beyond which the integrand is left out."""

PANELS = np.array([0.0, 0.12, 0.4, 1.0])
"""Ends of a ray's panels, as shares of the distance from its largest value."""

GRID_STEP = 2.0
MODE_GRID = np.arange(-14.0, 15.0, GRID_STEP)
"""Of log r, where the largest value is looked for."""

NUM_MODE_HALVINGS = 23
"""Of the step, until that value is found to 1e-7."""

REACHES = 1e-7 * 3.0 ** np.arange(19.0)
"""Distances from the largest value, in log r, at which the integrand may be negligible."""

MAX_VALUES = 1 << 21
"""Predictors of all rows that are held at once."""


@dataclass(frozen=True, eq=False)
class StudentTarget(PosteriorTarget):
    """The posterior of coefficients with the unknown deviation of rewards integrated out.

    With the prior InverseGamma(a, b) of s^2, n rewards and the sum of squares C of these and of the
    coefficients' own normal prior, its density is in proportion to (b + C / 2)^-(a + (n + d) / 2).

    Attributes:
        squares: of the rewards around their row's average.
    """

    squares: float = 0.0

    def compress(self) -> StudentTarget:
        """Return the target itself: the number of rewards counts."""
        return self

    def sample_prior(self, rng: Generator, size: int) -> FloatArray:
        """Return (size, d) draws of the prior."""
        shape, prior = (size, self._num_all), self.problem.prior
        return np.asarray(prior.sample_with_stds(rng, shape, is_shared=True)[0] / self.units)  # type: ignore[attr-defined]

    def log_prior(self, theta: FloatArray) -> FloatArray:
        """Return the (...) log-densities of (..., d) coefficients under the prior."""
        return self._log_density(theta, 0.0, 0.0)

    def log_likelihood(self, predictors: FloatArray, theta: FloatArray) -> FloatArray:
        """Return the (...) log-likelihoods of (..., n) predictors, those of (..., d) theta."""
        off = np.square(self.sums / self.counts - predictors)
        of_data = self._log_density(theta, self.counts.sum(), off @ self.counts + self.squares)
        return of_data - self.log_prior(theta)

    def _log_density(self, theta: FloatArray, num_rewards: float, squares: Any) -> FloatArray:
        prior: Any = self.problem.prior
        off = np.square(theta * self.units - prior.mean) * np.asarray(prior.precision)
        power = prior.shape + (num_rewards + self._num_all) / 2
        return np.asarray(-power * np.log(prior.scale + (off.sum(axis=-1) + squares) / 2))


def contextual_probabilities(
    problem: ContextualProblem,
    evidence: Any,
    features: Any,
    tolerance: float | None,
    prices: Any = None,
) -> tuple[FloatArray, float]:
    """Return the (K,) probabilities that each arm is the best, and their total variation error.

    Arms with equal features share theirs equally.

    Args:
        problem: likelihood and prior of the (d,) coefficients.
        evidence: (t, d) features and (t,) rewards.
        features: (K, d) of this decision.
        tolerance: largest total variation error that is accepted.
        prices: (K,) values and (K,) costs; arms are not best in cones then, and all is by sampling.

    Raises:
        ToleranceError: if the error is larger.
    """
    target, distinct, copies = _prepare(problem, evidence, features)
    if prices is not None:
        (values, costs), arms = prices, np.asarray(features, dtype=np.float64)

        def find_worth(theta: FloatArray) -> FloatArray:
            return np.asarray(values * problem.link.mean(theta @ arms.T) - costs)

        tolerance = tolerance or SAMPLING_TOLERANCE
        probabilities, error = one_posterior(target.compress(), find_worth, tolerance)
        require_tolerance(error, tolerance)
        return probabilities, error
    is_polar = problem.num_features <= MAX_POLAR
    tolerance = tolerance or (POLAR_TOLERANCE if is_polar else SAMPLING_TOLERANCE)
    if is_polar:
        of_distinct, error = polar_probabilities(target.compress(), distinct)
    elif blocks := find_blocks(target, distinct):
        targets = [target.block(chosen).compress() for chosen in blocks]
        of_distinct, error = independent_arms(targets, distinct, tolerance)
    else:
        of_distinct, error = one_posterior(target.compress(), distinct, tolerance)
    require_tolerance(error, tolerance)
    probabilities = copies @ of_distinct
    return probabilities / probabilities.sum(), error  # none above 1 by rounding


def probabilities_by_chains(
    problem: ContextualProblem, evidence: Any, features: Any, tolerance: float
) -> FloatArray:
    """Return the (K,) probabilities by Markov chains alone, to check the others by."""
    target, distinct, copies = _prepare(problem, evidence, features)
    return copies @ chain_probabilities(target.compress(), distinct, tolerance)[0]


def _prepare(
    problem: ContextualProblem, evidence: Any, features: Any
) -> tuple[PosteriorTarget, FloatArray, FloatArray]:
    """Return the posterior, (k, d) distinct features, and the (K, k) share of each arm in them."""
    if not isinstance(evidence, tuple | list) or len(evidence) != 2:
        condition = "be a pair of (t, d) features and (t,) rewards"
        raise TypeError(message("evidence", condition, evidence))
    rows, rewards = (check_numbers("evidence", part) for part in evidence)
    arms, num_features = check_numbers("features", features), problem.num_features
    if rewards.ndim != 1 or rows.shape != (len(rewards), num_features):
        condition = f"be (t, {num_features}) features and (t,) rewards"
        raise ValueError(message("evidence", condition, (rows.shape, rewards.shape)))
    if arms.ndim != 2 or arms.shape[1] != num_features or len(arms) < 2:
        condition = f"have the shape (K, {num_features}) with K of at least 2"
        raise ValueError(message("features", condition, arms.shape))
    if not np.all(problem.likelihood.is_possible(rewards)):
        raise ValueError(message("evidence", "have rewards that the likelihood allows", rewards))
    distinct, which, sizes = np.unique(arms, axis=0, return_inverse=True, return_counts=True)
    copies = (np.eye(len(distinct)) / sizes)[which.ravel()]
    rows, order, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    sums = np.bincount(order.ravel(), rewards, len(rows)).astype(np.float64)
    target = PosteriorTarget(problem, rows, counts.astype(np.float64), sums)
    if problem.likelihood.needs_squares:
        off = rewards - (sums / counts)[order.ravel()]
        target = StudentTarget(**vars(target), squares=float(off @ off))
    return target, distinct, copies


def find_blocks(target: PosteriorTarget, arms: FloatArray) -> list[IntArray]:
    """Return the coefficients of each arm if no two arms depend on each other, otherwise nothing.

    Two coefficients belong together where a row or an arm has both.
    """
    if len(arms) == 1 or not target.problem.offers("arm_log_density"):
        return []
    if isinstance(target, StudentTarget):
        return []  # the deviation is one of all
    used = np.concatenate([target.rows, arms]) != 0
    _, labels = connected_components(used.T.astype(int) @ used.astype(int))
    blocks = [np.flatnonzero(np.isin(labels, labels[arm != 0])) for arm in arms]
    all_used = np.concatenate(blocks)
    return blocks if len(all_used) == len(np.unique(all_used)) and all(map(len, blocks)) else []


def polar_probabilities(target: PosteriorTarget, arms: FloatArray) -> tuple[FloatArray, float]:
    """Return the (K,) probabilities of d <= 3, and an estimate of their error.

    Simplices are halved until their shares stay. They are also halved until their length is at most
    their distance from the posterior's draws and twice a deviation of these: else a narrow peak at
    an edge would be missed. Then all are done again with more nodes, and the change is the error.
    Coefficients are in units of their deviations, or else features in large units would make the
    peak so narrow that simplices are halved for ever.
    """
    draws = temper_draws(make_generator("directions of the oracle"), target, NUM_DIRECTIONS)
    units = draws.std(axis=0)
    target, arms, directions = target.in_units(units), arms * units, _unit(draws / units)
    corners, owners = winning_cones(arms)
    tolerance = SIMPLEX_TOLERANCE[arms.shape[1]]
    values = integrate_cones(target, corners, 0)
    done: list[tuple[FloatArray, IntArray, FloatArray]] = []
    for _ in range(MAX_HALVINGS[arms.shape[1]]):
        halves = halve_simplices(corners)
        new = integrate_cones(target, halves, 0)
        total = logsumexp(np.concatenate([values, new, *(masses for *_, masses in done)]))
        change = np.abs(np.exp(values - total) - np.exp(new.reshape(-1, 2) - total).sum(axis=1))
        is_done = np.repeat((change <= tolerance) & _are_short(corners, directions), 2)
        owners = np.repeat(owners, 2)
        done.append((halves[is_done], owners[is_done], new[is_done]))
        corners, owners, values = halves[~is_done], owners[~is_done], new[~is_done]
        if not len(corners):
            break
    parts = [np.concatenate(part) for part in zip(*done, (corners, owners, values), strict=True)]
    finer = integrate_cones(target, parts[0], NUM_FINER)
    of_arms, before = (_shares(parts[1], logs, len(arms)) for logs in (finer, parts[2]))
    error = 0.5 * float(np.abs(of_arms - before).sum()) + len(corners) * tolerance
    # A ray has one peak. Draws that are not on it say that there are others, as of a mixture.
    best, (below, above) = find_peaks(target.log_density_on_rays(directions), len(directions))
    radii = np.log(np.linalg.norm(draws / units, axis=1)) - best
    return of_arms, error + float(((radii < below) | (radii > above)).mean())


def _are_short(corners: FloatArray, directions: FloatArray) -> BoolArray:
    """Return whether (S, d, d) simplices are short for their distance from (L, d) directions."""
    lengths = np.linalg.norm(corners[:, :, None] - corners[:, None], axis=-1).max(axis=(1, 2))
    distances = cdist(_unit(corners.sum(axis=1)), directions).min(axis=1)
    spread = np.sqrt(np.maximum(np.linalg.eigvalsh(np.cov(directions.T))[1], 0.0))
    return np.asarray(lengths <= distances + 2 * spread)


def _unit(vectors: FloatArray) -> FloatArray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def _shares(owners: IntArray, values: FloatArray, num_arms: int) -> FloatArray:
    return np.bincount(owners, np.exp(values - logsumexp(values)), num_arms).astype(np.float64)


def winning_cones(arms: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return (S, d, d) corners, one a row, of simplices where one arm wins, and (S,) that arm."""
    num_features = arms.shape[1]
    corners, owners = [], []
    for arm, mine in enumerate(arms):
        cones: list[FloatArray] = [
            np.diag(np.array(signs)) for signs in product([-1.0, 1.0], repeat=num_features)
        ]
        for other in np.delete(arms, arm, axis=0):
            cones = [part for cone in cones for part in clip_cone(cone, cone @ (mine - other))]
        corners += cones
        owners += [arm] * len(cones)
    return np.array(corners), np.array(owners)


def clip_cone(cone: FloatArray, heights: FloatArray) -> Iterable[FloatArray]:
    """Return simplices that fill the part of a cone where a linear function is positive.

    Args:
        cone: (d, d) corners.
        heights: (d,) values of the function there.
    """
    above, below = cone[heights > 0], cone[heights <= 0]
    up, down = heights[heights > 0], heights[heights <= 0]
    if not len(below) or not len(above):
        return [cone] if len(above) else []
    cuts = _unit(up[:, None, None] * below - down[None, :, None] * above[:, None])
    if len(above) == 1:
        parts = [np.vstack([above, cuts[0]])]
    else:
        parts = [np.vstack([above, cuts[0]]), np.vstack([above[1:], cuts[:, 0]])]
    return [part for part in parts if abs(np.linalg.det(part)) > 1e-14]


def halve_simplices(corners: FloatArray) -> FloatArray:
    """Return the (2 S, d, d) halves of (S, d, d) simplices, cut across their longest edges."""
    num_features = corners.shape[1]
    pairs = np.array([(i, j) for i in range(num_features) for j in range(i)])
    lengths = np.linalg.norm(corners[:, pairs[:, 0]] - corners[:, pairs[:, 1]], axis=-1)
    ends = pairs[lengths.argmax(axis=1)]
    simplices = np.arange(len(corners))
    halves = np.repeat(corners[:, None], 2, axis=1)
    middle = corners[simplices, ends[:, 0]] + corners[simplices, ends[:, 1]]
    for side in (0, 1):
        halves[simplices, side, ends[:, side]] = _unit(middle)
    return halves.reshape(-1, num_features, num_features)


def integrate_cones(target: PosteriorTarget, corners: FloatArray, num_more: int) -> FloatArray:
    """Return the (S,) logs of the posterior mass of cones, up to a constant.

    Args:
        target: density of the posterior.
        corners: (S, d, d) of each, one a row.
        num_more: nodes added to the fewest.
    """
    shares, weights = simplex_rule(corners.shape[1], NUM_ANGLES + num_more)
    rays = (shares @ corners).reshape(-1, corners.shape[1])
    step = max(1, MAX_VALUES // (4 * NUM_RADII * max(1, len(target.rows))))
    parts = np.split(rays, range(step, len(rays), step))
    masses = [integrate_rays(target, part, NUM_RADII + num_more) for part in parts]
    logs = np.concatenate(masses).reshape(len(corners), -1)
    with np.errstate(divide="ignore"):
        return logsumexp(logs + np.log(weights), axis=1) + np.linalg.slogdet(corners)[1]


def simplex_rule(num_features: int, num_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return (Q, d) barycentric coordinates and (Q,) weights, by Duffy's map of a square."""
    nodes, weights = leggauss(num_nodes)
    x, w = (nodes + 1) / 2, weights / 2
    if num_features == 1:
        return np.ones((1, 1)), np.ones(1)
    if num_features == 2:
        return np.column_stack([x, 1 - x]), w
    first, second = (grid.ravel() for grid in np.meshgrid(x, x, indexing="ij"))
    shares = np.column_stack([first, (1 - first) * second, (1 - first) * (1 - second)])
    return shares, np.outer(w * (1 - x), w).ravel()


def integrate_rays(target: PosteriorTarget, rays: FloatArray, num_nodes: int) -> FloatArray:
    """Return the (R,) logs of int r^(d - 1) f(r p) dr along (R, d) rays p.

    The variable of integration is log r. The integrand's one peak is found on a grid, and then by
    halving its step. Gauss-Legendre panels on both sides reach to where it is negligible.
    """
    density = target.log_density_on_rays(rays)
    best, ends = find_peaks(density, len(rays))
    nodes, weights = leggauss(num_nodes)
    lengths = np.diff(PANELS)
    positions = (PANELS[:-1, None] + lengths[:, None] * (nodes + 1) / 2).ravel()
    masses = (lengths[:, None] * weights / 2).ravel()
    both = np.concatenate([end[:, None] * positions for end in ends], axis=1)
    logs = np.concatenate([np.log(np.abs(end))[:, None] + np.log(masses) for end in ends], axis=1)
    return np.asarray(logsumexp(density(best[:, None] + both) + logs, axis=1))


def find_peaks(density: Density, num_rays: int) -> tuple[FloatArray, list[FloatArray]]:
    """Return (R,) places of the peaks, in log r, and (R,) steps from there to either end."""
    best = MODE_GRID[density(np.tile(MODE_GRID, (num_rays, 1))).argmax(axis=1)]
    for step in GRID_STEP * 0.5 ** np.arange(1, NUM_MODE_HALVINGS):
        places = best[:, None] + [-step, 0.0, step]
        best = np.take_along_axis(places, density(places).argmax(axis=1)[:, None], axis=1)[:, 0]
    top = density(best[:, None])
    ends = []
    for side in (-1.0, 1.0):
        is_low = density(best[:, None] + side * REACHES) < top - DEPTH
        ends.append(side * REACHES[np.where(is_low.any(axis=1), is_low.argmax(axis=1), -1)])
    return best, ends
