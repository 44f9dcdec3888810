"""The joint cost of events; `public_sets` says what they then protect."""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence

from skfdp.privacy.curves import PrivacyCurve, compose, detection_bound
from skfdp.privacy.events import Event
from skfdp.privacy.parts import Part, together

__all__ = ["Cost", "cost", "curves", "detection_rate", "worst"]


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of a composition at one delta, and how it was computed."""

    epsilon: float
    mu: float | None
    accountant: str


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
    hold i, and for every record with the largest of these numbers. The same is so for
    persons, if every part holds all rows of a person or none: then whether person i is
    in a part is the same in both tables.
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
    return tuple(compose(group) for group in _groups(events, parts))


def _groups(
    events: Sequence[Event], parts: Sequence[Part | None]
) -> Iterator[list[Event]]:
    """Yield, merged, the events of each largest set of parts that share a record."""
    for group in together(parts):
        yield _merged(tuple(events[position] for position in group))


@functools.lru_cache(maxsize=256)
def detection_rate(
    events: tuple[Event, ...], parts: tuple[Part | None, ...], false_alarms: float
) -> float:
    """Return the largest rate of detections that the events allow for any record.

    Parameters
    ----------
    events : tuple of Event
    parts : tuple of (Part or None)
        The records that each event concerns; empty: all.
    false_alarms : float
        The rate of false alarms, above 0 and below 1.
    """
    if not events:
        return false_alarms
    return max(
        detection_bound(group, false_alarms)
        for group in _groups(events, parts or (None,) * len(events))
    )


def _merged(events: tuple[Event, ...]) -> list[Event]:
    """Return fewer events of equal cost: a grid search repeats a few of them often."""
    merged: list[Event] = []
    for event, count in collections.Counter(map(_unlabelled, events)).items():
        # The fields of other kinds mean other things; a schedule that is twice as long
        # is not the schedule twice.
        if type(event) is not Event or event.noise_decay:
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


def _unlabelled(event: Event) -> Event:
    """Return an event of the same cost that says nothing of what is public."""
    return dataclasses.replace(
        event,
        label="",
        public_features=(),
        public_target=False,
        target_name=None,
        unnamed=(),
        classes_source=None,
        seeded=False,
    )
