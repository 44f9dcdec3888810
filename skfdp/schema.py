"""Schemas: declare the columns of a table, their ranges, and which are public.

Drafts of schemas and error messages use only the names and the stored types of private
columns. A private value does not affect how other values are converted.
"""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import json
import os
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from skfdp.addresses import wing
from skfdp.data._basis import Block, placed
from skfdp.data.arrays import (
    NAMED_TARGET,
    check_names,
    check_table,
    column_labels,
    one_column,
    raw_column,
)
from skfdp.data.cells import Coded, Columns, exact, objects, type_kind
from skfdp.data.column_types import (
    TYPES,
    Boolean,
    Category,
    Column,
    Date,
    Ignore,
    Label,
    Number,
    SchemaError,
    Unknown,
    column_of,
    filled,
    pandas_for,
    unknown_entry,
)
from skfdp.data.encoder import DeclaredEncoder
from skfdp.data.target import spelling_of, text_of
from skfdp.data.validation import (
    UtilityWarning,
    check_choice,
    check_number,
    warn_caller,
)
from skfdp.privacy.checks import plain, shown
from skfdp.privacy.checks import text as checked_text

__all__ = [
    "Boolean",
    "Category",
    "Column",
    "Date",
    "Ignore",
    "Label",
    "Number",
    "SchemaError",
    "Unknown",
]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TableSchema:
    """Schema of a table: types and ranges of columns, public parts, and persons.

    A schema is immutable and hashable. Schemas with the same content are equal.

    Parameters
    ----------
    columns : mapping from str to column type
        Types of the columns by name, in the order of the encoded columns. Types are in
        `skfdp.schema`: `Number`, `Category`, `Date`, `Boolean`, `Label`, `Ignore`.
        Columns are selected by name, so a table may have further columns, in any order.
    outcomes : list of str, default=()
        Columns that models predict. They are never features.
    group : str, default=None
        The column with the person of each row: all rows of a person are protected
        together. It is not a feature and needs no type.
    exposure : str, default=None
        The `Number` over which the outcome of a row was counted or summed, such as
        days. It is not a feature: regressors with a log link divide the outcome by it
        (:ref:`exposure`). Rows without an exposure above 0 add nothing.
    max_rows_per_group : int, default=None
        Largest number of rows of a person. A fit leaves out further rows of the person.
    missing : list, default=("",)
        Cells that count as missing, as text or numbers, such as ``["", "NA", -200]``.
        Empty cells are always missing.
    decimal, thousands : str, default=".", None
        Decimal and thousands separators of numbers in text. Numbers in another form are
        unreadable.
    delimiter, encoding : str, default=",", "utf-8"
        Delimiter and encoding of CSV files.
    skip_lines : int, default=0
        Number of lines of a CSV file before the line of names.
    interactions : {"auto", "pairs", None}, default="auto"
        Whether linear models of a private target have interactions of columns beside
        the effects of single columns. "auto": if the budget is large enough for the
        number of records (:ref:`interactions`). "pairs": with smaller budgets, too; a
        fit that cannot have interactions is refused.
    declared_by : str, default=None
        Name of a file from another source, from which the declarations come.

    Attributes
    ----------
    features : tuple of str
        The input columns of models.
    questions : tuple of str
        Properties that are not declared yet.

    Notes
    -----
    **Guarantees.** `draft`, `check` and all messages depend only on names, stored
    types, declarations and public columns. Each private value is converted separately,
    by the declaration of its column, and does not affect other values or types. Only in
    a CSV file can a cell with an open quote or a carriage return move other cells.

    Examples
    --------
    >>> from skfdp import TableSchema
    >>> from skfdp.schema import Category, Label, Number
    >>> schema = TableSchema(
    ...     {"age": Number(17, 90, public=True), "sex": Category(["F", "M"]),
    ...      "ill": Label([0, 1])},
    ...     outcomes=["ill"],
    ...     group="patient",
    ... )
    >>> schema
    TableSchema(3 columns, 1 public, group='patient')
    """

    columns: Mapping[str, Any]
    _: dataclasses.KW_ONLY
    outcomes: Sequence[str] = ()
    group: str | None = None
    exposure: str | None = None
    max_rows_per_group: int | None = None
    missing: Sequence = ("",)
    decimal: str = "."
    thousands: str | None = None
    delimiter: str = ","
    encoding: str = "utf-8"
    skip_lines: int = 0
    interactions: str | None = "auto"
    declared_by: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping):
            raise SchemaError(
                f"columns={shown(self.columns)} must be a mapping from names to types, "
                "such as {'age': Number(17, 90)}."
            )
        vars(self).update({name: plain(value) for name, value in vars(self).items()})
        vars(self).update(
            columns=MappingProxyType(dict(self.columns)),
            outcomes=names_of("outcomes", self.outcomes),
            group=self.group or None,
            exposure=self.exposure or None,
            missing=Category(missing=self.missing).missing,
            decimal=self.decimal or ".",
            thousands=self.thousands or None,
            interactions=self.interactions or None,
        )
        try:
            self._check()
            spelling_of(Unknown().gone(self), "missing")
            for name, column in self.columns.items():
                spelling_of(column.gone(self), f"missing of {name!r}")
                column.check(name, name in self.outcomes)
            for name in (*self.outcomes, *self._exposure):
                if not self.columns[name].question:
                    self.columns[name].blocks(name, 0, False)
            self.blocks()
        except SchemaError:
            raise
        except ValueError as error:  # depends on declarations only
            raise SchemaError(str(error)) from None

    def _check(self) -> None:
        for text in (*self.columns, self.group, self.delimiter, self.declared_by):
            if isinstance(text, str):
                checked_text("the schema", text)
        for name, column in self.columns.items():
            if not (isinstance(name, str) and isinstance(column, Column)):
                raise SchemaError(
                    f"columns[{shown(name)}]={shown(column)} must map a name to a type "
                    "of skfdp.schema, such as Number(17, 90)."
                )
        for name in self.outcomes:
            if not self._type(name).may_be_outcome:
                raise SchemaError(
                    f"outcomes names {name!r}, which must be a column of type Label, "
                    "Boolean or Number."
                )
        if self._type(self.group).is_feature:
            raise SchemaError(
                f"group={self.group!r} is declared as a column, but must not be a "
                "feature: leave it out of the columns."
            )
        for name in self._exposure:
            column, known = self._type(name), (*self.outcomes, self.group)
            low = column.bounds[0] if isinstance(column, Number) else -1.0
            if name in known or (isinstance(low, float) and low < 0):
                raise SchemaError(
                    f"exposure={shown(name)} must be a column of type Number with "
                    "bounds of at least 0, and neither an outcome nor the group."
                )
        most = self.max_rows_per_group
        check_number("max_rows_per_group", most, integral=True, also=(None,))
        if most is not None and self.group is None:
            raise SchemaError(
                f"max_rows_per_group={most} needs a group: declare group=..., or leave "
                "it out."
            )

        check_choice("interactions", self.interactions, ("auto", "pairs", None))
        check_choice("decimal", self.decimal, (".", ","))
        known = (None, ".", ",", " ", "'", "’", "_", "\xa0", "\u202f")
        check_choice("thousands", self.thousands, known)
        if self.decimal == self.thousands:
            raise SchemaError(
                f"decimal={self.decimal!r} is also thousands, so that numbers would be "
                "ambiguous: declare different separators."
            )
        check_number("skip_lines", self.skip_lines, integral=True, include_low=True)
        mark = self.delimiter
        if not (isinstance(mark, str) and len(mark) == 1) or (
            mark.isalnum() or mark in "\"'.\n\r"
        ):
            raise SchemaError(
                f"delimiter={shown(mark)} must be one character, such as ';'."
            )
        try:
            codecs.lookup(self.encoding)
        except (LookupError, TypeError, ValueError):
            raise SchemaError(
                f"encoding={shown(self.encoding)} is not known: use 'utf-8', 'latin1', "
                "'cp1252' or 'utf-16', for example."
            ) from None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"columns": dict(self.columns)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, columns=MappingProxyType(dict(state["columns"])))

    @property
    def _content(self) -> str:
        """Text of all fields, for comparisons; as text, 1 and True differ."""
        return repr(self.__getstate__())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TableSchema):
            return NotImplemented
        return self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    def __deepcopy__(self, memo: dict | None = None) -> TableSchema:
        return self

    __copy__ = __deepcopy__

    def __repr__(self) -> str:
        n_public = sum(column.public for column in self.columns.values())
        group = f", group={self.group!r}" if self.group else ""
        return f"TableSchema({len(self.columns)} columns, {n_public} public{group})"

    @property
    def features(self) -> tuple[str, ...]:
        """The input columns of models."""
        return tuple(
            name
            for name, column in self.columns.items()
            if name not in (*self.outcomes, *self._exposure) and column.is_feature
        )

    @property
    def _exposure(self) -> tuple[str, ...]:
        return () if self.exposure is None else (self.exposure,)

    @property
    def _named(self) -> list[str]:
        group = [self.group] if self.group else []
        return [*self.features, *self.outcomes, *group, *self._exposure]

    @property
    def questions(self) -> tuple[str, ...]:
        """Properties that are not declared yet."""
        open_ones = {n: c.question for n, c in self.columns.items() if c.question}
        return tuple(f"{what} of {name!r}" for name, what in open_ones.items())

    def _check_complete(self) -> None:
        if self.questions:
            raise SchemaError(
                f"the schema is not complete: declare {'; '.join(self.questions)}. Use "
                "what you know in advance, not private rows; to leave out a column, "
                'declare Ignore(), or type = "ignore" in a file.'
            )

    # Methods for estimators.

    def outcome(self, target: str | None = None, y: Any = None) -> str:
        """Return the name of the outcome that y holds.

        Parameters
        ----------
        target : str, default=None
            Name of the outcome. None: the name of y, or the only outcome of the schema
            if y has no name.
        y : array-like, default=None
        """
        named = target if target is not None else getattr(y, "name", None)
        if named is None and len(self.outcomes) == 1:
            return self.outcomes[0]
        if named in self.outcomes:
            return str(named)
        given = f"target={shown(target)}"
        if target is None:
            given = f"y, which is named {shown(named)}," if named else "the target"
        listed = ", ".join(map(repr, self.outcomes)) or "none"
        raise SchemaError(
            f"{given} must name an outcome of the schema, which has {listed}: pass "
            "target=..., or declare the columns to predict."
        )

    def encoder(self) -> DeclaredEncoder:
        """Return the unfitted encoder of the features."""
        self._check_complete()
        return DeclaredEncoder(self)

    def blocks(self, smooth: bool = False) -> tuple[Block, ...]:
        """Return the blocks of encoded columns, in the order of the features.

        `smooth` is whether an estimator smooths the curves.
        """
        found: list[Block] = []
        for place, name in enumerate(self.features):
            column = self.columns[name]
            found += [] if column.question else column.blocks(name, place, smooth)
        names = [name for block in found for name in block.feature_names]
        for one in [block.name for block in found], names:
            twice = [name for name, times in Counter(one).items() if times > 1]
            if twice:
                raise SchemaError(
                    f"two encoded columns or blocks would have the name {twice[0]!r}: "
                    "rename a column or a category."
                )
        return placed(found)

    def check_features(self, table: Any) -> None:
        """Refuse a table that lacks a feature; no value is read."""
        self._check_complete()
        OpenTable.of(table, self).check_has(self.features)

    @property
    def public(self) -> tuple[str, ...]:
        """The features that are public."""
        return tuple(n for n in self.features if self.columns[n].public)

    def parameters(self, target: str | None = None, y: Any = None) -> dict[str, Any]:
        """Return the declarations that a fit of an outcome needs, as a dict.

        `target` and `y` have the same meaning as in the method `outcome`.
        """
        name = self.outcome(target, y)
        column = self.columns[name]
        return {
            "public_features": list(self.public) or None,
            "public_target": bool(column.public),
            "target_name": name,
            "max_rows_per_group": self.max_rows_per_group,
            "target_bounds": column.bounds or None,
            "classes": list(column.values),
        }

    def groups(self, table: Any, given: Any = None) -> Any:
        """Return the person of each row, or None if each row is a record.

        `given` is the `groups` argument of a fit: persons, or the name of their column.
        """
        by_name = given is None or isinstance(given, str)
        named = given if isinstance(given, str) else self.group
        names = list(map(str, column_labels(table)))
        if named is None or not (by_name or named in names):
            return given
        if named in self.features:
            raise SchemaError(
                f"groups={named!r} names a feature of the schema: leave this column "
                "out of the schema."
            )
        if named not in names:
            raise SchemaError(
                f"X has no column {named!r} with the person of each row: pass this "
                "column in X, or the persons as groups; otherwise the rows of a person "
                "would be protected separately."
            )
        own = self.converted(named, raw_column(table, names.index(named)))[0]
        if not (by_name or np.array_equal(np.asarray(given, dtype=object), own)):
            raise SchemaError(
                f"groups and the column {named!r} of X differ: pass one of them."
            )
        return own

    def exposures(self, table: Any) -> np.ndarray | None:
        """Return the exposure of each row; None if the schema declares none.

        It is NaN if it is missing or not above 0. A private one is clipped to its
        bounds, and rounded to a multiple of 2**-24 of their width that is above 0.
        """
        if self.exposure is None:
            return None
        column, (name,) = self.columns[self.exposure], self._exposure
        found = self.converted(name, OpenTable.of(table, self).columns([name])[name])[0]
        found = np.where(np.isfinite(found) & (found > 0), found, np.nan)
        if column.public:
            return found
        low, high = column.bounds
        steps = np.rint((np.clip(found, low, high) - low) / (high - low) * 2**24)
        return low + np.maximum(steps, low == 0) * (high - low) * 2.0**-24

    def read_outcome(self, name: str, y: Any, typed: bool = True) -> Any:
        """Convert y as `read` does; with `typed`, refuse types that hold no label."""
        if isinstance(y, (str, bytes)):
            raise SchemaError(NAMED_TARGET)
        raw = one_column(y)
        if not hasattr(raw, "__len__") or getattr(raw, "ndim", 1) != 1:
            raise SchemaError("y should be a 1d array of labels or real numbers.")
        if isinstance(raw, (list, tuple)):
            raw = objects(raw)
        for fails, sentence in self._misfits(name, type_kind(raw)) if typed else ():
            if fails:
                raise SchemaError(f"y, the {sentence}")
        return self.converted(name, raw)[0]

    # Tables.

    def read(self, table: Any) -> Any:
        """Return the declared columns of a table, converted to their declared types.

        Numbers become float64 and dates datetime64, or missing values. Cells of
        categories are unchanged, and labels of outcomes become the declared ones.
        Stored types do not matter. A `UtilityWarning` reports unreadable public values.

        Parameters
        ----------
        table : DataFrame, Table, str or Path
            A table of pandas, polars or pyarrow, or the path of a Parquet, Arrow or CSV
            file.

        Returns
        -------
        table : DataFrame
            The features, and the outcomes, the group and the exposure that the table
            has.
        """
        source = OpenTable.of(table, self)
        known = [*self.features, *source.names]
        return self._typed(source, [name for name in self._named if name in known])

    def select(self, table: Any, *, coded: bool = False, typed: bool = True) -> Any:
        """Return the features, converted as by `read`; as `Columns` with `coded`.

        With `typed`, refuse stored types that cannot hold the declared categories, and
        warn about other unusual types.
        """
        source = OpenTable.of(table, self)
        if typed:
            source.check_has(inputs := [*self.features, *self._exposure])
            for name in inputs:
                for fails, sentence in self._misfits(name, source.kind(name)):
                    if fails:
                        raise SchemaError(sentence)
                    warn_caller(sentence, UtilityWarning)
        return self._typed(source, self.features, coded)

    def split(self, table: Any, target: str | None = None) -> tuple[Any, Any]:
        """Return X (the features, the group and the exposure) and y (an outcome).

        The columns are converted as by `read`. `target` is the name of the outcome, as
        in `outcome`.
        """
        name = self.outcome(target)
        others = [one for one in self._named if one not in self.outcomes]
        found = self._typed(OpenTable.of(table, self), [*others, name])
        return found.drop(columns=name), found[name]

    def _typed(
        self, source: OpenTable, names: Sequence[str], coded: bool = False
    ) -> Any:
        self._check_complete()
        source.check_has(names)
        raw, index = source.columns(names), source.index
        if coded:
            n_rows = len(next(iter(raw.values()), () if index is None else index))
            return Columns([*raw.items()], n_rows, partial(self._read, coded=True))
        found = {name: self._read(name, column) for name, column in raw.items()}
        pandas = pandas_for()
        for name, values in found.items():
            # pandas would convert an array of objects, but not a Series.
            if values.dtype != np.float64:
                found[name] = pandas.Series(values, dtype=values.dtype)
        rows = pandas.DataFrame(found, columns=list(names))
        return rows if index is None else rows.set_axis(index)

    def _read(self, name: str, raw: Any, coded: bool = False) -> Any:
        """Return the typed cells of a column; warn about unreadable public ones."""
        found, lost = self.converted(name, raw, coded)
        if self._type(name).public and lost.any():
            lost = lost[found.codes] if isinstance(found, Coded) else lost
            warn_caller(self._count(name, raw, lost), UtilityWarning)
        return found

    def _type(self, name: str) -> Any:
        return self.columns[name] if name in self.columns else Ignore()

    def converted(
        self, name: str, raw: Any, coded: bool = False
    ) -> tuple[Any, np.ndarray]:
        """Return the typed cells of a column, and a mask; see `Column.read`.

        For the group column the mask marks the missing cells.
        """
        return self._type(name).read(raw, self, name in self.outcomes, coded)

    def check(self, table: Any) -> list[str]:
        """Return sentences on problems of a table, without reading private values.

        Problems are properties that are not declared yet, missing columns, stored types
        that do not fit the declaration, and unreadable values of public columns.

        Parameters
        ----------
        table : DataFrame, Table, str or Path
            A table, or the path of a Parquet, Arrow or CSV file.
        """
        found = [f"not declared yet: {question}." for question in self.questions]
        source = OpenTable.of(table, self)
        try:
            source.check_has(self._named)
        except SchemaError as error:
            found.append(str(error))
        for name in source.names:
            misfits = self._misfits(name, source.kind(name))
            found += [sentence for _, sentence in misfits]
        public = [
            n for n in source.names if self._type(n).public and self._type(n).read_as
        ]
        for name, raw in source.columns(public).items():
            lost = self.converted(name, raw)[1]
            if lost.any():
                found.append(self._count(name, raw, lost))
        return found

    def _misfits(self, name: str, kind: str) -> Iterator[tuple[bool, str]]:
        """Yield why a stored type does not fit, and whether it fits no declared level.

        `kind` is that of `type_kind`.
        """
        column = self._type(name)
        held = (
            f"column {name!r} is declared as {column.read_as}, but its stored type "
            f"holds {_HOLDS.get(kind, f'{kind}s')}"
        )
        if (why := column.misfit(kind)) is not None:
            yield (
                True,
                f"{held}: {why}; read the column as text, or declare the numbers that "
                "it holds.",
            )
        if kind in column.unreadable:
            counted = column.axis == "date" and kind in ("integer", "number")
            hint = ": declare format='%Y%m%d' if 20240131 is a date" * counted
            yield False, f"{held}{hint}."

    def _count(self, name: str, raw: Any, lost: np.ndarray) -> str:
        return (
            f"public column {name!r}: {lost.sum()} of {len(lost)} values cannot be "
            f"read as {self._type(name).read_as}, such as {shown(exact(raw)[lost][0])}."
        )

    # Files.

    @classmethod
    def draft(
        cls,
        table: Any,
        public: Any = (),
        *,
        outcomes: Sequence[str] = (),
        group: str | None = None,
        header: bool = False,
        **form: Any,
    ) -> TableSchema:
        """Return a draft of a schema, whose `questions` list what must be declared.

        A draft uses names, the stored types of a frame, Parquet or Arrow file, and
        public values. A CSV file stores no types, so its private columns are `Unknown`.
        A `UtilityWarning` reports unusual public columns.

        Parameters
        ----------
        table : DataFrame, Table, str or Path
            A table, or the path of a Parquet, Arrow or CSV file.
        public : "all", str or list of str, default=()
            Names or patterns of columns that may be disclosed. "all" means every column
            except the outcomes and the group.
        outcomes : list of str, default=()
        group : str, default=None
        header : bool, default=False
            Whether the first line of a CSV file surely holds names. By default it may
            be a record, and is refused, if a word begins with a digit or has four
            digits, a name is repeated, most are empty, the only name has several words,
            or a name holds a delimiter.
        **form : dict
            Format of a CSV file, as in `TableSchema`: `delimiter`, `decimal`,
            `thousands`, `encoding` and `skip_lines`.
        """
        who = {"outcomes": outcomes, "group": group, "header": header}
        return wing("files").drafted(table, public, **who, **form)

    @classmethod
    def load(cls, path: str | os.PathLike) -> TableSchema:
        """Read a schema from a file.

        Parameters
        ----------
        path : str or Path
            A file written by `save`, or a ``tableschema.json`` of the Frictionless
            standard.
        """
        kind = "JSON" if suffix_of(path) == ".json" else "TOML"
        try:
            text = Path(path).read_bytes().decode("utf-8-sig")
            found = (json if kind == "JSON" else tomllib).loads(text)
        except OSError as error:
            raise SchemaError(f"cannot read {str(path)!r}: {error.strerror}.") from None
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"{str(path)!r} is not a {kind} file: {error}.") from None
        return _from_properties(found, str(path))

    def save(self, path: str | os.PathLike) -> None:
        """Write the schema to a TOML file, with names of the Frictionless standard."""
        Path(path).write_text(self.to_toml(), encoding="utf-8")

    def to_toml(self) -> str:
        """Return the schema as TOML text, as written by `save`."""
        lines = [_TITLE]
        for key, (name, comment) in _SETTINGS.items():
            value = getattr(self, name)
            if key not in _RARE or value != getattr(TableSchema, name):
                lines += ["\n[dialect]"] * (key == "delimiter")
                text = _toml([value + 1] if key == "headerRows" else value)
                more = f"  # {comment}" * bool(comment and not value)
                lines.append(f"{key} = {text}{more}")
        lines.append("\n[fields]")
        for name in self.columns:
            key = name if re.fullmatch("[A-Za-z0-9_-]+", name) else _toml(name)
            lines.append(f"{key} = {_entry(self, name)}")
        return "\n".join(lines) + "\n"


def names_of(parameter: str, given: Any) -> tuple[str, ...]:
    found = (given,) if isinstance(given, str) else tuple(given)
    if len(set(found)) < len(found) or not all(isinstance(n, str) for n in found):
        raise SchemaError(f"{parameter}={shown(given)} must be a list of unique names.")
    return found


_HOLDS = {"other": "neither numbers nor dates nor text", "complex": "complex numbers"}


def suffix_of(path: str | os.PathLike) -> str:
    return Path(path).suffix.lower()


class OpenTable:
    """A table with its `names` and stored types; columns are read on demand.

    `rows` is a frame with these types. ``read(names)`` returns a frame with these
    columns; None: they are in `rows`. `is_file` is whether it is a file, `place` the
    table's name in messages, and `nameless` are the names that pandas gave to columns
    of a CSV file without a name.
    """

    def __init__(
        self,
        rows: Any,
        read: Callable[[list[str]], Any] | None = None,
        is_file: bool = False,
        place: str = "the table",
        nameless: Sequence[str] = (),
    ):
        check_names(rows)
        self._rows, self._read, self._columns = rows, read, {}
        self.names = [*map(str, column_labels(rows))]
        self.is_file, self.place, self.nameless = is_file, place, nameless
        #: The index of a pandas frame.
        self.index = rows.index if hasattr(rows, "iloc") and not is_file else None

    @classmethod
    def of(cls, table: Any, schema: TableSchema) -> OpenTable:
        """Return a table as an `OpenTable`; `schema` has the format of CSV files."""
        if isinstance(table, (str, os.PathLike)):
            return wing("files").opened_file(table, schema)
        return table if isinstance(table, cls) else cls(check_table(table))

    def columns(self, names: Iterable[str]) -> dict[str, Any]:
        """Return raw columns, which are not converted, by name."""
        names = list(names)
        if self._read is None:
            return {name: self._column(name) for name in names}
        rows = self._read(names)
        return {name: raw_column(rows, place) for place, name in enumerate(names)}

    def _column(self, name: str) -> Any:
        if name not in self._columns:  # pandas takes long, above all by position
            rows, place = self._rows, self.names.index(name)
            named = hasattr(type(rows), "iloc") and name in rows.columns
            self._columns[name] = rows[name] if named else raw_column(rows, place)
        return self._columns[name]

    def kind(self, name: str) -> str:
        """Return the kind of a column's stored type, as `type_kind` does."""
        return type_kind(self._column(name))

    def check_has(self, names: Iterable[str]) -> None:
        """Refuse a table without these columns; do not reveal its other names."""
        absent = [name for name in names if name not in self.names]
        if not absent:
            return
        near = {plain_text(name).casefold() for name in self.names}
        close = [name for name in absent if plain_text(name).casefold() in near]
        hint = "check the spelling, or pass a table with all columns"
        if close:
            hint = f"rename the column that differs from {close[0]!r} in case or spaces"
        raise SchemaError(
            f"{self.place} lacks the column{'s'[: len(absent) > 1]} {', '.join(absent)}"
            f": {hint}."
        )


def plain_text(text: str) -> str:
    """Normalise a text, and remove quotes and spaces around it."""
    text = unicodedata.normalize("NFKC", text.removeprefix("ï»¿"))
    return " ".join(text.split()).strip(" '\"’`=\ufeff")


# Schema files: TOML, with the property names of the Frictionless Table Schema.

_TITLE = """\
# Schema of a table: known ranges, and public columns. Fill in the empty places from
# what you know in advance, not from private values: this file would disclose them.
# Numbers and dates (2024-01-31) need minimum and maximum; text and codes need enum, the
# list of possible values. type = "ignore" leaves a column out. Optional: public = true,
# missingValues, basis = "linear", knots, spacing, cyclic; for dates format =
# "%d.%m.%Y", for booleans trueValues and falseValues."""
_SETTINGS = {
    "outcomes": ("outcomes", "the columns to predict"),
    "group": ("group", "column of persons, if a person may have several rows"),
    "exposure": ("exposure", ""),
    "maxRowsPerGroup": ("max_rows_per_group", ""),
    "missingValues": ("missing", ""),
    "decimalChar": ("decimal", ""),
    "groupChar": ("thousands", "thousands mark"),
    "encoding": ("encoding", ""),
    "interactions": ("interactions", "none"),
    "declaredBy": ("declared_by", ""),
    "delimiter": ("delimiter", ""),  # this and the next are of the dialect
    "headerRows": ("skip_lines", ""),
}
#: Settings that a file contains only if they differ from their defaults.
_RARE = ("exposure", "maxRowsPerGroup", "interactions", "declaredBy")


def _entry(schema: TableSchema, name: str) -> str:
    column = schema.columns[name]
    kind = type(column)
    if TYPES.get(column.type) is not kind:
        raise SchemaError(
            f"column {name!r} is of the type {kind.__name__}, which has no name in "
            f"files: declare class {kind.__name__}(..., type='a name')."
        )
    text = _toml(column.properties())
    if kind.__module__ == __name__:
        return text
    with contextlib.suppress(Exception):  # a user's type, with any fields
        entry = tomllib.loads(f"entry = {text}")["entry"]
        if column_of(entry, name in schema.outcomes, "", True) == column:
            return text
    raise SchemaError(
        f"column {name!r} has fields that a file cannot hold: use text, numbers, "
        "booleans, and lists of these."
    )


def _toml(value: Any) -> str:
    """Return a value as TOML; texts, whole numbers and booleans as in JSON."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{k} = {_toml(v)}' for k, v in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float):
        return repr(value)
    text = "" if value is None else value
    text = json.dumps(text, ensure_ascii=False, default=text_of)  # dates and bytes
    return text.replace("\x7f", "\\u007f")


def _from_properties(found: Any, path: str) -> TableSchema:
    """Build a schema from the content of a file.

    Unknown entries are refused in a TOML file, and ignored in a JSON file.
    """
    own = suffix_of(path) != ".json"
    try:
        given: dict[str, Any] = {} if own else {"declared_by": Path(path).name}
        fields = found.pop("fields")
        if isinstance(fields, list):
            names = [field["name"] for field in fields]
            if len({*names}) < len(names):
                raise SchemaError(f"{path!r} has two fields of one name: rename one.")
            fields = dict(zip(names, fields, strict=True))
        if own:
            found |= found.pop("dialect", {})
        else:  # the standard has these marks in each field
            for key in ("decimalChar", "groupChar"):
                marks = {field[key] for field in fields.values() if key in field}
                if len(marks) > 1:
                    raise SchemaError(
                        f"{path!r} has fields with different {key}: declare the same "
                        f"{key} for all fields."
                    )
                found |= dict.fromkeys([key] * len(marks), *marks)
        for key, value in found.items():
            if own and key not in _SETTINGS:
                raise unknown_entry(path, key, (*_SETTINGS, "dialect", "fields"))
            if key == "headerRows":
                (line,) = value
                check_number(key, line, integral=True)
                value = line - 1
            kept = filled({key: value}).get(key, "")
            if key in _SETTINGS and (kept != "" or key == "interactions"):
                given[_SETTINGS[key][0]] = kept
        outcomes = given.get("outcomes", ())
        columns = {
            name: column_of(entry, name in outcomes, f"{name!r} in {path!r}", own)
            for name, entry in fields.items()
        }
        return TableSchema(columns, **given)
    except SchemaError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SchemaError(
            f"{path!r} is not a schema of one table, or has a value of a wrong type: "
            f"{str(error).rstrip('.')}."
        ) from None
