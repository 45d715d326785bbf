"""Files that people export are read as they are meant, or refused with the row and the way out."""

import warnings
from decimal import Decimal

import gymnasium as gym
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from refusals import check_refusals
from surface import started

from bandit_gym.contexts import disjoint, hierarchical
from bandit_gym.likelihoods import Gaussian
from bandit_gym.logs import Log, read_log
from bandit_gym.priors import Normal
from bandit_gym.problem import ContextualProblem
from bandit_gym.tables import read_table

COLUMNS = {"arm": "banner", "reward": "click"}


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a CSV file and returns its path."""

    def write(text):
        (tmp_path / "log.csv").write_text(text, encoding="utf-8")
        return tmp_path / "log.csv"

    return write


@pytest.mark.parametrize(
    "text",
    [
        "banner,click,age,p\nred,1,30,.5\nblue,0,41,.25\n",
        "banner,click,age,p\nred,1,30,.5,\nblue,0,41,.25,\n",
        "banner,click,age,p\nred,1,30,.5\nblue,0,41,.25,,, \n",
        "banner,click,age,p,,\nred,1,30,.5,,\nblue,0,41,.25,,\n,,,,,\n",
        "\ufeffbanner,click,age,p\r\nred,1,30,.5\r\n\r\n blue ,0,41,.25\r\n\r\n",
        '\nbanner,click,age,p\n"red",1,"30",.5\n\nblue,0,41,.25',
    ],
)
def test_commas_at_the_ends_empty_rows_and_a_byte_order_mark_shift_nothing(write, text):
    log = read_log(write(text), **COLUMNS, features=["age"], propensity="p", arms=["red", "blue"])
    assert log.actions.tolist() == [0, 1] and log.rewards.tolist() == [1, 0]
    assert log.features.tolist() == [[30], [41]] and log.propensities.tolist() == [0.5, 0.25]


def test_the_table_of_an_environment_is_read_alike(write):
    plain = "left,right,age\n1,0,30\n0,1,41\n"
    with_commas = "left,right,age,\n1,0,30,\n\n0,1,41,\n"
    shown = []
    for text in (plain, with_commas):
        options = {"table": write(text), "features": None, "rewards": ["left", "right"]}
        shown.append(gym.make("TableBandit-v0", **options).reset(seed=1)[0])
    np.testing.assert_array_equal(*shown)


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (["007", "7"], ("007", "7")),
        (["1.10", "1.1"], ("1.1", "1.10")),
        (["1e5", "10e4"], ("10e4", "1e5")),
        (["NA", "None", "null", "nan"], ("NA", "None", "nan", "null")),
        (["inf", "2"], ("2", "inf")),
        (["True", "False"], ("False", "True")),
        (["1_0", "10"], ("10", "1_0")),
        ([" red", "red ", "blue"], ("blue", "red")),
        (["12", "-3", "12"], (-3, 12)),
        (["1.5", "2", "1e+16"], (1.5, 2, 1e16)),
    ],
)
def test_labels_are_numbers_only_where_each_is_written_as_one(write, cells, labels):
    text = "".join(f"{cell},1\n" for cell in cells)
    log = read_log(write(f"banner,click\n{text}"), **COLUMNS)
    assert log.arms == labels and [*map(type, log.arms)] == [*map(type, labels)]


def test_an_empty_label_is_missing_and_other_columns_keep_the_missing_values_of_pandas(write):
    path = write("banner,click,age\nNA,1,1\nb,NA,2\n,null,3\nb,0,4\n")
    with pytest.warns(UserWarning, match="2 of 4 rows have no 'click'"):
        assert read_log(path, **COLUMNS).arms == ("NA", "b")
    banners = read_table("source", path, "banner")["banner"]
    assert banners.isna().tolist() == [False, False, True, False]


def test_of_a_file_of_labels_alone_the_missing_column_is_named(write):
    with pytest.raises(ValueError, match="column must be one of 'banner', got 'click'"):
        read_log(write("banner\nred\nblue\n"), **COLUMNS)


DECIMAL = pd.ArrowDtype(pa.decimal128(9, 2))
NUMBERS = {
    "bool": pd.Series([True, False, True]),
    "boolean": pd.Series([True, False, True], dtype="boolean"),
    "boolean arrow": pd.Series([True, False, True], dtype="bool[pyarrow]"),
    "Int64": pd.Series([1, 0, 1], dtype="Int64"),
    "arrow": pd.Series([1, 0, 1], dtype="double[pyarrow]"),
    "decimal": pd.Series([Decimal("1.0"), Decimal(0), Decimal(1)]),
    "arrow decimal": pd.Series([Decimal(n) for n in (1, 0, 1)], dtype=DECIMAL),
    "category": pd.Series([1, 0, 1], dtype="category"),
    "object": pd.Series([True, 0.0, np.True_], dtype=object),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_what_a_log_takes_for_numbers_blocks_and_agents_take(kind):
    table = pd.DataFrame({"banner": ["a", "b", "a"], "x": [0.5, 2.0, 1.0], "is_new": NUMBERS[kind]})
    log = read_log(table.assign(click=NUMBERS[kind]), **COLUMNS, features=["x", "is_new"])
    expected = np.array([[0.5, 1], [2, 0], [1, 1]])
    np.testing.assert_array_equal(log.features, expected)
    np.testing.assert_array_equal(log.rewards, expected[:, 1])
    visitors = table[["x", "is_new"]]
    for blocks in (disjoint, hierarchical):
        np.testing.assert_array_equal(blocks(visitors, 2), blocks(expected, 2))
        np.testing.assert_array_equal(blocks(visitors.iloc[0], 2), blocks(expected[0], 2))
        np.testing.assert_array_equal(blocks(table["is_new"], 2), blocks(expected[:, 1], 2))
    problem = ContextualProblem(Gaussian(), Normal(0, 1), num_arms=3, num_features=2)
    ways = [(started("exact", problem), shown) for shown in (visitors, expected)]
    arms = [[agent.act(shown) for _ in range(5)] for agent, shown in ways]
    assert arms[0] == arms[1]
    options = {"table": table.assign(left=1, right=NUMBERS[kind]), "rewards": ["left", "right"]}
    gym.make("TableBandit-v0", features=["x", "is_new"], **options)


HEADER, ROWS = "banner,click,age,p\n", "red,1,30,.5\n\nblue,0,41,.25\n"
FULL = {"features": ["age"], "propensity": "p"}
REFUSALS = [
    ("banner;click;age\nred;1;30\n", {}, "separated by ';'", "pandas.read_csv(path, sep=';')"),
    ("banner\tclick\nred\t1\n", {}, r"separated by '\t'", "pandas.read_csv"),
    (f"{HEADER}{ROWS}red,1,30,.5,left\n", {}, "row 5 has 5 cells", "the header 4", "name each"),
    (f"{HEADER}{ROWS},1,30,.5\n", {}, "column 'banner'", "a label", "row 5", "fill it in"),
    (f"{HEADER}{ROWS}green,1,30,.5\n", {"arms": ["red", "blue"]}, "'green' in row 5", "name all"),
    ("banner,click\n07,1\n8,0\n", {"arms": [7, 8]}, "got '07' in row 2", "arms has 7", "alike"),
    ("banner,click\n7,1\n8,0\n", {"arms": ["7", "8"]}, "got 7 in row 2", "arms has '7'", "alike"),
    (f"{HEADER}{ROWS}red,yes,30,.5\n", {}, "column 'click'", "'yes', first in row 5", "numbers"),
    (f"{HEADER}{ROWS}red,1,NA,.5\n", FULL, "column 'age'", "nan in row 5", "fill it in"),
    (f"{HEADER}{ROWS}red,1,inf,.5\n", FULL, "column 'age'", "inf in row 5", "fill it in"),
    (f"{HEADER}{ROWS}red,1,30,1.5\n", FULL, "column 'p'", "(0, 1]", "1.5 in row 5", "chance of"),
    (
        f"{HEADER}{ROWS}red,1,old,.5\nred,1,young,.5\nblue,1,old,.5\nred,1,-,.5\nred,1,+,.5\n",
        FULL,
        "column 'age'",
        "'old', 'young', '-', first in row 5",
        "TableEncoder",
    ),
]


def test_a_refusal_names_the_row_and_what_to_do(write):
    check_refusals(lambda text, given: read_log(write(text), **COLUMNS, **given), REFUSALS)


def test_times_are_no_numbers():
    table = pd.DataFrame({"banner": ["a", "b"], "click": 1, "at": pd.Timestamp("2026-01-01")})
    for at in (table["at"], table["at"].astype("category"), table["at"].astype(object)):
        with pytest.raises(ValueError, match=r"column 'at' must .*2026.* in row 2; write hours"):
            read_log(table.assign(at=at), **COLUMNS, features=["at"])


def test_rows_that_repeat_are_counted_where_repetition_is_no_chance():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"banner": rng.integers(3, size=200), "click": rng.integers(2, size=200)})
    table["age"] = rng.normal(size=200).round(6)
    table["seen"] = [[1]] * 200
    table["shown"] = table["seen"].astype(pd.ArrowDtype(pa.list_(pa.int64())))
    for repeated, number in ((table.iloc[:7], 7), (table, 200)):
        told = rf"^{number} of {200 + number} rows .* column 'age'"
        with pytest.warns(UserWarning, match=told):
            assert len(read_log(pd.concat([table, repeated]), **COLUMNS)) == 200 + number


def test_rows_that_repeat_by_chance_are_not_counted():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"banner": rng.integers(3, size=60), "click": rng.integers(2, size=60)})
    by_age = table.assign(age=rng.integers(10, size=60))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        always = by_age.assign(banner=by_age["age"] % 3)
        many = [table, table.assign(click=0), by_age, always, always.assign(click=1)]
        for each in (*many, table.assign(age=range(60))):
            read_log(each, **COLUMNS)


def test_a_probability_that_rounding_took_above_1_is_1():
    log = Log([0, 1], [0, 1], ("a", "b"), propensities=[0.5, 1.0000000000000002])
    assert log.propensities.tolist() == [0.5, 1]
