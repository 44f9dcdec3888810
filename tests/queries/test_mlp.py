"""The network query: oracle, exactness, bounded contributions, equal backends."""

import dataclasses
import importlib.util
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit, softmax

from skfdp.data.grid import GRID, GridRows
from skfdp.privacy import RELATIONS, Relation
from skfdp.queries.network import Layer, MLPQuery, precision, scaled_rows

needs_torch = pytest.mark.extra("torch")


HAS_TORCH = importlib.util.find_spec("torch") is not None
HAS_CUDA = HAS_TORCH and importlib.import_module("torch").cuda.is_available()
needs_cuda = pytest.mark.skipif(not HAS_CUDA, reason="torch has no CUDA device")
TORCH = [
    pytest.param({"backend": "torch"}, marks=needs_torch, id="torch"),
    pytest.param({"backend": "torch", "device": "cuda"}, marks=needs_cuda, id="cuda"),
]
BACKENDS = [pytest.param({"backend": "numpy"}, id="numpy"), *TORCH]
KINDS = ["plain", "padded", "padded, public target", "same rows"]
HIDDEN = [(), (5,), (6, 4)]
DTYPES = ("float32", "float64")


def make_query(
    hidden=(5,), n_classes=3, n=83, d=9, seed=0, kind="plain", dtype="float64", **more
):
    rng = np.random.default_rng(seed)
    p = precision(dtype, d)

    def rows():
        grid = GridRows.build(
            rng.normal(size=(n, d)) / math.sqrt(d), lambda b: b, bias=0.25
        )
        return scaled_rows(grid, 4.0, p.activation)

    full = rows()
    padded = rows() if "padded" in kind else {"same rows": full}.get(kind)
    parameters = {
        "rows": full,
        "target": rng.integers(0, n_classes, n),
        "widths": (d + 1, *hidden, 1 if n_classes == 2 else n_classes),
        "clip_norm": 0.5,
        "capacity": n,
        "class_weight": np.linspace(0.5, 2, n_classes),
        "precision": p,
        "padded": padded,
        "public_target": kind == "padded, public target",
        **more,
    }
    return MLPQuery(**parameters)


def make_theta(query, seed=1, scale=1.0):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=s) / math.sqrt(s[1]) for s in query.shapes]
    return scale * np.concatenate([part.ravel() for part in parts])


def contributions(query, theta, unit):
    """Integer contribution of each record alone."""
    return np.stack(
        [query.exact_sum(theta, np.array([i]), unit) for i in range(query.n_rows)]
    )


def gradients(query, theta, rows, with_target=True):
    """Materialised per-example gradients by plain float64 back-propagation."""
    matrices, inputs = query.split(theta), [rows[0] * rows[1][:, None]]
    for matrix in matrices[:-1]:
        hidden = np.maximum(inputs[-1] @ matrix.T, 0)
        inputs.append(np.column_stack([hidden, np.ones(len(hidden))]))
    margins = inputs[-1] @ matrices[-1].T
    n_outputs = margins.shape[1]
    chance = expit(margins) if n_outputs == 1 else softmax(margins, axis=1)
    if not with_target:
        error = chance - (0.5 if n_outputs == 1 else 1 / n_outputs)
    else:
        label = query.target[:, None] if n_outputs == 1 else np.eye(n_outputs)
        error = chance - (label if n_outputs == 1 else label[query.target])
        error *= query.class_weight[query.target][:, None]
    found = []
    for number in reversed(range(len(matrices))):
        found.append(error[:, :, None] * inputs[number][:, None, :])
        if number:
            error = (error @ matrices[number][:, :-1]) * (inputs[number][:, :-1] > 0)
    return np.hstack([g.reshape(query.n_rows, -1) for g in found[::-1]])


def oracle(query, theta):
    """Materialised, subtracted and clipped, in float64."""
    found = gradients(query, theta, query.rows)
    if query.padded is not None:
        found = found - gradients(query, theta, query.padded, query.public_target)
    norms = np.linalg.norm(found, axis=1)
    return found * np.minimum(1, query.clip_norm / np.maximum(norms, 1e-300))[:, None]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("hidden", "n_classes"), [((), 4), ((5,), 2), ((6, 4), 4)])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 2e-4), ("float32", 0.02)])
def test_contributions_match_materialised_gradients(
    backend, kind, hidden, n_classes, dtype, tolerance
):
    query = make_query(hidden, n_classes, kind=kind, dtype=dtype, **backend)
    theta, unit = make_theta(query), query.unit(0.0)
    alone = contributions(query, theta, unit) * unit
    expected = oracle(query, theta)
    assert (np.linalg.norm(expected, axis=1) > 0.05 * query.clip_norm).any()
    errors = np.linalg.norm(alone - expected, axis=1) / query.clip_norm
    if kind != "plain":  # what truncation might add is taken off the clip norm
        tolerance += 1e-3
    # a neuron at the edge of the ReLU may switch when it is rounded
    assert np.quantile(errors, 0.9) < tolerance


def factors(query, theta, part):
    """The query's own factors as float64 arrays: (errors, inputs) of each layer."""
    weights = query._weights(theta)
    sides = [query._pass(weights, part, public=False)]
    if query.padded is not None:
        sides.append(query._pass(weights, part, public=True))
    return sides


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("hidden", HIDDEN)
def test_closed_form_norms_match_materialised_ones_to_ten_digits(
    backend, kind, dtype, hidden
):
    query = make_query(hidden, 4, n=50, kind=kind, dtype=dtype, **backend)
    theta, part = make_theta(query), np.arange(50)
    sides = factors(query, theta, part)

    def materialised(layer):
        parts = (layer.scale, layer.errors, layer.inputs)
        parts = [np.asarray(f.cpu() if hasattr(f, "cpu") else f, float) for f in parts]
        return np.einsum("i,ik,ij->ikj", *parts).reshape(50, -1)

    whole = [np.hstack([*map(materialised, layers)]) for layers in sides]
    norms = np.linalg.norm(whole[0] - sum(whole[1:]), axis=1)
    with np.errstate(all="ignore"):
        unit = 1e-30  # no slack for truncation, no saturation
        coarse = query.precision._replace(activation=-900)
        wide = dataclasses.replace(query, clip_norm=1e-3, precision=coarse)
        factor = wide._clip_factor(*(sides if sides[1:] else (sides[0], ())), unit)
    expected = np.minimum(1, wide.clip_norm / np.maximum(norms, 1e-300))
    if query.padded is None:
        np.testing.assert_allclose(factor, expected, rtol=1e-8)
    else:  # widened by 1e-9 of the terms before the subtraction
        assert (factor <= expected * (1 + 1e-10)).all()
        np.testing.assert_allclose(factor, expected, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("hidden", HIDDEN)
def test_permutation_threads_and_blocks_change_nothing(
    kind, dtype, hidden, monkeypatch
):
    query = make_query(hidden, n=1100, d=6, kind=kind, dtype=dtype)
    theta, unit = make_theta(query), query.unit(3.0)
    total = query.exact_sum(theta, None, unit)
    assert total.any()
    order = np.random.default_rng(5).permutation(query.n_rows)
    np.testing.assert_array_equal(query.exact_sum(theta, order, unit), total)
    threads = dataclasses.replace(query, n_jobs=2)
    np.testing.assert_array_equal(threads.exact_sum(theta, None, unit), total)
    parts = [query.exact_sum(theta, part, unit) for part in np.array_split(order, 5)]
    np.testing.assert_array_equal(np.sum(parts, axis=0), total)
    monkeypatch.setattr("skfdp.queries.network._RUN", 37)
    np.testing.assert_array_equal(query.exact_sum(theta, None, unit), total)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_record_cannot_touch_the_contribution_of_another(backend, kind, dtype):
    query = make_query((40, 30), n=40, kind=kind, dtype=dtype, **backend)
    theta, unit = make_theta(query), query.unit(3.0)
    alone = contributions(query, theta, unit)
    np.testing.assert_array_equal(query.exact_sum(theta, None, unit), alone.sum(axis=0))
    rng = np.random.default_rng(0)
    for _ in range(10):
        batch = np.flatnonzero(rng.random(query.n_rows) < 0.3)
        np.testing.assert_array_equal(
            query.exact_sum(theta, batch, unit), alone[batch].sum(axis=0)
        )


@settings(deadline=None, max_examples=25)
@given(
    hidden=st.sampled_from(HIDDEN),
    n_classes=st.sampled_from([2, 3, 7]),
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from(DTYPES),
    clip_norm=st.floats(0.01, 3),
    scale=st.floats(0, 50),
    noise=st.floats(0, 1e4),
    seed=st.integers(0, 1000),
)
def test_contributions_are_bounded_in_grid_units(
    hidden, n_classes, kind, dtype, clip_norm, scale, noise, seed
):
    """Exact integer arithmetic: |v|^2 <= (clip_norm / unit)^2 for every record."""
    query = make_query(hidden, n_classes, 30, 5, seed, kind, dtype, clip_norm=clip_norm)
    theta, unit = make_theta(query, seed, scale), query.unit(noise)
    bound = (clip_norm / unit) ** 2
    for v in contributions(query, theta, unit):
        assert sum(int(entry) ** 2 for entry in v.tolist()) <= bound


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("huge", [1e99, 1e308])
@pytest.mark.parametrize("kind", KINDS)
def test_huge_weights_give_bounded_contributions_and_no_warning(huge, kind, backend):
    query = make_query((6, 4), kind=kind, n=30, **backend)
    for place in (0, -1):
        theta = make_theta(query)
        theta[place] = huge
        unit = query.unit(1.0)
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("error")
            alone = contributions(query, theta, unit)
            total = query.exact_sum(theta, None, unit)
        assert (np.linalg.norm(alone * unit, axis=1) <= query.clip_norm).all()
        np.testing.assert_array_equal(total, alone.sum(axis=0))


def test_both_sides_of_a_difference_saturate_together():
    """Two long gradients whose difference is short: both are beyond their integers."""
    p, weight = precision("float64", 1), 2e3
    rows, padded = (
        scaled_rows(GridRows.build(x, lambda block: block), 1.0, p.activation)
        for x in (np.array([[0.99]]), np.array([[0.5]]))
    )
    long, short = (values * scale for values, scale in (rows, padded))

    def apart(weight):
        error = expit(np.array([long * weight, short * weight]).ravel()) - 1
        return float(error[0] * long[0, 0] - error[1] * short[0, 0])

    theta = np.array([brentq(apart, 0.1, 10.0, xtol=1e-15)])
    given = {"rows": rows, "padded": padded, "target": np.array([1]), "capacity": 1}
    given |= {"class_weight": np.full(2, weight)}
    given |= {"widths": (1, 1), "clip_norm": 0.5, "precision": p}
    query = MLPQuery(public_target=True, **given)
    unit, side = query.unit(0.0), gradients(query, theta, rows)
    largest = unit * 2.0**p.residual * np.abs(padded[0]).max()
    assert np.abs(side).max() > 0.6 * largest > 30 * query.clip_norm
    assert np.abs(query.exact_sum(theta, None, unit)).max() * unit <= query.clip_norm
    assert not query.exact_sum(0 * theta, None, 2.0**-16).any()  # truncation: over 0.5


def test_a_record_whose_norm_is_no_number_contributes_nothing():
    query = make_query((), n=2)
    errors, inputs = np.ones((2, 3)), np.ones((2, 10))
    squares = np.full(2, 10.0)
    # A layer whose errors are 0 at an infinite scale, beside one that is long.
    lost = Layer(inputs, 0 * errors, np.array([np.inf, 1.0]), squares)
    with np.errstate(all="ignore"):
        factor = query._clip_factor(
            [lost, Layer(inputs, errors, squares, squares)], (), 2.0**-20
        )
    assert factor[0] == 0 < factor[1] < 0.5


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308])
def test_iterates_that_are_not_finite_and_empty_batches_sum_to_zero(bad):
    query = make_query()
    theta = make_theta(query)
    assert not query.exact_sum(theta, np.arange(0), 2.0**-20).any()
    theta[0] = bad
    assert not query.exact_sum(theta, None, query.unit(1.0)).any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_products_stay_within_the_mantissa(dtype, scale):
    """No partial sum of a product, in any order, can exceed what the dtype holds."""
    query = make_query((40, 30), d=90, dtype=dtype)
    p = query.precision
    for layer in query._weights(make_theta(query, scale=scale)):
        forward = np.abs(np.asarray(layer.forward, dtype=np.float64)).sum(axis=0)
        assert (forward <= 2.0 ** (p.mantissa - p.activation)).all()
        assert forward.max() > 2.0 ** (p.mantissa - p.activation - 2)
        backward = np.abs(np.asarray(layer.backward, dtype=np.float64)).sum(axis=0)
        assert (backward <= 2.0 ** (p.mantissa - p.error)).all()
    for layers in factors(query, make_theta(query), np.arange(80)):
        for layer in layers:
            assert np.abs(layer.inputs).max() <= 2**p.activation
            assert np.abs(layer.errors).max() <= 2**20


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("backend", BACKENDS)
def test_public_gradient_matches_the_loss(kind, backend):
    query = make_query((6, 4), 4, kind=kind, **backend)
    theta, batch = make_theta(query), np.arange(0, query.n_rows, 3)
    expected = gradients(query, theta, query.padded, query.public_target)[batch]
    np.testing.assert_allclose(
        query.public_gradient(theta, batch), expected.mean(axis=0), atol=1e-4
    )


@pytest.mark.parametrize("noise", [0.0, 1e-3, 1.0, 1e4, 1e9, 1e15])
@pytest.mark.parametrize("capacity", [10, 10**6, 10**9])
@pytest.mark.parametrize("dtype", DTYPES)
def test_units_leave_room_for_sum_and_noise(noise, capacity, dtype):
    query = make_query(n=10, capacity=capacity, dtype=dtype)
    unit = query.unit(noise)
    assert math.frexp(unit)[0] == 0.5  # a power of two: scaling is exact
    assert capacity * query.clip_norm / unit <= 2.0**62 and noise / unit <= 2.0**34


def test_rows_keep_what_their_bits_hold():
    X = np.random.default_rng(0).normal(size=(600, 7)) / 4
    X[3] = 0
    grid = GridRows.build(X, lambda block: block, bias=0.1)
    for bits in (9, 15):
        values, scale = scaled_rows(grid, 3.0, bits)
        assert (np.abs(values).max(axis=1) > 2 ** (bits - 1) - 1).all()
        assert np.abs(values).max() <= 2**bits
        difference = values * scale[:, None] - grid.values * (3 * GRID)
        assert (np.abs(difference) <= scale[:, None] / 2).all()


def test_wide_layers_fall_back_to_float64():
    assert precision("FLOAT32".lower(), 4096).dtype == "float32"  # no literal
    assert precision("float32", 4097).dtype == "float64"
    query = make_query((4096,), n=3)
    query._ops.n_blocks = 16  # as on a GPU: the rows of a part are fewer
    assert [len(part) for part in query._parts(np.arange(5000))] == [4096, 904]


@pytest.mark.parametrize("backend", TORCH)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("hidden", [(), (30, 20)])
def test_backends_agree_to_the_last_bit(backend, kind, dtype, hidden):
    query = make_query(hidden, 7, n=2500, kind=kind, dtype=dtype)
    other = dataclasses.replace(query, **backend)
    other._ops.n_blocks = 2  # which are computed at once
    for scale in (0.1, 10.0):
        theta, unit = make_theta(query, scale=scale), query.unit(3.0)
        np.testing.assert_array_equal(
            query.exact_sum(theta, None, unit), other.exact_sum(theta, None, unit)
        )
    bad = other._ops.place(np.array([[0.0], [np.inf], [np.nan]]))
    assert not other._ops.integers(bad, 20)[1].any()


@pytest.mark.parametrize("backend", TORCH)
def test_sums_of_many_rows_are_exact(backend):
    """Beyond 1024 rows of such products, float64 would round."""
    ends = np.random.default_rng(0).integers(99, size=(2, 3000, 3))
    inputs, errors = 2**15 - 1 - ends[0], 2**28 - 1 - ends[1]
    exact = inputs.astype(object).T @ errors.astype(object)
    assert (inputs.astype(float).T @ errors.astype(float) != exact).any()
    ops = make_query(**backend)._ops
    given = [ops.place(a.astype(np.float64)) for a in (inputs, errors)]
    assert (ops.exact_sum(*given, 1024) == exact).all()


@needs_torch
def test_torch_refuses_what_would_be_inexact():
    import torch

    from skfdp.queries.torch import check_device

    check_device(None)
    with pytest.raises(ValueError, match="device='nowhere' must be a torch device"):
        check_device("nowhere")
    torch.set_float32_matmul_precision("high")
    with pytest.raises(ValueError, match="call torch.set_float32_matmul_prec"):
        check_device("cpu")
    torch.set_float32_matmul_precision("highest")
    with torch.autocast("cpu"), pytest.raises(ValueError, match="autocast is on"):
        check_device("cpu")


# -- how far neighbours move the sum -------------------------------------------------
@pytest.mark.parametrize("relation", [*map(Relation.of, RELATIONS)])
def test_neighbours_move_the_sum_by_at_most_its_sensitivity(relation):
    """Nulled records, and records replaced by those of the other class."""
    query = make_query(hidden=(), n_classes=2)
    other = dataclasses.replace(query, target=1 - query.target)
    theta, unit = np.zeros(query.shape), query.unit(1.0)
    one, two = (contributions(q, theta, unit) for q in (query, other))
    moved = (one - two if relation.replaces else one).tolist()
    largest = max(math.sqrt(sum(v**2 for v in row)) for row in moved) * unit
    bound = query.sensitivity(relation)
    assert 0.99 * bound < largest <= bound
