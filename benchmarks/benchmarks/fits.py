"""Whole fits: time, memory, and accuracy at a budget."""

import warnings

import numpy as np
import pandas as pd
from scipy.sparse import random_array
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skfdp import DPSGDFClassifier, FeatureDPLogisticRegression, TableSchema
from skfdp.schema import Category, Label, Number
from skfdp.solvers import NoisyGradientDescent, NoisySGD

from .common import labels, unit_rows


class Dense:
    """50,000 x 100, binary."""

    params = [None, 4096]
    param_names = ["batch"]

    def setup(self, batch):
        warnings.simplefilter("ignore")
        self.X = unit_rows(50_000, 100)
        self.y = labels(self.X, 2)
        solver = NoisyGradientDescent(max_iter=20)
        if batch is not None:
            solver = NoisySGD(max_iter=20, batch_size=batch)
        self.model = DPSGDFClassifier(bounds=False, solver=solver)
        self.model.fit(self.X[:2000], self.y[:2000])

    def time_fit(self, batch):
        self.model.fit(self.X, self.y)

    def peakmem_fit(self, batch):
        self.model.fit(self.X, self.y)

    def time_predict(self, batch):
        self.model.predict(self.X)


class Sparse:
    """10,000 x 50,000, density .002, 20 classes; five steps."""

    def setup(self):
        warnings.simplefilter("ignore")
        rng = np.random.default_rng(0)
        self.X = random_array((10_000, 50_000), density=0.002, rng=rng, format="csr")
        self.y = rng.integers(0, 20, 10_000)
        solver = NoisyGradientDescent(max_iter=5, normalize=True)
        self.model = DPSGDFClassifier(epsilon=3.0, bounds=False, solver=solver)
        self.model.fit(self.X[:200], self.y[:200])

    def time_fit(self):
        self.model.fit(self.X, self.y)

    def peakmem_fit(self):
        self.model.fit(self.X, self.y)


class Raw:
    """A table of 30,000 rows like Adult: six numbers, eight columns of text."""

    def setup(self):
        warnings.simplefilter("ignore")
        rng, n = np.random.default_rng(0), 30_000
        numbers = {f"number {j}": rng.normal(size=n) for j in range(6)}
        levels = [f"level {k}" for k in range(12)]
        texts = {f"text {j}": rng.choice(levels, n) for j in range(8)}
        self.X = pd.DataFrame(numbers | texts)
        self.y = (numbers["number 0"] ** 2 > 1).astype(int)
        columns = {name: Number(-4, 4) for name in numbers}
        columns |= {name: Category(levels) for name in texts}
        schema = TableSchema({**columns, "label": Label([0, 1])}, outcomes=["label"])
        self.encoder = schema.encoder()
        self.model = FeatureDPLogisticRegression(schema=schema)
        self.model.fit(self.X[:2000], self.y[:2000])

    def time_encode(self):
        self.encoder.fit_transform(self.X)

    def peakmem_encode(self):
        self.encoder.fit_transform(self.X)

    def time_fit(self):
        self.model.fit(self.X, self.y)

    def peakmem_fit(self):
        self.model.fit(self.X, self.y)

    def time_predict(self):
        self.model.predict(self.X)


class Accuracy:
    """Test accuracy of the defaults on scikit-learn's digits, in percent."""

    params = (["DPSGD-F", "label-DP", "label-DP, one shot"], [0.3, 1.0, 8.0])
    param_names = ["method", "epsilon"]
    unit = "%"

    def setup_cache(self):
        X, y = load_digits(return_X_y=True)
        return train_test_split(X, y, test_size=0.3, random_state=0)

    def track_accuracy(self, data, method, epsilon):
        warnings.simplefilter("ignore")
        X, X_test, y, y_test = data
        scores = []
        for seed in range(3):
            common = {"epsilon": epsilon, "bounds": (0, 16), "random_state": seed}
            if method == "DPSGD-F":
                model = DPSGDFClassifier(**common)
            else:
                solver = "one-shot" if "shot" in method else "noisy-gd"
                model = FeatureDPLogisticRegression(
                    public_features="all", solver=solver, **common
                )
            scores.append(model.fit(X, y).score(X_test, y_test))
        return 100 * float(np.mean(scores))
