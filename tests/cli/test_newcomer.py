"""What the script of the newcomer's path types works, in this environment."""

import importlib.util
import shlex
from pathlib import Path

import pytest

from skfdp.cli import main

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "newcomer.py"

pytestmark = pytest.mark.skipif(
    not SCRIPT.exists(), reason="the benchmarks are not part of an installed package"
)


def test_the_path(tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("newcomer", SCRIPT)
    newcomer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(newcomer)
    monkeypatch.chdir(tmp_path)
    newcomer.write_stays(Path("stays.csv"), 800, seed=0)
    newcomer.write_stays(Path("new.csv"), 10, seed=1, target=False)
    words = 0
    for command in newcomer.COMMANDS.values():
        if command is None:
            newcomer.fill_in(Path("stays.toml"))
        elif "skfdp " in command:
            typed = shlex.split(command)[1:]
            typed += ["--no-evaluate"] * (typed[0] == "fit")
            assert main(typed) == 0
            words += 1
    assert words == 4
    assert "PRIVACY STATEMENT" in capsys.readouterr().out
    assert len(Path("predicted.csv").read_text().splitlines()) == 11
