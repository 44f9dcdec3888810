"""Feature-DP logistic regression: part of every record is public (paper 1)."""

from __future__ import annotations

from typing import Any

from skfdp.addresses import public
from skfdp.estimators.linear_model.descent import Descent
from skfdp.estimators.linear_model.fitted import LinearFit
from skfdp.estimators.linear_model.label_statistic import (
    LabelStatistic,
    takes_one_shot,
)
from skfdp.estimators.linear_model.linear import LinearClassifier
from skfdp.estimators.linear_model.padding import PADDINGS, Padding
from skfdp.estimators.linear_model.public_model import check_public_model
from skfdp.estimators.method import Method
from skfdp.estimators.parameters import linear_loop, store
from skfdp.privacy import gdp_mu
from skfdp.privacy.relations import Relation
from skfdp.queries.losses import LOSSES
from skfdp.records.checks import check_batch, check_choice, check_number, check_size
from skfdp.records.records import PublicRecords


@public("skfdp")
class FeatureDPLogisticRegression(LinearClassifier):
    r"""Logistic regression that protects what is private of each record.

    Some columns, the target, or both may be public; the rest of every record is
    protected. What is public is used exactly: with a public target the descent starts
    at a model of the public columns; with a private one it starts at released class
    frequencies, and public columns are centred exactly; with all columns public and a
    private target one release of a label statistic is enough. Algorithm 1 of paper 1,
    with a public loss, is an option.

    **Five parameters matter**; the defaults of the others are rules of public and
    released numbers (:ref:`loop`).

    ====================  ==========================================================
    `epsilon`             how much the fit may disclose; 1 is a usual amount
    `public_features`     what may be disclosed, with `public_target`: it is free
    `bounds`              where each column lies; of raw tables `encoder` instead
    `classes`             the labels that can occur, where the target is private
    `ledger`              for a second fit on the same data, whenever it will be
    ====================  ==========================================================

    Parameters
    ----------
    epsilon, delta : float, default=1.0, 1e-5
        The budget of one `fit`. ``epsilon=float("inf")``: no privacy; the optimum of
        scikit-learn's `LogisticRegression`.
    public_features : None, "all", names, indices, mask, slice or callable, default=None
        The public columns: names or fnmatch patterns (``"public__*"``) where X has
        column names, indices, a boolean mask, a slice, or a callable of X such as
        ``make_column_selector(pattern=...)``. "all" is label-DP.
    public_target : bool, default=False
        Whether the target is public.
    solver : {"auto", "dp-gd", "dp-sgd", "one-shot"}, default="auto"
        Noisy descent on full batches ("dp-gd") or on Poisson batches ("dp-sgd"); or
        "one-shot", only for label-DP (every column public, private target): the label
        statistic is released once, and the rest is public. "auto" is "one-shot"
        where that is possible and no parameter of the loop is set, else "dp-gd".
    public_model : "auto", classifier or None, default="auto"
        Model of the public columns, in whose margins the private descent starts.
        "auto": with a public target a logistic regression on standardised columns (the
        class frequencies where no column is public), else none; none either with 20
        classes or more and a large budget. A classifier with
        `predict_proba` is cloned and fitted on the public columns of ``row_map_(X)``
        and the public target, or used as it is if it is fitted already, even for a
        private target. None: start at equal classes, or at released class frequencies
        where the target is private.
    public_loss : {"auto", "zero", "gaussian", "impute"}, callable or None
        None, also "auto", the default: the whole gradient is private. "zero",
        "gaussian" and "impute": Algorithm 1, where the public loss is the loss of the
        public part padded to a full record with zeros, with normals drawn once per fit,
        or with a linear prediction of the private columns from the public part, for
        which cross moments are released once (a tenth of the budget); without a public
        target it is the loss averaged over all labels. A callable adds the exact
        gradient of any public term:
        ``(coef, intercept, X_public, y) -> (coef_gradient, intercept_gradient)``,
        y being None unless the target is public.
    public_batch_size : int, default=None
        Uniform public batch of each step; None: all rows.
    private_weight : float, default=1.0
        Factor of the private gradient (alpha of paper 1).
    padding_scale : float, default=1.0
        Standard deviation of the "gaussian" padding, for columns within [0, 1].
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
        Typical L2 norm of a row after `bounds`, its private columns alone: the loop
        divides by it. Longer rows are not cut. "auto": their mean length, released.
        Public columns are scaled exactly; where all are, it is not needed.
    normalize : bool, default=False
        Scale every non-zero row, its private columns alone where others are public, to
        one norm, so that no length is released. The model is then linear in normalised
        rows, in `predict` too.
    clip_norm : float or "auto", default="auto"
        L2 bound of one record's contribution to one gradient sum, for rows of typical
        norm 1. It alone bounds what a long row adds.
    max_iter : int or "auto", default="auto"
        Number of noisy steps: 200 to 1000 on full batches, by the signal, 20 passes on
        Poisson batches; for "one-shot" the cap of the public optimiser, 1000.
    batch_size : int, None or "auto", default="auto"
        Expected private batch: "auto" is 4096 for "dp-sgd" and the full batch else.
    learning_rate : float or "auto", default="auto"
        First step size on the clipped sum over ``q n clip_norm``; decays to 0.
    momentum : float, default=0.9
    average : {"last", "tail", "uniform"}, default="last"
        The published iterate; "uniform" is paper 1's.
    noise_decay : float, default=0.75
        Exponent of the schedule of the noise over time (full batch only); 0: constant.
    radius : float, default=None
        Project the weights (in the loop's coordinates) onto this L2 ball, paper 1's W.
    C : float or "auto", default="auto"
        scikit-learn's inverse penalty on the weights of the bounded columns; "auto":
        no penalty (1.0 at ``epsilon=inf``); for "one-shot" that of a prior, whose
        scale is chosen by the likelihood of the release, for free. With weights it
        multiplies the weighted sum of losses, as in scikit-learn.
    fit_intercept : bool, default=True
        False also turns the centring off.
    class_weight : dict, default=None
        Public weights of the classes; the contribution is clipped after weighting.
    classes : array-like, default=None
        The public label set. None: read from y, an assumption of the report if the
        target is private.
    centering : {"auto", "gaussian", None}, default="auto"
        "gaussian": centre public columns exactly, private ones by a private mean.
        "auto": the same, but where signs are worth a sqrt(2) (see the guarantees)
        private columns stay as they are if their mean cannot be learnt, or is short.
        None: no centring.
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
        column without bounds, or no label of `classes`, adds nothing to any release.
        "raise": the fit is refused, which tells of that record.
    ledger : str, path or PrivacyLedger, default=None
        Charged before anything private is read.
    random_state : int, default=None
        None: cryptographic randomness. An int: reproducible, **no guarantee**.
    n_jobs : int, default=None
        Threads; they do not change the result.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Log odds per unit of X within `bounds`: ``decision_function(X)`` is
        ``row_map_(X) @ coef_.T + intercept_``, and `row_map_` only cuts values outside
        `bounds`, so that it is ``X @ coef_.T + intercept_`` for X within them. With
        ``normalize=True`` they are log odds of normalised rows. They hold the public
        model too if it is a logistic regression, standardised or not; the margins of
        any other public model come on top of the product.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
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
    public_model_ : PublicModel
        The public model, its classifier in `estimator`; only where one was used.
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

    * neighbours share every public column, and the target if that is public; what
      depends on these alone is exact and free, and uses coins of its own;
    * a record's contribution to a private sum is the gradient of the loss minus that
      of the public loss, clipped to `clip_norm` after the subtraction; the sum moves
      by at most twice that under "replace_one", by `clip_norm` otherwise;
    * under "replace_one" it moves by at most ``sqrt(2) clip_norm`` if the target is
      public, `bounds` make every private column non-negative, and private columns are
      not centred, without a public loss that pads: the signs of a contribution are
      public then. "auto" centres them wherever the mean can be learnt, and the bound is
      ``2 clip_norm`` then;
    * if every column is public, by no more than two labels' residuals differ, times the
      longest row; the report names the bound that was used;
    * with ``bounds="private"`` counts of the columns in bins come first, which move by
      ``sqrt(p)``, or ``sqrt(2 p)`` under "replace_one", for p private columns;
    * before the loop, each at most once: the mean length of the private columns, from
      lengths cut to a public interval, and their mean, from rows cut to that length
      (sums of numbers and rows of norm 1, which move by 2 under "replace_one", by 1
      otherwise); with a private target class counts, which a replaced label moves by
      sqrt(2);
    * after it the temperature: two numbers, each a sum of a residual times a step, both
      cut, whose entries are at most the largest residual (sqrt(2), or 1 for two
      classes). They move by sqrt(2) times that, twice as far under "replace_one";
    * "one-shot": the label statistic moves by at most ``sqrt(2) |w phi|`` when a label
      is replaced, w phi being a public row times the public weight of its record
      (for two classes under "replace_special" the signed statistic moves by half of
      ``|w phi|``); one release;
    * all releases are one composition, exactly accounted; sums and noise are integers.

    Not covered: what chose the parameters, upstream steps, scores on training data. A
    step before this one must not mix private columns into public ones, as any scaling
    of whole rows does.

    References
    ----------
    Mahloujifar, Guo, Suh and Chaudhuri (2023), *Machine Learning with Feature
    Differential Privacy*, Algorithm 1; Theorem 2.1 as printed is too optimistic, the
    errata are in the documentation.

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
        public_features=None,
        public_target=False,
        solver="auto",
        public_model="auto",
        public_loss="auto",
        public_batch_size=None,
        private_weight=1.0,
        padding_scale=1.0,
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
        C="auto",
        fit_intercept=True,
        class_weight=None,
        classes=None,
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
        check_choice("solver", self.solver, tuple(_SOLVERS))
        check_choice("centering", self.centering, ("auto", "gaussian", None))
        check_choice("public_target", self.public_target, (True, False))
        check_public_model(self.public_model, self.public_target)
        if callable(self.public_loss) and self.encoder is not None:
            raise ValueError(
                "public_loss is a function of the columns of X, which are raw here: "
                "encode them before the estimator, in a Pipeline, or leave one out."
            )
        if not callable(self.public_loss):
            check_choice("public_loss", self.public_loss, ("auto", None, *PADDINGS))
        check_number(
            "public_batch_size", self.public_batch_size, integral=True, also=(None,)
        )
        check_size("private_weight", self.private_weight)
        check_size("padding_scale", self.padding_scale, zero=True)
        check_batch(self.solver, self.batch_size)

    def _method(self, public: PublicRecords) -> Method:
        return _SOLVERS[self.solver](self, public)

    def _one_shot_or_descent(self, public: PublicRecords) -> Method:
        given, relation = self._given(), self.neighboring_relation
        mu = gdp_mu(self.epsilon, self.delta)
        if takes_one_shot(given, public, Relation.of(relation), mu):
            most = 1000 if self.max_iter == "auto" else self.max_iter
            return LabelStatistic(
                LOSSES["log_loss"], self.C, most, bool(self.fit_intercept)
            )
        return self._descent(public)

    def _descent(self, public: PublicRecords) -> Descent:
        if self.public_loss in ("gaussian", "impute") and public.sparse:
            raise ValueError(
                f"public_loss={self.public_loss!r} pads private columns with numbers "
                "and would fill a sparse X in: choose 'zero', or pass a dense X."
            )
        pads = self.public_loss in PADDINGS
        return Descent(
            loss=LOSSES["log_loss"],
            loop=linear_loop(self._given(), public.n_records),
            centring=self._centring(),
            penalty=self._penalty(public.total_weight),
            padding=Padding(self.public_loss, self.padding_scale) if pads else None,
            public_loss=self.public_loss if callable(self.public_loss) else None,
            public_batch_size=self.public_batch_size,
            private_weight=self.private_weight,
            public_model=self.public_model,
            n_jobs=self._n_threads(),
        )

    def _attributes(self, public: PublicRecords, found: LinearFit) -> dict[str, Any]:
        attributes = super()._attributes(public, found)
        if found.public_model is not None:
            attributes["public_model_"] = found.public_model
        return attributes

    def _offset(self, rows):
        model = getattr(self, "public_model_", None)
        if model is None or model.linear is not None:
            return 0.0
        return model.margins(rows[:, self.row_map_.public])


#: By the name of a solver: what returns its method, given what is public.
_SOLVERS = {
    "auto": FeatureDPLogisticRegression._one_shot_or_descent,
    "dp-gd": FeatureDPLogisticRegression._descent,
    "dp-sgd": FeatureDPLogisticRegression._descent,
    "one-shot": FeatureDPLogisticRegression._one_shot_or_descent,
}
