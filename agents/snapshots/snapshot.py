"""The posterior of an agent at one time, to read, draw from and compute with.

It knows nothing of how posteriors are held: it asks one, of `agents.posteriors.base`, which follows
the statistics of the snapshot when it is first asked itself.

Notation: K arms, N lanes.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.random import Generator

from agents.snapshots.display import as_html, as_text, draw_posterior
from bandit_gym.checks import check_integer, check_numbers, check_probabilities, check_real, message
from bandit_gym.checks.doubts import Doubt
from bandit_gym.numerics.streams import make_generator

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MAX_DRAWN_VALUES = 10**9
"""Means of all draws together: 8 GB."""


class PosteriorSnapshot:
    """What an agent knew of the means; what it observes later does not change it.

    Answers have the shape (N, K) for N lanes and (K,) for a single run, with more axes before where
    that is said. Where they are not computed from the distributions themselves, `source` says from
    what.

    Attributes:
        problem: likelihood and prior.
        source: what answers are taken from, in words.
        counts: (N, K) pulls of each arm.
        sums: (N, K) total reward of each arm, in reward units.
        num_envs: N, or None for a single run, of which N is 1.
    """

    noun: ClassVar[str] = "arm"
    has_pulls: ClassVar[bool] = True  # of each arm in `counts`

    def __init__(self, agent: Any, posterior: Any) -> None:
        self.problem = agent.problem
        self.num_envs = agent.num_envs
        self._evidence = agent.evidence.copy_totals()
        self.counts, self.sums = self._evidence.counts, self._evidence.sums
        self.source = posterior.source
        self._posterior, self._is_updated = (
            posterior.fork() if posterior.keeps_state else posterior,
            False,
        )
        self._rng = (
            copy.deepcopy(agent.rng) if posterior.keeps_state else make_generator("snapshot")
        )

    def update_posterior(self) -> Any:
        """Return the belief of the means."""
        return self._bring_to_data()

    def _bring_to_data(self) -> Any:
        """Return the posterior, brought to the data when first needed.

        Particles and chains follow them as the agent itself will, with a copy of its generator.
        """
        if not self._is_updated:
            self._posterior = self._posterior.fork()
            self._posterior.update(self._rng, self._evidence)
            self._is_updated = True
        return self._posterior

    def __getstate__(self) -> dict[str, Any]:
        """Pickle and copy what is known, not what an agent goes on with.

        What follows from the statistics is found again from these: tables are no part of pickles.
        """
        posterior = self._bring_to_data()
        return self.__dict__ | {"_posterior": posterior, "_is_updated": posterior.keeps_state}

    def mean(self) -> np.ndarray:
        """Return the expectations; inf where they are, as for an arm without a proper posterior."""
        return self._shape_answers(self.update_posterior().mean())

    def std(self) -> np.ndarray:
        """Return the standard deviations; inf where they are."""
        return self._shape_answers(self.update_posterior().std())

    def quantile(self, p: Any) -> np.ndarray:
        """Return quantiles.

        Args:
            p: probabilities in (0, 1), of any shape, which comes before that of the arms.
        """
        levels = check_numbers("p", p)
        if not ((levels > 0) & (levels < 1)).all():
            raise ValueError(message("p", "be above 0 and below 1", p))
        posterior = self.update_posterior()
        found = np.array([posterior.quantile(level) for level in levels.ravel().tolist()])
        return self._shape_answers(found).reshape(*levels.shape, *self._shape)

    def interval(self, confidence: float = 0.95) -> np.ndarray:
        """Return the lower and upper ends of central intervals, one after the other.

        Args:
            confidence: probability of the interval, in (0, 1).
        """
        tail = (1 - check_real("confidence", confidence, above=0.0, below=1.0)) / 2
        return self.quantile([tail, 1 - tail])

    def density(self, x: Any) -> np.ndarray:
        """Return densities of the means.

        Args:
            x: means, of any shape, which comes before that of the arms.

        Raises:
            TypeError: if there are only draws, as of particles and of races.
        """
        points = check_numbers("x", x)
        found = self.update_posterior().density(points.ravel())
        return self._shape_answers(found).reshape(*points.shape, *self._shape)

    def best_arm_probabilities(self) -> np.ndarray:
        """Return the probabilities that each arm has the largest mean."""
        posterior = self.update_posterior()
        name = f"{type(posterior).__name__}.best_arm_probabilities"
        return self._shape_answers(check_probabilities(name, posterior.best_arm_probabilities()))

    def best_arm_error(self) -> np.ndarray:
        """Return how far off they may be by chance: twice the total variation to expect.

        It is 0 where they are computed from the distributions themselves, to the accuracy of those.
        """
        return self._drop_lane_axis(self.update_posterior().best_arm_error())

    def expected_loss(self) -> np.ndarray:
        """Return the expected regret of stopping with each arm: E[max mean] - E[its mean].

        NaN where an arm has no proper posterior. It is in reward units per decision: to stop is
        right once the least is below what another pull costs.
        """
        return self._shape_answers(self.update_posterior().expected_loss())

    def effective_sample_size(self) -> np.ndarray:
        """Return how many independent draws the answers are worth; inf if they are exact."""
        return self._drop_lane_axis(self.update_posterior().effective_sample_size())

    @property
    def doubts(self) -> Any:
        """Why answers so far may be wrong: a `bandit_gym.checks.doubts.Doubt`, or (N,) numbers."""
        found = self._drop_lane_axis(self.update_posterior().doubts())
        return Doubt(int(found)) if self.num_envs is None else found

    def sample(self, size: int, *, seed: int | None = None) -> np.ndarray:
        """Return draws of the means, (size, N, K) or (size, K).

        Args:
            size: how many; of a Markov chain, one after the other.
            seed: of the draws; None for fresh entropy.
        """
        return self._draw(size, _make_seeded_generator(seed))

    def predictive(self, size: int, *, seed: int | None = None) -> np.ndarray:
        """Return draws of the next reward of each arm, (size, N, K) or (size, K).

        Args:
            size: how many, each with means of its own.
            seed: of the draws; None for fresh entropy.

        Raises:
            ValueError: if an arm has no proper posterior.
        """
        rng = _make_seeded_generator(seed)
        means = self._draw(size, rng)
        if np.isinf(means).any():
            arm = int(np.argwhere(np.isinf(means))[0, -1])
            raise ValueError(f"predictive must have proper posteriors, got none of arm {arm}.")
        return np.asarray(self.problem.likelihood.sample(means, rng.random(means.shape)))

    def plot(self, ax: Axes | None = None, *, lane: int = 0) -> Axes:
        """Draw the densities of the arms or, of draws and of many arms, intervals.

        Args:
            ax: where; None makes a figure.
            lane: which lane.
        """
        lane = check_integer("lane", lane, minimum=0, maximum=len(self.counts) - 1)
        return draw_posterior(self, ax, lane)

    def __repr__(self) -> str:
        """Show the arms of the first lane as a small table."""
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)

    @property
    def num_arms(self) -> int:
        """K."""
        return int(self.counts.shape[1])

    @property
    def _shape(self) -> tuple[int, ...]:
        return self.counts.shape if self.num_envs is not None else self.counts.shape[1:]

    def _shape_answers(self, found: np.ndarray) -> np.ndarray:
        """Return (..., N, K) answers without the axis of lanes, for a single run."""
        return found[..., 0, :] if self.num_envs is None else found

    def _drop_lane_axis(self, found: np.ndarray) -> np.ndarray:
        return found[0] if self.num_envs is None else found

    def _draw(self, size: int, rng: Generator) -> np.ndarray:
        max_size = MAX_DRAWN_VALUES // self.counts.size
        size, posterior = (
            check_integer("size", size, minimum=1, maximum=max_size),
            self.update_posterior(),
        )
        return self._shape_answers(
            (posterior.fork() if posterior.keeps_state else posterior).sample_many(rng, size)
        )


class ContextualSnapshot(PosteriorSnapshot):
    """What an agent knew of the coefficients of features, and of the means that follow from them.

    Attributes:
        features: (N, K, d) of the arms whose means are asked for; None if only coefficients are.
        counts: (N, n) rewards of each distinct row of features.
        sums: (N, n) their totals, in reward units.
    """

    has_pulls = False

    def __init__(self, agent: Any, posterior: Any, features: np.ndarray | None) -> None:
        super().__init__(agent, posterior)
        self.features = features
        self._belief: Any = None

    @property
    def coefficients(self) -> PosteriorSnapshot:
        """What was known of the (N, d) coefficients, in place of the (N, K) means."""
        twin = copy.copy(self)
        twin.__class__ = CoefficientSnapshot
        num_lanes, num_features = len(self.counts), self.problem.num_features
        twin.features = np.tile(np.eye(num_features), (num_lanes, 1, 1))
        twin._belief = self._bring_to_data().predict(twin.features).coefficients
        return twin

    def __repr__(self) -> str:
        """Show the arms of the first lane, or the coefficients, as a small table."""
        return as_text(self.coefficients if self.features is None else self)

    def _repr_html_(self) -> str:
        return as_html(self.coefficients if self.features is None else self)

    @property
    def num_arms(self) -> int:
        """K, of the features."""
        return self._asked().shape[1]

    def update_posterior(self) -> Any:
        """Return the belief of the means under the features."""
        if self._belief is None:
            self._belief = self._bring_to_data().predict(self._asked())
            self.source = self._belief.source
        return self._belief

    def _asked(self) -> np.ndarray:
        if self.features is None:
            condition = "be given to posterior where more than coefficients is asked of it"
            raise TypeError(message("observation", condition, None))
        return self.features

    @property
    def _shape(self) -> tuple[int, ...]:
        return self._asked().shape[:2] if self.num_envs is not None else (self.num_arms,)


class CoefficientSnapshot(ContextualSnapshot):
    """What an agent knew of the coefficients, which stand where others have means of arms."""

    noun = "coefficient"


def _make_seeded_generator(seed: int | None) -> Generator:
    return np.random.default_rng(None if seed is None else check_integer("seed", seed, minimum=0))
