"""What audits return."""

import math

import pytest

from skfdp.audit.mechanism import AuditResult

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


def result(**changes):
    return Result(**FACTS | changes)


@pytest.mark.parametrize(
    ("lower_bound", "passed"),
    [(0.0, True), (1.0, True), (1.1, False), (math.inf, False)],
)
def test_a_claim_is_refuted_by_a_larger_lower_bound(lower_bound, passed):
    found = result(lower_bound=lower_bound)
    assert found.passed == passed
    assert ("REFUTED" in str(found)) != passed


def test_a_result_without_numbers_is_no_success():
    assert not result(lower_bound=math.nan).passed


def test_the_result_in_words():
    assert str(result()) == (
        "Audit by test of Model: 500 trial(s) did not refute epsilon = 1 at delta = "
        "1e-05; lower bound 0.4 at confidence 0.95."
    )
