"""Checks of logged data: a table of actions and rewards, row by row."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium.error import InvalidAction

from bandit_gym.checks.arrays import as_array
from bandit_gym.checks.lanes import RewardRule
from bandit_gym.checks.messages import message
from bandit_gym.typing import BoolArray, FloatArray, IntArray


class Log(NamedTuple):
    """Logged data in the order of their rows.

    Attributes:
        lanes: (M,) lane that each row belongs to.
        actions: (M,) arms pulled.
        rewards: (M,) what they paid.
    """

    lanes: IntArray
    actions: IntArray
    rewards: FloatArray


def check_log(frame: Any, num_arms: int, rule: RewardRule, num_envs: int | None) -> Log:
    """Return the columns `action`, `reward` and `lane` of a table.

    Args:
        frame: a data frame of pandas or polars, a table of pyarrow, or a dict of sequences. Whole
            numbers may be floats, as they are in columns that once had gaps.
        num_arms: K; an action is one of 0, ..., K - 1.
        rule: says which rewards are possible.
        num_envs: N, or None for a single run; only with several lanes must there be a column.

    Raises:
        InvalidAction: if an action is no arm; names the row, from 0.
        TypeError: if it is no table, or a column has no numbers.
        ValueError: if a column is missing or of another length, or a reward or a lane is
            impossible; names the row.
    """
    names = _column_names(frame)
    num_lanes = 1 if num_envs is None else num_envs
    needed = ("action", "reward") if num_lanes == 1 else ("action", "reward", "lane")
    for name in needed:
        if name not in names:
            raise ValueError(message("log", f"have the columns {', '.join(needed)}", names))
    rewards = _read("reward", frame, "biuf").astype(np.float64)
    condition = f"be {rule.reward_rule} under {rule.name} rewards"
    _refuse_row("reward", condition, rewards, ~rule.is_possible(rewards))
    try:
        actions = _read_integers("action", frame, num_arms)
    except (TypeError, ValueError) as error:
        raise InvalidAction(str(error)) from None
    lanes = np.zeros(len(rewards), dtype=np.int64)
    if "lane" in names:
        lanes = _read_integers("lane", frame, num_lanes)
    for name, values in (("action", actions), ("lane", lanes)):
        if len(values) != len(rewards):
            condition = f"have as many rows as the column 'reward', {len(rewards)}"
            raise ValueError(message(f"log column {name!r}", condition, len(values)))
    return Log(lanes, actions, rewards)


def check_log_adds_up(log: Log, sums: FloatArray) -> FloatArray:
    """Return the (N, K) sums with the rewards of a log added, in its order.

    Raises:
        ValueError: if one becomes infinite; names the row.
    """
    cells, totals = log.lanes * sums.shape[1] + log.actions, sums.copy()
    with np.errstate(over="ignore"):
        np.add.at(totals.reshape(-1), cells, log.rewards)
    for cell in np.flatnonzero(~np.isfinite(totals))[:1]:
        rows = np.flatnonzero(cells == cell)
        with np.errstate(over="ignore", invalid="ignore"):
            so_far = np.cumsum([sums.reshape(-1)[cell], *log.rewards[rows]])[1:]
        is_wrong = np.zeros(len(cells), dtype=bool)
        is_wrong[rows] = ~np.isfinite(so_far)
        condition = "leave the sum of an arm's rewards finite"
        _refuse_row("reward", condition, log.rewards, is_wrong)
    return totals


def _column_names(frame: Any) -> list[str]:
    names = getattr(frame, "column_names", getattr(frame, "columns", None))
    if isinstance(frame, Mapping):
        names = frame.keys()
    if names is None or not hasattr(frame, "__getitem__"):
        condition = "be a data frame, a table or a dict of columns"
        raise TypeError(message("log", condition, frame))
    return [*map(str, names)]


def _read(name: str, frame: Any, kinds: str) -> np.ndarray[Any, Any]:
    """Return a column as an array of one of NumPy's `kinds`."""
    values = as_array(frame[name])
    if values is None or values.ndim != 1:
        shape = None if values is None else values.shape
        raise ValueError(message(f"log column {name!r}", "have one axis", shape))
    if values.dtype.kind not in kinds and values.size:
        is_wrong = np.array([np.asarray(value).dtype.kind not in kinds for value in values])
        _refuse_row(name, "be numbers", values, is_wrong if is_wrong.any() else ~is_wrong)
    return values


def _read_integers(name: str, frame: Any, end: int) -> IntArray:
    """Return a column of whole numbers from 0 to below `end`."""
    values = _read(name, frame, "iuf")
    with np.errstate(invalid="ignore"):
        is_wrong = ~((values >= 0) & (values < end) & (values == np.floor(values)))
    _refuse_row(name, f"be integers from 0 to {end - 1}", values, is_wrong)
    return values.astype(np.int64)


def _refuse_row(
    name: str, condition: str, values: np.ndarray[Any, Any], is_wrong: BoolArray
) -> None:
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        kind = TypeError if values.dtype.kind in "OUSM" else ValueError
        text = message(f"log column {name!r}", condition, values[row])
        raise kind(f"{text[:-1]} in row {row}.")
