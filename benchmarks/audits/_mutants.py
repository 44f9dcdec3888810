"""Mutants: one change of one line of the package, by rule or at random.

A rule looks at source lines (`Line`), at nodes of the syntax tree (`Each`), or moves a
line below another one (`Move`). One that finds less than it did when it was written is
an error: it would pass for a kill otherwise.
"""

import ast
import dataclasses
import fnmatch
import functools
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A change of a file: bytes from `start` to `stop` become `text`.

    Attributes
    ----------
    file : str
        Relative to the checkout.
    line : int
        The first one that changes.
    rule, reason : str
    start, stop : int
        Offsets in bytes.
    text : str
    old, new : str
        The changed line, before and after, for people.
    lines : tuple of int
        Lines of the statement: whoever runs one of them runs the mutant.
    names : tuple of str
        What a statement outside of functions defines.
    also : str
        Part of the names of tests that are asked first, whatever lines they run.
    """

    file: str
    line: int
    rule: str
    reason: str
    start: int
    stop: int
    text: str
    old: str
    new: str
    lines: tuple[int, ...]
    names: tuple[str, ...] = ()
    also: str = ""

    def applied(self, source: bytes) -> bytes:
        """Return the file after the change."""
        return source[: self.start] + self.text.encode() + source[self.stop :]


class Source:
    """A file of the package, with what is known of its lines."""

    def __init__(self, root: Path, file: str):
        self.file = file
        self.bytes = (root / file).read_bytes()
        self.lines = self.bytes.decode().split("\n")
        self.tree = ast.parse(self.bytes)
        self._offsets = [0]
        for line in self.bytes.split(b"\n"):
            self._offsets.append(self._offsets[-1] + len(line) + 1)
        self.parents = {
            child: node
            for node in ast.walk(self.tree)
            for child in ast.iter_child_nodes(node)
        }

    def offset(self, line: int, column: int) -> int:
        """Return the place of a line, from 1, and a column in bytes."""
        return self._offsets[line - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return where a node begins and ends."""
        return (
            self.offset(node.lineno, node.col_offset),
            self.offset(node.end_lineno, node.end_col_offset),
        )

    def text(self, node: ast.AST) -> str:
        """Return the source of a node."""
        start, stop = self.span(node)
        return self.bytes[start:stop].decode()

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield what a node is in, from the inside."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def scope(self, node: ast.AST) -> str:
        """Return the dotted name of the function or class around a node."""
        kinds = (ast.FunctionDef, ast.ClassDef)
        around = [a.name for a in (node, *self.ancestors(node)) if isinstance(a, kinds)]
        return ".".join(reversed(around))

    @functools.cached_property
    def scopes(self) -> list[str]:
        """The scope of each line, the first one being empty."""
        found = [""] * (len(self.lines) + 1)
        for node in ast.walk(self.tree):  # from the outside in
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                for line in range(node.lineno, node.end_lineno + 1):
                    found[line] = self.scope(node)
        return found

    @functools.cached_property
    def prose(self) -> set[int]:
        """Lines of docstrings and comments."""
        found = {
            n for n, line in enumerate(self.lines, 1) if line.lstrip().startswith("#")
        }
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                found |= set(range(node.lineno, node.end_lineno + 1))
        return found

    def statement(self, line: int) -> ast.stmt:
        """Return the innermost statement that a line is in."""
        best = self.tree
        for node in ast.walk(self.tree):
            if isinstance(node, ast.stmt) and node.lineno <= line <= node.end_lineno:
                best = node
        return best

    def mutant(self, rule, reason: str, start: int, stop: int, text: str) -> Mutant:
        """Return the change of a place."""
        line = self.bytes.count(b"\n", 0, start) + 1
        last = self.bytes.count(b"\n", 0, stop) + 1
        begin, end = self._offsets[line - 1], self._offsets[last] - 1
        before, after = self.bytes[begin:start], self.bytes[stop:end]
        statement = self.statement(line)
        within = any(
            isinstance(node, ast.FunctionDef)
            for node in self.ancestors(statement)
            if isinstance(statement, ast.stmt)
        )
        return Mutant(
            self.file,
            line,
            rule,
            reason,
            start,
            stop,
            text,
            _one_line(self.bytes[begin:end].decode()),
            _one_line((before + text.encode() + after).decode()),
            _lines_of(statement, line),
            () if within else _names_of(statement),
        )


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _lines_of(statement: ast.AST, line: int) -> tuple[int, ...]:
    """Return the lines that run with a line: of its statement, or of its header."""
    body = getattr(statement, "body", None)
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return tuple(range(body[0].lineno, statement.end_lineno + 1))
    last = body[0].lineno - 1 if body else statement.end_lineno
    return tuple(range(statement.lineno, max(last, statement.lineno, line) + 1))


def _names_of(statement: ast.AST) -> tuple[str, ...]:
    """Return the names that a statement binds."""
    return tuple(
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )


@dataclasses.dataclass(frozen=True)
class Line:
    """A rule for the lines that a regular expression finds.

    Attributes
    ----------
    name, reason : str
    where : str
        Glob of files below the package.
    find, put : str
        Regular expression within a line, and its replacement.
    scope : str
        Regular expression of the function around it.
    least : int
        Lines that have to be found.
    also : str
        Part of the names of tests that are asked first: of those that run the lines in
        another process, or among very many.
    """

    name: str
    reason: str
    where: str
    find: str
    put: str
    scope: str = ""
    least: int = 1
    also: str = ""

    def mutants(self, sources: dict[str, Source]) -> Iterator[Mutant]:
        """Yield a mutant for each line."""
        for source in _chosen(sources, self.where):
            for number, line in enumerate(source.lines, 1):
                if number in source.prose:
                    continue
                found = re.search(self.find, line)
                if found and re.search(self.scope, source.scopes[number]):
                    start, stop = (
                        source.offset(number, len(line[:place].encode()))
                        for place in found.span()
                    )
                    text = found.expand(self.put)
                    one = source.mutant(self.name, self.reason, start, stop, text)
                    yield dataclasses.replace(one, also=self.also)


@dataclasses.dataclass(frozen=True)
class Each:
    """A rule for nodes of the syntax tree.

    Attributes
    ----------
    name, reason, where : str
        As in `Line`.
    put : callable
        ``put(source, node)`` returns (a node, its new text), or None where the rule
        has nothing to say.
    least : int
    """

    name: str
    reason: str
    where: str
    put: Callable[[Source, ast.AST], tuple[ast.AST, str] | None]
    least: int = 1

    def mutants(self, sources: dict[str, Source]) -> Iterator[Mutant]:
        """Yield a mutant for each node."""
        for source in _chosen(sources, self.where):
            for node in ast.walk(source.tree):
                found = self.put(source, node)
                if found is not None:
                    start, stop = source.span(found[0])
                    yield source.mutant(self.name, self.reason, start, stop, found[1])


@dataclasses.dataclass(frozen=True)
class Move:
    """A rule that runs a statement after a later one of the same block.

    Attributes
    ----------
    name, reason, where : str
        As in `Line`.
    first, then : str
        Regular expressions at the beginning of the two statements.
    """

    name: str
    reason: str
    where: str
    first: str
    then: str
    least: int = 1
    also: str = ""

    def mutants(self, sources: dict[str, Source]) -> Iterator[Mutant]:
        """Yield a mutant for each pair."""
        for source in _chosen(sources, self.where):
            for node in ast.walk(source.tree):
                for block in (getattr(node, "body", ()), getattr(node, "orelse", ())):
                    yield from self._of_block(source, block)

    def _of_block(self, source: Source, block) -> Iterator[Mutant]:
        if not isinstance(block, list):
            return
        for place, first in enumerate(block):
            if not re.match(self.first, source.text(first)):
                continue
            for later in block[place + 1 :]:
                if re.match(self.then, source.text(later)):
                    start, stop = source.span(first)[0], source.span(later)[1]
                    gap = source.span(first)[1]
                    between = source.bytes[gap:stop].decode().lstrip()
                    text = f"{between}\n{' ' * first.col_offset}{source.text(first)}"
                    one = source.mutant(self.name, self.reason, start, stop, text)
                    yield dataclasses.replace(one, also=self.also)


def _chosen(sources: dict[str, Source], where: str) -> Iterator[Source]:
    for file, source in sources.items():
        if any(fnmatch.fnmatch(file, f"skfdp/{glob}") for glob in where.split()):
            yield source


def read_package(root: Path) -> dict[str, Source]:
    """Return the files of the package by their path."""
    files = sorted((root / "skfdp").rglob("*.py"))
    names = [file.relative_to(root).as_posix() for file in files]
    return {name: Source(root, name) for name in names}


def by_rule(rules, sources: dict[str, Source]) -> list[Mutant]:
    """Return the mutants of all rules; ValueError if one finds too little."""
    found: list[Mutant] = []
    for rule in rules:
        own = [m for m in rule.mutants(sources) if _is_valid(m, sources)]
        if len(own) < rule.least:
            raise ValueError(
                f"the rule {rule.name!r} found {len(own)} line(s) in {rule.where}, "
                f"expected at least {rule.least}: the code has changed, change the "
                "rule too."
            )
        found += own
    seen: dict[tuple, Mutant] = {}
    for mutant in found:
        seen.setdefault((mutant.file, mutant.start, mutant.stop, mutant.text), mutant)
    return list(seen.values())


def _is_valid(mutant: Mutant, sources: dict[str, Source]) -> bool:
    """Whether the file still parses, and is another one."""
    source = sources[mutant.file]
    changed = mutant.applied(source.bytes)
    try:
        tree = ast.parse(changed)
    except SyntaxError as error:
        raise ValueError(f"{mutant.rule}: {mutant.new!r} is no Python.") from error
    return ast.dump(tree) != ast.dump(source.tree)


def sample(population: list, size: int, seed: int) -> list:
    """Return a random sample in the order of the population."""
    places = random.Random(seed).sample(range(len(population)), size)
    return [population[place] for place in sorted(places)]
