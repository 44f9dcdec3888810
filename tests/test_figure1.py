"""The script of paper 1's figure runs, and saves what it prints."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from skfdp.datasets import make_purchase100

SCRIPT = (
    Path(__file__).parents[1] / "benchmarks" / "reproduce" / "figure1_purchase100.py"
)

pytestmark = pytest.mark.skipif(
    not SCRIPT.exists(), reason="the benchmarks are not part of an installed package"
)


@pytest.mark.slow
def test_a_small_figure(tmp_path):
    output, figure = tmp_path / "figure.json", tmp_path / "figure.png"
    command = [sys.executable, str(SCRIPT), "--rows", "1200", "--epsilons", "8"]
    run = subprocess.run(
        [*command, "--output", str(output), "--figure", str(figure)],
        capture_output=True,
        text=True,
        timeout=900,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr
    assert "noise multiplier 1.0" in run.stdout
    assert "generated baskets stand in" in run.stdout
    (row,) = json.loads(output.read_text(encoding="utf-8"))["rows"]
    names = {"default", "dp-sgd", "dp-sgd, paper", "paper 1", "paper 1, paper"}
    names |= {"linear", "linear, uncentred", "with a loop", "class sums"}
    assert {"epsilon", "public", "none", *names} == set(row)
    assert row["dp-sgd"][0] >= row["dp-sgd, paper"][0]
    assert row["paper 1"][0] >= row["paper 1, paper"][0]
    assert all(0 <= row[name][0] <= 100 for name in names)
    assert figure.stat().st_size > 10_000


@pytest.mark.slow
def test_your_copy_of_the_data(tmp_path):
    X, y = make_purchase100(4700, random_state=0)
    copy, output = tmp_path / "mine.npz", tmp_path / "figure.json"
    np.savez(copy, features=X, labels=np.eye(100)[y])
    command = [sys.executable, str(SCRIPT), "--data", str(copy), "--epsilons", "8"]
    run = subprocess.run(
        [*command, "--only", "linear", "--rows", "600", "--output", str(output)],
        capture_output=True,
        text=True,
        timeout=900,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr
    assert "stand in" not in run.stdout
    content = json.loads(output.read_text(encoding="utf-8"))
    assert content["config"]["data"] == "mine.npz"
    (row,) = content["rows"]
    assert row["linear"][0] > 1  # one of a hundred classes


def test_the_trajectory_counts_the_steps_of_the_paper(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import figure1_purchase100

    found = figure1_purchase100.trajectory("replace_one")
    assert list(found.values()) == [16, 48, 160]
    # what docs/theory/algorithms.rst states for ten passes
    assert max(found) == 8.07
    assert max(figure1_purchase100.trajectory("replace_special")) == 5.42
