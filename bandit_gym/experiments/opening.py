"""Blocks as they are read: what `columns.to_parquet` has written, opened."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from bandit_gym.experiments.columns import stored_columns
from bandit_gym.experiments.experiment import Run
from bandit_gym.typing import FloatArray


def open_parquet(run: Run, data: pa.Buffer) -> pq.ParquetFile:
    """Open what `to_parquet` has written for a block of the run.

    Raises:
        ValueError: if it is something else.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"block must be a Parquet file, got an error: {error}.") from error
    num_leaves = len(stored_columns(propensities=run.propensities)) + 1  # a map has two
    shape = run.block_size * len(run.steps), num_leaves
    found = file.metadata.num_rows, file.metadata.num_columns
    if found != shape:
        raise ValueError(f"block must have {shape} rows and columns of values, got {found}.")
    return file


def read_map(values: pa.ChunkedArray) -> dict[str, FloatArray]:
    """Return name -> (rows,) values of what `to_parquet` has put into the column of maps."""
    maps = values.combine_chunks()
    num_names = len(maps.keys) // max(len(maps), 1)
    table = maps.items.to_numpy().reshape(len(maps), num_names)
    return dict(zip(maps.keys[:num_names].to_pylist(), table.T, strict=True))
