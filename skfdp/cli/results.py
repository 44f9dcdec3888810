"""What a fit writes and prints, and ``schema``, ``predict``, ``report``, ``ledger``."""

from __future__ import annotations

import argparse
import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from scipy.stats import rankdata
from sklearn.base import is_regressor

from skfdp.base import digest_of
from skfdp.cli import output
from skfdp.cli.output import (
    CommandError,
    check_writable,
    complain,
    refusing,
    say,
    stage,
    writing,
)
from skfdp.data.validation import UtilityWarning
from skfdp.files import FORMATS
from skfdp.privacy import PrivacyLedger, PrivacyReport, read_report
from skfdp.privacy import report as report_of
from skfdp.schema import OpenTable, SchemaError, TableSchema, suffix_of


@contextlib.contextmanager
def reading(*errors: type[Exception], show: Callable = complain) -> Iterator[None]:
    """Convert errors to CommandError, and print warnings of skfdp by `show`.

    By default only SchemaError is converted. Only warnings on public facts are printed.
    Warnings of other libraries are dropped, because they may quote data.
    """
    refused = refusing(*errors or (SchemaError,))
    with warnings.catch_warnings(record=True, action="always") as caught, refused:
        yield
    for warning in caught:
        text = " ".join(str(warning.message).split())
        is_ours = issubclass(warning.category, UtilityWarning)
        if is_ours or text.startswith(("delta=", "epsilon=")):
            show(f"warning: {text}")


#: Like `complain`, but prints each warning only once, although a fit is repeated.
once = functools.cache(complain)


def open_ledger(arguments: argparse.Namespace, plan: Callable) -> PrivacyLedger | None:
    """Open the ledger of a fit; return None without ``--ledger``.

    A ledger without a limit gets the limit of ``--limit``; without this option it is
    refused. A new file is made only if the limit allows what `plan` returns. Afterwards
    ``arguments.charged()`` returns a list, with one sentence if the fit was charged.
    """
    path, limit = arguments.ledger, arguments.limit
    if path is None:
        return None
    is_new = not Path(path).exists()
    with refusing(ValueError, OSError):
        ledger = None if is_new else PrivacyLedger(path)
        if ledger is None or ledger.epsilon is None:
            if limit is None:
                raise CommandError(
                    f"--ledger {path} has no limit yet: give --limit EPSILON, the "
                    "total that all fits on these data may spend, at delta "
                    f"{arguments.delta:g}."
                )
            terms = {"epsilon": limit, "delta": arguments.delta}
            if is_new and (reason := PrivacyLedger(**terms).what_if(plan()).reason):
                raise CommandError(reason)
            ledger = PrivacyLedger(path, **terms)
        elif limit not in (None, ledger.epsilon):
            raise CommandError(
                f"--limit {limit:g} differs from the limit of --ledger {path}, "
                f"epsilon {ledger.epsilon:g}, which cannot be changed: leave --limit "
                "out."
            )
    before = len(ledger.entries)

    def charged() -> list[str]:
        if len(ledger.entries) == before:
            return []
        return [
            f"{path}: this fit is charged and will not be refunded; epsilon "
            f"{ledger.spent():.4g} of {ledger.epsilon:g} spent on these data so far, "
            f"at delta {ledger.delta:g}.",
            *[f"{ledger.path} is a new ledger: no earlier fit counts in it."] * is_new,
        ]

    arguments.charged = charged
    return ledger


def write(arguments: argparse.Namespace, model) -> None:
    """Write report and model, and add sentences to ``arguments.done``.

    If one file cannot be written, the other one is still written. Then an error is
    raised.
    """
    reader = "skops.io" if Path(arguments.model or "").suffix == ".skops" else "joblib"
    of_model = f"Model written to {{}}; 'skfdp predict' and {reader}.load read it."
    text = model.privacy_.to_json() + "\n"
    failed, of_report = [], "Privacy report written to {}."
    for path, sentence in ((arguments.report, of_report), (arguments.model, of_model)):
        try:
            if path is not None and sentence is of_report:
                path.write_text(text, encoding="utf-8")
            elif path is not None:
                save(model, path)
            arguments.done += [sentence.format(path)] * (path is not None)
        except OSError as error:
            failed.append(f"{path} could not be written: {error.strerror}.")
    if failed:
        raise CommandError(" ".join(failed), 1)


#: Types in a saved model that ``skops.io.load`` must trust.
TRUSTED_TYPES = tuple(
    f"skfdp.{name}"
    for name in """
    DeclaredEncoder FeatureDPLogisticRegression FeatureDPRegressor
    reader.Declaration reader.Reader
    data._basis.CategoriesBlock data._basis.SplineBlock data._basis.LinearBlock
    data.grid.InputScaler data.target.Spelling
    data.target.TargetMap privacy.AddOrRemoveOne privacy.Event privacy.PrivacyReport
    privacy.Receipt privacy.events.Assumption schema.Boolean schema.Category
    schema.Date schema.Ignore schema.Label schema.Number schema.TableSchema
    solvers.NoisyGradientDescent solvers.OneShot solvers.postprocessing.CoefficientNoise
    solvers.public_model.PublicModel
    """.split()
)


def save(model, path: str | Path) -> None:
    """Write a trained model with joblib, or with skops if `path` ends in ".skops"."""
    if Path(path).suffix == ".skops":
        import skops.io

        skops.io.dump(model, path)
    else:
        joblib.dump(model, path)


def load(path: str | Path):
    """Read a trained model, which predicts rows made by `TableSchema.select`.

    A joblib file can run any code, so load only your own joblib files. A skops file can
    use only `TRUSTED_TYPES`.
    """
    if Path(path).suffix == ".skops":
        import skops.io

        return skops.io.load(path, trusted=list(TRUSTED_TYPES))
    return joblib.load(path)


#: For each score: its printed format, and a factor by which it is multiplied first.
_MODEL_FORMATS = {
    "accuracy": ("{:5.1f} %", 100),
    "AUC": ("{:.3f}", 1),
    "log loss": ("{:.3f}", 1),
    "R2": ("{:.3f}", 1),
    "RMSE": ("{:.4g}", 1),
}


Scores = dict[str, tuple[float, float]]


def print_table(rows: Sequence[tuple[str, str, list[Scores]]]) -> None:
    """Print models, their epsilons and scores, in aligned columns."""
    known = {name for _, _, found in rows for one in found for name in one}
    names = [name for name in _MODEL_FORMATS if name in known]
    cells = [("model", "epsilon", *names)]
    for label, epsilon, found in rows:
        values = {name: [s[name] for s in found if name in s] for name in names}
        shown = (_cell(_MODEL_FORMATS[name], values[name]) for name in names)
        cells.append((label, epsilon, *shown))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, tuple("-" * width for width in widths))
    for line in cells:
        aligned = [
            f"{cell:>{width}}" if place == 1 else f"{cell:<{width}}"
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        say("  ".join(aligned).rstrip())


def _cell(form: tuple[str, int], found: list[tuple[float, float]]) -> str:
    """Format a score: its mean over fits, and a standard deviation.

    The deviation includes the spread over fits and over the choice of scored rows.
    """
    if not found:
        return "-"
    (text, unit), (values, errors) = form, np.transpose(found)
    of_fits = np.var(values, ddof=1) if len(values) > 1 else 0.0
    spread = unit * np.sqrt(of_fits + np.mean(errors**2))
    shown = text.removesuffix(" %").format(spread).strip()
    return f"{text.format(unit * np.mean(values))} +- {shown}"


def scores(model, X, y) -> Scores:
    """Return the scores of a model, each with its standard error.

    The standard error is due to the random choice of the rows.

    For a classifier: accuracy, log loss, and for two classes the area under the ROC
    curve, because accuracy is useless for a rare class. For a regressor: R2 and the
    root mean squared error.
    """

    def mean(values: np.ndarray) -> tuple[float, float]:
        return float(values.mean()), float(values.std() / np.sqrt(len(values)))

    if is_regressor(model):
        squares, apart = (y - model.predict(X)) ** 2, (y - np.mean(y)) ** 2
        (error, std), variance = mean(squares), max(float(apart.mean()), 1e-300)
        root = max(np.sqrt(error), 1e-150)
        found = {"RMSE": (float(root), float(std / (2 * root)))}
        if apart.any():
            _, std = mean(squares - error / variance * apart)
            found["R2"] = 1 - error / variance, std / variance
        return found
    y, known = np.asarray(y), np.asarray(model.classes_)
    chances = model.predict_proba(X)
    # A label that the model does not have gets probability 0.
    right = (y[:, None] == known) * chances
    losses = -np.log(np.maximum(right.sum(axis=1), 1e-15))
    likeliest = known[chances.argmax(axis=1)]  # `predict` would read X again
    found = {"accuracy": mean(likeliest == y), "log loss": mean(losses)}
    if len(known) == 2 and len(np.unique(y == known[1])) == 2:
        # The standard error is that of DeLong et al. (1988).
        negatives, positives = (chances[y == label, 1] for label in known)
        ranks = rankdata(np.concatenate([negatives, positives]))
        below = (ranks[len(negatives) :] - rankdata(positives)) / len(negatives)
        above = 1 - (ranks[: len(negatives)] - rankdata(negatives)) / len(positives)
        square = below.var() / len(positives) + above.var() / len(negatives)
        found["AUC"] = float(below.mean()), float(np.sqrt(square))
    return found


# Commands that use a table, a model, a report or a ledger.

_SQLITE = b"SQLite format 3"
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
        given = [name for name in (*_DRAFTED, "output") if getattr(arguments, name)]
        if given:
            option = given[0].replace("_", "-")
            raise CommandError(f"--check takes no --{option}: leave one of them out.")
        output.options.difference_update(_DRAFTED)  # the schema file has these
        check(arguments)
        return
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
        known = declared.columns.values()
        n_private = sum(bool(one.read_as and not one.public) for one in known)
        say(
            f"{arguments.file} agrees with {arguments.check} in names, stored types "
            "and the values of public columns."
        )
        if n_private:
            say(f"The values of {n_private} private column(s) were NOT compared.")


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
        names += [declared.exposure] * (declared.exposure is not None)
        table.check_has([*arguments.keep, *names])
        rows = declared.read(table)[names]
        kept = table.columns(arguments.keep)
    if not len(rows):
        raise CommandError(f"{arguments.file!r} holds no rows.")
    stage("predicting")
    found = {"prediction": model.predict(rows)}
    if not is_regressor(model):
        chances = model.predict_proba(rows).T
        names = [f"p({label})" for label in model.classes_]
        found |= dict(zip(names, chances, strict=True))
    if twice := sorted({*kept} & {*found}):
        raise CommandError(f"--keep {twice[0]!r} has the name of a prediction.")
    found = pd.DataFrame(kept | found)
    if path is None:
        say(found.to_csv(index=False).rstrip("\n"))
        return
    kind = FORMATS.get(suffix_of(path))
    with writing(path):
        if kind is not None:
            found.to_parquet(path) if kind == "parquet" else found.to_feather(path)
        else:
            form = {"sep": declared.delimiter, "decimal": declared.decimal}
            found.to_csv(path, index=False, encoding=declared.encoding, **form)
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
    if also := [name for name in ("html", "registry") if getattr(arguments, name)]:
        if arguments.json:
            raise CommandError(f"--json takes no --{also[0]}: leave one of them out.")
        if len(found) > 1:
            raise CommandError(
                f"{str(path)!r} has {len(found)} data sets, and --{also[0]} writes "
                "one: in Python, report(PrivacyLedger(path, dataset=...)) is of one."
            )
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
    matching = " The SHA-256 fits its released weights." * (model is not None)
    say(f"\nRecomputed from the listed releases: epsilon agrees.{matching}")


def ledger(arguments: argparse.Namespace) -> None:
    """Check the hash chain of a ledger file, and print limit and spending.

    With ``--report`` the charges of this report must be in the chain, too.
    """
    with refusing(OSError), refusing(ValueError, status=1):
        ledgers = PrivacyLedger.open_all(arguments.file)
        lines = [*map(str, ledgers), "Hash chain: unbroken."]
    if (path := arguments.report) is None:
        lines[-1] += " An older copy passes, too: compare a report by --report."
    else:
        try:
            with refusing(ValueError):
                found = read_report(path)
        except OSError as error:
            raise CommandError(f"cannot read '{path}': {error.strerror}.") from None
        charges = {receipt.charge for receipt in found.receipts}
        own = (one for one in ledgers if charges & {e.charge for e in one.entries})
        with refusing(ValueError, status=1):
            next(own, ledgers[0]).check_report(found)
        lines[-1] += (
            f" It holds the charges of {path}, with these events, spending and limit. "
            "Other fields are not compared, and later charges may be missing."
        )
    say("\n\n".join(lines))


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
