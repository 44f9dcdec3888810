"""Raw tables: numbers with bounds, categories with levels, two tasks.

Bounds are what a careful person declares without the records: ranges of a published
description, or round numbers around what a unit allows. All methods get the same ones.
Answers "yes" and "no" and codes without an order are categories.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
import pandas as pd
from _common import missing
from _data import load_adult
from sklearn import datasets as bundled
from sklearn.model_selection import train_test_split

TASKS = ("classification", "regression")


@dataclasses.dataclass(frozen=True)
class Raw:
    """Training and test rows of a table, and what is declared."""

    X: pd.DataFrame  # columns in `bounds` hold numbers, those in `categories` strings
    y: np.ndarray  # labels 0 and 1, or targets within `target_bounds`
    X_test: pd.DataFrame
    y_test: np.ndarray
    bounds: dict
    categories: dict
    target_bounds: tuple[float, float] = (0.0, 1.0)

    def clipped(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return both X with numbers cut to their bounds."""
        low, high = zip(*self.bounds.values(), strict=True)
        names = list(self.bounds)
        return tuple(
            X.assign(**X[names].clip(low, high, axis=1)) for X in (self.X, self.X_test)
        )


@dataclasses.dataclass(frozen=True)
class Table:
    """A named source of splits."""

    name: str
    task: str  # one of `TASKS`
    load: Callable[[int], Raw]  # of a seed
    delta: float = 1e-5
    source: str = ""  # a package or a data set that may be absent

    def missing(self) -> str | None:
        """Return why this table cannot be loaded here, or None."""
        return missing(self.source, lambda: self.load(0))


N_TEST = 5000


@functools.cache
def whole_adult() -> Raw:
    """Return the published training and test rows of Adult."""
    train, test = load_adult("train"), load_adult("test")
    y, y_test = ((part.target == ">50K").to_numpy(int) for part in (train, test))
    return Raw(train.data, y, test.data, y_test, train.bounds, train.categories)


def adult(n_rows: int, seed: int) -> Raw:
    """Return training rows and `N_TEST` test rows, drawn by the seed.

    At full size all rows of both: the runs differ in the noise alone.
    """
    raw = whole_adult()
    if n_rows >= len(raw.X):
        return raw
    rng = np.random.default_rng([seed, n_rows])
    rows = rng.permutation(len(raw.X))[:n_rows]
    tests = rng.permutation(len(raw.X_test))[:N_TEST]
    parts = raw.X.iloc[rows], raw.y[rows], raw.X_test.iloc[tests], raw.y_test[tests]
    return Raw(*parts, raw.bounds, raw.categories)


def bundled_classes(name: str, seed: int) -> Raw:
    """Return two classes, the first against the rest.

    The bounds are the ranges that the published descriptions state.
    """
    X, y = getattr(bundled, f"load_{name}")(return_X_y=True, as_frame=True)
    bounds = {c: (X[c].min(), X[c].max()) for c in X}
    y = (y == 0).to_numpy(int)
    X, X_test, y, y_test = train_test_split(
        X, y, test_size=0.3, random_state=seed, stratify=y
    )
    return Raw(X, y, X_test, y_test, bounds, {})
