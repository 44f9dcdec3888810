"""The picture of the first page: what public parts are worth, from `dominance.py`.

Means over the 20 tables that were put aside, five seeds, as that script printed them in
``results/dominance_aside.txt``. Nothing is measured here.

    python benchmarks/reproduce/first_picture.py
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "dominance_aside.txt"
PICTURES = ROOT / "docs" / "_static"
#: Lines of the result, their names in the picture, marks, and light and dark colours.
LINES = {
    "columns and target": (
        "some columns, and the label",
        "D",
        "#2e7d32",
        "#7ddf8a",
    ),
    "labels": ("all columns, not the label", "^", "#7b3fa0", "#d7a6ff"),
    "columns": ("some columns", "s", "#1a5f78", "#5cc8e8"),
    "nothing": ("nothing", "o", "#b35900", "#ffb454"),
}
DRAWN = 5  # epsilons; the last one of the result is 1000


def means() -> dict[str, list[float]]:
    """Return mean accuracies in %, by what is public; "" has the epsilons."""
    _, _, text = RESULTS.read_text("utf-8").partition("mean accuracy ")
    head, *lines = text.partition("mean log_loss")[0].splitlines()
    found = {"": [float(one) for one in head.split()]}
    for line in filter(str.strip, lines):
        name, numbers = re.fullmatch(r"  (.*?)((?: +[\d.]+)+)", line).groups()
        found[name] = [float(one) for one in numbers.split()]
    return {name: numbers[:DRAWN] for name, numbers in found.items()}


def draw(path: Path, *, dark: bool) -> None:
    """Draw a line for each public part, and save the picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ink, found = "#e8e8e8" if dark else "#222222", means()
    # Large letters: on a telephone the picture is half as wide.
    settings = {"font.size": 14, "svg.hashsalt": "skfdp", "text.color": ink}
    with plt.rc_context(settings):
        figure, ax = plt.subplots(figsize=(6.4, 4.6))
        for name, (label, mark, *colours) in LINES.items():
            ax.plot(
                *(found[""], found[name], f"{mark}-"),
                **{"color": colours[dark], "lw": 2.5, "ms": 7, "label": label},
            )
        ax.set_xscale("log")
        ax.set_xticks(found[""], [f"{e:g}" for e in found[""]])
        ax.minorticks_off()
        ax.tick_params(colors=ink)
        for side, spine in ax.spines.items():
            spine.set_visible(side in ("left", "bottom"))
            spine.set_color(ink)
        ax.set_xlabel("epsilon (smaller: more privacy)", color=ink)
        ax.set_title("mean accuracy in %, 20 tables", color=ink, fontsize=15)
        ax.legend(title="public:", frameon=False, loc="lower right")
        figure.tight_layout()
        transparent = path.suffix == ".svg"  # cards of links may have any background
        figure.savefig(path, transparent=transparent, metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    draw(PICTURES / "first_picture_light.svg", dark=False)
    draw(PICTURES / "first_picture_dark.svg", dark=True)
    draw(PICTURES / "first_picture.png", dark=False)
