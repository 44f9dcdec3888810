"""The examples of CONTRIBUTING.rst do what it says, in a copy of the package."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import skfdp

TESTS = Path(__file__).resolve().parent
PAGE = TESTS.parent / "CONTRIBUTING.rst"
COMMON = (
    "conftest.py",
    "problems.py",
    "queries/test_contract.py",
    "queries/test_linear.py",
    "estimators/test_methods.py",
    "estimators/test_nothing_is_ignored.py",
    "test_guarantees.py",
)

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        not PAGE.is_file(), reason="CONTRIBUTING.rst is not beside the tests"
    ),
]


def blocks(title):
    """Return the (file, text) of every example in a section: files, then blocks."""
    text = PAGE.read_text(encoding="utf-8")
    section = text.split(f"\n{title}\n{'-' * len(title)}\n")[1]
    section = re.split(r"\n[^\n]+\n-+\n", section)[0]
    found = re.findall(r"``(\S+\.py)``::\n\n((?:    .*\n|\n)+)", section)
    lines = [(name, re.sub("^    ", "", text, flags=re.M)) for name, text in found]
    copied = re.findall(r"``tests/contributing/(\w+\.py)``\s+in\s+``(\S+/)``", section)
    return [
        (folder + name, (TESTS / "contributing" / name).read_text(encoding="utf-8"))
        for name, folder in copied
    ] + lines


def changed(text, lines):
    """Return a text after a change: " " finds a line, "-" takes it out, "+" adds."""
    old, at = text.splitlines(), None
    for line in lines.strip("\n").splitlines():
        kind, content = line[0], line[1:]
        if kind == "+":
            assert at is not None
            old.insert(at, content)
            at += 1
        else:
            assert old.count(content) == 1, content
            at = old.index(content) + (kind == " ")
            if kind == "-":
                del old[at]
    return "\n".join(old) + "\n"


def added(lines):
    """Return how many lines a change adds that are no imports."""
    return len(re.findall(r"^\+(?!from |import )", lines, flags=re.M))


class Copy:
    """A copy of the package and of the common tests, with one example added."""

    def __init__(self, folder, title):
        self.folder = folder
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(skfdp.__file__).parent, folder / "skfdp", ignore=ignored)
        for name in COMMON:
            (folder / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TESTS / name, folder / "tests" / name)
        self.sizes = {}
        for name, text in blocks(title):
            path = folder / "skfdp" / name.removeprefix("skfdp/")
            path = folder / name if name.startswith("tests/") else path
            if path.exists():
                self.sizes[name] = added(text)
                text = changed(path.read_text(encoding="utf-8"), text)
            path.write_text(text, encoding="utf-8")

    def run(self, *arguments, path=None):
        """Run Python on the copy, or the package in `path`; return what it prints."""
        done = subprocess.run(
            [sys.executable, *arguments],
            env=os.environ | {"PYTHONPATH": str(path or self.folder)},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def check(self, name, chosen, at_least):
        """Run the common tests of what was added; there are at least so many."""
        where = self.run("-c", "import skfdp; print(skfdp.__file__)")
        assert str(self.folder) in where
        options = ("-q", "-p", "no:cacheprovider", f"--rootdir={self.folder}")
        told = self.run("-m", "pytest", *options, f"tests/{name}", "-k", chosen)
        assert int(re.search(r"(\d+) passed", told)[1]) >= at_least


def test_a_loss_is_one_file_and_one_line(tmp_path):
    copy = Copy(tmp_path, "A new loss")
    assert copy.sizes == {"kernels/losses/__init__.py": 1}
    copy.check("queries/test_linear.py", "smooth_hinge", at_least=6)
    copy.check("test_guarantees.py", "smooth_hinge", at_least=6)


def test_a_statistic_is_one_file_and_one_line(tmp_path):
    copy = Copy(tmp_path, "A new statistic")
    assert copy.sizes == {"tests/queries/test_contract.py": 1}
    copy.check("queries/test_contract.py", "groups", at_least=14)


def test_a_method_is_one_file_and_a_solver(tmp_path):
    copy = Copy(tmp_path, "A new method")
    assert copy.sizes == {
        "solvers/__init__.py": 17,
        "linear_model.py": 4,
        "tests/estimators/test_methods.py": 1,
        "tests/estimators/test_nothing_is_ignored.py": 2,
    }
    copy.check("estimators/test_methods.py", "class", at_least=3)
    swept = "estimators/test_nothing_is_ignored.py"
    copy.check(swept, "class-means or every_class", at_least=3)


ESTIMATOR = """
import numpy as np
import skfdp
from skfdp.audit import audit_replay
from skfdp.column_means import PrivateColumnMeans

X = np.random.default_rng(0).random((500, 3))
ledger = skfdp.PrivacyLedger(epsilon=100.0, delta=1e-5)
model = PrivateColumnMeans(50.0, bounds=(0, 1), ledger=ledger).fit(X)
np.testing.assert_allclose(model.means_, X.mean(axis=0), atol=0.1)
exact = PrivateColumnMeans(float("inf"), bounds=(0, 1)).fit(X)
np.testing.assert_allclose(exact.means_, X.mean(axis=0))
assert abs(ledger.spent() - model.privacy_.epsilon) < 1e-9
assert audit_replay(PrivateColumnMeans(bounds=(0, 1)), X[:40]).passed
"""


def test_an_estimator_is_one_file(tmp_path):
    copy = Copy(tmp_path, "A new estimator")
    assert copy.sizes == {}
    copy.run("-W", "ignore", "-c", ESTIMATOR)


PARAMETER = """
import numpy as np
from sklearn.base import clone
import skfdp
from skfdp.solvers import OneShot

rng = np.random.default_rng(0)
X = rng.random((200, 3))
y = (X[:, 0] > 0.5).astype(int)
given = {"public_features": "all", "solver": OneShot(), "random_state": 0}
model = skfdp.FeatureDPLogisticRegression(
    9.0, bounds=(0, 1), classes=[0, 1], **given
)
plain = clone(model).fit(X, y).coef_
cut = clone(model).set_params(solver__largest_weight=0.1).fit(X, y).coef_
assert np.abs(plain).max() > 0.1
np.testing.assert_array_equal(cut, np.clip(plain, -0.1, 0.1))
try:
    clone(model).set_params(solver__largest_weight=-1).fit(X, y)
except ValueError as error:
    assert "largest_weight=-1" in str(error)
else:
    raise AssertionError
print(skfdp.__file__, plain.tobytes().hex())
"""


def test_a_parameter_is_of_a_solver_and_changes_no_seeded_fit(tmp_path):
    copy = Copy(tmp_path, "A new parameter")
    sizes = {"solvers/__init__.py": 4, "solvers/label_statistic.py": 1}
    assert copy.sizes == sizes | {"linear_model.py": 3}
    told = copy.run("-W", "ignore", "-c", PARAMETER)
    alone = PARAMETER.split("cut =")[0] + "print(plain.tobytes().hex())"
    package = Path(skfdp.__file__).parents[1]
    found = copy.run("-W", "ignore", "-c", alone, path=package)
    assert str(tmp_path) in told
    assert told.split()[1] == found.split()[0]
