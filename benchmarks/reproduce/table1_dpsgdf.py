"""Tables 1 and 2 of paper 2, beside the printed numbers.

    python benchmarks/reproduce/table1_dpsgdf.py                  # ten runs of each
    python benchmarks/reproduce/table1_dpsgdf.py --runs 3 --datasets mnist fashion
    python benchmarks/reproduce/table1_dpsgdf.py --features cifar100.npz
    python benchmarks/reproduce/table1_dpsgdf.py --grid 8         # and the paper's loop
    python benchmarks/reproduce/table1_dpsgdf.py --show           # what there is so far

*Table 1*: test accuracy of plain DP-SGD (``centering=None``), of Algorithm 3 (our
default) and of Algorithm 2 (``centering="adaptive", clip_features=True``), untuned: one
fit, with all of epsilon. The paper's numbers are the best of a grid of 1,400 settings
(of 7,000 for DPSGD-F), whose choice was not charged, by the mean of ten runs.

``--grid N`` adds the paper's own loop (Poisson batches, no momentum, constant noise,
no penalty, no temperature) with N settings drawn from the paper's grid among those of
at most ``--most-steps`` steps: the best of them on the first seed, whose choice is not
charged, measured on other seeds. What differs from the paper there: the step size
decays to 0, and the bias feature is a tenth of a row.

*Table 2*: diameter, and largest and mean distance from the mean, of rows of norm 1.

Every fit is a cell of a file, and later runs add to it: ``--show`` prints what is
there, with the number of runs of each row, and writes it beside the file as text. The
relation is "replace_special", whose noise is that of add-or-remove, which the paper's
accountant has; delta is 1e-5. Seeds make the runs reproducible: **they are not private
fits**.
"""

from __future__ import annotations

import argparse
import functools
import time
import warnings
from pathlib import Path

import numpy as np
from _common import RESULTS, Split, Store, image_split, scores
from _features import generated_features, load_features
from sklearn.base import clone

from skfdp import DPSGDFClassifier, UtilityWarning
from skfdp.privacy import PrivacyWarning, gdp_mu
from skfdp.solvers import (
    AdaptiveCentering,
    GaussianCentering,
    NoisyGradientDescent,
    NoisySGD,
)

DELTA = 1e-5
EPSILONS = (1.0, 2.0)
METHODS: dict[str, object] = {
    "DP-SGD": None,
    "Algorithm 3": GaussianCentering(),
    "Algorithm 2": AdaptiveCentering(clip_features=True),
}
#: Printed accuracy and its standard deviation: of DP-SGD and DPSGD-F by epsilon, and
#: without privacy.
PRINTED = {
    "mnist": {1.0: ("87.4 (0.1)", "92.0 (0.1)"), 2.0: ("89.6 (1.2)", "92.3 (0.1)")},
    "fashion": {1.0: ("77.2 (0.4)", "84.0 (0.1)"), 2.0: ("78.7 (0.4)", "84.5 (0.2)")},
    "cifar100": {1.0: ("70.6 (0.3)", "71.6 (0.2)"), 2.0: ("73.8 (0.2)", "74.4 (0.2)")},
}
#: Printed diameter, largest and mean distance from the mean.
PRINTED_SPREADS = {
    "mnist": (1.41, 1.03, 0.77),
    "fashion": (1.41, 1.10, 0.62),
    "cifar100": (1.56, 1.10, 0.9),
}
SETS = ("mnist", "fashion", "cifar100", "generated")
#: The paper's grid; the clip norm of gradients is 1.
GRID = {
    "row_norm": (1, 10, 100, 1000),
    "batch_size": (256, 512, 1024, 2048, 4096, 8192, 16384),
    "learning_rate": (0.03125, 0.0625, 0.125, 0.25, 0.5, 1, 2, 4, 8, 16),
    "epochs": (20, 40, 80, 160, 320),
    "epsilon_of_mean": (0.02, 0.05, 0.1, 0.15, 0.2),
}
PAPER_LOOP = {"momentum": 0.0, "noise_decay": 0.0, "max_weight_norm": 1e6}


@functools.cache
def split_of(name: str, features: str | None) -> Split | None:
    """Return a data set, None where its file is absent."""
    if name in ("mnist", "fashion"):
        return image_split(name, 60_000, pooled=False, seed=0)
    if name == "generated":
        return generated_features()
    return None if features is None else load_features(features)


def estimator(split: Split, epsilon: float, **parameters) -> DPSGDFClassifier:
    """Return the unfitted classifier; classes are declared."""
    classes = np.unique(np.r_[split.y_test, split.y])
    return DPSGDFClassifier(
        epsilon,
        DELTA,
        bounds=split.bounds,
        classes=classes,
        **parameters,
        neighboring_relation="replace_special",
    )


def measured(model, split: Split) -> dict:
    """Return the test scores of a fit, and the seconds of processor that it took."""
    start = time.process_time()
    model.fit(split.X, split.y)
    return scores(model, split) | {"seconds": time.process_time() - start}


# ------------------------------------------------------------------ the paper's grid


def drawn_settings(split: Split, n_settings: int, most_steps: int) -> list[dict]:
    """Return settings of the paper's grid, drawn among those that take few steps."""
    rng, found = np.random.default_rng(0), []
    while len(found) < n_settings:
        one = {name: rng.choice(values).item() for name, values in GRID.items()}
        if one not in found and steps(one, split) <= most_steps:
            found.append(one)
    return found


def steps(setting: dict, split: Split) -> int:
    """Return the steps that a setting takes."""
    return round(setting["epochs"] * len(split.X) / setting["batch_size"])


def parameters_of(setting: dict, split: Split, method: str, epsilon: float) -> dict:
    """Return the parameters that a setting of the paper's grid stands for.

    The loop's rows have norm 1 and not `row_norm`: the clip norm is divided by it, and
    the step, which is taken on weights that are as much longer, multiplied.
    """
    norm = setting["row_norm"]
    solver = NoisySGD(
        clip_norm=1 / norm,
        batch_size=setting["batch_size"],
        learning_rate=setting["learning_rate"] * norm,
        max_iter=steps(setting, split),
        normalize=True,
        **PAPER_LOOP,
    )
    centering = METHODS[method]
    if centering is not None:
        part = gdp_mu(setting["epsilon_of_mean"], DELTA) / gdp_mu(epsilon, DELTA)
        centering = clone(centering).set_params(budget_share=part**2)
    return {"solver": solver, "centering": centering}


def run_grid(store: Store, arguments, name: str, epsilon: float, method: str) -> None:
    """Fit all settings once, and the best of them again."""
    split = split_of(name, arguments.features)
    settings = drawn_settings(split, arguments.grid, arguments.most_steps)
    start = f"{name} | {epsilon} | {method}"

    def fit(setting: dict, seed: int) -> dict:
        given = parameters_of(setting, split, method, epsilon)
        model = estimator(split, epsilon, random_state=seed, **given)
        return store.compute(
            f"{start} | {sorted(setting.items())} | seed {seed}",
            lambda: measured(model, split),
        )

    best = max(settings, key=lambda one: fit(one, 0)["accuracy"])
    for seed in range(1, 1 + arguments.grid_runs):
        found = fit(best, seed)
        key = f"{arguments.grid} settings | seed {seed}"
        store.compute(f"{start}, grid, not charged | {key}", lambda f=found: f)


# ------------------------------------------------------------------------- table 2


def spreads(split: Split) -> dict[str, float]:
    """Return the measures of table 2, of training rows of norm 1."""
    rows = split.X.astype(np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows /= np.where(lengths > 0, lengths, 1)
    distances = np.linalg.norm(rows - rows.mean(axis=0, dtype=np.float64), axis=1)
    # Of non-negative rows no product is below 0, and one of 0, which rows with few
    # entries are likely to have, ends the search.
    least, floor = 1.0, 0.0 if (rows >= 0).all() else -1.0
    rows = rows[np.argsort(np.count_nonzero(rows, axis=1))]
    for start in range(0, len(rows), 200):
        least = min(least, float((rows[start : start + 200] @ rows.T).min()))
        if least <= floor:
            break
    return {
        "diameter": float(np.sqrt(2 - 2 * max(least, floor))),
        "largest": float(distances.max()),
        "mean": float(distances.mean()),
    }


# ---------------------------------------------------------------------- the tables


def runs_of(store: Store, start: str) -> list[dict]:
    """Return the cells of a row, in the order of their seeds."""
    return [cell for key, cell in store.cells.items() if key.startswith(f"{start} | ")]


def cell_text(runs: list[dict]) -> str:
    """Return the mean, the standard deviation and the number of runs."""
    if not runs:
        return "-"
    accuracy = [run["accuracy"] for run in runs]
    spread = f" ({np.std(accuracy, ddof=1):.1f})" if len(runs) > 1 else ""
    return f"{np.mean(accuracy):.2f}{spread} n={len(runs)}"


def table_lines(store: Store, has_features: bool):
    """Yield the lines of both tables, of the cells that there are."""
    width = 22
    yield "Table 1: test accuracy, mean (standard deviation) and number of runs"
    yield f"{'':34}" + "".join(f"{f'epsilon {e:g}':{width}}" for e in EPSILONS)
    for name in SETS:
        yield ""
        told = {"generated": "generated, of the shape of CIFAR-100's features"}
        yield told.get(name, name)
        if name in PRINTED:
            for place, what in enumerate(("DP-SGD", "DPSGD-F")):
                yield f"  {f'{what}, as printed':32}" + "".join(
                    f"{PRINTED[name][e][place]:{width}}" for e in EPSILONS
                )
        present = any(key.startswith(f"{name} | ") for key in store.cells)
        if name == "cifar100" and not present:
            if not has_features:
                yield "  no file of features was given (--features): not measured"
            continue
        for method in METHODS:
            label = {"Algorithm 3": "Algorithm 3, our default"}.get(method, method)
            for end in ("", ", grid, not charged"):
                runs = [
                    runs_of(store, f"{name} | {epsilon} | {method}{end}")
                    for epsilon in EPSILONS
                ]
                if not end:
                    runs = [[r for r in one if r.get("untuned")] for one in runs]
                if end and not any(runs):
                    continue
                shown = f"{method if end else label}{end}"
                yield f"  {shown:32}" + "".join(
                    f"{cell_text(one):{width}}" for one in runs
                )
    yield ""
    yield "Table 2: rows of norm 1"
    yield f"{'':34}{'diameter':>12}{'largest':>12}{'mean':>12}"
    for name in SETS:
        if name in PRINTED_SPREADS:
            numbers = "".join(f"{x:12.2f}" for x in PRINTED_SPREADS[name])
            yield f"{f'{name}, as printed':34}{numbers}"
        found = store.cells.get(f"spread of {name}")
        if found is not None:
            numbers = "".join(f"{x:12.2f}" for x in found.values())
            yield f"{name:34}{numbers}"


def run(store: Store, arguments) -> None:
    """Fill the cells that are missing, one seed of everything after the other."""
    present = [n for n in arguments.datasets if split_of(n, arguments.features)]
    for seed in range(arguments.runs):
        for name in present:
            split = split_of(name, arguments.features)
            for epsilon in arguments.epsilons:
                for method in arguments.methods:
                    given = {"centering": METHODS[method], "random_state": seed}
                    solver = NoisyGradientDescent(normalize=True)
                    model = estimator(split, epsilon, solver=solver, **given)
                    store.compute(
                        f"{name} | {epsilon} | {method} | seed {seed}",
                        lambda m=model, s=split: measured(m, s) | {"untuned": True},
                    )
    for name in present:
        split = split_of(name, arguments.features)
        store.compute(f"spread of {name}", functools.partial(spreads, split))
    if arguments.grid:
        for name in present:
            for epsilon in arguments.epsilons:
                for method in arguments.methods:
                    run_grid(store, arguments, name, epsilon, method)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--datasets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--features", help="file of CIFAR-100's features")
    parser.add_argument("--grid", type=int, default=0, help="settings to draw")
    parser.add_argument("--grid-runs", type=int, default=3, help="of the best setting")
    parser.add_argument("--most-steps", type=int, default=300, help="of a setting")
    parser.add_argument("--show", action="store_true", help="fit nothing")
    parser.add_argument("--output", type=Path, default=RESULTS / "table1_dpsgdf.json")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UtilityWarning)
    warnings.simplefilter("ignore", PrivacyWarning)
    store = Store(arguments.output, {"delta": DELTA, "version": 1})
    if not arguments.show:
        run(store, arguments)
    lines = [line.rstrip() for line in table_lines(store, bool(arguments.features))]
    print("\n".join(lines))
    arguments.output.with_suffix(".txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
