"""Results of a run: charges, reports, saved models, and the comparison table."""

from __future__ import annotations

import argparse
import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import joblib
import numpy as np
from scipy.stats import rankdata
from sklearn.base import is_regressor

from skfdp.cli.output import CommandError, OutputError, complain, refusing, say
from skfdp.data.validation import UtilityWarning
from skfdp.privacy import PrivacyLedger
from skfdp.schema import SchemaError


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


def open_ledger(arguments: argparse.Namespace) -> PrivacyLedger | None:
    """Open the ledger of a fit; return None without ``--ledger``.

    A ledger without a limit gets the limit of ``--limit``; without this option it is
    refused. Afterwards ``arguments.charged()`` returns a list, with one sentence if the
    fit was charged.
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
            ledger = PrivacyLedger(path, epsilon=limit, delta=arguments.delta)
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
    failed = []
    for path, task, sentence in (
        (
            arguments.report,
            lambda path: path.write_text(text, encoding="utf-8"),
            "Privacy report written to {}.",
        ),
        (arguments.model, lambda path: save(model, path), of_model),
    ):
        try:
            if path is not None:
                task(path)
                arguments.done.append(sentence.format(path))
        except OSError as error:
            failed.append(f"{path} could not be written: {error.strerror}.")
    if failed:
        raise OutputError(" ".join(failed))


#: Types in a saved model that ``skops.io.load`` must trust.
TRUSTED_TYPES = tuple(
    f"skfdp.{name}"
    for name in """
    DeclaredEncoder FeatureDPLogisticRegression FeatureDPRegressor
    reader.Declaration reader.Reader
    data._basis.CategoriesBlock data._basis.SplineBlock data._basis.LinearBlock
    data.input_scaler.InputScaler data.target.Spelling
    data.target.TargetMap privacy.AddOrRemoveOne privacy.Event privacy.PrivacyReport
    privacy.Receipt privacy.assumptions.Assumption schema.Boolean schema.Category
    schema.Date schema.Ignore schema.Label schema.Number schema.TableSchema
    solvers.NoisyGradientDescent solvers.OneShot solvers.postprocessing.CoefficientNoise
    solvers.public_model.PublicModel
    solvers.public_model.PublicRegression
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
