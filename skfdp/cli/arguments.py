"""The options of the command line."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from skfdp._version import __version__
from skfdp.privacy.events import RELATIONS, check_budget
from skfdp.privacy.relations import Relation

_EPILOG = """\
examples:
  python -m skfdp
  python -m skfdp people.csv --target income --public education age \\
      --bounds hours=1:99 --categories sector=private,public --epsilon 1 \\
      --report report.json --model model.joblib
  python -m skfdp people.csv --target income --public all --epsilon 1

A private column needs declared --bounds (numbers) or --categories (text): to read
them from the data would disclose them. Public columns may leave them out.
"""
# Options that mean nothing for the bundled data.
_FILE_ONLY = (
    "target",
    "public",
    "public_target",
    "drop",
    "bounds",
    "categories",
    "categories_file",
    "classes",
    "n_records",
    "evaluate",
    "test_size",
    "model",
    "ledger",
    "ceiling",
)


class CommandError(Exception):
    """A refusal: one sentence that quotes nothing private."""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str):
        """Leave with status 2."""
        self.exit(2, f"{self.prog}: error: {message}\n")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the checked options, or leave with status 2."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    # What is done so far, in sentences: written files, and charges to a ledger.
    arguments.done, arguments.charged = [], list
    try:
        _check(arguments)
    except (CommandError, ValueError) as error:
        parser.error(str(error))
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m skfdp",
        description="Train a classifier with differential privacy where part of each "
        "record may be public, and print what it cost. Without FILE: on data bundled "
        "with scikit-learn.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("file", metavar="FILE", nargs="?", help="CSV with a header line")
    add("--version", action="version", version=f"skfdp {__version__}")
    _add_columns(parser.add_argument_group("columns"))
    _add_privacy(parser.add_argument_group("privacy"))
    _add_output(parser.add_argument_group("evaluation and output"))
    return parser


def _add_columns(group) -> None:
    add = group.add_argument
    several = {"action": "extend", "nargs": "+"}
    add("--target", metavar="COLUMN", help="column to predict")
    add(
        "--public",
        metavar="COLUMN",
        **several,
        help="columns that may be disclosed; names or patterns such as 'mean *'; "
        "'all': every column but the target",
    )
    add(
        "--public-target",
        action="store_const",
        const=True,
        help="the target may be disclosed",
    )
    add("--drop", metavar="COLUMN", **several, help="columns that are not used")
    add(
        "--bounds",
        metavar="COLUMN=LOW:HIGH",
        **several,
        help="numbers; clipped to the bounds; a missing one counts as the middle",
    )
    add(
        "--categories",
        metavar="COLUMN=A,B,...",
        **several,
        help="text; a value that is not listed contributes nothing; an empty one is "
        "the category 'missing'",
    )
    add(
        "--categories-file",
        metavar="FILE.json",
        help='the same as JSON: {"column": ["A", "B"], ...}',
    )
    add(
        "--classes",
        metavar="A,B,...",
        help="labels that can occur; left out, they are read from the target, and the "
        "report says that it assumes them to be public",
    )


def _add_privacy(group) -> None:
    add = group.add_argument
    add(
        "--epsilon",
        type=float,
        nargs="+",
        help="budget (default: 1; for the bundled data several, 0.5 and 1)",
    )
    add("--delta", type=float, default=1e-5, help="default: 1e-5")
    add(
        "--relation",
        choices=RELATIONS,
        default="replace_one",
        help="what changes between neighbouring data sets (default: replace_one)",
    )
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
    add(
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
        help="fits of each private row of the table (default: 3)",
    )
    add("--report", metavar="FILE.json", type=Path, help="write the privacy report")
    add(
        "--model",
        metavar="FILE",
        type=Path,
        help="write the trained Pipeline, from rows of the CSV to labels: .skops or "
        ".joblib",
    )
    add("--debug", action="store_true", help="show tracebacks, which may quote data")


def _check(arguments: argparse.Namespace) -> None:
    if arguments.file is None:
        _check_bundled(arguments)
    else:
        _check_file(arguments)
    for epsilon in arguments.epsilon:
        _check_positive("--epsilon", epsilon)
        check_budget(epsilon, arguments.delta)
    if arguments.repeats < 1:
        raise CommandError(f"--repeats={arguments.repeats} must be at least 1.")
    if arguments.seed is not None and arguments.seed < 0:
        raise CommandError(f"--seed={arguments.seed} must not be negative.")
    for path in (arguments.report, arguments.model):
        if path is not None and not path.resolve().parent.is_dir():
            raise CommandError(f"there is no folder {str(path.parent)!r} for {path}.")


def _check_positive(option: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise CommandError(
            f"{option}={value:g} must be a positive, finite number, such as 1."
        )


def _check_bundled(arguments: argparse.Namespace) -> None:
    for name in _FILE_ONLY:
        if getattr(arguments, name) is not None:
            option = "--" + name.replace("_", "-")
            raise CommandError(f"{option} is for a FILE, and none is given.")
    if not Relation.of(arguments.relation).counts_are_public:
        raise CommandError(
            "--relation add_or_remove_one allows no public columns, and the bundled "
            "comparison has some: use replace_one or replace_special."
        )
    arguments.epsilon = arguments.epsilon or [0.5, 1.0]
    arguments.repeats = 3 if arguments.repeats is None else arguments.repeats


def _check_file(arguments: argparse.Namespace) -> None:
    if arguments.target is None:
        raise CommandError("--target is needed with a FILE: name the column.")
    arguments.epsilon = arguments.epsilon or [1.0]
    if len(arguments.epsilon) > 1:
        raise CommandError(
            "--epsilon takes one number with a FILE: one model is released."
        )
    arguments.public = arguments.public or []
    arguments.public_target = bool(arguments.public_target)
    arguments.repeats = 3 if arguments.repeats is None else arguments.repeats
    _check_evaluation(arguments)
    if arguments.model is not None:
        if arguments.model.suffix not in (".skops", ".joblib"):
            raise CommandError(
                f"--model {arguments.model} must end in .skops or .joblib."
            )
        if arguments.model.suffix == ".skops":
            _check_skops()


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


def _check_skops() -> None:
    try:
        import skops.io  # noqa: F401
    except ImportError:
        raise CommandError(
            "--model FILE.skops needs skops: pip install 'skfdp[cli]', or use .joblib."
        ) from None
