"""The one-run audit: coins that a fit must not tell, guessed from its model."""

from __future__ import annotations

import dataclasses
import math
import numbers
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse

from skfdp.addresses import public
from skfdp.audit.one_run.canaries import TAILS, Canaries, make_canaries, n_records
from skfdp.audit.one_run.fits import NO_CLAIM, fitted, parts_of, without_charge
from skfdp.audit.one_run.guesses import Claim, most_allowed, steinke_bound
from skfdp.audit.one_run.scores import Score, default_score
from skfdp.audit.results import AuditResult
from skfdp.privacy.plotting import new_axes
from skfdp.privacy.report import PrivacyReport
from skfdp.privacy.reporting import report
from skfdp.records.checks import check_choice, check_number, shown

#: Of the canaries guessed, by default; each number costs its part of the confidence.
SHARES = (1.0, 0.5, 0.25, 0.125)
_METHODS = 2
#: Numbers of guesses, and how many of them are right.
Counts = list[tuple[int, int]]
_MOST_CANARIES = 1_000
_CURVE_POINTS = 16
_ROUNDS = 30


@public("skfdp.audit")
@dataclasses.dataclass(frozen=True, kw_only=True)
class OneRunResult(AuditResult):
    """Result of `audit_estimator`.

    Attributes
    ----------
    n_canaries : int
    n_guesses, n_correct : int
        Guesses and right ones of those that gave the lower bound.
    counts : tuple of (int, int)
        Numbers of guesses that were looked at, and how many were right.
    steinke : float
        Lower bound that holds for any mechanism.
    f_dp : float
        Lower bound among claims with the same releases and other noise.
    reach : float
        The lower bound if every guess had been right: no claim above it can be refuted
        by so many canaries.
    allowed : tuple of (int, int)
        Numbers of guesses, and the most right ones that the claim allows.
    kind : str
        Kind of the canaries.
    tails : {"other", "null", "out"}
        What a coin puts in the place of a canary.
    """

    audit: ClassVar[str] = "one run"

    n_canaries: int
    n_guesses: int
    n_correct: int
    counts: tuple[tuple[int, int], ...]
    steinke: float
    f_dp: float
    reach: float
    allowed: tuple[tuple[int, int], ...]
    kind: str
    tails: str

    def plot(self, ax: Any = None) -> Any:
        """Draw right guesses against guesses, beside what the claim allows.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.

        Returns
        -------
        ax : matplotlib Axes
        """
        ax = new_axes(ax, "OneRunResult.plot")
        guesses, most = zip(*self.allowed, strict=True)
        chance = np.array(guesses) / 2
        ax.plot(
            guesses, most, label=f"most that epsilon {self.claimed_epsilon:.4g} allows"
        )
        ax.plot(guesses, chance, ":", label="coins guessed blindly")
        ax.plot(*zip(*self.counts, strict=True), "o", label="right guesses")
        ax.set(xlabel="guesses", ylabel="right guesses", title=self.subject)
        ax.grid(True, alpha=0.3)
        ax.legend()
        return ax


@public("skfdp.audit")
def audit_estimator(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    n_canaries: int | None = None,
    n_guesses: int | None = None,
    canaries: Any = None,
    tails: str = "auto",
    confidence: float = 0.95,
    score: Score | None = None,
    public_features: Any = None,
    public_target: bool | None = None,
    random_state: int | None = None,
) -> OneRunResult:
    r"""Fit once on records that coins chose, and guess the coins from the model.

    The private part of each canary has two values, the public part one. A fair coin
    chooses for each canary. A clone of the estimator is fitted to that table, once.
    Each canary gets a score from the model, and the coins of those with the most
    decided scores are guessed. A claim bounds how many guesses can be right; if more
    are, it is refuted.

    Parameters
    ----------
    estimator : estimator or Pipeline
        Not changed: a clone is fitted, without its ledger and without a seed.
    X : array-like, sparse or DataFrame of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), default=None
        **Use made-up records, or treat the result as you would treat the records**:
        what it says of them is not private, and nothing is charged.
    n_canaries : int, default=None
        That many records, chosen at random; None: all of them, at most 1000.
    n_guesses : int, default=None
        Fixed beforehand. None looks at all, 1/2, 1/4 and 1/8 of the canaries, each at a
        quarter of the error that `confidence` leaves.
    canaries : {"flip", "mirror", "noise", "swap"}, tuple or None, default=None
        The two values of a private part: "noise" is a random corner of the box of the
        private columns and the corner opposite, both with one random label if that is
        private; "mirror" the record's own columns and ``low + high - x``; "flip" a
        random label and another one, of regressors the two ends of the target; "swap"
        the private parts of the record and of another one. The box is that of
        `bounds`, or of the columns as they are. ``(X, y)`` are other values for the
        private parts of all records; what they hold of public parts is ignored. None:
        "flip" under label-DP, "swap" where private columns are no numbers or an encoder
        is declared, "noise" otherwise.
    tails : {"auto", "other", "null"}, default="auto"
        Under "replace_special", what a coin that shows tails puts in the place of a
        canary: its other value, or null. "auto": null if the table can tell it.
    confidence : float, default=0.95
    score : callable, default=None
        ``score(model, X_a, y_a, X_b, y_b)`` returns a number for each canary, the
        larger the more the fitted model seems to have seen the first value. It must not
        know the coins. None compares the margins of a classifier, or the squared errors
        of a regressor, at the last iterate of the loop where scikit-learn has callbacks
        (1.9), since every iterate is released; other estimators need a score.
    public_features, public_target : default=None
        What is public, as the estimators have these parameters. None: as the releases
        say, which for a Pipeline takes one more fit.
    random_state : int, default=None
        Of canaries and coins, never of the noise.

    Returns
    -------
    result : OneRunResult

    Raises
    ------
    ValueError
        For bad parameters, for an estimator without a finite epsilon, and where scores
        are not one finite number for each canary.

    Notes
    -----
    **Guarantees.** `lower_bound` exceeds the epsilon that the releases cost with
    probability at most ``1 - confidence``, whatever the score is: each number of
    guesses and each method (`steinke`, `f_dp`) has its share of the error (Bonferroni),
    by the exchange lemma in `skfdp.audit.one_run.guesses`.

    The relations: under "replace_one" heads and tails are neighbours. Under
    "replace_special" a value and null are: a private label that is none of the declared
    `classes`, a target of a regressor that is NaN, or NaN in a column without bounds.
    Where no table can tell null (NaN counts as the middle of its bounds, which is a
    value) two values are two steps: `steinke` then asks for
    :math:`(2\varepsilon, (1 + e^\varepsilon) \delta)`, `f_dp` for twice the
    sensitivity, and both return the epsilon of one step. Under "add_or_remove_one" the
    record is in the table or left out of it.

    `steinke` holds for whatever the mechanism does; its test is that of the paper, with
    a last term that is proved anew and, wherever the tests look, not larger. `f_dp` is
    the epsilon of the smallest noise, in proportion to the claimed one, that is
    refuted: it supposes that what may be wrong is the scale of noise or sensitivity. As
    a refutation of the claim it supposes nothing.

    An audit that refutes nothing shows little: `reach` says what it could have shown.

    References
    ----------
    Steinke, Nasr and Jagielski (2023), https://arxiv.org/abs/2305.08846; Mahloujifar,
    Melis and Chaudhuri (2025), https://arxiv.org/abs/2410.22235.

    Examples
    --------
    >>> import numpy as np
    >>> from skfdp import FeatureDPLogisticRegression
    >>> from skfdp.audit import audit_estimator
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.random((400, 400)), rng.integers(0, 2, 400)
    >>> model = FeatureDPLogisticRegression(epsilon=8.0, bounds=(0, 1))
    >>> result = audit_estimator(model, X, y, random_state=0)
    >>> result.passed, result.n_canaries, result.kind
    (True, 400, 'noise')
    """
    X, y = _table(X, y)
    own = without_charge(estimator)
    significance = _significance(confidence)
    check_number(
        "random_state", random_state, include_low=True, integral=True, also=(None,)
    )
    rng = np.random.default_rng(random_state)
    parts = parts_of(own, X, y, public_features, public_target)
    n_canaries = _count("n_canaries", n_canaries, n_records(X), _MOST_CANARIES)
    _count("n_guesses", n_guesses, n_canaries)
    check_choice("tails", tails, TAILS)
    made = make_canaries(
        parts, X, y, n_canaries=n_canaries, kind=canaries, tails=tails, rng=rng
    )
    heads = rng.random(n_canaries) < 0.5
    model, iterate = fitted(own, *made.table(X, y, heads))
    scores = _scores(model if score else iterate, made, score)
    counts = _right_guesses(scores, heads, n_guesses)
    return _result(report(model), made, counts, significance)


def _result(
    found: PrivacyReport, made: Canaries, counts: Counts, significance: float
) -> OneRunResult:
    """Return what the numbers of right guesses say of a report."""
    if not math.isfinite(found.epsilon):
        raise ValueError(NO_CLAIM)
    if found.unit == "person":
        raise ValueError(
            f"{found.subject} protects persons, and canaries are rows that come and go "
            "by themselves: audit it by audit_replay, with groups in fit_params."
        )
    n, n_steps = len(made.rows), made.n_steps
    level = significance / (_METHODS * len(counts))
    claim = Claim(found.events, n_steps)
    given = {"delta": found.delta, "significance": level}

    def bounds(counts: Counts) -> tuple[list[float], list[float]]:
        sure = [steinke_bound(n, *one, **given, n_steps=n_steps) for one in counts]
        return sure, claim.bound(n, counts, **given)

    steinke, f_dp = bounds(counts)
    best = int(np.argmax(np.maximum(steinke, f_dp)))
    sizes = np.unique(np.linspace(1, n, _CURVE_POINTS).astype(int)).tolist()
    least = claim.least()
    return OneRunResult(
        subject=found.subject,
        neighboring_relation=found.neighboring_relation,
        claimed_epsilon=found.epsilon,
        delta=found.delta,
        lower_bound=max(*steinke, *f_dp),
        confidence=round(1 - significance, 12),
        n_trials=n,
        n_canaries=n,
        n_guesses=counts[best][0],
        n_correct=counts[best][1],
        counts=tuple(counts),
        steinke=max(steinke),
        f_dp=max(f_dp),
        reach=max(map(max, bounds([(guesses, guesses) for guesses, _ in counts]))),
        allowed=tuple((k, most_allowed(n, k, least, level)) for k in sizes),
        kind=made.kind,
        tails=made.tails,
    )


def _right_guesses(
    scores: np.ndarray, heads: np.ndarray, n_guesses: int | None
) -> Counts:
    """Return numbers of guesses, and how many of them are right."""
    decided = scores - _middle(scores)
    order = np.argsort(-np.abs(decided), kind="stable")
    right = np.cumsum(((decided > 0) == heads)[order])
    sizes = {max(1, int(share * len(scores))) for share in SHARES}
    chosen = sorted(sizes, reverse=True) if n_guesses is None else [n_guesses]
    return [(size, int(right[size - 1])) for size in chosen]


def _middle(scores: np.ndarray) -> float:
    """Return the middle between two clusters of scores: two means, from the median.

    A model may like the first values better than the others whatever it saw; and where
    clusters lie apart, the median would cut into the larger one.
    """
    middle = float(np.median(scores))
    for _ in range(_ROUNDS):
        above = scores > middle
        if above.all() or not above.any():
            break
        middle = float(scores[above].mean() + scores[~above].mean()) / 2
    return middle


def _scores(model: Any, made: Canaries, score: Score | None) -> np.ndarray:
    if score is None:
        score = default_score(model)
    if not callable(score):
        raise ValueError(
            f"score={shown(score)} must be None or a function: "
            "score(model, X_a, y_a, X_b, y_b)."
        )
    found = np.asarray(
        score(model, made.X_a, made.y_a, made.X_b, made.y_b), dtype=float
    )
    if found.shape != made.rows.shape or not np.isfinite(found).all():
        raise ValueError(
            f"score must return {len(made.rows)} finite numbers, one for each canary; "
            f"it returned shape {found.shape}."
        )
    return found


def _table(X: Any, y: Any) -> tuple[Any, Any]:
    """Return X and y as something with rows."""
    X = X if issparse(X) or hasattr(X, "iloc") else np.asarray(X)
    y = y if y is None or hasattr(y, "iloc") else np.asarray(y)
    if len(X.shape) != 2 or (y is not None and y.shape != X.shape[:1]):
        raise ValueError(
            f"X and y have shapes {X.shape} and {None if y is None else y.shape}: "
            "expected rows with columns, and one target for each row."
        )
    return X, y


def _significance(confidence: float) -> float:
    real = isinstance(confidence, numbers.Real) and not isinstance(confidence, bool)
    if not real or not 0 < confidence < 1:
        raise ValueError(
            f"confidence={shown(confidence)} must lie strictly between 0 and 1: 0.95 "
            "is usual."
        )
    return 1 - float(confidence)


def _count(name: str, value: Any, most: int, default: int | None = None) -> int:
    """Return a count, checked; None is the default, as far as there are so many."""
    if value is None:
        return most if default is None else min(most, default)
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or not 1 <= value <= most:
        raise ValueError(
            f"{name}={shown(value)} must be a whole number from 1 to {most}, or None."
        )
    return int(value)
