"""Release private bounds of columns, for the declarations of estimators and schemas."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from skfdp.addresses import public
from skfdp.base import PrivateEstimator, with_callbacks
from skfdp.data.records import PublicRecords, Records
from skfdp.data.validation import check_flag, guarded_fit
from skfdp.privacy import FitPlan, PrivacyReport
from skfdp.privacy.assumptions import BINNED, STORED_TYPES, Assumption
from skfdp.reader import Declaration
from skfdp.solvers.bounds import BoundsRelease, FoundBounds, exactly
from skfdp.solvers.method import Plan

__all__ = ["PrivateBounds", "private_bounds"]

_CHOSEN = Assumption(
    "columns_chosen",
    "The columns and every other parameter were chosen without looking at private "
    "data.",
)


@public("skfdp.bounds")
@dataclasses.dataclass(frozen=True)
class PrivateBounds:
    """Bounds of columns, released by `private_bounds`.

    Attributes
    ----------
    bounds : mapping of str or int to (float, float)
        Bounds by column name, or by position if X has no column names. Pass them to
        estimators as `bounds`, and to `skfdp.schema.Number` as `low` and `high`.
    not_found : tuple of str or int
        Columns in which no count exceeds the noise. Their bounds are (-1, 1), or (0, 1)
        in a sparse X. Declare bounds of these columns, leave the columns out, or raise
        epsilon.
    plan : FitPlan
        The plan of the release.
    privacy_ : PrivacyReport
    """

    bounds: Mapping[str | int, tuple[float, float]]
    not_found: tuple[str | int, ...]
    plan: FitPlan
    privacy_: PrivacyReport


@public("skfdp")
def private_bounds(
    X: Any,
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
    r"""Release bounds of columns, if they are not known in advance.

    Declared bounds cost no budget. Declare all bounds that you know, even if they may
    be 10 times too wide. See :ref:`unknown-bounds`.

    Parameters
    ----------
    X : array-like, csr_array or frame of shape (n_rows, n_features)
        One row for each record, unless `groups` are given. Pass only the columns that
        need bounds, as ``X[["age", "income"]]``, because the noise grows with the
        square root of the number of columns. Values that cannot be read as a number
        count as missing.
    epsilon, delta : float, default=1.0, 1e-5
        The budget of this release, in addition to that of later fits.
        ``epsilon=float("inf")`` returns the exact minimum and maximum, without privacy.
    public_features : None, names, indices, mask or slice, default=None
        As in `FeatureDPLogisticRegression`. Public columns get their minimum and
        maximum exactly, for free.
    neighboring_relation : {"replace_one", "replace_special"} or AddOrRemoveOne
        Neighbouring relation, the same as in later fits; see :ref:`protected`.
    groups : array-like of shape (n_rows,) or str, default=None
        The person of each row, as in `fit` of the linear estimators. If X is a frame,
        `groups` may be the name of its column of persons. All rows of a person are then
        protected together, and rows of persons with many rows count less. None means
        that each row is a record.
    ledger : str, path or PrivacyLedger, default=None
        Charged before private data are read.
    random_state : int, default=None
        None uses cryptographic noise. An int is reproducible and gives **no
        guarantee**.
    plan_only : bool, default=False
        Only return the plan; release and charge nothing.

    Returns
    -------
    found : PrivateBounds, or FitPlan if `plan_only`

    Raises
    ------
    ValueError
        For bad parameters or types; nothing is charged, and no datum is quoted. No
        value of a private number raises an error.
    PrivacyBudgetError
        If the ledger's limit would be exceeded; nothing is charged or released.

    Notes
    -----
    **Guarantees.** The result is (epsilon, delta)-differentially private for the
    private columns of a record under `neighboring_relation`, if `random_state` is None.
    There are two Gaussian releases, with 0.7 and 0.3 of ``mu**2``, where mu is the
    budget in Gaussian differential privacy:

    * for every private column the counts of its binades: for each integer e and each
      sign, how many numbers have an absolute value in ``(2**(e - 1), 2**e]``, and how
      many values are zero, missing or infinite;
    * the counts of 32 bins of equal width between the bounds from the first release.

    A record is in exactly one bin of each of the p columns, so the counts change by at
    most ``sqrt(p)``, and by ``sqrt(2 p)`` under "replace_one". The thresholds above
    which counts are significant depend only on the noise and on the number of bins. The
    plan, and so the charge, is a function of p, the budget and the relation.

    With `groups` the counts are weighted. The sensitivity is multiplied by the largest
    total weight of one person's rows (`skfdp.queries.weighted`).

    Some values may be outside the bounds: values in bins whose counts are below the
    noise, and up to a twentieth of the other values. Estimators clip all of them.

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
        public_features=public_features,
        neighboring_relation=neighboring_relation,
        ledger=ledger,
        random_state=random_state,
    )
    if plan_only:
        return release.plan(X, groups=groups)
    release.fit(X, groups=groups)
    found = release.columns_
    return PrivateBounds(
        bounds={key: pair for key, (pair, _) in found.items()},
        not_found=tuple(key for key, (_, is_found) in found.items() if not is_found),
        plan=release.plan_,
        privacy_=release.privacy_,
    )


class PrivateBoundsRelease(PrivateEstimator):
    """Estimator behind the function `private_bounds`, which documents parameters."""

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        *,
        public_features=None,
        neighboring_relation="replace_one",
        ledger=None,
        random_state=None,
    ):
        self._set(locals())

    _subject = "private_bounds"
    _released = ("columns_",)
    _may_be_a_step = False
    _rows = "raw"

    @with_callbacks
    @guarded_fit
    def fit(self, X, y=None, groups=None):
        """Charge the ledger, and release bounds of X; y is ignored."""
        return self._fit(X, None, groups=groups)

    @guarded_fit
    def plan(self, X, y=None, groups=None) -> FitPlan:
        """Return the releases and cost of a fit on X, without charging them."""
        return self._plan(X, None, groups=groups)

    def _assumed(self, declared: Declaration) -> tuple[Assumption, ...]:
        return _CHOSEN, STORED_TYPES, BINNED

    def _norm(self, given: Mapping[str, Any], mask: np.ndarray) -> tuple[Any, bool]:
        return "auto", False

    def _fit_plan(self, public: PublicRecords, plan: Plan) -> FitPlan:
        self.plan_ = super()._fit_plan(public, plan)
        return self.plan_

    def _methods(self, public: PublicRecords) -> list[BoundsRelease]:
        return [BoundsRelease()]

    def _without_privacy(self, records: Records) -> list[FoundBounds]:
        places = range(records.public.n_features)
        sparse = records.public.sparse
        return [exactly(records.X[:, [place]], sparse) for place in places]

    def _attributes(
        self, public: PublicRecords, found: list[FoundBounds]
    ) -> dict[str, Any]:
        return {"columns_": dict(zip(public.columns, found, strict=True))}
