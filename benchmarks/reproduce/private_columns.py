"""Label and some columns private: do the public columns pay?

Sixteen tables, half of them put aside before any rule was chosen. Private are the label
and 1, 2, 4 or a half of the raw columns, drawn once. Each fit is compared with a fit in
which nothing is public and with label-DP on the public columns alone, on the same rows,
budget and seed, with a single descent (the default before there was a first model),
and with models without privacy. ``--curves`` declares numbers as splines. "classes" and
"regression" are further tables, put aside as a whole. "targets" are other targets
of the same tables. Shares of the budget were chosen by `known_without_data.py`, on
"dev" and half of "targets". The rules for regressions were
chosen on eleven other regressions with numbers of the tables of people as targets.

    python benchmarks/reproduce/private_columns.py --half dev --seeds 2 --out runs.jsonl
    python benchmarks/reproduce/private_columns.py --report runs.jsonl

The tables of people are read from SKFDP_DATA: ``tables/*.csv.gz``, ``acs/*.csv.gz`` and
Adult. Seeds make the runs reproducible: **they are not private fits**.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import time
import warnings
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pandas as pd
from _common import about
from _data import load_adult
from _problems import Generated
from _tables import GENERATED, survey_columns
from regression import ANES, VISITS, survey
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, r2_score, roc_auc_score

from skfdp import FeatureDPLogisticRegression, FeatureDPRegressor, TableSchema
from skfdp.privacy import gdp_mu
from skfdp.schema import Category, Label, Number

DELTA = 1e-5
EPSILONS = (0.1, 0.3, 1.0, 3.0, 8.0)
PRIVATE = (1, 2, 4, "half")
MOST_TEST = 8000

#: X in [0, 1], the raw column of each of its columns, and labels 0, 1, ... or a target.
Encoded = tuple[np.ndarray, np.ndarray, np.ndarray]


def encoded(frame: pd.DataFrame, spec: dict, y: np.ndarray) -> Encoded:
    """Return columns scaled by declared bounds, or one for each declared level."""
    X, raw = [], []
    for place, (name, declared) in enumerate(spec.items()):
        if isinstance(declared, tuple):
            low, high = declared
            values = pd.to_numeric(frame[name], errors="coerce")
            values = values.fillna((low + high) / 2).clip(low, high).to_numpy()
            columns = ((values - low) / (high - low))[:, None]
        elif len(declared) == 2:
            columns = (frame[[name]].to_numpy() == declared[1]).astype(float)
        else:
            levels = np.array(declared, dtype=object)
            columns = (frame[[name]].to_numpy() == levels).astype(float)
        X.append(columns)
        raw += [place] * columns.shape[1]
    return np.hstack(X), np.array(raw), np.asarray(y)


def folder() -> Path:
    """Return the folder of local tables."""
    return Path(os.environ.get("SKFDP_DATA", ".")).expanduser()


def people(name: str, target: str, outcome, numbers: dict) -> Encoded:
    """Return a table of people; levels are those that its columns have."""
    path = folder() / "tables" / f"{name}.csv.gz"
    frame = pd.read_csv(path, dtype=str, keep_default_na=False, na_values=[""])
    spec = {
        column: numbers.get(column, sorted(frame[column].dropna().unique().tolist()))
        for column in frame
        if column != target
    }
    return encoded(frame, spec, outcome(frame[target]))


def survey_of_work(file: str, target: str, outcome) -> Encoded:
    """Return a table of the American Community Survey, coded in integers."""
    frame = pd.read_csv(folder() / "acs" / f"{file}.csv.gz")
    levels = json.loads((folder() / "acs" / f"{file}-domain.json").read_text())
    spec = {
        name: (0, levels[name] - 1) if levels[name] > 30 else list(range(levels[name]))
        for name in frame
        if name != target
    }
    return encoded(frame, spec, outcome(frame[target]))


def adult_table() -> Encoded:
    """Return Adult without its sampling weight, capital on a logarithmic scale."""
    parts = [load_adult("train"), load_adult("test")]
    frame = pd.concat([part.data for part in parts], ignore_index=True)
    y = pd.concat([part.target for part in parts]).to_numpy() == ">50K"
    declared = parts[0].bounds | parts[0].categories
    for name in ("capital-gain", "capital-loss"):
        frame[name] = np.log1p(frame[name])
        declared[name] = tuple(np.log1p(declared[name]))
    return encoded(frame, {c: declared[c] for c in frame if c != "fnlwgt"}, y)


def of_statsmodels(name: str) -> Encoded:
    """Return a survey that comes with statsmodels."""
    X, y, (low, high) = survey_columns(name)
    raw = np.arange(X.shape[1])
    if name.startswith("fair"):  # two occupations of six levels
        raw = np.r_[np.arange(6), np.repeat([6, 7], 6)]
    return np.clip((X - low) / (high - low), 0, 1), raw, y


def generated(problem: Generated) -> Encoded:
    """Return a generated table, training and test rows together."""
    split = problem.load(0)
    X, y = np.vstack([split.X, split.X_test]), np.r_[split.y, split.y_test]
    low, high = split.bounds
    X = np.clip((X - low) / (np.asarray(high) - low), 0, 1)
    return X, np.arange(X.shape[1]), y


def tumours() -> Encoded:
    """Return scikit-learn's table of tumours: ten properties, three numbers each."""
    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.min(axis=0)) / np.ptp(X, axis=0), np.arange(30) % 10, y


def waves(name: str, target: str, columns: dict, bounds: tuple) -> Encoded:
    """Return a regression of statsmodels, its target between 0 and 1."""
    X, y, (low, high), _ = survey(name, target, columns, bounds)
    y = (y - bounds[0]) / (bounds[1] - bounds[0])
    return np.clip((X - low) / (high - low), 0, 1), np.arange(X.shape[1]), y


def _is(value: str) -> Callable:
    return lambda column: (column == value).to_numpy()


def _among(values: Iterable[str]) -> Callable:
    return lambda column: column.isin(list(values)).to_numpy()


def _from(cut: int) -> Callable:
    return lambda column: (column >= cut).to_numpy()


def _over(most: float) -> Callable:
    return lambda column: column.astype(float).to_numpy() / most


def _in_thirds(column: pd.Series) -> np.ndarray:
    low = column.str.extract(r"(\d+)")[0].astype(float).fillna(0)
    return np.digitize(low, [20, 40])


def _of_income(column: pd.Series) -> np.ndarray:
    low = column.str.extract(r"(\d+)")[0].astype(float).fillna(0)
    return (low >= 30).to_numpy()


_TELCO = {"tenure": (0, 72), "MonthlyCharges": (0, 150), "TotalCharges": (0, 10_000)}
_CARDIO = {
    "age": (10_000, 25_000),
    "height": (120, 220),
    "weight": (30, 200),
    "ap_hi": (60, 240),
    "ap_lo": (30, 150),
}
_BANK = {
    "CreditScore": (300, 850),
    "Age": (18, 100),
    "Tenure": (0, 10),
    "Balance": (0, 250_000),
    "EstimatedSalary": (0, 200_000),
}
_INSURANCE = {"age": (18, 65), "bmi": (10, 60), "children": (0, 6)}
_STROKE = {"age": (0, 100), "bmi": (10, 60)}
#: Other targets of the tables of people: file, target, its value 1, and its numbers.
_TARGETS = {
    "cardio, cholesterol": ("cardio", "cholesterol", "23", _CARDIO),
    "cardio, smoke": ("cardio", "smoke", "1", _CARDIO),
    "telco, paperless": ("telco_churn", "PaperlessBilling", ["Yes"], _TELCO),
    "telco, partner": ("telco_churn", "Partner", ["Yes"], _TELCO),
    "bank, products": ("bank_churn", "NumOfProducts", "234", _BANK),
    "stroke, hypertension": ("stroke", "hypertension", "1", _STROKE),
    "stroke, heart": ("stroke", "heart_disease", "1", _STROKE),
    "stroke, married": ("stroke", "ever_married", ["Yes"], _STROKE),
    "marketing, two incomes": ("marketing", "DUAL.INCOMES", ["Yes"], {}),
    "marketing, owner": ("marketing", "HOUSEHOLDER", ["Own"], {}),
    "insurance, smoker": (
        "insurance",
        "smoker",
        ["yes"],
        _INSURANCE | {"charges": (0, 65_000)},
    ),
}
HALVES: dict[str, dict[str, Callable[[], Encoded]]] = {
    "dev": {
        "ACSEmployment": lambda: survey_of_work("ACSemployment", "ESR", _from(1)),
        "Adult": adult_table,
        "telco churn": lambda: people("telco_churn", "Churn", _is("Yes"), _TELCO),
        "fair affairs": lambda: of_statsmodels("fair affairs"),
        "cardio": lambda: people("cardio", "cardio", _is("1"), _CARDIO),
        "tumours": tumours,
        "strong numbers": lambda: generated(GENERATED["strong numbers, 4 and 5 x 8"]),
        "wide bounds": lambda: generated(GENERATED["wide bounds, 2000"]),
    },
    "aside": {
        "ACSIncome": lambda: survey_of_work("ACSincome-LIN", "PINCP", _from(10)),
        "bank churn": lambda: people("bank_churn", "Exited", _is("1"), _BANK),
        "stroke": lambda: people("stroke", "stroke", _is("1"), _STROKE),
        "marketing": lambda: people("marketing", "INCOME", _of_income, {}),
        "anes96 vote": lambda: of_statsmodels("anes96 vote"),
        "randhie any visit": lambda: of_statsmodels("randhie any visit"),
        "strong numbers, 3": lambda: generated(
            GENERATED["strong numbers, 3 and 8 x 5"]
        ),
        "blocks of factors": lambda: generated(GENERATED["blocks of factors, 7000"]),
    },
    "classes": {
        "marketing, thirds": lambda: people("marketing", "INCOME", _in_thirds, {}),
        "ACSIncome, fifths": lambda: survey_of_work(
            "ACSincome-LIN", "PINCP", lambda target: (target // 4).clip(0, 4).to_numpy()
        ),
        "fair marriage": lambda: of_statsmodels("fair marriage"),
    },
    "targets": {
        name: functools.partial(people, file, target, _among(values), numbers)
        for name, (file, target, values, numbers) in _TARGETS.items()
    }
    | {
        name: functools.partial(survey_of_work, file, target, outcome)
        for name, file, target, outcome in (
            ("work, married", "ACSemployment", "MAR", lambda t: (t == 0).to_numpy()),
            ("work, disabled", "ACSemployment", "DIS", lambda t: (t == 0).to_numpy()),
            ("income, sex", "ACSincome-LIN", "SEX", _from(1)),
            ("income, hours", "ACSincome-LIN", "WKHP", _from(40)),
        )
    },
    "regression": {
        "insurance": lambda: people("insurance", "charges", _over(65_000), _INSURANCE),
        "ACSIncome, step": lambda: survey_of_work("ACSincome-LIN", "PINCP", _over(19)),
        "anes96 income": lambda: waves("anes96", "income", ANES, (1, 24)),
        "randhie visits": lambda: waves("randhie", "mdvis", VISITS, (0, 100)),
    },
}


def public_columns(raw: np.ndarray, number: int | str) -> np.ndarray:
    """Return which raw columns are public: all but some that are drawn once."""
    order = np.random.default_rng(7).permutation(raw.max() + 1)
    return ~np.isin(
        np.sort(order), order[: len(order) // 2 if number == "half" else number]
    )


def with_curves(X: np.ndarray, raw: np.ndarray) -> tuple[pd.DataFrame, dict]:
    """Return raw columns, and by name the place of each and how to declare it."""
    table, declared = {}, {}
    for place in range(raw.max() + 1):
        columns = X[:, raw == place]
        if columns.shape[1] > 1 and (columns.sum(axis=1) <= 1).all():
            # The last level is that of no column.
            codes = np.where(
                columns.any(axis=1), columns.argmax(axis=1), columns.shape[1]
            )
            levels = list(range(columns.shape[1] + 1))
            table[f"{place}"] = codes
            declared[f"{place}"] = place, functools.partial(Category, levels)
            continue
        for k, column in enumerate(columns.T):
            table[f"{place}.{k}"] = column
            declared[f"{place}.{k}"] = place, functools.partial(Number, 0, 1)
    return pd.DataFrame(table), declared


def scores(model, X, y) -> tuple[float, float]:
    """Return AUC (the mean over the classes; R2 of a regression) and log loss."""
    if isinstance(model, FeatureDPRegressor):
        return r2_score(y, model.predict(X)), math.nan
    share = np.clip(model.predict_proba(X), 1e-12, 1)
    each = [roc_auc_score(y == k, share[:, k]) for k in range(share.shape[1])]
    return float(np.mean(each)), log_loss(y, share)


def fits(X, y, rows, tests, raw, epsilon: float, seed: int, given):
    """Yield the number of private columns, the method, and its two scores."""
    shared = {"random_state": seed, "neighboring_relation": given.relation}
    regression, labels = y.dtype.kind == "f", list(range(round(y.max()) + 1))
    make = FeatureDPRegressor if regression else FeatureDPLogisticRegression
    if given.curves:
        frame, declared = with_curves(X, raw)
        outcome = Number(0, 1) if regression else Label(labels)

    def told(used: np.ndarray, public: np.ndarray, **asked) -> tuple[float, float]:
        """Fit on some raw columns, of which some are public."""
        if given.curves:
            columns = {
                name: kind(public=bool(public[place]))
                for name, (place, kind) in declared.items()
                if used[place]
            }
            table = frame[list(columns)].iloc
            own = {"schema": TableSchema(columns | {"y": outcome}, outcomes=["y"])}
        else:
            table = X[:, used[raw]]
            own = {"bounds": (0, 1), "public_features": public[raw][used[raw]]}
            own |= {"target_bounds": (0, 1)} if regression else {"classes": labels}
        model = make(epsilon, DELTA, **own, **asked, **shared)
        return scores(model.fit(table[rows], y[rows]), table[tests], y[tests])

    def free(used: np.ndarray) -> tuple[float, float]:
        """Fit on some raw columns without privacy."""
        best = LogisticRegression(C=10, max_iter=5000).fit(
            X[rows][:, used[raw]], y[rows]
        )
        return scores(best, X[tests][:, used[raw]], y[tests])

    every = np.ones(raw.max() + 1, dtype=bool)
    nothing = told(every, ~every)
    for number in PRIVATE:
        if number != "half" and number > raw.max():
            continue
        public = public_columns(raw, number)
        yield number, "nothing public", nothing
        yield number, "label-DP", told(public, every)
        yield number, "columns public", told(every, public)
        if not regression:
            yield number, "one descent", told(every, public, public_model=None)
        if not (regression or given.curves) and epsilon == 1:
            # These models do not depend on epsilon.
            yield number, "no privacy", free(every)
            yield number, "no privacy, public columns", free(public)


def run(tables: dict, given) -> None:
    """Append one JSON line for each fit."""
    for name, load in tables.items():
        X, raw, y = load()
        y = y.astype(int) if y.dtype.kind in "bi" else y
        for n in given.sizes:
            for seed in range(given.first_seed, given.first_seed + given.seeds):
                order = np.random.default_rng([seed, n]).permutation(len(y))
                n_test = min(MOST_TEST, len(y) // 4)
                tests, rows = order[:n_test], order[n_test : n_test + n]
                for epsilon in EPSILONS:
                    known = {"table": name, "n": len(rows), "seed": seed}
                    known |= {"epsilon": epsilon}
                    known["n_mu"] = len(rows) * gdp_mu(epsilon, DELTA)
                    # The same noise in all cells would not average out.
                    noise = zlib.crc32(f"{name} {len(rows)} {epsilon} {seed}".encode())
                    found = fits(X, y, rows, tests, raw, epsilon, noise, given)
                    with given.out.open("a") as file:
                        for number, method, (auc, loss) in found:
                            line = {"private": str(number), "method": method}
                            line |= {"auc": auc, "log_loss": loss}
                            file.write(json.dumps(known | line) + "\n")


RIVALS = ["nothing public", "label-DP"]


def ahead(scores: pd.Series) -> pd.Series:
    """Return how far public columns are ahead of the better rival, in each cell.

    The better of two means of noisy scores looks better than it is. So the rival is
    chosen on all other seeds, once for each seed.
    """
    wide = scores.unstack(["method", "seed"])
    own = wide["columns public"]
    rivals = np.stack([wide[rival].to_numpy() for rival in RIVALS])
    others = rivals.sum(axis=2, keepdims=True) - rivals
    better = np.take_along_axis(rivals, others.argmax(axis=0)[None], axis=0)[0]
    return (own - better).mean(axis=1)


def report(path: Path) -> None:
    """Print mean differences: points of AUC, and thousandths of log loss."""
    found = pd.read_json(path, lines=True)
    pd.set_option("display.width", 120)
    pd.set_option("display.max_columns", 20)
    keys = ["table", "n", "n_mu", "epsilon", "private"]
    table = found.pivot_table(
        index=keys, columns="method", values=["auc", "log_loss"], dropna=False
    ).dropna(how="all")
    auc, loss = (table[score]["columns public"] for score in ("auc", "log_loss"))
    columns = {}
    for rival in [*RIVALS, "one descent"]:
        if rival in table["auc"]:
            columns[rival] = 100 * (auc - table["auc"][rival])
            columns[f"{rival}, loss"] = 1000 * (loss - table["log_loss"][rival])
    columns["better of both"] = 100 * (auc - table["auc"][RIVALS].max(axis=1))
    least = table["log_loss"][RIVALS].min(axis=1)
    columns["better of both, loss"] = 1000 * (loss - least)
    of_seeds = found.set_index([*keys, "seed", "method"])
    columns["better, of others"] = 100 * ahead(of_seeds["auc"])
    columns["better, of others, loss"] = -1000 * ahead(-of_seeds["log_loss"])
    cells = pd.DataFrame(columns).reset_index()
    cells["n mu"] = pd.cut(cells["n_mu"], [0, 300, 1000, 4000, np.inf], right=False)
    print("columns public, minus ...: points of AUC, thousandths of log loss")
    for by in ("n mu", "private", "table"):
        print(cells.groupby(by, observed=True)[list(columns)].mean().round(2), "\n")
    for low, name in ((0, "all cells"), (300, "n mu of 300 and more")):
        kept = cells[cells["n_mu"] >= low]
        print(f"{name}, {len(kept)}:\n{kept[list(columns)].mean().round(2)}\n")
    if "no privacy" in table["auc"]:
        methods = ["no privacy", "no privacy, public columns"]
        by = ["table", "private"]
        best, without = (table["auc"][m].groupby(by).mean() for m in methods)
        gained = best - without >= 0.01
        cells = cells.set_index(by)
        cells = cells[gained.loc[cells.index].to_numpy()]
        cells = cells[cells["n"] * cells["epsilon"] >= 3000]
        if len(cells):
            of_tables = cells["label-DP"].groupby(level="table").mean()
            print(
                "where the private columns add a point of AUC without privacy, and "
                f"epsilon n is 3,000 and more: {cells['label-DP'].mean():.2f} points "
                f"above label-DP in {len(cells)} cells\n{of_tables.round(2)}\n"
            )
    one = table.xs(1.0, level="epsilon").droplevel(["n", "n_mu"]).round(3)
    print(f"epsilon 1:\n{one.to_string()}\n")


def main() -> None:
    """Run the fits, or print the table of those that were run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=[*HALVES], default="dev")
    parser.add_argument("--tables", nargs="*", help="names; default: all of the half")
    parser.add_argument("--sizes", nargs="*", type=int, default=[2000])
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("private_columns.jsonl"))
    parser.add_argument("--curves", action="store_true", help="numbers as splines")
    parser.add_argument("--relation", default="replace_one")
    parser.add_argument("--report", type=Path)
    given = parser.parse_args()
    if given.report is not None:
        return report(given.report)
    warnings.simplefilter("ignore")
    start, tables = time.time(), HALVES[given.half]
    chosen = {name: tables[name] for name in given.tables or tables}
    run(chosen, given)
    print(json.dumps(about() | {"seconds": round(time.time() - start)}))


if __name__ == "__main__":
    main()
