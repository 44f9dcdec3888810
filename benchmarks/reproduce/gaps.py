"""How much of what a table tells is lost to the noise, by records and budget?

The binary tables of `private_columns.py`, numbers as splines, defaults, label-DP and
nothing public under two relations. The gap is (log loss - best) / (floor - best): the
floor is that of class frequencies, the best one that of scikit-learn on the same rows
and columns, its penalty chosen by cross-validation. 0: nothing is lost, 1: no more is
learnt than the frequencies tell. Tables where the best is within .02 of the floor are
left out. A fit's signal is n mu over how far one record moves a sum of unit vectors.

    python benchmarks/reproduce/gaps.py --half dev --seeds 2 --out gaps.jsonl
    python benchmarks/reproduce/gaps.py --report gaps.jsonl

The report has the medians by signal, which `skfdp.privacy.expected_gap` interpolates.
Seeds make the runs reproducible: **they are not private fits**.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from _common import about
from private_columns import DELTA, HALVES, MOST_TEST, with_curves
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss

from skfdp import DeclaredEncoder, FeatureDPLogisticRegression, TableSchema
from skfdp.privacy import Relation, gdp_mu
from skfdp.schema import Label

EPSILONS = (0.1, 0.3, 1.0, 3.0, 8.0)
SIZES = (300, 1000, 3000, 10_000, 30_000)
LEAST_TOLD = 0.02
#: Name -> relation, and whether all columns are public.
SETTINGS = {
    "replace_one": ("replace_one", False),
    "replace_special": ("replace_special", False),
    "label-DP": ("replace_one", True),
}


def best(schema: TableSchema, train, y, test) -> np.ndarray:
    """Return the probabilities of a fit without privacy."""
    encoder = DeclaredEncoder(schema=schema).fit(train)
    model = LogisticRegressionCV(
        Cs=[0.01, 0.1, 1.0, 10.0], cv=5, scoring="neg_log_loss"
    )
    model.fit(encoder.transform(train), y)
    return model.predict_proba(encoder.transform(test))[:, 1]


def run(tables: dict, given) -> None:
    """Append one JSON line for each fit."""
    for name, load in tables.items():
        X, raw, y = load()
        y, (frame, declared) = y.astype(int), with_curves(X, raw)
        for n in SIZES:
            for seed in range(given.seeds):
                order = np.random.default_rng([seed, n]).permutation(len(y))
                n_test = min(MOST_TEST, len(y) // 4)
                if n > len(y) - n_test or len(set(y[order[n_test : n_test + n]])) < 2:
                    continue
                test, rows = order[:n_test], order[n_test : n_test + n]
                train, truth = frame.iloc[rows], y[test]

                def schema(public: bool, declared=declared) -> TableSchema:
                    columns = {
                        column: kind(public=public)
                        for column, (_, kind) in declared.items()
                    }
                    return TableSchema(columns | {"y": Label([0, 1])}, outcomes=["y"])

                floor = log_loss(truth, np.full(n_test, y[rows].mean()))
                ceiling = log_loss(
                    truth, best(schema(False), train, y[rows], frame.iloc[test])
                )
                if floor - ceiling < LEAST_TOLD:
                    continue
                for epsilon in EPSILONS:
                    for setting, (relation, public) in SETTINGS.items():
                        model = FeatureDPLogisticRegression(
                            epsilon,
                            DELTA,
                            schema=schema(public),
                            neighboring_relation=relation,
                            random_state=seed,
                        ).fit(train, y[rows])
                        share = model.predict_proba(frame.iloc[test])[:, 1]
                        loss = log_loss(truth, np.clip(share, 1e-12, 1))
                        moved = Relation.of(relation).moves(1.0)
                        line = {
                            "table": name,
                            "n": n,
                            "epsilon": epsilon,
                            "setting": setting,
                            "signal": n * gdp_mu(epsilon, DELTA) / moved,
                            "gap": (loss - ceiling) / (floor - ceiling),
                        }
                        with given.out.open("a") as file:
                            file.write(json.dumps(line) + "\n")


def report(paths: list[Path]) -> None:
    """Print medians and quartiles of the gap by signal, and by epsilon times n."""
    found = pd.concat([pd.read_json(path, lines=True) for path in paths])
    found["log10 of signal"] = (2 * np.log10(found["signal"])).round() / 2
    found["epsilon n"] = pd.cut(
        found["epsilon"] * found["n"], [0, 300, 1000, 3000, 10_000, 30_000, np.inf]
    )
    for by in ("log10 of signal", "epsilon n"):
        kept = found.groupby(["setting", by], observed=True)["gap"]
        print(kept.quantile([0.25, 0.5, 0.75]).unstack().round(2).to_string(), "\n")


def main() -> None:
    """Run the fits, or print the table of those that were run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=["dev", "aside"], default="dev")
    parser.add_argument("--tables", nargs="*", help="names; default: all of the half")
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
