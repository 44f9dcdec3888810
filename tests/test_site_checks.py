"""The checks of the built site find what is wrong with one."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        not DOCS.is_dir(), reason="the docs folder is not beside the tests"
    ),
]

INDEX = """<a href="other.html#here">a</a> <a href="#top">b</a> <i id="top"></i>
<a href="https://example.org/page#part">c</a> <img src="data:image/png;base64,AA">
<a href="folder/">d</a> <a href="spaced%20name.html">e</a>"""
FILES = {
    "index.html": INDEX,
    "other.html": '<h1 id="here">Here</h1> <a href="index.html?x=1#top">up</a>',
    "folder/index.html": '<a href="../other.html">up</a> <a href="..">up</a>',
    "spaced name.html": "",
    "_static/template.html": '<link href="{{ nowhere }}">',
}


@pytest.fixture
def links():
    spec = importlib.util.spec_from_file_location("links", DOCS / "check_links.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def site(tmp_path):
    def write(**changes):
        for name, text in {**FILES, **changes}.items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return str(tmp_path)

    return write


def test_a_sound_site(links, site, capsys):
    assert links.main([site()]) == 0
    assert "4 pages, 9 links, 0 of them broken; 1 addresses" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("absent.html", "no such file"),
        ("folder/absent.png", "no such file"),
        ("other.html#there", "no such place"),
        ("#bottom", "no such place"),
        ("folder/#here", "no such place"),
    ],
)
def test_broken_links(links, site, capsys, link, why):
    text = f'{INDEX}<a href="{link}">x</a>'
    assert links.main([site(**{"index.html": text})]) == 1
    assert f"index.html: {link}: {why}" in capsys.readouterr().out


def test_other_sites_are_listed(links, site, capsys):
    assert links.main([site(), "--external"]) == 0
    assert "https://example.org/page#part (index.html)" in capsys.readouterr().out


def test_an_empty_folder_is_no_site(links, tmp_path):
    assert links.main([str(tmp_path)]) == 1
