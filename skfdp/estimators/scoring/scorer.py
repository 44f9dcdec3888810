"""Private scorers for scikit-learn's cross-validation and searches."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from skfdp.addresses import public
from skfdp.estimators.scoring.layout import METRICS, SMALLER
from skfdp.estimators.scoring.origin import holds
from skfdp.estimators.scoring.private_score import private_score
from skfdp.privacy.events import PrivacyBudgetError, check_budget
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.reporting import report
from skfdp.records.checks import shown

_LEFT_OUT = {"model", "X", "y", "epsilon", "delta", "metrics", "by", "ledger"}
_LEFT_OUT |= {"model_is_public", "sample_weight"}
_SETTINGS = frozenset(inspect.signature(private_score).parameters) - _LEFT_OUT
_SCALARS = frozenset(name for names in METRICS.values() for name in names) - {
    "confusion_matrix"
}


@dataclasses.dataclass(frozen=True)
class PrivateScorer:
    """Scorer that charges a ledger for every score; made by `make_private_scorer`.

    Attributes
    ----------
    metrics : str or tuple of str
    epsilon : float
    delta : float or None
    ledger : PrivacyLedger
    settings : mapping
        Further parameters of `private_score`.
    """

    metrics: str | tuple[str, ...]
    epsilon: float
    delta: float | None
    ledger: PrivacyLedger
    settings: Mapping[str, Any]

    def __call__(self, estimator: Any, X: Any, y: Any) -> float | dict[str, float]:
        """Return the noisy score, the larger the better; NaN where undetermined.

        Parameters
        ----------
        estimator : fitted estimator
            Whose fit was charged to the ledger.
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Raises
        ------
        PrivacyBudgetError
            If the fit was not charged to the ledger, or if it refuses the score.
        """
        if not holds(self.ledger, report(estimator)):
            raise PrivacyBudgetError(
                f"the ledger of this scorer does not hold the fit of "
                f"{type(estimator).__name__}: give the estimator (each private step) "
                "the same ledger."
            )
        found = private_score(
            estimator,
            X,
            y,
            self.epsilon,
            self.delta,
            metrics=self.metrics,
            ledger=self.ledger,
            **self.settings,
        ).values
        signed = {n: -v if n in SMALLER else v for n, v in found.items()}
        return signed[self.metrics] if isinstance(self.metrics, str) else signed


@public("skfdp")
def make_private_scorer(
    metrics: Any = "accuracy",
    *,
    epsilon: float,
    delta: float | None = None,
    ledger: Any = None,
    **settings: Any,
) -> PrivateScorer:
    """Make a scorer for `cross_val_score`, `GridSearchCV` and others of scikit-learn.

    Parameters
    ----------
    metrics : str or sequence of str, default="accuracy"
        Those of `private_score`, without the confusion matrix. Several, in one
        release, make a scorer of a dictionary. Losses, errors and the false positive
        rate are negative, since larger is better.
    epsilon : float
        Of each score, not of all together.
    delta : float, default=None
    ledger : str, path or PrivacyLedger
        The one of the estimator, which is charged for every fit.
    **settings : dict
        Further parameters of `private_score`; `groups` is the name of a column of X,
        which each fold has.

    Returns
    -------
    scorer : PrivateScorer
        Called with (estimator, X, y). Pickles if its ledger is in a file.

    Raises
    ------
    PrivacyBudgetError
        Without a ledger: nobody would count fits and scores together.
    ValueError
        For bad parameters.

    Notes
    -----
    **Guarantees.** Every score is charged before it is made, and made only if the
    ledger holds the fit of the estimator. So the ledger counts all that
    cross-validation or a search discloses: whatever is chosen by these scores costs
    nothing more. Test folds are disjoint, but scikit-learn does not tell a scorer
    which records a fold holds: k scores cost k scores. Folds must be those of public
    positions, `KFold`: stratified ones, the default of an int `cv` for classifiers,
    depend on labels.

    Where the ceiling is reached, scikit-learn does what `error_score` says: "raise"
    ends at once, its default makes the score NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import KFold, cross_val_score
    >>> from skfdp import DPSGDFClassifier, PrivacyLedger, make_private_scorer, report
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((1500, 3))
    >>> y = X[:, 0] > 0.5
    >>> ledger = PrivacyLedger(epsilon=3.0, delta=1e-5)
    >>> scorer = make_private_scorer("accuracy", epsilon=0.5, ledger=ledger)
    >>> model = DPSGDFClassifier(0.8, bounds=(0, 1), classes=[0, 1], ledger=ledger)
    >>> scores = cross_val_score(model, X, y, scoring=scorer, cv=KFold(3))
    >>> bool(scores.min() > 0.5)
    True
    >>> report(ledger).n_fits  # three fits and three scores
    6
    """
    if ledger is None:
        raise PrivacyBudgetError(
            "ledger=None: a scorer charges every score, and every fit must be charged "
            "to the same ledger; make PrivacyLedger(epsilon=..., delta=...) and give "
            "it to the estimator and to the scorer."
        )
    check_budget(epsilon, 0.5 if delta is None else delta)
    unknown = sorted(set(settings) - _SETTINGS)
    if unknown:
        raise ValueError(
            f"{unknown[0]}={shown(settings[unknown[0]])} is no parameter of a private "
            f"scorer: choose among {', '.join(sorted(_SETTINGS))}."
        )
    if not isinstance(settings.get("groups", ""), str):
        raise ValueError(
            f"groups={shown(settings['groups'])} must be the name of a column of X: "
            "the folds of a scorer have rows of their own."
        )
    one = isinstance(metrics, str)
    named = (metrics,) if one else _tuple(metrics)
    if not named or not all(isinstance(n, str) and n in _SCALARS for n in named):
        raise ValueError(
            f"metrics={shown(metrics)} must be some of "
            f"{', '.join(map(repr, sorted(_SCALARS)))}."
        )
    return PrivateScorer(
        metrics if one else named,
        float(epsilon),
        None if delta is None else float(delta),
        PrivacyLedger.resolve(ledger),
        dict(settings),
    )


def _tuple(metrics: Any) -> tuple:
    try:
        return tuple(metrics)
    except TypeError:
        return ()
