"""One training step on the same work, as each library takes it.

Every function returns a callable that takes one whole step: draw the batch, gather what
has to be gathered, compute, and move the weights. Rows are float32 of norm 1, labels
0 .. K-1; batches are Poisson with rate `batch / n`.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from skfdp import kernels
from skfdp.data.grid import GridRows
from skfdp.kernels import short_tiles, tiles
from skfdp.kernels.contributions import LOSS_LEAVES, call_leaf, leaf_address
from skfdp.kernels.losses import loss_named
from skfdp.kernels.vectors import WIDTH
from skfdp.mechanisms.descent import HeavyBall
from skfdp.mechanisms.release import PoissonBatches, Streams
from skfdp.mechanisms.release import _noisy_sum as release
from skfdp.queries.linear import LinearQuery

kernels.SMALL, kernels.compiles = 0, True  # compile for small tables, too
LOG_LOSS = LOSS_LEAVES.index(loss_named("log_loss").leaf)
CLIP_NORM, NOISE_MULTIPLIER, LEARNING_RATE, STEPS = 0.5, 1.0, 0.1, 10**6


def problem(n: int, d: int, n_classes: int, seed: int = 0):
    """Return random unit rows, float32, and labels that depend on them."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d), dtype=np.float32)
    X /= np.sqrt((X * X).sum(axis=1))[:, None]
    weights = rng.normal(size=(max(2, n_classes), d)).astype(np.float32)
    return X, (X @ weights.T).argmax(axis=1)


def linear_query(X, y, n_classes: int, n_jobs: int = 1) -> LinearQuery:
    """Return our query on the grid, for batches of rows that lie apart."""
    return LinearQuery(
        rows=GridRows.build(X, lambda rows: rows.astype(float), bias=0.1, target=y),
        target=y.astype(np.int64),
        loss=loss_named("log_loss"),
        n_outputs=1 if n_classes <= 2 else n_classes,
        clip_norm=CLIP_NORM,
        capacity=X.shape[0],
        n_jobs=n_jobs,
    )


def ours(query: LinearQuery, batch: int | None):
    """Return skfdp's step: exact release, cryptographic coins and noise."""
    streams = Streams(None, "benchmark")
    noise, n = streams.private("noise"), query.n_rows
    batches = None
    if batch is not None:
        batches = PoissonBatches(streams.private("coins"), n, batch / n)
    rule = HeavyBall(LEARNING_RATE, 0.9, STEPS, stds=np.zeros(STEPS))
    noise_std = NOISE_MULTIPLIER * CLIP_NORM
    unit = query.unit(noise_std)
    state = {"theta": np.zeros(query.shape), "velocity": np.zeros(query.shape)}

    def step() -> None:
        members = None if batches is None else batches.draw()
        total = release(
            query,
            state["theta"],
            noise_std=noise_std,
            unit=unit,
            generator=noise,
            batch=members,
        )
        total *= 1 / ((batch or n) * CLIP_NORM)
        state["theta"] = rule.update(state["theta"], state["velocity"], total, 0)

    return step


def same_kernels(X, y, n_classes: int, batch: int):
    """Return our float64 tiles on float32 rows without clip, noise and grid."""
    n, d = X.shape
    n_outputs = 1 if n_classes <= 2 else n_classes
    batches = PoissonBatches(Streams(None, "base").private("coins"), n, batch / n)
    theta, velocity = np.zeros((n_outputs, d)), np.zeros((n_outputs, d))
    total, block = np.empty((n_outputs, d)), max(64, 2**18 // d // 64 * 64)
    labels = y.astype(np.int16)

    def step() -> None:
        members = batches.draw()
        total[:] = 0.0
        for start in range(0, len(members), block):
            part = members[start : start + block]
            residuals = np.empty((n_outputs, len(part)))
            tiles.margins(X, part, theta, residuals)
            loss_named("log_loss").leaf(residuals, labels[part], 0.0)
            tiles.add_outer_products(X, part, residuals, total)
        velocity[:] = 0.9 * velocity + total / batch
        theta[:] -= LEARNING_RATE * velocity

    return step


def same_products(query: LinearQuery, batch: int):
    """Return our own loop on the grid without clip and noise: the tax base."""
    batches = PoissonBatches(
        Streams(None, "base").private("coins"), query.n_rows, batch / query.n_rows
    )
    n_columns = query.rows.table.shape[1]
    width = WIDTH * math.ceil(n_columns / WIDTH)
    size = len(short_tiles.block_memory(n_columns, query.n_outputs)[0])
    leaf = leaf_address(LOG_LOSS, np.dtype(np.int16))
    linked = size, short_tiles.links(query.n_outputs), leaf
    weights = np.zeros((query.n_outputs, width), dtype=np.int16)
    sums = np.zeros(weights.shape, dtype=np.int64)
    places = short_tiles.places(query.shape[1], n_columns)
    rule = HeavyBall(LEARNING_RATE, 0.9, STEPS, stds=np.zeros(STEPS))
    labels = query.target.astype(np.int16)
    state = {"theta": np.zeros(query.shape), "velocity": np.zeros(query.shape)}

    def step() -> None:
        bits = tiles.round_weights(state["theta"], n_columns, weights)
        factor = math.ldexp(query.rows.unit, -bits)
        sums[:] = 0
        excess = _add_unclipped(
            query.rows.table, batches.draw(), weights, factor, labels, *linked, sums
        )
        gradient = (sums.take(places, axis=1) - (excess << 31)) * (
            query.rows.unit / 2**13 / batch
        )
        state["theta"] = rule.update(state["theta"], state["velocity"], gradient, 0)

    return step


@njit(nogil=True)
def _add_unclipped(X, batch, theta, factor, labels, size, links, leaf, out):
    """What `short_tiles.add_clipped` does, but residuals are rounded as they are."""
    n_outputs, excess = theta.shape[0], 0
    memory = np.empty(size * n_outputs)
    for first in range(0, len(batch), size):
        rows = batch[first:]
        n_rows = min(size, len(rows))
        residuals = memory[: n_rows * n_outputs].reshape((n_outputs, n_rows))
        short_tiles.block_margins(X, rows, theta, factor, True, links, residuals)
        call_leaf(leaf, (residuals, labels[rows[:n_rows]], 0.0))
        for k in range(n_outputs):
            for i in range(n_rows):
                residuals[k, i] = np.rint(8192.0 * residuals[k, i])
        excess += short_tiles._add_outer_products(X, rows, residuals, links, out)
    return excess


def two_products(X, y, n_classes: int, batch: int):
    """Return NumPy's step without privacy: gather, two products, softmax between."""
    n, d = X.shape
    rng = np.random.default_rng(0)
    theta = np.zeros((d, n_classes), dtype=np.float32)

    def step() -> None:
        members = np.flatnonzero(rng.random(n) < batch / n)
        rows = X[members]
        residual = rows @ theta
        residual -= residual.max(axis=1, keepdims=True)
        np.exp(residual, out=residual)
        residual /= residual.sum(axis=1, keepdims=True)
        residual[np.arange(len(members)), y[members]] -= 1
        theta[:] -= (LEARNING_RATE / batch) * (rows.T @ residual)

    return step


def torch_step(X, y, n_classes: int, batch: int, kind: str):
    """Return torch's step: "plain", or Opacus with "hooks" or "ghost"."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    n, d = X.shape
    rows, labels = torch.from_numpy(X), torch.from_numpy(y.astype(np.int64))
    model: nn.Module = nn.Linear(d, n_classes)
    loss = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
    if kind != "plain":
        model, optimizer, loss = _opacus(model, optimizer, loss, batch, kind)

    def step() -> None:
        members = (torch.rand(n) < batch / n).nonzero()[:, 0]
        optimizer.zero_grad()
        loss(model(rows[members]), labels[members]).backward()
        optimizer.step()

    return step


def _opacus(model, optimizer, loss, batch: int, kind: str):
    from opacus.grad_sample import (
        GradSampleModule,
        GradSampleModuleFastGradientClipping,
    )
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    common = {
        "noise_multiplier": NOISE_MULTIPLIER,
        "max_grad_norm": CLIP_NORM,
        "expected_batch_size": batch,
    }
    if kind == "hooks":
        return GradSampleModule(model), DPOptimizer(optimizer, **common), loss
    model = GradSampleModuleFastGradientClipping(
        model, max_grad_norm=CLIP_NORM, use_ghost_clipping=True
    )
    optimizer = DPOptimizerFastGradientClipping(optimizer, **common)
    return model, optimizer, DPLossFastGradientClipping(model, optimizer, loss)


def jax_step(X, y, n_classes: int, batch: int):
    """Return jax-privacy's step: Poisson batches, padded so that few shapes compile."""
    import jax
    import jax.numpy as jnp
    from jax_privacy import clipped_grad
    from jax_privacy.batch_selection import CyclicPoissonSampling, pad_to_multiple_of

    n, d = X.shape
    rows, labels = jnp.asarray(X), jnp.asarray(y)
    batches = CyclicPoissonSampling(batch / n, STEPS).batch_iterator(n)

    def loss(weights, row, label):
        margins = row @ weights[0] + weights[1]
        return jax.nn.logsumexp(margins) - margins[label]

    gradient = clipped_grad(
        loss, l2_clip_norm=CLIP_NORM, batch_argnums=(1, 2), keep_batch_dim=False
    )

    @jax.jit
    def update(weights, velocity, members, key):
        total = gradient(
            weights, rows[members], labels[members], is_padding_example=members < 0
        )
        keys = jax.random.split(key, len(total))
        new_velocity = [
            0.9 * v + g + NOISE_MULTIPLIER * CLIP_NORM * jax.random.normal(k, g.shape)
            for v, g, k in zip(velocity, total, keys, strict=True)
        ]
        moved = [
            w - LEARNING_RATE / batch * v
            for w, v in zip(weights, new_velocity, strict=True)
        ]
        return moved, new_velocity

    start = [jnp.zeros((d, n_classes)), jnp.zeros(n_classes)]
    state = {"weights": start, "velocity": start, "key": jax.random.key(0)}

    def step() -> None:
        members = pad_to_multiple_of(
            next(batches).astype(np.int32), max(64, batch // 4)
        )
        state["key"], key = jax.random.split(state["key"])
        state["weights"], state["velocity"] = jax.block_until_ready(
            update(state["weights"], state["velocity"], members, key)
        )

    return step
