"""Private centring as a transformer."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin

from skfdp.addresses import public
from skfdp.base import PrivateEstimator
from skfdp.data.grid import MAX_STD, blocks
from skfdp.data.input_scaler import InputScaler
from skfdp.data.records import PublicRecords, Records
from skfdp.data.validation import check_choice, check_size, without_traps
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy.checks import shown
from skfdp.queries.statistics import CrossSum, RowSum
from skfdp.solvers import parameters
from skfdp.solvers.centring import (
    LARGEST_PUBLIC_SHARE,
    Regressors,
    centre,
)
from skfdp.solvers.method import Budget, OnStep, Plan
from skfdp.solvers.parameters import resolve_input_scaler

# Rounding must not lift a norm above the bound.
_MARGIN = 1 - 1e-12


@dataclasses.dataclass(frozen=True)
class Centred:
    """The numbers of `transform`: see the attributes of the transformer."""

    mean: np.ndarray
    coef: np.ndarray
    scale: np.ndarray


@dataclasses.dataclass(frozen=True)
class PrivateMean:
    """The centring of whole rows by their mean, released once."""

    def prepare(self, public: PublicRecords, budget: Budget) -> None:
        """Learn nothing: no column is public."""

    def plan(self, public: PublicRecords, prepared: None, budget: Budget) -> Plan:
        """Calibrate the release of the mean."""
        query = RowSum.planned(nonnegative=public.private_bounded)
        return Plan(**budget.release_once("mean", query))

    def run(
        self,
        records: Records,
        prepared: None,
        plan: Plan,
        mechanism: Mechanism,
        on_step: OnStep,
    ) -> Centred:
        """Release the sum of the rows."""
        public = records.public
        bounded = public.private_bounded
        query = RowSum(records.X, public.input_scaler, public.capacity, bounded)
        total = mechanism.release("mean", query)
        noise_std = plan.event("mean").noise_std[0] / public.n_records
        return self._centred(total / public.n_records, noise_std)

    def exactly(self, records: Records) -> Centred:
        """Return the same without noise."""
        X, input_scaler = records.X, records.input_scaler
        total = sum(
            input_scaler.mapped(X[block]).sum(axis=0) for block in blocks(*X.shape)
        )
        return self._centred(total / records.public.n_records, 0.0)

    @staticmethod
    def _centred(mean: np.ndarray, noise_std: float) -> Centred:
        mean = parameters.shrunk_mean(mean, noise_std)
        scale = np.full(mean.shape, parameters.centred_scale(mean, noise_std))
        return Centred(mean, np.zeros((0, len(mean))), scale)


@dataclasses.dataclass(frozen=True)
class ConditionalCentring:
    """The centring of private columns by a prediction, released once.

    `weighted` is False for ordinary least squares, in fits without privacy.
    """

    weighted: bool = True

    def prepare(self, public: PublicRecords, budget: Budget | None) -> Regressors:
        """Whiten the public columns."""
        U = public.input_scaler.of_public(public.mask).scale(public.X)
        return Regressors(U, weighted=self.weighted)

    def plan(self, public: PublicRecords, prepared: Regressors, budget: Budget) -> Plan:
        """Calibrate the release of the cross moments."""
        query = CrossSum.planned(nonnegative=public.private_bounded)
        plan = Plan(**budget.release_once("cross moments", query))
        std = float(plan.schedule.noise_std[0])
        if std / query.unit(std) > MAX_STD:
            raise ValueError(
                f"epsilon={budget.epsilon!r} and delta={budget.delta!r} need more "
                "noise than the grid of the released sum can carry: raise the budget."
            )
        return plan

    def run(
        self,
        records: Records,
        prepared: Regressors,
        plan: Plan,
        mechanism: Mechanism,
        on_step: OnStep,
    ) -> Centred:
        """Release the cross moments of public regressors and private columns."""
        private, bounded = ~records.public.mask, records.public.private_bounded
        input_scaler = records.input_scaler.part(private)
        query = CrossSum(
            records.X[:, private], input_scaler, prepared.grid, nonnegative=bounded
        )
        total = mechanism.release("cross moments", query)
        std = plan.events[0].noise_std[0]
        return self._centred(records.public, prepared, total, std)

    def exactly(self, records: Records) -> Centred:
        """Return the same without noise."""
        private = ~records.public.mask
        regressors = self.prepare(records.public, None)
        rows = records.input_scaler.part(private).mapped(records.X[:, private])
        total = np.append(regressors.rows.T @ rows, len(rows) - np.sum(rows**2))
        return self._centred(records.public, regressors, total, 0.0)

    @staticmethod
    def _centred(
        public: PublicRecords, regressors: Regressors, total: np.ndarray, std: float
    ) -> Centred:
        found, mask = centre(regressors, total, std), public.mask
        mean = np.empty(len(mask))
        mean[mask], mean[~mask] = regressors.mean, found.intercept
        scale = np.where(mask, found.public_scale, found.private_scale)
        return Centred(mean, found.coef, scale)


@public("skfdp")
class PrivateCenteringTransformer(
    OneToOneFeatureMixin, TransformerMixin, PrivateEstimator
):
    r"""Transformer that centres rows by a private mean, or by a private prediction.

    Without `public_features` the whole row is private and is centred by a released
    mean. With them the private columns are centred by a linear prediction from the
    public ones (conditional centring), whose coefficients are released once; public
    columns are centred exactly and stay public.

    The output rows have a norm of at most `output_bound`. An estimator that follows
    takes them as they are (``bounds=False``): nothing has to be tuned in between.

    Parameters
    ----------
    epsilon, delta : float, default=0.1, 1e-5
        The budget of one `fit`; it adds to that of the steps that follow
        (:func:`skfdp.report` of the Pipeline composes them exactly).
        ``epsilon=float("inf")``: the exact mean or least squares, no privacy.
    public_features : None, names, indices, mask or slice, default=None
        The public columns, as in `FeatureDPLogisticRegression`. The steps that follow
        must have the same ones, or none.
    neighboring_relation : {"replace_one", "replace_special"} or AddOrRemoveOne
        What changes between neighbouring data sets; see :ref:`protected`. The last one
        only without `public_features`.
    bounds : pair, mapping, False or None, default=None
        Declared public bounds of the columns; see `DPSGDFClassifier`. Where they cover
        every private column beside public ones, "replace_one" needs less noise by the
        factor sqrt(2).
    row_norm : float or "auto", default="auto"
        L2 bound of a row after `bounds`, of its private columns alone if there are
        public ones; longer ones are scaled back. "auto": 1.0 where nothing is public;
        else ``sqrt(n_private / 2)``, at least 1 and at most 2: few dense columns keep
        their length, which shortening would cost them; many columns lose it.
    normalize : bool or "auto", default="auto"
        Scale every non-zero row (or its private part) to the norm `row_norm`.
        "auto": only where nothing is public.
    output_bound : float, default=1.0
        L2 bound of an output row.
    ledger : str, path or PrivacyLedger, default=None
        Charged before anything private is read.
    random_state : int, default=None
        None: cryptographic noise. An int: reproducible, **no guarantee**.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Of the mapped rows: exact for public columns; for the others released and shrunk
        toward zero, the prediction where the public columns have their mean.
    coef_ : ndarray of shape (n_public, n_private)
        Released slopes of the prediction: private columns, divided by `row_norm`,
        per unit of a public column as scaled by `bounds`. Directions that may be noise
        alone are left out; without public columns it has no rows.
    scale_ : ndarray of shape (n_features,)
        Factors of the centred columns for output rows of norm 1: one for all public
        columns, from them alone, and a released one for all others.
    public_mask_ : bool ndarray of shape (n_features,)
    input_scaler_ : InputScaler
    privacy_ : PrivacyReport
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Notes
    -----
    **Guarantees.** The fitted attributes are (epsilon, delta)-differentially private
    for the private part of a record, if `random_state` is None. There is one Gaussian
    release, in exact integers:

    * without public columns, of the sum of rows of norm at most 1, which moves by at
      most 1 between neighbours (2 under "replace_one");
    * with them, of the cross moments of public rows and private ones, both of norm at
      most 1, and of what the squared private norms lack to 1. Together they move by at
      most 1 under "replace_special", 2 under "replace_one", and sqrt(2) there if
      declared bounds make every private column non-negative
      (:ref:`conditional-centring`).

    The output of `transform` is **not** private: it is the data, centred; each output
    row depends on its own row and on fitted attributes alone.

    With `public_features` the public output columns are functions of public columns
    alone, and are bit for bit the same whatever the private ones hold: they may be
    `public_features` of the next step. Without, rows are scaled by a norm of all their
    columns, no output column is public, and `skfdp.report` refuses a Pipeline that
    treats one so. Centred columns have both signs: what follows cannot use that
    columns are non-negative.

    References
    ----------
    Sun, Suresh and Menon (2023), Algorithm 3, steps 1 and 2,
    https://arxiv.org/abs/2307.11106. Conditional centring joins it with the public
    features of Mahloujifar, Guo, Suh and Chaudhuri (2023).

    Examples
    --------
    >>> import numpy as np
    >>> from skfdp import PrivateCenteringTransformer
    >>> X = np.random.default_rng(0).uniform(2, 3, size=(1000, 4))
    >>> centre = PrivateCenteringTransformer(bounds=(0, 4), random_state=0)
    >>> rows = centre.fit_transform(X)
    >>> bool(np.linalg.norm(rows, axis=1).max() <= 1)
    True

    The last column follows the first, which is public:

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
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.public_features = public_features
        self.neighboring_relation = neighboring_relation
        self.bounds = bounds
        self.row_norm = row_norm
        self.normalize = normalize
        self.output_bound = output_bound
        self.ledger = ledger
        self.random_state = random_state

    _released = ("mean_", "coef_", "scale_")
    _has_target = False

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_size("row_norm", self.row_norm, also=("auto",))
        check_size("output_bound", self.output_bound)
        check_choice("normalize", self.normalize, (True, False, "auto"))

    def _check_split(self, mask: np.ndarray) -> None:
        if mask.all():
            raise ValueError(
                f"public_features={shown(self.public_features)} names every column: "
                "there is nothing to centre privately; use StandardScaler."
            )
        super()._check_split(mask)

    def _input_scaler(
        self, n_features: int, names, mask: np.ndarray, sparse: bool, table
    ) -> InputScaler:
        bound, normalize = self.row_norm, self.normalize
        if bound == "auto":
            n_private = int((~mask).sum())
            # Beside public columns about the norm of a typical row of a few dense
            # columns, so that it is not cut: its length is one direction of few. Of
            # many columns the cut takes little, and one-hot ones are seldom longer.
            typical = float(np.clip(math.sqrt(n_private / 2), 1.0, 2.0))
            bound = typical if mask.any() else 1.0
        if normalize == "auto":
            normalize = not mask.any()
        return resolve_input_scaler(
            self.bounds, bound, normalize, n_features, names, public=mask
        )

    def _method(self, public: PublicRecords) -> PrivateMean | ConditionalCentring:
        if not public.mask.any():
            return PrivateMean()
        return ConditionalCentring(weighted=math.isfinite(self.epsilon))

    def _without_privacy(self, records: Records) -> Centred:
        return self._method(records.public).exactly(records)

    def _attributes(self, public: PublicRecords, found: Centred) -> dict[str, Any]:
        return {
            "input_scaler_": public.input_scaler,
            "public_mask_": public.mask,
            "mean_": found.mean,
            "coef_": found.coef,
            "scale_": found.scale,
        }

    @without_traps()
    def transform(self, X):
        """Centre and scale rows, then scale back those longer than `output_bound`.

        With public columns their part of a row is shortened by itself first, to at
        most half of the squared norm; then the private part to what that leaves.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        rows : float64 ndarray of shape (n_samples, n_features)
        """
        X = self._rows_to_predict(X)
        rows = np.empty(X.shape)
        centre = self._centre_blocks if self.public_mask_.any() else self._centre_rows
        for block in blocks(*X.shape):
            rows[block] = centre(X[block]) * self.output_bound
        return rows

    def _centre_rows(self, X: np.ndarray) -> np.ndarray:
        return _cut((self.input_scaler_.mapped(X) - self.mean_) * self.scale_, 1.0)

    def _centre_blocks(self, X: np.ndarray) -> np.ndarray:
        public = self.public_mask_
        mean, scale = self.mean_, self.scale_
        U = self.input_scaler_.part(public).scale(X[:, public]) - mean[public]
        P = self.input_scaler_.part(~public).mapped(X[:, ~public]) - mean[~public]
        P -= U @ self.coef_
        rows = np.empty(X.shape)
        shown = _cut(U * scale[public], math.sqrt(LARGEST_PUBLIC_SHARE))
        room = np.sqrt(1 - np.sum(shown**2, axis=1))
        rows[:, public] = shown
        rows[:, ~public] = _cut(P * scale[~public], room)
        return rows


def _cut(rows: np.ndarray, bound: float | np.ndarray) -> np.ndarray:
    """Shorten rows to norms below the bound, one for all or one for each."""
    bound = np.broadcast_to(bound, len(rows))
    return InputScaler().mapped(rows / bound[:, None]) * (bound * _MARGIN)[:, None]
