"""Public models, as starts of a private descent, and gradients of public losses."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import joblib
import numpy as np
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.base import (
    BaseEstimator,
    TransformerMixin,
    clone,
    is_classifier,
    is_regressor,
)
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

from skfdp.data._basis import Block, Smoothing, placed
from skfdp.data.grid import Integers, as_dense, lazy_rows, squared_norms
from skfdp.data.records import Coordinates, PublicRecords
from skfdp.data.target import TargetMap
from skfdp.data.units import Units
from skfdp.data.validation import UtilityWarning, warn_caller
from skfdp.kernels.losses import Loss, loss_named
from skfdp.privacy.checks import shown

#: Names of public models that are fitted here.
NAMED = "linear", "boosting"
#: Lower limit of log-probabilities, because a public model may give probability 0 to a
#: class that occurs.
FLOOR = -12.0
N_FOLDS = 5
# Candidates for the inverse penalty of the default models of classes and of counts: for
# standardised columns, for unscaled columns, and for smooth terms, whose lengths are
# those of a prior. Unscaled columns that are mostly zero are penalised more.
_STANDARDISED, _PLAIN, _OF_TERMS = (1e-4, 1e-3, 0.01, 0.1), (0.1, 1.0), (0.1, 10.0, 1.0)
# The same for numbers.
_OF_NUMBERS = (1e-4, 1e-3, 0.01, 10.0, 0.1, 1.0)
# Up to `_MOST_NEWTON` weights Newton's method is faster than L-BFGS. From `_MANY_ROWS`
# rows per weight on, a penalty hardly matters.
_MOST_NEWTON, _MANY_ROWS = 300, 100
# Settings of boosted trees; shares of a mean of models are multiples of 1 / `_TENTHS`.
_TREES: dict[str, Any] = {"max_leaf_nodes": 8, "min_samples_leaf": 50, "max_iter": 60}
_TENTHS = 10
#: Number of classes from which on there are no trees, which take a time for each class.
MOST_BOOSTED = 10
# The last model that `_most_likely` chose, by the digest of its data, and the largest
# size of its margins in bytes. The fits of a search, and repeated fits, often share
# their public data.
_LAST: dict[str, PublicModel] = {}
_MOST_KEPT = 2**24


class Positions(TransformerMixin, BaseEstimator):
    """Encoded columns turned back into one column for each block, for trees.

    A number becomes an increasing function of itself (NaN if missing), a cyclic number
    becomes two coordinates on a closed curve, and a category becomes its position.
    `blocks` are those of the encoded columns, in order.
    """

    def __init__(self, blocks: tuple[Block, ...]):
        self.blocks = blocks

    def fit(self, X, y=None) -> Positions:
        """Do nothing."""
        return self

    def transform(self, X: np.ndarray | csr_array) -> np.ndarray:
        """Return the positions, shape (n_rows, n_positions)."""
        found = []
        for block in placed(self.blocks):
            own = X[:, block.start : block.stop]
            places = np.arange(1.0, 1 + len(block.levels))
            missing = places == 1 + block.missing
            if block.end is not None:
                angle = 2 * np.pi * places / block.missing
                places = np.column_stack([np.cos(angle), np.sin(angle)])
            position = own @ places
            if block.kind != "categories":
                position[own @ missing.astype(float) > 0] = np.nan
            found.append(position)
        return np.column_stack(found)

    def __sklearn_is_fitted__(self) -> bool:
        """Return True, because nothing is learnt."""
        return True


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublicModel:
    """A fitted model that computes margins from the public columns alone.

    The margins are those of `linear`, plus `share` times those of `estimator`. With two
    classes there is one margin, the log odds of the second class. With more classes
    there is one for each class, with mean zero over the classes. Margins of numbers are
    predictions, or their logarithms.
    """

    estimator: Any  # fitted on the public columns of ``input_scaler(X)``, or None
    #: Weights (n_outputs, n_public) and intercept of the linear part, or None.
    linear: tuple[np.ndarray, np.ndarray] | None
    share: float  # factor of the margins of `estimator`; 0 if `linear` has them
    #: Whether the margins of the training rows need no cross-validation, because the
    #: model was not fitted on them or is a constant.
    prefitted: bool = False
    #: Out-of-fold margins (n_rows, n_outputs) of the training rows, if known already.
    out_of_fold: np.ndarray | None = None
    classes: np.ndarray | None = None  # None: a model of numbers
    target_map: TargetMap | None = None  # link and declared bounds of numbers

    @property
    def _predicts(self) -> str:
        return "predict" if self.classes is None else "predict_proba"

    @property
    def name(self) -> str:
        """Name of the class of `estimator`, or of its last step."""
        return type(
            getattr(self.estimator, "_final_estimator", self.estimator)
        ).__name__

    def margins(self, rows: np.ndarray | csr_array) -> np.ndarray:
        """Return margins, shape (n_rows, n_outputs), of scaled public columns."""
        beside = self.beside(rows)
        if self.linear is None:
            return beside
        coef, intercept = self.linear
        return rows @ coef.T + intercept + beside

    def beside(self, rows: np.ndarray | csr_array) -> np.ndarray | float:
        """Return the margins that are not those of `linear`."""
        if not self.share:
            return 0.0
        names = getattr(self.estimator, "feature_names_in_", None)
        if names is not None:
            import pandas as pd  # the estimator was fitted on a frame

            rows = pd.DataFrame(rows, columns=names)
        found = getattr(self.estimator, self._predicts)(rows)
        return self.share * self._margins_of(found)

    def training_margins(
        self, rows: np.ndarray, target: np.ndarray | None, units: Units | None = None
    ) -> np.ndarray:
        """Return margins of the training rows, out of fold unless prefitted.

        In-sample predictions are overconfident. With them the private columns would
        have no residuals to explain, and the scale of a target would be too small.

        The target is None if it is private; the model was then fitted on other data.
        """
        if self.out_of_fold is not None:
            return self.out_of_fold
        if self.prefitted or target is None:
            return self.margins(rows)
        wanted, splitter = self._to_fold(target)
        folds = None if splitter is None else folds_of(units, N_FOLDS, splitter)
        if folds is None:
            return self.margins(rows)
        # Imported here, because the import takes a tenth of the time of a first fit.
        from sklearn.model_selection import cross_val_predict

        weights = weights_of(self.estimator, units)
        with warnings.catch_warnings(), passed(weights):
            warnings.simplefilter("ignore", RuntimeWarning)  # a fold may lack a class
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = cross_val_predict(
                clone(self.estimator),
                rows,
                wanted,
                cv=folds,
                method=self._predicts,
                params=weights,
            )
        return self._margins_of(found)

    def add_to(
        self, coef: np.ndarray, intercept: np.ndarray, public: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Add the weights of the linear part, if any, to those of another model."""
        if self.linear is None:
            return coef, intercept
        coef = coef.copy()
        coef[:, public] += self.linear[0]
        return coef, intercept + self.linear[1]

    def _to_fold(self, target: np.ndarray) -> tuple[np.ndarray, Any]:
        """Return the target and the cross-validation folds (None: too few rows)."""
        if self.classes is not None:
            enough = np.bincount(target).max() >= N_FOLDS
            return self.classes[target], N_FOLDS if enough else None
        from sklearn.model_selection import KFold

        # Shuffle, because rows may be sorted by their targets.
        splitter = KFold(N_FOLDS, shuffle=True, random_state=0)
        y = np.clip(target, self.target_map.low, self.target_map.high)
        return y, splitter if len(y) >= 2 * N_FOLDS else None

    def _margins_of(self, found: np.ndarray) -> np.ndarray:
        if self.classes is None:
            found = np.asarray(found, dtype=np.float64).reshape(-1, 1)
            if self.target_map.log:
                return np.log(np.maximum(found, math.exp(FLOOR)))
            return found
        probability = np.zeros((len(found), len(self.classes)))
        probability[:, np.searchsorted(self.classes, self.estimator.classes_)] = found
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(probability), FLOOR)
        if len(self.classes) == 2:
            return logs[:, 1:] - logs[:, :1]
        return logs - logs.mean(axis=1, keepdims=True)


def weights_of(estimator: Any, units: Units | None) -> dict[str, np.ndarray]:
    """Return `fit` arguments with row weights, for the steps that accept them."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    if units is None:
        return {}
    steps = [("", estimator)]
    if isinstance(estimator, Pipeline):
        steps = [(f"{name}__", step) for name, step in estimator.steps]
    name = "sample_weight"
    return {
        prefix + name: units.shares
        for prefix, step in steps
        if hasattr(step, "fit") and has_fit_parameter(step, name)
    }


def passed(arguments: dict) -> contextlib.AbstractContextManager:
    """Return a context in which `fit` arguments reach the steps of a Pipeline.

    It turns off metadata routing, with which steps would have to request the arguments.
    """
    if not arguments:
        return contextlib.nullcontext()
    return config_context(enable_metadata_routing=False)


def folds_of(units: Units | None, n_folds: int, splitter: Any) -> Any:
    """Return folds that keep a person's rows together, or None with too few persons."""
    if units is None or units.persons is None:
        return splitter
    if units.n_units < n_folds:
        return None
    from sklearn.model_selection import KFold

    folds = KFold(n_folds, shuffle=True, random_state=0)
    persons = np.zeros(units.n_units)
    return [
        tuple(np.flatnonzero(np.isin(units.persons, part)) for part in parts)
        for parts in folds.split(persons)
    ]


def _is_fitted(estimator: Any) -> bool:
    """Return whether scikit-learn considers an estimator fitted."""
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        return False
    return True


def check_public_model(spec: Any, public_target: bool, *, regression: bool) -> None:
    """Raise ValueError if `spec`, neither None nor "auto", cannot be a public model."""
    named = isinstance(spec, str) and spec in NAMED
    usable, wanted = hasattr(spec, "fit"), "a regressor"
    if regression:
        usable = usable and is_regressor(spec)
    else:
        usable = usable and is_classifier(spec) and hasattr(spec, "predict_proba")
        wanted = "a classifier with predict_proba"
    if not (usable or named):
        raise ValueError(
            f"public_model={shown(spec)} must be 'auto', 'linear', 'boosting', None or "
            f"{wanted}."
        )
    if not public_target and (named or not _is_fitted(spec)):
        raise ValueError(
            "public_model is not fitted, and cannot be fitted on a private target: fit "
            "it on other data, or set public_target=True if the target is public."
        )


def resolve_public_model(
    spec: Any, public: PublicRecords, beside: Any = None
) -> PublicModel:
    """Return the fitted public model, of labels or of numbers.

    An unfitted estimator is cloned and fitted on the public columns and the public
    target, clipped to its bounds. A name means a model that cross-validation chooses;
    see `_chosen`. "auto" is "boosting" for smoothed columns, and otherwise "linear".
    Without public columns, or if a class is absent, a name means the class frequencies
    or the mean.
    """
    classes, units, y = public.classes, public.target_map, public.target
    width = int(public.mask.sum())
    own: dict[str, Any] = {"classes": classes, "target_map": units}
    if units is not None and y is not None:
        y = np.clip(y, units.low, units.high)
    if isinstance(spec, str):
        if units is None:
            constant = len(np.unique(y)) < len(classes)
        else:
            constant = units.log and not y.any()
        if constant or not public.mask.any():
            level = _constant(public, y)
            own["linear"] = np.zeros((len(level), width)), level
            return PublicModel(estimator=None, share=0.0, prefitted=True, **own)
        smooth = public.encoding is not None and public.encoding.smoothing is not None
        boosts = spec == "boosting" or (spec == "auto" and smooth)
        boosts = boosts and public.n_classes < MOST_BOOSTED
        return _last_or_chosen(public, own, beside or boosts)
    prefitted = _is_fitted(spec)
    if not prefitted:
        weights = weights_of(spec, public.units)
        with passed(weights):
            target = y if classes is None else classes[y]
            spec = clone(spec).fit(public.rows(), target, **weights)
    elif classes is not None:
        unknown = set(spec.classes_.tolist()) - set(classes.tolist())
        if unknown:
            raise ValueError(
                f"public_model has the labels {sorted(unknown)!r}, which are not in "
                f"`classes`={classes.tolist()!r}: fit it on the same labels."
            )
    if public.encoding is not None:  # the model is fitted on columns before smoothing
        width = public.encoded.shape[1]
    known = getattr(spec, "n_features_in_", width)
    if known != width:
        raise ValueError(
            f"public_model was fitted on {known} column(s), but {width} are public: "
            "fit it on the public columns of input_scaler_(X) alone, in their order."
        )
    linear = _linear_weights(spec, classes, units is not None and units.log)
    own |= {"linear": linear, "share": float(linear is None)}
    return PublicModel(estimator=spec, prefitted=prefitted, **own)


def _constant(public: PublicRecords, y: np.ndarray) -> np.ndarray:
    """Return the margins of the class frequencies, or of the mean."""
    if public.target_map is not None:
        mean = float(np.average(y, weights=public.shares))
        log = public.target_map.log
        return np.array([math.log(max(mean, math.exp(FLOOR))) if log else mean])
    counts = np.bincount(y, public.shares, minlength=len(public.classes))
    logs = np.log((counts + 1) / (counts.sum() + len(counts)))
    return logs[1:] - logs[:1] if len(counts) == 2 else logs - logs.mean()


def _last_or_chosen(
    public: PublicRecords, own: dict[str, Any], beside: Any
) -> PublicModel:
    """Return the model that `_chosen` returns, or a copy of the last one."""
    rows, units, blocks = public.rows(), public.units, ()
    persons = None if units is None else (units.persons, units.n_units)
    if public.encoding is not None:
        blocks = tuple(public.encoding.of_public)
    shapes = [(b.kind, len(b.levels), b.end, b.monotone) for b in blocks]
    facts = public.shares, public.n_records, persons, own, beside, shapes
    digest = joblib.hash((rows, public.target, *facts))
    found = _LAST.get(digest)
    if found is None:
        found = _chosen(public, own, rows, blocks, beside)
        _LAST.clear()
        if found.out_of_fold.nbytes <= _MOST_KEPT:
            _LAST[digest] = found
    return copy.deepcopy(found)


def _chosen(
    public: PublicRecords,
    own: dict[str, Any],
    rows: np.ndarray | csr_array,
    blocks: tuple[Block, ...],
    beside: Any,
) -> PublicModel:
    """Fit linear models and another one, and return their best mean.

    The penalty of the linear model has the least out-of-fold loss. Then the margins of
    both, and those of a constant, are averaged with the shares of the least
    out-of-fold loss. The folds use public data alone and cost no privacy.

    `rows` are those of `PublicRecords.rows`, and `blocks` those of encoded rows. The
    linear model sees smooth terms of encoded rows, and trees see their `Positions`.
    `beside` is the other model: an estimator, True for boosted trees, False for none.
    """
    from sklearn.model_selection import check_cv
    from sklearn.pipeline import make_pipeline

    target, units, shares = public.target, public.target_map, public.shares
    loss = loss_named("log_loss")
    if units is not None:
        loss = loss_named("poisson" if units.log else "squared_error")
        target = np.clip(target, units.low, units.high)
    tried = partial(PublicModel, linear=None, **own)
    y, splitter = tried(estimator=None, share=0.0)._to_fold(target)
    folds = None if splitter is None else folds_of(public.units, N_FOLDS, splitter)
    if folds is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about rare classes
            folds = list(check_cv(folds, y, classifier=units is None).split(rows, y))

    def fit(model: Any, X: Any, chosen: Any) -> None:
        weights = {} if shares is None else {"sample_weight": shares[chosen]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X[chosen], y[chosen], **weights)

    def out_of_fold(model: Any, X: Any) -> np.ndarray:
        """Fit a model on all rows; return its out-of-fold margins."""
        whole = tried(estimator=model, share=1.0)
        margins = np.empty((len(y), public.n_outputs))
        for train, test in folds or ():
            fit(model, X, train)
            margins[test] = whole.margins(X[test])
        fit(model, X, slice(None))
        return whole.margins(X) if folds is None else margins

    def mean_loss(margins: np.ndarray) -> float:
        return float(np.average(loss.value(margins, target), weights=shares))

    smoothing, X, least = None, rows, None
    if blocks:
        smoothing = Smoothing(blocks, math.inf, public.n_records, public.n_outputs)
        X = smoothing.rows(csr_array(rows))
        X = X if public.sparse else X.toarray()
    for steps, model in _linear_models(public, X.shape[1], bool(blocks)):
        scaled = steps[0].fit_transform(X, sample_weight=shares) if steps else X
        found = out_of_fold(model, scaled)
        value = mean_loss(found)
        if least is None or value < least:
            least, margins, whole = value, found, make_pipeline(*steps, model)
    log = units is not None and units.log
    coef, intercept = _linear_weights(whole, public.classes, log)
    if blocks:
        whole, coef = None, smoothing.weights(coef)
    level, best, found, steps = _constant(public, target), (1.0, 0.0), margins, []
    if beside and folds is not None:
        trees = _trees(units, blocks) if beside is True else clone(beside)
        steps = [Positions(blocks)] if blocks else []
        found = out_of_fold(trees, steps[0].transform(rows) if steps else rows)

    def mean(parts: tuple[float, float]) -> np.ndarray:
        return level + parts[0] * (margins - level) + parts[1] * (found - level)

    if folds is not None and (blocks or beside):
        most = _TENTHS if beside else 0
        tries = itertools.product(range(_TENTHS + 1), range(most + 1))
        pairs = [(a / _TENTHS, b / _TENTHS) for a, b in tries if a + b <= _TENTHS]
        best = min(pairs, key=lambda pair: mean_loss(mean(pair)))
    if best[1]:
        whole = make_pipeline(*steps, trees) if steps else trees
    intercept = level + best[0] * (intercept - level) - best[1] * level
    linear = best[0] * coef, intercept
    fitted = {"linear": linear, "share": best[1], "out_of_fold": mean(best)}
    return PublicModel(estimator=whole, **fitted, **own)


def _linear_models(
    public: PublicRecords, width: int, smooth: bool
) -> Iterator[tuple[list, Any]]:
    """Yield linear models of different penalties, and the steps before them."""
    from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
    from sklearn.preprocessing import StandardScaler

    units, n_weights = public.target_map, width * public.n_outputs
    scaler = StandardScaler(with_mean=not public.sparse)
    tries = [(C, [scaler]) for C in _STANDARDISED] + [(C, []) for C in _PLAIN]
    numbers = units is not None and not units.log
    if smooth or numbers:
        penalties = _OF_NUMBERS if numbers else _OF_TERMS
        tries = [(C, [scaler] * (not smooth)) for C in penalties]
    small = not public.sparse and n_weights <= _MOST_NEWTON
    # The result of Newton's method hardly depends on its start. Folds may therefore
    # start at the result of an earlier fold.
    given: dict[str, Any] = {"max_iter": 1000, "warm_start": small}
    given |= {"solver": "newton-cholesky", "tol": 1e-6} if small else {}
    for C, steps in tries[-1:] if public.n_rows >= _MANY_ROWS * n_weights else tries:
        if units is None:
            yield steps, LogisticRegression(C=C, **given)
        elif numbers:
            yield steps, Ridge(alpha=1 / C)
        else:
            yield steps, PoissonRegressor(alpha=1 / (C * public.n_records), **given)


def _trees(units: TargetMap | None, blocks: Sequence[Block]) -> Any:
    """Return boosted trees for labels (`units` is None), numbers or counts."""
    from sklearn.ensemble import (
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )

    # Without early stopping, trees do not depend on a random state (but for bins of
    # 200,000 rows and more).
    given = {**_TREES, "early_stopping": False, "random_state": 0}
    if any(block.monotone for block in blocks):
        signs = {None: 0, "increasing": 1, "decreasing": -1}
        sizes = [1 + (block.end is not None) for block in blocks]  # as in `Positions`
        given["monotonic_cst"] = np.repeat([signs[b.monotone] for b in blocks], sizes)
    if units is None:
        return HistGradientBoostingClassifier(**given)
    loss = "poisson" if units.log else "squared_error"
    return HistGradientBoostingRegressor(loss=loss, **given)


def _linear_weights(
    estimator: Any, classes: np.ndarray | None, log: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return weights and intercept of a fitted linear model, or None for other models.

    A Pipeline of a `StandardScaler` and a linear model is a linear model, too.
    """
    from sklearn.linear_model import (
        LinearRegression,
        LogisticRegression,
        PoissonRegressor,
        Ridge,
        RidgeCV,
    )
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    if classes is not None and len(estimator.classes_) != len(classes):
        return None
    kinds: Any = (LinearRegression, Ridge, RidgeCV)
    if classes is not None or log:
        kinds = PoissonRegressor if log else LogisticRegression
    steps = [estimator]
    if isinstance(estimator, Pipeline):
        steps = [step for _, step in estimator.steps]
    model, scalers = steps[-1], steps[:-1]
    plain = isinstance(model, kinds) and len(scalers) <= 1
    if not plain or not all(isinstance(step, StandardScaler) for step in scalers):
        return None
    coef = np.atleast_2d(model.coef_)
    intercept = np.broadcast_to(model.intercept_, len(coef))
    for scaler in scalers:
        if scaler.scale_ is not None:
            coef = coef / scaler.scale_
        if scaler.with_mean:
            intercept = intercept - coef @ scaler.mean_
    return coef, np.array(intercept)


Gradient = Callable[[np.ndarray], np.ndarray]


def padded_gradient(
    query: Any, sampler: np.random.Generator, size: int | None
) -> Gradient:
    """Return the gradient of the public loss, a mean over a public batch of rows."""

    def gradient(theta: np.ndarray) -> np.ndarray:
        rows = np.arange(query.n_rows)
        if size is not None and size < query.n_rows:
            rows = np.sort(sampler.choice(query.n_rows, size=size, replace=False))
        return query.public_gradient(theta, rows)

    return gradient


def clipped_away(
    query: Any,
    target: np.ndarray,
    loss: Loss,
    fitted: np.ndarray | None,
    public: PublicRecords,
    coordinates: Coordinates,
) -> Gradient:
    """Return a correction of the bias that clipping causes with a public target.

    Without the correction, clipping pulls skewed targets from the mean toward the
    median. With a public target the residuals of a fitted public model are public. The
    gradients of these residuals in the public columns and the intercept are public,
    too. The correction is the part of these gradients that clipping would remove if
    private parts of rows had norm 1. The model must be fitted. With residuals of a poor
    start, the correction would persist after the steps have explained these residuals.
    With a large clip norm the correction is zero.

    `target` and `loss` are rescaled. `fitted` are the margins of the fitted model; None
    means 0 for each row. `coordinates` are released, or functions of public columns.
    """
    mask, bias = public.mask, coordinates.bias or 0.0
    start = np.zeros((len(target), 1)) if fitted is None else fitted
    residual = loss.residual(start, target)[:, 0] * public.row_shares
    mean = coordinates.mean[mask]
    scale = np.broadcast_to(coordinates.scale, mask.shape)[mask]
    by_column, by_bias, first = np.zeros(len(mean)), 0.0, 0
    for rows in public.blocks():
        own = residual[first : first + rows.shape[0]]
        first += rows.shape[0]
        centred = (as_dense(rows) - mean) * scale
        length = np.sqrt(1 + bias**2 + squared_norms(centred)) * np.abs(own)
        lost = own * (1 - query.clip_norm / np.maximum(length, query.clip_norm))
        by_column += lost @ centred
        by_bias += bias * lost.sum()
    gradient = np.zeros(query.shape)
    gradient[0, : len(mask)][mask] = by_column / public.n_records
    if coordinates.bias is not None:
        gradient[0, -1] = by_bias / public.n_records
    return lambda theta: gradient


def drawn_rows(
    public: PublicRecords,
    coordinates: Coordinates,
    scale: float,
    generator: np.random.Generator,
) -> Integers:
    """Return the rows of the loop with private columns drawn from N(0, scale**2).

    CSR rows are padded with zeros, whatever the scale.
    """
    mask, known, input_scaler = public.mask, public.X, coordinates.input_scaler
    if public.sparse:
        rows = public.mapped
        columns, shape = np.flatnonzero(mask)[rows.indices], (rows.shape[0], mask.size)
        whole = csr_array((rows.data, columns, rows.indptr), shape=shape)
        return coordinates.grid(input_scaler.shorten(whole))
    scaled = input_scaler.of_public(mask)

    def padded(block: np.ndarray) -> np.ndarray:
        # drawn even for scale 0, so that later public draws do not depend on it
        drawn = scale * generator.standard_normal((len(block), public.n_private))
        rows = np.zeros((len(block), mask.size))
        rows[:, mask], rows[:, ~mask] = scaled.scale(block), drawn
        return input_scaler.shorten(rows)

    return coordinates.grid(lazy_rows(known, padded, mask.size))


def warn_of_public_model(model: Any) -> None:
    """Warn that `coef_` lacks margins of a public model that are not linear."""
    public_model = getattr(model, "public_model_", None)
    if public_model is not None and public_model.share:
        warn_caller(
            f"public_model={public_model.name} is not linear, so coef_ and what is "
            "computed from it lack its part of the margins: use public_model='linear' "
            "if they are to be complete.",
            UtilityWarning,
        )
