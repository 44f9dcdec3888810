"""Made-up tables in every form; the repr of a `Table` reproduces it."""

from __future__ import annotations

import dataclasses
import importlib
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from skfdp.audit.fuzz.columns import COLUMNS, PANDAS_COLUMNS, marked


def _array(columns: list, order: str = "C") -> np.ndarray:
    if not columns:
        return np.empty((0, 0))
    kinds = {np.asarray(column).dtype.kind for column in columns}
    dtype = None if kinds <= set("biufc") or len(kinds) == 1 else object
    found = np.empty(
        (len(columns[0]), len(columns)),
        dtype=np.result_type(*columns) if dtype is None else dtype,
        order=order,
    )
    for place, column in enumerate(columns):
        found[:, place] = column
    return found


def _numbers(columns: list) -> np.ndarray:
    """Return an array of numbers for forms that hold nothing else; marked otherwise."""
    found = _array(columns)
    if found.dtype.kind in "biuf":
        return found.astype(np.float64)
    return marked(np.random.default_rng(0), found.size).reshape(found.shape)


def _strided(columns: list) -> np.ndarray:
    return np.repeat(np.repeat(_array(columns), 2, axis=0), 2, axis=1)[::2, ::-2]


def _read_only(columns: list) -> np.ndarray:
    found = _array(columns)
    found.setflags(write=False)
    return found


def _memmap(columns: list) -> np.ndarray:
    values = _numbers(columns)
    if not values.size:
        return values
    with tempfile.TemporaryFile() as file:
        found = np.memmap(file, dtype=np.float64, mode="w+", shape=values.shape)
    found[:] = values
    return found


def _masked(columns: list) -> np.ma.MaskedArray:
    values = _numbers(columns)
    return np.ma.MaskedArray(values, mask=values > 0.5)


def _structured(columns: list) -> np.ndarray:
    kinds = [(f"f{j}", np.asarray(c).dtype) for j, c in enumerate(columns)]
    found = np.empty(len(columns[0]) if columns else 0, dtype=kinds)
    for (name, _), column in zip(kinds, columns, strict=True):
        found[name] = column
    return found


def _sparse(kind: str, sparse_index: type = np.int32) -> Callable:
    def make(columns: list) -> Any:
        dense = _numbers(columns)
        dense = np.where(dense < np.median(dense), dense, 0) if dense.size else dense
        found = getattr(sp, kind)(dense)
        for name in ("indices", "indptr", "row", "col"):
            if sparse_index is not np.int32 and hasattr(found, name):
                setattr(found, name, getattr(found, name).astype(sparse_index))
        return found

    return make


def _repeated(columns: list) -> sp.csr_array:
    """Return rows that store an entry twice, out of order, and zeros."""
    dense = _numbers(columns)
    n, d = dense.shape
    if d == 0:
        return sp.csr_array((n, d))
    places = np.tile(np.r_[d - 1, np.zeros(2, dtype=int)], n)
    data = np.repeat(dense[:, -1], 3)
    data[::3] = 0.0
    found = sp.csr_array((n, d))
    found.data, found.indices = data, places.astype(np.int32)
    found.indptr = (3 * np.arange(n + 1)).astype(np.int32)
    return found


def _broken(columns: list) -> sp.csr_array:
    """Return CSR whose column numbers lie outside of it."""
    found = _repeated(columns)
    found.indices = found.indices + found.shape[1]
    return found


#: Tables without names, by form: functions of a list of columns.
FORMS: dict[str, Callable[[list], Any]] = {
    "array": _array,
    "fortran": lambda columns: _array(columns, order="F"),
    "strided": _strided,
    "read-only": _read_only,
    "big-endian": lambda columns: _numbers(columns).astype(">f8"),
    "memmap": _memmap,
    "matrix": lambda columns: _numbers(columns).view(np.matrix),
    "masked": _masked,
    "structured": _structured,
    "float32 array": lambda columns: _numbers(columns).astype(np.float32),
    "objects array": lambda columns: _array(columns).astype(object),
    "lists": lambda columns: _array(columns).tolist(),
    "tuples": lambda columns: tuple(map(tuple, _array(columns).tolist())),
    "ragged": lambda columns: [*_array(columns).tolist()[1:], [0.73519412]],
    "csr_array": _sparse("csr_array"),
    "csr_matrix": _sparse("csr_matrix"),
    "csr int64": _sparse("csr_array", np.int64),
    "csc_array": _sparse("csc_array"),
    "coo_array": _sparse("coo_array"),
    "lil_array": _sparse("lil_array"),
    "dok_array": _sparse("dok_array"),
    "dia_array": _sparse("dia_array"),
    "bsr_array": _sparse("bsr_array"),
    "csr repeated": _repeated,
    "csr broken": _broken,
    "1-d": lambda columns: columns[0] if columns else np.empty(0),
    "0-d": lambda columns: np.float64(0.73519412),
    "3-d": lambda columns: _array(columns)[:, :, None],
    "None": lambda columns: None,
    "string": lambda columns: "s3cr3t-1",
    "dict": lambda columns: {f"c{j}": c for j, c in enumerate(columns)},
    "generator": lambda columns: iter(_array(columns).tolist()),
}
#: Tables with names.
FRAMES = ("frame", "polars", "arrow", "series")
#: Spellings of the names of columns.
NAMES: dict[str, Callable[[int], list]] = {
    "strings": lambda n: [f"c{j}" for j in range(n)],
    "counted": lambda n: list(range(n)),
    "numbers": lambda n: [10 * j + 3 for j in range(n)],
    "mixed": lambda n: [f"c{j}" if j % 2 else j for j in range(n)],
    "tuples": lambda n: [("c", j) for j in range(n)],
    "repeated": lambda n: ["c0"] * n,
    "digits": lambda n: [str(n - 1 - j) for j in range(n)],
    "empty": lambda n: ["", *(f"c{j}" for j in range(1, n))][:n],
    "None": lambda n: [None, *(f"c{j}" for j in range(1, n))][:n],
    "all": lambda n: ["all", *(f"c{j}" for j in range(1, n))][:n],
    "spaced": lambda n: [f" c[{j}]*\n" for j in range(n)],
}


@dataclasses.dataclass(frozen=True)
class Table:
    """A made-up table.

    Parameters
    ----------
    form : str
        One of `FORMS` or `FRAMES`.
    kinds : tuple of str
        The kind of each column, of `COLUMNS` or `PANDAS_COLUMNS`.
    n_rows : int
    names : str
        One of `NAMES`; for `FRAMES` alone.
    seed : int

    Examples
    --------
    >>> from skfdp.audit.fuzz.tables import Table
    >>> Table(form="csr_array", kinds=("unit", "0/1"), n_rows=4).build().shape
    (4, 2)
    """

    form: str = "array"
    kinds: tuple[str, ...] = ("unit", "unit")
    n_rows: int = 30
    names: str = "strings"
    seed: int = 0

    def build(self) -> Any:
        """Return the table, a new one each time."""
        with np.errstate(all="ignore"):  # of numbers that a small type cannot hold
            return self._framed() if self.form in FRAMES else self._unnamed()

    def _unnamed(self) -> Any:
        kinds = (PANDAS_COLUMNS.get(kind, (kind,))[0] for kind in self.kinds)
        return FORMS[self.form]([self._column(j, kind) for j, kind in enumerate(kinds)])

    def _column(self, place: int, kind: str) -> Any:
        rng = np.random.default_rng((self.seed, place))
        return COLUMNS[kind](rng, self.n_rows)

    def _framed(self) -> Any:
        pandas = importlib.import_module("pandas")
        found = []
        for place, kind in enumerate(self.kinds):
            kind, dtype = PANDAS_COLUMNS.get(kind, (kind, None))
            column = pandas.Series(self._column(place, kind))
            found.append(column if dtype is None else column.astype(dtype))
        names = NAMES[self.names](len(found))
        if self.form == "series":
            return found[0] if found else pandas.Series(dtype=float)
        if self.form != "frame":
            unlike = [str(name) for name in dict.fromkeys(names)][: len(found)]
            found = dict(zip(unlike, found, strict=False))
            return _other_frame(self.form, found)
        frame = pandas.concat(found, axis=1) if found else pandas.DataFrame()
        frame.columns = _index(pandas, names)
        return frame


def _index(pandas: Any, names: list) -> Any:
    tuples = any(isinstance(name, tuple) for name in names)
    return pandas.Index(names, tupleize_cols=False) if tuples else pandas.Index(names)


def _other_frame(form: str, columns: dict[str, Any]) -> Any:
    """Return a frame of another library; what it cannot hold becomes text."""
    if form == "polars":
        polars = importlib.import_module("polars")
        return polars.DataFrame(
            _held_by(lambda values: polars.Series(values=values), columns)
        )
    arrow = importlib.import_module("pyarrow")
    return arrow.table(_held_by(arrow.array, columns))


def _held_by(make: Callable, columns: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, column in columns.items():
        values = column.tolist()
        try:
            found[name] = make(values)
        except Exception:  # each library has exceptions of its own
            found[name] = make([str(value) for value in values])
    return found
