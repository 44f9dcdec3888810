"""``skfdp compile``, and the process that shares the compilation of a first run."""

import subprocess
import sys

import pytest

from skfdp.cli import main
from skfdp.cli import output as compiling
from skfdp.cli import output as progress
from skfdp.kernels import ahead


@pytest.fixture
def one_group(monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 600.0)
    monkeypatch.setattr(compiling, "_COMMON", ("coins",))
    monkeypatch.setattr(ahead, "GROUPS", {"coins": ahead.GROUPS["coins"]})


@pytest.mark.parametrize("word", ["compile", "--compile"])
def test_compile_compiles_every_group(word, one_group, capsys):
    assert main([word]) == 0
    assert (
        capsys.readouterr().out == "1 parts are compiled: first fits start at once.\n"
    )


def test_compile_says_if_nothing_can_be_kept(monkeypatch, capsys):
    monkeypatch.setattr(ahead, "can_be_kept", lambda: False)
    assert main(["compile"]) == 2
    assert "set NUMBA_CACHE_DIR" in capsys.readouterr().err
    compiling.start()
    assert compiling._helper._process is None
    assert "note: there is no folder" in capsys.readouterr().err
    assert compiling.remark()


def test_a_first_run_has_a_helper_and_a_later_one_has_none(one_group, monkeypatch):
    monkeypatch.setattr(compiling.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(ahead, "cold", lambda: False)
    compiling.start()
    assert compiling._helper._process is None and not compiling.remark()
    monkeypatch.setattr(ahead, "cold", lambda: True)
    compiled = []
    monkeypatch.setattr(ahead, "compile_groups", compiled.extend)
    compiling.start()
    process = compiling._helper._process
    compiling.join(["log_loss"])
    assert process.returncode == 0 and compiled == ["log_loss"]
    assert compiling._helper._process is None and compiling.remark()


def test_a_helper_ends_with_the_run(monkeypatch):
    waits = [sys.executable, "-c", "import time; time.sleep(600)"]
    compiling._helper._process = process = subprocess.Popen(waits)
    assert main(["report", "there_is_no_such_file.json"]) == 2
    assert process.poll() is not None and compiling._helper._process is None
