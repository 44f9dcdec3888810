"""A1, A3, A3b, A5, A10: one odd cell changes the integers of no other row.

A table is stored with and without an odd cell in its first row. Each library then picks
the types of the columns, and the odd cell may change them. All other rows must give the
same integers. A table may be refused only for its stored types: then it is refused
without the odd row, too.
"""

import functools
import io
import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skfdp import (
    DeclaredEncoder,
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPMLPClassifier,
    FeatureDPRegressor,
    PrivateCenteringTransformer,
    TableSchema,
    open_table,
    private_score,
)
from skfdp.bounds import PrivateBoundsRelease
from skfdp.data.grid import GridRows
from skfdp.queries.statistics import Binades
from skfdp.schema import Boolean, Category, Date, Label, Number
from skfdp.solvers.score import Layout

sys.path.insert(0, str(Path(__file__).parents[1] / "contributing"))
from ordinal import Ordinal

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
dd = pytest.importorskip("dask.dataframe")
pytestmark = pytest.mark.extra("dask")

A, B = 999000011000000103, 999000041000000102  # different floats, beyond 2**53
N = 10
#: The cells of each column. The first row gets the odd cell.
TABLE = {
    "income": [0.1, 0.6, None, 0.3, math.inf, 0.7, 0.2, 0.5, 0.4, 0.1],
    "visits": [1, 0, 2, 1, 1, 2, 0, 1, 2, 1],
    "code": [A, B] * 5,
    "ward": [7, 8, 12, 9, 7, 8, 8, 7, 12, 9],
    "drug": ["a", "b", "1", "c", "a", "b", "1", "a", "b", "c"],
    "pain": ["none", "1", "mild", "1", "none"] * 2,
    "smoker": [True, False, False, True, True] * 2,
    "seen": [20240701, 20230115, 20240229, 20231231, 20240101] * 2,
    "ill": [A, B, B, A, A] * 2,
    "flag": [True, False, True, True, False] * 2,
    "cost": [3.5, 1.2, 0.7, 2.1, 3.3, 4.0, 0.0, 1.0, 2.0, 3.0],
}
COLUMNS = {
    "income": Number(0, 0.7),
    "visits": Number(0, 2, basis="linear"),
    "code": Category([A, B]),
    "ward": Category(["7", "8", "9"]),
    "drug": Category(["a", "b", 1]),
    "pain": Ordinal(["none", "mild", 1]),
    "smoker": Boolean(),
    "seen": Date("2023-01-01", "2024-12-31", format="%Y%m%d", knots=4),
    "ill": Label([A, B]),
    "flag": Label([0, 1]),
    "cost": Number(0, 4),
}
SCHEMA = TableSchema(COLUMNS, outcomes=["ill", "flag", "cost"])
ODD = {
    "missing": None,
    "fraction": 2.5,
    "text": "x",
    "complex": 2j,
    "2**70": 2**70,
    "infinity": math.inf,
    "boolean": True,
}


# -- storages: a dict of columns becomes a table, whose types the library picks --------
def inferred(columns):
    return pd.DataFrame({name: pd.Series(cells) for name, cells in columns.items()})


def downcast(columns):
    """Return small types, as of sensors and of Parquet files."""
    small = {"income": np.float32, "cost": np.float32, "visits": np.int16}
    rounded = {
        name: [np.float32(c).item() if type(c) is float else c for c in columns[name]]
        for name in small.keys() & columns.keys()
    }
    frame = inferred(columns | rounded)
    for name in small.keys() & frame.columns:
        if frame[name].dtype in (np.int64, np.float64):
            whole = small[name] is np.int16 and frame[name].dtype == np.int64
            frame[name] = frame[name].astype(np.int16 if whole else np.float32)
    return frame


def from_csv(columns):
    texts = {n: ["" if c is None else c for c in cells] for n, cells in columns.items()}
    csv = pd.DataFrame(texts, dtype=object).to_csv(index=False)
    return pd.read_csv(io.StringIO(csv))


def of_polars(columns):
    found = {}
    for name, cells in columns.items():
        try:
            found[name] = pl.Series(name, cells, strict=False)
        except (TypeError, pl.exceptions.PolarsError):
            found[name] = pl.Series(name, cells, dtype=pl.Object)
    return pl.DataFrame(found)


def of_numpy(columns):
    """Return a frame whose columns have the types that NumPy picks."""
    return pd.DataFrame({name: np.array(cells) for name, cells in columns.items()})


def arrow_of(columns):
    """Return an Arrow table; columns that Arrow refuses become text."""
    found = {}
    for name, cells in columns.items():
        try:
            found[name] = pa.array(pd.Series(cells), from_pandas=True)
        except (pa.ArrowException, OverflowError):
            texts = [None if cell is None else str(cell) for cell in cells]
            found[name] = pa.array(texts, pa.string())
    return pa.table(found)


STORES = {
    "pandas, inferred": inferred,
    "pandas, objects": lambda columns: pd.DataFrame(columns, dtype=object),
    "pandas, nullable": lambda columns: inferred(columns).convert_dtypes(),
    "pandas, Arrow": lambda columns: inferred(columns).convert_dtypes(
        dtype_backend="pyarrow"
    ),
    "pandas, small types": downcast,
    "pandas, CSV": from_csv,
    "polars": of_polars,
    "NumPy": of_numpy,
    "Arrow": arrow_of,
    "Parquet folder": arrow_of,
    "Dask": lambda columns: dd.from_pandas(inferred(columns), npartitions=3),
}


def without_first(table):
    """Return the table without its first row, with the same stored types."""
    if hasattr(table, "npartitions"):
        return dd.from_pandas(table.compute().iloc[1:], npartitions=3)
    return table.iloc[1:] if hasattr(table, "iloc") else table[1:]


# -- estimators: what they make of each row, in integers -------------------------------
def of_records(records):
    rows = GridRows.build(records.X, records.public.input_scaler.mapped).values
    return _beside(rows, records)


def bins_of(records):
    values = np.asarray(records.X, dtype=np.float64)
    return _beside(Binades().bins(values, np.arange(values.shape[1])), records)


def _beside(rows, records):
    null, target = records.is_null, records.target
    null = np.zeros(len(rows), bool) if null is None else null
    target = np.zeros(len(rows)) if target is None else target
    return np.column_stack([rows, null, target])


def read_by(model, X, y=None, read=of_records):
    """Return the integers of each row that a fit of a model reads."""

    def use(records):
        if hasattr(records, "partitions"):
            return np.concatenate(records.partitions.ask(records.name, read))
        return read(records)

    return model._on_records(use, X, y)


def scored_by(outcome):
    """Return a function: the row of each record in the table of a private score."""

    def read(X, y):
        seen, found = [], Layout.table

        def table(*arguments):
            seen.append(found(*arguments))
            return seen[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Layout, "table", table)
            private_score(
                fitted(outcome), X, y, 8.0, 1e-5, target=outcome, random_state=0
            )
        return np.column_stack([np.asarray(part) for part in seen[0]])

    return read


NUMBERS = {"income": (0, 0.7), "visits": (0, 2)}
BOTH = [(0, 0), (0.7, 2)]  # the same bounds for columns without names


def bounds_of(X):
    names = getattr(X, "column_names", getattr(X, "columns", None))
    return BOTH if names is None else NUMBERS


def numeric(kind, **parameters):
    """Return a function that reads the columns of numbers by a model with bounds."""

    def read(X, y=None):
        model = kind(bounds=bounds_of(X), **parameters)
        return read_by(model, X, y)

    return read


@functools.cache
def fitted(outcome):
    """Return a model of a table without odd cells; None: of a model with bounds."""
    table = inferred({name: 3 * cells for name, cells in TABLE.items()})
    if outcome is None:
        model = DPSGDFClassifier(8.0, bounds=NUMBERS, random_state=0, **CODES)
        return model.fit(table[TWO], table["ill"])
    kind = FeatureDPRegressor if outcome == "cost" else FeatureDPLogisticRegression
    model = kind(8.0, schema=SCHEMA, target=outcome, random_state=0)
    return model.fit(table, table[outcome])


def by_schema(kind, outcome):
    def read(X, y):
        return read_by(kind(schema=SCHEMA, target=outcome), X, y)

    return read


def encoded(X):
    return np.rint(DeclaredEncoder(SCHEMA).fit_transform(X) * 2**14)


EVERY, TWO = tuple(TABLE)[:8], [*NUMBERS]
LOGISTIC, SGD = FeatureDPLogisticRegression, DPSGDFClassifier
MLP, CENTRING = FeatureDPMLPClassifier, PrivateCenteringTransformer
CODES, FLAGS = {"classes": [A, B]}, {"classes": [0, 1]}
#: The columns of X that get odd cells, the outcome (gets them, too), and the reader.
SCHEMA_MODELS = {
    "encoder": (EVERY, None, encoded),
    "logistic, schema": (EVERY, "ill", by_schema(LOGISTIC, "ill")),
    "DPSGD-F, schema": (["smoker"], "flag", by_schema(SGD, "flag")),
    "regressor, schema": (["income"], "cost", by_schema(FeatureDPRegressor, "cost")),
    "network, schema": (["ward"], "ill", by_schema(MLP, "ill")),
    "score, schema": (["code"], "ill", scored_by("ill")),
    "score of a regressor, schema": (["seen"], "cost", scored_by("cost")),
}
READ_BOUNDS = functools.partial(read_by, PrivateBoundsRelease(), read=bins_of)
ESTIMATORS = SCHEMA_MODELS | {
    "DPSGD-F": (TWO, "ill", numeric(SGD, **CODES)),
    "logistic": (TWO, "flag", numeric(LOGISTIC, **FLAGS)),
    "network": (TWO, "ill", numeric(MLP, **CODES)),
    "regressor": (TWO, "cost", numeric(DPSGDFRegressor, target_bounds=(0, 4))),
    "centring": (TWO, None, numeric(CENTRING)),
    "private bounds": (TWO, None, READ_BOUNDS),
    "score": (TWO, "ill", scored_by(None)),
}
#: Estimators that do not take such tables.
NOT_TAKEN = {
    "Parquet folder": {*SCHEMA_MODELS},
    "Dask": {"encoder", "network", "network, schema", "centring", "private bounds"},
}
NOT_TAKEN["Dask"] |= {name for name in ESTIMATORS if "score" in name}
CASES = [
    (store, name)
    for store, name in itertools.product(STORES, ESTIMATORS)
    if name not in NOT_TAKEN.get(store, ())
]


def in_folder(columns, folder, first=0):
    """Write two files, each with the types of its own rows, and open the folder."""
    folder.mkdir()
    half = N // 2
    for number, rows in enumerate((slice(0, half), slice(half, N))):
        part = arrow_of({name: cells[rows] for name, cells in columns.items()})
        part = part.slice(first * (number == 0))
        parquet.write_table(part, folder / f"part{number}.parquet")
    return open_table(folder)


def integers(store, name, columns, folder, first=0):
    """Return the integers of the rows from `first` on, or the words of a refusal."""
    features, outcome, read = ESTIMATORS[name]
    features = EVERY if name in SCHEMA_MODELS else features
    if store == "Parquet folder":
        table = in_folder(columns, folder, first)
        X = table[:, [one in features for one in table.names]]
    else:
        table = STORES[store](columns)
        table = without_first(table) if first else table
        X = table.select(features) if hasattr(table, "schema") else table[[*features]]
        if store == "NumPy" and name not in SCHEMA_MODELS:
            X = np.array([*zip(*(table[one] for one in features), strict=True)])
    y = None if outcome is None else table[outcome]
    y = y.combine_chunks() if hasattr(y, "combine_chunks") else y
    try:
        return read(X) if outcome is None else read(X, y)
    except (ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("store", "name"), CASES)
def test_a1_a3_a_cell_changes_no_other_row(store, name, tmp_path):
    expected = integers(store, name, TABLE, tmp_path / "sound")
    assert not isinstance(expected, str), expected
    features, outcome, _ = ESTIMATORS[name]
    every = *features, *([] if outcome is None else [outcome])
    moved = []
    for number, (odd, one) in enumerate(itertools.product(ODD, every)):
        columns = {**TABLE, one: [ODD[odd], *TABLE[one][1:]]}
        found = integers(store, name, columns, tmp_path / f"{number}")
        if isinstance(found, str):  # for the stored type alone
            without = integers(store, name, columns, tmp_path / f"{number}.1", 1)
            same = isinstance(without, str) and without == found
        else:
            same = np.array_equal(found[1:], expected[1:])
        if not same:
            moved.append((odd, one, found if isinstance(found, str) else "moved"))
    assert not moved
