"""The commands ``schema``, ``predict``, ``report`` and ``ledger``."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_regressor

from skfdp.base import digest_of
from skfdp.cli import output
from skfdp.cli.output import CommandError, check_writable, refusing, say, stage, writing
from skfdp.cli.results import load, reading
from skfdp.data.cells import exact
from skfdp.privacy import PrivacyLedger, PrivacyReport, read_report
from skfdp.privacy import report as report_of
from skfdp.schema import OpenTable, SchemaError, TableSchema

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
    names = list(map(str, model.feature_names_in_))
    stage("reading the table")
    with reading():
        declared = TableSchema.load(arguments.schema)
        table = OpenTable.of(arguments.file, declared)
        if sorted(names) != sorted(declared.features):
            raise SchemaError(
                "the schema declares other features than those of the model "
                f"({', '.join(names)}): give the schema of the fit."
            )
        table.check_has(arguments.keep)
        rows = declared.read(table)[names]
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


def report(arguments: argparse.Namespace) -> None:
    """Print the statement of a report, of a saved model, or of a ledger."""
    path, model = Path(arguments.file), None
    check_writable(arguments.html, "--html")
    check_writable(arguments.registry, "--registry")
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
    if arguments.registry is not None:
        with refusing(ValueError):
            entry = found[0].to_registry()
        with writing(arguments.registry):
            arguments.registry.write_text(entry, encoding="utf-8")
        missing = entry.count(": missing\n")
        say(f"\nEntry written to {arguments.registry}: fill in {missing} fields.")
    matching = " The SHA-256 fits the numbers of the model." * (model is not None)
    say(f"\nRecomputed from the listed releases: epsilon agrees.{matching}")


def ledger(arguments: argparse.Namespace) -> None:
    """Print limit and spending of each data set in a ledger file."""
    with refusing(ValueError, OSError):
        text = "\n\n".join(map(str, PrivacyLedger.open_all(arguments.file)))
    say(text)


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
