"""What the linear estimators share: the way from ``fit`` to ``coef_``."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from joblib import effective_n_jobs
from scipy.sparse import issparse
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils.validation import check_is_fitted

from skfdp.estimators import defaults
from skfdp.estimators.arrays import check_arrays
from skfdp.estimators.linear_model.centring import centred_coordinates
from skfdp.estimators.linear_model.descent import Problem, Training, plan_training
from skfdp.estimators.optimum import optimum
from skfdp.estimators.parameters import (
    ASSUMPTIONS,
    begin_callbacks,
    check_loop_parameters,
    check_nothing_public,
    check_privacy_parameters,
    complete_parameters,
    end_callbacks,
    forget,
    public_count,
    resolve_row_map,
    resolved_parameters,
)
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.report import PrivacyReport
from skfdp.queries.linear import LinearQuery
from skfdp.queries.losses import LOSSES
from skfdp.records.blocks import row_blocks
from skfdp.records.checks import check_choice, check_flag, check_number
from skfdp.records.coordinates import Coordinates
from skfdp.records.guards import guarded_fit, users_state, without_traps
from skfdp.records.labels import encode_labels, resolve_class_weight
from skfdp.records.names import column_names, target_name
from skfdp.records.public_columns import public_mask
from skfdp.records.row_map import RowMap
from skfdp.releases.descent import check_weights, descent
from skfdp.releases.desk import Desk
from skfdp.releases.noise import Streams, warn_of_seed
from skfdp.releases.steps import HeavyBall

#: A stronger penalty, per record, changes nothing any more: every weight is zero.
STRONGEST = 1e30


class DPLinearModel(CallbackSupportMixin, BaseEstimator):
    """Base of the linear estimators: validate, plan, charge, descend, publish.

    What differs between classifiers and regressors is in their parts below and in
    `regressor`: the target, the penalty, and what is made of the margins.
    """

    public_features = None
    public_target = False
    public_loss = None

    def __setstate__(self, state):
        super().__setstate__(state)
        complete_parameters(self)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a fit came to its end."""
        return hasattr(self, "coef_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = getattr(self, "solver", None) != "one-shot"
        return tags

    @with_callbacks
    @guarded_fit
    def fit(self, X, y):
        """Train on X, y within the budget, charging the ledger first.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Dense, or sparse (held as CSR, never filled in; `bounds` then need low 0).
            Each record once. Values outside `bounds` and rows longer than
            `feature_bound` are clipped, silently.
        y : array-like of shape (n_samples,)
            Labels of any type; for regressors finite numbers.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            For bad parameters or malformed input; nothing is charged, no datum is
            quoted.
        PrivacyBudgetError
            If the ledger's ceiling would be passed; nothing is charged or trained.
        """
        forget(self)
        self._check_parameters()
        ledger = PrivacyLedger.resolve(self.ledger)
        problem = self._resolve(X, y)
        name = type(self).__name__
        if math.isinf(self.epsilon):
            if ledger is not None:
                receipt = ledger.charge_nonprivate(label=name)
                problem = dataclasses.replace(problem, receipt=receipt)
            return self._fit_optimum(problem)
        warn_of_seed(self.random_state)
        streams = Streams(
            self.random_state,
            type(self),
            (problem.X, problem.target),
            resolved_parameters(
                self,
                problem.public,
                problem.row_map,
                classes=problem.n_classes,
                class_weight=problem.class_weight,
                target_bounds=problem.target_map,
                public_model=None,  # what it gives enters with its margins
            ),
        )
        training = self._plan(problem, streams.seeded)
        if ledger is not None:
            receipt = ledger.charge(training.events, label=name, plan=training.plan)
            problem = dataclasses.replace(problem, receipt=receipt)
        return self._fit_private(problem, training, streams)

    def _check_parameters(self) -> None:
        check_privacy_parameters(self)
        check_loop_parameters(self)
        check_flag("fit_intercept", self.fit_intercept)
        check_flag("normalize", self.normalize)

    def _resolve(self, X, y) -> Problem:
        """Validate and split; the last time that the user's objects are touched."""
        frame, named = X, target_name(self.target_name, y)
        X, y = check_arrays(self, X, y, accept_sparse=True)
        target = self._resolve_target(y)
        names = getattr(self, "feature_names_in_", None)
        mask = public_mask(self.public_features, X.shape[1], names, frame)
        mixed = mask.any() and not mask.all()
        infinite = math.isinf(self.epsilon)
        if not infinite:
            check_nothing_public(self, mask, bool(self.public_target))
        return Problem(
            X=X,
            columns=column_names(self),
            target_name=named,
            public=mask,
            public_target=bool(self.public_target),
            public_labels=y if self.public_target else None,
            row_map=RowMap(feature_bound=math.inf)
            if infinite
            else dataclasses.replace(
                resolve_row_map(self, X.shape[1], names, issparse(X)),
                public=mask if mixed else None,
            ),
            n_public=public_count(self, X.shape[0]),
            **target,
        )

    def _resolve_target(self, y: np.ndarray) -> dict:
        """Return the fields of `Problem` that the target and the loss determine."""
        raise NotImplementedError

    def _penalty_strength(self, problem: Problem, auto: float | None) -> float | None:
        """Return s of the penalty ``s / 2 |w|**2`` per record.

        `auto` is what the parameter "auto" stands for; None, also returned: nothing.
        """
        raise NotImplementedError

    def scale_events(self, problem: Problem, mu: float, reach: float, facts: dict):
        """Return the events of what is released of the target and of lengths."""
        return None, None

    def _scaled(self, problem, training: Training | None, desk: Desk | None):
        """Return the problem with its target in the loop's units."""
        return problem

    _assumptions = ASSUMPTIONS
    _released: tuple[str, ...] = ("coef_", "intercept_", "n_iter_")
    #: What a fit without a signal amounts to.
    baseline = "the majority class"

    def _plan(self, problem: Problem, seeded: bool) -> Training:
        return plan_training(self, problem, seeded)

    def _fit_optimum(self, problem: Problem):
        context = begin_callbacks(self)
        problem = self._scaled(problem, None, None)
        counted = dataclasses.replace(problem, n_public=problem.X.shape[0])
        coef, intercept, n_iter = optimum(
            problem.X,
            problem.target,
            problem.loss,
            problem.n_outputs,
            penalty=self._penalty_strength(counted, 1.0),
            class_weight=problem.class_weight,
            fit_intercept=self.fit_intercept,
        )
        self._publish(self._fitted(problem, coef, intercept, n_iter))
        self.privacy_ = self._report(problem, ())
        end_callbacks(context, self)
        return self

    def _fit_private(
        self,
        problem: Problem,
        training: Training,
        streams: Streams,
        desk: Desk | None = None,
    ):
        context = begin_callbacks(self, max_subtasks=training.plan.n_steps)
        if desk is None:
            desk = Desk(training.events, streams)
        problem = self._scaled(problem, training, desk)
        coordinates = self._coordinates(problem, training, desk)
        query = self._query(problem, training, coordinates, streams, desk)
        privacy = self._report(problem, training.events, training.assumptions)

        @without_traps()
        def fitted(theta: np.ndarray, n_iter: int) -> dict:
            coef, intercept = coordinates.fold(theta)
            if training.public_model is not None:
                coef, intercept = training.public_model.add_to(
                    coef, intercept, problem.public
                )
            values = self._fitted(problem, coef, intercept, n_iter)
            if training.public_model is not None:
                values["public_model_"] = training.public_model
            return values

        @users_state()
        def on_step(step: int, theta: np.ndarray) -> bool:
            task = context.subcontext(task_name="step")
            task.call_on_fit_task_begin(estimator=self)
            return task.call_on_fit_task_end(
                estimator=self,
                reconstruction_attributes=lambda: {
                    **fitted(theta, step + 1),
                    "privacy_": privacy,
                },
            )

        theta, n_iter = descent(
            desk,
            query,
            self._rule(problem, training, query, coordinates),
            n_records=problem.n_public,
            average=self.average,
            private_weight=training.private_weight,
            public_gradient=self._public_gradient(problem, query, coordinates, streams),
            on_step=on_step,
        )
        theta = self._after(theta, problem, training)
        self._publish(fitted(theta, n_iter))
        self.privacy_ = privacy
        end_callbacks(context, self)
        return self

    def _coordinates(
        self, problem: Problem, training: Training, desk: Desk
    ) -> Coordinates:
        """Return the coordinates of the loop; may release what the plan lists."""
        return centred_coordinates(problem, training, desk, self.fit_intercept)

    def _query(self, problem, training, coordinates, streams, desk) -> LinearQuery:
        rows = training.rows
        if rows is None:
            rows = coordinates.grid(problem.X)
        return LinearQuery(
            rows=rows,
            target=problem.target,
            loss=problem.loss,
            n_outputs=problem.n_outputs,
            clip_norm=training.plan.clip_norm,
            capacity=problem.capacity,
            class_weight=problem.class_weight,
            padded=self._padded(problem, training, coordinates, rows, streams, desk),
            public_target=problem.public_target,
            offset=training.offset,
            orthant=training.orthant,
            label_bound=training.label_bound,
            n_jobs=effective_n_jobs(self.n_jobs),
        )

    def _padded(self, problem, training, coordinates, rows, streams, desk):
        return None

    def _after(
        self, theta: np.ndarray, problem: Problem, training: Training
    ) -> np.ndarray:
        """Post-process the released theta."""
        return theta

    def _rule(self, problem, training, query, coordinates) -> HeavyBall:
        """Return how to step along a released gradient, and on the penalty."""
        rate, n_steps = training.learning_rate, training.plan.n_steps
        curvature = self._penalty_curvature(problem, query, coordinates)
        if curvature is not None and self.average == "last":
            rate = defaults.learning_rate_of_penalised(
                rate, n_steps, momentum=self.momentum, curvature=curvature
            )
        return HeavyBall(rate, self.momentum, n_steps, self.radius, curvature=curvature)

    def _penalty_curvature(self, problem, query, coordinates) -> np.ndarray | None:
        """Return D of the penalty for `HeavyBall`, None where there is no penalty."""
        strength = self._penalty_strength(problem, None)
        if strength is None:
            return None
        curvature = coordinates.penalty_curvature(strength) / query.clip_norm
        return np.ascontiguousarray(np.broadcast_to(curvature, query.shape))

    def _public_gradient(self, problem, query, coordinates, streams):
        """Return the exact gradient of a public loss, None where there is none."""
        return None

    def _publish(self, fitted: dict) -> None:
        check_weights((fitted["coef_"], fitted["intercept_"]))
        for name, value in fitted.items():
            setattr(self, name, value)

    def _fitted(self, problem, coef, intercept, n_iter) -> dict:
        return {
            "coef_": coef,
            "intercept_": intercept,
            "n_iter_": n_iter,
            "row_map_": problem.row_map,
        }

    def _report(
        self,
        problem: Problem,
        events: tuple,
        assumptions: tuple = (),
        loop: bool = True,
    ) -> PrivacyReport:
        return PrivacyReport.from_events(
            subject=type(self).__name__,
            events=events,
            delta=self.delta,
            target_epsilon=self.epsilon,
            n_records=problem.n_public,
            feature_names=problem.columns,
            target_name=problem.target_name,
            released=self._released + ("every iterate of the loop",) * loop,
            assumptions=self._assumptions + assumptions,
            seeded=self.random_state is not None,
            receipts=[problem.receipt],
        )

    def _offset(self, rows: np.ndarray) -> np.ndarray | float:
        """Return margins of ``row_map_(X)`` that `coef_` does not describe."""
        return 0.0

    @without_traps()
    def _margins(self, X) -> np.ndarray:
        """Return ``row_map_(X) @ coef_.T + intercept_`` and what is not linear."""
        check_is_fitted(self)
        X = check_arrays(self, X, reset=False, accept_sparse=True)
        coef = np.atleast_2d(self.coef_)  # regressors publish a vector
        margins = np.empty((X.shape[0], len(coef)))
        for block in row_blocks(X):
            rows = self.row_map_(X[block])
            margins[block] = rows @ coef.T + self.intercept_
            margins[block] += self._offset(rows)
        return margins[:, 0] if margins.shape[1] == 1 else margins


class DPLinearClassifier(ClassifierMixin, DPLinearModel):
    """The classifiers' part: labels, class weights, C, and the most likely label."""

    loss = "log_loss"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("C", self.C, also=("auto",))
        check_choice("loss", self.loss, tuple(LOSSES))

    def _resolve_target(self, y: np.ndarray) -> dict:
        labels = encode_labels(y, self.classes)
        source = labels.source
        if source == "data" and self.public_target:
            source = "public target"
        return {
            "target": labels.codes,
            "classes": labels.classes,
            "classes_source": source,
            "loss": LOSSES[self.loss],
            "class_weight": resolve_class_weight(self.class_weight, labels.classes),
        }

    def _penalty_strength(self, problem: Problem, auto: float | None) -> float | None:
        C = auto if self.C == "auto" else self.C
        return None if C is None else min(1 / (C * problem.n_public), STRONGEST)

    def _fitted(self, problem, coef, intercept, n_iter) -> dict:
        fitted = super()._fitted(problem, coef, intercept, n_iter)
        return {"classes_": problem.classes, **fitted}

    def decision_function(self, X):
        """Return the margins, ``row_map_(X) @ coef_.T + intercept_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        margins : ndarray of shape (n_samples,) or (n_samples, n_classes)
            One column for each class; for two classes the margin of ``classes_[1]``.
        """
        return self._margins(X)

    def predict(self, X):
        """Return the most likely label of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        margins = self.decision_function(X)
        if margins.ndim == 1:
            return self.classes_[(margins > 0).astype(np.intp)]
        return self.classes_[margins.argmax(axis=1)]


@without_traps()
def probabilities(margins: np.ndarray) -> np.ndarray:
    """Return the sigmoid or softmax of margins, shape (n_samples, n_classes)."""
    if margins.ndim == 1:
        positive = expit(margins)
        return np.column_stack([1 - positive, positive])
    return softmax(margins, axis=1)
