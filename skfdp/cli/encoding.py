"""The encoding of CSV rows as bounded numbers, the same in `fit` and `predict`.

What a row becomes depends on this row and on public facts alone:

* a number is clipped and scaled to its bounds by the estimator; a missing one counts
  as the middle of the declared bounds (of a public column without declared bounds: as
  the median), the point that is nowhere far from the truth;
* text becomes one column for each category; a missing value is the category
  "missing", and a value outside the declared categories contributes nothing, like
  "missing" where that is not declared.

Only public columns may have their bounds and categories read from the rows.
"""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from skfdp.addresses import public

#: The category of an empty field.
MISSING = "missing"
# A text column with more values than this, or with fewer rows for each, is a name or a
# number of its record.
_MOST_CATEGORIES, _ROWS_OF_A_CATEGORY = 1000, 10


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
                "leave it empty, or declare the column as text (--categories)."
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


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns that the model sees; public facts only.

    Attributes
    ----------
    target : str
    public, private : tuple of str
        In the order of the file.
    bounds : dict of str to (float, float)
        Declared, by numeric column.
    categories : dict of str to tuple of str
        Declared, by text column; in canonical form.
    """

    target: str
    public: tuple[str, ...]
    private: tuple[str, ...]
    bounds: dict[str, tuple[float, float]]
    categories: dict[str, tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class Encoding:
    """Facts about every column: bounds of numeric ones, categories of others.

    Attributes
    ----------
    public, private : tuple of str
    bounds : dict of str to (float, float)
    fill : dict of str to float
        What a missing number counts as.
    categories : dict of str to tuple of str
    learnt : tuple of str
        Public columns whose bounds or categories were read from the rows.
    """

    public: tuple[str, ...]
    private: tuple[str, ...]
    bounds: dict[str, tuple[float, float]]
    fill: dict[str, float]
    categories: dict[str, tuple[str, ...]]
    learnt: tuple[str, ...]

    @classmethod
    def of(cls, columns: Columns, rows: pd.DataFrame) -> Encoding:
        """Complete the declarations by what the public columns of rows show."""
        bounds, categories = dict(columns.bounds), dict(columns.categories)
        fill = {name: (low + high) / 2 for name, (low, high) in bounds.items()}
        learnt = tuple(
            name
            for name in columns.public
            if name not in bounds and name not in categories
        )
        for name in learnt:
            values = numbers(rows[name])
            if values is None or np.isnan(values).all():
                categories[name] = _observed_categories(rows[name])
                continue
            low, high = float(np.nanmin(values)), float(np.nanmax(values))
            bounds[name] = (low, high if high > low else low + max(1.0, abs(low)))
            fill[name] = float(np.nanmedian(values))
        return cls(columns.public, columns.private, bounds, fill, categories, learnt)

    def check(self, rows: pd.DataFrame) -> None:
        """Raise TableError if a number cannot be read, in any row: before the fit."""
        as_numbers(rows[list(self.bounds)], self.fill)

    def transformer(self, *, public_only: bool = False) -> ColumnTransformer:
        """Return the encoder of raw rows; its output columns tell what is public."""
        parts = [("public", self.public), ("private", self.private)]
        transformer = ColumnTransformer(
            [
                (name, self._part(columns), list(columns))
                for name, columns in parts[: 1 if public_only else 2]
                if columns
            ]
        )
        return transformer.set_output(transform="pandas")

    def encoded_bounds(self, *, public_only: bool = False) -> dict:
        """Return the bounds by encoded column; (0, 1) where it is a category."""
        return {
            encoded: self.bounds.get(name, (0.0, 1.0))
            for encoded, name in self.parents(public_only=public_only).items()
        }

    def parents(self, *, public_only: bool = False) -> dict[str, str]:
        """Return the column of the file by encoded column."""
        found = {}
        for part, columns in (("public", self.public), ("private", self.private)):
            for name in () if public_only and part == "private" else columns:
                encoded = [
                    category_name(name, c) for c in self.categories.get(name, ())
                ]
                found |= {f"{part}__{own}": name for own in encoded or [name]}
        return found

    def _part(self, columns: tuple[str, ...]) -> ColumnTransformer:
        numeric = [name for name in columns if name in self.bounds]
        text = [name for name in columns if name in self.categories]
        steps = []
        if numeric:
            to_numbers = FunctionTransformer(
                as_numbers,
                feature_names_out="one-to-one",
                kw_args={"fill": {name: self.fill[name] for name in numeric}},
            )
            steps.append(("numbers", to_numbers, numeric))
        if text:
            one_hot = OneHotEncoder(
                categories=[
                    np.array(self.categories[name], dtype=object) for name in text
                ],
                handle_unknown="ignore",
                sparse_output=False,
                feature_name_combiner=category_name,
            )
            to_text = FunctionTransformer(as_text, feature_names_out="one-to-one")
            steps.append(("text", make_pipeline(to_text, one_hot), text))
        return ColumnTransformer(steps, verbose_feature_names_out=False)


def labels_like(values: pd.Series) -> pd.Series:
    """Return canonical labels as the numbers or booleans that pandas would read."""
    known = list(values.unique())
    if set(known) <= {"True", "False"}:
        return values == "True"
    try:
        parsed = {label: float(label) for label in known}
    except ValueError:
        return values
    if not all(map(math.isfinite, parsed.values())):
        return values
    if all(number.is_integer() for number in parsed.values()):
        return values.map({label: int(number) for label, number in parsed.items()})
    return values.map(parsed)


def _observed_categories(column: pd.Series) -> tuple[str, ...]:
    found = tuple(sorted(canonical_text(column).unique()))
    if len(found) > min(_MOST_CATEGORIES, len(column) / _ROWS_OF_A_CATEGORY):
        raise TableError(
            f"the public column {column.name!r} holds {len(found)} different texts in "
            f"{len(column)} rows. Names, identifiers and dates are not categories, and "
            "each would be the name of a column in the model and in the report: leave "
            "it out (--drop), or declare the categories that matter (--categories)."
        )
    return found
