"""Where the loop of a network starts: class sums, pretraining, the query."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from skfdp.estimators import defaults
from skfdp.estimators.neural_network.linear_start import on_bounded_columns
from skfdp.estimators.neural_network.networks import (
    Network,
    class_means,
    glorot,
    trained,
)
from skfdp.estimators.neural_network.plan import (
    NetworkTraining,
    Problem,
    network_parameters,
)
from skfdp.queries.class_sums import ClassSum
from skfdp.queries.linear import LinearQuery
from skfdp.queries.network import MLPQuery, Rows, precision
from skfdp.records.coordinates import Coordinates
from skfdp.records.grid import GridRows
from skfdp.records.row_map import RowMap
from skfdp.releases.desk import Desk
from skfdp.releases.noise import Streams


@dataclasses.dataclass(frozen=True)
class Loop:
    """A query, the iterate to start at, and how to read an iterate.

    Attributes
    ----------
    query : MLPQuery or LinearQuery
    start : ndarray of the query's shape
    network : callable
        ``iterate -> Network`` on bounded rows.
    """

    query: MLPQuery | LinearQuery
    start: np.ndarray
    network: Callable[[np.ndarray], Network]


def start_of_loop(
    estimator,
    problem: Problem,
    training: NetworkTraining,
    streams: Streams,
    desk: Desk,
    n_jobs: int,
) -> Loop:
    """Release the class sums, pretrain, and build the query of the loop."""
    means = None
    if training.sums_event is not None:
        means = _class_means(problem, training, desk)
    network, draw = _first_network(estimator, problem, training, means, streams, desk)
    bound = problem.row_map.feature_bound
    # The constant of the input layer is 1 for rows up to that length, on the grid.
    coordinates = Coordinates.centred(
        problem.row_map, np.zeros(len(problem.public)), 1.0, min(1.0, 1 / bound)
    )
    input_bias = coordinates.bias * bound
    query = _query(
        estimator, problem, coordinates, means, streams, n_jobs, training.plan
    )
    theta = network.to_theta(input_bias)
    if training.trained_layers == "last":
        return _last_layer(query, theta, network, draw, problem)
    return Loop(
        query,
        theta,
        lambda theta: Network.from_matrices(query.split(theta), input_bias),
    )


def linear_network(
    estimator,
    problem: Problem,
    training: NetworkTraining,
    streams: Streams,
    desk: Desk,
) -> Network:
    """Release the linear model; return a network that passes it on, on its rows."""
    model = _linear_model(estimator, problem, training, desk)
    generator = streams.public("network")
    return Network.passing_on(model.coef_, model.intercept_, problem.hidden, generator)


def _linear_model(estimator, problem: Problem, training, desk: Desk):
    streams = Streams(
        estimator.random_state,
        (type(estimator), "linear model"),
        (problem.X, problem.codes),
        network_parameters(estimator, problem),
    )
    return training.linear.run(streams, desk)


def _class_means(
    problem: Problem, training: NetworkTraining, desk: Desk
) -> np.ndarray | None:
    """Release the class sums once; return means of the bounded private columns.

    None where the released sums turn out to be noise.
    """
    private, row_map = ~problem.public, problem.row_map
    sides = (None, None)
    if row_map.span is not None:
        sides = row_map.low[private], row_map.span[private]
    bound = problem.private_bound
    sums = ClassSum(
        GridRows.build(problem.X[:, private], RowMap(*sides, bound).unit),
        problem.codes,
        len(problem.classes),
        problem.private_bounded,
    )
    event = training.sums_event
    total = desk.release("class sums", sums)
    counts = np.bincount(problem.codes, minlength=len(problem.classes))
    means, kept = class_means(total * bound, counts, event.noise_std[0] * bound)
    return means if kept > defaults.LEAST_KEPT else None


def _first_network(estimator, problem, training, means, streams, desk):
    """Return a network that saw public facts and class means alone, and its rows."""
    generator = streams.public("network")
    n_classes = len(problem.classes)
    if training.pretraining is None:
        return glorot(problem.widths, generator), None
    target = problem.codes

    def draw() -> np.ndarray:
        return synthetic_rows(problem, means, generator)

    if training.linear is not None:
        weights = on_bounded_columns(_linear_model(estimator, problem, training, desk))
        return Network.passing_on(*weights, problem.hidden, generator), draw
    network = trained(
        draw,
        target,
        n_classes,
        problem.hidden,
        n_epochs=defaults.pretraining_epochs(len(target)),
        generator=generator,
    )
    if means is None:
        # What they were initialised to would pass private columns on as noise.
        network = network.blind(~problem.public)
    return network, draw


def synthetic_rows(
    problem: Problem, means: np.ndarray | None, generator, batch=slice(None)
) -> np.ndarray:
    """Return bounded rows: public columns, and private ones drawn given the class.

    The private columns of X are never read; without means they are zero.
    """
    wide = np.zeros((len(problem.codes[batch]), len(problem.public)))
    wide[:, problem.public] = problem.X[batch][:, problem.public]
    rows = problem.row_map.scale(wide)
    private = ~problem.public
    rows[:, private] = 0.0
    if means is not None:
        chances = means[problem.codes[batch]]
        rows[:, private] = generator.random(chances.shape) < chances
    return problem.row_map.shorten(rows) * problem.row_map.feature_bound


def _query(
    estimator, problem: Problem, coordinates, means, streams, n_jobs, plan
) -> MLPQuery:
    bits = precision(estimator.dtype, max(problem.widths) + 1)
    bound = problem.row_map.feature_bound
    rows = Rows.build(coordinates.grid(problem.X), bound, bits.activation)
    padded = None
    if estimator.public_loss in ("zero", "gaussian"):
        scale = 0.0
        if estimator.public_loss == "gaussian":
            scale = estimator.padding_scale
        grid = coordinates.drawn_grid(
            problem.X, problem.public, scale, streams.public("padding")
        )
        padded = Rows.build(grid, bound, bits.activation)
    elif estimator.public_loss == "impute":
        generator = streams.public("padding")

        def imputed(index: np.ndarray) -> np.ndarray:
            drawn = synthetic_rows(problem, means, generator, index[:, 0])
            return drawn / bound

        grid = GridRows.build(
            np.arange(len(problem.X))[:, None],
            imputed,
            bias=coordinates.bias,
            n_features=len(problem.public),
        )
        padded = Rows.build(grid, bound, bits.activation)
    return MLPQuery(
        rows=rows,
        target=problem.codes,
        loss=problem.loss,
        widths=(problem.widths[0] + 1, *problem.widths[1:]),
        bias=1.0,
        clip_norm=1.0 if plan is None else plan.clip_norm,
        capacity=problem.capacity,
        class_weight=problem.class_weight,
        precision=bits,
        padded=padded,
        public_target=problem.public_target,
        backend=estimator.backend,
        device=estimator.device,
        n_jobs=n_jobs,
    )


def _last_layer(
    query: MLPQuery, theta: np.ndarray, network: Network, draw, problem: Problem
) -> Loop:
    """Return a loop over the last layer, on the activations of the frozen others.

    They are scaled by one number, from synthetic rows, to norms of about 1.
    """
    hidden = network.hidden(draw())
    scale = math.sqrt(float(np.einsum("ij,ij->", hidden, hidden)) / len(hidden) + 1)
    linear = LinearQuery(
        rows=query.last_inputs(theta, scale),
        target=query.target,
        loss=query.loss,
        n_outputs=query.widths[-1],
        clip_norm=query.clip_norm,
        capacity=query.capacity,
        class_weight=query.class_weight,
        orthant=True,  # what the sensitivity of the last layer rests on
        n_jobs=query.n_jobs,
    )

    def read(last: np.ndarray) -> Network:
        return Network(
            [*network.coefs[:-1], last[:, :-1].T / scale],
            [*network.intercepts[:-1], last[:, -1] / scale],
        )

    return Loop(linear, query.split(theta)[-1] * scale, read)
