"""Entries and receipts of a ledger, and plans of fits and of searches."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import datetime
import functools
import importlib.metadata
import json
import math
import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from skfdp._version import __version__
from skfdp.addresses import public
from skfdp.privacy import checks
from skfdp.privacy.accounting import cost
from skfdp.privacy.events import Assumption, Event, delta_text, exceeds_advice


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Receipt:
    """Receipt of a charge: proof that a ledger recorded the events of a fit.

    A receipt is random, even if the fit has an integer seed.

    Attributes
    ----------
    ledger : str
        Random identity that the ledger got when it was created.
    charge : int
        Number of the charge. A ledger file numbers the charges of all its data sets
        consecutively.
    head : str
        Newest hash of the ledger's hash chain at this charge. It depends on everything
        recorded until then. It reveals nothing about the entries, because every charge
        adds a random nonce.
    date : str or None
        The day of the charge, in UTC. None if the charge was to another data set.
    spent, left, limit, delta : float or None
        Epsilon spent on the data set after this charge, what one more fit might then
        cost, and the limit, all at the delta of the limit. None without a limit; `left`
        is also None after Poisson batches, for which its computation is slow.
    """

    ledger: str
    charge: int
    head: str
    date: str | None = None
    spent: float | None = None
    left: float | None = None
    limit: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        checks.count("charge", self.charge)


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """One event recorded in a ledger; all fields are public facts.

    Attributes
    ----------
    charge : int
        Number of the call that recorded the event; the events of one fit share it.
    date : str
        The day, in UTC, ISO 8601 ("2026-01-31"). A finer time would reveal how long a
        fit ran, which may depend on private values.
    label : str or None
        A description of the fit, for people.
    event : Event or None
        None records a fit without privacy.
    versions : dict
        Package versions on that day.
    """

    charge: int = 0
    date: str
    label: str | None
    event: Event | None
    versions: dict[str, str]

    def __post_init__(self) -> None:
        checks.count("charge", self.charge, 0)
        if self.label is not None:
            checks.text("label", self.label)
        # Refuse a finer time, even if it comes from a file.
        try:
            datetime.date.fromisoformat(self.date)
        except (TypeError, ValueError):
            raise ValueError(
                f"date={checks.shown(self.date)} must be a day in ISO 8601, such as "
                "'2026-01-31'."
            ) from None

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as JSON-able values, in the order of its fields."""
        event = None if self.event is None else self.event.to_dict()
        return vars(self) | {"event": event}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LedgerEntry:
        """Rebuild an entry from the dict of `to_dict`, or raise ValueError."""
        return checks.record(cls, values)


@functools.cache
def package_versions() -> Mapping[str, str]:
    """Return the versions of the packages that a guarantee depends on."""
    names = ("dp-accounting", "numpy", "randomgen", "scikit-learn", "scipy")
    found = {"skfdp": __version__, "python": platform.python_version()}
    for name in names:
        # A vendored or frozen package may have no metadata.
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def new_entries(
    events: Sequence[Event | None], label: str | None
) -> tuple[LedgerEntry, ...]:
    """Return the entries of one charge, dated today."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return tuple(
        LedgerEntry(
            date=today, label=label, event=event, versions=dict(package_versions())
        )
        for event in events
    )


def dumps(values: Any, indent: int | None = None) -> str:
    """Return values as strict JSON text.

    NumPy scalars, dataclasses and objects with a `to_dict` method are supported.
    """
    return json.dumps(
        values, allow_nan=False, ensure_ascii=False, default=_as_json, indent=indent
    )


def json_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dict of JSON values; infinite numbers are the string "inf"."""
    known = {n: "inf" if value == math.inf else value for n, value in values.items()}
    return json.loads(dumps(known))


def _as_json(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    return value.to_dict() if hasattr(value, "to_dict") else dataclasses.asdict(value)


# The plan of a fit: all of its releases, and their cost.


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class FitPlan:
    """Releases and cost of a planned fit; the result of ``estimator.plan(X, y)``.

    Making a plan releases and charges nothing. A plan depends on public facts only, and
    not on any private value. `PrivacyLedger.what_if` returns the effect that charging
    the plan would have.

    Attributes
    ----------
    subject : str
        Name of the estimator.
    events : tuple of Event
        All events that the fit would charge; empty for ``epsilon=inf``.
    delta : float
        The delta at which `epsilon` is computed.
    target_epsilon : float
        The budget of the estimator.
    n_records : int
        Number of records, or of persons if persons are protected. If the number is
        private, the declared nominal number.
    assumptions : tuple of Assumption
        Assumptions of the guarantee that do not follow from the events.
    expected_gap : tuple of float or None
        Quartiles of the predictive power that similar fits lost to the noise; see
        `skfdp.metrics.expected_gap`. None if no similar fit was measured.

    Examples
    --------
    >>> import numpy as np
    >>> from skfdp import DPSGDFClassifier
    >>> model = DPSGDFClassifier(epsilon=0.5, bounds=(0, 1), classes=["no", "yes"])
    >>> private = np.full((1000, 3), np.nan)  # only its shape is read
    >>> plan = model.plan(private)
    >>> plan
    Plan of DPSGDFClassifier: epsilon 0.5 at delta 1e-05, for each of 1000 records
    (replace_one)
      class counts x 1: noise 49.5, sensitivity 1.414
      row length x 1: noise 198.9, sensitivity 2
      mean x 1: noise 70.32, sensitivity 1.414
      temperature x 1: noise 70.32, sensitivity 2.828
      descent x 80: noise 46.85 to 242.3, sensitivity 0.9061
      share of predictive power that such fits lost to the noise: about 25 %
    (quartiles 15 and 35 %)
    >>> round(plan.mu, 3)
    0.142
    """

    subject: str
    events: tuple[Event, ...]
    delta: float
    target_epsilon: float
    n_records: int
    assumptions: tuple[Assumption, ...] = ()
    expected_gap: tuple[float, float, float] | None = None

    @property
    def epsilon(self) -> float:
        """The epsilon of the exact composition of all events at `delta`."""
        return cost(self.events, self.delta).epsilon if self.events else math.inf

    @property
    def mu(self) -> float | None:
        """Gaussian-DP parameter of the composition, None if it is not Gaussian."""
        return cost(self.events, self.delta).mu if self.events else None

    def to_dict(self) -> dict[str, Any]:
        """Return strictly JSON-able values; infinite numbers are the string "inf"."""
        names = (
            *("subject", "epsilon", "delta", "target_epsilon", "n_records", "mu"),
            *("events", "assumptions", "expected_gap"),
        )
        return json_values({name: getattr(self, name) for name in names})

    def __repr__(self) -> str:
        cost = f"Plan of {self.subject}: epsilon {self.epsilon:.6g}"
        if not self.events:
            return f"{cost}, without privacy"
        first = self.events[0]
        whom = "all rows of each of" if first.unit == "person" else "each of"
        lines = [
            f"{cost} at delta {self.delta:g}, for {whom} {self.n_records} "
            f"{first.unit}s ({first.neighboring_relation})"
        ]
        if exceeds_advice(self.delta, self.n_records):
            lines.append(f"  {delta_text(self.delta, self.n_records, first.unit)}")
        lines += [f"  {event}" for event in self.events]
        if self.expected_gap is not None:
            low, median, high = (f"{100 * share:.0f}" for share in self.expected_gap)
            lines.append(
                "  share of predictive power that such fits lost to the noise: about "
                f"{median} % (quartiles {low} and {high} %)"
            )
        return "\n".join(lines)


# The plans of all fits of a scikit-learn search, made by a stand-in estimator.


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class SearchCheck:
    """Number of fits of a search that a ledger allows; the result of `check_search`.

    Attributes
    ----------
    n_candidates, n_folds : int
    n_fits : int
        Number of all fits, including the refit.
    n_allowed : int or None
        Number of fits that the ledger allows; None if a fit cannot be planned.
    allows_refit : bool
        Whether the ledger allows the refit; False if the search makes no refit.
    reason : str or None
        Why the ledger refuses the first fit that it does not allow, or why a fit cannot
        be planned. None if the ledger allows all fits.
    """

    n_candidates: int
    n_folds: int
    n_fits: int
    n_allowed: int | None
    allows_refit: bool
    reason: str | None

    def __repr__(self) -> str:
        refits = self.n_fits > self.n_candidates * self.n_folds
        refit = ", not the refit" * (refits and not self.allows_refit)
        found = f"the ledger allows {self.n_allowed}{refit}"
        if self.n_allowed == self.n_fits:
            found = "the ledger allows all of them"
        if self.n_allowed is None:
            found = f"how many the ledger allows is unknown: {self.reason}"
        return (
            f"{self.n_fits} fits ({self.n_candidates} candidates x {self.n_folds} folds"
            f"{' + 1 refit' * refits}), whose scores epsilon does not cover; {found}"
        )


def planned_search(
    search: Any,
    X: Any,
    y: Any,
    of_rows: Mapping[str, Any],
    check: Callable[[Any], None],
) -> tuple[SearchCheck, list[FitPlan]]:
    """Return the number of fits of a search, and the plans of these fits in order.

    `of_rows` holds further arguments of ``search.fit``. ``check(ledger)`` raises unless
    the estimator has the right ledger. In the returned `SearchCheck`, `n_allowed` is
    still None. If a fit cannot be planned, `reason` says why, and the list has no plan
    of this fit.
    """
    given = search.get_params(deep=False) if hasattr(search, "get_params") else {}
    if not given.keys() >= {"estimator", "cv", "refit", "scoring", "error_score"}:
        raise TypeError(
            f"search={checks.shown(search)} must be a search of scikit-learn, such as "
            "GridSearchCV."
        )
    # The planning search gets copies of the random states, so that the user's random
    # states do not advance. It has no callbacks.
    given = copy.deepcopy(given)
    plans: list[FitPlan | str] = []
    run = type(search)(
        **given
        | {
            "estimator": _Planner(given["estimator"], check, plans),
            # By epsilon: the refit then uses the most expensive candidate.
            "scoring": lambda model, *_: (
                -1 / getattr(model._plans[-1], "target_epsilon", math.inf)
            ),
            "refit": bool(given["refit"]),
            "error_score": "raise",
            "n_jobs": 1,
            "verbose": 0,
        }
    ).fit(X, y, **of_rows)
    found = SearchCheck(
        n_candidates=len(run.cv_results_["params"]),
        n_folds=run.n_splits_,
        n_fits=len(plans),
        n_allowed=None,
        allows_refit=False,
        reason=next((plan for plan in plans if isinstance(plan, str)), None),
    )
    return found, [plan for plan in plans if isinstance(plan, FitPlan)]


class _Planner:
    """Stand-in for the estimator of a search, whose `fit` only stores its plan."""

    def __init__(
        self, estimator: Any, check: Callable[[Any], None], plans: list[FitPlan | str]
    ) -> None:
        self._estimator, self._check, self._plans = estimator, check, plans

    def __getattr__(self, name: str) -> Any:
        return getattr(self._estimator, name)  # its parameters, tags and routing

    def __sklearn_clone__(self) -> _Planner:
        return _Planner(copy.deepcopy(self._estimator), self._check, self._plans)

    def set_params(self, **params: Any) -> _Planner:
        """Set parameters of the estimator."""
        self._estimator.set_params(**params)
        return self

    def fit(self, X: Any, y: Any = None, **of_rows: Any) -> _Planner:
        """Store the plan of this fit."""
        params = self._estimator.get_params()
        for name in [name for name in params if name.endswith("ledger")] or [None]:
            self._check(params.get(name))
        self._plans.append(_plan(self._estimator, X, y, of_rows))
        return self


def _plan(model: Any, X: Any, y: Any, of_rows: dict[str, Any]) -> FitPlan | str:
    """Return the plan of an estimator or Pipeline, or the reason why it has none."""
    *before, (last, model) = getattr(model, "steps", [("", model)])
    for name, step in before:
        if step is None or isinstance(step, str):  # "passthrough"
            continue
        if step.__sklearn_tags__().requires_fit:
            kind = type(step).__name__
            return f"step {name!r} ({kind}) learns from X, which cannot be planned"
        X = step.transform(X)
    if not hasattr(model, "plan"):
        return f"{type(model).__name__} has no plan method"
    of_rows = {n.removeprefix(f"{last}__"): value for n, value in of_rows.items()}
    return model.plan(X, y, **of_rows)
