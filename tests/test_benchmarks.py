"""The benchmark scripts run, and their results have the documented shape."""

import json
import math
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "reproduce" / "untuned.py"

pytestmark = pytest.mark.skipif(
    not SCRIPT.exists(), reason="the benchmarks are not part of an installed package"
)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    path = tmp_path_factory.mktemp("results") / "quick.json"
    run = subprocess.run(
        [sys.executable, str(SCRIPT), "--quick", "--output", str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr
    return path, run.stdout


@pytest.mark.slow
def test_quick_mode_writes_a_complete_table(quick):
    path, output = quick
    content = json.loads(path.read_text(encoding="utf-8"))
    assert {"cells", "config", "date", "machine", "rows", "summary", "versions"} == set(
        content
    )
    assert {"skfdp", "numpy", "scikit-learn"} <= set(content["versions"])
    assert len(content["rows"]) == 4
    for row in content["rows"]:
        for kind in ("default", "grid", "plain", "sklearn"):
            assert 0 <= row[kind]["accuracy"] <= 100
            assert 0 < row[kind]["log_loss"] < math.inf
        difference = row["grid"]["accuracy"] - row["default"]["accuracy"]
        assert row["gap"] == pytest.approx(difference)
        assert row["gap_se"] >= 0
        assert row["data"] in output
    assert content["summary"]["epsilon >= 0.3"]["n_cells"] == 3
    assert "marks: mean 0.35, worst 1.8" in output


def test_the_regressors_script_runs(tmp_path):
    path = tmp_path / "regressors.json"
    run = subprocess.run(
        [
            sys.executable,
            str(SCRIPT.parent / "regressors.py"),
            "--quick",
            "--output",
            str(path),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    # two sets and two budgets: five models for squared error, four for counts
    assert len(cells) == 2 + 2 * (5 + 4)
    assert cells["ink | 8 | DPSGDF"]["score"] > 0.3
    assert cells["diabetes | 8 | DPSGDF"]["score"] > 0.2


def test_the_script_of_public_parts_of_regressors_runs(tmp_path):
    path = tmp_path / "regressors_public.json"
    run = subprocess.run(
        [
            sys.executable,
            str(SCRIPT.parent / "regressors_public.py"),
            "--quick",
            "--output",
            str(path),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    # one set and one budget: scikit-learn twice, four splits
    assert len(cells) == 2 + 4
    assert cells["diabetes | sklearn | all"][0] > 0.3
    assert cells["diabetes | 1 | both"][0] > 0.2


def test_default_is_useful_at_a_large_budget(quick):
    content = json.loads(quick[0].read_text(encoding="utf-8"))
    rows = {(row["data"], row["epsilon"]): row for row in content["rows"]}
    assert rows["wine", 8.0]["default"]["accuracy"] > 80


def test_a_finished_run_is_not_computed_again(quick, monkeypatch, capsys):
    path, output = quick
    before = json.loads(path.read_text(encoding="utf-8"))
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    monkeypatch.setattr(sys, "argv", [SCRIPT.name, "--quick", "--output", str(path)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    after = json.loads(path.read_text(encoding="utf-8"))
    assert after["cells"] == before["cells"]
    assert after["rows"] == before["rows"]
    assert capsys.readouterr().out == output


def test_private_search_in_quick_mode(tmp_path):
    path = tmp_path / "search.json"
    script = SCRIPT.with_name("private_search.py")
    run = subprocess.run(
        [sys.executable, str(script), "--quick", "--output", str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert [row["family"] for row in rows] == ["near the defaults", "plain descent"]
    for row in rows:
        for arm in ("any", "search", "logarithmic", "compose", "oracle"):
            assert 0 <= row[arm]["accuracy"] <= 100
            assert f"{row[arm]['accuracy']:.2f}" in run.stdout
    assert "default" in rows[0] and "default" not in rows[1]


def test_peers_writes_medians_with_quartiles(tmp_path):
    path = tmp_path / "peers.json"
    script = SCRIPT.parents[1] / "peers.py"
    command = [sys.executable, str(script), "--only", "small", "--batches", "64"]
    run = subprocess.run(
        [*command, "--rounds", "2", "--clock", "cpu", "--output", str(path)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    rows = json.loads(path.read_text(encoding="utf-8"))["sections"]["small"]["batch 64"]
    assert set(rows) == {"skfdp", "NumPy, two products"}
    assert rows["skfdp"]["ratio"] == [1, 1, 1]
    for row in rows.values():
        assert 0 < row["ms"][0] <= row["ms"][1] <= row["ms"][2]
    assert "NumPy, two products" in run.stdout


def test_the_script_of_the_sampler_prints_what_the_docs_state():
    script = SCRIPT.with_name("sampler_tail.py")
    run = subprocess.run(
        [sys.executable, str(script), "--quick"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    # the plan of a million columns: what no delta held, and what the cipher adds
    lines = [" ".join(line.split()) for line in run.stdout.splitlines()]
    (plan,) = (line for line in lines if "1,000,000 x 200 2^34" in line)
    assert [part.strip() for part in plan.split("|")[1:]] == ["2.9e-06", "0", "1.5e-23"]
    assert "2^34: -45.0, -14.1" in lines
    error = float(lines[-1].split(":")[1].split()[0])
    assert 3 < error < 11
