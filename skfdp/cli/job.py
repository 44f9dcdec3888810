"""``python -m skfdp FILE.csv``: one private model, and what it is compared with.

What is released is one model, fitted once; the report and the ledger count this fit.
The comparison needs models without privacy and exact scores, which no accounting
covers, so it is for whoever holds the file: the table says so and the report assumes
that it stays there.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skfdp.cli.arguments import CommandError
from skfdp.cli.columns import (
    classes,
    labels,
    read_header,
    read_rows,
    resolve,
)
from skfdp.cli.encoding import Columns, Encoding, TableError
from skfdp.cli.output import say
from skfdp.cli.records import check_outputs, open_ledger, write
from skfdp.cli.scores import (
    Row,
    fit_baseline,
    fit_private,
    print_table,
    scores,
    seed_of,
)
from skfdp.estimators.linear_model.feature_dp import FeatureDPLogisticRegression
from skfdp.privacy import Relation
from skfdp.privacy.assumptions import READ_FROM_PUBLIC, Assumption, enforced

_NOTE = """\
The scores are exact values on the held-out rows, which no model was trained on, and
models at epsilon inf have no privacy: to publish this table ends the protection of the
file, and the statement does not cover it (--no-evaluate prints no table and trains on
all rows). Statement, report and saved model are those of the last line's first fit.
"""


@dataclasses.dataclass(frozen=True)
class Task:
    """The facts that all fits of one run share."""

    arguments: argparse.Namespace
    columns: Columns
    encoding: Encoding
    classes: list | None

    def pipeline(self, repeat=0, *, ledger=None, kind="released") -> Pipeline:
        """Return an unfitted Pipeline from raw rows to labels.

        Parameters
        ----------
        repeat : int
        ledger : str, default=None
        kind : {"released", "everything", "public"}
            As declared; nothing public; the public columns with a private target.
        """
        arguments, public_only = self.arguments, kind == "public"
        public: list | str | None = ["public__*"] if self.columns.public else None
        model = FeatureDPLogisticRegression(
            arguments.epsilon[0],
            arguments.delta,
            public_features=None if kind == "everything" else public,
            public_target=arguments.public_target and kind == "released",
            neighboring_relation=arguments.relation,
            n_records=arguments.n_records,
            bounds=self.encoding.encoded_bounds(public_only=public_only),
            classes=self.classes,
            target_name=self.columns.target,
            names=self.encoding.parents(public_only=public_only),
            ledger=ledger,
            random_state=seed_of(arguments.seed, repeat),
        )
        encoder = self.encoding.transformer(public_only=public_only)
        return Pipeline([("encode", encoder), ("model", model)])


def run(arguments: argparse.Namespace) -> None:
    """Train, compare, print and write."""
    try:
        _run(arguments)
    except TableError as error:
        raise CommandError(str(error)) from None


def _run(arguments: argparse.Namespace) -> None:
    columns = resolve(arguments, read_header(arguments.file, arguments.target))
    declared = classes(arguments.classes)
    rows = read_rows(arguments.file, columns)
    y, label_set = labels(rows.pop(columns.target), declared)
    train, test = _split(arguments, len(rows))
    encoding = Encoding.of(columns, rows.iloc[train])
    encoding.check(rows)
    task = Task(arguments, columns, encoding, label_set)
    check_outputs(arguments)
    pipeline = task.pipeline(ledger=open_ledger(arguments))
    fit_private(pipeline, rows.iloc[train], y[train])
    model = pipeline[-1]
    # The file stays with whoever ran this; the model may travel.
    model.set_params(ledger=None)
    model.privacy_ = _completed(model.privacy_, task)
    # Before anything is printed: words may be lost, what was paid for may not.
    write(arguments, model.privacy_, pipeline)
    say(_title(task, len(train), len(test), model.classes_))
    for line in (*arguments.charged(), *arguments.done):
        say(line)
    say()
    if arguments.evaluate:
        _compare(task, pipeline, rows, y, train, test)
    say(model.privacy_.statement())


def _split(arguments, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of training and held-out rows: a function of n alone."""
    if not arguments.evaluate:
        return np.arange(n), np.arange(0)
    n_test = round(arguments.test_size * n)
    if not 1 <= n_test <= n - 2:
        raise CommandError(
            f"--test-size={arguments.test_size:g} of {n} rows leaves too few to train "
            "or to test on: --no-evaluate needs none."
        )
    order = np.random.default_rng(arguments.seed or 0).permutation(n)
    return np.sort(order[n_test:]), np.sort(order[:n_test])


def _completed(report, task: Task):
    """Return the report with what is known of the file."""
    given = []
    if task.encoding.learnt:
        given.append(enforced(f"{READ_FROM_PUBLIC}{', '.join(task.encoding.learnt)}."))
    if task.arguments.evaluate:
        given.append(
            Assumption(
                "The table of scores that was printed beside this report is not "
                "published: models without privacy and exact scores on held-out rows "
                "are part of it.",
                enforced=False,
            )
        )
    return dataclasses.replace(report, assumptions=(*report.assumptions, *given))


def _title(task: Task, n_train: int, n_test: int, known) -> str:
    arguments, columns = task.arguments, task.columns
    # The classes are public, declared or not: the model holds them.
    kind = f"{len(known)} classes"
    if task.classes is None:
        kind += ", read from the file"
    if len(known) > 2 and np.issubdtype(known.dtype, np.number):
        kind += (
            "; each number is a label of its own (for a regression use "
            "skfdp.FeatureDPRegressor in Python)"
        )
    public = list(columns.public) + [columns.target] * arguments.public_target
    private = list(columns.private) + [columns.target] * (not arguments.public_target)
    lines = [
        f"{Path(arguments.file).name}: predicting {columns.target!r}, {kind}.",
        f"Public: {', '.join(public) or 'nothing'}.",
        f"Private: {', '.join(private)}.",
    ]
    if arguments.seed is not None:
        lines.append("--seed: the noise can be repeated, so epsilon is no guarantee.")
    # The number of rows is itself private where records are added.
    if Relation.of(arguments.relation).counts_are_public:
        held_out = f", {n_test} held out" if n_test else ""
        lines.append(f"{n_train} rows to train on{held_out}.")
    return "\n".join(lines)


def _compare(task: Task, released: Pipeline, rows, y, train, test) -> None:
    table = []
    X, X_test = rows.iloc[train], rows.iloc[test]
    for row, models in _comparison(task, released, y[train]):
        for fit, model in models:
            fitted = model if fit is None else fit(model, X, y[train])
            row.scores.append(scores(fitted, X_test, y[test]))
        table.append(row)
    print_table(table)
    say()
    say(_NOTE)


def _comparison(task: Task, released: Pipeline, y) -> Iterator[tuple]:
    """Yield the rows of the table, each with its models and how they are fitted."""
    arguments, columns = task.arguments, task.columns
    epsilon, repeats = f"{arguments.epsilon[0]:g}", range(arguments.repeats)

    def baseline(**options):
        if len(np.unique(y)) < 2:  # scikit-learn would refuse, and quote the label
            return []
        model = LogisticRegression(max_iter=1000)
        encoder = task.encoding.transformer(**options)
        return [(fit_baseline, make_pipeline(encoder, StandardScaler(), model))]

    def private(kind):
        return [(fit_private, task.pipeline(repeat, kind=kind)) for repeat in repeats]

    only_labels_private = not columns.private
    constant = "most frequent label"
    if only_labels_private:
        constant = "public columns only (no labels): most frequent label"
    # A public target costs nothing.
    free = "0" if arguments.public_target else "inf"
    yield Row(constant, free), [(fit_baseline, DummyClassifier())]
    yield Row("no privacy (scikit-learn)", "inf"), baseline()
    if columns.public and arguments.public_target:
        row = Row("public columns and target only (scikit-learn, free)", "0")
        yield row, baseline(public_only=True)
    elif columns.public and not only_labels_private:
        yield Row("public columns only, target private", epsilon), private("public")
    nothing_public = not columns.public and not arguments.public_target
    if not nothing_public:
        yield Row("DP on everything", epsilon), private("everything")
    label = "feature-DP"
    if nothing_public:
        label = "DP on everything: nothing is public"
    elif only_labels_private:
        label = "label-DP: only the target is private"
    others = private("released")[1:]
    yield Row(label, epsilon), [(None, released), *others]
