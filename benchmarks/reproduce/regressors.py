"""R2 and explained deviance of the regressors against epsilon.

``python regressors.py`` prints, for each data set and budget, the default of
`FeatureDPRegressor` ("replace_one") and of `DPSGDFRegressor` ("replace_special"), one
release of second moments, label-DP with the default and in one release, and
scikit-learn without privacy, and writes them as JSON. ``--quick`` checks that it runs.

Squared error: scores are R2 on held-out rows. Poisson: scores are D2, the share of the
Poisson deviance that the model explains beyond the mean. Seeds make the runs
reproducible: **they are not private fits**.

Real counts: *ink* counts the inked pixels of a 4 x 4 block of a handwritten digit (it
comes with scikit-learn), told from the other 63 blocks. *doctor visits* are the visits
of a person in a year in the RAND Health Insurance Experiment (20,190 records; comes
with statsmodels, and is left out without it).
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib.util
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _common import RESULTS, Split, Store
from sklearn.datasets import load_diabetes, load_digits, make_friedman1, make_regression
from sklearn.linear_model import PoissonRegressor, Ridge
from sklearn.metrics import d2_tweedie_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skfdp import DPSGDFRegressor, FeatureDPRegressor, UtilityWarning

EPSILONS = (0.3, 1.0, 3.0, 8.0)
REPLACED = {"neighboring_relation": "replace_one"}
MODELS = {
    "FeatureDP": (FeatureDPRegressor, REPLACED),
    "DPSGDF": (DPSGDFRegressor, {"neighboring_relation": "replace_special"}),
    "moments": (FeatureDPRegressor, {**REPLACED, "solver": "one-shot"}),
    "label": (FeatureDPRegressor, {**REPLACED, "public_features": "all"}),
    "label, one-shot": (
        FeatureDPRegressor,
        {**REPLACED, "public_features": "all", "solver": "one-shot"},
    ),
}


@dataclasses.dataclass(frozen=True)
class Problem:
    """A named source of splits, its loss, and the declared bounds of the target."""

    name: str
    load: Callable[[], tuple[np.ndarray, np.ndarray]]
    loss: str
    bounds: tuple
    target_bounds: tuple[float, float]

    def split(self, seed: int) -> Split:
        """Return a random split."""
        X, y = self.load()
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=seed)
        return Split(X, y, X_test, y_test, self.bounds)


@functools.cache
def ink() -> tuple[np.ndarray, np.ndarray]:
    """Return the inked pixels of block 28 of each digit, and those of the others."""
    X, _ = load_digits(return_X_y=True)
    return np.delete(X, 28, axis=1), X[:, 28]


@functools.cache
def doctor_visits() -> tuple[np.ndarray, np.ndarray]:
    """Return the RAND Health Insurance Experiment."""
    from statsmodels.datasets import randhie

    data = randhie.load_pandas().data
    return data.drop(columns="mdvis").to_numpy(float), data["mdvis"].to_numpy(float)


@functools.cache
def linear(n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a linear problem whose best R2 is about 0.8, target of spread 1."""
    X, y = make_regression(n_rows, n_features, n_informative=10, random_state=0)
    noise = np.random.default_rng(0).normal(size=n_rows)
    return X, 3 + np.sqrt(0.8) * y / y.std() + np.sqrt(0.2) * noise


@functools.cache
def rates(n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return generated counts of mean 3."""
    rng = np.random.default_rng(n_features)
    X, w = rng.normal(size=(n_rows, n_features)), rng.normal(size=n_features)
    return X, rng.poisson(np.exp(1 + 0.6 * X @ w / np.linalg.norm(w))).astype(float)


VISITS_HIGH = np.array([5, 1, 8, 9, 1, 60, 1, 1, 1.0])
PROBLEMS = [
    Problem(
        "diabetes",
        lambda: load_diabetes(return_X_y=True),
        "squared_error",
        (-0.2, 0.2),
        (0, 400),
    ),
    Problem(
        "linear, 20 columns",
        lambda: linear(7000, 20),
        "squared_error",
        (-4, 4),
        (-1, 7),
    ),
    Problem(
        "the same, loose bounds",
        lambda: linear(7000, 20),
        "squared_error",
        (-20, 20),
        (-50, 50),
    ),
    Problem(
        "linear, 100 columns",
        lambda: linear(7000, 100),
        "squared_error",
        (-4, 4),
        (-1, 7),
    ),
    Problem(
        "friedman",
        lambda: make_friedman1(7000, random_state=0),
        "squared_error",
        (0, 1),
        (0, 40),
    ),
    Problem("rates", lambda: rates(7000, 10), "poisson", (-4, 4), (0, 50)),
    Problem("ink", ink, "poisson", (0, 16), (0, 16)),
    Problem(
        "doctor visits",
        doctor_visits,
        "poisson",
        (0 * VISITS_HIGH, VISITS_HIGH),
        (0, 100),
    ),
]


def score(model, split: Split, problem: Problem) -> float:
    """Return R2, or D2 of the Poisson deviance, of predictions within the bounds."""
    loss = problem.loss
    prediction = np.clip(model.predict(split.X_test), *problem.target_bounds)
    if loss == "squared_error":
        return float(d2_tweedie_score(split.y_test, prediction, power=0))
    return float(d2_tweedie_score(split.y_test, np.maximum(prediction, 1e-6), power=1))


def private_score(problem: Problem, kind: str, epsilon: float, seed: int) -> float:
    """Return the score of one private fit with the defaults."""
    estimator, parameters = MODELS[kind]
    split = problem.split(seed)
    model = estimator(
        epsilon=epsilon,
        loss=problem.loss,
        bounds=problem.bounds,
        target_bounds=problem.target_bounds,
        random_state=seed,
        **parameters,
    )
    return score(model.fit(split.X, split.y), split, problem)


def public_score(problem: Problem, seed: int) -> float:
    """Return the score of scikit-learn without privacy."""
    split = problem.split(seed)
    final = (
        Ridge()
        if problem.loss == "squared_error"
        else PoissonRegressor(alpha=1e-4, max_iter=1000)
    )
    model = make_pipeline(StandardScaler(), final)
    return score(model.fit(split.X, split.y), split, problem)


def runs(n_seeds: int, function: Callable[[int], float]) -> dict:
    """Return mean and standard error over seeds."""
    found = [function(seed) for seed in range(n_seeds)]
    error = np.std(found, ddof=1) / n_seeds**0.5 if n_seeds > 1 else 0.0
    return {"score": float(np.mean(found)), "se": float(error), "n_runs": n_seeds}


def main() -> None:
    """Compute what is missing, print the table, write the file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two sets, one seed")
    parser.add_argument("--output", type=Path, default=RESULTS / "regressors.json")
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    warnings.simplefilter("ignore", UtilityWarning)
    problems, epsilons, n_seeds = PROBLEMS, EPSILONS, given.seeds
    if importlib.util.find_spec("statsmodels") is None:
        problems = [p for p in problems if p.name != "doctor visits"]
    if given.quick:
        problems = [p for p in problems if p.name in ("diabetes", "ink")]
        epsilons, n_seeds = (1.0, 8.0), 1
    store = Store(given.output, {"epsilons": list(epsilons), "seeds": n_seeds})
    print(f"{'':24}{'epsilon':>8}" + "".join(f"{k:>16}" for k in (*MODELS, "sklearn")))
    for problem in problems:
        public = store.compute(
            f"{problem.name} | sklearn",
            lambda p=problem: runs(n_seeds, functools.partial(public_score, p)),
        )
        for epsilon in epsilons:
            line = []
            for kind in MODELS:
                if kind == "moments" and problem.loss == "poisson":
                    line.append(f"{'-':>16}")
                    continue
                cell = store.compute(
                    f"{problem.name} | {epsilon:g} | {kind}",
                    lambda p=problem, k=kind, e=epsilon: runs(
                        n_seeds, functools.partial(private_score, p, k, e)
                    ),
                )
                line.append(f"{cell['score']:16.3f}")
            line.append(f"{public['score']:16.3f}")
            print(f"{problem.name:24}{epsilon:8g}" + "".join(line), flush=True)


if __name__ == "__main__":
    main()
