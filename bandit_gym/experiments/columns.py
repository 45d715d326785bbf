"""The columns of stored results, each declared once: what it means, and who computes it.

Recording asks this table what to add up and what to keep, the files have its columns in its order,
and tables and figures take their words from it.
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
from bandit_gym.typing import FloatArray, IntArray


class World:
    """The (N, K) true means of an episode, what follows from them, and the pulls of each arm."""

    def __init__(self, means: FloatArray) -> None:
        self.best = means.max(axis=1)
        self.gaps = self.best[:, None] - means
        self.mean_gaps = self.gaps.mean(axis=1)
        self.is_best = self.gaps == 0
        self.counts = np.zeros(means.shape, dtype=np.int64)


@dataclass
class Standing:
    """Where the N lanes stand after a recorded step, for all that needs the true means.

    Attributes:
        step: the last one.
        world: the true means and the pulls so far.
        lengths: (N,) steps of each lane's episode so far.
        sums: name -> (N,) sums over these steps.
    """

    step: Step
    world: World
    lengths: IntArray
    sums: dict[str, FloatArray]

    @cached_property
    def favourites(self) -> FloatArray:
        """(N, K) weights of the most pulled arm; where several are, all the same."""
        counts = self.world.counts
        is_favourite = counts == counts.max(axis=1, keepdims=True)
        return is_favourite / is_favourite.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]


class Column(NamedTuple):
    """A column of the results; of the four that may compute it, one does, or else the agent.

    What agents tell as diagnostics is added up over steps.

    Attributes:
        meaning: what its values are; written into the files.
        type: of its values: float with NaN, or int with -1, where nothing is known; str; or dict.
        of_block: from the run and the block's number, one value or what broadcasts to (N, S).
        adds: (N,) values of a step that are added up, None where the environment tells none.
        shows: (N,) values of the last step, None where it has none.
        follows: (N,) values that follow from where the lanes stand.
        unit: of its values; means of shares are estimated as such.
        title: what tables of estimates and figures call it; those without one are not in them.
        definition: of `title`, in their words, per step if it is a sum.
    """

    meaning: str
    type: type = float
    of_block: Callable[[Run, int], Any] | None = None
    adds: Callable[[Step], np.ndarray | None] | None = None
    shows: Callable[[Step], np.ndarray | None] | None = None
    follows: Callable[[Standing], np.ndarray] | None = None
    unit: str = ""
    title: str = ""
    definition: str = ""


def _optimal_pulls(step: Step) -> np.ndarray | None:
    return None if step.pseudo_regrets is None else step.pseudo_regrets == 0


def _action_rank(now: Standing) -> np.ndarray:
    gaps, actions = now.world.gaps, now.step.actions
    pulled = gaps[np.arange(len(actions)), actions][:, None]
    return np.where(now.step.is_alive, (gaps < pulled).sum(axis=1), -1)


def _realised_regret(now: Standing) -> FloatArray:
    return now.world.best * now.lengths - now.sums["reward"]


def _propensity(step: Step) -> np.ndarray | None:
    told = step.propensities
    return None if told is None else np.where(step.is_alive, told, np.nan)


def _is_exact(step: Step) -> np.ndarray | None:
    told = step.propensities
    return None if told is None else np.where(step.is_alive, int(step.has_exact_law), -1)


LARGEST_TEXT = 2**31 - 1
OWN = "diagnostics"
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
        shows=lambda step: np.where(step.is_alive, step.actions, -1),
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
        follows=_action_rank,
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
        follows=_realised_regret,
        unit="reward",
        title="realised regret",
        definition="best mean - reward",
    ),
    "uniform_regret": Column(
        "sum over steps of max(means) - average mean: what uniform play would lose",
        follows=lambda now: now.world.mean_gaps * now.lengths,
        unit="reward",
    ),
    "reward": Column("sum of the rewards", adds=lambda step: step.rewards, unit="reward"),
    "optimal_pulls": Column("number of pulls of a best arm", adds=_optimal_pulls, unit="pulls"),
    "simple_regret": Column(
        "max(means) minus the mean of the most pulled arm (average over ties)",
        follows=lambda now: (now.world.gaps * now.favourites).sum(axis=1),
        unit="reward",
        title="simple regret",
        definition="best mean - mean of the most pulled arm",
    ),
    "best_arm_found": Column(
        "1 if the most pulled arm is a best one (average over ties)",
        follows=lambda now: (now.world.is_best * now.favourites).sum(axis=1),
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

DIAGNOSTICS = tuple(
    name
    for name, column in COLUMNS.items()
    if column.type is float and not any((column.adds, column.shows, column.follows))
)
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
