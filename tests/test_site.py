"""The frame of the documentation: lists of pages, claims, formulas, and links."""

import ast
import importlib.util
import inspect
import re
from pathlib import Path

import pytest

import skfdp

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
FOLDERS = ("tutorials", "howto", "explanation", "maps", "benchmarks", "trust", "theory")

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        not DOCS.is_dir(), reason="the docs folder is not beside the tests"
    ),
]


def extension(name):
    """Import one of the extensions beside the pages."""
    pytest.importorskip("sphinx")
    path = DOCS / "_extensions" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_page_is_in_the_list_of_its_folder(folder):
    pages = {page.stem for page in (DOCS / folder).glob("*.rst")} - {"index"}
    listed = (DOCS / folder / "index.rst").read_text(encoding="utf-8")
    assert pages
    assert pages == set(re.findall(r"^   (\w+)$", listed, re.MULTILINE))


def test_every_guarantee_is_on_the_list_of_claims():
    claims = extension("claims").claims()
    written = sum(
        "**Guarantees" in (ast.get_docstring(node) or "")
        for path in (ROOT / "skfdp").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    )
    assert len(claims) == written > 50
    assert all(len(claim.text) > 40 for claim in claims)
    # Nothing but the guarantee: no title of a section, none of the next bold word.
    assert not any(re.search(r"^-{3,}$", claim.text, re.M) for claim in claims)


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


def test_nearly_every_claim_has_a_test_that_uses_its_object():
    """The page says of the others that what uses them is tested."""
    claims = extension("claims").claims()
    without = [claim.name for claim in claims if not claim.tests]
    assert len(without) < len(claims) / 10, without


class TestFormulas:
    """MathML instead of a script from the network."""

    def formula(self, code, block=False):
        return extension("formulas").mathml(code, block=block)

    def test_it_is_mathml(self):
        found = self.formula(r"\varepsilon \le 1", block=True)
        assert found.startswith("<math")
        assert 'display="block"' in found

    @pytest.mark.parametrize(
        ("code", "known"),
        [
            (r"\frac14", r"\frac{1}{4}"),
            (r"\tfrac12", r"\tfrac{1}{2}"),
            (r"\Big( 1 \Big)", r"\Bigl( 1 \Bigr)"),
            (r"1, \dots, T", r"1, \ldots, T"),
        ],
    )
    def test_spellings(self, code, known):
        assert self.formula(code) == self.formula(known)

    def test_every_formula_can_be_read(self):
        """Those of the pages; a build reads those of the docstrings too."""
        blocks = r"^( *)\.\. math::(.*(?:\n\1   .*|\n *(?=\n))*)"
        count = 0
        for page in DOCS.glob("[!_ag]*/*.rst"):
            text = page.read_text(encoding="utf-8")
            for code in re.findall(r":math:`([^`]+)`", text):
                assert self.formula(code).startswith("<math")
                count += 1
            for _, code in re.findall(blocks, text, re.MULTILINE):
                assert self.formula(code, block=True).startswith("<math")
                count += 1
        assert count > 100


@pytest.mark.parametrize(
    "name",
    [
        "FeatureDPLogisticRegression",
        "DPSGDFClassifier",
        "FeatureDPRegressor",
        "DPSGDFRegressor",
        "FeatureDPMLPClassifier",
    ],
)
def test_parameters_that_matter_come_first(name):
    estimator = getattr(skfdp, name)
    about = inspect.getdoc(estimator).partition("\nAttributes\n")[0]
    parts = re.split(r"\n(?:Other )?Parameters\n-+\n", about)[1:]
    found = [re.findall(r"^(\w+(?:, \w+)*) : ", part, re.MULTILINE) for part in parts]
    first, others = [", ".join(names).split(", ") for names in found]
    assert first[0] == "epsilon"
    assert len(first) <= 10
    assert "random_state" in others
    signature = inspect.signature(estimator).parameters
    assert sorted(first + others) == sorted(signature)


def test_public_names_have_their_sources():
    home = extension("sources")._home
    place = home(None, "skfdp", "FeatureDPLogisticRegression.fit")
    assert place == "skfdp.linear_model"
    assert home(None, "skfdp", "report") == "skfdp.privacy.pipelines"
    assert home(None, "skfdp.privacy", "gdp_mu") == "skfdp.privacy.accounting"
    assert home(None, "numpy", "array") is None


class TestLayout:
    """Names break between words, and tables of plain text keep their columns."""

    @pytest.mark.parametrize(
        ("name", "parts"),
        [
            ("DPSGDFClassifier", ["DPSGDF", "Classifier"]),
            ("FeatureDPLogisticRegression", ["FeatureDP", "Logistic", "Regression"]),
            ("skfdp.private_score", ["skfdp.", "private_", "score"]),
            ("PrivacyLedger", ["PrivacyLedger"]),  # short enough for a line
        ],
    )
    def test_long_names_break_between_words(self, name, parts):
        assert extension("layout").breakable(name).split("<wbr>") == parts

    @pytest.mark.parametrize(
        ("text", "letters"),
        [("epsilon   1    3\nwine     90   95", 16), ("one line\nof words", None)],
    )
    def test_tables_of_plain_text_are_found(self, text, letters):
        layout = extension("layout")
        block = layout.nodes.literal_block(text, text, language="none")
        assert layout.aligned(block) == letters

    def test_the_first_examples_are_there(self):
        layout = extension("layout")
        names = [path.name for path in (ROOT / "examples").rglob("*_*.py")]
        assert set(layout.FIRST) <= set(names)
        order = sorted(names, key=layout.order_of_examples)
        assert order[: len(layout.FIRST)] == list(layout.FIRST)
        assert order[-1].startswith("data_")
