"""The commands: each is a function of the options with the command's name.

Files are written before text is printed, so that a closed pipe (``| head``) loses only
text.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from sklearn.base import is_regressor
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from skfdp import kernels
from skfdp.base import digest_of
from skfdp.cli import output
from skfdp.cli.output import CommandError, complain, refusing, say, writing
from skfdp.data.validation import UtilityWarning
from skfdp.files import FORMATS
from skfdp.kernels.losses import CLASSIFICATION, REGRESSION
from skfdp.linear_model import (
    DPSGDFClassifier,
    FeatureDPLogisticRegression,
    FeatureDPRegressor,
)
from skfdp.privacy import AddOrRemoveOne, PrivacyLedger, PrivacyReport, read_report
from skfdp.privacy import report as report_of
from skfdp.privacy.events import ASSUMED
from skfdp.schema import (
    Category,
    Label,
    Number,
    OpenTable,
    SchemaError,
    TableSchema,
    suffix_of,
)
from skfdp.solvers import FeatureDPSGD, NoisyGradientDescent, NoisySGD


@contextlib.contextmanager
def reading(*errors: type[Exception]) -> Iterator[None]:
    """Convert errors to CommandError, and print warnings of skfdp.

    By default only SchemaError is converted. Only warnings on public facts are printed.
    Warnings of other libraries are dropped, because they may quote data.
    """
    refused = refusing(*errors or (SchemaError,))
    with warnings.catch_warnings(record=True, action="always") as caught, refused:
        yield
    # A plan and its fit give the same warning.
    for warning in {str(one.message): one for one in caught}.values():
        text = " ".join(str(warning.message).split())
        is_ours = issubclass(warning.category, UtilityWarning)
        if is_ours or text.startswith(("delta=", "epsilon=")):
            complain(f"warning: {text}")


# ``skfdp`` without a command: models of digits, half of each image public.

_INTRODUCTION = """\
Handwritten digits bundled with scikit-learn: images of 8 x 8 pixels, ten classes.
Public: the left half of each image and the label, which digit it is.
Private: the right half. The accuracy is that on a random quarter of the images.

                                         epsilon  accuracy"""
_EXPLANATION = """
"DP on everything" also protects the public half and the labels. "feature-DP" starts
from a model of the public half, which is exact and free, and learns from the private
half with noise. Its advantage shrinks as epsilon grows (try --epsilon 4). The exact
accuracy of private records must not be published. The statement covers the last model.
"""
_NEXT = """
What next
---------
skfdp schema TABLE.csv --outcomes COLUMN --public COLUMN ... -o schema.toml
    drafts a schema of your own table;
skfdp fit TABLE.csv --schema schema.toml
    trains a private model on the table.
Short tutorials are in docs/tutorials; skfdp --full prints the statement's annex."""


def bundled(arguments: argparse.Namespace) -> None:
    """Compare models of digits, and print the feature-DP model's privacy statement."""
    X, y = load_digits(return_X_y=True, as_frame=True)
    test = np.random.default_rng(0).permutation(len(X)) < len(X) // 4
    # Names are pixel_ROW_COLUMN. Columns 0 to 3 are the left half.
    columns = {name: Number(0, 16, int(name[-1]) < 4, basis="linear") for name in X}
    columns[y.name] = Label(range(10), public=True)
    schema = TableSchema(columns, outcomes=[y.name])
    plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    asked = {"epsilon": arguments.epsilon, "delta": arguments.delta}
    asked["random_state"] = arguments.seed
    everything = DPSGDFClassifier(**asked, bounds=(0, 16), classes=range(10))
    model = FeatureDPLogisticRegression(**asked, schema=schema)
    say(_INTRODUCTION)
    for label, epsilon, one, names in (
        ("no privacy (scikit-learn)", np.inf, plain, list(X)),
        ("public columns only (scikit-learn)", 0, plain, list(schema.public)),
        ("DP on everything", arguments.epsilon, everything, list(X)),
        ("feature-DP", arguments.epsilon, model, list(X)),
    ):
        # Several threads make products of small tables slower.
        with threadpool_limits(1, "blas"), reading(ValueError):
            one.fit(X.loc[~test, names], y[~test])
        score = one.score(X.loc[test, names], y[test])
        say(f"{label:<40}{epsilon:>8g}{score:>10.1%}")
    say(_EXPLANATION)
    say(model.privacy_.statement(full=arguments.full))
    say(_NEXT)


# ``skfdp fit``.


def fit(arguments: argparse.Namespace) -> None:
    """Train a private model, write it and its report, and print the statement."""
    path = arguments.model
    if path and path.is_file() and not arguments.overwrite:
        raise CommandError(
            f"--model {path} exists and may be the model of another charge: name a new "
            "file, or give --overwrite."
        )
    with reading():
        schema = TableSchema.load(arguments.schema)
        target = schema.outcome(arguments.target)
        X, y = schema.split(arguments.file, target)
    if not len(X):
        raise CommandError(f"{arguments.file!r} holds no rows.")
    # Several threads make products of small tables slower.
    threads = threadpool_limits(1 if X.size < 2**20 else None, "blas")
    with threads, reading(ValueError, OSError):  # of skfdp, which quote no data
        model = _model(arguments, schema, target)
        ledger = _opened_ledger(arguments, lambda: model.plan(X, y))
        before = ledger and len(ledger.entries)
        try:
            model.set_params(ledger=ledger).fit(X, y)
        finally:
            if ledger is not None and len(ledger.entries) > before:
                arguments.done.append(
                    f"{arguments.ledger}: this fit is charged and will not be refunded;"
                    f" epsilon {ledger.spent():.4g} of {ledger.epsilon:g} spent on "
                    f"these data so far, at delta {ledger.delta:g}."
                )
    # The model may be sent to others, so it must not contain the path of the ledger.
    model.set_params(ledger=None)
    # The types of the columns follow from the schema.
    given = [
        one
        for one in model.privacy_.assumptions
        if one != ASSUMED["stored_types_public"]
    ]
    model.privacy_ = dataclasses.replace(
        model.privacy_, assumptions=tuple(given), context=arguments.context
    )
    if path is not None:
        with writing(path):
            save(model, path)
        arguments.done.append(f"Model written to {path}.")
    if (path := arguments.report) is not None:
        with writing(path):
            path.write_text(model.privacy_.to_json() + "\n", encoding="utf-8")
        arguments.done.append(f"Privacy report written to {path}.")
    say("\n".join([*arguments.done, "", model.privacy_.statement()]).lstrip())


def _model(arguments: argparse.Namespace, schema: TableSchema, target: str) -> Any:
    """Return the unfitted model that the options and the schema describe."""
    column, relation = schema.columns[target], arguments.relation
    if arguments.n_records is not None:
        relation = AddOrRemoveOne(arguments.n_records)
    # A file of skops, which must be safe to load, cannot hold trees or products.
    if skops := suffix_of(arguments.model or "") == ".skops":
        _skops()  # refuse before anything is charged
        if schema.interactions == "pairs":
            raise CommandError(
                "a .skops file cannot hold interactions='pairs' of the schema: end the "
                "name of --model in .joblib."
            )
        schema = dataclasses.replace(schema, interactions=None)
    models = FeatureDPLogisticRegression, FeatureDPRegressor
    return models[bool(column.bounds)](
        arguments.epsilon,
        arguments.delta,
        schema=schema,
        target=target,
        public_model="linear" if skops and column.public and schema.public else "auto",
        neighboring_relation=relation,
        random_state=arguments.seed,
    )


def _opened_ledger(arguments: argparse.Namespace, plan: Any) -> PrivacyLedger | None:
    """Open the ledger of a fit; return None without ``--ledger``.

    A ledger without a limit gets that of ``--limit``. A new file is made only if this
    limit allows what `plan` returns.
    """
    path, limit = arguments.ledger, arguments.limit
    if path is None:
        return None
    is_new = not Path(path).exists()
    held = None if is_new else PrivacyLedger(path)
    if held is not None and held.epsilon is not None:
        if limit not in (None, held.epsilon):
            raise CommandError(
                f"--limit {limit:g} differs from the limit of --ledger {path}, "
                f"epsilon {held.epsilon:g}, which cannot be changed: leave --limit out."
            )
        return held
    if limit is None:
        raise CommandError(
            f"--ledger {path} has no limit yet: give --limit EPSILON, the total that "
            f"all fits on these data may spend, at delta {arguments.delta:g}."
        )
    terms = {"epsilon": limit, "delta": arguments.delta}
    if is_new and (reason := PrivacyLedger(**terms).what_if(plan()).reason):
        raise CommandError(reason)
    held = PrivacyLedger(path, **terms)
    if is_new:
        told = f"{held.path} is a new ledger: no earlier fit counts in it."
        arguments.done.append(told)
    return held


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


def _skops() -> Any:
    try:
        import skops.io
    except ImportError:
        raise CommandError(
            "a .skops file needs skops: pip install 'skfdp[cli]'."
        ) from None
    return skops.io


def save(model: Any, path: str | Path) -> None:
    """Write a trained model with joblib, or with skops if `path` ends in ".skops"."""
    dump = _skops().dump if suffix_of(path) == ".skops" else joblib.dump
    dump(model, path)


def load(path: str | Path) -> Any:
    """Read a trained model, which predicts rows made by `TableSchema.select`.

    A joblib file can run any code, so load only your own joblib files. A skops file can
    use only `TRUSTED_TYPES`.
    """
    if suffix_of(path) == ".skops":
        return _skops().load(path, trusted=list(TRUSTED_TYPES))
    return joblib.load(path)


# Commands that use a table, a model, a report or a ledger.

_SQLITE = b"SQLite format 3"
_DRAFTED = (
    *("public", "outcomes", "group", "delimiter", "decimal", "thousands"),
    *("encoding", "skip_lines", "header"),
)


def schema(arguments: argparse.Namespace) -> None:
    """Print or write a draft of a schema, or check a table against a schema."""
    path = arguments.output
    options = {n: one for n in _DRAFTED if (one := getattr(arguments, n)) is not None}
    if path is not None and path.exists():
        raise CommandError(f"-o {path} exists: name a new file.")
    if arguments.check:
        for name, given in (options | {"output": path}).items():
            if given:
                option = name.replace("_", "-")
                raise CommandError(f"--check takes no --{option}: leave one out.")
        output.options.difference_update(_DRAFTED)  # the schema file has these
        _check(arguments)
        return
    with reading():
        draft = TableSchema.draft(arguments.file, **options)
    if path is None:
        say(draft.to_toml().rstrip("\n"))
        return
    with writing(path):
        draft.save(path)
    say(f"Draft written to {path}: fill in {len(draft.questions)} places.")


def _check(arguments: argparse.Namespace) -> None:
    """Compare a table with a schema, and say what was not compared."""
    with reading():
        declared = TableSchema.load(arguments.check)
        if found := declared.check(arguments.file):
            raise CommandError(" ".join(found))
    known = declared.columns.values()
    n_private = sum(bool(one.read_as and not one.public) for one in known)
    say(
        f"{arguments.file} agrees with {arguments.check} in names, stored types and "
        "the values of public columns."
    )
    if n_private:
        say(f"The values of {n_private} private column(s) were NOT compared.")


def predict(arguments: argparse.Namespace) -> None:
    """Print or write the prediction of each row."""
    path, model = arguments.output, _loaded(arguments.saved)
    with reading():
        declared = TableSchema.load(arguments.schema)
        table = OpenTable.of(arguments.file, declared)
        table.check_has([*arguments.keep, *model.feature_names_in_])
        rows, kept = declared.read(table), table.columns(arguments.keep)
        if not len(rows):
            raise CommandError(f"{arguments.file!r} holds no rows.")
        if {*model.feature_names_in_} - {*rows}:
            raise CommandError(
                "the schema declares other features than those of the model "
                f"({', '.join(model.feature_names_in_)}): give the schema of the fit."
            )
    with warnings.catch_warnings(action="ignore"):  # given above, or of no use
        found = {"prediction": model.predict(rows)}
        if not is_regressor(model):
            names = [f"p({label})" for label in model.classes_]
            found |= dict(zip(names, model.predict_proba(rows).T, strict=True))
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
    found, matching = _reports(Path(arguments.file))
    if (arguments.html or arguments.registry) and len(found) > 1:
        raise CommandError(
            f"{arguments.file!r} has {len(found)} data sets, and a web page or entry "
            "is of one: in Python, report(PrivacyLedger(path, dataset=...)) is of one."
        )
    lines = [one.statement(full=arguments.full) for one in found]
    if arguments.json:
        lines = [one.to_json() for one in found]
    if (path := arguments.html) is not None:
        with writing(path):
            found[0].to_html(path)
        arguments.done.append(f"Web page written to {path}.")
    if (path := arguments.registry) is not None:
        with refusing(ValueError):
            entry = found[0].to_registry()
        with writing(path):
            path.write_text(entry, encoding="utf-8")
        missing = entry.count(": missing\n")
        arguments.done.append(f"Entry written to {path}: fill in {missing} fields.")
    say("\n\n".join(lines))
    if not arguments.json:
        recomputed = "Recomputed from the listed releases: epsilon agrees."
        say("\n".join(["", *arguments.done, recomputed + matching]))


def _reports(path: Path) -> tuple[list[PrivacyReport], str]:
    """Return the reports in a file, with numbers derived again from their events.

    For a model also return a sentence on the digest of its weights.
    """
    matching = ""
    with refusing(OSError, ValueError):
        with path.open("rb") as opened:
            is_ledger = opened.read(len(_SQLITE)) == _SQLITE
        if is_ledger:
            # A ledger without a limit has no delta of its own.
            ledgers = PrivacyLedger.open_all(path)
            found = [report_of(one, delta=one.delta or 1e-5) for one in ledgers]
        elif path.suffix in (".skops", ".joblib"):
            model = _loaded(path)
            found = [report_of(model)]
            if (own := found[0].sha256) is not None and own != digest_of(model):
                raise CommandError(
                    f"{str(path)!r} holds other numbers than those of its report, "
                    "whose SHA-256 differs: ask for the original."
                )
            matching = " The SHA-256 fits its released weights."
        else:
            found = [read_report(path)]
        return [PrivacyReport.from_dict(one.to_dict()) for one in found], matching


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
        (found, *_), _ = _reports(Path(path))
        charges = {receipt.charge for receipt in found.receipts}
        own = (one for one in ledgers if charges & {e.charge for e in one.entries})
        with refusing(ValueError, status=1):
            next(own, ledgers[0]).check_report(found)
        lines[-1] += (
            f" It holds the charges of {path}, with these events, spending and limit. "
            "Other fields are not compared, and later charges may be missing."
        )
    say("\n\n".join(lines))


def _loaded(path: str | Path) -> Any:
    """Return the model in a file, whose errors may quote anything."""
    if suffix_of(path) not in (".skops", ".joblib"):
        raise CommandError(f"the model {str(path)!r} must end in .skops or .joblib.")
    with refusing(OSError):
        try:
            found = load(path)
        except (CommandError, OSError):
            raise
        except Exception:
            found = None
    if not hasattr(found, "feature_names_in_"):
        raise CommandError(f"{str(path)!r} is not a model that 'skfdp fit' wrote.")
    return found


# ``skfdp compile``: models of random tables of every kind.

_BATCHES = NoisySGD(batch_size=50, max_iter=2)


def compile_loops(arguments: argparse.Namespace) -> None:
    """Compile all loops into the cache."""
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
