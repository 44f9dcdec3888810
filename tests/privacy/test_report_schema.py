"""Reports against the published schema, and through pickle and skops."""

import dataclasses
import importlib.resources
import json
import math
import pickle

import jsonschema
import numpy as np
import pandas as pd
import pytest

from skfdp import (
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    FeatureDPRegressor,
    PrivacyLedger,
    PrivateCenteringTransformer,
    report,
)
from skfdp.privacy import AddOrRemoveOne, Event, PrivacyReport
from skfdp.solvers import NoisyGradientDescent, NoisySGD

SOON = NoisyGradientDescent(max_iter=3)
SCHEMA = json.loads(
    (importlib.resources.files("skfdp.privacy") / "report.schema.json").read_text()
)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.random((300, 3)), rng.integers(0, 2, 300)


def pipeline():
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    return make_pipeline(
        FunctionTransformer(),
        PrivateCenteringTransformer(bounds=(0, 1)),
        DPSGDFClassifier(bounds=False, centering=None, solver=SOON),
    )


MODELS = {
    "feature-dp": lambda: FeatureDPLogisticRegression(
        bounds=(0, 1), public_features=[0], solver=SOON
    ),
    "sampled": lambda: FeatureDPLogisticRegression(
        bounds=(0, 1), random_state=0, solver=NoisySGD(batch_size=30, max_iter=3)
    ),
    "one-shot": lambda: FeatureDPLogisticRegression(
        bounds=(0, 1), public_features="all", solver="one-shot"
    ),
    "public target": lambda: FeatureDPLogisticRegression(
        bounds=(0, 1), public_features=[0], public_target=True, solver=SOON
    ),
    "regressor": lambda: FeatureDPRegressor(
        bounds=(0, 1), target_bounds=(0, 1), epsilon=8.0, solver=SOON
    ),
    "whole records": lambda: DPSGDFClassifier(
        bounds=(0, 1), neighboring_relation=AddOrRemoveOne(300), solver=SOON
    ),
    "not private": lambda: DPSGDFClassifier(epsilon=math.inf, bounds=(0, 1)),
    "pipeline": pipeline,
}


@pytest.fixture(scope="module", params=MODELS)
def model(request, data):
    return MODELS[request.param]().fit(*data)


def check(found):
    jsonschema.validate(
        json.loads(found.to_json()), SCHEMA, cls=jsonschema.Draft202012Validator
    )


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_reports_follow_it(model):
    check(report(model))
    check(report(model, delta=1e-3))


def test_the_reports_of_ledgers_follow_it():
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-5)
    check(report(ledger))
    event = Event(
        label="e",
        noise_std=(9.0,),
        clip_norm=1.0,
        sensitivity=1.0,
        public_features=("a",),
    )
    ledger.charge([event])
    ledger.charge([event], label="all")
    check(report(ledger))


def test_it_names_every_field_with_a_description_of_its_own():
    """A new field of the report is a new field of the schema."""
    fields = {field.name for field in dataclasses.fields(PrivacyReport)}
    events = {field.name for field in dataclasses.fields(Event)}
    assert fields < set(SCHEMA["properties"])
    assert set(SCHEMA["required"]) == set(SCHEMA["properties"])
    assert events == set(SCHEMA["$defs"]["event"]["properties"])
    assert events == set(SCHEMA["$defs"]["event"]["required"])


@pytest.mark.parametrize(
    "edit",
    [
        {"epsilon": "infinite"},
        {"epsilon": -1},
        {"delta": 1},
        {"neighboring_relation": "substitute"},
        {"extra": 1},
        {"events": [{}]},
        {"schema_version": 2},
    ],
)
def test_it_refuses_what_is_no_report(data, edit):
    values = report(MODELS["feature-dp"]().fit(*data)).to_dict()
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(values | edit, SCHEMA)


def test_pickles_keep_it(model):
    assert report(pickle.loads(pickle.dumps(model))) == report(model)


def test_skops_keeps_it(model):
    skops = pytest.importorskip("skops.io")
    raw = skops.dumps(model)
    trusted = skops.get_untrusted_types(data=raw)
    assert all(name.startswith("skfdp.") for name in trusted)
    restored = skops.loads(raw, trusted=trusted)
    assert report(restored) == report(model)
    check(report(restored))


def test_skops_keeps_a_ledger_as_a_handle(data, tmp_path):
    skops = pytest.importorskip("skops.io")
    ledger = PrivacyLedger(tmp_path / "l.db", epsilon=9.0, delta=1e-5)
    model = MODELS["feature-dp"]().set_params(ledger=ledger)
    X = pd.DataFrame(data[0], columns=["a", "b", "c"])
    raw = skops.dumps(model.fit(X, data[1]))
    restored = skops.loads(raw, trusted=skops.get_untrusted_types(data=raw))
    restored.fit(X, data[1])
    assert len({entry.charge for entry in ledger.entries}) == 2
    assert report(restored) == restored.privacy_


def test_skops_refuses_a_ledger_in_memory(data):
    skops = pytest.importorskip("skops.io")
    model = MODELS["feature-dp"]().set_params(ledger=PrivacyLedger())
    with pytest.raises(pickle.PicklingError, match=r"use PrivacyLedger\(path\)"):
        skops.dumps(model)
