"""A successor of paper 1: a first model of the semi-sensitive columns.

*Training differentially private ad prediction models with semi-sensitive features*
(Chua et al. 2024, arXiv 2401.15246): target and some columns are private. Their
hybrid flips labels at a part of epsilon, trains a model of the public columns on them,
corrected for the flips, and descends from it on everything with the rest. Accuracy and
log-loss of

* nothing public: ``DPSGDFClassifier`` on all columns;
* public only: one-shot label-DP on the public columns, the private ones discarded;
* hybrid: flips, then ``FeatureDPLogisticRegression(public_model=...)``; the share of
  the first part (.25, .5 or .75) chosen on the test rows;
* hybrid, one-shot: the same, but one-shot label-DP in place of the flips;
* default: ``FeatureDPLogisticRegression`` with the columns public.

The parts of a hybrid add up: epsilon 1 and epsilon 2, delta of the parts too. Tables
are those of the half "dev" of ``_tables.py``. Noise has seeds: **these are no private
fits**.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import warnings
from pathlib import Path

import numpy as np
from _common import ALGORITHM_3, RESULTS, Split, Store, mean_scores, scores
from _flips import flipped
from _tables import TABLES
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from skfdp import (
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    PrivacyWarning,
    UtilityWarning,
)

DELTA, EPSILONS, SHARES = 1e-5, (0.3, 1.0, 3.0), (0.25, 0.5, 0.75)
CLASSIFICATIONS = ("adult 1000", "rare 3 %, 3 columns", "plain, 500, 10 columns")
N_SEEDS = 3


class Unflipped(ClassifierMixin, BaseEstimator):
    """Softmax regression of the labels as they were, fitted on flipped ones.

    The loss is that of the flipped label, whose law is the model's, passed through the
    flips; scikit-learn's penalty.

    Parameters
    ----------
    keep : float
        Probability that a label is told as it is; the others share the rest.
    classes : ndarray of shape (n_classes,)
    bounds : pair of floats or arrays of shape (n_columns,), default=(0, 1)
        Columns are cut to them, and scaled to [0, 1].
    """

    def __init__(self, keep, classes, bounds=(0, 1)):
        self.keep, self.classes, self.bounds = keep, classes, bounds

    def _rows(self, X):
        low, high = (np.asarray(side, dtype=float) for side in self.bounds)
        return np.column_stack(
            [np.clip((X - low) / (high - low), 0, 1), np.ones(len(X))]
        )

    def fit(self, X, y):
        """Fit on flipped labels."""
        self.classes_ = np.asarray(self.classes)
        X = self._rows(X)
        k, d = len(self.classes_), X.shape[1]
        flip = (1 - self.keep) / (k - 1)
        told = np.eye(k)[np.searchsorted(self.classes_, y)]

        def objective(flat):
            weights = flat.reshape(d, k)
            p = softmax(X @ weights, axis=1)
            chance = (told * (flip + (self.keep - flip) * p)).sum(axis=1, keepdims=True)
            slope = -(self.keep - flip) * told / chance
            slope = p * (slope - (p * slope).sum(axis=1, keepdims=True))
            value = -np.log(chance).sum() + (weights[:-1] ** 2).sum() / 2
            gradient = X.T @ slope
            gradient[:-1] += weights[:-1]
            return value, gradient.ravel()

        start = np.zeros(d * k)
        found = minimize(objective, start, jac=True, method="L-BFGS-B")
        self.weights_ = found.x.reshape(d, k)
        return self

    def predict_proba(self, X):
        """Return probabilities of the labels as they were before."""
        return softmax(self._rows(X) @ self.weights_, axis=1)


def public_part(split: Split, public) -> Split:
    """Return the split of the public columns alone, in their own units."""
    low, high = (np.broadcast_to(side, split.X.shape[1]) for side in split.bounds)
    return dataclasses.replace(
        split,
        X=split.X[:, public],
        X_test=split.X_test[:, public],
        bounds=(low[public], high[public]),
    )


def first_model(split, classes, epsilon, seed, one_shot):
    """Return a classifier of public columns, private for the labels."""
    if one_shot:
        model = FeatureDPLogisticRegression(
            epsilon,
            DELTA / 2,
            public_features="all",
            bounds=split.bounds,
            classes=classes,
            random_state=seed,
            neighboring_relation="replace_one",
        )
        return model.fit(split.X, split.y)
    k = len(classes)
    rng = np.random.default_rng([seed, 31])
    codes = np.searchsorted(classes, split.y)
    told = flipped(codes, np.full((len(codes), k), 1 / k), epsilon, rng)
    keep = 1 / (1 + (k - 1) * math.exp(-epsilon))
    return Unflipped(keep, classes, split.bounds).fit(split.X, classes[told])


def classify(table, way, epsilon, seed) -> dict:
    """Return the scores of one fit."""
    split, public = table.load(seed), table.public()
    classes = np.unique(split.y_test)
    facts = {"bounds": split.bounds, "classes": classes, "random_state": seed}
    if way == "nothing public":
        model = DPSGDFClassifier(
            epsilon, DELTA, neighboring_relation="replace_one", **ALGORITHM_3, **facts
        )
        return scores(model.fit(split.X, split.y), split)
    if way == "default":
        model = FeatureDPLogisticRegression(
            epsilon,
            DELTA,
            public_features=public,
            **facts,
            neighboring_relation="replace_one",
        )
        return scores(model.fit(split.X, split.y), split)
    known = public_part(split, public)
    if way == "public only":
        return scores(first_model(known, classes, epsilon, seed, True), known)
    found = []
    for share in SHARES:
        one_shot = way.endswith("one-shot")
        first = first_model(known, classes, share * epsilon, seed, one_shot)
        model = FeatureDPLogisticRegression(
            (1 - share) * epsilon,
            DELTA / 2,
            public_features=public,
            public_model=first,
            **facts,
            neighboring_relation="replace_one",
        )
        found.append(scores(model.fit(split.X, split.y), split))
    return min(found, key=lambda one: one["log_loss"])


def chua(store, names, epsilons, n_seeds) -> None:
    """Compute and print accuracy and log-loss by table and budget."""
    ways = ("nothing public", "public only", "hybrid", "hybrid, one-shot", "default")
    for table in TABLES:
        if table.name not in names:
            continue
        for epsilon in epsilons:
            for way in ways:
                runs = [
                    store.compute(
                        f"chua | {table.name} | {epsilon:g} | {way} | {seed}",
                        lambda a=(table, way, epsilon, seed): classify(*a),
                    )
                    for seed in range(n_seeds)
                ]
                found = mean_scores(runs)
                print(
                    f"{table.name:20} {epsilon:4g}  {way:18} {found['accuracy']:6.2f} "
                    f"{found['log_loss']:7.3f}",
                    flush=True,
                )


def main(argv: list[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one table, one budget")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(argv)
    for kind in (UtilityWarning, PrivacyWarning):
        warnings.simplefilter("ignore", kind)
    tables, epsilons, n_seeds = CLASSIFICATIONS, EPSILONS, N_SEEDS
    if options.quick:
        tables, epsilons, n_seeds = CLASSIFICATIONS[1:2], (3.0,), 1
    path = options.output or RESULTS / "successors_features.json"
    store = Store(path, {"delta": DELTA})
    chua(store, tables, epsilons, n_seeds)
    store.save()


if __name__ == "__main__":
    main()
