"""The examples that make their own data run, and quickly."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import skfdp

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.glob("plot_*.py")), ids=lambda path: path.stem
)
def test_it_runs(path, tmp_path):
    environment = os.environ | {
        "MPLBACKEND": "Agg",
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": str(Path(skfdp.__file__).parents[1]),
    }
    environment.pop("SKFDP_DATA", None)
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning:skfdp", str(path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "PRIVACY STATEMENT" in done.stdout


def test_there_are_some():
    if not EXAMPLES.is_dir():
        pytest.skip("the examples are not beside the tests")
    names = {path.name for path in EXAMPLES.glob("*.py")}
    assert {"plot_privacy_officer.py", "plot_monthly_training.py"} <= names
    assert all(name.startswith(("plot_", "data_")) for name in names)


def test_label_dp_on_images():
    if not EXAMPLES.is_dir():
        pytest.skip("the examples are not beside the tests")
    run = subprocess.run(
        [sys.executable, str(EXAMPLES / "data_label_dp_images.py"), "--quick"],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr
    accuracy = float(run.stdout.split("test accuracy ")[1].split(" %")[0])
    assert accuracy > 50  # one of ten classes
