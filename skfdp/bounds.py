"""Private bounds as a function, for the declarations of estimators and schemas."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skfdp._callbacks import with_callbacks
from skfdp.addresses import public
from skfdp.base import PrivateEstimator, values_of
from skfdp.data.arrays import (
    Column,
    blanked,
    check_columns_of_frame,
    check_finite,
    check_names,
    check_no_path,
    check_table,
    column_labels,
    is_frame,
    raw_column,
)
from skfdp.data.columns import column_names, public_mask
from skfdp.data.input_scaler import InputScaler
from skfdp.data.records import PublicRecords, Records
from skfdp.data.units import RowsOfUnits, noise_of_sums
from skfdp.data.validation import check_flag, guarded_fit, unmasked
from skfdp.privacy import FitPlan, PrivacyReport
from skfdp.privacy.assumptions import BINNED, Assumption, enforced
from skfdp.privacy.checks import shown
from skfdp.privacy.events import Relation
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.solvers.bounds import BoundsRelease, FoundBounds, exactly
from skfdp.solvers.method import Plan
from skfdp.solvers.parameters import public_count

__all__ = ["PrivateBounds", "private_bounds"]

_CHOSEN = Assumption(
    "The columns and every other parameter were chosen without looking at private "
    "data.",
    enforced=False,
)


@public("skfdp.bounds")
@dataclasses.dataclass(frozen=True)
class PrivateBounds:
    """Bounds of columns, released by `private_bounds`.

    Attributes
    ----------
    bounds : mapping of str or int to (float, float)
        By name, or by position in X where columns have no names: what estimators take
        as `bounds`, and `skfdp.schema.Number` as `low` and `high`.
    unseen : tuple of str or int
        Columns of which nothing stood out of the noise: their bounds are (-1, 1), or
        (0, 1) in a sparse X. Declare theirs, or leave them out, or raise epsilon.
    plan : FitPlan
        What was released, as it was known before.
    privacy_ : PrivacyReport
    """

    bounds: Mapping[str | int, tuple[float, float]]
    unseen: tuple[str | int, ...]
    plan: FitPlan
    privacy_: PrivacyReport


@public("skfdp")
def private_bounds(
    X: Any,
    columns: Any = None,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    public_features: Any = None,
    neighboring_relation: Any = "replace_one",
    groups: Any = None,
    ledger: Any = None,
    random_state: int | None = None,
    plan_only: bool = False,
) -> PrivateBounds | FitPlan:
    r"""Release bounds of columns, for when nobody knows them.

    Bounds that are known cost nothing: declare them where they are known, 10 times too
    wide as well. See :ref:`unknown-bounds`.

    Parameters
    ----------
    X : array-like, csr_array or frame of shape (n_rows, n_features)
        Each record once, unless `groups` are given. Of a raw table, name the `columns`
        that hold numbers; what cannot be read as a number there counts as missing.
    columns : list of str or int, default=None
        The columns that need bounds, by name or by position; None: all. The noise grows
        with the square root of their number.
    epsilon, delta : float, default=1.0, 1e-5
        The budget, which adds to that of the fits that follow.
        ``epsilon=float("inf")``: the exact minimum and maximum, no privacy.
    public_features : None, names, indices, mask, slice or callable, default=None
        Those of `columns` that are public, as in `FeatureDPLogisticRegression`, but
        counted within them. They get their minimum and maximum exactly, for free.
    neighboring_relation : {"replace_one", "replace_special"} or AddOrRemoveOne
        What changes between neighbouring data sets; see :ref:`protected`. That of the
        fits that follow.
    groups : array-like of shape (n_rows,) or str, default=None
        The person of each row, or the name of the column of a frame X that tells, as in
        `fit` of the linear estimators: all rows of a person are protected together, and
        those of persons with many count less. None: each row is a record of its own.
    ledger : str, path or PrivacyLedger, default=None
        Charged before anything private is read.
    random_state : int, default=None
        None: cryptographic noise. An int: reproducible, **no guarantee**.
    plan_only : bool, default=False
        Return the plan, and release and charge nothing.

    Returns
    -------
    found : PrivateBounds, or FitPlan if `plan_only`

    Raises
    ------
    ValueError
        For bad parameters or types; nothing is charged, no datum is quoted. Nothing
        that a private number holds raises anything.
    PrivacyBudgetError
        If the ledger's limit would be passed; nothing is charged or released.

    Notes
    -----
    **Guarantees.** What is returned is (epsilon, delta)-differentially private for the
    private columns of a record under `neighboring_relation`, if `random_state` is None.
    There are two Gaussian releases, of 0.7 and 0.3 of the squared budget:

    * for every private column the counts of its binades: how many numbers are within
      ``(2**(e - 1), 2**e]``, by sign, are zero, missing or infinite;
    * the counts of 32 even bins between the bounds that the first release told.

    A record is in exactly one bin of each of the p columns: the counts move by at most
    ``sqrt(p)``, and by ``sqrt(2 p)`` under "replace_one". Thresholds depend on the
    noise and on the number of bins alone; the plan, and so the charge, is a function of
    p, the budget and the relation.

    With `groups` the counts are weighted, and so is their sensitivity: what all rows of
    one person weigh together, at most, multiplies it (`skfdp.queries.weighted`).

    A few records may be outside: what cannot be told from noise is, and of what can up
    to a twentieth. Values outside of bounds are clipped by what uses them.

    Examples
    --------
    >>> import numpy as np
    >>> from skfdp import private_bounds
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.uniform(18, 90, 20_000), rng.normal(size=20_000)])
    >>> found = private_bounds(
    ...     X,
    ...     epsilon=0.5,
    ...     neighboring_relation="replace_special",
    ...     random_state=0,
    ... )
    >>> {place: tuple(map(float, pair)) for place, pair in found.bounds.items()}
    {0: (20.0, 92.0), 1: (-2.25, 2.0)}
    >>> round(found.privacy_.epsilon, 3)
    0.5
    """
    check_flag("plan_only", plan_only)
    release = PrivateBoundsRelease(
        epsilon,
        delta,
        columns=columns,
        public_features=public_features,
        neighboring_relation=neighboring_relation,
        ledger=ledger,
        random_state=random_state,
    )
    if plan_only:
        return release.plan(X, groups=groups)
    release.fit(X, groups=groups)
    found = dict(zip(release.keys_, release.columns_, strict=True))
    return PrivateBounds(
        bounds={key: column.bounds for key, column in found.items()},
        unseen=tuple(key for key, column in found.items() if not column.seen),
        plan=release.plan_,
        privacy_=release.privacy_,
    )


class PrivateBoundsRelease(PrivateEstimator):
    """The estimator behind `private_bounds`, which documents the parameters."""

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        *,
        columns=None,
        public_features=None,
        neighboring_relation="replace_one",
        ledger=None,
        random_state=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.columns = columns
        self.public_features = public_features
        self.neighboring_relation = neighboring_relation
        self.ledger = ledger
        self.random_state = random_state

    _released = ("columns_",)
    _has_target = False
    _may_be_a_step = False
    _assumptions = (_CHOSEN, enforced(BINNED))
    _accepts_sparse = True

    @with_callbacks
    @guarded_fit
    def fit(self, X, y=None, groups=None):
        """Release bounds of X, charging the ledger first; y is ignored."""
        return self._fit(X, None, groups=groups)

    @guarded_fit
    def plan(self, X, y=None, groups=None) -> FitPlan:
        """Return what a fit on X would release and cost; nothing is charged."""
        return self._plan(X, None, groups=groups)

    def _subject(self) -> str:
        return "private_bounds"

    def _records(self, X, y, planning: bool = False, groups=None) -> Records:
        """Validate and split; without bounds nothing is mapped or filled in."""
        X, groups = self._take_groups(X, groups)
        self._has_weights = False
        X, keys = chosen_numbers(X, self.columns)
        frame = X
        X, _ = self._checked(X, None, planning)
        self.keys_ = list(range(X.shape[1])) if keys is None else keys
        own = getattr(self, "feature_names_in_", None)
        mask = public_mask(self._declared.public_features, X.shape[1], own, frame)
        if mask.all():
            raise ValueError(
                f"public_features={shown(self.public_features)} names every column: "
                "there is nothing to protect; take the minimum and the maximum of each."
            )
        names = column_names(own, X.shape[1])
        if own is None:
            names = tuple(self.keys_)
        if isinstance(self.ledger, PrivacyLedger) and not planning:
            read = functools.partial(values_of, X, None, False)
            self.ledger.check_column(names, mask.tolist(), read)
        self._check_split(mask)
        check_finite(X, mask)
        if planning:
            X = blanked(X, mask)
        relation = Relation.of(self.neighboring_relation)
        units = RowsOfUnits.checked(None, groups, X.shape[0], relation)
        if units is not None:
            noise = noise_of_sums(self.epsilon, self.delta, relation, X.shape[1])
            units = units.units(noise)
        n_records = X.shape[0] if units is None else units.n_units
        n_records = public_count(
            n_records, self._declared.n_records, self.epsilon, self.delta
        )
        public = PublicRecords(
            mask=mask,
            input_scaler=InputScaler(feature_bound=np.inf),
            n_records=n_records,
            columns=names,
            sparse=issparse(X),
            units=units,
            n_given=X.shape[0],
            _table=X,
        )
        return Records(X, None, public)

    def _fit_plan(self, public: PublicRecords, plan: Plan | None) -> FitPlan:
        self.plan_ = super()._fit_plan(public, plan)
        return self.plan_

    def _method(self, public: PublicRecords) -> BoundsRelease:
        return BoundsRelease()

    def _without_privacy(self, records: Records) -> list[FoundBounds]:
        places = range(records.public.n_features)
        return [exactly(records.X[:, [place]]) for place in places]

    def _attributes(
        self, public: PublicRecords, found: list[FoundBounds]
    ) -> dict[str, Any]:
        return {"columns_": tuple(found)}


def chosen_numbers(X: Any, columns: Any) -> tuple[Any, list[str | int] | None]:
    """Return some columns of a table as numbers, and the name or position of each.

    Of a frame every value is read by itself: whatever a cell holds, others are read
    alike. What is no table is returned as it is, and refused by whoever checks it. No
    keys: all positions.
    """
    check_no_path(X)
    if not (is_frame(X) or hasattr(type(X), "collect")):
        try:
            X = unmasked(X)
            table = X.tocsr() if issparse(X) else np.asarray(X)
        except ValueError:  # rows of several lengths
            return X, None
        if columns is None or table.ndim != 2:
            return X, None
        places = _places(columns, list(range(table.shape[1])))
        return table[:, places], places
    X = check_table(X)
    check_names(X)
    labels = column_labels(X)
    places = range(len(labels)) if columns is None else _places(columns, labels)
    check_columns_of_frame(X, places, ("date", "period", "other"))
    numbers = {labels[j]: Column(raw_column(X, j)).read("number") for j in places}
    make = getattr(type(X), "from_pydict", type(X))  # pyarrow, or the others
    keys = [labels[j] if isinstance(labels[j], str) else j for j in places]
    return make(numbers), keys


def _places(columns: Any, labels: list) -> list[int]:
    """Return the positions of columns that are named, or given by position."""
    one = isinstance(columns, (str, int, np.integer))
    asked = [columns] if one else list(columns) if np.iterable(columns) else []
    places, n = [], len(labels)
    for key in asked:
        if isinstance(key, str) and key in labels:
            places.append(labels.index(key))
        elif isinstance(key, (int, np.integer)) and not isinstance(key, bool):
            places += [int(key) % n] if -n <= key < n else []
    if not places or len(places) < len(asked) or len(set(places)) < len(places):
        raise ValueError(
            f"columns={shown(columns)} must list columns of X, each once, by name or "
            "by position."
        )
    return places
