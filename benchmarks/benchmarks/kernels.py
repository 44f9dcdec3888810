"""One exact release of the gradient, and its parts."""

import numpy as np
import pandas as pd
from scipy.sparse import random_array

from skfdp import TableSchema
from skfdp.data._basis import Smoothing
from skfdp.data.grid import GridRows
from skfdp.data.sources import LargeTable
from skfdp.kernels.losses import loss_named
from skfdp.mechanisms.release import PoissonBatches, Streams, add_integer_gaussian
from skfdp.queries.linear import LinearQuery
from skfdp.queries.products import DenseProducts, ShortProducts
from skfdp.schema import Category, Number

from .common import linear_query, release_of, unit_rows

N = 20_000


class Release:
    """A step without the update of the weights: batch by batch, shape by shape."""

    params = ([(20, 10), (100, 2), (784, 2), (784, 10), (784, 100)], [256, 4096, None])
    param_names = ["columns, classes", "batch"]

    def setup(self, shape, batch):
        d, k = shape
        self.query = linear_query(unit_rows(N, d), k, at_random=batch is not None)
        rng = np.random.default_rng(0)
        self.batch = None
        if batch is not None:
            self.batch = np.sort(rng.choice(N, batch, replace=False))
        self.theta = rng.normal(size=self.query.shape)
        self.release = release_of(self.query)
        self.release(self.theta, self.batch)  # compiles

    def time_release(self, shape, batch):
        self.release(self.theta, self.batch)


class Products:
    """Vectors of int16 against float64 tiles, for the same integers."""

    params = (["int16", "float64"], [1, 5, 10, 100])
    param_names = ["kernels", "outputs"]

    def setup(self, kernels, n_outputs):
        rng = np.random.default_rng(0)
        values = rng.integers(-900, 900, (512, 785)).astype(np.int16)
        kind = ShortProducts if kernels == "int16" else DenseProducts
        self.work = kind(GridRows(values, np.zeros(512)), n_outputs)
        self.part, self.out = np.arange(512), np.empty((n_outputs, 512))
        self.theta = rng.normal(size=(n_outputs, 785))
        self.residual = np.rint(1000 * rng.normal(size=(n_outputs, 512)))
        self.time_both_products(kernels, n_outputs)  # compiles

    def time_both_products(self, kernels, n_outputs):
        self.work.start(self.theta)
        self.work.margins(self.part, self.out)
        self.work.add(self.part, self.residual)
        self.work.total()


class Codes:
    """A step on the rows of a raw table: 6 splines and 8 columns of 14 levels."""

    params = (["codes", "columns"], [1, 3, 5, 10])
    param_names = ["rows", "outputs"]

    def setup(self, rows, n_outputs):
        rng = np.random.default_rng(0)
        columns = {f"x{j}": Number(0, 1) for j in range(6)}
        columns |= {f"c{j}": Category([str(k) for k in range(12)]) for j in range(8)}
        X = {name: rng.random(N) for name in columns if name[0] == "x"}
        X |= {
            name: rng.integers(0, 12, N).astype(str)
            for name in columns
            if name not in X
        }
        schema = TableSchema(columns)
        encoder = schema.encoder().fit_to_smooth()
        source = encoder.coded(schema.select(pd.DataFrame(X))).source
        source = source.smooth(Smoothing(encoder.blocks_, 100.0, N))
        given = source.integers().moved(np.zeros(source.shape[1]), 0.1, 0.5, 1.0)
        if rows == "columns":
            table = LargeTable.of(source)
            given = GridRows.build(table, lambda block: block / 2, bias=0.1)
        target, loss = rng.integers(0, max(2, n_outputs), N), loss_named("log_loss")
        query = LinearQuery(given, target, loss, n_outputs, 1.0, 16 * N)
        self.theta = rng.normal(size=query.shape)
        self.release = release_of(query)
        self.release(self.theta, None)  # compiles

    def time_release(self, rows, n_outputs):
        self.release(self.theta, None)


class Noise:
    """Rounded normals, drawn and added."""

    params = [10_000, 1_000_000]
    param_names = ["entries"]

    def setup(self, entries):
        self.total = np.zeros(entries, dtype=np.int64)
        self.noise = Streams(None, "benchmark").private("noise")
        self.time_noise(entries)  # compiles

    def time_noise(self, entries):
        add_integer_gaussian(self.total, 1e6, self.noise)


class Threads:
    params = [1, 2]
    param_names = ["n_jobs"]

    def setup(self, n_jobs):
        self.query = linear_query(unit_rows(N, 784), 10, n_jobs)
        self.theta = np.random.default_rng(0).normal(size=self.query.shape)
        self.release = release_of(self.query)
        self.release(self.theta, None)

    def time_full_batch(self, n_jobs):
        self.release(self.theta, None)


class Sparse:
    """A text-sized problem: 10,000 x 50,000, density .002, 20 classes."""

    params = [300, None]
    param_names = ["batch"]

    def setup(self, batch):
        rng = np.random.default_rng(0)
        X = random_array((10_000, 50_000), density=0.002, rng=rng, format="csr")
        self.query = linear_query(X * 0.1, 20)
        self.batch = None if batch is None else np.arange(0, 10_000, 10_000 // batch)
        self.theta = rng.normal(size=self.query.shape)
        self.release = release_of(self.query)
        self.release(self.theta, self.batch)

    def time_release(self, batch):
        self.release(self.theta, self.batch)


class Coins:
    params = ([10_000, 1_000_000], [0.005, 0.1, 0.5])
    param_names = ["rows", "rate"]

    def setup(self, n_rows, rate):
        coins = Streams(None, "benchmark").private("coins")
        self.batches = PoissonBatches(coins, n_rows, rate)
        self.batches.draw()  # compiles

    def time_batch(self, n_rows, rate):
        self.batches.draw()
