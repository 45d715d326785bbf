"""Why a decision is flagged: the reasons for which an agent doubts its own posterior."""

from enum import IntFlag, auto


class Doubt(IntFlag):
    """Reasons for which a decision may not follow the posterior; 0 is no doubt.

    `agent.diagnostics()["doubts"]` is an array of them, one number a lane: `Doubt(number)` shows
    which they are. A decision is flagged, `is_unreliable`, where it is not 0.
    """

    RACE_CAPPED = auto()
    """The race drew all the samples it may before its stop was reached; raise `max_samples`."""
    PROPOSAL_BLIND = auto()
    """The proposal misses draws that would change the answer; take `proposal="matched"`."""
    FEW_EFFECTIVE_SAMPLES = auto()
    """A few weights outweigh all others; ask for more samples, or take `proposal="matched"`."""
    BEYOND_TABLE = auto()
    """A table of the posterior is too coarse for it; ask for more points, or look at the prior."""
    CHAINS_APART = auto()
    """A Markov chain has not mixed, or may have missed a camp; compare it with `SMCThompson`."""
    PARTICLES_COLLAPSED = auto()
    """The particles rest on a few distinct values; take more of them, or resample and move."""

    @property
    def words(self) -> str:
        """The reasons in words, such as "race capped, proposal blind"; "" for no doubt."""
        return ", ".join(reason.name.lower().replace("_", " ") for reason in self)  # type: ignore[union-attr]
