"""The house: imports point down, files and functions stay short."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import skfdp

ROOT = Path(skfdp.__file__).parent
FILES = sorted(path for path in ROOT.rglob("*.py"))
#: The rooms, from the ground up: a file imports from its own room and those before.
ORDER = [
    "addresses",
    "privacy",
    "kernels",
    "records",
    "encoding",
    "queries",
    "releases",
    "estimators",
    "audit",
    "inspection",
    "cli",
]
#: Beside the order: what may be imported by all, and what only names may come from.
GROUND, TOP, APART = "_version", ("__init__", "__main__"), "datasets"
#: Who may import what from outside: files, and folders.
ONLY = {
    "dp_accounting": {"privacy/pld.py", "privacy/dp_events.py"},
    "numba": {"kernels/"},
    "llvmlite": {"kernels/vectors.py"},
    "randomgen": {"releases/noise.py"},
    "hypothesis": {"audit/strategies.py"},
    "torch": {"queries/torch.py"},
    "dask": {"estimators/partitions/collections.py"},
    "distributed": {"estimators/partitions/collections.py"},
    "matplotlib": {"privacy/plotting.py"},
    "zarr": {"records/sources.py"},
    "sqlite3": {"privacy/chain.py", "privacy/ledger_file.py", "privacy/schema.py"},
}
ids = [path.relative_to(ROOT).as_posix() for path in FILES]


def room_of(name):
    """Return the room of a file, by its name below the package."""
    return name.split("/")[0].removesuffix(".py")


def imports(path):
    """Yield (module, names) of every import, wherever it stands."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, []
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
            for given in node.args:
                if isinstance(given, ast.Constant):
                    yield given.value, []


def file_of(module):
    """Return the file of one of our modules below the package, None if it is none."""
    place = ROOT.joinpath(*module.split(".")[1:])
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.is_file():
            return path.relative_to(ROOT).as_posix()
    return None


def neighbours(path):
    """Yield the names of our files that a file imports, wherever it does."""
    for module, names in imports(path):
        if module.split(".")[0] == "skfdp":
            found = [file_of(f"{module}.{name}") for name in names]
            if not found or None in found:
                yield file_of(module)
            yield from filter(None, found)


def points_down(here, there):
    """Whether a file of the room `here` may import one of the room `there`."""
    if here in TOP or there in (here, GROUND):
        return True
    if APART in (here, there):
        return there == ORDER[0]
    if here not in ORDER or there not in ORDER:
        return False
    return ORDER.index(there) < ORDER.index(here)


def on_a_circle(graph):
    """Return the nodes from which a way leads into a circle."""
    left = {node: set(targets) for node, targets in graph.items()}
    while ends := {node for node, targets in left.items() if not targets & set(left)}:
        left = {node: targets for node, targets in left.items() if node not in ends}
    return set(left)


def test_every_file_has_a_room():
    assert {room_of(name) for name in ids} == {*ORDER, GROUND, *TOP, APART}


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_imports_point_down(path):
    here = room_of(path.relative_to(ROOT).as_posix())
    for name in neighbours(path):
        there = room_of(name)
        assert points_down(here, there), f"{path}: {here} must not import {name}"


@pytest.mark.parametrize(
    "here, there, allowed",
    [
        ("records", "kernels", True),
        ("kernels", "records", False),
        ("releases", "estimators", False),
        ("privacy", "addresses", True),
        ("datasets", "addresses", True),
        ("datasets", "records", False),
        ("cli", "datasets", False),
        ("estimators", "__init__", False),
        ("elsewhere", "addresses", False),
        ("__main__", "cli", True),
    ],
)
def test_what_points_down(here, there, allowed):
    assert points_down(here, there) is allowed


def test_every_way_to_import_is_seen(tmp_path):
    text = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from skfdp.records import grid
def later():
    import skfdp.records.blocks
    from skfdp.queries import sum_unit
    importlib.import_module("skfdp.kernels.residuals")
"""
    (tmp_path / "some.py").write_text(text)
    assert set(neighbours(tmp_path / "some.py")) == {
        "records/grid.py",
        "records/blocks.py",
        "queries/__init__.py",
        "kernels/residuals.py",
    }


def test_a_circle_is_found():
    assert on_a_circle({"a": {"b"}, "b": {"c"}, "c": set()}) == set()
    assert on_a_circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == {"a", "b", "c"}
    assert on_a_circle({"a": {"a"}}) == {"a"}


def test_no_file_imports_itself_on_any_way():
    graph = dict(zip(ids, map(set, map(neighbours, FILES)), strict=True))
    assert not on_a_circle(graph)


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_special_imports_stay_in_their_rooms(path):
    name = path.relative_to(ROOT).as_posix()
    for module, names in imports(path):
        package = module.split(".")[0]
        if package in ONLY:
            known = {name, f"{room_of(name)}/"} & ONLY[package]
            assert known, f"{name} must not import {package}"
        if package not in ("skfdp", "__future__"):
            private = [part for part in module.split(".") if part.startswith("_")]
            private += [part for part in names if part.startswith("_")]
            assert not private, f"{name} imports private names {private}"


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_normal_generators_live_in_noise_only(path):
    """Others draw no private noise: padding, simulated experiments, synthetic data."""
    allowed = {
        "releases/noise.py",
        "estimators/linear_model/padding.py",
        "estimators/completion/copula.py",
    }
    name = path.relative_to(ROOT).as_posix()
    draws = {"standard_normal", "normal", "randn", "multivariate_normal"}
    used = {
        node.attr
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in draws
    }
    assert not used or name in allowed or name.startswith("datasets/")


def test_release_is_the_only_caller_of_noise():
    callers = [
        path.relative_to(ROOT).as_posix()
        for path in FILES
        if "add_integer_gaussian" in path.read_text()
    ]
    assert sorted(callers) == ["releases/desk.py", "releases/noise.py"]


def test_compiled_code_is_in_one_room_and_the_cache_knows_all_of_it():
    from skfdp.kernels import compiling

    found = {
        path.relative_to(ROOT).as_posix()
        for path in FILES
        for module, names in imports(path)
        if module.split(".")[0] == "numba"
        or "skfdp.kernels.compiling" in (module, *(f"{module}.{n}" for n in names))
    }
    assert "kernels/tiles.py" in found
    assert {room_of(name) for name in found} == {"kernels"}
    assert {f"kernels/{name}" for name in compiling.FILES} == {
        name for name in ids if room_of(name) == "kernels"
    }


def test_import_is_light():
    code = (
        "import sys, skfdp; heavy = {'numba', 'torch', 'matplotlib', 'dp_accounting', "
        "'scipy.stats', 'pandas', 'sklearn'} & set(sys.modules); print(sorted(heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_every_public_name_loads_and_is_documented():
    for name in skfdp.__all__:
        assert getattr(skfdp, name).__doc__ or name == "__version__"
    assert set(dir(skfdp)) == set(skfdp.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        skfdp.nothing  # noqa: B018
