"""A pytest plugin: which lines of the package each test runs, and for how long.

`sys.settrace` rather than a library: what counts is the test that runs a line, and a
code object of which every line was seen in a test is not traced again in it. Compiled
loops have no lines here; `_tests.py` takes those of their callers.

The folder of the environment variable ``SABOTAGE_RECORD`` gets one file for each
process, ``SABOTAGE_PACKAGE`` names the folder of the package.
"""

import gzip
import json
import os
import sys
import threading
import time
from pathlib import Path

import pytest

_NOTHING: frozenset[int] = frozenset()


class Recorder:
    """Lines by test, in one process."""

    def __init__(self, package: str, folder: Path):
        self._package = package
        self._folder = folder
        self._seen: dict[int, tuple] = {}
        self.lines: dict[str, dict[str, list[int]]] = {}
        self.seconds: dict[str, float] = {}
        self.passed: dict[str, bool] = {}

    def _enter(self, frame, event, arg):
        code = frame.f_code
        known = self._seen.get(id(code))
        if known is None:
            ours = code.co_filename.startswith(self._package)
            lines = {line for *_, line in code.co_lines() if line} if ours else _NOTHING
            # The code object is kept, so that its id stays its own.
            known = self._seen[id(code)] = (code, lines, set())
        return self._step if known[1] else None

    def _step(self, frame, event, arg):
        code, left, seen = self._seen[id(frame.f_code)]
        line = frame.f_lineno
        if line in left:
            left.discard(line)
            seen.add(line)
            if not left:
                return None
        return self._step

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        _forget()
        self._seen = {}
        begin = time.perf_counter()
        threading.settrace(self._enter)
        sys.settrace(self._enter)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            self.seconds[item.nodeid] = time.perf_counter() - begin
            self.lines[item.nodeid] = self._by_file()

    def _by_file(self) -> dict[str, list[int]]:
        found: dict[str, set[int]] = {}
        for code, _, seen in self._seen.values():
            if seen:
                name = os.path.relpath(code.co_filename, Path(self._package).parent)
                found.setdefault(name, set()).update(seen)
        return {name: sorted(lines) for name, lines in found.items()}

    def pytest_runtest_logreport(self, report):
        if report.when == "call":
            self.passed[report.nodeid] = report.outcome == "passed"

    def pytest_sessionfinish(self):
        if not self.lines:
            return
        tests = {
            name: {"seconds": self.seconds[name], "lines": lines}
            for name, lines in self.lines.items()
            if self.passed.get(name)
        }
        with gzip.open(self._folder / f"{os.getpid()}.json.gz", "wt") as file:
            json.dump(tests, file)


def _forget() -> None:
    """Empty the caches of the package: what one test computed, the next does too."""
    for name, module in list(sys.modules.items()):
        if name.startswith("skfdp"):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def pytest_configure(config):
    folder = os.environ.get("SABOTAGE_RECORD")
    if folder and not hasattr(config, "_sabotage"):
        config._sabotage = Recorder(os.environ["SABOTAGE_PACKAGE"], Path(folder))
        config.pluginmanager.register(config._sabotage)
