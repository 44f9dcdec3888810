"""The package as it is handed out: metadata, and wheels that can be built again."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
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


def built(folder):
    """Build a wheel of a copy of the checkout; return its path."""
    copy = folder / "checkout"
    copy.mkdir(parents=True)
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.rst", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    ignored = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
    shutil.copytree(ROOT / "skfdp", copy / "skfdp", ignore=ignored)
    # As a wheel is built, without the network that an isolated build asks for.
    command = [sys.executable, "setup.py", "-q", "bdist_wheel", "-d", str(folder)]
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
    done = subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_two_builds_of_a_wheel_are_equal(tmp_path):
    pytest.importorskip("setuptools", minversion="77")
    wheels = [built(tmp_path / name) for name in ("one", "two")]
    digests = {hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels}
    assert len(digests) == 1
    with zipfile.ZipFile(wheels[0]) as wheel:
        (name,) = (one for one in wheel.namelist() if one.endswith("/METADATA"))
        metadata = wheel.read(name).decode("utf-8")
    assert "License-Expression: BSD-3-Clause" in metadata
    assert f"Version: {skfdp.__version__}\n" in metadata


def test_the_citation_is_of_this_version():
    (version,) = re.findall(r"^version: (.+)$", CITATION.read_text(), re.MULTILINE)
    assert version == skfdp.__version__
