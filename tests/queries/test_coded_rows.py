"""Coded rows: equal to the same integers in a dense matrix, in every use."""

import dataclasses
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from skfdp import DeclaredEncoder, FeatureDPLogisticRegression, TableSchema, solvers
from skfdp.audit import audit_replay
from skfdp.data._basis import Smoothing
from skfdp.data.codes import CODE_UNIT, ONE, CodedGridRows
from skfdp.data.encoder import Encoding
from skfdp.data.units import Units
from skfdp.kernels.losses import loss_named
from skfdp.queries.linear import LinearQuery
from skfdp.queries.products import CodedProducts, products
from skfdp.queries.statistics import GridRowSum
from skfdp.schema import Category, Date, Label, Number
from skfdp.solvers.interactions import ProductsOfShapes

N_ROWS = 700


def frame(n_rows=N_ROWS, seed=0):
    """Numbers inside and outside of their bounds, dates, categories, missing cells."""
    rng = np.random.default_rng(seed)
    found = pd.DataFrame(
        {
            "age": rng.uniform(15, 95, n_rows),
            "hour": rng.uniform(-2, 26, n_rows),
            "line": rng.normal(size=n_rows),
            "code": rng.integers(0, 9, n_rows).astype(str),
            "day": np.datetime64("2020-01-01")
            + rng.integers(0, 900, n_rows).astype("m8[D]"),
        }
    )
    for column in found:
        found.loc[rng.random(n_rows) < 0.1, column] = None
    return found


SCHEMA = TableSchema(
    {
        "age": Number(17, 90, knots=7),
        "hour": Number(0, 24, knots=5, cyclic=True),
        "line": Number(-2, 2, basis="linear"),
        "code": Category([str(k) for k in range(8)]),
        "day": Date("2020-01-01", "2021-12-31", knots=4),
    }
)


def encoded(X, signal=None):
    """Return the source of encoded rows: with products, or of smooth terms."""
    encoder = DeclaredEncoder(SCHEMA).fit(X)
    source = encoder.coded(SCHEMA.select(X, coded=True)).source
    if signal == "products":
        encoding = Encoding(encoder, np.zeros(len(SCHEMA.features), bool))
        return source.wider(ProductsOfShapes.of_independent(encoding, None))
    if signal is None:
        return source
    return source.smooth(Smoothing(encoder.blocks_, signal, len(X)))


def matrix(rows):
    """Return the integers x of coded rows, from the definition in the module."""
    n_levels = rows.levels.shape[0]
    n_numbers = (rows.codes.shape[1] - rows.n_categories) // 2
    weights = np.zeros((rows.n_rows, n_levels), dtype=np.int64)
    for i, code in enumerate(rows.codes.astype(int).tolist()):
        places, upper = code[: len(code) - n_numbers], code[len(code) - n_numbers :]
        for place in places[: rows.n_categories]:
            weights[i, place] += 1
        for place, part in zip(places[rows.n_categories :], upper, strict=True):
            weights[i, place] += ONE - part
            if part:
                weights[i, place + 1] += part
    found = weights @ rows.levels.toarray() - rows.shift
    found[:, rows.dense] += rows.step * rows.beside.values.astype(np.int64)
    return found


def moved(source, bias=0.1):
    """Return coded rows that are centred, scaled, and have a constant column."""
    rows = source.integers()
    mean = np.random.default_rng(1).normal(size=rows.n_columns) / 9
    return rows.moved(mean, bias, 0.5, 1.7)


@pytest.mark.parametrize("signal", [None, 3.0, 300.0, math.inf])
def test_integers_are_the_encoded_rows(signal):
    source = encoded(frame(), signal)
    rows = source.integers()
    wanted = source[slice(0, N_ROWS)]
    found = matrix(rows) * CODE_UNIT
    # Half a unit of a level, and half a unit of the weight between two levels.
    apart = np.abs(np.diff(rows.levels.toarray()[:-1], axis=0)).max(axis=0)
    bound = CODE_UNIT * (ONE / 2 + np.minimum(apart, 1 / CODE_UNIT / ONE) / 2)
    assert (np.abs(found - wanted) <= bound).all()
    of_categories = wanted[:, source.integers().levels.max(axis=0).toarray() > 2**11]
    assert set(np.unique(of_categories)) == {0.0, 1.0}


def test_linear_columns_keep_fine_steps():
    X = pd.DataFrame({"a": np.linspace(0, 1, 9973)})
    schema = TableSchema({"a": Number(0, 1, basis="linear")})
    encoder = DeclaredEncoder(schema).fit(X)
    source = encoder.coded(schema.select(X, coded=True)).source
    error = matrix(source.integers())[:, 0] * CODE_UNIT - X["a"].to_numpy()
    assert np.abs(error).max() <= 2.0**-15


@pytest.mark.parametrize("signal", [None, 30.0])
def test_part_has_the_columns_of_its_blocks(signal):
    source = encoded(frame(), signal)
    n_blocks, sizes = len(source.blocks), [len(one.levels) for one in source.blocks]
    if signal is not None:
        own = Smoothing(source.blocks, signal, N_ROWS).block
        sizes = np.bincount(own, minlength=n_blocks)
    blocks = np.arange(n_blocks) % 2 == 1
    columns = np.repeat(blocks, sizes)
    found = matrix(source.part(blocks, columns).integers())
    np.testing.assert_array_equal(found, matrix(source.integers())[:, columns])


def test_factors_multiply_columns():
    source = encoded(frame(), 30.0)
    factors = np.random.default_rng(4).uniform(0.2, 1, source.shape[1])
    wanted, found = matrix(source.integers()), matrix(source.integers(factors))
    # Both round the level of a knot, in units of 2**9, and there are two knots.
    assert np.abs(found - wanted * factors).max() <= ONE


@pytest.mark.parametrize("signal", [None, 30.0, "products"])
def test_squared_norms_are_exact(signal):
    for rows in (encoded(frame(), signal).integers(), moved(encoded(frame(), signal))):
        wanted = [sum(x * x for x in row) for row in matrix(rows).tolist()]
        assert max(wanted) < 2**53 and rows.squared_norms.tolist() == wanted


@pytest.mark.parametrize("n_outputs", [1, 3, 7])
@pytest.mark.parametrize("signal", [None, 30.0, "products"])
def test_margins_and_sums_are_those_of_a_matrix(signal, n_outputs):
    rows = moved(encoded(frame(), signal))
    x, rng = matrix(rows).astype(object), np.random.default_rng(2)
    theta = rng.normal(size=(n_outputs, rows.n_columns))
    work = products(rows, n_outputs)
    assert isinstance(work, CodedProducts)
    work.start(theta)
    weights, own = work._theta.astype(object), work._beside
    values = rows.beside.values.astype(object)
    coded = x.copy()
    coded[:, rows.dense] -= rows.step * values
    values = own._theta[:, : values.shape[1]].astype(object) @ values.T
    parts = rng.permutation(N_ROWS), np.arange(5, 90), np.empty(0, np.int64)
    wanted = np.zeros(work.total().shape, dtype=object)
    for part in parts:
        margins = np.empty((n_outputs, len(part)))
        work.margins(part, margins)
        inner = (weights @ coded[part].T).astype(float) * work._factor
        inner += values[:, part].astype(float) * own._factor
        np.testing.assert_array_equal(margins, inner)
        residuals = rng.integers(1 - 2**15, 2**15, margins.shape).astype(float)
        work.add(part, residuals)
        wanted += residuals.astype(int).astype(object) @ x[part]
    np.testing.assert_array_equal(work.total(), wanted.astype(np.int64))
    exact = x[:40] @ weights.T
    np.testing.assert_array_equal(rows.products(np.arange(40), work._theta), exact)


def test_terms_may_wrap_around_but_the_sum_does_not():
    """The largest tables: sums over levels exceed int64, the sum of rows does not."""
    rows = moved(encoded(frame(), 30.0))
    rng = np.random.default_rng(0)
    sums = rng.integers(-(2**62), 2**62, (2, rows.levels.shape[0]))
    total = rng.integers(-(2**62), 2**62, 2)
    wanted = sums.astype(object) @ rows.levels.toarray().astype(object)
    wanted = wanted - np.outer(total.astype(object), rows.shift.astype(object))
    assert max(abs(entry) for entry in wanted.ravel()) > 2**70
    wrapped = (wanted + 2**63) % 2**64 - 2**63
    np.testing.assert_array_equal(rows.of_levels(sums, total), wrapped.astype(np.int64))


def query_of(rows, n_outputs=1, **settings):
    """Return the gradient of the log loss on coded rows."""
    n_classes = max(2, n_outputs)
    target = np.random.default_rng(3).integers(0, n_classes, rows.n_rows)
    given = {"clip_norm": 0.4, "capacity": 2**20} | settings
    return LinearQuery(rows, target, loss_named("log_loss"), n_outputs, **given)


@pytest.mark.usefixtures("threads_for_few_rows")
@pytest.mark.parametrize("n_outputs", [1, 4])
@pytest.mark.parametrize("signal", [30.0, "products"])
def test_threads_and_batches_change_no_weighted_sum(signal, n_outputs):
    """``tests/test_reference.py`` has the sums themselves."""
    X, rng = frame(1500), np.random.default_rng(5)
    units = Units(rng.integers(0, 1025, len(X)))
    query = query_of(moved(encoded(X, signal)), n_outputs, units=units, n_jobs=2)
    theta, unit = rng.normal(size=query.shape), query.unit(300.0)
    alone = dataclasses.replace(query, n_jobs=1)
    for batch in (None, np.flatnonzero(rng.random(len(X)) < 0.6)):
        sums = [one.exact_sum(theta, batch, unit) for one in (query, alone)]
        np.testing.assert_array_equal(*sums)
    parts = [query.exact_sum(theta, np.array([i]), unit) for i in range(200)]
    total = query.exact_sum(theta, np.arange(200), unit)
    np.testing.assert_array_equal(total, sum(parts))


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("noise_std", [0.0, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("signal", [30.0, "products"])
def test_a_contribution_is_never_longer_than_the_clip_norm(
    signal, noise_std, n_outputs
):
    rows = moved(encoded(frame(100), signal))
    query = query_of(rows, n_outputs)
    unit = query.unit(noise_std)
    for size in (0.0, 1.0, 1e6, 1e300):
        theta = size * np.random.default_rng(4).normal(size=query.shape)
        for i in range(100):
            integers = query.exact_sum(theta, np.array([i]), unit).ravel().tolist()
            squares = sum(entry**2 for entry in integers)
            assert squares <= (query.clip_norm / unit) ** 2


def test_a_copy_of_a_used_query_holds_no_address():
    query = query_of(moved(encoded(frame(50), 30.0)))
    given = np.ones(query.shape), None, 2.0**-20
    found = query.exact_sum(*given)
    copied = pickle.loads(pickle.dumps(query))
    assert query._clips and not copied._clips
    np.testing.assert_array_equal(copied.exact_sum(*given), found)


def test_levels_of_bounded_rows_are_not_negative():
    rows = encoded(frame(), 30.0).integers()
    assert rows.levels.data.min() < 0
    shifted = encoded(frame()).integers().moved(np.ones(33), None, 1.0, 1.0)
    for wrong in (rows, shifted):
        with pytest.raises(ValueError, match="levels that are not negative, and no sh"):
            GridRowSum(wrong, 1.0, N_ROWS, nonnegative=True)
    GridRowSum(encoded(frame()).integers(), 1.0, N_ROWS, nonnegative=True)


def test_far_centres_stay_in_the_range_of_the_integers():
    rows = encoded(frame(20)).integers()
    for size in (1e9, 1e300, np.inf, np.nan):
        far = rows.moved(np.full(rows.n_columns, size), 0.1, 0.5, 1e-3)
        wanted = [sum(x * x for x in row) for row in matrix(far).tolist()]
        np.testing.assert_allclose(far.squared_norms, wanted, rtol=1e-15)
    for width in (1, 4096, 20_000):
        levels = csr_array((np.ones(1), ([0], [0])), shape=(1, width))
        every = CodedGridRows.build([(levels, np.zeros(9, int))], [], 9, width)
        far = every.moved(np.full(width, -np.inf), 0.1, 1.0, 1.0)
        x = far.levels[[0]].toarray()[0] - far.shift
        square = sum(entry**2 for entry in x.tolist())
        np.testing.assert_allclose(far.squared_norms, square, rtol=1e-15)


def table_and_model(public_label=False, public=(), **settings):
    X = frame(3000)
    y = (np.nan_to_num(X["age"].to_numpy()) > 50).astype(int)
    X["code2"] = X["code"]
    schema = TableSchema(
        {
            "age": Number(17, 90, public="age" in public),
            "hour": Number(0, 24, cyclic=True, public="hour" in public),
            "code": Category([str(k) for k in range(30)], public="code" in public),
            "code2": Category([str(k) for k in range(30)]),
            "y": Label([0, 1], public=public_label),
        },
        outcomes=["y"],
    )
    given = {"schema": schema, "epsilon": 3.0, "delta": 1e-5, "random_state": 0}
    return X, y, FeatureDPLogisticRegression(**(given | settings))


def coded_fits(monkeypatch, X, y, model, **given):
    """Fit, and return the model and the kinds of rows of its steps."""
    kinds, original = [], LinearQuery.exact_sum

    def spied(query, *arguments):
        kinds.append(type(query.rows))
        return original(query, *arguments)

    monkeypatch.setattr(LinearQuery, "exact_sum", spied)
    return model.fit(X, y, **given), set(kinds)


DENSE = {
    "rows that are cut": {"centering": solvers.AdaptiveCentering(clip_features=True)},
    "rows of a public loss": {"public_label": True, "solver": solvers.FeatureDPSGD()},
    "persons with several rows": {},
}


@pytest.mark.parametrize("name", DENSE)
def test_what_codes_cannot_do_is_dense(monkeypatch, name):
    X, y, model = table_and_model(**DENSE[name])
    of_rows = {} if DENSE[name] else {"groups": np.arange(3000) // 2}
    kinds = coded_fits(monkeypatch, X, y, model, **of_rows)[1]
    assert kinds.isdisjoint({CodedGridRows})


@pytest.mark.parametrize("public", [("age", "code")])
def test_neighbours_move_a_release_by_its_sensitivity(monkeypatch, public):
    """Private cells of one record: random, extreme, missing and unknown ones."""
    solver = solvers.NoisyGradientDescent(max_iter=2)
    X, y, model = table_and_model(public=public, solver=solver, random_state=None)
    X, y = X[:300], y[:300]
    assert coded_fits(monkeypatch, X, y, model)[1] == {CodedGridRows}
    result = audit_replay(model, X, y, n_neighbors=12)
    assert result.passed, str(result)
    assert 0.05 < max(one.largest for one in result.releases) <= 1 + 1e-9


def test_the_choice_depends_on_declarations_alone():
    """No value of a cell changes the representation of the rows."""
    X = frame(40)
    tables = X, *(X.assign(**{column: None}) for column in X)
    assert len({encoded(table, 30.0).saves(1) for table in tables}) == 1


def test_codes_are_for_many_columns_and_few_outputs_of_dense_tables():
    X = pd.DataFrame({"code": ["3", "4"]})
    for size, n_outputs, saves in ((10, 1, True), (10, 5, False), (4100, 1, False)):
        schema = TableSchema({"code": Category([str(k) for k in range(size)])})
        encoder = DeclaredEncoder(schema).fit(X)
        source = encoder.coded(schema.select(X, coded=True)).source
        assert source.saves(n_outputs) == saves
    assert not encoded(frame(), 0.1).saves(1)
