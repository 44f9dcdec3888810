"""Which files of the package one fit enters; run by ``structure.py --trace``.

    PYTHONPATH=checkout python benchmarks/_entered.py checkout/skfdp

Prints JSON: for each fit the files whose functions were entered, and the functions that
were handed an estimator of the package as an argument, whatever its name. Each fit
is the second of its process, so that imports and first compilations do not count, and
has another epsilon than the first, so that no plan is remembered. Other threads than
the first are not watched.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.naive_bayes import GaussianNB

import skfdp

SOME = {"bounds": (0, 1), "public_features": [0, 1]}
LOOP = {"bounds": (0, 1), "max_iter": 3}


def _search(epsilon: float):
    inner = skfdp.FeatureDPLogisticRegression(
        **LOOP, neighboring_relation="replace_one"
    )
    grid = {"clip_norm": [0.3, 1.0]}
    return skfdp.PrivateSearchCV(inner, grid, epsilon=epsilon, mean_runs=3.0)


#: From a name to what makes the estimator for an epsilon.
FITS = {
    "FeatureDPLogisticRegression, private target": lambda epsilon: (
        skfdp.FeatureDPLogisticRegression(
            epsilon, **LOOP, public_features=[0, 1], neighboring_relation="replace_one"
        )
    ),
    "FeatureDPLogisticRegression, public target": lambda epsilon: (
        skfdp.FeatureDPLogisticRegression(
            epsilon,
            **LOOP,
            public_features=[0, 1],
            public_target=True,
            neighboring_relation="replace_one",
        )
    ),
    "FeatureDPLogisticRegression, label-DP": lambda epsilon: (
        skfdp.FeatureDPLogisticRegression(
            epsilon,
            bounds=(0, 1),
            public_features="all",
            neighboring_relation="replace_one",
        )
    ),
    "DPSGDFClassifier": lambda epsilon: skfdp.DPSGDFClassifier(
        epsilon, **LOOP, neighboring_relation="replace_special"
    ),
    "DPSGDFClassifier, Poisson batches": lambda epsilon: skfdp.DPSGDFClassifier(
        epsilon, **LOOP, batch_size=40, neighboring_relation="replace_special"
    ),
    "FeatureDPRegressor": lambda epsilon: skfdp.FeatureDPRegressor(
        epsilon, **LOOP, target_bounds=(0, 1), neighboring_relation="replace_one"
    ),
    "FeatureDPMLPClassifier": lambda epsilon: skfdp.FeatureDPMLPClassifier(
        epsilon,
        **LOOP,
        hidden_layer_sizes=(8,),
        public_features=[0, 1],
        public_target=True,
        neighboring_relation="replace_one",
    ),
    "PrivateCenteringTransformer": lambda epsilon: skfdp.PrivateCenteringTransformer(
        epsilon, **SOME, neighboring_relation="replace_special"
    ),
    "PrivateCompletionClassifier": lambda epsilon: skfdp.PrivateCompletionClassifier(
        GaussianNB(),
        epsilon=epsilon,
        **SOME,
        n_draws=2,
        neighboring_relation="replace_one",
    ),
    "PrivateSearchCV": _search,
}


def table() -> tuple[np.ndarray, np.ndarray]:
    """Return 150 rows within [0, 1] and two classes."""
    rng = np.random.default_rng(0)
    X = rng.random((150, 6))
    return X, (X[:, 0] + X[:, 3] + 0.2 * rng.random(150) > 1.1).astype(int)


class Watch:
    """Notes the code of the package that is entered, and who is handed an estimator."""

    def __init__(self, root: Path):
        self._root = f"{root}/"
        self.files: set[str] = set()
        self.handed: set[str] = set()

    def __call__(self, frame, event: str, _) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(self._root):
            return
        if code.co_name == "<module>":
            return
        file = code.co_filename.removeprefix(self._root)
        self.files.add(file)
        n_named = code.co_argcount + code.co_kwonlyargcount
        for name in code.co_varnames[:n_named]:
            value = frame.f_locals.get(name)
            if name == "self" or not isinstance(value, BaseEstimator):
                continue
            if type(value).__module__.partition(".")[0] == "skfdp":
                self.handed.add(f"{file} {code.co_qualname}({name})")


def watched(make, root: Path) -> dict[str, list[str]]:
    """Fit twice; return what the second fit entered."""
    X, y = table()
    make(2.0).fit(X, y)
    model, watch = make(2.5), Watch(root)
    sys.setprofile(watch)
    try:
        model.fit(X, y)
    finally:
        sys.setprofile(None)
    if not watch.files:
        raise SystemExit("No file was entered: is the path spelt differently?")
    return {"files": sorted(watch.files), "handed": sorted(watch.handed)}


def main() -> None:
    root = Path(skfdp.__file__).resolve().parent
    if root != Path(sys.argv[1]).resolve():
        raise SystemExit(f"{root} was imported, and not {sys.argv[1]}")
    warnings.simplefilter("ignore")
    found = {name: watched(make, root) for name, make in FITS.items()}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
