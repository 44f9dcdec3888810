"""The guarantee of a composition of events: relation, privacy unit and public set."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
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
