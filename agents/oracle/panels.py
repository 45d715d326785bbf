"""Densities of K arms resolved on common panels, and what can be integrated from them.

The axis is cut into panels of polynomials, and panels are halved until each arm's density is a
smooth polynomial on each of them, or until what is left is the rounding of the density itself.

Panels carry Gauss-Lobatto nodes, which include both ends: a mode that hides between two panels
still shows at the end they share, is halved towards, and cannot fall between grid points.

Notation: K arms, P panels, Q nodes per panel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre

from agents.oracle.arms import ArmPosteriors, Arms, find_first_edges
from bandit_gym.checks.typing import BoolArray, FloatArray

NUM_PANEL_NODES = 16
MAX_PANELS, MAX_NODE_VALUES = 50_000, 1 << 23
"""Panels, and values at all of their nodes, which take 64 MB."""

MAX_ROUNDED_DEPTH = 40.0
"""How far below its top a log-density no longer counts for what rounding may do."""


class ToleranceError(RuntimeError):
    """A probability could not be computed to the tolerance asked for.

    Attributes:
        error: the error that was achieved, inf where the density does not integrate.
    """

    def __init__(self, message: str, error: float) -> None:
        super().__init__(message)
        self.error = error


def require_tolerance(error: float, tolerance: float) -> None:
    """Refuse an answer whose error is larger than the tolerance."""
    if not error <= tolerance:
        condition = f"tolerance must be within reach, got {tolerance!r} where the error is"
        raise ToleranceError(f"{condition} {error:.2g}.", error)


@dataclass(frozen=True)
class Panels:
    """Log-densities of K arms at the nodes of P panels of the u-axis.

    Attributes:
        edges: (P + 1,) ends, increasing; each panel ends where the next begins.
        log_density: (P, Q, K) log-densities of u, not normalised.
        rounding: (P,) share of a panel that rounding may move a place by.
    """

    edges: FloatArray
    log_density: FloatArray
    rounding: FloatArray

    @property
    def lengths(self) -> FloatArray:
        """(P,) lengths in u."""
        return np.diff(self.edges)

    @property
    def positions(self) -> FloatArray:
        """(P, Q) values of u at the nodes."""
        return self.edges[:-1, None] + self.lengths[:, None] * _LOBATTO_NODES

    @cached_property
    def density(self) -> FloatArray:
        """(P, Q, K) densities of u, normalised over the panels."""
        top = self.log_density.max(axis=(0, 1))
        density: FloatArray = np.exp(self.log_density - top)
        density /= np.einsum("p,q,pqk->k", self.lengths / 2, _LOBATTO_WEIGHTS, density)
        return density

    @property
    def log_masses(self) -> FloatArray:
        """(K,) logs of the integrals of the arms' densities as they were given."""
        with np.errstate(divide="ignore"):
            return self.log_density.max(axis=(0, 1)) - np.log(self.density.max(axis=(0, 1)))

    @cached_property
    def masses_in_doubt(self) -> FloatArray:
        """(P, K) size of the last two Legendre coefficients: the mass that is in doubt."""
        sizes: FloatArray = np.abs(_LAST_COEFFICIENTS @ self.density).sum(axis=1)
        return self.lengths[:, None] * sizes

    @cached_property
    def noise(self) -> FloatArray:
        """(P, K) mass that rounding of places and of log-densities adds or takes at a node."""
        is_seen = self.log_density > self.log_density.max(axis=(0, 1)) - MAX_ROUNDED_DEPTH
        magnitude = np.where(is_seen, np.abs(self.log_density), 0.0).max(axis=1)
        lowest = np.where(is_seen, self.log_density, np.inf).min(axis=1)
        highest = np.where(is_seen, self.log_density, -np.inf).max(axis=1)
        moved = np.maximum(highest - lowest, 0.0) * self.rounding[:, None]
        return (_MACHINE_EPSILON * magnitude + moved) * self.masses

    @cached_property
    def masses(self) -> FloatArray:
        """(P, K) mass of each arm on each panel."""
        return self.shares.sum(axis=1)

    def masses_beyond(self, first: float, last: float) -> FloatArray:
        """Return the (2, K) masses on panels that end before `first`, or begin after `last`."""
        sides = self.edges[1:] <= first, self.edges[:-1] >= last
        return np.array([self.masses[side].sum(axis=0) for side in sides])

    def cumulative_probabilities(self) -> FloatArray:
        """Return the (P, Q, K) distribution functions at the nodes, in [0, 1]."""
        within = self.lengths[:, None, None] / 2 * (_ANTIDERIVATIVE @ self.density)
        mass = within[:, -1:]  # the antiderivative at a panel's last node, its right end
        return np.asarray(np.clip(np.cumsum(mass, axis=0) - mass + within, 0.0, 1.0))

    @cached_property
    def shares(self) -> FloatArray:
        """(P, Q, K) mass of each arm at each node, which add up to one."""
        sizes = self.lengths[:, None, None] / 2 * _LOBATTO_WEIGHTS[:, None]
        return np.asarray(sizes * self.density)

    def expectations(self, values: FloatArray) -> FloatArray:
        """Return the (..., K) expectations of (..., P, Q, K) values at the nodes."""
        return np.asarray((self.shares * values).sum(axis=(-3, -2)))

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


def resolve_panels(posteriors: ArmPosteriors, edges: FloatArray, tolerance: float) -> Panels:
    """Return panels on which every arm's density is resolved.

    Args:
        posteriors: densities of u, and how places are rounded.
        edges: (P + 1,) increasing ends of the first panels. Of a density with several narrow
            modes, each must be felt at an edge; a single mode is found from anywhere.
        tolerance: mass in doubt, per panel and arm, of an arm's total mass of 1.

    Raises:
        ToleranceError: if the panels grow too many; its error bounds the mass in doubt.
        ValueError: if an arm has no mass anywhere.
    """
    panels = make_panels(posteriors, edges)
    max_panels = min(MAX_PANELS, MAX_NODE_VALUES // panels.log_density[0].size)
    top = panels.log_density.max(axis=(0, 1))
    if (top == -np.inf).any():
        raise ValueError(
            f"the posterior of arm {np.argmin(top)} must have some mass, got a density of 0 "
            "everywhere; do the data have a positive probability under the prior?"
        )
    while True:
        is_rough = is_unresolved(panels, tolerance).any(axis=1) & _can_be_halved(panels)
        if not is_rough.any():
            return panels
        if len(is_rough) + is_rough.sum() > max_panels:
            error = float(panels.masses_in_doubt.sum())
            raise ToleranceError(
                f"{len(is_rough)} panels leave a mass of {error:.2g} in doubt; the posteriors are "
                "too narrow or too rough for this tolerance.",
                error,
            )
        panels = bisect_panels(posteriors, panels, is_rough)


def is_unresolved(panels: Panels, tolerance: float) -> BoolArray:
    """Return (P, K) where the polynomial may miss more mass than tolerance and rounding explain."""
    return np.asarray(panels.masses_in_doubt > tolerance + 4 * panels.noise)


def bisect_panels(
    posteriors: ArmPosteriors, panels: Panels, chosen: BoolArray | None = None
) -> Panels:
    """Return the panels with the chosen ones, (P,) bool, or all, cut in two."""
    chosen = _can_be_halved(panels) if chosen is None else chosen
    middles = (panels.edges[:-1] + panels.edges[1:])[chosen] / 2
    edges = np.sort(np.concatenate([panels.edges, middles]))
    old = np.repeat(np.arange(len(chosen)), 1 + chosen)
    values, is_new = panels.log_density[old], chosen[old]
    left, right = edges[:-1], edges[1:]
    values[is_new] = _evaluate(posteriors, left[is_new], right[is_new])
    return Panels(edges, values, posteriors.line.find_rounding(left, right))


def make_panels(posteriors: ArmPosteriors, edges: FloatArray) -> Panels:
    """Return the panels between (P + 1,) increasing edges; see `resolve_panels`."""
    ends = edges[:-1], edges[1:]
    return Panels(edges, _evaluate(posteriors, *ends), posteriors.line.find_rounding(*ends))


def best_arm_probabilities(panels: Panels) -> FloatArray:
    """Return the (K,) integrals P_i = int p_i(x) prod_{j != i} F_j(x) dx over the panels."""
    return panels.expectations(exclusive_products(panels.cumulative_probabilities()))


def exclusive_products(factors: FloatArray) -> FloatArray:
    """Return the (..., K) products over all entries of the last axis but the one at hand.

    From running products on either side: dividing the full product by a factor would lose an arm
    whose distribution function is still 0 there.
    """
    ones = np.ones_like(factors[..., :1])
    before = np.cumprod(np.concatenate([ones, factors[..., :-1]], axis=-1), axis=-1)
    after = np.cumprod(np.concatenate([ones, factors[..., :0:-1]], axis=-1), axis=-1)
    return np.asarray(before * after[..., ::-1])


def _evaluate(posteriors: ArmPosteriors, left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the (P, Q, K) log-densities at the nodes of panels with these ends."""
    u = left[:, None] + (right - left)[:, None] * _LOBATTO_NODES
    return posteriors.shared_log_density(u.ravel()).reshape(*u.shape, -1)


def _can_be_halved(panels: Panels) -> BoolArray:
    size = np.maximum(np.abs(panels.edges[:-1]), np.abs(panels.edges[1:]))
    return panels.lengths > 1e-14 * size + 1e-18


def _make_lobatto_rule() -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return nodes (as fractions of a panel), weights, antiderivative and last coefficients.

    Weights and antiderivative are for the panel [-1, 1].
    """
    last = np.eye(NUM_PANEL_NODES)[-1]
    inner = legendre.legroots(legendre.legder(last)).real  # complex since NumPy 2.5
    nodes = np.concatenate([[-1.0], inner, [1.0]])
    weights = 2 / (NUM_PANEL_NODES * (NUM_PANEL_NODES - 1) * legendre.legval(nodes, last) ** 2)
    to_coefficients = np.linalg.inv(legendre.legvander(nodes, NUM_PANEL_NODES - 1))
    integrals = legendre.legint(np.eye(NUM_PANEL_NODES), lbnd=-1, axis=0)
    antiderivative = legendre.legvander(nodes, NUM_PANEL_NODES) @ integrals @ to_coefficients
    return (nodes + 1) / 2, weights, antiderivative, to_coefficients[-2:]


_MACHINE_EPSILON = np.finfo(float).eps
_LOBATTO_NODES, _LOBATTO_WEIGHTS, _ANTIDERIVATIVE, _LAST_COEFFICIENTS = _make_lobatto_rule()


class ArmIntegrals(NamedTuple):
    """What quadrature finds of independent arms, with estimates of the errors.

    Attributes:
        probabilities: (K,) that each arm is the best.
        error: of the worst of them.
        log_evidence: log of the integral of prior times likelihood, over all arms.
        evidence_error: relative error of that integral.
    """

    probabilities: FloatArray
    error: float
    log_evidence: float
    evidence_error: float


def integrate_arms(
    arms: Arms,
    tolerance: float,
    counts: FloatArray,
    sums: FloatArray,
    squares: FloatArray | None = None,
) -> ArmIntegrals:
    """Return the integrals; raise if the error of a probability misses `tolerance`.

    The error adds up what halving all panels once more changes, what the sum misses, what is not
    resolved, what rounding may have done, and the mass beyond the ends and what it rests on there.
    """
    posteriors = ArmPosteriors(arms, counts, sums, squares)
    error, edges = np.inf, find_first_edges(posteriors)
    for mass_in_doubt in (1e-2 * tolerance, 1e-4 * tolerance):
        panels = resolve_panels(posteriors, edges, mass_in_doubt)
        finer = bisect_panels(posteriors, panels)
        probabilities = best_arm_probabilities(finer)
        total = probabilities.sum()
        change = np.abs(probabilities - best_arm_probabilities(panels)).max()
        unresolved = np.where(is_unresolved(finer, mass_in_doubt), finer.masses_in_doubt, 0.0).sum()
        beyond = (posteriors.slope_changes() * finer.masses_beyond(*arms.line.limits)).sum()
        rounding, tails = finer.noise.sum(axis=0), finer.tails().sum()
        error = float(change + abs(1 - total) + unresolved + rounding.max() + tails + beyond)
        if error <= tolerance:
            moved = np.abs(finer.log_masses - panels.log_masses).sum()
            evidence_error = float(moved + unresolved + rounding.sum() + tails + beyond)
            log_evidence = float(finer.log_masses.sum())
            return ArmIntegrals(probabilities / total, error, log_evidence, evidence_error)
    raise ToleranceError(
        f"tolerance must be within reach of quadrature, got {tolerance!r} where the error is "
        f"{error:.2g}; the posteriors are too narrow, too flat or do not integrate.",
        error,
    )
