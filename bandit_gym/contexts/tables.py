"""Tables of visitors: features, and the reward that each arm would have paid, one row a visitor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bandit_gym.checks import check_choice, check_numbers, message, quote_words
from bandit_gym.checks.files import read_frame
from bandit_gym.checks.typing import FloatArray, IntArray
from bandit_gym.contexts.blocks import add_intercept, put_in_both_blocks, put_in_own_block

BLOCKS = {"disjoint": put_in_own_block, "hierarchical": put_in_both_blocks}
"""How a visitor's numbers become features of each arm, with an intercept."""


class VisitorTable(NamedTuple):
    """Rows to play.

    Attributes:
        features: (T, p) numbers of visitors, or (T, K, d) features of each arm.
        rewards: (T, K).
        contexts: a name of `BLOCKS`, which (T, p) features need.
    """

    features: FloatArray
    rewards: FloatArray
    contexts: str

    def place(self, numbers: IntArray) -> FloatArray:
        """Return the (M, K, d) features of each arm in the (M,) rows of these numbers."""
        found = self.features[numbers]
        if found.ndim == 3:
            return found
        return BLOCKS[self.contexts](add_intercept(found), self.rewards.shape[1])

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest number among the features; blocks bring 0 and 1."""
        return min(float(self.features.min()), 0.0), max(float(self.features.max()), 1.0)


def read_table(features: Any, rewards: Any, table: Any, contexts: str) -> VisitorTable:
    """Return the rows of a table that is given in any form.

    Args:
        features: (T, p) or (T, K, d) numbers; of a `table` names of columns, None for all others.
        rewards: (T, K) numbers; of a `table` the names of K columns.
        table: None, a `pandas.DataFrame`, or the path of a .parquet or .csv file.
        contexts: a name of `BLOCKS`, which (T, K, d) features do not need.

    Raises:
        TypeError: if features or rewards are no numbers.
        ValueError: if a column is missing, shapes do not fit, or a number is infinite or NaN.
    """
    check_choice("contexts", contexts, BLOCKS)
    if table is not None:
        features, rewards = _choose_columns(read_frame("table", table), features, rewards)
    visitors, paid = check_numbers("features", features), check_numbers("rewards", rewards)
    if paid.ndim != 2 or paid.shape[1] < 2 or not len(paid):
        raise ValueError(message("rewards", "have a row for each visitor and 2 arms or more", paid))
    if visitors.shape[:-1] not in (paid.shape[:1], paid.shape) or 0 in visitors.shape:
        num_rows, num_arms = paid.shape
        condition = f"have shape ({num_rows}, p) or ({num_rows}, {num_arms}, d), as rewards have"
        raise ValueError(message("features", condition, visitors.shape))
    if not (np.isfinite(visitors).all() and np.isfinite(paid).all()):
        raise ValueError(message("features and rewards", "be finite", np.inf))
    return VisitorTable(visitors, paid, contexts)


def _choose_columns(frame: Any, features: Any, rewards: Any) -> tuple[FloatArray, FloatArray]:
    """Return the numbers of two lists of columns."""
    if features is None and isinstance(rewards, Sequence):
        features = [name for name in frame.columns if name not in rewards]
    for kind, names in (("rewards", rewards), ("features", features)):
        is_named = isinstance(names, Sequence) and not isinstance(names, str)
        if not is_named or not {*names} <= {*frame.columns}:
            condition = f"be a list of names of columns, of {quote_words(map(str, frame.columns))}"
            raise ValueError(message(kind, condition, names))
    return frame[list(features)].to_numpy(), frame[list(rewards)].to_numpy()
