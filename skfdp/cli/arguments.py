"""The commands and their options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from skfdp._version import __version__
from skfdp.cli.output import CommandError
from skfdp.cli.settings import check_bundled, check_fit, complete
from skfdp.privacy.events import RELATIONS

COMMANDS = {
    "fit": "train a private model on a table, and write it with its privacy report",
    "predict": "predict rows with a saved model",
    "score": "score a saved model on rows whose target is known",
    "report": "print the privacy statement of a report or of a saved model",
    "schema": "draft what a fit needs declared, without a look at private columns",
    "compile": "compile what first fits would compile; to be run after an installation",
    "grid": "write a table larger than memory as integers, which fits read as they are",
}
#: What a command without a word is: the comparison on bundled data.
BUNDLED = "bundled"

_EPILOG = """\
commands:
{commands}

  skfdp COMMAND --help lists the options of one.

examples:
  skfdp
  skfdp schema stays.csv --target readmitted --public age sex -o stays.toml
  skfdp fit stays.csv --schema stays.toml --model stays.skops --report stays.json
  skfdp predict stays.skops new.csv -o predicted.csv
"""
_FIT_EPILOG = """\
examples:
  skfdp fit people.csv --target income --classes high,low --public education age \\
      --bounds hours=1:99 --categories sector=private,public --epsilon 1 \\
      --report report.json --model model.skops
  skfdp fit people.csv --schema people.toml --model model.skops

A private column needs declared --bounds (numbers, dates) or --categories (text), and a
private target --classes or --target-bounds: to read them from the data would disclose
them. Public columns may leave them out. An option goes before what the schema says.
"""
_COMMAND_FIRST = " (options come after a command: skfdp fit TABLE --target COLUMN ...)"
_SEVERAL = {"action": "extend", "nargs": "+"}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    hint = ""

    def error(self, message: str):
        """Leave with status 2."""
        self.exit(2, f"skfdp: error: {message}{self.hint}\n")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the checked options of one command, or leave with status 2."""
    argv = list(sys.argv[1:] if argv is None else argv)
    command, rest = _command(argv)
    parser = _PARSERS[command]()
    try:
        if command == "":
            raise _no_command(argv[0])
        if command == BUNDLED:
            parser.hint = _COMMAND_FIRST
        arguments = parser.parse_args(rest)
        parser.hint = ""
        arguments.command = command
        # What is done so far, in sentences: written files, and charges to a ledger.
        arguments.done, arguments.charged = [], list
        _check(arguments)
    except (CommandError, ValueError) as error:
        parser.error(str(error))
    return arguments


def _command(argv: list[str]) -> tuple[str, list[str]]:
    """Return the command, "" if there is no such one, and its arguments."""
    if argv[:1] == ["--compile"]:
        return "compile", argv[1:]
    if not argv or argv[0].startswith("-"):
        return BUNDLED, argv
    if argv[0] in COMMANDS:
        return argv[0], argv[1:]
    # As before there were commands: a file first.
    is_file = Path(argv[0]).suffix or Path(argv[0]).exists()
    return ("fit" if is_file else ""), argv


def _no_command(word: str) -> CommandError:
    return CommandError(
        f"there is no command and no file {word!r}: the commands are "
        f"{', '.join(COMMANDS)}."
    )


def _check(arguments: argparse.Namespace) -> None:
    if arguments.command == BUNDLED:
        check_bundled(arguments)
    if arguments.command in ("fit", "predict", "score", "schema"):
        complete(arguments)
    if arguments.command == "fit":
        check_fit(arguments)


def _bundled_parser() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {name:<8} {text}" for name, text in COMMANDS.items())
    parser = _Parser(
        prog="skfdp",
        usage="skfdp [options]\n       skfdp COMMAND ...",
        description="Differentially private models of tables where part of each record "
        "may be public. Without a command: a comparison on data bundled with "
        "scikit-learn.",
        epilog=_EPILOG.format(commands=listed),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--version", action="version", version=f"skfdp {__version__}")
    add("--epsilon", type=float, nargs="+", help="budgets (default: 0.5 and 1)")
    add("--delta", type=float, default=1e-5, help="default: 1e-5")
    add("--relation", choices=RELATIONS, default="replace_one", help=_RELATION)
    _add_seed(parser)
    add("--repeats", type=int, default=3, help="splits and fits (default: 3)")
    add("--report", metavar="FILE.json", type=Path, help="write the privacy report")
    add("--statement", action="store_true", help="print the whole privacy statement")
    _add_debug(parser)
    return parser


_RELATION = "what changes between neighbouring data sets (default: replace_one)"


def _parser(command: str, epilog: str | None = None) -> argparse.ArgumentParser:
    text = COMMANDS[command]
    return _Parser(
        prog=f"skfdp {command}",
        description=text[0].upper() + text[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _fit_parser() -> argparse.ArgumentParser:
    parser = _parser("fit", _FIT_EPILOG)
    _add_table(parser)
    columns = parser.add_argument_group("columns")
    _add_columns(columns)
    columns.add_argument(
        "--bounds",
        metavar="COLUMN=LOW:HIGH",
        **_SEVERAL,
        help="numbers or dates (2024-01-31); values outside are clipped to the bounds",
    )
    columns.add_argument(
        "--categories",
        metavar="COLUMN=A,B,...",
        **_SEVERAL,
        help="text; a value that is not listed counts as 'other'",
    )
    _add_task(columns)
    _add_privacy(parser.add_argument_group("privacy"))
    _add_output(parser.add_argument_group("evaluation and output"))
    return parser


def _predict_parser() -> argparse.ArgumentParser:
    parser = _parser("predict")
    _add_model(parser)
    _add_table(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="CSV or .parquet; left out, CSV on standard output",
    )
    parser.add_argument(
        "--keep",
        metavar="COLUMN",
        **_SEVERAL,
        help="columns of the table that are written beside the predictions",
    )
    return parser


def _score_parser() -> argparse.ArgumentParser:
    parser = _parser("score")
    _add_model(parser)
    _add_table(parser)
    parser.add_argument("--target", metavar="COLUMN", help="default: that of the model")
    return parser


def _report_parser() -> argparse.ArgumentParser:
    parser = _parser("report")
    parser.add_argument(
        "file",
        metavar="FILE",
        help="a report (.json) or a saved model (.skops, .joblib); a joblib file runs "
        "whatever its author put into it",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print it as JSON")
    form.add_argument(
        "--registry",
        action="store_true",
        help="print a draft for the public registry of deployments, as JSON (which is "
        "YAML, too), with blanks for what no report knows",
    )
    _add_debug(parser)
    return parser


def _schema_parser() -> argparse.ArgumentParser:
    parser = _parser("schema")
    _add_table(parser, schema=False)
    _add_columns(parser.add_argument_group("columns"))
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE.toml",
        type=Path,
        help="a new file; left out, standard output",
    )
    return parser


def _compile_parser() -> argparse.ArgumentParser:
    parser = _parser("compile")
    _add_debug(parser)
    return parser


_PARSERS = {
    BUNDLED: _bundled_parser,
    "": _bundled_parser,
    "fit": _fit_parser,
    "predict": _predict_parser,
    "score": _score_parser,
    "report": _report_parser,
    "schema": _schema_parser,
    "compile": _compile_parser,
}


def _add_model(parser) -> None:
    parser.add_argument(
        "saved",
        metavar="MODEL",
        help=".skops, or .joblib, which runs whatever its author put into it",
    )


def _add_table(parser, *, schema: bool = True) -> None:
    add = parser.add_argument
    add("file", metavar="TABLE", help="CSV with a line of names, or .parquet")
    if schema:
        add(
            "--schema",
            metavar="FILE.toml",
            help="declarations and settings, as 'skfdp schema' drafts them",
        )
    csv = parser.add_argument_group("format of a CSV file")
    add = csv.add_argument
    add("--sep", metavar="CHARACTER", help="between fields (default: a comma)")
    add("--decimal", metavar="CHARACTER", help="in numbers (default: a point)")
    add("--encoding", metavar="NAME", help="such as latin1 (default: utf-8)")
    add(
        "--header",
        action="store_true",
        help="the first line holds names, although one of them reads as a number or a "
        "date; without it such a line is refused, unless the schema names all columns",
    )
    _add_debug(parser)


def _add_debug(parser) -> None:
    parser.add_argument(
        "--debug", action="store_true", help="show tracebacks, which may quote data"
    )


def _add_columns(group) -> None:
    add = group.add_argument
    add("--target", metavar="COLUMN", help="column to predict")
    add(
        "--public",
        metavar="COLUMN",
        **_SEVERAL,
        help="columns that may be disclosed; names or patterns such as 'mean *'; "
        "'all': every column but the target",
    )
    add(
        "--public-target",
        action="store_const",
        const=True,
        help="the target may be disclosed",
    )
    add("--drop", metavar="COLUMN", **_SEVERAL, help="columns that are not used")
    add(
        "--groups",
        metavar="COLUMN",
        help="who each row is of: all rows of a person are protected together; the "
        "column is no feature, and who is whose is not protected",
    )


def _add_task(group) -> None:
    add = group.add_argument
    add(
        "--task",
        choices=("classification", "regression"),
        help="default: as --classes or --target-bounds say",
    )
    add(
        "--classes",
        metavar="A,B,...",
        help="labels that can occur; any other one contributes nothing",
    )
    add(
        "--target-bounds",
        metavar="LOW:HIGH",
        help="of a number to predict; targets outside are clipped",
    )


def _add_privacy(group) -> None:
    add = group.add_argument
    add("--epsilon", type=float, help="budget (default: 1)")
    add("--delta", type=float, help="default: 1e-5")
    add("--relation", choices=RELATIONS, help=_RELATION)
    add(
        "--n-records",
        type=int,
        help="public nominal number of records, for add_or_remove_one",
    )
    add("--ledger", metavar="FILE", help="SQLite file that the fit is charged to")
    add(
        "--ceiling",
        metavar="EPSILON",
        type=float,
        help="total epsilon, at --delta, of all fits that a new ledger is charged for; "
        "the file keeps it, and the fit that would pass it is refused",
    )
    _add_seed(group)


def _add_seed(group) -> None:
    group.add_argument(
        "--seed",
        type=int,
        help="reproducible, for experiments only: gives no guarantee",
    )


def _add_output(group) -> None:
    add = group.add_argument
    add(
        "--evaluate",
        action=argparse.BooleanOptionalAction,
        help="compare on held-out rows; the scores are NOT protected (default, except "
        "with --ledger or add_or_remove_one); --no-evaluate trains on all rows and "
        "prints the statement alone",
    )
    add("--test-size", type=float, help="held-out share of the rows (default: 0.25)")
    add(
        "--repeats",
        type=int,
        default=3,
        help="fits of each private row of the table (default: 3)",
    )
    add("--report", metavar="FILE.json", type=Path, help="write the privacy report")
    add(
        "--model",
        metavar="FILE",
        type=Path,
        help="write the trained model, from rows of the table to labels or numbers: "
        ".skops or .joblib",
    )
    add(
        "--plot",
        metavar="FILE",
        type=Path,
        help="draw the effect of every column: .png, .pdf or .svg",
    )
