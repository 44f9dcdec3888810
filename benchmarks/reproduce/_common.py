"""What the scripts of this folder share: data, scores, and results that resume."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import importlib.util
import json
import os
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
from _data import load_adult, load_images
from sklearn import datasets as bundled
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import OneHotEncoder

RESULTS = Path(__file__).resolve().parents[1] / "results"


@dataclasses.dataclass(frozen=True)
class Split:
    """Training and test rows, and the declared bounds of the columns."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    bounds: tuple | bool

    def scaled(self) -> tuple[np.ndarray, np.ndarray]:
        """Return both X with columns in [0, 1], for estimators without bounds."""
        if self.bounds is False:
            centre, spread = self.X.mean(axis=0), self.X.std(axis=0)
            return (self.X - centre) / spread, (self.X_test - centre) / spread
        low, high = self.bounds
        return tuple(np.clip((X - low) / (high - low), 0, 1) for X in self._both)

    @property
    def _both(self) -> tuple[np.ndarray, np.ndarray]:
        return self.X.astype(np.float64), self.X_test.astype(np.float64)


def missing(source: str, load: Callable[[], object]) -> str | None:
    """Return why what comes with a package, or from a file, is not here, or None."""
    if source == "statsmodels":
        found = importlib.util.find_spec("statsmodels")
        return None if found else "pip install statsmodels"
    if source:
        try:
            load()
        except (OSError, ImportError) as error:
            return f"not found in SKFDP_DATA, nor downloaded ({error})"
    return None


@functools.cache
def images(name: str, subset: str, pooled: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return pixels in [0, 255] and labels; `pooled` averages 2 x 2 pixels."""
    X, y = load_images({"fashion": "fashion-mnist"}.get(name, name), subset)
    if pooled:
        X = X.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196)
    return X, y


def image_split(name: str, n_rows: int, pooled: bool, seed: int) -> Split:
    """Return `n_rows` training images, drawn by the seed, and the 10,000 for tests."""
    X, y = images(name, "train", pooled)
    if n_rows < len(X):
        rows = np.random.default_rng([seed, n_rows]).permutation(len(X))[:n_rows]
        X, y = X[rows], y[rows]
    return Split(X, y, *images(name, "test", pooled), bounds=(0, 255))


@functools.cache
def adult() -> Split:
    """Return Adult in one-hot columns over the declared categories."""
    train, test = load_adult("train"), load_adult("test")
    bounds, categories = train.bounds, train.categories
    encoder = OneHotEncoder(categories=list(categories.values()), sparse_output=False)
    encoder.fit(train.data[list(categories)])

    def table(data) -> np.ndarray:
        numbers = data[list(bounds)].to_numpy(dtype=np.float64)
        return np.hstack([numbers, encoder.transform(data[list(categories)])])

    X, X_test = table(train.data), table(test.data)
    n_one_hot = X.shape[1] - len(bounds)
    low = np.r_[[pair[0] for pair in bounds.values()], np.zeros(n_one_hot)]
    high = np.r_[[pair[1] for pair in bounds.values()], np.ones(n_one_hot)]
    return Split(
        X, train.target.to_numpy(), X_test, test.target.to_numpy(), (low, high)
    )


def bundled_split(name: str, seed: int) -> Split:
    """Return a random split of a data set that comes with scikit-learn.

    The bounds are the ranges that its published description states.
    """
    X, y = getattr(bundled, f"load_{name}")(return_X_y=True)
    bounds = (0, 16) if name == "digits" else (X.min(axis=0), X.max(axis=0))
    return _random_split(X, y, bounds, seed, test_size=0.3)


def _random_split(X, y, bounds, seed: int, test_size) -> Split:
    X, X_test, y, y_test = train_test_split(
        X, y, test_size=test_size, stratify=y, random_state=seed
    )
    return Split(X, y, X_test, y_test, bounds)


def scores(model, split: Split) -> dict[str, float]:
    """Return accuracy (percent) and log-loss of a fitted classifier."""
    return table_scores(model.predict_proba(split.X_test), model.classes_, split.y_test)


def table_scores(probabilities, classes, y) -> dict[str, float]:
    """Return accuracy (percent) and log-loss of a table of probabilities."""
    predicted = np.asarray(classes)[probabilities.argmax(axis=1)]
    return {
        "accuracy": 100 * float(accuracy_score(y, predicted)),
        "log_loss": float(log_loss(y, probabilities, labels=classes)),
    }


def mean_scores(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return means over runs, with the standard error of the accuracy."""
    accuracy = [run["accuracy"] for run in runs]
    error = np.std(accuracy, ddof=1) / len(runs) ** 0.5 if len(runs) > 1 else None
    return {
        "accuracy": float(np.mean(accuracy)),
        "accuracy_se": None if error is None else float(error),
        "log_loss": float(np.mean([run["log_loss"] for run in runs])),
        "n_runs": len(runs),
    }


def trees(numbers: bool, **settings):
    """Return boosted trees that stop where they are told to."""
    kind = HistGradientBoostingRegressor if numbers else HistGradientBoostingClassifier
    return kind(early_stopping=False, min_samples_leaf=50, **settings)


def searched(numbers: bool, **settings) -> GridSearchCV:
    """Return boosted trees whose leaves and number cross-validation chooses.

    Targets may be random: the search is then without bias and costs no privacy.
    """
    grid = {"max_leaf_nodes": (3, 8), "max_iter": (10, 25, 60, 150)}
    scoring = "r2" if numbers else "neg_log_loss"
    return GridSearchCV(trees(numbers, **settings), grid, scoring=scoring, cv=4)


def about() -> dict:
    """Return what a reader needs to judge or repeat a run."""
    packages = ("skfdp", "scikit-learn", "numpy", "scipy", "numba", "dp-accounting")
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version()}
        | {package: _version(package) for package in packages},
        "machine": {
            "system": platform.system(),
            "architecture": platform.machine(),
            "cores": os.cpu_count(),
        },
    }


def _version(package: str) -> str | None:
    if package == "skfdp":
        from skfdp import __version__

        return __version__
    return version(package)


class Store:
    """A JSON file that is rewritten after each entry, so that a run can resume.

    Entries depend on `config`; a file of another configuration is started anew.
    """

    def __init__(self, path: str | Path, config: dict):
        self.path = Path(path)
        self.content = {"config": config, "cells": {}}
        if self.path.exists():
            old = json.loads(self.path.read_text(encoding="utf-8"))
            if old.get("config") == json.loads(json.dumps(config)):
                self.content = old
        self.cells = self.content["cells"]

    def compute(self, key: str, function: Callable[[], object]):
        """Return the entry of this key, computed and saved where it is missing."""
        if key not in self.cells:
            self.cells[key] = function()
            self.save()
        return self.cells[key]

    def save(self, **more) -> None:
        """Write the file, whole or not at all."""
        self.content |= about() | more
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        part.write_text(_in_lines(self.content), encoding="utf-8")
        part.replace(self.path)


def _in_lines(content: dict) -> str:
    """Return JSON with a line for each entry of the second level, for small diffs."""
    dump = functools.partial(json.dumps, sort_keys=True, allow_nan=False)
    parts = []
    for key, value in sorted(content.items()):
        if isinstance(value, dict) and value:
            lines = (f"  {dump(k)}: {dump(v)}" for k, v in sorted(value.items()))
            text = "{\n" + ",\n".join(lines) + "\n }"
        elif isinstance(value, list) and value:
            text = "[\n" + ",\n".join(f"  {dump(v)}" for v in value) + "\n ]"
        else:
            text = dump(value)
        parts.append(f" {dump(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
