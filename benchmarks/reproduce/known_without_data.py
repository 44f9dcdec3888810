"""Is a default fit worse than what is known without the private data?

Known are a constant (class frequencies released with the whole budget, "floor") and,
with a public target, a model of the public columns without privacy ("free"). Tables of
strong, weak and no signal, in two halves: rules may be chosen on "dev", and "aside" was
looked at once. Each line of the output is a fit of a split of the raw columns:

nothing        nothing is public
half, target   half of the columns and the target are public
half           half of the columns are public
without        the other half is left out, only the target is private
label          only the target is private

A signal x is n times the Gaussian-DP parameter of the budget. The gap of a fit is
(loss - best) / (floor - best), where the best is scikit-learn's logistic regression
without privacy, its penalty chosen by cross-validation: 0 if nothing is lost, 1 if no
more is learnt than a constant tells. PYTHONPATH chooses the version that is run.

    python benchmarks/reproduce/known_without_data.py --half dev --out now.jsonl
    python benchmarks/reproduce/known_without_data.py --report before.jsonl now.jsonl

The tables of people are read from SKFDP_DATA (see `private_columns.py`). Seeds make the
runs reproducible: **they are not private fits**.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import time
import warnings
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
from _common import about
from private_columns import (
    _BANK,
    _CARDIO,
    _STROKE,
    _TELCO,
    DELTA,
    HALVES,
    MOST_TEST,
    _among,
    people,
    public_columns,
    with_curves,
)
from scipy.special import logit
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss, roc_auc_score

from skfdp import DeclaredEncoder, FeatureDPLogisticRegression, TableSchema
from skfdp.privacy import gdp_mu
from skfdp.schema import Label
from skfdp.solvers.parameters import GAPS
from skfdp.solvers.parameters import SIGNALS as STATED

EPSILONS = (0.03, 0.1, 0.3, 1.0, 3.0, 8.0)
SIZES = (1000, 3000, 10_000)
SPLITS = ("nothing", "half, target", "half", "without", "label")
#: A table is weak if no model gains this much log loss over a constant.
WEAK = 0.05
#: Data sets of "targets" that are in the half "dev".
DEV = ("cardio", "telco", "work", "insurance")
#: Further targets, of which the columns tell little: half, file, target, its value 1.
WEAKER = (
    ("dev", "cardio", "active", "0", _CARDIO),
    ("dev", "cardio", "alco", "1", _CARDIO),
    ("dev", "cardio", "gluc", "23", _CARDIO),
    ("dev", "telco_churn", "gender", ["Male"], _TELCO),
    ("dev", "telco_churn", "SeniorCitizen", "1", _TELCO),
    ("aside", "bank_churn", "HasCrCard", "0", _BANK),
    ("aside", "bank_churn", "IsActiveMember", "1", _BANK),
    ("aside", "bank_churn", "Gender", ["Male"], _BANK),
    ("aside", "stroke", "Residence_type", ["Urban"], _STROKE),
    ("aside", "marketing", "SEX", ["M"], {}),
)


def noise(share: float):
    """Return 8 numbers and 8 categories, 4 levels each, which tell nothing."""
    rng = np.random.default_rng(0)
    n = 24_000
    codes = rng.integers(4, size=(n, 8))
    levels = (codes[:, :, None] == np.arange(4)).reshape(n, 32).astype(float)
    numbers = np.clip(rng.normal(size=(n, 8)) / 8 + 0.5, 0, 1)
    raw = np.r_[np.arange(8), 8 + np.repeat(np.arange(8), 4)]
    return np.hstack([numbers, levels]), raw, (rng.random(n) < share).astype(int)


def tables(half: str) -> dict:
    """Return the tables of a half; two targets of one data set are in the same."""
    dev = half == "dev"
    others = {
        name: load
        for name, load in HALVES["targets"].items()
        if name.startswith(DEV) == dev
    }
    others |= {
        f"{file}, {target}": functools.partial(
            people, file, target, _among(values), numbers
        )
        for place, file, target, values, numbers in WEAKER
        if place == half
    }
    rare = (0.1, 0.3) if dev else (0.05, 0.5)
    made = {f"noise {share}": functools.partial(noise, share) for share in rare}
    return HALVES[half] | others | made


def of_table(name: str, load, given):
    """Yield one line for each fit of a table."""
    X, raw, y = load()
    y = y.astype(int)
    frame, declared = with_curves(X, raw)
    every = np.ones(raw.max() + 1, dtype=bool)
    half = public_columns(raw, "half")

    def schema(used, public, target: bool) -> TableSchema:
        columns = {
            column: kind(public=bool(public[place]))
            for column, (place, kind) in declared.items()
            if used[place]
        }
        outcome = Label(list(range(y.max() + 1)), public=target)
        return TableSchema(columns | {"y": outcome}, outcomes=["y"])

    plans = {
        "nothing": (every, ~every, False),
        "half, target": (every, half, True),
        "half": (every, half, False),
        "without": (half, half, False),
        "label": (every, every, False),
    }
    for n, seed in itertools.product(given.sizes, range(given.seeds)):
        order = np.random.default_rng([seed, n]).permutation(len(y))
        n_test = min(MOST_TEST, len(y) // 4)
        test, rows = order[:n_test], order[n_test : n_test + n]
        if n > len(y) - n_test or np.bincount(y[rows]).min() < 5:
            continue
        truth = y[test]

        loss_of = functools.partial(log_loss, truth)

        shares = np.bincount(y[rows], minlength=y.max() + 1) / n
        constant = loss_of(np.tile(shares, (n_test, 1)))
        ends = {}
        for kept, own in (("best", every), ("free", half)):
            columns = [c for c, (place, _) in declared.items() if own[place]]
            table = frame[columns]
            encoder = DeclaredEncoder(schema=schema(own, own, False))
            model = LogisticRegressionCV(cv=3, Cs=[1e-3, 0.01, 0.1, 1.0, 10.0])
            model.set_params(scoring="neg_log_loss")
            model.fit(encoder.fit_transform(table.iloc[rows]), y[rows])
            told = encoder.transform(table.iloc[test])
            ends[kept] = loss_of(model.predict_proba(told))
        for epsilon in given.epsilons:
            own = zlib.crc32(f"{name} {n} {epsilon} {seed}".encode())
            signal = n * gdp_mu(epsilon, DELTA)
            # Counts of both classes with the whole budget: this error of a share.
            error = np.random.default_rng(own).normal() / signal
            rare = np.clip(shares[1] + error, 1 / n, 1 - 1 / n)
            floor = loss_of(np.tile([1 - rare, rare], (n_test, 1)))
            for split in given.splits:
                used, public, target = plans[split]
                columns = [c for c, (place, _) in declared.items() if used[place]]
                model = FeatureDPLogisticRegression(
                    epsilon,
                    DELTA,
                    schema=schema(used, public, target),
                    random_state=own,
                ).fit(frame[columns].iloc[rows], y[rows])
                share = model.predict_proba(frame[columns].iloc[test])
                margins = logit(np.clip(share[:, 1], 1e-9, 1 - 1e-9))
                slope = LogisticRegression(C=1e6).fit(margins[:, None], truth)
                found = {
                    "loss": loss_of(share),
                    "level": share[:, 1].mean() - truth.mean(),
                    "spread": margins.std(),
                    "slope": slope.coef_[0, 0],
                    "auc": roc_auc_score(truth, share[:, 1]),
                    "floor": floor,
                    "constant": constant,
                    "columns": model.coef_.shape[1],
                }
                cell = {"table": name, "n": n, "seed": seed, "epsilon": epsilon}
                cell |= {"split": split, "x": signal}
                yield cell | {k: float(v) for k, v in (found | ends).items()}


def read(path: Path) -> pd.DataFrame:
    """Return the lines of a file, with the split's best known loss."""
    found = pd.read_json(path, lines=True)
    found["known"] = np.where(
        found["split"] == "half, target", found["free"], found["floor"]
    )
    gained = found.groupby("table")[["constant", "best"]].mean()
    weak = gained["constant"] - gained["best"] < WEAK
    found["signal"] = np.where(found["table"].map(weak), "weak", "strong")
    found.loc[found["table"].str.startswith("noise"), "signal"] = "none"
    return found


def with_gap(found: pd.DataFrame) -> pd.DataFrame:
    """Add gap and signal, x / (columns / 100) ** (1 / 4); leave out what tells nothing.

    That are tables whose best model is within .02 of what is known.
    """
    known = np.where(found["split"] == "half, target", found["free"], found["constant"])
    told = known - found["best"]
    gap = (found["loss"] - found["best"]) / told
    signal = found["x"] / (found["columns"] / 100) ** 0.25
    return found.assign(gap=gap, signal=signal)[told > 0.02]


def within(cells: pd.DataFrame) -> float:
    """Return the share of fits, in %, that are between the stated quartiles."""
    names = dict(zip(GAPS, ("nothing", "label", "half", "half, target"), strict=True))
    inside = []
    for name, split in names.items():
        own = cells[cells["split"] == split]
        place = np.log(own["signal"]), np.log(STATED)
        low, _, high = (np.interp(*place, ends) / 100 for ends in GAPS[name])
        inside.append(own["gap"].between(low, high))
    return 100 * pd.concat(inside).mean()


def quartiles(cells: pd.DataFrame) -> pd.DataFrame:
    """Return quartiles of the gap by split and signal, over fits within a factor 1.8.

    Quartiles do not rise with the signal.
    """
    rows = {}
    for split, own in cells.groupby("split"):
        for at in STATED[:-1]:
            near = own[np.abs(np.log(own["signal"] / at)) < np.log(1.8)]
            rows[split, at] = near["gap"].quantile([0.25, 0.5, 0.75])
    table = pd.DataFrame(rows).T.clip(lower=0)
    return (
        table.groupby(level=0)
        .cummin()
        .assign(tables=[len(cells[cells["split"] == split]) for split, _ in rows])
    )


def report(paths: list[Path]) -> None:
    """Print the marks of each file, and the mean change from the first to the last."""
    files = [read(path) for path in paths]
    for path, found in zip(paths, files, strict=True):
        print(f"== {path.name}")
        found["band"] = pd.cut(found["x"], [0, 80, 250, 1e6])
        by = ["split", "signal", "epsilon"]
        cells = found.groupby(["table", "n", *by, "band"], observed=True)
        cells = cells[["loss", "known", "floor", "level", "spread"]].mean()
        above = 1000 * (cells["loss"] - cells["known"])
        worse = (above > 5).groupby(["split", "band"], observed=True)
        print("cells above what is known by .005, %")
        print((100 * worse.mean()).unstack().round(1), "\n")
        large = (above[above.index.get_level_values("n") >= 3000] > 5).groupby("split")
        print("with n >= 3,000, %:", (100 * large.mean()).round(1).to_dict())
        print("of cells:", large.size().to_dict(), "\n")
        print("mean above what is known, thousandths")
        print(above.groupby(by).mean().unstack().round(1), "\n")
        none = cells.query("signal == 'none'").groupby(["split", "epsilon"])
        print("no signal: level error (thousandths), spread of logits")
        print((1000 * none["level"].mean()).unstack().round(1))
        print(none["spread"].mean().unstack().round(2), "\n")
        usual = found[(found["spread"] >= 0.1) & (found["signal"] != "none")]
        each = usual.groupby(["split", "epsilon", "table"])["slope"].median()
        print("calibration slope, median over tables")
        print(each.groupby(["split", "epsilon"]).median().unstack().round(2), "\n")
        wide = found.pivot_table(
            index=["table", "n", "epsilon", "seed"], columns="split", values="loss"
        )
        if {"half", "nothing", "without"} <= {*wide}:
            rival = wide[["nothing", "without"]]
            means = rival.groupby(level=[0, 1, 2]).transform("mean")
            behind = wide["half"] - np.where(
                means["nothing"] < means["without"], rival["nothing"], rival["without"]
            )
            behind = behind.groupby(level=[0, 1, 2]).agg(["mean", "sem"]).fillna(0)
            lost = (behind["mean"] > 0.01) & (behind["mean"] > 2 * behind["sem"])
            print("half public: cells behind the better of nothing and without, %")
            print((100 * lost).groupby("epsilon").mean().round(1).to_dict())
            print(f"all: {100 * lost.mean():.1f} of {len(lost)}\n")
        told = with_gap(found)
        print(f"gap between the stated quartiles: {within(told):.1f} %, and by signal")
        print(quartiles(told).round(2).to_string(), "\n")
    if len(files) > 1:
        keys = ["table", "n", "seed", "epsilon", "split", "signal"]
        first, last = (
            one.set_index(keys)[["loss", "auc"]] for one in files[:: len(files) - 1]
        )
        change = (last - first).dropna()
        print("change: thousandths of log loss, points of AUC")
        for score, unit in (("loss", 1000), ("auc", 100)):
            mean = change[score].groupby(["n", "split", "signal", "epsilon"]).mean()
            print((unit * mean).unstack().round(2).to_string(), "\n")


def main() -> None:
    """Run the fits, or print the report of those that were run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=("dev", "aside"), default="dev")
    parser.add_argument("--tables", nargs="*", help="names; default: all of the half")
    parser.add_argument("--sizes", nargs="*", type=int, default=[*SIZES])
    parser.add_argument("--epsilons", nargs="*", type=float, default=[*EPSILONS])
    parser.add_argument("--splits", nargs="*", default=[*SPLITS])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("known_without_data.jsonl"))
    parser.add_argument("--report", type=Path, nargs="*")
    given = parser.parse_args()
    if given.report is not None:
        return report(given.report)
    warnings.simplefilter("ignore")
    start, chosen = time.time(), tables(given.half)
    for name in given.tables or chosen:
        for line in of_table(name, chosen[name], given):
            with given.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
    print(json.dumps(about() | {"seconds": round(time.time() - start)}))


if __name__ == "__main__":
    main()
