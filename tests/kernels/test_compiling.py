"""Calls by address do what direct calls do; changed code is compiled again."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import njit, types
from numba.core.errors import TypingError

import skfdp
from skfdp.kernels.compiling import address, caller

_OUT = types.Array(types.int64, 1, "C")
_WHOLE = types.Array(types.int64, 1, "C", readonly=True), types.int64, _OUT
_REAL = types.Array(types.float64, 1, "C", readonly=True), types.int64, _OUT


@njit
def add(x, number, out):
    for i in range(len(out)):
        out[i] += np.int64(x[i]) * number


@njit
def fail(x, number, out):
    out[0] = number // x[0]


call = caller(_WHOLE, _REAL)


@njit
def through(where, x, number, out):
    call(where, (x, number, out))


@pytest.mark.parametrize("dtype, kinds", [(np.int64, _WHOLE), (np.float64, _REAL)])
def test_a_call_by_address_is_the_call(dtype, kinds):
    x, out = np.arange(3).astype(dtype), np.ones(3, np.int64)
    through(address(add, kinds), x, 5, out)
    np.testing.assert_array_equal(out, [1, 6, 11])
    x.flags.writeable = False
    through(address(add, kinds), x, 5, out)
    np.testing.assert_array_equal(out, [1, 11, 21])


def test_errors_reach_the_caller():
    with pytest.raises(ZeroDivisionError):
        through(address(fail, _WHOLE), np.zeros(1, np.int64), 5, np.ones(1, np.int64))


@pytest.mark.parametrize(
    "x, out",
    [
        (np.zeros(3, np.int16), np.zeros(3, np.int64)),
        (np.zeros(6, np.int64)[::2], np.zeros(3, np.int64)),
        (np.zeros(3, np.int64), np.zeros(3)),
    ],
)
def test_other_types_are_refused(x, out):
    with pytest.raises(TypingError):
        through(address(add, _WHOLE), x, 5, out)


def test_what_may_not_be_written_is_not_written():
    out = np.zeros(3, np.int64)
    out.flags.writeable = False
    with pytest.raises(TypingError):
        through(address(add, _WHOLE), np.zeros(3, np.int64), 5, out)


# -- compiled code on the disk ---------------------------------------------------------
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


SUM = """
import numpy as np
from skfdp.kernels.losses import loss_named
from skfdp.queries.linear import LinearQuery
from skfdp.data.grid import GridRows
rows = GridRows(np.full((8, 20), 3000, dtype=np.int16), np.full(8, 20 * 3000.0**2))
query = LinearQuery(rows, np.arange(8) % 2, loss_named("hinge"), 1, 0.01, 8)
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
    assert found[0] == run_in(tmp_path, SUM, **own)[0][0] and complaints == ""


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
