"""Which events compose, what they then protect, and what that costs."""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence

from skfdp.privacy.curves import PrivacyCurve, compose
from skfdp.privacy.events import Event, PrivacyBudgetError
from skfdp.privacy.parts import Part, together

__all__ = ["Cost", "PrivacyBudgetError", "align", "cost", "curves", "worst"]


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a composition costs at one delta, and how that was computed."""

    epsilon: float
    mu: float | None
    accountant: str


def align(events: Iterable[Event]) -> tuple[Event, ...]:
    r"""Re-label events onto the weakest guarantee among them, or refuse.

    Events compose when their relation is equal and their public sets are nested, the
    largest one being a promise that one of them already made. A set of public columns
    is nested in another one here if it is equal to it or empty; a private target is
    nested in a public one.

    Parameters
    ----------
    events : iterable of Event

    Returns
    -------
    events : tuple of Event
        The same events, all with the largest public set.

    Raises
    ------
    PrivacyBudgetError
        If the relations differ, if no event promises the union of the public sets, or
        if two sets of public columns differ.

    Notes
    -----
    **Guarantees.** Let an event protect records with public part u under a smaller
    public set, and let :math:`(u, w)`, with :math:`w` private there, be the public part
    under the larger one.

    * ``"replace_one"``: neighbours under the larger set differ in the part of one
      record outside (u, w). They agree in u, hence are neighbours under the smaller set
      too, and the event's curve bounds them: a guarantee for more neighbours implies
      the one for fewer.
    * ``"replace_special"``: the event bounds the output on the data against an output
      to which the record gives nothing but u. That one does not depend on the record's
      part outside (u, w) either. A composition therefore compares what was released
      with a world in which no release used that part at all, which is what the relation
      promises. The null is a mark, not a value: a release that treats w as private gets
      zero from a marked record and must not impute the rest of it, which could move the
      sum by twice the clip norm.
    * ``"add_or_remove_one"``: whole records only; an event has nothing public.

    The converse is false, so the composition protects no more than the weakest event
    does: nothing of (u, w). Columns are compared by name or position, and that the
    same name means the same column in every event is for the caller to know.
    """
    events = tuple(events)
    if not events:
        return events
    relations = sorted({event.neighboring_relation for event in events})
    if len(relations) > 1:
        raise PrivacyBudgetError(
            f"neighboring_relation is {relations[0]!r} for one release and "
            f"{relations[1]!r} for another, which do not compose: use one relation, or "
            "account for them as separate data sets."
        )
    weakest = max(events, key=lambda e: (e.public_target, bool(e.public_features)))
    columns = frozenset(weakest.public_features)
    for event in events:
        own = frozenset(event.public_features)
        if own and own != columns:
            raise PrivacyBudgetError(
                f"public set {_public_set(event)} differs from "
                f"{_public_set(weakest)}, and together they protect less than either "
                "promises: use one public set, or separate data sets."
            )
    return tuple(
        dataclasses.replace(
            event,
            public_features=weakest.public_features,
            public_target=weakest.public_target,
        )
        for event in events
    )


def _public_set(event: Event) -> str:
    names = [repr(name) for name in event.public_features[:5]]
    if len(event.public_features) > 5:
        names.append(f"{len(event.public_features) - 5} more columns")
    return f"({', '.join(names + ['the target'] * event.public_target) or 'empty'})"


@functools.lru_cache(maxsize=256)
def cost(events: tuple[Event, ...], delta: float, accountant: str = "auto") -> Cost:
    """Return what the exact composition of all events costs at delta."""
    curve = compose(_merged(events), accountant=accountant)
    return Cost(curve.epsilon(delta), curve.mu, curve.accountant)


def worst(
    events: Sequence[Event | None],
    parts: Sequence[Part | None],
    delta: float,
    *,
    within: Part | None = None,
    accountant: str = "auto",
) -> Cost:
    r"""Return the largest cost that the events have for one record.

    Parameters
    ----------
    events : sequence of Event or None
        None is a fit without privacy, which costs infinity.
    parts : sequence of Part or None
        The records that each event concerns; None means all.
    delta : float
    within : Part, default=None
        The record is in this part; None: anywhere.
    accountant : {"auto", "pld"}, default="auto"

    Returns
    -------
    cost : Cost
        ``mu`` is the largest one, and None unless it is exact for every record.

    Notes
    -----
    **Guarantees.** Under the relations ``"replace_one"`` and ``"replace_special"``
    neighbours have the same records at the same positions with the same public parts,
    and differ in the private part of record i. Whether i is in a part is the same in
    both, if parts are fixed by position or by a public column. A release on a part
    without i has one distribution on both tables, given all that was released before,
    and so costs nothing; the others compose as ever. Hence whatever is released is
    (epsilon, delta)-DP for record i with the cost of the events on the parts that
    hold i, and for every record with the largest of these numbers.
    """
    places = (*parts, within)
    costs = []
    for group in together(places):
        if len(parts) not in group:  # no record of `within`
            continue
        members = [events[position] for position in group if position < len(parts)]
        private = tuple(event for event in members if event is not None)
        if len(private) < len(members):
            costs.append(Cost(math.inf, None, "none"))
        else:
            costs.append(cost(private, delta, accountant))
    largest = max(costs, key=lambda one: one.epsilon)
    mus = [one.mu for one in costs]
    exact = None if None in mus else max(mu for mu in mus if mu is not None)
    return dataclasses.replace(largest, mu=exact)


def curves(
    events: Sequence[Event], parts: Sequence[Part | None]
) -> tuple[PrivacyCurve, ...]:
    """Return the curves that bound what the events have for any record.

    The largest of them at each epsilon or delta holds for every record.
    """
    return tuple(
        compose(_merged(tuple(events[position] for position in group)))
        for group in together(parts)
    )


def _merged(events: tuple[Event, ...]) -> list[Event]:
    """Return fewer events of equal cost: a grid search repeats a few of them often."""
    counts = collections.Counter(events)
    merged: list[Event] = []
    for event, count in zip(align(counts), counts.values(), strict=True):
        if type(event) is not Event:  # the fields of other kinds mean other things
            merged += [event] * count
            continue
        merged.append(
            dataclasses.replace(  # by the composition law
                event,
                n_steps=event.n_steps * count,
                noise_std=event.noise_std * (1 if len(event.noise_std) == 1 else count),
            )
        )
    return merged
