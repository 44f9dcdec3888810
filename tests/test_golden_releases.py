"""Released integers and coefficients are those that were recorded, to the last bit.

The file ``golden/releases.json`` was written by a version whose releases are trusted
(``python tests/golden/golden_record.py``). A version that moves code must reproduce it;
one that changes what is released writes the cases anew, and says why each of them
changed.
"""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import skfdp

GOLDEN = Path(__file__).parent / "golden"
from golden_cases import CASES  # noqa: E402
from golden_record import FILE, differences, machine, record  # noqa: E402

BY_NAME = {case["name"]: case for case in CASES}
POISSON = "DPSGDFClassifier: Poisson"


@pytest.fixture(scope="module")
def golden():
    return json.loads(FILE.read_text())


@pytest.mark.parametrize("name", BY_NAME)
def test_releases_are_those_that_were_recorded(name, golden):
    wanted, case = golden["cases"][name], BY_NAME[name]
    here = golden["machine"] == machine()
    assert not differences(wanted, record(case), case, here)


def test_every_case_estimator_and_label_is_in_the_file(golden):
    assert [*golden["cases"]] == [*BY_NAME]
    public = {name: getattr(skfdp, name) for name in skfdp.__all__}
    assert {case["estimator"] for case in CASES} == {
        n
        for n, one in public.items()
        # What draws no noise for sums is tested in estimators/test_label_dp.py.
        if hasattr(one, "fit") and hasattr(one, "plan") and "LabelDP" not in n
    }
    drawn = {
        stream.split("#")[0]
        for case in golden["cases"].values()
        for stream in case["streams"]
    }
    assert drawn == {
        *("noise", "coins", "batch", "mean", "row length", "class counts"),
        *("temperature", "target histogram", "target mean", "target spread"),
        *("row lengths", "mean rate", "label statistic"),
        *("row square", "cross moments", "padding", "network"),
        *("binades", "bins"),
        *("rotation", "rough binades", "rough bins 1", "rough bins 2"),
        *("distances from the rough mean", "distances from the mean"),
    }


def test_threads_do_not_change_the_record():
    two = BY_NAME["DPSGDFClassifier: two threads, Poisson"]
    assert two["params"]["n_jobs"] == 2
    one = {**two, "params": {**two["params"], "n_jobs": 1}}
    assert record(one) == record(two)


@pytest.mark.nightly
def test_another_process_with_another_hash_seed_agrees():
    script = [sys.executable, str(GOLDEN / "golden_record.py"), "--check", "Centering"]
    roots = [str(Path(skfdp.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {"PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(roots)}
    done = subprocess.run(
        script,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("change", "says", "elsewhere"),
    [
        (lambda r: r["releases"][0].__setitem__(4, "?"), "other integers", True),
        (lambda r: r["releases"][0].__setitem__(3, "?"), "other sums", True),
        (lambda r: r["releases"][0].__setitem__(2, 1.0), "noise of", True),
        (lambda r: r["releases"].pop(), "releases: ", True),
        (lambda r: r["batches"].reverse(), "batches: ", True),
        (lambda r: r["events"].reverse(), "events: ", True),
        (lambda r: r["streams"].clear(), "streams: ", True),
        (lambda r: r["floats"]["coef_"].__setitem__(1, 0.0), "coef_: moved", True),
        (lambda r: r.update(bits="?"), "bits: ", False),
    ],
)
def test_what_differs_is_said(change, says, elsewhere, golden):
    """On this machine, and on others, where the last bits of floats may differ."""
    wanted, case = golden["cases"][POISSON], BY_NAME[POISSON]
    found = copy.deepcopy(wanted)
    change(found)
    for same_machine in (True, False):
        lines = differences(wanted, found, case, same_machine)
        assert any(says in line for line in lines) == (same_machine or elsewhere)
