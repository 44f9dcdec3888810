"""Private centring as a transformer."""

from __future__ import annotations

import copy
import dataclasses
import math

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skfdp.addresses import public
from skfdp.estimators import defaults
from skfdp.estimators.arrays import check_arrays
from skfdp.estimators.centring.conditional import LARGEST_PUBLIC_SHARE, Blocks, part
from skfdp.estimators.parameters import (
    ASSUMPTIONS,
    MOST_ROWS,
    check_nothing_public,
    check_privacy_parameters,
    complete_parameters,
    forget,
    public_count,
    resolve_row_map,
    resolved_parameters,
)
from skfdp.privacy import Event, Relation, calibrate
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.store import Receipt
from skfdp.queries import MAX_STD
from skfdp.queries.statistics import RowSum
from skfdp.records.blocks import blocks
from skfdp.records.checks import check_choice, check_size, shown
from skfdp.records.guards import guarded_fit, without_traps
from skfdp.records.names import column_names, name_facts
from skfdp.records.public_columns import public_mask
from skfdp.records.row_map import RowMap
from skfdp.releases.desk import Desk
from skfdp.releases.noise import Streams, warn_of_seed

# Rounding must not lift a norm above the bound.
_MARGIN = 1 - 1e-12


@dataclasses.dataclass(frozen=True)
class _WholeRows:
    """Rows of which nothing is public; the counterpart of `Blocks`."""

    X: np.ndarray
    row_map: RowMap
    n_records: int

    @property
    def query(self) -> RowSum:
        return RowSum(self.X, self.row_map, MOST_ROWS * self.n_records)

    def sensitivity(self, relation: Relation) -> float:
        return self.query.sensitivity(relation)

    def exact_sum(self) -> np.ndarray:
        X = self.X
        return sum(self.row_map.unit(X[b]).sum(axis=0) for b in blocks(*X.shape))

    def centre(
        self, total: np.ndarray, noise_std: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        noise_std = noise_std / self.n_records
        mean = defaults.shrunk_mean(total / self.n_records, noise_std)
        scale = np.full(mean.shape, defaults.centred_scale(mean, noise_std))
        return mean, np.zeros((0, len(mean))), scale


@public("skfdp")
class PrivateCenteringTransformer(
    OneToOneFeatureMixin, TransformerMixin, BaseEstimator
):
    r"""Centre the rows by a private mean, or by what public columns predict.

    Without `public_features` the whole row is private and is centred by a released
    mean. With them the private columns are centred by a linear prediction from the
    public ones (conditional centring), whose coefficients are released once; public
    columns are centred exactly and stay public.

    The output rows have a norm of at most `output_bound`, which is the default
    `feature_bound` of the estimators that follow: nothing has to be tuned in between.

    Parameters
    ----------
    epsilon, delta : float, default=0.1, 1e-5
        The budget of one `fit`; it adds to that of the steps that follow
        (:func:`skfdp.report` of the Pipeline composes them exactly).
        ``epsilon=float("inf")``: the exact mean or least squares, no privacy.
    public_features : None, names, indices, mask, slice or callable, default=None
        The public columns, as in `FeatureDPLogisticRegression`. The steps that follow
        must have the same ones, or none.
    neighboring_relation : {"replace_special", "replace_one", "add_or_remove_one"}
        What changes between neighbouring data sets; see :ref:`protected`. The last one
        only without `public_features`.
    n_records : int, default=None
        Public nominal count, for "add_or_remove_one" only, where n is private.
    bounds : pair, mapping, False or None, default=None
        Declared public bounds of the columns; see `DPSGDFClassifier`. Where they cover
        every private column beside public ones, "replace_one" needs less noise by the
        factor sqrt(2).
    feature_bound : float or "auto", default="auto"
        L2 bound of a row after `bounds`, of its private columns alone if there are
        public ones; longer ones are scaled back. "auto": 1.0 where nothing is public;
        else ``sqrt(n_private / 2)``, at least 1 and at most 2: few dense columns keep
        their length, which is one direction of few, and many lose it.
    normalize : bool or "auto", default="auto"
        Scale every non-zero row (or its private part) to the norm `feature_bound`.
        "auto": only where nothing is public.
    output_bound : float, default=1.0
        L2 bound of an output row.
    names : str, list or dict, default=None
        Names of the columns of X in the table that they come from, where X does not say
        so: one name for all, one for each, or a mapping from column names, patterns or
        positions. What is computed from one column (its categories, a spline) shares
        its name. For reports and ledgers.
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
        Released slopes of the prediction: private columns, divided by `feature_bound`,
        per unit of a public column as scaled by `bounds`. Directions that may be noise
        alone are left out; without public columns it has no rows.
    scale_ : ndarray of shape (n_features,)
        Factors of the centred columns for output rows of norm 1: one for all public
        columns, from them alone, and a released one for all others.
    public_mask_ : bool ndarray of shape (n_features,)
    row_map_ : RowMap
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
    ...     10.0, public_features=[0], bounds=(0, 4), feature_bound=2.0, random_state=0
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
        neighboring_relation="replace_special",
        n_records=None,
        bounds=None,
        feature_bound="auto",
        normalize="auto",
        output_bound=1.0,
        names=None,
        ledger=None,
        random_state=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.public_features = public_features
        self.neighboring_relation = neighboring_relation
        self.n_records = n_records
        self.bounds = bounds
        self.feature_bound = feature_bound
        self.normalize = normalize
        self.output_bound = output_bound
        self.names = names
        self.ledger = ledger
        self.random_state = random_state

    def __setstate__(self, state):
        super().__setstate__(state)
        complete_parameters(self)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a fit came to its end."""
        return hasattr(self, "mean_")

    @guarded_fit
    def fit(self, X, y=None):
        """Release what centres the rows, charging the ledger first.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Dense. Each record once.
        y : None
            Ignored.

        Returns
        -------
        self : object
        """
        forget(self)
        check_size("feature_bound", self.feature_bound, also=("auto",))
        check_privacy_parameters(self._bounded(1.0))
        check_size("output_bound", self.output_bound)
        check_choice("normalize", self.normalize, (True, False, "auto"))
        ledger = PrivacyLedger.resolve(self.ledger)
        frame, X = X, check_arrays(self, X)
        public = self._public_mask(X, frame)
        rows = self._rows(X, public)
        events, std, receipt = (), 0.0, None
        if math.isinf(self.epsilon):
            if ledger is not None:
                receipt = ledger.charge_nonprivate(label=type(self).__name__)
            total = rows.exact_sum()
        else:
            warn_of_seed(self.random_state)
            event = self._event(rows, public)
            events, std = (event,), event.noise_std[0]
            if ledger is not None:
                receipt = ledger.charge(events, label=type(self).__name__)
            streams = Streams(
                self.random_state,
                type(self),
                (X,),
                resolved_parameters(self, public, rows.row_map),
            )
            total = Desk(events, streams).release(event.label, rows.query)
        mean, coef, scale = rows.centre(total, std)
        self.row_map_, self.public_mask_ = rows.row_map, public
        self.privacy_ = self._report(events, rows.n_records, receipt)
        self.mean_, self.coef_, self.scale_ = mean, coef, scale
        return self

    def _public_mask(self, X: np.ndarray, frame) -> np.ndarray:
        names = getattr(self, "feature_names_in_", None)
        public = public_mask(self.public_features, X.shape[1], names, frame)
        if public.all():
            raise ValueError(
                f"public_features={shown(self.public_features)} names every column: "
                "there is nothing to centre privately; use StandardScaler."
            )
        if math.isfinite(self.epsilon):
            check_nothing_public(self, public, False)
        return public

    def _rows(self, X: np.ndarray, public: np.ndarray) -> _WholeRows | Blocks:
        names = getattr(self, "feature_names_in_", None)
        bound = defaults.block_bound(int((~public).sum())) if public.any() else 1.0
        row_map = resolve_row_map(self._bounded(bound), X.shape[1], names)
        normalize = self.normalize
        if normalize == "auto":
            normalize = not public.any()
        row_map = dataclasses.replace(row_map, normalize=bool(normalize))
        n_public = public_count(self, len(X))
        if not public.any():
            return _WholeRows(X, row_map, n_public)
        return Blocks(X, row_map, public, math.isinf(self.epsilon))

    def _bounded(self, auto: float) -> PrivateCenteringTransformer:
        """Return a copy whose feature_bound is a number."""
        if self.feature_bound != "auto":
            return self
        return copy.copy(self).set_params(feature_bound=auto)

    def _event(self, rows: _WholeRows | Blocks, public: np.ndarray) -> Event:
        plan = calibrate(
            self.epsilon,
            self.delta,
            n_steps=1,
            sensitivity=rows.sensitivity(Relation.of(self.neighboring_relation)),
            neighboring_relation=self.neighboring_relation,
        )
        std = plan.event.noise_std[0]
        if std / rows.query.unit(std) > MAX_STD:
            raise ValueError(
                f"epsilon={self.epsilon!r} and delta={self.delta!r} need more noise "
                "than the grid of the released sum can carry: raise the budget."
            )
        return dataclasses.replace(
            plan.event,
            label="cross moments" if public.any() else "mean",
            seeded=self.random_state is not None,
            **name_facts(column_names(self), public, has_target=False),
        )

    def _report(
        self, events: tuple, n_public: int, receipt: Receipt | None
    ) -> PrivacyReport:
        return PrivacyReport.from_events(
            subject=type(self).__name__,
            events=events,
            delta=self.delta,
            target_epsilon=self.epsilon,
            n_records=n_public,
            feature_names=column_names(self),
            released=("mean_", "coef_", "scale_"),
            assumptions=ASSUMPTIONS,
            seeded=self.random_state is not None,
            receipts=[receipt],
        )

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
        check_is_fitted(self)
        X = check_arrays(self, X, reset=False)
        rows = np.empty(X.shape)
        centre = self._centre_blocks if self.public_mask_.any() else self._centre_rows
        for block in blocks(*X.shape):
            rows[block] = centre(X[block]) * self.output_bound
        return rows

    def _centre_rows(self, X: np.ndarray) -> np.ndarray:
        return _cut((self.row_map_.unit(X) - self.mean_) * self.scale_, 1.0)

    def _centre_blocks(self, X: np.ndarray) -> np.ndarray:
        public = self.public_mask_
        mean, scale = self.mean_, self.scale_
        U = part(self.row_map_, public).scale(X[:, public]) - mean[public]
        P = part(self.row_map_, ~public).unit(X[:, ~public]) - mean[~public]
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
    return RowMap().unit(rows / bound[:, None]) * (bound * _MARGIN)[:, None]
