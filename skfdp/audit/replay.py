"""Audit by replay: repeat a fit on neighbours with recorded releases, and compare."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import io
import itertools
import logging
import math
import random
import traceback
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.pipeline import Pipeline

from skfdp.addresses import public
from skfdp.audit.mechanism import AuditResult
from skfdp.base import PrivateEstimator
from skfdp.data.grid import as_dense
from skfdp.data.units import numbered
from skfdp.data.validation import check_number
from skfdp.mechanisms import noise
from skfdp.mechanisms.noise import Asked
from skfdp.privacy.accounting import cost, gdp_epsilon, is_listed
from skfdp.privacy.assumptions import CLASSES_READ
from skfdp.privacy.checks import shown
from skfdp.privacy.entries import Receipt, new_entries
from skfdp.privacy.events import ROUNDING, Event, PrivacyBudgetError, Relation
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.pipelines import report
from skfdp.privacy.report import PrivacyReport
from skfdp.solvers.parameters import declared_by

# Compare two objects, down to the last bit of their arrays.


#: Types whose values are compared directly.
_WHOLE = (
    *(int, str, bytes, complex, type(None), type(...), range, slice, set, frozenset),
    *(type, types.ModuleType, types.BuiltinFunctionType, CodeType),
)
_Parts = tuple[Any, list[tuple[str, Any]]]


def apart(
    one: Any, other: Any, place: str = "", seen: dict[tuple, tuple] | None = None
) -> Iterator[str]:
    """Yield the places where two objects differ.

    Objects are compared by type and by their pickled state. A place is a path of
    attributes and positions, such as ``steps[0].mean_``. It never contains a key, a
    value, or a name that only one of the objects has. Some objects, such as locks, have
    no state that Python can read; they are compared by type only. Ledgers and receipts
    are skipped, because charges are compared separately, and receipts are random.
    """
    seen = {} if seen is None else seen
    pair = id(one), id(other)
    if one is other or pair in seen or isinstance(one, PrivacyLedger | Receipt):
        return
    seen[pair] = one, other  # keeps temporary states alive, so that ids stay unique
    if type(one) is type(other):
        (here, mine), (there, theirs) = _split(one), _split(other)
        if here == there and len(mine) == len(theirs):
            for (name, part), (_, another) in zip(mine, theirs, strict=True):
                yield from apart(part, another, place + name, seen)
            return
    yield place.removeprefix(".")


def differ(one: Any, other: Any) -> bool:
    """Whether two objects differ anywhere."""
    return next(apart(one, other), None) is not None


def _split(value: Any) -> _Parts:
    """Split a value: return what to compare by ``==``, and a list (place, object).

    The list has the objects inside the value, which `apart` compares in turn.
    """
    if isinstance(value, np.generic | np.ndarray):
        if value.dtype.hasobject:
            return (value.dtype, value.shape), _in_order(value.ravel().tolist())
        return (value.dtype, value.shape, value.tobytes()), []
    if isinstance(value, float):
        return value.hex(), []  # compared as text, so that NaN equals NaN
    if isinstance(value, _WHOLE):
        return value, []
    if isinstance(value, (list, tuple)):
        return None, _in_order(value)
    if isinstance(value, dict):  # the order of keys can be observed, too
        keys = [(type(k), k if isinstance(k, _WHOLE) else None) for k in value]
        others = [k for k in value if not isinstance(k, _WHOLE)]
        return keys, [*_in_order(others), *_in_order(value.values())]
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        held = value.__code__, value.__defaults__, value.__kwdefaults__, cells
        return None, _in_order(held)
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # not picklable
        return _by_name(getattr(value, "__dict__", {}))
    if isinstance(reduced, str):
        return reduced, []
    function, arguments, *rest = reduced
    rest = [list(part) if hasattr(part, "__next__") else part for part in rest]
    made_bare = getattr(function, "__name__", "") == "__newobj__"
    made_bare = made_bare and len(arguments) == 1 and not any(rest[1:])
    if made_bare and rest and isinstance(rest[0], dict):
        return _by_name(rest[0])
    return None, _in_order((function, arguments, rest))


def _in_order(values: Iterable) -> list[tuple[str, Any]]:
    return [(f"[{number}]", value) for number, value in enumerate(values)]


def _by_name(state: dict) -> _Parts:
    return list(state), [(f".{name}", held) for name, held in state.items()]


# Neighbours of a table: the private values of one record or person are replaced.


#: Functions that return a replacement of a number, by name. Their arguments are a
#: random generator and the column of the number.
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
#: Kinds of changes that replace a text or a label by another value of its column.
_KNOWN = ("another record's values", "values drawn anew")
#: Replacements of cells in text columns, and in object columns; used in turn.
_TEXTS = (None, "no such category", "")
_NO_NUMBERS = (None, float("nan"), "no such category", "", -7, 1e308, b"\xff", (1,))
#: Replacements of labels in object columns; used in turn.
_NO_LABELS = (None, float("nan"), "no such label", 7, -1, [1])


@dataclasses.dataclass(frozen=True)
class Split:
    """The private values of a table, and how they may be replaced."""

    private: np.ndarray  # mask of the private columns
    target: str | None  # "labels" or "numbers"; None if y is public or missing
    #: Whether classes are declared. The changed label of a neighbour may then be any
    #: value, even one that is not declared.
    declared: bool
    whole: bool  # whether the last record is added or removed, instead of replaced
    persons: np.ndarray | None = None  # person of each row, if persons are protected


class Neighbour(NamedTuple):
    """A table that differs from the audited one in one record's private values.

    If persons are protected, it differs in the private values of one person.
    """

    name: str  # description of the change
    X: Any
    y: Any
    changed: np.ndarray  # positions of the record, or of all rows of the person


def tables(X: Any, y: Any) -> tuple[Any, Any]:
    """Return X and y as frames, sparse matrices or arrays."""
    X = X if issparse(X) or hasattr(X, "iloc") else np.asarray(X)
    y = y if y is None or hasattr(y, "iloc") else np.asarray(y)
    if len(X.shape) != 2 or (y is not None and y.shape[:1] != X.shape[:1]):
        raise ValueError(
            f"X and y have shapes {X.shape} and {None if y is None else y.shape}: "
            "expected rows with columns, and one target for each row."
        )
    return X, y


def neighbouring_tables(
    X: Any, y: Any, split: Split, rng: np.random.Generator, n_neighbors: int
) -> Iterator[Neighbour]:
    """Yield neighbours of a table; equal states of `rng` give equal neighbours."""
    kinds = [*FINITE, *MALFORMED]
    parts = ["row"] * bool(split.private.any()) + ["target"] * bool(split.target)
    parts += ["row and target"] * (len(parts) == 2)
    known = list(itertools.product(kinds, parts))
    order = itertools.cycle(rng.permutation(len(known)))
    own_persons = split.persons is not None
    persons = split.persons if own_persons else np.arange(X.shape[0])
    for number in range(n_neighbors):
        kind, part = known[next(order)]
        last = int(persons.max())
        person = last if split.whole else int(rng.integers(last + 1))
        rows = own = np.flatnonzero(persons == person)
        name = f"all rows of person {person}" if own_persons else f"record {person}"
        if len(own) > 1 and rng.random() < 0.3:  # only some rows differ
            size = int(rng.integers(1, len(own)))
            rows = np.sort(rng.choice(own, size, replace=False))
            name = f"some rows of person {person}"
        other, target, change = X, y, _Change(kind, number, rng)
        for record in rows.tolist():
            if "row" in part:
                other = change.row(other, record, split.private)
            if "target" in part:
                target = change.target(target, record, split)
        yield Neighbour(f"{kind} in the {part} of {name}", other, target, own)


class _Change(NamedTuple):
    """The change of private values that makes one neighbour."""

    kind: str
    number: int
    rng: np.random.Generator

    def row(self, X: Any, record: int, private: np.ndarray) -> Any:
        """Return a table with other values in the private columns of a record."""
        sparse = issparse(X)
        found = X.tolil() if sparse else X.copy()
        cells, known = (getattr(one, "iloc", one) for one in (found, X))
        for j in np.flatnonzero(private).tolist():
            column = np.asarray(as_dense(known[:, j])).ravel()
            cells[record, j] = self._cell(column, known[:, j].dtype)
        return type(X)(found) if sparse else found

    def target(self, y: Any, record: int, split: Split) -> Any:
        """Return a target of the same type with another value for one record."""
        found, values, rng = y.copy(), np.asarray(y), self.rng
        if values.ndim != 1:
            value = values[rng.integers(len(values))]
        elif split.target == "numbers":
            value = self._cell(values, values.dtype)
        elif split.declared and self.kind not in _KNOWN:
            value = {
                "O": _NO_LABELS[self.number % len(_NO_LABELS)],
                "U": "?",
                "b": bool(rng.integers(2)),
                "f": (np.nan, np.inf, 0.5)[self.number % 3],
            }.get(values.dtype.kind, (100, 0)[self.number % 2])
        else:
            # If classes are not declared, the set of labels must stay the same.
            labels, value = values.tolist(), values[record]
            others = [label for label in labels if label != value]
            if others and (split.declared or labels.count(value) > 1):
                value = others[rng.integers(len(others))]
        getattr(found, "iloc", found)[record] = value
        return found

    def _cell(self, values: np.ndarray, dtype: Any) -> Any:
        another, known = values[self.rng.integers(len(values))], self.kind in _KNOWN
        if not isinstance(dtype, np.dtype):  # a dtype of pandas
            if str(dtype).startswith("str") and not known:
                return _TEXTS[self.number % len(_TEXTS)]
            return dtype.na_value if self.kind in MALFORMED else another
        if values.dtype.kind in "fiu":
            finite = values[np.isfinite(values)].astype(np.float64)
            make = (FINITE | MALFORMED)[self.kind]
            found = float(make(self.rng, finite if len(finite) else np.zeros(1)))
            integral = values.dtype.kind in "iu"
            if np.isnan(found) and integral:
                return self.rng.choice(values)
            if not np.isfinite(found) and not integral:
                return found
            limits = np.iinfo(values.dtype) if integral else np.finfo(values.dtype)
            # Compare integers, because some limits are not exact in float64.
            low, high = int(limits.min), int(limits.max)
            return values.dtype.type(min(max(found, low), high))
        if values.dtype.kind == "M" and self.kind in MALFORMED:
            return np.array("NaT", dtype=values.dtype)[()]
        if values.dtype.kind == "O" and not known:
            return _NO_NUMBERS[self.number % len(_NO_NUMBERS)]
        return another


def checked(
    given: Iterable[tuple[Any, Any]],
    X: Any,
    y: Any,
    public: np.ndarray | None,
    whole: bool,
    persons: np.ndarray | None,
) -> Iterator[Neighbour]:
    """Yield the tables that a user gives; raise ValueError unless they are neighbours.

    `public` is the mask of the public columns, which must be equal in both tables; None
    skips this check. With `whole`, neighbours have one more or one fewer record.
    """
    wanted = _keys(X, y)
    units = np.arange(len(wanted)) if persons is None else persons
    for number, pair in enumerate(given):
        name = f"neighbors[{number}]"
        if not (isinstance(pair, tuple | list) and len(pair) == 2):
            raise ValueError(
                f"{name} must be a pair (X, y): pass y=None without a target."
            )
        other, target = tables(*pair)
        alike = type(other) is type(X) and other.shape[1] == X.shape[1]
        found = _keys(other, target) if alike else []
        both = zip(wanted, found, strict=False)
        rows = [row for row, (here, there) in enumerate(both) if here != there]
        own = np.unique(units[np.array(rows, dtype=np.int64)])
        public_differs = False
        if public is not None and rows:
            here, there = (_keys(table, None, public) for table in (X, other))
            public_differs = any(here[row] != there[row] for row in rows)
        proper = abs(len(found) - len(wanted)) == whole and len(own) <= (not whole)
        if not alike or not proper or public_differs:
            raise ValueError(
                f"{name} is not a neighbour: give an X of the same type and width, "
                "which differs only in the private part of one record, or of one "
                "person's rows; under 'add_or_remove_one' only by the last record."
            )
        last = np.array([min(len(found), len(wanted))])
        changed = last if whole else np.flatnonzero(np.isin(units, own))
        yield Neighbour(name, other, target, changed)


def _keys(X: Any, y: Any, columns: Any = slice(None)) -> list[tuple[str, str]]:
    """Return one key for each record. Only equal records have equal keys."""
    cells = np.asarray(as_dense(X), dtype=object)
    rows = map(repr, cells[:, columns].tolist())
    targets = [None] * X.shape[0] if y is None else np.asarray(y).tolist()
    return list(zip(rows, map(repr, targets), strict=True))


# Two replay contexts: one records releases, the other repeats them.


class ReplayDiffers(BaseException):
    """Ends a replay that requests other releases than the recorded ones.

    It derives from BaseException, so ``except Exception`` in a fit does not catch it.
    """


class Release(NamedTuple):
    """One recorded release."""

    asked: Asked  # the request, with copies of batch and theta
    facts: dict[str, Any]  # public facts, which must be equal for neighbours
    total: np.ndarray  # exact sum over the batch, in grid units
    whole: np.ndarray  # exact sum over every row, in grid units
    answer: np.ndarray  # the released noisy sum


class Move(NamedTuple):
    """Change of one sum between neighbours, on the scale of the released sum.

    Numbers are not in grid units.
    """

    event: Event
    distance: float
    sensitivity: float
    noise_std: float


class Recording:
    """Replay context that records each release.

    The random numbers of a fit come from streams, each with its own key. Here the key
    is a hash of the stream's name and of the number of earlier streams of this name. So
    anybody can compute the key.
    """

    def __init__(self) -> None:
        self._opened: Counter[str] = Counter()
        self.releases: list[Release] = []

    def key(self, stream: str) -> int:
        """Return the key of the next stream of this name."""
        name = f"{stream}#{self._opened[stream]}"
        self._opened[stream] += 1
        digest = hashlib.blake2b(name.encode(), digest_size=16, person=b"skfdp audit")
        return int.from_bytes(digest.digest(), "little")

    def release(self, asked: Asked, noisy_sum: Callable[[], np.ndarray]) -> np.ndarray:
        """Return a release, and record it."""
        kept = dataclasses.replace(
            asked, batch=copy.copy(asked.batch), theta=copy.copy(asked.theta)
        )
        sums, answer = _exact_sums(kept), noisy_sum()
        self.releases.append(Release(kept, _facts_of(kept), *sums, answer.copy()))
        return answer


class Repeating(Recording):
    """Replay context that returns recorded releases, and measures changes of sums."""

    def __init__(self, recorded: list[Release], n_records: int, changed: np.ndarray):
        super().__init__()
        self._recorded, self._n_records = recorded, n_records
        self._changed = changed
        self._drawn: set[str] = set()
        self.moves: list[Move] = []
        #: Kind and place of each difference.
        self.differences: list[tuple[str, str]] = []

    @property
    def n_left(self) -> int:
        """Number of recorded releases that were not requested yet."""
        return len(self._recorded) - len(self.moves)

    def release(self, asked: Asked, noisy_sum: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the recorded release, and note how the request for it differs.

        The replay ends if the label, the query or the shape differs, or if no recorded
        release is left.
        """
        label = repr(asked.event.label)
        if not self.n_left:
            self.differences.append(("release", f"{label} is requested in addition"))
            raise ReplayDiffers
        wanted = self._recorded[len(self.moves)]
        free = () if asked.event.relation.counts_are_public else ("n_rows",)
        facts = {n: fact for n, fact in _facts_of(asked).items() if n not in free}
        names = [n for n, fact in facts.items() if wanted.facts[n] != fact]
        self.differences += [("release", f"{label} has another {n}") for n in names]
        if {"label", "query", "shape"} & {*names}:
            raise ReplayDiffers
        move = self._move(wanted, asked)
        self.moves.append(move)
        found = {
            "theta": differ(asked.theta, wanted.asked.theta),
            "batch": not self._same_batch(wanted.asked, asked),
            "distance": move.distance > move.sensitivity * (1 + ROUNDING),
        }
        self.differences += [(kind, label) for kind, is_so in found.items() if is_so]
        return wanted.answer.copy()

    def _same_batch(self, one: Asked, other: Asked) -> bool:
        """Whether two releases sum the same rows.

        Null rows, and a row that only one table has, are not compared. If the tables
        have different numbers of rows, only the first batch of each event is compared.
        """
        first = other.event.label not in self._drawn
        self._drawn.add(other.event.label)
        if one.query.n_rows != other.query.n_rows and not first:
            # The later batches of the two tables use different random words; see
            # `audit_replay`.
            return True
        rows = np.arange(min(one.query.n_rows, other.query.n_rows))
        differs = np.zeros(len(rows), dtype=bool)
        for asked in (one, other):
            differs ^= True if asked.batch is None else np.isin(rows, asked.batch)
        for asked in (one, other):
            if asked.is_null is not None:
                differs &= ~asked.is_null[: len(rows)]
        return not differs.any()

    def _move(self, wanted: Release, asked: Asked) -> Move:
        """Return the change of this sum between the two tables.

        Under "replace_special" each table is compared with the table in which the
        changed record or person is null. The change of the sum is then the contribution
        of this record or person. All others must contribute the same in both tables. If
        they do not, the difference of their contributions is added.
        """
        query, relation = asked.query, asked.event.relation
        total, whole = _exact_sums(asked)
        distance = _length(wanted.whole - whole)
        if relation.name == "replace_special":
            if len(self._changed):
                rows, others = self._changed, 1.0
                if query.n_rows == self._n_records:
                    distance, others = _added(wanted, asked, rows)
                # A fit may leave rows out, or take them in another order. Then find the
                # changed rows by their contributions.
                if others:
                    rows = _differing_rows(wanted, asked, len(rows))
                    distance = sum(_added(wanted, asked, rows)) if len(rows) else 0.0
        # If the numbers of rows differ, the batches may differ, too.
        elif wanted.asked.query.n_rows == query.n_rows:
            distance = max(distance, _length(wanted.total - total))
        return Move(
            event=asked.event,
            distance=distance * query.unit(asked.noise_std),
            sensitivity=query.sensitivity(relation),
            noise_std=asked.noise_std,
        )


def _facts_of(asked: Asked) -> dict[str, Any]:
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


def _exact_sums(asked: Asked) -> tuple[np.ndarray, np.ndarray]:
    """Return the exact sums over the batch and over every row that is not null."""
    unit = asked.query.unit(asked.noise_std)
    total = asked.query.exact_sum(asked.theta, asked.batch, unit).copy()
    if asked.event.sampling_rate == 1:
        return total, total
    return total, _partial(asked, asked.theta, np.arange(asked.query.n_rows))


def _added(wanted: Release, asked: Asked, own: np.ndarray) -> tuple[float, float]:
    """Return the largest norm of the sum over `own`, and how far all others move."""
    others = np.delete(np.arange(asked.query.n_rows), own)
    sums = [_partial(one, asked.theta, own) for one in (wanted.asked, asked)]
    return max(map(_length, sums)), _length(_moved(wanted, asked, others))


def _moved(wanted: Release, asked: Asked, rows: np.ndarray) -> np.ndarray:
    """Return by how much the sum over `rows` differs between the two tables."""
    one, other = (_partial(a, asked.theta, rows) for a in (wanted.asked, asked))
    return one - other


def _differing_rows(wanted: Release, asked: Asked, most: int) -> np.ndarray:
    """Return the positions of at most `most` rows whose contributions differ.

    They are found one by one, by bisection.
    """
    rows, found = np.arange(asked.query.n_rows), []
    while len(found) < most and _moved(wanted, asked, rows).any():
        half = rows
        while len(half) > 1:
            first, second = np.split(half, [len(half) // 2])
            half = first if _moved(wanted, asked, first).any() else second
        found.append(int(half[0]))
        rows = rows[rows != half[0]]
    return np.array(found, dtype=np.int64)


def _partial(asked: Asked, theta: np.ndarray | None, rows: np.ndarray) -> np.ndarray:
    """Return the exact sum over `rows`, without the null rows among them."""
    if asked.is_null is not None:
        rows = rows[~asked.is_null[rows]]
    unit = asked.query.unit(asked.noise_std)
    return asked.query.exact_sum(theta, rows, unit).copy()


def _length(total: np.ndarray) -> float:
    """Return the norm of an array of int64, whose squares are summed exactly.

    If the number of rows is private, sums are computed modulo 2**64. The difference of
    two sums is nevertheless exact.
    """
    return math.sqrt(sum(entry * entry for entry in total[total != 0].tolist()))


# Outcomes of fits: everything that can be observed.


_ELSEWHERE = (
    "a private fit runs in another thread or process (n_jobs), where an audit cannot "
    "see its releases: audit it with n_jobs=None, which gives the same results."
)
#: Methods of the fitted model whose results are compared, and the number of rows that
#: are passed to them.
_METHODS, _PROBED = ("predict", "predict_proba", "decision_function", "transform"), 20


class Charges(PrivacyLedger):
    """Ledger that records the charges of one fit in this thread."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[tuple[tuple[Event, ...], str | None]] = []

    def __reduce__(self) -> tuple:
        # A copy in another process has no open replay, so it refuses charges.
        return Charges, ()

    def charge(
        self, events: Iterable[Event], *, label: str | None = None, name: Any = None
    ) -> Receipt:
        """Record a charge, and return its receipt."""
        if noise.current() is None:
            raise ValueError(_ELSEWHERE)
        self.given.append((tuple(events), label))
        entries = new_entries(self.given[-1][0], label)
        return self._receipt(*self._store.append(entries, lambda terms, recorded: None))

    def charge_nonprivate(self, *, label: str | None = None) -> None:
        """Refuse fits without privacy."""
        raise ValueError(
            "epsilon=inf makes no privacy claim to audit: give every private part a "
            "finite epsilon."
        )


class Outcome(NamedTuple):
    """Everything that can be observed of a fit."""

    model: Any
    error: Exception | None
    complete: bool  # False if the replay ended because its releases differed
    charges: Charges
    left: dict[str, dict[str, Any]]  # other observations, by kind and place

    def differences(self, other: Outcome) -> Iterator[tuple[str, str]]:
        """Yield kind and place of each difference from the outcome of a neighbour."""
        if not other.complete:
            return
        errors = [(type(one.error), str(one.error)) for one in (self, other)]
        if errors[0] != errors[1]:
            yield "exception", "the fit"
            return
        for place in apart(self.model, other.model):
            yield "attribute", place or "the model"
        for kind, left in self.left.items():
            for place, found in left.items():
                if differ(found, other.left[kind][place]):
                    yield kind, place


def private_parts(estimator: Any) -> dict[str, PrivateEstimator]:
    """Return the estimators of this package inside an estimator, by parameter prefix.

    The estimator itself has the prefix "".
    """
    params = estimator.get_params(deep=True).items()
    parts = {"": estimator} | {f"{name}__": value for name, value in params}
    return {p: part for p, part in parts.items() if isinstance(part, PrivateEstimator)}


def prepared(estimator: Any, ledger: PrivacyLedger | None) -> Any:
    """Return an unfitted copy without seeds, whose private parts charge one ledger."""
    model = clone(estimator)
    for part in private_parts(model).values():
        part.set_params(random_state=None, ledger=ledger)
    return model


@contextlib.contextmanager
def _heard(left: dict[str, dict[str, Any]]) -> Iterator[None]:
    """Capture output, warnings and logs, and restore the global random generators.

    Debug messages of the compiler are not captured, because they depend on its caches.
    """
    out, err, log = io.StringIO(), io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(log)
    handler.setFormatter(logging.Formatter("%(name)s %(levelno)s %(message)s"))
    root, compiler = logging.getLogger(), logging.getLogger("numba")
    levels = root.level, compiler.level
    states = np.random.get_state(), random.getstate()  # noqa: NPY002
    with (
        warnings.catch_warnings(record=True, action="always") as caught,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        np.random.seed(0)  # noqa: NPY002
        random.seed(0)
        compiler.setLevel(compiler.level or logging.WARNING)
        root.setLevel(1)
        root.addHandler(handler)
        try:
            yield
        finally:
            root.removeHandler(handler)
            root.setLevel(levels[0])
            compiler.setLevel(levels[1])
            captured = {
                "warning": [(one.category, str(one.message)) for one in caught],
                "output": (out.getvalue(), err.getvalue()),
                "log": log.getvalue(),
                "global generator": (np.random.get_state(), random.getstate()),  # noqa: NPY002
            }
            left |= {kind: {"the fit": found} for kind, found in captured.items()}
            np.random.set_state(states[0])  # noqa: NPY002
            random.setstate(states[1])


#: Text of a difference, by its kind. Differences in `INSIDE` cannot be observed outside
#: the fit, but violate an assumption of the accounting.
LEAVES = {
    "attribute": "{} differs in the fitted model",
    "prediction": "{} differs for the same rows",
    "release": "the requested releases differ: {}",
    "charge": "{} gets different charges",
    "warning": "{} warns differently",
    "output": "{} prints a different text",
    "log": "{} logs different records",
    "exception": "{} raises a different exception, or none",
    "global generator": "{} leaves a global random generator in another state",
}
INSIDE = {
    "distance": "the sum of {} changes by more than its sensitivity",
    "theta": "{} is computed at other weights, which do not follow from releases",
    "batch": "{} sums other rows",
}


@public("skfdp.audit")
@dataclasses.dataclass(frozen=True)
class Difference:
    """A difference between neighbours that the releases do not explain.

    Attributes
    ----------
    kind : str
        "attribute", "prediction", "release", "charge", "warning", "output", "log",
        "exception" or "global generator", which can be observed outside the fit;
        "distance", "theta" or "batch", which cannot.
    where : str
        The release, attribute or method that differs; never a value.
    first : str
        The first neighbour with this difference.
    n_replays : int
        Number of replays with this difference.
    """

    kind: str
    where: str
    first: str
    n_replays: int

    def __str__(self) -> str:
        text = (LEAVES | INSIDE)[self.kind].format(self.where)
        return f"{text} ({self.n_replays} replays, the first one with {self.first})."


@public("skfdp.audit")
@dataclasses.dataclass(frozen=True)
class ReleaseChange:
    """Largest change, between neighbours, of the sums released under one label.

    Attributes
    ----------
    label : str
    n_releases : int
        Number of recorded releases with this label.
    sensitivity : float
        The largest sensitivity of the sums with this label, on the scale of the
        released sums (not in grid units).
    largest : float
        The largest change of a sum, divided by its sensitivity. If the sensitivities
        hold, it is at most 1, up to rounding by 1e-9.
    """

    label: str
    n_releases: int
    sensitivity: float
    largest: float


@public("skfdp.audit")
@dataclasses.dataclass(frozen=True, kw_only=True)
class ReplayResult(AuditResult):
    """Result of `audit_replay`: differences, and changes of the sums.

    The numbers depend on private values and have no noise: protect them as the table.

    Attributes
    ----------
    subject, neighboring_relation, claimed_epsilon, delta
        See `AuditResult`. The claim is that of the report or, without a report, the
        cost of all charged events.
    lower_bound : float
        Infinite if an observable difference distinguishes two neighbours. Otherwise it
        is the epsilon at `delta` of the worst neighbour, for the Gaussian-DP parameter
        ``sqrt(sum (distance / std)**2)``. The sum is over the charged full-batch
        releases of the recorded fit; ``distance`` is the change of a released sum. If
        no sum depends on earlier releases, the result is exact for the two tables. If a
        sum depends on them, as in gradient descent, the result is only an indication,
        because distances are those at the recorded weights. Releases of Poisson batches
        count as 0.
    confidence : float
        Always 1, because nothing is estimated.
    n_trials : int
        Number of replays.
    differences : tuple of Difference
    releases : tuple of ReleaseChange
    neighbors : tuple of str
        Descriptions of the neighbours, one for each replay.
    """

    audit = "replay"

    differences: tuple[Difference, ...] = ()
    releases: tuple[ReleaseChange, ...] = ()
    neighbors: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether there is no difference."""
        return not self.differences

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *map(str, self.differences)])


class _Recorded:
    """A recorded fit, which can be repeated on other tables."""

    def __init__(self, estimator: Any, X: Any, y: Any, fit_params: Mapping[str, Any]):
        self.estimator, self._fit_params, self._X = estimator, fit_params, X
        around = Recording()
        self.releases = around.releases
        first = self._performed(X, y, around)
        if (error := first.error) is not None:
            _, *frames = traceback.walk_tb(error.__traceback__)
            names = [str(frame.f_globals.get("__name__")) for frame, _ in frames]
            ours = any(name.partition(".")[0] == "skfdp" for name in names)
            if ours or str(error) == _ELSEWHERE:
                raise error
            raise ValueError(
                f"a step that is not from skfdp raised {type(error).__name__}; its "
                "message is withheld because it may quote data: call `fit` to see it."
            )
        asked = [one.asked.event for one in self.releases]
        self.charged = tuple(e for events, _ in first.charges.given for e in events)
        if not asked or any(event not in asked for event in self.charged):
            raise ValueError(
                "a charged release was not made in this thread: let every private part "
                "run with n_jobs=None, which gives the same results."
            )
        # Repeat the fit on the same table. This also loads all code and fills all
        # caches.
        self.baseline, again = self.replay(X, y, np.array([], dtype=np.int64))
        found = [*again.differences, *first.differences(self.baseline)]
        if not self.baseline.complete or any(kind in _REPEATED for kind, _ in found):
            where = ", ".join(dict.fromkeys(place for _, place in found))
            raise ValueError(
                f"two fits on one table differ ({where}): set a fixed random_state in "
                "every part that is not from this package."
            )

    def _performed(self, X: Any, y: Any, around: Recording) -> Outcome:
        """Fit a copy inside a replay, and return its outcome."""
        charges, predictions = Charges(), {}
        model, error, complete = prepared(self.estimator, charges), None, True
        left = {"charge": {"the ledger": charges.given}, "prediction": predictions}
        # Copy the data, because a step that works in place would change them for later
        # fits.
        X, y, probe = copy.deepcopy((X, y, self._X[:_PROBED]))
        with _heard(left):
            try:
                with noise.opened(around):
                    model.fit(X, y, **self._fit_params)
            except ReplayDiffers:
                complete = False
            except Exception as found:
                error = found
            for method in _METHODS if complete and error is None else ():
                try:
                    predictions[method] = getattr(model, method)(probe)
                except Exception as refusal:  # for example, the method is missing
                    predictions[method] = type(refusal), str(refusal)
        return Outcome(model, error, complete, charges, left)

    def replay(self, X: Any, y: Any, changed: np.ndarray) -> tuple[Outcome, Repeating]:
        """Fit another table with the recorded releases."""
        around = Repeating(self.releases, self._X.shape[0], changed)
        outcome = self._performed(X, y, around)
        if outcome.complete and outcome.error is None and around.n_left:
            around.differences.append(("release", "there are fewer"))
        return outcome, around


#: Kinds of observations in which a second fit must equal the first. The first fit loads
#: code, so its warnings, log records and output may differ.
_REPEATED = frozenset(LEAVES | INSIDE) - {"warning", "log", "output"}


@public("skfdp.audit")
def audit_replay(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    neighbors: Iterable[tuple[Any, Any]] | None = None,
    n_neighbors: int = 24,
    fit_params: Mapping[str, Any] | None = None,
    random_state: int = 0,
) -> ReplayResult:
    """Record a fit, and repeat it on neighbouring tables with the same releases.

    A private fit may reveal a record only through its noisy sums. In this audit the
    sampling is fixed, and every fit on a neighbouring table gets the recorded releases
    instead of its own. Then only the exact sums may differ between neighbours, by at
    most their sensitivity. Any other difference is a leak.

    Parameters
    ----------
    estimator : estimator
        An estimator of this package or a subclass, a Pipeline with such estimators, or
        a scikit-learn meta-estimator around them. It is cloned and not fitted itself.
        In the clone, ledgers are replaced by a temporary one, and integer seeds of
        private parts are removed.
    X, y
        As for `fit`. Synthetic records are enough.
    neighbors : iterable of (X, y), default=None
        Tables that differ from X and y in the private part of one record. With `groups`
        in `fit_params`, they may differ in the rows of one person. Under
        "add_or_remove_one" they have one more or one fewer record, the last one. None
        generates neighbours. Numbers are replaced by those of other records, and by
        random, extreme, missing and infinite ones. Labels are replaced by other labels,
        and by undeclared ones if `classes` are declared.
    n_neighbors : int, default=24
        Number of neighbours to generate.
    fit_params : dict, default=None
        Further arguments of `fit`. With `groups` (for a step of a Pipeline:
        ``step__groups``) neighbours differ in all or some rows of one person.
    random_state : int, default=0
        Seed of the generated neighbours.

    Returns
    -------
    result : ReplayResult

    Raises
    ------
    TypeError
        If the estimator contains no estimator of this package.
    ValueError
        If a part has ``epsilon=inf``; if two fits on one table differ, because a part
        of another package has no fixed seed; if private parts run in other threads or
        processes; if a given table is not a neighbour; or if `neighbors` is None and
        the public columns of a Pipeline's table are unknown.

    Notes
    -----
    **Checked** in each replay:

    * labels, streams, queries, shapes, bounds, units, noise and order of all releases,
      and the weights at which sums are computed, which must be equal because earlier
      releases are equal;
    * the rows of each batch, and the change of the exact integer sums;
    * all attributes of the fitted model, its report and its predictions;
    * charges, warnings, printed text, log records, exceptions, and the states of the
      global random generators.

    Under "replace_special" each table is compared with the one in which the record is
    null. So the change of a sum is the contribution of the record in either table. For
    Poisson batches the sum over every row is compared as well. Under
    "add_or_remove_one" only the first batch of each event is compared: the order of
    random words in later batches depends on the number of rows.

    **Not checked:**

    * time, memory, and which lines run, if this has no observable effect;
    * the distributions of noise and sampling (`audit_mechanism` tests these), and
      whether their keys are secret;
    * values that were not tried, and code paths that the recorded releases do not
      reach;
    * output to files, to a network, or by compiled code;
    * information about the rows in other arguments of `fit`, such as parameters that
      were chosen by looking at the rows.

    **Audited fits are not private**, because anybody can compute their random numbers.
    Their models are discarded, and their events are marked as seeded. Fits in other
    threads draw real noise meanwhile. Output and warnings of other threads are taken
    for those of the audited fit.

    References
    ----------
    Similar to the grey-box audits of Cebere et al. (2026), arXiv:2602.17454.

    Examples
    --------
    >>> import numpy as np
    >>> from skfdp import DPSGDFClassifier
    >>> from skfdp.audit import audit_replay
    >>> from skfdp.solvers import NoisyGradientDescent
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.random((50, 3)), rng.integers(2, size=50)
    >>> model = DPSGDFClassifier(
    ...     bounds=(0, 1), classes=[0, 1], solver=NoisyGradientDescent(max_iter=2)
    ... )
    >>> result = audit_replay(model, X, y, n_neighbors=4)
    >>> result.passed, result.differences
    (True, ())
    """
    check_number("n_neighbors", n_neighbors, integral=True)
    check_number(
        "random_state", random_state, include_low=True, integral=True, also=(None,)
    )
    if not isinstance(fit_params, Mapping | None):
        raise TypeError(
            f"fit_params={shown(fit_params)} must be None or a dict of arguments by "
            "name."
        )
    if neighbors is not None and not is_listed(neighbors):
        raise TypeError(
            f"neighbors={shown(neighbors)} must be None or a list of pairs (X, y)."
        )
    made = hasattr(estimator, "get_params") and not isinstance(estimator, type)
    parts = private_parts(estimator) if made else {}
    if not parts:
        raise TypeError(
            f"estimator={shown(estimator)} must be an estimator of this package, or "
            "contain one."
        )
    for prefix, part in parts.items():
        if math.isinf(part.epsilon):
            raise ValueError(
                f"{prefix}epsilon=inf makes no privacy claim to audit: pass a finite "
                "epsilon."
            )
    X, y = tables(X, y)
    whole = any(
        not Relation.of(part.neighboring_relation).counts_are_public
        for part in parts.values()
    )
    base = X, y
    if whole and neighbors is None:
        base = X[:-1], None if y is None else y[:-1]
    fit_params = dict(fit_params or {})
    groups = [
        held
        for name, held in fit_params.items()
        if f"__{name}".endswith("__groups") and held is not None
    ]
    schemas = [declared_by(part, "schema") for part in parts.values()]
    groups += [one.group for one in schemas if one is not None and one.group in X]
    persons, columns = None, [one for one in groups if isinstance(one, str)]
    if groups:
        persons = numbered(base[0][columns[0]] if columns else groups[0])
    recorded = _Recorded(estimator, *base, fit_params)
    try:
        claim = report(recorded.baseline.model)
        steps = [estimator, *estimator.get_params(deep=True).values()]
        piped = any(isinstance(one, Pipeline) for one in steps)
        names = claim.public_sources
        if names is None and not (piped and claim.public_features):
            names = claim.public_features
        # The columns that identify persons are public, too.
        public = None if names is None else mask_of([*names, *columns], base[0])
    except (ValueError, PrivacyBudgetError):
        claim = public = None
    if neighbors is not None:
        found = checked(neighbors, *base, public, whole, persons)
    elif public is None:
        raise ValueError(
            "neighbors=None needs a report with the public columns of X, which this "
            "estimator does not have: give pairs (X, y) that differ in the private "
            "part of one record."
        )
    else:
        target = None
        if y is not None and not claim.public_target:
            target = "numbers" if is_regressor(estimator) else None
            target = "labels" if is_classifier(estimator) else target
        read = any(e.classes_source == "data" for e in recorded.charged)
        read = read or any(one.key == CLASSES_READ.key for one in claim.assumptions)
        split = Split(~public, target, not read, whole, persons)
        rng = np.random.default_rng(random_state)
        found = neighbouring_tables(X, y, split, rng, int(n_neighbors))
    return _result(recorded, claim, found)


def mask_of(names: Iterable[Any], X: Any) -> np.ndarray | None:
    """Return a mask of the named columns of X, or None if X lacks a name."""
    columns: dict[Any, int] = {place: place for place in range(X.shape[1])}
    columns |= {str(n): place for place, n in enumerate(getattr(X, "columns", ()))}
    own = [columns.get(name) for name in names]
    return None if None in own else np.isin(range(X.shape[1]), own)


def _result(
    recorded: _Recorded, claim: PrivacyReport | None, found: Iterable[Neighbour]
) -> ReplayResult:
    seen: dict[tuple[str, str], list[str]] = {}
    moves: list[list[Move]] = []
    names: list[str] = []
    for name, X, y, changed in found:
        outcome, around = recorded.replay(X, y, changed)
        moves.append(around.moves)
        names.append(name)
        everything = [*around.differences, *recorded.baseline.differences(outcome)]
        for key in dict.fromkeys(everything):
            seen.setdefault(key, []).append(name)
    if not moves:
        raise ValueError("neighbors is empty: give at least one pair (X, y).")
    order = [*LEAVES, *INSIDE]
    differences = tuple(
        Difference(kind, where, seen[kind, where][0], len(seen[kind, where]))
        for kind, where in sorted(seen, key=lambda key: order.index(key[0]))
    )
    estimator, events = recorded.estimator, recorded.charged
    of_whole = [event for event in events if event.sampling_rate == 1]
    relation = recorded.releases[0].asked.event.neighboring_relation
    subject, delta = type(estimator).__name__, 0.0
    if claim is None:
        delta = max(part.delta for part in private_parts(estimator).values())
        claimed = cost(events, delta).epsilon
    else:
        subject, delta, claimed = claim.subject, claim.delta, claim.epsilon
        relation = claim.neighboring_relation or relation
    bound = math.inf
    if not any(one.kind in LEAVES for one in differences):
        # For each neighbour, the Gaussian-DP parameter of the recorded releases.
        moved_by = [
            [one.distance / one.noise_std for one in replay if one.event in of_whole]
            for replay in moves
        ]
        bound = gdp_epsilon(delta, max(math.hypot(*one) for one in moved_by))
    labels = Counter(one.asked.event.label for one in recorded.releases)
    moved = {label: [(math.nan, 0.0)] for label in labels}
    for one in itertools.chain(*moves):
        share = one.distance / one.sensitivity
        moved[one.event.label].append((one.sensitivity, share))
    return ReplayResult(
        subject=subject,
        neighboring_relation=relation,
        claimed_epsilon=claimed,
        delta=delta,
        lower_bound=bound,
        confidence=1.0,
        n_trials=len(moves),
        differences=differences,
        releases=tuple(
            ReleaseChange(label, count, *np.fmax.reduce(moved[label]).tolist())
            for label, count in labels.items()
        ),
        neighbors=tuple(names),
    )
