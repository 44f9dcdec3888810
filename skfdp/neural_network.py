"""Neural networks with feature-DP: a part of each record may be public."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.neural_network import MLPClassifier
from sklearn.utils.validation import has_fit_parameter

from skfdp.addresses import public, wing
from skfdp.base import PrivateClassifier, PrivateEstimator, documented
from skfdp.data.grid import blocks
from skfdp.data.records import PublicRecords, Records
from skfdp.data.target import class_shares, log_odds
from skfdp.data.validation import check_choice, without_traps
from skfdp.privacy.assumptions import Assumption
from skfdp.reader import Declaration
from skfdp.solvers import (
    BACKENDS,
    LOOPS,
    STARTS,
    Choice,
    NoisySGD,
    NumpyBackend,
    Pretraining,
    TorchBackend,
    parameters,
    resolve,
)
from skfdp.solvers.network import Network, NetworkDescent, NetworkFit, hidden_layers
from skfdp.solvers.parameters import ASSUMPTIONS, n_threads

_EXACT_PRODUCTS = Assumption(
    "products_exact",
    "Products of small integers by torch are exact: no TensorFloat-32, no "
    "reduced precision.",
)


@documented
@public("skfdp")
class FeatureDPMLPClassifier(PrivateClassifier, PrivateEstimator):
    r"""Differentially private ReLU network; columns and the target may be public.

    Some columns, the target, or both may be declared public; all other values of a
    record are protected. Hidden layers are rectified linear, the output is a softmax.
    If the target is public, a private linear model is fitted first, and the network
    starts with the same predictions. By default the linear model uses the whole budget,
    and the network is not trained further. With a private target, or if a part of the
    budget is left, noisy gradient descent trains the network: DP-SGD, or Algorithm 1 of
    Mahloujifar et al. (2023).

    Most users need only the first group of parameters. The defaults of the others were
    chosen by experiments on tables and images (:ref:`mlp`).

    Parameters
    ----------
    epsilon, delta : float, default=1.0, 1e-5
        The budget of one `fit`; networks need a larger epsilon than 1.
        ``epsilon=float("inf")``: scikit-learn's `MLPClassifier` with its defaults,
        without privacy.
    hidden_layer_sizes : int or sequence of int, default=(300,)
        Widths of the hidden layers; an empty sequence means a linear model.
    <schema>
    <target>
    public_features : None, "all", names, indices, mask or slice, default=None
        The public columns, as in `FeatureDPLogisticRegression`.
    <public_target>
    bounds : pair, mapping, False or None, default=None
        Declared public bounds of the columns: ``(low, high)`` of scalars or arrays, or
        a mapping by column. Columns are clipped and scaled to [0, 1]. False leaves
        columns unchanged; None does the same with a warning.
    <classes>
    <ledger>

    Other Parameters
    ----------------
    pretraining : name, Pretraining or None, default="auto"
        Initial weights, if the target is public: "linear", "class_sums", "public" or
        "auto"; see `skfdp.solvers.Pretraining`, which also sets the share of the
        budget. None starts from random weights, as every fit with a private target
        does.
    trained_layers : {"auto", "all", "last"}, default="auto"
        "last" trains only the last layer, on frozen lower layers. Then the sensitivity
        to a replaced record is only ``sqrt(2) * clip_norm``, if the target is public.
        "auto" is "last" if the pretraining is "class_sums" or "linear" and there is no
        public loss; otherwise it is "all".
    solver : name or object of `skfdp.solvers`, default="auto"
        Training method: "noisy-sgd" with Poisson batches, "noisy-gd" with full batches,
        or "feature-dp-sgd" (Algorithm 1). "auto" is "noisy-sgd". Pass an object to set
        parameters: ``NoisySGD(clip_norm=0.5)``. The parameter `row_norm` of the object
        is the L2 bound of a row; longer rows are scaled down to it.
    <neighboring_relation>
    class_weight : dict, "balanced" or None, default=None
        A dict has public weights of the classes; contributions are clipped after
        weighting. "balanced" subtracts the log odds of the public class frequencies
        from the last intercept; it needs a public target (:ref:`balanced`). At
        ``epsilon=inf`` a dict and "balanced" need scikit-learn 1.7.
    backend : {"numpy", "torch"} or object, default="numpy"
        The library that computes the matrix products of the training. Both libraries
        give the same result, to the last bit. Pass a `NumpyBackend` or `TorchBackend`
        of `skfdp.solvers` to set the type of the numbers and the device.
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

    * Neighbours share every public column, and the target if it is public. Computations
      on these and on released sums are free, and have separate random streams.
    * A record's contribution to a gradient sum is the gradient of the loss minus that
      of the public loss (0 without a public loss), clipped to `clip_norm` after the
      subtraction. The sensitivity is ``2 * clip_norm`` under "replace_one", and
      `clip_norm` otherwise.
    * If only the last layer is trained and the target is public, no entry of a
      contribution can change its sign, so the sensitivity is ``sqrt(2) * clip_norm``.
      The same holds for the class sums.
    * The releases of a linear model that is fitted first have the sensitivities of
      `FeatureDPLogisticRegression`. Using this model in the network is free.
    * All releases are one composition with exact accounting. Activations, errors and
      weights are integers, and all products and sums are exact, including the sum with
      the noise. With the torch backend this depends on exact float32 products, which
      is an assumption of the report.

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
        pretraining="auto",
        trained_layers="auto",
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

    @property
    def _solver(self) -> Choice:
        return resolve("solver", self.solver, {"auto": NoisySGD, **LOOPS})

    @property
    def _pretraining(self) -> Pretraining | None:
        chosen = self.pretraining
        if isinstance(chosen, str) and chosen in STARTS:
            return Pretraining(start=chosen)
        kinds = {"auto": Pretraining}
        return resolve("pretraining", chosen, kinds, *STARTS, None)

    @property
    def _backend(self) -> NumpyBackend:
        return resolve("backend", self.backend, BACKENDS)

    def _check_parameters(self, declared: Declaration) -> None:
        super()._check_parameters(declared)
        hidden_layers(self.hidden_layer_sizes)
        check_choice("trained_layers", self.trained_layers, ("auto", "all", "last"))
        weighted = self.class_weight is not None and math.isinf(self.epsilon)
        if weighted and not has_fit_parameter(MLPClassifier, "sample_weight"):
            raise ValueError(
                "class_weight at epsilon=inf needs scikit-learn 1.7: upgrade "
                "scikit-learn, or leave class_weight out."
            )
        if isinstance(self._backend, TorchBackend):
            wing("torch").check_device(self._backend.device)

    def _norm(self, given: Mapping[str, Any], mask: np.ndarray) -> tuple[Any, bool]:
        bound, normalize = super()._norm(given, mask)
        if bound == "auto":
            bound = parameters.network_row_bound(len(mask))
        return bound, normalize

    def _methods(self, public: PublicRecords) -> Iterator[NetworkDescent]:
        given, layers = public.declared.parameters, self.trained_layers
        solver, public_loss = given["solver"], given["public_loss"]
        start, backend = self._pretraining, self._backend
        hidden, loop = hidden_layers(self.hidden_layer_sizes), solver
        if loop.momentum == "auto":
            loop = dataclasses.replace(loop, momentum=parameters.MOMENTUM)
        yield NetworkDescent(
            widths=(public.n_features, *hidden, public.n_outputs),
            loop=loop,
            asks_for_loop=not (self.solver == "auto" and layers == "auto"),
            maps_rows=solver.normalize or solver.row_norm != "auto",
            pretraining=None if start is None else start.start,
            pretraining_share="auto" if start is None else start.budget_share,
            trained_layers=layers,
            public_loss=public_loss,
            padding_scale=1.0 if public_loss is None else solver.padding_scale,
            backend="torch" if isinstance(backend, TorchBackend) else "numpy",
            device=getattr(backend, "device", None),
            dtype=backend.dtype,
            n_jobs=n_threads(self.n_jobs),
        )

    def _without_privacy(self, records: Records) -> NetworkFit:
        public = records.public
        hidden = hidden_layers(self.hidden_layer_sizes)
        model = MLPClassifier(hidden, random_state=self.random_state)
        weights, of_classes = {}, self._weights_without_privacy(records)
        if of_classes is not None:
            weights["sample_weight"] = of_classes[records.target]
        model.fit(records.X, records.target, **weights)
        network = Network(model.coefs_, model.intercepts_)
        network = network.spread(model.classes_, public.n_classes)
        return NetworkFit(network, public.input_scaler, model.n_iter_)

    def _attributes(self, public: PublicRecords, found: NetworkFit) -> dict[str, Any]:
        network = found.network
        if self._balances:  # only with a public target
            odds = log_odds(class_shares(public.target, public.n_classes))
            *others, last = network.intercepts
            network = network._replace(intercepts=[*others, last - odds])
        return {
            "classes_": public.classes,
            "coefs_": network.coefs,
            "intercepts_": network.intercepts,
            "n_iter_": found.n_iter,
            "n_layers_": len(network.coefs) + 1,
            "input_scaler_": found.input_scaler,
            "solver_": clone(public.declared.parameters["solver"]),
        }

    def _assumed(self, declared: Declaration) -> tuple[Assumption, ...]:
        # Assumed for the CPU, too: environment variables can make libraries round more.
        return ASSUMPTIONS + (_EXACT_PRODUCTS,) * isinstance(
            self._backend, TorchBackend
        )

    @without_traps()
    def _margins(self, X) -> np.ndarray:
        X = self._rows_to_predict(X)
        network = Network(self.coefs_, self.intercepts_)
        margins = np.empty((len(X), len(self.intercepts_[-1])))
        for block in blocks(*X.shape):
            margins[block] = network.margins(self.input_scaler_(X[block]))
        return margins[:, 0] if margins.shape[1] == 1 else margins
