"""The products of a linear step: exact, by whatever kernel, and in any position."""

import numpy as np
import pytest

from skfdp.losses import LOSSES
from skfdp.losses.residuals import exponentials
from skfdp.queries import products as module
from skfdp.queries.products import BlasProducts, DenseProducts, products
from skfdp.rows import GridRows


def make_rows(n=150, d=37, seed=0, scale=1.3):
    rng = np.random.default_rng(seed)
    values = rng.integers(-(2**15) + 1, 2**15, (n, d)).astype(np.int16)
    return GridRows(values, np.zeros(n), scale)


def exact(rows, part, residual):
    """The sum in Python integers."""
    left = residual.T.astype(int).astype(object)
    return left @ rows.values[part].astype(object)


@pytest.mark.parametrize("kind", [DenseProducts, BlasProducts])
@pytest.mark.parametrize("n_outputs", [1, 2, 4, 5, 6, 11, 40])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 64, 150])
def test_products_are_exact_at_the_largest_numbers(kind, n_outputs, n):
    rows = make_rows()
    rng = np.random.default_rng(n)
    part = rng.permutation(150)[:n]
    theta = rng.normal(size=(n_outputs, 37))
    theta[0, 0] = np.abs(theta).max() * (1 + 2**-40)
    work = kind(rows, n_outputs)
    work.start(theta)
    out = np.empty((n, n_outputs))
    work.margins(part, out)
    # As many bits of theta as keep the margins below 2**53, and no rounding after.
    bits = 53 - 15 - 6
    exponent = bits - int(np.frexp(np.abs(theta).max())[1])
    integers = np.rint(np.ldexp(theta, exponent)).astype(int).astype(object)
    inner = rows.values[part].astype(object) @ integers.T
    expected = inner.astype(float) * np.ldexp(rows.unit, -exponent)
    np.testing.assert_array_equal(out, expected.reshape(out.shape))
    residual = rng.integers(-(2**29) + 1, 2**29, (n, n_outputs)).astype(float)
    work.add(part, residual)
    work.add(part[:3], residual[:3])
    total = exact(rows, part, residual) + exact(rows, part[:3], residual[:3])
    np.testing.assert_array_equal(work.total(), total.astype(np.int64))


@pytest.mark.parametrize("kind", [DenseProducts, BlasProducts])
def test_long_sums_move_to_int64_before_float64_would_round(kind):
    """All products equal and of the largest size: 2000 of them are beyond 2**53."""
    n = 2000
    rows = GridRows(np.full((n, 3), 2**15 - 1, dtype=np.int16), np.zeros(n))
    residual = np.full((n, 2), 2.0**29 - 1)
    part = np.arange(n)
    for size in (1, 500, 513, n):
        work = kind(rows, 2)
        work.start(np.ones((2, 3)))
        for start in range(0, n, size):
            work.add(part[start : start + size], residual[start : start + size])
        assert int(work.total()[0, 0]) == n * (2**15 - 1) * (2**29 - 1)


def test_a_bound_on_the_products_lets_sums_run_longer():
    rows = GridRows(np.ones((10, 3), dtype=np.int16), np.zeros(10))
    work = DenseProducts(rows, 1)
    for largest, rows_before in [(1.0, 2**53), (2.0**30, 2**23), (np.inf, 512)]:
        work.start(np.ones((1, 3)), largest)
        assert work._most == rows_before


def test_many_outputs_go_to_blas(monkeypatch):
    rows = make_rows()
    assert type(products(rows, module.BLAS_OUTPUTS - 1)) is DenseProducts
    assert type(products(rows, module.BLAS_OUTPUTS)) is BlasProducts


def test_blas_sees_new_rows_in_an_old_buffer():
    """The same array object may hold other row numbers in the next step."""
    rows, part, out = make_rows(), np.arange(5), np.empty((5, 3))
    work = BlasProducts(rows, 3)
    for numbers in ([0, 1, 2, 3, 4], [9, 8, 7, 6, 5]):
        part[:] = numbers
        work.start(np.ones((3, 37)))
        work.margins(part, out)
        expected = rows.values[numbers].astype(int).sum(axis=1) * rows.unit
        np.testing.assert_allclose(out[:, 0], expected)


def test_exponentials_are_accurate():
    rng = np.random.default_rng(0)
    x = np.r_[-708 * rng.random(20_000), 709 * rng.random(20_000), rng.normal(size=999)]
    found = x.copy()
    exponentials(found)
    np.testing.assert_allclose(found, np.exp(x), rtol=5e-16)
    ends = np.array([0.0, -np.inf, -1e300, np.nan, -709.0])
    exponentials(ends)
    assert ends[0] == 1
    assert (ends[[1, 2, 4]] < 1e-300).all()
    assert np.isnan(ends[3])


@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize("n_outputs", [1, 2, 3, 10])
def test_residuals_do_not_depend_on_the_position(loss, n_outputs):
    rng = np.random.default_rng(0)
    margins = 5 * rng.normal(size=(203, n_outputs))
    target = rng.integers(0, max(2, n_outputs), 203)
    together = LOSSES[loss].residual(margins, target)
    for start, stop in [(0, 1), (1, 2), (7, 14), (101, 203), (202, 203)]:
        some = slice(start, stop)
        alone = LOSSES[loss].residual(margins[some].copy(), target[some])
        np.testing.assert_array_equal(alone, together[some])
