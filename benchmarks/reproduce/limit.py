"""Does a larger budget never hurt, and is its limit scikit-learn's model?

Five tables of the development half of `_tables.py` x five public splits x epsilon from
.1 to 10**6, with the defaults, beside scikit-learn's `LogisticRegression` on columns
scaled by the same bounds: without a penalty, as the private models, and with its own.
Prints one line for each table and split and writes JSON. Seeds make the runs
reproducible: **they are not private fits**.

    python benchmarks/reproduce/limit.py [--seeds 3] [--tables "adult 1000"]
"""

from __future__ import annotations

import argparse
import json
import warnings

import numpy as np
from _common import RESULTS, Split, about
from _tables import TABLES
from dominance import SPLITS, all_scores, private_fit
from sklearn.linear_model import LogisticRegression

EPSILONS = (0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6)
NAMES = (
    "digits",
    "adult 1000",
    "3 classes, 500",
    "curved, 5000",
    "blocks of factors, 2000",
)


def scikit_learn(split: Split, C: float) -> dict:
    """Return the scores of scikit-learn's model, which protects nothing."""
    X, X_test = split.scaled()
    model = LogisticRegression(C=C, max_iter=10_000).fit(X, split.y)
    return all_scores(model.predict_proba(X_test), split)


def averages(scores: list[dict]) -> list[float]:
    """Return mean accuracy, in per cent, and mean log-loss."""
    return [
        float(np.mean([s[key] for s in scores])) for key in ("accuracy", "log_loss")
    ]


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tables", nargs="+", default=NAMES)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # of budgets that are small, or absurd
    results = {}
    for table in (table for table in TABLES if table.name in given.tables):
        splits = [table.load(seed) for seed in range(given.seeds)]
        columns = np.asarray(table.public())
        found = {
            f"scikit-learn, C={C:g}": averages([scikit_learn(s, C) for s in splits])
            for C in (np.inf, 1.0)
        }
        print(table.name, found, flush=True)
        for name, declared in SPLITS.items():
            found[name] = [
                averages(
                    [
                        all_scores(
                            private_fit(declared(columns), split, epsilon, seed), split
                        )
                        for seed, split in enumerate(splits)
                    ]
                )
                for epsilon in EPSILONS
            ]
            line = (f"{accuracy:.1f}/{loss:.3f}" for accuracy, loss in found[name])
            print(f"  {name:20}", *line, flush=True)
        results[table.name] = found
    target = RESULTS / "limit.json"
    target.write_text(
        json.dumps({"about": about(), "epsilons": EPSILONS, "results": results})
    )


if __name__ == "__main__":
    main()
