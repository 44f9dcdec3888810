"""The assumptions of guarantees, and the one list of those that the code enforces.

Only the sentences listed here may be marked as enforced, also in a report that is read
from a file.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any

from skfdp.privacy.events import Event
from skfdp.privacy.public_sets import Part, name_assumptions

CLIPPED = "One record's contribution to a release is clipped."
BATCHES = "Records enter batches independently; batches are not published."
CLIPPED_PERSONS = (
    "Every row's contribution to a release is clipped, and the sum over one person's "
    "rows is bounded."
)
BATCHES_OF_PERSONS = (
    "Persons enter batches independently, with all of their rows; batches are not "
    "published."
)
VALUES_CLIPPED = (
    "Every value is clipped to the declared bounds of its column, and each row's "
    "contribution to a release to a clip norm."
)
TARGET_CLIPPED = (
    "Every target is clipped to target_bounds before anything is computed from it."
)
ORTHANT = (
    "The target is public and every private column is non-negative within its declared "
    "bounds, so that a replaced record changes a sum by at most sqrt(2) clip_norm."
)
SIGNED_OR_CENTRED = (
    "The target is public, and every private column is non-negative within its bounds "
    "(or the released mean is subtracted, and contributions are clipped to clip_norm / "
    "sqrt(2)), so that a replaced record changes a sum by at most sqrt(2) clip_norm."
)
LABEL = (
    "Every column is public, so that a replaced label changes a sum by at most the "
    "difference of the residuals of two labels, times the longest row."
)
BALANCED = (
    "class_weight='balanced' corrects the intercept by released or public class "
    "frequencies, and releases nothing itself."
)
BINNED = (
    "Every number of a private column is counted in exactly one bin of that column."
)
BOUNDS_RELEASED = (
    "Bounds of private columns were released first, within this budget; those of "
    "public columns are exact and computed from public values only."
)
VALUES_CLIPPED_RELEASED = (
    "Every value is clipped to the bounds of its column, which are public or released, "
    "and each row's contribution to a release to a clip norm."
)
ORTHANT_RELEASED = (
    "The target is public and every private column is non-negative within its released "
    "bounds, so that a replaced record changes a sum by at most sqrt(2) clip_norm."
)
INTEGER_SEED = "integer seed"
ONE_STEP = "No step before this one learnt from the data; see `report(pipeline)`."
EVERY_USE = "Every use of these data is counted: fits, scores, tuning."
RUNS_CHARGED = "No run releases more than the search was charged for."
SCORES_BOUNDED = (
    "A scored record is in one cell of the released table, and each of its losses is "
    "cut to its bound."
)
FIT_IN_LEDGER = (
    "The ledger of this score holds the fit of the model, so that it counts both."
)
COLUMNS_FOLLOWED = (
    "What the last step treats as a public column was computed, row by row, from "
    "public columns of the table that the Pipeline was given and from released "
    "numbers; every column was followed."
)
COLUMNS_ASSUMED = (
    "What a step treats as a public column was computed from public columns and "
    "released numbers only; steps may name or count columns differently."
)
WEIGHTS_ARE_PUBLIC = "sample_weight derives from nothing private, and may be disclosed."
ORDER_IS_PUBLIC = (
    "max_rows_per_group keeps the first rows of a person, in an order of the table "
    "that depends on nothing private."
)
SAME_PARTITIONS = (
    "The Dask collection is deterministic: a partition has the same rows whenever it "
    "is computed."
)
NOT_COPIED = "No copy of the checkpoint of this fit was or will be resumed."
SAME_ROWS = "After a stop the fit went on with the rows that it had begun with."
CLASSES_READ = (
    "The set of classes is public, though it was read from the private target."
)

#: The sentences that the code enforces.
_ENFORCED = frozenset(
    {
        CLIPPED,
        BATCHES,
        CLIPPED_PERSONS,
        BATCHES_OF_PERSONS,
        VALUES_CLIPPED,
        TARGET_CLIPPED,
        ORTHANT,
        SIGNED_OR_CENTRED,
        LABEL,
        BALANCED,
        BINNED,
        BOUNDS_RELEASED,
        VALUES_CLIPPED_RELEASED,
        ORTHANT_RELEASED,
        RUNS_CHARGED,
        SCORES_BOUNDED,
        FIT_IN_LEDGER,
        COLUMNS_FOLLOWED,
    }
)

# Assumptions on which rows belong to whom.
_ONE_RECORD = "Each person has one row, which appears once."
_PERSONS = "Each person has one entry in groups, which derives from nothing private."
_WHOLE_PERSONS = (
    "No person has rows in two disjoint parts: such parts are unions of persons."
)


def is_enforced(text: str) -> bool:
    """Whether the code of this version enforces an assumption."""
    return text in _ENFORCED


@dataclasses.dataclass(frozen=True)
class Assumption:
    """A condition of the guarantee, and whether the code enforces it."""

    text: str
    enforced: bool


_NO_LIMIT = (
    "The ledger has no limit, so that no fit is refused for its cost: its owner must "
    "watch the sum."
)


def of_limit(ledger: Any) -> tuple[Assumption, ...]:
    """Return the assumption about a ledger without a limit; empty for other ledgers."""
    bare = ledger is not None and ledger.epsilon is None
    return (Assumption(_NO_LIMIT, enforced=False),) * bare


_UNSEEN = (
    "Step {} learnt nothing from private values of these records; this report cannot "
    "check that."
)


def unseen_assumption(step: str) -> Assumption:
    """Return the assumption about a step that this package cannot check."""
    return Assumption(_UNSEEN.format(step), enforced=False)


def unseen_step(text: str) -> str | None:
    """Return the step of an `unseen_assumption`, None for other sentences."""
    found = re.fullmatch(re.escape(_UNSEEN).replace(r"\{\}", "(.*)"), text, re.S)
    return found and found[1]


def enforced(text: str) -> Assumption:
    """Return a sentence of this file as an enforced assumption."""
    if text not in _ENFORCED:
        raise ValueError(f"no code enforces {text!r}: add it to _ENFORCED.")
    return Assumption(text, True)


def implied_assumptions(
    events: tuple[Event, ...],
    seeded: bool,
    n_fits: int = 1,
    parts: Sequence[Part | None] = (),
) -> Iterator[Assumption]:
    """Yield the assumptions that follow from these events."""
    if not events:
        return
    persons = events[0].unit == "person"
    yield Assumption(_PERSONS if persons else _ONE_RECORD, False)
    yield Assumption(EVERY_USE, False)
    if any([event.public_features or event.public_target for event in events]):
        yield Assumption("The parts declared public may be disclosed.", False)
    if not events[0].relation.counts_are_public:
        yield Assumption("n_records was not derived from these data.", False)
    yield enforced(CLIPPED_PERSONS if persons else CLIPPED)
    yield Assumption(
        "Noise and batches come from a secret that nobody else knows.", not seeded
    )
    if any([event.sampling_rate < 1 for event in events]):
        yield enforced(BATCHES_OF_PERSONS if persons else BATCHES)
    if any([event.classes_source == "data" for event in events]):
        yield Assumption(CLASSES_READ, False)
    for text in name_assumptions(events, n_fits):
        yield Assumption(text, False)
    if persons and n_fits > 1:
        yield Assumption("The groups of all fits name the same persons.", False)
    if any(parts):
        yield Assumption(
            "A fit on a part used only the records of the part. Positions of rows "
            "refer to an order of the whole data set that was fixed without looking at "
            "private values.",
            False,
        )
        if persons:
            yield Assumption(_WHOLE_PERSONS, False)
    if n_fits > 1 and any(event.mu is None for event in events):
        # Budgets may be chosen adaptively only for Gaussian releases (privacy filter).
        yield Assumption(
            "With Poisson batches or searches: the budget of no fit was chosen by "
            "looking at the results of earlier ones.",
            False,
        )
