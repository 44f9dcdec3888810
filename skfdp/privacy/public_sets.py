"""The promise of a composition of events: one relation, one unit, one public set."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from skfdp.addresses import public
from skfdp.privacy import checks
from skfdp.privacy.checks import shown
from skfdp.privacy.events import Event, Nameless, PrivacyBudgetError

# More names than this are counted, not listed, in a message.
_LISTED = 5

#: A member of a public set.
Disclosed = str | int | Nameless


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True)
class Promise:
    """The promise to every record after all releases of a composition.

    Attributes
    ----------
    neighboring_relation : str
    unit : {"record", "person"}
        Whose parts outside the public set are protected: one record's, or those of all
        records of one person.
    public : frozenset of str, int or Nameless
        What of a record is not protected: columns and targets by name, columns without
        a name by position. Everything else is protected.
    """

    neighboring_relation: str
    unit: str
    public: frozenset[Disclosed]


def promise(
    events: Iterable[Event], public: Collection[Disclosed] | None = None
) -> Promise:
    r"""Return what the composition of all events protects, or refuse it.

    Parameters
    ----------
    events : iterable of Event
        At least one.
    public : collection, default=None
        The public set of the composition, declared beforehand. None: one event must
        disclose all that any of them does, so that nobody is promised less by the
        composition than by every single event.

    Returns
    -------
    promise : Promise

    Raises
    ------
    PrivacyBudgetError
        If relations or units differ, or if an event discloses more than the public set.

    Notes
    -----
    **Guarantees.** A record is a row of one table, whose columns have names; the rows
    of X and the target of a fit are functions of it. Let event j disclose the columns
    :math:`D_j` of every record, and let :math:`P \supseteq \bigcup_j D_j`. Then the
    composed curve of the events bounds everything that they release, and whatever is
    disclosed of P, for neighbours under P: tables that agree in the columns P of every
    record, and outside P differ in one record.

    * ``"replace_one"``: neighbours under P agree in :math:`D_j`, and in every function
      of :math:`D_j` alone, hence are neighbours under :math:`D_j`, or equal as event j
      sees them. So the curve of event j bounds its release, given all earlier ones,
      and adaptive composition bounds all of them. What is disclosed of P is equal.
    * ``"replace_special"``: the curve of event j bounds its release on the table
      against a release to which the record gives nothing but :math:`D_j`. The latter is
      a function of the other records and of :math:`D_j \subseteq P`, and so does not
      depend on the record's part outside P. The composition compares what was released
      with a world in which no release used that part, which is what the relation
      promises. The null is a mark, not a value: a release that treats a column of P as
      private gets zero from a marked record, and must not impute the rest of it, which
      could move the sum by twice the clip norm.
    * ``"add_or_remove_one"``: whole records come and go; P is empty.
    * Where every event is one of persons, read "all records of one person" for "one
      record" throughout, if the fits have one partition of the records into persons,
      which neighbours share. Events of records and of persons are refused together: a
      record's promise says too little of a person.

    Nothing of P is protected, whichever of the events treated it as private. Columns
    and targets are compared by name: that one name means one column in every fit, and
    that what is computed from a column carries its name, is for the caller to know
    (:ref:`sharing`). A name that is missing cannot be compared. Where anything is
    public, a target without a name may be the target, or the column, that another fit
    discloses by name, so that the two do not compose; and positions are nested in other
    positions only if they are the same.
    """
    events = check_events(events, least=1)
    everything = None if public is None else _members(public)
    relations = {event.neighboring_relation for event in events}
    if len(relations) > 1:
        first, second, *_ = sorted(relations)
        raise PrivacyBudgetError(
            f"neighboring_relation is {first!r} for one release and {second!r} for "
            "another, which do not compose: use one neighboring_relation for "
            "everything that is learnt from this table."
        )
    units = {event.unit for event in events}
    if len(units) > 1:
        raise PrivacyBudgetError(
            "one release protects persons and another one records (unit='person' and "
            "unit='record'), which do not compose: pass groups to every fit that "
            "learns from this table, or charge one kind of them to a ledger of its own."
        )
    disclosed = sorted([event.disclosed for event in events], key=len)
    everything = disclosed[-1] if everything is None else everything
    for own in disclosed:
        _check_inside(own, everything, declared=public is not None)
    # A target without a name may be what another fit discloses by name.
    named = {event.target_name for event in events if event.target_name}
    columns = {name for name in everything if isinstance(name, str)}
    for event in events if everything else ():
        maybe = named
        if not event.public_target:
            maybe = named | (columns - set(event.public_features))
        if maybe and "target" in event.unnamed:
            raise PrivacyBudgetError(
                "the target of a fit has no name, and may be one of "
                f"{set_text(maybe)}, so that nobody can tell whether one fit discloses "
                "what another protects: name it by target=, or pass y as a Series with "
                "a name."
            )
    return Promise(relations.pop(), units.pop(), everything)


def name_assumptions(events: Collection[Event], n_fits: int) -> Iterator[str]:
    """Yield what a composition of several fits takes for granted about names."""
    if n_fits < 2 or not any([event.disclosed for event in events]):
        return
    yield (
        "One name means one column of one table in every fit, and what is computed "
        "from a column carries its name."
    )
    if any("target" in event.unnamed for event in events):
        yield (
            "Targets without a name are the same column, or all of them are public, or "
            "all private."
        )


def name_text(name: Disclosed) -> str:
    """Return one member of a public set for people."""
    if isinstance(name, Nameless):
        return name.value
    return name if isinstance(name, str) else f"column {name}"


def set_text(public: Collection[Disclosed]) -> str:
    """Return a public set for people, shortened."""
    names = sorted(map(name_text, public))
    listed = ", ".join(repr(name) for name in names[:_LISTED])
    more = len(names) - _LISTED
    return (f"{listed} and {more} more" if more > 0 else listed) or "empty"


def check_events(
    events: Any, name: str = "events", least: int = 0
) -> tuple[Event, ...]:
    """Return the items, at least so many; ValueError unless all of them are events."""
    some = "at least one Event" if least else "a sequence of Event"
    found = checks.items(name, events, f"{some}: [plan.event]")
    if len(found) < least or not all([isinstance(one, Event) for one in found]):
        raise ValueError(f"{name}={checks.brief(events)} must be {some}: [plan.event].")
    return found


def _members(public: Any) -> frozenset[Disclosed]:
    names: list[Any] = list(public) if is_listed(public) else [None]
    if not all(isinstance(name, str | int | Nameless) for name in names):
        raise TypeError(
            f"public={shown(public)} must be a collection of names, or of positions "
            "of columns without one: write public=['age'], say."
        )
    return frozenset(names)


def is_listed(values: Any) -> bool:
    """Whether there may be several values, each for itself."""
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
    whose = "the public set" if declared else "what another release discloses"
    remedy = "treat it as private"
    if Nameless.TARGET in outside:
        remedy = "name it by target=, or treat it as private"
    raise PrivacyBudgetError(
        f"a fit discloses {set_text(outside)}, which is outside {whose} "
        f"({set_text(public)}): everything else was promised to be protected. Instead, "
        f"{remedy}. Whoever needs more than that declares it before the first fit "
        "(each step of a Pipeline is one), by PrivacyLedger(public=[...])."
    )


# Parts of a data set, known in public, and their parallel composition.


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
                f"value={shown(self.value)} names no records: give either rows, the "
                "first position and the one after the last, or a column and its value "
                "as text."
            )
        if isinstance(self.column, str):
            object.__setattr__(self, "column", checks.spelling(self.column))
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
        """Return the part that a caller means: a range of rows, or a column's value."""
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
        """Rebuild a part from `dataclasses.asdict`; ValueError if it is not one."""
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
        """Raise PrivacyBudgetError if a row has another value in the public column.

        `columns` says of each column of a table its name, and whether it is public;
        `read`, called for a public column only, returns its values by position.
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
        values = {str(checks.plain(value)) for value in read(position)}
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

    The number of rows is public, also where persons are protected; None skips its
    check.
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
    """Return the positions of the largest sets of parts with a record in common.

    Parts are of one kind; None is the whole data set. Every record is in the parts of a
    subset of one of the sets: intervals that share a point share the first point of the
    one that begins last.
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
    """Return one spelling of a number or truth value, and other text trimmed.

    What has one spelling counts as the same records, which is the safe side.
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
