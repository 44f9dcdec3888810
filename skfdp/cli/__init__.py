"""The command line, a thin layer over `skfdp.TableSchema` and the estimators.

It may import everything of skfdp, and nothing of skfdp imports it. What it prints
about a file is public, or a score that it says is not protected; in particular no
message quotes a value of a private column.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Sequence

from skfdp.cli.arguments import BUNDLED, parse
from skfdp.cli.output import CommandError, OutputError, ReaderGoneError, complain

# What each command needs is imported when it runs: --help needs nothing of it.
_HOMES = {
    BUNDLED: ("demo", "run"),
    "fit": ("fit", "run"),
    "predict": ("use", "predict"),
    "score": ("use", "score"),
    "report": ("use", "report"),
    "ledger": ("use", "ledger"),
    "schema": ("use", "schema"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``skfdp`` with these arguments, by default those of the process.

    The status is 0 if what was asked for is done, even if the reader of standard output
    went away; 2 after a refusal (one sentence on stderr), 130 after Ctrl-C, 1 after an
    unexpected error.
    """
    arguments = parse(argv)
    for stream in (sys.stdout, sys.stderr):
        # Column names may hold what the terminal cannot show.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        if importlib.util.find_spec("pandas") is None:
            raise CommandError("a table needs pandas: pip install 'skfdp[cli]'.")
        module, name = _HOMES[arguments.command]
        getattr(importlib.import_module(f"skfdp.cli.{module}"), name)(arguments)
    except CommandError as error:
        complain(f"error: {error}{_done(arguments)}")
        return 2
    except ReaderGoneError:
        return 0
    except OutputError as error:
        complain(f"error: {error}{_done(arguments)}")
        return 1
    except KeyboardInterrupt:
        complain(f"interrupted.{_done(arguments)}")
        return 130
    except Exception as error:
        if arguments.debug:
            raise
        # Messages of other libraries quote what they choke on.
        complain(
            f"error: unexpected {type(error).__name__}; its message may quote private "
            f"data and is withheld, --debug shows it.{_done(arguments)}"
        )
        return 1
    return 0


def _done(arguments) -> str:
    """Return what stays although the job did not come to its end."""
    lines = list(arguments.done)
    with contextlib.suppress(Exception):  # nothing may hide what came first
        lines[:0] = arguments.charged()
    return "".join(f" {line}" for line in lines)
