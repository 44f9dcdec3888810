"""The products of a linear step: exact, by whatever kernel, and in any position."""

import numpy as np
import pytest
from numba import njit

from skfdp.data.grid import GridRows, SparseGridRows
from skfdp.kernels.losses import CLASSIFICATION, loss_named
from skfdp.kernels.losses.usual import exponential
from skfdp.queries.products import (
    LARGEST_SHORT_PRODUCT,
    DenseProducts,
    ShortProducts,
    products,
)


def make_rows(n=150, d=37, seed=0, longest=2**15 - 40, scale=1.3):
    """Rows of one length, or of the largest entries that the grid holds."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-(2**15) + 1, 2**15, (n, d))
    if longest is not None:
        norms = np.linalg.norm(values, axis=1, keepdims=True)
        values = np.trunc(values * (longest / norms))
    norms = np.square(values).astype(float).sum(axis=1)
    return GridRows(values.astype(np.int16), norms, scale)


def exact(rows, part, residual):
    """The sum in Python integers."""
    left = residual.astype(int).astype(object)
    return left @ rows.values[part].astype(object)


def rounded(theta):
    """What `Products.start` promises, in Python integers, and the power of two."""
    for bits in range(60, -60, -1):
        integers = np.rint(np.ldexp(theta, bits))
        longest = np.sqrt(np.square(np.ldexp(theta, bits)).sum(axis=1).max())
        if longest < 2**16 and np.abs(np.ldexp(theta, bits)).max() < 2**15:
            return np.clip(integers, 1 - 2**15, 2**15 - 1).astype(int), bits
    raise AssertionError


KINDS = [ShortProducts, DenseProducts]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_outputs", [1, 2, 4, 5, 6, 11, 40])
@pytest.mark.parametrize("d", [16, 31, 37])
def test_products_are_exact_at_the_largest_numbers(kind, n_outputs, d):
    rows = make_rows(d=d)
    for n in (0, 1, 2, 3, 4, 5, 31, 32, 33, 64, 150):
        check_products(kind(rows, n_outputs), rows, n_outputs, n)


def check_products(work, rows, n_outputs, n):
    d = rows.values.shape[1]
    rng = np.random.default_rng(n)
    part = rng.permutation(150)[:n]
    theta = rng.normal(size=(n_outputs, d))
    theta[0, 0] = np.abs(theta).max() * (1 + 2**-40)
    theta[-1] = rows.values[0]  # the largest inner product that there can be
    theta[-1] *= np.linalg.norm(theta[0]) / np.linalg.norm(theta[-1])
    work.start(theta)
    out = np.empty((n_outputs, n))
    work.margins(part, out)
    integers, bits = rounded(theta)
    inner = integers.astype(object) @ rows.values[part].T.astype(object)
    expected = inner.astype(float) * np.ldexp(rows.unit, -bits)
    np.testing.assert_array_equal(out, expected.reshape(out.shape))
    widest = int(np.abs(rows.values).max())
    largest = min(int(LARGEST_SHORT_PRODUCT) // widest, 2**15 - 1)
    signs = rng.choice([-1, 1], n_outputs)  # sums of one sign are the largest
    residual = np.repeat(largest * signs.astype(float)[:, None], n, axis=1)
    some = residual[:, :3].copy()
    work.add(part, residual)
    work.add(part[:3], some)
    total = exact(rows, part, residual) + exact(rows, part[:3], some)
    np.testing.assert_array_equal(work.total(), total.astype(np.int64))


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_margins_of_long_sparse_rows_do_not_wrap_around(n_outputs):
    n, d = 5, 12
    values = np.full((n, d), 2**15 - 1, dtype=np.int16)
    values[1:] //= 2 ** np.arange(1, n)[:, None]
    values[::2] *= -1
    squares = (values.astype(np.float64) ** 2).sum(axis=1)
    rows = SparseGridRows(
        values.ravel(),
        np.tile(np.arange(d, dtype=np.int32), n),
        np.arange(0, n * d + 1, d),
        np.zeros(d, dtype=np.int64),
        squares,
    )
    theta = np.ones((n_outputs, d))
    work, found = products(rows, n_outputs), np.empty((n_outputs, n))
    work.start(theta)
    work.margins(np.arange(n), found)
    assert np.abs(values.astype(np.int64).sum(axis=1)).max() * 2**13 > 2**31
    expected = theta @ (values.T * rows.unit)
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_32_rows_of_the_largest_products_fit():
    """One entry holds all of the row, and every row has the same sign."""
    values = np.zeros((64, 20), dtype=np.int16)
    values[:, [0, 19]] = 2**13, -(2**13)
    rows = GridRows(values, np.full(64, 2.0**27))
    residual = np.full((1, 64), LARGEST_SHORT_PRODUCT / 2**13 - 1)
    for kind in KINDS:
        work = kind(rows, 1)
        work.start(np.ones((1, 20)))
        work.add(np.arange(64), residual)
        assert work.total()[0, 0] == 64 * 2**13 * (2**13 - 1)
        assert work.total()[0, 19] == -64 * 2**13 * (2**13 - 1)
        assert not work.total()[0, 1:19].any()


@pytest.mark.parametrize("size", [1e-310, 1e-3, 1.0, 1e6, 1e300])
def test_theta_moves_little(size):
    rng = np.random.default_rng(0)
    rows = make_rows(d=20)
    for theta in (rng.normal(size=(3, 20)), np.eye(3, 20)):
        theta = theta * size
        work = products(rows, 3)
        work.start(theta)
        out = np.empty((3, 150))
        work.margins(np.arange(150), out)
        error = np.abs(out.T / size - rows.values * rows.unit @ (theta / size).T)
        length = np.sqrt(rows.squared_norms * 20)[:, None] * rows.unit
        assert (error <= 2**-15 * np.linalg.norm(theta / size) * length).all()


def test_long_sums_move_to_int64_before_float64_would_round():
    """All products equal and of the largest size: 2000 of them are beyond 2**53."""
    n = 2000
    rows = GridRows(np.full((n, 3), 2**15 - 1, dtype=np.int16), np.zeros(n))
    residual = np.full((2, n), 2.0**29 - 1)
    part = np.arange(n)
    for size in (1, 500, 513, n):
        work = DenseProducts(rows, 2)
        work.start(np.ones((2, 3)))
        for start in range(0, n, size):
            work.add(
                part[start : start + size], residual[:, start : start + size].copy()
            )
        assert int(work.total()[0, 0]) == n * (2**15 - 1) * (2**29 - 1)


def test_who_takes_which_kernels():
    assert type(products(make_rows(), 3, short=True)) is ShortProducts
    assert type(products(make_rows(), 3)) is DenseProducts
    for more in ({"d": 15}, {"longest": None}, {"longest": 2**15}):
        assert type(products(make_rows(**more), 3, short=True)) is DenseProducts


@njit(error_model="numpy")
def exponentials(values):
    out = np.empty(len(values))
    for i in range(len(values)):
        out[i] = exponential(values[i])
    return out


def test_exponentials_are_accurate():
    rng = np.random.default_rng(0)
    x = np.r_[-708 * rng.random(20_000), 709 * rng.random(20_000), rng.normal(size=999)]
    found = exponentials(x)
    np.testing.assert_allclose(found, np.exp(x), rtol=5e-16)
    ends = exponentials(np.array([0.0, -np.inf, -1e300, np.nan, -709.0]))
    assert ends[0] == 1 and (ends[[1, 2, 4]] < 1e-300).all()
    assert np.isnan(ends[3])
    # Alone, a number is not computed in a vector.
    alone = [exponentials(x[i : i + 1])[0] for i in range(0, len(x), 97)]
    np.testing.assert_array_equal(found[::97], alone)


@pytest.mark.parametrize("loss", CLASSIFICATION)
@pytest.mark.parametrize("n_outputs", [1, 2, 3, 10])
def test_residuals_do_not_depend_on_the_position(loss, n_outputs):
    rng = np.random.default_rng(0)
    margins = 5 * rng.normal(size=(203, n_outputs))
    target = rng.integers(0, max(2, n_outputs), 203)
    together = loss_named(loss).residual(margins, target)
    for start, stop in [(0, 1), (1, 2), (7, 14), (101, 203), (202, 203)]:
        some = slice(start, stop)
        alone = loss_named(loss).residual(margins[some].copy(), target[some])
        np.testing.assert_array_equal(alone, together[some])
