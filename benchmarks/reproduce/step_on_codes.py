"""The two products of a step on encoded columns, and on codes of the same table.

    OPENBLAS_NUM_THREADS=1 python benchmarks/reproduce/step_on_codes.py

The table has 30,000 rows, 8 columns of categories with 14 levels and 6 splines of 25
smooth terms, as the raw table of `peers.py`. On codes a product reads one weight for
each category and two for each spline, from tables that stay in the cache. The loops on
codes compute no smooth terms and clip nothing, so a real step would take longer.
"""

import platform
import time

import numpy as np
from numba import njit, uint64

from skfdp.kernels import short_tiles
from skfdp.kernels.vectors import WIDTH

ROWS, BLOCK, ROUNDS = 30_000, 224, 30
CATEGORIES, LEVELS, SPLINES, KNOTS, TERMS = 8, 14, 6, 33, 25


@njit(nogil=True, error_model="numpy")
def margins(codes, first, table, factor, out):
    """Write the margins of rows; a row holds codes, knots and shares of 2**-15."""
    n_codes, n_splines = uint64(CATEGORIES), uint64(SPLINES)
    for i in range(uint64(len(out))):
        total = 0
        for j in range(n_codes):
            total += table[uint64(codes[first + i, j])]
        for j in range(n_codes, n_codes + n_splines):
            place = uint64(codes[first + i, j])
            share = np.int64(codes[first + i, j + n_splines])
            left = table[place]
            total += (left << 15) + share * (table[place + uint64(1)] - left)
        out[i] = factor * total


@njit(nogil=True, error_model="numpy")
def add(codes, first, residuals, sums):
    """Add the residuals of rows to the sums of their levels and knots."""
    n_codes, n_splines = uint64(CATEGORIES), uint64(SPLINES)
    for i in range(uint64(len(residuals))):
        residual = residuals[i]
        for j in range(n_codes):
            sums[uint64(codes[first + i, j])] += residual
        for j in range(n_codes, n_codes + n_splines):
            place = uint64(codes[first + i, j])
            part = residual * np.int64(codes[first + i, j + n_splines])
            sums[place] += (residual << 15) - part
            sums[place + uint64(1)] += part


def coded(rng):
    """Return codes, and the number of entries of a table of weights or sums."""
    levels = [LEVELS * j + rng.integers(0, LEVELS, ROWS) for j in range(CATEGORIES)]
    start = LEVELS * CATEGORIES
    knots = [
        start + KNOTS * j + rng.integers(0, KNOTS - 1, ROWS) for j in range(SPLINES)
    ]
    shares = [rng.integers(0, 2**15, ROWS) for _ in range(SPLINES)]
    codes = np.array([*levels, *knots, *shares]).T.astype(np.uint16, order="C")
    return codes, start + KNOTS * SPLINES


def timed(product):
    """Return the least nanoseconds for each row that a product takes."""
    starts, found = range(0, ROWS - BLOCK + 1, BLOCK), []
    for _ in range(ROUNDS):
        clock = time.perf_counter()
        for start in starts:
            product(start)
        found.append((time.perf_counter() - clock) / (len(starts) * BLOCK))
    return 1e9 * min(found)


def main():
    rng = np.random.default_rng(0)
    n_columns = CATEGORIES * LEVELS + SPLINES * TERMS + 1
    X = rng.integers(-500, 500, (ROWS, n_columns)).astype(np.int16)
    width = WIDTH * -(-n_columns // WIDTH)
    weights = np.ones((1, width), dtype=np.int16)
    links, rows = short_tiles.links(1), np.arange(ROWS)
    out, sums = np.empty((1, BLOCK)), np.zeros((1, width), dtype=np.int64)
    residuals = rng.integers(-100, 100, (1, BLOCK)).astype(np.float64)
    codes, size = coded(rng)
    table, of_codes = np.ones(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    integers = residuals[0].astype(np.int64)

    @njit(nogil=True)
    def on_columns(X, rows, weights, links, out, residuals, sums):
        short_tiles.margins(X, rows, weights, 0.5, False, links, out)
        short_tiles.add_outer_products(X, rows, residuals, links, sums)

    @njit(nogil=True)
    def on_codes(codes, first, table, out, integers, sums):
        margins(codes, first, table, 0.5, out)
        add(codes, first, integers, sums)

    products = {
        "encoded columns": lambda start: on_columns(
            X, rows[start : start + BLOCK], weights, links, out, residuals, sums
        ),
        "codes": lambda start: on_codes(
            codes, start, table, out[0], integers, of_codes
        ),
    }
    print(f"{platform.machine()}, numpy {np.__version__}; ns of both products a row")
    for name, product in products.items():
        product(0)
        print(f"{name:20}{timed(product):6.1f}")


if __name__ == "__main__":
    main()
