"""``skfdp fit``: one private model, and what it is compared with.

What is released is one model, fitted once; the report and the ledger count this fit.
The comparison needs models without privacy and exact scores, which no accounting
covers, so it is for whoever holds the file: the table says so and the report assumes
that it stays there.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_regressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skfdp.cli.output import (
    CommandError,
    check_writable,
    complain,
    join,
    remark,
    say,
    stage,
    writing,
)
from skfdp.cli.results import (
    Row,
    check_outputs,
    fit_baseline,
    fit_private,
    load,
    open_ledger,
    print_table,
    scores,
    seed_of,
    write,
)
from skfdp.cli.tables import (
    Columns,
    Table,
    Target,
    known_names,
    read_target,
    resolve,
    unread,
    warn_of_nameless,
)
from skfdp.data._basis import OTHER
from skfdp.data._values import Column
from skfdp.data.encoder import DeclaredEncoder
from skfdp.linear_model import FeatureDPLogisticRegression, FeatureDPRegressor
from skfdp.privacy import Relation, read_report
from skfdp.privacy import report as report_of
from skfdp.privacy.assumptions import READ_FROM_PUBLIC, Assumption, enforced
from skfdp.privacy.report_text import epsilon_text

# Counts of labels and values that cannot be read: exact, so they are not protected.
#
# Only what is said to be unprotected prints them: the comparison of a fit, and scores.


_AS = {"number": "numbers", "date": "dates", "category": "declared categories"}


def counts(
    target: str,
    unknown: np.ndarray,
    rows: pd.DataFrame,
    encoder: DeclaredEncoder | None,
    parts: Mapping[str, np.ndarray],
    *,
    regression: bool,
) -> list[str]:
    """Return a line for the target and each column that has what cannot be read.

    Parameters
    ----------
    target : str
        Its name.
    unknown : bool ndarray of shape (n_rows,)
        True where the target is not declared, or is no number.
    rows : DataFrame
        As the encoder takes them.
    encoder : DeclaredEncoder or None
        The fitted encoder. None counts no column: the model has no encoder.
    parts : mapping of str to int ndarray
        The positions of the rows that are counted together, by what they are called.
    regression : bool
    """
    lines = []
    if unknown.any():
        lacking = "no number as target" if regression else "no declared label"
        told = _told(unknown, parts, "rows", f"have {lacking}")
        lines.append(f"Target {target!r}: {told}")
    for name, (what, lost) in ({} if encoder is None else _lost(rows, encoder)).items():
        if lost.any():
            told = _told(lost, parts, "values", f"cannot be read as {_AS[what]}")
            lines.append(f"Column {name!r}: {told}")
    return lines


def _told(
    lost: np.ndarray, parts: Mapping[str, np.ndarray], what: str, verb: str
) -> str:
    first, *others = (
        f"of {len(at)} {part}{what} {lost[at].sum()}" for part, at in parts.items()
    )
    return ", ".join([f"{first} {verb}", *others]) + "."


def _lost(
    rows: pd.DataFrame, encoder: DeclaredEncoder
) -> dict[str, tuple[str, np.ndarray]]:
    """Return how each column is read, and which of its values cannot be read so."""
    found: dict[str, tuple[str, np.ndarray]] = {}
    for block in encoder.blocks_:
        if block.reads not in _AS or len(block.parents) > 1:
            continue
        name = rows.columns[block.parents[0]]
        if block.reads != "category":
            lost = unread(rows[name], block.reads)
        elif OTHER in map(str, (encoder.categories or {}).get(name, ())):
            continue  # undeclared categories are what this one means
        else:
            places = block.entries(Column(rows[name]))[0][:, 0]
            lost = places == block.levels.index(OTHER)
        if name in found:  # a column of numbers and categories
            lost &= found[name][1]
        found[name] = block.reads, lost
    return found


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


# ``skfdp predict``, ``score`` and ``report``: what a saved model is good for.


_SCORE_NOTE = """\
Scores and counts are exact values on these rows: to publish them discloses something
about each of them, and no statement covers it.
"""


def predict(arguments: argparse.Namespace) -> None:
    """Write one line of predictions for each row."""
    _check_output(arguments.output)
    model = _load(arguments.saved)
    rows, kept = _rows(arguments, model, arguments.keep or [])
    stage("predicting")
    found = kept.assign(prediction=model.predict(rows))
    if not is_regressor(model):
        chances = model.predict_proba(rows)
        for label, chance in zip(model.classes_, chances.T, strict=True):
            found[f"p({label})"] = chance
    path = arguments.output
    if path is None:
        say(found.to_csv(index=False).rstrip("\n"))
        return
    with writing(path):
        if path.suffix == ".parquet":
            found.to_parquet(path, index=False)
        else:
            found.to_csv(
                path,
                index=False,
                sep=arguments.sep,
                decimal=arguments.decimal,
                encoding=arguments.encoding,
            )
    say(f"{len(found)} predictions written to {path}.")


def score(arguments: argparse.Namespace) -> None:
    """Print how good a model is on rows whose target is known."""
    model = _load(arguments.saved)
    target = arguments.target or _target_name(model)
    rows, given = _rows(arguments, model, [target])
    y, readable = _known(arguments, model, given[target])
    if not readable.any():
        raise CommandError(f"no row has a target {target!r} that the model knows.")
    stage("scoring")
    told = counts(
        target,
        ~readable,
        rows,
        getattr(model, "encoder_", None),
        {"": np.arange(len(rows))},
        regression=is_regressor(model),
    )
    rows = rows[readable]
    simplest = DummyRegressor() if is_regressor(model) else DummyClassifier()
    simplest.fit(rows, y)
    constant = "mean" if is_regressor(model) else "most frequent label"
    say(f"{Path(arguments.file).name}: {len(y)} rows with a known target {target!r}.")
    say()
    constant = f"base rate: {constant} of these rows"
    found = scores(model, rows, y)
    epsilon = epsilon_text(report_of(model), 4)
    print_table(
        [
            Row(constant, "inf", [scores(simplest, rows, y)]),
            Row(Path(arguments.saved).name, epsilon, [found]),
        ]
    )
    say()
    if told:
        say("\n".join(told) + "\n")
    say(_SCORE_NOTE)


def report(arguments: argparse.Namespace) -> None:
    """Print the statement of a report, or of a saved model."""
    path = Path(arguments.file)
    try:
        found = (
            report_of(_load(arguments.file))
            if path.suffix in (".skops", ".joblib")
            else read_report(path)
        )
    except OSError as error:
        raise CommandError(f"cannot read {str(path)!r}: {error.strerror}.") from None
    except ValueError as error:
        raise CommandError(" ".join(str(error).split())) from None
    say(_printed(found, arguments))


def _printed(found: Any, arguments: argparse.Namespace) -> str:
    """Return a report in the form that was asked for."""
    if arguments.json:
        return found.to_json()
    if not arguments.registry:
        return found.statement()
    try:
        return json.dumps(found.to_registry(), indent=2, ensure_ascii=False)
    except ValueError as error:
        raise CommandError(str(error)) from None


def _check_output(path: Path | None) -> None:
    if path is not None and not path.resolve().parent.is_dir():
        raise CommandError(f"there is no folder {str(path.parent)!r} for {path}.")
    check_writable(path, "-o")


def _load(path: str) -> Any:
    stage("loading the model")
    if Path(path).suffix not in (".skops", ".joblib"):
        raise CommandError(f"the model {path!r} must end in .skops or .joblib.")
    if Path(path).suffix == ".skops":
        try:
            import skops.io  # noqa: F401
        except ImportError:
            raise CommandError(
                f"{path!r} needs skops: pip install 'skfdp[cli]'."
            ) from None
    try:
        found = load(path)
    except OSError as error:
        raise CommandError(f"cannot read {path!r}: {error.strerror}.") from None
    except Exception as error:
        raise CommandError(
            f"{path!r} is not a model that 'skfdp fit' wrote ({type(error).__name__})."
        ) from None
    if not hasattr(found, "feature_names_in_"):
        raise CommandError(
            f"{path!r} holds no model that knows the names of its columns: it is not "
            "from 'skfdp fit'."
        )
    return found


def _rows(
    arguments: argparse.Namespace, model: Any, more: list[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows as the model takes them, and some other columns."""
    stage("reading the table")
    table = Table(arguments.file, arguments)
    names = [str(name) for name in model.feature_names_in_]
    wanted = [*dict.fromkeys([*names, *more])]
    header = table.header(known_names(arguments), wanted)
    absent = [name for name in wanted if name not in header]
    if absent:
        raise CommandError(
            f"{arguments.file!r} lacks the column{'s'[: len(absent) > 1]} "
            f"{', '.join(absent)}: names are case-sensitive."
        )
    # Whoever predicts rows, or scores them, may hear what is wrong with them.
    rows = table.columns(wanted, wanted)
    if not len(rows):
        raise CommandError(f"{arguments.file!r} holds no rows below its first line.")
    numeric, encoder = names, getattr(model, "encoder_", None)
    if encoder is not None:
        blocks = [block for block in encoder.blocks_ if block.reads == "number"]
        numeric = [names[block.parents[0]] for block in blocks]
    return table.decimals(rows, numeric).reindex(columns=names), rows[more]


def _known(
    arguments: argparse.Namespace, model: Any, column: pd.Series
) -> tuple[np.ndarray, np.ndarray]:
    """Return the targets that the model knows, and whose they are."""
    settings = argparse.Namespace(
        task="regression", classes=None, target_bounds=None, public_target=False
    )
    if not is_regressor(model):
        settings.task = "classification"
        settings.classes = model.classes_.tolist()
    table = Table(arguments.file, arguments)
    numbers = table.decimals(column.to_frame(), [column.name])[column.name]
    target = read_target(column, settings, numbers)
    # A list, so that labels have the type of labels again.
    return np.array(target.values[target.readable].tolist()), target.readable


def _target_name(model: Any) -> str:
    name = model.privacy_.target_name
    if name is None:
        raise CommandError("the model does not say what its target is: give --target.")
    return str(name)
