"""Which tests run a line, in which order: those about privacy first, the fast before.

Recorded lines say it, where there are any. What a statement outside of functions binds
is looked for where functions read it, and a compiled loop where Python calls it.
"""

import ast
import dataclasses
import functools
import gzip
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

from _mutants import Mutant, Source

HERE = Path(__file__).parent
#: What is asked: no test of the docs, or of the form of the source.
FOLDERS = (
    *("attacks", "audit", "encoding", "estimators", "kernels", "privacy", "queries"),
    *("records", "releases"),
)
FILES = (
    *("additive", "dominance", "golden_releases", "guarantees", "plan_is_public"),
    *("saved_files", "workflows"),
)
_ABOUT_PRIVACY = (
    *("tests/attacks/", "tests/audit/", "tests/privacy/", "tests/queries/"),
    *("tests/releases/", "tests/test_guarantees", "tests/test_plan_is_public"),
)
#: Equal to what was written before: they notice every change, and cannot say which.
_COMPARISONS = ("golden", "saved")


def record(tree: Path, cache: Path, jobs: int, target: Path) -> None:
    """Run the tests of a copy once, and keep the lines of each."""
    folder = target.with_suffix(".parts")
    folder.mkdir(parents=True, exist_ok=True)
    there = [f"tests/{name}" for name in FOLDERS if (tree / "tests" / name).exists()]
    there += [f"tests/test_{name}.py" for name in FILES]
    command = [sys.executable, "-m", "pytest", "-p", "_coverage", "-q", *there]
    command += ["-m", "not slow", "--hypothesis-seed=0", "-p", "no:cacheprovider"]
    command += ["-n", str(jobs), "--dist", "worksteal"] if jobs > 1 else []
    paths = [str(tree), str(HERE), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "NUMBA_CACHE_DIR": str(cache),
        "SABOTAGE_RECORD": str(folder),
        "SABOTAGE_PACKAGE": str(tree / "skfdp"),
    }
    subprocess.run(command, cwd=tree, env=environment, check=False)
    tests = {}
    for part in sorted(folder.glob("*.json.gz")):
        with gzip.open(part, "rt") as file:
            tests |= json.load(file)
    if not tests:
        raise RuntimeError("no test passed in the copy: see above.")
    with gzip.open(target, "wt") as file:
        json.dump(dict(sorted(tests.items())), file)


@dataclasses.dataclass(frozen=True)
class Asked:
    """A test, and how long it took."""

    name: str
    seconds: float


class Coverage:
    """The tests of each line.

    Parameters
    ----------
    path : Path
        As `record` wrote it.
    root : Path
        The checkout, whose test files are read.
    sources : dict of str to Source
    """

    def __init__(self, path: Path, root: Path, sources: dict[str, Source]):
        with gzip.open(path, "rt") as file:
            tests = json.load(file)
        self._sources, self._root = sources, root
        self.names = list(tests)
        self.seconds = {name: one["seconds"] for name, one in tests.items()}
        self._by_line: dict[tuple[str, int], set[int]] = defaultdict(set)
        self._by_file: dict[str, set[int]] = defaultdict(set)
        for number, one in enumerate(tests.values()):
            for file, lines in one["lines"].items():
                self._by_file[file].add(number)
                for line in lines:
                    self._by_line[file, line].add(number)

    def tests_of(self, mutant: Mutant) -> list[Asked]:
        """Return the tests to ask of a mutant, in order."""
        found = self._of_lines((mutant.file, line) for line in mutant.lines)
        if "/kernels/" in mutant.file:
            found |= self._of_kernel(mutant)
        for name in mutant.names:
            found |= self._of_lines(self._readers[name])
        if mutant.also:
            names = enumerate(self.names)
            found |= {number for number, name in names if mutant.also in name}
        if not found:
            found = set(self._by_file[mutant.file])
        names = (self.names[number] for number in found)
        asked = [Asked(name, self.seconds[name]) for name in names]
        return self._in_order(asked, mutant)

    def _of_lines(self, lines) -> set[int]:
        found: set[int] = set()
        for line in lines:
            found |= self._by_line.get(line, set())
        return found

    @functools.cached_property
    def _readers(self) -> dict[str, set[tuple[str, int]]]:
        """Lines within functions that read a name."""
        found: dict[str, set[tuple[str, int]]] = defaultdict(set)
        for source in self._sources.values():
            for node in ast.walk(source.tree):
                if isinstance(node, ast.FunctionDef):
                    for name, line in _reads(node):
                        found[name].add((source.file, line))
        return found

    def _of_kernel(self, mutant: Mutant) -> set[int]:
        """Return the tests that call a compiled function, or what it is a part of."""
        source = self._sources[mutant.file]
        names = {source.scopes[mutant.line].partition(".")[0], *mutant.names} - {""}
        if "/losses/" in mutant.file:  # called by its place among the leaves
            names.add("residuals")
        functions = [
            node
            for other in self._sources.values()
            if "/kernels/" in other.file
            for node in other.tree.body
            if isinstance(node, ast.FunctionDef)
        ]
        while True:
            more = {
                node.name
                for node in functions
                if names & {name for name, _ in _reads(node)}
            }
            if more <= names:
                break
            names |= more
        lines = (line for name in names for line in self._readers[name])
        found = self._of_lines(place for place in lines if "/kernels/" not in place[0])
        for number, name in enumerate(self.names):
            if self._mentions(name.partition("::")[0], mutant.file) & names:
                found.add(number)
        return found

    def _in_order(self, asked: list[Asked], mutant: Mutant) -> list[Asked]:
        """Return the tests of the file first, then one case of each function."""
        cases: Counter[str] = Counter()
        files = {one.name.partition("::")[0] for one in asked}
        ranks = {file: self._rank(file, mutant) for file in files}
        keys = {}
        for one in sorted(asked, key=lambda one: (one.seconds, one.name)):
            function = one.name.partition("[")[0]
            first, own, near = ranks[one.name.partition("::")[0]]
            if mutant.also and mutant.also in one.name:
                first = own = 0
            keys[one.name] = first, own, cases[function], near, one.seconds
            cases[function] += 1
        return sorted(asked, key=lambda one: keys[one.name])

    def _rank(self, file: str, mutant: Mutant) -> tuple[int, int, int]:
        """Return ranks: about privacy, about a mutant's file, about its room."""
        if any(word in file for word in _COMPARISONS):
            return 2, 0, 0
        path = Path(mutant.file).with_suffix("")
        near = file.startswith(f"tests/{path.parts[1]}/")
        text, name = self._text(file), self._name(mutant)
        own = path.name in Path(file).stem
        own = own or near and ".".join(path.parts[1:]) in text
        own = own or bool(name) and name in text
        first = file.startswith(_ABOUT_PRIVACY) or near or own
        return 1 - first, 1 - own, 1 - near

    def _name(self, mutant: Mutant) -> str:
        """Return the name of the function of a mutant, if it says something."""
        scope = self._sources[mutant.file].scopes[mutant.line]
        name = scope.rpartition(".")[2]
        return name if len(name) > 6 and not name.startswith("__") else ""

    @functools.cache  # noqa: B019 -- one object for a run
    def _text(self, file: str) -> str:
        return (self._root / file).read_text(encoding="utf-8")

    @functools.cache  # noqa: B019 -- one object for a run
    def _mentions(self, file: str, kernel: str) -> frozenset[str]:
        """Return the names in a test file that imports a kernel's file."""
        text = self._text(file)
        if Path(kernel).stem not in text or "kernels" not in text:
            return frozenset()
        names = {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}
        nodes = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Attribute))
        return frozenset(names | {node.attr for node in nodes})


def _reads(function: ast.FunctionDef):
    """Yield the names that a function reads or imports, each with its line."""
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute):
            yield node.attr, node.lineno
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.name, node.lineno
