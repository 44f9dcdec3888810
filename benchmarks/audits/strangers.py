"""Audits by the auditor of jax_privacy: it sees scores, and no code of this package.

    pip install jax-privacy
    python benchmarks/audits/strangers.py --output strangers.txt

`jax_privacy.auditing` computes lower bounds of epsilon from attack scores of trials
with and without a record, by Clopper and Pearson with a Bonferroni correction over all
thresholds. It gets two kinds of scores.

**Releases**: everything that a fit of each kind in ``one_run.py`` plans is released by
the package's mechanism with the worst canary and with its neighbour. The score is the
likelihood ratio, so that the bound is near what so many trials can show.

**Whole fits**: a table and a neighbour that differs in one record are fitted again and
again. The score is the fitted coefficients along a direction that other fits chose. A
bound is small because an attacker learns little from one model.

Controls have to be refuted: releases with a third of the noise, fits with none.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import warnings
from importlib.metadata import version
from pathlib import Path
from unittest import mock

import numpy as np
from jax_privacy.auditing import Bonferroni, CanaryScoreAuditor
from one_run import CASES, divided

import skfdp
from skfdp.audit.mechanism import log_ratios
from skfdp.mechanisms import release as mechanism

EPSILON, DELTA = 2.0, 1e-5
REPLACED = {"epsilon": EPSILON, "neighboring_relation": "replace_one", "bounds": (0, 1)}
LOGISTIC = skfdp.FeatureDPLogisticRegression
#: Estimators of whole fits, and where they keep what they learnt.
FITS = {
    "logistic, all private": (LOGISTIC(**REPLACED, classes=[0, 1]), "coef_"),
    "label-DP, one-shot": (
        LOGISTIC(**REPLACED, classes=[0, 1], public_features="all"),
        "coef_",
    ),
    "DPSGD-F": (skfdp.DPSGDFClassifier(**REPLACED, classes=[0, 1]), "coef_"),
    "regressor": (skfdp.FeatureDPRegressor(**REPLACED, target_bounds=(0, 1)), "coef_"),
    "centring": (skfdp.PrivateCenteringTransformer(**REPLACED), "mean_"),
}


def bound(without, with_it):
    """Return the lower bound of epsilon of jax_privacy at 95 %."""
    auditor = CanaryScoreAuditor(with_it, without)
    found = auditor.epsilon_clopper_pearson(
        significance=0.05, delta=DELTA, one_sided=False, threshold_strategy=Bonferroni()
    )
    return float(found)


def of_releases(name, n_trials):
    """Return the bound from all releases of a fit, the worst canary in and out."""
    kind, params, (n, d), _ = CASES[name]
    rng = np.random.default_rng(0)
    plan = kind(epsilon=EPSILON, bounds=(0, 1), **params).plan(
        rng.random((n, d)), rng.integers(0, 2, n)
    )
    ratios = log_ratios(plan.events, n_trials, None).sum(axis=1)
    return bound(*ratios)


def of_fits(name, n_trials):
    """Return the bound from fitted models, on two neighbouring tables."""
    own, attribute = FITS[name]
    rng = np.random.default_rng(0)
    X, y = rng.random((400, 2)), rng.integers(0, 2, 400).astype(float)
    found = []
    for corner in (0.0, 1.0):
        table, labels = X.copy(), y.copy()
        if name != "label-DP, one-shot":  # whose columns are public
            table[0] = corner
        labels[0] = corner
        fits = (own.fit(table, labels) for _ in range(n_trials))
        found.append([np.ravel(getattr(fit, attribute)).copy() for fit in fits])
    without, with_it = np.array(found)
    half = n_trials // 2
    direction = with_it[:half].mean(axis=0) - without[:half].mean(axis=0)
    direction /= without[:half].var(axis=0) + 1e-12
    return bound(without[half:] @ direction, with_it[half:] @ direction)


def lines(n_trials):
    """Yield the lines of both tables."""
    yield (
        f"skfdp {skfdp.__version__}, jax_privacy {version('jax-privacy')}, NumPy "
        f"{np.__version__}, Python {platform.python_version()}, {datetime.date.today()}"
    )
    yield f"Claim: epsilon {EPSILON:g} at delta {DELTA:g}. Lower bounds at 95 %."
    kinds = [name for name, case in CASES.items() if "canaries" not in name]
    for title, audit, names, trials, control, factor in (
        ("all releases of a fit", of_releases, kinds, n_trials, "a third", 3.0),
        ("whole fits", of_fits, FITS, n_trials // 2, "none", 1e4),
    ):
        yield ""
        yield f"{title + f', {trials} times':36}{'claimed noise':>14}{control:>10}"
        for name in names:
            low, high = (noisy(audit, name, trials, one) for one in (1.0, factor))
            ends = [" REFUTED"] * (low > EPSILON) + [" refuted"] * (high > EPSILON)
            yield f"{name:36}{low:14.2f}{high:10.2f}{''.join(ends)}"


def noisy(audit, name, n_trials, factor):
    """Return the bound of an audit whose noise is divided, whatever was charged."""
    with mock.patch.object(mechanism, "_noisy_sum", divided(factor)):
        return audit(name, n_trials)


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore", skfdp.UtilityWarning)
    found = []
    for line in lines(given.trials):
        print(line, flush=True)
        found.append(line.rstrip() + "\n")
    if given.output:
        given.output.write_text("".join(found), encoding="utf-8")


if __name__ == "__main__":
    main()
