"""Compare the bands of `EffectsDisplay` with what fresh noise does to the effects.

    python benchmarks/effect_bands.py
    python benchmarks/effect_bands.py --fits 40     # quicker, coarser

Each setting is fitted to one generated table again and again, with another seed each
time. "Some public": the columns age and ward. "Rare": counts, amounts and a category of
20 levels with shares from .3 to .002. The ratio of an effect is half its band over 1.96
standard deviations of the refits, both as root mean squares over the places that are
drawn; in brackets is the share of the bands that hold the mean of the refits, over
places and refits. "At most" are those of the refits whose band is an upper bound. The
method was chosen on the table of seed 0.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import pandas as pd

from skfdp import FeatureDPLogisticRegression, FeatureDPRegressor, TableSchema
from skfdp import inspection as display
from skfdp.schema import Category, Label, Number

EPSILONS = (1.0, 2.0, 8.0)
BOUNDS = {"age": (20, 90), "days": (0, 40), "score": (0, 1)}
SPARSE = {"visits": (0, 10), "amount": (0, 1000), "score": (0, 1)}
SOME = ["age", "ward"]
WARDS = ["east", "north", "south", "west"]
JOBS = [f"job {k}" for k in range(20)]


def table(n_records, rng):
    """Return the columns of all settings, and the margins of a target."""
    age = rng.uniform(20, 90, n_records)
    days = np.minimum(rng.exponential(8, n_records), 40)
    score = np.clip((age - 20) / 140 + 0.5 * rng.random(n_records), 0, 1)
    ward = rng.choice(WARDS, n_records, p=[0.5, 0.3, 0.15, 0.05])
    margin = ((age - 55) / 20) ** 2 - 1 + 2 * (score - 0.5) + (ward == "west")
    visits, amount = rng.poisson(1, n_records), rng.lognormal(3, 1.2, n_records)
    shares = np.geomspace(0.3, 0.002, len(JOBS))
    job = rng.choice(len(JOBS), n_records, p=shares / shares.sum())
    rare = 0.6 * visits + 0.5 * np.log(amount) + np.sin(job) + 2 * score - 3.5
    columns = {"age": age, "days": days, "score": score, "ward": ward}
    columns |= {"visits": visits, "amount": amount, "job": np.array(JOBS)[job]}
    return pd.DataFrame(columns), margin, rare


def settings():
    """Return name -> (numbers, public, whether curves, whether a regressor)."""
    found = {}
    protected = {"all private": (), "some public": SOME, "label-DP": [*BOUNDS, "ward"]}
    for of, public in protected.items():
        for curves in (True, False):
            for regressor in (False, True):
                kind = "squared error" if regressor else "log loss"
                rows = "curves" if curves else "lines"
                found[f"{kind}, {rows}, {of}"] = BOUNDS, public, curves, regressor
    found["log loss, curves, rare"] = SPARSE, (), True, False
    found["squared error, curves, rare"] = SPARSE, (), True, True
    return found


def effects(numbers, public, curves, regressor, epsilon, X, y, seed):
    """Return the effects of one fit."""
    kind = FeatureDPRegressor if regressor else FeatureDPLogisticRegression
    if curves:
        columns = {k: Number(*v, public=k in public) for k, v in numbers.items()}
        name, levels = ("ward", WARDS) if numbers is BOUNDS else ("job", JOBS)
        columns[name] = Category(levels, public=name in public)
        columns["y"] = Number(-6, 6) if regressor else Label([0, 1])
        given = {"schema": TableSchema(columns, outcomes=["y"])}
    else:
        X, public = X[list(numbers)], [name for name in numbers if name in public]
        given = {"bounds": numbers, "public_features": public or None}
        given |= {"target_bounds": (-6, 6)} if regressor else {"classes": [0, 1]}
    model = kind(epsilon, random_state=seed, **given).fit(X, y)
    return display._effects(model, None, None)[0]


def ratios(setting, epsilon, X, y, n_fits):
    """Return what is printed of each effect."""
    fits = [effects(*setting, epsilon, X, y, seed) for seed in range(n_fits)]
    found = []
    for name, first in fits[0].items():
        if first.kind == "heat map":  # of an interaction, without a band
            continue
        values, stds, most = (
            np.array([getattr(fit[name], part)[0] for fit in fits])
            for part in ("values", "noise_std", "at_most")
        )
        columns = {name: slice(None)}
        if name == "coefficients":  # each line is an effect
            columns = {name: [k] for k, name in enumerate(first.places[0])}
        for column, own in columns.items():
            moved = (values[:, own] - values[:, own].mean(axis=0)) ** 2
            moved, bound = moved * n_fits / (n_fits - 1), most[:, own].any(axis=1)
            inside, told = moved <= (1.96 * stds[:, own]) ** 2, column
            for which, text in ((~bound, ""), (bound, f", {bound.mean():.0%} at most")):
                if which.any():
                    ratio = ((stds[which][:, own] ** 2).mean() / moved.mean()) ** 0.5
                    told += f"{text} {ratio:.2f} ({inside[which].mean():.2f})"
            found.append(told)
    return found


def main():
    """Print one row for each setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--records", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0, help="of the table")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    warnings.simplefilter("ignore", UserWarning)  # of seeds and small budgets
    X, *margins = table(given.records, rng)
    for name, setting in settings().items():
        if given.only not in name:
            continue
        margin = margins[setting[0] is SPARSE]
        drawn = np.random.default_rng(given.seed)
        y = margin + drawn.normal(size=len(X))
        if not setting[-1]:
            y = (drawn.random(len(X)) < 1 / (1 + np.exp(-margin))).astype(int)
        for epsilon in EPSILONS:
            found = "  ".join(ratios(setting, epsilon, X, y, given.fits))
            print(f"{name:34} epsilon {epsilon:g}: {found}", flush=True)


if __name__ == "__main__":
    main()
