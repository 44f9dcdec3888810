"""Coverage of the intervals of `coefficients_table`, and the noise that it states.

    python benchmarks/reproduce/intervals.py
    python benchmarks/reproduce/intervals.py --fits 100     # quicker, coarser

Label-DP classifiers on simulated records with fresh labels and fresh noise: how many
of the 95 % intervals hold the coefficient that the labels were drawn with. Then the
standard deviation of coefficients over fits of the *same* records with fresh noise,
over the one that is stated. The first should be 93 to 97 %; the second about 1 where
the table says "exact" or "first order", and at most 1 for an "upper bound".
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from skfdp import (
    DeclaredEncoder,
    DPSGDFClassifier,
    DPSGDFRegressor,
    FeatureDPLogisticRegression,
    FeatureDPRegressor,
)

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
                found[name].reshape(n_outputs, -1)[:, :-1] for name in ("low", "high")
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
    """Yield (name, factory, whether it is a regressor, whether its rows are hats)."""
    own = {"epsilon": epsilon, "bounds": (0, 1)}
    label = own | {"public_features": "all", "classes": [0, 1]}
    target = own | {"target_bounds": (-8, 8)}
    one = target | {"solver": "one-shot"}
    some = one | {"public_features": [0]}
    every = one | {"public_features": "all"}
    yield (
        "label statistic",
        lambda: FeatureDPLogisticRegression(
            **label, neighboring_relation="replace_one"
        ),
        0,
        0,
    )
    yield (
        "target statistic",
        lambda: FeatureDPRegressor(**every, neighboring_relation="replace_one"),
        1,
        0,
    )
    yield (
        "the same, alpha=1",
        lambda: FeatureDPRegressor(
            **every, alpha=1.0, neighboring_relation="replace_one"
        ),
        1,
        0,
    )
    yield (
        "moments",
        lambda: FeatureDPRegressor(**one, neighboring_relation="replace_one"),
        1,
        0,
    )
    yield (
        "moments, some public",
        lambda: FeatureDPRegressor(**some, neighboring_relation="replace_one"),
        1,
        0,
    )
    yield (
        "descent",
        lambda: DPSGDFClassifier(
            **own, classes=[0, 1], neighboring_relation="replace_special"
        ),
        0,
        0,
    )
    yield (
        "descent of a target",
        lambda: DPSGDFRegressor(**target, neighboring_relation="replace_special"),
        1,
        0,
    )
    yield (
        "descent on hats",
        lambda: DPSGDFClassifier(
            **own, classes=[0, 1], neighboring_relation="replace_special"
        ),
        0,
        1,
    )


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
    hats = DeclaredEncoder(bounds=(0, 1), n_knots=8).fit_transform(X)
    print("noise over fits / stated noise")
    for kind in models(1.0):
        name = kind[0]
        cells = ""
        for epsilon in EPSILONS:
            made = next(one for one in models(epsilon) if one[0] == name)
            _, make, regressor, on_hats = made
            rows = hats if on_hats else X
            ratio, told = spread(make, rows, target if regressor else y, n_fits // 4)
            cells += f"  {ratio:5.2f}"
        print(f"{name:22} {told:12} {cells}", flush=True)


if __name__ == "__main__":
    main()
