"""The script of paper 2's tables: its grid, its features, and honest lines."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from skfdp.privacy import gdp_mu

FOLDER = Path(__file__).parents[1] / "benchmarks" / "reproduce"

pytestmark = pytest.mark.skipif(
    not FOLDER.exists(), reason="the benchmarks are not part of an installed package"
)


@pytest.fixture(scope="module")
def scripts():
    """Return the modules, and take them away afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(FOLDER))
    try:
        import _common
        import _features
        import table1_dpsgdf

        yield table1_dpsgdf, _features, _common
    finally:
        sys.path.remove(str(FOLDER))
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(FOLDER)):
                del sys.modules[name]


@pytest.fixture
def split(scripts):
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(400, 5)))
    y = (X[:, 0] > X[:, 1]).astype(int)
    return scripts[2].Split(X[:300], y[:300], X[300:], y[300:], bounds=False)


def test_settings_are_of_the_paper_s_grid_and_take_few_steps(scripts, split):
    table, *_ = scripts
    found = table.drawn_settings(split, 5, most_steps=300)
    assert len(found) == 5
    assert len({tuple(sorted(one.items())) for one in found}) == 5
    for one in found:
        assert all(one[name] in values for name, values in table.GRID.items())
        assert table.steps(one, split) <= 300


def test_a_setting_is_translated_to_rows_of_norm_1(scripts, split):
    """Clip 1 of rows of norm 10 is .1 for rows of norm 1."""
    table, *_ = scripts
    setting = {
        "row_norm": 10,
        "batch_size": 256,
        "learning_rate": 0.5,
        "epochs": 20,
        "epsilon_of_mean": 0.1,
    }
    plain = table.parameters_of(setting, split, "DP-SGD", 1.0)
    assert plain["clip_norm"] == 0.1
    assert plain["learning_rate"] == 5.0
    assert plain["max_iter"] == round(20 * 300 / 256)
    assert plain["centering"] is None
    assert "mean_fraction" not in plain
    centred = table.parameters_of(setting, split, "Algorithm 3", 1.0)
    model = table.estimator(split, 1.0, random_state=0, **table.PAPER_LOOP, **centred)
    events = model.fit(split.X, split.y).privacy_.events
    (mean,) = (event for event in events if event.label == "mean")
    assert 1 / mean.noise_std[0] == pytest.approx(gdp_mu(0.1, table.DELTA))


def test_spreads_are_those_of_the_definition(scripts, split):
    table, *_ = scripts
    rows = split.X / np.linalg.norm(split.X, axis=1, keepdims=True)
    found = table.spreads(split)
    pairs = np.linalg.norm(rows[:, None] - rows, axis=2)
    distances = np.linalg.norm(rows - rows.mean(axis=0), axis=1)
    wanted = [pairs.max(), distances.max(), distances.mean()]
    np.testing.assert_allclose(list(found.values()), wanted, rtol=1e-5)


def test_lines_tell_how_many_runs_there_were(scripts, tmp_path):
    table, _, common = scripts
    store = common.Store(tmp_path / "cells.json", {})
    for seed, accuracy in enumerate((91.0, 92.0)):
        cell = {"accuracy": accuracy, "untuned": True}
        store.cells[f"mnist | 1.0 | DP-SGD | seed {seed}"] = cell
    lines = list(table.table_lines(store, False))
    assert any("DP-SGD" in line and "91.50 (0.7) n=2" in line for line in lines)
    assert any("87.4 (0.1)" in line and "as printed" in line for line in lines)
    assert any("no file of features was given" in line for line in lines)


def test_features_are_read_and_what_is_missing_is_named(scripts, split, tmp_path):
    _, features, _ = scripts
    path = tmp_path / "features.npz"
    parts = {"X": split.X, "y": split.y, "X_test": split.X_test, "y_test": split.y_test}
    np.savez(path, **parts)
    found = features.load_features(path)
    np.testing.assert_array_equal(found.X, split.X)
    for changed, message in (
        ({"X": None}, "has no X"),
        ({"X": split.X[:, :2]}, "the same columns"),
        ({"y": split.y[:-1]}, "one label for each row"),
    ):
        now = {k: v for k, v in (parts | changed).items() if v is not None}
        np.savez(path, **now)
        with pytest.raises(ValueError, match=message):
            features.load_features(path)
    with pytest.raises(OSError, match="nowhere"):
        features.load_features(tmp_path / "nowhere.npz")


def test_the_comparison_runs(tmp_path):
    path = tmp_path / "adaptive.json"
    run = subprocess.run(
        [
            sys.executable,
            str(FOLDER / "adaptive_centring.py"),
            "--quick",
            "--output",
            str(path),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    content = json.loads(path.read_text(encoding="utf-8"))
    best, plain = (
        content["cells"][f"offset 1000 | {method} | seed 0"]
        for method in ("Algorithm 2", "DP-SGD")
    )
    assert best > 85 > 60 > plain
    assert path.with_suffix(".txt").exists()
