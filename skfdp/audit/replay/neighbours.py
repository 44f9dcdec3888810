"""Neighbours of a table: the private part of one record, or person, is another one."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse, vstack

#: What finite numbers become, by name: (generator, column of numbers) -> number.
FINITE: dict[str, Callable[[np.random.Generator, np.ndarray], float]] = {
    "another record's values": lambda rng, column: rng.choice(column),
    "values drawn anew": lambda rng, column: rng.uniform(column.min(), column.max()),
    "values far away": lambda rng, column: rng.uniform(-1e6, 1e6),
    "zeros": lambda rng, column: 0.0,
    "the largest values": lambda rng, column: column.max(),
    "the smallest values": lambda rng, column: column.min(),
    "1e308": lambda rng, column: 1e308,
    "-1e308": lambda rng, column: -1e308,
    "1e308 of either sign": lambda rng, column: rng.choice([-1e308, 1e308]),
    "5e-324": lambda rng, column: 5e-324,
    "the largest float32": lambda rng, column: float(np.finfo(np.float32).max),
}
MALFORMED: dict[str, Callable[[np.random.Generator, np.ndarray], float]] = {
    "NaN": lambda rng, column: np.nan,
    "infinity": lambda rng, column: np.inf,
    "-infinity": lambda rng, column: -np.inf,
    "NaN, infinity and numbers": lambda rng, column: rng.choice(
        [np.nan, np.inf, -np.inf, 0.5, 1e308]
    ),
}
# Chance that some rows of a person alone differ, where it has several.
_IN_PART = 0.3
#: Kinds that stay among the values that occur.
_KNOWN = ("another record's values", "values drawn anew")
#: What a cell that is no number becomes, one after the other, and one of text.
_TEXTS = (None, "no such category", "")
_NO_NUMBERS = (None, float("nan"), "no such category", "", -7, 1e308, b"\xff", (1,))
#: The same for labels of objects.
_NO_LABELS = (None, float("nan"), "no such label", 7, -1, [1])


@dataclasses.dataclass(frozen=True)
class Split:
    """The private part of a table, and what it may become.

    Attributes
    ----------
    private : bool ndarray of shape (n_features,)
    target : {"labels", "numbers", None}
        None: it is public, or there is none.
    declared : bool
        Whether labels may be any value; else they are among those that occur.
    malformed : bool
        Whether values may be missing or infinite.
    whole : bool
        Whether records come and go: then the last one is the one that differs, and
        the table that others are compared with lacks it.
    persons : int64 ndarray of shape (n_rows,) or None
        The person of each row, where all rows of one differ together.
    """

    private: np.ndarray
    target: str | None
    declared: bool
    malformed: bool
    whole: bool
    persons: np.ndarray | None = None

    def drawn(self, rng: np.random.Generator, n_rows: int) -> Changed:
        """Return whose rows differ: those of a person in part, now and then."""
        if self.persons is None:
            last = n_rows - 1
            record = last if self.whole else int(rng.integers(n_rows))
            return Changed((record,), record, f"record {record}")
        person = int(rng.integers(self.persons.max() + 1))
        own = np.flatnonzero(self.persons == person)
        rows, told = own, "all rows"
        if len(own) > 1 and rng.random() < _IN_PART:
            size = int(rng.integers(1, len(own)))
            rows, told = np.sort(rng.choice(own, size, replace=False)), "some rows"
        return Changed(
            tuple(rows.tolist()), tuple(own.tolist()), f"{told} of person {person}"
        )


@dataclasses.dataclass(frozen=True)
class Changed:
    """Rows of one record or person that a neighbour changes.

    Attributes
    ----------
    rows : tuple of int
        Those that get other values.
    whose : int or tuple of int
        Position of the record; or of all rows of the person, changed or not.
    name : str
    """

    rows: tuple[int, ...]
    whose: int | tuple[int, ...]
    name: str


@dataclasses.dataclass(frozen=True)
class Neighbour:
    """A table that differs in the private part of one record, or of one person.

    Attributes
    ----------
    name : str
        What became of the record.
    X, y : array-like
    changed : int, tuple of int or None
        Position of the record that differs, or those of all rows of the person; None:
        it is not in the other table.
    """

    name: str
    X: Any
    y: Any
    changed: int | tuple[int, ...] | None


def neighbours(
    X: Any, y: Any, split: Split, rng: np.random.Generator, n_neighbours: int
) -> Iterator[Neighbour]:
    """Yield neighbours of a table, the same ones for the same generator.

    Parameters
    ----------
    X, y
        The table, with the last record where records come and go.
    split : Split
    rng : Generator
    n_neighbours : int
    """
    kinds = [*FINITE, *(MALFORMED if split.malformed else ())]
    parts = ["row"] * bool(split.private.any()) + ["target"] * bool(split.target)
    parts += ["row and target"] * (len(parts) == 2)
    known = list(itertools.product(kinds, parts))
    order = itertools.cycle(rng.permutation(len(known)))
    n_rows = n_records(X)
    for number in range(n_neighbours):
        kind, part = known[next(order)]
        changed = split.drawn(rng, n_rows)
        other, target = X, y
        for record in changed.rows:
            if "row" in part:
                other = _with_row(other, record, kind, number, split.private, rng)
            if "target" in part:
                target = _with_target(target, record, kind, number, split, rng)
        name = f"{kind} in the {part} of {changed.name}"
        yield Neighbour(name, other, target, changed.whose)


def n_records(X: Any) -> int:
    """Return the number of rows of a table."""
    return X.shape[0] if hasattr(X, "shape") else len(X)


def n_columns(X: Any) -> int:
    """Return the number of columns of a table."""
    return X.shape[1] if hasattr(X, "shape") else len(X[0])


def without_last(values: Any) -> Any:
    """Return rows, or a target, without the last one."""
    if values is None:
        return None
    return values.iloc[:-1] if hasattr(values, "iloc") else values[:-1]


# ------------------------------------------------------------------------------ rows
def _with_row(
    X: Any,
    record: int,
    kind: str,
    number: int,
    private: np.ndarray,
    rng: np.random.Generator,
) -> Any:
    """Return a table with other values in the private columns of a record."""
    columns = np.flatnonzero(private)
    if issparse(X):
        return _with_sparse_row(X, record, kind, columns, rng)
    if hasattr(X, "iloc"):
        found = X.copy()
        for j in columns:
            cell = _cell(X.iloc[:, j].to_numpy(), X.iloc[:, j], kind, number, rng)
            found.iloc[record, j] = cell
        return found
    if isinstance(X, np.ndarray):
        found = X.copy()
        for j in columns:
            found[record, j] = _cell(X[:, j], X[:, j], kind, number, rng)
        return found
    if not isinstance(X, list):
        raise ValueError(
            f"X is a {type(X).__name__}, of which no neighbours are made: pass an "
            "array, CSR, a list or a pandas frame, or give neighbours=."
        )
    row = list(X[record])
    for j in columns:
        column = [one[j] for one in X]
        row[j] = _cell(np.array(column, dtype=object), column, kind, number, rng)
    return [*X[:record], row, *X[record + 1 :]]


def _with_sparse_row(
    X: Any, record: int, kind: str, columns: np.ndarray, rng: np.random.Generator
) -> Any:
    X = X.tocsr()
    row = X[[record]].toarray()
    for j in columns:
        column = X[:, [j]].toarray()[:, 0]
        row[0, j] = _cell(column, column, kind, 0, rng)
    rows = [X[:record], csr_array(row), X[record + 1 :]]
    found = vstack([part for part in rows if part.shape[0]], format="csr")
    return type(X)(found.astype(X.dtype))


def _cell(
    values: np.ndarray, column: Any, kind: str, number: int, rng: np.random.Generator
) -> Any:
    """Return what a cell becomes, in the type of its column."""
    another, dtype = values[rng.integers(len(values))], getattr(column, "dtype", None)
    if dtype is not None and not isinstance(dtype, np.dtype):  # of pandas
        if str(dtype).startswith("str") and kind not in _KNOWN:
            return _TEXTS[number % len(_TEXTS)]
        return dtype.na_value if kind in MALFORMED else another
    if values.dtype.kind == "f":
        return _number(values, kind, rng)
    if values.dtype.kind in "iu":
        return _integer(values, kind, rng)
    if values.dtype.kind == "M" and kind in MALFORMED:
        return np.datetime64("NaT")
    if values.dtype.kind == "O" and kind not in _KNOWN:
        return _NO_NUMBERS[number % len(_NO_NUMBERS)]
    return another


def _integer(values: np.ndarray, kind: str, rng: np.random.Generator) -> Any:
    """Return an integer of the type of some others."""
    found = _number(values.astype(float), kind, rng)
    if np.isnan(found):  # which no integer is
        return rng.choice(values)
    # Not beyond the type: its limits are no floats.
    limits = np.iinfo(values.dtype)
    low, high = int(limits.min), int(limits.max)
    if found >= high or found <= low:
        return values.dtype.type(high if found >= high else low)
    return values.dtype.type(int(found))


def _number(values: np.ndarray, kind: str, rng: np.random.Generator) -> Any:
    """Return a number of the type of some others, which may not be finite."""
    finite = values[np.isfinite(values)]
    finite = finite.astype(np.float64) if len(finite) else np.zeros(1)
    found = float((FINITE | MALFORMED)[kind](rng, finite))
    if values.dtype.kind == "f" and np.isfinite(found):
        limit = float(np.finfo(values.dtype).max)
        found = min(max(found, -limit), limit)
    return found


# ---------------------------------------------------------------------------- target
def _with_target(
    y: Any,
    record: int,
    kind: str,
    number: int,
    split: Split,
    rng: np.random.Generator,
) -> Any:
    """Return a target with another value of a record, in the same container."""
    found = copy.copy(y) if isinstance(y, list) else y.copy()
    values = np.array(y, dtype=object) if isinstance(y, list) else np.asarray(y)
    if values.ndim != 1:
        found[record] = values[rng.integers(len(values))]
        return found
    value = _target(values, record, kind, number, split, rng)
    if hasattr(found, "iloc"):
        found.iloc[record] = value
    else:
        found[record] = value
    return found


def _target(
    values: np.ndarray,
    record: int,
    kind: str,
    number: int,
    split: Split,
    rng: np.random.Generator,
) -> Any:
    if split.target == "numbers":
        return _cell(values, values, kind, number, rng)
    if split.declared and split.malformed and kind not in _KNOWN:
        return {
            "O": _NO_LABELS[number % len(_NO_LABELS)],
            "U": "?",
            "b": bool(rng.integers(2)),
            "f": (np.nan, np.inf, 0.5)[number % 3],
        }.get(values.dtype.kind, (100, 0)[number % 2])
    # The set of labels that occur is that of the other table.
    labels = values.tolist()
    if not split.declared and labels.count(labels[record]) == 1:
        return values[record]
    others = [label for label in labels if label != labels[record]]
    return others[rng.integers(len(others))] if others else values[record]


# ---------------------------------------------------------------------- of the user
def checked(
    given: Iterable[tuple[Any, Any]],
    X: Any,
    y: Any,
    public: np.ndarray | None,
    whole: bool,
    persons: np.ndarray | None = None,
) -> Iterator[Neighbour]:
    """Yield a user's neighbours.

    Parameters
    ----------
    given : iterable of (X, y)
    X, y
        The table that was recorded.
    public : bool ndarray of shape (n_features,) or None
        Columns that must be equal; None: they are not known.
    whole : bool
        Whether records come and go.
    persons : int64 ndarray of shape (n_rows,), default=None
        The person of each row, where all rows of one may differ.

    Raises
    ------
    ValueError
        If one is no neighbour.
    """
    wanted = _keys(X, y)
    for number, pair in enumerate(given):
        try:
            other, target = pair
        except (TypeError, ValueError):
            raise ValueError(
                f"neighbours[{number}] must be a pair (X, y), with y=None where there "
                "is no target."
            ) from None
        if type(other) is not type(X) or n_columns(other) != n_columns(X):
            raise ValueError(
                f"neighbours[{number}] has an X of another type or width: a neighbour "
                "differs in the private part of one record alone."
            )
        differ = _changed(wanted, _keys(other, target), number, whole, persons)
        if public is not None and not whole:
            _check_public(X, other, differ, public, number)
        changed: int | tuple[int, ...] | None = differ[0] if differ else None
        if persons is not None and differ:
            changed = tuple(np.flatnonzero(persons == persons[differ[0]]).tolist())
        yield Neighbour(f"neighbours[{number}]", other, target, changed)


def _changed(
    one: list, other: list, number: int, whole: bool, persons: np.ndarray | None
) -> list[int]:
    """Return the positions of the rows that differ, or raise ValueError."""
    told = f"neighbours[{number}] has {len(other)} records, and X has {len(one)}"
    if whole:
        if abs(len(one) - len(other)) != 1:
            raise ValueError(f"{told}: under 'add_or_remove_one' one comes or goes.")
        n_rows = min(len(one), len(other))
        if one[:n_rows] != other[:n_rows]:
            raise ValueError(
                f"neighbours[{number}] differs in more than its last record: put the "
                "one that comes or goes last."
            )
        return [n_rows]
    if len(one) != len(other):
        raise ValueError(f"{told}: their number is public, so leave it as it is.")
    differ = [
        i for i, pair in enumerate(zip(one, other, strict=True)) if len({*pair}) > 1
    ]
    if persons is not None:
        n_persons = len(np.unique(persons[differ]))
        if n_persons > 1:
            raise ValueError(
                f"neighbours[{number}] differs from X and y in rows of {n_persons} "
                "persons: neighbours differ in those of one."
            )
    elif len(differ) > 1:
        raise ValueError(
            f"neighbours[{number}] differs from X and y in {len(differ)} records: "
            "neighbours differ in one."
        )
    return differ


def _check_public(X: Any, other: Any, rows: list[int], public: np.ndarray, number: int):
    mask = np.flatnonzero(public)
    here, there = (_keys(_columns(table, mask), None) for table in (X, other))
    for record in rows:
        if here[record] != there[record]:
            raise ValueError(
                f"neighbours[{number}] differs in a public column of record {record}: "
                "neighbours have equal public parts."
            )


def _columns(X: Any, places: np.ndarray) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[:, places]
    if isinstance(X, list):
        return [[row[j] for j in places] for row in X]
    return X[:, places]


def _keys(X: Any, y: Any) -> list[tuple]:
    """Return what tells each record from others."""
    if issparse(X):
        X = X.tocsr()
        ends = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        rows = [(X.indices[a:b].tobytes(), X.data[a:b].tobytes()) for a, b in ends]
    elif hasattr(X, "iloc"):
        columns = [list(map(repr, X.iloc[:, j].tolist())) for j in range(X.shape[1])]
        rows = list(zip(*columns, strict=True)) or [()] * len(X)
    elif isinstance(X, np.ndarray) and not X.dtype.hasobject:
        rows = [row.tobytes() for row in X]
    else:
        rows = [repr(list(row)) for row in X]
    if y is None:
        return [(row,) for row in rows]
    return list(zip(rows, map(repr, list(y)), strict=True))
