"""What wrappers ask of a world, whether it has one lane or many: its streams, and new means."""

from bandit_gym.envs.dynamics import shortfalls
from bandit_gym.numerics.streams import LaneStreams
from bandit_gym.problem import BanditProblem
from bandit_gym.typing import BoolArray, FloatArray


class Changeable:
    """A world of N lanes, one for a single environment, whose means and arms may be changed."""

    problem: BanditProblem
    _streams: LaneStreams
    _means: FloatArray  # (N, K)
    _shortfalls: FloatArray  # (N, K)
    _rivals: BoolArray | None = None  # (N, K), where a wrapper takes arms away

    @property
    def streams(self) -> LaneStreams:
        """The numbers of the lanes' episodes, for wrappers that draw some too."""
        return self._streams

    @property
    def means(self) -> FloatArray:
        """(N, K) true means now; a copy."""
        return self._means.copy()

    def change(
        self, *, means: FloatArray | None = None, available: BoolArray | None = None
    ) -> None:
        """Change the (N, K) means, or the (N, K) arms that regret compares with; for wrappers."""
        self._means = self._means if means is None else means.copy()
        self._rivals = self._rivals if available is None else available.copy()
        self._shortfalls = shortfalls(self._means, self._rivals)
