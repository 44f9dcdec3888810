"""A private fit in plain Python, to be read: what each row adds to each release.

`fit` releases the same integers as the package, bit for bit (`test_reference.py`), and
imports nothing from it. Where the package has blocks, threads, compiled loops and many
kinds of rows, this file has functions of one row, whose number is `i`.

`fit` gets the private table and a list of what to release. Each `ask` holds public
facts and numbers that follow from earlier releases, such as a released mean. What the
package computes from releases alone costs no privacy, and is not repeated here.
"""

import bisect
import hashlib
import math

import numpy as np
import randomgen
from mpmath import mp
from scipy.linalg import hadamard

GRID = 2.0**-14  # the step of private columns, which are scaled to [0, 1]
TARGET_GRID = 2.0**-24  # the same for a private target
CODE = 2.0**-20  # the step of rows of a schema, which are sums of public vectors
MOST = 2**15 - 1  # largest integer of a row, of a weight and of a residual
SHRINK = 1 - 1e-9  # outweighs the rounding errors of a norm
TINY = 1e-300  # in place of a divisor of zero


# Part 1: private numbers become integers.
def scaled(table, i):
    """Clip row i to its bounds, and scale it to [0, 1]; a missing number is 1/2."""
    x = (table.X[i] - table.low) / (table.high - table.low)
    return np.where(np.isfinite(table.X[i]), np.clip(x, 0.0, 1.0), 0.5)


def integers(table, i):
    """Return the private part of row i as integers, and what the integer 1 means."""
    if table.columns is None:
        return np.trunc(scaled(table, i)[~table.public] / GRID).astype(np.int64), GRID
    total = 0
    for cell, column in zip(table.X[i], table.columns, strict=True):
        if column.knots is None:
            name = cell if cell in column.names else "other"
            total = total + np.rint(column.vectors[column.names.index(name)] / CODE)
            continue
        knots, vectors = column.knots, np.rint(column.vectors / (512 * CODE))
        x = min(max(cell, knots[0]), knots[-1])
        left = min(bisect.bisect(knots, x), len(knots) - 1) - 1
        part = (x - knots[left]) / (knots[left + 1] - knots[left])
        share = round(512 * GRID * math.trunc(part / GRID))
        total = total + (512 - share) * vectors[left] + share * vectors[left + 1]
    return total.astype(np.int64), CODE


def target(table, i):
    """Return the class of row i, or its number on a grid of the declared bounds."""
    if table.classes is not None:
        return table.classes.index(table.y[i])
    low, high = table.target_bounds
    step = (high - low) * TARGET_GRID
    return low + np.rint((np.clip(table.y[i], low, high) - low) / step) * step


# Part 2: the integers that a row adds to a sum. The integer 1 means `ask.unit`.
def label(table, i, ask):
    """Return the public row at the place of the label, and zeros elsewhere."""
    return np.outer(np.eye(ask.shape[0], dtype=int)[target(table, i)], ask.rows[i])


def number(table, i, ask):
    """Return the row's length, its target or its error, scaled to [-1, 1]."""
    if ask.of == "length":
        x, step = integers(table, i)
        value = min(math.sqrt(x @ x) * step, ask.furthest) ** ask.power
    else:
        y = target(table, i)
        value = y if ask.of == "target" else abs(y - ask.centre)
    middle, half = (ask.low + ask.high) / 2, (ask.high - ask.low) / 2
    inside = (np.clip(value, ask.low, ask.high) - middle) / half
    return np.trunc([inside * (SHRINK / ask.unit)])


def private_row(table, i, ask):
    """Return the private row, divided by a released length and cut to norm 1."""
    x, step = integers(table, i)
    length = math.sqrt(x @ x) * step / ask.bound
    return np.trunc(step / ask.bound / ask.unit * SHRINK / max(length, 1.0)) * x


def moved(table, i, ask):
    """Return a row minus a centre, divided by a length, and perhaps rotated."""
    x = (scaled(table, i) - ask.centre) / ask.length
    if ask.signs is None:
        return x
    size = 1 << (len(x) - 1).bit_length()
    return hadamard(size) @ np.pad(x * ask.signs, (0, size - len(x))) / math.sqrt(size)


def moved_row(table, i, ask):
    """Return a moved row, cut to norm 1."""
    x = moved(table, i, ask)
    return np.trunc(x / max(np.linalg.norm(x), 1.0) * (SHRINK / ask.unit))


def bins(table, i, ask):
    """Return 1 at the bin of the target, of a moved row's length, or of its entries."""
    values = [target(table, i)] if ask.of == "target" else moved(table, i, ask)
    values = [np.linalg.norm(values)] if ask.of == "length" else values
    counts = np.zeros((len(values), ask.shape[-1]))
    for j, value in enumerate(values):
        counts[j, ask.places[j][bisect.bisect_left(ask.edges[j], value)]] = ask.one
    return counts.reshape(ask.shape)


def slopes(table, i, ask):
    """Return the derivative of the loss along a released step, at a few points."""
    x, unit = training_row(table, i, ask)
    fine = [max(np.abs(w).max(), TINY) / 2.0**20 for w in (ask.start, ask.along)]
    start = np.rint(ask.start / fine[0]) @ x * (fine[0] * unit) + ask.offset[i]
    along = np.rint(ask.along / fine[1]) @ x * (fine[1] * unit)
    classes = range(max(2, len(start))) if ask.loss == "log_loss" else ()
    most, found = SHRINK * math.sqrt(min(len(start), 2)), []
    for margin in [start + a * along for a in ask.points]:
        residuals = [residual(margin, k, ask) for k in classes] or [most]
        longest = max(map(np.linalg.norm, residuals))  # whatever the label is
        cut = along / max(np.linalg.norm(along) * longest / most, ask.reach)
        found.append(residual(margin, target(table, i), ask) @ cut / ask.unit)
    return np.trunc(found)


# Part 3: the gradient of a person, who has a single row unless `table.joint`.
def training_row(table, i, ask):
    """Return the integers of a centred row with a constant, and what 1 means."""
    after = np.max(ask.scale) if np.min(ask.scale) >= np.max(ask.scale) / 64 else 1.0
    if table.columns is not None:
        x, unit = integers(table, i)[0], CODE / ask.divisor
        x, unit = x - np.rint(ask.mean / unit), unit * ask.scale
    elif ask.adapts:
        x = np.trunc((scaled(table, i) - ask.mean) * (ask.scale / 4) / GRID)
        x, unit = np.clip(x, -MOST, MOST), GRID * 4
    else:
        x, before = scaled(table, i), ask.scale / after
        x[~table.public] = integers(table, i)[0] * GRID
        x = np.trunc(x * before / GRID) - np.rint(ask.mean * before / GRID)
        x, unit = np.clip(x, -MOST, MOST), GRID * after
    return np.append(x, round(ask.bias / unit)).astype(np.int64), unit


def margins(theta, x, unit):
    """Return the products of weights, rounded to 16 bits, with a row of integers."""
    largest, longest = np.abs(theta).max(), np.linalg.norm(theta, axis=1).max()
    power = 2.0 ** min(16 - math.frexp(longest)[1], 15 - math.frexp(largest)[1])
    return np.clip(np.rint(theta * power), -MOST, MOST) @ x * (unit / power)


def residual(margin, y, ask):
    """Return the derivative of the loss with respect to the margins of a row."""
    if ask.loss != "log_loss":  # the squared error, or Huber's loss
        return np.clip(margin - y, -ask.threshold, ask.threshold)
    if len(margin) == 1:
        small = np.exp(-np.abs(margin))
        return np.where(margin > 0, 1.0, small) / (1 + small) - y
    powers = np.exp(margin - margin.max())
    return powers / powers.sum() - np.eye(len(margin))[y]


def gradient(table, person, ask, theta):
    """Return the clipped sum of the weighted gradients of the rows of a person."""
    X, r, root = [], [], math.sqrt(len(theta))
    for i in person:
        x, unit = training_row(table, i, ask)
        margin, y = margins(theta, x, unit) + ask.offset[i], target(table, i)
        X.append(x)
        r.append(residual(margin, ask.rescaled(y), ask) * table.share[i])
    X, r, clip, step = np.array(X), np.array(r), ask.clip_norm / unit, ask.unit / unit
    longest = math.sqrt((X * X).sum(axis=1).max())
    if not table.joint:
        # Rounding a residual moves each of its entries by at most half a step.
        room = max(clip / (longest * (1 + 1e-9)) - 0.5 * step * root, 0.0)
        r = r[0] * min(1.0, room / max(np.linalg.norm(r), TINY)) / step
        return np.outer(np.clip(np.rint(r), -MOST, MOST), X[0])
    fine = longest * len(X) * max(np.abs(r).max(), TINY) / 2.0**50
    total = np.trunc(r / fine).astype(np.int64).T @ X
    # Entries are rounded up to a coarse grid, so that the norm is not too small.
    norm = 2.0**26 * root * np.linalg.norm(np.ceil(np.abs(total) / (2.0**26 * root)))
    return np.trunc(total * min(fine / step, clip / step * SHRINK / max(norm, TINY)))


# Part 4: bounds, batches, noise and steps.
def bounds(ask):
    """Return the norm of a row's vector, and the change if the row is replaced."""
    norm = ask.clip_norm if ask.sum in (label, gradient) else 1.0
    norm = math.sqrt(len(ask.edges)) if ask.sum is bins else norm
    if ask.sum is slopes:  # a residual has norm 1 at most, with several outputs 2**0.5
        norm = math.sqrt(len(ask.points) * min(len(ask.start), 2))
    # Two vectors whose entries have the same signs are at most a right angle apart.
    return norm, norm * (math.sqrt(2) if ask.same_signs else 2)


def batch(words, rate, n):
    """Return the records of a batch, each drawn independently with this probability."""
    if rate == 1:
        return range(n)
    most = math.ceil(n * rate + 8 * math.sqrt(n * rate * (1 - rate)))
    u = (words.random_raw(min(n, most) + 1) + 0.5) / 2.0**64
    records = np.cumsum(np.floor(np.log(u) / math.log1p(-rate)) + 1).astype(int) - 1
    return records[records < n]


def noise(words, ask):
    """Return normal numbers, rounded to integers, by the method of Box and Muller.

    Two random words give two numbers, and determine the integers of 249 in 250. For the
    others, where this function fails, the package draws further words.
    """
    found, size = [], math.prod(ask.shape)
    raw = words.random_raw(size + size % 2).tolist()
    for first, second in zip(raw[::2], raw[1::2], strict=True):
        with mp.workdps(50):
            u = mp.mpf(2 * (first << 11 | second % 2**11) + 1) / 2**76
            angle = mp.mpf(2 * (second >> 11) % 2**51 + 1) / 2**51 * mp.pi / 4
            radius = ask.noise * mp.sqrt(-2 * mp.log(u))
            pair = [radius * mp.cos(angle), radius * mp.sin(angle)]
            for k, x in enumerate(pair[::-1] if second >> 63 else pair):
                assert abs(x + 0.5 - mp.nint(x + 0.5)) > radius / 2**47, "undetermined"
                found.append(int(mp.nint(x)) * (-1 if second >> (62 - k) & 1 else 1))
    return np.array(found[:size], dtype=np.int64).reshape(ask.shape)


def fit(table, asked, seed, owner):
    """Yield, for each release, the exact sum, the released sum and the weights."""
    streams = {}

    def stream(name, *details):
        text = f"{seed}/{owner}/private/{name}/{details}".encode()
        key = int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "little")
        return streams.setdefault(text, randomgen.AESCounter(key=key))

    for ask in asked:
        if ask.step == 0:
            theta, velocity = ask.start, 0.0
        total = np.zeros(ask.shape, dtype=np.int64)
        coins = stream("coins", ask.event, (len(table.X),))
        for record in batch(coins, ask.rate, len(table.persons)):
            rows = [i for i in table.persons[record] if not table.null[i]]
            if ask.sum is gradient and rows:
                total += gradient(table, rows, ask, theta).astype(np.int64)
            elif ask.sum is not gradient:
                for i in rows:
                    total += table.weight[i] * ask.sum(table, i, ask).astype(np.int64)
        released = total + noise(stream(ask.stream, ask.event, ask.shape), ask)
        yield total, released, theta
        if ask.sum is gradient:  # a step with momentum
            velocity = ask.momentum * velocity + released * ask.unit * ask.factor
            theta = theta - velocity * ask.rate_of_step
