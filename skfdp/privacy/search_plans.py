"""Plan all fits of a scikit-learn search, by running it with a stand-in estimator."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from skfdp.addresses import public
from skfdp.privacy.checks import shown
from skfdp.privacy.entries import FitPlan


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
        text = (
            f"{self.n_fits} fits ({self.n_candidates} candidates x {self.n_folds} folds"
            f"{' + 1 refit' if refits else ''}); "
        )
        if self.n_allowed is None:
            return f"{text}how many the ledger allows is unknown: {self.reason}"
        if self.n_allowed == self.n_fits:
            return f"{text}the ledger allows all of them"
        no_model = refits and not self.allows_refit
        return f"{text}the ledger allows {self.n_allowed}{', not the refit' * no_model}"


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
            f"search={shown(search)} must be a search of scikit-learn, such as "
            "GridSearchCV: for a PrivateSearchCV use what_if(search.plan(X, y))."
        )
    # The planning search gets copies of the random states, so that the user's random
    # states do not advance. It has no callbacks.
    given = copy.deepcopy(given)
    plans: list[FitPlan | str] = []
    run = type(search)(
        **given
        | {
            "estimator": _Planner(given["estimator"], check, plans),
            "scoring": _budget,
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
        names = self._estimator.get_params().items()
        for ledger in [one for name, one in names if name.endswith("ledger")] or [None]:
            self._check(ledger)
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


def _budget(model: Any, X: Any, y: Any = None, sample_weight: Any = None) -> float:
    """Score candidates by epsilon: the refit then uses the most expensive one."""
    plan = model._plans[-1]
    return 0.0 if isinstance(plan, str) else -1 / plan.target_epsilon
