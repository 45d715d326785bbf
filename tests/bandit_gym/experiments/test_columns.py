import io
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bandit_gym.experiments import columns
from bandit_gym.experiments.blocks import OWN, stored_columns, to_parquet
from bandit_gym.experiments.experiment import Experiment

COLUMNS = stored_columns(propensities=False)

DIAGNOSTICS = {
    "num_samples",
    "effective_sample_size",
    "is_capped",
    "is_degenerate",
    "is_unreliable",
}


@pytest.fixture(scope="module")
def table():
    """A block of 2 lanes and 3 steps of which the rewards and a diagnostic are recorded."""
    (run,) = Experiment(
        environments=["BernoulliBandit-v0"], agents=["random"], horizon=3, block_size=2
    ).runs
    recorded = {"thoughts": np.ones((2, 3)), "reward": np.arange(6.0).reshape(2, 3)}
    return pq.read_table(io.BytesIO(to_parquet(run, 1, recorded)))


def test_every_column_is_computed_in_one_way_or_told_by_the_agent():
    ways = {
        name: sum(way is not None for way in (c.of_block, c.adds, c.shows, c.follows))
        for name, c in COLUMNS.items()
    }
    assert {name for name, count in ways.items() if count == 0} == DIAGNOSTICS | {OWN}
    assert max(ways.values()) == 1


def test_file_has_the_declared_columns_and_maps_of_other_diagnostics(table):
    assert table.column_names == [*COLUMNS]
    assert table[OWN].to_pylist() == [[("thoughts", 1.0)]] * 6


def test_file_says_what_its_columns_mean(table):
    told = {field.name: field.metadata[b"description"].decode() for field in table.schema}
    assert told == {name: column.meaning for name, column in COLUMNS.items()}


def test_rows_are_sorted_by_replication_and_step(table):
    assert table["replication"].to_pylist() == [2, 2, 2, 3, 3, 3]
    assert table["step"].to_pylist() == [1, 2, 3] * 2
    assert table["reward"].to_pylist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert set(table["agent"].to_pylist()) == {"random"}


def test_blanks_stand_where_nothing_is_known(table):
    assert table["action"].to_pylist() == [-1] * 6
    assert np.isnan(table["pseudo_regret"].to_numpy()).all()


@pytest.mark.parametrize(
    "values",
    [
        np.array([1.5, np.nan, -np.inf, 5e-324]),
        np.arange(6).reshape(2, 3)[:, 1],
        np.array([], float),
        np.array([2**31 - 1, -(2**31)], np.int32),
    ],
    ids=["reals", "strided", "none", "narrow"],
)
def test_numbers_are_laid_out_as_by_pyarrow(values):
    found = columns.numbers(values)
    found.validate(full=True)
    assert found.type == pa.array(values).type
    assert found.null_count == 0
    assert np.array_equal(found.to_numpy(), values, equal_nan=True)


@pytest.mark.parametrize("values", [[], [""], ["a", "", "µ \U0001f3b0", "b" * 300]])
def test_texts_are_laid_out_as_by_pyarrow(values):
    found = columns.texts(values)
    found.validate(full=True)
    assert found.equals(pa.array(values, pa.string()))


def test_texts_that_no_array_can_hold_are_refused(monkeypatch):
    monkeypatch.setattr(columns, "LARGEST_TEXT", 5)
    with pytest.raises(ValueError, match=r"^texts must have at most 5 bytes, got 6\.$"):
        columns.texts(["abc", "abc"])


def test_rank_counts_the_better_arms_and_is_blank_in_a_lane_that_has_ended():
    gaps = np.array([[0.0, 0.2, 0.1], [0.3, 0.0, 0.0], [0.0, 0.2, 0.1]])
    step = SimpleNamespace(actions=np.array([1, 2, 1]), is_alive=np.array([True, True, False]))
    now = columns.Standing(step, SimpleNamespace(gaps=gaps), np.ones(3, dtype=int), {})
    assert COLUMNS["action_rank"].follows(now).tolist() == [2, 0, -1]
