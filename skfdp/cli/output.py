"""Messages during the job and after it; none depends on who reads them.

Files come first and words afterwards, so that a reader who goes away (``| head``)
loses words only.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from skfdp.cli.arguments import CommandError

# After so many seconds of silence the job says that it is alive.
_PATIENCE = 3.0
_WORKING = (
    "python -m skfdp: working; the first run after an installation compiles its code, "
    "once, for up to a minute."
)


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
    with contextlib.suppress(OSError):
        print(f"python -m skfdp: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def a_sign_of_life() -> Iterator[None]:
    """Say after some seconds that work is going on, and what may take long."""

    def tell() -> None:
        with contextlib.suppress(OSError):
            print(_WORKING, file=sys.stderr, flush=True)

    timer = threading.Timer(_PATIENCE, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


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
