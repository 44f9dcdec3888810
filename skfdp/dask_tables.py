"""Fit Dask collections, whose partitions stay on their workers.

`on_records` converts a collection to the records of a fit. `Partitions` calls the
partitions, which are in this process or on workers of `distributed`.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import itertools
import sys
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from skfdp.data.arrays import check_enough, is_dask
from skfdp.data.records import PublicRecords, Records
from skfdp.data.sources import LargeTable
from skfdp.data.validation import read_safely, unmasked, without_traps
from skfdp.mechanisms.release import (
    PoissonBatches,
    generator_of,
    not_null,
    random_words,
)
from skfdp.privacy.checks import computed as computed_field
from skfdp.privacy.events import Relation
from skfdp.queries import Query
from skfdp.reader import Reader


@dataclasses.dataclass(frozen=True)
class PartitionBatch:
    """A Poisson batch of all partitions, or of one, which draws its rows later.

    The key is secret.
    """

    key: bytes = dataclasses.field(repr=False)
    rate: float

    def of(self, partition: int) -> PartitionBatch:
        """Return the batch of the partition with this number."""
        label = str(partition).encode()
        own = hashlib.blake2b(label, key=self.key, digest_size=16).digest()
        return PartitionBatch(own, self.rate)

    def members(self, n_rows: int) -> np.ndarray:
        """Return the rows of the batch: row numbers, int64, increasing."""
        generator = generator_of(int.from_bytes(self.key, "little"))
        return PoissonBatches(generator, n_rows, self.rate).draw()


class PartitionBatches:
    """Batches that each row enters independently with probability `rate`.

    `generator` is a secret stream of random numbers, which public draws do not use.

    Notes
    -----
    **Guarantees.** Each batch has its own key of 256 bits from the stream, which is not
    sent to workers. The 128-bit key of a partition is a keyed hash of its number. So
    one key reveals nothing about the others, and the draws of different steps and
    partitions are independent. A draw that is repeated gives the same rows, on any
    worker. Each partition draws its rows by `PoissonBatches`. The union over the
    partitions is therefore a Poisson batch of all rows.
    """

    def __init__(self, generator: np.random.Generator, n_rows: int, rate: float):
        self._generator, self._rate = generator, rate

    def draw(self) -> PartitionBatch:
        """Return the next batch."""
        return PartitionBatch(random_words(self._generator, 4).tobytes(), self._rate)


#: The name under which a partition stores its rows, first raw and then as `Records`.
ROWS = "rows"
_PARTITION_NOT_COMPUTED = (
    "a partition could not be read; the error is withheld because it may quote the "
    "data: fit to a collection of synthetic rows to see it."
)
_NOT_COMPUTED: dict[str, Any] = {
    "kind": RuntimeError,
    "message": (
        "a partition of the Dask collection could not be computed; the error is "
        "withheld because it may quote the data: compute the collection of synthetic "
        "rows to see it."
    ),
}
# Number of attempts of a call before the fit fails.
_ATTEMPTS = 5


class Partition:
    """Dask actor that stores the rows of a partition, and objects computed from them.

    Notes
    -----
    **Guarantees.** Every answer is a function of the rows, of the arguments of earlier
    `put` calls, and of the arguments of this call. A repeated call gives exactly the
    same answer, even by a new actor after this one was lost.
    """

    def __init__(self, X: Any, y: Any = None):
        self._stored: dict[str, Any] = {ROWS: (X, y)}

    def answer(self, call: Callable, *arguments: Any) -> Any:
        """Return the result of ``call(stored, *arguments)``, or its error; never raise.

        The scheduler and the workers of a cluster would log a raised error with the
        arguments of the call.
        """
        try:
            with without_traps():
                return call(self._stored, *arguments)
        except (ValueError, TypeError) as error:
            # Errors of skfdp quote no datum; subclasses of other libraries may.
            if type(error) in (ValueError, TypeError):
                return type(error)(str(error))
        except Exception:  # even the type of the error may depend on a value
            pass
        return RuntimeError(_PARTITION_NOT_COMPUTED)


# Calls of a partition, which must be picklable.


def _put(stored: dict, name: str, make: Callable, source: str, per_row: dict) -> None:
    stored[name] = make(stored[source], **per_row)


def _ask(stored: dict, name: str, question: Callable) -> Any:
    return question(stored[name])


def _total(
    stored: dict,
    name: str,
    theta: np.ndarray | None,
    batch: PartitionBatch | None,
    unit: float,
) -> np.ndarray:
    """Return the exact sum of the query stored as `name`, without null records."""
    query, is_null = stored[name], stored[ROWS].is_null
    rows = None if batch is None else batch.members(query.n_rows)
    return query.exact_sum(theta, not_null(rows, is_null, query.n_rows), unit)


class _Lost(str):
    """Name of the error type of a partition that failed, without the error's text."""


def _tried(call: Callable, *arguments: Any) -> Any:
    """Return the result of a call, or `_Lost`, which holds no cell of an error."""
    try:
        return call(*arguments)
    except Exception as error:
        return _Lost(type(error).__name__)


class Partitions:
    """The partitions of a Dask collection, in this process or on workers.

    `parts` has the rows ``(X, y)`` of each partition, as delayed objects, and `client`
    is a client of `distributed`. With a client each partition is an actor, which this
    process calls directly. So the tasks, their names, and the logs of the scheduler
    reveal only that the actor exists.

    Notes
    -----
    **Guarantees.** If a worker is lost during a call, another worker creates the
    partition again: it computes the rows from the Dask graph of the collection, and
    repeats the earlier `put` calls. The lost call is then repeated with the same
    arguments. The answer is the same, and is used once.
    """

    def __init__(self, parts: Sequence[tuple[Any, Any]], client: Any = None):
        self._parts, self._client = parts, client
        self._futures: list[Any] = []
        self._puts: list[list[tuple]] = []
        self._names = itertools.count(1)
        if client is None:
            (rows,) = materialised(parts)
            self._partitions = dict(enumerate(itertools.starmap(Partition, rows)))
        else:
            self._partitions = {}
            self._create(range(len(parts)))

    def put(
        self,
        make: Callable,
        source: str = ROWS,
        per_row: Sequence[dict] | None = None,
        name: str | None = None,
    ) -> str:
        """Apply `make` to a stored object of every partition; return the result's name.

        `make` must be picklable. `per_row` holds further arguments for each partition.
        """
        name = f"made {next(self._names)}" if name is None else name
        given = [{}] * len(self._parts) if per_row is None else per_row
        arguments = [(name, make, source, one) for one in given]
        self._answers(_put, arguments)
        self._puts.append(arguments)
        return name

    def ask(self, name: str, question: Callable) -> list[Any]:
        """Return the result of `question` for each partition, in the order of rows."""
        return self._answers(_ask, [(name, question)] * len(self._parts))

    def total(
        self,
        name: str,
        theta: np.ndarray | None,
        batch: PartitionBatch | None,
        unit: float,
    ) -> np.ndarray:
        """Return the exact int64 sum of a stored query, over a batch or every row."""
        own = [batch and batch.of(number) for number in range(len(self._parts))]
        found = self._answers(_total, [(name, theta, one, unit) for one in own])
        return np.sum(found, axis=0, dtype=np.int64)  # integers: exact in any order

    def close(self) -> None:
        """Free the memory of all partitions."""
        self._partitions, self._parts, self._puts = {}, [], []
        if self._client is not None:
            # Dropping references is not enough: actors are in reference cycles.
            self._client.cancel(self._futures)

    def _answers(self, call: Callable, arguments: Sequence[tuple]) -> list[Any]:
        found: dict[int, Any] = {}
        left = list(range(len(arguments)))
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._create(left)
            found |= self._asked(left, call, arguments)
            left = [number for number in left if isinstance(found[number], _Lost)]
            if not left:
                break
        else:
            raise RuntimeError(
                f"{len(left)} partition(s) could not be reached on any worker "
                f"({found[left[0]]}), in {_ATTEMPTS} attempts: see the logs of the "
                "workers; the charge for this fit stays."
            )
        for error in found.values():
            if isinstance(error, Exception):
                raise error
        return [found[number] for number in range(len(arguments))]

    def _asked(
        self, numbers: Sequence[int], call: Callable, arguments: Sequence[tuple]
    ) -> dict[int, Any]:
        def ask(number: int) -> Any:  # of a lost partition even the attribute raises
            return self._partitions[number].answer(call, *arguments[number])

        if self._client is None:
            return {i: ask(i) for i in numbers}
        futures = {i: _tried(ask, i) for i in numbers}
        return {
            i: one if isinstance(one, _Lost) else _tried(one.result)
            for i, one in futures.items()
        }

    def _create(self, numbers: Sequence[int]) -> None:
        """Create some partitions on workers, and repeat the `put` calls."""
        for number in numbers:
            parts = [part for part in self._parts[number] if part is not None]
            rows, name = self._client.compute(parts), f"skfdp-partition-{uuid.uuid4()}"
            self._partitions[number] = self._client.submit(
                Partition, *rows, key=name, pure=False, actor=True
            )
            self._futures.append(self._partitions[number])
        for number in numbers:
            future = self._partitions[number]
            self._partitions[number] = read_safely(future.result, **_NOT_COMPUTED)
        for arguments in self._puts:
            self._asked(numbers, _put, arguments)  # the next call finds lost ones


def _public_table(columns: np.ndarray, mask: np.ndarray) -> LargeTable:
    """Return the table with these public columns, and zeros in private columns.

    The zeros take no memory: they are added to the rows that are read.
    """

    def whole(block: np.ndarray) -> np.ndarray:
        rows = np.zeros((len(block), len(mask)), dtype=block.dtype)
        rows[:, mask] = block
        return rows

    known = None, columns.dtype, len(mask), (whole,)
    return LargeTable(columns, *known)


@dataclasses.dataclass(frozen=True)
class PartitionedQuery:
    """Query over partitions: it adds the sums of the partitions.

    Each partition stores its query as `name`. `planned` is the same query for a table
    without rows.

    Notes
    -----
    **Guarantees.** Grid unit, clip norm and sensitivity are those of `planned`. They
    depend on public facts about the whole table, and are equal in every partition.
    Each record contributes one vector, in its partition. So the int64 sums of the
    partitions add up to the sum over all rows, in any order.
    """

    partitions: Partitions
    name: str
    planned: Query
    n_rows: int

    shape: tuple[int, ...] = computed_field()
    #: L2 bound on the contribution of a record.
    clip_norm: float = computed_field()
    sensitivity: Callable[[Relation], float] = computed_field()
    #: Returns the grid unit of the sum, given the standard deviation of the noise.
    unit: Callable[[float], float] = computed_field()

    #: Class that draws batches of this query; see `skfdp.mechanisms.release`.
    sampler = PartitionBatches

    def __post_init__(self):
        of_plan = "shape", "clip_norm", "sensitivity", "unit"
        vars(self).update({name: getattr(self.planned, name) for name in of_plan})

    def exact_sum(
        self, theta: np.ndarray | None, batch: PartitionBatch | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sum over the batch, in `unit`; None means every row."""
        return self.partitions.total(self.name, theta, batch, unit)

    def derived(self, make: Callable[[Any], Query]) -> PartitionedQuery:
        """Apply `make` to the query of each partition, and return the new query."""
        name = self.partitions.put(make, self.name)
        return dataclasses.replace(self, name=name, planned=make(self.planned))


@dataclasses.dataclass(frozen=True)
class PartitionedRecords:
    """A validated table in partitions, with the interface of `Records`."""

    partitions: Partitions
    #: Number of rows of each partition; private if the number of rows is private.
    sizes: tuple[int, ...]
    #: The same table without rows.
    none: Records
    #: The public part of all rows, in this process.
    public: PublicRecords
    #: The target if it is public.
    target: np.ndarray | None = None
    #: The name under which the partitions store the `Records` of their rows.
    name: str = ROWS

    #: None here: each partition leaves out its own null records, and has no exposures.
    is_null = exposure = None

    def query(self, recipe: Callable, **per_row: Any) -> PartitionedQuery:
        """Build a query in each partition, as `Records.query`; return that of all."""

        def cut(start: int, stop: int) -> dict[str, Any]:
            given = per_row.items()
            return {key: v if v is None else v[start:stop] for key, v in given}

        ends = np.append(0, np.cumsum(self.sizes)).tolist()
        parts = [cut(*pair) for pair in itertools.pairwise(ends)]
        name = self.partitions.put(recipe, self.name, parts)
        planned = recipe(self.none, **cut(0, 0))
        return PartitionedQuery(self.partitions, name, planned, sum(self.sizes))

    def of_public(self) -> PartitionedRecords:
        """Return the table of the public columns alone, with the same target."""
        return self._made(Records.of_public, public=self.public.of_public)

    def with_target(
        self, change: Callable[[np.ndarray], np.ndarray]
    ) -> PartitionedRecords:
        """Return the same table with a function applied to the target."""
        target = None if self.target is None else change(self.target)
        return self._made(partial(Records.with_target, change=change), target=target)

    def _made(self, make: Callable, **changes: Any) -> PartitionedRecords:
        """Return the table that `make` makes of the records of each partition."""
        name = self.partitions.put(make, self.name)
        return dataclasses.replace(self, name=name, none=make(self.none), **changes)


def _parts_of(X: Any, y: Any) -> list[tuple[Any, Any]]:
    rows = _delayed(X)
    if y is None:
        return [(one, None) for one in rows]
    targets = _delayed(y) if is_dask(y) else []
    if len(targets) != len(rows):
        raise ValueError(
            f"y of type {type(y).__name__} must be a Dask collection of {len(rows)} "
            f"partition(s), but has {len(targets)}: pass y with the partitions of X."
        )
    return list(zip(rows, targets, strict=True))


def _delayed(collection: Any) -> list[Any]:
    if getattr(collection, "ndim", 2) == 2 and hasattr(collection, "rechunk"):
        collection = collection.rechunk({1: -1})  # partitions of complete rows
    found = collection.to_delayed()
    return found.ravel().tolist() if isinstance(found, np.ndarray) else list(found)


def _no_rows_of(collection: Any) -> Any:
    """Return a table without rows, with the names and types of a collection."""
    if hasattr(collection._meta, "tocsr"):
        raise TypeError(
            "X has sparse rows, but partitions must be dense: pass "
            "X.map_blocks(lambda rows: rows.toarray()) if they fit into memory."
        )
    if hasattr(collection, "rechunk"):
        return np.zeros((0, *collection.shape[1:]), dtype=collection.dtype)
    return collection._meta


def materialised(*tables: Any) -> tuple[Any, ...]:
    """Compute Dask collections, also those in lists; return other objects unchanged.

    An error of the user's graph is withheld, because it may quote a cell.
    """
    import dask

    return read_safely(dask.compute, *tables, **_NOT_COMPUTED)


def _current_client() -> Any:
    if "distributed" in sys.modules:
        from distributed import default_client

        with contextlib.suppress(ValueError):
            return default_client()
    return None


def on_records(
    reader: Reader,
    like: Any,
    use: Callable[[PartitionedRecords], Any],
    X: Any,
    y: Any,
    planning: bool = False,
    **of_rows: Any,
) -> Any:
    """Convert a Dask collection to records, and return ``use(records)``.

    `like` is as for `Reader.read`. `of_rows` are weights and groups,
    which are refused if they are not None.

    Notes
    -----
    **Guarantees.** Before a release, only the public columns, a public target and the
    sizes of the partitions are sent to this process. At the end the workers free all
    partitions.
    """
    # Refuse what Dask collections do not support, before any row is read.
    declared, model = reader.declaration, type(like).__name__
    if like._rows != "linear":
        raise TypeError(
            f"{model} does not support Dask collections (linear estimators do): pass "
            "X.compute() if it fits into memory."
        )
    given = [key for key, value in of_rows.items() if value is not None]
    for name in ("group", "exposure", "interactions"):
        value = getattr(declared.schema, name, None)
        if value is not None and (name, value) != ("interactions", "auto"):
            given.append(f"{name}={value!r} of a schema")
    has_classes = declared.classes is not None or declared.public_target
    for what, remedy in {
        " and ".join(given): "pass a table in memory, or fit without it",
        "epsilon=inf" * (not declared.is_private): (
            "use scikit-learn or dask-ml, or a finite epsilon"
        ),
        "bounds='private'" * declared.releases_bounds: (
            "declare bounds, or use private_bounds on some of the rows in memory"
        ),
        "classes=None" * (not has_classes): (
            "declare `classes`, because private labels stay on the workers"
        ),
    }.items():
        if what:
            raise ValueError(
                f"{what} cannot be combined with a Dask collection: {remedy}."
            )
    if y is None and (declared.public_target or not planning):
        raise ValueError(
            f"{model} requires y to be passed: give a Dask array or Series with the "
            "partitions of X."
        )
    partitions = Partitions(_parts_of(X, y), _current_client())
    try:
        return use(_read_partitions(reader, like, partitions, X, y, planning))
    finally:
        partitions.close()


def _read_partitions(
    reader: Reader,
    like: Any,
    partitions: Partitions,
    table: Any,
    y: Any,
    planning: bool,
) -> PartitionedRecords:
    """Convert the rows of each partition to records, and return the whole table.

    The reader first converts a table without rows. Its public facts are sent to the
    partitions, which convert their own rows.
    """
    declared, labels = reader.declaration, None
    sizes, targets = zip(*partitions.ask(ROWS, _sizes), strict=True)
    n_rows = sum(sizes)
    check_enough(like, n_rows)
    if y is not None and targets != sizes:
        raise ValueError(
            "y and X have partitions of different numbers of rows: pass y with the "
            "partitions of X, as y.rechunk(X.chunks[0]) of arrays."
        )
    if declared.public_target:
        labels = declared.read_target(np.concatenate(partitions.ask(ROWS, _raw_target)))
        labels = reader.checked_target(like, labels, n_rows)
    elif y is not None:  # refuse the type of y, as for a table in memory
        target = declared.read_target(_no_rows_of(y))
        reader.target(like, reader.checked_target(like, target, 0), 0)
    known = reader.read(like, _no_rows_of(table), labels, planning=True, whole=n_rows)
    public, reader = known.public, known.public.reader
    target = None if public.target is None else public.target[:0]
    none = dataclasses.replace(public, target=target, reader=None)
    none = Records(known.X, known.target[:0], none)
    own = type(like)()  # workers need the columns, and no parameter of the estimator
    vars(own).update(reader.attributes)
    make = partial(
        _records_of_partition,
        reader=reader.sent(public.classes),
        like=own,
        none=none,
        planning=planning,
    )
    partitions.put(make, ROWS, name=ROWS)
    found = zip(*partitions.ask(ROWS, _public_rows), strict=True)
    columns, encoded = map(np.concatenate, found)
    mask = public.mask
    public = dataclasses.replace(
        public,
        encoded=None if public.encoding is None else encoded,
        in_partitions=True,
        _table=columns if mask.all() else _public_table(columns, mask),
    )
    # A copy, because what `none` caches of a fit is not sent to workers.
    none = Records(none.X, none.target, dataclasses.replace(none.public))
    return PartitionedRecords(partitions, sizes, none, public, public.target)


def _records_of_partition(
    raw: tuple[Any, Any], reader: Reader, like: Any, none: Records, planning: bool
) -> Records:
    """Convert the rows ``(X, y)`` of a partition to records; see `Reader.read`."""
    if not raw[0].shape[0]:
        return none
    return reader.read(copy.copy(like), *raw, planning=planning, part=none)


# Functions for `Partitions.ask`, which must be picklable.


def _sizes(raw: tuple[Any, Any]) -> tuple[int, int]:
    return tuple([0 if part is None else part.shape[0] for part in raw])


def _raw_target(raw: tuple[Any, Any]) -> np.ndarray:
    return np.asarray(unmasked(raw[1], as_objects=True))


def _public_rows(records: Records) -> tuple[np.ndarray, np.ndarray]:
    public, nothing = records.public, np.empty((records.shape[0], 0))
    encoded = public.encoding is not None and public.encoding.public_encoded.any()
    return (
        np.asarray(records.X[:, public.mask]) if public.mask.any() else nothing,
        public.rows() if encoded else nothing,
    )
