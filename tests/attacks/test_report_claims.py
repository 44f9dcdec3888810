"""A report that was read claims no more than its events give."""

import ast
import dataclasses
import json
import math
import pathlib
import re

import numpy as np
import pytest

import skfdp
from skfdp import FeatureDPLogisticRegression
from skfdp.privacy import Event, PrivacyReport, assumptions, read_report
from skfdp.privacy.assumptions import CLIPPED, ONE_STEP, VALUES_CLIPPED, Assumption
from skfdp.solvers import NoisyGradientDescent

EVENT = {"label": "steps", "noise_std": (5.0,), "clip_norm": 1.0, "sensitivity": 1.0}


def made(*events, **changes):
    facts = {"subject": "x", "events": events or (Event(**EVENT),), "delta": 1e-5}
    return PrivacyReport.from_events(**facts | changes)


POISSON = Event(**EVENT, n_steps=50, sampling_rate=0.1)


def read(report, **edit):
    return PrivacyReport.from_dict(json.loads(report.to_json()) | edit)


def test_a_closed_form_changed_by_less_than_one_per_cent_is_refused():
    report = made()
    for share in (0.991, 0.999, 1 - 1e-6, 1.001):
        with pytest.raises(ValueError, match=r"states epsilon=.*it was edited"):
            read(report, epsilon=share * report.epsilon)
        with pytest.raises(ValueError, match=r"states mu=.*it was edited"):
            read(report, mu=share * report.mu)


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


def test_not_checked_cannot_become_enforced():
    report = made(assumptions=(Assumption("bounds", "Bounds were not read."),))
    values = json.loads(report.to_json())
    for assumption in values["assumptions"]:
        assumption["enforced"] = True
    found = PrivacyReport.from_dict(values)
    assert found == report
    assert "Bounds were not read. [NOT checked]" in found.statement(full=True)


def test_a_seed_cannot_become_a_secret():
    report = made(Event(**EVENT, seeded=True))
    values = json.loads(report.to_json())
    for assumption in values["assumptions"]:
        assumption["enforced"] = True
    assert PrivacyReport.from_dict(values) == report
    assert read(report, seeded=False) == report


def test_assumptions_that_were_cut_come_back():
    assert read(made(), assumptions=[]) == made()


def test_there_is_one_list_of_what_is_enforced():
    """No module marks a sentence but through it."""
    for path in pathlib.Path(skfdp.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(getattr(call, "func", None), "id", None)
            if path.name == "assumptions.py":
                continue
            assert name != "_enforced", f"{path}:{call.lineno}"
            if name != "Assumption":
                continue
            marks = [*call.args[2:], *(k.value for k in call.keywords)]
            assert not marks, f"{path}:{call.lineno}"


def edited(report, key, **changes):
    """Read a report in whose file one assumption was edited."""
    values = json.loads(report.to_json())
    for one in values["assumptions"]:
        if one["key"] == key:
            one |= changes
    return PrivacyReport.from_dict(values)


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


def test_each_key_has_one_meaning():
    """No two assumptions of the package share a key, which never changes either."""
    keys = [
        call.args[0].value
        for path in pathlib.Path(skfdp.__file__).parent.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if getattr(getattr(call, "func", None), "id", None)
        in ("Assumption", "_enforced")
    ]
    assert len(keys) == len(set(keys)) > 50
    assert all(re.fullmatch("[a-z]+(_[a-z]+)+", key) for key in keys)


def test_what_estimators_mark_is_in_the_list(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.random((200, 2)), rng.integers(0, 2, 200)
    models = [
        FeatureDPLogisticRegression(
            bounds=(0, 1),
            public_features="all",
            solver=NoisyGradientDescent(max_iter=3),
        ),
        FeatureDPLogisticRegression(
            bounds=(0, 1),
            public_features=[0],
            public_target=True,
            solver=NoisyGradientDescent(max_iter=3),
        ),
        skfdp.FeatureDPRegressor(
            bounds=(0, 1), target_bounds=(0, 1), solver=NoisyGradientDescent(max_iter=3)
        ),
        skfdp.DPSGDFClassifier(bounds=(0, 1), solver=NoisyGradientDescent(max_iter=3)),
    ]
    for model in models:
        report = model.fit(X, y).privacy_
        assert all(
            a in vars(assumptions).values()
            for a in report.assumptions
            if a.enforced and a.key != "noise_secret"
        )
        path = tmp_path / "report.json"
        path.write_text(report.to_json(), encoding="utf-8")
        assert read_report(path) == report


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
    "schema_version": ["1", None],
    "neighboring_relation": [3],
}


@pytest.mark.parametrize(
    "edit",
    [{name: one} for name, values in OTHER_FORMS.items() for one in values],
    ids=repr,
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
