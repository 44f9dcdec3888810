"""Coverage of the intervals of `coefficients_table`, and the noise that it states.

    python benchmarks/reproduce/intervals.py
    python benchmarks/reproduce/intervals.py --fits 100     # quicker, coarser

Label-DP classifiers on simulated records with fresh labels and fresh noise: how many
of the 95 % intervals hold the coefficient that the labels were drawn with. Then the
standard deviation of coefficients over fits of the *same* records with fresh noise,
over the one that is stated. The first should be 93 to 97 %; the second about 1 where
the table says "first order", and at most 1 for an "upper bound".
"""

from __future__ import annotations

import argparse
import functools
import warnings

import numpy as np
import pandas as pd

from skfdp import (
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    TableSchema,
)
from skfdp.schema import Number

SIZES = ((500, 3, 2), (2000, 5, 2), (20000, 8, 2), (5000, 5, 3))
EPSILONS = (0.3, 1.0, 8.0)


def labels(margins, rng):
    """Return labels drawn from log odds, of one column for two classes."""
    if margins.shape[1] == 1:
        return (rng.random(len(margins)) < 1 / (1 + np.exp(-margins[:, 0]))).astype(int)
    share = np.exp(margins - margins.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    return (share.cumsum(axis=1) < rng.random((len(share), 1))).sum(axis=1)


def table(n_records, n_columns, n_outputs, rng):
    """Return correlated rows in [0, 1] and weights that sum to 0 over the classes."""
    X = rng.random((n_records, n_columns))
    X[:, 1] = (X[:, 0] + X[:, 1]) / 2
    weights = 2 * rng.normal(size=(n_columns, n_outputs))
    if n_outputs > 1:
        weights -= weights.mean(axis=1, keepdims=True)
    return X, weights


def coverage(n_records, n_columns, n_classes, epsilon, n_fits, rng):
    """Return the share of intervals that hold, and of fits that state any."""
    n_outputs = n_classes if n_classes > 2 else 1
    X, weights = table(n_records, n_columns, n_outputs, rng)
    hits = []
    for _ in range(n_fits):
        model = FeatureDPLogisticRegression(
            epsilon,
            public_features="all",
            bounds=(0, 1),
            classes=range(n_classes),
            neighboring_relation="replace_one",
        ).fit(X, labels((X - 0.5) @ weights, rng))
        found = model.coefficients_table()
        if "low" in found:
            low, high = (
                found[name].to_numpy().reshape(n_outputs, -1)[:, :-1]
                for name in ("low", "high")
            )
            hits.append((low <= weights.T) & (weights.T <= high))
    return np.mean(hits) if hits else np.nan, len(hits) / n_fits


def spread(make, X, y, n_fits):
    """Return the standard deviation over fits, over the stated one."""
    fits = [make().fit(X, y) for _ in range(n_fits)]
    found = np.std([np.atleast_2d(one.coef_) for one in fits], axis=0, ddof=1)
    stated = np.mean([one.coef_noise_.std[:, :-1] ** 2 for one in fits], axis=0)
    used = stated > 0
    ratio = np.sqrt(np.mean(found[used] ** 2 / stated[used]))
    return ratio, fits[0].coef_noise_.kind


def models(epsilon):
    """Return name -> (factory, whether it is a regressor, whether rows are hats)."""
    replaced = {
        "epsilon": epsilon,
        "bounds": (0, 1),
        "neighboring_relation": "replace_one",
    }
    nulled = replaced | {"neighboring_relation": "replace_special"}
    two, target = {"classes": [0, 1]}, {"target_bounds": (-8, 8)}
    made = {
        "label statistic": (
            FeatureDPLogisticRegression,
            replaced | two | {"public_features": "all"},
        ),
        "descent": (DPSGDFClassifier, nulled | two),
        "descent of a target": (DPSGDFRegressor, nulled | target),
        "descent on hats": (DPSGDFClassifier, nulled | two),
    }
    return {
        name: (
            functools.partial(kind, **given),
            "target_bounds" in given,
            "hats" in name,
        )
        for name, (kind, given) in made.items()
    }


def main():
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=400)
    n_fits = parser.parse_args().fits
    rng = np.random.default_rng(0)
    warnings.simplefilter("ignore", UserWarning)  # of small budgets
    print("95 % intervals: coverage, and share of fits that state them")
    print("records columns classes " + "".join(f"  epsilon {e:<7g}" for e in EPSILONS))
    for n, d, k in SIZES:
        found = [coverage(n, d, k, epsilon, n_fits, rng) for epsilon in EPSILONS]
        cells = "".join(f"  {hit:6.1%} {told:6.1%}  " for hit, told in found)
        print(f"{n:7} {d:7} {k:7} {cells}", flush=True)
    X, weights = table(5000, 4, 1, rng)
    margins = (X - 0.5) @ weights
    y, target = labels(margins, rng), margins[:, 0] + rng.normal(size=len(X))
    names = [f"x{j}" for j in range(X.shape[1])]
    schema = TableSchema(dict.fromkeys(names, Number(0, 1)))
    hats = schema.encoder().fit_transform(pd.DataFrame(X, columns=names))
    print("noise over fits / stated noise")
    for name in models(1.0):
        cells = ""
        for epsilon in EPSILONS:
            make, regressor, on_hats = models(epsilon)[name]
            rows = hats if on_hats else X
            ratio, told = spread(make, rows, target if regressor else y, n_fits // 4)
            cells += f"  {ratio:5.2f}"
        print(f"{name:22} {told:12} {cells}", flush=True)


if __name__ == "__main__":
    main()
