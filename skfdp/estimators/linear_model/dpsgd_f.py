"""DPSGD-F: private centring before private training (paper 2)."""

from __future__ import annotations

from skfdp.addresses import public
from skfdp.estimators.linear_model.centring import check_centring
from skfdp.estimators.linear_model.descent import Descent
from skfdp.estimators.linear_model.linear import LinearClassifier
from skfdp.estimators.parameters import linear_loop, store
from skfdp.queries.losses import LOSSES
from skfdp.records.records import PublicRecords


@public("skfdp")
class DPSGDFClassifier(LinearClassifier):
    r"""Linear classifier with private centring (DPSGD-F), every record private.

    The features' mean is released once, the rows are centred by it, and noisy clipped
    gradients of the centred rows train the model; all releases share one exact
    account. Plain DP-SGD pays for the norm of the features, DPSGD-F for their spread.

    **Five parameters matter**; the defaults of the others are rules of public and
    released numbers (:ref:`loop`).

    ====================  ==========================================================
    `epsilon`             how much the fit may disclose; 1 is a usual amount
    `bounds`              where each column lies; of raw tables `encoder` instead
    `classes`             the labels that can occur
    `normalize`           False where the length of a row tells something
    `ledger`              for a second fit on the same data, whenever it will be
    ====================  ==========================================================

    Parameters
    ----------
    epsilon, delta : float, default=1.0, 1e-5
        The budget of one `fit`. ``epsilon=float("inf")``: no privacy, the optimum.
    loss : {"log_loss", "hinge", "squared_hinge"}, default="log_loss"
        Binary or multinomial log loss; the hinges are one-vs-rest for several classes.
    neighboring_relation : {"replace_special", "replace_one", "add_or_remove_one"}
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
        Where rows are not normalised: typical L2 norm of a row after `bounds`, by which
        the loop divides. Longer rows are not cut. "auto": the mean length, released.
    normalize : bool or "auto", default="auto"
        Scale every non-zero row to one norm, as in the paper, so that no length is
        released. The model is linear in normalised rows, in `predict` too. False: it is
        linear in X within `bounds`. "auto": True, but False with an `encoder`.
    clip_norm : float or "auto", default="auto"
        L2 bound of one record's contribution to one gradient sum, for rows of typical
        norm 1. It alone bounds what a long row adds.
    max_iter : int or "auto", default="auto"
        Number of noisy steps; 200 to 1000 on full batches, by the signal.
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
    C : float or "auto", default="auto"
        scikit-learn's inverse penalty on the weights of the bounded columns; "auto":
        no penalty (1.0 at ``epsilon=inf``). With weights it multiplies the weighted sum
        of losses, as in scikit-learn.
    fit_intercept : bool, default=True
        False also turns the centring off.
    class_weight : dict, default=None
        Public weights of the classes; the contribution is clipped after weighting.
    classes : array-like, default=None
        The public label set. None: read from y, an assumption of the report.
    centering : {"gaussian", "adaptive", None}, default="gaussian"
        "gaussian": Algorithm 3, mean by the Gaussian mechanism. "adaptive": the mean of
        Algorithm 2, whose error follows the spread of the rows and not their length;
        for means far longer than the spread (:ref:`adaptive-centring`). It is released
        in five parts, needs no length, and has no use for `feature_bound`. None: plain
        DP-SGD.
    mean_fraction : float or "auto", default="auto"
        Share of the squared Gaussian-DP parameter that buys the mean.
    clip_quantile : float, "auto" or None, default="auto"
        Quantile of the distances of rows from the mean, released, by which the loop
        divides. "auto": 0.9 with ``centering="adaptive"`` or `clip_features`, else
        none. None: none.
    clip_features : bool, default=False
        The feature clipping of Algorithm 2: with tau that quantile, the constant column
        of the intercept is tau, and rows ``[x - mean, tau]`` longer than sqrt(2) tau
        are cut to it in the loop, and there alone: `coef_` is linear in X as ever.
        A factor above 0 of a whole row changes no class, so that far rows get the same
        classes, and more extreme probabilities than those that were trained.
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
        Weights on ``row_map_(X)``, per unit of X: ``decision_function(X)`` is
        ``row_map_(X) @ coef_.T + intercept_``. With ``normalize=True`` they are log
        odds (of the log loss) of normalised rows. Without it they are log odds of X
        within `bounds`: `row_map_` only cuts values outside, and for X within them it
        is ``X @ coef_.T + intercept_``.
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
    n_iter_ : int
        Steps taken.
    privacy_ : PrivacyReport
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Notes
    -----
    **Guarantees.** The fitted attributes are (epsilon, delta)-differentially private
    for the whole record under `neighboring_relation`, if `random_state` is None:

    * the sum of the rows moves by at most 1 between neighbours (2 under "replace_one"),
      and is released once with Gaussian noise. Rows that are not normalised are cut for
      it to their mean length, which is released before (lengths are cut to a public
      interval, and their sum, over half of it, moves by as much);
    * with ``centering="adaptive"`` it is the sum of the rows about a rough mean, over a
      radius, cut to norm 1, which moves as far. The rough mean is made of three
      histograms of the rotated rows, a record being in one bin of each of their p
      columns (p: n_features up to a power of two), which move by at most sqrt(p), and
      sqrt(2 p) under "replace_one"; the radius, like `clip_quantile`, of one of the
      distances, which moves by at most 1, and sqrt(2) under "replace_one";
    * each clipped gradient sum moves by at most `clip_norm` (twice that under
      "replace_one"), whatever the data, NaN gradients counting as 0;
    * with the log loss, class counts are released before the loop: they move by at most
      1, and by sqrt(2) if a label is replaced. After it the
      temperature is: two numbers, each at most the largest residual (sqrt(2), or 1 for
      two classes), which move by sqrt(2) times that, twice as far under "replace_one";
    * all releases are one composition, exactly accounted; sums and noise are integers.

    Not covered: what chose the parameters, upstream steps, scores on training data.

    References
    ----------
    Sun, Suresh and Menon (2023), Algorithms 2 and 3,
    https://arxiv.org/abs/2307.11106; the errata that were needed are in the
    documentation. Huang, Liang and Yi (2021), Instance-optimal mean estimation under
    differential privacy, https://arxiv.org/abs/2106.00463, for "adaptive".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from skfdp import DPSGDFClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> high = X.max(axis=0)  # in real use: what is known without looking
    >>> model = DPSGDFClassifier(epsilon=3.0, bounds=(0 * high, high), random_state=0)
    >>> bool(model.fit(X, y).score(X, y) > 0.8)
    True
    """

    _normalize_may_be_auto = True

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        *,
        loss="log_loss",
        neighboring_relation="replace_special",
        n_records=None,
        encoder=None,
        bounds=None,
        feature_bound="auto",
        normalize="auto",
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
        return Descent(
            loss=LOSSES[self.loss],
            loop=linear_loop(self._given(), public.n_records),
            centring=self._centring(),
            penalty=self._penalty(public.total_weight),
            n_jobs=self._n_threads(),
        )
