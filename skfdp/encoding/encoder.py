"""Encoder of raw tables that learns nothing."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from skfdp.addresses import public
from skfdp.encoding.blocks import MISSING, OTHER, Block
from skfdp.encoding.declarations import Declarations
from skfdp.encoding.tables import (
    check_names,
    check_table,
    is_dask_frame,
    raw_column,
    types_of,
    warn_of_types,
)
from skfdp.encoding.values import Column

# What the blocks of a column with bounds read, beside parts of dates.
_FROM_BOUNDS = ("number", "date")


@public("skfdp")
class DeclaredEncoder(TransformerMixin, BaseEstimator):
    """Encoder of raw tables into bounded blocks of columns, by declarations alone.

    Every raw column becomes a block: a number the hats of a piecewise linear curve or
    one scaled column, text one column for each category, a date a trend with its month
    and weekday. What a row becomes depends on this row and on the declarations; nothing
    is learnt from the rows, private or public.

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
        "auto": 8; 32 where an estimator smooths the curve (its `encoder`).
    spacing : {"auto", "even", "geometric"} or mapping, default="auto"
        Steps between knots. "geometric" is for numbers with a low bound of 0 or more;
        from 0 the first step goes to high / 128, or with few knots further. "auto": so
        where the low bound is 0, since most amounts are far below what they can be;
        "even" elsewhere, for dates, for cyclic columns, and for short scales from 0 to
        a whole number below 32.
    cyclic : column or list of columns, default=()
        Those whose upper bound is the lower one again, such as an hour of the day in
        (0, 24).
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
    zone is left out. Text must be ISO (2024-02-29, or more after it). The month and the
    weekday are categories, since there is nothing between two months for a curve to
    fill in: cyclic hats with a knot at each month would be the same columns.

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
        return self.fit_to_smooth(self._types(X), smooth=False)

    def _types(self, X):
        return check_table(types_of(X, self.categories or ()))

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
        if is_dask_frame(X):
            return self._lazily(X)
        return self.encoded(X)

    def _lazily(self, X):
        check_is_fitted(self)
        encode = functools.partial(self.encoded, least=0)
        parts = X.map_partitions(encode, meta=encode(X._meta))
        # Without a second look, Dask does not know how many columns there are.
        return parts.map_blocks(
            _as_it_is, chunks=(parts.chunks[0], (self._n_encoded,)), meta=parts._meta
        )

    @property
    def _n_encoded(self) -> int:
        return self.blocks_[-1].stop if self.blocks_ else 0

    def encoded(self, X, least: int = 1) -> np.ndarray | csr_array:
        """Return what `transform` returns if nobody asked for another container.

        With at least so many rows, see `check_table`.
        """
        check_is_fitted(self)
        X = check_table(X, least)
        check_names(X)
        validate_data(self, X, skip_check_array=True, reset=False)
        warn_of_types(
            X,
            {b.parents[0]: b.reads for b in self.blocks_ if b.reads in _FROM_BOUNDS},
        )
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
            if own is not None and not np.array_equal(own, input_features):
                raise ValueError(
                    "input_features is not equal to feature_names_in_: give the names "
                    "of the raw columns, or leave them out."
                )
            if len(input_features) != self.n_features_in_:
                raise ValueError(
                    "input_features should have length equal to number of features "
                    f"({self.n_features_in_}), got {len(input_features)}: give the "
                    "names of the raw columns, or leave them out."
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


def _entries(blocks: tuple[Block, ...], X: Any):
    """Yield each block with its entries; columns are kept while they are needed."""
    last = {place: j for j, block in enumerate(blocks) for place in block.parents}
    columns: dict[int, Column] = {}
    for j, block in enumerate(blocks):
        for place in block.parents:
            if place not in columns:
                columns[place] = Column(raw_column(X, place))
        yield block, *block.entries(*(columns[place] for place in block.parents))
        for place in block.parents:
            if last[place] == j:
                del columns[place]


def _dense(blocks: tuple[Block, ...], X: Any) -> np.ndarray:
    width = blocks[-1].stop if blocks else 0
    rows = np.zeros((X.shape[0], width))
    flat = rows.reshape(-1)
    starts = np.arange(X.shape[0])[:, None] * width
    for block, places, values in _entries(blocks, X):
        flat[starts + (block.start + places)] = values
    return rows


def _sparse(blocks: tuple[Block, ...], X: Any) -> csr_array:
    places, values = [], []
    for block, own, entries in _entries(blocks, X):
        order = np.argsort(own, axis=1)
        places.append(block.start + np.take_along_axis(own, order, axis=1))
        values.append(np.take_along_axis(entries, order, axis=1))
    width = blocks[-1].stop if blocks else 0
    if not blocks:
        return csr_array((X.shape[0], 0))
    place, value = np.hstack(places), np.hstack(values)
    stored = value != 0
    ends = np.concatenate([[0], np.cumsum(stored.sum(axis=1))])
    kind = np.int32 if max(ends[-1], width) < 2**31 else np.int64
    parts = value[stored], place[stored].astype(kind), ends.astype(kind)
    return csr_array(parts, shape=(X.shape[0], width))
