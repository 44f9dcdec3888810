r"""Interactions: products of public columns, as further public columns of a fit.

Curves and categories alone make an additive model. An interaction is the part of the
effect of two columns that is not additive. It is made of *shapes*, which are a few
functions of one column: of a number, Legendre polynomials of its public rank; of a
category, the indicators of its most frequent levels. Each product of a shape of one
column and a shape of another, minus its least-squares fit on the shapes of both, is a
further public column. Shapes, fits and their scale are functions of public columns, so
they cost no privacy.

A method reads the further columns like all other public columns. Their weights are kept
beside `coef_`, as `Interactions`, in the way of a public model that is not linear. So
`coef_` has one weight for each encoded column, with or without interactions.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from skfdp.data._basis import Block
from skfdp.data.encoder import Encoding
from skfdp.data.grid import blocks
from skfdp.data.input_scaler import LazyRows
from skfdp.data.records import PublicRecords, Records
from skfdp.data.sources import LargeTable
from skfdp.data.validation import UtilityWarning, warn_caller
from skfdp.solvers.label_statistic import LabelStatistic
from skfdp.solvers.method import Budget, Method, Needs, Plan, of_model
from skfdp.solvers.postprocessing import LinearFit

#: From this signal on, which is the number of records divided by the noise in a sum of
#: rows of norm 1, products helped on most tables. Below about 1,000 they cost accuracy.
SIGNAL_FOR_INTERACTIONS = 1500.0
#: Largest number of products, and numbers of levels of a category that are tried until
#: there are no more products. The last of them is of all remaining levels.
MOST_INTERACTIONS, NUMBERS_OF_LEVELS = 400, (5, 4, 3, 2)
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
        rank = (np.cumsum(mass) - mass / 2) / max(mass.sum(), 1.0)
        legendre = 2 * rank - 1, 6 * rank * (rank - 1) + 1
        found[: block.missing] = np.column_stack(legendre) * ORDERS
    return found[:, : n_levels - 1]


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
        shapes, (one, other) = rows @ self.shapes, self.pairs
        found = shapes[:, one] * shapes[:, other]
        found -= self.fits[0] + shapes @ self.fits[1:]
        return found * self.scale

    @property
    def parts(self) -> list[slice]:
        """The products of each pair of columns."""
        new = np.diff(self.columns, axis=1).any(axis=0)
        ends = [0, *(1 + np.flatnonzero(new)).tolist(), new.size + 1]
        return [slice(*pair) for pair in itertools.pairwise(ends)]

    @classmethod
    def learn(
        cls, encoding: Encoding, encoded: LargeTable, variance: float
    ) -> ProductsOfShapes | None:
        """Return the products of public columns, or None with too few or too many.

        `encoded` are the encoded public columns. `variance` is the sum of the variances
        of the columns beside the products.

        Notes
        -----
        **Guarantees.** The result is a function of the public columns.
        """
        columns = encoding.of_public
        parts = [*blocks(*encoded.shape)]
        counts = sum(encoded[part].sum(axis=0) for part in parts)
        for n_levels in NUMBERS_OF_LEVELS:
            found = [
                shapes_of(block, counts[block.start : block.stop], n_levels)
                for block in columns
            ]
            ends = np.cumsum([0, *(own.shape[1] for own in found)])
            products = [
                (a, b, i, j)
                for a, b in itertools.combinations(range(len(columns)), 2)
                for i in range(ends[a], ends[a + 1])
                for j in range(ends[b], ends[b + 1])
            ]
            if 0 < len(products) <= MOST_INTERACTIONS:
                break
        else:
            return None
        shapes = np.zeros((encoded.shape[1], ends[-1]))
        for block, own, first in zip(columns, found, ends[:-1], strict=True):
            shapes[block.start : block.stop, first : first + own.shape[1]] = own
        a, b, i, j = np.array(products).T
        fits = np.zeros((1 + ends[-1], len(products)))
        learnt = cls(shapes, np.array([a, b]), np.array([i, j]), fits)
        total, values = 0.0, np.concatenate([encoded[part] @ shapes for part in parts])
        for part in learnt.parts:
            own = np.unique(learnt.pairs[:, part])
            given = np.column_stack([np.ones(len(values)), values[:, own]])
            wanted = values[:, i[part]] * values[:, j[part]]
            gram, rtol = given.T @ given, 1e-10  # of which rounding leaves nothing
            fit = np.linalg.pinv(gram, rtol=rtol, hermitian=True) @ (given.T @ wanted)
            fits[np.append(0, 1 + own), part] = fit
            total += ((wanted - given @ fit) ** 2).sum() / len(values)
        if not min(total, variance) > 1e-12:  # no two columns vary independently
            return None
        scale = SCALE_OF_PRODUCTS * math.sqrt(variance / total)
        return dataclasses.replace(learnt, scale=scale)


@dataclasses.dataclass(frozen=True)
class Interactions:
    """The part of a released model that interactions of public columns add.

    Attributes
    ----------
    names : tuple of str
        The pairs of columns, such as "age × sex".
    sizes : ndarray of shape (n_outputs, n_pairs)
        Root mean square of what a pair adds to the margins of the training rows.
    weights : ndarray of shape (n_outputs, n_products)
        Released weights of the products.
    products : ProductsOfShapes
        The products of the encoded public columns.
    """

    names: tuple[str, ...]
    sizes: np.ndarray
    weights: np.ndarray
    products: ProductsOfShapes

    def beside(self, rows: np.ndarray) -> np.ndarray:
        """Return what encoded public rows add to the margins of `coef_`."""
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
    columns: LazyRows | None = None
    public: PublicRecords | None = None


def _padded(table: LargeTable, n_more: int) -> LargeTable:
    """Return a table with further columns that nothing reads."""
    pads = {"pad_width": ((0, 0), (0, n_more)), "constant_values": np.nan}
    found = table.after(functools.partial(np.pad, **pads))
    return dataclasses.replace(found, width=table.width + n_more)


def widened(public: PublicRecords, columns: LazyRows) -> PublicRecords:
    """Return the table with further public columns, which only `mapped` holds."""
    n_more = columns.shape[1]
    mask = np.append(public.mask, np.ones(n_more, dtype=bool))
    scaler, own = public.input_scaler, public.mapped
    if scaler.public is not None:
        scaler = dataclasses.replace(scaler, public=mask)
    found = dataclasses.replace(
        public,
        mask=mask,
        input_scaler=scaler,
        columns=public.columns + ("interactions",) * n_more,
        levels=np.append(public.levels, np.full(n_more, -1)),
        _table=_padded(public._table, n_more),
    )
    divisor = scaler.of_public(mask).divisor

    def mapped(block: slice | np.ndarray) -> np.ndarray:
        return np.hstack([own[block], columns[block] / divisor])

    shape = own.shape[0], own.shape[1] + n_more
    vars(found)["mapped"] = dataclasses.replace(own, read=mapped, shape=shape)
    return found


@dataclasses.dataclass(frozen=True)
class WithInteractions:
    """A linear method with interactions as further public columns.

    `encoded` are the encoded public columns. `asked` is whether a user asked for
    interactions, so that a small signal is no obstacle.

    Notes
    -----
    **Guarantees.** The further columns are functions of the public columns, which
    neighbours share, so they are themselves public. The method has the same guarantee
    for every table with these public columns (:ref:`public-interactions`).
    """

    method: Method
    encoding: Encoding
    encoded: LargeTable
    asked: bool = False

    def needs(self, public: PublicRecords, budget: Budget) -> Needs:
        """Return the needs of the method, which then honours interactions."""
        found = self.method.needs(public, budget)
        return found._replace(honours={**found.honours, "interactions": ()})

    def prepare(self, public: PublicRecords, budget: Budget) -> Wide:
        """Learn the products from public columns, and prepare the method."""
        signal = budget.mu * public.n_effective / budget.relation.sensitivity(1.0)
        signal *= 2 / max(2, public.n_classes)  # more classes have fewer records each
        products = None
        if signal >= SIGNAL_FOR_INTERACTIONS or self.asked:
            known = self.encoding, self.encoded, variance_of(public)
            products = ProductsOfShapes.learn(*known)
        if products is None:
            if self.asked:
                warn_caller(
                    "interactions='pairs' of the schema has no effect, because the "
                    "public columns have no products that vary, or more than "
                    f"{MOST_INTERACTIONS}: declare fewer columns as public.",
                    UtilityWarning,
                )
            return Wide(self.method.prepare(public, budget))
        width = products.pairs.shape[1]
        columns = LazyRows.of(self.encoded, products, width, keeps=True)
        wide = widened(public, columns)
        return Wide(self.method.prepare(wide, budget), products, columns, wide)

    def plan(self, public, prepared: Wide, budget: Budget) -> Plan:
        """Return the plan of the method."""
        wide = prepared.public or public
        plan = self.method.plan(wide, prepared.own, budget)
        also_released = ("interactions_",) * (wide is not public)
        return dataclasses.replace(plan, also_released=also_released)

    def run(self, records: Records, prepared, plan, mechanism, on_step) -> LinearFit:
        """Fit the method, and return its interactions beside its other weights."""
        if prepared.public is None:
            return self.method.run(records, prepared.own, plan, mechanism, on_step)
        n_features, public = records.public.n_features, prepared.public
        method = self.method
        if isinstance(method, LabelStatistic):
            # With so many weights there hardly ever is an unpenalised estimate.
            method = dataclasses.replace(method, estimates=False)
        X = _padded(records.X, public.n_features - n_features)
        records = dataclasses.replace(records, X=X, public=public)

        def parted(found: LinearFit) -> LinearFit:
            coef, weights = np.split(found.coef, [n_features], axis=1)
            noise = found.noise
            if noise is not None:
                noise = noise.mapped(lambda coef: coef[:, :n_features])
            own = self._released(prepared, weights)
            return dataclasses.replace(found, coef=coef, noise=noise, interactions=own)

        steps = of_model(on_step, parted)
        return parted(method.run(records, prepared.own, plan, mechanism, steps))

    def _released(self, prepared: Wide, weights: np.ndarray) -> Interactions:
        products, columns = prepared.products, prepared.columns
        starts, squares = [part.start for part in products.parts], 0.0
        for block in blocks(*columns.shape):
            each = columns[block] * weights[:, None]
            squares = squares + (np.add.reduceat(each, starts, axis=2) ** 2).sum(axis=1)
        names = [block.name for block in self.encoding.of_public]
        pairs = products.columns[:, starts].T
        named = tuple(f"{names[a]} × {names[b]}" for a, b in pairs)
        sizes = np.sqrt(squares / columns.shape[0])
        return Interactions(named, sizes, weights, products)


def variance_of(public: PublicRecords) -> float:
    """Return the sum of the variances of the public columns."""
    n_rows, total, squares = public.n_rows, 0.0, 0.0
    for rows in public.blocks():
        total, squares = total + rows.sum(axis=0), squares + (rows**2).sum(axis=0)
    variance = float((squares / n_rows - (total / n_rows) ** 2).sum())
    return variance * public.public_scaler.divisor**2
