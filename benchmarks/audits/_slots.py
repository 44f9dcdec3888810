"""Copies of the checkout in which mutants live, each for as long as its tests run.

This process imports what the tests need, but not the package, and forks for each
mutant: the child imports the mutated package alone. Loops that are not mutated come
compiled from a cache of the copy.
"""

import dataclasses
import gc
import importlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from _mutants import Mutant
from _tests import Asked

#: Imported once, before the forks.
LIBRARIES = (
    *("numpy", "scipy.stats", "scipy.optimize", "scipy.sparse", "scipy.special"),
    *("sklearn.linear_model", "sklearn.model_selection", "sklearn.pipeline"),
    *("sklearn.utils.estimator_checks", "sklearn.compose", "sklearn.datasets"),
    *("pandas", "numba", "randomgen", "joblib", "hypothesis.extra.numpy", "pytest"),
    *("dp_accounting.pld.privacy_loss_distribution", "hypothesis.strategies"),
)
#: Tests of the first two rounds; a round loads the files of its tests alone.
ROUNDS = (10, 60)
# A test that takes so much longer than it did hangs.
_PATIENCE, _FACTOR = 90.0, 20.0


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    Attributes
    ----------
    kind : {"killed", "hangs", "crashes", "survived"}
    test : str
        Which killed it; "" if it survived.
    error : str
        Name of the exception.
    n_run, n_asked : int
        Tests that were run, and that run the line.
    seconds : float
    """

    kind: str
    test: str
    error: str
    n_run: int
    n_asked: int
    seconds: float


@dataclasses.dataclass
class Slot:
    """One copy, and the mutant in it."""

    tree: Path
    cache: Path

    @classmethod
    def of(cls, root: Path, folder: Path) -> "Slot":
        """Copy the checkout."""
        tree, cache = folder / "tree", folder / "compiled"
        shutil.rmtree(tree, ignore_errors=True)
        cache.mkdir(parents=True, exist_ok=True)
        for name in tracked(root):
            target = tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target)
        command = [sys.executable, "-m", "compileall", "-q", str(tree / "skfdp")]
        subprocess.run(command, check=True)
        return cls(tree, cache)


def tracked(root: Path) -> list[str]:
    """Return the files of a checkout, without what is only built there."""
    if (root / ".git").exists():
        command = [
            "git",
            "-C",
            str(root),
            "ls-files",
            "-z",
            "-co",
            "--exclude-standard",
        ]
        listed = subprocess.run(command, check=True, capture_output=True, text=True)
        names = listed.stdout.split("\0")
    else:
        parts = ("skfdp", "tests", "benchmarks", "docs", "examples")
        files = [file for part in parts for file in (root / part).rglob("*")]
        names = [str(f.relative_to(root)) for f in (*files, *root.glob("*.*"))]
    return [n for n in names if n and (root / n).is_file() and "__pycache__" not in n]


def warm() -> None:
    """Import what every child needs."""
    for name in LIBRARIES:
        try:
            importlib.import_module(name)
        except ImportError:  # an optional library, or one of another version
            continue
    gc.freeze()  # children do not look through what is imported here


@dataclasses.dataclass
class _Child:
    """A process that runs the tests of a mutant."""

    number: int
    slot: Slot
    asked: list[Asked]
    process: int
    pipe: int
    begin: float
    restore: Callable[[], None]
    text: bytes = b""
    running: str = ""
    since: float = 0.0
    n_run: int = 0
    killed: tuple[str, str] | None = None

    def limit(self) -> float:
        """Return how long the test that runs may take."""
        own = {one.name: one.seconds for one in self.asked}
        return _PATIENCE + _FACTOR * own.get(self.running, 0.0)


def outcomes(
    work: list[tuple[Mutant | None, list[Asked]]], slots: list[Slot]
) -> Iterator[tuple[int, Outcome]]:
    """Yield the outcome of each mutant, as they come; None is no change at all."""
    waiting, free = list(enumerate(work)), list(slots)
    children: list[_Child] = []
    with selectors.DefaultSelector() as selector:
        while waiting or children:
            while waiting and free:
                number, (mutant, asked) = waiting.pop(0)
                child = _started(number, mutant, asked, free.pop())
                children.append(child)
                selector.register(child.pipe, selectors.EVENT_READ, child)
            for key, _ in selector.select(timeout=1.0):
                _listen(key.data)
            for child in list(children):
                found = _ended(child)
                if found is not None:
                    selector.unregister(child.pipe)
                    os.close(child.pipe)
                    child.restore()
                    children.remove(child)
                    free.append(child.slot)
                    yield child.number, found


def _started(
    number: int, mutant: Mutant | None, asked: list[Asked], slot: Slot
) -> _Child:
    restore = _mutated(number, mutant, slot)
    ours, theirs = os.pipe()
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        code = 3
        try:
            os.close(ours)
            code = _ask(slot, [one.name for one in asked], theirs)
        finally:
            os._exit(code)
    os.close(theirs)
    os.set_blocking(ours, False)
    now = time.monotonic()
    return _Child(number, slot, asked, process, ours, now, restore, since=now)


def _mutated(number: int, mutant: Mutant | None, slot: Slot) -> Callable[[], None]:
    """Change the file; return what undoes it."""
    if mutant is None:
        return lambda: None
    path = slot.tree / mutant.file
    before, stat = path.read_bytes(), path.stat()
    path.write_bytes(mutant.applied(before))
    # A second of its own, or the bytecode of another mutant would be taken.
    now = stat.st_mtime + 1e6 + number
    os.utime(path, (now, now))

    def restore() -> None:
        path.write_bytes(before)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    return restore


def _listen(child: _Child) -> None:
    try:
        more = os.read(child.pipe, 1 << 16)
    except BlockingIOError:
        return
    *lines, child.text = (child.text + more).split(b"\n")
    for line in lines:
        what, test, error = json.loads(line)
        if what == "start":
            child.running, child.since = test, time.monotonic()
            child.n_run += 1
        elif child.killed is None:
            child.killed = test, error


def _ended(child: _Child) -> Outcome | None:
    """Return the outcome if the child is done, or was ended here."""
    done, status = os.waitpid(child.process, os.WNOHANG)
    now = time.monotonic()
    late = now - child.since > child.limit()
    if not done and late:
        os.killpg(child.process, signal.SIGKILL)
        os.waitpid(child.process, 0)
    elif not done:
        return None
    _listen(child)
    kind, (test, error) = "survived", child.killed or ("", "")
    if child.killed:
        kind = "killed"
    elif late and not done:
        kind, test, error = "hangs", child.running, "time"
    elif os.waitstatus_to_exitcode(status) != 0:
        kind, test = "crashes", child.running
        error = f"exit code {os.waitstatus_to_exitcode(status)}"
    n_asked = len(child.asked)
    return Outcome(kind, test, error, child.n_run, n_asked, now - child.begin)


def _ask(slot: Slot, names: list[str], pipe: int) -> int:
    """Run tests in this process until one fails; return the exit code."""
    os.setpgid(0, 0)
    log = os.open(slot.cache.parent / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1), os.dup2(log, 2)
    os.chdir(slot.tree)
    sys.path.insert(0, str(slot.tree))
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(slot.tree), os.environ.get("PYTHONPATH", "")]
    )
    os.environ["NUMBA_CACHE_DIR"] = str(slot.cache)
    import hypothesis
    import numba
    import pytest

    numba.config.CACHE_DIR = str(slot.cache)
    hypothesis.settings.register_profile(
        "sabotage",
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    )
    hypothesis.settings.load_profile("sabotage")
    told = _Told(pipe)
    options = ["-c", str(slot.tree / "pyproject.toml"), f"--rootdir={slot.tree}"]
    options += ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
    ends = [end for end in ROUNDS if end < len(names)] + [len(names)]
    for start, end in zip([0, *ends], ends, strict=False):
        told.order = {name: place for place, name in enumerate(names[start:end])}
        files = list(dict.fromkeys(name.partition("::")[0] for name in told.order))
        pytest.main([*options, *files], plugins=[told])
        if told.killed:
            break
    # Threads and exit handlers of the tests are of no interest.
    return 0


class _Told:
    """A plugin that asks the tests in order, and tells the parent of each."""

    def __init__(self, pipe: int):
        self._pipe = pipe
        self.order: dict[str, int] = {}
        self.killed = False

    def _tell(self, *what: str) -> None:
        os.write(self._pipe, json.dumps(what).encode() + b"\n")

    def pytest_collection_modifyitems(self, items):
        chosen = [item for item in items if item.nodeid in self.order]
        items[:] = sorted(chosen, key=lambda item: self.order[item.nodeid])

    def pytest_runtest_logstart(self, nodeid):
        self._tell("start", nodeid, "")

    def pytest_runtest_logreport(self, report):
        if report.failed and not self.killed:
            self.killed = True
            self._tell("killed", report.nodeid, _error_of(report))

    def pytest_collectreport(self, report):
        if report.failed and not self.killed:
            self.killed = True
            self._tell("killed", f"{report.nodeid} (import)", _error_of(report))


def _error_of(report) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(report.longrepr) if crash is None else crash.message
    name = text.partition("\n")[0].partition(":")[0]
    return "assert" if name.startswith("assert") else name.rpartition(".")[2][:60]
