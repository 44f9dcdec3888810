"""Networks: one that computes a linear model, and the training loop of others."""

from __future__ import annotations

import dataclasses
import itertools
import math
import numbers
from typing import Any, NamedTuple

import numpy as np
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from skfdp.data.grid import InputScaler, blocks, divisor_of_rows
from skfdp.data.records import Coordinates, PublicRecords, Records
from skfdp.mechanisms.descent import descent, warn_of_noise_left
from skfdp.privacy.checks import shown
from skfdp.queries.network import WIDEST, MLPQuery, precision, scaled_rows
from skfdp.solvers import NoisyGradientDescent, parameters
from skfdp.solvers.descent import DescentPlan
from skfdp.solvers.method import Budget, Method, Needs, Plan
from skfdp.solvers.postprocessing import LinearFit
from skfdp.solvers.public_model import drawn_rows, padded_gradient


class Network(NamedTuple):
    """Weights of a ReLU network on ``input_scaler(X)``, in scikit-learn's layout."""

    coefs: list[np.ndarray]
    intercepts: list[np.ndarray]
    n_iter: int | None = None

    def margins(self, rows: np.ndarray) -> np.ndarray:
        """Return the margins, shape (n_rows, n_outputs)."""
        for coef, intercept in zip(self.coefs[:-1], self.intercepts[:-1], strict=True):
            rows = np.maximum(rows @ coef + intercept, 0.0)
        return rows @ self.coefs[-1] + self.intercepts[-1]

    @classmethod
    def linear(
        cls,
        coef: np.ndarray,
        intercept: np.ndarray,
        hidden: tuple[int, ...],
        neurons: Neurons | None,
        scaler: InputScaler,
    ) -> Network:
        """Return a network whose margins are those of a linear model.

        `coef` has the weights of the columns of ``scaler(X)``, and then of `neurons`,
        if there are any. For each margin, two neurons of each hidden layer carry the
        positive and the negative part of what columns add. The weights of neurons that
        are left over are 0. Hidden layers must have a width of at least
        ``2 * n_outputs``.
        """
        n_outputs, n_inputs = coef.shape
        n_inputs -= 0 if neurons is None else len(neurons.public)
        coef, of_neurons = coef[:, :n_inputs].T, coef[:, n_inputs:].T
        if not hidden:
            return cls([coef], [intercept])
        pair, widths = 2 * n_outputs, (n_inputs, *hidden, n_outputs)
        coefs = [np.zeros(shape) for shape in zip(widths, widths[1:], strict=False)]
        intercepts = [np.zeros(width) for width in widths[1:]]
        coefs[0][:, :pair] = np.hstack([coef, -coef])
        intercepts[-1][:] = intercept
        for weights in coefs[1:-1]:
            weights[:pair, :pair] = np.eye(pair)
        coefs[-1][:pair] = np.vstack([np.eye(n_outputs), -np.eye(n_outputs)])
        if neurons is None:
            return cls(coefs, intercepts)
        coefs[-1][pair:] = of_neurons
        for depth, (weights, centre, factors) in enumerate(neurons.layers):
            weights = weights * factors
            if depth == 0:  # from columns in [0, 1] to those of X
                weights /= scaler.span[:, None]
                intercepts[0][pair:] = -(scaler.low + centre * scaler.span) @ weights
                coefs[0][:, pair:] = weights
            else:
                coefs[depth][pair:, pair:] = weights
        return cls(coefs, intercepts)

    def spread(self, classes: np.ndarray, n_classes: int) -> Network:
        """Return the network with more outputs; `classes` are those it has."""
        if len(classes) == n_classes:
            return self
        (*coefs, last), (*intercepts, level) = self.coefs, self.intercepts
        coef, intercept = np.zeros((len(last), n_classes)), np.full(n_classes, -10.0)
        if len(classes) == 2:
            coef[:, classes[1]] = last[:, 0]
            intercept[classes] = 0.0, level[0]
        else:
            coef[:, classes], intercept[classes] = last, level
        return Network([*coefs, coef], [*intercepts, intercept], self.n_iter)


def glorot(widths: tuple[int, ...], generator: np.random.Generator) -> Network:
    """Draw starting weights as scikit-learn's `MLPClassifier` does."""
    coefs, intercepts = [], []
    for inputs, outputs in zip(widths, widths[1:], strict=False):
        bound = np.sqrt(6 / (inputs + outputs))
        coefs.append(generator.uniform(-bound, bound, (inputs, outputs)))
        intercepts.append(generator.uniform(-bound, bound, outputs))
    return Network(coefs, intercepts)


def hidden_layers(hidden_layer_sizes) -> tuple[int, ...]:
    """Return the widths of the hidden layers, or raise ValueError."""
    sizes = np.atleast_1d(np.asarray(hidden_layer_sizes, dtype=object))
    whole = (isinstance(n, numbers.Integral) and n is not True for n in sizes)
    if not (all(whole) and all(1 <= n <= WIDEST for n in sizes)):
        raise ValueError(
            f"hidden_layer_sizes={shown(hidden_layer_sizes)} must be an int or a "
            f"sequence of ints from 1 to {WIDEST}."
        )
    return tuple(map(int, sizes))


def widths_beside(public: PublicRecords, hidden: tuple[int, ...]) -> tuple[int, ...]:
    """Return the widths of layers beside a linear model, if above that of X, or ()."""
    plain = public.encoding is None and isinstance(public._table, np.ndarray)
    plain = plain and not public.in_partitions
    widths = tuple(width - 2 * public.n_outputs for width in hidden)
    wide = min(widths, default=0) >= public.n_features
    return widths if wide and plain and public.bounded.all() else ()


def public_network(public: PublicRecords, hidden: tuple[int, ...]) -> Any:
    """Return a network of public columns and a public target, None where of no use."""
    widths = widths_beside(public, hidden)
    weighs = public.shares is not None  # which needs scikit-learn 1.7
    if weighs or not (widths and public.has_target and public.mask.any()):
        return None
    epochs = max(1, min(50, 10**6 // public.n_rows))
    network = MLPClassifier(widths, alpha=1.0, max_iter=epochs, random_state=0)
    return make_pipeline(MinMaxScaler((-4, 4)), network)


# Fixed random neurons, as further columns of a linear model.

#: Signal-to-noise index of the wide table from which on neurons helped.
SIGNAL_FOR_NEURONS = 32.0
#: Passes over the rows of a training loop with Poisson sampling, its fewest and most
#: steps, and the clip norm of all layers together.
NETWORK_EPOCHS, NETWORK_STEPS, MOST_NETWORK_STEPS, NETWORK_CLIP = 10, 100, 300, 1.0
# Binary digits of random weights, and of inputs and activations in [0, 1] in training.
_NEURON_BITS, _INPUT_BITS = 8, 15


def _in_bits(numbers: np.ndarray, bits: int) -> np.ndarray:
    return np.ldexp(np.rint(np.ldexp(numbers, bits)), -bits)


@dataclasses.dataclass(frozen=True)
class Neurons:
    """Hidden layers with fixed random weights, for columns that are scaled to [0, 1].

    Attributes
    ----------
    layers : list of (weights, centre, factors)
        Activations of a layer are ``max((inputs - centre) @ weights * factors, 0)``.
    public : ndarray of shape (n_neurons,)
        Mask of the last layer's neurons that read public columns alone.

    Notes
    -----
    **Guarantees.** The weights are constants. Each activation is a function of its own
    record. Inputs and weights are short binary fractions, so that sums of up to 8,192
    products are exact, and the activation does not depend on the position of the
    record. A public neuron has weights of 0 for all private inputs.
    """

    layers: list[tuple[np.ndarray, float, np.ndarray]]
    public: np.ndarray

    @classmethod
    def of(
        cls, public: PublicRecords, hidden: tuple[int, ...], mu: float
    ) -> Neurons | None:
        """Draw the neurons that hidden layers have beside a linear model.

        None: the table has no neurons. They helped if the signal is large. `mu` is the
        Gaussian-DP parameter for sums of rows of norm 1. The share of neurons that read
        public columns alone is that of these columns, or 0 with a public target, which
        a network of these columns learns.
        """
        widths = widths_beside(public, hidden)
        width, n_outputs = public.n_features + sum(widths[-1:]), public.n_outputs
        signal = mu * public.n_effective / math.sqrt(width * n_outputs)
        if not widths or signal < SIGNAL_FOR_NEURONS:
            return None
        generator, layers, mask = np.random.default_rng(0), [], public.mask
        mask = mask & (not public.has_target or mask.all())
        for width in widths:
            public = np.arange(width) < round(width * mask.mean())
            reads = mask[:, None] | ~public
            weights = np.clip(generator.normal(size=reads.shape), -8, 8) * reads
            # Activations together are about as long as the centred columns, but each
            # seldom exceeds 1. The next layer keeps this length.
            n_inputs = reads.sum(axis=0)
            size = n_inputs / 2 if layers else np.maximum(width, 9 * n_inputs) / 4
            centre = 0.0 if layers else 0.5
            layers.append((_in_bits(weights, _NEURON_BITS), centre, size**-0.5))
            mask = public
        return cls(layers, mask)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return the activations of the last layer, clipped to [0, 1]."""
        for weights, centre, factors in self.layers:
            exact = (_in_bits(rows, _INPUT_BITS) - centre) @ weights
            rows = np.clip(exact * factors, 0.0, 1.0)
        return rows

    def of_public(self, public: PublicRecords, fill: bool = True) -> PublicRecords:
        """Return the table with further columns of neurons; zeros unless `fill`."""
        n_more, scaler = len(self.public), public.input_scaler
        mask = np.append(public.mask, self.public)
        own = dataclasses.replace(
            scaler,
            low=np.append(scaler.low, np.zeros(n_more)),
            span=np.append(scaler.span, np.ones(n_more)),
            feature_bound=divisor_of_rows(math.sqrt(len(mask))),
            public=None if scaler.public is None else mask,
        )
        return dataclasses.replace(
            public,
            mask=mask,
            input_scaler=own,
            columns=public.columns + ("neurons",) * n_more,
            _table=self._table(public, public.mapped, public.mask & fill),
        )

    def of_records(self, records: Records, public: PublicRecords) -> Records:
        """Return the records with all neurons; `public` is their public part."""
        known, all_columns = records.public, np.ones(records.public.n_features, bool)
        X = self._table(known, records.mapped, all_columns)
        return dataclasses.replace(records, X=X, public=public)

    def _table(self, public, mapped, columns: np.ndarray) -> np.ndarray:
        """Return some columns, given as `mapped` rows, and neurons; others are 0."""
        width = len(columns) + len(self.public)
        if not columns.any():
            return np.broadcast_to(0.0, (public.n_rows, width))
        table, scaler = np.zeros((public.n_rows, width)), public.input_scaler
        scaler = scaler if columns.all() else scaler.of_public(columns)
        places = np.flatnonzero(columns)
        for block in blocks(*table.shape):
            rows = np.zeros((len(table[block]), len(columns)))
            rows[:, places] = mapped[block] * scaler.divisor
            table[block, len(columns) :] = self(rows)
            table[block, places] = scaler.restored(mapped[block])
        return table


@dataclasses.dataclass(frozen=True)
class WithNeurons:
    """A linear method for the columns and for fixed random neurons of them.

    `public` is the table that the method gets. `neurons` are None if it is the given
    table, without further columns.

    Notes
    -----
    **Guarantees.** A record changes its own row of the wide table alone, and what is
    public in this row is a function of its public columns. So neighbours stay
    neighbours, and the guarantee of the method holds (:ref:`mlp-theory`).
    """

    method: Method
    neurons: Neurons | None
    public: PublicRecords

    def needs(self, public: PublicRecords, budget: Budget) -> Needs:
        """Return the needs of the method, beside widths of the layers."""
        found = self.method.needs(self.public, budget)
        return found._replace(honours={**found.honours, "hidden_layer_sizes": ()})

    def prepare(self, public: PublicRecords, budget: Budget) -> Any:
        """Prepare the method."""
        return self.method.prepare(self.public, budget)

    def plan(self, public, prepared, budget: Budget) -> Plan:
        """Return the plan of the method; gaps were measured without neurons."""
        plan = self.method.plan(self.public, prepared, budget)
        if self.neurons is None:
            return plan
        return dataclasses.replace(plan, expected_gap=None)

    def run(self, records, prepared, plan, mechanism, on_step) -> LinearFit:
        """Run the method, and return its weights of columns and neurons."""
        if self.neurons is not None:
            records = self.neurons.of_records(records, self.public)
        return self.method.run(records, prepared, plan, mechanism, on_step)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkDescent:
    """A network with random starting weights, trained by a loop of noisy gradients."""

    widths: tuple[int, ...]  # of all layers, input first, without constants
    loop: NoisyGradientDescent
    public_loss: str | None
    backend: str
    device: str | None
    dtype: str
    n_jobs: int

    def needs(self, public: PublicRecords, budget: Budget) -> Needs:
        """Return the needs: a dense table of records."""
        public_loss, rate = self.public_loss, self._schedule(public.n_records)[0]
        free = "dtype hidden_layer_sizes row_norm normalize class_weight"
        honours = {
            **parameters.honoured_by_loop(self.loop, rate, public_loss),
            **dict.fromkeys(free.split(), ()),
            "class_weight='balanced'": (Needs.PUBLIC_TARGET,),
        }
        table = Needs.PLAIN + (budget.counted() if public_loss else ())
        return Needs("a network", honours, table)

    def prepare(self, public: PublicRecords, budget: Budget) -> None:
        """Do nothing: random weights need no public data."""

    def plan(self, public, prepared, budget: Budget) -> DescentPlan:
        """Resolve every "auto" and calibrate the noise."""
        loop, n, clip = self.loop, public.n_records, self.loop.clip_norm
        clip = NETWORK_CLIP if clip == "auto" else clip
        reach = budget.relation.sensitivity(1.0)
        sampling_rate, n_steps = self._schedule(n)
        # Noise that the loop may leave in a weight: twice the standard deviation of the
        # initial weights, in the layer where this is smallest.
        left = 2 * math.sqrt(2 / max(map(sum, itertools.pairwise(self.widths))))
        if loop.max_iter == "auto":  # so many steps of size 1 leave this noise
            signal = budget.mu / reach * n * (1 - loop.momentum)
            enough = math.ceil(left * math.sqrt(3) * signal)
            n_steps = max(n_steps, NETWORK_STEPS, min(enough, MOST_NETWORK_STEPS))
        event = budget.calibrate(
            "descent",
            n_steps=n_steps,
            sampling_rate=sampling_rate,
            clip_norm=clip,
            sensitivity=reach * clip,
            noise_decay=loop.noise_decay,
        )
        rate = loop.learning_rate
        if rate == "auto":
            noise = event.noise_std[0] / event.clip_norm / (sampling_rate * n)
            noise = noise * math.sqrt(n_steps / 3) / (1 - loop.momentum)
            rate = min(1.0, left / noise)
        warn_of_noise_left(parameters.rule_of(loop, event, n, rate))
        return DescentPlan(events=(event,), n_steps=n_steps, learning_rate=rate)

    def _schedule(self, n: int) -> tuple[float, int]:
        batch = n if n <= parameters.BATCH_SIZE else max(math.ceil(n / 16), 1024)
        return parameters.batches_of(self.loop, n, NETWORK_STEPS, NETWORK_EPOCHS, batch)

    def run(self, records, prepared, plan, mechanism, on_step) -> Network:
        """Run the training loop from random weights."""
        public, loop = records.public, self.loop
        input_scaler = public.input_scaler
        bound = input_scaler.feature_bound
        # Rows and their constant column are divided by `bound`. After this division the
        # constant must be at most 1. So the constant input of the network is 1, or
        # `bound` if `bound` is below 1.
        coordinates = Coordinates(
            input_scaler, np.zeros(public.n_features), 1.0, min(1.0, 1 / bound)
        )
        network = glorot(self.widths, mechanism.public("network"))
        biases = [coordinates.bias * bound, *[1.0] * (len(network.coefs) - 1)]
        (event,) = plan.events
        query = self._query(records, coordinates, event.clip_norm, mechanism)
        layers = zip(network.coefs, network.intercepts, biases, strict=True)
        parts = [np.column_stack([w.T, b / one]).ravel() for w, b, one in layers]

        def found(theta: np.ndarray, n_iter: int) -> Network:
            matrices = query.split(theta)
            coefs = [matrix[:, :-1].T.copy() for matrix in matrices]
            each = zip(matrices, biases, strict=True)
            intercepts = [matrix[:, -1] * one for matrix, one in each]
            weights, offset = input_scaler.coefficients(coefs[0].T * bound)
            coefs[0], intercepts[0] = weights.T, intercepts[0] + offset
            return Network(coefs, intercepts, n_iter)

        exact = []
        if query.padded is not None:
            generator = mechanism.public("batch")
            exact = [padded_gradient(query, generator, loop.public_batch_size)]
        theta, n_iter = descent(
            mechanism,
            query,
            parameters.rule_of(loop, event, public.n_records, plan.learning_rate),
            n_records=public.n_records,
            private_weight=loop.gradient_scale,
            exact=exact,
            on_step=on_step,
            model=found,
            start=np.concatenate(parts),
        )
        return found(theta, n_iter)

    def _query(self, records, coordinates, clip_norm, mechanism) -> MLPQuery:
        public, widths = records.public, self.widths
        bound = public.input_scaler.feature_bound
        bits = precision(self.dtype, max(widths) + 1)
        rows = scaled_rows(coordinates.grid(records.mapped), bound, bits.activation)
        padded = None
        if self.public_loss is not None:
            generator = mechanism.public("padding")
            pads = self.public_loss == "gaussian"
            scale = self.loop.padding_scale if pads else 0.0
            grid = drawn_rows(public, coordinates, scale, generator)
            padded = scaled_rows(grid, bound, bits.activation)
        return MLPQuery(
            rows=rows,
            target=records.target,
            widths=(widths[0] + 1, *widths[1:]),
            clip_norm=clip_norm,
            capacity=public.capacity,
            class_weight=public.class_weight,
            precision=bits,
            padded=padded,
            public_target=public.has_target,
            backend=self.backend,
            device=self.device,
            n_jobs=self.n_jobs,
        )
