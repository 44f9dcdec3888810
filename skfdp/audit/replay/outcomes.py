"""Outcomes of fits: everything that leaves one."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import logging
import random
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from skfdp.audit.replay.comparing import Comparison, differ
from skfdp.audit.replay.rehearsing import Parted
from skfdp.audit.replay.tracing import Trace, parting
from skfdp.estimators.base import PrivateEstimator
from skfdp.estimators.search.search import PrivateSearchCV
from skfdp.privacy.events import Event
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.plan import PrivacyPlan
from skfdp.privacy.store import Receipt, new_entries
from skfdp.releases import rehearsal

_ELSEWHERE = (
    "n_jobs: a private fit runs in another thread or process, where an audit cannot "
    "see its releases; audit it with n_jobs=None, which changes no result."
)
#: What is asked of a fitted model, where it has it.
_METHODS = ("predict", "predict_proba", "decision_function", "transform")
#: Rows that are predicted.
_PROBED = 20


class _Elsewhere(PrivacyLedger):
    """The ledger of a fit that an audit does not see: it refuses every charge."""

    def __init__(self) -> None:
        pass  # it records nothing

    def __reduce__(self) -> tuple:
        return _Elsewhere, ()

    def charge(self, events: Iterable[Event], **more: Any) -> None:
        """Refuse it."""
        raise ValueError(_ELSEWHERE)

    def charge_nonprivate(self, **more: Any) -> None:
        """Refuse it."""
        raise ValueError(_ELSEWHERE)


class Charges(PrivacyLedger):
    """A ledger that keeps what it is given, for one fit in this thread."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[tuple[tuple[Event, ...], str | None, str]] = []

    def __reduce__(self) -> tuple:
        return _Elsewhere, ()  # wherever it is sent to

    def charge(
        self,
        events: Iterable[Event],
        *,
        label: str | None = None,
        plan: PrivacyPlan | None = None,
        n_rows: int | None = None,
    ) -> Receipt:
        """Keep a charge, and return a receipt of it, as every ledger does."""
        if rehearsal.current() is None:
            raise ValueError(_ELSEWHERE)
        self.given.append((tuple(events), label, repr((plan, n_rows))))
        entries = new_entries(self.given[-1][0], label, plan=plan)
        return self._store.append(entries, lambda terms, recorded: None)

    def charge_nonprivate(self, *, label: str | None = None) -> None:
        """Refuse fits without privacy."""
        raise ValueError(
            "epsilon=inf: a fit without privacy has no claim to audit; give every "
            "private part a finite epsilon."
        )

    @property
    def events(self) -> tuple[Event, ...]:
        """All events."""
        return tuple(event for events, *_ in self.given for event in events)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Everything that leaves a fit.

    Attributes
    ----------
    model : estimator
    error : Exception or None
    complete : bool
        False where a replay ended because its releases were others.
    charges : Charges
    told : dict
        Warnings, text, log records and states of global generators, each by what it is.
    predictions : dict
        By method.
    trace : Trace or None
    """

    model: Any
    error: Exception | None
    complete: bool
    charges: Charges
    told: dict[str, Any]
    predictions: dict[str, Any]
    trace: Trace | None

    def differences(self, other: Outcome) -> Iterator[tuple[str, str]]:
        """Yield kind and place of each difference to the outcome of a neighbour."""
        if not other.complete:
            return
        errors = [(type(one.error), str(one.error)) for one in (self, other)]
        if errors[0] != errors[1]:
            yield "exception", "the fit"
            return
        for place in Comparison().places(self.model, other.model):
            yield "attribute", place or "the model"
        for kind, told in self.told.items():
            if differ(told, other.told[kind]):
                yield kind, "the fit"
        if self.charges.given != other.charges.given:
            yield "charge", "the ledger"
        for method, found in self.predictions.items():
            if differ(found, other.predictions[method]):
                yield "prediction", method
        if self.trace is not None and other.trace is not None:
            if (place := parting(self.trace, other.trace)) is not None:
                yield "control flow", place


def private_parts(estimator: Any) -> dict[str, PrivateEstimator]:
    """Return the estimators of this package in another one, by parameter prefix."""
    found = {"": estimator} if isinstance(estimator, PrivateEstimator) else {}
    for name, value in estimator.get_params(deep=True).items():
        if isinstance(value, PrivateEstimator):
            found[f"{name}__"] = value
    return found


def prepared(estimator: Any) -> tuple[Any, Charges]:
    """Return an unfitted copy without seeds, and the ledger of all its parts."""
    model, charges = clone(estimator), Charges()
    parts = private_parts(model)
    searches = [p for p, part in parts.items() if isinstance(part, PrivateSearchCV)]
    for prefix, part in parts.items():
        facts: dict[str, Any] = {"random_state": None, "ledger": charges}
        if any(prefix.startswith(outer) and prefix != outer for outer in searches):
            del facts["ledger"]  # a search charges for what is inside of it
        part.set_params(**facts)
    return model, charges


def performed(
    estimator: Any,
    X: Any,
    y: Any,
    fit_params: Mapping[str, Any],
    probe: Any,
    around: rehearsal.Rehearsal,
    trace: Trace | None,
) -> Outcome:
    """Fit a copy inside a rehearsal, and return all that leaves."""
    model, charges = prepared(estimator)
    error, complete, told, predictions = None, True, {}, {}
    with _heard(told):
        try:
            with rehearsal.opened(around), trace or contextlib.nullcontext():
                model.fit(X, y, **fit_params)
        except Parted:
            complete = False
        except Exception as found:
            error = found
        if complete and error is None:
            predictions = _predictions(model, probe)
    return Outcome(model, error, complete, charges, told, predictions, trace)


@contextlib.contextmanager
def _heard(told: dict[str, Any]) -> Iterator[None]:
    """Keep what is said, and leave the global generators as they were."""
    states = np.random.get_state(), random.getstate()  # noqa: NPY002
    out, err, log = io.StringIO(), io.StringIO(), _Log()
    with (
        warnings.catch_warnings(record=True) as caught,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        log.listening(),
    ):
        warnings.simplefilter("always")
        np.random.seed(0)  # noqa: NPY002
        random.seed(0)
        try:
            yield
        finally:
            told["warning"] = [(one.category, str(one.message)) for one in caught]
            told["output"] = out.getvalue(), err.getvalue()
            told["log"] = log.records
            now = np.random.get_state(), random.getstate()  # noqa: NPY002
            told["global generator"] = now
            np.random.set_state(states[0])  # noqa: NPY002
            random.setstate(states[1])


class _Log(logging.Handler):
    """A handler that keeps what every logger says, of any level.

    The compiler's debug messages, which tell of its caches, are left out.
    """

    def __init__(self) -> None:
        super().__init__(level=0)
        self.records: list[tuple[str, int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self.records.append((record.name, record.levelno, record.getMessage()))

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Listen at the root."""
        root, compiler = logging.getLogger(), logging.getLogger("numba")
        levels = root.level, compiler.level
        compiler.setLevel(compiler.level or logging.WARNING)
        root.setLevel(1)
        root.addHandler(self)
        try:
            yield
        finally:
            root.removeHandler(self)
            root.setLevel(levels[0])
            compiler.setLevel(levels[1])


def _predictions(model: Any, probe: Any) -> dict[str, Any]:
    """Return what a model says of rows that are always the same."""
    found: dict[str, Any] = {}
    for method in _METHODS:
        try:
            found[method] = getattr(model, method)(probe)
        except Exception as error:  # or there is no such method
            found[method] = type(error), str(error)
    return found


def probe_of(X: Any) -> Any:
    """Return the first rows of a table."""
    if hasattr(X, "iloc"):
        return X.iloc[:_PROBED].copy()
    return X[:_PROBED]
