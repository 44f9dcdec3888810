"""What estimators share: checks of their parameters, and what these resolve to."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from skfdp.privacy.assumptions import ROWS_CLIPPED
from skfdp.privacy.events import check_budget, check_relation
from skfdp.privacy.relations import Relation
from skfdp.privacy.report import Assumption, enforced
from skfdp.records.checks import (
    check_choice,
    check_clip_norm,
    check_n_jobs,
    check_number,
    check_size,
    shown,
)
from skfdp.records.guards import UtilityWarning, users_state, warn_caller
from skfdp.records.row_map import RowMap, resolve_bounds
from skfdp.releases.noise import check_random_state
from skfdp.releases.steps import AVERAGES

#: The grid of a sum leaves room for this many times `n_records` rows, aligned at their
#: bound. Where n is private there may be more: sums then wrap around, which is
#: post-processing of the exact release (docs/theory/exact_release.rst).
MOST_ROWS = 16
#: What the guarantee takes for granted beyond what the events tell.
ASSUMPTIONS = (
    Assumption(
        "Bounds, clip norm and every other constructor parameter were chosen without "
        "looking at private data.",
        enforced=False,
    ),
    enforced(ROWS_CLIPPED),
)


def begin_callbacks(estimator: Any, **subtasks: Any) -> Any:
    """Return the callback context of a fit, after telling that it begins."""
    with users_state():
        context = estimator._init_callback_context(**subtasks)
        context.call_on_fit_task_begin(estimator=estimator)
    return context


def end_callbacks(context: Any, estimator: Any) -> None:
    """Tell the callbacks that the fit has ended."""
    with users_state():
        context.call_on_fit_task_end(estimator=estimator, reconstruction_attributes={})


def complete_parameters(estimator: Any) -> None:
    """Give parameters that are younger than a saved estimator their defaults."""
    for name, parameter in inspect.signature(type(estimator)).parameters.items():
        if not hasattr(estimator, name):
            setattr(estimator, name, parameter.default)


def check_privacy_parameters(estimator) -> None:
    """Check what every private estimator shares: budget, relation, bounds, seed."""
    check_budget(estimator.epsilon, estimator.delta, allow_infinite=True)
    check_relation(estimator.neighboring_relation)
    check_size("feature_bound", estimator.feature_bound, also=("auto",))
    check_random_state(estimator.random_state)
    n_records = estimator.n_records
    counted = Relation.of(estimator.neighboring_relation).counts_are_public
    if not counted:
        if n_records is None:
            raise ValueError(
                "neighboring_relation='add_or_remove_one' makes the number of rows "
                "private: give n_records, a public nominal count."
            )
        check_number("n_records", n_records, integral=True)
    elif n_records is not None:
        raise ValueError(
            f"n_records={shown(n_records)} is only for neighboring_relation="
            "'add_or_remove_one': elsewhere the number of rows is public."
        )


def check_loop_parameters(estimator) -> None:
    """Check what every estimator with a loop shares."""
    auto = ("auto",)
    check_clip_norm(estimator.clip_norm)
    check_number("max_iter", estimator.max_iter, integral=True, also=auto)
    check_number("batch_size", estimator.batch_size, integral=True, also=("auto", None))
    check_size("learning_rate", estimator.learning_rate, also=auto)
    check_number("momentum", estimator.momentum, high=1, include_low=True)
    check_number("noise_decay", estimator.noise_decay, high=10, include_low=True)
    check_size("radius", estimator.radius, also=(None,))
    check_choice("average", estimator.average, AVERAGES)
    check_choice("accountant", estimator.accountant, ("auto", "pld"))
    check_n_jobs(estimator.n_jobs)


def check_nothing_public(estimator, mask: np.ndarray, public_target: bool) -> None:
    """Refuse public parts under add/remove, where whole records come and go."""
    if mask.all() and public_target:
        raise ValueError(
            "public_features names every column and public_target=True: there is "
            "nothing to protect; use a scikit-learn estimator."
        )
    counted = Relation.of(estimator.neighboring_relation).counts_are_public
    if not counted and (mask.any() or public_target):
        raise ValueError(
            "neighboring_relation='add_or_remove_one' adds whole records, so nothing "
            "of them can be public: use 'replace_one' or 'replace_special'."
        )
    public_loss = getattr(estimator, "public_loss", None)
    if not counted and not (public_loss is None or public_loss == "auto"):
        # An exact average over the rows would tell how many there are.
        raise ValueError(
            f"public_loss={shown(public_loss)} takes exact averages over the rows, "
            "whose number is private under neighboring_relation='add_or_remove_one': "
            "leave it out, or use 'replace_one'."
        )


def public_count(estimator, n_rows: int) -> int:
    """Return n where it is public, else the declared `n_records`; warn of delta.

    Where n is private, nothing depends on it: neither a refusal nor a warning.
    """
    n_public = n_rows if estimator.n_records is None else int(estimator.n_records)
    if math.isfinite(estimator.epsilon) and estimator.delta >= 1 / n_public:
        warn_caller(
            f"delta={estimator.delta!r} is not below 1/n = {1 / n_public:.3g}: such a "
            "delta would allow to publish a record at random.",
            UserWarning,
        )
    return n_public


def resolve_row_map(
    estimator, n_features: int, names: Sequence[str] | None, sparse: bool = False
) -> RowMap:
    """Return the row map of the estimator's declared bounds."""
    low, span = resolve_bounds(estimator.bounds, n_features, names)
    if estimator.bounds is None:
        warn_caller(
            "bounds=None: no column bounds are declared, and columns of unequal scale "
            "train badly; pass bounds=(low, high), a mapping by column, or False if "
            "the columns are scaled already.",
            UtilityWarning,
        )
    bound = estimator.feature_bound
    if bound == "auto":
        # No row within bounds is longer. Columns without bounds are taken as scaled.
        bounded = span is not None and bool(np.isfinite(span).all())
        bound = math.sqrt(n_features) if bounded else 1.0
    row_map = RowMap(low, span, float(bound), bool(estimator.normalize))
    if sparse:
        row_map.check_sparse()
    return row_map


def resolved_parameters(
    estimator, /, public: np.ndarray, row_map: RowMap, **others: Any
) -> dict[str, Any]:
    """Return the parameters of a fit, as `Streams` needs them.

    Parameters
    ----------
    public : bool ndarray of shape (n_features,)
        In place of `public_features`, however that was spelled.
    row_map : RowMap
        In place of bounds, feature_bound and normalize.
    **others
        In place of other parameters; those that the estimator lacks are left out.
    """
    given = estimator.get_params(deep=False)
    rows = {"bounds": row_map, "feature_bound": None, "normalize": None}
    resolved = {"public_features": public, **rows, **others}
    return given | {name: v for name, v in resolved.items() if name in given}


def forget(estimator) -> None:
    """Delete what an earlier fit left, so that a failed fit leaves nothing."""
    for name in [v for v in vars(estimator) if v.endswith("_") and v[0] != "_"]:
        delattr(estimator, name)
