"""Files that earlier versions saved load, predict and report as they did."""

import dataclasses
import doctest
import importlib.metadata
import inspect
import io
import json
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from packaging.version import Version
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import skfdp
from skfdp import addresses
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
PUBLIC = ("skfdp", "skfdp.privacy", "skfdp.cli")
ESTIMATORS = [name for name in skfdp.__all__ if hasattr(getattr(skfdp, name), "fit")]

# What scikit-learn says of models of its own that another version saved.
pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.InconsistentVersionWarning"
)


def ids(path):
    return f"{path.parent.name}-{path.name}"


def load(path):
    if path.suffix == ".skops":
        skops = pytest.importorskip("skops.io")
        return skops.load(path, trusted=skops.get_untrusted_types(file=path))
    return joblib.load(path) if path.suffix == ".joblib" else load_pickle(path)


def load_pickle(path):
    return pickle.loads(path.read_bytes())


class Names(pickle.Unpickler):
    """Loads, and lists what of skfdp was asked for."""

    def __init__(self, content):
        super().__init__(io.BytesIO(content))
        self.found = set()

    def find_class(self, module, name):
        if module.partition(".")[0] == "skfdp":
            self.found.add(f"{module}.{name}")
        return super().find_class(module, name)


def names_in(saved):
    """Return what of skfdp a pickle, or a model as a skops file, names."""
    if not isinstance(saved, bytes):
        skops = pytest.importorskip("skops.io")
        found = skops.get_untrusted_types(data=skops.dumps(saved))
        return {name for name in found if name.partition(".")[0] == "skfdp"}
    reader = Names(saved)
    reader.load()
    return reader.found


def about(path):
    return json.loads((path.parent / "about.json").read_text())


def skip_what_is_of_a_later_scikit_learn(path):
    """Skip models with parts of scikit-learn's own, which reads no later version's."""
    own = ("command-line", "completion", "logistic-given-model")
    installed = importlib.metadata.version("scikit-learn")
    saved = about(path)["packages"]["scikit-learn"]
    if path.stem.startswith(own) and Version(installed) < Version(saved):
        pytest.skip(f"holds objects of scikit-learn {saved}, newer than {installed}")


def assert_as_before(found, expected):
    if expected.dtype.kind == "f":
        rtol = 1e-5 if expected.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("path", MODELS, ids=ids)
def test_predictions_are_those_of_before(path):
    skip_what_is_of_a_later_scikit_learn(path)
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
    skip_what_is_of_a_later_scikit_learn(path)
    model = load(path)
    assert repr(clone(model))
    for part in (model, getattr(model, "best_estimator_", model)):
        assert set(part.get_params(deep=False)) == set(
            inspect.signature(type(part)).parameters
        )


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in ESTIMATORS
        if "delta" in inspect.signature(getattr(skfdp, name)).parameters
    ],
)
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


#: Texts that are derived again, and may say more than before.
WORDING = {"not_covered"}
#: Fields that went, and the one value that they may have had in files.
GONE = {"runs": "negative_binomial", "rate": None, "sampled": [], "audit": None}
#: Sentences that say more now, and are as true of older fits.
REWORDED = {
    "Side channels: running time, memory use, and refusals of malformed input.": (
        "Side channels: running time, memory use, and refusals: of types and shapes, "
        "and of malformed private values where on_invalid='replace' did not take them."
    )
}


def assert_contains(found, written):
    """Assert that what was written is there still; fields may have come."""
    if isinstance(written, dict):
        gone = set(written) - set(found)
        assert all(written[name] == GONE[name] for name in gone)
        for name in set(written) - gone - WORDING:
            assert_contains(found[name], written[name])
    elif isinstance(written, list):
        assert len(found) == len(written)
        for one, other in zip(found, written, strict=True):
            assert_contains(one, other)
    elif isinstance(written, str):
        assert found in (written, REWORDED.get(written))
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


# -- addresses ------------------------------------------------------------------------
def is_public(name):
    return name.rpartition(".")[0] in PUBLIC


@pytest.mark.parametrize("path", MODELS + FACTS, ids=ids)
def test_what_is_saved_now_names_public_addresses(path):
    again = pickle.dumps(load(path))
    assert names_in(again) and all(map(is_public, names_in(again)))
    if path.suffix == ".skops":
        found = names_in(load(path))
        assert found and all(map(is_public, found))


@pytest.mark.parametrize("path", MODELS + FACTS, ids=ids)
def test_the_table_knows_every_name_of_before(path):
    if path.suffix == ".pickle":
        found = names_in(path.read_bytes())
    elif path.suffix == ".skops":
        found = pytest.importorskip("skops.io").get_untrusted_types(file=path)
    else:
        pytest.skip("named as in a pickle")
    assert set(found) <= set(addresses.OLD)


@pytest.mark.parametrize("old", addresses.OLD)
def test_old_name_and_address_are_the_same_object(old):
    address = addresses.OLD[old]
    found = addresses.find(address)
    # Where a file of this name is left, it must still hold the object.
    assert addresses.find(old) is found
    assert f"{found.__module__}.{found.__qualname__}" == address
    assert is_public(address)


def test_the_curve_that_a_plan_keeps_has_an_address_too():
    plan = skfdp.calibrate(1.0, 1e-5, sampling_rate=0.5, n_steps=2)
    assert "skfdp.privacy.PLDCurve" in names_in(pickle.dumps(plan))
    assert all(map(is_public, names_in(pickle.dumps(plan))))
    selection = load_pickle(SAVED / VERSIONS[-1] / "fact-selection.pickle")
    curve = skfdp.privacy.compose([selection])
    names = names_in(pickle.dumps(curve))
    assert names and all(map(is_public, names))


def test_the_command_line_trusts_names_of_before_and_of_today():
    for old in ("skfdp.rows.RowMap", "skfdp.cli.encoding.as_text"):
        assert {old, addresses.OLD[old]} <= set(saving.TRUSTED_TYPES)
    # A handle opens the file that it names.
    assert not any("Ledger" in name for name in saving.TRUSTED_TYPES)


def home_of(found):
    """Return the module whose file an object is in."""
    for name, module in list(sys.modules.items()):
        ours = name.split(".")[0] == "skfdp" and vars(module).get("__test__", {})
        if ours and ours.get(found.__name__) is found:
            return module


def test_doctests_of_what_has_an_address_are_found():
    finder = doctest.DocTestFinder()
    for address in addresses.OLD.values():
        found = addresses.find(address)
        if ">>>" in (found.__doc__ or ""):
            tests = finder.find(home_of(found))
            names = [test.name for test in tests if test.examples]
            assert any(name.endswith(f".{found.__name__}") for name in names)


MOVED = """if True:
    import importlib, pickle, sys, warnings
    from pathlib import Path
    import numpy as np
    # An editable install knows where the files are that moved here.
    sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in str(f).lower()]
    import skfdp
    assert Path(skfdp.__file__).parents[1] == Path(sys.argv[1])
    for folder in map(Path, sys.argv[2:]):
        expected = np.load(folder / "expected.npz")
        for name in ("regressor", "logistic-target-public", "centring-columns"):
            model = pickle.loads((folder / f"{name}.pickle").read_bytes())
            method = "transform" if "centring" in name else "predict"
            found = getattr(model, method)(expected["X"])
            np.testing.assert_allclose(found, expected[f"{name}/{method}"], rtol=1e-12)
    assert type(model.row_map_).mapped.__module__ == "skfdp.elsewhere.rows"
    for gone in ("skfdp.rows", "skfdp.linear_model.target"):
        assert importlib.import_module(gone).__spec__.origin is None
    try:
        importlib.import_module("skfdp.rows").GridRows
    except AttributeError as error:
        assert str(error) == "module 'skfdp.rows' has no attribute 'GridRows'"
    else:
        raise AssertionError
    try:
        import skfdp.nothing
    except ModuleNotFoundError:
        print("as before")
"""


def test_files_load_after_their_classes_moved(tmp_path):
    """Two files move to another folder, and every import follows; the table stays."""
    shutil.copytree(Path(skfdp.__file__).parent, tmp_path / "skfdp")
    moves = {"records.row_map": "elsewhere.rows", "records.target": "elsewhere.target"}
    (tmp_path / "skfdp" / "elsewhere").mkdir()
    (tmp_path / "skfdp" / "elsewhere" / "__init__.py").touch()
    for old, new in moves.items():
        source, target = (
            tmp_path / "skfdp" / f"{name.replace('.', '/')}.py" for name in (old, new)
        )
        source.rename(target)
    for path in (tmp_path / "skfdp").rglob("*.py"):
        text = path.read_text()
        if path.name != "addresses.py":
            for old, new in moves.items():
                text = re.sub(rf"\bskfdp\.{old}\b", f"skfdp.{new}", text)
            path.write_text(text)
    command = [sys.executable, "-c", MOVED, tmp_path]
    done = subprocess.run(
        [*command, *(SAVED / version for version in VERSIONS)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
    )
    assert done.stdout == "as before\n", done.stderr
