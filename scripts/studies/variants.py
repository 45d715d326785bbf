"""What the paper's text leaves open, as agents; and when a claim is decided under each.

Notation: C clusters (replications, or problems where each has a prior of its own).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agents import RacingThompson
from agents.racing.proposals import ConjugateProposal
from agents.racing.races import Proposal, add_statistics
from agents.racing.stopping import Paper, threshold_function
from bandit_gym.problem import BanditProblem
from scripts.studies.claims import ClaimMeasure
from scripts.studies.study import UNDECIDED, StudyTask

RACING = "Racing"
"""Label of the paper's race under the variant in question."""


class RacingByDraws(RacingThompson):
    """The race whose m is the number of its draws, in the averages and in the threshold."""

    def __init__(self, problem: BanditProblem, **options: Any) -> None:
        super().__init__(problem, **options)
        stop = self._posterior.stopping
        assert isinstance(stop, Paper)
        m = np.arange(1.0, stop.max_samples + 1)  # line 12 for averages over m draws, not m + 1
        gaps = 2 * threshold_function(stop.threshold, m, stop.delta) - stop.sigma
        gaps = np.append(np.inf, gaps * m / (m + 1))
        self._posterior.thresholds = self._posterior.thresholds._replace(gaps=gaps)


class RacingBySupremum(RacingThompson):
    """The race whose values f_i are divided by the largest that any mu can have.

    Theorem 1 then holds to the letter, at a cost that makes this an instrument and no agent.
    """

    def __init__(self, problem: BanditProblem, **options: Any) -> None:
        super().__init__(problem, **options)
        has_fallback = not self._posterior.pulls_first
        bound = find_log_supremum(self._posterior.proposal, has_fallback=has_fallback)
        thresholds = self._posterior.thresholds._replace(log_weight_bound=bound)
        self._posterior.thresholds = thresholds


def find_log_supremum(proposal: Proposal, *, has_fallback: bool) -> float:
    """Return the log of the supremum of a proposal's weights.

    Args:
        proposal: q.
        has_fallback: whether arms that are missing are raced too, by what stands in for them.

    Raises:
        ValueError: if it is unknown or infinite.
    """
    if proposal.posterior is not None:
        return 0.0
    if not isinstance(proposal, ConjugateProposal) or proposal.natural_parameters is None:
        raise ValueError(
            "problem.prior must offer natural_parameters, for the supremum of its weights, got "
            f"{proposal.problem.prior!r}."
        )
    kinds = proposal.coefficients if has_fallback else proposal.coefficients[:1]
    return sum(
        max(
            _log_supremum_of_arm(proposal.natural_parameters[0][0][arm] - kind[arm], *ends)
            for kind in kinds
        )
        for arm, ends in enumerate(proposal.centre(proposal.problem.arm_support()))
    )


def _log_supremum_of_arm(coefficients: np.ndarray, low: float, high: float) -> float:
    """Return the maximum of c_0 log x + c_1 log(1 - x) + c_2 x + c_3 x^2 + c_4 / x on (low, high).

    The stationary points are roots of a polynomial: the derivative times x^2 (1 - x).
    """
    if _is_unbounded(coefficients, low, high):
        raise ValueError(
            "problem.prior must be such that the weight pi / q_0 is bounded, for its supremum, got "
            f"coefficients {coefficients.tolist()}."
        )
    c0, c1, c2, c3, c4 = coefficients
    x, one_minus_x = np.polynomial.Polynomial([0, 1]), np.polynomial.Polynomial([1, -1])
    slope = (c0 * x + c2 * x**2 + 2 * c3 * x**3 - c4) * one_minus_x - c1 * x**2
    roots = slope.trim().roots() if any(coefficients) else np.array([])
    stationary = roots.real[(abs(roots.imag) < 1e-9) & (roots.real > low) & (roots.real < high)]
    margin = 1e-12 * min(high - low, 1e9)
    points = np.array([*stationary, max(low, -1e9) + margin, min(high, 1e9) - margin])
    return float(add_statistics(coefficients[None, None], points[None, None]).max())


def _is_unbounded(coefficients: np.ndarray, low: float, high: float) -> bool:
    """Say whether that function has no maximum, by the term that grows fastest at each end."""
    c0, c1, c2, c3, c4 = np.round(coefficients, 9)  # differences of parameters that may be equal
    fastest_at_end = (low == 0.0, c4, -c0), (high == 1.0, -c1), (high == np.inf, c3, c2, c0)
    return any(is_open and next(filter(None, terms), 0.0) > 0 for is_open, *terms in fastest_at_end)


# -- When a claim is decided --------------------------------------------------------------------


class VariantTask(NamedTuple):
    """A variant at its scale; the main one has larger sizes and several looks."""

    task: StudyTask
    variant: str

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the study's file says."""
        return self.task.settings

    @property
    def is_main(self) -> bool:
        """Whether the page's answers are of this variant."""
        return self.variant == str(self.settings["main"])

    @property
    def has_levels(self) -> bool:
        """Whether the agent is given delta and sigma, which Table 2 and Theorem 1 vary."""
        return "threshold" in self.settings["variants"][self.variant]

    def make_entry(self, delta: float = 0.1, sigma: float = 0.1) -> dict[str, Any]:
        """Return the agent as an experiment names it."""
        levels = {"delta": delta, "sigma": sigma} if self.has_levels else {}
        return {"label": RACING} | levels | self.settings["variants"][self.variant]

    @property
    def num_cells(self) -> int:
        """How many cells chance may lead astray, which share the level."""
        settings = self.settings
        in_figures = sum(len(figure["claims"]) for figure in settings["figures"].values())
        in_table_2 = 2 * len(settings["deltas"]) * len(settings["sigmas"]) + 4
        return in_figures + self.has_levels * (in_table_2 + self.task.size("problems"))

    @property
    def looks(self) -> Sequence[float]:
        """The shares of the sizes after which claims are judged, the last of which is 1."""
        return self.settings["looks"] if self.is_main else [1.0]  # type: ignore[no-any-return]

    @property
    def cell_level(self) -> float:
        """The level of a cell at a look."""
        return float(self.settings["level"] / (self.num_cells * len(self.looks)))

    def size(self, name: str, look: float = 1.0) -> int:
        """Return a size of this variant at a look."""
        full = self.task.size(name if self.is_main else f"{name}_others")
        return max(4, round(look * full))

    def decide(self, measure: Callable[[float], ClaimMeasure]) -> dict[str, Any]:
        """Play more and more until a claim is decided, or to the last look."""
        for look in self.looks:
            found = measure(look)
            word = found.verdict(self.cell_level)
            if word != UNDECIDED:
                break
        estimate, *ends = found.interval(self.cell_level)
        limits = (float(np.mean(each)) for each in (found.low, found.high))
        cell = {"verdict": word, "estimate": estimate, "ends": finite(ends)}
        cell |= {"count": len(found.values), "look": look, "limits": finite(limits)}
        if word == UNDECIDED:
            (cell["needed"],) = finite([np.ceil(found.num_clusters_needed(self.cell_level))])
        return cell


def finite(numbers: Iterable[float]) -> list[float | None]:
    """Return numbers as JSON can hold them: None for what is infinite."""
    return [each if math.isfinite(each) else None for each in numbers]
