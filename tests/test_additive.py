"""The benchmark of additive models: it runs without interpret, resumes, and counts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks" / "reproduce"

pytestmark = pytest.mark.skipif(
    not FOLDER.exists(), reason="the benchmarks are not part of an installed package"
)


@pytest.fixture(scope="module")
def scripts():
    """Import the modules of the folder, and leave no trace of it on the path."""
    sys.path.insert(0, str(FOLDER))
    try:
        import _additive
        import _frames
    finally:
        sys.path.remove(str(FOLDER))
    return _additive, _frames


def run(path, *options):
    found = subprocess.run(
        [sys.executable, str(FOLDER / "additive.py"), "--out", str(path), *options],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    assert found.returncode == 0, found.stderr
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if "table" in line], found.stdout


@pytest.mark.slow
def test_quick_mode_runs_and_resumes(tmp_path):
    path = tmp_path / "results.jsonl"
    first, output = run(path, "--quick")
    # Three tables and two seeds; scikit-learn twice, lines and hats at one budget.
    assert len(first) == 3 * 2 * 4
    assert not [entry for entry in first if "error" in entry]
    assert {entry["task"] for entry in first} == {
        "classification",
        "regression",
        "counts",
    }
    accuracy = [entry["accuracy"] for entry in first if "accuracy" in entry]
    assert min(accuracy) > 80
    assert "hats against lines, n >= 500" in output
    second, again = run(path, "--quick")
    assert second == first
    assert output.endswith(again)


def entries(**runs):
    """Return entries of one table: method -> accuracies of the seeds."""
    place = {"table": "t", "task": "classification", "half": "dev", "n": 600}
    place |= {"widen": 1.0, "epsilon": 1.0}
    return [
        place | {"method": method.replace("_", " "), "seed": seed, "accuracy": score}
        for method, scores in runs.items()
        for seed, score in enumerate(scores)
    ]


def test_the_best_setting_is_the_rival(scripts):
    report = scripts[0]
    found = {"DP-EBM": [80, 81, 82], "DP-EBM_0.1_10_16": [84, 85, 86]}
    found |= {"hats": [83, 83, 83], "DP-EBM_0.3_10_64": [99]}
    cells = report.Cells(entries(**found))
    # A setting that has not run on all seeds would win by chance.
    assert cells.gap("t", 1.0, "accuracy", "hats", "best")[0] == pytest.approx(-2)
    assert cells.gap("t", 1.0, "accuracy", "hats", "DP-EBM")[0] == pytest.approx(2)


@pytest.mark.parametrize(
    ("hats", "at", "clearly", "far"),
    [
        ([81, 81.1, 80.9], 1, 0, 0),
        ([79.8, 79.81, 79.79], 0, 1, 0),
        ([79.4, 79.41, 79.39], 0, 1, 1),
        ([75, 79, 85], 0, 0, 0),
    ],
)
def test_cells_are_counted_beyond_margin_and_noise(scripts, hats, at, clearly, far):
    report = scripts[0]
    cells = report.Cells(entries(hats=hats, lines=[80, 80, 80]))
    last = report.counted(cells, "lines", None)[-1]
    assert last == report._count("all", np.array([1, at, clearly, far]))
    assert not report.counted(cells, "lines", None, least=1000)
    assert not report.counted(cells, "lines", "aside")


def test_tables_are_declared_in_full(scripts):
    frames = scripts[1]
    names = [table.name for table in frames.TABLES]
    assert len(set(names)) == len(names)
    assert set(names) >= frames.ASIDE
    for table in frames.TABLES:
        if table.source:
            continue
        raw = table.load(0)
        assert {*raw.bounds, *raw.categories} == set(raw.X)
        inside = [raw.X[c].between(*raw.bounds[c]).mean() for c in raw.bounds]
        assert min(inside) > 0.99
        assert all(raw.X[c].isin(raw.categories[c]).all() for c in raw.categories)
        low, high = raw.target_bounds
        assert low <= raw.y.min() < raw.y.max() <= high


def test_bounds_grow_by_the_factor(scripts):
    raw = next(t for t in scripts[1].TABLES if t.name == "linear, 1000").load(0)
    for name, (low, high) in raw.widened(5.0).bounds.items():
        old_low, old_high = raw.bounds[name]
        assert high - low == pytest.approx(5 * (old_high - old_low))
        assert low <= old_low < old_high <= high
        assert (low == 0) == (old_low == 0)
