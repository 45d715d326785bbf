"""Probabilities of the best arm by a quadrature that is told where the mass lies.

It judges agents and their oracle, and shares neither code nor search with them: whoever states a
case knows the centre and the width of everything in its prior, and panels shrink by quarters
towards each such landmark, and towards where a landmark and the data of an arm balance. What
is there cannot be missed; panels are then halved until each density is a polynomial on each.

Letters: K arms, P panels, Q nodes a panel, L landmarks.
"""

from collections.abc import Callable

import numpy as np
from numpy.polynomial import legendre

from bandit_gym.typing import BoolArray, FloatArray

NUM_NODES = 16
MOST_ROUNDS = 60
ROUGHNESS = 1e-10
"""Largest integral of the last two Legendre terms, in a panel, as a share of an arm's mass."""

LARGEST_SHARE = 0.05
"""Of an arm's mass in a panel, so that products of many distribution functions are smooth in it."""

FAR = 2.0**40
"""Largest means looked at where there is no end, in scales of the landmarks."""

_NODES, _WEIGHTS = legendre.leggauss(NUM_NODES)
_TO_TERMS = np.linalg.inv(legendre.legvander(_NODES, NUM_NODES - 1))
_TERM_INTEGRALS = legendre.legint(np.eye(NUM_NODES), axis=0, lbnd=-1)
_TO_INTEGRALS = legendre.legval(_NODES, _TERM_INTEGRALS).T @ _TO_TERMS

LogDensity = Callable[[FloatArray], FloatArray]
"""(M,) points to (M, K) log-densities of K arms, up to a constant each."""


def best_arm_law(log_density: LogDensity, edges: FloatArray) -> tuple[float, FloatArray]:
    """Return the log of the product of the K integrals, and the (K,) law of the largest.

    Args:
        log_density: of K independent numbers.
        edges: rising ends of the first panels, told by whoever knows where the mass is.

    Raises:
        ValueError: if panels are still too wide after MOST_ROUNDS halvings.
    """
    left, width, values, log_top = _resolve(log_density, edges)
    order = np.argsort(left)
    width, density = width[order, None, None], np.exp(values[order] - log_top)
    masses = np.einsum("q,pqk->pk", _WEIGHTS, density)[:, None] * width / 2
    total = masses.sum(axis=0)
    before = np.cumsum(masses, axis=0) - masses
    within = np.einsum("rq,pqk->prk", _TO_INTEGRALS, density) * width / 2
    below = np.clip((before + within) / total, 0.0, 1.0)
    law = (density / total * _others(below) * width / 2 * _WEIGHTS[:, None]).sum(axis=(0, 1))
    return float((log_top + np.log(total[0])).sum()), law / law.sum()


def shrinking_edges(marks: FloatArray, support: tuple[float, float]) -> FloatArray:
    """Return ends of panels that shrink by quarters towards (L, 2) centres, down to their scales.

    Args:
        marks: centres and scales.
        support: lowest and highest mean; where infinite, FAR scales beyond the landmarks.
    """
    reach = FAR * float((np.abs(marks[:, 0]) + marks[:, 1]).max())
    low, high = max(support[0], -reach), min(support[1], reach)
    found = [np.array([low, high])]
    for centre, scale in np.unique(marks, axis=0):
        steps = np.arange(-1, (np.log(high - low) - np.log(scale)) / np.log(4) + 1)
        away = scale * 4.0**steps
        found.append(centre + np.concatenate([-away, [0.0], away]))
    edges = np.unique(np.concatenate(found))
    return edges[(edges >= low) & (edges <= high)]


def _resolve(
    log_density: LogDensity, edges: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return (P,) left ends and widths, (P, Q, K) log-densities and their (K,) largest values."""
    left, width = edges[:-1], np.diff(edges)
    values = _ask(log_density, left, width)
    for _ in range(MOST_ROUNDS):
        log_top = values.max(axis=(0, 1))
        is_rough = _is_rough(np.exp(values - log_top), width)
        is_rough &= width > 8 * np.spacing(np.abs(left))  # else it has no points inside
        if not is_rough.any():
            return left, width, values, log_top
        half = np.tile(width[is_rough] / 2, 2)
        start = np.concatenate([left[is_rough], left[is_rough] + width[is_rough] / 2])
        left, width = np.append(left[~is_rough], start), np.append(width[~is_rough], half)
        values = np.concatenate([values[~is_rough], _ask(log_density, start, half)])
    raise ValueError(f"edges must lead to all mass within {MOST_ROUNDS} halvings, got {edges!r}.")


def _is_rough(density: FloatArray, width: FloatArray) -> BoolArray:
    masses = np.einsum("q,pqk->pk", _WEIGHTS, density) * width[:, None] / 2
    last = np.einsum("tq,pqk->ptk", _TO_TERMS[-2:], density)
    total = masses.sum(axis=0)
    unsure = np.abs(last).max(axis=1) * width[:, None] > ROUGHNESS * total
    return np.asarray((unsure | (masses > LARGEST_SHARE * total)).any(axis=1))


def _ask(log_density: LogDensity, left: FloatArray, width: FloatArray) -> FloatArray:
    points = left[:, None] + width[:, None] * (1 + _NODES) / 2
    return log_density(points.ravel()).reshape(*points.shape, -1)


def _others(below: FloatArray) -> FloatArray:
    """Return for each arm the product of the other arms' (P, Q, K) values."""
    ones = np.ones_like(below[..., :1])
    up = np.cumprod(np.concatenate([ones, below[..., :-1]], axis=-1), axis=-1)
    down = np.cumprod(np.concatenate([ones, below[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    return up * down
