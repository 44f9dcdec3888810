"""Compiled kernels come from the disk in every process but the first."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import skfdp

SCRIPT = """
import sys, warnings
import numpy as np
from scipy.sparse import csr_array
warnings.simplefilter("ignore")
from skfdp import FeatureDPLogisticRegression
from skfdp.solvers import FeatureDPSGD, NoisyGradientDescent
X = np.random.default_rng(0).random((200, 5))
plain, padded = NoisyGradientDescent(max_iter=2), FeatureDPSGD(max_iter=2)
for n_classes in (2, 40):
    y = np.arange(200) % n_classes
    for data in (X, csr_array(X)):
        FeatureDPLogisticRegression(bounds=(0, 1), solver=plain).fit(data, y)
    FeatureDPLogisticRegression(
        bounds=(0, 1), solver=padded, public_features=[0]
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


def run_in(folder, script, **changes):
    """Return the words that a script prints, and its complaints."""
    environment = os.environ | changes
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={k: v for k, v in environment.items() if v is not None},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return done.stdout.split(), done.stderr


def copied_to(folder):
    """Return a copy of the package without what was compiled."""
    ignored = shutil.ignore_patterns("__pycache__")
    package = Path(skfdp.__file__).parent
    return shutil.copytree(package, folder / "skfdp", ignore=ignored)


AT_A_TERMINAL = """
import io, sys
import numpy as np
sys.stderr = io.StringIO()
sys.stderr.isatty = lambda: {}
from skfdp.kernels.tiles import round_weights
round_weights(np.ones((1, 2)), 2, np.ones((1, 2)))
round_weights(np.ones((1, 2)), 2, np.ones((1, 2), dtype=np.float32))
print(sys.stderr.getvalue())
"""


@pytest.mark.nightly
def test_a_terminal_is_told_once_why_the_first_fit_waits(tmp_path):
    places = tmp_path, tmp_path / "cache"
    at_terminal, elsewhere = AT_A_TERMINAL.format(True), AT_A_TERMINAL.format(False)

    def told(script, folder):
        return " ".join(run_in(tmp_path, script, NUMBA_CACHE_DIR=str(folder))[0])

    assert told(elsewhere, places[0]) == ""
    line = "skfdp compiles its loops. This takes seconds, once for an installation."
    assert told(at_terminal, places[1]) == line
    assert told(at_terminal, places[1]) == ""  # the code comes from the disk


@pytest.mark.nightly
def test_a_second_process_compiles_nothing(tmp_path):
    run_in(tmp_path, SCRIPT)
    hits, misses = map(int, run_in(tmp_path, SCRIPT)[0])
    assert misses == 0
    assert hits > 8


SUM = """
import numpy as np
from skfdp.queries.linear import LOSSES
from skfdp.queries.linear import LinearQuery
from skfdp.data.grid import GridRows
rows = GridRows(np.full((8, 20), 3000, dtype=np.int16), np.full(8, 20 * 3000.0**2))
query = LinearQuery(rows, np.arange(8) % 2, LOSSES["hinge"], 1, 0.01, 8)
print(query.exact_sum(np.full((1, 20), 0.1), None, 2.0**-26).max())
"""


@pytest.mark.slow
def test_a_change_of_the_clip_reaches_the_loop_that_was_compiled_before(tmp_path):
    """The loop is in another file, which numba's own cache would find unchanged."""
    clip = copied_to(tmp_path) / "kernels" / "contributions.py"

    def run():
        return int(run_in(tmp_path, SUM, PYTHONPATH=str(tmp_path))[0][0])

    before = run()
    text = clip.read_text(encoding="utf-8")
    assert text.count("= residuals[0, i], limits[i]") == 1
    doubled = text.replace("= residuals[0, i], l", "= residuals[0, i], 2.0 * l")
    clip.write_text(doubled, encoding="utf-8")
    np.testing.assert_allclose(run(), 2 * before, rtol=1e-2)


@pytest.mark.slow
def test_fits_work_where_no_cache_can_be_written(tmp_path):
    """A package that is read-only, and a user without a home folder."""
    package, own = copied_to(tmp_path), {"PYTHONPATH": str(tmp_path)}
    for folder in ("kernels", "kernels/losses"):
        (package / folder / "__pycache__").touch()  # a file: not even root can use it
    nowhere = {"NUMBA_CACHE_DIR": None, "XDG_CACHE_HOME": "/dev/null/cache"}
    found, complaints = run_in(tmp_path, SUM, **nowhere, **own)
    assert found[0] == run_in(tmp_path, SUM, **own)[0][0]
    assert complaints == ""


def test_a_disk_that_is_full_does_not_end_a_fit(monkeypatch, tmp_path):
    from numba.core import caching

    from skfdp.kernels.compiling import kernel

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "save", full)
    source = tmp_path / "doubled.py"
    source.write_text("def doubled(x):\n    return 2 * x\n", encoding="utf-8")
    names = {}
    exec(compile(source.read_text(), str(source), "exec"), names)
    function = kernel()(names["doubled"])
    assert function(4) == 8


NEEDED = """
import numpy as np
from skfdp import DPSGDFClassifier
from skfdp.kernels import contributions, short_tiles
from skfdp.solvers import NoisyGradientDescent
X = np.random.default_rng(0).random((200, 20))
solver = NoisyGradientDescent(max_iter=2)
DPSGDFClassifier(bounds=(0, 1), solver=solver).fit(X, np.arange(200) % 2)
leaves = [leaf.py_func.__module__ for leaf in contributions._LEAVES if leaf.overloads]
tiles = [short_tiles._margins_by_one, short_tiles._margins_by_five]
print(*leaves, *(len(tile.overloads) for tile in tiles))
"""


@pytest.mark.nightly
def test_a_fit_compiles_its_loss_and_its_tiles_alone(tmp_path):
    found, _ = run_in(tmp_path, NEEDED)
    assert found == ["skfdp.kernels.losses.log_loss", "1", "0"]
