"""Do models of wide sparse rows keep their accuracy and their scale?

Two tables of 0 and 1 at several widths, 6,000 rows to fit and 6,000 fresh ones:

* *words*: about 15 columns of equal chance in each row, and 10 that tell the label;
* *documents*: texts of 20 words by Zipf's law, of which 100 words of middle rank are
  five times as frequent under one label, behind a ``HashingVectorizer``. This table
  was put aside: the constants were chosen on the other one.

The label is private, and so are the rows but for the arms "label-DP". `R2` is that of
`FeatureDPRegressor` with the label as a target of 0 or 1.

    python benchmarks/reproduce/wide_text.py --seeds 2 > wide_text.txt

Seeds make the runs reproducible: **they are not private fits**.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import scipy.sparse as sp
from _common import about
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score
from sklearn.preprocessing import normalize

from skfdp import DPSGDFClassifier, FeatureDPLogisticRegression, FeatureDPRegressor

N_ROWS = 6000
WIDTHS = (1000, 10_000, 50_000)


def words(rng: np.random.Generator, n_rows: int, width: int):
    """Return rows of norm 1 and their labels: few columns tell the label."""
    y = rng.random(n_rows) < 0.2
    rest = sp.random(n_rows, width - 10, 15 / width, "csr", random_state=rng)
    rest.data[:] = 1
    telling = rng.random((n_rows, 10)) < np.where(y, 0.5, 0.05)[:, None]
    X = sp.hstack([sp.csr_matrix(telling.astype(float)), rest])
    return normalize(X.tocsr()), y


def documents(rng: np.random.Generator, n_rows: int, width: int):
    """Return hashed texts and their labels."""
    y = rng.random(n_rows) < 0.3
    usual = 1 / np.arange(3.0, 30_003.0)
    topical = usual.copy()
    topical[50:150] *= 5
    texts = []
    for label in y:
        chances = topical if label else usual
        drawn = rng.choice(len(usual), 20, p=chances / chances.sum())
        texts.append(" ".join(f"w{word}" for word in drawn))
    hashing = HashingVectorizer(n_features=width, alternate_sign=False)
    return hashing.transform(texts), y


def measured(model, X, y, X_test, y_test) -> tuple[float, ...]:
    """Return accuracy, log-loss and AUC on fresh rows, or R2 and the correlation."""
    if isinstance(model, FeatureDPRegressor):
        found = model.fit(X, y.astype(float)).predict(X_test)
        correlation = np.corrcoef(found, y_test)[0, 1]
        return r2_score(y_test, found), float(np.nan_to_num(correlation))
    chance = model.fit(X, y).predict_proba(X_test)[:, 1]
    accuracy = accuracy_score(y_test, chance > 0.5)
    return accuracy, log_loss(y_test, chance), roc_auc_score(y_test, chance)


def models(epsilon: float, seed: int) -> dict:
    """Return the estimators by name."""
    given = {"epsilon": epsilon, "bounds": (0, 1), "random_state": seed}
    labels, target = {"classes": [False, True]}, {"target_bounds": (0, 1)}
    public = {"public_features": "all"}
    return {
        "logistic": FeatureDPLogisticRegression(**given, **labels),
        "logistic, label-DP": FeatureDPLogisticRegression(**given, **labels, **public),
        "DPSGD-F": DPSGDFClassifier(**given, **labels),
        "regressor": FeatureDPRegressor(**given, **target),
        "regressor, label-DP": FeatureDPRegressor(**given, **target, **public),
    }


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    given = parser.parse_args(argv)
    versions = ", ".join(" ".join(pair) for pair in about()["versions"].items())
    print(f"{given.seeds} seeds, {N_ROWS} rows, fresh rows; {versions}\n")
    print("accuracy, log-loss, AUC; of regressors R2, correlation (means)\n")
    warnings.simplefilter("ignore")
    for table in (words, documents):
        for width in given.widths:
            found: dict = {}
            for seed in range(given.seeds):
                X, y = table(np.random.default_rng(seed), 2 * N_ROWS, width)
                split = X[:N_ROWS], y[:N_ROWS], X[N_ROWS:], y[N_ROWS:]
                for epsilon in given.epsilons:
                    for name, model in models(epsilon, seed).items():
                        runs = found.setdefault((epsilon, name), [])
                        runs.append(measured(model, *split))
            for (epsilon, name), runs in found.items():
                means = " ".join(f"{mean:6.3f}" for mean in np.mean(runs, axis=0))
                start = f"{table.__name__:10}{width:6d}  epsilon {epsilon:g}"
                print(f"{start}  {name:20}{means}", flush=True)


if __name__ == "__main__":
    main()
