"""A private fit in plain Python, to be read: what each row adds to each release.

`fit` releases the same integers as the package, bit for bit (`test_reference.py`), and
imports nothing from it. In place of blocks, threads, compiled loops and many kinds of
rows it has functions of one row, whose number is `i`. It does not show that `asked` is
public or released: see docs/explanation/line_by_line.rst.
"""

import math

import numpy as np
from mpmath import mp
from scipy.linalg import hadamard

GRID = 2.0**-14  # the unit of private columns, which are scaled to [0, 1]
CODE = 2.0**-20  # the unit of rows of a schema, which are sums of public vectors
MOST = 2**15 - 1  # largest integer of a weight, a residual and a row without a schema
SHRINK = 1 - 1e-9  # outweighs the rounding errors of a norm, below 2**22 columns
TINY = 1e-300  # in place of a divisor of zero


# Part 1: private numbers become integers.
def scaled(table, i):
    """Clip row i to its bounds, and scale it to [0, 1]; NaN and infinity are 1/2."""
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
        left = min(np.searchsorted(knots, x, "right"), len(knots) - 1) - 1
        part = (x - knots[left]) / (knots[left + 1] - knots[left])
        share = round(512 * GRID * math.trunc(part / GRID))  # truncated like a column
        total = total + (512 - share) * vectors[left] + share * vectors[left + 1]
    return total.astype(np.int64), CODE


def target(table, i):
    """Return the class of row i, or its rounded number; None makes the row null."""
    y = table.y[i]
    if table.classes is not None:
        return table.classes.index(y) if y in table.classes else None
    low, high = table.target_bounds
    unit = (high - low) * 2.0**-24
    y = low + np.rint((np.clip(y, low, high) - low) / unit) * unit
    return y if np.isfinite(table.y[i]) else None


# Part 2: the integers that a row adds to a sum. The integer 1 means `ask.unit`.
def label(table, i, ask):
    """Return the public row at the place of the label, and zeros elsewhere."""
    assert np.linalg.norm(ask.rows[i]) * ask.unit <= ask.clip_norm
    return np.outer(np.eye(ask.shape[0], dtype=int)[target(table, i)], ask.rows[i])


def number(table, i, ask):
    """Return the row's length, its target or its error, scaled to [-1, 1]."""
    if ask.of == "length":
        x, unit = integers(table, i)
        value = min(math.sqrt(x @ x) * unit, ask.furthest) ** ask.power
    else:
        y = target(table, i)
        value = y if ask.of == "target" else abs(y - ask.centre)
    middle, half = (ask.low + ask.high) / 2, (ask.high - ask.low) / 2
    inside = (np.clip(value, ask.low, ask.high) - middle) / half
    return np.trunc([inside * (SHRINK / ask.unit)])


def private_row(table, i, ask):
    """Return the private row, divided by a released length and cut to norm 1."""
    x, unit = integers(table, i)
    length = math.sqrt(x @ x) * unit / ask.bound
    return np.trunc(unit / ask.bound / ask.unit * SHRINK / max(length, 1.0)) * x


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
        counts[j, ask.places[j][np.searchsorted(ask.edges[j], value)]] = ask.one
    return counts.reshape(ask.shape)


def slopes(table, i, ask):
    """Return the slope of the loss along a released direction, at a few points."""
    x, unit = training_row(table, i, ask)
    fine = [(w, max(np.abs(w).max(), TINY) / 2.0**20) for w in (ask.start, ask.along)]
    start, along = (np.rint(w / one) @ x * (one * unit) for w, one in fine)
    most, found, y = SHRINK * math.sqrt(min(len(start), 2)), [], target(table, i)
    for margin in [start + ask.offset[i] + a * along for a in ask.points]:
        each = [residual(margin, k, ask) for k in range(len(table.classes or ()))]
        longest = max(map(np.linalg.norm, each), default=most)  # whatever the label is
        cut = along / max(np.linalg.norm(along) * longest / most, ask.reach)
        found.append(residual(margin, ask.rescaled(y), ask) @ cut / ask.unit)
    return np.trunc(found)


# Part 3: the gradient of a person, who has a single row unless `table.joint`.
def training_row(table, i, ask):
    """Return the integers of a centred and scaled row, a constant, and what 1 means."""
    if table.columns is not None:  # the scale is in the unit alone
        x, unit = integers(table, i)[0], CODE / ask.divisor
        x, unit = x - np.rint(ask.mean / unit), unit * ask.scale
    elif ask.adapts:  # centred before the numbers become integers
        x = np.trunc((scaled(table, i) - ask.mean) * (ask.scale / 4) / GRID)
        x, unit = np.clip(x, -MOST, MOST), GRID * 4
    else:  # the largest scale is in the unit, unless columns would round to zero
        after = np.max(ask.scale) if np.min(ask.scale) >= np.max(ask.scale) / 64 else 1
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
    X, r, clip, one = np.array(X), np.array(r), ask.clip_norm / unit, ask.unit / unit
    longest = math.sqrt(max((X * X).sum(axis=1).max(), 1))
    if not table.joint:
        # Rounding moves each entry of a residual by at most half of its unit, `one`.
        room = max(clip / (longest * (1 + 1e-9)) - 0.5 * one * root, 0.0)
        r = r[0] * min(1.0, room / max(np.linalg.norm(r), TINY)) / one
        return np.outer(np.clip(np.rint(r), -MOST, MOST), X[0])
    fine = longest * len(X) * max(np.abs(r).max(), TINY) / 2.0**50
    total = np.trunc(r / fine).astype(np.int64).T @ X
    # Entries are rounded up, which gives an upper bound of the norm.
    norm = 2.0**26 * root * np.linalg.norm(np.ceil(np.abs(total) / (2.0**26 * root)))
    return np.trunc(total * min(fine / one, clip / one * SHRINK / max(norm, TINY)))


# Part 4: sensitivity, batches, noise and updates.
def bounds(table, ask):
    """Return the norm of what a person adds, and the change if the person changes."""
    norm = ask.clip_norm if ask.sum in (label, gradient) else 1.0
    norm = math.sqrt(len(ask.edges)) if ask.sum is bins else norm
    if ask.sum is slopes:  # a residual has norm 1, and with several outputs 2**0.5
        longest = min(len(ask.start), 2) ** 0.5 if table.classes else ask.threshold
        norm = math.sqrt(len(ask.points)) * longest
    if ask.sum is not gradient:  # a person's rows are summed, and not cut together
        norm *= max(table.weight[rows].sum() for rows in table.persons)
    # Two vectors that in no entry have opposite signs are at most a right angle apart.
    replaced = norm * (math.sqrt(2) if ask.same_signs else 2)
    return norm, replaced if ask.replaces else norm  # otherwise the person adds zero


def batch(words, rate, n):
    """Return the persons of a batch, each drawn independently with this probability."""
    if rate == 1:
        return range(n)
    most = math.ceil(n * rate + 8 * math.sqrt(n * rate * (1 - rate)))
    u = (words.random_raw(min(n, most) + 1) + 0.5) / 2.0**64
    persons = np.cumsum(np.floor(np.log(u) / math.log1p(-rate)) + 1).astype(int) - 1
    assert persons[-1] >= n, "too few words: the package would draw more"
    return persons[persons < n]


def noise(words, ask):
    """Return normal numbers, rounded to integers, by the method of Box and Muller."""
    # Further digits, drawn in the package if needed, move x by radius / 2**51 at most.
    found, size = [], math.prod(ask.shape)
    raw = words.random_raw(size + size % 2).tolist()
    for first, second in zip(raw[::2], raw[1::2], strict=True):
        with mp.workdps(50):
            u = mp.mpf(2 * (first << 11 | second % 2**11) + 1) / 2**76
            angle = mp.mpf(2 * (second >> 11) % 2**51 + 1) / 2**51 * mp.pi / 4
            radius = ask.noise * mp.sqrt(-2 * mp.log(u))
            assert 2.0**-11 < radius / ask.noise < 6.2, "undetermined"
            pair = [radius * mp.cos(angle), radius * mp.sin(angle)]
            for k, x in enumerate(pair[::-1] if second >> 63 else pair):
                assert abs(x + 0.5 - mp.nint(x + 0.5)) > radius / 2**47 + 2.0**-50
                found.append(int(mp.nint(x)) * (-1 if second >> (62 - k) & 1 else 1))
    return np.array(found[:size], dtype=np.int64).reshape(ask.shape)


def fit(table, asked, stream):
    """Yield, for each release, the exact sum, the released sum and the new weights."""
    # `stream` gives secret uniform words, another source for other arguments.
    n = len(table.persons)
    for ask in asked:
        change = bounds(table, ask)[1] / ask.unit
        assert math.isclose(ask.noise, ask.multiplier * change)
        total = np.zeros(ask.shape, dtype=np.int64)
        if ask.starts_descent:
            theta, velocity = ask.start, 0.0
        for k in batch(stream("coins", ask.event, (len(table.X),)), ask.rate, n):
            rows = [i for i in table.persons[k] if target(table, i) is not None]
            if ask.sum is gradient and rows:
                total += gradient(table, rows, ask, theta).astype(np.int64)
            elif ask.sum is not gradient:
                for i in rows:
                    total += table.weight[i] * ask.sum(table, i, ask).astype(np.int64)
        released = total + noise(stream(ask.stream, ask.event, ask.shape), ask)
        if ask.sum is gradient:  # an update with momentum
            factor = 1 / (ask.rate * n * ask.clip_norm)
            velocity = ask.momentum * velocity + released * ask.unit * factor
            theta = theta - velocity * ask.learning_rate
        yield total, released, theta if ask.sum is gradient else None
