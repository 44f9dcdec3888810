"""Features that learn nothing, and the scripts that measure them and the successors."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from skfdp.privacy import gdp_mu

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "benchmarks" / "reproduce"

pytestmark = pytest.mark.skipif(
    not SCRIPTS.exists(), reason="the benchmarks are not part of an installed package"
)


@pytest.fixture(scope="module")
def features():
    """Return the names of the example."""
    return runpy.run_path(str(ROOT / "examples" / "data_pixels.py"))


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


def test_a_blank_image_has_no_response(features):
    X = np.zeros((2, 784))
    X[1] = 200
    np.testing.assert_array_equal(features["convolved"](X, 255, n_filters=8), 0)


def test_convolutions_by_hand(features):
    """One response, pooled over its region, against loops."""
    X = np.random.default_rng(0).integers(256, size=(1, 64))
    (found,) = features["convolved"](X, 255, n_filters=2, size=3).reshape(1, 16, 2)
    image = X.reshape(8, 8) / 255
    for k, one in enumerate(features["random_filters"](2, 3, 0.7, 0).reshape(2, 3, 3)):
        for region in range(16):
            values = []
            for i in range(6):
                for j in range(6):
                    if (4 * i // 6, 4 * j // 6) != divmod(region, 4):
                        continue
                    patch = image[i : i + 3, j : j + 3]
                    response = (patch * one).sum() / np.sqrt(patch.var() + 1e-3)
                    values.append(max(abs(response) - 1.5, 0))
            expected = np.sqrt(np.mean(values))
            np.testing.assert_allclose(found[region, k], expected, atol=2e-3)


def run(script, path, *options):
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / script), "--output", str(path), *options],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text(encoding="utf-8"))["cells"], done.stdout


def test_the_script_of_images_runs(tmp_path):
    cells, output = run(
        "pixels.py", tmp_path / "pixels.json", "--quick", "--seeds", "1"
    )
    assert len(cells) == 3 * 2
    for clip in ("auto", 0.1):
        key = f"digits | convolutions | {clip} | replace_special | seed 0"
        assert cells[key]["accuracy"] > 93
        assert f"{cells[key]['accuracy']:.2f}" in output


@pytest.mark.slow
def test_the_script_of_successors_runs(tmp_path):
    cells, output = run(
        "successors.py", tmp_path / "successors.json", "--quick", "--seeds", "1"
    )
    assert len(cells) == 3 + 4 + 1 + 2 * 4
    default = "blurred | digits | public | default | 8 | seed 0"
    free = "blurred | digits | public | public part alone | 8 | seed 0"
    assert cells[default] > cells[free] - 2
    assert cells["conditioned | diabetes | no privacy | inf | seed 0"] > 0.25
    bound = 100 * norm.cdf(gdp_mu(8.0, 1e-5) / 2)
    assert f"bound {bound:.1f} %" in output
    # 20 guesses, more than which may be right by chance alone
    assert cells["attribute | 8 | 40 fits"] <= bound + 4 * 50 / 20**0.5
