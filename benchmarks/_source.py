"""Files, functions, lines and imports of a package that is read and never imported."""

from __future__ import annotations

import ast
import functools
import importlib.util
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OLD_NAMES = "addresses"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Graph = dict[str, set[str]]


@dataclass(frozen=True)
class File:
    """One file of the package."""

    name: str
    text: str

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def room(self) -> str:
        return room_of(self.name)

    @property
    def package(self) -> list[str]:
        """The parts of the package that a relative import starts at."""
        return self.name.split("/")[:-1]

    @property
    def module(self) -> str:
        """Its dotted name below the package, empty for the package itself."""
        return ".".join(self.name.removesuffix(".py").split("/")).removesuffix(
            "__init__"
        )


@dataclass(frozen=True)
class Function:
    """One function or method, with the classes and functions around it."""

    file: File
    name: str
    in_class: bool
    node: ast.FunctionDef | ast.AsyncFunctionDef

    @property
    def lines(self) -> int:
        """Its lines, docstring aside, as `CONTRIBUTING.rst` limits them."""
        node = self.node
        prose = [part for part in node.body[:1] if _is_prose(part)]
        return node.end_lineno - node.lineno + 1 - sum(map(_height, prose))

    @property
    def parameters(self) -> list[ast.arg]:
        of = self.node.args
        named = [*of.posonlyargs, *of.args, *of.kwonlyargs]
        return [*named, *filter(None, (of.vararg, of.kwarg))]

    def __str__(self) -> str:
        return f"{self.file.name}:{self.node.lineno} {self.name}"


def room_of(name: str) -> str:
    """Return the entry at the top that a file is in, or is."""
    return name.split("/")[0].removesuffix(".py")


# -- Reading --------------------------------------------------------------------------


def package_of(path: Path) -> Path:
    """Return the folder of the package: of a checkout, or the path itself."""
    inner = path / "skfdp"
    found = inner if inner.is_dir() else path
    if not any(found.glob("*.py")):
        raise SystemExit(f"{path} is neither a checkout nor the folder of a package.")
    return found.resolve()


def installed() -> Path:
    """Return the folder of the installed package, without running it."""
    spec = importlib.util.find_spec("skfdp")
    if spec is None or spec.origin is None:
        raise SystemExit("skfdp is not installed: give the path of a checkout.")
    return Path(spec.origin).parent


@functools.cache
def read(root: Path) -> tuple[File, ...]:
    """Return every Python file below a folder, by name."""
    paths = sorted(p for p in root.rglob("*.py") if "__pycache__" not in p.parts)
    return tuple(
        File(path.relative_to(root).as_posix(), path.read_text("utf-8"))
        for path in paths
    )


def functions(file: File) -> Iterator[Function]:
    """Yield functions and methods, those inside others included."""

    def below(node: ast.AST, around: str, in_class: bool) -> Iterator[Function]:
        for part in ast.iter_child_nodes(node):
            if isinstance(part, (*FUNCTIONS, ast.ClassDef)):
                name = f"{around}{part.name}"
                if not isinstance(part, ast.ClassDef):
                    yield Function(file, name, in_class, part)
                yield from below(part, f"{name}.", isinstance(part, ast.ClassDef))
            else:
                yield from below(part, around, in_class)

    return below(file.tree, "", False)


def every_function(root: Path) -> list[Function]:
    return [function for file in read(root) for function in functions(file)]


# -- Lines ----------------------------------------------------------------------------


def _is_prose(node: ast.AST) -> bool:
    """Whether a statement is a string and nothing else, as docstrings are."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _height(node: ast.AST) -> int:
    return node.end_lineno - node.lineno + 1


def code_lines(text: str) -> int:
    """Count the lines that are not blank and hold more than comments and docstrings."""
    silent = {
        *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENCODING),
        *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
    }
    lines = text.splitlines()
    prose = [
        ((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset))
        for node in ast.walk(ast.parse(text))
        if _is_prose(node)
    ]
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in silent:
            continue
        # ast counts the bytes of a line, tokenize its characters
        start = token.start[0], len(token.line[: token.start[1]].encode())
        if token.type == tokenize.STRING and any(
            first <= start < last for first, last in prose
        ):
            continue
        found.update(range(token.start[0], token.end[0] + 1))
    return sum(bool(lines[number - 1].strip()) for number in found)


def code_below(folder: Path) -> int:
    """Count the code lines of every file below a folder, none if it is not there."""
    return sum(code_lines(file.text) for file in read(folder))


# -- Rooms ----------------------------------------------------------------------------


def entries(root: Path) -> list[str]:
    """Return the rooms at the top of the package, the file of old names left out."""
    return sorted({file.room for file in read(root)} - {OLD_NAMES})


def _named_at_run_time(file: File, node: ast.expr, modules: set[str]) -> Iterator[str]:
    """Yield what `import_module` may be asked for.

    Of a name that is put together the start is known, and the rest is taken to be any
    string in the file that makes it a module.
    """
    if isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
        start = str(node.values[0].value)
        if start.count(".") > 1:  # it names a room at least
            yield start
        for part in ast.walk(file.tree):
            if isinstance(part, ast.Constant) and f"{start}{part.value}" in modules:
                yield f"{start}{part.value}"


def _asked(file: File, package: str, modules: set[str]) -> Iterator[str]:
    """Yield the dotted name of everything that is imported, as it is spelt."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = [node.module] if node.module else []
            if node.level:
                here = [package, *file.package]
                parts = here[: len(here) - node.level + 1] + parts
            yield from (".".join([*parts, alias.name]) for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            if last_name(node.func) in ("import_module", "__import__"):
                yield from _named_at_run_time(file, node.args[0], modules)


def last_name(node: ast.AST) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def file_graph(root: Path) -> Graph:
    """Return, for every file, the files of the package that it imports."""
    homes = {file.module.removesuffix("."): file.name for file in read(root)}
    modules = {f"{root.name}.{name}" for name in homes if name}
    graph: Graph = {}
    for file in read(root):
        graph[file.name] = set()
        for asked in _asked(file, root.name, modules):
            first, *parts = asked.split(".")
            if first != root.name:
                continue
            while ".".join(parts) not in homes and parts:
                parts.pop()  # a name in a module, and no module
            if ".".join(parts) in homes:
                graph[file.name].add(homes[".".join(parts)])
        graph[file.name].discard(file.name)
    return graph


def room_graph(root: Path) -> Graph:
    """Return, for every room, the rooms that it imports."""
    rooms = {file.name: file.room for file in read(root)}
    graph: Graph = {room: set() for room in rooms.values()}
    for name, targets in file_graph(root).items():
        graph[rooms[name]] |= {rooms[target] for target in targets} - {rooms[name]}
    return graph


def reached(graph: Graph, start: str) -> frozenset[str]:
    """Return what can be reached by one arrow or more."""
    found: set[str] = set()
    new = set(graph[start])
    while new:
        found |= new
        new = set().union(*(graph[name] for name in new)) - found
    return frozenset(found)


def circles(graph: Graph) -> list[list[str]]:
    """Return the strongly connected components of more than one node, by name."""
    reach = {name: reached(graph, name) for name in graph}
    found = {
        tuple(sorted({name} | {n for n in reach[name] if name in reach[n]}))
        for name in graph
    }
    return sorted(list(circle) for circle in found if len(circle) > 1)


def floors(graph: Graph) -> list[list[str]]:
    """Return the nodes by level, the lowest first; a circle has one level."""
    whole = {name: name for name in graph}
    whole |= {name: circle[0] for circle in circles(graph) for name in circle}
    condensed: Graph = {whole[name]: set() for name in graph}
    for name, targets in graph.items():
        condensed[whole[name]] |= {whole[t] for t in targets} - {whole[name]}

    @functools.cache
    def level(name: str) -> int:
        return 1 + max(map(level, condensed[name]), default=-1)

    found: list[list[str]] = [[] for _ in range(1 + max(map(level, condensed)))]
    for name in sorted(graph):
        found[level(whole[name])].append(name)
    return found
