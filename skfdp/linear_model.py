"""Differentially private linear classifiers and regressors."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import identity
from sklearn.base import RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from skfdp.addresses import public, wing
from skfdp.base import (
    BESIDE_WEIGHTS,
    PrivateClassifier,
    PrivateEstimator,
    documented,
    r_squared,
    with_callbacks,
)
from skfdp.data.arrays import readable
from skfdp.data.grid import InputScaler, column_sums, row_blocks
from skfdp.data.records import PublicRecords, Records
from skfdp.data.target import loss_name
from skfdp.data.validation import (
    check_choice,
    check_flag,
    check_number,
    guarded_fit,
    without_traps,
)
from skfdp.kernels.losses import CLASSIFICATION, OF_RATES, REGRESSION, Loss, loss_named
from skfdp.privacy import gdp_mu
from skfdp.privacy.entries import FitPlan
from skfdp.privacy.events import ASSUMED, Assumption
from skfdp.reader import Declaration
from skfdp.schema import pandas_for
from skfdp.solvers import (
    CENTERINGS,
    LOOPS,
    SOLVERS,
    AdaptiveCentering,
    Choice,
    Huber,
    NoisyGradientDescent,
    OneShot,
    Tweedie,
    resolve,
)
from skfdp.solvers.centring import Centring
from skfdp.solvers.descent import Descent
from skfdp.solvers.first_model import FirstModel
from skfdp.solvers.interactions import WithInteractions
from skfdp.solvers.label_statistic import LabelStatistic
from skfdp.solvers.method import Method
from skfdp.solvers.parameters import ASSUMPTIONS, MANY_CLASSES, is_far, n_threads
from skfdp.solvers.postprocessing import STRONGEST, LinearFit, in_order
from skfdp.solvers.public_model import check_public_model
from skfdp.solvers.target_scales import TargetScales, warn_of_huber_threshold


def optimum(
    records: Records,
    loss: Loss,
    *,
    penalty: float,
    fit_intercept: bool,
    shares: np.ndarray | None,
    class_weight: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Minimise ``mean of losses + penalty / 2 |coef|**2`` without privacy.

    The mean over rows is weighted by `shares` and `class_weight`. Return the weights of
    shape (n_outputs, n_features), in the declared order of monotone columns, the
    intercepts, which are not penalised, and the number of steps.
    """
    X, target, n_outputs = records.X, records.target, records.public.n_outputs
    n_features = X.shape[1]
    weights = np.ones(X.shape[0]) if shares is None else shares
    n_records = float(weights.sum())
    if class_weight is not None:
        weights = weights * class_weight[target]
    # Centre the columns, and scale them so that the diagonal of the Hessian is about 1.
    # Without scaling, L-BFGS needs ten times as many steps on columns of unequal scale.
    # Centring and scaling do not change the optimum, so row weights are not used here.
    n_rows = X.shape[0]
    total = sum(X[block].sum(axis=0, dtype=np.float64) for block in row_blocks(X))
    mean = total / n_rows

    def squared(entries: np.ndarray, columns: Any) -> np.ndarray:
        return (entries - mean[columns]) ** 2

    square = sum(column_sums(X[block], squared) for block in row_blocks(X))
    scale = np.sqrt(loss.curvature * square / n_rows + penalty)
    mean *= fit_intercept

    # Weights in order are sums of steps that are at least 0.
    steps, bounds = identity(n_features, format="lil"), np.zeros((n_features + 1, 2))
    bounds[:] = -np.inf, np.inf
    for block in records.public.effects:
        if block.monotone:
            sign = 1.0 if block.monotone == "increasing" else -1.0
            own = slice(block.start, block.start + block.n_ordered)
            steps[own, own] = np.tri(block.n_ordered) * sign
            bounds[own, 0][block.n_ordered > 1 :] = 0.0
    steps = steps.tocsr()

    def split(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        theta = flat.reshape(n_outputs, n_features + 1)
        coef = (steps @ (theta[:, :-1] / scale).T).T
        return coef, theta[:, -1] - coef @ mean

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        coef, intercept = split(flat)
        strength = penalty * n_records
        value = np.vdot(coef, coef) * strength / 2
        by_coef, by_intercept = coef * strength, np.zeros(n_outputs)
        for block in row_blocks(X):
            rows, labels = X[block].astype(np.float64), target[block]
            margins = rows @ coef.T + intercept
            weight = weights[block]
            value += weight @ loss.value(margins, labels)
            residual = loss.residual(margins, labels) * weight[:, None]
            by_coef += residual.T @ rows
            by_intercept += residual.sum(axis=0) * fit_intercept
        by_theta = (steps.T @ (by_coef - np.outer(by_intercept, mean)).T).T / scale
        gradient = np.column_stack([by_theta, by_intercept])
        return value / n_records, gradient.ravel() / n_records

    precisely = {"maxfun": 10**7, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(
        objective,
        np.zeros(n_outputs * (n_features + 1)),
        jac=True,
        method="L-BFGS-B",
        bounds=np.tile(bounds, (n_outputs, 1)),
        options={"maxiter": 10_000, **precisely},
    )
    return *split(found.x), int(found.nit)


class LinearModel(PrivateEstimator):
    """Base class of linear estimators: parameters, margins and attributes."""

    _released: tuple[str, ...] = ("coef_", "intercept_", "n_iter_")
    _weights = ("coef_", "intercept_")
    _rows, _keeps_order = "linear", True
    # Residuals of labels are clipped at about one standard deviation.
    _smoothing = 1.0
    #: The classes of the solvers, by name.
    _solvers: Mapping[str, type[Choice]] = SOLVERS

    @property
    def _omits_zeros(self) -> bool:
        given = self._given()
        pads = given["public_loss"] == "gaussian"
        return not (pads or self._centring(given).adapts)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        one_shot = self.solver == "one-shot" or isinstance(self.solver, OneShot)
        tags.input_tags.sparse = not one_shot
        return tags

    @with_callbacks
    @guarded_fit
    def fit(self, X, y=None, sample_weight=None, groups=None):
        """Charge the ledger, and fit to X and y within the budget.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Values outside `bounds` are clipped, without a warning. Malformed private
            values are replaced (:ref:`malformed`). Sparse rows are stored as CSR and
            stay sparse; the lower bounds must then be 0. Tables larger than memory are
            read in blocks (:ref:`large-tables`). Dask partitions stay on their workers
            (:ref:`dask`).
        y : array-like of shape (n_samples,)
            Labels of any type; numbers for regressors.
        sample_weight : array-like of shape (n_samples,), default=None
            Public weights of the rows, in any unit. Averages over rows are weighted by
            them. Whole numbers up to 1024 are exact; other weights are rounded to
            multiples of 1/1024 of the largest weight. Rows of weight 0 are left out.
            Weights are disclosed, so they must not be computed, even indirectly, from a
            private column or a private target. The report lists this assumption, which
            is not checked.
        groups : array-like of shape (n_samples,) or str, default=None
            The person of each row. If X is a frame, `groups` may be the name of its
            column of persons. This column is then not a feature. The private parts of
            *all rows of one person* are protected together. Which rows belong to the
            same person, and how many rows a person has, is not protected. None means
            that each row is a record.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            For bad parameters, malformed public values, wrong types and shapes, or the
            checkpoint of another fit. Nothing is charged, and no datum is quoted.
        PrivacyBudgetError
            If the ledger's limit would be exceeded. Nothing is charged or trained.
        """
        return self._fit(X, y, sample_weight=sample_weight, groups=groups)

    @guarded_fit
    def plan(self, X, y=None, sample_weight=None, groups=None) -> FitPlan:  # noqa: D102
        return self._plan(X, y, sample_weight=sample_weight, groups=groups)

    plan.__doc__ = (PrivateEstimator.plan.__doc__ or "").replace(
        "\n\n        Returns",
        "\n        sample_weight, groups : array-like of shape (n_samples,), "
        "default=None\n            As for `fit`; both are public.\n\n        Returns",
    )

    def _check_parameters(self, declared: Declaration) -> None:
        super()._check_parameters(declared)
        resolve("centering", self.centering, CENTERINGS, "auto", None)
        check_flag("fit_intercept", self.fit_intercept)
        spec = self.public_model
        if spec is not None and not (isinstance(spec, str) and spec == "auto"):
            given = spec, declared.public_target
            check_public_model(*given, regression=isinstance(self, RegressorMixin))

    @property
    def _solver(self) -> Choice:
        kinds = {"auto": NoisyGradientDescent, **self._solvers}
        return resolve("solver", self.solver, kinds)

    def _centring(self, given: Mapping[str, Any]) -> Centring:
        chosen = resolve("centering", self.centering, CENTERINGS, "auto", None)
        norm = None if given["normalize"] else given["row_norm"]
        kind, share = chosen, getattr(chosen, "budget_share", "auto")
        if isinstance(chosen, Choice):
            kind = "adaptive" if isinstance(chosen, AdaptiveCentering) else "gaussian"
        clips = getattr(chosen, "clip_features", False)
        return Centring(kind, bool(self.fit_intercept), share, norm, clips)

    def _with_interactions(self, public: PublicRecords, method: Method) -> Method:
        """Return the method with interactions of columns, if there can be any.

        A public target has boosted trees instead.
        """
        asked = getattr(public.declared.schema, "interactions", None)
        if asked is None or public.has_target or public.sparse or public.in_partitions:
            return method
        encoded = public.encoded if public.mask.all() else None
        return WithInteractions(method, public.encoding, encoded, asked == "pairs")

    def _attributes(self, public: PublicRecords, found: LinearFit) -> dict[str, Any]:
        """Return the fitted attributes, with weights of the columns of X or encoded."""
        if getattr(self, "_balances", False):
            found = found.balanced()
        coef, intercept, noise = found.coef, found.intercept, found.noise
        mask, scaler, encoding = public.mask, public.input_scaler, public.encoding
        if encoding is not None:
            coef, mask = encoding.weights(coef), encoding.public_encoded
            # Encoded rows need no clipping and scaling.
            beside = mask if mask.any() else None
            scaler = InputScaler(feature_bound=math.inf, public=beside)
            if noise is not None:
                variances = partial(encoding.weights, power=2)
                noise = noise.mapped(encoding.weights, variances)
        if found.public_model is not None:
            coef, intercept = found.public_model.add_to(coef, intercept, mask)
        if encoding is not None and len(coef) == 1:
            weights = np.append(coef[0], intercept)
            weights, noise = in_order(weights, noise, public.effects)
            coef, intercept = weights[None, :-1], weights[-1:]
        one_shot = found.one_shot and public.mask.all() and self.solver == "auto"
        solver = public.declared.parameters["solver"]
        solver = clone(solver) if solver is self.solver else solver
        attributes = {
            "coef_": coef,
            "intercept_": intercept,
            "n_iter_": found.n_iter,
            "input_scaler_": found.input_scaler or scaler,
            "solver_": OneShot() if one_shot else solver,
            "classes_": public.classes,
            "public_model_": found.public_model,
            "interactions_": found.interactions,
            "coef_noise_": noise,
        }
        return {name: one for name, one in attributes.items() if one is not None}

    def coefficients_table(self) -> Any:
        """Return the coefficients and their errors, without privacy cost.

        The table is a function of released numbers and public facts.

        Returns
        -------
        table : pandas.DataFrame
            One row for each coefficient, then rows of interactions, such as "age × sex"
            (the root mean square of what it adds to margins; its noise is NaN), of
            "public model" (the factor of its margins that are added to those of
            `coef_`), and of "intercept"; with several classes for each class. Columns:

            * "class": only if there are several outputs;
            * "feature": the name of the column of X, or of the encoded column;
            * "column", "value": only with a schema: the raw column, and the knot (a
              number or a date) or category of the coefficient;
            * "coef": as in `coef_` and `intercept_`;
            * "noise_std": standard deviation of the privacy noise in "coef";
            * "noise_kind": how exact it is, see :ref:`effects`;

            The other columns exist only for label-DP classifiers (public columns,
            private target) that release one label statistic, with enough budget and
            without `groups`, as the labels of a person may depend on each other:

            * "estimate": the coefficient without the bias of the penalty;
            * "std_error": its standard error, from noise and sampling of labels;
            * "z", "p": two-sided test of the hypothesis that the coefficient is 0;
            * "low", "high": its 95 % confidence interval in the population;
            * "ratio", "ratio_low", "ratio_high": the odds ratio of one more unit of the
              column, and its 95 % interval.

            These columns are NaN if X does not determine the coefficient, as in a
            block of columns that sum to 1.

        Notes
        -----
        "coef" plus or minus two "noise_std" is *not* a confidence interval, but the
        range of the noiseless coefficient. It includes neither the bias toward 0 from
        penalty, shrinkage and few steps, nor the sampling error of the records.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from skfdp import FeatureDPLogisticRegression
        >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        >>> model = FeatureDPLogisticRegression(3.0, bounds=(0, 50), random_state=0)
        >>> list(model.fit(X.iloc[:, :2], y).coefficients_table())
        ['feature', 'coef', 'noise_std', 'noise_kind']
        """
        check_is_fitted(self)
        pandas = pandas_for("coefficients_table")
        return pandas.DataFrame(wing("export").coefficients(self))

    @without_traps()
    def to_sklearn(self, onnx=False):
        """Return the fitted model as a Pipeline of scikit-learn, without privacy cost.

        The Pipeline can be used without skfdp, and read by skops with types of
        scikit-learn and NumPy. It has the same predictions, up to rounding errors, also
        for missing values, and outside the bounds. If the schema has an exposure, it
        predicts the rate of one unit, with a warning.

        Parameters
        ----------
        onnx : bool, default=False
            Use transformers that skl2onnx converts. X then has text as it was declared,
            "" if missing.

        Returns
        -------
        pipeline : sklearn.pipeline.Pipeline
            Its last step is `LogisticRegression`, `LinearSVC`, `LinearRegression` or
            `PoissonRegressor`, with `target_bounds` in a `TransformedTargetRegressor`.
            `privacy_statement_` is the text of the privacy statement, and
            `privacy_report_` the report as JSON values.

        Raises
        ------
        ValueError
            If the predictions include interactions, or a public model that is not
            linear; with `onnx` also if the schema has dates.

        Notes
        -----
        X must be dense. With a schema it is a frame of pandas. Dates without a type of
        dates, infinite numbers, and durations or text that `float` cannot read as a
        number raise an error. A text code such as "1" also matches the text "1.0". With
        ``normalize=True``, `Normalizer` does not scale rows with a norm below 2e-15.

        The Pipeline is a function of released numbers and public facts. `fit` of the
        Pipeline or of its clone raises an error with a schema, and otherwise is
        ordinary scikit-learn, **without privacy**. The statement still describes the
        earlier, private fit.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from skfdp import DPSGDFClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = DPSGDFClassifier(bounds=(0, 5000), classes=[0, 1], random_state=0)
        >>> pipeline = model.fit(X, y).to_sklearn()
        >>> pipeline[-1]
        LogisticRegression()
        >>> bool((pipeline.predict(2 * X) == model.predict(2 * X)).all())
        True
        """
        check_is_fitted(self)
        return wing("export").pipeline_of(self, onnx)

    @without_traps()
    def _margins(self, X) -> np.ndarray:
        """Return ``input_scaler_(X) @ coef_.T + intercept_``, with all further terms.

        The further terms are the margins of interactions, and those of a public model
        without its linear part, which `coef_` includes.
        """
        check_is_fitted(self)
        coef = np.atleast_2d(self.coef_)  # `coef_` of regressors is a vector
        encoder = self._reader.encoder
        if encoder is None or any(hasattr(self, name) for name in BESIDE_WEIGHTS):

            def own(rows: np.ndarray) -> np.ndarray:
                return rows @ coef.T + self.intercept_

            return self._summed(X, own, len(coef))
        margins = encoder.margins(readable(X), coef) + self.intercept_
        return margins[:, 0] if len(coef) == 1 else margins


@documented
@public("skfdp")
class FeatureDPLogisticRegression(PrivateClassifier, LinearModel):
    r"""Differentially private logistic regression; columns or target may be public.

    Some columns, the target, or both may be declared public; all other values of a
    record are protected. Public columns and a public target are used exactly. With a
    public target the private gradient descent starts from a model of the public
    columns. With a private target it starts from released class frequencies, and public
    columns are centred exactly. If all columns are public and the target is private, a
    single release of the label statistic (the sum of the products of public rows and
    labels) is enough. Algorithm 1 of Mahloujifar et al. (2023), with a public loss, is
    an option.

    Most users need only the first group of parameters. The defaults of the others are
    computed from public and released numbers (:ref:`loop`).

    Parameters
    ----------
    epsilon, delta : float, default=1.0, 1e-5
        The budget of one `fit`; 1 is a usual epsilon. ``epsilon=float("inf")``: the
        exact minimum of the penalised loss (that of scikit-learn's
        `LogisticRegression`), without privacy.
    <schema>
    <target>
    public_features : None, "all", names, indices, mask or slice, default=None
        The public columns: names or fnmatch patterns (``"public__*"``) if X has column
        names, indices, a boolean mask or a slice. With "all" only the target can be
        private (label-DP).
    <public_target>
    <bounds>
    <classes>
    <ledger>

    Other Parameters
    ----------------
    solver : name or object of `skfdp.solvers`, default="auto"
        Training method: "noisy-gd" is noisy gradient descent on full batches,
        "noisy-sgd" on Poisson batches. "feature-dp-sgd" is Algorithm 1, with a public
        loss. "one-shot", only for label-DP (public columns, private target), releases
        the label statistic once; ``C="auto"`` is then the penalty of a prior, whose
        scale the likelihood of the release chooses, without privacy cost. Pass an
        object to set parameters: ``NoisyGradientDescent(clip_norm=0.5)``. "auto" is
        "one-shot" if possible, otherwise "noisy-gd".
    public_model : name, classifier or None, default="auto"
        Model of the public columns, from whose margins the private descent starts.
        With a public target "linear" is a logistic regression; with a schema, of
        curves. "boosting" is a mean of this model and of boosted trees; all choices are
        made by cross-validation. "auto" is "boosting" with a schema, otherwise
        "linear". With 10 classes or more there are no trees, and with 20 and a large
        budget "auto" is no model. With a private target "auto" releases a first model,
        as in label-DP, with a share of the budget that depends on public numbers
        (:ref:`released-first-model`). `C`, a dict as `class_weight`, a public loss,
        batches, sparse rows, and a solver with `max_weight_norm` prevent this. A
        classifier with `predict_proba` is cloned and fitted on the public columns of
        ``input_scaler_(X)`` and the public target. A fitted classifier is used
        unchanged, even if the target is private. Without public columns the descent
        starts from the class frequencies. None starts from equal classes, or from
        released class frequencies if the target is private.
    <neighboring_relation>
    C : float or "auto", default="auto"
        Inverse strength of the penalty, as in scikit-learn. It acts on the weights of
        the columns as scaled by `bounds`. "auto" means no penalty (1.0 at
        ``epsilon=inf``). With sample weights C multiplies the weighted sum of losses,
        as in scikit-learn.
    <fit_intercept>
    class_weight : dict, "balanced" or None, default=None
        A dict has public weights of the classes; contributions are clipped after
        weighting. "balanced" subtracts the log odds of released or public class
        frequencies from the intercept, which costs nothing. It is refused if there are
        no such frequencies (:ref:`balanced`). At ``epsilon=inf`` weights are those of
        scikit-learn.
    <centering>
    <random_state>
    <n_jobs>

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Log odds per unit of X within `bounds`. ``decision_function(X)`` is
        ``input_scaler_(X) @ coef_.T + intercept_``, which is ``X @ coef_.T +
        intercept_`` for X within `bounds`, because `input_scaler_` only clips values
        outside. With ``normalize=True`` the weights act on normalised rows.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    <encoder_>
    <coef_noise_>
    <input_scaler_>
    <solver_>
    public_model_ : PublicModel
        The public model, if one was used. `coef_` includes its linear part. The margins
        of its `estimator`, times its `share`, are added to those of `coef_`.
    <interactions_>
    <n_iter_>
    <privacy_>
    <n_features_in_>
    <feature_names_in_>

    Notes
    -----
    **Guarantees.** The fitted attributes are (epsilon, delta)-differentially private
    for the private part of a record under `neighboring_relation`, if `random_state`
    is None. All releases are one composition with exact accounting; sums and noise are
    integers. Each release has the sensitivity that is proved in :ref:`sensitivities`:

    * Neighbours share every public column, and the target if it is public. Computations
      on these are exact and free, and have separate random streams.
    * A record's contribution to a private sum is the gradient of the loss minus that of
      the public loss, clipped to `clip_norm` after the subtraction; NaN counts as 0.
    * ``bounds="private"`` first releases histograms of the columns.
    * With a private target and some public columns, the first model is computed from a
      release of the label statistic of the public columns. The margins of this model
      are equal for neighbours.
    * Before the descent up to three means are released, each once: the mean length of
      the private part of a row, the mean of the squared lengths (only if there are
      public columns), and the mean of the private part. Lengths are clipped to a public
      interval, which for wide tables is first narrowed by a histogram, and rows to the
      mean length. With a private target the class counts may also be released, and
      before interactions of private columns the mean of the encoded rows.
    * With ``centering="adaptive"`` histograms of the rotated rows, and of distances
      from a mean, are released.
    * ``class_weight="balanced"`` subtracts log odds from the intercept. These follow
      from the class counts, the label statistic or a public target, without a release.
    * After the descent two sums are released, which give a factor that rescales the
      step of the descent. "one-shot" releases the label statistic alone, once.

    Not covered are the choice of parameters, earlier steps of a Pipeline, and scores on
    training data. Earlier steps must not mix private columns into public ones; any
    scaling of whole rows does so.

    References
    ----------
    Mahloujifar, Guo, Suh and Chaudhuri (2023), *Machine Learning with Feature
    Differential Privacy*, Algorithm 1. Theorem 2.1 as printed is too optimistic; the
    documentation has the errata.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from skfdp import FeatureDPLogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> bounds = {"mean radius": (5, 30), "mean texture": (5, 40)}
    >>> model = FeatureDPLogisticRegression(
    ...     epsilon=3.0, public_features=["mean texture"], bounds=bounds, random_state=0
    ... )
    >>> model.fit(X[list(bounds)], y).privacy_.public_features
    ('mean texture',)
    """

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        *,
        schema=None,
        target=None,
        public_features=None,
        public_target=False,
        solver="auto",
        public_model="auto",
        neighboring_relation="replace_one",
        bounds=None,
        C="auto",
        fit_intercept=True,
        class_weight=None,
        classes=None,
        centering="auto",
        ledger=None,
        random_state=None,
        n_jobs=None,
    ) -> None:
        self._set(locals())

    def _check_parameters(self, declared: Declaration) -> None:
        super()._check_parameters(declared)
        check_number("C", self.C, also=("auto",))
        check_choice("loss", declared.parameters["loss"], CLASSIFICATION)

    def _penalty(self, total: float, auto: float | None = None) -> float | None:
        """Return s of the penalty ``s / 2 |w|**2`` on a mean of losses, or None.

        `auto` is the value of C that "auto" stands for; None means no penalty.
        """
        C = auto if self.C == "auto" else self.C
        return None if C is None else min(1 / (C * total), STRONGEST)

    def _methods(self, public: PublicRecords) -> Iterator[Method]:
        given, automatic = public.declared.parameters, self.solver == "auto"
        solver = given["solver"]
        size = public.n_effective, public.n_classes, public.n_features
        many = public.n_classes >= MANY_CLASSES
        if automatic and public.mask.all() and "one-shot" in self._solvers:
            if not (many and is_far(gdp_mu(self.epsilon, self.delta), *size)):
                yield self._label_statistic(public, OneShot.max_iter)
        if isinstance(solver, OneShot):
            yield self._label_statistic(public, solver.max_iter)
            return
        descent = partial(
            Descent,
            loss=loss_named(given["loss"]),
            loop=solver,
            centring=self._centring(given),
            penalty=self._penalty(public.total_weight),
            padding=given["public_loss"],
            n_jobs=n_threads(self.n_jobs),
        )
        mixed = 0 < public.n_private < public.n_features and not public.has_target
        if mixed and not many and type(solver) is NoisyGradientDescent:
            first = self._label_statistic(public, OneShot.max_iter, False)
            after = self._with_interactions(public, descent(follows=True))
            yield FirstModel(first, after)
        last = descent(public_model=self.public_model)
        yield last if public.mask.any() else self._with_interactions(public, last)

    def _label_statistic(
        self, public: PublicRecords, max_iter: int, estimates: bool = True
    ) -> Method:
        given = loss_named("log_loss"), self.C, max_iter, bool(self.fit_intercept)
        if public.is_narrowed and public.mask.all():
            return FirstModel(LabelStatistic(*given, estimates=False), None)
        found = LabelStatistic(*given, estimates)
        return self._with_interactions(public, found) if estimates else found

    def _without_privacy(self, records: Records) -> LinearFit:
        fit = optimum(
            records,
            loss_named(records.public.declared.parameters["loss"]),
            penalty=self._penalty(records.total_weight, auto=1.0),
            fit_intercept=self.fit_intercept,
            shares=records.public.shares,
            class_weight=self._weights_without_privacy(records),
        )
        return LinearFit(*fit)


@documented
@public("skfdp")
class DPSGDFClassifier(FeatureDPLogisticRegression):
    r"""Differentially private linear classifier with private centring (DPSGD-F).

    The whole record is private. The mean of the features is released once and
    subtracted from the rows. Then noisy clipped gradients of the centred rows train the
    model. The error of plain DP-SGD depends on the norm of the rows; the error of
    DPSGD-F depends on their spread. With the log loss this is
    `FeatureDPLogisticRegression` where nothing is public. (A schema may declare public
    parts.)

    Parameters
    ----------
    <inherited>

    Other Parameters
    ----------------
    loss : {"log_loss", "hinge", "squared_hinge"}, default="log_loss"
        Binary or multinomial log loss; hinge losses are one-vs-rest for several
        classes, and their weights are not log odds.
    <solver>
    <inherited>

    Attributes
    ----------
    <inherited>

    Notes
    -----
    **Guarantees.** The fitted attributes are (epsilon, delta)-differentially private
    for the whole record under `neighboring_relation`, if `random_state` is None. The
    releases and their sensitivities are those of `FeatureDPLogisticRegression` with
    private columns and a private target. With a hinge loss there are neither class
    counts nor a temperature.

    References
    ----------
    Sun, Suresh and Menon (2023), Algorithms 2 and 3,
    https://arxiv.org/abs/2307.11106; the documentation has the errata. Huang, Liang and
    Yi (2021), Instance-optimal mean estimation under differential privacy,
    https://arxiv.org/abs/2106.00463, for "adaptive".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from skfdp import DPSGDFClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> high = X.max(axis=0)  # in real use: bounds known without looking at the data
    >>> model = DPSGDFClassifier(epsilon=3.0, bounds=(0 * high, high), random_state=0)
    >>> bool(model.fit(X, y).score(X, y) > 0.8)
    True
    """

    _solvers = {name: LOOPS[name] for name in ("noisy-gd", "noisy-sgd")}

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        *,
        schema=None,
        target=None,
        loss="log_loss",
        neighboring_relation="replace_one",
        bounds=None,
        C="auto",
        fit_intercept=True,
        class_weight=None,
        classes=None,
        solver="auto",
        centering="auto",
        ledger=None,
        random_state=None,
        n_jobs=None,
    ) -> None:
        super().__init__(public_model=None)
        self._set(locals())


# The exponential of a larger margin overflows float64.
_LARGEST_MARGIN = 700.0


@documented
@public("skfdp")
class FeatureDPRegressor(RegressorMixin, LinearModel):
    r"""Differentially private linear regression; columns or target may be public.

    Some columns, the target, or both may be declared public; all other values of a
    record are protected. First the mean and the spread of the target, the mean length
    of the rows, and the mean of the rows are released, so that loose bounds cost
    little. Then noisy gradient descent trains the model. With a public target it starts
    from a model of the public columns.

    Most users need only the first group of parameters. The defaults of the others are
    computed from public and released numbers (:ref:`regression`).

    Parameters
    ----------
    epsilon, delta : float, default=1.0, 1e-5
        The budget of one `fit`; 1 is a usual epsilon. ``epsilon=float("inf")``: no
        privacy; the optimum of scikit-learn's `Ridge`, `PoissonRegressor`,
        `GammaRegressor` or `TweedieRegressor`, without use of `bounds`.
    <schema>
    <target>
    target_bounds : (float, float), default=None
        Declared public bounds of the target, in its units. Targets outside are clipped,
        without a warning; predictions stay within the bounds. Required if the target is
        private.
    public_features : None, "all", names, indices, mask or slice, default=None
        The public columns, as for `FeatureDPLogisticRegression`. With "all" only the
        target can be private (label-DP).
    <public_target>
    <bounds>
    <ledger>

    Other Parameters
    ----------------
    loss : name, Huber or Tweedie, default="squared_error"
        "squared_error" is half the squared error. "huber" is the Huber loss.
        "poisson", "gamma" and "tweedie" are half a deviance with a log link: for counts
        and rates, for amounts above 0, and for amounts of which many are 0.
        ``Huber(threshold=...)`` and ``Tweedie(power=...)`` of `skfdp.solvers` set the
        parameter of a loss.
    <solver>
    public_model : name, regressor or None, default="auto"
        Model of the public columns, from whose predictions the descent starts, as for
        `FeatureDPLogisticRegression`. The names need a public target: "linear" is a
        ridge regression, or a `PoissonRegressor` with a log link. "auto" needs an
        intercept, too. Without public columns it means the mean of the target; None
        always starts from it. A regressor, fitted or not, needs public and private
        columns, and with a log link must predict rates.
    <neighboring_relation>
    alpha : float or "auto", default="auto"
        Penalty on the weights of the columns as scaled by `bounds`. With a log link it
        is defined as in `PoissonRegressor`. For the other losses it is defined
        as in `Ridge`: the sum of losses plus ``alpha / 2 |w|**2``. With sample weights
        the sums and means of losses are weighted. "auto" means no penalty (1.0 at
        ``epsilon=inf``).
    <fit_intercept>
    <centering>
    <random_state>
    <n_jobs>

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights per unit of X within `bounds`, as of `FeatureDPLogisticRegression`, in
        units of the target (of its logarithm with a log link).
    intercept_ : float
    <encoder_>
    <coef_noise_>
    <input_scaler_>
    <solver_>
    target_map_ : TargetMap
        Bounds, centre and scale of the target.
    public_model_ : PublicModel
        The public model, if one was used, as of `FeatureDPLogisticRegression`.
    <interactions_>
    <n_iter_>
    <privacy_>
    <n_features_in_>
    <feature_names_in_>

    Notes
    -----
    **Guarantees.** The fitted attributes are (epsilon, delta)-differentially private
    for the private part of a record under `neighboring_relation`, if `random_state`
    is None. All releases are one composition with exact accounting; sums and noise are
    integers. Each release has the sensitivity that is proved in :ref:`sensitivities`:

    * Neighbours share every public column, and the target if it is public. The public
      model depends on these only.
    * The scales of target and rows, and with a log link the mean of the fitted
      rates, are means of numbers in public or released intervals; a histogram of the
      target may be released, too. The mean of the private rows and, with
      ``centering="adaptive"``, histograms follow as in `FeatureDPLogisticRegression`.
    * Gradient sums are clipped to `clip_norm`, for rows of any length and all data.
    * Without `alpha` and a log link two sums are released after the descent, which give
      a factor that rescales the step of the descent.

    Not covered are the choice of parameters, earlier steps of a Pipeline, and scores on
    training data.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skfdp import FeatureDPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = FeatureDPRegressor(
    ...     epsilon=8.0, target_bounds=(0, 400), bounds=(-0.2, 0.2), random_state=0
    ... )
    >>> bool(model.fit(X, y).score(X, y) > 0.3)
    True
    """

    _released = ("coef_", "intercept_", "n_iter_", "target_map_")
    _solvers = {name: LOOPS[name] for name in ("noisy-gd", "noisy-sgd")}
    # Residuals of targets are clipped at a few standard deviations, which needs more
    # noise than clipping at one standard deviation.
    _smoothing = 3.0
    _target = "numbers"

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        *,
        schema=None,
        target=None,
        target_bounds=None,
        loss="squared_error",
        public_features=None,
        public_target=False,
        solver="auto",
        public_model="auto",
        neighboring_relation="replace_one",
        bounds=None,
        alpha="auto",
        fit_intercept=True,
        centering="auto",
        ledger=None,
        random_state=None,
        n_jobs=None,
    ) -> None:
        self._set(locals())

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = loss_name(self.loss) in OF_RATES
        # scikit-learn's check fits 200 records; with a small budget R2 is below 0.5.
        # Tags are read before parameters are checked, also to print an estimator.
        is_inf = isinstance(self.epsilon, numbers.Real) and math.isinf(self.epsilon)
        tags.regressor_tags.poor_score = not is_inf
        return tags

    def _check_parameters(self, declared: Declaration) -> None:
        super()._check_parameters(declared)
        check_number("alpha", self.alpha, include_low=True, also=("auto",))
        loss, _ = self._loss_name, declared.target_limits()
        if loss == "huber" and math.isfinite(self.epsilon):
            threshold = declared.parameters["threshold"]
            warn_of_huber_threshold(threshold, declared.target_bounds)

    @property
    def _loss_name(self) -> str:
        kinds = {"huber": Huber, "tweedie": Tweedie}
        return loss_name(resolve("loss", self.loss, kinds, *REGRESSION))

    def _loss(self) -> Loss:
        # The Huber threshold refers to the scaled target, and is set after the scale
        # was released.
        name, given = self._loss_name, {"huber": math.inf}
        given["tweedie"] = self._given()["power"]
        return loss_named(name, given.get(name, loss_named(name).parameter))

    def _scales(self, auto: float | None = None) -> TargetScales:
        alpha = auto if self.alpha == "auto" else self.alpha
        return TargetScales(bool(self.fit_intercept), self._given()["threshold"], alpha)

    def _methods(self, public: PublicRecords) -> Iterator[Method]:
        given = public.declared.parameters
        descent = Descent(
            loss=self._loss(),
            loop=given["solver"],
            centring=self._centring(given),
            scales=self._scales(),
            public_model=self.public_model,
            n_jobs=n_threads(self.n_jobs),
        )
        yield self._with_interactions(public, descent)

    def _without_privacy(self, records: Records) -> LinearFit:
        scales = self._scales(auto=1.0)
        found = scales.exactly(records)
        records, loss = scales.scaled(records, found, self._loss())
        shares = records.public.shares
        if (own := records.exposure) is not None:
            shares = own if shares is None else own * shares
        fit = optimum(
            records,
            loss,
            penalty=scales.penalty(loss, found, records.total_weight),
            fit_intercept=self.fit_intercept,
            shares=shares,
        )
        return LinearFit(*fit, target_map=found)

    def _attributes(self, public: PublicRecords, found: LinearFit) -> dict[str, Any]:
        units, changed = found.target_map, {}
        coef, intercept = units.coefficients(found.coef, found.intercept)
        if found.public_model is not None:
            intercept = intercept - units.offset()
        for name in () if units.log else ("noise", "interactions"):
            if (own := getattr(found, name)) is not None:
                changed[name] = own.scaled(units.scale)
        found = found._replace(coef=coef, intercept=intercept, **changed)
        attributes = super()._attributes(public, found)
        for name in ("coef_", "intercept_"):
            attributes[name] = attributes[name][0]
        return attributes | {"target_map_": units}

    def _assumed(self, declared: Declaration) -> tuple[Assumption, ...]:
        if declared.target_bounds is None or math.isinf(self.epsilon):
            return ASSUMPTIONS
        low, high = declared.target_bounds
        return (
            *ASSUMPTIONS,
            Assumption(
                "target_bounds_chosen",
                f"target_bounds=({float(low):g}, {float(high):g}) were chosen without "
                "looking at private targets.",
            ),
            ASSUMED["target_clipped"],
            *(ASSUMED["exposure_clipped"],)
            * (getattr(declared.exposure, "public", True) is False),
        )

    @without_traps()
    def score(self, X, y, sample_weight=None) -> float:
        """Return R squared on X, y, without differential privacy.

        Use `private_score` for a score that can be published.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Numbers, or text with numbers. Rows without a number are left out. A warning
            gives their number.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float

        Raises
        ------
        ValueError
            If no row has a number.
        """
        return r_squared(self.predict(X), y, sample_weight)

    @without_traps()
    def predict(self, X) -> np.ndarray:
        """Return the expected target of each row, in the target's units.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
            ``input_scaler_(X) @ coef_ + intercept_``, or with a log link its
            exponential, times the row's exposure (NaN if it is not above 0) if there is
            one, clipped to `target_bounds`.
        """
        margins, schema = self._margins(X), self._reader.declaration.schema
        if self.target_map_.log:
            margins = np.exp(np.minimum(margins, _LARGEST_MARGIN))
        if self._reader.declaration.exposure is not None:
            margins *= schema.exposures(readable(X))
        return np.clip(margins, self.target_map_.low, self.target_map_.high)


@documented
@public("skfdp")
class DPSGDFRegressor(FeatureDPRegressor):
    r"""Differentially private linear regression with private centring (DPSGD-F).

    The whole record is private. This is `FeatureDPRegressor` where nothing is public.
    (A schema may declare public parts.)

    Parameters
    ----------
    <inherited>

    Other Parameters
    ----------------
    <inherited>

    Attributes
    ----------
    <inherited>

    Notes
    -----
    **Guarantees.** The fitted attributes are (epsilon, delta)-differentially private
    for the whole record under `neighboring_relation`, if `random_state` is None. The
    releases and their sensitivities are those of `FeatureDPRegressor` with private
    columns and a private target.

    References
    ----------
    Sun, Suresh and Menon (2023), https://arxiv.org/abs/2307.11106, for the centring.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skfdp import DPSGDFRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = DPSGDFRegressor(
    ...     epsilon=8.0, target_bounds=(0, 400), bounds=(-0.2, 0.2), random_state=0
    ... )
    >>> bool(model.fit(X, y).score(X, y) > 0.3)
    True
    """

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        *,
        schema=None,
        target=None,
        target_bounds=None,
        loss="squared_error",
        neighboring_relation="replace_one",
        bounds=None,
        alpha="auto",
        fit_intercept=True,
        solver="auto",
        centering="auto",
        ledger=None,
        random_state=None,
        n_jobs=None,
    ) -> None:
        super().__init__(public_model=None)
        self._set(locals())
