"""What one run tells: lower bounds of epsilon, of honest and of sabotaged fits.

    python benchmarks/audits/one_run.py
    python benchmarks/audits/one_run.py --runs 1 --only "label-DP"     # quicker
    python benchmarks/audits/one_run.py --output benchmarks/results/audits/one_run.txt

Each estimator is audited by ``guessed_coins.py`` on made-up records that
are all canaries, at four budgets: with its own noise, with half of it, and with none
that matters (divided by 10,000). A lower bound above the claim refutes it. The first
may be refuted in at most 5 % of runs. The last can be where the claim is below the
reach, if scores find the canaries: those of a network are too weak. Half of the noise
seldom is: that is what an audit of one run can do. A row shows the median run, and how
many of the runs refuted the claim. Noise and coins come from fixed streams.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import platform
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import scipy
import sklearn

import skfdp
from skfdp.mechanisms import release as mechanism
from skfdp.privacy import AddOrRemoveOne
from skfdp.solvers import NoisySGD

sys.path.append(str(Path(__file__).parent))

from guessed_coins import audit_estimator

SIZE, SMALL, LARGE = (500, 1000), (500, 200), (2000, 4000)
EPSILONS = (1.0, 4.0, 8.0, 16.0)
NOISE = {"claimed": 1.0, "half": 2.0, "none": 1e4}
LOGISTIC, SGD = skfdp.FeatureDPLogisticRegression, skfdp.DPSGDFClassifier
REAL = {"target_bounds": (0, 1)}
REPLACED = {"neighboring_relation": "replace_one"}
SPECIAL = {"neighboring_relation": "replace_special"}
ADDED = {"neighboring_relation": AddOrRemoveOne(SIZE[0])}


def means(model, X_a, y_a, X_b, y_b):
    """Return how far a released mean leans to the first value."""
    return (X_a - X_b) @ (model.mean_ - model.mean_.mean())


#: Estimator, its parameters, shape of the table, and what is not the default.
CASES = {
    "logistic, all private": (LOGISTIC, REPLACED, SIZE, {}),
    "logistic, null": (LOGISTIC, {**SPECIAL, "classes": [0, 1]}, SIZE, {}),
    "logistic, half public": (
        LOGISTIC,
        {**REPLACED, "public_features": slice(0, SIZE[1] // 2)},
        SIZE,
        {},
    ),
    "logistic, target public": (
        LOGISTIC,
        {**REPLACED, "public_target": True},
        SIZE,
        {},
    ),
    "label-DP, one-shot": (LOGISTIC, {**REPLACED, "public_features": "all"}, SIZE, {}),
    "label-DP, descent": (
        LOGISTIC,
        {"public_features": "all", "solver": "noisy-gd", **REPLACED},
        SIZE,
        {},
    ),
    "DPSGD-F, null": (SGD, {**SPECIAL, "classes": [0, 1]}, SIZE, {}),
    "DPSGD-F, two steps": (SGD, SPECIAL, SIZE, {"tails": "other"}),
    "DPSGD-F, added": (SGD, {**ADDED, "classes": [0, 1]}, SIZE, {}),
    "DPSGD-F, sampled": (
        SGD,
        {"classes": [0, 1], "solver": NoisySGD(batch_size=50), **SPECIAL},
        SIZE,
        {},
    ),
    "regressor": (skfdp.FeatureDPRegressor, {**REPLACED, **REAL}, SIZE, {}),
    "DPSGD-F regressor": (skfdp.DPSGDFRegressor, {**SPECIAL, **REAL}, SIZE, {}),
    "network": (skfdp.FeatureDPMLPClassifier, REPLACED, SMALL, {}),
    "centring": (skfdp.PrivateCenteringTransformer, SPECIAL, SIZE, {"score": means}),
    "logistic, 2000 canaries": (LOGISTIC, REPLACED, LARGE, {"n_canaries": LARGE[0]}),
}


def divided(factor):
    """Return releases whose noise is divided, whatever was charged."""

    def noisy_sum(query, theta, *, noise_std, unit, generator, batch):
        total = query.exact_sum(theta, batch, unit)
        return (
            mechanism.add_integer_gaussian(total, noise_std / factor / unit, generator)
            * unit
        )

    return noisy_sum


def streams(seed):
    """Return a stand-in for the entropy of the operating system."""
    words = itertools.count()
    return lambda bits: int.from_bytes(
        np.random.default_rng([seed, next(words)]).bytes(bits // 8), "little"
    )


def audited(name, epsilon, factor, seed):
    """Return the audit of one run."""
    kind, params, (n, d), given = CASES[name]
    rng = np.random.default_rng([seed, 0])
    X, y = rng.random((n, d)), rng.integers(0, 2, n)
    model = kind(epsilon=epsilon, bounds=(0, 1), **params)
    with (
        mock.patch.object(mechanism, "_noisy_sum", divided(factor)),
        mock.patch("skfdp.mechanisms.release.secrets.randbits", streams(seed)),
    ):
        return audit_estimator(model, X, y, random_state=seed, **given)


def row(name, epsilon, noise, seeds):
    """Return a line of the table: the median run."""
    if CASES[name][2] == LARGE:
        seeds = seeds[:1]
    runs = [audited(name, epsilon, NOISE[noise], seed) for seed in seeds]
    runs.sort(key=lambda one: one.lower_bound)
    one, refuted = runs[len(runs) // 2], sum(not run.passed for run in runs)
    return (
        f"{name:24} {epsilon:4g}  {noise:8} {one.n_canaries:5} {one.n_guesses:7} "
        f"{one.n_correct:6} {one.steinke:8.2f} {one.f_dp:6.2f} {one.reach:6.2f}  "
        f"{refuted:3} of {len(runs)}"
    )


def head(seed, n_runs):
    """Return what a reader has to know of the table."""
    versions = ", ".join(
        f"{module.__name__} {module.__version__}"
        for module in (skfdp, np, scipy, sklearn)
    )
    return (
        f"One-run audits at 95 %, delta 1e-5; seed {seed}, {n_runs} runs a row\n"
        f"(1 with 2000 canaries).\n"
        f"{datetime.date.today()}; Python {platform.python_version()}, {versions}\n\n"
        "guesses, right: of the number of guesses that gave the better bound.\n"
        "Steinke, f-DP: lower bounds of epsilon, the median run; reach: all right.\n\n"
        "                          claimed       can-           right\n"
        "estimator                eps  noise    aries guesses guesses  Steinke   f-DP"
        "  reach  refuted\n"
    )


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--output", help="write the table there, too")
    given = parser.parse_args()
    lines = [head(given.seed, given.runs)]
    print(lines[0], end="")
    seeds = range(given.seed, given.seed + given.runs)
    for name in given.only:
        for epsilon, noise in itertools.product(EPSILONS, NOISE):
            lines.append(row(name, epsilon, noise, seeds) + "\n")
            print(lines[-1], end="", flush=True)
    if given.output:
        with open(given.output, "w", encoding="utf-8") as file:
            file.writelines(lines)


if __name__ == "__main__":
    main()
