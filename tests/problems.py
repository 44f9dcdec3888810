"""What files of tests share: a fit of each estimator, mechanisms, exact lengths."""

import math

import numpy as np

import skfdp
from skfdp.solvers import NoisySGD

CLASSES, NUMBERS = {"classes": [0, 1]}, {"target_bounds": (0, 1)}
#: An estimator of each kind, for columns and targets within [0, 1].
FITS = {
    "logistic": skfdp.FeatureDPLogisticRegression(bounds=(0, 1), **CLASSES),
    "classifier": skfdp.DPSGDFClassifier(bounds=(0, 1), **CLASSES),
    "regressor": skfdp.FeatureDPRegressor(bounds=(0, 1), **NUMBERS),
    "loop": skfdp.DPSGDFRegressor(bounds=(0, 1), **NUMBERS),
    "network": skfdp.FeatureDPMLPClassifier(
        hidden_layer_sizes=3, bounds=(0, 1), solver=NoisySGD(max_iter=2), **CLASSES
    ),
    "centring": skfdp.PrivateCenteringTransformer(1.0, bounds=(0, 1)),
}


class Stopped(BaseException):
    """Ends a fit; no handler of an Exception can hide it."""


class FakeMechanism:
    """A mechanism that adds a fixed noise and keeps the queries."""

    def __init__(self, noise=0.0):
        self.noise, self.queries = noise, []

    def release(self, label, query, stream=None):
        self.queries.append(query)
        unit = query.unit(1.0)
        return query.exact_sum(None, None, unit) * unit + self.noise


def square(integers):
    """Return the sum of the squares of integers, exactly."""
    return sum(int(entry) ** 2 for entry in np.ravel(integers).tolist())


def length(integers, unit=1.0):
    """Return the norm of integers that count a unit."""
    return math.sqrt(square(integers)) * unit
