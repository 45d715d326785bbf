"""From the columns of a table to numbers of visitors."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from refusals import check_refusals
from scipy import sparse
from surface import started

from bandit_gym.contexts import TableEncoder, disjoint
from bandit_gym.likelihoods import Gaussian
from bandit_gym.priors import Normal
from bandit_gym.problem import ContextualProblem

VISITORS = pd.DataFrame(
    {
        "age": [20, 30, np.nan, 40],
        "plan": ["pro", "free", None, "free"],
        "is_new": [True, False, True, True],
        "segment": pd.Categorical([2, 1, 2, None]),
    }
)
NAMES = ["age", "age is missing", "plan=free", "plan=pro", "plan is another", "plan is missing"]
NAMES += ["is_new=False", "is_new=True", "is_new is another", "is_new is missing"]
NAMES += ["segment=1", "segment=2", "segment is another", "segment is missing"]
FIRST = [-(1.5**0.5), 0, *(0, 1, 0, 0), *(0, 1, 0, 0), *(0, 1, 0, 0)]
THIRD = [0, 1, *(0, 0, 0, 1), *(0, 1, 0, 0), *(0, 1, 0, 0)]


def test_numbers_are_scaled_and_categories_have_a_place_each():
    encoder = TableEncoder()
    numbers = encoder.fit_transform(VISITORS)
    assert encoder.get_feature_names_out() == NAMES
    np.testing.assert_allclose(numbers[[0, 2]], [FIRST, THIRD])
    with_intercept = TableEncoder(intercept=True).fit(VISITORS)
    assert (with_intercept.transform(VISITORS) == np.column_stack([np.ones(4), numbers])).all()
    assert with_intercept.get_feature_names_out() == ["intercept", *NAMES]


def test_decimals_of_a_data_base_are_numbers():
    prices = [Decimal("1.50"), None, Decimal("4.50")]
    found = TableEncoder().fit_transform(pd.DataFrame({"price": prices}))
    assert found.tolist() == [[-1, 0], [0, 1], [1, 0]]


def test_other_categories_and_missing_values_go_to_their_places_in_any_order_of_columns(tmp_path):
    fitted = TableEncoder().fit(VISITORS)
    fitted.save(tmp_path / "encoder.json")
    encoder = TableEncoder.load(tmp_path / "encoder.json")
    visitor = {"segment": 3, "plan": "gold", "town": "Rome", "is_new": None, "age": None}
    [numbers] = encoder.transform(pd.DataFrame([visitor]))
    places = {NAMES[place] for place in np.flatnonzero(numbers)}
    assert places == {NAMES[1], NAMES[4], NAMES[9], NAMES[12]}
    in_another_order = VISITORS[["plan", "segment", "age", "is_new"]]
    assert (encoder.transform(in_another_order) == fitted.transform(VISITORS)).all()


NO_VISITORS = [
    ({"age": ["x"] * 4}, "column 'age' must have numbers only, got 'x' in row 2"),
    ({"age": np.inf}, "column 'age' must have finite numbers only, got inf in row 2"),
    ({"age": ["1e3"] * 4}, "column 'age' must have numbers only, got '1e3' in row 2; the same"),
    ({"age": True}, "column 'age' must have numbers only, got True in row 2; the same kind"),
    ({"age": [10**400] * 4}, "column 'age' must have finite numbers only, got 1000"),
    ({"plan": ["free", 3, None, "pro"]}, "column 'plan' must have text only, got 3 in row 3;"),
    ({"is_new": 1}, "column 'is_new' must have booleans only, got 1 in row 2;"),
    ({"segment": ["2"] * 4}, "column 'segment' must have numbers only, got '2' in row 2;"),
]
NO_FEATURES = [
    (VISITORS.assign(plan=column), "column 'plan' must have", text)
    for column, text in [
        (pd.date_range("2020", periods=4), "numbers, booleans or text only, got Timest"),
        ([[1], 2, 3, 4], "numbers, booleans or text only, got [1] in row 2; write hours"),
        ([None] * 4, "a value, got None; leave it out."),
        (["a", 1, "b", "c"], "text only, got 1 in row 3; the same kind in all tables."),
        ([1e200, -1e200, 3, 3], "numbers with a mean and a deviation, got 1e+200; scale it."),
        ([1e-320, 0, 0, 0], "numbers with a mean and a deviation, got 1e-320; scale it."),
    ]
]
NO_FEATURES += [
    (VISITORS.rename(columns={"plan": "age"}), "table must have one column of each name, got 'age"),
    (pd.DataFrame({"id": [f"{i}" for i in range(101)]}), "'id' must have at most 100 categories"),
]


def test_tables_and_files_that_do_not_serve_are_refused(tmp_path):
    (tmp_path / "other.json").write_text('{"intercept": false, "columns": {"age": 3}}')
    encoder = TableEncoder().fit(VISITORS)
    check_refusals(lambda given: encoder.transform(VISITORS.assign(**given)), NO_VISITORS)
    lacking = VISITORS.drop(columns="age"), "table must have the column 'age', as in fit, got ['pl"
    check_refusals(encoder.transform, [lacking])
    check_refusals(TableEncoder().fit, NO_FEATURES)
    early = VISITORS, "TableEncoder must be given a table by fit first"
    check_refusals(TableEncoder().transform, [early])
    other = tmp_path / "other.json", "path must lead to a file that TableEncoder.save has written"
    check_refusals(TableEncoder.load, [other])


def test_sparse_features_are_those_that_they_stand_for():
    problem = ContextualProblem(Gaussian(1.0), Normal(0.0, 1.0), 2, 6)
    features = disjoint([0.5, 0.0], 2)
    agents = [started("exact", problem) for _ in range(2)]
    for agent, form in zip(agents, (np.array, sparse.csr_array), strict=True):
        agent.act(form(features))
        agent.observe(1, 2.0, observation=form(features))
    dense, filled = (agent.posterior(features).mean().tolist() for agent in agents)
    assert dense == filled
    assert (disjoint(sparse.csr_array([[0.5, 0.0]]), 2) == features).all()


def test_columns_that_scikit_learn_has_encoded_are_taken():
    compose = pytest.importorskip("sklearn.compose")
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    columns = [("numbers", StandardScaler(), ["age"]), ("labels", OneHotEncoder(), ["plan"])]
    table = VISITORS.dropna()
    for threshold in (0.0, 1.0):  # dense, and sparse
        encoder = compose.ColumnTransformer(columns, sparse_threshold=threshold)
        x = encoder.fit_transform(table)
        assert sparse.issparse(x) == bool(threshold)
        np.testing.assert_allclose(disjoint(x, 2)[0, 0], [1, -1, 0, 1, 0, 0, 0, 0])


@pytest.mark.parametrize("value", [0.1, 1e9 + 0.1])
def test_a_column_of_one_value_is_not_scaled_by_rounding(value):
    """A deviation of 1e-17 made 7e15 of another value."""
    encoder = TableEncoder().fit(pd.DataFrame({"a": [value] * 1000}))
    assert encoder.transform(pd.DataFrame({"a": [value + 2.0]}))[0, 0] == pytest.approx(2.0)


@pytest.mark.parametrize(
    "table",
    [
        {"plan": ["a", None, "b"]},
        {"plan": ["a", "b", None]},
        {"plan": ["a", "b", None], "age": [1.0, 2.0, None]},
        {"plan": ["NA", "EU", "null"], "age": [1.0, None, 2.0]},
    ],
)
def test_a_visitor_of_a_csv_file_is_that_of_its_table(tmp_path, table):
    """Those with empty cells only were left out, and these words were missing."""
    table = pd.DataFrame(table)
    encoder = TableEncoder().fit(table)
    for number in range(4):  # all, or one of them alone
        visitors = table if number == 3 else table.iloc[[number]]
        visitors.to_csv(tmp_path / "visitors.csv", index=False)
        found = encoder.transform(tmp_path / "visitors.csv")
        assert found.tolist() == encoder.transform(visitors).tolist()
    assert TableEncoder().fit(tmp_path / "visitors.csv").columns == encoder.columns
