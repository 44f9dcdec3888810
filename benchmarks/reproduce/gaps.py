"""How much of what a table tells is lost to the noise, by records and budget?

The tables of `private_columns.py`, numbers as splines, defaults, label-DP and nothing
public under two relations. The gap is (loss - best) / (floor - best), of log losses or
squared errors: the floor is that of class frequencies or of the mean, the best one that
of scikit-learn on the same rows and columns, its penalty chosen by cross-validation. 0:
nothing is lost, 1: no more is learnt than the frequencies tell. Tables where the best
is within .02 of the floor (2 % of squared errors) are left out. A fit's signal is n mu
over how far one record moves a sum of unit vectors.

    python benchmarks/reproduce/gaps.py --half dev --seeds 2 --out gaps.jsonl
    python benchmarks/reproduce/gaps.py --report gaps.jsonl

The report has the medians by signal, which `skfdp.metrics.expected_gap` interpolates.
Seeds make the runs reproducible: **they are not private fits**.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from _common import about
from private_columns import DELTA, HALVES, MOST_TEST, with_curves
from sklearn.base import is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.metrics import log_loss

from skfdp import (
    DeclaredEncoder,
    FeatureDPLogisticRegression,
    FeatureDPRegressor,
    TableSchema,
)
from skfdp.privacy import Relation, gdp_mu
from skfdp.schema import Label, Number

EPSILONS = (0.1, 0.3, 1.0, 3.0, 8.0)
SIZES = (300, 1000, 3000, 10_000, 30_000)
LEAST_TOLD = 0.02
#: Name -> relation, and whether all columns are public.
SETTINGS = {
    "replace_one": ("replace_one", False),
    "replace_special": ("replace_special", False),
    "label-DP": ("replace_one", True),
}


def loss_of(model, X, truth: np.ndarray) -> float:
    """Return the log loss of probabilities, or the squared error of predictions."""
    if not is_classifier(model):
        return float(np.mean((truth - model.predict(X)) ** 2))
    share = np.clip(model.predict_proba(X), 1e-12, 1)
    return log_loss(truth, share, labels=np.arange(share.shape[1]))


def ends(schema: TableSchema, train, y, test, truth) -> tuple[float, float]:
    """Return the loss of a constant, and that of a fit without privacy."""
    models = DummyRegressor(), RidgeCV(np.geomspace(0.01, 1000, 11))
    if y.dtype.kind != "f":
        given = {"Cs": [0.01, 0.1, 1.0, 10.0], "scoring": "neg_log_loss"}
        models = DummyClassifier(), LogisticRegressionCV(cv=5, **given)
    encoder = DeclaredEncoder(schema=schema).fit(train)
    train, test = encoder.transform(train), encoder.transform(test)
    return tuple(loss_of(model.fit(train, y), test, truth) for model in models)


def run(tables: dict, given) -> None:
    """Append one JSON line for each fit."""
    for name, load in tables.items():
        X, raw, y = load()
        frame, declared = with_curves(X, raw)
        regression = y.dtype.kind == "f"
        y = y if regression else y.astype(int)
        outcome = Number(0, 1) if regression else Label(list(range(y.max() + 1)))
        make = FeatureDPRegressor if regression else FeatureDPLogisticRegression
        for n, seed in itertools.product(SIZES, range(given.seeds)):
            order = np.random.default_rng([seed, n]).permutation(len(y))
            n_test = min(MOST_TEST, len(y) // 4)
            test, rows = order[:n_test], order[n_test : n_test + n]
            if n > len(y) - n_test:
                continue
            if not regression and np.bincount(y[rows], minlength=y.max() + 1).min() < 5:
                continue
            train, truth = frame.iloc[rows], y[test]

            def schema(public: bool, declared=declared, outcome=outcome) -> TableSchema:
                columns = {
                    column: kind(public=public)
                    for column, (_, kind) in declared.items()
                }
                return TableSchema(columns | {"y": outcome}, outcomes=["y"])

            floor, best = ends(schema(False), train, y[rows], frame.iloc[test], truth)
            if floor - best < LEAST_TOLD * (floor if regression else 1):
                continue
            for epsilon, setting in itertools.product(EPSILONS, given.settings):
                relation, public = SETTINGS[setting]
                model = make(
                    epsilon,
                    DELTA,
                    schema=schema(public),
                    neighboring_relation=relation,
                    random_state=seed,
                ).fit(train, y[rows])
                loss = loss_of(model, frame.iloc[test], truth)
                line = {
                    "table": name,
                    "n": n,
                    "seed": seed,
                    "columns": len(declared),
                    "epsilon": epsilon,
                    "setting": setting,
                    "regression": regression,
                    "signal": n
                    * gdp_mu(epsilon, DELTA)
                    / Relation.of(relation).sensitivity(1.0),
                    "gap": (loss - best) / (floor - best),
                }
                with given.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")


def report(paths: list[Path]) -> None:
    """Print quartiles of the gap by signal, and medians by epsilon times n."""
    found = pd.concat([pd.read_json(path, lines=True) for path in paths])
    found["kind"] = np.where(found["setting"] == "label-DP", "label-DP", "private")
    found["kind"] += np.where(found["regression"], ", regression", "")
    # Each table counts once, however many sizes it has.
    signal = 10 ** ((2 * np.log10(found["signal"])).round() / 2)
    cells = found.assign(signal=signal.round()).groupby(["kind", "signal", "table"])
    by_signal = cells["gap"].median().groupby(["kind", "signal"])
    table = by_signal.quantile([0.25, 0.5, 0.75]).unstack()
    print(table.assign(tables=by_signal.size()).round(2).to_string(), "\n")
    edges = [0, 300, 1000, 3000, 10_000, 30_000, np.inf]
    found["epsilon n"] = pd.cut(found["epsilon"] * found["n"], edges)
    medians = found.groupby(["regression", "setting", "epsilon n"], observed=True)
    print(medians["gap"].median().unstack().round(2).to_string(), "\n")


def main() -> None:
    """Run the fits, or print the table of those that were run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=HALVES, default="dev")
    parser.add_argument("--tables", nargs="*", help="names; default: all of the half")
    parser.add_argument("--settings", nargs="*", default=[*SETTINGS], choices=SETTINGS)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("gaps.jsonl"))
    parser.add_argument("--report", type=Path, nargs="*")
    given = parser.parse_args()
    if given.report is not None:
        return report(given.report)
    warnings.simplefilter("ignore")
    start, tables = time.time(), HALVES[given.half]
    run({name: tables[name] for name in given.tables or tables}, given)
    print(json.dumps(about() | {"seconds": round(time.time() - start)}))


if __name__ == "__main__":
    main()
