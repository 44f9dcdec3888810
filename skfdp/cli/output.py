"""Output of the command line: text, errors and files.

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
    """Error of a command that refuses to run: one sentence without private data."""


class ReaderGoneError(Exception):
    """Raised if the reader of standard output closed the pipe; not an error."""


class OutputError(Exception):
    """Raised if a file cannot be written or text cannot be printed; one sentence."""


def stage(text: str) -> None:
    """Print the current step of a command, if stderr is a terminal.

    `text` contains public facts only.
    """
    with contextlib.suppress(AttributeError, ValueError):  # no or a closed stderr
        if sys.stderr.isatty():
            complain(text)


def say(text: str = "") -> None:
    """Print and flush a line.

    If standard output is closed, it is redirected to the null device, so that Python
    reports no error at exit.
    """
    try:
        print(text, flush=True)
    except (OSError, ValueError) as error:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise ReaderGoneError from None
        reason = getattr(error, "strerror", "standard output is closed")
        raise OutputError(f"cannot print: {reason}.") from None


def complain(text: str) -> None:
    """Print a line on standard error; ignore a stream that is closed or missing."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        if sys.stderr is not None:  # print would choose standard output
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
    """Raise CommandError if a file cannot be written, before anything is charged."""
    if path is None:
        return
    if not path.resolve().parent.is_dir():
        raise CommandError(
            f"{option} {path} cannot be written: there is no folder "
            f"{str(path.parent)!r}."
        )
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
