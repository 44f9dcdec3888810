"""Images without labels or pretraining: pixels, a fixed blur, random convolutions.

    python benchmarks/reproduce/pixels.py --seeds 3

DPSGD-F at epsilon 1 and delta 1e-5 on MNIST and Fashion-MNIST: 60,000 images, tested on
10,000. The features are those of ``data_pixels.py`` in the gallery; they learn nothing
from the images. Each kind with the default clip norm, and with ``clip_norm=0.1``, which
raises the accuracy and spoils the probabilities. Everything else is a default.

Marks are for the clip norm of 0.1, under a relation in which a record comes or goes:
the default, "replace_special", or "add_or_remove_one", whose noise is the same.

A run continues where it stopped. Seeds make it reproducible: **no fit of it is
private**. The seed is that of the noise, one more than 0 being another release of the
same data; the filters have seed 0 throughout.
"""

from __future__ import annotations

import argparse
import functools
import sys
import warnings
from pathlib import Path

from _common import (
    RESULTS,
    Split,
    Store,
    bundled_split,
    image_split,
    mean_scores,
    scores,
)

from skfdp import DPSGDFClassifier, PrivacyWarning, UtilityWarning

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples" / "models"))
from data_pixels import blurred, convolved, scaled

from skfdp.privacy import AddOrRemoveOne
from skfdp.solvers import NoisyGradientDescent

DELTA = 1e-5
KINDS = ("pixels", "blur", "convolutions")
# Widths of the blur in pixels; a digit is thicker than the seams of a shoe.
WIDTHS = {"mnist": 0.8, "fashion": 0.5, "digits": 0.4}
#: Accuracy that random convolutions have to reach with a clip norm of 0.1.
MARKS = {"mnist": 97.4, "fashion": 86.3}


@functools.lru_cache(maxsize=1)
def featured(data: str, kind: str) -> Split:
    """Return the images of a data set as rows of features of one kind."""
    if data == "digits":
        split, high, size = bundled_split("digits", 0), 16, 3
    else:
        split, high, size = image_split(data, 60_000, False, 0), 255, 6

    def rows(X):
        if kind == "pixels":
            return scaled(X, high)
        if kind == "blur":
            return blurred(X, high, WIDTHS[data])
        return convolved(X, high, n_filters=16 if data == "digits" else 128, size=size)

    return Split(rows(split.X), split.y, rows(split.X_test), split.y_test, False)


def fit_scores(data: str, kind: str, clip, relation: str, seed: int, epsilon: float):
    """Fit one model and return its scores on the test images."""
    split = featured(data, kind)
    counted = relation == "add_or_remove_one"
    model = DPSGDFClassifier(
        epsilon,
        DELTA,
        bounds=False,
        neighboring_relation=AddOrRemoveOne(len(split.X)) if counted else relation,
        classes=range(10) if counted else None,
        random_state=seed,
        centering="gaussian",
        solver=NoisyGradientDescent(clip_norm=clip, normalize=True),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        warnings.simplefilter("ignore", UtilityWarning)
        model.fit(split.X, split.y)
    return scores(model, split)


def line(row: dict) -> str:
    """Return a row of the table, with its mark."""
    error = row["accuracy_se"]
    spread = "        " if error is None else f" +- {error:.2f}"
    text = (
        f"{row['data']:8} {row['features']:13} {row['clip_norm']!s:5} "
        f"{row['relation']:18} {row['n_runs']:5} {row['accuracy']:9.2f}{spread} "
        f"{row['log_loss']:9.3f}"
    )
    if row["mark"] is not None:
        verdict = "met" if row["accuracy"] >= row["mark"] else "MISSED"
        text += f"   mark {row['mark']}: {verdict}"
    return text


def main(argv: list[str] | None = None) -> None:
    """Fill the table, and print each row once all its seeds are there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", choices=tuple(MARKS), default=tuple(MARKS))
    parser.add_argument("--features", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument(
        "--relation",
        choices=("replace_special", "add_or_remove_one"),
        default="replace_special",
    )
    parser.add_argument("--seeds", type=int, default=3, help="0, 1, ...: of the noise")
    parser.add_argument("--quick", action="store_true", help="digits, epsilon 8")
    parser.add_argument("--output", type=Path, default=RESULTS / "pixels.json")
    options = parser.parse_args(argv)
    data, epsilon = options.data, 1.0
    if options.quick:
        data, epsilon = ("digits",), 8.0
    store = Store(options.output, {"epsilon": epsilon, "delta": DELTA})
    print(
        "data     features      clip  relation           seeds  accuracy            "
        "log-loss"
    )
    for name in data:
        for kind in options.features:
            for clip in ("auto", 0.1):
                row = [name, kind, clip, options.relation]
                runs = [
                    store.compute(
                        " | ".join(map(str, [*row, f"seed {seed}"])),
                        functools.partial(fit_scores, *row, seed, epsilon),
                    )
                    for seed in range(options.seeds)
                ]
                names = ("data", "features", "clip_norm", "relation")
                found = dict(zip(names, row, strict=True)) | mean_scores(runs)
                marked = kind == "convolutions" and clip == 0.1
                found["mark"] = MARKS.get(name) if marked else None
                print(line(found), flush=True)


if __name__ == "__main__":
    main()
