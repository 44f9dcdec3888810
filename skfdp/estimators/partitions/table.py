"""Tables whose rows are elsewhere, as a fit sees them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from skfdp.estimators.partitions.places import Places
from skfdp.estimators.partitions.shelf import RECORDS
from skfdp.privacy.relations import Relation
from skfdp.queries import Query
from skfdp.records.records import PublicRecords, Records
from skfdp.records.row_map import RowMap
from skfdp.releases.partition_coins import PartitionBatch, PartitionBatches


class PublicTable:
    """The public columns of a table, where those of whole rows are asked for.

    Private columns are zeros; only rows that are asked for are ever made whole.

    Parameters
    ----------
    columns : ndarray of shape (n_rows, n_public)
    mask : bool ndarray of shape (n_features,)
        The public columns.
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

    Attributes
    ----------
    places : Places
    name : str
        Of the queries of the partitions, where these are.
    planned : Query
        The same over no rows; it has the bounds.
    n_rows : int

    Notes
    -----
    **Guarantees.** Those of `planned`: unit, clip norm and sensitivity depend on public
    facts of the whole table, and are the same in every partition. A vector of
    `exact_sum` is that of one record in its own partition, so that the sum of int64
    sums is the one over all rows, in any order.
    """

    places: Places
    name: str
    planned: Query
    n_rows: int

    #: Draws its batches; see `releases.desk`.
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
        return self.places.total(self.name, theta, batch, unit)

    def derived(self, make: Callable[[Any], Query]) -> PartitionedQuery:
        """Return the query that `make` makes of this one in each partition."""
        name = self.places.put(make, self.name)
        return dataclasses.replace(self, name=name, planned=make(self.planned))


@dataclasses.dataclass(frozen=True)
class PartitionedRecords:
    """A checked table in partitions; it has the interface of `Records`, but no rows.

    Attributes
    ----------
    places : Places
        Where the `Records` of the partitions are.
    sizes : tuple of int
        Rows of each partition; private where the number of rows is.
    none : Records
        The same table without rows.
    public : PublicRecords
        The public part of all rows, in this process.
    target : ndarray of shape (n_rows,) or None
        Only a public one.
    name : str
        Of the records of the partitions.
    """

    places: Places
    sizes: tuple[int, ...]
    none: Records
    public: PublicRecords
    target: np.ndarray | None = None
    name: str = RECORDS

    #: Each partition leaves its own void records out.
    void = None

    @property
    def n_rows(self) -> int:
        """Number of rows; private where nothing is public."""
        return sum(self.sizes)

    @property
    def row_map(self) -> RowMap:
        """The map of whole rows."""
        return self.public.row_map

    @property
    def total_weight(self) -> float:
        """As that of `public`."""
        return self.public.total_weight

    def query(self, recipe: Callable, **per_row: Any) -> PartitionedQuery:
        """Return the sum over partitions of the queries that a recipe makes of them.

        Parameters are those of `Records.query`.
        """
        name = self.places.put(recipe, self.name, self._cut(per_row))
        nothing = {key: _rows(value, 0, 0) for key, value in per_row.items()}
        planned = recipe(self.none, **nothing)
        return PartitionedQuery(self.places, name, planned, self.n_rows)

    def with_target(
        self, change: Callable[[np.ndarray], np.ndarray]
    ) -> PartitionedRecords:
        """Return the same table with another target, a function of each one."""
        return dataclasses.replace(
            self,
            name=self.places.put(_Retargeted(change), self.name),
            none=self.none.with_target(change),
            target=None if self.target is None else change(self.target),
        )

    def close(self) -> None:
        """Let go of what is kept where the partitions are."""
        self.places.close()

    def _cut(self, per_row: dict[str, Any]) -> Sequence[dict[str, Any]]:
        """Return what belongs to the rows of each partition."""
        ends = np.concatenate([[0], np.cumsum(self.sizes)])
        return [
            {key: _rows(value, start, stop) for key, value in per_row.items()}
            for start, stop in zip(ends[:-1], ends[1:], strict=True)
        ]


@dataclasses.dataclass(frozen=True)
class _Retargeted:
    """Records with another target; can be pickled if the change can."""

    change: Callable[[np.ndarray], np.ndarray]

    def __call__(self, records: Records) -> Records:
        return records.with_target(self.change)


def _rows(values: Any, start: int, stop: int) -> Any:
    return None if values is None else values[start:stop]


def n_rows_of(records: Records) -> int:
    """Return the number of rows of a partition; a question."""
    return records.n_rows
