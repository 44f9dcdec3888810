"""Compiled kernels come from the disk in every process but the first."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

import skfdp

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


SUM = """
import numpy as np
from skfdp.queries.losses import LOSSES
from skfdp.queries.linear import LinearQuery
from skfdp.records.grid import GridRows
rows = GridRows(np.full((8, 20), 3000, dtype=np.int16), np.full(8, 20 * 3000.0**2))
query = LinearQuery(rows, np.arange(8) % 2, LOSSES["hinge"], 1, 0.01, 8)
print(query.exact_sum(np.full((1, 20), 0.1), None, 2.0**-26).max())
"""


def test_a_change_of_the_clip_reaches_the_loop_that_was_compiled_before(tmp_path):
    """The loop is in another file, which numba's own cache would find unchanged."""
    package = tmp_path / "skfdp"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(skfdp.__file__).parent, package, ignore=ignored)

    def run():
        done = subprocess.run(
            [sys.executable, "-c", SUM],
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        return int(done.stdout)

    before = run()
    clip = package / "kernels" / "contributions.py"
    text = clip.read_text(encoding="utf-8")
    assert text.count("room = clip.clip_norm - half * size") == 1
    doubled = text.replace("clip.clip_norm - half", "2.0 * clip.clip_norm - half")
    clip.write_text(doubled, encoding="utf-8")
    np.testing.assert_allclose(run(), 2 * before, rtol=1e-2)
