"""What do public columns and a public target buy?

Adult (public: education, education-num, age, hours-per-week, workclass), digits and
MNIST (public: the left half of the pixels), with the target public, and private.
Beside feature-DP: Algorithm 1 of paper 1 with the padding that scores best on the test
rows (an advantage that no user has), a model of the public columns alone, DP on
everything under the same relation, and scikit-learn without privacy.

Prints a table and writes JSON and a figure; an interrupted run continues. capital-gain
and capital-loss enter as log1p, a map chosen before any score was seen.
Seeds make the runs reproducible: **they are not private fits**.

    python benchmarks/reproduce/public_structure.py [--only adult/1000 digits] [--quick]
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import warnings
from collections.abc import Callable

import numpy as np
from _common import (
    RESULTS,
    Split,
    Store,
    adult,
    bundled_split,
    image_split,
    mean_scores,
    scores,
    table_scores,
)
from _data import BOUNDS, CATEGORIES
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skfdp import DPSGDFClassifier, FeatureDPLogisticRegression, UtilityWarning

DELTA = 1e-5
EPSILONS = (0.1, 0.3, 1.0, 3.0, 8.0)
PUBLIC = ("education", "education-num", "age", "hours-per-week", "workclass")
PADDINGS = ("zero", "gaussian", "impute")
# The default may be below the better baseline by this many points of accuracy.
SLACK = 0.3


@dataclasses.dataclass(frozen=True)
class Task:
    """A data set with its public columns.

    Attributes
    ----------
    name : str
    load : callable
        ``load(seed) -> Split``.
    public : callable
        Returns the boolean mask of the public columns.
    seeds : int
    epsilons : tuple of float
    """

    name: str
    load: Callable[[int], Split]
    public: Callable[[], np.ndarray]
    seeds: int
    epsilons: tuple[float, ...] = EPSILONS


# ---------------------------------------------------------------- data


@functools.cache
def adult_logs() -> Split:
    """Return Adult with the two capital columns on a logarithmic scale."""
    split = adult()
    low, high = (np.array(side, dtype=float) for side in split.bounds)
    columns = [list(BOUNDS).index(f"capital-{x}") for x in ("gain", "loss")]
    X, X_test = split.X.astype(float), split.X_test.astype(float)
    for table in (X, X_test):
        table[:, columns] = np.log1p(table[:, columns])
    high[columns] = np.log1p(high[columns])
    return dataclasses.replace(split, X=X, X_test=X_test, bounds=(low, high))


def adult_split(n_rows: int, seed: int) -> Split:
    """Return `n_rows` training rows, drawn by the seed, and all test rows."""
    whole = adult_logs()
    rows = np.random.default_rng([seed, n_rows]).permutation(len(whole.X))[:n_rows]
    return dataclasses.replace(whole, X=whole.X[rows], y=whole.y[rows])


@functools.cache
def adult_public() -> np.ndarray:
    """Return the mask of the public columns of the one-hot table."""
    mask = [name in PUBLIC for name in BOUNDS]
    for name, values in CATEGORIES.items():
        mask += [name in PUBLIC] * len(values)
    return np.array(mask)


def left_half(side: int) -> np.ndarray:
    """Return the mask of the left half of square images."""
    return np.tile(np.arange(side) < side // 2, side)


def all_tasks() -> list[Task]:
    """Return the tasks in order of cost."""
    tasks = [
        Task(f"adult/{n}", functools.partial(adult_split, n), adult_public, 10)
        for n in (1000, 3000, 10_000, 32_561)
    ]
    digits = functools.partial(bundled_split, "digits")
    tasks.insert(0, Task("digits", digits, lambda: left_half(8), 10))
    mnist = functools.partial(image_split, "mnist", 10_000, False)
    return [*tasks, Task("mnist/10000", mnist, lambda: left_half(28), 3)]


def quick_tasks() -> list[Task]:
    """Return a miniature that needs no download."""
    digits = functools.partial(bundled_split, "digits")
    return [Task("digits", digits, lambda: left_half(8), 1, (1.0,))]


# ---------------------------------------------------------------- methods


def public_only(split: Split, public: np.ndarray, trees: bool) -> dict:
    """Score a model that sees the public columns alone: no privacy needed."""
    X, X_test = (table[:, public] for table in split.scaled())
    model = (
        HistGradientBoostingClassifier(random_state=0)
        if trees
        else make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000))
    )
    model.fit(X, split.y)
    return table_scores(model.predict_proba(X_test), model.classes_, split.y_test)


def no_privacy(split: Split) -> dict:
    """Score scikit-learn's model of all columns."""
    X, X_test = split.scaled()
    model = LogisticRegression(max_iter=1000).fit(X, split.y)
    return table_scores(model.predict_proba(X_test), model.classes_, split.y_test)


def feature_dp(split: Split, public: np.ndarray, epsilon: float, seed: int, **given):
    """Score FeatureDPLogisticRegression, defaults except for what is public."""
    model = FeatureDPLogisticRegression(
        epsilon=epsilon,
        delta=DELTA,
        public_features=public,
        bounds=split.bounds,
        random_state=seed,
        **given,
        neighboring_relation="replace_one",
    )
    return scores(model.fit(split.X, split.y), split)


def everything(split: Split, epsilon: float, seed: int) -> dict:
    """Score DP descent with every column and the target private."""
    model = DPSGDFClassifier(
        epsilon=epsilon,
        delta=DELTA,
        neighboring_relation="replace_one",
        bounds=split.bounds,
        random_state=seed,
    )
    return scores(model.fit(split.X, split.y), split)


def methods(public: np.ndarray) -> dict[str, Callable]:
    """Return name -> ``function(split, epsilon, seed)``."""
    trees = HistGradientBoostingClassifier(random_state=0)

    def private(**given):
        return lambda split, epsilon, seed: feature_dp(
            split, public, epsilon, seed, **given
        )

    found = {
        "feature-DP": private(public_target=True),
        "feature-DP, trees": private(public_target=True, public_model=trees),
        "everything": everything,
        "target private": private(public_target=False),
    }
    for padding in PADDINGS:
        found[f"Algorithm 1, {padding}"] = private(
            public_target=True, public_loss=padding
        )
    return found


# ---------------------------------------------------------------- tables


def run(task: Task, store: Store) -> list[dict]:
    """Return one row for each epsilon of the task."""
    public = task.public()
    splits = [functools.partial(task.load, seed) for seed in range(task.seeds)]

    def over_seeds(function: Callable) -> dict:
        with warnings.catch_warnings():
            for category in (UtilityWarning, ConvergenceWarning, UserWarning):
                warnings.simplefilter("ignore", category)
            return mean_scores([function(load(), s) for s, load in enumerate(splits)])

    free = {
        "public only": lambda split, seed: public_only(split, public, trees=False),
        "public only, trees": lambda split, seed: public_only(split, public, True),
        "no privacy": lambda split, seed: no_privacy(split),
    }
    fixed = {
        name: store.compute(f"{task.name}|{name}", lambda f=f: over_seeds(f))
        for name, f in free.items()
        if "trees" not in name or task.name.startswith("adult")
    }
    rows = []
    for epsilon in task.epsilons:
        row = {"data": task.name, "epsilon": epsilon} | fixed
        for name, function in methods(public).items():
            if "trees" in name and not task.name.startswith("adult"):
                continue
            key = f"{task.name}|{epsilon}|{name}"
            row[name] = store.compute(
                key,
                lambda f=function, e=epsilon: over_seeds(lambda sp, s: f(sp, e, s)),
            )
            print(f"{key}: {row[name]['accuracy']:.2f}", flush=True)
        rows.append(summary(row))
    return rows


def summary(row: dict) -> dict:
    """Add the best padding and the distance from the better baseline."""
    tried = [row[f"Algorithm 1, {padding}"] for padding in PADDINGS]
    best = max(tried, key=lambda cell: cell["accuracy"])
    baseline = max(row["public only"]["accuracy"], row["everything"]["accuracy"])
    return row | {
        "Algorithm 1": best,
        "gain": row["feature-DP"]["accuracy"] - baseline,
    }


COLUMNS = (
    "feature-DP",
    "feature-DP, trees",
    "Algorithm 1",
    "public only",
    "everything",
    "target private",
    "no privacy",
)


def table(rows: list[dict]) -> str:
    """Return the rows as text, accuracies in percent."""
    lines = [f"{'data':13s} {'epsilon':>7s} " + " ".join(f"{c:>18s}" for c in COLUMNS)]
    for row in rows:
        cells = [
            f"{row[c]['accuracy']:18.2f}" if c in row else " " * 18 for c in COLUMNS
        ]
        flag = "" if row["gain"] >= -SLACK else "  below the better baseline"
        lines.append(
            f"{row['data']:13s} {row['epsilon']:7g} "
            + " ".join(cells)
            + f"  gain {row['gain']:+.2f}"
            + flag
        )
    return "\n".join(lines)


def draw(rows: list[dict], path) -> None:
    """Draw accuracy against epsilon, one panel for each data set."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["data"] for row in rows))
    figure, axes = plt.subplots(
        1, len(names), figsize=(3.4 * len(names), 3.2), squeeze=False
    )
    styles = {
        "feature-DP": "o-",
        "Algorithm 1": "s:",
        "everything": "^-",
        "target private": "v--",
        "public only": "--",
        "no privacy": "-.",
    }
    for axis, name in zip(axes[0], names, strict=True):
        ours = [row for row in rows if row["data"] == name]
        epsilons = [row["epsilon"] for row in ours]
        for method, style in styles.items():
            values = [row[method]["accuracy"] for row in ours]
            axis.plot(epsilons, values, style, label=method, markersize=4)
        axis.set(xscale="log", title=name, xlabel="epsilon")
    axes[0, 0].set_ylabel("test accuracy, %")
    axes[0, 0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    """Run the tasks that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="digits, one seed")
    parser.add_argument("--only", nargs="+", help="names of tasks: adult/1000, digits")
    parser.add_argument("--output", default=RESULTS / "public_structure.json")
    given = parser.parse_args()
    tasks = quick_tasks() if given.quick else all_tasks()
    store = Store(
        given.output, {"delta": DELTA, "public": PUBLIC, "quick": given.quick}
    )
    rows = []
    for task in tasks:
        if given.only is None or task.name in given.only:
            rows += run(task, store)
    print(table(rows))
    store.save(rows=rows)
    draw(rows, store.path.with_suffix(".png"))


if __name__ == "__main__":
    main()
