"""The package as it is handed out: metadata, and wheels that can be built again."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
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


def run(folder, *command):
    # As a wheel is built, without the network that an isolated build asks for.
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr


def built(folder):
    """Build an sdist of a copy of the checkout, and a wheel of it; return both."""
    copy = folder / "checkout"
    copy.mkdir(parents=True)
    for path in ROOT.iterdir():
        if path.name in FOLDERS:
            shutil.copytree(path, copy / path.name, ignore=IGNORED)
        elif path.is_file():
            shutil.copy(path, copy / path.name)
    run(copy, "sdist", "-d", str(folder))
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "sdist", filter="data")
    (unpacked,) = (folder / "sdist").iterdir()
    run(unpacked, "bdist_wheel", "-d", str(folder))
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def names_of(folder):
    paths = (path for name in FOLDERS for path in (folder / name).rglob("*"))
    return {path.relative_to(folder).as_posix() for path in paths if path.is_file()}


def test_two_builds_are_equal_and_complete(tmp_path):
    pytest.importorskip("setuptools", minversion="77")
    builds = [built(tmp_path / name) for name in ("one", "two")]
    for files in zip(*builds, strict=True):
        digests = {hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
        assert len(digests) == 1
    (unpacked,) = (tmp_path / "two" / "sdist").iterdir()
    assert names_of(tmp_path / "two" / "checkout") == names_of(unpacked)
    with zipfile.ZipFile(builds[0][1]) as wheel:
        (name,) = (one for one in wheel.namelist() if one.endswith("/METADATA"))
        metadata = wheel.read(name).decode("utf-8")
    assert "License-Expression: BSD-3-Clause" in metadata
    assert f"Version: {skfdp.__version__}\n" in metadata


def test_the_citation_is_of_this_version():
    (version,) = re.findall(r"^version: (.+)$", CITATION.read_text(), re.MULTILINE)
    assert version == skfdp.__version__
