"""Output of the command line: text, errors and files."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path


class CommandError(Exception):
    """Error of a command: one sentence without private data, and the exit status.

    The status is 2 if the command refuses to run, and 1 if a file cannot be written,
    text cannot be printed, or a ledger is broken.
    """

    def __init__(self, sentence: str, status: int = 2) -> None:
        super().__init__(sentence)
        self.status = status


# Names of parameters whose option has another name, and of parameters without an
# option, whose value is an entry of the schema file.
_OPTIONS = {"random_state": "seed", "neighboring_relation": "relation"}
_ENTRIES = {
    **{"decimal": "decimalChar", "thousands": "groupChar", "missing": "missingValues"},
    **{"max_rows_per_group": "maxRowsPerGroup", "target_bounds": "minimum and maximum"},
    **{"public_features": "public", "public_target": "public", "groups": "group"},
    **{name: name for name in ("group", "outcomes", "public", "delimiter", "encoding")},
    "classes": "enum",
}
#: What Python calls something, and how a user of the command line does it.
_WORDS = {
    r"see ledger\.remaining.*\)\)": "see 'skfdp ledger'",
    r"AddOrRemoveOne\((n_records=\.\.\.)\)": r"\1",
    r"declare Ignore\(\), or type": "declare type",
    r"of y as they are in y\. In cross_val_predict.* k-1": "as they are in the table",
    r"\bmissing (holds|of)": r"missingValues \1",
    r"\bcontext\['(\w+)'\]": r"--context \1",
    r"\bpath=": "",
    r"pass what to_json wrote": "give what 'skfdp fit --report' wrote",
}
#: The names of the options of the command that runs, with underscores.
options: set[str] = set()


def as_options(text: str) -> str:
    """Replace parameters of Python in a message by options or entries of a schema."""
    for python, instead in _WORDS.items():
        text = re.sub(python, instead, text)

    def as_option(found: re.Match) -> str:
        name, has_no_value = found.groups()
        option = _OPTIONS.get(name, name)
        if option in options:
            return f"--{option.replace('_', '-')}" + "=" * (not has_no_value)
        entry = _ENTRIES.get(name)
        return found[0] if entry is None else entry + " = " * (not has_no_value)

    named = r"(?<![\w.'\"(-])([a-z_]+)=(?:(\.{3}|True\b)|(?=\S))"
    return re.sub(named, as_option, text)


def say(text: str = "") -> None:
    """Print and flush a line; raise BrokenPipeError if the reader closed the pipe.

    If standard output is closed, it is redirected to the null device, so that Python
    reports no error at exit.
    """
    try:
        print(text, flush=True)
    except (OSError, ValueError) as error:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        reason = getattr(error, "strerror", "standard output is closed")
        raise CommandError(f"cannot print: {reason}.", 1) from None


def complain(text: str) -> None:
    """Print a line on standard error; ignore a stream that is closed or missing."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        if sys.stderr is not None:  # print would choose standard output
            print(f"skfdp: {as_options(text)}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def refusing(*errors: type[Exception], status: int = 2) -> Iterator[None]:
    """Convert errors of skfdp, which quote no private data, to errors of a command."""
    try:
        yield
    except errors as error:
        text = " ".join(str(error).split())
        if isinstance(error, OSError) and error.filename is not None:
            text = f"cannot open {str(error.filename)!r}: {error.strerror}."
        raise CommandError(text, status) from None


@contextlib.contextmanager
def writing(what: Path | str, status: int = 1) -> Iterator[None]:
    """Convert a failure to write a file to CommandError."""
    try:
        yield
    except OSError as error:
        problem = f"{what} cannot be written: {error.strerror}."
        raise CommandError(problem, status) from None


def check_writable(path: Path, option: str) -> None:
    """Raise CommandError if a file cannot be written, before anything is charged."""
    existed = path.exists()
    with writing(f"{option} {path}", 2), path.open("ab"):
        pass
    if not existed:
        path.unlink()
