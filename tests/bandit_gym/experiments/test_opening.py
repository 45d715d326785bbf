import numpy as np
import pyarrow as pa
import pytest

from bandit_gym.experiments.blocks import OWN, open_parquet, read_map, to_parquet
from bandit_gym.experiments.experiment import Experiment

SETTINGS = {"environments": ["BernoulliBandit-v0"], "agents": ["random"], "block_size": 2}
(RUN,) = Experiment(**SETTINGS, horizon=3).runs
(LONGER,) = Experiment(**SETTINGS, horizon=4).runs


def written(run, **recorded):
    return pa.py_buffer(to_parquet(run, 0, recorded))


def test_diagnostics_come_out_as_they_went_in():
    thoughts, doubts = np.arange(6.0).reshape(2, 3), np.full((2, 3), np.inf)
    file = open_parquet(RUN, written(RUN, thoughts=thoughts, doubts=doubts))
    found = read_map(file.read([OWN])[OWN])
    assert found.keys() == {"thoughts", "doubts"}
    assert np.array_equal(found["thoughts"], thoughts.ravel())
    assert np.array_equal(found["doubts"], doubts.ravel())


def test_without_diagnostics_there_are_none():
    assert read_map(open_parquet(RUN, written(RUN)).read([OWN])[OWN]) == {}
    no_rows = pa.array([], pa.map_(pa.string(), pa.float64()))
    assert read_map(pa.chunked_array([no_rows])) == {}


def test_another_runs_block_is_refused():
    with pytest.raises(ValueError, match="block must have .* rows and columns of values, got"):
        open_parquet(RUN, written(LONGER))


def test_what_is_no_parquet_is_refused():
    with pytest.raises(ValueError, match="block must be a Parquet file, got an error"):
        open_parquet(RUN, pa.py_buffer(b"PAR1 and nothing else"))
