"""The commands ``schema``, ``predict``, ``score``, ``report`` and ``ledger``."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_regressor
from sklearn.dummy import DummyClassifier, DummyRegressor

from skfdp.base import digest_of
from skfdp.cli import output
from skfdp.cli.fit import counts
from skfdp.cli.output import CommandError, check_writable, refusing, say, stage, writing
from skfdp.cli.results import load, print_table, reading, scores
from skfdp.data.cells import exact
from skfdp.privacy import PrivacyLedger, PrivacyReport, read_report
from skfdp.privacy import report as report_of
from skfdp.privacy.report_text import epsilon_text
from skfdp.schema import OpenTable, SchemaError, TableSchema

_SCORE_NOTE = """\
Scores and counts are exact values on these rows; +- is the standard error due to the
choice of rows. Publishing them discloses something about each row, which no statement
covers.
"""
_SQLITE = b"SQLite format 3"
_SEEN = "privateCountsSeen"
_DRAFTED = (
    *("public", "outcomes", "group", "delimiter", "decimal", "thousands"),
    *("encoding", "skip_lines", "header"),
)


def schema(arguments: argparse.Namespace) -> None:
    """Print or write a draft of a schema, or check a table against a schema."""
    path = arguments.output
    if path is not None and path.exists():
        raise CommandError(f"-o {path} exists: name a new file.")
    check_writable(path, "-o")
    if arguments.check:
        output.options.difference_update(_DRAFTED)  # the schema file has these
        check(arguments)
        return
    if arguments.private_counts:
        raise CommandError("--private-counts needs a schema: give --check FILE, too.")
    options = {name: getattr(arguments, name) for name in _DRAFTED}
    with reading():
        draft = TableSchema.draft(arguments.file, **options)
    if path is None:
        say(draft.to_toml().rstrip("\n"))
        return
    with writing(path):
        draft.save(path)
    say(f"Draft written to {path}: fill in {len(draft.questions)} places.")


def check(arguments: argparse.Namespace) -> None:
    """Compare a table with a schema, and say what was not compared."""
    with reading():
        declared = TableSchema.load(arguments.check)
        found = declared.check(arguments.file)
        if found:
            raise CommandError(" ".join(found))
        private = [
            name
            for name, column in declared.columns.items()
            if column.read_as and not column.public
        ]
        say(
            f"{arguments.file} agrees with {arguments.check} in names, stored types "
            "and the values of public columns."
        )
        if arguments.private_counts:
            # Write into the schema file that somebody saw these counts.
            path = Path(arguments.check)
            with refusing(OSError):
                text = path.read_text(encoding="utf-8")
                if _SEEN not in text:
                    # A setting stands before the first table.
                    place, line = r"^\[", f"{_SEEN} = true\n["
                    if path.suffix == ".json":
                        place, line = r"\{", f'{{"{_SEEN}": true, '
                    text = re.sub(place, line, text, count=1, flags=re.MULTILINE)
                    path.write_text(text, encoding="utf-8")
            for line in _private_counts(declared, arguments.file, private):
                say(line)
        elif private:
            say(
                f"The values of {len(private)} private column(s) were NOT compared: "
                "--private-counts counts those that cannot be read, for the owner's "
                "eyes."
            )


def _private_counts(
    declared: TableSchema, path: str, private: list[str]
) -> Iterator[str]:
    """Yield exact counts of unreadable private cells: not protected, quoting none."""
    table = OpenTable.of(path, declared)
    yield "NOT PROTECTED, for the owner's eyes: do not pass on. Unreadable values:"
    for name, raw in table.columns(private).items():
        column, lost = declared.columns[name], declared.converted(name, raw)[1]
        n_texts = len(set(map(str, np.asarray(exact(raw))[lost].tolist())))
        yield (
            f"  {name!r}: {lost.sum()} of {len(lost)} cannot be read as "
            f"{column.read_as}" + f"; {n_texts} different texts" * bool(n_texts) + "."
        )


def predict(arguments: argparse.Namespace) -> None:
    """Print or write the prediction of each row."""
    path = arguments.output
    check_writable(path, "-o")
    model = _loaded(arguments.saved)
    declared, table = _schema_and_table(arguments)
    with reading():
        table.check_has(arguments.keep)
        rows = _converted(declared, table, model)[model.feature_names_in_]
        kept = table.columns(arguments.keep)
    if not len(rows):
        raise CommandError(f"{arguments.file!r} holds no rows.")
    stage("predicting")
    found = pd.DataFrame({**kept, "prediction": model.predict(rows)})
    if not is_regressor(model):
        chances = model.predict_proba(rows)
        for label, chance in zip(model.classes_, chances.T, strict=True):
            found[f"p({label})"] = chance
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
                sep=declared.delimiter,
                decimal=declared.decimal,
                encoding=declared.encoding,
            )
    say(f"{len(found)} predictions written to {path}.")


def score(arguments: argparse.Namespace) -> None:
    """Print the scores of a model on rows whose target is known."""
    model = _loaded(arguments.saved)
    declared, table = _schema_and_table(arguments)
    with reading():
        target = declared.outcome(model.privacy_.target_name)
        table.check_has([*declared.features, target])
        frame = _converted(declared, table, model)
        unread = declared.unread(table)
    y, rows = frame[target], frame[model.feature_names_in_]
    regression = is_regressor(model)
    known = y.notna() if regression else y.isin(model.classes_.tolist())
    if not known.any():
        raise CommandError(
            f"no row has a value of {target!r} that the model was trained on: give a "
            "table with the same target column."
        )
    stage("scoring")
    # From a list, so that NumPy finds the type of the labels.
    X, y = rows[known.to_numpy()], np.array(y[known].tolist())
    simplest = DummyRegressor() if regression else DummyClassifier()
    simplest.fit(X, y)
    constant = "mean" if regression else "most frequent label"
    say(f"{Path(arguments.file).name}: {len(y)} rows with a known target {target!r}.")
    say()
    constant = f"base rate: {constant} of these rows"
    epsilon = epsilon_text(report_of(model), 4)
    print_table(
        [
            (constant, "inf", [scores(simplest, X, y)]),
            (Path(arguments.saved).name, epsilon, [scores(model, X, y)]),
        ]
    )
    say()
    parts = {"": np.arange(len(known))}
    for line in counts(declared, target, ~known.to_numpy(), unread, parts):
        say(line)
    say(_SCORE_NOTE)


def report(arguments: argparse.Namespace) -> None:
    """Print the statement of a report, of a saved model, or of a ledger."""
    path, model = Path(arguments.file), None
    check_writable(arguments.html, "--html")
    try:
        with path.open("rb") as opened:
            is_ledger = opened.read(len(_SQLITE)) == _SQLITE
        with refusing(ValueError):
            if is_ledger:
                ledgers = PrivacyLedger.open_all(path)
                # A ledger without a limit has no delta of its own.
                found = [report_of(one, delta=one.delta or 1e-5) for one in ledgers]
            elif path.suffix in (".skops", ".joblib"):
                model = _loaded(arguments.file)
                found = [report_of(model)]
                if (own := found[0].sha256) is not None and own != digest_of(model):
                    raise CommandError(
                        f"{str(path)!r} holds other numbers than those of its report, "
                        "whose SHA-256 differs: ask for the original."
                    )
            else:
                found = [read_report(path)]
            # Derive the numbers of stored reports again, from their events.
            found = [PrivacyReport.from_dict(one.to_dict()) for one in found]
    except OSError as error:
        raise CommandError(f"cannot read {str(path)!r}: {error.strerror}.") from None
    if arguments.json:
        say("\n".join(one.to_json() for one in found))
        return
    say("\n\n".join(one.statement(full=arguments.full) for one in found))
    if arguments.html is not None:
        with writing(arguments.html):
            found[0].to_html(arguments.html)
        say(f"\nWeb page written to {arguments.html}.")
    matching = " The SHA-256 fits the numbers of the model." * (model is not None)
    say(f"\nRecomputed from the listed releases: epsilon agrees.{matching}")


def ledger(arguments: argparse.Namespace) -> None:
    """Print limit and spending of each data set in a ledger file."""
    with refusing(ValueError, OSError):
        found = PrivacyLedger.open_all(arguments.file)
        say("\n\n".join(map(str, found)))


def _schema_and_table(arguments: argparse.Namespace) -> tuple[TableSchema, OpenTable]:
    stage("reading the table")
    with reading():
        declared = TableSchema.load(arguments.schema)
        return declared, OpenTable.of(arguments.file, declared)


def _converted(declared: TableSchema, table: OpenTable, model: Any) -> pd.DataFrame:
    """Return the table, converted by its schema; refuse a schema of another model."""
    names = list(map(str, model.feature_names_in_))
    if sorted(names) != sorted(declared.features):
        raise SchemaError(
            "the schema declares other features than those of the model "
            f"({', '.join(names)}): give the schema of the fit."
        )
    return declared.read(table)


def _loaded(path: str) -> Any:
    stage("loading the model")
    if Path(path).suffix not in (".skops", ".joblib"):
        raise CommandError(f"the model {path!r} must end in .skops or .joblib.")
    try:
        found = load(path)
    except OSError as error:
        raise CommandError(f"cannot read {path!r}: {error.strerror}.") from None
    except ModuleNotFoundError as error:
        if error.name != "skops":
            raise
        raise CommandError(f"{path!r} needs skops: pip install 'skfdp[cli]'.") from None
    except Exception:
        found = None
    if not hasattr(found, "feature_names_in_"):
        raise CommandError(f"{path!r} is not a model that 'skfdp fit' wrote.")
    return found
