"""Random streams that are addressed and never kept: by a seed, an episode, a purpose and a place.

`numpy.random.Philox` defines them. In episode e of a lane with seed s (e = 0 after the reset that
gave the seed, one more after each that follows) the numbers for a purpose are those of

    Generator(Philox(key=s, counter=[0, 0, e, purpose]))

so that an episode's noise does not depend on how its means were drawn, a reset only counts, and a
lane is the same alone and among others.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator, Philox
from numpy.typing import NDArray

from bandit_gym.checks import check_seed, message
from bandit_gym.checks.typing import FloatArray, IntArray

MEANS, NOISE, DELAYS, ARMS, MOVES, SWITCHES, FEATURES, BINARY = range(8)
"""Purposes: the means of an episode's arms and the noise of its rewards; what wrappers draw, delays
of rewards, and means that move a little or are drawn anew; one is kept free; features; and rewards
made 0 or 1."""

MAX_SEED = 2**64 - 1
WORTH_COMPILING = 10_000
"""Reads of a stream, at 5 µs each, after which the loop is loaded that makes them 1000 times as
fast; loading takes 0.6 s, which a short run of few lanes would never win back."""

Seeds = int | Sequence[int | None] | None
"""What the lanes are seeded with, as `SyncVectorEnv` understands it."""

_MAX_ROWS = 512
_MIN_ROWS = 4
_MAX_UNIFORMS = 2**15
"""256 KiB, unless the fewest rows are more: larger blocks are no faster, and lanes that restart one
by one throw more of them away."""


def draw_seeds(count: int) -> list[int]:
    """Return seeds made of fresh entropy."""
    return np.random.SeedSequence().generate_state(count, np.uint64).tolist()


def spread_seeds(seed: Seeds, num_envs: int) -> list[int | None]:
    """Return one seed or None per lane."""
    is_list = isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str)
    if not is_list or getattr(seed, "ndim", 1) == 0:
        first = check_seed("seed", seed, num_lanes=num_envs)
        return [None if first is None else first + lane for lane in range(num_envs)]
    if len(seed) != num_envs:  # type: ignore[arg-type]
        condition = f"be an integer, None or a list of num_envs={num_envs} of them"
        raise ValueError(message("seed", condition, seed))
    return [check_seed("seed", entry) for entry in seed]  # type: ignore[union-attr]


def make_generator(purpose: str) -> Generator:
    """Return a generator for a purpose: the same each time, and no other purpose's."""
    return np.random.default_rng(list(purpose.encode()))


class LaneStreams:
    """The streams of N lanes.

    Attributes:
        seeds: (N,) uint64 seed of each lane.
        episodes: (N,) uint64 number of the episode it is in.
    """

    def __init__(self, num_lanes: int) -> None:
        self.seeds: NDArray[np.uint64] = np.zeros(num_lanes, dtype=np.uint64)
        self.episodes: NDArray[np.uint64] = np.zeros(num_lanes, dtype=np.uint64)
        self._reader = Generator(Philox(0))
        self._state: Any = Philox(key=0).state  # of a generator that has drawn nothing yet
        self._generators: dict[tuple[int, int], Generator] = {}
        self._num_reads = 0

    def seed(self, lanes: IntArray, seeds: Sequence[int]) -> None:
        """Give the listed lanes new seeds, of at most 64 bits; `advance` then begins episode 0."""
        self.seeds[lanes] = np.array(seeds, dtype=np.uint64)
        self.episodes[lanes] = MAX_SEED  # -1, as these numbers go round

    def advance(self, lanes: IntArray) -> None:
        """Begin the next episode of the listed lanes."""
        self.episodes[lanes] += np.uint64(1)

    def uniforms(self, purpose: int, lanes: IntArray, first: IntArray, count: int) -> FloatArray:
        """Return numbers of this episode's streams.

        Args:
            purpose: one of the above.
            lanes: (M,) whose; a lane may be there more than once.
            first: (M,) how many numbers of each stream to leave out.
            count: W, how many numbers to return of each.

        Returns:
            (W, M) uniform numbers in [0, 1).
        """
        out = np.empty((count, len(lanes)))
        self._num_reads += len(lanes)
        if self._num_reads > WORTH_COMPILING:
            from bandit_gym.numerics.philox import fill_uniforms

            start = first.astype(np.uint64)
            fill_uniforms(self.seeds[lanes], self.episodes[lanes], purpose, start, out)
            return out
        rng, starts = self._reader, zip(lanes.tolist(), first.tolist(), strict=True)
        for column, (lane, start) in enumerate(starts):
            self._move_generator(rng, purpose, lane, start // 4)
            rng.random(start % 4)
            out[:, column] = rng.random(count)
        return out

    def generators(self, purpose: int, lanes: IntArray) -> list[Generator]:
        """Return a generator for each of the listed lanes, at the beginning of its stream.

        They are the same objects in every episode: who asks again moves them.
        """
        addresses = [(purpose, lane) for lane in lanes.tolist()]
        for address in addresses:
            if address not in self._generators:
                self._generators[address] = Generator(Philox(0))
            self._move_generator(self._generators[address], *address, 0)
        return [self._generators[address] for address in addresses]

    def _move_generator(self, rng: Generator, purpose: int, lane: int, block: int) -> None:
        """Put a generator where a block of four numbers of a lane's stream begins."""
        state = self._state["state"]
        state["counter"][:] = block, 0, self.episodes[lane], purpose
        state["key"][0] = self.seeds[lane]
        rng.bit_generator.state = self._state


class LaneNoise:
    """Hands out one uniform per lane and step, each lane's from its own stream, in its order.

    A block has a row per step of a common clock and a column per lane. A lane that restarts
    overwrites its column from the next row on.

    Args:
        streams: of the lanes.
        max_rows: no lane needs more rows than this before it restarts; None if that is not known.
    """

    def __init__(self, streams: LaneStreams, max_rows: int | None) -> None:
        num_lanes = len(streams.seeds)
        rows = max(_MIN_ROWS, min(_MAX_ROWS, _MAX_UNIFORMS // num_lanes))
        self._streams, self._lanes = streams, np.arange(num_lanes)
        self._clock = 0
        self._starts = np.zeros(num_lanes, dtype=np.int64)  # of episodes, by the clock
        self._uniforms: FloatArray = np.empty((min(rows, max_rows or rows), num_lanes))

    def restart(self, lanes: IntArray) -> None:
        """Begin at the streams of new episodes in the listed lanes."""
        self._starts[lanes] = self._clock
        if row := self._clock % len(self._uniforms):
            rest = len(self._uniforms) - row
            first = np.zeros_like(lanes)
            self._uniforms[row:, lanes] = self._streams.uniforms(NOISE, lanes, first, rest)

    def draw_uniforms(self) -> FloatArray:
        """Return the (N,) uniforms of the next step."""
        rows = len(self._uniforms)
        if (row := self._clock % rows) == 0:
            first = self._clock - self._starts
            self._uniforms = self._streams.uniforms(NOISE, self._lanes, first, rows)
        self._clock += 1
        return self._uniforms[row]  # type: ignore[no-any-return]
