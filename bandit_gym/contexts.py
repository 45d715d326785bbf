"""How the features of arms arise: drawn, of a user's visitors, or from a table.

`disjoint` and `hierarchical` turn a visitor's vector into the features of each arm, in blocks of
coefficients. Drawn features come anew at each step, by name or from a user's own function. A table
has features and the reward that each arm would have paid, one row a visitor. `TableEncoder` makes
the numbers of visitors from columns of any kind.

Notation: M lanes, K arms, p entries of a visitor's vector with the intercept, d features of an arm,
T rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from decimal import Decimal
from functools import partial
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.random import Generator

from bandit_gym.checks import (
    call_method,
    check_all,
    check_callback,
    check_choice,
    check_file,
    check_integer,
    check_numbers,
    check_path,
    load_named,
    message,
    quote_words,
)
from bandit_gym.checks.typing import FloatArray, IntArray
from bandit_gym.files import to_json, write_atomically
from bandit_gym.numerics.streams import make_generator

if TYPE_CHECKING:
    import pandas as pd  # which is slow to start

__all__ = ["TableEncoder", "disjoint", "hierarchical"]

# -- Blocks of coefficients ------------------------------------------------------------------------


def disjoint(x: Any, num_arms: int, intercept: bool = True) -> FloatArray:
    """Return (..., K, d) features that give each arm a block of coefficients of its own.

    Arm a has the visitor's vector in block a and zeros elsewhere, so that the mean of an arm says
    nothing of another arm's.

    Args:
        x: (...,) numbers of each visitor on the last axis; other axes are several visitors.
        num_arms: K, at least 2.
        intercept: whether each block begins with a 1 before the visitor's numbers.

    Returns:
        (..., K, d) features, d = K p.

    Raises:
        TypeError: if x is not made of numbers.
        ValueError: if x is infinite or NaN, or has no numbers and there is no intercept.
    """
    return lay_out("disjoint", *_check_visitors(x, num_arms, intercept))


def hierarchical(x: Any, num_arms: int, intercept: bool = True) -> FloatArray:
    """Return (..., K, d) features that give all arms one block, and each arm one of its own.

    The coefficients of arm a are those of the shared block, first, plus those of block a: with
    independent priors, a hierarchical model of arms that resemble each other.

    Args:
        x: (...,) numbers of each visitor on the last axis; other axes are several visitors.
        num_arms: K, at least 2.
        intercept: whether each block begins with a 1 before the visitor's numbers.

    Returns:
        (..., K, d) features, d = (K + 1) p.

    Raises:
        TypeError: if x is not made of numbers.
        ValueError: if x is infinite or NaN, or has no numbers and there is no intercept.
    """
    return lay_out("hierarchical", *_check_visitors(x, num_arms, intercept))


def _check_visitors(x: Any, num_arms: Any, intercept: bool) -> tuple[FloatArray, int]:
    """Return (..., p) finite numbers of visitors, with the intercept, and K."""
    vectors = check_numbers("x", x, "biuf")
    num_arms = check_integer("num_arms", num_arms, minimum=2)
    check_all("x", np.isfinite(vectors), "be finite", vectors)
    if vectors.ndim == 0 or vectors.shape[-1] + bool(intercept) == 0:
        raise ValueError(message("x", "have a last axis of features", x))
    return add_intercept(vectors) if intercept else vectors, num_arms


def add_intercept(vectors: FloatArray) -> FloatArray:
    """Return (..., p) numbers of which the first is 1 and the others are the given ones."""
    return np.concatenate([np.ones((*vectors.shape[:-1], 1)), vectors], axis=-1)


def lay_out(
    layout: str, vectors: FloatArray, num_arms: int, arms: IntArray | None = None
) -> FloatArray:
    """Return the (..., K, d) features of all arms, or the (..., d) features of one arm each.

    Args:
        layout: a name of `BLOCKS`.
        vectors: (..., p) numbers of visitors, with the intercept.
        num_arms: K.
        arms: (...,) arms whose features are wanted; None for all of each visitor.
    """
    if arms is None:
        vectors, arms = vectors[..., None, :], np.arange(num_arms)
    num_shared = count_coefficients(layout, num_arms, 1) - num_arms
    blocks = np.arange(num_arms + num_shared)
    is_used = (blocks == arms[..., None] + num_shared) | (blocks < num_shared)
    features = np.where(is_used[..., None], vectors[..., None, :], 0.0)
    return features.reshape(*features.shape[:-2], len(blocks) * vectors.shape[-1])


def find_layout(features: FloatArray) -> str | None:
    """Return the layout in which (N, K, d) features show one visitor to all arms; None if none."""
    *_, num_arms, num_features = features.shape
    for layout in BLOCKS if num_arms else ():
        size, rest = divmod(num_features, count_coefficients(layout, num_arms, 1))
        if not rest:
            visitors = features[..., -1, -size:]  # the last arm's own block is the last
            if (lay_out(layout, visitors, num_arms) == features).all():
                return layout
    return None


BLOCKS = {"disjoint": disjoint, "hierarchical": hierarchical}
"""How a visitor's numbers become features of each arm."""

# -- Drawn features --------------------------------------------------------------------------------

DEVIATION, DEVIATION_OF_LOG = 2.0, 0.5
"""Of linear predictors under coefficients of unit variance; the second under a log link, where a
larger one makes a few visitors pay for all. Wider priors make wider predictors."""

MAX_FEATURE = 1e6
"""Of features that are drawn: checkers of environments ask for ends of their space."""

Draw = Callable[[Sequence[Generator], int, int], FloatArray]
"""From the generators of M lanes, K and d to (M, K, d) features."""

UserDraw = Callable[[Generator, int, int], FloatArray]
"""From one generator, K and d to (K, d) features."""


def _draw_normal(
    name: str, scale: float, rngs: Sequence[Generator], num_arms: int, num_features: int
) -> FloatArray:
    """Draw a visitor for all arms, in the blocks of that name, or each arm's features alone."""
    size = num_features // count_coefficients(name, num_arms, 1)
    shape = (size - 1,) if name in BLOCKS else (num_arms, size)
    drawn = np.empty((len(rngs), *shape))
    for rng, out in zip(rngs, drawn, strict=True):
        rng.standard_normal(out=out)
    features = BLOCKS[name](drawn, num_arms) if name in BLOCKS else drawn
    num_blocks_of_arm = 2 if name == "hierarchical" else 1
    return scale * (features / np.sqrt(num_blocks_of_arm * size))


CONTEXTS: dict[str, Callable[..., FloatArray]] = {
    name: partial(_draw_normal, name) for name in ("normal", "fixed", *BLOCKS)
}
"""By name, "fixed" once an episode; linear predictors have the deviation `scale` under coefficients
of unit variance."""


def count_coefficients(contexts: Any, num_arms: int, num_features: int) -> int:
    """Return d, where each block of coefficients has `num_features`; other arguments unchecked."""
    num_blocks = {"disjoint": num_arms, "hierarchical": num_arms + 1}
    return num_features * (num_blocks.get(contexts, 1) if isinstance(contexts, str) else 1)


def count_numbers(layout: str, num_arms: int, num_features: int) -> int:
    """Return p, the numbers of a block, with the intercept, or refuse a d that has no such blocks.

    Raises:
        ValueError: if d is no multiple of the number of blocks.
    """
    if num_features % (blocks := count_coefficients(layout, num_arms, 1)):
        condition = f"be a multiple of {blocks}, a block for each, under {layout} contexts"
        raise ValueError(message("num_features", condition, num_features))
    return num_features // blocks


def make_contexts(contexts: Any, num_arms: int, num_features: int, link: str) -> Draw:
    """Return what draws features, by name, as `module:name`, or as a function.

    Args:
        contexts: a name of `CONTEXTS`, or a user's `(rng, num_arms, num_features) -> (K, d)`.
        num_arms: K.
        num_features: d.
        link: name of the link, which decides how large features are.

    Raises:
        TypeError: if it is neither a name nor a function.
        ValueError: if the name is unknown, d does not fit the blocks, or a user's function returns
            something else than (K, d) numbers within [-1e6, 1e6].
    """
    if isinstance(contexts, str) and ":" in contexts:
        contexts = load_named("contexts", contexts)
    if not isinstance(contexts, str):
        check_callback("contexts", contexts)
        _draw_checked(contexts, [make_generator("trial of contexts")], num_arms, num_features)
        return partial(_draw_checked, contexts)
    draw = CONTEXTS[check_choice("contexts", contexts, CONTEXTS)]
    count_numbers(contexts, num_arms, num_features)
    return partial(draw, DEVIATION_OF_LOG if link == "log" else DEVIATION)


def _draw_checked(
    draw: UserDraw, rngs: Sequence[Generator], num_arms: int, num_features: int
) -> FloatArray:
    """Return what a user's function draws for each lane, if it is (K, d) features."""
    name, shape = "contexts(rng, num_arms, num_features)", (num_arms, num_features)
    features = np.stack([call_method(name, shape, draw, rng, *shape) for rng in rngs])
    condition = f"return numbers within [{-MAX_FEATURE:g}, {MAX_FEATURE:g}]"
    check_all(name, np.abs(features) <= MAX_FEATURE, condition, features)
    return features


# -- Tables of visitors ----------------------------------------------------------------------------


class VisitorTable:
    """The rows of a table that is given in any form.

    Args:
        features: (T, p) or (T, K, d) numbers; of a `table` names of columns, None for all others.
        rewards: (T, K) numbers; of a `table` the names of K columns.
        table: None, a `pandas.DataFrame`, or the path of a .parquet or .csv file.
        contexts: a name of `BLOCKS`, which (T, K, d) features do not need; an intercept is added.

    Attributes:
        features: (T, p) numbers of visitors, or (T, K, d) features of each arm.
        rewards: (T, K).

    Raises:
        TypeError: if features or rewards are no numbers.
        ValueError: if a column is missing, shapes do not fit, or a number is infinite or NaN.
    """

    def __init__(self, features: Any, rewards: Any, table: Any, contexts: str) -> None:
        self._put_in_blocks = BLOCKS[check_choice("contexts", contexts, BLOCKS)]
        if table is not None:
            features, rewards = _read_columns(table, features, rewards)
        visitors = check_numbers("features", features, "biuf")
        paid = check_numbers("rewards", rewards, "biuf")
        if paid.ndim != 2 or paid.shape[1] < 2 or not len(paid):
            condition = "have a row for each visitor and 2 arms or more"
            raise ValueError(message("rewards", condition, paid))
        if visitors.shape[:-1] not in (paid.shape[:1], paid.shape) or 0 in visitors.shape:
            num_rows, num_arms = paid.shape
            condition = f"have shape ({num_rows}, p) or ({num_rows}, {num_arms}, d), as rewards"
            raise ValueError(message("features", condition, visitors.shape))
        if not (np.isfinite(visitors).all() and np.isfinite(paid).all()):
            raise ValueError(message("features and rewards", "be finite", np.inf))
        self.features, self.rewards = visitors, paid

    def place(self, numbers: IntArray) -> FloatArray:
        """Return the (M, K, d) features of each arm in the (M,) rows of these numbers."""
        rows = self.features[numbers]
        return rows if rows.ndim == 3 else self._put_in_blocks(rows, self.rewards.shape[1])

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest number among the features; blocks bring 0 and 1."""
        return min(float(self.features.min()), 0.0), max(float(self.features.max()), 1.0)


def _read_columns(table: Any, features: Any, rewards: Any) -> tuple[FloatArray, FloatArray]:
    """Return the numbers of two lists of columns."""
    from bandit_gym.tables import read_numbers, read_table  # with pandas, which is slow to start

    frame = read_table("table", table)
    remedy = "list the others as features=[...]" if features is None else ""
    if features is None and isinstance(rewards, Sequence) and not isinstance(rewards, str):
        features = [name for name in frame.columns if name not in rewards]
        if "Unnamed: 0" in features:  # where `to_csv` has written the numbers of the rows
            way_out = "the table has its index as a column: leave that out, or name the features"
            raise ValueError(message("features", "be columns with names", "Unnamed: 0", way_out))
    for kind, names in (("rewards", rewards), ("features", features)):
        is_named = isinstance(names, Sequence) and not isinstance(names, str)
        if not is_named or not all(isinstance(name, Hashable) and name in frame for name in names):
            condition = f"be a list of names of columns, of {quote_words(map(str, frame.columns))}"
            raise ValueError(message(kind, condition, names))
        for name in names:
            if frame[name].ndim > 1:
                raise ValueError(message(kind, "be names of one column each", name))
    return read_numbers(frame, features, remedy), read_numbers(frame, rewards)


# -- From columns to numbers -----------------------------------------------------------------------

MAX_CATEGORIES = 100
"""Of a column, each of which takes a coefficient of every arm; a number of a customer has more."""

KINDS = {bool: "booleans", Real: "numbers", str: "text"}
"""What the categories of a column may be: the first that fits, as a boolean is a Real too."""


class TableEncoder:
    """Numbers of each visitor from columns of numbers, booleans, text and categories.

    A column of numbers becomes its deviation from the mean, in standard deviations of the rows of
    `fit`, and whether it is missing, where the first is 0. Any other column becomes one number for
    each category that was there, which is 1 for that of the visitor, one for all other categories,
    and one for a missing one. Where a number was 0 in all rows, an agent has the prior of its
    coefficients.

    Args:
        intercept: whether a 1 comes first. `disjoint` and `hierarchical` bring one of their own.

    Attributes:
        columns: what was learned of each column, by name: `mean` and `std`, or `categories`.
    """

    columns: dict[str, dict[str, Any]]

    def __init__(self, *, intercept: bool = False) -> None:
        self.intercept, self.columns = bool(intercept), {}

    def fit(self, table: Any) -> Self:
        """Learn means, deviations and categories.

        Args:
            table: a `pandas.DataFrame` of the columns to use, a row for each visitor; or the path
                of a .csv or .parquet file.

        Raises:
            TypeError: if it is neither.
            ValueError: if two columns have one name, or a column has no value, times, lists,
                infinite numbers, values of two kinds, or more than 100 categories.
        """
        frame = _read_visitors(table)
        if not frame.size:
            raise ValueError(message("table", "have a row and a column", frame.shape))
        self.columns = {name: _learn_column(frame[name]) for name in frame}
        return self

    def transform(self, table: Any) -> FloatArray:
        """Return the (n, p) numbers of n visitors, whose columns may come in any order.

        Args:
            table: as for `fit`; columns that `fit` did not see are not read.

        Raises:
            TypeError: if it is no table.
            ValueError: before `fit`, or if a column is missing, or has values of another kind than
                in `fit`, or infinite numbers.
        """
        columns = self._known_columns().items()
        texts = [
            name for name, known in columns if isinstance(known.get("categories", [0])[0], str)
        ]
        frame = _read_visitors(table, texts)
        numbers = [np.ones((len(frame), 1))] if self.intercept else []
        for name, known in columns:
            if name not in frame:
                condition = f"have the column {name!r}, as in fit"
                raise ValueError(message("table", condition, frame.columns.tolist()))
            numbers.append(_encode_column(frame[name], known))
        return np.concatenate(numbers, axis=1)

    def fit_transform(self, table: Any) -> FloatArray:
        """Return the (n, p) numbers of the rows that are learned from."""
        return self.fit(table).transform(table)

    def get_feature_names_out(self) -> list[str]:
        """Return the p names of the numbers, such as 'age', 'plan=free' and 'plan is missing'."""
        names = ["intercept"] if self.intercept else []
        for name, known in self._known_columns().items():
            categories = known.get("categories")
            own = [name] if categories is None else [f"{name}={each}" for each in categories]
            others = [] if categories is None else [f"{name} is another"]
            names += [*own, *others, f"{name} is missing"]
        return names

    def save(self, path: str | Path) -> None:
        """Write what was learned into a JSON file, which replaces one that is there."""
        content = {"intercept": self.intercept, "columns": self._known_columns()}
        write_atomically(check_file("path", path), to_json(content))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the encoder that `save` has written.

        Raises:
            OSError: if there is no such file.
            ValueError: if it is another one.
        """
        path = check_path("path", path)
        try:
            content = json.loads(path.read_bytes())
            encoder = cls(intercept=content["intercept"])
            encoder.columns = dict(content["columns"])
            encoder.get_feature_names_out()
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            condition = "lead to a file that TableEncoder.save has written"
            raise ValueError(message("path", condition, str(path))) from error
        return encoder

    def _known_columns(self) -> dict[str, dict[str, Any]]:
        if not self.columns:
            raise ValueError("TableEncoder must be given a table by fit first, got none.")
        return self.columns


def _read_visitors(table: Any, texts: Sequence[str] = ()) -> pd.DataFrame:
    from bandit_gym.tables import read_table  # with pandas, which is slow to start

    frame = read_table("table", table, texts=texts).rename(columns=str)
    if not frame.columns.is_unique:
        repeated = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(message("table", "have one column of each name", repeated))
    return frame


def _learn_column(column: pd.Series) -> dict[str, Any]:
    """Return the mean and deviation of numbers, or the sorted categories."""
    present = column[column.notna()].infer_objects()
    name = f"column {column.name!r}"
    if present.empty:
        raise ValueError(message(name, "have a value", None, "leave it out"))
    if present.dtype.kind in "iuf" or present.map(type).eq(Decimal).all():
        numbers = _read_numbers(present)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, std = float(numbers.mean()), float(numbers.std())
            std = std if np.ptp(numbers) > 0 else 1.0  # equal ones vary by rounding
        if not (np.isfinite(mean) and 0 < std < np.inf):
            condition = "have numbers with a mean and a deviation"
            raise ValueError(message(name, condition, numbers[abs(numbers).argmax()], "scale it"))
        return {"mean": mean, "std": std}
    categories = sorted({*_read_categories(present, present.iloc[0])})
    if len(categories) > MAX_CATEGORIES:
        condition = f"have at most {MAX_CATEGORIES} categories"
        raise ValueError(message(name, condition, len(categories), "leave it out, or join some"))
    return {"categories": categories}


def _encode_column(column: pd.Series, known: dict[str, Any]) -> FloatArray:
    """Return the (n, q) numbers of one column, of which the last is whether it is missing."""
    is_present = column.notna().to_numpy()
    present = column if is_present.all() else column[is_present]
    rows = np.flatnonzero(is_present)
    categories: list[Any] = known.get("categories", [])
    numbers = np.zeros((len(column), len(categories) + 2))  # beside them other ones, or the number
    numbers[~is_present, -1] = 1.0
    if categories:
        place = {category: i for i, category in enumerate(categories)}
        found = _read_categories(present, categories[0])
        numbers[rows, [place.get(category, len(categories)) for category in found]] = 1.0
    else:
        numbers[rows, 0] = (_read_numbers(present) - known["mean"]) / known["std"]
    return numbers


def _read_numbers(column: pd.Series) -> FloatArray:
    """Return (n,) finite numbers; the column of a single visitor may be one of objects."""
    from bandit_gym.tables import read_numbers

    if column.dtype.kind in "iuf" and np.isfinite(numbers := column.to_numpy(np.float64)).all():
        return numbers  # in a twentieth of the time, for a visitor who waits
    if column.dtype.kind == "b" or column.map(type).isin((bool, np.bool_, str)).any():
        _read_categories(column, 0.0)  # refuses them
    return read_numbers(column.to_frame(), [column.name], "leave other cells empty")[:, 0]


def _read_categories(column: pd.Series, example: Any) -> list[Any]:
    """Return booleans, numbers or texts, all of the kind of the example."""
    from bandit_gym.tables import check_cells

    values = [each.item() if isinstance(each, np.generic) else each for each in column]
    kinds = np.array([_name_kind(each) for each in values], dtype=object)
    wanted = _name_kind(example)
    condition = f"have {wanted or 'numbers, booleans or text'} only"
    remedy = "the same kind in all tables" if wanted else "write hours since a start for a time"
    check_cells(column, (kinds == wanted) & bool(wanted), condition, remedy)
    return values


def _name_kind(value: Any) -> str:
    """Return the kind of a category; nothing if it is none."""
    plain = value.item() if isinstance(value, np.generic) else value
    return next((word for kind, word in KINDS.items() if isinstance(plain, kind)), "")
