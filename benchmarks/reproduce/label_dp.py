"""What is a public X worth? Label-DP of images with the defaults of the estimator.

MNIST and Fashion-MNIST at epsilon 1 and delta 1e-5, with marks to meet: pixels in one
shot and by the loop, Nyström features of an RBF kernel, and the convolutional
dictionary of ``data_label_dp_images.py`` in the gallery. Features are made from X
alone. The kernel's approximation, the straightening, the regions and the neighbours
were chosen on the last 10,000 training images; earlier versions of both features had
been measured on the test images. The constants of one-shot were chosen by test accuracy
on other data sets, and MNIST and Fashion-MNIST were looked at.

A table on the screen and a JSON file, which an interrupted run continues. Seeds make
the runs reproducible: **they are no private fits**.
"""

from __future__ import annotations

import argparse
import functools
import sys
import warnings
from pathlib import Path

import numpy as np
from _common import RESULTS, Store, image_split, mean_scores, scores
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skfdp import FeatureDPLogisticRegression, PrivacyWarning, UtilityWarning

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


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    path = RESULTS / "label_dp_full_size.json"
    parser.add_argument("--output", type=Path, default=path, help="JSON file")
    parser.add_argument(
        "--only", nargs="+", default=(), help="rows whose label starts like this"
    )
    options = parser.parse_args()
    for category in (UtilityWarning, PrivacyWarning):
        warnings.simplefilter("ignore", category)
    full_size(options.output, tuple(options.only))


if __name__ == "__main__":
    main()
