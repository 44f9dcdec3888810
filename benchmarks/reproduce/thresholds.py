"""Thresholds and temperatures of private scores against none, and without privacy.

    python benchmarks/reproduce/thresholds.py                        # five minutes
    python benchmarks/reproduce/thresholds.py --seeds 2 --half dev   # a minute or two
    python benchmarks/reproduce/thresholds.py --output benchmarks/results/thresholds.txt

Of each table one third fits a model, one third is scored by `private_score` at epsilon
and delta 1e-5, and one third tests what was chosen by the score: the metric at the
model's own threshold, at the private one, and at the best one of the scored third
without privacy; the mean log-loss of the model's probabilities, of those with a private
temperature, and of those with slope and intercept fitted to the scored third without
privacy. Four models: DPSGDFClassifier at the same epsilon, and as public ones naive
Bayes (too sure of itself), a random forest, and a logistic regression with so large a
penalty that it is too unsure.

A cell (table, model, epsilon) **loses** if the mean over the seeds is worse than
without the choice, by more than two standard errors of the paired differences. The
rules were judged on the tables "dev"; those of "aside" were for the closing run alone.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import itertools
import multiprocessing
import os
import warnings
from importlib.metadata import version
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402
from _common import adult, images  # noqa: E402
from scipy.special import expit, logit  # noqa: E402
from sklearn.datasets import (  # noqa: E402
    load_breast_cancer,
    load_digits,
    make_classification,
)
from sklearn.ensemble import RandomForestClassifier  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.naive_bayes import GaussianNB  # noqa: E402

from skfdp import DPSGDFClassifier, private_score  # noqa: E402

EPSILONS = (0.1, 0.3, 1.0, 3.0)
METRICS = ("balanced_accuracy", "f1", "accuracy")
LEAST = 1e-6  # of a probability, in log-losses


# -- tables: rows scaled to [0, 1], and labels 0 and 1 ---------------------------------
def unit(X):
    low, high = X.min(axis=0), X.max(axis=0)
    return np.clip((X - low) / np.where(high > low, high - low, 1), 0, 1)


def made(n_rows, share, *, flipped=0.0, apart=1.0, seed=0):
    X, y = make_classification(
        n_rows,
        12,
        n_informative=6,
        n_redundant=2,
        weights=[1 - share],
        flip_y=flipped,
        class_sep=apart,
        random_state=seed,
    )
    return np.clip((X + 5) / 10, 0, 1), y


def one_digit(digit):
    X, y = load_digits(return_X_y=True)
    return X / 16, (y == digit).astype(int)


def shoes():
    X, y = images("fashion", "test", True)
    return X / 255, np.isin(y, (5, 7, 9)).astype(int)


def census():
    found = adult()
    X = np.concatenate([found.X, found.X_test]).astype(float)
    y = np.concatenate([found.y, found.y_test])
    return unit(X), (y == ">50K").astype(int)


def tumours():
    X, y = load_breast_cancer(return_X_y=True)
    return unit(X), 1 - y


TABLES = {
    "dev": {
        "digit 3": lambda: one_digit(3),
        "made, half": lambda: made(6_000, 0.5, apart=0.7, seed=1),
        "made, 5 %": lambda: made(20_000, 0.05, seed=2),
        "made, 15 %, flips": lambda: made(30_000, 0.15, flipped=0.1, seed=3),
        "shoes": shoes,
    },
    "aside": {
        "digit 8": lambda: one_digit(8),
        "tumours": tumours,
        "made, 30 %": lambda: made(6_000, 0.3, flipped=0.05, seed=11),
        "made, 1 %": lambda: made(60_000, 0.01, apart=1.5, seed=12),
        "census": census,
    },
}
PUBLIC = {
    "naive Bayes": GaussianNB,
    "forest": lambda: RandomForestClassifier(40, min_samples_leaf=5, random_state=0),
    "large penalty": lambda: LogisticRegression(C=1e-3),
}
MODELS = ("private", *PUBLIC)


@functools.cache
def table(half, name):
    return TABLES[half][name]()


# -- measures --------------------------------------------------------------------------
def measured(above, y):
    """Return the metrics of predictions."""
    tp, fp = (above & (y == 1)).sum(), (above & (y == 0)).sum()
    positives, negatives = (y == 1).sum(), (y == 0).sum()
    return {
        "balanced_accuracy": (tp / positives + 1 - fp / negatives) / 2,
        "f1": 2 * tp / max(tp + fp + positives, 1),
        "accuracy": (tp + negatives - fp) / len(y),
    }


def exact_threshold(p, y, metric):
    """Return the threshold that is best on these records, without privacy."""
    order = np.argsort(-p, kind="stable")
    tp, fp = np.cumsum(y[order] == 1), np.cumsum(y[order] == 0)
    positives, negatives = tp[-1], fp[-1]
    value = {
        "balanced_accuracy": tp / positives - fp / negatives,
        "f1": 2 * tp / (tp + fp + positives),
        "accuracy": tp - fp,
    }[metric]
    last = np.append(p[order][1:] < p[order][:-1], True)
    return np.nextafter(p[order][np.argmax(np.where(last, value, -np.inf))], 0)


def log_loss(p, y):
    own = np.where(y == 1, p, 1 - p)
    return -np.log(np.clip(own, LEAST, 1)).mean()


def exact_calibration(p, y, p_test):
    """Return probabilities with slope and intercept fitted without privacy."""
    margins, others = (
        np.clip(logit(np.clip(q, LEAST, 1 - LEAST)), -6, 6)[:, None]
        for q in (p, p_test)
    )
    fit = LogisticRegression(C=1e6, max_iter=1000).fit(margins, y)
    return expit(fit.decision_function(others))


def run(job):
    """Return what one table and seed gave, by model, epsilon and measure."""
    half, name, seed = job
    warnings.simplefilter("ignore")
    X, y = table(half, name)
    parts = np.array_split(np.random.default_rng(seed).permutation(len(y)), 3)
    (X0, y0), (X1, y1), (X2, y2) = ((X[rows], y[rows]) for rows in parts)
    public = {kind: make().fit(X0, y0) for kind, make in PUBLIC.items()}
    found = {}
    for epsilon, kind in itertools.product(EPSILONS, MODELS):
        model = public.get(kind) or DPSGDFClassifier(
            epsilon,
            1e-5,
            bounds=(0, 1),
            classes=[0, 1],
            neighboring_relation="replace_special",
        ).fit(X0, y0)
        score = private_score(
            model, X1, y1, epsilon, 1e-5, model_is_public=kind in PUBLIC
        )
        p1, p2 = (model.predict_proba(Z)[:, 1] for Z in (X1, X2))
        own, one = measured(p2 > 0.5, y2), {}
        for metric in METRICS:
            ours = score.best_threshold(metric).apply(model).predict(X2) == 1
            exact = p2 > exact_threshold(p1, y1, metric)
            one[metric] = tuple(
                got[metric] for got in (own, measured(ours, y2), measured(exact, y2))
            )
        calibrated = score.best_temperature().apply(model)
        one["log_loss"] = tuple(
            log_loss(p, y2)
            for p in (
                p2,
                calibrated.predict_proba(X2)[:, 1],
                exact_calibration(p1, y1, p2),
            )
        )
        found[kind, epsilon] = one
    return (half, name), found


# -- the table -------------------------------------------------------------------------
def lines(results, n_seeds):
    """Yield the lines of the output."""
    names = ("skfdp", "scikit-learn", "numpy", "scipy")
    told = ", ".join(f"{name} {version(name)}" for name in names)
    yield f"{told}; {datetime.date.today()}; {n_seeds} seeds"
    yield "The model's own, private, exact; * loses beyond two standard errors"
    lost, gains = [], {}
    for half in dict.fromkeys(half for half, _ in results):
        for measure in (*METRICS, "log_loss"):
            yield ""
            yield f"{measure}, tables {half}"
            head = "".join(f"{f'epsilon {e:g}':>23}" for e in EPSILONS)
            yield f"{'table':18}{'model':14}{head}"
            for (h, name), runs in results.items():
                if h != half:
                    continue
                for kind in MODELS:
                    row = f"{name:18}{kind:14}"
                    for epsilon in EPSILONS:
                        text, gain, loses = cell(runs, (kind, epsilon), measure)
                        row += text
                        gains.setdefault((half, measure, epsilon), []).append(gain)
                        if loses:
                            lost.append((half, measure, name, kind, epsilon, gain))
                    yield row
    yield ""
    yield "Gain over the model's own, mean of all cells: private, exact, least private"
    for half, measure in dict.fromkeys(key[:2] for key in gains):
        row = f"{half:6}{measure:20}"
        for epsilon in EPSILONS:
            ours, exact = np.array(gains[half, measure, epsilon]).T
            row += f"{ours.mean():8.4f}{exact.mean():8.4f}{ours.min():8.4f} "
        yield row.rstrip()
    yield ""
    yield f"{len(lost)} of {sum(map(len, gains.values()))} cells lose:"
    for half, measure, name, kind, epsilon, gain in lost:
        yield f"{half}: {measure}, {name}, {kind}, epsilon={epsilon:g}: {gain[0]:.4f}"


def cell(runs, key, measure):
    """Return the text of one cell, its gains, and whether it loses."""
    values = np.array([one[key][measure] for one in runs])
    own, ours, exact = values.mean(axis=0)
    sign = -1 if measure == "log_loss" else 1
    gained = sign * (values[:, 1] - values[:, 0])
    error = gained.std(ddof=1) / np.sqrt(len(gained)) if len(gained) > 1 else 0.0
    loses = gained.mean() < -2 * error - 1e-12
    text = f"{own:8.3f}{ours:6.3f}{'*' if loses else ' '}{exact:6.3f}  "
    return text, (gained.mean(), sign * (exact - own)), loses


def main():
    """Run all tables and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--half", choices=TABLES)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    halves = [half for half in TABLES if given.half in (None, half)]
    jobs = [
        (half, name, seed)
        for half in halves
        for name in TABLES[half]
        for seed in range(given.seeds)
    ]
    with multiprocessing.Pool(given.jobs) as pool:
        results = {}
        for key, found in pool.imap(run, jobs, chunksize=given.seeds):
            results.setdefault(key, []).append(found)
    text = "\n".join(lines(results, given.seeds)) + "\n"
    print(text, end="")
    if given.output:
        given.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
