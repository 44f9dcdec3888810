"""Examples and benchmarks run, and features of images see one row at a time."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.pipeline import make_pipeline

import skfdp
from skfdp.privacy import gdp_mu

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


def test_label_dp_on_images(tmp_path):
    out = run(IMAGES, "--quick", folder=tmp_path)
    accuracy = float(out.split("test accuracy ")[1].split(" %")[0])
    assert accuracy > 80  # one of ten classes


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


# -- the counterexample of paper 2, section 4 ------------------------------------------
def bound(kappa):
    """Return the least expected hinge loss that the lemma of the docs allows."""
    return norm.cdf(
        brentq(lambda a: norm.logpdf(a) - norm.logcdf(a) - np.log(kappa), -1e3, 37)
    )


def test_the_page_shows_failure_and_success(monkeypatch, capsys):
    monkeypatch.setitem(os.environ, "MPLBACKEND", "agg")
    page = runpy.run_path(str(EXAMPLES / "checks" / "plot_counterexample.py"))
    plain, default, adaptive = (np.array(found) for found in page["losses"].values())
    ratios, n = page["ratios"], page["n"]
    mu = gdp_mu(page["epsilon"], page["delta"])
    kappas = n * mu / np.sqrt((ratios * n * page["epsilon"]) ** 2 + 1)
    limits = np.array([bound(kappa) for kappa in kappas])
    assert (plain >= limits - 0.05).all()
    np.testing.assert_allclose(
        np.interp(
            np.log(kappas), np.log(page["kappa"][::-1]), norm.cdf(page["a"][::-1])
        ),
        limits,
        atol=0.01,
    )
    past = ratios >= 0.99
    assert (plain[past] > 0.9).all()
    assert adaptive[ratios < 110].max() < 0.2
    assert default[ratios < 0.04].max() < 0.1
    # What the report says was spent is no more than every family may spend.
    assert page["fitted"].privacy_.epsilon <= page["epsilon"]
    assert "PRIVACY STATEMENT" in capsys.readouterr().out


# -- scripts of benchmarks -------------------------------------------------------------
FOLDER = EXAMPLES.parent / "benchmarks" / "reproduce"
FILE = "results.json"
QUICK = "--quick", "--output", FILE
RUNS = {
    "dominance.py": (
        *("--tables", "breast", "--epsilons", "1", "--seeds", "2"),
        *("--splits", "nothing", "columns", "--out", FILE),
    ),
    "figure1_purchase100.py": (
        *("--rows", "1200", "--epsilons", "8", "--figure", "figure.png"),
        *("--output", FILE),
    ),
    "pixels.py": ("--seeds", "1", *QUICK),
    "regression.py": QUICK,
    "interactions.py": (
        *("target", "--tables", "waves", "--sizes", "800", "--seeds", "0"),
        *("--out", FILE),
    ),
    "../peers.py": (
        *("--only", "small", "--batches", "64", "--rounds", "2", "--clock", "cpu"),
        *("--output", FILE),
    ),
    "../rivals.py": ("--quick", "--out", FILE),
    "../marks.py": ("--quick",),  # fails if a mark is red
}


@pytest.mark.parametrize("name", RUNS)
def test_a_script_of_benchmarks_runs(name, tmp_path):
    out = run(FOLDER / name, *RUNS[name], folder=tmp_path)
    assert "nan" not in out.lower().split()


def test_small_budgets_are_near_what_is_known(tmp_path):
    names = "strong numbers", "wide bounds", "noise 0.1", "noise 0.3"
    cells = "--sizes", 1000, 3000, "--seeds", 1, "--out", FILE, "--tables", *names
    run(FOLDER / "known_without_data.py", *cells, folder=tmp_path)
    found = pd.read_json(tmp_path / FILE, lines=True).query("x >= 250")
    target, noise = found["split"] == "half, target", found["table"].str[:5] == "noise"
    above = found["loss"] - np.where(target, found["free"], found["floor"])
    assert (above > 0.005).mean() <= 0.05
    assert above[noise].mean() < 0.006
