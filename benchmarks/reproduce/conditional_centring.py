"""What does centring on a prediction from public columns buy?

Four ways to spend one budget, all under "replace_one" with the same public columns:
the classifier alone (it releases a mean itself), behind a transformer that releases the
mean of whole rows, and behind one that centres the private columns on a prediction from
the public ones, without and with the classifier's own mean on top. A transformer gets a
tenth of the squared Gaussian-DP parameter; the joint epsilon is what the report of the
Pipeline says. Seeds make the runs reproducible: **they are not private fits**.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import warnings
from collections.abc import Callable

import numpy as np
from _common import RESULTS, Split, Store, adult, mean_scores, scores
from sklearn.pipeline import make_pipeline

from skfdp import (
    FeatureDPLogisticRegression,
    PrivateCenteringTransformer,
    UtilityWarning,
    report,
)
from skfdp.privacy import gdp_epsilon, gdp_mu

DELTA, SHARE = 1e-5, 0.1
EPSILONS = (0.1, 0.3, 1.0, 3.0, 8.0)
#: Age, education-num, hours, workclass and education of Adult in one-hot columns.
ADULT_PUBLIC = [0, 2, 5, *range(6, 31)]


@dataclasses.dataclass(frozen=True)
class Case:
    """A source of splits, and the public columns."""

    load: Callable[[int], Split]
    public: list


def generated_split(n_rows: int, unexplained: float, target: str, seed: int) -> Split:
    """Return five public columns and five that they explain up to a share.

    The label depends on what public columns do not explain of the first private one
    (`target` "rest"), or on that column itself ("column").
    """
    n_test, n_columns = 5000, 5
    slopes = np.random.default_rng(99).normal(size=(n_columns, n_columns))
    rng = np.random.default_rng([seed, 3])
    public = rng.random((n_rows + n_test, n_columns))
    known = (public - 0.5) @ slopes / np.sqrt(np.sum(slopes**2, axis=0) / 12)
    rest = rng.normal(size=known.shape)
    private = 0.5 + 0.15 * (
        math.sqrt(1 - unexplained) * known + math.sqrt(unexplained) * rest
    )
    private = np.clip(private, 0, 1)
    margin = 3 * rest[:, 0] if target == "rest" else 8 * (private[:, 0] - 0.5)
    y = (margin + rng.logistic(size=len(margin)) > 0).astype(np.int64)
    X = np.hstack([public, private])
    return Split(X[n_test:], y[n_test:], X[:n_test], y[:n_test], bounds=(0, 1))


def adult_split(n_rows: int, seed: int) -> Split:
    """Return a random part of Adult, and its test records."""
    whole = adult()
    rows = np.random.default_rng([seed, 4]).permutation(len(whole.X))[:n_rows]
    return dataclasses.replace(whole, X=whole.X[rows], y=whole.y[rows])


def cases(quick: bool) -> dict[str, Case]:
    """Return the problems by name."""
    n_rows = 1000 if quick else 4000
    made = {
        f"{target}, {unexplained:.0%} unexplained": Case(
            functools.partial(generated_split, n_rows, unexplained, target),
            list(range(5)),
        )
        for target, unexplained in (
            ("rest", 0.01),
            ("rest", 0.25),
            ("column", 0.01),
        )
    }
    for n_rows in () if quick else (1000, 3000):
        made[f"Adult, n = {n_rows}"] = Case(
            functools.partial(adult_split, n_rows), ADULT_PUBLIC
        )
    return made


def run(case: Case, epsilon: float, seed: int) -> dict[str, dict[str, float]]:
    """Fit the four on one split."""
    split = case.load(seed)
    mu = gdp_mu(epsilon, DELTA)
    first, rest = (gdp_epsilon(DELTA, mu * math.sqrt(s)) for s in (SHARE, 1 - SHARE))
    last = {"public_features": case.public, "random_state": seed}
    centre = functools.partial(
        PrivateCenteringTransformer,
        first,
        neighboring_relation="replace_one",
        bounds=split.bounds,
        random_state=seed,
    )
    conditional = functools.partial(centre, public_features=case.public)
    then = functools.partial(FeatureDPLogisticRegression, rest, bounds=False)
    models = {
        "alone": FeatureDPLogisticRegression(
            epsilon, bounds=split.bounds, **last, neighboring_relation="replace_one"
        ),
        # Its output columns are not public any more.
        "mean": make_pipeline(centre(), then(centering=None, random_state=seed)),
        "conditional": make_pipeline(conditional(), then(centering=None, **last)),
        "conditional + mean": make_pipeline(conditional(), then(**last)),
    }
    found = {}
    for name, model in models.items():
        model.fit(split.X, split.y)
        assert report(model).epsilon <= epsilon * (1 + 1e-9)
        found[name] = scores(model, split)
    return found


def main() -> None:
    """Print the table, and write it with every cell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--output", default=RESULTS / "conditional_centring.json")
    parser.add_argument("--only", nargs="*", default=None, help="names of problems")
    arguments = parser.parse_args()
    n_seeds = 2 if arguments.quick else arguments.seeds
    epsilons = (1.0,) if arguments.quick else EPSILONS
    warnings.simplefilter("ignore", UtilityWarning)
    store = Store(
        arguments.output, {"quick": arguments.quick, "delta": DELTA, "share": SHARE}
    )
    rows = []
    for name, case in cases(arguments.quick).items():
        if arguments.only and name not in arguments.only:
            continue
        for epsilon in epsilons:
            runs = [
                store.compute(
                    f"{name} | {epsilon} | {seed}",
                    functools.partial(run, case, epsilon, seed),
                )
                for seed in range(n_seeds)
            ]
            row = {"data": name, "epsilon": epsilon}
            row |= {kind: mean_scores([r[kind] for r in runs]) for kind in runs[0]}
            rows.append(row)
            told = "  ".join(
                f"{kind} {row[kind]['accuracy']:.1f} ({row[kind]['accuracy_se']:.1f})"
                for kind in runs[0]
            )
            print(f"{name:24} epsilon {epsilon:<4g} {told}", flush=True)
    store.save(rows=rows)


if __name__ == "__main__":
    main()
