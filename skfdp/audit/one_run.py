"""The one-run audit: coins that a fit must not tell, guessed from its model."""

from __future__ import annotations

import copy
import dataclasses
import math
import warnings
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse, vstack
from scipy.special import expit
from scipy.stats import binom
from sklearn.base import clone, is_classifier, is_regressor

from skfdp.addresses import public
from skfdp.audit.mechanism import (
    LARGEST_EPSILON,
    AuditResult,
    Least,
    epsilon_of_family,
    largest,
    least_of,
)
from skfdp.audit.replay import mask_of, n_records, prepared
from skfdp.data.columns import public_mask
from skfdp.data.validation import UtilityWarning, check_choice, check_number
from skfdp.experimental.search import PrivateSearchCV
from skfdp.privacy.checks import shown
from skfdp.privacy.events import Relation
from skfdp.privacy.pipelines import report
from skfdp.privacy.report import PrivacyReport

# Fits for audits: uncharged, unseeded, and what of their table is public.


#: What is said of estimators without a claim.
NO_CLAIM = "estimator claims no finite epsilon: there is nothing to audit; set one."


@dataclasses.dataclass(frozen=True)
class Parts:
    """Parts of a table, public and private, and the last step that learns from it."""

    mask: np.ndarray  # public columns
    private_target: bool
    relation: Relation
    last: Any  # the last step of a Pipeline, or the estimator itself
    direct: bool  # whether it sees the table itself, and no step before it does
    count_std: float = 0.0  # noise of a released class count; 0: there is none

    @property
    def columns(self) -> np.ndarray:
        """Positions of the private columns."""
        return np.flatnonzero(~self.mask)

    def setting(self, name: str) -> Any:
        """Return a parameter of the last step, None if it has none."""
        return getattr(self.last, name, None)


class _LastIterate:
    """A callback that keeps the model of the last step.

    Every iterate of a loop is released; the model that a fit returns may be scaled
    down to what its noise lets hope for, and shows less.
    """

    def __init__(self) -> None:
        self.model: Any = None

    def _ignore(self, estimator, context, **_):
        pass

    setup = teardown = on_fit_task_begin = _ignore

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None, **_):
        if context.task_name == "step":
            self.model = fitted_estimator
        return False


def fitted(own: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return a fitted clone, and with its last iterate, where there are callbacks.

    Canaries teach nothing, and need not: no warning is about utility.
    """
    model, listener = clone(own), _LastIterate()
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    if hasattr(last, "set_callbacks"):
        last.set_callbacks(listener)
    with warnings.catch_warnings(action="ignore", category=UtilityWarning):
        model.fit(X, y)
    if listener.model is None:
        return model, model
    if last is model:
        return model, listener.model
    iterate = copy.copy(model)
    iterate.steps = [*model.steps[:-1], (model.steps[-1][0], listener.model)]
    return model, iterate


def parts_of(
    own: Any, X: Any, y: Any, public_features: Any, public_target: Any
) -> Parts:
    """Return what is public, as it was given or as the releases say."""
    steps = getattr(own, "steps", None) or [("", own)]
    last, names, mask, lost = steps[-1][1], None, None, False
    if hasattr(own, "plan"):
        with warnings.catch_warnings(action="ignore", category=UtilityWarning):
            events = own.plan(X, y).events
    else:
        found = report(fitted(own, X, y)[0])
        events, names = found.events, found.public_sources
        lost = names is None and bool(found.public_features)
        lost = lost and (last is own or len(steps) > 1)
    if not events:
        raise ValueError(NO_CLAIM)
    if names is None:
        names = {name for event in events for name in event.public_features}
    if public_features is not None:
        labels = [str(label) for label in X.columns] if hasattr(X, "columns") else None
        mask = public_mask(public_features, X.shape[1], labels, X)
    elif not lost:
        mask = mask_of(names, own, X)
    if mask is None:
        raise ValueError(
            f"{type(own).__name__} has public columns that cannot be followed back to "
            "X: pass public_features, and public_target."
        )
    shows = any(event.public_target for event in events)
    learns = y is not None and getattr(last, "_has_target", True)
    counts = [event for event in events if event.label.endswith("class counts")]
    count_std = max((event.noise_std[0] for event in counts), default=0.0)
    direct = last is own
    if isinstance(last, PrivateSearchCV):  # whose runs count labels by themselves
        count_std, inner = math.inf, last.estimator
        last = inner.steps[-1][1] if hasattr(inner, "steps") else inner
        direct = direct and last is inner
    return Parts(
        mask,
        learns and not (shows if public_target is None else public_target),
        Relation.of(events[0].neighboring_relation),
        last,
        direct,
        count_std,
    )


# Canaries of a one-run audit: records with two values each, told in a table.


KINDS = ("flip", "mirror", "noise", "swap")
TAILS = ("auto", "other", "null")


@dataclasses.dataclass(frozen=True)
class Canaries:
    """Records of a table with two values each."""

    rows: np.ndarray  # their positions in the table
    X_a: Any  # what heads puts into the table
    y_a: Any
    X_b: Any  # the other value, which scores compare with
    y_b: Any
    X_tails: Any  # what tails puts there: the other value or null; None: nothing
    y_tails: Any
    kind: str
    tails: str  # "other", "null" or "out", as in `OneRunResult`
    n_steps: int  # neighbouring steps from heads to tails, 1 or 2

    def table(self, X: Any, y: Any, heads: np.ndarray) -> tuple[Any, Any]:
        """Return the table that the coins choose."""
        n_rows, n = n_records(X), len(self.rows)
        chosen = np.arange(n_rows)
        chosen[self.rows] = n_rows + np.arange(n)
        if self.tails == "out":
            chosen = np.delete(chosen, self.rows[~heads])
            return _stacked([X, self.X_a], chosen), _stacked([y, self.y_a], chosen)
        chosen[self.rows[~heads]] += n
        return (
            _stacked([X, self.X_a, self.X_tails], chosen),
            _stacked([y, self.y_a, self.y_tails], chosen),
        )


def make_canaries(
    parts: Parts,
    X: Any,
    y: Any,
    *,
    n_canaries: int,
    kind: Any,
    tails: str,
    rng: np.random.Generator,
) -> Canaries:
    """Return canaries among the records of a table; see `audit_estimator`."""
    rows = np.sort(rng.choice(n_records(X), n_canaries, replace=False))
    if kind is None:
        numeric = not hasattr(X, "iloc") or all(
            X.dtypes.iloc[j].kind in "fiub" for j in parts.columns
        )
        plain = numeric and parts.setting("encoder") is None
        kind = ("noise" if plain else "swap") if len(parts.columns) else "flip"
    pair = _pair(parts, X, y, rows, kind, rng)
    name = kind if isinstance(kind, str) else "given"
    relation, null = parts.relation, None
    if relation.counts_are_public and not relation.replaces and tails != "other":
        null = _null(parts, y, rows, *pair[:2], asked=tails == "null")
    if not relation.counts_are_public:
        told, tails, n_steps = (None, None), "out", 1
    elif relation.replaces:
        told, tails, n_steps = pair[2:], "other", 1
    elif null is not None:
        told, tails, n_steps = null, "null", 1
    elif tails == "null":
        raise ValueError(
            "tails='null' needs a null that this table can tell: declared classes or a "
            "regressor, with a private target, or a private column without bounds in "
            "an X of floats; choose tails='other'."
        )
    else:
        told, tails, n_steps = pair[2:], "other", 2
    return Canaries(rows, *pair, *told, kind=name, tails=tails, n_steps=n_steps)


def _pair(
    parts: Parts, X: Any, y: Any, rows: np.ndarray, kind: Any, rng: np.random.Generator
) -> tuple[Any, Any, Any, Any]:
    """Return X_a, y_a, X_b, y_b of a kind, or with a user's other values."""
    columns, private = parts.columns, parts.private_target
    y_a = y_b = _rows(y, rows)
    a = b = _cells(X, rows, columns)
    if not isinstance(kind, str):
        fits = isinstance(kind, tuple) and len(kind) == 2 and hasattr(kind[0], "shape")
        if not fits or kind[0].shape != X.shape:
            raise ValueError(
                f"canaries={shown(kind)} must be one of {', '.join(map(repr, KINDS))}, "
                "None, or a pair (X, y) of other values, of the shape of X and y."
            )
        table, given = kind
        b = _cells(table, rows, columns)
        if private and given is not None:
            y_b = _like(y, np.asarray(given)[rows])
    elif kind not in KINDS:
        raise ValueError(
            f"canaries={shown(kind)} is unknown; choose one of "
            f"{', '.join(map(repr, KINDS))}, None, or a pair (X, y) of other values."
        )
    elif not (private if kind == "flip" else len(columns)):
        part = "target" if kind == "flip" else "columns"
        raise ValueError(
            f"canaries={kind!r} changes the {part} of a record, and here they are "
            "public or not used: leave canaries out for those that fit."
        )
    elif kind == "flip":
        y_a, y_b = _flipped(parts, y, len(rows), rng)
    elif kind == "swap":
        others = np.roll(rows, 1)
        b = _cells(X, others, columns)
        y_b = _rows(y, others if private else rows)
    else:
        low, high = _ranges(parts, X)
        if kind == "mirror":
            b = low + high - a.astype(float)
        else:
            signs = rng.random((len(rows), len(low))) < 0.5
            a, b = np.where(signs, high, low), np.where(signs, low, high)
            if private:
                y_a = y_b = _flipped(parts, y, len(rows), rng)[0]
    X_a, X_b = (_with_private(X, rows, columns, values) for values in (a, b))
    return X_a, y_a, X_b, y_b


def _flipped(parts: Parts, y: Any, n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return random labels, or ends of the target's bounds, and other ones."""
    if is_regressor(parts.last):
        bounds = parts.setting("target_bounds")
        seen = _ends(np.asarray(y, dtype=float)[:, None])
        labels = np.ravel(seen if bounds is None else bounds).astype(float)
    else:
        classes = parts.setting("classes")
        labels = np.unique(np.asarray(y)) if classes is None else np.asarray(classes)
    first = rng.integers(len(labels), size=n)
    second = (first + rng.integers(1, len(labels), size=n)) % len(labels)
    return _like(y, labels[first]), _like(y, labels[second])


def _null(
    parts: Parts, y: Any, rows: np.ndarray, X_a: Any, y_a: Any, asked: bool
) -> tuple[Any, Any] | None:
    """Return records that count as null, None if a table cannot tell them.

    Null by its label is no record where so few labels would be left that a fit may take
    y for one with other labels than `classes`, and refuse it: unless it is asked for.
    """
    if parts.setting("on_invalid") == "raise":
        return None
    classes = parts.setting("classes")
    if parts.private_target and is_regressor(parts.last):
        return X_a, _like(y, np.full(len(rows), np.nan))
    if parts.private_target and is_classifier(parts.last) and classes is not None:
        labels = np.asarray(classes)
        if asked or _labels_suffice(parts, labels, y, rows, y_a):
            if labels.dtype.kind in "iuf":
                return X_a, _like(y, np.full(len(rows), labels.max() + 1))
            if labels.dtype.kind == "U":
                return X_a, _like(y, np.full(len(rows), "no " + " ".join(labels)))
    unbounded = parts.setting("bounds") is False and parts.setting("encoder") is None
    floats = isinstance(X_a, np.ndarray) and X_a.dtype.kind == "f"
    if parts.direct and unbounded and floats and len(parts.columns):
        X_null = X_a.copy()
        X_null[:, parts.columns] = np.nan
        return X_null, y_a
    return None


def _labels_suffice(
    parts: Parts, labels: np.ndarray, y: Any, rows: np.ndarray, y_a: Any
) -> bool:
    """Whether no released count will look empty: it takes three standard deviations.

    Coins take half of the canaries of a class away. Beyond those three there are four
    of the count and its coins, which all fits but 1 of 30,000 keep to.
    """
    others, canaries = np.delete(np.asarray(y), rows), np.asarray(y_a)
    for label in labels:
        n_left, n_coins = (others == label).sum(), (canaries == label).sum()
        spread = math.hypot(parts.count_std, math.sqrt(n_coins) / 2)
        if n_left + n_coins / 2 < 3 * parts.count_std + 4 * spread:
            return False
    return True


def _ranges(parts: Parts, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the private columns: declared, or else seen."""
    columns, bounds = parts.columns, parts.setting("bounds")
    declared = isinstance(bounds, tuple | list) and len(bounds) == 2
    seen = _ends(_cells(X, np.arange(n_records(X)), columns).astype(float))
    if not (declared and parts.direct and parts.setting("encoder") is None):
        return seen
    ends = [
        np.broadcast_to(np.asarray(end, dtype=float), len(parts.mask))[columns]
        for end in bounds
    ]
    low, high = (
        np.where(np.isfinite(a), a, b) for a, b in zip(ends, seen, strict=True)
    )
    return low, high


def _ends(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the largest finite number of each column, or 0."""
    known = np.isfinite(values)
    low = np.where(known, values, np.inf).min(axis=0)
    high = np.where(known, values, -np.inf).max(axis=0)
    some = known.any(axis=0)
    return np.where(some, low, 0.0), np.where(some, high, 0.0)


def _cells(X: Any, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    if hasattr(X, "iloc"):
        return X.iloc[rows, columns].to_numpy()
    found = _rows(X, rows)
    return (found.toarray() if issparse(X) else found)[:, columns]


def _with_private(X: Any, rows: np.ndarray, columns: np.ndarray, values: Any) -> Any:
    """Return rows of X with other values in some columns."""
    found = _rows(X, rows)
    if hasattr(X, "iloc"):
        for column, held in zip(X.columns[columns], values.T, strict=True):
            found[column] = held
        return found.astype(dict(X.dtypes))
    found = found.toarray() if issparse(X) else found
    found[:, columns] = values
    return type(X)(found) if issparse(X) else found


def _rows(table: Any, rows: np.ndarray) -> Any:
    if hasattr(table, "iloc"):
        return table.iloc[rows].reset_index(drop=True)
    if issparse(table):
        return table.tocsr()[rows]
    return None if table is None else table[rows]


def _like(y: Any, values: np.ndarray) -> Any:
    """Return values as a target of the kind of y, with its name."""
    return type(y)(values, name=y.name) if hasattr(y, "iloc") else values


def _stacked(tables: list[Any], chosen: np.ndarray) -> Any:
    if tables[0] is None:
        return None
    if hasattr(tables[0], "iloc"):
        import pandas as pd

        return _rows(pd.concat(tables, ignore_index=True), chosen)
    stack = vstack if issparse(tables[0]) else np.concatenate
    return _rows(stack(tables), chosen)


# Scores of canaries: where a model seems to have seen the first of two values.


#: ``score(model, X_a, y_a, X_b, y_b)``; large where the model saw the first value.
Score = Callable[[Any, Any, Any, Any, Any], np.ndarray]
# Noise over signal in the directions of the canaries, as far as they can be told.
_RATIOS = np.geomspace(1e-6, 1e6, 97)
_LEAST_PROBABILITY = 1e-6


def linear_score(model: Any, X_a: Any, y_a: Any, X_b: Any, y_b: Any) -> np.ndarray:
    r"""Return how far the coefficients of a linear model lean toward first values.

    The first gradient of a record is its residual at the start times its mapped row.
    Let d be the difference of those of the two values. The coefficients are roughly a
    sum of :math:`\pm d_i` and noise, and each inner product :math:`z_i` with them has
    the other canaries in it. With G the matrix of the inner products of all d, the
    score is :math:`(G + \lambda I)^{-1} z`, their best linear prediction, for the ratio
    of noise to signal under which z is most likely.
    """
    if hasattr(model, "steps"):
        before, model = model[:-1], model.steps[-1][1]
        X_a, X_b = before.transform(X_a), before.transform(X_b)
    rows = [
        model.input_scaler_(X if issparse(X) else np.asarray(X, dtype=float))
        for X in (X_a, X_b)
    ]
    rows = [X.toarray() if issparse(X) else X for X in rows]
    residuals = _first_residuals(model, y_a, y_b)
    coef = np.atleast_2d(model.coef_)
    one, other = (
        ((X @ coef.T) * r).sum(axis=1) for X, r in zip(rows, residuals, strict=True)
    )
    z = one - other
    X, r = np.vstack(rows), np.vstack((residuals[0], -residuals[1]))
    whole = (X @ X.T) * (r @ r.T)
    n = len(z)
    gram = whole[:n, :n] + whole[:n, n:] + whole[n:, :n] + whole[n:, n:]
    return _separated(z, gram)


def _first_residuals(model: Any, y_a: Any, y_b: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the residuals of targets, one column for each output, at the start."""
    targets = [np.asarray(y) for y in (y_a, y_b)]
    if not is_classifier(model):
        middle = np.median(np.concatenate(targets).astype(float))
        return tuple((y.astype(float) - middle)[:, None] for y in targets)
    classes = np.asarray(model.classes_)
    if len(classes) == 2:
        return tuple((y == classes[1])[:, None] - 0.5 for y in targets)
    return tuple((y[:, None] == classes) - 1 / len(classes) for y in targets)


def _separated(z: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """Return the best linear prediction of coins from inner products."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-9 * max(float(values[-1]), 1e-300)
    values, vectors = values[kept], vectors[:, kept]
    seen = vectors.T @ z
    if not seen.any():
        return np.zeros_like(z)
    usual = values.mean()

    def likelihood(ratio: float) -> float:
        variances = values * (values + ratio * usual)
        scale = np.mean(seen**2 / variances)
        return -len(seen) * np.log(scale) - np.log(variances).sum()

    ratio = max(_RATIOS, key=likelihood)
    return vectors @ (seen / (values + ratio * usual))


def margin_score(model: Any, X_a: Any, y_a: Any, X_b: Any, y_b: Any) -> np.ndarray:
    """Return how much more the first value is on the side of its label."""
    return _sides(model, X_a, y_a) - _sides(model, X_b, y_b)


def _sides(model: Any, X: Any, y: Any) -> np.ndarray:
    """Return the margin of the label of each record beside the other labels."""
    if hasattr(model, "decision_function"):
        margins = model.decision_function(X)
    else:  # bounded, since some models are sure of what they say
        margins = np.log(np.maximum(model.predict_proba(X), _LEAST_PROBABILITY))
    codes = np.argmax(np.asarray(y)[:, None] == np.asarray(model.classes_), axis=1)
    if margins.ndim == 1:
        return np.where(codes == 1, margins, -margins)
    own = margins[np.arange(len(codes)), codes]
    return own - (margins.sum(axis=1) - own) / (margins.shape[1] - 1)


def error_score(model: Any, X_a: Any, y_a: Any, X_b: Any, y_b: Any) -> np.ndarray:
    """Return the squared error at the other value, less that at the first."""
    errors = [
        (np.asarray(y, dtype=float) - model.predict(X)) ** 2
        for X, y in ((X_a, y_a), (X_b, y_b))
    ]
    return errors[1] - errors[0]


# Bounds on right guesses of coins: what one run of a mechanism can tell of many.
#
# C of n guesses of m coins are right. The bounds are proved in docs/theory/one_run.rst:
# by the exchange lemma, for approximate DP (`steinke_p_value`) and f-DP (`refutes`).


def steinke_p_value(
    n_canaries: int, n_guesses: int, n_correct: int, epsilon: float, delta: float
) -> float:
    """Return a bound on the probability of so many right guesses under a claim.

    The epsilon and the delta are those of a claim for one changed coin, and
    ``0 <= n_correct <= n_guesses <= n_canaries``.
    """
    if n_correct == 0:
        return 1.0
    chance = float(expit(epsilon))
    tail = float(binom.sf(n_correct - 1, n_guesses, chance))
    mass = float(binom.pmf(n_correct, n_guesses, chance))
    if mass == 0:  # below the floats: far out, or far in
        return 0.0 if tail == 0 else 1.0
    lost = n_canaries * delta * tail / mass * (1 - tail) / n_correct
    return min(1.0, tail + lost)


def steinke_bound(
    n_canaries: int,
    n_guesses: int,
    n_correct: int,
    *,
    delta: float,
    significance: float,
    n_steps: int = 1,
) -> float:
    r"""Return the epsilon that so many right guesses refute at delta, or 0.

    It is that of one neighbouring step, where there are two from one value of a canary
    to the other: by group privacy these are
    :math:`(2\varepsilon, (1 + e^\varepsilon)\delta)`-DP.
    """

    def refuted(epsilon: float) -> bool:
        claim = (epsilon, delta)
        if n_steps == 2:
            claim = 2 * epsilon, min(1.0, (1 + math.exp(epsilon)) * delta)
        p = steinke_p_value(n_canaries, n_guesses, n_correct, *claim)
        return p <= significance

    return largest(refuted, LARGEST_EPSILON)


def refutes(
    n_canaries: int, n_guesses: int, n_correct: int, least: Least, significance: float
) -> bool:
    """Whether a trade-off, the inverse of G, makes so many right guesses too rare."""
    if n_correct == 0:
        return False
    right = significance * n_correct / n_canaries
    wrong = significance * (n_guesses - n_correct) / n_canaries
    most = n_guesses / n_canaries * (1 + 1e-12)
    for k in range(n_correct, 0, -1):
        needed = least(min(1.0, right))
        if needed <= wrong:  # and so it stays
            return False
        right += (needed - wrong) * (k - 1) / (n_guesses - k + 1)
        wrong = needed
        if right + wrong > most:
            return True
    return False


def most_allowed(
    n_canaries: int, n_guesses: int, least: Least, significance: float
) -> int:
    """Return the largest number of right guesses that does not refute a claim."""

    def refuted(n_correct: int) -> bool:
        return refutes(n_canaries, n_guesses, n_correct, least, significance)

    return bisect_left(range(n_guesses + 1), True, key=refuted) - 1


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

    def _draw(self, ax: Any) -> None:
        """Draw right guesses against guesses, beside what the claim allows."""
        guesses, most = zip(*self.allowed, strict=True)
        chance = np.array(guesses) / 2
        ax.plot(
            guesses, most, label=f"most that epsilon {self.claimed_epsilon:.4g} allows"
        )
        ax.plot(guesses, chance, ":", label="coins guessed blindly")
        ax.plot(*zip(*self.counts, strict=True), "o", label="right guesses")
        ax.set(xlabel="guesses", ylabel="right guesses", title=self.subject)
        ax.grid(True, alpha=0.3)


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
        canary: its other value, or null. "auto": null if the table can tell it, and
        leaves each class so many labels that its noisy count does not look empty.
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
    by the exchange lemma of :doc:`/theory/one_run`.

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
    made = hasattr(estimator, "get_params") and not isinstance(estimator, type)
    if not made or not hasattr(estimator, "fit"):
        raise ValueError(
            f"estimator={shown(estimator)} must be an estimator or a Pipeline of this "
            "package's."
        )
    own = prepared(estimator, None)
    check_number("confidence", confidence, high=1)
    check_number(
        "random_state", random_state, include_low=True, integral=True, also=(None,)
    )
    rng = np.random.default_rng(random_state)
    parts = parts_of(own, X, y, public_features, public_target)
    n_canaries = _count("n_canaries", n_canaries, n_records(X))
    _count("n_guesses", n_guesses, n_canaries)
    check_choice("tails", tails, TAILS)
    canary = make_canaries(
        parts, X, y, n_canaries=n_canaries, kind=canaries, tails=tails, rng=rng
    )
    heads = rng.random(n_canaries) < 0.5
    model, iterate = fitted(own, *canary.table(X, y, heads))
    scores = _scores(model if score else iterate, canary, score)
    counts = _right_guesses(scores, heads, n_guesses)
    return _result(report(model), canary, counts, float(confidence))


def _result(
    found: PrivacyReport, made: Canaries, counts: Counts, confidence: float
) -> OneRunResult:
    """Return what the numbers of right guesses say of a report."""
    if not math.isfinite(found.epsilon):
        raise ValueError(NO_CLAIM)
    if found.unit == "person":
        raise ValueError(
            f"{found.subject} protects persons, and canaries are rows that come and go "
            "by themselves: audit it by audit_replay, with groups in fit_params."
        )
    n, delta, n_steps = len(made.rows), found.delta, made.n_steps
    level = (1 - confidence) / (_METHODS * len(counts))

    def bounds(n_guesses: int, n_correct: int) -> tuple[float, float]:
        """Return the lower bound for any mechanism, and that of the family."""
        return steinke_bound(
            n, n_guesses, n_correct, delta=delta, significance=level, n_steps=n_steps
        ), epsilon_of_family(
            found.events,
            delta,
            lambda least: refutes(n, n_guesses, n_correct, least, level),
            n_steps,
        )

    shown_by = [bounds(*one) for one in counts]
    best = int(np.argmax(np.max(shown_by, axis=1)))
    sizes = np.unique(np.linspace(1, n, _CURVE_POINTS).astype(int)).tolist()
    least = least_of(found.events, n_steps)
    steinke, f_dp = np.max(shown_by, axis=0).tolist()
    return OneRunResult(
        subject=found.subject,
        neighboring_relation=found.neighboring_relation,
        claimed_epsilon=found.epsilon,
        delta=delta,
        lower_bound=max(steinke, f_dp),
        confidence=confidence,
        n_trials=n,
        n_canaries=n,
        n_guesses=counts[best][0],
        n_correct=counts[best][1],
        counts=tuple(counts),
        steinke=steinke,
        f_dp=f_dp,
        reach=max(max(bounds(guesses, guesses)) for guesses, _ in counts),
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
        last = model.steps[-1][1] if hasattr(model, "steps") else model
        if not (is_classifier(model) or is_regressor(model)):
            raise ValueError(
                f"{type(model).__name__} is neither classifier nor regressor: pass "
                "score(model, X_a, y_a, X_b, y_b), which says where the model seems to "
                "have seen the first value."
            )
        linear = hasattr(last, "coef_") and hasattr(last, "input_scaler_")
        if linear and not hasattr(last, "encoder_"):
            score = linear_score
        else:
            score = margin_score if is_classifier(model) else error_score
    if not callable(score):
        raise ValueError(
            f"score={shown(score)} must be None or a function: "
            "score(model, X_a, y_a, X_b, y_b)."
        )
    pair = made.X_a, made.y_a, made.X_b, made.y_b
    found = np.asarray(score(model, *pair), dtype=float)
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


def _count(name: str, value: Any, most: int) -> int:
    """Return a count, checked; None is all, or as many as take no long time."""
    limits = {"low": 1, "high": most + 1, "include_low": True, "integral": True}
    check_number(name, value, **limits, also=(None,))
    return min(most, _MOST_CANARIES) if value is None else int(value)
