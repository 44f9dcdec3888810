"""What audits return, and what reports keep of it."""

import dataclasses
import importlib.resources
import json
import math
import pickle

import jsonschema
import pytest

from skfdp._version import __version__
from skfdp.audit.mechanism import AuditResult
from skfdp.privacy import Event, Finding, PrivacyReport
from skfdp.privacy.preprocessing_steps import Lesson

FACTS = {
    "subject": "Model",
    "neighboring_relation": "replace_one",
    "claimed_epsilon": 1.0,
    "delta": 1e-5,
    "lower_bound": 0.4,
    "confidence": 0.95,
    "n_trials": 500,
}


class Result(AuditResult):
    """A result of no audit."""

    audit = "test"


def report(**changes):
    event = Event(label="mean", noise_std=(4.0,), clip_norm=1.0, sensitivity=2.0)
    facts = {"subject": "Model", "events": (event,), "delta": 1e-5}
    return PrivacyReport.from_events(**facts | changes)


def result(**changes):
    return Result(**FACTS | changes)


@pytest.mark.parametrize(
    ("lower_bound", "passed"),
    [(0.0, True), (1.0, True), (1.1, False), (math.inf, False)],
)
def test_a_claim_is_refuted_by_a_larger_lower_bound(lower_bound, passed):
    found = result(lower_bound=lower_bound)
    assert found.passed == found.finding.passed == passed
    assert ("REFUTED" in str(found)) != passed


def test_a_finding_without_numbers_is_no_success():
    assert not result(lower_bound=math.nan).passed


def test_a_report_keeps_findings_in_order_and_changes_no_number():
    before = report()
    after = result(lower_bound=0.2).attach_to(result().attach_to(before))
    assert [found.lower_bound for found in after.findings] == [0.4, 0.2]
    assert {found.version for found in after.findings} == {__version__}
    assert dataclasses.replace(after, findings=()) == before
    assert not before.findings


@pytest.mark.parametrize(
    ("about", "match"),
    [
        ({"subject": "Other"}, "subject='Model', the audit was of 'Other'"),
        ({"neighboring_relation": "replace_special"}, "neighboring_relation='replace_"),
    ],
)
def test_an_audit_of_something_else_is_refused(about, match):
    with pytest.raises(ValueError, match=match):
        result(**about).attach_to(report())
    with pytest.raises(TypeError, match="must be a PrivacyReport: pass privacy_"):
        result(**about).attach_to(None)


@pytest.mark.parametrize("lower_bound", [0.0, 0.4, math.inf])
def test_findings_survive_files(lower_bound):
    place = importlib.resources.files("skfdp.privacy") / "report.schema.json"
    found = result(lower_bound=lower_bound, claimed_epsilon=math.inf)
    kept = found.attach_to(report())
    values = json.loads(kept.to_json())
    jsonschema.validate(values, json.loads(place.read_text()))
    assert PrivacyReport.from_dict(values) == kept
    assert pickle.loads(pickle.dumps(kept)) == kept


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        ({"confidence": 0.0}, "confidence=0.0 must be in"),
        ({"confidence": 1.5}, "confidence=1.5 must be in"),
        ({"lower_bound": -1.0}, "lower_bound=-1.0 must be a number of at least 0"),
        ({"lower_bound": "nan"}, "lower_bound"),
        ({"n_trials": 0}, "n_trials"),
        ({"passed": "yes"}, "passed"),
        ({"delta": 0.0}, "delta=0.0 must"),
        ({"delta": 1.0}, "delta=1.0 must"),
        ({"passed": True, "lower_bound": 2.0}, "passed=True"),
    ],
)
def test_edited_findings_are_refused(edit, match):
    values = result().finding.to_dict()
    with pytest.raises(ValueError, match=match):
        Finding.from_dict(values | edit)


def test_a_finding_of_another_form_is_refused():
    values = json.loads(result().attach_to(report()).to_json())
    values["findings"] = [{"audit": "replay"}]
    with pytest.raises(ValueError, match="Finding lacks the field 'subject'"):
        PrivacyReport.from_dict(values)


def told(kept):
    return " ".join(kept.statement(full=True).split())


def test_the_statement_tells_of_audits():
    statement = told(result().attach_to(report()))
    assert (
        "Audit by test of Model: 500 trial(s) did not refute epsilon = 1 at delta = "
        "1e-05; lower bound 0.4 at confidence 0.95." in statement
    )
    assert "can refute a claim and never prove one" in statement
    assert "Audit" not in report().statement(full=True)
    assert "did not refute it: 1 (see" in result().attach_to(report()).statement()


def test_a_refuted_claim_is_a_warning_of_the_statement_and_of_the_html():
    """Beside what a step learnt, and of the steps of a composed report."""
    kept = result(lower_bound=2.0).attach_to(report())
    assert told(kept).startswith("PRIVACY STATEMENT (VOID: an audit refuted it)")
    leak = Lesson("scaler", "rows", "means")
    leaky = told(dataclasses.replace(kept, learnt=(leak,)))
    assert "learns without privacy and an audit refuted it" in leaky
    whole = dataclasses.replace(report(), steps=(("model", kept),))
    for one in (kept, whole):
        assert "REFUTED" in one.statement()
        assert "REFUTED" in one._repr_html_()
        assert "refuted" in repr(one)
