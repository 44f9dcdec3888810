r"""Interactions: products of columns, as further columns of a fit.

Curves and categories alone make an additive model. An interaction is the part of the
effect of two columns that is not additive. It is made of *shapes*, which are a few
functions of one column: of a number, Legendre polynomials of its rank; of a category,
the indicators of its most frequent levels. Each product of a shape of one column and a
shape of another, minus its least-squares fit on the shapes of both, is a further
column.

If all columns are public, so are their products: shapes, fits and their scale are
functions of public columns, and cost no privacy. Otherwise the means of the encoded
columns are released first, for at most about 1 % of the budget. They tell the ranks,
the frequent levels, and the fits and the scale that hold if columns are independent.
Products are then a declared encoding: a function of one row, and of released numbers.

Weights of products are kept beside `coef_`, as `Interactions`, in the way of a public
model that is not linear. So `coef_` has one weight for each encoded column, with or
without interactions.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.sparse import csr_array

from skfdp.data._basis import Block
from skfdp.data.codes import CODE_UNIT
from skfdp.data.encoder import Encoding
from skfdp.data.grid import GridRows, Integers, blocks, lazy_rows, on_grid
from skfdp.data.records import PublicRecords, Records
from skfdp.data.sources import LargeTable
from skfdp.data.validation import UtilityWarning, warn_caller
from skfdp.privacy import Event
from skfdp.queries.statistics import GridRowSum, RowSum
from skfdp.solvers.label_statistic import LabelStatistic
from skfdp.solvers.method import Budget, Method, Needs, Plan, of_model
from skfdp.solvers.postprocessing import SCALES_OF_PRIVATE, LinearFit

#: From these signals on products helped on most tables, if all columns are public, and
#: if all are private; between, the gate is a weighted mean. A signal is the number of
#: records divided by the noise in a sum of rows of norm 1.
GATES = 1500.0, 5000.0
#: The least signal for those that a user asks for.
GATES_IF_ASKED = 0.0, 2500.0
NEEDED = "public columns alone, or default settings and mu n / 2 of at least 2,500"
#: Largest number of products, and numbers of levels of a category that are tried until
#: there are no more products. The last of them is of all remaining levels.
MOST_INTERACTIONS, MOST_PRIVATE, NUMBERS_OF_LEVELS = 400, 200, (5, 4, 3, 2)
#: Label of the release of the means of encoded columns, their desired error, and the
#: largest share of ``mu**2`` for it.
MARGINALS, MARGINAL_ERROR, MOST_OF_MARGINALS = "marginals", 0.005, 0.05
#: Factors of the Legendre polynomials of order 1 and 2.
ORDERS = 0.7, 0.5
#: Standard deviation of all products, divided by that of all other columns.
SCALE_OF_PRODUCTS = 0.3


def shapes_of(block: Block, count: np.ndarray, n_levels: int) -> np.ndarray:
    """Return shapes of a column, as numbers for each of its encoded columns.

    `count` are the sums of the encoded columns. The result has the shape (n_encoded,
    n_shapes). There are at most `n_levels` shapes of a category, and ``n_levels - 1``
    of a number. A constant that is added to a shape changes nothing.
    """
    n_encoded = len(block.levels)
    if block.monotone:  # an interaction could make its effect fall
        return np.zeros((n_encoded, 0))
    if block.kind == "categories":
        group = np.empty(n_encoded, dtype=int)
        group[np.argsort(-count, kind="stable")] = np.arange(n_encoded)
        group = np.minimum(group, n_levels - 1)
        found = (group[:, None] == np.arange(n_levels)).astype(float)
        return found[:, count @ found > 0]
    found = np.zeros((n_encoded, len(ORDERS)))
    if block.kind == "linear":
        found = ORDERS[0] * np.array([[2.0], [1.0]])  # "missing" is the middle
    elif block.end is not None:
        angle = 2 * np.pi * np.arange(block.missing) / block.missing
        found[: block.missing] = np.column_stack([np.cos(angle), np.sin(angle)])
        found *= ORDERS[0]
    else:
        mass = count[: block.missing]  # of rows at the knots
        rank = (np.cumsum(mass) - mass / 2) / (mass.sum() or 1.0)
        legendre = 2 * rank - 1, 6 * rank * (rank - 1) + 1
        found[: block.missing] = np.column_stack(legendre) * ORDERS
    return found[:, : n_levels - 1]


def points_of(
    columns: Sequence[Block], means: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the points of declared columns, their shares, and their blocks.

    A point is an encoded level or knot of one block, with zeros in the other blocks, so
    the first array has the shape (n_points, n_encoded). Each block of an encoded row is
    one of its points, or lies between two. The shares of a block sum to 1. They follow
    from the positive `means` of the encoded columns; None: levels and knots are equally
    frequent, and no number is missing.
    """
    places, shares = [], []
    for block in columns:
        own = np.eye(len(block.levels))
        share = np.ones(len(own))
        if block.kind != "categories":
            share[block.missing] = 0.0
        if means is not None:
            share = means[block.start : block.stop]
        if block.kind == "linear":  # 0, 1/2, 1 and "missing"
            gone = min(share[1], 1.0)
            mean = 0.5 if means is None else np.clip(share[0] / (1 - gone + 1e-9), 0, 1)
            # An even column has this variance.
            middle = 4 / 3 * min(mean, 1 - mean)
            share = np.array([1 - mean, 0, mean]) + middle * np.array([-0.5, 1, -0.5])
            share = np.append((1 - gone) * share, gone)
            own = np.array([[0, 0], [0.5, 0], [1, 0], [0, 1]])
        places.append(own)
        shares.append(share / share.sum())
    numbers = np.repeat(np.arange(len(columns)), [len(own) for own in places])
    return block_diag(*places), np.concatenate(shares), numbers


@dataclasses.dataclass(frozen=True)
class ProductsOfShapes:
    """Products of shapes of two columns, minus their fits on the shapes of both.

    `columns` are the numbers of the two blocks of each product, and `pairs` those of
    its two shapes, shape (2, n_products); products of the same two blocks are adjacent.
    `shapes` are those of `shapes_of`, shape (n_encoded, n_shapes), and `fits` the
    least-squares fits of the products, shape (1 + n_shapes, n_products). All products
    are multiplied by `scale`.
    """

    shapes: np.ndarray
    columns: np.ndarray
    pairs: np.ndarray
    fits: np.ndarray
    scale: float = 1.0

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return the products of encoded public rows, shape (n_rows, n_products)."""
        return self.of_shapes(rows @ self.shapes)

    def of_shapes(self, shapes: np.ndarray) -> np.ndarray:
        """Return the products of rows, given their shapes."""
        one, other = self.pairs
        found = shapes[:, one] * shapes[:, other]
        found -= self.fits[0] + shapes @ self.fits[1:]
        return found * self.scale

    @property
    def n_products(self) -> int:
        """Number of products."""
        return self.pairs.shape[1]

    @property
    def step(self) -> float:
        """A power of two, of which products of centred shapes have at most 11 bits."""
        return max(2.0 ** (math.frexp(self.scale)[1] - 10), CODE_UNIT)

    @property
    def parts(self) -> list[slice]:
        """The products of each pair of columns."""
        new = np.diff(self.columns, axis=1).any(axis=0)
        ends = [0, *(1 + np.flatnonzero(new)).tolist(), new.size + 1]
        return [slice(*pair) for pair in itertools.pairwise(ends)]

    @classmethod
    def listed(
        cls, columns: Sequence[Block], counts: np.ndarray, most: int, drops: int = 0
    ) -> ProductsOfShapes | None:
        """Return up to `most` products without fits; None if there are too few or many.

        `counts` are the sums of the encoded columns. `drops` is 1 to leave out the last
        levels of categories, whose indicators follow from the others.
        """
        for n_levels in NUMBERS_OF_LEVELS:
            found = []
            for block in columns:
                own = shapes_of(block, counts[block.start : block.stop], n_levels)
                n_kept = own.shape[1] - drops * (block.kind == "categories")
                found.append(own[:, :n_kept])
            ends = np.cumsum([0, *(own.shape[1] for own in found)])
            products = [
                (a, b, i, j)
                for a, b in itertools.combinations(range(len(columns)), 2)
                for i in range(ends[a], ends[a + 1])
                for j in range(ends[b], ends[b + 1])
            ]
            if 0 < len(products) <= most:
                break
        else:
            return None
        shapes = np.zeros((len(counts), ends[-1]))
        for block, own, first in zip(columns, found, ends[:-1], strict=True):
            shapes[block.start : block.stop, first : first + own.shape[1]] = own
        a, b, i, j = np.array(products).T
        fits = np.zeros((1 + ends[-1], len(products)))
        return cls(shapes, np.array([a, b]), np.array([i, j]), fits)

    @classmethod
    def learn(
        cls, columns: Sequence[Block], encoded: LargeTable, variance: float
    ) -> ProductsOfShapes | None:
        """Return the products of public columns, or None with too few or too many.

        `encoded` are the encoded public columns. `variance` is the sum of the variances
        of the columns beside the products.

        Notes
        -----
        **Guarantees.** The result is a function of the public columns.
        """
        parts = [*blocks(*encoded.shape)]
        counts = sum(encoded[part].sum(axis=0) for part in parts)
        found = cls.listed(columns, counts, MOST_INTERACTIONS)
        if found is None:
            return None
        shapes, fits, (i, j) = found.shapes, found.fits, found.pairs
        total, values = 0.0, np.concatenate([encoded[part] @ shapes for part in parts])
        for part in found.parts:
            own = np.unique(found.pairs[:, part])
            given = np.column_stack([np.ones(len(values)), values[:, own]])
            wanted = values[:, i[part]] * values[:, j[part]]
            gram, rtol = given.T @ given, 1e-10  # of which rounding leaves nothing
            fit = np.linalg.pinv(gram, rtol=rtol, hermitian=True) @ (given.T @ wanted)
            fits[np.append(0, 1 + own), part] = fit
            total += ((wanted - given @ fit) ** 2).sum() / len(values)
        if not min(total, variance) > 1e-12:  # no two columns vary independently
            return None
        scale = SCALE_OF_PRODUCTS * math.sqrt(variance / total)
        return dataclasses.replace(found, scale=scale)

    @classmethod
    def of_independent(
        cls, encoding: Encoding, means: np.ndarray | None, n_classes: int = 2
    ) -> ProductsOfShapes | None:
        """Return the products of declared columns, or None with too few or too many.

        Fits and scale are those of independent columns; `means` are as for `points_of`.
        The numbers of products and of shapes do not depend on them, and the norm of the
        products of a row is at most `reach_of`. `n_classes` is 0 in a regression.

        Notes
        -----
        **Guarantees.** The result is a function of the declarations and of `means`,
        which are released. Rows, shapes and fits are on the grid, so that sums of their
        products are exact in any order, wherever the record is.
        """
        columns = encoding.encoder.blocks_
        places, shares, of_point = points_of(columns, means)
        found = cls.listed(columns, shares @ places, MOST_PRIVATE, 1)
        if found is None:
            return None
        found.shapes[:] = on_grid(found.shapes)
        (i, j), centred = found.pairs, found.centred(columns, means)[0]
        centre, each = on_grid(shares @ (places @ found.shapes)), np.arange(i.size)
        # The product of two centred shapes: fits are on 1 and on both shapes.
        found.fits[0] = -centre[i] * centre[j]
        found.fits[1 + i, each], found.fits[1 + j, each] = centre[j], centre[i]
        terms = places
        if encoding.smoothing is not None:
            terms = encoding.smoothing.rows(csr_array(places)).toarray()
        variance = float((shares @ terms**2 - (shares @ terms) ** 2).sum())
        own = shares @ centred**2
        total = float(own[i] @ own[j])
        if not min(total, variance) > 1e-12:
            return None
        # The centred shapes of a column are those of one of its points, or between
        # those of two. So their norm is at most the largest one of a point.
        longest = np.zeros(len(columns))
        np.maximum.at(longest, of_point, (centred**2).sum(axis=1))
        most = math.sqrt((longest.sum() ** 2 - (longest**2).sum()) / 2)
        scale = SCALES_OF_PRIVATE[n_classes > 0] * math.sqrt(variance / total)
        return dataclasses.replace(found, scale=min(scale, reach_of(columns) / most))

    def centred(
        self, columns: Sequence[Block], means: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the centred shapes of the points of their own block, and the shares.

        In other blocks they are 0. Parameters are those of `points_of`.
        """
        places, shares, of_point = points_of(columns, means)
        values, of_shape = places @ self.shapes, np.empty(self.shapes.shape[1])
        of_shape[self.pairs] = self.columns
        own = of_point[:, None] == of_shape
        return np.where(own, values - on_grid(shares @ values), 0.0), shares

    def sizes(
        self, columns: Sequence[Block], means: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """Return the root mean square of what a pair of independent columns adds.

        No row is read; `means` are as for `points_of`.
        """
        values, shares = self.centred(columns, means)
        moments = values.T @ (shares[:, None] * values)
        found = np.zeros((len(weights), len(self.parts)))
        for k, part in enumerate(self.parts):
            i, j = self.pairs[:, part]
            own = moments[np.ix_(i, i)] * moments[np.ix_(j, j)]
            each = weights[:, part] * self.scale
            found[:, k] = np.sqrt(np.maximum(((each @ own) * each).sum(axis=1), 0.0))
        return found


def reach_of(columns: Sequence[Block]) -> float:
    """Return the bound on the norm of the products of a row of declared columns.

    It is the bound on the norm of the columns, whose blocks have norms of at most 1.
    """
    return math.sqrt(len(columns))


@dataclasses.dataclass(frozen=True)
class Interactions:
    """The part of a released model that interactions of columns add.

    Attributes
    ----------
    names : tuple of str
        The pairs of columns, such as "age × sex".
    sizes : ndarray of shape (n_outputs, n_pairs)
        Root mean square of what a pair adds to the margins of the training rows; for
        private columns, of independent columns with the released means.
    weights : ndarray of shape (n_outputs, n_products)
        Released weights of the products.
    products : ProductsOfShapes
        The products of the encoded columns.
    """

    names: tuple[str, ...]
    sizes: np.ndarray
    weights: np.ndarray
    products: ProductsOfShapes

    def beside(self, rows: np.ndarray) -> np.ndarray:
        """Return what encoded rows add to the margins of `coef_`."""
        return self.products(rows) @ self.weights.T

    def scaled(self, factor: float) -> Interactions:
        """Return the interactions of a model whose margins are multiplied."""
        sizes, weights = self.sizes * factor, self.weights * factor
        return dataclasses.replace(self, sizes=sizes, weights=weights)


class Wide(NamedTuple):
    """What `WithInteractions` prepares.

    `own` is what its method prepares: from `public`, the table with the further
    `columns`, or if there are none from the given table.
    """

    own: Any
    products: ProductsOfShapes | None = None
    columns: LargeTable | np.ndarray | None = None
    public: PublicRecords | None = None

    def at(self, margins: np.ndarray) -> Wide:
        """Return the same for a descent from the margins of a released model."""
        return self._replace(own=self.own.at(margins))


def _padded(table: LargeTable, n_more: int) -> LargeTable:
    """Return a table with further columns that nothing reads."""
    pads = {"pad_width": ((0, 0), (0, n_more)), "constant_values": np.nan}
    return table.after(functools.partial(np.pad, **pads), width=table.width + n_more)


def widened(
    public: PublicRecords, products: ProductsOfShapes, columns: Any
) -> PublicRecords:
    """Return the table with further columns.

    Public ones are `columns`, which only `mapped` holds. None: they are private.
    """
    n_more = products.n_products
    mask = np.append(public.mask, np.full(n_more, columns is not None))
    scaler, reach = public.input_scaler, public.private_reach
    if scaler.public is not None:
        scaler = dataclasses.replace(scaler, public=mask)
    if scaler.span is not None:  # columns without bounds
        low, span = np.zeros(n_more), np.full(n_more, np.inf)
        low, span = np.append(scaler.low, low), np.append(scaler.span, span)
        scaler = dataclasses.replace(scaler, low=low, span=span)
    if columns is None:
        reach = math.hypot(reach, reach_of(public.effects))
    found = dataclasses.replace(
        public,
        mask=mask,
        input_scaler=scaler,
        columns=public.columns + ("interactions",) * n_more,
        levels=np.append(public.levels, np.full(n_more, -1)),
        n_products=n_more * (columns is None),
        private_reach=reach,
        _table=_padded(public._table, n_more),
    )
    if columns is None:
        return found
    own, divisor = public.mapped, scaler.of_public(mask).divisor

    def mapped(numbers: np.ndarray) -> np.ndarray:
        rows = numbers[:, 0]
        return np.hstack([own[rows], columns[rows] / divisor])

    numbers = np.arange(own.shape[0])[:, None]
    vars(found)["mapped"] = lazy_rows(numbers, mapped, own.shape[1] + n_more)
    return found


@dataclasses.dataclass(frozen=True)
class WithInteractions:
    """A linear method with interactions as further columns.

    `encoded` are the encoded columns if all are public, as their products then are.
    None: products are private. `asked` is whether a user asked for interactions, so
    that a small signal is no obstacle.

    Notes
    -----
    **Guarantees.** If all columns are public, products are functions of columns that
    neighbours share, so they are themselves public. Otherwise they are a declared
    encoding: a function of one row and of the declarations. The method has the same
    guarantee for every table with such columns. The means that define it are released
    and charged before (:ref:`public-interactions`).
    """

    method: Method
    encoding: Encoding
    encoded: LargeTable | None
    asked: bool = False

    def needs(self, public: PublicRecords, budget: Budget) -> Needs:
        """Return the needs of the method, which then honours interactions."""
        found = self.method.needs(public, budget)
        lacks = (NEEDED,) * (self.asked and not self._can_have(public, budget))
        return found._replace(honours={**found.honours, "interactions": lacks})

    def _can_have(self, public: PublicRecords, budget: Budget) -> bool:
        """Whether the signal is large enough, and private products are shrunk."""
        signal = budget.mu * public.n_effective / budget.relation.sensitivity(1.0)
        signal *= 2 / max(2, public.n_classes)  # more classes have fewer records each
        gates = GATES_IF_ASKED if self.asked else GATES
        enough = signal >= np.average(gates, weights=public.sizes)
        return enough and (public.mask.all() or self.method.shrinks_blocks(public))

    def prepare(self, public: PublicRecords, budget: Budget) -> Wide:
        """Make the products from public numbers, and prepare the method."""
        products = None
        if self._can_have(public, budget):
            if self.encoded is None:
                given = self.encoding, None, public.n_classes
                products = ProductsOfShapes.of_independent(*given)
            else:
                known = public.effects, self.encoded, variance_of(public)
                products = ProductsOfShapes.learn(*known)
        if products is None:
            if self.asked:
                warn_caller(
                    "interactions='pairs' of the schema has no effect, because the "
                    "columns have no products that vary, or more than "
                    f"{MOST_INTERACTIONS} ({MOST_PRIVATE} private ones): declare fewer "
                    "columns.",
                    UtilityWarning,
                )
            return Wide(self.method.prepare(public, budget))
        columns = None
        if self.encoded is not None:
            given = self.encoded, products, products.n_products
            columns = lazy_rows(*given, keeps=True)
        wide = widened(public, products, columns)
        return Wide(self.method.prepare(wide, budget), products, columns, wide)

    def plan(self, public, prepared: Wide, budget: Budget) -> Plan:
        """Return the plan of the method, after the release of marginals."""
        wide, first = prepared.public or public, ()
        if wide.n_products:
            first = (self._marginals(public, budget),)
        plan = self.method.plan(wide, prepared.own, budget.after(*first))
        also_released = ("interactions_",) * (wide is not public)
        events = (*first, *plan.events)
        return dataclasses.replace(plan, events=events, also_released=also_released)

    def _marginals(self, public: PublicRecords, budget: Budget) -> Event:
        """Return the event of the means of the encoded columns."""
        query, most = RowSum.planned(nonnegative=True), budget.relation.sensitivity(1.0)
        reach = query.sensitivity(budget.relation)
        signal = most * budget.mu * public.n_effective / reach
        share = (reach_of(public.effects) / (MARGINAL_ERROR * signal)) ** 2
        std = reach / most / (math.sqrt(min(share, MOST_OF_MARGINALS)) * budget.mu)
        return budget.event(MARGINALS, std, sensitivity=reach)

    def run(self, records: Records, prepared, plan, mechanism, on_step) -> LinearFit:
        """Fit the method, and return its interactions beside its other weights."""
        if prepared.public is None:
            return self.method.run(records, prepared.own, plan, mechanism, on_step)
        n_features, public = records.public.n_features, prepared.public
        method = self.method
        if isinstance(method, LabelStatistic):
            # With so many weights there hardly ever is an unpenalised estimate.
            method = dataclasses.replace(method, estimates=False)
        means = None
        if prepared.columns is None:
            total = mechanism.release(MARGINALS, records.query(_encoded))
            total = np.maximum(total, plan.event(MARGINALS).noise_std[0])
            means = total * (reach_of(public.effects) / records.public.n_records)
            given = self.encoding, means, public.n_classes
            products = ProductsOfShapes.of_independent(*given)
            prepared = prepared._replace(products=products or prepared.products)
            source = records.X.source.wider(prepared.products)
            X = dataclasses.replace(records.X, source=source, width=public.n_features)
        else:
            X = _padded(records.X, public.n_features - n_features)
        records = dataclasses.replace(records, X=X, public=public)

        def parted(found: LinearFit) -> LinearFit:
            coef, weights = np.split(found.coef, [n_features], axis=1)
            noise = found.noise
            if noise is not None:
                noise = noise.mapped(lambda coef: coef[:, :n_features])
            own = self._released(prepared, means, weights)
            return found._replace(coef=coef, noise=noise, interactions=own)

        steps = of_model(on_step, parted)
        return parted(method.run(records, prepared.own, plan, mechanism, steps))

    def _released(self, prepared: Wide, means, weights: np.ndarray) -> Interactions:
        _, products, columns, public = prepared
        starts, squares = [part.start for part in products.parts], 0.0
        if columns is None:
            sizes = products.sizes(public.effects, means, weights)
        else:
            for block in blocks(*columns.shape):
                each = columns[block] * weights[:, None]
                each = np.add.reduceat(each, starts, axis=2)
                squares = squares + (each**2).sum(axis=1)
            sizes = np.sqrt(squares / columns.shape[0])
        names = [block.name for block in public.effects]
        pairs = products.columns[:, starts].T
        named = tuple(f"{names[a]} × {names[b]}" for a, b in pairs)
        return Interactions(named, sizes, weights, products)


def _encoded(records: Records) -> GridRowSum:
    """Return the query for the sum of encoded rows; a recipe of `Records.query`."""
    table, public = records.X, records.public
    source = table.source.encoded.on_grid()
    if public.units is not None and public.units.joint:
        # Rows of persons are no codes. Entries are in [0, 1].
        encoded = dataclasses.replace(table, source=source, width=source.shape[1])
        rows: Integers = GridRows.build(encoded, np.array)
    else:
        rows = source.integers()
        rows = rows if table.rows is None else rows.chosen(table.rows)
    return GridRowSum(rows, reach_of(public.effects), public.capacity, True)


def variance_of(public: PublicRecords) -> float:
    """Return the sum of the variances of the public columns."""
    n_rows, total, squares = public.n_rows, 0.0, 0.0
    for rows in public.blocks():
        total, squares = total + rows.sum(axis=0), squares + (rows**2).sum(axis=0)
    variance = float((squares / n_rows - (total / n_rows) ** 2).sum())
    return variance * public.public_scaler.divisor**2
