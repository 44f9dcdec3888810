"""The typical length of private columns: released in bounds, and no row is cut."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from problems import FakeMechanism
from scipy.sparse import csr_array, random_array

from skfdp import FeatureDPLogisticRegression
from skfdp.privacy import Relation
from skfdp.solvers import NoisyGradientDescent
from skfdp.solvers.centring import Centring

N, D, WIDE = 40, 5, 5000
BOUNDS = {"bounded": (0, 1), "partly": {0: (0, 1), 3: (0, 1)}, "unbounded": False}
PUBLIC = {"none": None, "some": [1, 3]}
every_table = pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
every_split = pytest.mark.parametrize("public", PUBLIC.values(), ids=PUBLIC)


def table(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((N, D)) * (rng.random((N, D)) < 0.7)
    return X, np.arange(N) % 2


def records_of(X, bounds=(0, 1), public=None):
    model = FeatureDPLogisticRegression(bounds=bounds, public_features=public)
    return model._on_records(lambda found: found, X, np.arange(X.shape[0]) % 2)


def unit_of(records, noise=0.0, noise_std=1e-6, n_steps=1):
    """Return the released unit of mapped rows, and the first query."""
    labels = ["row lengths"] if records.X.shape[1] == WIDE else []
    events = {
        label: SimpleNamespace(label=label, noise_std=(noise_std,), n_steps=n_steps)
        for label in [*labels, "row length"]
    }
    mechanism = FakeMechanism(noise)
    centring = Centring("auto", True, length="auto")
    unit = centring._unit(records, SimpleNamespace(event=events.get), mechanism)
    return unit, mechanism.queries[0]


def furthest_of(records):
    """Return the length of the longest row, in mapped rows."""
    public = records.public
    reach = 1 if public.private_bounded else 2
    return reach * math.sqrt(public.n_private) / public.input_scaler.feature_bound


@every_table
@every_split
def test_the_unit_is_the_mean_length_of_the_private_columns(bounds, public):
    X, _ = table()
    records = records_of(X, bounds, public)
    private = np.delete(X, public or [], axis=1)
    found, _ = unit_of(records)
    mean = np.linalg.norm(private, axis=1).mean()
    # Rows are truncated to the grid before they are measured.
    found *= records.public.input_scaler.feature_bound
    assert found == pytest.approx(mean, rel=1e-3)


def test_beside_public_columns_the_unit_is_the_root_of_the_mean_square():
    """A column of few ones has a tiny mean length, by which rows would be stretched."""
    X = np.zeros((1000, 3))
    X[:, 0], X[:20, 2] = 0.5, 1.0
    given = {"bounds": (0, 1), "public_features": [0, 1], "classes": [0, 1]}
    model = FeatureDPLogisticRegression(1e5, **given)
    event = model.plan(X, np.arange(1000) % 2).events[1]
    assert (event.label, event.n_steps) == ("row length", 2)
    records = records_of(X[:40], public=[0, 1])
    unit = unit_of(records, n_steps=2)[0] * records.public.input_scaler.feature_bound
    assert unit == pytest.approx(np.sqrt(20 / 40), rel=1e-4)


@every_table
@every_split
@pytest.mark.parametrize("noise", [-1e300, -1e3, -1.0, 1.0, 1e3, 1e300])
@pytest.mark.parametrize("noise_std", [1e-6, 1.0, 1e9])
def test_a_released_unit_is_within_public_bounds(bounds, public, noise, noise_std):
    records = records_of(table()[0], bounds, public)
    found, _ = unit_of(records, noise, noise_std)
    furthest = furthest_of(records)
    assert furthest / 64 * (1 - 1e-9) <= found <= furthest * (1 + 1e-9)


@every_table
@every_split
def test_a_replaced_row_moves_the_sum_by_at_most_its_sensitivity(bounds, public):
    X, _ = table()
    private = np.delete(np.arange(D), public or [])
    rng, queries = np.random.default_rng(0), []
    rows = [np.zeros(D), np.ones(D), np.full(D, 1e300), np.full(D, -1e300)]
    rows += [rng.normal(size=D) * 10.0 ** rng.uniform(-3, 3) for _ in range(20)]
    for row in rows:
        other = X.copy()
        other[0, private] = row[private]
        queries.append(unit_of(records_of(other, bounds, public))[1])
    largest = 0
    for std in (0.0, 3.0, 1e6):
        unit, others = queries[0].unit(std), np.arange(1, N)
        totals = [int(query.exact_sum(None, None, unit)[0]) for query in queries]
        rest = {int(query.exact_sum(None, others, unit)[0]) for query in queries}
        assert len(rest) == 1  # no other record's contribution moves
        largest = max(largest, (max(totals) - min(totals)) * unit)
    bound = queries[0].sensitivity(Relation.of("replace_one"))
    assert bound == 2 and 0.99 * bound < largest <= bound


@pytest.mark.parametrize("row_norm", [0.3, 1.0, 7.0])
@every_split
def test_a_number_for_the_length_releases_nothing(row_norm, public, releases):
    solver = NoisyGradientDescent(row_norm=row_norm, max_iter=2)
    given = {"bounds": (0, 1), "public_features": public}
    model = FeatureDPLogisticRegression(solver=solver, **given).fit(*table())
    assert "row length" not in [event.label for event in model.privacy_.events]
    # Class counts, mean, two steps, temperature: what is planned.
    assert len(releases) == sum(event.n_steps for event in model.privacy_.events)


@every_table
@every_split
@pytest.mark.parametrize("sparse", [False, True])
def test_no_row_is_cut_in_predictions(bounds, public, sparse):
    X, y = table()
    if bounds is False:
        X = X * 10.0 ** np.arange(D)
    data = csr_array(X) if sparse else X
    model = FeatureDPLogisticRegression(
        bounds=bounds, public_features=public, solver=NoisyGradientDescent(max_iter=3)
    ).fit(data, y)
    margins = (X @ model.coef_.T + model.intercept_)[:, 0]
    np.testing.assert_allclose(model.decision_function(data), margins, rtol=1e-9)


# -- wide tables: a histogram of lengths -----------------------------------------------
def wide_rows(lengths):
    """Return CSR rows of these norms, in [0, 1], with about 15 entries each."""
    shape = len(lengths), WIDE
    X = random_array(shape, density=15 / WIDE, rng=0, format="csr")
    X.data[:] = 1.0
    norms = np.sqrt(np.maximum(X.sum(axis=1), 1))
    return csr_array(X.multiply((np.asarray(lengths) / norms)[:, None]))


@pytest.mark.parametrize("length", [0.2, 1.0, 2.0])
@pytest.mark.parametrize("public", [None, [0, 1]])
def test_the_unit_of_wide_rows_is_their_mean_length(length, public):
    X = wide_rows([length] * 150 + [0.0] * 50)
    records = records_of(X, public=public)
    unit = unit_of(records)[0] * records.public.input_scaler.feature_bound
    mean = np.linalg.norm(X.toarray()[:, len(public or []) :], axis=1).mean()
    # Rows of norm .2 over 16 have entries of 50 grid steps, which are truncated.
    assert unit == pytest.approx(mean, rel=2e-2)


def test_a_replaced_wide_row_moves_two_counts_by_one():
    X = wide_rows(np.ones(N)).toarray()
    rng, totals = np.random.default_rng(0), []
    rows = [np.zeros(WIDE), np.ones(WIDE), np.full(WIDE, 1e300), np.full(WIDE, -1e300)]
    rows += [rng.random(WIDE) * 10.0 ** rng.uniform(-9, 9) for _ in range(20)]
    for row in [*rows, np.full(WIDE, np.nan), np.full(WIDE, np.inf)]:
        query = unit_of(records_of(np.vstack([row, X[1:]])))[1]
        totals.append(query.exact_sum(None, None, 1.0).ravel())
        rest = query.exact_sum(None, np.arange(1, N), 1.0).ravel()
        assert np.linalg.norm(totals[-1] - rest) == 1  # what a null record leaves out
    moved = [np.linalg.norm(one - other) for one in totals for other in totals]
    for relation, bound in (("replace_one", math.sqrt(2)), ("replace_special", 1)):
        assert query.sensitivity(Relation.of(relation)) == bound
    assert max(moved) == math.sqrt(2)


def test_rows_are_written_over_only_if_nothing_else_refers_to_them():
    """An audit keeps the query of the mean, whose rows must stay as they were."""
    X, _ = table()
    records = records_of(X)
    kept, room = records.integers.values.copy(), records.integers.room
    assert records.taken().room is room
    held = records.integers
    assert records.taken().room is None and np.array_equal(held.values, kept)
