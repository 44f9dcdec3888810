"""The promise of a composition of events: one relation, one unit, one public set."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from skfdp.addresses import public
from skfdp.privacy.events import Event, Nameless, PrivacyBudgetError
from skfdp.privacy.values import shown

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
    events = _checked(events)
    everything = None if public is None else _members(public)
    relation = _only("neighboring_relation", {e.neighboring_relation for e in events})
    unit = _only_unit({event.unit for event in events})
    disclosed = sorted((event.disclosed for event in events), key=len)
    everything = disclosed[-1] if everything is None else everything
    for own in disclosed:
        _check_inside(own, everything, declared=public is not None)
    if everything:
        _check_target_names(events)
        _check_anonymous_targets(events, everything)
    return Promise(relation, unit, everything)


def name_assumptions(events: Collection[Event], n_fits: int) -> Iterator[str]:
    """Yield what a composition of several fits takes for granted about names."""
    if n_fits < 2 or not any(event.disclosed for event in events):
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


def _checked(events: Any) -> tuple[Event, ...]:
    found = tuple(events) if _is_listed(events) else ()
    if not found or not all(isinstance(event, Event) for event in found):
        raise TypeError(
            f"events={shown(events)} must hold at least one Event: pass [plan.event]."
        )
    return found


def _members(public: Any) -> frozenset[Disclosed]:
    names: list[Any] = list(public) if _is_listed(public) else [None]
    if not all(isinstance(name, str | int | Nameless) for name in names):
        raise TypeError(
            f"public={shown(public)} must be a collection of names, or of positions "
            "of columns without one: write public=['age'], say."
        )
    return frozenset(names)


def _is_listed(values: Any) -> bool:
    """Whether there may be several values, each for itself."""
    several = isinstance(values, Iterable) and not isinstance(values, str | bytes)
    return several and getattr(values, "shape", None) != ()  # NumPy's scalars


def _only(parameter: str, values: set[str]) -> str:
    first, *others = sorted(values)
    if others:
        raise PrivacyBudgetError(
            f"{parameter} is {first!r} for one release and {others[0]!r} for another, "
            f"which do not compose: use one {parameter} for everything that is learnt "
            "from this table."
        )
    return first


def _only_unit(units: set[str]) -> str:
    first, *others = sorted(units)
    if others:
        raise PrivacyBudgetError(
            "one release protects persons and another one records (unit='person' and "
            "unit='record'), which do not compose: pass groups to every fit that "
            "learns from this table, or charge one kind of them to a ledger of its own."
        )
    return first


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
        remedy = "name it by target_name=, or treat it as private"
    raise PrivacyBudgetError(
        f"a fit discloses {set_text(outside)}, which is outside {whose} "
        f"({set_text(public)}): everything else was promised to be protected. Instead, "
        f"{remedy}. Whoever needs more than that declares it before the first fit "
        "(each step of a Pipeline is one), by PrivacyLedger(public=[...])."
    )


def _check_anonymous_targets(
    events: Iterable[Event], public: frozenset[Disclosed]
) -> None:
    """Refuse to protect a target that may be a public column of another fit."""
    names = {name for name in public if isinstance(name, str)}
    for event in events:
        if "target" not in event.unnamed or event.public_target:
            continue
        if maybe := names - set(event.public_features):
            raise PrivacyBudgetError(
                f"a fit protects a target without a name, which may be one of "
                f"{set_text(maybe)}, which are public: name it by target_name=, or "
                "pass y as a Series with a name."
            )


def _check_target_names(events: Iterable[Event]) -> None:
    named = sorted({event.target_name for event in events if event.target_name})
    if named and any("target" in event.unnamed for event in events):
        raise PrivacyBudgetError(
            f"the target of one fit is {named[0]!r} and that of another has no name, "
            "so that nobody can tell whether one discloses what the other protects: "
            "name it by target_name=, or pass y as a Series with a name."
        )
