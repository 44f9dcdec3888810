"""Is tuning worth its price? PrivateSearchCV against no tuning, at one total budget.

For each data set there are two families of settings: near the defaults, which are
already good, and plain DP gradient descent with an unknown step size, whose settings
are not. Everything spends the same epsilon, but for the oracle:

*default*
    the estimator as it is, on all records (for plain descent there is none);
*any*
    a setting drawn at random: the mean over the settings;
*search*, *logarithmic*
    `PrivateSearchCV`, best of a random number of runs, geometric or logarithmic;
*oracle*
    the setting with the best mean test accuracy, at the whole budget: not private, and
    not charged.

The oracle is chosen on some seeds and measured on fresh ones, on which the others are
measured too. Seeds make the runs reproducible: **they are not private fits**.
"""

from __future__ import annotations

import argparse
import functools
import warnings
from pathlib import Path

import numpy as np
from _common import (
    RESULTS,
    Split,
    Store,
    adult,
    bundled_split,
    image_split,
    mean_scores,
)
from _common import scores as test_scores
from sklearn.model_selection import ParameterGrid

from skfdp import DPSGDFClassifier
from skfdp.experimental import PrivateSearchCV

EPSILON, DELTA = 1.0, 1e-5
FRESH = 1000
ARMS = ("default", "any", "search", "logarithmic", "oracle")

#: Fixed parameters and grid of each family.
FAMILIES: dict[str, tuple[dict, dict]] = {
    "near the defaults": (
        {},
        {"clip_norm": [0.05, 0.2, 0.8], "normalize": [True, False]},
    ),
    "plain descent": (
        {"centering": None, "momentum": 0.0, "noise_decay": 0.0, "max_iter": 50},
        {"learning_rate": [0.1, 1.0, 10.0, 100.0], "clip_norm": [0.1, 1.0]},
    ),
}
SETS = {
    "adult": lambda: adult(),
    "mnist 10000": lambda: image_split("mnist", 10_000, pooled=False, seed=0),
    "digits": lambda: bundled_split("digits", 0),
}


def estimator(split: Split, fixed: dict, **parameters) -> DPSGDFClassifier:
    """Return the unfitted classifier; classes are declared."""
    classes = np.unique(np.r_[split.y_test, split.y])
    return DPSGDFClassifier(
        bounds=split.bounds,
        classes=classes,
        **(fixed | parameters),
        neighboring_relation="replace_special",
    )


def fit_scores(name: str, family: str, setting: dict, seed: int) -> dict:
    """Return the test scores of one setting at the whole budget."""
    split = SETS[name]()
    model = estimator(
        split,
        FAMILIES[family][0],
        epsilon=EPSILON,
        delta=DELTA,
        random_state=seed,
        **setting,
    )
    return test_scores(model.fit(split.X, split.y), split)


def search_scores(name: str, family: str, arm: str, seed: int) -> dict:
    """Return the test scores of the model that a search publishes."""
    split = SETS[name]()
    fixed, grid = FAMILIES[family]
    search = PrivateSearchCV(
        estimator(split, fixed),
        grid,
        epsilon=EPSILON,
        delta=DELTA,
        mean_runs=5.0,
        eta=0.0 if arm == "logarithmic" else 1.0,
        random_state=seed,
    ).fit(split.X, split.y)
    return test_scores(search, split) | {"params": repr(search.best_params_)}


def rows_of(store: Store, name: str, family: str, n_choose: int, n_runs: int) -> dict:
    """Return the mean scores of all arms on fresh seeds."""
    settings = list(ParameterGrid(FAMILIES[family][1]))
    fresh = range(FRESH, FRESH + n_runs)

    def runs(label: str, function, seeds) -> list[dict]:
        return [
            store.compute(
                f"{name} | {family} | {label} | seed {seed}",
                functools.partial(function, seed=seed),
            )
            for seed in seeds
        ]

    def fits(setting: dict, seeds) -> list[dict]:
        fit = functools.partial(fit_scores, name, family, setting)
        return runs(repr(setting), fit, seeds)

    chosen = [mean_scores(fits(s, range(n_choose))) for s in settings]
    best = settings[int(np.argmax([c["accuracy"] for c in chosen]))]
    arms: dict = {"oracle": mean_scores(fits(best, fresh)) | {"params": repr(best)}}
    accuracies = [c["accuracy"] for c in chosen]
    arms["any"] = {
        "accuracy": float(np.mean(accuracies)),
        "worst": float(np.min(accuracies)),
        "n_settings": len(settings),
    }
    if not FAMILIES[family][0]:
        arms["default"] = mean_scores(fits({}, fresh))
    for arm in ("search", "logarithmic"):
        search = functools.partial(search_scores, name, family, arm)
        arms[arm] = mean_scores(runs(arm, search, fresh))
    return {"data": name, "family": family, **arms}


def table(rows: list[dict]) -> str:
    """Return the test accuracies as text."""
    lines = [f"{'data set':12} {'settings':18}" + "".join(f"{arm:>14}" for arm in ARMS)]
    for row in rows:
        cells = ""
        for arm in ARMS:
            found = row.get(arm)
            text = "-"
            if found:
                error = found.get("accuracy_se")
                text = f"{found['accuracy']:.2f}"
                text += "" if error is None else f" +-{error:.2f}"
            cells += f"{text:>14}"
        lines.append(f"{row['data']:12} {row['family']:18}{cells}")
    return "\n".join(lines)


def run(path: Path, names: list[str], n_choose: int, n_runs: int) -> dict:
    """Measure, print the table, return what was saved."""
    store = Store(
        path, {"epsilon": EPSILON, "delta": DELTA, "families": repr(FAMILIES)}
    )
    rows: list[dict] = []
    for name in names:
        for family in FAMILIES:
            rows.append(rows_of(store, name, family, n_choose, n_runs))
            store.save(rows=rows, n_choose=n_choose, n_runs=n_runs)
    print(table(rows))
    return store.content


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="digits, one seed")
    parser.add_argument("--only", nargs="+", choices=SETS, default=["adult"])
    parser.add_argument("--runs", type=int, default=8, help="fresh seeds")
    parser.add_argument("--output", type=Path, default=RESULTS / "private_search.json")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    if arguments.quick:
        run(arguments.output, ["digits"], 1, 1)
    else:
        run(arguments.output, arguments.only, 2, arguments.runs)


if __name__ == "__main__":
    main()
