"""Clipped sums of persons, and of weighted rows, by brute force in integers."""

import dataclasses
import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import length, square
from scipy.sparse import csr_array

from skfdp.data.grid import GRID, GridRows, InputScaler
from skfdp.data.records import PublicRecords
from skfdp.data.units import FULL_WEIGHT, Units
from skfdp.kernels import persons as kernels
from skfdp.kernels.contributions import PerRow
from skfdp.kernels.losses import loss_named
from skfdp.privacy import RELATIONS, Relation
from skfdp.queries import products
from skfdp.queries.linear import LinearQuery, _rounding_of_persons, label_bound
from skfdp.queries.products import DenseProducts

FORMATS = ("dense", "sparse")
OUTPUTS = (1, 3, 6)  # six outputs are more than the tiles of the products take at once


def on_grid(X, kind, centre=None):
    """Return rows on the grid, dense or CSR, of the same integers."""
    X = csr_array(X) if kind == "sparse" else X
    return GridRows.build(X, lambda block: block, bias=0.1, centre=centre)


def make_units(sizes, seed=0, weights=None):
    """Return units whose persons have so many rows each, in mixed order."""
    rng = np.random.default_rng(seed)
    persons = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    if weights is None:
        weights = rng.integers(1, FULL_WEIGHT + 1, len(persons))
    _, persons = np.unique(persons, return_inverse=True)
    return Units(np.asarray(weights), persons)


def make_query(sizes=(1, 2, 3, 7, 30), n_outputs=1, kind="dense", seed=0, **more):
    """Return a query of persons with so many rows, each of another length."""
    rng = np.random.default_rng(seed)
    units = more.pop("units", make_units(sizes, seed))
    n, d = units.n_rows, more.pop("d", 5)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-2, 0.2, (n, 1))
    X *= rng.random((n, d)) < 0.6
    parameters = {
        "rows": on_grid(X, kind, more.pop("centre", None)),
        "target": rng.integers(0, max(2, n_outputs), n),
        "loss": loss_named("log_loss"),
        "n_outputs": n_outputs,
        "clip_norm": 0.5,
        "capacity": n,
    } | more
    return LinearQuery(**parameters).of_units(units)


def make_theta(query, scale=2.0, seed=1):
    """Weights that need no rounding, if they are not large."""
    theta = scale * np.random.default_rng(seed).normal(size=query.shape)
    return np.rint(theta * 2**11) / 2**11


def rows_of(query, person):
    return np.flatnonzero(query.units.persons == person)


def each_person(query, theta, unit):
    """Return the integer contribution of each person alone."""
    persons = range(query.units.n_units)
    return [query.exact_sum(theta, rows_of(query, p), unit) for p in persons]


def gradients(query, theta):
    """Return the weighted gradients of the rows, in float64."""
    x = query.rows.values * query.rows.unit
    residuals = query.loss.residual(x @ theta.T, query.target)
    return query.units.shares[:, None, None] * residuals[:, :, None] * x[:, None, :]


def expected(query, theta):
    """Return the clipped sums of the persons, in float64."""
    found, rows = [], gradients(query, theta)
    for person in range(query.units.n_units):
        total = rows[rows_of(query, person)].sum(axis=0)
        norm = np.linalg.norm(total)
        found.append(total * min(1.0, query.clip_norm / max(norm, 1e-300)))
    return np.array(found)


# -- what a person contributes -------------------------------------------------------
@pytest.mark.parametrize("n_outputs", OUTPUTS)
@pytest.mark.parametrize("clip_norm", [1e-3, 0.5, 100.0])
def test_a_person_contributes_the_clipped_sum_of_the_rows(n_outputs, clip_norm):
    query = make_query(n_outputs=n_outputs, clip_norm=clip_norm)
    theta, unit = make_theta(query), query.unit(0.0)
    found = np.array(each_person(query, theta, unit)) * unit
    np.testing.assert_allclose(found, expected(query, theta), atol=1e-5 * clip_norm)
    norms = np.linalg.norm(found, axis=(1, 2))
    clipped = norms > 0.999 * clip_norm
    assert clipped.all() if clip_norm == 1e-3 else not clipped.all()


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("n_outputs", OUTPUTS)
def test_a_person_does_not_touch_the_contribution_of_another(kind, n_outputs):
    query = make_query(n_outputs=n_outputs, kind=kind)
    theta, unit = make_theta(query), query.unit(1.0)
    alone = each_person(query, theta, unit)
    np.testing.assert_array_equal(query.exact_sum(theta, None, unit), sum(alone))
    rng, n_units = np.random.default_rng(0), query.units.n_units
    for _ in range(20):
        some = np.flatnonzero(rng.random(n_units) < 0.5)
        batch = query.units.rows_of(some)
        wanted = sum((alone[p] for p in some), np.zeros(query.shape))
        found = query.exact_sum(theta, batch, unit)
        np.testing.assert_array_equal(found, wanted)
        found = query.exact_sum(theta, rng.permutation(batch), unit)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("n_outputs", OUTPUTS)
def test_order_threads_and_blocks_change_nothing(kind, n_outputs, monkeypatch):
    sizes = np.random.default_rng(3).integers(1, 12, 400)
    query = make_query(sizes, n_outputs, kind, d=20)
    theta, unit = make_theta(query), query.unit(3.0)
    total = query.exact_sum(theta, None, unit)
    order = np.random.default_rng(5).permutation(query.n_rows)
    np.testing.assert_array_equal(query.exact_sum(theta, order, unit), total)
    threads = dataclasses.replace(query, n_jobs=2)
    np.testing.assert_array_equal(threads.exact_sum(theta, None, unit), total)
    if kind == "dense":  # another table, of the same rows in another order
        rows = GridRows(query.rows.values[order], query.rows.squared_norms[order])
        units = Units(query.units.weights[order], query.units.persons[order])
        shuffled = dataclasses.replace(
            query, rows=rows, target=query.target[order], units=units
        )
        np.testing.assert_array_equal(shuffled.exact_sum(theta, None, unit), total)
    monkeypatch.setattr(products, "AT_ONCE", 7)
    monkeypatch.setattr(DenseProducts, "largest_block", 64)
    monkeypatch.setattr(products, "_inner_products_are_short", lambda rows: False)
    again = dataclasses.replace(query)
    np.testing.assert_array_equal(again.exact_sum(theta, None, unit), total)


def test_sums_over_many_persons_are_exact():
    n = 2**19
    query = make_query(
        units=Units(np.ones(n + 1, dtype=np.int64), np.append(np.arange(n), 0)),
        rows=on_grid(np.ones((n + 1, 1)), "dense"),
        target=np.zeros(n + 1, dtype=int),
        clip_norm=2.0**-10,
    )
    unit = query.unit(0.0)
    each = query.exact_sum(np.zeros(query.shape), np.array([1]), unit)
    total = query.exact_sum(np.zeros(query.shape), np.arange(1, n), unit)
    assert 0.99 < each.max() / 2**products.ENTRY_BITS < 1
    np.testing.assert_array_equal(total, each * (n - 1))


def test_threads_part_nobody():
    """One person may have the rows of several threads, or of none."""
    query = make_query((5000, 1, 1), n_jobs=3)
    theta, unit = make_theta(query), query.unit(1.0)
    alone = sum(each_person(query, theta, unit))
    np.testing.assert_array_equal(query.exact_sum(theta, None, unit), alone)


def test_a_batch_of_nobody_sums_to_zero():
    query = make_query()
    total = query.exact_sum(make_theta(query), np.array([], dtype=np.int64), 2.0**-20)
    assert total.shape == query.shape
    assert not total.any()


# -- its length, in exact integers ---------------------------------------------------
@settings(deadline=None, max_examples=80)
@given(
    n_outputs=st.sampled_from(OUTPUTS),
    kind=st.sampled_from(FORMATS),
    clip_norm=st.floats(1e-3, 10),
    scale=st.sampled_from([0.0, 1.0, 30.0, 1e30, 1e300]),
    noise=st.floats(0, 1e9),
    seed=st.integers(0, 1000),
)
def test_contributions_are_bounded_in_grid_units(
    n_outputs, kind, clip_norm, scale, noise, seed
):
    loss = loss_named("squared_hinge" if seed % 2 else "log_loss")
    more = {"clip_norm": clip_norm, "loss": loss, "seed": seed}
    query = make_query((1, 2, 9, 60), n_outputs, kind, **more)
    unit = query.unit(noise)
    theta = np.clip(make_theta(query, seed=seed) * scale, -1e308, 1e308)
    for contribution in each_person(query, theta, unit):
        assert square(contribution) <= (clip_norm / unit) ** 2


def cancelling(n_rows, n_outputs, kind, spread, clip_norm, seed=0):
    """Return a person whose rows nearly cancel: terms `spread` times the sum."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows // 2, 5))
    X = np.vstack([x, x])
    target = np.concatenate([np.full(n_rows // 2, s * spread) for s in (1, -1)])
    target += rng.normal(size=n_rows)
    more = {"loss": loss_named("squared_error")}
    if n_outputs > 1:  # labels: the residuals of the two halves are opposite
        target, more = np.repeat([0, 1], n_rows // 2), {}
        X[n_rows // 2 :] += rng.normal(size=x.shape) / spread
    return LinearQuery(
        rows=on_grid(X, kind),
        target=target,
        n_outputs=n_outputs,
        clip_norm=clip_norm,
        capacity=n_rows,
        units=Units(np.full(n_rows, FULL_WEIGHT), np.zeros(n_rows, dtype=np.int64)),
        **({"loss": loss_named("log_loss")} | more),
    )


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("n_outputs", [1, 2, 5])
@pytest.mark.parametrize("n_rows", [2, 10, 1000])
@pytest.mark.parametrize("spread", [10.0, 1e4, 1e6])
def test_rows_that_cancel_are_bounded(kind, n_outputs, n_rows, spread):
    """The norm comes from the sum, rounded up: terms are much longer than that."""
    reached = 0.0
    for seed in range(5):
        query = cancelling(n_rows, n_outputs, kind, spread, 1e-4, seed)
        unit = query.unit(0.0)
        total = query.exact_sum(np.zeros(query.shape), None, unit)
        assert square(total) <= (1e-4 / unit) ** 2
        reached = max(reached, length(total, unit) / 1e-4)
    # A norm that is rounded up takes something off sums of which little is left.
    assert reached > (0.5 if n_rows * spread < 1e9 else 0.1) or n_outputs > 1


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("n_outputs", OUTPUTS)
def test_a_thousand_rows_of_a_person_reach_the_clip_norm_and_no_more(kind, n_outputs):
    query = make_query((1000, 1000), n_outputs, kind, clip_norm=0.03)
    theta = make_theta(query)
    for noise_std in 10.0 ** np.arange(-2.0, 12):
        unit = query.unit(noise_std)
        for contribution in each_person(query, theta, unit):
            assert square(contribution) <= (query.clip_norm / unit) ** 2
            root = math.sqrt(contribution.size)
            wanted = query.clip_norm * (1 - 1e-4) - root * unit
            assert length(contribution, unit) > wanted


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308])
def test_a_person_without_a_finite_gradient_contributes_nothing(bad):
    query = make_query((2, 5, 3), loss=loss_named("squared_error"))
    target = np.random.default_rng(0).normal(size=query.n_rows)
    theta, unit = make_theta(query), query.unit(1.0)
    other = dataclasses.replace(query, target=target)
    alone = each_person(other, theta, unit)
    target = target.copy()
    target[rows_of(query, 1)[2]] = bad
    found = each_person(dataclasses.replace(query, target=target), theta, unit)
    np.testing.assert_array_equal(found[0], alone[0])
    np.testing.assert_array_equal(found[2], alone[2])
    if not np.isfinite(bad):
        assert not found[1].any()
    assert square(found[1]) <= (query.clip_norm / unit) ** 2
    total = dataclasses.replace(query, target=target).exact_sum(theta, None, unit)
    np.testing.assert_array_equal(total, sum(found))


@pytest.mark.parametrize("size", [1e-290, 1e-250, 1e-30, 1e30, 1e250])
def test_gradients_of_any_size_are_in_proportion(size):
    query = make_query((3,), loss=loss_named("squared_error"))
    clip_norm = 0.1 * size if size < 1 else 0.1
    query = dataclasses.replace(
        query, target=size * query.target + size, clip_norm=clip_norm
    )
    if size < 1e-280:
        clip_norm = 0.1
        query = dataclasses.replace(query, clip_norm=clip_norm)
    unit = query.unit(0.0)
    total = query.exact_sum(np.zeros(query.shape), None, unit)
    assert square(total) <= (clip_norm / unit) ** 2
    if size > 1e-280:
        assert length(total, unit) > 0.9 * clip_norm
    else:
        assert not total.any()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_row_without_weight_counts_for_nothing(bad):
    units = make_units((4, 4))
    first = rows_of(SimpleNamespace(units=units), 0)[0]
    weights = units.weights.copy()
    weights[first] = 0
    units = Units(weights, units.persons)
    query = make_query(units=units, loss=loss_named("squared_error"))
    theta, unit = make_theta(query), query.unit(1.0)
    totals = []
    for value in (0.0, 1.0, bad):
        target = np.ones(8)
        target[first] = value
        other = dataclasses.replace(query, target=target)
        totals.append(other.exact_sum(theta, None, unit))
    np.testing.assert_array_equal(totals[0], totals[1])
    np.testing.assert_array_equal(totals[0], totals[2])
    assert totals[0].any()


# -- neighbours ----------------------------------------------------------------------
def other_private_part(query, person, rng, kind):
    """Return the query in which every row of one person is another one."""
    own = rows_of(query, person)
    X = query.rows.values.copy() if kind == "dense" else None
    size = 10.0 ** rng.uniform(-2, 1)
    direction = rng.normal(size=query.rows.n_columns - 1)
    new = size * (direction + rng.normal(size=(len(own), len(direction))) / 10)
    whole = X[:, :-1] * GRID if kind == "dense" else dense_of(query.rows)
    whole[own] = new
    target = query.target.copy()
    target[own] = rng.integers(0, max(2, query.n_outputs))
    return dataclasses.replace(query, rows=on_grid(whole, kind), target=target)


def dense_of(rows):
    """Return the columns of CSR rows, without the constant one."""
    shape = rows.n_rows, rows.n_columns
    X = csr_array((rows.data, rows.indices, rows.indptr), shape=shape).toarray()
    return X[:, :-1] * GRID


def furthest_move(relation, n_outputs, kind, seed=0):
    """Return the furthest that a person moves the sum, over what is claimed."""
    rng = np.random.default_rng(seed)
    query = make_query((3, 1, 12, 40), n_outputs, kind)
    claimed = query.sensitivity(Relation.of(relation))
    assert query.clip_norm <= claimed <= 2 * query.clip_norm
    largest, everybody = 0.0, np.arange(query.n_rows)
    for _ in range(40):
        theta = make_theta(query, 10.0 ** rng.uniform(-1, 2), rng.integers(1000))
        unit = query.unit(rng.choice([0.0, 1.0, 1e6]))
        total = query.exact_sum(theta, None, unit)
        for person in range(4):
            one = other_private_part(query, person, rng, kind)
            if relation == "replace_one":
                two = other_private_part(query, person, rng, kind)
                moved = one.exact_sum(theta, None, unit)
                moved = moved - two.exact_sum(theta, None, unit)
            else:  # all rows of the person are null, or gone
                rest = np.setdiff1d(everybody, rows_of(query, person))
                moved = total - query.exact_sum(theta, rest, unit)
            largest = max(largest, length(moved, unit) / claimed)
    return largest


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_no_person_moves_the_sum_further_than_said(relation, kind, n_outputs):
    assert 0.85 < furthest_move(relation, n_outputs, kind) <= 1


@pytest.mark.parametrize("relation", ["replace_one", "replace_special"])
def test_void_rows_of_a_person_move_it_no_further(relation):
    """Which rows are null is private, so that it is part of what is replaced."""
    query, rng = make_query((6, 6)), np.random.default_rng(0)
    unit, most = query.unit(1.0), query.sensitivity(Relation.of(relation))
    theta = make_theta(query)
    own, others = rows_of(query, 0), rows_of(query, 1)
    sums = [
        query.exact_sum(theta, np.sort(np.r_[others, own[rng.random(6) < 0.5]]), unit)
        for _ in range(30)
    ]
    nobody = query.exact_sum(theta, others, unit)
    moved = [length(one - nobody, unit) for one in sums]
    assert 0 < max(moved) <= query.clip_norm
    for one, other in itertools.combinations(sums, 2):
        assert length(one - other, unit) <= 2 * query.clip_norm
    assert most >= query.clip_norm


# -- weights alone -------------------------------------------------------------------
def weighted_query(n=60, d=20, seed=0, kind="dense", weights=None, **more):
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, FULL_WEIGHT + 1, n) if weights is None else weights
    return make_query(units=Units(weights), d=d, seed=seed, kind=kind, **more)


@pytest.mark.parametrize("n_outputs", OUTPUTS)
def test_weights_are_inside_of_the_clip(n_outputs, monkeypatch):
    query = weighted_query(n_outputs=n_outputs)
    theta, unit = make_theta(query, 0.5), query.unit(0.0)
    rows = [np.array([i]) for i in range(query.n_rows)]
    each = np.array([query.exact_sum(theta, row, unit) for row in rows])
    wanted = gradients(query, theta)
    norms = np.linalg.norm(wanted, axis=(1, 2))
    wanted *= np.minimum(1, 0.5 / np.maximum(norms, 1e-300))[:, None, None]
    assert 5 < (norms > 0.5).sum() < 55
    tolerance = query.unit(0.0) / query.rows.unit * 10 + 1e-3
    np.testing.assert_allclose(each * unit, wanted, atol=tolerance)
    assert max(map(square, each)) <= (0.5 / unit) ** 2
    assert not each[query.units.weights == 0].any()
    total = query.exact_sum(theta, None, unit)
    np.testing.assert_array_equal(total, each.sum(axis=0))
    sparse = weighted_query(n_outputs=n_outputs, kind="sparse")
    np.testing.assert_array_equal(sparse.exact_sum(theta, None, unit), total)
    monkeypatch.setattr(products, "_inner_products_are_short", lambda rows: False)
    again = dataclasses.replace(query)
    np.testing.assert_array_equal(again.exact_sum(theta, None, unit), total)


def test_equal_weights_change_no_bit():
    query = weighted_query(weights=np.full(60, 300))
    theta, unit = make_theta(query), query.unit(1.0)
    plain = dataclasses.replace(query, units=None)
    assert unit == plain.unit(1.0)
    np.testing.assert_array_equal(
        query.exact_sum(theta, None, unit), plain.exact_sum(theta, None, unit)
    )


def test_persons_of_one_row_that_counts_are_records():
    """Their other rows are cut off: the fast path, and every lemma for records."""
    units = make_units((3, 2, 4))
    first = np.unique(units.persons, return_index=True)[1]
    weights = np.zeros(9, dtype=np.int64)
    weights[first] = FULL_WEIGHT
    cut = Units(weights, units.persons)
    assert units.joint and not cut.joint
    query = make_query(units=cut)
    theta, unit = make_theta(query), query.unit(1.0)
    plain = dataclasses.replace(query, units=None)
    np.testing.assert_array_equal(
        query.exact_sum(theta, None, unit), plain.exact_sum(theta, first, unit)
    )
    assert dataclasses.replace(query, orthant=True).orthant


@pytest.mark.parametrize("loss", ["log_loss", "hinge", "squared_hinge"])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_weights_keep_the_orthant(loss, n_outputs):
    """They are positive, and the same for both private parts."""
    rng, largest, n = np.random.default_rng(0), 0.0, 60
    for _ in range(15):
        units = Units(rng.integers(1, FULL_WEIGHT + 1, n))
        target = rng.integers(0, max(2, n_outputs), n)
        pair = []
        for _ in range(2):
            X = np.eye(4)[rng.integers(4, size=n)] * rng.uniform(0, 2, (n, 1))
            given = on_grid(X, "dense"), target, loss_named(loss), n_outputs, 0.3, n
            pair.append(LinearQuery(*given, orthant=True, units=units))
        theta = rng.normal(size=pair[0].shape) * 10.0 ** rng.uniform(-1, 1)
        unit = pair[0].unit(0.0)
        for i in range(n):
            one, other = (q.exact_sum(theta, np.array([i]), unit) for q in pair)
            largest = max(largest, length(one - other, unit))
    bound = pair[0].sensitivity(Relation.of("replace_one"))
    assert bound == pytest.approx(math.sqrt(2) * 0.3)
    assert 0.95 * bound < largest <= bound


# -- labels --------------------------------------------------------------------------
def public_of(query, classes):
    return PublicRecords(
        mask=np.ones(query.rows.n_columns - 1, dtype=bool),
        input_scaler=InputScaler(),
        n_records=query.units.n_units,
        columns=tuple(range(query.rows.n_columns - 1)),
        classes=np.arange(classes),
        class_weight=np.ones(classes),
        units=query.units,
    )


def furthest_labels(sizes, n_outputs, clip_norm, noise_std, persons=True):
    """Return how far labels move a sum, over the bound, and the bound."""
    units = make_units(sizes)
    if not persons:
        units = Units(units.weights)
    classes, rng = max(2, n_outputs), np.random.default_rng(n_outputs)
    query = make_query(n_outputs=n_outputs, units=units, clip_norm=clip_norm)
    public = public_of(query, classes)
    event = SimpleNamespace(
        step_stds=np.array([noise_std]), clip_norm=clip_norm, sensitivity=2 * clip_norm
    )
    bound = label_bound(public, query.loss, query.rows, event)
    query = dataclasses.replace(query, capacity=public.capacity, label_bound=bound)
    assert query.sensitivity(Relation.of("replace_one")) == bound
    unit, largest = query.unit(noise_std), 0.0
    for _ in range(6):
        theta = make_theta(query, 10.0 ** rng.uniform(-1, 2), rng.integers(1000))
        for unit_number in range(units.n_units):
            own = np.array([unit_number])
            if persons:
                own = rows_of(query, unit_number)
            sums = [np.zeros(query.shape, dtype=np.int64)]  # of null rows
            for label in range(classes):
                other = dataclasses.replace(query, target=np.full(units.n_rows, label))
                sums.append(other.exact_sum(theta, own, unit))
                sums.append(other.exact_sum(theta, own[: len(own) // 2], unit))
            for one, two in itertools.combinations(sums, 2):
                largest = max(largest, length(one - two, unit))
    return largest / bound, bound


@pytest.mark.parametrize("persons", [True, False])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("clip_norm", [0.05, 20.0])
@pytest.mark.parametrize("noise_std", [0.0, 1e3, 1e9])
def test_no_labels_of_a_person_move_the_sum_further_than_said(
    persons, n_outputs, clip_norm, noise_std
):
    sizes = (1, 2, 5)
    reached, bound = furthest_labels(sizes, n_outputs, clip_norm, noise_std, persons)
    assert reached <= 1
    if noise_std < 1e9:  # where the grid is coarse, little is left
        assert reached > 0.7
        assert (bound < 2 * clip_norm) == (clip_norm == 20.0)


# -- refusals ------------------------------------------------------------------------
def test_the_rounding_of_residuals_is_within_its_bound():
    """The person has so many rows that the rounding of the norm is smaller."""
    n, others, largest = 2**14, 2_000, 8.0
    weights = np.ones(n + others, dtype=np.int64)
    weights[0] = FULL_WEIGHT
    units = Units(weights, np.append(np.zeros(n, int), np.arange(1, others + 1)))
    squares = np.full(n + others, 32767.0**2)
    residuals = largest * units.shares[None, :n]
    step = kernels._as_integers(
        np.arange(n), 0, n, PerRow(squares, 1, 0), residuals.copy()
    )
    lengths = np.sqrt(squares) * GRID
    public = SimpleNamespace(units=units, n_outputs=1)
    rows = SimpleNamespace(unit=GRID, n_columns=1)
    bound = _rounding_of_persons(public, rows, lengths, 0.0, largest)
    rounding = 2 * step * lengths[:n].sum()  # of two contributions
    assert rounding <= bound < 3 * rounding


def test_what_no_lemma_of_persons_covers_is_refused():
    query = make_query()
    for more, message in (
        ({"orthant": True}, "persons with several rows cannot"),
        ({"padded": query.rows}, "persons with several rows cannot"),
        ({"units": Units(np.ones(3, dtype=np.int64))}, "must be those of the 43 rows"),
    ):
        with pytest.raises(ValueError, match=message):
            dataclasses.replace(query, **more)
    assert query.of_units(query.units) is query
    with pytest.raises(ValueError, match="`units` of a query"):
        query.of_units(make_units((1, 2)))


def test_weights_enter_the_public_gradient():
    """A row of weight 2 counts as two rows of weight 1."""
    query = weighted_query(weights=np.r_[512, np.full(59, 256)])
    twice = np.r_[0, np.arange(60)]
    theta = make_theta(query)
    plain = dataclasses.replace(query, units=None, padded=query.rows)
    weighted = dataclasses.replace(query, padded=query.rows)
    for public_target in (True, False):
        one, other = (
            dataclasses.replace(q, public_target=public_target)
            for q in (weighted, plain)
        )
        np.testing.assert_allclose(
            one.public_gradient(theta, np.arange(60)),
            other.public_gradient(theta, twice),
            rtol=1e-12,
        )


def test_the_public_gradient_of_cut_persons_is_that_of_their_row():
    units = make_units((3, 2, 4))
    first = np.unique(units.persons, return_index=True)[1]
    weights = np.zeros(9, dtype=np.int64)
    weights[first] = FULL_WEIGHT
    query = make_query(units=Units(weights, units.persons))
    query = dataclasses.replace(query, padded=query.rows)
    plain, theta = dataclasses.replace(query, units=None), make_theta(query)
    np.testing.assert_allclose(
        query.public_gradient(theta, np.arange(9)),
        plain.public_gradient(theta, first),
        rtol=1e-12,
    )
