"""Are private additive models worth it? Hats against straight lines, and DP-EBM.

Every table of `_frames.py` x five budgets x five splits, raw columns under the same
declared bounds and categories for all:

* *lines*: `FeatureDPLogisticRegression` or `FeatureDPRegressor` behind
  ``DeclaredEncoder(basis="linear")``, that is numbers scaled to [0, 1] and one-hot
  categories; all defaults;
* *hats*: the same with the encoder's defaults, an additive model;
* *DP-EBM*: `DPExplainableBoostingClassifier` or `...Regressor` of interpret, its
  defaults, and *DP-EBM's best*: for each table, budget and score the best of
  ten settings, the defaults among them, chosen on the test rows at no charge to its
  budget. Ours has one setting. Counts get its regressor: it has no other loss;
* *scikit-learn* (no privacy) behind both encoders, at epsilon "none".

    python benchmarks/reproduce/additive.py --half dev --methods lines hats
    python benchmarks/reproduce/additive.py --methods "DP-EBM*"
    python benchmarks/reproduce/additive.py --widen 5 20 100 --tables "curved*"
    python benchmarks/reproduce/additive.py --report > benchmarks/results/additive.txt

**Equal relations.** DP-EBM does not name its relation; its source (0.7.8) does by the
noise. A histogram of a column gets noise of ``sqrt(columns) / mu`` on counts, and a
boosting step ``sqrt(steps) / mu`` times the largest residual of one record, in the one
leaf where that record is. Each is what one record adds, so that adding or removing it
is a step of length 1; replacing it moves two leaves, or one leaf twice as far, and is
covered only by twice the mu. The exact number of rows is used unperturbed. That is our
"replace_special": one record's values become a null that contributes nothing, n is
public, and the price is that of adding or removing. All figures are under it, but for
*stricter hats* under the stronger "replace_one", the classifier's default. That DP-EBM
takes the values of categories from the records is not held against it.

DP-EBM needs ``pip install interpret-core==0.7.8``; the other methods run without. One
JSON line for each fit, appended: an interrupted run continues. Seeds make the runs
reproducible: **they are not private fits**.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import functools
import itertools
import subprocess
import time
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import numpy as np
from _additive import read_entries, report
from _common import RESULTS, about
from _frames import TABLES, Raw, Table
from dominance import append
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.metrics import (
    accuracy_score,
    d2_tweedie_score,
    log_loss,
    r2_score,
    roc_auc_score,
)
from sklearn.pipeline import make_pipeline

import skfdp
from skfdp import (
    FeatureDPLogisticRegression,
    FeatureDPRegressor,
    TableSchema,
)
from skfdp.schema import Category, Label, Number

EPSILONS = (0.1, 0.3, 1.0, 3.0, 8.0)
RELATION = "replace_special"
QUICK = ("breast_cancer", "diabetes", "rates, 1000")
#: The least rate that a score of counts takes: deviances of rates near 0 are infinite.
LEAST_RATE = 0.1


# ---------------------------------------------------------------- ours


def schema(
    table: Table, raw: Raw, basis: str, public: bool = False, **given
) -> TableSchema:
    """Return the declared bounds and categories, with the outcome "y"."""
    kind = functools.partial(Number, basis=basis, public=public, **given)
    columns = {name: kind(*pair) for name, pair in raw.bounds.items()}
    columns |= {
        name: Category(levels, public=public) for name, levels in raw.categories.items()
    }
    outcome = Number(*raw.target_bounds)
    if table.task == "classification":
        outcome = Label([0, 1])
    return TableSchema({**columns, "y": outcome}, outcomes=["y"])


def predictions(table: Table, model, X, y, X_test) -> np.ndarray:
    """Fit, and return chances of class 1 or targets of the test rows."""
    model.fit(X, y)
    if table.task == "classification":
        return model.predict_proba(X_test)[:, 1]
    return model.predict(X_test)


def estimator(
    table: Table, epsilon: float, seed: int, relation: str = RELATION, **given
):
    """Return our estimator of a task, untouched except for what is declared."""
    common = {
        "epsilon": epsilon,
        "delta": table.delta,
        "neighboring_relation": relation,
        "random_state": seed,
        **given,
    }
    if table.task == "classification":
        return FeatureDPLogisticRegression(**common)
    loss = "poisson" if table.task == "counts" else "squared_error"
    return FeatureDPRegressor(loss=loss, **common)


def private(basis: str, relation: str = RELATION, **given) -> Callable:
    """Return a fit of our estimators behind an encoder."""

    def fit(table: Table, raw: Raw, epsilon: float, seed: int) -> np.ndarray:
        own = schema(table, raw, basis, **given)
        model = estimator(table, epsilon, seed, relation, schema=own)
        return predictions(table, model, raw.X, raw.y, raw.X_test)

    return fit


def without_privacy(basis: str, **given) -> Callable:
    """Return a fit of scikit-learn behind the same encoder."""

    def fit(table: Table, raw: Raw, epsilon: None, seed: int) -> np.ndarray:
        models = {
            "classification": LogisticRegression(max_iter=2000),
            "regression": Ridge(),
            "counts": PoissonRegressor(alpha=1e-3, max_iter=2000),
        }
        model = make_pipeline(
            schema(table, raw, basis, **given).encoder(), models[table.task]
        )
        return predictions(table, model, raw.X, raw.y, raw.X_test)

    return fit


# ---------------------------------------------------------------- DP-EBM


def boosting(**settings) -> Callable:
    """Return a fit of DP-EBM under the same declarations."""

    def fit(table: Table, raw: Raw, epsilon: float, seed: int) -> np.ndarray:
        from interpret.privacy import (
            DPExplainableBoostingClassifier,
            DPExplainableBoostingRegressor,
        )

        common = {
            "epsilon": epsilon,
            "delta": table.delta,
            "random_state": seed,
            "n_jobs": 1,
            "feature_names": list(raw.X),
            "feature_types": [
                "nominal" if name in raw.categories else "continuous" for name in raw.X
            ],
            "privacy_bounds": raw.bounds,
        }
        # Values outside of the bounds would be in no bin of the histogram.
        X, X_test = raw.clipped()
        if table.task == "classification":
            model = DPExplainableBoostingClassifier(**common, **settings)
            return predictions(table, model, X, raw.y, X_test)
        low, high = raw.target_bounds
        model = DPExplainableBoostingRegressor(
            privacy_target_min=low, privacy_target_max=high, **common, **settings
        )
        return np.clip(model.fit(X, raw.y).predict(X_test), low, high)

    return fit


#: Learning rate, leaves and bins, at 100 rounds: what matters is rounds times rate, and
#: fewer steps cost nothing. From small steps for few rows to large ones for many.
SETTINGS = (
    (0.003, 2, 8),
    (0.01, 2, 8),
    (0.03, 3, 8),
    (0.03, 10, 8),
    (0.03, 10, 32),
    (0.1, 10, 16),
    (0.1, 10, 32),
    (0.3, 10, 16),
    (0.3, 10, 64),
)
GRID = {
    f"DP-EBM {rate:g} {leaves} {bins}": boosting(
        max_rounds=100, learning_rate=rate, max_leaves=leaves, max_bins=bins
    )
    for rate, leaves, bins in SETTINGS
}
FREE = {
    "scikit-learn lines": without_privacy("linear"),
    "scikit-learn hats": without_privacy("spline"),
}
METHODS: dict[str, Callable] = {
    **FREE,
    "lines": private("linear"),
    "hats": private("spline"),
    "stricter hats": private("spline", "replace_one"),
    "DP-EBM": boosting(),
    **GRID,
}


# ---------------------------------------------------------------- scores


def scores(task: str, y: np.ndarray, predicted: np.ndarray) -> dict:
    """Return the scores of chances of class 1, or of predicted targets."""
    if task == "classification":
        return {
            "accuracy": 100 * float(accuracy_score(y, predicted > 0.5)),
            "auc": float(roc_auc_score(y, predicted)),
            "log_loss": float(log_loss(y, predicted, labels=[0, 1])),
        }
    found = {"r2": float(r2_score(y, predicted))}
    if task == "counts":
        rates = np.maximum(predicted, LEAST_RATE)
        found["d2"] = float(d2_tweedie_score(y, rates, power=1))
    return found


def measure(fit: Callable[[], np.ndarray], table: Table, raw: Raw) -> dict:
    """Return scores and seconds of a fit, or the error that it raised."""
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predicted = fit()
        seconds = round(time.perf_counter() - start, 4)
        found = scores(table.task, raw.y_test, predicted)
        return found | {"seconds": seconds}
    except Exception as error:  # A fit that fails is a result; the report counts it.
        return {"error": f"{type(error).__name__}: {error}"[:200]}


# ---------------------------------------------------------------- runs


def run(table: Table, seed: int, given: argparse.Namespace, done: set) -> None:
    """Measure what the file lacks of one table and seed, and append it."""
    raw = None
    for widen, epsilon, method in itertools.product(
        given.widen, (None, *given.epsilons), given.methods
    ):
        key = (table.name, widen, method, epsilon, seed)
        if (method in FREE) != (epsilon is None) or key in done:
            continue
        raw = table.load(seed) if raw is None else raw
        rows = raw.widened(widen)
        fit = functools.partial(METHODS[method], table, rows, epsilon, seed)
        found = measure(fit, table, rows)
        names = ("table", "widen", "method", "epsilon", "seed")
        entry = {"task": table.task, "half": table.half, "n": len(raw.X)}
        append(given.out, entry | dict(zip(names, key, strict=True)) | found)
        if "error" in found:
            print(*key, found["error"], flush=True)
    if raw is not None:
        print(f"{time.strftime('%H:%M:%S')} {table.name}, seed {seed}", flush=True)


def matches(name: str, patterns) -> bool:
    """Return whether a name is like one of the fnmatch patterns."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def source() -> dict:
    """Return the commit of skfdp, if it is a checkout, and interpret's version."""
    known, folder = {}, Path(skfdp.__file__).parent
    call = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        found = subprocess.run(call, capture_output=True, text=True, check=True)
        known["commit"] = found.stdout.strip()
    with contextlib.suppress(metadata.PackageNotFoundError):
        known["interpret-core"] = metadata.version("interpret-core")
    return known


def chosen(given: argparse.Namespace) -> list[Table]:
    """Return the tables that were asked for; say why some cannot be loaded."""
    found = []
    for table in TABLES:
        asked = matches(table.name, given.tables)
        if not asked or given.half not in (None, table.half):
            continue
        reason = table.missing()
        if reason is None:
            found.append(table)
        else:
            print(f"left out: {table.name}: {reason}")
    return found


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--half", choices=("dev", "aside"), help="both unless given")
    add("--tables", nargs="+", default=("*",), help="names or fnmatch patterns")
    add("--methods", nargs="+", default=("*",), help="as --tables")
    add("--epsilons", nargs="+", type=float, default=EPSILONS)
    add("--widen", nargs="+", type=float, default=(1.0,), help="factors of the bounds")
    add("--seeds", type=int, default=5)
    add("--out", type=Path, default=RESULTS / "additive.jsonl", help="JSON lines")
    add("--quick", action="store_true", help="three tables, without DP-EBM")
    add("--report", action="store_true", help="only report on the file")
    given = parser.parse_args(argv)
    given.methods = [name for name in METHODS if matches(name, given.methods)]
    if given.quick:
        given.tables, given.epsilons, given.seeds = QUICK, (8.0,), 2
        given.methods = [*FREE, "lines", "hats"]
    return given


def main(argv: list[str] | None = None) -> None:
    """Run what is missing, and report on all that there is."""
    given = arguments(argv)
    if not given.report:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        done = {
            tuple(entry[k] for k in ("table", "widen", "method", "epsilon", "seed"))
            for entry in read_entries(given.out)
        }
        append(given.out, {"about": about() | {"source": source()}})
        for seed, table in itertools.product(range(given.seeds), chosen(given)):
            run(table, seed, given, done)
    print(report(given.out, given.half))


if __name__ == "__main__":
    main()
