"""Parts of a data set, known in public, and their parallel composition."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from skfdp.privacy import facts
from skfdp.privacy.events import Event, PrivacyBudgetError
from skfdp.privacy.values import shown


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """Some records of a data set, fixed by their positions or by a public column.

    Where persons are protected a part has to be a union of persons: who has rows in
    two parts spends what both do. Parts know no persons, so that reports assume it.

    Fields are public facts. There is no third kind: whoever could name a part by any
    list of rows could name one that depends on private values.

    Parameters
    ----------
    rows : tuple of (int, int), default=None
        First position and the one after the last, in an order of the whole data set
        that never changes and depends on nothing private: arrival, say.
    column : str or int, default=None
        A public column, as the events name it.
    value : str, default=None
        Its value in all records of the part; numbers are compared as text.

    Raises
    ------
    ValueError
        If it names nobody, so that a charge would count for nobody, or if it names a
        part in two ways.
    """

    rows: tuple[int, int] | None = None
    column: str | int | None = None
    value: str | None = None

    def __post_init__(self) -> None:
        if self.rows is not None:
            proper = self.column is None and self.value is None
            proper = proper and _is_interval(self.rows)
        else:
            proper = _is_name(self.column) and isinstance(self.value, str)
        if not proper:
            raise ValueError(
                f"part with rows={shown(self.rows)}, column={shown(self.column)} and "
                f"value={shown(self.value)} names no records: give either rows, the "
                "first position and the one after the last, or a column and its value "
                "as text."
            )
        if isinstance(self.column, str):
            object.__setattr__(self, "column", facts.spelling(self.column))
        if self.value is not None:
            # Imported ones too: 1, "1" and "01" are the same records.
            object.__setattr__(self, "value", _canonical(self.value))

    @classmethod
    def of(
        cls,
        rows: range | None = None,
        column: str | int | None = None,
        value: str | int | None = None,
    ) -> Part:
        """Return the part that a caller means, or say what is wrong with it.

        Parameters
        ----------
        rows : range, default=None
            Positions with step 1.
        column, value
            A public column and its value there; instead of rows.
        """
        if (rows is None) == (column is None) or (column is None) != (value is None):
            raise ValueError(
                f"rows={shown(rows)}, column={shown(column)} and value={shown(value)} "
                "must name one part: give either rows, or a public column and its "
                "value."
            )
        if rows is not None:
            proper = isinstance(rows, range) and rows.step == 1
            if not proper or not 0 <= rows.start < rows.stop:
                raise ValueError(
                    f"rows={shown(rows)} must be a range of positions with step 1, "
                    "such as range(0, 1000): other choices of rows may depend on "
                    "private values."
                )
            return cls(rows=(rows.start, rows.stop))
        value = facts.plain(value)
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise ValueError(
                f"value={shown(value)} must be a str or an int, the value that column "
                f"{shown(column)} has in every record of the part."
            )
        return cls(column=facts.plain(column), value=str(value))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Part:
        """Rebuild a part from `dataclasses.asdict`; ValueError if it is not one."""
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(values, Mapping) or set(values) != names:
            raise ValueError(
                f"part {shown(values)} must have the fields {sorted(names)}: pass what "
                "skfdp wrote, and upgrade if it was written by a newer version."
            )
        rows = values["rows"]
        return cls(**{**values, "rows": tuple(rows) if type(rows) is list else rows})

    def __str__(self) -> str:
        if self.rows is not None:
            return f"rows {self.rows[0]} to {self.rows[1] - 1}"
        return f"records with {self.column} = {self.value}"

    def check_column(
        self, columns: Sequence[tuple[str | int, bool]], read: Callable[[int], Any]
    ) -> None:
        """Raise PrivacyBudgetError if a row has another value in the public column.

        Parameters
        ----------
        columns : sequence of (str or int, bool)
            Name of each column of a table, and whether it is public.
        read : callable
            Returns the values of a column, given its position. It is called for a
            public column only.
        """
        names = [name for name, _ in columns]
        if self.column not in names:
            raise PrivacyBudgetError(
                f"part ({self}) is fixed by a column that X does not have, so that no "
                "row can be compared: keep it in X, among public_features."
            )
        position = names.index(self.column)
        if not columns[position][1]:
            raise PrivacyBudgetError(
                f"part ({self}) is fixed by a column that this fit treats as private: "
                "name it in public_features."
            )
        values = {str(facts.plain(value)) for value in read(position)}
        if any(_canonical(value) != self.value for value in values):
            raise PrivacyBudgetError(
                f"part ({self}) does not hold every row of this fit: a row has another "
                f"value in column {self.column!r}; fit the rows of the part alone."
            )

    def holds(self, other: Part) -> bool:
        """Whether the first record of another part of the same kind is in this one."""
        if self.rows is None or other.rows is None:
            return self.value == other.value
        return self.rows[0] <= other.rows[0] < self.rows[1]


def check_parts(parts: Iterable[Part | None]) -> None:
    """Raise PrivacyBudgetError unless the parts are of one kind.

    Between rows and columns, or between two columns, nobody can tell from the names
    which records are in both.
    """
    kinds = {
        "by rows" if part.rows is not None else f"by column {part.column!r}"
        for part in parts
        if part is not None
    }
    if len(kinds) > 1:
        raise PrivacyBudgetError(
            f"a data set is split in one way, not {' and '.join(sorted(kinds))}: "
            "charge the whole data set instead."
        )


def check_part(
    part: Part | None,
    events: Iterable[Event],
    public: Collection[object],
    n_rows: int | None = None,
) -> None:
    """Raise PrivacyBudgetError if the table cannot be the part, or its column private.

    Parameters
    ----------
    part : Part or None
    events : iterable of Event
    public : collection
        The public set.
    n_rows : int, default=None
        Public number of rows of the table, also where persons are protected. None
        skips the check.
    """
    if part is None:
        return
    if part.rows is not None and n_rows is not None:
        wanted = part.rows[1] - part.rows[0]
        if n_rows != wanted:
            raise PrivacyBudgetError(
                f"part ({part}) has {wanted} rows, and the table of this fit has "
                f"{n_rows}: fit these rows alone, or charge the whole data set."
            )
    for event in events:
        if not event.relation.counts_are_public:
            raise PrivacyBudgetError(
                f"part ({part}) needs a relation under which something is public, not "
                "'add_or_remove_one', where a new record would move the others: "
                "charge the whole data set."
            )
        if part.column is not None and part.column not in public:
            raise PrivacyBudgetError(
                f"part ({part}) is not fixed by a public column: column "
                f"{part.column!r} is not in the public set; declare it there, or "
                "charge the whole data set."
            )


def together(parts: Sequence[Part | None]) -> tuple[tuple[int, ...], ...]:
    """Return the largest sets of parts that have a record in common.

    Parameters
    ----------
    parts : sequence of Part or None
        Of one kind; None is the whole data set.

    Returns
    -------
    groups : tuple of tuple of int
        Positions in `parts`. Every record is in the parts of a subset of one of them.

    Notes
    -----
    Intervals that share a point share the first point of the one that begins last.
    """
    markers = dict.fromkeys(part for part in parts if part is not None)
    groups = {
        tuple(
            position
            for position, part in enumerate(parts)
            if part is None or part.holds(marker)
        )
        for marker in markers
    } or {tuple(range(len(parts)))}
    sets = {group: frozenset(group) for group in groups}
    return tuple(
        sorted(
            group
            for group in groups
            if not any(sets[group] < other for other in sets.values())
        )
    )


def _is_interval(rows: Any) -> bool:
    """Whether rows are (first position, one after the last), and not empty."""
    if not isinstance(rows, tuple) or [type(row) for row in rows] != [int, int]:
        return False
    return 0 <= rows[0] < rows[1]


def _is_name(column: Any) -> bool:
    return isinstance(column, str | int) and not isinstance(column, bool)


def _canonical(value: str) -> str:
    """Return one spelling of a number or truth value, and other text trimmed.

    What has one spelling counts as the same records, which is the safe side.
    """
    value = facts.spelling(value)
    value = {"true": "1", "false": "0"}.get(value.casefold(), value)
    try:
        number = float(value)
    except ValueError:
        return value
    if not math.isfinite(number):
        return value
    return str(int(number)) if number.is_integer() else repr(number)
