"""``skfdp fit``: one private model, and what it is compared with.

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
import pandas as pd
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skfdp.cli.columns import Columns, known_names, resolve, warn_of_nameless
from skfdp.cli.compiling import join, remark
from skfdp.cli.counts import counts
from skfdp.cli.observed import unread
from skfdp.cli.output import CommandError, complain, say
from skfdp.cli.progress import stage
from skfdp.cli.records import check_outputs, open_ledger, write
from skfdp.cli.scores import (
    Row,
    fit_baseline,
    fit_private,
    print_table,
    scores,
    seed_of,
)
from skfdp.cli.tables import Table
from skfdp.cli.target import Target, read_target
from skfdp.estimators.linear_model.feature_dp import FeatureDPLogisticRegression
from skfdp.estimators.linear_model.regressors import FeatureDPRegressor
from skfdp.privacy import Relation
from skfdp.privacy.assumptions import READ_FROM_PUBLIC, Assumption, enforced

_NOTE = """\
The scores are exact values on the held-out rows, which no model was trained on. Counts
of what cannot be read are exact, too, and models at epsilon inf have no privacy: to
publish this table ends the protection of the file, and the statement does not cover it
(--no-evaluate prints no table and trains on all rows). Statement, report and saved
model are those of the last line's first fit.
"""


@dataclasses.dataclass(frozen=True)
class Task:
    """The facts that all fits of one run share."""

    arguments: argparse.Namespace
    columns: Columns
    classes: list | None
    groups: pd.Series | None = None

    def of_rows(self, rows: np.ndarray) -> dict:
        """Return what a fit on some rows is told of them: whose they are."""
        if self.groups is None:
            return {}
        return {"groups": self.groups.iloc[rows].to_numpy()}

    @property
    def regression(self) -> bool:
        """Whether numbers are predicted, and not labels."""
        return self.arguments.task == "regression"

    def model(self, repeat=0, *, ledger=None, kind="released"):
        """Return an unfitted model of raw rows.

        Parameters
        ----------
        repeat : int
        ledger : str, default=None
        kind : {"released", "everything", "public"}
            As declared; nothing public; the public columns with a private target.
        """
        arguments, columns = self.arguments, self.columns
        public = [name in columns.public for name in columns.names]
        if kind == "everything" or not any(public):
            public = None
        options = {
            "public_features": public,
            "public_target": arguments.public_target and kind == "released",
            "neighboring_relation": arguments.relation,
            "n_records": arguments.n_records,
            "encoder": columns.encoder(public_only=kind == "public"),
            "target_name": columns.target,
            "ledger": ledger,
            "random_state": seed_of(arguments.seed, repeat),
        }
        if self.regression:
            options["target_bounds"] = arguments.target_bounds
            return FeatureDPRegressor(arguments.epsilon, arguments.delta, **options)
        return FeatureDPLogisticRegression(
            arguments.epsilon, arguments.delta, classes=self.classes, **options
        )


def run(arguments: argparse.Namespace) -> None:
    """Train, compare, print and write."""
    task, rows, target = _read(arguments)
    train, test = _split(arguments, len(rows), task.groups)
    check_outputs(arguments)
    join()
    stage(f"training the model that is released{remark()}", slow=True)
    model = task.model(ledger=open_ledger(arguments))
    told = task.of_rows(train)
    fit_private(model, rows.iloc[train], target.values[train], **told)
    # The file stays with whoever ran this; the model may travel.
    model.set_params(ledger=None)
    model.privacy_ = _completed(model.privacy_, task)
    # Before anything is printed: words may be lost, what was paid for may not.
    write(arguments, model.privacy_, model)
    say(_title(task, len(train), len(test), model))
    for line in (*arguments.charged(), *arguments.done):
        say(line)
    say()
    if arguments.evaluate:
        _compare(task, model, rows, target, train, test)
    say(model.privacy_.statement())


def _read(arguments: argparse.Namespace) -> tuple[Task, pd.DataFrame, Target]:
    """Return the task, the rows and their target; private values decide nothing."""
    stage("reading the table")
    table = Table(arguments.file, arguments)
    header = table.header(known_names(arguments))
    columns = resolve(arguments, header, table.nameless)
    table.check_labels("--classes", arguments.classes or ())
    for name, values in columns.among(columns.names, "categories").items():
        table.check_labels(f"--categories of {name!r}", map(str, values))
    public = [*columns.public] + [columns.target] * arguments.public_target
    named = [arguments.groups] if arguments.groups else []
    names = [*columns.names, columns.target, *named]
    rows = table.columns(names, [*public, *named])
    if not len(rows):
        raise CommandError(f"{arguments.file!r} holds no rows below its first line.")
    undeclared = [name for name in columns.public if not columns.declares(name)]
    numbers = table.decimals(rows, [*undeclared, columns.target])
    target = read_target(rows[columns.target], arguments, numbers[columns.target])
    groups = rows[named[0]] if named else None
    rows = rows.drop(columns=[columns.target, *named])
    columns = columns.completed(rows, numbers)
    rows = table.decimals(rows, columns.of_numbers())
    try:
        columns.encoder().fit(rows)  # which checks the declarations alone
    except ValueError as error:
        raise CommandError(" ".join(str(error).split())) from None
    warn_of_nameless(arguments, header, table.nameless)
    _warn(columns, rows)
    return Task(arguments, columns, target.classes, groups), rows, target


def _warn(columns: Columns, rows: pd.DataFrame) -> None:
    """Say what seems wrong with public columns; private ones are not looked at."""
    for name in columns.suspects:
        complain(
            f"warning: the public column {name!r} seems to be an identifier, which "
            "teaches nothing and may name people: --drop it."
        )
    for name, hint in columns.hints.items():
        complain(f"warning: of the public column {name!r} {hint}")
    for name, (low, _) in columns.among(columns.public, "bounds").items():
        what = "date" if isinstance(low, str) else "number"
        count = unread(rows[name], what).sum()
        if count:
            complain(
                f"warning: {count} values of the public column {name!r} are no {what}s "
                f"and count as missing: is it a {what}, and is --decimal right?"
            )


def _split(
    arguments, n: int, groups: pd.Series | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of training and held-out rows: of n and the groups alone.

    With groups they are rows of different persons.
    """
    if not arguments.evaluate:
        return np.arange(n), np.arange(0)
    if groups is not None:
        persons = pd.factorize(groups, use_na_sentinel=False)[0]
        train, test = _split(arguments, int(persons.max()) + 1)
        return tuple(np.flatnonzero(np.isin(persons, side)) for side in (train, test))
    n_test = round(arguments.test_size * n)
    if not 1 <= n_test <= n - 2:
        raise CommandError(
            f"--test-size={arguments.test_size:g} of {n} leaves too few to train "
            "or to test on: --no-evaluate needs none."
        )
    order = np.random.default_rng(arguments.seed or 0).permutation(n)
    return np.sort(order[n_test:]), np.sort(order[:n_test])


def _completed(report, task: Task):
    """Return the report with what is known of the file."""
    given = []
    if task.columns.learnt:
        given.append(enforced(f"{READ_FROM_PUBLIC}{', '.join(task.columns.learnt)}."))
    if task.arguments.evaluate:
        given.append(
            Assumption(
                "The table of scores that was printed beside this report is not "
                "published: models without privacy, exact scores on held-out rows and "
                "exact counts of what cannot be read are part of it.",
                enforced=False,
            )
        )
    return dataclasses.replace(report, assumptions=(*report.assumptions, *given))


def _title(task: Task, n_train: int, n_test: int, model) -> str:
    arguments, columns = task.arguments, task.columns
    if task.regression:
        kind = "a number"
        if arguments.target_bounds is not None:
            low, high = arguments.target_bounds
            kind += f" from {low:g} to {high:g}"
    else:
        # The classes are public, declared or not: the model holds them.
        kind = f"{len(model.classes_)} classes"
        kind += ", read from the public target" * (task.classes is None)
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
    if arguments.groups:
        n = model.privacy_.n_records
        lines.append(f"Protected: all rows of each of {n} persons together.")
    return "\n".join(lines)


def _compare(task: Task, released, rows, target: Target, train, test) -> None:
    """Print scores and counts without privacy.

    Rows without a target are left out of the scores.
    """
    table = []
    known = target.readable
    exact, scored = train[known[train]], test[known[test]]
    if not len(exact) or not len(scored):
        raise CommandError(
            "no training row, or no held-out row, has a declared target: there is "
            "nothing to compare, use --no-evaluate."
        )
    # Lists, so that labels have the type of labels again.
    y, y_scored = (np.array(target.values[at].tolist()) for at in (exact, scored))
    for row, models in _comparison(task, released, y):
        for number, (fit, model) in enumerate(models):
            stage(f"comparing: {row.label}, {number + 1} of {len(models)}")
            if fit is fit_baseline:
                fit(model, rows.iloc[exact], y)
            elif fit is not None:
                told = task.of_rows(train)
                fit(model, rows.iloc[train], target.values[train], **told)
            row.scores.append(scores(model, rows.iloc[scored], y_scored))
        table.append(row)
    print_table(table)
    say()
    told = counts(
        task.columns.target,
        ~known,
        rows,
        task.columns.encoder().fit(rows),
        {"held-out ": test, "training ": train},
        regression=task.regression,
    )
    if told:
        say("\n".join(told) + "\n")
    say(_NOTE)


def _comparison(task: Task, released, y) -> Iterator[tuple[Row, list]]:
    """Yield the rows of the table, each with its models and how they are fitted."""
    arguments, columns = task.arguments, task.columns
    epsilon, repeats = f"{arguments.epsilon:g}", range(arguments.repeats)

    def baseline(**options):
        if not task.regression and len(np.unique(y)) < 2:
            return []  # scikit-learn would refuse, and quote the label
        model = Ridge() if task.regression else LogisticRegression(max_iter=1000)
        encoder = task.columns.encoder(**options)
        return [(fit_baseline, make_pipeline(encoder, StandardScaler(), model))]

    def private(kind):
        return [(fit_private, task.model(repeat, kind=kind)) for repeat in repeats]

    only_target_private = not columns.private
    constant = "mean of the target" if task.regression else "most frequent label"
    if only_target_private:
        constant = f"public columns only (no targets): {constant}"
    # A public target costs nothing.
    free = "0" if arguments.public_target else "inf"
    simplest = DummyRegressor() if task.regression else DummyClassifier()
    yield Row(f"base rate: {constant}", free), [(fit_baseline, simplest)]
    yield Row("no privacy (scikit-learn)", "inf"), baseline()
    if columns.public and arguments.public_target:
        row = Row("public columns and target only (scikit-learn, free)", "0")
        yield row, baseline(public_only=True)
    elif columns.public and not only_target_private:
        yield Row("public columns only, target private", epsilon), private("public")
    nothing_public = not columns.public and not arguments.public_target
    if not nothing_public:
        yield Row("DP on everything", epsilon), private("everything")
    label = "feature-DP"
    if nothing_public:
        label = "DP on everything: nothing is public"
    elif only_target_private:
        label = "label-DP: only the target is private"
    others = private("released")[1:]
    yield Row(label, epsilon), [(None, released), *others]
