"""One table in every format: the same sums of every query, to the last integer.

A new format of rows is a line of `FORMATS`, a new query is a line of `QUERIES`. Rows of
codes have integers of their own: see ``test_coded_rows.py``.
"""

import dataclasses

import numpy as np
import pytest
import sklearn
from scipy.sparse import csr_array

from skfdp.data.grid import GridRows, SparseGridRows
from skfdp.data.sources import LargeTable
from skfdp.data.units import FULL_WEIGHT, Units
from skfdp.kernels.losses import loss_named, narrow
from skfdp.queries import statistics
from skfdp.queries.linear import LinearQuery

N, D = 403, 20
RNG = np.random.default_rng(0)
#: Rows of every length, which float32 holds; a half of the entries are zeros.
X = RNG.normal(size=(N, D)) * 10.0 ** RNG.uniform(-2, 0.2, (N, 1))
X = (X * (RNG.random((N, D)) < 0.5)).astype(np.float32).astype(np.float64)
MEAN = RNG.normal(size=D)
CENTRES = {"no centre": None, "some": MEAN * (np.arange(D) % 2), "a centre": MEAN}
PERSONS = RNG.permutation(np.r_[np.arange(90), RNG.integers(0, 90, N - 90)])
PERSONS = np.unique(PERSONS, return_inverse=True)[1]
WEIGHTS = RNG.integers(0, FULL_WEIGHT + 1, N)
STDS = (0.0, 3.0, 1e6)
THETA, Y = RNG.normal(size=(1, D + 1)), np.arange(N) % 2


def in_a_file(X):
    """Return rows that are read as from a file."""
    stored = type("Stored", (np.ndarray,), {"on_disk": True})
    with sklearn.config_context(working_memory=0):
        return LargeTable.of(X.view(stored))


#: What holds the table; "joined" rows have norm and target beside them.
FORMATS = {
    "CSR": csr_array,
    "float32": lambda X: X.astype(np.float32),
    "float32 CSR": lambda X: csr_array(X.astype(np.float32)),
    "columns together": np.asfortranarray,
    "file": in_a_file,
    "joined": np.asarray,
}


def rows_of(held, centre, target=None):
    """Return the integers of a table in some format."""
    with sklearn.config_context(working_memory=0):
        given = {"bias": 0.1, "centre": centre, "target": target}
        return GridRows.build(held(X), lambda block: block.astype(float), **given)


def gradient(rows, target, loss="log_loss", n_outputs=1, **more):
    """Return a clipped gradient."""
    loss = loss_named(loss)
    facts = {"clip_norm": 0.3, "capacity": N, **more}
    return LinearQuery(rows, target, loss, n_outputs, **facts)


def slopes(rows, target, n_outputs=1):
    """Return the slopes of a loss along a step."""
    start, step = 5 * np.random.default_rng(1).normal(size=(2, n_outputs, D + 1))
    loop = gradient(rows, target, n_outputs=n_outputs, clip_norm=1.0)
    return statistics.TemperatureSum(
        loop, max(2, n_outputs), start, step, (0.2, 1.0), 0.5
    )


def outputs(n_outputs, **more):
    """Return the sum of gradients with so many outputs, and its number of labels."""
    labels = max(2, n_outputs)
    return labels, lambda rows, y: gradient(rows, y, n_outputs=n_outputs, **more)


#: Number of labels, 0 for numbers, and the query.
QUERIES = {
    **{f"{n} outputs": outputs(n) for n in (1, 3, 5, 7)},
    "class weights": outputs(3, class_weight=np.linspace(0.5, 2, 3)),
    "offset": outputs(3, offset=RNG.normal(size=(N, 3))),
    "hinge loss": outputs(3, loss="hinge"),
    "squared hinge loss": outputs(7, loss="squared_hinge"),
    "same rows": (2, lambda rows, y: gradient(rows, y, padded=rows)),
    "squared error": (0, lambda rows, y: gradient(rows, y, "squared_error")),
    "persons": outputs(1, units=Units(np.full(N, FULL_WEIGHT), PERSONS)),
    "persons of three classes": outputs(3, units=Units(WEIGHTS + 1, PERSONS)),
    "weights": outputs(6, units=Units(WEIGHTS)),
    "orthant": outputs(1, orthant=True),
    "two threads": outputs(1, n_jobs=2),
    "slopes": (2, slopes),
    "slopes of three classes": (3, lambda rows, y: slopes(rows, y, 3)),
    "rows": (2, lambda rows, y: statistics.GridRowSum(rows, 1.5, N)),
}
BATCHES = (None, np.flatnonzero(RNG.random(N) < 0.3), np.array([7]), np.arange(0))


def same_sums(one, other):
    """Assert that two queries have the same sums over all rows and over some."""
    theta = np.rint(2**12 * RNG.normal(size=one.shape)) / 2**11
    for std in STDS:
        unit = one.unit(std)
        assert unit == other.unit(std)
        for batch in BATCHES:
            sums = [query.exact_sum(theta, batch, unit) for query in (one, other)]
            np.testing.assert_array_equal(*sums)
    assert sums[0].shape == one.shape


@pytest.mark.usefixtures("threads_for_few_rows")
@pytest.mark.parametrize("centre", CENTRES)
@pytest.mark.parametrize("name", FORMATS)
def test_every_sum_is_that_of_dense_rows(name, centre):
    for n_labels, query in QUERIES.values():
        rng = np.random.default_rng(3)
        y = rng.integers(0, n_labels, N) if n_labels else rng.normal(size=N)
        dense = rows_of(np.asarray, CENTRES[centre])
        told = y if name == "joined" else None
        rows = rows_of(FORMATS[name], CENTRES[centre], told)
        assert isinstance(rows, SparseGridRows) == ("CSR" in name)
        if "CSR" not in name:
            assert (rows.file is not None) == (name == "file")
            assert (rows.joined is not None) == (name == "joined")
            np.testing.assert_array_equal(rows.values, dense.values)
        np.testing.assert_array_equal(rows.squared_norms, dense.squared_norms)
        same_sums(query(dense, y), query(rows, y))


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("name", ["CSR", "joined", "float32", "file"])
def test_differences_of_rows(name, known):
    """From rows in which a public part alone is left."""
    part, centre = X * (np.arange(D) < 7), CENTRES["some"]
    told = Y if name == "joined" else None
    rows = [rows_of(np.asarray, centre), rows_of(FORMATS[name], centre, told)]
    kept = [np.asarray, csr_array if name == "CSR" else np.asarray]
    padded = [
        GridRows.build(held(part), lambda block: block, bias=0.1, centre=centre)
        for held in kept
    ]
    pairs = zip(rows, padded, strict=True)
    more = {"public_target": known, "n_outputs": 1}
    same_sums(*(gradient(one, Y, padded=public, **more) for one, public in pairs))


RULES = {
    "binades": statistics.Binades(),
    "even": statistics.EvenBins(-np.arange(1.0, D + 1), np.ones(D), 5),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", FORMATS)
def test_bins_are_those_of_dense_rows(name, rule):
    """Of numbers that are not finite, too; a zero of CSR need not be stored."""
    table = X.copy()
    table[0], table[1, 0], table[2, 1] = np.nan, np.inf, -0.0
    held = FORMATS[name](table)
    for batch in BATCHES:
        dense, other = (
            statistics.BinCounts(one, RULES[rule]).exact_sum(None, batch, 1.0)
            for one in (table, held)
        )
        np.testing.assert_array_equal(dense, other)


# -- rows that have their norm and their target beside them ----------------------------
def joined(columns=D, target=Y):
    """Return rows with these columns and norms of at most 1."""
    table = X[:, np.arange(columns) % D]
    table = table / np.maximum(1, np.linalg.norm(table, axis=1, keepdims=True))
    return GridRows.build(table, lambda block: block, bias=0.5, target=target)


@pytest.mark.parametrize("columns", [*range(1, 35), 48, 60, 200])
def test_joined_rows_of_any_width(columns):
    rows, apart = joined(columns), joined(columns, None)
    np.testing.assert_array_equal(rows.values, apart.values)
    same_sums(gradient(rows, Y), gradient(apart, Y))
    long = [dataclasses.replace(one, scale=64.0) for one in (rows, apart)]
    same_sums(*(gradient(one, Y) for one in long))  # beyond what int32 may add


def test_another_target_is_read_from_its_own_memory():
    """Neighbours share rows and differ by a label: one must not see that of the other.

    The memory beside the rows holds what it was built with, and is used for nothing
    else.
    """
    rows, other = joined(), Y.copy()
    other[17] = 1 - other[17]
    before, step = rows.joined.copy(), rows.joined.shape[1]
    for target, own, place in ((Y, True, (step, step - 8)), (other, False, (1, 0))):
        memory, *found = rows.target_in_memory(narrow(target))
        assert (np.may_share_memory(memory, rows.joined), tuple(found)) == (own, place)
        if own:
            np.testing.assert_array_equal(memory[step - 8 :: step], Y)
    same_sums(gradient(rows, other), gradient(joined(target=None), other))
    numbers = RNG.normal(size=N)  # of another kind
    assert not np.may_share_memory(rows.target_in_memory(numbers)[0], rows.joined)
    np.testing.assert_array_equal(rows.joined, before)


def test_some_rows_keep_what_lies_beside_them():
    both = joined()[50:90], joined(target=None)[50:90]
    queries = (gradient(rows, Y[50:90]) for rows in both)
    sums = [query.exact_sum(THETA, None, 2.0**-20) for query in queries]
    np.testing.assert_array_equal(*sums)
    assert both[0].joined is not None and joined()[5:5].n_rows == 0


def test_values_cannot_leave_what_lies_beside_them():
    """Kernels read the whole: other values beside it would be read by nobody."""
    rows = joined()
    for name in ("values", "squared_norms"):
        with pytest.raises(ValueError, match="must be views of joined"):
            dataclasses.replace(rows, **{name: getattr(rows, name).copy()})
    changed = dataclasses.replace(rows, values=rows.values.copy(), joined=None)
    assert changed.table is changed.values
