"""Audit by replay: repeat a fit on neighbours with recorded releases, and compare."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from skfdp.mechanisms import release
from skfdp.mechanisms.release import Asked
from skfdp.privacy.accounting import gdp_epsilon
from skfdp.privacy.checks import shown
from skfdp.privacy.entries import Receipt, new_entries
from skfdp.privacy.events import ASSUMED, ROUNDING, Event, Relation
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.pipelines import report
from skfdp.privacy.report import PrivacyReport
from skfdp.solvers.score import declared_by

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
        if not value.dtype.hasobject:
            return (value.dtype, value.shape, value.tobytes()), []
        return (value.dtype, value.shape), _in_order(value.ravel().tolist())
    if isinstance(value, float):
        return value.hex(), []  # compared as text, so that NaN equals NaN
    if isinstance(value, _WHOLE):
        return value, []
    if isinstance(value, dict):
        value = [*value.items()]  # the order of keys can be observed, too
    if isinstance(value, (list, tuple)):
        return None, _in_order(value)
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        held = value.__code__, value.__defaults__, value.__kwdefaults__, cells
        return None, _in_order(held)
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # not picklable
        reduced = None, None, getattr(value, "__dict__", {})
    if isinstance(reduced, str):
        return reduced, []
    held = [list(part) if hasattr(part, "__next__") else part for part in reduced]
    state = held.pop(2) if isinstance((*held, None, None)[2], dict) else {}
    named = [(f".{name}", part) for name, part in state.items()]
    return list(state), [*named, *_in_order(held)]


def _in_order(values: Iterable) -> list[tuple[str, Any]]:
    return [(f"[{number}]", value) for number, value in enumerate(values)]


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
#: Replacements of labels, by the kind of their type; used in turn.
_STRANGE_LABELS: dict[str, tuple] = {
    "O": (None, float("nan"), "no such label", 7, -1, [1]),
    "U": ("?",),
    "b": (False, True),
    "f": (np.nan, np.inf, 0.5),
}


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
    X: Any,
    y: Any,
    rng: np.random.Generator,
    n_neighbors: int,
    *,
    private: np.ndarray,
    target: str | None,
    declared: bool = True,
    whole: bool = False,
    persons: np.ndarray | None = None,
) -> Iterator[Neighbour]:
    """Yield neighbours of a table; equal states of `rng` give equal neighbours.

    `private` is the mask of the private columns. `target` is "labels" or "numbers", or
    None if y is public or missing. With `declared`, the changed label may be any value,
    even one that is not declared. With `whole`, the last record is added or removed,
    instead of replaced. `persons` is the person of each row, if they are protected.
    """
    columns = np.flatnonzero(private).tolist()
    parts = ["row"] * bool(columns) + ["target"] * bool(target)
    parts += ["row and target"] * (len(parts) == 2)
    known = list(itertools.product([*FINITE, *MALFORMED], parts))
    order = itertools.cycle(rng.permutation(len(known)))
    units = np.arange(X.shape[0]) if persons is None else persons
    for number in range(n_neighbors):
        kind, part = known[next(order)]
        last = int(units.max())
        unit = last if whole else int(rng.integers(last + 1))
        rows = own = np.flatnonzero(units == unit)
        name = f"record {unit}" if persons is None else f"all rows of person {unit}"
        if len(own) > 1 and rng.random() < 0.3:  # only some rows differ
            size = int(rng.integers(1, len(own)))
            rows = np.sort(rng.choice(own, size, replace=False))
            name = f"some rows of person {unit}"
        cell = functools.partial(_other_cell, kind=kind, number=number, rng=rng)
        label = functools.partial(_other_label, cell=cell, declared=declared)
        yield Neighbour(
            f"{kind} in the {part} of {name}",
            _replaced(X, rows, columns, cell) if "row" in part else X,
            _replaced(y, rows, [], label if target == "labels" else cell)
            if "target" in part
            else y,
            own,
        )


def _replaced(table: Any, rows: np.ndarray, columns: list[int], other: Any) -> Any:
    """Return a table of the same type with other values in some rows and columns.

    ``other(values, dtype, row)`` returns the value for a row of a column.
    """
    sparse = issparse(table)
    found = table.tolil() if sparse else table.copy()
    cells, known = (getattr(one, "iloc", one) for one in (found, table))
    n_columns = (*table.shape, 1)[1]
    places = [(j,) * (len(table.shape) - 1) for j in columns or range(n_columns)]
    for row, place in itertools.product(rows.tolist(), places):
        column = known[(slice(None), *place)]
        values = np.asarray(as_dense(column)).ravel()
        cells[(row, *place)] = other(values, column.dtype, row)
    return type(table)(found) if sparse else found


def _other_label(
    values: np.ndarray, dtype: Any, row: int, cell: functools.partial, declared: bool
) -> Any:
    """Return a replacement of a label."""
    kind, number, rng = cell.keywords.values()
    if declared and kind not in _KNOWN:
        odd = _STRANGE_LABELS.get(values.dtype.kind, (100, 0))
        return odd[number % len(odd)]
    # If classes are not declared, the set of labels must stay the same.
    labels = values.tolist()
    others = [label for label in labels if label != labels[row]]
    free = others and (declared or labels.count(labels[row]) > 1)
    return others[rng.integers(len(others))] if free else values[row]


def _other_cell(
    values: np.ndarray,
    dtype: Any,
    row: int,
    kind: str,
    number: int,
    rng: np.random.Generator,
) -> Any:
    """Return a replacement of one of the values of a column."""
    another = values[rng.integers(len(values))]
    if isinstance(dtype, np.dtype) and dtype.kind in "fiu":
        finite = values[np.isfinite(values)].astype(np.float64)
        make = (FINITE | MALFORMED)[kind]
        found = float(make(rng, finite if len(finite) else np.zeros(1)))
        if not np.isfinite(found):
            return found if dtype.kind == "f" else another
        limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
        # Compare integers, because some limits are not exact in float64.
        return dtype.type(min(max(found, int(limits.min)), int(limits.max)))
    odd: Sequence = ()
    if getattr(dtype, "hasobject", False):
        odd = _NO_NUMBERS
    elif str(dtype).startswith("str"):
        odd = _TEXTS
    elif kind in MALFORMED:
        missing = getattr(dtype, "na_value", another)
        odd = [np.datetime64("NaT") if values.dtype.kind == "M" else missing]
    return odd[number % len(odd)] if odd and kind not in _KNOWN else another


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
    wanted = _keys(X, y, public)
    units = np.arange(len(wanted)) if persons is None else persons
    for number, pair in enumerate(given):
        if not (isinstance(pair, tuple | list) and len(pair) == 2):
            raise ValueError(
                f"neighbors[{number}] must be a pair (X, y): pass y=None without a "
                "target."
            )
        other, target = tables(*pair)
        alike = type(other) is type(X) and other.shape[1] == X.shape[1]
        found = _keys(other, target, public) if alike else []
        both = enumerate(zip(wanted, found, strict=False))
        rows = [row for row, (here, there) in both if here != there]
        own = np.unique(units[np.array(rows, dtype=np.int64)])
        if (
            abs(len(found) - len(wanted)) != whole
            or len(own) > (not whole)
            or any(wanted[row][0] != found[row][0] for row in rows)
        ):
            raise ValueError(
                f"neighbors[{number}] is not a neighbour: give an X of the same type "
                "and width, which differs only in the private part of one record, or "
                "of one person's rows; under 'add_or_remove_one' only by the last "
                "record."
            )
        last = np.array([min(len(found), len(wanted))])
        changed = last if whole else np.flatnonzero(np.isin(units, own))
        yield Neighbour(f"neighbors[{number}]", other, target, changed)


def _keys(X: Any, y: Any, public: np.ndarray | None) -> list[tuple[str, ...]]:
    """Return the public part of each record, all columns, and the target, as text."""
    cells = np.asarray(as_dense(X), dtype=object)
    known = cells[:, public if public is not None else []].tolist()
    targets = [None] * len(cells) if y is None else np.asarray(y).tolist()
    parts = zip(known, cells.tolist(), targets, strict=True)
    return [tuple(map(repr, one)) for one in parts]


# A fit of an audit, and what can be observed of it.


#: Methods of the fitted model whose results are compared, and the number of rows that
#: are passed to them.
_METHODS, _PROBED = ("predict", "predict_proba", "decision_function", "transform"), 20
_ELSEWHERE = (
    "a private fit runs in another thread or process (n_jobs), where an audit cannot "
    "see its releases: audit it with n_jobs=None, which gives the same results."
)


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


class Replay:
    """A fit that records its releases or, if they are given, repeats them.

    The random numbers of a fit come from streams, each with its own key. Here the key
    is a hash of the stream's name and of the number of earlier streams of this name. So
    anybody can compute the key.
    """

    def __init__(
        self, releases: list[Release] | None = None, n_records=0, changed=()
    ) -> None:
        self._records, self._n_records = releases is None, n_records
        self._changed = np.array(changed, dtype=np.int64)
        self._opened: Counter[str] = Counter()
        self._drawn: set[str] = set()
        self.releases: list[Release] = [] if releases is None else releases
        #: By how much each sum changed, on the scale of the released sum.
        self.distances: list[float] = []
        #: Kind and place of each difference from the recorded fit.
        self.differences: list[tuple[str, str]] = []
        #: Everything that can be observed of the fit, by kind and place.
        self.seen: dict[str, dict[str, Any]] = {}
        self.error: Exception | None = None
        #: False if the fit ended because its releases differ from the recorded ones.
        self.complete = True

    def key(self, stream: str) -> int:
        """Return the key of the next stream of this name."""
        name = f"{stream}#{self._opened[stream]}"
        self._opened[stream] += 1
        digest = hashlib.blake2b(name.encode(), digest_size=16, person=b"skfdp audit")
        return int.from_bytes(digest.digest(), "little")

    def fit(
        self, estimator: Any, X: Any, y: Any, probe: Any, fit_params: Mapping[str, Any]
    ) -> Replay:
        """Fit a copy of the estimator, and predict the rows `probe`."""
        ledger, predictions = Charges(), {}
        model = prepared(estimator, ledger)
        # Copy the data, because a step that works in place would change them for later
        # fits.
        X, y, probe = copy.deepcopy((X, y, probe))
        self.seen = {
            "exception": {},
            "attribute": {"the model": model},
            "prediction": predictions,
        }
        with _heard(self.seen):
            try:
                with release.opened(self):
                    model.fit(X, y, **fit_params)
            except ReplayDiffers:
                self.complete = False
            except Exception as error:
                self.error = error
            for method in _METHODS if self.complete and self.error is None else ():
                try:
                    predictions[method] = getattr(model, method)(probe)
                except Exception as refusal:  # for example, the method is missing
                    predictions[method] = type(refusal), str(refusal)
        self.seen["exception"]["the fit"] = type(self.error), str(self.error)
        charges = [(one.charge, one.label, one.event) for one in ledger.entries]
        self.seen["charge"] = {"the ledger": charges}
        fewer = not self._records and len(self.distances) < len(self.releases)
        if fewer and self.complete and self.error is None:
            self.differences.append(("release", "there are fewer"))
        return self

    def compared(self, other: Replay) -> dict[tuple[str, str], None]:
        """Return kind and place of each difference of a replay from this fit."""
        found = dict.fromkeys(other.differences)
        kinds = list(self.seen) if other.complete else []
        if kinds and differ(self.seen["exception"], other.seen["exception"]):
            kinds = ["exception"]
        for kind in kinds:
            for where, held in self.seen[kind].items():
                differing = apart(held, other.seen[kind][where])
                if kind != "attribute":
                    differing = (where for _ in differing)
                found |= dict.fromkeys((kind, place or where) for place in differing)
        return found

    def release(self, asked: Asked, noisy_sum: Callable[[], np.ndarray]) -> np.ndarray:
        """Return a new release and record it, or return the recorded one.

        A fit with recorded releases ends if the label, the query or the shape differs,
        or if no recorded release is left. Other differences of the request are noted.
        """
        if self._records:
            kept = dataclasses.replace(
                asked, batch=copy.copy(asked.batch), theta=copy.copy(asked.theta)
            )
            sums, answer = _exact_sums(kept), noisy_sum()
            self.releases.append(Release(kept, _facts_of(kept), *sums, answer.copy()))
            return answer
        label = repr(asked.event.label)
        if len(self.distances) == len(self.releases):
            self.differences.append(("release", f"{label} is requested in addition"))
            raise ReplayDiffers
        wanted = self.releases[len(self.distances)]
        free = () if asked.event.relation.counts_are_public else ("n_rows",)
        facts = {n: fact for n, fact in _facts_of(asked).items() if n not in free}
        names = [n for n, fact in facts.items() if wanted.facts[n] != fact]
        self.differences += [("release", f"{label} has another {n}") for n in names]
        if {"label", "query", "shape"} & {*names}:
            raise ReplayDiffers
        distance = self._distance(wanted, asked)
        self.distances.append(distance)
        found = {
            "theta": differ(asked.theta, wanted.asked.theta),
            "batch": not self._same_batch(wanted.asked, asked),
            "distance": distance > facts["sensitivity"] * (1 + ROUNDING),
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
        sides, n_rows = (one, other), min(one.query.n_rows, other.query.n_rows)
        if one.query.n_rows != other.query.n_rows and not first:
            # The later batches of the two tables use different random words; see
            # `audit_replay`.
            return True
        rows = np.arange(n_rows)
        taken = [side.batch is None or np.isin(rows, side.batch) for side in sides]
        nulls = [side.is_null is not None and side.is_null[:n_rows] for side in sides]
        return not np.any(np.logical_xor(*taken) & ~np.logical_or(*nulls))

    def _distance(self, wanted: Release, asked: Asked) -> float:
        """Return the change of this sum between the two tables.

        Under "replace_special" each table is compared with the table in which the
        changed record or person is null. The change of the sum is then the contribution
        of this record or person. All others must contribute the same in both tables. If
        they do not, the difference of their contributions is added.
        """
        query, rows, (total, whole) = asked.query, self._changed, _exact_sums(asked)
        distance = _length(wanted.whole - whole)
        if asked.event.relation.name == "replace_special":
            others = float(len(rows) > 0)
            if others and query.n_rows == self._n_records:
                distance, others = _added(wanted, asked, rows)
            # A fit may leave rows out, or take them in another order. Then find the
            # changed rows by their contributions.
            if others:
                rows = _differing_rows(wanted, asked, len(rows))
                distance = sum(_added(wanted, asked, rows)) if len(rows) else 0.0
        # If the numbers of rows differ, the batches may differ, too.
        elif wanted.asked.query.n_rows == query.n_rows:
            distance = max(distance, _length(wanted.total - total))
        return distance * query.unit(asked.noise_std)


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
    return asked.query.exact_sum(theta, rows, asked.query.unit(asked.noise_std)).copy()


def _length(total: np.ndarray) -> float:
    """Return the norm of an array of int64, whose squares are summed exactly.

    If the number of rows is private, sums are computed modulo 2**64. The difference of
    two sums is nevertheless exact.
    """
    return math.sqrt(sum(entry * entry for entry in total[total != 0].tolist()))


class Charges(PrivacyLedger):
    """Ledger that records the charges of one fit in this thread."""

    def __reduce__(self) -> tuple:
        # A copy in another process has no open replay, so it refuses charges.
        return Charges, ()

    def charge(
        self, events: Iterable[Event], *, label: str | None = None, name: Any = None
    ) -> Receipt:
        """Record a charge, and return its receipt."""
        if release.current() is None:
            raise ValueError(_ELSEWHERE)
        entries = new_entries(tuple(events), label)
        return self._receipt(*self._store.append(entries, lambda terms, recorded: None))

    def charge_nonprivate(self, *, label: str | None = None) -> None:
        """Refuse fits without privacy."""
        raise ValueError(
            "epsilon=inf makes no privacy claim to audit: give every private part a "
            "finite epsilon."
        )


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
    """Capture output, logs and warnings, and restore the global random generators.

    Debug messages of the compiler are not captured, because they depend on its caches.
    """
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(logging.Formatter("%(name)s %(levelno)s %(message)s"))
    root, compiler = logging.getLogger(), logging.getLogger("numba")
    levels = root.level, compiler.level
    states = np.random.get_state(), random.getstate()  # noqa: NPY002
    with (
        warnings.catch_warnings(record=True, action="always") as caught,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
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
                "output": out.getvalue(),
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
    "output": "{} prints or logs a different text",
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
        "attribute", "prediction", "release", "charge", "warning", "output" (also of
        logs), "exception" or "global generator", which can be observed outside the fit;
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


def _repeated(fit: Callable[[Replay], Replay]) -> Replay:
    """Record a fit, and return its repetition on the same table.

    Raise ValueError if an audit cannot see all releases, or if the two differ. The
    repetition also loads all code and fills all caches.
    """
    first = fit(Replay())
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
    asked = [one.asked.event for one in first.releases]
    if not asked or any(event not in asked for event in _charged_events(first)):
        raise ValueError(
            "a charged release was not made in this thread: let every private part "
            "run with n_jobs=None, which gives the same results."
        )
    again = fit(Replay(first.releases))
    found = first.compared(again)
    if not again.complete or any(kind in _REPEATED for kind, _ in found):
        where = ", ".join(dict.fromkeys(place for _, place in found))
        raise ValueError(
            f"two fits on one table differ ({where}): set a fixed random_state in "
            "every part that is not from this package."
        )
    return again


def _charged_events(fit: Replay) -> tuple[Event, ...]:
    return tuple(event for *_, event in fit.seen["charge"]["the ledger"])


#: Kinds of observations in which a second fit must equal the first. The first fit loads
#: code, so its warnings and output may differ.
_REPEATED = frozenset(LEAVES | INSIDE) - {"warning", "output"}


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
    made = hasattr(estimator, "get_params") and not isinstance(estimator, type)
    parts = private_parts(estimator) if made else {}
    if not parts:
        raise TypeError(
            f"estimator={shown(estimator)} must be an estimator of this package, or "
            "contain one."
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
    given = {"probe": base[0][:_PROBED], "fit_params": fit_params}
    again = _repeated(lambda one: one.fit(estimator, *base, **given))
    try:
        claim = report(again.seen["attribute"]["the model"])
        names = claim.public_sources
        steps = [estimator, *estimator.get_params(deep=True).values()]
        piped = any(isinstance(one, Pipeline) for one in steps)
        if names is None and not (piped and claim.public_features):
            names = claim.public_features
    except ValueError:  # no report of this tool
        subject, delta = type(estimator).__name__, max(p.delta for p in parts.values())
        events, names = _charged_events(again), None
        claim = PrivacyReport.from_events(subject=subject, events=events, delta=delta)
    # The columns that identify persons are public, too.
    public = None if names is None else mask_of([*names, *columns], base[0])
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
        read = any(e.classes_source == "data" for e in _charged_events(again))
        read = read or any(
            one.key == ASSUMED["classes_public"].key for one in claim.assumptions
        )
        rng = np.random.default_rng(random_state)
        given_of: Any = {"private": ~public, "target": target, "declared": not read}
        given_of |= {"whole": whole, "persons": persons}
        found = neighbouring_tables(X, y, rng, int(n_neighbors), **given_of)
    replays = (
        (
            name,
            Replay(again.releases, base[0].shape[0], changed).fit(
                estimator, *table, **given
            ),
        )
        for name, *table, changed in found
    )
    return _result(claim, again, replays)


def mask_of(names: Iterable[Any], X: Any) -> np.ndarray | None:
    """Return a mask of the named columns of X, or None if X lacks a name."""
    columns: dict[Any, int] = {place: place for place in range(X.shape[1])}
    columns |= {str(n): place for place, n in enumerate(getattr(X, "columns", ()))}
    own = [columns.get(name) for name in names]
    return None if None in own else np.isin(range(X.shape[1]), own)


def _result(
    claim: PrivacyReport, recorded: Replay, replays: Iterable[tuple[str, Replay]]
) -> ReplayResult:
    seen: dict[tuple[str, str], list[str]] = {}
    names, distances = [], []
    for name, replay in replays:
        names.append(name)
        distances.append(replay.distances)
        for key in recorded.compared(replay):
            seen.setdefault(key, []).append(name)
    if not names:
        raise ValueError("neighbors is empty: give at least one pair (X, y).")
    order = [*LEAVES, *INSIDE]
    differences = tuple(
        Difference(kind, where, seen[kind, where][0], len(seen[kind, where]))
        for kind, where in sorted(seen, key=lambda key: order.index(key[0]))
    )
    events, asked = _charged_events(recorded), [one.asked for one in recorded.releases]
    bound = math.inf
    if not any(one.kind in LEAVES for one in differences):
        # For each neighbour, the Gaussian-DP parameter of the charged full batches.
        whole = [one.event in events and one.event.sampling_rate == 1 for one in asked]
        std = np.where(whole, [one.noise_std for one in asked], np.inf)
        mu = max(math.hypot(*(one / std)) for one in distances)
        bound = gdp_epsilon(claim.delta, mu)
    changes: dict[str, list] = {one.event.label: [] for one in asked}
    # A replay that ended early has fewer distances.
    for one, *moved in itertools.zip_longest(asked, *distances, fillvalue=0.0):
        sensitivity = one.query.sensitivity(one.event.relation)
        changes[one.event.label].append((sensitivity, max(moved) / sensitivity))
    return ReplayResult(
        subject=claim.subject,
        neighboring_relation=str(claim.neighboring_relation),
        claimed_epsilon=claim.epsilon,
        delta=claim.delta,
        lower_bound=bound,
        confidence=1.0,
        n_trials=len(names),
        differences=differences,
        releases=tuple(
            ReleaseChange(label, len(found), *np.max(found, axis=0).tolist())
            for label, found in changes.items()
        ),
        neighbors=tuple(names),
    )
