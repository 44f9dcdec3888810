"""Fits on tables that are larger than memory give what fits in memory give."""

import numpy as np
import pytest
import sklearn

import skfdp
from skfdp.data import sources as files
from skfdp.data.arrays import blanked
from skfdp.data.sources import in_memory
from skfdp.solvers import NoisyGradientDescent

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
SEEDED = {"bounds": (0, 1), "random_state": 0, "solver": STEPS}
PUBLIC = {"bounds": (0, 1), "random_state": 0, "public_features": SOME}


def mapped_rows(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16", ">f4", "?"])
def test_every_type_of_numbers(dtype, table, tmp_path):
    X, y = (table[0] * 9).astype(dtype), table[1]
    model = skfdp.DPSGDFClassifier(**SEEDED | {"bounds": (0, 9)})
    wanted = model.fit(X, y).coef_
    with sklearn.config_context(working_memory=0.01):
        assert np.array_equal(model.fit(mapped_rows(X, tmp_path), y).coef_, wanted)


def test_what_is_wrong_is_told_in_one_sentence(table, tmp_path):
    _, y, mapped = table
    text = mapped_rows(np.array([["a", "b"]] * 50), tmp_path)
    model = skfdp.DPSGDFClassifier(**SEEDED)
    with sklearn.config_context(working_memory=0):
        for use, rows, labels, match in (
            (model.fit(mapped, y).score, mapped[:, :3], y, "X has 3 features, but D"),
            (skfdp.DPSGDFClassifier().fit, text, y[:50], "values that are not numbers"),
            (model.fit, mapped, y[:50], "inconsistent numbers of samples"),
            (model.fit, mapped[:1], y[:1], "needs at least 2 records"),
        ):
            with pytest.raises(ValueError, match=match):
                use(rows, labels)


def test_a_full_disk_is_told_before_anything_is_charged(table, monkeypatch):
    X, y, mapped = table
    ledger = skfdp.PrivacyLedger()
    model = skfdp.DPSGDFClassifier(**SEEDED, ledger=ledger)
    usage = type(files.shutil.disk_usage("."))(10**9, 10**9, 0)
    monkeypatch.setattr(files.shutil, "disk_usage", lambda path: usage)
    with sklearn.config_context(working_memory=0.05):
        with pytest.raises(OSError, match="no room for the integer rows"):
            model.fit(mapped, y)
        assert ledger.events == ()
        model.fit(X, y)  # what is in memory alone is not written to a disk
    assert len(ledger.events) > 0


def test_tables_for_plans_hold_what_is_public(table):
    X, _, mapped = table
    mask = np.arange(D) % 3 == 0
    found = blanked(skfdp.open_table(mapped), mask)
    assert np.array_equal(in_memory(found), blanked(X, mask)) and found.dtype == X.dtype
