"""The records of a run: a charge in a ledger, a report, a trained model."""

from __future__ import annotations

import argparse
from pathlib import Path

from skfdp.cli.output import CommandError, OutputError, check_writable
from skfdp.privacy import PrivacyLedger


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
    try:
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
    except (ValueError, OSError) as error:
        raise CommandError(" ".join(str(error).split())) from None
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
    """Refuse files that cannot be written, before anything is charged for them."""
    check_writable(arguments.report, "--report")
    for option in ("model", "plot"):
        check_writable(getattr(arguments, option, None), f"--{option}")


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
            lambda path: _save(model, path),
            "Model written to {}; 'skfdp predict' and skfdp.cli.saving.load read it.",
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


def _save(model, path: Path) -> None:
    from skfdp.cli.saving import save  # needs pandas, which a report does not

    save(model, path)


def _plot(model, path: Path) -> None:
    from skfdp.inspection import EffectsDisplay

    try:
        display = EffectsDisplay.from_estimator(model)
    except ValueError as error:  # of skfdp: it quotes declared names alone
        raise OutputError(" ".join(str(error).split())) from None
    display.figure_.savefig(path)
