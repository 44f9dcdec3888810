"""Private centring as a transformer."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skfdp import defaults
from skfdp.checks import check_number
from skfdp.noise import Streams
from skfdp.privacy import Event, calibrate
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.report import PrivacyReport
from skfdp.queries.statistics import RowSum
from skfdp.releases import release
from skfdp.rows import RowMap, blocks
from skfdp.validation import (
    ASSUMPTIONS,
    MOST_ROWS,
    check_arrays,
    check_privacy_parameters,
    feature_labels,
    forget,
    public_count,
    resolve_row_map,
)


class PrivateCenteringTransformer(
    OneToOneFeatureMixin, TransformerMixin, BaseEstimator
):
    r"""Centre the rows by a private mean; every record is private.

    The output rows have a norm of at most `output_bound`, which is the default
    `feature_bound` of the estimators that follow: nothing has to be tuned in between.

    Parameters
    ----------
    epsilon, delta : float, default=0.1, 1e-5
        The budget of one `fit`; it adds to that of the steps that follow
        (:func:`skfdp.report` of the Pipeline composes them exactly).
        ``epsilon=float("inf")``: the exact mean, no privacy.
    neighboring_relation : {"replace_special", "replace_one", "add_or_remove_one"}
        What changes between neighbouring data sets; see :ref:`protected`.
    n_records : int, default=None
        Public nominal count, for "add_or_remove_one" only, where n is private.
    bounds : pair, mapping, False or None, default=None
        Declared public bounds of the columns; see `DPSGDFClassifier`.
    feature_bound : float, default=1.0
        L2 bound of a row after `bounds`; longer rows are scaled back.
    normalize : bool, default=True
        Scale every non-zero row to the norm `feature_bound`.
    output_bound : float, default=1.0
        L2 bound of an output row.
    ledger : str, path or PrivacyLedger, default=None
        Charged before anything private is read.
    random_state : int, default=None
        None: cryptographic noise. An int: reproducible, **no guarantee**.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Released mean of the mapped rows, shrunk toward zero.
    scale_ : float
        Factor of the centred rows, from `mean_` and `output_bound`.
    row_map_ : RowMap
    privacy_ : PrivacyReport
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Notes
    -----
    **Guarantees.** The fitted attributes are (epsilon, delta)-differentially private
    for the whole record, if `random_state` is None: a mapped row has norm at most 1,
    so the sum moves by at most 1 between neighbours (2 under "replace_one"), and it is
    released once with Gaussian noise. The output of `transform` is **not** private: it
    is the data, centred; each output row depends on its own row and on `mean_` alone.

    Rows are scaled by a norm of all their columns: no output column is public, even if
    the input column was, and `skfdp.report` refuses a Pipeline that treats one so.

    References
    ----------
    Sun, Suresh and Menon (2023), Algorithm 3, steps 1 and 2,
    https://arxiv.org/abs/2307.11106.

    Examples
    --------
    >>> import numpy as np
    >>> from skfdp import PrivateCenteringTransformer
    >>> X = np.random.default_rng(0).uniform(2, 3, size=(1000, 4))
    >>> centre = PrivateCenteringTransformer(bounds=(0, 4), random_state=0)
    >>> rows = centre.fit_transform(X)
    >>> bool(np.linalg.norm(rows, axis=1).max() <= 1)
    True
    """

    def __init__(
        self,
        epsilon=0.1,
        delta=1e-5,
        *,
        neighboring_relation="replace_special",
        n_records=None,
        bounds=None,
        feature_bound=1.0,
        normalize=True,
        output_bound=1.0,
        ledger=None,
        random_state=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.neighboring_relation = neighboring_relation
        self.n_records = n_records
        self.bounds = bounds
        self.feature_bound = feature_bound
        self.normalize = normalize
        self.output_bound = output_bound
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a fit came to its end."""
        return hasattr(self, "mean_")

    def fit(self, X, y=None):
        """Release the mean, charging the ledger first.

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
        check_privacy_parameters(self)
        check_number("output_bound", self.output_bound)
        ledger = PrivacyLedger.resolve(self.ledger)
        X = check_arrays(self, X)
        names = getattr(self, "feature_names_in_", None)
        row_map = resolve_row_map(self, X.shape[1], names)
        n_public = public_count(self, len(X))
        if math.isinf(self.epsilon):
            if ledger is not None:
                ledger.charge_nonprivate(label=type(self).__name__)
            events = ()
            mean = sum(row_map.unit(X[b]).sum(axis=0) for b in blocks(*X.shape))
            mean = mean / len(X)
        else:
            event = self._event()
            events = (event,)
            if ledger is not None:
                ledger.charge(events, label=type(self).__name__)
            mean = self._release(X, row_map, n_public, event)
        self.row_map_ = row_map
        noise_std = events[0].noise_std[0] / n_public if events else 0.0
        self.scale_ = self.output_bound * defaults.centred_scale(mean, noise_std)
        self.privacy_ = self._report(events, n_public)
        self.mean_ = mean
        return self

    def _event(self) -> Event:
        plan = calibrate(
            self.epsilon,
            self.delta,
            n_steps=1,
            neighboring_relation=self.neighboring_relation,
        )
        return dataclasses.replace(
            plan.event, label="mean", seeded=self.random_state is not None
        )

    def _release(
        self, X: np.ndarray, row_map: RowMap, n_public: int, event: Event
    ) -> np.ndarray:
        streams = Streams(
            self.random_state,
            type(self).__name__,
            (X,),
            self.get_params(deep=False),
        )
        std = event.noise_std[0]
        total = release(
            RowSum(X, row_map, MOST_ROWS * n_public),
            None,
            noise_std=std,
            generator=streams.private("mean", event),
        )
        return defaults.shrunk_mean(total / n_public, std / n_public)

    def _report(self, events: tuple, n_public: int) -> PrivacyReport:
        return PrivacyReport.from_events(
            subject=type(self).__name__,
            events=events,
            delta=self.delta,
            target_epsilon=self.epsilon,
            n_records=n_public,
            feature_names=feature_labels(self),
            released=("mean_", "scale_"),
            assumptions=ASSUMPTIONS,
            seeded=self.random_state is not None,
        )

    def transform(self, X):
        """Centre and scale rows, then scale back those longer than `output_bound`.

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
        cut = RowMap(feature_bound=self.output_bound)
        for block in blocks(*X.shape):
            centred = (self.row_map_.unit(X[block]) - self.mean_) * self.scale_
            # (1 - 1e-12): rounding must not lift a norm above the bound.
            rows[block] = cut.unit(centred) * (self.output_bound * (1 - 1e-12))
        return rows
