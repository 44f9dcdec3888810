"""Examples and benchmarks run, and features of images see one row at a time."""

import os
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import skfdp

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
MODELS = EXAMPLES / "models"
IMAGES = MODELS / "data_label_dp_images.py"

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        not EXAMPLES.is_dir(), reason="the examples are not beside the tests"
    ),
]


def run(*arguments, folder):
    """Run a script in a folder, and return what it prints."""
    environment = os.environ | {
        "MPLBACKEND": "Agg",
        "OPENBLAS_NUM_THREADS": "1",
        "TMPDIR": str(folder),
        "PYTHONPATH": str(Path(skfdp.__file__).parents[1]),
    }
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.rglob("plot_*.py")), ids=lambda path: path.stem
)
def test_an_example_runs(path, tmp_path):
    out = run("-W", "error::UserWarning:skfdp", path, folder=tmp_path)
    text = path.read_text(encoding="utf-8")
    assert "PRIVACY STATEMENT" in out or "statement()" not in text


def test_image_features_see_no_label():
    rng, names = np.random.default_rng(0), runpy.run_path(str(IMAGES))
    X = rng.integers(256, size=(300, 784))
    rows = [
        make_pipeline(*names["public_steps"]("mnist", 8)).fit_transform(X, y)
        for y in (None, rng.integers(10, size=300))
    ]
    np.testing.assert_array_equal(*rows)
    np.testing.assert_allclose(np.linalg.norm(rows[0], axis=1), 1, rtol=1e-5)


def test_a_row_depends_on_its_own_image_alone():
    """Also where images are taken in blocks, and the neighbour stands in the block."""
    names = runpy.run_path(str(MODELS / "data_pixels.py"))
    X = np.random.default_rng(0).integers(256, size=(19, 784))
    changed, others = X.copy(), np.arange(19) != 10
    changed[10] = changed[10, ::-1]
    kinds = {"scaled": {}, "blurred": {"width": 0.8}, "convolved": {"n_filters": 8}}
    for features, given in kinds.items():
        rows, moved, alone = (
            names[features](images, 255, **given) for images in (X, changed, X[[4]])
        )
        np.testing.assert_array_equal(rows[others], moved[others])
        assert np.abs(rows[10] - moved[10]).max() > 0.01
        np.testing.assert_allclose(rows[4], alone[0], rtol=1e-4, atol=1e-5)
    filters = names["random_filters"](16, 6, 0.7, seed=3)  # public constants
    np.testing.assert_array_equal(filters, names["random_filters"](16, 6, 0.7, 3))


# -- scripts of benchmarks -------------------------------------------------------------
FOLDER = EXAMPLES.parent / "benchmarks" / "reproduce"
FILE = "results.json"
RUNS = {
    "dominance.py": "--tables breast --epsilons 1 --seeds 2 --splits nothing columns",
    "figure1_purchase100.py": "--rows 1200 --epsilons 8",
    "pixels.py": "--seeds 1 --quick",
    "regression.py": "--quick",
    "known_without_data.py": "--sizes 1000 --seeds 1 --tables 'strong numbers'",
    "interactions.py": "target --tables waves --sizes 800 --seeds 0",
    "../peers.py": "--only small --batches 64 --rounds 2 --clock cpu",
    "../rivals.py": "--quick",
    "../marks.py": "--quick",  # fails if a mark is red
}


@pytest.mark.parametrize("name", RUNS)
def test_a_script_of_benchmarks_runs(name, tmp_path):
    told = [*shlex.split(RUNS[name]), *([] if "marks" in name else ["--out", FILE])]
    out = run(FOLDER / name, *told, folder=tmp_path)
    assert "nan" not in out.lower().split()
