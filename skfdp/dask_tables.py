"""Tables in partitions that stay where they are: the rows of a Dask collection.

`on_records` makes the records of a fit out of a collection. `Partitions` asks the
partitions, in this process or (`WorkerPartitions`) on workers of `distributed`.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import itertools
import math
import sys
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skfdp.data.arrays import (
    blanked,
    check_arrays,
    check_finite,
    declared_numbers,
    either,
    is_dask,
)
from skfdp.data.input_scaler import InputScaler
from skfdp.data.records import PublicRecords, Records
from skfdp.data.validation import unmasked, without_traps
from skfdp.mechanisms.noise import generator_of, random_words
from skfdp.mechanisms.release import PoissonBatches, not_null
from skfdp.privacy.events import Relation
from skfdp.queries import Query

# Poisson batches of rows that are elsewhere: each partition draws its own members.
#
# The draw of one step and one partition has a key of its own, so that whoever draws,
# and however often, draws the same members.


# Of the key from which those of steps and partitions are derived.
_KEY_WORDS = 4


@dataclasses.dataclass(frozen=True)
class PartitionDraw:
    """The 128-bit key, a secret, by which one partition draws its part of a batch."""

    key: int = dataclasses.field(repr=False)
    rate: float

    def members(self, n_rows: int) -> np.ndarray:
        """Return the members among the rows of the partition, int64, increasing."""
        return PoissonBatches(generator_of(self.key), n_rows, self.rate).draw()


@dataclasses.dataclass(frozen=True)
class PartitionBatch:
    """One Poisson batch over all partitions, not drawn yet; its key is a secret."""

    step: int
    rate: float
    _key: bytes = dataclasses.field(repr=False)

    def of(self, partition: int) -> PartitionDraw:
        """Return the draw of a partition, given by number."""
        label = f"{self.step}/{partition}".encode()
        found = hashlib.blake2b(label, key=self._key, digest_size=16).digest()
        return PartitionDraw(int.from_bytes(found, "little"), self.rate)


class PartitionBatches:
    """Batches that each row enters independently with probability `rate`.

    `generator` is a private stream, which nothing public shares.

    Notes
    -----
    **Guarantees.** Keys are those of a keyed hash of (step, partition), under a key
    that never leaves this object and is drawn from the stream: whoever knows the key
    of one step and partition learns nothing of any others. So the members of different
    partitions and steps are independent, and each is drawn as `PoissonBatches` says:
    the union over the partitions is a Poisson batch of all rows.
    """

    def __init__(self, generator: np.random.Generator, n_rows: int, rate: float):
        self._key = random_words(generator, _KEY_WORDS).tobytes()
        self._rate, self._step = rate, -1

    def draw(self) -> PartitionBatch:
        """Return the next batch."""
        self._step += 1
        return PartitionBatch(self._step, self._rate, self._key)


# Partitions: the rows of each, what is made of them, and the way to ask all of them.


#: The name under which a partition keeps its rows, as given and then as `Records`.
ROWS = "rows"
_WITHHELD = (
    "a partition could not be read; the error is withheld because it may quote the "
    "data: fit to a collection of made-up rows to see it."
)
_NOT_COMPUTED = (
    "a partition of the Dask collection could not be computed; the error is withheld "
    "because it may quote the data: compute the collection of made-up rows to see it."
)
# A step is asked for so many times before a fit gives up.
_ATTEMPTS = 5


class Partition:
    """The rows of one partition, and what is made of them, where they are.

    Notes
    -----
    **Guarantees.** Every answer is a function of the partition and of what was put and
    asked: an answer that is asked for twice, or of a new object after the loss of this
    one, is the same to the last bit.
    """

    def __init__(self, X: Any, y: Any = None):
        self._kept: dict[str, Any] = {ROWS: (X, y)}

    def answer(self, verb: str, *arguments: Any) -> Any:
        """Return what a method says, or its error: none is ever raised here.

        The scheduler and the workers of a cluster log errors, and the arguments of what
        failed with them.
        """
        try:
            with without_traps():
                return getattr(self, verb)(*arguments)
        except (ValueError, TypeError) as error:
            # Ours quote no datum; those of libraries, of types of their own, may.
            if type(error) in (ValueError, TypeError):
                return type(error)(str(error))
        except Exception:  # its type, too, may depend on a value
            pass
        return RuntimeError(_WITHHELD)

    def put(self, name: str, make: Callable, source: str, per_row: dict) -> None:
        """Keep ``make(what is kept as source, **per_row)`` under a name."""
        self._kept[name] = make(self._kept[source], **per_row)

    def ask(self, name: str, question: Callable) -> Any:
        """Return ``question(what is kept)``; it leaves the partition."""
        return question(self._kept[name])

    def total(
        self,
        name: str,
        theta: np.ndarray | None,
        draw: PartitionDraw | None,
        unit: float,
    ) -> np.ndarray:
        """Return the exact sum of a query over a batch; no draw: over every row.

        Malformed records are left out, as those of a table in memory are.
        """
        query, is_null = self._kept[name], self._kept[ROWS].is_null
        batch = None if draw is None else draw.members(query.n_rows)
        return query.exact_sum(theta, not_null(batch, is_null, query.n_rows), unit)


class Partitions:
    """Partitions ``(X, y)`` in this process."""

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
        """Keep what a function makes of something kept, in every partition.

        `make` can be pickled; `per_row` are further arguments, those of each partition.
        The name of what is made is returned: a new one, if none is given.
        """
        name = f"made {next(self._names)}" if name is None else name
        given = [{}] * len(self) if per_row is None else per_row
        self._answers("put", [(name, make, source, one) for one in given])
        return name

    def ask(self, name: str, question: Callable) -> list[Any]:
        """Return what a function says of something kept, in the order of the rows."""
        return self._answers("ask", [(name, question)] * len(self))

    def total(
        self,
        name: str,
        theta: np.ndarray | None,
        batch: PartitionBatch | None,
        unit: float,
    ) -> np.ndarray:
        """Return the exact int64 sum of a query over all partitions."""
        draws = [None if batch is None else batch.of(i) for i in range(len(self))]
        found = self._answers("total", [(name, theta, one, unit) for one in draws])
        return np.sum(found, axis=0, dtype=np.int64)  # whatever the order: integers

    def close(self) -> None:
        """Let go of everything that is kept."""
        self._partitions = []

    def _answers(self, verb: str, arguments: Sequence[tuple]) -> list[Any]:
        """Return what each partition answers, or raise what went wrong there."""
        found = self._called(verb, arguments)
        for one in found:
            if isinstance(one, Exception):
                raise one
        return found

    def _called(self, verb: str, arguments: Sequence[tuple]) -> list[Any]:
        pairs = zip(self._partitions, arguments, strict=True)
        return [partition.answer(verb, *given) for partition, given in pairs]


class WorkerPartitions(Partitions):
    """Partitions on workers of `distributed`; those of a lost worker are made anew.

    Each is an actor: after it is made, this process asks the worker that has it, and no
    task, no name of one and no log of the scheduler says more than that it exists.

    Notes
    -----
    **Guarantees.** What is asked of a partition while its worker is lost is asked again
    of a new one, which another worker makes from the graph of the collection and from
    all that was put there, with the same arguments: the answer is the same, and is
    taken once.
    """

    def __init__(self, client: Any, parts: Sequence[tuple[Any, Any]]):
        super().__init__([])
        self._client, self._parts = client, list(parts)
        self._futures: list[Any] = []
        self._put: list[Sequence[tuple]] = []
        self._partitions = self._made(range(len(parts)))

    def _made(self, numbers: Sequence[int]) -> list[Any]:
        """Return new actors of some partitions, each where its rows are."""
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
        except Exception:  # of the user's graph; it may quote a cell
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
            f"{len(lost)} partition(s) could not be asked on any worker ({kind}), in "
            f"{_ATTEMPTS} attempts: see the logs of the workers; what was charged "
            "for this fit stays."
        )

    def _asked(
        self, numbers: Sequence[int], verb: str, arguments: Sequence[tuple]
    ) -> tuple[dict[int, Any], dict[int, Exception]]:
        """Return the answers of some partitions by number, and who gave none.

        A partition raises nothing: where there is an error, it is gone.
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
        """Make lost partitions anew, with all that was put there."""
        for i, partition in zip(numbers, self._made(numbers), strict=True):
            self._partitions[i] = partition
        for arguments in put:
            if self._asked(numbers, "put", arguments)[1]:
                return  # lost again: the next attempt finds out

    def close(self) -> None:
        """Let the workers go of everything."""
        super().close()
        # Not by their references alone: actors are in cycles, and live on.
        self._client.cancel(self._futures)
        self._futures, self._parts, self._put = [], [], []


# What a fit sees of the partitions.


class PublicTable:
    """The public columns of a table, where those of whole rows are asked for.

    Private columns are zeros; only rows that are asked for are ever made whole.

    `columns` are the public ones, and `mask` says where they are.
    """

    def __init__(self, columns: np.ndarray, mask: np.ndarray):
        self._columns, self._mask = columns, mask
        self.shape = len(columns), len(mask)
        self.dtype, self.ndim = columns.dtype, 2

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> np.ndarray:
        """Return rows, or the public columns: ``table[:, mask]``."""
        if isinstance(index, tuple):
            rows, columns = index
            if not np.array_equal(columns, self._mask):
                raise KeyError("only the public columns are here.")
            return self._columns[rows]
        chosen = self._columns[index]
        rows = np.zeros((len(chosen), len(self._mask)), dtype=self.dtype)
        rows[:, self._mask] = chosen
        return rows


@dataclasses.dataclass(frozen=True)
class PartitionedQuery:
    """A sum over rows in partitions: that of the sums of the partitions.

    `name` is that of the queries of the partitions; `planned` is the same one over no
    rows, which has the bounds.

    Notes
    -----
    **Guarantees.** Those of `planned`: unit, clip norm and sensitivity depend on public
    facts of the whole table, and are the same in every partition. A vector of
    `exact_sum` is that of one record in its own partition, so that the sum of int64
    sums is the one over all rows, in any order.
    """

    partitions: Partitions
    name: str
    planned: Query
    n_rows: int

    #: Draws its batches; see `mechanisms.release`.
    sampler = PartitionBatches

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the sum."""
        return self.planned.shape

    @property
    def clip_norm(self) -> float:
        """L2 bound of a contribution."""
        return self.planned.clip_norm

    def sensitivity(self, relation: Relation) -> float:
        """Return how far neighbours move the sum."""
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
        """Return the query that `make` makes of this one in each partition."""
        name = self.partitions.put(make, self.name)
        return dataclasses.replace(self, name=name, planned=make(self.planned))


@dataclasses.dataclass(frozen=True)
class PartitionedRecords:
    """A checked table in partitions; it has the interface of `Records`, but no rows.

    Attributes
    ----------
    partitions : Partitions
        Which hold the `Records` of their rows, under `name`.
    sizes : tuple of int
        Rows of each partition; private where the number of rows is.
    none : Records
        The same table without rows.
    public : PublicRecords
        The public part of all rows, in this process.
    target : ndarray of shape (n_rows,) or None
        Only a public one.
    """

    partitions: Partitions
    sizes: tuple[int, ...]
    none: Records
    public: PublicRecords
    target: np.ndarray | None = None
    name: str = ROWS

    #: Each partition leaves its own malformed records out.
    is_null = None

    @property
    def n_rows(self) -> int:
        """Number of rows; private where nothing is public."""
        return sum(self.sizes)

    @property
    def input_scaler(self) -> InputScaler:
        """The map of whole rows."""
        return self.public.input_scaler

    @property
    def total_weight(self) -> float:
        """As that of `public`."""
        return self.public.total_weight

    def query(self, recipe: Callable, **per_row: Any) -> PartitionedQuery:
        """Return the sum over partitions of the queries that a recipe makes of them.

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
        """Return the same table with another target, a function of each one."""
        make = functools.partial(Records.with_target, change=change)
        return dataclasses.replace(
            self,
            name=self.partitions.put(make, self.name),
            none=self.none.with_target(change),
            target=None if self.target is None else change(self.target),
        )


# Dask arrays and frames: their partitions, and rows that stand for their types.


def _parts_of(X: Any, y: Any) -> list[tuple[Any, Any]]:
    """Return the partitions of X and y, as what Dask can compute."""
    rows = _delayed(X)
    if y is None:
        return [(one, None) for one in rows]
    if not is_dask(y):
        kind = type(y).__name__
        raise ValueError(
            f"y of type {kind} must be a Dask array or Series with the partitions of "
            "X, which is a Dask collection."
        )
    targets = _delayed(y)
    if len(targets) != len(rows):
        raise ValueError(
            "y must be a Dask array or frame with the partitions of X: this one has "
            f"{len(targets)} partition(s), and X has {len(rows)} partition(s)."
        )
    return list(zip(rows, targets, strict=True))


def _delayed(collection: Any) -> list[Any]:
    if getattr(collection, "ndim", 2) == 2 and hasattr(collection, "rechunk"):
        collection = collection.rechunk({1: -1})  # whole rows
    found = collection.to_delayed()
    return found.ravel().tolist() if isinstance(found, np.ndarray) else list(found)


def _sample_of(collection: Any) -> Any:
    """Return two rows that no collection holds, of its names and types."""
    if issparse(collection._meta):
        raise TypeError(
            "X holds sparse rows, and partitions are dense: pass "
            "X.map_blocks(lambda rows: rows.toarray()) if they fit."
        )
    if hasattr(collection, "rechunk"):
        return np.zeros((2, *collection.shape[1:]), dtype=collection.dtype)
    return collection._meta_nonempty


def computed(*tables: Any) -> tuple[Any, ...]:
    """Return what Dask collections hold, also those in lists, and others as given.

    Any error of the user's graph is withheld, because it may quote a cell.
    """
    import dask

    try:
        return dask.compute(*tables)
    except Exception:
        pass
    # Outside the handler, so that no error that quotes a value is kept as a context.
    raise RuntimeError(_NOT_COMPUTED)


def _current_client() -> Any:
    """Return the client of `distributed` that is current, None without one."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


# From a collection to records.


# What a worker has no need of.
_STAYS = ("ledger", "random_state", "public_features", "public_model")


@dataclasses.dataclass(frozen=True)
class Whole:
    """Number of rows and public target of a table, of which a sample is looked at."""

    n_rows: int
    y: np.ndarray | None

    def of(self, estimator: Any, X: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Return a sample and the whole public target, as arrays that were checked."""
        if estimator._declared.encoder is None:
            X = declared_numbers(X, estimator._declared.bounds)
        X = check_arrays(estimator, X)
        if self.y is None:
            return X, None
        rows = np.zeros((self.n_rows, 1))
        return X, check_arrays(copy.copy(estimator), rows, self.y)[1]


def on_records(
    estimator: Any,
    use: Callable[[PartitionedRecords], Any],
    X: Any,
    y: Any,
    planning: bool,
    **of_rows: Any,
) -> Any:
    """Return what `use` makes of the records of a Dask collection.

    The estimator learns the names of columns, as from any table. `of_rows` are weights
    and groups, for which there is no way yet.

    Notes
    -----
    **Guarantees.** Of the values of a collection, its public columns, a public target
    and the sizes of its partitions come into this process, and nothing else before
    something is released. All partitions are let go of in the end.
    """
    _check(estimator, X, y, planning, of_rows)
    client, parts = _current_client(), _parts_of(X, y)
    if client is None:
        partitions = Partitions(*computed(parts))
    else:
        partitions = WorkerPartitions(client, parts)
    try:
        return use(_read(estimator, partitions, X, y, planning))
    finally:
        partitions.close()


def check_method(method: Any) -> None:
    """Refuse partitions where a method needs the rows in one place.

    It says what for by ``needs_whole_table() -> str or None``; of a method without it,
    that is the method itself.
    """
    asked = getattr(method, "needs_whole_table", None)
    reason = f"{type(method).__name__} is a method that" if asked is None else asked()
    if reason is not None:
        raise ValueError(
            f"{reason} needs a table in memory, and not a Dask collection: choose "
            "another, or pass X.compute() if it fits."
        )


def _check(
    estimator: Any, X: Any, y: Any, planning: bool, of_rows: dict[str, Any]
) -> None:
    """Refuse what there is no way for, before a partition is looked at."""
    name = type(estimator).__name__
    if not getattr(estimator, "_takes_partitions", False):
        raise TypeError(
            f"{name} takes no Dask collection yet, as the linear estimators do: pass "
            "X.compute() if it fits."
        )
    given = [key for key, value in of_rows.items() if value is not None]
    schema = estimator._declared.schema
    if schema is not None and schema.group is not None:
        given.append(f"group={schema.group!r} of a schema")
    if given:
        raise ValueError(
            f"{' and '.join(given)} cannot be given with a Dask collection yet: pass a "
            "table in memory, or leave it out."
        )
    if math.isinf(estimator.epsilon):
        raise ValueError(
            "epsilon=inf cannot be fitted to a Dask collection: use scikit-learn or "
            "dask-ml, or a finite epsilon."
        )
    if estimator._declared.releases_bounds:
        raise ValueError(
            "bounds='private' cannot be released from a Dask collection yet: declare "
            "bounds, or take those of private_bounds of a part in memory."
        )
    if y is None and not (planning and not estimator._declared.public_target):
        raise ValueError(
            f"{name} requires y to be passed: a Dask array or Series with the "
            "partitions of X."
        )
    if estimator._declared.classes is None and not estimator._declared.public_target:
        raise ValueError(
            "classes=None: the labels of a Dask collection are private and stay where "
            "they are; declare `classes`."
        )


def _read(
    estimator: Any, partitions: Partitions, table: Any, y: Any, planning: bool
) -> PartitionedRecords:
    """Return the records of a collection, made where its partitions are."""
    sizes = tuple(partitions.ask(ROWS, _size))
    labels = None
    if estimator._declared.public_target:
        labels = np.concatenate(partitions.ask(ROWS, _target))
        labels = estimator._declared.read_target(labels)
    sample = _sample_of(table), None if y is None else _sample_of(y)
    whole = Whole(sum(sizes), labels)
    known = estimator._records(*sample, planning=True, whole=whole)
    # The table without rows, from two that no table holds.
    encoding, X = known.public.encoding, known.X[:0]
    if encoding is not None:
        encoding = dataclasses.replace(encoding, encoded=encoding.encoded[:0])
    public = dataclasses.replace(
        known.public,
        target=None if known.public.target is None else known.public.target[:0],
        labels=None if known.public.labels is None else known.public.labels[:0],
        encoding=encoding,
        _table=X,
    )
    none = Records(X, None if known.target is None else known.target[:0], public)
    sent = dataclasses.replace(none, public=dataclasses.replace(none.public))
    own = _sent(estimator, public)
    make = functools.partial(
        _records_of_partition, estimator=own, none=sent, planning=planning
    )
    partitions.put(make, ROWS, name=ROWS)
    public = _with_rows(known.public, partitions, sum(sizes))
    return PartitionedRecords(partitions, sizes, none, public, public.target)


def _with_rows(
    public: PublicRecords, partitions: Partitions, n_rows: int
) -> PublicRecords:
    """Return the public part of the whole table."""
    mask, encoding = public.mask, public.encoding
    columns = np.empty((n_rows, 0))
    if mask.any():
        columns = np.concatenate(partitions.ask(ROWS, _public_columns))
    if encoding is not None:
        shown = np.empty((n_rows, 0))
        if encoding.public_encoded.any():
            shown = np.concatenate(partitions.ask(ROWS, _public_encoded))
        encoding = dataclasses.replace(encoding, encoded=shown)
    table = columns if mask.all() else PublicTable(columns, mask)
    return dataclasses.replace(
        public, encoding=encoding, in_partitions=True, _table=table
    )


def _sent(estimator: Any, public: PublicRecords) -> Any:
    """Return what a worker needs of an estimator: not its ledger, not its seed."""
    own = copy.copy(estimator)
    for name in [name for name in vars(own) if "callback" in name]:
        delattr(own, name)
    for name in _STAYS:
        if hasattr(own, name):
            vars(own)[name] = None
    told = {"public_features": None}
    if public.classes is not None:
        told["classes"] = public.classes.tolist()
    own._declared = dataclasses.replace(own._declared, **told)
    own.solver = "auto"
    return own


def _records_of_partition(
    raw: tuple[Any, Any], estimator: Any, none: Records, planning: bool
) -> Records:
    """Return the records of a partition ``(X, y)``, as those of the whole table are.

    The estimator knows the columns, and the fitted encoder; `none` is what is known of
    the whole table, without rows. `planning` looks at nothing private.
    """
    (X, y), public = raw, none.public
    if not X.shape[0]:
        return none
    own, encoded = copy.copy(estimator), estimator._declared.encoder is not None
    y = own._declared.read_target(y)
    if encoded:
        X = own.encoder_.encoded(own._declared.schema.select(X), least=0)
    X, y = own._checked(X, y, planning, reset=encoded, enough=False)
    if not encoded:
        check_finite(X, public.mask)
    target, missing, _ = own._target(y, X.shape[0])
    shows_target, table = bool(own._declared.public_target), public.encoding
    if table is not None:
        table = dataclasses.replace(table, encoded=X)
        X, table = table.rows(), table.public_part()
    if planning:
        X = blanked(X, public.mask)
    X, is_null = public.input_scaler.filled(X)
    public = dataclasses.replace(
        public,
        target=target if shows_target else None,
        labels=y if shows_target else None,
        encoding=table,
        _table=X,
    )
    return Records(X, target, public, either(is_null, missing))


# Questions, which can be pickled.


def _size(raw: tuple[Any, Any]) -> int:
    return raw[0].shape[0]


def _target(raw: tuple[Any, Any]) -> np.ndarray:
    return np.asarray(unmasked(raw[1], as_objects=True))


def _public_columns(records: Records) -> np.ndarray:
    return records.X[:, records.public.mask]


def _public_encoded(records: Records) -> np.ndarray:
    return records.public.encoding.encoded
