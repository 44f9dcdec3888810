"""Column types: each declares, reads, encodes, saves, exports and draws its columns.

A cell is converted by its own value and the declaration of its column. Other cells, and
the type that stores them, have no influence.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache, partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from skfdp.addresses import public
from skfdp.data._basis import (
    MISSING,
    OTHER,
    SMOOTH_KNOTS,
    STANDALONE_KNOTS,
    Block,
    CategoriesBlock,
    LinearBlock,
    SplineBlock,
    spread_knots,
)
from skfdp.data.cells import Coded, distinct, exact, moments, numbers, objects, read_as
from skfdp.data.target import (
    MISSING_CELL,
    NOWHEN,
    UNDECLARED,
    Spelling,
    as_number,
    digits,
    moment,
    spelling_of,
    text_of,
)
from skfdp.data.validation import check_choice, check_flag, check_interval, check_number
from skfdp.privacy.checks import plain, shown

#: The column type of each type name in files.
TYPES: dict[str, type[Column]] = {}


class SchemaError(ValueError):
    """Error in a declaration or a file; the message holds no private data."""


class Column:
    """Base class of column types. A type of your own extends a type of `skfdp.schema`.

    Fields of the dataclass are what is declared; lists become tuples of Python values.
    `number` reads the text of a cell, and `read` all cells. `blocks` encodes them, and
    a block says how its effect is drawn. `cells` and `reads_usual_text` say what an
    exported Pipeline reads. A class that is declared with ``type="..."`` has this name
    in files, which hold its fields. Without a name a schema cannot be saved.
    """

    public = False
    missing: Sequence | None = None
    values: Sequence = ()
    basis, knots, spacing, cyclic, format = "spline", "auto", "auto", False, None
    integer, monotone = False, None
    #: All cells that are read; None for numbers and dates on an axis.
    cells: ClassVar[Any] = None
    #: Name of the type in files.
    type: ClassVar[str] = ""
    #: What the values are, for messages; "" if they are not read.
    read_as: ClassVar[str] = ""
    #: Kinds of stored types that cannot hold such values; see `type_kind`.
    unreadable: Sequence[str] = ()
    #: What the axis of a curve measures: "number", or "date" for days.
    axis: ClassVar[str] = "number"
    #: Whether the column is an input of models unless it is an outcome; may it be one?
    is_feature: ClassVar[bool] = True
    may_be_outcome: ClassVar[bool] = False

    def __init_subclass__(cls, type: str | Sequence[str] = (), **more: Any) -> None:
        super().__init_subclass__(**more)
        names = (type,) if isinstance(type, str) else type
        for name in names:
            other = TYPES.get(name, cls)
            if (other.__module__, other.__name__) != (cls.__module__, cls.__name__):
                raise SchemaError(
                    f"type={name!r} of {cls.__name__} is the name of another column "
                    "type: choose another name."
                )
            TYPES[name] = cls
        cls.type = [*names, cls.type][0]

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name in ("missing", "true", "false") and isinstance(value, str):
                value = [value]
            value = plain(value)
            ordered = isinstance(value, Iterable) and not isinstance(
                value, (str, bytes, Mapping, AbstractSet)
            )
            found = tuple(map(plain, value)) if ordered else value
            if found is not None and _KEYS.get(name) in _LIMITS[:2]:
                if self.axis == "date":
                    found = text_of(found) or ""
                elif _is_real(found):
                    found = float(found)
            object.__setattr__(self, name, found)
        for name in ("public", "integer"):
            check_flag(name, getattr(self, name))

    @property
    def bounds(self) -> tuple:
        """The lower and the upper bound; empty if the type has none."""
        named = {_KEYS.get(name): value for name, value in vars(self).items()}
        return tuple(named[key] for key in _LIMITS[:2] if key in named)

    @property
    def question(self) -> str:
        """Properties that are not declared yet; "" if the declaration is complete."""
        return "minimum and maximum" if None in self.bounds else ""

    def check(self, name: str, is_outcome: bool) -> None:
        """Refuse an invalid declaration, which may be incomplete."""

    def number(self, text: str, schema: Any) -> float:
        """Return the number in the text of a cell; NaN if there is none.

        `schema` has the separators of numbers. An exception means NaN.
        """
        decimal, thousands = schema.decimal, schema.thousands or ""
        if (decimal, thousands) != (".", ""):
            if not number_form(decimal, thousands).fullmatch(text.strip()):
                return math.nan
            text = text.replace(thousands or " ", "").replace(decimal, ".")
        return as_number(text)

    def points(self, raw: Any, schema: Any) -> np.ndarray:
        """Return cells as float64; NaN if they are missing or unreadable."""

        def read(cell: Any) -> float:
            try:
                found = self.number(cell, schema) if isinstance(cell, str) else cell
            except Exception:  # of a type of a user; it may quote the cell
                return math.nan
            return as_number(found)

        return numbers(raw, read)

    def gone(self, schema: Any) -> list:
        """Return the cells that are declared as missing, except empty text."""
        given = schema.missing if self.missing is None else self.missing
        return [value for value in given if value != ""]

    def read(
        self, raw: Any, schema: Any, is_outcome: bool = False, coded: bool = False
    ) -> tuple[Any, np.ndarray]:
        """Return the typed cells of a raw column, and a mask of unreadable cells.

        Typed cells do not change if they are read again; with `coded`, they may be
        `Coded`, and the mask is then of the different cells. Those of an outcome are
        its labels.
        """
        found, gone = self.points(raw, schema), self.gone(schema)
        lost = np.isnan(found)
        if lost.any():
            lost[lost] = _places_of(gone, exact(raw)[lost]) == UNDECLARED
        if gone:
            also = np.isin(found, self.points(objects(gone), schema))
            found[also] = NOWHEN if found.dtype.kind == "M" else np.nan
        return found, lost

    def misfit(self, kind: str) -> str | None:
        """Return why a stored type cannot hold declared levels; None if it can."""
        return None

    def blocks(self, name: str, place: int, smooth: bool = False) -> list[Block]:
        """Return the blocks of encoded columns; the declaration is complete.

        `place` is the position of the raw column among the features. If an estimator
        smooths the curves (`smooth`), ``knots="auto"`` means more knots.
        """
        return [self._curve(name, place, smooth)] if self.bounds else []

    def reads_usual_text(self, schema: Any) -> bool:
        """Whether text is read as Python's numbers, or as ISO dates."""
        usual = self.axis == "date" or (schema.decimal, schema.thousands) == (".", None)
        return usual and self.format is None and type(self).number is Column.number

    @property
    def is_exported(self) -> bool:
        """Whether cells are read and encoded as types of this package do it."""
        ways = "read", "points", *(["blocks"] if self.cells is None else [])
        return all(getattr(type(self), one).__module__ == __name__ for one in ways)

    def properties(self) -> dict[str, Any]:
        """Return the declaration as a field of the Frictionless standard."""
        limits, others = {}, {}
        for field in dataclasses.fields(self):
            key, value = _KEYS.get(field.name, field.name), getattr(self, field.name)
            if key in _LIMITS:
                whole = isinstance(value, float) and value.is_integer()
                limits[key] = int(value) if whole and abs(value) < 1e15 else value
            elif value != field.default:
                others[key] = value
        limits = {"constraints": limits} if limits else {}
        name = "integer" if others.pop("integer", False) else self.type
        return {"type": name} | limits | others

    def _curve(self, name: str, place: int, smooth: bool) -> Block:
        low, high = bounds = self._on_axis(self.bounds)
        limits = (
            f"minimum and maximum of {name!r} are {shown(self.bounds)}, but must be"
        )
        form = "two finite numbers, the lower one first"
        if self.axis == "date":
            form = "two dates such as '2020-01-31', the earlier one first"
        cyclic, given = bool(self.cyclic), {"reads": self.axis, **self._order(name)}
        check_choice(f"basis of {name!r}", self.basis, ("spline", "linear"))
        for problem, is_so in {
            f"{limits} {form}.": not (np.isfinite(bounds).all() and low < high),
            f"{limits} whole numbers, as integer=True says.": (
                self.integer and (bounds != np.rint(bounds)).any()
            ),
            f"{name!r} is cyclic and monotone, which no curve is: leave one out.": (
                cyclic and self.monotone
            ),
            f"{name!r} is cyclic, which is impossible with basis='linear': use "
            "basis='spline'.": cyclic and self.basis == "linear",
        }.items():
            if is_so:
                raise SchemaError(problem)
        check_interval(f"minimum and maximum of {name!r}", self.bounds, low, high)
        if self.basis == "linear":
            given["n_ordered"] = 1
            return LinearBlock(name, place, ("linear", MISSING), knots=bounds, **given)
        knots = self._knots(name, bounds, cyclic, smooth)
        if cyclic:
            knots, given["end"] = knots[:-1], float(knots[-1])
        levels = (*map(str, range(len(knots))), MISSING)
        given["n_ordered"] = len(knots)
        return SplineBlock(name, place, levels, knots=knots, cyclic=cyclic, **given)

    def _order(self, name: str) -> dict[str, Any]:
        """Return the order of the effect as a field of a block."""
        known = None, "increasing", "decreasing"
        if self.monotone not in known:
            raise SchemaError(
                f"monotone={shown(self.monotone)} of {name!r} must be one of {known}."
            )
        return {"monotone": self.monotone}

    def _on_axis(self, values: Iterable) -> np.ndarray:
        """Return bounds or knots as float64, dates in days; NaN for invalid values."""
        if self.axis == "date":
            return read_as("date", list(values))
        return np.array([v if _is_real(v) else np.nan for v in values], dtype=float)

    def _knots(
        self, name: str, bounds: np.ndarray, cyclic: bool, smooth: bool
    ) -> np.ndarray:
        given, (low, high) = self.knots, bounds
        if isinstance(given, tuple):
            knots = self._on_axis(given)
            usable = 2 + cyclic <= len(knots) <= MOST_KNOTS
            usable &= not self.integer or (knots == np.rint(knots)).all()
            if usable and (knots[1:] > knots[:-1]).all():
                first, last = knots[[0, -1]]
                inside = low <= first and last <= high and not cyclic
                if inside or (low, high) == (first, last):
                    return knots
            ends = ("within the bounds", "from the lower to the upper bound")[cyclic]
            raise SchemaError(
                f"knots of {name!r} are {shown(given)}, but must be {2 + cyclic} to "
                f"{MOST_KNOTS} {'whole ' * self.integer}numbers in ascending order "
                f"{ends}."
            )
        limits = {"low": 1, "high": MOST_KNOTS + 1, "integral": True}
        check_number(f"knots of {name!r}", given, also=("auto",), **limits)
        if isinstance(given, str):
            given = SMOOTH_KNOTS if smooth else STANDALONE_KNOTS
        is_date, spacing = self.axis == "date", self.spacing
        check_choice(f"spacing of {name!r}", spacing, ("auto", "even", "geometric"))
        if spacing == "auto":
            amount = low == 0 and not is_date and not cyclic
            # Short scales, such as grades or small counts, have evenly spaced knots.
            short = high.is_integer() and high < SMOOTH_KNOTS
            spacing = "geometric" if amount and not short else "even"
        if spacing == "geometric" and low < 0:
            raise SchemaError(
                f"spacing='geometric' of {name!r} needs a minimum of 0 or more: use "
                "'even'."
            )
        knots = spread_knots(low, high, int(given) + cyclic, spacing)
        return np.unique(np.rint(knots)) if self.integer else knots


@dataclasses.dataclass(frozen=True)
class Number(Column, type=("number", "integer", "year")):
    """Numeric column with declared bounds.

    Parameters
    ----------
    low, high : float, default=None
        Bounds that are known in advance; values outside are clipped.
    public : bool, default=False
        Whether the column may be disclosed.
    basis : {"spline", "linear"}, default="spline"
        "spline" is a spline of degree 1: the effect of the column is a piecewise linear
        curve. "linear" is one column scaled to [0, 1]: the effect is a straight line.
    knots : "auto", int or list of float, default="auto"
        Number of knots of the spline, at least 2 (a straight line). The spline has as
        many columns. A list gives the knots in ascending order, within the bounds.
        "auto" is 8, or 32 in an estimator, which smooths the curve.
    spacing : {"auto", "even", "geometric"}, default="auto"
        Spacing of the knots. "geometric" needs a low bound of 0 or more; with a low
        bound of 0 the second knot is at high / 128, or higher with few knots. "auto" is
        "geometric" if the low bound is 0, because most amounts are far below their
        largest possible value. It is "even" for other bounds, for cyclic columns, and
        for short scales from 0 to a whole number below 32.
    cyclic : bool, default=False
        Whether the upper bound means the same as the lower one, as for an hour in
        (0, 24).
    missing : list, default=None
        Cells of this column that count as missing. None: as the schema declares.
    integer : bool, default=False
        Whether the values are whole numbers, such as counts: the knots are then whole
        numbers, too. In files ``type = "integer"``.
    monotone : {None, "increasing", "decreasing"}, default=None
        Whether the margins of a linear estimator never fall, or never rise, with the
        column. A released curve is replaced by the nearest one of this kind.
    """

    read_as = "numbers"
    unreadable = ("date", "period", "complex", "other")
    may_be_outcome = True

    low: float | None = None
    high: float | None = None
    public: bool = False
    _: dataclasses.KW_ONLY
    basis: str = "spline"
    knots: Any = "auto"
    spacing: str = "auto"
    cyclic: bool = False
    missing: Sequence | None = None
    integer: bool = False
    monotone: str | None = None


@dataclasses.dataclass(frozen=True)
class Date(Column, type=("date", "datetime")):
    """Column of dates or times with declared bounds.

    Parameters
    ----------
    first, last : date or ISO text, default=None
        First and last day, known in advance.
    public, missing : default=False, None
        As for `Number`.
    format : str, default=None
        Format of dates in text, as in `strptime`: ``"%d.%m.%Y"``. None: ISO 8601, with
        or without dashes. Whole numbers are read as their digits, such as 20240131 by
        ``"%Y%m%d"``. A year of two digits (``%y``) is the one within or nearest to the
        bounds, which must be less than 100 years apart.
    hour : bool, default=False
        Whether to encode the hour of the day, in addition to trend, month and weekday.
    basis, knots
        As for `Number`, for the trend over time.
    """

    read_as = "dates"
    axis = "date"

    first: Any = None
    last: Any = None
    public: bool = False
    _: dataclasses.KW_ONLY
    basis: str = "spline"
    knots: Any = "auto"
    format: str | None = None
    missing: Sequence | None = None
    hour: bool = False

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Kinds of stored types that cannot hold such dates."""
        found = ("boolean", "duration", "time", "complex", "other")
        of_digits = self.format is not None and _width_of_digits(self.format)
        return found if of_digits else (*found, "integer", "number")

    def points(self, raw: Any, schema: Any) -> np.ndarray:
        """Return cells as datetime64[us]; NaT if they are missing or unreadable."""
        form, first = self.format, self._first_year()
        width = 0 if form is None else _width_of_digits(form)

        def read(text: str) -> Any:
            text = (digits(text, width) or text) if width else text
            found = datetime.datetime.strptime(text, form)
            if first is None:
                return found
            return found.replace(year=first + (found.year - first) % 100)

        return moments(raw, partial(moment, read=form and read)).copy()

    def blocks(self, name: str, place: int, smooth: bool = False) -> list[Block]:
        """Return the blocks of the trend, the month, the weekday and the hour."""
        found = [self._curve(name, place, smooth)]
        parts = [("month", _MONTHS), ("weekday", _WEEKDAYS)]
        for part, levels in parts + [("hour", _HOURS)] * bool(self.hour):
            own, every = f"{name}.{part}", (*levels, MISSING)
            found.append(CategoriesBlock(own, place, every, reads=part, cyclic=True))
        return found

    def properties(self) -> dict[str, Any]:
        """Return the declaration; the type of dates with an hour is "datetime"."""
        found = super().properties()
        stated = "datetime" if found.pop("hour", False) else "date"
        return found | {"type": stated}

    def check(self, name: str, is_outcome: bool) -> None:
        """Refuse a format that cannot be read, or from which a year does not follow."""
        form, example = self.format, "such as '%d.%m.%Y'"
        if form is None:
            return
        place = f"format={shown(form)} of {name!r}"
        known = isinstance(form, str) and bool(_parts(form) & {*"YGcyx"})
        try:
            datetime.datetime.strptime(_EXAMPLE.strftime(form), form) if known else None
        except (ValueError, re.error):
            known = False
        if not known:
            raise SchemaError(
                f"{place} must be a strptime format with a year, {example}."
            )
        first = self._first_year()
        if first and moment(self.last) >= np.datetime64(f"{first + 100:04}"):
            raise SchemaError(
                f"{place} has years of two digits, but its bounds {self.first} and "
                f"{self.last} are not within 100 years: declare narrower bounds, or "
                "write years of four digits."
            )

    def _first_year(self) -> int | None:
        """Return the first of the 100 years of two-digit years; None for other formats.

        The bounds are in the middle of these years, so that a date just outside of them
        is clipped to the nearer bound.
        """
        if not _parts(self.format or "") & {"y", "x"}:
            return None
        bounds = np.array([moment(text) for text in self.bounds])
        if np.isnat(bounds).any():
            return None
        first, last = (bounds.astype("datetime64[Y]").astype(int) + 1970).tolist()
        return first - max(0, 99 - (last - first)) // 2


@dataclasses.dataclass(frozen=True)
class Category(Column, type="string"):
    """Column of text or codes with a declared list of values.

    Parameters
    ----------
    values : list, default=()
        Possible values, known in advance; other values count as "other". Text is not
        converted: "01067" stays a code.
    public, missing, monotone : default=False, None, None
        As for `Number`. The order is that of `values`.
    """

    read_as = "categories"
    unreadable = ("duration", "complex", "other")

    values: Sequence = ()
    public: bool = False
    _: dataclasses.KW_ONLY
    missing: Sequence | None = None
    monotone: str | None = None

    @property
    def question(self) -> str:  # noqa: D102
        return "" if self.values else "enum"

    def spelling(self, name: str) -> Spelling:
        """Return the declared values as the levels of the column `name`."""
        if not isinstance(self.values, tuple):
            raise SchemaError(
                f"enum of {name!r} is {shown(self.values)}, but must be a list of "
                "categories: write enum = ['a', 'b'], for example."
            )
        return spelling_of(self.values, f"enum of {name!r}")

    def _meant(self, cells: np.ndarray) -> np.ndarray:
        return cells

    def read(  # noqa: D102
        self, raw: Any, schema: Any, is_outcome: bool = False, coded: bool = False
    ) -> tuple[Any, np.ndarray]:
        known, at = distinct(raw) or (exact(raw), None)
        if known.dtype.kind in "iu":
            known, at = np.unique(known, return_inverse=True)
        cells, gone = objects(known), self.gone(schema)
        absent = _places_of(gone, cells) >= 0 if gone else False
        cells = self._meant(cells)
        places = np.where(absent, MISSING_CELL, _places_of(self.values, cells))
        lost = places == UNDECLARED
        if is_outcome:
            labels = objects([*self.values, None])[np.maximum(places, UNDECLARED)]
            cells = pandas_for().array(labels, dtype=_dtype(self.values))
        else:
            cells[places == MISSING_CELL] = None
        if at is None:
            return cells, lost
        return (Coded(cells, at), lost) if coded else (cells[at], lost[at])

    def misfit(self, kind: str) -> str | None:  # noqa: D102
        return spelling_of(self.values, "missing").misfit(kind)

    def blocks(self, name: str, place: int, smooth: bool = False) -> list[Block]:
        """Return one block: a column for each value, and for others and missing."""
        spelling = self.spelling(name)
        more = tuple(one for one in (OTHER, MISSING) if one not in spelling.names)
        levels, meant = (*spelling.names, *more), (*spelling.levels, *more)
        order = {**self._order(name), "n_ordered": len(spelling.names)}
        return [CategoriesBlock(name, place, levels, spelling=Spelling(meant), **order)]

    @property
    def cells(self) -> Sequence | None:  # noqa: D102
        return self.values

    def properties(self) -> dict[str, Any]:
        """Return the declaration; a list of categories needs no type."""
        found = super().properties()
        if self.values and type(self) in (Category, Label):
            del found["type"]
        return found


@dataclasses.dataclass(frozen=True)
class Label(Category, type="label"):
    """Outcome of a classifier; parameters as for `Category`.

    Rows with a label that is not listed contribute nothing to a fit.
    """

    read_as = "labels"
    may_be_outcome = True

    def check(self, name: str, is_outcome: bool) -> None:
        """Refuse a feature, and a single label."""
        if not is_outcome:
            raise SchemaError(
                f"column {name!r} is a Label but not an outcome: add it to outcomes, "
                "or declare a Category."
            )
        if len(self.values) == 1:
            raise SchemaError(
                f"label {name!r} lists one value: declare at least two values."
            )


@dataclasses.dataclass(frozen=True)
class Boolean(Category, type="boolean"):
    """Column with two values, true and false.

    Parameters
    ----------
    public, missing : default=False, None
        As for `Number`.
    true, false : list, default=()
        Cells that mean true and cells that mean false, such as ``true=["ja"],
        false=["nein"]``. By default "true", ``True`` and 1 mean true, and "false",
        ``False`` and 0 mean false.
    """

    read_as = "booleans"
    unreadable = ("date", "period", "duration", "time", "complex", "other")
    may_be_outcome = True

    values: ClassVar[tuple] = (False, True)
    public: bool = False
    _: dataclasses.KW_ONLY
    missing: Sequence | None = None
    true: Sequence = ()
    false: Sequence = ()

    def check(self, name: str, is_outcome: bool) -> None:
        """Refuse a word that means both true and false."""
        spelling_of([*self.true, *self.false], f"words of {name!r}")

    def _meant(self, cells: np.ndarray) -> np.ndarray:
        false, true = self.false or (False,), self.true or (True,)
        places = _places_of([*false, *true], cells)
        return objects(
            cell
            if place < 0 or isinstance(cell, (bool, np.bool_))
            else bool(place >= len(false))
            for cell, place in zip(cells, places, strict=True)
        )

    def misfit(self, kind: str) -> str | None:  # noqa: D102
        words = [*self.true, *self.false] or self.values
        return spelling_of(words, "missing").misfit(kind) if kind != "boolean" else None

    @property
    def cells(self) -> Sequence | None:  # noqa: D102
        return *self.values, *self.true, *self.false


@dataclasses.dataclass(frozen=True)
class Ignore(Column, type="ignore"):
    """Column that is not used."""

    is_feature = False

    def read(  # noqa: D102
        self, raw: Any, schema: Any, is_outcome: bool = False, coded: bool = False
    ) -> tuple[Any, np.ndarray]:
        # The group column: names of persons without spaces around them.
        known, at = distinct(raw) or (exact(raw), slice(None))
        cells, lost = objects(known), _places_of(self.gone(schema), known) != UNDECLARED
        cells = objects(c.strip() if isinstance(c, str) else c for c in cells)
        cells[lost] = None
        return cells[at], lost[at]


@dataclasses.dataclass(frozen=True)
class Unknown(Column, type="any"):
    """Column of a draft whose type is not declared yet."""

    may_be_outcome, question = True, "minimum and maximum, or enum, or type"
    public: bool = False

    def properties(self) -> dict[str, Any]:
        """Return places for what must be declared."""
        limits = {"minimum": None, "maximum": None, "enum": ()}
        return {"constraints": limits} | ({"public": True} if self.public else {})


_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_WEEKDAYS = "Mon Tue Wed Thu Fri Sat Sun".split()
_HOURS = [f"{hour:02}" for hour in range(24)]
#: Largest number of knots of a column: smoothing takes its square in memory.
MOST_KNOTS = 1000


def pandas_for(use: str = "a table with a schema") -> Any:
    """Return pandas, which `use` needs, or raise ImportError."""
    try:
        import pandas
    except ImportError:
        raise ImportError(f"{use} needs pandas: pip install pandas.") from None
    return pandas


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _places_of(levels: Sequence, cells: np.ndarray) -> np.ndarray:
    return spelling_of(levels, "missing").places(cells)


def _dtype(levels: Sequence) -> Any:
    kinds = {type(level) for level in levels}
    if kinds == {int}:
        fitting = np.result_type(*map(np.min_scalar_type, levels), np.int64)
        return {"i": "Int64", "u": "UInt64"}.get(fitting.kind, object)
    return "boolean" if kinds == {bool} else object


@lru_cache(maxsize=64)
def number_form(decimal: str, thousands: str) -> re.Pattern:
    """Return the regular expression of a number with these separators."""
    mark = re.escape(decimal)
    grouped = rf"[1-9]\d{{0,2}}(?:{re.escape(thousands)}\d{{3}})+" if thousands else ""
    whole = rf"(?:{grouped}|\d+)" if grouped else r"\d+"
    return re.compile(
        rf"[+-]?(?:{whole}(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?", re.ASCII
    )


#: A date whose text shows the length and the order of a format.
_EXAMPLE = datetime.datetime(2000, 12, 31, 23, 59, 59, 999_999, datetime.UTC)


def _width_of_digits(form: str) -> int:
    """Return the length of a date in a format of digits alone, such as "%Y%m%d"; or 0.

    A file reader may take such dates for numbers, and drop leading zeros.
    """
    text = _EXAMPLE.strftime(form)
    return len(text) if text.isdecimal() else 0


def _parts(form: str) -> set[str]:
    """Return the letters of a format, such as "d", "m" and "Y"."""
    return set(re.findall("%(.)", form.replace("%%", "")))


# Files: properties of columns, with the names of the Frictionless Table Schema.

#: The property of a parameter; that of any other parameter has its name.
_KEYS = {
    **{"low": "minimum", "high": "maximum", "first": "minimum", "last": "maximum"},
    **{"values": "enum", "missing": "missingValues"},
    **{"true": "trueValues", "false": "falseValues"},
}
_LIMITS = ("minimum", "maximum", "enum")
#: Properties and constraints that do not affect reading.
_NOT_READ = {
    *("name", "title", "description", "example", "rdfType", "required", "unique"),
    *("pattern", "minLength", "maxLength"),
}


def unknown_entry(place: str, key: str, known: Iterable[str]) -> SchemaError:
    """Return an error for an entry of a file that has no meaning."""
    return SchemaError(
        f"{place} has the unknown entry {key!r}: use one of {', '.join(known)}."
    )


def column_of(entry: Any, outcome: bool, place: str, own: bool) -> Column:
    """Return the column that an entry of a file declares.

    In a file of this package (`own`), unknown properties are refused.
    """
    entry = filled(entry)
    limits = filled(entry.pop("constraints", {}))
    stated, low = entry.pop("type", None), limits.get("minimum")
    if stated is None:
        by_low = "number" if isinstance(low, (int, float)) else "date"
        stated = "string" if "enum" in limits else "any" if low is None else by_low
    if own and stated not in TYPES:
        raise unknown_entry(f"type of {place}", stated, TYPES)
    kind = TYPES.get(stated, Unknown)
    if "enum" in limits and kind in (Number, Unknown):
        kind = Category
    if outcome and kind is Category:
        kind = Label
    known = {
        _KEYS.get(one.name, one.name): one.name for one in dataclasses.fields(kind)
    }
    takes = {key: known.pop(key) for key in _LIMITS if key in known}
    unread = limits.keys() - takes.keys() - _NOT_READ if own else ()
    for key in sorted({*unread} - {*_LIMITS}):
        raise unknown_entry(f"constraints of {place}", key, _LIMITS)
    if unread:
        raise SchemaError(
            f"constraints of {place} do not fit its type {stated}: change one of them."
        )
    if entry.get("format") == "any":
        raise SchemaError(
            f"format = 'any' of {place} is ambiguous: declare a format, such as "
            "'%d.%m.%Y'."
        )
    found: dict[str, Any] = {"hour": True} if stated == "datetime" else {}
    if kind is Number and stated in ("integer", "year"):
        found["integer"] = True
    for key in limits.keys() & takes.keys():
        # The standard allows numbers in text.
        of_numbers = stated in ("number", "integer", "year")
        found[takes[key]] = _as_numbers(limits[key]) if of_numbers else limits[key]
    for key, value in entry.items():
        if own and key not in (*known, *_NOT_READ):
            raise unknown_entry(place, key, ("type", "constraints", *known))
        if key in known and value != "default":
            found[known[key]] = value
    return kind(**found)


def filled(entry: Mapping) -> dict[str, Any]:
    """Return the entries that are not empty; missing values without their labels."""
    none = "missingValues", []  # states that no word counts as missing
    kept = {k: v for k, v in entry.items() if v not in ("", [], None) or (k, v) == none}
    if isinstance(words := kept.get("missingValues"), list):
        kept["missingValues"] = [
            word["value"] if isinstance(word, Mapping) else word for word in words
        ]
    return kept


def _as_numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [*map(_as_numbers, value)]
    return json.loads(value) if isinstance(value, str) else value


for _kind in (SchemaError, Column, *{*TYPES.values()}):
    public("skfdp.schema")(_kind)
