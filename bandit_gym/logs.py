"""Logs of decisions: tables of pulled arms and rewards, read and checked, to learn from.

Notation: K arms, t rows, d features.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bandit_gym.checks import check_all, check_choice, check_object, message, shorten_repr
from bandit_gym.checks.files import read_frame
from bandit_gym.checks.typing import FloatArray, IntArray


@dataclass(frozen=True)
class Log:
    """Decisions in the order in which they were made.

    Attributes:
        actions: (t,) arms, from 0.
        rewards: (t,).
        arms: (K,) labels; `arms[i]` is arm i's.
        propensities: (t,) probabilities with which the actions were taken; None if not recorded.
        features: (t, d) of each row's visitor; None if there are none.
        num_dropped: rows of the table that had no reward.
    """

    actions: IntArray
    rewards: FloatArray
    arms: tuple[Hashable, ...]
    propensities: FloatArray | None = None
    features: FloatArray | None = None
    num_dropped: int = 0

    def __post_init__(self) -> None:
        """Make arrays; raise TypeError or ValueError for a wrong kind, shape or number."""
        kinds = {"actions": "iu", "rewards": "biuf", "propensities": "iuf", "features": "biuf"}
        for name, kind in kinds.items():
            given, is_action = getattr(self, name), name == "actions"
            if given is None:
                continue
            words, dtype = ("integers", np.int64) if is_action else ("numbers", np.float64)
            column = np.asarray(given)
            if column.dtype.kind not in kind:
                raise TypeError(message(f"log.{name}", f"be {words}", given))
            num_axes, shape = (2, "t, d") if name == "features" else (1, "t,")
            if column.shape[:1] != (len(self),) or column.ndim != num_axes:
                condition = f"have shape ({shape}), t = {len(self)} actions"
                raise ValueError(message(f"log.{name}", condition, column.shape))
            check_all(f"log.{name}", np.isfinite(column), f"be finite {words}", column)
            object.__setattr__(self, name, column.astype(dtype))
        is_arm = (self.actions >= 0) & (self.actions < self.num_arms)
        condition = f"be integers from 0 to {self.num_arms - 1}"
        check_all("log.actions", is_arm, condition, self.actions)
        if self.propensities is not None:
            is_chance = (self.propensities > 0) & (self.propensities <= 1)
            check_all("log.propensities", is_chance, "be in (0, 1]", self.propensities)

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def num_arms(self) -> int:
        """K."""
        return len(self.arms)

    @property
    def counts(self) -> IntArray:
        """(K,) rows of each arm."""
        return np.bincount(self.actions, minlength=self.num_arms)

    @property
    def sums(self) -> FloatArray:
        """(K,) total reward of each arm."""
        return np.bincount(self.actions, self.rewards, minlength=self.num_arms).astype(np.float64)


def read_log(
    source: Any,
    *,
    arm: str,
    reward: str,
    features: Sequence[str] | None = None,
    propensity: str | None = None,
    arms: Sequence[Hashable] | None = None,
) -> Log:
    """Read a log of decisions; rows without a reward are left out, with a warning that counts them.

    Args:
        source: a DataFrame, or the path of a CSV or Parquet file; a row for each decision, in
            order.
        arm: column of the arm's label: text, numbers from any start, or a categorical.
        reward: column of the reward.
        features: columns of the visitor's features.
        propensity: column of the probability with which the arm was chosen, in (0, 1].
        arms: all labels, arm 0 first. None: a categorical's, otherwise those met, sorted. An arm
            that was never pulled is in the log only if it is named here.

    Raises:
        TypeError: if the source is neither a table nor a path.
        ValueError: if a column is missing, a label is missing or not in `arms`, or a number is
            none.
    """
    table = read_frame("source", source).rename(columns=str)
    known = table.columns.drop_duplicates(keep=False)  # of two columns of a name, none is meant
    names = [] if features is None else np.atleast_1d(features).tolist()
    for name in (arm, reward, *names, *([propensity] if propensity else ())):
        check_choice("column", name, known)
    has_reward = table[reward].notna().to_numpy()
    num_dropped = int(np.count_nonzero(~has_reward))
    if num_dropped:
        text = f"{num_dropped:,} of {len(table):,} rows have no {reward!r} and are left out."
        warnings.warn(text, stacklevel=2)
    table = table[has_reward]
    if table.empty:
        raise ValueError(message("source", f"have a row with a {reward!r}", len(has_reward)))
    known_arms = pd.Categorical(table[arm]).categories if arms is None else pd.Index([*arms])
    labels = tuple(known_arms.tolist())
    if len(labels) < 2 or not known_arms.is_unique:
        raise ValueError(message("arms", "be at least 2 labels that differ", labels))
    actions = known_arms.get_indexer(table[arm])
    condition = f"have no labels but those of arms, {shorten_repr(labels)}"
    check_all(f"column {arm!r}", actions >= 0, condition, table[arm].to_numpy())
    chances = None if propensity is None else _read_numbers(table, [propensity])[:, 0]
    return Log(
        actions=actions.astype(np.int64),
        rewards=_read_numbers(table, [reward])[:, 0],
        arms=labels,
        propensities=chances,
        features=None if features is None else _read_numbers(table, names),
        num_dropped=num_dropped,
    )


def fit_propensities(log: Log, by: Any = None) -> Log:
    """Return the log with propensities: each arm's share of the rows, or of those of a group.

    It assumes that the policy that made the log chose at random with probabilities that depend on
    the group alone; where they depend on more, estimates from these propensities are biased.

    Args:
        log: without propensities.
        by: (t,) group of each row, such as a segment of visitors; rows where it is missing are a
            group too. None takes all rows as one.
    """
    check_log(log)
    groups = np.zeros(len(log)) if by is None else np.asarray(by, dtype=object)
    if groups.shape != (len(log),):
        raise ValueError(message("by", f"have one entry for each of {len(log)} rows", groups.shape))
    codes = pd.factorize(groups, use_na_sentinel=False)[0]
    shares = np.zeros((codes.max() + 1, log.num_arms))
    np.add.at(shares, (codes, log.actions), 1.0)
    shares /= shares.sum(axis=1, keepdims=True)
    return replace(log, propensities=shares[codes, log.actions])


def check_log(log: Any) -> None:
    """Refuse what is no log, and one without rows."""
    if not len(check_object("log", log, Log, "such as read_log returns")):
        raise ValueError(message("log", "have a row", 0))


def _read_numbers(table: pd.DataFrame, columns: Sequence[str]) -> FloatArray:
    """Return (t, C) finite numbers of columns."""
    values = np.empty((len(table), len(columns)))
    for i, name in enumerate(columns):
        column = table[name]  # time stamps would become counts of a unit, complex numbers be cut
        is_number = not (column.dtype.kind in "cmM" or isinstance(column.dtype, pd.PeriodDtype))
        values[:, i] = pd.to_numeric(column, errors="coerce") if is_number else np.nan
        is_finite, condition = np.isfinite(values[:, i]), "have finite numbers only"
        check_all(f"column {name!r}", is_finite, condition, column.to_numpy())
    return values
