"""Encoder of raw tables that learns nothing."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import numbers
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from skfdp.addresses import public
from skfdp.data._basis import (
    MISSING,
    OTHER,
    SMOOTH_KNOTS,
    STANDALONE_KNOTS,
    Block,
    CategoriesBlock,
    HatsBlock,
    LinearBlock,
    PairBlock,
    Smoothing,
    spread_knots,
)
from skfdp.data.arrays import (
    Column,
    check_names,
    check_table,
    declared_levels,
    is_dask_frame,
    raw_column,
    type_kind,
    types_of,
    warn_of_types,
)
from skfdp.data.target import Spelling, spelling_of
from skfdp.data.validation import check_choice, check_flag, check_number
from skfdp.privacy.checks import shown

# Declarations of an encoder, checked against a table and resolved into blocks.
#
# Only names and types of columns are looked at, no value.


_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_WEEKDAYS = "Mon Tue Wed Thu Fri Sat Sun".split()
_HOURS = [f"{hour:02}" for hour in range(24)]


class Bounds(NamedTuple):
    """Declared bounds of a column; those of dates are days since 1970-01-01."""

    low: float
    high: float
    is_date: bool


class Declarations:
    """Declarations by column, or by position without names, of a checked table."""

    def __init__(
        self, encoder: Any, X: Any, names: Sequence[str] | None, smooth: bool = False
    ):
        check_flag("sparse_output", encoder.sparse_output)
        self._encoder = encoder
        self._smooth = smooth
        self._X = X
        n_features = X.shape[1]
        self.labels = [f"x{j}" for j in range(n_features)] if names is None else names
        self._keys = list(range(n_features)) if names is None else list(names)
        for key in _twice(self._keys):
            raise ValueError(f"X has two columns named {key!r}: rename one.")
        self._ignored = self._columns("ignore", encoder.ignore)
        self._levels = self._declared_categories()
        self._bounds = self._declared_bounds()
        self._check_each_once()
        self._cyclic = self._numeric("cyclic", encoder.cyclic)
        self._hours = self._numeric("hours", encoder.hours)
        for place in self._hours:
            if not self._bounds[place].is_date:
                raise ValueError(
                    f"hours names {self._keys[place]!r}, whose bounds are no dates."
                )

    def blocks(self) -> tuple[Block, ...]:
        """Return the blocks in the order of the columns, then the pairs."""
        found: list[Block] = []
        for place in range(len(self.labels)):
            found += self._of_column(place, self._smooth)
        for pair in self._pairs():
            # The knots of a pair multiply: as many as without smoothing are plenty.
            found.append(_pair(*(next(self._of_column(j, smooth=False)) for j in pair)))
        names = [name for block in found for name in block.feature_names]
        for name in _twice([block.name for block in found]) + _twice(names):
            raise ValueError(
                f"two encoded columns or blocks would be called {name!r}: rename a "
                "column or a category."
            )
        starts = itertools.accumulate((len(b.levels) for b in found), initial=0)
        return tuple(
            dataclasses.replace(block, start=start)
            for block, start in zip(found, starts, strict=False)
        )

    def _place(self, parameter: str, key: Any) -> int:
        known = isinstance(key, (str, numbers.Integral)) and not isinstance(key, bool)
        if not (known and key in self._keys):
            by = "position" if self._keys == list(range(len(self._keys))) else "name"
            raise ValueError(
                f"{parameter} names {shown(key)}, which is no column of X: give each "
                f"column by its {by}."
            )
        return self._keys.index(key)

    def _columns(self, parameter: str, given: Any) -> list[int]:
        if isinstance(given, (str, numbers.Integral)):
            given = [given]
        if not isinstance(given, Iterable):
            raise ValueError(f"{parameter}={shown(given)} must be a list of columns.")
        return [self._place(parameter, key) for key in given]

    def _numeric(self, parameter: str, given: Any) -> list[int]:
        found = self._columns(parameter, given)
        for place in found:
            if place not in self._bounds:
                raise ValueError(
                    f"{parameter} names {self._keys[place]!r}, which has no bounds: "
                    "declare them, or leave it out."
                )
        return found

    def _mapping(self, parameter: str, given: Any) -> dict[int, Any]:
        if not isinstance(given, Mapping):
            raise ValueError(f"{parameter}={shown(given)} must be a mapping.")
        return {self._place(parameter, key): value for key, value in given.items()}

    def _declared_categories(self) -> dict[int, Spelling]:
        categories, bounds = self._encoder.categories, self._encoder.bounds
        given = {} if categories is None else self._mapping("categories", categories)
        bounded = set(bounds) if isinstance(bounds, Mapping) else ()
        levels = {}
        for place, key in enumerate(self._keys):
            raw = raw_column(self._X, place)
            if place in given:
                levels[place] = _levels(f"categories[{key!r}]", given[place])
                if type_kind(raw) == "duration":
                    raise ValueError(
                        f"categories names {key!r}, and the column holds durations: "
                        f"declare bounds={{{key!r}: (low, high)}} in days, or turn it "
                        "into text."
                    )
            elif place not in self._ignored and key not in bounded:
                values = declared_levels(raw)
                if values is not None:
                    levels[place] = _levels(f"the type of {key!r}", values)
        return levels

    def _declared_bounds(self) -> dict[int, Bounds]:
        given = self._encoder.bounds
        if given is None:
            return {}
        if isinstance(given, Mapping):
            sides = self._mapping("bounds", given)
        else:
            others = {*self._levels, *self._ignored}
            sides = {j: given for j in range(len(self._keys)) if j not in others}
        found = {}
        for place, pair in sides.items():
            name = f"bounds[{self._keys[place]!r}]"
            found[place] = bounds = _bounds(name, pair)
            kind = type_kind(raw_column(self._X, place))
            if kind in ("date", "period") and not bounds.is_date:
                problem = (
                    f"must be two dates, such as '2020-01-31': the column holds {kind}s"
                )
            elif kind in _NUMERIC and bounds.is_date:
                problem = (
                    f"must be two numbers: the column holds {kind}s (durations are "
                    "read as days, times of day as hours); turn them into dates first "
                    "if they are some"
                )
            elif kind == "other":
                problem = (
                    "is for a column of a type that holds neither numbers nor dates: "
                    "turn it into one of them, or put it into ignore"
                )
            else:
                continue
            raise ValueError(f"{name}={shown(pair)} {problem}.")
        return found

    def _check_each_once(self) -> None:
        once = {"bounds": self._bounds, "categories": self._levels}
        once["ignore"] = dict.fromkeys(self._ignored)
        undeclared = []
        for place, key in enumerate(self._keys):
            where = [name for name, places in once.items() if place in places]
            if len(where) > 1:
                raise ValueError(
                    f"column {key!r} is declared in {' and in '.join(where)}: keep one."
                )
            if not where:
                undeclared.append(repr(key))
        if undeclared:
            first = undeclared[0]
            raise ValueError(
                f"{len(undeclared)} column(s) of X are not declared: give, from what "
                f"you know and not from the rows, of {', '.join(undeclared)} "
                f"bounds={{{first}: (low, high)}} for numbers, (first day, last day) "
                f"for dates, or categories={{{first}: [...]}}; or put a column into "
                "ignore."
            )

    def _setting(self, parameter: str, place: int, default: Any) -> Any:
        given = getattr(self._encoder, parameter)
        if not isinstance(given, Mapping):
            return given
        self._numeric(parameter, given)
        return given.get(self._keys[place], default)

    def _of_column(self, place: int, smooth: bool) -> Iterator[Block]:
        name, parents = self.labels[place], (place,)
        if place in self._levels:
            declared = self._levels[place]
            more = tuple(one for one in (OTHER, MISSING) if one not in declared.names)
            levels, meant = (*declared.names, *more), (*declared.levels, *more)
            yield CategoriesBlock(
                name, parents, levels, reads="category", spelling=Spelling(meant)
            )
        if place not in self._bounds:
            return
        yield self._of_bounds(place, smooth)
        if self._bounds[place].is_date:
            parts = [("month", _MONTHS), ("weekday", _WEEKDAYS)]
            for part, levels in parts + [("hour", _HOURS)] * (place in self._hours):
                own, every = f"{name}.{part}", (*levels, MISSING)
                yield CategoriesBlock(own, parents, every, reads=part, cyclic=True)

    def _of_bounds(self, place: int, smooth: bool) -> Block:
        bounds, cyclic = self._bounds[place], place in self._cyclic
        kind, end = HatsBlock, None
        basis = self._setting("basis", place, "hats")
        check_choice("basis", basis, ("hats", "linear"))
        if basis == "linear":
            if cyclic:
                raise ValueError(
                    f"cyclic names {self._keys[place]!r}, whose basis is 'linear': a "
                    "line does not close, use basis='hats' for it."
                )
            kind, levels = LinearBlock, ["linear"]
            knots = np.array([bounds.low, bounds.high])
        else:
            knots = self._knots(place, bounds, cyclic, smooth)
            if cyclic:
                knots, end = knots[:-1], float(knots[-1])
            levels = [str(j) for j in range(len(knots))]
        return kind(
            self.labels[place],
            (place,),
            (*levels, MISSING),
            reads="date" if bounds.is_date else "number",
            knots=knots,
            end=end,
            cyclic=cyclic,
        )

    def _knots(
        self, place: int, bounds: Bounds, cyclic: bool, smooth: bool
    ) -> np.ndarray:
        """Return knots in ascending order; of a cyclic column with both ends."""
        key = self._keys[place]
        name = f"n_knots[{key!r}]"
        given = self._setting("n_knots", place, "auto")
        if _is_listed(given):
            return _given_knots(name, given, bounds, cyclic)
        check_number(name, given, low=1, integral=True, also=("auto",))
        if isinstance(given, str):
            given = SMOOTH_KNOTS if smooth else STANDALONE_KNOTS
        spacing = self._setting("spacing", place, "auto")
        check_choice("spacing", spacing, ("auto", "even", "geometric"))
        if spacing == "auto":
            amount = bounds.low == 0 and not bounds.is_date and not cyclic
            # Grades, or counts of few: even knots are a knot for each of them.
            short = bounds.high.is_integer() and bounds.high < SMOOTH_KNOTS
            spacing = "geometric" if amount and not short else "even"
        if spacing == "geometric" and (bounds.is_date or bounds.low < 0):
            raise ValueError(
                f"spacing='geometric' needs numbers with a low bound of 0 or more, "
                f"which column {key!r} has not: use 'even' for it."
            )
        return spread_knots(bounds.low, bounds.high, int(given) + cyclic, spacing)

    def _pairs(self) -> list[tuple[int, int]]:
        given, found = self._encoder.interactions, []
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise ValueError(f"interactions={shown(given)} must be a list of pairs.")
        for pair in given:
            if isinstance(pair, str) or not isinstance(pair, Sequence):
                pair = (pair,)
            places = [self._place("interactions", key) for key in pair]
            if len(places) != 2 or places[0] == places[1]:
                raise ValueError(
                    f"interactions holds {shown(pair)}: each must be a pair of two "
                    "columns."
                )
            for place in places:
                if place in self._ignored:
                    raise ValueError(
                        f"interactions names {self._keys[place]!r}, which is ignored: "
                        "declare it, or leave the pair out."
                    )
            if set(places) in map(set, found):
                raise ValueError(f"interactions holds {shown(pair)} twice: keep one.")
            found.append((places[0], places[1]))
        return found


#: Kinds of types that are read as numbers.
_NUMERIC = ("boolean", "integer", "number", "duration", "time")


def _twice(names: Sequence) -> list:
    """Return the names that occur more than once."""
    return [name for name, times in Counter(names).items() if times > 1]


def _pair(first: Block, second: Block) -> Block:
    one, two = ([x for x in s.levels if x != MISSING] for s in (first, second))
    levels = (*(f"{a}:{b}" for a in one for b in two), MISSING)
    name, parents = f"{first.name}:{second.name}", first.parents + second.parents
    return PairBlock(name, parents, levels, reads="pair", sides=(first, second))


def _levels(name: str, values: Any) -> Spelling:
    unordered = isinstance(values, (str, bytes, Mapping, Set))
    if unordered or not isinstance(values, Iterable):
        raise ValueError(f"{name}={shown(values)} must be a list of categories.")
    found = spelling_of(values, name)
    if not found.levels:
        raise ValueError(
            f"{name} is empty: list at least one category, or ignore the column."
        )
    return found


def _bounds(name: str, pair: Any) -> Bounds:
    sides = [_side(value) for value in pair] if _is_listed(pair) else []
    if len(sides) == 2 and all(sides) and sides[0][1] == sides[1][1]:
        (low, is_date), (high, _) = sides
        if low < high:
            return Bounds(low, high, is_date)
    raise ValueError(
        f"{name}={shown(pair)} must be two finite numbers, or two dates such as "
        "'2020-01-31', the lower one first."
    )


def _is_listed(given: Any) -> bool:
    """Whether there are several values, in an order."""
    if isinstance(given, np.ndarray):
        return given.ndim > 0
    return isinstance(given, Sequence) and not isinstance(given, str)


def _side(value: Any) -> tuple[float, bool] | None:
    """Return a number or the days of a date, and whether it is one; None if neither."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        found, is_date = float(value), False
    else:
        found, is_date = float(Column([value]).read("date")[0]), True
    return (found, is_date) if math.isfinite(found) else None


def _given_knots(name: str, given: Any, bounds: Bounds, cyclic: bool) -> np.ndarray:
    sides = [_side(value) for value in given]
    fit = all(side is not None and side[1] == bounds.is_date for side in sides)
    if fit and len(sides) >= 2 + cyclic:
        knots = np.array([side[0] for side in sides if side])
        ends = (knots[0], knots[-1])
        inside = bounds.low <= ends[0] and ends[1] <= bounds.high
        closed = not cyclic or ends == (bounds.low, bounds.high)
        if (knots[1:] > knots[:-1]).all() and inside and closed:
            return knots
    expected = "from bound to bound, the last one being the first again"
    raise ValueError(
        f"{name}={shown(given)} must be at least {2 + cyclic} knots in ascending order "
        f"{expected if cyclic else 'within the bounds'}."
    )


@public("skfdp")
class DeclaredEncoder(TransformerMixin, BaseEstimator):
    """Encoder of raw tables into bounded blocks of columns, by declarations alone.

    Every raw column becomes a block: a number the hats of a piecewise linear curve or
    one scaled column, text one column for each category, a date a trend with its month
    and weekday, and perhaps its hour. What a row becomes depends on this row and on the
    declarations; nothing is learnt from the rows, private or public.

    Parameters
    ----------
    bounds : mapping or pair, default=None
        Bounds of numbers and dates by column, ``{"age": (17, 90)}`` or
        ``{"admitted": ("2020-01-01", "2025-12-31")}``, by position where columns have
        no names; a pair is for every column without categories. Values outside are
        clipped. Known beforehand, never taken from private rows.
    categories : mapping, default=None
        Categories by column, ``{"sex": ["F", "M"]}``. By default those of the type:
        False and True of a boolean column, the categories of a categorical column of
        pandas or an Enum of polars. **Declare such a type yourself**: one that pandas
        inferred (``astype("category")``) holds the values that occur in private rows.
        A category that is declared as a number is a number ("01" is 1), one that is
        declared as text is text ("01" is not "1"); see :ref:`spelling`.
    basis : {"hats", "linear"} or mapping, default="hats"
        By column with bounds. "linear": one column, scaled to [0, 1].
    n_knots : "auto", int or mapping, default="auto"
        Number of knots of each curve, hence of its columns, at least 2 (a line);
        in a mapping also the knots themselves, within the bounds, in ascending order.
        "auto": 8; 32 where an estimator smooths the curve (its `schema`).
    spacing : {"auto", "even", "geometric"} or mapping, default="auto"
        Steps between knots. "geometric" is for numbers with a low bound of 0 or more;
        from 0 the first step goes to high / 128, or with few knots further. "auto": so
        where the low bound is 0, since most amounts are far below what they can be;
        "even" elsewhere, for dates, for cyclic columns, and for short scales from 0 to
        a whole number below 32.
    cyclic : column or list of columns, default=()
        Those whose upper bound is the lower one again, such as an hour of the day in
        (0, 24).
    hours : column or list of columns, default=()
        Dates with a time of day, whose hour becomes a block beside month and weekday.
    interactions : list of pairs of columns, default=()
        Pairs that get a block of their own: all products of their columns. Of dates
        the trend is taken.
    ignore : column or list of columns, default=()
        Columns that are left out.
    sparse_output : bool, default=False
        Return a CSR array instead of an ndarray.

    Attributes
    ----------
    blocks_ : tuple of Block
        In the order of the encoded columns. Each has a `name`, the positions of its
        raw columns (`parents`), its encoded columns (`start`, `stop`), its `kind`
        ("hats", "linear", "categories", "pair"), `knots` and `levels`;
        ``block.encode(values)`` is the block of some raw values, for figures.
    n_features_in_ : int
        Number of raw columns.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        If X has names of columns.

    Notes
    -----
    **Guarantees.** `fit` reads names and types of columns, no value. `transform`
    answers for every value that a cell can hold, and for each row as if it stood alone:
    whether private values make a column text, float or integer changes no other row.
    Entries are in [0, 1], and the norm of a block is at most 1. What the types of
    columns depend on is public: with undeclared booleans, whether one is missing.

    **Missing values** (None, NaN, NaT, NA, empty text), infinite ones and those that
    cannot be read as what is declared have the level "missing" in every block of their
    column, *instead* of all other levels. Unknown categories have the level "other". A
    declared category "missing" or "other" is this level.

    **Hats** are degree-1 splines: at a knot one column is 1, between two knots both
    columns share 1, in multiples of 2**-26.

    **Dates** are days since 1970-01-01 in `knots`, and what the clock shows: a time
    zone is left out. Text must be ISO (2024-02-29, or more after it). The month, the
    weekday and the hour are categories, since there is nothing between two months for a
    curve to fill in: cyclic hats with a knot at each month would be the same columns.

    Examples
    --------
    >>> from skfdp import DeclaredEncoder
    >>> encoder = DeclaredEncoder({"age": (20, 80)}, {"sex": ["F", "M"]}, n_knots=3)
    >>> import pandas as pd
    >>> people = pd.DataFrame({"age": [35, None], "sex": ["M", "unknown"]})
    >>> encoder.set_output(transform="pandas").fit_transform(people).T
                      0    1
    age__0        0.5  0.0
    age__1        0.5  0.0
    age__2        0.0  0.0
    age__missing  0.0  1.0
    sex__F        0.0  0.0
    sex__M        1.0  0.0
    sex__other    0.0  1.0
    sex__missing  0.0  0.0
    """

    def __init__(
        self,
        bounds=None,
        categories=None,
        *,
        basis="hats",
        n_knots="auto",
        spacing="auto",
        cyclic=(),
        hours=(),
        interactions=(),
        ignore=(),
        sparse_output=False,
    ):
        self.bounds = bounds
        self.categories = categories
        self.basis = basis
        self.n_knots = n_knots
        self.spacing = spacing
        self.cyclic = cyclic
        self.hours = hours
        self.interactions = interactions
        self.ignore = ignore
        self.sparse_output = sparse_output

    def fit(self, X, y=None):
        """Check the declarations against the columns of a table; learn nothing.

        Parameters
        ----------
        X : DataFrame, Table or array-like of shape (n_rows, n_features)
            Of pandas, polars, pyarrow, Dask or numpy. Only names and types are read.
        y : ignored

        Returns
        -------
        self : DeclaredEncoder

        Raises
        ------
        ValueError
            If a column is not declared, or twice, or what is declared is no column;
            or if a declaration is impossible.
        """
        declared = () if self.categories is None else self.categories
        return self.fit_to_smooth(check_table(types_of(X, declared)), smooth=False)

    def fit_to_smooth(self, X, smooth: bool = True):
        """Fit inside an estimator, which smooths curves: "auto" then is more knots.

        There may be no row: the number of rows is private in some estimators.
        """
        vars(self).pop("blocks_", None)  # a fit that fails leaves none
        X = check_table(X, least=0)
        check_names(X)
        validate_data(self, X, skip_check_array=True)
        names = getattr(self, "feature_names_in_", None)
        names = None if names is None else list(map(str, names))
        self.blocks_ = Declarations(self, X, names, smooth).blocks()
        return self

    def transform(self, X):
        """Encode each row by itself.

        Parameters
        ----------
        X : DataFrame, Table or array-like of shape (n_rows, n_features)
            With the columns of `fit`; types may differ.

        Returns
        -------
        rows : float64 ndarray or csr_array of shape (n_rows, n_encoded)
            CSR, in canonical form and without stored zeros, if `sparse_output`. Of a
            frame of Dask an array of Dask, whose partitions are encoded by themselves.
        """
        if not is_dask_frame(X):
            return self.encoded(X)
        check_is_fitted(self)
        encode = functools.partial(self.encoded, least=0)
        parts = X.map_partitions(encode, meta=encode(X._meta))
        # Without a second look, Dask does not know how many columns there are.
        chunks = parts.chunks[0], (_width(self.blocks_),)
        return parts.map_blocks(_as_it_is, chunks=chunks, meta=parts._meta)

    def encoded(self, X, least: int = 1) -> np.ndarray | csr_array:
        """Return what `transform` returns if nobody asked for another container.

        With at least so many rows, see `check_table`.
        """
        check_is_fitted(self)
        X = check_table(X, least)
        check_names(X)
        validate_data(self, X, skip_check_array=True, reset=False)
        # Other than of parts of dates.
        bounded = (b for b in self.blocks_ if b.reads in ("number", "date"))
        warn_of_types(X, {block.parents[0]: block.reads for block in bounded})
        encode = _sparse if self.sparse_output else _dense
        return encode(self.blocks_, X)

    def categories_from_types(self) -> list[int]:
        """Return the positions of columns whose type tells their categories.

        But for booleans, whose categories are those of the type in any table.
        """
        check_is_fitted(self)
        keys = getattr(self, "feature_names_in_", range(self.n_features_in_))
        declared = set(self.categories or ())
        return [
            block.parents[0]
            for block in self.blocks_
            if block.reads == "category" and keys[block.parents[0]] not in declared
            if not {*block.levels} <= {"False", "True", OTHER, MISSING}
        ]

    def get_feature_names_out(self, input_features=None):
        """Return the names of the encoded columns, such as "age__3" or "sex__other".

        Parameters
        ----------
        input_features : array-like of str, default=None
            Must be the names of the raw columns, if these have names; not used.

        Returns
        -------
        names : ndarray of str objects of shape (n_encoded,)
        """
        check_is_fitted(self)
        if input_features is not None:
            own = getattr(self, "feature_names_in_", None)
            advice = "give the names of the raw columns, or leave them out."
            if own is not None and not np.array_equal(own, input_features):
                raise ValueError(
                    f"input_features is not equal to feature_names_in_: {advice}"
                )
            if len(input_features) != self.n_features_in_:
                raise ValueError(
                    "input_features should have length equal to number of features "
                    f"({self.n_features_in_}), got {len(input_features)}: {advice}"
                )
        names = [name for block in self.blocks_ for name in block.feature_names]
        return np.array(names, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a fit came to its end."""
        return hasattr(self, "blocks_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _as_it_is(rows: Any) -> Any:
    return rows


def _width(blocks: tuple[Block, ...]) -> int:
    return blocks[-1].stop if blocks else 0


def _entries(blocks: tuple[Block, ...], X: Any):
    """Yield each block with its entries; columns are kept while they are needed."""
    last = {place: j for j, block in enumerate(blocks) for place in block.parents}
    columns: dict[int, Column] = {}
    for j, block in enumerate(blocks):
        for place in block.parents:
            if place not in columns:
                columns[place] = Column(raw_column(X, place))
        yield block, *block.entries(*(columns[place] for place in block.parents))
        columns = {place: one for place, one in columns.items() if last[place] > j}


def _dense(blocks: tuple[Block, ...], X: Any) -> np.ndarray:
    rows = np.zeros((X.shape[0], _width(blocks)))
    flat = rows.reshape(-1)
    starts = np.arange(X.shape[0])[:, None] * rows.shape[1]
    for block, places, values in _entries(blocks, X):
        flat[starts + (block.start + places)] = values
    return rows


def _sparse(blocks: tuple[Block, ...], X: Any) -> csr_array:
    shape = X.shape[0], _width(blocks)
    if not blocks:
        return csr_array(shape)
    entries = [(b.start + own, values) for b, own, values in _entries(blocks, X)]
    places, values = map(np.hstack, zip(*entries, strict=True))
    rows = np.repeat(np.arange(shape[0]), places.shape[1])
    kind = np.int32 if max(values.size, *shape) < 2**31 else np.int64
    where = rows.astype(kind), places.ravel().astype(kind)
    found = csr_array((values.ravel(), where), shape=shape)
    found.eliminate_zeros()
    return found


# Encoded tables: what an encoder makes of the raw table of a fit.


@dataclasses.dataclass(frozen=True)
class EncodedTable:
    """The rows of a fit, and which raw columns each of their columns comes from."""

    encoder: DeclaredEncoder  # fitted
    #: Of shape (n_rows, n_encoded); private but for its public columns.
    encoded: np.ndarray | csr_array
    #: The public raw columns, shape (n_raw,).
    raw_mask: np.ndarray
    #: Between encoded columns and those of the loop; None: they are the same.
    smoothing: Smoothing | None = None

    @property
    def block(self) -> np.ndarray:
        """The block of each column of the loop, shape (n_columns,)."""
        smoothing = self.smoothing
        return self._block_of_encoded if smoothing is None else smoothing.block

    @property
    def _block_of_encoded(self) -> np.ndarray:
        sizes = [len(block.levels) for block in self.encoder.blocks_]
        return np.repeat(np.arange(len(sizes)), sizes)

    @property
    def public_blocks(self) -> np.ndarray:
        """Whether all that a block comes from is public, shape (n_blocks,)."""
        parents = [list(block.parents) for block in self.encoder.blocks_]
        return np.array([self.raw_mask[own].all() for own in parents], dtype=bool)

    @property
    def mask(self) -> np.ndarray:
        """The public columns of the loop, shape (n_columns,)."""
        return self.public_blocks[self.block]

    @property
    def public_encoded(self) -> np.ndarray:
        """The public encoded columns, shape (n_encoded,)."""
        return self.public_blocks[self._block_of_encoded]

    @property
    def longest_private(self) -> float:
        """Bound of the norm of the private columns of a row."""
        return math.sqrt(int((~self.public_blocks).sum()))

    @property
    def longest(self) -> float:
        """Bound of the norm of a row: each block is at most 1 long."""
        return math.sqrt(max(1, len(self.encoder.blocks_)))

    @property
    def bounds(self) -> tuple[float, float] | bool:
        """Bounds of the columns of the loop, as estimators take them."""
        return (0.0, 1.0) if self.smoothing is None else False

    def names(self, raw: Sequence[str | int]) -> tuple[str | int, ...]:
        """Return the name of the raw column that stands for each column of the loop.

        Of a pair it is a private one, if either is.
        """
        owners = [
            next((p for p in block.parents if not self.raw_mask[p]), block.parents[0])
            for block in self.encoder.blocks_
        ]
        return tuple(raw[owners[j]] for j in self.block)

    def smooth(self, signal: float, n_records: int, n_outputs: int) -> EncodedTable:
        """Return the table in smooth coordinates; parameters as for `Smoothing`.

        CSR rows stay as they are: they would be filled in.
        """
        if issparse(self.encoded):
            return self
        smoothing = Smoothing(self.encoder.blocks_, signal, n_records, n_outputs)
        return dataclasses.replace(self, smoothing=smoothing)

    def public_part(self) -> EncodedTable:
        """Return the same without the private columns of `encoded`."""
        shown = self.encoded[:, self.public_encoded]
        return dataclasses.replace(self, encoded=shown)

    def rows(self) -> np.ndarray | csr_array:
        """Return the rows of the loop, shape (n_rows, n_columns)."""
        smoothing = self.smoothing
        return self.encoded if smoothing is None else smoothing.rows(self.encoded)

    def weights(self, coef: np.ndarray, power: int = 1) -> np.ndarray:
        """Return weights on encoded columns, given weights on those of the loop.

        Parameters are those of `Smoothing.weights`.
        """
        return coef if self.smoothing is None else self.smoothing.weights(coef, power)

    def variances(self, variances: np.ndarray) -> np.ndarray:
        """Return variances of `weights`, given those of independent weights."""
        return self.weights(variances, power=2)
