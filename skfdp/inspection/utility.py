"""The display of utility: score against epsilon."""

from __future__ import annotations

import functools
import math

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import check_scoring
from sklearn.model_selection import (
    KFold,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    cross_val_score,
)

from skfdp.privacy.plotting import new_axes, points
from skfdp.records.checks import check_choice, check_number

_STRATIFIED = (
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)


class PrivacyUtilityDisplay:
    """Score on held-out rows against epsilon, with its spread over repeated fits.

    Make it by `from_estimator`.

    Parameters
    ----------
    epsilons : ndarray of shape (n_epsilons,)
    scores : ndarray of shape (n_epsilons, n_fits)
        One column for each repetition and split.
    baselines : dict of str to float
        Mean scores that do not depend on epsilon.
    score_name : str
    estimator_name : str

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        The mean scores.
    band_ : matplotlib PolyCollection
        Mean minus and plus one standard deviation.
    baseline_lines_ : list of matplotlib Line2D
    """

    def __init__(
        self,
        *,
        epsilons,
        scores,
        baselines=None,
        score_name="score",
        estimator_name="estimator",
    ):
        self.epsilons = epsilons
        self.scores = scores
        self.baselines = baselines
        self.score_name = score_name
        self.estimator_name = estimator_name

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y,
        *,
        epsilons=(0.1, 0.3, 1.0, 3.0, 10.0),
        parameter="epsilon",
        cv=None,
        test_size=0.25,
        n_repeats=5,
        scoring=None,
        baselines="auto",
        n_jobs=None,
        ax=None,
        **kwargs,
    ):
        """Fit at each epsilon, score on held-out rows, and draw.

        **This spends budget and discloses scores.** There are ``len(epsilons) *
        n_repeats * n_splits`` fits. Each one is charged to the estimator's ledger, if
        it has one. The scores are exact functions of the held-out rows, and so is
        whatever is chosen by them; no ledger counts that, and the baselines are fitted
        without privacy. Use it on data that need no protection: public or simulated
        records like the private ones, or records whose owners agreed. On private data
        the picture must not leave the room, nor decide anything that does.

        Parameters
        ----------
        estimator : estimator
            Of skfdp, or a Pipeline that ends in one.
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        epsilons : array-like of shape (n_epsilons,)
            Finite and positive.
        parameter : str, default="epsilon"
            Name of the parameter: "dpsgdfclassifier__epsilon" in a Pipeline.
        cv : int, splitter or iterable of (train, test), default=None
            None: one split by position, the last rows being held out, which needs rows
            in no particular order. An int: that many folds by position. Stratified
            splitters are refused.
        test_size : float, default=0.25
            Share of the rows held out where ``cv=None``.
        n_repeats : int, default=5
            Fits at each epsilon and split; they differ in their noise.
        scoring : str or callable, default=None
            As in `cross_val_score`.
        baselines : "auto", None or dict of str to estimator, default="auto"
            Lines that do not depend on epsilon. "auto": the estimator without privacy
            (not if it has a ledger) and the best constant guess.
        n_jobs : int, default=None
        ax : matplotlib Axes, default=None
            None makes a new figure.
        **kwargs : dict
            For `matplotlib.pyplot.plot`.

        Returns
        -------
        display : PrivacyUtilityDisplay

        Raises
        ------
        PrivacyBudgetError
            If a ledger's ceiling is reached; the fits before it stay charged.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from skfdp import DPSGDFClassifier
        >>> from skfdp.inspection import PrivacyUtilityDisplay
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> display = PrivacyUtilityDisplay.from_estimator(
        ...     DPSGDFClassifier(bounds=(X.min(axis=0), X.max(axis=0))),  # public data
        ...     X, y, epsilons=[0.5, 5.0], n_repeats=2,
        ... )
        >>> display.scores.shape
        (2, 2)
        """
        epsilons = np.sort(points("epsilons", epsilons))
        for epsilon in epsilons:
            check_number("epsilons", float(epsilon))
        check_number("n_repeats", n_repeats, integral=True)
        known = estimator.get_params() if hasattr(estimator, "get_params") else ()
        check_choice("parameter", parameter, [*known])
        scored = functools.partial(
            cross_val_score,
            X=X,
            y=y,
            cv=_splits(cv, X, y, test_size),
            scoring=scoring,
            n_jobs=n_jobs,
            error_score="raise",
        )
        if baselines == "auto":
            baselines = _baselines(estimator, parameter)
        models = [
            clone(estimator).set_params(**{parameter: epsilon})
            for epsilon in epsilons.tolist()
        ]
        scores = [[scored(one) for _ in range(n_repeats)] for one in models]
        display = cls(
            epsilons=epsilons,
            scores=np.reshape(scores, (len(epsilons), -1)),
            baselines={
                name: float(scored(model).mean())
                for name, model in (baselines or {}).items()
            },
            score_name=_score_name(estimator, scoring),
            estimator_name=type(estimator).__name__,
        )
        return display.plot(ax, **kwargs)

    def plot(self, ax=None, **kwargs):
        """Draw it.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        **kwargs : dict
            For `matplotlib.pyplot.plot`.

        Returns
        -------
        display : PrivacyUtilityDisplay
        """
        ax = new_axes(ax, "PrivacyUtilityDisplay.plot")
        mean, spread = self.scores.mean(axis=1), self.scores.std(axis=1)
        style = {"marker": "o", "label": self.estimator_name} | kwargs
        (self.line_,) = ax.plot(self.epsilons, mean, **style)
        self.band_ = ax.fill_between(
            self.epsilons,
            mean - spread,
            mean + spread,
            color=self.line_.get_color(),
            alpha=0.25,
            linewidth=0,
            label=f"one standard deviation of {self.scores.shape[1]} fits",
        )
        self.baseline_lines_ = [
            ax.axhline(
                score, color="black", linestyle=style, label=f"{name}: {score:.3g}"
            )
            for (name, score), style in zip(
                (self.baselines or {}).items(), _styles(), strict=False
            )
        ]
        ax.set(xlabel="epsilon", ylabel=self.score_name, xscale="log")
        ax.grid(True, alpha=0.3)
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _styles():
    while True:
        yield from ("--", ":", "-.")


def _splits(cv, X, y, test_size):
    """Return (train, test) pairs that depend on positions only."""
    if isinstance(cv, _STRATIFIED):
        raise ValueError(
            f"cv={cv!r} reads the target to split the rows: pass a KFold, or "
            "list(cv.split(X, y)) if the target is public."
        )
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if cv is None:
        check_number("test_size", test_size, high=1)
        cut = n_rows - math.ceil(test_size * n_rows)
        return [(np.arange(cut), np.arange(cut, n_rows))]
    if isinstance(cv, int):
        return list(KFold(cv).split(X))
    return list(cv.split(X, y)) if hasattr(cv, "split") else list(cv)


def _baselines(estimator, parameter):
    given = estimator.get_params()
    charged = any(
        value is not None
        for name, value in given.items()
        if name.split("__")[-1] == "ledger"
    )
    found = {}
    if not charged:
        found["without privacy"] = clone(estimator).set_params(**{parameter: math.inf})
    if is_classifier(estimator):
        found["most frequent class"] = DummyClassifier()
    else:
        found["mean of the target"] = DummyRegressor()
    return found


def _score_name(estimator, scoring):
    if scoring is None:
        return "accuracy" if is_classifier(estimator) else "R2"
    if isinstance(scoring, str):
        return scoring.removeprefix("neg_").replace("_", " ")
    check_scoring(estimator, scoring)
    return getattr(scoring, "__name__", "score")
