"""Two successors of paper 1: protected attributes, and conditioning by public features.

    python benchmarks/reproduce/successors.py

``blurred``: *Machine Learning with Privacy for Protected Attributes* (arXiv 2506.19836)
trains generators of images whose blurred versions are public. Here it is classifiers:
the means of 2 x 2 pixels are public, what the pixels differ from them is private, and
so is the label, or not. Accuracy under "replace_one", delta 1e-5, of

* everything private: ``DPSGDFClassifier``;
* public part alone: label-DP on the blurred images, or, of public labels,
  scikit-learn, which is free;
* paper 1: its Algorithm 1 with Gaussian padding (public labels), 20 Poisson batches a
  pass, 20 passes;
* default: ``FeatureDPLogisticRegression``.

``attribute``: the definition of that paper limits how well a private attribute can be
inferred. One record of 20 has a private bit; somebody knows all the rest, and guesses
the bit from the coefficients. The share of right guesses is at most
``Phi(mu / 2)`` for a fit that is mu-Gaussian-DP under "replace_one".

``conditioned``: *Private Learning with Public Feature Conditioning* (arXiv 2606.18773):
under label-DP the public columns are whitened before the loop. Under "replace_one", at
delta 1e-6, R2 on held-out rows of a regression, and the accuracy in per cent of a
classification of the same rows by the sign of the target, of

* loop: ``solver="dp-gd"`` on centred columns;
* conditioned loop: the same on whitened ones (their matrix up to a rotation);
* one-shot: one release; for classes with the shares of water-filling, which are those
  of whitening where there is no noise and no chance.

On generated rows the j-th direction has the standard deviation 1/j, and the target
follows the first 5 of 50, the last 5, or all.

Runs continue where they stopped. Seeds make them reproducible: **no fit of them is
private**. The seed is that of the split and of the noise.
"""

from __future__ import annotations

import argparse
import functools
import warnings
from pathlib import Path

import numpy as np
from _common import RESULTS, Split, Store, bundled_split, image_split
from regressors import ink
from scipy.stats import norm
from sklearn.datasets import load_diabetes
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skfdp import (
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    FeatureDPRegressor,
    PrivacyWarning,
    UtilityWarning,
)
from skfdp.privacy import gdp_mu

FAMILIES = ("blurred", "attribute", "conditioned")
REPLACE = {"neighboring_relation": "replace_one"}


# ---------------------------------------------------------------- blurred images


@functools.cache
def blurred_split(data: str, seed: int) -> tuple[Split, np.ndarray]:
    """Return public means of 2 x 2 pixels beside private rests, and the public mask."""
    if data == "digits":
        split, side, high = bundled_split("digits", seed), 8, 16
    else:
        split, side, high = image_split(data, 3000, True, seed), 14, 255
    half = side // 2

    def columns(X):
        images = X.reshape(-1, half, 2, half, 2) / high
        mean = images.mean(axis=(2, 4), keepdims=True)
        rest = (images - mean).reshape(len(X), -1)
        return np.hstack([mean.reshape(len(X), -1), rest])

    public = np.arange(half**2 + side**2) < half**2
    bounds = np.where(public, 0.0, -0.75), np.where(public, 1.0, 0.75)
    X, X_test = columns(split.X), columns(split.X_test)
    return Split(X, split.y, X_test, split.y_test, bounds), public


def blurred_accuracy(data, way, labels, epsilon, seed) -> float:
    """Return the accuracy of one fit in percent."""
    split, public = blurred_split(data, seed)
    X, X_test, (low, high) = split.X, split.X_test, split.bounds
    budget = {"epsilon": epsilon, "delta": 1e-5, "random_state": seed, **REPLACE}
    if way == "everything private":
        budget.pop("neighboring_relation")
        model = DPSGDFClassifier(bounds=split.bounds, **budget, **REPLACE)
    elif way == "public part alone":
        X, X_test = X[:, public], X_test[:, public]
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        if labels == "private":
            bounds = low[public], high[public]
            facts = {"public_features": "all", "bounds": bounds}
            model = FeatureDPLogisticRegression(**budget, **facts)
    else:
        facts = {"public_features": public, "public_target": labels == "public"}
        if way == "paper 1":
            facts |= {"solver": "dp-sgd", "public_loss": "gaussian", "momentum": 0}
            facts |= {"average": "uniform", "centering": None}
            facts |= {"batch_size": len(X) // 20, "max_iter": 400}
        model = FeatureDPLogisticRegression(bounds=split.bounds, **budget, **facts)
    return 100 * model.fit(X, split.y).score(X_test, split.y_test)


def blurred(options, store) -> None:
    """Print accuracies by labels, way and budget."""
    epsilons = (8.0,) if options.quick else (0.5, 2.0, 8.0)
    ways = ("everything private", "public part alone", "paper 1", "default")
    for data in ("digits",) if options.quick else ("digits", "fashion"):
        for labels in ("private", "public"):
            for way in ways:
                if way == "paper 1" and labels == "private":
                    continue  # its padding needs a public label
                cells = [
                    (f"blurred | {data} | {labels} | {way} | {epsilon:g}", epsilon)
                    for epsilon in epsilons
                ]
                show(
                    f"blurred, {data}, {labels} labels: {way}",
                    [
                        seeds(
                            options,
                            store,
                            key,
                            functools.partial(
                                blurred_accuracy, data, way, labels, epsilon
                            ),
                        )
                        for key, epsilon in cells
                    ],
                )


# ---------------------------------------------------------------- attribute inference


def right_guesses(epsilon: float, n_fits: int, seed: int) -> float:
    """Return the share of right guesses of one private bit, in percent.

    The guess is linear in the coefficients, and is chosen on half of the fits.
    """
    rng = np.random.default_rng(seed)
    n, half = 20, n_fits // 2
    X = np.column_stack([rng.random(n), np.zeros(n)])
    X[0] = 1.0, 0.0
    y = np.arange(n) % 2
    bits, found = rng.integers(2, size=n_fits), np.empty((n_fits, 2))
    for i, bit in enumerate(bits):
        X[0, 1] = bit
        model = FeatureDPLogisticRegression(
            epsilon,
            1e-5,
            public_features=[0],
            public_target=True,
            bounds=(0, 1),
            random_state=int(rng.integers(2**31)),
            **REPLACE,
        )
        model.fit(X, y)
        found[i] = model.coef_[0]
    guess = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    guess.fit(found[:half], bits[:half])
    return 100 * guess.score(found[half:], bits[half:])


def attribute(options, store) -> None:
    """Print shares of right guesses, and their bounds."""
    n_fits = 40 if options.quick else 1000
    for epsilon in (8.0,) if options.quick else (0.5, 2.0):
        bound = 100 * norm.cdf(gdp_mu(epsilon, 1e-5) / 2)
        value = store.compute(
            f"attribute | {epsilon:g} | {n_fits} fits",
            functools.partial(right_guesses, epsilon, n_fits, 0),
        )
        error = 50 / (n_fits / 2) ** 0.5
        print(
            f"attribute, epsilon {epsilon:g}: {value:.1f} +- {error:.1f} % right, "
            f"bound {bound:.1f} %",
            flush=True,
        )


# ---------------------------------------------------------------- conditioning


@functools.cache
def regression_problem(name: str) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    """Return X, y and the declared bounds of the target."""
    if name == "diabetes":
        X, y = load_diabetes(return_X_y=True)
        return X, y, (0, 400)
    if name == "ink":
        return *ink(), (0, 16)
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.normal(size=(50, 50)))[0]
    rows = rng.normal(size=(5000, 50))
    chosen = {"first": slice(5), "last": slice(-5, None), "all": slice(None)}[name]
    signal = rows[:, chosen].sum(axis=1) / rows[:, chosen].shape[1] ** 0.5
    y = np.clip(signal + rng.normal(size=5000) / 2, -3, 3)
    return (rows / np.arange(1, 51)) @ rotation, y, (-3, 3)


def conditioned_score(name, way, epsilon, seed) -> float:
    """Return R2 on held-out rows, or the accuracy for two classes."""
    problem, _, classes = name.partition(", ")
    X, y, target_bounds = regression_problem(problem)
    facts = {
        "epsilon": epsilon,
        "delta": 1e-6,
        "public_features": "all",
        "solver": "one-shot" if way == "one-shot" else "dp-gd",
        "bounds": False,
        "random_state": seed,
        **REPLACE,
    }
    if classes:
        y, free, private = y > 0, LogisticRegression(), FeatureDPLogisticRegression
    else:
        free, private = LinearRegression(), FeatureDPRegressor
        facts["target_bounds"] = target_bounds
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=seed)
    # Columns are public: what is learnt from them is free.
    first = StandardScaler(with_std=False)
    if way == "conditioned loop":
        rank = np.linalg.matrix_rank(X - X.mean(axis=0))
        first = PCA(rank, whiten=True)
    model = make_pipeline(first, free if way == "no privacy" else private(**facts))
    return model.fit(X, y).score(X_test, y_test) * (100 if classes else 1)


def conditioned(options, store) -> None:
    """Print R2, or accuracies, by problem, way and budget."""
    epsilons = (1.0,) if options.quick else (0.25, 1.0, 4.0)
    generated = ("first", "last", "all")
    names = ("diabetes", "ink", *generated, *(f"{name}, classes" for name in generated))
    if options.quick:
        names = ("diabetes", "last, classes")
    for name in names:
        for way in ("loop", "conditioned loop", "one-shot", "no privacy"):
            show(
                f"conditioned, {name}: {way}",
                [
                    seeds(
                        options,
                        store,
                        f"conditioned | {name} | {way} | {epsilon:g}",
                        functools.partial(conditioned_score, name, way, epsilon),
                    )
                    for epsilon in (epsilons if way != "no privacy" else (np.inf,))
                ],
            )


# ---------------------------------------------------------------- the table


def seeds(options, store, key, function) -> list[float]:
    """Return the value of each seed."""
    return [
        store.compute(f"{key} | seed {seed}", functools.partial(function, seed))
        for seed in range(options.seeds)
    ]


def show(name: str, columns: list[list[float]]) -> None:
    """Print means, with standard errors."""
    cells = []
    for values in columns:
        text = f"{np.mean(values):8.3g}"
        if len(values) > 1:
            text += f" +- {np.std(values, ddof=1) / len(values) ** 0.5:<7.2g}"
        cells.append(text)
    print(f"{name:58}" + "".join(cells), flush=True)


def main(argv: list[str] | None = None) -> None:
    """Run the families that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=FAMILIES, default=FAMILIES)
    parser.add_argument("--seeds", type=int, default=3, help="conditioned: 5 were run")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path, default=RESULTS / "successors.json")
    options = parser.parse_args(argv)
    store = Store(options.output, {"delta": [1e-5, 1e-6]})
    functions = {
        "blurred": blurred,
        "attribute": attribute,
        "conditioned": conditioned,
    }
    print("columns: epsilon 0.5, 2, 8 (conditioned: 0.25, 1, 4); 8 (1) if --quick")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        warnings.simplefilter("ignore", UtilityWarning)
        for name in options.only:
            functions[name](options, store)


if __name__ == "__main__":
    main()
