"""Fits on tables that are larger than memory give what fits in memory give."""

import subprocess
import sys

import numpy as np
import pytest
import sklearn

from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPRegressor,
    PrivacyLedger,
    open_table,
)
from skfdp.data import sources as files
from skfdp.data.arrays import blanked
from skfdp.data.sources import RowFile, in_memory
from skfdp.privacy import AddOrRemoveOne
from skfdp.solvers import (
    FeatureDPSGD,
    GaussianCentering,
    NoisyGradientDescent,
    NoisySGD,
)

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
MODELS = {
    "full batch": DPSGDFClassifier(**SEEDED, solver=STEPS),
    "Poisson": DPSGDFClassifier(**SEEDED, solver=NoisySGD(max_iter=9, batch_size=500)),
    "hinge": DPSGDFClassifier(**SEEDED, solver=STEPS, loss="hinge", n_jobs=2),
    "adaptive": DPSGDFClassifier(**SEEDED, solver=STEPS, centering="adaptive"),
    "cut": DPSGDFClassifier(
        **SEEDED, solver=STEPS, centering=GaussianCentering(clip_features=True)
    ),
    "normalised": DPSGDFClassifier(
        **SEEDED, solver=NoisyGradientDescent(max_iter=4, normalize=True)
    ),
    "no bounds": DPSGDFClassifier(bounds=False, random_state=0, solver=STEPS),
    "private bounds": DPSGDFClassifier(bounds="private", random_state=0, solver=STEPS),
    "counts": DPSGDFClassifier(
        **SEEDED, neighboring_relation=AddOrRemoveOne(N), classes=[0, 1]
    ),
    "public columns": FeatureDPLogisticRegression(**PUBLIC, solver="noisy-gd"),
    "public target": FeatureDPLogisticRegression(**PUBLIC, public_target=True),
    "padded": FeatureDPLogisticRegression(
        **PUBLIC, solver=FeatureDPSGD(public_loss="zero", max_iter=4)
    ),
    "labels": FeatureDPLogisticRegression(**SEEDED, public_features="all"),
    "label descent": FeatureDPLogisticRegression(
        **SEEDED, public_features="all", solver=NoisySGD(max_iter=9)
    ),
    "regression": FeatureDPRegressor(**PUBLIC, target_bounds=(0, 1), solver=STEPS),
    "counts of events": DPSGDFRegressor(
        **SEEDED, target_bounds=(0, 1), loss="poisson", solver=STEPS
    ),
}


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


# Their rows go the same way as those of another model.
NIGHTLY = {"hinge", "cut", "normalised", "labels", "label descent", "counts of events"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.nightly] * (name in NIGHTLY))
        for name in MODELS
    ],
)
def test_released_integers_are_those_of_a_fit_in_memory(name, table, files_made):
    # The public model of scikit-learn takes its columns as a whole.
    room = 1 if name == "public target" else 0.05
    check_the_same(MODELS[name], *table, room, files_made)
    if name != "public target":
        assert files_made


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


SCRIPT = """
import sys, threading, time
import numpy as np, sklearn
from skfdp import DPSGDFClassifier
from skfdp.solvers import NoisyGradientDescent, NoisySGD

path, batch = sys.argv[1], int(sys.argv[2])
n, d = 200_000, 784
X = np.lib.format.open_memmap(path, "w+", np.uint8, (n, d))
rng = np.random.default_rng(0)
for start in range(0, n, 1000):
    X[start : start + 1000] = rng.integers(0, 256, (1000, d), dtype=np.uint8)
y = rng.integers(0, 2, n)
poisson = NoisySGD(max_iter=3, batch_size=batch)
solver = poisson if batch else NoisyGradientDescent(max_iter=3)
model = DPSGDFClassifier(bounds=(0, 255), solver=solver)
model.fit(np.array(X[:600]), y[:600])  # imports and compilation

def now():
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("RssAnon"))
    return int(line.split()[1]) / 1024

before, high, running = now(), [0.0], True
def watch():
    while running:
        high[0] = max(high[0], now())
        time.sleep(0.002)
thread = threading.Thread(target=watch); thread.start()
with sklearn.config_context(working_memory=16):
    model.fit(X, y)
running = False; thread.join()
print(high[0] - before)
"""


@pytest.mark.nightly
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("batch", [0, 20_000])
def test_memory_is_that_of_labels_and_norms(batch, tmp_path):
    """314 MB of integer rows, of which the fit holds none."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, tmp_path / "X.npy", str(batch)],
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    assert float(done.stdout) < 60


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
