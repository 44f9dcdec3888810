"""What is a public X worth? Label-DP with the defaults of the estimator.

Two modes, each with a table on the screen and a JSON file, which an interrupted run
continues:

``--full-size``
    MNIST and Fashion-MNIST at epsilon 1 and delta 1e-5, with marks to meet: pixels in
    one shot and by the loop, Nyström features of an RBF kernel, and the convolutional
    dictionary of ``data_label_dp_images.py`` in the gallery. Features are made from X
    alone. The kernel's approximation, the straightening, the regions and the
    neighbours were chosen on the last 10,000 training images; earlier versions of both
    features had been measured on the test images.
``--compare``
    One-shot, the loop, flipped labels (Warner's, and RRWithPrior in two stages),
    nothing public, the class frequencies at the same budget, and no privacy.
    ``--quick`` takes one data set and one budget, to see that everything runs.

The constants of one-shot were chosen by test accuracy on other data sets, and MNIST and
Fashion-MNIST were looked at. Seeds make the runs reproducible: **they are no
private fits**.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
import warnings
from pathlib import Path

import numpy as np
from _common import (
    ALGORITHM_3,
    RESULTS,
    Split,
    Store,
    adult,
    bundled_split,
    image_split,
    mean_scores,
    scores,
    table_scores,
)
from _flips import curved_split, hats, heavy_split, rare_split, warner, with_prior
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skfdp import (
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    PrivacyWarning,
    UtilityWarning,
)
from skfdp.privacy import gdp_mu

DELTA = 1e-5

FULL_SIZE = [
    # data set, features, solver, seeds, least accuracy
    ("mnist", "pixels", "auto", 3, 91.3),
    ("mnist", "pixels", "noisy-gd", 3, None),
    ("mnist", "kernel", "auto", 3, 94.5),
    ("mnist", "dictionary", "auto", 1, 97.8),
    ("fashion", "pixels", "auto", 3, 82.0),
    ("fashion", "pixels", "noisy-gd", 3, None),
    ("fashion", "kernel", "auto", 3, None),
    ("fashion", "dictionary", "auto", 1, 87.8),
]


# ---------------------------------------------------------------- full size


def full_size(path: Path, only: tuple[str, ...]) -> None:
    """Measure the rows of `FULL_SIZE`, and print them with their marks."""
    store = Store(path, {"mode": "full-size", "delta": DELTA, "epsilon": 1.0})
    rows = []
    print(f"{'data set':10} {'features':12} {'solver':8} accuracy   log-loss")
    for data, features, solver, n_seeds, mark in FULL_SIZE:
        label = f"{data} | {features} | {solver}"
        runs = []
        for seed in range(n_seeds):
            key = f"{label} | seed {seed}"
            fit = functools.partial(full_size_fit, data, features, solver, seed)
            wanted = not only or any(label.startswith(name) for name in only)
            if wanted or key in store.cells:
                runs.append(store.compute(key, fit))
        if not runs:
            continue
        row = {"data": data, "features": features, "solver": solver, "mark": mark}
        row |= mean_scores(runs)
        row["met"] = None if mark is None else bool(row["accuracy"] >= mark)
        rows.append(row)
        verdict = "" if mark is None else f"  mark {mark}: {'met' * row['met']}"
        print(
            f"{data:10} {features:12} {solver:8} {row['accuracy']:.2f}      "
            f"{row['log_loss']:.3f}{verdict}",
            flush=True,
        )
        store.save(rows=rows)


def full_size_fit(data: str, features: str, solver: str, seed: int) -> dict:
    """Return the scores of one fit on all 60,000 images."""
    split = image_split(data, 60_000, pooled=False, seed=0)
    bounds = (0, 255) if features == "pixels" else False
    model = FeatureDPLogisticRegression(
        epsilon=1.0,
        delta=DELTA,
        public_features="all",
        solver=solver,
        bounds=bounds,
        random_state=seed,
        neighboring_relation="replace_one",
    )
    if features == "kernel":
        model = make_pipeline(*kernel_steps(seed), model)
    if features == "dictionary":
        model = make_pipeline(*dictionary_steps(data, seed), model)
    return scores(model.fit(split.X, split.y), split)


def kernel_steps(seed: int) -> tuple:
    """Return steps from pixels to an approximate RBF kernel, learnt from X alone."""
    return (
        FunctionTransformer(functools.partial(np.multiply, np.float32(1 / 255))),
        PCA(60, svd_solver="covariance_eigh"),
        Nystroem(gamma=0.02, n_components=1500, random_state=seed),
    )


def dictionary_steps(data: str, seed: int) -> tuple:
    """Return the steps of the example with the convolutional dictionary."""
    sys.path.append(str(Path(__file__).resolve().parents[2] / "examples" / "models"))
    from data_label_dp_images import public_steps

    return public_steps(data, random_state=seed)


# ---------------------------------------------------------------- comparison


def adult_rows(n_rows: int, seed: int) -> Split:
    """Return Adult with `n_rows` of its training rows, drawn by the seed."""
    whole = adult()
    rows = np.random.default_rng([seed, n_rows]).permutation(len(whole.X))[:n_rows]
    return dataclasses.replace(whole, X=whole.X[rows], y=whole.y[rows])


COMPARED = {
    "3 % positives": rare_split,
    "heavy tails": heavy_split,
    "curved, 3 classes": curved_split,
    "breast_cancer": functools.partial(bundled_split, "breast_cancer"),
    "digits": functools.partial(bundled_split, "digits"),
    "adult on hats, 3,000": lambda seed: hats(adult_rows(3000, seed), 6),
}
BUDGETS = (0.1, 0.3, 1.0, 3.0, 8.0, 1000.0)
N_COMPARED = 3


def compare(path: Path, only: tuple[str, ...], quick: bool) -> None:
    """Measure every way in every cell; print and save means over the seeds."""
    store = Store(path, {"mode": "compare", "delta": DELTA})
    rows = []
    print(f"{'data set':22} epsilon  way            accuracy  log-loss    AUC")
    for data, load in COMPARED.items():
        if only and not data.startswith(only):
            continue
        for epsilon in BUDGETS[2:3] if quick else BUDGETS:
            for way in WAYS:
                runs = [
                    store.compute(
                        f"{data} | {epsilon} | {way} | seed {seed}",
                        functools.partial(_compared, load, epsilon, way, seed),
                    )
                    for seed in range(N_COMPARED)
                ]
                row = {"data": data, "epsilon": epsilon, "way": way}
                row |= mean_scores(runs)
                row["auc"] = float(np.mean([run["auc"] for run in runs]))
                rows.append(row)
                print(
                    f"{data:22} {epsilon:7} {way:14} {row['accuracy']:8.1f} "
                    f"{row['log_loss']:9.3f} {row['auc']:7.3f}",
                    flush=True,
                )
    store.save(rows=rows)


def _compared(load, epsilon: float, way: str, seed: int) -> dict:
    split = load(seed)
    classes = np.unique(split.y_test)
    table = WAYS[way](split, classes, epsilon, seed)
    found = table_scores(table, classes, split.y_test)
    score = table[:, 1] if len(classes) == 2 else table
    found["auc"] = float(roc_auc_score(split.y_test, score, multi_class="ovr"))
    return found


def _estimator(estimator, **parameters):
    def probabilities(split: Split, classes, epsilon: float, seed: int) -> np.ndarray:
        model = estimator(
            epsilon, DELTA, bounds=split.bounds, classes=classes, random_state=seed
        )
        model.set_params(**parameters).fit(split.X, split.y)
        return model.predict_proba(split.X_test)

    return probabilities


def _frequencies(split: Split, classes, epsilon: float, seed: int) -> np.ndarray:
    counts = (split.y[:, None] == classes).sum(axis=0)
    std = (1 if len(classes) == 2 else 2**0.5) / gdp_mu(epsilon, DELTA)
    noisy = counts + std * np.random.default_rng([seed, 13]).normal(size=len(classes))
    if len(classes) == 2:  # one count tells both
        noisy[0] = len(split.y) - noisy[1]
    # A count below its noise is raised to it.
    rates = np.clip(noisy, min(std, len(split.y) / len(classes)), None)
    return np.tile(rates / rates.sum(), (len(split.y_test), 1))


def _without_privacy(split: Split, classes, epsilon: float, seed: int) -> np.ndarray:
    X, X_test = split.scaled()
    return LogisticRegression(max_iter=3000).fit(X, split.y).predict_proba(X_test)


WAYS = {
    "one-shot": _estimator(
        FeatureDPLogisticRegression,
        public_features="all",
        neighboring_relation="replace_one",
    ),
    "loop": _estimator(
        FeatureDPLogisticRegression,
        public_features="all",
        solver="noisy-gd",
        neighboring_relation="replace_one",
    ),
    "nothing public": _estimator(
        DPSGDFClassifier, neighboring_relation="replace_special", **ALGORITHM_3
    ),
    "Warner": warner,
    "RRWithPrior": with_prior,
    "frequencies": _frequencies,
    "no privacy": _without_privacy,
}


def main(argv: list[str] | None = None) -> None:
    """Run the mode that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--full-size", action="store_true")
    mode.add_argument("--compare", action="store_true")
    parser.add_argument("--quick", action="store_true", help="one table, one budget")
    parser.add_argument(
        "--output", type=Path, help="JSON file; benchmarks/results/ by default"
    )
    parser.add_argument(
        "--only", nargs="+", default=(), help="rows whose label starts like this"
    )
    options = parser.parse_args(argv)
    for category in (UtilityWarning, PrivacyWarning):
        warnings.simplefilter("ignore", category)
    only = tuple(options.only)
    if options.full_size:
        full_size(options.output or RESULTS / "label_dp_full_size.json", only)
        return
    path = options.output or RESULTS / "label_dp_compare.json"
    compare(path, ("3 %",) if options.quick else only, options.quick)


if __name__ == "__main__":
    main()
