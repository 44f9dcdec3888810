"""What every query promises, by brute force over neighbours.

A new statistic is a line of `QUERIES`. Sharper searches and oracles are beside each
query; a sabotage is a line of ``test_sabotage.py``.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from scipy.sparse import csr_array

from skfdp.data.codes import CodedGridRows
from skfdp.data.grid import GridRows, InputScaler, lengths
from skfdp.data.records import moved_rows
from skfdp.kernels.losses import Loss, loss_named
from skfdp.privacy import RELATIONS, Relation
from skfdp.queries import Query, no_rows
from skfdp.queries.linear import LinearQuery
from skfdp.queries.network import MLPQuery
from skfdp.queries.statistics import (
    Binades,
    BinCounts,
    CrossSum,
    EvenBins,
    GridRowSum,
    LabelSum,
    RowSum,
    ScoreSum,
    TemperatureSum,
)
from skfdp.solvers.centring import Shells

ROOT2, N_ROWS, N_GROUPS = math.sqrt(2), 9, 3


@dataclasses.dataclass(frozen=True)
class Table:
    """Records of which every query can be made."""

    X: np.ndarray  # three private numbers of each; those of record 0 may be anything
    label: np.ndarray  # private class, one of `N_GROUPS`
    group: np.ndarray  # public class, one of `N_GROUPS`
    rows: GridRows  # public rows, of norm at most 1; the norm of row 0 is 1

    @classmethod
    def random(cls, seed):
        """Return a table of random records."""
        rng = np.random.default_rng(seed)
        public = rng.normal(size=(N_ROWS, 4))
        public /= np.linalg.norm(public, axis=1, keepdims=True)
        public[1:] *= rng.random((N_ROWS - 1, 1))
        return cls(
            X=rng.normal(size=(N_ROWS, 3)) * 10.0 ** rng.uniform(-2, 1, (N_ROWS, 1)),
            label=rng.integers(0, N_GROUPS, N_ROWS),
            group=rng.integers(0, N_GROUPS, N_ROWS),
            rows=on_grid(public),
        )

    def with_private(self, x, label):
        """Return the table with another private part of record 0."""
        X, labels = self.X.copy(), self.label.copy()
        X[0], labels[0] = x, label
        return dataclasses.replace(self, X=X, label=labels)


def on_grid(X):
    """Put rows on the grid as they are; none is shortened."""
    return GridRows.build(X, lambda block: block)


def quantised(table, bounded=False, held=np.asarray):
    """Return the private rows as integers, perhaps scaled from [-1.5, 1.5] to [0, 1].

    Numbers that are not finite are replaced, as in a fit.
    """
    low, span = (np.full(3, -1.5), np.full(3, 3.0)) if bounded else (None, None)
    scaler = InputScaler(low, span, shortens=False)
    return GridRows.build(held(table.X), scaler.mapped)


LOG_LOSS, HUBER = loss_named("log_loss"), loss_named("huber", 1.35)


def slopes(table, n_outputs=N_GROUPS, loss=LOG_LOSS):
    """Return the slopes of a loss along a step, long enough to be cut.

    Column 0 decides the class, and the step is along column 1.
    """
    start, step = np.zeros((2, n_outputs, 3))
    for sign, output in zip((1, -1), range(n_outputs), strict=False):
        start[output, 0], step[output, 1] = 1000 * sign, 10 * sign
    target = np.minimum(table.label, max(2, n_outputs) - 1)
    query = LinearQuery(on_grid(table.X), target, loss, n_outputs, 1.0, N_ROWS)
    return TemperatureSum(query, max(2, n_outputs), start, step, (0.2, 1.0), 0.5)


def no_slopes(n_classes, loss=LOG_LOSS):
    """Return the query of `slopes` over no records."""
    query = LinearQuery(no_rows(), np.empty(0, int), loss, 1, 1.0, 0)
    none = np.empty((1, 0))
    return TemperatureSum(query, n_classes, none, none, (0.2, 1.0), 1.0)


class Case(NamedTuple):
    """A query over no records, how far a replaced one moves it, and one of a table.

    `reach` is the part of that which the search finds at least. Where it is less than
    nearly all, sharper searches are beside the query.
    """

    planned: Query
    replaced: float
    of: Callable[[Table], Query]
    reach: float = 0.995


def score_table(table, n_cells, n_losses):
    """Return the table of scores that are private numbers, beside a private label."""
    side = (table.X[:, 0] > 0).astype(np.int64)
    return ScoreSum(
        np.minimum(2 * table.label + side, n_cells - 1),
        table.X[:, :n_losses],
        table.group,
        n_cells,
        N_GROUPS,
        N_ROWS,
    )


def moved(table, signs=None):
    """Return the rows of a table about a centre, far from some of them."""
    return moved_rows(table.X, np.array([0.3, -0.2, 0.1]), 0.7, signs)


def rotated_counts(table, rule):
    """Return the counts of rotated rows, which have four columns."""
    return BinCounts(moved(table, np.array([1.0, -1.0, -1.0])), rule)


def shell_counts(table):
    """Return the counts of the distances from a centre."""
    return BinCounts(lengths(moved(table))[:, None], Shells())


def coded(table, sign=-1):
    """Return coded rows of norm up to 3: a category, and two numbers with a level each.

    Levels are nearly opposite, or at right angles with ``sign=1``.
    """
    rng, x = np.random.default_rng(0), np.nan_to_num(table.X)
    levels = np.zeros((3, 4, 5))
    levels[0, :, :2] = np.array([[3, 0], [sign, 0.1], [0, 2], [0.1, sign]]) * 0.9
    levels[1:, :, 2:4] = np.abs(rng.normal(size=(2, 4, 2))) * [[[1]], [[sign]]]
    levels[2, :, 4], levels[2, :, :4] = levels[2, :, 2], 0
    places = np.floor(np.abs(x)).clip(0, 2).astype(int)
    weights = np.abs(x).clip(0, 3) - places
    categories = [(levels[0], places[:, 0] + (x[:, 0] < 0))]
    numbers = [(levels[j], places[:, j], weights[:, j]) for j in (1, 2)]
    return CodedGridRows.build(categories, numbers, N_ROWS, 5)


CROSS = CrossSum.planned
QUERIES = {
    "rows": Case(RowSum.planned(), 2.0, lambda t: RowSum(t.X, N_ROWS)),
    "rows, bounded": Case(
        RowSum.planned(nonnegative=True),
        ROOT2,
        lambda t: RowSum(t.X, N_ROWS, nonnegative=True),
    ),
    "quantised rows": Case(
        RowSum.planned(), 2.0, lambda t: GridRowSum(quantised(t), 0.9, N_ROWS)
    ),
    "quantised rows, bounded": Case(
        RowSum.planned(nonnegative=True),
        ROOT2,
        lambda t: GridRowSum(quantised(t, True), 0.9, N_ROWS, nonnegative=True),
    ),
    "sparse rows": Case(
        RowSum.planned(),
        2.0,
        lambda t: GridRowSum(quantised(t, held=csr_array), 0.9, N_ROWS),
    ),
    "coded rows": Case(
        RowSum.planned(), 2.0, lambda t: GridRowSum(coded(t), 0.9, N_ROWS), reach=0.85
    ),
    "coded rows, bounded": Case(
        RowSum.planned(nonnegative=True),
        ROOT2,
        lambda t: GridRowSum(coded(t, 1), 0.9, N_ROWS, nonnegative=True),
        reach=0.9,
    ),
    "cross moments": Case(
        CROSS(nonnegative=False),
        2.0,
        lambda t: CrossSum(quantised(t), 1.0, t.rows.values, False),
    ),
    "cross moments, bounded": Case(
        CROSS(nonnegative=True),
        ROOT2,
        lambda t: CrossSum(quantised(t, True), 1.0, t.rows.values, True),
    ),
    "cross moments, normalised": Case(
        CROSS(nonnegative=False),
        2.0,
        lambda t: CrossSum(quantised(t), 0.3, t.rows.values, False),
    ),
    "two labels": Case(
        LabelSum.planned(1, 1.0), 1.0, lambda t: LabelSum(t.rows, t.label, 1, 1.0)
    ),
    "many labels": Case(
        LabelSum.planned(3, 1.0), ROOT2, lambda t: LabelSum(t.rows, t.label, 3, 1.0)
    ),
    "many labels, centred": Case(
        LabelSum.planned(3, 1.0, centred=True),
        ROOT2,
        lambda t: LabelSum(t.rows, t.label, 3, 1.0, centred=True),
    ),
    "binades": Case(
        BinCounts.planned(3), math.sqrt(6), lambda t: BinCounts(t.X, Binades())
    ),
    "even bins": Case(
        BinCounts.planned(3),
        math.sqrt(6),
        lambda t: BinCounts(t.X, EvenBins(-np.ones(3), np.ones(3), 4)),
    ),
    "moved rows": Case(RowSum.planned(), 2.0, lambda t: RowSum(moved(t), N_ROWS)),
    "rotated binades": Case(
        BinCounts.planned(4), math.sqrt(8), lambda t: rotated_counts(t, Binades())
    ),
    "rotated even bins": Case(
        BinCounts.planned(4),
        math.sqrt(8),
        lambda t: rotated_counts(t, EvenBins(-np.ones(4), np.ones(4), 4)),
    ),
    "shells": Case(BinCounts.planned(1), ROOT2, shell_counts),
    "temperature": Case(no_slopes(N_GROUPS), 4.0, slopes),
    "temperature of two classes": Case(no_slopes(2), 2 * ROOT2, lambda t: slopes(t, 1)),
    "temperature of a regression": Case(
        no_slopes(2, HUBER), 2 * ROOT2 * 1.35, lambda t: slopes(t, 1, HUBER)
    ),
    "score table": Case(
        ScoreSum.planned(7, 0, N_GROUPS), ROOT2, lambda t: score_table(t, 7, 0)
    ),
    "score table with losses": Case(
        ScoreSum.planned(7, 2, N_GROUPS),
        math.sqrt(2 + 2 * 5 / 4),
        lambda t: score_table(t, 7, 2),
    ),
    "losses alone": Case(
        ScoreSum.planned(0, 1, N_GROUPS),
        math.sqrt(5 / 4),
        lambda t: score_table(t, 0, 1),
    ),
}
every_query = pytest.mark.parametrize("case", QUERIES.values(), ids=QUERIES)
SEEDS = (0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2)))
STDS = (0.0, 3.0, 3e6)


def private_parts(seed):
    """Yield numbers and labels that lie far apart, and random ones."""
    rng, basis = np.random.default_rng(seed), np.eye(3)
    signs = np.array([*itertools.product((-1.0, 1.0), repeat=2)])
    signs = np.column_stack([signs, np.zeros(4)])
    corners = 3 * basis - 1.5  # one column at its upper bound, the others at the lower
    ends = *(1.5 * basis), *(-1.5 * basis), *corners
    for x in (*ends, *signs, np.zeros(3), np.ones(3)):
        yield from ((x, label) for label in range(N_GROUPS))
    for _ in range(20):
        yield rng.normal(size=3) * 10.0 ** rng.uniform(-3, 1), rng.integers(N_GROUPS)


def length(integers):
    """Return the norm of an array of integers."""
    return math.sqrt(sum(entry**2 for entry in integers[integers != 0].tolist()))


def check_sum(case, query, unit):
    """Check one sum: integers, of bounded contributions, each of its own record."""
    total = query.exact_sum(None, None, unit)
    assert total.dtype == np.int64
    assert total.shape == query.shape
    assert query.n_rows == N_ROWS
    each = [query.exact_sum(None, np.array([i]), unit) for i in range(N_ROWS)]
    np.testing.assert_array_equal(total, sum(each))
    assert max(map(length, each)) * unit <= case.planned.clip_norm
    return total, each


def check_neighbours(case, seed, parts):
    """Return how far a replaced record moves the sum, over the bound."""
    table, largest = Table.random(seed), 0.0
    bound = case.planned.sensitivity(Relation.of("replace_one"))
    for unit in {case.of(table).unit(std) for std in STDS}:
        totals, others = [], None
        for x, label in parts:
            query = case.of(table.with_private(x, label))
            total, each = check_sum(case, query, unit)
            others = each[1:] if others is None else others
            # A record is in its own contribution, and in no other.
            np.testing.assert_array_equal(each[1:], others)
            totals.append(total)
        for one, other in itertools.combinations(totals, 2):
            largest = max(largest, length(one - other) * unit)
    assert largest <= bound
    return largest / bound


@every_query
@pytest.mark.parametrize("relation", RELATIONS)
def test_a_record_moves_no_less_by_being_void(case, relation):
    """The mechanism leaves null records out, under every relation."""
    moved = case.planned.sensitivity(Relation.of(relation))
    assert moved >= case.planned.clip_norm


@every_query
@pytest.mark.parametrize("relation", RELATIONS)
def test_what_every_query_says(case, relation):
    wanted = case.replaced if relation == "replace_one" else case.planned.clip_norm
    said = case.planned.sensitivity(Relation.of(relation))
    assert said == pytest.approx(wanted, rel=1e-12)


# In order: processes that share the tests must agree on it.
STATISTICS = dict.fromkeys(type(case.planned) for case in QUERIES.values())


@pytest.mark.parametrize("kind", [*STATISTICS, LinearQuery, MLPQuery])
def test_the_bounds_of_a_query_cannot_change(kind):
    """The mechanism looks at them when a query first comes, and not at every step."""
    assert kind.__dataclass_params__.frozen
    assert kind.__setattr__ is not object.__setattr__


@every_query
def test_bounds_and_units_are_public(case):
    """Equal for all private values; the bounds, for all tables and the plan too."""
    table = Table.random(0)
    queries = [case.of(table.with_private(*part)) for part in private_parts(0)]
    for query in queries:
        assert query.clip_norm == case.planned.clip_norm
        for relation in map(Relation.of, RELATIONS):
            assert query.sensitivity(relation) == case.planned.sensitivity(relation)
    for std in STDS:
        (unit,) = {query.unit(std) for query in queries}
        # A power of two, in which scaling is exact; over 3 for three centred labels.
        parts = 3 if getattr(case.planned, "centred", False) else 1
        assert math.frexp(unit * parts)[0] == 0.5
        assert N_ROWS * case.planned.clip_norm / unit <= 2.0**62


@every_query
@pytest.mark.parametrize("capacity", [1, 2**40, 2**60])
def test_units_leave_room_for_as_many_records_as_are_declared(case, capacity):
    query = case.of(Table.random(0))
    if "capacity" not in {field.name for field in dataclasses.fields(query)}:
        pytest.skip("its records are counted: see the test of its bounds")
    large = dataclasses.replace(query, capacity=capacity)
    for std in STDS:
        assert capacity * query.clip_norm / large.unit(std) <= 2.0**62 * (1 + 1e-9)


@every_query
@pytest.mark.parametrize("seed", SEEDS)
def test_no_record_moves_a_sum_further_than_said(case, seed):
    reached = check_neighbours(case, seed, list(private_parts(seed)))
    assert reached > case.reach  # the search came near enough to mean something


@every_query
@pytest.mark.parametrize("value", [1e300, -1e300, 5e-324, np.nan, np.inf, -np.inf])
def test_a_record_of_any_size_is_bounded(case, value):
    parts = [(np.full(3, value), 0), (np.r_[value, 0, 0], 0), (np.zeros(3), 0)]
    with np.errstate(all="ignore"):  # as a fit does: warnings would tell of a value
        check_neighbours(case, 0, parts)


class Lie(Loss):
    """A loss that claims half of its largest residuals."""

    def largest_residual(self, margins):
        return super().largest_residual(margins) / 2


LIE = Lie(**{f.name: getattr(LOG_LOSS, f.name) for f in dataclasses.fields(Loss)})
LYING = Case(no_slopes(2, LIE), ROOT2, lambda t: slopes(t, 1, LIE))


def test_entries_are_cut_whatever_a_loss_says():
    check_neighbours(LYING, 0, list(private_parts(0)))


@pytest.mark.parametrize("relation", RELATIONS)
def test_what_gradients_say(relation):
    of = Relation.of(relation)
    replaces = relation == "replace_one"
    query = SimpleNamespace(clip_norm=0.3, orthant=False, label_bound=None)
    assert LinearQuery.sensitivity(query, of) == (0.6 if replaces else 0.3)
    query.label_bound = 0.4
    assert LinearQuery.sensitivity(query, of) == (0.4 if replaces else 0.3)
    query.orthant = True
    signs = LinearQuery.sensitivity(query, of)
    assert signs == pytest.approx(ROOT2 * 0.3 if replaces else 0.3)
