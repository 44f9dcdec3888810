"""Memory that a fit takes beside its table: of an array, of a file, and of texts."""

import subprocess
import sys

import pytest

SCRIPT = """
import threading, time
import numpy as np, sklearn
from scipy.sparse import csr_array
from skfdp import DPSGDFClassifier, FeatureDPLogisticRegression
from skfdp.solvers import FeatureDPSGD, NoisyGradientDescent, NoisySGD

rng = np.random.default_rng(0)
def filled(X):
    for start in range(0, len(X), 1000):
        X[start : start + 1000] = rng.integers(0, 256, (1000, 784), dtype=np.uint8)
    return X
def texts(n=10_000, d=50_000, words=100):  # a dense X would be 4 GB
    y = rng.integers(0, 20, n)
    common = rng.zipf(1.3, (n, words)) % d
    topical = (y[:, None] * 97 + rng.integers(0, 40, (n, words))) % d
    columns = np.where(rng.random((n, words)) < 0.3, topical, common).ravel()
    rows = np.repeat(np.arange(n), words)
    return csr_array((np.ones(n * words), (rows, columns)), shape=(n, d)), y
def descent(batch=0, max_iter=2):
    poisson = NoisySGD(max_iter=max_iter, batch_size=batch or 1)
    return poisson if batch else NoisyGradientDescent(max_iter=max_iter)
padded = FeatureDPSGD(max_iter=2, public_loss="zero")
"""
# Sampled, because the kernel's own peak starts at that of the parent process.
WATCHED = """
small = X[:600].copy()
for one in models:
    one.fit(small, y[:600])  # imports and compilation
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
    for one in models:
        one.fit(X, y)
running = False; thread.join()
print(high[0] - before, one.score(X[:2000], y[:2000]))
"""
ARRAY = """
X, y = filled(np.empty((60_000, 784), dtype="{}")), rng.integers(0, 10, 60_000)
models = [DPSGDFClassifier(bounds=(0, 255), solver=descent({}))]
"""
PADDED = """
given = {"bounds": (0, 255), "public_features": range(392)}
models = [FeatureDPLogisticRegression(**given, solver=padded)]
"""
FILE = """
X = filled(np.lib.format.open_memmap("X.npy", "w+", np.uint8, (200_000, 784)))
y = rng.integers(0, 2, 200_000)
models = [DPSGDFClassifier(bounds=(0, 255), solver=descent({}))]
"""
TEXTS = """
X, y = texts()
given = {"epsilon": 3.0, "bounds": False}
public = {"public_features": slice(0, 9), "solver": padded}
models = [
    FeatureDPLogisticRegression(**given, **public),
    DPSGDFClassifier(**given, solver=descent(300)),
    DPSGDFClassifier(**given, neighboring_relation="replace_special"),
]
"""
COPY = 60_000 * 785 * 2 / 2**20
CASES = {
    "float64": (ARRAY.format("float64", 0), COPY + 64),
    "float32": (ARRAY.format("float32", 0), COPY + 64),
    "uint8": (ARRAY.format("uint8", 0), COPY + 64),
    "batches": (ARRAY.format("uint8", 30_000), COPY + 64),
    "padded": (ARRAY.format("uint8", 0) + PADDED, 2 * COPY + 64),
    # 314 MB of integer rows, of which the fit holds none.
    "file": (FILE.format(0), 60),
    "file, batches": (FILE.format(20_000), 60),
    "texts": (TEXTS, 500),
}


@pytest.mark.nightly
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("name", CASES)
def test_a_fit_needs_little_beside_its_table(name, tmp_path):
    """Integers of two bytes where they stay in memory, and nothing filled in."""
    made, most = CASES[name]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT + made + WATCHED],
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
        cwd=tmp_path,
    )
    taken, score = map(float, done.stdout.split())
    assert taken < most
    assert score > 0.3 or name != "texts"
