"""Why a decision is flagged: the reasons for which an agent doubts its own posterior."""

from enum import IntFlag, auto
from typing import Any


class Doubt(IntFlag):
    """Why a decision may not follow the posterior, and what to do; 0 is no doubt.

    RACE_CAPPED: the race drew all the samples it may before its stop was reached. Raise
        `max_samples`.
    LOW_COVERAGE: the proposal misses draws that would change the answer. Take
        `proposal="matched"`.
    FEW_EFFECTIVE_SAMPLES: a few weights outweigh all others. Ask for more samples or particles;
        races may take `proposal="matched"`, and `SMCThompson` in place of `SMCThompson.paper`.
    BEYOND_TABLE: a table is too coarse for the posterior, or a mean or deviation that was asked of
        it rests on tails that it does not hold. Check the prior, or compare with another agent.
    CHAINS_APART: a Markov chain has not mixed, or may have missed a mode. Compare it with
        `SMCThompson`.
    PARTICLES_COLLAPSED: the particles rest on a few distinct values. Take more of them, or let
        them be resampled and moved, as `SMCThompson` does by default.
    ILL_CONDITIONED: features so nearly determine each other that rounding decides what is known of
        their coefficients. Centre them, or leave some out.

    `agent.diagnostics()["doubts"]` is one of them, or a sum, for a single run. For N lanes it is an
    (N,) array of numbers, and `Doubt(number)` shows which they are. A decision is flagged,
    `is_unreliable`, where it is not 0.
    """

    RACE_CAPPED = auto()
    LOW_COVERAGE = auto()
    FEW_EFFECTIVE_SAMPLES = auto()
    BEYOND_TABLE = auto()
    CHAINS_APART = auto()
    PARTICLES_COLLAPSED = auto()
    ILL_CONDITIONED = auto()

    @classmethod
    def _missing_(cls, value: Any) -> Any:
        return super()._missing_(int(value))  # numbers of NumPy too

    @property
    def words(self) -> str:
        """The reasons in words, such as "race capped, low coverage"; "" for no doubt."""
        return ", ".join(reason.name.lower().replace("_", " ") for reason in self)  # type: ignore[union-attr]
