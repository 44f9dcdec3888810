"""The ledger: the privacy that a data set has spent, and its remaining budget."""

from __future__ import annotations

import bisect
import collections
import contextlib
import dataclasses
import functools
import itertools
import math
import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
from scipy.optimize import brentq

from skfdp.addresses import public
from skfdp.privacy import checks
from skfdp.privacy.accounting import (
    Disclosed,
    PrivacyPlan,
    check_events,
    composed_guarantee,
    cost,
    gdp_epsilon,
    gdp_mu,
    is_listed,
    name_text,
    set_text,
)
from skfdp.privacy.entries import (
    FitPlan,
    LedgerEntry,
    Receipt,
    SearchCheck,
    dumps,
    new_entries,
    planned_search,
)
from skfdp.privacy.events import (
    INTEGER_SEED,
    ROUNDING,
    Event,
    PrivacyBudgetError,
    PrivacyWarning,
    Relation,
    check_budget,
    check_delta,
)
from skfdp.privacy.ledger_file import SCHEMA_VERSION, Store, Terms, resolved
from skfdp.privacy.report import PrivacyReport

Entries = tuple[LedgerEntry, ...]
#: The events of a charge; an entry None is a fit without privacy.
Events = tuple[Event | None, ...]
#: Types that describe the events that a fit would charge.
Chargeable = FitPlan | PrivacyPlan | Event | Iterable[Event]

# The rules by which a ledger accepts events, and the public set.


def events_of(entries: Sequence[LedgerEntry]) -> tuple[Event, ...]:
    """Return the events of ledger entries; a fit without privacy has no event."""
    return tuple(entry.event for entry in entries if entry.event is not None)


def public_set(
    terms: Terms, recorded: tuple[Event, ...]
) -> frozenset[Disclosed] | None:
    """Return the declared public set or, without one, that of the recorded events.

    If no set is declared, the first charge fixes the set: later events may not disclose
    more. If no set is declared and no event is recorded, the result is None.
    """
    if terms.public is not None:
        return frozenset(terms.public)
    return _disclosed(recorded) if recorded else None


def _check_declaration(terms: Terms, recorded: Entries) -> None:
    """Raise ValueError if the public set of recorded events is not the declared set."""
    events = events_of(recorded)
    found = _disclosed(events)
    if events and terms.public is not None and found != set(terms.public):
        raise ValueError(
            f"public={list(terms.public)!r} is declared too late, because the first "
            f"charge fixed the public set as {set_text(found)}: leave public out."
        )


def _checked_names(public: Sequence[str]) -> tuple[str, ...]:
    """Return a declared public set in its stored form: sorted and unique."""
    names: list[Any] = list(public) if is_listed(public) else [None]
    if not all(isinstance(name, str) for name in names):
        raise TypeError(
            f"public={checks.shown(public)} must be a list of names of columns and "
            "targets, such as ['age', 'sex'], or None."
        )
    found = {checks.spelling(name) for name in names}
    if "" in found:
        raise ValueError(f"public={public!r} holds an empty name: leave it out.")
    return tuple(sorted(found))


def _disclosed(events: Sequence[Event]) -> frozenset[Disclosed]:
    return frozenset(name for event in events for name in event.disclosed)


def planned(plan: Chargeable) -> Events:
    """Return the events of a plan; a plan without privacy has the single event None."""
    if isinstance(plan, FitPlan):
        return plan.events or (None,)
    if isinstance(plan, PrivacyPlan):
        plan = (*plan.other_events, plan.event)
    return check_events((plan,) if isinstance(plan, Event) else plan, "plan", least=1)


def _charged(report: PrivacyReport) -> Iterator[PrivacyReport]:
    """Yield the reports of the single fits that a composed report contains."""
    if not report.steps:
        yield report
    for _, step in report.steps:
        yield from _charged(step)


def _holds(entries: Sequence[LedgerEntry], report: PrivacyReport) -> bool:
    """Whether the ledger entries of the report's charges contain the report's events.

    The receipts of a report name its charges. The report of a whole ledger has only the
    newest receipt, which stands for all charges up to it.
    """
    charges = {receipt.charge for receipt in report.receipts}
    if report.n_fits > len(charges):
        charges = set(range(1, max(charges) + 1))
    held = [one.event for one in entries if one.charge in charges]
    return collections.Counter(report.events) <= collections.Counter(held)


# Largest number of further fits that is counted.
_MOST_FITS = 10_000


def floored(epsilon: float) -> str:
    """Format epsilon with at most four decimals, rounded down.

    A float error of up to `ROUNDING` does not lower the last decimal.
    """
    return f"{math.floor(epsilon * (1 + ROUNDING) * 1e4) / 1e4:g}"


def _fits_in(entries: Entries) -> str:
    n_charges = len({entry.charge for entry in entries})
    return f"{n_charges} charge{'s' * (n_charges != 1)}"


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class WhatIf:
    """The effect that a charge would have; see `PrivacyLedger.what_if`.

    Attributes
    ----------
    allowed : bool
        Whether the ledger would accept the charge.
    reason : str or None
        Why the charge would be refused; None if it would be accepted.
    epsilon : float or None
        The epsilon that would be spent in total after the charge, even if this is above
        the limit. None if the charge is refused for another reason than the limit.
    delta : float
        The delta at which epsilon is computed.
    remaining : float
        Result of `PrivacyLedger.remaining` after the charge; 0 if it is refused.
    n_fits : int or inf
        How many such charges in a row the ledger would accept. At most 10,000 are
        counted; infinite without a limit.
    """

    allowed: bool
    reason: str | None
    epsilon: float | None
    delta: float
    remaining: float
    n_fits: float


@public("skfdp.privacy")
class PrivacyLedger:
    """Record of all privacy spent on a data set, with a budget :term:`limit`.

    Pass the same ledger, or the same path, to every estimator and transformer that
    learns from the data set.

    Parameters
    ----------
    path : str or PathLike, default=None
        SQLite file, created if it does not exist; a warning names a new file without a
        limit. A deleted file therefore starts again with the full budget. "~", relative
        paths and symbolic links are resolved when the ledger is opened. Threads,
        processes, clones and pickles share the file. Do not use network file systems,
        whose locks are unreliable. None keeps the ledger in memory, shared by the
        threads of one process, clones and deep copies; it cannot be pickled.
    epsilon, delta : float, default=None
        The budget limit of all fits together; give both or neither. A file stores the
        limit: later openings may leave it out, but cannot change it.
    neighboring_relation : str, default=None
        The neighbouring relation of all events. None takes the relation of the first
        charge.
    public : sequence of str, default=None
        The :term:`public set`: names of the columns and targets that fits may disclose.
        Everything else is protected from all fits together. A file stores the public
        set. None takes the public columns and target of the first charge.
    dataset : str, default="default"
        Name of the data set; data sets in one file are independent.

    Notes
    -----
    **Guarantees**

    * `fit` charges all of its events, or none, before its mechanism first reads private
      values. A fit that fails afterwards stays charged. Charges are never refunded,
      changed or deleted.
    * A fit with a `checkpoint` is charged once, however often it is started.
    * A charge is refused with `PrivacyBudgetError`, and nothing is recorded, if the
      exact composition of everything recorded for the data set and of the new events
      exceeds the limit. A charge is checked and recorded in one step across threads
      and, with a path, across processes.
    * All events have one relation and one public set (`neighboring_relation`,
      `public`), which the first charge fixes if they were not declared. A fit may
      disclose the columns and targets whose names are in the public set. It may also
      treat them as private. The total epsilon holds for everything outside the public
      set (`skfdp.privacy.composed_guarantee`).
    * All events protect the same privacy unit: records, or persons (`groups` of `fit`).
      All `groups` must name the same persons.
    * Names are compared, not data. If anything is public, columns without names are
      refused. A target without a name then composes only with other targets without
      names, under the assumption that all of them are the same column. See
      :ref:`sharing`.
    * Every fit counts for all records of the data set. So fits on k folds of a
      cross-validation cost as much as k fits on all records.
    * If all releases are full batches, the budget of a fit may be chosen after looking
      at earlier results, because there is a privacy filter for Gaussian differential
      privacy (Smith and Thakurta 2022). With Poisson batches the composition is proved
      only for budgets that do not depend on earlier results.
    * A file has a hash chain of all charges, limits and public sets. Its newest hash is
      called the head. A handle (an object of this class), its pickles, and the reports
      of fits charged to the file keep the newest head that they saw. A handle refuses a
      file that was edited, replaced by another ledger, or restored from a copy without
      that head, even if new charges were made since. `check_report` makes the same
      check for a report. A new handle alone does not notice a restored copy. The chain
      has no key: it detects accidents, but not attackers, who can write a new chain.
    * A file that is empty, truncated or damaged is refused and never becomes a new
      ledger. A new file is refused if parts of a missing ledger remain next to it.
    * Entries record the day and no finer time, because a finer time would reveal how
      long fits ran, which may depend on private values. The times of the file system
      (when the file was last changed) may still reveal it.
    * Only charges are counted. Estimators without this ledger, preprocessing that
      learns from data, and scores on training data are not counted.
    * Fits with an integer `random_state` are charged and marked as seeded; their
      epsilon is not a guarantee.

    References
    ----------
    A. Smith and A. Thakurta (2022), Fully adaptive composition for Gaussian
    differential privacy, https://arxiv.org/abs/2210.17520.

    Examples
    --------
    >>> from skfdp import PrivacyLedger
    >>> from skfdp.privacy import calibrate
    >>> ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
    >>> plan = calibrate(0.6, 1e-5, n_steps=100)
    >>> receipt = ledger.charge([plan.event], label="first fit")
    >>> print(ledger)
    Privacy ledger in memory, data set 'default'
    Limit:     epsilon 1 at delta 1e-05
    Spent:     epsilon 0.6 at delta 1e-05, 1 charge
    Remaining: epsilon 0.7605 for one more fit, or 1 more like the last one (first fit)
    >>> ledger.what_if(plan).n_fits
    1
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        neighboring_relation: str | None = None,
        public: Sequence[str] | None = None,
        dataset: str = "default",
    ) -> None:
        if (epsilon is None) != (delta is None):
            raise ValueError(
                f"epsilon={epsilon!r} and delta={delta!r} must be given together as a "
                "limit: give both, or neither."
            )
        if epsilon is not None and delta is not None:
            check_budget(epsilon, delta)
            expected = "at most 1e12 as a limit: 1.0 is a usual choice"
            epsilon = checks.number("epsilon", epsilon, expected, 0, 1e12)
            delta = float(delta)
        if neighboring_relation is not None:
            Relation(neighboring_relation)  # raises ValueError for other names
        self._dataset = checks.text("dataset", dataset)
        terms = Terms(
            epsilon=epsilon,
            delta=delta,
            neighboring_relation=neighboring_relation,
            public=None if public is None else _checked_names(public),
        )
        self._store = Store(path, dataset)
        if self._store.open(terms, _check_declaration) and epsilon is None:
            checks.warn_caller(
                f"{self.path!r} is a new ledger without a limit, in which no earlier "
                "fit counts: pass its full path if these data have a ledger elsewhere, "
                "or set a limit, PrivacyLedger(path, epsilon=..., delta=...).",
                PrivacyWarning,
            )

    @classmethod
    def resolve(cls, value: Any) -> PrivacyLedger | None:
        """Return the ledger for the `ledger` parameter of an estimator.

        Parameters
        ----------
        value : None, str, PathLike or PrivacyLedger
            A path opens data set "default" of that file.
        """
        if not isinstance(value, cls | str | os.PathLike | None):
            raise TypeError(
                f"ledger={checks.shown(value)} must be None, a path or a "
                f"PrivacyLedger, got {type(value).__name__}."
            )
        return cls(value) if isinstance(value, str | os.PathLike) else value

    @classmethod
    def open_all(cls, path: str | os.PathLike[str]) -> list[PrivacyLedger]:
        """Return a handle for each data set of an existing file; write nothing."""
        found = []
        for name in Store(path, "").datasets():
            found.append(object.__new__(cls))
            found[-1]._store, found[-1]._dataset = Store(path, name), name
        return found

    def charge(
        self,
        events: Iterable[Event],
        *,
        label: str | None = None,
        name: str | None = None,
    ) -> Receipt:
        """Record all events of a fit, or refuse and record none.

        This method must be called before the fit makes any release.

        Parameters
        ----------
        events : sequence of Event
            All releases of the fit.
        label : str, default=None
            A description of the fit, for people.
        name : str, default=None
            A random name; a charge of this name is made only once.

        Returns
        -------
        receipt : Receipt
            Proof of the charge, for the report of the fit.

        Raises
        ------
        PrivacyBudgetError
            If the limit would be exceeded, or if the events do not compose with those
            recorded.
        OSError, ValueError
            If the file is locked, read-only, missing, corrupt or of another schema;
            nothing is charged then.
        """
        events = check_events(events, least=1)
        check = functools.partial(self._check, events=events)
        # Compose the events before taking the lock, to fill the cache. The check under
        # the lock decides. It finds epsilon in the cache, unless another process made a
        # charge in the meantime.
        with contextlib.suppress(PrivacyBudgetError):
            check(*self._store.read())
        entries = new_entries(events, label)
        return self._receipt(*self._store.append(entries, check, name))

    def _receipt(self, charge: int, head: str) -> Receipt:
        """Return the receipt of a charge, with what the ledger had spent until then."""
        terms, recorded = self._store.read()
        until = tuple(one for one in recorded if one.charge <= charge)
        found: dict[str, Any] = {"limit": terms.epsilon, "delta": terms.delta}
        if terms.delta is not None:
            found["spent"] = self._total(until, (), terms.delta)
            # The search for the remaining epsilon is slow without a closed form.
            if all(event.mu is not None for event in events_of(until)):
                found["left"] = self._left(terms, until, (), terms.delta)
        date, identity = until[-1].date if until else None, str(self._store.identity)
        return Receipt(ledger=identity, charge=charge, head=head, date=date, **found)

    def charge_nonprivate(self, *, label: str | None = None) -> Receipt:
        """Record a fit without privacy (epsilon=inf); a ledger with a limit refuses it.

        Afterwards `spent` is infinite.
        """
        check = functools.partial(self._check, events=(None,))
        return self._receipt(*self._store.append(new_entries([None], label), check))

    def what_if(
        self, plan: Chargeable | None = None, *, delta: float | None = None
    ) -> WhatIf:
        """Return the effect of charging a plan, without charging it.

        Parameters
        ----------
        plan : FitPlan, PrivacyPlan, Event or sequence of Event, default=None
            The result of ``estimator.plan(X, y)``, or events. A `PrivacyPlan` includes
            its `other_events`. None means a fit like the last charge.
        delta : float, default=None
            None takes the delta of the limit or, without a limit, the delta of a
            `FitPlan`.

        Returns
        -------
        answer : WhatIf
            Valid until the next charge, which another process may make at any time.

        Examples
        --------
        >>> import numpy as np
        >>> from skfdp import DPSGDFClassifier, PrivacyLedger
        >>> ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
        >>> model = DPSGDFClassifier(epsilon=0.3, bounds=(0, 1), classes=[0, 1])
        >>> plan = model.plan(np.zeros((1000, 3)))
        >>> answer = ledger.what_if(plan)
        >>> answer.allowed, round(answer.epsilon, 3), answer.n_fits
        (True, 0.3, 9)
        """
        terms, recorded = self._store.read()
        if plan is None and not recorded:
            raise ValueError("plan=None needs an earlier charge: pass a plan.")
        own = plan.delta if isinstance(plan, FitPlan) else None
        delta = own if delta is None and terms.delta is None else delta
        delta = self._delta(terms, delta)
        last = [one.event for one in recorded if one.charge == recorded[-1].charge]
        events = tuple(last) if plan is None else planned(plan)
        reason, epsilon, left, n_fits = None, None, 0.0, 0.0
        try:
            self._admit(terms, recorded, events)
            epsilon = self._total(recorded, events, delta)
            self._check(terms, recorded, events)
            left, n_fits = self._left(terms, recorded, events, delta), math.inf
            if terms.epsilon is not None:
                n_fits = self._admitted(terms, recorded, events, _MOST_FITS)
        except PrivacyBudgetError as error:
            reason = str(error)
        given: Any = {"reason": reason, "epsilon": epsilon, "delta": delta}
        return WhatIf(allowed=reason is None, **given, remaining=left, n_fits=n_fits)

    def check_search(
        self, search: Any, X: Any, y: Any = None, **of_rows: Any
    ) -> SearchCheck:
        """Return how many fits a search makes, and how many of them the ledger allows.

        Nothing is fitted, released or charged: the search runs with a stand-in
        estimator that only plans.

        Parameters
        ----------
        search : GridSearchCV, RandomizedSearchCV, HalvingGridSearchCV, ...
            A search whose estimator has this ledger.
        X, y, **of_rows
            As for `fit` of the search. Only the splitter and the estimator's `plan`
            read their values.

        Returns
        -------
        found : SearchCheck

        Raises
        ------
        ValueError
            If the estimator has no ledger, or another ledger than this one.

        Notes
        -----
        The fits are counted in the order of ``n_jobs=1``. The refit is planned with the
        candidate of the largest epsilon. The estimator may be the last step of a
        Pipeline in which no other step learns from X. Random candidates and random
        folds differ between runs unless their `random_state` is fixed, but their number
        is the same.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.model_selection import GridSearchCV, KFold
        >>> from skfdp import DPSGDFClassifier, PrivacyLedger
        >>> ledger = PrivacyLedger(epsilon=3.0, delta=1e-5)
        >>> model = DPSGDFClassifier(bounds=(0, 1), classes=[0, 1], ledger=ledger)
        >>> search = GridSearchCV(model, {"C": [0.1, 1.0, 10.0]}, cv=KFold(3))
        >>> ledger.check_search(search, np.zeros((600, 2)), np.zeros(600))
        10 fits (3 candidates x 3 folds + 1 refit), whose scores epsilon does not cover;
        the ledger allows 7, not the refit
        """
        found, plans = planned_search(search, X, y, of_rows, self._check_same)
        if found.reason is not None:
            return found
        terms, recorded = self._store.read()
        n_allowed, last, reason = 0, False, None
        for plan, same in itertools.groupby(plans):
            n_fits, events = len([*same]), planned(plan)
            n_more = self._admitted(terms, recorded, events, n_fits)
            recorded += new_entries(events, None) * n_more
            n_allowed, last = n_allowed + n_more, n_more == n_fits
            if not last and reason is None:
                reason = self._refusal(terms, recorded, events)
        return dataclasses.replace(
            found,
            n_allowed=n_allowed,
            allows_refit=last and bool(search.refit),
            reason=reason,
        )

    def _check_same(self, ledger: Any) -> None:
        """Raise ValueError unless an estimator's `ledger` is this one."""
        if ledger is None:
            raise ValueError(
                "the estimator of this search has no ledger, so that its fits are not "
                "charged: pass ledger= to the estimator."
            )
        given = getattr(ledger, "_address", None) or (resolved(ledger), "default")
        if given != self._address:
            raise ValueError(
                "the estimator of this search has another ledger or data set than "
                f"{self!r}: pass this ledger to the estimator."
            )

    def _admitted(
        self, terms: Terms, recorded: Entries, events: Events, most: int
    ) -> int:
        """Return how many times in a row the events can be charged, at most `most`."""

        def refused(times: int) -> bool:
            return self._refusal(terms, recorded, events * times) is not None

        high = 1
        while high <= most and not refused(high):
            high *= 2
        tried = range(min(high, most + 1))
        return bisect.bisect_left(tried, True, lo=high // 2 + 1, key=refused) - 1

    def _refusal(self, terms: Terms, recorded: Entries, events: Events) -> str | None:
        try:
            self._check(terms, recorded, events)
        except PrivacyBudgetError as error:
            return str(error)
        return None

    def _check(self, terms: Terms, recorded: Entries, events: Events) -> None:
        """Raise PrivacyBudgetError unless these events may be charged next."""
        self._admit(terms, recorded, events)
        if terms.epsilon is None or terms.delta is None:
            return
        total = self._total(recorded, events, terms.delta)
        if total > terms.epsilon * (1 + ROUNDING):
            left = floored(self._left(terms, recorded, (), terms.delta))
            raise PrivacyBudgetError(
                f"budget exhausted: data set {self._dataset!r} would spend epsilon "
                f"{total:.6g} at delta {terms.delta!r}, above its limit epsilon "
                f"{terms.epsilon!r}; nothing was charged. One more fit may cost "
                f"epsilon {left}: see ledger.remaining() and "
                "ledger.what_if(model.plan(X, y))."
            )

    def _left(
        self, terms: Terms, recorded: Entries, events: Events, delta: float
    ) -> float:
        """Return the largest epsilon that one more full-batch release may cost.

        The release is composed with the recorded events and the new `events`, at the
        delta of the limit. `delta` is the delta of the returned epsilon.
        """
        if terms.epsilon is None or terms.delta is None:
            return math.inf
        limit, at = terms.epsilon, terms.delta
        before = [one for one in (*events_of(recorded), *events) if one is not None]
        # The new release must agree with the recorded events in these fields.
        agree = ("neighboring_relation", "unit")
        facts = {name: getattr(one, name) for one in before[:1] for name in agree}

        def excess(mu: float) -> float:
            noise = (1 / mu,)
            more = Event(label="", noise_std=noise, clip_norm=1, sensitivity=1, **facts)
            return self._total(recorded, (*events, more), at) - limit

        high = 2 * gdp_mu(limit, at)
        low = 1e-9 * high
        if self._total(recorded, events, at) >= limit or excess(low) >= 0:
            return 0.0
        mu, step = brentq(excess, low, high, xtol=1e-12), 1e-12
        while excess(mu) > 0:  # round mu down, to stay within the limit
            mu, step = mu * (1 - step), 2 * step
        return gdp_epsilon(delta, mu)

    def _admit(self, terms: Terms, recorded: Entries, events: Events) -> None:
        """Raise PrivacyBudgetError unless the events compose with the recorded ones."""
        private = tuple(event for event in events if event is not None)
        if not private:  # fits without privacy compose; their epsilon is infinite
            return
        before = events_of(recorded)
        public = public_set(terms, before)
        try:
            for own in {event.neighboring_relation for event in private}:
                if terms.neighboring_relation not in (None, own):
                    raise PrivacyBudgetError(
                        f"neighboring_relation={own!r} differs from "
                        f"{terms.neighboring_relation!r}, the relation of this ledger: "
                        f"fit under {terms.neighboring_relation!r}."
                    )
            unnamed = any("columns" in event.unnamed for event in private)
            if unnamed and (public or _disclosed(private)):
                raise PrivacyBudgetError(
                    "the columns of X have no names, which are needed to compare them "
                    "with the public set: pass a DataFrame (after other steps of a "
                    "Pipeline: set_output(transform='pandas'))."
                )
            composed_guarantee([*dict.fromkeys(before + private)], public)
        except PrivacyBudgetError as error:
            raise PrivacyBudgetError(
                f"data set {self._dataset!r} refuses the charge, nothing was charged: "
                f"{error}"
            ) from None

    @staticmethod
    def _total(recorded: Entries, events: Events, delta: float) -> float:
        """Return the epsilon of recorded and new events; None is without privacy."""
        every = (*(entry.event for entry in recorded), *events)
        private = tuple([event for event in every if event is not None])
        if len(private) < len(every):
            return math.inf
        return cost(private, float(delta)).epsilon

    @staticmethod
    def _delta(terms: Terms, delta: float | None) -> float:
        delta = terms.delta if delta is None else delta
        if delta is None:
            raise ValueError(
                "delta=None needs a ledger with a limit: pass delta=1e-5, for example."
            )
        return check_delta(delta)

    def spent(self, delta: float | None = None) -> float:
        """Return the epsilon spent so far at delta.

        It is infinite after a fit without privacy.

        Parameters
        ----------
        delta : float, default=None
            None takes the delta of the limit.
        """
        terms, entries = self._store.read()
        return self._total(entries, (), self._delta(terms, delta)) if entries else 0.0

    def remaining(self, delta: float | None = None) -> float:
        """Return the largest epsilon that one more fit may cost (infinite if no limit).

        The number is exact for a fit with full batches. For fits with Poisson batches,
        whose costs compose differently, use `what_if`.

        Parameters
        ----------
        delta : float, default=None
            Delta of the further fit. None takes the delta of the limit.
        """
        terms, entries = self._store.read()
        if terms.epsilon is None:
            return math.inf
        return self._left(terms, entries, (), self._delta(terms, delta))

    def to_json(self) -> str:
        """Return all entries of the data set as JSON, losslessly."""
        terms, entries = self._store.read()
        values = {
            "schema": "skfdp-privacy-ledger",
            "schema_version": SCHEMA_VERSION,
            "dataset": self._dataset,
            **dataclasses.asdict(terms),
            "entries": entries,
        }
        return dumps(values, indent=2)

    @property
    def receipt(self) -> Receipt | None:
        """Receipt of the newest charge that this handle saw, None without a charge."""
        newest = self._store.newest
        return self._receipt(*newest) if newest is not None and newest[0] else None

    def check_report(self, report: PrivacyReport) -> None:
        """Raise ValueError unless the ledger holds the charges of a report.

        The report of a fit keeps the random receipt of its charge, also after
        `to_json`, `read_report` and pickling. The receipt contains the hash at that
        charge in the ledger's hash chain. An older copy of the ledger file does not
        contain this hash, even after further charges.

        Parameters
        ----------
        report : PrivacyReport
            The report of a fit charged to this ledger, of a Pipeline of such fits, or
            ``report(ledger)``.

        Raises
        ------
        ValueError
            If the report has no receipt, because its fit had no ledger; if the fit was
            charged to another ledger; if the file lacks this charge or an earlier
            charge; if the data set does not hold the events of the report; or if its
            spending, limit or day differs. A ledger has no other field of a report.
        """
        if not isinstance(report, PrivacyReport):
            raise TypeError(
                f"report must be a PrivacyReport, got {type(report).__name__}: pass "
                "model.privacy_, or what read_report returns."
            )
        parts = [*_charged(report)]
        if not report.receipts or not all(part.receipts for part in parts):
            raise ValueError(
                f"report of {report.subject!r} cannot be compared with "
                f"{self._store.name}, because a fit in the report has no receipt of a "
                "charge: fit it with this ledger."
            )
        receipts = {one for part in (report, *parts) for one in part.receipts}
        _, entries = self._store.read(receipts)
        if not all(_holds(entries, part) for part in parts):
            raise ValueError(
                f"data set {self._dataset!r} of {self._store.name} does not hold all "
                f"events of the report of {report.subject!r}: check the report against "
                "the data set that it was charged to."
            )
        for one in receipts:
            ours = self._receipt(one.charge, one.head)
            told = [[own.spent, own.left, own.limit] for own in (one, ours)]
            same = np.allclose(*np.array(told, dtype=float), equal_nan=True)
            if one.limit is not None and not (same and one.date == ours.date):
                raise ValueError(
                    f"the report of {report.subject!r} states other figures of charge "
                    f"{one.charge} than {self._store.name}: ask for the original."
                )

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """All entries of the data set, oldest first."""
        return self._store.read()[1]

    @property
    def events(self) -> tuple[Event, ...]:
        """All events of the data set, oldest first; fits without privacy have none."""
        return events_of(self.entries)

    @property
    def path(self) -> str | None:
        """Absolute path of the file, None in memory."""
        return None if self._store.path is None else str(self._store.path)

    @property
    def dataset(self) -> str:
        """Name of the data set."""
        return self._dataset

    @property
    def epsilon(self) -> float | None:
        """Epsilon of the limit, None without a limit."""
        return self._store.read()[0].epsilon

    @property
    def delta(self) -> float | None:
        """Delta of the limit, None without a limit."""
        return self._store.read()[0].delta

    @property
    def neighboring_relation(self) -> str | None:
        """Neighbouring relation of the ledger, None until it is fixed."""
        return self._store.read()[0].neighboring_relation

    @property
    def public(self) -> tuple[Disclosed, ...] | None:
        """The public set, sorted; None until it is fixed.

        It contains names of columns and targets, and None for a target without a name.
        """
        terms, entries = self._store.read()
        public = public_set(terms, events_of(entries))
        return None if public is None else tuple(sorted(public, key=name_text))

    @property
    def _address(self) -> tuple[Any, str]:
        """Key that is equal for all handles of the same data set."""
        return self._store.path or self._store, self._dataset

    def __str__(self) -> str:
        terms, entries = self._store.read()
        limit = "none: this ledger counts all fits and refuses none for its cost"
        spent = f"{_fits_in(entries)}; spent(delta=...) returns epsilon"
        left = "unlimited"
        if terms.epsilon is not None:
            at = f" at delta {terms.delta:g}"
            spent = f"epsilon {self.spent():.4g}{at}, {_fits_in(entries)}"
            limit = f"epsilon {terms.epsilon:g}{at}"
            left = f"epsilon {floored(self.remaining())} for one more fit"
            if entries:
                last = f" ({label})" if (label := entries[-1].label) else ""
                left += f", or {self.what_if().n_fits} more like the last one{last}"
        return (
            f"Privacy ledger {self.path or 'in memory'}, data set {self._dataset!r}"
            f"\nLimit:     {limit}"
            f"\nSpent:     {spent}"
            f"\nRemaining: {left}"
            + f"\nVoid:      {INTEGER_SEED}"
            * any(event.seeded for event in events_of(entries))
        )

    def __repr__(self) -> str:
        return f"<PrivacyLedger path={self.path!r}, dataset={self._dataset!r}>"

    # A copy of a ledger is the ledger itself: a real copy would have a fresh budget.
    def __deepcopy__(self, memo: dict | None = None) -> PrivacyLedger:
        return self

    __copy__ = __sklearn_clone__ = __deepcopy__

    def __getstate__(self) -> dict[str, Any] | NoReturn:
        if self._store.path is None:
            raise pickle.PicklingError(
                "ledger=PrivacyLedger() is in memory and cannot be pickled, because "
                "the copy would not see later charges: use PrivacyLedger(path)."
            )
        return {
            "path": self.path,
            "dataset": self._dataset,
            "identity": self._store.identity,
            "newest": self._store.newest,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Do not open the file: a model must load where the file is not accessible.
        self._dataset = state["dataset"]
        self._store = Store(
            *(state[name] for name in ("path", "dataset", "identity", "newest"))
        )
