"""A report that was read claims no more than its events give, in a published form."""

import ast
import dataclasses
import importlib.resources
import json
import math
import pathlib
import pickle
import re

import jsonschema
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skfdp
from skfdp import (
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    FeatureDPRegressor,
    PrivacyLedger,
    PrivateCenteringTransformer,
    report,
)
from skfdp.privacy import AddOrRemoveOne, Event, PrivacyReport, assumptions, read_report
from skfdp.privacy.assumptions import CLIPPED, ONE_STEP, VALUES_CLIPPED, Assumption
from skfdp.solvers import NoisyGradientDescent, NoisySGD

EVENT = {"label": "steps", "noise_std": (5.0,), "clip_norm": 1.0, "sensitivity": 1.0}

POISSON = Event(**EVENT, n_steps=50, sampling_rate=0.1)

SOON = NoisyGradientDescent(max_iter=3)

SCHEMA = json.loads(
    (importlib.resources.files("skfdp.privacy") / "report.schema.json").read_text()
)


def made(*events, **changes):
    facts = {"subject": "x", "events": events or (Event(**EVENT),), "delta": 1e-5}
    return PrivacyReport.from_events(**facts | changes)


def read(report, **edit):
    return PrivacyReport.from_dict(json.loads(report.to_json()) | edit)


def edited(report, key, **changes):
    """Read a report in whose file one assumption was edited."""
    values = json.loads(report.to_json())
    for one in values["assumptions"]:
        if one["key"] == key:
            one |= changes
    return PrivacyReport.from_dict(values)


# -- what an editor may change --------------------------------------------------------
def test_a_closed_form_changed_by_less_than_one_per_cent_is_refused():
    report = made()
    for share in (0.991, 0.999, 1 - 1e-6, 1.001):
        with pytest.raises(ValueError, match=r"states epsilon=.*it was edited"):
            read(report, epsilon=share * report.epsilon)
        with pytest.raises(ValueError, match=r"states mu=.*it was edited"):
            read(report, mu=share * report.mu)
    for edit in ({"delta": 1e-3}, {"events": []}):
        with pytest.raises(ValueError, match="it was edited: ask for the original"):
            read(report, **edit)


def test_a_lowered_distribution_is_raised():
    """Another version's discretisation is no edit, but no smaller number holds."""
    report = made(POISSON)
    found = read(report, epsilon=0.991 * report.epsilon)
    assert found == read(report) == report
    assert read(report, epsilon=1.005 * report.epsilon).epsilon == report.epsilon
    for share in (0.98, 1.02):
        with pytest.raises(ValueError, match="it was edited"):
            read(report, epsilon=share * report.epsilon)
    with pytest.raises(ValueError, match="it was edited"):
        read(report, mu=0.1)


@pytest.mark.parametrize("seeded", [False, True])
def test_not_checked_cannot_become_enforced(seeded):
    """Nor a seed a secret; and assumptions that were cut come back."""
    event = Event(**EVENT, seeded=seeded)
    report = made(event, assumptions=(Assumption("bounds", "Bounds were not read."),))
    values = json.loads(report.to_json())
    for assumption in values["assumptions"]:
        assumption["enforced"] = True
    found = PrivacyReport.from_dict(values)
    assert found == report
    assert "Bounds were not read. [NOT checked]" in found.statement(full=True)
    assert read(report, seeded=False) == report
    assert read(made(event), assumptions=[]) == made(event)


def test_there_is_one_list_of_what_is_enforced_and_each_key_has_one_meaning():
    """No module marks a sentence but through it; no key is used twice, or changes."""
    keys = []
    for path in pathlib.Path(skfdp.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for call in ast.walk(ast.parse(text)) if "Assumption(" in text else ():
            name = getattr(getattr(call, "func", None), "id", None)
            if name not in ("Assumption", "_enforced"):
                continue
            keys.append(call.args[0].value)
            if path.name != "assumptions.py":
                marks = [*call.args[2:], *(k.value for k in call.keywords)]
                assert name == "Assumption" and not marks, f"{path}:{call.lineno}"
    assert len(keys) == len(set(keys)) > 50
    assert all(re.fullmatch("[a-z]+(_[a-z]+)+", key) for key in keys)


def test_an_assumption_is_recognised_by_its_key():
    """Also if another version worded it differently; a reader sees our own text."""
    report = made(assumptions=(ONE_STEP,))
    for ours in (CLIPPED, ONE_STEP):
        assert edited(report, ours.key, text="It was worded differently.") == report


def test_a_key_lends_no_mark_to_another_sentence():
    forged = Assumption(VALUES_CLIPPED.key, "Bounds were not read.", enforced=True)
    found = read(made(), assumptions=[dataclasses.asdict(forged)])
    assert found == made(assumptions=(VALUES_CLIPPED,))
    assert "Bounds were not read" not in found.statement(full=True)
    other = dataclasses.replace(forged, key="values_were_clipped")
    found = read(made(), assumptions=[dataclasses.asdict(other)])
    assert dataclasses.replace(other, enforced=False) in found.assumptions


def pipeline():
    first, second = made(), made(POISSON)
    return made(
        *first.events,
        *second.events,
        steps=(("a", first), ("b", second)),
        n_fits=2,
    )


def test_a_pipeline_cannot_leave_out_a_step():
    report = pipeline()
    assert read(report) == report
    values = json.loads(report.to_json())
    assert read(report, n_fits=1) == report
    alone = json.loads(made().to_json())
    with pytest.raises(ValueError, match="its steps have 2 other events"):
        PrivacyReport.from_dict(alone | {"steps": values["steps"]})
    values["steps"][0]["report"]["epsilon"] *= 0.995
    with pytest.raises(ValueError, match="it was edited"):
        PrivacyReport.from_dict(values)


def test_a_seeded_step_seeds_the_whole():
    values = json.loads(pipeline().to_json())
    values["steps"][1]["report"]["seeded"] = True
    assert values["seeded"] is False and PrivacyReport.from_dict(values).seeded


def test_a_step_without_privacy_leaves_none():
    values = json.loads(pipeline().to_json())
    values["steps"][0]["report"] = json.loads(made(nonprivate=True).to_json())
    with pytest.raises(ValueError, match="states epsilon="):
        PrivacyReport.from_dict(values)


RECEIPT = dataclasses.asdict(PrivacyLedger().charge([Event(**EVENT)]))
OTHER_FORMS = {
    "epsilon": ["0.5", True, None, math.nan, -1],
    "delta": ["1e-5", 2],
    "mu": ["0.2", math.nan],
    "n_fits": [1.5, "1"],
    "n_records": [-1],
    "seeded": ["no"],
    "public_target": [0],
    "public_features": ["age"],
    "private_features": [[1.5]],
    "public_sources": ["age", [1.5]],
    "events": ["x", [1], None],
    "accountant": [3],
    "assumptions": [
        [{"key": "a", "text": "x", "enforced": "yes"}],
        [{"key": "a", "text": 3, "enforced": True}],
        [{"text": "x", "enforced": True}],
        ["x"],
    ],
    "learnt": [
        *("x", [{"step": "a", "learns": "rows"}]),
        [{"step": "a", "learns": "little", "reason": "x"}],
    ],
    "steps": [[{"name": "a"}]],
    "audit": [{"epsilon_lower": 0.1, "confidence": 0.9, "method": "x"}, 0],
    "versions": ["x", {"a": 1}],
    "released": ["coef_"],
    "receipts": [
        [RECEIPT | one] for one in ({"charge": "1"}, {"charge": 0}, {"head": [1]})
    ],
    "schema_version": ["1", None],
    "neighboring_relation": [3],
}


@pytest.mark.parametrize(
    "edit",
    [{name: one} for name, values in OTHER_FORMS.items() for one in values],
)
def test_fields_of_another_form(edit):
    with pytest.raises(ValueError, match=r"\w+") as error:
        read(made(), **edit)
    assert "\n" not in str(error.value)


def test_public_columns_are_not_listed_as_private():
    report = made(Event(**EVENT, public_features=("age",)), feature_names=["age", "b"])
    assert read(report, private_features=["age", "b"]) == read(report) == report
    assert read(report, public_features=[]) == report
    assert read(report, neighboring_relation="replace_special") == report


def test_without_privacy_nothing_else_is_claimed():
    report = made(nonprivate=True)
    assert read(report) == report
    assert read(report, neighboring_relation="replace_one") == report
    with pytest.raises(ValueError, match="states mu="):
        read(report, mu=0.1)


# -- reports of fits: the schema, pickle and skops ------------------------------------
@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.random((300, 3)), rng.integers(0, 2, 300)


LOGISTIC = FeatureDPLogisticRegression(bounds=(0, 1), public_features=[0], solver=SOON)
SAMPLED = NoisySGD(batch_size=30, max_iter=3)
SGD = DPSGDFClassifier(bounds=(0, 1), solver=SOON)
MODELS = {
    "feature-dp": LOGISTIC,
    "sampled": clone(LOGISTIC).set_params(random_state=0, solver=SAMPLED),
    "one-shot": clone(LOGISTIC).set_params(public_features="all", solver="one-shot"),
    "public target": clone(LOGISTIC).set_params(public_target=True),
    "regressor": FeatureDPRegressor(8.0, bounds=(0, 1), target_bounds=(0, 1)),
    "whole records": clone(SGD).set_params(neighboring_relation=AddOrRemoveOne(300)),
    "not private": clone(SGD).set_params(epsilon=math.inf),
    "pipeline": make_pipeline(
        FunctionTransformer(),
        PrivateCenteringTransformer(bounds=(0, 1)),
        clone(SGD).set_params(bounds=False, centering=None),
    ),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request, data):
    return clone(MODELS[request.param]).fit(*data)


def check(found):
    jsonschema.validate(
        json.loads(found.to_json()), SCHEMA, cls=jsonschema.Draft202012Validator
    )


def test_reports_follow_the_schema_and_travel(model, tmp_path):
    found = report(model)
    check(found)
    check(report(model, delta=1e-3))
    assert report(pickle.loads(pickle.dumps(model))) == found
    (tmp_path / "report.json").write_text(found.to_json(), encoding="utf-8")
    assert read_report(tmp_path / "report.json") == found
    assert all(
        a in vars(assumptions).values()
        for a in found.assumptions
        if a.enforced and a.key != "noise_secret"
    )


def test_skops_keeps_it(model):
    skops = pytest.importorskip("skops.io")
    raw = skops.dumps(model)
    trusted = skops.get_untrusted_types(data=raw)
    assert all(name.startswith("skfdp.") for name in trusted)
    restored = skops.loads(raw, trusted=trusted)
    assert report(restored) == report(model)
    check(report(restored))


def test_the_reports_of_ledgers_and_persons_follow_it():
    ledger = PrivacyLedger(epsilon=9.0, delta=1e-5)
    check(report(ledger))
    for _ in range(2):
        ledger.charge([Event(**EVENT, public_features=("a",), unit="person")])
    check(report(ledger))


def test_it_names_every_field_with_a_description_of_its_own():
    """A new field of the report is a new field of the schema."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
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
    values = report(clone(LOGISTIC).fit(*data)).to_dict()
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(values | edit, SCHEMA)


def test_skops_keeps_a_ledger_as_a_handle(data, tmp_path):
    skops = pytest.importorskip("skops.io")
    ledger = PrivacyLedger(tmp_path / "l.db", epsilon=9.0, delta=1e-5)
    model = clone(LOGISTIC).set_params(ledger=ledger)
    X = pd.DataFrame(data[0], columns=["a", "b", "c"])
    raw = skops.dumps(model.fit(X, data[1]))
    restored = skops.loads(raw, trusted=skops.get_untrusted_types(data=raw))
    restored.fit(X, data[1])
    assert len({entry.charge for entry in ledger.entries}) == 2
    assert report(restored) == restored.privacy_


def test_skops_refuses_a_ledger_in_memory(data):
    skops = pytest.importorskip("skops.io")
    model = clone(LOGISTIC).set_params(ledger=PrivacyLedger())
    with pytest.raises(pickle.PicklingError, match=r"use PrivacyLedger\(path\)"):
        skops.dumps(model)
