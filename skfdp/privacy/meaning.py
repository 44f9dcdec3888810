"""The meaning of epsilon for one person: what somebody could detect."""

from __future__ import annotations

import math

from skfdp.privacy.composition import detection_rate
from skfdp.privacy.report_facts import ReportFacts

# What somebody knows, what they try to tell, and what they detect if they are right.
_GUESSES = {
    "replace_one": (
        "everything except the private part of one record",
        "which of two values it has",
        "the true value",
    ),
    "replace_special": (
        "everything except the private part of one record",
        "whether it was used at all",
        "its use",
    ),
    "add_or_remove_one": (
        "every record except one",
        "whether that one is in the table",
        "its presence",
    ),
}

# The same where all rows of a person are protected together.
_GUESSES_OF_PERSONS = {
    "replace_one": (
        "everything except the private parts of one person's rows",
        "which of two sets of values they have",
        "the true values",
    ),
    "replace_special": (
        "everything except the private parts of one person's rows",
        "whether they were used at all",
        "their use",
    ),
}


def attack_power(report: ReportFacts, false_alarms: float = 0.01) -> float:
    """Return the largest detection rate at a given false-alarm rate.

    It follows from the whole privacy curve of the releases, not from one pair of
    epsilon and delta, and holds for the most exposed record.
    """
    if math.isinf(report.epsilon):
        return 1.0
    return detection_rate(report.events, report.parts, false_alarms)


def detections(report: ReportFacts) -> int:
    """Return in how many of 100 cases a test with 1 % false alarms detects, at most.

    Rounded up, so that "at most" stays true.
    """
    return math.ceil(100 * attack_power(report))


def meaning_text(report: ReportFacts) -> str:
    """Return what epsilon means for one person."""
    if math.isinf(report.epsilon):
        return (
            "NOTHING IS PROTECTED. At least one of the fits ran without privacy "
            "(epsilon = infinity): what was released may reveal any record."
        )
    if report.epsilon == 0 and not report.events:
        return "Nothing was released yet, so nothing was disclosed."
    factor = math.exp(min(report.epsilon, 700.0))
    relation = report.neighboring_relation or "replace_special"
    guesses = _GUESSES_OF_PERSONS if report.unit == "person" else _GUESSES
    known, question, truth = guesses[relation]
    cases = detections(report)
    detected = (
        f"they detect {truth} in at most {cases} of 100"
        if cases < 100
        else f"they may detect {truth} nearly every time"
    )
    return (
        f"Any outcome is at most e^epsilon = {factor:.4g} times as likely with one "
        "table as with its neighbour, apart from a probability delta. Suppose somebody "
        f"knows {known} and tries to tell {question}. If they raise a false alarm in 1 "
        f"of 100 cases, {detected}."
    )
