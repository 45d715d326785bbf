"""Weights, w = prior + likelihood - q on the log scale, and the posterior that they stand for.

Notation: K arms, N lanes, R of them drawn for, m samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any

import numpy as np
from numpy.random import Generator

from agents.base.evidence import CountsAndSums
from agents.posteriors.base import Posterior
from agents.posteriors.weighted_draws import (
    MAX_BEST_ARM_ERROR,
    TARGET_BEST_ARM_ERROR,
    WeightedDraws,
)
from agents.racing.proposals import Proposal, add_features
from bandit_gym.checks.doubts import Doubt
from bandit_gym.numerics.streams import make_generator
from bandit_gym.problem import BanditProblem

NUM_WEIGHTED_DRAWS, MAX_WEIGHTED_DRAWS = 10_000, 160_000
"""Weighted draws for each lane that answers about the posterior rest on: at first, and at most."""

TAIL_LEVEL = 0.025
"""Level of a quantile that is resolved in any case."""

DRAW_GROWTH = 4
"""Times as many are drawn where those so far are worth too few."""

MEANS_PER_TILE = 1 << 16
"""Arm means drawn at a time: 512 KiB, which a core's own cache holds until they are weighed."""


def find_log_weights(
    proposal: Proposal,
    lanes: np.ndarray,
    means: np.ndarray,
    log_densities: np.ndarray | None = None,
) -> np.ndarray:
    """Return the (R, m) log-weights of means: log prior + log likelihood - log q, to a constant.

    Args:
        proposal: q, which may leave the likelihood out.
        lanes: (R,) the lanes that the means are for.
        means: (R, K, m), drawn from any distribution.
        log_densities: (R, m) log q of them, if it is known.

    Raises:
        ValueError: if the prior's log-density is NaN or +inf, or has the wrong shape.
    """
    if proposal.posterior is not None:
        return np.zeros((means.shape[0], means.shape[2]))
    if proposal.natural is None:
        log_prior = log_weights = prior_log_density(proposal.problem, means)
    else:
        coefficients, *ends = proposal.natural
        log_prior = log_weights = add_features(coefficients, means)
        if ends:
            is_outside = ((means < ends[0]) | (means > ends[1])).any(axis=1)
            log_prior = log_weights = np.where(is_outside, -np.inf, log_prior)
    if not proposal.has_likelihood:
        data = proposal.counts[lanes][..., None], proposal.sums[lanes][..., None]
        log_likelihood = proposal.problem.likelihood.log_likelihood(means, *data)
        log_weights = log_weights + log_likelihood.sum(axis=1)
    if log_densities is None:
        log_densities = proposal.log_density(lanes, means)
    with np.errstate(invalid="ignore"):
        return np.where(log_prior == -np.inf, -np.inf, log_weights - log_densities)


def prior_log_density(problem: BanditProblem, means: np.ndarray) -> np.ndarray:
    """Return the prior's (R, m) log-density of (R, K, m) means; arms go last, as it expects.

    Raises:
        ValueError: if it is NaN or +inf.
    """
    wanted = means.shape[0], means.shape[2]  # densities of SciPy drop dimensions of length 1
    log_density = np.reshape(problem.prior.log_density(means.swapaxes(1, 2)), wanted)
    if not (log_density < np.inf).all():
        raise ValueError("prior.log_density must be finite or -inf, got NaN or +inf.")
    return log_density


class ImportancePosterior(Posterior):
    """The posterior, as weighted draws of a proposal.

    A moment that is infinite cannot be distinguished from one that is large.

    Arguments:
        proposal: to draw from.
    """

    source = "weighted draws"
    keeps_state = False

    def __init__(self, proposal: Proposal) -> None:
        self.problem, self.proposal = proposal.problem, proposal

    def update(self, rng: Generator, evidence: CountsAndSums) -> None:
        """Bring every lane to its data; see `Posterior.update`."""
        self.counts = evidence.counts
        self.proposal.update(rng, evidence.counts, evidence.sums)

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw of the means, as `sample_many` does."""
        return np.asarray(self.sample_many(rng, 1)[0])

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws: of the weighted ones that all answers are from, by weight."""
        return np.concatenate([each.resample(rng, size) for each in self._iterate_lanes()], axis=1)

    def _answer(self, question: Callable[..., Any], *options: Any) -> Any:
        """Return what is asked of each lane's draws."""
        shaped = [np.broadcast_to(option, self.counts.shape)[:, None] for option in options]
        found = [
            question(each, *row) for each, *row in zip(self._iterate_lanes(), *shaped, strict=True)
        ]
        if isinstance(found[0], tuple):
            return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))
        return np.concatenate(found)

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) quantiles of the means; see `Belief.quantile`."""
        levels = np.broadcast_to(p, self.counts.shape)[:, None]
        pairs = zip(self._iterate_lanes(levels), levels, strict=True)
        ends, is_short = zip(
            *((d.quantile(row), d.has_few_beyond(row)) for d, row in pairs), strict=True
        )
        self._note_shortage(np.concatenate(is_short))
        return np.concatenate(ends)

    def doubts(self) -> np.ndarray:
        """Return (N,) where draws are too few, or may not follow the proposal's distribution."""
        self._note_shortage(
            self._answer(
                lambda draws: (
                    draws.has_few_beyond(TAIL_LEVEL) | (draws.best_arm_error() > MAX_BEST_ARM_ERROR)
                )
            )
        )
        return self._shortages | Doubt.BEYOND_TABLE.value * self.proposal.is_unreliable()

    def _iterate_lanes(
        self, levels: Iterable[np.ndarray | float] = repeat(TAIL_LEVEL)
    ) -> Iterator[WeightedDraws]:
        """Yield draws of each lane, from a generator made anew: a function of its own data.

        There are so many that best-arm probabilities are known to ENOUGH_ERROR and quantiles are
        resolved; or MAX_DRAWS.
        """
        for lane, row in zip(range(len(self.counts)), levels, strict=False):  # no end
            draws, size = self._draw_lane(lane, NUM_WEIGHTED_DRAWS), NUM_WEIGHTED_DRAWS
            while size < MAX_WEIGHTED_DRAWS and (
                draws.best_arm_error() > TARGET_BEST_ARM_ERROR or draws.has_few_beyond(row)
            ):
                size *= DRAW_GROWTH
                draws = self._draw_lane(lane, size)
            yield draws

    def _draw_lane(self, lane: int, size: int) -> WeightedDraws:
        row = np.array([lane])
        draws = self.proposal.draw(make_generator("weighted draws for answers"), row, size)
        log_weights = find_log_weights(self.proposal, row, draws.means, draws.log_densities)
        if size == MAX_WEIGHTED_DRAWS and log_weights.max() == -np.inf:
            raise make_weight_error(self.proposal, lane, f"{size} draws")
        return WeightedDraws(draws.means.swapaxes(1, 2), log_weights)


def make_weight_error(proposal: Proposal, lane: int, where: str, remedy: str = "") -> ValueError:
    """Return the error that no draw for a lane has weight, given its data."""
    counts, sums = proposal.counts[lane].tolist(), proposal.sums[lane].tolist()
    where += f" in lane {lane}" if len(proposal.counts) > 1 else ""
    return ValueError(
        f"prior.log_density must be above -inf at some draw from the proposal, got -inf at all "
        f"{where}, whose counts {counts} and sums {sums} are hardly possible under the "
        f"prior{remedy}."
    )


def split_lanes(lanes: np.ndarray, means_per_lane: int) -> list[np.ndarray]:
    """Split (R,) lanes into parts of about TILE_SIZE means."""
    step = max(1, MEANS_PER_TILE // means_per_lane)
    return [lanes[start : start + step] for start in range(0, len(lanes), step)]
