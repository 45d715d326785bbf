"""Exact draws from a multivariate normal restricted to a box, by minimax tilting.

Coordinates are proposed one after the other, each from a shifted normal truncated to what the
earlier ones leave of its interval, and the vector is accepted with probability
exp(psi(x, tilts) - psi*). The shifts ("tilts") are those that make the bound psi* smallest.

References:
    Botev (2017), "The normal law under linear restrictions: simulation and estimation via minimax
    tilting", Journal of the Royal Statistical Society B 79, sections 2 and 3.
"""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from bandit_gym import truncated_normal
from bandit_gym.typing import FloatArray

_MIN_PROPOSALS = 8  # proposing a few vectors costs hardly more than proposing one
_MAX_PROPOSALS_PER_DRAW = 100_000
_TOLERANCE = 1e-8


@dataclass(frozen=True, eq=False)
class BoxSampler:
    """A solved tilting problem. Coordinates are in units of their conditional deviations.

    Attributes:
        offset: (K,) mean of the untruncated normal.
        scales: (K,) diagonal of the Cholesky factor of the covariance.
        factor: (K, K) the Cholesky factor's rows over `scales`, without the diagonal of ones.
        low: (K,) lower corner of the box, less `offset`, over `scales`.
        high: (K,) upper corner of the box, likewise.
        tilts: (K,) shift of each coordinate's proposal; the last one is 0.
        log_bound: psi*, the largest value of psi(x, tilts) over all x.
    """

    offset: FloatArray
    scales: FloatArray
    factor: FloatArray
    low: FloatArray
    high: FloatArray
    tilts: FloatArray
    log_bound: float

    def sample(self, rng: Generator, num_draws: int) -> FloatArray:
        """Draw (num_draws, K) independent vectors."""
        found: list[FloatArray] = []
        num_missing, num_proposed = num_draws, 0
        while num_missing > 0:
            if num_proposed > _MAX_PROPOSALS_PER_DRAW * num_draws:
                raise RuntimeError("covariance must leave the box a share of the proposals")
            num_proposals = max(_MIN_PROPOSALS, 2 * num_missing)
            accepted = self._propose(rng, num_proposals)[:num_missing]
            found.append(accepted)
            num_missing -= len(accepted)
            num_proposed += num_proposals
        return np.concatenate(found) if found else np.empty((0, len(self.tilts)))

    def _propose(self, rng: Generator, num_proposals: int) -> FloatArray:
        """Return those of `num_proposals` proposed vectors that are accepted, in order."""
        num_arms = len(self.tilts)
        uniforms = np.maximum(rng.random((num_arms + 1, num_proposals)), 2.0**-54)
        values = np.zeros((num_arms, num_proposals))
        log_ratio = np.full(num_proposals, -self.log_bound)
        for arm, tilt in enumerate(self.tilts):
            shift = values[arm] + tilt
            z, log_mass = truncated_normal.quantile(
                self.low[arm] - shift, self.high[arm] - shift, uniforms[arm]
            )
            x = z + tilt
            log_ratio += log_mass - tilt * x + 0.5 * tilt**2
            values[arm] += x
            values[arm + 1 :] += self.factor[arm + 1 :, arm, None] * x
        is_accepted = np.log(uniforms[-1]) <= log_ratio
        return self.offset + self.scales * values[:, is_accepted].T


def make_box_sampler(
    mean: FloatArray, covariance: FloatArray, low: FloatArray, high: FloatArray
) -> BoxSampler:
    """Solve the tilting problem of N(mean, covariance) restricted to the box [low, high].

    Args:
        mean: (K,) mean before truncation.
        covariance: (K, K) symmetric positive definite.
        low: (K,) lower corner.
        high: (K,) upper corner.

    Raises:
        RuntimeError: if the solver finds no saddle point.
    """
    cholesky = np.linalg.cholesky(covariance)
    scales = np.diag(cholesky).copy()
    factor = cholesky / scales[:, None] - np.eye(len(scales))
    box = (low - mean) / scales, (high - mean) / scales
    x, tilts = _solve(factor, *box)
    log_bound = _psi(x, tilts, factor, *box)
    return BoxSampler(mean, scales, factor, *box, tilts, log_bound)


def _psi(
    x: FloatArray, tilts: FloatArray, factor: FloatArray, low: FloatArray, high: FloatArray
) -> float:
    """Return the log of target over proposal density: sum of mu^2 / 2 - x mu + log mass."""
    shift = factor @ x + tilts
    terms = truncated_normal.log_mass(low - shift, high - shift) - x * tilts + 0.5 * tilts**2
    return float(terms.sum())


def _solve(factor: FloatArray, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return x and tilts at the saddle point of psi, where all its derivatives vanish."""
    from scipy import optimize  # costs 0.1 s to import, and few users draw from this prior

    num_free = len(low) - 1  # the last x and tilt have no part in psi
    solution = optimize.root(
        _gradient,
        np.zeros(2 * num_free),
        args=(factor, low, high),
        jac=True,
        options={"xtol": 1e-12},
    )
    return (np.append(solution.x[:num_free], 0.0), np.append(solution.x[num_free:], 0.0))


def _gradient(
    free: FloatArray, factor: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the (2K - 2,) gradient of psi in the first K - 1 of x and tilts, and its Jacobian."""
    num_free = len(low) - 1
    x, tilts = np.append(free[:num_free], 0.0), np.append(free[num_free:], 0.0)
    shift = factor @ x + tilts
    left, right = low - shift, high - shift
    log_mass = truncated_normal.log_mass(left, right)
    density_left = np.exp(-0.5 * left**2 - log_mass) / np.sqrt(2 * np.pi)
    density_right = np.exp(-0.5 * right**2 - log_mass) / np.sqrt(2 * np.pi)
    slope = density_left - density_right
    curvature = left * density_left - right * density_right - slope**2
    gradient = np.append((factor.T @ slope - tilts)[:-1], (tilts - x + slope)[:-1])
    weighted = curvature[:, None] * factor
    in_x = (factor.T @ weighted)[:-1, :-1]
    mixed = (weighted - np.eye(len(low)))[:-1, :-1]
    in_tilts = np.diag(1 + curvature[:-1])
    return gradient, np.block([[in_x, mixed.T], [mixed, in_tilts]])
