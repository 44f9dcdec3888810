"""The documentation names what is public, and its examples run."""

import ast
import doctest
import importlib
import pkgutil
import re
import sys
from pathlib import Path

import pytest

import skfdp

ROOT = Path(__file__).resolve().parent.parent
DOCS, README = ROOT / "docs", ROOT / "README.rst"
FOUND = [one.name for one in pkgutil.iter_modules(skfdp.__path__) if one.ispkg]
FOUND += ["bounds", "metrics", "schema"]
FOUND = [importlib.import_module(f"skfdp.{name}") for name in FOUND]
MODULES = [skfdp, *(module for module in FOUND if hasattr(module, "__all__"))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
ESTIMATORS = {
    name: home
    for home in MODULES
    for name in home.__all__
    if hasattr(getattr(home, name), "fit")
}
TEMPLATE = "autosummary/estimator.rst"


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


@needs_docs
def test_every_estimator_has_the_page_of_estimators():
    page = (DOCS / "api.rst").read_text(encoding="utf-8")
    # With its folder: Sphinx takes a template that it does not find for its own one.
    option = f":template: {TEMPLATE}\n"
    blocks = [part for part in page.split("autosummary::") if option in part]
    listed = re.findall(r"^   ([A-Za-z]+)$", "".join(blocks), re.MULTILINE)
    assert set(listed) == set(ESTIMATORS)
    assert page.count(":template:") == len(blocks)


def test_doctests_of_public_names_are_collected():
    """Names that say where users import them from are in no other file's eyes."""
    collected = {
        test.name.rpartition(".")[2]
        for name, home in list(sys.modules.items())
        if name.partition(".")[0] == "skfdp"
        for test in doctest.DocTestFinder().find(home)
        if test.examples
    }
    with_examples = {
        name
        for module in MODULES
        for name in module.__all__
        if ">>>" in (getattr(module, name).__doc__ or "")
    }
    assert with_examples <= collected


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


def titles(path):
    """Return the first docstring lines of a module and of its classes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    found = [ast.get_docstring(node) for node in (tree, *nodes)]
    return [text.splitlines()[0] for text in found if text]


def test_titles_of_modules_and_classes_are_nouns():
    """Titles like "What a fit disclosed" make the reader guess what it is."""
    paths = sorted(Path(skfdp.__file__).parent.rglob("*/*.py"))
    found = [title for path in paths for title in titles(path)]
    clauses = r"(What|Which|Who|Where|When|Whether|How|From|Something|Nobody)\b"
    assert found
    assert [title for title in found if re.match(clauses, title)] == []


FOLDERS = ("tutorials", "howto", "explanation", "maps", "benchmarks", "trust", "theory")
PAGES = [DOCS / "index.rst"]
PAGES += [page for folder in FOLDERS for page in sorted(DOCS.glob(f"{folder}/*.rst"))]


@needs_docs
def test_every_word_of_the_glossary_is_linked_and_every_link_is_a_word():
    glossary = DOCS / "explanation" / "glossary.rst"
    text = glossary.read_text(encoding="utf-8").partition(".. glossary::")[2]
    words = set(re.findall(r"^   (?=\S)(?!:)(.+)$", text, re.MULTILINE))
    pages = [page for page in PAGES if page != glossary]
    sources = sorted(Path(skfdp.__file__).parent.rglob("*.py"))
    text = "".join(path.read_text(encoding="utf-8") for path in pages + sources)
    links = re.findall(r":term:`(?:[^`<]*<)?([^`<>]+)>?`", text)
    assert {" ".join(name.split()) for name in links} == words
    assert len(words) > 20


@needs_docs
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            id=f"{page.parent.name}-{page.stem}",
            marks=[pytest.mark.extra("dask")] * (page.name == "large_tables.rst"),
        )
        for page in PAGES
    ],
)
def test_the_examples_of_the_pages(page):
    text = page.read_text(encoding="utf-8")
    assert run_examples(page) == len(re.findall(r"^ *>>> ", text, re.MULTILINE))
