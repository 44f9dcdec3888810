"""What interactions of columns are worth: a public target, and label-DP of any model.

"target": the target and half of the raw columns are public, the half drawn once or that
of the columns that tell most, each by itself (`--public most`). *auto* and *linear* are
public models of the default fit, and *boosting* has the public columns alone. *mix
none*, *mix public* and *mix all* are ceilings: boosted trees without privacy, in which
no, the public or all columns interact. "labels": all columns are public, and the target
is private. *default* is our fit, and *flips* are boosted trees in a `LabelDPClassifier`
or `LabelDPRegressor`, which cross-validation on the random targets chooses. "pairs":
the target is private, all, some or no columns are public, and *additive* has
``interactions=None``. "noise": variances of a random number, and the least ones that
any unbiased table of chances has. Scores are R2 for numbers, and log-loss for classes,
with chances cut to [.001, .999]. Tables "own" were looked at once.

    PYTHONPATH=old python interactions.py target --methods auto --out before.jsonl
    python interactions.py target --out now.jsonl   # and labels, noise
    python interactions.py --report before.jsonl now.jsonl

The tables of people are read from SKFDP_DATA (see `private_columns.py`). Seeds make the
runs reproducible: **they are not private fits**.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import warnings
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
from _common import about, searched, trees
from _problems import Generated, interactions
from private_columns import DELTA, HALVES, MOST_TEST, public_columns, with_curves
from private_columns import generated as rows_of
from sklearn.datasets import make_classification, make_friedman1, make_friedman2
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import cross_val_score

import skfdp
from skfdp.schema import Label, Number

PARTS = {"target": ("auto", "linear", "boosting"), "labels": ("default", "flips")}
PARTS["pairs"] = "pairs", "additive"
EPSILONS = {"labels": (0.3, 1.0, 2.0, 3.0, 8.0)}
MOST, TREES = 20_000, {"max_leaf_nodes": 8, "max_iter": 60}
#: Cells of the part "labels", all with at most this many rows.
LABELS = {"bank churn": (2000, 7000), "cardio": (MOST,), "ACSIncome, step": (MOST,)}


def sampled(X: np.ndarray, y: np.ndarray) -> tuple:
    """Return columns, and numbers of a target, between 0 and 1."""
    y = (y - y.min()) / np.ptp(y) if y.dtype.kind == "f" else y
    return (X - X.min(axis=0)) / np.ptp(X, axis=0), np.arange(X.shape[1]), y


def slopes() -> tuple:
    """Return a group of eight levels, on which the slopes of five numbers depend."""
    made = Generated(141, 20_000, lambda rng: interactions(rng, 8, 5), 2.0, 0.3)
    X, _, y = rows_of(made)
    return X, np.r_[np.zeros(8, int), 1 + np.arange(8)], y


#: Options of generators of scikit-learn.
CLUSTERS = {"n_features": 12, "n_informative": 6, "n_clusters_per_class": 4}
CLUSTERS |= {"flip_y": 0.2, "random_state": 142}
WAVES, PRODUCTS = ({"noise": n, "random_state": 143} for n in (3, 300))
KNOWN = HALVES["dev"] | HALVES["aside"] | HALVES["regression"]
ADDITIVE = "strong numbers, 3", "blocks of factors"  # tables without interactions
HALF = {
    "dev": ("cardio", "telco churn", "ACSEmployment", "Adult"),
    "aside": ("bank churn", "ACSIncome", "ACSIncome, step", "stroke", "marketing"),
}
TABLES = {half: {name: KNOWN[name] for name in names} for half, names in HALF.items()}
TABLES["own"] = {
    **{name: KNOWN[name] for name in ADDITIVE},
    "slopes of groups": slopes,
    "clusters": lambda: sampled(*make_classification(30_000, **CLUSTERS)),
    "waves": lambda: sampled(*make_friedman1(30_000, **WAVES)),
    "products": lambda: sampled(*make_friedman2(30_000, **PRODUCTS)),
}


def most(frame: pd.DataFrame, places: list[int], y: np.ndarray) -> np.ndarray:
    """Return the half of the raw columns whose trees, of one column each, are best."""
    model, each, n = trees(y.dtype.kind == "f", **TREES), [], MOST
    scoring = "r2" if y.dtype.kind == "f" else "neg_log_loss"
    for place in range(max(places) + 1):
        own = frame.loc[:, np.equal(places, place)]
        found = cross_val_score(model, own[:n], y[:n], cv=3, scoring=scoring)
        each.append(found.mean())
    return np.argsort(np.argsort(each)) >= (len(each) + 1) // 2


def lines(part: str, name: str, load, given):
    """Yield one line for each fit of a table."""
    X, raw, y = load()
    numbers, target = y.dtype.kind == "f", part == "target"
    y = y if numbers else y.astype(int)
    ours = skfdp.FeatureDPRegressor if numbers else skfdp.FeatureDPLogisticRegression
    frame, declared = with_curves(X, raw)
    share = "all" if part == "labels" else given.public
    public = public_columns(raw, "half") & (share == "half") | (share == "all")
    if share == "most":
        public = most(frame, [place for place, _ in declared.values()], y)
    columns = {
        column: kind(public=bool(public[place]))
        for column, (place, kind) in declared.items()
    }
    known = [column for column, (place, _) in declared.items() if public[place]]
    apart = [{j} for j, column in enumerate(frame) if column not in known]
    mixed = [{*range(frame.shape[1])}.difference(*apart), *apart]
    mixes = {"mix none": "no_interactions", "mix public": mixed, "mix all": None}
    outcome = Number(0, 1, public=target) if numbers else Label([0, 1], public=target)

    def built(method: str, epsilon: float, seed: int):
        """Return an estimator, not fitted."""
        if method == "boosting":
            return trees(numbers, **TREES)
        if method in mixes:
            return searched(numbers, learning_rate=0.2, interaction_cst=mixes[method])
        if method == "flips":
            kind = skfdp.LabelDPRegressor if numbers else skfdp.LabelDPClassifier
            own = {"target_bounds": (0, 1)} if numbers else {"classes": [0, 1]}
            return kind(searched(numbers), epsilon, random_state=seed, **own)
        own = {"public_model": method} if target else {}
        asked = {"interactions": None} if method == "additive" else {}
        schema = skfdp.TableSchema(columns | {"y": outcome}, outcomes=["y"], **asked)
        own |= {"neighboring_relation": "replace_one", "random_state": seed}
        return ours(epsilon, DELTA, schema=schema, **own)

    sizes = LABELS[name] if part == "labels" else given.sizes
    for n, seed in itertools.product(sizes, given.seeds):
        order = np.random.default_rng([seed, n]).permutation(len(y))
        n_test = min(MOST_TEST, round(0.3 * len(y)))
        tests, rows = order[:n_test], order[n_test : n_test + n]
        if len(rows) < n < MOST:  # a table that is smaller comes once
            continue
        cell = {"part": part, "table": name, "n": len(rows), "seed": seed}
        epsilons = given.epsilons or EPSILONS.get(part, (0.3, 1.0, 3.0, 8.0))
        for method, epsilon in itertools.product(given.methods, epsilons):
            noise = zlib.crc32(f"{name} {n} {epsilon} {seed}".encode())
            own = frame[known] if method in ("boosting", "flips") else frame
            start = time.process_time()
            model = built(method, epsilon, noise).fit(own.iloc[rows], y[rows])
            seconds = time.process_time() - start
            if numbers:
                score = r2_score(y[tests], model.predict(own.iloc[tests]))
            else:
                chances = np.clip(model.predict_proba(own.iloc[tests]), 1e-3, 1 - 1e-3)
                score = log_loss(y[tests], chances / chances.sum(axis=1, keepdims=True))
            found = {"score": score, "seconds": seconds, "numbers": numbers}
            yield cell | {"method": method, "epsilon": epsilon, "public": share} | found


def noise():
    """Yield the mean and the worst variance of random numbers, and the least ones."""
    sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "estimators"))
    from test_label_dp import OPTIMA

    from skfdp.label_dp import HALF, randomised

    steps = np.rint(np.linspace(-HALF, HALF, 21)).astype(np.int64).repeat(100_000)
    for epsilon in sorted({*EPSILONS["labels"], 5.0}):
        draws = randomised(steps, epsilon, np.random.default_rng(0)) / HALF
        ours = draws.reshape(21, -1).var(axis=1)
        line = {"part": "noise", "epsilon": epsilon, "Laplace": 8 / epsilon**2}
        least = dict(zip(("least mean", "least worst"), OPTIMA[epsilon], strict=True))
        yield line | {"mean": ours.mean(), "worst": ours.max()} | least


def report(paths: list[Path]) -> None:
    """Print a file, and how far it is ahead of an earlier file, if there are two."""
    found = pd.concat([pd.read_json(path, lines=True) for path in paths], keys=paths)
    if len(paths) > 1:
        found.loc[[paths[0]], "method"] = "before"
    print(about()["date"][:10], about()["versions"], "\n")
    keys, at = ["public", "numbers", "table", "n", "epsilon"], "epsilon in (1, 3)"
    for part, (half, tables) in itertools.product(PARTS, TABLES.items()):
        runs = found[(found["part"] == part) & found["table"].isin([*tables])]
        if runs.empty:
            continue
        runs = runs.astype({"n": int, "numbers": bool})
        wide = runs.pivot_table("score", [*keys, "seed"], "method").dropna()
        ours, rivals = PARTS[part][0], wide.columns.drop(PARTS[part][0])
        sign = np.where(wide.index.get_level_values("numbers") == 1, 1, -1)
        ahead = (-wide[rivals].sub(wide[ours], axis=0)).mul(sign, axis=0).groupby(keys)
        gain = ahead.mean()
        shown = {"score": wide.groupby(keys).mean(), "gain": gain, "error": ahead.sem()}
        print(f"== {part}, half {half}: {runs['seed'].nunique()} splits")
        print(pd.concat(shown, axis=1).round(4).to_string(), "\n")
        some = gain.query(f"n > 3000 and {at}").groupby(keys[:2])
        print(f"gain of {ours} with more than 3,000 rows, {at}")
        print(some.agg(["mean", "min", "count"]).round(4).to_string(), "\n")
        first = runs[(runs["epsilon"] == runs["epsilon"].min()) & (runs["n"] > 3000)]
        print("seconds of a first fit on one core, median over splits")
        seconds = first.groupby(["table", "n", "method"])["seconds"].median()
        print(seconds.unstack().round(2).to_string(), "\n")
    if "Laplace" in found:
        print("== noise: variances of a random number within [-1, 1]")
        of_noise = found.dropna(subset="Laplace").drop(columns="part")
        print(of_noise.dropna(axis=1).round(4).to_string(index=False))


def main() -> None:
    """Run the fits, or print the report of those that were run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=[*PARTS, "noise"], nargs="?")
    parser.add_argument("--tables", nargs="*", help="names; default: all")
    parser.add_argument("--methods", nargs="*", help="default: all of the part")
    shares = "half", "most", "all", "none"
    parser.add_argument("--public", choices=shares, default="half")
    parser.add_argument("--sizes", nargs="*", type=int, default=[3000, MOST])
    parser.add_argument("--epsilons", nargs="*", type=float, help="default: four")
    parser.add_argument("--seeds", nargs="*", type=int, default=range(5))
    parser.add_argument("--out", type=Path, default=Path("interactions.jsonl"))
    parser.add_argument("--report", type=Path, nargs="*")
    given = parser.parse_args()
    if given.report is not None:
        return report(given.report)
    warnings.simplefilter("ignore")
    given.methods = given.methods or PARTS.get(given.part)
    every = {name: load for half in TABLES.values() for name, load in half.items()}
    names = given.tables or (LABELS if given.part == "labels" else every)
    found = (lines(given.part, name, every[name], given) for name in names)
    for line in noise() if given.part == "noise" else itertools.chain(*found):
        with given.out.open("a") as file:
            file.write(json.dumps(line) + "\n")
    print(json.dumps(about()))


if __name__ == "__main__":
    main()
