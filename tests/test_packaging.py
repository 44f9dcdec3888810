"""The package as it is handed out; ``.ci/build`` compares the bytes of two builds."""

import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import skfdp

ROOT = Path(__file__).resolve().parent.parent
SETUP, CITATION = ROOT / "setup.py", ROOT / "CITATION.cff"

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not SETUP.is_file(), reason="no checkout"),
]
#: What tests and documentation need; caches of builds and of tools are left out.
FOLDERS = (".ci", "benchmarks", "docs", "examples", "skfdp", "tests")
IGNORED = shutil.ignore_patterns(
    *("__pycache__", "*.nbi", "*.nbc", "_build", "generated", "auto_examples", ".asv"),
    *(".hypothesis", ".pytest_cache", "sg_execution_times.rst"),
)


def names_of(folder):
    paths = (path for name in FOLDERS for path in (folder / name).rglob("*"))
    return {path.relative_to(folder).as_posix() for path in paths if path.is_file()}


def test_an_sdist_has_all_files_and_the_version(tmp_path):
    pytest.importorskip("setuptools", minversion="77")
    copy = tmp_path / "checkout"
    copy.mkdir()
    for path in ROOT.iterdir():
        if path.name in FOLDERS:
            shutil.copytree(path, copy / path.name, ignore=IGNORED)
        elif path.is_file():
            shutil.copy(path, copy / path.name)
    command = [sys.executable, "setup.py", "-q", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=copy, capture_output=True, check=True, timeout=900)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "sdist", filter="data")
    (unpacked,) = (tmp_path / "sdist").iterdir()
    assert names_of(copy) == names_of(unpacked)
    metadata = (unpacked / "PKG-INFO").read_text(encoding="utf-8")
    assert "License-Expression: BSD-3-Clause" in metadata
    assert f"Version: {skfdp.__version__}\n" in metadata


def test_the_citation_is_of_this_version():
    (version,) = re.findall(r"^version: (.+)$", CITATION.read_text(), re.MULTILINE)
    assert version == skfdp.__version__
