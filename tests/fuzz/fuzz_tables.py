"""Made-up tables and targets in every form; private values can be recognised.

A message that quotes one gives itself away: `SECRETS` in ``fuzz_rule.py`` says by what.
The repr of a `Table` or a `Target` reproduces it.
"""

import dataclasses
import datetime
import decimal
import fractions
import importlib
import tempfile

import numpy as np
import scipy.sparse as sp

#: The first of the whole numbers, and of the dates.
FIRST, DAY = 73519400, np.datetime64("2173-05-01")
_COLOURS = np.array(["red", "green", "blue"], dtype=object)


class Opaque:
    """A value that refuses to be a number, a label or a key, and tells a secret."""

    def __float__(self):
        raise ValueError("s3cr3t-0")

    def __eq__(self, other):
        raise ValueError("s3cr3t-0")

    def __hash__(self):
        raise TypeError("s3cr3t-0")

    def __repr__(self):
        return "s3cr3t-0"


def marked(rng, n):
    """Return numbers in (0, 1) whose digits begin with a secret."""
    last = rng.integers(10, 90, n)
    return (0.735194 + last * 1e-8) / 10.0 ** rng.integers(0, 3, n)


def objects(values):
    """Return a one-dimensional array of objects, whatever they are."""
    found = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        found[place] = value
    return found


def _some(value):
    """Return numbers of which about a tenth are something else."""

    def draw(rng, n):
        found = marked(rng, n)
        number = isinstance(value, float)
        found = found if number else found.astype(object)
        for place in np.flatnonzero(rng.random(n) < 0.1):
            found[place] = value
        return found

    return draw


def text(rng, n):
    """Return labels that show a secret, as objects."""
    return objects([f"s3cr3t-{i}" for i in rng.integers(0, 9, n)])


def _each(make):
    return lambda rng, n: objects([make(float(value)) for value in marked(rng, n)])


#: Columns by kind: functions of a generator and a number of rows.
COLUMNS = {
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


def _array(columns, order="C"):
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


def _numbers(columns):
    """Return an array of numbers for forms that hold nothing else; marked otherwise."""
    found = _array(columns)
    if found.dtype.kind in "biuf":
        return found.astype(np.float64)
    return marked(np.random.default_rng(0), found.size).reshape(found.shape)


def _strided(columns):
    return np.repeat(np.repeat(_array(columns), 2, axis=0), 2, axis=1)[::2, ::-2]


def _read_only(columns):
    found = _array(columns)
    found.setflags(write=False)
    return found


def _memmap(columns):
    values = _numbers(columns)
    if not values.size:
        return values
    with tempfile.TemporaryFile() as file:
        found = np.memmap(file, dtype=np.float64, mode="w+", shape=values.shape)
    found[:] = values
    return found


def _masked(columns):
    values = _numbers(columns)
    return np.ma.MaskedArray(values, mask=values > 0.5)


def _structured(columns):
    kinds = [(f"f{j}", np.asarray(c).dtype) for j, c in enumerate(columns)]
    found = np.empty(len(columns[0]) if columns else 0, dtype=kinds)
    for (name, _), column in zip(kinds, columns, strict=True):
        found[name] = column
    return found


def _sparse(kind, sparse_index=np.int32):
    def make(columns):
        dense = _numbers(columns)
        dense = np.where(dense < np.median(dense), dense, 0) if dense.size else dense
        found = getattr(sp, kind)(dense)
        for name in ("indices", "indptr", "row", "col"):
            if sparse_index is not np.int32 and hasattr(found, name):
                setattr(found, name, getattr(found, name).astype(sparse_index))
        return found

    return make


def _repeated(columns):
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


def _broken(columns):
    """Return CSR whose column numbers lie outside of it."""
    found = _repeated(columns)
    found.indices = found.indices + found.shape[1]
    return found


#: Tables without names, by form: functions of a list of columns.
FORMS = {
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
NAMES = {
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
    """A made-up table, of a form and of kinds of columns."""

    form: str = "array"
    kinds: tuple[str, ...] = ("unit", "unit")
    n_rows: int = 30
    names: str = "strings"
    seed: int = 0

    def build(self):
        """Return the table, a new one each time."""
        with np.errstate(all="ignore"):  # of numbers that a small type cannot hold
            return self._framed() if self.form in FRAMES else self._unnamed()

    def _unnamed(self):
        kinds = (PANDAS_COLUMNS.get(kind, (kind,))[0] for kind in self.kinds)
        return FORMS[self.form]([self._column(j, kind) for j, kind in enumerate(kinds)])

    def _column(self, place, kind):
        rng = np.random.default_rng((self.seed, place))
        return COLUMNS[kind](rng, self.n_rows)

    def _framed(self):
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


def _index(pandas, names):
    tuples = any(isinstance(name, tuple) for name in names)
    return pandas.Index(names, tupleize_cols=False) if tuples else pandas.Index(names)


def _other_frame(form, columns):
    """Return a frame of another library; what it cannot hold becomes text."""
    if form == "polars":
        polars = importlib.import_module("polars")
        return polars.DataFrame(
            _held_by(lambda values: polars.Series(values=values), columns)
        )
    arrow = importlib.import_module("pyarrow")
    return arrow.table(_held_by(arrow.array, columns))


def _held_by(make, columns):
    found = {}
    for name, column in columns.items():
        values = column.tolist()
        try:
            found[name] = make(values)
        except Exception:  # each library has exceptions of its own
            found[name] = make([str(value) for value in values])
    return found


def _classes(*labels):
    return lambda rng, n: objects([labels[i % len(labels)] for i in range(n)])


def _codes(n_classes):
    return lambda rng, n: np.arange(n) % n_classes


def _with(value, of):
    def draw(rng, n):
        found = of(rng, n)
        found = found if isinstance(value, float) else found.astype(object)
        found = found.astype(float) if found.dtype.kind == "i" else found
        found[: max(1, n // 10)] = objects([value] * min(n, max(1, n // 10)))
        return found

    return draw


_LETTERS = _classes("a", "b")
#: Targets by kind: functions of a generator and a number of rows.
TARGETS = {
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
    """A made-up target; what its holder cannot hold stays an array."""

    kind: str = "0/1"
    holder: str = "array"
    n_rows: int = 30
    seed: int = 0

    def build(self):
        """Return the target, a new one each time."""
        y = TARGETS[self.kind](np.random.default_rng(self.seed), self.n_rows)
        if self.holder == "array" or np.ndim(y) != 1 or sp.issparse(y):
            return y
        try:
            return _held(y, self.holder)
        except Exception:  # a library that has no type for it
            return y


def _held(y, holder):
    if holder == "polars":
        return importlib.import_module("polars").Series("target", list(y))
    pandas = importlib.import_module("pandas")
    names = {"named": "target", "numbered": 7, "frame": "target"}
    series = pandas.Series(y, name=names.get(holder))
    if holder == "frame":
        return series.to_frame()
    return series.astype(holder) if holder in ("category", "Int64") else series
