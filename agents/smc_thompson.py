"""Thompson sampling from weighted particles: the paper's (its Section 3), and as done today.

The paper draws P particles from the prior, once, and only ever reweights them. As data accumulate
fewer and fewer carry the weight, and the agent ends up certain of an arm for no good reason. What
helps is to *resample* a population whose effective sample size has fallen, and to *move* the copies
by Markov steps that leave the posterior invariant (resample-move, Gilks and Berzuini 2001).

Letters: K arms, N lanes, P particles; G populations a lane, of D-dimensional particles. Where the
prior is independent across arms, so is the posterior, and each arm has a population of its own
(G = K, D = 1), which P particles cover much better than K dimensions; otherwise G = 1, D = K.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agents.base import Agent, random_argmax
from agents.posteriors.particles import (
    RESAMPLING,
    accumulate,
    compare_populations,
    effective_sample_size,
    find_directions,
    normalise,
    resample,
    search,
)
from bandit_gym.checks import check_choice, check_integer, check_real
from bandit_gym.problem import BanditProblem

MOVES = ("none", "random-walk")

STEP = 2.4
"""Standard deviations of a random-walk proposal in those of the population (Gelman et al. 1996)."""

MAX_STAGES = 200
"""Of the bridge over which `warm_start` leads the particles to data that arrive all at once."""


class SMCThompson(Agent):
    """Draw particles in proportion to their likelihood and pull the arm that is best under them.

    Arguments:
        problem: likelihood and prior.
        num_particles: P >= 1. Without resampling also a sequence: entry t is how many of the
            particles take part after t pulls, and the last entry holds from there on. The paper
            gives SMC as many particles as Racing drew samples at the same step.
        resampling: "never" is the paper's; "systematic", "stratified", "residual" and
            "multinomial" renew a population when its effective sample size falls below the
            threshold.
        ess_threshold: share of P, in (0, 1].
        move: "random-walk" follows each resampling with sweeps of Metropolis steps, by turns along
            the principal axes of the population and arm by arm; "none" leaves the copies where they
            are. Without moves, resampling only delays the collapse.
        num_moves: sweeps after a resampling, >= 1.

    Diagnostics: `num_samples` (particles taking part in a lane's decision), `effective_sample_size`
    (of the lane's poorest population), `is_degenerate` (in some population every particle rules out
    the data; it is treated as if all were equally likely).

    References:
        Gopalan, Mannor and Mansour (2014); Chopin (2002); Del Moral, Doucet and Jasra (2006).
    """

    def __init__(
        self,
        problem: BanditProblem,
        *,
        num_particles: int | Sequence[int] = 1000,
        resampling: str = "never",
        ess_threshold: float = 0.5,
        move: str = "none",
        num_moves: int = 3,
    ) -> None:
        super().__init__(problem)
        self.num_particles = num_particles
        self.resampling = check_choice("resampling", resampling, ("never", *RESAMPLING))
        self.ess_threshold = check_real("ess_threshold", ess_threshold, above=0.0, maximum=1.0)
        self.move = check_choice("move", move, MOVES)
        self.num_moves = check_integer("num_moves", num_moves, minimum=1)
        self._schedule = _check_schedule(num_particles, self.resampling)
        self._is_split = resampling != "never" and hasattr(problem.prior, "arm_log_density")

    def _restart(self, mask: np.ndarray) -> None:
        num_arms, num_particles = self.problem.num_arms, int(self._schedule.max())
        groups, size = (num_arms, 1) if self._is_split else (1, num_arms)
        if mask.all():
            shape = (self.num_lanes, groups, num_particles)
            self._particles = np.empty((*shape, size))
            self._log_weights = np.empty(shape)
            self._cumulative = np.empty(shape)
            self._sizes = np.empty(shape[:2])
            self._is_degenerate = np.empty(shape[:2], dtype=bool)
            self._is_stale = np.empty(shape[:2], dtype=bool)
            self._seen_counts, self._seen_sums = np.zeros_like(self.sums), np.zeros_like(self.sums)
        draws = self.problem.prior.sample(self.rng, (int(mask.sum()), num_particles, num_arms))
        split = draws.transpose(0, 2, 1)[..., None] if self._is_split else draws[:, None]
        self._particles[mask] = split
        self._log_weights[mask] = 0.0
        self._is_stale[mask] = True
        self._seen_counts[mask] = self._seen_sums[mask] = 0.0

    def _learn(self, lanes: np.ndarray, actions: np.ndarray, rewards: np.ndarray) -> None:
        groups = actions if self._is_split else np.zeros_like(actions)
        columns = np.zeros_like(actions) if self._is_split else actions
        means = self._particles[lanes, groups, :, columns]
        gain = self.problem.likelihood.log_likelihood(means, 1, rewards[:, None])
        self._log_weights[lanes, groups] += gain
        self._is_stale[lanes, groups] = True
        self._seen_counts[lanes, actions] += 1
        self._seen_sums[lanes, actions] += rewards
        if self.resampling != "never":
            weights, _ = normalise(self._log_weights[lanes, groups])
            is_poor = effective_sample_size(weights) < self._least_size
            self._renew(lanes[is_poor], groups[is_poor])

    @property
    def _least_size(self) -> float:
        return self.ess_threshold * float(self._schedule[0])

    def _absorb(self, counts: np.ndarray, sums: np.ndarray) -> None:
        """Take in (N, K) statistics by stages, each small enough to keep the particles alive."""
        lanes, groups = (rows.ravel() for rows in np.indices(self._log_weights.shape[:2]))
        self._is_stale[:] = True
        for stage in range(MAX_STAGES):
            share, gain = self._find_share(lanes, groups)
            if self.resampling == "never" or stage == MAX_STAGES - 1:
                share = np.ones(len(lanes))
            self._log_weights[lanes, groups] += share[:, None] * gain
            rows = (lanes, groups) if self._is_split else lanes
            part = share if self._is_split else share[:, None]
            self._seen_counts[rows] += part * (self.counts - self._seen_counts)[rows]
            self._seen_sums[rows] += part * (self.sums - self._seen_sums)[rows]
            lanes, groups = lanes[share < 1], groups[share < 1]
            if not lanes.size:
                return
            self._renew(lanes, groups)

    def _find_share(self, lanes: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (R,) how much of its new data each population can take without getting poor.

        Also returns the (R, P) log-likelihood of all of the new data.
        """
        counts, sums = self.counts - self._seen_counts, self.sums - self._seen_sums
        old = self._log_weights[lanes, groups]
        gain = self._log_likelihood(self._particles[lanes, groups], lanes, groups, counts, sums)
        low, share = np.zeros(len(lanes)), np.ones(len(lanes))
        high = share
        for _ in range(30):
            weights, _ = normalise(old + share[:, None] * gain)
            is_fine = effective_sample_size(weights) >= self._least_size
            low, high = np.where(is_fine, share, low), np.where(is_fine, high, share)
            share = (low + high) / 2
        return np.where(low > 0, low, share), gain

    def _renew(self, lanes: np.ndarray, groups: np.ndarray) -> None:
        """Resample and move the given populations."""
        if not lanes.size:
            return
        weights, _ = normalise(self._log_weights[lanes, groups])
        chosen = resample(self.rng, weights, self.resampling)
        particles = np.take_along_axis(self._particles[lanes, groups], chosen[:, :, None], axis=1)
        if self.move == "random-walk":
            for sweep in range(self.num_moves):
                directions = find_directions(particles, is_along_axes=sweep % 2 == 0)
                particles = self._move(particles, lanes, groups, directions)
        self._particles[lanes, groups] = particles
        self._log_weights[lanes, groups] = 0.0

    def _move(
        self, particles: np.ndarray, lanes: np.ndarray, groups: np.ndarray, directions: np.ndarray
    ) -> np.ndarray:
        """Return (R, P, D) particles after one Metropolis step along each of the directions."""
        current = self._log_posterior(particles, lanes, groups)
        for d in range(particles.shape[2]):
            sizes = STEP * self.rng.standard_normal(particles.shape[:2])
            proposed = particles + sizes[..., None] * directions[:, d, None]
            log_density = self._log_posterior(proposed, lanes, groups)
            chance = -self.rng.standard_exponential(particles.shape[:2])
            is_accepted = log_density - current > chance
            particles = np.where(is_accepted[..., None], proposed, particles)
            current = np.where(is_accepted, log_density, current)
        return particles

    def _log_posterior(
        self, particles: np.ndarray, lanes: np.ndarray, groups: np.ndarray
    ) -> np.ndarray:
        """Return (R, P) log posterior densities given the data taken in, up to a constant."""
        prior, likelihood = self.problem.prior, self.problem.likelihood
        is_possible = np.all(likelihood.contains(particles), axis=2)
        possible = self._particles[lanes, groups, :1]  # where a user's density may be asked
        inside = np.where(is_possible[..., None], particles, possible)
        if self._is_split:
            every_arm = np.broadcast_to(inside, (*inside.shape[:2], self.problem.num_arms))
            rows = np.arange(len(groups))
            log_prior = prior.arm_log_density(every_arm)[rows, :, groups]  # type: ignore[attr-defined]
        else:
            log_prior = prior.log_density(inside)
        data = self._log_likelihood(inside, lanes, groups, self._seen_counts, self._seen_sums)
        return np.where(is_possible, log_prior + data, -np.inf)

    def _log_likelihood(
        self,
        particles: np.ndarray,
        lanes: np.ndarray,
        groups: np.ndarray,
        counts: np.ndarray,
        sums: np.ndarray,
    ) -> np.ndarray:
        """Return (R, P) log-likelihoods of (N, K) statistics under (R, P, D) particles."""
        arms = groups[:, None] if self._is_split else np.arange(self.problem.num_arms)[None]
        rows = (lanes[:, None], arms)
        terms = self.problem.likelihood.log_likelihood(
            particles, counts[rows][:, None], sums[rows][:, None]
        )
        return terms.sum(axis=2)

    def _weigh(self, lanes: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (R, P) weights of the given populations, and (R,) whether all were zero."""
        sizes = self._num_taking_part()[lanes, None]
        takes_part = np.arange(self._log_weights.shape[2]) < sizes
        log_weights = np.where(takes_part, self._log_weights[lanes, groups], -np.inf)
        weights, is_degenerate = normalise(log_weights)
        return np.where(is_degenerate[:, None], takes_part / sizes, weights), is_degenerate

    def _num_taking_part(self) -> np.ndarray:
        """Return (N,) how many particles take part in a decision."""
        return self._schedule[np.minimum(self.counts.sum(axis=1), len(self._schedule) - 1)]

    def _refresh(self) -> None:
        """Weigh the populations that have new data; the others keep their cumulative weights."""
        lanes, groups = np.nonzero(self._is_stale)
        if not lanes.size:
            return
        weights, self._is_degenerate[lanes, groups] = self._weigh(lanes, groups)
        self._cumulative[lanes, groups] = accumulate(weights)
        self._sizes[lanes, groups] = effective_sample_size(weights)
        self._is_stale[lanes, groups] = False

    def action_probabilities(self) -> np.ndarray:
        """Return the (N, K) probabilities with which the next `act` pulls each arm.

        They are those of this run, whose particles are fixed: what a single run's law is.
        """
        shape = self._log_weights.shape
        weights, _ = self._weigh(*(rows.ravel() for rows in np.indices(shape[:2])))
        weights = weights.reshape(shape)
        if not self._is_split:
            best = self._particles[:, 0].argmax(axis=2)
            is_best = best[..., None] == np.arange(self.problem.num_arms)
            return np.einsum("np,npk->nk", weights[:, 0], is_best)
        pairs = zip(self._particles[..., 0], weights, strict=True)
        return np.array([compare_populations(means, shares) for means, shares in pairs])

    def _choose(self) -> np.ndarray:
        self._refresh()
        num_lanes, groups, num_particles = self._log_weights.shape
        num_rows = num_lanes * groups
        chosen = search(self._cumulative.reshape(num_rows, -1), self.rng.random(num_rows))
        rows = self._particles.reshape(num_rows, num_particles, -1)
        means = rows[np.arange(num_rows), chosen].reshape(num_lanes, -1)
        self._diagnostics = {
            "num_samples": self._num_taking_part(),
            "effective_sample_size": self._sizes.min(axis=1),
            "is_degenerate": np.any(self._is_degenerate, axis=1, keepdims=True)[:, 0],
        }
        return random_argmax(self.rng, means)


def _check_schedule(num_particles: int | Sequence[int], resampling: str) -> np.ndarray:
    """Return (S,) numbers of particles after 0, 1, ... pulls."""
    is_sequence = isinstance(num_particles, Sequence | np.ndarray)
    sizes = list(num_particles) if is_sequence else [num_particles]  # type: ignore[arg-type]
    checked = [check_integer("num_particles", size, minimum=1) for size in sizes]
    if not checked or (len(checked) > 1 and resampling != "never"):
        raise ValueError(
            "num_particles must be one number, or a sequence of them where resampling is 'never', "
            f"got {num_particles!r} with {resampling!r}."
        )
    return np.array(checked)
