"""Results of a run: charges, reports, models as files, and the comparison table."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib.util
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

import joblib
import numpy as np
from sklearn.base import is_regressor
from sklearn.metrics import r2_score, roc_auc_score

from skfdp.cli.output import (
    CommandError,
    OutputError,
    check_writable,
    complain,
    refusing,
    say,
)
from skfdp.data import _basis
from skfdp.data.encoder import DeclaredEncoder
from skfdp.data.input_scaler import RowMap
from skfdp.data.target import Spelling, TargetMap
from skfdp.data.validation import UtilityWarning
from skfdp.linear_model import FeatureDPLogisticRegression, FeatureDPRegressor
from skfdp.privacy import Event, PrivacyLedger, PrivacyReport
from skfdp.privacy.assumptions import Assumption
from skfdp.privacy.entries import Receipt
from skfdp.solvers.postprocessing import CoefficientNoise
from skfdp.solvers.public_model import PublicModel, PublicRegression

# The records of a run: a charge in a ledger, a report, a trained model.


def open_ledger(arguments: argparse.Namespace) -> PrivacyLedger | None:
    """Open the ledger; from then on ``arguments.charged()`` tells what this run spent.

    Raises
    ------
    CommandError
        If it has no ceiling, or another one than is asked for: a ledger that refuses
        nothing only watches.
    """
    path, ceiling = arguments.ledger, arguments.ceiling
    if path is None:
        return None
    with refusing(ValueError, OSError):
        ledger = PrivacyLedger(path) if Path(path).exists() else None
        if ledger is None or ledger.epsilon is None:
            if ceiling is None:
                raise CommandError(
                    f"--ledger {path} has no ceiling yet: give --ceiling EPSILON, the "
                    "total that all fits on these data may spend, at delta "
                    f"{arguments.delta:g}."
                )
            ledger = PrivacyLedger(path, epsilon=ceiling, delta=arguments.delta)
        elif ceiling not in (None, ledger.epsilon):
            raise CommandError(
                f"--ceiling {ceiling:g} differs from the ceiling of --ledger {path}, "
                f"epsilon {ledger.epsilon:g}, which never changes: leave it out."
            )
    before = len(ledger.entries)

    def charged() -> list[str]:
        if len(ledger.entries) == before:
            return []
        return [
            f"{path}: charged, and stays charged; epsilon {ledger.spent():.4g} of "
            f"{ledger.epsilon:g} spent on these data so far, at delta "
            f"{ledger.delta:g}."
        ]

    arguments.charged = charged
    return ledger


def check_outputs(arguments: argparse.Namespace) -> None:
    """Refuse what cannot be written, before anything is charged for it."""
    for option in ("report", "model", "plot"):
        path = getattr(arguments, option, None)
        check_writable(path, f"--{option}")
        package = {".skops": "skops"}.get(path.suffix if path else "")
        if option == "plot" and path:
            package = "matplotlib"
        if package and importlib.util.find_spec(package) is None:
            extra = {"skops": "cli", "matplotlib": "plot"}[package]
            raise CommandError(
                f"--{option} {path} needs {package}: pip install 'skfdp[{extra}]'."
            )


def write(arguments: argparse.Namespace, report, model=None) -> None:
    """Write what was asked for; ``arguments.done`` says where it is.

    Parameters
    ----------
    arguments : Namespace
    report : PrivacyReport
    model : estimator, default=None
        For ``--model`` and ``--plot``.

    Raises
    ------
    OutputError
        If the disk is full, say; after everything was tried.
    """
    tasks = [
        (
            arguments.report,
            lambda path: path.write_text(report.to_json() + "\n", encoding="utf-8"),
            "Privacy report written to {}.",
        ),
        (
            getattr(arguments, "model", None),
            lambda path: save(model, path),
            "Model written to {}; 'skfdp predict' and skfdp.cli.results.load read it.",
        ),
        (
            getattr(arguments, "plot", None),
            lambda path: _plot(model, path),
            "Effects of the columns drawn in {}.",
        ),
    ]
    failed = []
    for path, task, sentence in tasks:
        if path is None:
            continue
        try:
            task(path)
        except OSError as error:
            failed.append(f"{path} could not be written: {error.strerror}.")
        except OutputError as error:
            failed.append(f"{path} could not be drawn: {error}")
        else:
            arguments.done.append(sentence.format(path))
    if failed:
        raise OutputError(" ".join(failed))


def _plot(model, path: Path) -> None:
    from skfdp.inspection import EffectsDisplay

    try:
        display = EffectsDisplay.from_estimator(model)
    except ValueError as error:  # of skfdp: it quotes declared names alone
        raise OutputError(" ".join(str(error).split())) from None
    display.figure_.savefig(path)


# Trained models as files.


#: What ``skops.io.load`` must be told to trust in a saved model.
TRUSTED_TYPES = tuple(
    f"{item.__module__}.{item.__qualname__}"
    for item in (
        Assumption,
        CoefficientNoise,
        DeclaredEncoder,
        Event,
        FeatureDPLogisticRegression,
        FeatureDPRegressor,
        PrivacyReport,
        PublicModel,
        PublicRegression,
        Receipt,
        RowMap,
        Spelling,
        TargetMap,
        _basis.CategoriesBlock,
        _basis.HatsBlock,
        _basis.LinearBlock,
        _basis.PairBlock,
    )
)


def save(model, path: str | Path) -> None:
    """Write a trained model.

    Parameters
    ----------
    model : estimator
    path : str or Path
        Ends in ".skops" (which needs skops) or else is written by joblib.
    """
    if Path(path).suffix == ".skops":
        import skops.io

        skops.io.dump(model, path)
    else:
        joblib.dump(model, path)


def load(path: str | Path):
    """Read a trained model.

    A joblib file runs whatever its author put into it, a skops file only
    `TRUSTED_TYPES`; load joblib files of your own only.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    model : estimator
        Its `predict` takes a DataFrame with the columns of the table.
    """
    if Path(path).suffix == ".skops":
        import skops.io

        return skops.io.load(path, trusted=list(TRUSTED_TYPES))
    return joblib.load(path)


# The comparison table, and fits whose messages can be shown.


#: What is said of a model, and how.
_FORMATS = {
    "accuracy": ("{:5.1f} %", 100),
    "AUC": ("{:.3f}", 1),
    "log loss": ("{:.3f}", 1),
    "R2": ("{:.3f}", 1),
    "RMSE": ("{:.4g}", 1),
}


@dataclasses.dataclass
class Row:
    """One line of the table.

    Attributes
    ----------
    label : str
    epsilon : str
        What it costs.
    scores : list of dict of str to float
        Those of its repetitions, by name; none where it cannot be fitted.
    """

    label: str
    epsilon: str
    scores: list[dict[str, float]] = dataclasses.field(default_factory=list)

    def cells(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the text of the columns."""
        return self.label, self.epsilon, *(self._cell(name) for name in names)

    def _cell(self, name: str) -> str:
        found = [scores[name] for scores in self.scores if name in scores]
        if not found:
            return "-"
        form, unit = _FORMATS[name]
        text = form.format(unit * np.mean(found))
        if len(found) > 1:
            spread = form.removesuffix(" %").format(unit * np.std(found, ddof=1))
            text += f" +- {spread.strip()}"
        return text


def print_table(rows: Sequence[Row]) -> None:
    """Print rows in aligned columns."""
    known = {name for row in rows for scores in row.scores for name in scores}
    names = [name for name in _FORMATS if name in known]
    cells = [("model", "epsilon", *names), *(row.cells(names) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rule = tuple("-" * width for width in widths)
    for line in (cells[0], rule, *cells[1:]):
        aligned = [
            f"{cell:>{width}}" if place == 1 else f"{cell:<{width}}"
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        say("  ".join(aligned).rstrip())


def accuracy(model, X, y) -> float:
    """Return the share of right predictions."""
    return float(np.mean(model.predict(X) == np.asarray(y)))


def scores(model, X, y) -> dict[str, float]:
    """Return accuracy, log loss, and for two classes the area under the ROC curve.

    Accuracy alone says nothing where one class is rare. For a regressor: the share of
    the variance that is explained, and the root of the mean squared error.
    """
    if is_regressor(model):
        predicted = model.predict(X)
        found = {"RMSE": float(np.sqrt(np.mean((predicted - y) ** 2)))}
        if len(y) > 1:
            found["R2"] = float(r2_score(y, predicted))
        return found
    y, known = np.asarray(y), np.asarray(model.classes_)
    chances = model.predict_proba(X)
    # A label that the model does not know has no chance.
    right = (y[:, None] == known) * chances
    losses = -np.log(np.maximum(right.sum(axis=1), 1e-15))
    found = {"accuracy": accuracy(model, X, y), "log loss": float(losses.mean())}
    if len(known) == 2 and len(np.unique(y == known[1])) == 2:
        found["AUC"] = float(roc_auc_score(y == known[1], chances[:, 1]))
    return found


def fit_private(model, X, y, **of_rows):
    """Fit a model of skfdp, or a Pipeline that ends in one.

    `of_rows` is what `fit` takes beside them.

    Refusals become a `CommandError`: those of skfdp quote no data. Of the warnings
    only those are shown that depend on public facts.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with refusing(ValueError, OSError):
            model.fit(X, y, **of_rows)
    _show(caught)
    return model


def fit_baseline(model, X, y):
    """Fit a model without privacy; its warnings tell about the data and are dropped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def seed_of(seed: int | None, repeat: int) -> int | None:
    """Return the `random_state` of one repetition."""
    return None if seed is None else seed + repeat


def _show(caught: Iterable[warnings.WarningMessage]) -> None:
    for warning in caught:
        text = " ".join(str(warning.message).split())
        if "values of the public column" in text:
            continue  # the job has said so, with what to do about it here
        shown = issubclass(warning.category, UtilityWarning)
        if shown or text.startswith(("delta=", "epsilon=")):
            _show_once(text)


@functools.cache
def _show_once(text: str) -> None:
    complain(f"warning: {text}")
