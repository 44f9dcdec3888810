"""Rules of the source beside the import contracts in pyproject.toml."""

import ast
import functools
import graphlib
import inspect
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

import skfdp
from skfdp.addresses import WINGS
from skfdp.base import PrivateEstimator
from skfdp.kernels import compiling

ROOT = Path(skfdp.__file__).parent
CHECKOUT = Path(__file__).parents[1]
FILES = {path.relative_to(ROOT).as_posix(): path for path in ROOT.rglob("*.py")}


@functools.cache
def every_node(name):
    """Return the nodes of a file."""
    return [*ast.walk(ast.parse(FILES[name].read_text(encoding="utf-8")))]


def nodes(name, kinds):
    """Return the nodes of some kinds in a file."""
    return [node for node in every_node(name) if isinstance(node, kinds)]


@pytest.mark.extra("grimp")
def test_no_import_cycles():
    """Of modules: imports inside functions and under TYPE_CHECKING count."""
    grimp = pytest.importorskip("grimp")
    graph = grimp.build_graph("skfdp", cache_dir=None)
    imported = {
        one: graph.find_modules_directly_imported_by(one) for one in graph.modules
    }
    graphlib.TopologicalSorter(imported).prepare()


def test_normal_generators_live_in_noise_only():
    """Others draw no noise: padding, constant weights of neurons, synthetic data."""
    allowed = {"solvers/public_model.py", "solvers/network.py"}
    draws = {"standard_normal", "normal", "randn", "multivariate_normal"}
    used = {n for n in FILES if draws & {a.attr for a in nodes(n, ast.Attribute)}}
    assert {n for n in used if not n.startswith("datasets/")} <= allowed


def test_release_is_the_only_caller_of_noise():
    callers = [
        n for n, path in FILES.items() if "add_integer_gaussian" in path.read_text()
    ]
    assert callers == ["mechanisms/release.py"]


def private_estimators(kind=PrivateEstimator):
    """Yield all estimators of the package that fit on private rows."""
    for one in kind.__subclasses__():
        if one.__module__.partition(".")[0] == "skfdp":
            yield one
        yield from private_estimators(one)


def test_every_private_estimator_fits_on_the_one_way():
    """`PrivateEstimator._fit` charges the ledger before it reads a private row."""
    public = {getattr(skfdp, name) for name in skfdp.__all__}
    found = set(private_estimators())
    assert {one.__name__ for one in found & public} >= {
        "DPSGDFClassifier",
        "FeatureDPMLPClassifier",
        "PrivateCenteringTransformer",
    }
    for kind in found:
        assert kind._fit is PrivateEstimator._fit, kind
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(kind.fit)))
        last = ast.parse(source).body[0].body[-1]
        assert ast.unparse(last).startswith("return self._fit("), kind


def test_the_cache_of_compiled_code_knows_all_of_it():
    found = {name for name in FILES if name.startswith("kernels/")}
    assert {f"kernels/{name}" for name in compiling.FILES} == found


def printed(code):
    """Return what a new process prints."""
    given = {"capture_output": True, "text": True, "check": True, "timeout": 240}
    return subprocess.run([sys.executable, "-c", code], **given).stdout.strip()


def test_import_is_light():
    code = (
        "import sys, skfdp; heavy = {'numba', 'torch', 'matplotlib', "
        "'dp_accounting', 'scipy.stats', 'pandas', 'sklearn'} & set(sys.modules); "
        "print(sorted(heavy))"
    )
    assert printed(code) == "[]"


def test_a_fit_loads_no_wing():
    code = """
import sys
import pandas as pd, skfdp
from skfdp.schema import Label, Number
table = pd.DataFrame({"x": [1.0, 2.0] * 50, "y": [0, 1] * 50})
schema = skfdp.TableSchema({"x": Number(0, 3), "y": Label([0, 1])}, outcomes="y")
for given in {"bounds": (0, 3)}, {"schema": schema}:
    model = skfdp.FeatureDPLogisticRegression(**given).fit(table[["x"]], table["y"])
    model.predict(table[["x"]]), model.privacy_.statement()
print(*sys.modules)
"""
    tools = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    _, wings, *_ = tools["tool"]["importlinter"]["contracts"]
    assert {*WINGS.values()} <= {*wings["protected_modules"]}
    assert not {*wings["protected_modules"]} & {*printed(code).split()}


def test_every_public_name_loads_and_is_documented():
    for name in skfdp.__all__:
        found = getattr(skfdp, name)
        assert found.__doc__ or name == "__version__"
        if hasattr(found, "get_params"):
            assert len(inspect.signature(found).parameters) <= 18, name
    assert set(dir(skfdp)) == set(skfdp.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        skfdp.nothing  # noqa: B018
