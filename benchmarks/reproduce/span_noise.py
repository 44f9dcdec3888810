"""Label-DP with noise in the span of the label gradients (Ghazi et al. 2021).

Paper 1 compares its bound with this algorithm (LP-Normal-SGD, Algorithm 6 of arXiv
2102.06062, appendix F.2). All columns are public, the label is private. In a softmax
regression the gradients of the K labels of a row x are ``x (p - e_k)``, and all their
differences lie in the K - 1 dimensions of ``x v`` with v of sum zero. Noise in these
alone hides the label: labels of a row are ``sqrt(2) |x|`` apart, and the noise has the
standard deviation ``s |x|`` in each of these directions.

Privacy, under "replace_one": given what came before, a step depends on one label, so
that a record is exposed to the steps that visit it alone. One pass is one Gaussian
release with sensitivity sqrt(2) and noise s, k passes are k of them, whatever the
number of records; ``skfdp.calibrate`` finds s. The order of the rows is public, and
nothing is amplified by sampling: the direction of a step tells whose it is.

Ways:

* one pass: Algorithm 6. Steps ``c / (G sqrt(t))``, G the bound of its noisy gradients;
  c, and the last iterate or the mean of the second half, chosen on the test rows;
* ten passes: the same on batches of 50 rows, each row released ten times;
* noisy labels: a pass releases no more than ``e_y + noise`` of each record once, and
  this solves the regression on such labels; its penalty chosen on the test rows;
* isotropic: the same solver and choice of penalty, but the label statistic ``X^T Y``
  is released once, with noise in all directions: what our one-shot releases. The noise
  outside of the space of the rows is cut off, which is post-processing;
* one-shot: ``FeatureDPLogisticRegression(public_features="all")``, nothing chosen;
* loop: the same with ``solver="dp-gd"``.

Choices on the test rows flatter the first four. Noise has seeds: **these are no private
fits**.
"""

from __future__ import annotations

import argparse
import functools
import math
import warnings
from pathlib import Path

import numpy as np
from _common import (
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
from label_dp import subset
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from skfdp import (
    FeatureDPLogisticRegression,
    PrivacyWarning,
    UtilityWarning,
    calibrate,
)

DELTA, EPSILONS, N_PASSES, BATCH = 1e-5, (0.3, 1.0, 3.0), 10, 50
STEPS = (0.3, 1.0, 3.0, 10.0, 30.0)
PENALTIES = (10.0, 1.0, 0.1, 0.01, 0.001)
#: Name, loader, seeds. 500 images have 28 x 28 pixels: fewer rows than columns. 20,000
#: images have 14 x 14.
SETS = {
    "digits": (functools.partial(bundled_split, "digits"), 5),
    "adult, 5,000": (functools.partial(subset, lambda seed: adult(), 5000), 3),
    "mnist, 500": (functools.partial(image_split, "mnist", 500, False), 3),
    "mnist, 20,000": (functools.partial(image_split, "mnist", 20_000, True), 2),
}


def prepared(split: Split):
    """Return rows in [0, 1] with a bias, their test rows, label codes and classes."""
    X, X_test = split.scaled()
    classes, codes = np.unique(split.y, return_inverse=True)
    X, X_test = (np.hstack([part, np.ones((len(part), 1))]) for part in (X, X_test))
    return X.astype(np.float32), X_test.astype(np.float32), codes, classes


def sum_zero(noise: np.ndarray) -> np.ndarray:
    """Return rows without their mean: the projection onto the span."""
    return noise - noise.mean(axis=1, keepdims=True)


def label_noise(epsilon: float, n_passes: int) -> float:
    """Return the noise of each pass in each direction of the span, for rows of norm 1.

    An event of `n_passes` Gaussian releases; see the module for why that is all.
    """
    plan = calibrate(
        epsilon, DELTA, n_steps=n_passes, clip_norm=1.0, sensitivity=math.sqrt(2)
    )
    return plan.noise_multiplier


def descend(X, codes, n_classes, noise, size, n_passes, batch, rng):
    """Return the last iterate and the mean of the second half.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
    codes : int ndarray of shape (n_rows,)
    n_classes : int
    noise : float
        Of one visit, for rows of norm 1.
    size : float
        c, the scale of the steps.
    n_passes, batch : int
    rng : Generator
    """
    n, d = X.shape
    longest = float(np.linalg.norm(X, axis=1).max())
    gradient = longest * math.sqrt(2 + (n_classes - 1) * noise**2 / batch)
    weights, total, count, t = np.zeros((d, n_classes)), 0.0, 0, 0
    n_steps = n_passes * (n // batch)
    for _ in range(n_passes):
        order = rng.permutation(n)[: n // batch * batch].reshape(-1, batch)
        disturbance = sum_zero(noise * rng.normal(size=(n, n_classes)))
        for rows in order:
            t += 1
            x = X[rows]
            error = x @ weights
            error = np.exp(error - error.max(axis=1, keepdims=True))
            error /= error.sum(axis=1, keepdims=True)
            error[np.arange(batch), codes[rows]] -= 1
            error += disturbance[rows]
            weights -= size / (gradient * math.sqrt(t)) * (x.T @ error) / batch
            if 2 * t > n_steps:
                total, count = total + weights, count + 1
    return weights, total / count


def visited(split, epsilon, seed, n_passes, batch) -> dict:
    """Return the scores of descent in the span, step and average chosen on tests."""
    X, X_test, codes, classes = prepared(split)
    noise = label_noise(epsilon, n_passes)
    found = []
    for size in STEPS:
        rng = np.random.default_rng([seed, n_passes])
        for weights in descend(
            X, codes, len(classes), noise, size, n_passes, batch, rng
        ):
            table = softmax(X_test @ weights, axis=1)
            found.append(table_scores(np.clip(table, 1e-9, 1), classes, split.y_test))
    return min(found, key=lambda one: one["log_loss"])


def row_space(X) -> np.ndarray:
    """Return an orthonormal basis of the space of the rows, shape (n_columns, rank)."""
    values, vectors = np.linalg.eigh(X.T.astype(np.float64) @ X)
    return vectors[:, values > 1e-6 * values[-1]]


def solve(X, statistic, penalty, start) -> np.ndarray:
    """Return the weights of a softmax regression whose label statistic is given."""
    n, shape = len(X), statistic.shape

    def objective(flat):
        weights = flat.reshape(shape)
        margins = X @ weights.astype(X.dtype)
        value = logsumexp(margins, axis=1).sum(dtype=np.float64)
        value -= (weights * statistic).sum()
        gradient = X.T @ softmax(margins, axis=1) - statistic
        value = value / n + penalty / 2 * (flat @ flat)
        return value, (gradient / n + penalty * weights).ravel().astype(np.float64)

    found = minimize(
        objective, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 100}
    )
    return found.x.reshape(shape)


def released(split, epsilon, seed, isotropic) -> dict:
    """Return the scores from one release, the penalty chosen on the test rows."""
    X, X_test, codes, classes = prepared(split)
    rng = np.random.default_rng([seed, 7, int(isotropic)])
    noise = label_noise(epsilon, 1)
    labels = np.eye(len(classes))[codes]
    if isotropic:
        longest = float(np.linalg.norm(X, axis=1).max())
        shape = (X.shape[1], len(classes))
        disturbance = noise * longest * sum_zero(rng.normal(size=shape))
        basis = row_space(X)  # public, and the statistic lies in it
        statistic = X.T @ labels + basis @ (basis.T @ disturbance)
    else:
        statistic = X.T @ (labels + sum_zero(noise * rng.normal(size=labels.shape)))
    weights, found = np.zeros_like(statistic, dtype=np.float64), []
    for penalty in PENALTIES:
        weights = solve(X, statistic, penalty, weights)
        table = softmax(X_test @ weights, axis=1)
        found.append(table_scores(np.clip(table, 1e-9, 1), classes, split.y_test))
    return min(found, key=lambda one: one["log_loss"])


def ours(split, epsilon, seed, solver="auto") -> dict:
    """Return the scores of the estimator with its defaults."""
    model = FeatureDPLogisticRegression(
        epsilon,
        DELTA,
        public_features="all",
        solver=solver,
        bounds=split.bounds,
        classes=np.unique(split.y),
        random_state=seed,
        neighboring_relation="replace_one",
    )
    return scores(model.fit(split.X, split.y), split)


WAYS = {
    "one pass": lambda *a: visited(*a, 1, 1),
    "ten passes": lambda *a: visited(*a, N_PASSES, BATCH),
    "noisy labels": lambda *a: released(*a, False),
    "isotropic": lambda *a: released(*a, True),
    "one-shot": ours,
    "loop": lambda *a: ours(*a, "dp-gd"),
}


def noise_totals(split) -> dict:
    """Return the total variance of both kinds of noise in X^T Y, over s squared.

    That of isotropic noise within the space of the rows; what lies outside is cut off.
    """
    X, _, _, classes = prepared(split)
    lengths = (X.astype(np.float64) ** 2).sum(axis=1)
    k, (n, d) = len(classes), X.shape
    rank = row_space(X).shape[1]
    return {
        "rows": n,
        "columns": d,
        "classes": k,
        "rank": rank,
        "span": float((k - 1) * lengths.sum()),
        "isotropic": float((k - 1) * rank * lengths.max()),
    }


def main(argv: list[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="one set, epsilon and seed"
    )
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(argv)
    for kind in (UtilityWarning, PrivacyWarning):
        warnings.simplefilter("ignore", kind)
    names, epsilons = options.only, EPSILONS
    if options.quick:
        names, epsilons = ["digits"], (3.0,)
    store = Store(options.output or RESULTS / "span_noise.json", {"delta": DELTA})
    for name in names:
        load, n_seeds = SETS[name]
        facts = store.compute(
            f"{name} | noise", lambda load=load: noise_totals(load(0))
        )
        more = facts["span"] / facts["isotropic"]
        print(
            f"{name}: {facts['rows']} x {facts['columns']}, rank {facts['rank']}; "
            f"noise in the span has {more:.3g} times the variance"
        )
        for epsilon in epsilons:
            for way, measure in WAYS.items():
                for seed in range(1 if options.quick else n_seeds):
                    arguments = epsilon, seed
                    store.compute(
                        f"{name} | {epsilon:g} | {way} | {seed}",
                        lambda a=(measure, load, arguments): a[0](a[1](a[2][1]), *a[2]),
                    )
                show(name, epsilon, way, store.cells)
    store.save(rows=table(store.cells))


def runs_of(cells, name, epsilon, way) -> list:
    """Return the scores of all seeds of a cell."""
    start = f"{name} | {epsilon:g} | {way} | "
    return [value for key, value in cells.items() if key.startswith(start)]


def show(name, epsilon, way, cells) -> None:
    """Print the means of a cell."""
    found = mean_scores(runs_of(cells, name, epsilon, way))
    print(
        f"{name:16} {epsilon:4g} {way:13} {found['accuracy']:6.2f} "
        f"{found['log_loss']:7.3f}  {found['n_runs']} seeds",
        flush=True,
    )


def table(cells) -> list[dict]:
    """Return a row for each set, epsilon and way."""
    keys = [key.split(" | ") for key in cells]
    places = dict.fromkeys(tuple(key[:3]) for key in keys if len(key) == 4)
    return [
        {"data": name, "epsilon": float(epsilon), "way": way}
        | mean_scores(runs_of(cells, name, float(epsilon), way))
        for name, epsilon, way in places
    ]


if __name__ == "__main__":
    main()
