"""The posterior as weighted particles: reweighted only, or resampled and moved as well.

Particles are drawn from the prior and reweighted as data arrive, and fewer and fewer carry the
weight. What helps is to *resample* a population whose effective sample size has fallen, and to
*move* the copies by Metropolis steps that leave the posterior invariant (resample-move, Gilks and
Berzuini 2001). Data that say much, at once or by a single reward, are taken in by stages: with
their likelihood raised to powers that rise to one. `agents.posteriors.lineage` tells what the
particles cannot vouch for in the end.

Letters: K arms, N lanes, P particles. Where the prior is independent across arms, so is the
posterior, and each arm has a population of its own, which P particles cover much better than K
dimensions; otherwise a lane has one. R populations of D-dimensional particles: (N K, 1) or (N, K),
so that the flat cell of a lane and an arm, lane K + arm, belongs to population cell // D. The last
of their P + 1 columns is a *reference*: a mean that bears no weight and never moves.

References:
    Chopin (2002); Del Moral, Doucet and Jasra (2006).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from agents.base.evidence import CountsAndSums
from agents.base.table_1 import require_draws
from agents.posteriors.base import Posterior
from agents.posteriors.lineage import Lineage
from agents.posteriors.moves import Data, sweep
from agents.posteriors.weighted_draws import (
    WeightedDraws,
    compare_populations,
    normalise,
    pick,
    pick_one,
    relate,
    resample,
)
from bandit_gym.checks import check_choice, check_integer, message
from bandit_gym.checks.doubts import Doubt
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.problem import BanditProblem, check_problem

RESAMPLING = ("never", "systematic")
MOVES = ("none", "random-walk")

MAX_PARTICLES = 10**7
"""In a lane; each takes 8 bytes an arm."""

MAX_VALUES = 5 * 10**8
"""Means of particles in all lanes together: 4 GB, and as much again for what is made of them."""

MAX_WORK = 1500
"""Stages times arms times steps a sweep that lead particles to many data that come at once."""

LARGEST_LOG = 1e13
"""Log-likelihoods beyond it, either way, are rounded by more than a thousandth."""

BLOCK = 65_536
"""Log-likelihoods that are worked on at once. More than caches hold takes longer: with 1,000
particles in 500 lanes, a decision takes 5.7 us a lane, and 15.5 in one piece."""

LEAST_SHARE = -100
"""Base 2 logarithm of the least share of new data that is taken at once."""

LEAST_LEFT = 0.5
"""Share of P below which the effective sample size calls for new particles."""

MILD = 0.2
"""Share of the least effective sample size that new data may leave without a stage between."""

NUM_MOVES = 3
"""Sweeps after a resampling."""


class ParticlePosterior(Posterior):
    """Populations of weighted particles, renewed when their effective sample size falls.

    Arguments:
        problem: likelihood and prior.
        num_particles: how many; without resampling also a sequence, how many of them take part
            after 0, 1, ... pulls, of which the last holds on.
        resampling: "systematic" resamples a population once half of its effective size is lost;
            "never" does not.
        move: "random-walk" lets sweeps of Metropolis steps follow; "none" leaves copies where they
            are.
    """

    source = "weighted particles"
    can_discount = True
    has_exact_propensities = True
    state_names = ("counts", "sums", "lineage", "_means", "_log_weights")

    def __init__(
        self,
        problem: BanditProblem,
        *,
        num_particles: int | Sequence[int] = 500,
        resampling: str = "systematic",
        move: str = "random-walk",
    ) -> None:
        schedule = check_schedule(num_particles, resampling)
        is_renewed = check_choice("resampling", resampling, RESAMPLING) != "never"
        require_draws(problem.prior)
        self.problem = check_problem(problem)
        self._is_cumulative = True
        self.max_lanes = max(1, MAX_VALUES // (max(schedule) * problem.num_arms))
        self._num_moves = NUM_MOVES if check_choice("move", move, MOVES) != "none" else 0
        self._is_renewed = is_renewed
        self._schedule = np.array(schedule)
        self._least_size = LEAST_LEFT * float(self._schedule[0])
        is_split = is_renewed and problem.offers("arm_log_density")
        self._size = 1 if is_split else problem.num_arms  # D
        self._keeps_gains = type(problem.likelihood) is Bernoulli and not is_renewed
        self._support = problem.arm_support()
        self._num_stages = max(1, MAX_WORK // (problem.num_arms * self._size))
        self.counts: np.ndarray = np.empty((0, problem.num_arms))
        self.sums = self.counts

    def start(self, rng: Generator, num_lanes: int) -> None:
        """Make room for the particles of so many lanes, and draw them."""
        num_arms, size, num_particles = self.problem.num_arms, self._size, self._schedule.max()
        num_rows = num_lanes * num_arms // size
        self.counts, self.sums = np.zeros((2, num_lanes, num_arms))
        self._means = np.empty((num_lanes * num_arms, num_particles + 1))
        self._log_weights = np.zeros((num_rows, num_particles + 1))
        self._weights = np.empty((num_rows, num_particles))
        self._sizes, self._tops, self._log_totals = np.empty((3, num_rows))
        self.lineage = Lineage((num_rows, num_particles, size))
        super().start(rng, num_lanes)

    def restart(self, rng: Generator, mask: np.ndarray) -> None:
        """Draw the masked lanes' particles from the prior."""
        num_arms, size, num_particles = self.problem.num_arms, self._size, self._schedule.max()
        self._shortages = 0
        self._kept: dict[tuple[int, float], np.ndarray] = {}
        draws = self.problem.prior.sample(rng, (int(mask.sum()), num_particles, num_arms))
        cells = np.flatnonzero(mask.repeat(num_arms))
        rows = np.flatnonzero(mask.repeat(num_arms // size))
        self._means[cells, :-1] = draws.swapaxes(1, 2).reshape(-1, num_particles)
        # An average is inside, where a draw may be at an end.
        self._means[cells, -1] = draws[:, :16].mean(axis=1).ravel()
        self.counts[mask] = self.sums[mask] = 0.0
        self.lineage.restart(rows, self._particles()[rows])
        self._weigh(rows, np.zeros((len(rows), num_particles + 1)))

    def _resume(self) -> None:
        """Sum up the weights, which follow from their logarithms."""
        self._weigh(np.arange(len(self._log_weights)), self._log_weights)

    def update(self, rng: Generator, evidence: CountsAndSums) -> None:
        """Reweight by the new data; in stages, where they would leave few particles of weight."""
        counts, sums, self._is_cumulative = evidence.counts, evidence.sums, evidence.is_cumulative
        news = counts - self.counts
        is_new = news if self._is_cumulative else (news != 0) | (sums != self.sums)
        (cells,) = is_new.reshape(-1).nonzero()
        if not cells.size:
            return
        before, self._shortages = (self.counts, self.sums), 0
        self.counts, self.sums = counts.copy(), sums.copy()
        first = cells.item(0)
        if self._keeps_gains and len(counts) == cells.size == news.item(first) == 1:
            self._learn_bit(first, sums.item(first) - before[1].item(first))
            return
        fresh = news.reshape(-1)[cells], (sums - before[1]).reshape(-1)[cells]
        num_blocks = -(-cells.size * self._weights.shape[1] // BLOCK)
        width = -(-len(self._sizes) // num_blocks)
        for first in range(0, len(self._sizes), width):
            ends = cells.searchsorted((first * self._size, (first + width) * self._size))
            if ends[0] < ends[1]:
                some = slice(*ends)
                self._add(rng, cells[some], (fresh[0][some], fresh[1][some]), before)

    def sample(self, rng: Generator) -> np.ndarray:
        """Return one (N, K) draw: of each population, a particle by its weight."""
        if len(self._weights) == 1:
            return self._means[:, pick_one(rng, self._weights[0])][None]
        chosen = pick(rng, self._weights)
        return self._particles()[np.arange(len(chosen)), chosen].reshape(self.counts.shape)

    def sample_many(self, rng: Generator, size: int) -> np.ndarray:
        """Return (size, N, K) draws: particles by their weight."""
        return self._populations().resample(rng, size).reshape(size, *self.counts.shape)

    def best_arm_probabilities(self) -> np.ndarray:
        """Return the (N, K) probabilities that each arm has the largest mean."""
        if self._size == self.problem.num_arms:
            return self._populations().best_arm_probabilities()
        law, (num_lanes, num_arms) = np.zeros(self.counts.shape), self.counts.shape
        means = self._means[:, :-1].reshape(num_lanes, num_arms, -1)
        weights = self._populations().weights.reshape(means.shape)
        for lane in range(num_lanes):
            law[lane] = compare_populations(means[lane], weights[lane])
        return law

    def num_taking_part(self) -> np.ndarray:
        """Return (N,) how many particles take part in a decision."""
        if len(self._schedule) == 1:
            return self._schedule.repeat(len(self.counts))
        pulls = np.minimum(self.counts.sum(axis=1), len(self._schedule) - 1)
        return self._schedule[pulls.astype(np.int64)]

    def effective_sample_size(self) -> np.ndarray:
        """Return (N,) that of each lane's poorest population."""
        return self._by_lane(self._summed()[0]).min(axis=1)

    def is_degenerate(self) -> np.ndarray:
        """Return (N,) whether in some population every particle rules out the data.

        It is treated as if all were equally likely.
        """
        return np.any(self._by_lane(self._tops) == -np.inf, axis=1)

    def doubts(self) -> np.ndarray:
        """Return (N,) where particles are too few or too alike, or may have missed a part."""
        num_particles = self._taking_part()
        lineage, (sizes, log_totals) = self.lineage, self._summed()
        is_poor = lineage.is_poor(sizes, num_particles, self.problem.num_arms)
        is_surprised = lineage.is_surprised(log_totals, self._log_most())
        collapsed = np.where(is_poor | lineage.is_capped, Doubt.PARTICLES_COLLAPSED, 0)
        missed = np.where(is_surprised, Doubt.FEW_EFFECTIVE_SAMPLES, 0)
        found: np.ndarray = np.bitwise_or.reduce(self._by_lane(collapsed | missed), axis=1)
        return found | self._shortages

    def diagnostics(self) -> dict[str, np.ndarray]:
        """Return (N,) arrays by name that say how far the particles can be relied on."""
        return super().diagnostics() | {
            "num_samples": self.num_taking_part(),
            "effective_sample_size": self.effective_sample_size(),
            "is_degenerate": self.is_degenerate(),
        }

    def _by_lane(self, values: np.ndarray) -> np.ndarray:
        """Return (R,) values of populations as an (N, G) array."""
        return values.reshape(len(self.counts), -1)

    def _particles(self) -> np.ndarray:
        """Return a (R, P, D) view of the particles."""
        return self._means.reshape(len(self._sizes), self._size, -1)[..., :-1].swapaxes(1, 2)

    def best_arm_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (N, K) probabilities and (N, K, K) conditional means, of draws of all K means."""
        is_joint = self._size == self.problem.num_arms
        return (self._populations() if is_joint else self._draws()).best_arm_moments()

    def quantile(self, p: np.ndarray | float) -> np.ndarray:
        """Return the (N, K) quantiles of the means."""
        own = self._populations()
        levels = np.broadcast_to(p, self.counts.shape).reshape(len(own.means), -1)
        self._note_shortage(np.any(self._by_lane(own.is_beyond(levels)), axis=1))
        return own.quantile(levels).reshape(self.counts.shape)

    def _answer(self, question: Callable[..., Any], *options: Any) -> Any:
        """Return what populations say of their own arms, (N, K)."""
        own, shape = self._populations(), self.counts.shape
        rows = [np.broadcast_to(each, shape).reshape(len(own.means), -1) for each in options]
        found = np.asarray(question(own, *rows))
        return found.reshape(*found.shape[:-2], *shape)

    def _populations(self) -> WeightedDraws:
        """Return the populations as if each were a lane of D arms."""
        log_weights = self._scheduled(np.arange(len(self._sizes)), self._log_weights)
        return WeightedDraws(self._particles(), log_weights)

    def _taking_part(self) -> np.ndarray:
        """Return (R,) how many particles of each population take part."""
        return self.num_taking_part().repeat(self.problem.num_arms // self._size)

    def _scheduled(self, rows: np.ndarray | slice, log_weights: np.ndarray) -> np.ndarray:
        """Return (R, P) log-weights of some populations, -inf for particles that take no part."""
        if len(self._schedule) == 1:
            return log_weights[:, :-1]
        is_in = np.arange(self._weights.shape[1]) < self._taking_part()[rows, None]
        return np.where(is_in, log_weights[:, :-1], -np.inf)

    def _weigh(self, rows: np.ndarray | slice, log_weights: np.ndarray) -> None:
        """Set the (R, P + 1) log-weights of some populations."""
        if not self._is_cumulative:  # what has ruled out a particle fades, and leaves it ruled out
            log_weights[np.isnan(log_weights)] = -np.inf
        self._log_weights[rows] = log_weights
        weights, self._tops[rows] = relate(self._scheduled(rows, log_weights))
        self._weights[rows] = weights
        self._is_summed = self._is_renewed
        if self._is_renewed:
            self._sum_up(rows, weights)

    def _sum_up(self, rows: np.ndarray | slice, weights: np.ndarray) -> None:
        """Find the effective sizes of some populations, and the logs of what they add up to."""
        total = weights.sum(axis=1)
        self._sizes[rows] = total**2 / np.vecdot(weights, weights)
        self._log_totals[rows] = self._tops[rows] + np.log(total)

    def _summed(self) -> tuple[np.ndarray, np.ndarray]:
        """Return what `_sum_up` finds for all; without renewal, only diagnostics ask for it."""
        if not self._is_summed:
            self._sum_up(slice(None), self._weights)
            self._is_summed = True
        return self._sizes, self._log_totals

    def _log_most(self) -> np.ndarray:
        """Return (R,) log-likelihoods that the best means may give, the fit to noise set aside.

        That fit is half a unit an arm. Infinite where numbers are too coarse to tell means apart.
        Likelihoods are known up to a constant, which is another for all data at once than for their
        parts; two means differ by the same in both, so the likeliest are compared with means that
        are followed.
        """
        reference = self._means[:, -1].reshape(self.counts.shape)
        low, high = self._support.T
        with np.errstate(all="ignore"):  # NaN where the reference rules out the data
            best = np.minimum(np.maximum(self.sums / self.counts, low), high)
            most, least = self.problem.likelihood.log_likelihood(
                np.array([best, reference]), self.counts, self.sums
            )
            gains = np.where(np.abs(most) > LARGEST_LOG, np.inf, most - least) - 0.5
            gains = np.where(self.counts > 0, gains, 0.0)  # data may have left
            return gains.reshape(-1, self._size).sum(axis=1) + self._log_weights[:, -1]

    def _learn_bit(self, arm: int, reward: float) -> None:
        """Take in one Bernoulli reward in a lane alone, where particles never move.

        It does what `_add` does, from log-likelihoods that are kept: a decision takes two thirds
        of the time.
        """
        if (arm, reward) not in self._kept:
            self._kept[arm, reward] = self._gain_of_bits(np.array([arm]), np.array([[reward]]))
        self._log_weights += self._kept[arm, reward]
        self._weights, self._tops = relate(self._scheduled(slice(None), self._log_weights))
        self._is_summed = False

    def _add(
        self,
        rng: Generator,
        cells: np.ndarray,
        fresh: tuple[np.ndarray, np.ndarray],
        before: tuple[np.ndarray, np.ndarray],
    ) -> None:
        """Take in the (C,) new counts and sums of cells, on top of the (N, K) ones of before."""
        counts, sums = fresh[0][:, None], fresh[1][:, None]
        owners = cells // self._size
        rows = np.unique(owners) if np.count_nonzero(owners[1:] == owners[:-1]) else owners
        if not self._is_renewed:
            gain = self._gain(rows, owners, cells, counts, sums)
            self._weigh(rows, self._log_weights[rows] + gain)
            return
        power = np.zeros(len(rows))
        for stages_left in reversed(range(self._num_stages)):
            gain = self._gain(rows, owners, cells, counts, sums) * (1 - power[:, None])
            old, share = self._log_weights[rows], np.ones(len(rows))
            self._weigh(rows, old + gain)
            sizes = self._sizes[rows]
            is_poor, is_wild = sizes < self._least_size, sizes < MILD * self._least_size
            if not stages_left:
                self.lineage.is_capped[rows] |= is_wild
            elif is_wild.any():
                old, gain = old[is_wild], gain[is_wild]
                share[is_wild] = self._affordable_share(old[:, :-1], gain[:, :-1])
                self._weigh(rows[is_wild], old + share[is_wild, None] * gain)
            power += share * (1 - power)
            if is_poor.any():
                self._renew(rng, rows[is_poor], self._data(rows[is_poor], before, power[is_poor]))
            left = share < 1
            if not left.any():
                return
            rows, power = rows[left], power[left]
            is_left = np.isin(owners, rows)
            cells, owners, counts, sums = (x[is_left] for x in (cells, owners, counts, sums))

    def _gain(
        self,
        rows: np.ndarray,
        owners: np.ndarray,
        cells: np.ndarray,
        counts: np.ndarray,
        sums: np.ndarray,
    ) -> np.ndarray:
        """Return (R, P + 1) log-likelihoods of (C, 1) data in cells that populations own.

        One Bernoulli reward a cell takes a third of the time that any data take.
        """
        if type(self.problem.likelihood) is Bernoulli and not np.count_nonzero(counts != 1):
            gain = self._gain_of_bits(cells, sums)
        else:
            gain = self.problem.likelihood.log_likelihood(self._means[cells], counts, sums)
        is_single = len(rows) == len(cells)
        return gain if is_single else np.add.reduceat(gain, owners.searchsorted(rows))

    def _gain_of_bits(self, cells: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Return (C, P + 1) log-likelihoods of one Bernoulli reward a cell, (C, 1)."""
        gain = self._means[cells]
        gain -= sums == 0
        with np.errstate(divide="ignore"):
            np.log(np.abs(gain, out=gain), out=gain)
        return gain

    def _affordable_share(self, old: np.ndarray, gain: np.ndarray) -> np.ndarray:
        """Return (R,) how much of new data each population can take without getting poor.

        Args:
            old: (R, P) log-weights.
            gain: (R, P) log-likelihood of all of the new data.
        """
        low, high = np.full(len(old), float(LEAST_SHARE)), np.zeros(len(old))  # base 2
        share = high
        for _ in range(20):
            weights, _ = normalise(old + np.exp2(share)[:, None] * gain)
            is_fine = np.vecdot(weights, weights) * self._least_size <= 1
            low, high = np.where(is_fine, share, low), np.where(is_fine, high, share)
            share = (low + high) / 2
        return np.exp2(low)

    def _data(
        self, rows: np.ndarray, before: tuple[np.ndarray, np.ndarray], power: np.ndarray
    ) -> Data:
        """Return what populations know that have taken in a part of the news, (R,) powers.

        Log-likelihoods are linear in counts and sums, up to a term without the mean.
        """
        old, new = (
            np.stack(pair).reshape(2, -1, self._size)[:, rows]
            for pair in (before, (self.counts, self.sums))
        )
        arms = (rows[:, None] * self._size + np.arange(self._size)) % self.problem.num_arms
        return Data(arms, *(old + power[:, None] * (new - old)))

    def _renew(self, rng: Generator, rows: np.ndarray, data: Data) -> None:
        """Resample and move some populations."""
        weights, _ = normalise(self._log_weights[rows, :-1])
        chosen = resample(rng, weights)
        particles = np.take_along_axis(self._particles()[rows], chosen[:, :, None], axis=1)
        for move in range(self._num_moves):
            is_along_axes = move % 2 == 0
            particles = sweep(rng, self.problem, particles, data, is_along_axes=is_along_axes)
        self.lineage.descend(rows, chosen, self._log_totals[rows], particles)
        self._particles()[rows] = particles
        reference = self._log_weights[rows, -1:]
        self._weigh(rows, np.hstack([np.zeros(chosen.shape), reference]))


def check_schedule(num_particles: int | Sequence[int], resampling: str) -> list[int]:
    """Return numbers of particles after 0, 1, ... pulls."""
    is_sequence = isinstance(num_particles, Sequence | np.ndarray)
    is_sequence &= not isinstance(num_particles, str | bytes)
    sizes = list(num_particles) if is_sequence else [num_particles]  # type: ignore[arg-type]
    checked = [check_integer("num_particles", size, minimum=1) for size in sizes]
    if max(checked, default=0) > MAX_PARTICLES:
        condition = f"be at most {MAX_PARTICLES}"
        raise ValueError(message("num_particles", condition, max(checked)))
    if not checked or (len(checked) > 1 and resampling != "never"):
        raise ValueError(
            "num_particles must be one number, or a sequence of them where resampling is 'never', "
            f"got {num_particles!r} with {resampling!r}."
        )
    return checked
