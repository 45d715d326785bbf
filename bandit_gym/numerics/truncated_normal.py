"""The normal distribution on an interval, and exact draws from a multivariate one on a box.

Everything is computed from the logarithm of the distribution function, after turning an interval
to the right of 0 into its mirror image on the left, where that logarithm keeps its digits.

In a box, minimax tilting proposes coordinates one after the other, each from a shifted normal
truncated to what the earlier ones leave of its interval, and accepts the vector with probability
exp(psi(x, tilts) - psi*). Here psi is the log of target over proposal density, the sum of
tilt^2 / 2 - x tilt + log mass, and psi* its bound; the shifts ("tilts") make it smallest.

References:
    Botev (2017), "The normal law under linear restrictions: simulation and estimation via minimax
    tilting", Journal of the Royal Statistical Society B 79, sections 2 and 3.
"""

from collections.abc import Sequence

import numpy as np
import scipy
from numpy.random import Generator

from bandit_gym.checks.typing import BoolArray, FloatArray, IntArray
from bandit_gym.numerics.variates import LEAST_UNIFORM


def log_mass(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return log P(low < Z < high) of a standard normal Z, elementwise.

    Args:
        low: lower limits in standard deviations.
        high: upper limits, above `low`.
    """
    return _mirrored_log_masses(low, high)[1]


def quantile(
    low: FloatArray, high: FloatArray, uniforms: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return quantiles of a standard normal given that it lies in an interval, elementwise.

    Args:
        low: lower limits in standard deviations.
        high: upper limits, above `low`.
        uniforms: values in (0, 1).

    Returns:
        The quantiles, in [low, high] and nondecreasing in `uniforms`; and `log_mass(low, high)`,
        which is needed on the way.
    """
    log_left, log_inside, is_mirrored = _mirrored_log_masses(low, high)
    # SciPy's log, as NumPy's may round differently in long and in short arrays.
    parts = np.where(is_mirrored, 1.0 - uniforms, uniforms)
    log_part = log_inside + scipy.special.xlogy(1.0, parts)
    values = scipy.special.ndtri_exp(np.logaddexp(log_left, log_part))
    return np.clip(np.where(is_mirrored, -values, values), low, high), log_inside


def rounding_error(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the relative error that rounding leaves in the mass of an interval, roughly.

    The logarithm far out is a large number, and a narrow interval is a small difference of two.
    """
    nearest = np.maximum(np.maximum(low, -high), 1.0)
    return np.finfo(float).eps * np.square(nearest) / np.minimum((high - low) * nearest, 1.0)


def _mirrored_log_masses(
    low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray, BoolArray]:
    is_mirrored = low + high > 0
    log_left = scipy.special.log_ndtr(np.where(is_mirrored, -high, low))
    log_right = scipy.special.log_ndtr(np.where(is_mirrored, -low, high))
    return log_left, log_right + np.log(-np.expm1(log_left - log_right)), is_mirrored


_MIN_BLOCK_SIZE = 4  # a few proposals cost hardly more than one
_MAX_BLOCK_SIZE = 20_000  # bounds the memory
_NUM_TRIAL_PROPOSALS = 2000
_NUM_STAGES = (1, 4, 16, 64, 256)
_ROOT_TOLERANCE = 1e-6


class TiltedBox:
    """N(mean, covariance) on the box [low, high], in the order and units of its proposals.

    With x the standardised coordinates, arm `order[k]` has the mean
    offset[k] + scales[k] (x_k + sum over j < k of factor[k, j] x_j).

    Args:
        mean: (K,) mean before truncation.
        covariance: (K, K) symmetric positive definite.
        low: (K,) lower corner.
        high: (K,) upper corner.

    Attributes:
        order: (K,) arms in the order of proposal.
        offset: (K,) mean of the untruncated normal.
        scales: (K,) diagonal of the Cholesky factor of the covariance.
        factor: (K, K) rows of the Cholesky factor over `scales`, with zeros on the diagonal.
        low: (K,) lower corner of the box, less `offset`, over `scales`.
        high: (K,) upper corner of the box, likewise.
        tilts: (K,) shift of each coordinate's proposal; the last one is 0.
        log_bound: psi*, the largest value of psi(x, tilts) over all x.

    Raises:
        ValueError: if the solver finds no saddle point.
    """

    def __init__(
        self, mean: FloatArray, covariance: FloatArray, low: FloatArray, high: FloatArray
    ) -> None:
        self.order = order_by_restriction(covariance, low - mean, high - mean)
        cholesky = np.linalg.cholesky(covariance[np.ix_(self.order, self.order)])
        self.offset, self.scales = mean[self.order], np.diag(cholesky).copy()
        self.factor = cholesky / self.scales[:, None] - np.eye(len(mean))
        self.low, self.high = ((end - mean)[self.order] / self.scales for end in (low, high))
        x, self.tilts = _solve_tilting(self.factor, self.low, self.high)
        shift = self.factor @ x + self.tilts
        masses = log_mass(self.low - shift, self.high - shift)
        self.log_bound = float((masses - x * self.tilts + 0.5 * self.tilts**2).sum())

    def sample(self, rng: Generator, num_draws: int) -> FloatArray:
        """Draw (num_draws, K) independent vectors."""
        found = [np.empty((0, len(self.order)))]
        num_missing, num_proposed = num_draws, 0
        while num_missing > 0:
            size = _block_size(num_draws, num_proposed)
            means, is_accepted = self._propose(_draw_uniforms(rng, len(self.order), size))
            found.append(means[is_accepted][:num_missing])
            num_missing -= len(found[-1])
            num_proposed += size
        return np.concatenate(found)

    def sample_each(self, rngs: Sequence[Generator]) -> FloatArray:
        """Draw one vector from each of N generators: (N, K), bit for bit `sample(rng, 1)` of each.

        The proposals of all generators are worked on together: twenty times faster for many.
        """
        means = np.empty((len(rngs), len(self.order)))
        lanes: IntArray = np.arange(len(rngs))
        num_proposed = 0
        while lanes.size:
            size = _block_size(1, num_proposed)
            blocks = [_draw_uniforms(rngs[lane], len(self.order), size) for lane in lanes.tolist()]
            proposed, is_accepted = self._propose(np.concatenate(blocks, axis=1))
            is_found = is_accepted.reshape(-1, size).any(axis=1)
            first = is_accepted.reshape(-1, size).argmax(axis=1) + size * np.arange(len(lanes))
            means[lanes[is_found]] = proposed[first[is_found]]
            lanes = lanes[~is_found]
            num_proposed += size
        return means

    def acceptance(self) -> float:
        """Estimate the share of proposals that are accepted, with a fixed generator."""
        uniforms = _draw_uniforms(np.random.default_rng(0), len(self.order), _NUM_TRIAL_PROPOSALS)
        return float(np.exp(self._propose_with_log_ratio(uniforms[:-1])[1]).mean())

    def _propose(self, uniforms: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Turn (K + 1, M) uniforms into (M, K) proposed means and whether each is accepted."""
        means, log_ratio = self._propose_with_log_ratio(uniforms[:-1])
        return means, np.log(uniforms[-1]) <= log_ratio

    def _propose_with_log_ratio(self, uniforms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Turn (K, M) uniforms into (M, K) proposed means and the logs of their acceptance."""
        values = np.zeros((len(self.order), uniforms.shape[1]))
        log_ratio = np.full(uniforms.shape[1], -self.log_bound)
        for k, tilt in enumerate(self.tilts):
            shift = values[k] + tilt
            z, inside = quantile(self.low[k] - shift, self.high[k] - shift, uniforms[k])
            x = z + tilt
            log_ratio += inside - tilt * x + 0.5 * tilt**2
            values[k] += x
            values[k + 1 :] += self.factor[k + 1 :, k, None] * x
        means = np.empty(values.T.shape)
        means[:, self.order] = self.offset + self.scales * values.T
        return means, log_ratio


def _draw_uniforms(rng: Generator, num_arms: int, num_proposals: int) -> FloatArray:
    return np.maximum(rng.random((num_arms + 1, num_proposals)), LEAST_UNIFORM)


def _block_size(num_draws: int, num_proposed: int) -> int:
    """Return how many vectors to propose at once: as many as so far, so that blocks double."""
    return min(max(_MIN_BLOCK_SIZE, num_draws, num_proposed), _MAX_BLOCK_SIZE)


def order_by_restriction(covariance: FloatArray, low: FloatArray, high: FloatArray) -> IntArray:
    """Return the arms, each time the one least likely to be in its interval given those before.

    Those before stand at their expected values. Proposing in this order raises the acceptance rate,
    tenfold in strongly correlated cases (Botev 2017, section 2.3).
    """
    num_arms = len(low)
    order = np.arange(num_arms)
    residual, expected = covariance.copy(), np.zeros(num_arms)
    for k in range(num_arms):
        rest = order[k:]
        stds = np.sqrt(np.diag(residual)[rest])
        limits = (low - expected)[rest] / stds, (high - expected)[rest] / stds
        best = int(log_mass(*limits).argmin())
        order[[k, k + best]] = order[[k + best, k]]
        column = residual[:, order[k]] / stds[best]
        slope, _ = _slope_and_curvature(limits[0][best], limits[1][best])
        expected += column * slope
        residual = residual - np.outer(column, column)
    return order


def _solve_tilting(
    factor: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return x and tilts at the saddle point of psi, where all its derivatives vanish.

    psi is concave in x, so that a zero of its gradient in x gives the bound that acceptance needs.
    For a box around the mean the solution is 0. Where the solver does not get from there to the
    real box at once, the box is moved in stages; it then fails only where the covariance is nearly
    singular (condition above 10^4, say) and the mean far outside the box.
    """
    centre = 0.5 * (low + high)
    for num_stages in _NUM_STAGES:
        free = np.zeros(2 * len(low) - 2)  # the last x and tilt have no part in psi
        for stage in range(1, num_stages + 1):
            displacement = centre * (1 - stage / num_stages)
            free, is_solved = _find_root(free, factor, low - displacement, high - displacement)
            if not is_solved:
                break
        if is_solved:
            x, tilts = np.split(free, 2)
            return np.append(x, 0.0), np.append(tilts, 0.0)
    raise ValueError(
        "mean and covariance must put the box where the tilting problem can be solved, got a "
        f"centre {np.abs(centre).max():.3g} conditional standard deviations from the mean."
    )


def _find_root(
    start: FloatArray, factor: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, bool]:
    from scipy import optimize  # costs 0.1 s to import, and few users draw from this distribution

    box = (factor, low, high)
    free = optimize.root(_gradient, start, args=box, jac=True, options={"xtol": 1e-12}).x
    error = np.abs(_gradient(free, *box)[0]).max(initial=0.0)
    return free, bool(error <= _ROOT_TOLERANCE * max(1.0, np.abs(free).max(initial=0.0)))


def _gradient(
    free: FloatArray, factor: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the (2K - 2,) gradient of psi in the first K - 1 of x and tilts, and its Jacobian."""
    num_free = len(low) - 1
    x, tilts = np.append(free[:num_free], 0.0), np.append(free[num_free:], 0.0)
    shift = factor @ x + tilts
    slope, curvature = _slope_and_curvature(low - shift, high - shift)
    gradient = np.append((factor.T @ slope - tilts)[:-1], (tilts - x + slope)[:-1])
    weighted = curvature[:, None] * factor
    in_x = (factor.T @ weighted)[:-1, :-1]
    mixed = (weighted - np.eye(len(low)))[:-1, :-1]
    in_tilts = np.diag(1 + curvature[:-1])
    return gradient, np.block([[in_x, mixed.T], [mixed, in_tilts]])


def _slope_and_curvature(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the first two derivatives of log P(low < Z + t < high) in t at 0, elementwise.

    They are the mean of Z in [low, high] and its variance less 1.
    """
    inside = log_mass(low, high)
    at_low = np.exp(-0.5 * low**2 - inside) / np.sqrt(2 * np.pi)
    at_high = np.exp(-0.5 * high**2 - inside) / np.sqrt(2 * np.pi)
    slope = at_low - at_high
    return slope, low * at_low - high * at_high - slope**2
