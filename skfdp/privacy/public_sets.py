"""The guarantee of a composition of events: relation, privacy unit and public set."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from skfdp.addresses import public
from skfdp.privacy import checks
from skfdp.privacy.checks import shown
from skfdp.privacy.events import Event, Nameless, PrivacyBudgetError

# Largest number of names that a message lists; it counts further names.
_LISTED = 5

#: A member of a public set: a name, a position, or a target without a name.
Disclosed = str | int | Nameless


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True)
class Guarantee:
    """The guarantee of a composition: its relation, privacy unit and public set.

    Attributes
    ----------
    neighboring_relation : str
    unit : {"record", "person"}
        The privacy unit: one record, or all records of one person.
    public : frozenset of str, int or Nameless
        The names of the columns and targets that are not protected; for columns without
        a name the positions. Everything else is protected.
    """

    neighboring_relation: str
    unit: str
    public: frozenset[Disclosed]


def composed_guarantee(
    events: Iterable[Event], public: Collection[Disclosed] | None = None
) -> Guarantee:
    r"""Return the guarantee of the composition of all events, or raise an error.

    Parameters
    ----------
    events : iterable of Event
        At least one.
    public : collection, default=None
        The public set of the composition, declared beforehand. None takes the largest
        public set of an event, which must then contain the public sets of all other
        events.

    Returns
    -------
    guarantee : Guarantee

    Raises
    ------
    PrivacyBudgetError
        If relations or units differ, or if an event discloses more than the public set.

    Notes
    -----
    **Guarantees.** A record is a row of one table, whose columns have names. The row of
    X and the target that a fit uses are functions of the record. Let event j disclose
    the columns :math:`D_j` of every record, and let the public set P contain all
    :math:`D_j`. Neighbours under P are tables that agree in the columns P of every
    record, and differ outside P in one record. For such neighbours the composed privacy
    curve bounds all releases of the events together with the disclosed columns.

    * ``"replace_one"``: neighbours under P agree in :math:`D_j`, and in every function
      of :math:`D_j` alone. So as inputs of event j they are neighbours under
      :math:`D_j`, or equal. Hence the curve of event j bounds the release of event j
      given all earlier releases, and adaptive composition bounds all releases together.
      The disclosed columns are equal in both tables.
    * ``"replace_special"``: the curve of event j compares two releases. One is the
      release on the table. In the other, the record contributes only :math:`D_j`. This
      second release depends on the other records and on :math:`D_j \subseteq P`, but
      not on the record's values outside P. So the composition compares all releases
      with releases that do not use these values, as the relation demands. To make a
      record null, a fit marks it and replaces no value: a release that treats a column
      of P as private gets zero from a marked record. If a fit replaced the private
      values by other values instead, the sum could change by twice the clip norm.
    * ``"add_or_remove_one"``: whole records are added or removed; P is empty.
    * If persons are protected, the proof holds with "all records of one person" in
      place of "one record", provided that all fits and both neighbours have the same
      partition of the records into persons. Events that protect records do not compose
      with events that protect persons, because a guarantee for one record is too weak
      for a person.

    No column in P is protected, even if some events treated the column as private.
    Columns and targets are compared by name. The caller must ensure that one name means
    one column in every fit, and that a column computed from another column carries the
    name of that other column (:ref:`sharing`). Missing names cannot be compared. If
    anything is public, a target without a name may be a target or a column that another
    fit discloses by name. The two fits then do not compose. Public sets of positions
    (columns without names) compose only if they are equal.
    """
    events = check_events(events, least=1)
    everything = None if public is None else _members(public)
    relations = {event.neighboring_relation for event in events}
    if len(relations) > 1:
        first, second, *_ = sorted(relations)
        raise PrivacyBudgetError(
            f"neighboring_relation={first!r} of one release and {second!r} of another "
            "cannot be composed: use one neighboring_relation for everything that is "
            "learnt from this table."
        )
    units = {event.unit for event in events}
    if len(units) > 1:
        raise PrivacyBudgetError(
            "releases with unit='person' and unit='record' cannot be composed: pass "
            "groups to every fit that learns from this table."
        )
    disclosed = sorted([event.disclosed for event in events], key=len)
    everything = disclosed[-1] if everything is None else everything
    for own in disclosed:
        _check_inside(own, everything, declared=public is not None)
    # A target without a name may be the same as the target of another fit, or as a
    # column that another fit discloses.
    named = {event.target_name for event in events if event.target_name}
    columns = {name for name in everything if isinstance(name, str)}
    for event in events if everything else ():
        maybe = named
        if not event.public_target:
            maybe = named | (columns - set(event.public_features))
        if maybe and "target" in event.unnamed:
            raise PrivacyBudgetError(
                f"the target of a fit has no name and may be one of {set_text(maybe)}, "
                "so that one fit may disclose a column that another protects: name the "
                "target by target=, or pass y as a Series with a name."
            )
    return Guarantee(relations.pop(), units.pop(), everything)


def name_text(name: Disclosed) -> str:
    """Format one member of a public set."""
    if isinstance(name, Nameless):
        return name.value
    return name if isinstance(name, str) else f"column {name}"


def set_text(public: Collection[Disclosed]) -> str:
    """Format a public set; long ones are shortened."""
    names = sorted(map(name_text, public))
    listed = ", ".join(repr(name) for name in names[:_LISTED])
    more = len(names) - _LISTED
    return (f"{listed} and {more} more" if more > 0 else listed) or "empty"


def check_events(
    events: Any, name: str = "events", least: int = 0
) -> tuple[Event, ...]:
    """Return a tuple of at least `least` events, or raise ValueError."""
    some = "at least one Event" if least else "a sequence of Event"
    expected = f"{some}, such as [plan.event]"
    found = checks.items(name, events, expected)
    # An event of a subclass could cost more than its fields say.
    if len(found) < least or not all([type(one) is Event for one in found]):
        raise ValueError(f"{name}={checks.brief(events)} must be {expected}.")
    return found


def _members(public: Any) -> frozenset[Disclosed]:
    names: list[Any] = list(public) if is_listed(public) else [None]
    if not all(isinstance(name, str | int | Nameless) for name in names):
        raise TypeError(
            f"public={shown(public)} must be a collection of column names, or of "
            "positions: write public=['age'], for example."
        )
    return frozenset(names)


def is_listed(values: Any) -> bool:
    """Whether values are a collection, and not a scalar or a string."""
    several = isinstance(values, Iterable) and not isinstance(values, str | bytes)
    return several and getattr(values, "shape", None) != ()  # NumPy's scalars


def _check_inside(
    own: frozenset[Disclosed], public: frozenset[Disclosed], *, declared: bool
) -> None:
    outside = own - public
    counted = {name for name in own ^ public if isinstance(name, int)}
    if own and not declared and counted:
        outside |= counted & own or own
    if not outside:
        return
    whose = "the public set" if declared else "the public set of another release"
    remedy = "treat it as private"
    if Nameless.TARGET in outside:
        remedy = "name it by target=, or treat it as private"
    raise PrivacyBudgetError(
        f"a fit discloses {set_text(outside)}, which is outside {whose} "
        f"({set_text(public)}): {remedy}, or declare the larger set before the first "
        "fit, by PrivacyLedger(public=[...]). Each step of a Pipeline counts as a fit."
    )


# Parts of a data set, which are fixed by public facts, and their parallel composition.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """Some records of a data set, fixed by their positions or by a public column.

    If persons are protected, a part must hold all rows of a person or none. This is not
    checked, and is an assumption of the report.

    Fields are public facts. A part cannot be a list of rows, because such a list could
    depend on private values.

    Parameters
    ----------
    rows : tuple of (int, int), default=None
        First position, and last position plus 1. Positions refer to an order of the
        whole data set that never changes and does not depend on private values, such as
        the order of arrival.
    column : str or int, default=None
        Name of a public column in the events, or its position if it has no name.
    value : str, default=None
        Value of `column` in all records of the part; numbers are compared as text.

    Raises
    ------
    ValueError
        If the part is empty, or if both rows and a column are given.
    """

    rows: tuple[int, int] | None = None
    column: str | int | None = None
    value: str | None = None

    def __post_init__(self) -> None:
        if self.rows is None:
            proper = isinstance(self.column, str | int) and isinstance(self.value, str)
            proper = proper and not isinstance(self.column, bool)
        else:
            proper = self.column is None and self.value is None
            proper = proper and isinstance(self.rows, tuple)
            proper = proper and [type(row) for row in self.rows] == [int, int]
            proper = proper and 0 <= self.rows[0] < self.rows[1]
        if not proper:
            raise ValueError(
                f"part with rows={shown(self.rows)}, column={shown(self.column)} and "
                f"value={shown(self.value)} does not define a part: give either "
                "rows=(first, stop) with first < stop, or a column and its value as "
                "text."
            )
        if isinstance(self.column, str):
            object.__setattr__(self, "column", checks.spelling(self.column))
        if self.value is not None:
            # Normalise the value, also of a part read from a file: "1" and "01" mean
            # the same records.
            object.__setattr__(self, "value", _canonical(self.value))

    @classmethod
    def of(
        cls,
        rows: range | None = None,
        column: str | int | None = None,
        value: str | int | None = None,
    ) -> Part:
        """Return the part with these rows, or with this value of a column."""
        between: Any = None
        if rows is not None:
            proper = isinstance(rows, range) and rows.step == 1
            if not proper or not 0 <= rows.start < rows.stop:
                raise ValueError(
                    f"rows={shown(rows)} must be a range of positions with step 1, "
                    "such as range(0, 1000): other choices of rows may depend on "
                    "private values."
                )
            between = (rows.start, rows.stop)
        value = checks.plain(value)
        if isinstance(value, bool) or not isinstance(value, str | int | None):
            raise ValueError(
                f"value={shown(value)} must be a str or an int, the value that column "
                f"{shown(column)} has in every record of the part."
            )
        text = None if value is None else str(value)
        return cls(rows=between, column=checks.plain(column), value=text)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Part:
        """Rebuild a part from the dict of `dataclasses.asdict`, or raise ValueError."""
        values = checks.fields(cls, values)
        rows = values["rows"]
        return cls(**{**values, "rows": tuple(rows) if type(rows) is list else rows})

    def __str__(self) -> str:
        if self.rows is not None:
            return f"rows {self.rows[0]} to {self.rows[1] - 1}"
        return f"records with {self.column} = {self.value}"

    def check_column(
        self, columns: Sequence[tuple[str | int, bool]], read: Callable[[int], Any]
    ) -> None:
        """Raise PrivacyBudgetError unless `value` is in `column` of every row of a fit.

        The fit must treat this column as public. `columns` holds, for each column of
        the fit's table, the name and whether it is public. `read` returns the values of
        the column at a position; it is called for a public column only.
        """
        names = [name for name, _ in columns]
        if self.column not in names:
            raise PrivacyBudgetError(
                f"part ({self}) is chosen by a column that X lacks: keep this column "
                "in X, and name it in public_features."
            )
        position = names.index(self.column)
        if not columns[position][1]:
            raise PrivacyBudgetError(
                f"part ({self}) is chosen by a column that this fit treats as private: "
                "name this column in public_features."
            )
        values = {str(checks.plain(value)) for value in read(position)}
        if any(_canonical(value) != self.value for value in values):
            raise PrivacyBudgetError(
                f"part ({self}) does not hold every row of this fit, because a row has "
                f"another value in column {self.column!r}: fit the rows of the part "
                "only."
            )

    def holds(self, other: Part) -> bool:
        """Whether this part contains the first record of the other part.

        Both parts must be defined by rows, or both by values of one column.
        """
        if self.rows is None or other.rows is None:
            return self.value == other.value
        return self.rows[0] <= other.rows[0] < self.rows[1]


def check_parts(parts: Iterable[Part | None]) -> None:
    """Raise PrivacyBudgetError unless all parts are defined by rows, or by one column.

    A part by rows and a part by a column may overlap, although their descriptions do
    not show it. Two parts by different columns may overlap, too.
    """
    kinds = {
        "by rows" if part.rows is not None else f"by column {part.column!r}"
        for part in parts
        if part is not None
    }
    if len(kinds) > 1:
        raise PrivacyBudgetError(
            f"a data set must be split in one way, not {' and '.join(sorted(kinds))}: "
            "charge the whole data set instead."
        )


def check_part(
    part: Part | None,
    events: Iterable[Event],
    public: Collection[object],
    n_rows: int | None = None,
) -> None:
    """Raise PrivacyBudgetError if a fit may not be charged to this part.

    The table of the fit must have as many rows as the part; ``n_rows=None`` skips this
    check. (The number of rows is public, also if persons are protected.) The column
    that defines the part must be in the public set. The relation "add_or_remove_one" is
    refused.
    """
    if part is None:
        return
    if part.rows is not None and n_rows is not None:
        wanted = part.rows[1] - part.rows[0]
        if n_rows != wanted:
            raise PrivacyBudgetError(
                f"part ({part}) has {wanted} rows, and the table of this fit has "
                f"{n_rows}: fit the rows of the part only, or charge the whole data "
                "set."
            )
    for event in events:
        if not event.relation.counts_are_public:
            raise PrivacyBudgetError(
                f"part ({part}) cannot be used with 'add_or_remove_one', under which a "
                "new record shifts the positions of others: charge the whole data set."
            )
        if part.column is not None and part.column not in public:
            raise PrivacyBudgetError(
                f"part ({part}) is chosen by column {part.column!r}, which is not in "
                "the public set: declare this column public, or charge the whole data "
                "set."
            )


def together(parts: Sequence[Part | None]) -> tuple[tuple[int, ...], ...]:
    """Return the maximal sets of parts that have a record in common.

    A set is a tuple of positions in `parts`. No returned set contains another one. All
    parts are defined by rows, or all by one column; None is the whole data set. The
    parts that contain a given record are always a subset of one of the returned sets.
    For parts by rows the reason is this: intervals with a common record all contain the
    first record of the interval that begins last.
    """
    sets = set()
    for marker in {part for part in parts if part is not None}:
        held = [part is None or part.holds(marker) for part in parts]
        sets.add(frozenset(itertools.compress(range(len(parts)), held)))
    if not sets:
        sets = {frozenset(range(len(parts)))}
    largest = [one for one in sets if not any([one < other for other in sets])]
    return tuple(sorted([tuple(sorted(one)) for one in largest]))


def _canonical(value: str) -> str:
    """Normalise the spelling of a number or truth value; trim other text.

    If two values become equal, their parts count as the same records. This is safe,
    because the costs of their fits then compose.
    """
    value = checks.spelling(value)
    value = {"true": "1", "false": "0"}.get(value.casefold(), value)
    try:
        number = float(value)
    except ValueError:
        return value
    if not math.isfinite(number):
        return value
    return str(int(number)) if number.is_integer() else repr(number)
