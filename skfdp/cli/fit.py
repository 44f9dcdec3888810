"""``skfdp fit`` and ``skfdp``: train one private model, and compare it with others.

``skfdp compile`` is here, too: it trains models for the loops that they compile.

One model is fitted once and released; the report and the ledger count this fit. The
comparison with other models must not be published: it uses models without privacy and
exact scores, which no accounting covers. A note below the table of scores says so, and
the report lists the assumption that the table is not published.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from skfdp import kernels
from skfdp.cli.output import CommandError, check_writable, refusing, say, stage
from skfdp.cli.results import once, open_ledger, print_table, reading, scores, write
from skfdp.kernels.losses import CLASSIFICATION, REGRESSION
from skfdp.linear_model import (
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    FeatureDPRegressor,
)
from skfdp.privacy import AddOrRemoveOne, Relation
from skfdp.privacy.events import STORED_TYPES, Assumption
from skfdp.privacy.report_text import names_text
from skfdp.schema import Category, Label, Number, OpenTable, SchemaError, TableSchema
from skfdp.solvers import FeatureDPSGD, NoisyGradientDescent, NoisySGD

_NOTE = """\
Do not publish this table: its scores and counts are exact, models at epsilon inf have
no privacy, and the statement does not cover it. (--no-evaluate prints no table and
trains on all rows.) Scores are those on the held-out rows; +- is a standard deviation
over fits (--repeats) and over the choice of held-out rows. Statement, report and saved
model are those of the first fit of the last line.
"""


@dataclasses.dataclass(frozen=True)
class FitTask:
    """The options, schema, target and table that all fits of one command share."""

    arguments: argparse.Namespace
    schema: TableSchema
    target: str
    X: pd.DataFrame
    y: pd.Series
    groups: pd.Series | None = None

    @property
    def outcome(self) -> Any:
        """The type of the target."""
        return self.schema.columns[self.target]

    def features(self, *, public: bool) -> list[str]:
        """Return the public features if `public`, else the private features."""
        columns = self.schema.columns
        return [n for n in self.schema.features if columns[n].public is public]

    def model(self, repeat=0, *, ledger=None, everything=False):
        """Return an unfitted model; with `everything` no column or target is public."""
        arguments, schema = self.arguments, self.schema
        if everything:
            private = {
                name: dataclasses.replace(one, public=False) if one.public else one
                for name, one in schema.columns.items()
            }
            schema = dataclasses.replace(schema, columns=private)
        models = FeatureDPLogisticRegression, FeatureDPRegressor
        seed, relation = arguments.seed, arguments.relation
        if arguments.n_records is not None:
            with refusing(ValueError):  # the message quotes this public number alone
                relation = AddOrRemoveOne(arguments.n_records)
        # A file of skops, which must be safe to load, cannot hold trees or products.
        skops = Path(getattr(arguments, "model", None) or "").suffix == ".skops"
        if skops and schema.interactions == "pairs":
            raise CommandError(
                "a .skops file cannot hold interactions='pairs' of the schema: end the "
                "name of --model in .joblib."
            )
        if skops:
            schema = dataclasses.replace(schema, interactions=None)
        known = self.outcome.public and self.features(public=True) and not everything
        return models[bool(self.outcome.bounds)](
            arguments.epsilon,
            arguments.delta,
            schema=schema,
            target=self.target,
            public_model="linear" if skops and known else "auto",
            neighboring_relation=relation,
            ledger=ledger,
            random_state=None if seed is None else seed + repeat,
        )

    def fit(self, model, rows, verb="fit"):
        """Fit a private model on some rows, and return it; or return its plan."""
        groups = self.groups
        persons = {} if groups is None else {"groups": groups.iloc[rows].to_numpy()}
        # Errors of skfdp quote no data.
        with reading(ValueError, OSError, show=once):
            return getattr(model, verb)(self.X.iloc[rows], self.y.iloc[rows], **persons)


def run(arguments: argparse.Namespace) -> None:
    """Run ``skfdp fit``: train, write, compare and print."""
    stage("reading the table")
    with reading():
        schema = TableSchema.load(arguments.schema)
        target = schema.outcome(arguments.target)
        if schema.exposure is not None:
            raise SchemaError(
                f"'skfdp fit' cannot use exposure = {schema.exposure!r} of the schema: "
                "leave it out, or fit a FeatureDPRegressor with a loss of rates."
            )
        table = OpenTable.of(arguments.file, schema)
        X, y = schema.split(table, target)
        unread = schema.unread(table) if arguments.evaluate else {}
    if not len(X):
        raise CommandError(f"{arguments.file!r} holds no rows.")
    groups = X.pop(schema.group) if schema.group else None
    report = job(FitTask(arguments, schema, target, X, y, groups), unread, _NOTE)
    say(report.statement())


def job(task: FitTask, unread: Mapping[str, np.ndarray], note: str):
    """Train and write the model, print the comparison and a note; return the report."""
    # Several threads make products of small tables slower.
    threads = 1 if task.X.size < 2**20 else None
    with threadpool_limits(threads, "blas"):
        return _job(task, unread, note)


def _job(task: FitTask, unread: Mapping[str, np.ndarray], note: str):
    arguments = task.arguments
    train, test = split(arguments, len(task.X), task.groups)
    # Check the paths before anything is charged.
    check_writable(arguments.report, "--report")
    path = arguments.model
    if path and path.is_file() and not arguments.overwrite:
        raise CommandError(
            f"--model {path} exists and may be the model of another charge: name a new "
            "file, or give --overwrite."
        )
    check_writable(path, "--model")
    if path and path.suffix == ".skops":
        try:
            importlib.import_module("skops.io")
        except ImportError:
            raise CommandError(
                f"--model {path} needs skops: pip install 'skfdp[cli]'."
            ) from None
    stage("training the model that is released")
    ledger = open_ledger(arguments, lambda: task.fit(task.model(), train, "plan"))
    model = task.fit(task.model(ledger=ledger), train)
    # The model may be sent to others, so it must not contain the path of the ledger.
    model.set_params(ledger=None)
    # The types of the columns follow from the schema.
    given = [one for one in model.privacy_.assumptions if one != STORED_TYPES]
    if arguments.evaluate and arguments.command == "fit":
        text = (
            "The table of scores that was printed with this report is not published, "
            "because its scores and counts are exact."
        )
        given.append(Assumption("scores_not_published", text))
    model.privacy_ = dataclasses.replace(
        model.privacy_,
        assumptions=tuple(given),
        context=getattr(arguments, "context", {}),
    )
    # Write before printing: a closed pipe must not lose the model, which was charged.
    write(arguments, model)
    say(_title(task, len(train), len(test), model))
    for line in (*arguments.charged(), *arguments.done):
        say(line)
    say()
    if arguments.evaluate:
        _compare(task, model, unread, train, test)
        say(note)
    return model.privacy_


def split(
    arguments, n: int, groups: pd.Series | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of training and held-out rows.

    They depend only on n, the groups and the options. With groups no person has both
    training and held-out rows.
    """
    if not arguments.evaluate:
        return np.arange(n), np.arange(0)
    if groups is not None:
        persons = pd.factorize(groups, use_na_sentinel=False)[0]
        train, test = split(arguments, int(persons.max()) + 1)
        return tuple(np.flatnonzero(np.isin(persons, side)) for side in (train, test))
    n_test = round(arguments.test_size * n)
    if not 1 <= n_test <= n - 2:
        raise CommandError(
            f"--test-size={arguments.test_size:g} of {n} leaves too few rows for "
            "training or testing: use --no-evaluate."
        )
    order = np.random.default_rng(arguments.seed or 0).permutation(n)
    return np.sort(order[n_test:]), np.sort(order[:n_test])


def _title(task: FitTask, n_train: int, n_test: int, model) -> str:
    arguments = task.arguments
    kind = "a number from {:g} to {:g}".format(*task.outcome.bounds or (0, 0))
    if not task.outcome.bounds:
        kind = f"{len(model.classes_)} classes"
    public, private = (task.features(public=side) for side in (True, False))
    (public if task.outcome.public else private).append(task.target)
    lines = [
        f"{Path(arguments.file).name}: predicting {task.target!r}, {kind}.",
        f"Public: {names_text(public) or 'nothing'}.",
        f"Private: {names_text(private)}.",
    ]
    if arguments.seed is not None:
        lines.append("--seed: the noise is not secret, so epsilon is not a guarantee.")
    # Under add_or_remove_one the number of rows is private.
    if Relation.of(arguments.relation).counts_are_public:
        held_out = f", {n_test} held out" if n_test else ""
        lines.append(f"{n_train} rows to train on{held_out}.")
    if task.groups is not None:
        n = model.privacy_.n_records
        lines.append(f"Protected: all rows of each of {n} persons together.")
    return "\n".join(lines)


def _compare(task: FitTask, released, unread: Mapping, train, test) -> None:
    """Print exact scores and counts, without differential privacy.

    Do not publish them. Rows without a target are left out of the scores.
    """
    known = task.y.notna().to_numpy()
    exact, scored = train[known[train]], test[known[test]]
    if not len(exact) or not len(scored):
        raise CommandError(
            "no training row, or no held-out row, has a declared target, so there is "
            "nothing to compare: use --no-evaluate."
        )
    table = []
    # From a list, so that NumPy finds the type of the labels.
    y = np.array(task.y.iloc[scored].tolist())
    for label, epsilon, one, models in _comparison(task, released, train, exact):
        stage(f"comparing: {label}")
        X = one.X.iloc[scored]
        table.append((label, epsilon, [scores(model, X, y) for model in models]))
    print_table(table)
    say()
    for line in _unreadable(task, ~known, unread, train, test):
        say(line)


def _comparison(task: FitTask, released, train, exact) -> Iterator[tuple]:
    epsilon, repeats = f"{task.arguments.epsilon:g}", range(task.arguments.repeats)
    public, private = (task.features(public=side) for side in (True, False))
    columns = {n: task.schema.columns[n] for n in (*public, task.target)}
    schema = dataclasses.replace(task.schema, columns=columns, outcomes=[task.target])
    public_task = dataclasses.replace(task, schema=schema, X=task.X[public])
    y = np.array(task.y.iloc[exact].tolist())

    def baseline(one: FitTask):
        if not regression and len(np.unique(y)) < 2:
            return []  # scikit-learn would raise an error that quotes the label
        model = Ridge() if regression else LogisticRegression(max_iter=1000)
        pipeline = make_pipeline(one.schema.encoder(), StandardScaler(), model)
        with warnings.catch_warnings(action="ignore"):  # warnings may reveal data
            return [pipeline.fit(one.X.iloc[exact], y)]

    def fits(one: FitTask, **options):
        return (one.fit(one.model(repeat, **options), train) for repeat in repeats)

    regression, public_target = bool(task.outcome.bounds), task.outcome.public
    constant = "mean of the target" if regression else "most frequent label"
    if not private:
        constant = f"public columns only (no targets): {constant}"
    # The base rate of a public target costs nothing.
    free = "0" if public_target else "inf"
    simplest = DummyRegressor() if regression else DummyClassifier()
    simplest.fit(task.X.iloc[exact], y)
    yield f"base rate: {constant}", free, task, [simplest]
    yield "no privacy (scikit-learn)", "inf", task, baseline(task)
    if public and public_target:
        label = "public columns and target only (scikit-learn, free)"
        yield label, "0", public_task, baseline(public_task)
    elif public and private:
        label = "public columns only, target private"
        yield label, epsilon, public_task, fits(public_task)
    label = "feature-DP"
    if public or public_target:
        yield "DP on everything", epsilon, task, fits(task, everything=True)
        if not private:
            label = "label-DP: only the target is private"
    else:
        label = "DP on everything: nothing is public"
    others = (task.fit(task.model(repeat), train) for repeat in repeats[1:])
    yield label, epsilon, task, (released, *others)


def _unreadable(task: FitTask, unknown, unread: Mapping, train, test) -> Iterator[str]:
    """Yield a sentence for each column (or the target) that has unreadable values.

    The counts are exact and not protected, so they are printed only with exact scores.
    `unknown` is the mask of the rows without a declared target. `unread` has masks of
    the unreadable values, by column; empty to count only the target.
    """
    lacking = "no number as target" if task.outcome.bounds else "no declared label"
    given: list[tuple] = [
        (f"Target {task.target!r}", unknown, "rows", f"have {lacking}")
    ]
    for name in task.schema.features if unread else ():
        verb = f"cannot be read as {task.schema.columns[name].read_as}"
        given.append((f"Column {name!r}", unread[name], "values", verb))
    for name, lost, what, verb in given:
        if lost.any():
            yield (
                f"{name}: of {len(test)} held-out {what} {lost[test].sum()} {verb}, of "
                f"{len(train)} training {what} {lost[train].sum()}."
            )


# ``skfdp`` without a command: models of digits, half of each image public.

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


def demo(arguments: argparse.Namespace) -> None:
    """Compare models of digits, and print the feature-DP model's privacy statement."""
    arguments.file, arguments.evaluate, arguments.test_size = "digits", True, 0.25
    vars(arguments).update(dict.fromkeys(["ledger", "limit", "n_records", "model"]))
    X, y = load_digits(return_X_y=True, as_frame=True)
    # Names are pixel_ROW_COLUMN. Columns 0 to 3 are the left half.
    columns = {name: Number(0, 16, int(name[-1]) < 4, basis="linear") for name in X}
    columns["digit"] = Label(range(10), public=True)
    schema = TableSchema(columns, outcomes="digit")
    with contextlib.suppress(BrokenPipeError):  # the report must be written anyway
        say(_INTRODUCTION)
    task = FitTask(arguments, schema, "digit", X, y.rename("digit"))
    report = job(task, {}, _EXPLANATION)
    say(report.statement(full=arguments.full))
    if not arguments.full:
        say("\nThe annex has the details: skfdp --full prints the annex, too.")
    say(_NEXT)


# ``skfdp compile``: models of random tables of every kind.

_BATCHES = NoisySGD(batch_size=50, max_iter=2)


def compile_loops(arguments: argparse.Namespace) -> None:
    """Compile all loops into the cache."""
    stage("compiling")
    kernels.SMALL = 0
    rng = np.random.default_rng(0)
    X, values, labels = rng.random((200, 20)), 1 + rng.random(200), np.arange(200) % 6
    public = {"public_features": [0, 1], "bounds": (0, 1)}
    frame = pd.DataFrame({"a": np.where(X[:, 0] < 0.5, "b", "c"), "d": X[:, 1]})
    columns, groups = {"a": Category(["b", "c"]), "d": Number(0, 1)}, labels // 2
    with warnings.catch_warnings(action="ignore"):  # these models are thrown away
        for table in (X, X[:, :5], csr_array(X)):
            for solver in (NoisyGradientDescent(max_iter=2), _BATCHES):
                given = {"solver": solver, "bounds": (0, 1)}
                for loss in CLASSIFICATION:
                    model = DPSGDFClassifier(loss=loss, **given)
                    for y in (labels, labels % 2):
                        model.fit(table, y), model.fit(table, y, groups=groups)
                for loss in REGRESSION:
                    model = FeatureDPRegressor(loss=loss, target_bounds=(1, 2), **given)
                    model.fit(table, values)
        solver = FeatureDPSGD(max_iter=2)
        FeatureDPLogisticRegression(solver=solver, **public).fit(X, labels)
        for y, kind in ((labels, Label(range(6))), (values, Number(1, 2))):
            schema = TableSchema({**columns, "y": kind}, outcomes=["y"])
            models = FeatureDPLogisticRegression, FeatureDPRegressor
            models[y is values](schema=schema).fit(frame, y)
