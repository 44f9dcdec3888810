"""The columns of a file, and what is declared about each."""

from __future__ import annotations

import argparse
import csv
import fnmatch
import json
import math
import re
from collections.abc import Iterable, Sequence

import pandas as pd

from skfdp.cli.arguments import CommandError
from skfdp.cli.encoding import Columns, canonical, canonical_text, labels_like
from skfdp.cli.tables import open_table
from skfdp.privacy import Relation


def read_header(path: str, target: str) -> list[str]:
    """Return the column names; the rows are not looked at."""
    header = list(open_table(path, nrows=0).columns)
    if target not in header:
        # The header is not shown: in a file without one it is the first record.
        raise CommandError(
            f"--target names {target!r}, which is not in the first line of {path!r}: "
            "the file needs a header line, and names are case-sensitive."
        )
    return header


def read_rows(path: str, columns: Columns) -> pd.DataFrame:
    """Return the rows as text: nothing is inferred from the values."""
    rows = open_table(path)[[*columns.public, *columns.private, columns.target]]
    if not len(rows):
        raise CommandError(f"{path!r} holds no rows below its first line.")
    if rows[columns.target].isna().any():
        raise CommandError(
            f"the target {columns.target!r} has missing values: give them a label of "
            "their own, such as 'missing'; remove these rows only if it is public "
            "which they are."
        )
    return rows


def resolve(arguments: argparse.Namespace, header: Sequence[str]) -> Columns:
    """Return the columns as declared, or refuse.

    Parameters
    ----------
    arguments : Namespace
    header : sequence of str
        The file's column names.
    """
    target = arguments.target
    features = [name for name in header if name != target]
    for name in arguments.drop or ():
        if name not in features:
            raise _unknown("--drop", name, target)
        features.remove(name)
    public = _public(arguments.public, features, target)
    bounds: dict = {}
    for text in arguments.bounds or ():
        name, value = _assignment("--bounds", "COLUMN=LOW:HIGH", text, features, target)
        _add(bounds, name, _pair(text, value), "--bounds")
    categories: dict = {}
    for text in arguments.categories or ():
        name, value = _assignment(
            "--categories", "COLUMN=A,B,...", text, features, target
        )
        _add(categories, name, _listed(value, name), "--categories")
    for name, values in _from_file(arguments.categories_file).items():
        if name not in features:
            raise _unknown("--categories-file", name, target)
        _add(categories, name, _listed(values, name), "--categories")
    for name in bounds.keys() & categories.keys():
        raise CommandError(
            f"column {name!r} has --bounds and --categories: numbers or text?"
        )
    private = tuple(name for name in features if name not in public)
    _require(private, bounds.keys() | categories.keys())
    _check_use(arguments, features, private)
    return Columns(
        target,
        tuple(name for name in features if name in public),
        private,
        bounds,
        categories,
    )


def classes(text: str | None) -> list[str] | None:
    """Return the labels of ``--classes`` in canonical form."""
    if text is None:
        return None
    labels = _listed(text, "--classes")
    if len(labels) < 2:
        raise CommandError(f"--classes={text!r} must list at least two labels.")
    return list(labels)


def labels(target: pd.Series, declared: list[str] | None) -> tuple:
    """Return the labels of the rows and the declared ones, of one type.

    Parameters
    ----------
    target : Series
    declared : list of str or None
        In canonical form; None: whatever occurs.
    """
    values = canonical_text(target)
    if declared is None:
        found = labels_like(values).to_numpy()
        if found.dtype.kind == "f":
            raise CommandError(
                f"the target {target.name!r} holds fractions, and the command line "
                "trains classifiers only: use skfdp.FeatureDPRegressor in Python, or "
                "replace the numbers by labels beforehand, at limits that are public."
            )
        return found, None
    if not values.isin(declared).all():
        raise CommandError(
            f"the target {target.name!r} holds labels outside --classes "
            f"{','.join(declared)}: declare every label that can occur."
        )
    both = labels_like(pd.concat([pd.Series(declared), values], ignore_index=True))
    both = both.to_numpy()
    return both[len(declared) :], both[: len(declared)].tolist()


def _public(patterns: list[str], features: list[str], target: str) -> set[str]:
    if patterns == ["all"]:
        return set(features)
    public: set[str] = set()
    for pattern in patterns:
        if pattern == target:
            raise CommandError(
                f"--public names the target {target!r}: use --public-target."
            )
        found = {pattern} & set(features) or {
            name for name in features if fnmatch.fnmatchcase(name, pattern)
        }
        if not found:
            raise _unknown("--public", pattern, target)
        public |= found
    return public


def _unknown(option: str, name: str, target: str) -> CommandError:
    if name == target:
        return CommandError(
            f"{option} names the target {name!r}: its labels are declared by --classes."
        )
    return CommandError(
        f"{option} names the column {name!r}, which the file does not have or --drop "
        "removes: names are case-sensitive."
    )


def _assignment(
    option: str, form: str, text: str, features: list[str], target: str
) -> tuple[str, str]:
    """Split ``name=value`` where the name is a column; both sides may hold "="."""
    places = [i for i, character in enumerate(text) if character == "="]
    if not places:
        raise CommandError(f"{option} {text!r} must have the form {form}.")
    for place in places:
        if text[:place] in features:
            return text[:place], text[place + 1 :]
    raise _unknown(option, text[: places[0]], target)


def _add(declared: dict, name: str, value: tuple, option: str) -> None:
    if name in declared:
        raise CommandError(f"{option} declares column {name!r} twice.")
    declared[name] = value


def _pair(text: str, value: str) -> tuple[float, float]:
    try:
        low, high = map(float, value.split(":"))
    except ValueError:
        hint = ""
        if re.search(r"\d{4}-\d\d|\d\d?[./]\d\d?[./]\d\d", value):
            hint = (
                " Dates are not read: write days since a fixed date into the file "
                "beforehand, or --drop the column."
            )
        raise CommandError(
            f"--bounds {text!r} must have the form COLUMN=LOW:HIGH, two numbers.{hint}"
        ) from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise CommandError(f"--bounds {text!r} must satisfy LOW < HIGH, both finite.")
    return low, high


def _listed(values: str | Iterable[str], name: str) -> tuple[str, ...]:
    """Return categories in the form in which rows are compared with them."""
    if isinstance(values, str):
        # As in a CSV file: a category that holds a comma is quoted.
        values = next(csv.reader([values], skipinitialspace=True), [])
    listed = tuple(canonical(str(value)) for value in values)
    if not listed:
        raise CommandError(f"--categories of {name!r} must list at least one value.")
    for value in listed:
        if listed.count(value) > 1:
            raise CommandError(f"the list of {name!r} holds {value!r} twice.")
    return listed


def _from_file(path: str | None) -> dict:
    if path is None:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
    except OSError as error:
        raise CommandError(f"cannot read {path!r}: {error.strerror}.") from None
    except ValueError:
        values = None
    if not isinstance(values, dict) or not all(
        isinstance(listed, list) for listed in values.values()
    ):
        raise CommandError(
            f'--categories-file {path!r} must be JSON of the form {{"column": ["A", '
            '"B"], ...}.'
        )
    return values


def _require(private: Sequence[str], declared: Iterable[str]) -> None:
    """Refuse private columns of which nothing is declared, without a look at them."""
    missing = [name for name in private if name not in declared]
    if not missing:
        return
    noun = "column" if len(missing) == 1 else "columns"
    bounds = " ".join(_quoted(f"{name}=LOW:HIGH") for name in missing)
    categories = " ".join(_quoted(f"{name}=A,B,...") for name in missing)
    raise CommandError(
        f"to learn bounds or categories of the private {noun} "
        f"{', '.join(missing)} from the data would disclose them: declare what you "
        f"know beforehand, --bounds {bounds} for numbers, --categories {categories} "
        "for text; or --drop what nobody can declare (identifiers, names, dates)."
    )


def _quoted(text: str) -> str:
    return f"'{text}'" if set(text) & set(" '\"*?&;()<>|$`\\") else text


def _check_use(arguments, features: Sequence[str], private: Sequence[str]) -> None:
    if not features:
        raise CommandError("there is no column to learn from besides the target.")
    if not private and arguments.public_target:
        raise CommandError(
            "--public covers every column and --public-target the target: there is "
            "nothing to protect, use scikit-learn."
        )
    whole_records = not Relation.of(arguments.relation).counts_are_public
    anything_public = len(private) < len(features) or arguments.public_target
    if whole_records and anything_public:
        raise CommandError(
            "--relation add_or_remove_one adds whole records, so nothing of them can "
            "be public: use replace_one or replace_special."
        )
    if (arguments.n_records is None) == whole_records:
        raise CommandError(
            "--n-records, a public nominal number of records, belongs to --relation "
            "add_or_remove_one and to no other."
        )
