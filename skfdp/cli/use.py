"""``skfdp predict``, ``score`` and ``report``: what a saved model is good for."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_regressor
from sklearn.dummy import DummyClassifier, DummyRegressor

from skfdp.cli import saving
from skfdp.cli.columns import known_names
from skfdp.cli.counts import counts
from skfdp.cli.output import CommandError, check_writable, say, writing
from skfdp.cli.progress import stage
from skfdp.cli.scores import Row, print_table, scores
from skfdp.cli.tables import Table
from skfdp.cli.target import read_target
from skfdp.privacy import read_report
from skfdp.privacy import report as report_of
from skfdp.privacy.statement import epsilon_text

_NOTE = """\
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
    say(_NOTE)


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
        found = saving.load(path)
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
