"""The columns of stored blocks, each declared once, and blocks as Parquet files.

Recording asks this table what to keep, files have its columns in its order, and tables and figures
take their words from it. A new column is one entry.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bandit_gym.checks import message
from bandit_gym.experiments.experiment import Run
from bandit_gym.rollout import Step
from bandit_gym.typing import BoolArray, FloatArray, IntArray


class Chunk(NamedTuple):
    """Some consecutive steps of N lanes, to be taken in at once.

    Attributes:
        numbers: (C,) which steps they are, from 1.
        actions: (C, N) arms played.
        before: (N,) arms played in the step before them, -1 before the first.
        is_alive: (C, N) False once the lane's episode has ended.
        steps: C of them, for all else.
    """

    numbers: IntArray
    actions: IntArray
    before: IntArray
    is_alive: BoolArray
    steps: list[Step]


class World:
    """The (N, K) true means of an episode, what follows from them, and the pulls of each arm."""

    def __init__(self, means: FloatArray) -> None:
        self.best = means.max(axis=1)
        self.gaps = self.best[:, None] - means
        self.mean_gaps = self.gaps.mean(axis=1)
        self.is_best = self.gaps == 0
        self.counts = np.zeros(means.shape, dtype=np.int64)

    @property
    def favourites(self) -> FloatArray:
        """(N, K) weights of the most pulled arm; where several are, all the same."""
        is_favourite = self.counts == self.counts.max(axis=1, keepdims=True)
        return is_favourite / is_favourite.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]


@dataclass
class Standing:
    """Where the N lanes stand after a recorded step.

    Attributes:
        step: the last one.
        lengths: (N,) steps of each lane's episode so far.
        kept: name -> (N,) what the columns that follow the steps have come to.
        world: the true means and the pulls so far; None where the environment tells no means.
    """

    step: Step
    lengths: IntArray
    kept: dict[str, np.ndarray]
    world: World | None

    @cached_property
    def favourites(self) -> FloatArray:
        """(N, K) weights of the most pulled arm."""
        assert self.world is not None
        return self.world.favourites


class Column(NamedTuple):
    """A column of the results. One of the five that may compute it does, or else the agent.

    What agents tell as diagnostics is added up over steps.

    Attributes:
        meaning: what its values are; written into the files.
        type: of its values: float with NaN, or int with -1, where nothing is known; str; or dict.
        of_block: from the run and the block's number, one value or what broadcasts to (N, S).
        adds: (N,) values of a step that are added up, None where the environment tells none.
        follows: from the (N,) value so far (None at first) and a chunk of steps, the value after.
        shows: (N,) values that follow from where the lanes stand, None where that is not known.
        of_means: the same where the true means are told.
        unit: of its values; means of shares are estimated as such.
        title: what tables of estimates and figures call it; those without one are not in them.
        definition: of `title`, in their words, per step if it is a sum.
    """

    meaning: str
    type: type = float
    of_block: Callable[[Run, int], Any] | None = None
    adds: Callable[[Step], np.ndarray | None] | None = None
    follows: Callable[[np.ndarray | None, Chunk], np.ndarray] | None = None
    shows: Callable[[Standing], np.ndarray | None] | None = None
    of_means: Callable[[Standing, World], np.ndarray] | None = None
    unit: str = ""
    title: str = ""
    definition: str = ""

    @property
    def is_told(self) -> bool:
        """Whether agents fill it."""
        ways = (self.of_block, self.adds, self.follows, self.shows, self.of_means)
        return self.type is float and not any(ways)


def _optimal_pulls(step: Step) -> np.ndarray | None:
    return None if step.pseudo_regrets is None else step.pseudo_regrets == 0


def _last_switch(so_far: np.ndarray | None, chunk: Chunk) -> np.ndarray:
    previous = np.vstack([chunk.before, chunk.actions[:-1]])
    has_switched = (chunk.actions != previous) & (previous >= 0) & chunk.is_alive
    latest = (has_switched * chunk.numbers[:, None]).max(axis=0)
    return latest if so_far is None else np.maximum(so_far, latest)


def _action_rank(now: Standing, world: World) -> np.ndarray:
    actions = now.step.actions
    pulled = world.gaps[np.arange(len(actions)), actions][:, None]
    return np.where(now.step.is_alive, (world.gaps < pulled).sum(axis=1), -1)


def _propensity(now: Standing) -> np.ndarray | None:
    told = now.step.propensities
    return None if told is None else np.where(now.step.is_alive, told, np.nan)


def _is_exact(now: Standing) -> np.ndarray | None:
    step = now.step
    return (
        None if step.propensities is None else np.where(step.is_alive, int(step.has_exact_law), -1)
    )


LARGEST_TEXT = 2**31 - 1
OWN = "diagnostics"
KEYS = ("experiment", "env", "agent", "replication", "step")
"""Columns without which a block says nothing."""

PROPENSITIES = ("propensity", "propensity_is_exact")
"""Columns of runs that record them alone."""

COLUMNS = {
    "experiment": Column(
        "content name of the run: environment, agent, horizon, seed, recording, blocks",
        str,
        of_block=lambda run, block: run.digest,
    ),
    "env": Column(
        "the environment's settings; tables put its label here",
        str,
        of_block=lambda run, block: run.environment.name,
    ),
    "agent": Column(
        "the agent's settings; tables put its label here",
        str,
        of_block=lambda run, block: run.agent.name,
    ),
    "replication": Column(
        "index of the episode; the same means and reward noise for every agent",
        int,
        of_block=lambda run, block: np.array(run.replications(block))[:, None],
    ),
    "step": Column(
        "t, number of steps played; everything below is after t steps",
        int,
        of_block=lambda run, block: run.steps,
    ),
    "action": Column(
        "arm played in step t; -1 if the episode had ended",
        int,
        shows=lambda now: np.where(now.step.is_alive, now.step.actions, -1),
    ),
    "propensity": Column(
        "probability with which the agent played the arm of step t; NaN if the episode had ended",
        shows=_propensity,
        unit="share",
    ),
    "propensity_is_exact": Column(
        "1 if that is the law of the action itself, 0 if one that the agent approximates",
        int,
        shows=_is_exact,
    ),
    "action_rank": Column(
        "number of arms with a larger mean than the one played in step t; -1 if unknown",
        int,
        of_means=_action_rank,
    ),
    "pseudo_regret": Column(
        "sum over steps of max(means) - means[action]",
        adds=lambda step: step.pseudo_regrets,
        unit="reward",
        title="pseudo-regret",
        definition="best mean - pulled mean",
    ),
    "realised_regret": Column(
        "sum over steps of max(means) - reward",
        of_means=lambda now, world: world.best * now.lengths - now.kept["reward"],
        unit="reward",
        title="realised regret",
        definition="best mean - reward",
    ),
    "uniform_regret": Column(
        "sum over steps of max(means) - average mean: what uniform play would lose",
        of_means=lambda now, world: world.mean_gaps * now.lengths,
        unit="reward",
    ),
    "reward": Column("sum of the rewards", adds=lambda step: step.rewards, unit="reward"),
    "optimal_pulls": Column("number of pulls of a best arm", adds=_optimal_pulls, unit="pulls"),
    "last_switch": Column(
        "the last step at which the agent changed its arm; 0 if it never has",
        int,
        follows=_last_switch,
        unit="step",
        title="last switch",
    ),
    "simple_regret": Column(
        "max(means) minus the mean of the most pulled arm (average over ties)",
        of_means=lambda now, world: (world.gaps * now.favourites).sum(axis=1),
        unit="reward",
        title="simple regret",
        definition="best mean - mean of the most pulled arm",
    ),
    "best_arm_found": Column(
        "1 if the most pulled arm is a best one (average over ties)",
        of_means=lambda now, world: (world.is_best * now.favourites).sum(axis=1),
        unit="share",
        title="best arm found",
    ),
    "num_samples": Column("sum over steps of the samples drawn to decide", unit="samples"),
    "effective_sample_size": Column("sum over steps of the effective sample sizes", unit="samples"),
    "is_capped": Column(
        "number of decisions that were stopped by the cap on samples", unit="decisions"
    ),
    "is_degenerate": Column(
        "number of decisions made although no sample could explain the data", unit="decisions"
    ),
    "is_unreliable": Column(
        "number of decisions whose agent could not vouch for its posterior", unit="decisions"
    ),
    OWN: Column("by name, sums over steps of the other diagnostics of the agent", dict),
}
"""Every column of a table of results, in order."""

DIAGNOSTICS = tuple(name for name, column in COLUMNS.items() if column.is_told)
"""The columns that agents fill."""


def stored_columns(*, propensities: bool) -> dict[str, Column]:
    """Return the columns that files have, in order, with propensities or without."""
    left_out = () if propensities else PROPENSITIES
    return {name: column for name, column in COLUMNS.items() if name not in left_out}


def to_parquet(run: Run, block: int, recorded: dict[str, np.ndarray]) -> bytes:
    """Lay a block out as a tidy table, sorted by replication and step, in Parquet's format.

    Args:
        run: the run.
        block: index of the block.
        recorded: name -> (N, S) values after each recorded step.

    Returns:
        The bytes of a file with N S rows; the same bytes for the same values.
    """
    shape = (run.block_size, len(run.steps))
    own = {name: values for name, values in sorted(recorded.items()) if name not in COLUMNS}
    fields, arrays, columns = [], [], stored_columns(propensities=run.propensities)
    for name, column in columns.items():
        values = column.of_block(run, block) if column.of_block else recorded.get(name)
        is_own = column.type is dict
        arrays.append(_to_map(own, shape) if is_own else _to_arrow(values, column.type, shape))
        fields.append(pa.field(name, arrays[-1].type, metadata={"description": column.meaning}))
    buffer = io.BytesIO()
    pq.write_table(
        pa.table(arrays, schema=pa.schema(fields)),
        buffer,
        compression="zstd",
        use_dictionary=[name for name, column in columns.items() if column.type in (int, str)]
        + [f"{OWN}.key_value.key"],
        use_byte_stream_split=[name for name, column in columns.items() if column.type is float],
    )
    return buffer.getvalue()


def _to_arrow(values: Any, kind: type, shape: tuple[int, int]) -> pa.Array:
    if kind is str:
        indices = np.zeros(shape[0] * shape[1], np.int32)
        return pa.DictionaryArray.from_arrays(numbers(indices), texts([values]))
    if values is None:
        values = -1 if kind is int else np.nan
    return numbers(np.broadcast_to(values, shape).astype(kind).reshape(-1))


def _to_map(own: dict[str, np.ndarray], shape: tuple[int, int]) -> pa.MapArray:
    """Return one map a row, from each name to its value there."""
    num_rows = shape[0] * shape[1]
    values = np.stack([own[name] for name in own], axis=-1) if own else np.zeros((num_rows, 0))
    offsets = np.arange(num_rows + 1, dtype=np.int32) * np.int32(len(own))
    names = texts([*own] * num_rows)
    return pa.MapArray.from_arrays(
        numbers(offsets), names, numbers(values.reshape(-1).astype(float))
    )


def numbers(values: np.ndarray) -> pa.Array:
    """Return what `pyarrow.array` does, which loads pandas, 0.3 s of each worker, to ask for it."""
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, buffer])


def texts(values: Sequence[str]) -> pa.Array:
    """Return what `pyarrow.array` does, see `numbers`.

    Raises:
        ValueError: if they are longer than one array can hold, whose ends are 32-bit numbers.
    """
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    if ends[-1] > LARGEST_TEXT:
        raise ValueError(message("texts", f"have at most {LARGEST_TEXT} bytes", int(ends[-1])))
    buffers = (pa.py_buffer(part) for part in (ends.astype(np.int32), b"".join(encoded)))
    return pa.StringArray.from_buffers(len(values), *buffers)


def open_parquet(run: Run, data: pa.Buffer) -> pq.ParquetFile:
    """Open what `to_parquet` has written for a block of the run.

    Raises:
        ValueError: if it is something else.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"block must be a Parquet file, got an error: {error}.") from error
    num_rows, found = run.block_size * len(run.steps), file.metadata.num_rows
    missing = [name for name in KEYS if name not in file.schema_arrow.names]
    if found != num_rows or missing:
        raise ValueError(
            f"block must have {num_rows} rows and the columns {', '.join(KEYS)}, got {found} rows "
            f"without {missing}."
        )
    return file


def read_map(values: pa.ChunkedArray) -> dict[str, FloatArray]:
    """Return name -> (rows,) values of what `to_parquet` has put into the column of maps."""
    maps = values.combine_chunks()
    num_names = len(maps.keys) // max(len(maps), 1)
    table = maps.items.to_numpy().reshape(len(maps), num_names)
    return dict(zip(maps.keys[:num_names].to_pylist(), table.T, strict=True))
