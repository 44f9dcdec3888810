"""Strategies of values, tables and targets; private values can be recognised.

A message that quotes one gives itself away: `SECRETS` in ``fuzz_rule.py`` says by what.
"""

import datetime
import decimal
import fractions
import inspect
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse as sp
from hypothesis import strategies as st
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.preprocessing import StandardScaler

from skfdp import PrivacyLedger, TableSchema, solvers
from skfdp.privacy import AddOrRemoveOne
from skfdp.schema import Boolean, Category, Date, Ignore, Label, Number, Unknown


def one_of(*values):
    """Return a strategy of values, some of which are strategies."""
    drawn = [one for one in values if isinstance(one, st.SearchStrategy)]
    plain = [one for one in values if not isinstance(one, st.SearchStrategy)]
    return st.one_of(*[st.sampled_from(plain)] * bool(plain), *drawn)


def often(usual, rest, times=6):
    """Return a strategy of usual values, and less often of others."""
    return st.sampled_from([usual] * times + [rest]).flatmap(lambda one: one)


# -- values of parameters --------------------------------------------------------------
# No drawn number has so many digits that it could show a secret.
NUMBERS = st.floats(width=16) | st.integers(-2, 3)
#: Values of which a parameter takes a few at most.
ODD = one_of(
    *(None, True, False, "auto", "x", "\x00", "é" * 300, b"a", 10**30, 10**400, 1e300),
    *(1e-300, 1j, np.float32(0.5), np.longdouble(1), np.uint8(3), np.str_("auto")),
    *(np.array(1.0), np.array([1.0, 2.0]), np.array([]), np.array("auto"), pd.NA),
    *(np.datetime64("2020-01-01"), np.ma.masked, fractions.Fraction(1, 2), Ellipsis),
    *(decimal.Decimal("0.5"), datetime.date(2020, 1, 1), pd.Series([1.0, 2.0])),
    *(pd.DataFrame({"c0": [1.0], "c1": [2.0]}), range(2), lambda *a, **k: 1, [[]]),
    *(NUMBERS, st.text(max_size=3), st.lists(NUMBERS, max_size=2), st.builds(object)),
    *(st.just(["c0"]), st.dictionaries(NUMBERS, NUMBERS), st.tuples(NUMBERS, NUMBERS)),
    st.builds(iter, st.just([0, 1])),
)
PAIRS = one_of(
    *((0, 1), (-1, 2), (np.zeros(3), np.ones(3)), ([0, 0], [1, 1]), {0: (0, 1)}),
    *({"c0": (0, 1), "c1": (-5, 5), "c2": (0, 10)}, {0: (0, 1), "c0": (0, 1)}),
    *({9: (0, 1)}, {0: (1, 0)}, {(0, 1): (0, 1)}, (math.nan, 1), (0, 5e-324)),
    *((-1e308, 1e308), (1e17, 1e17 + 2), ("a", "b"), (None, None)),
    *(pd.Series([(0, 1)], index=["c0"]), pd.DataFrame({"c0": [0, 1]})),
)
TWO, UNIT = Label([0, 1]), {"c0": Number(0, 1), "c1": Number(0, 1, public=True)}
DATED = {"c0": Category(["red", "green"]), "c1": Date("2173-05-01", "2173-06-01")}
DECLARED = (
    *(UNIT | {"target": TWO}, UNIT | {"target": Number(0, 1)}),
    DATED | {"target": Label(["a", "b"], public=True)},
    {"c1": Boolean(), "c2": Ignore(), "target": Boolean()},
)
GROUPED = {"outcomes": "target", "group": "c1", "max_rows_per_group": 2}


@st.composite
def arguments(draw, names, usual, known=None, most=3):
    """Draw arguments, at most so many of which are not the usual ones."""
    found = {name: one for name, one in usual.items() if name in names}
    for name in draw(st.lists(st.sampled_from(names), max_size=most)):
        found[name] = draw(often((known or VALUES).get(name, ODD), ODD, 4))
    return found


def names_of(call):
    """Return the names of the parameters of a call."""
    return list(inspect.signature(call).parameters)


def built(*kinds):
    """Return a strategy of algorithms, one parameter of which is unusual."""
    found = (
        arguments(names_of(kind), {"max_iter": 2}, most=1).map(
            lambda given, kind=kind: kind(**given)
        )
        for kind in kinds
    )
    return st.one_of(*found)


def ledgers(**given):
    """Return a strategy of new ledgers."""
    return st.builds(lambda: PrivacyLedger(**given))


#: Values of parameters by name, most of them in range. Of other ones there are `ODD`.
VALUES = {
    "bounds": one_of("private", "privat", PAIRS),
    "target_bounds": PAIRS,
    "public_features": one_of(
        *(None, "all", "c0", "c*", "[", ["c0", "c0"], ["nobody"], [0], [0, 1], [-1]),
        *([9], np.array(0), [True, False], [True, 1, "c0"], np.ones((3, 1), bool)),
        *(pd.Series([True, False], index=["c0", "c1"]), pd.Index(["c0"]), slice(None)),
        *(slice(0, 2, 0), slice(None, 10**30), frozenset({"c0"}), lambda X: [0]),
    ),
    "ledger": one_of(
        *(None, 3, ledgers(), ledgers(public=["a"])),
        *(ledgers(epsilon=epsilon, delta=1e-5) for epsilon in (100.0, 1e-3)),
        ledgers(neighboring_relation="replace_one"),
    ),
    "epsilon": one_of(1.0, 8, 0.1, 1e-8, 1e8, math.inf),
    "delta": one_of(1e-5, 1e-3, 0.5, 1e-12, None),
    "schema": one_of(
        *(None, TableSchema, TableSchema({}), TableSchema({"c0": Unknown()})),
        TableSchema({"c0": Number(0, 1), "target": TWO}, **GROUPED),
        *(TableSchema(columns, outcomes="target") for columns in DECLARED),
    ),
    "target": one_of(None, "target", "c0", 7, ("a", "b")),
    "neighboring_relation": one_of(
        *("replace_one", "replace_special", "add_or_remove_one", "replace"),
        *(AddOrRemoveOne(30), AddOrRemoveOne(1)),
    ),
    "loss": one_of(
        *("log_loss", "hinge", "squared_hinge", "squared_error", "huber", "poisson"),
        st.deferred(lambda: built(solvers.Huber)),
    ),
    "public_model": one_of(
        *(None, "auto", LogisticRegression(), Ridge(), PoissonRegressor()),
        *(LogisticRegression().fit([[0.0], [1.0]], [0, 1]), DummyRegressor()),
        *(LogisticRegression, StandardScaler()),
    ),
    "class_weight": one_of(
        *(None, "balanced", {0: 1.0, 1: 2.0}, {"a": 1, "b": 0}, {0: 0, 1: 0}, {9: 1}),
        *({0: 1e300}, {0: math.nan}),
    ),
    "classes": one_of(
        *(None, [0, 1], [0, 1, 2], ["a", "b"], [1], [0, 0], ["a", 0], [None, "a"]),
        *("ab", [math.nan, 0.0], (True, False), {0, 1}, np.array([[0], [1]])),
        *(pd.Series([0, 1]), [0.5, 1.5], [1j, 2j], np.array(["2020"], dtype="M8[D]")),
        [b"a", b"b"],
    ),
    "hidden_layer_sizes": one_of((4,), (3, 2), (0,), 4, [4], (2.5,), ("a",)),
    "metrics": one_of(
        *(None, "accuracy", ("roc_auc", "log_loss"), "mean_squared_error", "nobody", 7),
        *(["accuracy", 7], "confusion_matrix"),
    ),
}
VALUES |= {
    "solver": one_of(
        *("auto", "noisy-gd", "noisy-sgd", "feature-dp-sgd", "one-shot", "newton"),
        *(built(solvers.NoisyGradientDescent, solvers.NoisySGD, solvers.OneShot),),
        built(solvers.FeatureDPSGD),
    ),
    "centering": one_of(
        *("auto", "gaussian", "adaptive", "exact"),
        built(solvers.GaussianCentering, solvers.AdaptiveCentering),
    ),
    "backend": one_of("numpy", "torch", built(solvers.NumpyBackend)),
    "pretraining": one_of(
        *("auto", None, "public", "class_sums", "linear", built(solvers.Pretraining))
    ),
}
#: Parameters of small fits that should work, of whatever estimator has them.
SMALL = {
    **{"bounds": (0, 1), "target_bounds": (0, 1), "hidden_layer_sizes": (4,)},
    "solver": solvers.NoisyGradientDescent(max_iter=2),
}

# -- tables and targets ----------------------------------------------------------------
FIRST, DAY = 73519400, np.datetime64("2173-05-01")


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


def marked(n):
    """Return numbers in (0, 1) whose digits begin with a secret."""
    places = np.arange(n)
    return (0.735194 + (10 + 7 * places % 80) * 1e-8) / 10.0 ** (places % 3)


def objects(make, of=marked):
    """Return a column of objects that are made of numbers."""

    def column(n):
        found = np.empty(n, dtype=object)
        for place, value in enumerate(of(n).tolist()):
            found[place] = make(value)
        return found

    return column


def labels(*values):
    """Return a column of labels in turn."""
    return objects(lambda place: values[place % len(values)], np.arange)


def some(value, of=marked):
    """Return a column of which every tenth value is something else."""

    def column(n):
        found = of(n).astype(float if isinstance(value, float) else object)
        found[3::10] = value
        return found

    return column


#: Columns by kind: functions of a number of rows.
COLUMNS = {
    "unit": marked,
    "wide": lambda n: 1e4 * marked(n) * (-1.0) ** np.arange(n),
    "huge": lambda n: 1e307 * marked(n) * (-1.0) ** np.arange(n),
    "int": lambda n: FIRST + np.arange(n),
    "float32": lambda n: marked(n).astype(np.float32),
    "uint8": lambda n: np.arange(n).astype(np.uint8),
    "complex": lambda n: marked(n) * 1j,
    "date": lambda n: DAY + np.arange(n) % 30,
    "text": labels(*(f"s3cr3t-{k}" for k in range(9))),
    "bytes": lambda n: labels("s3cr3t-1", "s3cr3t-2")(n).astype("S"),
    "colours": labels("red", "green", "blue"),
    "mixed": labels("s3cr3t-1", 1, 0.5),
    "objects": objects(float),
    "digits": objects(str),
    "decimals": objects(lambda v: decimal.Decimal(repr(v))),
    "lists": objects(lambda v: [v]),
    "opaque": objects(lambda v: Opaque()),
    "days": objects(lambda v: datetime.date(2173, 5, 1 + int(v * 30))),
    "some nan": some(math.nan),
    "some inf": some(math.inf),
    "some None": some(None),
    "some text": some("s3cr3t-1"),
    "some long": some(735194 * 10**400),
    "all nan": lambda n: np.full(n, np.nan),
}
#: Columns of a few values, which labels may be.
FEW = {
    "0/1": lambda n: np.arange(n) % 2,
    "three": lambda n: np.arange(n) % 3,
    "letters": labels("a", "b"),
    "bool": lambda n: np.arange(n) % 5 < 2,
    "counts": lambda n: np.arange(n) % 7,
}
EVERY = FEW | COLUMNS
#: Types of pandas, of which columns become where they can.
TYPES = (*[None] * 4, "category", "Int64", "Float64", "boolean", "string")


def held(columns):
    """Return an array of columns."""
    if not columns:
        return np.empty((0, 0))
    kinds = {column.dtype.kind for column in columns}
    plain = kinds <= set("biufc") or len(kinds) == 1
    dtype = np.result_type(*columns) if plain else object
    found = np.empty((len(columns[0]), len(columns)), dtype)
    for place, column in enumerate(columns):
        found[:, place] = column
    return found


def numbers(columns):
    """Return an array of numbers, for forms that hold nothing else."""
    found = held(columns)
    if found.dtype.kind in "biuf":
        return found.astype(np.float64)
    return marked(found.size).reshape(found.shape)


def repeated(columns, beyond=0, index=np.int32):
    """Return CSR rows that store an entry twice, out of order, and zeros."""
    dense = numbers(columns)
    n, d = dense.shape
    found = sp.csr_array((n, d))
    if d:
        found.data = np.repeat(dense[:, -1], 3)
        found.data[::3] = 0.0
        found.indices = np.tile(np.array([d - 1, 0, 0], index), n) + beyond * d
        found.indptr = (3 * np.arange(n + 1)).astype(index)
    return found


#: Tables without names.
FORMS = (
    *(held, lambda c: sp.csr_array(numbers(c)), lambda c: sp.csr_matrix(numbers(c))),
    lambda c: np.repeat(np.repeat(held(c), 2, 0), 2, 1)[::2, ::-2],
    *(lambda c: numbers(c).astype(">f8"), lambda c: numbers(c).view(np.matrix)),
    lambda c: np.ma.masked_greater(numbers(c), 0.5),
    *(lambda c: numbers(c).astype(np.float32), lambda c: held(c).astype(object)),
    *(lambda c: held(c).tolist(), lambda c: [*held(c).tolist()[1:], [0.73519412]]),
    *(lambda c: sp.csc_array(numbers(c)), lambda c: repeated(c, index=np.int64)),
    *(repeated, lambda c: repeated(c, beyond=1), lambda c: held(c)[:, :, None]),
    *(lambda c: c[0] if c else np.empty(0), lambda c: None, lambda c: "s3cr3t-1"),
    *(lambda c: {f"c{j}": one for j, one in enumerate(c)}, lambda c: iter(held(c))),
)
#: Spellings of the name of column j of n.
NAMES = (
    *(lambda j, n: f"c{j}", lambda j, n: j, lambda j, n: f"c{j}" if j % 2 else j),
    *(lambda j, n: "c0", lambda j, n: str(n - 1 - j)),
    *(lambda j, n: f"c{j}" if j else None, lambda j, n: f"c{j}" if j else "all"),
)


def tried(make, value, otherwise):
    """Return what a library makes of a value, or something else if it fails."""
    try:
        return make(value)
    except Exception:  # each library has exceptions of its own
        return otherwise()


@st.composite
def frames(draw, columns):
    """Draw frames; columns that a library cannot hold become text."""
    found, spelled = [], draw(often(st.just(NAMES[0]), st.sampled_from(NAMES)))
    for column in map(pd.Series, columns):
        dtype = draw(st.sampled_from(TYPES))
        found.append(
            tried(
                lambda c, t=dtype: c.astype(t) if t else c, column, lambda c=column: c
            )
        )
    names = [spelled(j, len(found)) for j in range(len(found))]
    library = draw(st.sampled_from((pd, pd, pl, pa)))
    if library is pd:
        frame = pd.concat(found, axis=1) if found else pd.DataFrame()
        return frame.set_axis(names, axis=1)
    make = pa.array if library is pa else lambda values: pl.Series(values=values)
    converted = {
        str(name): tried(make, one.tolist(), lambda one=one: make([*map(str, one)]))
        for name, one in zip(names, found, strict=True)
    }
    return pa.table(converted) if library is pa else pl.DataFrame(converted)


@st.composite
def tables(draw, n_rows):
    """Draw tables with so many rows."""
    usual = one_of("unit", "0/1", "float32", "some nan", "wide", "int", "objects")
    kind = often(usual, st.sampled_from([*EVERY]))
    size = draw(often(st.just(3), st.integers(0, 4)))
    with np.errstate(all="ignore"):  # of numbers that a small type cannot hold
        columns = [EVERY[draw(kind)](n_rows) for _ in range(size)]
        if draw(st.booleans()):
            return draw(frames(columns))
        return draw(often(one_of(*FORMS[:3]), one_of(*FORMS), 3))(columns)


#: Targets of other shapes than a column.
SHAPES = (
    *(lambda n: (np.arange(n) % 2)[:, None], lambda n: np.c_[marked(n), marked(n)]),
    *(lambda n: np.arange(n + 1) % 2, lambda n: 0.73519412, lambda n: None),
    *(lambda n: "s3cr3t-1", lambda n: sp.csr_array((np.arange(n) % 2)[:, None])),
)
#: Columns of targets in other forms.
HOLDERS = (
    *(np.asarray, pd.Series, lambda y: pd.Series(y, name="target")),
    *(lambda y: pd.Series(y).astype("category"), lambda y: pl.Series("target", [*y])),
    *(lambda y: pd.Series(y).astype("Int64"), lambda y: pd.DataFrame({"target": y})),
)


@st.composite
def targets(draw, n_rows):
    """Draw targets; what a holder cannot hold stays an array."""
    few = [
        *FEW.values(),
        *(some(one, FEW["0/1"]) for one in (math.nan, None, "s3cr3t-1")),
    ]
    usual, rest = one_of(*few, marked), one_of(*EVERY.values())
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(SHAPES))(n_rows)
    y = draw(often(usual, rest))(n_rows)
    hold = draw(often(one_of(*HOLDERS[:3]), one_of(*HOLDERS)))
    return tried(hold, y, lambda: y)
