"""Output of the command line: messages, refusals and files.

Files are written before text is printed, so that a closed pipe (``| head``) loses only
text.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path


class CommandError(Exception):
    """A refusal: one sentence that quotes nothing private."""


class ReaderGoneError(Exception):
    """Raised if the reader of standard output closed the pipe; not an error."""


class OutputError(Exception):
    """Failure to write a file or to print; one sentence."""


def stage(text: str) -> None:
    """Show the current step if stderr is a terminal; public facts only."""
    if sys.stderr.isatty():
        complain(text)


def say(text: str = "") -> None:
    """Print and flush a line.

    If standard output is closed, it is redirected to the null device, so that Python
    reports no error at exit.
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
    """Print a line on standard error; ignore a closed stream."""
    with contextlib.suppress(OSError):
        print(f"skfdp: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def refusing(*errors: type[Exception]) -> Iterator[None]:
    """Convert errors of skfdp, which quote no private data, to CommandError."""
    try:
        yield
    except errors as error:
        raise CommandError(" ".join(str(error).split())) from None


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert a failure to write a file to OutputError."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path} could not be written: {error.strerror}.") from None


def check_writable(path: Path | None, option: str) -> None:
    """Refuse a path that cannot be written, before anything is charged."""
    if path is None:
        return
    if not path.resolve().parent.is_dir():
        raise CommandError(f"there is no folder {str(path.parent)!r} for {path}.")
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
