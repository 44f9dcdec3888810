"""The command line: a thin layer over `skfdp.TableSchema` and the estimators.

It may import every module of skfdp; no other module of skfdp imports it. What a command
prints about a table is public, or is marked as not protected (exact scores and counts).
No message quotes a value of a private column.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Sequence

from skfdp.cli import output
from skfdp.cli.arguments import BUNDLED, check_files, check_fit, parse
from skfdp.cli.output import CommandError, complain


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``skfdp`` with these arguments, by default those of the process.

    The exit status is 0 after success, also if the reader of standard output closed the
    pipe. It is 2 if the command refused to run (one sentence on stderr), 130 after
    Ctrl-C, and 1 after any other error.
    """
    arguments = parse(argv)
    output.options = {*vars(arguments)}
    for stream in (sys.stdout, sys.stderr):
        # Column names may contain characters that the terminal cannot show.
        with contextlib.suppress(AttributeError, ValueError):  # of another type; closed
            stream.reconfigure(errors="replace")
            if not stream.isatty():  # a draft or predictions, which are read as UTF-8
                stream.reconfigure(encoding="utf-8")
    try:
        if importlib.util.find_spec("pandas") is None:
            raise CommandError("skfdp needs pandas: pip install 'skfdp[cli]'.")
        check_files(arguments)
        if arguments.command in (BUNDLED, "fit"):
            check_fit(arguments)
        # A command imports its modules when it runs, so that --help is fast.
        homes = {BUNDLED: ("fit", "demo"), "fit": ("fit", "run")}
        homes["compile"] = ("fit", "compile_loops")
        module, name = homes.get(arguments.command, ("results", arguments.command))
        getattr(importlib.import_module(f"skfdp.cli.{module}"), name)(arguments)
    except CommandError as error:
        complain(f"error: {error}{_done(arguments)}")
        return error.status
    except BrokenPipeError:  # the reader of standard output closed the pipe
        return 0
    except KeyboardInterrupt:
        complain(f"interrupted.{_done(arguments)}")
        return 130
    except Exception as error:
        if arguments.debug:
            raise
        # Messages of other libraries may quote the data.
        complain(
            f"error: unexpected {type(error).__name__}; its message may quote private "
            f"data and is withheld: use --debug to see it.{_done(arguments)}"
        )
        return 1
    return 0


def _done(arguments) -> str:
    """Return sentences on the charges and written files of a command that failed."""
    lines = list(arguments.done)
    with contextlib.suppress(Exception):  # must not hide the first error
        lines[:0] = arguments.charged()
    return "".join(f" {line}" for line in lines)
