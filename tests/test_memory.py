"""Memory: one int16 copy of X and 64 MB, whatever the dtype and the batch."""

import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys, threading, time
import numpy as np
from skfdp import DPSGDFClassifier, FeatureDPLogisticRegression
from skfdp.solvers import FeatureDPSGD, NoisyGradientDescent, NoisySGD

dtype, batch, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
n, d = 60000, 784
rng = np.random.default_rng(0)
X = np.empty((n, d), dtype=dtype)
for start in range(0, n, 1000):
    X[start : start + 1000] = rng.integers(0, 256, (1000, d), dtype=np.uint8)
y = rng.integers(0, 10, n)
if kind == "dpsgd-f":
    solver = NoisyGradientDescent(max_iter=2)
    if batch:
        solver = NoisySGD(max_iter=2, batch_size=batch)
    model = DPSGDFClassifier(bounds=(0, 255), solver=solver)
else:
    solver = FeatureDPSGD(max_iter=2, public_loss="zero")
    model = FeatureDPLogisticRegression(
        bounds=(0, 255), public_features=range(392), solver=solver
    )
small = X[:600].copy()
model.fit(small, y[:600])  # imports and compilation
# Sampled, because the kernel's own peak starts at that of the parent process.
def now():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20
before = now()
high, running = [0.0], True
def watch():
    while running:
        high[0] = max(high[0], now())
        time.sleep(0.002)
thread = threading.Thread(target=watch); thread.start()
model.fit(X, y)
running = False; thread.join()
print(high[0] - before)
"""


def extra_megabytes(dtype, batch, kind):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, dtype, str(batch), kind],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return float(done.stdout)


@pytest.mark.nightly
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    ("dtype", "batch", "kind", "copies"),
    [
        ("float64", 0, "dpsgd-f", 1),
        ("float32", 0, "dpsgd-f", 1),
        ("uint8", 0, "dpsgd-f", 1),
        ("uint8", 30_000, "dpsgd-f", 1),
        ("uint8", 0, "feature-dp", 2),  # one is padded
    ],
)
def test_a_fit_needs_int16_copies_and_64_megabytes(dtype, batch, kind, copies):
    copy = 60_000 * 785 * 2 / 2**20
    assert extra_megabytes(dtype, batch, kind) < copies * copy + 64
