"""Events in the vocabulary of dp_accounting, for accountants other than ours.

What dp_accounting calls a Gaussian event adds vectors of norm at most C, and its noise
multiplier is the standard deviation over C. How far neighbours move the sum is decided
by the accountant's relation: by C where a record is added, removed or emptied, by 2 C
where it is replaced. So one release is two different events, by who reads it.

**The fence.** Its RDP accountant (0.6) ignores the factor 2 and would halve mu. Under
"replace_one" a full batch is therefore written as a Poisson sample of rate 1: the same
mechanism, which the PLD accountant reads exactly, and which the RDP accountant refuses.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Any

from skfdp.privacy import facts
from skfdp.privacy.relations import Relation

# Sensitivities are products of float64 factors.
_ROUNDING = 1e-9


def reader(neighboring_relation: Any) -> Relation:
    """Return the relation of an accountant: its name, or a member of dp_accounting's.

    Raises
    ------
    ValueError
        For anything else.
    """
    if isinstance(neighboring_relation, enum.Enum):
        neighboring_relation = neighboring_relation.name.lower()
    return Relation.of(neighboring_relation)


def gaussian_steps(
    steps: Iterable[tuple[float, int]],
    *,
    clip_norm: float,
    sensitivity: float,
    sampling_rate: float,
    relation: Relation,
    reader: Relation,
) -> Any:
    """Return the dp_accounting event of a schedule of noisy sums.

    Parameters
    ----------
    steps : iterable of (float, int)
        Standard deviation of the noise, and how many steps have it.
    clip_norm, sensitivity, sampling_rate : float
        As in `skfdp.Event`.
    relation : Relation
        Under which the sensitivity holds.
    reader : Relation
        That of the accountant.

    Raises
    ------
    ValueError
        If no event means the same to that accountant.
    """
    from dp_accounting import dp_event  # loads when first needed

    if sampling_rate < 1:
        _check_sampled(clip_norm, sensitivity, relation, reader)
    # Vectors in a ball of this radius move the sum as far as ours, to this reader.
    radius = sensitivity / 2 if reader.replaces else sensitivity
    events = []
    for std, count in steps:
        event: Any = dp_event.GaussianDpEvent(float(std / radius))
        if sampling_rate < 1 or reader.replaces:
            event = dp_event.PoissonSampledDpEvent(float(sampling_rate), event)
        if count > 1:
            event = dp_event.SelfComposedDpEvent(event, int(count))
        events.append(event)
    return joined(events)


def joined(events: Sequence[Any]) -> Any:
    """Return the composition of dp_accounting events; one alone as it is."""
    from dp_accounting import dp_event

    if not events:
        return dp_event.NoOpDpEvent()
    return events[0] if len(events) == 1 else dp_event.ComposedDpEvent([*events])


def without_privacy() -> Any:
    """Return the dp_accounting event of a release without privacy."""
    from dp_accounting import dp_event

    return dp_event.NonPrivateDpEvent()


def refuse(what: str, why: str) -> Any:
    """Raise ValueError: there is no equal event."""
    raise ValueError(f"{what} has no equal event in dp_accounting: {why}.")


def _check_sampled(
    clip_norm: float, sensitivity: float, relation: Relation, reader: Relation
) -> None:
    """Refuse Poisson batches that the accountant would read as something else."""
    if relation.replaces != reader.replaces:
        refuse(
            f"a Poisson-sampled release under {relation.name!r}, to an accountant "
            f"under {reader.name!r},",
            f"pass neighboring_relation={relation.name!r} here and to the accountant",
        )
    if relation.replaces and abs(sensitivity - 2 * clip_norm) > _ROUNDING * clip_norm:
        refuse(
            f"a Poisson-sampled release with sensitivity={facts.shown(sensitivity)} "
            f"and clip_norm={facts.shown(clip_norm)}",
            "its replaced records move a sum by two clip norms",
        )
