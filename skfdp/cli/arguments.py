"""Commands and options of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from skfdp._version import __version__
from skfdp.cli.output import CommandError, check_writable, refusing
from skfdp.privacy.checks import number
from skfdp.privacy.events import RELATIONS
from skfdp.privacy.report import check_context

_EPILOG = """\
skfdp COMMAND --help lists the options of a command.

examples:
  skfdp
  skfdp schema stays.csv --outcomes readmitted --public age sex -o stays.toml
  skfdp fit stays.csv --schema stays.toml --model stays.skops --report stays.json
  skfdp predict stays.skops new.csv --schema stays.toml -o predicted.csv
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):
        """Print the message, and exit with status 2."""
        self.exit(2, f"skfdp: error: {message}\n")


#: The options of a command: for the names of one, the arguments of `add_argument`.
Options = dict[str, dict[str, Any]]


def _of(text: str, **more: Any) -> dict[str, Any]:
    usual = " (default: %(default)s)" if more.get("default") else ""
    return {"help": text + usual, **more}


def _file(text: str) -> dict[str, Any]:
    return _of(text, metavar="FILE", type=Path)


def _flag(text: str) -> dict[str, Any]:
    return _of(text, action="store_true")


def _of_columns(text: str) -> dict[str, Any]:
    return _of(text, action="extend", nargs="+", metavar="COLUMN", default=[])


_FULL = {"--full": _flag("print the annex of the statement, too")}
_TABLE = _of("CSV with a line of names, .parquet or .arrow", metavar="TABLE")
_DECLARED: Options = {
    "file": _TABLE,
    "--schema": _of("as 'skfdp schema' drafts it", metavar="FILE", required=True),
}
_BUDGET: Options = {
    "--epsilon": _of("budget", type=float, default=1.0),
    "--delta": _of("chance beyond epsilon", type=float, default=1e-5),
    "--seed": _of("reproducible noise, without privacy guarantee", type=int),
}
_DRAFT: Options = {
    "file": _TABLE,
    "--check": _of("check the table against this schema instead", metavar="FILE"),
    "--public": _of_columns(
        "columns that may be disclosed: names, patterns such as 'mean *', or 'all' for "
        "every column except the outcomes and the group"
    ),
    "--outcomes": _of_columns("columns to predict"),
    "--group": _of(
        "column with the person's id: all rows of one person are protected together. "
        "Not a feature. Which rows belong together stays visible",
        metavar="COLUMN",
    ),
    "--delimiter": _of("separator of fields in a CSV file", metavar="TEXT"),
    "--decimal": _of("decimal sign: a point or a comma", metavar="TEXT"),
    "--thousands": _of("separator of thousands", metavar="TEXT"),
    "--encoding": _of("encoding of the file, such as latin1", metavar="TEXT"),
    "--skip-lines": _of("lines above the line of names", type=int, metavar="N"),
    "--header": _flag(
        "the first line holds names, also if they look like a record (a word that "
        "begins with a digit, a repeated name; otherwise refused)"
    ),
    "-o --output": _of("a new file", metavar="FILE.toml", type=Path),
}
_TRAIN: Options = {
    **_DECLARED,
    "--target": _of("the outcome, if the schema has several", metavar="COLUMN"),
    **_BUDGET,
    "--relation": _of("neighbouring relation", choices=RELATIONS, default=RELATIONS[0]),
    "--n-records": _of("public size, for add_or_remove_one", type=int),
    "--ledger": _of("SQLite file that the fit is charged to", metavar="FILE"),
    "--limit": _of(
        "total epsilon, at --delta, of all fits charged to a new ledger; the file "
        "stores the limit, and a fit that would exceed it is refused",
        metavar="EPSILON",
        type=float,
    ),
    "--report": _of("write the privacy report", metavar="FILE.json", type=Path),
    "--model": _file("save the model: .skops or .joblib"),
    "--overwrite": _flag("replace an existing file of --model"),
    "--context": _of(
        "data, date, by and purpose: facts for the report, which are not checked",
        nargs="+",
        default=[],
        metavar="KEY=TEXT",
    ),
}
_PREDICT: Options = {
    "saved": _of(".skops, or .joblib, which can run any code", metavar="MODEL"),
    **_DECLARED,
    "-o --output": _file("CSV, .parquet or .arrow"),
    "--keep": _of_columns("columns to write next to the predictions"),
}
_REPORT: Options = {
    "file": _of("a report (.json), model (.skops, .joblib) or ledger", metavar="FILE"),
    **_FULL,
    "--json": _flag("print the report as JSON"),
    "--html": _file("also write a web page"),
    "--registry": _file("also write an entry of OpenDP's registry"),
}
_SHOWN: Options = {
    "file": _of("the SQLite file of 'skfdp fit --ledger'", metavar="FILE"),
    "--report": _of("also find its charges in the ledger", metavar="FILE.json"),
}
_COMMANDS: dict[str, tuple[str, Options]] = {
    "schema": ("draft a schema of a table, or check a table against it", _DRAFT),
    "fit": ("train a private model, and write it with its privacy report", _TRAIN),
    "predict": ("predict rows with a saved model", _PREDICT),
    "report": ("print the statement of a report, a saved model or a ledger", _REPORT),
    "ledger": ("show the budget of a ledger, and check its hash chain", _SHOWN),
    "compile": ("compile all loops now, so that no fit of a large table does", {}),
}


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
    parser.add_argument("--version", action="version", version=f"skfdp {__version__}")
    commands = parser.add_subparsers(
        dest="command", title="commands", metavar="COMMAND"
    )
    parsers = {parser: _FULL | _BUDGET}
    for name, (text, options) in _COMMANDS.items():
        about = {"help": text, "description": f"{text}.", "allow_abbrev": False}
        parsers[commands.add_parser(name, **about)] = options
    debug = {"--debug": _flag("show tracebacks, which may quote data")}
    for one, options in parsers.items():
        for names, given in (options | debug).items():
            one.add_argument(*names.split(), **given)
    arguments = parser.parse_args(argv)
    functions = {None: "bundled", "compile": "compile_loops"}
    arguments.command = functions.get(arguments.command, arguments.command)
    # What the command did, in sentences: written files, and charges to a ledger.
    arguments.done = []
    return arguments


#: Options with files.
_FILES = "file saved schema check ledger report model output html registry"


def check_options(arguments: argparse.Namespace) -> None:
    """Check options without reading the table; refuse to write one file over another.

    Files to be written are those of the type Path.
    """
    given = vars(arguments)
    files = {name: given[name] for name in _FILES.split() if given.get(name)}
    places = [Path(one).resolve() for one in files.values()]
    for place in places:
        if places.count(place) > 1:
            raise CommandError(f"{str(place)!r} is given twice: name another file.")
    for name, path in files.items():
        if isinstance(path, Path):
            check_writable(path, f"--{name}")
    with refusing(ValueError):
        for name in ("epsilon", "limit"):
            if given.get(name) is not None:
                expected = "a positive, finite number up to 1e12, such as 1"
                number(name, given[name], expected, 0, 1e12, closed="right")
        if arguments.command != "fit":
            return
        for pair in arguments.context:
            if "=" not in pair:
                raise CommandError(f"--context {pair!r} must have the form KEY=TEXT.")
        pairs = (pair.split("=", 1) for pair in arguments.context)
        arguments.context = check_context(dict(pairs))
    if arguments.limit is not None and arguments.ledger is None:
        raise CommandError("--limit needs a ledger: give --ledger FILE, too.")
    if arguments.n_records is not None and arguments.relation != "add_or_remove_one":
        raise CommandError("--n-records needs --relation add_or_remove_one, too.")
    path = arguments.model
    if path is not None and path.suffix not in (".skops", ".joblib"):
        raise CommandError(f"--model {path} must end in .skops or .joblib.")
