"""The examples run, and their features of images see one row at a time."""

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
MODELS = EXAMPLES / "models"

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        not EXAMPLES.is_dir(), reason="the examples are not beside the tests"
    ),
]


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.rglob("plot_*.py")), ids=lambda path: path.stem
)
def test_it_runs(path, tmp_path):
    environment = os.environ | {
        "MPLBACKEND": "Agg",
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": str(Path(skfdp.__file__).parents[1]),
    }
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning:skfdp", str(path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    text = path.read_text(encoding="utf-8")
    assert "PRIVACY STATEMENT" in done.stdout or "statement()" not in text


def test_there_are_some():
    names = {path.name for path in EXAMPLES.rglob("*.py")}
    assert {
        "plot_privacy_officer.py",
        "plot_monthly_training.py",
        "plot_hospital.py",
    } <= names
    assert all(name.startswith(("plot_", "data_")) for name in names)


def test_label_dp_on_images():
    run = subprocess.run(
        [sys.executable, str(MODELS / "data_label_dp_images.py"), "--quick"],
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
    return runpy.run_path(str(MODELS / "data_label_dp_images.py"))


def test_image_features_see_no_label(image_example):
    rng = np.random.default_rng(0)
    X = rng.integers(256, size=(300, 784))
    rows = [
        make_pipeline(*image_example["public_steps"]("mnist", 8)).fit_transform(X, y)
        for y in (None, rng.integers(10, size=300))
    ]
    np.testing.assert_array_equal(*rows)
    np.testing.assert_allclose(np.linalg.norm(rows[0], axis=1), 1, rtol=1e-5)


@pytest.fixture(scope="module")
def features():
    """Return the names of the example of fixed features."""
    return runpy.run_path(str(MODELS / "data_pixels.py"))


def rows_of(features, X):
    """Return the rows of each kind of features."""
    return [
        features["scaled"](X, 255),
        features["blurred"](X, 255, 0.8),
        features["convolved"](X, 255, n_filters=8),
    ]


def test_a_row_depends_on_its_own_image_alone(features):
    """Also where images are taken in blocks, and the neighbour stands in the block."""
    X = np.random.default_rng(0).integers(256, size=(19, 784))
    changed = X.copy()
    changed[10] = changed[10, ::-1]
    others = np.arange(19) != 10
    kinds = zip(rows_of(features, X), rows_of(features, changed), strict=True)
    for rows, moved in kinds:
        np.testing.assert_array_equal(rows[others], moved[others])
        assert np.abs(rows[10] - moved[10]).max() > 0.01
    for rows, alone in zip(
        rows_of(features, X), rows_of(features, X[[4]]), strict=True
    ):
        np.testing.assert_allclose(rows[4], alone[0], rtol=1e-4, atol=1e-5)


def test_filters_are_public_constants(features):
    filters = features["random_filters"](16, 6, 0.7, seed=3)
    np.testing.assert_array_equal(filters, features["random_filters"](16, 6, 0.7, 3))
    np.testing.assert_allclose(filters.mean(axis=1), 0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(filters, axis=1), 1, rtol=1e-5)
