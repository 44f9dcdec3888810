"""Gamma and Tweedie losses beside the Poisson and the squared loss.

    python benchmarks/reproduce/amounts.py > benchmarks/results/amounts.txt

Amounts of a table of people (charges of an insurance), counts of a survey (doctor's
visits, statsmodels' randhie), and a laboratory figure (scikit-learn's diabetes). D2 is
the share of the constant's deviance (power 1.5 of Tweedie, on held-out rows) that a
model explains; 70 % of the rows train it. SKFDP_DATA has the table of people. Seeds
make the runs reproducible: **they are not private fits**.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
from _common import about
from private_columns import _INSURANCE, folder
from sklearn.datasets import load_diabetes
from sklearn.metrics import d2_tweedie_score
from statsmodels.datasets import randhie

from skfdp import FeatureDPRegressor, TableSchema
from skfdp.schema import Category, Number
from skfdp.solvers import Tweedie

EPSILONS, SEEDS = (0.3, 1.0, 3.0, 8.0, math.inf), 8


def tables():
    """Yield a name, a frame with the target "y", its columns' types, and the bounds."""
    frame = pd.read_csv(folder() / "tables" / "insurance.csv.gz")
    columns = {name: Number(*ends) for name, ends in _INSURANCE.items()} | {
        name: Category(sorted(frame[name].unique()))
        for name in ("sex", "smoker", "region")
    }
    yield "insurance", frame.rename(columns={"charges": "y"}), columns, (1000, 65_000)
    frame = randhie.load_pandas().data
    columns = {"lncoins": (0, 5), "idp": (0, 1), "lpi": (0, 8), "fmde": (0, 9)}
    columns |= {"physlm": (0, 1), "disea": (0, 60)}
    columns = {name: Number(*ends) for name, ends in columns.items()}
    yield "randhie", frame.rename(columns={"mdvis": "y"}), columns, (0, 100)
    frame = load_diabetes(as_frame=True, scaled=False).frame
    ends = {"age": (18, 80), "bmi": (15, 45), "bp": (60, 140), "s5": (3, 6.5)}
    columns = {name: Number(*pair) for name, pair in ends.items()}
    yield "diabetes", frame.rename(columns={"target": "y"}), columns, (20, 350)


def score(frame, columns, bounds, loss, epsilon: float, seed: int) -> float:
    """Return D2 of one fit on held-out rows."""
    order = np.random.default_rng(seed).permutation(len(frame))
    cut = round(0.7 * len(frame))
    fit, test = frame.iloc[order[:cut]], frame.iloc[order[cut:]]
    schema = TableSchema(columns | {"y": Number(*bounds)}, outcomes=["y"])
    model = FeatureDPRegressor(
        epsilon, 1e-5, schema=schema, target="y", loss=loss, random_state=seed
    )
    found = model.fit(*schema.split(fit, "y")).predict(test[[*columns]])
    least = max(bounds[0], 1e-3 * bounds[1])
    return d2_tweedie_score(test["y"], np.maximum(found, least), power=1.5)


def main() -> None:
    """Print the mean of D2 over splits, with its standard error."""
    warnings.simplefilter("ignore")
    print(about())
    print(
        "table      epsilon" + "".join(f"{n:>18}" for n in ("squared", "poisson")),
        end="",
    )
    print(f"{'tweedie 1.5':>18}{'gamma':>18}")
    for name, frame, columns, bounds in tables():
        losses = ["squared_error", "poisson", Tweedie(power=1.5)]
        losses += ["gamma"] if bounds[0] > 0 else []
        for epsilon in EPSILONS:
            line = f"{name:10}{epsilon:8g}"
            for loss in losses:
                runs = [
                    score(frame, columns, bounds, loss, epsilon, seed)
                    for seed in range(SEEDS)
                ]
                error = np.std(runs, ddof=1) / SEEDS**0.5
                line += f"   {np.mean(runs):7.3f} ({error:5.3f})"
            print(line, flush=True)


if __name__ == "__main__":
    main()
