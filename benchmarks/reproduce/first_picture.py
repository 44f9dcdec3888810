"""The picture of the first page: accuracy against epsilon, by what is public.

Handwritten digits bundled with scikit-learn, as in ``python -m skfdp``: 64 columns, of
which the left half of each image may be public, and the label. Every private model is
the default one; nothing was tuned. ``--draw`` draws what was measured before.

    python benchmarks/reproduce/first_picture.py
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skfdp import FeatureDPLogisticRegression, PrivacyWarning, UtilityWarning

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "first_picture.json"
PICTURES = ROOT / "docs" / "_static"

#: The left half of each image.
LEFT = np.arange(64) % 8 < 4
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
#: What is public of a record, by the name of its line.
SPLITS = {
    "right half private": {"public_features": LEFT, "public_target": True},
    "label private": {"public_features": "all"},
    "everything private": {},
}
NO_PRIVACY, PUBLIC_ONLY = "no privacy", "public half only"


def measure(n_seeds: int) -> dict:
    """Return the test accuracies of each line: one list a budget."""
    X, y = load_digits(return_X_y=True)
    found = {name: [[] for _ in EPSILONS] for name in SPLITS}
    free = {NO_PRIVACY: [], PUBLIC_ONLY: []}
    for seed in range(n_seeds):
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, test_size=0.25, random_state=seed
        )
        for name, columns in ((NO_PRIVACY, LEFT | ~LEFT), (PUBLIC_ONLY, LEFT)):
            model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
            model.fit(X_train[:, columns], y_train)
            free[name].append(model.score(X_test[:, columns], y_test))
        for name, public in SPLITS.items():
            for scores, epsilon in zip(found[name], EPSILONS, strict=True):
                model = FeatureDPLogisticRegression(
                    epsilon,
                    bounds=(0, 16),
                    random_state=seed,
                    **public,
                    neighboring_relation="replace_one",
                ).fit(X_train, y_train)
                scores.append(model.score(X_test, y_test))
        print(f"seed {seed + 1} of {n_seeds}", flush=True)
    return {
        "epsilon": EPSILONS,
        "delta": 1e-5,
        "n_train": len(X_train),
        "n_seeds": n_seeds,
        "accuracy": {
            name: [[round(one, 4) for one in scores] for scores in lists]
            for name, lists in found.items()
        },
        "free": {name: [round(one, 4) for one in row] for name, row in free.items()},
    }


def table(result: dict) -> str:
    """Return the means in per cent as text."""
    lines = [f"{'epsilon':22}" + "".join(f"{e:>8g}" for e in result["epsilon"])]
    for name, values in result["free"].items():
        lines.append(f"{name:22}{100 * np.mean(values):8.1f}")
    for name, lists in result["accuracy"].items():
        means = "".join(f"{100 * np.mean(scores):8.1f}" for scores in lists)
        lines.append(f"{name:22}{means}")
    return "\n".join(lines)


def draw(result: dict, path: Path, *, dark: bool) -> None:
    """Draw the lines with their names beside them, and save the picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ink = "#e8e8e8" if dark else "#222222"
    colours = (
        ("#5cc8e8", "#7ddf8a", "#ffb454")
        if dark
        else (
            "#1a5f78",
            "#2e7d32",
            "#b35900",
        )
    )
    with plt.rc_context({"font.size": 12, "svg.hashsalt": "skfdp", "text.color": ink}):
        figure, ax = plt.subplots(figsize=(8.4, 4.6))
        epsilon = np.array(result["epsilon"])
        for (name, lists), colour in zip(
            result["accuracy"].items(), colours, strict=True
        ):
            scores = 100 * np.array(lists)
            mean = scores.mean(axis=1)
            error = scores.std(axis=1, ddof=1) / np.sqrt(scores.shape[1])
            ax.plot(epsilon, mean, "o-", color=colour, lw=2.5, label=name)
            ax.fill_between(
                epsilon, mean - 2 * error, mean + 2 * error, color=colour, alpha=0.2
            )
        for (name, values), style in zip(
            result["free"].items(), ("--", ":"), strict=True
        ):
            ax.axhline(100 * np.mean(values), color=ink, ls=style, lw=1.8, label=name)
        ax.set_xscale("log")
        ax.set_xticks(epsilon, [f"{e:g}" for e in epsilon])
        ax.minorticks_off()
        ax.set_xlabel("epsilon: less privacy to the right", color=ink)
        ax.set_ylabel("test accuracy in per cent", color=ink)
        ax.tick_params(colors=ink)
        for side, spine in ax.spines.items():
            spine.set_visible(side in ("left", "bottom"))
            spine.set_color(ink)
        ax.legend(loc="lower right", frameon=False)
        figure.tight_layout()
        figure.savefig(path, transparent=True, metadata={"Date": None})
        plt.close(figure)


def main() -> None:
    """Measure or read, print, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--draw", action="store_true", help="draw the last result")
    arguments = parser.parse_args()
    if not arguments.draw:
        for category in (PrivacyWarning, UtilityWarning):
            warnings.simplefilter("ignore", category)
        text = json.dumps(measure(arguments.seeds), indent=1) + "\n"
        RESULTS.write_text(text, encoding="utf-8")
    result = json.loads(RESULTS.read_text(encoding="utf-8"))
    print(table(result))
    draw(result, PICTURES / "first_picture_light.svg", dark=False)
    draw(result, PICTURES / "first_picture_dark.svg", dark=True)


if __name__ == "__main__":
    main()
