"""Compare the bands of `EffectsDisplay` with what fresh noise does to the effects.

    python benchmarks/effect_bands.py
    python benchmarks/effect_bands.py --fits 40     # quicker, coarser

Each setting is fitted to one generated table again and again, with another seed each
time. In "some public" the columns age and ward are public. The ratio of an effect is
half its band over 1.96 standard deviations of the refits, both as root mean squares
over the places that are drawn. It should be between 0.9 and 1.3 in the median over the
effects. The method was chosen on the table of seed 0.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import pandas as pd

from skfdp import FeatureDPLogisticRegression, FeatureDPRegressor, TableSchema
from skfdp import inspection as display
from skfdp.schema import Category, Label, Number

EPSILONS = (1.0, 8.0)
BOUNDS = {"age": (20, 90), "days": (0, 40), "score": (0, 1)}
SOME = ["age", "ward"]
WARDS = ["east", "north", "south", "west"]


def table(n_records, rng):
    """Return a table of three numbers and a category, and the margin of a target."""
    age = rng.uniform(20, 90, n_records)
    days = np.minimum(rng.exponential(8, n_records), 40)
    score = np.clip((age - 20) / 140 + 0.5 * rng.random(n_records), 0, 1)
    ward = rng.choice(WARDS, n_records, p=[0.5, 0.3, 0.15, 0.05])
    margin = ((age - 55) / 20) ** 2 - 1 + 2 * (score - 0.5) + (ward == "west")
    frame = {"age": age, "days": days, "score": score, "ward": ward}
    return pd.DataFrame(frame), margin


def settings():
    """Return name -> (make, whether numbers are curves, whether it is a regressor)."""
    found = {}
    protected = {"all private": (), "some public": SOME, "label-DP": [*BOUNDS, "ward"]}
    for of, public in protected.items():
        for curves in (True, False):
            for regressor in (False, True):
                kind = "squared error" if regressor else "log loss"
                rows = "curves" if curves else "lines"
                found[f"{kind}, {rows}, {of}"] = public, curves, regressor
    return found


def effects(public, curves, regressor, epsilon, X, y, seed):
    """Return the effects of one fit."""
    kind = FeatureDPRegressor if regressor else FeatureDPLogisticRegression
    if curves:
        columns = {k: Number(*v, public=k in public) for k, v in BOUNDS.items()}
        columns["ward"] = Category(WARDS, public="ward" in public)
        columns["y"] = Number(-6, 6) if regressor else Label([0, 1])
        given = {"schema": TableSchema(columns, outcomes=["y"])}
    else:
        X, public = X[list(BOUNDS)], [name for name in BOUNDS if name in public]
        given = {"bounds": BOUNDS, "public_features": public or None}
        given |= {"target_bounds": (-6, 6)} if regressor else {"classes": [0, 1]}
    model = kind(epsilon, random_state=seed, **given).fit(X, y)
    return display._effects(model, getattr(model, "encoder_", None), None)[1]


def ratios(setting, epsilon, X, y, n_fits):
    """Return the ratio of each effect."""
    fits = [effects(*setting, epsilon, X, y, seed) for seed in range(n_fits)]
    found = {}
    for name, first in fits[0].items():
        every = [fit[name] for fit in fits]
        if first.name == "coefficients":  # each line is an effect
            axis, names = 0, [str(one) for one in first.places[0]]
        else:
            axis, names = (0, 2), [name]
        square = np.var([one.values for one in every], axis=0, ddof=1)[None]
        stated = np.array([one.noise_std for one in every]) ** 2
        ratio = np.sqrt(stated.mean(axis=axis) / square.mean(axis=axis)).ravel()
        found |= dict(zip(names, ratio.tolist(), strict=True))
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
    X, margin = table(given.records, rng)
    label = (rng.random(len(X)) < 1 / (1 + np.exp(-margin))).astype(int)
    target = margin + rng.normal(size=len(X))
    for name, setting in settings().items():
        if given.only not in name:
            continue
        for epsilon in EPSILONS:
            y = target if setting[2] else label
            found = ratios(setting, epsilon, X, y, given.fits)
            each = "  ".join(f"{one} {ratio:.2f}" for one, ratio in found.items())
            median = np.median([*found.values()])
            print(f"{name:36} epsilon {epsilon:g}: {median:.2f}   {each}", flush=True)


if __name__ == "__main__":
    main()
