"""The columns of stored results, what each means, and their form on disk."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bandit_gym.experiments.experiment import Run

DESCRIPTIONS = {
    "experiment": "content name of the run: environment, agent, horizon, seed, recording, blocks",
    "env": "label of the environment",
    "agent": "label of the agent",
    "replication": "index of the episode; the same means and reward noise for every agent",
    "step": "t, number of steps played; everything below is after t steps",
    "action": "arm played in step t; -1 if the episode had ended",
    "action_rank": "number of arms with a larger mean than the one played in step t; -1 if unknown",
    "pseudo_regret": "sum over steps of max(means) - means[action]",
    "realised_regret": "sum over steps of max(means) - reward",
    "uniform_regret": "sum over steps of max(means) - average mean: what uniform play would lose",
    "reward": "sum of the rewards",
    "optimal_pulls": "number of pulls of a best arm",
    "simple_regret": "max(means) minus the mean of the most pulled arm (average over ties)",
    "best_arm_found": "1 if the most pulled arm is a best one (average over ties)",
    "num_samples": "sum over steps of the samples drawn to decide",
    "effective_sample_size": "sum over steps of the effective sample sizes",
    "is_capped": "number of decisions that were stopped by the cap on samples",
    "is_degenerate": "number of decisions made although no sample could explain the data",
}
"""Every column of a table of results, in order; NaN where the environment or agent tells nothing.

Other diagnostics of an agent follow, under its own names, as sums over steps.
"""

LABELS = ("experiment", "env", "agent")
INTEGERS = ("replication", "step", "action", "action_rank")


def to_parquet(run: Run, block: int, columns: dict[str, np.ndarray]) -> bytes:
    """Lay a block out as a tidy table, sorted by replication and step, in Parquet's format.

    Args:
        run: the run.
        block: index of the block.
        columns: name -> (N, S) values after each recorded step.

    Returns:
        The bytes of a file with N S rows; the same bytes for the same values.
    """
    shape = (run.block_size, len(run.steps))
    given = {
        "replication": np.broadcast_to(np.array(run.replications(block))[:, None], shape),
        "step": np.broadcast_to(run.steps, shape),
        **columns,
    }
    labels = dict(zip(LABELS, (run.digest, run.environment.label, run.agent.label), strict=True))
    names = dict.fromkeys([*DESCRIPTIONS, *columns])
    arrays = [
        _constant(labels[name], run.block_size * len(run.steps))
        if name in labels
        else pa.array(_typed(name, given.get(name), shape).reshape(-1))
        for name in names
    ]
    schema = pa.schema([_field(name, array) for name, array in zip(names, arrays, strict=True)])
    buffer = io.BytesIO()
    pq.write_table(
        pa.table(arrays, schema=schema),
        buffer,
        compression="zstd",
        use_dictionary=[*LABELS, *INTEGERS],
        use_byte_stream_split=[name for name in names if name not in (*LABELS, *INTEGERS)],
    )
    return buffer.getvalue()


def _typed(name: str, values: np.ndarray | None, shape: tuple[int, int]) -> np.ndarray:
    dtype, blank = (np.int64, -1) if name in INTEGERS else (np.float64, np.nan)
    return np.full(shape, blank, dtype) if values is None else values.astype(dtype)


def _constant(label: str, length: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(length, np.int32)), pa.array([label]))


def _field(name: str, array: pa.Array) -> pa.Field:
    description = DESCRIPTIONS.get(name, "sum over steps of the agent's diagnostic")
    return pa.field(name, array.type, metadata={"description": description})
