"""Dask arrays and frames: their partitions, and rows that stand for their types."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skfdp.estimators.partitions.places import WITHHELD, Places

_NO_PARTITIONS = (
    "{name} must be a Dask array or frame with the partitions of X: this one has "
    "{found}, and X has {wanted}."
)


def is_collection(X: Any) -> bool:
    """Whether X is an array or a frame of Dask; imports nothing."""
    package = type(X).__module__.partition(".")[0]
    return package in ("dask", "dask_expr") and hasattr(X, "to_delayed")


def parts_of(X: Any, y: Any) -> list[tuple[Any, Any]]:
    """Return the partitions of X and y, as what Dask can compute.

    Parameters
    ----------
    X : dask array of shape (n_rows, n_features) or frame
    y : dask array or Series of shape (n_rows,), or None

    Raises
    ------
    ValueError
        If they are no collections with the same number of partitions.
    """
    rows = _delayed(X)
    if y is None:
        return [(one, None) for one in rows]
    if not is_collection(y):
        kind = type(y).__name__
        raise ValueError(
            f"y of type {kind} must be a Dask array or Series with the partitions of "
            "X, which is a Dask collection."
        )
    targets = _delayed(y)
    if len(targets) != len(rows):
        wanted = f"{len(rows)} partition(s)"
        found = f"{len(targets)} partition(s)"
        raise ValueError(_NO_PARTITIONS.format(name="y", found=found, wanted=wanted))
    return list(zip(rows, targets, strict=True))


def _delayed(collection: Any) -> list[Any]:
    if getattr(collection, "ndim", 2) == 2 and hasattr(collection, "rechunk"):
        collection = collection.rechunk({1: -1})  # whole rows
    found = collection.to_delayed()
    return found.ravel().tolist() if isinstance(found, np.ndarray) else list(found)


def sample_of(collection: Any) -> Any:
    """Return two rows that no collection holds, of its names and types.

    Raises
    ------
    TypeError
        If it holds sparse rows.
    """
    if issparse(collection._meta):
        raise TypeError(
            "X holds sparse rows, and partitions are dense: pass "
            "X.map_blocks(lambda rows: rows.toarray()) if they fit."
        )
    if hasattr(collection, "rechunk"):
        shape = (2, *(n for n in collection.shape[1:]))
        return np.zeros(shape, dtype=collection.dtype)
    return collection._meta_nonempty


def places_of(parts: list[tuple[Any, Any]]) -> Places:
    """Return where the partitions are: on the workers of the current client, if any."""
    client = _current_client()
    if client is None:
        return Places(*computed(parts))
    from skfdp.estimators.partitions.cluster import ClusterPlaces

    return ClusterPlaces(client, parts)


def computed(*tables: Any) -> tuple[Any, ...]:
    """Return what Dask collections hold, also those in lists, and others as given.

    Raises
    ------
    RuntimeError
        Instead of any error of the user's graph, which may quote a cell.
    """
    import dask

    try:
        return dask.compute(*tables)
    except Exception:
        pass
    # Outside the handler, so that no error that quotes a value is kept as a context.
    raise RuntimeError(WITHHELD)


def _current_client() -> Any:
    """Return the client of `distributed` that is current, None without one."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None
