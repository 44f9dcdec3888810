"""Linear regressors: squared error, Huber and Poisson."""

from __future__ import annotations

from skfdp.addresses import public
from skfdp.estimators.linear_model.centring import check_centring
from skfdp.estimators.linear_model.descent import Descent
from skfdp.estimators.linear_model.moments import SecondMoments
from skfdp.estimators.linear_model.public_regression import check_public_regression
from skfdp.estimators.linear_model.regression import LinearRegressor
from skfdp.estimators.linear_model.target_statistic import TargetStatistic
from skfdp.estimators.method import Method
from skfdp.estimators.parameters import store
from skfdp.records.checks import check_batch, check_choice, shown
from skfdp.records.records import PublicRecords

_SOLVERS = ("auto", "dp-gd", "dp-sgd", "one-shot")


@public("skfdp")
class FeatureDPRegressor(LinearRegressor):
    r"""Linear regression that protects what is private of each record.

    Some columns, the target, or both may be public; the rest of every record is
    protected. A few numbers are released first (the target's mean and spread, the mean
    length of the rows and their mean), so that loose bounds cost little; then noisy
    descent, or one release. With a public target the descent starts at a model of the
    public columns.

    **Five parameters matter**; the defaults of the others are rules of public and
    released numbers (:ref:`regression`).

    ====================  ==========================================================
    `epsilon`             how much the fit may disclose; 1 is a usual amount
    `target_bounds`       where the target lies, loosely, if it is private
    `public_features`     what may be disclosed, with `public_target`: it is free
    `bounds`              where each column lies; of raw tables `encoder` instead
    `ledger`              for a second fit on the same data, whenever it will be
    ====================  ==========================================================

    Parameters
    ----------
    epsilon, delta : float, default=1.0, 1e-5
        The budget of one `fit`. ``epsilon=float("inf")``: no privacy; the optimum of
        scikit-learn's `Ridge` or `PoissonRegressor`, bounds unused.
    target_bounds : (float, float), default=None
        Declared public bounds of the target, in its units. Targets outside are clipped,
        silently; predictions stay within. Required where the target is private.
    loss : {"squared_error", "huber", "poisson"}, default="squared_error"
        Half the squared error; Huber's loss; or half the Poisson deviance of
        non-negative targets, with a log link.
    huber_threshold : float or "auto", default="auto"
        Where Huber's loss turns from squared to linear, in the target's units. "auto":
        1.35 times the spread of the target, which costs nothing more. A number below a
        thousandth of the width of `target_bounds` makes it an absolute error, and the
        fit warns.
    public_features : None, "all", names, indices, mask, slice or callable, default=None
        The public columns, as for `FeatureDPLogisticRegression`. "all" is label-DP.
    public_target : bool, default=False
        Whether the target is public.
    solver : {"auto", "dp-gd", "dp-sgd", "one-shot"}, default="auto"
        Noisy descent on full batches ("dp-gd", also "auto") or on Poisson batches
        ("dp-sgd"); or "one-shot": sums and a public solution. That is the target's
        statistic where every column is public (squared error and Poisson), and the
        second moments otherwise (squared error alone), of which products of what is
        public are exact and free.
    public_model : "auto", regressor or None, default="auto"
        Model of the public columns, at whose predictions descent starts. "auto": with a
        public target and an intercept, ridge regression on standardised columns, or
        `PoissonRegressor` (the mean where no column is public), else none. Another
        regressor is cloned and fitted on the public columns of ``row_map_(X)`` and the
        public target, or used as it is if it is fitted already, even for a private
        target. Predictions of counts must be rates. None: start at the mean.
    neighboring_relation : {"replace_one", "replace_special", "add_or_remove_one"}
        What changes between neighbouring data sets; see :ref:`protected`.
        "add_or_remove_one" only where nothing is public.
    n_records : int, default=None
        Public nominal count, for "add_or_remove_one" only, where n is private.
    encoder : DeclaredEncoder, default=None
        Encoder of raw tables; see :ref:`raw-tables`. Columns are then raw ones wherever
        the user names them, curves are smoothed, and `bounds` is left out.
    bounds : pair, mapping, "private", False or None, default=None
        Declared public bounds of the columns: ``(low, high)`` of scalars or arrays, or
        a mapping by column. Columns are clipped and scaled to [0, 1]. False: as they
        are. None: the same, with a warning. "private": released first, with a share
        of the budget; public columns have theirs exactly (:ref:`unknown-bounds`).
    feature_bound : float or "auto", default="auto"
        Typical L2 norm of a row after `bounds`, its private columns alone: the fit
        divides by it. Longer rows are not cut. "auto": their mean length, released.
        Public columns are scaled exactly; where all are, it is not needed.
    normalize : bool, default=False
        Scale every non-zero row, its private columns alone where others are public, to
        one norm, so that no length is released. That bends a linear relation.
    clip_norm : float or "auto", default="auto"
        L2 bound of one record's contribution to one gradient sum, for rows of typical
        norm 1 and targets of spread 1 (Poisson: of mean 1).
    max_iter : int or "auto", default="auto"
        Number of noisy steps: 200 to 1000 on full batches, by the signal; 20 passes on
        Poisson batches; for "one-shot" the cap of the public optimiser, 1000.
    batch_size : int, None or "auto", default="auto"
        Expected private batch: "auto" is 4096 for "dp-sgd" and the full batch else.
    learning_rate : float or "auto", default="auto"
        First step size on the clipped sum over ``q n clip_norm``; decays to 0.
    momentum : float, default=0.9
    average : {"last", "tail", "uniform"}, default="last"
        The published iterate: the last, or a mean of the second half or of all.
    noise_decay : float, default=0.75
        Exponent of the schedule of the noise over time (full batch only); 0: constant.
    radius : float, default=None
        Project the weights (in the loop's coordinates) onto this L2 ball.
    alpha : float or "auto", default="auto"
        Penalty on the weights of the bounded columns: that of `Ridge` (also for Huber:
        sum of losses plus ``alpha / 2 |w|**2``) or of `PoissonRegressor`, beside their
        weighted sums and means where there are weights. "auto": none
        (1.0 at ``epsilon=inf``); for "one-shot" chosen from released numbers, for free.
    fit_intercept : bool, default=True
        False also turns the centring off.
    centering : {"auto", None}, default="auto"
        "auto": centre the rows, exactly where every column is public, by a private
        mean else. None: no centring.
    target_name : str, default=None
        Name of the column that y is, or is computed from, if y is not a Series with
        this name: reports say it, and ledgers compare it.
    names : str, list or dict, default=None
        Names of the columns of X in the table that they come from, if X does not say
        so: one name for all, one for each, or a mapping from column names, patterns or
        positions. What is computed from one column (its categories, a spline) shares
        its name. For reports and ledgers, like `target_name`.
    max_rows_per_person : int, default=None
        With `groups` in `fit`: rows of a person after this many, in the order of the
        table, are left out. That order must not depend on private values. None: all
        rows count, and those of persons with many count less, by a rule of public
        numbers.
    on_invalid : {"replace", "raise"}, default="replace"
        Malformed private values; see :ref:`malformed`. "replace": a missing or infinite
        number counts as the middle of its declared bounds; a record that has one in a
        column without bounds, or no finite target, adds nothing to any release.
        "raise": the fit is refused, which tells of that record.
    ledger : str, path or PrivacyLedger, default=None
        Charged before anything private is read.
    random_state : int, default=None
        None: cryptographic randomness. An int: reproducible, **no guarantee**.
    n_jobs : int, default=None
        Threads; they do not change the result.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights per unit of X within `bounds`, in units of the target (Poisson: of its
        logarithm): predictions are ``row_map_(X) @ coef_ + intercept_`` before they are
        cut to `target_bounds`, and `row_map_` only cuts values outside `bounds`. With
        ``normalize=True`` they are those of normalised rows.
    intercept_ : float
    encoder_ : DeclaredEncoder
        Only with an `encoder`: the one that was used. `coef_` then has weights of its
        columns, ``encoder_.get_feature_names_out()``, and X of what is said above is
        ``encoder_.transform(X)``.
    coef_noise_ : CoefficientNoise
        What is known of the noise in them, which `coefficients_table` shows; not with
        ``epsilon=inf``.
    row_map_ : RowMap
        Bounds, and the norm if rows are normalised; the same function in `fit` and
        `predict`.
    target_map_ : TargetMap
        Bounds, centre and scale of the target.
    public_model_ : PublicRegression
        Only after a descent with a public model: already within `coef_` and
        `intercept_` if its `linear` is not None, added to them in `predict` otherwise.
    n_iter_ : int
        Steps taken.
    privacy_ : PrivacyReport
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Notes
    -----
    **Guarantees.** The fitted attributes are (epsilon, delta)-differentially private
    for the private part of a record under `neighboring_relation`, if `random_state`
    is None:

    * neighbours share every public column, and the target if that is public;
    * the scales (of target and rows), and for counts the mean of the fitted rates, are
      means of numbers in public intervals: each sum, over half of the interval, moves
      by at most 2 under "replace_one" and by 1 otherwise. So do a histogram of the
      target, and the sum of the private rows, each cut to their mean length for it;
    * the public model sees public columns and a public target alone;
    * each clipped gradient sum moves by at most twice `clip_norm` under
      "replace_one", by `clip_norm` otherwise, however long a row is;
    * "one-shot", every column public: the statistic moves by at most the width of the
      target's interval; "one-shot" otherwise: the second moments move by at most the
      bound on the page "Second moments" of the documentation, for the whole record;
    * all releases are one composition, exactly accounted; sums and noise are integers.

    Not covered: what chose the parameters, upstream steps, scores on training data.

    References
    ----------
    Wang (2018), *Revisiting differentially private linear regression*,
    https://arxiv.org/abs/1803.02596, for the second moments.

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

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        *,
        target_bounds=None,
        loss="squared_error",
        huber_threshold="auto",
        public_features=None,
        public_target=False,
        solver="auto",
        public_model="auto",
        neighboring_relation="replace_one",
        n_records=None,
        encoder=None,
        bounds=None,
        feature_bound="auto",
        normalize=False,
        clip_norm="auto",
        max_iter="auto",
        batch_size="auto",
        learning_rate="auto",
        momentum=0.9,
        average="last",
        noise_decay=0.75,
        radius=None,
        alpha="auto",
        fit_intercept=True,
        centering="auto",
        target_name=None,
        names=None,
        max_rows_per_person=None,
        on_invalid="replace",
        ledger=None,
        random_state=None,
        n_jobs=None,
    ):
        store(self, locals())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("solver", self.solver, _SOLVERS)
        check_choice("centering", self.centering, ("auto", None))
        check_choice("public_target", self.public_target, (True, False))
        check_public_regression(self.public_model, self.public_target)
        check_batch(self.solver, self.batch_size)

    def _method(self, public: PublicRecords) -> Method:
        if self.solver != "one-shot":
            return self._descent(public)
        self._check_one_shot(public)
        kind = TargetStatistic if public.mask.all() else SecondMoments
        most = 1000 if self.max_iter == "auto" else self.max_iter
        return kind(self._loss(), self._centring(), self._scales(), most)

    def _check_one_shot(self, public: PublicRecords) -> None:
        """Refuse what the one release cannot do."""
        if public.sparse:
            raise ValueError(
                "sparse X is not supported by solver='one-shot', which needs a dense "
                "X: choose 'dp-gd', or reduce the columns first (TruncatedSVD)."
            )
        if self.loss == "huber":
            raise ValueError(
                "loss='huber' is not for solver='one-shot', because its private part "
                "cannot be written as one sum: choose 'dp-gd'."
            )
        if self.loss == "poisson" and not public.mask.all():
            raise ValueError(
                "loss='poisson' with solver='one-shot' is label-DP: it needs "
                "public_features='all'; choose 'dp-gd' otherwise."
            )
        if not (self.public_model is None or isinstance(self.public_model, str)):
            raise ValueError(
                f"public_model={shown(self.public_model)} is not for "
                "solver='one-shot', which starts nowhere: choose 'dp-gd'."
            )
        if self.batch_size not in ("auto", None):
            raise ValueError(
                f"batch_size={shown(self.batch_size)} is not for solver='one-shot', "
                "which releases one sum over all records: choose 'dp-sgd'."
            )


@public("skfdp")
class DPSGDFRegressor(LinearRegressor):
    r"""Linear regression with private centring (DPSGD-F), every record private.

    The target's mean and spread, the mean length of the rows and their mean are
    released once; noisy clipped gradients of centred, scaled records train the model.
    All releases share one exact account.

    **Five parameters matter**; the defaults of the others are rules of public and
    released numbers (:ref:`regression`).

    ====================  ==========================================================
    `epsilon`             how much the fit may disclose; 1 is a usual amount
    `target_bounds`       where the target lies, loosely
    `bounds`              where each column lies; of raw tables `encoder` instead
    `loss`                "poisson" of counts, "huber" where there are outliers
    `ledger`              for a second fit on the same data, whenever it will be
    ====================  ==========================================================

    Parameters
    ----------
    epsilon, delta : float, default=1.0, 1e-5
        The budget of one `fit`. ``epsilon=float("inf")``: no privacy; the optimum of
        scikit-learn's `Ridge` or `PoissonRegressor`, bounds unused.
    target_bounds : (float, float), default=None
        Declared public bounds of the target, in its units. Targets outside are clipped,
        silently; predictions stay within. Required where the target is private.
    loss : {"squared_error", "huber", "poisson"}, default="squared_error"
        Half the squared error; Huber's loss; or half the Poisson deviance of
        non-negative targets, with a log link.
    huber_threshold : float or "auto", default="auto"
        Where Huber's loss turns from squared to linear, in the target's units. "auto":
        1.35 times the spread of the target, which costs nothing more. A number below a
        thousandth of the width of `target_bounds` makes it an absolute error, and the
        fit warns.
    neighboring_relation : {"replace_one", "replace_special", "add_or_remove_one"}
        What changes between neighbouring data sets; see :ref:`protected`.
    n_records : int, default=None
        Public nominal count, for "add_or_remove_one" only, where n is private.
    encoder : DeclaredEncoder, default=None
        Encoder of raw tables; see :ref:`raw-tables`. Columns are then raw ones wherever
        the user names them, curves are smoothed, and `bounds` is left out.
    bounds : pair, mapping, "private", False or None, default=None
        Declared public bounds of the columns: ``(low, high)`` of scalars or arrays, or
        a mapping by column. Columns are clipped and scaled to [0, 1]. False: as they
        are. None: the same, with a warning. "private": released first, with a share
        of the budget; public columns have theirs exactly (:ref:`unknown-bounds`).
    feature_bound : float or "auto", default="auto"
        Typical L2 norm of a row after `bounds`, by which the loop divides. Longer rows
        are not cut. "auto": the mean length, released.
    normalize : bool, default=False
        Scale every non-zero row to one norm, so that no length is released. That bends
        a linear relation.
    clip_norm : float or "auto", default="auto"
        L2 bound of one record's contribution to one gradient sum, for rows of typical
        norm 1 and targets of spread 1 (Poisson: of mean 1).
    max_iter : int or "auto", default="auto"
        Number of noisy steps: 200 to 1000 on full batches, by the signal.
    batch_size : int, None or "auto", default="auto"
        Expected size of a Poisson batch; None or "auto": the full batch.
    learning_rate : float or "auto", default="auto"
        First step size on the clipped sum over ``q n clip_norm``; decays to 0.
    momentum : float, default=0.9
    average : {"last", "tail", "uniform"}, default="last"
        The published iterate: the last, or a mean of the second half or of all.
    noise_decay : float, default=0.75
        Exponent of the schedule of the noise over time (full batch only); 0: constant.
    radius : float, default=None
        Project the weights (in the loop's coordinates) onto this L2 ball.
    alpha : float or "auto", default="auto"
        Penalty on the weights of the bounded columns: that of `Ridge` (also for Huber:
        sum of losses plus ``alpha / 2 |w|**2``) or of `PoissonRegressor`, beside their
        weighted sums and means where there are weights. "auto": none
        (1.0 at ``epsilon=inf``).
    fit_intercept : bool, default=True
        False also turns the centring off.
    centering : {"gaussian", "adaptive", None}, default="gaussian"
        "gaussian": mean of the rows by the Gaussian mechanism. "adaptive": one whose
        error follows the spread of the rows and not their length, for means far longer
        than the spread (:ref:`adaptive-centring`); it has no use for `feature_bound`.
        None: no centring.
    mean_fraction : float or "auto", default="auto"
        Share of the squared Gaussian-DP parameter that buys the mean of the rows.
    clip_quantile : float, "auto" or None, default="auto"
        Quantile of the distances of rows from the mean, released, by which the loop
        divides. "auto": 0.9 with ``centering="adaptive"`` or `clip_features`, else
        none. None: none.
    clip_features : bool, default=False
        Cut rows ``[x - mean, tau]`` longer than sqrt(2) tau to that norm in the loop,
        tau being the quantile. Predictions stay linear in X, and their targets are not
        cut: rows with leverage pull less, and a slope that they all tell is overrated.
    target_name : str, default=None
        Name of the column that y is, or is computed from, if y is not a Series with
        this name: reports say it, and ledgers compare it.
    names : str, list or dict, default=None
        Names of the columns of X in the table that they come from, if X does not say
        so: one name for all, one for each, or a mapping from column names, patterns or
        positions. What is computed from one column (its categories, a spline) shares
        its name. For reports and ledgers, like `target_name`.
    max_rows_per_person : int, default=None
        With `groups` in `fit`: rows of a person after this many, in the order of the
        table, are left out. That order must not depend on private values. None: all
        rows count, and those of persons with many count less, by a rule of public
        numbers.
    on_invalid : {"replace", "raise"}, default="replace"
        Malformed private values; see :ref:`malformed`. "replace": a missing or infinite
        number counts as the middle of its declared bounds; a record that has one in a
        column without bounds, or no finite target, adds nothing to any release.
        "raise": the fit is refused, which tells of that record.
    ledger : str, path or PrivacyLedger, default=None
        Charged before anything private is read.
    random_state : int, default=None
        None: cryptographic randomness. An int: reproducible, **no guarantee**.
    n_jobs : int, default=None
        Threads; they do not change the result.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights per unit of X within `bounds`, in units of the target (Poisson: of its
        logarithm): predictions are ``row_map_(X) @ coef_ + intercept_`` before they are
        cut to `target_bounds`, and `row_map_` only cuts values outside `bounds`. With
        ``normalize=True`` they are those of normalised rows.
    intercept_ : float
    encoder_ : DeclaredEncoder
        Only with an `encoder`: the one that was used. `coef_` then has weights of its
        columns, ``encoder_.get_feature_names_out()``, and X of what is said above is
        ``encoder_.transform(X)``.
    coef_noise_ : CoefficientNoise
        What is known of the noise in them, which `coefficients_table` shows; not with
        ``epsilon=inf``.
    row_map_ : RowMap
        Bounds, and the norm if rows are normalised; the same function in `fit` and
        `predict`.
    target_map_ : TargetMap
        Bounds, centre and scale of the target.
    n_iter_ : int
        Steps taken.
    privacy_ : PrivacyReport
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Notes
    -----
    **Guarantees.** The fitted attributes are (epsilon, delta)-differentially private
    for the whole record under `neighboring_relation`, if `random_state` is None:

    * the scales (of target and rows), and for counts the mean of the fitted rates, are
      means of numbers in public intervals: each sum, over half of the interval, moves
      by at most 1 between neighbours (2 under "replace_one"). So do a histogram of the
      target, and the sum of the rows, each cut to their mean length for it. With
      ``centering="adaptive"`` or a `clip_quantile` there are those releases that
      `DPSGDFClassifier` tells of;
    * each clipped gradient sum moves by at most `clip_norm` (twice that under
      "replace_one"), whatever the data;
    * all releases are one composition, exactly accounted; sums and noise are integers.

    Not covered: what chose the parameters, upstream steps, scores on training data.

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
        target_bounds=None,
        loss="squared_error",
        huber_threshold="auto",
        neighboring_relation="replace_special",
        n_records=None,
        encoder=None,
        bounds=None,
        feature_bound="auto",
        normalize=False,
        clip_norm="auto",
        max_iter="auto",
        batch_size="auto",
        learning_rate="auto",
        momentum=0.9,
        average="last",
        noise_decay=0.75,
        radius=None,
        alpha="auto",
        fit_intercept=True,
        centering="gaussian",
        mean_fraction="auto",
        clip_quantile="auto",
        clip_features=False,
        target_name=None,
        names=None,
        max_rows_per_person=None,
        on_invalid="replace",
        ledger=None,
        random_state=None,
        n_jobs=None,
    ):
        store(self, locals())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_centring(self._given())

    def _method(self, public: PublicRecords) -> Descent:
        return self._descent(public)
