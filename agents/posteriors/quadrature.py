"""Densities of K arms resolved on common panels, and what can be integrated from them.

A posterior may be as wide as its support or a million times narrower, may have a density without
bound at an end (Beta(1/2, 1/2)) or a heavy tail. So the means x are measured in a coordinate u
that runs over the line and in which every integrable density decays at both ends; the u-axis is
cut into panels of polynomials, and panels are halved until each arm's density is a smooth
polynomial on each of them.

Panels carry Gauss-Lobatto nodes, which include both ends: a bulk that hides between two panels
still shows at the end they share, is halved towards, and cannot fall between grid points.

Letters: K arms, P panels, Q nodes per panel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.polynomial import legendre
from scipy.special import expit, log_expit

from agents.posteriors.winning import exclusive_products
from bandit_gym.problem import BanditProblem
from bandit_gym.typing import BoolArray, FloatArray

NUM_NODES = 16
MAX_PANELS = 6000
_LARGEST = 1e150  # squares must not overflow
_SMALLEST = 1e-300

LogDensity = Callable[[FloatArray], FloatArray]


class ToleranceError(RuntimeError):
    """A probability could not be computed to the tolerance asked for.

    Attributes:
        error: the error that was achieved, inf where the density does not integrate.
    """

    def __init__(self, message: str, error: float) -> None:
        super().__init__(message)
        self.error = error


@dataclass(frozen=True)
class Coordinate:
    """A smooth increasing map x(u) from the line onto an interval of means.

    Logistic on a bounded interval, exponential on a half-line, hyperbolic sine on the line, so
    that powers of the distance to an end, and of x far out, become exponentials of u.

    Attributes:
        low: left end of the interval, -inf allowed.
        high: right end of the interval, inf allowed.
        centre: a typical mean, where x is not bounded on either side.
        scale: a typical distance from the centre, or from the finite end of a half-line.
    """

    low: float
    high: float
    centre: float = 0.0
    scale: float = 1.0

    def means(self, u: FloatArray) -> FloatArray:
        """Return x(u), strictly inside the interval for u within `limits`."""
        low, high = self.low, self.high
        if np.isfinite(low) and np.isfinite(high):
            width = high - low
            return np.where(u < 0, low + width * expit(u), high - width * expit(-u))
        if np.isfinite(low):
            return low + self.scale * np.exp(u)
        if np.isfinite(high):
            return high - self.scale * np.exp(-u)
        return self.centre + self.scale * np.sinh(u)

    def rests(self, u: FloatArray) -> FloatArray:
        """Return high - x(u) on a bounded interval, without cancellation."""
        return np.asarray((self.high - self.low) * expit(-u))

    def log_slope(self, u: FloatArray) -> FloatArray:
        """Return log dx/du, which turns a density of x into one of u."""
        low, high = self.low, self.high
        if np.isfinite(low) and np.isfinite(high):
            return np.asarray(np.log(high - low) + log_expit(u) + log_expit(-u))
        if np.isfinite(low):
            return np.log(self.scale) + u
        if np.isfinite(high):
            return np.log(self.scale) - u
        return np.log(self.scale / 2) + np.logaddexp(u, -u)

    def positions(self, means: FloatArray) -> FloatArray:
        """Return u(x), clipped to `limits`."""
        low, high = self.low, self.high
        with np.errstate(divide="ignore", invalid="ignore"):
            if np.isfinite(low) and np.isfinite(high):
                u = np.log(means - low) - np.log(high - means)
            elif np.isfinite(low):
                u = np.log((means - low) / self.scale)
            elif np.isfinite(high):
                u = -np.log((high - means) / self.scale)
            else:
                u = np.arcsinh((means - self.centre) / self.scale)
        first, last = self.limits
        u = np.where(np.isnan(u), np.where(means > low, last, first), u)
        return np.asarray(np.clip(u, first, last))

    @cached_property
    def limits(self) -> FloatArray:
        """(2,) range of u in which x stays a few units in the last place away from its ends."""
        low, high = self.low, self.high
        far = np.log(_LARGEST / self.scale)
        length = high - low if np.isfinite(high - low) else self.scale
        left = np.log(_room_beside(low) / length) if np.isfinite(low) else -far
        right = -np.log(_room_beside(high) / length) if np.isfinite(high) else far
        return np.array([left, right])


def make_coordinate(support: FloatArray, draws: FloatArray) -> Coordinate:
    """Return the coordinate that all arms share, so that the largest u is the largest mean.

    Args:
        support: (K, 2) interval of each arm's mean.
        draws: (S, K) from the prior, which show what is typical.
    """
    low, high = float(support[:, 0].min()), float(support[:, 1].max())
    centre = float(np.median(draws))
    origin = next((end for end in (low, high) if np.isfinite(end)), centre)
    return Coordinate(low, high, centre, max(float(np.median(np.abs(draws - origin))), 1e-100))


def first_edges(coordinate: Coordinate, means: FloatArray) -> FloatArray:
    """Return increasing u from limit to limit: a coarse grid, and the places of some means."""
    steps = np.concatenate([[0.0], 2.0 ** np.arange(-1, 10)])
    grid = np.concatenate([-steps, steps, coordinate.limits, coordinate.positions(means)])
    return np.unique(np.clip(grid, *coordinate.limits))


def log_prior(problem: BanditProblem, support: FloatArray, means: FloatArray) -> FloatArray:
    """Return the prior log-density of each arm at (M, K) means, -inf outside its support, (K, 2).

    Raises:
        ValueError: if it is no density; names the arm.
    """
    prior: Any = problem.prior
    with np.errstate(all="ignore"):
        values = np.asarray(prior.arm_log_density(means), dtype=np.float64)
    values = np.where((means < support[:, 0]) | (means > support[:, 1]), -np.inf, values)
    require_density("problem.prior.arm_log_density", values, means)
    return values


def require_density(name: str, values: FloatArray, means: FloatArray) -> None:
    """Refuse (M, K) log-densities that are NaN or infinite at some of (M, K) means."""
    is_bad = np.isnan(values) | (values == np.inf)
    if is_bad.any():
        row, arm = np.argwhere(is_bad)[0]
        raise ValueError(
            f"{name} must be a number or -inf, got {values[row, arm]} for arm {arm} at the mean "
            f"{means[row, arm]}."
        )


@dataclass(frozen=True)
class Panels:
    """Log-densities of K arms at the nodes of P panels of the u-axis.

    Attributes:
        edges: (P + 1,) ends, increasing; each panel ends where the next begins.
        log_density: (P, Q, K) log-densities of u, not normalised.
    """

    edges: FloatArray
    log_density: FloatArray

    @property
    def lengths(self) -> FloatArray:
        """(P,) lengths in u."""
        return np.diff(self.edges)

    @cached_property
    def density(self) -> FloatArray:
        """(P, Q, K) densities of u, normalised over the panels."""
        top = self.log_density.max(axis=(0, 1))
        density: FloatArray = np.exp(self.log_density - top)
        density /= _integrate(self, density)
        return density

    @cached_property
    def roughness(self) -> FloatArray:
        """(P, K) size of the last two Legendre coefficients: the mass that is in doubt."""
        sizes: FloatArray = np.abs(_LAST_COEFFICIENTS @ self.density).sum(axis=1)
        return self.lengths[:, None] * sizes

    def distributions(self) -> FloatArray:
        """Return the (P, Q, K) distribution functions at the nodes, in [0, 1]."""
        within = self.lengths[:, None, None] / 2 * (_ANTIDERIVATIVE @ self.density)
        mass = within[:, -1:]  # the antiderivative at a panel's last node, its right end
        return np.asarray(np.clip(np.cumsum(mass, axis=0) - mass + within, 0.0, 1.0))

    def tails(self) -> FloatArray:
        """Return the (K,) mass beyond the ends, inf where the density does not decay there.

        The log-density is continued as the straight line through the nodes of the end panels.
        """
        ends = np.array([self.density[0, 0], self.density[-1, -1]])
        with np.errstate(invalid="ignore"):
            rise = self.log_density[[0, -1], -1] - self.log_density[[0, -1], 0]
        decay = rise / self.lengths[[0, -1], None] * [[1.0], [-1.0]]
        decays = decay > 0
        beyond = np.where(decays, ends / np.where(decays, decay, 1.0), np.inf)
        return np.where(ends > 0, beyond, 0.0).sum(axis=0)


def resolve(log_density: LogDensity, edges: FloatArray, tolerance: float) -> Panels:
    """Return panels on which every arm's density is resolved.

    Args:
        log_density: takes (M,) values of u, returns (M, K) log-densities of u, not normalised.
        edges: (P + 1,) increasing ends of the first panels. Of a density with several narrow
            bulks, each must be felt at an edge; a single bulk is found from anywhere.
        tolerance: mass in doubt, per panel and arm, of an arm's total mass of 1.

    Raises:
        ToleranceError: if the panels grow too many; its error bounds the mass in doubt.
        ValueError: if an arm has no mass anywhere.
    """
    panels = Panels(edges, _evaluate(log_density, edges[:-1], edges[1:]))
    while True:
        _require_mass(panels)
        is_rough = (panels.roughness > tolerance).any(axis=1) & _can_be_halved(panels)
        if not is_rough.any():
            return panels
        if len(is_rough) + is_rough.sum() > MAX_PANELS:
            error = float(panels.roughness.sum())
            raise ToleranceError(
                f"{MAX_PANELS} panels leave a mass of {error:.2g} in doubt; the posteriors are too "
                "narrow or too rough for this tolerance.",
                error,
            )
        panels = halve(log_density, panels, is_rough)


def halve(log_density: LogDensity, panels: Panels, chosen: BoolArray | None = None) -> Panels:
    """Return the panels with the chosen ones, (P,) bool, or all, cut in two."""
    chosen = _can_be_halved(panels) if chosen is None else chosen
    middles = (panels.edges[:-1] + panels.edges[1:])[chosen] / 2
    edges = np.sort(np.concatenate([panels.edges, middles]))
    old = np.repeat(np.arange(len(chosen)), 1 + chosen)
    values, is_new = panels.log_density[old], chosen[old]
    values[is_new] = _evaluate(log_density, edges[:-1][is_new], edges[1:][is_new])
    return Panels(edges, values)


def best_arm_probabilities(panels: Panels) -> FloatArray:
    """Return the (K,) integrals P_i = int p_i(x) prod_{j != i} F_j(x) dx over the panels."""
    return _integrate(panels, panels.density * exclusive_products(panels.distributions()))


def _integrate(panels: Panels, values: FloatArray) -> FloatArray:
    """Return the (K,) integrals over u of (P, Q, K) values at the nodes."""
    return np.asarray(np.einsum("p,q,pqk->k", panels.lengths / 2, _WEIGHTS, values))


def _evaluate(log_density: LogDensity, left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the (P, Q, K) log-densities at the nodes of panels with these ends."""
    u = left[:, None] + (right - left)[:, None] * _FRACTIONS
    return log_density(u.ravel()).reshape(*u.shape, -1)


def _can_be_halved(panels: Panels) -> BoolArray:
    size = np.maximum(np.abs(panels.edges[:-1]), np.abs(panels.edges[1:]))
    return panels.lengths > 1e-14 * size + 1e-18


def _require_mass(panels: Panels) -> None:
    top = panels.log_density.max(axis=(0, 1))
    if (top == -np.inf).any():
        raise ValueError(
            f"the posterior of arm {np.argmin(top)} must have some mass, got a density of 0 "
            "everywhere; do the data have a positive probability under the prior?"
        )


def _room_beside(end: float) -> float:
    return max(8 * np.finfo(float).eps * abs(end), _SMALLEST)


def _lobatto() -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return nodes (as fractions of a panel), weights, antiderivative and last coefficients.

    Weights and antiderivative are for the panel [-1, 1].
    """
    last = np.eye(NUM_NODES)[-1]
    nodes = np.concatenate([[-1.0], legendre.legroots(legendre.legder(last)), [1.0]])
    weights = 2 / (NUM_NODES * (NUM_NODES - 1) * legendre.legval(nodes, last) ** 2)
    to_coefficients = np.linalg.inv(legendre.legvander(nodes, NUM_NODES - 1))
    integrals = legendre.legint(np.eye(NUM_NODES), lbnd=-1, axis=0)
    antiderivative = legendre.legvander(nodes, NUM_NODES) @ integrals @ to_coefficients
    return (nodes + 1) / 2, weights, antiderivative, to_coefficients[-2:]


_FRACTIONS, _WEIGHTS, _ANTIDERIVATIVE, _LAST_COEFFICIENTS = _lobatto()
