"""The examples that make their own data run, and quickly."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import skfdp

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.mark.slow
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
    text = path.read_text(encoding="utf-8")
    assert "PRIVACY STATEMENT" in done.stdout or "statement()" not in text


def test_there_are_some():
    if not EXAMPLES.is_dir():
        pytest.skip("the examples are not beside the tests")
    names = {path.name for path in EXAMPLES.glob("*.py")}
    assert {
        "plot_privacy_officer.py",
        "plot_monthly_training.py",
        "plot_hospital.py",
    } <= names
    assert all(name.startswith(("plot_", "data_")) for name in names)


@pytest.mark.slow
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
    assert accuracy > 80  # one of ten classes


@pytest.fixture
def image_example():
    """Return the public names of the example."""
    if not EXAMPLES.is_dir():
        pytest.skip("the examples are not beside the tests")
    return runpy.run_path(str(EXAMPLES / "data_label_dp_images.py"))


def test_image_features_see_no_label(image_example):
    rng = np.random.default_rng(0)
    X = rng.integers(256, size=(300, 784))
    rows = [
        make_pipeline(*image_example["public_steps"]("mnist", 8)).fit_transform(X, y)
        for y in (None, rng.integers(10, size=300))
    ]
    np.testing.assert_array_equal(*rows)
    np.testing.assert_allclose(np.linalg.norm(rows[0], axis=1), 1, rtol=1e-5)


def test_slanted_images_are_straightened(image_example):
    upright, slanted, blank = np.zeros((3, 28, 28))
    height = np.arange(6, 20)
    upright[height, 9:12] = slanted[height, height] = 200
    slanted[height, height + 1] = slanted[height, height + 2] = 200
    images = np.stack([upright, slanted, blank]).reshape(3, 784)
    images = image_example["straighten"](images)
    np.testing.assert_allclose(images[0].sum(), 42 * 200, rtol=0.01)
    # The same bar, up to the interpolation.
    assert np.abs(images[0] - images[1]).sum() < 0.05 * images[0].sum()
    assert not images[2].any()
