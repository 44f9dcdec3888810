"""The public facts of a table that is scored: its shape, its names, its groups."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skfdp.encoding.tables import check_names, check_no_path
from skfdp.estimators.arrays import shaped_target
from skfdp.estimators.scoring.predictions import n_rows_of
from skfdp.privacy.facts import spelling
from skfdp.records.checks import is_missing, shown, unmasked
from skfdp.records.names import column_names, name_facts, target_name
from skfdp.records.units import Units


@dataclasses.dataclass(frozen=True)
class Scored:
    """A table of records to be scored.

    Attributes
    ----------
    X : table
        Private.
    y : ndarray of shape (n_rows,)
        Private.
    columns : tuple of str or int
        Names of all columns, that of the groups among them.
    facts : dict
        What the event says of names.
    group : int64 ndarray of shape (n_rows,)
        Public.
    groups : tuple
        Values of the groups; empty without.
    by : str, int or None
    units : Units or None
        Weights of the rows, and the persons they belong to; None: each row is a record
        and counts as one.
    """

    X: Any
    y: np.ndarray
    columns: tuple[str | int, ...]
    facts: dict[str, Any]
    group: np.ndarray
    groups: tuple
    by: str | int | None
    units: Units | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows; private under "add_or_remove_one"."""
        return len(self.y)

    @property
    def n_groups(self) -> int:
        """Number of rows of the released table."""
        return max(1, len(self.groups))

    def column(self, place: int) -> list:
        """Return the values of a public column of the table."""
        return _column(self.X, place)

    @property
    def sizes(self) -> list[int]:
        """Number of records, or persons, in each group; public if there are groups."""
        group, units = self.group, self.units
        if units is not None and units.persons is not None:
            pairs = np.unique(np.column_stack([group, units.persons]), axis=0)
            group = pairs[:, 0]
        return np.bincount(group, minlength=self.n_groups).tolist()

    def totals(self, group: int | None = None) -> np.ndarray:
        """Return the sum of the shares of each person's rows, in one group or in all.

        Parameters
        ----------
        group : int or None

        Returns
        -------
        totals : float64 ndarray of shape (n_units,)
            Public.
        """
        chosen = slice(None) if group is None else self.group == group
        if self.units is None:
            return np.ones(self.n_rows)[chosen]
        shares, persons = self.units.shares[chosen], self.units.persons
        if persons is None:
            return shares
        return np.bincount(persons[chosen], shares, minlength=self.units.n_units)

    @classmethod
    def build(cls, X: Any, y: Any, by: Any, named: Any, names: Any, model: Any):
        """Check what is public of a table, or raise ValueError; quotes no datum.

        Parameters
        ----------
        X, y, by, names
            As the user gave them.
        named : str or None
            Name of the target, where the user or the model gives it.
        model : object
            The fitted estimator.
        """
        X = _table(X)
        n_rows, n_columns = n_rows_of(X), int(X.shape[1])
        y_name = target_name(named, y)
        y = shaped_target(y, n_rows)
        own = _own_names(X)
        _check_columns(model, n_columns, own)
        columns = column_names(names, own, n_columns)
        group, groups = np.zeros(n_rows, dtype=np.int64), ()
        mask, by_name = np.zeros(n_columns, dtype=bool), None
        if by is not None:
            values, by_name = _groups(X, by, columns, own)
            group, groups = _coded(values, n_rows)
            if by_name not in columns:
                columns = (*columns, by_name)
            # Columns of one name are one column of the table.
            mask = np.array([name == by_name for name in columns])
        facts = name_facts(columns, mask, target=y_name)
        return cls(X, y, columns, facts, group, groups, by_name)


def _table(X: Any) -> Any:
    """Return X as something whose rows can be taken."""
    check_no_path(X)
    check_names(X)
    if issparse(X):
        return X.tocsr()
    if not hasattr(X, "columns") and not hasattr(X, "schema"):
        X = unmasked(X)
        # The type of a list is that of no cell.
        listed = isinstance(X, (list, tuple))
        X = np.array(X, dtype=object) if listed else np.asarray(X)
    if len(getattr(X, "shape", ())) != 2:
        raise ValueError(
            f"X=<{type(X).__name__}> must be a table with rows and columns."
        )
    return X


def _own_names(X: Any) -> list[str] | None:
    """Return the names of the columns, None if they are no strings."""
    labels = getattr(X, "columns", None)
    if labels is None or callable(labels):
        return None
    if hasattr(X, "column_names"):  # pyarrow, whose columns are the data
        labels = X.column_names
    labels = list(labels)
    return labels if all(isinstance(label, str) for label in labels) else None


def _check_columns(model: Any, n_columns: int, own: list[str] | None) -> None:
    """Refuse another table than the model was fitted to, by public facts."""
    wanted = getattr(model, "n_features_in_", None)
    if wanted is not None and wanted != n_columns:
        raise ValueError(
            f"X has {n_columns} columns, the model was fitted to {wanted}: pass the "
            "columns that it was fitted to."
        )
    names = getattr(model, "feature_names_in_", None)
    if names is not None and own is not None and list(names) != own:
        raise ValueError(
            "X has other column names, or another order, than the table that the model "
            "was fitted to: pass X[list(model.feature_names_in_)]."
        )


def _groups(
    X: Any, by: Any, columns: tuple, own: list[str] | None
) -> tuple[list, str | int]:
    """Return the group of each record, and the name of what tells it."""
    name = getattr(by, "name", None)
    if isinstance(name, str) and spelling(name) and hasattr(by, "__len__"):
        return list(by), spelling(name)
    if isinstance(by, str) and own is not None and by in own:
        place = own.index(by)
    elif isinstance(by, int) and not isinstance(by, bool) and 0 <= by < len(columns):
        place = by
    else:
        raise ValueError(
            f"by={shown(by)} must be the name or the position of a public column of X, "
            "or a Series with a name."
        )
    return _column(X, place), columns[place]


def _column(X: Any, place: int) -> list:
    """Return one column of a table."""
    if issparse(X):
        return X[:, [place]].toarray()[:, 0].tolist()
    if hasattr(X, "iloc"):
        return X.iloc[:, place].tolist()
    column = X.column(place) if hasattr(X, "column_names") else X[:, place]
    return column.to_list() if hasattr(column, "to_list") else column.tolist()


def _coded(values: list, n_rows: int) -> tuple[np.ndarray, tuple]:
    """Return the group of each record, and the groups; they are public."""
    if len(values) != n_rows:
        raise ValueError(
            f"by has {len(values)} entries and X {n_rows} rows: give one for each."
        )
    if any(map(is_missing, values)):
        raise ValueError(
            "by holds missing values: give their records a group of their own."
        )
    found = dict.fromkeys(values)
    try:
        ordered = sorted(found)
    except TypeError:  # of several types
        ordered = list(found)
    place = {value: code for code, value in enumerate(ordered)}
    return np.array([place[value] for value in values], dtype=np.int64), tuple(ordered)
