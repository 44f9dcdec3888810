"""The picture of the first page: where public columns pay, and where they do not.

Adult: is somebody's income above 50,000 dollars? The income and eight columns (such as
the marital status, the occupation and the sex) are private. Five columns may be public:
age, education (twice), work class and hours a week. Few people are compared with many.
Every private model is the default one; nothing was tuned. The data are read from
SKFDP_DATA or OpenML. ``--draw`` draws what was measured before.

    python benchmarks/reproduce/first_picture.py
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from _data import load_adult
from _tables import ADULT_PUBLIC
from sklearn.metrics import roc_auc_score

from skfdp import FeatureDPLogisticRegression, TableSchema
from skfdp.schema import Category, Ignore, Label, Number

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "first_picture.json"
PICTURES = ROOT / "docs" / "_static"

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
SIZES = (1_000, 30_000)
#: Of a model by the name of its line: its columns, the public ones, the public income.
LINES = {
    "everything private": ("all", "none", False),
    "5 of 13 columns public": ("all", "some", False),
    "5 columns, income public": ("all", "some", True),
    "only income private": ("all", "all", False),
    "5 columns alone, income private": ("some", "all", False),
}
NO_PRIVACY = "no privacy"
#: The lines of the picture; the table has all.
DRAWN = tuple(LINES)[:4]


def schema(adult, used: str, public: str, outcome: bool) -> TableSchema:
    """Return the declaration of the table; `adult` has the bounds and the levels."""

    def inside(name: str, columns: str) -> bool:
        return columns == "all" or (columns == "some" and name in ADULT_PUBLIC)

    declared = {}
    for name in adult.data:
        if name == "fnlwgt" or not inside(name, used):  # a sampling weight
            declared[name] = Ignore()
        elif name in adult.bounds:
            declared[name] = Number(*adult.bounds[name], public=inside(name, public))
        else:
            levels = adult.categories[name]
            declared[name] = Category(levels, public=inside(name, public))
    declared["income"] = Label(["<=50K", ">50K"], public=outcome)
    return TableSchema(declared, outcomes=["income"])


def area(model, rows: pd.DataFrame, y: pd.Series) -> float:
    """Return the area under the ROC curve."""
    chance = model.predict_proba(rows)[:, list(model.classes_).index(">50K")]
    return round(float(roc_auc_score(y == ">50K", chance)), 4)


def measure(n_seeds: int) -> dict:
    """Return the test scores of each line, by number of people: one list a budget."""
    adult, test = load_adult("train"), load_adult("test")
    declared = {name: schema(adult, *columns) for name, columns in LINES.items()}
    found = {
        size: {name: [[] for _ in EPSILONS] for name in LINES} | {NO_PRIVACY: []}
        for size in map(str, SIZES)
    }
    for seed in range(n_seeds):
        order = np.random.default_rng(seed).permutation(len(adult.data))
        for size in SIZES:
            rows, lines = order[:size], found[str(size)]
            X, y = adult.data.iloc[rows], adult.target.iloc[rows]

            def score(name, epsilon, X=X, y=y, seed=seed):
                model = FeatureDPLogisticRegression(
                    epsilon,
                    schema=declared[name],
                    target="income",
                    neighboring_relation="replace_one",
                    random_state=seed,
                ).fit(X, y)
                return area(model, test.data, test.target)

            lines[NO_PRIVACY].append(score("everything private", float("inf")))
            for name in LINES:
                for scores, epsilon in zip(lines[name], EPSILONS, strict=True):
                    scores.append(score(name, epsilon))
        print(f"seed {seed + 1} of {n_seeds}", flush=True)
    return {"epsilon": EPSILONS, "delta": 1e-5, "n_seeds": n_seeds, "auc": found}


def table(result: dict) -> str:
    """Return means, and standard errors, as text."""
    lines = []
    for size, scores in result["auc"].items():
        heads = "".join(f"{epsilon:>14g}" for epsilon in result["epsilon"])
        lines.append(f"{size + ' people':32}{heads}")
        for name, lists in scores.items():
            cells = [lists] if name == NO_PRIVACY else lists
            text = "".join(
                f"{np.mean(one):8.3f} ({np.std(one, ddof=1) / len(one) ** 0.5:.3f})"
                for one in cells
            )
            lines.append(f"{name:32}{text.replace('0.', '.')}")
    return "\n".join(lines)


def draw(result: dict, path: Path, *, dark: bool) -> None:
    """Draw a panel for each number of people, and save the picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ink = "#e8e8e8" if dark else "#222222"
    colours = (
        ("#ffb454", "#5cc8e8", "#7ddf8a", "#d7a6ff")
        if dark
        else ("#b35900", "#1a5f78", "#2e7d32", "#7b3fa0")
    )
    epsilon = np.array(result["epsilon"])
    # Large letters: on a telephone the picture is half as wide.
    settings = {"font.size": 15, "svg.hashsalt": "skfdp", "text.color": ink}
    with plt.rc_context(settings):
        figure, axes = plt.subplots(1, 2, figsize=(7.2, 5.9), sharey=True)
        for ax, (size, lines) in zip(axes, result["auc"].items(), strict=True):
            for name, colour, mark in zip(DRAWN, colours, "osD^", strict=True):
                scores = np.array(lines[name])
                mean = scores.mean(axis=1)
                error = 2 * scores.std(axis=1, ddof=1) / np.sqrt(scores.shape[1])
                ax.plot(epsilon, mean, f"{mark}-", color=colour, lw=2.5, label=name)
                ax.fill_between(
                    epsilon, mean - error, mean + error, color=colour, alpha=0.2
                )
            best = np.mean(lines[NO_PRIVACY])
            ax.axhline(best, color=ink, ls="--", lw=1.8, label=NO_PRIVACY)
            ax.set_title(f"{int(size):,} people", color=ink, fontsize=15)
            ax.set_xscale("log")
            ax.set_xticks(epsilon, [f"{e:g}" for e in epsilon])
            ax.minorticks_off()
            ax.tick_params(colors=ink)
            for side, spine in ax.spines.items():
                spine.set_visible(side in ("left", "bottom"))
                spine.set_color(ink)
        figure.suptitle("Predicting income: what public columns are worth", fontsize=16)
        axes[0].set_ylabel("area under the ROC curve", color=ink)
        figure.text(0.55, 0.2, "epsilon (smaller: more privacy)", ha="center")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="lower center", ncols=2, frameon=False, fontsize=14
        )
        figure.tight_layout(rect=(0, 0.23, 1, 1.01))
        transparent = path.suffix == ".svg"  # cards of links may have any background
        figure.savefig(path, transparent=transparent, metadata={"Date": None})
        plt.close(figure)


def main() -> None:
    """Measure or read, print, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--draw", action="store_true", help="draw the last result")
    arguments = parser.parse_args()
    if not arguments.draw:
        warnings.simplefilter("ignore")
        text = json.dumps(measure(arguments.seeds), indent=1) + "\n"
        RESULTS.write_text(text, encoding="utf-8")
    result = json.loads(RESULTS.read_text(encoding="utf-8"))
    print(table(result))
    draw(result, PICTURES / "first_picture_light.svg", dark=False)
    draw(result, PICTURES / "first_picture_dark.svg", dark=True)
    draw(result, PICTURES / "first_picture.png", dark=False)


if __name__ == "__main__":
    main()
