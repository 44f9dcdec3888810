"""The house in figures: rooms, floors, circles, lines, and what one fit enters.

    python benchmarks/structure.py                      # the installed package
    python benchmarks/structure.py old/ new/ --trace    # two checkouts side by side
    python benchmarks/structure.py new/ --details       # names, and not figures alone

A path is a checkout, or the folder of the package itself. The source is parsed and
never imported; only ``--trace`` runs it, each tree in a process of its own. What is
counted:

*entry*
    A folder with Python files or a Python file at the top of the package.
    ``addresses.py``, the one file of old names, is counted apart.
*room*
    A node of the graph of imports: an entry, ``addresses.py`` among them. Imports
    inside functions and under ``TYPE_CHECKING`` count, and so does
    ``importlib.import_module`` of a name whose start is written out. That a module
    also runs the ``__init__`` of its package does not.
*circle*
    Rooms, or files, each of which imports the other on some way: a strongly connected
    component of more than one. *Floors* are the levels of the graph with each circle
    of rooms taken as one.
*code line*
    A line that is not blank and holds more than a comment or a docstring.
*function that takes an estimator*
    One with a parameter that is called ``estimator`` or is annotated as one. It is
    *below the estimators* unless estimators live in its room, or its room stands on
    theirs.
*doubling*
    A statement that has 2 or sqrt(2) as a factor or as a value, and names or compares
    a relation or a sensitivity. A heuristic; ``--details`` lists them.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from _source import (
    OLD_NAMES,
    Function,
    circles,
    code_below,
    entries,
    every_function,
    file_graph,
    floors,
    installed,
    last_name,
    package_of,
    reached,
    read,
    room_graph,
    room_of,
)

RELATIONS = {"replace_one", "replace_special", "add_or_remove_one"}
MOST_ENTRIES, MOST_FLOORS, LONG = 14, 9, 50
#: A class is an estimator if it inherits from one of these, over whatever steps.
SKLEARN = re.compile(
    r"BaseEstimator|(Classifier|Regressor|Transformer|Cluster|Outlier)Mixin"
)
SPEAKS_OF_NEIGHBOURS = re.compile(r"relation|sensitiv|replace[sd]$")
DISTANCES = {"reach", "moved"}
#: Those who stand on the estimators, whether they import them or are handed them.
ABOVE = {"__init__", "__main__", "audit", "cli", "inspection"}
#: Where neighbours may be reckoned with: in the relation, and in what a query says.
OWNERS = {"sensitivity", "moves"}


# -- Estimators -----------------------------------------------------------------------


def estimator_classes(root: Path) -> dict[str, str]:
    """Return the classes that inherit from scikit-learn's, and their rooms."""
    classes = {
        node.name: ({last_name(_unsubscripted(base)) for base in node.bases}, file)
        for file in read(root)
        for node in ast.walk(file.tree)
        if isinstance(node, ast.ClassDef)
    }
    found: dict[str, str] = {}
    while new := {
        name: file.room
        for name, (bases, file) in classes.items()
        if name not in found
        and any(base in found or SKLEARN.fullmatch(base) for base in bases)
    }:
        found |= new
    return found


def _unsubscripted(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Subscript) else node


def _annotated(parameter: ast.arg) -> set[str]:
    """Return the names in an annotation, in quotes or not."""
    if parameter.annotation is None:
        return set()
    return set(re.findall(r"\w+", ast.unparse(parameter.annotation)))


def estimators_of(function: Function, classes: set[str]) -> list[str]:
    """Return the parameters of a function that are estimators."""
    return [
        parameter.arg
        for parameter in function.parameters
        if parameter.arg == "estimator" or _annotated(parameter) & classes
    ]


def takers(root: Path) -> list[Function]:
    """Return the functions that take an estimator."""
    classes = {*estimator_classes(root), "BaseEstimator"}
    return [f for f in every_function(root) if estimators_of(f, classes)]


def rooms_below(root: Path) -> set[str]:
    """Return the rooms that no estimator lives in, and that do not stand on one."""
    graph = room_graph(root)
    homes = set(estimator_classes(root).values())
    if "estimators" in graph:
        homes = {"estimators"}
    used = set().union(*(reached(graph, home) for home in homes))
    above = {room for room in graph if reached(graph, room) & homes} - used
    return set(graph) - homes - above - ABOVE


def fits(root: Path) -> list[Function]:
    """Return the methods that fit: there is more than one name for the only way.

    Not counted are a `fit` that hands everything to that way, which has a signature of
    its own, and those that learn nothing: the encoder's, and one that returns itself.
    """
    return [
        f
        for f in every_function(root)
        if f.in_class
        and f.node.name in ("fit", "_fit")
        and f.file.room != "encoding"
        and not _hands_over(f.node)
    ]


def _hands_over(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a method ends with `self` as it was, or with what its `_fit` returns."""
    last = function.body[-1]
    if not isinstance(last, ast.Return) or last.value is None:
        return False
    if ast.unparse(last.value) == "self":
        return len(function.body) <= 3 and "_check" in ast.unparse(function)
    return ast.unparse(last.value).startswith("self._fit(")


def looked_up(root: Path) -> list[str]:
    """Return the calls of ``getattr(estimator, ...)``."""
    found = []
    for file in read(root):
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Call) and last_name(node.func) == "getattr":
                if last_name(node.args[0]) in ("estimator", "estimator_"):
                    found.append(f"{file.name}:{node.lineno}")
    return found


def namespaces(root: Path) -> list[str]:
    """Return the uses of SimpleNamespace, imports aside."""
    return [
        f"{file.name}:{node.lineno}"
        for file in read(root)
        for node in ast.walk(file.tree)
        if isinstance(node, (ast.Name, ast.Attribute))
        and last_name(node) == "SimpleNamespace"
    ]


# -- Relations ------------------------------------------------------------------------


def _strings(node: ast.AST) -> set:
    """Return a string that stands alone or in a list, tuple or set."""
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
    values = {part.value for part in parts if isinstance(part, ast.Constant)}
    return {value for value in values if isinstance(value, str)}


def _compares(node: ast.AST) -> bool:
    """Whether a node compares with the name of a relation."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.Sub)):
        sides = [node.left, node.right]
    elif isinstance(node, ast.MatchValue):
        sides = [node.value]
    else:
        return False
    return any(_strings(side) & RELATIONS for side in sides)


def comparisons(root: Path) -> list[str]:
    """Return the comparisons with the name of a relation."""
    return [
        f"{file.name}:{getattr(node, 'lineno', 0)}"
        for file in read(root)
        for node in ast.walk(file.tree)
        if _compares(node)
    ]


def _is_two(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and last_name(node.func) == "sqrt":
        return len(node.args) == 1 and _is_two(node.args[0])
    return isinstance(node, ast.Constant) and node.value == 2


def _gives_two(node: ast.AST) -> bool:
    """Whether 2 or sqrt(2) is a factor or a value here."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _is_two(node.left) or _is_two(node.right)
    if isinstance(node, ast.IfExp):
        return _is_two(node.body) or _is_two(node.orelse)
    if isinstance(node, (ast.Assign, ast.Return)) and node.value is not None:
        return any(map(_is_two, getattr(node.value, "elts", [node.value])))
    return False


def _speaks(node: ast.AST, names: set[str]) -> bool:
    """Whether a relation, a sensitivity or one of some names is named or compared."""
    for part in ast.walk(node):
        name = part.arg if isinstance(part, ast.keyword) else last_name(part)
        if _compares(part) or name in names or SPEAKS_OF_NEIGHBOURS.search(name or ""):
            return True
    return False


def doublings(root: Path) -> list[str]:
    """Return statements outside `OWNERS` that double what a relation is about."""
    found: dict[str, None] = {}
    for function in every_function(root):
        if function.node.name in OWNERS:
            continue
        flags: set[str] = set()  # names that say which relation it is
        branch: set[int] = set()  # statements right below a test of the relation
        inside = list(ast.walk(function.node))
        for node in inside:
            if isinstance(node, ast.Assign) and any(map(_compares, ast.walk(node))):
                flags |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        for node in inside:
            if isinstance(node, ast.If) and _speaks(node.test, flags):
                branch |= {id(part) for part in [*node.body, *node.orelse]}
        if any(map(_compares, inside)):
            branch |= {id(node) for node in inside if isinstance(node, ast.Return)}
        for node in inside:
            if not isinstance(node, (ast.Assign, ast.AugAssign, ast.Return, ast.Expr)):
                continue
            given = getattr(node, "targets", [])
            near = id(node) in branch or _speaks(node, flags)
            near = near or any(_speaks(target, DISTANCES) for target in given)
            if near and any(map(_gives_two, ast.walk(node))):
                found[f"{function.file.name}:{node.lineno} {function.name}"] = None
    return list(found)


# -- What is said ---------------------------------------------------------------------


def check(path: Path) -> list[str]:
    """Return in which respects a package is not the house that is wanted."""
    root = package_of(Path(path))
    top, levels, below = entries(root), floors(room_graph(root)), rooms_below(root)
    broken = []
    if len(top) > MOST_ENTRIES:
        broken.append(f"{len(top)} entries at the top, at most {MOST_ENTRIES}")
    if len(levels) > MOST_FLOORS:
        broken.append(f"{len(levels)} floors, at most {MOST_FLOORS}")
    for what, graph in (("rooms", room_graph(root)), ("files", file_graph(root))):
        broken += [f"circle of {what}: {', '.join(c)}" for c in circles(graph)]
    if len(fits(root)) != 1:
        broken.append(f"{len(fits(root))} methods called fit, wanted one")
    broken += [
        f"{taker} takes an estimator below the estimators"
        for taker in takers(root)
        if taker.file.room in below
    ]
    return broken


def figures(root: Path) -> dict[str, int]:
    """Return what can be counted in the source."""
    rooms, files = room_graph(root), file_graph(root)
    every, taking, below = every_function(root), takers(root), rooms_below(root)
    compared = comparisons(root)
    beside = {f"{n}/": root.parent / n for n in ("tests", "benchmarks", "examples")}
    return {
        f"entries at the top, {OLD_NAMES}.py aside": len(entries(root)),
        f"{OLD_NAMES}.py": int(OLD_NAMES in rooms),
        "rooms": len(rooms),
        "floors": len(floors(rooms)),
        "arrows between rooms": sum(map(len, rooms.values())),
        "circles of rooms": len(circles(rooms)),
        "rooms in circles": sum(map(len, circles(rooms))),
        "circles of files": len(circles(files)),
        "files in circles": sum(map(len, circles(files))),
        "files": len(files),
        "code lines": code_below(root),
        **{f"code lines of {name}": code_below(f) for name, f in beside.items()},
        "functions": len(every),
        f"functions above {LONG} lines": sum(f.lines > LONG for f in every),
        "methods called fit": len(fits(root)),
        "functions that take an estimator": len(taking),
        "  files with such": len({f.file.name for f in taking}),
        "  below the estimators": sum(f.file.room in below for f in taking),
        "getattr(estimator, ...)": len(looked_up(root)),
        "uses of SimpleNamespace": len(namespaces(root)),
        "comparisons with a relation's name": len(compared),
        "  files that compare": len({place.split(":")[0] for place in compared}),
        "doublings by callers": len(doublings(root)),
    }


def named(root: Path) -> dict[str, list[str]]:
    """Return what `figures` counts, by name."""
    rooms, taking, below = room_graph(root), takers(root), rooms_below(root)
    by_file = Counter(place.split(":")[0] for place in comparisons(root))
    return {
        "floors": [", ".join(level) for level in reversed(floors(rooms))],
        "arrows": [f"{a}: {', '.join(sorted(b))}" for a, b in sorted(rooms.items())],
        "circles of rooms": [", ".join(c) for c in circles(rooms)],
        "circles of files": [", ".join(c) for c in circles(file_graph(root))],
        f"functions above {LONG} lines": [
            f"{f}: {f.lines}" for f in every_function(root) if f.lines > LONG
        ],
        "methods called fit": [str(f) for f in fits(root)],
        "functions below the estimators that take one": [
            str(f) for f in taking if f.file.room in below
        ],
        "other functions that take an estimator": [
            str(f) for f in taking if f.file.room not in below
        ],
        "getattr(estimator, ...)": looked_up(root),
        "uses of SimpleNamespace": namespaces(root),
        "comparisons with a relation's name, by file": [
            f"{name}: {count}" for name, count in by_file.most_common()
        ],
        "doublings by callers": doublings(root),
        "wanted, and not so": check(root),
    }


def entered(root: Path) -> dict[str, dict[str, list[str]]]:
    """Run the fits of ``_entered.py`` on a tree; return the files that each enters."""
    script = Path(__file__).with_name("_entered.py")
    run = subprocess.run(
        [sys.executable, str(script), str(root)],
        # From Python 3.12 on, numba shows calls of kernels only if asked to.
        env=os.environ
        | {"PYTHONPATH": str(root.parent), "NUMBA_ENABLE_SYS_MONITORING": "1"},
        cwd=tempfile.gettempdir(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


def traced(root: Path) -> dict[str, int]:
    """Return how many files and rooms each fit enters.

    "Handed down" counts the functions below the estimators that are called with one as
    an argument, whatever its name. A compiled kernel shows where Python calls it, and
    not where another kernel does.
    """
    found, below = {}, rooms_below(root)
    for name, seen in entered(root).items():
        handed = [
            place for place in seen["handed"] if room_of(place.split()[0]) in below
        ]
        found[f"{name}: files"] = len(seen["files"])
        found[f"{name}: rooms"] = len({room_of(file) for file in seen["files"]})
        found[f"{name}: handed down"] = len(handed)
    return found


def print_table(columns: list[dict[str, int]]) -> None:
    """Print figures side by side, with the difference of two."""
    width = max(map(len, columns[0])) + 2
    head = ["before", "after", "difference"] if len(columns) == 2 else ["count"]
    print(" " * width + "".join(f"{word:>12}" for word in head))
    for name in columns[0]:
        values = [column[name] for column in columns]
        cells = [f"{value:>12,}" for value in values]
        if len(values) == 2:
            cells.append(f"{values[1] - values[0]:>+12,}")
        print(f"{name:{width}}" + "".join(cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "trees", nargs="*", type=Path, help="one or two; default: what is installed"
    )
    parser.add_argument("--details", action="store_true", help="names, after the table")
    parser.add_argument("--trace", action="store_true", help="run fits, and look")
    args = parser.parse_args()
    if len(args.trees) > 2:
        parser.error("at most two trees")
    roots = [package_of(path) for path in args.trees] or [installed()]
    print_table([figures(root) for root in roots])
    if args.trace:
        print("\nEntered by one fit, the second of its process")
        print_table([traced(root) for root in roots])
    if args.details:
        for root in roots:
            print(f"\n{'=' * 88}\n{root}")
            for title, names in named(root).items():
                print(f"\n{title} ({len(names)})")
                print("".join(f"  {name}\n" for name in names), end="")


if __name__ == "__main__":
    main()
