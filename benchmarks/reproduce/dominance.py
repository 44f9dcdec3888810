"""Is less protection never worse?

Every table of `_tables.py` x six budgets x five public splits, with the defaults of
`FeatureDPLogisticRegression`, beside what needs no private column: a logistic
regression on the public columns where the target is public, and class frequencies,
exact or released. For the same rows, budget and seed, each split should be at least as
good as the more protective ones, and as what is free: `_law.py` counts the cells where
it is not.

    python benchmarks/reproduce/dominance.py --half dev --seeds 2
    python benchmarks/reproduce/dominance.py --report before.jsonl [after.jsonl]

One JSON line for each fit, appended: an interrupted run continues, and several
processes may write to one file. Two checkouts are compared by PYTHONPATH and --out, and
then --report before.jsonl after.jsonl. The half put aside is for closing figures.
Seeds make the runs reproducible: **they are not private fits**.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import json
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _common import RESULTS, Split, about, table_scores
from _law import read_entries, report
from _tables import TABLES, Table
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skfdp
from skfdp import FeatureDPLogisticRegression
from skfdp.privacy import gdp_mu

DELTA = 1e-5
EPSILONS = (0.1, 0.3, 1.0, 3.0, 8.0, 1000.0)
N_BINS = 15


# ---------------------------------------------------------------- what is compared
#
# All return probabilities of the test rows, over np.unique of the labels.

#: Split -> what is declared public, given the public columns.
SPLITS: dict[str, Callable[[np.ndarray], dict]] = {
    "nothing": lambda columns: {},
    "columns": lambda columns: {"public_features": columns},
    "target": lambda columns: {"public_target": True},
    "columns and target": lambda columns: {
        "public_features": columns,
        "public_target": True,
    },
    "labels": lambda columns: {"public_features": "all"},
}


def labels(split: Split) -> np.ndarray:
    """Return the declared label set."""
    return np.union1d(split.y, split.y_test)


def private_fit(given: dict, split: Split, epsilon: float, seed: int) -> np.ndarray:
    """Fit the classifier, untouched except for what is public."""
    model = FeatureDPLogisticRegression(
        epsilon=epsilon,
        delta=DELTA,
        bounds=split.bounds,
        classes=labels(split),
        random_state=seed,
        **given,
        neighboring_relation="replace_one",
    )
    return model.fit(split.X, split.y).predict_proba(split.X_test)


def public_fit(columns: np.ndarray, split: Split) -> np.ndarray:
    """Fit scikit-learn on the public columns and the public target: free."""
    X, X_test = (rows[:, columns] for rows in split.scaled())
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000))
    return model.fit(X, split.y).predict_proba(X_test)


def exact_frequencies(split: Split) -> np.ndarray:
    """Return the class frequencies for every row: free with a public target."""
    return _constant(split, _counts(split))


def released_frequencies(split: Split, epsilon: float, seed: int) -> np.ndarray:
    """Return class frequencies with the Gaussian noise of a private target."""
    counts = _counts(split)
    # Under "replace_one" one count falls by one and another rises.
    noise = 2**0.5 / gdp_mu(epsilon, DELTA)
    rng = np.random.default_rng([seed, 5])
    return _constant(split, counts + noise * rng.normal(size=len(counts)))


def _counts(split: Split) -> np.ndarray:
    return (split.y[:, None] == labels(split)).sum(axis=0)


def _constant(split: Split, counts: np.ndarray) -> np.ndarray:
    counts = np.maximum(counts, 1.0)
    return np.tile(counts / counts.sum(), (len(split.y_test), 1))


# ---------------------------------------------------------------- scores


def calibration_error(y: np.ndarray, chances: np.ndarray, classes) -> float:
    """Return the expected calibration error over `N_BINS` bins of equal width.

    Of class 1 where there are two; of the most likely class where there are more.
    """
    if len(classes) == 2:
        claimed, hit = chances[:, 1], y == classes[1]
    else:
        claimed, hit = chances.max(axis=1), y == classes[chances.argmax(axis=1)]
    bins = np.minimum((claimed * N_BINS).astype(int), N_BINS - 1)
    gaps = np.bincount(bins, weights=claimed - hit, minlength=N_BINS)
    return float(np.abs(gaps).sum() / len(y))


def all_scores(chances: np.ndarray, split: Split) -> dict:
    """Return all scores of the probabilities of the test rows."""
    classes, y = labels(split), split.y_test
    if len(classes) == 2:
        auc = roc_auc_score(y == classes[1], chances[:, 1])
    else:
        auc = roc_auc_score(y, chances, multi_class="ovr", labels=classes)
    return table_scores(chances, classes, y) | {
        "auc": float(auc),
        "calibration_error": calibration_error(y, chances, classes),
        "mean_probability": [round(float(p), 5) for p in chances.mean(axis=0)],
    }


def measure(fit: Callable[[], np.ndarray], split: Split) -> dict:
    """Return scores and seconds of a fit, or the error that it raised."""
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chances = fit()
            seconds = time.perf_counter() - start
            return all_scores(chances, split) | {"seconds": round(seconds, 4)}
    except Exception as error:  # A fit that fails is a result; the report counts it.
        return {"error": f"{type(error).__name__}: {error}"[:200]}


# ---------------------------------------------------------------- runs


def cells(table: Table, split: Split, seed: int, epsilons, splits) -> dict:
    """Return (name, epsilon) -> function for all fits on one split of a table."""
    columns = table.public()
    found = {
        ("public model", None): functools.partial(public_fit, columns, split),
        ("exact frequencies", None): functools.partial(exact_frequencies, split),
    }
    for epsilon in epsilons:
        found["released frequencies", epsilon] = functools.partial(
            released_frequencies, split, epsilon, seed
        )
        for name in splits:
            found[name, epsilon] = functools.partial(
                private_fit, SPLITS[name](columns), split, epsilon, seed
            )
    return found


def run(name: str, seed: int, epsilons, splits, path: Path) -> None:
    """Measure what the file lacks of one table and seed, and append it."""
    table = next(table for table in TABLES if table.name == name)
    done = {
        (entry["split"], entry["epsilon"])
        for entry in read_entries(path)
        if entry["table"] == name and entry["seed"] == seed
    }
    wanted = [("public model", None), ("exact frequencies", None)]
    wanted += [(s, e) for e in epsilons for s in ("released frequencies", *splits)]
    if done.issuperset(wanted):
        return
    split = table.load(seed)
    for (method, epsilon), fit in cells(table, split, seed, epsilons, splits).items():
        if (method, epsilon) in done:
            continue
        key = {"table": name, "half": table.half, "split": method}
        entry = key | {"epsilon": epsilon, "seed": seed} | measure(fit, split)
        append(path, entry)
        if "error" in entry:
            print(f"{name}, {method}, {epsilon}, {seed}: {entry['error']}", flush=True)
    print(f"{time.strftime('%H:%M:%S')} {name}, seed {seed}", flush=True)


def append(path: Path, entry: dict) -> None:
    """Append one line in one system call, so that processes do not mix theirs."""
    line = json.dumps(entry, allow_nan=False) + "\n"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def chosen_tables(half: str, names: list[str] | None) -> list[Table]:
    """Return the tables that can be loaded, quick ones first; say why others cannot."""
    found = []
    for table in sorted(TABLES, key=lambda table: -table.seeds):
        asked = names is None or table.name.startswith(tuple(names))
        if table.half != half or not asked:
            continue
        reason = table.missing()
        if reason is None:
            found.append(table)
        else:
            print(f"left out: {table.name}: {reason}")
    return found


def run_all(given: argparse.Namespace, path: Path) -> None:
    """Run every table and seed, in as many processes as the command line says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    append(path, {"about": about() | {"delta": DELTA}})
    tasks = [
        (table.name, seed, given.epsilons, given.splits, path)
        for table in chosen_tables(given.half, given.tables)
        for seed in range(min(given.seeds, table.seeds))
    ]
    print(f"{Path(skfdp.__file__).parent}: {len(tasks)} tables and seeds", flush=True)
    if given.jobs == 1:
        for task in tasks:
            run(*task)
        return
    # Threads of numba do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(given.jobs, context) as pool:
        for future in [pool.submit(run, *task) for task in tasks]:
            future.result()


def main(argv: list[str] | None = None) -> None:
    """Run the suite, or report on one or two files of results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--half", choices=("dev", "aside"), help="dev unless given; in reports both")
    add("--tables", nargs="+", help="tables whose names start like this")
    add("--epsilons", nargs="+", type=float, default=EPSILONS)
    add("--splits", nargs="+", choices=SPLITS, default=tuple(SPLITS))
    add("--seeds", type=int, default=20, help="at most 5 where a fit takes long")
    add("--jobs", type=int, default=1)
    add("--out", type=Path, help="JSON lines; benchmarks/results/ by default")
    add("--report", nargs="+", type=Path, metavar="FILE", help="one file, or two")
    given = parser.parse_args(argv)
    if given.report:
        print(report(given.report[:2], given.half, given.tables))
        return
    given.half = given.half or "dev"
    path = given.out or RESULTS / f"dominance_{given.half}.jsonl"
    run_all(given, path)
    print(report([path], given.half, given.tables))


if __name__ == "__main__":
    main()
