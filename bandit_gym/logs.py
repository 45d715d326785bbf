"""Logs of decisions: tables of pulled arms and rewards, read and checked, to learn from.

Notation: K arms, t rows, d features.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bandit_gym.checks import check_all, check_choice, check_object, message, shorten_repr
from bandit_gym.checks.typing import BoolArray, FloatArray, IntArray
from bandit_gym.tables import check_cells, read_numbers, read_table

MAX_PROPENSITY = 1 + 1e-9
"""Probabilities that were added up may be above 1 by rounding; they are 1."""

MAX_ROUNDING = 1e-4
"""By which a row's probabilities may miss a sum of 1, as where a table has four digits."""


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
        probabilities: (t, K) of all arms when the action was drawn, 0 where an arm was not there.
            Rows that sum to 1 within 1e-4 are normalised; propensities are the actions' own.
    """

    actions: IntArray
    rewards: FloatArray
    arms: tuple[Hashable, ...]
    propensities: FloatArray | None = None
    features: FloatArray | None = None
    num_dropped: int = 0
    probabilities: FloatArray | None = None

    def __post_init__(self) -> None:
        """Make arrays; raise TypeError or ValueError for a wrong kind, shape or number."""
        kinds = {"actions": "iu", "rewards": "biuf", "features": "biuf"}
        for name in ("actions", "rewards", "propensities", "features", "probabilities"):
            given, is_action = getattr(self, name), name == "actions"
            if given is None:
                continue
            words, dtype = ("integers", np.int64) if is_action else ("numbers", np.float64)
            column = np.asarray(given)
            if column.dtype.kind not in kinds.get(name, "iuf") or not column.ndim:
                raise TypeError(message(f"log.{name}", f"be {words}", given))
            shapes = {"features": (2, "t, d"), "probabilities": (2, "t, K")}
            num_axes, shape = shapes.get(name, (1, "t,"))
            if column.shape[:1] != (len(self),) or column.ndim != num_axes:
                condition = f"have shape ({shape}), t = {len(self)} actions"
                raise ValueError(message(f"log.{name}", condition, column.shape))
            check_all(f"log.{name}", np.isfinite(column), f"be finite {words}", column)
            object.__setattr__(self, name, column.astype(dtype))
        is_arm = (self.actions >= 0) & (self.actions < self.num_arms)
        condition = f"be integers from 0 to {self.num_arms - 1}"
        check_all("log.actions", is_arm, condition, self.actions)
        if self.probabilities is not None:
            self._take_probabilities(self.probabilities)
        if self.propensities is not None:
            is_chance = (self.propensities > 0) & (self.propensities <= MAX_PROPENSITY)
            check_all("log.propensities", is_chance, "be in (0, 1]", self.propensities)
            object.__setattr__(self, "propensities", np.minimum(self.propensities, 1.0))

    def _take_probabilities(self, given: FloatArray) -> None:
        """Keep normalised probabilities, and the actions' own as propensities."""
        if given.shape[1] != self.num_arms:
            condition = f"have shape (t, K), K = {self.num_arms} arms"
            raise ValueError(message("log.probabilities", condition, given.shape))
        rows = np.arange(len(self))
        probabilities = _normalise("log.probabilities", given, self.actions, rows)
        own = probabilities[rows, self.actions]
        if self.propensities is not None:
            is_own = abs(self.propensities - own) <= MAX_ROUNDING
            condition = "be the actions' own log.probabilities"
            check_all("log.propensities", is_own, condition, self.propensities, rows=rows)
        object.__setattr__(self, "probabilities", probabilities)
        object.__setattr__(self, "propensities", own)

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

    @property
    def squares(self) -> FloatArray:
        """(K,) squares of each arm's rewards around their average, added up."""
        off = self.rewards - (self.sums / np.maximum(self.counts, 1))[self.actions]
        return np.bincount(self.actions, off * off, minlength=self.num_arms).astype(np.float64)


def read_log(
    source: Any,
    *,
    arm: str,
    reward: str,
    features: Sequence[str] | None = None,
    propensity: str | None = None,
    probabilities: Mapping[Hashable, str] | None = None,
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
        probabilities: column of each arm's probability by its label, all of which sum to 1 in a
            row. An empty cell is an arm that was not there, 0.
        arms: all labels, arm 0 first. None: those of `probabilities`, a categorical's, otherwise
            those met, sorted. An arm that was never pulled is in the log only if it is named.

    Raises:
        TypeError: if the source is neither a table nor a path.
        ValueError: if a column is missing, a label is missing or not in `arms`, a number is none,
            or probabilities do not sum to 1 or have 0 for the row's arm.
    """
    table = read_table("source", source, label=arm).rename(columns=str)
    known = table.columns.drop_duplicates(keep=False)  # of two columns of a name, none is meant
    names = [] if features is None else np.atleast_1d(features).tolist()
    named: Any = probabilities or {}
    if not isinstance(named, Mapping):
        condition = "be a dict, the column of each arm's label"
        raise TypeError(message("probabilities", condition, named))
    columns = dict(named)
    if columns and propensity is not None:
        raise ValueError(message("propensity", "be None where probabilities are given", propensity))
    arms = [*columns] if arms is None and columns else arms
    for name in (arm, reward, *names, *([propensity] if propensity else ()), *columns.values()):
        check_choice("column", name, known)
    _warn_of_repeated_rows(table[known], arm)
    has_reward = table[reward].notna().to_numpy()
    num_dropped = int(np.count_nonzero(~has_reward))
    if num_dropped:
        text = f"{num_dropped:,} of {len(table):,} rows have no {reward!r} and are left out."
        warnings.warn(text, stacklevel=2)
    table = table[has_reward]
    if table.empty:
        raise ValueError(message("source", f"have a row with a {reward!r}", len(has_reward)))
    actions, labels = _read_arms(table[arm], arms)
    if columns and {*columns} != {*labels}:
        condition = f"have a column for each of the arms, {shorten_repr(labels)}"
        raise ValueError(message("probabilities", condition, columns))
    chances = None
    if propensity is not None:
        chances = read_numbers(table, [propensity])[:, 0]
        is_chance = (chances > 0) & (chances <= MAX_PROPENSITY)
        check_cells(table[propensity], is_chance, "be in (0, 1]", "it is the chance of the arm")
    shares = None
    if columns:
        shares = _read_probabilities(table, [columns[label] for label in labels], actions)
    return Log(
        actions=actions,
        rewards=read_numbers(table, [reward])[:, 0],
        arms=labels,
        propensities=chances,
        features=None if features is None else read_numbers(table, names),
        num_dropped=num_dropped,
        probabilities=shares,
    )


def _read_arms(
    column: pd.Series, arms: Sequence[Hashable] | None
) -> tuple[IntArray, tuple[Hashable, ...]]:
    """Return (t,) arms, and the labels of all."""
    if isinstance(arms, Set):
        raise TypeError(message("arms", "be in an order, as a list is", arms))
    way_out = "fill it in, or leave the row out"
    check_cells(column, column.notna().to_numpy(), "have a label in each row", way_out)
    if column.dtype == np.float16:  # of which pandas has no index
        column = column.astype(np.float64)
    if column.dtype == object:
        is_label = column.map(lambda label: isinstance(label, Hashable)).to_numpy(dtype=bool)
        check_cells(column, is_label, "be labels, not lists", "one arm a row")
    known_arms = pd.Categorical(column).categories if arms is None else pd.Index([*arms])
    labels = tuple(known_arms.tolist())
    if len(labels) < 2 or not known_arms.is_unique:
        raise ValueError(message("arms", "be at least 2 labels that differ", labels))
    actions = known_arms.get_indexer(column)
    _check_labels(column, labels, actions >= 0)
    if arms is None:
        is_twin = known_arms.map(str).duplicated(keep=False)
        remedy = "write all as text or all as numbers, or name all arms"
        check_cells(column, ~is_twin[actions], "have no number beside its own text", remedy)
    return actions.astype(np.int64), labels


def _read_probabilities(
    table: pd.DataFrame, columns: Sequence[str], actions: IntArray
) -> FloatArray:
    """Return the (t, K) probabilities in the arms' columns, 0 for empty cells."""
    filled = table[columns].astype(object).where(table[columns].notna(), 0.0)
    return _normalise("probabilities", read_numbers(filled, columns), actions, table.index)


def _normalise(name: str, given: FloatArray, actions: IntArray, rows: Any) -> FloatArray:
    """Return (t, K) probabilities that sum to 1; those that are none are refused with their row."""
    least, sums = given.min(axis=1), given.sum(axis=1)
    check_all(name, least >= 0, "be at least 0", least, rows=rows)
    check_all(name, abs(sums - 1) <= MAX_ROUNDING, "sum to 1", sums, rows=rows)
    own = given[np.arange(len(given)), actions]
    check_all(name, own > 0, "be above 0 for the arm that was chosen", own, rows=rows)
    return given / sums[:, None]


def _check_labels(column: pd.Series, arms: tuple[Hashable, ...], is_known: BoolArray) -> None:
    """Refuse labels that are none of the arms'; numbers and their texts are different labels."""
    remedy = "name all arms, or leave the row out"
    if not is_known.all():
        number = pd.to_numeric(str(column.iloc[int(np.argmin(is_known))]), errors="coerce")
        twins = [arm for arm in arms if pd.to_numeric(str(arm), errors="coerce") == number]
        if twins:
            remedy = f"arms has {twins[0]!r}: write labels alike, all as text or all as numbers"
    condition = f"have no labels but those of arms, {shorten_repr(arms)}"
    check_cells(column, is_known, condition, remedy)


def _warn_of_repeated_rows(table: pd.DataFrame, arm: str) -> None:
    """Warn the caller's caller of rows that repeat others, down to a time stamp or an id.

    One column but the arm's has other values in 90 % of the distinct rows. Where most rows repeat,
    or a column has 2 values, as rewards of 0 and 1, that is chance.
    """
    texts = {name: table[name].map(str) for name in table if table[name].dtype.kind == "O"}
    distinct = table.assign(**texts).drop_duplicates()  # lists cannot be compared
    num_repeated = len(table) - len(distinct)
    if 0 < num_repeated <= 3 * len(distinct):
        num_values = distinct.drop(columns=arm).nunique().sort_values()
        if len(num_values) and num_values.iloc[-1] >= max(0.9 * len(distinct), 3):
            text = (
                f"{num_repeated:,} of {len(table):,} rows repeat others, also in column "
                f"{num_values.index[-1]!r}; drop them unless they are decisions of their own."
            )
            warnings.warn(text, stacklevel=3)


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
    return replace(log, propensities=shares[codes, log.actions], probabilities=None)


def check_log(log: Any) -> None:
    """Refuse what is no log, and one without rows."""
    if not len(check_object("log", log, Log, "such as read_log returns")):
        raise ValueError(message("log", "have a row", 0))
