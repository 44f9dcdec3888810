"""``fit``, once: check, prepare, plan, charge, run, publish, report."""

from __future__ import annotations

import contextlib
import copy
import functools
import math
from collections.abc import Callable
from typing import Any

from joblib import effective_n_jobs

from skfdp.estimators.bounds.first import BoundsFirst, told_of_released
from skfdp.estimators.callbacks import CallbackSupportMixin, with_callbacks
from skfdp.estimators.method import Budget, Method, OnStep, Plan
from skfdp.estimators.parameters import (
    ASSUMPTIONS,
    REFUSES,
    check_privacy_parameters,
    forget,
    parameters_of,
    warn_of_large,
)
from skfdp.estimators.partitions import reading
from skfdp.estimators.resuming import (
    charged,
    check_checkpoint,
    journal_of,
    promise_of,
)
from skfdp.estimators.tables import TableEstimator, check_encoder
from skfdp.privacy.assumptions import (
    CATEGORIES_OF_TYPES,
    ONE_STEP,
    ORDER_IS_PUBLIC,
    SAME_PARTITIONS,
    WEIGHTS_ARE_PUBLIC,
    Assumption,
)
from skfdp.privacy.fit_plan import FitPlan
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.relations import Relation
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.store import Receipt
from skfdp.records.guards import guarded_fit, users_state, without_traps
from skfdp.records.names import name_facts
from skfdp.records.records import PublicRecords, Records
from skfdp.releases import rehearsal
from skfdp.releases.descent import check_weights
from skfdp.releases.desk import Desk
from skfdp.releases.journal import Journal
from skfdp.releases.noise import Streams, warn_of_seed

_TYPES = Assumption(CATEGORIES_OF_TYPES, enforced=False)
_ONE_STEP = Assumption(ONE_STEP, enforced=False)
_SAME_PARTITIONS = Assumption(SAME_PARTITIONS, enforced=False)


class PrivateEstimator(CallbackSupportMixin, TableEstimator):
    """Base of every estimator: how a table becomes a model, and what is charged.

    An estimator gives the parts: its parameters, what it makes of a target
    (`_target`), the method that fits (`_method`), and the attributes that it publishes
    (`_attributes`).
    """

    #: Fitted attributes that are released; a fit is known by the first.
    _released: tuple[str, ...] = ()
    #: Those that must be finite.
    _weights: tuple[str, ...] = ()
    _has_loop = False
    #: Whether it may be a step of a Pipeline, of which its own report knows nothing.
    _may_be_a_step = True
    #: Whether every release of a fit is charged, so that it may leave a checkpoint.
    _can_resume = True

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a fit came to its end."""
        return hasattr(self, self._released[0])

    @with_callbacks
    @guarded_fit
    def fit(self, X, y=None, *, checkpoint=None):
        """Fit to X and y within the budget, charging the ledger first.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Each record once. Values outside `bounds` and rows longer than
            `feature_bound` are clipped, silently; malformed private ones do what
            `on_invalid` says. The linear estimators take sparse rows too (held as CSR,
            never filled in; `bounds` then need low 0).
        y : array-like of shape (n_samples,), default=None
            Labels of any type; for regressors numbers; transformers ignore it.
        checkpoint : str or PathLike, default=None
            File that keeps what is released, so that a fit that was stopped goes on: by
            the same call, for the one charge. Remove it when the model is saved. See
            :ref:`resuming`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            For bad parameters, malformed public values, wrong types and shapes, or the
            checkpoint of another fit; nothing is charged, no datum is quoted.
        PrivacyBudgetError
            If the ledger's ceiling would be passed, or its fit has gone on from a copy
            of the checkpoint; nothing is charged or trained.
        """
        return self._fit(X, y, checkpoint)

    def _fit(self, X, y, checkpoint=None, **of_rows: Any):
        """Fit; `of_rows` is what `_records` takes beside X and y."""
        forget(self)
        self._check_declarations()
        self._check_parameters()
        check_checkpoint(checkpoint, self.epsilon, self.random_state, self._can_resume)
        ledger = PrivacyLedger.resolve(self.ledger)
        reading.check_estimator(self, X)
        records = self._records(X, y, **of_rows)
        try:
            return self._fit_records(records, ledger, checkpoint)
        finally:
            reading.close(records)

    def _fit_records(
        self, records: Records, ledger: PrivacyLedger | None, checkpoint: Any
    ):
        """Fit to records that were read; nothing was charged yet."""
        if math.isinf(self.epsilon):
            return self._fit_without_privacy(records, ledger)
        warn_of_seed(self.random_state)
        warn_of_large(self.epsilon)
        public = records.public
        method, prepared, plan = self._planned(public)
        reading.check_method(records, method)
        told = self._fit_plan(public, plan)
        with self._journal(checkpoint, public, told, ledger) as journal:
            coins = None if journal is None else journal.coins
            streams = Streams(self.random_state, type(self), coins)
            told, receipt = charged(ledger, told, journal)
            report = self._report(public, told, receipt, plan.n_steps is not None)
            context = self._begin(plan.n_steps)
            on_step = self._on_step(context, public, report)
            desk = Desk(plan.releases, streams, records.void, public.units, journal)
            found = method.run(records, prepared, plan, desk, on_step)
            self._finish(context, self._attributes(public, found), report)
            if journal is not None:
                journal.finish()
        return self

    def _journal(
        self,
        checkpoint: Any,
        public: PublicRecords,
        told: FitPlan,
        ledger: PrivacyLedger | None,
    ) -> contextlib.AbstractContextManager[Journal | None]:
        """Return the journal of the releases of a fit, None without a checkpoint."""
        if checkpoint is None:
            return contextlib.nullcontext()
        promise = promise_of(self, self._given(), public, told, ledger)
        return journal_of(checkpoint, promise)

    @guarded_fit
    def plan(self, X, y=None) -> FitPlan:
        """Return what a fit on X, y would release and cost; nothing is charged.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Only its shape, its column names and its public columns are looked at:
            private values may be missing.
        y : array-like of shape (n_samples,), default=None
            Only looked at if the target is public, or `classes` are not declared. None
            where the target is private; `classes` are required then.

        Returns
        -------
        plan : FitPlan
            `PrivacyLedger.what_if` takes it.

        Notes
        -----
        **Guarantees.** The plan is a function of what is public: equal, byte for byte,
        for all values of the private columns, of a private target whose `classes` are
        declared, and for any pattern of zeros in the private columns of a sparse X.
        In a search over a Pipeline, steps of others are fitted, as they are before the
        charge of a fit; what they let through is theirs.
        """
        return self._plan(X, y)

    def _plan(self, X, y, **of_rows: Any) -> FitPlan:
        own = copy.copy(self)  # names and numbers of columns are kept there
        forget(own)
        own._check_declarations()
        own._check_parameters()
        reading.check_estimator(own, X)
        records = own._records(X, y, planning=True, **of_rows)
        try:
            plan, public = None, records.public
            if math.isfinite(own.epsilon):
                method, _, plan = own._planned(public)
                reading.check_method(records, method)
            return own._fit_plan(public, plan)
        finally:
            reading.close(records)

    def _given(self) -> dict[str, Any]:
        """Return the parameters as they were given, by name."""
        return {name: getattr(self, name) for name in parameters_of(type(self))}

    # -- the parts of an estimator ---------------------------------------------------
    def _check_parameters(self) -> None:
        """Raise ValueError for bad parameters; looks at no data."""
        check_privacy_parameters(self._given())
        check_encoder(self.encoder, self.bounds)

    def _method(self, public: PublicRecords) -> Method:
        """Return how to fit, with every number that it needs."""
        raise NotImplementedError

    def _without_privacy(self, records: Records) -> Any:
        """Return the model of ``epsilon=inf``."""
        raise NotImplementedError

    def _attributes(self, public: PublicRecords, found: Any) -> dict[str, Any]:
        """Return the fitted attributes of a model."""
        raise NotImplementedError

    @property
    def _seeded(self) -> bool:
        """Whether others can compute the noise: from a seed, or inside of an audit."""
        return self.random_state is not None or rehearsal.current() is not None

    @property
    def _assumptions(self) -> tuple[Assumption, ...]:
        return ASSUMPTIONS

    def _n_threads(self) -> int:
        return effective_n_jobs(self.n_jobs)

    def _subject(self) -> str:
        """Return the name of a fit in ledgers and reports."""
        return type(self).__name__

    # -- the way from records to a model ---------------------------------------------
    def _budget(self, public: PublicRecords) -> Budget:
        """Return what a fit may spend, and what its events say of it."""
        told = name_facts(
            public.columns,
            public.mask,
            target=public.target_name,
            has_target=self._has_target,
            public_target=public.has_target,
        )
        facts = {
            "neighboring_relation": self.neighboring_relation,
            "classes_source": public.classes_source,
            "seeded": self._seeded,
            **told,
        }
        if public.units is not None:
            facts["unit"] = public.units.unit
        return Budget(
            float(self.epsilon),
            float(self.delta),
            Relation.of(self.neighboring_relation),
            facts,
            reach=public.reach,
        )

    def _planned(self, public: PublicRecords) -> tuple[Method, Any, Plan]:
        """Return the method, what it learnt in public, and its plan."""
        method, budget = self._method(public), self._budget(public)
        if self._releases_bounds and public.n_private:
            method = BoundsFirst(method)
        prepared = method.prepare(public, budget)
        return method, prepared, method.plan(public, prepared, budget)

    def _fit_plan(self, public: PublicRecords, plan: Plan | None) -> FitPlan:
        """Return what users, ledgers and reports are told; None: epsilon=inf."""
        table = getattr(public, "encoding", None)  # a search has none
        assumptions = (
            *self._assumptions,
            *(REFUSES,) * (self.on_invalid == "raise"),
            *(_TYPES,) * (table is not None and table.takes_private_types),
            *self._of_units(public),
            *(_SAME_PARTITIONS,) * getattr(public, "in_partitions", False),
            *(() if plan is None else plan.assumptions),
        )
        if plan is not None and self._releases_bounds and public.n_private:
            assumptions = told_of_released(assumptions)
        return FitPlan(
            subject=self._subject(),
            events=() if plan is None else plan.events,
            delta=self.delta,
            target_epsilon=self.epsilon,
            n_records=public.n_records,
            n_rows=self._public_rows(public),
            assumptions=assumptions,
            schedule=None if plan is None else plan.schedule,
        )

    def _public_rows(self, public: PublicRecords) -> int | None:
        """Return the number of rows of the given table, None where it is private."""
        known = Relation.of(self.neighboring_relation).counts_are_public
        return public.n_given if known else None

    def _of_units(self, public: PublicRecords) -> tuple[Assumption, ...]:
        """Return what is assumed of weights and of the order of a person's rows."""
        # Weights of 0 and 1 leave rows out, and no units.
        weighted = getattr(self, "_has_weights", False)
        most = self.max_rows_per_person
        first = most is not None and public.has_persons
        texts = [WEIGHTS_ARE_PUBLIC] * weighted + [ORDER_IS_PUBLIC] * first
        return tuple(Assumption(text, enforced=False) for text in texts)

    def _report(
        self,
        public: PublicRecords,
        told: FitPlan,
        receipt: Receipt | None,
        has_loop: bool,
    ) -> PrivacyReport:
        return PrivacyReport.from_events(
            subject=told.subject,
            events=told.events,
            delta=told.delta,
            target_epsilon=told.target_epsilon,
            n_records=told.n_records,
            feature_names=public.columns,
            target_name=public.target_name,
            released=self._released
            + ("row_map_",) * self._releases_bounds
            + ("every iterate of the loop",) * has_loop,
            assumptions=(*told.assumptions, *(_ONE_STEP,) * self._may_be_a_step),
            seeded=self._seeded,
            receipts=[receipt],
        )

    def _fit_without_privacy(self, records: Records, ledger: PrivacyLedger | None):
        told, receipt = self._fit_plan(records.public, None), None
        if ledger is not None:
            receipt = ledger.charge_nonprivate(label=told.subject)
        context = self._begin(None)
        found = self._without_privacy(records.without_void())
        report = self._report(records.public, told, receipt, self._has_loop)
        return self._finish(context, self._attributes(records.public, found), report)

    def _begin(self, n_steps: int | None):
        """Return the callback context of a fit, after telling that it begins."""
        subtasks = {} if n_steps is None else {"max_subtasks": n_steps}
        with users_state():
            context = self._init_callback_context(**subtasks)
            context.call_on_fit_task_begin(estimator=self)
        return context

    def _on_step(self, context, public: PublicRecords, report: PrivacyReport) -> OnStep:
        """Return what tells the callbacks of a step, and whether they stop the loop."""

        @users_state()
        def on_step(step: int, found: Callable[[], Any]) -> bool:
            task = context.subcontext(task_name="step")
            task.call_on_fit_task_begin(estimator=self)
            snapshot = functools.partial(self._snapshot, public, found, report)
            return task.call_on_fit_task_end(
                estimator=self, reconstruction_attributes=snapshot
            )

        return on_step

    @without_traps()
    def _snapshot(
        self, public: PublicRecords, found: Callable[[], Any], report: PrivacyReport
    ) -> dict[str, Any]:
        """Return the fitted attributes of the moment."""
        return {**self._attributes(public, found()), "privacy_": report}

    def _finish(self, context, attributes: dict[str, Any], report: PrivacyReport):
        """Publish a model, and tell the callbacks that the fit has ended."""
        for name in self._weights:
            found = attributes[name]
            check_weights(found if isinstance(found, list) else [found])
        for name, value in attributes.items():
            setattr(self, name, value)
        self.privacy_ = report
        with users_state():
            context.call_on_fit_task_end(estimator=self, reconstruction_attributes={})
        return self
