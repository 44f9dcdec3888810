"""What does it cost to protect persons with several rows, and how many rows pay?

Panels x budgets x seeds, and two models: *columns*, `FeatureDPLogisticRegression` with
every column private, and *labels*, the same with every column public. Arms:

* *one row*: the first row of each person, each a record: what people do today;
* *m = 1, 2, 5*: ``groups``, and the first m rows of each person;
* *all*: ``groups`` alone, the default: all rows count, those of persons with many less;
* *records*: all rows as records of their own, which protects no person: how much the
  protection of persons costs.

Generated panels have 1500 persons. Rows of a person are independent, or strongly alike
(nine tenths of the variance of its columns, and of what moves its labels beside them,
are the person's), and their number is 1 + Poisson(3), or has a heavy tail, up to 200.
Real tables become panels of 1 to about 20 rows a person (geometric, mean 4), at random
or alike: neighbours along the first principal component. Test rows are of other
persons. The list and `ASIDE` were fixed before the first run.

    for half in dev aside; do
        python benchmarks/reproduce/persons.py --half $half
    done > benchmarks/results/persons.txt

Shown is the share of the log-loss of the class frequencies that a model saves on the
test rows, in per cent: mean over seeds, and for *all* minus *one row* its standard
error. Seeds make the runs reproducible: **they are not private fits**.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import math
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
from _common import about
from _tables import TABLES
from scipy.special import expit
from sklearn.metrics import log_loss

from skfdp import FeatureDPLogisticRegression
from skfdp.data.units import first_rows

EPSILONS = (0.3, 1.0, 3.0)
MODELS = ("columns", "labels")
ARMS = ("one row", "m = 1", "m = 2", "m = 5", "all", "records")
N_PERSONS, N_COLUMNS, N_TEST = 1500, 8, 4000
ALIKE = 0.9
#: The half put aside: one of each kind.
ASIDE = frozenset(
    {
        "independent, heavy tail",
        "alike, Poisson",
        "alike, heavy tail, weak",
        "randhie at random",
        "randhie alike",
    }
)


@dataclasses.dataclass(frozen=True)
class Panel:
    """Rows of persons, and rows of other persons to test on."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    bounds: tuple


def poisson(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return numbers of rows, 4 on average."""
    return 1 + rng.poisson(3.0, n)


def heavy(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return numbers of rows with a heavy tail, half of them 1."""
    return np.minimum(rng.pareto(1.1, n) + 1, 200).astype(int)


def drawn(
    rng: np.random.Generator,
    sizes: np.ndarray,
    alike: float,
    strength: float,
    problem: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X, y and groups; the share `alike` of the variance is the persons'."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    beta = np.random.default_rng(problem).normal(size=N_COLUMNS)
    beta *= strength / np.linalg.norm(beta)

    def shared(*shape: int) -> np.ndarray:
        own = rng.normal(size=(len(groups), *shape))
        persons = rng.normal(size=(len(sizes), *shape))[groups]
        return math.sqrt(alike) * persons + math.sqrt(1 - alike) * own

    X = shared(N_COLUMNS)
    chance = expit(X @ beta + shared())
    return X, (rng.random(len(groups)) < chance).astype(int), groups


def generated(counts: Callable, alike: float, strength: float, problem: int):
    """Return what makes a panel of a seed."""

    def load(seed: int) -> Panel:
        rng = np.random.default_rng([seed, problem])
        X, y, groups = drawn(rng, counts(rng, N_PERSONS), alike, strength, problem)
        test = drawn(rng, np.ones(N_TEST, dtype=int), alike, strength, problem)
        order = rng.permutation(len(X))
        return Panel(X[order], y[order], groups[order], *test[:2], (-3, 3))

    return load


def real(name: str, n_rows: int, alike: bool):
    """Return what makes a panel of a table, by a seed."""
    (table,) = [table for table in TABLES if table.name == name]

    def load(seed: int) -> Panel:
        split = table.load(seed)
        rng = np.random.default_rng([seed, n_rows])
        rows = rng.permutation(len(split.X))[:n_rows]
        X, y = split.X[rows].astype(np.float64), split.y[rows]
        positive = np.unique(split.y)[-1]
        if alike:
            scaled = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9)
            order = np.argsort(
                scaled @ np.linalg.svd(scaled, full_matrices=False)[2][0]
            )
            X, y = X[order], y[order]
        sizes = rng.geometric(0.25, len(X))
        groups = np.repeat(np.arange(len(X)), sizes)[: len(X)]
        order = rng.permutation(len(X))
        y_test = (split.y_test == positive).astype(int)
        return Panel(
            X[order],
            (y[order] == positive).astype(int),
            groups[order],
            split.X_test,
            y_test,
            split.bounds,
        )

    return load


PANELS = {
    "independent, Poisson": generated(poisson, 0.0, 2.0, 1),
    "independent, heavy tail": generated(heavy, 0.0, 2.0, 2),
    "alike, Poisson": generated(poisson, ALIKE, 2.0, 3),
    "alike, heavy tail": generated(heavy, ALIKE, 2.0, 4),
    "alike, Poisson, weak": generated(poisson, ALIKE, 0.7, 5),
    "alike, heavy tail, weak": generated(heavy, ALIKE, 0.7, 6),
    "affairs at random": real("fair affairs", 4456, alike=False),
    "affairs alike": real("fair affairs", 4456, alike=True),
    "randhie at random": real("randhie any visit", 5000, alike=False),
    "randhie alike": real("randhie any visit", 5000, alike=True),
}


def fitted(panel: Panel, model: str, arm: str, epsilon: float, seed: int) -> float:
    """Return what one arm saves of the log-loss on the test rows, in per cent."""
    made = FeatureDPLogisticRegression(
        epsilon,
        bounds=panel.bounds,
        classes=[0, 1],
        public_features="all" if model == "labels" else None,
        random_state=seed,
        neighboring_relation="replace_one",
    )
    most = {"one row": 1, "all": len(panel.X), "records": len(panel.X)}
    rows = first_rows(panel.groups, most.get(arm) or int(arm.removeprefix("m = ")))
    groups = None if arm in ("one row", "records") else panel.groups[rows]
    made.fit(panel.X[rows], panel.y[rows], groups=groups)
    chances = made.predict_proba(panel.X_test)[:, 1]
    share = np.full(len(chances), panel.y_test.mean())
    return 100 * (1 - log_loss(panel.y_test, chances) / log_loss(panel.y_test, share))


def table(found: dict, names: list[str], model: str, n_seeds: int):
    """Yield the lines of one model: a line for each panel and budget, then means."""
    heads = "".join(f"{arm:>9}" for arm in ARMS)
    yield f"{'panel':<26}{'epsilon':>8}{heads}{'all - one row':>18}"
    gaps = collections.defaultdict(list)
    for name, epsilon in itertools.product(names, EPSILONS):
        cells = {arm: found[name, model, epsilon, arm] for arm in ARMS}
        ahead = np.subtract(cells["all"], cells["one row"])
        error = ahead.std(ddof=1) / math.sqrt(n_seeds)
        gaps[epsilon].append(ahead.mean())
        means = "".join(f"{np.mean(cells[arm]):>9.1f}" for arm in ARMS)
        yield f"{name:<26}{epsilon:>8g}{means}{ahead.mean():>+10.1f} +- {error:<4.1f}"
    for epsilon, each in gaps.items():
        ahead = sum(gap > 0 for gap in each)
        yield (
            f"{'mean':<26}{epsilon:>8g}{'':>54}{np.mean(each):>+10.1f}"
            f"   ahead on {ahead} of {len(each)}"
        )


def report(found: dict, panels: dict[str, Panel], half: str, n_seeds: int):
    """Yield the lines of the report."""
    title = f"Half {'put aside' if half == 'aside' else 'dev'}"
    yield from (title, "=" * len(title), "")
    yield f"{n_seeds} seeds; {about()['date'][:10]}, {about()['versions']}"
    yield ""
    yield f"{'panel':<26}{'rows':>8}{'persons':>9}{'most rows':>11}"
    for name, panel in panels.items():
        counts = np.bincount(panel.groups)
        yield f"{name:<26}{len(panel.X):>8}{len(counts):>9}{counts.max():>11}"
    for model in MODELS:
        what = "every column private" if model == "columns" else "labels private"
        yield from ("", f"Per cent of the log-loss saved, {what}", "")
        yield from table(found, list(panels), model, n_seeds)
    yield ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--half", choices=("dev", "aside"), default="dev")
    parser.add_argument("--quick", action="store_true", help="one panel, two seeds")
    given = parser.parse_args()
    n_seeds = 2 if given.quick else given.seeds
    names = [name for name in PANELS if (name in ASIDE) == (given.half == "aside")]
    names = names[:1] if given.quick else names
    warnings.simplefilter("ignore")
    found, shown = collections.defaultdict(list), {}
    start = time.perf_counter()
    for name, seed in itertools.product(names, range(n_seeds)):
        panel = PANELS[name](seed)
        shown.setdefault(name, panel)
        for model, epsilon, arm in itertools.product(MODELS, EPSILONS, ARMS):
            saved = fitted(panel, model, arm, epsilon, seed)
            found[name, model, epsilon, arm].append(saved)
        print(f"{name} {seed}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    print("\n".join(report(found, shown, given.half, n_seeds)))


if __name__ == "__main__":
    main()
