"""One table in every format: the same plan, report, model and predictions, to the bit.

A new format is a line of `FORMATS`, a new kind of fit a line of `MODELS`. The sums of
every query are compared in ``queries/test_formats.py``.
"""

import numpy as np
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.base import clone

from skfdp import DPSGDFRegressor, FeatureDPLogisticRegression, FeatureDPRegressor
from skfdp.data import grid
from skfdp.solvers import (
    AdaptiveCentering,
    FeatureDPSGD,
    NoisyGradientDescent,
    NoisySGD,
)

N, D = 900, 7
RNG = np.random.default_rng(0)
#: Numbers in [0, 1] that float32 holds; a half of them are zeros.
X = (RNG.random((N, D)) * (RNG.random((N, D)) < 0.5)).astype(np.float32).astype(float)
LABELS = (X[:, 0] + X[:, 1] > 0.5).astype(int)
NUMBERS = X.sum(axis=1)
STEPS = NoisyGradientDescent(max_iter=3)
POISSON = NoisySGD(batch_size=150, max_iter=6)
SOME, ALL = {"public_features": [0, 3]}, {"public_features": "all"}
KNOWN, RATES = {"public_target": True}, {"loss": "poisson"}
COMMON = {"epsilon": 3.0, "bounds": (0, 1), "random_state": 1}
LOGISTIC, REGRESSOR = FeatureDPLogisticRegression, FeatureDPRegressor


def classifier(kind=LOGISTIC, y=LABELS, **more):
    given = COMMON | {"classes": np.unique(y).tolist(), "solver": STEPS} | more
    return kind(**given), y


def regressor(kind=REGRESSOR, **more):
    return kind(**COMMON | {"target_bounds": (0, 6), "solver": STEPS} | more), NUMBERS


#: A kind of fit; "dense" is not for CSR, and "whole" not for partitions.
MODELS = {
    "all private": classifier(),
    "public columns: dense": classifier(**SOME),
    "public columns, penalised": classifier(**SOME, C=10.0),
    "public target: dense": classifier(**SOME, **KNOWN),
    "one shot, whole rows: dense": classifier(**ALL, solver="auto"),
    "Poisson: whole": classifier(solver=POISSON, n_jobs=2),
    "adaptive: dense, whole": classifier(centering="adaptive"),
    "cut: dense, whole": classifier(centering=AdaptiveCentering(clip_features=True)),
    "padded: dense, whole": classifier(
        **SOME, solver=FeatureDPSGD(public_loss="zero", max_iter=3)
    ),
    "private bounds: whole": classifier(bounds="private"),
    "counts of events": regressor(DPSGDFRegressor, **RATES),
    "regression, public columns": regressor(**SOME),
    "weights: whole": classifier(),
    "persons, Poisson: whole": classifier(solver=POISSON),
}
OF_ROWS = {
    "weights: whole": {"sample_weight": RNG.integers(0, 9, N)},
    "persons, Poisson: whole": {"groups": RNG.integers(0, N // 3, N)},
}


def saved(X, folder):
    """Return rows in a file."""
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def partitioned(array):
    """Return a collection of partitions of several sizes, one of them empty."""
    da = pytest.importorskip("dask.array")
    columns = () if array.ndim == 1 else ((2, D - 2),)
    return da.from_array(array, chunks=((400, 0, 1, 499), *columns))


FORMATS = {
    "CSR": lambda X, folder: csr_array(X),
    "float32": lambda X, folder: X.astype(np.float32),
    "columns together": lambda X, folder: np.asfortranarray(X),
    "objects": lambda X, folder: X.astype(object),
    "file": saved,
    "float32 file": lambda X, folder: saved(X.astype(np.float32), folder),
    "Dask": lambda X, folder: partitioned(X),
}
LEFT_OUT = {"CSR": "dense", "Dask": "whole"}
#: With the noise of the table in memory, not of its type.
DIGESTED = {"file", "columns together", "Dask"}


def reported(found):
    """Return a report or plan as values, but for what is assumed of collections."""
    values = found.to_dict()
    key = "collection_deterministic"
    values["assumptions"] = [a for a in values["assumptions"] if a["key"] != key]
    return values


def cases():
    """Yield every format with every model that it may have."""
    for held in FORMATS:
        for name in MODELS:
            if LEFT_OUT.get(held, "never") in name.partition(":")[2]:
                continue
            rare = held in ("float32 file", "objects")
            marks = [pytest.mark.nightly] * rare
            marks += [pytest.mark.extra("dask")] * (held == "Dask")
            yield pytest.param(held, name, marks=marks, id=f"{held}-{name}")


@pytest.mark.parametrize(("held", "name"), [*cases()])
def test_a_fit_is_that_of_a_table_in_memory(held, name, tmp_path, request, monkeypatch):
    if held not in DIGESTED:
        request.getfixturevalue("same_noise")
    files, make = [], grid.file_rows
    monkeypatch.setattr(grid, "file_rows", lambda *a: (files.append(a), make(*a))[1])
    (model, y), of_rows = MODELS[name], OF_ROWS.get(name, {})
    alone = clone(model).fit(X, y, **of_rows)
    assert not files
    rows = FORMATS[held](X, tmp_path)
    target = partitioned(y) if held == "Dask" else y
    with sklearn.config_context(working_memory=0.01):
        plan = clone(model).plan(rows, target, **of_rows)
        apart = clone(model).fit(rows, target, **of_rows)
        if held != "Dask":
            predicted = apart.predict(rows)
            np.testing.assert_allclose(predicted, alone.predict(X), rtol=1e-12)
    assert bool(files) == ("file" in held)
    for attribute in alone._released:
        one, other = (getattr(model, attribute) for model in (alone, apart))
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(apart.predict(X), alone.predict(X))
    assert reported(alone.privacy_) == reported(apart.privacy_)
    assert reported(clone(model).plan(X, y, **of_rows)) == reported(plan)
    told = [a.key for a in apart.privacy_.assumptions]
    assert ("collection_deterministic" in told) == (held == "Dask")
