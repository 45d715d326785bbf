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

import numpy as np
from numpy.polynomial import legendre
from scipy.special import expit, log_expit

from agents.posteriors.winning import exclusive_products
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
        slope: FloatArray
        if np.isfinite(low) and np.isfinite(high):
            slope = np.log(high - low) + log_expit(u) + log_expit(-u)
        elif np.isfinite(low):
            slope = np.log(self.scale) + u
        elif np.isfinite(high):
            slope = np.log(self.scale) - u
        else:
            slope = np.log(self.scale / 2) + np.logaddexp(u, -u)
        return slope

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
        if not np.isfinite(low) and not np.isfinite(high):
            return np.array([-far, far])
        length = high - low if np.isfinite(low) and np.isfinite(high) else self.scale
        left = np.log(_room_beside(low) / length) if np.isfinite(low) else -far
        right = -np.log(_room_beside(high) / length) if np.isfinite(high) else far
        return np.array([left, right])


@dataclass(frozen=True)
class Panels:
    """Log-densities of K arms at the nodes of P panels of the u-axis.

    Attributes:
        left: (P,) left ends, increasing; each panel ends where the next begins.
        right: (P,) right ends.
        log_density: (P, Q, K) log-densities of u, not normalised.
    """

    left: FloatArray
    right: FloatArray
    log_density: FloatArray

    @property
    def lengths(self) -> FloatArray:
        """(P,) lengths in u."""
        return self.right - self.left

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
        first, last = self.log_density[0], self.log_density[-1]
        rise = _log_slope(first, self.lengths[0])
        fall = -_log_slope(last, self.lengths[-1])
        return _tail(self.density[0, 0], rise) + _tail(self.density[-1, -1], fall)


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
    panels = _evaluate(log_density, edges[:-1], edges[1:])
    while True:
        _require_mass(panels)
        is_rough = (panels.roughness > tolerance).any(axis=1) & _can_be_halved(panels)
        if not is_rough.any():
            return panels
        if len(is_rough) + is_rough.sum() > MAX_PANELS:
            error = float(panels.roughness.sum())
            raise ToleranceError(_too_many_message(error), error)
        panels = halve(log_density, panels, is_rough)


def halve(log_density: LogDensity, panels: Panels, chosen: BoolArray | None = None) -> Panels:
    """Return the panels with the chosen ones, (P,) bool, or all, cut in two."""
    chosen = _can_be_halved(panels) if chosen is None else chosen
    left, right = panels.left[chosen], panels.right[chosen]
    middle = (left + right) / 2
    new = _evaluate(log_density, np.concatenate([left, middle]), np.concatenate([middle, right]))
    merged = [
        np.concatenate([getattr(panels, name)[~chosen], getattr(new, name)])
        for name in ("left", "right", "log_density")
    ]
    order = np.argsort(merged[0], kind="stable")
    return Panels(*(column[order] for column in merged))


def best_arm_probabilities(panels: Panels) -> FloatArray:
    """Return the (K,) integrals P_i = int p_i(x) prod_{j != i} F_j(x) dx over the panels."""
    return _integrate(panels, panels.density * exclusive_products(panels.distributions()))


def _integrate(panels: Panels, values: FloatArray) -> FloatArray:
    """Return the (K,) integrals over u of (P, Q, K) values at the nodes."""
    integrals: FloatArray = np.einsum("p,q,pqk->k", panels.lengths / 2, _WEIGHTS, values)
    return integrals


def _evaluate(log_density: LogDensity, left: FloatArray, right: FloatArray) -> Panels:
    u = left[:, None] + (right - left)[:, None] * _FRACTIONS
    values = log_density(u.ravel())
    return Panels(left, right, values.reshape(*u.shape, -1))


def _can_be_halved(panels: Panels) -> BoolArray:
    size = np.maximum(np.abs(panels.left), np.abs(panels.right))
    return panels.lengths > 1e-14 * size + 1e-18


def _require_mass(panels: Panels) -> None:
    top = panels.log_density.max(axis=(0, 1))
    if (top == -np.inf).any():
        raise ValueError(
            f"the posterior of arm {np.argmin(top)} must have some mass, got a density of 0 "
            "everywhere; do the data have a positive probability under the prior?"
        )


def _too_many_message(error: float) -> str:
    return (
        f"{MAX_PANELS} panels leave a mass of {error:.2g} in doubt; the posteriors are too narrow "
        "or too rough for this tolerance."
    )


def _log_slope(log_density: FloatArray, length: float) -> FloatArray:
    with np.errstate(invalid="ignore"):
        rise: FloatArray = log_density[-1] - log_density[0]
    return rise / length


def _tail(density: FloatArray, decay: FloatArray) -> FloatArray:
    decays = decay > 0
    beyond = np.where(decays, density / np.where(decays, decay, 1.0), np.inf)
    return np.where(density > 0, beyond, 0.0)


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
