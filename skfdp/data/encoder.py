"""Encoder of raw tables that uses declarations alone and learns nothing from rows."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from skfdp.addresses import Versioned, public
from skfdp.data._basis import Block, Smoothing, placed
from skfdp.data.arrays import blanked, check_no_path, raw_column
from skfdp.data.cells import content
from skfdp.data.codes import LINEAR_STEPS, ONE, CodedGridRows
from skfdp.data.grid import lazy_rows, on_grid
from skfdp.data.sources import LargeTable
from skfdp.data.validation import check_flag
from skfdp.privacy.checks import computed, shown

#: Number of encoded columns up to which estimators store the encoding as dense.
MOST_DENSE = 4096
# What each column of the last table added to the margins, by encoder, and the largest
# number of these margins. No file and no copy of a model has them.
_LAST_ADDED: WeakKeyDictionary[DeclaredEncoder, dict] = WeakKeyDictionary()
_MOST_MARGINS = 2**21


@public("skfdp")
class DeclaredEncoder(Versioned, TransformerMixin, BaseEstimator):
    """Encoder of raw tables into bounded blocks of columns, by declarations alone.

    A number becomes a linear spline basis or one scaled column, and text one column for
    each category. A date becomes a trend, a month and a weekday, and an hour if this is
    declared. Nothing is learnt from the rows.

    Parameters
    ----------
    schema : TableSchema
        Bounds, categories and spline knots of the columns. It selects the features of
        a table by name; the table may have further columns, in any order.
    sparse_output : bool, default=False
        Return a CSR array instead of an ndarray.

    Attributes
    ----------
    blocks_ : tuple of Block
        The blocks of encoded columns. Each has a `name`, the position of its raw column
        (`parent`), its encoded columns (`start`, `stop`), its `kind` ("spline",
        "linear", "categories"), `knots`, `levels`, and ``encode(values)``.
    n_features_in_ : int
        Number of columns of the table of `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of these columns.

    Notes
    -----
    **Guarantees.** `fit` reads names and types of columns, but no value. `transform`
    accepts every value, and encodes each row independently of the others, also if a
    private value turns a whole column into text, floats or integers. Entries are in
    [0, 1]. In each row, the norm of a block is at most 1.

    **Missing values** (None, NaN, NaT, NA, empty text), infinite values and unreadable
    values get the level "missing" in every block of their column, *instead* of all
    other levels. Unknown categories get the level "other". A declared category with the
    name "missing" or "other" is the same level.

    **Splines** have degree 1, as in `SplineTransformer`. The column of a knot is 1 at
    the knot. Between two knots their columns sum to 1, in multiples of 2**-52.

    **Dates** are days since 1970-01-01 in `knots`, in local time. Text has the ISO
    format or the declared one. Month, weekday and hour are categories.

    Examples
    --------
    >>> from skfdp import DeclaredEncoder, TableSchema
    >>> from skfdp.schema import Category, Number
    >>> columns = {"age": Number(20, 80, knots=3), "sex": Category(["F", "M"])}
    >>> encoder = DeclaredEncoder(TableSchema(columns))
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

    def __init__(self, schema=None, *, sparse_output=False) -> None:
        self.schema = schema
        self.sparse_output = sparse_output

    def fit(self, X, y=None) -> DeclaredEncoder:
        """Check that a table has the features of the schema; learn nothing.

        Parameters
        ----------
        X : DataFrame or Table
            A table of pandas, polars or pyarrow. Only names of columns are read.
        y : ignored

        Returns
        -------
        self : DeclaredEncoder

        Raises
        ------
        ValueError
            If a column is missing, or the schema is not complete.
        """
        vars(self).pop("blocks_", None)  # a failed fit leaves the encoder unfitted
        check_flag("sparse_output", self.sparse_output)
        if not hasattr(type(self.schema), "blocks"):
            raise TypeError(f"schema={shown(self.schema)} must be a TableSchema.")
        check_no_path(X)
        self.schema.check_features(X)
        validate_data(self, X, skip_check_array=True)
        self.blocks_ = self.schema.blocks()
        return self

    def fit_to_smooth(self, smooth: bool = True):
        """Fit to the features alone; with `smooth` curves have more knots."""
        self.feature_names_in_ = np.array(self.schema.features, dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        self.blocks_ = self.schema.blocks(smooth)
        return self

    def transform(self, X) -> Any:
        """Encode each row separately.

        Parameters
        ----------
        X : DataFrame or Table
            A table with the features of the schema; types may differ from `fit`.

        Returns
        -------
        rows : float64 ndarray or csr_array of shape (n_rows, n_encoded)
            CSR, in canonical form and without stored zeros, if `sparse_output`.
        """
        check_is_fitted(self)
        rows = self.coded(self.columns(X))
        return rows if self.sparse_output else rows[:]

    def margins(self, X: Any, coef: np.ndarray) -> np.ndarray:
        """Return ``transform(X) @ coef.T`` of a table, without encoded rows.

        A column that equals that of the last table is not read again: from call to
        call, partial dependence changes one or two columns.
        """
        X = self.columns(X)
        found = np.zeros((len(X), len(coef)))
        keeps = coef.size <= found.size * len(X.raw) <= _MOST_MARGINS
        last = dict(_LAST_ADDED.get(self, ())) if keeps else {}
        for place, blocks in itertools.groupby(self.blocks_, lambda b: b.parent):
            parts = [(block, coef[:, block.start : block.stop]) for block in blocks]
            key = content(X.raw[place][1]) if keeps else []
            key += [weights.tobytes() for _, weights in parts]
            own = last.get(place, ((),))
            if own[0] != key:
                cells = X[:, place]
                own = key, sum(block.margins(cells, part) for block, part in parts)
            found += own[1]
            if keeps:
                last[place] = own
        _LAST_ADDED[self] = last
        return found

    @property
    def n_encoded(self) -> int:
        """Number of encoded columns."""
        return _width(self.blocks_)

    def columns(self, X: Any) -> Any:
        """Return the features of a table that has rows; see `coded`."""
        check_no_path(X)
        X = self.schema.select(X, coded=True)
        if not len(X):
            raise ValueError("X has 0 sample(s): at least 1 is needed.")
        return X

    def coded(self, X, cut: Sequence[bool] = ()) -> LargeTable | csr_array:
        """Return the encoded rows of a table that has only the features, in order.

        A `LargeTable` encodes rows when they are read. Numbers of the columns in the
        mask `cut` are truncated to the grid.
        """
        if self.sparse_output:
            return _sparse(self.blocks_, X, cut)
        return LargeTable.of(CodedRows.of(self.blocks_, X, cut))

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """Return the names of the encoded columns, such as "age__3" or "sex__other"."""
        check_is_fitted(self)
        names = [name for block in self.blocks_ for name in block.feature_names]
        return np.array(names, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a fit has finished."""
        return hasattr(self, "blocks_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _width(blocks: tuple[Block, ...]) -> int:
    return blocks[-1].stop if blocks else 0


def _entries(blocks: tuple[Block, ...], X: Any, cut: Sequence[bool]):
    """Yield each block with its entries; `cut` is as for `DeclaredEncoder.coded`."""
    for place, own in itertools.groupby(blocks, lambda block: block.parent):
        raw = raw_column(X, place)
        for block in own:
            places, values = block.entries(raw)
            if len(cut) and cut[place] and block.kind != "categories":
                last = on_grid(values[:, -1:], truncates=True)
                values = np.hstack([1 - last, last][-values.shape[1] :])
            yield block, places, values


def _sparse(blocks: tuple[Block, ...], X: Any, cut: Sequence[bool] = ()) -> csr_array:
    shape = len(X), _width(blocks)
    if not blocks:
        return csr_array(shape)
    entries = [(b.start + own, values) for b, own, values in _entries(blocks, X, cut)]
    places, values = map(np.hstack, zip(*entries, strict=True))
    rows = np.repeat(np.arange(shape[0]), places.shape[1])
    kind = np.int32 if max(values.size, *shape) < 2**31 else np.int64
    where = rows.astype(kind), places.ravel().astype(kind)
    found = csr_array((values.ravel(), where), shape=shape)
    found.eliminate_zeros()
    return found


@dataclasses.dataclass(frozen=True)
class _Entries:
    """The entries of a block that may be non-zero, for all rows."""

    #: The number of the block in the encoder.
    block: int
    #: The position of the block's first column in the computed rows.
    start: int
    #: Positions within the block, shape (n_rows, n_entries).
    places: np.ndarray
    #: None: a single entry in a row, a 1, as of categories.
    values: np.ndarray | None
    #: Computes smooth terms from the entries; None: rows have the entries themselves.
    curve: Any = None

    def write(self, chosen: slice | np.ndarray, out: np.ndarray) -> None:
        """Write this block's columns of the chosen rows to `out`, which holds zeros."""
        places = self.places[chosen]
        values = 1.0 if self.values is None else self.values[chosen]
        if self.curve is None:
            out[np.arange(len(out))[:, None], np.int64(self.start) + places] = values
        else:
            self.curve.write(places, values, out, self.start)

    def times(self, chosen: slice | np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the products of the chosen rows with weights of all columns."""
        found = weights[np.int64(self.start) + self.places[chosen]]
        if self.values is None:
            return found[:, 0]
        return (found * self.values[chosen][..., None]).sum(axis=1)

    def smooth(self, smoothing: Smoothing) -> _Entries:
        """Return the block with smooth terms in place of its entries."""
        _, own, curve = smoothing.curves[self.block]
        curve = curve if curve.smooth.size else None
        return dataclasses.replace(self, start=own.start, curve=curve)

    def on_grid(self) -> _Entries:
        """Return the block with the weights of `term`, as integers hold them."""
        if self.values is None:
            return self
        if self.values.shape[1] == 1:  # a linear term
            steps = ONE * LINEAR_STEPS
            return dataclasses.replace(
                self, values=np.rint(self.values * steps) / steps
            )
        upper = np.rint(self.values[:, 1] * ONE) / ONE
        return dataclasses.replace(self, values=np.stack([1 - upper, upper], axis=1))

    def term(
        self, blocks: tuple[Block, ...], factors: np.ndarray
    ) -> tuple[np.ndarray | csr_array, ...]:
        """Return levels, places and weights (not of categories) for `CodedGridRows`.

        The levels of a number are those of knots, or of equal steps of a linear term,
        and then of a missing number.
        """
        block = blocks[self.block]
        every = np.arange(len(block.levels), dtype=np.int32)[:, None]
        if self.values is None:
            columns, shape = self.start + every[:, 0], (len(every), factors.size)
            levels = csr_array((factors[columns], (every[:, 0], columns)), shape)
            return levels, self.places[:, 0]
        own = dataclasses.replace(self, places=every, values=np.ones(every.shape))
        levels = np.zeros((len(every), factors.size))
        own.write(slice(None), levels)
        levels *= factors
        knots, missing = levels[: block.missing], levels[block.missing :]
        if block.kind == "linear":
            steps = self.values[:, 0] * LINEAR_STEPS
            places = np.minimum(steps.astype(np.int64), LINEAR_STEPS - 1)
            weights = steps - places
            knots = np.arange(LINEAR_STEPS + 1)[:, None] / LINEAR_STEPS * knots
        else:
            places, weights = self.places[:, 0], self.values[:, 1]
            if block.end is not None:  # the last knot is followed by the first
                knots = np.vstack([knots, knots[:1]])
        absent = self.places[:, 0] == block.missing
        places = np.where(absent, len(knots), places)
        return np.vstack([knots, missing]), places, np.where(absent, 0.0, weights)


@dataclasses.dataclass(frozen=True)
class CodedRows:
    """Encoded rows that are computed when they are read; a source of `LargeTable`.

    A category is stored as one small integer, and a value between two knots as two
    integers and two weights. Columns of blocks that are not in `parts` are zeros.
    """

    parts: tuple[_Entries, ...]
    shape: tuple[int, int]
    #: All blocks of the encoder.
    blocks: tuple[Block, ...]
    #: The further last columns, `ProductsOfShapes`, and the rows from which they are
    #: computed; None: there are none.
    beside: Any = None

    dtype: ClassVar[np.dtype] = np.dtype(np.float64)

    @classmethod
    def of(
        cls, blocks: tuple[Block, ...], X: Any, cut: Sequence[bool] = ()
    ) -> CodedRows:
        """Encode the columns of a table; `cut` is as for `DeclaredEncoder.coded`."""
        parts = []
        for number, (block, places, values) in enumerate(_entries(blocks, X, cut)):
            kind = np.int32
            if block.kind == "categories":
                kind, values = np.min_scalar_type(len(block.levels)), None
            parts.append(_Entries(number, block.start, places.astype(kind), values))
        return cls(tuple(parts), (len(X), _width(blocks)), blocks)

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        some = range(self.shape[0])[rows] if isinstance(rows, slice) else rows
        out = np.zeros((len(some), self.shape[1]))
        for part in self.parts:
            part.write(rows, out)
        if self.beside is not None:
            out[:, -self.beside[0].n_products :] = self._further(rows)
        return out

    def _further(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return the further columns."""
        products, encoded = self.beside
        shapes = sum(part.times(rows, products.shapes) for part in encoded.parts)
        return products.of_shapes(shapes)

    def smooth(self, smoothing: Smoothing) -> CodedRows:
        """Return the same rows with smooth terms in place of spline columns."""
        parts = tuple(part.smooth(smoothing) for part in self.parts)
        return CodedRows(parts, (self.shape[0], smoothing.n_columns), self.blocks)

    def on_grid(self) -> CodedRows:
        """Return the rows with the weights that `integers` have."""
        return dataclasses.replace(self, parts=tuple(o.on_grid() for o in self.parts))

    def wider(self, products: Any) -> CodedRows:
        """Return the rows on the grid, with further columns."""
        shape = self.shape[0], self.shape[1] + products.n_products
        beside = products, self.encoded.on_grid()
        return dataclasses.replace(self.on_grid(), shape=shape, beside=beside)

    @property
    def encoded(self) -> CodedRows:
        """The same rows without smooth terms and further columns."""
        parts = tuple(
            dataclasses.replace(part, start=self.blocks[part.block].start, curve=None)
            for part in self.parts
        )
        return CodedRows(parts, (self.shape[0], _width(self.blocks)), self.blocks)

    def blanked(self, blocks: np.ndarray) -> CodedRows:
        """Return the rows with zeros in the blocks that the mask `blocks` excludes."""
        parts = tuple(part for part in self.parts if blocks[part.block])
        return dataclasses.replace(self, parts=parts)

    def part(self, blocks: np.ndarray, columns: np.ndarray) -> CodedRows:
        """Return the columns of some blocks alone, given masks of both."""
        own, place = self.blanked(blocks).parts, np.append(0, np.cumsum(columns))
        parts = tuple(dataclasses.replace(o, start=int(place[o.start])) for o in own)
        shape = self.shape[0], int(place[-1])
        return dataclasses.replace(self, parts=parts, shape=shape)

    def saves(self, n_outputs: int) -> bool:
        """Whether steps on `integers` are faster than on columns; a public fact.

        On codes the time is proportional to the number of outputs, on columns it grows
        more slowly.
        """
        n_categories = sum(block.kind == "categories" for block in self.blocks)
        least = 4 * n_categories + 10 * (len(self.blocks) - n_categories)
        least *= 1 if n_outputs == 1 else 2 if n_outputs < 5 else 4
        # Wider tables in memory are sparse, and other tables must give equal releases.
        return least < self.shape[1] and _width(self.blocks) <= MOST_DENSE

    def integers(self, factors: np.ndarray | None = None) -> CodedGridRows:
        """Return the rows as quantised codes, times a factor of each column."""
        known = self.blocks, np.ones(self.shape[1]) if factors is None else factors
        categories, numbers = [], []
        for part in self.parts:
            (categories if part.values is None else numbers).append(part.term(*known))
        further = ()
        if self.beside is not None:
            every, products = np.arange(self.shape[0])[:, None], self.beside[0]
            given = every, lambda rows: self._further(rows[:, 0])
            further = lazy_rows(*given, products.n_products), products.step
        return CodedGridRows.build(categories, numbers, *self.shape, *further)


@dataclasses.dataclass(frozen=True)
class Encoding:
    """The encoding of a fit, without rows: the raw column of each encoded column.

    Solvers read solver columns: the encoded ones, or smooth terms made from them.
    Encoded rows, of shape (n_rows, n_encoded), are private except for public columns.
    """

    encoder: DeclaredEncoder  # fitted
    #: Mask of the public raw columns, shape (n_raw,).
    raw_mask: np.ndarray
    #: Conversion to smooth terms; None if solvers read the encoded columns.
    smoothing: Smoothing | None = None

    #: The number of the block of each solver column, shape (n_columns,).
    block: np.ndarray = computed()
    #: The block number of each solver column; -1 outside of category blocks.
    levels: np.ndarray = computed()
    #: Whether the raw column of a block is public, shape (n_blocks,).
    public_blocks: np.ndarray = computed()
    #: Mask of the public solver columns, shape (n_columns,).
    mask: np.ndarray = computed()
    #: Mask of the public encoded columns, shape (n_encoded,).
    public_encoded: np.ndarray = computed()

    def __post_init__(self) -> None:
        blocks = self.encoder.blocks_
        sizes = [len(block.levels) for block in blocks]
        encoded = np.repeat(np.arange(len(sizes)), sizes)
        block = encoded if self.smoothing is None else self.smoothing.block
        public = self.raw_mask[[one.parent for one in blocks]]
        kinds = np.array([one.kind == "categories" for one in blocks])
        vars(self).update(
            block=block,
            levels=np.where(kinds[block], block, -1),
            public_blocks=public,
            mask=public[block],
            public_encoded=public[encoded],
        )

    @property
    def of_public(self) -> tuple[Block, ...]:
        """The blocks of the public raw columns, without gaps between them."""
        return placed(itertools.compress(self.encoder.blocks_, self.public_blocks))

    def smooth(self, signal: float, n_records: int, n_outputs: int) -> Encoding:
        """Return the encoding with smooth terms; parameters as for `Smoothing`."""
        smoothing = Smoothing(self.encoder.blocks_, signal, n_records, n_outputs)
        return dataclasses.replace(self, smoothing=smoothing)

    def blanked(self, encoded: LargeTable | csr_array) -> LargeTable | csr_array:
        """Return encoded rows with zeros in place of private entries."""
        if self.encoder.sparse_output:
            return blanked(encoded, self.public_encoded)
        source = encoded.source.blanked(self.public_blocks)
        return dataclasses.replace(encoded, source=source)

    def public_part(self, encoded: LargeTable | csr_array) -> LargeTable | csr_array:
        """Return the public columns of encoded rows."""
        return self.blanked(encoded)[:, self.public_encoded]

    def rows(self, encoded: LargeTable | csr_array) -> LargeTable | csr_array:
        """Return encoded rows as rows of solver columns, shape (n_rows, n_columns)."""
        smoothing = self.smoothing
        if smoothing is None:
            return encoded
        if self.encoder.sparse_output:
            return smoothing.rows(encoded)
        source = encoded.source.smooth(smoothing)
        return dataclasses.replace(encoded, source=source, width=smoothing.n_columns)

    def weights(self, coef: np.ndarray, power: int = 1) -> np.ndarray:
        """Return weights of encoded columns; see `Smoothing.weights`."""
        return coef if self.smoothing is None else self.smoothing.weights(coef, power)
