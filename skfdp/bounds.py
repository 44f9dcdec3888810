"""Private bounds of columns: `private_bounds`, and fits with ``bounds="private"``.

The first histogram counts the numbers between consecutive powers of two (binades), for
each sign. The second histogram has bins of equal width within these rough bounds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from skfdp.addresses import public
from skfdp.base import PrivateEstimator, with_callbacks
from skfdp.data.grid import InputScaler, stored_entries
from skfdp.data.records import PublicRecords, Records
from skfdp.data.validation import check_flag, guarded_fit
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import Event, FitPlan, PrivacyReport
from skfdp.privacy.events import ASSUMED, Assumption
from skfdp.queries.statistics import N_SPECIAL, Binades, BinCounts
from skfdp.reader import Declaration
from skfdp.solvers.histograms import (
    Told,
    check_noise,
    even_bins,
    event_of_counts,
    rough_bounds,
)
from skfdp.solvers.method import Budget, Method, Needs, Plan, of_model

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
    privacy_ : PrivacyReport
    """

    bounds: Mapping[str | int, tuple[float, float]]
    not_found: tuple[str | int, ...]
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
        return _CHOSEN, ASSUMED["stored_types_public"], ASSUMED["one_bin_per_number"]

    def _norm(self, given: Mapping[str, Any], mask: np.ndarray) -> tuple[Any, bool]:
        return "auto", False

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


#: Bounds of a dense and of a sparse column without significant counts. They suit
#: columns that were scaled before.
FALLBACK, FALLBACK_OF_SPARSE = (-1.0, 1.0), (0.0, 1.0)


def fine_bounds(told: Told, edges: np.ndarray) -> tuple[float, float]:
    """Return the ends of the shortest run of even bins with nearly all numbers.

    If no run clearly holds nearly all numbers, return the ends of all bins. If the
    count of zeros exceeds its noise, the interval is extended to 0.
    """
    numbers = told.counts[N_SPECIAL:]
    n_even, everywhere = len(edges) - 1, float(numbers.sum())
    sums = np.r_[0.0, np.cumsum(numbers[1:-1])]
    low, high = edges[0], edges[-1]
    for length in range(1, n_even):
        runs = sums[length:] - sums[:-length]
        start = int(np.argmax(runs))
        inside, n_outside = float(runs[start]), n_even + 2 - length
        # Add up the counts inside or outside of the run: fewer counts have less noise.
        if n_outside < length:
            inside, n_noisy = told.n_numbers - (everywhere - inside), n_outside
        else:
            n_noisy = length
        if told.holds_nearly_all(inside, told.std * math.sqrt(n_noisy)):
            low, high = edges[start], edges[start + length]
            break
    if told.has_zeros:
        low, high = min(low, 0.0), max(high, 0.0)
    return float(low), float(high)


#: Labels of the two events.
BINADES, BINS = "binades", "bins"
#: Share of ``mu**2`` for the binades, without which there are no bounds. Even bins only
#: narrow the bounds, by a factor of about 2.
BINADES_SHARE = 0.7
#: Bounds of a column, and whether they were found; others are fallback bounds.
FoundBounds = tuple[tuple[float, float], bool]


@dataclasses.dataclass(frozen=True)
class BoundsRelease:
    """The method of `private_bounds`: release bounds of columns, and nothing else."""

    def needs(self, public: PublicRecords, budget: Budget) -> Needs:
        """Return the needs: any table, and no parameter of a model."""
        return Needs("private_bounds", {}, (Needs.PRIVATE_COLUMNS,))

    def prepare(self, public: PublicRecords, budget: Budget) -> None:
        """Prepare nothing: `run` computes the exact bounds of public columns."""

    def plan(self, public: PublicRecords, prepared: None, budget: Budget) -> Plan:
        """Calibrate the noise of both histograms, which take the whole budget."""
        first, _ = bin_events(public, budget, (BINADES_SHARE, 1 - BINADES_SHARE))
        last = budget.release_once(BINS, BinCounts.planned(public.n_private), first)
        check_noise(last, budget, public.units)
        return Plan(events=(first, last))

    def run(self, records, prepared, plan, mechanism, on_step) -> list[FoundBounds]:
        """Release the counts of binades, then the counts of even bins."""
        return released(records, plan, mechanism)


def bin_events(
    public, budget: Budget, shares: tuple[float, float]
) -> tuple[Event, ...]:
    """Return the events of the binades and even bins, with shares of ``mu**2``."""
    asked = zip((BINADES, BINS), shares, strict=True)
    known = public.n_private, public, budget
    return tuple(event_of_counts(label, *known, share) for label, share in asked)


def released(records: Records, plan: Plan, mechanism: Mechanism) -> list[FoundBounds]:
    """Return the bounds of each column: released if private, exact if public.

    Private columns may contain any number, including NaN and infinity.
    """
    public, sparse = records.public, records.public.sparse
    private, n = np.flatnonzero(~public.mask), public.n_records
    found = {
        int(place): exactly(public.X[:, [j]], sparse)
        for j, place in enumerate(np.flatnonzero(public.mask))
    }
    X, event = records.X[:, private], plan.event(BINADES)
    counts = mechanism.release(BINADES, BinCounts(X, Binades()))
    std = float(event.noise_std[0])
    rough = [rough_bounds(Told(row, std, n), sparse=sparse) for row in counts]
    usual = FALLBACK_OF_SPARSE if sparse else FALLBACK
    rule = even_bins([usual if r is None else r for r in rough])
    counts = mechanism.release(BINS, BinCounts(X, rule))
    std = float(plan.event(BINS).noise_std[0])
    for j, place in enumerate(private):
        told, edges = Told(counts[j], std, n), rule.edges(j)
        low, high = float(edges[0]), float(edges[-1])
        if rough[j] is not None:
            low, high = fine_bounds(told, edges)
        pair = (0.0 if sparse else low), high
        found[int(place)] = pair, rough[j] is not None
    return [found[place] for place in range(public.n_features)]


def exactly(column: np.ndarray | csr_array, sparse: bool = False) -> FoundBounds:
    """Return the exact bounds of a public column, shape (n_rows, 1).

    The bounds are clipped to numbers that the parameter `bounds` accepts. For a
    constant column, the distance between the bounds is the absolute value of the
    constant, but at least 1. For a CSR column (`sparse`) the lower bound is 0.
    """
    values = stored_entries(column)[0].ravel()
    values = values[np.isfinite(values)].astype(np.float64)
    low, high = (0.0, 0.0) if not len(values) else (values.min(), values.max())
    low, high = (float(np.clip(side, -1e100, 1e100)) for side in (low, high))
    if sparse:
        low, high = 0.0, max(high, 0.0)
    if high - low < max(1e-100, 1e-12 * max(abs(low), abs(high))):
        low, high = (low, low + max(1.0, abs(low))) if low < 1e99 else (0.0, 1e100)
    return (low, high), True


# The method of fits with private bounds: release the bounds, then fit.


#: Least and largest share of ``mu**2``, for the binades and for the even bins.
BINADES_SHARES, BINS_SHARES = (0.01, 0.2), (0.01, 0.02)
# Desired standard deviation of the noise in a count, divided by the number of records:
# of a binade, and of an even bin. A quarter of the records is then significant in one
# binade. A twentieth is significant even if it is spread over eight even bins.
_BINADES_NOISE, _BINS_NOISE = 0.058, 0.009
# The assumptions on declared bounds, and their replacements for released bounds.
_RELEASED = {
    ASSUMED["values_clipped"]: ASSUMED["values_clipped_to_released_bounds"],
    ASSUMED["columns_non_negative"]: ASSUMED[
        "columns_non_negative_within_released_bounds"
    ],
}


def with_public_bounds(
    input_scaler: InputScaler, X: np.ndarray | csr_array, public: np.ndarray
) -> InputScaler:
    """Return an input scaler with the exact bounds of the public columns.

    Only the public columns of X are read; they are finite. Private columns keep the
    bounds `UNKNOWN`.
    """
    low, span = input_scaler.low.copy(), input_scaler.span.copy()
    for place in np.flatnonzero(public):
        (low[place], high), _ = exactly(X[:, [place]])
        span[place] = high - low[place]
    return dataclasses.replace(input_scaler, low=low, span=span)


def told_of_released(found: Iterable[Assumption]) -> tuple[Assumption, ...]:
    """Replace assumptions on declared bounds by assumptions on released bounds."""
    return (*[_RELEASED.get(one, one) for one in found], ASSUMED["bounds_released"])


def shares(public: PublicRecords, budget: Budget) -> tuple[float, float]:
    """Return the shares of ``mu**2`` for binades and even bins, from public numbers."""
    reach = BinCounts.planned(public.n_private).sensitivity(budget.relation)
    # Noise in a count if one release had the whole budget, divided by the number of
    # records or persons.
    alone = reach * budget.reach / (budget.mu * public.n_records)
    wanted = (alone / _BINADES_NOISE) ** 2, (alone / _BINS_NOISE) ** 2
    binades, bins = np.clip(wanted, *zip(BINADES_SHARES, BINS_SHARES, strict=True))
    return float(binades), float(bins)


@dataclasses.dataclass(frozen=True)
class BoundsFirst:
    """The release of bounds, followed by a linear method.

    Notes
    -----
    **Guarantees.** Given the released bounds, the input scaler is a fixed function of
    each record, and the same for neighbours. The guarantee of the method holds for
    every input scaler with bounds, and therefore for any released bounds. Adaptive
    composition covers the bounds and the method, which is calibrated together with the
    events of the bounds. The plan of the method uses `UNKNOWN` bounds of private
    columns and the exact bounds of public columns. It is therefore a function of public
    facts.
    """

    method: Method

    def _rest(self, public: PublicRecords, budget: Budget) -> Budget:
        return budget.after(*bin_events(public, budget, shares(public, budget)))

    def needs(self, public: PublicRecords, budget: Budget) -> Needs:
        """Return the needs of the method."""
        return self.method.needs(public, self._rest(public, budget))

    def prepare(self, public: PublicRecords, budget: Budget) -> Any:
        """Prepare the method from public data."""
        return self.method.prepare(public, self._rest(public, budget))

    def plan(self, public, prepared, budget: Budget) -> Plan:
        """Return the method's plan for the remaining budget, after the bounds."""
        rest = self._rest(public, budget)
        plan = self.method.plan(public, prepared, rest)
        events = *rest.before, *plan.events
        # The gap was measured with declared bounds.
        return dataclasses.replace(plan, events=events, expected_gap=None)

    def run(self, records, prepared, plan, mechanism, on_step) -> Any:
        """Release the bounds, scale the rows by them, and run the method."""
        pairs = [pair for pair, _ in released(records, plan, mechanism)]
        low, high = np.array(pairs).T.copy()
        input_scaler = dataclasses.replace(
            records.public.input_scaler, low=low, span=high - low
        )

        def with_map(model: Any) -> Any:
            return model._replace(input_scaler=input_scaler)

        # Every column has bounds now. The middle of the bounds replaces numbers that
        # are not finite, so that no record becomes null; see `InputScaler.scale`.
        records = records.mapped_by(input_scaler)
        asked = records, prepared, plan, mechanism, of_model(on_step, with_map)
        return with_map(self.method.run(*asked))
