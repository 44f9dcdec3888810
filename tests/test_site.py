"""The frame of the documentation: claims, tests that are named, and links."""

import ast
import importlib.util
import inspect
import re
from pathlib import Path

import pytest

import skfdp

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        not DOCS.is_dir(), reason="the docs folder is not beside the tests"
    ),
]


def imported(path):
    """Import a module beside the pages."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def claims():
    """The list of guarantees that the site shows."""
    pytest.importorskip("sphinx")
    return imported(DOCS / "_extensions" / "claims.py").claims()


def test_every_guarantee_is_on_the_list_of_claims(claims):
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


def test_nearly_every_claim_has_a_test_that_uses_its_object(claims):
    """The page says of the others that what uses them is tested."""
    without = [claim.name for claim in claims if not claim.tests]
    assert len(without) < len(claims) / 10, without


@pytest.mark.parametrize(
    "name", [n for n in skfdp.__all__ if re.match("DPSGDF|Fea", n)]
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


INDEX = """<a href="other.html#here">a</a> <a href="#top">b</a> <i id="top"></i>
<a href="https://example.org/page#part">c</a> <img src="data:image/png;base64,AA">
<a href="folder/">d</a> <a href="spaced%20name.html">e</a>"""
FILES = {
    "other.html": '<h1 id="here">Here</h1> <a href="index.html?x=1#top">up</a>',
    "folder/index.html": '<a href="../other.html">up</a> <a href="..">up</a>',
    "spaced name.html": "",
    "_static/template.html": '<link href="{{ nowhere }}">',
}
ABSENT = {"absent.html": "file", "folder/absent.png": "file", "#bottom": "place"}
ABSENT |= {"other.html#there": "place", "folder/#here": "place"}


def test_links_of_a_site_are_checked(tmp_path, capsys):
    main = imported(DOCS / "check_links.py").main
    assert main([str(tmp_path)]) == 1  # an empty folder is no site
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    links = "".join(f'<a href="{link}">x</a>' for link in ABSENT)
    for text, status in ((INDEX, 0), (INDEX + links, 1)):
        (tmp_path / "index.html").write_text(text, encoding="utf-8")
        assert main([str(tmp_path), "--external"]) == status
    sound, broken = capsys.readouterr().out.split("4 pages, 9 links, 0 of them broken")
    assert "https://example.org/page#part (index.html)" in sound + broken
    for link, what in ABSENT.items():
        assert f"index.html: {link}: no such {what}" in broken
