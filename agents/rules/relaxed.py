"""The inner problems of information relaxation sampling: what to pull in a future that is known.

Each takes a future, posteriors of every arm after s = 0, ..., H - 1 more of its pulls, and returns
an arm for each of its lanes. Where not all (N, K) are available now, sequences are of those that
are.

Letters: K arms, N lanes, H pulls left, G points of a grid.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from agents.numerics.choices import among, random_argmax
from agents.posteriors.base import Posterior

NUM_POINTS = 128
"""Of the grid on which expected maxima are integrated."""
TAIL = 1e-4
NUM_HALVINGS = 16
"""Of the range of a posterior, to find an index."""


class Future(NamedTuple):
    """What H pulls of every arm would teach, in one sampled future of each lane.

    Attributes:
        posterior: follows the data after s = 0, ..., H - 1 pulls of every arm, in N H lanes.
        means: (N, H, K) posterior means.
    """

    posterior: Posterior
    means: np.ndarray


def most_pulled(rng: Generator, future: Future, available: np.ndarray | None = None) -> np.ndarray:
    """Return the (N,) arms pulled most if each pull pays the posterior mean: IRS.V-ZERO.

    The order of pulls does not matter then, so that they are shared out:
    max over n_1 + ... + n_K = H of sum_a sum_{s < n_a} mean_a(s).
    """
    from agents.numerics.lookahead import allocate

    num_lanes, num_pulls, num_arms = future.means.shape
    order = rng.permutation(num_arms)  # of equal shares the first is found
    gains = np.zeros((num_lanes, num_arms, num_pulls + 1))
    np.cumsum(future.means[..., order].transpose(0, 2, 1), axis=2, out=gains[..., 1:])
    if available is not None:
        gains[..., 1:][~available[:, order]] = -np.inf
    pulls = np.empty((num_lanes, num_arms), dtype=np.int64)
    allocate(gains, pulls)
    return order[random_argmax(rng, pulls)]


def first_of_best_sequence(
    rng: Generator, future: Future, available: np.ndarray | None = None
) -> np.ndarray:
    """Return the (N,) first arms of the best sequences for two or three arms: IRS.V-EMAX.

    With W(n) the expected best mean after n = (n_1, ..., n_K) pulls, the guessed value of a state
    with h pulls left is h W(n). A pull of arm a at n pays mean_a(n_a) less h (W(n + e_a) - W(n)),
    with h pulls left after it. By parts, that adds W(0) - W(n + e_a) to each pull but the last.
    """
    from agents.numerics.lookahead import find_first_pull

    num_lanes, num_pulls, num_arms = future.means.shape
    permutation = rng.permutation(num_arms)
    points, below = _distributions(future)
    actions = np.empty(num_lanes, dtype=np.int64)
    for lane in range(num_lanes):
        order = permutation if available is None else permutation[available[lane, permutation]]
        if len(order) == 1:
            actions[lane] = order[0]
            continue
        maxima = expected_maxima(points[lane], below[lane][..., order])
        means = np.zeros((3, num_pulls))
        means[: len(order)] = future.means[lane][:, order].T
        actions[lane] = order[find_first_pull(means, maxima, num_pulls)]
    return actions


def _distributions(future: Future) -> tuple[np.ndarray, np.ndarray]:
    """Return (N, G) grids of means and the (N, G, H, K) distribution functions there."""
    shape = future.means.shape
    low = future.posterior.quantile(TAIL).reshape(shape).min(axis=(1, 2))
    high = future.posterior.quantile(1 - TAIL).reshape(shape).max(axis=(1, 2))
    points = np.linspace(low, high, NUM_POINTS, axis=1)
    below = np.empty((shape[0], NUM_POINTS, *shape[1:]))
    for g in range(NUM_POINTS):
        level = np.broadcast_to(points[:, g, None, None], shape).reshape(-1, shape[2])
        below[:, g] = future.posterior.shortfall(level)[0].reshape(shape)
    return points, below


def expected_maxima(points: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return the (H + 1, H + 1, 1 or H + 1) expected best means after any vector of pulls.

    They are high - int F_1 F_2 F_3 from low to high, by the trapezoidal rule; entries of more than
    H - 1 pulls, which no price depends on, are 0.

    Args:
        points: (G,) means.
        below: (G, H, K) distribution functions, of two or three arms.
    """
    weights = np.gradient(points)
    weights[[0, -1]] /= 2
    num_pulls, num_arms = below.shape[1:]
    first, second = below[..., 0] * weights[:, None], below[..., 1]
    maxima = np.zeros((num_pulls + 1, num_pulls + 1, 1 if num_arms == 2 else num_pulls + 1))
    if num_arms == 2:
        maxima[:-1, :-1, 0] = points[-1] - first.T @ second
        return maxima
    for s in range(num_pulls):
        maxima[s, :-1, :-1] = points[-1] - (first[:, [s]] * second).T @ below[..., 2]
    return maxima


def relaxed_index(
    rng: Generator, future: Future, available: np.ndarray | None = None
) -> np.ndarray:
    """Return the (N,) arms of the largest sure payment that is not worth leaving: IRS.INDEX."""
    num_lanes, num_pulls, num_arms = future.means.shape
    now = np.arange(num_lanes) * num_pulls
    low, high = (future.posterior.quantile(p)[now] for p in (TAIL, 1 - TAIL / 100))
    for _ in range(NUM_HALVINGS):
        middle = (low + high) / 2
        is_worth = is_worth_starting(future, middle)
        low, high = np.where(is_worth, middle, low), np.where(is_worth, high, middle)
    return random_argmax(rng, low if available is None else among(low, available))


def is_worth_starting(future: Future, payment: np.ndarray) -> np.ndarray:
    """Return (N, K) whether an arm is pulled first in the best sequence beside a sure payment.

    With W(s) = E max(payment, x) after s pulls of the arm, n pulls in all are worth

        sum_{s < n} (mean(s) - W(s)) + H W(0) + (H - n) (payment - min_{s <= n} W(s)),

    since the price of a sure payment is least where W is; none are worth H payment. The arm comes
    first if that state is not the present one.

    Args:
        future: of N lanes.
        payment: (N, K) per pull.
    """
    num_pulls = future.means.shape[1]
    level = np.repeat(payment, num_pulls, axis=0)
    shortfall = future.posterior.shortfall(level)[1].reshape(future.means.shape)
    worth = future.means + shortfall  # E max(payment, x) = mean + E(payment - x)^+
    least = np.minimum.accumulate(worth, axis=1)
    n = np.arange(1, num_pulls + 1)[:, None]
    until = np.concatenate([least[:, 1:], least[:, -1:]], axis=1)  # at n = H it counts 0 times
    values = np.cumsum(future.means - worth, axis=1) + num_pulls * worth[:, :1]
    values += (num_pulls - n) * (payment[:, None] - until)
    best = values.argmax(axis=1)  # n - 1
    is_all = best == num_pulls - 1
    is_later = np.take_along_axis(until, best[:, None], axis=1)[:, 0] < worth[:, 0]
    return (values.max(axis=1) > num_pulls * payment) & (is_all | is_later)
