"""Odd arguments of audits, which fuzzing found: refused in a sentence."""

import numpy as np
import pytest

import skfdp
from skfdp.audit import audit_estimator, audit_mechanism, audit_replay

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
        with pytest.raises(ValueError, match="n_trials=.* must be an int >= 100"):
            audit_mechanism(plan, n_trials=n_trials)
    result = audit_mechanism(plan, n_trials=100, random_state=0)
    for report in (None, MODEL):
        with pytest.raises(TypeError, match="must be a PrivacyReport: pass privacy_"):
            result.attach_to(report)
