"""The columns of stored blocks, each declared once, and blocks as Parquet files.

Recording asks this table what to keep, files have its columns in its order, and tables and figures
take their words from it. A new column is one entry. What a block was drawn from stands in its
file's metadata; its pages have checksums.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bandit_gym.checks.doubts import Doubt
from bandit_gym.checks.typing import BoolArray, FloatArray, IntArray
from bandit_gym.experiments.experiment import Run
from bandit_gym.rollout import Step


class State:
    """Where N lanes stand after a step; columns are computed from it.

    Attributes:
        step: the step.
        lengths: (N,) steps of each lane's episode.
        sums: name -> (N,) sums of what columns add (`adds`) and of diagnostics.
        last_switch: (N,) the last step at which the arm changed; 0 if it never has.
        knows_means: whether the environment tells the true means; what follows needs them.
        best: (N,) largest mean.
        gaps: (N, K) largest mean minus the mean of each arm.
        mean_gaps: (N,) average gap over the arms.
        is_best: (N, K) whether an arm is a best one.
        counts: (N, K) pulls of each arm.
        is_favourite: (N, K) whether an arm is the most pulled one, or one of several.
        num_favourites: (N,) how many these are.
    """

    best: FloatArray
    gaps: FloatArray
    mean_gaps: FloatArray
    is_best: BoolArray
    counts: IntArray
    is_favourite: BoolArray
    num_favourites: IntArray

    def __init__(self, step: Step) -> None:
        self.step = step
        self.lengths = np.zeros(len(step.actions), dtype=np.int64)
        self.last_switch = np.zeros(len(step.actions), dtype=np.int64)
        self.sums: dict[str, FloatArray] = {}
        self.num_steps = 0
        self.knows_means = step.means is not None
        self._before = step.actions
        if step.means is not None:
            self.best = step.means.max(axis=1)
            gaps = self.best[:, None] - step.means
            self.mean_gaps = gaps.mean(axis=1)
            # An arm's lanes lie side by side, so that sums over arms take a third of the time.
            self.gaps = np.asfortranarray(gaps)
            self.is_best = self.gaps == 0
            self.counts = np.zeros(step.means.shape, dtype=np.int64, order="F")

    def take_in(
        self, steps: list[Step], addends: dict[str, FloatArray], due: Sequence[int]
    ) -> Iterator[None]:
        """Take in C consecutive steps, and stop to be looked at after those that are due.

        Args:
            steps: C of them.
            addends: name -> (C, N) values to add up; they become the sums after the steps that are
                due, and after the last one.
            due: which of the steps, sorted.
        """
        ends = [*due, *({len(steps) - 1} - {*due})]
        starts = [0, *(end + 1 for end in ends[:-1])]
        is_alive = np.array([step.is_alive for step in steps])
        actions = np.array([step.actions for step in steps])
        for name, values in addends.items():
            if not is_alive.all():
                values[~is_alive] = 0.0
            is_due = len(ends) == len(steps)  # each of them
            sums = values if is_due else np.add.reduceat(values, starts, axis=0)
            sums[0] += self.sums.get(name, 0.0)
            addends[name] = np.cumsum(sums, axis=0, out=sums)
        lengths = np.cumsum(np.add.reduceat(is_alive, starts, axis=0, dtype=np.int64), axis=0)
        lengths += self.lengths
        has_switched = (actions != np.vstack([self._before, actions[:-1]])) & is_alive
        latest = has_switched * (self.num_steps + 1 + np.arange(len(steps)))[:, None]
        latest = np.maximum.accumulate(np.maximum.reduceat(latest, starts, axis=0))
        latest = np.maximum(latest, self.last_switch)
        self.num_steps += len(steps)
        self._before = actions[-1]
        for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
            self.step, self.lengths, self.last_switch = steps[end], lengths[row], latest[row]
            self.sums = {name: values[row] for name, values in addends.items()}
            if self.knows_means:
                new = is_alive[start : end + 1]
                np.add.at(self.counts, (np.nonzero(new)[1], actions[start : end + 1][new]), 1)
                self.is_favourite = self.counts == self.counts.max(axis=1, keepdims=True)
                self.num_favourites = self.is_favourite.sum(axis=1)
            if row < len(due):
                yield


class Column(NamedTuple):
    """A column of the results, filled by `of_block`, `adds` or `shows`, or else by the agent.

    Values that agents tell as diagnostics are added up over steps.

    Attributes:
        meaning: what its values are; written into the files.
        type: of its values: float with NaN, or int with -1, where nothing is known; str; or dict.
        of_block: from the run and the block's number, one value or what broadcasts to (N, S).
        adds: (N,) values of a step that are added up, None where the environment tells none.
        shows: (N,) values that follow from where the lanes stand, None where that is not known.
        needs_means: whether `shows` is asked only where the true means are told.
        is_optional: whether only files of runs that ask for it have it.
        unit: of its values; means of shares are estimated as such.
        title: what tables of estimates and figures call it; those without one are not in them.
        definition: of `title`, in their words, per step if it is a sum.
        table: "estimates" if the printed table has it unasked, else "".
        digits: decimals that the printed table shows; shares are shown in per cent.
    """

    meaning: str
    type: type = float
    of_block: Callable[[Run, int], Any] | None = None
    adds: Callable[[Step], np.ndarray | None] | None = None
    shows: Callable[[State], np.ndarray | None] | None = None
    needs_means: bool = False
    is_optional: bool = False
    unit: str = ""
    title: str = ""
    definition: str = ""
    table: str = ""
    digits: int = 1

    @property
    def is_told(self) -> bool:
        """Whether agents fill it."""
        return self.type is float and not any((self.of_block, self.adds, self.shows))


def _optimal_pulls(step: Step) -> np.ndarray | None:
    return None if step.regrets is None else step.regrets == 0


def _action_rank(now: State) -> np.ndarray:
    actions = now.step.actions
    pulled = now.gaps[np.arange(len(actions)), actions][:, None]
    return np.where(now.step.is_alive, (now.gaps < pulled).sum(axis=1), -1)


def _propensity(now: State) -> np.ndarray | None:
    told = now.step.propensities
    return None if told is None else np.where(now.step.is_alive, told, np.nan)


def _is_exact(now: State) -> np.ndarray | None:
    if now.step.propensities is None:
        return None
    return np.where(now.step.is_alive, int(now.step.has_exact_law), -1)


OWN = "diagnostics"
KEYS = ("experiment", "env", "agent", "replication", "step")
"""Columns that every block must have."""

DOUBTS = "doubts"
"""The diagnostic that holds one `Doubt` per lane; each kind has a column that counts it."""

DOUBTED = {f"{DOUBTS}_{str(doubt.name).lower()}": doubt for doubt in Doubt}
"""The columns that count them."""

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
        is_optional=True,
        unit="share",
    ),
    "propensity_is_exact": Column(
        "1 if that is the law of the action itself, 0 if one that the agent approximates",
        int,
        shows=_is_exact,
        is_optional=True,
    ),
    "action_rank": Column(
        "number of arms with a larger mean than the one played in step t; -1 if unknown",
        int,
        shows=_action_rank,
        needs_means=True,
    ),
    "cumulative_regret": Column(
        "sum over steps of max(means) - means[action]",
        adds=lambda step: step.regrets,
        unit="reward",
        title="pseudo-regret",
        definition="best mean - pulled mean",
        table="estimates",
    ),
    "realised_regret": Column(
        "sum over steps of max(means) - reward",
        shows=lambda now: now.best * now.lengths - now.sums["reward"],
        needs_means=True,
        unit="reward",
        title="realised regret",
    ),
    "uniform_regret": Column(
        "sum over steps of max(means) - average mean: what uniform play would lose",
        shows=lambda now: now.mean_gaps * now.lengths,
        needs_means=True,
        unit="reward",
    ),
    "reward": Column("sum of the rewards", adds=lambda step: step.rewards, unit="reward"),
    "optimal_pulls": Column("number of pulls of a best arm", adds=_optimal_pulls, unit="pulls"),
    "last_switch": Column(
        "the last step at which the agent changed its arm; 0 if it never has",
        int,
        shows=lambda now: now.last_switch,
        unit="step",
        title="last switch",
    ),
    "simple_regret": Column(
        "max(means) minus the mean of the most pulled arm (average over ties)",
        shows=lambda now: (now.gaps * now.is_favourite).sum(axis=1) / now.num_favourites,
        needs_means=True,
        unit="reward",
        title="simple regret",
        digits=4,
    ),
    "best_arm_found": Column(
        "1 if the most pulled arm is a best one (average over ties)",
        shows=lambda now: (now.is_best & now.is_favourite).sum(axis=1) / now.num_favourites,
        needs_means=True,
        unit="share",
        title="best arm found",
        table="estimates",
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
    **{
        name: Column(f"number of decisions that the agent doubts: {doubt.words}", unit="decisions")
        for name, doubt in DOUBTED.items()
    },
    OWN: Column("by name, sums over steps of the other diagnostics of the agent", dict),
}
"""Every column of a table of results, in order."""

DIAGNOSTICS = tuple(name for name, column in COLUMNS.items() if column.is_told)
"""The columns that agents fill."""


def columns_of(found: Container[str]) -> list[str]:
    """Return the columns of a table, in order: all, but of the optional only those found."""
    return [name for name, column in COLUMNS.items() if not column.is_optional or name in found]


ORIGIN = b"bandit_gym"
"""Where a file's metadata say, as JSON, what its block was drawn from."""


def to_parquet(
    run: Run, block: int, recorded: Mapping[str, np.ndarray], origin: Mapping[str, Any]
) -> bytes:
    """Lay a block out as a tidy table, sorted by replication and step, in Parquet's format.

    Args:
        run: the run.
        block: index of the block.
        recorded: name -> (N, S) values after each recorded step.
        origin: what it was drawn from beside its settings, as JSON can hold it.

    Returns:
        The bytes of a file with N S rows; the same bytes for the same values.
    """
    shape = (run.block_size, len(run.steps))
    own = {name: values for name, values in sorted(recorded.items()) if name not in COLUMNS}
    fields, arrays = [], []
    columns = {name: COLUMNS[name] for name in columns_of(recorded)}
    for name, column in columns.items():
        values = column.of_block(run, block) if column.of_block else recorded.get(name)
        is_own = column.type is dict
        arrays.append(_to_map(own, shape) if is_own else _to_arrow(values, column.type, shape))
        meaning = {"description": column.meaning}
        fields.append(pa.field(name, arrays[-1].type, nullable=False, metadata=meaning))
    content = {**_identity(run, block), "settings": run.settings, **origin}
    schema = pa.schema(fields, metadata={ORIGIN: json.dumps(content).encode()})
    buffer = io.BytesIO()
    pq.write_table(
        pa.table(arrays, schema=schema),
        buffer,
        compression="lz4",
        use_dictionary=[name for name, column in columns.items() if column.type is str]
        + [f"{OWN}.key_value.key"],
        use_byte_stream_split=[n for n, column in columns.items() if column.type in (int, float)],
        write_page_checksum=True,
    )
    return buffer.getvalue()


def read_origin(run: Run, block: int, data: pa.Buffer) -> dict[str, Any]:
    """Return what a block was drawn from; all of it is read, and its checksums are compared.

    Raises:
        ValueError: if it is damaged, or another block, or none at all.
    """
    try:
        file = open_parquet(data)
        num_rows = file.read(use_threads=False).num_rows
        found = json.loads((file.schema_arrow.metadata or {})[ORIGIN])
        is_its = num_rows == run.block_size * len(run.steps) and {*KEYS} <= {
            *file.schema_arrow.names
        }
        is_its &= found.items() >= _identity(run, block).items()
        is_told = isinstance(found["results_version"], int) and isinstance(found["versions"], dict)
        is_told &= all(isinstance(each, dict) for each in found["sources"].values())
    except (
        OSError,
        pa.ArrowException,
        LookupError,
        TypeError,
        AttributeError,
        ValueError,
    ) as error:
        raise ValueError(f"block must be whole, got an error: {error!r}.") from error
    if not (is_its and is_told):
        raise ValueError(f"block must be block {block} of {run.name}, got another file.")
    return dict(found)


def open_parquet(data: pa.Buffer) -> pq.ParquetFile:
    """Open what `to_parquet` has written."""
    return pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)


def _identity(run: Run, block: int) -> dict[str, Any]:
    return {"run": run.digest, "block": block}


def _to_arrow(values: Any, kind: type, shape: tuple[int, int]) -> pa.Array:
    if kind is str:
        indices = np.zeros(shape[0] * shape[1], np.int32)
        return pa.DictionaryArray.from_arrays(numbers(indices), texts([values]))
    if values is None:
        values = -1 if kind is int else np.nan
    return numbers(np.ascontiguousarray(np.broadcast_to(values, shape), dtype=kind).reshape(-1))


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
    """Make an array as `pyarrow.array` does, but without pandas, which takes 0.3 s to load."""
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, buffer])


def texts(values: Sequence[str]) -> pa.Array:
    """Make an array of strings as `pyarrow.array` does; see `numbers`."""
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    buffers = (pa.py_buffer(part) for part in (ends, b"".join(encoded)))
    return pa.StringArray.from_buffers(len(values), *buffers)


def read_map(values: pa.ChunkedArray) -> dict[str, FloatArray]:
    """Return name -> (rows,) values of what `to_parquet` has put into the column of maps."""
    maps = values.combine_chunks()
    num_names = len(maps.keys) // max(len(maps), 1)
    table = maps.items.to_numpy().reshape(len(maps), num_names)
    return dict(zip(maps.keys[:num_names].to_pylist(), table.T, strict=True))
