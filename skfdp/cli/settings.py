"""The settings of a command: options, and what the schema adds to them."""

from __future__ import annotations

import argparse
import codecs
import csv
import math
from typing import Any

from skfdp.cli.output import CommandError
from skfdp.cli.schema import read_schema
from skfdp.privacy.events import check_budget
from skfdp.privacy.relations import Relation

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
    settings, arguments.declared = ({}, {}) if path is None else read_schema(path)
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
