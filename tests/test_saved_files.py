"""Files that earlier versions saved load, predict and report as they did."""

import dataclasses
import inspect
import json
import pickle
import re
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import skfdp
from skfdp.cli import saving

SAVED = Path(__file__).parent / "golden" / "saved"
#: Oldest first; a07e582 is of before columns and targets had names.
VERSIONS = ("a07e582", "d65af2a")
FILES = sorted(path for version in VERSIONS for path in (SAVED / version).iterdir())
MODELS = [
    path
    for path in FILES
    if path.suffix in (".pickle", ".joblib", ".skops") and "fact-" not in path.name
]
FACTS = [path for path in FILES if path.name.startswith("fact-")]
ESTIMATORS = [name for name in skfdp.__all__ if hasattr(getattr(skfdp, name), "fit")]

# What scikit-learn says of models of its own that another version saved.
pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.InconsistentVersionWarning"
)


def ids(path):
    return f"{path.parent.name}-{path.name}"


def load(path):
    if path.suffix == ".skops":
        io = pytest.importorskip("skops.io")
        return io.load(path, trusted=io.get_untrusted_types(file=path))
    return joblib.load(path) if path.suffix == ".joblib" else load_pickle(path)


def load_pickle(path):
    return pickle.loads(path.read_bytes())


def about(path):
    return json.loads((path.parent / "about.json").read_text())


def assert_as_before(found, expected):
    if expected.dtype.kind == "f":
        rtol = 1e-5 if expected.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("path", MODELS, ids=ids)
def test_predictions_are_those_of_before(path):
    expected = np.load(path.parent / "expected.npz")
    if path.stem == "command-line":
        rows = pd.read_csv(path.parent / "rows.csv")
        model = saving.load(path)
        assert_as_before(model.decision_function(rows), expected[path.name])
        return
    model, table = load(path), expected["X"]
    if path.stem in ("ledger", "logistic-names"):
        table = pd.DataFrame(table, columns=list("abcde"))
    if path.stem == "logistic-sparse":
        table = csr_array(table)
    methods = [name for name in expected.files if name.startswith(f"{path.stem}/")]
    assert methods
    for name in methods:
        found = getattr(model, name.partition("/")[2])(table)
        assert_as_before(found, expected[name])


@pytest.mark.parametrize("path", MODELS, ids=ids)
def test_reports_are_those_of_before(path):
    report = skfdp.report(load(path))
    if path.stem != "command-line":
        assert report.epsilon == about(path)["epsilon"][path.stem]
    again = type(report).from_dict(json.loads(report.to_json()))
    # Another version may round epsilon in another way.
    assert again.epsilon == pytest.approx(report.epsilon, rel=1e-9)
    assert dataclasses.replace(again, epsilon=report.epsilon) == report


@pytest.mark.parametrize("path", MODELS, ids=ids)
def test_models_of_before_can_be_shown_cloned_and_told_their_parameters(path):
    model = load(path)
    assert repr(clone(model))
    for part in (model, getattr(model, "best_estimator_", model)):
        assert set(part.get_params(deep=False)) == set(
            inspect.signature(type(part)).parameters
        )


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_parameter_that_is_younger_than_the_file_has_its_default(name):
    kind = getattr(skfdp, name)
    required = {"estimator": LogisticRegression(), "param_distributions": {}}
    known = inspect.signature(kind).parameters
    model = kind(**{key: value for key, value in required.items() if key in known})
    older = {key: value for key, value in vars(model).items() if key != "delta"}
    again = kind.__new__(kind)
    again.__setstate__(older)
    assert again.delta == 1e-5 and vars(again) == vars(model)


@pytest.mark.parametrize("path", FACTS, ids=ids)
def test_facts_are_those_of_before(path):
    fact = load(path)
    if path.stem == "fact-handle":
        assert fact.path == "/nowhere/ledger.db"
        assert (fact.dataset, "unreadable" in repr(fact)) == ("people", True)
        return
    written = about(path)["facts"][path.stem.removeprefix("fact-")]
    found = fact.to_dict() if hasattr(fact, "to_dict") else dataclasses.asdict(fact)
    assert_contains(json.loads(json.dumps(found)), written)


def assert_contains(found, written):
    """Assert that what was written is there still; fields may have come."""
    if isinstance(written, dict):
        assert set(written) <= set(found)
        for name in written:
            assert_contains(found[name], written[name])
    elif isinstance(written, list):
        assert len(found) == len(written)
        for one, other in zip(found, written, strict=True):
            assert_contains(one, other)
    else:
        assert found == written


def test_files_name_no_folder_of_whoever_wrote_them():
    path = re.compile(rb"(?<![\w<])(?:/[A-Za-z][\w.-]*){2,}")
    found = {
        name
        for file in FILES
        if file.suffix == ".pickle"
        for name in path.findall(file.read_bytes())
    }
    assert found == {b"/nowhere/ledger.db"}
