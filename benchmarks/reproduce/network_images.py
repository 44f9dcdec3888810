"""Networks on real images, the left half of the pixels and the target public.

    python benchmarks/reproduce/network_images.py --rows 6000

Accuracy on held-out images, replace_one, delta 1e-5, of `FeatureDPMLPClassifier` with
its defaults (a linear model to start from), without pretraining (DP-SGD), after class
sums and after public pretraining, of the linear classifier, and of scikit-learn's
network on the public half and on everything, without privacy.
"""

import argparse
import functools
import warnings
from pathlib import Path

import numpy as np
from _common import RESULTS, Store, image_split
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from skfdp import FeatureDPLogisticRegression, FeatureDPMLPClassifier

EPSILONS = (1.0, 8.0)
HIDDEN = (100,)


def splits(n_rows):
    """Yield (name, training rows, test rows, high, mask of the left half)."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
    yield "digits", X, y, X_test, y_test, 16, np.arange(64) % 8 < 4
    split = image_split("fashion", n_rows, False, 0)
    half = np.arange(784) % 28 < 14
    yield "fashion", split.X, split.y, split.X_test, split.y_test, 255, half


def estimators(epsilon, half, high):
    """Yield (name, estimator)."""
    facts = {
        "epsilon": epsilon,
        "public_features": half,
        "public_target": True,
        "bounds": (0, high),
        "neighboring_relation": "replace_one",
        "random_state": 0,
    }
    network = {**facts, "hidden_layer_sizes": HIDDEN}
    yield "default", FeatureDPMLPClassifier(**network)
    yield "dp-sgd", FeatureDPMLPClassifier(**network, pretraining=None)
    sums = FeatureDPMLPClassifier(**network, pretraining="class_sums")
    yield "class sums", sums
    public = FeatureDPMLPClassifier(**network, pretraining="public")
    yield "public start", public
    yield "linear", FeatureDPLogisticRegression(**facts)


def reference(X, y, X_test, y_test, columns, high):
    """Return the accuracy of scikit-learn's network in percent."""
    model = MLPClassifier(HIDDEN, max_iter=40, random_state=0)
    model.fit(X[:, columns] / high, y)
    return {"accuracy": 100 * model.score(X_test[:, columns] / high, y_test)}


def accuracy(model, X, y, X_test, y_test):
    """Return the accuracy of our model in percent."""
    return {"accuracy": 100 * model.fit(X, y).score(X_test, y_test)}


def main(argv: list[str] | None = None) -> None:
    """Print one line for each cell, and save them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=60_000, help="of Fashion-MNIST")
    parser.add_argument("--output", type=Path, default=RESULTS / "network_images.json")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    store = Store(options.output, {"rows": options.rows})

    def show(key, function):
        value = store.compute(key, function)
        print(f"{key:32} {value['accuracy']:6.2f}", flush=True)

    for name, X, y, X_test, y_test, high, half in splits(options.rows):
        everything = np.ones_like(half)
        for label, columns in (("public half", half), ("no privacy", everything)):
            show(
                f"{name} | {label}",
                functools.partial(reference, X, y, X_test, y_test, columns, high),
            )
        for epsilon in EPSILONS:
            for label, model in estimators(epsilon, half, high):
                show(
                    f"{name} | {label} | epsilon {epsilon:g}",
                    functools.partial(accuracy, model, X, y, X_test, y_test),
                )


if __name__ == "__main__":
    main()
