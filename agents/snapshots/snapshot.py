"""The posterior of an agent at one time, to read, draw from and compute with.

It knows nothing of how posteriors are held: it asks a copy of the agent's, of
`agents.posteriors.base`, which has been brought to the data.

Notation: K arms, N lanes.
"""

from __future__ import annotations

import copy
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from agents.base.evidence import view_read_only
from agents.base.threads import ThreadSafe, atomic
from bandit_gym.checks import (
    check_integer,
    check_numbers,
    check_object,
    check_probabilities,
    check_real,
    check_returned,
    check_seed,
    message,
)
from bandit_gym.doubts import Doubt
from bandit_gym.problem import ContextualProblem
from bandit_gym.styles import COLOURS, line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


MAX_DRAWN_VALUES = 10**9
"""Means of all draws together: 8 GB."""


class PosteriorSnapshot(ThreadSafe):
    """What an agent knew of the means; what it observes later does not change it.

    Answers have the shape (N, K) for N lanes and (K,) for a single run, with more axes before where
    that is said. Where they are not computed from the distributions themselves, `source` says from
    what. Where arms have features, means are those under the features that are asked for.

    Threads may share it: each question is one step.

    Attributes:
        problem: likelihood and prior.
        source: what answers are taken from, in words.
        features: (N, K, d) of the arms whose means are asked for; None if arms have none, or if
            only `coefficients` are asked for.
        counts: (N, K) pulls of each arm; with features, (N, n) of each distinct row of these.
        sums: (N, K) total reward of each arm, in reward units; with features, as `counts`.
        num_arms: K, or d of `coefficients`.
        num_envs: N, or None for a single run, of which N is 1.
        is_compacted: whether a summary stands for more rewards than counts have.
    """

    noun = "arm"  # what an answer is about
    _belief: Any = None  # at the features, if these are known
    _coefficients: PosteriorSnapshot | None = None

    def __init__(self, agent: Any, features: np.ndarray | None = None) -> None:
        self.problem, self.num_envs, self.features = agent.problem, agent.num_envs, features
        self.num_arms = int(self.problem.num_arms if features is None else features.shape[1])
        evidence = copy.deepcopy(agent.evidence)
        self.counts, self.sums = view_read_only(evidence.counts), view_read_only(evidence.sums)
        self.is_compacted = getattr(evidence, "summary", None) is not None
        self.has_pulls = not isinstance(self.problem, ContextualProblem)  # of each arm in `counts`
        self._posterior = agent._posterior.fork()
        # Particles and chains follow the data as the agent itself will.
        self._posterior.update(copy.deepcopy(agent.rng), evidence)
        if self.has_pulls or features is not None:
            self._belief = self._posterior.predict(features)
        self.source = (self._belief or self._posterior).source

    @property
    def belief(self) -> Any:
        """What answers, of `agents.posteriors.base`."""
        if self._belief is None:
            condition = "be given to posterior where more than coefficients is asked of it"
            raise TypeError(message("observation", condition, None))
        return self._belief

    @property
    @atomic
    def coefficients(self) -> PosteriorSnapshot:
        """What was known of the (N, d) coefficients of features, in place of the (N, K) means."""
        if self.has_pulls:
            raise AttributeError("coefficients must be asked of arms with features, got none.")
        if self._coefficients is None:  # another one would forget the doubts of the first
            twin = self._copy_shallow()
            twin.num_arms, twin.noun = self.problem.num_features, "coefficient"
            twin.features = np.tile(np.eye(twin.num_arms), (len(self.counts), 1, 1))
            twin._belief = self._posterior.predict(twin.features).coefficients
            self._coefficients = twin
        return self._coefficients

    def mean(self) -> np.ndarray:
        """Return the expectations; inf where they are, as for an arm without a proper posterior."""
        return self._ask("mean")

    def std(self) -> np.ndarray:
        """Return the standard deviations; inf where they are."""
        return self._ask("std")

    def quantile(self, p: Any) -> np.ndarray:
        """Return quantiles.

        Args:
            p: probabilities in (0, 1), of any shape, which comes before that of the arms.
        """
        levels = check_numbers("p", p)
        if not ((levels > 0) & (levels < 1)).all():
            raise ValueError(message("p", "be above 0 and below 1", p))
        answers = [self._ask("quantile", level) for level in levels.ravel().tolist()]
        return np.reshape(answers, (*levels.shape, *self._shape))

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
        answers = self._ask("density", points.ravel(), num=(points.size,))
        return answers.reshape(*points.shape, *self._shape)

    def best_arm_probabilities(self) -> np.ndarray:
        """Return the probabilities that each arm has the largest mean."""
        answers = np.atleast_2d(self._ask("best_arm_probabilities"))
        name = f"{type(self.belief).__name__}.best_arm_probabilities"
        return check_probabilities(name, answers, answers.shape).reshape(self._shape)

    def best_arm_error(self) -> np.ndarray:
        """Return how far off they may be by chance: twice the total variation to expect.

        It is 0 where they are computed from the distributions themselves, to the accuracy of those.
        """
        return self._ask("best_arm_error", of_arms=False)

    def expected_loss(self) -> np.ndarray:
        """Return the expected regret of stopping with each arm: E[max mean] - E[its mean].

        NaN where an arm has no proper posterior. It is in reward units per decision: to stop is
        right once the least is below what another pull costs.
        """
        return self._ask("expected_loss")

    def effective_sample_size(self) -> np.ndarray:
        """Return how many independent draws the answers are worth; inf if they are exact."""
        return self._ask("effective_sample_size", of_arms=False)

    @property
    def doubts(self) -> Any:
        """Why answers so far may be wrong: a `bandit_gym.doubts.Doubt`, or (N,) numbers."""
        doubts = self._ask("doubts", of_arms=False)
        return Doubt(int(doubts)) if self.num_envs is None else doubts

    def sample(self, size: int, *, seed: int | None = None) -> np.ndarray:
        """Return draws of the means, (size, N, K) or (size, K).

        Args:
            size: how many; of a Markov chain, one after the other.
            seed: of the draws; None for fresh entropy.
        """
        return self._draw(size, seed)[0]

    def predictive(self, size: int, *, seed: int | None = None) -> np.ndarray:
        """Return draws of the next reward of each arm, (size, N, K) or (size, K).

        Args:
            size: how many, each with means of its own.
            seed: of the draws; None for fresh entropy.

        Raises:
            TypeError: if it is asked of coefficients.
            ValueError: if an arm has no proper posterior.
        """
        if self.noun != "arm":
            raise TypeError(message("predictive", "be asked of arms", f"{self.noun}s"))
        needs_squares = self.problem.likelihood.needs_squares
        drawn, rng = self._draw(size, seed, has_stds=needs_squares)
        means, *stds = drawn if needs_squares else [drawn]
        if np.isinf(means).any():
            arm = int(np.argwhere(np.isinf(means))[0, -1])
            raise ValueError(f"predictive must have proper posteriors, got none of arm {arm}.")
        return np.asarray(self.problem.likelihood.sample(means, rng.random(means.shape), *stds))

    @atomic
    def plot(self, ax: Axes | None = None, *, lane: int = 0) -> Axes:
        """Draw the densities of the arms or, of draws and of many arms, intervals.

        Args:
            ax: where; None makes a figure.
            lane: which lane.
        """
        from matplotlib import axes, pyplot

        belief, names = self.belief, [f"{self.noun} {arm}" for arm in range(self.num_arms)]
        lane = check_integer("lane", lane, minimum=0, maximum=len(self.counts) - 1)
        if ax is None:
            height = min(max(4.8, HEIGHT_PER_ARM * self.num_arms), MAX_HEIGHT)
            ax = pyplot.subplots(figsize=(6.4, height), layout="constrained")[1]
        check_object("ax", ax, axes.Axes, "leave it out for a figure of its own")
        labels = names
        if self.has_pulls:
            labels = [f"{names[arm]}, {count} pulls" for arm, count in enumerate(self.counts[lane])]
        support = self.problem.likelihood.support
        if self.num_arms > MAX_CURVES or not draw_densities(belief, lane, support, labels, ax):
            draw_intervals(belief, lane, names, ax)
        ax.set_xlabel("mean reward" if self.noun == "arm" else self.noun)
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def __repr__(self) -> str:
        """Show the arms of the first lane, or the coefficients, as a small table."""
        title, table, omitted = self._tabulate()
        return "\n".join([title, table.to_string(index=False), *omitted])

    def _repr_html_(self) -> str:
        title, table, omitted = self._tabulate()
        lines = "".join(f"<p>{escape(line)}</p>" for line in [title, *omitted])
        return lines + table.to_html(index=False, border=0)

    @atomic
    def _tabulate(self) -> tuple[str, DataFrame, list[str]]:
        """Return what is shown of the first lane: title, table, and how many rows are left out."""
        shown = self if self._belief is not None else self.coefficients
        table = make_table(shown)  # before the title, which shows its doubts
        left, which = shown.num_arms - MAX_TABLE_ROWS, " less likely to be the best"
        omitted = f"and {left} {shown.noun}s{which if shown.noun == 'arm' else ''}"
        return make_title(shown), table, [omitted] if left > 0 else []

    @property
    def _shape(self) -> tuple[int, ...]:
        """The shape of an answer: (N, K), or (K,) for a single run."""
        return (self.num_arms,) if self.num_envs is None else (self.num_envs, self.num_arms)

    @atomic
    def _ask(
        self, question: str, *options: Any, num: tuple[int, ...] = (), of_arms: bool = True
    ) -> np.ndarray:
        """Return (*num, N, K) answers of the belief, or (N,); a single run has no axis of lanes.

        A belief that its own draws move is asked by a copy.
        """
        belief = self.belief.fork() if num and self.belief.keeps_state else self.belief
        shape = (*num, len(self.counts), self.num_arms) if of_arms else (len(self.counts),)
        name = f"{type(belief).__name__}.{question}"
        answers = check_returned(name, getattr(belief, question)(*options), shape).copy()
        if self.num_envs is None:
            return answers[..., 0, :] if of_arms else answers[0]
        return answers

    def _draw(
        self, size: int, seed: int | None, has_stds: bool = False
    ) -> tuple[np.ndarray, Generator]:
        """Return draws of the means, or of them and deviations, and the generator after that."""
        rng = np.random.default_rng(check_seed("seed", seed))
        max_size = MAX_DRAWN_VALUES // (len(self.counts) * self.num_arms)
        size = check_integer("size", size, minimum=1, maximum=max_size)
        question, num = ("sample_with_stds", (2, size)) if has_stds else ("sample_many", (size,))
        return self._ask(question, rng, size, num=num), rng


MAX_CURVES = 10
"""Arms beyond which densities would hide each other."""

NUM_POINTS = 400
HEIGHT_PER_ARM, MAX_HEIGHT = 0.2, 40.0
"""Inches of a separate figure."""

DENSITY_LEVELS = (0.002, 0.998)
"""Levels between which densities are drawn, and half as far beyond them as means are possible."""

INTERVAL_LEVELS = (0.025, 0.975)
"""Levels of the ends of intervals in figures and tables."""

MAX_TABLE_ROWS = 20
"""Of more arms, those most likely to be the best are shown."""


def draw_densities(
    belief: Any, lane: int, support: tuple[float, float], labels: list[str], ax: Axes
) -> bool:
    """Draw a lane's densities, and say whether there are any: of draws there are none."""
    low, high = (belief.quantile(level)[lane] for level in DENSITY_LEVELS)
    first, last = low.min(), high.max()
    if not np.isfinite([first, last]).all():
        return False
    margin = (last - first) / 2
    x = np.linspace(max(first - margin, support[0]), min(last + margin, support[1]), NUM_POINTS)
    try:
        densities = belief.density(x)[:, lane]
    except TypeError:
        return False
    for arm, label in enumerate(labels):
        ax.plot(x, densities[:, arm], label=label, **line_style(arm).line)
    ax.set(xlim=(x[0], x[-1]), ylim=(0, None), ylabel="posterior density")
    ax.legend()
    return True


def draw_intervals(belief: Any, lane: int, names: list[str], ax: Axes) -> None:
    """Draw a lane's means and intervals, sorted by mean."""
    low, high = (belief.quantile(level)[lane] for level in INTERVAL_LEVELS)
    mean = belief.mean()[lane]
    order, positions = np.argsort(mean, kind="stable"), np.arange(len(names))
    ax.hlines(positions, low[order], high[order], color=COLOURS[0])
    ax.plot(mean[order], positions, "o", color=COLOURS[0])
    ax.set_yticks(positions, np.array(names)[order])
    ax.set_title("posterior means and 95 % intervals")


def make_title(snapshot: PosteriorSnapshot) -> str:
    """Return the title: how many arms and pulls, and the source of the answers."""
    pulls, belief = int(snapshot.counts[0].sum()), snapshot.belief
    after = f"{pulls} pull" if pulls == 1 else f"{pulls} pulls"
    after += " and a summary of more" if snapshot.is_compacted else ""
    title = f"Posterior of {snapshot.num_arms} {snapshot.noun}s after {after}"
    title += "" if snapshot.num_envs is None else f", lane 0 of {len(snapshot.counts)}"
    title += f", from {snapshot.source}"
    size = belief.effective_sample_size()[0]
    if np.isfinite(size) and snapshot.noun == "arm":
        title += f", worth {size:,.0f}: P(best) within {belief.best_arm_error()[0]:.2g}"
    words = Doubt(belief.doubts()[0]).words
    return title + (f"; doubted: {words}" if words else "")


def make_table(snapshot: PosteriorSnapshot) -> DataFrame:
    """Return the first lane's arms, or coefficients, each as the words of a row."""
    from pandas import DataFrame

    belief = snapshot.belief
    low, high = (belief.quantile(level)[0] for level in INTERVAL_LEVELS)
    table = DataFrame({snapshot.noun: range(snapshot.num_arms)})
    if snapshot.has_pulls:
        table["pulls"] = [f"{n:.4g}" if n % 1 else f"{n:.0f}" for n in snapshot.counts[0]]
    table["mean"] = [f"{mean:.4g}" for mean in belief.mean()[0]]
    table["95 %"] = [f"[{ends[0]:.4g}, {ends[1]:.4g}]" for ends in zip(low, high, strict=True)]
    if snapshot.noun != "arm":
        return table[:MAX_TABLE_ROWS]
    best = belief.best_arm_probabilities()[0]
    table["P(best)"] = [f"{probability:.3f}" for probability in best]
    return table.iloc[np.sort(np.argsort(-best, kind="stable")[:MAX_TABLE_ROWS])]
