"""The linear query: oracle, exactness, and bounded contributions."""

import dataclasses
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import square

from skfdp.data.grid import GRID, GridRows
from skfdp.kernels.losses import CLASSIFICATION, REGRESSION, loss_named
from skfdp.queries import products
from skfdp.queries.linear import LinearQuery
from skfdp.queries.products import DenseProducts, ShortProducts

CASES = [(loss, n_classes) for loss in CLASSIFICATION for n_classes in (2, 3, 7)]
KINDS = ["plain", "padded", "padded, public target", "same rows"]


def make_query(loss="log_loss", n_classes=3, n=203, d=9, seed=0, kind="plain", **more):
    rng = np.random.default_rng(seed)
    rows = GridRows.build(rng.normal(size=(n, d)) / math.sqrt(d), lambda b: b, bias=0.1)
    padded = None
    if kind == "same rows":
        padded = rows
    elif kind != "plain":
        padded = GridRows.build(
            rng.normal(size=(n, d)) / math.sqrt(d), lambda b: b, bias=0.1
        )
    parameters = {
        "rows": rows,
        "target": rng.integers(0, n_classes, n),
        "loss": loss_named(loss),
        "n_outputs": 1 if n_classes == 2 else n_classes,
        "clip_norm": 0.5,
        "capacity": n,
        "class_weight": np.linspace(0.5, 2, n_classes),
        "padded": padded,
        "public_target": kind == "padded, public target",
        **more,
    }
    return LinearQuery(**parameters)


def make_theta(query, seed=1, scale=2.0):
    """Weights that need no rounding, if they are not large."""
    theta = scale * np.random.default_rng(seed).normal(size=query.shape)
    return np.rint(theta * 2**11) / 2**11


def rounding(query, unit):
    """What rounding takes off the clip norm of each record; a tolerance of sums."""
    lengths = np.sqrt(query.rows.squared_norms) * GRID
    residual = unit / query.rows.unit
    taken = residual * math.sqrt(query.n_outputs) * lengths / 2
    # Errors of up to half a unit, of either sign: six standard deviations.
    return taken, 6 * 0.3 * residual * math.sqrt(np.square(lengths).sum())


def contributions(query, theta, unit):
    """Integer contribution of each record alone."""
    return np.stack(
        [query.exact_sum(theta, np.array([i]), unit) for i in range(query.n_rows)]
    )


def oracle(query, theta, taken=0.0):
    """Materialised per-example gradients, clipped, in float64."""
    x = query.rows.values * GRID
    gradients = query.class_weight[query.target][:, None, None] * (
        query.loss.residual(x @ theta.T, query.target)[:, :, None] * x[:, None, :]
    )
    if query.padded is not None:
        z = query.padded.values * GRID
        if query.public_target:
            residual = query.loss.residual(z @ theta.T, query.target)
            residual *= query.class_weight[query.target][:, None]
        else:
            residual = query.loss.target_free_residual(z @ theta.T)
        gradients = gradients - residual[:, :, None] * z[:, None, :]
    norms = np.linalg.norm(gradients.reshape(len(x), -1), axis=1)
    factor = np.minimum(1, (query.clip_norm - taken) / np.maximum(norms, 1e-300))
    return gradients * factor[:, None, None]


@pytest.mark.parametrize("least", [0.5, 1.5])  # of the class weights
@pytest.mark.parametrize(("loss", "n_classes"), CASES)
def test_sum_matches_materialised_gradients(loss, n_classes, least):
    query = make_query(loss, n_classes, class_weight=np.linspace(least, 2, n_classes))
    theta, unit = make_theta(query), query.unit(0.0)
    taken, tolerance = rounding(query, unit)
    assert tolerance < 0.004 < 0.002 * query.n_rows
    np.testing.assert_allclose(
        query.exact_sum(theta, None, unit) * unit,
        oracle(query, theta, taken).sum(axis=0),
        atol=tolerance,
    )


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_difference_matches_materialised_gradients(kind, n_classes):
    query = make_query("log_loss", n_classes, kind=kind)
    theta = make_theta(query)
    unit, taken, tolerance = query.unit(0.0), 0.0, query.n_rows * 1e-6
    if kind == "same rows":  # of rank one, hence rounded to fewer bits
        taken, tolerance = rounding(query, unit)
    np.testing.assert_allclose(
        query.exact_sum(theta, None, unit) * unit,
        oracle(query, theta, taken).sum(axis=0),
        atol=tolerance,
    )


@pytest.mark.parametrize("n_classes", [2, 3, 11])
@pytest.mark.parametrize("n", [1, 2, 63, 700])
@pytest.mark.parametrize("d", [15, 16, 40])
def test_short_and_long_rows_give_the_same_integers(n_classes, n, d, monkeypatch):
    query = make_query(n_classes=n_classes, n=n, d=d)
    theta, unit = make_theta(query), query.unit(0.3)
    batches = None, np.arange(1, n, 2)
    totals = [query.exact_sum(theta, batch, unit) for batch in batches]
    fast = [type(rows) is ShortProducts for (rows,) in query._workspaces]
    assert fast == [True]
    monkeypatch.setattr(products, "_inner_products_are_short", lambda rows: False)
    slow = dataclasses.replace(query)
    for batch, total in zip(batches, totals, strict=True):
        np.testing.assert_array_equal(slow.exact_sum(theta, batch, unit), total)
    assert type(slow._workspaces[0][0]) is DenseProducts


def test_public_gradient_matches_the_loss():
    for kind in KINDS[1:]:
        query = make_query("log_loss", 4, kind=kind)
        theta = make_theta(query)
        z = query.padded.values * GRID
        batch = np.arange(0, query.n_rows, 3)
        if query.public_target:
            target = query.target[batch]
            residual = query.loss.residual(z[batch] @ theta.T, target)
            residual *= query.class_weight[target][:, None]
        else:
            residual = query.loss.target_free_residual(z[batch] @ theta.T)
        np.testing.assert_allclose(
            query.public_gradient(theta, batch),
            residual.T @ z[batch] / len(batch),
            atol=1e-12,
        )


@pytest.mark.usefixtures("threads_for_few_rows")
@pytest.mark.parametrize("n_classes", [2, 3, 5, 7, 11])
@pytest.mark.parametrize("n", [1, 3, 4, 511, 512, 1030])
def test_permutation_threads_and_blocks_change_nothing(n_classes, n):
    query = make_query(n_classes=n_classes, n=n, d=6)
    theta, unit = make_theta(query), query.unit(3.0)
    total = query.exact_sum(theta, None, unit)
    order = np.random.default_rng(5).permutation(n)
    shuffled = dataclasses.replace(
        query,
        rows=GridRows(query.rows.values[order], query.rows.squared_norms[order]),
        target=query.target[order],
    )
    np.testing.assert_array_equal(shuffled.exact_sum(theta, None, unit), total)
    np.testing.assert_array_equal(query.exact_sum(theta, order, unit), total)
    threads = dataclasses.replace(query, n_jobs=2)
    np.testing.assert_array_equal(threads.exact_sum(theta, None, unit), total)
    parts = [query.exact_sum(theta, part, unit) for part in np.array_split(order, 5)]
    np.testing.assert_array_equal(np.sum(parts, axis=0), total)


@pytest.mark.parametrize("n", [1000, 150_000])
def test_a_second_thread_needs_many_entries(n):
    query = make_query(n=n, d=20, n_jobs=2)
    query.exact_sum(make_theta(query), None, query.unit(3.0))
    assert ("_threads" in vars(query)) == (n > 1000)


def test_a_block_of_another_size_changes_nothing(monkeypatch):
    query = make_query(n=700, kind=KINDS[-1])
    theta, unit = make_theta(query), query.unit(3.0)
    total = query.exact_sum(theta, None, unit)
    for rows_in_block in (64, 128):
        entries = rows_in_block * query.rows.n_columns
        monkeypatch.setattr(DenseProducts, "block_entries", entries)
        again = dataclasses.replace(query)
        np.testing.assert_array_equal(again.exact_sum(theta, None, unit), total)


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_cannot_touch_the_contribution_of_another(kind):
    """Changing or dropping one record moves the sum by that record alone."""
    query = make_query(kind=kind)
    theta, unit = make_theta(query), query.unit(3.0)
    alone = contributions(query, theta, unit)
    np.testing.assert_array_equal(query.exact_sum(theta, None, unit), alone.sum(axis=0))
    rng = np.random.default_rng(0)
    for _ in range(20):
        batch = np.flatnonzero(rng.random(query.n_rows) < 0.3)
        np.testing.assert_array_equal(
            query.exact_sum(theta, batch, unit), alone[batch].sum(axis=0)
        )


@settings(deadline=None, max_examples=100)
@given(
    case=st.sampled_from([*CASES, *((loss, 0) for loss in REGRESSION)]),
    kind=st.sampled_from(KINDS),
    clip_norm=st.floats(0.01, 4),
    scale=st.floats(0, 200),
    noise=st.floats(0, 1e4),
    seed=st.integers(0, 1000),
)
def test_contributions_are_bounded_in_grid_units(
    case, kind, clip_norm, scale, noise, seed
):
    """Exact integer arithmetic: |v|^2 <= (clip_norm / unit)^2 for every record."""
    loss, n_classes = case if kind == "plain" else ("log_loss", case[1] or 2)
    given = {"n": 40, "d": 5, "seed": seed, "clip_norm": clip_norm}
    if n_classes:
        query = make_query(loss, n_classes, kind=kind, **given)
    else:
        query = make_regression(loss, **given)
    theta, unit = make_theta(query, seed, scale), query.unit(noise)
    alone = contributions(query, theta, unit)
    assert max(map(square, alone)) <= (clip_norm / unit) ** 2
    np.testing.assert_array_equal(query.exact_sum(theta, None, unit), alone.sum(axis=0))


@pytest.mark.parametrize("huge", [1e30, 1e150, 1e300])
@pytest.mark.parametrize("kind", KINDS)
def test_huge_gradients_contribute_a_bounded_amount_and_warn_of_nothing(huge, kind):
    query = make_query("squared_hinge" if kind == "plain" else "log_loss", 3, kind=kind)
    theta = make_theta(query)
    theta[0, 0] = huge
    unit = query.unit(1.0)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        alone = contributions(query, theta, unit)
        total = query.exact_sum(theta, None, unit)
    norms = np.sqrt((alone.astype(float) ** 2).sum(axis=(1, 2))) * unit
    assert (norms <= query.clip_norm).all()
    np.testing.assert_array_equal(total, alone.sum(axis=0))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nothing_is_learnt_at_an_iterate_that_is_not_finite(bad):
    query = make_query()
    theta = make_theta(query)
    theta[0, 0] = bad
    assert not query.exact_sum(theta, None, query.unit(1.0)).any()


OTHER_SCALE = GridRows.build(np.zeros((203, 9)), lambda b: b, bias=0.1, scale=2.0)


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        # The norm of a difference would be wrong.
        ("padded", {"padded": OTHER_SCALE}, "must share one centre and scale"),
        ("plain", {"n_outputs": 2**15 + 1}, "n_outputs=32769 must be at most 32768"),
        # Signs of differences are not public.
        ("padded", {"orthant": True}, "orthant=True needs"),
        # One lemma is about a public target, the other one about a private one.
        ("plain", {"orthant": True, "label_bound": 0.1}, "orthant=True and label_boun"),
    ],
)
def test_what_no_lemma_covers_is_refused(kind, change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(make_query(kind=kind), **change)


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_entries_of_a_contribution_stay_short(scale):
    """`ShortProducts` adds 32 of them in int32."""
    rows = GridRows.build(np.ones((4, 2)), lambda block: block, scale=scale)
    query = make_query(rows=rows, n=4)
    for std in (0.0, 1.0):
        most = query.clip_norm / query.unit(std)
        assert most <= products.LARGEST_SHORT_PRODUCT


@pytest.mark.parametrize("orthant", [True, False])
def test_the_clamp_is_that_of_the_query(orthant):
    """A loss that fixes no sign shows whether there is one."""
    rows = GridRows.build(np.ones((4, 1)), lambda block: block)
    target, loss = np.array([1, 0, 1, 0]), loss_named("squared_error")
    offset = np.array([[2.0], [-1.0], [0.5], [3.0]])
    given = {"n_outputs": 1, "clip_norm": 100.0, "capacity": 4, "offset": offset}
    query = LinearQuery(rows, target, loss, orthant=orthant, **given)
    unit = query.unit(0.0)
    each = [query.exact_sum(np.zeros((1, 1)), np.array([i]), unit) for i in range(4)]
    found = np.ravel(each) * unit
    expected = [0.0, 0.0, -0.5, 3.0] if orthant else [1.0, -1.0, -0.5, 3.0]
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_an_iterate_that_has_diverged_contributes_nothing_and_does_not_fail():
    rows = GridRows(np.ones((203, 20), dtype=np.int16), np.full(203, 20.0), 2.0**30)
    query = dataclasses.replace(make_query(), rows=rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        total = query.exact_sum(np.full((3, 20), 1.7e308), None, query.unit(1.0))
    assert not total.any()


@pytest.mark.parametrize("kind", ["plain", "same rows", "padded"])
@pytest.mark.parametrize("capacity", [1, 10, 10**6, 10**9, 2**40, 2**60])
def test_units_leave_room_for_the_declared_records_and_for_noise(kind, capacity):
    query = make_query(kind=kind, n=10, capacity=capacity)
    for noise in (0.0, 1e-3, 1.0, 3.0, 1e4, 1e9, 1e15):
        unit = query.unit(noise)
        assert math.frexp(unit)[0] == 0.5  # a power of two: scaling is exact
        assert capacity * query.clip_norm / unit <= 2.0**62 * (1 + 1e-9)
        assert noise / unit <= 2.0**34


VALUES = dict.fromkeys(("poisson", "gamma", "tweedie"), (0, 6))


def make_regression(loss, n=203, d=6, seed=0, **more):
    rng = np.random.default_rng(seed)
    return dataclasses.replace(
        make_query(n_classes=2, n=n, d=d, seed=seed, **more),
        loss=loss_named(loss),
        target=rng.uniform(*VALUES.get(loss, (-3, 3)), n),
        class_weight=None,
    )


DERIVED = [(loss, n) for loss in CLASSIFICATION for n in (2, 3)]


@pytest.mark.parametrize(
    ("loss", "n_classes"), [*DERIVED, *((loss, 0) for loss in REGRESSION)]
)
def test_residuals_are_derivatives_of_the_values(loss, n_classes):
    rng, name, loss = np.random.default_rng(3), loss, loss_named(loss)
    n_outputs, step = n_classes if n_classes > 2 else 1, 1e-6
    margins = rng.normal(size=(201, n_outputs)) * 2
    target = rng.integers(0, max(1, n_classes), 201)
    if not n_classes:
        target, margins[-2:] = rng.uniform(*VALUES.get(name, (-3, 3)), 201), 31.0
        margins[-1] = -31.0
    residual, reach = loss.residual(margins, target), loss.max_residual(n_classes)
    for k, nudge in enumerate(step * np.eye(n_outputs)):
        ends = (loss.value(margins + sign * nudge, target) for sign in (1, -1))
        slope = np.subtract(*ends) / (2 * step)
        np.testing.assert_allclose(residual[:, k], slope, rtol=1e-4, atol=1e-5)
    norms = np.linalg.norm(residual, axis=1)
    assert (norms <= reach + 1e-12).all()
    if name == "log_loss":  # no label of a row has a longer residual
        longest = np.linalg.norm(loss.largest_residual(margins), axis=1)
        assert (norms <= longest + 1e-12).all() and (longest <= reach + 1e-12).all()


def test_a_wide_huber_loss_is_the_squared_error_and_margins_of_counts_are_capped():
    margins, target = np.array([[-4.0], [0.5], [9.0]]), np.array([1.0, 2.0, 3.0])
    wide, squared = loss_named("huber", math.inf), loss_named("squared_error")
    np.testing.assert_array_equal(
        wide.residual(margins, target), squared.residual(margins, target)
    )
    np.testing.assert_array_equal(
        wide.value(margins, target), squared.value(margins, target)
    )
    poisson = loss_named("poisson")
    assert np.isfinite(poisson.residual(np.full((3, 1), 1e4), target)).all()


@pytest.mark.parametrize("name", [*CLASSIFICATION, *REGRESSION])
def test_only_classification_losses_have_residuals_of_a_fixed_sign(name):
    loss = loss_named(name)
    assert loss.name == name
    rng = np.random.default_rng(0)
    margins = 3 * rng.normal(size=(500, 1))
    of_classes = loss.name in CLASSIFICATION
    signs = [
        np.sign(loss.residual(margins, np.full(500, value))).ravel()
        for value in ((0, 1) if of_classes else (0.0, 1.0))
    ]
    fixed = (signs[0] >= 0).all() and (signs[1] <= 0).all()
    # a count of 0 pulls down always, but a count of 1 does not always pull up
    assert loss.sign_fixed == fixed == of_classes


def test_a_residual_that_needs_a_target_is_not_averaged():
    with pytest.raises(ValueError, match="hinge needs a target"):
        loss_named("hinge").target_free_residual(np.zeros((2, 1)))


def test_target_free_residual_is_the_mean_over_labels():
    margins = np.random.default_rng(0).normal(size=(20, 4))
    loss = loss_named("log_loss")
    mean = np.mean([loss.residual(margins, np.full(20, k)) for k in range(4)], axis=0)
    np.testing.assert_allclose(loss.target_free_residual(margins), mean, atol=1e-12)
