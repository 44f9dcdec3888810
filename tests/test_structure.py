"""The script that measures the house counts right, on a house that is made up."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import skfdp

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "structure.py"

pytestmark = pytest.mark.skipif(
    not SCRIPT.exists(), reason="the benchmarks are not part of an installed package"
)


@pytest.fixture(scope="module")
def structure():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPT.parent)
        yield importlib.import_module("structure")


#: A house that is as wanted: four rooms on four floors, and the file of old names.
HOUSE = {
    "__init__.py": "from skfdp import addresses\nfrom skfdp.estimators import Model\n",
    "addresses.py": "",
    "privacy/__init__.py": "from skfdp.privacy.events import Event\n",
    "privacy/events.py": "class Event:\n    pass\n",
    "queries/__init__.py": "import numpy\nfrom skfdp.privacy import Event\n",
    "estimators/__init__.py": "from skfdp.estimators.base import Base as Model\n",
    "estimators/base.py": (
        "from sklearn.base import BaseEstimator\n"
        "import skfdp.queries\n"
        "class Base(BaseEstimator):\n"
        "    def fit(self, X, y=None):\n"
        "        return self\n"
        "class Model(Base):\n"
        "    pass\n"
        "def helper(estimator):\n"
        "    return estimator\n"
    ),
}


@pytest.fixture
def house(structure, tmp_path):
    """Return what writes `HOUSE` with some files added or changed."""

    def write(**changes: str) -> Path:
        root = tmp_path / "skfdp"
        for name, text in {**HOUSE, **changes}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        structure.read.cache_clear()
        return root

    return write


def test_the_package_is_the_house_that_is_wanted(structure):
    assert structure.check(Path(skfdp.__file__).parent) == []


def test_a_house_as_wanted(structure, house):
    root = house()
    assert structure.check(root) == []
    assert structure.check(root.parent) == []  # the checkout around it
    rooms = structure.room_graph(root)
    assert rooms == {
        "__init__": {"addresses", "estimators"},
        "addresses": set(),
        "privacy": set(),
        "queries": {"privacy"},
        "estimators": {"queries"},
    }
    assert structure.floors(rooms) == [
        ["addresses", "privacy"],
        ["queries"],
        ["estimators"],
        ["__init__"],
    ]
    assert structure.rooms_below(root) == {"addresses", "privacy", "queries"}


def test_entries_leave_out_the_old_names_and_what_is_no_python(structure, house):
    root = house()
    (root / "py.typed").touch()
    (root / "left").mkdir()  # a folder that was moved leaves its caches behind
    (root / "left" / "__pycache__").mkdir()
    (root / "left" / "__pycache__" / "cached.py").touch()
    assert structure.entries(root) == ["__init__", "estimators", "privacy", "queries"]
    many = house(**{f"room_{i}.py": "" for i in range(11)})
    assert structure.check(many) == ["15 entries at the top, at most 14"]


@pytest.mark.parametrize(
    "line",
    [
        "import skfdp.estimators\n",
        "from skfdp import estimators\n",
        "from .. import estimators\n",
        "from ..estimators.base import Base\n",
        "def lazy():\n    from skfdp.estimators import Model\n",
        "if TYPE_CHECKING:\n    from skfdp.estimators.base import Model\n",
        "importlib.import_module('skfdp.estimators')\n",
        "importlib.import_module(f'skfdp.estimators.{name}')\n",
        "name = {1: 'estimators.base'}[1]\nimportlib.import_module(f'skfdp.{name}')\n",
    ],
)
def test_every_way_to_import_closes_a_circle(structure, house, line):
    root = house(**{"queries/loop.py": line})
    graph = structure.room_graph(root)
    assert structure.circles(graph) == [["estimators", "queries"]]
    assert structure.floors(graph)[1] == ["estimators", "queries"]
    assert structure.check(root)[0] == "circle of rooms: estimators, queries"


def test_circles_of_files_inside_a_room(structure, house):
    root = house(
        **{
            "queries/a.py": "from skfdp.queries import b\n",
            "queries/b.py": (
                "from typing import TYPE_CHECKING\n"
                "if TYPE_CHECKING:\n"
                "    from skfdp.queries.c import Third\n"
            ),
            "queries/c.py": "def f():\n    from .a import anything\n",
            "queries/d.py": "from skfdp.queries import a, d\n",  # into it, and itself
        }
    )
    wanted = "circle of files: queries/a.py, queries/b.py, queries/c.py"
    assert structure.check(root) == [wanted]


def test_a_longer_chain_than_is_wanted(structure, house):
    chain = {f"room_{i}.py": f"from skfdp.room_{i + 1} import x\n" for i in range(5)}
    root = house(**chain, **{"room_5.py": "import skfdp.estimators\n"})
    assert structure.check(root) == []  # the last room is the ninth floor
    root = house(**{"room_6.py": "from skfdp import room_0\n"})
    assert structure.check(root) == ["10 floors, at most 9"]


def test_code_lines(structure):
    text = '''"""A docstring
of two lines."""

import os  # a comment beside code

# a comment alone


class A:
    """Docstring."""

    x = 1
    """Of an attribute."""

    def é(self): """Docstring beside code,
    of two lines."""


def f(a, b=(
    2  # inside
    # alone, inside
)):
    r"""Raw.

    More.
    """
    text = """kept

    kept"""
    return f"""{text}
"""
'''
    # import; class; x; def é; def f(, 2, )):; text = and its end; return and its end
    assert importlib.import_module("_source").code_lines(text) == 11


@pytest.mark.parametrize("n_lines, too_long", [(50, False), (51, True)])
def test_functions_are_measured_without_their_docstring(
    structure, house, n_lines, too_long
):
    body = '    """Title.\n\n    More.\n    """\n' + "    x = 1\n" * (n_lines - 1)
    root = house(**{"privacy/long.py": f"@decorated\ndef long():\n{body}"})
    long = [f for f in structure.every_function(root) if f.node.name == "long"]
    assert [f.lines for f in long] == [n_lines]
    assert structure.figures(root)["functions above 50 lines"] == too_long


def test_functions_are_named_by_what_is_around_them(structure, house):
    text = (
        "class A:\n"
        "    def fit(self):\n"
        "        def fit(): ...\n"
        "    if True:\n"
        "        async def other(self): ...\n"
        "def fit(): ...\n"
    )
    root = house(**{"queries/a.py": text})
    found = [f for f in structure.every_function(root) if f.file.name == "queries/a.py"]
    assert [(f.name, f.in_class) for f in found] == [
        ("A.fit", True),
        ("A.fit.fit", False),
        ("A.other", True),
        ("fit", False),
    ]
    assert structure.check(root) == ["2 methods called fit, wanted one"]


@pytest.mark.parametrize(
    "function",
    [
        "def f(a, estimator): ...\n",
        "def f(*, estimator=None): ...\n",
        "async def f(**estimator): ...\n",
        "def f(search: Model): ...\n",
        "def f(search: 'estimators.Model | None'): ...\n",
        "def f(search: list[BaseEstimator]): ...\n",
        "class A:\n    def __init__(self, model: Base): ...\n",
    ],
)
def test_no_function_below_takes_an_estimator(structure, house, function):
    root = house(**{"privacy/facts.py": function})
    (found,) = structure.check(root)
    assert found.startswith("privacy/facts.py:")
    assert found.endswith("takes an estimator below the estimators")
    # one that only reads figures, and those in the room itself, may
    assert len(structure.takers(root)) == 2
    above = house(
        **{"privacy/facts.py": "", "inspection.py": function, "new.py": function}
    )
    (found,) = structure.check(above)
    assert found.startswith("new.py:")


def test_rooms_of_estimators_are_found_where_there_is_no_such_folder(structure, house):
    root = house(
        **{
            "linear.py": (
                "class Linear(Shared[int]):\n    pass\n"
                "class Shared(sklearn.base.ClassifierMixin, Generic):\n    pass\n"
            ),
            "start.py": "def f(model: Linear): ...\n",
        }
    )
    for name in ("base", "__init__"):
        (root / "estimators" / f"{name}.py").unlink()
    assert structure.estimator_classes(root) == {"Shared": "linear", "Linear": "linear"}
    assert "start" in structure.rooms_below(root)
    assert "linear" not in structure.rooms_below(root)


def test_bags_of_parameters(structure, house):
    text = (
        "from types import SimpleNamespace\n"
        "def f(estimator, other) -> SimpleNamespace:\n"
        "    getattr(estimator, 'C', 1.0)\n"
        "    getattr(other.estimator, 'C')\n"
        "    getattr(other, 'estimator')\n"
        "    return types.SimpleNamespace(C=1)\n"
    )
    root = house(**{"privacy/bag.py": text})
    assert structure.looked_up(root) == ["privacy/bag.py:3", "privacy/bag.py:4"]
    assert sorted(structure.namespaces(root)) == [
        "privacy/bag.py:2",
        "privacy/bag.py:6",
    ]


def test_comparisons_with_the_name_of_a_relation(structure, house):
    text = (
        "'replace_one' == relation\n"
        "relation in ('replace_one', 'replace_special')\n"
        "relations & {'add_or_remove_one'}\n"
        "match relation:\n"
        "    case 'replace_one':\n"
        "        pass\n"
        "relation == 'another'\n"
        "f(relation='replace_one')\n"
        "NAMES['replace_one']\n"
    )
    root = house(**{"queries/a.py": text})
    found = sorted(structure.comparisons(root))
    assert found == [f"queries/a.py:{line}" for line in (1, 2, 3, 5)]


@pytest.mark.parametrize(
    "statement, counts",
    [
        ("reach = 2.0 if relation == 'replace_one' else 1.0", True),
        ("return clip_norm * (2 if relation.replaces else 1)", True),
        ("sensitivity = 2 * clip_norm", True),
        ("return Event(sensitivity=clip_norm * math.sqrt(2))", True),
        ("label, moved = 'sum', 2.0", True),
        ("if relation == 'replace_one':\n        d = np.sqrt(2)", True),
        ("one = r == 'replace_one'\n    d = 2 if one else 1", True),
        ("if r != 'replace_one':\n        return 1\n    return 2.0", True),
        ("return relation.moves(clip_norm)", False),
        ("spread = 2 * std", False),
        ("variance = (sensitivity / std) ** 2", False),
        ("half = sensitivity / 2", False),
        ("n = 3 * sensitivity", False),
    ],
)
def test_doublings(structure, house, statement, counts):
    text = "def {}(relation, r, clip_norm, std):\n    " + statement + "\n"
    root = house(
        **{
            "queries/a.py": text.format("sensitivity") + text.format("moves"),
            "queries/b.py": text.format("caller"),
        }
    )
    found = structure.doublings(root)
    assert len(found) == counts
    assert all(place.startswith("queries/b.py:") for place in found)


def test_the_table_puts_two_trees_side_by_side(structure, house, tmp_path):
    root = house(**{"queries/a.py": "x = 1\n"})
    other = tmp_path / "other"
    other.mkdir()
    (other / "__init__.py").write_text("from other import a\n")
    (other / "a.py").write_text("import other\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("# nothing\nassert 1\n")
    run = subprocess.run(
        [sys.executable, str(SCRIPT), str(root), str(other), "--details"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [" ".join(line.split()) for line in run.stdout.splitlines()]
    assert lines[0] == "before after difference"
    assert "entries at the top, addresses.py aside 4 2 -2" in lines
    assert "addresses.py 1 0 -1" in lines
    assert "files 8 2 -6" in lines
    assert "code lines 18 2 -16" in lines
    assert "code lines of tests/ 1 1 +0" in lines
    assert "circles of rooms 0 1 +1" in lines
    assert "circle of rooms: __init__, a" in lines
    assert "arrows between rooms 4 2 -2" in lines


def test_the_trace_knows_which_files_a_fit_enters(tmp_path):
    package = tmp_path / "skfdp"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from skfdp.model import FeatureDPLogisticRegression as Model\n"
        "FeatureDPLogisticRegression = DPSGDFClassifier = FeatureDPRegressor = Model\n"
        "FeatureDPMLPClassifier = PrivateCenteringTransformer = Model\n"
        "PrivateCompletionClassifier = PrivateSearchCV = Model\n"
    )
    (package / "model.py").write_text(
        "from sklearn.base import BaseEstimator\n"
        "import sys\n"
        "class FeatureDPLogisticRegression(BaseEstimator):\n"
        "    def __init__(self, *args, **parameters):\n"
        "        pass\n"
        "    def fit(self, X, y):\n"
        "        from skfdp.inner.plan import plan, remembered\n"
        "        sys.modules.pop('skfdp.unused', None)\n"
        "        import skfdp.unused\n"  # no function of it is entered
        "        return plan(2, bag=self) or remembered()\n"
    )
    (package / "unused.py").write_text("x = 1\n\ndef f():\n    return 1\n")
    (package / "inner").mkdir()
    (package / "inner" / "__init__.py").write_text("")
    (package / "inner" / "plan.py").write_text(
        "import functools\n"
        "from skfdp.inner import once\n"
        "def plan(n, *, bag):\n"
        "    return n - 2\n"
        "@functools.cache\n"
        "def remembered():\n"
        "    return once.f()\n"
    )
    (package / "inner" / "once.py").write_text("def f():\n    return 1\n")
    run = subprocess.run(
        [sys.executable, str(SCRIPT.with_name("_entered.py")), str(package)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert len(found) == 10
    for seen in found.values():
        assert seen["files"] == ["inner/plan.py", "model.py"]
        assert seen["handed"] == ["inner/plan.py plan(bag)"]
