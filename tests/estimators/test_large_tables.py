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
from skfdp.data.sources import in_memory
from skfdp.solvers import FeatureDPSGD, NoisyGradientDescent

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


STEPS = NoisyGradientDescent(max_iter=4)
SEEDED = {"bounds": (0, 1), "random_state": 0}
PUBLIC = {**SEEDED, "public_features": SOME}


def mapped_rows(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def test_a_plan_reads_nothing_private(table, tmp_path):
    X, y, mapped = table
    hidden = X.copy()
    hidden[:, np.r_[:5, 12:D]] = np.nan
    hidden = mapped_rows(hidden, tmp_path)
    model = FeatureDPLogisticRegression(**PUBLIC, classes=[0, 1])
    with sklearn.config_context(working_memory=0.05):
        plans = [repr(model.plan(one, y)) for one in (X, mapped, hidden)]
    assert plans[0] == plans[1] == plans[2]


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16", ">f4", "?"])
def test_every_type_of_numbers(dtype, table, tmp_path):
    X, y = (table[0] * 9).astype(dtype), table[1]
    model = DPSGDFClassifier(bounds=(0, 9), random_state=0, solver=STEPS)
    wanted = sklearn.clone(model).fit(X, y)
    with sklearn.config_context(working_memory=0.01):
        model.fit(mapped_rows(X, tmp_path), y)
    assert np.array_equal(model.coef_, wanted.coef_)


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
