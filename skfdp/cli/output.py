"""Messages during the job and after it; none depends on who reads them.

Files come first and words afterwards, so that a reader who goes away (``| head``)
loses words only.
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
    """Sign that nobody reads standard output any more, which is not an error."""


class OutputError(Exception):
    """Failure to write something; one sentence."""


def stage(text: str) -> None:
    """Show on a terminal what is being done from now on; public facts only."""
    if sys.stderr.isatty():
        complain(text)


def say(text: str = "") -> None:
    """Print at once.

    If standard output takes nothing more it is replaced, so that the interpreter does
    not complain when it ends.
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
        print(f"skfdp: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def refusing(*errors: type[Exception]) -> Iterator[None]:
    """Turn errors of skfdp, which quote no private data, into refusals."""
    try:
        yield
    except errors as error:
        raise CommandError(" ".join(str(error).split())) from None


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
