"""Sums over units: shares, bounds, and persons in batches, by brute force."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from problems import length

from skfdp.data.grid import GridRows
from skfdp.data.units import FULL_WEIGHT, Units
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import RELATIONS, Event, Relation
from skfdp.queries import Weighted, weighted
from skfdp.queries.statistics import CrossSum, LabelSum, RowSum, ScoreSum

SIZES = (1, 2, 5, 3)
PERSONS = np.random.default_rng(1).permutation(np.repeat(np.arange(4), SIZES))
N_ROWS = len(PERSONS)
CAPACITY = 16 * FULL_WEIGHT * N_ROWS


def units_of(seed, persons=PERSONS):
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, FULL_WEIGHT + 1, N_ROWS)
    weights[:2] = FULL_WEIGHT, 1  # the largest bit, and the smallest
    return Units(weights, persons)


def on_grid(X):
    return GridRows.build(X, lambda block: block)


PUBLIC = np.random.default_rng(2).normal(size=(N_ROWS, 3))
PUBLIC *= 0.99 / np.linalg.norm(PUBLIC, axis=1, keepdims=True)
SITES = np.arange(N_ROWS) % 2  # a person has rows in both groups
QUERIES = {
    "rows": lambda X, y: RowSum(X, CAPACITY),
    "score table": lambda X, y: ScoreSum(y, X[:, :1], SITES, 3, 2, CAPACITY),
    "labels": lambda X, y: LabelSum(on_grid(PUBLIC), y, 3, 1.0),
    "cross moments": lambda X, y: CrossSum(
        on_grid(X), 1.0, on_grid(PUBLIC).values, False
    ),
}
every_query = pytest.mark.parametrize("build", QUERIES.values(), ids=QUERIES)


def table(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, 3)) * 10.0 ** rng.uniform(-1, 1, (N_ROWS, 1))
    return X, rng.integers(0, 3, N_ROWS)


@every_query
@pytest.mark.parametrize("noise_std", [0.0, 3.0, 1e9])
def test_a_sum_over_units_is_that_of_the_shares(build, noise_std):
    units, inner = units_of(0), build(*table(0))
    query = Weighted(inner, units)
    unit = query.unit(noise_std)
    own = unit / units.step
    assert math.frexp(own)[0] == 0.5
    assert own == inner.unit(noise_std / units.step)
    rows = [np.array([i]) for i in range(N_ROWS)]
    wanted = sum(
        int(units.weights[i]) * inner.exact_sum(None, rows[i], own)
        for i in range(N_ROWS)
    )
    np.testing.assert_array_equal(query.exact_sum(None, None, unit), wanted)
    batch = np.array([7, 2, 3])
    some = sum(query.exact_sum(None, rows[i], unit) for i in batch)
    np.testing.assert_array_equal(query.exact_sum(None, batch, unit), some)
    shares = [units.shares[i] * inner.exact_sum(None, rows[i], own) for i in batch]
    np.testing.assert_allclose(some * unit, sum(shares) * own, rtol=1e-9)


@every_query
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("persons", [PERSONS, None], ids=["persons", "records"])
def test_no_person_moves_a_weighted_sum_further_than_said(build, relation, persons):
    largest, of = 0.0, Relation.of(relation)
    for seed in range(6):
        units = units_of(seed, persons)
        X, y = table(seed)
        query = Weighted(build(X, y), units)
        assert query.sensitivity(of) == units.reach * query.query.sensitivity(of)
        assert query.clip_norm == units.reach * query.query.clip_norm
        unit, rng = query.unit(1.0), np.random.default_rng(seed)
        total = query.exact_sum(None, None, unit)
        for person in range(units.n_units):
            own = np.array([person])
            if persons is not None:
                own = np.flatnonzero(persons == person)
            contribution = query.exact_sum(None, own, unit)
            assert length(contribution, unit) <= query.clip_norm
            if relation == "replace_one":
                other_X, other_y = X.copy(), y.copy()
                other_X[own] = -X[own[0]] if rng.random() < 0.5 else 5 * np.eye(3)[0]
                other_y[own] = rng.integers(0, 3)
                other = Weighted(build(other_X, other_y), units)
                moved = total - other.exact_sum(None, None, unit)
            else:
                rest = np.setdiff1d(np.arange(N_ROWS), own)
                moved = total - query.exact_sum(None, rest, unit)
            largest = max(largest, length(moved, unit) / query.sensitivity(of))
    assert 0.3 < largest <= 1


def test_the_reach_is_reached():
    """One person has all rows of full length, all alike."""
    units = Units(np.full(N_ROWS, 700), PERSONS)
    X = np.full((N_ROWS, 3), 1.0)
    query, own = Weighted(QUERIES["rows"](X, None), units), PERSONS == 2
    unit = query.unit(0.0)
    moved = query.exact_sum(None, np.flatnonzero(own), unit)
    assert 0.999 * query.clip_norm < length(moved, unit) <= query.clip_norm
    assert query.clip_norm == pytest.approx(5 * 4 / 11)


def test_without_units_a_query_is_itself():
    query = QUERIES["rows"](*table(0))
    assert weighted(query, None) is query
    assert weighted(query, units_of(0)).query is query


def test_a_query_may_weigh_for_itself():
    class Own:
        def of_units(self, units):
            return "own", units

    assert weighted(Own(), 3) == ("own", 3)


# -- releases ---------------------------------------------------------------------
@dataclasses.dataclass
class Noted:
    """A query of one number per row, which notes its batches."""

    values: np.ndarray
    batches: list
    clip_norm: float = 1.0
    shape = (1,)

    @property
    def n_rows(self):
        return len(self.values)

    def unit(self, noise_std):
        return 2.0**-20

    def sensitivity(self, relation):
        return relation.sensitivity(self.clip_norm)

    def exact_sum(self, theta, batch, unit):
        batch = np.arange(self.n_rows) if batch is None else batch
        self.batches.append(batch)
        return np.array([round(self.values[batch].sum() / unit)])

    def of_units(self, units):
        return self


def event(**more):
    given = {"label": "sum", "noise_std": (1e-3,), "clip_norm": 1.0, "n_steps": 600}
    given |= {"sensitivity": 2.0, "unit": "person", "sampling_rate": 0.3}
    return Event(**given | more)


def test_coins_draw_persons_with_all_their_rows():
    """And independently: amplification is that of the person."""
    units, batches = units_of(0), []
    mechanism, query = (
        Mechanism((event(),), 0, "x", units=units),
        Noted(PERSONS, batches),
    )
    for _ in range(600):
        mechanism.release("sum", query)
    drawn = np.array([np.isin(np.arange(4), PERSONS[batch]) for batch in batches])
    for batch, who in zip(batches, drawn, strict=True):
        wanted = np.flatnonzero(who[PERSONS])
        np.testing.assert_array_equal(np.sort(batch), wanted)
    # A person with five rows has the chance of one with one row.
    np.testing.assert_allclose(drawn.mean(axis=0), 0.3, atol=0.08)
    for i, j in itertools.combinations(range(4), 2):
        both = (drawn[:, i] & drawn[:, j]).mean()
        assert both == pytest.approx(0.09, abs=0.06)


def test_void_rows_leave_the_batches_of_persons():
    units, batches = units_of(0), []
    is_null = np.arange(N_ROWS) % 3 == 0
    mechanism = Mechanism((event(),), 0, "x", is_null=is_null, units=units)
    for _ in range(40):
        mechanism.release("sum", Noted(PERSONS, batches))
    for batch in batches:
        wanted = np.isin(PERSONS, PERSONS[batch]) & ~is_null
        np.testing.assert_array_equal(np.sort(batch), np.flatnonzero(wanted))
    assert any(len(batch) for batch in batches)


def test_the_mechanism_weighs_what_it_releases():
    X, y = table(0)
    units, inner = units_of(0), QUERIES["rows"](X, y)
    query = Weighted(inner, units)
    told = {"sampling_rate": 1.0, "n_steps": 3}
    bounds = {"clip_norm": query.clip_norm, "sensitivity": 2 * query.clip_norm}
    mechanism = Mechanism((event(**told, **bounds),), 0, "x", units=units)
    found = mechanism.release("sum", inner)
    unit = query.unit(1e-3)
    wanted = query.exact_sum(None, None, unit) * unit
    np.testing.assert_allclose(found, wanted, atol=0.02)
    other = QUERIES["rows"](-X, y)  # another query at the same mechanism
    np.testing.assert_allclose(mechanism.release("sum", other), -wanted, atol=0.02)
    # The bounds of a record are not those of a person.
    mechanism = Mechanism((event(**told),), 0, "x", units=units)
    with pytest.raises(Exception, match="clip_norm=.* of a query for label='sum'"):
        mechanism.release("sum", inner)
