"""Drafts for the registry of deployments: its fields, and nothing invented."""

import dataclasses
import json
import math

import numpy as np
import pandas as pd
import pytest

from skfdp import DPSGDFClassifier, FeatureDPLogisticRegression, PrivacyLedger, report
from skfdp.solvers import NoisyGradientDescent

# Fields of the schema of opendp/deployments-registry-data at commit 3e9c812;
# it allows no others.
FIELDS = {
    "basic": (
        "name data_curators intended_use data_product_type data_product_region "
        "description publication_date data_product_sector"
    ),
    "dp_variant": "variant_name data_domain unprotected_quantities",
    "privacy_loss": (
        "privacy_unit privacy_unit_details privacy_parameters "
        "privacy_parameters_details"
    ),
    "deployment_model": (
        "model_name model_name_details actors release_type release_type_details "
        "data_source_type data_source_type_details access_type access_type_details"
    ),
    "accounting": "post_processing composition",
    "implementation": (
        "preprocessing_and_hyperparameter_tuning mechanisms justification"
    ),
    "administrative": "sources notes registry_authors",
}
BLANK = "TO FILL IN: "


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.random((300, 3)), rng.integers(0, 2, 300)


def fitted(data, **more):
    given = {"bounds": (0, 1), "classes": [0, 1], "public_features": ["age"]}
    given["solver"] = NoisyGradientDescent(max_iter=3)
    X = pd.DataFrame(data[0], columns=["age", "crp", "dose"])
    y = pd.Series(data[1], name="ill")
    return FeatureDPLogisticRegression(1.0, **given, **more).fit(X, y)


def test_fields_are_those_of_the_registry(data):
    record = fitted(data).privacy_.to_registry()
    assert set(record) == {"url_slug", "status", "tier", "deployment"}
    assert (record["status"], record["tier"]) == ("Draft", 3)
    deployment = record["deployment"]
    assert set(deployment) == set(FIELDS)
    for part, values in deployment.items():
        assert set(values) <= set(FIELDS[part].split())
    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_what_is_known_is_filled_in(data):
    found = fitted(data).privacy_
    part = found.to_registry()["deployment"]
    assert part["privacy_loss"]["privacy_parameters"] == {
        "epsilon": found.epsilon,
        "delta": found.delta,
    }
    assert part["basic"]["data_product_type"] == "Machine learning model"
    assert part["dp_variant"]["variant_name"] == "Approximate DP"
    unprotected = part["dp_variant"]["unprotected_quantities"]
    assert unprotected.startswith("1 column (age), the number of rows")
    assert part["privacy_loss"]["privacy_unit"] == (
        "record-level: 2 columns (crp, dose) and the target (ill)"
    )
    details = part["privacy_loss"]["privacy_unit_details"]
    assert "may be replaced by any other value" in details
    assert "descent x 3" in part["accounting"]["composition"]
    assert "Gaussian mechanism" in part["implementation"]["mechanisms"]


def blanks(values):
    if isinstance(values, dict):
        return [text for value in values.values() for text in blanks(value)]
    if isinstance(values, list):
        return [text for value in values for text in blanks(value)]
    return [values] if BLANK in str(values) else []


def test_what_nobody_told_is_a_blank(data):
    record = fitted(data).privacy_.to_registry()
    assert len(blanks(record)) == 16
    basic = record["deployment"]["basic"]
    for name in ("name", "intended_use", "publication_date", "data_product_region"):
        assert basic[name].startswith(BLANK)
    model = record["deployment"]["deployment_model"]
    assert model["release_type"].startswith(BLANK)


def test_persons_and_labels_of_the_data(data):
    persons = np.arange(300) // 3
    model = FeatureDPLogisticRegression(1.0, bounds=(0, 1))
    part = model.fit(*data, groups=persons).privacy_.to_registry()["deployment"]
    assert part["privacy_loss"]["privacy_unit"].startswith("person-level")
    assert "100 persons" in part["dp_variant"]["data_domain"]
    unprotected = part["dp_variant"]["unprotected_quantities"]
    assert "which rows belong to one person" in unprotected
    assert "labels was read from the data" in unprotected


def test_a_ledger(data):
    ledger = PrivacyLedger(epsilon=5.0, delta=1e-5)
    for _ in range(2):
        fitted(data, ledger=ledger)
    basic = report(ledger).to_registry()["deployment"]["basic"]
    assert basic["data_product_type"].startswith(BLANK)


def test_an_epsilon_that_does_not_hold_is_not_registered(data):
    found = fitted(data).privacy_
    for changed, why in (
        ({"seeded": True}, "which does not hold: integer seed"),
        ({"epsilon": math.inf}, "nothing to register"),
    ):
        with pytest.raises(ValueError, match=why):
            dataclasses.replace(found, **changed).to_registry()
    free = DPSGDFClassifier(math.inf, bounds=(0, 1), classes=[0, 1]).fit(*data)
    with pytest.raises(ValueError, match="nothing to register"):
        report(free).to_registry()
    with pytest.raises(ValueError, match="nothing to register"):
        report(PrivacyLedger(epsilon=1.0, delta=1e-5)).to_registry()
