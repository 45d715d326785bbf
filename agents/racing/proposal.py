"""What a race draws from, and the weights that make up for the difference: the contract.

A proposal draws vectors mu of means and gives each a weight w(mu), the density of the true
posterior over that of the draw, up to a constant. Weights are exact whatever the proposal is; how
close it comes to the true posterior decides how many draws are needed, never what they mean.

So a proposal is a posterior that can also weigh its draws: as `agents.posteriors.base` has it, what
it says of the means is said of the true posterior, from weighted draws. A moment that is infinite
cannot be told from one that is large.

Letters: K arms, N lanes, R of them drawn for, m samples.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from agents.numerics.choices import among
from agents.numerics.kernels import Draws
from agents.posteriors.base import Posterior
from agents.racing.weighing import WeighedLaws
from bandit_gym.problem import BanditProblem

NUM_DRAWS = 10_000
"""Weighted draws for each lane that answers about the posterior rest on."""

NUM_CANDIDATES = 1000
"""Weighted draws for each lane of which `sample` keeps one."""

TILE_SIZE = 1 << 16
"""Arm means drawn at a time: 512 KiB, which a core's own cache holds until they are weighed."""


class Proposal(Posterior):
    """A way to draw arm means, and to weigh the draws for the problem's own prior.

    Arguments:
        problem: likelihood and prior to weigh for.

    Attributes:
        counts: (N, K) pulls that are followed.
        sums: (N, K) total rewards that are followed.
        expected_samples: that the next race will take on average, as far as races have shown; 0
            before any. What pays by the number of draws is decided by it.
        draw_cost: of one mean, in those of a mean drawn from a table.
        has_equal_weights: whether weights are constant, but for errors of tables: then a draw is
            one from the posterior.
        is_inferred: whether what the draws rest on was inferred from draws of the prior, and not
            told by it; see `is_misled`.
    """

    source = f"{NUM_DRAWS:,} weighted draws"
    state_names = ("expected_samples",)
    draw_cost: ClassVar[float]
    has_equal_weights = False
    is_inferred = False

    def __init__(self, problem: BanditProblem) -> None:
        self.problem = problem
        self.counts, self.sums = np.empty((2, 0, problem.num_arms))
        self.expected_samples = 0.0

    def is_missing(self, counts: np.ndarray) -> np.ndarray:
        """Return (N, K) True where an arm has no posterior of its own, given its pulls."""
        return np.zeros(counts.shape, dtype=bool)

    def follow(self, rng: Generator, counts: np.ndarray, sums: np.ndarray) -> None:
        """Bring every lane to its data; see `Posterior.follow`."""
        self.counts, self.sums = counts, sums

    @abstractmethod
    def draw(self, rng: Generator, lanes: np.ndarray, num_samples: int) -> Draws:
        """Draw m weighted vectors of means for each of the given (R,) lanes.

        Raises:
            ValueError: if the prior's log-density is NaN or +inf, or has the wrong shape.
        """

    def weigh(self, lanes: np.ndarray, means: np.ndarray) -> np.ndarray:
        """Return the (R, m) log-weights of (R, K, m) means, whatever they were drawn from."""
        raise NotImplementedError

    def is_misled(self, lanes: np.ndarray) -> np.ndarray:
        """Return (R,) True where what was inferred of the prior fails near the data."""
        return np.zeros(len(lanes), dtype=bool)

    def weighed_laws(self) -> WeighedLaws | None:
        """Return what a compiled loop needs to draw and weigh by itself, or None if it cannot."""
        return None

    def run_races(self, rng: Generator, races: Any, lanes: np.ndarray, chunk_size: int) -> bool:
        """Run races in a compiled loop of its own; return False if it has none.

        Args:
            rng: source of randomness.
            races: the `Races` of N lanes; they change.
            lanes: (R,) whose races to run.
            chunk_size: samples to draw at a time.
        """
        return False

    def log_supremum(self) -> float:
        """Return log sup w(mu) over all means, up to the constant that `draw` leaves out.

        Raises:
            ValueError: if it is unknown or infinite.
        """
        raise ValueError(
            "scale must be 'value' or 'weight' unless the prior offers natural_parameters, got "
            f"'supremum' for {self.problem.prior!r}."
        )

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw of the means: of NUM_CANDIDATES weighted ones, one by its weight.

        Its law is off by about the weights' relative variance over NUM_CANDIDATES, and it costs
        that many draws of each arm, a third of a millisecond for ten arms.
        """
        tiles = split_lanes(np.arange(len(self.counts)), NUM_CANDIDATES * self.problem.num_arms)
        return np.concatenate([self._resample(rng, tile) for tile in tiles])

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws: of the weighted ones that all answers are from, by weight."""
        chosen = [
            means[:, rng.choice(len(weights), size, p=weights)].T
            for means, weights, _ in self._weighted_draws()
        ]
        return np.stack(chosen, axis=1)

    def mean(self) -> np.ndarray:
        """Return the (N, K) expectations of the means."""
        return np.array([means @ weights for means, weights, _ in self._weighted_draws()])

    def std(self) -> np.ndarray:
        """Return the (N, K) standard deviations of the means."""
        variances = [
            np.square(means - (means @ weights)[:, None]) @ weights
            for means, weights, _ in self._weighted_draws()
        ]
        return np.sqrt(variances)

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) quantiles of the means; see `Posterior.quantile`."""
        rows = np.broadcast_to(p, self.counts.shape)
        return np.array(
            [
                [weighted_quantile(x, weights, q) for x, q in zip(means, row, strict=True)]
                for row, (means, weights, _) in zip(rows, self._weighted_draws(), strict=True)
            ]
        )

    def best_arm_probabilities(self) -> np.ndarray:
        """Return the (N, K) probabilities that each arm has the largest mean."""
        num_arms = self.problem.num_arms
        return np.array([np.bincount(won, w, num_arms) for _, w, won in self._weighted_draws()])

    def best_among(self, available: np.ndarray | None) -> np.ndarray:
        """Return the (N, K) probabilities of being the best among the (N, K) available arms."""
        if available is None:
            return self.best_arm_probabilities()
        pairs = zip(self._weighted_draws(), available[..., None], strict=True)
        return np.array(
            [
                np.bincount(among(means, arms).argmax(axis=0), weights, len(arms))
                for (means, weights, _), arms in pairs
            ]
        )

    def _weighted_draws(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield each lane's (K, m) means, (m,) weights of sum 1, and (m,) winners.

        The generator is fixed and made anew for each lane, so that a lane's answer is a function of
        its own data.
        """
        for lane in range(len(self.counts)):
            draws = self.draw(np.random.default_rng(0), np.array([lane]), NUM_DRAWS)
            weights = self._normalise(draws.log_weights, np.array([lane]))
            yield draws.means[0], weights[0], draws.winners[0]

    def _resample(self, rng: Generator, lanes: np.ndarray) -> np.ndarray:
        draws = self.draw(rng, lanes, NUM_CANDIDATES)
        shares = self._normalise(draws.log_weights, lanes).cumsum(axis=1)
        chosen = (shares < rng.random((len(lanes), 1)) * shares[:, -1:]).sum(axis=1)
        return draws.means[np.arange(len(lanes)), :, chosen]

    def describe_fault(self, lane: int) -> str:
        """Say what of a lane no draw can explain: of which arm, with its count and sum, if of one.

        It is an arm with none of whose draws, each put into a draw of the prior, data and prior
        are possible, while they are with another draw of the prior.
        """
        rng, problem = np.random.default_rng(0), self.problem
        drawn = self.draw(rng, np.array([lane]), NUM_CANDIDATES).means[0].T
        typical = problem.prior.sample(rng, drawn.shape)
        for arm in np.flatnonzero(self.counts[lane]):
            data = int(self.counts[lane, arm]), float(self.sums[lane, arm])
            mixed, shuffled = typical.copy(), typical.copy()
            mixed[:, arm], shuffled[:, arm] = drawn[:, arm], np.roll(typical[:, arm], 1)
            logs = problem.likelihood.log_likelihood(drawn[:, arm], *data)
            logs = logs + problem.prior.log_density(mixed)
            if np.isneginf(logs).all() and np.isfinite(problem.prior.log_density(shuffled)).any():
                told = f"{data[0]} rewards of total {data[1]:g}"
                return f"arm {arm} has {told} that are hardly possible under the prior"
        return "data are hardly possible under the prior"

    def _normalise(self, log_weights: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        top = log_weights.max(axis=1, keepdims=True)
        if (top == -np.inf).any():
            lane = int(lanes[top[:, 0].argmin()])
            raise ValueError(
                "prior.log_density must be above -inf at some draw from the proposal, got -inf at "
                f"all {log_weights.shape[1]} draws for lane {lane}, whose "
                f"{self.describe_fault(lane)}."
            )
        weights = np.exp(log_weights - top)
        return weights / weights.sum(axis=1, keepdims=True)


def split_lanes(lanes: np.ndarray, means_per_lane: int) -> list[np.ndarray]:
    """Split (R,) lanes into parts of about TILE_SIZE means."""
    step = max(1, TILE_SIZE // means_per_lane)
    return [lanes[start : start + step] for start in range(0, len(lanes), step)]


def weighted_quantile(x: np.ndarray, weights: np.ndarray, p: float) -> float:
    """Return the quantile of (m,) weighted numbers, on lines through their middle ranks."""
    order = np.argsort(x)
    ranks = np.cumsum(weights[order]) - weights[order] / 2
    return float(np.interp(p, ranks, x[order]))


def prior_log_density(problem: BanditProblem, means: np.ndarray) -> np.ndarray:
    """Return the prior's (R, m) log-density of (R, K, m) means; arms go last, as it expects.

    Raises:
        ValueError: if it has another shape, or is NaN or +inf.
    """
    log_density = np.asarray(problem.prior.log_density(means.transpose(0, 2, 1)))
    wanted = (means.shape[0], means.shape[2])
    if log_density.shape == tuple(size for size in wanted if size > 1):
        log_density = log_density.reshape(wanted)  # densities of SciPy drop dimensions of length 1
    if log_density.shape != wanted:
        raise ValueError(
            f"prior.log_density must map means (..., K) to (...): shape {wanted} for means of "
            f"shape {(*wanted, means.shape[1])}, got {log_density.shape}."
        )
    if not (log_density < np.inf).all():
        raise ValueError("prior.log_density must be finite or -inf, got NaN or +inf.")
    return log_density
