"""``skfdp`` without a command: handwritten digits, half of them public."""

from __future__ import annotations

import argparse
import contextlib
import re
import textwrap
from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skfdp.cli.output import ReaderGoneError, say, stage
from skfdp.cli.results import (
    Row,
    accuracy,
    check_outputs,
    fit_baseline,
    fit_private,
    print_table,
    seed_of,
    write,
)
from skfdp.linear_model import FeatureDPLogisticRegression

_INTRODUCTION = """\
Handwritten digits bundled with scikit-learn: {n} images of 8 x 8 pixels, ten classes.
Public: the left half of each image (columns 0 to 31) and the label, which digit it is.
Private: the right half (columns 32 to 63).
Accuracy on a random quarter of the images, mean and standard deviation of {repeats}
repetitions; private models under {relation}, delta = {delta:g}.
{seeds}"""
_SEEDED = """\
--seed: the noise can be repeated by everybody, so epsilon is no guarantee in this run.
"""
_EXPLANATION = """\
DP on everything also protects what is public here, the labels too. Feature-DP starts
at a model of the public half, which is exact and free, and adds with noise what the
private half tells. Its lead shrinks as epsilon grows (try --epsilon 2 4 8).
These images are public, so the scores may be printed; scores on private data are not
covered by what follows: the statement of the last feature-DP model.
"""
# Of the statement, what fits a screen.
_SHOWN = ("What it means", "What is protected", "The numbers")
_NEXT = """\
What next
---------
skfdp schema TABLE.csv --outcomes COLUMN --public COLUMN ... -o schema.toml
    drafts what has to be said about a table of your own;
skfdp fit TABLE.csv --schema schema.toml
    trains a private model of it.
Seven short lessons are in docs/tutorials."""


def run(arguments: argparse.Namespace) -> None:
    """Print the comparison and the privacy statement of the last model."""
    check_outputs(arguments)
    images, digits = load_digits(return_X_y=True)
    columns = np.arange(64)
    # Left half first, so that the public columns are a range.
    X = images[:, np.argsort(columns % 8 >= 4, kind="stable")]
    with contextlib.suppress(ReaderGoneError):  # the report is wanted all the same
        say(
            _INTRODUCTION.format(
                n=len(X),
                repeats=arguments.repeats,
                relation=arguments.relation,
                delta=arguments.delta,
                seeds=_SEEDED * (arguments.seed is not None),
            )
        )
    rows: dict[str, Row] = {}
    rng = np.random.default_rng(arguments.seed)
    for repeat in range(arguments.repeats):
        order = rng.permutation(len(X))
        split = order[len(X) // 4 :], order[: len(X) // 4]
        place = f"repetition {repeat + 1} of {arguments.repeats}"
        stage(f"training, {place}")
        for row, score, model in _scores(arguments, X, digits, split, repeat):
            rows.setdefault(row.label + row.epsilon, row).scores.append(
                {"accuracy": score}
            )
            last = model
    write(arguments, last.privacy_)
    for line in arguments.done:
        say(line)
    print_table(list(rows.values()))
    say()
    say(_EXPLANATION)
    statement = last.privacy_.statement()
    say(statement if arguments.statement else _of_a_screen(statement))
    say()
    say(_NEXT)


def _of_a_screen(statement: str) -> str:
    """Return the title and the first parts of a statement, and name the others."""
    title, *parts = re.split(r"\n\n(?=[^\n]+\n-+\n)", statement.rstrip())
    names = [part.partition("\n")[0] for part in parts]
    shown = [part for part in parts if part.partition("\n")[0] in _SHOWN]
    others = ", ".join(name for name in names if name not in _SHOWN)
    note = f"Left out here: {others}. skfdp --statement prints the whole statement."
    return "\n\n".join([title, *shown, textwrap.fill(note, 79)])


def _scores(arguments, X, y, split, repeat) -> Iterator[tuple]:
    """Yield an empty row, the score that belongs to it, and the model."""
    train, test = split
    for label, epsilon, width in (
        ("no privacy (scikit-learn)", "inf", 64),
        ("public half and label (scikit-learn, free)", "0", 32),
    ):
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        fit_baseline(model, X[train, :width], y[train])
        yield Row(label, epsilon), accuracy(model, X[test, :width], y[test]), model
    for epsilon in arguments.epsilon:
        for label, public in (
            ("DP on everything", {}),
            (
                "feature-DP, right half private, label public",
                {
                    "public_features": slice(0, 32),
                    "public_target": True,
                },
            ),
        ):
            model = FeatureDPLogisticRegression(
                epsilon,
                arguments.delta,
                neighboring_relation=arguments.relation,
                bounds=(0, 16),
                random_state=seed_of(arguments.seed, repeat),
                **public,
            )
            fit_private(model, X[train], y[train])
            score = accuracy(model, X[test], y[test])
            yield Row(label, f"{epsilon:g}"), score, model
