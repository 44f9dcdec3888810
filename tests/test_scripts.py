"""The scripts of benchmarks/reproduce run, and print what the documentation states."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks" / "reproduce"

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not FOLDER.exists(), reason="no checkout"),
]
QUICK = ("--quick", "--output")
#: Options of each script, the file that it writes last.
RUNS = {
    "dominance.py": (
        *("--tables", "breast", "--epsilons", "1", "--seeds", "2"),
        *("--splits", "nothing", "columns", "--out"),
    ),
    "figure1_purchase100.py": (
        *("--rows", "1200", "--epsilons", "8", "--figure", "figure.png"),
        "--output",
    ),
    "pixels.py": ("--seeds", "1", *QUICK),
    "regression.py": QUICK,
    "label_dp.py": ("--compare", *QUICK),
    "../peers.py": (
        *("--only", "small", "--batches", "64", "--rounds", "2", "--clock", "cpu"),
        "--output",
    ),
    "../rivals.py": ("--quick", "--out"),
    "../marks.py": ("--quick",),  # fails if a mark is red
}


def run(name, folder, *options):
    """Run a script in a folder, and return what it prints."""
    if options and options[-1].startswith("--out"):
        options += ("results.json",)
    done = subprocess.run(
        [sys.executable, str(FOLDER / name), *options],
        cwd=folder,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", RUNS)
def test_it_runs(name, tmp_path):
    assert "nan" not in run(name, tmp_path, *RUNS[name]).lower().split()


def test_the_trajectory_counts_the_steps_of_paper_1(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import figure1_purchase100

    found = figure1_purchase100.trajectory("replace_one")
    assert list(found.values()) == [16, 48, 160]
    # what docs/theory/algorithms.rst states for ten passes
    assert max(found) == 8.07
    assert max(figure1_purchase100.trajectory("replace_special")) == 5.42
