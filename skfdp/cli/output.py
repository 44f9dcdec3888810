"""Messages during the job and after it; none depends on who reads them.

Files come first and words afterwards, so that a reader who goes away (``| head``)
loses words only.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

# Progress of a job: on a terminal all of it, elsewhere a sign of life.


# After so many seconds of silence a slow stage says what it is.
_PATIENCE = 1.0


class _Watcher:
    """Shows on stderr what is being done: a spinner of rich, or else lines."""

    def __init__(self) -> None:
        self._spinner: Any = None
        self._timer: threading.Timer | None = None

    def stage(self, text: str, *, slow: bool = False) -> None:
        """Show what is being done from now on.

        Parameters
        ----------
        text : str
            Public facts only.
        slow : bool
            Whether to say so to files and pipes too, after some seconds.
        """
        self._stop_timer()
        if sys.stderr.isatty():
            if self._spinner is None:
                self._spinner = _spinner()
            if self._spinner is None:
                _line(text)
            else:
                self._spinner.start()
                self._spinner.reset(self._spinner.task_ids[0], description=text)
                self._spinner.refresh()
        elif slow:
            self._timer = threading.Timer(_PATIENCE, _line, [text])
            self._timer.daemon = True
            self._timer.start()

    def clear(self) -> None:
        """Make room for what is printed."""
        if self._spinner is not None:
            self._spinner.stop()

    def stop(self) -> None:
        """End it."""
        self.clear()
        self._spinner = None
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _line(text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"skfdp: {text}", file=sys.stderr, flush=True)


def _spinner() -> Any:
    """Return a spinner with a text and its seconds, None without rich."""
    try:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn
    except ImportError:
        return None
    spinner = Progress(
        SpinnerColumn("line"),
        "{task.description}",
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        # Proxies of older versions deny that stderr is a terminal.
        redirect_stdout=False,
        redirect_stderr=False,
    )
    spinner.add_task("")
    return spinner


_watcher = _Watcher()
#: Show what is being done from now on.
stage = _watcher.stage
#: Make room for what is printed.
clear = _watcher.clear


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """End the progress with the job."""
    try:
        yield
    finally:
        _watcher.stop()


class CommandError(Exception):
    """A refusal: one sentence that quotes nothing private."""


class ReaderGoneError(Exception):
    """Sign that nobody reads standard output any more, which is not an error."""


class OutputError(Exception):
    """Failure to write something; one sentence."""


def say(text: str = "") -> None:
    """Print at once.

    Raises
    ------
    ReaderGoneError, OutputError
        If standard output takes nothing more; it is replaced then, so that the
        interpreter does not complain when it ends.
    """
    clear()
    try:
        print(text, flush=True)
    except OSError as error:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise ReaderGoneError from None
        raise OutputError(f"cannot print: {error.strerror}.") from None


def complain(text: str) -> None:
    """Print a line on standard error, if anybody reads it."""
    clear()
    with contextlib.suppress(OSError):
        print(f"skfdp: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure to write a file into an OutputError."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path} could not be written: {error.strerror}.") from None


def check_writable(path: Path | None, option: str) -> None:
    """Refuse a path that cannot be written, before anything is charged for it."""
    if path is None:
        return
    existed = path.exists()
    try:
        with open(path, "ab"):
            pass
    except OSError as error:
        raise CommandError(
            f"{option} {path} cannot be written: {error.strerror}."
        ) from None
    if not existed:
        path.unlink()


# Compilation: of everything by ``skfdp compile``, of a first run by two processes.


#: What every fit needs, and one process can compile while another is at its sums.
_COMMON = ("rows", "noise", "tiles")
#: What a first run waits for at most, in seconds; it then compiles by itself.
_COMPILE_PATIENCE = 120.0
_CANNOT_BE_KEPT = (
    "there is no folder in which compiled code could be kept, so that every run "
    "compiles it again: set NUMBA_CACHE_DIR to a folder that can be written."
)


def run(arguments: argparse.Namespace) -> None:
    """Compile what most fits need, in as many processes as there are cores."""
    from skfdp.kernels import ahead

    if not ahead.can_be_kept():
        raise CommandError(_CANNOT_BE_KEPT)
    groups, context = list(ahead.GROUPS), get_context("spawn")
    n_processes = min(os.cpu_count() or 1, len(groups))
    with ProcessPoolExecutor(n_processes, context) as pool:
        jobs = [pool.submit(ahead.compile_groups, [group]) for group in groups]
        for number, job in enumerate(as_completed(jobs)):
            job.result()
            stage(f"compiling, {number + 1} of {len(groups)} parts are done", slow=True)
    say(f"{len(groups)} parts are compiled: first fits start at once.")


class _Helper:
    """A process that compiles a part of what a first run needs."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        """Start it if nothing is compiled yet, and there is a core for it."""
        from skfdp.kernels import ahead

        if not ahead.can_be_kept():
            complain(f"note: {_CANNOT_BE_KEPT}")
        elif ahead.cold() and (os.cpu_count() or 1) > 1:
            stage("compiling, which a first run after an installation does", slow=True)
            quiet = subprocess.DEVNULL
            with contextlib.suppress(OSError):
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "skfdp.kernels.ahead", *_COMMON],
                    stdin=quiet,
                    stdout=quiet,
                    stderr=quiet,
                )

    def join(self, groups: Sequence[str] = ()) -> None:
        """Compile the groups here, and wait for the helper, if there is one."""
        if self._process is None:
            return
        from skfdp.kernels import ahead

        ahead.compile_groups(groups)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_COMPILE_PATIENCE)
        self.stop()

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def remark() -> str:
    """Return what to say of a fit that compiles its loop, and nothing of others."""
    from skfdp.kernels import ahead

    if ahead.can_be_kept() and not ahead.cold():
        return ""
    return " (its code is compiled, which a first run does)"


_helper = _Helper()
start, join, stop = _helper.start, _helper.join, _helper.stop
