"""Tables that people have exported: read as they are meant, or refused with the row.

The index of a table that is read numbers its rows as a spreadsheet does, with the header as row 1.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Sequence
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bandit_gym.checks import check_all, check_choice, check_path, message, quote_words
from bandit_gym.checks.typing import BoolArray, FloatArray


def read_table(
    name: str, source: Any, label: str | None = None, texts: Collection[str] | None = None
) -> pd.DataFrame:
    """Return a frame, or that of a CSV or Parquet file, with numbered rows.

    A CSV file has a header, and cells between commas. Commas at the ends of rows, empty rows, and
    empty columns without a name are left out.

    Args:
        name: of the source in messages.
        source: a `pandas.DataFrame`, or the path of a .csv or .parquet file.
        label: a column of labels. In a CSV file these are numbers if Python writes each number just
            so, and otherwise text, so that 007 and 7 differ; only an empty cell is missing.
        texts: for a table of visitors, the columns known to be text, beside those in which some is.
            In these only an empty cell of a CSV file is missing, and a row is left out only if it
            is blank and at the end.

    Raises:
        TypeError: if it is neither a frame nor a path.
        ValueError: if there is no such file, its name ends otherwise, it cannot be read, or a row
            is longer than the header.
    """
    if isinstance(source, pd.DataFrame):
        return source.set_axis(range(2, len(source) + 2), axis=0)
    if not isinstance(source, str | Path):
        raise TypeError(message(name, "be a data frame, or the path of a file", source))
    path, endings = check_path(name, source), (".csv", ".parquet")
    is_parquet = check_choice(f"the ending of {name}", path.suffix.lower(), endings) == ".parquet"
    if not path.is_file():
        raise ValueError(message(name, "be a file that exists", str(path)))
    try:
        if is_parquet:
            return read_table(name, pd.read_parquet(path))
        return _read_csv(path, label, texts)
    except (ValueError, OSError, csv.Error) as error:  # of pandas, pyarrow and their decoders
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(message(name, "be a file that can be read", str(path), reason)) from error


def _read_csv(path: Path, label: str | None, texts: Collection[str] | None) -> pd.DataFrame:
    """Return the rows below the header, which is the first row that is not empty."""
    labels = []
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = enumerate(csv.reader(file), start=1)
        first, header = next(((row + 1, cells) for row, cells in rows if cells), (2, []))
        _refuse_separators(header)
        last = first - 1
        label_column = header.index(label) if label in header else len(header)
        for row, cells in rows:
            if len(cells) > len(header) and any(map(str.strip, cells[len(header) :])):
                text = f"row {row} has {len(cells)} cells and the header {len(header)}"
                raise ValueError(f"{text}: name each column, and put text with commas in quotes")
            last = row if cells else last
            labels.append(cells[label_column].strip() if len(cells) > label_column else "")
    columns = range(len(header))
    read = partial(
        pd.read_csv,
        path,
        header=first - 2,
        names=columns,
        usecols=columns,  # else, where rows end in a comma, pandas takes first cells for an index
        skip_blank_lines=False,
        low_memory=False,  # one type a column
    )
    table = read()
    if texts is not None:
        cells = read(dtype=str, keep_default_na=False, na_values=[""])
        for column, title in enumerate(header):
            if title in texts or any(isinstance(cell, str) for cell in table[column]):
                table[column] = cells[column]
    if label in header:
        table[label_column] = _convert_labels(labels)
    is_empty = table.isna().to_numpy()
    names = [cell or f"Unnamed: {column}" for column, cell in enumerate(header)]
    table = table.set_axis(names, axis=1).set_axis(range(first, first + len(table)), axis=0)
    is_column = [bool(cell) for cell in header] | ~is_empty.all(axis=0)
    is_row = ~is_empty.all(axis=1) if texts is None else table.index <= last
    return table.loc[is_row, is_column]


def _refuse_separators(header: Sequence[str]) -> None:
    """Refuse a header of one cell in which another separator stands."""
    for separator in ";\t|" if len(header) == 1 else "":
        if separator in header[0]:
            remedy = f"pass pandas.read_csv(path, sep={separator!r}), perhaps with decimal=','"
            raise ValueError(f"its cells look separated by {separator!r} and not by ',': {remedy}")


def _convert_labels(texts: Sequence[str]) -> pd.Series:
    """Return numbers if each text is what Python writes for its number, otherwise the texts."""
    labels: dict[str, Any] = {text: _to_number(text) for text in {*texts} - {""}}
    if None in labels.values():
        labels = {text: text for text in labels}
    return pd.Series([labels.get(text) for text in texts], dtype=object)


def _to_number(text: str) -> float | None:
    """Return the number that Python writes like this; None if there is none."""
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if repr(number) == text and isfinite(number):
            return number
    return None


def read_numbers(table: pd.DataFrame, columns: Sequence[Any], remedy: str = "") -> FloatArray:
    """Return (T, C) finite numbers of columns; booleans are 0 and 1, categories their values.

    Args:
        table: of T rows, from `read_table`.
        columns: names of C of its columns.
        remedy: another way out than to replace what is no number.

    Raises:
        ValueError: if a cell is missing, infinite, a time or text that is no number.
    """
    values = np.empty((len(table), len(columns)))
    condition = "have finite numbers only"
    for i, name in enumerate(columns):
        values[:, i] = _to_floats(table[name])
        is_finite = np.isfinite(values[:, i])
        cells = table[name][~is_finite].astype(object)
        texts = cells[[isinstance(cell, str) for cell in cells]]
        if len(texts):
            some = f"{quote_words(texts.unique()[:3])}, first in row {texts.index[0]}"
            way_out = (
                remedy or "write numbers; bandit_gym.contexts.TableEncoder makes some of labels"
            )
            raise ValueError(f"column {name!r} must {condition}, got {some}; {way_out}.")
        is_time = cells.notna().any() and not np.isinf(values[:, i]).any()
        way_out = "write hours since a start" if is_time else "fill it in, or leave the row out"
        check_cells(table[name], is_finite, condition, remedy or way_out)
    return values


def _to_floats(column: pd.Series) -> FloatArray | float:
    """Return the numbers of a column, NaN for all else."""
    if column.dtype.kind not in "biufcmM":  # of what is no NumPy type as well
        try:
            column = pd.to_numeric(column.astype(object), errors="coerce")
        except OverflowError:  # of an integer that no float has
            return np.nan
    if column.dtype.kind not in "biuf":  # times would become counts of a unit
        return np.nan
    return column.to_numpy(np.float64, na_value=np.nan)


def check_cells(column: pd.Series, is_right: BoolArray, condition: str, remedy: str) -> None:
    """Refuse a column of which some cells are wrong, with the first one and its row."""
    check_all(f"column {column.name!r}", is_right, condition, column.array, remedy, column.index)
