"""What public parts are worth to regressors, by R2 and D2 against epsilon.

``python regressors_public.py`` prints, for each table and budget, the default of
`FeatureDPRegressor` ("replace_one") with nothing public, with public columns, with a
public target and with both, beside scikit-learn on the public columns alone and on all,
and writes them as JSON. 0 is the exact mean. ``--aside`` takes the tables of which no
result was looked at while the rules were chosen. Run it in two checkouts to compare
them: splits are equal. Seeds make the runs reproducible: **they are not private fits**.
"""

from __future__ import annotations

import argparse
import dataclasses
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _common import RESULTS, Store
from sklearn.datasets import load_diabetes
from sklearn.linear_model import PoissonRegressor, RidgeCV
from sklearn.metrics import d2_tweedie_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skfdp import FeatureDPRegressor, PrivacyWarning, UtilityWarning

EPSILONS = (0.1, 0.3, 1.0, 3.0, 8.0, 100.0)
SPLITS = ("nothing", "columns", "target", "both")


@dataclasses.dataclass(frozen=True)
class Table:
    """A table: generated, unless n_rows is 0.

    Attributes
    ----------
    n_rows : int
        For training; 4,000 more are for tests. 0: diabetes.
    n_private, n_public : int
    share : float
        Of the private columns in the signal.
    common : float
        Correlation of two columns.
    skewed : bool
        Exponential errors to the power 1.5; of counts: gamma mixtures.
    mean : float
        Of counts; 0: a numeric target of spread 2 around 10.
    high : float
        Upper bound of the target.
    """

    n_rows: int
    n_private: int = 5
    n_public: int = 5
    share: float = 0.4
    common: float = 0.2
    skewed: bool = False
    mean: float = 0.0
    high: float = 60.0

    @property
    def loss(self) -> str:
        """Loss of the regressors."""
        return "poisson" if self.mean else "squared_error"

    def split(self, seed: int) -> tuple:
        """Return X, X_test, y, y_test, and the declared bounds."""
        if not self.n_rows:
            X, y = load_diabetes(return_X_y=True)
            X = np.roll(X, -3, axis=1)  # age, sex and BMI last
            found = train_test_split(X, y, test_size=0.3, random_state=seed)
            return *found, (-0.2, 0.2), (0, 400)
        n, width = self.n_rows + 4000, self.n_private + self.n_public
        weights = np.random.default_rng(width).normal(size=width)
        rng = np.random.default_rng([seed, width, self.n_rows])
        X = np.sqrt(1 - self.common) * rng.normal(size=(n, width))
        X += np.sqrt(self.common) * rng.normal(size=(n, 1))
        private = slice(self.n_private)
        ours, theirs = X[:, private] @ weights[private], X @ weights
        theirs = theirs - ours
        signal = np.sqrt(self.share) * ours / ours.std()
        signal += np.sqrt(1 - self.share) * theirs / theirs.std()
        if self.mean:
            rate = self.mean * np.exp(0.6 * signal - 0.18)
            y = rng.poisson(rate * (rng.gamma(1.0, 1.0, n) if self.skewed else 1.0))
            low = 0
        else:
            error = (
                rng.exponential(size=n) ** 1.5 if self.skewed else rng.normal(size=n)
            )
            y, low = 10 + 2 * (signal + (error - error.mean()) / error.std()), -20
        found = train_test_split(X, y.astype(float), test_size=4000, random_state=seed)
        return *found, (-4, 4), (low, self.high)

    def public(self) -> np.ndarray:
        """Return the mask of the public columns."""
        width = self.n_private + self.n_public if self.n_rows else 10
        return np.arange(width) >= (self.n_private if self.n_rows else 7)


TABLES = {
    "diabetes": Table(0),
    "few private": Table(2000, 3, 20),
    "skewed": Table(2000, 5, 10, share=0.3, skewed=True),
    "correlated": Table(1000, 10, 10, share=0.3, common=0.6),
    "private noise": Table(1000, 6, 6, share=0.0),
    "counts": Table(3000, share=0.5, skewed=True, mean=3, high=1000),
}
ASIDE = {
    "one private": Table(1500, 1, 8, share=0.5),
    "many private": Table(4000, 40, 5, share=0.7),
    "skewed, loose bounds": Table(3000, 8, 4, skewed=True, high=1000),
    "strongly correlated": Table(2000, 6, 12, share=0.2, common=0.8),
    "rare counts": Table(5000, 4, 8, share=0.3, mean=0.3, high=100),
    "large counts": Table(1500, 6, 3, share=0.6, skewed=True, mean=40, high=5000),
}


def score(loss: str, y: np.ndarray, prediction: np.ndarray) -> float:
    """Return R2, or D2 of the Poisson deviance."""
    if loss == "squared_error":
        return float(d2_tweedie_score(y, prediction, power=0))
    return float(d2_tweedie_score(y, np.maximum(prediction, 1e-6), power=1))


def private_score(table: Table, public: str, epsilon: float, seed: int) -> float:
    """Return the score of one private fit with the defaults."""
    X, X_test, y, y_test, bounds, target_bounds = table.split(seed)
    columns = table.public() if public in ("columns", "both") else None
    model = FeatureDPRegressor(
        epsilon,
        loss=table.loss,
        bounds=bounds,
        target_bounds=target_bounds,
        public_features=columns,
        public_target=public in ("target", "both"),
        random_state=seed,
        neighboring_relation="replace_one",
    )
    return score(table.loss, y_test, model.fit(X, y).predict(X_test))


def free_score(table: Table, columns: np.ndarray, seed: int) -> float:
    """Return the score of scikit-learn on some columns."""
    X, X_test, y, y_test, *_ = table.split(seed)
    model = RidgeCV(10.0 ** np.arange(-1, 5))
    if table.mean:
        model = PoissonRegressor(alpha=10 / len(X), max_iter=1000)
    model = make_pipeline(StandardScaler(), model).fit(X[:, columns], y)
    return score(table.loss, y_test, model.predict(X_test[:, columns]))


def runs(n_seeds: int, function: Callable[[int], float]) -> list[float]:
    """Return the scores of the seeds, so that two files can be compared in pairs."""
    return [round(function(seed), 4) for seed in range(n_seeds)]


def main() -> None:
    """Compute what is missing, print the table, write the file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one table, one seed")
    parser.add_argument("--aside", action="store_true", help="the other half")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    given = parser.parse_args()
    for kind in (UtilityWarning, PrivacyWarning):
        warnings.simplefilter("ignore", kind)
    tables, epsilons, n_seeds = TABLES, EPSILONS, given.seeds
    name = "regressors_public.json"
    if given.aside:
        tables, name = ASIDE, "regressors_public_aside.json"
    if given.quick:
        tables, epsilons, n_seeds = {"diabetes": TABLES["diabetes"]}, (1.0,), 1
    config = {"epsilons": list(epsilons), "seeds": n_seeds, "aside": given.aside}
    store = Store(given.output or RESULTS / name, config)
    print(f"{'':24}{'public':8}" + "".join(f"{epsilon:9g}" for epsilon in epsilons))
    for name, table in tables.items():
        for kind, columns in (("both", table.public()), ("all", table.public() | True)):
            cell = store.compute(
                f"{name} | sklearn | {kind}",
                lambda t=table, c=columns: runs(
                    n_seeds, lambda seed: free_score(t, c, seed)
                ),
            )
            label = "public columns" if kind == "both" else "all columns"
            print(f"{name:24}{'':8}{np.mean(cell):9.3f}  scikit-learn, {label}")
        for public in SPLITS:
            line = []
            for epsilon in epsilons:
                cell = store.compute(
                    f"{name} | {epsilon:g} | {public}",
                    lambda t=table, p=public, e=epsilon: runs(
                        n_seeds, lambda seed: private_score(t, p, e, seed)
                    ),
                )
                line.append(f"{np.mean(cell):9.3f}")
            print(f"{name:24}{public:8}" + "".join(line), flush=True)


if __name__ == "__main__":
    main()
