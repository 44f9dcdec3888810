"""The command line: a thin layer over `skfdp.TableSchema` and the estimators.

It may import every module of skfdp; no other module of skfdp imports it. What a command
prints about a table is public or released. No message quotes a value of a private
column.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Sequence

from skfdp.cli import output
from skfdp.cli.arguments import check_options, parse
from skfdp.cli.output import CommandError, complain

_UNEXPECTED = "its message may quote private data; use --debug to see it"


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
    status, told = 0, ""
    try:
        if importlib.util.find_spec("pandas") is None:
            raise CommandError("skfdp needs pandas: pip install 'skfdp[cli]'.")
        check_options(arguments)
        # A command imports its modules when it runs, so that --help is fast.
        commands = importlib.import_module("skfdp.cli.commands")
        getattr(commands, arguments.command)(arguments)
    except CommandError as error:
        status, told = error.status, f"error: {error}"
    except BrokenPipeError:  # the reader of standard output closed the pipe
        pass
    except KeyboardInterrupt:
        status, told = 130, "interrupted."
    except Exception as error:
        if arguments.debug:
            raise
        # Messages of other libraries may quote the data.
        status, told = 1, f"error: unexpected {type(error).__name__}; {_UNEXPECTED}."
    if told:
        complain(" ".join([told, *arguments.done]))
    return status
