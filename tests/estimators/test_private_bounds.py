"""Private bounds: what is released, what it costs, what is made of it."""

import itertools
import json
import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.sparse import csr_array

import skfdp
from skfdp.bounds import PrivateBounds, fine_bounds
from skfdp.data.grid import resolve_bounds
from skfdp.data.units import Units
from skfdp.privacy import RELATIONS, AddOrRemoveOne, Relation, gdp_epsilon
from skfdp.queries import Weighted
from skfdp.queries.statistics import N_BINADES, N_SPECIAL, Binades, BinCounts
from skfdp.solvers import histograms as decoding
from skfdp.solvers.histograms import Told, check_noise
from skfdp.solvers.method import Budget

N = 3000
EXTREMES = [0.0, 5e-324, -1e-308, 1e308, -1e308, math.nan, math.inf, -math.inf]


@pytest.fixture
def table():
    """Columns of several kinds, on which every method should see something."""
    rng = np.random.default_rng(3)
    found = pd.DataFrame({"even": rng.uniform(18, 90, N), "normal": rng.normal(size=N)})
    more = {"flag": rng.integers(0, 2, N), "tail": rng.lognormal(0, 2, N)}
    more["year"] = rng.integers(1990, 2020, N)
    return found.assign(**more, debt=-rng.exponential(1e-20, N))


def seeded(X, *, random_state=0, **given):
    """Return seeded bounds without the warning, for tests of what noise decides."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return skfdp.private_bounds(X, random_state=random_state, **given)


# -- what is charged is what runs ----------------------------------------------------
@pytest.mark.parametrize("relation", RELATIONS)
def test_two_releases_of_the_planned_level(relation, table, releases):
    given = relation
    if not Relation(relation).counts_are_public:
        given = AddOrRemoveOne(N)
    found = skfdp.private_bounds(table, epsilon=2.0, neighboring_relation=given)
    events = found.privacy_.events
    assert [event.label for event in events] == ["binades", "bins"]
    assert events == found.privacy_.events
    p = table.shape[1]
    moved = math.sqrt(2 * p if relation == "replace_one" else p)
    for event, seen in zip(events, releases, strict=True):
        assert event.sensitivity == pytest.approx(moved)
        assert event.clip_norm == math.sqrt(p) and event.noise_std == (seen["std"],)
        assert isinstance(seen["query"], BinCounts) and seen["batch"] is None
        # each record is in one bin of each column
        assert (seen["exact"].sum(axis=1) == N).all()
    mu = math.sqrt(sum((moved / seen["std"]) ** 2 for seen in releases))
    assert gdp_epsilon(1e-5, mu) == pytest.approx(2.0, rel=1e-9)
    assert found.privacy_.epsilon <= 2.0


# -- the plan is public --------------------------------------------------------------
def test_plan_and_charge_are_equal_for_all_private_values():
    told, rows = {"public_features": [1]}, np.random.default_rng(0).normal(size=(99, 4))
    X = pd.DataFrame(rows, columns=list("abcd"))
    wanted = skfdp.private_bounds(X, plan_only=True, **told)
    for value in EXTREMES:
        other = X.assign(a=value, c=value, d=value)
        plan = skfdp.private_bounds(other, plan_only=True, **told)
        assert json.dumps(plan.to_dict()) == json.dumps(wanted.to_dict())
        ledger = skfdp.PrivacyLedger()
        skfdp.private_bounds(other, ledger=ledger, **told)
        assert ledger.events == wanted.events


def test_a_plan_alone_charges_nothing(table):
    ledger = skfdp.PrivacyLedger(epsilon=1.0, delta=1e-5)
    plan = skfdp.private_bounds(table, ledger=ledger, plan_only=True)
    assert not ledger.entries and plan.epsilon == pytest.approx(1.0)
    found = skfdp.private_bounds(table, ledger=ledger)
    assert ledger.events == plan.events == found.privacy_.events
    assert {entry.label for entry in ledger.entries} == {"private_bounds"}


def test_nothing_is_released_beyond_the_limit_or_before_the_charge(table, releases):
    class Ledger(skfdp.PrivacyLedger):
        def charge(self, *args, **more):
            assert not releases
            return super().charge(*args, **more)

    with pytest.raises(skfdp.PrivacyBudgetError):
        skfdp.private_bounds(table, ledger=Ledger(epsilon=0.5, delta=1e-5))
    skfdp.private_bounds(table, ledger=Ledger())
    assert len(releases) == 2


# -- what is found -------------------------------------------------------------------
def test_bounds_hold_most_numbers_and_are_not_much_wider(table):
    for seed in range(5):
        found = seeded(table, epsilon=2.0, random_state=seed)
        assert not found.not_found
        for name, (low, high) in found.bounds.items():
            values = table[name].to_numpy(float)
            inside = np.mean((low <= values) & (values <= high))
            assert inside > 0.9, name
            first, last = np.quantile(values, [0.02, 0.98])
            assert high - low < 3 * max(last - min(first, 0), last - first), name
        assert found.bounds["flag"] == (0.0, 1.0)
        low, high = found.bounds["year"]
        assert 1900 < low < 1992 and 2016 < high < 2100


def test_the_noise_decides_what_is_seen(table):
    """Where nothing stands out there is the stated fallback, and no exception."""
    found = seeded(table, epsilon=1e-3)
    assert set(found.not_found) == set(table)
    assert set(found.bounds.values()) == {(-1.0, 1.0)}
    X = csr_array(table[["flag"]].to_numpy())
    found = seeded(X, epsilon=1e-3)
    assert found.bounds == {0: (0.0, 1.0)} and found.not_found == (0,)


@pytest.mark.parametrize("value", EXTREMES)
def test_tables_of_extremes(value):
    """Nothing that a private number holds raises or warns."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(N, value), rng.choice(EXTREMES, N)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = skfdp.private_bounds(X, epsilon=8.0)
    low, span = resolve_bounds(found.bounds, 2, None)
    assert np.isfinite(low).all() and (span > 0).all()


def test_sparse_columns_have_a_lower_bound_of_zero():
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((N, 3)) < 0.7, 0.0, rng.normal(size=(N, 3)))
    dense[:, 2] = -np.abs(dense[:, 2])
    X = csr_array(np.column_stack([dense, 5 + rng.random(N)]))
    bounds = seeded(X, epsilon=3.0).bounds
    assert {low for low, _ in bounds.values()} == {0.0} and 5 < bounds[3][1] < 9
    skfdp.DPSGDFClassifier(bounds=bounds, classes=[0, 1]).fit(X, dense[:, 0] > 0)


def test_public_columns_have_theirs_exactly(table):
    names = ["even", "tail"]
    other = table.copy()
    other[[c for c in table if c not in names]] = 1e9
    for rows in (table, other):
        found = skfdp.private_bounds(rows, public_features=names)
        for name in names:
            assert found.bounds[name] == (table[name].min(), table[name].max())
        assert found.privacy_.public_features == tuple(names)
    with pytest.raises(ValueError, match="NaN"):
        skfdp.private_bounds(table.assign(even=math.nan), public_features=names)


def test_without_privacy_bounds_are_exact(table):
    found = skfdp.private_bounds(table, epsilon=math.inf)
    for name, bounds in found.bounds.items():
        assert bounds == (table[name].min(), table[name].max())
    assert found.privacy_.epsilon == math.inf


counted = arrays.arrays(
    "float64", N_SPECIAL + 8 + 2, elements=st.floats(-1e6, 1e6, allow_nan=False)
)


@settings(deadline=None)
@given(counted, st.floats(0, 1e6), st.integers(0, 10**6))
def test_any_counts_make_bounds_within(counts, std, n):
    edges = np.linspace(-4.0, 4.0, 9)
    found = Told(counts, std, n)
    low, high = fine_bounds(found, edges)
    assert -4 <= low < high <= 4


# -- thresholds ----------------------------------------------------------------------
def test_empty_bins_pass_seldom():
    noise = np.random.default_rng(0).normal(size=(1000, Binades().n_bins))
    rough = [decoding.rough_bounds(Told(row, 1.0, 1000)) for row in noise]
    assert sum(found is not None for found in rough) / 1000 <= decoding.FALSE_ALARM


def test_thresholds_keep_the_stated_bound_over_all_windows():
    lengths = range(1, N_BINADES + 1)
    tails = [math.exp(-(decoding.threshold(k) ** 2) / 2) / 2 for k in lengths]
    assert 3 * N_BINADES * sum(tails) <= decoding.FALSE_ALARM / 2


# -- tables of users -----------------------------------------------------------------
def test_every_kind_of_frame(table):
    text, columns = table.astype(object), table.to_dict("list")
    text.iloc[:3, 0] = "20", "not a number", None
    polars, pyarrow = map(pytest.importorskip, ("polars", "pyarrow"))
    for frame in (table, text, polars.DataFrame(columns), pyarrow.table(columns)):
        low, high = seeded(frame, epsilon=4.0).bounds["even"]
        assert 10 < low < 30 and 80 < high < 128
    assert skfdp.private_bounds([["a", "b"]] * 3).not_found == (0, 1)
    with pytest.raises(ValueError, match="X has two columns 'even': rename one"):
        skfdp.private_bounds(pd.concat([table, table], axis=1))


def test_a_private_number_of_rows():
    """No count is refused, not even 0, and the result is one of the usual form."""
    for n in (0, 1, 5):
        found = skfdp.private_bounds(
            np.ones((n, 2)), neighboring_relation=AddOrRemoveOne(N)
        )
        assert set(found.bounds) == {0, 1}


def test_bounds_and_the_fit_after_them_add_up_in_a_ledger(table):
    ledger = skfdp.PrivacyLedger(epsilon=1.5, delta=1e-5)
    found = skfdp.private_bounds(table, epsilon=0.3, ledger=ledger)
    y = pd.Series(table["normal"] > 0, name="sign")
    skfdp.DPSGDFClassifier(1.0, bounds=found.bounds, ledger=ledger).fit(table, y)
    assert 1.0 < skfdp.report(ledger).epsilon < 1.3


def test_results_pickle_and_a_seed_repeats_the_noise_and_warns(table):
    with pytest.warns(skfdp.PrivacyWarning):
        one = skfdp.private_bounds(table, random_state=0)
    assert one == seeded(table) == pickle.loads(pickle.dumps(one))
    assert one.privacy_.seeded and isinstance(one, PrivateBounds)


NO_TABLES = [[1, 2], [3]], [1.0, 2.0], pd.Series([1.0, 2.0]), 3.0, None
REFUSED = [
    ({"epsilon": 0}, "epsilon=0"),
    ({"delta": 2}, "delta=2"),
    ({"neighboring_relation": "none"}, "neighboring_relation='none'"),
    ({"plan_only": np.ones(2)}, "plan_only="),
    ({"public_features": "all"}, "needs private columns"),
    ({"epsilon": 1e-13, "delta": 1e-20}, "raise"),
    ({"X": csr_array((3, 100_000))}, "at most 5[0-9]{4} columns"),
    *(({"X": odd}, "X|array") for odd in NO_TABLES),
]


def test_what_is_refused_charges_nothing(table):
    ledger = skfdp.PrivacyLedger(epsilon=1.0, delta=1e-5)
    for more, match in REFUSED:
        with pytest.raises((ValueError, TypeError), match=match) as found:
            skfdp.private_bounds(**{"X": table, "ledger": ledger} | more)
        assert found.value.__cause__ is None
    assert not ledger.entries


# -- all rows of a person together ----------------------------------------------------
ENDS = [0.0, 1.0, -3.0, 1e308, math.nan, math.inf]


@pytest.fixture
def panel():
    """3000 rows of 1000 persons: one of them has 200, the others 1 to 5."""
    rng = np.random.default_rng(3)
    groups = np.r_[np.zeros(200, int), rng.integers(1, 1000, 2800)]
    X = np.column_stack([rng.uniform(18, 90, 3000), rng.normal(size=3000)])
    return X, groups


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["replace_one", "replace_special"])
@pytest.mark.parametrize("weights", [[1024] * 4, [512, 512, 1024, 7]])
def test_nobody_moves_the_counts_further_than_is_said(relation, weights):
    """Every table of extremes against every other private part of one person."""
    units = Units(np.array(weights), np.array([0, 0, 1, 1]))
    relation = Relation(relation)
    largest = 0.0
    tables = {
        values: Weighted(BinCounts(np.array(values).reshape(4, 1), Binades()), units)
        for values in itertools.product(ENDS, repeat=4)
    }
    (unit,) = {query.unit(1.0) for query in tables.values()}
    sums = {values: q.exact_sum(None, None, unit) for values, q in tables.items()}
    for values, query in tables.items():
        for person, kept in ((0, values[2:]), (1, values[:2])):
            if relation.replaces:
                pairs = itertools.product(ENDS, repeat=2)
                totals = [sums[(*kept, *o) if person else (*o, *kept)] for o in pairs]
            else:
                others = np.flatnonzero(units.persons != person)
                totals = [query.exact_sum(None, others, unit)]
            distances = (sums[values] - np.array(totals)) * unit
            largest = max(largest, np.linalg.norm(distances, axis=(1, 2)).max())
    bound = Weighted(BinCounts.planned(1), units).sensitivity(relation)
    assert largest <= bound * (1 + 1e-9)
    assert largest > 0.99 * bound  # all rows of a person in one bin, then in another


def test_someone_with_many_rows_sets_no_bound(panel):
    """200 rows of one person are seen as records, and not as those of a person."""
    X, groups = panel
    X[groups == 0, 1] = 1e9
    assert seeded(X, epsilon=4.0).bounds[1][1] > 1e8
    low, high = seeded(X, epsilon=4.0, groups=groups).bounds[1]
    assert -10 < low < -0.5 and 0.5 < high < 10


def test_the_plan_is_that_of_the_fit_and_looks_at_no_value(panel):
    X, groups = panel
    plan = skfdp.private_bounds(np.full_like(X, np.nan), groups=groups, plan_only=True)
    assert plan.events == skfdp.private_bounds(X, groups=groups).privacy_.events


def test_a_column_tells_the_persons(panel):
    X, groups = panel
    frame = pd.DataFrame(X, columns=["age", "z"]).assign(who=groups)
    named = seeded(frame, epsilon=2.0, groups="who")
    given = seeded(frame[["age", "z"]], epsilon=2.0, groups=groups)
    assert named.bounds == given.bounds
    with pytest.raises(ValueError, match="not the name of a column of X"):
        skfdp.private_bounds(frame, groups="whom")


def test_persons_are_refused_where_there_are_none(panel):
    X, groups = panel
    ledger = skfdp.PrivacyLedger()
    skfdp.private_bounds(X, ledger=ledger)
    with pytest.raises(skfdp.PrivacyBudgetError, match="cannot be composed"):
        skfdp.private_bounds(X, groups=groups, ledger=ledger)
    add = {"neighboring_relation": AddOrRemoveOne(3000)}
    with pytest.raises(ValueError, match="groups needs a public number of rows"):
        skfdp.private_bounds(X, groups=groups, **add)


def test_noise_that_no_integer_carries_is_refused():
    """The noise is in shares, and integers count steps of them."""
    event = skfdp.privacy.Event(
        label="bins", noise_std=(2.0**35,), clip_norm=1, sensitivity=1
    )
    budget = Budget(1e-9, 1e-9, Relation("replace_one"), {})
    check_noise(event, budget, None)
    units = Units(np.array([1, 1023]), np.array([0, 1]))
    assert units.step == 2.0**-9
    with pytest.raises(ValueError, match="raise the budget"):
        check_noise(event, budget, units)
