"""The assumptions of privacy guarantees, and which of them the code enforces.

An assumption is recognised by its key, also in a report that is read from a file. So
its sentence may be reworded, but a key never changes its meaning: a new meaning gets a
new key. Only assumptions of this module can be marked as enforced.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools

from skfdp.privacy.events import Event


@dataclasses.dataclass(frozen=True)
class Assumption:
    """A condition of the guarantee, and whether the code enforces it.

    Attributes
    ----------
    key : str
        Stable name of the condition.
    text : str
        The condition, as a sentence.
    enforced : bool
        Whether the code enforces the condition.
    """

    key: str
    text: str
    enforced: bool = False


# Enforced by the code.
_enforced = functools.partial(Assumption, enforced=True)
VALUES_CLIPPED = _enforced(
    "values_clipped",
    "Every value is clipped to the declared bounds of its column, and each row's "
    "contribution to a release to a clip norm.",
)
TARGET_CLIPPED = _enforced(
    "target_clipped",
    "Every target is clipped to target_bounds before anything is computed from it.",
)
EXPOSURE_CLIPPED = _enforced(
    "exposure_clipped",
    "Every exposure is clipped to its declared bounds before anything is computed from "
    "it, and weighs a contribution before this is clipped.",
)
ORTHANT = _enforced(
    "columns_non_negative",
    "The target is public and every private column is non-negative within its declared "
    "bounds, so that a replaced record changes a sum by at most sqrt(2) clip_norm.",
)
SIGNED_OR_CENTRED = _enforced(
    "columns_non_negative_or_centred",
    "The target is public, and every private column is non-negative within its bounds "
    "(or the released mean is subtracted, and contributions are clipped to clip_norm / "
    "sqrt(2)), so that a replaced record changes a sum by at most sqrt(2) clip_norm.",
)
LABEL = _enforced(
    "only_label_private",
    "Every column is public, so that a replaced label changes a sum by at most the "
    "difference of the residuals of two labels, times the longest row.",
)
RANDOMISED = _enforced(
    "target_randomised",
    "Every private target is replaced at random, with chances that are checked in "
    "exact integers, before anything is computed from it.",
)
BALANCED = _enforced(
    "class_weight_from_releases",
    "class_weight='balanced' corrects the intercept by released or public class "
    "frequencies, and releases nothing itself.",
)
BINNED = _enforced(
    "one_bin_per_number",
    "Every number of a private column is counted in exactly one bin of that column.",
)
BOUNDS_RELEASED = _enforced(
    "bounds_released",
    "Bounds of private columns were released first, within this budget; those of "
    "public columns are exact and computed from public values only.",
)
VALUES_CLIPPED_RELEASED = _enforced(
    "values_clipped_to_released_bounds",
    "Every value is clipped to the bounds of its column, which are public or released, "
    "and each row's contribution to a release to a clip norm.",
)
ORTHANT_RELEASED = _enforced(
    "columns_non_negative_within_released_bounds",
    "The target is public and every private column is non-negative within its released "
    "bounds, so that a replaced record changes a sum by at most sqrt(2) clip_norm.",
)
SCORES_BOUNDED = _enforced(
    "scores_bounded",
    "A scored record is in one cell of the released table, and each of its losses is "
    "cut to its bound.",
)
FIT_IN_LEDGER = _enforced(
    "fit_in_ledger",
    "The ledger of this score holds the fit of the model, so that it counts both.",
)
COLUMNS_FOLLOWED = _enforced(
    "public_columns_followed",
    "What the last step treats as a public column was computed, row by row, from "
    "public columns of the table that the Pipeline was given and from released "
    "numbers; every column was followed.",
)

# Not checked.
ONE_STEP = Assumption(
    "no_step_before",
    "No step before this one learnt from the data; see `report(pipeline)`.",
)
COLUMNS_ASSUMED = Assumption(
    "public_columns_assumed",
    "What a step treats as a public column was computed from public columns and "
    "released numbers only; steps may name or count columns differently.",
)
WEIGHTS_ARE_PUBLIC = Assumption(
    "weights_public",
    "sample_weight derives from nothing private, and may be disclosed.",
)
ORDER_IS_PUBLIC = Assumption(
    "row_order_public",
    "max_rows_per_group keeps the first rows of a person, in an order of the table "
    "that depends on nothing private.",
)
#: Fits refuse stored types that cannot hold what is declared, and name others.
STORED_TYPES = Assumption(
    "stored_types_public",
    "The stored types of columns and target do not depend on records.",
)
SAME_PARTITIONS = Assumption(
    "collection_deterministic",
    "The Dask collection is deterministic: a partition has the same rows whenever it "
    "is computed.",
)
KEY_UNREAD = Assumption(
    "checkpoint_unread",
    "Only the curator can read the checkpoint file of this fit. It holds the key of "
    "the noise.",
)
CLASSES_READ = Assumption(
    "classes_public",
    "The set of classes is public, though it was read from the private target.",
)
LIMIT_COUNTS = Assumption(
    "limit_counts",
    "If the budget of a fit was chosen by looking at results of earlier fits, only the "
    "limit of the ledger is guaranteed.",
)
NO_LIMIT = Assumption(
    "no_limit",
    "The ledger has no limit, so that no fit is refused for its cost: its owner must "
    "watch the sum.",
)
INTEGER_SEED = "integer seed"
#: Assumptions that follow from the events of fits, in the order of a report.
_IMPLIED = (
    Assumption(
        "one_group_per_person",
        "All rows of one person carry the same id in groups, and ids were not made "
        "from private values.",
    ),
    Assumption("one_row_per_person", "Each person has one row, which appears once."),
    Assumption(
        "every_use_counted", "Every use of these data is counted: fits, scores, tuning."
    ),
    Assumption("public_parts_disclosed", "The parts declared public may be disclosed."),
    Assumption("n_records_chosen", "n_records was not derived from these data."),
    _enforced(
        "person_contributions_clipped",
        "Every row's contribution to a release is clipped, and the sum over one "
        "person's rows is bounded.",
    ),
    _enforced(
        "contributions_clipped", "One record's contribution to a release is clipped."
    ),
    _enforced(
        "noise_secret", "Noise and batches come from a secret that nobody else knows."
    ),
    _enforced(
        "person_batches_secret",
        "Persons enter batches independently, with all of their rows; batches are not "
        "published.",
    ),
    _enforced(
        "batches_secret",
        "Records enter batches independently; batches are not published.",
    ),
    CLASSES_READ,
    Assumption(
        "one_name_one_column",
        "One name means one column of one table in every fit, and a column computed "
        "from another one carries its name.",
    ),
    Assumption(
        "unnamed_targets_equal",
        "Targets without a name are the same column, or all of them are public, or all "
        "private.",
    ),
    Assumption(
        "groups_name_same_persons", "The groups of all fits name the same persons."
    ),
    # Budgets may be chosen adaptively only for Gaussian releases (privacy filter).
    Assumption(
        "budgets_fixed",
        "With Poisson batches or pure releases: the budget of no fit was chosen by "
        "looking at the results of earlier ones.",
    ),
)

#: The assumptions of this module, by key.
KNOWN = {
    one.key: one
    for one in (*globals().values(), *_IMPLIED)
    if isinstance(one, Assumption)
}
_NOT_SECRET = dataclasses.replace(KNOWN["noise_secret"], enforced=False)


def recognised(stated: Assumption) -> Assumption:
    """Return an assumption that was read from a report, as this version states it.

    An assumption of this module is recognised by its key, and gets the text of this
    version. It is marked as enforced only if both the report and this version mark it.
    Any other assumption is returned unchanged, but never marked as enforced.
    """
    ours = KNOWN.get(stated.key)
    if ours is None:
        return dataclasses.replace(stated, enforced=False)
    return dataclasses.replace(ours, enforced=ours.enforced and stated.enforced)


def unknown_assumption(step: str) -> Assumption:
    """Return the assumption about a Pipeline step that this package cannot check."""
    return Assumption(
        "step_not_checked",
        f"Step {step} learnt nothing from private values of these records; this report "
        "cannot check that.",
    )


def implied_assumptions(
    events: tuple[Event, ...], seeded: bool, n_fits: int = 1
) -> list[Assumption]:
    """Return the assumptions of a guarantee that follow from the events of its fits."""
    if not events:
        return []
    persons, several = events[0].unit == "person", n_fits > 1
    disclosed = sampled = read = nameless = pure = gaussian = False
    for event in events:
        disclosed |= bool(event.public_features or event.public_target)
        sampled |= event.sampling_rate < 1
        read |= event.classes_source == "data"
        nameless |= "target" in event.unnamed
        pure |= event.pure_epsilon > 0
        gaussian |= not event.pure_epsilon
    nominal = events[0].neighboring_relation == "add_or_remove_one"
    holds = (  # for each of `_IMPLIED`
        *(persons, not persons, True, disclosed, nominal),
        *(persons and gaussian, not persons and gaussian, True),
        *(sampled and persons, sampled and not persons, read, several and disclosed),
        *(several and disclosed and nameless, several and persons),
        several and (sampled or pure),
    )
    found = list(itertools.compress(_IMPLIED, holds))
    if seeded:
        found[found.index(KNOWN["noise_secret"])] = _NOT_SECRET
    return found
