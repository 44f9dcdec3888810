"""The commands and their options."""

from __future__ import annotations

import argparse
import codecs
import csv
import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from skfdp._version import __version__
from skfdp.cli.output import CommandError
from skfdp.privacy.events import RELATIONS, Relation, check_budget

# The settings of a command: options, and what the schema adds to them.


_DEFAULTS = {
    "task": None,
    "public_target": False,
    "classes": None,
    "target_bounds": None,
    "target": None,
    "groups": None,
    "epsilon": 1.0,
    "delta": 1e-5,
    "relation": "replace_one",
    "n_records": None,
    "interactions": (),
    "encoding": "utf-8",
}
_SEPARATORS = {"tab": "\t", "\\t": "\t"}


def complete(arguments: argparse.Namespace) -> None:
    """Add what the schema says where no option says it, and the defaults.

    Raises
    ------
    CommandError
        If the schema cannot be read, or if a setting is out of range.
    """
    path = getattr(arguments, "schema", None)
    settings, arguments.declared = {}, {}
    if path is not None:
        from skfdp.cli.tables import read_schema  # it loads pandas

        settings, arguments.declared = read_schema(path)
    _parse_target(arguments)
    # Who asks for a regression by an option does not mean the classes of the schema.
    if getattr(arguments, "target_bounds", None) is not None:
        settings.pop("classes", None)
    elif getattr(arguments, "classes", None) is not None:
        settings.pop("target_bounds", None)
    for name, default in {**_DEFAULTS, **settings}.items():
        if getattr(arguments, name, None) is None:
            setattr(arguments, name, settings.get(name, default))
    _check_format(arguments)


def check_bundled(arguments: argparse.Namespace) -> None:
    """Check the options of the comparison on bundled data."""
    if not Relation.of(arguments.relation).counts_are_public:
        raise CommandError(
            "--relation add_or_remove_one allows no public columns, and the bundled "
            "comparison has some: use replace_one or replace_special."
        )
    arguments.epsilon = arguments.epsilon or [0.5, 1.0]
    for epsilon in arguments.epsilon:
        _check_budget(epsilon, arguments.delta)
    _check_common(arguments, (arguments.report,))


def check_fit(arguments: argparse.Namespace) -> None:
    """Check the settings of a fit; nothing of the table is looked at."""
    if not arguments.target:
        raise CommandError("--target is needed: name the column to predict.")
    arguments.public = arguments.public or []
    _check_budget(arguments.epsilon, arguments.delta)
    _check_task(arguments)
    _check_evaluation(arguments)
    _check_common(arguments, (arguments.report, arguments.model, arguments.plot))
    if arguments.model is not None:
        if arguments.model.suffix not in (".skops", ".joblib"):
            raise CommandError(
                f"--model {arguments.model} must end in .skops or .joblib."
            )
        if arguments.model.suffix == ".skops":
            _check_installed("skops", f"--model {arguments.model}", "cli")
    if arguments.plot is not None:
        if arguments.plot.suffix not in (".png", ".pdf", ".svg"):
            raise CommandError(
                f"--plot {arguments.plot} must end in .png, .pdf or .svg."
            )
        _check_installed("matplotlib", f"--plot {arguments.plot}", "plot")


def _check_installed(package: str, option: str, extra: str) -> None:
    import importlib

    try:
        importlib.import_module(package)
    except ImportError:
        raise CommandError(
            f"{option} needs {package}: pip install 'skfdp[{extra}]'."
        ) from None


def _parse_target(arguments: argparse.Namespace) -> None:
    """Turn the texts of --classes and --target-bounds into values."""
    text = getattr(arguments, "classes", None)
    if text is not None:
        # As in a CSV file: a label that holds a comma is quoted.
        arguments.classes = [*next(csv.reader([text], skipinitialspace=True), [])]
    text = getattr(arguments, "target_bounds", None)
    if text is not None:
        try:
            low, high = map(float, text.split(":"))
        except ValueError:
            raise CommandError(
                f"--target-bounds {text!r} must have the form LOW:HIGH, two numbers."
            ) from None
        arguments.target_bounds = (low, high)


def _check_format(arguments: argparse.Namespace) -> None:
    """Check separator, decimal mark and encoding; a semicolon leaves no default."""
    sep = getattr(arguments, "sep", None)
    sep = _SEPARATORS.get(sep, sep) or ","
    if len(sep) != 1 or sep.isalnum() or sep in "\"'.\n\r":
        raise CommandError(
            f"--sep={sep!r} must be one character, such as ';', or the word tab."
        )
    decimal = getattr(arguments, "decimal", None)
    if decimal is None and sep == ";":
        raise CommandError(
            "--sep ';' usually comes with commas in numbers, but not always, and "
            "numbers with the wrong mark would count as missing: say --decimal , or "
            "--decimal . too."
        )
    decimal = decimal or "."
    if decimal not in (".", ",") or decimal == sep:
        raise CommandError(
            f"--decimal={decimal!r} must be a point or a comma, and not the separator."
        )
    try:
        codecs.lookup(arguments.encoding)
    except LookupError:
        raise CommandError(
            f"--encoding={arguments.encoding!r} is not known: use utf-8, latin1, "
            "cp1252 or utf-16, say."
        ) from None
    arguments.sep, arguments.decimal = sep, decimal


def _check_budget(epsilon: float, delta: float) -> None:
    _check_positive("--epsilon", epsilon)
    check_budget(epsilon, delta)


def _check_positive(option: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise CommandError(
            f"{option}={value:g} must be a positive, finite number, such as 1."
        )


def _check_common(arguments: argparse.Namespace, paths: tuple) -> None:
    if arguments.repeats < 1:
        raise CommandError(f"--repeats={arguments.repeats} must be at least 1.")
    if arguments.seed is not None and arguments.seed < 0:
        raise CommandError(f"--seed={arguments.seed} must not be negative.")
    for path in paths:
        if path is not None and not path.resolve().parent.is_dir():
            raise CommandError(f"there is no folder {str(path.parent)!r} for {path}.")


def _check_task(arguments: argparse.Namespace) -> None:
    """Find out what is asked for: neither values nor their form decide it."""
    classes, bounds = arguments.classes, arguments.target_bounds
    if classes is not None and bounds is not None:
        raise CommandError(
            "--classes are for classification and --target-bounds for regression: give "
            "one of them."
        )
    for option, given, task in (
        ("--classes", classes, "classification"),
        ("--target-bounds", bounds, "regression"),
    ):
        if given is not None:
            if arguments.task not in (None, task):
                raise CommandError(f"{option} is not for --task {arguments.task}.")
            arguments.task = task
    if classes is None and bounds is None and not arguments.public_target:
        need = {
            "classification": "--classes A,B,...",
            "regression": "--target-bounds LOW:HIGH",
            None: "--classes A,B,... for a label, or --target-bounds LOW:HIGH for a "
            "number",
        }[arguments.task]
        raise CommandError(
            f"the target {arguments.target!r} is private, and to learn from it what "
            f"can occur would disclose it: declare {need}; or --public-target, if it "
            "may be disclosed."
        )
    if classes is not None:
        _check_classes(classes)
    if bounds is not None and not (-math.inf < bounds[0] < bounds[1] < math.inf):
        raise CommandError("--target-bounds LOW:HIGH must satisfy LOW < HIGH.")


def _check_classes(classes: list[Any]) -> None:
    for label in classes:
        if not label.strip() or classes.count(label) > 1:
            raise CommandError(
                f"--classes lists {label!r} twice, or an empty label: list every label "
                "once."
            )
    if len(classes) < 2:
        raise CommandError(
            f"--classes {','.join(classes)} must list two labels or more."
        )


def _check_evaluation(arguments: argparse.Namespace) -> None:
    if arguments.ceiling is not None:
        _check_positive("--ceiling", arguments.ceiling)
        if arguments.ledger is None:
            raise CommandError("--ceiling is that of a ledger: give --ledger FILE too.")
    relation = Relation.of(arguments.relation)
    # A ledger promises that every use of the data is charged, and the comparison
    # cannot be; and who is held out depends on the number of rows, which
    # add_or_remove_one protects.
    reasons = {
        "--ledger": arguments.ledger is not None,
        f"--relation {arguments.relation}": not relation.counts_are_public,
    }
    obstacle = next((option for option, given in reasons.items() if given), None)
    if arguments.evaluate and obstacle:
        raise CommandError(
            f"--evaluate and {obstacle} exclude each other: the scores on held-out "
            "rows are not private, so they cannot be accounted for."
        )
    if arguments.evaluate is None:
        arguments.evaluate = obstacle is None
    size = arguments.test_size
    if size is not None and not arguments.evaluate:
        raise CommandError("--test-size needs the evaluation, which is off.")
    arguments.test_size = 0.25 if size is None else size
    if not 0 < arguments.test_size < 1:
        raise CommandError(f"--test-size={size} must lie strictly between 0 and 1.")


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


# A number below 0, or a list of numbers that begins with one.
_MINUS = re.compile(r"-\.?[0-9]")


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
        arguments = parser.parse_args(_with_minus(rest))
        parser.hint = ""
        arguments.command = command
        # What is done so far, in sentences: written files, and charges to a ledger.
        arguments.done, arguments.charged = [], list
        _check(arguments)
    except (CommandError, ValueError) as error:
        parser.error(str(error))
    return arguments


def _with_minus(words: list[str]) -> list[str]:
    """Join an option and its value if argparse took the value for an option: -1,1."""
    found: list[str] = []
    for word in words:
        if found[-1:] in (["--classes"], ["--target-bounds"]) and _MINUS.match(word):
            found[-1] += f"={word}"
        else:
            found.append(word)
    return found


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
