"""Label-DP by flipped labels, and development tables to compare it on."""

from __future__ import annotations

import numpy as np
from _common import Split
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import SplineTransformer


def flipped(
    y: np.ndarray, prior: np.ndarray, epsilon: float, rng: np.random.Generator
) -> np.ndarray:
    """Return codes of labels by RRWithPrior (Ghazi et al. 2021, arXiv 2102.06062).

    A record answers among its k likeliest classes: the truth, if it is one of them,
    with probability ``e**epsilon / (e**epsilon + k - 1)``, any of the others else; k
    makes the chance of a true answer largest. Under a uniform prior that is Warner's
    randomised response, k being the number of classes.

    Parameters
    ----------
    y : int ndarray of shape (n_rows,)
    prior : ndarray of shape (n_rows, n_classes)
    epsilon : float
    rng : Generator
    """
    n_rows, n_classes = prior.shape
    order = np.argsort(-prior, axis=1, kind="stable")
    ranked = np.take_along_axis(prior, order, axis=1)
    sizes = np.arange(1, n_classes + 1)
    keep = 1 / (1 + (sizes - 1) * np.exp(-epsilon))
    chosen = (keep * np.cumsum(ranked, axis=1) * (1 + 1e-12 * sizes)).argmax(axis=1)
    k, keep = sizes[chosen], keep[chosen]
    rank = (order == y[:, None]).argmax(axis=1)
    anything = (rng.random(n_rows) * k).astype(int)
    other = (rank + 1 + (rng.random(n_rows) * (k - 1)).astype(int)) % k
    told = np.where(rng.random(n_rows) < keep, rank, other)
    told = np.where(rank < k, told, anything)
    return np.take_along_axis(order, told[:, None], axis=1)[:, 0]


def _fit(X: np.ndarray, codes: np.ndarray, n_classes: int, X_test: np.ndarray):
    """Return probabilities of a plain logistic regression for each X of a list."""
    found = np.unique(codes)
    if len(found) == 1:
        return [np.eye(n_classes)[np.full(len(rows), found[0])] for rows in X_test]
    model = LogisticRegression(max_iter=1000).fit(X, codes)
    tables = []
    for rows in X_test:
        table = np.full((len(rows), n_classes), 1e-6)
        table[:, found] = model.predict_proba(rows)
        tables.append(table / table.sum(axis=1, keepdims=True))
    return tables


def warner(split: Split, classes, epsilon: float, seed: int) -> np.ndarray:
    """Return test probabilities from flipped labels, corrected for the flips."""
    X, X_test = split.scaled()
    n_classes, codes = len(classes), np.searchsorted(classes, split.y)
    prior = np.full((len(X), n_classes), 1 / n_classes)
    told = flipped(codes, prior, epsilon, np.random.default_rng([seed, 11]))
    (table,) = _fit(X, told, n_classes, [X_test])
    keep = 1 / (1 + (n_classes - 1) * np.exp(-epsilon))
    flip = (1 - keep) / (n_classes - 1)
    table = np.clip((table - flip) / (keep - flip), 1e-3, 1)
    return table / table.sum(axis=1, keepdims=True)


def with_prior(split: Split, classes, epsilon: float, seed: int) -> np.ndarray:
    """Return test probabilities of LP-2ST: half of the records give the prior."""
    X, X_test = split.scaled()
    n_classes, codes = len(classes), np.searchsorted(classes, split.y)
    rng = np.random.default_rng([seed, 12])
    order = rng.permutation(len(X))
    first, second = np.array_split(order, 2)
    uniform = np.full((len(first), n_classes), 1 / n_classes)
    told = np.empty_like(codes)
    told[first] = flipped(codes[first], uniform, epsilon, rng)
    (prior,) = _fit(X[first], told[first], n_classes, [X[second]])
    told[second] = flipped(codes[second], prior, epsilon, rng)
    (table,) = _fit(X, told, n_classes, [X_test])
    table = np.clip(table, 1e-3, 1)
    return table / table.sum(axis=1, keepdims=True)


def hats(split: Split, n_numbers: int) -> Split:
    """Return a split with degree-1 splines of its first columns, on 8 even steps."""
    low, high = split.bounds

    def mapped(X: np.ndarray) -> np.ndarray:
        parts = []
        for j in range(n_numbers):
            knots = np.linspace(low[j], high[j], 9)[:, None]
            spline = SplineTransformer(degree=1, knots=knots).fit(knots)
            parts.append(spline.transform(np.clip(X[:, [j]], low[j], high[j])))
        return np.hstack([*parts, X[:, n_numbers:]])

    return Split(mapped(split.X), split.y, mapped(split.X_test), split.y_test, (0, 1))


def rare_split(seed: int, n_rows: int = 3000, n_test: int = 10_000) -> Split:
    """Return a table with 3 % positives."""
    rng = np.random.default_rng([seed, 5])
    X = rng.normal(size=(n_rows + n_test, 6))
    margins = X @ [1.0, 0.5, 0.0, 0.0, 0.3, 0.0] - 4.1
    y = (margins + rng.logistic(size=len(X)) > 0).astype(int)
    return Split(X[n_test:], y[n_test:], X[:n_test], y[:n_test], (-4, 4))


def heavy_split(seed: int, n_rows: int = 5000, n_test: int = 10_000) -> Split:
    """Return a table with log-normal columns and loose bounds."""
    rng = np.random.default_rng([seed, 6])
    X = np.exp(1.2 * rng.normal(size=(n_rows + n_test, 12)))
    margins = np.log(X[:, :5]) @ [1.0, -0.8, 0.6, 0.4, -0.6] + 0.2 * X[:, 0] - 0.5
    y = (margins + rng.logistic(size=len(X)) > 0).astype(int)
    return Split(X[n_test:], y[n_test:], X[:n_test], y[:n_test], (0, 100))


def curved_split(seed: int, n_rows: int = 4000, n_test: int = 10_000) -> Split:
    """Return three classes with curved borders, and the squares of the columns."""
    rng = np.random.default_rng([seed, 7])
    X = rng.uniform(-1, 1, size=(n_rows + n_test, 8))
    first = 3 * X[:, 0] ** 2 + 2 * X[:, 1] * X[:, 2] + 2 * X[:, 3] - X[:, 4] - 1
    margins = np.c_[first, 2 * X[:, 1] - X[:, 5], np.zeros(len(X))]
    y = (margins + rng.gumbel(size=margins.shape)).argmax(axis=1)
    X = np.hstack([X, X**2])
    return Split(X[n_test:], y[n_test:], X[:n_test], y[:n_test], (-1, 1))
