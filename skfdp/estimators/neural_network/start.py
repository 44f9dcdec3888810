"""The start of a network's loop: class means, pretraining, the query."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable

import numpy as np

from skfdp.estimators import defaults
from skfdp.estimators.linear_model.padding import drawn_rows
from skfdp.estimators.neural_network.choice import Choice, Settings
from skfdp.estimators.neural_network.networks import (
    Network,
    glorot,
    shrunk_class_means,
    trained,
)
from skfdp.privacy import Event
from skfdp.queries.class_sums import ClassSum
from skfdp.queries.linear import LinearQuery
from skfdp.queries.network import WIDEST, MLPQuery, Rows, precision
from skfdp.records.checks import shown
from skfdp.records.coordinates import Coordinates
from skfdp.records.grid import GridRows
from skfdp.records.records import PublicRecords, Records
from skfdp.records.row_map import RowMap
from skfdp.releases.desk import Desk


@dataclasses.dataclass(frozen=True)
class StartOfLoop:
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
    settings: Settings,
    records: Records,
    choice: Choice,
    means: np.ndarray | None,
    weights: tuple[np.ndarray, np.ndarray] | None,
    clip_norm: float,
    desk: Desk,
) -> StartOfLoop:
    """Pretrain on what is public or released, and build the query of the loop.

    Parameters
    ----------
    settings : Settings
    records : Records
    choice : Choice
    means : ndarray of shape (n_classes, n_private) or None
        Released means of the private columns.
    weights : (coef, intercept) or None
        A released linear model on bounded columns.
    clip_norm : float
    desk : Desk
    """
    public = records.public
    network, draw = _first_network(
        settings, public, choice.pretraining, means, weights, desk
    )
    bound = public.row_map.feature_bound
    # The constant of the input layer is 1 for rows up to that length, on the grid.
    coordinates = Coordinates.centred(
        public.row_map, np.zeros(public.n_features), 1.0, min(1.0, 1 / bound)
    )
    input_bias = coordinates.bias * bound
    query = _query(settings, records, coordinates, means, clip_norm, desk)
    theta = network.to_theta(input_bias)
    if choice.trained_layers == "last":
        return _last_layer(query, theta, network, draw)
    return StartOfLoop(
        query,
        theta,
        lambda theta: Network.from_matrices(query.split(theta), input_bias),
    )


def on_bounded_columns(
    coef: np.ndarray, intercept: np.ndarray, row_map: RowMap
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights for columns that the declared bounds scaled to [0, 1].

    Parameters
    ----------
    coef, intercept : ndarray
        On ``row_map(X)``.
    row_map : RowMap
    """
    if row_map.span is None:
        return coef, intercept
    bounded = np.isfinite(row_map.span)
    return (
        coef * np.where(bounded, row_map.span, 1.0),
        intercept + coef @ np.where(bounded, row_map.low, 0.0),
    )


def class_means(
    records: Records, bound: float, event: Event, desk: Desk
) -> np.ndarray | None:
    """Release the class sums once; return means of the bounded private columns.

    None where the released sums turn out to be noise.

    Parameters
    ----------
    records : Records
    bound : float
        L2 bound of the private columns of a row.
    event : Event
        Of the class sums.
    desk : Desk
    """
    public = records.public
    private, row_map = ~public.mask, public.row_map
    sides = (None, None)
    if row_map.span is not None:
        sides = row_map.low[private], row_map.span[private]
    sums = ClassSum(
        GridRows.build(records.X[:, private], RowMap(*sides, bound).mapped),
        records.target,
        public.n_classes,
        public.private_bounded,
    )
    total = desk.release(event.label, sums)
    noise_std = event.noise_std[0]
    counts = np.bincount(records.target, minlength=public.n_classes)
    means, kept = shrunk_class_means(total * bound, counts, noise_std * bound)
    return means if kept > defaults.LEAST_KEPT else None


def _first_network(settings, public: PublicRecords, pretraining, means, weights, desk):
    """Return a network that saw public facts and releases alone, and its rows."""
    generator = desk.streams.public("network")
    if pretraining is None:
        return glorot(settings.widths, generator), None

    def draw() -> np.ndarray:
        return synthetic_rows(public, means, generator)

    if weights is not None:
        return Network.passing_on(*weights, settings.hidden, generator), draw
    network = trained(
        draw,
        public.target,
        public.n_classes,
        settings.hidden,
        n_epochs=defaults.pretraining_epochs(len(public.target)),
        generator=generator,
    )
    if means is None:
        # What they were initialised to would pass private columns on as noise.
        network = network.blind(~public.mask)
    return network, draw


def synthetic_rows(
    public: PublicRecords, means: np.ndarray | None, generator, batch=slice(None)
) -> np.ndarray:
    """Return bounded rows: public columns, and private ones drawn given the class.

    Without means the private columns are zero.
    """
    target, mask = public.target[batch], public.mask
    wide = np.zeros((len(target), public.n_features))
    wide[:, mask] = public.X[batch]
    rows = public.row_map.scale(wide)
    rows[:, ~mask] = 0.0
    if means is not None:
        chances = means[target]
        rows[:, ~mask] = generator.random(chances.shape) < chances
    return public.row_map.shorten(rows) * public.row_map.feature_bound


def _query(
    settings: Settings,
    records: Records,
    coordinates: Coordinates,
    means: np.ndarray | None,
    clip_norm: float,
    desk: Desk,
) -> MLPQuery:
    public, widths = records.public, settings.widths
    bits = precision(settings.dtype, max(widths) + 1)
    bound = public.row_map.feature_bound
    rows = Rows.build(coordinates.grid(records.mapped), bound, bits.activation)
    padded = None
    if settings.public_loss is not None:
        generator = desk.streams.public("padding")
        grid = _padding(settings, public, coordinates, means, generator)
        padded = Rows.build(grid, bound, bits.activation)
    return MLPQuery(
        rows=rows,
        target=records.target,
        loss=settings.loss,
        widths=(widths[0] + 1, *widths[1:]),
        bias=1.0,
        clip_norm=clip_norm,
        capacity=public.capacity,
        class_weight=public.class_weight,
        precision=bits,
        padded=padded,
        public_target=public.has_target,
        backend=settings.backend,
        device=settings.device,
        n_jobs=settings.n_jobs,
    )


def _padding(
    settings: Settings,
    public: PublicRecords,
    coordinates: Coordinates,
    means: np.ndarray | None,
    generator: np.random.Generator,
) -> GridRows:
    """Return the rows of the public loss."""
    if settings.public_loss != "impute":
        scale = settings.padding_scale if settings.public_loss == "gaussian" else 0.0
        return drawn_rows(public, coordinates, scale, generator)

    def imputed(index: np.ndarray) -> np.ndarray:
        drawn = synthetic_rows(public, means, generator, index[:, 0])
        return drawn / public.row_map.feature_bound

    return GridRows.build(
        np.arange(len(public.target))[:, None],
        imputed,
        bias=coordinates.bias,
        n_features=public.n_features,
    )


def _last_layer(
    query: MLPQuery, theta: np.ndarray, network: Network, draw
) -> StartOfLoop:
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

    return StartOfLoop(linear, query.split(theta)[-1] * scale, read)


def hidden_layers(hidden_layer_sizes) -> tuple[int, ...]:
    """Return the widths of the hidden layers, or raise ValueError."""
    sizes = hidden_layer_sizes
    if isinstance(sizes, numbers.Integral) and not isinstance(sizes, bool):
        sizes = (sizes,)
    valid = isinstance(sizes, (tuple, list, np.ndarray)) and all(
        isinstance(size, numbers.Integral) and 1 <= size <= WIDEST for size in sizes
    )
    if not valid:
        raise ValueError(
            f"hidden_layer_sizes={shown(hidden_layer_sizes)} must be an int or a "
            f"sequence of ints from 1 to {WIDEST}."
        )
    return tuple(int(size) for size in sizes)
