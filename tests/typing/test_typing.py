"""The types of the public API, as mypy sees those of the installed package."""

import importlib.resources
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent / "public_api.py"


def checked(path, folder):
    """Return what mypy prints of a file, away from the settings of the checkout."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", str(path)]
    command += ["--cache-dir", str(folder / "cache"), "--follow-imports=silent"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=600
    )
    return done.stdout + done.stderr


@pytest.mark.nightly
def test_a_typed_use_of_the_public_api_passes(tmp_path):
    pytest.importorskip("mypy")
    assert (importlib.resources.files("skfdp") / "py.typed").is_file()
    assert "Success: no issues found" in checked(EXAMPLE, tmp_path)
