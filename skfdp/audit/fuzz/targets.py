"""Made-up targets of every kind; the repr of a `Target` reproduces it."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from skfdp.audit.fuzz.columns import DAY, FIRST, Opaque, marked, objects, text


def _classes(*labels: Any) -> Callable:
    return lambda rng, n: objects([labels[i % len(labels)] for i in range(n)])


def _codes(n_classes: int) -> Callable:
    return lambda rng, n: np.arange(n) % n_classes


def _with(value: Any, of: Callable) -> Callable:
    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        found = of(rng, n)
        found = found if isinstance(value, float) else found.astype(object)
        found = found.astype(float) if found.dtype.kind == "i" else found
        found[: max(1, n // 10)] = objects([value] * min(n, max(1, n // 10)))
        return found

    return draw


_LETTERS = _classes("a", "b")
#: Targets by kind: functions of a generator and a number of rows.
TARGETS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "0/1": _codes(2),
    "three": _codes(3),
    "one class": _codes(1),
    "each its own": lambda rng, n: FIRST + np.arange(n),
    "letters": _LETTERS,
    "letters array": lambda rng, n: _LETTERS(rng, n).astype(str),
    "secret labels": lambda rng, n: text(rng, n),
    "bool": lambda rng, n: np.arange(n) % 2 == 0,
    "bytes": lambda rng, n: _LETTERS(rng, n).astype("S"),
    "numbers": marked,
    "wide": lambda rng, n: 1e4 * marked(rng, n) * rng.choice([-1, 1], n),
    "huge": lambda rng, n: 1e307 * marked(rng, n),
    "counts": lambda rng, n: rng.poisson(3, n),
    "constant": lambda rng, n: np.full(n, 0.73519412),
    "uint8": lambda rng, n: (np.arange(n) % 2).astype(np.uint8),
    "float16": lambda rng, n: marked(rng, n).astype(np.float16),
    "complex": lambda rng, n: marked(rng, n) * 1j,
    "dates": lambda rng, n: DAY + rng.integers(0, 2, n),
    "list": lambda rng, n: (np.arange(n) % 2).tolist(),
    "mixed": _classes("s3cr3t-1", 1, 0.5),
    "some nan": _with(np.nan, _codes(2)),
    "some inf": _with(np.inf, marked),
    "some None": _with(None, _codes(2)),
    "some secret": _with("s3cr3t-1", _LETTERS),
    "some long": _with(735194 * 10**400, marked),
    "letters and None": _with(None, _LETTERS),
    "letters and nan": _with(np.nan, _LETTERS),
    "unhashable": _classes([1], [0]),
    "opaque": lambda rng, n: objects([Opaque()] * n),
    "column": lambda rng, n: (np.arange(n) % 2)[:, None],
    "two columns": lambda rng, n: np.stack([marked(rng, n)] * 2, axis=1),
    "one more": lambda rng, n: np.arange(n + 1) % 2,
    "scalar": lambda rng, n: 0.73519412,
    "None": lambda rng, n: None,
    "string": lambda rng, n: "s3cr3t-1",
    "sparse": lambda rng, n: sp.csr_array((np.arange(n) % 2)[:, None]),
}
#: Targets in other forms.
HOLDERS = (
    "array",
    "series",
    "named",
    "numbered",
    "category",
    "Int64",
    "polars",
    "frame",
)


@dataclasses.dataclass(frozen=True)
class Target:
    """A made-up target.

    Parameters
    ----------
    kind : str
        One of `TARGETS`.
    holder : str
        One of `HOLDERS`; what cannot be held so stays an array.
    n_rows : int
    seed : int

    Examples
    --------
    >>> from skfdp.audit.fuzz.targets import Target
    >>> Target(kind="letters", n_rows=3).build().tolist()
    ['a', 'b', 'a']
    """

    kind: str = "0/1"
    holder: str = "array"
    n_rows: int = 30
    seed: int = 0

    def build(self) -> Any:
        """Return the target, a new one each time."""
        y = TARGETS[self.kind](np.random.default_rng(self.seed), self.n_rows)
        if self.holder == "array" or np.ndim(y) != 1 or sp.issparse(y):
            return y
        try:
            return _held(y, self.holder)
        except Exception:  # a library that has no type for it
            return y


def _held(y: Any, holder: str) -> Any:
    if holder == "polars":
        return importlib.import_module("polars").Series("target", list(y))
    pandas = importlib.import_module("pandas")
    names = {"named": "target", "numbered": 7, "frame": "target"}
    series = pandas.Series(y, name=names.get(holder))
    if holder == "frame":
        return series.to_frame()
    return series.astype(holder) if holder in ("category", "Int64") else series
