"""Facts that column names and public columns tell; private values are not looked at."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pandas as pd

from skfdp.cli.first_line import is_written_number
from skfdp.encoding.values import Column
from skfdp.records.spelling import text_of

# A text column with more values than this, or with fewer rows for each, is a name or a
# number of its record.
_MOST_CATEGORIES, _ROWS_OF_A_CATEGORY = 1000, 10
# So many different whole numbers, one for each row, are numbers of records.
_RUNNING = 20
_DATE = re.compile(r"\s*[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?")
_WORDS = {
    *("name", "vorname", "nachname", "surname", "firstname", "lastname", "username"),
    *("email", "mail", "phone", "telefon", "mobile", "address", "adresse", "anschrift"),
    *("iban", "ssn", "uuid", "guid", "uid"),
}
#: Words that mean an identifier at the end of a name.
_LAST = {"id", "ids", "nr", "no", "number", "nummer", "key", "pid", "mrn"}
_ENDINGS = ("nummer", "nachname", "vorname", "adresse", "kennung")


@dataclasses.dataclass(frozen=True)
class Observed:
    """Facts that the values of a public column show.

    Attributes
    ----------
    bounds : pair of float or of str, or None
        Of numbers, or of dates as ISO texts: exactly the extremes, a unit more for
        the upper one if all values are equal.
    categories : tuple of str or None
        As text and sorted.
    n_values : int
        Number of different values.
    unread : int
        Number of values that are no numbers, in a column with bounds.
    foreign_numbers : int
        Number of values that are numbers as other files write them: with another
        decimal mark, with thousands marks or with a percent sign.
    running : bool
        Whether each row has a whole number of its own.
    """

    bounds: tuple[Any, Any] | None
    categories: tuple[str, ...] | None
    n_values: int
    unread: int = 0
    foreign_numbers: int = 0
    running: bool = False

    @property
    def foreign_hint(self) -> str:
        """The sentence on numbers that cannot be read; empty if there are none."""
        count = self.foreign_numbers
        if not count:
            return ""
        what = "value looks like a number" if count == 1 else "values look like numbers"
        return (
            f"{count} {what} but cannot be read: is --decimal right, and are there "
            "thousands marks?"
        )


def look_at(column: pd.Series, numbers: pd.Series | None = None) -> Observed:
    """Return what a public column shows; text in it may be numbers or dates.

    Parameters
    ----------
    column : Series
    numbers : Series, default=None
        The same column with points in its numbers, where the file has commas.

    Notes
    -----
    All values that are not missing are numbers or dates, or else they are categories,
    if there are few enough: every category is the name of a column in the model and in
    the report, where names of people do not belong. If there are more, and most of them
    are numbers, the others count as missing.
    """
    spelt = column.map(text_of, na_action="ignore")
    there = spelt.notna().to_numpy()
    values = column[there]
    distinct = sorted(set(spelt[there]))
    n_values = len(distinct)
    if not n_values:
        return Observed(None, None, 0)
    if set(distinct) <= {"False", "True"}:
        return Observed(None, tuple(distinct), n_values)
    if pd.api.types.is_datetime64_any_dtype(column.dtype) or all(
        _DATE.fullmatch(one) for one in distinct
    ):
        days = Column(values).read("date")
        if not np.isnan(days).any():
            first, last = int(np.floor(days.min())), int(np.ceil(days.max()))
            last = max(last, first + 1)
            bounds = tuple(str(np.datetime64(day, "D")) for day in (first, last))
            return Observed((bounds[0], bounds[1]), None, n_values)
    read = Column((column if numbers is None else numbers)[there]).read("number")
    known = read[~np.isnan(read)]
    foreign = _written_as_numbers(values[np.isnan(read)])
    few = n_values <= min(_MOST_CATEGORIES, len(column) / _ROWS_OF_A_CATEGORY)
    if len(known) == len(values) or (not few and len(known) * 2 > len(values)):
        low, high = float(known.min()), float(known.max())
        whole = bool(np.all(known == np.rint(known)))
        running = whole and len(np.unique(known)) == len(values) >= _RUNNING
        return Observed(
            (low, high if high > low else low + max(1.0, abs(low))),
            None,
            n_values,
            len(values) - len(known),
            foreign,
            running,
        )
    return Observed(
        None, tuple(distinct) if few else None, n_values, foreign_numbers=foreign
    )


def _written_as_numbers(values: pd.Series) -> int:
    texts = values.map(lambda value: value if isinstance(value, str) else "").tolist()
    known = {text: is_written_number(text) for text in set(texts)}
    return sum(known[text] for text in texts)


def unread(column: pd.Series, what: str) -> np.ndarray:
    """Return which values are there, but are no numbers, or no dates."""
    missing = column.map(text_of, na_action="ignore").isna().to_numpy()
    return np.isnan(Column(column).read(what)) & ~missing


def named_as_identifier(name: str) -> bool:
    """Whether a column is called like what tells people apart.

    >>> [named_as_identifier(name) for name in ("Patienten-ID", "Fallnummer", "ideal")]
    [True, True, False]
    """
    words = [
        word.casefold()
        for word in re.findall(r"[^\W\d_]?[^\W\d_A-Z]+|[A-Z]+(?![a-z])", name)
    ]
    if not words:
        return False
    return (
        bool(_WORDS & set(words)) or words[-1] in _LAST or words[-1].endswith(_ENDINGS)
    )
