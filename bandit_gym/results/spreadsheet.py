"""Tables as CSV that a spreadsheet can open without calculating what people wrote."""

from __future__ import annotations

from typing import Any

import pandas as pd

FORMULA = ("=", "+", "-", "@")
"""What begins a formula in a spreadsheet."""


def to_csv(table: pd.DataFrame, *, header: bool = True) -> bytes:
    """Write a table; where a text in it would be a formula, an apostrophe is put before it."""
    texts = table.select_dtypes(["category", "object", "string"]).columns
    quoted = table.assign(**{name: table[name].map(_quoted) for name in texts})
    quoted.columns = [_quoted(name) for name in table.columns]
    return bytes(quoted.to_csv(index=False, header=header, lineterminator="\n").encode())


def _quoted(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
