"""A sample of fuzzed calls; and the rule for them finds what breaks it."""

import dataclasses
import importlib
import json
import logging
import subprocess
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
from skfdp.audit import audit_estimator, audit_mechanism, audit_replay
from skfdp.audit.fuzz.columns import COLUMNS, PANDAS_COLUMNS
from skfdp.audit.fuzz.expressions import ODD, value_of
from skfdp.audit.fuzz.parameters import BY_NAME, SENSIBLE
from skfdp.audit.fuzz.rule import REFUSALS, SECRETS, check_call
from skfdp.audit.fuzz.tables import FORMS, FRAMES, NAMES, Table
from skfdp.audit.fuzz.targets import HOLDERS, TARGETS, Target
from skfdp.audit.strategies import (
    STEPS,
    EstimatorCall,
    estimator_calls,
    parameters,
    tables,
    targets,
)

SCRIPTS = Path(__file__).parents[2] / "benchmarks" / "audits"
HERE = (__name__.partition(".")[0],)
#: Examples of each estimator, and of each other public name.
SAMPLE, FEW = 12, 3
FUZZED = {
    "DPSGDFClassifier": {},
    "DPSGDFRegressor": {},
    "DeclaredEncoder": {},
    "FeatureDPLogisticRegression": {},
    "FeatureDPMLPClassifier": {},
    "FeatureDPRegressor": {},
    "PrivateCenteringTransformer": {},
    "PrivateCompletionClassifier": {
        "estimator": "GaussianNB()",
        "public_features": "[0]",
    },
    "PrivateSearchCV": {
        "estimator": "DPSGDFClassifier(bounds=(0, 1), max_iter=2, delta=1e-3)",
        "param_distributions": "{'clip_norm': [0.1, 1.0]}",
        "mean_runs": "1.5",
    },
}


def sampled(max_examples):
    return settings(
        max_examples=max_examples,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder for files that calls make, with the scripts at hand."""
    if not SCRIPTS.exists():
        pytest.skip("the benchmarks are not part of an installed package")
    with pytest.MonkeyPatch.context() as patch, mpl.rc_context():
        mpl.use("Agg")
        mpl.rcParams["figure.max_open_warning"] = 0
        patch.chdir(tmp_path_factory.mktemp("fuzz"))
        patch.syspath_prepend(str(SCRIPTS))
        patch.delenv("SKFDP_DATA", raising=False)
        yield importlib.import_module("fuzz")


@pytest.mark.parametrize("name", FUZZED)
def test_estimators(name):
    faults = []

    @sampled(SAMPLE)
    @given(estimator_calls(getattr(skfdp, name), FUZZED[name]))
    def draw(drawn):
        for step, call in drawn.calls():
            for fault in check_call(call, time_limit=120.0).faults:
                faults.append(f"{step}: {fault}: {drawn}")

    draw()
    assert not faults, "\n".join(faults)


def test_every_other_public_name(folder):
    faults, made = [], 0
    others = {k: v for k, v in folder.subjects().items() if k not in FUZZED}
    for strategy, _ in others.values():

        @sampled(FEW)
        @given(strategy())
        def draw(drawn):
            nonlocal made
            for step, call in drawn.calls():
                made += 1
                for fault in folder.judged(call).faults:
                    faults.append(f"{step}: {fault}: {drawn}")

        draw()
    assert not faults, "\n".join(faults)
    assert made >= FEW * len(others)


# -- the rule --------------------------------------------------------------------------
def faults_of(call, **settings):
    return check_call(call, packages=HERE, **settings).faults


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


def printed():
    print("fitted with 0.73519411")


def logged():
    logging.getLogger("a").info("row %s", "s3cr3t-1")


def warned(category, message="this is too small: raise it."):
    warnings.warn(message, category, stacklevel=2)


def of_many_lines():
    refuse(ValueError, "X must be a table:\n[[0, 1]]")


PLANTED = {
    "a datum": (lambda: refuse(ValueError, "y=0.735194 must be 0."), "a datum is told"),
    "a scaled datum": (
        lambda: refuse(ValueError, "y must be 0, not 7351.9402."),
        "a datum is told",
    ),
    "a label": (lambda: refuse(ValueError, "'s3cr3t-3' must be a number."), "a datum"),
    "a date": (lambda: refuse(ValueError, "2173-05-09 must be earlier."), "a datum"),
    "a datum in the cause": (chained, "a datum is told"),
    "a datum that is printed": (printed, "a datum is told"),
    "a datum that is logged": (logged, "a datum is told"),
    "a datum in a warning": (lambda: warned(UserWarning, "s3cr3t-1"), "a datum"),
    "a datum in a repr": (lambda: Talkative("0.735194"), "a datum is told"),
    "a broken repr": (lambda: Talkative(3), "its text cannot be made"),
    "an index": (lambda: [][1], "IndexError is no refusal"),
    "a key": (lambda: {}["a"], "KeyError is no refusal"),
    "a division": (lambda: 1 // 0, "ZeroDivisionError is no refusal"),
    "an overflow": (lambda: float(10**400), "OverflowError is no refusal"),
    "a recursion": (lambda: refuse(RecursionError, "deep"), "RecursionError is no"),
    "an exit": (lambda: sys.exit(1), "SystemExit is no refusal"),
    "a conversion": (lambda: float("a"), "ValueError was not raised by us"),
    "a comparison": (lambda: 1 < "a", "TypeError was not raised by us"),
    "an attribute": (lambda: (1).fit, "AttributeError was not raised by us"),
    "a shape": (lambda: np.ones(2) @ np.ones(3), "ValueError was not raised by us"),
    "a library": (lambda: json.loads("{"), "JSONDecodeError was not raised by us"),
    "a trap": (lambda: np.float64(1) / np.float64(0), "FloatingPointError is no"),
    "NumPy's warning": (lambda: warned(RuntimeWarning), "RuntimeWarning: "),
    "a deprecation": (lambda: warned(FutureWarning), "FutureWarning: "),
    "an unclosed file": (lambda: warned(ResourceWarning), "ResourceWarning: "),
    "no sentence": (lambda: refuse(ValueError, "bad X"), "is no sentence"),
    "no remedy": (
        lambda: refuse(ValueError, "something about X went wrong"),
        "expects nothing",
    ),
    "an address": (
        lambda: refuse(ValueError, f"X={object()} must be a table."),
        "holds an address",
    ),
    "several lines": (of_many_lines, "has several lines"),
    "an OSError": (lambda: open("/nobody/x"), "FileNotFoundError is no refusal"),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_planted_defects_are_found(kind):
    call, expected = PLANTED[kind]
    found = faults_of(call)
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
        assert faults_of(call) == ()
    assert check_call(lambda: LogisticRegression().predict([[1.0]])).faults == ()
    assert faults_of(lambda: open("/nobody/x"), refusals=(*REFUSALS, OSError)) == ()


def test_an_interrupt_is_not_a_find():
    with pytest.raises(KeyboardInterrupt):
        check_call(lambda: refuse(KeyboardInterrupt, ""))


def test_the_state_is_restored():
    before = np.geterr(), logging.getLogger().level, list(logging.getLogger().handlers)
    check_call(lambda: [][1])
    after = np.geterr(), logging.getLogger().level, list(logging.getLogger().handlers)
    assert before == after


# -- what is drawn ---------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore:Casting complex", "ignore:invalid value")
def test_every_kind_of_table_and_target_can_be_made():
    for form in (*FORMS, *FRAMES):
        kinds = [*COLUMNS, *PANDAS_COLUMNS] if form in FRAMES else [*COLUMNS]
        for kind in kinds:
            for n_rows, n_columns in ((30, 2), (1, 1), (0, 3), (2, 0)):
                Table(form, (kind,) * n_columns, n_rows).build()
    for kind in TARGETS:
        for holder in HOLDERS:
            for n_rows in (0, 1, 30):
                Target(kind, holder, n_rows).build()
    for names in NAMES:
        for form in FRAMES:
            Table(form, ("unit",) * 3, 5, names).build()
    for texts in (ODD, SENSIBLE.values(), *BY_NAME.values()):
        for text in texts:
            value_of(text)


def test_values_show_their_secret():
    marked = ("unit", "wide", "int", "objects", "decimals", "text", "date", "float32")
    for kind in marked:
        for value in np.asarray(COLUMNS[kind](np.random.default_rng(0), 9)):
            text = str(value).replace(".", "")
            assert any(secret in text for secret in SECRETS), (kind, text)


def test_a_repr_reproduces_a_table():
    table = Table("frame", ("unit", "text"), 4, "digits", 7)
    again = eval(repr(table))
    assert again == table
    assert again.build().equals(table.build())


class Narrow(skfdp.DPSGDFClassifier):
    """A subclass with a parameter of its own, which is wrong in one case."""

    def __init__(self, epsilon=1.0, delta=1e-5, *, width=1, bounds=None, max_iter=2):
        super().__init__(epsilon, delta, bounds=bounds, max_iter=max_iter)
        self.width = width

    def fit(self, X, y=None):
        if self.width == 7:
            raise IndexError(f"row {np.ravel(X)[0]}")
        return super().fit(X, y)


def first_fault(strategy, n_examples=200):
    found = []

    @sampled(n_examples)
    @given(strategy)
    def draw(drawn):
        for step, call in drawn.calls() if not found else ():
            faults = check_call(call).faults
            if faults and not found:
                found.append((drawn, step, faults[0]))

    draw()
    return found[0]


def test_strategies_find_the_defect_of_a_subclass(folder, monkeypatch):
    drawn, step, fault = first_fault(
        estimator_calls(Narrow, domains={"width": ("1", "7")})
    )
    assert (drawn.spelled["width"], "IndexError" in fault) == ("7", True)
    smallest = folder._smallest(drawn, step, fault)
    assert "width=7" in smallest
    assert "epsilon" not in smallest


def test_strategies_yield_objects():
    @sampled(9)
    @given(tables(n_rows=5, n_columns=2), targets(5), parameters(Narrow))
    def draw(X, y, given):
        assert {"bounds", "max_iter"} <= set(given)
        assert set(given) <= {"epsilon", "delta", *SENSIBLE, "width"} | set(BY_NAME)

    draw()
    call = EstimatorCall(Narrow, {"bounds": "(0, 1)"}, Table(), Target(), ("predict",))
    assert call.parameters == {"bounds": (0, 1)}
    assert call.X.shape == (30, 2) and call.y.shape == (30,)
    assert [step for step, _ in call.calls()] == ["fit", "predict"]
    assert set(call.steps) <= set(STEPS)
    assert dataclasses.is_dataclass(call)


def test_hypothesis_is_asked_for_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.delitem(sys.modules, "skfdp.audit.strategies")
    with pytest.raises(ImportError, match=r"needs hypothesis: pip install 'skfdp\[tes"):
        importlib.import_module("skfdp.audit.strategies")


def test_the_package_does_not_import_hypothesis():
    code = "import sys, skfdp.audit.fuzz.rule; print('hypothesis' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


# -- the script ------------------------------------------------------------------------
def test_the_script_prints_its_counts(folder, tmp_path):
    path = tmp_path / "fuzz.txt"
    command = [sys.executable, str(SCRIPTS / "fuzz.py"), "--only", "gdp_mu"]
    command += ["--calls", "15", "--output", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if line.startswith(("gdp_mu ", "all "))]
    assert [row[0] for row in rows] == ["gdp_mu", "all"]
    for row in rows:
        calls, worked, refused, finds = map(int, row[1:])
        assert (calls, finds) == (15, 0)
        assert worked + refused == 15
    assert max(map(len, lines)) <= 100


def test_a_worker_that_dies_is_a_find(folder, tmp_path, monkeypatch):
    log = tmp_path / "log.jsonl"
    events = [{"begin": "f(1)"}, {"step": "f"}, {"worked": True}, {"begin": "f(2)"}]
    log.write_text("".join(json.dumps(e) + "\n" for e in events), encoding="utf-8")
    tally = folder.Tally()
    folder._read(log, tally, "status -11: ")
    assert (tally.calls, tally.worked) == (2, 1)
    assert tally.finds[0]["call"] == "f(2)"
    assert "f(2)" in folder.table({"f": tally}, seed=0)
    command = [sys.executable, "-c", "import os; os.abort()"]
    assert folder._watch(command, tmp_path, log).startswith("status -")
    monkeypatch.setattr(folder, "SILENCE", 0.5)
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    assert folder._watch(command, tmp_path, tmp_path / "none") == "hang"


# -- what was found of the audits ------------------------------------------------------
X, Y = np.random.default_rng(0).random((12, 2)), np.arange(12) % 2
MODEL = skfdp.DPSGDFClassifier(bounds=(0, 1), max_iter=2, delta=1e-3)
ODD_AUDITS = {
    "a class": (audit_replay, {"estimator": type(MODEL)}, "must be an estimator of"),
    "nothing": (audit_replay, {"X": None}, "X=None must be a table"),
    "a seed": (audit_replay, {"random_state": "x"}, "random_state='x' must be an int"),
    "a table": (audit_replay, {"neighbours": 3}, "neighbours=3 must be None or a list"),
    "an argument": (audit_replay, {"fit_params": {0}}, "fit_params=.* must be None or"),
    "the class": (audit_estimator, {"estimator": type(MODEL)}, "must be an estimator"),
    "a score": (
        audit_estimator,
        {"score": "x"},
        "score='x' must be None or a function",
    ),
    "tails": (audit_estimator, {"tails": np.eye(2)}, "tails=.* is unknown"),
    "a coin": (audit_estimator, {"random_state": -1}, "random_state=-1 must be an int"),
}


@pytest.mark.parametrize("kind", ODD_AUDITS)
def test_odd_arguments_of_audits(kind):
    call, given, message = ODD_AUDITS[kind]
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        call(**{"estimator": MODEL, "X": X, "y": Y} | given)
    assert "\n" not in str(caught.value)


def test_odd_trials_and_reports():
    plan = skfdp.calibrate(1.0, 1e-5, n_steps=1)
    for n_trials in (10**30, np.timedelta64(300, "s"), "x"):
        with pytest.raises(ValueError, match="n_trials=.* must be an integer of at le"):
            audit_mechanism(plan, n_trials=n_trials)
    result = audit_mechanism(plan, n_trials=100, random_state=0)
    for report in (None, MODEL):
        with pytest.raises(TypeError, match="must be a PrivacyReport: pass privacy_"):
            result.attach_to(report)
