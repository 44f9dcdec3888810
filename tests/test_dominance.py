"""The suite of tables: the script runs and resumes, and finds what breaks the law."""

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
        import _law
        import _tables
    finally:
        sys.path.remove(str(FOLDER))
    return _law, _tables


def run(path, *options):
    found = subprocess.run(
        [sys.executable, str(FOLDER / "dominance.py"), "--out", str(path), *options],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    assert found.returncode == 0, found.stderr
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if "table" in line], found.stdout


@pytest.mark.slow
def test_the_script_resumes_where_it_stopped(tmp_path):
    path = tmp_path / "results.jsonl"
    options = ["--tables", "breast", "--epsilons", "1", "--seeds", "2"]
    first, _ = run(path, *options, "--splits", "nothing", "columns")
    assert len(first) == 2 * (2 + 1 + 2)
    second, output = run(path, *options)
    assert second[: len(first)] == first
    assert len(second) == 2 * (2 + 1 + 5)
    assert not [entry for entry in second if "error" in entry]
    assert {entry["half"] for entry in second} == {"dev"}
    for entry in second:
        assert 0 <= entry["calibration_error"] <= 1
        assert sum(entry["mean_probability"]) == pytest.approx(1, abs=1e-3)
    assert "less protection is never worse" in output


def entries(law, accuracy, loss, less="nothing", more="columns"):
    """Return entries of two methods whose paired shortfalls are given."""
    noise = np.random.default_rng(0).normal(size=len(accuracy))
    found = []
    for seed, (points, more_loss) in enumerate(zip(accuracy, loss, strict=True)):
        place = {"table": "t", "half": "dev", "epsilon": 1.0, "seed": seed}
        base = 80 + 5 * noise[seed], 0.4 + noise[seed]
        first = {"split": less, "accuracy": base[0], "log_loss": base[1]}
        second = {"split": more}
        second |= {"accuracy": base[0] - points, "log_loss": base[1] + more_loss}
        found += [place | first, place | second]
    return law.judge(found)


@pytest.mark.parametrize(
    ("points", "loss", "broken", "by_far"),
    [
        ([1.4, 1.5, 1.6], [0, 0, 0], ["accuracy"], False),
        ([-9, -9, -9], [0.02, 0.02, 0.021], ["log_loss"], False),
        ([2.4, 2.5, 2.6], [0.04, 0.04, 0.041], ["accuracy", "log_loss"], True),
        ([0.9, 0.9, 0.91], [0.009, 0.009, 0.0091], [], False),
        ([-2, 2, 6], [-0.1, 0.1, 0.2], [], False),  # behind on average: noise
        ([-3, -3, -3], [-0.1, -0.1, -0.1], [], False),
    ],
)
def test_the_law_is_broken_beyond_margin_and_noise(
    scripts, points, loss, broken, by_far
):
    (cell,) = entries(scripts[0], points, loss)
    assert cell.broken == broken
    assert cell.by_far == by_far


def test_a_fit_that_fails_breaks_the_law(scripts):
    law = scripts[0]
    place = {"table": "t", "half": "dev", "epsilon": 1.0, "seed": 0}
    good = place | {"split": "nothing", "accuracy": 80.0, "log_loss": 0.4}
    (cell,) = law.judge([good, place | {"split": "columns", "error": "ValueError"}])
    assert cell.broken == ["failed"]
    assert cell.by_far


def test_free_methods_are_compared_at_every_budget(scripts):
    law = scripts[0]
    found = []
    for seed in range(2):
        place = {"table": "t", "half": "dev", "seed": seed}
        scores = {"accuracy": 80.0, "log_loss": 0.4}
        found.append(place | scores | {"split": "public model", "epsilon": None})
        worse = scores | {"accuracy": 70.0, "split": "columns and target"}
        found += [place | worse | {"epsilon": epsilon} for epsilon in (0.1, 8.0)]
    cells = law.judge(found)
    assert [(cell.epsilon, cell.broken) for cell in cells] == [
        (0.1, ["accuracy"]),
        (8.0, ["accuracy"]),
    ]


def test_the_list_is_balanced_and_its_problems_are_plausible(scripts):
    tables = scripts[1]
    names = [table.name for table in tables.TABLES]
    assert len(set(names)) == len(names)
    assert set(names) >= tables.ASIDE
    generated = [name in tables.ASIDE for name in tables.GENERATED]
    assert sum(generated) == len(generated) // 2
    for name, problem in tables.GENERATED.items():
        assert 60 < problem.best_accuracy() < 97.5, name


def test_rows_depend_on_the_seed_and_the_problem_does_not(scripts):
    problem = scripts[1].GENERATED["rare 3 %, 3 columns"]
    first, again, other = (problem.load(seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y_test, again.y_test)
    assert not np.isin(first.X, other.X).any()
    assert first.X.shape == (7000, 3)
    assert len(first.X_test) == 20_000
    for side, bound in zip(first.bounds, other.bounds, strict=True):
        np.testing.assert_array_equal(side, bound)
