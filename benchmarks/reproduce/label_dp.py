"""What is a public X worth? Label-DP with the defaults of the estimator.

Four modes, each with a table on the screen and a JSON file, which an interrupted run
continues:

``--full-size``
    MNIST and Fashion-MNIST at epsilon 1 and delta 1e-5, with marks to meet: pixels in
    one shot and by the loop, Nyström features of an RBF kernel, and the convolutional
    dictionary of ``examples/data_label_dp_images.py``. The features are made from X
    alone. The kernel's approximation, the straightening, the regions and the
    neighbours were chosen on the last 10,000 training images; earlier versions of both
    features had been measured on the test images.
``--suite``
    Small and middle-sized data sets and five budgets: one-shot against the loop.
``--compare``
    One-shot, the loop, flipped labels (Warner's, and RRWithPrior in two stages),
    nothing public, the class frequencies at the same budget, and no privacy.
``--quick``
    The suite in miniature, to see that everything runs.

The constants of one-shot were chosen by test accuracy on the data sets of `CHOSEN`, and
MNIST and Fashion-MNIST were looked at. Seeds make the runs reproducible: **they are no
private fits**.
"""

from __future__ import annotations

import argparse
import functools
import sys
import warnings
from pathlib import Path

import numpy as np
from _common import (
    RESULTS,
    DataSet,
    Split,
    Store,
    adult,
    bundled_split,
    classification_split,
    image_split,
    mean_scores,
    scores,
    table_scores,
    text_split,
)
from _flips import (
    curved_split,
    hats,
    heavy_split,
    rare_split,
    warner,
    with_prior,
)
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skfdp import DPSGDFClassifier, FeatureDPLogisticRegression, UtilityWarning
from skfdp.privacy import gdp_mu

DELTA = 1e-5
EPSILONS = (0.1, 0.3, 1.0, 3.0, 8.0)

FULL_SIZE = [
    # data set, features, solver, seeds, least accuracy
    ("mnist", "pixels", "auto", 3, 91.3),
    ("mnist", "pixels", "dp-gd", 3, None),
    ("mnist", "kernel", "auto", 3, 94.5),
    ("mnist", "dictionary", "auto", 1, 97.8),
    ("fashion", "pixels", "auto", 3, 82.0),
    ("fashion", "pixels", "dp-gd", 3, None),
    ("fashion", "kernel", "auto", 3, None),
    ("fashion", "dictionary", "auto", 1, 87.8),
]


# ---------------------------------------------------------------- full size


def full_size(path: Path, only: tuple[str, ...]) -> dict:
    """Measure the rows of `FULL_SIZE`, print them with their marks, return them."""
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
    return store.content


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
    sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))
    from data_label_dp_images import public_steps

    return public_steps(data, random_state=seed)


# ---------------------------------------------------------------- suite


def subset(load, n_rows: int, seed: int) -> Split:
    """Return a split with `n_rows` of its training rows."""
    split = load(seed)
    rows = np.random.default_rng([seed, n_rows]).permutation(len(split.X))[:n_rows]
    return Split(split.X[rows], split.y[rows], split.X_test, split.y_test, split.bounds)


def _set(name: str, load, n_seeds: int) -> DataSet:
    return DataSet(name, load, select=0, measure=n_seeds, epsilons=EPSILONS)


def _bundled(name: str):
    return functools.partial(bundled_split, name)


def _table(n_rows: int, n_features: int, n_classes: int):
    return functools.partial(classification_split, n_rows, n_features, n_classes)


def _adult(n_rows: int):
    return functools.partial(subset, lambda seed: adult(), n_rows)


CHOSEN = [
    _set("iris", _bundled("iris"), 20),
    _set("breast_cancer", _bundled("breast_cancer"), 10),
    _set("digits", _bundled("digits"), 5),
    _set("digits, 300", functools.partial(subset, _bundled("digits"), 300), 10),
    _set("600 x 20, 4 classes", _table(600, 20, 4), 10),
    _set("3,000 x 60, 2 classes", _table(3000, 60, 2), 5),
    _set("mnist, 2,000", functools.partial(image_split, "mnist", 2000, True), 5),
    _set("adult, 3,000", _adult(3000), 5),
]
HELD_OUT = [
    _set("wine", _bundled("wine"), 20),
    _set("digits, 700", functools.partial(subset, _bundled("digits"), 700), 5),
    _set("300 x 10, 3 classes", _table(300, 10, 3), 10),
    _set("2,000 x 100, 6 classes", _table(2000, 100, 6), 5),
    _set("fashion, 3,000", functools.partial(image_split, "fashion", 3000, True), 5),
    _set("mnist, 10,000", functools.partial(image_split, "mnist", 10_000, True), 2),
    _set("adult, 1,000", _adult(1000), 5),
    _set("text, 2,000", functools.partial(text_split, 2000, 1000, 10), 5),
]
QUICK = [
    DataSet("iris", _bundled("iris"), 0, 2, (1.0,)),
    DataSet("wine", _bundled("wine"), 0, 2, (8.0,)),
]


def suite(path: Path, sets: list[DataSet], mode: str, only: tuple[str, ...]) -> dict:
    """Measure one-shot against the loop in every cell, print and return the table."""
    store = Store(path, {"mode": mode, "delta": DELTA})
    held_out = {data.name for data in HELD_OUT}
    rows = []
    print(f"{'data set':24} epsilon  one-shot   loop   difference     log-losses")
    for data in sets:
        for epsilon in data.epsilons:
            runs = _cell(store, data, epsilon, only)
            if runs is None:
                continue
            gain = [a["accuracy"] - b["accuracy"] for a, b in zip(*runs, strict=True)]
            row = {
                "data": data.name,
                "held_out": data.name in held_out,
                "epsilon": epsilon,
                "one-shot": mean_scores(runs[0]),
                "dp-gd": mean_scores(runs[1]),
                "gain": float(np.mean(gain)),
                "gain_se": float(np.std(gain, ddof=1) / len(gain) ** 0.5),
            }
            rows.append(row)
            store.save(rows=rows)
            print(_line(row), flush=True)
    summary = {
        name: _summary([row for row in rows if row["held_out"] == flag])
        for name, flag in (("chosen", False), ("held out", True))
    }
    store.save(rows=rows, summary=summary)
    for name, facts in summary.items():
        print(name, facts)
    return store.content


def _cell(store: Store, data: DataSet, epsilon: float, only) -> list | None:
    runs = []
    for solver in ("one-shot", "dp-gd"):
        of_solver = []
        for seed in range(data.measure):
            key = f"{data.name} | {epsilon} | {solver} | seed {seed}"
            if only and not data.name.startswith(only) and key not in store.cells:
                return None
            fit = functools.partial(_fit, data, epsilon, solver, seed)
            of_solver.append(store.compute(key, fit))
        runs.append(of_solver)
    return runs


def _fit(data: DataSet, epsilon: float, solver: str, seed: int) -> dict:
    split = data.load(seed)
    model = FeatureDPLogisticRegression(
        epsilon=epsilon,
        delta=DELTA,
        public_features="all",
        solver=solver,
        bounds=split.bounds,
        classes=np.unique(split.y_test),
        random_state=seed,
        neighboring_relation="replace_one",
    )
    return scores(model.fit(split.X, split.y), split)


# ---------------------------------------------------------------- comparison

COMPARED = {
    "3 % positives": rare_split,
    "heavy tails": heavy_split,
    "curved, 3 classes": curved_split,
    "breast_cancer": _bundled("breast_cancer"),
    "digits": _bundled("digits"),
    "adult on hats, 3,000": lambda seed: hats(_adult(3000)(seed), 6),
}
BUDGETS = (0.1, 0.3, 1.0, 3.0, 8.0, 1000.0)
N_COMPARED = 3


def compare(path: Path, only: tuple[str, ...]) -> dict:
    """Measure every way in every cell; print and return means over the seeds."""
    store = Store(path, {"mode": "compare", "delta": DELTA})
    rows = []
    print(f"{'data set':22} epsilon  way            accuracy  log-loss    AUC")
    for data, load in COMPARED.items():
        for epsilon in BUDGETS:
            for way in WAYS:
                if only and not data.startswith(only):
                    continue
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
    return store.content


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
    "one-shot": _estimator(  # of rows that are not shortened
        FeatureDPLogisticRegression,
        public_features="all",
        feature_bound="auto",
        neighboring_relation="replace_one",
    ),
    "loop": _estimator(
        FeatureDPLogisticRegression,
        public_features="all",
        solver="dp-gd",
        neighboring_relation="replace_one",
    ),
    "nothing public": _estimator(
        DPSGDFClassifier, neighboring_relation="replace_special"
    ),
    "Warner": warner,
    "RRWithPrior": with_prior,
    "frequencies": _frequencies,
    "no privacy": _without_privacy,
}


def _line(row: dict) -> str:
    one_shot, loop = row["one-shot"], row["dp-gd"]
    return (
        f"{row['data']:24} {row['epsilon']:7} {one_shot['accuracy']:9.1f} "
        f"{loop['accuracy']:6.1f} {row['gain']:+6.1f} +- {row['gain_se']:.1f}   "
        f"{one_shot['log_loss']:.3f} {loop['log_loss']:.3f}"
    )


def _summary(rows: list[dict]) -> dict:
    """Return means over the cells, and where one-shot loses more than the noise."""
    if not rows:
        return {"n_cells": 0}
    worse = [row for row in rows if row["gain"] < -2 * row["gain_se"]]
    return {
        "n_cells": len(rows),
        "mean_gain": float(np.mean([row["gain"] for row in rows])),
        "worst_gain": min(row["gain"] for row in rows),
        "beyond_noise": [[r["data"], r["epsilon"], r["gain"]] for r in worse],
        "log_loss": {
            solver: float(np.mean([row[solver]["log_loss"] for row in rows]))
            for solver in ("one-shot", "dp-gd")
        },
    }


def main(argv: list[str] | None = None) -> None:
    """Run the mode that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--full-size", action="store_true")
    mode.add_argument("--suite", action="store_true")
    mode.add_argument("--compare", action="store_true")
    mode.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--output", type=Path, help="JSON file; benchmarks/results/ by default"
    )
    parser.add_argument(
        "--only", nargs="+", default=(), help="rows whose label starts like this"
    )
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore", UtilityWarning)
    only = tuple(options.only)
    if options.full_size:
        full_size(options.output or RESULTS / "label_dp_full_size.json", only)
        return
    if options.compare:
        compare(options.output or RESULTS / "label_dp_compare.json", only)
        return
    name = "suite" if options.suite else "quick"
    sets = CHOSEN + HELD_OUT if options.suite else QUICK
    suite(options.output or RESULTS / f"label_dp_{name}.json", sets, name, only)


if __name__ == "__main__":
    main()
