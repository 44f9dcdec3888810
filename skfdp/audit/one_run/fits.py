"""Fits for audits: uncharged, unseeded, and what of their table is public."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone

from skfdp.privacy.relations import Relation
from skfdp.privacy.reporting import report
from skfdp.records.checks import shown
from skfdp.records.guards import UtilityWarning
from skfdp.records.public_columns import public_mask

#: What is said of estimators without a claim.
NO_CLAIM = "estimator claims no finite epsilon: there is nothing to audit; set one."


@dataclasses.dataclass(frozen=True)
class Parts:
    """Parts of a table, public and private, and the last step that learns from it.

    Attributes
    ----------
    mask : bool ndarray of shape (n_features,)
        Public columns.
    private_target : bool
    relation : Relation
    last : estimator
        The last step of a Pipeline, or the estimator itself.
    direct : bool
        Whether it sees the table itself, and no step before it does.
    """

    mask: np.ndarray
    private_target: bool
    relation: Relation
    last: Any
    direct: bool

    @property
    def columns(self) -> np.ndarray:
        """Positions of the private columns."""
        return np.flatnonzero(~self.mask)

    def setting(self, name: str) -> Any:
        """Return a parameter of the last step, None if it has none."""
        return getattr(self.last, name, None)


def without_charge(estimator: Any) -> Any:
    """Return a clone that has no ledger and no seed."""
    made = hasattr(estimator, "get_params") and not isinstance(estimator, type)
    if not made or not hasattr(estimator, "fit"):
        raise ValueError(
            f"estimator={shown(estimator)} must be an estimator or a Pipeline of this "
            "package's."
        )
    own = clone(estimator)
    settings = own.get_params(deep=True)
    private = {
        name.removesuffix("epsilon")
        for name in settings
        if name == "epsilon" or name.endswith("__epsilon")
    }
    found = {
        prefix + name
        for prefix in private
        for name in ("ledger", "random_state")
        if prefix + name in settings
    }
    return own.set_params(**dict.fromkeys(sorted(found)))


class _LastIterate:
    """A callback that keeps the model of the last step.

    Every iterate of a loop is released; the model that a fit returns may be scaled
    down to what its noise lets hope for, and shows less.
    """

    def __init__(self) -> None:
        self.model: Any = None

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, **_):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None, **_):
        if context.task_name == "step":
            self.model = fitted_estimator
        return False


def fitted(own: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return a fitted clone, and with its last iterate, where there are callbacks."""
    model, listener = clone(own), _LastIterate()
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    if hasattr(last, "set_callbacks"):
        last.set_callbacks(listener)
    with _unadvised():
        model.fit(X, y)
    if listener.model is None:
        return model, model
    if last is model:
        return model, listener.model
    iterate = copy.copy(model)
    iterate.steps = [*model.steps[:-1], (model.steps[-1][0], listener.model)]
    return model, iterate


@contextlib.contextmanager
def _unadvised() -> Iterator[None]:
    """Keep quiet about utility: canaries teach nothing, and need not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        yield


def parts_of(
    own: Any, X: Any, y: Any, public_features: Any, public_target: Any
) -> Parts:
    """Return what is public, as it was given or as the releases say."""
    steps = getattr(own, "steps", None)
    last = own if steps is None else steps[-1][1]
    if hasattr(own, "plan"):
        with _unadvised():
            events, names = own.plan(X, y).events, None
    else:
        found = report(fitted(own, X, y)[0])
        events, names = found.events, found.public_sources
        if names is None and found.public_features and public_features is None:
            if steps is None or len(steps) > 1:
                raise ValueError(
                    f"{type(own).__name__} has public columns that cannot be followed "
                    "back to X: pass public_features, and public_target."
                )
    if not events:
        raise ValueError(NO_CLAIM)
    if names is None:
        names = {name for event in events for name in event.public_features}
    labels = [str(label) for label in X.columns] if hasattr(X, "columns") else None
    if public_features is not None:
        mask = public_mask(public_features, X.shape[1], labels, X)
    else:
        declared = getattr(last, "names", None)
        mask = _mask_of(names, X.shape[1], declared if labels is None else labels)
    shows = any(event.public_target for event in events)
    return Parts(
        mask,
        y is not None and not (shows if public_target is None else public_target),
        Relation.of(events[0].neighboring_relation),
        last,
        direct=last is own,
    )


def _mask_of(names: Any, n_features: int, labels: Any) -> np.ndarray:
    """Return the columns of these names or positions."""
    places = {label: j for j, label in enumerate(labels or ())}
    mask = np.zeros(n_features, dtype=bool)
    for name in names:
        place = places.get(name) if isinstance(name, str) else name
        if place is None:
            raise ValueError(
                f"public column {name!r} is not among the names of X: pass "
                "public_features as positions or as a mask."
            )
        mask[place] = True
    return mask
