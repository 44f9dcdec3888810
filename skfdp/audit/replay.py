"""The audit by replay: neighbours, frozen releases, and what differs nevertheless."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import hashlib
import inspect
import io
import itertools
import logging
import math
import os
import random
import sys
import types
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse, vstack
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.pipeline import Pipeline

from skfdp import _version
from skfdp.addresses import public
from skfdp.audit.mechanism import AuditResult
from skfdp.base import PrivateEstimator
from skfdp.data.units import numbered
from skfdp.data.validation import check_choice, check_number
from skfdp.experimental.search import PrivateSearchCV
from skfdp.mechanisms import noise
from skfdp.mechanisms.noise import Asked
from skfdp.privacy.accounting import cost, gdp_epsilon
from skfdp.privacy.assumptions import CLASSES_READ
from skfdp.privacy.calibration import PrivacyPlan
from skfdp.privacy.checks import shown
from skfdp.privacy.events import Event, PrivacyBudgetError, Relation
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.pipelines import report
from skfdp.privacy.plotting import new_axes
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.store import Receipt, new_entries

# Differences of two objects, down to the last bit of their arrays.


#: Compared as they are: a difference inside of them has no place of its own.
_PLAIN = (int, str, bytes, complex, type(None), type(...), range, slice)
_BY_NAME = (type, types.ModuleType, types.BuiltinFunctionType)


class Comparison:
    """Comparison of what two fits left, as places in it that differ.

    Objects are compared by type and by what they would be pickled as. A place is a path
    of attributes and positions, such as ``steps[0].mean_``; a key or a value is never
    part of it, and neither is a name that only one of the two has. What has no state
    that Python can see (a lock, say) is compared by type alone. Ledgers
    and receipts are left out: charges are compared for themselves, and receipts are
    random.
    """

    def __init__(self) -> None:
        self._seen: set[tuple[int, int]] = set()
        self._kept: list[Any] = []  # states are made on the way: an id must not return

    def places(self, one: Any, other: Any, place: str = "") -> Iterator[str]:
        """Yield the places where the objects differ."""
        if one is other or isinstance(one, PrivacyLedger | Receipt):
            return
        if type(one) is not type(other):
            yield place
            return
        if (id(one), id(other)) in self._seen:
            return
        self._seen.add((id(one), id(other)))
        self._kept += [one, other]
        if isinstance(one, (float, np.generic)):
            if not same_bits(one, other):
                yield place
        elif isinstance(one, (*_PLAIN, *_BY_NAME)):
            if one != other:
                yield place
        elif isinstance(one, np.ndarray):
            yield from self._arrays(one, other, place)
        elif isinstance(one, (list, tuple)):
            yield from self._sequences(one, other, place)
        elif isinstance(one, dict):
            yield from self._mappings(one, other, place)
        elif isinstance(one, (set, frozenset)):
            if one != other:
                yield place
        else:
            yield from self._objects(one, other, place)

    def _arrays(self, one: np.ndarray, other: np.ndarray, place: str) -> Iterator[str]:
        if one.dtype != other.dtype or one.shape != other.shape:
            yield place
        elif one.dtype.hasobject:
            yield from self._sequences(
                one.ravel().tolist(), other.ravel().tolist(), place
            )
        elif one.tobytes() != other.tobytes():
            yield place

    def _sequences(self, one: Any, other: Any, place: str) -> Iterator[str]:
        if len(one) != len(other):
            yield place
            return
        for number, (here, there) in enumerate(zip(one, other, strict=True)):
            yield from self.places(here, there, f"{place}[{number}]")

    def _mappings(self, one: dict, other: dict, place: str) -> Iterator[str]:
        """Compare mappings, whose order is something that one can see."""
        if next(self.places(list(one), list(other)), None) is not None:
            yield place
            return
        for number, (here, there) in enumerate(
            zip(one.values(), other.values(), strict=True)
        ):
            yield from self.places(here, there, f"{place}[{number}]")

    def _objects(self, one: Any, other: Any, place: str) -> Iterator[str]:
        if isinstance(one, types.FunctionType):
            states = [_of_function(one), _of_function(other)]
        elif isinstance(one, types.MethodType):
            states = [(f.__func__, f.__self__) for f in (one, other)]
        elif isinstance(one, functools.partial):
            states = [(f.func, f.args, f.keywords) for f in (one, other)]
        else:
            states = [_state(one), _state(other)]
        here, there = states
        attributes = isinstance(here, dict) and isinstance(there, dict)
        if not attributes:
            yield from self.places(here, there, place)
            return
        if list(here) != list(there):
            yield f"{place}: the names of its attributes"
            return
        for name, value in here.items():
            inner = f"{place}.{name}" if place else str(name)
            yield from self.places(value, there[name], inner)


def differ(one: Any, other: Any) -> bool:
    """Whether two objects differ anywhere."""
    return next(Comparison().places(one, other), None) is not None


def same_bits(one: Any, other: Any) -> bool:
    """Whether two scalars of one type are the same number, NaN being NaN."""
    if isinstance(one, np.generic):
        return one.dtype == other.dtype and one.tobytes() == other.tobytes()
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one.hex() == other.hex()


def _of_function(function: types.FunctionType) -> tuple:
    """Return what a function is, with what it holds."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return function.__code__, function.__defaults__, function.__kwdefaults__, cells


def _state(value: Any) -> Any:
    """Return the state of an object: its attributes, or what pickle would keep."""
    reduced: Any = None
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # it cannot be pickled
        return dict(getattr(value, "__dict__", {}))
    if isinstance(reduced, str):
        return reduced
    function, arguments, *rest = reduced
    rest = [list(part) if hasattr(part, "__next__") else part for part in rest]
    state = rest[0] if rest else None
    plain = getattr(function, "__name__", "") in ("__newobj__", "_reconstructor")
    if plain and isinstance(state, dict) and not any(rest[1:]) and len(arguments) == 1:
        return state
    return function, arguments, rest


# Neighbours of a table: the private part of one record, or person, is another one.


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


def neighbouring_tables(
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
        return np.array("NaT", values.dtype)[()]
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


# Traces: which functions of a fit are called, in which order.


PACKAGE = Path(_version.__file__).parent

_CELLS = (
    "reads each cell by what it holds, a number, a text or something else, and returns "
    "one number for each"
)
#: Functions that a private value may lead on another way, by file and name, and why
#: nothing leaves by it. That they are called is followed; what they call is not. The
#: exact sums of queries are among them: void, short and sparse rows go by other ways
#: to the same integers, which stay at the desk and are compared by themselves.
LED_BY_VALUES = {
    ("data/_values.py", "Column.places"): _CELLS,
    ("data/_values.py", "Column.read"): _CELLS,
    ("data/validation.py", "unmasked"): (
        "looks for masked entries in arrays of objects and in lists, which one value "
        "can make of an array of numbers; other entries are returned as they are"
    ),
    ("data/target.py", "encode_any"): (
        "looks up each label, and once those that occur, of whatever type; what is not "
        "declared is missing"
    ),
    ("data/input_scaler.py", "RowMap.filled"): (
        "returns the table that it was given where every number is finite, which saves "
        "a copy, and fills it otherwise; the rows are finite either way"
    ),
}
#: The same, where a private value decides over lines alone: calls are followed.
LINES_LED_BY_VALUES = {
    ("data/input_scaler.py", "RowMap._short"): (
        "divides numbers of extreme size by two powers of two in the place of one"
    ),
    ("data/arrays.py", "either"): (
        "joins the void records of columns and of the target, where both have some"
    ),
    ("linear_model.py", "LinearRegressor._target"): (
        "fills missing targets where there are some; they are finite either way"
    ),
    ("experimental/search.py", "Search._query"): (
        "scores records without a label as wrong, where there are some"
    ),
    ("mechanisms/release.py", "not_void"): (
        "leaves void records out where there are some; the batch stays at the desk"
    ),
}


class Trace:
    """The functions that are called while it is open, or every line of them.

    Parameters
    ----------
    files : collection of Path
        Whose functions are followed, beside those of this package.
    lines : bool
        Follow lines, not calls alone.

    Notes
    -----
    It sees this thread, and no compiled code. A tracer that was there before, such as
    a debugger, waits.
    """

    def __init__(self, files: Collection[str] = (), lines: bool = False):
        self._files, self._lines = frozenset(files), lines
        self._known: dict[CodeType, bool] = {}
        self._skipped: FrameType | None = None
        self._paused = False
        self._before: Any = None
        #: A function and who called it, or a function and the number of its line.
        self.steps: list[tuple[CodeType, CodeType | int]] = []

    def __enter__(self) -> Trace:
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)

    def paused(self) -> _Pause:
        """Return a context in which nothing is followed."""
        return _Pause(self)

    def follows(self, code: CodeType) -> bool:
        """Whether calls of a function are followed."""
        known = self._known.get(code)
        if known is None:
            name = code.co_filename
            inside = name.startswith(f"{PACKAGE}{os.sep}")
            audits = name.startswith(f"{PACKAGE / 'audit'}{os.sep}")
            known = self._known[code] = name in self._files or (inside and not audits)
        return known

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Follow a call, or not."""
        if self._paused or self._skipped is not None:
            return None
        code = frame.f_code
        if not self.follows(code):
            return None
        caller = code if frame.f_back is None else frame.f_back.f_code
        self.steps.append((code, caller))
        file, name = _place_of_call(code)
        if (file, name) in LED_BY_VALUES:
            self._skipped = frame
            frame.f_trace_lines = False
            return self._inside_skipped
        if not self._lines or (file, name) in LINES_LED_BY_VALUES:
            frame.f_trace_lines = False
            return None
        return self._line

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and not self._paused and self._skipped is None:
            self.steps.append((frame.f_code, frame.f_lineno))
        return self._line

    def _inside_skipped(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "return" and frame is self._skipped:
            self._skipped = None
        return self._inside_skipped


class _Pause:
    def __init__(self, trace: Trace):
        self._trace = trace

    def __enter__(self) -> None:
        self._outer, self._trace._paused = self._trace._paused, True

    def __exit__(self, *error: object) -> None:
        self._trace._paused = self._outer


@functools.lru_cache(maxsize=4096)
def _place_of_call(code: CodeType) -> tuple[str, str]:
    """Return the file, below the package if it is in it, and the name of a function.

    Comprehensions and functions inside of it go by its name.
    """
    path = Path(code.co_filename)
    inside = path.is_relative_to(PACKAGE)
    file = path.relative_to(PACKAGE).as_posix() if inside else path.name
    return file, code.co_qualname.partition(".<locals>")[0]


def parting(one: Trace, other: Trace) -> str | None:
    """Return the function in which two traces part, None if they do not."""
    if one.steps == other.steps:
        return None
    for here, there in itertools.zip_longest(one.steps, other.steps):
        if here != there:
            steps = [step for step in (here, there) if step is not None]
            codes = [a if isinstance(b, int) else b for a, b in steps]
            followed = (code for code in codes if one.follows(code))
            return ": ".join(_place_of_call(next(followed, codes[0])))
    return None


# The two rehearsals of a replay: one records what is released, one repeats it.


# Distances of integers are exact; bounds are products of float64 factors.
_ROUNDING = 1e-9


class Parted(BaseException):
    """End of a replay whose releases are others; no handler of Exception hides it."""


@dataclasses.dataclass(frozen=True)
class Release:
    """One release, as it was recorded.

    Attributes
    ----------
    facts : dict
        What must be equal between neighbours, by name.
    asked : Asked
        Its batch is a copy.
    theta : str
        Digest of where the query was asked.
    total : int64 ndarray
        The exact sum of the batch, in grid units.
    whole : int64 ndarray
        That of every row.
    answer : float64 ndarray
        What the desk gave out.
    """

    facts: dict[str, Any]
    asked: Asked
    theta: str
    total: np.ndarray
    whole: np.ndarray
    answer: np.ndarray


@dataclasses.dataclass(frozen=True)
class Move:
    """Distance by which a neighbour moved one release.

    Attributes
    ----------
    event : Event
    distance : float
        Largest Euclidean distance of the sums, in units of the release.
    sensitivity : float
        What the query says of it.
    noise_std : float
    """

    event: Event
    distance: float
    sensitivity: float
    noise_std: float

    @property
    def is_within(self) -> bool:
        """Whether it is as far as was declared, or less."""
        return self.distance <= self.sensitivity * (1 + _ROUNDING)


class _Fixed:
    """Fixed keys for every stream, by its name and the number of those before it."""

    def __init__(self, trace: Trace | None = None):
        self._opened: Counter[str] = Counter()
        self.trace = trace

    def key(self, stream: str) -> int:
        """Return a key that anybody can compute."""
        name = f"{stream}#{self._opened[stream]}"
        self._opened[stream] += 1
        digest = hashlib.blake2b(name.encode(), digest_size=16, person=b"skfdp audit")
        return int.from_bytes(digest.digest(), "little")

    def _unseen(self) -> Any:
        """Return a context of what an audit does itself."""
        return contextlib.nullcontext() if self.trace is None else self.trace.paused()


class Recording(_Fixed):
    """A rehearsal that keeps each release; its noise has a fixed key."""

    def __init__(self) -> None:
        super().__init__()
        self.releases: list[Release] = []

    def release(self, asked: Asked, noisy_sum: Callable[[], np.ndarray]) -> np.ndarray:
        """Return what the desk gives out, and keep it."""
        kept = dataclasses.replace(asked, batch=_copy(asked.batch))
        total, whole = _sums(kept)
        answer = noisy_sum()
        self.releases.append(
            Release(
                facts=_facts(kept),
                asked=kept,
                theta=_digest(asked.theta),
                total=total,
                whole=whole,
                answer=answer.copy(),
            )
        )
        return answer


class Repeating(_Fixed):
    """A rehearsal that answers as recorded, and measures how far the sums moved.

    Parameters
    ----------
    recorded : list of Release
    n_records : int
        Number of rows of the table.
    changed : int, tuple of int or None
        Position of the record that differs, or those of all rows of the person; None:
        there is none.
    trace : Trace or None
        Does not follow what is done here.
    """

    def __init__(
        self,
        recorded: list[Release],
        n_records: int,
        changed: int | tuple[int, ...] | None,
        trace: Trace | None = None,
    ):
        super().__init__(trace)
        self._recorded, self._n_records = recorded, n_records
        self._changed = None if changed is None else np.atleast_1d(changed)
        self._drawn: set[str] = set()
        self.moves: list[Move] = []
        #: Kind of the difference, and the label of the release.
        self.differences: list[tuple[str, str]] = []

    @property
    def n_left(self) -> int:
        """Number of recorded releases that were not asked for."""
        return len(self._recorded) - len(self.moves)

    def release(self, asked: Asked, noisy_sum: Callable[[], np.ndarray]) -> np.ndarray:
        """Return what was given out when this was recorded.

        Raises
        ------
        Parted
            If another release was recorded, or none.
        """
        with self._unseen():
            label = asked.event.label
            if not self.n_left:
                self.differences.append(("release", f"{label!r}, which is one more"))
                raise Parted
            wanted = self._recorded[len(self.moves)]
            self._compare(wanted, asked)
            self.moves.append(self._move(wanted, asked))
            if not self.moves[-1].is_within:
                self.differences.append(("distance", repr(label)))
            return wanted.answer.copy()

    def _compare(self, wanted: Release, asked: Asked) -> None:
        """Note what of a release differs, and end the replay if it is another one."""
        label, found = repr(asked.event.label), _facts(asked)
        names = [name for name, fact in wanted.facts.items() if found[name] != fact]
        if not asked.event.relation.counts_are_public and "n_rows" in names:
            names.remove("n_rows")
        for name in names:
            self.differences.append(("release", f"{label}, its {name}"))
        if {"label", "query", "shape"} & set(names):
            raise Parted
        if _digest(asked.theta) != wanted.theta:
            self.differences.append(("theta", label))
        if not self._same_batch(wanted.asked, asked):
            self.differences.append(("batch", label))

    def _same_batch(self, one: Asked, other: Asked) -> bool:
        """Whether the same rows are summed, but for void ones and for a last one."""
        first = other.event.label not in self._drawn
        self._drawn.add(other.event.label)
        n_rows = min(one.query.n_rows, other.query.n_rows)
        if one.query.n_rows != other.query.n_rows and not first:
            return True  # later gaps begin at other words: see `audit_replay`
        members = np.zeros((2, n_rows), dtype=bool)
        for row, asked in zip(members, (one, other), strict=True):
            row[_members(asked)[_members(asked) < n_rows]] = True
        for asked in (one, other):
            if asked.void is not None:
                members[:, asked.void[:n_rows]] = False
        return bool((members[0] == members[1]).all())

    def _move(self, wanted: Release, asked: Asked) -> Move:
        """Return how far the neighbour moves this release."""
        relation = asked.event.relation
        query, unit = asked.query, asked.query.unit(asked.noise_std)
        total, whole = _sums(asked)
        if relation.name == "replace_special":
            distance = self._nulled(wanted, asked, whole)
        else:
            distance = _distance(wanted.whole, whole)
            if wanted.asked.query.n_rows == query.n_rows:  # else they share no batch
                distance = max(distance, _distance(wanted.total, total))
        return Move(
            event=asked.event,
            distance=distance * unit,
            sensitivity=query.sensitivity(relation),
            noise_std=asked.noise_std,
        )

    def _nulled(self, wanted: Release, asked: Asked, whole: np.ndarray) -> float:
        """Return how far both tables are from the one whose record, or person, is null.

        Its sum lacks what the record adds, in the one table and in the other. What the
        others add is the same in both; a difference is for the record to answer for.
        """
        if self._changed is None:
            return _distance(wanted.whole, whole)
        if asked.query.n_rows == self._n_records:
            added, others = _added(wanted, asked, self._changed)
            if not others:
                return added
        # A part of the table, in a search, or rows in another order.
        places = _places(wanted, asked, len(self._changed))
        return sum(_added(wanted, asked, places)) if len(places) else 0.0


def _facts(asked: Asked) -> dict[str, Any]:
    """Return what is public of a release."""
    query = asked.query
    return {
        "label": asked.event.label,
        "query": type(query).__qualname__,
        "shape": tuple(query.shape),
        "event": asked.event,
        "stream": asked.stream,
        "clip_norm": query.clip_norm,
        "sensitivity": query.sensitivity(asked.event.relation),
        "unit": query.unit(asked.noise_std),
        "noise_std": asked.noise_std,
        "n_rows": query.n_rows,
    }


def _sums(asked: Asked) -> tuple[np.ndarray, np.ndarray]:
    """Return the exact sums over the batch and over every row that is not void."""
    query, unit = asked.query, asked.query.unit(asked.noise_std)
    total = query.exact_sum(asked.theta, asked.batch, unit).copy()
    if asked.event.sampling_rate == 1:
        return total, total
    rows = None if asked.void is None else np.flatnonzero(~asked.void)
    return total, query.exact_sum(asked.theta, rows, unit).copy()


def _added(wanted: Release, asked: Asked, own: np.ndarray) -> tuple[float, float]:
    """Return how much some rows add at most, and how far the sums of others are."""
    both = wanted.asked, asked
    sums = [_partial(one, asked.theta, own) for one in both]
    rows = np.delete(np.arange(asked.query.n_rows), own)
    rest = [_partial(one, asked.theta, rows) for one in both]
    return max(map(_length, sums)), _distance(*rest)


def _places(wanted: Release, asked: Asked, most: int) -> np.ndarray:
    """Return the positions of the rows that add something else, at most so many.

    One after the other, by halves: all others add the same at the same place.
    """
    rows, found = np.arange(asked.query.n_rows), []
    while len(found) < most:
        place = _place(wanted, asked, rows)
        if place is None:
            break
        found.append(place)
        rows = rows[rows != place]
    return np.array(found, dtype=np.int64)


def _place(wanted: Release, asked: Asked, rows: np.ndarray) -> int | None:
    """Return the position of a row that adds something else, None if none does."""

    def differ(rows: np.ndarray) -> bool:
        one, other = (_partial(a, asked.theta, rows) for a in (wanted.asked, asked))
        return bool((one != other).any())

    if not differ(rows):
        return None
    while len(rows) > 1:
        half = rows[: len(rows) // 2]
        rows = half if differ(half) else rows[len(half) :]
    return int(rows[0])


def _partial(asked: Asked, theta: np.ndarray | None, rows: np.ndarray) -> np.ndarray:
    """Return the exact sum over some rows, without those that are void."""
    if asked.void is not None:
        rows = rows[~asked.void[rows]]
    unit = asked.query.unit(asked.noise_std)
    return asked.query.exact_sum(theta, rows, unit).copy()


def _members(asked: Asked) -> np.ndarray:
    return np.arange(asked.query.n_rows) if asked.batch is None else asked.batch


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    # Sums wrap around where n is private; so does their difference, to the distance.
    return _length(one - other)


def _length(total: np.ndarray) -> float:
    """Return the norm of integers; their squares are exact."""
    return math.sqrt(sum(entry * entry for entry in total[total != 0].tolist()))


def _copy(batch: np.ndarray | None) -> np.ndarray | None:
    return None if batch is None else batch.copy()


def _digest(theta: np.ndarray | None) -> str:
    if theta is None:
        return ""
    theta = np.ascontiguousarray(theta)
    told = f"{theta.dtype}{theta.shape}".encode()
    return hashlib.blake2b(told + theta.tobytes(), digest_size=16).hexdigest()


# Outcomes of fits: everything that leaves one.


_ELSEWHERE = (
    "n_jobs: a private fit runs in another thread or process, where an audit cannot "
    "see its releases; audit it with n_jobs=None, which changes no result."
)
#: What is asked of a fitted model, where it has it.
_METHODS = ("predict", "predict_proba", "decision_function", "transform")
#: Rows that are predicted.
_PROBED = 20


class _Elsewhere(PrivacyLedger):
    """The ledger of a fit that an audit does not see: it refuses every charge."""

    def __init__(self) -> None:
        pass  # it records nothing

    def __reduce__(self) -> tuple:
        return _Elsewhere, ()

    def charge(self, events: Iterable[Event], **more: Any) -> None:
        """Refuse it."""
        raise ValueError(_ELSEWHERE)

    def charge_nonprivate(self, **more: Any) -> None:
        """Refuse it."""
        raise ValueError(_ELSEWHERE)


class Charges(PrivacyLedger):
    """A ledger that keeps what it is given, for one fit in this thread."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[tuple[tuple[Event, ...], str | None, str]] = []

    def __reduce__(self) -> tuple:
        return _Elsewhere, ()  # wherever it is sent to

    def charge(
        self,
        events: Iterable[Event],
        *,
        label: str | None = None,
        plan: PrivacyPlan | None = None,
        n_rows: int | None = None,
    ) -> Receipt:
        """Keep a charge, and return a receipt of it, as every ledger does."""
        if noise.current() is None:
            raise ValueError(_ELSEWHERE)
        self.given.append((tuple(events), label, repr((plan, n_rows))))
        entries = new_entries(self.given[-1][0], label, plan=plan)
        return self._store.append(entries, lambda terms, recorded: None)

    def charge_nonprivate(self, *, label: str | None = None) -> None:
        """Refuse fits without privacy."""
        raise ValueError(
            "epsilon=inf: a fit without privacy has no claim to audit; give every "
            "private part a finite epsilon."
        )

    @property
    def events(self) -> tuple[Event, ...]:
        """All events."""
        return tuple(event for events, *_ in self.given for event in events)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Everything that leaves a fit.

    Attributes
    ----------
    model : estimator
    error : Exception or None
    complete : bool
        False where a replay ended because its releases were others.
    charges : Charges
    told : dict
        Warnings, text, log records and states of global generators, each by what it is.
    predictions : dict
        By method.
    trace : Trace or None
    """

    model: Any
    error: Exception | None
    complete: bool
    charges: Charges
    told: dict[str, Any]
    predictions: dict[str, Any]
    trace: Trace | None

    def differences(self, other: Outcome) -> Iterator[tuple[str, str]]:
        """Yield kind and place of each difference to the outcome of a neighbour."""
        if not other.complete:
            return
        errors = [(type(one.error), str(one.error)) for one in (self, other)]
        if errors[0] != errors[1]:
            yield "exception", "the fit"
            return
        for place in Comparison().places(self.model, other.model):
            yield "attribute", place or "the model"
        for kind, told in self.told.items():
            if differ(told, other.told[kind]):
                yield kind, "the fit"
        if self.charges.given != other.charges.given:
            yield "charge", "the ledger"
        for method, found in self.predictions.items():
            if differ(found, other.predictions[method]):
                yield "prediction", method
        if self.trace is not None and other.trace is not None:
            if (place := parting(self.trace, other.trace)) is not None:
                yield "control flow", place


def private_parts(estimator: Any) -> dict[str, PrivateEstimator]:
    """Return the estimators of this package in another one, by parameter prefix."""
    found = {"": estimator} if isinstance(estimator, PrivateEstimator) else {}
    for name, value in estimator.get_params(deep=True).items():
        if isinstance(value, PrivateEstimator):
            found[f"{name}__"] = value
    return found


def prepared(estimator: Any) -> tuple[Any, Charges]:
    """Return an unfitted copy without seeds, and the ledger of all its parts."""
    model, charges = clone(estimator), Charges()
    parts = private_parts(model)
    searches = [p for p, part in parts.items() if isinstance(part, PrivateSearchCV)]
    for prefix, part in parts.items():
        facts: dict[str, Any] = {"random_state": None, "ledger": charges}
        if any(prefix.startswith(outer) and prefix != outer for outer in searches):
            del facts["ledger"]  # a search charges for what is inside of it
        part.set_params(**facts)
    return model, charges


def performed(
    estimator: Any,
    X: Any,
    y: Any,
    fit_params: Mapping[str, Any],
    probe: Any,
    around: noise.Rehearsal,
    trace: Trace | None,
) -> Outcome:
    """Fit a copy inside a rehearsal, and return all that leaves."""
    model, charges = prepared(estimator)
    error, complete, told, predictions = None, True, {}, {}
    with _heard(told):
        try:
            with noise.opened(around), trace or contextlib.nullcontext():
                model.fit(X, y, **fit_params)
        except Parted:
            complete = False
        except Exception as found:
            error = found
        if complete and error is None:
            predictions = _predictions(model, probe)
    return Outcome(model, error, complete, charges, told, predictions, trace)


@contextlib.contextmanager
def _heard(told: dict[str, Any]) -> Iterator[None]:
    """Keep what is said, and leave the global generators as they were."""
    states = np.random.get_state(), random.getstate()  # noqa: NPY002
    out, err, log = io.StringIO(), io.StringIO(), _Log()
    with (
        warnings.catch_warnings(record=True) as caught,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        log.listening(),
    ):
        warnings.simplefilter("always")
        np.random.seed(0)  # noqa: NPY002
        random.seed(0)
        try:
            yield
        finally:
            told["warning"] = [(one.category, str(one.message)) for one in caught]
            told["output"] = out.getvalue(), err.getvalue()
            told["log"] = log.records
            now = np.random.get_state(), random.getstate()  # noqa: NPY002
            told["global generator"] = now
            np.random.set_state(states[0])  # noqa: NPY002
            random.setstate(states[1])


class _Log(logging.Handler):
    """A handler that keeps what every logger says, of any level.

    The compiler's debug messages, which tell of its caches, are left out.
    """

    def __init__(self) -> None:
        super().__init__(level=0)
        self.records: list[tuple[str, int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self.records.append((record.name, record.levelno, record.getMessage()))

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Listen at the root."""
        root, compiler = logging.getLogger(), logging.getLogger("numba")
        levels = root.level, compiler.level
        compiler.setLevel(compiler.level or logging.WARNING)
        root.setLevel(1)
        root.addHandler(self)
        try:
            yield
        finally:
            root.removeHandler(self)
            root.setLevel(levels[0])
            compiler.setLevel(levels[1])


def _predictions(model: Any, probe: Any) -> dict[str, Any]:
    """Return what a model says of rows that are always the same."""
    found: dict[str, Any] = {}
    for method in _METHODS:
        try:
            found[method] = getattr(model, method)(probe)
        except Exception as error:  # or there is no such method
            found[method] = type(error), str(error)
    return found


def probe_of(X: Any) -> Any:
    """Return the first rows of a table."""
    if hasattr(X, "iloc"):
        return X.iloc[:_PROBED].copy()
    return X[:_PROBED]


#: What a difference says, by its kind. Those of the second table do not leave the fit
#: by themselves; each breaks what the proof of the accounting rests on.
LEAVES = {
    "attribute": "{} differs in the fitted model",
    "prediction": "{} of the same rows differs",
    "release": "another release is asked for: {}",
    "charge": "{} is charged something else",
    "warning": "{} warns otherwise",
    "output": "{} prints something else",
    "log": "{} logs something else",
    "exception": "{} ends otherwise, by an exception or without one",
    "global generator": "{} leaves a global random generator in another state",
}
INSIDE = {
    "distance": "the sum of {} moves further than its sensitivity",
    "theta": "{} is asked for at another place, which no release had told",
    "batch": "{} sums other rows",
    "control flow": "the calls part in {}",
}


@public("skfdp.audit")
@dataclasses.dataclass(frozen=True)
class Difference:
    """A difference between neighbours that no release explains.

    Attributes
    ----------
    kind : str
        "attribute", "prediction", "release", "charge", "warning", "output", "log",
        "exception" or "global generator", which leave the fit; "distance", "theta",
        "batch" or "control flow", which do not.
    where : str
        A name or a place; never a value.
    first : str
        The first neighbour that shows it.
    n_replays : int
        How many do.
    """

    kind: str
    where: str
    first: str
    n_replays: int

    def __str__(self) -> str:
        told = (LEAVES | INSIDE)[self.kind].format(self.where)
        return f"{told} ({self.n_replays} replays, the first one with {self.first})."


@public("skfdp.audit")
@dataclasses.dataclass(frozen=True)
class Moved:
    """Distance by which neighbours moved the releases of one label.

    Attributes
    ----------
    label : str
    n_releases : int
    sensitivity : float
        The largest one that a query of this label declares, in units of its sum.
    largest : float
        The largest distance over the sensitivity: at most 1, up to a rounding of 1e-9.
    """

    label: str
    n_releases: int
    sensitivity: float
    largest: float


@public("skfdp.audit")
@dataclasses.dataclass(frozen=True, kw_only=True)
class ReplayResult(AuditResult):
    """Result of `audit_replay`: differences, and how far the sums moved.

    Attributes
    ----------
    subject, neighboring_relation, claimed_epsilon, delta
        See `AuditResult`. The claim is that of the report, or, where there is none,
        what the charged events cost together.
    lower_bound : float
        Infinite if something that leaves the fit tells two neighbours apart. Otherwise
        the epsilon, at `delta`, of the worst neighbour on the path that was recorded:
        of the Gaussian-DP parameter ``sqrt(sum (distance / std)**2)`` over the releases
        of full batches that were charged one by one. Where no sum depends on earlier
        releases it is exact for the two tables; in a loop it is that of this path, and
        a guide. Releases of Poisson batches, and the runs of a search, count as 0.
    confidence : float
        1: nothing is estimated.
    n_trials : int
        Number of replays.
    differences : tuple of Difference
    releases : tuple of Moved
    neighbours : tuple of str
        What was tried: one name for each replay.
    """

    audit = "replay"

    differences: tuple[Difference, ...] = ()
    releases: tuple[Moved, ...] = ()
    neighbours: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether there is no difference."""
        return not self.differences

    def __str__(self) -> str:
        lines = [super().__str__(), *map(str, self.differences)]
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """Draw the largest distance of each label over its sensitivity.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.

        Returns
        -------
        ax : matplotlib Axes
        """
        ax = new_axes(ax, "ReplayResult.plot")
        labels = [one.label for one in self.releases]
        ax.barh(labels, [one.largest for one in self.releases], label="seen")
        ax.axvline(1.0, color="black", linestyle="--", label="declared")
        ax.set(xlabel="largest distance / sensitivity", title=self.subject)
        ax.invert_yaxis()
        ax.legend()
        return ax


@dataclasses.dataclass(frozen=True)
class _Recorded:
    """A fit that was recorded, and what it was fitted to.

    Attributes
    ----------
    estimator : estimator
        Never fitted itself.
    X, y : array-like
    fit_params : mapping
    trace : str or None
    releases : list of Release
    baseline : Outcome
        Of a replay on the same table, by which all code is loaded and every cache
        full.
    """

    estimator: Any
    X: Any
    y: Any
    fit_params: Mapping[str, Any]
    trace: str | None
    releases: list[Release]
    baseline: Outcome | None = None

    @property
    def persons(self) -> np.ndarray | None:
        """The person of each row, None where each row is a record of its own."""
        return _persons(self.X, self.fit_params)

    def replay(
        self, X: Any, y: Any, changed: int | tuple[int, ...] | None
    ) -> tuple[Outcome, Repeating]:
        """Fit to another table, with the releases of this one."""
        trace = None
        if self.trace is not None:
            trace = Trace(_files(self.estimator), lines=self.trace == "lines")
        around = Repeating(self.releases, n_records(self.X), changed, trace)
        outcome = performed(
            self.estimator,
            *(_own(X), _own(y), self.fit_params, probe_of(self.X)),
            around,
            trace,
        )
        if outcome.complete and outcome.error is None and around.n_left:
            around.differences.append(("release", "there are fewer of them"))
        return outcome, around


@public("skfdp.audit")
def audit_replay(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    neighbours: Iterable[tuple[Any, Any]] | None = None,
    n_neighbours: int = 24,
    trace: str | None = "calls",
    fit_params: Mapping[str, Any] | None = None,
    random_state: int = 0,
) -> ReplayResult:
    """Record a fit, and repeat it on neighbours with the released numbers frozen.

    What a private fit tells of a record, it tells by noisy sums. Coins are fixed, and
    every fit on a neighbouring table is given the numbers that were released for the
    recorded one: then nothing at all may differ, whatever the private part of the
    record, but the exact sums, and these by no more than their sensitivity.

    Parameters
    ----------
    estimator : estimator
        Of this package, a subclass of one, a Pipeline with some of them, or a tool of
        scikit-learn around them. It is cloned, its ledgers are replaced by one that
        forgets, integer seeds of its private parts are left out, and it is never
        fitted itself.
    X, y
        What `fit` takes. Made-up records do: what is checked holds for any.
    neighbours : iterable of (X, y), default=None
        Tables that differ from X and y in the private part of one record, or, with
        `groups` in `fit_params`, in those of the rows of one person; under
        "add_or_remove_one" in the last record, which is there or not. None makes some:
        of numbers, other records' values, random, extreme, missing and infinite ones;
        of labels, other ones, and undeclared ones if `classes` are declared.
    n_neighbours : int, default=24
        How many to make.
    trace : {"calls", "lines", None}, default="calls"
        Compare which functions of this package, and of a subclass, are called in which
        order; or every line of them, which is slower; or neither.
    fit_params : dict, default=None
        Further arguments of `fit`. With `groups` (of a step of a Pipeline:
        ``step__groups``) neighbours differ in all rows of one person, or in some of
        them.
    random_state : int, default=0
        Of the neighbours that are made.

    Returns
    -------
    result : ReplayResult

    Raises
    ------
    TypeError
        If nothing in the estimator is of this package.
    ValueError
        If a part has ``epsilon=inf``; if two fits on one table differ, because another
        part draws from no fixed seed; if private parts run in other threads or
        processes; if a table that is given is no neighbour; or if the public columns
        behind a Pipeline are not known, so that `neighbours` are needed.
    Exception
        What the fit itself raises.

    Notes
    -----
    **Checked**, in each replay: the labels, streams, queries, shapes, bounds, units and
    noise of all releases, in their order, and where they are asked for (frozen numbers
    make this equal); the rows of each batch; the distance of the exact sums, in
    integers; the attributes of the fitted model with everything below them, its report
    and predictions; charges, warnings, text, log records, exceptions, and the global
    generators; the sequence of calls.

    Under "replace_special" the neighbour's record is null: the distance is what the
    record adds, in either table. For Poisson batches the sum over every row is compared
    as well. Under "add_or_remove_one" the rows of the first batch of each event are
    compared, and no later ones: the room for a batch, and by it the order in which
    words are drawn, depends on the number of rows.

    **Not seen.** Time and memory. The law of noise and coins, and whether their keys
    are secret: `audit_mechanism` looks at the first, and nothing from outside at the
    second. Values that were not tried, and paths that were not taken: frozen numbers
    follow one. What is written to files, to a network, or by compiled code. The inside
    of compiled code, where a trace is concerned. What `fit` is given by other means
    than the rows (parameters that were chosen by looking at them).

    **Frozen fits are not private**: anybody can compute their coins. Their models are
    thrown away; events inside say that they are seeded. Other threads draw real noise
    all the while, but what they print or warn of is taken for that of the fit.

    References
    ----------
    In the spirit of the grey-box audits of Cebere et al. (2026), arXiv:2602.17454.

    Examples
    --------
    >>> import numpy as np
    >>> from skfdp import DPSGDFClassifier
    >>> from skfdp.audit import audit_replay
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.random((50, 3)), rng.integers(2, size=50)
    >>> model = DPSGDFClassifier(bounds=(0, 1), classes=[0, 1], max_iter=2)
    >>> result = audit_replay(model, X, y, n_neighbours=4)
    >>> result.passed, result.differences
    (True, ())

    A step that learns from private rows is found:

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> leaky = make_pipeline(StandardScaler(), model)
    >>> result = audit_replay(leaky, X, y, n_neighbours=4)
    >>> result.passed, result.lower_bound
    (False, inf)
    >>> result.differences[0].where
    'steps[0][1].mean_'
    """
    check_choice("trace", trace, ("calls", "lines", None))
    check_number("n_neighbours", n_neighbours, integral=True)
    check_number(
        "random_state", random_state, include_low=True, integral=True, also=(None,)
    )
    if not (hasattr(X, "shape") or isinstance(X, list | tuple)):
        raise TypeError(f"X={shown(X)} must be a table: an array, a frame or a list.")
    if not isinstance(fit_params, Mapping | None):
        raise TypeError(
            f"fit_params={shown(fit_params)} must be None or a dict of arguments by "
            "name."
        )
    if neighbours is not None and not isinstance(neighbours, Iterable):
        raise TypeError(
            f"neighbours={shown(neighbours)} must be None or a list of pairs (X, y)."
        )
    _check(estimator)
    whole = any(
        not Relation.of(part.neighboring_relation).counts_are_public
        for part in private_parts(estimator).values()
        if hasattr(part, "neighboring_relation")
    )
    base = X, y
    if whole and neighbours is None:
        base = without_last(X), without_last(y)
    recorded = _recorded(estimator, *base, dict(fit_params or {}), trace)
    told = _told(recorded.baseline)
    if neighbours is None:
        split = _split(recorded, X, y, told, whole)
        rng = np.random.default_rng(random_state)
        split = dataclasses.replace(split, persons=recorded.persons)
        found = neighbouring_tables(X, y, split, rng, int(n_neighbours))
    else:
        public = None if told is None else _public(recorded, X, told)
        found = checked(neighbours, *base, public, whole, recorded.persons)
    return _result(recorded, told, found)


def _check(estimator: Any) -> None:
    """Raise unless there is something private to audit."""
    made = hasattr(estimator, "get_params") and not isinstance(estimator, type)
    parts = private_parts(estimator) if made else {}
    if not parts:
        raise TypeError(
            f"estimator={shown(estimator)} must be an estimator of this package, or "
            "hold one: nothing else releases at a desk."
        )
    for prefix, part in parts.items():
        if math.isinf(part.epsilon):
            raise ValueError(
                f"{prefix}epsilon=inf: a fit without privacy makes no claim that could "
                "be audited; give it a finite epsilon."
            )


def _recorded(
    estimator: Any, X: Any, y: Any, fit_params: Mapping[str, Any], trace: str | None
) -> _Recorded:
    """Record a fit, and replay it once on the same table."""
    around = Recording()
    first = performed(
        estimator, _own(X), _own(y), fit_params, probe_of(X), around, None
    )
    if first.error is not None:
        raise first.error
    charged = [one for one in first.charges.events if type(one) is Event]
    asked = [one.asked.event for one in around.releases]
    if not around.releases or any(event not in asked for event in charged):
        raise ValueError(
            "a charged release was not asked for in this thread: let every private "
            "part run with n_jobs=None, which changes no result."
        )
    found = _Recorded(estimator, X, y, fit_params, trace, around.releases)
    baseline, again = found.replay(X, y, None)
    differ = [*again.differences, *first.differences(baseline)]
    if not baseline.complete or any(kind in _REPEATED for kind, _ in differ):
        places = ", ".join(dict.fromkeys(place for _, place in differ))
        raise ValueError(
            f"two fits on one table differ ({places}): fix the random_state of every "
            "part that is not of this package."
        )
    return dataclasses.replace(found, baseline=baseline)


#: What a first fit may do otherwise than a second one is to load code, and to warn or
#: log of that; neither is a random choice.
_REPEATED = frozenset(LEAVES | INSIDE) - {"warning", "log", "output", "control flow"}


def _told(outcome: Outcome) -> PrivacyReport | None:
    """Return the report of a fitted model, None where nobody can vouch for it."""
    try:
        return report(outcome.model)
    except (ValueError, PrivacyBudgetError):
        return None


def _persons(X: Any, fit_params: Mapping[str, Any]) -> np.ndarray | None:
    """Return the person of each row, as a fit is told of it."""
    for groups in _groups(fit_params):
        return numbered(X[groups] if isinstance(groups, str) else groups)
    return None


def _groups(fit_params: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what a fit, or a step of one, is given as groups."""
    for name, value in fit_params.items():
        if name.rsplit("__", 1)[-1] == "groups" and value is not None:
            yield value


def _split(
    recorded: _Recorded,
    X: Any,
    y: Any,
    told: PrivacyReport | None,
    whole: bool,
) -> Split:
    """Return what is private of a table."""
    estimator, outcome = recorded.estimator, recorded.baseline
    public = None if told is None else _public(recorded, X, told)
    if public is None:
        raise ValueError(
            "neighbours=None needs a report that names the public columns of X, and "
            "there is none for this estimator: give pairs (X, y) that differ in the "
            "private part of one record."
        )
    events, target = outcome.charges.events, None
    if y is not None and not told.public_target:
        if is_classifier(estimator):
            target = "labels"
        elif is_regressor(estimator):
            target = "numbers"
    read = any(event.classes_source == "data" for event in events)
    read = read or any(one.text == CLASSES_READ for one in told.assumptions)
    refuses = any(
        value == "raise"
        for name, value in estimator.get_params(deep=True).items()
        if name.endswith("on_invalid")
    )
    return Split(~public, target, not read, not refuses, whole)


def _public(recorded: _Recorded, X: Any, told: PrivacyReport) -> np.ndarray | None:
    """Return the mask of the public columns of X, None where it is not known.

    Who is whose is public, and so is a column that tells.
    """
    estimator = recorded.estimator
    names = told.public_sources
    if names is None:
        steps = [estimator, *estimator.get_params(deep=True).values()]
        if told.public_features and any(isinstance(one, Pipeline) for one in steps):
            return None
        names = told.public_features
    known: list[Any] = list(range(n_columns(X)))
    places = {name: place for place, name in enumerate(known)}
    for part in private_parts(estimator).values():
        if getattr(part, "names", None) is not None:
            places |= {name: place for place, name in enumerate(part.names)}
    if hasattr(X, "columns"):
        places |= {str(name): place for place, name in enumerate(X.columns)}
    if not all(name in places for name in names):
        return None
    names = [*names, *(g for g in _groups(recorded.fit_params) if isinstance(g, str))]
    mask = np.zeros(len(known), dtype=bool)
    mask[[places[name] for name in names]] = True
    return mask


def _result(
    recorded: _Recorded,
    told: PrivacyReport | None,
    found: Iterable[Neighbour],
) -> ReplayResult:
    """Replay every neighbour, and put together what was seen."""
    assert recorded.baseline is not None
    seen: dict[tuple[str, str], list[str]] = {}
    moves: list[list[Move]] = []
    names: list[str] = []
    for neighbour in found:
        outcome, around = recorded.replay(neighbour.X, neighbour.y, neighbour.changed)
        moves.append(around.moves)
        names.append(neighbour.name)
        differ = [*around.differences, *recorded.baseline.differences(outcome)]
        for key in dict.fromkeys(differ):
            seen.setdefault(key, []).append(neighbour.name)
    if not moves:
        raise ValueError("neighbours is empty: give at least one pair (X, y).")
    order = [*LEAVES, *INSIDE]
    differences = tuple(
        Difference(kind, where, shown_by[0], len(shown_by))
        for (kind, where), shown_by in sorted(
            seen.items(), key=lambda item: order.index(item[0][0])
        )
    )
    events = recorded.baseline.charges.events
    delta = told.delta if told is not None else _delta(recorded.estimator)
    relation = recorded.releases[0].asked.event.neighboring_relation
    bound = max(gdp_epsilon(delta, _mu(one, events)) for one in moves)
    if any(one.kind in LEAVES for one in differences):
        bound = math.inf
    return ReplayResult(
        subject=type(recorded.estimator).__name__ if told is None else told.subject,
        neighboring_relation=(told and told.neighboring_relation) or relation,
        claimed_epsilon=cost(events, delta).epsilon if told is None else told.epsilon,
        delta=delta,
        lower_bound=bound,
        confidence=1.0,
        n_trials=len(moves),
        differences=differences,
        releases=tuple(_moved(recorded.releases, moves)),
        neighbours=tuple(names),
    )


def _mu(moves: list[Move], charged: tuple[Event, ...]) -> float:
    """Return the Gaussian-DP parameter of two tables on the path of a replay."""
    full = [
        one for one in moves if one.event.sampling_rate == 1 and one.event in charged
    ]
    return math.sqrt(math.fsum((m.distance / m.noise_std) ** 2 for m in full))


def _moved(releases: list[Release], moves: list[list[Move]]) -> Iterator[Moved]:
    """Yield how far each label moved at most."""
    labels = list(dict.fromkeys(one.asked.event.label for one in releases))
    every = [one for replay in moves for one in replay]
    for label in labels:
        mine = [one for one in every if one.event.label == label]
        yield Moved(
            label=label,
            n_releases=sum(one.asked.event.label == label for one in releases),
            sensitivity=max((one.sensitivity for one in mine), default=math.nan),
            largest=max((one.distance / one.sensitivity for one in mine), default=0.0),
        )


def _delta(estimator: Any) -> float:
    return max(part.delta for part in private_parts(estimator).values())


def _own(values: Any) -> Any:
    """Return a copy: a step that works in place would change what comes after."""
    if values is None:
        return None
    return values.copy() if hasattr(values, "iloc") else copy.deepcopy(values)


#: Whose classes are no user's.
_KNOWN_ROOMS = {"skfdp", "sklearn", *sys.stdlib_module_names}


def _files(estimator: Any) -> set[str]:
    """Return the files of users' classes in an estimator, as their code names them."""
    parts = [estimator, *estimator.get_params(deep=True).values()]
    kinds = {
        kind for part in parts if hasattr(part, "fit") for kind in type(part).__mro__
    }
    found = set()
    for kind in kinds:
        if kind.__module__.partition(".")[0] in _KNOWN_ROOMS:
            continue
        functions = [inspect.unwrap(v) for v in vars(kind).values() if callable(v)]
        found |= {f.__code__.co_filename for f in functions if hasattr(f, "__code__")}
    return found
