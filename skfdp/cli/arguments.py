"""Commands and options of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from skfdp._version import __version__
from skfdp.cli.output import CommandError, refusing
from skfdp.privacy.checks import count, number
from skfdp.privacy.events import RELATIONS, Relation, check_delta
from skfdp.privacy.report import check_context

#: Name of the default command: the comparison on bundled data.
BUNDLED = "bundled"

_EPILOG = """\
skfdp COMMAND --help lists the options of a command.

examples:
  skfdp
  skfdp schema stays.csv --outcomes readmitted --public age sex -o stays.toml
  skfdp fit stays.csv --schema stays.toml --model stays.skops --report stays.json
  skfdp predict stays.skops new.csv --schema stays.toml -o predicted.csv
"""
_SEVERAL = {"action": "extend", "nargs": "+", "metavar": "COLUMN", "default": []}


class _Parser(argparse.ArgumentParser):
    """Parser with one-line error messages."""

    def error(self, message: str):
        """Print the message, and exit with status 2."""
        self.exit(2, f"skfdp: error: {message}\n")


def check_fit(arguments: argparse.Namespace) -> None:
    """Check the options of a fit, without reading the table."""
    is_fit = arguments.command == "fit"
    with refusing(ValueError):
        for name in ("epsilon", "limit") if is_fit else ("epsilon",):
            if (value := getattr(arguments, name)) is not None:
                expected = "a positive, finite number up to 1e12, such as 1"
                number(name, value, expected, 0, 1e12, closed="right")
        check_delta(arguments.delta)
        count("repeats", arguments.repeats)
        count("seed", arguments.seed or 0, 0)
        if not is_fit:
            return
        share = "strictly between 0 and 1"
        number("test_size", arguments.test_size, share, 0, 1, closed="neither")
        pairs = [pair.partition("=") for pair in arguments.context]
        arguments.context = check_context({key: text for key, _, text in pairs})
    if arguments.limit is not None and arguments.ledger is None:
        raise CommandError("--limit needs a ledger: give --ledger FILE, too.")
    # With a ledger every use of the data must be charged, but the exact scores of a
    # comparison have no finite epsilon. Under add_or_remove_one the number of rows is
    # private, and the choice of held-out rows depends on this number.
    obstacle = "--ledger" if arguments.ledger is not None else ""
    if not Relation.of(arguments.relation).counts_are_public:
        obstacle = f"--relation {arguments.relation}"
    if arguments.evaluate and obstacle:
        raise CommandError(
            f"--evaluate and {obstacle} exclude each other, because the scores on "
            "held-out rows are exact and no accounting covers them: leave one of the "
            "two out."
        )
    arguments.evaluate = not obstacle and arguments.evaluate in (None, True)
    path = arguments.model
    if path is not None and path.suffix not in (".skops", ".joblib"):
        raise CommandError(f"--model {path} must end in .skops or .joblib.")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of one command, or exit with status 2."""
    parser = _Parser(
        prog="skfdp",
        description="Differentially private models of tables where part of each record "
        "may be public. Without a command: a comparison on data bundled with "
        "scikit-learn.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--version", action="version", version=f"skfdp {__version__}")
    add("--full", action="store_true", help="print the annex of the statement, too")
    # A part of the digits is public, so their number is public.
    _add_fit(add, [one for one in RELATIONS if Relation(one).counts_are_public])
    _add_debug(add)
    commands = parser.add_subparsers(
        dest="command", title="commands", metavar="COMMAND"
    )
    for name, (text, options) in _COMMANDS.items():
        add = commands.add_parser(
            name, help=text, description=f"{text}.", allow_abbrev=False
        ).add_argument
        options(add)
        _add_debug(add)
    arguments = parser.parse_args(argv)
    arguments.command = arguments.command or BUNDLED
    # What the command did, in sentences: written files, and charges to a ledger.
    arguments.done, arguments.charged = [], list
    return arguments


def _add_debug(add) -> None:
    add("--debug", action="store_true", help="show tracebacks, which may quote data")


def _add_fit(add, relations: Sequence[str] = RELATIONS) -> None:
    add("--epsilon", type=float, default=1.0, help="budget (default: 1)")
    add("--delta", type=float, default=1e-5, help="default: 1e-5")
    add(
        "--relation",
        choices=relations,
        default="replace_one",
        help="neighbouring relation (default: replace_one)",
    )
    add("--seed", type=int, help="reproducible noise, without privacy guarantee")
    add(
        "--repeats",
        type=int,
        default=3,
        help="number of fits for each line of the comparison (default: 3)",
    )
    add("--report", metavar="FILE.json", type=Path, help="write the privacy report")


def _fit(add) -> None:
    _add_table(add)
    add("--target", metavar="COLUMN", help="the outcome, if the schema has several")
    _add_fit(add)
    add("--n-records", type=int, help="public size, for add_or_remove_one")
    add("--ledger", metavar="FILE", help="SQLite file that the fit is charged to")
    add(
        "--limit",
        metavar="EPSILON",
        type=float,
        help="total epsilon, at --delta, of all fits charged to a new ledger; the file "
        "stores the limit, and a fit that would exceed it is refused",
    )
    add(
        "--evaluate",
        action=argparse.BooleanOptionalAction,
        help="compare on held-out rows; the scores are NOT protected (default, except "
        "with --ledger or add_or_remove_one); --no-evaluate trains on all rows and "
        "prints only the statement",
    )
    add("--test-size", type=float, default=0.25, help="held-out share (default: 0.25)")
    add("--model", metavar="FILE", type=Path, help="save the model: .skops or .joblib")
    add("--overwrite", action="store_true", help="replace an existing file of --model")
    add(
        "--context",
        nargs="+",
        default=[],
        metavar="KEY=TEXT",
        help="data, date, by and purpose: facts for the report, which are not checked",
    )


def _predict(add) -> None:
    _score(add)
    add("-o", "--output", metavar="FILE", type=Path, help="CSV or .parquet")
    add("--keep", **_SEVERAL, help="columns to write next to the predictions")


def _score(add) -> None:
    add("saved", metavar="MODEL", help=".skops, or .joblib, which can run any code")
    _add_table(add)


def _report(add) -> None:
    add(
        "file",
        metavar="FILE",
        help="a report (.json), a model (.skops, .joblib) or a ledger",
    )
    add("--full", action="store_true", help="print the annex, too")
    add("--json", action="store_true", help="print the report as JSON")
    add("--html", metavar="FILE", type=Path, help="also write a web page")


def _schema(add) -> None:
    add("file", metavar="TABLE", help="CSV with a line of names, .parquet or .arrow")
    add("--check", metavar="FILE", help="check the table against this schema instead")
    add(
        "--private-counts",
        action="store_true",
        help="with --check: print exact counts of unreadable private values for the "
        "owner's eyes (NOT protected), and note in the schema file that they were seen",
    )
    add(
        "--public",
        **_SEVERAL,
        help="columns that may be disclosed: names, patterns such as 'mean *', or "
        "'all' for every column except the outcomes and the group",
    )
    add("--outcomes", **_SEVERAL, help="columns to predict")
    add(
        "--group",
        metavar="COLUMN",
        help="column with the person's id: all rows of one person are protected "
        "together. Not a feature. Which rows belong together stays visible",
    )
    for option, text in (
        ("--delimiter", "separator of fields in a CSV file"),
        ("--decimal", "decimal sign: a point or a comma"),
        ("--thousands", "separator of thousands"),
        ("--encoding", "encoding of the file, such as latin1"),
    ):
        add(option, metavar="TEXT", help=text)
    add("--skip-lines", type=int, metavar="N", help="lines above the line of names")
    add(
        "--header",
        action="store_true",
        help="the first line holds names, also if they look like a record (a word "
        "that begins with a digit, a repeated name; otherwise refused)",
    )
    add("-o", "--output", metavar="FILE.toml", type=Path, help="a new file")


def _add_table(add) -> None:
    add("file", metavar="TABLE", help="CSV with a line of names, .parquet or .arrow")
    add("--schema", metavar="FILE", required=True, help="as 'skfdp schema' drafts it")


_COMMANDS = {
    "schema": ("draft a schema of a table, or check a table against it", _schema),
    "fit": ("train a private model, and write it with its privacy report", _fit),
    "predict": ("predict rows with a saved model", _predict),
    "score": ("score a saved model on rows whose target is known", _score),
    "report": ("print the statement of a report, a saved model or a ledger", _report),
    "ledger": (
        "show limit, spent and remaining budget of a ledger",
        lambda add: add("file", metavar="FILE", help="of 'skfdp fit --ledger'"),
    ),
}
