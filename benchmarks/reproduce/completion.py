"""What does completing public records buy, and where does it lose?

The target is public, some columns are private. Each data set and budget has these
columns, mean test accuracy in percent under "replace_one":

*completed*
    ``PrivateCompletionClassifier`` around each inner classifier.
*public*
    the same classifier on the public columns alone: no privacy needed.
*everything*
    ``DPSGDFClassifier``: a private linear model of all columns, which protects the
    whole record.
*exact*
    the same classifier on all columns, without privacy.

Seeds make the runs reproducible: **they are not private fits**.
"""

from __future__ import annotations

import argparse
import functools
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _common import (
    ALGORITHM_3,
    RESULTS,
    Split,
    Store,
    adult,
    bundled_split,
    mean_scores,
    scores,
)
from _data import load_adult
from sklearn.cluster import MiniBatchKMeans
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from skfdp import DPSGDFClassifier, PrivateCompletionClassifier, UtilityWarning

DELTA = 1e-5
EPSILONS = (0.1, 0.3, 1.0, 3.0, 8.0)
ADULT_PUBLIC = ("education", "education-num", "age", "hours-per-week", "workclass")
MODELS = {
    "logistic": lambda: LogisticRegression(max_iter=300),
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "mlp": lambda: MLPClassifier((100,), max_iter=8, random_state=0),
}


def adult_problem(n_rows: int, seed: int) -> tuple[Split, np.ndarray, float]:
    """Return rows of Adult, its columns scaled; which are public; and a norm.

    The norm is that of a record with one entry for each private categorical column.
    """
    train, whole = load_adult("train"), adult()
    names = list(train.bounds)
    for name, values in train.categories.items():
        names += [name] * len(values)
    public = np.isin(names, ADULT_PUBLIC)
    rows = np.random.default_rng([seed, n_rows]).permutation(len(whole.X))[:n_rows]
    split = Split(whole.X[rows], whole.y[rows], whole.X_test, whole.y_test, (0, 1))
    low, high = whole.bounds
    scaled = [np.clip((X - low) / (high - low), 0, 1) for X in (split.X, split.X_test)]
    n_groups = len([name for name in train.categories if name not in ADULT_PUBLIC])
    split = Split(scaled[0], split.y, scaled[1], split.y_test, (0, 1))
    return split, public, float(n_groups) ** 0.5


def digits_problem(seed: int) -> tuple[Split, np.ndarray, str]:
    """Return the digits with the left half of the pixels public."""
    return bundled_split("digits", seed), np.tile(np.arange(8) < 4, 8), "auto"


@functools.cache
def _baskets(n_rows: int, n_items: int, n_classes: int) -> tuple:
    rng = np.random.default_rng(7)
    habits = rng.dirichlet(np.full(n_items, 0.05), 60) * 80
    mixture = rng.dirichlet(np.full(60, 0.06), n_rows)
    X = (rng.random((n_rows, n_items)) > np.exp(-mixture @ habits)).astype(np.float32)
    clusters = MiniBatchKMeans(n_classes, n_init=1, batch_size=4096, random_state=0)
    y = clusters.fit_predict(X)
    kept = np.bincount(y, minlength=n_classes)[y] >= 50  # no class is only in the test
    return X[kept], y[kept]


def baskets_problem(n_rows: int, seed: int) -> tuple[Split, np.ndarray, float]:
    """Return baskets: 600 items, 100 public; up to 100 classes by k-means.

    The shape of Purchase100, whose data cannot be redistributed.
    """
    n_test = 5000
    X, y = _baskets(n_rows + n_test, 600, 100)
    order = np.random.default_rng([seed, 3]).permutation(len(X))
    train, test = order[n_test:], order[:n_test]
    split = Split(X[train], y[train], X[test], y[test], (0, 1))
    return split, np.arange(600) < 100, 8.0


def problems(quick: bool) -> dict[str, tuple[Callable, tuple[str, ...], int]]:
    """Return a loader, the inner models and the number of seeds of each problem."""
    if quick:
        return {"digits": (digits_problem, ("logistic",), 1)}
    both = ("logistic", "boosting")
    return {
        "adult 3000": (functools.partial(adult_problem, 3000), both, 5),
        "digits": (digits_problem, ("logistic",), 5),
        "baskets 20000": (functools.partial(baskets_problem, 20_000), ("mlp",), 1),
        "adult 10000": (functools.partial(adult_problem, 10_000), both, 3),
    }


def fit_scores(model, split: Split, columns=slice(None)) -> dict[str, float]:
    """Fit a model on some columns and score it."""
    cut = Split(split.X[:, columns], split.y, split.X_test[:, columns], split.y_test, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return scores(model.fit(cut.X, cut.y), cut)


def reference(load: Callable, model: str, n_seeds: int, public_only: bool) -> dict:
    """Measure a classifier without privacy, on the public columns or on all."""
    runs = []
    for seed in range(n_seeds):
        split, public, _ = load(seed)
        train, test = split.scaled()
        split = Split(train, split.y, test, split.y_test, (0, 1))
        columns = public if public_only else slice(None)
        runs.append(fit_scores(MODELS[model](), split, columns))
    return mean_scores(runs)


def private(load: Callable, model: str | None, n_seeds: int, epsilon: float) -> dict:
    """Measure completion around a model or, for None, what protects everything."""
    runs = []
    for seed in range(n_seeds):
        split, public, bound = load(seed)
        given = {"bounds": split.bounds, "random_state": seed}
        if model is None:
            classifier = DPSGDFClassifier(
                epsilon,
                DELTA,
                neighboring_relation="replace_one",
                **ALGORITHM_3,
                **given,
            )
        else:
            classifier = PrivateCompletionClassifier(
                MODELS[model](),
                epsilon,
                DELTA,
                public_features=public,
                row_norm=bound,
                neighboring_relation="replace_one",
                **given,
            )
        runs.append(fit_scores(classifier, split))
    return mean_scores(runs)


def run(path: Path, quick: bool) -> None:
    """Measure every cell and print the table."""
    store = Store(path, {"delta": DELTA, "quick": quick})
    epsilons = (0.3, 8.0) if quick else EPSILONS
    print(
        f"{'problem':15}{'model':10}{'column':12}" + "".join(f"{e:8}" for e in epsilons)
    )
    for name, (load, models, n_seeds) in problems(quick).items():
        for model in models:
            lines: dict[str, list] = {"completed": []}
            for label in ("public", "exact"):
                find = functools.partial(
                    reference, load, model, n_seeds, label == "public"
                )
                cell = store.compute(f"{name} | {model} | {label}", find)
                lines[label] = [cell] * len(epsilons)
            for epsilon in epsilons:
                find = functools.partial(private, load, model, n_seeds, epsilon)
                key = f"{name} | {model} | completed | {epsilon}"
                lines["completed"].append(store.compute(key, find))
            _show(name, model, lines)
        cells = []
        for epsilon in epsilons:
            find = functools.partial(private, load, None, n_seeds, epsilon)
            cells.append(store.compute(f"{name} | everything | {epsilon}", find))
        _show(name, "linear", {"everything": cells})


def _show(name: str, model: str, lines: dict[str, list]) -> None:
    for label, cells in lines.items():
        numbers = "".join(f"{cell['accuracy']:8.1f}" for cell in cells)
        print(f"{name:15}{model:10}{label:12}{numbers}", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="digits alone, one seed")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    name = "completion_quick.json" if arguments.quick else "completion.json"
    run(arguments.output or RESULTS / name, arguments.quick)


if __name__ == "__main__":
    main()
