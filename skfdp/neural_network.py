"""Networks with feature-DP: a part of each record may be public."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.neural_network import MLPClassifier
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from skfdp.addresses import public, wing
from skfdp.base import PrivateClassifier, PrivateEstimator, documented
from skfdp.data.records import PublicRecords, Records
from skfdp.data.target import class_shares, log_odds
from skfdp.data.validation import without_traps
from skfdp.linear_model import FeatureDPLogisticRegression, LinearModel
from skfdp.privacy import gdp_mu
from skfdp.privacy.checks import shown
from skfdp.privacy.events import Assumption, Relation
from skfdp.reader import Declaration
from skfdp.solvers import (
    BACKENDS,
    LOOPS,
    NumpyBackend,
    TorchBackend,
    parameters,
    resolve,
)
from skfdp.solvers.descent import Descent
from skfdp.solvers.method import Method, Plan
from skfdp.solvers.network import (
    Network,
    NetworkDescent,
    Neurons,
    WithNeurons,
    hidden_layers,
    public_network,
)
from skfdp.solvers.parameters import ASSUMPTIONS, n_threads
from skfdp.solvers.postprocessing import LinearFit

_EXACT_PRODUCTS = Assumption(
    "products_exact",
    "Products of small integers by torch are exact: no TensorFloat-32, no "
    "reduced precision.",
)


class _Linear(FeatureDPLogisticRegression):
    """The linear model that a network computes, without interactions beside it."""

    def _with_interactions(self, public: PublicRecords, method: Method) -> Method:
        return method


@documented
@public("skfdp")
class FeatureDPMLPClassifier(PrivateClassifier, PrivateEstimator):
    r"""Differentially private ReLU network; columns and the target may be public.

    By default it is `FeatureDPLogisticRegression` on the columns and on hidden neurons
    with fixed random weights, which are left out if the budget is small for them. With
    a public target, a network of the public columns may join the public model. It is
    the linear model alone if neurons are fewer than the columns, or if the table has a
    schema (whose interactions and trees a network lacks), is sparse, large or of Dask,
    or lacks bounds. A `solver` trains all weights instead, from random ones: DP-SGD, or
    Algorithm 1 of Mahloujifar et al. (2023). At epsilon 1 this was mostly far behind
    (:ref:`networks-measured`).

    Parameters
    ----------
    epsilon, delta : float, default=1.0, 1e-5
        The budget of one `fit`. ``epsilon=float("inf")``: scikit-learn's
        `MLPClassifier` with its defaults, without privacy.
    hidden_layer_sizes : int or sequence of int, default=(300,)
        Widths of the hidden layers; an empty sequence means a linear model. By default
        each layer needs two neurons per class, or two for two classes.
    <schema>
    <target>
    public_features : None, "all", names, indices, mask or slice, default=None
        The public columns, as in `FeatureDPLogisticRegression`.
    <public_target>
    <bounds>
    <classes>
    <ledger>

    Other Parameters
    ----------------
    solver : name or object of `skfdp.solvers`, default="auto"
        "auto" fits a linear model, as above. Others train all weights: "noisy-sgd" with
        Poisson batches, "noisy-gd" with full batches, or "feature-dp-sgd" (Algorithm
        1). Pass an object to set parameters: ``NoisySGD(clip_norm=0.5)``. The parameter
        `row_norm` of the object is the L2 bound of a row; longer rows are scaled down
        to it.
    <neighboring_relation>
    class_weight : dict, "balanced" or None, default=None
        As in `FeatureDPLogisticRegression`. With a `solver`, "balanced" needs a public
        target. At ``epsilon=inf`` a dict and "balanced" need scikit-learn 1.7.
    backend : {"numpy", "torch"} or object, default="numpy"
        The library that computes the matrix products of a `solver`. Both libraries give
        the same result, to the last bit. Pass a `NumpyBackend` or `TorchBackend` of
        `skfdp.solvers` to set the type of the numbers and the device.
    <random_state>
    <n_jobs>

    Attributes
    ----------
    coefs_ : list of ndarray of shape (inputs, outputs)
        Weights of the layers. The first layer acts on ``input_scaler_(X)``, in the
        units of X.
    intercepts_ : list of ndarray of shape (outputs,)
    classes_ : ndarray of shape (n_classes,)
    encoder_ : DeclaredEncoder
        Encoder of the columns; only with a schema.
    <input_scaler_>
    <solver_>
    public_model_ : PublicModel
        If there is one, its margins times its `share` are added to those of `coefs_`.
    <n_iter_>
    n_layers_ : int
        Number of layers, including input and output.
    <privacy_>
    <n_features_in_>
    <feature_names_in_>

    Notes
    -----
    **Guarantees.** The fitted attributes are (epsilon, delta)-differentially private
    for the private part of a record under `neighboring_relation`, if `random_state`
    is None:

    * By default all guarantees are those of `FeatureDPLogisticRegression`, on a wider
      table. The weights of random neurons are constants. Activations are functions of
      their own record, and public if the neuron reads public columns alone.
    * With a `solver` a record's contribution to a gradient sum is the gradient of the
      loss minus that of the public loss (0 without a public loss), clipped to
      `clip_norm` after the subtraction. The sensitivity is ``2 * clip_norm`` under
      "replace_one", and `clip_norm` otherwise.
    * All releases are one composition with exact accounting. Activations, errors and
      weights are short binary fractions or integers, and all products and sums are
      exact, including the sum with the noise. With the torch backend this depends on
      exact float32 products, which is an assumption of the report.

    Not covered are the choice of parameters, earlier steps of a Pipeline, and scores on
    training data.

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
        schema=None,
        target=None,
        public_features=None,
        public_target=False,
        solver="auto",
        neighboring_relation="replace_one",
        bounds=None,
        class_weight=None,
        classes=None,
        backend="numpy",
        ledger=None,
        random_state=None,
        n_jobs=None,
    ) -> None:
        self._set(locals())

    _released = ("coefs_", "intercepts_", "n_iter_")
    _weights = ("coefs_", "intercepts_")
    _smoothing = 1.0
    fit, plan = LinearModel.fit, LinearModel.plan
    _solvers, _solver = LOOPS, LinearModel._solver

    @property
    def _rows(self) -> str:
        return "linear" if self._is_linear else "clipped"

    @property
    def _is_linear(self) -> bool:
        return isinstance(self.solver, str) and self.solver == "auto"

    _keeps_order = _omits_zeros = _is_linear

    @property
    def _linear(self) -> _Linear:
        """The linear model, with the parameters that its methods read."""
        # Boosted trees, which "auto" adds with a schema, are no network.
        trees = self.schema is not None and self.public_target
        return _Linear(
            self.epsilon,
            self.delta,
            public_model="linear" if trees else "auto",
            class_weight=self.class_weight,
            n_jobs=self.n_jobs,
        )

    @property
    def _backend(self) -> NumpyBackend:
        return resolve("backend", self.backend, BACKENDS)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._is_linear
        return tags

    def _check_parameters(self, declared: Declaration) -> None:
        super()._check_parameters(declared)
        hidden_layers(self.hidden_layer_sizes)
        if isinstance(self._backend, TorchBackend):
            wing("torch").check_device(self._backend.device)

    def _norm(self, given: Mapping[str, Any], mask: np.ndarray) -> tuple[Any, bool]:
        bound, normalize = super()._norm(given, mask)
        if bound == "auto":
            bound = max(1.0, math.sqrt(len(mask)) / 2)  # entries are about 1/2
        return bound, normalize

    def _planned(self, public: PublicRecords) -> tuple[Method, Any, Plan]:
        weighted = self.class_weight is not None or public.shares is not None
        takes_weights = has_fit_parameter(MLPClassifier, "sample_weight")
        if math.isinf(self.epsilon) and weighted and not takes_weights:
            raise ValueError(
                "weights at epsilon=inf need scikit-learn 1.7: upgrade scikit-learn, "
                "or leave sample_weight and class_weight out."
            )
        return super()._planned(public)

    def _methods(self, public: PublicRecords) -> Iterator[Method]:
        hidden, backend = hidden_layers(self.hidden_layer_sizes), self._backend
        if not self._is_linear:
            given = public.declared.parameters
            loop = given["solver"]
            if loop.momentum == "auto":
                loop = dataclasses.replace(loop, momentum=parameters.MOMENTUM)
            yield NetworkDescent(
                widths=(public.n_features, *hidden, public.n_outputs),
                loop=loop,
                public_loss=given["public_loss"],
                backend="torch" if isinstance(backend, TorchBackend) else "numpy",
                device=getattr(backend, "device", None),
                dtype=backend.dtype,
                n_jobs=n_threads(self.n_jobs),
            )
            return
        if min(hidden, default=math.inf) < 2 * public.n_outputs:
            raise ValueError(
                f"hidden_layer_sizes={shown(self.hidden_layer_sizes)} must be at least "
                f"{2 * public.n_outputs}, two neurons for each of {public.n_outputs} "
                "margins: pass wider layers, or a solver such as 'noisy-sgd'."
            )
        neurons, wide = self._neurons(public), public
        if neurons is not None:
            wide = neurons.of_public(public)
        for method in self._linear._methods(wide):
            if isinstance(method, Descent):
                beside = public_network(public, hidden)
                method = dataclasses.replace(method, beside=beside)
            yield WithNeurons(method, neurons, wide)

    def _neurons(self, public: PublicRecords) -> Neurons | None:
        relation = Relation.of(self.neighboring_relation)
        mu = gdp_mu(self.epsilon, self.delta) / relation.sensitivity(1.0)
        return Neurons.of(public, hidden_layers(self.hidden_layer_sizes), mu)

    def _without_privacy(self, records: Records) -> Network:
        public = records.public
        hidden = hidden_layers(self.hidden_layer_sizes)
        model, weights = MLPClassifier(hidden, random_state=self.random_state), {}
        shares, of_classes = public.shares, self._weights_without_privacy(records)
        if of_classes is not None:
            shares = of_classes[records.target] * (1.0 if shares is None else shares)
        if shares is not None:
            weights["sample_weight"] = shares
        model.fit(records.X, records.target, **weights)
        network = Network(model.coefs_, model.intercepts_, model.n_iter_)
        return network.spread(model.classes_, public.n_classes)

    def _attributes(
        self, public: PublicRecords, found: LinearFit | Network
    ) -> dict[str, Any]:
        solver = clone(public.declared.parameters["solver"])
        known = {"classes_": public.classes, "n_iter_": found.n_iter, "solver_": solver}
        if isinstance(found, LinearFit):
            hidden, wide = hidden_layers(self.hidden_layer_sizes), public
            neurons = self._neurons(public)
            if neurons is not None:
                wide = neurons.of_public(public, fill=False)
            linear = self._linear._attributes(wide, found)
            scaler = linear["input_scaler_"] if wide is public else public.input_scaler
            weights = linear["coef_"], linear["intercept_"]
            network = Network.linear(*weights, hidden, neurons, scaler)
            known["solver_"] = linear["solver_"]
            if found.public_model is not None and found.public_model.share:
                known["public_model_"] = found.public_model
        else:
            network, scaler = found, public.input_scaler
            if self._balances:  # only with a public target
                odds = log_odds(class_shares(public.target, public.n_classes))
                *others, last = network.intercepts
                network = network._replace(intercepts=[*others, last - odds])
        return known | {
            "coefs_": network.coefs,
            "intercepts_": network.intercepts,
            "n_layers_": len(network.coefs) + 1,
            "input_scaler_": scaler,
        }

    def _assumed(self, declared: Declaration) -> tuple[Assumption, ...]:
        # Assumed for the CPU, too: environment variables can make libraries round more.
        return ASSUMPTIONS + (_EXACT_PRODUCTS,) * isinstance(
            self._backend, TorchBackend
        )

    @without_traps()
    def _margins(self, X) -> np.ndarray:
        check_is_fitted(self)
        network = Network(self.coefs_, self.intercepts_)
        return self._summed(X, network.margins, len(self.intercepts_[-1]))
