"""``skfdp`` without a command: models of digits, half of each image public."""

from __future__ import annotations

import argparse
import contextlib

from sklearn.datasets import load_digits

from skfdp import TableSchema
from skfdp.cli.fit import Task, job
from skfdp.cli.output import ReaderGoneError, say
from skfdp.schema import Label, Number

_INTRODUCTION = """\
Handwritten digits bundled with scikit-learn: images of 8 x 8 pixels, ten classes.
Public: the left half of each image and the label, which digit it is.
Private: the right half. Scores are those of a random quarter of the images.
"""
_EXPLANATION = """\
"DP on everything" also protects the public half and the labels. "feature-DP" starts
from a model of the public half, which is exact and free, and learns from the private
half with noise. Its advantage shrinks as epsilon grows (try --epsilon 4).
These images are public, so the scores may be printed. The privacy statement below
describes the first fit of the last line. It would not cover scores on private data.
"""
_NEXT = """\

What next
---------
skfdp schema TABLE.csv --outcomes COLUMN --public COLUMN ... -o schema.toml
    drafts a schema of your own table;
skfdp fit TABLE.csv --schema schema.toml
    trains a private model on the table.
Short tutorials are in docs/tutorials."""


def run(arguments: argparse.Namespace) -> None:
    """Compare models of digits, and print the feature-DP model's privacy statement."""
    arguments.file, arguments.evaluate, arguments.test_size = "digits", True, 0.25
    vars(arguments).update(dict.fromkeys(["ledger", "limit", "n_records", "model"]))
    X, y = load_digits(return_X_y=True, as_frame=True)
    # Names are pixel_ROW_COLUMN. Columns 0 to 3 are the left half.
    columns = {name: Number(0, 16, int(name[-1]) < 4, basis="linear") for name in X}
    columns["digit"] = Label(range(10), public=True)
    schema = TableSchema(columns, outcomes="digit")
    with contextlib.suppress(ReaderGoneError):  # the report must be written anyway
        say(_INTRODUCTION)
    task = Task(arguments, schema, "digit", X, y.rename("digit"))
    report = job(task, {}, _EXPLANATION)
    say(report.statement(full=arguments.full))
    if not arguments.full:
        say("\nThe annex has the details: skfdp --full prints the annex, too.")
    say(_NEXT)
