"""Fits on tables that are larger than memory give what fits in memory give."""

import numpy as np
import pytest
import sklearn

from skfdp import (
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    PrivacyLedger,
    open_table,
)
from skfdp.data import sources as files
from skfdp.data.arrays import blanked
from skfdp.data.sources import RowFile, in_memory
from skfdp.solvers import FeatureDPSGD, NoisyGradientDescent, NoisySGD

N, D = 3000, 20
SOME = slice(5, 12)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Return (X, y) in memory, and X in a file."""
    rng = np.random.default_rng(0)
    X = rng.random((N, D)).astype(np.float32)
    y = (X @ rng.normal(size=D) > 0).astype(int)
    path = tmp_path_factory.mktemp("large") / "X.npy"
    np.save(path, X)
    return X, y, np.load(path, mmap_mode="r")


@pytest.fixture
def files_made(monkeypatch):
    """Count the files of integer rows."""
    made, begin = [], RowFile.__init__

    def counted(self, n_columns):
        made.append(n_columns)
        begin(self, n_columns)

    monkeypatch.setattr(RowFile, "__init__", counted)
    return made


STEPS = NoisyGradientDescent(max_iter=4)
SEEDED = {"bounds": (0, 1), "random_state": 0}
PUBLIC = {**SEEDED, "public_features": SOME}


def mapped_rows(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def check_the_same(model, X, y, mapped, room=0.05, files=(), **of_rows):
    """Fit to rows in memory and in a file, and compare all that comes of it."""
    model = sklearn.clone(model)
    names = {"coef_", "intercept_"}
    wanted = {name: getattr(model.fit(X, y, **of_rows), name) for name in names}
    predicted = model.predict(X)
    assert not files
    with sklearn.config_context(working_memory=room):
        model.fit(mapped, y, **of_rows)
        assert np.array_equal(model.predict(mapped), predicted)
    for name in names:
        assert np.array_equal(getattr(model, name), wanted[name])
    assert model.n_features_in_ == D
    return model


@pytest.mark.parametrize("solver", [STEPS, NoisySGD(batch_size=300, max_iter=4)])
def test_rows_with_weights_and_persons(solver, table, files_made):
    rng, model = np.random.default_rng(1), DPSGDFClassifier(**SEEDED, solver=solver)
    for of_rows in (
        {"sample_weight": rng.integers(0, 3, N)},
        {"groups": rng.integers(0, N // 3, N)},
    ):
        check_the_same(model, *table, **of_rows)
        assert files_made


@pytest.mark.parametrize("bounds", [(0, 1), False])
def test_missing_values_do_what_they_do_in_memory(bounds, table, tmp_path):
    X, y, _ = table
    X = X.copy()
    X[::7, 3], X[::11, 4], X[5] = np.nan, np.inf, -np.inf
    mapped = mapped_rows(X, tmp_path)
    model = DPSGDFClassifier(bounds=bounds, random_state=0, solver=STEPS)
    check_the_same(model, X, y, mapped)
    public = FeatureDPLogisticRegression(**PUBLIC | {"public_features": [3]})
    with sklearn.config_context(working_memory=0.05):
        with pytest.raises(ValueError, match="Input X contains NaN"):
            public.fit(mapped, y)


def test_a_plan_reads_nothing_private(table, tmp_path):
    X, y, mapped = table
    hidden = X.copy()
    hidden[:, np.r_[:5, 12:D]] = np.nan
    hidden = mapped_rows(hidden, tmp_path)
    model = FeatureDPLogisticRegression(**PUBLIC, classes=[0, 1])
    with sklearn.config_context(working_memory=0.05):
        plans = [repr(model.plan(one, y)) for one in (X, mapped, hidden)]
    assert plans[0] == plans[1] == plans[2]


@pytest.mark.parametrize("dtype", ["float64", "uint8", "int16", "float16", ">f4", "?"])
def test_every_type_of_numbers(dtype, table, tmp_path):
    X = (table[0] * 9).astype(dtype)
    model = DPSGDFClassifier(bounds=(0, 9), random_state=0, solver=STEPS)
    check_the_same(model, X, table[1], mapped_rows(X, tmp_path), room=0.01)


def test_what_is_wrong_is_told_in_one_sentence(table, tmp_path):
    X, y, mapped = table
    model = DPSGDFClassifier(**SEEDED, solver=STEPS)
    text = mapped_rows(np.array([["a", "b"]] * 50), tmp_path)
    with sklearn.config_context(working_memory=0):
        with pytest.raises(ValueError, match="values that are not numbers"):
            sklearn.clone(model).set_params(bounds=None).fit(text, y[:50])
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            model.fit(mapped, y[:50])
        with pytest.raises(ValueError, match="needs at least 2 records"):
            model.fit(mapped[:1], y[:1])
        model.fit(mapped, y)
        with pytest.raises(ValueError, match="X has 3 features, but DPSGDF"):
            model.predict(mapped[:, :3])


def test_a_full_disk_is_told_before_anything_is_charged(table, monkeypatch):
    X, y, mapped = table
    ledger = PrivacyLedger()
    model = DPSGDFClassifier(**SEEDED, ledger=ledger, solver=STEPS)
    usage = type(files.shutil.disk_usage("."))(10**9, 10**9, 0)
    monkeypatch.setattr(files.shutil, "disk_usage", lambda path: usage)
    with sklearn.config_context(working_memory=0.05):
        with pytest.raises(OSError, match="no room for the integer rows"):
            model.fit(mapped, y)
        assert ledger.events == ()
        model.fit(X, y)  # what is in memory alone is not written to a disk
    assert len(ledger.events) > 0


WHOLE = {
    "public model": FeatureDPLogisticRegression(**PUBLIC, public_target=True),
    "public loss": FeatureDPLogisticRegression(
        **PUBLIC,
        solver=FeatureDPSGD(
            public_loss=lambda coef, intercept, X, y: (0 * coef, 0 * intercept)
        ),
    ),
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_needs_the_whole_table_says_so_before_the_charge(name, table):
    pa = pytest.importorskip("pyarrow")
    X, y, _ = table
    columns = open_table(pa.table({f"p{i}": X[:, i] for i in range(D)}))
    ledger, model = PrivacyLedger(), sklearn.clone(WHOLE[name])
    model.set_params(ledger=ledger, target="digit")
    with (
        sklearn.config_context(working_memory=0.05),
        pytest.raises(MemoryError, match="this needs the whole of X in memory"),
    ):
        model.fit(columns, y)
    assert ledger.events == ()
    with sklearn.config_context(working_memory=1):
        model.fit(columns, y)
    assert len(ledger.events) > 0


def test_tables_for_plans_hold_what_is_public(table):
    X, _, mapped = table
    mask = np.arange(D) % 3 == 0
    found = blanked(open_table(mapped), mask)
    assert np.array_equal(in_memory(found), blanked(X, mask))
    assert found.dtype == X.dtype
