"""The documentation names what is public, and its examples run."""

import ast
import doctest
import importlib
import importlib.util
import pkgutil
import re
from pathlib import Path

import pytest

import skfdp

ROOT = Path(__file__).resolve().parent.parent
DOCS, README = ROOT / "docs", ROOT / "README.rst"
FOUND = [one.name for one in pkgutil.iter_modules(skfdp.__path__) if one.ispkg]
FOUND += ["bounds", "inspection", "metrics", "schema"]
FOUND = [importlib.import_module(f"skfdp.{name}") for name in FOUND]
MODULES = [skfdp, *(module for module in FOUND if hasattr(module, "__all__"))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def needs_docs(test):
    """Mark what tests the pages alone."""
    reason = "the docs folder is not beside the tests"
    return pytest.mark.nightly(
        pytest.mark.skipif(not DOCS.is_dir(), reason=reason)(test)
    )


needs_readme = pytest.mark.skipif(
    not README.is_file(), reason="README.rst is not beside the tests"
)


@needs_docs
def test_the_api_page_lists_every_public_name_and_nothing_else():
    page = (DOCS / "api.rst").read_text(encoding="utf-8")
    words = set(re.findall(r"[A-Za-z_][A-Za-z_0-9]*", page))
    # Items of an autosummary are alone on an indented line; its options have colons.
    listed = re.findall(r"^   ([A-Za-z_][A-Za-z_0-9]*)$", page, re.MULTILINE)
    public = {name for module in MODULES for name in module.__all__}
    assert len(listed) == len(set(listed)) > 10
    assert set(listed) <= public <= words


def run_examples(path):
    """Run the examples of a page; return how many there were."""
    result = doctest.testfile(
        str(path), module_relative=False, optionflags=FLAGS, encoding="utf-8"
    )
    assert result.failed == 0
    return result.attempted


@needs_readme
def test_the_examples_of_the_readme():
    assert run_examples(README) > 5


FOLDERS = ("tutorials", "howto", "explanation", "benchmarks", "trust", "theory")
EXTRAS = {"large_tables": ["dask"], "time_to_event": ["sksurv"]}
PAGES = [DOCS / "index.rst"]
PAGES += [page for folder in FOLDERS for page in sorted(DOCS.glob(f"{folder}/*.rst"))]


@needs_docs
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            id=f"{page.parent.name}-{page.stem}",
            marks=[*map(pytest.mark.extra, EXTRAS.get(page.stem, ()))],
        )
        for page in PAGES
    ],
)
def test_the_examples_of_the_pages(page):
    text = page.read_text(encoding="utf-8")
    assert run_examples(page) == len(re.findall(r"^ *>>> ", text, re.MULTILINE))


@needs_docs
def test_every_test_that_a_page_names_exists():
    """A page writes a file of tests, or a file, ``::`` and a function in it."""
    found = set()
    for page in DOCS.glob("[!_ag]*/*.rst"):
        text = page.read_text(encoding="utf-8")
        found |= set(re.findall(r"``(tests/[\w/]+\.py)(?:::(\w+))?``", text))
    assert len(found) > 20
    for file, name in found:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        names = {getattr(node, "name", None) for node in ast.walk(tree)}
        assert not name or name in names, f"{file}::{name}"
