"""Is a network better than the linear model, and what else was tried?

    SKFDP_DATA=data python benchmarks/reproduce/network.py --half aside --seeds 2

Test accuracy in %, with four public splits and three budgets, of
`FeatureDPLogisticRegression`, and what is gained over it on the same rows by

* network: `FeatureDPMLPClassifier`, with defaults and the noise of the linear model;

and with ``--losers`` also by

* all weights: its ``solver="noisy-sgd"``, from random weights;
* residual: half of the squared budget for the linear model, then DP-SGD of all layers
  of a network beside it, whose last layer starts at zero; a simulation in floats;
* random labels: `LabelDPClassifier` of scikit-learn's network, if columns are public.

The half put aside was not looked at before the rules were fixed. Baskets have the shape
of Purchase100; ``--half paper`` is a setting of the first paper, without the linear
model. Seeds make a run reproducible: **no fit of it is private**.
"""

import argparse
import functools
import warnings

import numpy as np
from _common import RESULTS, Split, Store, image_split
from _tables import TABLES
from scipy.special import softmax
from sklearn.neural_network import MLPClassifier

from skfdp import FeatureDPLogisticRegression, FeatureDPMLPClassifier, LabelDPClassifier
from skfdp.datasets import make_purchase100
from skfdp.privacy import calibrate, gdp_epsilon, gdp_mu

DELTA, HIDDEN, EPSILONS = 1e-5, 300, (1.0, 3.0, 8.0)
N_IMAGES = 10_000
SPLITS = ("nothing", "columns", "columns and target", "labels")
HALVES = {
    "dev": ("breast_cancer", "digits", "interactions, 7000", "baskets"),
    "aside": ("fair affairs", "adult 20000", "mnist", "fashion"),
    "paper": ("baskets 16000",),
}


class FeatureDPNetwork(FeatureDPMLPClassifier):
    """A network that draws the noise of the linear model."""


FeatureDPNetwork.__qualname__ = FeatureDPLogisticRegression.__qualname__


def load(name: str, seed: int) -> tuple[Split, np.ndarray]:
    """Return a set, and its public columns."""
    if name.startswith("baskets"):
        n_rows = int(name.partition(" ")[2] or 20_000)
        X, y = make_purchase100(n_rows + 4000, random_state=0)
        rows = np.random.default_rng(seed).permutation(len(X))
        train, test = np.split(rows, [n_rows])
        return Split(X[train], y[train], X[test], y[test], (0, 1)), np.arange(100)
    if name in ("mnist", "fashion"):
        left = np.flatnonzero(np.tile(np.arange(14) < 7, 14))
        return image_split(name, N_IMAGES, True, seed), left
    table = next(table for table in TABLES if table.name == name)
    return table.load(seed), table.public()


def residual(linear, split: Split, epsilon: float, seed: int) -> float:
    """Return the accuracy of a linear model with a network beside it, in percent."""
    rng, (rows, held) = np.random.default_rng(seed), split.scaled()
    margins = np.log(linear.predict_proba(split.X))
    offsets = np.log(linear.predict_proba(split.X_test))
    y, (n, k) = np.searchsorted(linear.classes_, split.y), margins.shape
    rate, n_steps = (1.0, 100) if n <= 4096 else (max(1024 / n, 1 / 16), 160)
    known = {"sampling_rate": rate, "other_events": linear.privacy_.events}
    noise = calibrate(epsilon, DELTA, n_steps=n_steps, **known).event.noise_std[0]
    x, x_held = (np.c_[X, np.ones(len(X))] for X in (rows, held))
    V, W = rng.normal(size=(HIDDEN, x.shape[1])), np.zeros((k, HIDDEN))
    V, moved = V * (2 / x.shape[1]) ** 0.5, [0.0, 0.0]
    for t in range(n_steps):
        part = np.flatnonzero(rng.random(n) < rate)
        inputs, hidden = x[part], np.maximum(x[part] @ V.T, 0)
        errors = softmax(margins[part] + hidden @ W.T, axis=1)
        errors[np.arange(len(part)), y[part]] -= 1
        layers = (W, errors, hidden), (V, errors @ W * (hidden > 0), inputs)
        squares = sum((e**2).sum(axis=1) * (a**2).sum(axis=1) for _, e, a in layers)
        clip = 1 / np.maximum(np.sqrt(squares), 1)[:, None]
        for i, (weights, e, a) in enumerate(layers):
            total = (e * clip).T @ a + noise * rng.normal(size=weights.shape)
            moved[i] = 0.9 * moved[i] + total / (rate * n)
            weights -= 0.1 * (1 - t / n_steps) * moved[i]
    margins = offsets + np.maximum(x_held @ V.T, 0) @ W.T
    return 100 * np.mean(linear.classes_[margins.argmax(axis=1)] == split.y_test)


def fits(key: str, losers: bool) -> dict[str, list[float]]:
    """Return the accuracies of each method in percent, one for each budget."""
    name, kind, seed = (part.strip() for part in key.split("|"))
    (split, columns), seed = load(name, int(seed)), int(seed)
    classes, public = np.unique(split.y), {}
    if kind != "nothing":
        public["public_features"] = "all" if kind == "labels" else columns
        public["public_target"] = kind == "columns and target"
    own = public | {"bounds": split.bounds, "classes": classes, "random_state": seed}
    linear = functools.partial(FeatureDPLogisticRegression, delta=DELTA, **own)
    network = functools.partial(FeatureDPNetwork, delta=DELTA, **own)
    net = MLPClassifier(HIDDEN, early_stopping=True, random_state=seed)

    def score(model) -> float:
        return 100 * model.fit(split.X, split.y).score(split.X_test, split.y_test)

    def beside(epsilon: float) -> float:
        half = linear(gdp_epsilon(DELTA, 0.5**0.5 * gdp_mu(epsilon, DELTA)))
        return residual(half.fit(split.X, split.y), split, epsilon, seed)

    given = {"classes": classes, "random_state": seed}
    if name == "baskets 16000":
        return {"network": [float(score(network(e))) for e in (1.0, 4.0, 8.0)]}
    methods = {"linear": lambda e: score(linear(e))}
    methods["network"] = lambda e: score(network(e))
    if losers:
        methods["all weights"] = lambda e: score(network(e, solver="noisy-sgd"))
        methods["residual"] = beside
        if kind == "labels":
            noisy = functools.partial(LabelDPClassifier, net, **given)
            methods["random labels"] = lambda e: score(noisy(epsilon=e))
    return {name: [float(fit(e)) for e in EPSILONS] for name, fit in methods.items()}


def lines(cells: dict) -> list[str]:
    """Return a line for each set and split, with standard errors (0 for one seed)."""
    found: dict = {}
    for key, methods in cells.items():
        runs = found.setdefault(key.rpartition(" | ")[0], {})
        for method, values in methods.items():
            runs.setdefault(method, []).append(values)
    text = []
    for key, methods in found.items():
        base = np.array(methods.pop("linear", [[0.0] * len(EPSILONS)]))
        line = f"{key:39}" + f" linear {base.mean(axis=0).round(1)}" * bool(base.any())
        for method, values in methods.items():
            more = np.array(values) - base
            error = more.std(axis=0, ddof=min(1, len(more) - 1)) / len(more) ** 0.5
            line += f" {method} {more.mean(axis=0).round(1)} ({error.round(1)})"
        text.append(line)
    return text


def main() -> None:
    """Run what the command line asks for, and print a line for each budget."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--half", choices=HALVES, default="dev")
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--losers", action="store_true")
    options = parser.parse_args()
    stem = f"network_{options.half}" + "_losers" * options.losers
    store = Store(RESULTS / f"{stem}.json", {"delta": DELTA})
    warnings.simplefilter("ignore")
    splits = SPLITS[::2] if options.half == "paper" else SPLITS
    for name in options.sets or HALVES[options.half]:
        for seed in range(options.seeds):
            for kind in splits:
                key = f"{name} | {kind} | {seed}"
                store.compute(key, functools.partial(fits, key, options.losers))
                print(key, flush=True)
    store.save()
    print(*lines(store.cells), sep="\n")


if __name__ == "__main__":
    main()
