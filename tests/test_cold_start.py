"""Compiled kernels come from the disk in every process but the first."""

import subprocess
import sys

SCRIPT = """
import sys, warnings
import numpy as np
from scipy.sparse import csr_array
warnings.simplefilter("ignore")
from skfdp import DPSGDFClassifier, FeatureDPLogisticRegression
X, rng = np.random.default_rng(0).random((200, 5)), np.random.default_rng(0)
for n_classes in (2, 40):
    y = np.arange(200) % n_classes
    for data in (X, csr_array(X)):
        DPSGDFClassifier(bounds=(0, 1), max_iter=2).fit(data, y)
    FeatureDPLogisticRegression(
        bounds=(0, 1), max_iter=2, public_features=[0], public_loss="zero"
    ).fit(X, y)
hits = misses = 0
for name, module in list(sys.modules.items()):
    if name.startswith("skfdp."):
        for value in vars(module).values():
            if hasattr(value, "stats") and hasattr(value, "py_func"):
                hits += sum(value.stats.cache_hits.values())
                misses += sum(value.stats.cache_misses.values())
print(hits, misses)
"""


def counts():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    return tuple(map(int, done.stdout.split()))


def test_a_second_process_compiles_nothing():
    counts()
    hits, misses = counts()
    assert misses == 0
    assert hits > 8
