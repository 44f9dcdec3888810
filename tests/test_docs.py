"""The documentation names what is public, and its examples run."""

import ast
import doctest
import inspect
import re
import sys
from pathlib import Path

import pytest

import skfdp
import skfdp.audit
import skfdp.bounds
import skfdp.datasets
import skfdp.inspection
import skfdp.metrics
import skfdp.privacy
import skfdp.schema
import skfdp.solvers

ROOT = Path(__file__).resolve().parent.parent
DOCS, README = ROOT / "docs", ROOT / "README.rst"
MODULES = (
    skfdp,
    skfdp.audit,
    skfdp.bounds,
    skfdp.datasets,
    skfdp.inspection,
    skfdp.metrics,
    skfdp.privacy,
    skfdp.schema,
    skfdp.solvers,
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
ESTIMATORS = [n for n in skfdp.__all__ if hasattr(getattr(skfdp, n), "fit")]
TEMPLATE = "autosummary/estimator.rst"
# What users call of an estimator, in the order of its page.
CALLED = (
    "fit",
    "plan",
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "coefficients_table",
    "to_sklearn",
    "transform",
    "fit_transform",
    "get_feature_names_out",
)


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
@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_on_the_api_page(module):
    page = (DOCS / "api.rst").read_text(encoding="utf-8")
    listed = set(re.findall(r"[A-Za-z_][A-Za-z_0-9]*", page))
    assert set(module.__all__) <= listed


@needs_docs
def test_the_api_page_lists_nothing_else():
    page = (DOCS / "api.rst").read_text(encoding="utf-8")
    # Items of an autosummary are alone on an indented line; its options have colons.
    listed = re.findall(r"^   ([A-Za-z_][A-Za-z_0-9]*)$", page, re.MULTILINE)
    public = {name for module in MODULES for name in module.__all__}
    assert len(listed) == len(set(listed)) > 10
    assert set(listed) <= public


@needs_docs
def test_every_estimator_has_the_page_of_estimators():
    page = (DOCS / "api.rst").read_text(encoding="utf-8")
    # With its folder: Sphinx takes a template that it does not find for its own one.
    option = f":template: {TEMPLATE}\n"
    blocks = [part for part in page.split("autosummary::") if option in part]
    listed = re.findall(r"^   ([A-Za-z]+)$", "".join(blocks), re.MULTILINE)
    assert set(listed) == set(ESTIMATORS)
    assert page.count(":template:") == len(blocks)


@needs_docs
@pytest.mark.parametrize("name", ESTIMATORS)
def test_pages_of_estimators_show_what_users_call(name):
    """What a base class defines for its subclasses stays off the API pages."""
    jinja2 = pytest.importorskip("jinja2")
    template = DOCS / "_templates" / TEMPLATE
    environment = jinja2.Environment()
    environment.filters["underline"] = str
    members = [*dir(getattr(skfdp, name)), "a_documented_hook"]
    page = environment.from_string(template.read_text(encoding="utf-8")).render(
        objname=name, module="skfdp", members=members
    )
    # No other option: with inherited members Sphinx would show all, whatever is named.
    about, _, examples = page.partition(".. minigallery::")
    ((option, shown),) = re.findall(r"^ +:(.+?):(.*)$", about, re.MULTILINE)
    assert option == "members"
    assert examples.startswith(f" skfdp.{name}\n")
    assert shown.replace(",", "").split() == [one for one in CALLED if one in members]


@pytest.mark.parametrize("module", MODULES)
def test_doctests_of_public_names_are_collected(module):
    """Names that say where users import them from are in no other file's eyes."""
    collected = {
        test.name.rpartition(".")[2]
        for name, home in list(sys.modules.items())
        if name.partition(".")[0] == "skfdp"
        for test in doctest.DocTestFinder().find(home)
        if test.examples
    }
    public = {name: getattr(module, name) for name in module.__all__}
    with_examples = {
        name for name, one in public.items() if ">>>" in (one.__doc__ or "")
    }
    assert with_examples <= collected


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_documented_parameters_are_those_of_the_constructor(name):
    """Also where sections come from the base class or from shared texts."""
    kind = getattr(ESTIMATORS[name], name)
    text = inspect.getdoc(kind)
    text = text.partition("\nParameters\n")[2].partition("\nAttributes\n")[0]
    found = re.findall(r"^(\w.*?)(?: :.*)?$", text, re.MULTILINE)
    names = [one for line in found for one in line.split(", ")]
    if "Other Parameters" in names:
        names.remove("Other Parameters")
    assert sorted(names) == sorted(inspect.signature(kind).parameters)


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


ROOMS = sorted(p.name for p in Path(skfdp.__file__).parent.iterdir() if p.is_dir())


@pytest.mark.parametrize("room", [room for room in ROOMS if room != "__pycache__"])
def test_titles_of_modules_and_classes_are_nouns(room):
    """Titles like "What a fit disclosed" make the reader guess what it is."""
    paths = sorted((Path(skfdp.__file__).parent / room).rglob("*.py"))
    found = [title for path in paths for title in titles(path)]
    clauses = r"(What|Which|Who|Where|When|Whether|How|From|Something|Nobody)\b"
    assert found
    assert [title for title in found if re.match(clauses, title)] == []


FOLDERS = ("tutorials", "howto", "explanation", "maps", "benchmarks", "trust", "theory")
PAGES = [DOCS / "index.rst"]
PAGES += [page for folder in FOLDERS for page in sorted(DOCS.glob(f"{folder}/*.rst"))]


@needs_docs
class TestWords:
    """The page of words, and the links to it."""

    page = DOCS / "explanation" / "glossary.rst"

    def terms(self):
        text = self.page.read_text(encoding="utf-8")
        glossary = text.partition(".. glossary::")[2]
        return set(re.findall(r"^   (?=\S)(?!:)(.+)$", glossary, re.MULTILINE))

    def links(self):
        pages = [page for page in PAGES if page != self.page]
        sources = sorted(Path(skfdp.__file__).parent.rglob("*.py"))
        text = "".join(path.read_text(encoding="utf-8") for path in pages + sources)
        found = re.findall(r":term:`(?:[^`<]*<)?([^`<>]+)>?`", text)
        return {" ".join(name.split()) for name in found}

    def test_a_reader_finds_the_page(self):
        index = (DOCS / "index.rst").read_text(encoding="utf-8")
        listed = (DOCS / "explanation" / "index.rst").read_text(encoding="utf-8")
        assert "\n   explanation/index\n" in index
        assert "\n   glossary\n" in listed

    def test_every_word_is_linked_and_every_link_is_a_word(self):
        assert len(self.terms()) > 20
        assert self.links() == self.terms()


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
