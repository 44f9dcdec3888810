"""The list of claims: every guarantee that a docstring of the package states.

Taken from the code when the pages are built, so that the list cannot fall behind it:
each paragraph that begins with **Guarantees** is a claim. Beside it stand the pages of
proofs that it names and the test files that use the object.
"""

import ast
import collections
import dataclasses
import functools
import inspect
import itertools
import re
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"


@dataclasses.dataclass(frozen=True)
class Claim:
    """A guarantee, and what speaks for it.

    Attributes
    ----------
    path : str
        Of the file, from the root of the checkout.
    name : str
        Of the object, with its class if it is a method.
    summary : str
        The first line of the docstring.
    text : str
        The guarantee, as reStructuredText.
    proofs : tuple of str
        Labels of pages that the docstring refers to.
    """

    path: str
    name: str
    summary: str
    text: str
    proofs: tuple[str, ...]

    @property
    def package(self):
        """The package that the file is in, with its dots."""
        return ".".join(Path(self.path).parent.parts[:2])

    @property
    def tests(self):
        """Files that use the object, those that do so most often first."""
        users = _users().get(self.name.split(".")[0], collections.Counter())
        return [path for path, _ in users.most_common()]


def claims():
    """Return the claims of the package, folder by folder."""
    found = []
    for path in sorted((ROOT / "skfdp").rglob("*.py"), key=lambda path: path.parts):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += _of(tree, str(path.relative_to(ROOT)), ())
    return sorted(found, key=lambda claim: claim.package)


def _of(node, path, above):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            names = (*above, child.name)
            text = ast.get_docstring(child) or ""
            if "**Guarantees" in text:
                proofs = re.findall(r":ref:`(?:[^`<]*<)?([\w-]+)>?`", text)
                yield Claim(
                    path,
                    ".".join(names),
                    text.splitlines()[0].rstrip("."),
                    _guarantee(text),
                    tuple(dict.fromkeys(proofs)),
                )
            yield from _of(child, path, names)


def _guarantee(text):
    """Return what stands from the word on to the end of its section."""
    after = inspect.cleandoc(text).partition("**Guarantees")[2]
    after = re.sub(r"^\.?\*\*\.?", "", after).strip()
    return re.split(r"\n\n(?=[^\n]+\n-{3,}\n)|\n\n(?=\*\*)", after)[0].strip()


@functools.cache
def _users():
    """Return, for each name, how often each test file uses or patches it."""
    found = collections.defaultdict(collections.Counter)
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for word in ("id", "attr", "value"):  # "value": of a patched name
                if isinstance(name := getattr(node, word, None), str):
                    found[name][str(path.relative_to(ROOT))] += 1
    return found


def _lines(claim):
    """Return the entry of a claim."""
    module = ".".join(Path(claim.path).with_suffix("").parts)
    of = f" ({claim.name})" if "." in claim.name else ""  # several have one summary
    yield f".. dropdown:: {claim.summary}{of}"
    yield ""
    for line in claim.text.splitlines():
        yield "   " + line if line else ""
    yield ""
    yield f"   :Object: ``{module}.{claim.name}``"
    links = ", ".join(f":ref:`{label}`" for label in claim.proofs)
    yield f"   :Proof: {links or 'above'}"
    tests = [f"``{path}``" for path in claim.tests]
    more = f" and {len(tests) - 3} more" if len(tests) > 3 else ""
    none = "none by name; through what uses it"
    yield f"   :Tests: {', '.join(tests[:3]) or none}{more}"
    yield ""


class Claims(Directive):
    """The list, by package."""

    def run(self):
        lines = []
        for package, here in itertools.groupby(claims(), lambda one: one.package):
            lines += [f".. rubric:: ``{package}``", ""]
            for claim in here:
                lines += _lines(claim)
        box = nodes.container()
        self.state.nested_parse(StringList(lines, "claims"), self.content_offset, box)
        return box.children


def setup(app):
    app.add_directive("claims", Claims)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
