"""Any classifier on public records completed by draws from a private statistic."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    clone,
    is_classifier,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skfdp.addresses import public
from skfdp.estimators import defaults
from skfdp.estimators.arrays import check_arrays
from skfdp.estimators.completion.copula import PrivateColumns, Released
from skfdp.estimators.parameters import (
    ASSUMPTIONS,
    complete_parameters,
    forget,
    public_count,
    resolved_parameters,
)
from skfdp.privacy import Event, Relation, assumptions, calibrate, gdp_mu
from skfdp.privacy.events import check_budget, check_relation
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.report import PrivacyReport, enforced
from skfdp.privacy.store import Receipt
from skfdp.queries.class_sums import ClassSum, SecondMoment
from skfdp.records.blocks import blocks
from skfdp.records.checks import check_choice, check_number, check_size, shown
from skfdp.records.grid import GridRows
from skfdp.records.guards import UtilityWarning, guarded_fit, warn_caller, without_traps
from skfdp.records.labels import encode_labels
from skfdp.records.names import column_names, name_facts, target_name
from skfdp.records.public_columns import public_mask
from skfdp.records.row_map import RowMap, resolve_bounds
from skfdp.releases.desk import Desk
from skfdp.releases.noise import Streams, check_random_state, warn_of_seed

_ORTHANT = enforced(assumptions.CLASS_ORTHANT)
_SIGNED = enforced(assumptions.CLASS_SIGNED)
# Share of mu**2 for the second moments, where they are released.
_SECOND_SHARE = 0.5


def _delegated(name: str):
    """Return whether the inner estimator has a method."""

    def has(self) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), name)
        return True

    return has


@dataclasses.dataclass(frozen=True)
class _Problem:
    """Validated input. The private columns of X are private, all else is public."""

    X: np.ndarray
    y: np.ndarray
    codes: np.ndarray
    classes: np.ndarray
    columns: tuple
    target_name: str | None
    public: np.ndarray
    row_map: RowMap
    feature_bound: float
    receipt: Receipt | None = None

    @property
    def bounded(self) -> np.ndarray:
        """Private columns within [0, 1]."""
        if self.row_map.span is None:
            return np.zeros((~self.public).sum(), dtype=bool)
        return np.isfinite(self.row_map.span[~self.public])

    def block(self, mask: np.ndarray, feature_bound: float = math.inf) -> RowMap:
        """Return the row map of some columns."""
        if self.row_map.span is None:
            return RowMap(feature_bound=feature_bound)
        low, span = self.row_map.low[mask], self.row_map.span[mask]
        return RowMap(low, span, feature_bound)


@public("skfdp")
class PrivateCompletionClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    r"""Train any classifier where the target is public and some columns are private.

    The sums of the private columns over each class are released once, with noise. They
    tell how the private columns are distributed given the class. Each record's public
    columns and target are then completed by *drawn* private columns, and any
    scikit-learn classifier is trained on the completed records, as long as it likes:
    it never sees a private value.

    Parameters
    ----------
    estimator : classifier
        Any scikit-learn classifier or Pipeline; cloned. It is given an array with the
        columns of X in their order, those with `bounds` scaled to [0, 1].
    epsilon, delta : float, default=1.0, 1e-5
        The budget of one `fit`. ``epsilon=float("inf")``: no privacy; the estimator is
        trained on the records themselves.
    public_features : None, "all", names, indices, mask, slice or callable, default=None
        The public columns, as in `FeatureDPLogisticRegression`; at least one must stay
        private. The target is always public here.
    bounds : pair, mapping, False or None, default=None
        Declared public bounds of the columns: ``(low, high)`` of scalars or arrays, or
        a mapping by column. Columns are clipped and scaled to [0, 1]. Only private
        columns with bounds are known to be non-negative, which lowers the noise by a
        factor of sqrt(2) under "replace_one", and can be drawn within their range.
        False: none. None: the same, with a warning.
    feature_bound : float or "auto", default="auto"
        L2 bound of the private columns of a record, after `bounds`, in the released
        sums; longer rows are shortened there. Set it to the norm of a typical record,
        such as the root of the number of one-hot groups. "auto": half the root of the
        number of private columns; the root itself if some have no bounds.
    covariance : {"auto", True, False}, default="auto"
        Whether half of the budget (of its square, in Gaussian terms) releases the
        second moments too, so that drawn columns are correlated within a class, and
        continuous columns have their variance. False: bounded columns are drawn as
        independent zeros and ones. "auto": fewer than 10 classes, or unbounded private
        columns, and at most 512 of them.
    n_draws : int or "auto", default="auto"
        Completions of each record; they are free, and the training set grows as often.
        "auto": about 10,000 rows, at most 5 draws.
    neighboring_relation : {"replace_one", "replace_special"}, default="replace_one"
        What changes between neighbouring data sets; see :ref:`protected`.
    target_name : str, default=None
        Name of the column that y is, or is computed from, where y is not a Series with
        this name: reports say it, and ledgers compare it.
    names : str, list or dict, default=None
        Names of the columns of X in the table that they come from, where X does not say
        so: one name for all, one for each, or a mapping from column names, patterns or
        positions. What is computed from one column (its categories, a spline) shares
        its name. For reports and ledgers, like `target_name`.
    ledger : str, path or PrivacyLedger, default=None
        Charged before anything private is read.
    random_state : int, default=None
        Of noise and draws. None: cryptographic. An int: reproducible, **no
        guarantee**. The estimator's own `random_state` is left as it is.

    Attributes
    ----------
    estimator_ : classifier
        Trained on completed records.
    classes_ : ndarray of shape (n_classes,)
    class_means_ : ndarray of shape (n_classes, n_private)
        Released means of the scaled private columns, denoised; absent at
        ``epsilon=inf``.
    row_map_ : RowMap
        The bounds; the same function in `fit` and `predict`.
    privacy_ : PrivacyReport
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Notes
    -----
    **Guarantees.** The fitted attributes are (epsilon, delta)-differentially private
    for the private columns of a record under `neighboring_relation`, if `random_state`
    is None:

    * neighbours share the target and the public columns, hence the number of records
      of each class;
    * a scaled private row p is shortened to norm 1 (in units of `feature_bound`). A
      replaced one moves its class's sum by ``|p - p'|``: at most sqrt(2) where declared
      bounds make p non-negative, else at most 2; a nulled one by at most 1;
    * it moves the sum of ``p p'`` by at most sqrt(2), whatever the signs;
    * both sums are released at most once, in exact integers, as one composition;
    * everything after that is computed from the releases, the public columns and the
      target, with coins of its own.

    `predict` reads the private columns of the record that it is asked about. A
    prediction tells about *that* record whatever its columns tell; what is protected
    are the records of `fit`.

    The model of the private columns is crude: they depend on the public ones through
    the class alone. Where that is wrong, more budget does not help.

    References
    ----------
    The draws are a Gaussian copula with clipped margins (a Tobit model, Tobin 1958),
    its parameters shrunk by the known noise.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skfdp import PrivateCompletionClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = PrivateCompletionClassifier(
    ...     RandomForestClassifier(random_state=0),
    ...     epsilon=1.0,
    ...     public_features=slice(0, 32),
    ...     bounds=(0, 16),
    ...     random_state=0,
    ... )
    >>> bool(model.fit(X[:1200], y[:1200]).score(X[1200:], y[1200:]) > 0.8)
    True
    """

    n_records = None  # the number of records is public

    def __init__(
        self,
        estimator,
        epsilon=1.0,
        delta=1e-5,
        *,
        public_features=None,
        bounds=None,
        feature_bound="auto",
        covariance="auto",
        n_draws="auto",
        neighboring_relation="replace_one",
        target_name=None,
        names=None,
        ledger=None,
        random_state=None,
    ):
        self.estimator = estimator
        self.epsilon = epsilon
        self.delta = delta
        self.public_features = public_features
        self.bounds = bounds
        self.feature_bound = feature_bound
        self.covariance = covariance
        self.n_draws = n_draws
        self.neighboring_relation = neighboring_relation
        self.target_name = target_name
        self.names = names
        self.ledger = ledger
        self.random_state = random_state

    def __setstate__(self, state):
        super().__setstate__(state)
        complete_parameters(self)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a fit came to its end."""
        return hasattr(self, "estimator_")

    @guarded_fit
    def fit(self, X, y):
        """Release the statistics, charging the ledger first; complete; train.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Dense. Each record once. Values outside `bounds` are clipped, silently.
        y : array-like of shape (n_samples,)
            Public labels of any type.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            For bad parameters or malformed input; nothing is charged, no datum is
            quoted.
        PrivacyBudgetError
            If the ledger's ceiling would be passed; nothing is charged or trained.
        """
        forget(self)
        self._check_parameters()
        ledger = PrivacyLedger.resolve(self.ledger)
        problem = self._resolve(X, y)
        owner = type(self).__name__
        if math.isinf(self.epsilon):
            if ledger is not None:
                receipt = ledger.charge_nonprivate(label=owner)
                problem = dataclasses.replace(problem, receipt=receipt)
            rows = problem.row_map.scale(problem.X)
            return self._publish(problem, clone(self.estimator).fit(rows, problem.y))
        warn_of_seed(self.random_state)
        events = self._plan(problem)
        # Before the charge: a seed refuses what cannot be told apart.
        streams = self._streams(problem)
        if ledger is not None:
            receipt = ledger.charge(events, label=owner)
            problem = dataclasses.replace(problem, receipt=receipt)
        model = PrivateColumns.learn(self._release(problem, events, streams))
        coins = Streams(self.random_state, type(self)).public("draws")
        shared = problem.X[:, problem.public]
        rows = _completed(problem, shared, model, self._times(len(shared)), coins)
        target = np.tile(problem.y, len(rows) // len(problem.y))
        trained = clone(self.estimator).fit(rows, target)
        self.class_means_ = model.means
        return self._publish(problem, trained, events)

    def _check_parameters(self) -> None:
        check_budget(self.epsilon, self.delta, allow_infinite=True)
        check_relation(self.neighboring_relation)
        check_random_state(self.random_state)
        check_size("feature_bound", self.feature_bound, also=("auto",))
        check_choice("covariance", self.covariance, ("auto", True, False))
        check_number("n_draws", self.n_draws, integral=True, also=("auto",))
        if not Relation.of(self.neighboring_relation).counts_are_public:
            raise ValueError(
                "neighboring_relation='add_or_remove_one' adds whole records, but the "
                "target is public here: use 'replace_one' or 'replace_special'."
            )
        instance = hasattr(self.estimator, "fit") and not isinstance(
            self.estimator, type
        )
        if not instance or not is_classifier(self.estimator):
            raise TypeError(
                f"estimator={shown(self.estimator)} must be a scikit-learn classifier: "
                "pass an instance, not a class, a name or a regressor."
            )

    def _resolve(self, X, y) -> _Problem:
        """Validate and split; the last time that the user's objects are touched."""
        frame, named = X, target_name(self.target_name, y)
        X, y = check_arrays(self, X, y)
        labels = encode_labels(y, None)
        names = getattr(self, "feature_names_in_", None)
        public = public_mask(self.public_features, X.shape[1], names, frame)
        if public.all() and math.isfinite(self.epsilon):
            raise ValueError(
                f"public_features={shown(self.public_features)} names every column, "
                "and the target is public: there is nothing to protect; fit the "
                "estimator itself. For a private target use "
                "FeatureDPLogisticRegression."
            )
        low, span = resolve_bounds(self.bounds, X.shape[1], names)
        if self.bounds is None:
            warn_caller(
                "bounds=None: no column bounds are declared, so that private columns "
                "need more noise and are drawn as normals; pass bounds=(low, high), a "
                "mapping by column, or False if there are none.",
                UtilityWarning,
            )
        public_count(self, len(X))  # warns of a large delta
        problem = _Problem(
            X=X,
            y=y,
            codes=labels.codes,
            classes=labels.classes,
            columns=column_names(self),
            target_name=named,
            public=public,
            row_map=RowMap(low, span, feature_bound=math.inf),
            feature_bound=math.inf,
        )
        bound = self.feature_bound
        if bound == "auto":
            n_private = max(1, int((~public).sum()))
            bound = defaults.completion_bound(n_private, bool(problem.bounded.all()))
        return dataclasses.replace(problem, feature_bound=float(bound))

    def _plan(self, problem: _Problem) -> tuple[Event, ...]:
        """Calibrate the releases; sees public facts alone."""
        relation = Relation.of(self.neighboring_relation)
        bounded = bool(problem.bounded.all())
        facts = {
            "neighboring_relation": self.neighboring_relation,
            "classes_source": "public target",
            "seeded": self.random_state is not None,
            **name_facts(
                problem.columns,
                problem.public,
                target=problem.target_name,
                public_target=True,
            ),
        }
        sums = ClassSum.planned(nonnegative=bounded)
        second = SecondMoment.planned()
        other: tuple[Event, ...] = ()
        covariance = self.covariance
        if covariance == "auto":
            covariance = defaults.completion_covariance(
                len(problem.classes), len(problem.bounded), bounded
            )
        if covariance:
            reach = second.sensitivity(relation)
            mu = gdp_mu(self.epsilon, self.delta) * math.sqrt(_SECOND_SHARE)
            event = Event(
                label="second moments",
                noise_std=(reach / mu,),
                clip_norm=second.clip_norm,
                sensitivity=reach,
                **facts,
            )
            other = (event,)
        plan = calibrate(
            self.epsilon,
            self.delta,
            n_steps=1,
            clip_norm=sums.clip_norm,
            sensitivity=sums.sensitivity(relation),
            neighboring_relation=self.neighboring_relation,
            other_events=other,
        )
        return *other, dataclasses.replace(plan.event, label="class sums", **facts)

    def _streams(self, problem: _Problem) -> Streams:
        """Return the streams of the releases."""
        row_map = dataclasses.replace(
            problem.row_map, feature_bound=problem.feature_bound
        )
        after = {"estimator": None, "n_draws": None}  # of the release
        parameters = resolved_parameters(self, problem.public, row_map, **after)
        data = (problem.X, problem.codes)
        return Streams(self.random_state, type(self), data, parameters)

    def _release(
        self, problem: _Problem, events: tuple[Event, ...], streams: Streams
    ) -> Released:
        """Release the class sums, and the second moments where they are planned."""
        private, bound = ~problem.public, problem.feature_bound
        rows = GridRows.build(problem.X[:, private], problem.block(private, bound).unit)
        sums = ClassSum(
            rows,
            problem.codes,
            len(problem.classes),
            nonnegative=bool(problem.bounded.all()),
        )
        queries = {"class sums": sums, "second moments": SecondMoment(rows)}
        desk = Desk(events, streams)
        found = {
            event.label: desk.release(event.label, queries[event.label])
            for event in events
        }
        std = {event.label: event.noise_std[0] for event in events}
        second = found.get("second moments")
        if second is not None:
            second = (second + second.T) * (bound**2 / 2)
        return Released(
            counts=np.bincount(problem.codes, minlength=len(problem.classes)),
            sums=found["class sums"] * bound,
            sums_std=std["class sums"] * bound,
            second=second,
            second_std=std.get("second moments", 0.0) * bound**2,
            bounded=problem.bounded,
            feature_bound=bound,
        )

    def _times(self, n: int) -> int:
        return defaults.n_draws(n) if self.n_draws == "auto" else int(self.n_draws)

    def _publish(self, problem: _Problem, trained, events: tuple[Event, ...] = ()):
        signs = _ORTHANT if problem.bounded.all() else _SIGNED
        self.classes_ = problem.classes
        self.row_map_ = problem.row_map
        self.privacy_ = PrivacyReport.from_events(
            subject=type(self).__name__,
            events=events,
            delta=self.delta,
            target_epsilon=self.epsilon,
            n_records=len(problem.X),
            feature_names=problem.columns,
            target_name=problem.target_name,
            released=("estimator_",) + ("class_means_",) * bool(events),
            assumptions=(*ASSUMPTIONS, signs) if events else ASSUMPTIONS,
            seeded=self.random_state is not None,
            receipts=[problem.receipt],
        )
        self.estimator_ = trained
        return self

    def _rows(self, X) -> np.ndarray:
        check_is_fitted(self)
        return self.row_map_.scale(check_arrays(self, X, reset=False))

    @without_traps()
    def predict(self, X):
        """Return the inner estimator's label of each row, private columns included.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        rows = self._rows(X)  # before estimator_, which an unfitted one lacks
        return self.estimator_.predict(rows)

    @available_if(_delegated("predict_proba"))
    @without_traps()
    def predict_proba(self, X):
        """Return the inner estimator's probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        rows = self._rows(X)  # before estimator_, which an unfitted one lacks
        return self.estimator_.predict_proba(rows)

    @available_if(_delegated("decision_function"))
    @without_traps()
    def decision_function(self, X):
        """Return the inner estimator's decision function.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        margins : ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        rows = self._rows(X)  # before estimator_, which an unfitted one lacks
        return self.estimator_.decision_function(rows)


def _completed(
    problem: _Problem,
    shared: np.ndarray,
    model: PrivateColumns,
    times: int,
    coins: np.random.Generator,
) -> np.ndarray:
    """Return the public columns beside drawn ones; never reads the private ones."""
    public, n = problem.public, len(shared)
    rows = np.empty((times * n, len(public)))
    for start in range(0, times * n, n):
        rows[start : start + n, public] = problem.block(public).scale(shared)
        for block in blocks(n, len(public)):
            drawn = model.draw(problem.codes[block], coins)
            rows[start + block.start : start + block.stop, ~public] = drawn
    return rows
