"""The method of a network: its start, its plan and its training loop."""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from skfdp.data.grid import GridRows
from skfdp.data.input_scaler import Coordinates, InputScaler, cut_rows
from skfdp.data.records import PublicRecords, Records
from skfdp.data.validation import UtilityWarning, warn_caller
from skfdp.kernels.losses import loss_named
from skfdp.mechanisms.descent import descent, warn_of_noise_left
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import Event
from skfdp.privacy.checks import shown
from skfdp.queries.linear import LinearQuery, gradient_sensitivity
from skfdp.queries.network import WIDEST, MLPQuery, Rows, precision
from skfdp.queries.statistics import ClassSum
from skfdp.solvers import NoisyGradientDescent, parameters
from skfdp.solvers.centring import Centring
from skfdp.solvers.descent import Descent, DescentPlan, DescentStart
from skfdp.solvers.method import Budget, Needs, Plan, of_weights
from skfdp.solvers.public_model import drawn_rows, padded_gradient

# ReLU networks, their margins, and their training on public or synthetic rows.

_BATCH = 200
_ROWS_OF_A_CALL = 4096


class Network(NamedTuple):
    """Weights of a ReLU network in scikit-learn's layout."""

    coefs: list[np.ndarray]
    intercepts: list[np.ndarray]

    def hidden(self, rows: np.ndarray) -> np.ndarray:
        """Return the activations of the last hidden layer, float64."""
        for coef, intercept in zip(self.coefs[:-1], self.intercepts[:-1], strict=True):
            rows = np.maximum(rows @ coef + intercept, 0.0)
        return rows

    def margins(self, rows: np.ndarray) -> np.ndarray:
        """Return the margins, shape (n_rows, n_outputs)."""
        return self.hidden(rows) @ self.coefs[-1] + self.intercepts[-1]

    @classmethod
    def passing_on(cls, coef, intercept, hidden, generator) -> Network:
        """Return a network whose margins are those of a linear model.

        For each margin, two neurons of each hidden layer carry its positive and its
        negative part. The other neurons are drawn from a public stream, and have output
        weights of 0. Hidden layers must have a width of at least ``2 * n_outputs``.
        """
        n_outputs, n_inputs = coef.shape
        pair = 2 * n_outputs
        coefs, intercepts = glorot((n_inputs, *hidden, n_outputs), generator)
        coefs[0][:, :pair] = np.hstack([coef.T, -coef.T])
        intercepts[0][:pair] = np.r_[intercept, -intercept]
        for weights, constant in zip(coefs[1:-1], intercepts[1:-1], strict=True):
            weights[:, :pair] = np.eye(len(weights), pair)
            constant[:pair] = 0.0
        coefs[-1][:] = 0.0
        coefs[-1][:pair] = np.vstack([np.eye(n_outputs), -np.eye(n_outputs)])
        intercepts[-1][:] = 0.0
        return cls(coefs, intercepts)

    def spread(self, classes: np.ndarray, n_classes: int) -> Network:
        """Return the network with an output for each of `n_classes` classes.

        `classes` are the codes of the classes of the present outputs.
        """
        if len(classes) == n_classes:
            return self
        coef = np.zeros((len(self.coefs[-1]), n_classes))
        intercept = np.full(n_classes, -10.0)
        if len(classes) == 2:
            coef[:, classes[1]] = self.coefs[-1][:, 0]
            intercept[classes] = 0.0, self.intercepts[-1][0]
        else:
            coef[:, classes] = self.coefs[-1]
            intercept[classes] = self.intercepts[-1]
        return Network([*self.coefs[:-1], coef], [*self.intercepts[:-1], intercept])


def glorot(widths: tuple[int, ...], generator: np.random.Generator) -> Network:
    """Draw starting weights as scikit-learn's `MLPClassifier` does."""
    coefs, intercepts = [], []
    for inputs, outputs in zip(widths, widths[1:], strict=False):
        bound = np.sqrt(6 / (inputs + outputs))
        coefs.append(generator.uniform(-bound, bound, (inputs, outputs)))
        intercepts.append(generator.uniform(-bound, bound, outputs))
    return Network(coefs, intercepts)


def trained(
    draw: Callable[[], np.ndarray],
    target: np.ndarray,
    n_classes: int,
    hidden: tuple[int, ...],
    generator: np.random.Generator,
) -> Network:
    """Train a network without noise on public or synthetic rows.

    `draw` returns new rows for each epoch, and `generator` is a public stream.
    """
    model = MLPClassifier(
        hidden,
        batch_size=min(_BATCH, len(target)),
        random_state=int(generator.integers(2**31)),
    )
    # scikit-learn checks rows, labels and classes in every call. For a dozen rows this
    # takes a hundred times as long as a step. Several passes therefore share a call.
    n_epochs = parameters.pretraining_epochs(len(target))
    together = min(n_epochs, math.ceil(_ROWS_OF_A_CALL / len(target)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for done in range(0, n_epochs, together):
            count = min(together, n_epochs - done)
            rows = np.vstack([draw() for _ in range(count)]).astype(np.float32)
            labels = np.tile(target, count)
            model.partial_fit(rows, labels, classes=np.arange(n_classes))
    return Network(
        [coef.astype(np.float64) for coef in model.coefs_],
        [intercept.astype(np.float64) for intercept in model.intercepts_],
    )


def class_means(
    records: Records, event: Event, mechanism: Mechanism
) -> np.ndarray | None:
    """Release the class sums once; return class means of the private columns.

    Every private column has bounds, and class counts are public. The means are shrunk
    toward the grand mean. None: nearly nothing of the differences between classes
    remains after the shrinkage.
    """
    public, bound = records.public, private_bound(records.public)
    known = records.target, public.n_classes, public.private_bounded
    query = ClassSum(cut_rows(records.integers, bound), *known)
    sums = mechanism.release(event.label, query) * bound
    noise_std = event.noise_std[0] * bound
    counts = np.bincount(records.target, minlength=public.n_classes)
    grand = sums.sum(axis=0) / max(counts.sum(), 1)
    sizes = np.maximum(counts, 1)[:, None]
    means, noise = sums / sizes, (noise_std / sizes) ** 2
    spread = np.maximum(((means - grand) ** 2).mean(axis=1, keepdims=True) - noise, 0.0)
    keep = spread / np.maximum(spread + noise, 1e-300)
    if (keep[:, 0] * counts).sum() / max(counts.sum(), 1) <= parameters.LEAST_KEPT:
        return None
    return np.clip(grand + keep * (means - grand), 1e-3, 1.0)


def synthetic_rows(
    public: PublicRecords, means: np.ndarray | None, generator, batch=slice(None)
) -> np.ndarray:
    """Return scaled rows with the public columns, and drawn private columns.

    Private entries are 0 or 1, drawn with the probabilities `means` of the class of the
    row. Without means they are 0. `batch` selects rows.
    """
    target, mask = public.target[batch], public.mask
    wide = np.zeros((len(target), public.n_features))
    wide[:, mask] = public.X[batch]
    rows = public.input_scaler.scale(wide)
    rows[:, ~mask] = 0.0
    if means is not None:
        chances = means[target]
        rows[:, ~mask] = generator.random(chances.shape) < chances
    return public.input_scaler.shorten(rows) * public.input_scaler.feature_bound


def private_bound(public: PublicRecords) -> float:
    """Return a public guess of the norm of a row's private columns.

    The columns are scaled to [0, 1]. Their mean square is guessed from that of the
    public columns, if there are any. The class sums clip rows to this norm.
    """
    mean_square = 0.0
    if public.input_scaler.span is not None and public.mask.any():
        n_public = int(public.mask.sum())
        squares = (float((rows**2).sum()) for rows in public.blocks())
        mean_square = sum(squares) / (public.n_rows * n_public)
    guess = 1.5 * mean_square if mean_square else 0.25
    return math.sqrt(public.n_private * min(guess, 1.0))


def hidden_layers(hidden_layer_sizes) -> tuple[int, ...]:
    """Return the widths of the hidden layers, or raise ValueError."""
    sizes = hidden_layer_sizes
    if isinstance(sizes, numbers.Integral) and not isinstance(sizes, bool):
        sizes = (sizes,)
    elif isinstance(sizes, np.ndarray):
        sizes = tuple(np.atleast_1d(sizes))
    valid = isinstance(sizes, (tuple, list)) and all(
        isinstance(size, numbers.Integral) and 1 <= size <= WIDEST for size in sizes
    )
    if not valid:
        raise ValueError(
            f"hidden_layer_sizes={shown(hidden_layer_sizes)} must be an int or a "
            f"sequence of ints from 1 to {WIDEST}."
        )
    return tuple(int(size) for size in sizes)


# The method.

_LINEAR = "linear model"


class NetworkFit(NamedTuple):
    """A network on ``input_scaler(X)``."""

    network: Network
    input_scaler: InputScaler
    n_iter: int


class NetworkStart(NamedTuple):
    """The result of preparing a network, from public facts.

    `pretraining` is the kind of pretraining; None: random weights. `share` is the share
    of ``mu**2`` for the releases before the training loop. None: no such release. 1: no
    training loop. For a start at a linear model, `linear_public` has the public facts
    of its table, and `linear` is the result of `Descent.prepare`.
    """

    pretraining: str | None
    share: float | None
    trained_layers: str
    linear_public: PublicRecords | None = None
    linear: DescentStart | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkPlan(Plan):
    """The plan of a network."""

    input_scaler: InputScaler  # of the inputs of the network
    linear: DescentPlan | None  # plan of the linear model that comes first
    #: First step size. It multiplies the noisy sum of clipped gradients, divided by
    #: ``q n clip_norm`` for n records and the sampling rate q. 0: no training loop.
    learning_rate: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkDescent:
    """A network: a pretrained start, then a loop of noisy gradients."""

    widths: tuple[int, ...]  # of all layers, input first, without constants
    loop: NoisyGradientDescent
    #: Whether the user set `solver` or `trained_layers`, and so requests a loop.
    asks_for_loop: bool
    #: Whether the user set the scaling of rows, which a linear model does not allow.
    maps_rows: bool
    pretraining: str | None  # `start` of `Pretraining`
    pretraining_share: float | str  # its `budget_share`
    trained_layers: str
    public_loss: str | None
    padding_scale: float
    backend: str
    device: str | None
    dtype: str
    n_jobs: int

    @property
    def hidden(self) -> tuple[int, ...]:
        """Widths of the hidden layers."""
        return self.widths[1:-1]

    @functools.cached_property
    def linear(self) -> Descent:
        """The method of the linear model to start from."""
        return Descent(
            loss=loss_named("log_loss"),
            loop=NoisyGradientDescent(),
            centring=Centring("auto", fit_intercept=True),
            public_model="auto",
            n_jobs=self.n_jobs,
        )

    # -- public preparation ----------------------------------------------------------
    def needs(self, public: PublicRecords, budget: Budget) -> Needs:
        """Return the needs: a dense table; a loop needs a share of the budget."""
        start, public_loss = self._pretraining(public), self.public_loss
        layers, share = self._trained_layers(start), self._share(start)
        rate, _ = self._schedule(public.n_records, layers == "last")
        honours: dict[str, Any] = {
            **parameters.honoured_by_loop(self.loop, rate, public_loss),
            "trained_layers": ("pretrained hidden layers, and no public loss",)
            * (layers != self.trained_layers),
            "dtype": (),
        }
        table = Needs.PLAIN + (budget.counted() if public_loss else ())
        if public_loss == "impute" and start != "class_sums":
            honours["public_loss"] = ("pretraining='class_sums'",)
        if share == 1:
            loop = ("a loop for solver or trained_layers (a budget_share below 1)",)
            honours, table = (
                dict.fromkeys(honours, loop),
                table + loop * self.asks_for_loop,
            )
        lacks = tuple(
            n for n, given in self._starts(public)[start].items() if not given
        )
        free = "hidden_layer_sizes row_norm normalize class_weight"
        honours |= {
            **dict.fromkeys(free.split(), ()),
            "class_weight='balanced'": (Needs.PUBLIC_TARGET,),
            "pretraining": lacks,
            "start": lacks,
            "budget_share": ("class sums or a linear model (public_target=True)",)
            * (not share),
        }
        return Needs("a network", honours, table)

    def prepare(self, public: PublicRecords, budget: Budget) -> NetworkStart:
        """Choose the start, and prepare the linear model."""
        pretraining = self._pretraining(public)
        share = self._share(pretraining)
        start = NetworkStart(pretraining, share, self._trained_layers(pretraining))
        if pretraining != "linear":
            return start
        input_scaler = dataclasses.replace(
            public.input_scaler,
            feature_bound=private_bound(public),
            public=public.mask if public.mask.any() else None,
        )
        own = dataclasses.replace(public, input_scaler=input_scaler)
        found = self.linear.prepare(own, self._linear_budget(budget, share))
        return start._replace(linear_public=own, linear=found)

    def _starts(self, public: PublicRecords) -> dict[str | None, dict[str, bool]]:
        """Return what each kind of pretraining needs, and whether it is given."""
        known, least = {Needs.PUBLIC_TARGET: public.has_target}, 2 * self.widths[-1]
        wide, no_loop = min(self.hidden, default=0) >= least, self._share("linear") == 1
        linear = {
            f"hidden layers of at least {least} neurons, two per output": wide,
            "normalize=False and row_norm='auto'": not self.maps_rows,
            "bounds of all columns, or budget_share=1": no_loop or public.bounded.all(),
        }
        return {
            None: {},
            "linear": known | linear,
            "class_sums": known | {"bounds of private columns": public.private_bounded},
            "public": known | {Needs.PUBLIC_COLUMNS: bool(public.mask.any())},
        }

    def _pretraining(self, public: PublicRecords) -> str | None:
        """Return the kind of pretraining, or None for random initial weights."""
        if self.pretraining != "auto":
            return self.pretraining
        starts = self._starts(public)
        fits = [kind for kind in starts if all(starts[kind].values())]
        if self.public_loss is None and "linear" in fits:
            return "linear"
        if "class_sums" in fits and public.n_classes >= parameters.MANY_CLASSES:
            return "class_sums"
        return "public" if "public" in fits else None

    def _share(self, pretraining: str | None) -> float | None:
        share = parameters.PRETRAINING_SHARES.get(pretraining)
        if share is not None and self.pretraining_share != "auto":
            return min(1.0, float(self.pretraining_share))
        return min(share, 0.5) if share and self.asks_for_loop else share

    def _trained_layers(self, pretraining: str | None) -> str:
        """Return "last" if it is asked for or automatic, and possible.

        The last layer is trained with a smaller sensitivity. This holds for inputs that
        are not negative, such as activations, but not for the columns of X.
        """
        releases = pretraining in parameters.PRETRAINING_SHARES
        asked = self.trained_layers in ("last", "auto" if releases else "last")
        able = self.hidden and pretraining is not None and self.public_loss is None
        return "last" if asked and able else "all"

    def plan(self, public, prepared, budget: Budget) -> NetworkPlan:
        """Resolve every "auto" and calibrate the noise."""
        input_scaler, share = public.input_scaler, prepared.share
        linear, events, rate = None, (), 0.0
        if prepared.pretraining == "class_sums":
            events = (self._event_of_sums(public, budget, share),)
        if prepared.pretraining == "linear":
            own = prepared.linear_public
            own_budget = self._linear_budget(budget, share)
            linear = self.linear.plan(own, prepared.linear, own_budget)
            events = tuple(
                dataclasses.replace(event, label=f"{_LINEAR}: {event.label}")
                for event in linear.events
            )
            # The linear model was not fitted to rows with clipped norms. With this
            # bound the network clips no row.
            longest = math.sqrt(public.n_features)
            input_scaler = dataclasses.replace(input_scaler, feature_bound=longest)
            if share == 1:
                input_scaler = own.input_scaler
        if share != 1:
            layers = prepared.trained_layers
            learnt = prepared.pretraining is not None
            descent = self._event_of_loop(public, prepared, events, budget)
            rate = self._learning_rate(public, layers, descent, learnt)
            self._warn(public, descent, rate, learnt or public.has_target)
            events = (*events, descent)
        return NetworkPlan(
            events=events,
            assumptions=() if linear is None else linear.assumptions,
            n_steps=0 if share == 1 else events[-1].n_steps,
            input_scaler=input_scaler,
            counts_labels=linear is not None and linear.counts_labels,
            linear=linear,
            learning_rate=rate,
        )

    def _linear_budget(self, budget: Budget, share: float) -> Budget:
        found = budget.share(share)
        if found.epsilon <= 0:
            raise ValueError(
                f"budget_share={self.pretraining_share!r} of "
                f"epsilon={budget.epsilon!r} is too small for the linear model: raise "
                "one of them."
            )
        return found

    @staticmethod
    def _event_of_sums(public, budget: Budget, share: float) -> Event:
        """Return the event of the class sums, for rows scaled to norm 1."""
        query = ClassSum.planned(nonnegative=public.private_bounded)
        sensitivity = query.sensitivity(budget.relation)
        # Slightly more noise, so that rounding cannot exceed the whole budget.
        std = sensitivity / (math.sqrt(share) * budget.mu) * (1 + 1e-12)
        given = {"clip_norm": query.clip_norm, "sensitivity": sensitivity}
        return budget.event("class sums", std * query.clip_norm, **given)

    def _schedule(self, n: int, last: bool) -> tuple[float, int]:
        steps = parameters.NETWORK_STEPS, parameters.NETWORK_EPOCHS
        batch = None if last else parameters.network_batch(n)
        return parameters.batches_of(self.loop, n, *steps, batch)

    def _event_of_loop(self, public, start, others, budget: Budget) -> Event:
        n, clip = public.n_records, self.loop.clip_norm
        last = start.trained_layers == "last"
        if clip == "auto":
            clip = parameters.LAST_LAYER_CLIP if last else parameters.NETWORK_CLIP
        # If only the last layer is trained, its inputs are not negative, and a public
        # target fixes the signs of the residuals. The signs of gradients are then
        # public.
        signs = last and public.has_target
        reach = gradient_sensitivity(budget.relation, 1.0, orthant=signs)
        rate, n_steps = self._schedule(n, last)
        if self.loop.max_iter == "auto" and start.pretraining is None:
            signal = budget.mu / reach * n * (1 - self.loop.momentum)
            left = parameters.network_noise(self.widths, learnt=False)
            n_steps = max(n_steps, parameters.network_steps(signal, left))
        return budget.calibrate(
            "descent",
            n_steps=n_steps,
            sampling_rate=rate,
            clip_norm=clip,
            sensitivity=reach * clip,
            noise_decay=self.loop.noise_decay,
            other_events=others,
        )

    def _learning_rate(self, public, layers, event: Event, learnt) -> float:
        if self.loop.learning_rate != "auto":
            return self.loop.learning_rate
        n, momentum = public.n_records, self.loop.momentum
        if layers == "last" and event.sampling_rate == 1:
            # mu of the loop if the sensitivity were clip_norm, as
            # `last_layer_learning_rate` expects
            mu = math.sqrt(float((event.clip_norm**2 / event.step_stds**2).sum()))
            n_inputs = self.widths[-2] + 1
            return parameters.last_layer_learning_rate(
                mu, n, n_inputs, public.n_classes, event.n_steps, momentum
            )
        left = parameters.network_noise(self.widths, learnt)
        first = event.noise_std[0] / event.clip_norm
        return parameters.network_learning_rate(
            first, event.sampling_rate * n, event.n_steps, momentum, left
        )

    def _warn(self, public, event: Event, rate: float, informed: bool) -> None:
        """Warn if noise or random initial weights outweigh the signal.

        `informed` is whether weights were pretrained or the target is public.
        """
        n, pace = public.n_records, event.n_steps / (1 - self.loop.momentum)
        pace *= 1 - self.loop.learning_rate_decay / 2
        index = parameters.network_index(rate * pace, self.widths)
        if not informed and index < 2:
            warn_caller(
                f"the budget is small for a network of hidden layers {self.hidden} "
                f"with a private target, {n} records and {self.widths[0]} features "
                f"(signal-to-noise index {index:.2g} < 2): noise and random initial "
                "weights outweigh the signal. Expect no more than the majority class, "
                "or than FeatureDPLogisticRegression learns with the same budget.",
                UtilityWarning,
            )
        if self.loop.max_weight_norm is not None:  # the projection limits the noise
            return
        rule = parameters.rule_of(self.loop, event, n, rate)
        warn_of_noise_left(rule.outcome()[1])

    # -- releases -----------------------------------------------------------------
    def run(self, records, prepared, plan, mechanism, on_step) -> NetworkFit:
        """Make the releases of the start, then run the training loop."""
        linear, input_scaler = None, plan.input_scaler
        if plan.linear is not None:  # released through a separate mechanism
            model = self.linear.run(
                dataclasses.replace(records, public=prepared.linear_public),
                prepared.linear,
                plan.linear,
                mechanism.within(_LINEAR, mechanism.streams.under(_LINEAR)),
                lambda step, found: False,
            ).whole(records.public.mask)
            linear = model.coef, model.intercept
        records = records.mapped_by(input_scaler)
        if linear is not None:
            if plan.n_steps == 0:
                generator = mechanism.streams.public("network")
                network = Network.passing_on(*linear, self.hidden, generator)
                return NetworkFit(network, input_scaler, 0)
            # Convert to weights on columns scaled to [0, 1]. All columns have bounds,
            # because a loop after a linear model needs them.
            coef, own = linear[0], prepared.linear_public.input_scaler
            linear = coef * own.span, linear[1] + coef @ own.low
        event, means = plan.event("class sums"), None
        if event is not None:
            means = class_means(records, event, mechanism)
        known = means, linear, plan.events[-1].clip_norm, mechanism
        query, theta, read = self._loop(records, prepared, *known)

        def found(theta: np.ndarray, n_iter: int) -> NetworkFit:
            (first, *coefs), (constant, *intercepts) = read(theta)
            weights, offset = input_scaler.coefficients(
                first.T * input_scaler.feature_bound
            )
            network = Network([weights.T, *coefs], [constant + offset, *intercepts])
            return NetworkFit(network, input_scaler, n_iter)

        if plan.n_steps == 0:
            return found(theta, 0)
        loop, gradient = self.loop, None
        if query.padded is not None:
            generator = mechanism.streams.public("batch")
            gradient = padded_gradient(query, generator, loop.public_batch_size)
        n, rate = records.public.n_records, plan.learning_rate
        theta, n_iter = descent(
            mechanism,
            query,
            parameters.rule_of(loop, plan.events[-1], n, rate),
            n_records=n,
            private_weight=loop.gradient_scale,
            public_gradient=gradient,
            on_step=of_weights(on_step, found),
            start=theta,
        )
        return found(theta, n_iter)

    def _loop(self, records, prepared, means, linear, clip_norm, mechanism):
        """Pretrain on public and released data, and build the query of the loop.

        `means` are released means of the private columns given the class. `linear` is
        (coef, intercept) of a released model on columns scaled to [0, 1]. Return the
        query, the first iterate, and a function that converts an iterate to a network
        on columns scaled to [0, 1].
        """
        public = records.public
        generator = mechanism.streams.public("network")

        def draw() -> np.ndarray:
            return synthetic_rows(public, means, generator)

        if prepared.pretraining is None:
            network = glorot(self.widths, generator)
        elif linear is not None:
            network = Network.passing_on(*linear, self.hidden, generator)
        else:
            labels = public.target, public.n_classes
            network = trained(draw, *labels, self.hidden, generator)
            if means is None:
                # The private columns were 0 in training, so their weights are still
                # random. With these weights the columns would act like noise.
                network.coefs[0][~public.mask] = 0.0
        bound = public.input_scaler.feature_bound
        # Rows and their constant column are divided by `bound`. After this division the
        # constant must be at most 1. So the constant input of the network is 1, or
        # `bound` if `bound` is below 1.
        coordinates = Coordinates.centred(
            public.input_scaler, np.zeros(public.n_features), 1.0, min(1.0, 1 / bound)
        )
        biases = [coordinates.bias * bound, *[1.0] * (len(network.coefs) - 1)]
        query = self._query(records, coordinates, means, clip_norm, mechanism)
        layers = zip(*network, biases, strict=True)
        parts = [np.column_stack([w.T, b / one]).ravel() for w, b, one in layers]
        theta = np.concatenate(parts)
        if prepared.trained_layers == "last":
            return _last_layer(query, theta, network, draw())

        def read(theta: np.ndarray) -> Network:
            matrices = query.split(theta)
            each = zip(matrices, biases, strict=True)
            intercepts = [matrix[:, -1] * one for matrix, one in each]
            return Network([m[:, :-1].T.copy() for m in matrices], intercepts)

        return query, theta, read

    def _query(self, records, coordinates, means, clip_norm, mechanism) -> MLPQuery:
        public, widths = records.public, self.widths
        bound = public.input_scaler.feature_bound
        bits = precision(self.dtype, max(widths) + 1)
        rows = Rows.build(coordinates.grid(records.mapped), bound, bits.activation)
        padded = None
        if self.public_loss is not None:
            generator = mechanism.streams.public("padding")
            if self.public_loss == "impute":

                def drawn(index: np.ndarray) -> np.ndarray:
                    return synthetic_rows(public, means, generator, index[:, 0]) / bound

                grid = GridRows.build(
                    np.arange(len(public.target))[:, None],
                    drawn,
                    bias=coordinates.bias,
                    n_features=public.n_features,
                )
            else:
                scale = self.padding_scale if self.public_loss == "gaussian" else 0.0
                grid = drawn_rows(public, coordinates, scale, generator)
            padded = Rows.build(grid, bound, bits.activation)
        return MLPQuery(
            rows=rows,
            target=records.target,
            loss=loss_named("log_loss"),
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


def _last_layer(
    query: MLPQuery, theta: np.ndarray, network: Network, rows: np.ndarray
) -> tuple[LinearQuery, np.ndarray, Callable[[np.ndarray], Network]]:
    """Return what `_loop` returns, for training the last layer alone.

    The results are the query, the first iterate, and a function that converts an
    iterate to a network. The other layers are frozen. Their activations are divided by
    a number, computed from the synthetic `rows`, so that norms are about 1.
    """
    hidden = network.hidden(rows)
    scale = math.sqrt(float(np.einsum("ij,ij->", hidden, hidden)) / len(hidden) + 1)
    linear = LinearQuery(
        rows=query.last_inputs(theta, scale),
        target=query.target,
        loss=query.loss,
        n_outputs=query.widths[-1],
        clip_norm=query.clip_norm,
        capacity=query.capacity,
        class_weight=query.class_weight,
        orthant=True,  # required by the sensitivity for the last layer
        n_jobs=query.n_jobs,
    )

    def read(last: np.ndarray) -> Network:
        return Network(
            [*network.coefs[:-1], last[:, :-1].T / scale],
            [*network.intercepts[:-1], last[:, -1] / scale],
        )

    return linear, query.split(theta)[-1] * scale, read
