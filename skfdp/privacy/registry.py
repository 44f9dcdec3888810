"""Drafts for the registry of deployments of differential privacy.

The fields are those of ``schemas/deployments-schema.yaml`` of
https://github.com/opendp/deployments-registry-data, at commit 3e9c812 of July 2026.
"""

from __future__ import annotations

import math
from typing import Any

from skfdp.privacy.report_text import (
    CONTEXT,
    Report,
    annex,
    learnt_texts,
    limits,
    open_text,
    private_text,
    protected_text,
    relation_text,
    void_text,
)

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


def draft(report: Report) -> dict[str, Any]:
    """Return a record of the registry, with blanks; `PrivacyReport.to_registry`."""
    if math.isinf(report.epsilon) or not report.events:
        raise ValueError(
            f"{report.subject} has nothing to register: it released nothing with "
            "differential privacy."
        )
    if (why := void_text(report)) is not None:
        raise ValueError(
            f"{report.subject} cannot be registered with epsilon="
            f"{report.epsilon:.6g}, which does not hold: {why}."
        )
    kind = "Machine learning model"
    if "PrivacyLedger" in report.subject:
        kind = f"{BLANK}Machine learning model, or Summary statistics"
    elif report.subject in _STATISTICS:
        kind = "Summary statistics"
    stated = {name: report.context.get(name) for name in CONTEXT}
    releases = ", ".join(f"{event.label} x {event.n_steps}" for event in report.events)
    taken = (one.text for one in report.assumptions if not one.enforced)
    learnt = (f"Step {one}" for one in learnt_texts(report))
    sections = {name: " ".join(texts) for name, texts in annex(report)}
    read = any(event.classes_source == "data" for event in report.events)
    return {
        "url_slug": f"{BLANK}a short name in lower case, with hyphens",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": f"{BLANK}the name of the data product",
                "data_curators": [stated["by"] or f"{BLANK}who publishes it"],
                "intended_use": stated["purpose"] or f"{BLANK}what it is for",
                "data_product_type": kind,
                "data_product_region": f"{BLANK}whose data, and whose laws apply",
                "description": f"{BLANK}what it is ({report.subject}, by skfdp)",
                "publication_date": f"{BLANK}YYYY-MM-DD",
                "data_product_sector": (
                    f"{BLANK}Technology, Healthcare, Education, Government, Energy, or "
                    "Finance"
                ),
            },
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": f"Tables. Private: {protected_text(report)}",
                "unprotected_quantities": open_text(report)
                + " The set of labels was read from the data." * read,
            },
            "privacy_loss": {
                "privacy_unit": f"{report.unit}-level: {private_text(report)}",
                "privacy_unit_details": (
                    f"{relation_text(report)} {limits(report)[1]}"
                ),
                "privacy_parameters": {
                    "epsilon": report.epsilon,
                    "delta": report.delta,
                },
                "privacy_parameters_details": sections["Numbers"],
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": f"{BLANK}who holds the rows, trains, and gets the product",
                "release_type": f"{BLANK}One release, or Many releases",
                "release_type_details": f"{BLANK}what else will be released of them",
                "data_source_type": f"{BLANK}Static, or Dynamic",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": (
                    "Whatever is computed from the released parts alone: predictions "
                    f"for new rows, for example. Released: {sections['Released']}."
                ),
                "composition": (
                    "One adaptive composition of all releases of "
                    f"{report.n_fits} fit(s): {releases}. Accountant: "
                    f"{report.accountant}."
                ),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": " ".join(
                    [
                        *learnt,
                        *(f"Taken for granted: {text}" for text in taken),
                        f"{BLANK}how parameters were chosen, and what was looked at "
                        "before.",
                    ]
                ),
                "mechanisms": f"Gaussian mechanism. {sections['Computation']}",
                "justification": f"{BLANK}why these columns, this unit, this epsilon",
            },
            "administrative": {
                "sources": f"{BLANK}links",
                "notes": (
                    "Drafted from the privacy report of skfdp. Not covered by its "
                    f"numbers: {sections['Not covered']}"
                ),
                "registry_authors": [f"{BLANK}who fills in this record"],
            },
        },
    }
