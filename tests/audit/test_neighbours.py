"""Neighbours that an audit makes differ in the private part of one record alone."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from skfdp.audit.replay import FINITE, MALFORMED, neighbouring_tables, tables

RNG = np.random.default_rng(0)
X = RNG.random((30, 4)) * (RNG.random((30, 4)) < 0.7)
LABELS, NUMBERS = np.arange(30) % 3, X.sum(axis=1)
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(
    city=np.array(["Ulm", "Bonn", None], dtype=object)[LABELS],
    kind=pd.Categorical(np.array(["a", "b", "c"])[LABELS]),
    n=pd.array([None, *range(29)], dtype="Int64"),
    since=pd.date_range("2020-01-01", periods=30),
    owner=LABELS == 1,
)
#: A table, its target, what the target is.
TABLES = {
    "dense": (X, LABELS, "labels"),
    "float32": (X.astype(np.float32), NUMBERS, "numbers"),
    "uint8": ((X * 255).astype(np.uint8), LABELS, "labels"),
    "int64": ((X * 255).astype(np.int64), LABELS, "labels"),
    "csr": (csr_array(X), NUMBERS, "numbers"),
    "frame": (FRAME, pd.Series(LABELS), "labels"),
    "objects": (X.astype(object), LABELS.astype(object), "labels"),
    "text": (X, np.array(["no", "yes", "maybe"])[LABELS], "labels"),
    "two targets": (X, np.column_stack([LABELS, LABELS]), "labels"),
    "no target": (X, None, None),
}


def neighbours(table, y, target, n, **more):
    """Return neighbours whose second column is public."""
    private, rng = np.arange(table.shape[1]) != 1, np.random.default_rng(0)
    given = {"private": private, "target": target} | more
    return [*neighbouring_tables(table, y, rng, n, **given)]


def cells(values):
    """Return rows of text, NaN being NaN."""
    if values is None:
        return None
    if hasattr(values, "toarray"):
        values = values.toarray()
    if hasattr(values, "iloc"):
        values = values.to_numpy(dtype=object)
    return np.array([[repr(v) for v in np.atleast_1d(row)] for row in list(values)])


@pytest.mark.parametrize("name", TABLES)
def test_one_record_changes_and_its_public_part_does_not(name):
    table, y, target = TABLES[name]
    rows, labels = cells(table), cells(y)
    changed = 0
    for one in neighbours(table, y, target, 60):
        assert type(one.X) is type(table)
        assert getattr(one.X, "dtype", None) == getattr(table, "dtype", None)
        if hasattr(table, "dtypes"):
            assert (one.X.dtypes == table.dtypes).all()
        other, theirs = cells(one.X), cells(one.y)
        kept = np.arange(len(rows)) != one.changed
        np.testing.assert_array_equal(other[kept], rows[kept])
        np.testing.assert_array_equal(other[:, 1], rows[:, 1])
        changed += (other != rows).any()
        if y is not None:
            assert type(one.y) is type(y)
            np.testing.assert_array_equal(theirs[kept], labels[kept])
            changed += (theirs != labels).any()
    assert changed > 30
    np.testing.assert_array_equal(cells(table), rows)  # nothing in place


def test_every_kind_is_made():
    made = neighbours(X, LABELS, "labels", 45)
    assert {one.name.partition(" of record")[0] for one in made} == {
        f"{kind} in the {part}"
        for kind in FINITE | MALFORMED
        for part in ("row", "target", "row and target")
    }


def test_undeclared_labels_keep_the_set_of_labels():
    y = np.array([7, *LABELS[1:]])  # one label occurs once
    for one in neighbours(X, y, "labels", 200, declared=False):
        assert set(one.y) == set(y)


def test_malformed_values_are_made_where_they_are_taken():
    made = neighbours(X, NUMBERS, "numbers", 60)
    assert not all(np.isfinite(one.X).all() for one in made)
    assert not all(np.isfinite(one.y).all() for one in made)


def test_whole_records_differ_in_the_last_one():
    made = neighbours(X, LABELS, "labels", 9, whole=True)
    assert {int(one.changed[0]) for one in made} == {29}


def test_a_table_of_another_library_is_refused():
    class Table:
        shape = (3, 2)

    with pytest.raises(ValueError, match="expected rows with columns"):
        tables(Table(), None)
