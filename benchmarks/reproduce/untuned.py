"""How good are the defaults of DPSGDFClassifier, untouched?

Three modes, each with a table on the screen and a JSON file, which an interrupted run
continues:

``--full-size``
    MNIST, Fashion-MNIST at epsilon 1 and Adult at epsilon 0.1, with marks to meet.
``--suite``
    Many data sets and budgets: the default against the best of a grid, plain DP
    descent (no centring) and scikit-learn without privacy.
``--quick``
    The suite in miniature, to see that everything runs.

The best of a grid is chosen on some seeds and splits and measured on fresh ones, the
same on which the default is measured; the maximum of noisy means would be inflated.
Seeds make the runs reproducible: **they are not private fits**.
"""

from __future__ import annotations

import argparse
import functools
import math
import warnings
from pathlib import Path

import numpy as np
from _common import (
    RESULTS,
    DataSet,
    Split,
    Store,
    adult,
    bundled_split,
    classification_split,
    image_split,
    mean_scores,
    offset_split,
    scales_split,
    scores,
    text_split,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from skfdp import DPSGDFClassifier, UtilityWarning
from skfdp.privacy import gdp_mu

DELTA = 1e-5
# Fresh seeds start here; those below choose among settings.
FRESH = 1000
# More fresh seeds are added where the standard error of a gap is above this many
# points, up to this many times the number of the data set. (The rule looks at the
# error and not at the gap, so it biases nothing.)
ERROR, TIMES = 0.5, 10
MEAN_GAP, WORST_GAP = 0.35, 1.8


# ---------------------------------------------------------------- full size

FULL_SIZE = [
    # data set, epsilon, parameters, least accuracy, largest log-loss
    ("mnist", 1.0, {}, 91.4, 0.34),
    ("fashion", 1.0, {}, 83.2, 0.55),
    ("adult", 0.1, {}, 84.4, None),
    ("adult", 0.1, {"clip_norm": 0.1}, None, None),
    ("adult, capital-gain to 10,000", 0.1, {}, None, None),
    ("adult, capital-gain to 10,000", 0.1, {"clip_norm": 0.1}, None, None),
    ("mnist", 1.0, {"clip_norm": 0.1}, 91.7, None),
    ("fashion", 1.0, {"clip_norm": 0.1}, 83.6, None),
]


def full_size_split(name: str) -> Split:
    """Return a data set of `FULL_SIZE`."""
    if name.startswith("adult"):
        return adult(10_000 if "10,000" in name else None)
    return image_split(name, 60_000, pooled=False, seed=0)


def full_size(path: Path, n_seeds: int = 5) -> dict:
    """Measure the rows of `FULL_SIZE`, print them with their marks, return them."""
    store = Store(path, {"mode": "full-size", "delta": DELTA})
    print(f"{'data set':30} {'epsilon':>7} {'parameters':18} accuracy   log-loss")
    rows = []
    for name, epsilon, parameters, accuracy, loss in FULL_SIZE:
        label = ", ".join(f"{key}={value}" for key, value in parameters.items())
        label = label or "default"
        fit = functools.partial(_full_size_fit, name, epsilon, parameters)
        runs = [
            store.compute(
                f"{name} | {epsilon} | {label} | seed {seed}",
                functools.partial(fit, seed),
            )
            for seed in range(n_seeds)
        ]
        row = {"data": name, "epsilon": epsilon, "parameters": label}
        row |= mean_scores(runs)
        row["marks"] = {"accuracy": accuracy, "log_loss": loss}
        row["met"] = None
        if accuracy is not None:
            met = row["accuracy"] >= accuracy
            row["met"] = bool(met and (loss is None or row["log_loss"] <= loss))
        rows.append(row)
        print(_full_size_line(row), flush=True)
        store.save(rows=rows, seeds=list(range(n_seeds)))
    return store.content


def _full_size_fit(name: str, epsilon: float, parameters: dict, seed: int) -> dict:
    return fit_scores(full_size_split(name), epsilon, seed, **parameters)


def _full_size_line(row: dict) -> str:
    line = (
        f"{row['data']:30} {row['epsilon']:7} {row['parameters']:18} "
        f"{row['accuracy']:.2f} +- {row['accuracy_se']:.2f}  {row['log_loss']:.3f}"
    )
    if row["met"] is not None:
        marks = row["marks"]
        line += f"   mark {marks['accuracy']}"
        if marks["log_loss"] is not None:
            line += f" at {marks['log_loss']}"
        line += ": met" if row["met"] else ": MISSED"
    return line


# ---------------------------------------------------------------- the suite


def suite_sets() -> list[DataSet]:
    """Return the data sets, roughly from cheap to expensive."""

    def bundle(name, select, measure):
        return DataSet(name, functools.partial(bundled_split, name), select, measure)

    def generated(n_rows, n_features, n_classes, select, measure, bound=5.0):
        name = f"generated {n_rows} x {n_features}, {n_classes} classes"
        load = functools.partial(
            _classification, n_rows, n_features, n_classes, bound=bound
        )
        return DataSet(name, load, select, measure)

    def image(name, n_rows, pooled, select, measure, **options):
        label = f"{name} {n_rows} x {196 if pooled else 784}"
        load = functools.partial(image_split, name, n_rows, pooled)
        return DataSet(label, load, select, measure, **options)

    large = {"epsilons": (1.0, 8.0), "large": True}
    return [
        generated(1000, 20, 2, 3, 12),
        generated(1000, 200, 2, 3, 8, bound=10.0),
        generated(3000, 50, 3, 2, 6),
        generated(10_000, 20, 2, 2, 4, bound=8.0),
        generated(10_000, 100, 5, 1, 3),
        DataSet("offset 10000 x 10", _offset, 2, 6),
        DataSet("scales 6000 x 25", _scales, 2, 6),
        bundle("digits", 2, 8),
        bundle("breast_cancer", 4, 24),
        bundle("wine", 4, 24),
        DataSet("adult", _adult, 1, 3),
        DataSet("text 8000 x 500, 4 classes", _text, 1, 3),
        image("fashion", 2000, True, 1, 4),
        image("mnist", 2000, False, 1, 3),
        image("mnist", 10_000, True, 1, 2),
        bundle("iris", 6, 40),
        image("fashion", 10_000, True, 1, 2),
        image("mnist", 60_000, True, 1, 2, **large),
        image("fashion", 60_000, False, 1, 2, **large),
        image("mnist", 60_000, False, 1, 2, **large),
    ]


def quick_sets() -> list[DataSet]:
    """Return two small data sets of few seeds."""
    wine = functools.partial(bundled_split, "wine")
    generated = functools.partial(_classification, 1000, 20, 2)
    return [
        DataSet("wine", wine, 1, 2, (1.0, 8.0), large=True),
        DataSet(
            "generated 1000 x 20, 2 classes", generated, 1, 2, (0.1, 1.0), large=True
        ),
    ]


def _classification(n_rows, n_features, n_classes, seed, bound=5.0) -> Split:
    return classification_split(n_rows, n_features, n_classes, seed, bound)


def _text(seed: int) -> Split:
    return text_split(8000, 500, 4, seed)


def _offset(seed: int) -> Split:
    return offset_split(10_000, seed)


def _scales(seed: int) -> Split:
    return scales_split(6000, seed)


def _adult(seed: int) -> Split:
    return adult()


def grid(large: bool) -> list[dict]:
    """Return the settings, at most 16; "pace" multiplies `pace_rate`."""
    if large:
        settings = [(clip, pace, "gaussian") for clip in (0.1, 0.8) for pace in (1, 2)]
        settings += [(1.4, 1, "gaussian"), (0.1, 1, None)]
    else:
        settings = [
            (clip, pace, "gaussian")
            for clip in (0.1, 0.3, 0.8, 1.4)
            for pace in (0.5, 1, 2)
        ]
        settings += [(0.1, 1, None), (0.8, 1, None), (0.3, 4, "gaussian")]
        settings += [(0.1, 4, "gaussian")]
    names = ("clip_norm", "pace", "centering")
    return [dict(zip(names, setting, strict=True)) for setting in settings]


def pace_rate(epsilon: float, n_rows: int, momentum: float = 0.9) -> float:
    """Return a step size for the grid, whatever the rule of the package says.

    Noise in a weight without curvature has a standard deviation of 1.5 below 20.
    """
    mu = gdp_mu(epsilon, DELTA)
    return min(1.5 * mu * n_rows * 2 * (1 - momentum) / 200, 20.0)


def fit_scores(split: Split, epsilon: float, seed: int, **parameters) -> dict:
    """Fit the classifier, untouched except for `parameters`, and score it."""
    model = DPSGDFClassifier(
        epsilon,
        DELTA,
        bounds=split.bounds,
        random_state=seed,
        **parameters,
        neighboring_relation="replace_special",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        model.fit(split.X, split.y)
    return scores(model, split)


def grid_scores(split: Split, epsilon: float, seed: int, setting: dict) -> dict:
    """Fit and score one setting of `grid`."""
    rate = setting["pace"] * pace_rate(epsilon, len(split.X))
    parameters = {key: setting[key] for key in ("clip_norm", "centering")}
    return fit_scores(split, epsilon, seed, learning_rate=rate, **parameters)


def choose(data: DataSet, epsilon: float) -> dict:
    """Return the best setting by mean accuracy: all on some seeds, the best on more."""
    settings = grid(data.large)
    runs: list[list[float]] = [[] for _ in settings]
    candidates = range(len(settings))
    for seeds in (range(data.select), range(data.select, 3 * data.select)):
        for seed in seeds:
            split = data.load(seed)
            for i in candidates:
                found = grid_scores(split, epsilon, seed, settings[i])
                runs[i].append(found["accuracy"])
        means = [float(np.mean(found)) for found in runs]
        if data.large:
            break
        candidates = sorted(candidates, key=lambda i: -means[i])[:4]
    best = max(candidates, key=lambda i: means[i])
    return {
        "setting": settings[best],
        "grid": [
            {**setting, "accuracy": mean, "n_runs": len(found)}
            for setting, mean, found in zip(settings, means, runs, strict=True)
        ],
    }


def measure(data: DataSet, fit, first: int = 0) -> list[dict]:
    """Return the scores of ``fit(split, seed)`` on fresh seeds, from number `first`."""
    seeds = range(FRESH + first, FRESH + first + data.measure)
    return [fit(data.load(seed), seed) for seed in seeds]


def reference(data: DataSet) -> dict:
    """Measure scikit-learn's LogisticRegression, no privacy, C chosen like a grid."""
    strengths = (10.0,) if len(data.load(0).X) >= 10_000 else (0.1, 1.0, 10.0, 100.0)

    def run(split, seed, C) -> dict:
        X, X_test = split.scaled()
        model = LogisticRegression(C=C, max_iter=200, tol=1e-3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, split.y)
        return scores(model, Split(X, split.y, X_test, split.y_test, split.bounds))

    best = strengths[0]
    if len(strengths) > 1:
        means = [
            np.mean([run(data.load(s), s, C)["accuracy"] for s in range(data.select)])
            for C in strengths
        ]
        best = strengths[int(np.argmax(means))]
    fixed = data.large or data.name == "adult"
    once = DataSet(data.name, data.load, data.select, 1) if fixed else data
    return {"C": best} | mean_scores(measure(once, functools.partial(run, C=best)))


def cell(store: Store, data: DataSet, epsilon: float, extend: bool = True) -> dict:
    """Return one row of the table, from what the store has and the rest computed.

    `extend` adds fresh seeds where the gap is uncertain.
    """
    key = f"{data.name} | {epsilon} | "
    chosen = store.compute(key + "choice", lambda: choose(data, epsilon))
    fits = {
        "default": lambda split, seed: fit_scores(split, epsilon, seed),
        "best": lambda split, seed: grid_scores(
            split, epsilon, seed, chosen["setting"]
        ),
        "plain": lambda split, seed: fit_scores(split, epsilon, seed, centering=None),
    }
    runs = {
        part: store.compute(key + part, functools.partial(measure, data, fit))
        for part, fit in fits.items()
    }
    pair = runs["default"], runs["best"]
    extend = extend and epsilon >= 0.3 and not data.large
    most = TIMES * data.measure if extend else 0
    # The shorter list first: a part that was measured again catches up.
    while len(pair[0]) != len(pair[1]) or (
        gap(*pair)[1] > ERROR and len(pair[0]) < most
    ):
        part = "best" if len(pair[1]) < len(pair[0]) else "default"
        runs[part] += measure(data, fits[part], first=len(runs[part]))
        store.save()
    points, error = gap(*pair)
    return {
        "data": data.name,
        "epsilon": epsilon,
        "default": mean_scores(runs["default"]),
        "grid": mean_scores(runs["best"]) | {"setting": chosen["setting"]},
        "plain": mean_scores(runs["plain"]),
        "sklearn": store.compute(f"{data.name} | reference", lambda: reference(data)),
        "gap": points,
        "gap_se": error,
    }


def gap(default: list[dict], best: list[dict]) -> tuple[float, float]:
    """Return mean and standard error of the paired differences in accuracy."""
    points = [b["accuracy"] - d["accuracy"] for b, d in zip(best, default, strict=True)]
    return float(np.mean(points)), float(np.std(points, ddof=1) / len(points) ** 0.5)


def known(store: Store, data: DataSet, epsilon: float) -> bool:
    """Return whether the store has a whole cell."""
    parts = [f"{epsilon} | {part}" for part in ("choice", "default", "best", "plain")]
    return all(f"{data.name} | {p}" in store.cells for p in [*parts, "reference"])


def summary(rows: list[dict]) -> dict:
    """Return gaps and log-losses of the default and the grid, by budget."""
    found = {}
    for label, keep in (
        ("epsilon >= 0.3", [row for row in rows if row["epsilon"] >= 0.3]),
        ("epsilon = 0.1", [row for row in rows if row["epsilon"] < 0.3]),
    ):
        if not keep:
            continue
        worst = max(keep, key=lambda row: row["gap"])
        found[label] = {
            "n_cells": len(keep),
            "mean_gap": float(np.mean([row["gap"] for row in keep])),
            "worst_gap": worst["gap"],
            "worst_gap_se": worst["gap_se"],
            "worst_cell": f"{worst['data']}, epsilon {worst['epsilon']:g}",
            "mean_log_loss": {
                kind: float(np.mean([row[kind]["log_loss"] for row in keep]))
                for kind in ("default", "grid", "plain", "sklearn")
            },
            "mean_accuracy": {
                kind: float(np.mean([row[kind]["accuracy"] for row in keep]))
                for kind in ("default", "grid", "plain", "sklearn")
            },
        }
    found["growth"] = growth(rows)
    return found


def growth(rows: list[dict]) -> dict:
    """Return the largest loss of accuracy as epsilon grows, and where epsilon ends."""
    drop, last = {"points": 0.0, "cell": None}, {}
    by_name: dict[str, list[dict]] = {}
    for row in rows:
        by_name.setdefault(row["data"], []).append(row)
    for name, cells in by_name.items():
        cells = sorted(cells, key=lambda row: row["epsilon"])
        for low, high in zip(cells, cells[1:], strict=False):
            points = low["default"]["accuracy"] - high["default"]["accuracy"]
            if points > drop["points"]:
                where = f"{name}, epsilon {low['epsilon']:g} to {high['epsilon']:g}"
                drop = {"points": points, "cell": where}
        behind = cells[-1]["sklearn"]["accuracy"] - cells[-1]["default"]["accuracy"]
        last[name] = {"epsilon": cells[-1]["epsilon"], "behind_sklearn": behind}
    return {"largest_drop": drop, "at_the_largest_epsilon": last}


def run_suite(path: Path, sets: list[DataSet], mode: str, only=(), refresh=()) -> dict:
    """Compute the cells, print the table and its summary, return the content.

    Parameters
    ----------
    path : Path
    sets : list of DataSet
    mode : str
    only : sequence of str, default=()
        Compute only data sets whose name starts like one of these; others are shown
        as far as they are known.
    refresh : sequence of str, default=()
        Parts of these data sets to measure again.
    """
    seeds = {data.name: [data.select, data.measure] for data in sets}
    store = Store(path, {"mode": mode, "delta": DELTA, "seeds": seeds})
    wanted = [d.name for d in sets if not only or d.name.startswith(tuple(only))]
    for key in list(store.cells):
        if key.partition(" | ")[0] in wanted and key.rpartition(" | ")[2] in refresh:
            del store.cells[key]
    print(
        f"{'data set':32} {'eps':>4}   default        grid   gap           plain  "
        "sklearn | log-loss: default grid plain sklearn | best setting"
    )
    rows = []
    for data in sets:
        for epsilon in data.epsilons:
            if data.name in wanted or known(store, data, epsilon):
                rows.append(cell(store, data, epsilon, extend=data.name in wanted))
                print(_suite_line(rows[-1]), flush=True)
                store.save(rows=rows, summary=summary(rows))
    _print_summary(store.content["summary"])
    return store.content


def _suite_line(row: dict) -> str:
    kinds = ("default", "grid", "plain", "sklearn")
    losses = " ".join(f"{row[kind]['log_loss']:.3f}" for kind in kinds)
    setting = row["grid"]["setting"]
    return (
        f"{row['data']:32} {row['epsilon']:4g}  {row['default']['accuracy']:6.2f} "
        f"+- {row['default']['accuracy_se']:.2f} {row['grid']['accuracy']:6.2f} "
        f"{row['gap']:+.2f} +- {row['gap_se']:.2f}  {row['plain']['accuracy']:6.2f}  "
        f"{row['sklearn']['accuracy']:6.2f} | {losses} | clip "
        f"{setting['clip_norm']:g}, pace {setting['pace']:g}, {setting['centering']}"
    )


def _print_summary(found: dict) -> None:
    for label, part in found.items():
        if label == "growth":
            continue
        losses, accuracy = part["mean_log_loss"], part["mean_accuracy"]
        print(
            f"\n{label}, {part['n_cells']} cells: the default is "
            f"{part['mean_gap']:.2f} points behind the best of the grid on average, at "
            f"worst "
            f"{part['worst_gap']:.2f} +- {part['worst_gap_se']:.2f} "
            f"({part['worst_cell']})."
        )
        for kind in losses:
            print(
                f"  {kind:8} accuracy {accuracy[kind]:.2f}, log-loss {losses[kind]:.3f}"
            )
        if label == "epsilon >= 0.3":
            met = part["mean_gap"] <= MEAN_GAP and part["worst_gap"] <= WORST_GAP
            print(
                f"  marks: mean {MEAN_GAP}, worst {WORST_GAP}: "
                f"{'met' if met else 'MISSED'}"
            )
    drop = found["growth"]["largest_drop"]
    print(
        f"\nLargest loss of accuracy where epsilon grows: {drop['points']:.2f} points "
        f"({drop['cell']})."
    )
    ends = found["growth"]["at_the_largest_epsilon"].values()
    behind = [end["behind_sklearn"] for end in ends]
    print(
        "At the largest epsilon, points behind scikit-learn without privacy: mean "
        f"{np.mean(behind):.2f}, median {np.median(behind):.2f}, worst "
        f"{max(behind):.2f}."
    )


def draw(content: dict, path: Path) -> None:
    """Draw accuracy against epsilon, one panel for each data set."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    rows = content["rows"]
    names = list(dict.fromkeys(row["data"] for row in rows))
    n_columns = min(4, len(names))
    n_lines = math.ceil(len(names) / n_columns)
    figure, axes = plt.subplots(
        n_lines,
        n_columns,
        figsize=(3.2 * n_columns, 2.5 * n_lines),
        squeeze=False,
        layout="constrained",
    )
    styles = {"grid": "k:", "default": "C0o-", "plain": "C1s--", "sklearn": "C2-"}
    labels = {"grid": "best of a grid", "plain": "no centring", "sklearn": "no privacy"}
    for axis, name in zip(axes.flat, names, strict=False):
        cells = [row for row in rows if row["data"] == name]
        epsilons = [row["epsilon"] for row in cells]
        for kind, style in styles.items():
            accuracy = [row[kind]["accuracy"] for row in cells]
            label = labels.get(kind, kind)
            axis.plot(epsilons, accuracy, style, markersize=3, label=label)
        axis.set_xscale("log")
        axis.set_title(name, fontsize="small")
    for axis in axes.flat[len(names) :]:
        axis.set_axis_off()
    axes[0, 0].legend(fontsize="x-small")
    figure.supxlabel("epsilon")
    figure.supylabel("test accuracy, percent")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main(argv: list[str] | None = None) -> None:
    """Run the modes that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--full-size", action="store_true")
    mode.add_argument("--suite", action="store_true")
    mode.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--output", type=Path, help="JSON file; benchmarks/results/ by default"
    )
    parser.add_argument("--figure", type=Path, help="PNG of the suite")
    parser.add_argument(
        "--only", nargs="+", default=(), help="data sets whose name starts like this"
    )
    parser.add_argument(
        "--refresh",
        nargs="+",
        default=(),
        choices=["choice", "default", "best", "plain", "reference"],
        help="parts of the suite to measure again",
    )
    options = parser.parse_args(argv)
    if options.full_size:
        full_size(options.output or RESULTS / "untuned_full_size.json")
        return
    sets = suite_sets() if options.suite else quick_sets()
    name = "suite" if options.suite else "quick"
    path = options.output or RESULTS / f"untuned_{name}.json"
    content = run_suite(path, sets, name, options.only, options.refresh)
    if options.figure:
        draw(content, options.figure)


if __name__ == "__main__":
    main()
