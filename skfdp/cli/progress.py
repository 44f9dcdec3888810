"""Progress of a job: on a terminal all of it, elsewhere a sign of life."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

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
