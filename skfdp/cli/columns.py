"""The columns of a table, and what is declared about each."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import fnmatch
import re
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from skfdp.cli.observed import Observed, look_at, named_as_identifier
from skfdp.cli.output import CommandError, complain
from skfdp.cli.schema import limits
from skfdp.cli.target import as_numbers
from skfdp.encoding.encoder import DeclaredEncoder
from skfdp.privacy import Relation


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns that the model sees; public facts only.

    Attributes
    ----------
    target : str
    names : tuple of str
        In the order of the file.
    public : tuple of str
        Those among them that may be disclosed.
    declared : dict of str to dict
        What is declared of each, by the keys of a schema.
    interactions : sequence of (str, str)
    learnt : tuple of str
        Public columns whose bounds or categories were read from the rows.
    suspects : tuple of str
        Those among them that seem to be identifiers.
    hints : dict of str to str
        What seems wrong with those among them that became categories.
    """

    target: str
    names: tuple[str, ...]
    public: tuple[str, ...]
    declared: dict[str, dict[str, Any]]
    interactions: Sequence[tuple[str, str]] = ()
    learnt: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    hints: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def private(self) -> tuple[str, ...]:
        """The others."""
        return tuple(name for name in self.names if name not in self.public)

    def of_numbers(self) -> list[str]:
        """Return the columns whose bounds are numbers."""
        found = self.among(self.names, "bounds")
        return [name for name, pair in found.items() if not isinstance(pair[0], str)]

    def among(self, names: Iterable[str], key: str) -> dict[str, Any]:
        """Return what is declared under a key, by column."""
        return {
            name: self.declared[name][key]
            for name in names
            if key in self.declared.get(name, {})
        }

    def declares(self, name: str) -> bool:
        """Whether bounds or categories of a column are declared."""
        return not {"bounds", "categories"}.isdisjoint(self.declared.get(name, {}))

    def encoder(self, *, public_only: bool = False) -> DeclaredEncoder:
        """Return the encoder of raw rows, of the public columns alone or of all."""
        names = self.public if public_only else self.names
        options: dict[str, Any] = {
            option: found
            for option, key in (
                ("basis", "basis"),
                ("n_knots", "knots"),
                ("spacing", "spacing"),
            )
            if (found := self.among(names, key))
        }
        cyclic = self.among(names, "cyclic")
        categories = self.among(names, "categories")
        return DeclaredEncoder(
            self.among(names, "bounds"),
            {name: list(values) for name, values in categories.items()},
            cyclic=[name for name, given in cyclic.items() if given],
            interactions=[
                list(pair) for pair in self.interactions if set(pair) <= set(names)
            ],
            ignore=[name for name in self.names if name not in names],
            **options,
        )

    def completed(self, rows: pd.DataFrame, numbers: pd.DataFrame) -> Columns:
        """Return the columns with what public columns show where nothing is declared.

        Parameters
        ----------
        rows : DataFrame
        numbers : DataFrame
            The same rows with points in the numbers of the columns that are not
            declared.

        Raises
        ------
        CommandError
            If a public column holds too many texts, or nothing.
        """
        declared = dict(self.declared)
        learnt, suspects, hints = [], [], {}
        for name in self.public:
            if not self.declares(name):
                found = look_at(rows[name], numbers[name])
                learnt.append(name)
                shown = _shown(name, found, len(rows))
                declared[name] = declared.get(name, {}) | shown
                if found.running or named_as_identifier(name):
                    suspects.append(name)
                if found.foreign_hint and "categories" in shown:
                    hints[name] = found.foreign_hint
        return dataclasses.replace(
            self,
            declared=declared,
            learnt=tuple(learnt),
            suspects=tuple(suspects),
            hints=hints,
        )


def _shown(name: str, found: Observed, n_rows: int) -> dict[str, Any]:
    if found.bounds is not None:
        return {"bounds": found.bounds}
    if found.categories is not None:
        return {"categories": found.categories}
    if not found.n_values:
        raise CommandError(
            f"the public column {name!r} is empty: leave it out (--drop)."
        )
    raise CommandError(
        f"the public column {name!r} holds {found.n_values} different texts in "
        f"{n_rows} rows. Names and identifiers are not categories, and each would be "
        "the name of a column in the model and in the report: leave it out (--drop), "
        "or declare the categories that matter (--categories)."
        + f" {found.foreign_hint}"
        * bool(found.foreign_hint)
    )


def known_names(arguments: argparse.Namespace) -> list[str | None]:
    """Return the columns that the schema names, with the target and the groups."""
    return [*arguments.declared, arguments.target, arguments.groups]


def roles(
    arguments: argparse.Namespace, header: Sequence[str], nameless: Sequence[str] = ()
) -> tuple[list[str], list[str], list[str]]:
    """Return the public, private and ignored columns of a file, in its order.

    An option goes before the schema, for the columns that it names. A column that has
    no name in the file is ignored, unless it is declared by the name that it gets.
    """
    target, declared = arguments.target, arguments.declared
    if target and target not in header:
        # The header is not shown: in a file without one it is the first record.
        raise CommandError(
            f"--target names {target!r}, which is not in the first line of "
            f"{arguments.file!r}: the file needs a header line, and names are "
            "case-sensitive."
        )
    for name in header:
        if list(header).count(name) > 1:
            raise CommandError("two columns have one name: rename one of them.")
    groups = getattr(arguments, "groups", None)
    if groups and (groups not in header or groups == target):
        raise CommandError(
            f"--groups names {groups!r}, which is not in the first line of "
            f"{arguments.file!r}, or is the target: name the column that tells the "
            "person of each row."
        )
    features = [name for name in header if name not in (target, groups)]
    for name in declared:
        if name not in (*features, groups):
            raise _unknown("the schema", name, target)
    unnamed = [name for name in nameless if not _is_named(arguments, name)]
    role = {
        name: declared.get(name, {}).get(
            "role", "ignore" if name in unnamed else "private"
        )
        for name in features
    }
    for name in arguments.drop or ():
        if name not in features:
            raise _unknown("--drop", name, target)
        role[name] = "ignore"
    left = [
        name for name in features if name not in (*unnamed, *(arguments.drop or ()))
    ]
    for name in _public(arguments.public or [], left, target):
        role[name] = "public"
    public, private, ignored = (
        [name for name in features if role[name] == kind]
        for kind in ("public", "private", "ignore")
    )
    return public, private, ignored


def _is_named(arguments: argparse.Namespace, name: str) -> bool:
    """Whether an option or the schema names a column."""
    listed = [*(arguments.public or ()), *(arguments.drop or ()), *arguments.declared]
    for option in ("bounds", "categories"):
        listed += [
            text[: len(name)]
            for text in getattr(arguments, option, None) or ()
            if text.startswith(f"{name}=")
        ]
    return name in listed


def warn_of_nameless(
    arguments: argparse.Namespace, header: Sequence[str], nameless: Sequence[str]
) -> None:
    """Say by position which columns are ignored because they have no name."""
    used = (arguments.target, arguments.groups)
    places = [
        str(place)
        for place, name in enumerate(header, 1)
        if name in nameless and name not in used and not _is_named(arguments, name)
    ]
    if places:
        several = len(places) > 1
        complain(
            f"warning: column{'s' * several} {', '.join(places)} of "
            f"{arguments.file!r} {'have' if several else 'has'} no name in the first "
            f"line and {'are' if several else 'is'} ignored."
        )


def resolve(
    arguments: argparse.Namespace, header: Sequence[str], nameless: Sequence[str] = ()
) -> Columns:
    """Return the columns as declared, or refuse.

    Parameters
    ----------
    arguments : Namespace
    header : sequence of str
        The file's column names.
    nameless : sequence of str, default=()
        Those among them that the file does not have.
    """
    public, private, _ = roles(arguments, header, nameless)
    features, target = [*public, *private], arguments.target
    declared = {name: arguments.declared.get(name, {}) for name in features}
    given: dict[str, dict] = {}
    for text in arguments.bounds or ():
        name, value = _assignment("--bounds", "COLUMN=LOW:HIGH", text, features, target)
        _add(given, name, "bounds", _pair(text, value))
    for text in arguments.categories or ():
        name, value = _assignment(
            "--categories", "COLUMN=A,B,...", text, features, target
        )
        _add(given, name, "categories", _listed(value, name))
    for name, entry in given.items():
        known = declared[name]
        # Knots of a column that is text now, say, have no meaning any more.
        other_kind = {"bounds", "categories"} & known.keys() - entry.keys()
        declared[name] = entry if other_kind else known | entry
    _require(arguments, private, declared)
    _check_use(arguments, features, private)
    return Columns(
        target,
        tuple(name for name in header if name in features),
        tuple(public),
        declared,
        tuple(arguments.interactions),
    )


def _public(patterns: list[str], features: list[str], target: str) -> list[str]:
    if patterns == ["all"]:
        return features
    public: list[str] = []
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
        public.extend(found)
    return public


def _unknown(option: str, name: str, target: str) -> CommandError:
    if name == target:
        return CommandError(
            f"{option} names the target {name!r} as a column: it is declared by "
            "--classes or --target-bounds."
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


def _add(given: dict, name: str, key: str, value: Any) -> None:
    entry = given.setdefault(name, {})
    if key in entry:
        raise CommandError(f"--{key} declares column {name!r} twice.")
    if entry:
        raise CommandError(
            f"column {name!r} has --bounds and --categories: numbers or text?"
        )
    entry[key] = value


def _pair(text: str, value: str) -> tuple[Any, Any]:
    sides: list[Any] = value.split(":")
    try:
        sides = [float(side) for side in sides]
    except ValueError:
        if re.search(r"\d\d?[./]\d\d?[./]\d\d", value):
            raise CommandError(
                f"--bounds {text!r}: write dates as 2024-12-31, here and in the file."
            ) from None
        if not re.fullmatch(r"\d{4}-\d\d-\d\d:\d{4}-\d\d-\d\d", value):
            sides = []
    if len(sides) != 2:
        raise CommandError(
            f"--bounds {text!r} must have the form COLUMN=LOW:HIGH, two numbers or two "
            "dates."
        )
    found = limits(*sides)
    if found is None:
        raise CommandError(f"--bounds {text!r} must satisfy LOW < HIGH, both finite.")
    return found


def _listed(text: str, name: str) -> tuple[str | int, ...]:
    # As in a CSV file: a category that holds a comma is quoted.
    listed = tuple(next(csv.reader([text], skipinitialspace=True), []))
    if not listed:
        raise CommandError(f"--categories of {name!r} must list at least one value.")
    return tuple(as_numbers([value.strip() for value in listed]))


def _require(
    arguments: argparse.Namespace, private: Sequence[str], declared: dict[str, dict]
) -> None:
    """Refuse private columns of which nothing is declared, without a look at them."""
    missing = [
        name for name in private if not {"bounds", "categories"} & declared[name].keys()
    ]
    if not missing:
        return
    identifiers = [quoted(name) for name in missing if named_as_identifier(name)]
    hint = f", as {' '.join(identifiers)} seems to be" if identifiers else ""
    others = [name for name in missing if not named_as_identifier(name)] or missing
    raise CommandError(
        f"nothing is declared of the private column{'s'[: len(missing) > 1]} "
        f"{', '.join(missing)}, and to learn it from the data would disclose them: "
        f"give --bounds {quoted(others[0] + '=LOW:HIGH')} for numbers and dates or "
        f"--categories {quoted(others[0] + '=A,B,...')} for text, or fill in the "
        f"schema that 'skfdp schema {quoted(arguments.file)}' drafts; --drop what is "
        f"no use or an identifier{hint}."
    )


def quoted(text: str) -> str:
    """Return a word as a shell needs it."""
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
