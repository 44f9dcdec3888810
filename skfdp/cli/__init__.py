"""The command line.

It may import everything of skfdp, and nothing of skfdp imports it. What it prints
about a file is public, or a score that it says is not protected; in particular no
message quotes a value of a private column.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from skfdp.cli.arguments import CommandError, parse


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``python -m skfdp``.

    Parameters
    ----------
    argv : sequence of str, default=None
        The arguments; None: those of the process.

    Returns
    -------
    status : int
        0, 2 after a refusal (one sentence on stderr), 1 after an unexpected error.
    """
    arguments = parse(argv)
    for stream in (sys.stdout, sys.stderr):
        # Column names may hold what the terminal cannot show.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        _run(arguments)
        sys.stdout.flush()
    except CommandError as error:
        print(f"python -m skfdp: error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if arguments.debug:
            raise
        # Messages of other libraries quote what they choke on.
        print(
            f"python -m skfdp: error: unexpected {type(error).__name__}; its message "
            "may quote private data and is withheld, --debug shows it.",
            file=sys.stderr,
        )
        return 1
    return 0


def _run(arguments) -> None:
    # Imported here: --help needs nothing of this, and only a file needs pandas.
    if arguments.file is None:
        from skfdp.cli import bundled

        return bundled.run(arguments)
    try:
        import pandas  # noqa: F401
    except ImportError:
        raise CommandError(
            "a CSV file needs pandas: pip install 'skfdp[cli]'."
        ) from None
    from skfdp.cli import job

    return job.run(arguments)
