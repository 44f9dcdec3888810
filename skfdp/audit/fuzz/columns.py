"""Columns of a made-up table, by kind; private values can be recognised.

A message that quotes one gives itself away: `SECRETS` in `skfdp.audit.fuzz.rule` says
by what.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: The first of the whole numbers, and of the dates.
FIRST, DAY = 73519400, np.datetime64("2173-05-01")
_COLOURS = np.array(["red", "green", "blue"], dtype=object)


class Opaque:
    """A value that refuses to be a number, a label or a key, and tells a secret."""

    def __float__(self) -> float:
        raise ValueError("s3cr3t-0")

    def __eq__(self, other: object) -> bool:
        raise ValueError("s3cr3t-0")

    def __hash__(self) -> int:
        raise TypeError("s3cr3t-0")

    def __repr__(self) -> str:
        return "s3cr3t-0"


def marked(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return numbers in (0, 1) whose digits begin with a secret.

    Parameters
    ----------
    rng : numpy Generator
    n : int

    Returns
    -------
    values : float64 ndarray of shape (n,)
    """
    last = rng.integers(10, 90, n)
    return (0.735194 + last * 1e-8) / 10.0 ** rng.integers(0, 3, n)


def objects(values: Sequence[Any]) -> np.ndarray:
    """Return a one-dimensional array of objects, whatever they are."""
    found = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        found[place] = value
    return found


def _some(value: Any) -> Callable:
    """Return numbers of which about a tenth are something else."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        found = marked(rng, n)
        number = isinstance(value, float)
        found = found if number else found.astype(object)
        for place in np.flatnonzero(rng.random(n) < 0.1):
            found[place] = value
        return found

    return draw


def text(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return labels that show a secret, as objects.

    Parameters
    ----------
    rng : numpy Generator
    n : int

    Returns
    -------
    values : object ndarray of shape (n,)
    """
    return objects([f"s3cr3t-{i}" for i in rng.integers(0, 9, n)])


def _each(make: Callable[[float], Any]) -> Callable:
    return lambda rng, n: objects([make(float(value)) for value in marked(rng, n)])


#: Columns by kind: functions of a generator and a number of rows.
COLUMNS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "unit": marked,
    "wide": lambda rng, n: 1e4 * marked(rng, n) * rng.choice([-1, 1], n),
    "huge": lambda rng, n: 1e307 * marked(rng, n) * rng.choice([-1, 1], n),
    "tiny": lambda rng, n: 1e-309 * marked(rng, n),
    "zeros": lambda rng, n: np.zeros(n),
    "0/1": lambda rng, n: rng.integers(0, 2, n),
    "int": lambda rng, n: FIRST + rng.integers(0, 99, n),
    "bool": lambda rng, n: rng.random(n) < 0.5,
    "float32": lambda rng, n: marked(rng, n).astype(np.float32),
    "float16": lambda rng, n: marked(rng, n).astype(np.float16),
    "longdouble": lambda rng, n: marked(rng, n).astype(np.longdouble),
    "uint8": lambda rng, n: rng.integers(0, 255, n).astype(np.uint8),
    "int16": lambda rng, n: rng.integers(-999, 999, n).astype(np.int16),
    "uint64": lambda rng, n: np.uint64(2**63) + rng.integers(0, 99, n).astype("u8"),
    "complex": lambda rng, n: marked(rng, n) * 1j,
    "date": lambda rng, n: DAY + rng.integers(0, 30, n),
    "span": lambda rng, n: (FIRST + rng.integers(0, 99, n)).astype("m8[s]"),
    "text": text,
    "digits": lambda rng, n: objects([str(v) for v in marked(rng, n)]),
    "strings": lambda rng, n: text(rng, n).astype(str),
    "bytes": lambda rng, n: text(rng, n).astype("S"),
    "colours": lambda rng, n: _COLOURS[rng.integers(0, 3, n)],
    "objects": _each(float),
    "decimals": _each(lambda v: decimal.Decimal(repr(v))),
    "fractions": _each(fractions.Fraction),
    "lists": _each(lambda v: [v]),
    "dicts": _each(lambda v: {"s3cr3t": v}),
    "opaque": _each(lambda v: Opaque()),
    "days": _each(lambda v: datetime.date(2173, 5, 1 + int(v * 30))),
    "some nan": _some(np.nan),
    "some inf": _some(np.inf),
    "some -inf": _some(-np.inf),
    "some None": _some(None),
    "some text": _some("s3cr3t-1"),
    "some empty": _some(""),
    "some long": _some(735194 * 10**400),
    "some list": _some([0.73519412]),
    "all nan": lambda rng, n: np.full(n, np.nan),
    "all None": lambda rng, n: objects([None] * n),
}
#: Columns that only pandas has: their kind, and the type that it becomes.
PANDAS_COLUMNS = {
    "category": ("colours", "category"),
    "Int64": ("int", "Int64"),
    "Float64": ("some nan", "Float64"),
    "boolean": ("bool", "boolean"),
    "string": ("text", "string"),
    "period": ("date", "period[D]"),
    "sparse": ("zeros", "Sparse[float]"),
}
