"""Drafts for the registry of deployments of differential privacy.

The fields are those of ``schemas/deployments-schema.yaml`` of
https://github.com/opendp/deployments-registry-data, at commit 3e9c812 of July 2026.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from skfdp.privacy import statement as wording
from skfdp.privacy import unit_texts
from skfdp.privacy.relations import Relation
from skfdp.privacy.report_facts import ReportFacts

#: How a text begins that nobody but the user can write.
BLANK = "TO FILL IN: "
# Estimators that publish numbers about a table rather than a model of it.
_STATISTICS = (
    "PrivateBounds",
    "PrivateCenteringTransformer",
    "PrivateScore",
    "PrivateTemperature",
    "PrivateThreshold",
)


def draft(report: ReportFacts) -> dict[str, Any]:
    """Return a record of the registry, with blanks; `PrivacyReport.to_registry`."""
    if math.isinf(report.epsilon) or not report.events:
        raise ValueError(
            f"{report.subject} has nothing to register: it released nothing with "
            "differential privacy."
        )
    if (why := wording.void_text(report)) is not None:
        raise ValueError(
            f"{report.subject} cannot be registered with epsilon="
            f"{report.epsilon:.6g}, which does not hold: {why}."
        )
    return {
        "url_slug": f"{BLANK}a short name in lower case, with hyphens",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": _basic(report),
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": _domain(report),
                "unprotected_quantities": " ".join(_unprotected(report)),
            },
            "privacy_loss": _loss(report),
            "deployment_model": _model(),
            "accounting": {
                "post_processing": (
                    "Whatever is computed from the released parts alone: predictions "
                    f"for new rows, for example. Released: {_listed(report.released)}."
                ),
                "composition": _composition(report),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": " ".join(_before(report)),
                "mechanisms": _mechanisms(report),
                "justification": f"{BLANK}why these columns, this unit, this epsilon",
            },
            "administrative": {
                "sources": f"{BLANK}links",
                "notes": (
                    "Drafted from the privacy report of skfdp. Not covered by its "
                    f"numbers: {' '.join(wording.not_covered(report))}"
                ),
                "registry_authors": [f"{BLANK}who fills in this record"],
            },
        },
    }


def _basic(report: ReportFacts) -> dict[str, Any]:
    statistics = report.subject in _STATISTICS
    ledger = "PrivacyLedger" in report.subject
    return {
        "name": f"{BLANK}the name of the data product",
        "data_curators": [f"{BLANK}who publishes it"],
        "intended_use": f"{BLANK}what it is for",
        "data_product_type": (
            f"{BLANK}Machine learning model, or Summary statistics"
            if ledger
            else "Summary statistics"
            if statistics
            else "Machine learning model"
        ),
        "data_product_region": f"{BLANK}whose data, and whose laws apply",
        "description": f"{BLANK}what it is ({report.subject}, fitted by skfdp)",
        "publication_date": f"{BLANK}YYYY-MM-DD",
        "data_product_sector": (
            f"{BLANK}Technology, Healthcare, Education, Government, Energy, or Finance"
        ),
    }


def _domain(report: ReportFacts) -> str:
    n = report.n_records
    rows = (
        unit_texts.counted_text(report) if n is None else unit_texts.unit_text(report)
    )
    return (
        f"Tables ({rows}) whose private part is {wording.private_text(report)}, and "
        f"whose public part is {wording.public_text(report)}."
    )


def _unprotected(report: ReportFacts) -> Iterable[str]:
    yield f"Exact and public in each record: {wording.public_text(report)}."
    if Relation.of(report.neighboring_relation or "").counts_are_public:
        yield "The number of records is public."
    if report.unit == "person":
        yield unit_texts.PARTITION
    if any(event.classes_source == "data" for event in report.events):
        yield "The set of labels was read from the data."
    yield "Column names and all parameters are public."


def _loss(report: ReportFacts) -> dict[str, Any]:
    private = wording.private_text(report)
    return {
        "privacy_unit": f"{report.unit}-level, of the private columns: {private}",
        "privacy_unit_details": (
            f"{unit_texts.relation_text(report)} The unit is {report.unit}, of which "
            f"protected: {private}. {unit_texts.limits(report)[1]}"
        ),
        "privacy_parameters": {"epsilon": report.epsilon, "delta": report.delta},
        "privacy_parameters_details": " ".join(wording.numbers(report)),
    }


def _model() -> dict[str, str]:
    return {
        "model_name": "Central",
        "actors": f"{BLANK}who holds the rows, who trains, who gets the product",
        "release_type": f"{BLANK}One release, or Many releases",
        "release_type_details": f"{BLANK}what else will be released from these rows",
        "data_source_type": f"{BLANK}Static, or Dynamic",
        "access_type": "Non-interactive",
    }


def _composition(report: ReportFacts) -> str:
    releases = _listed(f"{event.label} x {event.n_steps}" for event in report.events)
    return (
        f"One adaptive composition of all releases of {report.n_fits} fit(s): "
        f"{releases}. Accountant: {report.accountant}."
    )


def _before(report: ReportFacts) -> Iterable[str]:
    yield f"{report.n_fits} fit(s) were counted, and no other."
    for lesson in report.learnt:
        yield f"Step {lesson.step} learns {lesson.learns}: {lesson.reason}."
    for assumption in report.assumptions:
        if not assumption.enforced:
            yield f"Taken for granted: {assumption.text}"
    yield f"{BLANK}how parameters were chosen, and what was looked at before."


def _mechanisms(report: ReportFacts) -> str:
    versions = _listed(f"{name} {one}" for name, one in report.versions.items())
    events = "; ".join(dict.fromkeys(map(wording.event_text, report.events)))
    return (
        f"Gaussian mechanism. {events}. Generator: "
        f"{wording.generator_text(report.seeded)}. {wording.NUMERICS} Versions: "
        f"{versions}."
    )


def _listed(texts: Iterable[Any]) -> str:
    return ", ".join(map(str, texts)) or "not recorded"
