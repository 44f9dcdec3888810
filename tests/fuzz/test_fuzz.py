"""Fuzzed calls: each works, or is refused in one sentence that shows no datum."""

import json
import logging
import sys
import time
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from sklearn.linear_model import LogisticRegression

import skfdp

sys.path.append(str(Path(__file__).parent))

from fuzz_calls import estimator_calls
from fuzz_files import READERS, command_calls, file_calls
from fuzz_functions import TEMPLATES, text_calls
from fuzz_rule import REFUSALS, SECRETS, faults_of
from fuzz_tables import COLUMNS

HERE = (__name__.partition(".")[0],)
ESTIMATORS = [n for n in skfdp.__all__ if hasattr(getattr(skfdp, n), "fit")]
#: What else is called, and its strategy.
OTHERS = {
    **{name: text_calls(name) for name in TEMPLATES},
    **{name: file_calls(name) for name in READERS},
    "command line": command_calls(),
}


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    """Work in a folder for files that calls make."""
    with pytest.MonkeyPatch.context() as patch, mpl.rc_context():
        mpl.use("Agg")
        mpl.rcParams["figure.max_open_warning"] = 0
        patch.chdir(tmp_path_factory.mktemp("fuzz"))
        yield


def check(strategy, n_examples, *, fresh=False, broken=""):
    """Make calls of a strategy; fail with all faults that begin with `broken`.

    With `fresh` the calls are others each time, and else the same.
    """
    faults = []

    @settings(
        max_examples=n_examples,
        derandomize=not fresh,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(drawn):
        for step, call in drawn.calls():
            found = faults_of(
                call,
                packages=("skfdp", "sklearn", "fuzz_files"),
                refusals=(*REFUSALS, OSError),
            )
            found = [fault for fault in found if fault.startswith(broken)]
            faults.extend(f"{step}: {fault}: {drawn}" for fault in found)

    draw()
    assert not faults, "\n".join(faults)


def calls_of(name):
    return estimator_calls(getattr(skfdp, name))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators(name):
    check(calls_of(name), 6)


@pytest.mark.parametrize("name", OTHERS)
def test_functions_and_files(name):
    check(OTHERS[name], 3)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [*READERS, "command line"])
def test_many_files(name):
    check(OTHERS[name], 300, fresh=True)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [*ESTIMATORS, *TEMPLATES])
def test_many_calls_show_no_datum(name):
    strategy = OTHERS[name] if name in OTHERS else calls_of(name)
    check(strategy, 300, fresh=True, broken="a datum is told")


# -- the rule --------------------------------------------------------------------------
def refuse(kind, message):
    raise kind(message)


class Talkative:
    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


def chained():
    try:
        float("s3cr3t-1")
    except ValueError:
        raise ValueError("X holds text: pass numbers.") from None


def warned(category, message="this is too small: raise it."):
    warnings.warn(message, category, stacklevel=2)


#: By kind: a call that breaks the rule, and a part of the fault that is found.
PLANTED = {
    "a datum": (lambda: refuse(ValueError, "y=0.735194 must be 0."), "a datum is told"),
    "a scaled datum": (lambda: refuse(ValueError, "y=7351.9402 must be 0."), "a datum"),
    "a label": (lambda: refuse(ValueError, "'s3cr3t-3' must be a number."), "a datum"),
    "a date": (lambda: refuse(ValueError, "2173-05-09 must be earlier."), "a datum"),
    "a datum in the cause": (chained, "a datum is told"),
    "a printed datum": (lambda: print("fitted with 0.73519411"), "a datum is told"),
    "a logged datum": (lambda: logging.info("row %s", "s3cr3t-1"), "a datum is told"),
    "a datum in a warning": (lambda: warned(UserWarning, "s3cr3t-1"), "a datum"),
    "a datum in a repr": (lambda: Talkative("0.735194"), "a datum is told"),
    "a broken repr": (lambda: Talkative(3), "its text cannot be made"),
    "a key": (lambda: {}["a"], "KeyError is no refusal"),
    "a recursion": (lambda: refuse(RecursionError, "deep"), "RecursionError is no"),
    "an exit": (lambda: sys.exit(1), "SystemExit is no refusal"),
    "a conversion": (lambda: float("a"), "ValueError was not raised by us"),
    "an attribute": (lambda: (1).fit, "AttributeError was not raised by us"),
    "a library": (lambda: json.loads("{"), "JSONDecodeError was not raised by us"),
    "a trap": (lambda: np.float64(1) / np.float64(0), "FloatingPointError is no"),
    "NumPy's warning": (lambda: warned(RuntimeWarning), "RuntimeWarning: "),
    "a deprecation": (lambda: warned(FutureWarning), "FutureWarning: "),
    "no sentence": (lambda: refuse(ValueError, "bad X"), "is no sentence"),
    "no remedy": (lambda: refuse(ValueError, "X went so wrong"), "expects nothing"),
    "an address": (
        lambda: refuse(ValueError, f"X={object()} must be 0."),
        "an address",
    ),
    "lines": (lambda: refuse(ValueError, "X must be:\n[[0, 1]]"), "has several lines"),
    "an OSError": (lambda: open("/nobody/x"), "FileNotFoundError is no refusal"),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_planted_defects_are_found(kind):
    call, expected = PLANTED[kind]
    found = faults_of(call, packages=HERE)
    assert any(expected in fault for fault in found), found


def test_a_hang_is_found():
    def hang():
        while True:
            time.sleep(0.01)

    began = time.monotonic()
    assert faults_of(hang, time_limit=0.2) == ("the call took longer than 0.2 seconds",)
    assert time.monotonic() - began < 5


def test_what_keeps_the_rule():
    kept = [
        lambda: 3,
        lambda: refuse(ValueError, "bounds=3 must be a pair (low, high)."),
        lambda: warned(UserWarning),
        lambda: warned(skfdp.PrivacyWarning),
        lambda: np.array([0.735194]),  # a result may hold what it likes
        lambda: Talkative("bounds=(0, 1)"),
    ]
    for call in kept:
        assert faults_of(call, packages=HERE) == ()
    assert faults_of(lambda: LogisticRegression().predict([[1.0]])) == ()
    assert faults_of(lambda: open("/nobody/x"), refusals=(*REFUSALS, OSError)) == ()


def test_values_show_their_secret():
    marked = ("unit", "wide", "int", "objects", "decimals", "text", "date", "float32")
    for kind in marked:
        for value in np.asarray(COLUMNS[kind](np.random.default_rng(0), 9)):
            text = str(value).replace(".", "")
            assert any(secret in text for secret in SECRETS), (kind, text)
