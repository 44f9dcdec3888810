"""Descent against AdaSSP, and what public columns and targets are worth.

``python regression.py`` prints R2 on held-out rows for each table of the half "dev" and
each budget, and writes it as JSON; ``--half aside`` does so for the half that was put
aside before anything was run; ``--table`` prints both halves from the JSON. ``--quick``
checks that it runs. R2 is 1 minus the squared error over that of the mean of the
training rows. Seeds make the runs reproducible: **they are not private fits**.

Models, all under "replace_one" and delta 1e-5, in Gaussian-DP accounting:

* *mean*: the mean of the target, which the whole budget buys, and nothing else;
* *AdaSSP*: Wang (2018), https://arxiv.org/abs/1803.02596, as written below;
* *descent*: the default of `FeatureDPRegressor`; with "2/3" so many of the columns are
  public, and with "+ y" the target is, too;
* *sklearn*: `LinearRegression`, no privacy.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib.util
import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _common import RESULTS, Split, Store
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split

from skfdp import FeatureDPRegressor, PrivacyWarning, UtilityWarning
from skfdp.privacy import gdp_mu

EPSILONS, DELTA = (0.1, 0.3, 1.0, 3.0, 8.0, 1e6), 1e-5
#: The half put aside, by name; fixed before the first run.
ASIDE = frozenset(
    {
        *("plain, 5000 x 30", "plain, 500 x 5", "heavy tails, 20000 x 15"),
        *("curved, 1000 x 10", "factors, 10000 x 40", "strong and one-hot, 8000"),
        *("loose bounds, 1000 x 6", "star98 math", "randhie visits"),
    }
)


@dataclasses.dataclass(frozen=True)
class Table:
    """A named table, its declared bounds, and who needs statsmodels."""

    name: str
    #: Returns X, y, bounds of the columns and of the target. Columns are declared
    #: public from the right.
    load: Callable[[], tuple]
    statsmodels: bool = False


def plain(n_rows: int, width: int) -> tuple:
    """Return independent normal columns, R2 of .7."""
    rng = np.random.default_rng([n_rows, width])
    X, w = rng.normal(size=(n_rows, width)), rng.normal(size=width)
    y = X @ w / np.linalg.norm(w) * 0.7**0.5 + 0.3**0.5 * rng.normal(size=n_rows)
    return X, 10 + 2 * y, (-4, 4), (0, 20)


def heavy_tails(n_rows: int, width: int) -> tuple:
    """Return lognormal columns and errors with heavy tails, R2 of .6 about."""
    rng = np.random.default_rng([n_rows, width])
    mixed = np.eye(width) + 0.4 * rng.normal(size=(width, width)) / width**0.5
    X = np.exp(0.7 * rng.normal(size=(n_rows, width)) @ mixed)
    y = X @ rng.normal(size=width)
    y = y / y.std() + 0.6 * rng.standard_t(4, size=n_rows)
    return X, y, (0, 20), (-10, 10)


def curved(n_rows: int, width: int) -> tuple:
    """Return uniform columns of which three act, two of them not in straight lines."""
    rng = np.random.default_rng([n_rows, width])
    X = rng.random((n_rows, width))
    y = 2 * X[:, 0] + np.sin(4 * X[:, 1]) + 3 * (X[:, -1] - 0.6) ** 2
    return X, y + 0.3 * rng.normal(size=n_rows), (0, 1), (-2, 5)


def factors(n_rows: int, width: int) -> tuple:
    """Return columns that are nearly functions of four hidden numbers."""
    rng = np.random.default_rng([n_rows, width])
    hidden, loads = rng.normal(size=(n_rows, 4)), rng.normal(size=(4, width))
    X = hidden @ loads + 0.5 * rng.normal(size=(n_rows, width))
    y = hidden @ [1.0, -0.5, 0.3, 0.2] + 0.2 * X[:, 0] + 0.5 * rng.normal(size=n_rows)
    return X, y, (-8, 8), (-6, 6)


def strong_and_one_hot(n_rows: int) -> tuple:
    """Return four strong numbers, then six categories of five values."""
    rng = np.random.default_rng(n_rows)
    numbers = rng.normal(size=(n_rows, 4))
    codes = rng.integers(0, 5, size=(n_rows, 6))
    hot = (codes[:, :, None] == np.arange(5)).reshape(n_rows, 30).astype(float)
    y = numbers @ [1.0, 0.8, -0.6, 0.5] + hot @ rng.normal(size=30) * 0.3
    low, high = np.r_[np.full(4, -4.0), np.zeros(30)], np.r_[np.full(4, 4), np.ones(30)]
    X = np.hstack([numbers, hot])
    return X, 20 + y + rng.normal(size=n_rows), (low, high), (10, 30)


def loose_bounds(n_rows: int, width: int) -> tuple:
    """Return a plain table whose bounds are six times as wide as need be."""
    X, y, _, _ = plain(n_rows, width)
    return X, y, (-24, 24), (-50, 70)


def diabetes() -> tuple:
    """Return the table of scikit-learn."""
    return *load_diabetes(return_X_y=True), (-0.2, 0.2), (0, 400)


def survey(name: str, target: str, columns: dict, bounds: tuple) -> tuple:
    """Return columns and a target of statsmodels, within declared bounds."""
    import statsmodels.datasets as source

    data = getattr(source, name).load_pandas().data
    low, high = np.array(list(columns.values()), dtype=float).T
    y = data[target].to_numpy(float)
    return data[list(columns)].to_numpy(float), y, (low, high), bounds


ANES = {
    "TVnews": (0, 7),
    "selfLR": (1, 7),
    "ClinLR": (1, 7),
    "DoleLR": (1, 7),
    "PID": (0, 6),
    "vote": (0, 1),
    "logpopul": (-3, 10),
    "age": (18, 100),
    "educ": (1, 7),
}
FAIR = {
    "rate_marriage": (1, 5),
    "religious": (1, 4),
    "educ": (9, 20),
    "occupation": (1, 6),
    "occupation_husb": (1, 6),
    "children": (0, 5.5),
    "age": (17.5, 42),
}
VISITS = {
    "lncoins": (0, 5),
    "idp": (0, 1),
    "lpi": (0, 8),
    "fmde": (0, 9),
    "physlm": (0, 1),
    "disea": (0, 60),
    "hlthg": (0, 1),
    "hlthf": (0, 1),
    "hlthp": (0, 1),
}


def star98() -> tuple:
    """Return the share of students above the national median in a county."""
    import statsmodels.datasets as source

    data = source.star98.load_pandas().data
    columns = {
        **dict.fromkeys(
            ("LOWINC", "PERASIAN", "PERBLACK", "PERHISP", "PERMINTE"), (0, 100)
        ),
        "AVYRSEXP": (0, 30),
        "PTRATIO": (0, 40),
        **dict.fromkeys(("PCTAF", "PCTCHRT", "PCTYRRND"), (0, 100)),
    }
    share = 100 * data["NABOVE"] / (data["NABOVE"] + data["NBELOW"])
    low, high = np.array(list(columns.values()), dtype=float).T
    X = data[list(columns)].to_numpy(float)
    return X, share.to_numpy(float), (low, high), (0, 100)


TABLES = [
    Table("diabetes", diabetes),
    Table("plain, 1000 x 10", lambda: plain(1000, 10)),
    Table("plain, 5000 x 30", lambda: plain(5000, 30)),
    Table("plain, 500 x 5", lambda: plain(500, 5)),
    Table("heavy tails, 2000 x 8", lambda: heavy_tails(2000, 8)),
    Table("heavy tails, 20000 x 15", lambda: heavy_tails(20000, 15)),
    Table("curved, 7000 x 10", lambda: curved(7000, 10)),
    Table("curved, 1000 x 10", lambda: curved(1000, 10)),
    Table("factors, 3000 x 20", lambda: factors(3000, 20)),
    Table("factors, 10000 x 40", lambda: factors(10000, 40)),
    Table("strong and one-hot, 2000", lambda: strong_and_one_hot(2000)),
    Table("strong and one-hot, 8000", lambda: strong_and_one_hot(8000)),
    Table("loose bounds, 5000 x 10", lambda: loose_bounds(5000, 10)),
    Table("loose bounds, 1000 x 6", lambda: loose_bounds(1000, 6)),
    Table("anes96 income", lambda: survey("anes96", "income", ANES, (1, 24)), True),
    Table("star98 math", star98, True),
    Table(
        "fair years married",
        lambda: survey("fair", "yrs_married", FAIR, (0.5, 23)),
        True,
    ),
    Table("randhie visits", lambda: survey("randhie", "mdvis", VISITS, (0, 100)), True),
]


class AdaSSP:
    """Wang (2018), algorithm 2, with the noise of the Gaussian mechanism in thirds.

    Rows within bounds go to a ball of radius 1, a constant included, and the target to
    [-1, 1]. A third of ``mu**2`` each buys the smallest eigenvalue (a replaced record
    moves it by at most 1), ``sum x x'`` (by sqrt(2)) and ``sum x y`` (by 2). The
    penalty is what the noise of the matrix exceeds with probability .05, less the
    eigenvalue.
    """

    def __init__(self, epsilon, bounds, target_bounds, seed):
        self.std = math.sqrt(3) / gdp_mu(epsilon, DELTA)
        self.bounds, self.target_bounds = bounds, target_bounds
        self.rng = np.random.default_rng(seed)

    def _rows(self, X):
        low, high = (np.asarray(side, float) for side in self.bounds)
        X = np.clip((X - (low + high) / 2) / ((high - low) / 2), -1, 1)
        X = np.column_stack([X, np.ones(len(X))])
        return X / math.sqrt(X.shape[1])

    def fit(self, X, y):
        low, high = self.target_bounds
        rows = self._rows(X)
        y = np.clip((y - (low + high) / 2) / ((high - low) / 2), -1, 1)
        d, rng = rows.shape[1], self.rng
        gram = rows.T @ rows
        least = np.linalg.eigvalsh(gram)[0] + self.std * (rng.normal() - 1.96)
        std = math.sqrt(2) * self.std
        noise = np.triu(rng.normal(size=(d, d)) * std)
        noise = noise + np.triu(noise, 1).T
        cross = rows.T @ y + 2 * self.std * rng.normal(size=d)
        most = std * math.sqrt(d * math.log(2 * d * d / 0.05))
        penalty = max(0.0, most - max(0.0, least))
        matrix = gram + noise + penalty * np.eye(d)
        self.weights = np.linalg.lstsq(matrix, cross, rcond=None)[0]
        return self

    def predict(self, X):
        low, high = self.target_bounds
        return (low + high) / 2 + (high - low) / 2 * (self._rows(X) @ self.weights)


class Mean:
    """The mean of the target, by the whole budget."""

    def __init__(self, epsilon, target_bounds, seed):
        self.epsilon, self.target_bounds, self.seed = epsilon, target_bounds, seed

    def fit(self, X, y):
        low, high = self.target_bounds
        std = (high - low) / gdp_mu(self.epsilon, DELTA) / len(y)
        noise = std * np.random.default_rng(self.seed).normal()
        self.mean = np.clip(np.clip(y, low, high).mean() + noise, low, high)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean)


def skfdp_model(public: float = 0.0, target: bool = False):
    """Return a builder of fits where a share of the columns is public."""

    def build(epsilon, split: Split, target_bounds, seed):
        width = split.X.shape[1]
        columns = np.arange(width - round(public * width), width)
        return FeatureDPRegressor(
            epsilon,
            DELTA,
            bounds=split.bounds,
            target_bounds=target_bounds,
            public_features=list(columns) if len(columns) else None,
            public_target=target,
            random_state=seed,
            neighboring_relation="replace_one",
        )

    return build


MODELS = {
    "sklearn": lambda e, split, bounds, seed: LinearRegression(),
    "mean": lambda e, split, bounds, seed: Mean(e, bounds, seed),
    "AdaSSP": lambda e, split, bounds, seed: AdaSSP(e, split.bounds, bounds, seed),
    "descent": skfdp_model(),
    "descent 2/3": skfdp_model(2 / 3),
    "descent 2/3 + y": skfdp_model(2 / 3, True),
}


@functools.cache
def load(table: Table) -> tuple:
    """Return X, y and the bounds, once."""
    return table.load()


def one_score(table: Table, kind: str, epsilon: float, seed: int) -> float:
    """Return the R2 of one fit, predictions kept within the bounds."""
    X, y, bounds, target_bounds = load(table)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=seed)
    split = Split(X, y, X_test, y_test, bounds)
    model = MODELS[kind](epsilon, split, target_bounds, seed).fit(X, y)
    error = np.mean((y_test - np.clip(model.predict(X_test), *target_bounds)) ** 2)
    return 1 - float(error / np.mean((y_test - y.mean()) ** 2))


def cell(table: Table, kind: str, epsilon: float, n_seeds: int) -> dict:
    """Return mean and standard error over seeds."""
    found = [one_score(table, kind, epsilon, seed) for seed in range(n_seeds)]
    error = np.std(found, ddof=1) / n_seeds**0.5 if n_seeds > 1 else 0.0
    return {"score": float(np.mean(found)), "se": float(error), "n_runs": n_seeds}


def documented() -> None:
    """Print both halves, three budgets."""
    kinds = [kind for kind in MODELS if kind != "sklearn"]
    for half in ("dev", "aside"):
        path = RESULTS / f"regression_{half}.json"
        found = json.loads(path.read_text(encoding="utf-8"))
        versions = ", ".join(f"{k} {v}" for k, v in found["versions"].items())
        print(f"half {half}: {found['config']['seeds']} splits; {versions}\n")
        heads = "".join(f"{kind:>16}" for kind in (*kinds, "sklearn"))
        print(f"{'data':25}{'epsilon':>7}{heads}")
        cells = found["cells"]
        for table in (t for t in TABLES if (t.name in ASIDE) == (half == "aside")):
            for epsilon in ("0.1", "1", "8"):
                key = f"{table.name} | {epsilon} | "
                scores = (cells[key + kind]["score"] for kind in (*kinds, "sklearn"))
                print(f"{table.name:25}{epsilon:>7}", end="")
                print("".join(f"{score:16.2f}" for score in scores))
        print()


def main() -> None:
    """Compute what is missing, print it, write the file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two tables, one seed")
    parser.add_argument("--half", choices=("dev", "aside"), default="dev")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--table", action="store_true", help="print what was computed")
    given = parser.parse_args()
    output = given.output or RESULTS / f"regression_{given.half}.json"
    if given.table:
        documented()
        return
    for kind in (UtilityWarning, PrivacyWarning):
        warnings.simplefilter("ignore", kind)
    tables = [t for t in TABLES if (t.name in ASIDE) == (given.half == "aside")]
    if importlib.util.find_spec("statsmodels") is None:
        tables = [t for t in tables if not t.statsmodels]
    epsilons, n_seeds = EPSILONS, given.seeds
    if given.quick:
        tables, epsilons, n_seeds = tables[:2], (1.0, 1e6), 1
    store = Store(output, {"epsilons": list(epsilons), "seeds": n_seeds})
    print(f"{'':24}{'epsilon':>8}" + "".join(f"{k:>16}" for k in MODELS))
    for table in tables:
        for epsilon in epsilons:
            line = ""
            for kind in MODELS:
                found = store.compute(
                    f"{table.name} | {epsilon:g} | {kind}",
                    functools.partial(cell, table, kind, epsilon, n_seeds),
                )
                line += f"{found['score']:16.3f}"
            print(f"{table.name:24}{epsilon:8g}{line}", flush=True)


if __name__ == "__main__":
    main()
