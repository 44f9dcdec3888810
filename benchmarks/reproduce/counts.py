"""Has the Poisson loss the right mean, and is it as good as squared loss on counts?

Six tables of skewed counts behind a `TableSchema`, 8 seeds, four budgets, and two arms:
everything private, and the target and every other column public. Tables, bounds and
`ASIDE` were fixed before the first run. Visits to doctors and affairs are real (of
statsmodels); the others are drawn anew for each seed.

    for half in dev aside; do
        python benchmarks/reproduce/counts.py --half $half
    done > benchmarks/results/counts.txt

Shown is the explained share of the Poisson deviance on test rows, predictions of both
losses cut below at 1 % of the upper bound of the target, or half of the mean where that
is less: that of the Poisson loss, and its difference to squared loss with its standard
error. Then the mean prediction over
the mean of the training rows: its median, and its smallest and largest over the seeds.
"!" marks a cell that is below squared loss by more than .01 and three standard errors,
or below the mean by more than .01; "m" one in which the median of the mean prediction
is off by more than 10 % and three standard deviations of a mean that is released with a
tenth of the budget. Seeds make the runs reproducible: **they are not private fits**.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import warnings

import numpy as np
import pandas as pd
from _common import about
from sklearn.metrics import d2_tweedie_score

from skfdp import FeatureDPRegressor
from skfdp.privacy import gdp_mu
from skfdp.schema import Category, Number, TableSchema

EPSILONS, DELTA = (0.3, 1.0, 3.0, 8.0), 1e-5
TABLES = ("affairs", "bursts", "rare", "randhie", "empty", "heavy")
ASIDE = TABLES[3:]
N_TRAIN, N_TEST = 2000, 4000
ARMS = {"private": False, "target public": True}
LEVELS = list("abcdefghij")


def real(name: str, rng: np.random.Generator):
    """Return a survey's columns, counts, declarations, and bounds of the counts."""
    import statsmodels.datasets as source

    module = source.fair if name == "affairs" else source.randhie
    data = module.load_pandas().data
    data = data.iloc[rng.permutation(len(data))[: N_TRAIN + N_TEST]]
    if name == "affairs":
        bounds = {"rate_marriage": (1, 5), "age": (17, 60), "yrs_married": (0, 40)}
        bounds |= {"children": (0, 8), "religious": (1, 4), "educ": (9, 20)}
        y, most = np.rint(data["affairs"]), 100.0
    else:
        bounds = {"lncoins": (0, 5), "idp": (0, 1), "lpi": (0, 10), "fmde": (0, 10)}
        bounds |= {"physlm": (0, 1), "disea": (0, 80), "hlthg": (0, 1), "hlthf": (0, 1)}
        y, most = data["mdvis"], 150.0
    columns = {name: Number(*pair) for name, pair in bounds.items()}
    return data[list(bounds)], y.to_numpy(float), columns, most


def made(name: str, rng: np.random.Generator):
    """Return a drawn table, as `real` does."""
    n = N_TRAIN + N_TEST
    u = rng.uniform(size=(n, 6))
    X = pd.DataFrame(u, columns=[f"x{i}" for i in range(6)])
    columns = {name: Number(0, 2) for name in X}
    if name == "bursts":  # negative binomial, straight lines
        rate = np.exp(u @ [1.5, -1.5, 1, 0, 0, 0]) * rng.gamma(0.4, 2.5, n)
        return X, rng.poisson(rate).astype(float), columns, 200.0
    if name == "empty":  # three quarters of the rows are 0, curves
        rate = np.exp(1.5 + np.sin(6 * u[:, 0]) + u[:, 1] - 2 * (u[:, 2] - 0.5) ** 2)
        zero = rng.random(n) < 0.55 + 0.4 * u[:, 3]
        return X, np.where(zero, 0, rng.poisson(rate)).astype(float), columns, 150.0
    if name == "heavy":  # rates over three decades, squares of columns
        rate = np.exp(-1.5 + 4 * u[:, 0] ** 2 - 3 * u[:, 1] + rng.normal(size=n))
        return X, rng.poisson(np.minimum(rate, 200)).astype(float), columns, 200.0
    chances = 0.45 ** np.arange(len(LEVELS))
    codes = rng.choice(len(LEVELS), (n, 3), p=chances / chances.sum())
    for i, code in enumerate(codes.T):
        X[f"c{i}"] = np.array(LEVELS)[code]
        columns[f"c{i}"] = Category(LEVELS)
    X["tail"] = rng.pareto(1.5, n)  # most knots of its curve have few rows
    columns["tail"] = Number(0, 50)
    effects = np.random.default_rng(0).normal(size=(3, len(LEVELS)))
    log_rate = -1.5 + effects[0][codes[:, 0]] + 0.5 * effects[1][codes[:, 1]] + u[:, 0]
    y = rng.poisson(np.exp(log_rate) * rng.gamma(1.0, 1.0, n)).astype(float)
    return X, y, columns, 60.0


def load(name: str, seed: int):
    """Return training and test rows of a table."""
    rng = np.random.default_rng([TABLES.index(name), seed])
    make = real if name in ("affairs", "randhie") else made
    X, y, columns, most = make(name, rng)
    y = np.clip(y, 0, most)
    train, test = slice(0, N_TRAIN), slice(N_TRAIN, None)
    return X[train], y[train], X[test], y[test], columns, most


def score(loss: str, arm: str, table, epsilon: float, seed: int):
    """Return the explained deviance, and the mean prediction over that of y."""
    X, y, X_test, y_test, columns, most = table
    shown = {*list(columns)[::2], "y"} if ARMS[arm] else set()
    columns = {
        name: dataclasses.replace(column, public=name in shown)
        for name, column in (columns | {"y": Number(0, most)}).items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FeatureDPRegressor(
            epsilon,
            DELTA,
            schema=TableSchema(columns, outcomes=["y"]),
            loss=loss,
            random_state=seed,
        ).fit(X, y)
    rates = np.maximum(model.predict(X_test), min(0.01 * most, y.mean() / 2))
    explained = d2_tweedie_score(y_test, rates, power=1)
    return explained, model.predict(X).mean() / y.mean()


def of_noisy_mean(tables: list, epsilon: float) -> float:
    """Return what a mean explains that is released with the whole budget.

    The prediction is cut like those of the models. Means over 200 draws of noise.
    """
    found, rng = [], np.random.default_rng(0)
    for _, y, _, y_test, _, most in tables:
        std, least = most / (len(y) * gdp_mu(epsilon, DELTA)), 0.01 * most
        for mean in rng.normal(y.mean(), std, 200):
            rate = max(mean, min(least, y.mean() / 2))
            found.append(d2_tweedie_score(y_test, np.full(len(y_test), rate), power=1))
    return float(np.mean(found))


def cell(name: str, arm: str, epsilon: float, seeds: int) -> str:
    """Return a line of the table."""
    tables = [load(name, seed) for seed in range(seeds)]
    runs = {
        loss: np.array([score(loss, arm, t, epsilon, k) for k, t in enumerate(tables)])
        for loss in ("poisson", "squared_error")
    }
    ours, theirs = runs["poisson"][:, 0], runs["squared_error"][:, 0]
    apart, ratios = ours - theirs, runs["poisson"][:, 1]
    error = apart.std(ddof=1) / math.sqrt(seeds)
    mean, most = np.mean([t[1].mean() for t in tables]), tables[0][-1]
    noise = most / (N_TRAIN * gdp_mu(epsilon, DELTA) * math.sqrt(0.1)) / mean
    below = apart.mean() < -0.01 - 3 * error or ours.mean() < -0.01
    off = abs(np.median(ratios) - 1) > 0.1 + (0 if ARMS[arm] else 3 * noise)
    constant = " " * 9 if ARMS[arm] else f"{of_noisy_mean(tables, epsilon):9.3f}"
    return (
        f"{name:9}{arm:14}{epsilon:5g}{ours.mean():9.3f}{theirs.mean():9.3f}"
        f"{apart.mean():+9.3f} +-{error:6.3f}{constant}{np.median(ratios):9.2f}"
        f"{ratios.min():7.2f}{ratios.max():7.2f}  {'!' * int(below)}{'m' * int(off)}"
    ).rstrip()


def main() -> None:
    """Print one half of the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=("dev", "aside"), default="dev")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--arm", choices=ARMS, default=None)
    given = parser.parse_args()
    names = [name for name in TABLES if (name in ASIDE) == (given.half == "aside")]
    print(f"Half {given.half}, {given.seeds} seeds; {about()['versions']}\n")
    print(
        f"{'table':9}{'arm':14}{'eps':>5}{'poisson':>9}{'squared':>9}"
        f"{'difference':>18}{'constant':>9}{'mean':>9}{'least':>7}{'most':>7}"
    )
    arms = [given.arm] if given.arm else ARMS
    for name, arm, epsilon in itertools.product(names, arms, EPSILONS):
        print(cell(name, arm, epsilon, given.seeds), flush=True)
    print()


if __name__ == "__main__":
    main()
