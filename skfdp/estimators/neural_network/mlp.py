"""Feature-DP networks: part of every record is public (paper 1)."""

from __future__ import annotations

import dataclasses
import math
import types

import numpy as np
from joblib import effective_n_jobs
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.neural_network import MLPClassifier
from sklearn.utils.validation import check_is_fitted

from skfdp.addresses import public
from skfdp.estimators import defaults
from skfdp.estimators.arrays import check_arrays
from skfdp.estimators.neural_network.networks import Network
from skfdp.estimators.neural_network.plan import (
    NetworkTraining,
    Problem,
    hidden_layers,
    network_parameters,
    plan_network,
)
from skfdp.estimators.neural_network.start import linear_network, start_of_loop
from skfdp.estimators.parameters import (
    ASSUMPTIONS,
    begin_callbacks,
    check_loop_parameters,
    check_nothing_public,
    check_privacy_parameters,
    complete_parameters,
    end_callbacks,
    forget,
    public_count,
    resolve_row_map,
)
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.report import Assumption, PrivacyReport
from skfdp.queries.losses import LOSSES
from skfdp.queries.network import BACKENDS, DTYPES
from skfdp.records.blocks import blocks
from skfdp.records.checks import check_choice, check_number, check_size, shown
from skfdp.records.guards import guarded_fit, users_state, without_traps
from skfdp.records.labels import encode_labels, resolve_class_weight
from skfdp.records.names import column_names, target_name
from skfdp.records.public_columns import public_mask
from skfdp.records.row_map import RowMap
from skfdp.releases.coins import uniform_batch
from skfdp.releases.descent import check_weights, descent
from skfdp.releases.desk import Desk
from skfdp.releases.noise import Streams, warn_of_seed
from skfdp.releases.steps import HeavyBall

_PUBLIC_LOSSES = ("auto", None, "zero", "gaussian", "impute")
_EXACT_PRODUCTS = Assumption(
    "Products of small integers by torch are exact: no TensorFloat-32, no "
    "reduced precision.",
    enforced=False,
)


@public("skfdp")
class FeatureDPMLPClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    r"""A ReLU network that protects what is private of each record.

    Some columns, the target, or both may be public; the rest of every record is
    protected. Hidden layers are rectified, the output is a softmax. Where the target
    is public, a private linear model comes first, which the network passes on, and by
    default it takes the whole budget. Else, or with a part of the budget, a loop of
    noisy gradients trains the network: DP-SGD, or with a `public_loss` Algorithm 1 of
    paper 1.

    Parameters
    ----------
    epsilon, delta : float, default=1.0, 1e-5
        The budget of one `fit`. ``epsilon=float("inf")``: no privacy; scikit-learn's
        `MLPClassifier` with its defaults.
    hidden_layer_sizes : int or sequence of int, default=(300,)
        Widths of the hidden layers; empty: a linear model.
    public_features : None, "all", names, indices, mask, slice or callable, default=None
        The public columns, as in `FeatureDPLogisticRegression`.
    public_target : bool, default=False
        Whether the target is public.
    pretraining : {"auto", "linear", "class_sums", "public"} or None, default="auto"
        Where the loop starts. "public": at a network of the public columns and the
        public target, private columns being 0. "class_sums": the same with private
        columns drawn given the class, from sums that are released once; needs `bounds`
        for the private columns. "linear": at a `FeatureDPLogisticRegression`, which
        two neurons of each hidden layer for each class pass on; it maps the rows, and
        refuses `feature_bound` and `normalize`. "auto": "linear" if the target is
        public; where that is refused, layers are too narrow for it, or for a public
        loss, "class_sums" from 20 classes on and "public" for fewer. None where the
        target is private.
    pretraining_share : float or "auto", default="auto"
        Share of the squared Gaussian-DP budget for the class sums or the linear model;
        1: no loop. "auto": half for class sums, and all of it for the linear model,
        which no loop that follows has improved; but half if a parameter is set that
        only the loop has (from `trained_layers` to `private_weight`, and from
        `clip_norm` to `radius`).
    trained_layers : {"auto", "all", "last"}, default="auto"
        "last": the loop trains the last layer on the frozen others, where a replaced
        record moves a sum by ``sqrt(2) * clip_norm`` only, if the target is public.
        "auto": "last" after "class_sums" or "linear" without a public loss.
    public_loss : {"auto", "zero", "gaussian", "impute"} or None, default="auto"
        None, also "auto": the whole gradient is private. Others: Algorithm 1, the
        public loss being that of the public part padded with zeros, with normals, or
        with draws given the class (after ``pretraining="class_sums"``); drawn once.
    public_batch_size : int, default=None
        Uniform public batch of each step; None: all rows.
    private_weight : float, default=1.0
        Factor of the private gradient (alpha of paper 1).
    padding_scale : float, default=1.0
        Standard deviation of the "gaussian" padding, for columns within [0, 1].
    neighboring_relation : {"replace_one", "replace_special", "add_or_remove_one"}
        What changes between neighbouring data sets; see :ref:`protected`.
    n_records : int, default=None
        Public nominal count, for "add_or_remove_one" only, where n is private.
    bounds : pair, mapping, False or None, default=None
        Declared public bounds of the columns, clipped and scaled to [0, 1]. False: as
        they are. None: the same, with a warning.
    feature_bound : float or "auto", default="auto"
        L2 bound of a row after `bounds`; longer rows are scaled back. "auto":
        ``sqrt(n_features) / 2``, and no bound after a linear model. The network meets
        rows of up to this length.
    normalize : bool, default=False
        Scale every non-zero row to the norm `feature_bound`.
    clip_norm : float or "auto", default="auto"
        L2 bound of one record's contribution to one gradient sum, all layers together.
    max_iter : int or "auto", default="auto"
        Number of noisy steps.
    batch_size : int, None or "auto", default="auto"
        Expected private batch, None: every row. "auto": a 16th of the rows, at least
        1024, for "all" layers; every row for the "last".
    learning_rate : float or "auto", default="auto"
        First step size, on the clipped sum over ``q n clip_norm`` (for Algorithm 1 the
        public gradient is divided by `clip_norm` as well).
    learning_rate_decay : float, default=1.0
        Share of the step size that is gone at the end, linearly; 0: constant steps.
    momentum : float, default=0.9
    average : {"last", "tail", "uniform"}, default="last"
        The published iterate.
    noise_decay : float, default=0.75
        Exponent of the schedule of the noise over time (full batch only); 0: constant.
    radius : float, default=None
        Project all weights onto this L2 ball after each step, paper 1's W.
    class_weight : dict, default=None
        Public weights of the classes; the contribution is clipped after weighting.
    classes : array-like, default=None
        The public label set. None: read from y, an assumption of the report if the
        target is private.
    backend : {"numpy", "torch"}, default="numpy"
        Who multiplies in the loop. Both give the same result, to the last bit.
    device : str, default=None
        Of torch, "cuda" for example.
    dtype : {"float32", "float64"}, default="float32"
        Of the products in the loop: with "float32" the gradients are those of a network
        with about 9 bits in each activation, with "float64" 15. The guarantee is the
        same.
    accountant : {"auto", "pld"}, default="auto"
        "auto": closed form on full batches.
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
        None: cryptographic randomness. An int: reproducible, **no guarantee**.
    n_jobs : int, default=None
        Threads; they do not change the result.

    Attributes
    ----------
    coefs_ : list of ndarray of shape (inputs, outputs)
        Weights, the first on ``row_map_(X)``, in the units of X.
    intercepts_ : list of ndarray of shape (outputs,)
    classes_ : ndarray of shape (n_classes,)
    row_map_ : RowMap
        Bounds and norm; the same function in `fit` and `predict`.
    n_iter_ : int
        Steps taken.
    n_layers_ : int
        Layers, input and output included.
    privacy_ : PrivacyReport
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Notes
    -----
    **Guarantees.** The fitted attributes are (epsilon, delta)-differentially private
    for the private part of a record under `neighboring_relation`, if `random_state`
    is None:

    * neighbours share every public column, and the target if that is public; what
      depends on these and on released sums alone is free, and uses coins of its own;
    * a record's contribution to a gradient sum is the difference of two gradients,
      clipped to `clip_norm` after the subtraction; it moves the sum by at most twice
      that under "replace_one", by `clip_norm` otherwise;
    * where only the last layer is trained and the target is public, no entry of a
      contribution can change its sign, and the sum moves by at most
      ``sqrt(2) * clip_norm``; the same holds of the class sums;
    * a linear model that comes first has the sensitivities of
      `FeatureDPLogisticRegression`; passing it on is free;
    * all releases are one composition, exactly accounted. Activations, errors and
      weights are integers, every product and sum of them is exact, and so is the sum
      with the noise. With the torch backend this rests on its float32 products, an
      assumption of the report.

    Not covered: what chose the parameters, upstream steps, scores on training data.

    References
    ----------
    Mahloujifar, Guo, Suh and Chaudhuri (2023), *Machine Learning with Feature
    Differential Privacy*, Algorithm 1 and section 3.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skfdp import FeatureDPMLPClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = FeatureDPMLPClassifier(
    ...     epsilon=4.0, hidden_layer_sizes=(30,), public_features=slice(0, 32),
    ...     public_target=True, bounds=(0, 16), random_state=0,
    ... )
    >>> model.fit(X, y).privacy_.public_target
    True
    """

    def __init__(
        self,
        epsilon=1.0,
        delta=1e-5,
        *,
        hidden_layer_sizes=(300,),
        public_features=None,
        public_target=False,
        pretraining="auto",
        pretraining_share="auto",
        trained_layers="auto",
        public_loss="auto",
        public_batch_size=None,
        private_weight=1.0,
        padding_scale=1.0,
        neighboring_relation="replace_one",
        n_records=None,
        bounds=None,
        feature_bound="auto",
        normalize=False,
        clip_norm="auto",
        max_iter="auto",
        batch_size="auto",
        learning_rate="auto",
        learning_rate_decay=1.0,
        momentum=0.9,
        average="last",
        noise_decay=0.75,
        radius=None,
        class_weight=None,
        classes=None,
        backend="numpy",
        device=None,
        dtype="float32",
        accountant="auto",
        target_name=None,
        names=None,
        ledger=None,
        random_state=None,
        n_jobs=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.hidden_layer_sizes = hidden_layer_sizes
        self.public_features = public_features
        self.public_target = public_target
        self.pretraining = pretraining
        self.pretraining_share = pretraining_share
        self.trained_layers = trained_layers
        self.public_loss = public_loss
        self.public_batch_size = public_batch_size
        self.private_weight = private_weight
        self.padding_scale = padding_scale
        self.neighboring_relation = neighboring_relation
        self.n_records = n_records
        self.bounds = bounds
        self.feature_bound = feature_bound
        self.normalize = normalize
        self.clip_norm = clip_norm
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.learning_rate_decay = learning_rate_decay
        self.momentum = momentum
        self.average = average
        self.noise_decay = noise_decay
        self.radius = radius
        self.class_weight = class_weight
        self.classes = classes
        self.backend = backend
        self.device = device
        self.dtype = dtype
        self.accountant = accountant
        self.target_name = target_name
        self.names = names
        self.ledger = ledger
        self.random_state = random_state
        self.n_jobs = n_jobs

    def __setstate__(self, state):
        super().__setstate__(state)
        complete_parameters(self)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a fit came to its end."""
        return hasattr(self, "coefs_")

    @with_callbacks
    @guarded_fit
    def fit(self, X, y):
        """Train on X, y within the budget, charging the ledger first.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Dense. Each record once. Values outside `bounds` and rows longer than
            `feature_bound` are clipped, silently.
        y : array-like of shape (n_samples,)
            Labels of any type.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            For bad parameters or malformed input; nothing is charged, no datum is
            quoted.
        ImportError
            For ``backend="torch"`` where torch is not installed; nothing is charged.
        PrivacyBudgetError
            If the ledger's ceiling would be passed; nothing is charged or trained.
        """
        forget(self)
        self._check_parameters()
        ledger = PrivacyLedger.resolve(self.ledger)
        problem = self._resolve(X, y)
        name = type(self).__name__
        if math.isinf(self.epsilon):
            if ledger is not None:
                receipt = ledger.charge_nonprivate(label=name)
                problem = dataclasses.replace(problem, receipt=receipt)
            return self._fit_without_privacy(problem)
        warn_of_seed(self.random_state)
        streams = Streams(
            self.random_state,
            type(self),
            (problem.X, problem.codes),
            network_parameters(self, problem),
        )
        training = plan_network(self, problem, streams.seeded)
        problem = dataclasses.replace(problem, row_map=training.row_map)
        if ledger is not None:
            receipt = ledger.charge(training.events, label=name)
            problem = dataclasses.replace(problem, receipt=receipt)
        return self._fit_private(problem, training, streams)

    def _check_parameters(self) -> None:
        auto = ("auto",)
        check_size("feature_bound", self.feature_bound, also=auto)
        check_privacy_parameters(self._with_feature_bound(1.0))
        hidden_layers(self.hidden_layer_sizes)
        check_choice("public_target", self.public_target, (True, False))
        check_choice(
            "pretraining",
            self.pretraining,
            ("auto", None, "public", "class_sums", "linear"),
        )
        check_number(
            "pretraining_share", self.pretraining_share, high=1 + 1e-9, also=auto
        )
        check_choice("trained_layers", self.trained_layers, ("auto", "all", "last"))
        check_choice("public_loss", self.public_loss, _PUBLIC_LOSSES)
        check_number(
            "public_batch_size", self.public_batch_size, integral=True, also=(None,)
        )
        check_size("private_weight", self.private_weight)
        check_size("padding_scale", self.padding_scale, zero=True)
        check_loop_parameters(self)
        check_number(
            "learning_rate_decay",
            self.learning_rate_decay,
            high=1 + 1e-9,
            include_low=True,
        )
        check_choice("backend", self.backend, BACKENDS)
        check_choice("dtype", self.dtype, DTYPES)
        if self.backend == "torch":
            from skfdp.queries.torch import check_device

            check_device(self.device)
        elif self.device is not None:
            raise ValueError(
                f"device={shown(self.device)} is only for backend='torch': leave it "
                "out."
            )

    def _with_feature_bound(self, bound: float) -> types.SimpleNamespace:
        """Return the parameters as validation reads them, with a number as bound."""
        return types.SimpleNamespace(
            **self.get_params(deep=False) | {"feature_bound": bound}
        )

    def _resolve(self, X, y) -> Problem:
        """Validate and split; the last time that the user's objects are touched."""
        frame, named = X, target_name(self.target_name, y)
        X, y = check_arrays(self, X, y)
        labels = encode_labels(y, self.classes)
        names = getattr(self, "feature_names_in_", None)
        mask = public_mask(self.public_features, X.shape[1], names, frame)
        infinite = math.isinf(self.epsilon)
        if not infinite:
            check_nothing_public(self, mask, bool(self.public_target))
        source = labels.source
        if source == "data" and self.public_target:
            source = "public target"
        row_map = RowMap(feature_bound=math.inf)
        if not infinite:
            bound = self.feature_bound
            if bound == "auto":
                bound = defaults.network_row_bound(X.shape[1])
            row_map = resolve_row_map(
                self._with_feature_bound(bound), X.shape[1], names
            )
        return Problem(
            X=X,
            codes=labels.codes,
            classes=labels.classes,
            classes_source=source,
            columns=column_names(self),
            target_name=named,
            public=mask,
            public_target=bool(self.public_target),
            row_map=row_map,
            n_public=public_count(self, len(X)),
            loss=LOSSES["log_loss"],
            class_weight=resolve_class_weight(self.class_weight, labels.classes),
            hidden=hidden_layers(self.hidden_layer_sizes),
        )

    def _fit_without_privacy(self, problem: Problem):
        """Fit scikit-learn's network, with its defaults."""
        context = begin_callbacks(self)
        model = MLPClassifier(problem.hidden, random_state=self.random_state)
        weight = problem.class_weight[problem.codes]
        model.fit(problem.X, problem.codes, sample_weight=weight)
        network = Network(model.coefs_, model.intercepts_).spread(
            model.classes_, len(problem.classes)
        )
        self._publish(self._fitted(problem, network, model.n_iter_))
        self.privacy_ = self._report(problem, ())
        end_callbacks(context, self)
        return self

    def _fit_private(
        self, problem: Problem, training: NetworkTraining, streams: Streams
    ):
        context = begin_callbacks(self, max_subtasks=training.n_steps)
        desk = Desk(training.events, streams)
        linear = training.linear
        assumed = () if linear is None else linear.assumptions
        privacy = self._report(problem, training.events, assumed)
        if linear is not None and training.plan is None:
            network = linear_network(self, problem, training, streams, desk)
            self._publish(self._fitted(problem, network, 0))
            self.privacy_ = privacy
            end_callbacks(context, self)
            return self
        n_jobs = effective_n_jobs(self.n_jobs)
        loop = start_of_loop(self, problem, training, streams, desk, n_jobs)

        @without_traps()
        def fitted(theta: np.ndarray, n_iter: int) -> dict:
            network = loop.network(theta).on_mapped_rows(problem.row_map)
            return self._fitted(problem, network, n_iter)

        @users_state()
        def on_step(step: int, theta: np.ndarray) -> bool:
            task = context.subcontext(task_name="step")
            task.call_on_fit_task_begin(estimator=self)
            return task.call_on_fit_task_end(
                estimator=self,
                reconstruction_attributes=lambda: {
                    **fitted(theta, step + 1),
                    "privacy_": privacy,
                },
            )

        theta, n_iter = loop.start, 0
        if training.plan is not None:
            theta, n_iter = self._descend(
                problem, training, streams, desk, loop, on_step
            )
        self._publish(fitted(theta, n_iter))
        self.privacy_ = privacy
        end_callbacks(context, self)
        return self

    def _descend(self, problem, training, streams, desk, loop, on_step):
        query = loop.query
        public_gradient = None
        if getattr(query, "padded", None) is not None:
            coins, size = streams.public("batch"), self.public_batch_size

            def public_gradient(theta: np.ndarray) -> np.ndarray:
                batch = uniform_batch(coins, query.n_rows, size)
                return query.public_gradient(theta, batch)

        return descent(
            desk,
            query,
            HeavyBall(
                training.learning_rate,
                self.momentum,
                training.n_steps,
                self.radius,
                self.learning_rate_decay,
            ),
            n_records=problem.n_public,
            average=self.average,
            private_weight=self.private_weight,
            public_gradient=public_gradient,
            on_step=on_step,
            start=loop.start,
        )

    def _publish(self, fitted: dict) -> None:
        check_weights((*fitted["coefs_"], *fitted["intercepts_"]))
        for name, value in fitted.items():
            setattr(self, name, value)

    def _fitted(self, problem: Problem, network: Network, n_iter: int) -> dict:
        return {
            "classes_": problem.classes,
            "coefs_": network.coefs,
            "intercepts_": network.intercepts,
            "n_iter_": n_iter,
            "n_layers_": len(network.coefs) + 1,
            "row_map_": problem.row_map,
        }

    def _report(
        self, problem: Problem, events: tuple, assumed: tuple = ()
    ) -> PrivacyReport:
        # On the CPU too: some libraries round products if the environment says so.
        with_torch = self.backend == "torch"
        return PrivacyReport.from_events(
            subject=type(self).__name__,
            events=events,
            delta=self.delta,
            target_epsilon=self.epsilon,
            n_records=problem.n_public,
            feature_names=problem.columns,
            target_name=problem.target_name,
            released=(
                "coefs_",
                "intercepts_",
                "n_iter_",
                "every iterate of the loop",
            ),
            assumptions=ASSUMPTIONS + assumed + (_EXACT_PRODUCTS,) * with_torch,
            seeded=self.random_state is not None,
            receipts=[problem.receipt],
        )

    @without_traps()
    def decision_function(self, X):
        """Return the margins of the network on ``row_map_(X)``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        margins : ndarray of shape (n_samples,) or (n_samples, n_classes)
            One column for each class; for two classes the margin of ``classes_[1]``.
        """
        check_is_fitted(self)
        X = check_arrays(self, X, reset=False)
        network = Network(self.coefs_, self.intercepts_)
        margins = np.empty((len(X), len(self.intercepts_[-1])))
        for block in blocks(*X.shape):
            margins[block] = network.margins(self.row_map_(X[block]))
        return margins[:, 0] if margins.shape[1] == 1 else margins

    def predict(self, X):
        """Return the most likely label of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        margins = self.decision_function(X)
        if margins.ndim == 1:
            return self.classes_[(margins > 0).astype(np.intp)]
        return self.classes_[margins.argmax(axis=1)]

    @without_traps()
    def predict_proba(self, X):
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        margins = self.decision_function(X)
        if margins.ndim == 1:
            positive = expit(margins)
            return np.column_stack([1 - positive, positive])
        return softmax(margins, axis=1)
