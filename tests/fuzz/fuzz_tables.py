"""Made-up tables and targets in every form; private values can be recognised.

A message that quotes one gives itself away: `SECRETS` in ``fuzz_rule.py`` says by what.
The repr of a `Table` or a `Target` reproduces it.
"""

import dataclasses
import datetime
import decimal
import importlib

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


def text(rng, n):
    """Return labels that show a secret, as objects."""
    return objects([f"s3cr3t-{i}" for i in rng.integers(0, 9, n)])


def _some(value, of=marked):
    """Return values of which about a tenth are something else."""

    def draw(rng, n):
        found = of(rng, n).astype(float if isinstance(value, float) else object)
        for place in np.flatnonzero(rng.random(n) < 0.1):
            found[place] = value
        return found

    return draw


def _each(make):
    return lambda rng, n: objects([make(float(value)) for value in marked(rng, n)])


def _cycle(*labels):
    return lambda rng, n: objects([labels[i % len(labels)] for i in range(n)])


def _codes(n_classes):
    return lambda rng, n: np.arange(n) % n_classes


#: Columns by kind: functions of a generator and a number of rows.
COLUMNS = {
    "unit": marked,
    "wide": lambda rng, n: 1e4 * marked(rng, n) * rng.choice([-1, 1], n),
    "huge": lambda rng, n: 1e307 * marked(rng, n) * rng.choice([-1, 1], n),
    "0/1": lambda rng, n: rng.integers(0, 2, n),
    "int": lambda rng, n: FIRST + rng.integers(0, 99, n),
    "bool": lambda rng, n: rng.random(n) < 0.5,
    "float32": lambda rng, n: marked(rng, n).astype(np.float32),
    "uint8": lambda rng, n: rng.integers(0, 255, n).astype(np.uint8),
    "complex": lambda rng, n: marked(rng, n) * 1j,
    "date": lambda rng, n: DAY + rng.integers(0, 30, n),
    "text": text,
    "bytes": lambda rng, n: text(rng, n).astype("S"),
    "colours": lambda rng, n: _COLOURS[rng.integers(0, 3, n)],
    "objects": _each(float),
    "digits": _each(str),
    "decimals": _each(lambda v: decimal.Decimal(repr(v))),
    "lists": _each(lambda v: [v]),
    "opaque": _each(lambda v: Opaque()),
    "days": _each(lambda v: datetime.date(2173, 5, 1 + int(v * 30))),
    "some nan": _some(np.nan),
    "some inf": _some(np.inf),
    "some None": _some(None),
    "some text": _some("s3cr3t-1"),
    "some long": _some(735194 * 10**400),
    "all nan": lambda rng, n: np.full(n, np.nan),
}
#: Columns that only pandas has: their kind, and the type that it becomes.
PANDAS_COLUMNS = {
    "category": ("colours", "category"),
    "Int64": ("int", "Int64"),
    "Float64": ("some nan", "Float64"),
    "boolean": ("bool", "boolean"),
    "string": ("text", "string"),
}


def _array(columns):
    if not columns:
        return np.empty((0, 0))
    kinds = {np.asarray(column).dtype.kind for column in columns}
    plain = kinds <= set("biufc") or len(kinds) == 1
    dtype = np.result_type(*columns) if plain else object
    found = np.empty((len(columns[0]), len(columns)), dtype)
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


def _sparse(kind, index=np.int32):
    def make(columns):
        dense = _numbers(columns)
        dense = np.where(dense < np.median(dense), dense, 0) if dense.size else dense
        found = getattr(sp, kind)(dense)
        if kind == "csr_array":
            found.indices = found.indices.astype(index)
            found.indptr = found.indptr.astype(index)
        return found

    return make


def _repeated(columns, beyond=0):
    """Return rows that store an entry twice, out of order, and zeros."""
    dense = _numbers(columns)
    n, d = dense.shape
    found = sp.csr_array((n, d))
    if d:
        found.data = np.repeat(dense[:, -1], 3)
        found.data[::3] = 0.0
        found.indices = np.tile(np.array([d - 1, 0, 0], np.int32), n) + beyond * d
        found.indptr = (3 * np.arange(n + 1)).astype(np.int32)
    return found


#: Tables without names, by form: functions of a list of columns.
FORMS = {
    "array": _array,
    "strided": _strided,
    "big-endian": lambda columns: _numbers(columns).astype(">f8"),
    "matrix": lambda columns: _numbers(columns).view(np.matrix),
    "masked": lambda columns: np.ma.masked_greater(_numbers(columns), 0.5),
    "float32 array": lambda columns: _numbers(columns).astype(np.float32),
    "objects array": lambda columns: _array(columns).astype(object),
    "lists": lambda columns: _array(columns).tolist(),
    "ragged": lambda columns: [*_array(columns).tolist()[1:], [0.73519412]],
    "csr_array": _sparse("csr_array"),
    "csr int64": _sparse("csr_array", np.int64),
    "csr_matrix": _sparse("csr_matrix"),
    "csc_array": _sparse("csc_array"),
    "csr repeated": _repeated,
    "csr with column numbers outside": lambda columns: _repeated(columns, beyond=1),
    "1-d": lambda columns: columns[0] if columns else np.empty(0),
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
    "mixed": lambda n: [f"c{j}" if j % 2 else j for j in range(n)],
    "repeated": lambda n: ["c0"] * n,
    "digits": lambda n: [str(n - 1 - j) for j in range(n)],
    "None": lambda n: [None, *(f"c{j}" for j in range(1, n))][:n],
    "all": lambda n: ["all", *(f"c{j}" for j in range(1, n))][:n],
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
            columns = [
                COLUMNS[PANDAS_COLUMNS.get(kind, (kind,))[0]](
                    np.random.default_rng((self.seed, place)), self.n_rows
                )
                for place, kind in enumerate(self.kinds)
            ]
            if self.form in FRAMES:
                return self._framed(columns)
            return FORMS[self.form](columns)

    def _framed(self, columns):
        pandas = importlib.import_module("pandas")
        found = []
        for kind, values in zip(self.kinds, columns, strict=True):
            column = pandas.Series(values)
            _, dtype = PANDAS_COLUMNS.get(kind, (kind, None))
            found.append(column if dtype is None else column.astype(dtype))
        names = NAMES[self.names](len(found))
        if self.form == "series":
            return found[0] if found else pandas.Series(dtype=float)
        if self.form == "frame":
            frame = pandas.concat(found, axis=1) if found else pandas.DataFrame()
            frame.columns = pandas.Index(names)
            return frame
        unlike = [str(name) for name in dict.fromkeys(names)]
        return _other_frame(self.form, dict(zip(unlike, found, strict=False)))


def _other_frame(form, columns):
    """Return a frame of another library; what it cannot hold becomes text."""
    polars = form == "polars"
    library = importlib.import_module("polars" if polars else "pyarrow")
    make, found = library.Series if polars else library.array, {}
    for name, column in columns.items():
        values = column.tolist()
        try:
            found[name] = make(values=values) if polars else make(values)
        except Exception:  # each library has exceptions of its own
            found[name] = [str(value) for value in values]
    return library.DataFrame(found) if polars else library.table(found)


_LETTERS = _cycle("a", "b")
#: Targets by kind: functions of a generator and a number of rows.
TARGETS = {
    "0/1": _codes(2),
    "three": _codes(3),
    "one class": _codes(1),
    "each its own": lambda rng, n: FIRST + np.arange(n),
    "letters": _LETTERS,
    "secret labels": text,
    "bool": lambda rng, n: np.arange(n) % 2 == 0,
    "numbers": marked,
    "huge": lambda rng, n: 1e307 * marked(rng, n),
    "counts": lambda rng, n: rng.poisson(3, n),
    "complex": lambda rng, n: marked(rng, n) * 1j,
    "dates": lambda rng, n: DAY + rng.integers(0, 2, n),
    "mixed": _cycle("s3cr3t-1", 1, 0.5),
    "some nan": _some(np.nan, _codes(2)),
    "some None": _some(None, _codes(2)),
    "some secret": _some("s3cr3t-1", _LETTERS),
    "some long": _some(735194 * 10**400),
    "letters and None": _some(None, _LETTERS),
    "unhashable": _cycle([1], [0]),
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
HOLDERS = ("array", "series", "named", "category", "Int64", "polars", "frame")


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
    series = pandas.Series(y, name="target" if holder in ("named", "frame") else None)
    if holder == "frame":
        return series.to_frame()
    return series.astype(holder) if holder in ("category", "Int64") else series
