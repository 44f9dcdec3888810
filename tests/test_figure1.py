"""The script of paper 1's figure runs, and saves what it prints."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = (
    Path(__file__).parents[1] / "benchmarks" / "reproduce" / "figure1_purchase100.py"
)

pytestmark = pytest.mark.skipif(
    not SCRIPT.exists(), reason="the benchmarks are not part of an installed package"
)


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
    (row,) = json.loads(output.read_text(encoding="utf-8"))["rows"]
    names = {"default", "dp-sgd", "dp-sgd, paper", "paper 1", "linear"}
    names |= {"with a loop", "class sums"}
    assert {"epsilon", "public", "none", *names} == set(row)
    assert row["dp-sgd"][0] >= row["dp-sgd, paper"][0]
    assert all(0 <= row[name][0] <= 100 for name in names)
    assert figure.stat().st_size > 10_000
