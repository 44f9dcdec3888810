"""Private centring as a transformer."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.base import OneToOneFeatureMixin, TransformerMixin

from skfdp.addresses import public
from skfdp.base import PrivateEstimator, documented
from skfdp.data.grid import GRID, MAX_STD, InputScaler, blocks
from skfdp.data.records import PublicRecords, Records
from skfdp.data.validation import check_choice, check_size, without_traps
from skfdp.queries.statistics import (
    SHRINK,
    CrossSum,
    GridRowSum,
    RowSum,
    shrunk_mean,
)
from skfdp.reader import Declaration
from skfdp.solvers.method import Budget, Needs, Plan

# Factor that keeps norms below the bound in spite of rounding.
_MARGIN = 1 - 1e-12
#: The fitted attributes `mean_`, `coef_` and `scale_` by name.
Found = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class PrivateCentring:
    """Method that centres private columns by a vector or a matrix, released once.

    Without public columns this is the mean of the rows, otherwise the coefficients of
    a linear prediction from public columns. Records have public weights in its least
    squares (see `Regressors`), except in fits without privacy.
    """

    def needs(self, public: PublicRecords, budget: Budget) -> Needs:
        """Return the needs; normalised rows do not depend on their norm."""
        of_norm = ("normalize=False",) * public.input_scaler.normalize
        honours = {"row_norm": of_norm, "normalize": (), "output_bound": ()}
        return Needs("the centring", honours, (Needs.PRIVATE_COLUMNS, *Needs.PLAIN))

    def prepare(
        self, public: PublicRecords, budget: Budget | None, weighted: bool = True
    ) -> Regressors | None:
        """Whiten the public columns, if there are any."""
        if not public.mask.any():
            return None
        return Regressors(public.public_scaler.scale(public.X), weighted=weighted)

    def plan(self, public: PublicRecords, prepared, budget: Budget) -> Plan:
        """Calibrate the release of the mean, or of the cross moments."""
        kind = RowSum if prepared is None else CrossSum
        query = kind.planned(nonnegative=public.private_bounded)
        label = "mean" if prepared is None else "cross moments"
        event = budget.release_once(label, query)
        std = event.noise_std[0]
        if std / query.unit(std) > MAX_STD:
            raise ValueError(
                f"epsilon={budget.epsilon!r} and delta={budget.delta!r} need too much "
                "noise for the grid of the released sum: raise the budget."
            )
        return Plan(events=(event,))

    def run(self, records, prepared, plan, mechanism, on_step) -> Found:
        """Release the sum of private rows, or the cross moments; return the centring.

        The public regressors are the whitened public columns and a constant.
        """
        public, (event,) = records.public, plan.events
        bound, bounded = public.input_scaler.divisor_of_integers, public.private_bounded
        if prepared is None:
            query = GridRowSum.of(records, bound)
        else:
            given = records.integers, bound, prepared.grid
            query = CrossSum(*given, nonnegative=bounded)
        total = mechanism.release(event.label, query)
        return _centring(public, prepared, total, event.noise_std[0])

    def exactly(self, records: Records) -> Found:
        """Return the centring from a noiseless sum (epsilon=inf)."""
        X, public = records.X, records.public
        regressors = self.prepare(public, None, weighted=False)
        scaler = public.input_scaler
        if regressors is None:
            total = sum(scaler.mapped(X[b]).sum(axis=0) for b in blocks(*X.shape))
        else:
            private = ~public.mask
            rows = scaler.part(private).mapped(X[:, private])
            total = np.append(regressors.rows.T @ rows, len(rows) - np.sum(rows**2))
        return _centring(public, regressors, total, 0.0)


def _centring(
    public: PublicRecords, regressors: Regressors | None, total: np.ndarray, std: float
) -> Found:
    """Return the fitted attributes from a sum with noise of this standard deviation."""
    mask, n_records = public.mask, public.n_records
    if regressors is None:
        std = std / n_records
        mean, scale = shrunk_mean(total / n_records, std)
        found = {"mean_": mean, "coef_": np.zeros((0, len(mean)))}
        return found | {"scale_": np.full(mean.shape, scale)}
    intercept, coef, ours, theirs = centre(regressors, total, std)
    mean = np.empty(public.n_features)
    mean[mask], mean[~mask] = regressors.mean, intercept
    return {"mean_": mean, "coef_": coef, "scale_": np.where(mask, ours, theirs)}


# Conditional centring: subtract from the private columns their linear prediction from
# the public columns (docs/theory/centring.rst). Without weights of records an outlier
# would determine the sensitivity.


#: Public columns get this share of the squared norm of an output row of
#: `PrivateCenteringTransformer`, on average.
MEAN_SHARE = 0.25
#: Largest share of the squared norm of an output row for public columns.
LARGEST_PUBLIC_SHARE = 0.5
# A slope is kept if it exceeds its noise by `_SIGNIFICANCE` standard deviations, and if
# the noise that it adds to a prediction has a squared norm of at most `_MOST_NOISE`.
# Here private rows have norm 1. Other slopes are set to 0.
_SIGNIFICANCE, _MOST_NOISE = 2.0, 0.25
# Directions with a smaller relative variance are rounding errors.
_SMALLEST_VARIANCE = 1e-9


class Regressors:
    """Public rows ``[1, z]`` with ``z = (u - mean) @ basis``, and their weights.

    u is a row of the scaled public columns U, of shape (n_rows, n_public). `mean` is
    the exact mean of U, and `variance` the mean squared distance of its rows from
    `mean`. The columns of z are uncorrelated, with standard deviation `spread`. z has
    no columns if every public column is constant. The array `rows` holds ``[1, z]`` of
    each record.

    A weighted row ``weights[i] * rows[i]`` has norm 1. For fits without privacy all
    weights are 1, which gives ordinary least squares.
    """

    def __init__(self, U: np.ndarray, *, weighted: bool):
        # Divide by the largest entry, so that squares neither over- nor underflow.
        size = np.abs(U).max(axis=0)
        size = np.where(size > 0, size, 1.0)
        centred = U / size
        mean = centred.mean(axis=0)
        centred -= mean
        deviation = centred.std(axis=0)
        varies = deviation > 1e-12
        deviation = np.where(varies, deviation, 1.0)
        centred[:, ~varies] = 0.0
        centred /= deviation
        variance, directions = eigh(centred.T @ centred / len(U))
        kept = variance > _SMALLEST_VARIANCE * max(1, len(variance))
        basis = directions[:, kept] / np.sqrt(variance[kept])
        z = centred @ basis
        norms = np.linalg.norm(z, axis=1)
        self.spread = 1 / (np.median(norms) or norms.max() or 1.0)
        self.rows = np.column_stack([np.ones(len(U)), self.spread * z])
        self.weights = np.ones(len(U))
        if weighted:
            self.weights = 1 / np.linalg.norm(self.rows, axis=1)
        self.basis = self.spread * basis / (deviation * size)[:, None]
        self.basis[~varies] = 0.0
        self.mean = mean * size
        self.variance = float(np.sum((U - self.mean) ** 2) / len(U))

    @functools.cached_property
    def grid(self) -> np.ndarray:
        """Weighted rows, of norm at most 1, truncated to int16 multiples of GRID."""
        scaled = self.rows * (self.weights * (SHRINK / GRID))[:, None]
        return np.trunc(scaled).astype(np.int16)


def centre(
    regressors: Regressors, statistic: np.ndarray, noise_std: float
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Compute the prediction of the private columns from released cross moments.

    The prediction is ``intercept + (u - mean) @ coef`` for the scaled public columns u
    of a row and their mean. The results are intercept and coef, and the scales that
    give public and private centred columns a typical norm of 1. `statistic` is the
    released `CrossSum`. Slopes with much noise are shrunk.
    """
    rows, spread = regressors.rows, regressors.spread
    gram, n_rows = (rows * regressors.weights[:, None]).T @ rows, len(rows)
    moments = statistic[:-1].reshape(len(gram), -1)
    n_private = moments.shape[1]
    total = gram[0, 0]
    shift = gram[0, 1:] / total
    # Eliminate the intercept. The slopes of each principal direction then have a
    # separate solution.
    curvature, directions = eigh(gram[1:, 1:] - np.outer(shift, gram[0, 1:]))
    curvature = np.maximum(curvature, 1e-12 * total * spread**2)
    slopes = directions.T @ (moments[1:] - np.outer(shift, moments[0]))
    slopes /= curvature[:, None]
    stds = noise_std * np.sqrt(1 + (directions.T @ shift) ** 2) / curvature
    noise = spread**2 * n_private * stds**2
    # James-Stein factors. The squared norm of noise alone, with n entries of variance
    # v, has the mean n v and the standard deviation sqrt(2 n) v. With the mean as the
    # threshold (Stein's rule), half of such vectors would be kept.
    threshold = (n_private + _SIGNIFICANCE * math.sqrt(2 * n_private)) * stds**2
    squares = np.maximum(np.sum(slopes**2, axis=1), np.finfo(float).tiny)
    factors = np.maximum(0.0, 1 - threshold / squares)
    factors[noise > _MOST_NOISE] = 0.0
    slopes = directions @ (factors[:, None] * slopes)
    mean, _ = shrunk_mean(moments[0] / total, noise_std / total)
    intercept = mean - shift @ slopes
    error = float(n_private * (noise_std / total) ** 2 + factors**2 @ noise)
    rest = min(1.0, 1 - statistic[-1] / n_rows) - intercept @ intercept
    rest -= spread**2 * np.sum(slopes**2)
    # `rest` estimates the mean squared norm of the centred private rows. Lower limits
    # prevent that noise in this estimate increases the scale of rows.
    rest = max(rest, min(1.0, noise_std / n_rows))
    rest = max(rest, min(0.05, max(error, 1e-6)))
    # The transformed rows contain the centred u, not z. The variance of u therefore
    # determines the public scale.
    variance = regressors.variance
    ours = math.sqrt(MEAN_SHARE / variance) if variance > 0 else 1.0
    return (
        intercept,
        regressors.basis @ slopes,
        ours,
        math.sqrt((1 - MEAN_SHARE) / rest),
    )


@documented
@public("skfdp")
class PrivateCenteringTransformer(
    OneToOneFeatureMixin, TransformerMixin, PrivateEstimator
):
    r"""Transformer that centres rows by a private mean, or by a private prediction.

    Without `public_features` the whole row is private and is centred by a released
    mean. With `public_features` a linear model predicts the private columns from the
    public ones, and the prediction is subtracted (conditional centring). The
    coefficients of this model are released once. Public columns are centred exactly and
    stay public.

    The output rows have a norm of at most `output_bound`. Set ``bounds=False`` in the
    next estimator, which then uses these rows unchanged.

    Parameters
    ----------
    epsilon, delta : float, default=0.1, 1e-5
        The budget of one `fit`, in addition to that of later steps
        (:func:`skfdp.report` of the Pipeline composes them exactly).
        ``epsilon=float("inf")`` uses the exact mean or least squares, without privacy.
    public_features : None, names, indices, mask or slice, default=None
        The public columns, as in `FeatureDPLogisticRegression`. Later steps must have
        the same public columns, or none.
    <neighboring_relation>
    bounds : pair, mapping, False or None, default=None
        Declared public bounds of the columns; see `DPSGDFClassifier`. If there are
        public columns, and all private columns have bounds, the noise under
        "replace_one" is smaller by the factor sqrt(2).
    row_norm : float or "auto", default="auto"
        L2 bound of a row that was scaled by `bounds`; longer rows are scaled down to
        it. If there are public columns, only the private part of a row is bounded.
        "auto" is 1.0 without public columns, otherwise ``sqrt(n_private / 2)`` within
        [1, 2]. So rows of few dense columns keep their length, and rows of many columns
        are shortened.
    normalize : bool or "auto", default="auto"
        Whether to scale every non-zero row (or its private part) to the norm
        `row_norm`, which then has no effect and is refused. "auto" does so only without
        public columns.
    output_bound : float, default=1.0
        L2 bound of an output row.
    <ledger>
    <random_state>

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Mean of the scaled rows. It is exact for public columns. For private columns it
        is released: without public columns as a mean shrunk toward zero, otherwise as
        the prediction at the mean of the public columns.
    coef_ : ndarray of shape (n_public, n_private)
        Released slopes of the prediction: change of a private column (divided by
        `row_norm`) per unit of a public column as scaled by `bounds`. Slopes in
        directions that may be noise only are set to zero. Without public columns
        `coef_` has no rows.
    scale_ : ndarray of shape (n_features,)
        Factors by which `transform` multiplies the centred columns, before it limits
        the norm. The public columns share one factor, which is computed exactly. The
        private columns share another, which is released.
    public_mask_ : bool ndarray of shape (n_features,)
    <input_scaler_>
    <privacy_>
    <n_features_in_>
    <feature_names_in_>

    Notes
    -----
    **Guarantees.** The fitted attributes are (epsilon, delta)-differentially private
    for the private part of a record, if `random_state` is None. There is one Gaussian
    release, in exact integers (:ref:`sensitivities`): without public columns the sum of
    rows of norm at most 1; with public columns the cross moments of the public and the
    private part of rows, each of norm at most 1, and the sum over rows of 1 minus the
    squared norm of the private part (:ref:`conditional-centring`).

    The output of `transform` is **not** differentially private: it is the centred data.
    Each output row depends only on its own row and on fitted attributes.

    With `public_features` the public output columns depend on public columns only, bit
    for bit, so they may be `public_features` of the next step. Without
    `public_features` rows are scaled by a norm of all columns, so no output column is
    public, and `skfdp.report` refuses a Pipeline that declares one public. Centred
    columns have both signs, so the next step cannot use the smaller sensitivity of
    non-negative columns.

    References
    ----------
    Sun, Suresh and Menon (2023), Algorithm 3, steps 1 and 2,
    https://arxiv.org/abs/2307.11106. Conditional centring combines these steps with the
    public features of Mahloujifar, Guo, Suh and Chaudhuri (2023).

    Examples
    --------
    >>> import numpy as np
    >>> from skfdp import PrivateCenteringTransformer
    >>> X = np.random.default_rng(0).uniform(2, 3, size=(1000, 4))
    >>> centre = PrivateCenteringTransformer(bounds=(0, 4), random_state=0)
    >>> rows = centre.fit_transform(X)
    >>> bool(np.linalg.norm(rows, axis=1).max() <= 1)
    True

    The last column equals the first, which is public:

    >>> X[:, 3] = X[:, 0]
    >>> centre = PrivateCenteringTransformer(
    ...     10.0,
    ...     public_features=[0],
    ...     neighboring_relation="replace_special",
    ...     bounds=(0, 4),
    ...     row_norm=2.0,
    ...     random_state=0,
    ... )
    >>> float(centre.fit(X).coef_[0, 2].round(1))
    0.5
    """

    def __init__(
        self,
        epsilon=0.1,
        delta=1e-5,
        *,
        public_features=None,
        neighboring_relation="replace_one",
        bounds=None,
        row_norm="auto",
        normalize="auto",
        output_bound=1.0,
        ledger=None,
        random_state=None,
    ) -> None:
        self._set(locals())

    _released = ("mean_", "coef_", "scale_")

    def _check_parameters(self, declared: Declaration) -> None:
        super()._check_parameters(declared)
        check_size("row_norm", self.row_norm, also=("auto",))
        check_size("output_bound", self.output_bound)
        check_choice("normalize", self.normalize, (True, False, "auto"))

    def _norm(self, given: Mapping[str, Any], mask: np.ndarray) -> tuple[Any, bool]:
        bound, normalize = given["row_norm"], given["normalize"]
        if bound == "auto":
            n_private = int((~mask).sum())
            # With public columns the bound is the norm of a typical row of dense
            # private columns, but at least 1 and at most 2. With few columns a typical
            # row is not shortened, because its length is informative. With more than 8
            # columns it is shortened, which loses little. One-hot rows rarely exceed
            # the bound.
            typical = float(np.clip(math.sqrt(n_private / 2), 1.0, 2.0))
            bound = typical if mask.any() else 1.0
        if normalize == "auto":
            normalize = not mask.any()
        return bound, normalize

    def _methods(self, public: PublicRecords) -> list[Any]:
        return [PrivateCentring()]

    def _without_privacy(self, records: Records) -> Found:
        return PrivateCentring().exactly(records)

    def _attributes(self, public: PublicRecords, found: Found) -> dict[str, Any]:
        own = {"input_scaler_": public.input_scaler, "public_mask_": public.mask}
        return own | found

    @without_traps()
    def transform(self, X) -> Any:
        """Centre and scale rows, then scale down those longer than `output_bound`.

        With public columns, first the public part of a row is shortened to a squared
        norm of at most ``output_bound**2 / 2``. Then the private part is shortened, so
        that the norm of the row is at most `output_bound`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        rows : float64 ndarray of shape (n_samples, n_features)
        """
        X = self._rows_to_predict(X)
        rows = np.empty(X.shape)
        for block in blocks(*X.shape):
            rows[block] = self._centred(X[block]) * self.output_bound
        return rows

    def _centred(self, X: np.ndarray) -> np.ndarray:
        public = self.public_mask_
        if not public.any():
            return _cut((self.input_scaler_.mapped(X) - self.mean_) * self.scale_, 1.0)
        mean, scale = self.mean_, self.scale_
        U = self.input_scaler_.part(public).scale(X[:, public]) - mean[public]
        P = self.input_scaler_.part(~public).mapped(X[:, ~public]) - mean[~public]
        P -= U @ self.coef_
        rows = np.empty(X.shape)
        public_part = _cut(U * scale[public], math.sqrt(LARGEST_PUBLIC_SHARE))
        remaining = np.sqrt(1 - np.sum(public_part**2, axis=1))
        rows[:, public] = public_part
        rows[:, ~public] = _cut(P * scale[~public], remaining)
        return rows


def _cut(rows: np.ndarray, bound: float | np.ndarray) -> np.ndarray:
    """Shorten rows to norms below the bound (one bound, or one per row)."""
    bound = np.broadcast_to(bound, len(rows))
    return InputScaler().mapped(rows / bound[:, None]) * (bound * _MARGIN)[:, None]
