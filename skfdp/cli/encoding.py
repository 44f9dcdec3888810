"""The encoding of models that were saved before there was `skfdp.DeclaredEncoder`.

Files name these functions; nothing else uses them.
"""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd

from skfdp.addresses import public

#: The category of an empty field.
MISSING = "missing"


class TableError(ValueError):
    """Refusal of rows that cannot be encoded; quotes no private value."""


def canonical(value: str) -> str:
    """Return one spelling for all the ways in which CSV readers spell a value.

    pandas turns "01", "1" and "1.0" into the same number and "true" into a boolean;
    whether it does depends on the other rows.
    """
    value = value.strip()
    if value.casefold() in ("true", "false"):
        return value.capitalize()
    if re.fullmatch(r"[+-]?[0-9]+", value):
        return str(int(value)) if len(value) < 20 else value
    try:
        number = float(value)
    except ValueError:
        return value or MISSING
    if not math.isfinite(number) or "_" in value:
        return value
    return str(int(number)) if number.is_integer() else repr(number)


def canonical_text(column: pd.Series) -> pd.Series:
    """Return the column as text in canonical form."""
    text = column.astype(object).where(column.notna(), "").map(str)
    spellings = {value: canonical(value) for value in text.unique()}
    return text.map(spellings).astype(object)


@public("skfdp.cli")
def as_text(frame: pd.DataFrame) -> pd.DataFrame:
    """Return every column as text in canonical form; missing values as "missing"."""
    return pd.DataFrame({name: canonical_text(frame[name]) for name in frame})


@public("skfdp.cli")
def as_numbers(frame: pd.DataFrame, fill: dict[str, float]) -> pd.DataFrame:
    """Return every column as float64, missing values filled.

    Parameters
    ----------
    frame : DataFrame
    fill : dict of str to float
        What a missing value counts as, by column.

    Raises
    ------
    TableError
        If a value is not a finite number; it is not quoted.
    """
    columns = {}
    for name in frame:
        values = numbers(frame[name])
        if values is None:
            raise TableError(
                f"column {str(name)!r} holds a value that is not a finite number: "
                "leave it empty."
            )
        columns[name] = np.where(np.isnan(values), fill[name], values)
    return pd.DataFrame(columns, index=frame.index)


def numbers(column: pd.Series) -> np.ndarray | None:
    """Return float64 with NaN for missing, None where a value is not finite."""
    if not pd.api.types.is_numeric_dtype(column):
        column = column.astype(object).where(column.notna(), "")
        column = column.astype(str).str.strip()
        missing = column == ""
        try:
            column = pd.to_numeric(column.where(~missing, "0"), errors="raise")
        except (ValueError, TypeError, OverflowError):
            return None
        column = column.astype(np.float64).where(~missing)
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return None if np.isinf(values).any() else values


@public("skfdp.cli")
def category_name(column: str, category: str) -> str:
    """Return the name of an encoded column."""
    return f"{column}={category}"
