"""Fit Dask collections, whose partitions stay on their workers.

`on_records` converts a collection to the records of a fit. `Partitions` calls the
partitions in this process, and `WorkerPartitions` on workers of `distributed`.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import itertools
import sys
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skfdp.data.arrays import is_dask
from skfdp.data.input_scaler import InputScaler
from skfdp.data.records import PublicRecords, Records
from skfdp.data.sources import chosen_rows
from skfdp.data.validation import unmasked, without_traps
from skfdp.mechanisms.noise import generator_of, random_words
from skfdp.mechanisms.release import PoissonBatches, not_null
from skfdp.privacy.events import Relation
from skfdp.queries import Query
from skfdp.reader import Reader

# Poisson batches of remote rows: each partition draws its own rows.
#
# Each pair of a step and a partition has its own key. So a repeated draw gives the same
# rows, on any worker.


# Number of random words in the master key, from which all other keys are derived.
_KEY_WORDS = 4


@dataclasses.dataclass(frozen=True)
class PartitionDraw:
    """How a partition draws its rows of a batch: a secret 128-bit key, and the rate."""

    key: int = dataclasses.field(repr=False)
    rate: float

    def members(self, n_rows: int) -> np.ndarray:
        """Return the partition's rows in the batch: row numbers, int64, increasing."""
        return PoissonBatches(generator_of(self.key), n_rows, self.rate).draw()


@dataclasses.dataclass(frozen=True)
class PartitionBatch:
    """One Poisson batch over all partitions, which draw their rows later.

    The master key `_key` is secret.
    """

    step: int
    rate: float
    _key: bytes = dataclasses.field(repr=False)

    def of(self, partition: int) -> PartitionDraw:
        """Return how the partition with this number draws its rows."""
        label = f"{self.step}/{partition}".encode()
        found = hashlib.blake2b(label, key=self._key, digest_size=16).digest()
        return PartitionDraw(int.from_bytes(found, "little"), self.rate)


class PartitionBatches:
    """Batches that each row enters independently with probability `rate`.

    `generator` is a secret stream of random numbers, which public draws do not use.

    Notes
    -----
    **Guarantees.** Each pair of a step and a partition has its own key: a keyed hash of
    their two numbers. The master key of the hash is drawn from the stream, and is not
    sent to workers. So one key reveals nothing about the others, and the draws of
    different steps and partitions are independent. Each partition draws its rows by
    `PoissonBatches`. The union over the partitions is therefore a Poisson batch of all
    rows.
    """

    def __init__(self, generator: np.random.Generator, n_rows: int, rate: float):
        self._key = random_words(generator, _KEY_WORDS).tobytes()
        self._rate, self._step = rate, -1

    def draw(self) -> PartitionBatch:
        """Return the next batch."""
        self._step += 1
        return PartitionBatch(self._step, self._rate, self._key)


# Partitions, which store rows, and calls to all partitions.


#: The name under which a partition stores its rows, first raw and then as `Records`.
ROWS = "rows"
_WITHHELD = (
    "a partition could not be read; the error is withheld because it may quote the "
    "data: fit to a collection of synthetic rows to see it."
)
_NOT_COMPUTED = (
    "a partition of the Dask collection could not be computed; the error is withheld "
    "because it may quote the data: compute the collection of synthetic rows to see it."
)
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
        self._kept: dict[str, Any] = {ROWS: (X, y)}

    def answer(self, verb: str, *arguments: Any) -> Any:
        """Call the method `verb`, and return its result or its error; never raise.

        The scheduler and the workers of a cluster would log a raised error with the
        arguments of the call.
        """
        try:
            with without_traps():
                return getattr(self, verb)(*arguments)
        except (ValueError, TypeError) as error:
            # Errors of skfdp quote no datum; subclasses of other libraries may.
            if type(error) in (ValueError, TypeError):
                return type(error)(str(error))
        except Exception:  # even the type of the error may depend on a value
            pass
        return RuntimeError(_WITHHELD)

    def put(self, name: str, make: Callable, source: str, per_row: dict) -> None:
        """Apply `make` to the object stored as `source`; store the result as `name`."""
        self._kept[name] = make(self._kept[source], **per_row)

    def ask(self, name: str, question: Callable) -> Any:
        """Return the result of `question` for the object stored as `name`."""
        return question(self._kept[name])

    def total(
        self,
        name: str,
        theta: np.ndarray | None,
        draw: PartitionDraw | None,
        unit: float,
    ) -> np.ndarray:
        """Return the exact sum of the query stored as `name`, over a batch or all rows.

        `draw` draws the batch. If `draw` is None, the sum is over all rows. Null
        records are left out, as in a table in memory.
        """
        query, is_null = self._kept[name], self._kept[ROWS].is_null
        batch = None if draw is None else draw.members(query.n_rows)
        return query.exact_sum(theta, not_null(batch, is_null, query.n_rows), unit)


class Partitions:
    """The partitions of a Dask collection, called in this process.

    `parts` has the rows ``(X, y)`` of each partition.
    """

    def __init__(self, parts: Sequence[tuple[Any, Any]]):
        self._partitions: list[Any] = [Partition(*part) for part in parts]
        self._names = itertools.count(1)

    def __len__(self) -> int:
        return len(self._partitions)

    def put(
        self,
        make: Callable,
        source: str = ROWS,
        per_row: Sequence[dict] | None = None,
        name: str | None = None,
    ) -> str:
        """Apply a function to a stored object of every partition, and store the result.

        `make` must be picklable. `per_row` holds further arguments for each partition.
        The name of the stored result is returned. Without `name`, a new one is made.
        """
        name = f"made {next(self._names)}" if name is None else name
        given = [{}] * len(self) if per_row is None else per_row
        self._answers("put", [(name, make, source, one) for one in given])
        return name

    def ask(self, name: str, question: Callable) -> list[Any]:
        """Return the result of `question` for each partition, in the order of rows.

        `question` is a function of the object that each partition stores as `name`.
        """
        return self._answers("ask", [(name, question)] * len(self))

    def total(
        self,
        name: str,
        theta: np.ndarray | None,
        batch: PartitionBatch | None,
        unit: float,
    ) -> np.ndarray:
        """Return the exact int64 sum of a stored query over all partitions.

        A `batch` of None means every row.
        """
        draws = [None if batch is None else batch.of(i) for i in range(len(self))]
        found = self._answers("total", [(name, theta, one, unit) for one in draws])
        return np.sum(found, axis=0, dtype=np.int64)  # integers: exact in any order

    def close(self) -> None:
        """Free the memory of all partitions."""
        self._partitions = []

    def _answers(self, verb: str, arguments: Sequence[tuple]) -> list[Any]:
        """Return the answers of all partitions, or raise the error of one."""
        found = self._called(verb, arguments)
        for one in found:
            if isinstance(one, Exception):
                raise one
        return found

    def _called(self, verb: str, arguments: Sequence[tuple]) -> list[Any]:
        pairs = zip(self._partitions, arguments, strict=True)
        return [partition.answer(verb, *given) for partition, given in pairs]


class WorkerPartitions(Partitions):
    """Partitions on workers of `distributed`; lost partitions are created again.

    Each partition is an actor, which this process calls directly. So the tasks, their
    names, and the logs of the scheduler reveal only that the actor exists.

    Notes
    -----
    **Guarantees.** If a worker is lost during a call, another worker creates the
    partition again: it computes the rows from the Dask graph of the collection, and
    repeats the earlier `put` calls. The lost call is then repeated with the same
    arguments. The answer is the same, and is used once.
    """

    def __init__(self, client: Any, parts: Sequence[tuple[Any, Any]]):
        super().__init__([])
        self._client, self._parts = client, list(parts)
        self._futures: list[Any] = []
        self._put: list[Sequence[tuple]] = []
        self._partitions = self._made(range(len(parts)))

    def _made(self, numbers: Sequence[int]) -> list[Any]:
        """Create the actors of some partitions on workers, and return the actors."""
        futures = []
        for number in numbers:
            name = f"skfdp-partition-{uuid.uuid4()}"
            parts = [part for part in self._parts[number] if part is not None]
            rows = self._client.compute(parts)
            futures.append(
                self._client.submit(Partition, *rows, key=name, pure=False, actor=True)
            )
        self._futures += futures
        try:
            return [future.result() for future in futures]
        except Exception:  # from the user's graph; its message may quote a cell
            pass
        raise RuntimeError(_NOT_COMPUTED)

    def _called(self, verb: str, arguments: Sequence[tuple]) -> list[Any]:
        if verb == "put":
            self._put.append(arguments)
        before = self._put[:-1] if verb == "put" else self._put
        found: dict[int, Any] = {}
        for _ in range(_ATTEMPTS):
            left = [i for i in range(len(self)) if i not in found]
            answers, lost = self._asked(left, verb, arguments)
            found |= answers
            if not lost:
                return [found[i] for i in range(len(self))]
            self._restore(list(lost), before)
        kind = type(next(iter(lost.values()))).__name__
        raise RuntimeError(
            f"{len(lost)} partition(s) could not be reached on any worker ({kind}), in "
            f"{_ATTEMPTS} attempts: see the logs of the workers; the charge for this "
            "fit stays."
        )

    def _asked(
        self, numbers: Sequence[int], verb: str, arguments: Sequence[tuple]
    ) -> tuple[dict[int, Any], dict[int, Exception]]:
        """Return the answers of some partitions, and the errors of lost partitions.

        The keys of both dicts are numbers of partitions. A partition never raises an
        error, so an error means that the partition is lost.
        """
        futures, found, lost = {}, {}, {}
        for i in numbers:
            try:
                futures[i] = self._partitions[i].answer(verb, *arguments[i])
            except Exception as error:
                lost[i] = error
        for i, future in futures.items():
            try:
                found[i] = future.result()
            except Exception as error:
                lost[i] = error
        return found, lost

    def _restore(self, numbers: Sequence[int], put: Sequence[Sequence[tuple]]) -> None:
        """Create lost partitions again, and repeat their `put` calls."""
        for i, partition in zip(numbers, self._made(numbers), strict=True):
            self._partitions[i] = partition
        for arguments in put:
            if self._asked(numbers, "put", arguments)[1]:
                return  # lost again, which the next attempt will detect

    def close(self) -> None:
        """Free the memory of all partitions on the workers."""
        super().close()
        # Dropping references is not enough, because actors are in reference cycles.
        self._client.cancel(self._futures)
        self._futures, self._parts, self._put = [], [], []


# Records, tables and queries over partitions.


class PublicTable:
    """Table with the public columns, and zeros in place of private columns.

    Zeros are added only to requested rows. `columns` holds the public columns, and
    `mask` is their mask among all columns.
    """

    def __init__(self, columns: np.ndarray, mask: np.ndarray):
        self._columns, self._mask = columns, mask
        self.shape = len(columns), len(mask)
        self.dtype, self.ndim = columns.dtype, 2

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> np.ndarray:
        """Return rows; for ``table[:, mask]`` return the public columns."""
        if isinstance(index, tuple):
            rows, columns = index
            if not np.array_equal(columns, self._mask):
                raise KeyError("only the public columns are available.")
            return self._columns[rows]
        chosen = self._columns[index]
        rows = np.zeros((len(chosen), len(self._mask)), dtype=self.dtype)
        rows[:, self._mask] = chosen
        return rows


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

    #: Class that draws batches of this query; see `skfdp.mechanisms.release`.
    sampler = PartitionBatches

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the sum."""
        return self.planned.shape

    @property
    def clip_norm(self) -> float:
        """L2 bound on the contribution of a record."""
        return self.planned.clip_norm

    def sensitivity(self, relation: Relation) -> float:
        """Return the L2 sensitivity of the sum."""
        return self.planned.sensitivity(relation)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum."""
        return self.planned.unit(noise_std)

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
    """A validated table in partitions, with the interface of `Records`.

    The rows stay in the partitions.

    Attributes
    ----------
    partitions : Partitions
        The partitions, which store the `Records` of their rows under `name`.
    sizes : tuple of int
        Number of rows of each partition; private if the number of rows is private.
    none : Records
        The same table without rows.
    public : PublicRecords
        The public part of all rows, in this process.
    target : ndarray of shape (n_rows,) or None
        The target if it is public.
    """

    partitions: Partitions
    sizes: tuple[int, ...]
    none: Records
    public: PublicRecords
    target: np.ndarray | None = None
    name: str = ROWS

    #: None here: each partition leaves out its own null records.
    is_null = None

    @property
    def n_rows(self) -> int:
        """Number of rows; private under "add_or_remove_one"."""
        return sum(self.sizes)

    @property
    def input_scaler(self) -> InputScaler:
        """The input scaler of the rows."""
        return self.public.input_scaler

    @property
    def total_weight(self) -> float:
        """Total weight of the rows, as in `public`."""
        return self.public.total_weight

    def query(self, recipe: Callable, **per_row: Any) -> PartitionedQuery:
        """Build a query in each partition by a recipe; return a query of all rows.

        Parameters are those of `Records.query`.
        """

        def cut(start: int, stop: int) -> dict[str, Any]:
            return {
                key: None if value is None else value[start:stop]
                for key, value in per_row.items()
            }

        ends = [0, *itertools.accumulate(self.sizes)]
        parts = list(itertools.starmap(cut, itertools.pairwise(ends)))
        name = self.partitions.put(recipe, self.name, parts)
        planned = recipe(self.none, **cut(0, 0))
        return PartitionedQuery(self.partitions, name, planned, self.n_rows)

    def of_public(self) -> PartitionedRecords:
        """Return the table of the public columns alone, with the same target."""
        return dataclasses.replace(
            self,
            name=self.partitions.put(Records.of_public, self.name),
            none=self.none.of_public(),
            public=self.public.of_public(),
        )

    def with_target(
        self, change: Callable[[np.ndarray], np.ndarray]
    ) -> PartitionedRecords:
        """Return the same table with a function applied to the target."""
        make = functools.partial(Records.with_target, change=change)
        return dataclasses.replace(
            self,
            name=self.partitions.put(make, self.name),
            none=self.none.with_target(change),
            target=None if self.target is None else change(self.target),
        )


# Partitions of Dask arrays and frames, and made-up rows of the same types.


def _parts_of(X: Any, y: Any) -> list[tuple[Any, Any]]:
    """Return the partitions of X and y as delayed objects."""
    rows = _delayed(X)
    if y is None:
        return [(one, None) for one in rows]
    if not is_dask(y):
        kind = type(y).__name__
        raise ValueError(
            f"y of type {kind} must be a Dask collection, like X: pass a Dask "
            "array or Series with the partitions of X."
        )
    targets = _delayed(y)
    if len(targets) != len(rows):
        raise ValueError(
            f"y has {len(targets)} partition(s), but X has {len(rows)}: pass y with "
            "the partitions of X."
        )
    return list(zip(rows, targets, strict=True))


def _delayed(collection: Any) -> list[Any]:
    if getattr(collection, "ndim", 2) == 2 and hasattr(collection, "rechunk"):
        collection = collection.rechunk({1: -1})  # partitions of complete rows
    found = collection.to_delayed()
    return found.ravel().tolist() if isinstance(found, np.ndarray) else list(found)


def _sample_of(collection: Any) -> Any:
    """Return two made-up rows with the names and types of a collection."""
    if issparse(collection._meta):
        raise TypeError(
            "X has sparse rows, but partitions must be dense: pass "
            "X.map_blocks(lambda rows: rows.toarray()) if they fit into memory."
        )
    if hasattr(collection, "rechunk"):
        return np.zeros((2, *collection.shape[1:]), dtype=collection.dtype)
    return collection._meta_nonempty


def computed(*tables: Any) -> tuple[Any, ...]:
    """Compute Dask collections, also those in lists; return other objects unchanged.

    An error of the user's graph is withheld, because it may quote a cell.
    """
    import dask

    try:
        return dask.compute(*tables)
    except Exception:
        pass
    # Raise outside the handler, because the context of an error may quote a value.
    raise RuntimeError(_NOT_COMPUTED)


def _current_client() -> Any:
    """Return the current client of `distributed`, or None if there is none."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


# From a collection to records.


# Parameters that are not sent to workers.
_STAYS = ("ledger", "random_state", "public_features", "public_model")


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
    _check(reader, like, y, planning, of_rows)
    client, parts = _current_client(), _parts_of(X, y)
    if client is None:
        partitions = Partitions(*computed(parts))
    else:
        partitions = WorkerPartitions(client, parts)
    try:
        return use(_read(reader, like, partitions, X, y, planning))
    finally:
        partitions.close()


def _check(
    reader: Reader, like: Any, y: Any, planning: bool, of_rows: dict[str, Any]
) -> None:
    """Refuse options that Dask collections do not support, before any row is read."""
    declared, model = reader.declaration, type(like).__name__
    if like._rows != "linear":
        raise TypeError(
            f"{model} does not support Dask collections (linear estimators do): pass "
            "X.compute() if it fits into memory."
        )
    given = [key for key, value in of_rows.items() if value is not None]
    if declared.schema is not None and declared.schema.group is not None:
        given.append(f"group={declared.schema.group!r} of a schema")
    if given:
        raise ValueError(
            f"{' and '.join(given)} cannot be combined with a Dask collection: pass a "
            "table in memory, or fit without groups and weights."
        )
    if not declared.is_private:
        raise ValueError(
            "epsilon=inf cannot be fitted to a Dask collection: use scikit-learn or "
            "dask-ml, or a finite epsilon."
        )
    if declared.releases_bounds:
        raise ValueError(
            "bounds='private' cannot be used with a Dask collection: declare bounds, "
            "or use private_bounds on some of the rows in memory."
        )
    if y is None and not (planning and not declared.public_target):
        raise ValueError(
            f"{model} requires y to be passed: give a Dask array or Series with the "
            "partitions of X."
        )
    if declared.classes is None and not declared.public_target:
        raise ValueError(
            "classes=None cannot be used with a Dask collection, whose private labels "
            "stay on the workers: declare `classes`."
        )


def _read(
    reader: Reader,
    like: Any,
    partitions: Partitions,
    table: Any,
    y: Any,
    planning: bool,
) -> PartitionedRecords:
    """Convert the rows of each partition to records, and return the whole table.

    The reader first converts two made-up rows. These rows are then removed, and the
    remaining public facts are sent to the partitions, which convert their own rows.
    """
    declared = reader.declaration
    sizes, targets = zip(*partitions.ask(ROWS, _sizes), strict=True)
    if y is not None and targets != sizes:
        raise ValueError(
            "y and X have partitions of different numbers of rows: pass y with the "
            "partitions of X, as y.rechunk(X.chunks[0]) of arrays."
        )
    labels = None
    if declared.public_target:
        labels = np.concatenate(partitions.ask(ROWS, _target))
        labels = declared.read_target(labels)
    elif y is not None:  # refuse the type of y, as for a table in memory
        target = declared.read_target(_sample_of(y))
        target = reader.checked_target(like, target, len(target))
        reader.target(like, target, len(target))
    n_rows = sum(sizes)
    if labels is not None:
        labels = reader.checked_target(like, labels, n_rows)
    sample = _sample_of(table)
    known = reader.read(like, sample, labels, planning=True, whole=n_rows)
    # Drop the sample rows: `none` is the table without rows.
    # A large table stays one, because its class decides how its rows are stored.
    encoding, X = known.public.encoding, chosen_rows(known.X, slice(0))
    if encoding is not None:
        encoding = dataclasses.replace(encoding, encoded=encoding.encoded[:0])
    reader = known.public.reader
    public = dataclasses.replace(
        known.public,
        target=None if known.public.target is None else known.public.target[:0],
        labels=None if known.public.labels is None else known.public.labels[:0],
        encoding=encoding,
        reader=None,
        _table=X,
    )
    target = None if known.target is None else known.target[:0]
    sent = Records(X, target, public)
    make = functools.partial(
        _records_of_partition,
        reader=reader.sent(public.classes),
        like=_sent(like),
        none=sent,
        planning=planning,
    )
    partitions.put(make, ROWS, name=ROWS)
    none = Records(X, target, dataclasses.replace(public))
    public = _with_rows(known.public, partitions, n_rows)
    return PartitionedRecords(partitions, sizes, none, public, public.target)


def _with_rows(
    public: PublicRecords, partitions: Partitions, n_rows: int
) -> PublicRecords:
    """Return the public part of the table, with the public columns of all rows."""
    mask, encoding = public.mask, public.encoding
    columns = np.empty((n_rows, 0))
    if mask.any():
        columns = np.concatenate(partitions.ask(ROWS, _public_columns))
    if encoding is not None:
        encoded = np.empty((n_rows, 0))
        if encoding.public_encoded.any():
            encoded = np.concatenate(partitions.ask(ROWS, _public_encoded))
        encoding = dataclasses.replace(encoding, encoded=encoded)
    table = columns if mask.all() else PublicTable(columns, mask)
    return dataclasses.replace(
        public, encoding=encoding, in_partitions=True, _table=table
    )


def _sent(like: Any) -> Any:
    """Return a copy of the estimator for workers, without ledger, seed, callbacks."""
    own = copy.copy(like)
    for name in [name for name in vars(own) if "callback" in name]:
        delattr(own, name)
    for name in _STAYS:
        if hasattr(own, name):
            vars(own)[name] = None
    own.solver = "auto"
    return own


def _records_of_partition(
    raw: tuple[Any, Any], reader: Reader, like: Any, none: Records, planning: bool
) -> Records:
    """Convert the rows ``(X, y)`` of a partition to records; see `Reader.part`."""
    X, y = raw
    if not X.shape[0]:
        return none
    return reader.part(copy.copy(like), X, y, none, planning)


# Functions for `Partitions.ask`, which must be picklable.


def _sizes(raw: tuple[Any, Any]) -> tuple[int, int]:
    return tuple([0 if part is None else part.shape[0] for part in raw])


def _target(raw: tuple[Any, Any]) -> np.ndarray:
    return np.asarray(unmasked(raw[1], as_objects=True))


def _public_columns(records: Records) -> np.ndarray:
    return np.asarray(records.X[:, records.public.mask])


def _public_encoded(records: Records) -> np.ndarray:
    return records.public.encoding.whole
