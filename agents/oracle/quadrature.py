"""Integrals over independent arms: who is the best, and how likely the data were.

Notation: K arms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from agents.oracle.arms import ArmPosteriors, Arms, find_first_edges
from agents.oracle.panels import (
    ToleranceError,
    best_arm_probabilities,
    bisect_panels,
    is_unresolved,
    resolve_panels,
)
from bandit_gym.checks.typing import FloatArray


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
    arms: Arms, tolerance: float, counts: FloatArray, sums: FloatArray
) -> ArmIntegrals:
    """Return the integrals; raise if the error of a probability misses `tolerance`.

    The error adds up what halving all panels once more changes, what the sum misses, what is not
    resolved, what rounding may have done, and the mass beyond the ends and what it rests on there.
    """
    posteriors = ArmPosteriors(arms, counts, sums)
    error, edges = np.inf, find_first_edges(posteriors)
    for mass_in_doubt in (1e-2 * tolerance, 1e-4 * tolerance):
        panels = resolve_panels(posteriors, edges, mass_in_doubt)
        finer = bisect_panels(posteriors, panels)
        probabilities = best_arm_probabilities(finer)
        total = probabilities.sum()
        change = np.abs(probabilities - best_arm_probabilities(panels)).max()
        unresolved = np.where(is_unresolved(finer, mass_in_doubt), finer.roughness, 0.0).sum()
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
