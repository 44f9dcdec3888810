"""With epsilon times n at 100, is label-DP ever below a fit with nothing public?

Tables of 2 to 10 classes, 12 seeds, four budgets. Shown are accuracy in % and log loss
of fits with nothing public and with all columns public, and the differences with their
standard errors. "!" marks a difference against label-DP of more than two of them.

    python benchmarks/reproduce/few_rows.py > benchmarks/results/few_rows.txt

The tables of people are read from SKFDP_DATA, as in `private_columns.py`. Seeds make
the runs reproducible: **they are not private fits**.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable

import numpy as np
from _common import about
from private_columns import HALVES, MOST_TEST
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.metrics import log_loss

from skfdp import FeatureDPLogisticRegression

EPSILONS, DELTA, SEEDS = (0.1, 0.3, 1.0, 3.0), 1e-5, 12


def bundled(load: Callable):
    """Return a table of scikit-learn, its columns between 0 and 1."""
    X, y = load(return_X_y=True)
    return (X - X.min(axis=0)) / np.maximum(np.ptp(X, axis=0), 1e-9), y


def drawn(n_classes: int, width: int):
    """Return uniform columns, and classes that a softmax of them draws."""
    rng = np.random.default_rng(n_classes + width)
    X, weights = rng.random((6000, width)), rng.normal(size=(width, n_classes))
    return X, ((X - 0.5) @ (3 * weights) + rng.gumbel(size=(6000, n_classes))).argmax(1)


def of_people(half: str, name: str):
    """Return a table of `private_columns`."""
    X, _, y = HALVES[half][name]()
    return X, y.astype(int)


TABLES = (
    {
        load.__name__.removeprefix("load_"): functools.partial(bundled, load)
        for load in (load_digits, load_wine, load_iris)
    }
    | {
        f"drawn, {size[0]} classes": functools.partial(drawn, *size)
        for size in ((2, 10), (3, 5), (4, 20), (6, 10), (10, 20))
    }
    | {
        name: functools.partial(of_people, half, name)
        for half, names in (
            ("classes", HALVES["classes"]),
            ("aside", ("ACSIncome", "bank churn", "stroke", "randhie any visit")),
        )
        for name in names
    }
)


def cell(X, y, epsilon: float) -> str:
    """Return scores of both fits, and their differences."""
    labels, found = list(range(y.max() + 1)), []
    n = min(round(100 / epsilon), int(0.7 * len(y)))
    for seed in range(SEEDS):
        order = np.random.default_rng([seed, 7]).permutation(len(y))
        test, train = order[: min(MOST_TEST, len(y) // 4)], order[-n:]
        for public in ([], "all"):
            given = {"bounds": (0, 1), "classes": labels, "public_features": public}
            model = FeatureDPLogisticRegression(
                epsilon, DELTA, random_state=seed, **given
            ).fit(X[train], y[train])
            chance = np.clip(model.predict_proba(X[test]), 1e-12, 1)
            right = 100 * (chance.argmax(axis=1) == y[test]).mean()
            found.append((right, log_loss(y[test], chance, labels=labels)))
    scores = np.reshape(found, (SEEDS, 2, 2))  # seed, fit, score
    means, apart = scores.mean(axis=0), scores[:, 1] - scores[:, 0]
    mean, error = apart.mean(axis=0), apart.std(axis=0, ddof=1) / math.sqrt(SEEDS)
    worse = mean[0] < -2 * error[0], mean[1] > 2 * error[1]
    return (
        f"{epsilon:5g}{n:6}{means[0, 0]:8.1f}{means[1, 0]:8.1f}{mean[0]:+8.1f} +- "
        f"{error[0]:3.1f}{means[0, 1]:9.3f}{means[1, 1]:8.3f}{mean[1]:+9.3f} +- "
        f"{error[1]:5.3f}  {'!' * sum(worse)}"
    ).rstrip()


def main() -> None:
    """Print a line for each table and budget."""
    warnings.simplefilter("ignore")
    print(f"{SEEDS} seeds; {about()['versions']}\n")
    print(
        f"{'table':22}{'eps':>5}{'n':>6}{'nothing':>8}{'labels':>8}{'difference':>15}"
        f"{'loss':>9}{'labels':>8}{'difference':>18}"
    )
    for name, load in TABLES.items():
        X, y = load()
        for epsilon in EPSILONS:
            print(f"{name:22}{cell(X, y, epsilon)}", flush=True)


if __name__ == "__main__":
    main()
